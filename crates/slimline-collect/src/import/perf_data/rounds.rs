//! Records in the order of time.
//!
//! perf writes what it finds in one CPU's buffer after another, so times jump back at every buffer's begin. Once it has been
//! at all of them it writes a mark, FINISHED_ROUND: what is still to come is later than what was there at the mark before.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::perf_event::{ByteOrder, RawRecord};

/// Records held while a round is not finished. Beyond, the earliest half goes on: files without marks are read in order
/// as far as this reaches.
const MOST_BYTES: usize = 256 << 20;
/// What a record takes besides its bytes.
const RECORD_BYTES: usize = size_of::<Waiting>();

/// A record that waits for earlier ones.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting {
    pub(super) time_ns: u64,
    /// Records of the same time stay in the file's order.
    sequence: u64,
    kind: u32,
    misc: u16,
    body: Box<[u8]>,
}

impl Waiting {
    /// The record.
    pub(super) fn record(&self, order: ByteOrder) -> RawRecord<'_> {
        RawRecord { kind: self.kind, misc: self.misc, body: &self.body, order }
    }
}

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
    /// Holds a record back.
    pub(super) fn push(&mut self, time_ns: u64, record: &RawRecord<'_>) {
        self.latest_ns = self.latest_ns.max(time_ns);
        self.bytes += record.body.len() + RECORD_BYTES;
        self.sequence += 1;
        let (sequence, kind, misc) = (self.sequence, record.kind, record.misc);
        self.waiting.push(Reverse(Waiting { time_ns, sequence, kind, misc, body: record.body.into() }));
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
        self.bytes -= waiting.body.len() + RECORD_BYTES;
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(rounds: &mut Rounds, times: &[u64]) {
        for &time in times {
            let body = time.to_le_bytes();
            rounds.push(time, &RawRecord { kind: 9, misc: 0, body: &body, order: ByteOrder::Little });
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
            rounds.push(5, &RawRecord { kind, misc: 0, body: &[], order: ByteOrder::Little });
        }
        rounds.finish();
        let kinds: Vec<u32> = std::iter::from_fn(|| rounds.pop()).map(|waiting| waiting.kind).collect();
        assert_eq!(kinds, [3, 10, 9]);
    }

    #[test]
    fn memory_is_bounded_without_marks() {
        let mut rounds = Rounds::default();
        let body = vec![0; 60_000];
        let mut popped = 0;
        for time_ns in 0..10_000_u64 {
            rounds.push(time_ns, &RawRecord { kind: 9, misc: 0, body: &body, order: ByteOrder::Little });
            while let Some(waiting) = rounds.pop() {
                assert_eq!(waiting.time_ns, popped);
                popped += 1;
            }
            assert!(rounds.bytes <= MOST_BYTES + body.len() + RECORD_BYTES);
        }
        assert!(popped > 5000);
    }
}
