//! Whether steps of a nest that change places in another order access the same, as all of the program's accesses show.
//!
//! Strides tell that where each access is where they have it ([`dependence`](super::dependence)); not of a triangle, whose passes begin and end elsewhere each time. There each
//! access is followed: in which pass through both loops it is, in which time around the outer one, and in which step of the inner one. Two of one pass
//! change places where the one is later in the outer loop and earlier in the inner one, so that it is enough to know of each place in memory the last step of the inner
//! loop that earlier times around accessed it in.
//!
//! A pass ends where addresses do not go on by their strides. That is so only of loops whose source says that they count, that the inner one does not depend on
//! the outer one, and that all accesses are by what they count ([`LoopPair::counted`](super::source::LoopPair::counted)). Whatever else is seen is taken to cross.

use rustc_hash::FxHashMap;
use slimline_simulate::access::{Access, AccessKind, Consumer, Located};
use slimline_simulate::locality::exchange::Stream;

use super::FoundNests;
use super::others::{Between, OtherKey, Others};

/// Places in memory of all nests, at most: some hundred bytes each.
const MOST_PLACES: usize = 1 << 21;
/// Places of one access, at most.
const MOST_PLACES_EACH: u32 = 64;
/// Accesses of a time around that some instructions have begun and others have not that are kept.
const MOST_PENDING: usize = 4096;
/// Passes of fewer times around the outer loop may be of a loop farther out.
const FEW: u64 = 3;

/// Where an instruction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In the inner loop.
    Inside,
    /// In the outer one, before it.
    Before,
    /// The same, behind it.
    Behind,
    /// Anywhere: it is of a variable that each time around the outer loop has for itself.
    Own,
}

/// An access, and which instruction's.
#[derive(Clone, Copy, Debug)]
struct Executed {
    address: u64,
    bytes: u32,
    is_store: bool,
    /// The first and last step of the inner loop for which it stands.
    steps: (i64, i64),
}

/// An instruction.
#[derive(Clone, Debug)]
struct FollowedStream {
    stream: Stream,
    standing: Standing,
    /// Of one in the inner loop: how often it has begun that.
    begun: u64,
    /// Where it began, now and the time before.
    start: u64,
    start_before: u64,
    last: u64,
    step: i64,
    /// Steps of the time before.
    steps_before: i64,
}

/// Last steps in which a place was accessed.
#[derive(Clone, Copy, Debug)]
struct LastSteps {
    loaded: i64,
    stored: i64,
}

const NEVER: LastSteps = LastSteps { loaded: i64::MIN, stored: i64::MIN };

#[derive(Clone, Copy, Debug)]
struct Place {
    pass: u64,
    /// In which time around it was accessed last.
    around: u64,
    /// By times around before that, and in it.
    earlier: LastSteps,
    now: LastSteps,
}

/// All places of so many bytes that were accessed.
#[derive(Clone, Debug)]
struct Places {
    known: FxHashMap<u64, Place>,
    bytes: u64,
}

impl Places {
    /// Takes in an access in this pass and time around. Whether it would come before one that it came behind, and one of them stores.
    fn is_crossed_by(&mut self, executed: Executed, (pass, around): (u64, u64)) -> bool {
        let Executed { address, bytes, is_store, steps: (first, last) } = executed;
        let mut is_crossed = false;
        for place in address / self.bytes..=address.saturating_add(u64::from(bytes.max(1)) - 1) / self.bytes {
            let fresh = Place { pass, around, earlier: NEVER, now: NEVER };
            let known = self.known.entry(place).or_insert(fresh);
            if known.pass != pass {
                *known = fresh;
            }
            if known.around != around {
                let later = |a: LastSteps, b: LastSteps| LastSteps {
                    loaded: a.loaded.max(b.loaded),
                    stored: a.stored.max(b.stored),
                };
                (known.earlier, known.now, known.around) = (later(known.earlier, known.now), NEVER, around);
            }
            let of_store = if is_store { known.earlier.loaded } else { i64::MIN };
            is_crossed |= first < known.earlier.stored.max(of_store);
            let now = if is_store { &mut known.now.stored } else { &mut known.now.loaded };
            *now = last.max(*now);
        }
        is_crossed
    }
}

/// A nest whose accesses are followed.
#[derive(Clone, Debug)]
struct FollowedNest {
    all: Vec<FollowedStream>,
    /// Times around the outer loop that all have begun.
    begun: u64,
    pass: u64,
    /// Of the pass: times around, and steps of each.
    around: u64,
    steps: Option<i64>,
    /// Times around of passes of few.
    of_few: u64,
    /// Those of passes that end where all that moves goes on.
    row: Option<u64>,
    pending: Vec<Executed>,
    /// Since then, what was beside the inner loop that is not behind it; with its number.
    beside: Vec<(usize, Executed)>,
    places: Places,
    /// What its thread does else since its last access, which is behind the pass or in it; and what it does in all passes.
    between: Between,
    others: Others,
    /// Two that change places access the same, or it is not known what does.
    is_given_up: bool,
}

impl FollowedNest {
    fn new(streams: impl Iterator<Item = (Stream, Standing)>) -> Self {
        let followed = |(stream, standing)| FollowedStream {
            stream,
            standing,
            begun: 0,
            start: 0,
            start_before: 0,
            last: 0,
            step: 0,
            steps_before: 0,
        };
        let all: Vec<FollowedStream> = streams.map(followed).collect();
        let least = all.iter().map(|of| of.stream.bytes).min().unwrap_or(1).max(1);
        // What stays where it is begins again unseen; what is large has many places each time.
        let is_given_up = all.iter().any(|of| {
            let stays = (of.stream.inner_bytes, of.stream.outer_bytes) == (0, 0);
            of.standing == Standing::Inside && stays || of.stream.bytes / least > MOST_PLACES_EACH
        });
        Self {
            all,
            begun: 0,
            pass: 0,
            around: 0,
            steps: None,
            of_few: 0,
            row: None,
            pending: Vec::new(),
            beside: Vec::new(),
            places: Places { known: FxHashMap::default(), bytes: 1 << least.ilog2() },
            between: Between::default(),
            others: Others::default(),
            is_given_up,
        }
    }

    fn inside(&self) -> impl Iterator<Item = &FollowedStream> {
        self.all.iter().filter(|of| of.standing == Standing::Inside)
    }

    /// Something else that its thread does.
    fn other(&mut self, access: &Access) {
        if self.begun > 0 {
            self.between.note(access);
        }
    }

    /// That was in a pass.
    fn take_others(&mut self) {
        self.others.take(&self.between);
        self.is_given_up |= self.between.has_more() || self.others.has_more_keys();
        self.between.clear();
    }

    fn take(&mut self, number: usize, access: &Access) {
        let of = &mut self.all[number];
        if access.bytes != of.stream.bytes {
            self.is_given_up = true;
            return;
        }
        let is_store = access.kind.stores();
        let executed = |steps| Executed { address: access.address, bytes: access.bytes, is_store, steps };
        // What a register holds for the inner loop stands for all of its steps.
        let in_all = executed((-1, i64::MAX));
        match of.standing {
            Standing::Own => {}
            Standing::Behind if std::mem::replace(&mut of.begun, self.begun) != self.begun => {
                self.is_given_up |= !self.pending.is_empty();
                self.take_others();
                self.execute(in_all);
            }
            Standing::Before | Standing::Behind => {
                self.beside.push((number, in_all));
                self.is_given_up |= self.beside.len() > MOST_PENDING;
            }
            Standing::Inside => {
                let goes_on = of.begun > 0 && access.address == of.last.wrapping_add_signed(of.stream.inner_bytes);
                if goes_on {
                    of.step += 1;
                } else if of.begun == self.begun {
                    (of.start_before, of.steps_before) = (of.start, of.step + 1);
                    (of.start, of.step, of.begun) = (access.address, 0, of.begun + 1);
                } else {
                    self.is_given_up = true;
                }
                of.last = access.address;
                let (step, begun) = (of.step, of.begun);
                let executed = executed((step, step));
                if begun == self.begun {
                    self.take_others();
                    self.execute(executed);
                    return;
                }
                self.pending.push(executed);
                self.is_given_up |= self.pending.len() > MOST_PENDING;
                if self.inside().all(|of| of.begun == begun) {
                    self.begin();
                }
            }
        }
    }

    /// All have begun the next time around.
    fn begin(&mut self) {
        let is_first = self.begun == 0;
        let goes_on = |of: &FollowedStream| of.start == of.start_before.wrapping_add_signed(of.stream.outer_bytes);
        let is_pass = !is_first && self.inside().all(goes_on);
        if !is_first {
            self.end_time_around();
            let ends = |is_moving: bool| {
                self.inside().filter(move |of| (of.stream.outer_bytes != 0) == is_moving).map(|of| !goes_on(of))
            };
            let (has_moved, has_other) = (ends(true).any(|ends| ends), ends(false).any(|ends| ends));
            let has_ended = has_moved && ends(true).all(|ends| ends);
            // Where some of what moves goes on, rows are without gaps.
            let is_end = has_ended || has_other && self.is_row_end();
            self.is_given_up |= !is_pass && !is_end;
        }
        self.begun += 1;
        if is_pass {
            self.take_others();
            self.around += 1;
        } else {
            self.between.clear();
            self.end_pass();
        }
        let mut before = Vec::new();
        for (number, _) in self.all.iter().enumerate().filter(|(_, of)| of.standing == Standing::Before) {
            let last = self.beside.iter().rposition(|(at, _)| *at == number);
            before.extend(last.map(|last| self.beside.remove(last).1));
        }
        self.end_idle();
        let pending = std::mem::take(&mut self.pending);
        before.into_iter().chain(pending).for_each(|executed| self.execute(executed));
    }

    /// Times around in which the inner loop has no step: it has none in all of the pass, and what is before it comes before all that is behind it then.
    fn end_idle(&mut self) {
        let mut places = Places { known: FxHashMap::default(), bytes: self.places.bytes };
        let (mut around, mut done) = (0, Vec::new());
        for (number, executed) in std::mem::take(&mut self.beside) {
            if done.contains(&number) {
                around += 1;
                done.clear();
            }
            done.push(number);
            let step = if self.all[number].standing == Standing::Before { -1 } else { i64::MAX };
            self.is_given_up |= places.is_crossed_by(Executed { steps: (step, step), ..executed }, (0, around));
        }
    }

    fn end_time_around(&mut self) {
        let mut steps = self.inside().map(|of| of.steps_before);
        let first = steps.next();
        let is_alike = steps.all(|steps| Some(steps) == first);
        drop(steps);
        self.is_given_up |= !is_alike || self.steps.is_some_and(|steps| Some(steps) != first);
        self.steps = first;
    }

    /// Whether a pass may end where some of what moves goes on: nothing says that the rest is of another array from here on, as `rows[j][k]` is, whose pointer is loaded
    /// there or in each step; and all such passes are as long.
    fn is_row_end(&mut self) -> bool {
        let place = |of: &FollowedStream| (of.stream.start, of.stream.outer_bytes);
        let is_stored_back =
            |load: &FollowedStream| self.all.iter().any(|of| of.stream.kind.stores() && place(of) == place(load));
        let is_once_around = |of: &&FollowedStream| match of.standing {
            Standing::Before => true,
            Standing::Inside => of.stream.inner_bytes == 0,
            Standing::Behind | Standing::Own => false,
        };
        let mut loads = self.all.iter().filter(is_once_around).filter(|of| !of.stream.kind.stores());
        let are_own = self.between.is_empty() && self.others.is_empty() && loads.all(is_stored_back);
        are_own && *self.row.get_or_insert(self.around) == self.around
    }

    fn end_pass(&mut self) {
        if self.around < FEW {
            self.of_few += self.around;
        }
        (self.pass, self.around, self.steps) = (self.pass + 1, 1, None);
    }

    fn execute(&mut self, executed: Executed) {
        self.is_given_up |= self.places.is_crossed_by(executed, (self.pass, self.around));
    }

    /// What else is in it, where all was seen, and nothing that changes places accesses the same.
    fn in_order(mut self) -> Option<Vec<OtherKey>> {
        for of in self.all.iter_mut().filter(|of| of.standing == Standing::Inside) {
            of.steps_before = of.step + 1;
        }
        let is_whole = self.begun > 0 && self.inside().all(|of| of.begun == self.begun);
        self.end_time_around();
        self.end_pass();
        self.end_idle();
        (is_whole && !self.is_given_up && self.of_few * 2 < self.begun).then(|| self.others.into_keys())
    }
}

/// Follows nests through all accesses, by the keys by which they were found.
#[derive(Clone, Debug)]
pub struct Following {
    of_key: Vec<Option<(usize, usize)>>,
    /// Those that are followed still.
    nests: Vec<Option<FollowedNest>>,
    /// By thread, those of it that have begun.
    of_thread: Vec<Vec<usize>>,
    /// Of all of them.
    places: usize,
}

impl Following {
    /// Those of which it is known where each instruction stands. None where that is none.
    pub fn new(found: &FoundNests, standing: &[Option<Vec<Standing>>]) -> Option<Self> {
        let mut of_key = Vec::new();
        let mut nests = Vec::new();
        for (number, (nest, standing)) in found.nests.iter().zip(standing).enumerate() {
            nests.push(standing.as_ref().map(|standing| {
                for (at, &key) in
                    nest.streams.iter().enumerate().flat_map(|(at, of)| of.keys.iter().map(move |key| (at, key)))
                {
                    let key = key as usize;
                    of_key.resize(of_key.len().max(key + 1), None);
                    of_key[key] = Some((number, at));
                }
                FollowedNest::new(nest.streams.iter().map(|of| of.stream).zip(standing.iter().copied()))
            }));
        }
        nests.iter().any(Option::is_some).then_some(Self { of_key, nests, of_thread: Vec::new(), places: 0 })
    }

    /// Takes in an access of a nest.
    fn take_own(&mut self, (number, at): (usize, usize), access: &Access) {
        let Some(nest) = &mut self.nests[number] else { return };
        let thread = access.thread as usize;
        if self.of_thread.len() <= thread {
            self.of_thread.resize(thread + 1, Vec::new());
        }
        if !self.of_thread[thread].contains(&number) {
            self.of_thread[thread].push(number);
        }
        self.places -= nest.places.known.len();
        nest.take(at, access);
        let places = self.places + nest.places.known.len();
        if nest.is_given_up || places > MOST_PLACES {
            self.nests[number] = None;
            self.of_thread[thread].retain(|&of| of != number);
        } else {
            self.places = places;
        }
    }

    /// By nest, what else its thread accesses in it, where its steps may be in another order as far as its own accesses say: no two that change places are to the same place, of
    /// which one stores.
    pub fn finish(self) -> Vec<Option<Vec<OtherKey>>> {
        self.nests.into_iter().map(|nest| nest.and_then(FollowedNest::in_order)).collect()
    }
}

impl Consumer for Following {
    fn take(&mut self, accesses: &[Access]) {
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Fetch) {
            let own = self.of_key.get(access.key as usize).copied().flatten();
            if let Some(own) = own {
                self.take_own(own, access);
            }
            let of_thread = self.of_thread.get(access.thread as usize).map_or(&[][..], Vec::as_slice);
            for &number in of_thread.iter().filter(|&&number| own.is_none_or(|(of, _)| of != number)) {
                if let Some(nest) = &mut self.nests[number] {
                    nest.other(access);
                }
            }
        }
    }

    fn locate(&mut self, _: &Located<'_>) {}
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use slimline_simulate::locality::exchange::{Times, Turn};

    use super::super::{Loops, Nest, NestStream, Steps};
    use super::*;
    use slimline_simulate::access::Work;

    /// An instruction of three loops: where it is by what each of them, outermost first, counts, in elements.
    #[derive(Clone, Copy, Debug)]
    struct Instruction {
        first: i64,
        by: [i64; 3],
        is_store: bool,
        standing: Standing,
    }

    /// An instruction that was executed, by its number and what the loops counted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Done {
        at: usize,
        counts: [i64; 3],
    }

    /// Loops, outermost first; the inner two as the outermost one's count has them.
    struct Program<'a> {
        instructions: &'a [Instruction],
        farther: i64,
        middle: &'a dyn Fn(i64) -> std::ops::Range<i64>,
        inner: &'a dyn Fn(i64) -> std::ops::Range<i64>,
    }

    impl Program<'_> {
        fn of(&self, standing: Standing, counts: [i64; 3]) -> impl Iterator<Item = Done> + '_ {
            let all = self.instructions.iter().enumerate().filter(move |(_, of)| of.standing == standing);
            all.map(move |(at, _)| Done { at, counts })
        }

        fn as_it_is(&self) -> Vec<Done> {
            let mut all = Vec::new();
            for i in 0..self.farther {
                for j in (self.middle)(i) {
                    all.extend(self.of(Standing::Before, [i, j, 0]));
                    (self.inner)(i).for_each(|k| all.extend(self.of(Standing::Inside, [i, j, k])));
                    all.extend(self.of(Standing::Behind, [i, j, 0]));
                }
            }
            all
        }

        fn exchanged(&self) -> Vec<Done> {
            let mut all = Vec::new();
            for i in 0..self.farther {
                (self.middle)(i).for_each(|j| all.extend(self.of(Standing::Before, [i, j, 0])));
                for k in (self.inner)(i) {
                    (self.middle)(i).for_each(|j| all.extend(self.of(Standing::Inside, [i, j, k])));
                }
                (self.middle)(i).for_each(|j| all.extend(self.of(Standing::Behind, [i, j, 0])));
            }
            all
        }

        fn element(&self, done: &Done) -> i64 {
            let Instruction { first, by, .. } = self.instructions[done.at];
            first + by.iter().zip(done.counts).map(|(by, count)| by * count).sum::<i64>()
        }

        /// Who stored last what each one loads, and what is there in the end.
        fn flow(&self, order: &[Done]) -> (BTreeMap<Done, Option<Done>>, BTreeMap<i64, Done>) {
            let (mut seen, mut memory) = (BTreeMap::new(), BTreeMap::new());
            for done in order {
                if self.instructions[done.at].is_store {
                    memory.insert(self.element(done), *done);
                } else {
                    seen.insert(*done, memory.get(&self.element(done)).copied());
                }
            }
            (seen, memory)
        }

        /// What following its accesses says, where loops around are taken to go by these counts.
        fn is_in_order(&self, outer: [i64; 3]) -> bool {
            self.is_in_order_where(outer, |_| 0)
        }

        /// The same where each access is so many elements farther.
        fn is_in_order_where(&self, outer: [i64; 3], moved: impl Fn(&Done) -> i64) -> bool {
            let kind = |of: &Instruction| if of.is_store { AccessKind::Store } else { AccessKind::Load };
            let stream = |of: &Instruction| Stream {
                start: ((1 << 20) + of.first * 8).cast_unsigned(),
                inner_bytes: if of.standing == Standing::Inside { of.by[2] * 8 } else { 0 },
                outer_bytes: of.by.iter().zip(outer).map(|(by, count)| by * count * 8).sum(),
                bytes: 8,
                kind: kind(of),
                turn: if of.standing == Standing::Inside { Turn::Inner } else { Turn::Outer },
                work: Work::USUAL,
            };
            let streams = (0..).zip(self.instructions).map(|(key, of)| NestStream {
                keys: vec![key],
                walking: 1,
                stream: stream(of),
                steps: Steps::Mostly,
                is_line: false,
            });
            let times = Times { inner: 1, outer: 1 };
            let nest = Nest { streams: streams.collect(), leading: 0, times, most: times };
            let found = FoundNests { nests: vec![nest], loops: vec![Loops { nests: vec![0] }] };
            let standing = self.instructions.iter().map(|of| of.standing).collect();
            let mut following = Following::new(&found, &[Some(standing)]).unwrap();
            let accesses = self.as_it_is().into_iter().map(|done| Access {
                address: (1 << 20) + ((self.element(&done) + moved(&done)) * 8).cast_unsigned(),
                key: done.at as u32,
                bytes: 8,
                thread: 0,
                kind: kind(&self.instructions[done.at]),
                work: Work::USUAL,
            });
            following.take(&accesses.collect::<Vec<_>>());
            following.finish() == [Some(Vec::new())]
        }
    }

    const BY_THE_MIDDLE_ONE: [i64; 3] = [0, 1, 0];

    fn load(first: i64, by: [i64; 3]) -> Instruction {
        Instruction { first, by, is_store: false, standing: Standing::Inside }
    }

    fn store(first: i64, by: [i64; 3]) -> Instruction {
        Instruction { is_store: true, ..load(first, by) }
    }

    /// Matrices of 12 by 12.
    const ROW: i64 = 12;

    fn is_in_order(
        instructions: &[Instruction],
        middle: fn(i64) -> std::ops::Range<i64>,
        inner: fn(i64) -> std::ops::Range<i64>,
    ) -> bool {
        let program = Program { instructions, farther: ROW, middle: &middle, inner: &inner };
        let is_in_order = program.is_in_order(BY_THE_MIDDLE_ONE);
        let is_alike = program.flow(&program.as_it_is()) == program.flow(&program.exchanged());
        assert!(is_alike || !is_in_order);
        is_in_order
    }

    #[test]
    fn triangles_by_hand() {
        let beside = |of: Instruction, standing| Instruction { standing, ..of };
        // `for (i) for (j = i; …) { c[i][j] = 0; for (k) c[i][j] += a[k][i] * a[k][j]; c[j][i] = c[i][j]; }`
        let c = 1000;
        let covariance = [
            load(0, [0, 1, ROW]),
            load(0, [1, 0, ROW]),
            store(c, [ROW, 1, 0]),
            beside(store(c, [ROW, 1, 0]), Standing::Before),
            beside(store(c, [1, ROW, 0]), Standing::Behind),
        ];
        assert!(is_in_order(&covariance, |i| i..ROW, |_| 0..ROW));
        // What is left in the lower half is loaded for the next column.
        let mut next = covariance;
        next[1] = load(c + ROW, [1, ROW, 0]);
        next[1].by[2] = 1;
        assert!(!is_in_order(&next, |i| i..ROW, |_| 0..ROW));
        // `for (i) for (j) { for (k = i + 1; …) b[i][j] += a[k][i] * b[k][j]; b[i][j] *= alpha; }`, whose rows are one behind the other.
        let product = [
            load(0, [0, 1, ROW]),
            load(c, [1, 0, ROW]),
            store(0, [ROW, 1, 0]),
            beside(load(0, [ROW, 1, 0]), Standing::Before),
            beside(store(0, [ROW, 1, 0]), Standing::Behind),
        ];
        assert!(is_in_order(&product, |_| 0..ROW, |i| i + 1..ROW));
        // Of the row above, of the column to the right.
        let mut skewed = product;
        skewed[0].first += 1 - ROW;
        skewed[2].by = [0, 1, ROW];
        assert!(!is_in_order(&skewed, |_| 0..ROW - 1, |i| i + 1..ROW));
        // `for (i) for (j = i; …) for (k < i) a[i][j] -= a[i][k] * a[k][j]`
        let lu = [load(0, [0, 1, ROW]), load(0, [ROW, 0, 1]), store(0, [ROW, 1, 0])];
        assert!(is_in_order(&lu, |i| i..ROW, |i| 0..i));
        // The same of all columns: what was stored in some is loaded by others.
        assert!(!is_in_order(&lu, |_| 0..ROW, |i| 0..i));
    }

    #[test]
    fn what_else_runs_in_it_is_told_and_not_what_runs_between_passes() {
        // Four passes of four columns, each with something behind it, and one that loads in each column; a table is stored now and then.
        let stream = |start, kind| Stream {
            start,
            inner_bytes: 128,
            outer_bytes: 8,
            bytes: 8,
            kind,
            turn: Turn::Inner,
            work: Work::USUAL,
        };
        let of =
            |key: u32, stream| NestStream { keys: vec![key], walking: 1, stream, steps: Steps::Mostly, is_line: false };
        let streams = vec![of(0, stream(0, AccessKind::Load)), of(1, stream(1 << 20, AccessKind::Store))];
        let times = Times { inner: 4, outer: 4 };
        let nest = Nest { streams, leading: 0, times, most: times };
        let found = FoundNests { nests: vec![nest], loops: vec![Loops { nests: vec![0] }] };
        let access =
            |key: u32, address: u64, kind| Access { address, key, bytes: 8, thread: 3, kind, work: Work::USUAL };
        let mut all = Vec::new();
        for (pass, column) in (0..4).flat_map(|pass| (0..4).map(move |column| (pass, column))) {
            all.push(access(5, column, AccessKind::Load));
            for row in 0..4 {
                let at = pass * 4096 + row * 128 + column * 8;
                all.extend([access(0, at, AccessKind::Load), access(1, (1 << 20) + at, AccessKind::Store)]);
                if (pass, column, row) == (2, 1, 2) {
                    all.push(access(6, 8, AccessKind::Store));
                }
            }
            if column == 3 {
                all.push(access(7, 1 << 20, AccessKind::Store));
            }
        }
        let mut following = Following::new(&found, &[Some(vec![Standing::Inside; 2])]).unwrap();
        following.take(&all);
        let other = |key, count, stores| OtherKey { key, count, stores };
        // In front of a pass' first column nobody knows yet that it is one.
        assert_eq!(following.finish(), [Some(vec![other(5, 12, false), other(6, 1, true)])]);
    }

    #[test]
    fn what_is_not_seen_is_taken_to_cross() {
        let copied = [load(0, [0, 1, ROW]), store(1000, [0, 1, ROW])];
        assert!(is_in_order(&copied, |_| 0..ROW, |_| 0..ROW));
        // One that stays where it is; one that begins elsewhere by itself; passes of two.
        let staying = [copied[0], copied[1], store(5000, [1, 0, 0])];
        assert!(!is_in_order(&staying, |_| 0..ROW, |_| 0..ROW));
        assert!(!is_in_order(&copied, |_| 0..2, |_| 0..ROW));
        let copy = Program { instructions: &copied, farther: ROW, middle: &|_| 0..ROW, inner: &|_| 0..ROW };
        assert!(!copy.is_in_order([1, 0, 0]));
        // The store begins elsewhere, as in rows that pointers lead to, where the loop goes on.
        let where_moved = |moved: fn(&Done) -> i64| copy.is_in_order_where(BY_THE_MIDDLE_ONE, moved);
        let moved = |done: &Done| if done.at == 1 && done.counts[1] > 5 { 3 } else { 0 };
        assert_eq!([where_moved(|_| 0), where_moved(moved)], [true, false]);
        // `c[k + 1][j] = a[k][j] + rows[j][k]`, of whose rows some are one array, and the others are what is stored.
        let (c, by_pointers) = (1000, [load(5000, [0, 0, 1]), load(6000, [0, 1, 0])]);
        let pointers = Instruction { standing: Standing::Before, ..by_pointers[1] };
        let where_moved = |instructions: &[Instruction], moved: fn(&Done) -> i64| {
            let rows = Program { instructions, farther: 1, middle: &|_| 0..ROW, inner: &|_| 0..8 };
            [rows.is_in_order_where(BY_THE_MIDDLE_ONE, |_| 0), rows.is_in_order_where(BY_THE_MIDDLE_ONE, moved)]
        };
        let moved = |done: &Done| if done.at == 1 && done.counts[1] > 7 { 1000 + 5 * ROW - 5000 } else { 0 };
        let stored = store(c + ROW, [0, 1, ROW]);
        // Pointers are loaded once for all steps, or in each.
        for pointers in [pointers, by_pointers[1]] {
            assert_eq!(where_moved(&[copied[0], by_pointers[0], pointers, stored], moved), [true, false]);
        }
        // `c[k + 1][j] = rows[j][k] * others[j][k]`: rows one behind the other are another array's, too, and so are those that were one.
        let moved = |done: &Done| match (done.at, done.counts[1] > 7) {
            (1, true) => 1000 - 5000 - 4 * ROW,
            (2, true) => 100,
            _ => 0,
        };
        let two = [stored, load(5000, [0, ROW, 1]), load(7000, [0, 0, 1]), pointers];
        assert_eq!(where_moved(&two, moved), [true, false]);
    }

    fn an_instruction() -> impl Strategy<Value = Instruction> {
        let by = prop::sample::select(vec![-ROW, -1, 0, 1, 1, 2, ROW, ROW]);
        let standing =
            prop::sample::select(vec![Standing::Inside, Standing::Inside, Standing::Before, Standing::Behind]);
        (0_i64..40, [by.clone(), by.clone(), by], any::<bool>(), standing).prop_map(
            |(first, by, is_store, standing)| {
                let inner = if standing == Standing::Inside { by[2] } else { 0 };
                Instruction { first: 1000 + first, by: [by[0], by[1], inner], is_store, standing }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        /// What may be in another order comes to the same when it is executed so, also where the loop around is taken for another one.
        #[test]
        fn both_orders_come_to_the_same(
            (first, farther_by, is_store) in (0_i64..40, prop::sample::select(vec![0, 1, ROW]), any::<bool>()),
            others in prop::collection::vec(an_instruction(), 1..4),
            (farther, middle, inner) in (1_i64..7, 1_i64..7, 1_i64..7),
            (middle_begins, inner_begins, inner_ends) in any::<(bool, bool, bool)>(),
            outer in prop::sample::select(vec![BY_THE_MIDDLE_ONE, BY_THE_MIDDLE_ONE, [1, 0, 0], [1, 1, 0]]),
        ) {
            let leading = Instruction { first: 1000 + first, by: [farther_by, 1, ROW], is_store, standing: Standing::Inside };
            let instructions: Vec<Instruction> = [leading].into_iter().chain(others).collect();
            let begins = |moves: bool, i: i64| if moves { i } else { 0 };
            let program = Program {
                instructions: &instructions,
                farther,
                middle: &|i| begins(middle_begins, i)..middle,
                inner: &|i| begins(inner_begins && !inner_ends, i)..if inner_ends { i } else { inner },
            };
            if program.is_in_order(outer) {
                prop_assert_eq!(program.flow(&program.as_it_is()), program.flow(&program.exchanged()));
            }
        }
    }
}
