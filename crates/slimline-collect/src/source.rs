//! Where the rows of a recording come from while its target runs: the agents' files or the kernel's rings.

use std::time::Duration;

use slimline_trace::session::ProcessSummary;

use crate::writer_thread::WriterThread;

/// All processes of a recording.
pub(crate) trait Source {
    /// Takes in what there is. Returns whether `session.json` should be replaced.
    fn pass(&mut self, writer: &WriterThread) -> bool;

    /// Writes a part of every process, if it is time. After `session.json`, which must name a process for its parts to be
    /// found.
    fn write_parts(&mut self, writer: &WriterThread);

    /// How long to wait until the next pass.
    fn pause(&self) -> Duration;

    /// All processes seen so far.
    fn summaries(&self) -> Vec<ProcessSummary>;

    /// Nothing is read any more.
    fn stop(&mut self);

    /// Takes in the rest and hands over the last rows. Returns the summaries, and whether a process lives on that needs what
    /// the run directory holds.
    fn finish(self, writer: &WriterThread) -> (Vec<ProcessSummary>, bool);
}

/// All processes get a part this often, due or not: what a killed collector loses at most …
const PARTS_EVERY_NS: u64 = 5_000_000_000;
/// … and the first this soon, the next after twice the time each, so that it loses less of a short run.
const FIRST_PARTS_AFTER_NS: u64 = 500_000_000;

/// When all processes get a part.
#[derive(Debug)]
pub(crate) struct PartSchedule {
    last_ns: u64,
    after_ns: u64,
}

impl PartSchedule {
    /// From now on.
    pub(crate) fn starting(now_ns: u64) -> Self {
        Self { last_ns: now_ns, after_ns: FIRST_PARTS_AFTER_NS }
    }

    /// Whether it is time.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_ns) >= self.after_ns
    }

    /// Says whether it is time, and sets the next one if so.
    pub(crate) fn take(&mut self, now_ns: u64) -> bool {
        let is_due = self.is_due(now_ns);
        if is_due {
            (self.last_ns, self.after_ns) = (now_ns, (2 * self.after_ns).min(PARTS_EVERY_NS));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_soon_and_then_every_five_seconds() {
        let mut schedule = PartSchedule::starting(0);
        let due: Vec<u64> = (0..200).filter(|tenths| schedule.take(tenths * 100_000_000)).collect();
        assert_eq!(due, [5, 15, 35, 75, 125, 175]);
    }
}
