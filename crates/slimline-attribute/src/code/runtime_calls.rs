//! Calls of the runtime in code that `slimline cc` and its fellows instrumented.
//!
//! Accesses are written down inline. Where a buffer is full the code calls `__slimline_next_chunk`, which keeps all
//! registers, directly or through a register that holds its address throughout a loop. All else that the runtime offers
//! is called as any function is.

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic};
use rustc_hash::FxHashMap;
use slimline_trace::address::Svma;

use super::effects::may_write;
use super::flow::Flow;
use super::imports::{Target, target_in, target_of};
use super::steps::{LOST, general};
use crate::module::Module;

const NEXT_CHUNK: &str = "__slimline_next_chunk";
/// How names of functions of the runtime begin, and those that instrumentation adds to a module.
const PREFIXES: [&str; 3] = ["__slimline_", "slimline_", "slimline."];

/// Calls of the runtime in one function.
#[derive(Debug, Default)]
pub(super) struct RuntimeCalls {
    /// By address, whether the call keeps all registers.
    calls: FxHashMap<u64, bool>,
}

/// Registers that hold the address of [`NEXT_CHUNK`], a bit each.
type Holding = u16;

impl RuntimeCalls {
    pub(super) fn of(module: &Module<'_>, flow: &Flow) -> Self {
        let name_of = |target: Target<'_>| match target {
            Target::Import(name) => name.to_owned(),
            Target::Here(target) => module.linked_name(target),
            Target::Computed => String::new(),
        };
        let mut calls = FxHashMap::default();
        let mut loads: FxHashMap<u64, Holding> = FxHashMap::default();
        for instruction in &flow.instructions {
            if instruction.flow_control() == FlowControl::Call {
                let name = name_of(target_of(module, instruction));
                if PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                    calls.insert(instruction.ip(), name == NEXT_CHUNK);
                }
            } else if instruction.is_ip_rel_memory_operand()
                && let Some(register) = general(instruction.op0_register())
            {
                let address = Svma(instruction.ip_rel_memory_address());
                let target = match instruction.mnemonic() {
                    Mnemonic::Lea => Target::Here(address),
                    Mnemonic::Mov => target_in(module, address),
                    _ => continue,
                };
                if name_of(target) == NEXT_CHUNK {
                    loads.insert(instruction.ip(), 1 << register);
                }
            }
        }
        if !loads.is_empty() {
            through_registers(flow, &loads, &mut calls);
        }
        Self { calls }
    }

    /// Whether there is none: the function is not instrumented, or accesses nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether an instruction is one of them.
    pub(super) fn has(&self, instruction: &Instruction) -> bool {
        self.calls.contains_key(&instruction.ip())
    }

    /// Whether it is one after which all registers have what they had.
    pub(super) fn keeps_registers(&self, instruction: &Instruction) -> bool {
        self.calls.get(&instruction.ip()) == Some(&true)
    }
}

/// Whether an instruction makes one register of another one that holds the address.
fn is_held_copy(instruction: &Instruction, holding: Holding) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_register().is_gpr64()
        && instruction.op1_register().is_gpr64()
        && general(instruction.op1_register()).is_some_and(|register| holding & 1 << register != 0)
}

/// Adds the calls through registers that hold the address on each way to them. `loads` are the instructions that load it.
fn through_registers(flow: &Flow, loads: &FxHashMap<u64, Holding>, calls: &mut FxHashMap<u64, bool>) {
    let mut factory = InstructionInfoFactory::new();
    let mut written: FxHashMap<u64, Holding> = FxHashMap::default();
    for instruction in &flow.instructions {
        let used = factory.info(instruction).used_registers().iter();
        let changed = used.filter(|used| may_write(used.access()));
        let registers =
            changed.filter_map(|used| general(used.register())).fold(0, |all, register| all | 1 << register);
        written.insert(instruction.ip(), registers);
    }
    let lost: Holding =
        LOST.iter().filter_map(|&register| general(register)).fold(0, |all, register| all | 1 << register);
    let calls_through = |instruction: &Instruction, holding: Holding| {
        instruction.flow_control() == FlowControl::IndirectCall
            && general(instruction.op0_register()).is_some_and(|register| holding & 1 << register != 0)
    };
    let after = |instruction: &Instruction, holding: Holding, calls: &FxHashMap<u64, bool>| {
        if let Some(register) = loads.get(&instruction.ip()) {
            return holding | register;
        }
        if calls.get(&instruction.ip()) == Some(&true) || calls_through(instruction, holding) {
            return holding;
        }
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => holding & !lost,
            _ if is_held_copy(instruction, holding) => holding | written[&instruction.ip()],
            _ => holding & !written[&instruction.ip()],
        }
    };
    // What holds on all ways to a block: from above, until nothing changes.
    let mut at_begin: Vec<Holding> = vec![Holding::MAX; flow.successors.len()];
    flow.roots.iter().for_each(|&root| at_begin[root] = 0);
    let mut is_new = true;
    while is_new {
        is_new = false;
        for block in 0..flow.successors.len() {
            let instructions = if block < flow.blocks.len() { flow.instructions_of(block) } else { &[] };
            let holding = instructions.iter().fold(at_begin[block], |holding, of| after(of, holding, calls));
            for &next in &flow.successors[block] {
                is_new |= at_begin[next] & holding != at_begin[next];
                at_begin[next] &= holding;
            }
        }
    }
    let mut found = Vec::new();
    for (block, &holding) in at_begin.iter().enumerate().take(flow.blocks.len()) {
        // Nothing leads to what is left as it was.
        let mut holding = if holding == Holding::MAX { 0 } else { holding };
        for instruction in flow.instructions_of(block) {
            if calls_through(instruction, holding) {
                found.push(instruction.ip());
            }
            holding = after(instruction, holding, calls);
        }
    }
    calls.extend(found.into_iter().map(|call| (call, true)));
}
