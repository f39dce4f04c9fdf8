//! What one instruction does to what is known of registers and stack slots.

use std::collections::BTreeMap;

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use super::bound::{Bound, Bounds, FrameVariable, Names};
use super::debug_info::{DebugInfo, Die};
use super::flow::Flow;
use super::infer::Reason;
use super::location::Gpr;
use super::scope::FunctionScope;
use super::shape::Shape;
use super::value::{Pointer, Symbol, Value, gcd};
use crate::tables::Language;

/// What is known before an instruction.
#[derive(Clone, PartialEq)]
pub(super) struct State {
    pub(super) registers: [Value; 16],
    /// Words in the frame by offset from the call frame address; absent means nothing is known.
    slots: BTreeMap<i64, Value>,
    /// Whether the code was reached in a known way; if not, slots of other paths are taken as they are.
    reached: bool,
}

impl State {
    /// At the function's entry, or wherever nothing else is known.
    pub(super) fn at_entry() -> Self {
        let mut registers = [Value::Unknown(Reason::FromCaller); 16];
        for (number, register) in registers.iter_mut().enumerate() {
            *register = register.with_symbol(Symbol::Paths(u32::MAX, number as u8));
        }
        registers[usize::from(Gpr::RSP.0)] = Value::Frame(-8);
        Self { registers, slots: BTreeMap::new(), reached: true }
    }

    /// Where code is reached in ways not known: the frame is as `prologue` leaves it.
    pub(super) fn unseen(prologue: &Self) -> Self {
        let frame = |value: Value| if let Value::Frame(_) = value { value } else { Value::Unseen };
        Self { registers: prologue.registers.map(frame), slots: BTreeMap::new(), reached: false }
    }

    pub(super) fn get(&self, register: Gpr) -> Value {
        self.registers[usize::from(register.0)]
    }

    pub(super) fn set(&mut self, register: Gpr, value: Value) {
        self.registers[usize::from(register.0)] = value;
    }

    /// Loses what `other`, on another path into the block with that number, does not know alike; whether anything was
    /// lost. `info` tells which of two types holds the other.
    pub(super) fn join(&mut self, other: &Self, block: u32, info: &DebugInfo<'_>) -> bool {
        let mut changed = false;
        for (number, (mine, theirs)) in self.registers.iter_mut().zip(&other.registers).enumerate() {
            let symbol = Symbol::Paths(block, number as u8);
            // It already stands for whatever the paths bring.
            if mine.symbol() == Some(symbol) {
                continue;
            }
            let joined = meet(info, *mine, *theirs).with_symbol(symbol);
            changed |= joined != *mine;
            *mine = joined;
        }
        if !other.reached {
            return changed;
        }
        if !self.reached {
            self.slots.clone_from(&other.slots);
            self.reached = true;
            return true;
        }
        let before = self.slots.len();
        self.slots.retain(|at, mine| {
            let joined =
                other.slots.get(at).map_or(Value::Unknown(Reason::PathsDisagree), |theirs| meet(info, *mine, *theirs));
            changed |= joined != *mine;
            *mine = joined;
            !matches!(joined, Value::Unknown(_))
        });
        changed || before != self.slots.len()
    }

    /// Gives up everything that still changes.
    pub(super) fn widen(&mut self, other: &Self, block: u32) {
        for (number, (mine, theirs)) in self.registers.iter_mut().zip(&other.registers).enumerate() {
            let symbol = Symbol::Paths(block, number as u8);
            if mine.symbol() != Some(symbol) && mine.join(*theirs) != *mine {
                *mine = Value::Unknown(Reason::PathsDisagree).with_symbol(symbol);
            }
        }
        if !other.reached {
            return;
        }
        self.slots.retain(|at, mine| other.slots.get(at).is_some_and(|theirs| mine.join(*theirs) == *mine));
    }

    /// The state as it enters a block anew, where the block's own symbols come to stand for other values.
    pub(super) fn entering(mut self, block: u32) -> Self {
        let renew = |value: &mut Value| {
            if let Some(symbol @ Symbol::Paths(at, _)) = value.symbol()
                && at == block
            {
                *value = value.without_symbol(symbol);
            }
        };
        self.registers.iter_mut().for_each(renew);
        self.slots.values_mut().for_each(renew);
        self
    }

    /// Sets a register to what an instruction computes, which has a symbol even if nothing is known of it.
    fn define(&mut self, register: Gpr, value: Value, index: usize) {
        let symbol = Symbol::Instruction(index as u32);
        let forget = |known: &mut Value| *known = known.without_symbol(symbol);
        self.registers.iter_mut().for_each(forget);
        self.slots.values_mut().for_each(forget);
        // An instruction that defines two registers names the first one's value only.
        self.set(register, value.without_symbol(symbol).with_symbol(symbol));
    }

    fn store(&mut self, at: i64, bytes: u64, value: Value) {
        let end = at.saturating_add_unsigned(bytes);
        let overlapping: Vec<i64> = self.slots.range(at.saturating_sub(7)..end).map(|(&at, _)| at).collect();
        for slot in overlapping {
            self.slots.remove(&slot);
        }
        if bytes == 8 && !matches!(value, Value::Unknown(_)) {
            self.slots.insert(at, value);
        }
    }
}

/// Evidence of what the watched call's block is used as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Use {
    /// Type as which it is used: where in the block the pointer points, and to what.
    pub(super) pointer: Pointer,
    /// Where in the block that pointer points.
    pub(super) start: i64,
    pub(super) kind: UseKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UseKind {
    /// Stored to a member or a static.
    Stored,
    /// In a variable.
    Variable,
    /// Passed on as an argument.
    Argument,
    /// Returned.
    Returned,
}

/// One function with all that inference needs of it.
pub(super) struct Function<'i, 'a> {
    pub(super) info: &'i DebugInfo<'a>,
    pub(super) die: Die,
    pub(super) scope: FunctionScope,
    pub(super) flow: Flow,
    pub(super) bounds: Bounds,
    pub(super) names: Names,
    /// Return address of the call whose result is followed.
    pub(super) watch: Option<u64>,
}

/// Pointers of a structure that are looked at where its offset runs.
const MAX_ALTERNATIVES: usize = 64;

/// Registers that a called function may change (System V).
const CLOBBERED: [u8; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];

impl Function<'_, '_> {
    fn language(&self) -> Language {
        self.info.language(self.die.unit)
    }

    /// Lets the variables in place at an instruction add to what is known.
    pub(super) fn apply_bounds(&self, state: &mut State, index: usize, uses: &mut Vec<Use>) {
        let mut best: [Option<Pointer>; 16] = [None; 16];
        let mut held = [false; 16];
        for bound in self.bounds.at(index) {
            let (register, pointer) = match *bound {
                Bound::Register(register, pointer) => (register, pointer),
                Bound::Address(register, _, pointer) => match state.get(register) {
                    Value::Frame(_) => continue,
                    _ => (register, pointer),
                },
                _ => continue,
            };
            if register == Gpr::RSP {
                continue;
            }
            let known = &mut best[usize::from(register.0)];
            if known.is_none_or(|known| self.rank(known) < self.rank(pointer)) {
                *known = Some(pointer);
                held[usize::from(register.0)] = matches!(bound, Bound::Register(..));
            }
        }
        for (number, pointer) in best.into_iter().enumerate() {
            let Some(pointer) = pointer else { continue };
            let known = state.registers[number];
            if let Value::Fresh(at) = known
                && held[number]
            {
                uses.push(Use { pointer, start: at.wrapping_sub(pointer.offset), kind: UseKind::Variable });
            }
            state.registers[number] = self.reconcile(known, pointer);
        }
    }

    /// How much a pointer's type tells.
    pub(super) fn rank(&self, pointer: Pointer) -> u32 {
        match pointer.bytes {
            _ if self.info.is_structure(pointer.target) => 2,
            0 | 1 => 0,
            _ => 1,
        }
    }

    /// What holds where the flow says `known` and a declaration says `declared`: the outermost structure if both can be
    /// true, else the declaration.
    fn reconcile(&self, known: Value, declared: Pointer) -> Value {
        let Value::Pointer(flow) = known else {
            return match known {
                Value::Fresh(_) => known,
                _ => Value::Pointer(declared),
            };
        };
        let named = Value::Pointer(Pointer { name: declared.name.or(flow.name), ..flow });
        if flow.target == declared.target {
            let exact = flow.bytes > 0 && flow.step % flow.bytes == 0;
            let apart = flow.offset.wrapping_sub(declared.offset);
            let size = flow.bytes.cast_signed().max(1);
            return if exact && apart % size == 0 { named } else { Value::Pointer(declared) };
        }
        if self.rank(declared) == 0 {
            return named;
        }
        let at = Pointer { offset: flow.offset.wrapping_sub(declared.offset), ..flow };
        match self.info.offset_in_target(at) {
            Ok(offset) if self.info.has_subobject(flow.target, offset, declared.target, 0) => named,
            _ => Value::Pointer(declared),
        }
    }

    /// The variable at a frame offset: one in place now, else the only one that ever is there.
    fn frame_variable(&self, state: &State, index: usize, offset: i64) -> Option<FrameVariable> {
        let mut found: Option<FrameVariable> = None;
        for bound in self.bounds.at(index) {
            let variable = match *bound {
                Bound::Frame(variable) => variable,
                Bound::Address(register, variable, _) => match state.get(register) {
                    Value::Frame(at) => variable.moved(at),
                    _ => continue,
                },
                _ => continue,
            };
            let wins = found.is_none_or(|found| !self.info.is_structure(found.type_));
            if variable.holds(offset) && wins {
                found = Some(variable);
            }
        }
        found.or_else(|| self.bounds.only_frame_variable(offset))
    }

    /// A pointer to the frame's byte at `offset`, as an address in the variable there.
    fn frame_pointer(&self, state: &State, index: usize, offset: i64) -> Option<Pointer> {
        let variable = self.frame_variable(state, index, offset)?;
        let inside = variable.inside.cast_signed().wrapping_add(offset.wrapping_sub(variable.at));
        let to = self.info.pointer_to(Some(variable.type_), variable.type_.unit);
        Some(Pointer { offset: inside, name: variable.name, ..to })
    }

    fn running_frame_pointer(&self, state: &State, index: usize, offset: i64, step: u64) -> Result<Pointer, Reason> {
        let pointer = self.frame_pointer(state, index, offset).ok_or(Reason::NoVariable)?;
        Ok(Pointer { step: gcd(pointer.step, step), ..pointer })
    }

    /// A declared pointer in the frame word at `offset`.
    fn declared_word(&self, state: &State, index: usize, offset: i64) -> Option<Pointer> {
        for bound in self.bounds.at(index) {
            match *bound {
                Bound::FrameWord(at, pointer) if at == offset => return Some(pointer),
                Bound::AddressWord(register, more, pointer)
                    if state.get(register).plus(Value::Constant(more)) == Value::Frame(offset) =>
                {
                    return Some(pointer);
                }
                _ => {}
            }
        }
        let place = self.frame_pointer(state, index, offset)?;
        self.pointer_in(place)
    }

    /// The pointer that lies in memory where `place` points.
    fn pointer_in(&self, place: Pointer) -> Option<Pointer> {
        let offset = match self.info.offset_in_target(place) {
            Ok(offset) => offset,
            Err(Reason::OffsetRuns) => return self.any_pointer_in(place),
            Err(_) => return None,
        };
        let path = self.info.path_to(place.target, offset);
        path.pointer.then(|| {
            let name = self.names.member(place.name, &path.names, self.language());
            Pointer { name, ..self.info.pointer_to(path.pointee, place.target.unit) }
        })
    }

    /// Where the offset may be one of several (`t->child[x]` written as `x ? t->left : t->right`): the pointer that lies
    /// there if all pointers that may are to one type. What is no pointer is not followed anyway.
    fn any_pointer_in(&self, place: Pointer) -> Option<Pointer> {
        let step = i64::try_from(place.step).ok().filter(|&step| step > 0)?;
        let start = place.offset.rem_euclid(step).cast_unsigned();
        let offsets = (start..place.bytes).step_by(usize::try_from(step).ok()?).take(MAX_ALTERNATIVES);
        let mut found: Option<Die> = None;
        for pointee in offsets.filter_map(|offset| self.info.path_to(place.target, offset).pointee) {
            let (target, _) = self.info.target(pointee);
            if found.is_some_and(|found| found != target) {
                return None;
            }
            found = Some(target);
        }
        found.map(|target| self.info.pointer_to(Some(target), place.target.unit))
    }

    /// A pointer to the static variable at a link-time address.
    fn static_pointer(&self, address: u64) -> Option<Pointer> {
        let range = self.info.static_range_at(address)?;
        let name = self.info.qualified_name(range.die).map(|name| self.names.variable(&name, true));
        let to = self.info.pointer_to(Some(range.type_), range.type_.unit);
        Some(Pointer { offset: (address - range.begin).cast_signed(), name, ..to })
    }

    /// The address of the instruction's memory operand.
    pub(super) fn address(&self, state: &State, index: usize) -> Value {
        let instruction = &self.flow.instructions[index];
        if matches!(instruction.segment_prefix(), Register::FS | Register::GS) {
            return Value::Unknown(Reason::ThreadLocal);
        }
        if instruction.is_ip_rel_memory_operand() {
            let address = instruction.ip_rel_memory_address();
            return self.static_pointer(address).map_or(Value::Constant(address.cast_signed()), Value::Pointer);
        }
        if instruction.is_vsib() {
            return Value::Unknown(Reason::Gather);
        }
        let displacement = Value::Constant(instruction.memory_displacement64().cast_signed());
        let scale = i64::from(instruction.memory_index_scale());
        let value_of = |register| gpr(register).map(|register| state.get(register));
        let (base, index_register) = (instruction.memory_base(), instruction.memory_index());
        let (start, running) = match (value_of(base), value_of(index_register)) {
            (Some(value), Some(_)) if base == index_register => (displacement, Some(value.times(scale + 1))),
            (Some(base), index) => (base.plus(displacement), index.map(|index| index.times(scale))),
            (None, Some(index)) => (displacement, Some(index.times(scale))),
            (None, None) => (displacement, None),
        };
        let Some(running) = running else { return start };
        match start {
            // Position-dependent code has the array's address as displacement.
            Value::Constant(address) if address >= 0x1000 && !running.is_address() => self
                .static_pointer(address.cast_unsigned())
                .map_or(Value::Unknown(Reason::NoVariable), |pointer| Value::Pointer(pointer).plus(running)),
            start => start.plus(running),
        }
    }

    /// The typed place that the instruction's memory operand is.
    pub(super) fn accessed(&self, state: &State, index: usize) -> Result<Pointer, Reason> {
        let pointer = match self.address(state, index) {
            Value::Pointer(pointer) => pointer,
            Value::Frame(offset) => self.frame_pointer(state, index, offset).ok_or(Reason::Spill)?,
            Value::FrameRun { offset, step } => self.running_frame_pointer(state, index, offset, step)?,
            Value::Constant(address) => self.static_pointer(address.cast_unsigned()).ok_or(Reason::NoVariable)?,
            Value::Fresh(_) => return Err(Reason::Untyped),
            unknown => return Err(unknown.reason()),
        };
        let offset = self.info.offset_in_target(pointer)?;
        Ok(Pointer { offset: offset.cast_signed(), ..pointer })
    }

    /// The 64-bit word that the memory operand holds.
    fn load(&self, state: &State, index: usize) -> Value {
        let word = |place: Pointer| self.pointer_in(place).map_or(Value::Unknown(Reason::NoPointer), Value::Pointer);
        match self.address(state, index) {
            Value::Frame(offset) => {
                let declared = self.declared_word(state, index, offset);
                match (state.slots.get(&offset), declared) {
                    (Some(&known), Some(declared)) => self.reconcile(known, declared),
                    (Some(&known), None) => known,
                    (None, Some(declared)) => Value::Pointer(declared),
                    (None, None) => Value::Unknown(Reason::Spill),
                }
            }
            Value::Pointer(place) => word(place),
            Value::Constant(address) => {
                self.static_pointer(address.cast_unsigned()).map_or(Value::Unknown(Reason::NoVariable), word)
            }
            Value::Fresh(_) => Value::Unknown(Reason::Untyped),
            unknown => Value::Unknown(unknown.reason()),
        }
    }

    fn store(&self, state: &mut State, index: usize, bytes: u64, value: Value, uses: &mut Vec<Use>) {
        let address = self.address(state, index);
        let place = match address {
            Value::Frame(offset) => {
                if let Value::Fresh(start) = value
                    && let Some(pointer) = self.declared_word(state, index, offset)
                {
                    uses.push(Use { pointer, start, kind: UseKind::Variable });
                }
                state.store(offset, bytes, value);
                return;
            }
            Value::Pointer(place) => place,
            _ => return,
        };
        if let Value::Fresh(start) = value
            && let Some(pointer) = self.pointer_in(place)
        {
            uses.push(Use { pointer, start, kind: UseKind::Stored });
        }
    }

    /// A source operand as a 64-bit value.
    fn operand(&self, state: &State, index: usize, operand: u32) -> Value {
        let instruction = &self.flow.instructions[index];
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let register = instruction.op_register(operand);
                match gpr(register) {
                    Some(known) if register.size() == 8 => state.get(known),
                    Some(known) if register.size() == 4 => number(state.get(known)),
                    _ => Value::Unknown(Reason::Arithmetic),
                }
            }
            OpKind::Memory => match instruction.memory_size().size() {
                8 => self.load(state, index),
                _ => Value::Unknown(Reason::NoPointer),
            },
            OpKind::Immediate8to64
            | OpKind::Immediate32to64
            | OpKind::Immediate64
            | OpKind::Immediate32
            | OpKind::Immediate8to32
            | OpKind::Immediate8 => Value::Constant(instruction.immediate(operand).cast_signed()),
            _ => Value::Unknown(Reason::Arithmetic),
        }
    }

    /// Writes the first operand.
    fn write(&self, state: &mut State, index: usize, value: Value, uses: &mut Vec<Use>) {
        let instruction = &self.flow.instructions[index];
        if instruction.op0_kind() == OpKind::Memory {
            let bytes = instruction.memory_size().size() as u64;
            return self.store(state, index, bytes, value, uses);
        }
        let Some(register) = gpr(instruction.op0_register()) else { return };
        let value = match instruction.op0_register().size() {
            8 => value,
            4 => number(value),
            _ => Value::Unknown(Reason::Arithmetic),
        };
        state.define(register, value, index);
    }

    /// Takes `state` from before to after the instruction.
    pub(super) fn step(
        &self,
        state: &mut State,
        index: usize,
        factory: &mut InstructionInfoFactory,
        uses: &mut Vec<Use>,
    ) {
        let instruction = &self.flow.instructions[index];
        let first = || self.operand(state, index, 0);
        let second = || self.operand(state, index, 1);
        let value = match instruction.mnemonic() {
            Mnemonic::Mov | Mnemonic::Movsxd | Mnemonic::Movsx | Mnemonic::Movzx => second(),
            Mnemonic::Lea => self.loaded_address(state, index),
            Mnemonic::Add => first().plus(second()),
            Mnemonic::Sub | Mnemonic::Xor if same_registers(instruction) => Value::Constant(0),
            Mnemonic::Sub => first().minus(second()),
            Mnemonic::Inc => first().plus(Value::Constant(1)),
            Mnemonic::Dec => first().plus(Value::Constant(-1)),
            Mnemonic::Neg => first().times(-1),
            Mnemonic::Shl | Mnemonic::Sal => match second() {
                Value::Constant(bits @ 0..32) => first().times(1 << bits),
                _ => Value::Unknown(Reason::Arithmetic),
            },
            Mnemonic::Imul if instruction.op_count() == 3 => match self.operand(state, index, 2) {
                Value::Constant(factor) => second().times(factor),
                _ => Value::Unknown(Reason::Arithmetic),
            },
            Mnemonic::Imul if instruction.op_count() == 2 => match (first(), second()) {
                (value, Value::Constant(factor)) | (Value::Constant(factor), value) => value.times(factor),
                _ => Value::Unknown(Reason::Arithmetic),
            },
            Mnemonic::And => masked(first(), second()),
            Mnemonic::Push => {
                let value = first();
                let top = state.get(Gpr::RSP).plus(Value::Constant(-8));
                state.set(Gpr::RSP, top);
                if let Value::Frame(at) = top {
                    state.store(at, 8, value);
                }
                return;
            }
            Mnemonic::Pop => return self.pop(state, gpr(instruction.op0_register())),
            Mnemonic::Leave => {
                state.set(Gpr::RSP, state.get(Gpr::RBP));
                return self.pop(state, Some(Gpr::RBP));
            }
            Mnemonic::Xchg if instruction.op1_kind() == OpKind::Register => {
                let (a, b) = (first(), second());
                self.write(state, index, b, uses);
                if let Some(register) = gpr(instruction.op1_register()) {
                    let whole = instruction.op1_register().size() == 8;
                    state.set(register, if whole { a } else { number(a) });
                }
                return;
            }
            mnemonic if is_conditional_move(mnemonic) => first().join(second()),
            Mnemonic::Cdqe => {
                let value = number(state.get(Gpr::RAX));
                return state.set(Gpr::RAX, value);
            }
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop | Mnemonic::Endbr64 => return,
            _ => return self.step_other(state, index, factory, uses),
        };
        self.write(state, index, value, uses);
    }

    fn loaded_address(&self, state: &State, index: usize) -> Value {
        let instruction = &self.flow.instructions[index];
        match self.address(state, index) {
            // An array on the stack, walked by a pointer: from here on it is known by its variable.
            Value::Frame(offset) if !matches!(gpr(instruction.op0_register()), Some(Gpr::RSP | Gpr::RBP)) => {
                self.frame_pointer(state, index, offset).map_or(Value::Frame(offset), Value::Pointer)
            }
            // Arithmetic in disguise (`lea rax, [rcx*8+3]`), or an untyped address.
            value => value,
        }
    }

    fn pop(&self, state: &mut State, into: Option<Gpr>) {
        let top = state.get(Gpr::RSP);
        let value = match top {
            Value::Frame(at) => state.slots.get(&at).copied().unwrap_or(Value::Unknown(Reason::FromCaller)),
            _ => Value::Unknown(Reason::FromCaller),
        };
        state.set(Gpr::RSP, top.plus(Value::Constant(8)));
        if let Some(register) = into {
            state.set(register, value);
        }
    }

    fn step_other(&self, state: &mut State, index: usize, factory: &mut InstructionInfoFactory, uses: &mut Vec<Use>) {
        let instruction = &self.flow.instructions[index];
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => return self.call(state, index, uses),
            FlowControl::Return => {
                if let Value::Fresh(start) = state.get(Gpr::RAX) {
                    let nothing = self.info.pointer_to(None, self.die.unit);
                    let pointer = self.returned_pointer(self.die).unwrap_or(nothing);
                    uses.push(Use { pointer, start, kind: UseKind::Returned });
                }
                return;
            }
            FlowControl::Next => {}
            _ => return,
        }
        let lost = Value::Unknown(Reason::Arithmetic);
        let writes = |access| {
            matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
        };
        if instruction.op0_kind() == OpKind::Memory && writes(factory.info(instruction).op0_access()) {
            let bytes = instruction.memory_size().size() as u64;
            self.store(state, index, bytes, lost, uses);
        }
        for used in factory.info(instruction).used_registers() {
            if writes(used.access())
                && let Some(register) = gpr(used.register())
                && register != Gpr::RSP
            {
                state.define(register, lost, index);
            }
        }
    }

    fn call(&self, state: &mut State, index: usize, uses: &mut Vec<Use>) {
        let instruction = &self.flow.instructions[index];
        let after = instruction.next_ip();
        let target = || {
            let target = self.info.function_at(instruction.near_branch_target())?;
            (self.info.entry_address(target)? == instruction.near_branch_target()).then_some(target)
        };
        let callee = self.scope.calls.get(&after).copied();
        let callee = callee.or_else(|| (instruction.flow_control() == FlowControl::Call).then(target).flatten());
        if let (Value::Fresh(start), Some(callee)) = (state.get(Gpr::RDI), callee)
            && let Some(pointer) = self.first_parameter(callee)
        {
            uses.push(Use { pointer, start, kind: UseKind::Argument });
        }
        for number in CLOBBERED {
            state.registers[usize::from(number)] = Value::Unknown(Reason::CallResult);
        }
        let result = if self.watch == Some(after) {
            Some(Value::Fresh(0))
        } else {
            callee.and_then(|callee| self.returned_pointer(callee)).map(Value::Pointer)
        };
        if let Some(result) = result {
            state.set(Gpr::RAX, result);
        }
    }

    /// What the pointer that a function returns points to.
    fn returned_pointer(&self, function: Die) -> Option<Pointer> {
        let type_ = self.info.type_of(function)?;
        if self.info.shape(type_)?.bytes() > 16 {
            return None;
        }
        let path = self.info.path_to(type_, 0);
        path.pointer.then(|| self.info.pointer_to(path.pointee, type_.unit))
    }

    fn first_parameter(&self, function: Die) -> Option<Pointer> {
        let mut type_ = None;
        self.info.for_each_child(function, |child, entry| {
            if type_.is_none() && entry.tag() == gimli::DW_TAG_formal_parameter {
                type_ = Some(self.info.type_of(child));
            }
        })?;
        match self.info.shape(type_??)? {
            Shape::Pointer { target, .. } => Some(self.info.pointer_to(target, function.unit)),
            _ => None,
        }
    }
}

/// What holds of both values. Of pointers to an object and to a part of it, where both point to the part, the part's.
fn meet(info: &DebugInfo<'_>, a: Value, b: Value) -> Value {
    let holds = |outer: Pointer, inner: Pointer| {
        let at = Pointer { offset: outer.offset.wrapping_sub(inner.offset), ..outer };
        info.offset_in_target(at).is_ok_and(|offset| info.has_subobject(outer.target, offset, inner.target, 0))
    };
    match (a, b) {
        (Value::Pointer(a), Value::Pointer(b)) if a.target != b.target => {
            let common = if holds(a, b) {
                Pointer { name: a.name.min(b.name), ..b }
            } else if holds(b, a) {
                Pointer { name: a.name.min(b.name), ..a }
            } else {
                return Value::Unknown(Reason::PathsDisagree);
            };
            Value::Pointer(common)
        }
        _ => a.join(b),
    }
}

/// Any part of a general register.
pub(super) fn gpr(register: Register) -> Option<Gpr> {
    register.is_gpr().then(|| Gpr(register.full_register().number() as u8))
}

/// What is left of a value cut to 32 bits: numbers stay (sizes and indices are small), pointers don't.
fn number(value: Value) -> Value {
    match value {
        Value::Constant(_) | Value::Multiple { .. } | Value::Scaled { .. } | Value::Unknown(_) | Value::Unseen => value,
        _ => Value::Unknown(Reason::Arithmetic),
    }
}

fn same_registers(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
}

/// A value with low bits cleared: tags on a pointer go, a frame is aligned.
fn masked(value: Value, mask: Value) -> Value {
    match (value, mask) {
        (Value::Frame(at), Value::Constant(mask @ -4096..0)) => Value::Frame(at & mask),
        (Value::Pointer(pointer), Value::Constant(-16..0)) if pointer.offset == 0 => value,
        _ => Value::Unknown(Reason::Arithmetic),
    }
}

fn is_conditional_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Cmova
            | Cmovae
            | Cmovb
            | Cmovbe
            | Cmove
            | Cmovg
            | Cmovge
            | Cmovl
            | Cmovle
            | Cmovne
            | Cmovno
            | Cmovnp
            | Cmovns
            | Cmovo
            | Cmovp
            | Cmovs
    )
}
