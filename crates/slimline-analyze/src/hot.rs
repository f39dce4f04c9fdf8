//! Hot data: whose accesses cost how much, l_d = Σ weight of d / Σ weight (StructSlim, equation 1).
//!
//! Accesses that belong to no known object are a group of their own, so the shares of every breakdown sum to 1.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use slimline_attribute::tables::{CodePlace, LoopId, Tables};
use slimline_trace::access::{AccessBatch, AccessKind, GroupId, SiteId, ThreadId};

use crate::analysis::{Analysis, Order, ShardInfo};
use crate::share::{Share, Tally};

/// The analysis.
#[derive(Clone, Copy, Debug, Default)]
pub struct HotData;

/// Weight by group and site, by thread, and without data.
#[derive(Clone, Debug, Default)]
pub struct HotState {
    whole: Tally,
    uses: FxHashMap<(GroupId, SiteId), Tally>,
    /// Weight that no memory instruction could be blamed for, by the instruction sampled.
    computing: FxHashMap<SiteId, u64>,
    /// Weight of which it is not known whether memory is accessed, likewise.
    unknown: FxHashMap<SiteId, u64>,
    /// By handle.
    threads: Vec<Tally>,
    /// By path of regions, of each thread.
    regions: FxHashMap<(ThreadId, u32), Tally>,
}

/// One row of a breakdown.
#[derive(Clone, Debug, PartialEq)]
pub struct HotRow<K> {
    /// What it is about.
    pub key: K,
    /// Its share of the session's weight.
    pub share: Share,
}

/// The session's weight, by everything one may ask for. Rows are by share, the greatest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HotFindings {
    /// The whole session.
    pub whole: Tally,
    /// By data structure, all rows of the table that have weight.
    pub groups: Vec<HotRow<GroupId>>,
    /// By name of the element type; `None` where it is not known.
    pub types: Vec<HotRow<Option<String>>>,
    /// By innermost loop; `None` is code outside of all loops.
    pub loops: Vec<HotRow<Option<LoopId>>>,
    /// By source line of the innermost frame, or by what is known of code without lines; `None` where it is not known
    /// which code it is.
    pub lines: Vec<HotRow<Option<CodePlace>>>,
    /// By function and module file.
    pub functions: Vec<HotRow<(String, String)>>,
    /// By thread.
    pub threads: Vec<HotRow<ThreadId>>,
    /// By thread and the path of regions that it was on, as its process numbers them; 0 is outside of all. Not a share yet, as threads and paths
    /// of one region are still to be put together.
    pub regions: BTreeMap<(ThreadId, u32), Tally>,
    /// Part of the weight that no memory instruction could be blamed for, by innermost loop, as a share of the session's.
    pub computing: BTreeMap<LoopId, f64>,
    /// The same as weight, by the instruction sampled.
    pub computing_at: BTreeMap<SiteId, u64>,
    /// Weight of which it is not known whether memory is accessed, by the instruction sampled.
    pub unknown_at: BTreeMap<SiteId, u64>,
}

/// Adds `cost` to row `index` of a dense column.
fn add(column: &mut Vec<Tally>, index: usize, cost: Tally) {
    if index >= column.len() {
        column.resize(index + 1, Tally::default());
    }
    column[index].merge(cost);
}

impl Analysis for HotData {
    const ORDER: Order = Order::AnyChunk;
    type State = HotState;
    type Findings = HotFindings;

    fn start(&self, _: &ShardInfo) -> HotState {
        HotState::default()
    }

    fn update(&self, state: &mut HotState, batch: &AccessBatch) {
        let mut here = Tally::default();
        let mut regions = batch.sample_region.iter();
        for (row, evidence) in batch.evidence.iter().enumerate() {
            if evidence.has_cost() {
                let mut cost = Tally::default();
                cost.add(batch.weight[row]);
                here.merge(cost);
                if let (Some(thread), Some(region)) = (batch.thread, regions.next()) {
                    state.regions.entry((thread, *region)).or_default().merge(cost);
                }
                state.uses.entry((batch.group[row], batch.site[row])).or_default().merge(cost);
                match batch.kind[row] {
                    AccessKind::NONE => *state.computing.entry(batch.site[row]).or_default() += batch.weight[row],
                    AccessKind::UNKNOWN if batch.group[row] == Tables::UNATTRIBUTED => {
                        *state.unknown.entry(batch.site[row]).or_default() += batch.weight[row];
                    }
                    _ => {}
                }
            }
        }
        state.whole.merge(here);
        if let Some(thread) = batch.thread {
            add(&mut state.threads, thread.index(), here);
        }
    }

    fn merge(&self, into: &mut HotState, from: HotState) {
        into.whole.merge(from.whole);
        for (used, tally) in from.uses {
            into.uses.entry(used).or_default().merge(tally);
        }
        for (site, weight) in from.computing {
            *into.computing.entry(site).or_default() += weight;
        }
        for (site, weight) in from.unknown {
            *into.unknown.entry(site).or_default() += weight;
        }
        for (index, tally) in from.threads.into_iter().enumerate() {
            add(&mut into.threads, index, tally);
        }
        for (region, tally) in from.regions {
            into.regions.entry(region).or_default().merge(tally);
        }
    }

    fn finish(&self, state: HotState, tables: &Tables) -> HotFindings {
        let mut loops = BTreeMap::new();
        let mut lines = BTreeMap::new();
        let mut functions = BTreeMap::new();
        let (mut groups, mut sites, mut types) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (&(group, site), &tally) in &state.uses {
            gather(&mut sites, site, tally);
            for (owner, part) in tables.owners(group, site) {
                let tally = part.map_or(tally, |part| tally.part(&part));
                gather(&mut groups, owner, tally);
                gather(&mut types, tables.used_type(owner, site).map(|id| tables.type_(id).name.clone()), tally);
            }
        }
        for (site, tally) in sites {
            gather(&mut lines, tables.code_place(site), tally);
            let site = tables.site(site);
            gather(&mut loops, site.innermost_loop, tally);
            let module = site.frames.last().map(|frame| frame.module.clone()).unwrap_or_default();
            gather(&mut functions, (site.function().to_owned(), module), tally);
        }
        let mut computing: BTreeMap<LoopId, u64> = BTreeMap::new();
        for (&site, &weight) in &state.computing {
            if let Some(id) = tables.site(site).innermost_loop {
                *computing.entry(id).or_default() += weight;
            }
        }
        let part = |weight: u64| weight as f64 / state.whole.weight.max(1) as f64;
        let threads = (0..).map(ThreadId).zip(state.threads).filter(|(_, tally)| tally.samples > 0);
        HotFindings {
            whole: state.whole,
            groups: ranked(groups, &state.whole),
            types: ranked(types, &state.whole),
            loops: ranked(loops, &state.whole),
            lines: ranked(lines, &state.whole),
            functions: ranked(functions, &state.whole),
            threads: ranked(threads, &state.whole),
            regions: state.regions.into_iter().collect(),
            computing: computing.into_iter().map(|(id, weight)| (id, part(weight))).collect(),
            computing_at: state.computing.into_iter().collect(),
            unknown_at: state.unknown.into_iter().collect(),
        }
    }
}

fn gather<K: Ord>(into: &mut BTreeMap<K, Tally>, key: K, tally: Tally) {
    into.entry(key).or_default().merge(tally);
}

/// By weight, then in the order of the keys.
fn ranked<K>(rows: impl IntoIterator<Item = (K, Tally)>, whole: &Tally) -> Vec<HotRow<K>> {
    let mut rows: Vec<(K, Tally)> = rows.into_iter().collect();
    rows.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.weight));
    rows.into_iter().map(|(key, tally)| HotRow { key, share: tally.share_of(whole) }).collect()
}
