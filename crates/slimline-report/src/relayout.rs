//! Which layouts structures should have, and in which order loops should go through them, as tried on a trace, for `slimline advise TRACE`.

mod inlining;
mod large_pages;
mod loops;
pub(crate) mod memory_nodes;
mod prefetches;
mod titles;
mod unstructured;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;
use slimline_analyze::full_trace::held_values::Narrower;
use slimline_analyze::full_trace::object_structures::{FieldShape, StructureShape, Structured, TouchingLine};
use slimline_analyze::full_trace::objects::{Object, ObjectOrigin};
use slimline_analyze::relayout::candidates::{Candidate, Untouchable};
use slimline_analyze::relayout::search::{Searched, Tried};
use slimline_analyze::relayout::unstructured::Unstructured;
use slimline_analyze::relayout::visits::{MOST_FIELDS, Visits};
use slimline_analyze::relayout::{Taken, TimeRatio, definitions, narrower_type};
use slimline_analyze::ties::Ties;
use slimline_attribute::tables::Language;
use slimline_simulate::machine::Machine;
use slimline_simulate::relaid::{Holds, MovedField, Part, StructureLayout};

pub use self::inlining::{InlinedRow, NotInlinedRow, OwnershipRow};
pub use self::large_pages::{LargePagesRow, LargePagesTaken};
pub use self::loops::{AdvisedLoops, LoopFacts, LoopRow, LoopSource, LoopWalkRow, TriedOrderRow};
pub use self::memory_nodes::{MemoryNodesRow, NodesAdvice, NodesDataRow, NodesTaken};
pub use self::prefetches::{
    AdvisedPrefetch, ChaseRow, LoadSource, PrefetchFacts, PrefetchRow, PrefetchesReport, TriedDistanceRow,
};
use self::titles::title;
pub use self::unstructured::UnstructuredRow;
use crate::cautions;
pub use crate::cautions::Caution;
use crate::full_trace::bounds;
use crate::simulation::AccessTrace;
use crate::view::{Affinity, NewLayout, PlacedField};

/// Version of the JSON. 1: the first.
pub const RELAYOUT_SCHEMA: u32 = 1;
/// What a change must save to be advised ([`TimeRatio::is_worth_it`]), in words.
pub(crate) const ENOUGH: &str = "5 % of the time, or 2 % for sure";
/// Patterns of fields that are told of a structure.
const MOST_PATTERNS: usize = 5;

/// What was replayed, and what came of it.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// All accesses.
    pub accesses: u64,
    /// Those that were replayed, the same for all layouts.
    pub replayed: u64,
    /// What they take as the program is.
    pub before: Taken,
    /// With all that is advised; none where nothing is.
    pub together: Option<Taken>,
    /// On large pages; none where the machine has none.
    pub large_pages: Option<LargePagesTaken>,
    /// With pages in other nodes' memories; none where cores are near to one memory.
    pub memory_nodes: Option<NodesTaken>,
    /// The machine's cache before memory; none where it has no caches.
    pub last_level: Option<LastLevel>,
}

/// The cache that all data goes through last, and whether it holds all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastLevel {
    /// Its name.
    pub name: String,
    /// Its size; of several at that level that of one.
    pub bytes: u64,
    /// Lines of data that were accessed, in bytes; none where these are more than it holds.
    pub accessed_bytes: Option<u64>,
}

/// Everything `slimline advise TRACE` shows, and its JSON.
#[derive(Clone, Debug, Serialize)]
pub struct RelayoutReport {
    /// [`RELAYOUT_SCHEMA`].
    pub schema: u32,
    /// What was read.
    pub trace: AccessTrace,
    /// The simulated machine.
    pub machine: String,
    /// All accesses.
    pub accesses: u64,
    /// Those that shares and predictions are of: all, or windows that lie evenly over the run.
    pub replayed: u64,
    /// The machine's cache before memory; none where it has no caches.
    pub last_level: Option<LastLevel>,
    /// Structures that take most of the time, that first.
    pub structures: Vec<StructureRow>,
    /// Part of the time of structures that take less, or are behind those that are looked at.
    pub other_share: f64,
    /// Of memory of which no structure is known.
    pub unknown_share: f64,
    /// What of that is known, most of the time first; the rest are stacks, and what nobody saw allocated.
    pub unstructured: Vec<UnstructuredRow>,
    /// Loops that walk against the layout, those that take most of the time first.
    pub loops: Vec<LoopRow>,
    /// Loads whose addresses come of indexes, and what prefetching them gains.
    pub prefetches: PrefetchesReport,
    /// All layouts that are advised together; none where none is.
    pub together: Option<PredictedRow>,
    /// The program on large pages; none where the machine has none.
    pub large_pages: Option<LargePagesRow>,
    /// Its pages in other nodes' memories; none where the machine's cores are near to one memory.
    pub memory_nodes: Option<MemoryNodesRow>,
    /// What became of it in the program's sources, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<PatchReport>,
}

/// The patch that makes what is advised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PatchReport {
    /// The file that it was written to; none where nothing could be changed.
    pub file: Option<String>,
    /// The directory that names in it are below.
    pub directory: String,
    /// Sources that it changes.
    pub files: u64,
    /// Each structure for which something is advised.
    pub structures: Vec<PatchedRow>,
}

/// A change of code that is advised: of the order of loops, or a prefetch.
#[derive(Clone, Debug, Serialize)]
pub struct AdvisedCode {
    /// In a sentence.
    pub title: String,
    /// With this change alone.
    pub predicted: PredictedRow,
    /// What to mind.
    pub cautions: Vec<String>,
    /// What to write, where it is known how that is written now.
    pub code: Option<String>,
    /// The same in words, where it is not known.
    pub how: String,
}

/// Whether a structure is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PatchedRow {
    /// Its name.
    pub structure: String,
    /// Why not, as `file:line: why`; none where it is.
    pub refused: Option<String>,
}

/// A structure, and what was tried of it.
#[derive(Clone, Debug, Serialize)]
pub struct StructureRow {
    /// Its name.
    pub name: String,
    /// It is arrays of as many elements each, of which every one has a field: no structure yet.
    pub is_columns: bool,
    /// Its size.
    pub bytes: u32,
    /// Part of the program's time, as predicted.
    pub share: f64,
    /// Accesses to it.
    pub accesses: u64,
    /// Objects of it, and their bytes.
    pub objects: u64,
    /// See there.
    pub object_bytes: u64,
    /// Where most of them are allocated, as `file:line`; none of variables.
    pub allocated_at: Option<String>,
    /// Its fields.
    pub fields: Vec<FieldRow>,
    /// Visits of elements.
    pub visits: u64,
    /// Which fields a visit uses, most frequent first.
    pub patterns: Vec<PatternRow>,
    /// Offsets of fields that visits use together, and how much, strongest first: of the visits that use either, those that use both.
    pub affinity: Vec<Affinity>,
    /// What is advised; none where it should be left alone.
    pub advice: Option<AdvisedRow>,
    /// Why it should be left alone, in words.
    pub reason: Option<String>,
    /// Fields whose pointees can't be in their place, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_inlined: Vec<NotInlinedRow>,
    /// All layouts that were tried.
    pub tried: Vec<TriedRow>,
}

/// A field.
#[derive(Clone, Debug, Serialize)]
pub struct FieldRow {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// From the structure's beginning.
    pub offset: u32,
    /// Its size.
    pub bytes: u32,
    /// Part of the visits that use it.
    pub used: f64,
    /// A narrower type that would hold what it was seen to hold; none where there is none, or the trace tells no values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub narrower: Option<NarrowerRow>,
    /// Bits that would hold it, beside those of other fields in a byte; none where it needs many, or several threads store it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits: Option<u32>,
}

/// A narrower type of a field, and why it would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NarrowerRow {
    /// As the language spells it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The least value that was seen.
    pub least: String,
    /// The greatest.
    pub greatest: String,
}

impl NarrowerRow {
    pub(crate) fn of(language: Language, narrower: &Narrower) -> Self {
        let (least, greatest) = bounds(narrower.range);
        Self { type_name: narrower_type(language, narrower), least, greatest }
    }
}

/// Fields that visits use together.
#[derive(Clone, Debug, Serialize)]
pub struct PatternRow {
    /// Their names.
    pub fields: Vec<String>,
    /// Part of the visits.
    pub share: f64,
}

/// What was predicted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PredictedRow {
    /// Run time by that of the program as it is.
    pub time_ratio: f64,
    /// The least that it may be.
    pub time_ratio_low: f64,
    /// The most.
    pub time_ratio_high: f64,
    /// Lines that the first level did not have, by those of the program as it is; none where there were none.
    pub first_misses_ratio: Option<f64>,
    /// Lines that memory served, likewise.
    pub memory_lines_ratio: Option<f64>,
}

impl PredictedRow {
    fn of(after: &Taken, before: &Taken) -> Self {
        let TimeRatio { low, expected, high } = TimeRatio::of(after, before);
        let ratio = |of: fn(&Taken) -> u64| (of(before) > 0).then(|| of(after) as f64 / of(before) as f64);
        Self {
            time_ratio: expected,
            time_ratio_low: low,
            time_ratio_high: high,
            first_misses_ratio: ratio(|taken| taken.first_misses),
            memory_lines_ratio: ratio(|taken| taken.memory_lines),
        }
    }
}

/// A layout that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct TriedRow {
    /// `reorder`, `align`, `pool`, `merge`, `inline`, `hot_cold_split`, `shrink`, `bit_fields`, `indexes`, `split`, `array_of_each` or `blocks`.
    pub change: &'static str,
    /// Names of the fields of each part.
    pub parts: Vec<Vec<String>>,
    /// Fields that have narrower types then.
    pub narrowed: Vec<String>,
    /// Pointers that are indexes then.
    pub indexed: Vec<String>,
    /// Fields that are bits of a byte then.
    pub bit_fields: Vec<String>,
    /// Bytes of each part of an element.
    pub part_bytes: Vec<u32>,
    /// Whether objects lie side by side, as in a pool.
    pub is_pool: bool,
    /// Run time by that of the program as it is, by a part of the accesses.
    pub time_ratio: f64,
}

impl TriedRow {
    /// Whether it is that one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.change, &self.parts, &self.narrowed) == (other.change, &other.parts, &other.narrowed)
            && (&self.indexed, &self.bit_fields) == (&other.indexed, &other.bit_fields)
            && (&self.part_bytes, self.is_pool) == (&other.part_bytes, other.is_pool)
    }
}

/// What is advised.
#[derive(Clone, Debug, Serialize)]
pub struct AdvisedRow {
    /// What it is.
    #[serde(flatten)]
    pub layout: TriedRow,
    /// In a sentence.
    pub title: String,
    /// With this change alone, by a replay of [`RelayoutReport::replayed`] accesses.
    pub predicted: PredictedRow,
    /// What to mind; files by their whole path where it is known.
    pub cautions: Vec<Caution>,
    /// Where the fields of each part are; where several elements' lie together, those of a block of them.
    pub layouts: Vec<NewLayout>,
    /// The new definitions.
    pub code: String,
    /// What is in the place of pointers to it; none where nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inlined: Option<InlinedRow>,
    /// Lines that access fields that move, or pointers that fall away, as `file:line`; files by their whole path where it is known.
    pub touched_lines: Vec<String>,
}

/// What a report is made of besides.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The simulated machine.
    pub machine: &'a Machine,
    /// The structures of objects.
    pub structured: &'a Structured,
    /// What allocates objects.
    pub origins: &'a [ObjectOrigin],
    /// All objects.
    pub objects: &'a [Object],
    /// By structure.
    pub visits: &'a [Visits],
    /// Memory of no structure, most of the time first.
    pub unstructured: &'a [Unstructured],
    /// Of those that were searched, what relies on their layouts.
    pub ties: &'a [Ties],
    /// Loops of which other orders were tried.
    pub loops: LoopFacts<'a>,
    /// Loads of which prefetches were tried.
    pub prefetches: PrefetchFacts<'a>,
}

impl RelayoutReport {
    /// Of what was searched; `all_structures` is the part of the time that all structures take, whether they were searched or not.
    pub fn new(
        trace: AccessTrace,
        facts: &Facts<'_>,
        searched: &[Searched],
        replayed: &Replayed,
        all_structures: f64,
    ) -> Self {
        Self {
            schema: RELAYOUT_SCHEMA,
            trace,
            machine: facts.machine.name.clone(),
            accesses: replayed.accesses,
            replayed: replayed.replayed,
            last_level: replayed.last_level.clone(),
            other_share: (all_structures - searched.iter().map(|of| of.share).sum::<f64>()).max(0.0),
            unknown_share: (1.0 - all_structures).max(0.0),
            unstructured: UnstructuredRow::all(facts),
            structures: searched
                .iter()
                .zip(facts.ties)
                .map(|(of, ties)| row(facts, (of, ties), &replayed.before))
                .collect(),
            loops: facts.loops.rows(&replayed.before, replayed.replayed < replayed.accesses),
            prefetches: facts.prefetches.report(),
            together: replayed.together.map(|together| PredictedRow::of(&together, &replayed.before)),
            large_pages: replayed.large_pages.map(|taken| LargePagesRow::of(&taken, replayed)),
            memory_nodes: replayed.memory_nodes.as_ref().map(|taken| MemoryNodesRow::of(taken, facts.loops.origins)),
            patch: None,
        }
    }

    /// Whether all accesses were replayed.
    pub fn is_whole(&self) -> bool {
        self.replayed == self.accesses
    }

    /// As JSON.
    pub fn json(&self) -> String {
        crate::pretty(self)
    }
}

fn row(facts: &Facts<'_>, (searched, ties): (&Searched, &Ties), before: &Taken) -> StructureRow {
    let shape = &facts.structured.structures[searched.structure as usize];
    let visits = &facts.visits[searched.structure as usize];
    let all = visits.count();
    let part = |count: u64| if all > 0 { count as f64 / all as f64 } else { 0.0 };
    let field = |(number, field): (usize, &FieldShape)| FieldRow {
        name: field.name.clone(),
        type_name: field.type_name.clone(),
        offset: field.offset,
        bytes: field.bytes,
        used: part(visits.used(number)),
        narrower: field.narrower.as_ref().map(|of| NarrowerRow::of(shape.language, of)),
        bits: field.few_bits.map(|few| few.bits),
    };
    let names = |fields: u128| {
        let used = shape.fields.iter().enumerate().filter(|(number, _)| *number < 128 && fields & (1 << number) != 0);
        used.map(|(_, field)| field.name.clone()).collect()
    };
    let patterns = visits.most_frequent(MOST_PATTERNS).into_iter();
    let (object_bytes, allocated_at) = objects(facts, searched.structure);
    let tried = |tried: &Tried| layout_row(shape, &tried.candidate, tried.ratio.expected);
    let advice = searched.advised().zip(searched.confirmed).map(|(advised, taken)| {
        let candidate = &advised.candidate;
        let inlined = candidate.inlined.as_ref().map(|inlined| InlinedRow::of(facts, inlined));
        let of_pointees = inlined.iter().flat_map(inlining::cautions);
        AdvisedRow {
            layout: tried(advised),
            title: title(shape, candidate),
            predicted: PredictedRow::of(&taken, before),
            cautions: of_pointees.chain(cautions::of_layout(shape, candidate, ties)).collect(),
            layouts: new_layouts(&candidate.layout),
            code: definitions(shape, candidate),
            inlined,
            touched_lines: touched_lines(shape, candidate),
        }
    });
    StructureRow {
        name: shape.name.clone(),
        is_columns: shape.is_columns,
        bytes: shape.bytes,
        share: searched.share,
        accesses: searched.accesses,
        objects: searched.objects.count,
        object_bytes,
        allocated_at,
        fields: shape.fields.iter().enumerate().map(field).collect(),
        visits: all,
        affinity: affinity(shape, visits),
        patterns: patterns.map(|(fields, count)| PatternRow { fields: names(fields), share: part(count) }).collect(),
        reason: advice.is_none().then(|| reason(facts, searched, before)),
        not_inlined: searched.not_inlined.iter().map(|of| NotInlinedRow::of(facts, of)).collect(),
        advice,
        tried: searched.tried.iter().map(tried).collect(),
    }
}

fn affinity(shape: &StructureShape, visits: &Visits) -> Vec<Affinity> {
    let told = &shape.fields[..shape.fields.len().min(MOST_FIELDS)];
    let offset = |field: usize| u64::from(told[field].offset);
    let pairs = (0..told.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    let affinity = pairs.map(|(a, b)| Affinity { a: offset(a), b: offset(b), value: visits.affinity(a, b) });
    let mut affinity: Vec<Affinity> = affinity.filter(|pair| pair.value > 0.0).collect();
    affinity.sort_by(|a, b| b.value.total_cmp(&a.value));
    affinity
}

/// Bytes of a structure's objects, and where most of these are allocated.
fn objects(facts: &Facts<'_>, structure: u32) -> (u64, Option<String>) {
    let mut of_origin: Vec<u64> = vec![0; facts.origins.len()];
    for (object, of) in facts.objects.iter().zip(&facts.structured.objects) {
        if of.is_some_and(|of| of.structure == structure)
            && let Some(bytes) = of_origin.get_mut(object.origin as usize)
        {
            *bytes += object.bytes;
        }
    }
    let most = of_origin.iter().enumerate().max_by_key(|(_, bytes)| **bytes);
    let place = most.map(|(origin, _)| &facts.origins[origin].allocated_at);
    let line = place.filter(|place| place.line > 0).map(|place| format!("{}:{}", place.file, place.line));
    (of_origin.iter().sum(), line)
}

fn layout_row(shape: &StructureShape, candidate: &Candidate, time_ratio: f64) -> TriedRow {
    let names = |fields: &Vec<usize>| fields.iter().map(|field| shape.fields[*field].name.clone()).collect();
    TriedRow {
        change: candidate.change.name(),
        parts: candidate.parts.iter().map(names).collect(),
        narrowed: names(&candidate.types.narrowed),
        indexed: names(&candidate.types.indexed),
        bit_fields: names(&candidate.types.packed),
        part_bytes: candidate.layout.parts().iter().map(|part| part.bytes).collect(),
        is_pool: candidate.is_pool,
        time_ratio,
    }
}

fn new_layouts(layout: &StructureLayout) -> Vec<NewLayout> {
    let part = |(number, part): (u32, &Part)| {
        let lanes = u64::from(part.lanes.max(1));
        let fields = layout.fields().iter().filter(|field| field.part == number).map(|field| PlacedField {
            from: field.from.into(),
            offset: u64::from(field.to) * lanes,
            bytes: u64::from(field.to_bytes) * lanes,
        });
        let mut fields: Vec<PlacedField> = fields.collect();
        fields.sort_by_key(|field| field.offset);
        let pointer_at = layout.link_at().filter(|_| number == 0).map(u64::from);
        NewLayout { bytes: u64::from(part.bytes) * lanes, fields, pointer_at }
    };
    (0..).zip(layout.parts()).map(part).collect()
}

/// Lines that access a field that is elsewhere then; those that do not say which field they access, where any is.
fn touched_lines(shape: &StructureShape, candidate: &Candidate) -> Vec<String> {
    let merged: Vec<usize> = candidate.merged().map(|(part, _)| part).collect();
    let is_moved = |field: &&MovedField| match shape.is_columns {
        true if shape.fields.len() > 1 => merged.contains(&(field.part as usize)),
        true => true,
        false if candidate.inlined.is_some() => field.holds == Holds::Pointee,
        false => field.part > 0 || field.to != field.from || field.to_bytes != field.bytes,
    };
    let moved: Vec<_> = candidate.layout.fields().iter().filter(is_moved).collect();
    let moves = |line: &&TouchingLine| {
        let is_in = |offset: u32| moved.iter().any(|field| (field.from..field.from + field.bytes).contains(&offset));
        line.offset.map_or(!moved.is_empty(), is_in)
    };
    let lines = shape.lines.iter().filter(moves).map(|at| (at.path(), at.line));
    let distinct: BTreeSet<(PathBuf, u32)> = lines.collect();
    distinct.into_iter().map(|(file, line)| format!("{}:{line}", file.display())).collect()
}

fn reason(facts: &Facts<'_>, searched: &Searched, before: &Taken) -> String {
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    if let Some(holder) = searched.held_in {
        return format!("its objects are held in {}, as is advised", facts.structured.structures[holder as usize].name);
    }
    match searched.untouchable {
        Some(Untouchable::Foreign) => "it is a library's: no program can change its definition".to_owned(),
        Some(Untouchable::OneField) => "it has a single field".to_owned(),
        Some(Untouchable::Few) => "there are too few elements of it for another layout to save lines".to_owned(),
        Some(Untouchable::Otherwise) => "its objects have something else behind the structure".to_owned(),
        Some(Untouchable::BeyondItsEnd) => "a field of it lies beyond its end: the trace is damaged".to_owned(),
        Some(Untouchable::NotTogether) => "no two of them are used together by most who use either".to_owned(),
        Some(Untouchable::HandedOn) => "code that is not traced gets their addresses".to_owned(),
        Some(Untouchable::TooManyFields) => "it has more fields than are told apart".to_owned(),
        Some(Untouchable::NoneAsked) => {
            "other layouts of it are made by hand, which are tried without --patch".to_owned()
        }
        None => match searched.closest() {
            None => "it has no other layout".to_owned(),
            Some(closest) => {
                let (change, saved) = (closest.candidate.change.name().replace('_', " "), closest.ratio.saved());
                match searched.confirmed {
                    Some(all) => format!(
                        "{change} saved {} of a part of the accesses, and {} of what was replayed",
                        percent(saved),
                        percent(TimeRatio::of(&all, before).saved())
                    ),
                    None if saved < 0.0 => {
                        format!(
                            "each of {} layouts takes more time (the least, {change}: +{})",
                            searched.tried.len(),
                            percent(-saved)
                        )
                    }
                    None => format!(
                        "no layout of {} saves {ENOUGH} (the best, {change}: {})",
                        searched.tried.len(),
                        percent(saved)
                    ),
                }
            }
        },
    }
}
