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

use super::{GENERATION, record};
use crate::kernel;
use crate::next;
use core::arch::global_asm;
use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed, Ordering::Release};

/// 1 where the operators below are an allocator's own.
static OWN: AtomicU32 = AtomicU32::new(0);

/// An operator below us, by its mangled name. `address` holds the function, null until it is found.
#[repr(C)]
struct Operator {
    address: AtomicPtr<c_void>,
    name: &'static CStr,
}

impl Operator {
    const fn new(name: &'static CStr) -> Self {
        Self { address: AtomicPtr::new(null_mut()), name }
    }
}

/// Called once by each operator: finds what it stands before, and whether that is an allocator's own.
unsafe extern "C" fn find(operator: &Operator) -> *mut c_void {
    // SAFETY: a NUL-terminated name.
    let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, operator.name.as_ptr()) };
    if found.is_null() {
        found = of_cpp_library(operator.name);
    } else if object_of(found).is_some_and(|object| Some(object) == object_of(next::malloc_below())) {
        OWN.store(1, Relaxed);
    }
    if found.is_null() {
        // Whoever calls an operator has been linked with a definition of it, so this does not happen; and there is
        // nothing to jump to.
        kernel::abort();
    }
    operator.address.store(found, Release);
    found
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

// Both kinds: with nothing to record, or where the operators are built on `malloc`, a jump to the next one.
//
// In `$body` the next function is in rax and the arguments are where they came; it falls through to the jump. The frame
// pointer is the caller's all the time.
macro_rules! operators {
    (mod $exported:ident; $record:path: $body:literal; $($name:ident)*) => {
        $(
            #[allow(non_upper_case_globals)]
            static $name: Operator = Operator::new(
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name without NUL"),
                },
            );
            global_asm!(
                concat!(".type slimline", stringify!($name), ",@function"),
                concat!("slimline", stringify!($name), ":"),
                ".cfi_startproc",
                "mov rax, qword ptr [rip + {next}]",
                "test rax, rax",
                "jz 3f",
                "2:",
                "cmp dword ptr [rip + {own}], 0",
                "je 4f",
                "cmp dword ptr [rip + {generation}], 0",
                "je 4f",
                $body,
                "4:",
                "jmp rax",
                "3:",
                "sub rsp, 24",
                ".cfi_adjust_cfa_offset 24",
                "mov qword ptr [rsp], rdi",
                "mov qword ptr [rsp + 8], rsi",
                "mov qword ptr [rsp + 16], rdx",
                "lea rdi, [rip + {next}]",
                "call {find}",
                "mov rdi, qword ptr [rsp]",
                "mov rsi, qword ptr [rsp + 8]",
                "mov rdx, qword ptr [rsp + 16]",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "jmp 2b",
                ".cfi_endproc",
                concat!(".size slimline", stringify!($name), ", . - slimline", stringify!($name)),
                next = sym $name,
                own = sym OWN,
                generation = sym GENERATION,
                find = sym find,
                record = sym $record,
            );
        )*
        /// What the linker shows: it exports what Rust defines.
        #[allow(non_snake_case)]
        mod $exported {
            $(
                #[doc = concat!("`", stringify!($name), "` of the target.")]
                #[unsafe(naked)]
                #[cfg_attr(all(feature = "preload", not(test)), unsafe(no_mangle))]
                extern "C" fn $name() {
                    core::arch::naked_asm!(concat!("jmp slimline", stringify!($name)))
                }
            )*
        }
    };
}

operators! {
    mod new;
    record::created:
    "sub rsp, 24
    .cfi_adjust_cfa_offset 24
    mov qword ptr [rsp], rdi
    call rax
    mov qword ptr [rsp + 8], rax
    mov rdi, rax
    mov rsi, qword ptr [rsp]
    lea rdx, [rsp + 24]
    mov rcx, rbp
    call {record}
    mov rax, qword ptr [rsp + 8]
    add rsp, 24
    .cfi_adjust_cfa_offset -24
    ret";
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
    mod delete;
    record::deleted:
    "sub rsp, 40
    .cfi_adjust_cfa_offset 40
    mov qword ptr [rsp], rdi
    mov qword ptr [rsp + 8], rsi
    mov qword ptr [rsp + 16], rdx
    mov qword ptr [rsp + 24], rax
    lea rsi, [rsp + 40]
    mov rdx, rbp
    call {record}
    mov rdi, qword ptr [rsp]
    mov rsi, qword ptr [rsp + 8]
    mov rdx, qword ptr [rsp + 16]
    mov rax, qword ptr [rsp + 24]
    add rsp, 40
    .cfi_adjust_cfa_offset -40";
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
