//! Which access a clock sample pays for.
//!
//! A timer interrupt is taken after the instruction that the core waited for retires, so a sample's
//! instruction pointer is one past it (the skid, which the caller calibrates). That instruction is the
//! *waiting* one. Policy, along control-flow predecessors and at most [`MAX_BACK`] back:
//!
//! 1. If the waiting instruction has a strong memory operand, it is blamed itself. If it is a *slow* one (a division, a
//!    square root, `cpuid`: see the module `blame_latency`) no access is blamed.
//! 2. Otherwise it waited for a result (everything before it had retired, though perhaps in the same
//!    cycle): the nearest load with a strong operand is blamed that its operands depend on, through
//!    registers, flags and stack slots. After a mispredicted branch this is the load that it was decided by. Where a slow
//!    instruction lies nearer on that way no access is blamed: its result came later than the load's.
//! 3. If there is none, the nearest memory instruction is blamed, be it weak, unless a slow one lies nearer.
//!
//! - A *weak* operand is nearly always in the nearest cache: a stack slot (`push`, `ret`, `[rsp+8]`,
//!   `[rbp-8]`), a load from an address without a general register (constants for `xorpd` or `mulsd`, but also
//!   scalar globals, which 3. leaves their due) and the pointer of an indirect call or jump. All else is
//!   strong, indexed and atomic operands always: see the module `blame_flow`.
//! - Predecessors are the instruction that falls through to a place and every direct branch to
//!   it within the code given. Indirect jumps and calls from elsewhere are not seen.
//! - Of several paths one that ends by 1. or 2. wins, then one over a back edge (a conditional branch at or
//!   after its target), because a sample at a loop's head comes from the loop, then the shortest. Where a path over a back
//!   edge comes to its end without any memory instruction, the loop computes: what lies before it is not blamed.
//! - A repeated string instruction at the sampled address itself is blamed whatever the skid: an
//!   interrupt in its middle leaves the pointer on it. Its address is then that of the next element.
//! - A call in between is a memory instruction (it stores the return address) and ends the walk: what
//!   the callee did is not known.
//!
//! Then the address is recovered by undoing what lies between. That of a masked access is of its first
//! element, active or not.
//!
//! When the address register is lost (`mov rdi, [rdi+8]`) the plan still names the instruction:
//! its next execution in a burst from the sample gives the next instance's address.

use crate::access::AccessKind;
use crate::blame_code::{Code, may_branch_to};
use crate::blame_search::Search;
use crate::lower::MAX_INSTRUCTION_BYTES;
use crate::op::{Op, Place, Repeat, Work};
use crate::state::{State, ZERO};
use crate::undo::{Inverse, memory_operand};

/// Farthest distance, in instructions, from the sampled one to the blamed one.
pub const MAX_BACK: usize = 12;
/// Code before the sampled instruction that is looked at first. Decoding from the middle falls into step within
/// a few instructions.
const NEAR_BYTES: usize = 96;

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
        for step in self.steps.iter().take(self.distance as usize) {
            step.apply(&mut registers);
        }
        self.place.address(&registers)
    }

    /// Address and how it was obtained.
    pub fn locate(&self, state: &State) -> (Option<u64>, Quality) {
        let address = self.address(state);
        let changed = self.steps.iter().take(self.distance as usize).fold(0, |all, step| all | step.changed());
        let quality = match address {
            _ if !self.found => Quality::NoMemoryInstruction,
            None => Quality::Lost,
            Some(_) if u32::from(changed) & self.place.needs == 0 => Quality::Exact,
            Some(_) => Quality::Inverted,
        };
        (address, quality)
    }
}

/// Finds what to blame for a sample at `sampled_ip`.
///
/// `code` holds the bytes from `code_start` and should cover the function of `sampled_ip` to its end; only
/// 2 KiB around the sampled instruction count. It is decoded from `function_start`, which costs the most, so
/// keep the plan. `skid` is the number of instructions that a sample is late: 1 blames the preceding
/// instruction or one before it, 0 the sampled one itself if it is a memory instruction. Of an instruction
/// that takes long by itself nothing is blamed.
///
/// At most 2048 instructions are decoded, then 1600 steps taken back. Where a strong memory instruction lies
/// directly before one that no branch leads to, it is less than 100 and a look at the bytes.
pub fn plan(code: &[u8], code_start: u64, function_start: u64, sampled_ip: u64, skid: u8) -> Plan {
    let offset_of = |ip: u64| ip.checked_sub(code_start).and_then(|offset| usize::try_from(offset).ok());
    let first = offset_of(function_start.max(code_start)).unwrap_or(usize::MAX);
    let (Some(code), Some(sampled)) = (code.get(first..), offset_of(sampled_ip)) else {
        return Plan::NONE;
    };
    let (start, Some(sampled)) = (code_start + first as u64, sampled.checked_sub(first)) else {
        return Plan::NONE;
    };
    if sampled > code.len() {
        return Plan::NONE;
    }
    let near = sampled.saturating_sub(NEAR_BYTES)..code.len().min(sampled + MAX_INSTRUCTION_BYTES);
    let near_start = start + near.start as u64;
    let near = Code::new(&code[near], near_start, sampled_ip);
    let search = match near.at(sampled_ip) {
        Some((op, step)) if skid == 0 || is_repeated(&op) => Search::at(&step),
        _ => Search::behind(skid),
    };
    let direct = skid == 1
        && near.before(sampled_ip).is_some_and(|before| before.step.is_source())
        && !may_branch_to(code, start, sampled_ip);
    let code = if direct { near } else { Code::new(code, start, sampled_ip) };
    search.run(&code, sampled_ip).and_then(|path| finish(path.ips(), &code, sampled_ip)).unwrap_or(Plan::NONE)
}

/// The whole function is looked at, up to this size.
const WHOLE_FUNCTION_BYTES: u64 = 1536;
/// Of larger ones, and of code whose functions are not known, this much on each side: about 5 µs of decoding, and still
/// almost every loop.
const SIDE_BYTES: u64 = 512;

/// The code that [`plan`] should be given for a sample at `ip`: from where to where. `function` is where the function of `ip`
/// begins and ends, if that is known.
pub fn code_window(ip: u64, function: Option<(u64, u64)>) -> (u64, u64) {
    let around = (ip.saturating_sub(SIDE_BYTES) & !15, ip.saturating_add(SIDE_BYTES));
    match function {
        Some((start, end)) if end - start <= WHOLE_FUNCTION_BYTES => (start, end),
        Some((start, end)) => (start.max(around.0), end.min(around.1)),
        None => around,
    }
}

fn is_repeated(op: &Op) -> bool {
    matches!(op.work, Work::Text(_, repeat) if repeat != Repeat::Once)
}

fn finish(path: &[u64], code: &Code, sampled_ip: u64) -> Option<Plan> {
    let ip = path.last().copied().unwrap_or(sampled_ip);
    let (place, bytes, kind) = memory_operand(&code.at(ip)?.0)?;
    let distance = path.len() as u8;
    let mut plan = Plan { ip, place, bytes, kind, found: true, distance, ..Plan::NONE };
    for (step, &ip) in plan.steps.iter_mut().zip(path) {
        *step = Inverse::of(&code.at(ip)?.0);
    }
    Some(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{RDI, RSP};

    const START: u64 = 0x1000;

    #[test]
    fn small_functions_are_seen_whole_and_large_ones_around_the_sample() {
        assert_eq!(code_window(0x1100, Some((0x1000, 0x1200))), (0x1000, 0x1200));
        assert_eq!(code_window(0x10_0123, Some((0x0f_0000, 0x20_0000))), (0x0f_ff20, 0x10_0323));
        assert_eq!(code_window(0x0f_0010, Some((0x0f_0000, 0x20_0000))), (0x0f_0000, 0x0f_0210));
        assert_eq!(code_window(0x10_0123, None), (0x0f_ff20, 0x10_0323));
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
    fn what_the_loop_waits_for_wins_over_what_comes_before_it() {
        // 0: mov rax, [rdi]; 3: (head) inc rcx; 6: cmp rdx, [rsi]; 9: jne 3
        let code = [0x48, 0x8b, 0x07, 0x48, 0xff, 0xc1, 0x48, 0x3b, 0x16, 0x75, 0xf8];
        blames(&code, 3, 6);
        // With jmp 3 at 9 it is no loop's end but, as far as one can tell, an unlikely block's.
        let code = [0x48, 0x8b, 0x07, 0x48, 0xff, 0xc1, 0x48, 0x3b, 0x16, 0xeb, 0xf8];
        blames(&code, 3, 0);
        // Without a way back the load before is all there is.
        blames(&code[..9], 3, 0);
    }

    #[test]
    fn a_loop_that_computes_waits_for_nothing_before_it() {
        // 0: mov rax, [rdi]; 3: (head) mov rdx, rax; 6: shl rdx, 13; a: xor rax, rdx; d: dec ecx; f: jne 3; 11: nop
        let code = [
            0x48, 0x8b, 0x07, 0x48, 0x89, 0xc2, 0x48, 0xc1, 0xe2, 0x0d, 0x48, 0x31, 0xd0, 0xff, 0xc9, 0x75, 0xf2, 0x90,
        ];
        for sampled in [3, 6, 0xa, 0xd, 0xf] {
            let plan = plan(&code, START, START, START + sampled, 1);
            assert_eq!(plan.blamed_ip(), None, "{sampled:#x}");
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

    /// What a sample at `sampled` with a skid of 1 blames.
    #[track_caller]
    fn blames(code: &[u8], sampled: u64, blamed: u64) {
        assert_eq!(plan(code, START, START, START + sampled, 1).blamed_ip(), Some(START + blamed));
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
        assert_eq!(plan(&[0x48, 0x8b, 0x07, 0xff, 0x50, 0x18], START, START, START + 3, 0).blamed_ip(), Some(START));
    }

    #[test]
    fn a_call_ends_the_walk() {
        // 0: mov rbx, [rdi]; 3: call 8; 8: add rax, rbx; b: nop
        blames(&[0x48, 0x8b, 0x1f, 0xe8, 0x00, 0x00, 0x00, 0x00, 0x48, 0x01, 0xd8, 0x90], 0xb, 3);
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
            let sampled = START + code.len() as u64 - 1;
            assert_eq!(plan(&code, START, START, sampled, 1).blamed_ip(), None, "mov rax, [rdi]; {text}");
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
            let sampled = START + code.len() as u64 - 1;
            assert_eq!(plan(&code, START, START, sampled, 1).blamed_ip(), Some(START + blamed), "{text}");
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

    use crate::state::RSI;
}
