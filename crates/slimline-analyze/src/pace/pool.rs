//! Loops with a body longer than a window: all sites of one such loop tell its pace together.
//!
//! A site of a long body is in a window once or not at all, and of its hundred sites any may be the one that a sample is
//! blamed on. So each alone has a few pairs at most. But all that go by the same grain over an object are on the same turn
//! of the same walk, give or take one. So where any of them was in one sample and where any of them is in a later one tell as
//! much as where one was and is, once the distance is many turns:
//!
//! ```text
//!   window 1   … [ v[0] v[1] ] v[2] v[3] …                   turns = (address of v[2] − address of v[0]) / grain, ± 1
//!   sample 2                        … v[0] v[1] [v[2]] v[3]
//! ```
//!
//! Which sites these are is known at the end only. Until then what samples show of sites that may be such is kept.

use std::collections::BTreeMap;
use std::ops::Range;

use slimline_attribute::tables::LoopId;
use slimline_trace::access::SiteId;

use super::{ENOUGH_PAIRS, LEAST_PAIRS, Latest, MOST_SPREAD, Pace, Pairs, Position, Steady, Step, closest_half};

/// Turns between two positions that belong together, at least: which site it was makes one turn's difference.
const LEAST_TURNS: u64 = 64;
/// Executions in a window of a site in a body longer than it, at most: one that begins at the site may end behind it.
const MOST_EXECUTIONS: u32 = 2;
/// Positions kept of a sample. One of each loop would do, if it were known which.
const MOST_POSITIONS: usize = 32;

/// A loop and what its sites' offsets are congruent by.
pub(super) type PoolKey = (LoopId, u64);

/// What samples and windows show of the sites of a loop that go by one grain, none of which has steps inside of windows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    /// Pairs of any two of them.
    pub(super) pace: Pace,
    /// How many there are, and their executions.
    pub(super) sites: u64,
    pub(super) executions: u64,
    /// Instructions of the windows that began in the loop or have one of the sites.
    pub(super) instructions: u64,
}

impl Pool {
    /// Takes a site in.
    pub(super) fn add(&mut self, pace: &Pace) {
        self.sites += 1;
        self.executions += pace.executions;
    }

    /// What the pairs tell, if they are of one walk, by as many of the closest in time as agree. Pairs go back where the walk
    /// restarted in between, and then it has in pairs that went ahead, too. Where all did, their distances are evenly spread
    /// over the walk, so half of them are within a factor of two: what tells a pace must be closer than that.
    pub(super) fn steady(&self, grain: u64) -> Option<Steady> {
        let mut closest = Pairs::default();
        let mut speeds = None;
        for pairs in self.pace.apart.values() {
            closest.merge(pairs);
            let [up, down] = &closest.ways;
            let (ahead, back) = if up.number() > down.number() { (up, down) } else { (down, up) };
            if ahead.number() < LEAST_PAIRS {
                continue;
            }
            if ahead.number() == back.number() || closest_half(&ahead.speeds, MOST_SPREAD / 4).is_none() {
                break;
            }
            speeds = Some(ahead.speeds.clone());
            if closest.number() >= ENOUGH_PAIRS {
                break;
            }
        }
        Some(Steady { speeds: speeds?, step: Step::Turn { bytes: grain, instructions: self.turn()? } })
    }

    /// Instructions of a turn: each site has one execution in it.
    fn turn(&self) -> Option<f64> {
        let turns = self.executions as f64 / self.sites as f64;
        (turns > 0.0).then(|| self.instructions as f64 / turns)
    }
}

/// A sample, as far as positions are concerned.
#[derive(Clone, Copy, Debug)]
struct Moment {
    begins_batch: bool,
    latest: Latest,
    weight: u64,
    blamed: SiteId,
    /// Instructions of the window that began with it; 0 where none did.
    burst: u64,
    /// Where its positions begin.
    first: u32,
}

/// A site's position in a sample, or in the window that began with it.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    site: SiteId,
    executions: u32,
    position: Position,
}

/// All samples, and positions of sites that may be in a long body.
#[derive(Clone, Debug, Default)]
pub(super) struct Sightings {
    moments: Vec<Moment>,
    sightings: Vec<Sighting>,
    begins_batch: bool,
}

impl Sightings {
    pub(super) fn begin_batch(&mut self) {
        self.begins_batch = true;
    }

    /// Begins a sample; `latest` says when it was taken, and nothing of a position.
    pub(super) fn sample(&mut self, latest: Latest, weight: u64, blamed: SiteId) {
        let begins_batch = std::mem::take(&mut self.begins_batch);
        let first = self.sightings.len() as u32;
        self.moments.push(Moment { begins_batch, latest, weight, blamed, burst: 0, first });
    }

    /// The sample was blamed on an access there, or the site walked through the sample's window of so many
    /// instructions.
    pub(super) fn sighting(&mut self, site: SiteId, position: Position, executions: u32, burst: u64) {
        let Some(moment) = self.moments.last_mut() else { return };
        moment.burst = moment.burst.max(burst);
        let kept = self.sightings.len() - moment.first as usize;
        if position.object != 0 && executions <= MOST_EXECUTIONS && kept < MOST_POSITIONS {
            self.sightings.push(Sighting { site, executions, position });
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        let before = self.sightings.len() as u32;
        self.sightings.extend(other.sightings);
        // Shards begin with a batch.
        self.moments.extend(other.moments.into_iter().map(|moment| Moment { first: moment.first + before, ..moment }));
    }

    /// Pairs up the positions of all sites of one pool, unless a sample in between was elsewhere. `pools` has the pools,
    /// `pool_of` says whose a site is and `loop_of` which loop it is in.
    pub(super) fn pair_up(
        &self,
        pools: &mut BTreeMap<PoolKey, Pool>,
        pool_of: impl Fn(SiteId) -> Option<PoolKey>,
        loop_of: impl Fn(SiteId) -> Option<LoopId>,
    ) {
        // Where each pool was last in an object.
        let mut latest: BTreeMap<(PoolKey, u32, u32), Latest> = BTreeMap::new();
        let mut first_window = 0;
        for (index, moment) in self.moments.iter().enumerate() {
            if moment.begins_batch {
                latest.clear();
                first_window = moment.latest.window;
            }
            let mut here: BTreeMap<PoolKey, bool> = BTreeMap::new();
            if let Some(blamed) = loop_of(moment.blamed) {
                here.extend(pools.range((blamed, 0)..=(blamed, u64::MAX)).map(|(&key, _)| (key, true)));
            }
            for sighting in &self.sightings[self.positions(index)] {
                let Some(key) = pool_of(sighting.site) else { continue };
                *here.entry(key).or_default() |= sighting.executions > 0;
                let Some(pool) = pools.get_mut(&key) else { continue };
                let now = Latest { position: sighting.position, executions: sighting.executions, ..moment.latest };
                let at = (key, sighting.position.group, sighting.position.object);
                match latest.get_mut(&at) {
                    None => drop(latest.insert(at, now)),
                    // One of its sites tells where it is.
                    Some(before) if before.sample == now.sample => before.executions += now.executions,
                    Some(before) => {
                        let least = LEAST_TURNS * key.1;
                        pool.pace.follow(before, now, moment.weight, first_window, least);
                    }
                }
            }
            latest.retain(|(key, ..), _| here.contains_key(key));
            for key in here.into_iter().filter_map(|(key, is_there)| is_there.then_some(key)) {
                if let Some(pool) = pools.get_mut(&key) {
                    pool.instructions += moment.burst;
                }
            }
        }
    }

    fn positions(&self, moment: usize) -> Range<usize> {
        let end = self.moments.get(moment + 1).map_or(self.sightings.len(), |next| next.first as usize);
        self.moments[moment].first as usize..end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pace::PER_OCTAVE;

    const GRAIN: u64 = 100;
    const LOOP: LoopId = LoopId(0);

    /// Even sites are in the pool, odd ones in no loop.
    fn pool_of(site: SiteId) -> Option<PoolKey> {
        loop_of(site).map(|id| (id, GRAIN))
    }

    fn loop_of(site: SiteId) -> Option<LoopId> {
        site.0.is_multiple_of(2).then_some(LOOP)
    }

    fn pair_up(sightings: &Sightings) -> Pool {
        let mut pools = BTreeMap::from([((LOOP, GRAIN), Pool::default())]);
        sightings.pair_up(&mut pools, pool_of, loop_of);
        pools.remove(&(LOOP, GRAIN)).unwrap()
    }

    /// What one sample shows: when it was taken, what it was blamed on, and where sites were: (site, object, address, executions).
    #[derive(Clone, Debug)]
    struct Seen {
        begins_batch: bool,
        cpu_ns: u64,
        blamed: u32,
        positions: Vec<(u32, u32, u64, u32)>,
    }

    /// Each sample has a window of 300 instructions of its own.
    fn record(seen: &[Seen]) -> Sightings {
        let mut sightings = Sightings::default();
        for (number, sample) in (1..).zip(seen) {
            if sample.begins_batch {
                sightings.begin_batch();
            }
            let latest = Latest {
                window: number,
                sample: number,
                cpu_ns: sample.cpu_ns,
                seen: (number, sample.cpu_ns),
                instructions: number * 300,
                ..Latest::default()
            };
            sightings.sample(latest, 1_000_000, SiteId(sample.blamed));
            for &(site, object, address, executions) in &sample.positions {
                let burst = if executions > 0 { 300 } else { 0 };
                sightings.sighting(SiteId(site), Position { group: 1, object, address }, executions, burst);
            }
        }
        sightings
    }

    fn seen(cpu_us: u64, blamed: u32, positions: &[(u32, u64, u32)]) -> Seen {
        let positions = positions.iter().map(|&(site, address, executions)| (site, 7, address, executions)).collect();
        Seen { begins_batch: false, cpu_ns: cpu_us * 1_000, blamed, positions }
    }

    /// The bucket of a speed in bytes a nanosecond.
    fn bucket(speed: f64) -> i32 {
        (speed.log2() * PER_OCTAVE).floor() as i32
    }

    #[test]
    fn any_two_sites_make_a_pair() {
        let mut samples = vec![
            // A window with two sites, a sample blamed on a third 10,000 turns later, one on the first 5,000 later.
            seen(1_000, 0, &[(0, 0x10_0000, 1), (2, 0x10_0008, 1)]),
            seen(2_000, 4, &[(4, 0x10_0000 + 1_000_000, 0)]),
            seen(2_500, 0, &[(0, 0x10_0000 + 1_500_000, 0)]),
            // Elsewhere, so that what follows is no pair.
            seen(3_500, 1, &[]),
            seen(4_500, 2, &[(2, 0x10_0000 + 3_500_000, 1)]),
            // Back again.
            seen(5_500, 2, &[(2, 0x10_0000, 1)]),
        ];
        let pool = pair_up(&record(&samples));
        let pairs = pool.pace.closest();
        assert_eq!(pairs.ways[0].speeds, BTreeMap::from([(bucket(1.0), 2)]));
        assert_eq!(pairs.ways[1].speeds, BTreeMap::from([(bucket(3.5), 1)]));
        // Three windows were in the loop.
        assert_eq!(pool.instructions, 900);
        // A batch ends between the first two.
        samples[1].begins_batch = true;
        assert_eq!(pair_up(&record(&samples)).pace.closest().ways[0].number(), 1);
    }

    #[test]
    fn what_is_near_tells_nothing() {
        // 63 turns may be 62 or 64; closer than a quarter of a millisecond in time, sampling itself counts.
        let near = [seen(1_000, 0, &[(0, 0, 1)]), seen(2_000, 2, &[(2, 63 * GRAIN, 1)])];
        assert_eq!(pair_up(&record(&near)).pace.closest().number(), 0);
        let soon = [seen(1_000, 0, &[(0, 0, 1)]), seen(1_200, 2, &[(2, 640 * GRAIN, 1)])];
        assert_eq!(pair_up(&record(&soon)).pace.closest().number(), 0);
    }

    /// Pairs by the logarithm of the time in between: those that went ahead, at such speeds, and how many went back.
    fn pool(pairs: &[(u32, &[f64], u64)]) -> Pool {
        let mut pool = Pool { sites: 50, executions: 500, instructions: 6_000, ..Pool::default() };
        for &(apart, ahead, back) in pairs {
            let [up, down] = &mut pool.pace.apart.entry(apart).or_default().ways;
            ahead.iter().for_each(|&speed| *up.speeds.entry(bucket(speed)).or_default() += 1);
            down.speeds.insert(0, back);
        }
        pool
    }

    #[test]
    fn only_close_speeds_tell_a_pace() {
        let number =
            |pairs: &[(u32, &[f64], u64)]| pool(pairs).steady(GRAIN).map(|steady| steady.speeds.values().sum::<u64>());
        assert_eq!(number(&[(20, &[0.95, 1.0, 1.05, 0.3, 0.1], 0)]), Some(5));
        assert_eq!(number(&[(20, &[0.95, 1.0, 1.05, 0.3, 0.1], 4)]), Some(5));
        assert_eq!(number(&[(20, &[0.95, 1.0, 1.05, 0.3, 0.1], 5)]), None, "as many went back");
        assert_eq!(number(&[(20, &[0.95, 1.0, 1.05, 0.3], 0)]), None, "too few");
        // Within a factor of two, as the upper half of distances to anywhere.
        assert_eq!(number(&[(20, &[0.55, 0.75, 0.95, 0.3, 0.1], 0)]), None);
        // Those farther apart in time are asked as long as they agree.
        let close: (u32, &[f64], u64) = (19, &[1.0; 5], 0);
        assert_eq!(number(&[close, (20, &[1.0; 3], 0)]), Some(8));
        assert_eq!(number(&[close, (20, &[0.1, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8], 0), (21, &[1.0; 9], 0)]), Some(5));
    }

    #[test]
    fn each_site_has_one_execution_a_turn() {
        // Ten turns in 6,000 instructions.
        assert_eq!(pool(&[]).turn(), Some(600.0));
        assert_eq!(Pool::default().turn(), None);
    }

    fn samples() -> impl Strategy<Value = Vec<Seen>> {
        let position = (0..6_u32, 0..3_u32, 0..100_000_u64, 0..4_u32);
        let sample =
            (prop::bool::weighted(0.1), 100_000..2_000_000_u64, 0..4_u32, prop::collection::vec(position, 0..4));
        prop::collection::vec(sample, 0..40).prop_map(|samples| {
            let mut cpu_ns = 0;
            let seen = |(begins_batch, passed_ns, blamed, positions)| {
                cpu_ns += passed_ns;
                Seen { begins_batch, cpu_ns, blamed, positions }
            };
            samples.into_iter().map(seen).collect()
        })
    }

    /// By definition, object by object: two samples are a pair if the pool was there in each, and in all in between.
    fn by_definition(samples: &[Seen]) -> (u64, u64) {
        let is_here = |sample: &Seen| {
            loop_of(SiteId(sample.blamed)).is_some()
                || sample.positions.iter().any(|&(site, object, _, executions)| {
                    pool_of(SiteId(site)).is_some() && object != 0 && executions <= MOST_EXECUTIONS
                })
        };
        let (mut up, mut down) = (0, 0);
        for object in 1..3 {
            // The last position that a pair may begin at.
            let mut before: Option<(u64, usize, u64)> = None;
            for (number, sample) in samples.iter().enumerate() {
                if sample.begins_batch || number > 0 && !is_here(&samples[number - 1]) {
                    before = None;
                }
                let of_pool = |&&(site, of, _, executions): &&(u32, u32, u64, u32)| {
                    pool_of(SiteId(site)).is_some() && of == object && executions <= MOST_EXECUTIONS
                };
                let Some(&(_, _, address, _)) = sample.positions.iter().find(of_pool) else { continue };
                if let Some((at_ns, at_number, from)) = before {
                    if sample.cpu_ns - at_ns < 250_000 {
                        continue;
                    }
                    let is_told = number - at_number <= 16 && address.abs_diff(from) >= LEAST_TURNS * GRAIN;
                    up += u64::from(is_told && address > from);
                    down += u64::from(is_told && address < from);
                }
                before = Some((sample.cpu_ns, number, address));
            }
        }
        (up, down)
    }

    fn all_pairs(pool: &Pool) -> (u64, u64) {
        let number = |way: usize| pool.pace.apart.values().map(|pairs| pairs.ways[way].number()).sum();
        (number(0), number(1))
    }

    proptest! {
        #[test]
        fn pairs_are_those_of_the_definition(samples in samples()) {
            prop_assert_eq!(all_pairs(&pair_up(&record(&samples))), by_definition(&samples));
        }

        #[test]
        fn shards_find_the_same(samples in samples(), cut in 0..40_usize) {
            let (first, second) = samples.split_at(cut.min(samples.len()));
            let mut second = second.to_vec();
            if let Some(sample) = second.first_mut() {
                sample.begins_batch = true;
            }
            let whole: Vec<Seen> = first.iter().chain(&second).cloned().collect();
            let mut merged = record(first);
            merged.merge(record(&second));
            let (merged, whole) = (pair_up(&merged), pair_up(&record(&whole)));
            prop_assert_eq!(&merged.pace, &whole.pace);
            prop_assert_eq!(merged.instructions, whole.instructions);
        }
    }
}
