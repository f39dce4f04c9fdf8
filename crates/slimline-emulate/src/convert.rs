//! Conversions between integers and floats, by element.
//!
//! Exact under the same conditions as arithmetic (see `float`); values out of range give the
//! integer indefinite, as the CPU does.

use crate::access::{Access, End, Memory};
use crate::flags::sign_extend;
use crate::float::{Float, Rounding};
use crate::machine::Machine;
use crate::op::{Op, Operand};
use crate::wide::Wide;

/// Which conversion: source elements have `aux` bytes, results `element`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Conversion {
    /// Signed (true) or unsigned integers to floats.
    ToFloat(bool),
    /// Floats to integers by rounding.
    ToInteger(bool),
    /// Floats to integers by truncation.
    Truncate(bool),
    /// Between float formats.
    Between,
    /// The same for the first element of c, the rest from b (or a general register a).
    ScalarToFloat(bool),
    ScalarToInteger(bool),
    ScalarTruncate(bool),
    ScalarBetween,
}

fn to_float(value: u64, from: u8, to: u8, signed: bool, rounding: Rounding) -> Option<u64> {
    let value = if signed { i128::from(sign_extend(value, from) as i64) } else { i128::from(value) };
    let mantissa_bits = if to == 4 { 24 } else { 53 };
    if rounding == Rounding::Other && value.unsigned_abs() >> mantissa_bits != 0 {
        return None;
    }
    Some(if to == 4 { u64::from((value as f32).to_bits()) } else { (value as f64).to_bits() })
}

fn to_integer<F: Float>(bits: u64, to: u8, signed: bool, truncate: bool, rounding: Rounding, wide: f64) -> Option<u64> {
    let value = F::from_bits(bits);
    if !truncate && rounding == Rounding::Other || rounding != Rounding::Nearest && value.denormal() {
        return None;
    }
    let integral = if truncate { libm::trunc(wide) } else { libm::rint(wide) };
    let limit_bits = 8 * u32::from(to) - u32::from(signed);
    let limit = (1_u128 << limit_bits) as f64;
    let lowest = if signed { -limit } else { 0.0 };
    if !(integral >= lowest && integral < limit) {
        // The integer indefinite: the sign bit alone, or all ones.
        return Some(if signed { 1 << limit_bits } else { crate::flags::ones(to) });
    }
    Some(if signed { integral as i64 as u64 & crate::flags::ones(to) } else { integral as u64 })
}

fn between(bits: u64, from: u8, rounding: Rounding) -> Option<u64> {
    if from == 4 {
        let value = f32::from_bits(bits as u32);
        if rounding != Rounding::Nearest && value.is_subnormal() {
            return None;
        }
        if value.is_nan() {
            let sign = (bits >> 31 & 1) << 63;
            return Some(sign | 0x7ff8_0000_0000_0000 | (bits & 0x007f_ffff) << 29);
        }
        return Some(f64::from(value).to_bits());
    }
    let value = f64::from_bits(bits);
    if value.is_nan() {
        let sign = (bits >> 63 & 1) << 31;
        return Some(sign | 0x7fc0_0000 | bits >> 29 & 0x003f_ffff);
    }
    let result = value as f32;
    if rounding != Rounding::Nearest
        && (value.is_subnormal() || result.is_subnormal() || result == 0.0 || result.abs() == f32::MIN_POSITIVE)
        && value != 0.0
    {
        return None;
    }
    if rounding == Rounding::Other && f64::from(result) != value {
        return None;
    }
    Some(u64::from(result.to_bits()))
}

fn element(conversion: Conversion, bits: u64, from: u8, to: u8, rounding: Rounding) -> Option<u64> {
    let integer = |signed, truncate| {
        if from == 4 {
            let wide = f64::from(f32::from_bits(bits as u32));
            to_integer::<f32>(bits, to, signed, truncate, rounding, wide)
        } else {
            to_integer::<f64>(bits, to, signed, truncate, rounding, f64::from_bits(bits))
        }
    };
    match conversion {
        Conversion::ToFloat(signed) | Conversion::ScalarToFloat(signed) => to_float(bits, from, to, signed, rounding),
        Conversion::ToInteger(signed) | Conversion::ScalarToInteger(signed) => integer(signed, false),
        Conversion::Truncate(signed) | Conversion::ScalarTruncate(signed) => integer(signed, true),
        Conversion::Between | Conversion::ScalarBetween => between(bits, from, rounding),
    }
}

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    pub(crate) fn convert(&mut self, op: &Op, conversion: Conversion) -> Result<(), End> {
        let rounding = self.rounding(op);
        let (from, to) = (op.aux, op.element);
        match conversion {
            Conversion::ScalarToFloat(_) | Conversion::ScalarBetween => {
                let value = match op.c {
                    Operand::Vector(_) => self.source(op, op.c)?.low(from),
                    _ => self.read(op, op.c, from)?,
                };
                let mut out = self.source(op, op.b)?;
                out.set_element(to, 0, value.and_then(|value| element(conversion, value, from, to, rounding)));
                self.write_vector(op, &out);
            }
            Conversion::ScalarToInteger(_) | Conversion::ScalarTruncate(_) => {
                let value = match op.c {
                    Operand::Vector(_) => self.source(op, op.c)?.low(from),
                    _ => self.read(op, op.c, from)?,
                };
                let value = value.and_then(|value| element(conversion, value, from, to, rounding));
                self.write_register(op.a, to, value);
            }
            _ => {
                let c = self.source(op, op.c)?;
                let mut out = Wide::ZERO;
                let elements = usize::from(op.size / from.max(to));
                for index in 0..elements {
                    let value = c.element(from, index);
                    out.set_element(to, index, value.and_then(|value| element(conversion, value, from, to, rounding)));
                }
                // A narrowing conversion of 16 bytes fills 8 and clears the rest, in SSE too.
                self.write_sized(op, &out, (elements * usize::from(to)).max(16));
            }
        }
        Ok(())
    }
}
