//! The target's view of the signals that the agent uses.
//!
//! The agent claims one signal for its triggers, *ours* (SIGTRAP, or a real-time signal for timers), and keeps its own
//! handler installed for it. The target still sees a signal of its own behind that number: its action is remembered
//! and told ([`action`]), and what arrives and is not a trigger is passed on with the flags, mask, stack and contents
//! that the target asked for ([`forward`]).
//!
//! Masks are kept by the kernel, because only it changes them atomically, restores them after handlers and `siglongjmp`,
//! and hands them to new threads. So there is a second signal, the *shadow* (the highest real-time signal that is
//! free): the target's wish to block ours becomes a blocked shadow ([`mask`]), and what arrives for the target while
//! the shadow is blocked is sent on as the shadow, which then waits in the kernel until the target unblocks.
//!
//! What this covers is what goes through the functions of the C library in [`interpose`]. Raw system calls are not
//! seen: a target that installs a SIGTRAP handler by `syscall` ends the sampling, one that blocks SIGTRAP so delays it.
//! And these differ from what they would be alone: a `signalfd` for ours reads the shadow's number; the shadow
//! itself can't be blocked apart from ours, unless all other real-time signals are blocked with it; after exec, ours
//! is not ignored or blocked when it was before (the shadow is, and an agent in the new program takes that up).
#![allow(unsafe_code)] // system calls, signal frames

mod action;
pub(crate) mod alternate;
pub(crate) mod faults;
pub(crate) mod forward;
#[cfg(feature = "preload")]
mod interpose;
mod mask;

use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::Relaxed;

use crate::{handler, kernel};
pub(crate) use action::reset_lock;

/// 0 while nothing is claimed.
static OURS: AtomicI32 = AtomicI32::new(0);
static SHADOW: AtomicI32 = AtomicI32::new(0);

/// The signal that triggers come as; 0 for none.
#[inline]
pub(crate) fn ours() -> i32 {
    OURS.load(Relaxed)
}

/// The signal that stands in for ours where the target blocks ours; 0 for none.
#[inline]
pub(crate) fn shadow() -> i32 {
    SHADOW.load(Relaxed)
}

/// The kernel's `sigaction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct KernelAction {
    pub(crate) handler: usize,
    pub(crate) flags: u64,
    pub(crate) restorer: usize,
    pub(crate) mask: u64,
}

impl KernelAction {
    /// The default action.
    pub(crate) const DEFAULT: Self = Self { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 };
}

/// The bit of a signal in a kernel mask.
pub(crate) const fn bit(signal: i32) -> u64 {
    if signal > 0 && signal <= 64 { 1 << (signal - 1) } else { 0 }
}

/// Highest and lowest real-time signals that programs may use (the C library keeps 32 and 33).
const REAL_TIME: core::ops::RangeInclusive<i32> = 34..=64;

/// Takes `signal` for the triggers; false where that is impossible. Again in a forked child, where it is so already.
pub(crate) fn claim(signal: i32) -> bool {
    if ours() != 0 {
        // In a forked child a handler of forks that ran before ours may have gone to the kernel.
        [ours(), shadow()].into_iter().filter(|&taken| !action::is_ours(taken)).for_each(action::take_over);
        faults::claim();
        action::refresh();
        return ours() == signal;
    }
    let free = REAL_TIME.rev().find(|&candidate| candidate != signal && is_free(candidate));
    let Some(shadow) = free else { return false };
    faults::claim();
    SHADOW.store(shadow, Relaxed);
    OURS.store(signal, Relaxed);
    action::take_over(signal);
    action::take_over(shadow);
    // A mask that we were started with becomes the target's wish.
    let (_, blocked) = kernel::set_mask(libc::SIG_BLOCK, 0);
    kernel::set_mask(libc::SIG_SETMASK, mask::of_start(blocked));
    true
}

/// Gives back what [`claim`] took: the kernel has the target's actions again. Triggers that are still on their way would
/// end a process that has none for them, so ours is ignored then. After `exec`, too: so not where none can be.
pub(crate) fn release() {
    faults::release();
    let (_, blocked) = kernel::set_mask(libc::SIG_BLOCK, 0);
    let wished = mask::from_kernel(blocked);
    let ours = OURS.swap(0, Relaxed);
    let shadow = SHADOW.swap(0, Relaxed);
    if ours != 0 {
        action::give_back([ours, shadow], may_still_come(ours));
        kernel::set_mask(libc::SIG_SETMASK, wished);
    }
}

/// Puts our action for triggers back where the kernel has put the default one, by which each of them would end the process. It
/// does so if a tracer steps a thread that has `SIGTRAP` blocked, as our handler has. To be called there.
pub(crate) fn restore_after_step() {
    if ours() == libc::SIGTRAP && is_free(libc::SIGTRAP) {
        action::refresh();
    }
}

/// Whether a trigger that was sent before the triggers were stopped may not have come yet. To the calling thread it came on its
/// way back from the system call that stopped them, unless the program blocks the signal by a system call of its own.
fn may_still_come(ours: i32) -> bool {
    kernel::threads() != Some(1) || kernel::pending().1 & bit(ours) != 0
}

/// Takes a signal for triggers that can come as any: the one that is taken already, else the highest real-time signal
/// that is free. False where there is none.
pub(crate) fn claim_any() -> bool {
    ours() != 0 || REAL_TIME.rev().find(|&candidate| is_free(candidate)).is_some_and(claim)
}

fn is_free(signal: i32) -> bool {
    action::kernel_action(signal, None).is_ok_and(|action| action.handler == libc::SIG_DFL)
}

/// What the kernel shall call: our handler, with all signals blocked while it runs but the faults that come to us,
/// and whether an interrupted system call is restarted as the target wants it for its own.
fn our_action(restart: bool) -> KernelAction {
    let restart = if restart { libc::SA_RESTART as u64 } else { 0 };
    KernelAction {
        handler: handler::entry(),
        flags: (libc::SA_SIGINFO | libc::SA_ONSTACK | SA_RESTORER) as u64 | restart,
        restorer: handler::restorer(),
        mask: !faults::unblocked(),
    }
}

const SA_RESTORER: i32 = 0x0400_0000;

/// An action as the kernel would have it from the C library, which adds the code that handlers return to.
pub(crate) fn action_of(handler: usize, flags: i32, mask: u64) -> KernelAction {
    KernelAction { handler, flags: u64::from((flags | SA_RESTORER) as u32), restorer: handler::restorer(), mask }
}

/// As the C library's callers have it.
pub(crate) fn kernel_of_libc(action: &libc::sigaction) -> KernelAction {
    // SAFETY: a set is larger than its first word.
    let mask = unsafe { (&raw const action.sa_mask).cast::<u64>().read() };
    action_of(action.sa_sigaction, action.sa_flags, mask)
}

/// The other way.
///
/// # Safety
/// `action` must be a place for one.
pub(crate) unsafe fn libc_of_kernel(from: &KernelAction, action: *mut libc::sigaction) {
    // SAFETY: promised by the caller; a set is plain words, and larger than the first; a restorer is a function or null.
    unsafe {
        (*action).sa_sigaction = from.handler;
        (*action).sa_flags = from.flags as i32;
        (*action).sa_restorer = core::mem::transmute::<usize, Option<extern "C" fn()>>(from.restorer);
        (&raw mut (*action).sa_mask).write(core::mem::zeroed());
        (&raw mut (*action).sa_mask).cast::<u64>().write(from.mask);
    }
}
