//! Costs by path of code and data: what exports to other tools are made of.
//!
//! A report cuts the session's weight by code, or by data, or by thread. Here each cut is kept: who called, the
//! instruction, the data structure, the thread. Fields come from [`GroupFindings::divided`](crate::findings::GroupFindings),
//! so their sums are the shares of reports.

use rustc_hash::FxHashMap;
use slimline_attribute::tables::Tables;
use slimline_trace::access::{AccessBatch, AccessKind, CallPathId, GroupId, SiteId, ThreadId};

use crate::analysis::{Analysis, Order, ShardInfo};
use crate::share::portion;

/// The analysis.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostPaths {
    /// Whether each sample is kept by itself, too, with its time.
    pub timed: bool,
}

/// Where weight is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CostPlace {
    /// Who called; `None` where that is not known.
    pub path: Option<CallPathId>,
    /// The instruction.
    pub site: SiteId,
    /// The data structure; the unattributed one where `is_computing`.
    pub group: GroupId,
    /// The thread.
    pub thread: ThreadId,
    /// Whether no memory instruction could be blamed.
    pub is_computing: bool,
}

/// What was seen at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Samples.
    pub samples: u64,
    /// Their weight.
    pub weight: u64,
    /// Loads seen in windows.
    pub loads: u64,
    /// Stores seen in windows.
    pub stores: u64,
    /// Bytes of these loads.
    pub loaded_bytes: u64,
    /// Bytes of these stores.
    pub stored_bytes: u64,
}

impl Cost {
    /// The part of it from `part.start` to `part.end` of 1. Parts that make up 1 add up to the whole.
    #[must_use]
    pub fn part(&self, part: &std::ops::Range<f64>) -> Self {
        Self {
            samples: portion(self.samples, part),
            weight: portion(self.weight, part),
            loads: portion(self.loads, part),
            stores: portion(self.stores, part),
            loaded_bytes: portion(self.loaded_bytes, part),
            stored_bytes: portion(self.stored_bytes, part),
        }
    }

    /// Adds what was seen elsewhere.
    pub fn merge(&mut self, other: &Self) {
        self.samples += other.samples;
        self.weight += other.weight;
        self.loads += other.loads;
        self.stores += other.stores;
        self.loaded_bytes += other.loaded_bytes;
        self.stored_bytes += other.stored_bytes;
    }

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// A sample by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimedCost {
    /// When, in the session's time.
    pub time_ns: u64,
    /// Where.
    pub place: CostPlace,
    /// Weight.
    pub weight: u64,
}

/// What a shard remembers.
#[derive(Clone, Debug, Default)]
pub struct CostState {
    costs: FxHashMap<CostPlace, Cost>,
    timed: Vec<TimedCost>,
}

/// Costs by place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathCosts {
    /// In the order of places. Accesses to what is not known by itself are with their [owners](Tables::owners). Loads and
    /// stores are without path: windows go on where their sample's callers may have returned.
    pub costs: Vec<(CostPlace, Cost)>,
    /// In the order of time, if asked for; groups are as they were met, before owners.
    pub timed: Vec<TimedCost>,
}

impl Analysis for CostPaths {
    const ORDER: Order = Order::AnyChunk;
    type State = CostState;
    type Findings = PathCosts;

    fn start(&self, _: &ShardInfo) -> CostState {
        CostState::default()
    }

    fn update(&self, state: &mut CostState, batch: &AccessBatch) {
        let Some(thread) = batch.thread else { return };
        let mut taken = batch.sample_path.iter().copied().zip(batch.sample_time_ns.iter().copied());
        for (row, evidence) in batch.evidence.iter().enumerate() {
            let (site, group, kind) = (batch.site[row], batch.group[row], batch.kind[row]);
            let (path, time_ns) = if evidence.has_cost() { taken.next().unwrap_or_default() } else { (None, 0) };
            if evidence.has_cost() {
                let place = CostPlace { path, site, group, thread, is_computing: kind == AccessKind::NONE };
                let cost = state.costs.entry(place).or_default();
                let weight = batch.weight[row];
                cost.samples += u64::from(weight > 0);
                cost.weight += weight;
                if self.timed && weight > 0 {
                    state.timed.push(TimedCost { time_ns, place, weight });
                }
            }
            if evidence.is_execution() {
                let place = CostPlace { path: None, site, group, thread, is_computing: false };
                let (cost, bytes) = (state.costs.entry(place).or_default(), u64::from(batch.bytes[row]));
                if kind.loads() {
                    cost.loads += 1;
                    cost.loaded_bytes += bytes;
                }
                if kind.stores() {
                    cost.stores += 1;
                    cost.stored_bytes += bytes;
                }
            }
        }
    }

    fn merge(&self, into: &mut CostState, from: CostState) {
        from.costs.iter().for_each(|(&place, cost)| into.costs.entry(place).or_default().merge(cost));
        into.timed.extend(from.timed);
    }

    fn finish(&self, mut state: CostState, tables: &Tables) -> PathCosts {
        let mut owned: FxHashMap<CostPlace, Cost> = FxHashMap::default();
        for (place, cost) in &state.costs {
            for (owner, part) in tables.owners(place.group, place.site) {
                let part = part.map_or(*cost, |part| cost.part(&part));
                owned.entry(CostPlace { group: owner, ..*place }).or_default().merge(&part);
            }
        }
        let mut costs: Vec<(CostPlace, Cost)> = owned.into_iter().filter(|(_, cost)| !cost.is_nothing()).collect();
        costs.sort_by_key(|(place, _)| *place);
        state.timed.sort();
        PathCosts { costs, timed: state.timed }
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::access::{Access, Evidence, ObjectId, Taken, WindowId};
    use slimline_trace::address::Avma;

    use super::*;

    fn access(site: u32, group: u32, kind: AccessKind, weight: u64, evidence: Evidence) -> Access {
        Access {
            window: WindowId(0),
            site: SiteId(site),
            address: Avma(0x1000),
            bytes: 8,
            kind,
            group: GroupId(group),
            object: ObjectId(1),
            offset: 0,
            weight,
            evidence,
        }
    }

    /// Two samples of one instruction by different callers, one without a memory instruction, and a window; then the same in
    /// another shard.
    #[test]
    fn costs_are_kept_by_caller_instruction_data_and_thread() {
        let mut batch = AccessBatch::with_capacity(ThreadId(1), 8);
        let taken = |path, time_ns| Taken { path: Some(CallPathId(path)), time_ns, ..Taken::UNKNOWN };
        batch.push_sample(access(1, 1, AccessKind::LOAD, 30, Evidence::Cost), taken(0, 20));
        batch.push_sample(access(1, 1, AccessKind::LOAD, 12, Evidence::Cost), taken(1, 10));
        batch.push_sample(access(2, 0, AccessKind::NONE, 5, Evidence::Cost), taken(0, 30));
        batch.push(access(1, 1, AccessKind::LOAD_STORE, 0, Evidence::Execution));
        let analysis = CostPaths { timed: true };
        let mut state = analysis.start(&ShardInfo::WHOLE);
        analysis.update(&mut state, &batch);
        let mut other = analysis.start(&ShardInfo::WHOLE);
        analysis.update(&mut other, &batch);
        analysis.merge(&mut state, other);
        let found = analysis.finish(state, &Tables::new());
        let seen: Vec<_> = found
            .costs
            .iter()
            .map(|(place, cost)| {
                let Cost { samples, weight, loads, stores, loaded_bytes, .. } = *cost;
                (
                    place.path.map(|path| path.0),
                    place.site.0,
                    place.is_computing,
                    samples,
                    weight,
                    loads,
                    stores,
                    loaded_bytes,
                )
            })
            .collect();
        let expected = [
            (None, 1, false, 0, 0, 2, 2, 16),
            (Some(0), 1, false, 2, 60, 0, 0, 0),
            (Some(0), 2, true, 2, 10, 0, 0, 0),
            (Some(1), 1, false, 2, 24, 0, 0, 0),
        ];
        assert_eq!(seen, expected);
        assert_eq!(found.timed.iter().map(|cost| cost.time_ns).collect::<Vec<_>>(), [10, 10, 20, 20, 30, 30]);
    }
}
