//! What registers and words of the frame hold, as far as handing a block on goes.

use std::collections::BTreeMap;

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use super::Inside;
use crate::code::effects::{is_conditional_move, may_write};

/// A value: what it follows from, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value {
    /// The function's arguments that it was computed of, bit by bit.
    pub(super) arguments: u8,
    pub(super) is: Is,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Is {
    /// Not known.
    Anything,
    Zero,
    /// The argument as it was passed.
    Argument(u8),
    /// An address in the frame, from the stack pointer at the entry.
    Frame(i64),
    /// A pointer into the block, on some way at least; `None` where it may be to several places.
    Block(Option<Inside>),
}

impl Value {
    /// Nothing is known.
    pub(super) const ANY: Self = Self { arguments: 0, is: Is::Anything };

    /// What was computed of this in a way that is not known.
    pub(super) fn any(self) -> Self {
        Self { is: Is::Anything, ..self }
    }

    fn join(self, other: Self) -> Self {
        let is = match (self.is, other.is) {
            (one, another) if one == another => one,
            (Is::Block(_), Is::Block(_)) => Is::Block(None),
            (block @ Is::Block(_), _) | (_, block @ Is::Block(_)) => block,
            _ => Is::Anything,
        };
        Self { arguments: self.arguments | other.arguments, is }
    }

    /// This and a number.
    fn plus(self, more: i64) -> Self {
        let is = match self.is {
            is if more == 0 => is,
            Is::Frame(at) => Is::Frame(at.wrapping_add(more)),
            Is::Block(Some(Inside { base, offset })) => {
                Is::Block(Some(Inside { base, offset: offset.wrapping_add(more) }))
            }
            Is::Block(None) => Is::Block(None),
            _ => Is::Anything,
        };
        Self { is, ..self }
    }

    /// This and what is not known, added by an instruction at `ip`: another base for offsets.
    fn plus_unknown(self, other: Self, ip: u64) -> Self {
        let base = (ip as u32).max(1);
        let is = match (self.is, other.is) {
            (Is::Block(Some(_)), Is::Block(_)) | (Is::Block(None), _) | (_, Is::Block(None)) => Is::Block(None),
            (Is::Block(Some(_)), _) | (_, Is::Block(Some(_))) => Is::Block(Some(Inside { base, offset: 0 })),
            (Is::Zero, is) | (is, Is::Zero) => is,
            _ => Is::Anything,
        };
        Self { arguments: self.arguments | other.arguments, is }
    }
}

/// Registers of the first six arguments (System V).
const ARGUMENTS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];

/// Registers that the System V ABI makes a called function keep.
const KEPT: [Register; 7] =
    [Register::RSP, Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

#[derive(Clone, PartialEq, Eq)]
pub(super) struct State {
    registers: [Value; 16],
    /// Words of the frame; nothing is known of those that are missing.
    slots: BTreeMap<i64, Value>,
    /// Vector registers that are zero, bit by bit.
    zero_vectors: u32,
}

impl State {
    pub(super) fn at_entry() -> Self {
        let mut state = Self::unknown();
        for (argument, register) in (0..).zip(ARGUMENTS) {
            state.set(register, Value { arguments: 1 << argument, is: Is::Argument(argument) });
        }
        state.set(Register::RSP, Value { arguments: 0, is: Is::Frame(0) });
        state
    }

    pub(super) fn unknown() -> Self {
        Self { registers: [Value::ANY; 16], slots: BTreeMap::new(), zero_vectors: 0 }
    }

    /// Takes in what holds on another way to the same place; whether anything changed.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let before = self.clone();
        for (known, other) in self.registers.iter_mut().zip(other.registers) {
            *known = known.join(other);
        }
        for (&at, &value) in &other.slots {
            let known = self.slots.get(&at).copied().unwrap_or(Value::ANY);
            self.slots.insert(at, known.join(value));
        }
        for (at, known) in &mut self.slots {
            if !other.slots.contains_key(at) {
                *known = known.join(Value::ANY);
            }
        }
        self.zero_vectors &= other.zero_vectors;
        *self != before
    }

    /// The same where what `register` holds is null, if that is what the allocator returned.
    pub(super) fn without_block(&self, register: Register) -> Option<Self> {
        let given = Is::Block(Some(Inside::START));
        let mut without = self.clone();
        let pointers = without.registers.iter_mut().chain(without.slots.values_mut()).filter(|value| value.is == given);
        pointers.for_each(|value| value.is = Is::Zero);
        (self.get(register).is == given).then_some(without)
    }

    /// What the next call is passed as an argument.
    pub(super) fn argument(&self, argument: u8) -> Value {
        ARGUMENTS.get(usize::from(argument)).map_or(Value::ANY, |&register| self.get(register))
    }

    /// What is returned if the function returns now.
    pub(super) fn returned(&self) -> Value {
        self.get(Register::RAX)
    }

    /// After a call that returned `result`.
    pub(super) fn call(&mut self, result: Value) {
        let kept = KEPT.map(|register| (register, self.get(register)));
        self.registers = [Value::ANY; 16];
        kept.into_iter().for_each(|(register, value)| self.set(register, value));
        self.set(Register::RAX, result);
        self.zero_vectors = 0;
    }

    /// Stores a value at an address.
    pub(super) fn store(&mut self, to: Value, value: Value) {
        if let Is::Frame(at) = to.is {
            self.slots.insert(at, value);
        }
    }

    /// The address that an instruction stores to, and what it stores there.
    pub(super) fn stored(
        &self,
        instruction: &Instruction,
        factory: &mut InstructionInfoFactory,
    ) -> Option<(Value, Value)> {
        if instruction.op_count() == 0 || instruction.op0_kind() != OpKind::Memory {
            return None;
        }
        let writes = factory.info(instruction).used_memory().iter().any(|memory| may_write(memory.access()));
        let is_copy = instruction.op_count() == 2 && is_move(instruction.mnemonic());
        writes.then(|| (self.address(instruction), if is_copy { self.operand(instruction, 1) } else { Value::ANY }))
    }

    pub(super) fn step(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        match instruction.mnemonic() {
            Mnemonic::Push => {
                let value = self.operand(instruction, 0);
                let top = self.get(Register::RSP).plus(-8);
                self.set(Register::RSP, top);
                return self.store(top, value);
            }
            Mnemonic::Pop => return self.pop(instruction.op0_register()),
            Mnemonic::Leave => {
                self.set(Register::RSP, self.get(Register::RBP));
                return self.pop(Register::RBP);
            }
            _ => {}
        }
        let value = self.result(instruction, factory);
        let to = self.stored(instruction, factory).map(|(to, _)| to);
        let info = factory.info(instruction);
        for used in info.used_registers().iter().filter(|used| may_write(used.access())) {
            let register = used.register();
            if register.is_vector_register() {
                self.set_vector(register, value.is == Is::Zero);
            } else {
                let whole = register.is_gpr64() || register.is_gpr32();
                let is_first = instruction.op0_kind() == OpKind::Register
                    && instruction.op0_register().full_register() == register.full_register();
                self.set(register, if whole && is_first { value } else { value.any() });
            }
        }
        if let Some(to) = to {
            self.store(to, value);
        }
    }

    /// What an instruction makes its first operand.
    fn result(&self, instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Value {
        let operand = |number| self.operand(instruction, number);
        let has_two = instruction.op_count() == 2;
        match instruction.mnemonic() {
            mnemonic if has_two && is_move(mnemonic) => operand(1),
            mnemonic if is_conditional_move(mnemonic) => operand(0).join(operand(1)),
            Mnemonic::Lea => self.address(instruction),
            Mnemonic::Add | Mnemonic::Sub if is_immediate(instruction.op1_kind()) => {
                let number = instruction.immediate(1).cast_signed();
                operand(0).plus(if instruction.mnemonic() == Mnemonic::Add { number } else { number.wrapping_neg() })
            }
            Mnemonic::Add => operand(0).plus_unknown(operand(1), instruction.ip()),
            Mnemonic::Inc => operand(0).plus(1),
            Mnemonic::Dec => operand(0).plus(-1),
            // A masked pointer is where the block was aligned to.
            Mnemonic::And
                if is_immediate(instruction.op1_kind()) && matches!(operand(0).is, Is::Block(_) | Is::Frame(_)) =>
            {
                operand(0)
            }
            mnemonic if is_cleared_by_itself(mnemonic) && is_same_twice(instruction) => {
                Value { arguments: 0, is: Is::Zero }
            }
            _ => self.mixture(instruction, factory),
        }
    }

    /// What was computed of all that an instruction reads, but for what pointers point to: a size in a structure of the
    /// caller's is not one that was passed.
    fn mixture(&self, instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Value {
        let mut arguments = 0;
        for number in 0..instruction.op_count() {
            arguments |= self.operand(instruction, number).arguments;
        }
        let info = factory.info(instruction);
        let has_memory = !info.used_memory().is_empty();
        for used in info.used_registers().iter().filter(|used| used.access() == OpAccess::Read) {
            let register = used.register();
            let points = has_memory && [instruction.memory_base(), instruction.memory_index()].contains(&register);
            if register.is_gpr() && !points {
                arguments |= self.get(register).arguments;
            }
        }
        Value { arguments, is: Is::Anything }
    }

    fn operand(&self, instruction: &Instruction, number: u32) -> Value {
        match instruction.op_kind(number) {
            OpKind::Register => {
                let register = instruction.op_register(number);
                let value = self.get(register);
                let keeps = register.is_gpr64() || register.is_gpr32() && !matches!(value.is, Is::Block(_));
                if keeps || register.is_vector_register() { value } else { value.any() }
            }
            OpKind::Memory => match self.address(instruction).is {
                Is::Frame(at) => self.slots.get(&at).copied().unwrap_or(Value::ANY),
                _ => Value::ANY,
            },
            kind if is_immediate(kind) && instruction.immediate(number) == 0 => Value { arguments: 0, is: Is::Zero },
            _ => Value::ANY,
        }
    }

    /// The address of an instruction's memory operand.
    fn address(&self, instruction: &Instruction) -> Value {
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let is_frame_segment = matches!(instruction.segment_prefix(), Register::FS | Register::GS);
        if is_frame_segment || instruction.is_ip_rel_memory_operand() || !is_none_or_gpr(index) {
            return Value::ANY;
        }
        let displacement = instruction.memory_displacement64().cast_signed();
        let start = if base == Register::None { Value::ANY } else { self.get(base).plus(displacement) };
        if index == Register::None {
            return start;
        }
        let scaled = self.get(index);
        match (instruction.mnemonic(), instruction.memory_index_scale()) {
            (Mnemonic::Lea, 1) => self.get(base).plus_unknown(scaled, instruction.ip()).plus(displacement),
            // What runs over the block is no place in it.
            _ => {
                let is = match start.is {
                    Is::Block(_) => Is::Block(None),
                    _ => Is::Anything,
                };
                Value { arguments: start.arguments | scaled.arguments, is }
            }
        }
    }

    fn pop(&mut self, into: Register) {
        let top = self.get(Register::RSP);
        let value = match top.is {
            Is::Frame(at) => self.slots.get(&at).copied().unwrap_or(Value::ANY),
            _ => Value::ANY,
        };
        self.set(Register::RSP, top.plus(8));
        self.set(into, value);
    }

    fn get(&self, register: Register) -> Value {
        if register.is_vector_register() {
            let is_zero = self.zero_vectors & 1 << register.number() != 0;
            return Value { arguments: 0, is: if is_zero { Is::Zero } else { Is::Anything } };
        }
        if !register.is_gpr() {
            return Value::ANY;
        }
        self.registers[register.full_register().number()]
    }

    fn set(&mut self, register: Register, value: Value) {
        if register.is_gpr() {
            self.registers[register.full_register().number()] = value;
        }
    }

    fn set_vector(&mut self, register: Register, is_zero: bool) {
        let bit = 1 << register.number();
        self.zero_vectors = if is_zero { self.zero_vectors | bit } else { self.zero_vectors & !bit };
    }
}

fn is_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Mov | Movzx
            | Movsx
            | Movsxd
            | Movq
            | Movd
            | Movaps
            | Movups
            | Movdqa
            | Movdqu
            | Movapd
            | Movupd
            | Vmovaps
            | Vmovups
            | Vmovdqa
            | Vmovdqu
            | Vmovq
            | Vmovd
            | Vmovdqu8
            | Vmovdqu64
    )
}

fn is_cleared_by_itself(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(mnemonic, Xor | Sub | Pxor | Xorps | Xorpd | Vpxor | Vxorps | Vxorpd)
}

fn is_same_twice(instruction: &Instruction) -> bool {
    let last = instruction.op_count() - 1;
    (0..instruction.op_count()).all(|operand| instruction.op_kind(operand) == OpKind::Register)
        && instruction.op_register(last) == instruction.op_register(last - 1)
}

fn is_immediate(kind: OpKind) -> bool {
    use OpKind::*;
    matches!(
        kind,
        Immediate8
            | Immediate16
            | Immediate32
            | Immediate64
            | Immediate8to16
            | Immediate8to32
            | Immediate8to64
            | Immediate32to64
    )
}

fn is_none_or_gpr(register: Register) -> bool {
    register == Register::None || register.is_gpr()
}
