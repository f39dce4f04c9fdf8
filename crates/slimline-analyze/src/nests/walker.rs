//! Instructions that walk by strides, and which of them are in one nest of loops.

use std::collections::BTreeMap;

use slimline_simulate::access::{AccessKind, Work};
use slimline_simulate::locality::exchange::{Stream, Times, Turn};
use slimline_simulate::locality::{Walk, Walking};

use crate::origins::Origins;
use crate::relayout::loops::Steps;
use crate::unrolled::spacing;

/// Part of an instruction's accesses that must be of its walk.
const REGULAR: f64 = 0.75;
/// Loops of about equal length: this part of it, and [`FEW`] steps, as where the first or last element has no neighbor.
const ALIKE: f64 = 0.1;
const FEW: f64 = 2.0;
/// Elements that a vector may have.
const LANES: [u32; 4] = [2, 4, 8, 16];

/// One instruction of one thread that walks, or all copies of it.
#[derive(Clone, Debug)]
pub(crate) struct Walker {
    /// The copies' keys, that of the one whose walk it is first.
    pub(crate) keys: Vec<u32>,
    pub(crate) thread: u32,
    pub(crate) walk: Walk,
    pub(crate) bytes: u32,
    pub(crate) kind: AccessKind,
    work: Work,
    /// All of its accesses, of whatever walk they are.
    accesses: u64,
    /// Elements of its walk that one of its accesses takes, as a vector.
    pub(crate) lanes: u32,
    /// How many of its accesses are not of its walk.
    apart: u64,
    /// Rows one behind the other: the loop around only goes on, as a place in an output does.
    pub(crate) is_line: bool,
}

impl Walker {
    /// Its first key.
    pub(crate) fn key(&self) -> u32 {
        self.keys[0]
    }

    /// How often it goes around both loops, as a mean.
    fn times(&self) -> Times {
        Times { inner: self.walk.inner().round() as u64, outer: self.walk.outer().round() as u64 }
    }

    /// The same where others are in its loop. To one that goes through rows without a gap two loops around it are one, in which another one begins
    /// again where the next row does.
    fn times_with(&self, others: &[Self]) -> Times {
        let times = self.times();
        let Walk { inner_bytes, outer_bytes, .. } = self.walk;
        let begins_again = |other: &&Self| {
            let Walk { passes, most_runs, .. } = other.walk;
            let goes_on_by = i128::from(outer_bytes) * i128::from(most_runs);
            passes > 1
                && are_alike(other.walk.outer(), most_runs as f64)
                && inner_bytes != 0
                && goes_on_by % i128::from(inner_bytes) == 0
        };
        let shorter = others.iter().filter(begins_again).map(|other| other.walk.most_runs);
        Times {
            outer: shorter.filter(|&of| !are_alike(of as f64, times.outer as f64)).fold(times.outer, u64::min),
            ..times
        }
    }

    pub(crate) fn stream(&self) -> Stream {
        let &Self { walk: Walk { start, inner_bytes, outer_bytes, .. }, bytes, kind, work, .. } = self;
        Stream { start, inner_bytes, outer_bytes, bytes, kind, turn: Turn::Inner, work }
    }

    /// One instruction of all copies of it, which come in this order; None where they are none.
    fn of_copies(copies: &[Self]) -> Option<Self> {
        let starts: Vec<u64> = copies.iter().map(|copy| copy.walk.start).collect();
        let first = copies.first()?;
        let inner_bytes = match first.walk.inner_bytes {
            // What each step stores to the same place.
            0 => (starts.len() > 1 && starts.iter().all(|start| start == &starts[0])).then_some(0)?,
            stride => spacing(stride, &starts)?,
        };
        let sum = |of: fn(&Walk) -> u64| copies.iter().map(|copy| of(&copy.walk)).sum();
        let walk = Walk {
            inner_bytes,
            accesses: sum(|walk| walk.accesses),
            longest: sum(|walk| walk.longest),
            longest_run: sum(|walk| walk.longest_run),
            ends: copies.iter().map(|copy| copy.walk.ends).max()?,
            ..first.walk
        };
        let around = |of: &Walk| (of.runs, of.passes, of.moved, of.accesses);
        let apart = match copies.iter().all(|copy| around(&copy.walk) == around(&first.walk)) {
            true => copies.iter().map(|copy| copy.apart).max()?,
            false => u64::MAX,
        };
        let keys = copies.iter().flat_map(|copy| copy.keys.clone()).collect();
        let accesses = copies.iter().map(|copy| copy.accesses).sum();
        Some(Self { keys, walk, accesses, apart, ..first.clone() })
    }

    /// The same as if it took one of so many elements of a vector after the other.
    fn by_elements(&self, lanes: u32) -> Self {
        let bytes = self.bytes / lanes;
        // Backwards a vector begins with its last element.
        let behind = if self.walk.inner_bytes < 0 { u64::from(self.bytes - bytes) } else { 0 };
        let walk = Walk {
            inner_bytes: self.walk.inner_bytes / i64::from(lanes),
            start: self.walk.start.wrapping_add(behind),
            accesses: self.walk.accesses * u64::from(lanes),
            longest: self.walk.longest * u64::from(lanes),
            longest_run: self.walk.longest_run * u64::from(lanes),
            ..self.walk
        };
        let work = Work::of(self.work.instructions() / f64::from(lanes));
        Self { walk, bytes, lanes, work, ..self.clone() }
    }

    /// Whether it passes over neighbors on its line that it comes back for.
    pub(crate) fn is_against(&self, line_bytes: u64) -> bool {
        let (inner, outer) = (self.walk.inner_bytes.unsigned_abs(), self.walk.outer_bytes.unsigned_abs());
        inner >= line_bytes && 0 < outer && outer < line_bytes
    }

    /// What it is in the loop of another one, each of whose elements one step is; None where it is in another loop.
    pub(crate) fn in_loop_of(&self, other: &Self) -> Option<Self> {
        let overlap = self.walk.begins <= other.walk.ends && other.walk.begins <= self.walk.ends;
        if self.thread != other.thread || !overlap {
            return None;
        }
        let found = self.of_as_many(self.walk.inner(), other.walk.inner())?;
        // A loop around it may be as long.
        let elements_a_run = found.accesses as f64 * f64::from(found.lanes) / other.walk.runs.max(1) as f64;
        are_alike(elements_a_run, other.walk.inner()).then_some(found)
    }

    /// The same of one that goes on from where it was as the loop around the other one goes on: rows one behind the other are one walk.
    fn goes_on_in_loop_of(&self, other: &Self) -> Option<Self> {
        if self.thread != other.thread || !(other.walk.begins..=other.walk.ends).contains(&self.walk.begins) {
            return None;
        }
        let found = self.of_as_many(self.accesses as f64, other.accesses as f64)?;
        let steps = other.walk.inner().round() as i64;
        let Walk { runs, passes, longest_run, most_runs, .. } = other.walk;
        let outer_bytes = found.walk.inner_bytes.saturating_mul(steps);
        let walk = Walk { outer_bytes, runs, passes, longest_run, most_runs, ..found.walk };
        Some(Self { walk, is_line: true, ..found })
    }

    /// How well it is known where its steps are in the loops of this one.
    pub(crate) fn steps_in(&self, leading: &Self) -> Steps {
        let (own, of_leading) = (&self.walk, &leading.walk);
        match self.is_line {
            true => Steps::of_line(own.accesses == of_leading.accesses, self.apart, of_leading.passes),
            false => {
                let shape = |of: &Walk| (of.accesses, of.runs);
                let is_whole = self.apart == 0 && shape(own) == shape(of_leading);
                match is_whole {
                    true if own.passes == of_leading.passes => Steps::Passes(own.moved),
                    // One place each time around, which goes on from one time through the loops to the next.
                    true if own.inner_bytes == 0 && own.passes == 1 => Steps::Line,
                    _ => Steps::Mostly,
                }
            }
        }
    }

    /// As of so many steps, where it makes so many of its own: the same, or those of vectors.
    fn of_as_many(&self, own: f64, steps: f64) -> Option<Self> {
        if are_alike(own, steps) {
            return Some(self.clone());
        }
        let is_dense = self.walk.inner_bytes.unsigned_abs() == u64::from(self.bytes);
        let is_of = |lanes: &u32| self.bytes.is_multiple_of(*lanes) && are_alike(own * f64::from(*lanes), steps);
        LANES.into_iter().filter(|_| is_dense).find(is_of).map(|lanes| self.by_elements(lanes))
    }
}

/// Whether loops of so many steps may be one.
fn are_alike(own: f64, steps: f64) -> bool {
    (own - steps).abs() <= steps * ALIKE + FEW
}

/// Instructions that walk; copies of one are one.
pub(crate) struct Walkers {
    /// Those that begin again, or elsewhere, each time.
    pub(crate) all: Vec<Walker>,
    /// Each by the stride that most of its accesses have, as if it were one run.
    by_stride: Vec<Walker>,
}

impl Walkers {
    /// Of how each key's accesses go through memory.
    pub(crate) fn of<'a>(keys: impl IntoIterator<Item = &'a Walking> + Clone, origins: &Origins) -> Self {
        let walker = |key: u32, walking: &Walking, walk: Walk, apart: u64| {
            let Walking { bytes, kind, work, .. } = *walking;
            let (thread, accesses) = (origins.of(key).thread, walking.accesses());
            Walker { keys: vec![key], thread, walk, bytes, kind, work, accesses, lanes: 1, apart, is_line: false }
        };
        let is_regular = |part: u64, walking: &Walking| part as f64 >= walking.accesses() as f64 * REGULAR;
        let walking = |(key, walking): (u32, &Walking)| {
            let walk = walking.walks.main().filter(|walk| is_regular(walk.accesses, walking))?;
            Some(walker(key, walking, walk, walking.accesses() - walk.accesses))
        };
        let striding = |(key, walking): (u32, &Walking)| {
            let strides = walking.strides.most_frequent();
            let stride = strides.first().filter(|stride| stride.bytes != 0 && is_regular(stride.count, walking))?;
            let (accesses, begins) = (walking.accesses(), walking.begins);
            let walk = Walk {
                inner_bytes: stride.bytes,
                outer_bytes: 0,
                start: walking.strides.first()?.0,
                begins,
                ends: begins,
                accesses,
                runs: 1,
                passes: 1,
                longest: accesses,
                shorter: 0,
                uneven: 0,
                longest_run: accesses,
                most_runs: 1,
                moved: 0,
            };
            Some(walker(key, walking, walk, walking.strides.total() - stride.count))
        };
        let all = (0..).zip(keys.clone()).filter_map(walking).collect();
        let by_stride = (0..).zip(keys).filter_map(striding).collect();
        Self { all: without_copies(all, origins), by_stride: without_copies(by_stride, origins) }
    }

    /// All that are in the loop of this one, in the order in which they begin, and how often that and the loop around it go around.
    pub(crate) fn nest_of(&self, leading: &Walker) -> (Vec<Walker>, Times) {
        let mut nest: Vec<Walker> = self.all.iter().filter_map(|walker| walker.in_loop_of(leading)).collect();
        for found in self.by_stride.iter().filter_map(|walker| walker.goes_on_in_loop_of(leading)) {
            if !nest.iter().any(|known| known.keys.iter().any(|key| found.keys.contains(key))) {
                nest.push(found);
            }
        }
        nest.sort_by_key(|walker| (walker.walk.begins, walker.key()));
        let times = leading.times_with(&nest);
        (nest, times)
    }
}

/// Copies of an instruction, as an unrolled loop has them, as one.
fn without_copies(walkers: Vec<Walker>, origins: &Origins) -> Vec<Walker> {
    let mut alike: BTreeMap<_, Vec<Walker>> = BTreeMap::new();
    for walker in walkers {
        let Walk { inner_bytes, outer_bytes, .. } = walker.walk;
        let of_source = origins.of(walker.key()).place_in_source();
        let of_loop = (of_source, inner_bytes, outer_bytes, walker.bytes, walker.kind.stores());
        alike.entry(of_loop).or_default().push(walker);
    }
    let mut all: Vec<Walker> = Vec::new();
    for ((_, inner_bytes, ..), mut copies) in alike {
        copies.sort_by_key(|copy| copy.walk.start);
        if inner_bytes < 0 {
            copies.reverse();
        }
        match Walker::of_copies(&copies) {
            Some(one) => all.push(one),
            None => all.append(&mut copies),
        }
    }
    all.sort_by_key(Walker::key);
    all
}

/// A key that is accessed once for each time around the loop around another one's, as a sum is; how it walks with that loop, and how well that is
/// known.
pub(crate) fn once_around(walking: &Walking, leading: &Walk) -> Option<(Stream, Steps)> {
    // It is just in front of the inner loop, or just behind it.
    let near = (leading.inner() + FEW) as u64;
    let begins_there = leading.begins.saturating_sub(near)..=leading.ends + near;
    let (accesses, runs) = (walking.accesses(), leading.runs);
    let is_once = runs > 1 && are_alike(accesses as f64, runs as f64) && begins_there.contains(&walking.begins);
    let stride = walking.strides.most_frequent().into_iter().next().filter(|_| is_once)?;
    let (start, _) = walking.strides.first()?;
    let stream = Stream {
        start,
        inner_bytes: 0,
        outer_bytes: stride.bytes,
        bytes: walking.bytes,
        kind: walking.kind,
        turn: Turn::Outer,
        work: walking.work,
    };
    let steps = Steps::of_line(accesses == runs, walking.strides.total() - stride.count, leading.passes);
    (stride.count as f64 >= accesses as f64 * REGULAR).then_some((stream, steps))
}
