//! Which loops to exchange or to tile: nests that walk against the layout, gone through again in other orders.
//!
//! A first pass tells how each instruction walks ([`find`]), a second one what nests take of the program, and what else runs in them
//! ([`Measuring`]). Then each nest is made again by the strides of its instructions ([`exchange`](slimline_simulate::locality::exchange)), as it is and
//! in other orders, on the machine that layouts are tried on. What that takes lies between the first time through it, with empty caches, and the
//! next one; where between, the nest as it was measured says. What it takes in another order by what it takes as it is, is what the program's
//! time with the nest becomes ([`judge`]).

mod dependence;
mod executed;
mod measuring;
mod others;
mod replay;
pub mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use slimline_attribute::code::order::StepOrder;
use slimline_simulate::locality::Walking;
use slimline_simulate::locality::exchange::{Order, Stream, Times, Turn};
use slimline_simulate::machine::{Machine, MachineError};

pub use self::dependence::Dependence;
pub use self::executed::{Following, Standing};
pub use self::measuring::{MeasuredNest, Measuring};
pub use self::others::OtherKey;
pub use self::replay::Cost;
use self::replay::{Left, Replays};
use self::source::{Bound, LoopPair};
use super::{Taken, TimeRatio, WORTH_IT, best};
use crate::nests::walker::{Walkers, once_around};
use crate::origins::Origins;

/// Part of a nest's accesses that others in it may be, which do not walk by strides: what they cost in another order nobody knows.
const MOST_OTHERS: f64 = 0.1;
/// How the names of variables begin that Clang makes for OpenMP: bounds, strides and numbers of threads.
const OPENMP_VARIABLES: [&str; 3] = [".omp.", ".global_tid.", ".bound_tid."];
/// Bytes of the largest variable.
const MOST_WORD_BYTES: u64 = 16;

/// How well it is known where an instruction's steps are in both loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// Each time through the loops where strides tell. The number is that of [`Walk::moved`](slimline_simulate::locality::Walk::moved).
    Passes(u64),
    /// One step behind the other, from one time through the loops to the next, too.
    Line,
    /// Some are elsewhere.
    Mostly,
}

impl Steps {
    /// Of one step for each of the loops', or not, of which so many are not behind the one before.
    pub(crate) fn of_line(is_one_each: bool, apart: u64, passes: u64) -> Self {
        match apart {
            0 if is_one_each && passes > 1 => Self::Line,
            // It begins again with each pass.
            _ if is_one_each && apart < passes => Self::Passes(0),
            _ => Self::Mostly,
        }
    }
}

/// One instruction of a nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NestStream {
    /// Keys of all copies of it.
    pub keys: Vec<u32>,
    /// How many of them, the first ones, walk so; what is left behind an unrolled loop does not.
    pub walking: usize,
    /// How it walks.
    pub stream: Stream,
    /// How well that is known.
    pub steps: Steps,
    /// The loop around only goes on, as through rows without a gap: it may be a place that is counted up.
    pub is_line: bool,
}

/// A nest of two loops of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nest {
    /// Its instructions.
    pub streams: Vec<NestStream>,
    /// Which of them walks against the layout.
    pub leading: usize,
    /// Mean times around both loops.
    pub times: Times,
    /// Most times around each.
    pub most: Times,
}

impl Nest {
    /// Its instructions' strides, with what their source tells beside addresses: which are of statements beside the inner loop.
    pub fn as_written(&self, (pair, origins): (Option<&LoopPair>, &Origins)) -> Vec<Stream> {
        let is_apart = |of: &NestStream| {
            let line = self.line_of(of, origins);
            of.stream.turn == Turn::Outer && pair.zip(line).is_some_and(|(pair, line)| pair.lines_apart.contains(&line))
        };
        let stream =
            |of: &NestStream| Stream { turn: if is_apart(of) { Turn::Apart } else { of.stream.turn }, ..of.stream };
        self.streams.iter().map(stream).collect()
    }

    /// Where each of its instructions stands, if it takes all that they access to know whether its steps may be in another order, and its source tells; by key, how far
    /// accesses reach.
    pub fn to_follow(
        &self,
        (pair, origins): (Option<&LoopPair>, &Origins),
        extents: &[Range<u64>],
    ) -> Option<Vec<Standing>> {
        let pair = pair?;
        let inner = pair.counted.as_ref()?;
        let is_own = |key| is_own_variable(key, (Some(pair), origins), extents);
        dependence::across(self, extents, is_own).filter(|found| !found.is_certain)?;
        let is_of_inner = |of: &NestStream| self.line_of(of, origins).is_some_and(|line| inner.contains(&line));
        // What has no line is told by what walks the same data so. Of a triangle both need not begin at the same place.
        let way = |of: &NestStream| {
            let Stream { inner_bytes, outer_bytes, bytes, .. } = of.stream;
            (inner_bytes, outer_bytes, bytes, origins.of(of.keys[0]).data)
        };
        let is_taken_out = |of: &NestStream| self.streams.iter().any(|at| way(at) == way(of) && is_of_inner(at));
        let is_in_front = |line: u32| pair.reach.contains(&line) && line < inner.start;
        // Nothing but what stands there, too, stores it.
        let is_kept_from_front = |of: &NestStream| {
            let mut stores = self.streams.iter().filter(|at| at.stream.kind.stores());
            !of.stream.kind.stores()
                && stores.all(|at| {
                    !dependence::overlap(extents, &at.keys, &of.keys)
                        || self.line_of(at, origins).is_some_and(is_in_front)
                })
        };
        let standing = |of: &NestStream| {
            if of.keys.iter().all(|&key| is_own(key)) {
                return Some(Standing::Own);
            }
            // What a compiler takes out of the inner loop it loads in front of that, and stores behind it.
            let taken_out = if of.stream.kind.stores() { Standing::Behind } else { Standing::Before };
            match (of.stream.turn.is_once_around(), self.line_of(of, origins)) {
                (false, Some(line)) if inner.contains(&line) => Some(Standing::Inside),
                (true, Some(line)) if inner.contains(&line) => Some(taken_out),
                (true, Some(line)) if is_in_front(line) => Some(Standing::Before),
                (true, Some(line)) if pair.reach.contains(&line) => Some(Standing::Behind),
                (true, None) if origins.name(origins.of(of.keys[0]).line).is_empty() && is_taken_out(of) => {
                    Some(taken_out)
                }
                (true, None) if is_kept_from_front(of) => Some(Standing::Before),
                _ => None,
            }
        };
        self.streams.iter().map(standing).collect()
    }

    /// In which line of the file of the leading one an instruction is.
    fn line_of(&self, of: &NestStream, origins: &Origins) -> Option<u32> {
        let place = |of: &NestStream| origins.name(origins.of(of.keys[0]).line).rsplit_once(':');
        let ((file, line), (of_leading, _)) = (place(of)?, place(&self.streams[self.leading])?);
        (file == of_leading).then_some(line)?.parse().ok()
    }
}

/// Nests of the same code: of several threads, or with other data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loops {
    /// Places of its nests among all that are measured.
    pub nests: Vec<usize>,
}

/// All nests that walk against the layout.
#[derive(Clone, Debug, Default)]
pub struct FoundNests {
    /// The nests.
    pub nests: Vec<Nest>,
    /// By the code that they are of.
    pub loops: Vec<Loops>,
}

/// Finds nests of which an instruction walks against the layout, of how each key's accesses go through memory.
pub fn find(keys: &[Walking], line_bytes: u64, origins: &Origins) -> FoundNests {
    let walkers = Walkers::of(keys, origins);
    let mut taken = BTreeSet::new();
    let mut nests: Vec<Nest> = Vec::new();
    for leading in walkers.all.iter().filter(|walker| walker.is_against(line_bytes)) {
        if leading.keys.iter().any(|key| taken.contains(key)) {
            continue;
        }
        let mut streams: Vec<NestStream> = Vec::new();
        let mut at = 0;
        let mut most = Times { inner: 0, outer: 0 };
        let (of_nest, times) = walkers.nest_of(leading);
        for walker in of_nest {
            if walker.key() == leading.key() {
                at = streams.len();
            }
            if walker.keys.iter().all(|&key| taken.insert(key)) {
                most.inner = most.inner.max(walker.walk.longest_run);
                most.outer = most.outer.max(walker.walk.most_runs);
                streams.push(NestStream {
                    keys: walker.keys.clone(),
                    walking: walker.keys.len(),
                    stream: walker.stream(),
                    steps: walker.steps_in(leading),
                    is_line: walker.is_line,
                });
            }
        }
        for (key, walking) in (0..).zip(keys).filter(|(key, _)| origins.of(*key).thread == leading.thread) {
            if let Some((stream, steps)) = once_around(walking, &leading.walk).filter(|_| !taken.contains(&key)) {
                taken.insert(key);
                streams.push(NestStream { keys: vec![key], walking: 1, stream, steps, is_line: false });
            }
        }
        nests.push(Nest { streams, leading: at, times, most });
    }
    with_other_copies(&mut nests, &mut taken, (keys, origins));
    let mut of_code: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (number, nest) in nests.iter().enumerate() {
        of_code.entry(code(nest, origins)).or_default().push(number);
    }
    FoundNests { nests, loops: of_code.into_values().map(|nests| Loops { nests }).collect() }
}

/// Copies of a nest's instructions that walk otherwise, as what is left behind an unrolled loop, are of the nest, too.
fn with_other_copies(nests: &mut [Nest], taken: &mut BTreeSet<u32>, (keys, origins): (&[Walking], &Origins)) {
    let mut of_place = BTreeMap::new();
    for (number, nest) in nests.iter().enumerate() {
        for (at, of) in nest.streams.iter().enumerate() {
            of_place.entry((origins.of(of.keys[0]).place_in_source(), of.stream.kind.stores())).or_insert((number, at));
        }
    }
    // Of what has no place in the source nobody knows what it is a copy of.
    for (key, walking) in (0..).zip(keys).filter(|(key, of)| of.accesses() > 0 && origins.of(*key).column > 0) {
        let place = (origins.of(key).place_in_source(), walking.kind.stores());
        let Some(&(number, at)) = of_place.get(&place) else { continue };
        let of = &mut nests[number].streams[at];
        // What comes first is not left over.
        if walking.begins > keys[of.keys[0] as usize].begins && taken.insert(key) {
            of.keys.push(key);
        }
    }
}

/// Where in the source the instruction is that walks against the layout. Which others walk with it may differ from thread to
/// thread, and with the data.
fn code(nest: &Nest, origins: &Origins) -> [u32; 5] {
    let origin = origins.of(nest.streams[nest.leading].keys[0]);
    [origin.function, origin.line, origin.column, origin.called_at, origin.called_at_column]
}

/// Whether all of a key's accesses are at one place.
fn stays(key: u32, extents: &[Range<u64>]) -> bool {
    let reach = extents.get(key as usize).filter(|reach| !reach.is_empty());
    reach.is_some_and(|reach| reach.end - reach.start <= MOST_WORD_BYTES)
}

/// Whether a key is of a variable that each time around the outer loop has anew, so that no step leaves it for the next: one that
/// its source declares there, or OpenMP's own in an outlined function, which Clang gives names that no program can.
fn is_own_variable(key: u32, (pair, origins): (Option<&LoopPair>, &Origins), extents: &[Range<u64>]) -> bool {
    let origin = origins.of(key);
    let data = origins.data().get(origin.data as usize).map_or("", |data| &data.name);
    let names = [origins.name(origin.variable), data];
    let is_own = |pair: &LoopPair| pair.own_variables.iter().any(|own| names.contains(&own.as_str()));
    let is_of_openmp = || names.iter().any(|name| OPENMP_VARIABLES.iter().any(|start| name.starts_with(start)));
    stays(key, extents) && (pair.is_some_and(is_own) || is_of_openmp())
}

/// Why no other order is advised for loops that take enough of the time.
#[derive(Clone, Debug, PartialEq)]
pub enum Withheld {
    /// Its replay does not take what was measured: it is no such nest.
    NotReplayed,
    /// So large a part of its accesses does not walk by strides.
    Others(f64),
    /// So much else runs between its accesses that it was not looked at.
    Unseen,
    /// Another loop runs in its outer one.
    Beside,
    /// A call in it may do more than compute, as its machine code has it: which one. `None` if its source calls
    /// something and the machine code is not there.
    Calls(Option<String>),
    /// The inner loop finds the data of its next step by what it loads, as in a list.
    Chase,
    /// Its source says that steps need what others leave behind, or that it ends early.
    Written(Bound),
    /// Its machine code may leave it in the middle of its steps.
    LeavesEarly,
    /// It could be a place that is counted up, of which no source is here: its line.
    Counted(u32),
    /// Another order could load what is not stored yet, or store what is not loaded yet.
    Dependent(Dependence),
}

/// An order that was tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TriedOrder {
    /// Which.
    pub order: Order,
    /// Elements of the vectors that a compiler makes of the inner loop then; 1 where it makes none.
    pub lanes: u64,
    /// What the program takes with this change alone.
    pub taken: Taken,
    /// The same by what it takes as it is.
    pub ratio: TimeRatio,
}

/// Loops of which orders were tried.
#[derive(Clone, Debug)]
pub struct JudgedLoops {
    /// Which of [`FoundNests::loops`].
    pub loops: usize,
    /// Which of its nests speaks for all: that of which most is accessed.
    pub nest: usize,
    /// Part of the program's time that they take, as the model of waiting has it.
    pub share: f64,
    /// Accesses of theirs.
    pub accesses: u64,
    /// Simplest first.
    pub tried: Vec<TriedOrder>,
    /// What is advised, of these.
    pub chosen: Option<usize>,
    /// Why nothing is, where another order saves enough.
    pub withheld: Option<Withheld>,
}

impl JudgedLoops {
    /// The order that is advised.
    pub fn advised(&self) -> Option<&TriedOrder> {
        self.chosen.map(|chosen| &self.tried[chosen])
    }

    /// The one that saves most, whether that is enough or not.
    pub fn closest(&self) -> Option<&TriedOrder> {
        self.tried.iter().max_by(|a, b| a.ratio.saved().total_cmp(&b.ratio.saved()))
    }
}

/// How loops are written and compiled, as far as that is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopCode<'a> {
    /// In the source.
    pub pair: Option<&'a LoopPair>,
    /// In the machine code.
    pub steps: Option<&'a StepOrder>,
}

/// What nests were found, and what they take.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// What was found.
    pub found: &'a FoundNests,
    /// Of each nest.
    pub nests: &'a [MeasuredNest],
    /// What [following](Following) each says; nothing where none was followed.
    pub followed: &'a [Option<Vec<OtherKey>>],
    /// By key, the first address, and that behind the last.
    pub extents: &'a [Range<u64>],
    /// What the program takes.
    pub before: Taken,
    /// Windows over the run that was measured in; 0 where all of it was.
    pub windows: u64,
}

impl Measured<'_> {
    /// Part of the program's time that these loops take.
    pub fn share(&self, loops: &Loops) -> f64 {
        let taken: f64 = loops.nests.iter().map(|&nest| self.nests[nest].cost.times.expected).sum();
        if self.before.times.expected > 0.0 { taken / self.before.times.expected } else { 0.0 }
    }

    /// Which nest of these loops speaks for all of them: that of which most is accessed.
    pub fn nest(&self, loops: &Loops) -> usize {
        let all = loops.nests.iter().copied();
        all.max_by_key(|&nest| (self.nests[nest].accesses, std::cmp::Reverse(nest))).unwrap_or_default()
    }

    /// Tries other orders of these loops on a machine.
    ///
    /// # Errors
    /// The machine is none.
    pub fn judge(
        &self,
        loops: usize,
        machine: &Machine,
        (code, origins): (LoopCode<'_>, &Origins),
    ) -> Result<JudgedLoops, MachineError> {
        let pair = code.pair;
        let of = &self.found.loops[loops];
        // By order: vectors, and what it takes less.
        let mut saved: Vec<(Order, u64, Cost)> = Vec::new();
        let mut is_replayed = false;
        let mut replays = Replays::of(machine);
        for &number in &of.nests {
            let (nest, measured) = (&self.found.nests[number], &self.nests[number]);
            let may_be_vectors = measured.are_others_around(nest) && pair.is_none_or(|pair| !pair.has_calls_inside);
            let nest = (nest.as_written((pair, origins)), nest.times);
            for Left { order, lanes, cost } in
                replays.in_other_orders(nest, measured, may_be_vectors)?.into_iter().flatten()
            {
                is_replayed = true;
                let less = measured.cost.less(&cost);
                match saved.iter_mut().find(|(known, ..)| *known == order) {
                    Some((_, most, sum)) => {
                        *most = lanes.max(*most);
                        sum.add(&less);
                    }
                    None => saved.push((order, lanes, less)),
                }
            }
        }
        let tried: Vec<TriedOrder> = saved
            .into_iter()
            .map(|(order, lanes, less)| {
                let taken = less.taken_from(&self.before);
                TriedOrder { order, lanes, taken, ratio: TimeRatio::of(&taken, &self.before) }
            })
            .collect();
        let ratios: Vec<TimeRatio> = tried.iter().map(|tried| tried.ratio).collect();
        let chosen = best(&ratios);
        let withheld = match chosen {
            _ if !is_replayed => Some(Withheld::NotReplayed),
            Some(_) => of.nests.iter().find_map(|&nest| self.withheld(nest, (code, origins))),
            None => None,
        };
        let accesses = of.nests.iter().map(|&nest| self.nests[nest].accesses).sum();
        let chosen = chosen.filter(|_| withheld.is_none());
        Ok(JudgedLoops { loops, nest: self.nest(of), share: self.share(of), accesses, tried, chosen, withheld })
    }

    /// Part of a nest's accesses that neither walk nor stay at one place, which is in the nearest cache in any order: a
    /// variable in a register of plain code is in memory where OpenMP's threads share it.
    fn elsewhere_part(&self, measured: &MeasuredNest) -> f64 {
        measured.part_of_others(|other| !stays(other.key, self.extents))
    }

    /// Why another order of a nest is not to be advised, whatever it saves.
    fn withheld(&self, number: usize, (code, origins): (LoopCode<'_>, &Origins)) -> Option<Withheld> {
        let LoopCode { pair, steps } = code;
        match (steps, pair) {
            (Some(StepOrder { call: Some(call), .. }), _) => return Some(Withheld::Calls(Some(call.clone()))),
            (Some(StepOrder { is_chase: true, .. }), _) => return Some(Withheld::Chase),
            (None, Some(pair)) if pair.has_calls => return Some(Withheld::Calls(None)),
            _ => {}
        }
        let (nest, measured) = (&self.found.nests[number], &self.nests[number]);
        if measured.has_beside(nest, self.windows) {
            return Some(Withheld::Beside);
        }
        if measured.has_unseen(nest, self.windows) {
            return Some(Withheld::Unseen);
        }
        let part = self.elsewhere_part(measured);
        if part > MOST_OTHERS {
            return Some(Withheld::Others(part));
        }
        let in_order = self.followed.get(number).and_then(Option::as_ref);
        let is_own = |key| is_own_variable(key, (pair, origins), self.extents);
        // Following sees all of them.
        let own = if in_order.is_some() { None } else { dependence::across(nest, self.extents, is_own) };
        let mut others = in_order.unwrap_or(&measured.others).clone();
        others.retain(|other| !is_own(other.key));
        if let Some(found) = own.or_else(|| dependence::with_others(nest, &others, self.extents)) {
            return Some(Withheld::Dependent(found));
        }
        if let Some(bound) = pair.and_then(|pair| pair.bound.clone()) {
            return Some(Withheld::Written(bound));
        }
        // Where the source was read it says so itself, and surer than machine code of which compilers made copies.
        if pair.is_none() && steps.is_some_and(|steps| steps.leaves_early) {
            return Some(Withheld::LeavesEarly);
        }
        // Addresses do not tell `a[i * n + j]` from `*p++`: what is written there does.
        let is_read = |of: &NestStream| {
            pair.zip(nest.line_of(of, origins)).is_some_and(|(pair, line)| pair.reach.contains(&line))
        };
        let line = |of: &NestStream| origins.of(of.keys[0]).line;
        let place = |of: &NestStream| (of.stream.start, of.stream.inner_bytes, of.stream.outer_bytes);
        // What a compiler takes out of the inner loop has no line: whatever else is there each time is told by the same.
        let is_there_too = |of: &NestStream| nest.streams.iter().any(|at| place(at) == place(of) && is_read(at));
        let has_line = |of: &NestStream| !origins.name(line(of)).is_empty();
        let is_written = |of: &NestStream| if has_line(of) { is_read(of) } else { is_there_too(of) };
        let mut lines = nest.streams.iter().filter(|of| of.is_line || of.steps == Steps::Line);
        lines.find(|of| !is_written(of)).map(|of| Withheld::Counted(line(of)))
    }
}

/// Part of the time that loops must take to be looked at: less than that cannot be saved.
pub const LEAST_SHARE: f64 = WORTH_IT;

#[cfg(test)]
mod tests {
    use slimline_simulate::access::{Access, AccessKind, Consumer as _, Work};
    use slimline_simulate::extents::Extents;
    use slimline_simulate::locality::KeyWalks;
    use slimline_simulate::simulation::{Options, Simulation};
    use slimline_simulate::waiting::Waiting;

    use super::*;
    use crate::nests::tests::MACHINE;
    use crate::origins::{Data, Names, Origin, Thread};

    fn machine() -> Machine {
        Machine::parse(MACHINE).unwrap()
    }

    fn waiting() -> Waiting {
        Waiting::new(Simulation::new(&machine(), &Options::default()).unwrap()).without_faults()
    }

    fn access(key: u32, address: u64, kind: AccessKind) -> Access {
        Access { address, key, bytes: 8, thread: 0, kind, work: Work::USUAL }
    }

    fn load(key: u32, address: u64) -> Access {
        access(key, address, AccessKind::Load)
    }

    /// Of what a compiler moved.
    const NO_LINE: u32 = 9;

    /// Key by key a line, with data of its own.
    fn origins(lines: &[u32]) -> Origins {
        let mut names = Names::default();
        let origin = |&line: &u32| Origin {
            data: line,
            line: if line == NO_LINE { 0 } else { names.number(&format!("a.c:{line}")) },
            column: 1,
            accesses: 1,
            ..Origin::default()
        };
        let all = lines.iter().map(origin).collect();
        Origins::new(all, vec![Data::default(); lines.len()], names, vec![Thread { process: 0, tid: 1 }])
    }

    fn judged(accesses: &[Access]) -> Vec<JudgedLoops> {
        judged_as_written(accesses, None)
    }

    fn judged_as_written(accesses: &[Access], pair: Option<&LoopPair>) -> Vec<JudgedLoops> {
        let keys = accesses.iter().map(|access| access.key).max().unwrap() + 1;
        judged_of((accesses, &(0..keys).collect::<Vec<_>>()), pair)
    }

    fn judged_of(of: (&[Access], &[u32]), pair: Option<&LoopPair>) -> Vec<JudgedLoops> {
        judged_with(of, LoopCode { pair, steps: None })
    }

    fn judged_with((accesses, lines): (&[Access], &[u32]), code: LoopCode<'_>) -> Vec<JudgedLoops> {
        let pair = code.pair;
        let origins = origins(lines);
        let mut walks = KeyWalks::default();
        let mut extents = Extents::handing_on(&mut walks);
        extents.take(accesses);
        let extents = extents.finish();
        let found = find(&walks.finish(), 64, &origins);
        let mut measuring = Measuring::new(&found, waiting());
        measuring.take(accesses);
        let nests = measuring.finish();
        let before = taken(accesses);
        let standing: Vec<_> = found.nests.iter().map(|nest| nest.to_follow((pair, &origins), &extents)).collect();
        let mut following = Following::new(&found, &standing);
        following.iter_mut().for_each(|following| following.take(accesses));
        let followed = &following.map(Following::finish).unwrap_or_default();
        let measured = Measured { found: &found, nests: &nests, followed, extents: &extents, before, windows: 0 };
        let judge = |loops| measured.judge(loops, &machine(), (code, &origins)).unwrap();
        (0..found.loops.len()).map(judge).collect()
    }

    fn found(accesses: &[Access], lines: &[u32]) -> Nest {
        let mut walks = KeyWalks::default();
        walks.take(accesses);
        let nests = find(&walks.finish(), 64, &origins(lines)).nests;
        let [nest] = <[Nest; 1]>::try_from(nests).unwrap();
        nest
    }

    #[test]
    fn what_is_set_before_an_inner_loop_is_not_in_it() {
        // `x[j] = 0; for (i …) x[j] += a[i][j];`, where both loops are eight long.
        let step = |column: u64| {
            let each =
                move |row: u64| [load(1, row * 128 + column * 8), access(2, (1 << 20) + column * 8, AccessKind::Store)];
            [access(0, (1 << 20) + column * 8, AccessKind::Store)].into_iter().chain((0..8).flat_map(each))
        };
        let nest = found(&(0..24).flat_map(|at| step(at % 8)).collect::<Vec<_>>(), &[0, 1, 2]);
        let streams = nest.streams.iter().map(|of| {
            let Stream { inner_bytes, outer_bytes, turn, .. } = of.stream;
            (of.keys[0], inner_bytes, outer_bytes, turn, of.steps)
        });
        let expected = [
            (1, 128, 8, Turn::Inner, Steps::Passes(0)),
            (2, 0, 8, Turn::Inner, Steps::Passes(0)),
            (0, 0, 8, Turn::Outer, Steps::Passes(0)),
        ];
        assert_eq!(streams.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_loop_around_is_as_long_as_to_one_that_begins_again() {
        // `b[i][j] … a[k][i] * b[i + 1 + k][j]`: the rows of b are a line each, and one behind the other.
        let step = |row: u64, column: u64, k: u64| {
            [load(0, (row + 1 + k) * 64 + column * 8), load(1, (1 << 20) + k * 512 + row * 8)]
        };
        let all = (0..4).flat_map(|row| (0..8).flat_map(move |column| (0..5).flat_map(move |k| step(row, column, k))));
        let nest = found(&all.collect::<Vec<_>>(), &[0, 1]);
        assert_eq!((nest.times, nest.most), (Times { inner: 5, outer: 8 }, Times { inner: 5, outer: 32 }));
    }

    #[test]
    fn what_breaks_off_early_says_nothing_of_the_loop_around() {
        // Columns of rows of 512 bytes, beside what begins elsewhere behind 3 and 20 of them, or again behind each four: no row ends there.
        let times = |place: fn(u64) -> u64| {
            let step =
                move |column: u64, k: u64| [load(0, k * 512 + column * 8), load(1, (1 << 20) + place(column) + k * 8)];
            let all = (0..32).flat_map(|column| (0..5).flat_map(move |k| step(column, k)));
            found(&all.collect::<Vec<_>>(), &[0, 1]).times
        };
        let elsewhere = |column| column * 64 + (u64::from(column >= 3) + u64::from(column >= 20)) * 4096;
        assert_eq!([elsewhere, |column| column % 4 * 64].map(times), [Times { inner: 5, outer: 32 }; 2]);
    }

    #[test]
    fn statements_beside_the_inner_loop_are_told_by_their_lines() {
        // `x[j] = 0; for (i …) x[j] += a[i][j]; y[j] = x[j];`, of which no register holds y.
        let sums = 1 << 20;
        let step = |column: u64| {
            let at = column * 8;
            let each = move |row: u64| [load(1, row * 128 + at), access(2, sums + at, AccessKind::Store)];
            let beside = |key: u32| access(key, (u64::from(key) + 4) << 20 | at, AccessKind::Store);
            [access(0, sums + at, AccessKind::Store)].into_iter().chain((0..8).flat_map(each)).chain([beside(3)])
        };
        let nest = found(&(0..16).flat_map(step).collect::<Vec<_>>(), &[2, 4, 4, 5]);
        let mut written = "for (int j = 0; j < 16; j++) {\nx[j] = 0;\nfor (int i = 0; i < 8; i++)\nx[j] += a[i][j];\ny[j] = x[j];\n}\n".to_owned();
        let turns = |source: &str| -> Vec<(u32, Turn)> {
            let (pair, origins) = (source::around(source, 4), origins(&[2, 4, 4, 5]));
            let streams = nest.as_written((pair.as_ref(), &origins));
            nest.streams.iter().zip(streams).map(|(of, stream)| (of.keys[0], stream.turn)).collect()
        };
        let [_, _, set, left] = turns(&written)[..] else { panic!() };
        assert_eq!([set, left], [(0, Turn::Outer), (3, Turn::Apart)]);
        written = written.replace("y[j] = x[j]", "y[j] = x[j], t = 3");
        assert_eq!(turns(&written)[3], (3, Turn::Outer));
    }

    /// By themselves.
    fn taken(accesses: &[Access]) -> Taken {
        let mut waiting = waiting();
        waiting.take(&accesses.iter().map(|access| Access { key: 0, ..*access }).collect::<Vec<_>>());
        Taken::of(&waiting.finish(), 0.0)
    }

    /// Eight rows of 128 bytes, by columns.
    fn columns(key: u32) -> impl Iterator<Item = Access> {
        (0..16).flat_map(move |column| (0..8).map(move |row| load(key, row * 128 + column * 8)))
    }

    #[test]
    fn an_exchange_takes_what_the_exchanged_program_takes() {
        let all: Vec<Access> = columns(0).collect();
        let [loops] = &judged(&all)[..] else { panic!() };
        assert_eq!((loops.accesses, loops.withheld.clone(), loops.chosen), (128, None, Some(0)));
        assert!((loops.share - 1.0).abs() < 1e-9, "{loops:?}");
        let then = loops.advised().unwrap();
        // 16 lines, each once.
        assert_eq!((then.order, then.taken.first_misses, then.taken.memory_lines), (Order::Exchanged, 16, 16));
        let by_rows: Vec<Access> =
            (0..8).flat_map(|row| (0..16).map(move |column| load(0, row * 128 + column * 8))).collect();
        let exchanged = taken(&by_rows);
        assert!((then.taken.times.expected - exchanged.times.expected).abs() < 1e-6, "{then:?} {exchanged:?}");
        // As much again that has nothing to do with it stays.
        let other = (0..1000).map(|at| load(1, (1 << 20) | (at % 3 * 8)));
        let both: Vec<Access> = all.iter().copied().chain(other).collect();
        let [loops] = &judged(&both)[..] else { panic!() };
        assert!(loops.share < 0.9 && loops.tried[0].ratio.expected > then.ratio.expected, "{loops:?}");
        assert_eq!(loops.tried[0].taken.memory_lines, 17);
    }

    #[test]
    fn loops_whose_machine_code_binds_their_steps_stay() {
        let all: Vec<Access> = columns(0).collect();
        let withheld = |code: LoopCode<'_>| {
            let [loops] = &judged_with((&all, &[0]), code)[..] else { panic!() };
            assert_eq!(loops.chosen.is_none(), loops.withheld.is_some());
            loops.withheld.clone()
        };
        let of = |steps: &StepOrder| withheld(LoopCode { pair: None, steps: Some(steps) });
        let free = StepOrder::default();
        assert_eq!(of(&free), None);
        let prints = StepOrder { call: Some("fprintf".to_owned()), ..free.clone() };
        assert_eq!(of(&prints), Some(Withheld::Calls(Some("fprintf".to_owned()))));
        assert_eq!(of(&StepOrder { is_chase: true, ..free.clone() }), Some(Withheld::Chase));
        assert_eq!(of(&StepOrder { leaves_early: true, ..free.clone() }), Some(Withheld::LeavesEarly));
        // Of a call in the source only the machine code knows what it does.
        let pair = written("x += f(a[j][i]);");
        assert_eq!(withheld(LoopCode { pair: Some(&pair), steps: None }), Some(Withheld::Calls(None)));
        assert_eq!(withheld(LoopCode { pair: Some(&pair), steps: Some(&free) }), None);
        // The source has no `break`.
        let ends = StepOrder { leaves_early: true, ..free };
        assert_eq!(withheld(LoopCode { pair: Some(&pair), steps: Some(&ends) }), None);
    }

    /// `x[j] += a[i][j]`, the inner loop by i, whose compiler does not know that x is not a: x is stored in each step, at two places of code by turns.
    fn summed(passes: u64) -> Vec<Access> {
        let at = |column: u64| (1 << 20) + column * 8;
        let steps = |column: u64| {
            let step = move |row: u64| {
                let stored = access(2 + (row % 2) as u32, at(column), AccessKind::Store);
                [load(1, row * 128 + column % 16 * 8), stored]
            };
            [load(0, at(column))].into_iter().chain((0..8).flat_map(step))
        };
        (0..16 * passes).flat_map(steps).collect()
    }

    #[test]
    fn sums_are_in_memory_and_taken_by_vectors_in_the_exchanged_order() {
        let mut pair = written("x[i] += a[j][i];");
        pair.reach = 0..3;
        let found = |passes: u64, pair: Option<&LoopPair>| {
            // The compiler loads a sum in front of the inner loop, of no line of it.
            let found = judged_of((&summed(passes), &[NO_LINE, 1, 2, 2]), pair);
            let [loops] = &found[..] else { panic!("{found:?}") };
            assert_eq!(loops.accesses, 272 * passes);
            loops.clone()
        };
        let judged = |passes: u64| *found(passes, Some(&pair)).advised().unwrap();
        // By rows, two columns at a time: an access of the matrix and one of both sums.
        let by_two = |of: Access| Access { bytes: 16, ..of };
        let step = |(row, column): (u64, u64)| {
            [load(0, row * 128 + column * 16), access(1, (1 << 20) + column * 16, AccessKind::Modify)].map(by_two)
        };
        let exchanged: Vec<Access> =
            (0..8).flat_map(|row| (0..8).map(move |column| (row, column))).flat_map(step).collect();
        let (advised, exchanged) = (judged(1), taken(&exchanged));
        assert_eq!((advised.order, advised.lanes), (Order::Exchanged, 2));
        // The replay of the nest as it is loads a sum behind the first step, not in front of it, where it waits for the matrix.
        let off = advised.taken.times.expected / exchanged.times.expected - 1.0;
        assert!(off.abs() < 1e-3, "{advised:?} {exchanged:?}");
        assert_eq!(advised.taken.memory_lines, 18);
        // Sums of other columns each time through the loops, one behind the other: no pass of these is seen.
        assert_eq!(judged(2).lanes, 2);
        // To addresses these are `x[k++] += …`.
        assert!(matches!(found(2, None).withheld, Some(Withheld::Counted(_))));
    }

    /// Rows of 512 bytes, 64 of them, written by rows and read by columns.
    fn transposed() -> Vec<Access> {
        let each = |(row, column): (u64, u64)| {
            [load(0, column * 512 + row * 8), access(1, (1 << 20) | (row * 512 + column * 8), AccessKind::Store)]
        };
        (0..64).flat_map(|row| (0..64).map(move |column| (row, column))).flat_map(each).collect()
    }

    #[test]
    fn what_goes_both_ways_is_tiled_and_takes_what_the_tiled_program_takes() {
        let found = judged_as_written(&transposed(), Some(&written("b[i][j] = a[j][i];")));
        let [loops] = &found[..] else { panic!() };
        let orders: Vec<Order> = loops.tried.iter().map(|tried| tried.order).collect();
        assert_eq!(orders, [Order::Exchanged, Order::Tiled(8), Order::Tiled(16), Order::Tiled(32)]);
        let advised = loops.advised().unwrap();
        assert_eq!(advised.order, Order::Tiled(8));
        let mut tiled = transposed();
        let tile = |access: &Access| {
            let (row, column) = (access.address % (1 << 20) / 512, access.address % 512 / 8);
            let (row, column) = if access.key == 0 { (column, row) } else { (row, column) };
            (row / 8, column / 8)
        };
        tiled.sort_by_key(tile);
        let tiled = taken(&tiled);
        assert_eq!((advised.taken.first_misses, advised.taken.memory_lines), (tiled.first_misses, tiled.memory_lines));
        assert!((advised.taken.times.expected - tiled.times.expected).abs() < 1e-6, "{advised:?} {tiled:?}");
    }

    #[test]
    fn triangles_are_followed_where_their_source_says_how_they_count() {
        let source = "for (int i = 0; i < 12; i++)\nfor (int j = i; j < 16; j++) {\nfor (int k = 0; k < 8; k++)\nc[i][j] += a[k][i] * a[k][j];\nc[j][i] = c[i][j];\n}\n";
        let pair = source::around(source, 4).unwrap();
        let at = |matrix: u64, row: u64, column: u64| (matrix << 20) | (row * 128 + column * 8);
        let judged = |from: u64, pair: Option<&LoopPair>| {
            let steps = |(i, j): (u64, u64)| {
                let step = move |k: u64| {
                    let both = [load(0, at(from, k, i)), load(1, at(1, k, j))];
                    both.into_iter().chain([access(2, at(2, i, j), AccessKind::Store)])
                };
                (0..8).flat_map(step).chain([access(3, at(2, j, i), AccessKind::Store)])
            };
            let all = (0..12).flat_map(|i| (i..16).map(move |j| (i, j))).flat_map(steps);
            judged_of((&all.collect::<Vec<_>>(), &[4, 4, 4, 5]), pair).remove(0)
        };
        let found = judged(1, Some(&pair));
        assert_eq!((found.advised().map(|tried| tried.order), found.withheld), (Some(Order::Exchanged), None));
        // What one column leaves another one loads.
        let found = judged(2, Some(&pair));
        assert!(matches!(found.withheld, Some(Withheld::Dependent(_))), "{found:?}");
        // Or nobody knows how the inner loop counts.
        let mut unknown = pair;
        unknown.counted = None;
        let found = judged(1, Some(&unknown));
        assert!(matches!(found.withheld, Some(Withheld::Dependent(_))), "{found:?}");
    }

    #[test]
    fn what_else_runs_in_it_is_seen() {
        // Each step looks something up, at no stride.
        let looked_up =
            columns(0).enumerate().flat_map(|(at, access)| [access, load(1, 1 << 20 | (at * at % 8 * 8) as u64)]);
        let [loops] = &judged(&looked_up.collect::<Vec<_>>())[..] else { panic!() };
        assert_eq!((loops.chosen, loops.withheld.clone()), (None, Some(Withheld::Others(127.0 / 255.0))));
        // What is stored there now and then may be what it loads.
        let stored = |base: u64| {
            let each = move |(at, of): (usize, Access)| {
                let store = access(1, base + at as u64 * 8, AccessKind::Store);
                if at % 40 == 39 { vec![of, store] } else { vec![of] }
            };
            judged(&columns(0).enumerate().flat_map(each).collect::<Vec<_>>())
        };
        let [loops] = &stored(0)[..] else { panic!() };
        let expected = Dependence { store: 1, other: 0, is_certain: false };
        assert_eq!(loops.withheld, Some(Withheld::Dependent(expected)));
        // Elsewhere, it may be what it stored before: what it stored last remains.
        let itself = Dependence { store: 1, other: 1, is_certain: false };
        assert_eq!(stored(1 << 20)[0].withheld, Some(Withheld::Dependent(itself)));
    }

    /// How lines 0 and 1 of `a.c` are written, where the loops end in the latter.
    fn written(line: &str) -> LoopPair {
        let source = format!("for (int i = 0; i < 64; i++)\nfor (int j = 0; j < 64; j++) {line}\n");
        let mut pair = source::around(&source, 2).unwrap();
        pair.reach = 0..2;
        pair
    }

    #[test]
    fn what_may_be_appended_is_advised_only_where_its_source_says_otherwise() {
        // To addresses `b[i][j]` is `b[k++]`.
        let judged = |pair: Option<&LoopPair>| judged_as_written(&transposed(), pair)[0].clone();
        let counted = judged(None);
        assert!(counted.chosen.is_none() && matches!(counted.withheld, Some(Withheld::Counted(_))), "{counted:?}");
        let appended = judged(Some(&written("b[k++] = a[j][i];")));
        let carried = Withheld::Written(Bound::Carried("k".to_owned()));
        assert_eq!((appended.chosen, appended.withheld), (None, Some(carried)));
        let indexed = written("b[i][j] = a[j][i];");
        assert_eq!(judged(Some(&indexed)).withheld, None);
        // The loops are elsewhere than what stores.
        let mut elsewhere = indexed;
        elsewhere.reach = 0..1;
        assert!(matches!(judged(Some(&elsewhere)).withheld, Some(Withheld::Counted(_))));
    }

    #[test]
    fn accesses_that_are_wrapped_around_are_no_uniform_ones() {
        // The store goes down the columns of rows of 128 bytes, but for the last row, which is the first one.
        let wrapped = |rows: u64| {
            let each = move |(column, row): (u64, u64)| {
                let to = (row + 1) % rows * 128 + column * 8;
                [load(0, (1 << 20) | (row * 128 + column * 8)), access(1, to, AccessKind::Store)]
            };
            (0..16).flat_map(move |column| (0..rows).map(move |row| (column, row))).flat_map(each).collect::<Vec<_>>()
        };
        let found = judged(&wrapped(16));
        let with_itself = Dependence { store: 1, other: 1, is_certain: false };
        assert!(found.iter().any(|loops| loops.withheld == Some(Withheld::Dependent(with_itself))), "{found:?}");
        assert!(found.iter().all(|loops| loops.chosen.is_none()), "{found:?}");
    }

    #[test]
    fn what_runs_between_two_times_through_it_is_not_in_it() {
        let store = |at: u64| access(1, 1 << 20 | at, AccessKind::Store);
        let between = columns(0).chain([store(0)]).chain(columns(0)).chain([store(64)]).chain(columns(0));
        let [loops] = &judged(&between.collect::<Vec<_>>())[..] else { panic!() };
        assert!(loops.chosen.is_some(), "{loops:?}");
        // In the midst of each.
        let within = (0..3).flat_map(|pass| columns(0).take(77).chain([store(pass * 64)]).chain(columns(0).skip(77)));
        let [loops] = &judged(&within.collect::<Vec<_>>())[..] else { panic!() };
        assert!(matches!(loops.withheld, Some(Withheld::Dependent(Dependence { store: 1, .. }))), "{loops:?}");
    }

    #[test]
    fn what_is_too_much_to_be_looked_at_is_said() {
        // A call in each column, of more accesses than are kept.
        let called = |column: u64| (0..2000).map(move |at| load(1, (1 << 20) | ((column * 7 + at * at) % 64 * 8)));
        let all =
            (0..16).flat_map(|column| (0..8).map(move |row| load(0, row * 128 + column * 8)).chain(called(column)));
        let mut all: Vec<Access> = all.collect();
        assert!(judged(&all).iter().all(|loops| loops.chosen.is_none()));
        let origins = origins(&[0, 1]);
        let mut walks = KeyWalks::default();
        walks.take(&all);
        let found = find(&walks.finish(), 64, &origins);
        let unseen = |accesses: &[Access]| {
            let mut measuring = Measuring::new(&found, waiting());
            measuring.take(accesses);
            measuring.finish()[0].has_unseen(&found.nests[0], 0)
        };
        assert!(unseen(&all));
        // Behind the last one, it is no part of it.
        all.sort_by_key(|access| access.key);
        assert!(!unseen(&all));
        // Of so many places each one is another.
        let keys =
            |at: usize, of: Access| [of, load(at as u32 + 10, 0), load(at as u32 + 1000, 0), load(at as u32 + 2000, 0)];
        let many: Vec<Access> = columns(0).enumerate().flat_map(|(at, of)| keys(at, of)).collect();
        assert!(unseen(&many));
    }

    #[test]
    fn the_longest_run_counts() {
        // Columns of 12 and 4 rows by turns, which store what one 10 rows above and one to the right needs: less than the mean of 8 does not cross.
        let times = Times { inner: 8, outer: 16 };
        let stream = |start| Stream {
            start,
            inner_bytes: 128,
            outer_bytes: 8,
            bytes: 8,
            kind: AccessKind::Store,
            turn: Turn::Inner,
            work: Work::USUAL,
        };
        let of = |key: u32, start| NestStream {
            keys: vec![key],
            walking: 1,
            stream: stream(start),
            steps: Steps::Passes(0),
            is_line: false,
        };
        let streams = vec![of(0, 10_000), of(1, 10_000 - 1280 + 8)];
        let extents = [10_000..11_528, 8728..10_264];
        let across = |most| {
            let nest = Nest { streams: streams.clone(), leading: 0, times, most };
            dependence::across(&nest, &extents, |_| false)
        };
        assert_eq!(across(Times { inner: 12, outer: 16 }), Some(Dependence { store: 0, other: 1, is_certain: true }));
    }

    #[test]
    fn what_a_register_keeps_for_the_next_step_is_loaded_in_it() {
        // `a[k][j - 1] = a[k - 1][j] + a[k][j]` down columns of 16 rows: of the first load only that of `a[0][j]` is left.
        let times = Times { inner: 15, outer: 15 };
        let stream = |start, inner_bytes, kind, turn| Stream {
            start,
            inner_bytes,
            outer_bytes: 8,
            bytes: 8,
            kind,
            turn,
            work: Work::USUAL,
        };
        let of = |key: u32, stream| NestStream {
            keys: vec![key],
            walking: 1,
            stream,
            steps: Steps::Passes(0),
            is_line: false,
        };
        let streams = [
            of(0, stream(4096 + 136, 128, AccessKind::Load, Turn::Inner)),
            of(1, stream(4096 + 128, 128, AccessKind::Store, Turn::Inner)),
            of(2, stream(4096 + 8, 0, AccessKind::Load, Turn::Outer)),
        ];
        let extents = [4232..6144, 4224..6136, 4104..4224];
        let across = |streams: &[NestStream]| {
            let nest = Nest { streams: streams.to_vec(), leading: 0, times, most: times };
            dependence::across(&nest, &extents, |_| false)
        };
        assert_eq!(across(&streams[..2]), None);
        assert_eq!(across(&streams), Some(Dependence { store: 1, other: 2, is_certain: false }));
    }

    #[test]
    fn loops_side_by_side_are_parted_first() {
        let column = |key: u32, base: u64, column: u64| (0..8).map(move |row| load(key, base + row * 128 + column * 8));
        let both = (0..16).flat_map(|at| column(0, 0, at).chain(column(1, 1 << 20, at)));
        let found = judged(&both.collect::<Vec<_>>());
        assert_eq!((found[0].chosen, found[0].withheld.clone()), (None, Some(Withheld::Beside)));
        // One that comes behind a few columns, too.
        let now_and_then =
            (0..16).flat_map(|at| column(0, 0, at).chain(column(1, 1 << 20, at).take(if at % 4 == 0 { 8 } else { 0 })));
        let found = judged(&now_and_then.collect::<Vec<_>>());
        assert_eq!((found[0].chosen, found[0].withheld.clone()), (None, Some(Withheld::Beside)));
        let apart = columns(0).chain(columns(1).map(|of| Access { address: of.address + (1 << 20), ..of }));
        assert!(judged(&apart.collect::<Vec<_>>()).iter().all(|loops| loops.withheld.is_none()));
    }
}
