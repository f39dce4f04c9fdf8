//! LLVM's libomp, by OpenMP's tools interface: the runtime calls `ompt_start_tool`, and then the functions that were asked for.
#![allow(unsafe_code)] // called by the runtime, with its pointers

mod layout;

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::kind::{Kind, Phase};
use crate::live::{event, event_of, live};
use crate::path::{PathId, Region};
use crate::stack::Entry;
use crate::team::Team;
use std::cell::UnsafeCell;

use layout::{
    Data, Lookup, SCOPE_BEGIN, SetCallback, StartToolResult, TASK_CANCEL, TASK_COMPLETE, TASK_DETACH,
    TASK_EARLY_FULFILL, TASK_EXPLICIT, TASK_INITIAL, TASK_LATE_FULFILL, TASKWAIT_COMPLETE, callback, mutex, sync, work,
};

/// Whether the runtime tells us: then the entry points of libgomp, which libomp has too, are not counted as well.
static IS_ACTIVE: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_active() -> bool {
    IS_ACTIVE.load(Relaxed)
}

struct Result(UnsafeCell<StartToolResult>);
// SAFETY: the runtime alone looks at it and writes into it, when it starts.
unsafe impl Sync for Result {}

static RESULT: Result = Result(UnsafeCell::new(StartToolResult { initialize, finalize, tool: Data { value: 0 } }));

/// Asked by the runtime when it starts. Null where nothing is to be told.
#[unsafe(no_mangle)]
extern "C" fn ompt_start_tool(_: c_uint, _: *const c_char) -> *const StartToolResult {
    // A program that gcc compiled, with libomp in libgomp's place: the addresses that OMPT told would be ours.
    if live().is_none() || crate::gomp::is_active() { std::ptr::null() } else { RESULT.0.get() }
}

/// Not 0 where the tool stays.
extern "C" fn initialize(lookup: Lookup, _: c_int, _: *mut Data) -> c_int {
    // SAFETY: the name ends in NUL.
    let set = unsafe { lookup(c"ompt_set_callback".as_ptr()) };
    if set.is_null() {
        return 0;
    }
    // SAFETY: the runtime's function of this name has this type.
    let set = unsafe { std::mem::transmute::<*const c_void, SetCallback>(set) };
    let callbacks = [
        (callback::PARALLEL_BEGIN, parallel_begin as *const c_void),
        (callback::PARALLEL_END, parallel_end as *const c_void),
        (callback::IMPLICIT_TASK, implicit_task as *const c_void),
        (callback::TASK_CREATE, task_create as *const c_void),
        (callback::TASK_SCHEDULE, task_schedule as *const c_void),
        (callback::WORK, work as *const c_void),
        (callback::MASKED, masked as *const c_void),
        (callback::SYNC_REGION, sync_region as *const c_void),
        (callback::SYNC_REGION_WAIT, sync_region_wait as *const c_void),
        (callback::MUTEX_ACQUIRE, mutex_acquire as *const c_void),
        (callback::MUTEX_ACQUIRED, mutex_acquired as *const c_void),
        (callback::MUTEX_RELEASED, mutex_released as *const c_void),
    ];
    for (event, function) in callbacks {
        // SAFETY: each has the type that the header gives the callback of that event. One that the runtime doesn't know
        // is refused: then such regions are not told.
        unsafe { set(event, function) };
    }
    IS_ACTIVE.store(true, Relaxed);
    1
}

extern "C" fn finalize(_: *mut Data) {}

/// The team that [`parallel_begin`] left with a parallel region; None where that was before us.
///
/// # Safety
/// `parallel` must be null or the data of a region that has not ended.
unsafe fn team_of(parallel: *const Data) -> Option<Arc<Team>> {
    // SAFETY: promised by the caller; the pointer is of `Arc::into_raw`, whose count we hold until the region's end.
    unsafe {
        let team = parallel.as_ref()?.value as *const Team;
        if team.is_null() {
            return None;
        }
        Arc::increment_strong_count(team);
        Some(Arc::from_raw(team))
    }
}

/// What [`task_create`] leaves with an explicit task: that it is one, and its path.
const IS_EXPLICIT: u64 = 1 << 32;
/// And of one that was executed in part: going on is no execution.
const HAS_BEGUN: u64 = 1 << 62;

fn address(code: *const c_void) -> u64 {
    code as u64
}

unsafe extern "C" fn parallel_begin(
    _: *mut Data,
    _: *const c_void,
    parallel: *mut Data,
    _: c_uint,
    _: c_int,
    code: *const c_void,
) {
    let Some(mut event) = event() else { return };
    let team = event.fork(address(code));
    // SAFETY: the runtime's word for us, until `parallel_end`.
    unsafe { (*parallel).value = Arc::into_raw(team) as u64 };
}

unsafe extern "C" fn parallel_end(parallel: *mut Data, _: *mut Data, _: c_int, _: *const c_void) {
    // SAFETY: the region ends with this call. The count that `parallel_begin` left is given up by the second one.
    let team = unsafe {
        let team = team_of(parallel);
        if team.is_some() {
            drop(Arc::from_raw((*parallel).value as *const Team));
            (*parallel).value = 0;
        }
        team
    };
    if let Some(team) = team
        && let Some(mut event) = event()
    {
        event.end_parallel(&team);
    }
}

unsafe extern "C" fn implicit_task(
    endpoint: c_int,
    parallel: *mut Data,
    _: *mut Data,
    threads: c_uint,
    index: c_uint,
    flags: c_int,
) {
    if flags & TASK_INITIAL != 0 {
        return;
    }
    let Some(mut event) = event_of(index) else { return };
    let now_ns = event.now_ns;
    if endpoint == SCOPE_BEGIN {
        // SAFETY: a region that begins.
        if let Some(team) = unsafe { team_of(parallel) } {
            team.set_threads(threads);
            event.stack().begin_implicit_task(&team, now_ns);
        }
    } else if index == 0 {
        event.phase(Kind::Parallel, Phase::Exit);
    } else {
        event.stack().settle(now_ns);
    }
}

unsafe extern "C" fn work(kind: c_int, endpoint: c_int, _: *mut Data, _: *mut Data, count: u64, code: *const c_void) {
    let region = match kind {
        work::LOOP | work::LOOP_STATIC..=work::LOOP_OTHER => Kind::Loop,
        work::SECTIONS => Kind::Sections,
        work::SINGLE_EXECUTOR | work::SINGLE_OTHER => Kind::Single,
        _ => return,
    };
    let Some(mut event) = event() else { return };
    match (kind, endpoint) {
        (work::SINGLE_OTHER, SCOPE_BEGIN) => {
            let path = event.path(Region::at(region, address(code)));
            event.stack().pass_over(path, region);
        }
        (work::SINGLE_OTHER, _) => {}
        (_, SCOPE_BEGIN) => {
            event.enter(region, address(code), Phase::Body);
            match region {
                Kind::Single => event.stack().limit(),
                Kind::Sections => event.limit_if_fewer(count),
                _ => {}
            }
        }
        (_, _) => event.exit(region, address(code)),
    }
}

unsafe extern "C" fn masked(endpoint: c_int, _: *mut Data, _: *mut Data, code: *const c_void) {
    let Some(mut event) = event() else { return };
    match endpoint {
        SCOPE_BEGIN => event.enter(Kind::Masked, address(code), Phase::Body),
        _ => event.exit(Kind::Masked, address(code)),
    }
}

unsafe extern "C" fn sync_region(kind: c_int, endpoint: c_int, parallel: *mut Data, _: *mut Data, code: *const c_void) {
    if kind == sync::REDUCTION {
        return;
    }
    let Some(mut event) = event() else { return };
    let (region, phase) = match kind {
        sync::BARRIER_IMPLICIT_PARALLEL => {
            let now_ns = event.now_ns;
            if endpoint == SCOPE_BEGIN {
                event.phase(Kind::Parallel, Phase::ExitBarrier);
            // SAFETY: the region has not ended. Workers are told of the barrier's end when they are needed next, with null.
            } else if let Some(team) = unsafe { team_of(parallel) } {
                team.join(now_ns);
                event.phase(Kind::Parallel, Phase::Exit);
            }
            return;
        }
        sync::BARRIER_EXPLICIT => (Kind::Barrier, Phase::ExitBarrier),
        sync::TASKWAIT => (Kind::Taskwait, Phase::ExitBarrier),
        sync::TASKGROUP => (Kind::Taskgroup, Phase::Body),
        _ => {
            match endpoint {
                SCOPE_BEGIN => event.implied_barrier(address(code)),
                _ => event.leave(0),
            }
            return;
        }
    };
    match endpoint {
        SCOPE_BEGIN => event.enter(region, address(code), phase),
        _ => event.exit(region, address(code)),
    }
}

/// Only for task groups, which are regions from their beginning on, and wait at their end.
unsafe extern "C" fn sync_region_wait(kind: c_int, endpoint: c_int, _: *mut Data, _: *mut Data, _: *const c_void) {
    if kind == sync::TASKGROUP
        && endpoint == SCOPE_BEGIN
        && let Some(mut event) = event()
    {
        event.phase(Kind::Taskgroup, Phase::ExitBarrier);
    }
}

/// Locks are no regions: they may be let go of in any order.
fn mutex_region(kind: c_int) -> Option<Kind> {
    match kind {
        mutex::CRITICAL => Some(Kind::Critical),
        mutex::ATOMIC => Some(Kind::Atomic),
        mutex::ORDERED => Some(Kind::Ordered),
        _ => None,
    }
}

unsafe extern "C" fn mutex_acquire(kind: c_int, _: c_uint, _: c_uint, _: u64, code: *const c_void) {
    if let Some(region) = mutex_region(kind)
        && let Some(mut event) = event()
    {
        event.enter(region, address(code), Phase::Enter);
    }
}

unsafe extern "C" fn mutex_acquired(kind: c_int, _: u64, _: *const c_void) {
    if let Some(region) = mutex_region(kind)
        && let Some(mut event) = event()
    {
        event.phase(region, Phase::Body);
    }
}

/// It was released already: there is no time to get out.
unsafe extern "C" fn mutex_released(kind: c_int, _: u64, code: *const c_void) {
    if let Some(region) = mutex_region(kind)
        && let Some(mut event) = event()
    {
        event.exit(region, address(code));
    }
}

unsafe extern "C" fn task_create(
    _: *mut Data,
    _: *const c_void,
    task: *mut Data,
    flags: c_int,
    _: c_int,
    code: *const c_void,
) {
    if flags & TASK_EXPLICIT == 0 {
        return;
    }
    let Some(mut event) = event() else { return };
    let path = event.path(Region::at(Kind::Task, address(code)));
    // SAFETY: the runtime's word for us, as long as the task lives.
    unsafe { (*task).value = IS_EXPLICIT | u64::from(path.map_or(0, |path| path.0)) };
}

unsafe extern "C" fn task_schedule(prior: *mut Data, status: c_int, next: *mut Data) {
    if matches!(status, TASK_EARLY_FULFILL | TASK_LATE_FULFILL | TASKWAIT_COMPLETE) {
        return;
    }
    // SAFETY: null, or the words of tasks that live.
    let is_explicit = |task: *mut Data| unsafe { task.as_ref() }.is_some_and(|task| task.value & IS_EXPLICIT != 0);
    let Some(mut event) = event() else { return };
    let now_ns = event.now_ns;
    let is_over = matches!(status, TASK_COMPLETE | TASK_CANCEL | TASK_DETACH);
    let goes_back = !is_explicit(next) || event.stack().is_in_task(next as usize);
    if is_explicit(prior) && (is_over || goes_back) {
        event.stack().end_task(prior as usize, now_ns);
    }
    if is_explicit(next) && !event.stack().is_in_task(next as usize) {
        // SAFETY: it is explicit, so not null, and nobody else executes it.
        let word = unsafe { std::mem::replace(&mut (*next).value, (*next).value | HAS_BEGUN) };
        let entry = if word & HAS_BEGUN == 0 { Entry::Execution } else { Entry::Remainder };
        let path = PathId(word as u32);
        event.stack().begin_task((path.0 != 0).then_some(path), entry, next as usize, now_ns);
    }
}
