//! Pace: how fast code runs, told by how far a walk came from one sample to the next.
//!
//! A clock starts the windows, so a loop gets windows for its time, not for its executions: counts seen in windows
//! favour slow code. Where a site walks steadily over an object, two samples of its thread tell how often it ran in
//! between, and with the instructions that windows have per execution, how many instructions the thread executed:
//!
//! ```text
//!   sample 1             sample 2          executions = (second address − first address) / mean step
//!   a a+s a+2s …  ····   b b+s …           pace = executions · instructions per execution / CPU time in between
//! ```
//!
//! A sample need not have a window: the access that it was blamed on says where the walk is as well. Windows say the
//! rest. Steps need not be equal (a loop that skips some elements), only go one way. The step is the mean of those
//! inside of windows; of a loop body longer than a window, which has none, it is what the site's offsets are congruent
//! by. The windows between two executions of such a site count as well: else the body would seem shorter than it is.
//!
//! All that holds only if the walk was the same all the time. It was not where the address went back or to another
//! object; where most of a site's pairs fail so, the others are chance too. The closer in time two samples are, the
//! less can have come in between: so the closest pairs decide, as many as it takes, and walks of milliseconds have a
//! pace too. Walks that restarted in between at a later place scatter. Each site is judged alone, since in one loop one
//! pointer may walk an array and another wrap around in a buffer; the pace of a loop is that of most pairs of the sites
//! that hold. Only the sites of a body longer than a window are judged [together](pool).
//!
//! What interrupts take of the time in between is subtracted, as far as it is known: of a quarter of a millisecond it is a
//! tenth. (The time of samples themselves is not in the thread's time; what an interrupt costs was measured with it, so some
//! microseconds too much are subtracted.)
//!
//! Distances are told by all CPU time, samples weigh that in user mode: a loop that takes page faults walks slowly, but
//! its samples are few already. So what a loop's pace is by CPU time is made one by weight, with the ratio of the two
//! between its samples.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use slimline_attribute::tables::{LoopId, Tables};
use slimline_trace::access::{SiteId, Window};

use crate::streams::{Grains, Walk};
pub use pool::Pool;
use pool::{PoolKey, Sightings};

mod pool;

/// Pairs of samples that a pace rests on, at least.
const LEAST_PAIRS: u64 = 5;
/// Pairs with which those that are further apart in time are not asked any more.
const ENOUGH_PAIRS: u64 = 32;
/// Samples closer to one another say more of how well it is known what sampling costs than of what the thread did.
const CLOSEST_NS: u64 = 250_000;
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

/// What samples and windows show of one site's walk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace {
    /// Pairs of samples by the logarithm, base 2, of the nanoseconds in between.
    apart: BTreeMap<u32, Pairs>,
    /// CPU time between samples of which the second followed the first, and weight of the second.
    cpu_ns: u64,
    weight: u64,
    /// Steps inside of windows, and their sums with and without sign.
    steps: u64,
    advance: i64,
    travelled: u64,
    /// All its executions.
    executions: u64,
}

/// Pairs of samples of one site.
#[derive(Clone, Debug, Default, PartialEq)]
struct Pairs {
    /// Those with the later address above, and those with it below.
    ways: [Way; 2],
    /// Those of neighbouring windows that the site was in another object in.
    elsewhere: u64,
}

impl Pairs {
    fn number(&self) -> u64 {
        self.ways.iter().map(Way::number).sum::<u64>() + self.elsewhere
    }

    fn merge(&mut self, other: &Self) {
        self.ways.iter_mut().zip(&other.ways).for_each(|(way, other)| way.merge(other));
        self.elsewhere += other.elsewhere;
    }
}

/// Pairs of samples that go the same way.
#[derive(Clone, Debug, Default, PartialEq)]
struct Way {
    /// By bytes a nanosecond.
    speeds: Histogram,
    /// Those of neighbouring windows.
    successive: u64,
    /// Pairs whose first sample has a window with the site in it, and its executions there.
    windows: u64,
    executions: u64,
    /// Instructions of the windows from the first sample of each pair up to the second.
    instructions: u64,
}

impl Way {
    fn number(&self) -> u64 {
        self.speeds.values().sum()
    }

    fn merge(&mut self, other: &Self) {
        add(&mut self.speeds, &other.speeds, 0);
        self.successive += other.successive;
        self.windows += other.windows;
        self.executions += other.executions;
        self.instructions += other.instructions;
    }
}

impl Pace {
    pub(crate) fn merge(&mut self, other: &Self) {
        for (&apart, pairs) in &other.apart {
            self.apart.entry(apart).or_default().merge(pairs);
        }
        self.cpu_ns += other.cpu_ns;
        self.weight += other.weight;
        self.steps += other.steps;
        self.advance += other.advance;
        self.travelled += other.travelled;
        self.executions += other.executions;
    }

    /// What the pairs tell, if they are of one walk. `grain` is what the site's offsets are congruent by, if that is
    /// more than one access.
    fn steady(&self, grain: Option<u64>) -> Option<Steady> {
        // Most of the way is gone back again: a search, not a walk.
        if self.steps_are_known() && self.advance.unsigned_abs() * 2 <= self.travelled {
            return None;
        }
        self.steady_in(&self.closest(), grain)
    }

    /// The closest pairs in time, as many as it takes.
    fn closest(&self) -> Pairs {
        let mut closest = Pairs::default();
        for pairs in self.apart.values() {
            closest.merge(pairs);
            if closest.number() >= ENOUGH_PAIRS {
                break;
            }
        }
        closest
    }

    fn steps_are_known(&self) -> bool {
        self.steps >= LEAST_STEPS
    }

    fn steady_in(&self, pairs: &Pairs, grain: Option<u64>) -> Option<Steady> {
        let [up, down] = &pairs.ways;
        let forward = if self.steps_are_known() { self.advance > 0 } else { up.number() > down.number() };
        let (ahead, back) = if forward { (up, down) } else { (down, up) };
        let broken = back.successive + pairs.elsewhere;
        let enough = ahead.number() >= LEAST_PAIRS || broken == 0;
        if broken > ahead.number() || !enough {
            return None;
        }
        closest_half(&ahead.speeds, MOST_SPREAD)?;
        let step = self.mean_step(forward).or(grain.map(Step::Grain))?;
        Some(Steady { speeds: ahead.speeds.clone(), step })
    }

    /// The mean step inside of windows and the instructions it takes, unless the site is executed now and then while
    /// others walk on: then its steps are not those of the walk. Bursts may be rare: more pairs than those that tell the
    /// speed may be needed to find some that began with one.
    fn mean_step(&self, forward: bool) -> Option<Step> {
        let mut closest = Way::default();
        for pairs in self.apart.values() {
            closest.merge(&pairs.ways[usize::from(!forward)]);
            if closest.windows >= LEAST_PAIRS {
                break;
            }
        }
        let is_walk = closest.executions as f64 >= LEAST_PER_WINDOW * closest.windows.max(1) as f64;
        (self.steps_are_known() && is_walk).then(|| Step::Mean {
            bytes: self.advance.unsigned_abs() as f64 / self.steps as f64,
            instructions: closest.instructions as f64 / closest.executions as f64,
        })
    }

    /// Pairs where a walk is now with where it was in the sample that `latest` says, and says so of this one, whose weight
    /// is given. Distances below `least_bytes` tell nothing.
    fn follow(&mut self, latest: &mut Latest, now: Latest, weight: u64, first_window: u64, least_bytes: u64) {
        let apart = now.window - latest.window;
        let time_ns = now.cpu_ns.saturating_sub(latest.cpu_ns);
        let is_followed = latest.window >= first_window && latest.window > 0 && apart <= MOST_WINDOWS;
        if is_followed && now.sample == latest.seen.0 + 1 {
            self.cpu_ns += now.cpu_ns.saturating_sub(latest.seen.1);
            self.weight += weight;
        }
        if is_followed && time_ns < CLOSEST_NS {
            // Too close to tell; the one after may not be.
            latest.executions += now.executions;
            latest.seen = now.seen;
            return;
        }
        let before = std::mem::replace(latest, now);
        if !is_followed {
            return;
        }
        let pairs = self.apart.entry(time_ns.ilog2()).or_default();
        if !before.position.is_with(now.position) || now.position.object == 0 {
            pairs.elsewhere += u64::from(apart <= 1);
            return;
        }
        let distance = now.position.address.wrapping_sub(before.position.address) as i64;
        // A scalar, or a walk too slow to tell.
        if distance.unsigned_abs() < least_bytes {
            return;
        }
        let way = &mut pairs.ways[usize::from(distance < 0)];
        let speed = distance.unsigned_abs() as f64 / time_ns as f64;
        *way.speeds.entry((speed.log2() * PER_OCTAVE).floor() as i32).or_default() += 1;
        way.successive += u64::from(apart <= 1);
        way.windows += u64::from(before.executions > 0);
        way.executions += u64::from(before.executions);
        way.instructions += now.instructions - before.instructions;
    }

    /// Instructions of all windows from the first sample of each pair up to the second.
    fn instructions_between(&self) -> u64 {
        self.apart.values().flat_map(|pairs| &pairs.ways).map(|way| way.instructions).sum()
    }
}

/// A site's walk that held.
struct Steady {
    speeds: Histogram,
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
    /// Likewise, and how many instructions a turn of it has.
    Turn { bytes: u64, instructions: f64 },
}

/// A pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    /// Instructions a nanosecond.
    pub(crate) per_ns: f64,
    /// Its relative standard error: of the mean of pairs, and of what buckets round.
    pub(crate) error: f64,
}

/// The pace of a place in instructions a nanosecond of the weight of samples, from those of its sites, each with what its
/// offsets are congruent by, and from the pools of those that have no steps; `None` where they don't tell.
pub(crate) fn instructions_per_ns(sites: &[(&Pace, Option<u64>)], pools: &[(u64, &Pool)]) -> Option<Rate> {
    // Windows begin where the code stalls, so of a body longer than they are some sites are seen each time and others
    // hardly ever. All sites that go by the same grain together have each part of the body once; the windows that any of
    // them follows up are those of the loop.
    let mut bodies: BTreeMap<u64, Body> = BTreeMap::new();
    for (pace, grain) in sites {
        if let Some(grain) = grain {
            let body = bodies.entry(*grain).or_default();
            body.sites += 1;
            body.executions += pace.executions;
            body.instructions = body.instructions.max(pace.instructions_between());
        }
    }
    let mut all = Histogram::new();
    let is_pooled = |pace: &Pace, grain: &Option<u64>| {
        !pace.steps_are_known() && pools.iter().any(|(pooled, _)| Some(*pooled) == *grain)
    };
    let alone = sites.iter().filter(|(pace, grain)| !is_pooled(pace, grain));
    let alone = alone.filter_map(|(pace, grain)| pace.steady(*grain));
    for site in alone.chain(pools.iter().filter_map(|(grain, pool)| pool.steady(*grain))) {
        let instructions_per_byte = match site.step {
            Step::Mean { bytes, instructions } => instructions / bytes,
            Step::Turn { bytes, instructions } => instructions / bytes as f64,
            Step::Grain(grain) => {
                let body = &bodies[&grain];
                body.instructions as f64 * body.sites as f64 / body.executions as f64 / grain as f64
            }
        };
        // Samples may have been blamed on what no window showed.
        if !instructions_per_byte.is_normal() {
            continue;
        }
        add(&mut all, &site.speeds, (instructions_per_byte.log2() * PER_OCTAVE).round() as i32);
    }
    if all.values().sum::<u64>() < LEAST_PAIRS {
        return None;
    }
    // The mean, not the middle: a loop that runs at two paces executes what both of them do.
    let middle = closest_half(&all, MOST_SPREAD)?;
    let near = || all.range(middle - MOST_SPREAD..=middle + MOST_SPREAD);
    let speed = |bucket: i32| ((f64::from(bucket) + 0.5) / PER_OCTAVE).exp2();
    let pairs = near().map(|(_, &count)| count).sum::<u64>() as f64;
    let pace = near().map(|(&bucket, &count)| speed(bucket) * count as f64).sum::<f64>() / pairs;
    let squares: f64 = near().map(|(&bucket, &count)| (speed(bucket) / pace - 1.0).powi(2) * count as f64).sum();
    // Two roundings, each of a bucket's width evenly.
    let of_buckets = ((1.0 / PER_OCTAVE).exp2() - 1.0).powi(2) * 2.0 / 12.0;
    let error = (squares / (pairs * (pairs - 1.0).max(1.0)) + of_buckets).sqrt();
    let (cpu_ns, weight) =
        sites.iter().fold((0, 0), |(cpu_ns, weight), (pace, _)| (cpu_ns + pace.cpu_ns, weight + pace.weight));
    let per_weight = if cpu_ns > 0 && weight > 0 { cpu_ns as f64 / weight as f64 } else { 1.0 };
    POSSIBLE.contains(&pace).then_some(Rate { per_ns: pace * per_weight, error })
}

fn add(into: &mut Histogram, from: &Histogram, shift: i32) {
    for (bucket, count) in from {
        *into.entry(bucket + shift).or_default() += count;
    }
}

/// Middle of the closest half of the pairs, if it spreads over no more buckets than that: the pairs with a restart in
/// between scatter, and mostly to one side, where they would pull a median along (the "shorth"; Andrews et al., Robust
/// Estimates of Location, 1972).
fn closest_half(histogram: &Histogram, most_spread: i32) -> Option<i32> {
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
    closest.filter(|(low, high)| high - low <= most_spread).map(|(low, high)| low.midpoint(high))
}

/// Paces of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paces {
    /// By site, with what its offsets are congruent by, where that is known and more than one access.
    pub sites: Vec<(SiteId, Pace, Option<u64>)>,
    /// By loop and what the sites' offsets are congruent by.
    pub pools: Vec<((LoopId, u64), Pool)>,
}

/// CPU time that an interrupt takes of the thread, by which clock it is of; 0 where not known. A thread's clock counts it,
/// but nothing of the program runs in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TriggerCosts {
    /// Of the clock whose samples weigh.
    pub weighing_ns: u64,
    /// Of the one whose samples fall between them.
    pub between_ns: u64,
}

/// Paces by site, and where each site's walk was in the latest sample of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PaceTable {
    paces: BTreeMap<SiteId, Pace>,
    latest: Vec<Latest>,
    /// Samples of windows before this one are not followed up: they are of another batch.
    first_window: u64,
    window: u64,
    /// Samples, from an arbitrary start.
    sample: u64,
    /// CPU time of the latest sample, without interrupts; 0 where not known. And its weight.
    cpu_ns: u64,
    weight: u64,
    costs: TriggerCosts,
    /// What interrupts have taken in this batch.
    interrupted_ns: u64,
    /// Instructions of all windows before the current one, from an arbitrary start, and those of the current one.
    instructions: u64,
    instructions_here: u64,
    sightings: Sightings,
}

/// A sample, or the window that began with it, as far as one site is concerned.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    window: u64,
    sample: u64,
    cpu_ns: u64,
    /// The latest sample and its time, also where that was too close to this one to tell.
    seen: (u64, u64),
    /// Of all windows before the sample's.
    instructions: u64,
    position: Position,
    /// In its window; 0 where the site is not in it or there is none.
    executions: u32,
}

/// Where a walk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) group: u32,
    /// 0 where it is in none, or in several.
    pub(crate) object: u32,
    pub(crate) address: u64,
}

impl Position {
    /// Whether it is in the same object.
    fn is_with(self, other: Self) -> bool {
        (self.group, self.object) == (other.group, other.object)
    }
}

impl PaceTable {
    pub(crate) fn new(costs: TriggerCosts) -> Self {
        Self { costs, ..Self::default() }
    }

    /// No window of another batch is followed up.
    pub(crate) fn begin_batch(&mut self) {
        self.first_window = self.window + 1;
        self.interrupted_ns = 0;
        self.sightings.begin_batch();
    }

    pub(crate) fn begin_window(&mut self, window: &Window) {
        self.window += 1;
        self.instructions += self.instructions_here;
        self.instructions_here = u64::from(window.instructions);
        self.cpu_ns = 0;
    }

    /// Takes in a sample of the current window, blamed on what the site accessed, if the address is known. The last one
    /// is that at which the window's burst began.
    pub(crate) fn sample(&mut self, site: SiteId, blamed: Position, cpu_ns: u64, weight: u64) {
        self.sample += 1;
        self.weight = weight;
        // An interrupt's cost is about half before the sample and half behind it.
        let cost_ns = if weight > 0 { self.costs.weighing_ns } else { self.costs.between_ns };
        let before_ns = self.interrupted_ns + cost_ns / 2;
        self.interrupted_ns += cost_ns;
        self.cpu_ns = if cpu_ns > 0 { cpu_ns.saturating_sub(before_ns).max(1) } else { 0 };
        if cpu_ns > 0 {
            self.sightings.sample(self.now(Position::default(), 0), weight, site);
        }
        if blamed.address != 0 {
            self.follow(site, blamed, 0);
        }
    }

    /// Takes in how a site walked through the current window.
    pub(crate) fn walk(&mut self, site: SiteId, walk: &Walk) {
        let pace = self.paces.entry(site).or_default();
        pace.executions += u64::from(walk.executions);
        if let Some((steps, advance)) = walk.in_one_object() {
            pace.steps += u64::from(steps);
            pace.advance = pace.advance.saturating_add(advance);
            pace.travelled = pace.travelled.saturating_add(advance.unsigned_abs());
        }
        self.follow(site, walk.position(), walk.executions);
    }

    fn now(&self, position: Position, executions: u32) -> Latest {
        let (window, sample, cpu_ns, instructions) = (self.window, self.sample, self.cpu_ns, self.instructions);
        Latest { window, sample, cpu_ns, seen: (sample, cpu_ns), instructions, position, executions }
    }

    /// Pairs where a site is now with where it was.
    fn follow(&mut self, site: SiteId, position: Position, executions: u32) {
        if self.cpu_ns == 0 {
            return;
        }
        let burst = if executions > 0 { self.instructions_here } else { 0 };
        self.sightings.sighting(site, position, executions, burst);
        if site.index() >= self.latest.len() {
            self.latest.resize(site.index() + 1, Latest::default());
        }
        let now = self.now(position, executions);
        let latest = &mut self.latest[site.index()];
        if latest.sample == now.sample {
            // What the sample was blamed on is the walk's first position as well, unless the walk leaves the object.
            latest.executions += executions;
            if !latest.position.is_with(position) {
                latest.position.object = 0;
            }
            return;
        }
        self.paces.entry(site).or_default().follow(latest, now, self.weight, self.first_window, 1);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (site, pace) in other.paces {
            self.paces.entry(site).or_default().merge(&pace);
        }
        self.sightings.merge(other.sightings);
    }

    /// By site, and by loop and grain of the sites without steps.
    pub(crate) fn finish(self, grains: &Grains<'_>, tables: &Tables) -> Paces {
        let loop_of = |site: SiteId| tables.site(site).innermost_loop;
        let stepless: Vec<(SiteId, LoopId)> = self
            .paces
            .iter()
            .filter(|(_, pace)| !pace.steps_are_known())
            .filter_map(|(&site, _)| Some((site, loop_of(site)?)))
            .collect();
        let mut pools: BTreeMap<PoolKey, Pool> =
            stepless.iter().filter_map(|&(site, id)| Some(((id, grains.of(site)?), Pool::default()))).collect();
        // The less often a site was seen, the less it says of itself. Without those the body would seem shorter than it is.
        let pool_of = |&(site, id): &(SiteId, LoopId)| {
            let mut of_loop = pools.range((id, 0)..=(id, u64::MAX)).map(|(&key, _)| key);
            let key = match grains.of(site) {
                Some(grain) => (id, grain),
                None => of_loop.rfind(|&(_, grain)| grains.may_be(site, grain))?,
            };
            Some((site, key))
        };
        let members: BTreeMap<SiteId, PoolKey> = stepless.iter().filter_map(pool_of).collect();
        for (site, key) in &members {
            pools.entry(*key).or_default().add(&self.paces[site]);
        }
        self.sightings.pair_up(&mut pools, |site| members.get(&site).copied(), loop_of);
        let with_grain = |(site, pace)| {
            let grain = members.get(&site).map(|&(_, grain)| grain).or(grains.of(site));
            (site, pace, grain)
        };
        Paces { sites: self.paces.into_iter().map(with_grain).collect(), pools: pools.into_iter().collect() }
    }
}
