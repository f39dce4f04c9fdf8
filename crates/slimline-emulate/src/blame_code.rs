//! The code around a sampled instruction: where instructions begin, and which can run directly before which.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use crate::blame_flow::Step;
use crate::blame_loop::Loop;
use crate::lower::{MAX_INSTRUCTION_BYTES, lower};
use crate::op::{Op, Work};
use crate::undo::{direct_target, falls_through};

/// Most code that is looked at, half of it before the sampled instruction: larger than almost every loop.
const MAX_CODE_BYTES: usize = 2048;
/// Direct branches that are remembered; one in five to ten instructions is one.
const MAX_BRANCHES: usize = 256;
/// Branches to one place that are followed.
const MAX_BRANCHES_TO_ONE: usize = 8;

/// A bit for each byte of the code.
pub(crate) type Bytes = [u64; MAX_CODE_BYTES / 64];

/// An instruction that can run directly before another.
#[derive(Clone, Copy)]
pub(crate) struct Predecessor {
    pub(crate) ip: u64,
    pub(crate) step: Step,
    /// The condition, by number, that decides whether it leads there, and what it must be.
    pub(crate) condition: Option<(u8, bool)>,
}

/// Decoded code.
pub(crate) struct Code<'a> {
    bytes: &'a [u8],
    start: u64,
    /// Where instructions begin.
    begins: Bytes,
    /// Where instructions begin that the one behind them can follow.
    falls: Bytes,
    /// Where direct branches lead.
    targets: Bytes,
    /// Offsets (from, to) of direct branches, in the order of `from`.
    branches: [(u16, u16); MAX_BRANCHES],
    branch_count: usize,
    /// All bytes were looked at, all branches are remembered, and there is none whose target is not known.
    pub(crate) is_complete: bool,
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
            falls: [0; MAX_CODE_BYTES / 64],
            targets: [0; MAX_CODE_BYTES / 64],
            branches: [(0, 0); MAX_BRANCHES],
            branch_count: 0,
            is_complete: to - from == bytes.len(),
        };
        code.decode(middle - from);
        code
    }

    fn decode(&mut self, around: usize) {
        let mut instruction = Instruction::default();
        let mut offset = 0;
        while offset < self.bytes.len() {
            set(&mut self.begins, offset);
            let rest = &self.bytes[offset..self.bytes.len().min(offset + MAX_INSTRUCTION_BYTES)];
            let ip = self.start.wrapping_add(offset as u64);
            Decoder::with_ip(64, rest, ip, DecoderOptions::NONE).decode_out(&mut instruction);
            let direct = instruction.op0_kind() == OpKind::NearBranch64
                && matches!(
                    instruction.flow_control(),
                    FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
                );
            self.is_complete &= instruction.flow_control() != FlowControl::IndirectBranch;
            if direct && let Some(to) = self.offset(instruction.near_branch_target()) {
                match self.branches.get_mut(self.branch_count) {
                    Some(branch) => {
                        *branch = (offset as u16, to as u16);
                        self.branch_count += 1;
                    }
                    None => self.is_complete = false,
                }
                if to < self.bytes.len() {
                    set(&mut self.targets, to);
                }
            }
            let next = offset + instruction.len().max(1);
            // What began in the middle of an instruction is in step at the sampled one at the latest.
            let is_cut = offset < around && next > around;
            if !is_cut && falls_through(&lower(&instruction)) {
                set(&mut self.falls, offset);
            }
            offset = if is_cut { around } else { next };
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
        let begin = self.flow().fallen_from(offset)?;
        let at = self.start.wrapping_add(begin as u64);
        let (op, step) = self.at(at)?;
        (begin + usize::from(op.length) == offset).then_some(Predecessor {
            ip: at,
            step,
            condition: condition_of(&op).map(|number| (number, false)),
        })
    }

    /// Direct branches to `ip`, the last first.
    pub(crate) fn branches_to(&self, ip: u64) -> impl Iterator<Item = Predecessor> {
        let to = self.offset(ip);
        let branches = self.branches[..self.branch_count].iter().rev();
        let to_here = branches.filter(move |branch| Some(usize::from(branch.1)) == to).take(MAX_BRANCHES_TO_ONE);
        to_here.filter_map(move |&(from, _)| {
            let from = self.start.wrapping_add(u64::from(from));
            let (op, step) = self.at(from).filter(|(op, _)| direct_target(op) == Some(ip))?;
            Some(Predecessor { ip: from, step, condition: condition_of(&op).map(|number| (number, true)) })
        })
    }

    /// Whether one instruction alone can have led to the one at `ip`, as far as direct branches go.
    pub(crate) fn has_one_before(&self, ip: u64) -> bool {
        self.before(ip).into_iter().chain(self.branches_to(ip)).count() == 1
    }

    /// The innermost loop that the instruction at `ip` is in.
    pub(crate) fn innermost_loop(&self, ip: u64) -> Option<Loop> {
        let at = self.offset(ip).filter(|&at| at < self.bytes.len())?;
        Loop::innermost(&self.flow(), self.start, at)
    }

    fn flow(&self) -> Flow<'_> {
        let branches = &self.branches[..self.branch_count];
        Flow { begins: &self.begins, falls: &self.falls, targets: &self.targets, branches, bytes: self.bytes.len() }
    }
}

/// Which instructions can follow which, by offsets into the code.
pub(crate) struct Flow<'a> {
    begins: &'a Bytes,
    falls: &'a Bytes,
    targets: &'a Bytes,
    /// (from, to), in the order of `from`.
    pub(crate) branches: &'a [(u16, u16)],
    bytes: usize,
}

impl Flow<'_> {
    /// The instruction that begins next behind `offset`, within the code.
    pub(crate) fn next(&self, offset: usize) -> Option<usize> {
        first_from(self.begins, offset + 1).filter(|&next| next < self.bytes)
    }

    /// The instruction that falls through to the one at `offset`.
    pub(crate) fn fallen_from(&self, offset: usize) -> Option<usize> {
        let before = (offset.saturating_sub(MAX_INSTRUCTION_BYTES)..offset).rev().find(|&at| get(self.begins, at))?;
        get(self.falls, before).then_some(before)
    }

    /// Where the instruction at `offset` falls through to.
    pub(crate) fn falls_to(&self, offset: usize) -> Option<usize> {
        self.next(offset).filter(|_| get(self.falls, offset))
    }

    /// Where the direct branch at `offset` leads.
    pub(crate) fn branches_to(&self, offset: usize) -> Option<usize> {
        let at = self.branches.binary_search_by_key(&offset, |branch| branch.0.into()).ok()?;
        Some(self.branches[at].1.into())
    }

    /// Direct branches that lead to `offset`.
    pub(crate) fn branched_from(&self, offset: usize) -> impl Iterator<Item = usize> {
        let branches = if get(self.targets, offset) { self.branches } else { &[] };
        branches.iter().filter(move |branch| usize::from(branch.1) == offset).map(|branch| branch.0.into())
    }
}

fn condition_of(op: &Op) -> Option<u8> {
    match op.work {
        Work::JumpIf(number) => Some(number),
        _ => None,
    }
}

/// Whether the bit of this offset is set.
pub(crate) fn get(bytes: &Bytes, offset: usize) -> bool {
    bytes.get(offset / 64).is_some_and(|word| word >> (offset % 64) & 1 != 0)
}

/// Sets the bit of this offset; false where it was set.
pub(crate) fn set(bytes: &mut Bytes, offset: usize) -> bool {
    let Some(word) = bytes.get_mut(offset / 64) else { return false };
    let before = *word;
    *word |= 1 << (offset % 64);
    *word != before
}

/// The first bit that is set from `offset` on.
fn first_from(bytes: &Bytes, offset: usize) -> Option<usize> {
    let first = offset / 64;
    (first..bytes.len()).find_map(|at| {
        let word = if at == first { bytes[at] >> (offset % 64) << (offset % 64) } else { bytes[at] };
        (word != 0).then(|| at * 64 + word.trailing_zeros() as usize)
    })
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

    fn branches(code: &Code, offset: u64) -> Vec<(u64, Option<(u8, bool)>)> {
        code.branches_to(START + offset).map(|branch| (branch.ip - START, branch.condition)).collect()
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
        assert_eq!(branches(&code, 4), [(8, None), (6, Some((5, true))), (2, None), (0, Some((4, true)))]);
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
        assert_eq!(branches(&code, 4096 - 1024), [(4096 - 1024, None)]);
        assert_eq!(branches(&code, 4096 - 1026), []);
        // No more of them are kept.
        assert_eq!(branches(&code, 4096 - 1024 + 510), [(4096 - 1024 + 510, None)]);
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
