//! Accesses that some versions of QEMU make without telling plugins: of x87's numbers of 80 bits, and of what saves and restores the
//! processor's state. 7.2 tells them, 10.0 does not.
//!
//! Which this one does is seen: an instruction that runs and of which no access comes. So runs are counted until one is told.
#![allow(unsafe_code)] // what QEMU calls

use std::ffi::{c_uint, c_void};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use slimline_trace::stream::translated::Counter;

use crate::access::{access, is_traced};
use crate::code::Extended;
use crate::code_file::count;
use crate::qemu::{OnAccess, OnInstruction};
use crate::translation::ask;

/// By sort, whether QEMU has told an access.
static ARE_TOLD: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

/// What counts the instructions of a sort that are found, the times that they run, and whether QEMU tells their accesses.
pub(crate) fn counters(of: Extended) -> [Counter; 3] {
    match of {
        Extended::Number => [Counter::NumberInstructions, Counter::NumberRuns, Counter::NumbersTold],
        Extended::State => [Counter::StateInstructions, Counter::StateRuns, Counter::StatesTold],
    }
}

/// What QEMU is to call for the accesses of such an instruction, and where it runs if that is to be counted.
pub(crate) fn asked(of: Extended) -> (OnAccess, Option<OnInstruction>) {
    let (on_access, on_run): (OnAccess, OnInstruction) = match of {
        Extended::Number => (on_access::<{ Extended::Number as usize }>, on_run::<{ Extended::Number as usize }>),
        Extended::State => (on_access::<{ Extended::State as usize }>, on_run::<{ Extended::State as usize }>),
    };
    (on_access, (!ARE_TOLD[of as usize].load(Relaxed)).then_some(on_run))
}

unsafe extern "C" fn on_run<const SORT: usize>(_: c_uint, _: *mut c_void) {
    if !ARE_TOLD[SORT].load(Relaxed) && is_traced() {
        let [_, runs, _] = counters(Extended::ALL[SORT]);
        count(runs);
    }
}

/// # Safety
/// As of [`access`].
unsafe extern "C" fn on_access<const SORT: usize>(_: c_uint, kind: u32, address: u64, asked: *mut c_void) {
    if !ARE_TOLD[SORT].load(Relaxed) {
        ARE_TOLD[SORT].store(true, Relaxed);
        let [_, _, told] = counters(Extended::ALL[SORT]);
        count(told);
    }
    // SAFETY: promised by the caller.
    unsafe { access::<false>(ask(kind), kind, address, asked) };
}
