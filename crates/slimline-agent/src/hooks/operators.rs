//! `operator new` and `operator delete`, for allocators that bring their own.
//!
//! libstdc++ and libc++ build the operators on `malloc` and `free`, linked dynamically or statically: such blocks are
//! recorded there, with the operator as one more frame. Most are passed over, though, and then the functions here call
//! `malloc` and `free` as the operator would, and spare the program the way through it and back into the agent: that way
//! twice through an entry is longer than what it saves elsewhere. Those that are not, failures and what an operator does
//! then are left to it.
//!
//! A program that defines its own operators keeps exactly these: its definition comes before ours, and where it or a
//! library defines but the plain ones, which the C++ library's others call, or a `malloc`, nothing is spared. But jemalloc, tcmalloc and mimalloc define
//! the operators beside `malloc` and never call it. Where the next operator and the next `malloc` come from one object,
//! blocks are recorded here. Any other operator is only jumped to.
//!
//! The next operator is found as `malloc` is, among the objects behind us. A program without C++ has none there. What it loads
//! later for itself alone (`dlopen` with `RTLD_LOCAL`: Python and its modules) may bring a C++ library, have one linked in or
//! define operators of its own, and is bound to these: our operators are withheld from it ([`withhold`]).
//!
//! In assembly, because an operator throws: an exception must pass through, and may not through Rust that aborts.
#![allow(unsafe_code)] // functions in assembly, with the names of C++

use super::{aligned_alloc, free, malloc, quick, record};
use crate::next;
use crate::resolve::{self, Object};
use core::arch::naked_asm;
use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed, Ordering::Release};

type Function = unsafe extern "C" fn();

/// An operator below us, by its mangled name.
#[repr(C)]
struct Operator {
    /// What ours jumps to: what finds the next one first, then that one, what records and calls it, or what passes over.
    target: AtomicPtr<c_void>,
    /// The next one, once it is found.
    next: AtomicPtr<c_void>,
    /// What records and calls it.
    recording: Function,
    /// What does the same as it for a block that is passed over, and else jumps to it.
    passing: Function,
    /// Fallback if there is no other definition. It never throws.
    without: Function,
    name: &'static CStr,
}

impl Operator {
    const fn new(
        name: &'static CStr,
        finding: Function,
        recording: Function,
        passing: Function,
        without: Function,
    ) -> Self {
        let target = AtomicPtr::new(finding as *const () as *mut c_void);
        Self { target, next: AtomicPtr::new(null_mut()), recording, passing, without, name }
    }
}

/// Has the linker bind no reference to those of our operators from now on that stand before no other one.
pub(crate) fn withhold() {
    let all = [NEW, ALIGNED_NEW, DELETE, ALIGNED_DELETE];
    let names = all.into_iter().flatten().map(|operator| operator.name);
    resolve::withhold(names.filter(|name| resolve::next(name).is_none()));
}

/// Called once by each operator: finds what it stands before, and whether that is an allocator's own. Returns where to
/// go on.
unsafe extern "C" fn find(operator: &Operator) -> *mut c_void {
    let next = resolve::next(operator.name);
    // What was bound before they were withheld, as by the constructor of a library that loads another, has none.
    let without = operator.without as *const ();
    let found = next.map_or(without, |next| next.address).cast_mut().cast::<c_void>();
    operator.next.store(found, Relaxed);
    let malloc = resolve::next(c"malloc");
    let target = match next {
        Some(next) if malloc.is_some_and(|malloc| malloc.object == next.object) => operator.recording as *mut c_void,
        Some(next) if is_cpp_library(next.object) && none_replaced() => operator.passing as *mut c_void,
        _ => found,
    };
    operator.target.store(target, Release);
    target
}

/// A file is often called by a longer name than it is linked by: `libstdc++.so.6.0.30`.
const CPP_LIBRARIES: [&[u8]; 3] = [b"libstdc++.so.6", b"libc++.so.1", b"libc++abi.so.1"];

fn is_cpp_library(object: Object) -> bool {
    CPP_LIBRARIES.iter().any(|library| object.file_name().starts_with(library))
}

/// Whether the C++ library's operators come down to the `malloc` and `free` below: neither the program nor a library has
/// any of its own, be it before us or behind.
fn none_replaced() -> bool {
    let is_ours = |name: &CStr| resolve::first(name).is_some_and(|first| first.object.is_ours());
    let next_is_the_librarys = |name: &CStr| resolve::next(name).is_some_and(|next| is_cpp_library(next.object));
    [c"malloc", c"free"].into_iter().all(is_ours)
        // What the library's others call.
        && [c"_Znwm", c"_Znam", c"_ZdlPv", c"_ZdaPv"].into_iter().all(|name| is_ours(name) && next_is_the_librarys(name))
}

/// The C library's `aligned_alloc` with its arguments in the order of the operators.
#[unsafe(naked)]
unsafe extern "C" fn new_aligned() {
    naked_asm!("xchg rdi, rsi", "jmp {aligned_alloc}", aligned_alloc = sym aligned_alloc)
}

/// The operators of a kind: each jumps to its target, so that one which is built on `malloc` costs a jump more. `$recording`
/// defines what records a call.
macro_rules! operators {
    ($all:ident: mod $exported:ident, $finding:ident; $recording:ident in $recordings:ident;
     $passing:ident in $passings:ident; else $without:expr; $($name:ident)*) => {
        static $all: &[&Operator] = &[$(&$name),*];

        $(
            #[allow(non_upper_case_globals)]
            static $name: Operator = Operator::new(
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name without NUL"),
                },
                $finding::$name,
                $recordings::$name,
                $passings::$name,
                $without,
            );
        )*

        /// What the target calls.
        #[allow(non_snake_case)]
        mod $exported {
            use super::*;
            $(
                #[doc = concat!("`", stringify!($name), "` of the target.")]
                #[unsafe(naked)]
                #[cfg_attr(all(feature = "preload", not(test)), unsafe(no_mangle))]
                unsafe extern "C" fn $name() {
                    naked_asm!("jmp qword ptr [rip + {operator}]", operator = sym super::$name)
                }
            )*
        }

        /// The first call of each.
        #[allow(non_snake_case)]
        mod $finding {
            use super::*;
            $(
                #[unsafe(naked)]
                pub(super) unsafe extern "C" fn $name() {
                    naked_asm!(
                        ".cfi_startproc",
                        "sub rsp, 24",
                        ".cfi_adjust_cfa_offset 24",
                        "mov qword ptr [rsp], rdi",
                        "mov qword ptr [rsp + 8], rsi",
                        "mov qword ptr [rsp + 16], rdx",
                        "lea rdi, [rip + {operator}]",
                        "call {find}",
                        "mov rdi, qword ptr [rsp]",
                        "mov rsi, qword ptr [rsp + 8]",
                        "mov rdx, qword ptr [rsp + 16]",
                        "add rsp, 24",
                        ".cfi_adjust_cfa_offset -24",
                        "jmp rax",
                        ".cfi_endproc",
                        operator = sym super::$name,
                        find = sym find,
                    )
                }
            )*
        }

        /// With nothing to record a jump to the next one.
        #[allow(non_snake_case)]
        mod $recordings {
            use super::*;
            $($recording!($name);)*
        }

        /// The same as the next one does, or a jump to it.
        #[allow(non_snake_case)]
        mod $passings {
            use super::*;
            $($passing!($name);)*
        }
    };
}

macro_rules! recording_new {
    ($name:ident) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name() {
            quick::new_block!(
                "mov rax, rdi",
                "{operator} + {next}",
                operator = sym super::$name,
                next = const core::mem::offset_of!(Operator, next),
            )
        }
    };
}

macro_rules! passing_new {
    ($name:ident) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name() {
            quick::naked_asm_of_new_block!(
                "mov rax, rdi",
                quick::unless_followed!(),
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "call qword ptr [rip + {malloc}]",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "test rax, rax",
                "je 9f",
                "ret",
                "9:",
                "mov rax, rdi",
                quick::not_allocated!(),
                "jmp qword ptr [rip + {operator} + {next}]",
                "7:",
                "mov rax, rdi",
                quick::uncounted!(),
                "jmp qword ptr [rip + {operator} + {next}]";
                operator = sym super::$name,
                next = const core::mem::offset_of!(Operator, next),
                malloc = sym next::MALLOC,
            )
        }
    };
}

macro_rules! passing_delete {
    ($name:ident) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name() {
            quick::naked_asm_of_old_block!(
                quick::unless_entered!(),
                "jmp qword ptr [rip + {free}]",
                "7:",
                "jmp qword ptr [rip + {operator} + {next}]";
                operator = sym super::$name,
                next = const core::mem::offset_of!(Operator, next),
                free = sym next::FREE,
            )
        }
    };
}

/// What an operator with an alignment does is not the same everywhere.
macro_rules! passing_on {
    ($name:ident) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name() {
            naked_asm!(
                "jmp qword ptr [rip + {operator} + {next}]",
                operator = sym super::$name,
                next = const core::mem::offset_of!(Operator, next),
            )
        }
    };
}

macro_rules! recording_delete {
    ($name:ident) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name() {
            quick::naked_asm_of_old_block!(
                quick::unless_entered!(),
                "2:",
                "jmp qword ptr [rip + {operator} + {next}]",
                "7:",
                "cmp dword ptr [rip + {generation}], 0",
                "je 2b",
                "sub rsp, 24",
                ".cfi_adjust_cfa_offset 24",
                "mov qword ptr [rsp], rdi",
                "mov qword ptr [rsp + 8], rsi",
                "mov qword ptr [rsp + 16], rdx",
                "lea rsi, [rsp + 24]",
                "mov rdx, rbp",
                "call {recording}",
                "mov rdi, qword ptr [rsp]",
                "mov rsi, qword ptr [rsp + 8]",
                "mov rdx, qword ptr [rsp + 16]",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "jmp 2b";
                generation = sym $crate::hooks::GENERATION,
                operator = sym super::$name,
                next = const core::mem::offset_of!(Operator, next),
                recording = sym record::deleted,
            )
        }
    };
}

operators! {
    NEW: mod new, finding_new;
    recording_new in recording_new;
    passing_new in passing_new;
    else malloc;
    _Znwm
    _Znam
    _ZnwmRKSt9nothrow_t
    _ZnamRKSt9nothrow_t
}

operators! {
    ALIGNED_NEW: mod aligned_new, finding_aligned_new;
    recording_new in recording_aligned_new;
    passing_on in passing_aligned_new;
    else new_aligned;
    _ZnwmSt11align_val_t
    _ZnamSt11align_val_t
    _ZnwmSt11align_val_tRKSt9nothrow_t
    _ZnamSt11align_val_tRKSt9nothrow_t
}

operators! {
    DELETE: mod delete, finding_delete;
    recording_delete in recording_delete;
    passing_delete in passing_delete;
    else free;
    _ZdlPv
    _ZdaPv
    _ZdlPvm
    _ZdaPvm
    _ZdlPvRKSt9nothrow_t
    _ZdaPvRKSt9nothrow_t
}

operators! {
    ALIGNED_DELETE: mod aligned_delete, finding_aligned_delete;
    recording_delete in recording_aligned_delete;
    passing_on in passing_aligned_delete;
    else free;
    _ZdlPvSt11align_val_t
    _ZdaPvSt11align_val_t
    _ZdlPvmSt11align_val_t
    _ZdaPvmSt11align_val_t
    _ZdlPvSt11align_val_tRKSt9nothrow_t
    _ZdaPvSt11align_val_tRKSt9nothrow_t
}
