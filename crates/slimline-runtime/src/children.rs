//! Children that instrumented code makes without the C library's `fork`, which would have told us.
//!
//! A child with memory of its own is as good as forked. One that has its parent's memory and thread-local storage
//! (`clone` with `CLONE_VM`, but without `CLONE_SETTLS`) has the cursor of the thread that made it: while it lives, what both
//! write goes where nobody reads, so that the trace stays whole.
#![allow(unsafe_code)] // called by the program in the place of the C library's functions

use core::ffi::{c_int, c_long, c_void};

use crate::weak::weak_address;
use crate::{copies, process, thread};

type Main = extern "C" fn(*mut c_void) -> c_int;

/// What the process's copy does about children.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Children {
    before_fork: extern "C" fn(),
    in_forked_child: extern "C" fn(),
    lend: extern "C" fn() -> *mut c_int,
    take_back: extern "C" fn(*mut c_int),
}

impl Children {
    pub(crate) const OURS: Self = Self {
        before_fork: process::before_fork,
        in_forked_child: process::in_forked_child,
        lend: thread::lend,
        take_back: thread::take_back,
    };

    fn of_process() -> Self {
        copies::other().map_or(Self::OURS, |first| first.children)
    }
}

/// `syscall`. Declared with `...`: arguments are in the same places either way, and unused ones do no harm.
#[unsafe(no_mangle)]
unsafe extern "C" fn __slimline_syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let has_own_memory = match number {
        libc::SYS_fork => true,
        libc::SYS_clone => a & libc::CLONE_VM as usize == 0,
        // Its flags are looked at in the child: by then the kernel has read them.
        libc::SYS_clone3 => true,
        _ => false,
    };
    // SAFETY: the caller's own call.
    let call = || unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if !has_own_memory {
        return call();
    }
    let children = Children::of_process();
    (children.before_fork)();
    let result = call();
    // SAFETY: as the kernel has read them, they can be read.
    let has_parents = || unsafe { number == libc::SYS_clone3 && *(a as *const u64) & libc::CLONE_VM as u64 != 0 };
    if result == 0 && !has_parents() {
        (children.in_forked_child)();
    }
    result
}

/// `_Fork`, which calls no handlers.
#[unsafe(no_mangle)]
unsafe extern "C" fn __slimline_fork() -> libc::pid_t {
    let children = Children::of_process();
    (children.before_fork)();
    let fork = weak_address!("_Fork");
    // SAFETY: the C library's function of that name is of this type; whoever calls us has it.
    let result = unsafe { core::mem::transmute::<usize, extern "C" fn() -> libc::pid_t>(fork)() };
    if result == 0 {
        (children.in_forked_child)();
    }
    result
}

/// What a child with memory of its own runs.
struct Started {
    main: Main,
    argument: *mut c_void,
    children: Children,
}

extern "C" fn in_child(started: *mut c_void) -> c_int {
    // SAFETY: the child's own copy of what `__slimline_clone` has on its stack.
    let Started { main, argument, children } = unsafe { started.cast::<Started>().read() };
    (children.in_forked_child)();
    main(argument)
}

/// `clone`; the last three are only there where the flags ask for them.
#[unsafe(no_mangle)]
unsafe extern "C" fn __slimline_clone(
    main: Main,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent_tid: *mut c_int,
    tls: *mut c_void,
    child_tid: *mut c_int,
) -> c_int {
    let children = Children::of_process();
    // SAFETY: the caller's own call, here and below.
    let clone = |main: Main, flags: c_int, argument: *mut c_void, child_tid: *mut c_int| unsafe {
        libc::clone(main, stack, flags, argument, parent_tid, tls, child_tid)
    };
    if flags & libc::CLONE_VM == 0 {
        let mut started = Started { main, argument, children };
        (children.before_fork)();
        return clone(in_child, flags, (&raw mut started).cast(), child_tid);
    }
    if flags & libc::CLONE_SETTLS != 0 {
        return clone(main, flags, argument, child_tid);
    }
    // The kernel clears the word when the child has ended, or runs another program.
    let lent = (children.lend)();
    let clears = libc::CLONE_CHILD_CLEARTID | libc::CLONE_CHILD_SETTID;
    let is_told = !lent.is_null() && flags & clears == 0;
    let result = match is_told {
        true => clone(main, flags | libc::CLONE_CHILD_CLEARTID, argument, lent),
        false => clone(main, flags, argument, child_tid),
    };
    if result < 0 && !lent.is_null() {
        (children.take_back)(lent);
    }
    result
}
