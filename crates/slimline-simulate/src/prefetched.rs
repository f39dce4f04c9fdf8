//! Accesses as they were if loads whose addresses come of indexes were prefetched.
//!
//! ```text
//!   for (i = 0; i < n; i++) {
//!       __builtin_prefetch(&a[b[i + 8]]);     loads b[i + 8], and asks for what a[b[i]] loads eight steps later
//!       sum += a[b[i]];
//!   }
//! ```
//!
//! Which address that is, the trace says: it is looked ahead in it, by so many occurrences of the load in the same thread, for the one whose index
//! lies as many strides behind the one that is loaded now. If there is none, the loop ends before or leaves that step out, and what is asked
//! for is nothing that is known: it costs its instructions. So the first steps of a loop have no prefetch before them, and the last ones
//! ask for nothing: a loop ended where something around it was accessed. Where rows lie one behind the other, as those of a sparse matrix, it may be
//! looked ahead across their ends ([`Indirect::crosses_ends`]).
//!
//! What has an index between (`a[b[c[i]]]`) is asked for in two steps: `b[c[i + 16]]` is prefetched, and `a[b[c[i + 8]]]`, for which `b[c[i + 8]]` is
//! loaded (S. Ainsworth and T. Jones, *Software Prefetching for Indirect Memory Accesses*, CGO 2017).

mod steps;
mod trail;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

pub use self::steps::{FoundSteps, MainStep, Steps};
use self::trail::{Numbered, Run, Trail};
use crate::access::{Access, AccessKind, Consumer, Located, Work};
use crate::relaid::{NO_STRUCTURE, structure_key};

/// Accesses that wait for those that come later, at most, for each thread: 64 steps of a loop with a thousand accesses each.
const MOST_WAITING: usize = 1 << 16;
/// And of all threads together.
const MOST_WAITING_TOGETHER: usize = 1 << 19;
/// Loads of indexes that an address is computed of, at most.
pub const MOST_INDEXES: usize = 4;

/// Bytes of memory that stores are told apart by, and how many of these one has at most.
const STORED_BYTES: u64 = 4;
const MOST_STORED: u64 = 64;

/// An instruction that no load of an index is, nor has one.
pub const NO_INSTRUCTION: u32 = u32::MAX;
/// What is around no loop of such a load.
pub const NO_BODY: u32 = u32::MAX;

/// What keys stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRole {
    /// Number of the instruction, or [`NO_INSTRUCTION`].
    pub instruction: u32,
    /// Number of the loop, or function, that it is in and that is around one of such a load, or [`NO_BODY`].
    pub body: u32,
    /// The number that its time is told by, by [`structure_key`] of that.
    pub told_as: u32,
    /// What it loads leads on to where addresses are of nothing else.
    pub leads_on: bool,
}

/// One copy of a load that can be prefetched, by numbers of instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The load.
    pub load: u32,
    /// The load that its own index is, where that has an index itself.
    pub through: Option<u32>,
    /// Loads of the indexes, which go by a stride, first the one that tells the step; [`MOST_INDEXES`] at most.
    pub indexes: Vec<u32>,
    /// Loads that its address is computed of as well, and that stay where they are.
    pub staying: Vec<u32>,
    /// What its loop is in: that ended where that accesses something. None where that has no accesses, so that nobody knows.
    pub around: Option<u32>,
}

/// A load that can be prefetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indirect {
    /// The compiler's copies of it.
    pub copies: Vec<Copy>,
    /// From one step's index to the next one's.
    pub stride: i64,
    /// Loads for each index that is loaded, which is a vector of as many; mostly 1.
    pub lanes: u32,
    /// Where its loop ends its index goes on: it is looked ahead across that.
    pub crosses_ends: bool,
    /// The number that the time of prefetches is told by, by [`structure_key`] of that.
    pub told_as: u32,
    /// What each prefetch is, with what computes its address anew.
    pub work: Work,
}

/// What is prefetched, and how many steps ahead.
pub type Chosen<'a> = (&'a Indirect, u32);

/// Which accesses stored last, by address: what is stored between now and a later step nobody loads ahead.
#[derive(Clone, Debug, Default)]
struct Stores {
    last: FxHashMap<u64, u64>,
    /// How many places there were when those were dropped that nobody asks of.
    kept: usize,
}

impl Stores {
    /// One with this number; of those before `first` nobody asks any more.
    fn note(&mut self, access: &Access, number: u64, first: u64) {
        if self.last.len() >= 2 * self.kept.max(MOST_WAITING) {
            self.last.retain(|_, last| *last >= first);
            self.kept = self.last.len();
        }
        let (begin, end) = access.ends();
        let (begin, end) = (begin / STORED_BYTES, end / STORED_BYTES);
        // Of larger ones, as of copies of memory, the beginning.
        for place in begin..=end.min(begin + MOST_STORED) {
            self.last.insert(place, number);
        }
    }

    fn is_stored_since(&self, address: u64, number: u64) -> bool {
        self.last.get(&(address / STORED_BYTES)).is_some_and(|last| *last > number)
    }
}

/// An occurrence of a load.
#[derive(Clone, Copy, Debug)]
struct Occurrence {
    /// Where it waits, among all accesses.
    number: u64,
    /// Which time through its loop it is in.
    run: Run,
    /// Where its indexes are, the first of which tells the step.
    indexes: [u64; MOST_INDEXES],
    /// What it loads, and what its index loads that has one itself.
    address: u64,
    through: Option<u64>,
    /// Something else that it is computed of was stored since the step before.
    is_changed: bool,
}

/// What is done before a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    /// Where its own index is: memory that is near, whatever else is not known.
    here: u64,
    /// The indexes that are loaded: so many steps later, and twice as many.
    indexes: [[u64; MOST_INDEXES]; 2],
    /// What it loads so many steps later; none where that is not known.
    address: Option<u64>,
    /// Of one with an index between, where that is so many steps later, and twice as many.
    through: [Option<u64>; 2],
}

/// A load that waits, and is prefetched.
#[derive(Clone, Copy, Debug)]
struct Waits {
    /// Among all accesses.
    number: u64,
    /// Which of those chosen it is.
    of: u32,
    /// Where its indexes are.
    indexes: [u64; MOST_INDEXES],
    asked: Option<Asked>,
}

/// A load of a thread.
#[derive(Clone, Debug, Default)]
struct Following {
    /// Those that are not asked for yet, and as many behind the first one as are looked ahead.
    occurrences: VecDeque<Occurrence>,
    /// The last index that was loaded, and which of its lanes comes next.
    index: Option<u64>,
    lane: u32,
}

/// A thread.
#[derive(Clone, Debug)]
struct Thread {
    trail: Trail,
    /// By what is chosen.
    loads: Vec<Following>,
}

/// Hands accesses on with prefetches between them. Memory: that of [`MOST_WAITING`] accesses of each thread, [`MOST_WAITING_TOGETHER`] of all, and of
/// what was stored since the first of them.
#[derive(Debug)]
pub struct Prefetched<'a, C> {
    to: C,
    keys: &'a [KeyRole],
    chosen: Vec<Chosen<'a>>,
    /// By instruction: which of those chosen it is a copy of, and which copy.
    copy_of: Vec<Option<(u32, &'a Copy)>>,
    numbered: Numbered,
    threads: Vec<Thread>,
    stores: Stores,
    /// Accesses that wait, and the number of the first one.
    waiting: VecDeque<Access>,
    first: u64,
    /// Those of them that are prefetched.
    loads: VecDeque<Waits>,
    handed_on: Vec<Access>,
}

impl<'a, C: Consumer> Prefetched<'a, C> {
    /// With these prefetches; with none accesses are as they were. Of what keys are, nothing is known behind the last one.
    pub fn new(to: C, keys: &'a [KeyRole], chosen: Vec<Chosen<'a>>) -> Self {
        let numbered = Numbered::of(chosen.iter().flat_map(|(indirect, _)| &indirect.copies));
        let mut copy_of: Vec<Option<(u32, &'a Copy)>> = vec![None; numbered.instructions];
        for (number, (indirect, _)) in (0..).zip(&chosen) {
            for copy in &indirect.copies {
                copy_of[copy.load as usize] = Some((number, copy));
            }
        }
        let (threads, stores, waiting, loads, handed_on) = Default::default();
        Self { to, keys, chosen, copy_of, numbered, threads, stores, waiting, first: 0, loads, handed_on }
    }

    /// Who took it all in.
    pub fn finish(mut self) -> C {
        self.hand_on(0);
        self.to.take(&self.handed_on);
        self.to
    }

    fn one(&mut self, access: &Access) {
        let none = KeyRole { instruction: NO_INSTRUCTION, body: NO_BODY, told_as: 0, leads_on: false };
        let role = self.keys.get(access.key as usize).copied().unwrap_or(none);
        let access = Access { key: structure_key(role.told_as, role.leads_on), ..*access };
        let number = self.first + self.waiting.len() as u64;
        self.waiting.push_back(access);
        if access.kind.stores() && !self.chosen.is_empty() {
            self.stores.note(&access, number, self.first);
        }
        if !self.numbered.has(&role) {
            return;
        }
        let thread = access.thread as usize;
        if self.threads.len() <= thread {
            let loads = vec![Following::default(); self.chosen.len()];
            self.threads.resize(thread + 1, Thread { trail: Trail::new(self.numbered), loads });
        }
        let thread = &mut self.threads[thread];
        thread.trail.note(&role, &access);
        let Some((of, copy)) = self.copy_of.get(role.instruction as usize).copied().flatten() else { return };
        let (indirect, distance) = self.chosen[of as usize];
        let occurrence = thread.occurrence(copy, (of, indirect), (number, access.address), &self.stores);
        self.loads.push_back(Waits { number, of, indexes: occurrence.indexes, asked: None });
        let all = &mut thread.loads[of as usize].occurrences;
        all.push_back(occurrence);
        // What waits no longer was handed on without a look ahead.
        while all.front().is_some_and(|first| first.number < self.first) {
            all.pop_front();
        }
        if all.len() > distance as usize * indirect.steps() {
            let asked = asked(all, indirect, distance, &self.stores);
            if let Some(first) = all.pop_front()
                && let Ok(place) = self.loads.binary_search_by_key(&first.number, |waits| waits.number)
            {
                self.loads[place].asked = Some(asked);
            }
        }
    }

    /// Hands on what waits, but for so many at most, which wait for what comes.
    fn hand_on(&mut self, most: usize) {
        while let Some(access) = self.waiting.front().copied() {
            if let Some(Waits { of, indexes, asked, .. }) =
                self.loads.front().copied().filter(|of| of.number == self.first)
            {
                if asked.is_none() && self.waiting.len() <= most {
                    return;
                }
                let nothing = Asked { here: indexes[0], indexes: [indexes; 2], address: None, through: [None; 2] };
                asked.unwrap_or(nothing).before(&access, self.chosen[of as usize].0, &mut self.handed_on);
                self.loads.pop_front();
            }
            self.handed_on.push(access);
            self.waiting.pop_front();
            self.first += 1;
        }
    }
}

impl Indirect {
    /// Times its distance that is looked ahead: twice where an index of it has one itself.
    fn steps(&self) -> usize {
        if self.copies.iter().any(|copy| copy.through.is_some()) { 2 } else { 1 }
    }
}

/// What the first of these occurrences asks for.
fn asked(all: &VecDeque<Occurrence>, indirect: &Indirect, distance: u32, stores: &Stores) -> Asked {
    let Occurrence { indexes: here, number, run, .. } = all[0];
    let later = |times: usize| {
        let ahead = indirect.stride.wrapping_mul(times as i64 * i64::from(distance));
        let mut indexes = [here[0].wrapping_add_signed(ahead), here[1], here[2], here[3]];
        // Mostly it is the last one: no step is left out.
        let within = all.iter().take(times * distance as usize + 1).skip(1);
        let is_changed = within.clone().any(|later| later.is_changed);
        let is_it = |later: &&Occurrence| later.indexes[0] == indexes[0] && (indirect.crosses_ends || later.run == run);
        let later = within.rev().find(is_it).copied();
        indexes = later.map_or(indexes, |later| later.indexes);
        let is_stored = |later: &Occurrence| later.indexes.iter().any(|at| stores.is_stored_since(*at, number));
        (indexes, later.filter(|later| !is_changed && !is_stored(later)))
    };
    let [(near, one), (far, two)] = [1, 2].map(later);
    let has_between = one.filter(|later| later.through.is_none_or(|at| !stores.is_stored_since(at, number)));
    Asked {
        here: here[0],
        indexes: [near, far],
        address: has_between.map(|later| later.address),
        through: [one, two].map(|later| later?.through),
    }
}

impl Thread {
    /// A load that comes now, with its index.
    fn occurrence(
        &mut self,
        copy: &Copy,
        (of, indirect): (u32, &Indirect),
        (number, address): (u64, u64),
        stores: &Stores,
    ) -> Occurrence {
        let last = |instruction: u32| self.trail.last(instruction).0;
        let mut indexes = [0; MOST_INDEXES];
        for (at, index) in indexes.iter_mut().zip(&copy.indexes) {
            *at = last(*index);
        }
        let following = &mut self.loads[of as usize];
        following.lane = match following.index.replace(indexes[0]) == Some(indexes[0]) {
            true => (following.lane + 1) % indirect.lanes.max(1),
            false => 0,
        };
        indexes[0] = indexes[0].wrapping_add_signed(indirect.stride.wrapping_mul(following.lane.into()));
        let (through, run) = (copy.through.map(last), self.trail.run(copy.around));
        let before = following.occurrences.back().map_or(number, |before| before.number);
        let is_changed = copy.staying.iter().any(|staying| stores.is_stored_since(last(*staying), before));
        Occurrence { number, run, indexes, address, through, is_changed }
    }
}

impl Asked {
    /// Accesses before a load that does so.
    fn before(&self, load: &Access, indirect: &Indirect, handed_on: &mut Vec<Access>) {
        let Self { here, indexes: [near, far], address, through: [one, two] } = *self;
        let of_index = indirect.stride.unsigned_abs().clamp(1, 8) as u32;
        let indexes = indirect.copies.first().map_or(1, |copy| copy.indexes.len());
        let mut add =
            |key, kind, address, bytes, work| handed_on.push(Access { address, key, bytes, kind, work, ..*load });
        // What is loaded for an address alone leads nowhere else, and has none of the loop's instructions with it.
        let (prefetch, usual) = (structure_key(indirect.told_as, false), Work::USUAL);
        if indirect.steps() > 1 {
            far[..indexes].iter().for_each(|index| add(NO_STRUCTURE, AccessKind::Load, *index, of_index, usual));
            add(prefetch, AccessKind::Prefetch, two.unwrap_or(here), 1, indirect.work);
        }
        near[..indexes].iter().for_each(|index| add(NO_STRUCTURE, AccessKind::Load, *index, of_index, usual));
        if indirect.steps() > 1 {
            add(NO_STRUCTURE, AccessKind::Load, one.unwrap_or(here), 1, usual);
        }
        // Of a load that lies across lines one instruction asks for the first.
        add(prefetch, AccessKind::Prefetch, address.unwrap_or(here), 1, indirect.work);
    }
}

impl<C: Consumer> Consumer for Prefetched<'_, C> {
    fn take(&mut self, accesses: &[Access]) {
        for access in accesses {
            self.one(access);
        }
        self.hand_on((MOST_WAITING * self.threads.len().max(1)).min(MOST_WAITING_TOGETHER));
        self.to.take(&self.handed_on);
        self.handed_on.clear();
    }

    /// Where pages are says nothing of where they would be: nobody is told.
    fn locate(&mut self, _: &Located<'_>) {}
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Seen(Vec<Access>);

    impl Consumer for Seen {
        fn take(&mut self, accesses: &[Access]) {
            self.0.extend(accesses);
        }
    }

    /// Instructions 0, 1 and 2 have keys of these numbers: an index, what has that for an index, and what has this. 3 is around their loop, 4 another
    /// index.
    const KEYS: [KeyRole; 5] = [role(0), role(1), role(2), role(3), role(4)];

    const fn role(instruction: u32) -> KeyRole {
        KeyRole { instruction, body: if instruction == 3 { 0 } else { NO_BODY }, told_as: 0, leads_on: false }
    }

    fn access(key: u32, address: u64, thread: u32) -> Access {
        Access { address, key, bytes: 8, thread, kind: AccessKind::Load, work: Work::USUAL }
    }

    fn copy(load: u32, through: Option<u32>) -> Indirect {
        Indirect {
            copies: vec![Copy { load, through, indexes: vec![0], staying: Vec::new(), around: Some(0) }],
            stride: 4,
            lanes: 1,
            crosses_ends: false,
            told_as: 20,
            work: Work::USUAL,
        }
    }

    fn store(address: u64, thread: u32) -> Access {
        Access { kind: AccessKind::Store, bytes: 4, ..access(9, address, thread) }
    }

    /// What comes out, by kind and address, of these batches.
    fn seen(indirect: &Indirect, distance: u32, batches: &[&[Access]]) -> Vec<(AccessKind, u64)> {
        let mut prefetched = Prefetched::new(Seen::default(), &KEYS, vec![(indirect, distance)]);
        batches.iter().for_each(|batch| prefetched.take(batch));
        prefetched.finish().0.iter().map(|access| (access.kind, access.address)).collect()
    }

    use AccessKind::{Load, Prefetch};

    #[test]
    fn the_address_of_a_later_step_is_asked_for() {
        // Three steps, and behind a gap two more.
        let steps = [(100, 9000), (104, 7000), (108, 8000), (200, 5000), (204, 6000)];
        let all: Vec<Access> = steps.iter().flat_map(|&(index, of)| [access(0, index, 0), access(1, of, 0)]).collect();
        let expected = [
            [(Load, 100), (Load, 104), (Prefetch, 7000), (Load, 9000)],
            [(Load, 104), (Load, 108), (Prefetch, 8000), (Load, 7000)],
            // What is not known is near.
            [(Load, 108), (Load, 112), (Prefetch, 108), (Load, 8000)],
            [(Load, 200), (Load, 204), (Prefetch, 6000), (Load, 5000)],
            // And where nothing follows the index is not, either.
            [(Load, 204), (Load, 204), (Prefetch, 204), (Load, 6000)],
        ];
        assert_eq!(seen(&copy(1, None), 1, &[&all]), expected.concat());
        // By the key that is for them.
        let indirect = copy(1, None);
        let mut prefetched = Prefetched::new(Seen::default(), &KEYS, vec![(&indirect, 1)]);
        prefetched.take(&all);
        let seen_keys = prefetched.finish().0;
        assert!(seen_keys.iter().all(|of| (of.kind == Prefetch) == (of.key == structure_key(20, false))));
        let (one, other) = all.split_at(3);
        assert_eq!(seen(&copy(1, None), 1, &[one, other]), expected.concat());
    }

    #[test]
    fn what_is_stored_before_its_step_is_not_known() {
        let steps = [(100, 9000), (104, 7000), (108, 8000)];
        let store = |address| store(address, 0);
        let all: Vec<Access> = steps
            .iter()
            // Each step stores the next one's index, and something else.
            .flat_map(|&(index, of)| [access(0, index, 0), access(1, of, 0), store(index + 4), store(64)])
            .collect();
        let asked = |all: &[Access], indirect: &Indirect| {
            let seen = seen(indirect, 1, &[all]);
            seen.into_iter().filter(|of| of.0 == Prefetch).map(|of| of.1).collect::<Vec<_>>()
        };
        assert_eq!(asked(&all, &copy(1, None)), [100, 104, 108]);
        // Where it is stored a step earlier, it is there.
        let earlier: Vec<Access> =
            all.iter().map(|of| if of.key == 9 { Access { address: of.address - 4, ..*of } } else { *of }).collect();
        assert_eq!(asked(&earlier, &copy(1, None)), [7000, 8000, 108]);
        // So is what stays where it is, and is stored in each step.
        let mut staying = copy(2, None);
        staying.copies[0].staying = vec![1];
        let of_hash: Vec<Access> = steps
            .iter()
            .flat_map(|&(index, of)| [access(0, index, 0), access(1, 64, 0), store(64), access(2, of, 0)])
            .collect();
        assert_eq!(asked(&of_hash, &staying), [100, 104, 108]);
        assert_eq!(asked(&of_hash, &copy(2, None)), [7000, 8000, 108]);
    }

    #[test]
    fn rows_are_looked_across_if_they_are_to_be() {
        let row = |steps: &[(u64, u64)]| {
            let steps = steps.iter().flat_map(|&(index, of)| [access(0, index, 0), access(1, of, 0)]);
            [access(3, 64, 0)].into_iter().chain(steps).collect::<Vec<_>>()
        };
        let all = [row(&[(100, 9000), (104, 7000)]), row(&[(108, 8000), (112, 6000)])].concat();
        let asked = |indirect: &Indirect| {
            let seen = seen(indirect, 1, &[&all]);
            seen.into_iter().filter(|of| of.0 == Prefetch).map(|of| of.1).collect::<Vec<_>>()
        };
        assert_eq!(asked(&copy(1, None)), [7000, 104, 6000, 112]);
        assert_eq!(asked(&Indirect { crosses_ends: true, ..copy(1, None) }), [7000, 8000, 6000, 112]);
    }

    #[test]
    fn each_index_is_loaded() {
        let mut sum = copy(1, None);
        sum.copies[0].indexes = vec![0, 4];
        let steps = [(100, 400, 9000), (104, 408, 7000)];
        let all: Vec<Access> = steps
            .iter()
            .flat_map(|&(one, other, of)| [access(0, one, 0), access(4, other, 0), access(1, of, 0)])
            .collect();
        let expected = [(Load, 100), (Load, 400), (Load, 104), (Load, 408), (Prefetch, 7000), (Load, 9000)];
        assert_eq!(seen(&sum, 1, &[&all])[..6], expected);
        // What is stored of any is not known.
        let (first, second) = all.split_at(3);
        let stored = [first, &[store(408, 0)], second].concat();
        assert_eq!(seen(&sum, 1, &[&stored])[4], (Prefetch, 100));
    }

    #[test]
    fn an_index_between_is_asked_for_twice_as_far_ahead() {
        let steps = [(100, 3000, 9000), (104, 4000, 7000), (108, 5000, 8000)];
        let of = |&(c, b, a): &(u64, u64, u64)| [access(0, c, 0), access(1, b, 0), access(2, a, 0)];
        let all: Vec<Access> = steps.iter().flat_map(of).collect();
        let found = seen(&copy(2, Some(1)), 1, &[&all]);
        let first = [(Load, 108), (Prefetch, 5000), (Load, 104), (Load, 4000), (Prefetch, 7000)];
        assert_eq!(found[..8], [&[(Load, 100), (Load, 3000)], &first[..], &[(Load, 9000)]].concat());
    }

    #[test]
    fn lanes_of_a_vector_are_steps() {
        let indirect = Indirect { lanes: 2, ..copy(1, None) };
        let all = [access(0, 100, 0), access(1, 9000, 0), access(1, 7000, 0), access(0, 108, 0), access(1, 8000, 0)];
        let expected =
            [(Load, 100), (Load, 104), (Prefetch, 7000), (Load, 9000), (Load, 108), (Prefetch, 8000), (Load, 7000)];
        assert_eq!(seen(&indirect, 1, &[&all])[..8], [&expected[..2], &expected[2..], &[(Load, 108)]].concat());
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut prefetched = Prefetched::new(Seen::default(), &KEYS, Vec::new());
        prefetched.take(&[access(1, 8, 0)]);
        assert_eq!(prefetched.to.0.len(), 1);
        let indirect = copy(1, None);
        let mut prefetched = Prefetched::new(Seen::default(), &KEYS, vec![(&indirect, 4)]);
        prefetched.take(&[access(0, 100, 0), access(1, 8, 0)]);
        assert_eq!(prefetched.to.0.len(), 1);
        prefetched.take(&vec![access(9, 16, 0); MOST_WAITING]);
        // With the index that is loaded anew, and the prefetch.
        assert_eq!(prefetched.to.0.len(), MOST_WAITING + 4);
        prefetched.take(&[access(0, 104, 0), access(1, 24, 0)]);
        assert_eq!(prefetched.to.0.len(), MOST_WAITING + 5);
        // For each thread.
        prefetched.take(&[access(0, 200, 1), access(1, 48, 1)]);
        prefetched.take(&vec![access(9, 16, 1); MOST_WAITING]);
        assert_eq!(prefetched.to.0.len(), MOST_WAITING + 5);
        assert_eq!(prefetched.finish().0.len(), 2 * MOST_WAITING + 12);
    }

    /// By what the words say: all that a thread does is there, and is looked at anew for each load.
    fn slowly(indirect: &Indirect, distance: u32, all: &[Access]) -> Vec<(AccessKind, u64)> {
        // A step: where its load is, where each instruction was last, which lane it has, and which time through the loop it is in.
        struct Step {
            at: usize,
            last: [u64; 3],
            lane: u64,
            run: usize,
        }
        let of_thread = |thread: u32| {
            let mut last = [0; 3];
            let mut steps: Vec<Step> = Vec::new();
            for (at, access) in all.iter().enumerate().filter(|(_, access)| access.thread == thread) {
                let Some(known) = last.get_mut(access.key as usize) else { continue };
                *known = access.address;
                if access.key == indirect.copies[0].load {
                    let lane = match steps.last() {
                        Some(before) if before.last[0] == last[0] => (before.lane + 1) % u64::from(indirect.lanes),
                        _ => 0,
                    };
                    let run = all[..at].iter().filter(|of| of.thread == thread && of.key == 3).count();
                    steps.push(Step { at, last, lane, run });
                }
            }
            steps
        };
        let index_of = |step: &Step| step.last[0].wrapping_add_signed(indirect.stride * step.lane as i64);
        let is_stored = |place: u64, from: usize, to: usize| {
            let mut between = all[from..to].iter().filter(|of| of.kind == AccessKind::Store).map(Access::ends);
            between.any(|(first, last)| (first / 4..=last / 4).contains(&(place / 4)))
        };
        let threads = [of_thread(0), of_thread(1)];
        let (has_through, far) = (indirect.copies[0].through.is_some(), distance as usize);
        let mut found = Vec::new();
        for (at, access) in all.iter().enumerate() {
            let steps = &threads[access.thread as usize];
            if let Some(number) = steps.iter().position(|of| of.at == at) {
                let (step, here) = (&steps[number], index_of(&steps[number]));
                let index = |times: i64| here.wrapping_add_signed(indirect.stride * times * i64::from(distance));
                // Steps without as many behind them as are looked ahead ask for nothing.
                let ahead = number + far * if has_through { 2 } else { 1 };
                let is_last = ahead >= steps.len();
                // What was stored is told when it is asked, once as many steps were seen.
                let until = steps.get(ahead).map_or(0, |of| of.at);
                let later = |times: i64| {
                    let within = steps[number + 1..].iter().take(times as usize * far);
                    let is_it =
                        |of: &&Step| index_of(of) == index(times) && (indirect.crosses_ends || of.run == step.run);
                    within.rev().find(is_it).filter(|of| !is_last && !is_stored(index_of(of), at, until))
                };
                let through = |times: i64| later(times).map(|of| of.last[1]);
                let known = later(1).filter(|of| !has_through || !is_stored(of.last[1], at, until));
                let address = known.map_or(here, |of| all[of.at].address);
                let index = |times| if is_last { here } else { index(times) };
                if has_through {
                    found.extend([(Load, index(2)), (Prefetch, through(2).unwrap_or(here))]);
                    found.extend([(Load, index(1)), (Load, through(1).unwrap_or(here)), (Prefetch, address)]);
                } else {
                    found.extend([(Load, index(1)), (Prefetch, address)]);
                }
            }
            found.push((access.kind, access.address));
        }
        found
    }

    proptest! {
        #[test]
        fn looking_ahead_is_looking_it_up(
            // Runs: a thread, the index's first address, how far it goes, and whether something around the loop is accessed before.
            runs in prop::collection::vec((0..2_u32, 0..4_u64, 1..9_u64, any::<bool>()), 0..12),
            distance in 1..4_u32,
            (has_through, crosses_ends) in any::<(bool, bool)>(),
            stride in prop::sample::select(vec![-8_i64, 4]),
            lanes in 1..3_u32,
            at in prop::collection::vec(0..9_u64, 1..40),
            batch in 1..9_usize,
        ) {
            let of_load = if has_through { copy(2, Some(1)) } else { copy(1, None) };
            let indirect = Indirect { stride, lanes, crosses_ends, ..of_load };
            let mut random = at.iter().cycle();
            let mut all = Vec::new();
            for (thread, first, steps, is_behind_another) in runs {
                all.extend(is_behind_another.then(|| access(3, 64, thread)));
                for step in 0..steps {
                    let lane = step % u64::from(lanes);
                    let first = 1000 + 400 * first;
                    if lane == 0 {
                        all.push(access(0, first.wrapping_add_signed(stride * step as i64), thread));
                    }
                    // Which other accesses are between, and what is loaded; some store indexes, of later steps and of others.
                    all.extend((0..random.next().unwrap() % 3).map(|_| access(7, 64, thread)));
                    let stored = random.next().unwrap();
                    if *stored > 5 {
                        all.push(store(first.wrapping_add_signed(stride * *random.next().unwrap() as i64), thread));
                    }
                    if *stored == 3 {
                        all.push(store(8000 + 8 * random.next().unwrap(), thread));
                    }
                    all.push(access(1, 8000 + 8 * random.next().unwrap(), thread));
                    all.push(access(2, 9000 + 8 * random.next().unwrap(), thread));
                }
            }
            let batches: Vec<&[Access]> = all.chunks(batch).collect();
            prop_assert_eq!(seen(&indirect, distance, &batches), slowly(&indirect, distance, &all));
        }
    }
}
