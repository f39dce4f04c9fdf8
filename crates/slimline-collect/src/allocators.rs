//! Allocators that the agent follows beside the C library's: those that are often linked statically, known by their
//! functions' names, and a program's own, which its user names.
//!
//! The agent looks the names up in each object of each process: which programs a process starts, nobody knows before.

use slimline_trace::session::{FoundAllocator, HookOutcome, Unlooked};
use slimline_trace::wire::{
    AllocatorEvent, AllocatorFunction, AllocatorRole, HookState, MAX_ALLOCATOR_FUNCTIONS, NotLookedThrough,
};

/// Arguments that are passed in registers: no others can be named.
pub const MOST_ARGUMENTS: u8 = 6;

/// A function of an allocator, by its name as linked. Arguments are counted from 1; 0 is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatorCall {
    /// Name as linked.
    pub function: String,
    /// How the path of its file ends; empty for any.
    pub module: String,
    /// What it does.
    pub role: AllocatorRole,
    /// Whether its blocks lie in those of another allocator and are what is accessed; else it stands in for the C library's.
    pub is_inner: bool,
    /// The argument that is the size in bytes.
    pub size: u8,
    /// The argument that the size is multiplied by.
    pub count: u8,
    /// The argument that is the block to free or to resize.
    pub block: u8,
    /// The argument that says where the new block is stored.
    pub place: u8,
    /// The argument that is the pool.
    pub pool: u8,
    /// What the size is multiplied by beside that.
    pub unit_bytes: u32,
}

impl AllocatorCall {
    /// What the agent reads; `None` where a name is too long for it.
    fn record(&self, needs_own_malloc: bool) -> Option<AllocatorFunction> {
        let mut record = AllocatorFunction {
            name: [0; 496],
            module: [0; 240],
            role: self.role as u32,
            is_inner: self.is_inner.into(),
            needs_own_malloc: needs_own_malloc.into(),
            size: self.size,
            count: self.count,
            block: self.block,
            place: self.place,
            pool: self.pool,
            reserved: [0; 3],
            unit_bytes: self.unit_bytes,
            padding: [0; 2],
        };
        record.name.get_mut(..self.function.len())?.copy_from_slice(self.function.as_bytes());
        record.module.get_mut(..self.module.len())?.copy_from_slice(self.module.as_bytes());
        Some(record)
    }

    /// Whether its names are short enough for the agent.
    pub fn is_nameable(&self) -> bool {
        self.record(false).is_some()
    }
}

/// What a known function does with which arguments.
#[derive(Clone, Copy)]
enum Does {
    /// Makes a block of so many bytes.
    Makes(u8),
    /// Makes a block of a number of bytes, so many times.
    MakesMany(u8, u8),
    /// Stores a block of so many bytes where the first argument says.
    Stores(u8),
    /// Makes the block into one of so many bytes.
    Resizes(u8, u8),
    /// The same of a number of bytes, so many times.
    ResizesMany(u8, u8, u8),
    /// Frees the block.
    Frees(u8),
}
use Does::{Frees, Makes, MakesMany, Resizes, ResizesMany, Stores};

/// The beginnings that jemalloc's names are given: by its own headers, Rust's crates, the kernel's of its allocators. Those
/// that are its own have none where a program has it for its `malloc` and calls more of it.
const JEMALLOC_PREFIXES: [&str; 3] = ["je_", "_rjem_", "jemk_"];
const JEMALLOC_AS_C_LIBRARY: &[(&str, Does)] = &[
    ("malloc", Makes(1)),
    ("calloc", MakesMany(1, 2)),
    ("realloc", Resizes(1, 2)),
    ("aligned_alloc", Makes(2)),
    ("memalign", Makes(2)),
    ("valloc", Makes(1)),
    ("posix_memalign", Stores(3)),
    ("free", Frees(1)),
    ("free_sized", Frees(1)),
    ("free_aligned_sized", Frees(1)),
];
const JEMALLOC_OWN: &[(&str, Does)] =
    &[("mallocx", Makes(1)), ("rallocx", Resizes(1, 2)), ("dallocx", Frees(1)), ("sdallocx", Frees(1))];
const TCMALLOC: &[(&str, Does)] = &[
    ("tc_malloc", Makes(1)),
    ("tc_calloc", MakesMany(1, 2)),
    ("tc_realloc", Resizes(1, 2)),
    ("tc_memalign", Makes(2)),
    ("tc_valloc", Makes(1)),
    ("tc_pvalloc", Makes(1)),
    ("tc_posix_memalign", Stores(3)),
    ("tc_new", Makes(1)),
    ("tc_newarray", Makes(1)),
    ("tc_new_nothrow", Makes(1)),
    ("tc_newarray_nothrow", Makes(1)),
    ("tc_new_aligned", Makes(1)),
    ("tc_newarray_aligned", Makes(1)),
    ("tc_free", Frees(1)),
    ("tc_free_sized", Frees(1)),
    ("tc_cfree", Frees(1)),
    ("tc_delete", Frees(1)),
    ("tc_deletearray", Frees(1)),
    ("tc_delete_sized", Frees(1)),
    ("tc_deletearray_sized", Frees(1)),
    ("tc_delete_nothrow", Frees(1)),
    ("tc_deletearray_nothrow", Frees(1)),
];
const MIMALLOC: &[(&str, Does)] = &[
    ("mi_malloc", Makes(1)),
    ("mi_malloc_small", Makes(1)),
    ("mi_zalloc", Makes(1)),
    ("mi_zalloc_small", Makes(1)),
    ("mi_calloc", MakesMany(1, 2)),
    ("mi_mallocn", MakesMany(1, 2)),
    ("mi_realloc", Resizes(1, 2)),
    ("mi_reallocn", ResizesMany(1, 2, 3)),
    ("mi_reallocf", Resizes(1, 2)),
    ("mi_rezalloc", Resizes(1, 2)),
    ("mi_malloc_aligned", Makes(1)),
    ("mi_zalloc_aligned", Makes(1)),
    ("mi_realloc_aligned", Resizes(1, 2)),
    ("mi_rezalloc_aligned", Resizes(1, 2)),
    ("mi_memalign", Makes(2)),
    ("mi_aligned_alloc", Makes(2)),
    ("mi_posix_memalign", Stores(3)),
    ("mi_heap_malloc", Makes(2)),
    ("mi_heap_zalloc", Makes(2)),
    ("mi_new", Makes(1)),
    ("mi_new_nothrow", Makes(1)),
    ("mi_new_aligned", Makes(1)),
    ("mi_new_n", MakesMany(1, 2)),
    ("mi_free", Frees(1)),
    ("mi_free_size", Frees(1)),
    ("mi_free_aligned", Frees(1)),
    ("mi_free_size_aligned", Frees(1)),
    ("mi_cfree", Frees(1)),
];
/// Those of a program that has an allocator linked in the place of the C library's: its definitions come before the agent's.
const IN_THE_PLACE_OF_THE_C_LIBRARYS: &[(&str, Does)] = &[
    ("malloc", Makes(1)),
    ("calloc", MakesMany(1, 2)),
    ("realloc", Resizes(1, 2)),
    ("reallocarray", ResizesMany(1, 2, 3)),
    ("memalign", Makes(2)),
    ("aligned_alloc", Makes(2)),
    ("valloc", Makes(1)),
    ("pvalloc", Makes(1)),
    ("posix_memalign", Stores(3)),
    ("free", Frees(1)),
    ("cfree", Frees(1)),
    ("_Znwm", Makes(1)),
    ("_Znam", Makes(1)),
    ("_ZnwmRKSt9nothrow_t", Makes(1)),
    ("_ZnamRKSt9nothrow_t", Makes(1)),
    ("_ZnwmSt11align_val_t", Makes(1)),
    ("_ZnamSt11align_val_t", Makes(1)),
    ("_ZdlPv", Frees(1)),
    ("_ZdaPv", Frees(1)),
    ("_ZdlPvm", Frees(1)),
    ("_ZdaPvm", Frees(1)),
    ("_ZdlPvSt11align_val_t", Frees(1)),
    ("_ZdaPvSt11align_val_t", Frees(1)),
    ("_ZdlPvmSt11align_val_t", Frees(1)),
    ("_ZdaPvmSt11align_val_t", Frees(1)),
];

fn known(function: String, does: Does) -> AllocatorCall {
    let (role, [size, count, block, place]) = match does {
        Makes(size) => (AllocatorRole::Allocate, [size, 0, 0, 0]),
        MakesMany(count, size) => (AllocatorRole::Allocate, [size, count, 0, 0]),
        Stores(size) => (AllocatorRole::Allocate, [size, 0, 0, 1]),
        Resizes(block, size) => (AllocatorRole::Resize, [size, 0, block, 0]),
        ResizesMany(block, count, size) => (AllocatorRole::Resize, [size, count, block, 0]),
        Frees(block) => (AllocatorRole::Free, [0, 0, block, 0]),
    };
    let module = String::new();
    AllocatorCall { function, module, role, is_inner: false, size, count, block, place, pool: 0, unit_bytes: 1 }
}

/// A function that the agent looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookedFor {
    /// Its name and arguments.
    pub call: AllocatorCall,
    /// Only in a program that defines `malloc`.
    pub needs_own_malloc: bool,
}

/// All functions that the agent looks for where these are a program's own: for who wants to foresee what it finds.
pub fn looked_for(own: &[AllocatorCall]) -> Vec<LookedFor> {
    let Allocators { calls, records } = Allocators::new(own);
    let needs = records.iter().map(|record| record.needs_own_malloc != 0);
    calls.into_iter().zip(needs).map(|(call, needs_own_malloc)| LookedFor { call, needs_own_malloc }).collect()
}

/// All functions that the agent is to look for: the user's, then those that are known.
#[derive(Clone, Debug)]
pub(crate) struct Allocators {
    calls: Vec<AllocatorCall>,
    records: Vec<AllocatorFunction>,
}

impl Allocators {
    pub(crate) fn new(own: &[AllocatorCall]) -> Self {
        let mut allocators = Self { calls: Vec::new(), records: Vec::new() };
        own.iter().for_each(|call| allocators.push(call.clone(), false));
        for (name, does) in [JEMALLOC_AS_C_LIBRARY, JEMALLOC_OWN].concat() {
            for prefix in JEMALLOC_PREFIXES {
                allocators.push(known(format!("{prefix}{name}"), does), false);
            }
        }
        for (name, does) in [JEMALLOC_OWN, TCMALLOC, MIMALLOC].concat() {
            allocators.push(known(name.to_owned(), does), false);
        }
        for (name, does) in IN_THE_PLACE_OF_THE_C_LIBRARYS {
            allocators.push(known((*name).to_owned(), *does), true);
        }
        allocators
    }

    fn push(&mut self, call: AllocatorCall, needs_own_malloc: bool) {
        if let Some(record) = call.record(needs_own_malloc).filter(|_| self.records.len() < MAX_ALLOCATOR_FUNCTIONS) {
            self.calls.push(call);
            self.records.push(record);
        }
    }

    /// The file that the agent reads.
    pub(crate) fn file(&self) -> Vec<u8> {
        self.records.iter().flat_map(AllocatorFunction::bytes).collect()
    }

    /// What the agent tells of a function; `None` where there is none of that number.
    pub(crate) fn found(&self, event: AllocatorEvent) -> Option<FoundAllocator> {
        let outcomes = [
            (HookState::Followed, HookOutcome::Followed),
            (HookState::Short, HookOutcome::Short),
            (HookState::Calls, HookOutcome::Calls),
            (HookState::BranchInside, HookOutcome::BranchInside),
            (HookState::OutOfReach, HookOutcome::OutOfReach),
            (HookState::UnknownCode, HookOutcome::UnknownCode),
            (HookState::Refused, HookOutcome::Refused),
            (HookState::Late, HookOutcome::Late),
        ];
        let (_, outcome) = outcomes.into_iter().find(|(state, _)| *state as u32 == event.state)?;
        let call = self.calls.get(event.function as usize)?;
        Some(FoundAllocator { function: call.function.clone(), outcome })
    }
}

/// In which objects the agent did not look, by the bits that it set.
pub(crate) fn unlooked(bits: u64) -> Vec<Unlooked> {
    let kinds = [
        (NotLookedThrough::Any, Unlooked::Any),
        (NotLookedThrough::LoadedLater, Unlooked::LoadedLater),
        (NotLookedThrough::BeyondMost, Unlooked::BeyondMost),
        (NotLookedThrough::Unseen, Unlooked::Unseen),
    ];
    kinds.into_iter().filter(|(bit, _)| bits & *bit as u64 != 0).map(|(_, kind)| kind).collect()
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn a_record_has_the_layout_that_the_agent_reads() {
        let own = AllocatorCall { pool: 4, unit_bytes: 7, ..known("pool_take".into(), ResizesMany(3, 1, 2)) };
        let file = Allocators::new(&[AllocatorCall { module: "libpool.so".into(), is_inner: true, ..own }]).file();
        assert_eq!(file.len() % size_of::<AllocatorFunction>(), 0);
        assert!(file.starts_with(b"pool_take\0"));
        assert!(file[offset_of!(AllocatorFunction, module)..].starts_with(b"libpool.so\0"));
        let u32_at = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap());
        assert_eq!(u32_at(offset_of!(AllocatorFunction, role)), AllocatorRole::Resize as u32);
        assert_eq!(u32_at(offset_of!(AllocatorFunction, is_inner)), 1);
        assert_eq!(u32_at(offset_of!(AllocatorFunction, needs_own_malloc)), 0);
        assert_eq!(u32_at(offset_of!(AllocatorFunction, unit_bytes)), 7);
        assert_eq!(file[offset_of!(AllocatorFunction, size)..][..5], [2, 1, 3, 0, 4]);
    }

    #[test]
    fn known_functions_fit_and_are_named_once() {
        let allocators = Allocators::new(&[]);
        assert!(allocators.records.len() < MAX_ALLOCATOR_FUNCTIONS / 2);
        let mut names: Vec<_> = allocators.calls.iter().map(|call| &call.function).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        let arguments = |call: &AllocatorCall| [call.size, call.count, call.block, call.place, call.pool];
        assert!(allocators.calls.iter().flat_map(arguments).all(|argument| argument <= MOST_ARGUMENTS));
    }

    #[test]
    fn what_the_agent_scribbles_is_no_function() {
        let allocators = Allocators::new(&[]);
        let event = |function, state| AllocatorEvent { function, state, address: 0 };
        assert_eq!(allocators.found(event(9999, 0)), None);
        assert_eq!(allocators.found(event(0, 99)), None);
        assert_eq!(allocators.found(event(0, 2)).unwrap().outcome, HookOutcome::Calls);
        assert_eq!(unlooked(u64::MAX), [Unlooked::Any, Unlooked::LoadedLater, Unlooked::BeyondMost, Unlooked::Unseen]);
        assert_eq!(unlooked(2 | 1 << 40), [Unlooked::LoadedLater]);
    }
}
