//! Debug information that no compiler writes: types within themselves, and types that double at each step. Whatever is asked
//! of it has an answer, soon.

use std::sync::Arc;

use gimli::constants as dw;
use gimli::write::{Address, AttributeValue, DwarfUnit, EndianVec, Expression, Sections, UnitEntryId};
use gimli::{DwAt, DwTag, Encoding, EndianSlice, Format, LittleEndian};
use slimline_attribute::tables::{Member, Type};
use slimline_attribute::typing::debug_info::{DebugInfo, Dwarf};
use slimline_attribute::typing::element::holds;
use slimline_attribute::typing::layout::TypeTable;
use slimline_attribute::typing::leaves::{holes, leaves};
use slimline_trace::address::Svma;

/// Types each of which names the one before twice: more ways than anybody can go.
const DOUBLINGS: usize = 60;
/// Types each of which holds the one before: more than a thread's stack has room for.
const CHAIN: usize = 50_000;

/// A unit under construction.
struct Forge(DwarfUnit);

impl Forge {
    fn new(language: gimli::DwLang) -> Self {
        let mut unit = DwarfUnit::new(Encoding { format: Format::Dwarf32, version: 4, address_size: 8 });
        let root = unit.unit.root();
        unit.unit.get_mut(root).set(dw::DW_AT_language, AttributeValue::Language(language));
        Self(unit)
    }

    fn add(&mut self, tag: DwTag) -> UnitEntryId {
        let root = self.0.unit.root();
        self.add_in(root, tag)
    }

    fn add_in(&mut self, parent: UnitEntryId, tag: DwTag) -> UnitEntryId {
        self.0.unit.add(parent, tag)
    }

    fn set(&mut self, entry: UnitEntryId, name: DwAt, value: AttributeValue) {
        self.0.unit.get_mut(entry).set(name, value);
    }

    fn refer(&mut self, entry: UnitEntryId, name: DwAt, to: UnitEntryId) {
        self.set(entry, name, AttributeValue::UnitRef(to));
    }

    fn name(&mut self, entry: UnitEntryId, name: &str) {
        self.set(entry, dw::DW_AT_name, AttributeValue::String(name.into()));
    }

    fn structure(&mut self, tag: DwTag, bytes: u64) -> UnitEntryId {
        let entry = self.add(tag);
        self.set(entry, dw::DW_AT_byte_size, AttributeValue::Udata(bytes));
        entry
    }

    fn member(&mut self, of: UnitEntryId, name: Option<&str>, offset: u64, type_: UnitEntryId) {
        let member = self.add_in(of, dw::DW_TAG_member);
        if let Some(name) = name {
            self.name(member, name);
        }
        self.set(member, dw::DW_AT_data_member_location, AttributeValue::Udata(offset));
        self.refer(member, dw::DW_AT_type, type_);
    }

    /// `struct root` of 8 bytes, whose members are of these types.
    fn root(&mut self, members: &[UnitEntryId]) -> UnitEntryId {
        let root = self.structure(dw::DW_TAG_structure_type, 8);
        self.name(root, "root");
        members.iter().for_each(|&type_| self.member(root, Some("field"), 0, type_));
        root
    }

    fn pointer(&mut self, to: UnitEntryId) -> UnitEntryId {
        let pointer = self.add(dw::DW_TAG_pointer_type);
        self.refer(pointer, dw::DW_AT_type, to);
        pointer
    }

    fn info(mut self) -> DebugInfo<'static> {
        let mut sections = Sections::new(EndianVec::new(LittleEndian));
        // Entries within entries are written by recursion.
        std::thread::scope(|scope| {
            let write = || self.0.write(&mut sections).unwrap();
            std::thread::Builder::new().stack_size(256 << 20).spawn_scoped(scope, write).unwrap().join().unwrap();
        });
        let load = |id| -> Result<_, gimli::Error> {
            let bytes = sections.get(id).map(|section| section.slice().to_vec()).unwrap_or_default();
            Ok(EndianSlice::new(bytes.leak(), LittleEndian))
        };
        DebugInfo::new(Arc::new(Dwarf::load(load).unwrap()))
    }

    /// The rows of `struct root` and what it is made of, asked everything.
    fn rows(self) -> Vec<Type> {
        let info = self.info();
        let mut table = TypeTable::new();
        let id = info.type_named("root", &mut table).expect("a row of its own");
        let rows = table.into_rows();
        leaves(&rows, id);
        holes(&rows, id);
        holds(&rows, id, slimline_attribute::tables::TypeId(u32::MAX));
        rows
    }
}

/// The members of `struct root`.
fn members(rows: &[Type]) -> &[Member] {
    &rows.iter().find(|row| row.name.contains("root")).unwrap().members
}

/// The type of the only one, as it is spelled.
fn spelled(rows: &[Type]) -> &str {
    &members(rows)[0].type_name
}

#[test]
fn an_enumeration_whose_type_is_itself_has_no_size() {
    let mut forge = Forge::new(dw::DW_LANG_C11);
    let enumeration = forge.add(dw::DW_TAG_enumeration_type);
    forge.refer(enumeration, dw::DW_AT_type, enumeration);
    forge.root(&[enumeration]);
    assert!(members(&forge.rows()).is_empty());
}

#[test]
fn a_pointer_to_a_member_of_itself_has_a_name() {
    let mut forge = Forge::new(dw::DW_LANG_C_plus_plus_14);
    let pointer = forge.add(dw::DW_TAG_ptr_to_member_type);
    forge.set(pointer, dw::DW_AT_byte_size, AttributeValue::Udata(8));
    forge.refer(pointer, dw::DW_AT_containing_type, pointer);
    forge.refer(pointer, dw::DW_AT_type, pointer);
    forge.root(&[pointer]);
    assert!(spelled(&forge.rows()).contains('?'));
}

#[test]
fn a_type_whose_signature_leads_to_itself_is_unnamed() {
    let mut forge = Forge::new(dw::DW_LANG_C11);
    let structure = forge.add(dw::DW_TAG_structure_type);
    forge.refer(structure, dw::DW_AT_signature, structure);
    let pointer = forge.pointer(structure);
    forge.root(&[pointer]);
    assert_eq!(spelled(&forge.rows()), "struct {…} *");
}

#[test]
fn a_structure_that_holds_itself_twice_is_one_row() {
    let mut forge = Forge::new(dw::DW_LANG_C11);
    let root = forge.root(&[]);
    forge.member(root, Some("a"), 0, root);
    forge.member(root, Some("b"), 0, root);
    let rows = forge.rows();
    assert_eq!((rows.len(), members(&rows).len()), (1, 2));
}

#[test]
fn blocks_within_blocks_have_no_address() {
    let check = || {
        let mut forge = Forge::new(dw::DW_LANG_Fortran08);
        let mut block = forge.add(dw::DW_TAG_common_block);
        for _ in 0..3000 {
            block = forge.add_in(block, dw::DW_TAG_common_block);
        }
        let type_ = forge.structure(dw::DW_TAG_base_type, 8);
        forge.name(type_, "real");
        let variable = forge.add_in(block, dw::DW_TAG_variable);
        let mut location = Expression::new();
        location.op_addr(Address::Constant(0x1000));
        forge.set(variable, dw::DW_AT_location, AttributeValue::Exprloc(location));
        forge.refer(variable, dw::DW_AT_type, type_);
        forge.name(variable, "x");
        forge.name(block, "inner");
        let (info, mut table) = (forge.info(), TypeTable::new());
        assert_eq!(info.static_at(Svma(0x1000), &mut table).expect("the innermost one").bytes, 8);
        assert_eq!(info.static_at(Svma(0x2000), &mut table), None);
    };
    // So small that it shows if each block within a block takes a piece.
    std::thread::Builder::new().stack_size(256 << 10).spawn(check).unwrap().join().unwrap();
}

#[test]
fn a_long_chain_of_structures_is_followed_a_part_of_the_way() {
    let mut forge = Forge::new(dw::DW_LANG_C_plus_plus_14);
    let mut type_ = forge.structure(dw::DW_TAG_base_type, 1);
    for _ in 0..CHAIN {
        let outer = forge.structure(dw::DW_TAG_structure_type, 1);
        forge.member(outer, Some("m"), 0, type_);
        type_ = outer;
    }
    forge.root(&[type_]);
    assert!(forge.rows().len() < 100);
}

#[test]
fn typedefs_and_arrays_in_a_circle_are_nothing() {
    for tag in [dw::DW_TAG_typedef, dw::DW_TAG_array_type, dw::DW_TAG_const_type, dw::DW_TAG_subrange_type] {
        let mut forge = Forge::new(dw::DW_LANG_C11);
        let [first, second] = [(); 2].map(|()| forge.add(tag));
        forge.refer(first, dw::DW_AT_type, second);
        forge.refer(second, dw::DW_AT_type, first);
        let pointer = forge.pointer(first);
        forge.root(&[first, pointer]);
        assert_eq!(members(&forge.rows()).len(), 1, "{tag}");
    }
}

#[test]
fn functions_of_functions_have_a_name_of_some_length() {
    let mut forge = Forge::new(dw::DW_LANG_C11);
    let mut type_ = forge.structure(dw::DW_TAG_base_type, 4);
    for _ in 0..DOUBLINGS {
        let function = forge.add(dw::DW_TAG_subroutine_type);
        for _ in 0..2 {
            let parameter = forge.add_in(function, dw::DW_TAG_formal_parameter);
            forge.refer(parameter, dw::DW_AT_type, type_);
        }
        type_ = function;
    }
    let pointer = forge.pointer(type_);
    forge.root(&[pointer]);
    let rows = forge.rows();
    assert!((100..100_000).contains(&spelled(&rows).len()), "{}", spelled(&rows).len());
}

#[test]
fn unions_of_unions_have_leaves() {
    for tag in [dw::DW_TAG_union_type, dw::DW_TAG_structure_type] {
        let mut forge = Forge::new(dw::DW_LANG_C11);
        let mut type_ = forge.structure(dw::DW_TAG_base_type, 8);
        for _ in 0..DOUBLINGS {
            let outer = forge.structure(tag, 8);
            forge.member(outer, None, 0, type_);
            forge.member(outer, None, 0, type_);
            type_ = outer;
        }
        forge.root(&[type_, type_]);
        assert!(forge.rows().len() < 100);
    }
}

#[test]
fn sizes_that_no_memory_has_are_none() {
    let mut forge = Forge::new(dw::DW_LANG_C11);
    let huge = forge.structure(dw::DW_TAG_base_type, u64::MAX);
    let word = forge.structure(dw::DW_TAG_base_type, 8);
    let root = forge.root(&[huge, word]);
    forge.member(root, Some("far"), u64::MAX - 3, word);
    let rows = forge.rows();
    assert_eq!(members(&rows).len(), 1, "{:?}", members(&rows));
}

#[test]
fn code_that_reaches_beyond_all_addresses_is_nowhere() {
    let mut forge = Forge::new(dw::DW_LANG_C11);
    let unit = forge.0.unit.root();
    let function = forge.add(dw::DW_TAG_subprogram);
    for entry in [unit, function] {
        forge.set(entry, dw::DW_AT_low_pc, AttributeValue::Address(Address::Constant(0x1000)));
        forge.set(entry, dw::DW_AT_high_pc, AttributeValue::Udata(u64::MAX - 7));
    }
    assert!(forge.info().frame_layout(&[0xc3], Svma(0x1000)).is_none());
}
