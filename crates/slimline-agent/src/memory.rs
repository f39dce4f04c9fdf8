//! The target's memory, read without ever faulting.
//!
//! A page is asked for once a burst: the kernel is made to fetch a signal set from it (100 to 500 ns), which tells
//! without a SIGSEGV. The answer is not kept longer, since the target may unmap the page. Between the answer and the
//! read another thread may do so too: a burst lasts some µs and reads what this thread is about to read itself, so that
//! window is left open.
//!
//! Code that the last snapshot of the mappings showed is not asked for where the burst comes to it: the thread itself
//! would go there. It is asked for where somebody else looks around in it ([`Pages::slice`]).
#![allow(unsafe_code)] // reads any address

use slimline_emulate::Memory;

use crate::{kernel, maps};

const PAGE_BYTES: u64 = 4096;
/// Pages remembered at a time, a power of two. Bursts touch 5 to 40.
const PAGES: usize = 128;

/// Which pages can be read, for one burst. Zeros are an empty one.
pub(crate) struct Pages {
    /// Page number and the burst it was asked in.
    asked: [(u64, u32); PAGES],
    readable: [bool; PAGES],
    burst: u32,
}

impl Pages {
    /// Forgets everything.
    pub(crate) fn begin(&mut self) {
        self.burst = self.burst.wrapping_add(1);
        if self.burst == 0 {
            self.asked = [(0, 0); PAGES];
            self.burst = 1;
        }
    }

    #[inline]
    fn is_readable(&mut self, page: u64) -> bool {
        let row = page as usize % PAGES;
        if self.asked[row] != (page, self.burst) {
            self.ask(row, page);
        }
        self.readable[row]
    }

    #[cold]
    fn ask(&mut self, row: usize, page: u64) {
        let address = page * PAGE_BYTES;
        // Addresses of the kernel's half and the hole are refused by the kernel; page 0 as well.
        self.readable[row] = maps::code_range(address).is_some() || kernel::readable(address);
        self.asked[row] = (page, self.burst);
    }

    /// The bytes from `start` up to `end`, cut at the first page that can't be read.
    pub(crate) fn slice(&self, start: u64, end: u64) -> &'static [u8] {
        let mut readable_end = start;
        while readable_end < end && kernel::readable(readable_end & !(PAGE_BYTES - 1)) {
            readable_end = (readable_end / PAGE_BYTES + 1) * PAGE_BYTES;
        }
        let length = readable_end.min(end).saturating_sub(start) as usize;
        if length == 0 {
            return &[];
        }
        // SAFETY: code of the target, confirmed to be readable. It may change while we look at it: then the decoder sees
        // other bytes, all of which it has an answer for.
        unsafe { core::slice::from_raw_parts(start as *const u8, length) }
    }
}

impl Memory for Pages {
    #[inline]
    fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        let Some(last) = address.checked_add(into.len() as u64 - 1) else { return false };
        let (first_page, last_page) = (address / PAGE_BYTES, last / PAGE_BYTES);
        if !self.is_readable(first_page) || first_page != last_page && !self.is_readable(last_page) {
            return false;
        }
        // SAFETY: the pages were confirmed to be readable. The target's other threads may be writing there; what is
        // copied is then either value, as in the target's own racing load.
        unsafe { core::ptr::copy_nonoverlapping(address as *const u8, into.as_mut_ptr(), into.len()) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Pages {
        Pages { asked: [(0, 0); PAGES], readable: [false; PAGES], burst: 0 }
    }

    #[test]
    fn what_is_mapped_is_read_and_what_is_not_is_refused() {
        let start = kernel::map(3 * 4096).unwrap().as_ptr();
        // SAFETY: our own mapping.
        unsafe {
            start.add(4095).write(1);
            start.add(4096).write(2);
            kernel::guard(start.add(8192));
        }
        let base = start as u64;
        let mut pages = pages();
        pages.begin();
        let mut two = [0; 2];
        assert!(pages.read(base + 4095, &mut two));
        assert_eq!(two, [1, 2]);
        assert!(!pages.read(base + 8191, &mut two), "straddles into the guard");
        assert!(!pages.read(base + 8192, &mut two));
        assert!(!pages.read(0, &mut two));
        assert!(!pages.read(u64::MAX, &mut two));
        assert!(!pages.read(0xffff_8000_0000_0000, &mut two));
        assert_eq!(pages.slice(base, base + 3 * 4096).len(), 8192);
        // SAFETY: our own mapping, last used below by address only.
        unsafe { kernel::unmap(start, 3 * 4096) };
        pages.begin();
        assert!(!pages.read(base, &mut two), "asked again in the next burst");
        assert!(pages.slice(base, base + 1).is_empty());
    }
}
