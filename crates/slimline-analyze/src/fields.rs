//! Fields: where in the element the accesses fall, in which loop, how often and at what cost.
//!
//! Three figures, and what each means:
//!
//! - **blamed**: weight of the samples blamed on the field. The first access to a cache line takes the line's whole
//!   cost, so how it divides among the fields of one line is an accident of their order in the code.
//! - **weight** (the `share` of reports): in each loop, the weight of each cache line, divided among its fields by how
//!   often the loop was seen to access them. Fields that never stall, as most stores, get their part. Where no window
//!   showed the loop, it is the blamed weight.
//! - **executions**: how often it was accessed, with the bias of clock-started windows taken out: that of where they
//!   begin by [splicing](crate::splice), that of how often they do where [paces](crate::pace) are known.

use std::collections::{BTreeMap, BTreeSet};

use slimline_attribute::tables::{GroupKind, Member, MemberRole, Tables, TypeKind};
use slimline_attribute::typing::leaves::{foreign_at, leaves};

use crate::extents::Extents;
use crate::places::{BATCHES, Places};
use crate::service::Service;
use crate::streams::Stream;
use crate::stride::gcd;
use crate::structure::{ElementFrom, KNOWN, Motion, Structure, fullest_class};

/// Cache lines are taken to be this large; an element is taken to start on one.
pub const LINE_BYTES: u64 = 64;

/// A byte range of the element that accesses are counted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldShape {
    /// Offset in the element.
    pub offset: u64,
    /// Size.
    pub bytes: u64,
    /// Path in the element type; `+40` where there is no debug information; empty where the element is a scalar.
    pub name: String,
    /// Its type as the language spells it, where known.
    pub type_name: Option<String>,
    /// Fields with the same number can only move together: parts of a base class or of a
    /// library's type, elements of an array.
    pub moves_with: usize,
}

/// Use of one field in one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Use {
    /// Weight, as described above.
    pub weight: f64,
    /// Weight as blamed.
    pub blamed: f64,
    /// Executions of instructions, corrected for pace.
    pub executions: f64,
    /// Loads and stores likewise; a read-modify-write is both.
    pub accesses: f64,
    /// The same by parts of the windows alone.
    pub(crate) in_batches: [f64; BATCHES],
    /// Loads seen in windows.
    pub loads: f64,
    /// Stores seen in windows.
    pub stores: f64,
    /// Stride of the streams with the most executions, where regular; that of all copies of an unrolled loop together.
    pub stride_bytes: Option<i64>,
    /// Streams by stride: executions, and where in the stride each begins.
    walks: BTreeMap<Option<i64>, (f64, BTreeSet<u64>)>,
    /// An offset that the field's streams walk through, and what all their offsets are congruent by: the streams of an
    /// unrolled loop have a multiple of its stride each.
    phases: Option<(u64, u64)>,
    /// Whether only wide accesses that begin in an earlier field reach it.
    pub only_spanned: bool,
    /// Sites that access it.
    pub sites: Vec<slimline_trace::access::SiteId>,
    /// What hardware tells of its samples. Those of an instruction that reaches several fields are divided among them as
    /// often as each was sampled.
    pub service: Service,
}

impl Use {
    /// Takes in where a stream walks, unless it starts again at other phases (a column walk).
    fn note_phase(&mut self, stream: &Stream, motion: &Motion) {
        let Some(stride) = motion.stride_bytes.map(i64::unsigned_abs).filter(|&stride| stride != 0) else { return };
        if motion.grain.is_none_or(|grain| grain.bytes != stride) {
            return;
        }
        let Some((offset, _)) = stream.executed().next() else { return };
        self.phases = Some(match self.phases {
            None => (offset, stride),
            Some((first, common)) => (first, gcd(gcd(common, stride), offset.abs_diff(first))),
        });
    }

    /// The stride of all streams together: the source loop's, where the compiler unrolled it.
    fn join_phases(&mut self) {
        if let (Some(stride), Some((_, common))) = (self.stride_bytes, self.phases)
            && stride.unsigned_abs().is_multiple_of(common)
        {
            self.stride_bytes = Some(stride.signum() * common as i64);
        }
    }
}

/// Fields of a group and their uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldUses {
    /// By offset.
    pub shapes: Vec<FieldShape>,
    /// By place (see [`Places`]) and row of `shapes`.
    pub uses: BTreeMap<(usize, usize), Use>,
    /// Weight outside of all fields: before the first element, in holes, without address.
    pub elsewhere: f64,
}

/// The fields of a group's element: by debug information, else as accessed.
pub(crate) fn shapes(
    tables: &Tables,
    kind: GroupKind,
    element: Option<&Structure>,
    streams: &[(&Stream, Motion, usize)],
    type_id: Option<slimline_attribute::tables::TypeId>,
) -> Vec<FieldShape> {
    let Some(structure) = element else { return Vec::new() };
    match type_id.filter(|_| structure.from == ElementFrom::DebugInfo) {
        Some(type_id) => declared(tables, type_id),
        None if kind == GroupKind::Unattributed => Vec::new(),
        None => accessed(structure, streams),
    }
}

fn declared(tables: &Tables, type_id: slimline_attribute::tables::TypeId) -> Vec<FieldShape> {
    let type_ = tables.type_(type_id);
    let leaves = leaves(&tables.types, type_id);
    let holds = |member: &Member, offset: u64| offset >= member.offset && offset - member.offset < member.bytes.max(1);
    // A union without a name has no place of its own outside of its structure.
    let has_union = |member: &Member| leaves.iter().any(|leaf| leaf.path.contains('|') && holds(member, leaf.offset));
    let fixed: Vec<&Member> = type_
        .members
        .iter()
        .filter(|member| {
            member.role.is_base()
                || matches!(member.role, MemberRole::VirtualTable | MemberRole::FlexibleArray)
                || has_union(member)
        })
        .collect();
    // Its bases find virtual ones by the virtual table, wherever they are.
    let has_virtual_base = type_.members.iter().any(|member| member.role.is_virtual_base());
    let is_of_bases = |member: &Member| member.role.is_base() || member.role == MemberRole::VirtualTable;
    let whole = |offset: u64| fixed.iter().find(|member| holds(member, offset));
    let mut shapes: Vec<FieldShape> = Vec::new();
    // Where a set of fields that move together begins: the base, or the array's path.
    let mut sets: BTreeMap<String, usize> = BTreeMap::new();
    for (index, leaf) in leaves.into_iter().enumerate() {
        let foreign = foreign_at(&tables.types, type_id, leaf.offset);
        let set = match (whole(leaf.offset), foreign, leaf.path.split_once('[')) {
            (Some(member), ..) if has_virtual_base && is_of_bases(member) => Some("bases".to_owned()),
            (Some(member), ..) => Some(format!("{} at {}", member.name, member.offset)),
            (None, Some(member), _) => Some(format!("{} at {}", member.path, member.offset)),
            (None, None, Some((array, _))) => Some(array.to_owned()),
            (None, None, None) => None,
        };
        let moves_with = set.map_or(index, |set| *sets.entry(set).or_insert(index));
        shapes.push(FieldShape {
            offset: leaf.offset,
            bytes: leaf.bytes,
            name: leaf.path,
            type_name: Some(leaf.type_name),
            moves_with,
        });
    }
    // A flexible array is behind the end of the structure.
    if let (TypeKind::Structure, Some(last)) = (type_.kind, type_.members.last())
        && last.role == MemberRole::FlexibleArray
        && shapes.last().is_none_or(|shape| shape.offset < last.offset)
    {
        shapes.push(FieldShape {
            offset: last.offset,
            bytes: 0,
            name: last.name.clone(),
            type_name: Some(last.type_name.clone()),
            moves_with: shapes.len(),
        });
    }
    shapes
}

/// Parts of the element that are accessed, as fields.
fn accessed(structure: &Structure, streams: &[(&Stream, Motion, usize)]) -> Vec<FieldShape> {
    let mut extents = Extents::default();
    for (stream, motion, _) in streams {
        let steps_are_short = motion.grain.is_some_and(|grain| grain.bytes <= u64::from(stream.bytes.1));
        let is_dense =
            steps_are_short && stream.offsets().len() > 2 && structure.element_bytes > u64::from(stream.bytes.1);
        let mut places: BTreeMap<u64, u64> = BTreeMap::new();
        for (offset, seen) in stream.sampled_at().into_iter().chain(stream.executed()) {
            if let Some(offset) = structure.offset(offset) {
                *places.entry(offset).or_default() += seen;
            }
        }
        if let Some(place) = one_place(stream, motion, structure) {
            places = BTreeMap::from([(place, places.values().sum())]);
        }
        extents.add_site(u64::from(stream.bytes.1), structure.element_bytes, &places, is_dense);
    }
    let shape = |(index, (from, to)): (usize, (u64, u64))| FieldShape {
        offset: from,
        bytes: to - from,
        name: format!("+{from}"),
        type_name: None,
        moves_with: index,
    };
    extents.fields().into_iter().enumerate().map(shape).collect()
}

/// The one offset of the element that a stream reaches which goes by whole elements, where samples alone tell of it. What a
/// few of them show elsewhere are wrong addresses: taken for other fields, they would tie these to it.
fn one_place(stream: &Stream, motion: &Motion, structure: &Structure) -> Option<u64> {
    let grain = motion.grain.filter(|grain| grain.confidence >= KNOWN && stream.executions == 0)?.bytes;
    if !grain.is_multiple_of(structure.element_bytes) {
        return None;
    }
    let (residue, _) = fullest_class(&stream.some_offsets(), grain)?;
    structure.offset(residue.saturating_add(structure.start.next_multiple_of(grain)))
}

/// Distributes the streams of one group over its fields.
pub(crate) fn uses(
    structure: Option<&Structure>,
    shapes: Vec<FieldShape>,
    streams: &[(&Stream, Motion, usize)],
    places: &Places,
) -> FieldUses {
    let mut found = FieldUses { shapes, ..FieldUses::default() };
    for (stream, motion, place) in streams {
        found.add(structure, stream, motion, *place, places);
    }
    found.uses.values_mut().for_each(Use::join_phases);
    found.weigh_lines();
    found.uses.values_mut().for_each(|used| used.stride_bytes = used.stride());
    found
}

impl Use {
    /// Adds the same field's use in another group; the stride is that of the more frequent use.
    fn merge(&mut self, other: &Self) {
        if other.stride_bytes.is_some() && (self.stride_bytes.is_none() || other.executions > self.executions) {
            self.stride_bytes = other.stride_bytes;
        }
        self.weight += other.weight;
        self.blamed += other.blamed;
        self.executions += other.executions;
        self.accesses += other.accesses;
        self.in_batches.iter_mut().zip(other.in_batches).for_each(|(sum, more)| *sum += more);
        self.loads += other.loads;
        self.stores += other.stores;
        self.only_spanned &= other.only_spanned;
        self.service.merge(&other.service);
        let more = other.sites.iter().filter(|site| !self.sites.contains(site));
        self.sites.extend(more.copied().collect::<Vec<_>>());
    }

    /// Sites that go by the same stride and are evenly spaced are copies that unrolling made.
    fn stride(&self) -> Option<i64> {
        let (stride, (_, phases)) = self.walks.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
        let stride = (*stride)?;
        let copies = phases.len().max(1) as u64;
        let spacing = stride.unsigned_abs() / copies;
        let phases: Vec<u64> = phases.iter().copied().collect();
        let even =
            stride.unsigned_abs().is_multiple_of(copies) && phases.windows(2).all(|pair| pair[1] - pair[0] == spacing);
        Some(if even { stride / copies as i64 } else { stride })
    }
}

impl FieldUses {
    /// Adds how another group uses the same fields.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.elsewhere += other.elsewhere;
        for (&at, used) in &other.uses {
            self.uses.entry(at).and_modify(|known| known.merge(used)).or_insert_with(|| used.clone());
        }
    }

    /// Row of the field that holds `offset` of the element.
    fn at(&self, offset: u64) -> Option<usize> {
        let row = self.shapes.partition_point(|shape| shape.offset <= offset).checked_sub(1)?;
        let shape = &self.shapes[row];
        (offset - shape.offset < shape.bytes || shape.bytes == 0).then_some(row)
    }

    fn add(&mut self, structure: Option<&Structure>, stream: &Stream, motion: &Motion, place: usize, places: &Places) {
        let one_place = structure.and_then(|structure| one_place(stream, motion, structure));
        let field_of = |of: &Self, offset| of.at(one_place.or_else(|| structure?.offset(offset))?);
        let executed_offsets: u64 = stream.executed().map(|(_, count)| count).sum();
        let mut blamed: BTreeMap<usize, f64> = BTreeMap::new();
        for (offset, weight) in stream.weighed() {
            match offset.and_then(|offset| field_of(self, offset)) {
                Some(field) => *blamed.entry(field).or_default() += weight,
                None => self.elsewhere += weight,
            }
        }
        self.serve(stream, place, |of, offset| field_of(of, offset));
        let mut executed: BTreeMap<usize, u64> = BTreeMap::new();
        for (offset, count) in stream.executed() {
            if let Some(field) = field_of(self, offset) {
                *executed.entry(field).or_default() += count;
            }
        }
        let executions = places.executions(stream);
        let in_batches = places.executions_in_batches(stream).unwrap_or_default();
        for (&field, &weight) in &blamed {
            self.of(place, field, stream).blamed += weight;
        }
        for (&field, &count) in &executed {
            let part = count as f64 / executed_offsets as f64;
            let used = self.of(place, field, stream);
            used.executions += executions * part;
            used.accesses += executions * part * stream.accesses_per_execution();
            for (sum, executions) in used.in_batches.iter_mut().zip(in_batches) {
                *sum += executions * part * stream.accesses_per_execution();
            }
            used.loads += stream.loads as f64 * part;
            used.stores += stream.stores as f64 * part;
            let stride = motion.stride_bytes.filter(|&stride| stride != 0);
            let (walked, phases) = used.walks.entry(stride).or_default();
            *walked += executions * part;
            phases
                .extend(stride.zip(stream.some_offsets().first()).map(|(stride, first)| first % stride.unsigned_abs()));
            used.note_phase(stream, motion);
        }
        // No windows: the GCD's answer, where it is one.
        if executed.is_empty()
            && let (Some(&field), Some(grain)) = (blamed.keys().next(), motion.grain)
            && grain.confidence >= KNOWN
        {
            self.of(place, field, stream).walks.entry(Some(grain.bytes as i64)).or_default();
        }
        self.span(stream, place, blamed.keys().chain(executed.keys()).copied().collect());
    }

    /// Gives what hardware tells of a stream to the fields that its samples are in, as often as they are.
    fn serve(&mut self, stream: &Stream, place: usize, field_of: impl Fn(&Self, u64) -> Option<usize>) {
        if stream.service.samples == 0 {
            return;
        }
        let mut sampled: BTreeMap<Option<usize>, u64> = BTreeMap::new();
        for (offset, samples) in stream.sampled_at() {
            *sampled.entry(field_of(self, offset)).or_default() += samples;
        }
        let all: u64 = sampled.values().sum();
        let mut before = 0;
        for (field, samples) in sampled {
            let part = before as f64 / all as f64..(before + samples) as f64 / all as f64;
            before += samples;
            if let Some(field) = field {
                self.of(place, field, stream).service.merge(&stream.service.part(&part));
            }
        }
    }

    fn of(&mut self, place: usize, field: usize, stream: &Stream) -> &mut Use {
        let used = self.uses.entry((place, field)).or_default();
        if used.sites.last() != Some(&stream.site) {
            used.sites.push(stream.site);
        }
        used.only_spanned = false;
        used
    }

    /// Wide accesses (vector loads) also use the fields behind the one they begin in.
    fn span(&mut self, stream: &Stream, place: usize, begun: Vec<usize>) {
        for field in begun {
            let end = self.shapes[field].offset + u64::from(stream.bytes.1);
            for reached in field + 1..self.shapes.len() {
                if self.shapes[reached].offset >= end {
                    break;
                }
                self.uses.entry((place, reached)).or_insert_with(|| Use {
                    only_spanned: true,
                    sites: vec![stream.site],
                    ..Use::default()
                });
            }
        }
    }

    /// Divides the weight of each line in each place among the line's fields by executions.
    fn weigh_lines(&mut self) {
        let mut lines: BTreeMap<(usize, u64), Vec<usize>> = BTreeMap::new();
        for &(place, field) in self.uses.keys() {
            lines.entry((place, self.shapes[field].offset / LINE_BYTES)).or_default().push(field);
        }
        for ((place, _), fields) in lines {
            let uses = || fields.iter().map(|&field| &self.uses[&(place, field)]);
            let (blamed, executions) = uses()
                .fold((0.0, 0.0), |(blamed, executions), used| (blamed + used.blamed, executions + used.executions));
            // A field with cost that no window showed: the windows did not show all of the loop.
            let all_seen = uses().all(|used| used.executions > 0.0 || used.blamed == 0.0);
            for field in fields {
                if let Some(used) = self.uses.get_mut(&(place, field)) {
                    used.weight = match all_seen && executions > 0.0 {
                        true => blamed * used.executions / executions,
                        false => used.blamed,
                    };
                }
            }
        }
    }
}
