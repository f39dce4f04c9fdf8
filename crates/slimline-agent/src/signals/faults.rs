//! Loads of the target's memory that may fault, for programs that leave faults to the kernel.
//!
//! ```text
//!   mov rax, [rsi]   ─ fault ─►  kernel ─► on_fault: is it one of these loads? goes on at `failed`
//!   mov eax, 1                             else the default action, which the kernel takes where it happened
//! ```
//!
//! Loading so takes a tenth of the time that a copy by the kernel takes. It needs the handlers of `SIGSEGV` and `SIGBUS`,
//! so a program that asks for one of these actions, or sets it, gets both signals back for good, before its call goes on:
//! no action of a program is ever called from here. One that goes to the kernel by itself has replaced our handler, which is
//! looked for before each sample.

use core::arch::global_asm;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::action::{self, kernel_action};
use super::forward::{self, Context};
use super::{KernelAction, SA_RESTORER, alternate, bit};
use crate::trigger::SignalInfo;
use crate::{confine, handler, hooks, process};

/// Memory is not there or protected, or what it is mapped from is not there.
const FAULTS: [i32; 2] = [libc::SIGSEGV, libc::SIGBUS];
const BITS: u64 = bit(libc::SIGSEGV) | bit(libc::SIGBUS);

/// Whether both signals are ours.
static CLAIMED: AtomicBool = AtomicBool::new(false);

// Nothing is on the stack where they may fault. The destination is the agent's own.
global_asm!(
    ".pushsection .text.slimline_load, \"ax\", @progbits",
    ".hidden slimline_load",
    ".globl slimline_load",
    "slimline_load:",
    "cmp rdx, 8",
    "je 3f",
    "cmp rdx, 16",
    "je 4f",
    "cmp rdx, 4",
    "je 2f",
    "mov rcx, rdx",
    "rep movsb",
    "mov eax, 1",
    "ret",
    "2:",
    "mov eax, dword ptr [rsi]",
    "mov dword ptr [rdi], eax",
    "mov eax, 1",
    "ret",
    "3:",
    "mov rax, qword ptr [rsi]",
    "mov qword ptr [rdi], rax",
    "mov eax, 1",
    "ret",
    "4:",
    "mov rax, qword ptr [rsi]",
    "mov rcx, qword ptr [rsi + 8]",
    "mov qword ptr [rdi], rax",
    "mov qword ptr [rdi + 8], rcx",
    "mov eax, 1",
    "ret",
    ".hidden slimline_load_failed",
    ".globl slimline_load_failed",
    "slimline_load_failed:",
    "xor eax, eax",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    fn slimline_load(to: *mut u8, from: u64, bytes: usize) -> u32;
    fn slimline_load_failed() -> u32;
}

/// Leave to load the target's memory, for one sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loads(());

impl Loads {
    /// For the sample of a thread that was interrupted at `context`; None where a fault would not come to us. Only in the
    /// handler of a trigger.
    pub(crate) fn for_sample(context: &Context) -> Option<Self> {
        // Without hooks nobody sees what devices are mapped.
        let is_free = CLAIMED.load(Acquire) && hooks::is_recording() && context.mask & BITS == 0;
        // A trigger may come with the fault, see `interrupted_at_entry`.
        let is_free = is_free && !alternate::is_reused(context);
        let may_load = is_free && FAULTS.into_iter().all(action::is_ours);
        may_load.then_some(Self(()))
    }

    /// Copies from `address`; false where not all of it can be loaded.
    #[inline]
    pub(crate) fn copy(self, address: u64, into: &mut [u8]) -> bool {
        // SAFETY: a fault of the load comes to `on_fault`; the destination is the caller's.
        unsafe { slimline_load(into.as_mut_ptr(), address, into.len()) == 1 }
    }
}

/// Signals that the handler of a trigger leaves unblocked.
pub(super) fn unblocked() -> u64 {
    if CLAIMED.load(Relaxed) { BITS } else { 0 }
}

/// Takes both signals, if the program has the default actions for them. Again in a forked child, which inherits ours.
pub(super) fn claim() {
    let is_free = |signal| kernel_action(signal, None).is_ok_and(|action| action.handler == libc::SIG_DFL);
    let ours = KernelAction {
        handler: handler::entry(),
        flags: (libc::SA_SIGINFO | SA_RESTORER) as u64,
        restorer: handler::restorer(),
        mask: u64::MAX,
    };
    let take = |signal| kernel_action(signal, Some(&ours)).is_ok();
    let are_ours =
        FAULTS.into_iter().all(action::is_ours) || FAULTS.into_iter().all(is_free) && FAULTS.into_iter().all(take);
    CLAIMED.store(are_ours, Release);
}

/// The program is about to ask for the action of `signal`, or to set it.
#[inline]
pub(crate) fn leave_to_program(signal: i32) {
    if FAULTS.contains(&signal) && !confine::is_confined() {
        release();
    }
}

/// Gives both signals back, once no thread relies on them.
pub(super) fn release() {
    if !FAULTS.into_iter().any(action::is_ours) {
        return;
    }
    // A `vfork` child has our memory, but actions of its own.
    if process::is_ours() {
        if CLAIMED.swap(false, AcqRel) {
            action::refresh();
        }
        handler::wait_for_samples();
    }
    // Two threads may come here at once, and one of them may go on to set the program's own.
    action::alone(|| {
        for signal in FAULTS.into_iter().filter(|&signal| action::is_ours(signal)) {
            let _ = kernel_action(signal, Some(&KernelAction::DEFAULT)); // it was so before
        }
    });
}

/// Has a load fail that was interrupted there; false where it was anything else.
fn let_fail(context: &mut Context) -> bool {
    let (load, failed) = (slimline_load as *const () as u64, slimline_load_failed as *const () as u64);
    let is_load = (load..failed).contains(&context.register(libc::REG_RIP));
    if is_load {
        context.registers[libc::REG_RIP as usize] = failed;
    }
    is_load
}

/// Where a fault came at the first instruction of our handler: what that has interrupted.
///
/// It is there that the fault was raised. The kernel looks for any fault's signal that is not blocked, and then delivers the
/// first one in its queue, blocked or not: a perf event's `SIGTRAP` that waits for a sample to end comes first, at the
/// faulting load, and the load's own signal at the handler that is about to begin.
fn interrupted_at_entry(context: &Context) -> Option<*mut Context> {
    let is_at_entry = context.register(libc::REG_RIP) == handler::entry() as u64;
    let third_argument = core::ptr::with_exposed_provenance_mut::<Context>(context.register(libc::REG_RDX) as usize);
    is_at_entry.then_some(third_argument)
}

/// What becomes of a `SIGSEGV` or `SIGBUS` that came to our handler; false for any other signal.
///
/// # Safety
/// The arguments must be those of a signal handler that runs right now with all signals blocked.
pub(crate) unsafe fn on_fault(signal: i32, info: *mut SignalInfo, context: *mut Context) -> bool {
    if !FAULTS.contains(&signal) {
        return false;
    }
    // SAFETY: promised by the caller.
    let (info, context) = unsafe { (&*info, &mut *context) };
    // SAFETY: the kernel passes our handler a context that it has made for it, and nobody else calls it.
    let interrupted = interrupted_at_entry(context).map(|interrupted| unsafe { &mut *interrupted });
    if info.code > 0 && (let_fail(context) || interrupted.is_some_and(let_fail)) {
        return true;
    }
    // Not every fault comes again by itself: the kernel ends the process as soon as our handler returns.
    CLAIMED.store(false, Release);
    let _ = kernel_action(signal, Some(&KernelAction::DEFAULT));
    forward::queue_to_self(signal, info);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel;

    /// As a program that leaves faults to the kernel; the test's own runtime does not.
    fn with_default_actions() {
        for signal in FAULTS {
            // SAFETY: nothing here needs the runtime's handlers.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }

    fn copied<const BYTES: usize>(address: u64) -> Option<[u8; BYTES]> {
        let mut bytes = [0; BYTES];
        Loads(()).copy(address, &mut bytes).then_some(bytes)
    }

    #[test]
    fn loads_fail_where_memory_can_not_be_loaded() {
        with_default_actions();
        claim();
        assert!(CLAIMED.load(Relaxed));
        let pages = kernel::map(2 * 4096).unwrap().as_ptr();
        // SAFETY: our own pages.
        unsafe {
            (0..64).for_each(|byte| pages.add(4096 + byte).write(byte as u8));
            kernel::guard(pages);
        }
        let start = pages as u64 + 4096;
        assert_eq!(copied(start), Some([0]));
        assert_eq!(copied(start + 1), Some([1, 2, 3, 4]));
        assert_eq!(copied(start), Some([0, 1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(copied::<16>(start).unwrap()[15], 15);
        assert_eq!(copied::<64>(start).unwrap()[63], 63);
        for failing in [start - 1, start - 4096, 8, 0, u64::MAX - 3, 0xffff_8000_0000_0000, 0x8000_0000_0000_0000] {
            assert_eq!(copied::<1>(start - 1), None);
            assert_eq!(copied::<4>(failing), None, "{failing:#x}");
            assert_eq!(copied::<8>(failing), None, "{failing:#x}");
            assert_eq!(copied::<16>(failing), None, "{failing:#x}");
            assert_eq!(copied::<33>(failing), None, "{failing:#x}");
        }
        leave_to_program(libc::SIGINT);
        assert!(CLAIMED.load(Relaxed));
        release();
        assert!(!CLAIMED.load(Relaxed) || !process::is_ours());
        let handlers = FAULTS.map(|signal| kernel_action(signal, None).unwrap().handler);
        assert_eq!(handlers, [libc::SIG_DFL; 2]);
    }

    #[test]
    fn a_trigger_may_come_between_a_load_and_its_fault() {
        let at = |ip: u64| {
            // SAFETY: integers.
            let mut context: Context = unsafe { core::mem::zeroed() };
            context.registers[libc::REG_RIP as usize] = ip;
            context
        };
        let failed = slimline_load_failed as *const () as u64;
        for (interrupted, is_load) in [(slimline_load as *const () as u64, true), (failed, false), (8, false)] {
            let mut load = at(interrupted);
            let mut entry = at(handler::entry() as u64);
            entry.registers[libc::REG_RDX as usize] = &raw mut load as u64;
            assert_eq!(interrupted_at_entry(&entry), Some(&raw mut load));
            assert_eq!(let_fail(&mut load), is_load);
            assert_eq!(load.register(libc::REG_RIP), if is_load { failed } else { interrupted });
            assert!(interrupted_at_entry(&load).is_none());
        }
    }

    #[test]
    fn programs_with_actions_of_their_own_keep_them() {
        with_default_actions();
        // SAFETY: nothing here raises it.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_IGN) };
        claim();
        let handlers = FAULTS.map(|signal| kernel_action(signal, None).unwrap().handler);
        assert_eq!((CLAIMED.load(Relaxed), handlers), (false, [libc::SIG_DFL, libc::SIG_IGN]));
    }
}
