//! One execution of a parallel region.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::path::PathId;

/// The threads that execute a parallel region once. Times are in nanoseconds since the profile began; 0 is not yet.
///
/// A worker can't say itself when the region was over for it: runtimes tell that when they need it next, or never. So all
/// threads take the end from here, where the thread that met the construct leaves it.
#[derive(Debug)]
pub struct Team {
    path: Option<PathId>,
    forked_ns: u64,
    joined_ns: AtomicU64,
    ended_ns: AtomicU64,
    threads: AtomicU32,
}

impl Team {
    /// A team whose region on `path` was met at `forked_ns`.
    #[must_use]
    pub fn new(path: Option<PathId>, forked_ns: u64) -> Self {
        Self { path, forked_ns, joined_ns: AtomicU64::new(0), ended_ns: AtomicU64::new(0), threads: AtomicU32::new(0) }
    }

    /// The path of its region: what the paths of its workers begin with. None where that was one too many.
    #[must_use]
    pub fn path(&self) -> Option<PathId> {
        self.path
    }

    /// The runtime gave it so many threads.
    pub fn set_threads(&self, threads: u32) {
        self.threads.store(threads, Relaxed);
    }

    /// How many threads it has; 0 where nobody said.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.threads.load(Relaxed)
    }

    /// When the construct was met.
    #[must_use]
    pub fn forked_ns(&self) -> u64 {
        self.forked_ns
    }

    /// A thread, or a task, is through with its work, or the barrier is over: nobody leaves the barrier before.
    pub fn join(&self, now_ns: u64) {
        self.joined_ns.fetch_max(now_ns, Release);
    }

    /// The thread that met the construct goes on behind it.
    pub fn end(&self, now_ns: u64) {
        self.ended_ns.store(now_ns, Release);
    }

    /// When the barrier at its end was over and when the region was, as far as known by `now_ns`: neither is later, and not
    /// the second before the first.
    pub(crate) fn over(&self, now_ns: u64) -> (u64, u64) {
        let known = |time: &AtomicU64| match time.load(Acquire) {
            0 => now_ns,
            time => time.min(now_ns),
        };
        let ended = known(&self.ended_ns);
        (known(&self.joined_ns).min(ended), ended)
    }
}
