//! Teams and tasks: the runtime is given functions of ours, which count and call the program's.

use std::ffi::c_void;
use std::sync::Arc;

use super::entry::{Call, Next};
use crate::kind::{Kind, Phase};
use crate::live::{event, event_of};
use crate::path::{PathId, Region};
use crate::stack::Entry;
use crate::team::Team;

type Function = unsafe extern "C" fn(*mut c_void);
type CopyFunction = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// The construct that a combined one has right within the parallel region, and how many sections that has.
#[derive(Clone, Copy)]
enum Within {
    Nothing,
    Loop,
    Sections(u64),
}

/// What [`in_team`] is given in the place of the program's data.
#[repr(C)]
struct Body {
    /// That of the program's data, where the runtime looks at it: of reductions by tasks it is where these are registered.
    first_word: usize,
    function: Function,
    data: *mut c_void,
    team: Arc<Team>,
    within: Within,
    place: u64,
}

pub(super) fn parallel(call: Call) -> usize {
    fork(call, Within::Nothing, 0)
}

/// The runtime reads the first word of the data, and writes where that leads.
pub(super) fn parallel_with_reductions(call: Call) -> usize {
    // SAFETY: the program calls with data that begins with this word.
    let first_word = unsafe { *(call.arguments[1] as *const usize) };
    fork(call, Within::Nothing, first_word)
}

pub(super) fn parallel_loop(call: Call) -> usize {
    fork(call, Within::Loop, 0)
}

pub(super) fn parallel_sections(call: Call) -> usize {
    fork(call, Within::Sections(call.arguments[3] as u64), 0)
}

/// All of these have the function and its data first.
fn fork(mut call: Call, within: Within, first_word: usize) -> usize {
    // The call has the line of what is before the construct as often as its own; the function that gcc made of the body begins with the construct's.
    // Places are behind the instruction that is meant.
    let place = call.arguments[0] as u64 + 1;
    let Some(team) = event().map(|mut event| event.fork(place)) else { return call.forward() };
    // SAFETY: the program calls with a function that takes its data.
    let function = unsafe { std::mem::transmute::<usize, Function>(call.arguments[0]) };
    let data = call.arguments[1] as *mut c_void;
    let body = Body { first_word, function, data, team: Arc::clone(&team), within, place };
    call.arguments[0] = in_team as Function as usize;
    call.arguments[1] = &raw const body as usize;
    // It returns when all threads are through, and the body with it.
    let result = call.forward();
    if let Some(mut event) = event() {
        event.end_parallel(&team);
    }
    result
}

/// What each thread of a team executes.
unsafe extern "C" fn in_team(body: *mut c_void) {
    // SAFETY: `fork` waits for all threads of the team.
    let body = unsafe { &*body.cast::<Body>() };
    if let Some(mut event) = event_of(of_team(&NUMBER)) {
        let now_ns = event.now_ns;
        body.team.set_threads(of_team(&THREADS));
        event.stack().begin_implicit_task(&body.team, now_ns);
        match body.within {
            Within::Nothing => {}
            Within::Loop => event.enter(Kind::Loop, body.place, Phase::Body),
            Within::Sections(sections) => {
                event.enter(Kind::Sections, body.place, Phase::Body);
                event.limit_if_fewer(sections);
            }
        }
    }
    // SAFETY: as the runtime would have called it.
    unsafe { (body.function)(body.data) };
    if let Some(mut event) = event() {
        event.phase(Kind::Parallel, Phase::ExitBarrier);
        body.team.join(event.now_ns);
    }
}

static NUMBER: Next = Next::new(c"omp_get_thread_num");
static THREADS: Next = Next::new(c"omp_get_num_threads");

/// What a function of the runtime says of the calling thread's team; 0 where there is no such function.
fn of_team(function: &Next) -> u32 {
    match function.address() {
        0 => 0,
        // SAFETY: OpenMP declares both so.
        address => unsafe { std::mem::transmute::<usize, extern "C" fn() -> i32>(address)() }.cast_unsigned(),
    }
}

/// `GOMP_TASK_FLAG_DETACH`: the runtime writes into the program's data.
const DETACHED: usize = 1 << 13;

/// What is copied in front of a task's data.
#[derive(Clone, Copy)]
struct Head {
    function: Function,
    path: Option<PathId>,
    /// From its beginning to the program's data.
    bytes: usize,
}

/// What [`copy_task`] is given in the place of the program's data.
struct Created {
    head: Head,
    data: *mut c_void,
    data_bytes: usize,
    copy: Option<CopyFunction>,
}

/// `function, data, copy, bytes, align, if, flags, depend, priority, detach`.
pub(super) fn task(mut call: Call) -> usize {
    let [function, data, copy, bytes, align, _, flags, ..] = call.arguments;
    if flags & DETACHED != 0 {
        return call.forward();
    }
    let Some(mut creating) = event() else { return call.forward() };
    let region = Region::at(Kind::Task, call.site);
    let path = creating.path(region.clone());
    creating.enter_region(region, Entry::Creation, Phase::Enter);
    drop(creating);
    let align = align.max(align_of::<Head>());
    // SAFETY: the program calls with a function that takes its data.
    let function = unsafe { std::mem::transmute::<usize, Function>(function) };
    let created = Created {
        head: Head { function, path, bytes: size_of::<Head>().next_multiple_of(align) },
        data: data as *mut c_void,
        data_bytes: bytes,
        // SAFETY: null, or a function that copies its data.
        copy: unsafe { std::mem::transmute::<usize, Option<CopyFunction>>(copy) },
    };
    call.arguments[0] = in_task as Function as usize;
    call.arguments[1] = &raw const created as usize;
    call.arguments[2] = copy_task as CopyFunction as usize;
    call.arguments[3] = bytes + created.head.bytes;
    call.arguments[4] = align;
    // The data is copied before this returns.
    let result = call.forward();
    if let Some(mut event) = event() {
        event.exit(Kind::Task, call.site);
    }
    result
}

/// Copies a task's data to where it stays until the task is executed, behind our head.
unsafe extern "C" fn copy_task(to: *mut c_void, from: *mut c_void) {
    // SAFETY: `to` has room for the head and the data, aligned for both; `from` is what `task` holds.
    unsafe {
        let created = &*from.cast::<Created>();
        to.cast::<Head>().write(created.head);
        let data = to.byte_add(created.head.bytes);
        match created.copy {
            Some(copy) => copy(data, created.data),
            None => std::ptr::copy_nonoverlapping(created.data.cast::<u8>(), data.cast::<u8>(), created.data_bytes),
        }
    }
}

/// What a thread executes that has a task. Where its data is tells tasks apart that are under way.
unsafe extern "C" fn in_task(task: *mut c_void) {
    // SAFETY: `copy_task` wrote it.
    let head = unsafe { *task.cast::<Head>() };
    if let Some(mut event) = event() {
        let now_ns = event.now_ns;
        event.stack().begin_task(head.path, Entry::Execution, task as usize, now_ns);
    }
    // SAFETY: as the runtime would have called it, with the data behind our head.
    unsafe { (head.function)(task.byte_add(head.bytes)) };
    if let Some(mut event) = event() {
        let now_ns = event.now_ns;
        event.stack().end_task(task as usize, now_ns);
        // Threads wait at the team's end until its tasks are through, too.
        if let Some(team) = event.stack().team() {
            team.join(now_ns);
        }
    }
}
