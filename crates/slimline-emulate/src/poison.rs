//! Instructions whose results are not computed: what they read is reported, what they write is
//! forgotten.

use crate::access::{Access, AccessKind, End, Memory};
use crate::machine::Machine;
use crate::op::{Op, Operand};
use crate::state::State;

/// Largest block poisoned in the overlay by one store.
const CHUNK_BYTES: u64 = 8;

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    /// Memory (if any) is a source; `a` is written if a register; flags in the immediate's upper
    /// half are written.
    pub(crate) fn poison(&mut self, op: &Op) -> Result<(), End> {
        if op.a == Operand::Memory || op.b == Operand::Memory || op.c == Operand::Memory || op.d == Operand::Memory {
            let address = self.address(op)?;
            let mut probe = [0; 1];
            let last = address.wrapping_add(u64::from(op.from.max(1)) - 1);
            if !self.memory.read(address, &mut probe) || !self.memory.read(last, &mut probe) {
                return Err(End::Fault);
            }
            self.report(address, op.from, AccessKind::Load, false);
        }
        self.forget_destination(op);
        Ok(())
    }

    /// Memory is the destination and becomes unknown.
    pub(crate) fn poison_store(&mut self, op: &Op) -> Result<(), End> {
        let address = self.address(op)?;
        let end = u64::from(op.from);
        let mut at = 0;
        while at < end {
            let bytes = CHUNK_BYTES.min(end - at);
            self.poke(address.wrapping_add(at), bytes as u8, None)?;
            at += bytes;
        }
        self.report(address, op.from, AccessKind::Store, false);
        let flags = op.immediate >> 32;
        self.state.put_flags(0, 0, flags);
        Ok(())
    }

    /// Makes the register destination and the flags in the immediate's upper half unknown.
    pub(crate) fn forget_destination(&mut self, op: &Op) {
        match op.a {
            Operand::Gpr(register) | Operand::High(register) => self.state.set_gpr(register as usize, None),
            Operand::Vector(register) => self.state.vectors_known[register as usize & 31] = 0,
            Operand::Mask(register) => self.state.set_opmask(register as usize, None),
            _ => {}
        }
        self.state.put_flags(0, 0, op.immediate >> 32);
    }
}

impl State {
    /// Base of `fs` (true) or `gs`, if known.
    pub(crate) fn base(&self, fs: bool) -> Option<u64> {
        let index = if fs { crate::state::FS_BASE } else { crate::state::GS_BASE };
        (self.registers.known >> index & 1 == 1).then_some(self.registers.values[index])
    }
}
