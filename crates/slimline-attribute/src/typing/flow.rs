//! A function's instructions as basic blocks.
//!
//! Targets of indirect jumps are not known; blocks that nothing else reaches are taken to be the cases of the
//! function's jump tables (or landing pads, if it has none).

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};

/// Consecutive instructions that run one after another.
#[derive(Debug)]
pub(super) struct Block {
    /// Index of the first instruction, and behind the last.
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) successors: Vec<usize>,
}

/// The decoded code of one address range.
pub(super) struct Flow {
    pub(super) instructions: Vec<Instruction>,
    /// In order of address; the first is the entry.
    pub(super) blocks: Vec<Block>,
}

impl Flow {
    /// Decodes `code`, which lies at the link-time address `begin`.
    pub(super) fn new(code: &[u8], begin: u64) -> Self {
        let mut decoder = Decoder::with_ip(64, code, begin, DecoderOptions::NONE);
        let mut instructions = Vec::new();
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if instruction.code() != Code::INVALID {
                instructions.push(instruction);
            }
        }
        let blocks = split(&instructions);
        Self { instructions, blocks }
    }

    /// Index of the instruction at an address.
    pub(super) fn at(&self, address: u64) -> Option<usize> {
        find(&self.instructions, address)
    }
}

fn find(instructions: &[Instruction], address: u64) -> Option<usize> {
    instructions.binary_search_by_key(&address, Instruction::ip).ok()
}

fn split(instructions: &[Instruction]) -> Vec<Block> {
    let mut leaders = vec![false; instructions.len()];
    if let Some(first) = leaders.first_mut() {
        *first = true;
    }
    for (index, instruction) in instructions.iter().enumerate() {
        let ends = match instruction.flow_control() {
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
                if let Some(target) = find(instructions, instruction.near_branch_target()) {
                    leaders[target] = true;
                }
                true
            }
            FlowControl::IndirectBranch | FlowControl::Return | FlowControl::Exception => true,
            FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall | FlowControl::Interrupt => false,
        };
        if ends && index + 1 < leaders.len() {
            leaders[index + 1] = true;
        }
    }
    let starts: Vec<usize> = (0..leaders.len()).filter(|&index| leaders[index]).collect();
    let block_of = |index: usize| starts.partition_point(|&start| start <= index) - 1;
    let mut blocks = Vec::with_capacity(starts.len());
    for (number, &begin) in starts.iter().enumerate() {
        let end = starts.get(number + 1).copied().unwrap_or(instructions.len());
        let last = &instructions[end - 1];
        let mut successors = Vec::new();
        if matches!(last.flow_control(), FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch)
            && let Some(target) = find(instructions, last.near_branch_target())
        {
            successors.push(block_of(target));
        }
        let falls_through = !matches!(
            last.flow_control(),
            FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch
                | FlowControl::Return
                | FlowControl::Exception
        );
        if falls_through && end < instructions.len() {
            successors.push(block_of(end));
        }
        blocks.push(Block { begin, end, successors });
    }
    add_indirect_edges(instructions, &mut blocks);
    blocks
}

/// Leads each indirect jump to all blocks that nothing else leads to from the entry: of a part of the graph that hangs
/// together, to one block without predecessor, else to the first.
fn add_indirect_edges(instructions: &[Instruction], blocks: &mut [Block]) {
    let indirect = |block: &Block| instructions[block.end - 1].flow_control() == FlowControl::IndirectBranch;
    if blocks.is_empty() || !blocks.iter().any(indirect) {
        return;
    }
    let is_padding = |block: &Block| {
        instructions[block.begin..block.end]
            .iter()
            .all(|instruction| matches!(instruction.mnemonic(), iced_x86::Mnemonic::Nop | iced_x86::Mnemonic::Int3))
    };
    let mut led_to = vec![false; blocks.len()];
    blocks.iter().flat_map(|block| &block.successors).for_each(|&to| led_to[to] = true);
    let mut reached = vec![false; blocks.len()];
    let reach = |from: usize, reached: &mut Vec<bool>| {
        let mut waiting = vec![from];
        while let Some(block) = waiting.pop() {
            if !std::mem::replace(&mut reached[block], true) {
                waiting.extend(&blocks[block].successors);
            }
        }
    };
    reach(0, &mut reached);
    let mut cases = Vec::new();
    let heads = (1..blocks.len()).filter(|&block| !led_to[block]);
    for block in heads.chain(1..blocks.len()) {
        if !reached[block] && !is_padding(&blocks[block]) {
            cases.push(block);
            reach(block, &mut reached);
        }
    }
    for block in blocks.iter_mut() {
        if instructions[block.end - 1].flow_control() == FlowControl::IndirectBranch {
            block.successors.extend(&cases);
        }
    }
}
