//! Integer vector arithmetic, element by element.

use crate::access::{Access, End, Memory};
use crate::machine::Machine;
use crate::op::{Op, Operand};
use crate::wide::{Wide, whole};

/// Functions of two elements (or of one and a count).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Lane {
    Add,
    Subtract,
    AddSigned,
    AddUnsigned,
    SubtractSigned,
    SubtractUnsigned,
    MultiplyLow,
    MultiplyHigh,
    MultiplyHighUnsigned,
    MultiplyHighRounded,
    /// Products of the low halves of each element.
    MultiplyWide,
    MultiplyWideUnsigned,
    MinSigned,
    MaxSigned,
    MinUnsigned,
    MaxUnsigned,
    Average,
    Equal,
    Greater,
    Sign,
    Absolute,
    /// Shifts by one count for all elements: an immediate or the low 8 bytes of c.
    ShiftLeft,
    ShiftRight,
    ShiftArithmetic,
    /// Shifts by a count per element.
    ShiftLeftEach,
    ShiftRightEach,
    ShiftArithmeticEach,
    RotateLeft,
    RotateRight,
    Population,
    LeadingZeros,
    /// Sums of products of neighbouring 16-bit elements.
    MultiplyAdd,
    /// Sums of products of unsigned and signed bytes, saturated.
    MultiplyAddBytes,
    /// Sums of absolute differences of 8 bytes.
    SumDifferences,
    PairAdd,
    PairSubtract,
    PackSigned,
    PackUnsigned,
}

/// Bitwise functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Logic {
    And,
    AndNot,
    Or,
    Xor,
}

#[inline(always)]
fn signed<const E: usize>(value: u64) -> i64 {
    crate::flags::sign_extend(value, E as u8) as i64
}

#[inline(always)]
fn saturate<const E: usize>(value: i64) -> u64 {
    let limit = 1_i64 << (8 * E - 1);
    value.clamp(-limit, limit - 1) as u64
}

#[inline(always)]
fn saturate_unsigned<const E: usize>(value: i64) -> u64 {
    value.clamp(0, (1_i64 << (8 * E)) - 1) as u64
}

#[inline(always)]
fn map2<const E: usize>(b: &Wide, c: &Wide, bytes: usize, function: impl Fn(u64, u64) -> u64) -> Wide {
    let mut out = Wide { bytes: [0; 64], known: whole(b.known & c.known, E) };
    for index in 0..bytes / E {
        out.put::<E>(index, function(b.get::<E>(index), c.get::<E>(index)));
    }
    out
}

/// `function` over elements whose size the operation tells.
macro_rules! by_element {
    ($element:expr, $bytes:expr, $b:expr, $c:expr, |$x:ident, $y:ident, $E:ident| $body:expr) => {{
        #[inline(always)]
        fn one<const $E: usize>(b: &Wide, c: &Wide, bytes: usize) -> Wide {
            map2::<$E>(b, c, bytes, |$x, $y| $body)
        }
        match $element {
            1 => one::<1>($b, $c, $bytes),
            2 => one::<2>($b, $c, $bytes),
            4 => one::<4>($b, $c, $bytes),
            _ => one::<8>($b, $c, $bytes),
        }
    }};
}

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    pub(crate) fn lanes(&mut self, op: &Op, lane: Lane) -> Result<(), End> {
        let c = match (op.c, lane) {
            (Operand::Immediate, _) => {
                let mut count = Wide::ZERO;
                count.put::<8>(0, op.immediate & 0xff);
                // Rotates take a count per element.
                if matches!(lane, Lane::RotateLeft | Lane::RotateRight) {
                    count.bytes.fill(0);
                    for index in 0..64 / usize::from(op.element) {
                        count.set_element(op.element, index, Some(op.immediate & 0xff));
                    }
                }
                count
            }
            _ => self.source(op, op.c)?,
        };
        let b = if op.b == Operand::None { c } else { self.source(op, op.b)? };
        let b = if op.b == op.c { same_operand(lane, b) } else { b };
        let c = if op.b == op.c { b } else { c };
        let out = compute(lane, &b, &c, op.element, usize::from(op.size));
        self.write_vector(op, &out);
        Ok(())
    }

    pub(crate) fn logic(&mut self, op: &Op, logic: Logic) -> Result<(), End> {
        let (b, c) = (self.source(op, op.b)?, self.source(op, op.c)?);
        if op.b == op.c && matches!(logic, Logic::Xor | Logic::AndNot) {
            self.write_vector(op, &Wide::ZERO);
            return Ok(());
        }
        let mut out = Wide { bytes: [0; 64], known: b.known & c.known };
        for index in 0..8 {
            let (x, y) = (b.get::<8>(index), c.get::<8>(index));
            out.put::<8>(
                index,
                match logic {
                    Logic::And => x & y,
                    Logic::AndNot => !x & y,
                    Logic::Or => x | y,
                    Logic::Xor => x ^ y,
                },
            );
        }
        self.write_vector(op, &out);
        Ok(())
    }

    /// `vpternlogd`: bit (a, b, c) of the immediate.
    pub(crate) fn ternary(&mut self, op: &Op) -> Result<(), End> {
        let (a, b, c) = (self.source(op, op.a)?, self.source(op, op.b)?, self.source(op, op.c)?);
        let table = op.immediate;
        let mut known = u64::MAX;
        // An operand counts as long as the table depends on it.
        for (value, step) in [(&a, 4), (&b, 2), (&c, 1)] {
            let depends = (0..8).any(|row| row & step == 0 && (table >> row ^ table >> (row + step)) & 1 == 1);
            if depends {
                known &= value.known;
            }
        }
        let mut out = Wide { bytes: [0; 64], known };
        for index in 0..8 {
            let (x, y, z) = (a.get::<8>(index), b.get::<8>(index), c.get::<8>(index));
            let mut result = 0;
            for row in (0..8).filter(|row| table >> row & 1 == 1) {
                result |= if row & 4 != 0 { x } else { !x }
                    & if row & 2 != 0 { y } else { !y }
                    & if row & 1 != 0 { z } else { !z };
            }
            out.put::<8>(index, result);
        }
        self.write_vector(op, &out);
        Ok(())
    }
}

/// What does not depend on its operand when both are the same register is known.
fn same_operand(lane: Lane, value: Wide) -> Wide {
    match lane {
        Lane::Subtract | Lane::SubtractSigned | Lane::SubtractUnsigned | Lane::Equal | Lane::Greater => Wide::ZERO,
        _ => value,
    }
}

/// b op c; both already of the width of the operation.
pub(crate) fn compute(lane: Lane, b: &Wide, c: &Wide, element: u8, bytes: usize) -> Wide {
    match lane {
        Lane::Add => by_element!(element, bytes, b, c, |x, y, E| x.wrapping_add(y)),
        Lane::Subtract => by_element!(element, bytes, b, c, |x, y, E| x.wrapping_sub(y)),
        Lane::AddSigned => {
            by_element!(element, bytes, b, c, |x, y, E| saturate::<E>(signed::<E>(x).saturating_add(signed::<E>(y))))
        }
        Lane::AddUnsigned => by_element!(element.min(2), bytes, b, c, |x, y, E| (x + y).min((1 << (8 * E.min(4))) - 1)),
        Lane::SubtractSigned => {
            by_element!(element, bytes, b, c, |x, y, E| saturate::<E>(signed::<E>(x).saturating_sub(signed::<E>(y))))
        }
        Lane::SubtractUnsigned => by_element!(element, bytes, b, c, |x, y, E| x.saturating_sub(y)),
        Lane::MultiplyLow => by_element!(element, bytes, b, c, |x, y, E| x.wrapping_mul(y)),
        Lane::MultiplyHigh => map2::<2>(b, c, bytes, |x, y| ((signed::<2>(x) * signed::<2>(y)) >> 16) as u64),
        Lane::MultiplyHighUnsigned => map2::<2>(b, c, bytes, |x, y| (x * y) >> 16),
        Lane::MultiplyHighRounded => {
            map2::<2>(b, c, bytes, |x, y| ((((signed::<2>(x) * signed::<2>(y)) >> 14) + 1) >> 1) as u64)
        }
        Lane::MultiplyWide => low_products(b, c, bytes, |x, y| (signed::<4>(x) * signed::<4>(y)) as u64),
        Lane::MultiplyWideUnsigned => low_products(b, c, bytes, |x, y| (x & 0xffff_ffff) * (y & 0xffff_ffff)),
        Lane::MinSigned => {
            by_element!(element, bytes, b, c, |x, y, E| if signed::<E>(x) < signed::<E>(y) { x } else { y })
        }
        Lane::MaxSigned => {
            by_element!(element, bytes, b, c, |x, y, E| if signed::<E>(x) > signed::<E>(y) { x } else { y })
        }
        Lane::MinUnsigned => by_element!(element, bytes, b, c, |x, y, E| x.min(y)),
        Lane::MaxUnsigned => by_element!(element, bytes, b, c, |x, y, E| x.max(y)),
        Lane::Average => by_element!(element.min(2), bytes, b, c, |x, y, E| (x + y + 1) >> 1),
        Lane::Equal => by_element!(element, bytes, b, c, |x, y, E| u64::from(x == y).wrapping_neg()),
        Lane::Greater => {
            by_element!(element, bytes, b, c, |x, y, E| u64::from(signed::<E>(x) > signed::<E>(y)).wrapping_neg())
        }
        Lane::Sign => by_element!(element, bytes, b, c, |x, y, E| match signed::<E>(y) {
            0 => 0,
            1.. => x,
            _ => x.wrapping_neg(),
        }),
        Lane::Absolute => by_element!(element, bytes, c, c, |x, _y, E| signed::<E>(x).unsigned_abs()),
        Lane::ShiftLeft | Lane::ShiftRight | Lane::ShiftArithmetic => {
            let Some(count) = c.element(8, 0) else { return Wide::UNKNOWN };
            let counts = Wide { bytes: [0; 64], known: u64::MAX };
            let bits = 8 * u64::from(element);
            match lane {
                _ if count >= bits && lane != Lane::ShiftArithmetic => {
                    Wide { known: whole(b.known, element.into()), ..Wide::ZERO }
                }
                Lane::ShiftLeft => shift_all(b, &counts, element, bytes, |x| x << count),
                Lane::ShiftRight => shift_all(b, &counts, element, bytes, |x| x >> count),
                _ => {
                    let count = count.min(bits - 1);
                    by_element!(element, bytes, b, &counts.filled(count, element), |x, y, E| (signed::<E>(x) >> y)
                        as u64)
                }
            }
        }
        Lane::ShiftLeftEach => {
            by_element!(element, bytes, b, c, |x, y, E| if y < 8 * E as u64 { x << y } else { 0 })
        }
        Lane::ShiftRightEach => {
            by_element!(element, bytes, b, c, |x, y, E| if y < 8 * E as u64 { x >> y } else { 0 })
        }
        Lane::ShiftArithmeticEach => {
            by_element!(element, bytes, b, c, |x, y, E| (signed::<E>(x) >> y.min(8 * E as u64 - 1)) as u64)
        }
        Lane::RotateLeft => by_element!(element, bytes, b, c, |x, y, E| rotate::<E>(x, y)),
        Lane::RotateRight => by_element!(element, bytes, b, c, |x, y, E| rotate::<E>(x, y.wrapping_neg())),
        Lane::Population => by_element!(element, bytes, c, c, |x, _y, E| u64::from(x.count_ones())),
        Lane::LeadingZeros => {
            by_element!(element, bytes, c, c, |x, _y, E| u64::from(x.leading_zeros()) - (64 - 8 * E as u64))
        }
        Lane::MultiplyAdd => map2::<4>(b, c, bytes, |x, y| {
            (signed::<2>(x) * signed::<2>(y) + signed::<2>(x >> 16) * signed::<2>(y >> 16)) as u64
        }),
        Lane::MultiplyAddBytes => map2::<2>(b, c, bytes, |x, y| {
            saturate::<2>((x & 0xff) as i64 * signed::<1>(y) + (x >> 8 & 0xff) as i64 * signed::<1>(y >> 8))
        }),
        Lane::SumDifferences => map2::<8>(b, c, bytes, |x, y| {
            x.to_le_bytes().into_iter().zip(y.to_le_bytes()).map(|(x, y)| u64::from(x.abs_diff(y))).sum()
        }),
        Lane::PairAdd | Lane::PairSubtract => pairs(b, c, element, bytes, lane == Lane::PairAdd),
        Lane::PackSigned => pack(b, c, element, bytes, true),
        Lane::PackUnsigned => pack(b, c, element, bytes, false),
    }
}

impl Wide {
    /// Every element set to `value`.
    fn filled(&self, value: u64, element: u8) -> Wide {
        let mut out = *self;
        for index in 0..64 / usize::from(element) {
            out.set_element(element, index, Some(value));
        }
        out
    }
}

#[inline(always)]
fn shift_all(b: &Wide, zero: &Wide, element: u8, bytes: usize, function: impl Fn(u64) -> u64) -> Wide {
    match element {
        2 => map2::<2>(b, zero, bytes, |x, _| function(x)),
        4 => map2::<4>(b, zero, bytes, |x, _| function(x)),
        _ => map2::<8>(b, zero, bytes, |x, _| function(x)),
    }
}

/// Products of the low 4 bytes of each 8-byte element.
fn low_products(b: &Wide, c: &Wide, bytes: usize, function: impl Fn(u64, u64) -> u64) -> Wide {
    let known = b.known & c.known;
    // The upper halves do not matter.
    let low = Wide { known: (known & 0x0f0f_0f0f_0f0f_0f0f) * 0x11, ..*b };
    let mut out = map2::<8>(&low, &low, bytes, |x, _| x);
    for index in 0..bytes / 8 {
        out.put::<8>(index, function(b.get::<8>(index), c.get::<8>(index)));
    }
    out
}

#[inline(always)]
fn rotate<const E: usize>(value: u64, count: u64) -> u64 {
    let bits = 8 * E as u64;
    let count = count % bits;
    if count == 0 { value } else { value << count | value >> (bits - count) }
}

/// `phaddw` and the like: within each 16 bytes, sums of neighbours of b, then of c.
fn pairs(b: &Wide, c: &Wide, element: u8, bytes: usize, add: bool) -> Wide {
    let mut out = Wide::ZERO;
    let in_block = 16 / usize::from(element);
    for block in 0..bytes / 16 {
        for index in 0..in_block {
            let from = if index < in_block / 2 { b } else { c };
            let first = block * in_block + 2 * (index % (in_block / 2));
            let sum = from.element(element, first).zip(from.element(element, first + 1));
            let sum = sum.map(|(x, y)| if add { x.wrapping_add(y) } else { x.wrapping_sub(y) });
            out.set_element(element, block * in_block + index, sum);
        }
    }
    out
}

/// `packsswb` and the like: `element` is that of the result.
fn pack(b: &Wide, c: &Wide, element: u8, bytes: usize, to_signed: bool) -> Wide {
    let mut out = Wide::ZERO;
    let in_block = 16 / usize::from(element);
    for block in 0..bytes / 16 {
        for index in 0..in_block {
            let from = if index < in_block / 2 { b } else { c };
            let source = block * in_block / 2 + index % (in_block / 2);
            let value = from.element(2 * element, source).map(|value| {
                let value = crate::flags::sign_extend(value, 2 * element) as i64;
                match (element, to_signed) {
                    (1, true) => saturate::<1>(value),
                    (1, false) => saturate_unsigned::<1>(value),
                    (_, true) => saturate::<2>(value),
                    (_, false) => saturate_unsigned::<2>(value),
                }
            });
            out.set_element(element, block * in_block + index, value);
        }
    }
    out
}
