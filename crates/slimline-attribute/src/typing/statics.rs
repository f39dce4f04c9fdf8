//! Variables with a fixed address: file and function statics, class members, COMMON blocks.

use gimli::{AttributeValue, Operation, constants as dw};
use slimline_trace::address::Svma;

use super::debug_info::{DebugInfo, Die, Entry, Slice};
use super::layout::TypeTable;
use super::shape::Shape;
use crate::tables::{Element, SourcePosition, TypeId};

/// A static variable as its debug information declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticVariable {
    /// Name with namespace or class.
    pub name: String,
    /// Where it starts.
    pub address: Svma,
    /// Size in bytes.
    pub bytes: u64,
    /// Its type.
    pub type_id: TypeId,
    /// What it is an array of (all dimensions looked through); the type itself where it is no array.
    pub element: Element,
    /// Where it is declared.
    pub declared_at: Option<SourcePosition>,
}

/// A static variable's place: `begin..end` and its entry.
#[derive(Clone, Copy)]
pub(super) struct StaticRange {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) die: Die,
    pub(super) type_: Die,
}

impl<'a> DebugInfo<'a> {
    /// The static variable that holds the byte at `address`, with its types in `table`.
    ///
    /// The first call walks all units.
    pub fn static_at(&self, address: Svma, table: &mut TypeTable) -> Option<StaticVariable> {
        let range = self.static_range_at(address.0)?;
        let type_id = self.row(range.type_, table)?;
        let (element, bytes) = self.innermost_element(range.type_);
        Some(StaticVariable {
            name: self.qualified_name(range.die)?,
            address: Svma(range.begin),
            bytes: range.end - range.begin,
            type_id,
            element: Element { type_id: self.row(element, table)?, bytes, start: 0, agreement: 1.0 },
            declared_at: self.declared_at(range.die),
        })
    }

    /// The entry and place of the static variable that holds the byte at `address`.
    pub(super) fn static_range_at(&self, address: u64) -> Option<StaticRange> {
        let ranges = self.statics.get_or_init(|| self.read_statics());
        let after = ranges.partition_point(|range| range.begin <= address);
        // Members of a COMMON block and aliases may share a start.
        ranges[..after].iter().rev().take(8).find(|range| address < range.end).copied()
    }

    fn read_statics(&self) -> Vec<StaticRange> {
        let mut ranges = Vec::new();
        for unit in 0..self.unit_count() {
            for &offset in &self.index(unit).variables {
                let die = Die { unit, offset };
                ranges.extend(self.static_range(die));
            }
        }
        ranges.sort_by_key(|range| (range.begin, std::cmp::Reverse(range.end)));
        ranges
    }

    fn static_range(&self, die: Die) -> Option<StaticRange> {
        let entry = self.entry(die)?;
        let begin = self.static_address(die, &entry)?;
        // A COMMON block is a structure of its variables.
        let type_ = if entry.tag() == dw::DW_TAG_common_block { die } else { self.type_of(die)? };
        let bytes = self.shape(type_)?.bytes();
        (begin != 0 && bytes > 0).then_some(StaticRange { begin, end: begin.checked_add(bytes)?, die, type_ })
    }

    /// The fixed address of a variable or a COMMON block; gfortran tells of a block only where its variables are.
    pub(super) fn static_address(&self, die: Die, entry: &Entry<'a>) -> Option<u64> {
        if entry.tag() != dw::DW_TAG_common_block || entry.has_attr(dw::DW_AT_location) {
            return self.own_address(die, entry);
        }
        let mut first: Option<u64> = None;
        self.for_each_child(die, |child, entry| {
            first = first.into_iter().chain(self.own_address(child, entry)).min();
        })?;
        first
    }

    fn own_address(&self, die: Die, entry: &Entry<'a>) -> Option<u64> {
        match entry.attr_value(dw::DW_AT_location)? {
            AttributeValue::Exprloc(expression) => self.fixed_address(die.unit, expression),
            _ => None,
        }
    }

    /// The address of a location that is one: `DW_OP_addr` or `DW_OP_addrx`, plus a constant in a COMMON block.
    fn fixed_address(&self, unit: u32, expression: gimli::Expression<Slice<'a>>) -> Option<u64> {
        let parsed = self.unit(unit)?;
        let mut operations = expression.operations(parsed.encoding());
        let start = match operations.next().ok()?? {
            Operation::Address { address } => address,
            Operation::AddressIndex { index } => self.dwarf_of(unit).address(parsed, index).ok()?,
            _ => return None,
        };
        match operations.next().ok()? {
            None => Some(start),
            Some(Operation::PlusConstant { value }) => match operations.next().ok()? {
                None => start.checked_add(value),
                Some(_) => None,
            },
            Some(_) => None,
        }
    }

    /// What an array is made of once all dimensions are looked through, and its size; the type itself if no array.
    pub(super) fn innermost_element(&self, type_: Die) -> (Die, u64) {
        let mut type_ = type_;
        for _ in 0..16 {
            match self.shape(type_) {
                Some(Shape::Array { element, .. }) => type_ = element,
                Some(shape) => return (type_, shape.bytes()),
                None => break,
            }
        }
        (type_, 0)
    }

    /// The type of that name, written with or without `struct`, `class`, `union`, `enum`; for C and C++ also a typedef
    /// of an anonymous structure. The first call walks all units.
    pub fn type_named(&self, name: &str, table: &mut TypeTable) -> Option<TypeId> {
        let bare = ["struct ", "class ", "union ", "enum "].iter().find_map(|keyword| name.strip_prefix(keyword));
        let die = self.defined(bare.unwrap_or(name))?.first().copied()?;
        self.row(die, table)
    }
}
