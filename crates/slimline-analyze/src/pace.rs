//! Pace: how fast code runs, told by how far a walk came from one window to the next.
//!
//! A clock starts the windows, so a loop gets windows for its time, not for its executions: counts seen in windows
//! favour slow code. Where a site walks steadily over an object, two windows of its thread tell how often it ran in
//! between, and with the instructions a window has per execution, how many instructions the thread executed:
//!
//! ```text
//!   window 1             window 2          executions = (second address − first address) / mean step
//!   a a+s a+2s …  ····   b b+s …           pace = executions · instructions per execution / CPU time in between
//! ```
//!
//! Steps need not be equal (a loop that skips some elements), only go one way. The step is the mean of those inside of
//! windows; of a loop body longer than a window, which has none, it is what the site's offsets are congruent by. The
//! windows between two executions of such a site count as well: else the body would seem shorter than it is.
//!
//! All that holds only if the walk was the same all the time. It was not where the address went back or to another
//! object; where most of a site's pairs fail so, the others are chance too. Walks that restarted in between at a later
//! place scatter. Each site is judged alone, since in one loop one pointer may walk an array and another wrap
//! around in a buffer; the pace of a loop is that of most pairs of the sites that hold.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use slimline_trace::access::{SiteId, Window};

use crate::streams::Walk;

/// Pairs of windows that a pace rests on, at least.
const LEAST_PAIRS: u64 = 5;
/// Steps inside of windows that their mean rests on, at least.
const LEAST_STEPS: u64 = 8;
/// Executions in a window, on average, from which their distance is taken for the walk's step.
const LEAST_PER_WINDOW: f64 = 2.0;
/// Windows from one execution to the next, at most: then other code runs that has nothing to do with the walk.
const MOST_WINDOWS: u64 = 16;
/// Buckets of a histogram per factor of two: 2.2 % each.
const PER_OCTAVE: f64 = 32.0;
/// Buckets that the closest half of the paces of one walk spreads over, at most: a factor of two.
const MOST_SPREAD: i32 = 32;

/// Instructions a nanosecond that code can run at: eight a cycle at 6 GHz, and one main memory access after the other,
/// with no address translation cached, at the other end. What is beyond was no walk.
const POSSIBLE: RangeInclusive<f64> = 0.005..=48.0;

/// Pairs by the logarithm of what they tell.
type Histogram = BTreeMap<i32, u64>;

/// Pairs of windows of one site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace {
    /// Those with the later address above, and those with it below.
    ways: [Pairs; 2],
    /// Pairs of successive windows that the site was in another object in.
    elsewhere: u64,
    /// Steps inside of windows, and their sums with and without sign.
    steps: u64,
    advance: i64,
    travelled: u64,
    /// All its executions.
    executions: u64,
}

/// Pairs of windows that go the same way.
#[derive(Clone, Debug, Default, PartialEq)]
struct Pairs {
    /// By bytes a nanosecond.
    speeds: Histogram,
    /// Those of successive windows.
    successive: u64,
    /// Instructions of the windows from the first of each pair up to the second, and the site's executions in them.
    instructions: u64,
    executions: u64,
}

impl Pairs {
    fn number(&self) -> u64 {
        self.speeds.values().sum()
    }

    fn merge(&mut self, other: &Self) {
        add(&mut self.speeds, &other.speeds, 0);
        self.successive += other.successive;
        self.instructions += other.instructions;
        self.executions += other.executions;
    }
}

impl Pace {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.ways.iter_mut().zip(&other.ways).for_each(|(way, other)| way.merge(other));
        self.elsewhere += other.elsewhere;
        self.steps += other.steps;
        self.advance += other.advance;
        self.travelled += other.travelled;
        self.executions += other.executions;
    }

    /// What the pairs tell, if they are of one walk. `grain` is what the site's offsets are congruent by, if that is
    /// more than one access.
    fn steady(&self, grain: Option<u64>) -> Option<Steady<'_>> {
        let steps_known = self.steps >= LEAST_STEPS;
        // Most of the way is gone back again: a search, not a walk.
        if steps_known && self.advance.unsigned_abs() * 2 <= self.travelled {
            return None;
        }
        let forward = if steps_known { self.advance > 0 } else { self.ways[0].number() > self.ways[1].number() };
        let [ahead, back] = if forward { [&self.ways[0], &self.ways[1]] } else { [&self.ways[1], &self.ways[0]] };
        let broken = back.successive + self.elsewhere;
        let enough = ahead.number() >= LEAST_PAIRS || broken == 0;
        if broken > ahead.number() || !enough {
            return None;
        }
        closest_half(&ahead.speeds)?;
        // Of a site executed now and then while others walk on, the distance is not its own.
        let per_window = ahead.executions as f64 / ahead.number() as f64;
        let step = match steps_known && per_window >= LEAST_PER_WINDOW {
            true => Step::Mean {
                bytes: self.advance.unsigned_abs() as f64 / self.steps as f64,
                instructions: ahead.instructions as f64 / ahead.executions as f64,
            },
            false => Step::Grain(grain?),
        };
        Some(Steady { speeds: &ahead.speeds, step })
    }
}

/// A site's walk that held.
struct Steady<'a> {
    speeds: &'a Histogram,
    step: Step,
}

/// The sites of a loop that go by the same grain.
#[derive(Default)]
struct Body {
    sites: u64,
    executions: u64,
    instructions: u64,
}

/// From one execution to the next.
enum Step {
    /// As seen inside of windows.
    Mean { bytes: f64, instructions: f64 },
    /// The loop's body is longer than a window.
    Grain(u64),
}

/// The pace of a place in instructions a nanosecond, from those of its sites, each with what its offsets are congruent
/// by; `None` where they don't tell.
pub(crate) fn instructions_per_ns(sites: &[(&Pace, Option<u64>)]) -> Option<f64> {
    // Windows begin where the code stalls, so of a body longer than they are some sites are seen each time and others
    // hardly ever. All sites that go by the same grain together have each part of the body once; the windows that any of
    // them follows up are those of the loop.
    let mut bodies: BTreeMap<u64, Body> = BTreeMap::new();
    for (pace, grain) in sites {
        if let Some(grain) = grain {
            let body = bodies.entry(*grain).or_default();
            body.sites += 1;
            body.executions += pace.executions;
            body.instructions = body.instructions.max(pace.ways.iter().map(|pairs| pairs.instructions).sum());
        }
    }
    let mut all = Histogram::new();
    for site in sites.iter().filter_map(|(pace, grain)| pace.steady(*grain)) {
        let instructions_per_byte = match site.step {
            Step::Mean { bytes, instructions } => instructions / bytes,
            Step::Grain(grain) => {
                let body = &bodies[&grain];
                body.instructions as f64 * body.sites as f64 / body.executions as f64 / grain as f64
            }
        };
        add(&mut all, site.speeds, (instructions_per_byte.log2() * PER_OCTAVE).round() as i32);
    }
    if all.values().sum::<u64>() < LEAST_PAIRS {
        return None;
    }
    // The mean, not the middle: a loop that runs at two paces executes what both of them do.
    let middle = closest_half(&all)?;
    let near = || all.range(middle - MOST_SPREAD..=middle + MOST_SPREAD);
    let sum: f64 = near().map(|(&bucket, &count)| ((f64::from(bucket) + 0.5) / PER_OCTAVE).exp2() * count as f64).sum();
    let pace = sum / near().map(|(_, &count)| count).sum::<u64>() as f64;
    POSSIBLE.contains(&pace).then_some(pace)
}

fn add(into: &mut Histogram, from: &Histogram, shift: i32) {
    for (bucket, count) in from {
        *into.entry(bucket + shift).or_default() += count;
    }
}

/// Middle of the closest half of the pairs, if they are close: the pairs with a restart in between scatter, and mostly
/// to one side, where they would pull a median along (the "shorth"; Andrews et al., Robust Estimates of Location, 1972).
fn closest_half(histogram: &Histogram) -> Option<i32> {
    let half = histogram.values().sum::<u64>().div_ceil(2);
    let mut closest: Option<(i32, i32)> = None;
    let (mut inside, mut lowest) = (0, histogram.iter().peekable());
    for (&high, &count) in histogram {
        inside += count;
        while let Some(&(&low, &count)) = lowest.peek()
            && inside >= half
        {
            if closest.is_none_or(|(from, to)| high - low < to - from) {
                closest = Some((low, high));
            }
            inside -= count;
            lowest.next();
        }
    }
    closest.filter(|(low, high)| high - low <= MOST_SPREAD).map(|(low, high)| low.midpoint(high))
}

/// Paces by site, and where each site's walk was in the latest window.
#[derive(Clone, Debug, Default)]
pub(crate) struct PaceTable {
    paces: BTreeMap<SiteId, Pace>,
    latest: Vec<Latest>,
    /// Windows before this one are not followed up: they are of another batch, or the time since is not known.
    first_window: u64,
    window: u64,
    /// CPU time up to the current window, and instructions of all windows before it, from an arbitrary start.
    time_ns: u64,
    instructions: u64,
    instructions_here: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    window: u64,
    group: u32,
    object: u32,
    address: u64,
    executions: u32,
    time_ns: u64,
    instructions: u64,
}

impl PaceTable {
    /// No window of another batch is followed up.
    pub(crate) fn begin_batch(&mut self) {
        self.first_window = self.window + 1;
    }

    pub(crate) fn begin_window(&mut self, window: &Window) {
        self.window += 1;
        self.instructions += self.instructions_here;
        self.instructions_here = u64::from(window.instructions);
        self.time_ns += window.weight;
        if window.weight == 0 || window.instructions == 0 {
            self.first_window = self.window;
        }
    }

    /// Takes in how a site walked through the current window.
    pub(crate) fn walk(&mut self, site: SiteId, walk: &Walk) {
        if site.index() >= self.latest.len() {
            self.latest.resize(site.index() + 1, Latest::default());
        }
        let now = Latest {
            window: self.window,
            group: walk.group,
            object: walk.object,
            address: walk.first,
            executions: walk.executions,
            time_ns: self.time_ns,
            instructions: self.instructions,
        };
        let before = std::mem::replace(&mut self.latest[site.index()], now);
        let pace = self.paces.entry(site).or_default();
        pace.executions += u64::from(walk.executions);
        if let Some((steps, advance)) = walk.in_one_object() {
            pace.steps += u64::from(steps);
            pace.advance = pace.advance.saturating_add(advance);
            pace.travelled = pace.travelled.saturating_add(advance.unsigned_abs());
        }
        let apart = now.window - before.window;
        if before.window < self.first_window || before.window == 0 || apart > MOST_WINDOWS {
            return;
        }
        if (before.group, before.object) != (now.group, now.object) || walk.in_one_object().is_none() {
            pace.elsewhere += u64::from(apart == 1);
            return;
        }
        let distance = now.address.wrapping_sub(before.address) as i64;
        // A scalar, or a walk too slow to tell.
        if distance == 0 {
            return;
        }
        let pairs = &mut pace.ways[usize::from(distance < 0)];
        let speed = distance.unsigned_abs() as f64 / (now.time_ns - before.time_ns) as f64;
        *pairs.speeds.entry((speed.log2() * PER_OCTAVE).floor() as i32).or_default() += 1;
        pairs.successive += u64::from(apart == 1);
        pairs.instructions += now.instructions - before.instructions;
        pairs.executions += u64::from(before.executions);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (site, pace) in other.paces {
            self.paces.entry(site).or_default().merge(&pace);
        }
    }

    pub(crate) fn into_rows(self) -> Vec<(SiteId, Pace)> {
        self.paces.into_iter().collect()
    }
}
