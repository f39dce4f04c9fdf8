//! One unwinding of an allocation's call path, with recursion folded and with a list of what decided it.
//!
//! Folding: where a function stands on the stack more than once, only its innermost frame is kept, and next to that
//! comes what called its outermost one; of what is between, nothing. How often code had called itself makes no other
//! data structure, and without folding a tree's nodes would have as many paths as there are ways down the tree.
//!
//! ```text
//!   malloc ◄ odd:5 ◄ even:9 ◄ odd:6 ◄ even:9 ◄ main:1     ──►    odd:5, even:9, main:1
//! ```
#![allow(unsafe_code)] // reads the target's stack

use super::{Entry, FACTORS, MAX_PATH_FRAMES, MAX_WALKED_FRAMES, SLOTS};
use crate::unwind::{self, Code, DEEPER, End, Frame, GUESSED, Stack as _, Window};

/// The frames that are kept of a path. Zeroes are valid, and so is what the last unwinding left.
pub(super) struct Kept {
    frames: [u64; MAX_PATH_FRAMES],
    /// Where the functions begin that the frames are in.
    functions: [u64; MAX_PATH_FRAMES],
}

impl Kept {
    /// Where a function stands among the first frames.
    #[inline(never)]
    fn position(&self, count: usize, function: u64) -> Option<usize> {
        self.functions[..count.min(MAX_PATH_FRAMES)].iter().rposition(|known| *known == function)
    }
}

/// An unwinding: where it is, and what it found.
pub(super) struct Walk<'a> {
    /// Stack pointer where it begins.
    start: u64,
    window: &'a mut Window,
    /// Gets the slots that decided.
    entry: &'a mut Entry,
    kept: &'a mut Kept,
    count: usize,
    /// Set of hashes of the functions kept.
    present: u64,
    /// Frames seen, folded ones included.
    walked: usize,
    /// Slots noted.
    slots: usize,
    /// Behind the outermost that was noted other than in order.
    noted_end: u64,
    digest: u64,
    /// The frame that it is at.
    ip: u64,
    sp: u64,
    exact: bool,
    /// Slot that holds the frame's frame pointer; 0: it is `bp`.
    bp_slot: u64,
    bp: u64,
    /// `bp` is what the allocation function was entered with.
    is_bp_entered: bool,
    is_guessed: bool,
    /// Whether the slots tell all that decided.
    pub(super) is_checkable: bool,
    /// As in the records.
    pub(super) cut: u8,
}

impl<'a> Walk<'a> {
    /// Unwinds from the entry of a function: `sp` points at its return address `ip`. `entry` gets what decided.
    #[inline(always)]
    pub(super) fn new(
        sp: u64,
        bp: u64,
        ip: u64,
        window: &'a mut Window,
        entry: &'a mut Entry,
        kept: &'a mut Kept,
    ) -> Self {
        entry.needs_bp = false;
        let mut walk = Self {
            start: sp,
            window,
            entry,
            kept,
            count: 0,
            present: 0,
            walked: 0,
            slots: 0,
            noted_end: sp,
            digest: 0,
            ip,
            sp: sp + 8,
            exact: false,
            bp_slot: 0,
            bp,
            is_bp_entered: true,
            is_guessed: false,
            is_checkable: true,
            cut: DEEPER,
        };
        walk.note(sp, ip);
        while walk.through_constant_frames() && walk.through_other_frame() {}
        if walk.is_guessed {
            walk.cut = GUESSED;
        }
        let extent_words = walk.sp.max(walk.noted_end).wrapping_sub(sp) / 8;
        walk.is_checkable &= extent_words < u16::MAX.into();
        walk.entry.extent_words = extent_words as u16;
        walk.entry.count = walk.slots as u8;
        walk.entry.digest = walk.digest;
        if walk.entry.needs_bp {
            walk.entry.digest = walk.digest.wrapping_add(bp.wrapping_mul(FACTORS[SLOTS]));
        }
        walk
    }

    /// Return addresses, innermost first.
    #[inline(always)]
    pub(super) fn frames(&self) -> &[u64] {
        &self.kept.frames[..self.count.min(MAX_PATH_FRAMES)]
    }

    /// Notes that a slot decided. One too far away shows in the extent.
    #[inline(always)]
    fn note(&mut self, slot: u64, word: u64) {
        self.noted_end = self.noted_end.max(slot + 8);
        self.is_checkable &= slot >= self.start;
        if let Some(place) = self.entry.slots.get_mut(self.slots) {
            *place = (slot.wrapping_sub(self.start) / 8) as u16;
            self.digest = self.digest.wrapping_add(word.wrapping_mul(FACTORS[self.slots]));
            self.slots += 1;
        } else {
            self.is_checkable = false;
        }
    }

    fn end(&mut self, end: End) -> bool {
        self.cut = end.code();
        false
    }

    /// As far as frames are of constant size and their code is known: nearly all. False at the end, true where the
    /// frame that it is at needs more thought. A few instructions a frame, all in registers.
    #[inline(always)]
    fn through_constant_frames(&mut self) -> bool {
        let (mut ip, mut sp, mut bp_slot) = (self.ip, self.sp, self.bp_slot);
        let (mut count, mut present, mut walked) = (self.count, self.present, self.walked);
        let (mut slots, mut digest) = (self.slots, self.digest);
        let (start, high) = (self.start, self.window.high());
        let mut last = if count == 0 { 0 } else { self.kept.functions[count - 1] };
        let mut goes_on = true;
        while !self.exact
            && let Some(code) = unwind::known_code_at(ip.wrapping_sub(1))
            && let Some((cfa, saved)) = code.constant_frame(sp)
            && sp < cfa
            && cfa <= high
            && cfa.is_multiple_of(8)
            && slots < SLOTS
        {
            let function = code.function(ip.wrapping_sub(1));
            let bit = 1 << (function.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58);
            if function == last {
                // Most recursion is a function's own.
            } else if present & bit != 0
                && let Some(index) = self.kept.position(count, function)
            {
                (count, last) = (index + 1, function);
            } else if count < MAX_PATH_FRAMES {
                (self.kept.frames[count], self.kept.functions[count]) = (ip, function);
                (count, last) = (count + 1, function);
                present |= bit;
            } else {
                goes_on = false;
                break;
            }
            // SAFETY: aligned, and in the window: above its low end, as stack pointers only rise.
            let caller = unsafe { ((cfa - 8) as *const u64).read_volatile() };
            walked += 1;
            bp_slot = if saved != 0 { saved } else { bp_slot };
            (ip, sp) = (caller, cfa);
            // The outermost frame's slot decides, too: that the path ends there.
            self.entry.slots[slots] = ((sp - 8 - start) / 8) as u16;
            digest = digest.wrapping_add(ip.wrapping_mul(FACTORS[slots]));
            slots += 1;
            if caller == 0 {
                self.cut = End::Outermost.code();
                goes_on = false;
                break;
            }
            if walked == MAX_WALKED_FRAMES {
                goes_on = false;
                break;
            }
        }
        (self.ip, self.sp, self.bp_slot) = (ip, sp, bp_slot);
        (self.count, self.present, self.walked) = (count, present, walked);
        (self.slots, self.digest) = (slots, digest);
        goes_on
    }

    /// Through the frame that it is at, whatever it is. False at the end.
    #[inline(never)]
    fn through_other_frame(&mut self) -> bool {
        let mut frame = Frame { ip: self.ip, sp: self.sp, bp: self.bp, slot: 0, exact: self.exact };
        let code = unwind::code_at(frame.instruction());
        let function = code.map_or(self.ip, |code| code.function(frame.instruction()));
        if let Some(index) = self.kept.position(self.count, function) {
            self.count = index + 1;
        } else if self.count < MAX_PATH_FRAMES {
            (self.kept.frames[self.count], self.kept.functions[self.count]) = (self.ip, function);
            self.count += 1;
            self.present |= 1 << (function.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58);
        } else {
            return false;
        }
        self.walked += 1;
        if code.is_none_or(Code::uses_bp) {
            if self.bp_slot != 0 {
                let Some(value) = self.window.read(self.bp_slot) else { return self.end(End::Lost) };
                self.note(self.bp_slot, value);
                (self.bp, self.bp_slot, self.is_bp_entered) = (value, 0, false);
            }
            self.entry.needs_bp |= self.is_bp_entered;
            frame.bp = self.bp;
        }
        match frame.step(self.window, true) {
            Ok(step) => {
                self.is_guessed |= step.guessed;
                self.is_checkable &= !step.guessed && !step.through_signal;
                if step.sp_slot != 0 {
                    // Below the caller's frame, so within the extent.
                    self.note(step.sp_slot, step.caller.sp);
                }
                if step.through_signal {
                    (self.bp, self.bp_slot, self.is_bp_entered) = (step.caller.bp, 0, false);
                } else if step.bp_slot != 0 {
                    self.bp_slot = step.bp_slot;
                }
                (self.ip, self.sp, self.exact) = (step.caller.ip, step.caller.sp, step.caller.exact);
                self.note(step.caller.slot, self.ip);
                self.walked < MAX_WALKED_FRAMES
            }
            Err(end) => {
                // A return address of zero was read from a slot that is not noted.
                self.is_checkable &= end != End::Outermost || code.is_some_and(Code::is_outermost);
                self.end(end)
            }
        }
    }
}
