//! Structures that other modules know, by the functions and variables that a module exports.
//!
//! Who is built against a library's headers has the layouts of the structures that its functions take and return. What is defined in a
//! source file of C or C++ nobody else can know, whatever pointers to it are handed out.

use gimli::constants as dw;
use rustc_hash::{FxHashMap, FxHashSet};

use super::debug_info::{DebugInfo, Die, Entry, flag, is_aggregate};
use super::effort::{Descent, Effort};
use super::layout::TypeTable;
use super::shape::is_transparent;
use crate::tables::{SourcePosition, TypeId};

/// Types that are gone through for one function or variable.
const MOST_TYPES: u32 = 4096;
/// Pointers, arrays and names from one type to the next.
const MOST_STEPS: u32 = 32;
/// Namespaces within each other that are looked into.
const MOST_NAMESPACES: u32 = 32;
/// Functions and variables that are named for a structure.
const MOST_NAMED: usize = 3;
/// Endings of C's and C++'s source files, what their preprocessors made included.
const SOURCES: [&str; 9] = ["c", "cc", "cp", "cpp", "cxx", "c++", "C", "i", "ii"];

/// A structure, class or union that other modules know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedType {
    /// Its row.
    pub type_id: TypeId,
    /// Where functions and variables are declared that are exported and have it: the first few.
    pub by: Vec<SourcePosition>,
}

impl DebugInfo<'_> {
    /// The structures that exported functions take or return, and that exported variables are of, with those that these hold by value;
    /// types are rows of `table`. `is_exported` knows symbols by their linked names.
    pub fn exported_types(&self, is_exported: &dyn Fn(&str) -> bool, table: &mut TypeTable) -> Vec<ExportedType> {
        let mut found: Vec<ExportedType> = Vec::new();
        let mut places: FxHashMap<TypeId, usize> = FxHashMap::default();
        for root in (0..self.unit_count()).filter_map(|unit| self.root(unit)) {
            self.for_each_exported(root, is_exported, MOST_NAMESPACES, &mut |die| {
                let Some(at) = self.declared_at(die) else { return };
                for type_ in self.known_by(die) {
                    let Some(type_id) = self.row(type_, table) else { continue };
                    let place = *places.entry(type_id).or_insert(found.len());
                    if place == found.len() {
                        found.push(ExportedType { type_id, by: Vec::new() });
                    }
                    let by = &mut found[place].by;
                    if by.len() < MOST_NAMED && !by.contains(&at) {
                        by.push(at.clone());
                    }
                }
            });
        }
        found
    }

    fn for_each_exported(
        &self,
        scope: Die,
        is_exported: &dyn Fn(&str) -> bool,
        namespaces: u32,
        visit: &mut dyn FnMut(Die),
    ) {
        let mut inner = Vec::new();
        let is_one = |die: Die, entry: &Entry<'_>| {
            matches!(entry.tag(), dw::DW_TAG_subprogram | dw::DW_TAG_variable)
                && !flag(entry, dw::DW_AT_declaration)
                && self.linked_name(die).is_some_and(is_exported)
        };
        self.for_each_child(scope, |die, entry| match entry.tag() {
            dw::DW_TAG_namespace if namespaces > 0 => inner.push(die),
            _ if is_one(die, entry) => visit(die),
            _ => {}
        });
        for scope in inner {
            self.for_each_exported(scope, is_exported, namespaces - 1, visit);
        }
    }

    /// The name that a linker knows it by.
    fn linked_name(&self, die: Die) -> Option<&str> {
        let linked = self.inherited(die, |die, entry| {
            [dw::DW_AT_linkage_name, dw::DW_AT_MIPS_linkage_name]
                .into_iter()
                .find_map(|name| self.text(die, entry, name))
        });
        linked.or_else(|| self.name(die))
    }

    /// Structures that who uses an exported function or variable knows.
    fn known_by(&self, die: Die) -> FxHashSet<Die> {
        let mut known = FxHashSet::default();
        let effort = Effort::of(MOST_TYPES);
        let mut add = |type_: Option<Die>| {
            if let Some(structure) = type_.and_then(|type_| self.structure_of(type_, true)) {
                self.add_with_members(structure, effort.begin(), &mut known);
            }
        };
        add(self.type_of(die));
        let mut parameters = Vec::new();
        self.for_each_child(die, |die, entry| {
            if entry.tag() == dw::DW_TAG_formal_parameter {
                parameters.push(die);
            }
        });
        parameters.into_iter().for_each(|parameter| add(self.type_of(parameter)));
        known
    }

    fn add_with_members(&self, structure: Die, descent: Descent<'_>, known: &mut FxHashSet<Die>) {
        let Some(descent) = descent.deeper() else { return };
        if !self.is_in_header(structure) || !known.insert(structure) {
            return;
        }
        for field in self.fields(structure).iter() {
            if let Some(inner) = self.structure_of(field.type_, false) {
                self.add_with_members(inner, descent, known);
            }
        }
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

    fn is_in_header(&self, structure: Die) -> bool {
        let ending =
            |file: &str| file.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, end)| end.to_owned());
        self.declared_at(structure)
            .is_some_and(|at| !ending(&at.file).is_some_and(|end| SOURCES.contains(&end.as_str())))
    }
}

fn is_declared_only(entry: &Entry<'_>) -> bool {
    flag(entry, dw::DW_AT_declaration) || entry.has_attr(dw::DW_AT_signature)
}
