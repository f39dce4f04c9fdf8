//! A function's instructions as basic blocks, and the edges between them.
//!
//! The whole extent of the function is decoded in order: compilers for x86-64 keep data out of code, and a byte that
//! does not decode just ends a block. What leaves the function (tail calls, a jump into its `.cold` part) is an exit.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use rustc_hash::FxHashMap;
use slimline_trace::address::Svma;

use super::jump_table;
use super::no_return::NoReturn;
use crate::module::Module;

/// Longer functions are not decoded: generated code of this size has no loop that a person would know.
const MAX_CODE_BYTES: u64 = 4 << 20;

/// Consecutive instructions that run one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Index of the first instruction.
    pub first: usize,
    /// Index after the last.
    pub end: usize,
}

impl Block {
    /// Whether the instruction before `last` is in the block and is as asked for.
    fn contains_before(&self, last: usize, is_so: impl Fn(usize) -> bool) -> bool {
        last > self.first && is_so(last - 1)
    }
}

/// The control flow of one function.
pub struct Flow {
    /// Instructions in order of address.
    pub instructions: Vec<Instruction>,
    /// Blocks in order of address; the first is the entry.
    pub blocks: Vec<Block>,
    /// Blocks that may follow each. Numbers from [`Flow::blocks`]`.len()` on stand for no block but for a dispatch that
    /// several jumps share.
    pub successors: Vec<Vec<usize>>,
    /// Where the function can be entered: its start, and what is reached in a way that is not known (landing pads).
    pub roots: Vec<usize>,
}

impl Flow {
    /// The control flow of the code in `start..end` of a module; `None` where it can't be read or is too long.
    pub fn of_function(module: &Module<'_>, no_return: &NoReturn, start: Svma, end: Svma) -> Option<Self> {
        let bytes = end.0.checked_sub(start.0).filter(|&bytes| bytes <= MAX_CODE_BYTES)?;
        let image = module.image()?;
        let code = image.bytes_from(start);
        let instructions = decode(code.get(..bytes as usize).unwrap_or(code), start);
        let jumps: Vec<Vec<usize>> = instructions
            .iter()
            .enumerate()
            .map(|(index, instruction)| match instruction.flow_control() {
                FlowControl::IndirectBranch => jump_table::targets(image, &instructions, index),
                _ => Vec::new(),
            })
            .collect();
        Some(Self::build(instructions, &jumps, |target| no_return.is_so(module, target)))
    }

    /// Splits instructions into blocks. `jumps` holds the targets of indirect jumps, as indices of instructions;
    /// `never_returns` is asked about every call.
    fn build(
        instructions: Vec<Instruction>,
        jumps: &[Vec<usize>],
        never_returns: impl Fn(&Instruction) -> bool,
    ) -> Self {
        let count = instructions.len();
        let mut edges: Vec<Vec<usize>> = Vec::with_capacity(count);
        let mut ends = vec![false; count];
        for (index, instruction) in instructions.iter().enumerate() {
            let next = (index + 1 < count).then_some(index + 1);
            let target = || find(&instructions, instruction.near_branch_target());
            let (branches, falls_through) = match instruction.flow_control() {
                FlowControl::Next => (false, true),
                FlowControl::UnconditionalBranch | FlowControl::Return | FlowControl::IndirectBranch => (true, false),
                FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => (true, true),
                FlowControl::Call | FlowControl::IndirectCall => (false, !never_returns(instruction)),
                FlowControl::Interrupt => (false, instruction.code() == Code::Syscall),
                FlowControl::Exception => (false, false),
            };
            let mut to: Vec<usize> = Vec::new();
            if falls_through {
                to.extend(next);
            }
            if branches && instruction.op_count() > 0 && is_near_branch(instruction) {
                to.extend(target());
            }
            to.extend(&jumps[index]);
            ends[index] = branches || !falls_through;
            edges.push(to);
        }
        let mut leads = vec![false; count];
        if let Some(first) = leads.first_mut() {
            *first = true;
        }
        for index in 0..count {
            if ends[index] {
                if let Some(next) = leads.get_mut(index + 1) {
                    *next = true;
                }
                edges[index].iter().for_each(|&to| leads[to] = true);
            }
        }
        let firsts: Vec<usize> = (0..count).filter(|&index| leads[index]).collect();
        let blocks: Vec<Block> = firsts
            .iter()
            .enumerate()
            .map(|(block, &first)| Block { first, end: firsts.get(block + 1).copied().unwrap_or(count) })
            .collect();
        let block_of = |index: usize| firsts.partition_point(|&first| first <= index) - 1;
        let successors: Vec<Vec<usize>> = blocks
            .iter()
            .map(|block| {
                let mut to: Vec<usize> = edges[block.end - 1].iter().map(|&index| block_of(index)).collect();
                to.sort_unstable();
                to.dedup();
                to
            })
            .collect();
        let mut flow = Self { instructions, blocks, successors, roots: Vec::new() };
        flow.connect_unreached(jumps);
        flow.share_dispatches();
        flow
    }

    /// Blocks that no edge leads to are the cases of jumps whose targets could not be told, if there is such a jump;
    /// else they are entered from outside (landing pads of exceptions).
    fn connect_unreached(&mut self, jumps: &[Vec<usize>]) {
        if self.blocks.is_empty() {
            return;
        }
        let mut reached = vec![false; self.blocks.len()];
        for to in &self.successors {
            to.iter().for_each(|&block| reached[block] = true);
        }
        let is_padding = |block: &Block| {
            self.instructions[block.first..block.end].iter().all(|instruction| {
                matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) || instruction.is_invalid()
            })
        };
        let orphans: Vec<usize> =
            (1..self.blocks.len()).filter(|&block| !reached[block] && !is_padding(&self.blocks[block])).collect();
        let open: Vec<usize> = (0..self.blocks.len())
            .filter(|&block| {
                let last = self.blocks[block].end - 1;
                let instruction = &self.instructions[last];
                // A jump through a slot of the global offset table is a tail call, and so is one right after the frame
                // was taken down.
                instruction.flow_control() == FlowControl::IndirectBranch
                    && jumps[last].is_empty()
                    && !instruction.is_ip_rel_memory_operand()
                    && !self.blocks[block].contains_before(last, |before| ends_frame(&self.instructions[before]))
            })
            .collect();
        self.roots = vec![0];
        if open.is_empty() {
            self.roots.extend(orphans);
        } else {
            for &block in &open {
                self.successors[block].extend(&orphans);
            }
        }
    }

    /// Jumps with the same targets become one dispatch: compilers copy that of an interpreter's loop into every case,
    /// which would make a loop around a loop of each.
    fn share_dispatches(&mut self) {
        let mut by_targets: FxHashMap<Vec<usize>, Vec<usize>> = FxHashMap::default();
        for (block, targets) in self.successors.iter().enumerate() {
            let last = &self.instructions[self.blocks[block].end - 1];
            if last.flow_control() == FlowControl::IndirectBranch && targets.len() > 1 {
                by_targets.entry(targets.clone()).or_default().push(block);
            }
        }
        let mut shared: Vec<_> = by_targets.into_iter().filter(|(_, blocks)| blocks.len() > 1).collect();
        shared.sort_unstable();
        for (targets, blocks) in shared {
            let dispatch = self.successors.len();
            self.successors.push(targets);
            blocks.into_iter().for_each(|block| self.successors[block] = vec![dispatch]);
        }
    }

    /// The instructions of a block.
    pub fn instructions_of(&self, block: usize) -> &[Instruction] {
        let Block { first, end } = self.blocks[block];
        &self.instructions[first..end]
    }

    /// Address of a block's first instruction.
    pub fn address_of(&self, block: usize) -> Svma {
        Svma(self.instructions[self.blocks[block].first].ip())
    }
}

/// Every instruction of `code`, which lies at `start`.
pub(crate) fn decode(code: &[u8], start: Svma) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(64, code, start.0, DecoderOptions::NONE);
    // A mean instruction has four bytes.
    let mut instructions = Vec::with_capacity(code.len() / 4 + 1);
    while decoder.can_decode() {
        instructions.push(decoder.decode());
    }
    instructions
}

/// Index of the instruction at an address.
pub(super) fn find(instructions: &[Instruction], address: u64) -> Option<usize> {
    instructions.binary_search_by_key(&address, Instruction::ip).ok()
}

fn ends_frame(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Pop | Mnemonic::Leave => true,
        Mnemonic::Add | Mnemonic::Lea => instruction.op0_register() == Register::RSP,
        _ => false,
    }
}

fn is_near_branch(instruction: &Instruction) -> bool {
    matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks as address ranges with the addresses of their successors.
    fn blocks(code: &[u8], jumps: &[(u64, &[u64])], never_returns: &[u64]) -> Vec<(u64, Vec<u64>)> {
        let instructions = decode(code, Svma(0x1000));
        let jumps: Vec<Vec<usize>> = instructions
            .iter()
            .map(|instruction| {
                let known = jumps.iter().find(|(from, _)| *from == instruction.ip());
                known.map_or(Vec::new(), |(_, to)| to.iter().filter_map(|&to| find(&instructions, to)).collect())
            })
            .collect();
        let flow = Flow::build(instructions, &jumps, |call| never_returns.contains(&call.ip()));
        (0..flow.blocks.len())
            .map(|block| {
                let to = flow.successors[block].iter().map(|&to| flow.address_of(to).0).collect();
                (flow.address_of(block).0, to)
            })
            .collect()
    }

    #[test]
    fn counted_loop() {
        // 1000: xor eax,eax · 1002: add eax,[rdi] · 1004: add rdi,4 · 1008: dec esi · 100a: jne 1002 · 100c: ret
        let code = [0x31, 0xc0, 0x03, 0x07, 0x48, 0x83, 0xc7, 0x04, 0xff, 0xce, 0x75, 0xf6, 0xc3];
        assert_eq!(
            blocks(&code, &[], &[]),
            [(0x1000, vec![0x1002]), (0x1002, vec![0x1002, 0x100c]), (0x100c, vec![]),]
        );
    }

    #[test]
    fn calls_that_never_return_end_a_block() {
        // 1000: jne 1008 · 1002: call 2000 · 1007: nop · 1008: ret
        let code = [0x75, 0x06, 0xe8, 0xf9, 0x0f, 0x00, 0x00, 0x90, 0xc3];
        assert_eq!(blocks(&code, &[], &[]), [(0x1000, vec![0x1002, 0x1008]), (0x1002, vec![0x1008]), (0x1008, vec![])]);
        let ended = blocks(&code, &[], &[0x1002]);
        assert_eq!(ended[1], (0x1002, vec![]));
    }

    #[test]
    fn tail_calls_leave_the_function() {
        // 1000: jmp 2000
        assert_eq!(blocks(&[0xe9, 0xfb, 0x0f, 0x00, 0x00], &[], &[]), [(0x1000, vec![])]);
    }

    #[test]
    fn unknown_jumps_go_to_what_nothing_else_reaches() {
        // 1000: jmp rax · 1002: jmp 1000 · 1004: ret
        let code = [0xff, 0xe0, 0xeb, 0xfc, 0xc3];
        assert_eq!(blocks(&code, &[], &[]), [(0x1000, vec![0x1002, 0x1004]), (0x1002, vec![0x1000]), (0x1004, vec![])]);
        assert_eq!(blocks(&code, &[(0x1000, &[0x1004])], &[])[0], (0x1000, vec![0x1004]));
    }
}
