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
//!
//! An access that reaches several fields, as a compiler makes one of two adjoining ones, is divided among them by their
//! bytes, so that all parts are one access still. Only where a load is of a loop that takes several elements at a time is
//! not visible which of its bytes are used: a vectorizer also loads what lies between. Such a one counts for the field that
//! it begins in.
//!
//! ```text
//!   store of 16 bytes at x     x ½  y ½
//!   load of 16 bytes at x, from one element to the next     x ½  y ½
//!   load of 16 bytes at x, by two elements and more at a time     x 1  y spanned
//! ```

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
    /// Whether only wide loads that begin in an earlier field reach it, of which it is not visible what they use.
    pub only_spanned: bool,
    /// Sites that access it.
    pub sites: Vec<slimline_trace::access::SiteId>,
    /// What hardware tells of its samples. Those of an instruction that reaches several fields are divided among them as
    /// often as each was sampled.
    pub service: Service,
}

impl Use {
    /// Takes in where a stream walks, unless it starts again at other phases (a column walk); the field is so far `behind`
    /// where its accesses begin.
    fn note_phase(&mut self, stream: &Stream, motion: &Motion, behind: u64) {
        let Some(stride) = motion.stride_bytes.map(i64::unsigned_abs).filter(|&stride| stride != 0) else { return };
        if motion.grain.is_none_or(|grain| grain.bytes != stride) {
            return;
        }
        let Some(offset) = stream.executed().next().map(|(offset, _)| offset.saturating_add(behind)) else { return };
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

/// How what an instruction does to a group divides among its fields, by row, as parts of 1; the rest is in none of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Divided {
    /// Of its weight.
    pub weight: Vec<(usize, f64)>,
    /// Of its executions in windows.
    pub executions: Vec<(usize, f64)>,
}

/// Fields of a group and their uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldUses {
    /// By offset.
    pub shapes: Vec<FieldShape>,
    /// By place (see [`Places`]) and row of `shapes`.
    pub uses: BTreeMap<(usize, usize), Use>,
    /// Executions that two fields (by row, the earlier one first) have of accesses to both at once.
    pub(crate) joined: BTreeMap<(usize, usize), f64>,
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
        && type_.is_open()
        && shapes.last().is_none_or(|shape| shape.offset < last.offset)
    {
        shapes.push(FieldShape {
            offset: last.offset,
            bytes: 0,
            name: format!("{}[]", last.name),
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

/// What accesses of a stream may reach.
struct Reach<'a> {
    structure: Option<&'a Structure>,
    /// Where in the element all of them are, if that is known better than by each.
    one_place: Option<u64>,
    bytes: u64,
    /// Whether all of these bytes are used.
    uses_all: bool,
}

/// What an access is to one of the fields that it reaches.
struct Reached {
    row: usize,
    /// Its part of the bytes of all of them.
    part: f64,
    /// Bytes from the beginning of the access to that of the field.
    behind: u64,
}

impl<'a> Reach<'a> {
    fn of(structure: Option<&'a Structure>, stream: &Stream, motion: &Motion) -> Self {
        let one_place = structure.and_then(|structure| one_place(stream, motion, structure));
        let uses_all = structure.is_some_and(|structure| uses_all(structure, stream, motion));
        // Of accesses that are not all alike, what each of them has.
        Self { structure, one_place, bytes: stream.bytes.0.into(), uses_all }
    }
}

/// Whether a stream uses all the bytes that it accesses. Those of a store are written. A load is as wide as what is needed of
/// an element, unless it is of several: then it may be of a loop that a compiler made vectors of, which loads what lies
/// between as well, and leaves it.
fn uses_all(structure: &Structure, stream: &Stream, motion: &Motion) -> bool {
    let bytes = u64::from(stream.bytes.1);
    if structure.one_per_object || stream.executions > 0 && stream.loads == 0 {
        return true;
    }
    let stride = motion.stride_bytes.map(i64::unsigned_abs).filter(|&stride| stride != 0);
    let grain = || motion.grain.filter(|grain| grain.confidence >= KNOWN).map(|grain| grain.bytes);
    let step = stride.or_else(grain).unwrap_or(structure.element_bytes);
    // No vector has more lanes than bytes: longer steps are of a loop that leaves elements out.
    let is_by_several = |elements: u64| elements > 1 && elements <= bytes;
    let is_of_several = step.is_multiple_of(structure.element_bytes) && is_by_several(step / structure.element_bytes);
    bytes <= structure.element_bytes && !is_of_several
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
        other.joined.iter().for_each(|(&pair, executions)| *self.joined.entry(pair).or_default() += executions);
        for (&at, used) in &other.uses {
            self.uses.entry(at).and_modify(|known| known.merge(used)).or_insert_with(|| used.clone());
        }
    }

    /// Where a field ends; a flexible array, of no size, with what comes behind it.
    fn end(&self, row: usize) -> u64 {
        let shape = &self.shapes[row];
        match shape.bytes {
            0 => self.shapes.get(row + 1).map_or(u64::MAX, |next| next.offset),
            bytes => shape.offset.saturating_add(bytes),
        }
    }

    /// Row of the field that holds `offset` of the element.
    fn at(&self, offset: u64) -> Option<usize> {
        let row = self.shapes.partition_point(|shape| shape.offset <= offset).checked_sub(1)?;
        (offset < self.end(row)).then_some(row)
    }

    /// What an access of a stream at this offset of the object is to the fields.
    fn reached(&self, reach: &Reach<'_>, offset: u64) -> Vec<Reached> {
        let Some(structure) = reach.structure else { return Vec::new() };
        let Some(from) = reach.one_place.or_else(|| structure.offset(offset)) else { return Vec::new() };
        if !reach.uses_all {
            return self.at(from).map(|row| Reached { row, part: 1.0, behind: 0 }).into_iter().collect();
        }
        let mut found: Vec<Reached> = Vec::new();
        let most = if structure.is_open { u64::MAX } else { structure.element_bytes.max(1) };
        let bytes = reach.bytes.clamp(1, most);
        // What goes past the element's end is of the next one.
        let here = from..from.saturating_add(bytes);
        let next = 0..here.end.saturating_sub(structure.element_bytes);
        let next = if structure.one_per_object { 0..0 } else { next };
        for (range, passed) in [(here, 0), (next, structure.element_bytes.saturating_sub(from))] {
            let first = self.shapes.partition_point(|shape| shape.offset <= range.start).saturating_sub(1);
            for row in first..self.shapes.len() {
                let begin = self.shapes[row].offset;
                if begin >= range.end {
                    break;
                }
                let reached = self.end(row).min(range.end).saturating_sub(begin.max(range.start));
                let behind = begin.saturating_sub(range.start) + passed;
                match found.iter_mut().find(|known| known.row == row) {
                    _ if reached == 0 => {}
                    Some(known) => known.part += reached as f64,
                    None => found.push(Reached { row, part: reached as f64, behind }),
                }
            }
        }
        let all: f64 = found.iter().map(|reached| reached.part).sum();
        found.iter_mut().for_each(|reached| reached.part /= all);
        found
    }

    fn add(&mut self, structure: Option<&Structure>, stream: &Stream, motion: &Motion, place: usize, places: &Places) {
        let reach = Reach::of(structure, stream, motion);
        let executed_offsets: u64 = stream.executed().map(|(_, count)| count).sum();
        let (blamed, elsewhere) = self.blamed(&reach, stream);
        self.elsewhere += elsewhere;
        self.serve(stream, place, &reach);
        // Executions, and how far behind the beginning of the accesses the field is.
        let mut executed: BTreeMap<usize, (f64, u64)> = BTreeMap::new();
        let executions = places.executions(stream);
        for (offset, count) in stream.executed() {
            let reached = self.reached(&reach, offset);
            for of in &reached {
                executed.entry(of.row).or_insert((0.0, of.behind)).0 += count as f64 * of.part;
            }
            self.join(&reached, executions * count as f64 / executed_offsets as f64);
        }
        let in_batches = places.executions_in_batches(stream).unwrap_or_default();
        for (&field, &weight) in &blamed {
            self.of(place, field, stream).blamed += weight;
        }
        for (&field, &(count, behind)) in &executed {
            let part = count / executed_offsets as f64;
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
            let first = stream.some_offsets().first().map(|first| first.saturating_add(behind));
            phases.extend(stride.zip(first).map(|(stride, first)| first % stride.unsigned_abs()));
            used.note_phase(stream, motion, behind);
        }
        // No windows: the GCD's answer, where it is one.
        if executed.is_empty()
            && let (Some(&field), Some(grain)) = (blamed.keys().next(), motion.grain)
            && grain.confidence >= KNOWN
        {
            self.of(place, field, stream).walks.entry(Some(grain.bytes as i64)).or_default();
        }
        if !reach.uses_all {
            self.span(stream, place, blamed.keys().chain(executed.keys()).copied().collect());
        }
    }

    /// Weight of a stream's samples by the field that they are blamed on, and outside of all.
    fn blamed(&self, reach: &Reach<'_>, stream: &Stream) -> (BTreeMap<usize, f64>, f64) {
        let (mut blamed, mut elsewhere) = (BTreeMap::new(), 0.0);
        for (offset, weight) in stream.weighed() {
            let reached = offset.map_or_else(Vec::new, |offset| self.reached(reach, offset));
            if reached.is_empty() {
                elsewhere += weight;
            }
            reached.iter().for_each(|of| *blamed.entry(of.row).or_default() += weight * of.part);
        }
        (blamed, elsewhere)
    }

    /// How what a stream costs and how often it was executed divide among the fields.
    ///
    /// Weight is what it was blamed for, each cache line's part divided as the line's weight in the place is. So the sums over all
    /// streams are the fields' weights.
    pub(crate) fn divided(
        &self,
        structure: Option<&Structure>,
        (stream, motion, place): &(&Stream, Motion, usize),
    ) -> Divided {
        let reach = Reach::of(structure, stream, motion);
        let mut weight: BTreeMap<usize, f64> = BTreeMap::new();
        let (blamed, elsewhere) = self.blamed(&reach, stream);
        let whole = blamed.values().sum::<f64>() + elsewhere;
        for (field, blamed) in blamed.into_iter().filter(|(_, blamed)| *blamed > 0.0) {
            let line = self.shapes[field].offset / LINE_BYTES;
            let in_line = || {
                let of_place = self.uses.range((*place, 0)..(*place + 1, 0));
                of_place.filter(|((_, other), _)| self.shapes[*other].offset / LINE_BYTES == line)
            };
            let all: f64 = in_line().map(|(_, used)| used.weight).sum();
            for (&(_, other), used) in in_line().filter(|(_, used)| used.weight > 0.0) {
                *weight.entry(other).or_default() += blamed / whole * used.weight / all;
            }
        }
        let mut executions: BTreeMap<usize, f64> = BTreeMap::new();
        let executed: u64 = stream.executed().map(|(_, count)| count).sum();
        for (offset, count) in stream.executed() {
            for of in self.reached(&reach, offset) {
                *executions.entry(of.row).or_default() += count as f64 / executed as f64 * of.part;
            }
        }
        Divided { weight: weight.into_iter().collect(), executions: executions.into_iter().collect() }
    }

    /// Takes in that each two of these are accessed at once, so many times.
    fn join(&mut self, reached: &[Reached], executions: f64) {
        for (number, a) in reached.iter().enumerate() {
            for b in &reached[number + 1..] {
                let pair = (a.row.min(b.row), a.row.max(b.row));
                *self.joined.entry(pair).or_default() += executions * (a.part + b.part);
            }
        }
    }

    /// Gives what hardware tells of a stream to the fields that its samples are in, as often as they are.
    fn serve(&mut self, stream: &Stream, place: usize, reach: &Reach<'_>) {
        if stream.service.samples == 0 {
            return;
        }
        let mut sampled: BTreeMap<Option<usize>, f64> = BTreeMap::new();
        for (offset, samples) in stream.sampled_at() {
            let reached = self.reached(reach, offset);
            if reached.is_empty() {
                *sampled.entry(None).or_default() += samples as f64;
            }
            reached.iter().for_each(|of| *sampled.entry(Some(of.row)).or_default() += samples as f64 * of.part);
        }
        let all: f64 = sampled.values().sum();
        let mut before = 0.0;
        for (field, samples) in sampled {
            let part = before / all..((before + samples) / all).min(1.0);
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

    /// Wide loads may also use the fields behind the one they begin in.
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
