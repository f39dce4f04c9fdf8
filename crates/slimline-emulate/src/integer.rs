//! Integer arithmetic: add to shift, with flags as the manuals define them.
//!
//! A flag that the architecture leaves undefined is poisoned.

use crate::access::{Access, End, Memory};
use crate::flags::{self, AF, CF, OF, PF, SF, ZF, ones, sign_extend, top_bit};
use crate::machine::{Machine, Value};
use crate::op::{Alu, FlagChange, Op, Operand, Shift, Unary};
use crate::state::{RAX, RDX, State};

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    #[inline(always)]
    pub(crate) fn alu(&mut self, op: &Op, alu: Alu) -> Result<(), End> {
        let bytes = op.size;
        if op.a == op.b && op.a != Operand::Memory {
            match alu {
                // The result does not depend on the register: known even if it is not.
                Alu::Xor | Alu::Sub => {
                    self.state.put_flags(flags::STATUS, ZF | PF, if alu == Alu::Xor { AF } else { 0 });
                    self.write_register(op.a, bytes, Some(0));
                    return Ok(());
                }
                Alu::Sbb => {
                    let outcome = self.state.carry().map(|carry| flags::subtract(0, 0, carry, bytes));
                    Self::put_status(self.state, outcome.map(|(_, flags)| flags));
                    self.write_register(op.a, bytes, outcome.map(|(result, _)| result));
                    return Ok(());
                }
                _ => {}
            }
        }
        if matches!(alu, Alu::Cmp | Alu::Test) {
            let a = self.read(op, op.a, bytes)?;
            let b = self.read(op, op.b, bytes)?;
            compute(self.state, alu, a, b, bytes);
            return Ok(());
        }
        let b = self.read(op, op.b, bytes)?;
        self.update(op, |state, a| compute(state, alu, a, b, bytes))
    }

    /// Arithmetic on a register of 4 or 8 bytes, with `b` masked to them.
    #[inline(always)]
    pub(crate) fn alu_register(&mut self, op: &Op, alu: Alu, b: Value) {
        let a = self.register(op.a, op.size);
        let result = compute(self.state, alu, a, b, op.size);
        if !matches!(alu, Alu::Cmp | Alu::Test) {
            self.set_register(op.a, result);
        }
    }

    #[inline(always)]
    pub(crate) fn unary(&mut self, op: &Op, unary: Unary) -> Result<(), End> {
        let bytes = op.size;
        self.update(op, |state, a| {
            let Some(a) = a else {
                let undefined = match unary {
                    Unary::Not => 0,
                    Unary::Neg => flags::STATUS,
                    Unary::Inc | Unary::Dec => flags::STATUS & !CF,
                };
                state.put_flags(0, 0, undefined);
                return None;
            };
            let (result, values, defined) = match unary {
                Unary::Not => (!a & ones(bytes), 0, 0),
                Unary::Neg => {
                    let (result, values) = flags::subtract(0, a, 0, bytes);
                    (result, values, flags::STATUS)
                }
                Unary::Inc => {
                    let (result, values) = flags::add(a, 1, 0, bytes);
                    (result, values, flags::STATUS & !CF)
                }
                Unary::Dec => {
                    let (result, values) = flags::subtract(a, 1, 0, bytes);
                    (result, values, flags::STATUS & !CF)
                }
            };
            state.put_flags(defined, values, 0);
            Some(result)
        })
    }

    #[inline(always)]
    pub(crate) fn shift(&mut self, op: &Op, shift: Shift) -> Result<(), End> {
        let bytes = op.size;
        let count = if op.b == Operand::None { Some(1) } else { self.read_register(op, op.b, 1) };
        self.update(op, |state, a| shift_with_flags(state, shift, a, count, bytes))
    }

    /// `sarx`, `shlx`, `shrx`, `rorx`.
    pub(crate) fn shift_plain(&mut self, op: &Op, shift: Shift) -> Result<(), End> {
        let a = self.read(op, op.b, op.size)?;
        let count = self.read_register(op, op.c, 1).map(|count| count as u32 & top_bit(op.size));
        let result = a.zip(count).map(|(a, count)| match shift {
            Shift::Shl => a << count,
            Shift::Shr => a >> count,
            Shift::Sar => (sign_extend(a, op.size) as i64 >> count) as u64,
            _ => rotate_right(a, count, op.size),
        });
        self.write_register(op.a, op.size, result);
        Ok(())
    }

    /// `shld` and `shrd`.
    pub(crate) fn shift_double(&mut self, op: &Op, left: bool) -> Result<(), End> {
        let (bytes, bits) = (op.size, 8 * u32::from(op.size));
        let fill = self.read_register(op, op.b, bytes);
        let count = self.read_register(op, op.c, 1);
        self.update(op, |state, a| {
            let Some(count) = count else {
                state.put_flags(0, 0, flags::STATUS);
                return None;
            };
            let count = count as u32 & if bytes == 8 { 63 } else { 31 };
            if count == 0 {
                return a;
            }
            let (Some(a), Some(fill), true) = (a, fill, count <= bits) else {
                state.put_flags(0, 0, flags::STATUS);
                return None;
            };
            let pair =
                if left { u128::from(a) << bits | u128::from(fill) } else { u128::from(fill) << bits | u128::from(a) };
            let (result, carry) = if left {
                ((pair << count >> bits) as u64, a >> (bits - count) & 1)
            } else {
                ((pair >> count) as u64, a >> (count - 1) & 1)
            };
            let result = result & ones(bytes);
            let overflow = ((a ^ result) >> top_bit(bytes) & 1) << 11;
            let once = if count == 1 { OF } else { 0 };
            state.put_flags(
                CF | PF | ZF | SF | once,
                flags::of_result(result, bytes) | carry | overflow,
                AF | (OF ^ once),
            );
            Some(result)
        })
    }

    /// `adcx` and `adox`.
    pub(crate) fn add_carry_only(&mut self, op: &Op, overflow: bool) -> Result<(), End> {
        let (flag, at) = if overflow { (OF, 11) } else { (CF, 0) };
        let carry = (self.state.flags_known & flag != 0).then_some(self.state.flags >> at & 1);
        let b = self.read(op, op.b, op.size)?;
        let a = self.read_register(op, op.a, op.size);
        let result = match (a, b, carry) {
            (Some(a), Some(b), Some(carry)) => {
                let (result, flags) = flags::add(a, b, carry, op.size);
                self.state.put_flags(flag, (flags & CF) << at, 0);
                Some(result)
            }
            _ => {
                self.state.put_flags(0, 0, flag);
                None
            }
        };
        self.write_register(op.a, op.size, result);
        Ok(())
    }

    /// `imul` with two or three operands: a = b * c.
    pub(crate) fn multiply(&mut self, op: &Op) -> Result<(), End> {
        let b = self.read(op, op.b, op.size)?;
        let c = self.read(op, op.c, op.size)?;
        let result = b.zip(c).map(|(b, c)| {
            let full = i128::from(sign_extend(b, op.size) as i64) * i128::from(sign_extend(c, op.size) as i64);
            let result = full as u64 & ones(op.size);
            (result, i128::from(sign_extend(result, op.size) as i64) != full)
        });
        self.put_multiply_flags(result.map(|(_, overflow)| overflow));
        self.write_register(op.a, op.size, result.map(|(result, _)| result));
        Ok(())
    }

    fn put_multiply_flags(&mut self, overflow: Option<bool>) {
        match overflow {
            Some(true) => self.state.put_flags(CF | OF, CF | OF, SF | ZF | AF | PF),
            Some(false) => self.state.put_flags(CF | OF, 0, SF | ZF | AF | PF),
            None => self.state.put_flags(0, 0, flags::STATUS),
        }
    }

    /// `mul` and `imul` with one operand.
    pub(crate) fn multiply_wide(&mut self, op: &Op, signed: bool) -> Result<(), End> {
        let bytes = op.size;
        let source = self.read(op, op.a, bytes)?;
        let accumulator = self.read_register(op, Operand::Gpr(RAX as u8), bytes);
        let product = source.zip(accumulator).map(|(a, b)| {
            if signed {
                (i128::from(sign_extend(a, bytes) as i64) * i128::from(sign_extend(b, bytes) as i64)) as u128
            } else {
                u128::from(a) * u128::from(b)
            }
        });
        let low = product.map(|product| product as u64 & ones(bytes));
        let high = product.map(|product| (product >> (8 * u32::from(bytes))) as u64 & ones(bytes));
        self.put_multiply_flags(low.zip(high).map(|(low, high)| {
            let fits = if signed && low >> top_bit(bytes) & 1 == 1 { ones(bytes) } else { 0 };
            high != fits
        }));
        if bytes == 1 {
            self.write_gpr(RAX as u8, 2, low.zip(high).map(|(low, high)| high << 8 | low));
        } else {
            self.write_gpr(RAX as u8, bytes, low);
            self.write_gpr(RDX as u8, bytes, high);
        }
        Ok(())
    }

    pub(crate) fn mulx(&mut self, op: &Op) -> Result<(), End> {
        let source = self.read(op, op.c, op.size)?;
        let multiplier = self.read_register(op, Operand::Gpr(RDX as u8), op.size);
        let product = source.zip(multiplier).map(|(a, b)| u128::from(a) * u128::from(b));
        // With equal destinations the upper half wins: it is written last.
        self.write_register(op.b, op.size, product.map(|product| product as u64));
        self.write_register(op.a, op.size, product.map(|product| (product >> (8 * u32::from(op.size))) as u64));
        Ok(())
    }

    /// `div` and `idiv`.
    pub(crate) fn divide(&mut self, op: &Op, signed: bool) -> Result<(), End> {
        let (bytes, bits) = (op.size, 8 * u32::from(op.size));
        let divisor = self.read(op, op.a, bytes)?;
        let low = self.read_register(op, Operand::Gpr(RAX as u8), bytes);
        let high = if bytes == 1 {
            self.read_register(op, Operand::High(RAX as u8), 1)
        } else {
            self.read_register(op, Operand::Gpr(RDX as u8), bytes)
        };
        let outcome = match (divisor, low, high) {
            (Some(divisor), Some(low), Some(high)) => {
                let dividend = u128::from(high) << bits | u128::from(low);
                Some(quotient(dividend, divisor, bytes, signed).ok_or(End::Exception)?)
            }
            (Some(0), ..) => return Err(End::Exception),
            _ => None,
        };
        self.state.put_flags(0, 0, flags::STATUS);
        if bytes == 1 {
            self.write_gpr(RAX as u8, 2, outcome.map(|(quotient, rest)| (rest & 0xff) << 8 | quotient & 0xff));
        } else {
            self.write_gpr(RAX as u8, bytes, outcome.map(|(quotient, _)| quotient));
            self.write_gpr(RDX as u8, bytes, outcome.map(|(_, rest)| rest));
        }
        Ok(())
    }

    pub(crate) fn change_flag(&mut self, change: FlagChange) {
        let state = &mut *self.state;
        match change {
            FlagChange::ClearCarry => state.put_flags(CF, 0, 0),
            FlagChange::SetCarry => state.put_flags(CF, CF, 0),
            FlagChange::ComplementCarry => state.flags ^= CF,
            FlagChange::ClearDirection => state.put_flags(flags::DF, 0, 0),
            FlagChange::SetDirection => state.put_flags(flags::DF, flags::DF, 0),
            FlagChange::LoadAh => {
                let taken = CF | PF | AF | ZF | SF;
                match state.gpr(RAX) {
                    Some(rax) => state.put_flags(taken, rax >> 8, 0),
                    None => state.put_flags(0, 0, taken),
                }
            }
            FlagChange::StoreAh => {
                let taken = CF | PF | AF | ZF | SF;
                let value = (state.flags_known & taken == taken).then_some(state.flags & taken | 2);
                self.write_register(Operand::High(RAX as u8), 1, value);
            }
        }
    }
}

/// Quotient and remainder, or none if the CPU would raise a divide error.
fn quotient(dividend: u128, divisor: u64, bytes: u8, signed: bool) -> Option<(u64, u64)> {
    if divisor == 0 {
        return None;
    }
    if !signed {
        let quotient = dividend / u128::from(divisor);
        return (quotient <= u128::from(ones(bytes)))
            .then_some((quotient as u64, (dividend % u128::from(divisor)) as u64));
    }
    let unused = 128 - 16 * u32::from(bytes);
    let dividend = (dividend << unused) as i128 >> unused;
    let divisor = i128::from(sign_extend(divisor, bytes) as i64);
    let quotient = dividend.checked_div(divisor)?;
    let fits = i128::from(sign_extend(quotient as u64, bytes) as i64) == quotient;
    fits.then_some((quotient as u64 & ones(bytes), (dividend % divisor) as u64 & ones(bytes)))
}

/// Computes a two-operand instruction and sets its flags.
#[inline(always)]
fn compute(state: &mut State, alu: Alu, a: Value, b: Value, bytes: u8) -> Value {
    let (Some(a), Some(b)) = (a, b) else {
        return unknown_operand(state, alu, a.or(b), bytes);
    };
    let (result, values) = match alu {
        Alu::Add => flags::add(a, b, 0, bytes),
        Alu::Sub | Alu::Cmp => flags::subtract(a, b, 0, bytes),
        Alu::Adc | Alu::Sbb => {
            let Some(carry) = state.carry() else {
                state.put_flags(0, 0, flags::STATUS);
                return None;
            };
            if alu == Alu::Adc { flags::add(a, b, carry, bytes) } else { flags::subtract(a, b, carry, bytes) }
        }
        Alu::And | Alu::Test | Alu::Or | Alu::Xor => {
            let result = match alu {
                Alu::Or => a | b,
                Alu::Xor => a ^ b,
                _ => a & b,
            };
            state.put_flags(flags::STATUS & !AF, flags::of_result(result, bytes), AF);
            return Some(result);
        }
    };
    state.put_flags(flags::STATUS, values, 0);
    Some(result)
}

/// With one operand unknown only absorbing constants have a known result.
#[cold]
fn unknown_operand(state: &mut State, alu: Alu, known: Value, bytes: u8) -> Value {
    let result = match (alu, known) {
        (Alu::And | Alu::Test, Some(0)) => Some(0),
        (Alu::Or, Some(value)) if value == ones(bytes) => Some(value),
        _ => None,
    };
    match result {
        Some(result) => state.put_flags(flags::STATUS & !AF, flags::of_result(result, bytes), AF),
        None => state.put_flags(0, 0, flags::STATUS),
    }
    result
}

fn rotate_right(value: u64, count: u32, bytes: u8) -> u64 {
    let bits = 8 * u32::from(bytes);
    match count % bits {
        0 => value,
        count => (value >> count | value << (bits - count)) & ones(bytes),
    }
}

/// Shifts and rotates with flags; `count` is the unmasked count.
#[inline(always)]
fn shift_with_flags(state: &mut State, shift: Shift, a: Value, count: Value, bytes: u8) -> Value {
    let rotates = matches!(shift, Shift::Rol | Shift::Ror | Shift::Rcl | Shift::Rcr);
    let written = if rotates { CF | OF } else { flags::STATUS };
    let Some(count) = count else {
        state.put_flags(0, 0, written);
        return None;
    };
    let count = count as u32 & if bytes == 8 { 63 } else { 31 };
    if count == 0 {
        return a;
    }
    let Some(a) = a else {
        state.put_flags(0, 0, written);
        return None;
    };
    let bits = 8 * u32::from(bytes);
    let top = top_bit(bytes);
    // OF is defined for a count of one only, and so is CF of a shift by more than the operand's bits.
    let overflow_defined = if count == 1 { OF } else { 0 };
    match shift {
        Shift::Shl | Shift::Shr | Shift::Sar => {
            let (result, carry, overflow) = match shift {
                Shift::Shl => {
                    let result = if count >= bits { 0 } else { a << count & ones(bytes) };
                    let carry = if count <= bits { a >> (bits - count) & 1 } else { 0 };
                    (result, carry, result >> top & 1 ^ carry)
                }
                Shift::Shr => {
                    let result = if count >= bits { 0 } else { a >> count };
                    (result, if count <= bits { a >> (count - 1) & 1 } else { 0 }, a >> top & 1)
                }
                _ => {
                    let extended = sign_extend(a, bytes) as i64;
                    ((extended >> count) as u64 & ones(bytes), (extended >> (count - 1)) as u64 & 1, 0)
                }
            };
            let carry_defined = if count <= bits || shift == Shift::Sar { CF } else { 0 };
            state.put_flags(
                PF | ZF | SF | carry_defined | overflow_defined,
                flags::of_result(result, bytes) | carry | overflow << 11,
                AF | (CF ^ carry_defined) | (OF ^ overflow_defined),
            );
            Some(result)
        }
        Shift::Rol | Shift::Ror => {
            let result = if shift == Shift::Ror {
                rotate_right(a, count, bytes)
            } else {
                rotate_right(a, bits - count % bits, bytes)
            };
            let (carry, overflow) = if shift == Shift::Rol {
                (result & 1, result & 1 ^ result >> top & 1)
            } else {
                (result >> top & 1, (result >> top ^ result >> (top - 1)) & 1)
            };
            state.put_flags(CF | overflow_defined, carry | overflow << 11, OF ^ overflow_defined);
            Some(result)
        }
        Shift::Rcl | Shift::Rcr => {
            let Some(carry) = state.carry() else {
                state.put_flags(0, 0, CF | OF);
                return None;
            };
            let (result, carry) = rotate_through_carry(a, carry, count, bits, shift == Shift::Rcl);
            let overflow =
                if shift == Shift::Rcl { result >> top & 1 ^ carry } else { (result >> top ^ result >> (top - 1)) & 1 };
            state.put_flags(CF | overflow_defined, carry | overflow << 11, OF ^ overflow_defined);
            Some(result)
        }
    }
}

fn rotate_through_carry(value: u64, carry: u64, count: u32, bits: u32, left: bool) -> (u64, u64) {
    let ring = bits + 1;
    let count = count % ring;
    let joined = u128::from(carry) << bits | u128::from(value);
    let span = (1_u128 << ring) - 1;
    let right = if left { (ring - count) % ring } else { count };
    let turned = if right == 0 { joined } else { (joined >> right | joined << (ring - right)) & span };
    (turned as u64 & (u64::MAX >> (64 - bits)), (turned >> bits) as u64 & 1)
}
