//! Layouts of a structure that may be better than the one that it has.

mod merging;
mod retyping;

use std::sync::Arc;

use slimline_simulate::relaid::{MovedField, Part, StructureLayout};

pub use self::retyping::Retyped;
pub(super) use self::retyping::{bare, pointee};
use super::inlining::Inlined;
use super::visits::{MOST_FIELDS, Visits};
use crate::advise::definition::plain_name;
use crate::affinity::Affinity;
use crate::clusters::{Heat, Rules, clusters};
use crate::fields::LINE_BYTES;
use crate::full_trace::held_values::ROOM;
use crate::full_trace::object_structures::{FieldShape, Hold, StructureShape};

/// A field that fewer than this part of the visits use is in no cluster.
const COLD: f64 = 0.02;
/// One that this part of them use is hot. What sets all fields once is a visit, too, so that of few visits many are such.
const HOT: f64 = 0.5;
/// Ways to part hot fields from cold ones that are tried: where use falls most, by this factor at least.
const CUTS: usize = 3;
const LEAST_FALL: f64 = 1.25;
/// Affinities from which on fields belong together: each makes its own split.
const THRESHOLDS: [f64; 3] = [0.25, 0.5, 0.8];
/// Elements whose fields lie together in blocks: as many as a vector of four bytes each has.
const LANES: u32 = 8;
/// Alignment of fields at the most; of structures and arrays that of most of their members.
const MOST_ALIGN: u32 = 16;
const MEMBER_ALIGN: u32 = 8;
/// Size of a pointer.
const POINTER_BYTES: u32 = 8;
/// Arrays of fewer elements are not taken apart.
const LEAST_ELEMENTS: u64 = 8;
/// One in so many objects may have something behind its structure: what is replayed leaves these as they are.
const MOST_OTHERWISE: u64 = 100;
/// Numbers that an index has.
const INDEXES: u64 = 1 << 32;
/// Structures larger than so many lines are not aligned to lines: it gains nothing.
const MOST_ALIGNED_BYTES: u64 = 4 * LINE_BYTES;

/// What a layout is, simplest to do first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The same fields in another order.
    Reorder,
    /// Elements begin at lines' beginnings, or two, four or more of them make a line: none crosses into another line.
    Align,
    /// Objects lie side by side, without what an allocator needs between them.
    Pool,
    /// Arrays become one, of structures.
    Merge,
    /// What a field points to is in its place.
    Inline,
    /// Fields that are hardly used go behind a pointer.
    HotCold,
    /// Fields have narrower types, which hold what they were seen to hold; with other changes they may have them, too.
    Shrink,
    /// Several fields are bits of one byte; others may have narrower types.
    BitFields,
    /// Pointers from one element to another are numbers of elements, which come from one pool; with other changes they may be, too.
    Indexes,
    /// Several arrays in the place of one.
    Split,
    /// An array for each field.
    ArrayOfEach,
    /// Blocks of some elements, in which each field of all of them lies together.
    Blocks,
}

impl Change {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Reorder,
        Self::Align,
        Self::Pool,
        Self::Merge,
        Self::Inline,
        Self::HotCold,
        Self::Shrink,
        Self::BitFields,
        Self::Indexes,
        Self::Split,
        Self::ArrayOfEach,
        Self::Blocks,
    ];

    /// As reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reorder => "reorder",
            Self::Align => "align",
            Self::Pool => "pool",
            Self::Merge => "merge",
            Self::Inline => "inline",
            Self::HotCold => "hot_cold_split",
            Self::Shrink => "shrink",
            Self::BitFields => "bit_fields",
            Self::Indexes => "indexes",
            Self::Split => "split",
            Self::ArrayOfEach => "array_of_each",
            Self::Blocks => "blocks",
        }
    }
}

/// A layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What it is.
    pub change: Change,
    /// Numbers of the fields of each part, in their order.
    pub parts: Vec<Vec<usize>>,
    /// Those that have another type than they are declared with.
    pub types: Retyped,
    /// The same for the replay.
    pub layout: StructureLayout,
    /// What its objects' first elements are aligned to; 0: as they were.
    pub align: u64,
    /// Whether objects lie side by side.
    pub is_pool: bool,
    /// What is in the place of a pointer to it.
    pub inlined: Option<Arc<Inlined>>,
}

impl Candidate {
    /// Whether objects of this part lie side by side, without an allocator's own words between them.
    pub fn is_from_pool(&self, part: usize) -> bool {
        // What hot parts point to comes from a pool in any case: beside them it would be on their lines.
        self.is_pool || self.change == Change::HotCold && part > 0
    }
}

impl Candidate {
    /// The parts that what is used is in.
    fn hot_parts(&self) -> &[Part] {
        match self.change {
            Change::HotCold => &self.layout.parts()[..1],
            _ => self.layout.parts(),
        }
    }

    /// Bytes that an element has of these.
    fn hot_bytes(&self) -> u32 {
        self.hot_parts().iter().map(|part| part.bytes).sum()
    }

    /// Whether it is one change with another one on top: other types in parts of elements, or narrower ones beside indexes.
    pub fn is_combined(&self) -> bool {
        match self.change {
            Change::Shrink | Change::BitFields => false,
            Change::Indexes => !self.types.narrowed.is_empty() || !self.types.packed.is_empty(),
            _ => !self.types.is_none(),
        }
    }

    /// Whether it is the combined one without what is on top.
    pub fn is_plain_of(&self, combined: &Self) -> bool {
        let fields = |part: &Vec<usize>| {
            let mut fields = part.clone();
            fields.sort_unstable();
            fields
        };
        let is_same = (self.change, self.is_pool) == (combined.change, combined.is_pool);
        !self.is_combined() && is_same && self.parts.iter().map(fields).eq(combined.parts.iter().map(fields))
    }
}

/// Why no layout is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untouchable {
    /// It is a library's.
    Foreign,
    /// It has one field.
    OneField,
    /// There is one object of it, or few.
    Few,
    /// Its objects have something behind the structure: an array without a length, or another structure.
    Otherwise,
    /// It has more fields than are told apart.
    TooManyFields,
    /// A field lies beyond its end: the trace is damaged.
    BeyondItsEnd,
    /// It is arrays, of which no two are used together by most who use either.
    NotTogether,
    /// It is arrays that would be merged, if no code got their addresses that is not traced.
    HandedOn,
    /// It has other layouts, of which none is among those that were asked for.
    NoneAsked,
}

/// How its objects are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objects {
    /// How many there are.
    pub count: u64,
    /// Of these, those whose elements are not told apart.
    pub otherwise: u64,
    /// And those that are in no pool of single elements: variables, and arrays.
    pub apart: u64,
}

/// Layouts of a structure, simplest first.
///
/// # Errors
/// Why none is tried.
pub fn candidates(
    structure: &StructureShape,
    visits: &Visits,
    objects: Objects,
) -> Result<Vec<Candidate>, Untouchable> {
    if structure.is_foreign {
        return Err(Untouchable::Foreign);
    }
    if structure.fields.is_empty() || structure.fields.len() < 2 && !visits.is_shared() {
        return Err(Untouchable::OneField);
    }
    if structure.fields.len() > MOST_FIELDS {
        return Err(Untouchable::TooManyFields);
    }
    let ends = structure.fields.iter().map(|field| field.offset.checked_add(field.bytes));
    if ends.into_iter().any(|end| end.is_none_or(|end| end > structure.bytes)) {
        return Err(Untouchable::BeyondItsEnd);
    }
    if objects.otherwise * MOST_OTHERWISE > objects.count {
        return Err(Untouchable::Otherwise);
    }
    let are_in_arrays = visits.in_arrays * 2 > visits.accesses;
    let elements = if are_in_arrays { visits.most_elements } else { objects.count };
    let of = Of { structure, visits, types: Retyped::default(), inlined: None };
    if let (true, [field]) = (structure.is_columns, structure.fields.as_slice()) {
        // One that stays as it is declared has no lines of its own.
        let apart = of.on_lines(field.hold == Hold::None);
        return apart.map(|apart| vec![apart]).ok_or(Untouchable::HandedOn);
    }
    if structure.is_columns {
        return if elements < LEAST_ELEMENTS { Err(Untouchable::Few) } else { of.merged() };
    }
    // Of one field nothing can be moved, and of few elements nothing is worth it, but away from what other threads use.
    let apart = of.on_lines(visits.is_shared());
    if structure.fields.len() < 2 || elements < LEAST_ELEMENTS {
        let why = if structure.fields.len() < 2 { Untouchable::OneField } else { Untouchable::Few };
        return apart.map(|apart| vec![apart]).ok_or(why);
    }
    let mut found = Vec::new();
    // Each layout with the types that fields have, and with other ones; elements of one array have numbers, and those of a pool.
    let have_numbers = elements.saturating_mul(ROOM.into()) < INDEXES;
    let in_one = have_numbers && are_in_arrays && objects.count == 1;
    // A pointer to one that lies elsewhere has no number.
    let in_pool = have_numbers && !are_in_arrays && objects.apart == 0;
    let mut each = |are_numbered: bool, layout: &dyn Fn(&Of<'_>) -> Option<Candidate>| {
        found.extend(layout(&of));
        found.extend(of.retyped(are_numbered, layout));
    };
    let order = of.by_use();
    each(in_one, &|of| of.one(&order));
    if !are_in_arrays {
        each(in_pool, &|of| Some(of.pool(&order)));
    }
    each(in_one, &|of| of.aligned(&of.as_declared(), are_in_arrays));
    each(in_one, &|of| of.aligned(&of.in_order(&order), are_in_arrays));
    // Parts of elements that are found by pointers are found by one themselves, but where all of them are in one array: which place it has there
    // is a subtraction.
    let is_linked = !are_in_arrays || is_linked(structure);
    if is_linked {
        for cold in of.cuts() {
            each(in_one, &|of| of.hot_cold(cold, false));
            if !are_in_arrays {
                each(in_pool, &|of| of.hot_cold(cold, true));
            }
        }
    }
    let is_one = structure.fields.iter().any(|field| field.hold == Hold::WithAll);
    if are_in_arrays && !is_one && (!is_linked || objects.count == 1) {
        for threshold in THRESHOLDS {
            each(in_one, &|of| of.split(Change::Split, of.clusters(threshold)));
        }
        let alone: Vec<Vec<usize>> = (0..structure.fields.len()).map(|field| vec![field]).collect();
        each(in_one, &|of| of.split(Change::ArrayOfEach, alone.clone()));
        each(in_one, &|of| of.blocks());
    }
    found.extend(apart);
    let mut found = distinct(found);
    found.sort_by_key(|candidate| (candidate.is_combined(), candidate.change));
    Ok(found)
}

/// The same layouts, and those with what one of these fields points to in its place.
pub fn with_inlined(
    mut found: Vec<Candidate>,
    (structure, visits): (&StructureShape, &Visits),
    inlined: &[Arc<Inlined>],
) -> Vec<Candidate> {
    for one in inlined {
        let of = Of { structure, visits, types: Retyped::default(), inlined: Some(one) };
        found.push(of.inline(false));
        if visits.in_arrays * 2 <= visits.accesses {
            found.push(of.inline(true));
        }
    }
    found.sort_by_key(|candidate| (candidate.is_combined(), candidate.change));
    found
}

/// The first of each that are the same for a replay.
fn distinct(found: Vec<Candidate>) -> Vec<Candidate> {
    let mut distinct: Vec<Candidate> = Vec::new();
    for candidate in found {
        let is_known = |known: &Candidate| {
            known.layout == candidate.layout && (known.align, known.is_pool) == (candidate.align, candidate.is_pool)
        };
        if !distinct.iter().any(is_known) {
            distinct.push(candidate);
        }
    }
    distinct
}

/// Where fields are put one behind the other.
struct Laid {
    /// Field and offset.
    fields: Vec<(usize, u32)>,
    end: u32,
    align: u32,
}

impl Laid {
    fn bytes(&self) -> u32 {
        self.end.next_multiple_of(self.align).max(1)
    }
}

/// The alignment of a field: it lies at a multiple of what its place and size are both multiples of. Bytes have none; vectors of more than 16
/// bytes are told from structures by nothing.
pub(super) fn alignment(field: &FieldShape) -> u32 {
    const BYTES: [&str; 6] = ["char", "unsigned char", "signed char", "bool", "_Bool", "u8"];
    let element = field.type_name.trim_start_matches('[').split(['[', ';', ' ']).next().unwrap_or_default();
    let is_of_bytes = BYTES.contains(&element)
        || BYTES
            .iter()
            .any(|name| field.type_name.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('[')));
    if is_of_bytes && !field.is_shared {
        return 1;
    }
    let most = if field.bytes > MOST_ALIGN { MEMBER_ALIGN } else { MOST_ALIGN };
    1 << (field.offset | field.bytes).trailing_zeros().min(most.trailing_zeros())
}

/// Whether a field of a structure points to others of it.
pub(super) fn is_linked(structure: &StructureShape) -> bool {
    let plain = plain_name(&structure.name);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let names = |type_name: &str| type_name.split(|c| !is_word(c)).any(|word| word == plain);
    structure.fields.iter().any(|field| field.leads_on() && names(&field.type_name))
}

struct Of<'a> {
    structure: &'a StructureShape,
    visits: &'a Visits,
    /// Fields that have another type.
    types: Retyped,
    /// What is in the place of a pointer to it.
    inlined: Option<&'a Arc<Inlined>>,
}

impl Of<'_> {
    fn fields(&self) -> &[FieldShape] {
        &self.structure.fields
    }

    fn as_declared(&self) -> Vec<usize> {
        (0..self.fields().len()).collect()
    }

    fn used(&self, field: usize) -> u64 {
        self.visits.used(field)
    }

    /// How often fields are used that are as cold as may be, so that the next hotter ones are used most times as often.
    fn cuts(&self) -> Vec<u64> {
        let free = (0..self.fields().len()).filter(|field| !self.is_held(*field));
        let mut uses: Vec<u64> = free.map(|field| self.used(field)).collect();
        uses.sort_unstable();
        uses.dedup();
        let is_cold = |used: u64| (used as f64) < HOT * self.visits.count() as f64;
        // Once more is one time more than never.
        let fall = |cut: &[u64]| (cut[1] + 1) as f64 / (cut[0] + 1) as f64;
        let mut cuts: Vec<&[u64]> = uses.windows(2).filter(|cut| is_cold(cut[0]) && fall(cut) >= LEAST_FALL).collect();
        cuts.sort_by(|a, b| fall(b).total_cmp(&fall(a)));
        cuts.into_iter().take(CUTS).map(|cut| cut[0]).collect()
    }

    fn is_held(&self, field: usize) -> bool {
        self.fields()[field].hold != Hold::None
    }

    /// Fields that are used together, those that are hardly used last.
    fn clusters(&self, threshold: f64) -> Vec<Vec<usize>> {
        let count = self.fields().len();
        let all = self.visits.count().max(1) as f64;
        let heat = |field: usize| Heat { share: self.used(field) as f64 / all, access_share: 0.0, moves_with: field };
        let heats: Vec<Heat> = (0..count).map(heat).collect();
        let pairs = (0..count).flat_map(|b| (0..b).map(move |a| (a, b)));
        let ties: Vec<Affinity> = pairs.map(|(a, b)| Affinity { a, b, value: self.visits.affinity(a, b) }).collect();
        let rules = Rules { together: threshold, cold: COLD };
        clusters(&heats, &ties, &rules).into_iter().map(|cluster| cluster.fields).collect()
    }

    /// All fields, those that are used together side by side, most used first; what must stay in front stays there.
    fn by_use(&self) -> Vec<usize> {
        let mut order: Vec<usize> =
            self.clusters(THRESHOLDS[1]).into_iter().flat_map(|cluster| self.closely(cluster)).collect();
        order.sort_by_key(|field| !self.is_held(*field));
        order
    }

    /// The same, with what must stay in front there.
    fn packed(&self, order: &[usize]) -> Vec<usize> {
        let mut order = self.closely(order.to_vec());
        order.sort_by_key(|field| !self.is_held(*field));
        order
    }

    /// Fields in an order that leaves no holes but behind the last.
    fn closely(&self, mut fields: Vec<usize>) -> Vec<usize> {
        fields.sort_by_key(|&field| std::cmp::Reverse(self.extent(field).1));
        fields
    }

    fn laid(&self, fields: &[usize]) -> Laid {
        let mut laid = Laid { fields: Vec::new(), end: 0, align: 1 };
        for &field in fields.iter().filter(|field| !self.types.packed.contains(field)) {
            let (bytes, align) = self.extent(field);
            let at = laid.end.next_multiple_of(align);
            laid.fields.push((field, at));
            (laid.end, laid.align) = (at + bytes, laid.align.max(align));
        }
        // Behind all others.
        for byte in self.bytes_of_bits(fields) {
            laid.fields.extend(byte.into_iter().map(|field| (field, laid.end)));
            laid.end += 1;
        }
        laid
    }

    /// Parts of these fields, each with as many bytes as it takes, or with `stride` in the place of those of the first.
    fn candidate(
        &self,
        change: Change,
        parts: Vec<Vec<usize>>,
        lanes: u32,
        (stride, link): (Option<u32>, bool),
    ) -> Candidate {
        let (mut moved, mut sizes, mut link_at, mut in_order) = (Vec::new(), Vec::new(), None, Vec::new());
        for (number, fields) in parts.iter().enumerate() {
            let mut laid = self.laid(fields);
            in_order.push(laid.fields.iter().map(|(field, _)| *field).collect());
            if link && number == 0 {
                let at = laid.end.next_multiple_of(POINTER_BYTES);
                (laid.end, laid.align, link_at) = (at + POINTER_BYTES, laid.align.max(POINTER_BYTES), Some(at));
            }
            let bytes =
                if lanes > 1 { laid.fields.iter().map(|(field, _)| self.extent(*field).0).sum() } else { laid.bytes() };
            let mut packed = 0;
            for &(field, at) in &laid.fields {
                let of = &self.fields()[field];
                // Fields of several lanes lie one behind the other, each as often as there are lanes.
                let to = if lanes > 1 { packed } else { at };
                let (to_bytes, _) = self.extent(field);
                packed += to_bytes;
                let (from, bytes, part) = (of.offset, of.bytes, number as u32);
                moved.push(MovedField { from, bytes, part, to, to_bytes, holds: self.holds(field) });
            }
            sizes.push(Part { bytes: stride.filter(|_| number == 0).unwrap_or(bytes), lanes });
        }
        let layout = StructureLayout::new(self.structure.bytes, moved, sizes, link_at);
        let (types, inlined) = (self.types.clone(), self.inlined.cloned());
        Candidate { change, parts: in_order, types, layout, align: 0, is_pool: false, inlined }
    }

    /// One structure with its fields in this order.
    fn one(&self, order: &[usize]) -> Option<Candidate> {
        let order = self.in_order(order);
        let is_ordered = order.is_sorted();
        let change = self.types.change(Change::Reorder);
        let candidate = self.candidate(change, vec![order], 1, (None, false));
        let is_as_it_was = is_ordered && candidate.layout.parts()[0].bytes == self.structure.bytes;
        (!self.types.is_none() || !is_as_it_was).then_some(candidate)
    }

    /// The structure as it is declared, or with other types of fields in this order, side by side.
    fn pool(&self, order: &[usize]) -> Candidate {
        let order = if self.types.is_none() { self.as_declared() } else { self.packed(order) };
        let change = self.types.change(Change::Pool);
        Candidate { is_pool: true, ..self.candidate(change, vec![order], 1, (None, false)) }
    }

    /// What is in the place of this field, if anything is.
    fn inlined_at(&self, field: usize) -> Option<&Inlined> {
        self.inlined.map(|inlined| &**inlined).filter(|inlined| inlined.field.field == field)
    }

    /// The structure as it is declared, with what a field points to in its place.
    fn inline(&self, is_pool: bool) -> Candidate {
        Candidate { is_pool, ..self.candidate(Change::Inline, vec![self.as_declared()], 1, (None, false)) }
    }

    /// Elements of a size of which lines hold a whole number, or that is one of lines.
    fn aligned(&self, order: &[usize], are_in_arrays: bool) -> Option<Candidate> {
        let bytes = self.laid(order).bytes();
        let line = LINE_BYTES as u32;
        let stride = if bytes <= line { bytes.next_power_of_two() } else { bytes.next_multiple_of(line) };
        if u64::from(bytes) > MOST_ALIGNED_BYTES {
            return None;
        }
        let candidate = self.candidate(Change::Align, vec![order.to_vec()], 1, (Some(stride), false));
        // Blocks of the heap are aligned each; elements of an array follow the first.
        let align = if are_in_arrays { LINE_BYTES } else { u64::from(stride.min(line)) };
        Some(Candidate { align, ..candidate })
    }

    /// Elements of whole lines, which no other one has a part of, where threads may take lines from each other.
    fn on_lines(&self, is_shared: bool) -> Option<Candidate> {
        let (bytes, line) = (self.structure.bytes, LINE_BYTES as u32);
        if !is_shared || u64::from(bytes) > MOST_ALIGNED_BYTES {
            return None;
        }
        let stride = Some(bytes.next_multiple_of(line));
        let candidate = self.candidate(Change::Align, vec![self.as_declared()], 1, (stride, false));
        Some(Candidate { align: LINE_BYTES, ..candidate })
    }

    /// What is used so often at most behind a pointer.
    fn hot_cold(&self, most: u64, is_pool: bool) -> Option<Candidate> {
        let is_cold = |field: &usize| self.used(*field) <= most && !self.is_held(*field);
        let (cold, hot): (Vec<usize>, Vec<usize>) = self.as_declared().into_iter().partition(is_cold);
        let cold_bytes: u32 = cold.iter().map(|field| self.fields()[*field].bytes).sum();
        if hot.is_empty() || cold_bytes <= POINTER_BYTES {
            return None;
        }
        let parts = vec![self.closely(hot), cold];
        let candidate = self.candidate(Change::HotCold, parts, 1, (None, true));
        (candidate.layout.parts()[0].bytes < self.structure.bytes).then_some(Candidate { is_pool, ..candidate })
    }

    /// An array for each of these.
    fn split(&self, change: Change, parts: Vec<Vec<usize>>) -> Option<Candidate> {
        (parts.len() > 1).then(|| self.candidate(change, parts, 1, (None, false)))
    }

    /// Bits of a byte are those of one element.
    fn blocks(&self) -> Option<Candidate> {
        self.types.packed.is_empty().then(|| Candidate {
            align: LINE_BYTES,
            ..self.candidate(Change::Blocks, vec![self.closely(self.as_declared())], LANES, (None, false))
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use slimline_attribute::tables::Language;
    use slimline_simulate::relaid::Holds;

    use super::super::visits::Fields;
    use super::*;
    use crate::full_trace::held_values::{Narrower, Number};
    use crate::full_trace::values::Range;

    /// Fields one behind the other, without holes.
    pub(crate) fn structure(bytes: u32, fields: &[(&str, u32)]) -> StructureShape {
        let mut offset = 0;
        let fields = fields.iter().map(|&(name, bytes)| {
            let type_name = if name == "next" { "struct node *" } else { "long []" }.to_owned();
            offset += bytes;
            let offset = offset - bytes;
            FieldShape { name: name.to_owned(), type_name, offset, bytes, ..FieldShape::default() }
        });
        StructureShape {
            name: "struct node".to_owned(),
            bytes,
            language: Language::C,
            is_alias: false,
            is_foreign: false,
            has_atomics: false,
            is_columns: false,
            fields: fields.collect(),
            lines: Vec::new(),
        }
    }

    pub(super) fn visits(patterns: &[(Fields, u64)], are_in_arrays: bool) -> Visits {
        let accesses = patterns.iter().map(|(_, count)| count).sum();
        Visits {
            accesses,
            in_arrays: if are_in_arrays { accesses } else { 0 },
            most_elements: if are_in_arrays { 1000 } else { 1 },
            ..Visits::of(patterns)
        }
    }

    pub(super) const MANY: Objects = Objects { count: 1000, otherwise: 0, apart: 0 };

    /// An owner of 32 bytes whose first pointer is 40 bytes of a part.
    pub(crate) fn with_part(are_in_arrays: bool) -> (StructureShape, Vec<Candidate>) {
        let all = super::super::inlining::tests::structured(100);
        let field = super::super::inlining::pointer_fields(&all, 0, |_| MANY)[0].unwrap();
        let owned = super::super::inlining::tests::owned(95);
        let inlined = super::super::inlining::inlined(&all, (field, owned), (100, 100)).unwrap();
        let visits = visits(&[(0b11, 1000)], are_in_arrays);
        let found = with_inlined(Vec::new(), (&all.structures[0], &visits), &[Arc::new(inlined)]);
        (all.structures[0].clone(), found)
    }

    #[test]
    fn what_is_pointed_to_goes_to_its_pointer_s_place() {
        let (_, found) = with_part(true);
        let [inline] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((inline.change, inline.is_pool, inline.is_combined()), (Change::Inline, false, false));
        let places: Vec<_> = inline.layout.fields().iter().map(|of| (of.from, of.to, of.to_bytes, of.holds)).collect();
        let pointer = |from, to| (from, to, 8, Holds::Pointer);
        let expected = [(0, 0, 8, Holds::Numbers), (8, 8, 40, Holds::Pointee), pointer(16, 48), pointer(24, 56)];
        assert_eq!(places, expected);
        assert_eq!(inline.layout.parts(), [Part { bytes: 64, lanes: 1 }]);
        let nodes = with_part(false).1;
        assert_eq!(nodes.iter().map(|of| of.is_pool).collect::<Vec<_>>(), [false, true]);
    }

    fn of_change(candidates: &[Candidate], change: Change) -> Vec<&Candidate> {
        candidates.iter().filter(|candidate| candidate.change == change).collect()
    }

    /// What a thread has of its own, beside what others have.
    #[test]
    fn what_threads_take_from_each_other_gets_lines_of_its_own() {
        let one = structure(8, &[("count", 8)]);
        let counted = visits(&[(0b1, 4)], true);
        let few = Objects { count: 4, otherwise: 0, apart: 0 };
        assert_eq!(candidates(&one, &counted, few), Err(Untouchable::OneField));
        let shared = counted.by_several();
        let found = candidates(&one, &shared, few).unwrap();
        let told: Vec<_> = found.iter().map(|of| (of.change, of.layout.parts()[0].bytes, of.align)).collect();
        assert_eq!(told, [(Change::Align, 64, 64)]);
        // So has each number of a plain array, but not where code that is not traced gets it.
        let mut plain = StructureShape { is_columns: true, ..one.clone() };
        let found = candidates(&plain, &shared, few).unwrap();
        assert_eq!(
            found.iter().map(|of| (of.change, of.layout.parts()[0].bytes)).collect::<Vec<_>>(),
            [(Change::Align, 64)]
        );
        plain.fields[0].hold = Hold::Apart;
        assert_eq!(candidates(&plain, &shared, few), Err(Untouchable::HandedOn));
        // Of 72 bytes each has two lines, whether there are few of them or many.
        let large = structure(72, &[("counts", 64), ("id", 8)]);
        let on_lines = |objects| {
            let found = candidates(&large, &visits(&[(0b1, 4), (0b11, 1)], false).by_several(), objects).unwrap();
            of_change(&found, Change::Align).iter().any(|of| (of.layout.parts()[0].bytes, of.align) == (128, 64))
        };
        assert!(on_lines(few) && on_lines(MANY));
    }

    #[test]
    fn arrays_are_split_by_what_is_used_together() {
        let structure = structure(32, &[("x", 8), ("y", 8), ("vx", 8), ("id", 8)]);
        // x and vx together, y sometimes with them, id once.
        let visits = visits(&[(0b101, 900), (0b111, 300), (0b1000, 1)], true);
        let found = candidates(&structure, &visits, Objects { count: 1, otherwise: 0, apart: 0 }).unwrap();
        let splits: Vec<_> = of_change(&found, Change::Split).into_iter().map(|of| of.parts.clone()).collect();
        // y's affinity to x is 0.25.
        assert_eq!(splits, [vec![vec![0, 1, 2], vec![3]], vec![vec![0, 2], vec![1], vec![3]]]);
        let sizes = |of: &Candidate| of.layout.parts().iter().map(|part| part.bytes).collect::<Vec<_>>();
        assert_eq!(sizes(of_change(&found, Change::Split)[1]), [16, 8, 8]);
        assert_eq!(of_change(&found, Change::Reorder)[0].parts, [vec![0, 2, 1, 3]]);
        assert_eq!(of_change(&found, Change::ArrayOfEach)[0].layout.parts().len(), 4);
        let blocks = of_change(&found, Change::Blocks)[0].layout.parts()[0];
        assert_eq!((blocks.bytes, blocks.lanes), (32, 8));
        assert!(of_change(&found, Change::HotCold).is_empty() && of_change(&found, Change::Pool).is_empty());
    }

    #[test]
    fn nodes_keep_what_is_hot() {
        let structure = structure(56, &[("key", 8), ("note", 40), ("next", 8)]);
        let visits = visits(&[(0b101, 1000), (0b010, 1)], false);
        let found = candidates(&structure, &visits, MANY).unwrap();
        let hot_cold = of_change(&found, Change::HotCold);
        assert_eq!(hot_cold[0].parts, [vec![0, 2], vec![1]]);
        let sizes: Vec<u32> = hot_cold[0].layout.parts().iter().map(|part| part.bytes).collect();
        // Key, next and the pointer to the note, which has no alignment of more than 8.
        assert_eq!(sizes, [24, 40]);
        assert_eq!((hot_cold.len(), hot_cold[1].is_pool), (2, true));
        assert_eq!(of_change(&found, Change::Align)[0].layout.parts()[0].bytes, 64);
        assert!(of_change(&found, Change::Split).is_empty());
    }

    #[test]
    fn hot_is_parted_from_cold_where_use_falls_most() {
        let structure = structure(48, &[("x", 8), ("y", 8), ("a", 8), ("b", 8), ("c", 8), ("next", 8)]);
        // x, y and next are used 1000 times, a 300 times, b 100, c 90.
        let patterns = [(0b10_0011, 700), (0b10_0111, 200), (0b11_1111, 90), (0b10_1111, 10)];
        let found = candidates(&structure, &visits(&patterns, false), MANY).unwrap();
        let cold: Vec<&[usize]> = of_change(&found, Change::HotCold).iter().map(|of| of.parts[1].as_slice()).collect();
        // Each from the heap, then from pools; what takes no more than the pointer to it stays.
        assert_eq!(cold, [&[2, 3, 4][..], &[2, 3, 4], &[3, 4], &[3, 4]]);
    }

    #[test]
    fn alignments_are_guessed() {
        let of = |type_name: &str, offset, bytes| {
            let type_name = type_name.to_owned();
            alignment(&FieldShape { type_name, offset, bytes, ..FieldShape::default() })
        };
        assert_eq!(
            [of("long", 8, 8), of("char[8]", 8, 8), of("unsigned char [4]", 4, 4), of("[u8; 16]", 16, 16)],
            [8, 1, 1, 1]
        );
        assert_eq!(
            [of("struct vec3", 16, 12), of("long double", 16, 16), of("struct pair", 32, 32), of("bool", 3, 1)],
            [4, 16, 8, 1]
        );
    }

    /// `{ long id; long kind; double weight; long next; }`, of which kind is small and weight keeps its value in four bytes.
    #[test]
    fn fields_get_narrower_where_that_saves_bytes() {
        let mut structure = structure(32, &[("id", 8), ("kind", 8), ("weight", 8), ("n", 8)]);
        let narrower = |bytes, number| Some(Narrower { bytes, number, range: Range::Unsigned(0, 9) });
        structure.fields[1].narrower = narrower(1, Number::Unsigned);
        structure.fields[2].narrower = narrower(4, Number::Float);
        let visits = visits(&[(0b1111, 10)], true);
        let of = |structure: &StructureShape, are_in_arrays: bool| {
            let visits = Visits { in_arrays: if are_in_arrays { visits.in_arrays } else { 0 }, ..visits.clone() };
            let found = candidates(structure, &visits, MANY).unwrap();
            of_change(&found, Change::Shrink)
                .into_iter()
                .map(|of| (of.parts[0].clone(), of.types.narrowed.clone(), of.layout.parts()[0].bytes, of.is_pool))
                .collect::<Vec<_>>()
        };
        // 8 + 8 + 4 + 1.
        assert_eq!(of(&structure, true), [(vec![0, 3, 2, 1], vec![1, 2], 24, false)]);
        assert_eq!(of(&structure, false).iter().map(|of| of.3).collect::<Vec<_>>(), [false, true]);
        // A narrower kind alone would be padding; with a narrower n as well it is, and weight need not be: 8 + 8 + 1 + 1.
        structure.fields[3].narrower = narrower(1, Number::Unsigned);
        structure.fields[2].narrower = None;
        assert_eq!(of(&structure, true), [(vec![0, 2, 1, 3], vec![1, 3], 24, false)]);
        structure.fields[3].narrower = None;
        assert_eq!(of(&structure, true), []);
    }

    /// `{ long key, kind; char note[48]; long count, uses; struct node *next; }`: what is hot is 40 bytes with the pointer to the note, 32 with
    /// narrower kind and count; uses is used with the note only, and stays as it is.
    #[test]
    fn parts_have_narrower_fields_too() {
        let fields = [("key", 8), ("kind", 8), ("note", 48), ("count", 8), ("uses", 8), ("next", 8)];
        let mut structure = structure(88, &fields);
        for field in [1, 3, 4] {
            structure.fields[field].narrower =
                Some(Narrower { bytes: 2, number: Number::Signed, range: Range::Signed(0, 9) });
        }
        let found = candidates(&structure, &visits(&[(0b10_1011, 1000), (0b01_0100, 1)], false), MANY).unwrap();
        let of = |of: &&Candidate| {
            let sizes: Vec<u32> = of.layout.parts().iter().map(|part| part.bytes).collect();
            (of.parts.clone(), of.types.narrowed.clone(), sizes, of.is_pool)
        };
        let hot_cold: Vec<_> = of_change(&found, Change::HotCold).iter().map(of).collect();
        let (wide, narrow) = (vec![vec![0, 1, 3, 5], vec![2, 4]], vec![vec![0, 5, 1, 3], vec![2, 4]]);
        let expected = [
            (wide.clone(), vec![], vec![40, 56], false),
            (wide, vec![], vec![40, 56], true),
            (narrow.clone(), vec![1, 3], vec![32, 56], false),
            (narrow.clone(), vec![1, 3], vec![32, 56], true),
            // With an index in the place of next.
            (narrow, vec![1, 3], vec![24, 56], true),
        ];
        assert_eq!(hot_cold, expected);
        // One change is simpler than two.
        let is_combined: Vec<bool> = found.iter().map(Candidate::is_combined).collect();
        assert!(is_combined.is_sorted() && is_combined.contains(&true));
        let aligned: Vec<_> = of_change(&found, Change::Align).iter().map(of).collect();
        // 88 bytes are two lines, and so are the 70 that are left of them.
        assert_eq!(aligned.iter().filter(|of| !of.1.is_empty()).count(), 0);
    }

    /// `{ long x, y, id; }`, of which all could have two bytes: each array has its own, and so has each lane.
    #[test]
    fn arrays_have_narrower_elements_too() {
        let mut structure = structure(24, &[("x", 8), ("y", 8), ("id", 8)]);
        structure.fields.iter_mut().for_each(|field| {
            field.narrower = Some(Narrower { bytes: 2, number: Number::Unsigned, range: Range::Unsigned(0, 9) });
        });
        structure.fields[2].narrower = None;
        let visits = visits(&[(0b011, 900), (0b100, 90)], true);
        let found = candidates(&structure, &visits, Objects { count: 1, otherwise: 0, apart: 0 }).unwrap();
        let sizes = |change| {
            let of = of_change(&found, change).into_iter();
            of.map(|of| of.layout.parts().iter().map(|part| part.bytes).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        assert_eq!(sizes(Change::Split), [vec![16, 8], vec![4, 8]]);
        assert_eq!(sizes(Change::ArrayOfEach), [vec![8, 8, 8], vec![2, 2, 8]]);
        assert_eq!(sizes(Change::Blocks), [vec![24], vec![12]]);
        assert_eq!(sizes(Change::Shrink), [vec![16]]);
        let blocks = of_change(&found, Change::Blocks)[1].layout.fields().to_vec();
        // Eight of id, then of x, then of y.
        let places: Vec<(u32, u32)> = blocks.iter().map(|field| (field.to, field.to_bytes)).collect();
        assert_eq!(places, [(8, 2), (10, 2), (0, 8)]);
    }

    /// A parent stays in front, and goes into an array as one; what has virtual functions is not parted.
    #[test]
    fn parents_stay_in_front() {
        let mut structure = structure(32, &[("Base", 8), ("x", 8), ("y", 8), ("z", 8)]);
        let visits = visits(&[(0b1000, 900), (0b0110, 90)], true);
        let is_parted = |of: &Candidate| matches!(of.change, Change::Split | Change::ArrayOfEach | Change::Blocks);
        for (hold, parted) in [(Hold::AsOne, true), (Hold::WithAll, false)] {
            structure.fields[0].hold = hold;
            let found = candidates(&structure, &visits, Objects { count: 1, otherwise: 0, apart: 0 }).unwrap();
            assert_eq!(of_change(&found, Change::Reorder)[0].parts[0][0], 0);
            assert_eq!(found.iter().any(is_parted), parted);
        }
    }

    #[test]
    fn what_is_left_alone() {
        let (two, one) = (structure(16, &[("a", 8), ("b", 8)]), structure(8, &[("a", 8)]));
        let visits = visits(&[(1, 10)], false);
        let why = |structure: &StructureShape, objects| candidates(structure, &visits, objects).unwrap_err();
        assert_eq!(why(&StructureShape { is_foreign: true, ..two.clone() }, MANY), Untouchable::Foreign);
        assert_eq!(why(&one, MANY), Untouchable::OneField);
        assert_eq!(why(&two, Objects { count: 2, otherwise: 0, apart: 0 }), Untouchable::Few);
        assert_eq!(why(&two, Objects { count: 100, otherwise: 2, apart: 0 }), Untouchable::Otherwise);
        assert_eq!(why(&StructureShape { bytes: 15, ..two.clone() }, MANY), Untouchable::BeyondItsEnd);
    }
}
