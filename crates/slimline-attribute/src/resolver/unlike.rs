//! Unlike things that one source line allocates are not one data structure: `allocate(cells(n), a(m, m))`, or the nodes and
//! the buckets of a hash table, whose allocations lie in the library.
//!
//! What an instruction allocates is asked for only where a line allocates by several: a copy that the compiler made of one says the
//! same as that, or nothing.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use slimline_trace::access::GroupId;
use slimline_trace::address::Svma;

use crate::data::address_space::Modules;
use crate::tables::{Element, TypeId};
use crate::typing::debug_info::DebugInfo;
use crate::typing::heap::{ANY_BYTES, Allocation, AllocationFrame, HeldIn, Holder, allocation};
use crate::typing::layout::TypeTable;
use crate::typing::library_strings::Characters;

/// A call of an allocation's path: number of its module, and where in that it returns to.
pub(super) type Call = (usize, Svma);

/// What the blocks are that `calls` (innermost first) allocate; `bytes` as [`allocation`] has them.
pub(super) fn allocated(modules: &Modules<'_>, calls: &[Call], bytes: u64, table: &mut TypeTable) -> Allocation {
    let frame = |&(module, return_address): &Call| {
        let module = modules.get(module);
        let bounds = module.function_bounds(Svma(return_address.0.wrapping_sub(1)))?;
        let code = module.code(bounds)?;
        let has_types = module.debug_info().is_some();
        let characters = if has_types { None } else { Characters::of_method(&module.linked_name(bounds.0)) };
        Some(AllocationFrame { info: module.debug_info(), code, begin: bounds.0, return_address, characters })
    };
    allocation(&calls.iter().filter_map(frame).collect::<Vec<_>>(), bytes, table)
}

/// What tells blocks of one line from others of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Made {
    /// What they are arrays of, but bytes, which say nothing of what is in them unless they are a string's.
    element: Option<TypeId>,
    /// The static or member that their address is stored to; in Fortran the variable, too.
    held_in: Option<String>,
}

/// The groups of lines that allocate by several instructions.
#[derive(Default)]
pub(super) struct Unlike {
    /// By a line's first group.
    lines: FxHashMap<GroupId, Line>,
    made: FxHashMap<Rc<[Call]>, Made>,
    table: TypeTable,
}

/// The groups of one line.
#[derive(Default)]
struct Line {
    by_calls: FxHashMap<Rc<[Call]>, GroupId>,
    /// Once several calls were met.
    by_made: FxHashMap<Made, GroupId>,
}

impl Unlike {
    /// Notes which calls make the blocks of a line's new group; `first` is the line's first one.
    pub(super) fn insert(&mut self, modules: &Modules<'_>, first: GroupId, group: GroupId, calls: &Rc<[Call]>) {
        let line = self.lines.entry(first).or_default();
        line.by_calls.insert(Rc::clone(calls), group);
        if group != first {
            let made = made(&mut self.made, &mut self.table, modules, calls);
            line.by_made.insert(made, group);
        }
    }

    /// Of the groups of the line whose first one is `first`, the one whose blocks are as those that `calls` make; `None` where
    /// none is. What nothing is known of is of the first one.
    pub(super) fn find(&mut self, modules: &Modules<'_>, first: GroupId, calls: &Rc<[Call]>) -> Option<GroupId> {
        let Self { lines, made: known, table } = self;
        let line = lines.get_mut(&first)?;
        if let Some(group) = line.by_calls.get(calls) {
            return Some(*group);
        }
        if line.by_made.is_empty() {
            let of_first = line.by_calls.keys().next().cloned().unwrap_or_default();
            line.by_made.insert(made(known, table, modules, &of_first), first);
        }
        let own = made(known, table, modules, calls);
        let group = if own == Made::default() { first } else { *line.by_made.get(&own)? };
        line.by_calls.insert(Rc::clone(calls), group);
        Some(group)
    }
}

fn made(
    known: &mut FxHashMap<Rc<[Call]>, Made>,
    table: &mut TypeTable,
    modules: &Modules<'_>,
    calls: &Rc<[Call]>,
) -> Made {
    known.entry(Rc::clone(calls)).or_insert_with(|| Made::by(modules, calls, table)).clone()
}

impl Made {
    fn by(modules: &Modules<'_>, calls: &[Call], table: &mut TypeTable) -> Self {
        let found = allocated(modules, calls, ANY_BYTES, table);
        let says_something = |element: &Element| element.bytes > 1 || found.is_string;
        let element = found.element.filter(says_something).map(|element| element.type_id);
        // One statement of Fortran allocates several variables.
        let is_fortran = calls
            .last()
            .is_some_and(|&(module, _)| modules.get(module).debug_info().is_some_and(DebugInfo::has_fortran));
        let tells = |holder: &Holder| match holder.held_in {
            HeldIn::Memory => true,
            HeldIn::Variable => is_fortran,
            HeldIn::Container | HeldIn::Constructor => false,
        };
        let holder = found.holder.filter(tells);
        Self { element, held_in: holder.map(|holder| holder.name) }
    }
}
