//! Which part of its own stack a thread in an allocation function may read.
//!
//! A thread's stack has no bounds that the agent could rely on (coroutines, alternate stacks, stacks that the program
//! made itself), and unwind tables can be wrong. So nothing is read that the kernel has not confirmed: the window
//! begins at the page of the stack pointer and grows upwards page by page, as frames further out are reached; a few
//! system calls for each stack, then none.
//!
//! A confirmed window is believed until memory is unmapped or protected ([`crate::hooks::unmapped`]), and until the
//! thread's next sample ([`crate::hooks::distrust_stack`]): a program may change its memory by system calls that nobody
//! sees. Copying each word by the kernel, as samples do ([`super::CopiedStack`]), would cost more than all the rest.
#![allow(unsafe_code)] // reads the target's stack

use super::Stack;
use crate::kernel;

const PAGE: u64 = 4096;
/// Below the stack pointer a leaf function keeps data, and a function that is about to end has popped registers.
pub(super) const RED_ZONE: u64 = 128;
/// A stack pointer further down than this begins anew.
const MAX_DESCENT: u64 = 256 << 10;
/// A frame further away than this from those seen so far is not believed.
pub(super) const MAX_STEP: u64 = 64 << 20;

/// Addresses in one stack that are known to be readable.
#[derive(Debug)]
pub(crate) struct Window {
    low: u64,
    high: u64,
}

impl Window {
    /// Nothing is known. Zeroes are the same.
    pub(crate) const fn new() -> Self {
        Self { low: 0, high: 0 }
    }

    /// Forgets everything: memory was unmapped.
    pub(crate) fn close(&mut self) {
        self.high = 0;
    }

    #[cold]
    fn open(&mut self, sp: u64) {
        let page = |address: u64| address & !(PAGE - 1);
        let lowest = page(sp.wrapping_sub(RED_ZONE));
        // The same stack, further down: what is known further up stays true.
        let is_below = sp < self.high && self.low - lowest.min(self.low) <= MAX_DESCENT;
        if is_below && (lowest..self.low).step_by(PAGE as usize).all(kernel::can_load) {
            self.low = lowest;
            return;
        }
        self.high = 0;
        // The page below the stack pointer's is needed for the red zone only, and may be a guard.
        self.low = if lowest != page(sp) && kernel::can_load(lowest) { lowest } else { page(sp) };
        self.high = self.low;
    }

    /// Whether the eight bytes at `address` and all between the entered stack pointer and them are known already.
    #[inline]
    pub(crate) fn covers(&self, sp: u64, address: u64) -> bool {
        sp >= self.low && address <= self.high.wrapping_sub(8) && self.high != 0
    }

    /// End of what is known to be readable; from the entered stack pointer on there are no gaps.
    #[inline]
    pub(crate) fn high(&self) -> u64 {
        self.high
    }

    #[cold]
    fn grow(&mut self, address: u64) -> bool {
        if address - self.high > MAX_STEP {
            return false;
        }
        while address >= self.high {
            if !kernel::can_load(self.high) {
                return false;
            }
            self.high += PAGE;
        }
        true
    }
}

impl Stack for Window {
    #[inline]
    fn enter(&mut self, sp: u64) {
        if sp.wrapping_sub(RED_ZONE) < self.low || sp >= self.high {
            self.open(sp);
        }
    }

    #[inline]
    fn read(&mut self, address: u64) -> Option<u64> {
        if !address.is_multiple_of(8) || address < self.low || address >= self.high && !self.grow(address) {
            return None;
        }
        // SAFETY: aligned, within pages that were confirmed, and that nothing is known to have changed.
        Some(unsafe { (address as *const u64).read_volatile() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_up_to_the_end_of_the_mapping_and_not_below_the_entry() {
        let pages = kernel::map(6 * 4096).unwrap();
        let start = pages.as_ptr() as u64;
        // SAFETY: our own pages; the fourth becomes a guard between two stacks.
        unsafe {
            libc::mprotect(pages.as_ptr().add(3 * 4096).cast(), 4096, libc::PROT_NONE);
            pages.as_ptr().add(3 * 4096 - 8).cast::<u64>().write(77);
        }
        let mut window = Window::new();
        let sp = start + 4096 + 16;
        window.enter(sp);
        assert!(!window.covers(sp, sp));
        assert_eq!(window.read(sp), Some(0));
        assert!(window.covers(sp, start + 2 * 4096 - 8) && !window.covers(sp, start + 2 * 4096));
        assert_eq!(window.read(start + 3 * 4096 - 8), Some(77));
        assert_eq!(window.read(start + 3 * 4096), None, "the guard");
        assert_eq!(window.read(start), Some(0), "the red zone is in the page below");
        assert_eq!(window.read(sp + 4), None, "not aligned");
        window.enter(start + 200);
        assert!(window.covers(start + 200, start + 2 * 4096), "what was known further up");
        assert_eq!(window.read(start - 8), None, "below the stack pointer's page");
        let other = start + 5 * 4096;
        assert_eq!(window.read(other), None, "behind the guard");
        window.enter(other);
        assert!(window.read(other).is_some() && window.read(sp).is_none(), "another stack");
        window.close();
        assert!(!window.covers(other, other));
    }
}
