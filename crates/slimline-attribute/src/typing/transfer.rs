//! What one instruction does to what is known of registers and stack slots.

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind};

use super::debug_info::Die;
use super::function::{Function, Handed, Use, UseKind, Watch};
use super::infer::Reason;
use super::location::{Gpr, gpr};
use super::shape::Shape;
use super::state::State;
use super::value::{Pointer, Value};
use crate::code::effects::{is_conditional_move, may_write};

/// Registers that a called function may change (System V).
pub(super) const CLOBBERED: [u8; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];

/// Functions that return their first argument.
const RETURN_FIRST: [&str; 5] = ["memcpy", "memmove", "memset", "strcpy", "strcat"];

impl Function<'_, '_> {
    /// A source operand as a 64-bit value.
    pub(super) fn operand(&self, state: &State, index: usize, operand: u32) -> Value {
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
    pub(super) fn write(&self, state: &mut State, index: usize, value: Value, uses: &mut Vec<Use>) {
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
        let value = match value {
            // Room for an array of a length that is not known: below all variables.
            Value::FrameRun { .. } if register == Gpr::RSP => Value::Unknown(Reason::Arithmetic),
            value => value,
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
        if self.step_vector(state, index, uses) {
            return;
        }
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
            Value::Frame(at) => state.slot(at).unwrap_or(Value::Unknown(Reason::FromCaller)),
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
        if instruction.op0_kind() == OpKind::Memory && may_write(factory.info(instruction).op0_access()) {
            let bytes = instruction.memory_size().size() as u64;
            self.store(state, index, bytes, lost, uses);
        }
        for used in factory.info(instruction).used_registers() {
            if may_write(used.access()) && used.register().is_vector_register() {
                state.set_vector(used.register().number(), lost);
            }
            if may_write(used.access())
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
        let first = state.get(Gpr::RDI);
        let returns_first = callee.is_some_and(|callee| {
            let name = self.info.name(callee).unwrap_or_default();
            RETURN_FIRST.contains(&name.strip_prefix("__builtin_").unwrap_or(&*name))
        });
        if let Some(Watch { return_address, handed: Handed::Built(offset) }) = self.watch
            && return_address == after
        {
            let room = first.plus(Value::Constant(offset));
            self.store_at(state, index, room, 8, Value::Fresh(0), uses);
        }
        for number in CLOBBERED {
            state.registers[usize::from(number)] = Value::Unknown(Reason::CallResult);
        }
        let returned = |watch: Watch| watch.return_address == after && watch.handed == Handed::Returned;
        let result = if self.watch.is_some_and(returned) {
            Some(Value::Fresh(0))
        } else if returns_first {
            Some(first)
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
