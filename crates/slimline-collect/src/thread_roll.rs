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
}

impl ThreadRoll {
    /// The table.
    pub(crate) fn rows(&self) -> &Threads {
        &self.rows
    }

    /// Threads that have not said that they end.
    pub(crate) fn unended(&self) -> u64 {
        self.rows.ended_ns.iter().filter(|ended| ended.is_none()).count() as u64
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
            self.rows.ended_ns[row] = Some(event.time_ns);
        }
    }

    /// The thread that owns `slot`, also where the message that it began was dropped.
    pub(crate) fn owner(&mut self, slot: usize, tid: u32, time_ns: u64) -> ThreadRow {
        match self.owners.get(&slot) {
            Some(&row) if self.rows.ended_ns[row.index()].is_none() => row,
            _ => self.add(slot, tid, time_ns),
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
        row
    }
}
