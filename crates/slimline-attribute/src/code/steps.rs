//! What the steps of a loop depend on: whether they could be done in another order.
//!
//! - A *chase* finds the next step's data by what it loads in this one (`p = p->next`). Its order is the data's.
//! - A call may do anything: write a file, allocate, change what other steps read.
//! - A loop that may end in the middle of its steps (`break`, a search) would end elsewhere.
//!
//! Code that `slimline cc` and its fellows instrumented also calls the tracing runtime, which no order of steps matters
//! to. Its stores are in the trace, and it holds several copies of a loop.

use iced_x86::{
    FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};
use rustc_hash::{FxHashMap, FxHashSet};
use slimline_trace::address::Svma;

use super::effects::may_write;
use super::flow::Flow;
use super::imports::{Target, target_of};
use super::no_return::NoReturn;
use super::runtime_calls::RuntimeCalls;
use crate::module::{Module, demangle};

/// Functions of the C library that compute their result of their arguments and do nothing else. (`errno` aside.)
const COMPUTING: [&str; 42] = [
    "abs",
    "labs",
    "sqrt",
    "cbrt",
    "hypot",
    "exp",
    "exp2",
    "expm1",
    "exp10",
    "log",
    "log2",
    "log10",
    "log1p",
    "pow",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "tgamma",
    "floor",
    "ceil",
    "trunc",
    "round",
    "rint",
    "nearbyint",
    "fmod",
    "remainder",
    "fma",
    "fmin",
    "fmax",
    "fabs",
];
/// Functions called by functions that are looked into.
const MOST_NESTED: u32 = 3;
/// Longer functions may do anything.
const LONGEST_BYTES: u64 = 4096;
/// Loads of one loop whose results are followed; with more of them nothing is known to be a chase.
const MOST_LOADS: usize = 64;
/// Stack slots that are followed as registers are.
const MOST_SLOTS: usize = 32;
const REGISTERS: usize = 16;
/// Registers that pass arguments (System V), and those that a call leaves with unknown content.
const ARGUMENTS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];
pub(super) const LOST: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// Looks into called functions, each once.
#[derive(Default)]
pub(super) struct Callees {
    /// By name of the module's file and address: what of theirs may do anything.
    known: FxHashMap<(String, u64), Option<String>>,
}

impl Callees {
    /// The first call in these blocks of which it is not known that it only computes, by name.
    pub(super) fn first_with_effects(
        &mut self,
        module: &Module<'_>,
        no_return: &NoReturn,
        (flow, runtime): (&Flow, &RuntimeCalls),
        blocks: &[usize],
    ) -> Option<String> {
        let instructions = blocks.iter().flat_map(|&block| flow.instructions_of(block));
        let mut calls = instructions.filter(|instruction| is_call(instruction) && !runtime.has(instruction));
        calls.find_map(|call| self.effects(module, no_return, call, MOST_NESTED))
    }

    fn effects(
        &mut self,
        module: &Module<'_>,
        no_return: &NoReturn,
        call: &Instruction,
        deeper: u32,
    ) -> Option<String> {
        if no_return.is_so(module, call) {
            return None;
        }
        match target_of(module, call) {
            Target::Import(name) => {
                let plain = name.strip_suffix(['f', 'l']).unwrap_or(name);
                let computes = COMPUTING.contains(&name) || COMPUTING.contains(&plain);
                (!computes).then(|| demangle(name))
            }
            Target::Computed => Some("an indirect call".to_owned()),
            Target::Here(target) => {
                let key = (module.path().to_owned(), target.0);
                if let Some(known) = self.known.get(&key) {
                    return known.clone();
                }
                let name = || Some(demangle(&module.linked_name(target)));
                // One that calls itself comes to this depth.
                let Some(below) = deeper.checked_sub(1) else { return name() };
                let found = if self.has_effects(module, no_return, target, below) { name() } else { None };
                // That it has effects may only have been too deep to tell, unless a loop calls it.
                if deeper == MOST_NESTED || found.is_none() {
                    self.known.insert(key, found.clone());
                }
                found
            }
        }
    }

    /// Whether a function may do more than compute and use its own stack frame. What an instrumented one stores the
    /// trace has.
    fn has_effects(&mut self, module: &Module<'_>, no_return: &NoReturn, target: Svma, deeper: u32) -> bool {
        let Some((start, end)) = module.function_bounds(target).filter(|(start, _)| *start == target) else {
            return true;
        };
        if end.0 - start.0 > LONGEST_BYTES {
            return true;
        }
        let Some(flow) = Flow::of_function(module, no_return, start, end) else { return true };
        let mut factory = InstructionInfoFactory::new();
        let has_frame = has_frame_pointer(&flow);
        let runtime = RuntimeCalls::of(module, &flow);
        flow.instructions.iter().any(|instruction| match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => {
                !runtime.has(instruction) && self.effects(module, no_return, instruction, deeper).is_some()
            }
            FlowControl::Interrupt | FlowControl::Exception | FlowControl::IndirectBranch => true,
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                let to = instruction.near_branch_target();
                !(start.0..end.0).contains(&to)
            }
            _ => {
                let mut used = factory.info(instruction).used_memory().iter();
                let stores = used.any(|memory| may_write(memory.access()) && !is_slot(memory, has_frame));
                stores && runtime.is_empty() || instruction.is_invalid()
            }
        })
    }
}

/// Whether control may leave these blocks at more than one place, for something that goes on.
pub(super) fn leaves_early(module: &Module<'_>, (flow, runtime): (&Flow, &RuntimeCalls), blocks: &[usize]) -> bool {
    let inside: FxHashSet<usize> = blocks.iter().copied().collect();
    // What ends in a call that never returns is an error, which no order of steps is kept for.
    let goes_on = |block: usize| {
        let last = flow.instructions_of(block).last();
        !(last.is_some_and(is_call) && flow.successors[block].is_empty())
    };
    let leaves = |&block: &usize| {
        flow.successors[block].iter().any(|next| *next < flow.blocks.len() && !inside.contains(next) && goes_on(*next))
    };
    let leaving: Vec<usize> = blocks.iter().copied().filter(leaves).collect();
    if leaving.len() < 2 || runtime.is_empty() {
        return leaving.len() > 1;
    }
    // Instrumented code goes from one copy of a loop to another whenever tracing is enabled or disabled, and all copies
    // end at the same place of the source.
    let position = |&block: &usize| {
        let last = flow.instructions_of(block).last()?;
        let mut innermost = None;
        module.debug()?.for_each_frame(Svma(last.ip()), |level| {
            innermost.get_or_insert((level.line, level.column));
        });
        innermost.filter(|(line, _)| line.is_some())
    };
    let own = leaving.iter().filter(|block| !ends_in_check(flow.instructions_of(**block)));
    own.filter_map(position).collect::<FxHashSet<_>>().len() > 1
}

/// Whether a block may end in a question of instrumented code: whether tracing is enabled (`cmp byte [gate], 0`), or a
/// buffer is full (`test cursor, 1 << n`). A byte of the program's own that ends a loop is taken for one.
fn ends_in_check(block: &[Instruction]) -> bool {
    let [.., asked, branch] = block else { return false };
    let is_gate = asked.mnemonic() == Mnemonic::Cmp
        && asked.op0_kind() == OpKind::Memory
        && asked.memory_size().size() == 1
        && asked.memory_index() == Register::None
        && asked.op1_kind() == OpKind::Immediate8
        && asked.immediate8() == 0;
    let is_full = asked.mnemonic() == Mnemonic::Test
        && asked.op1_kind() == OpKind::Immediate32
        && asked.immediate32().is_power_of_two();
    branch.flow_control() == FlowControl::ConditionalBranch && (is_gate || is_full)
}

/// Instructions of these blocks, a loop's, whose address comes from what an earlier turn of the loop loaded.
pub(super) fn chased(flow: &Flow, runtime: &RuntimeCalls, blocks: &[usize]) -> Vec<Svma> {
    Chase::new(flow, runtime, blocks).map_or_else(Vec::new, Chase::run)
}

/// Which loads a register's or a stack slot's content depends on, a bit each.
type Origins = [u64; REGISTERS + MOST_SLOTS];

/// What an instruction does to registers and slots.
struct Transfer {
    address: Svma,
    /// Number of the load or call that it is.
    load: Option<u32>,
    /// Of a call all registers that may be arguments are taken for its address.
    is_call: bool,
    /// Registers of its memory operand's address; empty for a stack slot.
    base: Vec<usize>,
    reads: Vec<usize>,
    writes: Vec<usize>,
    /// What has a content of no known origin afterwards.
    lost: Vec<usize>,
}

struct Chase {
    blocks: Vec<Vec<Transfer>>,
    /// Places in `blocks` of what precedes each.
    before: Vec<Vec<usize>>,
}

impl Chase {
    fn new(flow: &Flow, runtime: &RuntimeCalls, blocks: &[usize]) -> Option<Self> {
        let mut factory = InstructionInfoFactory::new();
        let has_frame = has_frame_pointer(flow);
        let mut slots: Vec<(Register, u64)> = Vec::new();
        let mut loads = 0;
        let mut transfers = Vec::with_capacity(blocks.len());
        for &block in blocks {
            let of_block = flow.instructions_of(block).iter().map(|instruction| {
                match runtime.has(instruction) || !runtime.is_empty() && is_call(instruction) {
                    true => Transfer::of_runtime(instruction, runtime),
                    false => Transfer::of(instruction, factory.info(instruction), has_frame, &mut slots, &mut loads),
                }
            });
            transfers.push(of_block.collect());
            if loads as usize > MOST_LOADS {
                return None;
            }
        }
        let mut before = vec![Vec::new(); blocks.len()];
        let place: FxHashMap<usize, usize> = blocks.iter().enumerate().map(|(place, &block)| (block, place)).collect();
        for (from, &block) in blocks.iter().enumerate() {
            for next in through_dispatches(flow, block) {
                if let Some(&to) = place.get(&next) {
                    before[to].push(from);
                }
            }
        }
        Some(Self { blocks: transfers, before })
    }

    fn run(self) -> Vec<Svma> {
        let mut after: Vec<Origins> = vec![[0; _]; self.blocks.len()];
        let mut is_new = true;
        while is_new {
            is_new = false;
            for block in 0..self.blocks.len() {
                let mut state = self.at_begin(block, &after);
                self.blocks[block].iter().for_each(|transfer| transfer.apply(&mut state));
                is_new |= state != after[block];
                after[block] = state;
            }
        }
        // Loads whose address depends on what they themselves loaded.
        let mut carried = 0;
        self.each(&after, |transfer, origins| {
            carried |= transfer.load.map_or(0, |load| origins & 1 << load);
        });
        let mut found = Vec::new();
        self.each(&after, |transfer, origins| {
            if origins & carried != 0 && !transfer.is_call {
                found.push(transfer.address);
            }
        });
        found
    }

    fn at_begin(&self, block: usize, after: &[Origins]) -> Origins {
        let mut state = [0; _];
        for &before in &self.before[block] {
            state.iter_mut().zip(after[before]).for_each(|(all, more)| *all |= more);
        }
        state
    }

    /// Each instruction with the origins of its address.
    fn each(&self, after: &[Origins], mut act: impl FnMut(&Transfer, u64)) {
        for (block, transfers) in self.blocks.iter().enumerate() {
            let mut state = self.at_begin(block, after);
            for transfer in transfers {
                act(transfer, transfer.base.iter().fold(0, |all, &register| all | state[register]));
                transfer.apply(&mut state);
            }
        }
    }
}

/// The blocks that may follow, by jumps that share a dispatch too.
fn through_dispatches(flow: &Flow, block: usize) -> Vec<usize> {
    let mut found = Vec::new();
    for &next in &flow.successors[block] {
        if next < flow.blocks.len() {
            found.push(next);
        } else {
            found.extend(flow.successors.get(next).into_iter().flatten().filter(|&&to| to < flow.blocks.len()));
        }
    }
    found
}

impl Transfer {
    /// Of a call of the runtime, and of all calls of instrumented code, whose cursor would look like what they load.
    fn of_runtime(call: &Instruction, runtime: &RuntimeCalls) -> Self {
        let lost: &[Register] = if runtime.keeps_registers(call) { &[] } else { &LOST };
        Self {
            address: Svma(call.ip()),
            load: None,
            is_call: true,
            base: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            lost: lost.iter().filter_map(|&register| general(register)).collect(),
        }
    }

    fn of(
        instruction: &Instruction,
        info: &InstructionInfo,
        has_frame: bool,
        slots: &mut Vec<(Register, u64)>,
        loads: &mut u32,
    ) -> Self {
        let address = Svma(instruction.ip());
        let mut number = || {
            *loads += 1;
            Some(*loads - 1)
        };
        if is_call(instruction) {
            let arguments: Vec<usize> = ARGUMENTS.iter().filter_map(|&register| general(register)).collect();
            let lost = LOST.iter().filter_map(|&register| general(register)).collect();
            let (base, writes) = (arguments.clone(), vec![0]);
            return Self { address, load: number(), is_call: true, base, reads: arguments, writes, lost };
        }
        let is_lea = instruction.mnemonic() == Mnemonic::Lea;
        let mut transfer = Self {
            address,
            load: None,
            is_call: false,
            base: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            lost: Vec::new(),
        };
        for used in info.used_registers() {
            let Some(register) = general(used.register()) else { continue };
            let size = used.register().size();
            match used.access() {
                OpAccess::Read | OpAccess::CondRead => transfer.reads.push(register),
                OpAccess::Write if size >= 4 => transfer.writes.push(register),
                // It may keep a part of what it was, and what is in it may go to another register.
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
                    transfer.writes.push(register);
                    transfer.reads.push(register);
                }
                _ => {}
            }
        }
        for memory in info.used_memory().iter().filter(|_| !is_lea) {
            let registers: Vec<usize> = [memory.base(), memory.index()].into_iter().filter_map(general).collect();
            let reads = matches!(memory.access(), OpAccess::Read | OpAccess::ReadWrite | OpAccess::ReadCondWrite);
            if is_slot(memory, has_frame) {
                let key = (memory.base(), memory.displacement());
                let known = slots.iter().position(|slot| *slot == key).or_else(|| {
                    (slots.len() < MOST_SLOTS).then(|| {
                        slots.push(key);
                        slots.len() - 1
                    })
                });
                if let Some(slot) = known {
                    if reads {
                        transfer.reads.push(REGISTERS + slot);
                    }
                    if may_write(memory.access()) {
                        transfer.writes.push(REGISTERS + slot);
                    }
                }
                continue;
            }
            transfer.base.extend(&registers);
            if reads && transfer.writes.iter().any(|&written| written < REGISTERS) && transfer.load.is_none() {
                transfer.load = number();
            }
        }
        transfer
    }

    fn apply(&self, state: &mut Origins) {
        let mut origins = self.reads.iter().chain(&self.base).fold(0, |all, &from| all | state[from]);
        if let Some(load) = self.load {
            origins |= 1 << load.min(63);
        }
        self.lost.iter().for_each(|&register| state[register] = 0);
        self.writes.iter().for_each(|&to| state[to] = origins);
    }
}

fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
}

/// Whether `rbp` points to the function's frame.
fn has_frame_pointer(flow: &Flow) -> bool {
    flow.instructions.iter().any(|instruction| {
        let sets = instruction.mnemonic() == Mnemonic::Mov && instruction.op1_register() == Register::RSP
            || instruction.mnemonic() == Mnemonic::Lea && instruction.memory_base() == Register::RSP;
        instruction.mnemonic() == Mnemonic::Enter || sets && instruction.op0_register() == Register::RBP
    })
}

/// Whether a memory operand is a slot of the function's own frame.
fn is_slot(memory: &UsedMemory, has_frame: bool) -> bool {
    let is_local = memory.base() == Register::RBP && has_frame && memory.displacement().cast_signed() < 0;
    memory.index() == Register::None && (memory.base() == Register::RSP || is_local)
}

/// Number of the general register that this is, or is a part of; the stack pointer is none.
pub(super) fn general(register: Register) -> Option<usize> {
    let full = register.full_register();
    (register.is_gpr() && full != Register::RSP).then(|| full.number())
}
