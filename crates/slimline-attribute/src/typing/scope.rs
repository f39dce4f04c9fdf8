//! What a function's debug information says holds at which address: variables in places, inlined scopes, call targets.

use std::collections::HashMap;

use gimli::{AttributeValue, constants as dw};

use super::debug_info::{DebugInfo, Die, Entry};
use super::location::{FrameBase, Piece, Place};

/// A variable, or a piece of it, is in a place while the instruction pointer is in `begin..end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fact {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) place: Place,
    /// Whether it is never anywhere else.
    pub(super) is_only_place: bool,
    /// Type of the whole variable.
    pub(super) type_: Die,
    /// Byte offset of the piece in the variable, and its size where it isn't all of it.
    pub(super) offset: u64,
    pub(super) bytes: Option<u64>,
    /// The variable.
    pub(super) die: Die,
    /// Number of scopes around it; parameters of the function itself have 0.
    pub(super) depth: u32,
    /// Index in [`FunctionScope::inlined`] of the function that declares it.
    pub(super) inlined: u32,
}

/// A function inlined into the one at hand, or that one itself.
#[derive(Clone, Debug)]
pub(super) struct Inlined {
    /// The abstract function.
    pub(super) origin: Die,
    pub(super) ranges: Vec<(u64, u64)>,
}

/// A function's debug information.
#[derive(Default)]
pub(super) struct FunctionScope {
    pub(super) facts: Vec<Fact>,
    /// Number of variables and parameters described at all; 0 where there are line tables only.
    pub(super) variables: u32,
    /// Outer ones before inner ones.
    pub(super) inlined: Vec<Inlined>,
    /// Called function by return address, where the call site is described.
    pub(super) calls: HashMap<u64, Die>,
}

struct OpenScope {
    depth: isize,
    ranges: Vec<(u64, u64)>,
    inlined: u32,
}

impl<'a> DebugInfo<'a> {
    /// Reads the scopes of the function at `die`; `None` where they are damaged.
    pub(super) fn function_scope(&self, die: Die) -> Option<FunctionScope> {
        let unit = self.unit(die.unit)?;
        let mut cursor = unit.entries_at_offset(die.unit_offset()).ok()?;
        let root = cursor.next_dfs().ok()??;
        let frame = self.frame_base(die, root);
        let ranges = self.code_ranges(die.unit, root);
        let mut scope = FunctionScope::default();
        scope.inlined.push(Inlined { origin: self.origin(die), ranges: ranges.clone() });
        let mut open = vec![OpenScope { depth: root.depth(), ranges, inlined: 0 }];
        // Subtrees deeper than this (types, nested functions) hold nothing of this function's frame.
        let mut skip_below: Option<isize> = None;
        while let Ok(Some(entry)) = cursor.next_dfs() {
            let depth = entry.depth();
            if depth <= open[0].depth {
                break;
            }
            if skip_below.is_some_and(|skip| depth > skip) {
                continue;
            }
            skip_below = None;
            while open.len() > 1 && open.last().is_some_and(|scope| scope.depth >= depth) {
                open.pop();
            }
            let here = Die::new(die.unit as usize, entry.offset())?;
            match entry.tag() {
                dw::DW_TAG_formal_parameter | dw::DW_TAG_variable => {
                    scope.variables += 1;
                    let depth_here = open.len() as u32 - 1;
                    self.add_facts(here, entry, frame, open.last()?, depth_here, &mut scope.facts);
                    skip_below = Some(depth);
                }
                dw::DW_TAG_lexical_block | dw::DW_TAG_try_block | dw::DW_TAG_catch_block => {
                    let ranges = self.code_ranges(here.unit, entry);
                    let ranges = if ranges.is_empty() { open.last()?.ranges.clone() } else { ranges };
                    let inlined = open.last()?.inlined;
                    open.push(OpenScope { depth, ranges, inlined });
                }
                dw::DW_TAG_inlined_subroutine => {
                    let ranges = self.code_ranges(here.unit, entry);
                    scope.inlined.push(Inlined { origin: self.origin(here), ranges: ranges.clone() });
                    let inlined = scope.inlined.len() as u32 - 1;
                    open.push(OpenScope { depth, ranges, inlined });
                }
                dw::DW_TAG_call_site | dw::DW_TAG_GNU_call_site => {
                    if let Some((address, target)) = self.call_site(here, entry) {
                        scope.calls.insert(address, target);
                    }
                    skip_below = Some(depth);
                }
                _ => skip_below = Some(depth),
            }
        }
        Some(scope)
    }

    /// The abstract entry that `die` is an instance of; itself where it is none.
    fn origin(&self, die: Die) -> Die {
        let mut die = die;
        for _ in 0..8 {
            let Some(entry) = self.entry(die) else { break };
            match self.reference(die, &entry, dw::DW_AT_abstract_origin) {
                Some(origin) => die = origin,
                None => break,
            }
        }
        die
    }

    fn call_site(&self, die: Die, entry: &Entry<'a>) -> Option<(u64, Die)> {
        let address = entry.attr_value(dw::DW_AT_call_return_pc).or_else(|| entry.attr_value(dw::DW_AT_low_pc))?;
        let address = self.dwarf_of(die.unit).attr_address(self.unit(die.unit)?, address).ok()??;
        let target = self.reference(die, entry, dw::DW_AT_call_origin);
        // DWARF 4 and gcc call it an abstract origin.
        Some((address, target.or_else(|| self.reference(die, entry, dw::DW_AT_abstract_origin))?))
    }

    fn add_facts(
        &self,
        die: Die,
        entry: &Entry<'a>,
        frame: FrameBase,
        around: &OpenScope,
        depth: u32,
        facts: &mut Vec<Fact>,
    ) {
        let Some(location) = entry.attr_value(dw::DW_AT_location) else { return };
        let Some(type_) = self.type_of(die) else { return };
        let is_only_place = matches!(location, AttributeValue::Exprloc(_));
        let mut add = |begin, end, piece: Piece| {
            let Piece { place, offset, bytes } = piece;
            let inlined = around.inlined;
            facts.push(Fact { begin, end, place, is_only_place, type_, offset, bytes, die, depth, inlined });
        };
        if let AttributeValue::Exprloc(expression) = location {
            for piece in self.pieces(die.unit, expression, frame) {
                around.ranges.iter().for_each(|&(begin, end)| add(begin, end, piece));
            }
            return;
        }
        let Some(unit) = self.unit(die.unit) else { return };
        let Ok(Some(mut list)) = self.dwarf_of(die.unit).attr_locations(unit, location) else { return };
        while let Ok(Some(at)) = list.next() {
            for piece in self.pieces(die.unit, at.data, frame) {
                add(at.range.begin, at.range.end, piece);
            }
        }
    }

    /// First address of the function, as calls name it: compilers list the part first that it is entered by.
    pub(super) fn entry_address(&self, die: Die) -> Option<u64> {
        self.code_ranges(die.unit, &self.entry(die)?).first().map(|range| range.0)
    }
}
