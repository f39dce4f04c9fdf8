//! Keys of accesses that other tools tell of, in which each thread has its own for each place in its code.

use std::collections::HashMap;

use slimline_analyze::origins::{Data, Names, Origin, Origins, Thread};
use slimline_collect::TracedKind;

/// Keys of threads' places: addresses of instructions, or numbers of lines.
#[derive(Default)]
pub(super) struct Keys {
    processes: HashMap<u64, u32>,
    thread_numbers: HashMap<Thread, u32>,
    /// In the order of their first accesses.
    threads: Vec<Thread>,
    /// By thread, then place; fetches of it are told apart from its accesses.
    numbers: HashMap<(u32, u64, bool), u32>,
    /// Thread, place, and how often it was asked for.
    keys: Vec<(u32, u64, u64)>,
}

impl Keys {
    /// The number of a process in the trace.
    pub(super) fn process(&mut self, number: u64) -> u32 {
        let next = self.processes.len() as u32;
        *self.processes.entry(number).or_insert(next)
    }

    /// The number of a thread of the process that has this number in the trace.
    pub(super) fn thread(&mut self, process: u32, tid: u32) -> u32 {
        let thread = Thread { process, tid };
        let next = self.threads.len() as u32;
        let number = *self.thread_numbers.entry(thread).or_insert(next);
        if number == next {
            self.threads.push(thread);
        }
        number
    }

    /// The key of an access.
    pub(super) fn of(&mut self, thread: u32, kind: TracedKind, place: u64) -> u32 {
        let next = self.keys.len() as u32;
        let key = *self.numbers.entry((thread, place, kind == TracedKind::Fetch)).or_insert(next);
        if key == next {
            self.keys.push((thread, place, 0));
        }
        self.keys[key as usize].2 += 1;
        key
    }

    /// What they mean, by what places do.
    pub(super) fn origins(self, data: Vec<Data>, mut names: Names, of: impl Fn(u64, &mut Names) -> Origin) -> Origins {
        let origins =
            self.keys.iter().map(|&(thread, place, accesses)| Origin { thread, accesses, ..of(place, &mut names) });
        let origins = origins.collect();
        Origins::new(origins, data, names, self.threads)
    }
}
