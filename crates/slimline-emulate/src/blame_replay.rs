//! Whether a way to a sampled instruction was taken: it is run again, and must come to what the sample shows.

use crate::access::{Access, AccessKind, End, Memory};
use crate::blame::MAX_BACK;
use crate::blame_flow::Step;
use crate::emulator::Emulator;
use crate::state::{Registers, State};

/// What instructions changed of a state beside its general registers: that is not recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    vectors: u32,
    masks: u8,
    flags: bool,
}

impl Changed {
    pub(crate) const NOTHING: Changed = Changed { vectors: 0, masks: 0, flags: false };

    pub(crate) fn add(&mut self, step: &Step) {
        self.vectors |= step.writes_vectors();
        self.masks |= step.writes_masks();
        self.flags |= step.writes_flags();
    }

    /// The state at `ip` with these registers, of which `sampled` came.
    fn before(self, ip: u64, registers: Registers, sampled: &State) -> State {
        let mut state = State { registers, rip: ip, ..sampled.clone() };
        let vectors = state.vectors_known.iter_mut().enumerate();
        vectors.filter(|(register, _)| self.vectors >> register & 1 != 0).for_each(|(_, known)| *known = 0);
        state.masks_known &= !self.masks;
        if self.flags {
            state.flags_known = 0;
        }
        state
    }
}

/// Where a way begins.
pub(crate) struct Beginning {
    pub(crate) ip: u64,
    /// As they were there.
    pub(crate) registers: Registers,
    /// By the way.
    pub(crate) changed: Changed,
}

/// Whether `distance` instructions from there can have led to `sampled`, as far as is known.
///
/// Memory is as the sample finds it. What the way itself stored is not what it had loaded before: nothing is concluded
/// where the two overlap.
pub(crate) fn replay<M: Memory, const N: usize>(
    emulator: &mut Emulator<N>,
    memory: &mut M,
    from: Beginning,
    distance: u8,
    sampled: &State,
) -> bool {
    let mut state = from.changed.before(from.ip, from.registers, sampled);
    let mut seen = Seen { accesses: [None; 2 * MAX_BACK], count: 0, is_own: false };
    emulator.begin();
    for _ in 0..distance {
        let at = state.rip;
        match emulator.step(&mut state, memory, &mut |access| seen.add(access)) {
            // Of a repeated string instruction that was one group. How many there are is not worth the time.
            Ok(()) if state.rip == at => return true,
            Ok(()) => {}
            Err(End::Fault | End::Exception) => return false,
            Err(_) => return true,
        }
    }
    // What it loaded may have decided where it went.
    seen.is_own || state.rip == sampled.rip && agree(&state, sampled, from.changed)
}

/// Whether all that is known of both is the same. Vectors that did not change can't differ.
fn agree(state: &State, sampled: &State, changed: Changed) -> bool {
    let general = (0..16).all(|register| match (state.gpr(register), sampled.gpr(register)) {
        (Some(ours), Some(theirs)) => ours == theirs,
        _ => true,
    });
    let known = state.flags_known & sampled.flags_known;
    let vectors = (0..32).filter(|register| changed.vectors >> register & 1 != 0).all(|register| {
        let both = state.vectors_known[register] & sampled.vectors_known[register];
        let pairs = state.vectors[register].iter().zip(&sampled.vectors[register]);
        pairs.enumerate().all(|(at, (ours, theirs))| both >> at & 1 == 0 || ours == theirs)
    });
    general && (state.flags ^ sampled.flags) & known == 0 && vectors
}

/// Accesses of a replay.
struct Seen {
    accesses: [Option<Access>; 2 * MAX_BACK],
    count: usize,
    /// A store overlaps a load before it, or there were too many to say.
    is_own: bool,
}

impl Seen {
    fn add(&mut self, access: Access) {
        let overlaps = |before: &Access| {
            before.kind != AccessKind::Store
                && before.address < access.address.saturating_add(access.bytes.into())
                && access.address < before.address.saturating_add(before.bytes.into())
        };
        if access.kind == AccessKind::Update
            || access.kind == AccessKind::Store && self.accesses.iter().flatten().any(overlaps)
        {
            self.is_own = true;
        }
        match self.accesses.get_mut(self.count) {
            Some(room) => *room = Some(access),
            None => self.is_own = true,
        }
        self.count += 1;
    }
}
