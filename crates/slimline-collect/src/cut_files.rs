//! Mapped files that somebody cuts off while we read them.
//!
//! What a program shares with us is a file that it may cut off, and so may anybody do with an executable or its debug
//! file. The kernel answers a read of what is gone with SIGBUS, which ends the reader: the whole recording, for one
//! process of many. So such pages become zeros, which readers of foreign bytes survive, and are counted: whoever read
//! asks then, and does not take zeros for what was there.
#![allow(unsafe_code)] // a signal handler

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages that were not there any more when they were read.
static MISSING_PAGES: AtomicU64 = AtomicU64::new(0);

/// Makes reads of mapped files survive that they are cut off, from now on. To be called before one is mapped.
pub fn survive_cut_files() {
    static ONCE: Once = Once::new();
    ONCE.call_once(install);
}

/// Pages of mapped files that were gone when they were read, and read as zeros, since the process began.
pub fn missing_pages() -> u64 {
    MISSING_PAGES.load(Ordering::Acquire)
}

fn install() {
    // SAFETY: zeros are a valid `sigaction`, and the handler is one of three arguments, as SA_SIGINFO says. It calls
    // nothing that a signal handler may not. Where it can't be installed all is as before.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
    }
}

/// Puts zeros where a page is missing. Any other cause ends the process, as without a handler.
extern "C" fn on_bus_error(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes what it knows of the signal. `BUS_ADRERR` is of a mapping whose file does not reach
    // there: the page that takes its place holds nothing that could be lost. System calls alone are made, and the
    // `errno` of the interrupted code is put back.
    unsafe {
        let errno = *libc::__errno_location();
        let page_bytes = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let page = (*info).si_addr() as usize & !(page_bytes - 1);
        let is_missing = (*info).si_code == libc::BUS_ADRERR;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        if is_missing && libc::mmap(page as *mut c_void, page_bytes, protection, flags, -1, 0) != libc::MAP_FAILED {
            MISSING_PAGES.fetch_add(1, Ordering::Release);
        } else {
            // Comes again at once.
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
        }
        *libc::__errno_location() = errno;
    }
}
