//! Decoded vector instruction to [`Op`].

use iced_x86::Instruction;

use crate::op::Op;

pub(crate) fn lower(_instruction: &Instruction, _op: &mut Op) -> bool {
    false
}
