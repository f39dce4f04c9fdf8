//! Where a walk reads the stack's words.

use super::window::{MAX_STEP, RED_ZONE};
use crate::memory::Copies;

/// A stack, from a stack pointer upwards.
pub(crate) trait Stack {
    /// Begins a walk at stack pointer `sp`, on the stack of the last walk or on another.
    fn enter(&mut self, sp: u64);

    /// Reads a word; None where it can't be read, is not aligned, or lies far from what was read before.
    fn read(&mut self, address: u64) -> Option<u64>;
}

/// An interrupted thread's stack, by the copies of the sample.
pub(crate) struct CopiedStack<'a> {
    copies: &'a mut Copies,
    low: u64,
    high: u64,
}

impl<'a> CopiedStack<'a> {
    pub(crate) fn new(copies: &'a mut Copies) -> Self {
        Self { copies, low: 0, high: 0 }
    }
}

impl Stack for CopiedStack<'_> {
    fn enter(&mut self, sp: u64) {
        (self.low, self.high) = (sp.saturating_sub(RED_ZONE), sp);
    }

    fn read(&mut self, address: u64) -> Option<u64> {
        if address < self.low || address.saturating_sub(self.high) > MAX_STEP {
            return None;
        }
        let word = self.copies.word(address)?;
        self.high = self.high.max(address);
        Some(word)
    }
}
