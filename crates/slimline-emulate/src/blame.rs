//! Which access a clock sample pays for.
//!
//! A timer interrupt is taken after the instruction that the core waited for retires, so a sample's
//! instruction pointer is one past it (the skid, which the caller calibrates). That instruction is the
//! *waiting* one. Along control-flow predecessors, at most [`MAX_BACK`] back, each way on which the sampled instruction
//! can have been come to has its own answer:
//!
//! 1. If the waiting instruction has a strong memory operand, it is blamed itself. If it is a *slow* one (a division, a
//!    square root, `cpuid`: see the module `blame_latency`) no access is blamed.
//! 2. Otherwise it waited for a result (everything before it had retired, though perhaps in the same
//!    cycle): the nearest load with a strong operand is blamed that its operands depend on, through
//!    registers, flags and stack slots. After a mispredicted branch this is the load that it was decided by. Where a slow
//!    instruction lies nearer on that way no access is blamed: its result came later than the load's.
//! 3. If no load is found in a loop, and the operands form a loop-carried chain of register operations that takes longer
//!    than a counter's, the loop computes: no access is blamed.
//! 4. Else the nearest memory instruction is blamed, be it weak, unless a slow one lies nearer.
//!
//! - A *weak* operand is nearly always in the nearest cache: a stack slot (`push`, `ret`, `[rsp+8]`,
//!   `[rbp-8]`), a load from an address without a general register (constants for `xorpd` or `mulsd`, but also
//!   scalar globals, which 4. leaves their due) and the pointer of an indirect call or jump. All else is
//!   strong, indexed and atomic operands always: see the module `blame_flow`.
//! - Predecessors are the instruction that falls through to a place and every direct branch to
//!   it within the code given. Indirect jumps and calls from elsewhere are not seen.
//! - Ways within the innermost loop of the waiting instruction come first: what lies before the loop was executed once, and
//!   the loop many times. See the module `blame_loop`.
//! - A way was not taken if the flags of the sample are not those that its conditional jumps found, or if running it again
//!   comes to other registers (`blame_replay`). Only if that holds for all ways within the loop it was just entered. Where
//!   ways remain that blame different accesses, none is blamed ([`Quality::Ambiguous`]). Of two instructions that access
//!   the same bytes the nearer one is.
//! - A repeated string instruction at the sampled address itself is blamed whatever the skid: an
//!   interrupt in its middle leaves the pointer on it. Its address is then that of the next element.
//! - A call in between ends the walk: what the callee did last is not known.
//!
//! Then the address is recovered by undoing what lies between. That of a masked access is of its first
//! element, active or not.
//!
//! When the address register is lost (`mov rdi, [rdi+8]`) the plan still names the instruction:
//! its next execution in a burst from the sample gives the next instance's address.

use crate::access::{AccessKind, Memory};
use crate::blame_code::{Code, may_branch_to};
use crate::blame_replay::{Beginning, Changed, replay};
use crate::blame_search::{Blames, End, FlagTest, Search};
use crate::emulator::Emulator;
use crate::lower::MAX_INSTRUCTION_BYTES;
use crate::op::{Op, Place, Repeat, Work};
use crate::state::{State, ZERO};
use crate::undo::{Inverse, memory_operand};

/// Farthest distance, in instructions, from the sampled one to the blamed one.
pub const MAX_BACK: usize = 12;
/// Code before the sampled instruction that is looked at first. Decoding from the middle falls into step within
/// a few instructions.
const NEAR_BYTES: usize = 96;

/// Ways with answers of their own that a plan keeps, and instructions that it can undo on all of them together.
const MAX_WAYS: usize = 4;
const MAX_STEPS: usize = 24;

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
    /// No memory instruction within reach, or what was waited for is one that takes long by itself.
    NoMemoryInstruction,
    /// Several ways lead to the sampled instruction, with different answers, and nothing shows which was taken.
    Ambiguous,
}

/// What a sample is blamed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blamed {
    /// Address of the blamed instruction, if one is.
    pub ip: Option<u64>,
    /// What it accessed, if that is known.
    pub address: Option<u64>,
    /// Width of the access in bytes.
    pub bytes: u16,
    /// Direction of the access.
    pub kind: AccessKind,
    /// Instructions from the blamed one to the sampled one; 0 when they are the same.
    pub distance: u8,
    /// How the address was obtained.
    pub quality: Quality,
}

impl Blamed {
    const fn nothing(quality: Quality) -> Blamed {
        Blamed { ip: None, address: None, bytes: 0, kind: AccessKind::Load, distance: 0, quality }
    }

    /// Of two ways, either of which may have been taken.
    fn or(self, other: Blamed) -> Blamed {
        let access = |of: Blamed| of.address.map(|address| (address, of.bytes, of.kind));
        if (self.ip, self.address) == (other.ip, other.address) {
            self
        } else if access(self).is_some() && access(self) == access(other) {
            // Compilers copy the tail of a loop into its branches.
            if other.distance < self.distance { other } else { self }
        } else if self.ip == other.ip {
            Blamed { address: None, quality: Quality::Lost, ..self }
        } else {
            Blamed::nothing(Quality::Ambiguous)
        }
    }
}

/// The outcome of the policy for one sampled instruction pointer: depends on code only, so it can be
/// kept and applied to every sample there. All-zero bytes are a valid plan that blames nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    ways: [Way; MAX_WAYS],
    count: u8,
    /// There are more ways than these.
    is_cut: bool,
    /// No direct branch from elsewhere leads to an instruction on them.
    is_whole: bool,
    /// Of all ways, one behind the other.
    steps: [Inverse; MAX_STEPS],
}

/// One answer, and what tells that it is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    test: FlagTest,
    /// What its instructions change that is not recovered.
    changed: Changed,
    /// No other instruction can have led to one on it.
    is_only: bool,
    /// It stands for several ways to one access.
    is_several: bool,
    /// The loop around was just entered.
    enters: bool,
    /// Whether an access is blamed.
    blames: bool,
    kind: AccessKind,
    bytes: u16,
    ip: u64,
    place: Place,
    first_step: u8,
    distance: u8,
}

impl Way {
    const NONE: Way = Way {
        test: FlagTest::ANY,
        changed: Changed::NOTHING,
        is_only: true,
        is_several: false,
        enters: false,
        blames: false,
        kind: AccessKind::Load,
        bytes: 0,
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
        first_step: 0,
        distance: 0,
    };
}

impl Plan {
    const NONE: Plan = Plan {
        ways: [Way::NONE; MAX_WAYS],
        count: 0,
        is_cut: false,
        is_whole: false,
        steps: [Inverse::NOTHING; MAX_STEPS],
    };

    /// The instruction, with width and direction of its access, that every sample is blamed on which did not just enter a
    /// loop. None where that depends on the way, or none is.
    pub fn instruction(&self) -> Option<(u64, u16, AccessKind)> {
        let mut ways = self.ways().iter().filter(|way| !way.enters);
        let first = ways.next().filter(|way| way.blames && !self.is_cut)?;
        ways.all(|way| way.blames && way.ip == first.ip).then_some((first.ip, first.bytes, first.kind))
    }

    /// What a sample with this state is blamed on. `emulator` runs instructions before it again; a burst of its own ends.
    pub fn locate<M: Memory, const N: usize>(
        &self,
        state: &State,
        emulator: &mut Emulator<N>,
        memory: &mut M,
    ) -> Blamed {
        if self.is_cut {
            return Blamed::nothing(Quality::Ambiguous);
        }
        if self.count == 0 {
            return Blamed::nothing(Quality::NoMemoryInstruction);
        }
        let mut taken = |enters| {
            let ways = self.ways().iter().filter(|way| way.enters == enters);
            let mut answers = ways.filter_map(|way| self.along(way, state, emulator, memory));
            let first = answers.next()?;
            Some(answers.fold(first, Blamed::or))
        };
        taken(false).or_else(|| taken(true)).unwrap_or(Blamed::nothing(Quality::Ambiguous))
    }

    fn ways(&self) -> &[Way] {
        self.ways.get(..self.count.into()).unwrap_or_default()
    }

    fn steps(&self, way: &Way) -> &[Inverse] {
        let first = usize::from(way.first_step);
        self.steps.get(first..first + usize::from(way.distance)).unwrap_or_default()
    }

    /// The answer of a way; None where it was not taken.
    fn along<M: Memory, const N: usize>(
        &self,
        way: &Way,
        state: &State,
        emulator: &mut Emulator<N>,
        memory: &mut M,
    ) -> Option<Blamed> {
        if !way.test.agrees(state) {
            return None;
        }
        let (mut registers, mut changed) = (state.registers, 0);
        for step in self.steps(way) {
            step.apply(&mut registers);
            changed |= step.changed();
        }
        let from = Beginning { ip: way.ip, registers, changed: way.changed };
        // Of several ways one may have been taken where another was not.
        let is_certain = way.is_several || way.is_only && self.is_whole;
        if !is_certain && !replay(emulator, memory, from, way.distance, state) {
            return None;
        }
        if !way.blames {
            return Some(Blamed::nothing(Quality::NoMemoryInstruction));
        }
        let address = way.place.address(&registers);
        let quality = match address {
            None => Quality::Lost,
            Some(_) if u32::from(changed) & way.place.needs == 0 => Quality::Exact,
            Some(_) => Quality::Inverted,
        };
        Some(Blamed { ip: Some(way.ip), address, bytes: way.bytes, kind: way.kind, distance: way.distance, quality })
    }

    /// Keeps what one way comes to. None where its instructions can't be read again.
    fn add(&mut self, end: &End, code: &Code, sampled_ip: u64) -> Option<()> {
        let path = end.ips();
        let ip = path.last().copied().unwrap_or(sampled_ip);
        let distance = path.len() as u8;
        let mut way = Way { test: end.test(), enters: end.enters(), ip, distance, ..Way::NONE };
        match end.blames {
            Blames::Unknown => {
                self.is_cut = true;
                return Some(());
            }
            Blames::Nothing => {}
            Blames::Access => {
                way.blames = true;
                (way.place, way.bytes, way.kind) = memory_operand(&code.at(ip)?.0)?;
            }
        }
        let (mut steps, mut behind) = ([Inverse::NOTHING; MAX_BACK], sampled_ip);
        for (inverse, &ip) in steps.iter_mut().zip(path) {
            let (op, step) = code.at(ip)?;
            *inverse = Inverse::of(&op);
            way.changed.add(&step);
            way.is_only &= code.has_one_before(behind);
            behind = ip;
        }
        if way.blames && self.join(&way, &steps[..path.len()]) {
            return Some(());
        }
        way.first_step = self.ways().last().map_or(0, |last| last.first_step + last.distance);
        let first = usize::from(way.first_step);
        match (self.ways.get_mut(usize::from(self.count)), self.steps.get_mut(first..first + path.len())) {
            (Some(room), Some(places)) => {
                places.copy_from_slice(&steps[..path.len()]);
                *room = way;
                self.count += 1;
            }
            // Where a loop was entered matters least.
            _ => self.is_cut |= !way.enters,
        }
        Some(())
    }

    /// Merges a way into one that blames the same access, if the address is unchanged on both or lost on both. False
    /// without such a way.
    fn join(&mut self, way: &Way, steps: &[Inverse]) -> bool {
        let touched = |steps: &[Inverse]| {
            let (lost, changed) = steps.iter().fold((0, 0), |all, step| (all.0 | step.lost(), all.1 | step.changed()));
            (u32::from(lost) & way.place.needs != 0, u32::from(changed) & way.place.needs != 0)
        };
        // What was changed and can be undone has to be undone on each.
        let own = touched(steps);
        let is_alike = |known: &Way| {
            known.blames && (known.ip, known.enters) == (way.ip, way.enters) && touched(self.steps(known)) == own
        };
        let alike = (0..self.ways().len()).find(|&at| is_alike(&self.ways[at])).filter(|_| own != (false, true));
        let Some(known) = alike.map(|at| &mut self.ways[at]) else { return false };
        known.test = known.test.common(way.test);
        known.is_several = true;
        true
    }
}

/// The code around a sampled instruction.
#[derive(Clone, Copy, Debug)]
pub struct CodeAround<'a> {
    /// Machine code, from the beginning of an instruction on.
    pub bytes: &'a [u8],
    /// Address of the first byte.
    pub start: u64,
    /// Whether it is a whole function, so that no direct branch leads into it from elsewhere.
    pub is_whole: bool,
}

/// Finds what to blame for a sample at `sampled_ip`.
///
/// Only 2 KiB of `code` around the sampled instruction count. It is decoded from its start, which costs the most, so
/// keep the plan. `skid` is the number of instructions that a sample is late: 1 blames the preceding
/// instruction or one before it, 0 the sampled one itself if it is a memory instruction. Of an instruction
/// that takes long by itself nothing is blamed.
///
/// At most 2048 instructions are decoded, then 1600 steps taken back. Where a strong memory instruction lies
/// directly before one that no branch leads to, it is less than 100 and a look at the bytes.
pub fn plan(code: CodeAround<'_>, sampled_ip: u64, skid: u8) -> Plan {
    let CodeAround { bytes, start, is_whole } = code;
    let Some(sampled) = sampled_ip.checked_sub(start).and_then(|offset| usize::try_from(offset).ok()) else {
        return Plan::NONE;
    };
    if sampled > bytes.len() {
        return Plan::NONE;
    }
    let near = sampled.saturating_sub(NEAR_BYTES)..bytes.len().min(sampled + MAX_INSTRUCTION_BYTES);
    let near_start = start + near.start as u64;
    let near = Code::new(&bytes[near], near_start, sampled_ip);
    let waiting = near.at(sampled_ip).filter(|(op, _)| skid == 0 || is_repeated(op)).map(|(_, step)| step);
    let direct = skid == 1
        && near.before(sampled_ip).is_some_and(|before| before.step.is_source())
        && !may_branch_to(bytes, start, sampled_ip);
    let code = if direct { near } else { Code::new(bytes, start, sampled_ip) };
    let is_whole = is_whole && (direct || code.is_complete);
    let is_all_seen = is_whole && !direct;
    let search = match waiting {
        Some(step) => Search::at(&step, &code, is_all_seen, sampled_ip),
        None => Search::behind(skid, &code, is_all_seen, sampled_ip),
    };
    let (mut plan, ends) = (Plan { is_whole, ..Plan::NONE }, search.run());
    for enters in [false, true] {
        for end in ends.all().iter().filter(|end| end.enters() == enters) {
            if plan.add(end, &code, sampled_ip).is_none() {
                return Plan::NONE;
            }
        }
    }
    plan
}

/// The whole function is looked at, up to this size.
const WHOLE_FUNCTION_BYTES: u64 = 1536;
/// Of larger ones, and of code whose functions are not known, this much on each side: about 5 µs of decoding, and still
/// almost every loop.
const SIDE_BYTES: u64 = 512;

/// The code that [`plan`] should be given for a sample at `ip`: from where to where, and whether that is the whole function.
/// `function` is where the function of `ip` begins and ends, if that is known.
pub fn code_window(ip: u64, function: Option<(u64, u64)>) -> (u64, u64, bool) {
    let around = (ip.saturating_sub(SIDE_BYTES) & !15, ip.saturating_add(SIDE_BYTES));
    match function {
        Some((start, end)) if end - start <= WHOLE_FUNCTION_BYTES => (start, end, true),
        Some((start, end)) => (start.max(around.0), end.min(around.1), false),
        None => (around.0, around.1, false),
    }
}

fn is_repeated(op: &Op) -> bool {
    matches!(op.work, Work::Text(_, repeat) if repeat != Repeat::Once)
}

#[cfg(test)]
mod tests {
    use std::boxed::Box;

    use super::*;
    use crate::state::{RAX, RCX, RDI, RSI, RSP};

    const START: u64 = 0x1000;

    #[test]
    fn small_functions_are_seen_whole_and_large_ones_around_the_sample() {
        assert_eq!(code_window(0x1100, Some((0x1000, 0x1200))), (0x1000, 0x1200, true));
        assert_eq!(code_window(0x10_0123, Some((0x0f_0000, 0x20_0000))), (0x0f_ff20, 0x10_0323, false));
        assert_eq!(code_window(0x0f_0010, Some((0x0f_0000, 0x20_0000))), (0x0f_0000, 0x0f_0210, false));
        assert_eq!(code_window(0x10_0123, None), (0x0f_ff20, 0x10_0323, false));
    }

    fn plan_of(code: &[u8], sampled: u64, skid: u8) -> Plan {
        plan(CodeAround { bytes: code, start: START, is_whole: true }, START + sampled, skid)
    }

    /// The code, and zeros elsewhere.
    struct Around<'a>(&'a [u8]);

    impl Memory for Around<'_> {
        fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
            for (byte, at) in into.iter_mut().zip(address..) {
                let offset = at.checked_sub(START).and_then(|offset| usize::try_from(offset).ok());
                *byte = offset.and_then(|offset| self.0.get(offset)).copied().unwrap_or(0);
            }
            true
        }
    }

    #[track_caller]
    fn check(
        code: &[u8],
        sampled: u64,
        skid: u8,
        blamed: Option<u64>,
        state: &State,
        expected: (Option<u64>, Quality),
    ) {
        let mut sampled_state = state.clone();
        sampled_state.rip = START + sampled;
        let mut emulator = Box::new(Emulator::<16>::new());
        let found = plan_of(code, sampled, skid).locate(&sampled_state, &mut emulator, &mut Around(code));
        assert_eq!(found.ip, blamed.map(|ip| START + ip));
        assert_eq!((found.address, found.quality), expected);
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
    fn a_sample_at_the_head_of_a_loop_comes_from_the_loop() {
        // 0: mov rax, [rdi]; 3: nop; 4: (head) inc rcx; 7: mov rdx, [rsi]; a: jne 4; c: ret
        let code = [0x48, 0x8b, 0x07, 0x90, 0x48, 0xff, 0xc1, 0x48, 0x8b, 0x16, 0x75, 0xf8, 0xc3];
        check(&code, 4, 1, Some(7), &state(&[(RSI, 0x200), (RDI, 1)]), (Some(0x200), Quality::Exact));
        // 0: mov rax, [rdi]; 3: (head) inc rcx; 6: mov rdx, [rsi]; 9: nop; a: jne 3: the load before is nearer.
        let code = [0x48, 0x8b, 0x07, 0x48, 0xff, 0xc1, 0x48, 0x8b, 0x16, 0x90, 0x75, 0xf7];
        check(&code, 3, 1, Some(6), &state(&[(RDI, 0x300), (RSI, 0x200)]), (Some(0x200), Quality::Exact));
    }

    #[test]
    fn what_the_loop_waits_for_wins_over_what_comes_before_it() {
        // 0: mov rax, [rdi]; 3: (head) inc rcx; 6: cmp rdx, [rsi]; 9: jne 3
        let code = [0x48, 0x8b, 0x07, 0x48, 0xff, 0xc1, 0x48, 0x3b, 0x16, 0x75, 0xf8];
        blames(&code, 3, 6);
        // With jmp 3 at 9, too.
        let code = [0x48, 0x8b, 0x07, 0x48, 0xff, 0xc1, 0x48, 0x3b, 0x16, 0xeb, 0xf8];
        blames(&code, 3, 6);
        // Without a way back the load before is all there is.
        blames(&code[..9], 3, 0);
    }

    /// 0: mov rax, [rdi+0x30]; 4: movsd xmm3, [rdi+0x28]; 9: (head) movapd xmm1, xmm3; d: movsd xmm2, [rax+0x10];
    /// 12: mulsd xmm1, xmm0; 16: addsd xmm2, xmm1; 1a: subsd xmm0, xmm1; 1e: movsd [rax+0x10], xmm2;
    /// 23: mov rax, [rax+0x18]; 27: test rax, rax; 2a: jne 9; 2c: ret
    const INVARIANT: [u8; 45] = [
        0x48, 0x8b, 0x47, 0x30, 0xf2, 0x0f, 0x10, 0x5f, 0x28, 0x66, 0x0f, 0x28, 0xcb, 0xf2, 0x0f, 0x10, 0x50, 0x10,
        0xf2, 0x0f, 0x59, 0xc8, 0xf2, 0x0f, 0x58, 0xd1, 0xf2, 0x0f, 0x5c, 0xc1, 0xf2, 0x0f, 0x11, 0x50, 0x10, 0x48,
        0x8b, 0x40, 0x18, 0x48, 0x85, 0xc0, 0x75, 0xdd, 0xc3,
    ];

    #[test]
    fn what_is_loaded_before_a_loop_is_not_blamed_in_it() {
        // The multiplication and the subtraction wait for those of the turn before.
        for sampled in [0x16, 0x1e] {
            blames_nothing(&INVARIANT, sampled);
        }
        // The addition waits for its load as well; the branch for the pointer, which is overwritten.
        check(&INVARIANT, 0x1a, 1, Some(0xd), &state(&[(RAX, 0x100)]), (Some(0x110), Quality::Exact));
        check(&INVARIANT, 9, 1, Some(0x23), &state(&[(RAX, 0x100)]), (None, Quality::Lost));
        // Of the last turn's branch, which was not taken.
        check(&INVARIANT, 0x2c, 1, Some(0x23), &state(&[(RAX, 0)]), (None, Quality::Lost));
    }

    #[test]
    fn a_chain_through_a_stack_slot_is_the_slot_s() {
        // 0: (head) movsd xmm0, [rsp+8]; 6: mulsd xmm0, xmm1; a: movsd [rsp+8], xmm0; 10: dec rax; 13: jne 0; 15: ret
        let code = [
            0xf2, 0x0f, 0x10, 0x44, 0x24, 0x08, 0xf2, 0x0f, 0x59, 0xc1, 0xf2, 0x0f, 0x11, 0x44, 0x24, 0x08, 0x48, 0xff,
            0xc8, 0x75, 0xeb, 0xc3,
        ];
        for sampled in [6, 0xa, 0x10] {
            assert!(blamed_by(&code, sampled, 1).is_some(), "{sampled:#x}");
        }
    }

    #[test]
    fn a_counter_is_not_what_a_loop_waits_for() {
        // 0: mov rcx, [rdi]; 3: (head) mov [rsi+rcx*8], rax; 7: inc rcx; a: cmp rcx, rdx; d: jne 3; f: ret
        let code = [0x48, 0x8b, 0x0f, 0x48, 0x89, 0x04, 0xce, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xd1, 0x75, 0xf4, 0xc3];
        check(&code, 3, 1, Some(3), &state(&[(RSI, 0x800), (RCX, 3)]), (Some(0x810), Quality::Inverted));
    }

    /// 0: cmp rdx, rcx; 3: jb b; 5: mov rax, [rdi]; 8: jmp e; a: ret; b: mov rbx, [rsi]; e: nop
    const TWO_WAYS: [u8; 15] =
        [0x48, 0x39, 0xca, 0x72, 0x06, 0x48, 0x8b, 0x07, 0xeb, 0x04, 0xc3, 0x48, 0x8b, 0x1e, 0x90];

    #[test]
    fn flags_tell_on_which_way_a_sample_came() {
        let registers = [(RDI, 0x100), (RSI, 0x200)];
        let mut at = state(&registers);
        check(&TWO_WAYS, 0xe, 1, None, &at, (None, Quality::Ambiguous));
        at.set_flags(0);
        check(&TWO_WAYS, 0xe, 1, Some(5), &at, (Some(0x100), Quality::Exact));
        at.set_flags(1);
        check(&TWO_WAYS, 0xe, 1, Some(0xb), &at, (Some(0x200), Quality::Exact));
        // With add rbx, [rsi] at b: these are not those of the way by 5, but 0 may be of either.
        let mut code = TWO_WAYS;
        code[0xc] = 0x03;
        check(&code, 0xe, 1, Some(0xb), &at, (Some(0x200), Quality::Exact));
        at.set_flags(0);
        check(&code, 0xe, 1, None, &at, (None, Quality::Ambiguous));
        // With jb at 3 they told that it was not taken: 0: cmp; 3: jb 9; 5: add rbx, [rsi]; 8: nop; 9: nop
        let code = [0x48, 0x39, 0xca, 0x72, 0x04, 0x48, 0x03, 0x1e, 0x90, 0x90];
        check(&code, 9, 1, Some(5), &at, (Some(0x200), Quality::Exact));
    }

    #[test]
    fn two_instructions_that_access_the_same_bytes_agree() {
        // 0: cmp rdx, rcx; 3: jb b; 5: mov rax, [rdi]; 8: jmp e; a: ret; b: cmp [rdi], rbx; e: nop
        let mut code = TWO_WAYS;
        code[0xb..0xe].copy_from_slice(&[0x48, 0x39, 0x1f]);
        check(&code, 0xe, 1, Some(0xb), &state(&[(RDI, 0x100)]), (Some(0x100), Quality::Exact));
        // Not if one of them stores: 48 89 1f: mov [rdi], rbx.
        code[0xc] = 0x89;
        check(&code, 0xe, 1, None, &state(&[(RDI, 0x100)]), (None, Quality::Ambiguous));
    }

    /// More ways than a plan keeps, all of which waited for one of two loads.
    #[test]
    fn of_many_ways_to_the_same_access_none_is_told() {
        // 0: (head) movapd xmm0, xmm3; 4: movsd xmm3, [rax+8]; 9: movapd xmm1, xmm2; d: movsd xmm2, [rax+16];
        // 12: subsd xmm0, xmm3; 16: subsd xmm1, xmm2; 1a: comisd xmm5, xmm0; 1e: jbe 28; 20: xorpd xmm0, [rip+…];
        // 28: comisd xmm5, xmm1; 2c: jbe 36; 2e: xorpd xmm1, [rip+…]; 36: addsd xmm0, xmm1; 3a: mov rax, [rax+40];
        // 3e: addsd xmm4, xmm0; 42: test rax, rax; 45: jne 0; 47: ret
        let code = [
            0x66, 0x0f, 0x28, 0xc3, 0xf2, 0x0f, 0x10, 0x58, 0x08, 0x66, 0x0f, 0x28, 0xca, 0xf2, 0x0f, 0x10, 0x50, 0x10,
            0xf2, 0x0f, 0x5c, 0xc3, 0xf2, 0x0f, 0x5c, 0xca, 0x66, 0x0f, 0x2f, 0xe8, 0x76, 0x08, 0x66, 0x0f, 0x57, 0x05,
            0x80, 0x0e, 0x00, 0x00, 0x66, 0x0f, 0x2f, 0xe9, 0x76, 0x08, 0x66, 0x0f, 0x57, 0x0d, 0x72, 0x0e, 0x00, 0x00,
            0xf2, 0x0f, 0x58, 0xc1, 0x48, 0x8b, 0x40, 0x28, 0xf2, 0x0f, 0x58, 0xe0, 0x48, 0x85, 0xc0, 0x75, 0xb9, 0xc3,
        ];
        let at = state(&[(RAX, 0x200)]);
        check(&code, 0x28, 1, Some(4), &at, (Some(0x208), Quality::Exact));
        check(&code, 0x36, 1, Some(0xd), &at, (Some(0x210), Quality::Exact));
        // The pointer has gone on.
        check(&code, 0x42, 1, Some(0xd), &at, (None, Quality::Lost));
    }

    #[test]
    fn ways_to_the_same_access_agree() {
        // 0: mov rax, [rdi]; 3: jb 6; 5: nop; 6: nop
        let code = [0x48, 0x8b, 0x07, 0x72, 0x01, 0x90, 0x90];
        check(&code, 6, 1, Some(0), &state(&[(RDI, 0x100)]), (Some(0x100), Quality::Exact));
        // With inc rdi at 5 the instruction is known, its address is not; unless the flags tell.
        let code = [0x48, 0x8b, 0x07, 0x72, 0x03, 0x48, 0xff, 0xc7, 0x90];
        let mut at = state(&[(RDI, 0x100)]);
        check(&code, 8, 1, Some(0), &at, (None, Quality::Lost));
        at.set_flags(0);
        check(&code, 8, 1, Some(0), &at, (Some(0xff), Quality::Inverted));
    }

    #[test]
    fn a_loop_that_computes_waits_for_nothing_before_it() {
        // 0: mov rax, [rdi]; 3: (head) mov rdx, rax; 6: shl rdx, 13; a: xor rax, rdx; d: dec ecx; f: jne 3; 11: nop
        let code = [
            0x48, 0x8b, 0x07, 0x48, 0x89, 0xc2, 0x48, 0xc1, 0xe2, 0x0d, 0x48, 0x31, 0xd0, 0xff, 0xc9, 0x75, 0xf2, 0x90,
        ];
        for sampled in [3, 6, 0xa, 0xd, 0xf] {
            assert_eq!(blamed_by(&code, sampled, 1), None, "{sampled:#x}");
        }
        // Without the way back it does.
        blames(&code[..0xf], 0xd, 0);
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

    /// What a sample at `sampled` blames whatever the state is.
    fn blamed_by(code: &[u8], sampled: u64, skid: u8) -> Option<u64> {
        plan_of(code, sampled, skid).instruction().map(|(ip, ..)| ip - START)
    }

    /// What a sample at `sampled` with a skid of 1 blames.
    #[track_caller]
    fn blames(code: &[u8], sampled: u64, blamed: u64) {
        assert_eq!(blamed_by(code, sampled, 1), Some(blamed));
    }

    #[test]
    fn constant_operand_after_the_load_waits_for_the_load() {
        // 0: movsd xmm0, [rdi]; 4: mulsd xmm0, [rip+0x100]; c: nop
        let code = [0xf2, 0x0f, 0x10, 0x07, 0xf2, 0x0f, 0x59, 0x05, 0x00, 0x01, 0x00, 0x00, 0x90];
        check(&code, 12, 1, Some(0), &state(&[(RDI, 0x300)]), (Some(0x300), Quality::Exact));
        // Sampled without skid: the multiplication itself waits.
        check(&code, 4, 0, Some(0), &state(&[(RDI, 0x300)]), (Some(0x300), Quality::Exact));
    }

    #[test]
    fn of_two_loads_that_feed_an_addition_the_nearest_strong_one_is_blamed() {
        // 0: movsd xmm0, [rdi]; 4: movsd xmm1, [rsi]; 8: movsd xmm2, [rdx]; c: addsd xmm0, xmm1; 10: nop
        let code =
            [0xf2, 0x0f, 0x10, 0x07, 0xf2, 0x0f, 0x10, 0x0e, 0xf2, 0x0f, 0x10, 0x12, 0xf2, 0x0f, 0x58, 0xc1, 0x90];
        blames(&code, 0x10, 4);
        // 0: movsd xmm0, [rdi]; 4: movsd xmm1, [rsp+8]; a: addsd xmm0, xmm1; e: nop
        let code = [0xf2, 0x0f, 0x10, 0x07, 0xf2, 0x0f, 0x10, 0x4c, 0x24, 0x08, 0xf2, 0x0f, 0x58, 0xc1, 0x90];
        blames(&code, 0xe, 0);
    }

    #[test]
    fn dependence_goes_through_moves_and_conversions() {
        // 0: mov eax, [rdi+4]; 3: mov ecx, eax; 5: mov rdx, [rsi]; 8: pxor xmm0, xmm0; c: cvtsi2sd xmm0, ecx;
        // 10: mulsd xmm0, [rip+0x100]; 18: nop
        let code = [
            0x8b, 0x47, 0x04, 0x89, 0xc1, 0x48, 0x8b, 0x16, 0x66, 0x0f, 0xef, 0xc0, 0xf2, 0x0f, 0x2a, 0xc1, 0xf2, 0x0f,
            0x59, 0x05, 0x00, 0x01, 0x00, 0x00, 0x90,
        ];
        blames(&code, 0x18, 0);
        // After the conversion too, and after the move.
        blames(&code, 0x10, 0);
        blames(&code, 5, 0);
    }

    #[test]
    fn without_dependence_the_nearest_memory_instruction_is_blamed() {
        // 0: movsd xmm0, [rdi]; 4: pxor xmm0, xmm0; 8: addsd xmm0, [rip+0x100]; 10: lea rax, [rcx]; 13: nop
        let code = [
            0xf2, 0x0f, 0x10, 0x07, 0x66, 0x0f, 0xef, 0xc0, 0xf2, 0x0f, 0x58, 0x05, 0x00, 0x01, 0x00, 0x00, 0x48, 0x8d,
            0x01, 0x90,
        ];
        // The zeroed register does not wait: a global keeps what it costs.
        check(&code, 0x10, 1, Some(8), &state(&[]), (Some(START + 0x110), Quality::Exact));
        blames(&code, 0x13, 8);
        // Here nothing lies between.
        blames(&code, 8, 0);
    }

    #[test]
    fn dependence_goes_over_the_back_edge_of_a_loop() {
        // 0: (head) andpd xmm0, [rip+0x100]; 8: addsd xmm4, xmm0; c: movsd xmm0, [rdi]; 10: mov rax, [rsi]; 13: jne 0;
        // 15: ret
        let code = [
            0x66, 0x0f, 0x54, 0x05, 0x00, 0x01, 0x00, 0x00, 0xf2, 0x0f, 0x58, 0xe0, 0xf2, 0x0f, 0x10, 0x07, 0x48, 0x8b,
            0x06, 0x75, 0xeb, 0xc3,
        ];
        check(&code, 8, 1, Some(0xc), &state(&[(RDI, 0x300)]), (Some(0x300), Quality::Exact));
        blames(&code, 0xc, 0xc);
        // Nothing decided the branch within sight.
        blames(&code, 0, 0x10);
    }

    #[test]
    fn a_branch_waits_for_what_decides_it() {
        // 0: movsd xmm0, [rdi]; 4: mov rax, [rsi]; 7: comisd xmm5, xmm0; b: jbe 15; d: xorpd xmm0, [rip+0x100]; 15: nop
        let code = [
            0xf2, 0x0f, 0x10, 0x07, 0x48, 0x8b, 0x06, 0x66, 0x0f, 0x2f, 0xe8, 0x76, 0x08, 0x66, 0x0f, 0x57, 0x05, 0x00,
            0x01, 0x00, 0x00, 0x90,
        ];
        blames(&code, 0xd, 0);
        blames(&code, 0x15, 0);
    }

    #[test]
    fn a_spilled_register_waits_for_its_load() {
        // 0: mov rax, [rdi]; 3: mov [rsp+8], rax; 8: mov rcx, [rsi]; b: add rdx, [rsp+8]; 10: nop
        let code =
            [0x48, 0x8b, 0x07, 0x48, 0x89, 0x44, 0x24, 0x08, 0x48, 0x8b, 0x0e, 0x48, 0x03, 0x54, 0x24, 0x08, 0x90];
        blames(&code, 0x10, 0);
        blames(&code, 8, 0);
        // The same with push rbx at b: [rsp+8] is another slot then.
        let code = [
            0x48, 0x8b, 0x07, 0x48, 0x89, 0x44, 0x24, 0x08, 0x48, 0x8b, 0x0e, 0x53, 0x48, 0x03, 0x54, 0x24, 0x08, 0x90,
        ];
        blames(&code, 0x11, 0xc);
    }

    #[test]
    fn strength_of_operands() {
        // 0: mov rax, [rdi]; 3: add rax, [rbp-8]; 7: nop; then with [rbp+8] and [rsp+rcx*8]
        blames(&[0x48, 0x8b, 0x07, 0x48, 0x03, 0x45, 0xf8, 0x90], 7, 0);
        blames(&[0x48, 0x8b, 0x07, 0x48, 0x03, 0x45, 0x08, 0x90], 7, 3);
        blames(&[0x48, 0x8b, 0x07, 0x48, 0x03, 0x04, 0xcc, 0x90], 7, 3);
        // 0: mov rax, [rdi]; 3: mov [rip+0x100], rax; a: nop; then with add: a variable that is written
        blames(&[0x48, 0x8b, 0x07, 0x48, 0x89, 0x05, 0x00, 0x01, 0x00, 0x00, 0x90], 0xa, 3);
        blames(&[0x48, 0x8b, 0x07, 0x48, 0x01, 0x05, 0x00, 0x01, 0x00, 0x00, 0x90], 0xa, 3);
        // 0: mov rax, [rdi]; 3: add rax, [rip+0x100]; a: nop; then with lock xadd to memory
        blames(&[0x48, 0x8b, 0x07, 0x48, 0x03, 0x05, 0x00, 0x01, 0x00, 0x00, 0x90], 0xa, 0);
        blames(&[0x48, 0x8b, 0x07, 0xf0, 0x48, 0x0f, 0xc1, 0x05, 0x00, 0x01, 0x00, 0x00, 0x90], 0xc, 3);
        // 0: mov rax, [rdi]; 3: call [rax+0x18]: sampled without skid, it waits for the object, not the vtable.
        assert_eq!(blamed_by(&[0x48, 0x8b, 0x07, 0xff, 0x50, 0x18], 3, 0), Some(0));
    }

    #[test]
    fn a_call_ends_the_walk() {
        // 0: mov rbx, [rdi]; 3: call 8; 8: add rax, rbx; b: nop
        blames_nothing(&[0x48, 0x8b, 0x1f, 0xe8, 0x00, 0x00, 0x00, 0x00, 0x48, 0x01, 0xd8, 0x90], 0xb);
    }

    /// A sample at `sampled` with a skid of 1 blames no access.
    #[track_caller]
    fn blames_nothing(code: &[u8], sampled: u64) {
        check(code, sampled, 1, None, &state(&[(RDI, 0x300)]), (None, Quality::NoMemoryInstruction));
    }

    #[test]
    fn a_slow_instruction_takes_its_time_itself() {
        // 0: movsd xmm0, [rdi]; 4: divsd xmm1, xmm0; 8: nop
        let code = [0xf2, 0x0f, 0x10, 0x07, 0xf2, 0x0f, 0x5e, 0xc8, 0x90];
        blames_nothing(&code, 8);
        // The load stalled, and then the division without skid.
        blames(&code, 4, 0);
        check(&code, 4, 0, None, &state(&[(RDI, 0x300)]), (None, Quality::NoMemoryInstruction));
        let slow: [(&str, &[u8]); 18] = [
            ("div ecx", &[0xf7, 0xf1]),
            ("idiv rcx", &[0x48, 0xf7, 0xf9]),
            ("div cl", &[0xf6, 0xf1]),
            ("div dword ptr [rsp+8]", &[0xf7, 0x74, 0x24, 0x08]),
            ("divss xmm1, xmm2", &[0xf3, 0x0f, 0x5e, 0xca]),
            ("divps xmm1, xmm2", &[0x0f, 0x5e, 0xca]),
            ("divsd xmm0, [rip+0x100]", &[0xf2, 0x0f, 0x5e, 0x05, 0x00, 0x01, 0x00, 0x00]),
            ("sqrtsd xmm1, xmm2", &[0xf2, 0x0f, 0x51, 0xca]),
            ("vdivpd ymm1, ymm2, ymm3", &[0xc5, 0xed, 0x5e, 0xcb]),
            ("vsqrtps zmm1, zmm2", &[0x62, 0xf1, 0x7c, 0x48, 0x51, 0xca]),
            ("fdivp st(1), st", &[0xde, 0xf9]),
            ("fsin", &[0xd9, 0xfe]),
            ("cpuid", &[0x0f, 0xa2]),
            ("rdtsc", &[0x0f, 0x31]),
            ("pause", &[0xf3, 0x90]),
            ("lfence", &[0x0f, 0xae, 0xe8]),
            ("rdrand ecx", &[0x0f, 0xc7, 0xf1]),
            ("xgetbv", &[0x0f, 0x01, 0xd0]),
        ];
        for (text, bytes) in slow {
            let code = [&[0x48, 0x8b, 0x07], bytes, &[0x90]].concat();
            assert_eq!(blamed_by(&code, code.len() as u64 - 1, 1), None, "mov rax, [rdi]; {text}");
        }
        // A strong operand may have been waited for; what is short or waits for stores leaves the load before to blame.
        let others: [(&str, &[u8], u64); 6] = [
            ("div dword ptr [rsi]", &[0xf7, 0x36], 3),
            ("fdiv qword ptr [rsi]", &[0xdc, 0x36], 3),
            ("vdivsd xmm1, xmm2, [rsi]", &[0xc5, 0xeb, 0x5e, 0x0e], 3),
            ("imul ecx, ecx", &[0x0f, 0xaf, 0xc9], 0),
            ("mulsd xmm1, xmm2", &[0xf2, 0x0f, 0x59, 0xca], 0),
            ("mfence", &[0x0f, 0xae, 0xf0], 0),
        ];
        for (text, bytes, blamed) in others {
            let code = [&[0x48, 0x8b, 0x07], bytes, &[0x90]].concat();
            assert_eq!(blamed_by(&code, code.len() as u64 - 1, 1), Some(blamed), "{text}");
        }
    }

    #[test]
    fn of_a_load_and_a_slow_instruction_the_nearer_one_that_feeds_the_waiting_one_counts() {
        const LOAD: [u8; 4] = [0xf2, 0x0f, 0x10, 0x17]; // movsd xmm2, [rdi]
        const DIVIDE: [u8; 4] = [0xf2, 0x0f, 0x5e, 0xc1]; // divsd xmm0, xmm1
        const ADD_BOTH: [u8; 4] = [0xf2, 0x0f, 0x58, 0xc2]; // addsd xmm0, xmm2
        const ADD_LOADED: [u8; 4] = [0xf2, 0x0f, 0x58, 0xda]; // addsd xmm3, xmm2
        const ADDRESS: [u8; 4] = [0x48, 0x8d, 0x4e, 0x00]; // lea rcx, [rsi+0]
        let code = |instructions: [[u8; 4]; 3]| [&instructions.concat()[..], &[0x90]].concat();
        blames_nothing(&code([LOAD, DIVIDE, ADD_BOTH]), 12);
        blames(&code([DIVIDE, LOAD, ADD_BOTH]), 12, 4);
        // The division lies nearer, but nothing waits for it.
        blames(&code([LOAD, DIVIDE, ADD_LOADED]), 12, 0);
        // Where nothing feeds the waiting instruction the nearer one is the better guess.
        blames_nothing(&code([LOAD, DIVIDE, ADDRESS]), 12);
        blames(&code([DIVIDE, LOAD, ADDRESS]), 12, 4);
    }

    #[test]
    fn a_branch_that_a_division_decides_waits_for_it() {
        // 0: mov eax, [rdi]; 2: div ecx; 4: test edx, edx; 6: jne 8; 8: nop
        blames_nothing(&[0x8b, 0x07, 0xf7, 0xf1, 0x85, 0xd2, 0x75, 0x00, 0x90], 8);
    }

    #[test]
    fn of_a_loop_that_divides_only_the_load_is_the_data_s() {
        // 0: (head) mulsd xmm0, xmm4; 4: movapd xmm2, xmm1; 8: add rdi, 64; c: addsd xmm0, [rdi-64];
        // 11: divsd xmm2, xmm0; 15: movapd xmm0, xmm1; 19: divsd xmm0, xmm2; 1d: movapd xmm2, xmm1; 21: addsd xmm0, xmm3;
        // 25: divsd xmm2, xmm0; 29: cmp rax, rdi; 2c: jne 0; 2e: ret
        let code = [
            0xf2, 0x0f, 0x59, 0xc4, 0x66, 0x0f, 0x28, 0xd1, 0x48, 0x83, 0xc7, 0x40, 0xf2, 0x0f, 0x58, 0x47, 0xc0, 0xf2,
            0x0f, 0x5e, 0xd0, 0x66, 0x0f, 0x28, 0xc1, 0xf2, 0x0f, 0x5e, 0xc2, 0x66, 0x0f, 0x28, 0xd1, 0xf2, 0x0f, 0x58,
            0xc3, 0xf2, 0x0f, 0x5e, 0xd0, 0x48, 0x39, 0xf8, 0x75, 0xd2, 0xc3,
        ];
        check(&code, 0x11, 1, Some(0xc), &state(&[(RDI, 0x340)]), (Some(0x300), Quality::Exact));
        // The last: at the head, where it comes round from the division before the branch.
        for sampled in [0x15, 0x19, 0x1d, 0x21, 0x25, 0x29, 0] {
            blames_nothing(&code, sampled);
        }
    }
}
