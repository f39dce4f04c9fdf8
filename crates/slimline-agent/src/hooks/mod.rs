//! The allocation functions that the target calls instead of the C library's.
//!
//! Each is a few instructions of assembly: with nothing to record it jumps to the function below ([`crate::next`]) with
//! registers and stack as they came, so an idle agent costs a compare and a jump; else it adds the caller's stack
//! pointer and frame pointer to the arguments, which is all that unwinding needs, and jumps to the recording one
//! ([`record`], [`crate::ranges`]). Those that a program calls most look first whether the block is one of those that are
//! passed over ([`quick`]). Results, `errno` and failures are those of the function below.
//!
//! `operator new` and `delete`: see [`operators`].
#![allow(unsafe_code)] // functions in assembly, with the C library's names

mod counts;
mod fork;
mod operators;
pub(crate) mod quick;
mod record;
mod totals;
mod tracker;

use crate::next;
use crate::{follow, ranges, unwind};
use core::arch::naked_asm;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::Release};
pub(crate) use counts::Counts;
pub(crate) use fork::in_forked_child;
pub(crate) use operators::withhold as withhold_operators;
pub(crate) use record::{Inner, Layer, Outer, Reallocation, ended, freed, made, replaced};
pub(crate) use tracker::{distrust_stack, end_thread, flush, of as tracker_of};

/// 0: nothing is recorded. Else what each thread compares its caches with: it changes when memory that may have been a
/// stack was unmapped or protected.
pub(crate) static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Changes when code was unloaded.
static CODE_GENERATION: AtomicU32 = AtomicU32::new(0);

/// Records allocations from now on: call once the process file stands, in a forked child again. Not
/// async-signal-safe.
pub(crate) fn start() {
    follow::start();
    if fork::inherit() {
        GENERATION.store(1, Release);
    }
}

/// Records nothing any more: the collector stopped. Async-signal-safe.
pub(crate) fn stop() {
    GENERATION.store(0, Relaxed);
}

/// Whether anything is recorded.
pub(crate) fn is_recording() -> bool {
    GENERATION.load(Relaxed) != 0
}

fn bump(generation: &AtomicU32) {
    // Never from or to 0, which means off.
    let _ = generation.fetch_update(Relaxed, Relaxed, |now| (now != 0).then(|| now.checked_add(1).unwrap_or(1)));
}

/// Memory was unmapped, or can be read no more: what threads know of their stacks may be wrong.
pub(crate) fn unmapped() {
    bump(&GENERATION);
}

/// Defines an entry: with nothing to record, on to `next`; else to `recording` with the stack pointer (pointing at the
/// return address) and the frame pointer as further arguments, in the registers named.
macro_rules! entries {
    ($($name:ident -> $next:ident, $recording:path, $sp:literal, $bp:literal;)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of the target.")]
        #[unsafe(naked)]
        #[cfg_attr(all(feature = "preload", not(test)), unsafe(no_mangle))]
        pub(crate) unsafe extern "C" fn $name() {
            naked_asm!(
                "cmp dword ptr [rip + {generation}], 0",
                "je 2f",
                concat!("mov ", $sp, ", rsp"),
                concat!("mov ", $bp, ", rbp"),
                "jmp {recording}",
                "2:",
                "jmp qword ptr [rip + {next}]",
                generation = sym GENERATION,
                recording = sym $recording,
                next = sym next::$next,
            )
        }
    )*};
}

/// The same for functions that return a block: `$size` are the instructions that leave its size in rax.
macro_rules! entries_with_new_block {
    ($($name:ident -> $next:ident, $size:literal;)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of the target.")]
        #[unsafe(naked)]
        #[cfg_attr(all(feature = "preload", not(test)), unsafe(no_mangle))]
        pub(crate) unsafe extern "C" fn $name() {
            quick::new_block!($size, "{next}", next = sym next::$next)
        }
    )*};
}

/// The same for functions that free a block: `$sp` and `$bp` as in `entries!`.
macro_rules! entries_with_old_block {
    ($($name:ident -> $next:ident, $recording:path, $sp:literal, $bp:literal;)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of the target.")]
        #[unsafe(naked)]
        #[cfg_attr(all(feature = "preload", not(test)), unsafe(no_mangle))]
        pub(crate) unsafe extern "C" fn $name() {
            quick::naked_asm_of_old_block!(
                quick::unless_entered!(),
                "jmp qword ptr [rip + {next}]",
                "7:",
                "cmp dword ptr [rip + {generation}], 0",
                "je 2f",
                concat!("mov ", $sp, ", rsp"),
                concat!("mov ", $bp, ", rbp"),
                "jmp {recording}",
                "2:",
                "jmp qword ptr [rip + {next}]";
                generation = sym GENERATION,
                recording = sym $recording,
                next = sym next::$next,
            )
        }
    )*};
}

entries! {
    realloc -> REALLOC, record::realloc, "rdx", "rcx";
    reallocarray -> REALLOCARRAY, record::reallocarray, "rcx", "r8";
    posix_memalign -> POSIX_MEMALIGN, record::posix_memalign, "rcx", "r8";
    munmap -> MUNMAP, ranges::munmap, "rdx", "rcx";
    mprotect -> MPROTECT, ranges::mprotect, "rcx", "r8";
    pkey_mprotect -> PKEY_MPROTECT, ranges::pkey_mprotect, "r8", "r9";
    madvise -> MADVISE, ranges::madvise, "rcx", "r8";
    brk -> BRK, ranges::brk, "rsi", "rdx";
    sbrk -> SBRK, ranges::sbrk, "rsi", "rdx";
    shmat -> SHMAT, ranges::shmat, "rcx", "r8";
    shmdt -> SHMDT, ranges::shmdt, "rsi", "rdx";
    dlclose -> DLCLOSE, dlclose_recorded, "rsi", "rdx";
}

entries_with_new_block! {
    malloc -> MALLOC, "mov rax, rdi";
    // Where the product overflows there is no block.
    calloc -> CALLOC, "mov rax, rdi
        imul rax, rsi";
    aligned_alloc -> ALIGNED_ALLOC, "mov rax, rsi";
    memalign -> MEMALIGN, "mov rax, rsi";
    valloc -> VALLOC, "mov rax, rdi";
    pvalloc -> PVALLOC, "mov rax, rdi";
}

entries_with_old_block! {
    free -> FREE, record::free, "rsi", "rdx";
    cfree -> FREE, record::free, "rsi", "rdx";
    free_sized -> FREE_SIZED, record::free_sized, "rdx", "rcx";
    free_aligned_sized -> FREE_ALIGNED_SIZED, record::free_aligned_sized, "rcx", "r8";
}

/// The same where the arguments leave no registers: stack pointer and frame pointer go on the stack, as a seventh and
/// eighth argument. (`mremap` has five; a sixth does no harm.) These few instructions have no unwind information: rustc
/// emits none for functions in assembly where panics abort. No sample is taken here: the agent or the kernel runs.
macro_rules! entries_with_six_arguments {
    ($($name:ident -> $next:ident, $recording:path;)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of the target.")]
        #[unsafe(naked)]
        #[cfg_attr(all(feature = "preload", not(test)), unsafe(no_mangle))]
        pub(crate) unsafe extern "C" fn $name() {
            naked_asm!(
                "cmp dword ptr [rip + {generation}], 0",
                "je 2f",
                "mov rax, rsp",
                "sub rsp, 8",
                "push rbp",
                "push rax",
                "call {recording}",
                "add rsp, 24",
                "ret",
                "2:",
                "jmp qword ptr [rip + {next}]",
                generation = sym GENERATION,
                recording = sym $recording,
                next = sym next::$next,
            )
        }
    )*};
}

entries_with_six_arguments! {
    mmap -> MMAP, ranges::mmap;
    mmap64 -> MMAP, ranges::mmap;
    mremap -> MREMAP, ranges::mremap;
}

/// After an object went, addresses may mean something else.
unsafe extern "C" fn dlclose_recorded(handle: *mut c_void) -> c_int {
    // SAFETY: the caller's own request.
    let result = unsafe { (next::DLCLOSE.get())(handle) };
    unwind::forget_code();
    CODE_GENERATION.fetch_add(1, Relaxed);
    bump(&GENERATION);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_blocks_over_begins_a_line() {
        let entries = [malloc, calloc, aligned_alloc, memalign, valloc, pvalloc, free, cfree, free_sized];
        assert!(entries.into_iter().all(|entry| (entry as *const () as usize).is_multiple_of(64)), "{entries:?}");
    }
}
