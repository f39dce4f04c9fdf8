//! Hot data: whose accesses cost how much, l_d = Σ weight of d / Σ weight (StructSlim, equation 1).
//!
//! Accesses that belong to no known object are a group of their own, so the shares of every breakdown sum to 1.

use std::collections::BTreeMap;

use slimline_attribute::tables::{LoopId, Tables};
use slimline_trace::access::{AccessBatch, GroupId, SiteId, ThreadId};

use crate::analysis::{Analysis, Order, ShardInfo};
use crate::share::{Share, Tally};

/// The analysis.
#[derive(Clone, Copy, Debug, Default)]
pub struct HotData;

/// Weight by group, site and thread, each a dense column by handle.
#[derive(Clone, Debug, Default)]
pub struct HotState {
    whole: Tally,
    groups: Vec<Tally>,
    sites: Vec<Tally>,
    threads: Vec<Tally>,
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
    /// By source line of the innermost frame; `None` where it is not known.
    pub lines: Vec<HotRow<Option<(String, u32)>>>,
    /// By function and module file.
    pub functions: Vec<HotRow<(String, String)>>,
    /// By thread.
    pub threads: Vec<HotRow<ThreadId>>,
}

/// Adds `cost` to row `index` of a dense column.
fn add(column: &mut Vec<Tally>, index: usize, cost: Tally) {
    if index >= column.len() {
        column.resize(index + 1, Tally::default());
    }
    column[index].merge(cost);
}

fn merge(into: &mut Vec<Tally>, from: Vec<Tally>) {
    if into.len() < from.len() {
        into.resize(from.len(), Tally::default());
    }
    for (into, from) in into.iter_mut().zip(from) {
        into.merge(from);
    }
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
        for (row, evidence) in batch.evidence.iter().enumerate() {
            if evidence.has_cost() {
                let mut cost = Tally::default();
                cost.add(batch.weight[row]);
                here.merge(cost);
                add(&mut state.groups, batch.group[row].index(), cost);
                add(&mut state.sites, batch.site[row].index(), cost);
            }
        }
        state.whole.merge(here);
        if let Some(thread) = batch.thread {
            add(&mut state.threads, thread.index(), here);
        }
    }

    fn merge(&self, into: &mut HotState, from: HotState) {
        into.whole.merge(from.whole);
        merge(&mut into.groups, from.groups);
        merge(&mut into.sites, from.sites);
        merge(&mut into.threads, from.threads);
    }

    fn finish(&self, state: HotState, tables: &Tables) -> HotFindings {
        let mut loops = BTreeMap::new();
        let mut lines = BTreeMap::new();
        let mut functions = BTreeMap::new();
        for (site, tally) in rows(&state.sites, SiteId) {
            let site = tables.site(site);
            gather(&mut loops, site.innermost_loop, tally);
            gather(&mut lines, site.position().map(|at| (at.file.clone(), at.line)), tally);
            let module = site.frames.last().map(|frame| frame.module.clone()).unwrap_or_default();
            gather(&mut functions, (site.function().to_owned(), module), tally);
        }
        let mut types = BTreeMap::new();
        for (group, tally) in rows(&state.groups, GroupId) {
            let element = tables.group(group).element;
            gather(&mut types, element.map(|element| tables.type_(element.type_id).name.clone()), tally);
        }
        HotFindings {
            whole: state.whole,
            groups: ranked(rows(&state.groups, GroupId), &state.whole),
            types: ranked(types, &state.whole),
            loops: ranked(loops, &state.whole),
            lines: ranked(lines, &state.whole),
            functions: ranked(functions, &state.whole),
            threads: ranked(rows(&state.threads, ThreadId), &state.whole),
        }
    }
}

/// Rows of a dense column that were ever touched.
fn rows<K>(column: &[Tally], key: impl Fn(u32) -> K) -> impl Iterator<Item = (K, Tally)> {
    (0..).zip(column).filter(|(_, tally)| tally.samples > 0).map(move |(index, tally)| (key(index), *tally))
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
