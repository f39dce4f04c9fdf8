//! All structures, classes and unions that debug information defines, each definition once.
//!
//! Every unit that includes a header has its structures anew. They are one [`Definition`] where name, layout and the place of the
//! declaration are the same. So a name with two definitions has two layouts, or is declared in two places.

use std::rc::Rc;

use gimli::{AttributeValue, constants as dw};
use rustc_hash::FxHashMap;

use super::debug_info::{DebugInfo, Die, Entry, flag, is_aggregate, is_declared_only, unsigned};
use super::effort::{Descent, Effort};
use super::layout::{ANONYMOUS, TypeTable};
use super::shape::{Shape, is_transparent};
use crate::tables::{Language, SourcePosition, TypeId, TypeKind};

/// Types that are looked at for one alignment.
const MOST_TYPES: u32 = 4096;
/// No type of this machine that is not told to be aligned is aligned more: 16 bytes, but for vectors.
const MOST_ALIGNED: u64 = 16;

/// A structure, class or union, as it is declared in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its row.
    pub type_id: TypeId,
    /// Where it is declared; none where debug information does not say.
    pub declared_at: Option<SourcePosition>,
    /// Bytes that its address is a multiple of: as debug information says, which rustc always does and C's compilers where the
    /// source asks for it; else as its members need it, so far as their offsets and its size agree (those of packed ones do not).
    pub alignment: u64,
    /// Units that define it.
    pub units: u32,
    /// Whether nobody knows where its virtual bases lie: what looks like padding may be these.
    pub lacks_virtual_bases: bool,
}

/// Definitions while they are collected, unit by unit.
#[derive(Default)]
pub struct Definitions {
    rows: Vec<Definition>,
    by_place: FxHashMap<(TypeId, Option<Rc<SourcePosition>>), u32>,
    /// The last unit that each was found in, by row: a unit may have one twice, as functions' own structures.
    last_unit: Vec<u32>,
}

impl Definitions {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// All of them, in the order in which they were found.
    pub fn into_rows(self) -> Vec<Definition> {
        self.rows
    }
}

impl<'a> DebugInfo<'a> {
    /// Adds what a unit (of [`Self::unit_count`]) defines, its types being rows of `table`. Left out are structures without a name,
    /// which belong to those around them, and variants of Rust's enums. `false` where the unit is damaged.
    pub fn define(&self, unit: u32, table: &mut TypeTable, found: &mut Definitions) -> bool {
        if self.unit(unit).is_none() {
            return false;
        }
        let index = self.index(unit);
        for &offset in &index.aggregates {
            self.define_one(Die { unit, offset }, table, found);
        }
        for &offset in &index.foreign_typedefs {
            let die = Die { unit, offset };
            if self.class(die).is_some_and(|definition| self.is_anonymous(definition)) {
                self.define_one(die, table, found);
            }
        }
        true
    }

    fn define_one(&self, die: Die, table: &mut TypeTable, found: &mut Definitions) -> Option<()> {
        if self.is_variant(die) {
            return None;
        }
        let type_id = self.row(die, table)?;
        let row = table.get(type_id);
        if !matches!(row.kind, TypeKind::Structure | TypeKind::Union) || row.name.ends_with(ANONYMOUS) {
            return None;
        }
        let key = (type_id, self.declared_at(die).map(Rc::new));
        let next = found.rows.len();
        let row = *found.by_place.entry(key.clone()).or_insert(u32::try_from(next).ok()?) as usize;
        if row == next {
            let lacks_virtual_bases = self.has_virtual_bases(die) && self.virtual_base_fields(die).is_empty();
            let alignment = self.alignment(die, Effort::of(MOST_TYPES).begin()).unwrap_or(1);
            let declared_at = key.1.map(Rc::unwrap_or_clone);
            found.rows.push(Definition { type_id, declared_at, alignment, units: 0, lacks_virtual_bases });
            found.last_unit.push(u32::MAX);
        }
        if found.last_unit[row] != die.unit {
            found.last_unit[row] = die.unit;
            found.rows[row].units += 1;
        }
        Some(())
    }

    /// rustc has the structures of an enum's variants within the enum's, and no other structure within one.
    fn is_variant(&self, die: Die) -> bool {
        let parent = self.index(die.unit).parent(die.offset).filter(|_| self.language(die.unit) == Language::Rust);
        let parent = parent.and_then(|offset| self.entry(Die { unit: die.unit, offset }));
        parent.is_some_and(|parent| is_aggregate(parent.tag()))
    }

    /// The alignment of a type; `None` where it has none, or is damaged.
    fn alignment(&self, die: Die, descent: Descent<'_>) -> Option<u64> {
        let descent = descent.deeper()?;
        let entry = self.entry(die)?;
        if let Some(told) = told_alignment(&entry) {
            return Some(told);
        }
        let of_type = || self.alignment(self.reference(die, &entry, dw::DW_AT_type)?, descent);
        match entry.tag() {
            tag if is_transparent(tag) => of_type(),
            dw::DW_TAG_array_type if flag(&entry, dw::DW_AT_GNU_vector) => {
                Some(power_within(self.shape(die)?.bytes(), u64::MAX))
            }
            dw::DW_TAG_array_type => match self.shape(die)? {
                Shape::Pointer { bytes, .. } => Some(power_within(bytes, MOST_ALIGNED)),
                _ => of_type(),
            },
            dw::DW_TAG_base_type => {
                let bytes = unsigned(&entry, dw::DW_AT_byte_size)?;
                // A pair of numbers.
                let is_pair = matches!(
                    entry.attr_value(dw::DW_AT_encoding),
                    Some(AttributeValue::Encoding(dw::DW_ATE_complex_float))
                );
                Some(power_within(if is_pair { bytes / 2 } else { bytes }, MOST_ALIGNED))
            }
            // One to a member function is two words.
            dw::DW_TAG_ptr_to_member_type => Some(u64::from(self.unit(die.unit)?.encoding().address_size)),
            tag if is_aggregate(tag) => self.aggregate_alignment(die, &entry, descent),
            _ => Some(power_within(self.shape(die)?.bytes(), MOST_ALIGNED)),
        }
    }

    fn aggregate_alignment(&self, die: Die, entry: &Entry<'a>, descent: Descent<'_>) -> Option<u64> {
        if is_declared_only(entry) {
            return self.alignment(self.definition(die, entry)?, descent);
        }
        let mut most = 1;
        let mut told_offsets = Vec::new();
        self.for_each_child(die, |_, entry| {
            if let (dw::DW_TAG_member, Some(told)) = (entry.tag(), told_alignment(entry)) {
                told_offsets.push(unsigned(entry, dw::DW_AT_data_member_location).unwrap_or(0));
                most = most.max(told);
            }
        })?;
        let fields = self.fields(die);
        let bases = self.virtual_base_fields(die);
        for field in fields.iter().chain(&bases).filter(|field| !told_offsets.contains(&field.offset)) {
            let needed = self.alignment(field.type_, descent).unwrap_or(1);
            // Packed, where it does not lie so.
            if field.bits.is_some() || field.offset.is_multiple_of(needed) {
                most = most.max(needed);
            }
        }
        let bytes = self.shape(die)?.bytes();
        while !bytes.is_multiple_of(most) {
            most /= 2;
        }
        Some(most)
    }
}

/// What debug information says of an alignment by itself.
fn told_alignment(entry: &Entry<'_>) -> Option<u64> {
    unsigned(entry, dw::DW_AT_alignment).filter(|told| told.is_power_of_two())
}

/// The largest power of two that divides it, at most this.
fn power_within(bytes: u64, most: u64) -> u64 {
    match bytes {
        0 => 1,
        bytes => (1 << bytes.trailing_zeros()).min(most),
    }
}

#[cfg(test)]
mod tests {
    use super::power_within;

    #[test]
    fn numbers_are_aligned_as_their_size_allows() {
        assert_eq!([0, 1, 4, 12, 16, 32].map(|bytes| power_within(bytes, 16)), [1, 1, 4, 4, 16, 16]);
        assert_eq!(power_within(32, u64::MAX), 32);
    }
}
