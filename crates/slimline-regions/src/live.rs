//! The profile while it is made: the process's paths and threads, and the clock.
//!
//! Each thread counts for itself, under a lock that nobody else wants before the end; paths are looked up in the
//! process's table when a thread meets them first.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Instant;

use crate::cost::Cost;
use crate::format::STEPS_SUFFIX;
use crate::kind::{Kind, Phase};
use crate::path::{PathId, Paths, Place, ROOT, Region};
use crate::stack::{Entry, Stack};
use crate::steps::Steps;
use crate::team::Team;
use crate::traced;

/// The profile of this process.
pub(crate) struct Live {
    pub(crate) began: Instant,
    /// The same by `CLOCK_MONOTONIC`.
    pub(crate) began_ns: u64,
    pub(crate) directory: PathBuf,
    pub(crate) paths: Mutex<Paths>,
    pub(crate) threads: Mutex<Vec<&'static Counted>>,
    /// No thread's: what counting costs is measured with it. There once a thread is, as most processes have no regions.
    trial: OnceLock<Counted>,
    is_over: AtomicBool,
    /// Ends of marked regions that had not begun.
    pub(crate) unknown_ends: AtomicU64,
    /// Events within events.
    pub(crate) lost_events: AtomicU64,
    /// When the process came to be, if it was forked.
    born_ns: AtomicU64,
    /// Each change of a thread's path is kept.
    keeps_steps: bool,
}

/// A thread that is counted. It lives as long as the process: what it counted is written at the end.
pub(crate) struct Counted {
    pub(crate) number: u32,
    /// In a forked child another one.
    pub(crate) kernel_id: AtomicU32,
    pub(crate) counts: Mutex<Counts>,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) stack: Stack,
    /// The path that the thread's stream was told last; none of the one that is on trial.
    told: Option<PathId>,
    pub(crate) steps: Option<Box<Steps>>,
    known: HashMap<(PathId, Region), Option<PathId>>,
    /// Of marked regions: made once, as programs mark regions that take no longer than making one.
    names: HashMap<Box<str>, Arc<str>>,
}

/// Executions of a region by which counting is measured, and how often that is done: the quickest time is the one that nothing
/// disturbed.
const TRIALS: u32 = 256;
const TIMES: u32 = 4;

/// The region that nobody is in.
const TRIAL: (Kind, u64) = (Kind::User, 0);

impl Counts {
    /// In its first region all that is ever needed is there: measuring allocates nothing.
    fn on_trial() -> Self {
        let mut counts = Self::default();
        let path = Some(PathId(1));
        counts.known.insert((ROOT, Region::at(TRIAL.0, TRIAL.1)), path);
        counts.stack.enter(path, TRIAL.0, Entry::Execution, Phase::Body, 0);
        counts.stack.exit(TRIAL.0, 0, 0);
        counts
    }
}

static LIVE: OnceLock<Live> = OnceLock::new();

thread_local! {
    static THIS: Cell<Option<&'static Counted>> = const { Cell::new(None) };
    static IS_COUNTING: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread is counting, or telling what is watched. What comes meanwhile, by a signal's handler or by an allocator that is instrumented, is not
/// counted: it would wait for its own thread.
pub(crate) struct Counting(());

impl Counting {
    /// None where it is already, which is counted as lost.
    pub(crate) fn begin(live: &Live) -> Option<Self> {
        if IS_COUNTING.replace(true) {
            live.lost_events.fetch_add(1, Relaxed);
            return None;
        }
        Some(Self(()))
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        IS_COUNTING.set(false);
    }
}

/// Begins the profile, which is to be written into `directory`, and each change of a thread's path, if they are asked for.
pub(crate) fn begin(directory: PathBuf, keeps_steps: bool) {
    let _ = LIVE.set(Live {
        began: Instant::now(),
        began_ns: crate::process::monotonic_ns(),
        directory,
        paths: Mutex::default(),
        threads: Mutex::default(),
        trial: OnceLock::new(),
        is_over: AtomicBool::new(false),
        unknown_ends: AtomicU64::new(0),
        lost_events: AtomicU64::new(0),
        born_ns: AtomicU64::new(0),
        keeps_steps,
    });
}

/// The profile; None where none is wanted, or it is over.
pub(crate) fn live() -> Option<&'static Live> {
    LIVE.get().filter(|live| !live.is_over.load(Acquire))
}

/// The profile, also where it is over.
pub(crate) fn begun() -> Option<&'static Live> {
    LIVE.get()
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

    /// Now, by `CLOCK_MONOTONIC`.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.began_ns.saturating_add(self.now_ns())
    }

    /// Measures what counting costs on this machine, as it is now. None where no thread was counted.
    pub(crate) fn cost(&'static self) -> Option<Cost> {
        let trial = self.trial.get()?;
        let mut least = None;
        for _ in 0..TIMES {
            held(&trial.counts)?.stack.forget(0);
            let before = Instant::now();
            for _ in 0..TRIALS {
                self.event(trial, Counting(())).enter(TRIAL.0, TRIAL.1, Phase::Body);
                self.event(trial, Counting(())).exit(TRIAL.0, 0);
            }
            let whole_ns = u64::try_from(before.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let inside_ns = held(&trial.counts)?.stack.rows().next().map_or(0, |(_, times)| times.exec_ns());
            let cost = Cost::of(u64::from(TRIALS), inside_ns, whole_ns);
            least = Some(least.map_or(cost, |least: Cost| least.min(cost)));
        }
        least
    }

    /// An event of that thread.
    fn event(&'static self, thread: &'static Counted, counting: Counting) -> Event {
        let counts = locked(&thread.counts);
        Event { live: self, counts, now_ns: self.now_ns(), _counting: counting }
    }

    /// The calling thread. `number` is the one that it has in its team.
    fn this_thread(&self, number: u32) -> &'static Counted {
        THIS.get().unwrap_or_else(|| {
            let on_trial =
                || Counted { number: 0, kernel_id: AtomicU32::new(0), counts: Mutex::new(Counts::on_trial()) };
            self.trial.get_or_init(on_trial);
            let mut threads = locked(&self.threads);
            let is_taken = |number: u32| threads.iter().any(|thread| thread.number == number);
            let number =
                if is_taken(number) { (0..).find(|number| !is_taken(*number)).unwrap_or(number) } else { number };
            let kernel_id = AtomicU32::new(super::process::thread_id());
            let steps = self.steps(kernel_id.load(Relaxed));
            let counts = Mutex::new(Counts { told: Some(ROOT), steps, ..Counts::default() });
            let thread: &'static Counted = Box::leak(Box::new(Counted { number, kernel_id, counts }));
            threads.push(thread);
            THIS.set(Some(thread));
            super::process::write_before_fatal_signals();
            thread
        })
    }

    /// When the process began, by `CLOCK_MONOTONIC`, and how long it has been profiled.
    pub(crate) fn lifetime(&self, now_ns: u64) -> (u64, u64) {
        let born_ns = self.born_ns.load(Relaxed);
        (self.began_ns.saturating_add(born_ns), now_ns.saturating_sub(born_ns))
    }

    /// Where a thread's changes go, if they are asked for and a file can be made.
    fn steps(&self, kernel_id: u32) -> Option<Box<Steps>> {
        if !self.keeps_steps {
            return None;
        }
        let place = self.directory.join(format!("{}-{kernel_id}{STEPS_SUFFIX}", std::process::id()));
        Some(Box::new(Steps::to(File::create(place).ok()?)))
    }

    /// In a forked child, which has one thread: it begins anew. False where that can't be, as another thread held what it
    /// will not let go of here.
    pub(crate) fn begin_again(&self) -> bool {
        let (Some(mut threads), Some(mut paths)) = (held(&self.threads), held(&self.paths)) else { return false };
        threads.clear();
        paths.forget_lost();
        self.born_ns.store(self.now_ns(), Relaxed);
        for lost in [&self.unknown_ends, &self.lost_events] {
            lost.store(0, Relaxed);
        }
        // Whoever was counting is another thread.
        IS_COUNTING.set(false);
        if let Some(this) = THIS.get() {
            let Some(mut counts) = held(&this.counts) else { return false };
            counts.stack.forget(self.now_ns());
            // What samples knows that it is where its parent was; its stream, which is a new one, is told as soon as there is one.
            counts.told = Some(counts.stack.place());
            let kernel_id = super::process::thread_id();
            this.kernel_id.store(kernel_id, Relaxed);
            counts.steps = self.steps(kernel_id);
            threads.push(this);
        }
        true
    }
}

/// Where the calling thread is: what a stream is told that begins.
pub(crate) fn place_of_this_thread() -> PathId {
    let counts = THIS.get().and_then(|this| held(&this.counts));
    counts.map_or(ROOT, |counts| counts.stack.place())
}

/// A lock that is held for moments only.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
    /// Until nothing is locked any more.
    _counting: Counting,
}

/// An event on the calling thread; None where nothing is counted, or it is counting already.
pub(crate) fn event() -> Option<Event> {
    event_of(0)
}

/// As [`event`], of a thread that has this number in its team.
pub(crate) fn event_of(number: u32) -> Option<Event> {
    let live = live()?;
    let counting = Counting::begin(live)?;
    Some(live.event(live.this_thread(number), counting))
}

/// What the thread accesses next is of the region that it is in then.
impl Drop for Event {
    fn drop(&mut self) {
        let path = self.counts.stack.place();
        let time_ns = self.live.began_ns.saturating_add(self.now_ns);
        let Counts { told: Some(told), steps, .. } = &mut *self.counts else { return };
        if *told != path {
            *told = path;
            traced::region(path);
            if let Some(steps) = steps {
                steps.push(time_ns, path);
            }
        }
    }
}

impl Event {
    /// The thread's stack.
    pub(crate) fn stack(&mut self) -> &mut Stack {
        &mut self.counts.stack
    }

    /// A name, each time the same.
    pub(crate) fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.counts.names.get(name) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(name);
        self.counts.names.insert(name.into(), Arc::clone(&new));
        new
    }

    /// The path that goes on from the thread's by a region.
    pub(crate) fn path(&mut self, region: Region) -> Option<PathId> {
        let Counts { stack, known, .. } = &mut *self.counts;
        let key = (stack.path(), region);
        if let Some(path) = known.get(&key) {
            return *path;
        }
        traced::look_for_listeners();
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

    /// Leaves the region that was marked last. Where none is open here that is counted.
    pub(crate) fn end_marked(&mut self) {
        let now_ns = self.now_ns;
        if !self.stack().exit(Kind::User, 0, now_ns) {
            self.live.unknown_ends.fetch_add(1, Relaxed);
        }
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
