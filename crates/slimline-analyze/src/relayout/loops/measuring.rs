//! What nests take of a program, and what else runs in them.

use slimline_simulate::access::{Access, Consumer, Located};
use slimline_simulate::relaid::{NO_STRUCTURE, structure_key};
use slimline_simulate::waiting::Waiting;

use super::others::{Between, OtherKey, Others};
use super::replay::Cost;
use super::{FoundNests, Nest, Steps};
use crate::relayout::Taken;

/// Other accesses for each time around the outer loop that may be of that alone.
const MOST_AROUND: u64 = 4;
/// What comes more often than once for each time through a nest, and by this part of that, is in it: how often it was gone through is a mean.
const MORE_OFTEN: f64 = 1.1;

/// What a key is of a nest.
#[derive(Clone, Copy, Debug)]
struct KeyOf {
    nest: u32,
    is_leading: bool,
    /// Where it is each time that the nest begins, and never else, if that is known.
    begins_at: Option<u64>,
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
    /// How often another nest came behind it.
    pub followed: u64,
    /// How often more accesses were between two of its own than are looked at.
    pub given_up: u64,
    /// There are more other keys than are told apart.
    pub has_more_keys: bool,
}

impl MeasuredNest {
    /// How often it was gone through.
    fn through(&self, nest: &Nest) -> f64 {
        self.steps as f64 / (nest.times.inner.max(1) * nest.times.outer.max(1)) as f64
    }

    /// Whether others run in its outer loop.
    pub(super) fn has_beside(&self, nest: &Nest, windows: u64) -> bool {
        // One that follows all of it comes once for each time through it, and where the next window is of another nest.
        self.followed as f64 > self.through(nest).max(1.0) * MORE_OFTEN + windows as f64
    }

    /// Whether something runs in it of which nothing is known.
    pub(super) fn has_unseen(&self, nest: &Nest, windows: u64) -> bool {
        // Where it is not known when it begins again, anything may be between each two times through it: that is one less.
        let between = self.through(nest) * MORE_OFTEN - 0.5 + windows as f64;
        self.has_more_keys || self.given_up as f64 > between
    }

    /// Accesses in it that are no walk's.
    fn others(&self) -> u64 {
        self.others.iter().map(|other| other.count).sum()
    }

    /// Part of the accesses in it that are no walk's.
    pub fn others_part(&self) -> f64 {
        self.part_of_others(|_| true)
    }

    /// Part of the accesses in it that are these others'.
    pub(super) fn part_of_others(&self, is_of: impl Fn(&OtherKey) -> bool) -> f64 {
        let chosen: u64 = self.others.iter().filter(|other| is_of(other)).map(|other| other.count).sum();
        chosen as f64 / (self.others() + self.accesses).max(1) as f64
    }

    /// Whether these are so few that they come with the outer loop, not with steps of the inner one.
    pub(super) fn are_others_around(&self, nest: &Nest) -> bool {
        self.others() <= MOST_AROUND * self.steps / nest.times.inner.max(1)
    }
}

/// Where a thread is.
#[derive(Clone, Debug, Default)]
struct At {
    nest: Option<u32>,
    /// Since it was accessed last.
    between: Between,
}

/// Takes accesses in by the keys by which nests were found. Memory: that of a machine, and some kilobytes a nest.
#[derive(Debug)]
pub struct Measuring {
    of_key: Vec<Option<KeyOf>>,
    waiting: Waiting,
    handed_on: Vec<Access>,
    threads: Vec<At>,
    nests: Vec<MeasuredNest>,
    others: Vec<Others>,
}

impl Measuring {
    /// On a machine that has done nothing yet.
    pub fn new(found: &FoundNests, waiting: Waiting) -> Self {
        let mut of_key = Vec::new();
        for (number, nest) in (0..).zip(&found.nests) {
            for (at, stream) in nest.streams.iter().enumerate() {
                let is_once = stream.steps == Steps::Passes(0) && stream.stream.outer_bytes != 0;
                let begins_at = is_once.then_some(stream.stream.start);
                for &key in &stream.keys {
                    if of_key.len() <= key as usize {
                        of_key.resize(key as usize + 1, None);
                    }
                    of_key[key as usize] = Some(KeyOf { nest: number, is_leading: at == nest.leading, begins_at });
                }
            }
        }
        Self {
            of_key,
            waiting: waiting.by_key(),
            handed_on: Vec::new(),
            threads: Vec::new(),
            nests: vec![MeasuredNest::default(); found.nests.len()],
            others: vec![Others::default(); found.nests.len()],
        }
    }

    /// What was found, by nest.
    pub fn finish(self) -> Vec<MeasuredNest> {
        let Self { waiting, mut nests, others, .. } = self;
        let waited = waiting.finish();
        for ((number, nest), others) in (0..).zip(&mut nests).zip(others) {
            nest.cost = Cost::of(&Taken::of_key(&waited, structure_key(number, false)));
            nest.has_more_keys = others.has_more_keys();
            nest.others = others.into_keys();
        }
        nests
    }

    fn note(&mut self, access: &Access) {
        let thread = access.thread as usize;
        if self.threads.len() <= thread {
            self.threads.resize_with(thread + 1, At::default);
        }
        let at = &mut self.threads[thread];
        let Some(KeyOf { nest, is_leading, begins_at }) = self.of_key.get(access.key as usize).copied().flatten()
        else {
            if at.nest.is_some() {
                at.between.note(access);
            }
            return;
        };
        let of_nest = &mut self.nests[nest as usize];
        of_nest.accesses += 1;
        of_nest.steps += u64::from(is_leading);
        match at.nest.replace(nest) {
            // It is gone through again: what was in between is not in it.
            Some(before) if before == nest && begins_at == Some(access.address) => {}
            Some(before) if before == nest && at.between.has_more() => of_nest.given_up += 1,
            Some(before) if before == nest => self.others[nest as usize].take(&at.between),
            // If that is in the same loop, it comes so often that both are beside each other; if not, nor is what is between them.
            Some(before) => self.nests[before as usize].followed += 1,
            None => {}
        }
        at.between.clear();
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
