//! The threads of one process, and which of them owns each slot.

use std::collections::HashMap;

use slimline_trace::tables::{Thread, ThreadRow, Threads};
use slimline_trace::wire::ThreadEvent;

/// All threads seen so far.
#[derive(Debug, Default)]
pub(crate) struct ThreadRoll {
    rows: Threads,
    /// The thread that owns each slot.
    owners: HashMap<usize, ThreadRow>,
    /// Rows without an end.
    unended: u64,
}

impl ThreadRoll {
    /// The table.
    pub(crate) fn rows(&self) -> &Threads {
        &self.rows
    }

    /// Threads that have not said that they end.
    pub(crate) fn unended(&self) -> u64 {
        self.unended
    }

    /// Takes in that the thread of `slot` began or ended.
    pub(crate) fn take(&mut self, slot: usize, event: &ThreadEvent) {
        let began = event.ended == 0;
        let known = self.owners.get(&slot).copied().filter(|row| {
            let row = row.index();
            self.rows.tid[row] == event.tid && !(began && self.rows.ended_ns[row].is_some())
        });
        let row = known.unwrap_or_else(|| self.add(slot, event.tid, event.time_ns)).index();
        let end = event.name.iter().position(|&byte| byte == 0).unwrap_or(event.name.len());
        if end > 0 {
            self.rows.name[row] = String::from_utf8_lossy(&event.name[..end]).into_owned();
        }
        self.rows.cpu_ns[row] = self.rows.cpu_ns[row].max(event.cpu_ns);
        if began {
            self.rows.began_ns[row] = event.time_ns;
        } else {
            self.unended -= u64::from(self.rows.ended_ns[row].is_none());
            self.rows.ended_ns[row] = Some(event.time_ns);
        }
    }

    /// The thread that owned `slot` at `time_ns`, also where the message that it began was dropped, or where a sample from
    /// before its end comes after the message that it ended. The kernel gives a number out again: what comes from after
    /// the end is another thread's.
    pub(crate) fn owner(&mut self, slot: usize, tid: u32, time_ns: u64) -> ThreadRow {
        match self.owners.get(&slot) {
            Some(&row)
                if self.rows.tid[row.index()] == tid
                    && self.rows.ended_ns[row.index()].is_none_or(|ended_ns| time_ns <= ended_ns) =>
            {
                row
            }
            _ => self.add(slot, tid, time_ns),
        }
    }

    /// The thread of `slot` has another name now.
    pub(crate) fn rename(&mut self, slot: usize, name: &str) {
        if let Some(&row) = self.owners.get(&slot) {
            name.clone_into(&mut self.rows.name[row.index()]);
        }
    }

    /// One more sample of `thread`.
    pub(crate) fn count_sample(&mut self, thread: ThreadRow) {
        self.rows.samples[thread.index()] += 1;
    }

    fn add(&mut self, slot: usize, tid: u32, began_ns: u64) -> ThreadRow {
        let row = ThreadRow::new(self.rows.len());
        self.rows.push(Thread { tid, name: String::new(), began_ns, ended_ns: None, cpu_ns: 0, samples: 0 });
        self.owners.insert(slot, row);
        self.unended += 1;
        row
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(tid: u32, time_ns: u64, ended: u32) -> ThreadEvent {
        ThreadEvent { time_ns, cpu_ns: 0, tid, ended, name: [0; 16] }
    }

    #[test]
    fn a_late_sample_is_no_other_thread() {
        let mut roll = ThreadRoll::default();
        roll.take(3, &event(70, 10, 0));
        let first = roll.owner(3, 70, 20);
        roll.take(3, &event(70, 30, 1));
        assert_eq!(roll.owner(3, 70, 29), first);
        // The next thread in the slot, though the message that it began was dropped; and the kernel's number again.
        let second = roll.owner(3, 71, 40);
        roll.take(3, &event(71, 50, 1));
        roll.take(3, &event(71, 60, 0));
        let third = roll.owner(3, 71, 70);
        assert_eq!([first, second, third].map(ThreadRow::index), [0, 1, 2]);
        assert_eq!(roll.rows().tid, [70, 71, 71]);
        assert_eq!(roll.unended(), 1);
    }

    proptest! {
        /// What is counted as it comes is what the table says.
        #[test]
        fn unended_threads_are_those_without_an_end(
            steps in prop::collection::vec((0..3_usize, 70..74_u32, 0..3_u8), 0..60),
        ) {
            let mut roll = ThreadRoll::default();
            for (time_ns, (slot, tid, what)) in (1..).zip(steps) {
                match what {
                    0 | 1 => roll.take(slot, &event(tid, time_ns, what.into())),
                    _ => drop(roll.owner(slot, tid, time_ns)),
                }
                let without_end = roll.rows().ended_ns.iter().filter(|ended| ended.is_none()).count();
                prop_assert_eq!(roll.unended(), without_end as u64);
            }
        }
    }
}
