//! GCC's libgomp, by functions of the same names that the dynamic loader finds before its own.
//!
//! What gcc does without a call is not seen: `master`, and loops with a static schedule, of which only the barrier is a call,
//! which looks like any other. A `single` with `nowait` ends where the thread next meets a construct that can't be in it.
//! Entry points of code that gcc made before version 4.9 are not counted, nor are tasks of `taskloop` and detached ones.
#![allow(unsafe_code)] // called by the program, with its pointers

mod entry;
mod team;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::kind::{Kind, Phase};
use crate::live::{event, live};
use crate::path::{Place, Region};
use crate::stack::Entry;
use entry::{Call, entry};

/// Whether a program called here: see [`crate::ompt`].
static IS_ACTIVE: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_active() -> bool {
    IS_ACTIVE.load(Relaxed)
}

/// Has a call counted, where calls are.
fn counted(call: Call, count: fn(Call) -> usize) -> usize {
    if live().is_none() || crate::ompt::is_active() {
        return call.forward();
    }
    if !is_active() {
        IS_ACTIVE.store(true, Relaxed);
    }
    count(call)
}

entry! {
    GOMP_parallel => team::parallel;
    GOMP_parallel_reductions => team::parallel_with_reductions;
    GOMP_parallel_loop_static => team::parallel_loop;
    GOMP_parallel_loop_dynamic => team::parallel_loop;
    GOMP_parallel_loop_guided => team::parallel_loop;
    GOMP_parallel_loop_runtime => team::parallel_loop;
    GOMP_parallel_loop_nonmonotonic_dynamic => team::parallel_loop;
    GOMP_parallel_loop_nonmonotonic_guided => team::parallel_loop;
    GOMP_parallel_loop_nonmonotonic_runtime => team::parallel_loop;
    GOMP_parallel_loop_maybe_nonmonotonic_runtime => team::parallel_loop;
    GOMP_parallel_sections => team::parallel_sections;
    GOMP_task => team::task;
}

entry! {
    GOMP_loop_static_start => loop_start;
    GOMP_loop_dynamic_start => loop_start;
    GOMP_loop_guided_start => loop_start;
    GOMP_loop_runtime_start => loop_start;
    GOMP_loop_nonmonotonic_dynamic_start => loop_start;
    GOMP_loop_nonmonotonic_guided_start => loop_start;
    GOMP_loop_nonmonotonic_runtime_start => loop_start;
    GOMP_loop_maybe_nonmonotonic_runtime_start => loop_start;
    GOMP_loop_ordered_static_start => loop_start;
    GOMP_loop_ordered_dynamic_start => loop_start;
    GOMP_loop_ordered_guided_start => loop_start;
    GOMP_loop_ordered_runtime_start => loop_start;
    GOMP_loop_doacross_static_start => loop_start;
    GOMP_loop_doacross_dynamic_start => loop_start;
    GOMP_loop_doacross_guided_start => loop_start;
    GOMP_loop_doacross_runtime_start => loop_start;
    GOMP_loop_start => loop_start;
    GOMP_loop_ordered_start => loop_start;
    GOMP_loop_doacross_start => loop_start;
    GOMP_loop_ull_static_start => loop_start;
    GOMP_loop_ull_dynamic_start => loop_start;
    GOMP_loop_ull_guided_start => loop_start;
    GOMP_loop_ull_runtime_start => loop_start;
    GOMP_loop_ull_nonmonotonic_dynamic_start => loop_start;
    GOMP_loop_ull_nonmonotonic_guided_start => loop_start;
    GOMP_loop_ull_nonmonotonic_runtime_start => loop_start;
    GOMP_loop_ull_maybe_nonmonotonic_runtime_start => loop_start;
    GOMP_loop_ull_ordered_static_start => loop_start;
    GOMP_loop_ull_ordered_dynamic_start => loop_start;
    GOMP_loop_ull_ordered_guided_start => loop_start;
    GOMP_loop_ull_ordered_runtime_start => loop_start;
    GOMP_loop_ull_doacross_static_start => loop_start;
    GOMP_loop_ull_doacross_dynamic_start => loop_start;
    GOMP_loop_ull_doacross_guided_start => loop_start;
    GOMP_loop_ull_doacross_runtime_start => loop_start;
    GOMP_loop_ull_start => loop_start;
    GOMP_loop_ull_ordered_start => loop_start;
    GOMP_loop_ull_doacross_start => loop_start;
    GOMP_loop_end => |call| waiting(call, Kind::Loop);
    GOMP_loop_end_cancel => |call| waiting(call, Kind::Loop);
    GOMP_loop_end_nowait => |call| ending(call, Kind::Loop);
}

entry! {
    GOMP_sections_start => sections_start;
    GOMP_sections2_start => sections_start;
    GOMP_sections_next => sections_next;
    GOMP_sections_end => |call| waiting(call, Kind::Sections);
    GOMP_sections_end_cancel => |call| waiting(call, Kind::Sections);
    GOMP_sections_end_nowait => |call| ending(call, Kind::Sections);
    GOMP_single_start => single_start;
    GOMP_single_copy_start => single_copy_start;
    GOMP_single_copy_end => |call| waiting(call, Kind::Single);
    GOMP_critical_start => |call| getting_in(call, Kind::Critical);
    GOMP_critical_name_start => |call| getting_in(call, Kind::Critical);
    GOMP_critical_end => |call| getting_out(call, Kind::Critical);
    GOMP_critical_name_end => |call| getting_out(call, Kind::Critical);
    GOMP_atomic_start => |call| getting_in(call, Kind::Atomic);
    GOMP_atomic_end => |call| getting_out(call, Kind::Atomic);
    GOMP_ordered_start => |call| getting_in(call, Kind::Ordered);
    GOMP_ordered_end => |call| getting_out(call, Kind::Ordered);
    GOMP_barrier => barrier;
    GOMP_barrier_cancel => barrier;
    GOMP_taskwait => |call| region_of_waiting(call, Kind::Taskwait);
    GOMP_taskwait_depend => |call| region_of_waiting(call, Kind::Taskwait);
    GOMP_taskgroup_start => taskgroup_start;
    GOMP_taskgroup_end => |call| waiting(call, Kind::Taskgroup);
}

/// Meets a construct that can't be in a `single`: one that the thread seems to be in had `nowait`.
fn leave_single() {
    if let Some(mut event) = event() {
        event.exit(Kind::Single, 0);
    }
}

fn loop_start(call: Call) -> usize {
    leave_single();
    if let Some(mut event) = event() {
        event.enter(Kind::Loop, call.site, Phase::Body);
    }
    call.forward()
}

/// The call that ends a construct, and waits for the other threads.
fn waiting(call: Call, kind: Kind) -> usize {
    if let Some(mut event) = event() {
        event.phase(kind, Phase::ExitBarrier);
    }
    let result = call.forward();
    if let Some(mut event) = event() {
        event.exit(kind, call.site);
    }
    result
}

/// The call that ends a construct, and doesn't wait.
fn ending(call: Call, kind: Kind) -> usize {
    if let Some(mut event) = event() {
        event.exit(kind, call.site);
    }
    call.forward()
}

fn sections_start(call: Call) -> usize {
    leave_single();
    if let Some(mut event) = event() {
        event.enter(Kind::Sections, call.site, Phase::Body);
        event.limit_if_fewer(call.arguments[0] as u64);
    }
    let section = call.forward();
    begin_section(section, call.site);
    section
}

fn sections_next(call: Call) -> usize {
    if let Some(mut event) = event() {
        event.exit(Kind::Section, call.site);
    }
    let section = call.forward();
    begin_section(section, call.site);
    section
}

/// Which section a thread has next: the runtime says its number; 0 where there is none left. Threads that begin with it and
/// threads that come to it are told apart by the call, so the place of all is that of the construct.
fn begin_section(section: usize, site: u64) {
    let part = section as u32;
    if part != 0
        && let Some(mut event) = event()
    {
        let address = event.innermost_address().unwrap_or(site);
        let region = Region { kind: Kind::Section, place: Place::Code { address, part } };
        event.enter_region(region, Entry::Execution, Phase::Body);
    }
}

/// True on the thread that is to execute it.
fn single_start(call: Call) -> usize {
    leave_single();
    let is_executor = call.forward();
    if let Some(mut event) = event() {
        if is_executor & 0xff != 0 {
            event.enter(Kind::Single, call.site, Phase::Body);
            event.stack().limit();
        } else {
            let path = event.path(Region::at(Kind::Single, call.site));
            event.stack().pass_over(path, Kind::Single);
        }
    }
    is_executor
}

/// Null on the thread that is to execute it; the others wait for its copies.
fn single_copy_start(call: Call) -> usize {
    leave_single();
    if let Some(mut event) = event() {
        event.enter_region(Region::at(Kind::Single, call.site), Entry::Remainder, Phase::ExitBarrier);
        event.stack().limit();
    }
    let copies = call.forward();
    if let Some(mut event) = event() {
        event.exit(Kind::Single, 0);
        if copies == 0 {
            event.enter(Kind::Single, call.site, Phase::Body);
            event.stack().limit();
        }
    }
    copies
}

fn getting_in(call: Call, kind: Kind) -> usize {
    if let Some(mut event) = event() {
        event.enter(kind, call.site, Phase::Enter);
    }
    let result = call.forward();
    if let Some(mut event) = event() {
        event.phase(kind, Phase::Body);
    }
    result
}

fn getting_out(call: Call, kind: Kind) -> usize {
    if let Some(mut event) = event() {
        event.phase(kind, Phase::Exit);
    }
    let result = call.forward();
    if let Some(mut event) = event() {
        event.exit(kind, call.site);
    }
    result
}

/// After a `single` it is the one that this implies.
fn barrier(call: Call) -> usize {
    leave_single();
    if let Some(mut event) = event() {
        if event.stack().left() == Some(Kind::Single) {
            event.implied_barrier(call.site);
        } else {
            event.enter(Kind::Barrier, call.site, Phase::ExitBarrier);
        }
    }
    let result = call.forward();
    if let Some(mut event) = event() {
        event.leave(call.site);
    }
    result
}

fn region_of_waiting(call: Call, kind: Kind) -> usize {
    if let Some(mut event) = event() {
        event.enter(kind, call.site, Phase::ExitBarrier);
    }
    let result = call.forward();
    if let Some(mut event) = event() {
        event.exit(kind, call.site);
    }
    result
}

fn taskgroup_start(call: Call) -> usize {
    if let Some(mut event) = event() {
        event.enter(Kind::Taskgroup, call.site, Phase::Body);
    }
    call.forward()
}
