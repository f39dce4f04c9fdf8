//! Exchanges: `xchg`, `xadd`, `cmpxchg`, `cmpxchg8b`, `cmpxchg16b`.

use crate::access::{Access, AccessKind, End, Memory};
use crate::flags::{self, ZF, ones};
use crate::machine::Machine;
use crate::op::{Op, Operand};
use crate::state::{RAX, RBX, RCX, RDX};

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    pub(crate) fn exchange(&mut self, op: &Op) -> Result<(), End> {
        let bytes = op.size;
        let b = self.read_register(op, op.b, bytes);
        let mut old = None;
        self.update(op, |_, a| {
            old = a;
            b
        })?;
        self.write_register(op.b, bytes, old);
        Ok(())
    }

    pub(crate) fn exchange_add(&mut self, op: &Op) -> Result<(), End> {
        let bytes = op.size;
        let b = self.read_register(op, op.b, bytes);
        let (mut old, mut sum) = (None, None);
        self.update(op, |state, a| {
            old = a;
            let outcome = a.zip(b).map(|(a, b)| flags::add(a, b, 0, bytes));
            Self::put_status(state, outcome.map(|(_, flags)| flags));
            sum = outcome.map(|(sum, _)| sum);
            sum
        })?;
        self.write_register(op.b, bytes, old);
        if op.a == op.b {
            // The destination is written last.
            self.write_register(op.a, bytes, sum);
        }
        Ok(())
    }

    /// Memory is written in either case (with its old value on failure), as hardware does.
    pub(crate) fn compare_exchange(&mut self, op: &Op) -> Result<(), End> {
        let bytes = op.size;
        let accumulator = self.read_register(op, Operand::Gpr(RAX as u8), bytes);
        let b = self.read_register(op, op.b, bytes);
        let (mut old, mut equal) = (None, None);
        let kept = match op.a {
            Operand::Gpr(register) => Some((register, self.state.gpr(usize::from(register)))),
            _ => None,
        };
        self.update(op, |state, a| {
            old = a;
            let outcome = accumulator.zip(a).map(|(accumulator, a)| flags::subtract(accumulator, a, 0, bytes));
            Self::put_status(state, outcome.map(|(_, flags)| flags));
            equal = outcome.map(|(difference, _)| difference == 0);
            match equal {
                Some(true) => b,
                Some(false) => a,
                None => None,
            }
        })?;
        match equal {
            Some(true) => {}
            Some(false) => {
                // A register keeps its upper half too.
                if let Some((register, value)) = kept {
                    self.state.set_gpr(usize::from(register), value);
                }
                self.write_gpr(RAX as u8, bytes, old);
            }
            None => self.write_gpr(RAX as u8, bytes, None),
        }
        Ok(())
    }

    pub(crate) fn compare_exchange_pair(&mut self, op: &Op) -> Result<(), End> {
        let half = op.size / 2;
        let address = self.address(op)?;
        let upper = address.wrapping_add(u64::from(half));
        let (low, high) = (self.peek(address, half)?, self.peek(upper, half)?);
        let read = |register: usize| self.state.gpr(register).map(|value| value & ones(half));
        let (rax, rdx, rbx, rcx) = (read(RAX), read(RDX), read(RBX), read(RCX));
        let equal = match (low, high, rax, rdx) {
            (Some(low), Some(high), Some(rax), Some(rdx)) => Some(low == rax && high == rdx),
            _ => None,
        };
        let (new_low, new_high) = match equal {
            Some(true) => (rbx, rcx),
            Some(false) => (low, high),
            None => (None, None),
        };
        self.poke(address, half, new_low)?;
        self.poke(upper, half, new_high)?;
        self.report(address, u16::from(op.size), AccessKind::Update, op.atomic);
        match equal {
            Some(true) => self.state.put_flags(ZF, ZF, 0),
            Some(false) => {
                self.state.put_flags(ZF, 0, 0);
                self.write_gpr(RAX as u8, half, low);
                self.write_gpr(RDX as u8, half, high);
            }
            None => {
                self.state.put_flags(0, 0, ZF);
                self.write_gpr(RAX as u8, half, None);
                self.write_gpr(RDX as u8, half, None);
            }
        }
        Ok(())
    }
}
