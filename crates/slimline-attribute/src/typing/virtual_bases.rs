//! Virtual bases: where they lie is written in the virtual table of what an object is in the end. So an object has them that is
//! of just its class, as one from `new`, a variable or a member is; a base of another class is without its own.
//!
//! ```text
//!   struct Left : virtual Plain     Left: │ Left's own │ Plain │         Both: │ Left's own │ Right's own │ Both's own │ Plain │
//!   struct Both : Left, Right
//! ```
//!
//! One that no table tells of is left out, with what is in it.

use gimli::{AttributeValue, constants as dw};

use super::debug_info::{DebugInfo, Die, Entry};
use super::effort::{Descent, Effort};
use super::shape::{Field, Fields, Shape};
use crate::module::virtual_tables::VirtualTable;
use crate::tables::{Language, MemberRole};

/// Bases that are looked at for one class.
const MOST_BASES: u32 = 512;

/// A virtual base of a class.
struct VirtualBase {
    definition: Die,
    type_: Die,
    /// So many bytes before where the object's pointer points to is where it lies.
    bytes_before: u64,
}

/// The virtual bases that were found in an object.
struct Found<'t> {
    table: &'t VirtualTable,
    /// How large the object is.
    bytes: u64,
    /// Each is there once.
    definitions: Vec<Die>,
    fields: Fields,
}

impl<'a> DebugInfo<'a> {
    /// The virtual bases of an object of the class at `die`, also those of its bases.
    pub(super) fn virtual_base_fields(&self, die: Die) -> Fields {
        let found = || {
            let table = self.virtual_tables.of(&self.name_outside_functions(die)?)?;
            let bytes = self.shape(die)?.bytes();
            let mut found = Found { table, bytes, definitions: Vec::new(), fields: Vec::new() };
            let effort = Effort::of(MOST_BASES);
            self.find_virtual_bases(die, 0, MemberRole::VirtualBase, effort.begin(), &mut found);
            Some(found.fields)
        };
        if self.has_virtual_bases(die) { found().unwrap_or_default() } else { Vec::new() }
    }

    /// Whether the class at `die` or any of its bases has a virtual one.
    pub(super) fn has_virtual_bases(&self, die: Die) -> bool {
        self.language(die.unit) == Language::Cpp && self.has_virtual_base(die, Effort::of(MOST_BASES).begin())
    }

    /// Finds those of the class at `die`, which lies at `within` of the object; its own have this role.
    fn find_virtual_bases(
        &self,
        die: Die,
        within: u64,
        role: MemberRole,
        descent: Descent<'_>,
        found: &mut Found<'_>,
    ) -> Option<()> {
        const OF_BASES: MemberRole = MemberRole::InheritedVirtualBase;
        let descent = descent.deeper()?;
        for field in self.fields(die).iter().filter(|field| field.role == MemberRole::Base) {
            if let Some(base) = self.class(field.type_) {
                self.find_virtual_bases(base, within.checked_add(field.offset)?, OF_BASES, descent, found)?;
            }
        }
        for base in self.virtual_bases(die)? {
            let place = found.table.virtual_base(within, base.bytes_before).filter(|&at| at < found.bytes);
            let Some(offset) = place.filter(|_| !found.definitions.contains(&base.definition)) else { continue };
            found.definitions.push(base.definition);
            let (type_, bytes) = (base.type_, self.base_bytes(base.type_)?);
            found.fields.push(Field { name: None, offset, bytes, bits: None, type_, role, line: 0 });
            self.find_virtual_bases(base.definition, offset, OF_BASES, descent, found)?;
        }
        Some(())
    }

    /// As the symbols of its virtual table have it.
    fn name_outside_functions(&self, die: Die) -> Option<String> {
        let index = self.index(die.unit);
        let parents = std::iter::successors(index.parent(die.offset), |&parent| index.parent(parent));
        let is_in_function = |offset| {
            let parent = self.entry(Die { unit: die.unit, offset });
            parent.is_none_or(|parent| matches!(parent.tag(), dw::DW_TAG_subprogram | dw::DW_TAG_lexical_block))
        };
        if parents.take(32).any(is_in_function) { None } else { self.qualified_name(die) }
    }

    fn has_virtual_base(&self, die: Die, descent: Descent<'_>) -> bool {
        let Some(descent) = descent.deeper() else { return false };
        let (mut has, mut bases) = (false, Vec::new());
        let _ = self.for_each_child(die, |child, entry| {
            if entry.tag() == dw::DW_TAG_inheritance {
                has |= is_virtual(entry);
                bases.extend(self.reference(child, entry, dw::DW_AT_type));
            }
        });
        has || bases.into_iter().filter_map(|base| self.class(base)).any(|base| self.has_virtual_base(base, descent))
    }

    /// The definition of a structure or class.
    pub(super) fn class(&self, type_: Die) -> Option<Die> {
        match self.shape(type_)? {
            Shape::Aggregate { die, .. } => Some(die),
            _ => None,
        }
    }

    fn virtual_bases(&self, die: Die) -> Option<Vec<VirtualBase>> {
        let mut bases = Vec::new();
        self.for_each_child(die, |child, entry| {
            let base = || {
                let type_ = self.reference(child, entry, dw::DW_AT_type)?;
                let bytes_before = self.bytes_before_address_point(child, entry)?;
                Some(VirtualBase { definition: self.class(type_)?, type_, bytes_before })
            };
            if entry.tag() == dw::DW_TAG_inheritance && is_virtual(entry) {
                bases.extend(base());
            }
        })?;
        Some(bases)
    }

    /// Of `dup, deref, N, minus, deref, plus`: the object's address, and what lies N bytes before where it points to.
    fn bytes_before_address_point(&self, die: Die, entry: &Entry<'a>) -> Option<u64> {
        use gimli::Operation::{Deref, Minus, Pick, Plus, SignedConstant, UnsignedConstant};
        let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(dw::DW_AT_data_member_location) else {
            return None;
        };
        let mut operations = expression.operations(self.unit(die.unit)?.encoding());
        let mut next = || operations.next().ok().flatten();
        let (Some(Pick { index: 0 }), Some(Deref { .. })) = (next(), next()) else { return None };
        let bytes = match next()? {
            UnsignedConstant { value } => value,
            SignedConstant { value } => u64::try_from(value).ok()?,
            _ => return None,
        };
        let rest = (next(), next(), next(), next());
        matches!(rest, (Some(Minus), Some(Deref { .. }), Some(Plus), None)).then_some(bytes)
    }
}

fn is_virtual(entry: &Entry<'_>) -> bool {
    matches!(entry.attr_value(dw::DW_AT_virtuality), Some(AttributeValue::Virtuality(dw::DW_VIRTUALITY_virtual)))
}
