//! Which access a clock sample pays for.
//!
//! A timer interrupt is taken after the stalled instruction retires, so a sample's instruction
//! pointer is one past it (the skid, which the caller calibrates). Policy: blame the nearest
//! preceding memory instruction along control-flow predecessors, at most [`MAX_BACK`] back, and
//! recover its address by undoing what lies between.
//!
//! - Predecessors are the instruction that falls through to a place and every direct branch to
//!   it within the code given. Indirect jumps and calls from elsewhere are not seen.
//! - Of several candidates the nearest wins; at equal distance one reached over a back edge (a branch
//!   at or after its target), because a sample at a loop's head comes from the loop.
//! - A repeated string instruction at the sampled address itself is blamed whatever the skid: an
//!   interrupt in its middle leaves the pointer on it. Its address is then that of the next element.
//! - A call in between is a memory instruction (it stores the return address) and so ends the walk.
//!
//! The address of a masked access is that of its first element, active or not.
//!
//! When the address register is lost (`mov rdi, [rdi+8]`) the plan still names the instruction:
//! its next execution in a burst from the sample gives the next instance's address.

use crate::access::AccessKind;
use crate::lower::lower_bytes;
use crate::op::{Op, Place, Repeat, Work};
use crate::state::{State, ZERO};
use crate::undo::{Inverse, direct_target, falls_through, memory_operand};

/// Farthest distance, in instructions, from the sampled one to the blamed one.
pub const MAX_BACK: usize = 12;
/// Predecessor searches: each finds paths with one more taken branch.
const SWEEPS: usize = 3;
/// Places whose predecessors one sweep looks for; more are dropped, the farthest first.
const MAX_PLACES: usize = 24;

/// How an address was obtained from a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Quality {
    /// No register of the address changed since the access.
    Exact,
    /// Registers of the address were recovered by undoing instructions.
    Inverted,
    /// The instruction is known, its address is not.
    Lost,
    /// No memory instruction within reach.
    NoMemoryInstruction,
}

/// The outcome of the policy for one sampled instruction pointer: depends on code only, so it can be
/// kept and applied to every sample there. All-zero bytes are a valid plan that blames nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    ip: u64,
    place: Place,
    bytes: u16,
    kind: AccessKind,
    found: bool,
    distance: u8,
    undone: u8,
    steps: [Inverse; MAX_BACK],
}

impl Plan {
    const NONE: Plan = Plan {
        ip: 0,
        place: Place {
            displacement: 0,
            needs: 0,
            base: ZERO as u8,
            index: ZERO as u8,
            scale_log2: 0,
            segment: ZERO as u8,
            narrow: false,
        },
        bytes: 0,
        kind: AccessKind::Load,
        found: false,
        distance: 0,
        undone: 0,
        steps: [Inverse::NOTHING; MAX_BACK],
    };

    /// Address of the blamed instruction.
    pub fn blamed_ip(&self) -> Option<u64> {
        self.found.then_some(self.ip)
    }

    /// Instructions from the blamed one to the sampled one; 0 when they are the same.
    pub fn distance(&self) -> u8 {
        self.distance
    }

    /// Width of the blamed access in bytes.
    pub fn bytes(&self) -> u16 {
        self.bytes
    }

    /// Direction of the blamed access.
    pub fn kind(&self) -> AccessKind {
        self.kind
    }

    /// Address of the blamed access, from the state at the sample.
    pub fn address(&self, state: &State) -> Option<u64> {
        if !self.found {
            return None;
        }
        let mut registers = state.registers;
        for step in self.steps.iter().take(self.undone as usize) {
            step.apply(&mut registers);
        }
        self.place.address(&registers)
    }

    /// Address and how it was obtained.
    pub fn locate(&self, state: &State) -> (Option<u64>, Quality) {
        let address = self.address(state);
        let changed = self.steps.iter().take(self.undone as usize).fold(0, |all, step| all | step.changed());
        let quality = match address {
            _ if !self.found => Quality::NoMemoryInstruction,
            None => Quality::Lost,
            Some(_) if u32::from(changed) & self.place.needs == 0 => Quality::Exact,
            Some(_) => Quality::Inverted,
        };
        (address, quality)
    }
}

/// Instructions on the way back from the sampled one, nearest first.
#[derive(Clone, Copy)]
struct Path {
    ips: [u64; MAX_BACK],
    length: usize,
}

impl Path {
    fn with(mut self, ip: u64) -> Option<Path> {
        *self.ips.get_mut(self.length)? = ip;
        self.length += 1;
        Some(self)
    }
}

/// A place whose predecessors are sought, and the way there.
#[derive(Clone, Copy)]
struct Sought {
    ip: u64,
    path: Path,
    /// The instruction before it in memory was already looked at.
    branches_only: bool,
}

/// What the sweep remembers of an instruction.
#[derive(Clone, Copy)]
struct Seen {
    ip: u64,
    memory: bool,
    falls_through: bool,
}

struct Best {
    path: Option<Path>,
    back_edge: bool,
}

impl Best {
    fn distance(&self) -> usize {
        self.path.map_or(MAX_BACK + 1, |path| path.length)
    }

    fn offer(&mut self, path: Path, back_edge: bool) {
        if path.length < self.distance() || path.length == self.distance() && back_edge && !self.back_edge {
            *self = Best { path: Some(path), back_edge };
        }
    }
}

/// Instructions before the current one of a sweep.
struct Ring {
    seen: [Seen; MAX_BACK],
    next: usize,
    filled: usize,
}

impl Ring {
    fn push(&mut self, seen: Seen) {
        self.seen[self.next % MAX_BACK] = seen;
        self.next = (self.next + 1) % MAX_BACK;
        self.filled = (self.filled + 1).min(MAX_BACK);
    }

    /// The `back`-th instruction before the current one, 0 = directly before.
    fn get(&self, back: usize) -> Option<Seen> {
        (back < self.filled).then(|| self.seen[(self.next + MAX_BACK - 1 - back) % MAX_BACK])
    }
}

/// Finds what to blame for a sample at `sampled_ip`.
///
/// `code` holds the bytes from `code_start` and should cover the function of `sampled_ip` to its end;
/// it is swept linearly from `function_start`, up to three times: the cost is that of decoding it, so
/// keep the plan. `skid` is the number of instructions that a sample
/// is late: 1 blames the preceding instruction or one before it, 0 the sampled one itself if it is a
/// memory instruction.
pub fn plan(code: &[u8], code_start: u64, function_start: u64, sampled_ip: u64, skid: u8) -> Plan {
    let at = |ip: u64| {
        let offset = usize::try_from(ip.checked_sub(code_start)?).ok()?;
        code.get(offset..).filter(|rest| !rest.is_empty()).map(|rest| lower_bytes(rest, ip))
    };
    if let Some(op) = at(sampled_ip) {
        let repeats = matches!(op.work, Work::Text(_, repeat) if repeat != Repeat::Once);
        if (skid == 0 || repeats) && memory_operand(&op).is_some() {
            return finish(&Path { ips: [sampled_ip; MAX_BACK], length: 0 }, &op, sampled_ip, &at);
        }
    }
    let skid = usize::from(skid.max(1));
    let start = Path { ips: [0; MAX_BACK], length: 0 };
    let mut best = Best { path: None, back_edge: false };
    let mut sought = [Sought { ip: sampled_ip, path: start, branches_only: false }; MAX_PLACES];
    let mut count = 1;
    for _ in 0..SWEEPS {
        let mut further = [sought[0]; MAX_PLACES];
        let mut further_count = 0;
        sweep(code, code_start, function_start, |op, ip, ring: &Ring| {
            for place in &sought[..count] {
                let falls = place.ip == ip && !place.branches_only;
                let branches = direct_target(op) == Some(place.ip);
                if falls {
                    let first = Walk { best: &mut best, further: &mut further, count: &mut further_count, skid };
                    first.back(ring, place.path, false);
                }
                if branches {
                    let Some(path) = place.path.with(ip) else {
                        continue;
                    };
                    let walk = Walk { best: &mut best, further: &mut further, count: &mut further_count, skid };
                    walk.over_branch(ring, path, ip, ip >= place.ip);
                }
            }
            // A direct predecessor that is a memory instruction cannot be beaten.
            best.distance() > 1
        });
        let reach = best.distance();
        sought = further;
        count = 0;
        for index in 0..further_count {
            // One step back at least: only what could still be nearer, or as near over a back edge.
            if sought[index].path.length < reach {
                sought[count] = sought[index];
                count += 1;
            }
        }
        if count == 0 {
            break;
        }
    }
    let Some(path) = best.path else {
        return Plan::NONE;
    };
    let blamed = path.ips[path.length - 1];
    match at(blamed) {
        Some(op) => finish(&path, &op, blamed, &at),
        None => Plan::NONE,
    }
}

/// One walk back from a predecessor.
struct Walk<'a> {
    best: &'a mut Best,
    further: &'a mut [Sought; MAX_PLACES],
    count: &'a mut usize,
    skid: usize,
}

impl Walk<'_> {
    /// Walks from a branch at `ip`, the last of `path`.
    fn over_branch(mut self, ring: &Ring, path: Path, ip: u64, back_edge: bool) {
        self.seek(ip, path);
        self.back(ring, path, back_edge);
    }

    /// Walks over the instructions of the ring while each falls through to the next.
    fn back(mut self, ring: &Ring, mut path: Path, back_edge: bool) {
        let mut back = 0;
        while let Some(seen) = ring.get(back).filter(|seen| seen.falls_through) {
            let Some(longer) = path.with(seen.ip) else {
                return;
            };
            path = longer;
            if seen.memory && path.length >= self.skid {
                self.best.offer(path, back_edge);
                return;
            }
            self.seek(seen.ip, path);
            back += 1;
        }
    }

    fn seek(&mut self, ip: u64, path: Path) {
        if *self.count < MAX_PLACES {
            self.further[*self.count] = Sought { ip, path, branches_only: true };
            *self.count += 1;
        }
    }
}

/// Decodes from `start` to the end of the code, until `visit` says false.
fn sweep(code: &[u8], code_start: u64, start: u64, mut visit: impl FnMut(&Op, u64, &Ring) -> bool) {
    let mut ring = Ring { seen: [Seen { ip: 0, memory: false, falls_through: false }; MAX_BACK], next: 0, filled: 0 };
    let Some(mut offset) = start.checked_sub(code_start).and_then(|offset| usize::try_from(offset).ok()) else {
        return;
    };
    while let Some(rest) = code.get(offset..).filter(|rest| !rest.is_empty()) {
        let ip = code_start.wrapping_add(offset as u64);
        let op = lower_bytes(rest, ip);
        if !visit(&op, ip, &ring) {
            return;
        }
        ring.push(Seen { ip, memory: memory_operand(&op).is_some(), falls_through: falls_through(&op) });
        offset += usize::from(op.length.max(1));
    }
    // The place right behind the code has predecessors too.
    visit(&Op::EMPTY, code_start.wrapping_add(offset as u64), &ring);
}

fn finish(path: &Path, blamed: &Op, ip: u64, at: &impl Fn(u64) -> Option<Op>) -> Plan {
    let Some((place, bytes, kind)) = memory_operand(blamed) else {
        return Plan::NONE;
    };
    let mut plan = Plan { ip, place, bytes, kind, found: true, distance: path.length as u8, ..Plan::NONE };
    for (step, &ip) in plan.steps.iter_mut().zip(&path.ips[..path.length]) {
        let Some(op) = at(ip) else { return Plan::NONE };
        *step = Inverse::of(&op);
    }
    plan.undone = path.length as u8;
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{RDI, RSP};

    const START: u64 = 0x1000;

    #[track_caller]
    fn check(
        code: &[u8],
        sampled: u64,
        skid: u8,
        blamed: Option<u64>,
        state: &State,
        expected: (Option<u64>, Quality),
    ) {
        let plan = plan(code, START, START, START + sampled, skid);
        assert_eq!(plan.blamed_ip(), blamed.map(|ip| START + ip));
        assert_eq!(plan.locate(state), expected);
    }

    fn state(registers: &[(usize, u64)]) -> State {
        let mut state = State::unknown(0);
        for &(register, value) in registers {
            state.set_gpr(register, Some(value));
        }
        state
    }

    #[test]
    fn preceding_load_is_exact() {
        // 0: mov rax, [rdi+8]; 4: add rax, 1
        let code = [0x48, 0x8b, 0x47, 0x08, 0x48, 0x83, 0xc0, 0x01];
        check(&code, 4, 1, Some(0), &state(&[(RDI, 0x100)]), (Some(0x108), Quality::Exact));
        // With no skid the sampled instruction itself is blamed.
        check(&code, 0, 0, Some(0), &state(&[(RDI, 0x100)]), (Some(0x108), Quality::Exact));
        check(&code, 4, 1, Some(0), &state(&[]), (None, Quality::Lost));
    }

    #[test]
    fn advanced_pointer_is_inverted() {
        // 0: mov rax, [rdi]; 3: add rdi, 64; 7: nop
        let code = [0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 0x40, 0x90];
        check(&code, 7, 1, Some(0), &state(&[(RDI, 0x140)]), (Some(0x100), Quality::Inverted));
    }

    #[test]
    fn chased_pointer_is_lost() {
        // 0: mov rdi, [rdi+8]; 4: nop
        let code = [0x48, 0x8b, 0x7f, 0x08, 0x90];
        check(&code, 4, 1, Some(0), &state(&[(RDI, 0x140)]), (None, Quality::Lost));
    }

    #[test]
    fn back_edge_is_preferred_at_equal_distance() {
        // 0: mov rax, [rdi]; 3: nop; 4: (head) inc rcx; 7: mov rdx, [rsi]; a: jne 4; c: ret
        let code = [0x48, 0x8b, 0x07, 0x90, 0x48, 0xff, 0xc1, 0x48, 0x8b, 0x16, 0x75, 0xf8, 0xc3];
        check(&code, 4, 1, Some(7), &state(&[(RSI, 0x200), (RDI, 1)]), (Some(0x200), Quality::Exact));
    }

    #[test]
    fn fallthrough_wins_when_nearer() {
        // 0: mov rax, [rdi]; 3: (head) inc rcx; 6: mov rdx, [rsi]; 9: nop; a: jne 3
        let code = [0x48, 0x8b, 0x07, 0x48, 0xff, 0xc1, 0x48, 0x8b, 0x16, 0x90, 0x75, 0xf7];
        check(&code, 3, 1, Some(0), &state(&[(RDI, 0x300)]), (Some(0x300), Quality::Exact));
    }

    #[test]
    fn no_memory_instruction() {
        // lea rax, [rdi]; nop [rax]; prefetcht0 [rdi]; nop
        let code = [0x48, 0x8d, 0x07, 0x0f, 0x1f, 0x00, 0x0f, 0x18, 0x0f, 0x90];
        check(&code, 9, 1, None, &state(&[(RDI, 0x300)]), (None, Quality::NoMemoryInstruction));
        check(&code, 0x900, 1, None, &state(&[]), (None, Quality::NoMemoryInstruction));
        check(&[], 0, 1, None, &state(&[]), (None, Quality::NoMemoryInstruction));
    }

    #[test]
    fn push_and_repeat() {
        // 0: push rax; 1: rep stosb; 3: nop
        let code = [0x50, 0xf3, 0xaa, 0x90];
        check(&code, 1, 1, Some(1), &state(&[(RDI, 0x77)]), (Some(0x77), Quality::Exact));
        let code = [0x50, 0x90];
        check(&code, 1, 1, Some(0), &state(&[(RSP, 0x70)]), (Some(0x70), Quality::Inverted));
    }

    use crate::state::RSI;
}
