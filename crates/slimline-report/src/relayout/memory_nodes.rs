//! Where pages should live on a machine of several memory nodes.

use serde::Serialize;
use slimline_analyze::origins::{By, Origins};
use slimline_analyze::relayout::{Taken, TimeRatio, best};
use slimline_simulate::page_use::KeyUse;

use super::PredictedRow;
use crate::full_trace::known;
use crate::simulation::{DataRow, data_row};

/// Data that is told of, at most.
const MOST_DATA: usize = 8;
/// Part of what is served from afar that data must have to be told of.
const LEAST_FAR: f64 = 0.02;

/// What the program takes with its pages elsewhere, of the same accesses each.
#[derive(Clone, Debug)]
pub struct NodesTaken {
    /// Each page where it is touched first.
    pub touched: Taken,
    /// Pages of all nodes in turn.
    pub interleaved: Taken,
    /// Each page near to the threads that use it most.
    pub used: Taken,
    /// By key.
    pub keys: Vec<KeyUse>,
}

/// What to do about where pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodesAdvice {
    /// Spread them over all nodes.
    Interleave,
    /// Touch each first where it is used.
    TouchWhereUsed,
}

/// What is predicted for pages in other nodes' memories.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryNodesRow {
    /// None where neither saves enough.
    pub advice: Option<NodesAdvice>,
    /// Pages of all nodes in turn.
    pub interleaved: PredictedRow,
    /// Each page near to the threads that use it most.
    pub touched_where_used: PredictedRow,
    /// Accesses that memory served.
    pub served: u64,
    /// Those of them to a node's memory that is not the thread's …
    pub far: u64,
    /// … and with each page near to those threads.
    pub far_as_used: u64,
    /// Data that most of these are to, that first.
    pub data: Vec<NodesDataRow>,
    /// To other data.
    pub other_far: u64,
}

/// Accesses to some data.
#[derive(Clone, Debug, Serialize)]
pub struct NodesDataRow {
    /// What it is called; none where it is not known.
    pub name: Option<String>,
    /// What it is.
    #[serde(flatten)]
    pub data: DataRow,
    /// See [`MemoryNodesRow::served`].
    pub served: u64,
    /// See there.
    pub far: u64,
    /// See there.
    pub far_as_used: u64,
    /// The line that touches most of its pages first, as `file:line`; none where it is not known.
    pub touched_at: Option<String>,
    /// How many threads touch pages of it first.
    pub touching_threads: u64,
}

impl MemoryNodesRow {
    pub(super) fn of(taken: &NodesTaken, origins: &Origins) -> Self {
        let NodesTaken { touched, interleaved, used, keys } = taken;
        // What needs no change of the program is simpler.
        let ratios = [interleaved, used].map(|taken| TimeRatio::of(taken, touched));
        let advice = best(&ratios).map(|best| [NodesAdvice::Interleave, NodesAdvice::TouchWhereUsed][best]);
        let of_key = |key: u32| keys.get(key as usize).copied().unwrap_or_default();
        let add = |sum: &mut KeyUse, of: KeyUse| {
            sum.served += of.served;
            sum.far += of.far;
            sum.far_as_used += of.far_as_used;
            sum.touched_pages += of.touched_pages;
        };
        let mut all = KeyUse::default();
        let mut sums = origins.sums(|key| origins.number(key, By::Data), of_key, add);
        sums.iter().for_each(|(_, of)| add(&mut all, *of));
        sums.sort_by_key(|(_, of)| std::cmp::Reverse(of.far));
        sums.retain(|(_, of)| of.far > 0 && of.far as f64 >= all.far as f64 * LEAST_FAR);
        sums.truncate(MOST_DATA);
        let data: Vec<NodesDataRow> = sums.into_iter().map(|(data, of)| row(data, of, (keys, origins))).collect();
        Self {
            advice,
            interleaved: PredictedRow::of(interleaved, touched),
            touched_where_used: PredictedRow::of(used, touched),
            served: all.served,
            far: all.far,
            far_as_used: all.far_as_used,
            other_far: all.far - data.iter().map(|of| of.far).sum::<u64>(),
            data,
        }
    }
}

fn row(data: u32, of: KeyUse, (keys, origins): (&[KeyUse], &Origins)) -> NodesDataRow {
    let pages = |key: u32| match origins.number(key, By::Data) == data {
        true => keys.get(key as usize).map_or(0, |of| of.touched_pages),
        false => 0,
    };
    let by = |by: By| {
        let mut sums = origins.sums(|key| origins.number(key, by), pages, |sum, pages| *sum += pages);
        sums.retain(|(_, pages)| *pages > 0);
        sums
    };
    let line = by(By::Line).into_iter().max_by_key(|(_, pages)| *pages);
    let of_data = &origins.data()[data as usize];
    NodesDataRow {
        name: known(&of_data.name),
        data: data_row(of_data),
        served: of.served,
        far: of.far,
        far_as_used: of.far_as_used,
        touched_at: line.and_then(|(line, _)| known(origins.name(line))),
        touching_threads: by(By::Thread).len() as u64,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use slimline_analyze::full_trace::findings::Place;
    use slimline_analyze::origins::{Data, DataKind, Names, Origin, Thread};
    use slimline_simulate::waiting::Times;

    use super::*;

    fn taken(expected: f64) -> Taken {
        Taken { times: Times { least: expected, expected, most: expected }, ..Taken::default() }
    }

    /// Of an array that one thread fills and two use, and a small one; the cycles of both policies by 100 as it is.
    pub(crate) fn nodes(interleaved: f64, used: f64) -> MemoryNodesRow {
        let mut names = Names::default();
        let [fill, sum] = ["/src/sky.c:7", "/src/sky.c:21"].map(|line| names.number(line));
        let key = |data, line, thread| Origin { data, line, thread, ..Origin::default() };
        let at = |line| Place { file: "/src/sky.c".to_owned(), line, ..Place::default() };
        let heap = Data { kind: DataKind::Heap, name: "stars".to_owned(), allocated_at: at(5), ..Data::default() };
        let small = Data { kind: DataKind::Static, name: "moons".to_owned(), ..Data::default() };
        let threads = [0, 1].map(|tid| Thread { process: 0, tid }).to_vec();
        let all = vec![key(1, fill, 0), key(1, sum, 0), key(1, sum, 1), key(2, sum, 1)];
        let origins = Origins::new(all, vec![Data::default(), heap, small], names, threads);
        let of = |served, far, far_as_used, touched_pages| KeyUse { served, far, far_as_used, touched_pages };
        let keys = vec![of(100, 0, 50, 10), of(500, 0, 0, 1), of(500, 500, 0, 0), of(5, 1, 1, 1)];
        let [touched, interleaved, used] = [100.0, interleaved, used].map(taken);
        MemoryNodesRow::of(&NodesTaken { touched, interleaved, used, keys }, &origins)
    }

    #[test]
    fn data_is_told_by_what_comes_from_afar() {
        let row = nodes(90.0, 60.0);
        assert_eq!(row.advice, Some(NodesAdvice::TouchWhereUsed));
        assert_eq!((row.served, row.far, row.far_as_used, row.other_far), (1105, 501, 51, 1));
        assert_eq!(row.data.len(), 1);
        let stars = &row.data[0];
        assert_eq!((stars.name.as_deref(), stars.far, stars.far_as_used), (Some("stars"), 500, 50));
        assert_eq!((stars.touched_at.as_deref(), stars.touching_threads), (Some("/src/sky.c:7"), 1));
    }

    #[test]
    fn no_change_is_simpler_and_less_than_two_percent_nothing() {
        assert_eq!(nodes(62.0, 60.0).advice, Some(NodesAdvice::Interleave));
        assert_eq!(nodes(120.0, 99.0).advice, None);
    }
}
