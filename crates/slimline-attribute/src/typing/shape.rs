//! What a type entry amounts to in memory: its size, what it points to, its fields.
//!
//! Typedefs and qualifiers are looked through, declarations are completed. Bit-fields are given as DWARF 4 and later
//! (`DW_AT_data_bit_offset`, counted from the start of the structure) or as DWARF 3 (`DW_AT_bit_offset`, counted from
//! the most significant bit of the storage unit) have them:
//!
//! ```text
//!   storage unit of 4 bytes   31 ............ 0     first bit = 32 − bit_offset − bit_size
//!   bit_offset 24, size 3          26..24  →  first bit 5, 3 bits
//! ```

use std::rc::Rc;

use gimli::{AttributeValue, constants as dw};

use super::debug_info::{DebugInfo, Die, Entry, flag, is_declared_only, unsigned};
use super::effort::{Descent, Effort, MAX_DEPTH};
use crate::tables::{Language, MemberRole};

/// What a type is, typedefs and qualifiers looked through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// No type: what `void *` points to.
    Void,
    /// A number, character, boolean, enumeration, vector register.
    Scalar {
        bytes: u64,
    },
    /// A pointer or reference.
    Pointer {
        target: Option<Die>,
        bytes: u64,
    },
    /// A structure, class or union; `die` is its definition.
    Aggregate {
        die: Die,
        bytes: u64,
        overlapping: bool,
    },
    /// An array; `count` is over all dimensions, 0 where it has no bound.
    Array {
        element: Die,
        count: u64,
        stride: u64,
    },
    Function,
}

impl Shape {
    /// Size in bytes; 0 where there is none.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Void | Self::Function => 0,
            Self::Scalar { bytes } | Self::Pointer { bytes, .. } | Self::Aggregate { bytes, .. } => bytes,
            Self::Array { count, stride, .. } => count.saturating_mul(stride),
        }
    }
}

/// A member of an aggregate.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// `None` for an anonymous member.
    pub(super) name: Option<String>,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) bits: Option<(u8, u8)>,
    pub(super) type_: Die,
    pub(super) role: MemberRole,
    pub(super) line: u32,
}

/// The members of an aggregate, in order of offset.
pub(super) type Fields = Vec<Field>;

/// What a program can address: sizes and offsets beyond are damage, and no sum of smaller ones overflows.
const MOST_BYTES: u64 = 1 << 47;

/// Unspecified types that no object has.
const RESULTS: [&str; 3] = ["auto", "decltype(auto)", "void"];

/// Parts that are looked at for whether a type is bytes and nothing else.
const MOST_PARTS: u32 = 256;

impl<'a> DebugInfo<'a> {
    /// What the type at `die` amounts to; `None` where the debug information is damaged or declares it only.
    pub(super) fn shape(&self, die: Die) -> Option<Shape> {
        if let Some(&shape) = self.shapes.borrow().get(&die) {
            return Some(shape);
        }
        let shape = self.nested(|| self.read_shape(die)).filter(|shape| shape.bytes() <= MOST_BYTES)?;
        self.shapes.borrow_mut().insert(die, shape);
        Some(shape)
    }

    fn read_shape(&self, die: Die) -> Option<Shape> {
        let entry = self.entry(die)?;
        let bytes = unsigned(&entry, dw::DW_AT_byte_size);
        match entry.tag() {
            tag if is_transparent(tag) => match self.reference(die, &entry, dw::DW_AT_type) {
                Some(target) => self.shape(target),
                None => Some(Shape::Void),
            },
            dw::DW_TAG_base_type | dw::DW_TAG_ptr_to_member_type => Some(Shape::Scalar { bytes: bytes.unwrap_or(0) }),
            dw::DW_TAG_unspecified_type => {
                let bytes = bytes.unwrap_or_else(|| self.unspecified_bytes(die, &entry));
                Some(if bytes == 0 { Shape::Void } else { Shape::Scalar { bytes } })
            }
            // Text whose length is known only at run time goes on from its first character.
            dw::DW_TAG_string_type => Some(Shape::Scalar { bytes: bytes.unwrap_or(1) }),
            dw::DW_TAG_enumeration_type => match bytes {
                Some(bytes) => Some(Shape::Scalar { bytes }),
                None if is_declared_only(&entry) => self.shape(self.definition(die, &entry)?),
                None => {
                    Some(Shape::Scalar { bytes: self.shape(self.reference(die, &entry, dw::DW_AT_type)?)?.bytes() })
                }
            },
            dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                let word = self.unit(die.unit)?.encoding().address_size;
                let target = self.reference(die, &entry, dw::DW_AT_type);
                Some(Shape::Pointer { target, bytes: bytes.unwrap_or(u64::from(word)) })
            }
            dw::DW_TAG_structure_type
            | dw::DW_TAG_class_type
            | dw::DW_TAG_interface_type
            | dw::DW_TAG_union_type
            | dw::DW_TAG_variant => {
                if is_declared_only(&entry) {
                    return self.shape(self.definition(die, &entry)?);
                }
                let mut overlapping = entry.tag() == dw::DW_TAG_union_type;
                self.for_each_child(die, |_, child| overlapping |= child.tag() == dw::DW_TAG_variant_part)?;
                Some(Shape::Aggregate { die, bytes: bytes.unwrap_or(0), overlapping })
            }
            dw::DW_TAG_array_type => {
                let element = self.reference(die, &entry, dw::DW_AT_type)?;
                if self.is_behind_descriptor(die, &entry) {
                    let word = self.unit(die.unit)?.encoding().address_size;
                    return Some(Shape::Pointer { target: Some(element), bytes: u64::from(word) });
                }
                let inner = self.shape(element)?;
                let dimensions = self.dimensions(die)?;
                let count = dimensions.iter().try_fold(1_u64, |all, &count| all.checked_mul(count))?;
                if flag(&entry, dw::DW_AT_GNU_vector) {
                    return Some(Shape::Scalar { bytes: bytes.unwrap_or(count.saturating_mul(inner.bytes())) });
                }
                let stride = unsigned(&entry, dw::DW_AT_byte_stride).unwrap_or(inner.bytes());
                (stride <= MOST_BYTES).then_some(Shape::Array { element, count, stride })
            }
            dw::DW_TAG_common_block => {
                let end = self.fields(die).iter().map(|field| field.offset.saturating_add(field.bytes)).max();
                Some(Shape::Aggregate { die, bytes: end.unwrap_or(0), overlapping: false })
            }
            dw::DW_TAG_subroutine_type | dw::DW_TAG_subprogram => Some(Shape::Function),
            dw::DW_TAG_subrange_type => self.shape(self.reference(die, &entry, dw::DW_AT_type)?),
            _ => None,
        }
    }

    /// Size of a type that debug information only names: compilers leave it out for the type of `nullptr`, which is as large as a
    /// pointer. The others stand for what a function returns, and have no size.
    fn unspecified_bytes(&self, die: Die, entry: &Entry<'a>) -> u64 {
        let is_result = self.own_name(die, entry).is_none_or(|name| RESULTS.contains(&name));
        let word = self.unit(die.unit).map_or(0, |unit| unit.encoding().address_size);
        if is_result { 0 } else { u64::from(word) }
    }

    /// Whether an array lies elsewhere, and the first word of a descriptor points to it (Fortran's allocatable, pointer
    /// and assumed-shape arrays).
    fn is_behind_descriptor(&self, die: Die, entry: &Entry<'a>) -> bool {
        use gimli::Operation::{Deref, PushObjectAddress};
        let location = entry.attr_value(dw::DW_AT_data_location);
        let (Some(AttributeValue::Exprloc(expression)), Some(unit)) = (location, self.unit(die.unit)) else {
            return false;
        };
        let mut operations = expression.operations(unit.encoding());
        let mut next = || operations.next().ok().flatten();
        matches!((next(), next(), next()), (Some(PushObjectAddress), Some(Deref { .. }), None))
    }

    /// Size of the descriptor that an array is behind: up to the last word of it that bounds and strides are read from, as debug
    /// information tells these and not the size. `None` of what has no descriptor.
    fn descriptor_bytes(&self, type_: Die) -> Option<u64> {
        use gimli::Operation::PlusConstant;
        let die = self.without_qualifiers(type_);
        let entry = self.entry(die).filter(|entry| entry.tag() == dw::DW_TAG_array_type)?;
        if !self.is_behind_descriptor(die, &entry) {
            return None;
        }
        let encoding = self.unit(die.unit)?.encoding();
        let word = u64::from(encoding.address_size);
        let mut end = word;
        self.for_each_child(die, |_, entry| {
            for attribute in entry.attrs() {
                let AttributeValue::Exprloc(expression) = attribute.value() else { continue };
                let mut operations = expression.operations(encoding);
                while let Ok(Some(operation)) = operations.next() {
                    if let PlusConstant { value } = operation {
                        end = end.max(value.saturating_add(word));
                    }
                }
            }
        })?;
        Some(end)
    }

    /// The type below typedefs and qualifiers.
    pub(super) fn without_qualifiers(&self, die: Die) -> Die {
        let mut die = die;
        for _ in 0..MAX_DEPTH {
            let Some(entry) = self.entry(die).filter(|entry| is_transparent(entry.tag())) else { break };
            match self.reference(die, &entry, dw::DW_AT_type) {
                Some(target) => die = target,
                None => break,
            }
        }
        die
    }

    /// Number of elements in each dimension of an array, outermost first; 0 where it has no fixed bound.
    pub(super) fn dimensions(&self, die: Die) -> Option<Vec<u64>> {
        let first = if self.language(die.unit) == Language::Fortran { 1 } else { 0 };
        let mut dimensions = Vec::new();
        self.for_each_child(die, |child, entry| match entry.tag() {
            dw::DW_TAG_subrange_type => dimensions.push(extent(entry, first)),
            dw::DW_TAG_enumeration_type => {
                let mut count = 0;
                let _ = self.for_each_child(child, |_, each| count += u64::from(each.tag() == dw::DW_TAG_enumerator));
                dimensions.push(count);
            }
            _ => {}
        })?;
        if dimensions.is_empty() {
            dimensions.push(0);
        }
        Some(dimensions)
    }

    /// The members of an aggregate's definition, bases included, in order of offset. Static members are none.
    ///
    /// Virtual bases are left out: [`Self::virtual_base_fields`] are those of an object that is of just this class.
    pub(super) fn fields(&self, die: Die) -> Rc<Fields> {
        if let Some(fields) = self.fields.borrow().get(&die) {
            return Rc::clone(fields);
        }
        let read = || {
            // A damaged structure that holds itself finds itself empty.
            self.fields.borrow_mut().insert(die, Rc::default());
            let mut fields = Vec::new();
            let _ = self.read_fields(die, &mut fields);
            self.name_raw_storage(die, &mut fields);
            fields.sort_by_key(|field| (field.offset, field.bits));
            self.mark_flexible_array(&mut fields);
            let fields = Rc::new(fields);
            self.fields.borrow_mut().insert(die, Rc::clone(&fields));
            Some(fields)
        };
        self.nested(read).unwrap_or_default()
    }

    /// What `read` finds of a type that others asked for, which are asked for themselves; `None` where there are so many
    /// that they are taken for damaged.
    fn nested<T>(&self, read: impl FnOnce() -> Option<T>) -> Option<T> {
        let depth = self.nesting.get();
        if depth >= MAX_DEPTH {
            return None;
        }
        self.nesting.set(depth + 1);
        let found = read();
        self.nesting.set(depth);
        found
    }

    fn read_fields(&self, die: Die, fields: &mut Fields) -> Option<()> {
        let entry = self.entry(die)?;
        let total = unsigned(&entry, dw::DW_AT_byte_size).unwrap_or(u64::MAX);
        if entry.tag() == dw::DW_TAG_common_block {
            let start = self.static_address(die, &entry)?;
            return self.for_each_child(die, |child, entry| {
                fields.extend(self.variable_in_common(child, entry, start));
            });
        }
        let mut variant_parts = Vec::new();
        self.for_each_child(die, |child, entry| match entry.tag() {
            dw::DW_TAG_member | dw::DW_TAG_inheritance => fields.extend(self.read_field(child, entry, total)),
            dw::DW_TAG_variant_part => variant_parts.push(child),
            _ => {}
        })?;
        for part in variant_parts {
            self.for_each_child(part, |child, entry| match entry.tag() {
                dw::DW_TAG_member => {
                    // rustc leaves the discriminant without a name.
                    fields.extend(
                        self.read_field(child, entry, total).map(|field| Field {
                            name: field.name.or_else(|| Some("discriminant".to_owned())),
                            ..field
                        }),
                    );
                }
                dw::DW_TAG_variant => {
                    let _ = self.for_each_child(child, |member, entry| {
                        if entry.tag() == dw::DW_TAG_member {
                            fields.extend(self.read_field(member, entry, total));
                        }
                    });
                }
                _ => {}
            })?;
        }
        Some(())
    }

    /// Bytes in which a library's template keeps a value of its type argument (a node of `std::map`, an optional's
    /// content) are that value: where an argument has their size.
    fn name_raw_storage(&self, die: Die, fields: &mut Fields) {
        let raw: Vec<&mut Field> = fields
            .iter_mut()
            .filter(|field| field.bytes > 1 && self.is_raw_storage(field.type_, Effort::of(MOST_PARTS).begin()))
            .collect();
        if raw.is_empty() || !self.is_library(die) {
            return;
        }
        let arguments = self.type_arguments(die);
        for field in raw {
            let fits = |&&argument: &&Die| self.shape(argument).is_some_and(|shape| shape.bytes() == field.bytes);
            if let Some(&argument) = arguments.iter().find(fits) {
                field.type_ = argument;
            }
        }
    }

    /// Whether a type is bytes and nothing else, aligned or not.
    fn is_raw_storage(&self, type_: Die, descent: Descent<'_>) -> bool {
        match (self.shape(type_), descent.deeper()) {
            (Some(Shape::Array { stride: 1, .. }), _) => true,
            // A union with an empty structure that aligns it.
            (Some(Shape::Aggregate { die, .. }), Some(inside)) => {
                let fields = self.fields(die);
                let filled = fields.iter().all(|field| self.is_raw_storage(field.type_, inside));
                filled && (descent.depth > 0 || !fields.is_empty())
            }
            _ => false,
        }
    }

    fn read_field(&self, die: Die, entry: &Entry<'a>, total: u64) -> Option<Field> {
        let base = entry.tag() == dw::DW_TAG_inheritance;
        // A static member is declared here and lives elsewhere.
        if flag(entry, dw::DW_AT_declaration) || flag(entry, dw::DW_AT_external) {
            return None;
        }
        let type_ = self.reference(die, entry, dw::DW_AT_type)?;
        let type_bytes = self.descriptor_bytes(type_).or_else(|| self.base_bytes(type_))?;
        let name = self.own_name(die, entry).map(str::to_owned);
        let bit_size = unsigned(entry, dw::DW_AT_bit_size).and_then(|bits| u8::try_from(bits).ok());
        let location = self.member_offset(die, entry)?;
        let (offset, bytes, bits) = match bit_size {
            None => (location, type_bytes, None),
            Some(size) => {
                let storage = unsigned(entry, dw::DW_AT_byte_size).unwrap_or(type_bytes).max(1);
                if let Some(first) = unsigned(entry, dw::DW_AT_data_bit_offset) {
                    storage_unit(first, size, storage, total)?
                } else if let Some(from_top) = unsigned(entry, dw::DW_AT_bit_offset) {
                    let first = storage.checked_mul(8)?.checked_sub(from_top)?.checked_sub(u64::from(size))?;
                    (location, storage, Some((u8::try_from(first).ok()?, size)))
                } else {
                    (location, storage, Some((0, size)))
                }
            }
        };
        let role = match &name {
            _ if base => MemberRole::Base,
            Some(name) if name.starts_with("_vptr.") || name.starts_with("_vptr$") => MemberRole::VirtualTable,
            _ => MemberRole::Field,
        };
        let line = unsigned(entry, dw::DW_AT_decl_line).and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
        (offset <= MOST_BYTES && bytes <= MOST_BYTES).then_some(Field { name, offset, bytes, bits, type_, role, line })
    }

    /// Size of a type as a base or a member. An empty class has size 1, and as a base or `[[no_unique_address]]` member lies
    /// where other data is.
    pub(super) fn base_bytes(&self, type_: Die) -> Option<u64> {
        match self.shape(type_)? {
            Shape::Aggregate { die, bytes: 1, .. } if self.fields(die).iter().all(|field| field.bytes == 0) => Some(0),
            shape => Some(shape.bytes()),
        }
    }

    /// A variable of a COMMON block that begins at `start`, as its member.
    fn variable_in_common(&self, die: Die, entry: &Entry<'a>, start: u64) -> Option<Field> {
        let type_ = self.reference(die, entry, dw::DW_AT_type)?;
        Some(Field {
            name: self.own_name(die, entry).map(str::to_owned),
            offset: self.static_address(die, entry)?.checked_sub(start)?,
            bytes: self.shape(type_)?.bytes(),
            bits: None,
            type_,
            role: MemberRole::Field,
            line: unsigned(entry, dw::DW_AT_decl_line).and_then(|line| u32::try_from(line).ok()).unwrap_or(0),
        })
    }

    /// Offset of a member in bytes; `None` where it is computed at run time (a virtual base).
    fn member_offset(&self, die: Die, entry: &Entry<'a>) -> Option<u64> {
        match entry.attr_value(dw::DW_AT_data_member_location) {
            None => Some(0),
            Some(AttributeValue::Exprloc(expression)) => {
                let mut operations = expression.operations(self.unit(die.unit)?.encoding());
                match (operations.next().ok()??, operations.next().ok()?) {
                    (gimli::Operation::PlusConstant { value }, None) => Some(value),
                    _ => None,
                }
            }
            Some(_) => unsigned(entry, dw::DW_AT_data_member_location),
        }
    }

    fn mark_flexible_array(&self, fields: &mut Fields) {
        if let Some(last) = fields.last_mut()
            && last.bytes == 0
            && last.offset > 0
            && let Some(Shape::Array { stride: 1.., count: 0, .. }) = self.shape(last.type_)
            && last.name.is_some()
        {
            last.role = MemberRole::FlexibleArray;
        }
    }
}

/// Whether a type of that tag has the layout of the type it names or qualifies.
pub(super) fn is_transparent(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_typedef
            | dw::DW_TAG_const_type
            | dw::DW_TAG_volatile_type
            | dw::DW_TAG_restrict_type
            | dw::DW_TAG_atomic_type
            | dw::DW_TAG_immutable_type
            | dw::DW_TAG_packed_type
            | dw::DW_TAG_shared_type
            | dw::DW_TAG_template_alias
    )
}

fn extent(entry: &Entry<'_>, first: i64) -> u64 {
    if let Some(count) = unsigned(entry, dw::DW_AT_count) {
        return count;
    }
    let signed = |attribute| match entry.attr_value(attribute)? {
        AttributeValue::Sdata(value) => Some(value),
        // Fixed-size forms are unsigned here, whatever their top bit: gcc writes the bound of `char[256]` as data1 255.
        // A bound of −1, which says "no elements", takes all 8 bytes.
        value => value.udata_value().map(u64::cast_signed),
    };
    let lower = signed(dw::DW_AT_lower_bound).unwrap_or(first);
    match signed(dw::DW_AT_upper_bound) {
        Some(upper) => u64::try_from(upper.wrapping_sub(lower).wrapping_add(1)).unwrap_or(0),
        None => 0,
    }
}

/// Offset and size in bytes of a storage unit; first bit and number of bits in it.
type StorageUnit = (u64, u64, Option<(u8, u8)>);

/// The aligned storage unit that holds bits `first..first + size` of a structure of `total` bytes.
fn storage_unit(first: u64, size: u8, storage: u64, total: u64) -> Option<StorageUnit> {
    let end = first.checked_add(u64::from(size))?;
    let unit = first / storage.checked_mul(8)? * storage;
    let unit_end = unit.checked_add(storage)?;
    let (offset, bytes) = if end <= unit_end.checked_mul(8)? && unit_end <= total {
        (unit, storage)
    } else {
        // Packed: the bits straddle aligned units. The bytes that hold them are all that is sure.
        (first / 8, end.div_ceil(8) - first / 8)
    };
    Some((offset, bytes, Some((u8::try_from(first - offset * 8).ok()?, size))))
}

#[cfg(test)]
mod tests {
    use super::storage_unit;

    #[test]
    fn storage_units_are_aligned_and_hold_their_bits() {
        assert_eq!(storage_unit(0, 3, 4, 8), Some((0, 4, Some((0, 3)))));
        assert_eq!(storage_unit(37, 5, 4, 8), Some((4, 4, Some((5, 5)))));
        // Packed: 7 bits from bit 30 on straddle two units of 4 bytes.
        assert_eq!(storage_unit(30, 7, 4, 8), Some((3, 2, Some((6, 7)))));
        // The unit would reach past the end of a packed structure of 3 bytes.
        assert_eq!(storage_unit(17, 3, 4, 3), Some((2, 1, Some((1, 3)))));
        assert_eq!(storage_unit(u64::MAX, 3, 4, 3), None);
    }
}
