//! Stretches of several threads that overlap in time, access by access.
//!
//! Of a stretch of a thread it is known when it began, often when it ended, and nothing between. Taken one stretch after the
//! other, two threads that store to one line would take it from each other once a stretch, where they did so all the time.
//! So a stretch's accesses are taken to be spread evenly over its time, and those of all threads are put in that order:
//!
//! ```text
//!   thread 1  ├─ ─ ─ ─ ─ ─ ─┤├ ─ ─ ─ ─┤
//!   thread 2       ├ ─ ─ ─┤├ ─ ─ ─ ┤
//!             ─────────────────────────► one order
//! ```
//!
//! What comes before what between stretches that do not overlap is as it was. A thread that waits makes its stretch last far
//! longer than its accesses took: where that is more than [`MOST_TIMES`] what is usual, or the end is not known, the accesses
//! are taken to be at the stretch's beginning, at the usual pace. What is usual follows all stretches, those of threads that
//! waited, too: from about a tenth of them on, that is usual, and they are spread over it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::access::{Access, Consumer, Located};

/// Stretches that last longer than so many times the usual are of threads that waited.
pub const MOST_TIMES: u64 = 16;
/// Time of an access, in parts of [`PARTS`], before anything was seen: about four cycles.
const USUAL: u64 = 4 * PARTS;
/// Parts of a unit of time.
const PARTS: u64 = 256;
/// Accesses that are handed on together.
const BATCH: usize = 1 << 12;

/// Puts accesses in order, and hands them on. Takes the memory of one stretch for each thread.
pub struct Interleaver<'a> {
    consumer: &'a mut dyn Consumer,
    stretches: Vec<Stretch>,
    /// Stretches with anything left, by the time of their next access.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// Places of stretches that are done.
    free: Vec<usize>,
    batch: Vec<Access>,
    usual: u64,
    processes: Vec<Process>,
    /// Whether what one process does is in others' way, too.
    is_together: bool,
    /// By number of the thread.
    threads: Vec<Done>,
}

/// A process, and how many of its stretches have anything left.
#[derive(Debug)]
struct Process {
    number: u32,
    stretches: usize,
}

/// Accesses of a thread that were handed on.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    accesses: u64,
    /// Those during which another thread of the process was within a stretch, too.
    overlapped: u64,
}

#[derive(Debug, Default)]
struct Stretch {
    stream: (u32, u32),
    /// Index of its process.
    process: usize,
    accesses: Vec<Access>,
    done: usize,
    since: u64,
    /// Parts of time an access takes.
    pace: u64,
}

impl Stretch {
    fn time_of(&self, access: usize) -> u64 {
        self.since.saturating_add((access as u64).saturating_mul(self.pace) / PARTS)
    }

    /// Index behind the accesses that are no later than a time, at least one more than were handed on.
    fn up_to(&self, time: u64) -> usize {
        let parts = time.saturating_sub(self.since).saturating_add(1).saturating_mul(PARTS);
        let index = usize::try_from(parts.div_ceil(self.pace)).unwrap_or(usize::MAX);
        index.clamp(self.done + 1, self.accesses.len())
    }
}

impl<'a> Interleaver<'a> {
    /// Hands on to this one.
    pub fn new(consumer: &'a mut dyn Consumer) -> Self {
        Self {
            consumer,
            stretches: Vec::new(),
            next: BinaryHeap::new(),
            free: Vec::new(),
            batch: Vec::new(),
            usual: USUAL,
            processes: Vec::new(),
            is_together: false,
            threads: Vec::new(),
        }
    }

    /// Has processes be in each other's way as threads of one are, as they share memory.
    #[must_use]
    pub fn together(self) -> Self {
        Self { is_together: true, ..self }
    }

    /// Hands on where pages and threads are. What was taken in before and is not handed on yet is taken to be there, too.
    pub fn locate(&mut self, located: &Located<'_>) {
        self.consumer.locate(located);
    }

    /// Takes in a stretch of a stream, which begins no earlier than those before, and leaves `accesses` empty.
    pub fn stretch(&mut self, stream: (u32, u32), since: u64, until: Option<u64>, accesses: &mut Vec<Access>) {
        if accesses.is_empty() {
            return;
        }
        // Before this one begins.
        self.hand_on(since.checked_sub(1));
        // Of one stream nothing overlaps, whatever its times say.
        while self.next.iter().any(|Reverse((_, place))| self.stretches[*place].stream == stream) {
            self.one(u64::MAX);
        }
        let count = accesses.len() as u64;
        let even = until.and_then(|until| until.checked_sub(since)).map(|time| time.saturating_mul(PARTS) / count);
        let pace = even.filter(|&pace| pace <= self.usual.saturating_mul(MOST_TIMES)).unwrap_or(self.usual).max(1);
        if let Some(even) = even {
            // Saturating, as a damaged trace's times may be anything.
            let even = even.min(self.usual.saturating_mul(MOST_TIMES));
            self.usual = (self.usual.saturating_mul(15).saturating_add(even) / 16).max(1);
        }
        let process = self.process(if self.is_together { 0 } else { stream.0 });
        let place = self.free.pop().unwrap_or_else(|| {
            self.stretches.push(Stretch::default());
            self.stretches.len() - 1
        });
        let stretch = &mut self.stretches[place];
        std::mem::swap(&mut stretch.accesses, accesses);
        accesses.clear();
        (stretch.stream, stretch.process) = (stream, process);
        (stretch.done, stretch.since, stretch.pace) = (0, since, pace);
        self.processes[process].stretches += 1;
        self.next.push(Reverse((since, place)));
    }

    /// Index of a process.
    fn process(&mut self, number: u32) -> usize {
        self.processes.iter().position(|process| process.number == number).unwrap_or_else(|| {
            self.processes.push(Process { number, stretches: 0 });
            self.processes.len() - 1
        })
    }

    /// Hands on at once what the only stream there is did next, and leaves `accesses` empty.
    pub fn alone(&mut self, accesses: &mut Vec<Access>) {
        self.consumer.take(accesses);
        count(&mut self.threads, accesses, false);
        accesses.clear();
    }

    /// Hands on what is no later than that time.
    fn hand_on(&mut self, limit: Option<u64>) {
        let Some(limit) = limit else { return };
        while self.next.peek().is_some_and(|Reverse((time, _))| *time <= limit) {
            self.one(limit);
        }
    }

    /// Hands on accesses of the stretch that is next, up to that time or to what another stretch has.
    fn one(&mut self, limit: u64) {
        let Some(Reverse((_, place))) = self.next.pop() else { return };
        let others = self.next.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
        let stretch = &mut self.stretches[place];
        let to = stretch.up_to(limit.min(others));
        let accesses = &stretch.accesses[stretch.done..to];
        let process = &mut self.processes[stretch.process];
        count(&mut self.threads, accesses, process.stretches > 1);
        if accesses.len() >= BATCH {
            self.consumer.take(&self.batch);
            self.batch.clear();
            accesses.chunks(BATCH).for_each(|accesses| self.consumer.take(accesses));
        } else {
            self.batch.extend_from_slice(accesses);
            if self.batch.len() >= BATCH {
                self.consumer.take(&self.batch);
                self.batch.clear();
            }
        }
        stretch.done = to;
        if to < stretch.accesses.len() {
            self.next.push(Reverse((stretch.time_of(to), place)));
        } else {
            process.stretches -= 1;
            self.free.push(place);
        }
    }

    /// Hands on the rest. Returns which part of what all threads accessed, but for the one that accessed most, they did while another
    /// one of their process was within a stretch, too; none where there is one thread only.
    pub fn finish(mut self) -> Option<f64> {
        self.hand_on(Some(u64::MAX));
        self.consumer.take(&self.batch);
        let busiest = self.threads.iter().enumerate().max_by_key(|(_, done)| done.accesses)?.0;
        self.threads.remove(busiest);
        let sum = |of: fn(&Done) -> u64| self.threads.iter().map(of).sum::<u64>();
        let accesses = sum(|done| done.accesses);
        (accesses > 0).then(|| sum(|done| done.overlapped) as f64 / accesses as f64)
    }
}

/// Counts what was handed on of one thread.
fn count(threads: &mut Vec<Done>, accesses: &[Access], is_overlapped: bool) {
    let Some(first) = accesses.first() else { return };
    let thread = first.thread as usize;
    if thread >= threads.len() {
        threads.resize(thread + 1, Done::default());
    }
    threads[thread].accesses += accesses.len() as u64;
    threads[thread].overlapped += if is_overlapped { accesses.len() as u64 } else { 0 };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::access::AccessKind;
    use crate::access::Work;

    #[derive(Default)]
    struct Seen(Vec<Access>);

    impl Consumer for Seen {
        fn take(&mut self, accesses: &[Access]) {
            self.0.extend_from_slice(accesses);
        }
    }

    /// A stretch: thread, when it began and ended, accesses.
    type Told = (u32, u64, Option<u64>, usize);

    /// Thread, stretch and number of each access in the order in which they are handed on.
    fn order(stretches: &[Told]) -> Vec<(u32, u32, u64)> {
        handed_on(stretches).0
    }

    /// The same, and how far threads overlapped.
    fn handed_on(stretches: &[Told]) -> (Vec<(u32, u32, u64)>, Option<f64>) {
        let mut seen = Seen::default();
        let mut interleaver = Interleaver::new(&mut seen);
        for (key, &(thread, since, until, count)) in (0..).zip(stretches) {
            let access = |address| Access { address, key, bytes: 1, thread, kind: AccessKind::Load, work: Work::USUAL };
            let mut accesses: Vec<Access> = (0..count as u64).map(access).collect();
            interleaver.stretch((0, thread), since, until, &mut accesses);
            assert!(accesses.is_empty());
        }
        let overlap = interleaver.finish();
        (seen.0.iter().map(|access| (access.thread, access.key, access.address)).collect(), overlap)
    }

    #[test]
    fn threads_that_run_at_once_take_turns() {
        // At 100, 110, 120, 130; and at 105, 125.
        let found: Vec<u32> = order(&[(0, 100, Some(140), 4), (1, 105, Some(145), 2)]).iter().map(|a| a.0).collect();
        assert_eq!(found, [0, 1, 0, 0, 1, 0]);
    }

    #[test]
    fn who_waits_has_accessed_before() {
        for until in [Some(1_000_000), None] {
            let found = order(&[(0, 0, until, 50), (1, 300, Some(320), 4), (1, 320, Some(340), 4)]);
            assert!(found[..50].iter().all(|access| access.0 == 0), "{found:?}");
        }
    }

    #[test]
    fn threads_overlap_as_their_stretches_do() {
        let overlap = |stretches: &[Told]| handed_on(stretches).1;
        assert_eq!(overlap(&[]), None);
        assert_eq!(overlap(&[(0, 100, Some(140), 4)]), None);
        // The second one from 120 to 160, with an access each 10: those at 120 and 130 while the first one is at it, until 140.
        assert_eq!(overlap(&[(0, 100, Some(140), 8), (1, 120, Some(160), 4)]), Some(0.5));
        assert_eq!(overlap(&[(0, 100, Some(140), 8), (1, 140, Some(180), 4)]), Some(0.0));
        // Who waits for the other one does not access anything meanwhile.
        assert_eq!(overlap(&[(0, 100, Some(1_000_000), 50), (1, 400, Some(600), 40)]), Some(0.0));
        // The one that accesses most did so alone, and is not asked.
        let stretches = [(0, 0, Some(900), 90), (1, 1000, Some(1040), 4), (2, 1000, Some(1040), 4)];
        // All but the last access of these two, when the other one has none left.
        assert_eq!(overlap(&stretches), Some(7.0 / 8.0));
        // What another process does is in nobody's way.
        let mut seen = Seen::default();
        let mut interleaver = Interleaver::new(&mut seen);
        for process in 0..2 {
            let access =
                Access { address: 0, key: 0, bytes: 1, thread: process, kind: AccessKind::Load, work: Work::USUAL };
            interleaver.stretch((process, 0), 100, Some(140), &mut vec![access; 4]);
        }
        assert_eq!(interleaver.finish(), Some(0.0));
    }

    proptest! {
        /// Each access is handed on once, those of a thread in their order, and those of a stretch that ended before another one
        /// began before that one's.
        #[test]
        fn nothing_is_lost_and_causes_come_first(
            mut stretches in prop::collection::vec((0_u32..4, 0_u64..1000, 0_u64..400, 0_usize..40), 0..30),
            is_known in any::<bool>(),
        ) {
            stretches.sort_by_key(|stretch| stretch.1);
            let told: Vec<Told> = stretches.iter().enumerate().map(|(at, &(thread, since, lasted, count))| {
                // Up to the thread's next one at most.
                let next = stretches[at + 1..].iter().find(|other| other.0 == thread);
                let until = next.map_or(u64::MAX, |next| next.1).min(since + lasted);
                (thread, since, is_known.then_some(until), count)
            }).collect();
            let found = order(&told);
            let mut sorted = found.clone();
            sorted.sort_by_key(|&(_, stretch, number)| (stretch, number));
            let expected: Vec<_> = (0..).zip(&told).flat_map(|(stretch, &(thread, _, _, count))| {
                (0..count as u64).map(move |number| (thread, stretch, number))
            }).collect();
            prop_assert_eq!(sorted, expected);
            for (at, &(thread, stretch, number)) in found.iter().enumerate() {
                for &(other, later, more) in &found[at + 1..] {
                    prop_assert!(thread != other || (stretch, number) < (later, more));
                    let ended = told[later as usize].2;
                    let is_instant = ended == Some(told[later as usize].1);
                    prop_assert!(is_instant || ended.is_none_or(|ended| ended > told[stretch as usize].1));
                }
            }
        }
    }
}
