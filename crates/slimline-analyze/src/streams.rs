//! Streams: what each instruction does to each data structure (StructSlim §4.2.1).
//!
//! Tables come after the stream of accesses, so nothing here knows loops, types or element sizes yet. What is kept of a
//! stream is enough to ask for any of them later: sums, the strides seen inside windows, and a sample of its offsets.
//!
//! Inside a window all accesses were seen, so the distance between an instruction's consecutive accesses is a fact.
//! Each window casts one vote for the distance that most of them have. Distances between accesses to different objects
//! (a list's nodes) are counted apart: they tell where the allocator put things.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;
use slimline_attribute::tables::Tables;
use slimline_trace::access::{AccessBatch, GroupId, SiteId, Window};
use slimline_trace::served::Served;

use crate::analysis::{Analysis, Order, ShardInfo};
use crate::bottom::{Add, Bottom};
use crate::neighbors::{Neighbors, Transitions};
use crate::pace::{PaceTable, Paces, Position, TriggerCosts};
use crate::sequences::Sequences;
use crate::service::Service;
use crate::share::{Tally, portion};
use crate::structure::{KNOWN, Motion};

/// Offsets kept of a stream, of its samples and of its executions: more than the robust GCD needs (see its table), and
/// all there are in a structure allocated node by node.
const OFFSETS: usize = 128;
/// Different strides kept of a stream. One that has more is irregular.
const STRIDES: usize = 256;
/// Different distances kept of a stream by which it leaves its stride.
const RETURNS: usize = 16;
/// Different distances told apart within one window.
const DISTANCES: usize = 4;

/// The analysis.
#[derive(Clone, Copy, Debug, Default)]
pub struct Streams {
    /// What interrupts cost.
    pub trigger_costs: TriggerCosts,
}

/// One site accessing one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// The instruction.
    pub site: SiteId,
    /// The data structure.
    pub group: GroupId,
    /// Samples blamed on it.
    pub cost: Tally,
    /// What hardware tells of them.
    pub service: Service,
    /// Executions seen in windows.
    pub executions: u64,
    /// Those that load.
    pub loads: u64,
    /// Those that store.
    pub stores: u64,
    /// Smallest and largest access.
    pub bytes: (u16, u16),
    /// Votes of windows: stride, and distances that agreed.
    strides: Bottom<u64, STRIDES>,
    /// Other distances in windows that have a stride: where the walk begins again.
    returns: Bottom<u64, RETURNS>,
    /// Distances inside one object.
    pub(crate) steps: u64,
    /// Distances between objects.
    pub(crate) hops: u64,
    sampled: Bottom<Tally, OFFSETS>,
    /// Those samples of which hardware tells, of whatever weight.
    served: Bottom<u64, OFFSETS>,
    executed: Bottom<u64, OFFSETS>,
}

impl Add for Tally {
    fn add(&mut self, other: Self) {
        self.merge(other);
    }
}

impl Stream {
    fn new(site: SiteId, group: GroupId) -> Self {
        Self {
            site,
            group,
            cost: Tally::default(),
            service: Service::default(),
            executions: 0,
            loads: 0,
            stores: 0,
            bytes: (u16::MAX, 0),
            strides: Bottom::default(),
            returns: Bottom::default(),
            steps: 0,
            hops: 0,
            sampled: Bottom::default(),
            served: Bottom::default(),
            executed: Bottom::default(),
        }
    }

    fn merge(&mut self, from: Self) {
        self.cost.merge(from.cost);
        self.service.merge(&from.service);
        self.executions += from.executions;
        self.loads += from.loads;
        self.stores += from.stores;
        self.bytes = (self.bytes.0.min(from.bytes.0), self.bytes.1.max(from.bytes.1));
        self.strides.merge(from.strides);
        self.returns.merge(from.returns);
        self.steps += from.steps;
        self.hops += from.hops;
        self.sampled.merge(from.sampled);
        self.served.merge(from.served);
        self.executed.merge(from.executed);
    }

    /// What one of several owners has of this stream, as [`Tables::owners`] says: sums, since its offsets are not known.
    fn part(&self, owner: GroupId, part: &Range<f64>) -> Self {
        Self {
            cost: self.cost.part(part),
            service: self.service.part(part),
            executions: portion(self.executions, part),
            loads: portion(self.loads, part),
            stores: portion(self.stores, part),
            bytes: self.bytes,
            ..Self::new(self.site, owner)
        }
    }

    /// Where nothing of it was seen at a known offset: puts all of it where debug information has the instruction access the
    /// type that the group's objects are made of.
    fn place_by_type(&mut self, tables: &Tables) {
        let is_placed = self.sampled.iter().next().is_some() || self.executed.iter().next().is_some();
        let (element, accessed) = (tables.group(self.group).element, tables.site(self.site).accessed);
        let (Some(element), Some(accessed)) = (element, accessed) else { return };
        if is_placed || element.type_id != accessed.type_id {
            return;
        }
        let offset = element.start + accessed.offset;
        if self.cost.samples > 0 {
            self.sampled.add(offset, self.cost);
        }
        if self.executions > 0 {
            self.executed.add(offset, self.executions);
        }
    }

    /// The stride most windows voted for and the distances that agreed with it.
    pub(crate) fn voted(&self) -> Option<(i64, u64)> {
        let votes = self.strides.iter().map(|(stride, &agreeing)| (stride as i64, agreeing));
        votes.max_by_key(|&(stride, agreeing)| (agreeing, std::cmp::Reverse(stride)))
    }

    /// The distance by which most of the steps that are not of this stride go back.
    pub(crate) fn returned(&self, stride: i64) -> Option<i64> {
        let returns = self.returns.iter().map(|(distance, &times)| (distance as i64, times));
        let back = returns.filter(|(distance, _)| *distance != 0 && (*distance < 0) != (stride < 0));
        back.max_by_key(|&(distance, times)| (times, std::cmp::Reverse(distance))).map(|(distance, _)| distance)
    }

    /// Offsets of the samples with the weight on each: all of them, or a random part of the different ones.
    pub(crate) fn sampled(&self) -> impl Iterator<Item = (u64, &Tally)> {
        self.sampled.iter()
    }

    /// How often each of these offsets was sampled: an access that weighs nothing was sampled too, if hardware tells of it.
    pub(crate) fn sampled_at(&self) -> Vec<(u64, u64)> {
        if self.service.samples > 0 {
            self.served.iter().map(|(offset, &samples)| (offset, samples)).collect()
        } else {
            self.sampled().map(|(offset, cost)| (offset, cost.samples)).collect()
        }
    }

    /// How often it was seen, in windows or samples.
    pub(crate) fn evidence(&self) -> u64 {
        self.executions + self.cost.samples.max(self.service.samples)
    }

    /// The stream's whole cost, by offset: that of the samples whose offset was kept stands for all; where all of it is
    /// inferred, that of the executions does. `None`: no offset is known.
    pub(crate) fn weighed(&self) -> Vec<(Option<u64>, f64)> {
        let mut parts: Vec<(Option<u64>, f64)> =
            self.sampled().map(|(offset, cost)| (Some(offset), cost.weight as f64)).collect();
        if parts.iter().all(|(_, weight)| *weight == 0.0) {
            parts = self.executed().map(|(offset, count)| (Some(offset), count as f64)).collect();
        }
        let kept: f64 = parts.iter().map(|(_, weight)| weight).sum();
        if kept == 0.0 {
            return vec![(None, self.cost.weight as f64)];
        }
        parts.iter_mut().for_each(|(_, weight)| *weight *= self.cost.weight as f64 / kept);
        parts
    }

    /// Offsets of the executions with the number on each, likewise.
    pub(crate) fn executed(&self) -> impl Iterator<Item = (u64, u64)> {
        self.executed.iter().map(|(offset, &count)| (offset, count))
    }

    /// A read-modify-write is two accesses.
    pub(crate) fn accesses_per_execution(&self) -> f64 {
        if self.executions == 0 { 1.0 } else { (self.loads + self.stores) as f64 / self.executions as f64 }
    }

    /// Some of the offsets, sorted: a random part, as many as a GCD needs.
    pub(crate) fn some_offsets(&self) -> Vec<u64> {
        /// Robust GCDs of this many addresses never failed with 20 % of them wrong.
        const ENOUGH: usize = 96;
        let sampled = self.sampled().map(|(offset, _)| offset).take(ENOUGH);
        let mut offsets: Vec<u64> = sampled.chain(self.executed().map(|(offset, _)| offset).take(ENOUGH)).collect();
        offsets.sort_unstable();
        offsets.dedup();
        offsets
    }

    /// Different offsets seen at all, sorted.
    pub(crate) fn offsets(&self) -> Vec<u64> {
        let mut offsets: Vec<u64> =
            self.sampled().map(|(offset, _)| offset).chain(self.executed().map(|(offset, _)| offset)).collect();
        offsets.sort_unstable();
        offsets.dedup();
        offsets
    }
}

/// What the streams of a session are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamFindings {
    /// By group, then by site.
    pub streams: Vec<Stream>,
    /// How fast code runs.
    pub paces: Paces,
    /// Which sites follow one another on the same data, by group and sites.
    pub transitions: Vec<Transitions>,
    /// Order of the accesses in timed windows, by number of their source.
    pub(crate) sequences: Sequences,
    /// What was seen of which group: the streams, before those of blocks that were not followed went to their owners.
    pub(crate) sources: Vec<(GroupId, SiteId)>,
}

/// What a shard remembers.
#[derive(Clone, Debug, Default)]
pub struct StreamState {
    streams: Vec<Stream>,
    rows: FxHashMap<(SiteId, GroupId), usize>,
    sites: Vec<SiteMemory>,
    /// Sites with executions in the current window.
    touched: Vec<SiteId>,
    window_number: u32,
    paces: PaceTable,
    neighbors: Neighbors,
    sequences: Sequences,
}

/// What is remembered of a site: its stream, and its walk through the current window.
#[derive(Clone, Copy, Debug)]
struct SiteMemory {
    group: GroupId,
    row: usize,
    window: u32,
    walk: Walk,
}

/// A site's consecutive executions in one window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    group: u32,
    object: u32,
    first: u64,
    last: u64,
    pub(crate) executions: u32,
    steps: u32,
    hops: u32,
    distances: [(i64, u32); DISTANCES],
}

impl Walk {
    fn step(&mut self, group: GroupId, object: u32, address: u64) {
        self.executions += 1;
        if self.executions == 1 {
            (self.group, self.object, self.first, self.last) = (group.0, object, address, address);
            return;
        }
        let distance = address.wrapping_sub(self.last) as i64;
        self.last = address;
        // Object 0 is none that is known: two accesses there are to two.
        if (self.group, self.object) != (group.0, object) || object == 0 {
            (self.group, self.object) = (group.0, object);
            self.hops += 1;
            return;
        }
        self.steps += 1;
        for (known, count) in &mut self.distances {
            if *count == 0 {
                *known = distance;
            }
            if *known == distance {
                *count += 1;
                return;
            }
        }
    }

    /// The distance that more than half of the steps have.
    fn stride(&self) -> Option<(i64, u32)> {
        self.distances.into_iter().find(|(_, count)| count * 2 > self.steps)
    }

    /// Where it began.
    pub(crate) fn position(&self) -> Position {
        let object = if self.hops == 0 { self.object } else { 0 };
        Position { group: self.group, object, address: self.first }
    }

    /// The number of steps and their sum, of a walk that never left its object.
    pub(crate) fn in_one_object(&self) -> Option<(u32, i64)> {
        (self.hops == 0).then(|| (self.steps, self.last.wrapping_sub(self.first) as i64))
    }
}

impl StreamState {
    /// The stream of a row, and the memory of its site.
    #[inline]
    fn stream(&mut self, site: SiteId, group: GroupId) -> usize {
        if site.index() >= self.sites.len() {
            let nothing = SiteMemory { group: GroupId(u32::MAX), row: 0, window: 0, walk: Walk::default() };
            self.sites.resize(site.index() + 1, nothing);
        }
        let memory = &mut self.sites[site.index()];
        if memory.group != group {
            let streams = &mut self.streams;
            memory.group = group;
            memory.row = *self.rows.entry((site, group)).or_insert_with(|| {
                streams.push(Stream::new(site, group));
                streams.len() - 1
            });
        }
        memory.row
    }

    /// Takes a window in; `told` is of its samples and of those that follow: CPU times, and how they were served.
    fn window(
        &mut self,
        batch: &AccessBatch,
        window: &Window,
        rows: Range<usize>,
        mut told: impl Iterator<Item = (u64, Served)>,
    ) {
        self.window_number += 1;
        self.neighbors.begin_window();
        self.paces.begin_window(window);
        let keeps_order = Sequences::takes(window);
        let mut blamed = None;
        for row in rows {
            let (site, group, offset) = (batch.site[row], batch.group[row], batch.offset[row]);
            let (kind, evidence) = (batch.kind[row], batch.evidence[row]);
            let at = self.stream(site, group);
            let stream = &mut self.streams[at];
            let bytes = batch.bytes[row];
            stream.bytes = (stream.bytes.0.min(bytes), stream.bytes.1.max(bytes));
            let known = batch.address[row].0 != 0;
            if evidence.has_cost() {
                blamed = Some(at as u32);
                let (cpu_ns, served) = told.next().unwrap_or((0, Served::UNKNOWN));
                let mut cost = Tally::default();
                cost.add(batch.weight[row]);
                stream.cost.merge(cost);
                stream.service.add(&served);
                if known {
                    stream.sampled.add(offset, cost);
                    if served != Served::UNKNOWN {
                        stream.served.add(offset, 1);
                    }
                }
                let position = Position { group: group.0, object: batch.object[row].0, address: batch.address[row].0 };
                self.paces.sample(site, position, cpu_ns, batch.weight[row]);
            }
            if !evidence.is_execution() {
                continue;
            }
            stream.executions += 1;
            stream.loads += u64::from(kind.loads());
            stream.stores += u64::from(kind.stores());
            if keeps_order {
                self.sequences.accesses.push(at as u32);
            }
            if !known {
                continue;
            }
            stream.executed.add(offset, 1);
            let object = batch.object[row].0;
            let memory = &mut self.sites[site.index()];
            if memory.window != self.window_number {
                memory.window = self.window_number;
                memory.walk = Walk::default();
                self.touched.push(site);
            }
            memory.walk.step(group, object, batch.address[row].0);
            if object != 0 {
                self.neighbors.row(site, group, object, offset);
            }
        }
        if let Some(blamed) = blamed.filter(|_| keeps_order) {
            self.sequences.end_window(window, blamed);
        }
        self.end_window();
    }

    fn end_window(&mut self) {
        for site in self.touched.drain(..) {
            let walk = self.sites[site.index()].walk;
            // A site that touches several groups in a window votes on the one it touched last.
            let Some(&row) = self.rows.get(&(site, GroupId(walk.group))) else { continue };
            let stream = &mut self.streams[row];
            stream.steps += u64::from(walk.steps);
            stream.hops += u64::from(walk.hops);
            if let Some((stride, agreeing)) = walk.stride() {
                stream.strides.add(stride as u64, u64::from(agreeing));
                for (distance, times) in walk.distances.into_iter().filter(|(distance, _)| *distance != stride) {
                    if times > 0 {
                        stream.returns.add(distance as u64, times.into());
                    }
                }
            }
            self.paces.walk(site, &walk);
        }
    }
}

impl Analysis for Streams {
    /// Windows never span batches, and nothing is carried from one batch to the next.
    const ORDER: Order = Order::AnyChunk;
    type State = StreamState;
    type Findings = StreamFindings;

    fn start(&self, _: &ShardInfo) -> StreamState {
        StreamState { paces: PaceTable::new(self.trigger_costs), ..StreamState::default() }
    }

    fn update(&self, state: &mut StreamState, batch: &AccessBatch) {
        state.paces.begin_batch();
        let mut told = batch.sample_cpu_ns.iter().copied().zip(batch.served.iter().copied());
        for (index, window) in batch.windows.iter().enumerate() {
            state.window(batch, window, batch.window_rows(index), &mut told);
        }
    }

    fn merge(&self, into: &mut StreamState, from: StreamState) {
        let mut rows = Vec::with_capacity(from.streams.len());
        for stream in from.streams {
            let row = into.stream(stream.site, stream.group);
            into.streams[row].merge(stream);
            rows.push(row as u32);
        }
        into.sequences.merge(from.sequences, &rows);
        into.paces.merge(from.paces);
        into.neighbors.merge(from.neighbors);
    }

    fn finish(&self, mut state: StreamState, tables: &Tables) -> StreamFindings {
        let mut sources: Vec<(GroupId, SiteId)> =
            state.streams.iter().map(|stream| (stream.group, stream.site)).collect();
        sources.sort_unstable();
        let mut numbers = vec![0; sources.len()];
        for (number, &(group, site)) in (0..).zip(&sources) {
            numbers[state.rows[&(site, group)]] = number;
        }
        let (inferred, seen): (Vec<Stream>, Vec<Stream>) =
            state.streams.drain(..).partition(|stream| tables.inferred.stands_in(stream.group));
        state.streams = seen;
        state.rows = (0..).zip(&state.streams).map(|(row, stream)| ((stream.site, stream.group), row)).collect();
        for stream in inferred {
            for (owner, part) in tables.owners(stream.group, stream.site) {
                let part = match part {
                    Some(part) => stream.part(owner, &part),
                    None => Stream { group: owner, ..stream.clone() },
                };
                match state.rows.get(&(stream.site, owner)) {
                    Some(&row) => state.streams[row].merge(part),
                    None => {
                        state.rows.insert((stream.site, owner), state.streams.len());
                        state.streams.push(part);
                    }
                }
            }
        }
        state.streams.iter_mut().for_each(|stream| stream.place_by_type(tables));
        state.streams.sort_by_key(|stream| (stream.group, stream.site));
        let paces = state.paces.finish(&Grains::new(&state.streams), tables);
        StreamFindings {
            streams: state.streams,
            sequences: state.sequences.finish(&numbers),
            sources,
            paces,
            transitions: state.neighbors.into_rows(|group| tables.inferred.only_owner(group)),
        }
    }
}

/// What the offsets of sites are congruent by. A site's are those of its main stream.
#[derive(Debug, Default)]
pub(crate) struct Grains<'a> {
    main: BTreeMap<SiteId, &'a Stream>,
    known: BTreeMap<SiteId, u64>,
}

impl<'a> Grains<'a> {
    pub(crate) fn new(streams: &'a [Stream]) -> Self {
        let mut main: BTreeMap<SiteId, &Stream> = BTreeMap::new();
        for stream in streams {
            let known = main.entry(stream.site).or_insert(stream);
            if stream.executions > known.executions {
                *known = stream;
            }
        }
        let grain_of = |(&site, &stream): (&SiteId, &&Stream)| {
            let grain = Motion::of(stream).grain.filter(|grain| grain.confidence >= KNOWN)?;
            (grain.bytes > u64::from(stream.bytes.1)).then_some((site, grain.bytes))
        };
        let known = main.iter().filter_map(grain_of).collect();
        Self { main, known }
    }

    /// A site's grain, where it is sure and more than one access.
    pub(crate) fn of(&self, site: SiteId) -> Option<u64> {
        self.known.get(&site).copied()
    }

    /// Whether a site that was seen too seldom to have a grain of its own may go by this one: it was at two offsets at
    /// least, and all are congruent by it.
    pub(crate) fn may_be(&self, site: SiteId, grain: u64) -> bool {
        let offsets = self.main.get(&site).map(|stream| stream.some_offsets()).unwrap_or_default();
        offsets.len() > 1 && offsets.iter().all(|offset| (offset - offsets[0]).is_multiple_of(grain))
    }
}
