//! One pass over a unit: what encloses what, where functions are, which variables have a fixed address.

use std::collections::HashMap;

use gimli::{AttributeValue, constants as dw};
use slimline_trace::address::Svma;

use super::debug_info::{DebugInfo, Die, is_aggregate, is_declared_only};

/// What can only be found by walking a whole unit.
#[derive(Default)]
pub(super) struct UnitIndex {
    /// (entry, entry around it) of named scopes and types, in order of offset.
    parents: Vec<(u32, u32)>,
    /// (begin, end, entry) of functions with code, in order of address.
    functions: Vec<(u64, u64, u32)>,
    /// Typedef that names an anonymous structure, by the structure's offset.
    typedefs: HashMap<u32, u32>,
    /// Structures, classes and unions that are defined in it, those within functions too.
    pub(super) aggregates: Vec<u32>,
    /// Typedefs of types that are in other units: those without a name have theirs of these.
    pub(super) foreign_typedefs: Vec<u32>,
    /// Variables whose location is one expression (statics and, unoptimized, locals), and COMMON blocks.
    pub(super) variables: Vec<u32>,
}

impl UnitIndex {
    /// Walks the unit; `None` where it is damaged.
    pub(super) fn read(info: &DebugInfo<'_>, unit: u32) -> Option<Self> {
        let parsed = info.unit(unit)?;
        let mut index = Self::default();
        // Open entries: offset and depth of those that name what is in them.
        let mut open: Vec<(u32, isize)> = Vec::new();
        // Depth of the COMMON block that the entries at hand are of.
        let mut common: Option<isize> = None;
        let mut cursor = parsed.entries();
        while let Ok(Some(entry)) = cursor.next_dfs() {
            let Some(die) = Die::new(unit as usize, entry.offset()) else { break };
            let (offset, depth, tag) = (die.offset, entry.depth(), entry.tag());
            while open.last().is_some_and(|&(_, other)| other >= depth) {
                open.pop();
            }
            let scope = is_aggregate(tag)
                || matches!(tag, dw::DW_TAG_namespace | dw::DW_TAG_subprogram | dw::DW_TAG_enumeration_type);
            let named = scope || matches!(tag, dw::DW_TAG_typedef | dw::DW_TAG_variable | dw::DW_TAG_member);
            if let Some(&(parent, _)) = open.last().filter(|_| named) {
                index.parents.push((offset, parent));
            }
            common = common.filter(|&common| depth > common);
            if is_aggregate(tag) && !is_declared_only(entry) {
                index.aggregates.push(offset);
            }
            match tag {
                dw::DW_TAG_subprogram => {
                    let ranges = info.code_ranges(unit, entry);
                    index.functions.extend(ranges.into_iter().map(|(start, end)| (start, end, offset)));
                }
                dw::DW_TAG_typedef => match entry.attr_value(dw::DW_AT_type) {
                    Some(AttributeValue::UnitRef(target)) => {
                        if let Ok(target) = u32::try_from(target.0) {
                            index.typedefs.entry(target).or_insert(offset);
                        }
                    }
                    Some(_) => index.foreign_typedefs.push(offset),
                    None => {}
                },
                dw::DW_TAG_common_block => {
                    common = Some(depth);
                    index.variables.push(offset);
                }
                // Those of a COMMON block are its members.
                dw::DW_TAG_variable if common.is_none_or(|common| depth <= common) => {
                    if let Some(AttributeValue::Exprloc(_)) = entry.attr_value(dw::DW_AT_location) {
                        index.variables.push(offset);
                    }
                }
                _ => {}
            }
            if scope && entry.has_children() {
                open.push((offset, depth));
            }
        }
        index.functions.sort_unstable();
        Some(index)
    }

    /// The scope or type that encloses the entry at `offset`; `None` at the unit's top.
    pub(super) fn parent(&self, offset: u32) -> Option<u32> {
        let found = self.parents.binary_search_by_key(&offset, |entry| entry.0).ok()?;
        Some(self.parents[found].1)
    }

    /// The function that covers an address.
    pub(super) fn function_at(&self, address: u64) -> Option<u32> {
        let after = self.functions.partition_point(|range| range.0 <= address);
        self.functions[..after].iter().rev().take(8).find(|range| address < range.1).map(|range| range.2)
    }

    /// Where functions begin, with their entries, in order of address.
    pub(super) fn functions(&self) -> impl Iterator<Item = (Svma, u32)> {
        self.functions.iter().map(|&(begin, _, entry)| (Svma(begin), entry))
    }

    /// The typedef whose target is the entry at `offset`.
    pub(super) fn typedef_of(&self, offset: u32) -> Option<u32> {
        self.typedefs.get(&offset).copied()
    }
}
