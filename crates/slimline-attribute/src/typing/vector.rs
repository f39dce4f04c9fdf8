//! Pointers that pass through vector registers: two of them are often stored by one instruction.
//!
//! Only the low 8 bytes of a register are followed.

use iced_x86::{Instruction, Mnemonic, OpKind};

use super::function::{Function, Use};
use super::infer::Reason;
use super::state::State;
use super::value::Value;

impl Function<'_, '_> {
    /// Follows a move between vector registers, general registers and memory; whether the instruction is one.
    pub(super) fn step_vector(&self, state: &mut State, index: usize, uses: &mut Vec<Use>) -> bool {
        use Mnemonic::*;
        let instruction = &self.flow.instructions[index];
        match instruction.mnemonic() {
            Movq | Vmovq | Movaps | Movapd | Movups | Movupd | Movdqa | Movdqu | Vmovaps | Vmovapd | Vmovups
            | Vmovupd | Vmovdqa | Vmovdqu => self.move_vector(state, index, uses),
            // These put something above the low 8 bytes.
            Punpcklqdq | Pinsrq | Movhps | Movhpd | Unpcklpd if instruction.op0_kind() == OpKind::Register => {}
            Vpunpcklqdq | Vpinsrq | Vmovhps | Vmovhpd | Vunpcklpd if instruction.op0_kind() == OpKind::Register => {
                if let (Some(to), Some(from)) = (vector(instruction, 0), vector(instruction, 1)) {
                    state.set_vector(to, state.vector(from));
                }
            }
            _ => return false,
        }
        true
    }

    fn move_vector(&self, state: &mut State, index: usize, uses: &mut Vec<Use>) {
        let instruction = &self.flow.instructions[index];
        let value = match (vector(instruction, 1), instruction.op1_kind()) {
            (Some(from), _) => state.vector(from),
            (None, OpKind::Memory) => self.load(state, index),
            (None, _) => self.operand(state, index, 1),
        };
        match (vector(instruction, 0), instruction.op0_kind()) {
            // Nothing is to be known of numbers in vector registers.
            (Some(to), _) => {
                state.set_vector(to, if value.is_address() { value } else { Value::Unknown(Reason::Arithmetic) });
            }
            (None, OpKind::Memory) => self.store_vector(state, index, value, uses),
            (None, _) => self.write(state, index, value, uses),
        }
    }

    fn store_vector(&self, state: &mut State, index: usize, value: Value, uses: &mut Vec<Use>) {
        let bytes = self.flow.instructions[index].memory_size().size() as u64;
        if bytes > 8 {
            self.store(state, index, bytes, Value::Unknown(Reason::Arithmetic), uses);
        }
        self.store(state, index, 8, value, uses);
    }
}

/// Number of the vector register that is the operand.
fn vector(instruction: &Instruction, operand: u32) -> Option<usize> {
    let register = instruction.op_register(operand);
    (instruction.op_kind(operand) == OpKind::Register && register.is_vector_register()).then(|| register.number())
}
