//! `operator new` and `operator delete`, for allocators that bring their own.
//!
//! libstdc++ and libc++ build the operators on `malloc` and `free`, linked dynamically or statically: such blocks are
//! recorded there, with the operator as one more frame, and the functions here only jump on. A program that defines its
//! own operators keeps exactly these: its definition comes before ours. But jemalloc, tcmalloc and mimalloc define the
//! operators beside `malloc` and never call it. Where the next operator and the next `malloc` come from one object,
//! blocks are recorded here.
//!
//! The next operator is found as `malloc` is, by `RTLD_NEXT`. A program without C++ that loads a C++ library for itself
//! alone (`dlopen` with `RTLD_LOCAL`: Python and its modules) has no next one in the global order; then it is the one of
//! the C++ library that is loaded.
//!
//! In assembly, because an operator throws: an exception must pass through, and may not through Rust that aborts.
#![allow(unsafe_code)] // functions in assembly, with the names of C++

use super::{quick, record};
use crate::{kernel, next};
use core::arch::naked_asm;
use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed, Ordering::Release};

type Function = unsafe extern "C" fn();

/// An operator below us, by its mangled name.
#[repr(C)]
struct Operator {
    /// What ours jumps to: what finds the next one first, then that one, or what records and calls it.
    target: AtomicPtr<c_void>,
    /// The next one, once it is found.
    next: AtomicPtr<c_void>,
    /// What records and calls it.
    recording: Function,
    name: &'static CStr,
}

impl Operator {
    const fn new(name: &'static CStr, finding: Function, recording: Function) -> Self {
        let target = AtomicPtr::new(finding as *const () as *mut c_void);
        Self { target, next: AtomicPtr::new(null_mut()), recording, name }
    }
}

/// Called once by each operator: finds what it stands before, and whether that is an allocator's own. Returns where to
/// go on.
unsafe extern "C" fn find(operator: &Operator) -> *mut c_void {
    // SAFETY: a NUL-terminated name.
    let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, operator.name.as_ptr()) };
    let mut is_own = false;
    if found.is_null() {
        found = of_cpp_library(operator.name);
    } else {
        is_own = object_of(found).is_some_and(|object| Some(object) == object_of(next::malloc_below()));
    }
    if found.is_null() {
        // Whoever calls an operator has been linked with a definition of it, so this does not happen; and there is
        // nothing to jump to.
        kernel::abort();
    }
    operator.next.store(found, Relaxed);
    let target = if is_own { operator.recording as *mut c_void } else { found };
    operator.target.store(target, Release);
    target
}

fn of_cpp_library(name: &CStr) -> *mut c_void {
    let libraries = [c"libstdc++.so.6", c"libc++.so.1", c"libc++abi.so.1"].into_iter();
    let found = libraries.map(|library| {
        // SAFETY: NUL-terminated names. The handle stays open: its code is jumped to.
        unsafe {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if handle.is_null() { null_mut() } else { libc::dlsym(handle, name.as_ptr()) }
        }
    });
    found.into_iter().find(|function| !function.is_null()).unwrap_or(null_mut())
}

/// Where the object that holds an address is loaded.
fn object_of(address: *mut c_void) -> Option<usize> {
    let mut information = core::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: any address may be asked for; filled in where the result is not 0.
    unsafe {
        (libc::dladdr(address, information.as_mut_ptr()) != 0).then(|| information.assume_init().dli_fbase.addr())
    }
}

/// The operators of a kind: each jumps to its target, so that one which is built on `malloc` costs a jump more. `$recording`
/// defines what records a call.
macro_rules! operators {
    (mod $exported:ident, $finding:ident; $recording:ident in $recordings:ident; $($name:ident)*) => {
        $(
            #[allow(non_upper_case_globals)]
            static $name: Operator = Operator::new(
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name without NUL"),
                },
                $finding::$name,
                $recordings::$name,
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

macro_rules! recording_delete {
    ($name:ident) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name() {
            quick::naked_asm_of_old_block!(
                ".cfi_startproc",
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
                "jmp 2b",
                ".cfi_endproc";
                operator = sym super::$name,
                next = const core::mem::offset_of!(Operator, next),
                recording = sym record::deleted,
            )
        }
    };
}

operators! {
    mod new, finding_new;
    recording_new in recording_new;
    _Znwm
    _Znam
    _ZnwmRKSt9nothrow_t
    _ZnamRKSt9nothrow_t
    _ZnwmSt11align_val_t
    _ZnamSt11align_val_t
    _ZnwmSt11align_val_tRKSt9nothrow_t
    _ZnamSt11align_val_tRKSt9nothrow_t
}

operators! {
    mod delete, finding_delete;
    recording_delete in recording_delete;
    _ZdlPv
    _ZdaPv
    _ZdlPvm
    _ZdaPvm
    _ZdlPvRKSt9nothrow_t
    _ZdaPvRKSt9nothrow_t
    _ZdlPvSt11align_val_t
    _ZdaPvSt11align_val_t
    _ZdlPvmSt11align_val_t
    _ZdaPvmSt11align_val_t
    _ZdlPvSt11align_val_tRKSt9nothrow_t
    _ZdaPvSt11align_val_tRKSt9nothrow_t
}
