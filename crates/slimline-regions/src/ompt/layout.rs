//! The part of OpenMP's tools interface that we use, as `omp-tools.h` of OpenMP 5.1 declares it.
//! `tests/profiled/header.rs` compares the numbers with that header.

use std::ffi::{c_char, c_int, c_void};

/// `ompt_data_t`: a word of the tool's with each task and each parallel region. It is 0 at first.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Data {
    pub(super) value: u64,
}

/// `ompt_start_tool_result_t`.
#[repr(C)]
pub(super) struct StartToolResult {
    pub(super) initialize: extern "C" fn(lookup: Lookup, device: c_int, tool: *mut Data) -> c_int,
    pub(super) finalize: extern "C" fn(tool: *mut Data),
    pub(super) tool: Data,
}

const _: () = {
    assert!(size_of::<Data>() == 8 && align_of::<Data>() == 8);
    assert!(size_of::<StartToolResult>() == 24);
    assert!(std::mem::offset_of!(StartToolResult, finalize) == 8);
    assert!(std::mem::offset_of!(StartToolResult, tool) == 16);
};

/// `ompt_function_lookup_t`: the runtime's function of a name; null where it has none.
pub(super) type Lookup = unsafe extern "C" fn(name: *const c_char) -> *const c_void;
/// `ompt_set_callback_t`.
pub(super) type SetCallback = unsafe extern "C" fn(event: c_int, callback: *const c_void) -> c_int;

/// `ompt_callbacks_t`.
pub(super) mod callback {
    pub(in crate::ompt) const PARALLEL_BEGIN: i32 = 3;
    pub(in crate::ompt) const PARALLEL_END: i32 = 4;
    pub(in crate::ompt) const TASK_CREATE: i32 = 5;
    pub(in crate::ompt) const TASK_SCHEDULE: i32 = 6;
    pub(in crate::ompt) const IMPLICIT_TASK: i32 = 7;
    pub(in crate::ompt) const SYNC_REGION_WAIT: i32 = 16;
    pub(in crate::ompt) const MUTEX_RELEASED: i32 = 17;
    pub(in crate::ompt) const WORK: i32 = 20;
    pub(in crate::ompt) const MASKED: i32 = 21;
    pub(in crate::ompt) const SYNC_REGION: i32 = 23;
    pub(in crate::ompt) const MUTEX_ACQUIRE: i32 = 26;
    pub(in crate::ompt) const MUTEX_ACQUIRED: i32 = 27;
}

/// `ompt_scope_endpoint_t`: the beginning; else it is the end.
pub(super) const SCOPE_BEGIN: i32 = 1;

/// `ompt_work_t`.
pub(super) mod work {
    pub(in crate::ompt) const LOOP: i32 = 1;
    pub(in crate::ompt) const SECTIONS: i32 = 2;
    pub(in crate::ompt) const SINGLE_EXECUTOR: i32 = 3;
    pub(in crate::ompt) const SINGLE_OTHER: i32 = 4;
    pub(in crate::ompt) const LOOP_STATIC: i32 = 10;
    pub(in crate::ompt) const LOOP_OTHER: i32 = 13;
}

/// `ompt_sync_region_t`.
pub(super) mod sync {
    pub(in crate::ompt) const BARRIER_EXPLICIT: i32 = 3;
    pub(in crate::ompt) const TASKWAIT: i32 = 5;
    pub(in crate::ompt) const TASKGROUP: i32 = 6;
    pub(in crate::ompt) const REDUCTION: i32 = 7;
    pub(in crate::ompt) const BARRIER_IMPLICIT_PARALLEL: i32 = 9;
}

/// `ompt_mutex_t`.
pub(super) mod mutex {
    pub(in crate::ompt) const CRITICAL: i32 = 5;
    pub(in crate::ompt) const ATOMIC: i32 = 6;
    pub(in crate::ompt) const ORDERED: i32 = 7;
}

/// `ompt_task_flag_t`.
pub(super) const TASK_INITIAL: i32 = 1;
pub(super) const TASK_EXPLICIT: i32 = 4;

/// `ompt_task_status_t`: the task won't go on as it is.
pub(super) const TASK_COMPLETE: i32 = 1;
pub(super) const TASK_CANCEL: i32 = 3;
pub(super) const TASK_DETACH: i32 = 4;
/// The events behind `detach` and `taskwait depend`: no thread goes on to another task.
pub(super) const TASK_EARLY_FULFILL: i32 = 5;
pub(super) const TASK_LATE_FULFILL: i32 = 6;
pub(super) const TASKWAIT_COMPLETE: i32 = 8;
