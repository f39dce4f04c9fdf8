//! Everything the main profile finds, as data: what reports show and advice starts from.

use std::collections::BTreeMap;

use slimline_attribute::tables::{GroupKind, LoopId, Tables};
use slimline_trace::access::{AccessBatch, GroupId, SiteId};
use slimline_trace::session::WeightUnit;

use crate::affinity::{affinities, traversals};
use crate::analysis::{Analysis, Order, ShardInfo};
use crate::clusters::{Cluster, Heat, Rules, clusters};
use crate::coverage::{Counting, Coverage};
use crate::fields::{self, Divided, FieldUses, Use};
use crate::hot::{HotData, HotFindings};
use crate::pace::TriggerCosts;
use crate::places::{BATCHES, Place, Places};
use crate::service::Service;
use crate::share::{Share, Tally, interval_of_parts};
use crate::streams::{Stream, StreamFindings, Streams};
use crate::structure::{ElementFrom, Motion, Structure, structure};
use crate::threads::{GroupThreads, Threads};

/// The main profile: hot data, strides, structures, fields, loops, affinities and clusters in one pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct DataProfile {
    /// How fields are clustered.
    pub rules: Rules,
    /// What interrupts cost.
    pub trigger_costs: TriggerCosts,
    /// What weights count.
    pub unit: WeightUnit,
    /// Whether [`GroupFindings::divided`] is asked for.
    pub by_instruction: bool,
}

/// What the main profile finds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// What weights count.
    pub unit: WeightUnit,
    /// What hardware tells of all samples.
    pub service: Service,
    /// Shares of the session's weight by group, type, loop, line, function and thread.
    pub hot: HotFindings,
    /// Executions seen in windows.
    pub accesses: u64,
    /// Share of them in loops whose pace is known, so that their counts are free of the windows' bias.
    pub paced: f64,
    /// Every group with any access, costliest first.
    pub groups: Vec<GroupFindings>,
    /// Every loop with any access, costliest first.
    pub loops: Vec<LoopFindings>,
    /// Element types that several groups are made of: all of them together, costliest first.
    pub types: Vec<TypeFindings>,
    /// How much of the weight is told.
    pub coverage: Coverage,
}

/// What is known of the groups of one element type, as if they were one.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeFindings {
    /// The groups, costliest first.
    pub groups: Vec<GroupId>,
    /// What is known of them together, under the costliest group's handle.
    pub together: GroupFindings,
    /// What loops, by row of [`Findings::loops`], do to them together.
    pub loops: Vec<(usize, LoopGroup)>,
}

/// What is known of a data structure.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupFindings {
    /// The group.
    pub group: GroupId,
    /// Its share of the session's weight.
    pub share: Share,
    /// Loads seen in windows.
    pub loads: u64,
    /// Stores seen in windows.
    pub stores: u64,
    /// Its element; `None` where nothing tells of one.
    pub structure: Option<Structure>,
    /// Fields of the element: all that debug information names, else those accessed. By offset.
    pub fields: Vec<Field>,
    /// Part of the group's weight outside of all fields.
    pub elsewhere: f64,
    /// Share of the group's accesses whose loop's pace is known.
    pub paced: f64,
    /// Pairs of fields used together, strongest first; without the cold rest.
    pub affinity: Vec<FieldAffinity>,
    /// Fields that belong together: new structures, hottest first, the cold rest last.
    pub clusters: Vec<Cluster>,
    /// Who uses it.
    pub threads: GroupThreads,
    /// What hardware tells of its samples.
    pub service: Service,
    /// How what each instruction does to it divides among `fields`, whose shares are the sums. Empty where it was not asked
    /// for.
    pub divided: BTreeMap<SiteId, Divided>,
}

/// A field of a group's element.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Offset in the element.
    pub offset: u64,
    /// Size.
    pub bytes: u64,
    /// Path in the element type; `+40` where there is no debug information; empty where the element is a scalar.
    pub name: String,
    /// Its type as the language spells it, where known.
    pub type_name: Option<String>,
    /// Share of the group's weight: each cache line's weight in each loop, divided among the line's fields by how
    /// often the loop accesses them. This is the `share` of reports.
    pub share: f64,
    /// 95 % interval of `share`: of sampling the time, not of how the line's time was divided.
    pub share_interval: (f64, f64),
    /// Share of the group's weight as samples were blamed: within one cache line the first access takes all.
    pub blamed_share: f64,
    /// Share of the group's accesses, loads and stores, corrected for the windows' bias where paces are known.
    pub access_share: f64,
    /// 95 % interval of `access_share`: of what samples and windows showed by chance, not of paces. Empty where every
    /// access was seen.
    pub access_share_interval: (f64, f64),
    /// Loads seen in windows.
    pub loads: u64,
    /// Stores seen in windows.
    pub stores: u64,
    /// Distance between successive accesses where it is regular, of the stream with most executions.
    pub stride_bytes: Option<i64>,
    /// Rows of [`Findings::loops`] that use it, costliest first.
    pub loops: Vec<usize>,
    /// Fields with the same number can only move together.
    pub moves_with: usize,
    /// What hardware tells of its samples.
    pub service: Service,
}

impl Field {
    /// Whether anything was seen to use it.
    pub fn is_used(&self) -> bool {
        self.share > 0.0 || self.loads + self.stores > 0 || !self.loops.is_empty() || self.service.samples > 0
    }
}

/// Two fields, by row of [`GroupFindings::fields`], and how much they are used together.
pub type FieldAffinity = crate::affinity::Affinity;

/// What is known of a loop: only innermost loops of the accesses, code of inner loops not included.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopFindings {
    /// The loop.
    pub loop_id: LoopId,
    /// Its share of the session's weight.
    pub share: Share,
    /// The part of `share` that no memory instruction could be blamed for.
    pub computing: f64,
    /// Groups it touches, costliest first.
    pub groups: Vec<LoopGroup>,
    /// What hardware tells of its samples.
    pub service: Service,
}

impl LoopFindings {
    /// Part of the time it waits for memory that its computing would not hide, were both done at once as far as ever
    /// possible: 1 where it computes for no time, 0 where it does for as long as it waits or longer.
    pub fn unhidden(&self) -> f64 {
        let waiting = self.share.value - self.computing;
        if waiting > 0.0 { (1.0 - self.computing / waiting).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// What a loop does to a group.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopGroup {
    /// The group.
    pub group: GroupId,
    /// Share of the session's weight.
    pub share: f64,
    /// Samples that it rests on.
    pub samples: u64,
    /// Loads and stores seen in windows.
    pub accesses: u64,
    /// Fields it uses, hottest first.
    pub fields: Vec<LoopField>,
    /// Strides of the loop's streams over the group that no field tells: arrays of scalars, column walks.
    pub walks: Vec<Walk>,
}

/// What a loop does to a field.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopField {
    /// Row of [`GroupFindings::fields`].
    pub field: usize,
    /// Share of the session's weight.
    pub share: f64,
    /// Executions, loads and stores, corrected for the windows' bias where paces are known; in accesses seen.
    pub executions: f64,
    /// Loads seen in windows.
    pub loads: u64,
    /// Stores seen in windows.
    pub stores: u64,
    /// Distance between successive accesses where it is regular.
    pub stride_bytes: Option<i64>,
    /// Whether only vector loads that begin in an earlier field reach it: it may not be used at all.
    pub only_spanned: bool,
    /// Instructions that access it.
    pub sites: Vec<SiteId>,
}

/// How one instruction walks over a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Walk {
    /// The instruction.
    pub site: SiteId,
    /// Its share of the session's weight.
    pub share: f64,
    /// Size of its accesses.
    pub bytes: u16,
    /// Executions seen in windows.
    pub executions: u64,
    /// How it moves.
    pub motion: Motion,
}

/// What runs over the pass.
type Parts = ((HotData, Streams), Threads);

impl DataProfile {
    fn parts(&self) -> Parts {
        ((HotData, Streams { trigger_costs: self.trigger_costs }), Threads)
    }
}

impl Analysis for DataProfile {
    const ORDER: Order = Parts::ORDER;
    type State = <Parts as Analysis>::State;
    type Findings = Findings;

    fn start(&self, shard: &ShardInfo) -> Self::State {
        self.parts().start(shard)
    }

    fn update(&self, state: &mut Self::State, batch: &AccessBatch) {
        self.parts().update(state, batch);
    }

    fn merge(&self, into: &mut Self::State, from: Self::State) {
        self.parts().merge(into, from);
    }

    fn finish(&self, state: Self::State, tables: &Tables) -> Findings {
        let ((hot, streams), threads) = self.parts().finish(state, tables);
        let places = Places::new(&streams, tables);
        Builder { hot, found: &streams, tables, places, threads, profile: *self }.findings()
    }
}

type PlacedStreams<'a> = Vec<(&'a Stream, Motion, usize)>;

struct Builder<'a> {
    hot: HotFindings,
    found: &'a StreamFindings,
    tables: &'a Tables,
    places: Places,
    threads: BTreeMap<GroupId, GroupThreads>,
    profile: DataProfile,
}

/// What hardware tells of several streams together.
fn service<'s>(streams: impl IntoIterator<Item = &'s Stream>) -> Service {
    let mut service = Service::default();
    streams.into_iter().for_each(|stream| service.merge(&stream.service));
    service
}

/// Accesses of a group: all, and by parts of the windows alone, where not every access was seen.
#[derive(Default)]
struct Accesses {
    all: f64,
    in_batches: Option<[f64; BATCHES]>,
}

/// A group before it is put into words.
struct GroupDraft<'a> {
    group: GroupId,
    /// Others that it stands for, too.
    others: Vec<GroupId>,
    streams: PlacedStreams<'a>,
    structure: Option<Structure>,
    uses: FieldUses,
}

impl<'a> Builder<'a> {
    fn findings(self) -> Findings {
        let drafts: Vec<GroupDraft<'a>> =
            self.found.streams.chunk_by(|a, b| a.group == b.group).map(|streams| self.draft(streams)).collect();
        let loops = self.loops(&drafts);
        let loop_rows: BTreeMap<LoopId, usize> =
            loops.iter().enumerate().map(|(row, found)| (found.loop_id, row)).collect();
        let types = self.types(&drafts, &loop_rows);
        let mut groups: Vec<GroupFindings> = drafts.into_iter().map(|draft| self.group(draft, &loop_rows)).collect();
        groups.sort_by(|a, b| b.share.value.total_cmp(&a.share.value).then(a.group.cmp(&b.group)));
        let accesses = self.found.streams.iter().map(|stream| stream.executions).sum();
        let (paced, service) = (self.paced(&self.found.streams), service(&self.found.streams));
        let mut coverage = Counting::new(self.tables, &self.hot);
        self.found.streams.iter().for_each(|stream| coverage.add(stream));
        let coverage = coverage.finish();
        Findings { unit: self.profile.unit, service, accesses, paced, groups, loops, types, coverage, hot: self.hot }
    }

    fn draft(&self, streams: &'a [Stream]) -> GroupDraft<'a> {
        let group = streams[0].group;
        let row = self.tables.group(group);
        let streams: PlacedStreams<'a> =
            streams.iter().map(|stream| (stream, Motion::of(stream), self.places.of(stream.site))).collect();
        let type_id = row.element.map(|element| element.type_id);
        let is_open = type_id.is_some_and(|type_id| self.tables.type_(type_id).is_open());
        let structure = structure(row, is_open, &streams);
        let shapes = fields::shapes(self.tables, row.kind, structure.as_ref(), &streams, type_id);
        let uses = fields::uses(structure.as_ref(), shapes, &streams, &self.places);
        GroupDraft { group, others: Vec::new(), streams, structure, uses }
    }

    fn group(&self, draft: GroupDraft<'a>, loop_rows: &BTreeMap<LoopId, usize>) -> GroupFindings {
        let GroupDraft { group, others, streams, structure, uses } = draft;
        let mut cost = Tally::default();
        streams.iter().for_each(|(stream, ..)| cost.merge(stream.cost));
        let weight = cost.weight as f64;
        let fields = self.fields(&uses, &cost, &self.accesses(&streams), loop_rows);
        let transitions: Vec<_> = self
            .found
            .transitions
            .iter()
            .filter(|turn| turn.group == group || others.contains(&turn.group))
            .copied()
            .collect();
        let mut affinity = affinities(&uses, &traversals(&transitions, &self.places));
        let service = service(streams.iter().map(|(stream, ..)| *stream));
        // Hardware samples accesses: one that it measured no cost of is an access still.
        let sampled = |field: &Field| field.service.samples as f64 / service.samples.max(1) as f64;
        let heat = |field: &Field| {
            let &Field { share, access_share, moves_with, .. } = field;
            Heat { share, access_share: access_share.max(sampled(field)), moves_with }
        };
        let heats: Vec<Heat> = fields.iter().map(heat).collect();
        // What is known of an anonymous heap of unlike things makes no structure.
        let splits = structure.is_some() && self.tables.group(group).kind != GroupKind::Unattributed;
        let clusters = if splits { clusters(&heats, &affinity, &self.profile.rules) } else { Vec::new() };
        // Ties of cold fields are all 0 or 1, by the few accesses that there are.
        let cold: Vec<usize> =
            clusters.iter().filter(|cluster| cluster.cold).flat_map(|cluster| cluster.fields.clone()).collect();
        affinity.retain(|tie| !cold.contains(&tie.a) && !cold.contains(&tie.b));
        let divided = |placed: &(&Stream, Motion, usize)| (placed.0.site, uses.divided(structure.as_ref(), placed));
        let divided = streams.iter().filter(|_| self.profile.by_instruction).map(divided).collect();
        GroupFindings {
            group,
            share: cost.share_of(&self.hot.whole),
            loads: streams.iter().map(|(stream, ..)| stream.loads).sum(),
            stores: streams.iter().map(|(stream, ..)| stream.stores).sum(),
            structure,
            fields,
            elsewhere: if weight > 0.0 { uses.elsewhere / weight } else { 0.0 },
            paced: self.paced(streams.iter().map(|(stream, ..)| *stream)),
            affinity,
            clusters,
            threads: self.threads_of(group, &others),
            service,
            divided,
        }
    }

    /// The threads of the group, or of that one among them whose lines are shared most surely.
    fn threads_of(&self, group: GroupId, others: &[GroupId]) -> GroupThreads {
        let all = [group].into_iter().chain(others.iter().copied()).filter_map(|id| self.threads.get(&id));
        let shared = |of: &&GroupThreads| of.sharing.map_or(0, |sharing| 1 + sharing.shared);
        // Of several alike the first, which is the costliest.
        let most = all.reduce(|best, of| if shared(&of) > shared(&best) { of } else { best });
        most.cloned().unwrap_or_default()
    }

    /// Types that several drafts are made of. Nodes and arrays of one type are laid out in different ways, so they are
    /// two.
    fn types(&self, drafts: &[GroupDraft<'a>], loop_rows: &BTreeMap<LoopId, usize>) -> Vec<TypeFindings> {
        let mut by_type: BTreeMap<(&str, u64), Vec<&GroupDraft<'a>>> = BTreeMap::new();
        for draft in drafts {
            let row = self.tables.group(draft.group);
            let structure = draft.structure.filter(|structure| structure.from == ElementFrom::DebugInfo);
            let has_name = matches!(row.kind, GroupKind::Static | GroupKind::ThreadLocal);
            let owned = has_name || row.allocated_at.is_some();
            if let (Some(structure), Some(element), true) = (structure, row.element, owned) {
                let name = self.tables.type_(element.type_id).name.as_str();
                by_type.entry((name, structure.element_bytes)).or_default().push(draft);
            }
        }
        let mut types: Vec<TypeFindings> = by_type
            .into_values()
            .filter_map(|mut drafts| {
                let cost =
                    |draft: &GroupDraft<'a>| draft.streams.iter().map(|(stream, ..)| stream.cost.weight).sum::<u64>();
                drafts.retain(|draft| cost(draft) > 0);
                drafts.sort_by(|a, b| cost(b).cmp(&cost(a)).then(a.group.cmp(&b.group)));
                let shapes = &drafts.first()?.uses.shapes;
                // A name may stand for several types.
                let (alike, _): (Vec<_>, Vec<_>) = drafts.iter().partition(|draft| &draft.uses.shapes == shapes);
                (alike.len() > 1).then(|| self.type_findings(&alike, loop_rows))
            })
            .collect();
        types.sort_by(|a, b| b.together.share.value.total_cmp(&a.together.share.value).then(a.groups.cmp(&b.groups)));
        types
    }

    fn type_findings(&self, drafts: &[&GroupDraft<'a>], loop_rows: &BTreeMap<LoopId, usize>) -> TypeFindings {
        let mut uses = drafts[0].uses.clone();
        drafts[1..].iter().for_each(|draft| uses.merge(&draft.uses));
        let groups: Vec<GroupId> = drafts.iter().map(|draft| draft.group).collect();
        // One definition serves nodes and arrays: what is done to it must do for both.
        let one_per_object =
            drafts.iter().filter_map(|draft| draft.structure).any(|structure| structure.one_per_object);
        let structure = drafts[0].structure.map(|structure| Structure { one_per_object, ..structure });
        let draft = GroupDraft {
            group: groups[0],
            others: groups[1..].to_vec(),
            streams: drafts.iter().flat_map(|draft| draft.streams.iter().copied()).collect(),
            structure,
            uses,
        };
        let loops = self.loops(std::slice::from_ref(&draft)).into_iter();
        let loops = loops.filter_map(|found| Some((*loop_rows.get(&found.loop_id)?, found.groups.into_iter().next()?)));
        TypeFindings { loops: loops.collect(), together: self.group(draft, loop_rows), groups }
    }

    fn accesses(&self, streams: &PlacedStreams<'a>) -> Accesses {
        let mut found = Accesses::default();
        for (stream, ..) in streams {
            let each = stream.accesses_per_execution();
            found.all += self.places.executions(stream) * each;
            if let Some(executions) = self.places.executions_in_batches(stream) {
                let sums = found.in_batches.get_or_insert_default();
                sums.iter_mut().zip(executions).for_each(|(sum, executions)| *sum += executions * each);
            }
        }
        found
    }

    fn fields(
        &self,
        uses: &FieldUses,
        cost: &Tally,
        accesses: &Accesses,
        loop_rows: &BTreeMap<LoopId, usize>,
    ) -> Vec<Field> {
        let part = |of: f64, whole: f64| if whole > 0.0 { of / whole } else { 0.0 };
        uses.shapes
            .iter()
            .enumerate()
            .map(|(row, shape)| {
                let here: Vec<(usize, &Use)> = uses
                    .uses
                    .iter()
                    .filter(|((_, field), _)| *field == row)
                    .map(|(&(place, _), used)| (place, used))
                    .collect();
                // The standard library's sum of nothing is -0.0.
                let sum = |of: fn(&Use) -> f64| here.iter().fold(0.0, |sum, (_, used)| sum + of(used));
                let leading = here.iter().filter(|(_, used)| used.stride_bytes.is_some());
                let leading = leading.max_by(|(_, a), (_, b)| rank(a).total_cmp(&rank(b)));
                let mut loops: Vec<(f64, usize)> = here
                    .iter()
                    .filter_map(|&(place, used)| match self.places.rows[place] {
                        Place::Loop(id) => loop_rows.get(&id).map(|&row| (used.weight, row)),
                        Place::Function(..) => None,
                    })
                    .collect();
                loops.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                let mut service = Service::default();
                here.iter().for_each(|(_, used)| service.merge(&used.service));
                let share = part(sum(|used| used.weight), cost.weight as f64);
                let access_share = part(sum(|used| used.accesses), accesses.all);
                let access_share_interval = match accesses.in_batches {
                    Some(wholes) => {
                        let in_batch = |batch: usize| here.iter().map(|(_, used)| used.in_batches[batch]).sum::<f64>();
                        interval_of_parts(access_share, (0..BATCHES).map(in_batch).zip(wholes))
                    }
                    None => (access_share, access_share),
                };
                Field {
                    offset: shape.offset,
                    bytes: shape.bytes,
                    name: shape.name.clone(),
                    type_name: shape.type_name.clone(),
                    share,
                    share_interval: cost.interval(share),
                    blamed_share: part(sum(|used| used.blamed), cost.weight as f64),
                    access_share,
                    access_share_interval,
                    loads: sum(|used| used.loads).round() as u64,
                    stores: sum(|used| used.stores).round() as u64,
                    stride_bytes: leading.and_then(|(_, used)| used.stride_bytes),
                    loops: loops.into_iter().map(|(_, row)| row).collect(),
                    moves_with: shape.moves_with,
                    service,
                }
            })
            .collect()
    }

    fn loops(&self, drafts: &[GroupDraft<'a>]) -> Vec<LoopFindings> {
        let total = self.hot.whole.weight as f64;
        let part = |weight: f64| if total > 0.0 { weight / total } else { 0.0 };
        let shares: BTreeMap<LoopId, Share> =
            self.hot.loops.iter().filter_map(|row| Some((row.key?, row.share))).collect();
        let mut found: BTreeMap<LoopId, (Vec<LoopGroup>, Service)> = BTreeMap::new();
        for draft in drafts {
            let mut places: BTreeMap<usize, Vec<&(&Stream, Motion, usize)>> = BTreeMap::new();
            for stream in &draft.streams {
                places.entry(stream.2).or_default().push(stream);
            }
            for (place, streams) in places {
                let Place::Loop(id) = self.places.rows[place] else { continue };
                let mut fields: Vec<LoopField> = draft
                    .uses
                    .uses
                    .range((place, 0)..(place + 1, 0))
                    .map(|(&(_, field), used)| LoopField {
                        field,
                        share: part(used.weight),
                        executions: used.executions,
                        loads: used.loads.round() as u64,
                        stores: used.stores.round() as u64,
                        stride_bytes: used.stride_bytes,
                        only_spanned: used.only_spanned,
                        sites: used.sites.clone(),
                    })
                    .collect();
                fields.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.field.cmp(&b.field)));
                let walk = |stream: &Stream, motion: Motion| Walk {
                    site: stream.site,
                    share: part(stream.cost.weight as f64),
                    bytes: stream.bytes.1,
                    executions: stream.executions,
                    motion,
                };
                let (groups, of_loop) = found.entry(id).or_default();
                of_loop.merge(&service(streams.iter().map(|(stream, ..)| *stream)));
                groups.push(LoopGroup {
                    group: draft.group,
                    share: part(streams.iter().map(|(stream, ..)| stream.cost.weight as f64).sum()),
                    samples: streams.iter().map(|(stream, ..)| stream.cost.samples).sum(),
                    accesses: streams.iter().map(|(stream, ..)| stream.loads + stream.stores).sum(),
                    fields,
                    walks: streams.iter().map(|(stream, motion, _)| walk(stream, *motion)).collect(),
                });
            }
        }
        let unsampled = Tally::default().share_of(&self.hot.whole);
        let mut loops: Vec<LoopFindings> = found
            .into_iter()
            .map(|(loop_id, (mut groups, service))| {
                groups.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.group.cmp(&b.group)));
                let share = shares.get(&loop_id).copied().unwrap_or(unsampled);
                let computing = self.hot.computing.get(&loop_id).copied().unwrap_or(0.0);
                LoopFindings { loop_id, share, computing, groups, service }
            })
            .collect();
        loops.sort_by(|a, b| b.share.value.total_cmp(&a.share.value).then(a.loop_id.cmp(&b.loop_id)));
        loops
    }

    /// Share of the executions that are in places of known pace.
    fn paced(&self, streams: impl IntoIterator<Item = &'a Stream>) -> f64 {
        let (mut paced, mut all) = (0.0, 0.0);
        for stream in streams {
            let place = self.places.of(stream.site);
            let executions = self.places.executions(stream);
            all += executions;
            paced += if self.places.is_paced(place) { executions } else { 0.0 };
        }
        if all > 0.0 { paced / all } else { 0.0 }
    }
}

/// What makes one use of a field the leading one.
fn rank(used: &Use) -> f64 {
    used.executions.max(used.weight)
}
