//! The byte that instrumented functions ask when they begin and in loops, and why it is closed.

use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{AcqRel, Acquire};

use slimline_trace::stream::ring::{CLOSED_WITHOUT_READER, GATE_BYTES};

/// A page of its own, so that shared memory can take its place. The first byte's bits are reasons to record nothing;
/// instrumented code also looks at the one at [`SEVERAL_OFFSET`](slimline_trace::stream::ring::SEVERAL_OFFSET), which is set
/// in shared memory.
#[repr(C, align(4096))]
pub(crate) struct Gate {
    reasons: AtomicU8,
    _rest: [u8; GATE_BYTES - 1],
}

const _: () = assert!(size_of::<Gate>() == GATE_BYTES && align_of::<Gate>() == GATE_BYTES);

impl Gate {
    /// Closed.
    pub(crate) const fn new() -> Self {
        Self { reasons: AtomicU8::new(CLOSED_WITHOUT_READER), _rest: [0; GATE_BYTES - 1] }
    }

    /// Where the page is.
    pub(crate) fn address(&self) -> usize {
        (&raw const *self).addr()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.reasons.load(Acquire) != 0
    }

    /// Whether this reason holds.
    pub(crate) fn is_closed_by(&self, reason: u8) -> bool {
        self.reasons.load(Acquire) & reason != 0
    }

    /// Adds a reason; whether it is new.
    pub(crate) fn close(&self, reason: u8) -> bool {
        self.reasons.fetch_or(reason, AcqRel) & reason == 0
    }

    /// Takes a reason away; whether it was there.
    pub(crate) fn open(&self, reason: u8) -> bool {
        self.reasons.fetch_and(!reason, AcqRel) & reason != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_open_without_a_reason() {
        let gate = Gate::new();
        assert!(gate.is_closed() && gate.close(2) && !gate.close(2));
        assert!(gate.open(CLOSED_WITHOUT_READER) && gate.is_closed() && gate.is_closed_by(2));
        assert!(gate.open(2) && !gate.open(2) && !gate.is_closed());
    }
}
