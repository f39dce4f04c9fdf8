//! Vector instructions.

use crate::access::{Access, End, Memory};
use crate::machine::Machine;
use crate::op::Op;

/// What a vector instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum VectorWork {
    /// a = c.
    Move,
}

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    pub(crate) fn vector(&mut self, _op: &Op, _work: VectorWork) -> Result<(), End> {
        Err(End::Undecodable)
    }
}

/// Whether the instruction returns an index in `ecx`.
pub(crate) fn writes_rcx(_work: crate::op::Work) -> bool {
    false
}

/// Whether the address has a vector as index.
pub(crate) fn gathers(_work: crate::op::Work) -> bool {
    false
}
