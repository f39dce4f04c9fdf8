//! Programs that lock their memory (`mlockall`): ours stays unlocked, and counts for no limit of theirs. In the agent, and
//! in the runtime of traced programs.
//!
//! The kernel compares the limit on locked memory (`RLIMIT_MEMLOCK`) with all address space of a process, and then
//! locks all of it. So the program's request is granted here by the size of its own mappings, and these are locked one
//! by one: the same pages, and the same `VmLck`, as alone.
//!
//! What is mapped after `MCL_FUTURE` is locked by the kernel, except what grows out of a mapping that is not: from then
//! on our memory does ([`own_memory::grow`]).
//!
//! Seen are calls of the C library's functions, and with the agent of its `syscall`. The system call itself finds our
//! mappings as any other.
#![allow(unsafe_code)] // system calls

use core::ffi::CStr;
use core::ops::Range;

use crate::{kernel, own_memory};

const CURRENT: i32 = libc::MCL_CURRENT;
const FUTURE: i32 = libc::MCL_FUTURE;
const ON_FAULT: i32 = libc::MCL_ONFAULT;

/// `mlockall`; 0 or minus an `errno`.
pub(crate) fn lock_all(flags: i32) -> isize {
    // Also what the kernel refuses, and what it does with mappings to come.
    if flags & CURRENT == 0 || flags & !(CURRENT | FUTURE | ON_FAULT) != 0 {
        return lock_future(flags);
    }
    let Some(all_bytes) = mapped_bytes() else { return call_lock_all(flags) };
    if let Err(error) = may_lock(all_bytes.saturating_sub(own_memory::total_bytes())) {
        return -(error as isize);
    }
    if flags & FUTURE != 0 {
        let result = lock_future(flags & !CURRENT);
        if result != 0 {
            return result;
        }
    } else if own_memory::is_apart() {
        // The kernel ends that with the same call. What it unlocks is locked again right below.
        unlock_all();
    }
    let is_complete = each_mapping(&mut |mapping| {
        own_memory::each_other(mapping, &mut |part| lock(part, flags & ON_FAULT != 0));
    });
    if is_complete { 0 } else { call_lock_all(flags) }
}

fn lock_future(flags: i32) -> isize {
    if flags & FUTURE != 0 {
        own_memory::prepare_to_grow();
    }
    let result = call_lock_all(flags);
    if result == 0 {
        own_memory::keep_apart(flags & FUTURE != 0);
    }
    result
}

/// `munlockall`; 0 or minus an `errno`.
pub(crate) fn unlock_all() -> isize {
    // SAFETY: no memory is involved.
    let result = unsafe { kernel::call(libc::SYS_munlockall, [0; 6]) };
    if result == 0 {
        own_memory::keep_apart(false);
    }
    result
}

fn call_lock_all(flags: i32) -> isize {
    // SAFETY: no memory is involved.
    unsafe { kernel::call(libc::SYS_mlockall, [flags as usize, 0, 0, 0, 0, 0]) }
}

/// Locks whole pages. Some of them may not be there to be brought into memory, which is no failure of `mlockall` either.
fn lock(pages: Range<usize>, on_fault: bool) {
    const MLOCK_ONFAULT: usize = 1;
    let flags = if on_fault { MLOCK_ONFAULT } else { 0 };
    // SAFETY: no content changes.
    let result = unsafe { kernel::call(libc::SYS_mlock2, [pages.start, pages.len(), flags, 0, 0, 0]) };
    if result == -libc::ENOSYS as isize {
        // Before Linux 4.4, which knows no `MCL_ONFAULT` either.
        // SAFETY: as above.
        unsafe { kernel::call(libc::SYS_mlock, [pages.start, pages.len(), 0, 0, 0, 0]) };
    }
}

/// Whether the calling thread may lock so many bytes; the `errno` of `mlockall` where not.
fn may_lock(bytes: usize) -> Result<(), i32> {
    // A range that no limit covers, and that ends beyond all addresses: who may lock it is told that there is no such range.
    const ABOVE_ALL_LIMITS: usize = 1 << 60;
    // SAFETY: nothing is locked.
    let asked = unsafe { kernel::call(libc::SYS_mlock, [usize::MAX - 4095, ABOVE_ALL_LIMITS, 0, 0, 0, 0]) };
    match -asked as i32 {
        libc::EPERM => Err(libc::EPERM),
        libc::ENOMEM if bytes as u64 >> PAGE_BITS > limit() >> PAGE_BITS => Err(libc::ENOMEM),
        _ => Ok(()),
    }
}

/// Bytes that may be locked.
fn limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let resource = libc::RLIMIT_MEMLOCK as usize;
    // SAFETY: the kernel writes to `limit` only.
    unsafe { kernel::call(libc::SYS_prlimit64, [0, resource, 0, &raw mut limit as usize, 0, 0]) };
    limit.rlim_cur
}

const PAGE_BITS: u32 = 12;

/// The process's address space; None where `/proc` does not tell.
fn mapped_bytes() -> Option<usize> {
    let mut text = [0; 32];
    let mut length = 0;
    each_part(c"/proc/self/statm", &mut text, &mut |part| length = length.max(part.len())).then_some(())?;
    let pages = text.get(..length)?.split(|&byte| byte == b' ').next()?;
    core::str::from_utf8(pages).ok()?.parse::<usize>().ok()?.checked_shl(PAGE_BITS)
}

/// Calls `visit` for each mapping of the process; false where `/proc` does not tell of all.
fn each_mapping(visit: &mut dyn FnMut(Range<usize>)) -> bool {
    let mut lines = Lines::default();
    let mut text = [0; 1024];
    each_part(c"/proc/self/maps", &mut text, &mut |part| part.iter().for_each(|&byte| lines.take(byte, visit)))
}

/// Reads a file part by part; false where it can't be read to its end.
fn each_part(path: &CStr, room: &mut [u8], visit: &mut dyn FnMut(&[u8])) -> bool {
    let (at, flags) = (libc::AT_FDCWD as usize, (libc::O_RDONLY | libc::O_CLOEXEC) as usize);
    // SAFETY: a path ends in NUL.
    let file = unsafe { kernel::call(libc::SYS_openat, [at, path.as_ptr() as usize, flags, 0, 0, 0]) };
    if file < 0 {
        return false;
    }
    let is_complete = loop {
        // SAFETY: the kernel writes at most the buffer's length into it.
        match unsafe { kernel::call(libc::SYS_read, [file as usize, room.as_mut_ptr() as usize, room.len(), 0, 0, 0]) }
        {
            0 => break true,
            error if error == -libc::EINTR as isize => {}
            error if error < 0 => break false,
            length => visit(&room[..length as usize]),
        }
    };
    // SAFETY: our own descriptor.
    unsafe { kernel::call(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]) };
    is_complete
}

/// What of a line of `/proc/self/maps` was read: `55d0c000-55d0d000 r-xp …`.
#[derive(Default)]
struct Lines {
    start: usize,
    number: usize,
    /// The range was read.
    is_told: bool,
}

impl Lines {
    fn take(&mut self, byte: u8, visit: &mut dyn FnMut(Range<usize>)) {
        /// Above it is the kernel's page for old system calls, which is no mapping.
        const ADDRESSES: usize = 1 << 47;
        match byte {
            b'\n' => *self = Self::default(),
            _ if self.is_told => {}
            b'-' => self.start = core::mem::take(&mut self.number),
            b' ' => {
                self.is_told = true;
                if self.number <= ADDRESSES {
                    visit(self.start..self.number);
                }
            }
            _ => self.number = self.number << 4 | (byte as char).to_digit(16).unwrap_or(0) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn ranges(text: &str) -> Vec<Range<usize>> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        text.bytes().for_each(|byte| lines.take(byte, &mut |range| found.push(range)));
        found
    }

    #[test]
    fn mappings_are_read_whatever_their_names_hold() {
        let text = "5000-7000 r-xp 00001000 fe:01 123 /a b-c 1-2\n\
                    7f1c2a000000-7f1c2a002000 ---p 00000000 00:00 0 \n\
                    ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";
        assert_eq!(ranges(text), [0x5000..0x7000, 0x7f1c_2a00_0000..0x7f1c_2a00_2000]);
    }

    #[test]
    fn all_mappings_together_are_the_address_space() {
        let mut bytes = 0;
        assert!(each_mapping(&mut |range| bytes += range.len()));
        let told = mapped_bytes().unwrap();
        // Other tests map and unmap.
        assert!(bytes.abs_diff(told) < 256 << 20, "{bytes} {told}");
    }

    #[test]
    fn flags_that_the_kernel_does_not_know_are_refused_by_it() {
        assert_eq!([0, 8, ON_FAULT].map(lock_all), [-libc::EINVAL as isize; 3]);
    }
}
