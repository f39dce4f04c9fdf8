//! From a stack pointer to the call stack, without frame pointers, locks or allocation; also in a signal handler.

use core::arch::asm;

mod modules;
mod rule;
mod stack;
mod window;

pub(crate) use modules::each_object;
pub(crate) use stack::{CopiedStack, Stack};
pub(crate) use window::Window;

pub(crate) use rule::Code;
use rule::{CallerRbp, Cfa, Rule};

/// Not cut: the start of the thread was reached.
pub(crate) const WHOLE: u8 = 0;
/// Cut: more frames than room.
pub(crate) const DEEPER: u8 = 1;
/// Cut: there was no way on.
pub(crate) const FAILED: u8 = 2;
/// Whole or cut, but at least one step had no unwind information and was guessed from the frame pointer.
pub(crate) const GUESSED: u8 = 3;

/// Prepares unwinding. Not async-signal-safe.
pub(crate) fn start() {
    modules::start();
}

/// Forgets what is known about code: an object was unloaded.
pub(crate) fn forget_code() {
    rule::forget();
}

/// The function around `ip` as its unwind information says: first address and the first behind. Async-signal-safe.
pub(crate) fn function_bounds(ip: u64) -> Option<(u64, u64)> {
    rule::bounds(ip)
}

/// What is known of the code at `address`; None without unwind information. Not async-signal-safe.
#[inline(always)]
pub(crate) fn code_at(address: u64) -> Option<Code> {
    rule::find(address, true)
}

/// The same as far as it is known at once.
#[inline(always)]
pub(crate) fn known_code_at(address: u64) -> Option<Code> {
    rule::find_known(address)
}

/// Return addresses of the calling thread from the stopped instruction `ip` outwards, innermost first, and whether the
/// stack was cut ([`WHOLE`], [`DEEPER`], [`FAILED`], [`GUESSED`]). For signal handlers: `sp` and `bp` are the
/// interrupted registers, at any instruction, prologues and linkage tables included.
pub(crate) fn walk(ip: u64, sp: u64, bp: u64, stack: &mut impl Stack, frames: &mut [u64]) -> (usize, u8) {
    stack.enter(sp);
    let mut frame = Frame { ip, sp, bp, slot: 0, exact: true };
    let mut guessed = false;
    let mut count = 0;
    let end = loop {
        match frame.step(stack, false) {
            Err(end) => break end.code(),
            Ok(_) if count == frames.len() => break DEEPER,
            Ok(step) => {
                frame = step.caller;
                guessed |= step.guessed;
                frames[count] = frame.ip;
                count += 1;
            }
        }
    };
    (count, if guessed { GUESSED } else { end })
}

/// Whether the calling thread is in a signal handler that interrupted code for which `is_code` holds, or a leaf function that
/// such code had called. False also where the stack can't be followed so far.
pub(crate) fn has_interrupted(is_code: impl Fn(u64) -> bool, is_leaf: impl Fn(u64) -> bool) -> bool {
    const MOST_FRAMES: usize = 256;
    let (ip, sp, bp) = registers_here();
    let mut stack = Window::new();
    stack.enter(sp);
    let mut frame = Frame { ip, sp, bp, slot: 0, exact: true };
    let mut is_interrupted = false;
    for _ in 0..MOST_FRAMES {
        let Ok(step) = frame.step(&mut stack, false) else { return false };
        frame = step.caller;
        if (is_interrupted || step.through_signal) && is_code(frame.ip) {
            return true;
        }
        is_interrupted = step.through_signal && is_leaf(frame.ip);
    }
    false
}

/// A frame's own registers at some instruction of it.
#[inline(always)]
#[allow(unsafe_code)]
fn registers_here() -> (u64, u64, u64) {
    let (ip, sp, bp);
    // SAFETY: reads registers.
    unsafe { asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) ip, out(reg) sp, out(reg) bp) };
    (ip, sp, bp)
}

/// Registers of one activation, as far as unwinding needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Where it goes on: a return address, or the stopped instruction if `exact`.
    pub(crate) ip: u64,
    /// Stack pointer there.
    pub(crate) sp: u64,
    /// Frame pointer register there, whatever the function uses it for.
    pub(crate) bp: u64,
    /// Address of the stack slot that `ip` was read from; 0: none.
    pub(crate) slot: u64,
    /// Whether `ip` is the instruction itself and not the one behind a call.
    pub(crate) exact: bool,
}

/// A step from a frame to its caller, and what it depended on besides the frame's registers and the caller's slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) caller: Frame,
    /// Slot that the caller's frame pointer was loaded from; 0: it is the frame's own.
    pub(crate) bp_slot: u64,
    /// Slot that held the caller's stack pointer, where the frame's size is not constant; 0: none.
    pub(crate) sp_slot: u64,
    /// Through a signal frame: more was read from the stack than is told here.
    pub(crate) through_signal: bool,
    /// No unwind information: guessed from the frame pointer.
    pub(crate) guessed: bool,
}

/// Why there is no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The thread begins here.
    Outermost,
    /// No rule, or the stack could not be read where the rule led to.
    Lost,
}

impl End {
    /// As in the records.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Outermost => WHOLE,
            Self::Lost => FAILED,
        }
    }
}

// Offsets in the frame that the kernel builds for a signal handler, from the stack pointer with which the handler
// returns: `struct ucontext` of x86-64.
const SIGNAL_RBP: u64 = 120;
const SIGNAL_RSP: u64 = 160;
const SIGNAL_RIP: u64 = 168;

impl Frame {
    /// The instruction whose rule counts. A return address may be the first byte behind its function: the call is what
    /// counts.
    #[inline(always)]
    pub(crate) fn instruction(&self) -> u64 {
        if self.exact { self.ip } else { self.ip.wrapping_sub(1) }
    }

    /// The caller's frame. With `may_lock` the list of modules may be renewed: never from a signal handler.
    #[inline]
    pub(crate) fn step(&self, stack: &mut impl Stack, may_lock: bool) -> Result<Step, End> {
        match rule::find(self.instruction(), may_lock).map(Code::rule) {
            Some(Rule::Frame { cfa, rbp }) => self.step_by_rule(cfa, rbp, stack).ok_or(End::Lost)?,
            Some(Rule::Outermost) => Err(End::Outermost),
            Some(Rule::SignalFrame) => self.step_over_signal(stack).ok_or(End::Lost),
            None => self.step_by_frame_pointer(stack, may_lock).ok_or(End::Lost),
        }
    }

    #[inline]
    fn step_by_rule(&self, cfa: Cfa, rbp: CallerRbp, stack: &mut impl Stack) -> Option<Result<Step, End>> {
        let at = |base: u64, offset: i32| base.wrapping_add_signed(offset.into());
        let (cfa, sp_slot) = match cfa {
            Cfa::Rsp(offset) => (at(self.sp, offset), 0),
            Cfa::Rbp(offset) => (at(self.bp, offset), 0),
            Cfa::AtRsp(offset) => (stack.read(at(self.sp, offset))?, at(self.sp, offset)),
            Cfa::AtRbp(offset) => (stack.read(at(self.bp, offset))?, at(self.bp, offset)),
        };
        // Stacks grow downwards: a caller's frame is further up, or the walk would not end.
        if cfa <= self.sp {
            return None;
        }
        let slot = cfa - 8;
        let ip = stack.read(slot)?;
        let bp_slot = match rbp {
            CallerRbp::Kept => 0,
            CallerRbp::AtCfa(offset) => at(cfa, offset),
            CallerRbp::AtRbp(offset) => at(self.bp, offset),
        };
        let bp = if bp_slot == 0 { self.bp } else { stack.read(bp_slot)? };
        if ip == 0 {
            return Some(Err(End::Outermost));
        }
        let caller = Frame { ip, sp: cfa, bp, slot, exact: false };
        Some(Ok(Step { caller, bp_slot, sp_slot, through_signal: false, guessed: false }))
    }

    #[cold]
    fn step_over_signal(&self, stack: &mut impl Stack) -> Option<Step> {
        let [ip, sp, bp] = [SIGNAL_RIP, SIGNAL_RSP, SIGNAL_RBP].map(|offset| stack.read(self.sp + offset));
        let (ip, sp, bp) = (ip?, sp?, bp?);
        let slot = self.sp + SIGNAL_RIP;
        let caller = Frame { ip, sp, bp, slot, exact: true };
        // The handler may have run on an alternate stack.
        if sp < self.sp || sp - self.sp > 1 << 20 {
            stack.enter(sp);
        }
        Some(Step { caller, bp_slot: 0, sp_slot: 0, through_signal: true, guessed: false })
    }

    /// For code without CFI (made at run time, hand-written): if the register holds what a frame pointer would hold,
    /// the saved pair that it points to is believed, provided that the return address lies in code with CFI or the
    /// chain goes on.
    #[cold]
    fn step_by_frame_pointer(&self, stack: &mut impl Stack, may_lock: bool) -> Option<Step> {
        if self.bp < self.sp {
            return None;
        }
        let (bp, ip) = (stack.read(self.bp)?, stack.read(self.bp + 8)?);
        let goes_on = bp > self.bp && bp.is_multiple_of(8) && ip > 1 << 16;
        if !goes_on && modules::find(ip.wrapping_sub(1), may_lock).is_none() {
            return None;
        }
        let caller = Frame { ip, sp: self.bp + 16, bp, slot: self.bp + 8, exact: false };
        let bp_slot = self.bp;
        Some(Step { caller, bp_slot, sp_slot: 0, through_signal: false, guessed: true })
    }
}

#[cfg(test)]
#[allow(unsafe_code)] // steps through code and forges stacks
mod tests {
    use super::*;
    use core::ffi::{c_int, c_void};
    use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

    const ROOM: usize = 64;
    static BELOW: [AtomicU64; ROOM] = [const { AtomicU64::new(0) }; ROOM];
    static BELOW_COUNT: AtomicUsize = AtomicUsize::new(0);
    static STEPS: AtomicU32 = AtomicU32::new(0);
    static WRONG: AtomicU32 = AtomicU32::new(0);
    static FIRST_WRONG: AtomicU64 = AtomicU64::new(0);

    extern "C" fn stepped(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
        if BELOW_COUNT.load(Relaxed) == 0 {
            return;
        }
        // SAFETY: the kernel passes it.
        let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let register = |number: c_int| registers[number as usize] as u64;
        let mut frames = [0; ROOM];
        let (ip, mut window) = (register(libc::REG_RIP), Window::new());
        let (count, cut) = walk(ip, register(libc::REG_RSP), register(libc::REG_RBP), &mut window, &mut frames);
        let below = BELOW_COUNT.load(Relaxed);
        let is_right = cut == WHOLE
            && count >= below
            && frames[count - below..count].iter().zip(&BELOW).all(|(frame, known)| *frame == known.load(Relaxed));
        STEPS.fetch_add(1, Relaxed);
        if !is_right && WRONG.fetch_add(1, Relaxed) == 0 {
            FIRST_WRONG.store(ip, Relaxed);
        }
    }

    extern "C" fn compare(left: *const c_void, right: *const c_void) -> c_int {
        // SAFETY: `qsort` passes elements.
        unsafe { (*left.cast::<i32>()).cmp(&*right.cast::<i32>()) as c_int }
    }

    /// Runs under the trap flag: the library's and our own code, with prologues, leaves, callbacks, tail calls.
    #[inline(never)]
    fn work() -> usize {
        let mut numbers = [5, 3, 8, 1, 9, 2, 7];
        // SAFETY: as many elements of that size.
        unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 4, Some(compare)) };
        let text = std::format!("{numbers:?} {:.3} {}", 1.5f64, i128::MAX);
        let words: std::vec::Vec<&str> = text.split(' ').collect();
        let sorted: std::collections::BTreeMap<&str, usize> = words.into_iter().zip(0..).collect();
        // SAFETY: a NUL-terminated name.
        sorted.len() + usize::from(unsafe { libc::getenv(c"HOME".as_ptr()).is_null() })
    }

    #[test]
    fn every_instruction_unwinds_to_the_same_callers() {
        start();
        let mut frames = [0; ROOM];
        let (ip, sp, bp) = registers_here();
        let (count, cut) = walk(ip, sp, bp, &mut Window::new(), &mut frames);
        assert!(cut == WHOLE && count > 3, "{count} frames, cut {cut}");
        frames.iter().zip(&BELOW).for_each(|(frame, known)| known.store(*frame, Relaxed));
        BELOW_COUNT.store(count, Relaxed);
        // SAFETY: the handler only reads; the flag makes every instruction trap until it is cleared again.
        let result = unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = stepped as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGTRAP, &raw const action, core::ptr::null_mut());
            asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
            let result = work();
            // What follows moves the stack pointer and has no unwind information.
            BELOW_COUNT.store(0, Relaxed);
            asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq");
            result
        };
        assert!(result > 5);
        let (steps, wrong) = (STEPS.load(Relaxed), WRONG.load(Relaxed));
        assert!(steps > 3000, "{steps} instructions");
        assert_eq!(wrong, 0, "of {steps}; the first at {:#x}", FIRST_WRONG.load(Relaxed));
    }

    static HAS_INTERRUPTED: AtomicU32 = AtomicU32::new(0);

    extern "C" fn looks_back(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel passes it.
        let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let interrupted = registers[libc::REG_RIP as usize] as u64;
        let is_right = has_interrupted(|ip| ip == interrupted, |_| false)
            && !has_interrupted(|ip| ip == interrupted + 1, |_| false)
            && !has_interrupted(|ip| ip != interrupted, |_| false)
            && has_interrupted(|ip| ip != interrupted, |ip| ip == interrupted);
        HAS_INTERRUPTED.fetch_add(u32::from(is_right), Relaxed);
    }

    #[test]
    fn what_a_handler_has_interrupted_is_found() {
        start();
        assert!(!has_interrupted(|_| true, |_| true), "no handler");
        // SAFETY: the handler looks at the stack and adds.
        unsafe {
            libc::signal(libc::SIGUSR1, looks_back as *const () as usize);
            libc::raise(libc::SIGUSR1);
        }
        assert_eq!(HAS_INTERRUPTED.load(Relaxed), 1);
    }

    #[test]
    fn a_broken_stack_ends_the_walk() {
        start();
        let mut frames = [0; 8];
        let stack = [0x1234_5678_9abcu64; 64];
        let sp = stack.as_ptr() as u64;
        // The return address found there is in no code, and the frame pointer leads nowhere.
        let at = libc::qsort as *const () as u64;
        assert_eq!(walk(at, sp, 0, &mut Window::new(), &mut frames), (1, FAILED));
        assert_eq!(frames[0], stack[0]);
        assert_eq!(walk(at, 8, 0, &mut Window::new(), &mut frames), (0, FAILED), "no stack at all");
        assert_eq!(walk(sp, sp, 0, &mut Window::new(), &mut frames), (0, FAILED), "no code");
    }

    #[test]
    fn code_without_unwind_information_is_left_by_its_frame_pointer_and_marked() {
        start();
        let mut frames = [0; ROOM];
        let (ip, sp, bp) = registers_here();
        // As if code made at run time had pushed rbp and called on: bp points at the pair.
        let mut stack = [0u64; 4];
        stack[2] = bp;
        stack[3] = ip;
        let made = stack.as_ptr() as u64;
        let nowhere = &raw const BELOW as u64;
        let mut window = Window::new();
        let (count, cut) = walk(nowhere, made, made + 16, &mut window, &mut frames);
        assert_eq!((frames[0], cut), (ip, GUESSED));
        assert!(count >= 1);
        let _ = sp;
    }
}
