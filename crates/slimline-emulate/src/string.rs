//! String instructions.
//!
//! A repeated one proceeds in groups: consecutive elements of up to 64 bytes are reported as one
//! access of their total size (one per stream), and each group counts as one instruction of the
//! burst. Between groups the state is what an interrupt would see: RIP still at the instruction,
//! the count and pointers advanced. Groups shrink to one element when the streams overlap closely,
//! run downwards, or compare (which may stop at any element).

use crate::access::{Access, AccessKind, End, Memory};
use crate::flags::{self, DF};
use crate::machine::Machine;
use crate::op::{Op, Operand, Repeat, Text};
use crate::state::{RAX, RCX, RDI, RSI};

const GROUP_BYTES: u64 = 64;

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    /// Executes one element or group; returns the next instruction pointer.
    pub(crate) fn text(&mut self, op: &Op, text: Text, repeat: Repeat, next: u64) -> Result<u64, End> {
        let bytes = op.size;
        let count = match repeat {
            Repeat::Once => 1,
            _ => self.state.gpr(RCX).ok_or(End::UnknownCondition)?,
        };
        if count == 0 {
            return Ok(next);
        }
        if self.state.flags_known & DF == 0 {
            return Err(End::UnknownCondition);
        }
        let down = self.state.flags & DF != 0;
        let advance = |from: u64, elements: u64| {
            let distance = elements.wrapping_mul(u64::from(bytes));
            if down { from.wrapping_sub(distance) } else { from.wrapping_add(distance) }
        };
        let elements = match text {
            Text::Move => {
                let (from, to) = (self.pointer(RSI)?, self.pointer(RDI)?);
                let group = if down || from.abs_diff(to) < GROUP_BYTES { 1 } else { group(count, bytes) };
                self.move_group(from, to, group * u64::from(bytes))?;
                self.state.set_gpr(RSI, Some(advance(from, group)));
                self.state.set_gpr(RDI, Some(advance(to, group)));
                group
            }
            Text::Store => {
                let to = self.pointer(RDI)?;
                let group = if down { 1 } else { group(count, bytes) };
                let value = self.read_register(op, Operand::Gpr(RAX as u8), bytes);
                for element in 0..group {
                    self.poke(to.wrapping_add(element * u64::from(bytes)), bytes, value)?;
                }
                self.report(to, (group * u64::from(bytes)) as u16, AccessKind::Store, false);
                self.state.set_gpr(RDI, Some(advance(to, group)));
                group
            }
            Text::Load => {
                let from = self.pointer(RSI)?;
                let value = self.load(from, bytes)?;
                self.write_gpr(RAX as u8, bytes, value);
                self.state.set_gpr(RSI, Some(advance(from, 1)));
                1
            }
            Text::Compare => {
                let (from, to) = (self.pointer(RSI)?, self.pointer(RDI)?);
                let (a, b) = (self.load(from, bytes)?, self.load(to, bytes)?);
                self.compare_elements(a, b, bytes, repeat)?;
                self.state.set_gpr(RSI, Some(advance(from, 1)));
                self.state.set_gpr(RDI, Some(advance(to, 1)));
                1
            }
            Text::Scan => {
                let to = self.pointer(RDI)?;
                let a = self.read_register(op, Operand::Gpr(RAX as u8), bytes);
                let b = self.load(to, bytes)?;
                self.compare_elements(a, b, bytes, repeat)?;
                self.state.set_gpr(RDI, Some(advance(to, 1)));
                1
            }
        };
        if repeat == Repeat::Once {
            return Ok(next);
        }
        let left = count - elements;
        self.state.set_gpr(RCX, Some(left));
        let equal = self.state.flags & flags::ZF != 0;
        let stopped = match repeat {
            Repeat::WhileEqual => !equal,
            Repeat::WhileUnequal => equal,
            _ => false,
        };
        Ok(if left == 0 || stopped { next } else { self.state.rip })
    }

    fn pointer(&self, register: usize) -> Result<u64, End> {
        self.state.gpr(register).ok_or(End::UnknownAddress)
    }

    fn move_group(&mut self, from: u64, to: u64, bytes: u64) -> Result<(), End> {
        let mut buffer = [0; GROUP_BYTES as usize];
        let buffer = &mut buffer[..bytes as usize];
        let known = self.overlay.load_bytes(self.memory, from, buffer)?;
        self.overlay.store_bytes(self.memory, to, buffer, known)?;
        self.report(from, bytes as u16, AccessKind::Load, false);
        self.report(to, bytes as u16, AccessKind::Store, false);
        Ok(())
    }

    fn compare_elements(&mut self, a: Option<u64>, b: Option<u64>, bytes: u8, repeat: Repeat) -> Result<(), End> {
        let flags = a.zip(b).map(|(a, b)| flags::subtract(a, b, 0, bytes).1);
        if flags.is_none() && repeat != Repeat::Once {
            return Err(End::UnknownCondition);
        }
        Self::put_status(self.state, flags);
        Ok(())
    }
}

/// Elements of the next group.
fn group(count: u64, bytes: u8) -> u64 {
    count.min(GROUP_BYTES / u64::from(bytes))
}
