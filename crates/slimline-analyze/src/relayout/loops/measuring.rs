//! What nests take of a program, and what else runs in them.

use rustc_hash::FxHashMap;
use slimline_simulate::access::{Access, Consumer, Located};
use slimline_simulate::relaid::{NO_STRUCTURE, structure_key};
use slimline_simulate::waiting::Waiting;

use super::replay::Cost;
use super::{FoundNests, Nest};
use crate::relayout::Taken;

/// Accesses between two of a nest that may be within it: more are a call that is no part of the loop.
const MOST_BETWEEN: usize = 1024;
/// Other keys of a nest that are told apart.
const MOST_KEYS: usize = 256;
/// A loop that runs so often by the other one's times around is beside it, in the same loop.
const BESIDE: f64 = 0.5;

/// What a key is of a nest.
#[derive(Clone, Copy, Debug)]
struct KeyOf {
    nest: u32,
    is_leading: bool,
}

/// Accesses in a nest that do not walk with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherKey {
    /// Their key.
    pub key: u32,
    /// How many.
    pub count: u64,
    /// Whether any stores.
    pub stores: bool,
}

/// A nest's part of what was replayed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredNest {
    /// Steps of its inner loop.
    pub steps: u64,
    /// Accesses of its instructions.
    pub accesses: u64,
    /// What they take.
    pub cost: Cost,
    /// Other accesses between them, by key.
    pub others: Vec<OtherKey>,
    /// How often another nest came behind it, that which came most often.
    pub followed: u64,
}

impl MeasuredNest {
    /// Whether another nest runs each time around its outer loop.
    pub(super) fn has_beside(&self, nest: &Nest) -> bool {
        let around = self.steps as f64 / nest.times.inner.max(1) as f64;
        // One that follows all of it comes once for each time through it.
        let through = around / nest.times.outer.max(1) as f64;
        self.followed as f64 > through + (around - through) * BESIDE
    }
}

/// Where a thread is.
#[derive(Clone, Debug, Default)]
struct At {
    nest: Option<u32>,
    /// Keys since it was accessed last, and whether these accesses store.
    between: Vec<(u32, bool)>,
}

/// Takes accesses in by the keys by which nests were found. Memory: that of a machine, and some kilobytes a nest.
#[derive(Debug)]
pub struct Measuring {
    of_key: Vec<Option<KeyOf>>,
    waiting: Waiting,
    handed_on: Vec<Access>,
    threads: Vec<At>,
    nests: Vec<MeasuredNest>,
    others: Vec<FxHashMap<u32, OtherKey>>,
    followed: FxHashMap<(u32, u32), u64>,
}

impl Measuring {
    /// On a machine that has done nothing yet.
    pub fn new(found: &FoundNests, waiting: Waiting) -> Self {
        let mut of_key = Vec::new();
        for (number, nest) in (0..).zip(&found.nests) {
            for (at, stream) in nest.streams.iter().enumerate() {
                for &key in &stream.keys {
                    if of_key.len() <= key as usize {
                        of_key.resize(key as usize + 1, None);
                    }
                    of_key[key as usize] = Some(KeyOf { nest: number, is_leading: at == nest.leading });
                }
            }
        }
        Self {
            of_key,
            waiting: waiting.by_key(),
            handed_on: Vec::new(),
            threads: Vec::new(),
            nests: vec![MeasuredNest::default(); found.nests.len()],
            others: vec![FxHashMap::default(); found.nests.len()],
            followed: FxHashMap::default(),
        }
    }

    /// What was found, by nest.
    pub fn finish(self) -> Vec<MeasuredNest> {
        let Self { waiting, mut nests, others, followed, .. } = self;
        let waited = waiting.finish();
        for ((number, nest), others) in (0..).zip(&mut nests).zip(others) {
            nest.cost = Cost::of(&Taken::of_key(&waited, structure_key(number, false)));
            nest.others = others.into_values().collect();
            nest.others.sort_unstable_by_key(|other| other.key);
            let behind = followed.iter().filter(|((before, _), _)| *before == number);
            nest.followed = behind.map(|(_, count)| *count).max().unwrap_or(0);
        }
        nests
    }

    fn note(&mut self, access: &Access) {
        let thread = access.thread as usize;
        if self.threads.len() <= thread {
            self.threads.resize_with(thread + 1, At::default);
        }
        let at = &mut self.threads[thread];
        let Some(KeyOf { nest, is_leading }) = self.of_key.get(access.key as usize).copied().flatten() else {
            if at.nest.is_some() && at.between.len() < MOST_BETWEEN {
                at.between.push((access.key, access.kind.stores()));
            } else if at.nest.is_some() {
                at.nest = None;
                at.between.clear();
            }
            return;
        };
        let of_nest = &mut self.nests[nest as usize];
        of_nest.accesses += 1;
        of_nest.steps += u64::from(is_leading);
        match at.nest.replace(nest) {
            Some(before) if before == nest => {
                let others = &mut self.others[nest as usize];
                for (key, stores) in at.between.drain(..) {
                    if others.len() < MOST_KEYS || others.contains_key(&key) {
                        let other = others.entry(key).or_insert(OtherKey { key, count: 0, stores: false });
                        other.count += 1;
                        other.stores |= stores;
                    }
                }
            }
            Some(before) => {
                at.between.clear();
                *self.followed.entry((before, nest)).or_default() += 1;
            }
            None => at.between.clear(),
        }
    }
}

impl Consumer for Measuring {
    fn take(&mut self, accesses: &[Access]) {
        self.handed_on.clear();
        for access in accesses {
            self.note(access);
            let key = self.of_key.get(access.key as usize).copied().flatten();
            let key = key.map_or(NO_STRUCTURE, |of| structure_key(of.nest, false));
            self.handed_on.push(Access { key, ..*access });
        }
        self.waiting.take(&self.handed_on);
    }

    /// Where pages are says nothing of where they would be: nobody is told.
    fn locate(&mut self, _: &Located<'_>) {}
}
