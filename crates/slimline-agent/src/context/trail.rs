//! The last call path that was unwound, frame by frame, to unwind the next one only as far as it differs.

use super::{Counts, Entry, MAX_PATH_FRAMES, SLOTS};
use crate::unwind::{DEEPER, End, Frame, GUESSED, Window};

/// A frame and how it was found from the one before.
#[derive(Clone, Copy)]
struct Footprint {
    frame: Frame,
    /// As in [`crate::unwind::Step`].
    used_bp: bool,
    bp_slot: u64,
    sp_slot: u64,
}

/// One unwound path. Zeroes are a path of no frames.
struct Unwound {
    count: usize,
    /// How the path ended; None: at the limit.
    end: Option<End>,
    guessed: bool,
    /// Something was read that the footprints don't tell: the path can't be checked, only unwound again.
    uncheckable: bool,
    footprints: [Footprint; MAX_PATH_FRAMES],
}

/// See the module: the last path and the one before, in turns. Zeroes are valid.
pub(super) struct Trail {
    paths: [Unwound; 2],
    last: usize,
}

impl Trail {
    pub(super) fn forget(&mut self) {
        self.paths[self.last].count = 0;
    }

    /// Unwinds from the entry of a function: `sp` points at its return address. Returns how the path was cut.
    pub(super) fn follow(&mut self, sp: u64, bp: u64, window: &mut Window, counts: &mut Counts) -> u8 {
        let [first, second] = &mut self.paths;
        let (old, new) = if self.last == 0 { (first, second) } else { (second, first) };
        self.last ^= 1;
        new.follow(old, sp, bp, window, counts)
    }

    /// The return addresses, innermost first; returns how many.
    pub(super) fn frames(&self, frames: &mut [u64; MAX_PATH_FRAMES]) -> usize {
        let found = self.paths[self.last].found();
        frames.iter_mut().zip(found).for_each(|(frame, footprint)| *frame = footprint.frame.ip);
        found.len()
    }

    /// Writes what decided the path into `entry`. False where it doesn't fit: frames of half a MiB.
    pub(super) fn describe(&self, entry: &mut Entry, sp: u64) -> bool {
        self.paths[self.last].describe(entry, sp)
    }
}

impl Unwound {
    fn found(&self) -> &[Footprint] {
        &self.footprints[..self.count]
    }

    fn follow(&mut self, old: &Self, sp: u64, bp: u64, window: &mut Window, counts: &mut Counts) -> u8 {
        let known = if old.uncheckable { &[] } else { old.found() };
        let mut next_known = 0;
        (self.count, self.end, self.guessed, self.uncheckable) = (0, None, false, false);
        let Some(ip) = window.read(sp) else {
            self.end = Some(End::Lost);
            return End::Lost.code();
        };
        let frame = Frame { ip, sp: sp + 8, bp, slot: sp, exact: false };
        self.push(Footprint { frame, used_bp: false, bp_slot: 0, sp_slot: 0 });
        loop {
            let frame = self.footprints[self.count - 1].frame;
            while known.get(next_known).is_some_and(|footprint| footprint.frame.slot < frame.slot) {
                next_known += 1;
            }
            if known.get(next_known).is_some_and(|footprint| footprint.frame == frame) {
                let room = MAX_PATH_FRAMES - self.count;
                let behind = known[next_known + 1..].iter().take(room);
                let before = self.count;
                behind.take_while(|footprint| footprint.is_there(window)).for_each(|footprint| self.push(*footprint));
                let reused = self.count - before;
                counts.reused += reused as u64;
                next_known += reused + 1;
                // What came behind the old path's last frame is known too, unless it was cut while this has room.
                if next_known == known.len() && (old.end.is_some() || self.count == MAX_PATH_FRAMES) {
                    self.end = old.end;
                    break;
                }
                if reused > 0 {
                    continue;
                }
            }
            counts.steps += 1;
            match frame.step(window, true) {
                Ok(_) if self.count == MAX_PATH_FRAMES => break,
                Ok(step) => {
                    self.guessed |= step.guessed;
                    self.uncheckable |= step.guessed | step.through_signal;
                    let (used_bp, bp_slot, sp_slot) = (step.used_bp, step.bp_slot, step.sp_slot);
                    self.push(Footprint { frame: step.caller, used_bp, bp_slot, sp_slot });
                }
                Err(end) => {
                    self.end = Some(end);
                    break;
                }
            }
        }
        if self.guessed { GUESSED } else { self.end.map_or(DEEPER, End::code) }
    }

    fn push(&mut self, footprint: Footprint) {
        self.footprints[self.count] = footprint;
        self.count += 1;
    }

    fn describe(&self, entry: &mut Entry, sp: u64) -> bool {
        if self.uncheckable {
            return false;
        }
        let mut slots = [0; SLOTS];
        let (mut count, mut extent_words) = (0, 0);
        let mut add = |address: u64| {
            let distance = u16::try_from(address.wrapping_sub(sp) / 8).ok().filter(|_| address.is_multiple_of(8));
            let (Some(distance), Some(place)) = (distance, slots.get_mut(count)) else { return false };
            *place = distance;
            count += 1;
            extent_words = distance.checked_add(1).map_or(u16::MAX, |end| end.max(extent_words));
            extent_words > distance
        };
        let found = self.found();
        if !found.iter().all(|footprint| add(footprint.frame.slot)) {
            return false;
        }
        // Outside in: a frame pointer matters if a frame further out was found by means of it before it was loaded
        // anew. Loaded ones that matter are checked where they were loaded from.
        let mut matters = false;
        for footprint in found.iter().rev() {
            let loaded = footprint.bp_slot != 0 && matters;
            if loaded && !add(footprint.bp_slot) || footprint.sp_slot != 0 && !add(footprint.sp_slot) {
                return false;
            }
            matters = footprint.used_bp || matters && footprint.bp_slot == 0;
        }
        (entry.frames, entry.count, entry.extent_words) = (found.len() as u8, count as u8, extent_words);
        (entry.slots, entry.needs_bp) = (slots, matters);
        true
    }
}

impl Footprint {
    /// Whether the stack still leads to this frame, given that it still leads to the one before.
    fn is_there(&self, window: &mut Window) -> bool {
        let holds = |window: &mut Window, slot: u64, value: u64| slot == 0 || window.read(slot) == Some(value);
        holds(window, self.frame.slot, self.frame.ip)
            && holds(window, self.bp_slot, self.frame.bp)
            && holds(window, self.sp_slot, self.frame.sp)
    }
}
