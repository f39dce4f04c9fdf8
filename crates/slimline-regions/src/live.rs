//! The profile while it is made: the process's paths and threads, and the clock.
//!
//! Each thread counts for itself, under a lock that nobody else wants before the end; paths are looked up in the
//! process's table when a thread meets them first.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Instant;

use crate::kind::{Kind, Phase};
use crate::path::{PathId, Paths, Place, Region};
use crate::stack::{Entry, Stack};
use crate::team::Team;

/// The profile of this process.
pub(crate) struct Live {
    pub(crate) began: Instant,
    pub(crate) directory: PathBuf,
    pub(crate) paths: Mutex<Paths>,
    pub(crate) threads: Mutex<Vec<&'static Counted>>,
    is_over: AtomicBool,
}

/// A thread that is counted. It lives as long as the process: what it counted is written at the end.
pub(crate) struct Counted {
    pub(crate) number: u32,
    pub(crate) kernel_id: u32,
    pub(crate) counts: Mutex<Counts>,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) stack: Stack,
    known: HashMap<(PathId, Region), Option<PathId>>,
}

static LIVE: OnceLock<Live> = OnceLock::new();

thread_local! {
    static THIS: Cell<Option<&'static Counted>> = const { Cell::new(None) };
}

/// Begins the profile, which is to be written into `directory`.
pub(crate) fn begin(directory: PathBuf) {
    let _ = LIVE.set(Live {
        began: Instant::now(),
        directory,
        paths: Mutex::default(),
        threads: Mutex::default(),
        is_over: AtomicBool::new(false),
    });
}

/// The profile; None where none is wanted, or it is over.
pub(crate) fn live() -> Option<&'static Live> {
    LIVE.get().filter(|live| !live.is_over.load(Acquire))
}

impl Live {
    /// Nothing is counted from now on. False where that was so before.
    pub(crate) fn close(&self) -> bool {
        !self.is_over.swap(true, Release)
    }

    /// Nanoseconds since the profile began, and never 0, which is not yet.
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// The calling thread. `number` is the one that it has in its team.
    fn this_thread(&self, number: u32) -> &'static Counted {
        THIS.get().unwrap_or_else(|| {
            let mut threads = locked(&self.threads);
            let is_taken = |number: u32| threads.iter().any(|thread| thread.number == number);
            let number =
                if is_taken(number) { (0..).find(|number| !is_taken(*number)).unwrap_or(number) } else { number };
            let kernel_id = super::process::thread_id();
            let thread: &'static Counted = Box::leak(Box::new(Counted { number, kernel_id, counts: Mutex::default() }));
            threads.push(thread);
            THIS.set(Some(thread));
            thread
        })
    }

    /// In a forked child, which has one thread: it begins anew. False where that can't be, as another thread held what it
    /// will not let go of here.
    pub(crate) fn begin_again(&self) -> bool {
        let (Some(mut threads), Some(_paths)) = (held(&self.threads), held(&self.paths)) else { return false };
        threads.clear();
        if let Some(this) = THIS.get() {
            let Some(mut counts) = held(&this.counts) else { return false };
            counts.stack.forget(self.now_ns());
            threads.push(this);
        }
        true
    }
}

/// A lock that is held for moments only.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same where whoever holds it may never let it go. Waits for it a while.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..1000 {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

/// The calling thread while an event is counted.
pub(crate) struct Event {
    live: &'static Live,
    counts: MutexGuard<'static, Counts>,
    pub(crate) now_ns: u64,
}

/// An event on the calling thread; None where nothing is counted.
pub(crate) fn event() -> Option<Event> {
    event_of(0)
}

/// As [`event`], of a thread that has this number in its team.
pub(crate) fn event_of(number: u32) -> Option<Event> {
    let live = live()?;
    let counts = locked(&live.this_thread(number).counts);
    Some(Event { live, counts, now_ns: live.now_ns() })
}

impl Event {
    /// The thread's stack.
    pub(crate) fn stack(&mut self) -> &mut Stack {
        &mut self.counts.stack
    }

    /// The path that goes on from the thread's by a region.
    pub(crate) fn path(&mut self, region: Region) -> Option<PathId> {
        let Counts { stack, known } = &mut *self.counts;
        let key = (stack.path(), region);
        if let Some(path) = known.get(&key) {
            return *path;
        }
        let path = locked(&self.live.paths).child(key.0, &key.1);
        known.insert(key, path);
        path
    }

    /// Enters the region of a kind at a code address, in that phase.
    pub(crate) fn enter(&mut self, kind: Kind, address: u64, phase: Phase) {
        self.enter_region(Region::at(kind, address), Entry::Execution, phase);
    }

    /// Enters a region.
    pub(crate) fn enter_region(&mut self, region: Region, entry: Entry, phase: Phase) {
        let (kind, path) = (region.kind, self.path(region));
        let now_ns = self.now_ns;
        self.stack().enter(path, kind, entry, phase, now_ns);
    }

    /// The code address of the region that the thread is in.
    pub(crate) fn innermost_address(&mut self) -> Option<u64> {
        let path = self.stack().path();
        match locked(&self.live.paths).node(path)?.region.place {
            Place::Code { address, .. } => Some(address),
            Place::Name(_) => None,
        }
    }

    /// Goes on to another phase of the innermost region of a kind.
    pub(crate) fn phase(&mut self, kind: Kind, phase: Phase) {
        let now_ns = self.now_ns;
        self.stack().phase(kind, phase, now_ns);
    }

    /// Leaves the innermost region of a kind.
    pub(crate) fn exit(&mut self, kind: Kind, end_address: u64) {
        let now_ns = self.now_ns;
        self.stack().exit(kind, end_address, now_ns);
    }

    /// Meets a parallel construct.
    pub(crate) fn fork(&mut self, address: u64) -> Arc<Team> {
        let path = self.path(Region::at(Kind::Parallel, address));
        let team = Arc::new(Team::new(path, self.now_ns));
        self.stack().fork(Arc::clone(&team));
        team
    }

    /// Goes on behind it.
    pub(crate) fn end_parallel(&mut self, team: &Team) {
        let now_ns = self.now_ns;
        team.end(now_ns);
        self.stack().end_parallel(now_ns);
    }

    /// The barrier that a construct implies: a phase of it. Of what construct nobody knows, a region of its own.
    pub(crate) fn implied_barrier(&mut self, address: u64) {
        let now_ns = self.now_ns;
        if self.stack().enter_barrier(now_ns).is_none() {
            self.enter(Kind::ImplicitBarrier, address, Phase::ExitBarrier);
        }
    }

    /// Leaves the region that the thread is in, which is a barrier or one that waits at its.
    pub(crate) fn leave(&mut self, end_address: u64) {
        if let Some(kind) = self.stack().innermost() {
            self.exit(kind, end_address);
        }
    }

    /// Sections that are fewer than threads: those that have none wait for want of work.
    pub(crate) fn limit_if_fewer(&mut self, sections: u64) {
        if self.stack().team().is_some_and(|team| sections < u64::from(team.threads())) {
            self.stack().limit();
        }
    }
}
