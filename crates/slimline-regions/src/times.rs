//! What is counted of a region on one thread.

use crate::kind::Phase;

/// Times and counts of one region on one path, on one thread or summed over threads. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// `execC`: how often its body was executed.
    pub count: u64,
    /// Of tasks, how often one was created, where that takes a time of its own (libgomp): [`Phase::Enter`].
    pub created: u64,
    /// By [`Phase`], with the regions within it on the same thread. Where it is within itself, that is counted once.
    pub inclusive_ns: [u64; Phase::COUNT],
    /// By [`Phase`], without them.
    pub exclusive_ns: [u64; Phase::COUNT],
    /// What of the exclusive waiting at its end is for limited parallelism: there was no work for this thread.
    pub limited_ns: u64,
    /// The code address that the construct's last call into the runtime returns to; 0 where that is not known.
    pub end_address: u64,
}

impl Times {
    /// `execT`: the sum of the times of its phases.
    #[must_use]
    pub fn exec_ns(&self) -> u64 {
        sum(&self.inclusive_ns)
    }

    /// `execT` without the regions within it.
    #[must_use]
    pub fn exclusive_exec_ns(&self) -> u64 {
        sum(&self.exclusive_ns)
    }

    /// The time of one phase, with the regions within it.
    #[must_use]
    pub fn phase_ns(&self, phase: Phase) -> u64 {
        self.inclusive_ns[phase as usize]
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.created == 0 && self.exec_ns() == 0 && self.exclusive_exec_ns() == 0
    }

    /// Adds those of another thread or path. Numbers that a file made up stop at the largest.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.created = self.created.saturating_add(other.created);
        for phase in 0..Phase::COUNT {
            self.inclusive_ns[phase] = self.inclusive_ns[phase].saturating_add(other.inclusive_ns[phase]);
            self.exclusive_ns[phase] = self.exclusive_ns[phase].saturating_add(other.exclusive_ns[phase]);
        }
        self.limited_ns = self.limited_ns.saturating_add(other.limited_ns);
        self.end_at(other.end_address);
    }

    /// The construct ends at that code address, or at the smallest of several: libomp now and then tells one of its own,
    /// which programs lie below. 0 says nothing.
    pub(crate) fn end_at(&mut self, address: u64) {
        if address != 0 && (self.end_address == 0 || address < self.end_address) {
            self.end_address = address;
        }
    }
}

fn sum(phases: &[u64; Phase::COUNT]) -> u64 {
    phases.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
}
