//! AVX-512 opmask registers, and comparisons into them.

use crate::access::{Access, End, Memory};
use crate::flags::{self, CF, ZF};
use crate::machine::Machine;
use crate::op::{Op, Operand};
use crate::state::low_bits;
use crate::wide::{Wide, bytes_of_elements};

/// What an opmask instruction does; `element` is the width of the masks in bytes, or for those that
/// look at vectors the element size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Opmask {
    Move,
    And,
    AndNot,
    Or,
    Xor,
    XorNot,
    Not,
    Add,
    /// Low halves of b (upper part) and c.
    Unpack,
    ShiftLeft,
    ShiftRight,
    /// Flags of b | c.
    OrTest,
    /// Flags of b & c and !b & c.
    Test,
    /// Integer compare by the predicate in `aux`; true = signed.
    Compare(bool),
    /// Bit set where b & c is not zero, or (true) zero.
    TestBits(bool),
    /// Sign bits of a vector.
    FromVector,
    /// Vector of all-ones where set.
    ToVector,
}

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    pub(crate) fn opmask(&mut self, op: &Op, work: Opmask) -> Result<(), End> {
        match work {
            Opmask::Compare(signed) => return self.compare_into_mask(op, signed),
            Opmask::TestBits(zero) => return self.test_into_mask(op, zero),
            Opmask::FromVector => {
                let value = self.source(op, op.c)?;
                let mask = crate::shuffle::to_opmask(&value, usize::from(op.element), usize::from(op.size));
                self.write_mask(op, mask);
                return Ok(());
            }
            Opmask::ToVector => {
                let mask = self.read_mask(op, op.c)?;
                let bytes = usize::from(op.size);
                let mut out = if mask.is_some() { Wide::ZERO } else { Wide::UNKNOWN };
                let set =
                    bytes_of_elements(mask.unwrap_or(0), usize::from(op.element), bytes / usize::from(op.element));
                for (index, byte) in out.bytes.iter_mut().enumerate() {
                    *byte = ((set >> index & 1) as u8).wrapping_neg();
                }
                self.write_vector(op, &out);
                return Ok(());
            }
            _ => {}
        }
        let width = op.element;
        let bits = 8 * u32::from(width);
        let c = self.read_mask(op, op.c)?;
        if matches!(work, Opmask::Move) {
            let value = c.map(|c| c & flags::ones(width));
            match op.a {
                Operand::Mask(_) => self.write_mask(op, value),
                Operand::Memory => self.write(op, op.a, width, value)?,
                _ => self.write_register(op.a, op.size, value),
            }
            return Ok(());
        }
        let b = self.read_mask(op, op.b)?;
        if matches!(work, Opmask::OrTest | Opmask::Test) {
            let all = flags::ones(width);
            let outcome = b.zip(c).map(|(b, c)| match work {
                Opmask::OrTest => ((b | c) & all == 0, (b | c) & all == all),
                _ => (b & c & all == 0, !b & c & all == 0),
            });
            match outcome {
                Some((zero, carry)) => {
                    let values = if zero { ZF } else { 0 } | if carry { CF } else { 0 };
                    self.state.put_flags(flags::STATUS, values, 0);
                }
                None => self.state.put_flags(0, 0, flags::STATUS),
            }
            return Ok(());
        }
        let count = op.immediate & 0xff;
        let result = match work {
            Opmask::Not => c.map(|c| !c),
            Opmask::ShiftLeft => c.map(|c| if count >= u64::from(bits) { 0 } else { c << count }),
            Opmask::ShiftRight => {
                c.map(|c| if count >= u64::from(bits) { 0 } else { (c & flags::ones(width)) >> count })
            }
            // The same register twice cancels.
            Opmask::Xor | Opmask::AndNot if op.b == op.c => Some(0),
            Opmask::XorNot if op.b == op.c => Some(u64::MAX),
            _ => b.zip(c).map(|(b, c)| match work {
                Opmask::And => b & c,
                Opmask::AndNot => !b & c,
                Opmask::Or => b | c,
                Opmask::Xor => b ^ c,
                Opmask::XorNot => !(b ^ c),
                Opmask::Add => b.wrapping_add(c),
                _ => b << (bits / 2) | c & low_bits(bits as usize / 2),
            }),
        };
        self.write_mask(op, result.map(|result| result & flags::ones(width)));
        Ok(())
    }

    fn read_mask(&mut self, op: &Op, operand: Operand) -> Result<Option<u64>, End> {
        match operand {
            Operand::Mask(register) => Ok(self.state.opmask(usize::from(register))),
            Operand::None => Ok(Some(0)),
            _ => self.read(op, operand, op.element),
        }
    }

    fn write_mask(&mut self, op: &Op, value: Option<u64>) {
        if let Operand::Mask(register) = op.a {
            self.state.set_opmask(usize::from(register), value);
        }
    }

    /// Writes a comparison's result under the writemask, which clears (never keeps) bits.
    pub(crate) fn write_compared(&mut self, op: &Op, result: Option<u64>) {
        let mask = match op.masking.mask {
            0 => Some(u64::MAX),
            mask => self.state.opmask(usize::from(mask)),
        };
        let value = match (result, mask) {
            (_, Some(0)) => Some(0),
            (Some(result), Some(mask)) => Some(result & mask),
            _ => None,
        };
        self.write_mask(op, value);
    }

    /// Elements whose result does not count because the writemask clears it need not be known.
    fn counts(&self, op: &Op, index: usize) -> bool {
        match op.masking.mask {
            0 => true,
            mask => self.state.opmask(usize::from(mask)).is_none_or(|mask| mask >> index & 1 == 1),
        }
    }

    /// One bit per element from a predicate on known elements.
    pub(crate) fn by_element(
        &self,
        op: &Op,
        b: &Wide,
        c: &Wide,
        predicate: impl Fn(u64, u64) -> Option<bool>,
    ) -> Option<u64> {
        let mut result = 0;
        for index in 0..usize::from(op.size / op.element) {
            if !self.counts(op, index) {
                continue;
            }
            let (x, y) = (b.element(op.element, index)?, c.element(op.element, index)?);
            result |= u64::from(predicate(x, y)?) << index;
        }
        Some(result)
    }

    fn compare_into_mask(&mut self, op: &Op, signed: bool) -> Result<(), End> {
        let (b, c) = (self.source(op, op.b)?, self.source(op, op.c)?);
        let element = op.element;
        let result = self.by_element(op, &b, &c, |x, y| {
            let order = if signed {
                (flags::sign_extend(x, element) as i64).cmp(&(flags::sign_extend(y, element) as i64))
            } else {
                x.cmp(&y)
            };
            Some(match op.aux & 7 {
                0 => order.is_eq(),
                1 => order.is_lt(),
                2 => order.is_le(),
                3 => false,
                4 => order.is_ne(),
                5 => order.is_ge(),
                6 => order.is_gt(),
                _ => true,
            })
        });
        self.write_compared(op, result);
        Ok(())
    }

    fn test_into_mask(&mut self, op: &Op, zero: bool) -> Result<(), End> {
        let (b, c) = (self.source(op, op.b)?, self.source(op, op.c)?);
        let result = self.by_element(op, &b, &c, |x, y| Some((x & y == 0) == zero));
        self.write_compared(op, result);
        Ok(())
    }
}
