//! Unlike things that one source line allocates are not one data structure: `allocate(cells(n), a(m, m))`, or the nodes and
//! the buckets of a hash table, whose allocations lie in the library.
//!
//! What an instruction allocates is asked for only where a line allocates by several: a copy that the compiler made of one
//! says the same as that, or nothing, and makes nothing else.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use slimline_trace::access::GroupId;
use slimline_trace::address::Svma;

use crate::data::address_space::Modules;
use crate::tables::TypeId;
use crate::typing::heap::{ANY_BYTES, Allocation, AllocationFrame, HeldIn, allocation};
use crate::typing::layout::TypeTable;

/// A call of an allocation's path: number of its module, and where in that it returns to.
pub(super) type Call = (usize, Svma);

/// What the blocks are that `calls` (innermost first) allocate; `bytes` as [`allocation`] has them.
pub(super) fn allocated(modules: &Modules<'_>, calls: &[Call], bytes: u64, table: &mut TypeTable) -> Allocation {
    let frame = |&(module, return_address): &Call| {
        let module = modules.get(module);
        let bounds = module.function_bounds(Svma(return_address.0.wrapping_sub(1)))?;
        let code = module.code(bounds)?;
        Some(AllocationFrame { info: module.debug_info(), code, begin: bounds.0, return_address })
    };
    allocation(&calls.iter().filter_map(frame).collect::<Vec<_>>(), bytes, table)
}

/// What tells blocks of one line from others of it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Made {
    /// What they are arrays of, but bytes, which say nothing of what is in them.
    element: Option<TypeId>,
    /// The static or member that their address is stored to.
    held_in: Option<String>,
}

impl Made {
    fn is_unlike(&self, other: &Self) -> bool {
        fn differ<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.zip(other).is_some_and(|(one, other)| one != other)
        }
        differ(self.element.as_ref(), other.element.as_ref()) || differ(self.held_in.as_ref(), other.held_in.as_ref())
    }
}

/// The groups of lines that allocate by several instructions.
#[derive(Default)]
pub(super) struct Unlike {
    /// By a line's first group.
    groups: FxHashMap<GroupId, Vec<Alike>>,
    made: FxHashMap<Rc<[Call]>, Made>,
    table: TypeTable,
}

/// Calls that make blocks of one group.
struct Alike {
    group: GroupId,
    calls: Vec<Rc<[Call]>>,
}

impl Unlike {
    /// Notes what makes the blocks of a line's new group, of which `first` is the line's first one.
    pub(super) fn insert(&mut self, first: GroupId, group: GroupId, calls: &Rc<[Call]>) {
        self.groups.entry(first).or_default().push(Alike { group, calls: vec![Rc::clone(calls)] });
    }

    /// Of the groups of the line whose first one is `first`, the one whose blocks are like those that `calls` make.
    pub(super) fn find(&mut self, modules: &Modules<'_>, first: GroupId, calls: &Rc<[Call]>) -> Option<GroupId> {
        let groups = self.groups.get_mut(&first)?;
        if let Some(known) = groups.iter().find(|alike| alike.calls.contains(calls)) {
            return Some(known.group);
        }
        let mut made = |calls: &Rc<[Call]>| {
            let table = &mut self.table;
            self.made.entry(Rc::clone(calls)).or_insert_with(|| Made::by(modules, calls, table)).clone()
        };
        let own = made(calls);
        let alike = groups.iter_mut().find(|alike| !alike.calls.iter().any(|calls| own.is_unlike(&made(calls))))?;
        alike.calls.push(Rc::clone(calls));
        Some(alike.group)
    }
}

impl Made {
    fn by(modules: &Modules<'_>, calls: &[Call], table: &mut TypeTable) -> Self {
        let found = allocated(modules, calls, ANY_BYTES, table);
        let element = found.element.filter(|element| element.bytes > 1).map(|element| element.type_id);
        let holder = found.holder.filter(|holder| holder.held_in == HeldIn::Memory);
        Self { element, held_in: holder.map(|holder| holder.name) }
    }
}
