//! Loops of which other orders were tried.

use std::collections::BTreeSet;

use serde::Serialize;
use slimline_analyze::origins::Origins;
use slimline_analyze::relayout::Taken;
use slimline_analyze::relayout::loops::source::{Bound, LoopPair};
use slimline_analyze::relayout::loops::{
    Dependence, FoundNests, JudgedLoops, MeasuredNest, Nest, NestStream, TriedOrder, Withheld,
};
use slimline_attribute::code::order::StepOrder;
use slimline_simulate::access::AccessKind;
use slimline_simulate::locality::exchange::{Order, Turn, turn_elsewhere};

use super::{AdvisedCode, ENOUGH, PredictedRow};
use crate::full_trace::known;
use crate::simulation::file_and_line;

/// Names that a caution tells at most.
const MOST_NAMES: usize = 4;

/// Loops of which other orders were tried.
#[derive(Clone, Debug, Serialize)]
pub struct LoopRow {
    /// Where the access is that walks against the layout, as `file:line`; the file by its whole path where it is known.
    pub at: Option<String>,
    /// The function that it is in.
    pub function: Option<String>,
    /// Lines of that file where the outer and the inner loop begin, where the source is here and they are two `for` loops.
    pub loop_lines: Option<[u32; 2]>,
    /// Mean steps of the inner loop.
    pub inner_times: u64,
    /// Mean times around the outer one.
    pub outer_times: u64,
    /// Part of the program's time, as predicted.
    pub share: f64,
    /// Accesses of theirs.
    pub accesses: u64,
    /// What walks through what.
    pub walks: Vec<LoopWalkRow>,
    /// What is advised; none where they should be left alone.
    pub advice: Option<AdvisedLoops>,
    /// Why they should be left alone, in words.
    pub reason: Option<String>,
    /// All orders that were tried.
    pub tried: Vec<TriedOrderRow>,
}

/// An instruction of the loops.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LoopWalkRow {
    /// What it accesses.
    pub data: String,
    /// `load`, `store` or `modify`.
    pub kind: &'static str,
    /// Its line, as `file:line`.
    pub at: Option<String>,
    /// From one step of the inner loop to the next; none where it is accessed once for each time around the outer one.
    pub inner_bytes: Option<i64>,
    /// From one time around the outer loop to the next.
    pub outer_bytes: i64,
}

/// An order that is advised.
#[derive(Clone, Debug, Serialize)]
pub struct AdvisedLoops {
    /// Which.
    #[serde(flatten)]
    pub order: TriedOrderRow,
    /// What to do: the heads of the loops. Predicted is what the nest takes by a replay of it, of what it takes of the accesses that were replayed.
    #[serde(flatten)]
    pub change: AdvisedCode,
}

/// An order that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TriedOrderRow {
    /// `interchange` or `tile`.
    pub change: &'static str,
    /// Steps of each side of a tile.
    pub tile: Option<u64>,
    /// Elements of the vectors that a compiler is taken to make of the inner loop then; 1 where it makes none.
    pub lanes: u64,
    /// Run time by that of the program as it is.
    pub time_ratio: f64,
}

/// Steps of each side of a tile; of an interchange none.
fn tile_of(order: Order) -> Option<u64> {
    if let Order::Tiled(tile) = order { Some(tile) } else { None }
}

impl TriedOrderRow {
    fn of(tried: &TriedOrder) -> Self {
        let tile = tile_of(tried.order);
        let change = if tile.is_some() { "tile" } else { "interchange" };
        Self { change, tile, lanes: tried.lanes, time_ratio: tried.ratio.expected }
    }

    /// What it is, in words.
    pub(crate) fn words(&self) -> String {
        self.tile.map_or_else(|| self.change.to_owned(), |tile| format!("{} {tile}", self.change))
    }
}

/// What of the source of some loops is known.
#[derive(Clone, Debug, Default)]
pub struct LoopSource {
    /// The file of the access that walks against the layout, by its whole path where it is known.
    pub file: Option<String>,
    /// The loops; none where the source is not here, or they are written otherwise.
    pub pair: Option<LoopPair>,
    /// What the machine code says about the order of steps; none where it is not here.
    pub steps: Option<StepOrder>,
    /// Structures of the same data for which a layout is advised.
    pub relaid: Vec<String>,
}

/// What the rows are made of.
#[derive(Clone, Copy, Debug)]
pub struct LoopFacts<'a> {
    /// What was tried, and what is known of its source.
    pub judged: &'a [(JudgedLoops, LoopSource)],
    /// All nests.
    pub found: &'a FoundNests,
    /// What they take.
    pub measured: &'a [MeasuredNest],
    /// What keys stand for.
    pub origins: &'a Origins,
}

/// What a key's data is called, or where it is allocated.
pub(super) fn data_of(origins: &Origins, key: u32) -> String {
    let origin = origins.of(key);
    let data = origins.data().get(origin.data as usize);
    let variable = known(origins.name(origin.variable));
    let name = variable.or_else(|| data.and_then(|data| known(&data.name)));
    let allocated = || {
        let place = &data?.allocated_at;
        (place.line > 0).then(|| format!("what {}:{} allocates", place.file, place.line))
    };
    name.or_else(allocated).unwrap_or_else(|| "data that is not known".to_owned())
}

impl LoopFacts<'_> {
    /// A row for each, most of the time first, as they are.
    pub(super) fn rows(&self, before: &Taken, is_in_windows: bool) -> Vec<LoopRow> {
        self.judged.iter().map(|(judged, source)| self.row(judged, source, (before, is_in_windows))).collect()
    }

    fn row(&self, judged: &JudgedLoops, source: &LoopSource, (before, is_in_windows): (&Taken, bool)) -> LoopRow {
        let (nest, measured) = (&self.found.nests[judged.nest], &self.measured[judged.nest]);
        let leading = self.origins.of(nest.streams[nest.leading].keys[0]);
        let (file, line) = file_and_line(self.origins.name(leading.line));
        let file = source.file.clone().or(file);
        let function = known(self.origins.name(leading.function));
        let at = file.as_ref().zip(line).map(|(file, line)| format!("{file}:{line}"));
        let place = Place { at: at.as_deref(), function: function.as_deref(), pair: source.pair.as_ref() };
        let advice = judged.advised().map(|tried| {
            let heads = source.pair.as_ref().and_then(|pair| pair.reordered(tried.order));
            AdvisedLoops {
                order: TriedOrderRow::of(tried),
                change: AdvisedCode {
                    title: place.title(tried.order),
                    predicted: PredictedRow::of(&tried.taken, before),
                    cautions: self.cautions((nest, measured), source, (tried.lanes, is_in_windows)),
                    code: heads.map(|heads| nested(&heads)),
                    how: self.how(nest, tried.order),
                },
            }
        });
        LoopRow {
            reason: advice.is_none().then(|| self.reason(judged)),
            at,
            function,
            loop_lines: source.pair.as_ref().and_then(|pair| pair.lines),
            inner_times: nest.times.inner,
            outer_times: nest.times.outer,
            share: judged.share,
            accesses: judged.accesses,
            walks: self.walks(nest),
            advice,
            tried: judged.tried.iter().map(TriedOrderRow::of).collect(),
        }
    }

    fn data(&self, key: u32) -> String {
        data_of(self.origins, key)
    }

    fn line(&self, key: u32) -> String {
        known(self.origins.name(self.origins.of(key).line)).unwrap_or_else(|| "a line that is not known".to_owned())
    }

    /// Each once, those against the layout first.
    fn walks(&self, nest: &Nest) -> Vec<LoopWalkRow> {
        let row = |of: &NestStream| LoopWalkRow {
            data: self.data(of.keys[0]),
            kind: match of.stream.kind {
                AccessKind::Load | AccessKind::Fetch | AccessKind::Prefetch => "load",
                AccessKind::Store => "store",
                AccessKind::Modify => "modify",
            },
            at: known(self.origins.name(self.origins.of(of.keys[0]).line)),
            inner_bytes: (!of.stream.turn.is_once_around()).then_some(of.stream.inner_bytes),
            outer_bytes: of.stream.outer_bytes,
        };
        let all: BTreeSet<LoopWalkRow> = nest.streams.iter().map(row).collect();
        let mut all: Vec<LoopWalkRow> = all.into_iter().collect();
        all.sort_by_key(|row| std::cmp::Reverse(row.inner_bytes.map(i64::unsigned_abs)));
        all
    }

    fn cautions(
        &self,
        (nest, measured): (&Nest, &MeasuredNest),
        source: &LoopSource,
        (lanes, is_in_windows): (u64, bool),
    ) -> Vec<String> {
        let streams = nest.as_written((source.pair.as_ref(), self.origins));
        // As the replay has it.
        let stored = |turn| {
            let all = nest.streams.iter().zip(&streams).filter(|(_, of)| of.kind.stores());
            let of_it = all.filter(|(_, of)| turn_elsewhere(&streams, of) == turn);
            let names: BTreeSet<String> = of_it.map(|(of, _)| self.data(of.keys[0])).collect();
            names.into_iter().collect::<Vec<_>>().join(", ")
        };
        let (stored, sums, apart) = (stored(Turn::Inner), stored(Turn::Held), stored(Turn::Apart));
        let mut cautions = vec![match stored.as_str() {
            "" => "the inner loop stores nothing, as far as addresses of this run show".to_owned(),
            stored => format!(
                "in this run no two steps change places of which the one stores what the other one loads or stores ({stored})"
            ),
        }];
        cautions.push("what registers hold no trace shows: whatever one step leaves for the next, as a sum, a count, a hash or a place in an output, comes in another order then, and floating point rounds otherwise".to_owned());
        if !measured.others.is_empty() {
            let names: BTreeSet<String> = measured.others.iter().map(|other| self.data(other.key)).collect();
            cautions.push(format!(
                "{:.1} % of the accesses in them do not walk by strides, and are predicted to cost what they do ({})",
                100.0 * measured.others_part(),
                names.into_iter().take(MOST_NAMES).collect::<Vec<_>>().join(", ")
            ));
        }
        if lanes > 1 {
            cautions.push(format!(
                "a compiler is taken to make vectors of {lanes} elements of the inner loop then, as clang's -O2 does"
            ));
        }
        if is_in_windows {
            cautions.push("what else runs in them was looked at in windows over the run only".to_owned());
        }
        if source.pair.as_ref().is_some_and(|pair| pair.has_calls) {
            cautions.push("functions or macros are called in them: their machine code only computes, but they must not end the loops".to_owned());
        }
        if source.pair.as_ref().is_none_or(|pair| pair.reach.is_empty()) {
            cautions.push("how they are written is not known: they must run to their ends, without a break or a return, and no step may need what the one before leaves".to_owned());
        }
        if !sums.is_empty() {
            cautions.push(format!(
                "what is stored once for each time around the outer loop ({sums}) must then be set before the loops and added to in memory, as the replay has it"
            ));
        }
        if !apart.is_empty() {
            cautions.push(format!(
                "what is stored once for each time around the outer loop, before or behind what each step adds up ({apart}), must then be stored in a loop of its own, in front of both or behind them, as the replay has it"
            ));
        }
        if source.pair.as_ref().is_some_and(|pair| !pair.is_perfect) {
            cautions.push("what stands in the outer loop beside the inner one must go in front of both, into the inner one, or behind both".to_owned());
        }
        if !source.relaid.is_empty() {
            cautions.push(format!(
                "another layout is advised for the same data ({}): each is predicted without the other, and what they gain does not add up",
                source.relaid.join(", ")
            ));
        }
        cautions
    }

    /// What to write, in words.
    fn how(&self, nest: &Nest, order: Order) -> String {
        let leading = &nest.streams[nest.leading];
        let data = self.data(leading.keys[0]);
        match tile_of(order) {
            Some(tile) => format!(
                "Go through both loops in squares of {tile} by {tile} steps: two more loops around them, each by {tile} steps."
            ),
            None => format!(
                "Put the loop that goes through {data} by {} bytes inside the one that goes by {} bytes.",
                leading.stream.outer_bytes, leading.stream.inner_bytes
            ),
        }
    }

    fn reason(&self, judged: &JudgedLoops) -> String {
        let percent = |part: f64| format!("{:.1} %", 100.0 * part);
        let closest = judged.closest().map(|tried| (TriedOrderRow::of(tried).words(), tried.ratio.saved()));
        let but = |why: String| match &closest {
            Some((order, saved)) => format!("{order} would save {}, but {why}", percent(*saved)),
            None => why,
        };
        match (&judged.withheld, &closest) {
            (Some(Withheld::NotReplayed), _) => {
                "gone through again by its strides it does not take what it took in the program".to_owned()
            }
            (Some(Withheld::Others(part)), _) => but(format!(
                "{} of the accesses in them do not walk by strides, and what these cost then is not known",
                percent(*part)
            )),
            (Some(Withheld::Beside), _) => but("another loop runs in the outer one: part them first".to_owned()),
            (Some(Withheld::Unseen), _) => but("so much else runs in them that not all of it was looked at".to_owned()),
            (Some(Withheld::Calls(Some(name))), _) => but(format!(
                "they call what may write or otherwise depend on the order of steps ({name})"
            )),
            (Some(Withheld::Calls(None)), _) => but(
                "they call functions or macros, and without the program's machine code it is not known what these write"
                    .to_owned(),
            ),
            (Some(Withheld::Chase), _) => {
                but("the inner loop follows pointers, so that each step needs what the one before loads".to_owned())
            }
            (Some(Withheld::LeavesEarly), _) => {
                but("they may end early, and other steps would be left out then".to_owned())
            }
            (Some(Withheld::Written(Bound::Leaves(word @ ("while" | "do")))), _) => {
                but(format!("a loop of another kind is in them ({word}), and how that goes on is not read"))
            }
            (Some(Withheld::Written(Bound::Leaves(word))), _) => {
                but(format!("they may end early, or leave steps out ({word}), and other steps would be left out then"))
            }
            (Some(Withheld::Written(Bound::Carried(variable))), _) => {
                let is_name = variable.chars().all(|at| at.is_alphanumeric() || at == '_');
                let variable = if is_name { variable } else { "what a pointer points to" };
                but(format!("each step needs what the one before leaves ({variable})"))
            }
            (Some(Withheld::Written(Bound::Wraps(index))), _) => but(format!(
                "the index [{index}] begins again in the midst of a loop, so that accesses do not tell which step each is of"
            )),
            (Some(Withheld::Counted(line)), _) => but(format!(
                "{} may count up a place from step to step, and its source does not say that it does not",
                known(self.origins.name(*line)).unwrap_or_else(|| "a line that is not known".to_owned())
            )),
            (Some(Withheld::Dependent(Dependence { store, other, is_certain })), _) => {
                let is_itself = store == other;
                let [data, store, other] = [self.data(*store), self.line(*store), self.line(*other)];
                but(match is_certain {
                    false if is_itself => {
                        format!("where {store} stores to {data}, and in which order, is not known for each step")
                    }
                    true => format!("steps at {other} need what other steps store to {data} at {store} first"),
                    false => format!(
                        "{store} and {other} access the same data ({data}), of which one stores, not by the same strides"
                    ),
                })
            }
            (None, Some((order, saved))) if *saved < 0.0 => {
                format!(
                    "each of {} orders takes more time (the least, {order}: +{})",
                    judged.tried.len(),
                    percent(-saved)
                )
            }
            (None, Some((order, saved))) => {
                format!("no order of {} saves {ENOUGH} (the best, {order}: {})", judged.tried.len(), percent(*saved))
            }
            (None, None) => "they have no other order".to_owned(),
        }
    }
}

/// Where loops are.
struct Place<'a> {
    at: Option<&'a str>,
    function: Option<&'a str>,
    pair: Option<&'a LoopPair>,
}

impl Place<'_> {
    fn title(&self, order: Order) -> String {
        let file = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let of = self.function.map_or_else(String::new, |function| format!(" of {function}"));
        let loops = match (self.at, self.pair.and_then(|pair| pair.lines)) {
            (Some(at), Some([outer, inner])) => {
                let file = file(at.rsplit_once(':').map_or(at, |(file, _)| file));
                match outer == inner {
                    true => format!("the loops{of} at {file}:{outer}"),
                    false => format!("the loops{of} at {file}:{outer} and {inner}"),
                }
            }
            (Some(at), None) => format!("the two innermost loops{of} around {}", file(at)),
            (None, _) => format!("the two innermost loops{of}"),
        };
        match tile_of(order) {
            Some(tile) => format!("Tile {loops} by {tile}"),
            None => format!("Exchange {loops}"),
        }
    }
}

/// Loops, each in the one before.
fn nested(heads: &[String]) -> String {
    (0..).zip(heads).map(|(depth, head)| format!("{}{head}\n", "    ".repeat(depth))).collect()
}

#[cfg(test)]
mod tests {
    use slimline_analyze::origins::{Data, Names, Origin};
    use slimline_analyze::relayout::TimeRatio;
    use slimline_analyze::relayout::loops::source::around;
    use slimline_analyze::relayout::loops::{Loops, OtherKey, Steps};
    use slimline_simulate::access::Work;
    use slimline_simulate::locality::exchange::{Stream, Times};

    use super::*;

    /// A matrix that is gone through by columns.
    const BY_COLUMNS: Stream = Stream {
        start: 0,
        inner_bytes: 128,
        outer_bytes: 8,
        bytes: 8,
        kind: AccessKind::Load,
        turn: Turn::Inner,
        work: Work::USUAL,
    };

    /// Columns of a matrix whose exchange saves half, beside a table that something else in their loops loads; or left alone for a reason.
    fn row_of(withheld: Option<Withheld>, source: LoopSource, is_in_windows: bool) -> LoopRow {
        row_of_nest(&[("matrix", "a.c:3", BY_COLUMNS)], withheld, source, is_in_windows)
    }

    /// The same of these instructions by data and line, the first of which walks against the layout.
    fn row_of_nest(
        walks: &[(&str, &str, Stream)],
        withheld: Option<Withheld>,
        source: LoopSource,
        is_in_windows: bool,
    ) -> LoopRow {
        let of = |(key, (.., stream)): (u32, &(&str, &str, Stream))| {
            let stream = *stream;
            NestStream { keys: vec![key], walking: 1, stream, steps: Steps::Passes(0), is_line: false }
        };
        let times = Times { inner: 8, outer: 16 };
        let streams = (0..).zip(walks).map(of).collect();
        let found = FoundNests {
            nests: vec![Nest { streams, leading: 0, times, most: times }],
            loops: vec![Loops { nests: vec![0] }],
        };
        let others = vec![OtherKey { key: walks.len() as u32, count: 5, stores: false }];
        let measured = [MeasuredNest { steps: 95, accesses: 95, others, ..MeasuredNest::default() }];
        let mut names = Names::default();
        let places = walks.iter().map(|&(variable, line, _)| (variable, line)).chain([("table", "a.c:4")]);
        let keys = places.map(|(variable, line)| Origin {
            variable: names.number(variable),
            line: names.number(line),
            ..Origin::default()
        });
        let keys = keys.collect();
        let origins = Origins::new(keys, vec![Data::default()], names, Vec::new());
        let ratio = TimeRatio { low: 0.5, expected: 0.5, high: 0.5 };
        let tried = vec![TriedOrder { order: Order::Exchanged, lanes: 2, taken: Taken::default(), ratio }];
        let chosen = withheld.is_none().then_some(0);
        let judged = JudgedLoops { loops: 0, nest: 0, share: 0.5, accesses: 95, tried, chosen, withheld };
        let judged = [(judged, source)];
        let facts = LoopFacts { judged: &judged, found: &found, measured: &measured, origins: &origins };
        facts.rows(&Taken::default(), is_in_windows).remove(0)
    }

    #[test]
    fn sums_and_loops_of_their_own_are_told_as_the_replay_has_them() {
        let source = "for (int j = 0; j < m; j++) {\nx[j] = 0;\nfor (int i = 0; i < n; i++)\nx[j] += a[i][j];\ny[j] = x[j];\nz[j] =\n3;\n}\n";
        let source = LoopSource { pair: around(source, 4), ..LoopSource::default() };
        let matrix = BY_COLUMNS;
        let each = Stream { start: 4096, inner_bytes: 0, kind: AccessKind::Store, ..matrix };
        let once = |start| Stream { start, turn: Turn::Outer, ..each };
        let walks = [
            ("matrix", "a.c:4", matrix),
            ("x", "a.c:4", each),
            ("x", "a.c:2", once(4096)),
            ("y", "a.c:5", once(8192)),
            ("z", "a.c:7", once(16_384)),
        ];
        let row = row_of_nest(&walks, None, source, false);
        assert_eq!(row.walks.iter().filter(|walk| walk.inner_bytes.is_none()).count(), 3, "{row:?}");
        let told = row.advice.unwrap().change.cautions.join("\n");
        // The store of z is of a line that does not tell what it stores: it may be a sum.
        assert!(told.contains("outer loop (z) must then be set before the loops and added to in memory"), "{told}");
        assert!(told.contains("what each step adds up (x, y), must then be stored in a loop of its own"), "{told}");
    }

    #[test]
    fn what_is_to_be_minded_is_told() {
        let cautions = |source, is_in_windows| {
            row_of(None, source, is_in_windows).advice.map(|advice| advice.change.cautions.join("\n")).unwrap()
        };
        let source = "for (int j = 0; j < m; j++)\nfor (int i = 0; i < n; i++)\nsum += f(a[i][j]);\n";
        let with_calls = LoopSource { pair: around(source, 3), ..LoopSource::default() };
        let told = cautions(with_calls, true);
        assert!(
            told.contains("5.0 % of the accesses in them do not walk by strides") && told.contains("(table)"),
            "{told}"
        );
        assert!(told.contains("a count, a hash or a place in an output"), "{told}");
        assert!(told.contains("functions or macros are called") && told.contains("in windows"), "{told}");
        assert!(told.contains("vectors of 2 elements"), "{told}");
        let told = cautions(LoopSource::default(), false);
        assert!(told.contains("without a break or a return") && !told.contains("in windows"), "{told}");
    }

    #[test]
    fn why_loops_are_left_alone_is_told() {
        let itself = Dependence { store: 1, other: 1, is_certain: false };
        let carried = |variable: &str| Withheld::Written(Bound::Carried(variable.to_owned()));
        for (withheld, expected) in [
            (
                Withheld::Dependent(itself),
                "interchange would save 50.0 %, but where a.c:4 stores to table, and in which order",
            ),
            (
                Withheld::Calls(Some("fprintf".to_owned())),
                "interchange would save 50.0 %, but they call what may write or otherwise depend on the order of steps (fprintf)",
            ),
            (Withheld::Calls(None), "it is not known what these write"),
            (Withheld::Chase, "the inner loop follows pointers"),
            (Withheld::LeavesEarly, "they may end early, and other steps"),
            (Withheld::Written(Bound::Leaves("break")), "end early, or leave steps out (break)"),
            (carried("k"), "what the one before leaves (k)"),
            (carried(")"), "what the one before leaves (what a pointer points to)"),
            (Withheld::Written(Bound::Wraps("j % 16".to_owned())), "the index [j % 16] begins again"),
            (Withheld::Counted(2), "a.c:3 may count up a place"),
            (Withheld::Unseen, "not all of it was looked at"),
        ] {
            let row = row_of(Some(withheld), LoopSource::default(), false);
            let reason = row.reason.unwrap();
            assert!(row.advice.is_none() && reason.contains(expected), "{reason}");
        }
    }
}
