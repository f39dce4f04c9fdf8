//! Two runs of a program, region by region.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::{RegionPlace, RegionRow, RegionsProcess, RegionsReport};

/// A run beside an earlier one.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What the earlier run was of.
    pub command: Vec<String>,
    /// Processes of both, paired by the names of their programs, in the order of their numbers; without those that one run alone has.
    pub processes: Vec<ComparedProcess>,
    /// How many processes one run alone has.
    pub unpaired: usize,
}

/// A process beside an earlier one.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedProcess {
    /// Number of the later one.
    pub pid: u32,
    /// The earlier one.
    pub then: ComparedRun,
    /// The later one.
    pub now: ComparedRun,
    /// Regions, in the order of the later run; those behind that it does not have.
    pub regions: Vec<ComparedRegion>,
}

/// What of a process is compared.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ComparedRun {
    /// How long it ran, in nanoseconds.
    pub duration_ns: u64,
    /// Its threads.
    pub threads: u64,
    /// Share of its duration times its threads that OpenMP costs.
    pub overhead: f64,
}

/// A region beside the same one earlier.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedRegion {
    /// What it is, and where: now, or where that is nothing, then.
    #[serde(flatten)]
    pub at: RegionPlace,
    /// Then; none where it was not met.
    pub then: Option<ComparedTimes>,
    /// Now.
    pub now: Option<ComparedTimes>,
}

/// What of a region is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ComparedTimes {
    /// Executions, over all threads.
    pub count: u64,
    /// Time of the thread that was longest in it, with the regions within, in nanoseconds.
    pub longest_ns: u64,
    /// Time of all threads.
    pub exec_ns: u64,
}

impl From<&RegionRow> for ComparedTimes {
    fn from(row: &RegionRow) -> Self {
        let longest_ns = row.threads.iter().map(|(_, times)| times.exec_ns).max().unwrap_or(0);
        Self { count: row.sum.count, longest_ns, exec_ns: row.sum.exec_ns }
    }
}

impl Comparison {
    /// Of a run with an earlier one.
    #[must_use]
    pub fn new(then: &RegionsReport, now: &RegionsReport) -> Self {
        let mut earlier: BTreeMap<&str, VecDeque<&RegionsProcess>> = BTreeMap::new();
        for process in &then.processes {
            earlier.entry(name_of(process)).or_default().push_back(process);
        }
        let mut processes = Vec::new();
        for process in &now.processes {
            if let Some(before) = earlier.get_mut(name_of(process)).and_then(VecDeque::pop_front) {
                processes.push(ComparedProcess::new(before, process));
            }
        }
        let unpaired = then.processes.len() + now.processes.len() - 2 * processes.len();
        Self { command: then.command.clone(), processes, unpaired }
    }
}

fn name_of(process: &RegionsProcess) -> &str {
    process.program.rsplit('/').next().unwrap_or_default()
}

impl ComparedRegion {
    /// How many times as fast it is now, by the threads that were longest in it; none where a run has not met it.
    #[must_use]
    pub fn speed_up(&self) -> Option<f64> {
        let (then, now) = (self.then?, self.now?);
        (now.longest_ns > 0).then(|| then.longest_ns as f64 / now.longest_ns as f64)
    }
}

impl ComparedProcess {
    /// How many times as fast it is now.
    #[must_use]
    pub fn speed_up(&self) -> f64 {
        self.then.duration_ns as f64 / self.now.duration_ns.max(1) as f64
    }

    fn new(then: &RegionsProcess, now: &RegionsProcess) -> Self {
        let run = |process: &RegionsProcess| ComparedRun {
            duration_ns: process.duration_ns,
            threads: process.threads,
            overhead: process.overhead.total,
        };
        let pairs = pairs(&then.regions, &now.regions);
        let mut is_paired = vec![false; then.regions.len()];
        pairs.iter().flatten().for_each(|place| is_paired[*place] = true);
        let later = now.regions.iter().zip(&pairs).map(|(row, pair)| ComparedRegion {
            at: row.at.clone(),
            then: pair.map(|place| (&then.regions[place]).into()),
            now: Some(row.into()),
        });
        let gone = then.regions.iter().zip(is_paired).filter(|(_, is_paired)| !is_paired);
        let gone = gone.map(|(row, _)| ComparedRegion { at: row.at.clone(), then: Some(row.into()), now: None });
        Self { pid: now.pid, then: run(then), now: run(now), regions: later.chain(gone).collect() }
    }
}

/// By region of `now`, its place in `then`: that of the same line, else of those of the same sort in the same function, one after the
/// other, as lines move when a program is changed.
fn pairs(then: &[RegionRow], now: &[RegionRow]) -> Vec<Option<usize>> {
    type Key<'a> = (&'a str, &'a Option<String>, &'a Option<String>, &'a Option<String>, u32, Option<u32>);
    fn key(row: &RegionRow, has_line: bool) -> Key<'_> {
        let RegionPlace { kind, name, function, file, line, part, .. } = &row.at;
        (kind, name, function, file, *part, line.filter(|_| has_line))
    }
    let mut pairs = vec![None; now.len()];
    let mut is_free = vec![true; then.len()];
    for has_line in [true, false] {
        let in_order = |rows: &[RegionRow]| {
            let mut places: Vec<usize> = (0..rows.len()).collect();
            places.sort_by_key(|place| (rows[*place].at.line, rows[*place].number));
            places
        };
        let mut free: BTreeMap<Key<'_>, VecDeque<usize>> = BTreeMap::new();
        for place in in_order(then).into_iter().filter(|place| is_free[*place]) {
            free.entry(key(&then[place], has_line)).or_default().push_back(place);
        }
        for place in in_order(now) {
            if pairs[place].is_none()
                && let Some(found) = free.get_mut(&key(&now[place], has_line)).and_then(VecDeque::pop_front)
            {
                pairs[place] = Some(found);
                is_free[found] = false;
            }
        }
    }
    pairs
}
