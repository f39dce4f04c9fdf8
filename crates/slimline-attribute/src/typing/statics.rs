//! Variables with a fixed place: file and function statics, class members, COMMON blocks; and thread-local ones, whose place
//! is fixed in their module's block.

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
    /// Where it starts; of a thread-local one, in its module's block.
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

/// Where a variable is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FixedPlace {
    Address(u64),
    /// In the module's block of thread-local storage.
    ThreadLocal(u64),
}

/// Variables with a fixed place, in order.
#[derive(Default)]
pub(super) struct Statics {
    at_addresses: Vec<StaticRange>,
    parts: Vec<StaticRange>,
    thread_local: Vec<StaticRange>,
}

impl<'a> DebugInfo<'a> {
    /// The static variable that holds the byte at `address`, with its types in `table`.
    ///
    /// The first call walks all units.
    pub fn static_at(&self, address: Svma, table: &mut TypeTable) -> Option<StaticVariable> {
        self.variable_in(self.static_range_at(address.0)?, table)
    }

    /// The thread-local variable that holds the byte at `offset` of its module's block, with its types in `table`.
    pub fn thread_local_at(&self, offset: Svma, table: &mut TypeTable) -> Option<StaticVariable> {
        self.variable_in(covering(&self.statics().thread_local, offset.0)?, table)
    }

    /// All static variables, and the parts that the optimizer has taken others apart into, each with the whole's type; types are in `table`.
    pub fn static_variables(&self, table: &mut TypeTable) -> Vec<StaticVariable> {
        let Statics { at_addresses, parts, .. } = self.statics();
        at_addresses.iter().chain(parts).filter_map(|range| self.variable_in(*range, table)).collect()
    }

    /// All thread-local variables, likewise.
    pub fn thread_locals(&self, table: &mut TypeTable) -> Vec<StaticVariable> {
        self.statics().thread_local.iter().filter_map(|range| self.variable_in(*range, table)).collect()
    }

    fn variable_in(&self, range: StaticRange, table: &mut TypeTable) -> Option<StaticVariable> {
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
        covering(&self.statics().at_addresses, address)
    }

    fn statics(&self) -> &Statics {
        self.statics.get_or_init(|| self.read_statics())
    }

    fn read_statics(&self) -> Statics {
        let mut statics = Statics::default();
        for unit in 0..self.unit_count() {
            for &offset in &self.index(unit).variables {
                if let Some((place, range)) = self.static_range(Die { unit, offset }) {
                    match place {
                        FixedPlace::Address(_) => statics.at_addresses.push(range),
                        FixedPlace::ThreadLocal(_) => statics.thread_local.push(range),
                    }
                } else {
                    statics.parts.extend(self.parts(Die { unit, offset }));
                }
            }
        }
        for ranges in [&mut statics.at_addresses, &mut statics.thread_local] {
            ranges.sort_by_key(|range| (range.begin, std::cmp::Reverse(range.end)));
        }
        statics
    }

    fn static_range(&self, die: Die) -> Option<(FixedPlace, StaticRange)> {
        let entry = self.entry(die)?;
        let place = self.fixed_place_of(die, &entry)?;
        // A COMMON block is a structure of its variables.
        let type_ = if entry.tag() == dw::DW_TAG_common_block { die } else { self.type_of(die)? };
        let bytes = self.shape(type_)?.bytes();
        let (FixedPlace::Address(begin) | FixedPlace::ThreadLocal(begin)) = place;
        let is_there = place != FixedPlace::Address(0) && bytes > 0;
        is_there.then_some((place, StaticRange { begin, end: begin.checked_add(bytes)?, die, type_ }))
    }

    /// Where the parts of a variable are that has no place as a whole: each an address, and how many bytes are there.
    fn parts(&self, die: Die) -> Vec<StaticRange> {
        let parts = || {
            let entry = self.entry(die)?;
            let type_ = self.type_of(die)?;
            let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(dw::DW_AT_location) else { return None };
            let unit = self.unit(die.unit)?;
            let mut operations = expression.operations(unit.encoding());
            let (mut parts, mut address) = (Vec::new(), None);
            while let Some(operation) = operations.next().ok()? {
                address = match (operation, address) {
                    (Operation::Address { address }, _) => Some(address),
                    (Operation::AddressIndex { index }, _) => self.dwarf_of(die.unit).address(unit, index).ok(),
                    (Operation::PlusConstant { value }, Some(address)) => u64::checked_add(address, value),
                    (Operation::Piece { size_in_bits, .. }, Some(begin)) if begin > 0 => {
                        let end = begin.checked_add(size_in_bits / 8)?;
                        parts.push(StaticRange { begin, end, die, type_ });
                        None
                    }
                    // What is a constant, or in no memory.
                    _ => None,
                };
            }
            Some(parts)
        };
        parts().unwrap_or_default()
    }

    /// The fixed place of a variable, or the fixed address of a COMMON block.
    fn fixed_place_of(&self, die: Die, entry: &Entry<'a>) -> Option<FixedPlace> {
        match entry.attr_value(dw::DW_AT_location) {
            Some(AttributeValue::Exprloc(expression)) => self.fixed_place(die.unit, expression),
            _ => self.static_address(die, entry).map(FixedPlace::Address),
        }
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
            AttributeValue::Exprloc(expression) => match self.fixed_place(die.unit, expression)? {
                FixedPlace::Address(address) => Some(address),
                FixedPlace::ThreadLocal(_) => None,
            },
            _ => None,
        }
    }

    /// The place that a location is: `DW_OP_addr` or `DW_OP_addrx`, plus a constant in a COMMON block; or a constant and
    /// `DW_OP_form_tls_address` or its older name.
    fn fixed_place(&self, unit: u32, expression: gimli::Expression<Slice<'a>>) -> Option<FixedPlace> {
        let parsed = self.unit(unit)?;
        let mut operations = expression.operations(parsed.encoding());
        let mut next = || operations.next().ok();
        let address = match next()?? {
            Operation::Address { address } => address,
            Operation::AddressIndex { index } => self.dwarf_of(unit).address(parsed, index).ok()?,
            constant => {
                let offset = match constant {
                    Operation::UnsignedConstant { value } => value,
                    Operation::SignedConstant { value } => value.cast_unsigned(),
                    Operation::ConstantIndex { index } => self.dwarf_of(unit).address(parsed, index).ok()?,
                    _ => return None,
                };
                let is_whole = matches!(next()?, Some(Operation::TLS)) && next()?.is_none();
                return is_whole.then_some(FixedPlace::ThreadLocal(offset));
            }
        };
        let address = match next()? {
            None => address,
            Some(Operation::PlusConstant { value }) if next()?.is_none() => address.checked_add(value)?,
            Some(_) => return None,
        };
        Some(FixedPlace::Address(address))
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

fn covering(ranges: &[StaticRange], address: u64) -> Option<StaticRange> {
    let after = ranges.partition_point(|range| range.begin <= address);
    // Members of a COMMON block and aliases may share a start.
    ranges[..after].iter().rev().take(8).find(|range| address < range.end).copied()
}
