//! Structures that other modules know, by the functions and variables that a module exports.
//!
//! Who is built against a library's headers has the layouts of the structures that its functions take and return. What is defined in a
//! source file of C or C++ nobody else can know, whatever pointers to it are handed out.
//!
//! Only structures that are asked for get rows: a library exports thousands of functions, whose parameters hold thousands of types.

use std::borrow::Cow;
use std::rc::Rc;

use gimli::constants as dw;
use rustc_hash::FxHashMap;
use slimline_trace::address::Svma;

use super::debug_info::{DebugInfo, Die, flag, is_aggregate, is_declared_only};
use super::effort::MAX_DEPTH;
use super::layout::TypeTable;
use super::shape::is_transparent;
use crate::module::Exports;
use crate::tables::{Language, SourcePosition, TypeId};

/// Pointers, arrays and names from one type to the next.
const MOST_STEPS: u32 = 32;
/// Functions and variables that are named for a structure.
const MOST_NAMED: usize = 3;
/// Endings of C's and C++'s source files, and of those that become such.
const SOURCES: [&str; 18] =
    ["c", "cc", "cp", "cpp", "cxx", "c++", "C", "i", "ii", "m", "mm", "cu", "y", "yy", "l", "ll", "re", "rl"];

/// A structure, class or union that other modules know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedType {
    /// Its row.
    pub type_id: TypeId,
    /// Where functions and variables are declared that are exported and have it: the first few.
    pub by: Vec<SourcePosition>,
}

impl<'a> DebugInfo<'a> {
    /// The structures that exported functions take or return, and that exported variables are of, with those that these hold by value:
    /// of them those whose unqualified names are `wanted`. Types are rows of `table`.
    pub fn exported_types(
        &self,
        exports: &Exports,
        wanted: &dyn Fn(&str) -> bool,
        table: &mut TypeTable,
    ) -> Vec<ExportedType> {
        let mut search = Search { info: self, wanted, holds: FxHashMap::default() };
        let mut found: Vec<ExportedType> = Vec::new();
        for die in self.exported(exports) {
            for structure in search.known_by(die) {
                let Some((type_id, at)) = self.row(structure, table).zip(self.declared_at(die)) else { continue };
                let place = found.iter().position(|known| known.type_id == type_id).unwrap_or(found.len());
                if place == found.len() {
                    found.push(ExportedType { type_id, by: Vec::new() });
                }
                let by = &mut found[place].by;
                if by.len() < MOST_NAMED && !by.contains(&at) {
                    by.push(at);
                }
            }
        }
        found
    }

    /// Entries of functions and variables: by address, as names are others where symbols have versions or are aliases, and functions of several
    /// files may have one name.
    fn exported(&self, exports: &Exports) -> Vec<Die> {
        let mut units: Vec<u32> = match exports.variables.is_empty() {
            true => exports.functions.iter().filter_map(|at| self.unit_at(at.0)).collect(),
            // Which units have variables only all of them tell.
            false => (0..self.unit_count()).collect(),
        };
        units.sort_unstable();
        units.dedup();
        let mut found = Vec::new();
        for unit in units {
            let index = self.index(unit);
            let functions = index.functions().filter(|(begin, _)| exports.functions.contains(begin));
            found.extend(functions.map(|(_, offset)| self.written(Die { unit, offset })));
            let is_exported = |die: &Die| {
                let address = self.entry(*die).and_then(|entry| self.static_address(*die, &entry));
                address.is_some_and(|address| exports.variables.contains(&Svma(address)))
            };
            let variables = index.variables.iter().map(|&offset| Die { unit, offset });
            found.extend(variables.filter(|die| !exports.variables.is_empty() && is_exported(die)));
        }
        found
    }

    /// The definition of the structure that a type is, in arrays and by other names, too; with `pointed` also that of one that it points to.
    fn structure_of(&self, type_: Die, pointed: bool) -> Option<Die> {
        let mut die = type_;
        for _ in 0..MOST_STEPS {
            let entry = self.entry(die)?;
            let is_pointer = matches!(
                entry.tag(),
                dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type
            );
            die = match entry.tag() {
                tag if is_aggregate(tag) && is_declared_only(&entry) => return self.definition(die, &entry),
                tag if is_aggregate(tag) => return Some(die),
                tag if is_transparent(tag) || tag == dw::DW_TAG_array_type || is_pointer && pointed => {
                    self.reference(die, &entry, dw::DW_AT_type)?
                }
                _ => return None,
            };
        }
        None
    }

    /// Whether who uses a module can have the definition: of C and C++ if it is in a header.
    fn is_known_outside(&self, structure: Die) -> bool {
        if !matches!(self.language(structure.unit), Language::C | Language::Cpp) {
            return true;
        }
        self.declared_at(structure).is_some_and(|at| {
            let name = at.file.rsplit('/').next().unwrap_or_default();
            name.rsplit_once('.').is_none_or(|(_, ending)| !SOURCES.contains(&ending))
        })
    }

    /// The function of that name that was inlined into code which nobody wrote, as slimline puts such in front of functions that it instruments; else
    /// the function itself.
    fn written(&self, function: Die) -> Die {
        let mut inlined = Vec::new();
        if self.entry(function).is_some_and(|entry| flag(&entry, dw::DW_AT_artificial)) {
            self.for_each_child(function, |die, entry| {
                if entry.tag() == dw::DW_TAG_inlined_subroutine {
                    inlined.extend(self.reference(die, entry, dw::DW_AT_abstract_origin));
                }
            });
        }
        let name = self.name(function);
        inlined.into_iter().find(|&die| self.name(die) == name).unwrap_or(function)
    }

    /// As the source calls it: one without a name by its `typedef`.
    fn short_name(&self, structure: Die) -> Option<Cow<'a, str>> {
        let named = |offset| self.name(Die { unit: structure.unit, offset });
        self.name(structure).or_else(|| named(self.index(structure.unit).typedef_of(structure.offset)?))
    }
}

/// A search through what structures hold.
struct Search<'s, 'a> {
    info: &'s DebugInfo<'a>,
    wanted: &'s dyn Fn(&str) -> bool,
    /// What is wanted of a structure and what it holds by value, as far as it is known outside.
    holds: FxHashMap<Die, Rc<[Die]>>,
}

impl Search<'_, '_> {
    /// Structures that who uses an exported function or variable knows.
    fn known_by(&mut self, die: Die) -> Vec<Die> {
        let mut types = vec![self.info.type_of(die)];
        self.info.for_each_child(die, |die, entry| {
            if entry.tag() == dw::DW_TAG_formal_parameter {
                types.push(self.info.type_of(die));
            }
        });
        let structures = types.into_iter().flatten().filter_map(|type_| self.info.structure_of(type_, true));
        let mut known: Vec<Die> = Vec::new();
        for structure in structures.collect::<Vec<_>>() {
            known.extend(&*self.held(structure, MAX_DEPTH));
        }
        known.sort_unstable();
        known.dedup();
        known
    }

    fn held(&mut self, structure: Die, depth: u32) -> Rc<[Die]> {
        if let Some(known) = self.holds.get(&structure) {
            return Rc::clone(known);
        }
        // Of a damaged one that holds itself nothing more.
        self.holds.insert(structure, Rc::new([]));
        let mut found: Vec<Die> = Vec::new();
        if depth > 0 && self.info.is_known_outside(structure) {
            found.extend(self.info.short_name(structure).filter(|name| (self.wanted)(name)).map(|_| structure));
            let mut members = Vec::new();
            self.info.for_each_child(structure, |die, entry| {
                if matches!(entry.tag(), dw::DW_TAG_member | dw::DW_TAG_inheritance) {
                    members.push(die);
                }
            });
            for member in members {
                let type_ = self.info.type_of(member);
                if let Some(inner) = type_.and_then(|type_| self.info.structure_of(type_, false)) {
                    found.extend(&*self.held(inner, depth - 1));
                }
            }
            found.sort_unstable();
            found.dedup();
        }
        let found: Rc<[Die]> = found.into();
        self.holds.insert(structure, Rc::clone(&found));
        found
    }
}
