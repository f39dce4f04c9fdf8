//! Whether a function only hands memory on to its caller: `xmalloc` does, `make_node` does not.
//!
//! It does so where it
//!
//! - returns what the call gave it, or stores it where its caller says (`int alloc(size_t, void **)`),
//! - asked for a size that follows from what its caller passed, and
//! - wrote nothing into it but a header in front of what it returns, and zeros.
//!
//! That is read off its instructions, so that it holds for a stripped program as well, and it goes on outwards: which
//! arguments make the size is known of each function that hands on, whatever pointer its caller called it by.

mod value;

use std::cell::RefCell;

use iced_x86::{ConditionCode, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind};
use rustc_hash::FxHashMap;
use slimline_trace::address::Svma;

use super::flow::{Flow, find};
use super::imports::{Target, target_of};
use super::no_return::NoReturn;
use crate::module::Module;
use value::{Is, State, Value};

/// A function that only hands memory on is shorter.
const MAX_CODE_BYTES: u64 = 16 << 10;
/// Arguments that are passed in registers (System V).
const ARGUMENTS: u8 = 6;
/// Functions that jump on to the next one, looked through.
const MAX_TAIL_CALLS: u32 = 4;
/// Functions that may hand an argument back, looked into from one another.
const MAX_CALLS: u32 = 2;
/// Of a function that is called as allocators are, what is not yet taken for building something.
const MAX_STORES: usize = 1;

/// How a function hands a block on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handing {
    /// The arguments that its size follows from, bit by bit.
    pub sizes: u8,
    /// How the caller gets it.
    pub result: Delivery,
}

/// How a caller gets a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// It is returned.
    Returned,
    /// It is stored where that argument points. So is what a function keeps in a structure of its caller's: it hands
    /// the block on only if its caller does.
    Through(u8),
}

/// What a function does to the block that one of its calls gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// How it hands the block on; `None` where it makes something of it.
    pub handing: Option<Handing>,
    /// Whether it returns it with no more than a header written into it, whatever size it is and whoever else knows it.
    pub returns: bool,
}

/// What is known of functions already.
#[derive(Clone, Copy)]
pub struct Known<'k> {
    /// Which never return.
    pub no_return: &'k NoReturn,
    /// Which return an argument.
    pub handed_back: &'k HandedBack,
}

/// Arguments that functions return as they were passed. Asked for on each way through each function that calls them, and twice nested.
#[derive(Debug, Default)]
pub struct HandedBack {
    /// By the module's file.
    known: RefCell<FxHashMap<String, Arguments>>,
}

/// By the function's address, and how deep others were looked into for it.
type Arguments = FxHashMap<(Svma, u32), Option<u8>>;

impl HandedBack {
    fn of(&self, module: &Module<'_>, function: (Svma, u32), find: impl FnOnce() -> Option<u8>) -> Option<u8> {
        let known = self.known.borrow().get(module.path()).and_then(|of_module| of_module.get(&function).copied());
        known.unwrap_or_else(|| {
            let found = find();
            self.known.borrow_mut().entry(module.path().to_owned()).or_default().insert(function, found);
            found
        })
    }
}

impl Handing {
    /// The allocators of the C library and of C++, as linked.
    fn of_allocator(name: &str) -> Option<Self> {
        let (arguments, result): (&[u8], _) = match name {
            "malloc" | "valloc" | "pvalloc" | "sbrk" => (&[0], Delivery::Returned),
            "calloc" => (&[0, 1], Delivery::Returned),
            "realloc" | "aligned_alloc" | "memalign" | "mmap" | "mmap64" => (&[1], Delivery::Returned),
            "reallocarray" => (&[1, 2], Delivery::Returned),
            "mremap" => (&[2], Delivery::Returned),
            "posix_memalign" => (&[2], Delivery::Through(0)),
            _ if name.starts_with("_Znwm") || name.starts_with("_Znam") => (&[0], Delivery::Returned),
            _ => return None,
        };
        Some(Self { sizes: bits(arguments), result })
    }

    /// Of what was made of a size that does not come from a caller.
    pub const NOT_SIZED: Self = Self { sizes: 0, result: Delivery::Returned };

    /// Of a function that is not known: most take the size first.
    const UNKNOWN: Self = Self { sizes: 1, result: Delivery::Returned };
}

fn bits(arguments: &[u8]) -> u8 {
    arguments.iter().fold(0, |bits, argument| bits | 1 << argument)
}

/// What the function that a call returns to at `return_address` does to what the call gave it as `given` says; `None`
/// for the innermost call of a path, whose instruction tells what it calls. `None` where the code can't be read.
pub fn hands_on(module: &Module<'_>, known: Known<'_>, return_address: Svma, given: Option<Handing>) -> Option<Found> {
    let function = read(module, known.no_return, Svma(return_address.0.wrapping_sub(1)))?;
    let after = find(&function.instructions, return_address.0).unwrap_or(function.instructions.len());
    let call = function.instructions.get(after.checked_sub(1)?)?;
    let given = given.unwrap_or_else(|| called(module, known, call, MAX_TAIL_CALLS).unwrap_or(Handing::UNKNOWN));
    Some(Walk { module, known, flow: &function, source: Some(call.ip()), given, depth: MAX_CALLS }.found())
}

/// How what `branch` calls hands a block on, where that is an allocator or jumps on to one.
fn called(module: &Module<'_>, known: Known<'_>, branch: &Instruction, depth: u32) -> Option<Handing> {
    let start = match target_of(module, branch) {
        Target::Import(name) => return Handing::of_allocator(name),
        Target::Here(start) => start,
        Target::Computed => return None,
    };
    if let Some(allocator) = Handing::of_allocator(&module.linked_name(start)) {
        return Some(allocator);
    }
    let depth = depth.checked_sub(1)?;
    let flow = read(module, known.no_return, start).filter(|flow| flow.instructions[0].ip() == start.0)?;
    let tail_calls = flow.instructions.iter().filter(|instruction| leaves(&flow, instruction));
    tail_calls.filter_map(|jump| Some((jump.ip(), called(module, known, jump, depth)?))).find_map(|(jump, given)| {
        Walk { module, known, flow: &flow, source: Some(jump), given, depth: MAX_CALLS }.found().handing
    })
}

fn read(module: &Module<'_>, no_return: &NoReturn, inside: Svma) -> Option<Flow> {
    let (start, end) = module.function_bounds(inside)?;
    let flow = Flow::of_function(module, no_return, start, end).filter(|_| end.0 - start.0 <= MAX_CODE_BYTES);
    flow.filter(|flow| !flow.instructions.is_empty())
}

/// Whether an instruction jumps out of its function: to another one, which returns to the same caller.
fn leaves(flow: &Flow, instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch => find(&flow.instructions, instruction.near_branch_target()).is_none(),
        FlowControl::IndirectBranch => instruction.is_ip_rel_memory_operand(),
        _ => false,
    }
}

/// A function, followed from its entry.
struct Walk<'w, 'a> {
    module: &'w Module<'a>,
    known: Known<'w>,
    flow: &'w Flow,
    /// The call, or the jump out of the function, that gives the block.
    source: Option<u64>,
    given: Handing,
    /// How many calls deep functions are looked into that may hand an argument back.
    depth: u32,
}

/// What was seen on all ways through a function.
#[derive(Default)]
struct Seen {
    /// Arguments of the function that the block's size follows from.
    sizes: u8,
    /// Where in the block the pointers point that are returned.
    returned: Vec<Option<Inside>>,
    /// Which argument is returned as it was passed; `None` for anything else.
    handed_back: Vec<Option<u8>>,
    /// Arguments that point to where it was stored.
    through: u8,
    /// Whether it was stored anywhere else.
    kept: bool,
    /// Where in the block something was written.
    stores: Vec<Option<Inside>>,
}

/// A place in the block: at its start, or farther in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inside {
    /// What the offset is from: the block's start, or what an instruction made by adding what is not known.
    base: u32,
    offset: i64,
}

impl Inside {
    /// Where the pointer points that an allocator returns.
    const START: Self = Self { base: 0, offset: 0 };
}

impl Walk<'_, '_> {
    fn found(&self) -> Found {
        let seen = self.seen();
        // On one way at least: on another, what is returned is null.
        let in_front = seen.returned.iter().any(|to| seen.stores.iter().all(|store| is_in_front(*store, *to)));
        let result = match seen.through.trailing_zeros() {
            _ if seen.kept => None,
            argument @ 0..8 if seen.through.is_power_of_two() && seen.stores.is_empty() => {
                Some(Delivery::Through(argument as u8))
            }
            8.. if in_front => Some(Delivery::Returned),
            _ => None,
        };
        let sizes = seen.sizes;
        let handing = result.filter(|_| sizes != 0).map(|result| Handing { sizes, result });
        Found {
            handing,
            returns: in_front && !seen.kept || !seen.returned.is_empty() && seen.stores.len() <= MAX_STORES,
        }
    }

    /// Follows all ways until nothing more is learned, then looks at what is done to the block.
    fn seen(&self) -> Seen {
        let blocks = self.flow.blocks.len();
        // Numbers from `blocks` on are dispatches: no code.
        let mut states: Vec<Option<State>> = vec![None; self.flow.successors.len()];
        let mut open: Vec<usize> = Vec::new();
        for &root in &self.flow.roots {
            states[root] = Some(if root == 0 { State::at_entry() } else { State::unknown() });
            open.push(root);
        }
        let mut factory = InstructionInfoFactory::new();
        while let Some(block) = open.pop() {
            let Some(mut state) = states[block].clone() else { continue };
            let mut without = None;
            if block < blocks {
                for instruction in self.flow.instructions_of(block) {
                    self.step(&mut state, instruction, &mut factory, None);
                }
                without = self.without_block(&state, block);
            }
            for &next in &self.flow.successors[block] {
                let state = without.as_ref().filter(|(way, _)| *way == next).map_or(&state, |(_, state)| state);
                let changed = match &mut states[next] {
                    Some(known) => known.join(state),
                    unknown => {
                        *unknown = Some(state.clone());
                        true
                    }
                };
                if changed && !open.contains(&next) {
                    open.push(next);
                }
            }
        }
        let mut seen = Seen::default();
        for (block, state) in states.into_iter().enumerate().take(blocks) {
            let Some(mut state) = state else { continue };
            for instruction in self.flow.instructions_of(block) {
                self.step(&mut state, instruction, &mut factory, Some(&mut seen));
            }
        }
        seen
    }

    /// The block of code that follows where the allocation failed, and what holds there: `test rax,rax` and `je`.
    fn without_block(&self, state: &State, block: usize) -> Option<(usize, State)> {
        let (jump, before) = self.flow.instructions_of(block).split_last()?;
        let is_taken = match jump.condition_code() {
            ConditionCode::e => true,
            ConditionCode::ne => false,
            _ => return None,
        };
        let compared = before.iter().rev().find(|instruction| instruction.rflags_modified() != 0)?;
        let register = compared.op0_register();
        let tells = match compared.mnemonic() {
            Mnemonic::Test => compared.op1_register() == register,
            Mnemonic::Cmp => compared.op1_kind() == OpKind::Immediate8to64 && compared.immediate(1) == 0,
            _ => false,
        };
        let without = state.without_block(register).filter(|_| tells && register.is_gpr64())?;
        let ways = self.flow.successors.get(block)?.iter().copied().filter(|&next| next < self.flow.blocks.len());
        let is_target = |next: &usize| self.flow.address_of(*next).0 == jump.near_branch_target();
        let [one, other] = ways.collect::<Vec<_>>().try_into().ok()?;
        Some((if is_target(&one) == is_taken { one } else { other }, without))
    }

    /// Takes `state` to after the instruction; with `seen`, notes what it does to the block.
    fn step(
        &self,
        state: &mut State,
        instruction: &Instruction,
        factory: &mut InstructionInfoFactory,
        mut seen: Option<&mut Seen>,
    ) {
        let is_source = self.source == Some(instruction.ip());
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall if is_source => self.receive(state, seen),
            FlowControl::Call | FlowControl::IndirectCall => state.call(self.result(state, instruction)),
            _ if leaves(self.flow, instruction) => {
                if is_source {
                    self.receive(state, seen.as_deref_mut());
                } else {
                    state.call(self.result(state, instruction));
                }
                self.leave(state, seen);
            }
            FlowControl::Return => self.leave(state, seen),
            _ => {
                if let (Some(seen), Some((to, value))) = (seen, state.stored(instruction, factory)) {
                    seen.store(to, value);
                }
                state.step(instruction, factory);
            }
        }
    }

    /// What a call returns that is not the one that gives the block.
    fn result(&self, state: &State, call: &Instruction) -> Value {
        // What follows from the result follows from what it was computed of.
        let computed = state.argument(0).any();
        let may_hand_back = |argument| matches!(state.argument(argument).is, Is::Block(_) | Is::Argument(_));
        if !(0..ARGUMENTS).any(may_hand_back) {
            return computed;
        }
        match target_of(self.module, call) {
            Target::Import(name) if returns_first(name) => state.argument(0),
            Target::Here(start) => self.handed_back(start).map_or(computed, |argument| state.argument(argument)),
            _ => computed,
        }
    }

    /// The argument that the function at `start` returns as it was passed.
    fn handed_back(&self, start: Svma) -> Option<u8> {
        let depth = self.depth.checked_sub(1)?;
        let (module, known) = (self.module, self.known);
        known.handed_back.of(module, (start, depth), || {
            let flow = read(module, known.no_return, start).filter(|flow| flow.instructions[0].ip() == start.0)?;
            let walk = Walk { module, known, flow: &flow, source: None, given: Handing::NOT_SIZED, depth };
            let handed_back = walk.seen().handed_back;
            handed_back.iter().copied().reduce(|one, other| one.filter(|_| one == other)).flatten()
        })
    }

    /// Takes in the block that the call gives.
    fn receive(&self, state: &mut State, seen: Option<&mut Seen>) {
        let sizes = (0..ARGUMENTS).filter(|argument| self.given.sizes & 1 << argument != 0);
        let sizes = sizes.fold(0, |bits, argument| bits | state.argument(argument).arguments);
        let block = Value { arguments: 0, is: Is::Block(Some(Inside::START)) };
        let through = match self.given.result {
            Delivery::Returned => {
                state.call(block);
                None
            }
            Delivery::Through(argument) => {
                let to = state.argument(argument);
                state.call(Value::ANY);
                state.store(to, block);
                Some(to)
            }
        };
        if let Some(seen) = seen {
            seen.sizes |= sizes;
            through.into_iter().for_each(|to| seen.store(to, block));
        }
    }

    fn leave(&self, state: &State, seen: Option<&mut Seen>) {
        let Some(seen) = seen else { return };
        match state.returned().is {
            Is::Block(inside) => seen.returned.push(inside),
            Is::Argument(argument) => seen.handed_back.push(Some(argument)),
            _ => seen.handed_back.push(None),
        }
    }
}

impl Seen {
    /// Notes that `value` is stored at the address `to`.
    fn store(&mut self, to: Value, value: Value) {
        match (to.is, value.is) {
            (Is::Block(_), Is::Zero) | (Is::Frame(_), _) => {}
            (Is::Block(inside), _) => self.stores.push(inside),
            (Is::Argument(argument), Is::Block(_)) => self.through |= 1 << argument,
            (_, Is::Block(_)) => self.kept = true,
            _ => {}
        }
    }
}

/// Whether what was written at `store` is a header in front of what is returned: a pointer past it, or one that is
/// farther in by what is not known.
fn is_in_front(store: Option<Inside>, returned: Option<Inside>) -> bool {
    match (store, returned) {
        (Some(store), Some(returned)) if store.base == returned.base => store.offset < returned.offset,
        (Some(store), Some(_)) => store.base == 0,
        _ => false,
    }
}

/// Whether a function returns its first argument.
fn returns_first(name: &str) -> bool {
    matches!(name, "memcpy" | "memmove" | "memset" | "__memcpy_chk" | "__memset_chk" | "strcpy" | "strncpy")
}
