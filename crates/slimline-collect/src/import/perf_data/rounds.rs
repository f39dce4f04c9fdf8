//! Records in the order of time.
//!
//! perf writes what it finds in one CPU's buffer after another, so times jump back at every buffer's begin. Once it has been
//! at all of them it writes a mark, FINISHED_ROUND: what is still to come is later than what was there at the mark before.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::perf_event::{RawRecord, SpeRecord};

/// Records held while a round is not finished. Beyond, the earliest half goes on: files without marks are read in order
/// as far as this reaches.
const MOST_BYTES: usize = 256 << 20;
/// What each takes besides its bytes.
const WAITING_BYTES: usize = size_of::<Waiting>();

/// What waits for what is earlier.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) time_ns: u64,
    /// What is of the same time stays in the file's order.
    sequence: u64,
    pub(super) held: Held,
}

/// What was found in the file.
#[derive(Debug)]
pub(super) enum Held {
    /// A record of the kernel's.
    Record { kind: u32, misc: u16, body: Box<[u8]> },
    /// An operation that was sampled into an AUX area.
    Operation(Box<Operation>),
}

/// An operation, and where it was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) sampled: SpeRecord,
    pub(super) cpu: Option<u32>,
    pub(super) tid: Option<u32>,
}

impl Held {
    /// A record of the kernel's.
    pub(super) fn of(record: &RawRecord<'_>) -> Self {
        Self::Record { kind: record.kind, misc: record.misc, body: record.body.into() }
    }

    fn bytes(&self) -> usize {
        let inside = match self {
            Self::Record { body, .. } => body.len(),
            Self::Operation(_) => size_of::<Operation>(),
        };
        inside + WAITING_BYTES
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.time_ns, self.sequence).cmp(&(other.time_ns, other.sequence))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

/// The records of rounds that are not finished.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    waiting: BinaryHeap<Reverse<Waiting>>,
    bytes: usize,
    sequence: u64,
    /// Latest time in this round, and in the one before.
    latest_ns: u64,
    before_ns: u64,
    /// Nothing earlier than this waits any more.
    released_ns: u64,
}

impl Rounds {
    /// Holds something back.
    pub(super) fn push(&mut self, time_ns: u64, held: Held) {
        self.latest_ns = self.latest_ns.max(time_ns);
        self.bytes += held.bytes();
        self.sequence += 1;
        self.waiting.push(Reverse(Waiting { time_ns, sequence: self.sequence, held }));
        if self.bytes > MOST_BYTES {
            let mut times: Vec<u64> = self.waiting.iter().map(|waiting| waiting.0.time_ns).collect();
            let middle = times.len() / 2;
            self.released_ns = self.released_ns.max(*times.select_nth_unstable(middle).1);
        }
    }

    /// perf has been at all buffers.
    pub(super) fn finish_round(&mut self) {
        self.released_ns = self.released_ns.max(self.before_ns);
        self.before_ns = self.latest_ns;
    }

    /// No more records will come.
    pub(super) fn finish(&mut self) {
        self.released_ns = u64::MAX;
    }

    /// The next record that none can come before.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        if self.waiting.peek()?.0.time_ns > self.released_ns {
            return None;
        }
        let Reverse(waiting) = self.waiting.pop()?;
        self.bytes -= waiting.held.bytes();
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(rounds: &mut Rounds, times: &[u64]) {
        for &time in times {
            let body = time.to_le_bytes();
            rounds.push(time, Held::Record { kind: 9, misc: 0, body: body.into() });
        }
    }

    fn pop(rounds: &mut Rounds) -> Vec<u64> {
        std::iter::from_fn(|| rounds.pop()).map(|waiting| waiting.time_ns).collect()
    }

    #[test]
    fn what_came_before_the_last_mark_but_one_is_in_order() {
        let mut rounds = Rounds::default();
        // Two buffers of each round.
        push(&mut rounds, &[10, 30, 50, 20, 40]);
        rounds.finish_round();
        assert_eq!(pop(&mut rounds), [0; 0], "the next round may have 45 yet");
        push(&mut rounds, &[60, 80, 45, 70]);
        rounds.finish_round();
        assert_eq!(pop(&mut rounds), [10, 20, 30, 40, 45, 50]);
        push(&mut rounds, &[75]);
        rounds.finish();
        assert_eq!(pop(&mut rounds), [60, 70, 75, 80]);
        assert_eq!(rounds.bytes, 0);
    }

    #[test]
    fn records_of_one_time_stay_in_their_order() {
        let mut rounds = Rounds::default();
        for kind in [3, 10, 9] {
            rounds.push(5, Held::Record { kind, misc: 0, body: Box::default() });
        }
        rounds.finish();
        let kind = |waiting: Waiting| match waiting.held {
            Held::Record { kind, .. } => kind,
            Held::Operation(_) => 0,
        };
        let kinds: Vec<u32> = std::iter::from_fn(|| rounds.pop()).map(kind).collect();
        assert_eq!(kinds, [3, 10, 9]);
    }

    #[test]
    fn memory_is_bounded_without_marks() {
        let mut rounds = Rounds::default();
        let body = vec![0; 60_000];
        let mut popped = 0;
        for time_ns in 0..10_000_u64 {
            rounds.push(time_ns, Held::Record { kind: 9, misc: 0, body: body.as_slice().into() });
            while let Some(waiting) = rounds.pop() {
                assert_eq!(waiting.time_ns, popped);
                popped += 1;
            }
            assert!(rounds.bytes <= MOST_BYTES + body.len() + WAITING_BYTES);
        }
        assert!(popped > 5000);
    }
}
