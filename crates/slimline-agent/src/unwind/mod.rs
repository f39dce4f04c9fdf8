//! From a stack pointer to the call stack, without frame pointers, locks or allocation; also in a signal handler.

mod modules;
mod rule;
mod window;

pub(crate) use window::Window;

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

/// Return addresses of the calling thread from the stopped instruction `ip` outwards, innermost first, and whether the
/// stack was cut ([`WHOLE`], [`DEEPER`], [`FAILED`], [`GUESSED`]). For signal handlers: `sp` and `bp` are the
/// interrupted registers, at any instruction, prologues and linkage tables included. `window` is the thread's, or new.
pub(crate) fn walk(ip: u64, sp: u64, bp: u64, window: &mut Window, frames: &mut [u64]) -> (usize, u8) {
    window.enter(sp);
    let mut frame = Frame { ip, sp, bp, slot: 0, exact: true };
    let mut guessed = false;
    let mut count = 0;
    let end = loop {
        match frame.step(window, false) {
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

/// A step from a frame to its caller, and what it depended on besides the frame's `ip`, `sp` and the caller's slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) caller: Frame,
    /// The caller's slot was found by means of the frame pointer.
    pub(crate) used_bp: bool,
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
    /// The caller's frame. With `may_lock` the list of modules may be renewed: never from a signal handler.
    #[inline]
    pub(crate) fn step(&self, window: &mut Window, may_lock: bool) -> Result<Step, End> {
        // A return address may be the first byte behind its function: the call is what counts.
        let instruction = if self.exact { self.ip } else { self.ip.wrapping_sub(1) };
        match rule::find(instruction, may_lock) {
            Some(Rule::Frame { cfa, rbp }) => self.step_by_rule(cfa, rbp, window).ok_or(End::Lost)?,
            Some(Rule::Outermost) => Err(End::Outermost),
            Some(Rule::SignalFrame) => self.step_over_signal(window).ok_or(End::Lost),
            None => self.step_by_frame_pointer(window, may_lock).ok_or(End::Lost),
        }
    }

    #[inline]
    fn step_by_rule(&self, cfa: Cfa, rbp: CallerRbp, window: &mut Window) -> Option<Result<Step, End>> {
        let at = |base: u64, offset: i32| base.wrapping_add_signed(offset.into());
        let (cfa, used_bp, sp_slot) = match cfa {
            Cfa::Rsp(offset) => (at(self.sp, offset), false, 0),
            Cfa::Rbp(offset) => (at(self.bp, offset), true, 0),
            Cfa::AtRsp(offset) => (window.read(at(self.sp, offset))?, false, at(self.sp, offset)),
            Cfa::AtRbp(offset) => (window.read(at(self.bp, offset))?, true, at(self.bp, offset)),
        };
        // Stacks grow downwards: a caller's frame is further up, or the walk would not end.
        if cfa <= self.sp {
            return None;
        }
        let slot = cfa - 8;
        let ip = window.read(slot)?;
        let (bp_slot, used_for_bp) = match rbp {
            CallerRbp::Kept => (0, false),
            CallerRbp::AtCfa(offset) => (at(cfa, offset), false),
            CallerRbp::AtRbp(offset) => (at(self.bp, offset), true),
        };
        let bp = if bp_slot == 0 { self.bp } else { window.read(bp_slot)? };
        if ip == 0 {
            return Some(Err(End::Outermost));
        }
        let caller = Frame { ip, sp: cfa, bp, slot, exact: false };
        let used_bp = used_bp | used_for_bp;
        Some(Ok(Step { caller, used_bp, bp_slot, sp_slot, through_signal: false, guessed: false }))
    }

    #[cold]
    fn step_over_signal(&self, window: &mut Window) -> Option<Step> {
        let [ip, sp, bp] = [SIGNAL_RIP, SIGNAL_RSP, SIGNAL_RBP].map(|offset| window.read(self.sp + offset));
        let (ip, sp, bp) = (ip?, sp?, bp?);
        let slot = self.sp + SIGNAL_RIP;
        let caller = Frame { ip, sp, bp, slot, exact: true };
        // The handler may have run on an alternate stack.
        if sp < self.sp || sp - self.sp > 1 << 20 {
            window.enter(sp);
        }
        Some(Step { caller, used_bp: false, bp_slot: 0, sp_slot: 0, through_signal: true, guessed: false })
    }

    /// For code without CFI (made at run time, hand-written): if the register holds what a frame pointer would hold,
    /// the saved pair that it points to is believed, provided that the return address lies in code with CFI or the
    /// chain goes on.
    #[cold]
    fn step_by_frame_pointer(&self, window: &mut Window, may_lock: bool) -> Option<Step> {
        if self.bp < self.sp {
            return None;
        }
        let (bp, ip) = (window.read(self.bp)?, window.read(self.bp + 8)?);
        let goes_on = bp > self.bp && bp.is_multiple_of(8) && ip > 1 << 16;
        if !goes_on && modules::find(ip.wrapping_sub(1), may_lock).is_none() {
            return None;
        }
        let caller = Frame { ip, sp: self.bp + 16, bp, slot: self.bp + 8, exact: false };
        let bp_slot = self.bp;
        Some(Step { caller, used_bp: true, bp_slot, sp_slot: 0, through_signal: false, guessed: true })
    }
}
