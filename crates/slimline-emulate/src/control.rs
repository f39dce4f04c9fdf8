//! Stack and branches.

use crate::access::{Access, End, Memory};
use crate::flags::{self, condition};
use crate::machine::{Machine, Value};
use crate::op::{Op, Operand};
use crate::state::{RBP, RCX, RSP};

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    #[inline(always)]
    fn stack(&self) -> Result<u64, End> {
        self.state.gpr(RSP).ok_or(End::UnknownAddress)
    }

    #[inline(always)]
    fn push_value(&mut self, bytes: u8, value: Value) -> Result<(), End> {
        let top = self.stack()?.wrapping_sub(u64::from(bytes));
        self.store(top, bytes, value)?;
        self.state.set_gpr(RSP, Some(top));
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, op: &Op) -> Result<(), End> {
        let value = self.read(op, op.a, op.size)?;
        self.push_value(op.size, value)
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self, op: &Op) -> Result<(), End> {
        let top = self.stack()?;
        let value = self.load(top, op.size)?;
        self.state.set_gpr(RSP, Some(top.wrapping_add(u64::from(op.size))));
        // An address with rsp as base is computed after the increment: write after it.
        let written = self.write(op, op.a, op.size, value);
        if written.is_err() {
            self.state.set_gpr(RSP, Some(top));
        }
        written
    }

    /// The reserved and system bits are not tracked: what is pushed is unknown.
    pub(crate) fn push_flags(&mut self, op: &Op) -> Result<(), End> {
        self.push_value(op.size, None)
    }

    pub(crate) fn pop_flags(&mut self, op: &Op) -> Result<(), End> {
        let top = self.stack()?;
        let value = self.load(top, op.size)?;
        self.state.set_gpr(RSP, Some(top.wrapping_add(u64::from(op.size))));
        match value {
            Some(value) => self.state.put_flags(flags::ALL, value, 0),
            None => self.state.put_flags(0, 0, flags::ALL),
        }
        Ok(())
    }

    pub(crate) fn enter(&mut self, op: &Op) -> Result<(), End> {
        let frame = self.state.gpr(RBP);
        self.push_value(8, frame)?;
        let top = self.stack()?;
        self.state.set_gpr(RBP, Some(top));
        self.state.set_gpr(RSP, Some(top.wrapping_sub(op.immediate & 0xffff)));
        Ok(())
    }

    pub(crate) fn leave(&mut self) -> Result<(), End> {
        let frame = self.state.gpr(RBP).ok_or(End::UnknownAddress)?;
        let saved = self.load(frame, 8)?;
        self.state.set_gpr(RSP, Some(frame.wrapping_add(8)));
        self.state.set_gpr(RBP, saved);
        Ok(())
    }

    #[inline(always)]
    fn target(&mut self, op: &Op) -> Result<u64, End> {
        match op.a {
            Operand::Immediate => Ok(op.immediate),
            _ => self.read(op, op.a, 8)?.ok_or(End::UnknownTarget),
        }
    }

    /// Calls; returns the target.
    #[inline(always)]
    pub(crate) fn call(&mut self, op: &Op, next: u64) -> Result<u64, End> {
        let target = self.target(op)?;
        self.push_value(8, Some(next))?;
        Ok(target)
    }

    #[inline(always)]
    pub(crate) fn jump(&mut self, op: &Op) -> Result<u64, End> {
        self.target(op)
    }

    #[inline(always)]
    pub(crate) fn return_near(&mut self, op: &Op) -> Result<u64, End> {
        let top = self.stack()?;
        let target = self.load(top, 8)?.ok_or(End::UnknownTarget)?;
        self.state.set_gpr(RSP, Some(top.wrapping_add(8 + (op.immediate & 0xffff))));
        Ok(target)
    }

    #[inline(always)]
    pub(crate) fn jump_if(&mut self, op: &Op, number: u8, next: u64) -> Result<u64, End> {
        match condition(number, self.state) {
            Some(true) => Ok(op.immediate),
            Some(false) => Ok(next),
            None => Err(End::UnknownCondition),
        }
    }

    /// `loop`, `loope`, `loopne` and `jrcxz`.
    pub(crate) fn loop_or_skip(&mut self, op: &Op, kind: u8, next: u64) -> Result<u64, End> {
        const EQUAL: u8 = 4;
        let count = self.state.gpr(RCX).ok_or(End::UnknownCondition)? & flags::ones(op.size);
        let taken = match kind {
            3 => count == 0,
            _ => {
                let left = count.wrapping_sub(1) & flags::ones(op.size);
                let holds = match kind {
                    0 => true,
                    1 => condition(EQUAL, self.state).ok_or(End::UnknownCondition)?,
                    _ => !condition(EQUAL, self.state).ok_or(End::UnknownCondition)?,
                };
                self.write_gpr(RCX as u8, op.size, Some(left));
                left != 0 && holds
            }
        };
        Ok(if taken { op.immediate } else { next })
    }
}
