//! The code around a sampled instruction: where instructions begin, and which can run directly before which.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use crate::blame_flow::Step;
use crate::lower::{MAX_INSTRUCTION_BYTES, lower};
use crate::op::Op;
use crate::undo::{direct_target, falls_through};

/// Most code that is looked at, half of it before the sampled instruction: larger than almost every loop.
const MAX_CODE_BYTES: usize = 2048;
/// Direct branches that are remembered; one in five to ten instructions is one.
const MAX_BRANCHES: usize = 256;
/// Branches to one place that are followed.
const MAX_BRANCHES_TO_ONE: usize = 8;

/// An instruction that can run directly before another.
#[derive(Clone, Copy)]
pub(crate) struct Predecessor {
    pub(crate) ip: u64,
    pub(crate) step: Step,
    /// By a conditional branch backwards, as at the end of a loop. (Compilers put unlikely blocks at the end of
    /// a function, from where unconditional jumps lead back.)
    pub(crate) back_edge: bool,
}

/// Decoded code.
pub(crate) struct Code<'a> {
    bytes: &'a [u8],
    start: u64,
    /// A bit for each byte where an instruction begins.
    begins: [u64; MAX_CODE_BYTES / 64],
    /// Offsets (from, to) of direct branches.
    branches: [(u16, u16); MAX_BRANCHES],
    branch_count: usize,
}

impl<'a> Code<'a> {
    /// Decodes `bytes`, located at `start`, or what of them is nearest to `around`.
    pub(crate) fn new(bytes: &'a [u8], start: u64, around: u64) -> Code<'a> {
        let middle = usize::try_from(around.saturating_sub(start)).unwrap_or(0).min(bytes.len());
        let from = middle.saturating_sub(MAX_CODE_BYTES / 2);
        let to = bytes.len().min(from + MAX_CODE_BYTES);
        let mut code = Code {
            bytes: &bytes[from..to],
            start: start.wrapping_add(from as u64),
            begins: [0; MAX_CODE_BYTES / 64],
            branches: [(0, 0); MAX_BRANCHES],
            branch_count: 0,
        };
        code.decode(middle - from);
        code
    }

    fn decode(&mut self, around: usize) {
        let mut instruction = Instruction::default();
        let mut offset = 0;
        while offset < self.bytes.len() {
            self.begins[offset / 64] |= 1 << (offset % 64);
            let rest = &self.bytes[offset..self.bytes.len().min(offset + MAX_INSTRUCTION_BYTES)];
            let ip = self.start.wrapping_add(offset as u64);
            Decoder::with_ip(64, rest, ip, DecoderOptions::NONE).decode_out(&mut instruction);
            let direct = instruction.op0_kind() == OpKind::NearBranch64
                && matches!(
                    instruction.flow_control(),
                    FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
                );
            if direct
                && let Some(to) = self.offset(instruction.near_branch_target())
                && let Some(branch) = self.branches.get_mut(self.branch_count)
            {
                *branch = (offset as u16, to as u16);
                self.branch_count += 1;
            }
            let next = offset + instruction.len().max(1);
            // What began in the middle of an instruction is in step at the sampled one at the latest.
            offset = if offset < around && next > around { around } else { next };
        }
    }

    /// Offset of a place in the code or directly behind it.
    fn offset(&self, ip: u64) -> Option<usize> {
        usize::try_from(ip.checked_sub(self.start)?).ok().filter(|&offset| offset <= self.bytes.len())
    }

    /// The instruction at `ip`, and what the search needs of it.
    pub(crate) fn at(&self, ip: u64) -> Option<(Op, Step)> {
        let rest = self.bytes.get(self.offset(ip)?..).filter(|rest| !rest.is_empty())?;
        let rest = &rest[..rest.len().min(MAX_INSTRUCTION_BYTES)];
        let mut instruction = Instruction::default();
        Decoder::with_ip(64, rest, ip, DecoderOptions::NONE).decode_out(&mut instruction);
        let op = lower(&instruction);
        Some((op, Step::of(&instruction, &op)))
    }

    /// The instruction that falls through to `ip`.
    pub(crate) fn before(&self, ip: u64) -> Option<Predecessor> {
        let offset = self.offset(ip)?;
        let begins = |offset: &usize| self.begins[offset / 64] >> (offset % 64) & 1 != 0;
        let begin = (offset.saturating_sub(MAX_INSTRUCTION_BYTES)..offset).rev().find(begins)?;
        let at = self.start.wrapping_add(begin as u64);
        let (op, step) = self.at(at)?;
        (begin + usize::from(op.length) == offset && falls_through(&op)).then_some(Predecessor {
            ip: at,
            step,
            back_edge: false,
        })
    }

    /// Direct branches to `ip`, the last first: those that lead back.
    pub(crate) fn branches_to(&self, ip: u64) -> impl Iterator<Item = Predecessor> {
        let to = self.offset(ip);
        let branches = self.branches[..self.branch_count].iter().rev();
        let to_here = branches.filter(move |branch| Some(usize::from(branch.1)) == to).take(MAX_BRANCHES_TO_ONE);
        to_here.filter_map(move |&(from, _)| {
            let from = self.start.wrapping_add(u64::from(from));
            let (op, step) = self.at(from).filter(|(op, _)| direct_target(op) == Some(ip))?;
            Some(Predecessor { ip: from, step, back_edge: from >= ip && falls_through(&op) })
        })
    }
}

/// Whether bytes that could be a direct branch to `ip` lie anywhere in `code`, which needs no decoding to see.
pub(crate) fn may_branch_to(code: &[u8], start: u64, ip: u64) -> bool {
    let short = code.windows(2).enumerate().any(|(at, bytes)| {
        let to = start.wrapping_add(at as u64 + 2).wrapping_add(bytes[1] as i8 as u64);
        to == ip && matches!(bytes[0], 0x70..=0x7f | 0xe0..=0xe3 | 0xeb)
    });
    short
        || code.windows(5).enumerate().any(|(at, bytes)| {
            let distance = i32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
            let to = start.wrapping_add(at as u64 + 5).wrapping_add(distance as u64);
            to == ip && matches!(bytes[0], 0x80..=0x8f | 0xe9)
        })
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const START: u64 = 0x1000;

    fn before(code: &Code, offset: u64) -> Option<u64> {
        code.before(START + offset).map(|before| before.ip - START)
    }

    fn branches(code: &Code, offset: u64) -> Vec<(u64, bool)> {
        code.branches_to(START + offset).map(|branch| (branch.ip - START, branch.back_edge)).collect()
    }

    #[test]
    fn predecessors_fall_through_or_branch() {
        // 0: je 4; 2: jmp 4; 4: inc eax; 6: jne 4; 8: jmp 4; a: ret; b: nop
        let bytes = [0x74, 0x02, 0xeb, 0x00, 0xff, 0xc0, 0x75, 0xfc, 0xeb, 0xfa, 0xc3, 0x90];
        let code = Code::new(&bytes, START, START);
        let expected = [(0, None), (2, Some(0)), (4, None), (6, Some(4)), (8, Some(6)), (0xa, None), (0xb, None)];
        for (offset, fallen) in expected {
            assert_eq!(before(&code, offset), fallen, "{offset:#x}");
        }
        // Behind the code, in the middle of an instruction, and outside.
        assert_eq!([before(&code, 0xc), before(&code, 5), before(&code, 0x100)], [Some(0xb), None, None]);
        assert_eq!(branches(&code, 4), [(8, false), (6, true), (2, false), (0, false)]);
        assert_eq!(branches(&code, 6), []);
    }

    #[test]
    fn decoding_from_the_middle_is_in_step_at_the_sampled_instruction() {
        // 0: mov eax, 0x90909090; 5: nop; read from 1, or with the sampled instruction at 2
        let bytes = [0xb8, 0x90, 0x90, 0x90, 0x90, 0x90];
        assert_eq!(before(&Code::new(&bytes, START, START + 5), 5), Some(0));
        let code = Code::new(&bytes, START, START + 2);
        assert_eq!([before(&code, 2), before(&code, 3)], [None, Some(2)]);
    }

    #[test]
    fn of_long_code_what_is_around_counts() {
        // Branches to themselves.
        let bytes: Vec<u8> = [0xeb, 0xfe].repeat(4096);
        let code = Code::new(&bytes, START, START + 4096);
        assert_eq!(branches(&code, 4096 - 1024), [(4096 - 1024, false)]);
        assert_eq!(branches(&code, 4096 - 1026), []);
        // No more of them are kept.
        assert_eq!(branches(&code, 4096 - 1024 + 510), [(4096 - 1024 + 510, false)]);
        assert_eq!(branches(&code, 4096 - 1024 + 512), []);
    }

    /// Wherever decoding finds a branch, the look at the bytes must.
    #[test]
    fn no_branch_is_overlooked() {
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut found = 0;
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..64)
                .map(|_| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    // Many short branches.
                    if random >> 60 < 4 { 0x70 | (random >> 50) as u8 & 0xf } else { (random >> 40) as u8 }
                })
                .collect();
            let code = Code::new(&bytes, START, START);
            for to in (0..64).filter(|&to| !branches(&code, to).is_empty()) {
                assert!(may_branch_to(&bytes, START, START + to), "to {to} in {bytes:02x?}");
                found += 1;
            }
        }
        assert!(found > 1000, "{found}");
        // je, jmp and jrcxz to 0x10; jne to itself
        for (bytes, to) in [
            (&[0x0f, 0x84, 0x0a, 0, 0, 0][..], 0x10),
            (&[0xe9, 0x0b, 0, 0, 0], 0x10),
            (&[0xe3, 0x0e], 0x10),
            (&[0x75, 0xfe], 0),
        ] {
            assert!(may_branch_to(bytes, START, START + to) && !may_branch_to(bytes, START, START + to + 1));
        }
        // call and mov reach nowhere.
        assert!(!may_branch_to(&[0xe8, 0x0b, 0, 0, 0], START, START + 0x10));
    }
}
