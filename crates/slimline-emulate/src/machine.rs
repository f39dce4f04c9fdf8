//! One instruction at work: operands, accesses and writes to the state.

use crate::access::{Access, AccessKind, End, Memory};
use crate::flags::{self, ones};
use crate::op::{Op, Operand};
use crate::overlay::Overlay;
use crate::state::State;

/// Everything an instruction touches.
pub(crate) struct Machine<'a, M, S> {
    pub(crate) state: &'a mut State,
    pub(crate) memory: &'a mut M,
    pub(crate) overlay: &'a mut Overlay,
    pub(crate) sink: &'a mut S,
}

/// A value of up to 8 bytes; `None` is poison.
pub(crate) type Value = Option<u64>;

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    /// Address of the memory operand.
    #[inline(always)]
    pub(crate) fn address(&self, op: &Op) -> Result<u64, End> {
        op.place.address(&self.state.registers).ok_or(End::UnknownAddress)
    }

    /// Reports an access of the instruction at the current RIP.
    #[inline(always)]
    pub(crate) fn report(&mut self, address: u64, bytes: u16, kind: AccessKind, atomic: bool) {
        (self.sink)(Access { ip: self.state.rip, address, bytes, kind, atomic });
    }

    /// Reads 1 to 8 bytes without reporting them.
    #[inline(always)]
    pub(crate) fn peek(&mut self, address: u64, bytes: u8) -> Result<Value, End> {
        self.overlay.load(self.memory, address, bytes as usize)
    }

    /// Writes 1 to 8 bytes without reporting them.
    #[inline(always)]
    pub(crate) fn poke(&mut self, address: u64, bytes: u8, value: Value) -> Result<(), End> {
        self.overlay.store(self.memory, address, bytes as usize, value)
    }

    /// Loads 1 to 8 bytes.
    #[inline(always)]
    pub(crate) fn load(&mut self, address: u64, bytes: u8) -> Result<Value, End> {
        let value = self.peek(address, bytes)?;
        self.report(address, u16::from(bytes), AccessKind::Load, false);
        Ok(value)
    }

    /// Stores 1 to 8 bytes.
    #[inline(always)]
    pub(crate) fn store(&mut self, address: u64, bytes: u8, value: Value) -> Result<(), End> {
        self.poke(address, bytes, value)?;
        self.report(address, u16::from(bytes), AccessKind::Store, false);
        Ok(())
    }

    /// Reads an operand of `bytes`, zero-extended.
    #[inline(always)]
    pub(crate) fn read(&mut self, op: &Op, operand: Operand, bytes: u8) -> Result<Value, End> {
        match operand {
            Operand::Memory => {
                let address = self.address(op)?;
                self.load(address, bytes)
            }
            _ => Ok(self.read_register(op, operand, bytes)),
        }
    }

    /// Reads an operand that is not memory.
    #[inline(always)]
    pub(crate) fn read_register(&mut self, op: &Op, operand: Operand, bytes: u8) -> Value {
        match operand {
            Operand::Gpr(register) => self.state.gpr(register as usize).map(|value| value & ones(bytes)),
            Operand::Immediate => Some(op.immediate & ones(bytes)),
            Operand::High(register) => self.state.gpr(register as usize).map(|value| value >> 8 & 0xff),
            _ => None,
        }
    }

    /// The general register that the operand is known to be.
    #[inline(always)]
    pub(crate) fn register(&self, operand: Operand, bytes: u8) -> Value {
        let Operand::Gpr(register) = operand else { return None };
        self.state.gpr(register as usize).map(|value| value & ones(bytes))
    }

    /// Sets the general register that the operand is known to be; `value` has no bits above 4 or 8 bytes.
    #[inline(always)]
    pub(crate) fn set_register(&mut self, operand: Operand, value: Value) {
        if let Operand::Gpr(register) = operand {
            self.state.set_gpr(register as usize, value);
        }
    }

    /// Writes a register operand as x86-64 does: 4 bytes clear the upper half, 1 and 2 keep the rest.
    #[inline(always)]
    pub(crate) fn write_register(&mut self, operand: Operand, bytes: u8, value: Value) {
        match operand {
            Operand::Gpr(register) => self.write_gpr(register, bytes, value),
            Operand::High(register) => {
                let register = register as usize;
                let merged = self.state.gpr(register).zip(value).map(|(old, new)| old & !0xff00 | (new & 0xff) << 8);
                self.state.set_gpr(register, merged);
            }
            _ => {}
        }
    }

    /// Writes the low `bytes` of a general-purpose register.
    #[inline(always)]
    pub(crate) fn write_gpr(&mut self, register: u8, bytes: u8, value: Value) {
        let register = register as usize;
        if bytes >= 4 {
            self.state.set_gpr(register, value.map(|value| value & ones(bytes)));
        } else {
            let kept = !ones(bytes);
            let merged = self.state.gpr(register).zip(value).map(|(old, new)| old & kept | new & !kept);
            self.state.set_gpr(register, merged);
        }
    }

    /// Writes an operand; memory is reported as a store.
    #[inline(always)]
    pub(crate) fn write(&mut self, op: &Op, operand: Operand, bytes: u8, value: Value) -> Result<(), End> {
        if operand == Operand::Memory {
            let address = self.address(op)?;
            return self.store(address, bytes, value);
        }
        self.write_register(operand, bytes, value);
        Ok(())
    }

    /// Replaces operand `a` by `change` of it. In memory that is one access of kind `Update`, and the
    /// state is changed only when the access succeeded.
    #[inline(always)]
    pub(crate) fn update(&mut self, op: &Op, change: impl FnOnce(&mut State, Value) -> Value) -> Result<(), End> {
        if op.a != Operand::Memory {
            let old = self.read_register(op, op.a, op.size);
            let new = change(self.state, old);
            self.write_register(op.a, op.size, new);
            return Ok(());
        }
        let address = self.address(op)?;
        self.update_at(address, op.size, op.atomic, change)
    }

    /// As `update`, for memory at `address`.
    #[inline(always)]
    pub(crate) fn update_at(
        &mut self,
        address: u64,
        bytes: u8,
        atomic: bool,
        change: impl FnOnce(&mut State, Value) -> Value,
    ) -> Result<(), End> {
        let old = self.peek(address, bytes)?;
        // Reserves the cells, so that the store after the change to the state cannot fail.
        self.poke(address, bytes, old)?;
        let new = change(self.state, old);
        self.poke(address, bytes, new)?;
        self.report(address, u16::from(bytes), AccessKind::Update, atomic);
        Ok(())
    }

    /// Sets all status flags from a computation, or poisons them.
    #[inline(always)]
    pub(crate) fn put_status(state: &mut State, flags: Option<u64>) {
        match flags {
            Some(values) => state.put_flags(flags::STATUS, values, 0),
            None => state.put_flags(0, 0, flags::STATUS),
        }
    }
}
