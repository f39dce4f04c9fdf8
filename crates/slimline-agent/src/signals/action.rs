//! The target's actions for the signals that we have taken over.

use core::cell::UnsafeCell;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{KernelAction, mask, our_action, ours, shadow};
use crate::{handler, kernel, process};

/// Of ours and the shadow.
struct Actions {
    taken: AtomicBool,
    actions: UnsafeCell<[KernelAction; 2]>,
}

// SAFETY: `actions` is touched only under `taken`, see `with`.
unsafe impl Sync for Actions {}

static ACTIONS: Actions =
    Actions { taken: AtomicBool::new(false), actions: UnsafeCell::new([KernelAction::DEFAULT; 2]) };

/// The row of a signal that we have taken over.
pub(super) fn row(signal: i32) -> Option<usize> {
    match signal {
        0 => None,
        _ if signal == ours() => Some(0),
        _ if signal == shadow() => Some(1),
        _ => None,
    }
}

/// Runs `change` on the actions. No signal comes in between: what is waited for is only another thread.
fn with<T>(change: impl FnOnce(&mut [KernelAction; 2]) -> T) -> T {
    let _signals = kernel::Signals::block();
    while ACTIONS.taken.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
        kernel::yield_now();
    }
    // SAFETY: the flag was clear and is ours now; signal handlers, which could find it taken by their own thread, are
    // blocked.
    let result = change(unsafe { &mut *ACTIONS.actions.get() });
    ACTIONS.taken.store(false, Release);
    result
}

/// Runs `change` while no other thread changes actions.
pub(super) fn alone(change: impl FnOnce()) {
    with(|_| change());
}

/// In a forked child: whoever held the lock is not here.
pub(crate) fn reset_lock() {
    ACTIONS.taken.store(false, Relaxed);
}

/// The kernel's action, and perhaps a new one.
pub(super) fn kernel_action(signal: i32, new: Option<&KernelAction>) -> Result<KernelAction, i32> {
    let mut old = KernelAction::DEFAULT;
    let new = new.map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the kernel reads `new`, which is null or an action whose handler fits its flags, and writes `old`.
    let result = unsafe {
        kernel::call(libc::SYS_rt_sigaction, [signal as usize, new as usize, &raw mut old as usize, 8, 0, 0])
    };
    kernel::check(result).map(|_| old)
}

/// Whether the kernel calls our handler for `signal`.
pub(super) fn is_ours(signal: i32) -> bool {
    kernel_action(signal, None).is_ok_and(|action| action.handler == handler::entry())
}

/// Puts our handler in the place of what is there, which becomes the target's action.
pub(super) fn take_over(signal: i32) {
    let Some(row) = row(signal) else { return };
    with(|actions| {
        if let Ok(found) = kernel_action(signal, Some(&our_action(true))) {
            actions[row] = found;
        }
    });
}

/// Installs our action anew for the signals that we have taken over: what it blocks has changed.
pub(super) fn refresh() {
    with(|actions| {
        for (signal, action) in [ours(), shadow()].into_iter().zip(*actions).filter(|&(signal, _)| signal != 0) {
            let _ = kernel_action(signal, Some(&our_action(is_restarting(&action)))); // it is ours already
        }
    });
}

/// Whether system calls that one of ours interrupts are to be restarted. Triggers come in user mode and interrupt none, so
/// the target's wish can be followed.
fn is_restarting(action: &KernelAction) -> bool {
    action.handler == libc::SIG_DFL || action.handler == libc::SIG_IGN || action.flags & libc::SA_RESTART as u64 != 0
}

/// Puts the target's actions for ours and the shadow back; see [`super::release`]. `may_come`: a trigger.
pub(super) fn give_back([ours, shadow]: [i32; 2], may_come: bool) {
    with(|actions| {
        let [of_ours, of_shadow] = *actions;
        let handler = if may_come && of_ours.handler == libc::SIG_DFL { libc::SIG_IGN } else { of_ours.handler };
        // It can't fail: both are actions that were installed before.
        let _ = kernel_action(ours, Some(&KernelAction { handler, ..of_ours }));
        let _ = kernel_action(shadow, Some(&of_shadow));
    });
}

/// The target's action for a signal that we have taken over, and perhaps a new one. `None` where the caller is not the
/// process that we record (a `vfork` child in its memory): it must go to the kernel instead.
pub(super) fn exchange(signal: i32, new: Option<KernelAction>) -> Option<KernelAction> {
    let row = row(signal)?;
    if !process::is_ours() {
        return None;
    }
    Some(with(|actions| {
        let old = actions[row];
        if let Some(new) = new {
            actions[row] = new;
            // It can't fail: the same signal was taken over with the same handler.
            let _ = kernel_action(signal, Some(&our_action(is_restarting(&new))));
        }
        old
    }))
}

/// The target's action for a signal that arrived, reset where it asked for that.
pub(super) fn take_for_delivery(signal: i32) -> KernelAction {
    let Some(row) = row(signal) else { return KernelAction::DEFAULT };
    with(|actions| {
        let action = actions[row];
        let is_handler = action.handler != libc::SIG_DFL && action.handler != libc::SIG_IGN;
        if is_handler && action.flags & libc::SA_RESETHAND as u64 != 0 {
            actions[row].handler = libc::SIG_DFL;
        }
        action
    })
}

/// The mask that the kernel shall set while the target's handler for `signal` runs.
pub(super) fn mask_during(action: &KernelAction, signal: i32, interrupted: u64) -> u64 {
    let own = if action.flags & libc::SA_NODEFER as u64 == 0 { super::bit(signal) } else { 0 };
    mask::to_kernel(mask::from_kernel(interrupted) | action.mask | own)
}
