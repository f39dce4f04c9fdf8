//! Floating-point arithmetic and comparison, by element.
//!
//! Exact when MXCSR rounds to nearest; otherwise, and when a denormal meets a CPU that flushes
//! them, the result is poisoned. NaNs follow the SSE rules (the first NaN operand, quieted; the
//! default NaN for invalid operations), except in fused operations, where a NaN is poisoned.

use crate::access::{Access, End, Memory};
use crate::flags::{self, CF, PF, ZF};
use crate::machine::Machine;
use crate::op::{Op, Operand};
use crate::wide::Wide;

/// Functions of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FloatFn {
    Add,
    Subtract,
    Multiply,
    Divide,
    Min,
    Max,
    SquareRoot,
    /// Rounds to integral by the immediate.
    Round,
    /// Compares by the immediate into a vector of masks (or an opmask).
    Compare,
    /// Compares the first elements into flags.
    CompareFlags,
    HorizontalAdd,
    HorizontalSubtract,
    AddSubtract,
}

/// Fused multiply-add: order of operands and signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fused {
    Order132(FusedSigns),
    Order213(FusedSigns),
    Order231(FusedSigns),
}

/// Signs of product and addend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FusedSigns {
    Add,
    Subtract,
    NegatedAdd,
    NegatedSubtract,
    /// Even elements subtract, odd ones add.
    AddSubtract,
    SubtractAdd,
}

/// How far MXCSR leaves results exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// As Rust computes.
    Nearest,
    /// To nearest, but denormals are flushed.
    Flushing,
    Other,
}

/// Scalar instructions work on the first element only: `aux` of the operation is 1.
pub(crate) const SCALAR: u8 = 1;

/// A floating-point format seen through its bits.
pub(crate) trait Float: Copy + PartialOrd {
    const BYTES: usize;
    fn read(from: &Wide, index: usize) -> Self;
    fn write(into: &mut Wide, index: usize, value: Self);
    fn from_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn nan(self) -> bool;
    fn denormal(self) -> bool;
    fn quiet(self) -> u64;
    const DEFAULT_NAN: u64;
    fn arithmetic(function: FloatFn, a: Self, b: Self) -> Self;
    fn root(self) -> Self;
    fn fused(a: Self, b: Self, c: Self) -> Self;
    fn negative(self) -> Self;
    fn round(self, mode: u8) -> Self;
}

macro_rules! float {
    ($float:ident, $bits:ident, $bytes:literal, $quiet:literal, $default:literal, $root:path, $fused:path, $rint:path, $floor:path, $ceil:path, $trunc:path) => {
        impl Float for $float {
            const BYTES: usize = $bytes;
            const DEFAULT_NAN: u64 = $default;
            #[inline(always)]
            fn read(from: &Wide, index: usize) -> Self {
                Float::from_bits(from.get::<$bytes>(index))
            }
            #[inline(always)]
            fn write(into: &mut Wide, index: usize, value: Self) {
                into.put::<$bytes>(index, value.bits());
            }
            fn from_bits(bits: u64) -> Self {
                $float::from_bits(bits as $bits)
            }
            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }
            fn nan(self) -> bool {
                self.is_nan()
            }
            fn denormal(self) -> bool {
                self.is_subnormal()
            }
            fn quiet(self) -> u64 {
                u64::from(self.to_bits()) | $quiet
            }
            #[inline(always)]
            fn arithmetic(function: FloatFn, a: Self, b: Self) -> Self {
                match function {
                    FloatFn::Add => a + b,
                    FloatFn::Subtract => a - b,
                    FloatFn::Multiply => a * b,
                    _ => a / b,
                }
            }
            fn root(self) -> Self {
                $root(self)
            }
            fn fused(a: Self, b: Self, c: Self) -> Self {
                $fused(a, b, c)
            }
            fn negative(self) -> Self {
                -self
            }
            fn round(self, mode: u8) -> Self {
                match mode & 3 {
                    0 => $rint(self),
                    1 => $floor(self),
                    2 => $ceil(self),
                    _ => $trunc(self),
                }
            }
        }
    };
}
float!(
    f32,
    u32,
    4,
    0x0040_0000,
    0xffc0_0000,
    libm::sqrtf,
    libm::fmaf,
    libm::rintf,
    libm::floorf,
    libm::ceilf,
    libm::truncf
);
float!(
    f64,
    u64,
    8,
    0x0008_0000_0000_0000,
    0xfff8_0000_0000_0000,
    libm::sqrt,
    libm::fma,
    libm::rint,
    libm::floor,
    libm::ceil,
    libm::trunc
);

/// One element of a two-operand function, in bits; none where the result is not known.
fn binary<F: Float>(function: FloatFn, rounding: Rounding, a: u64, b: u64) -> Option<u64> {
    let (x, y) = (F::from_bits(a), F::from_bits(b));
    if rounding != Rounding::Nearest && (x.denormal() || y.denormal()) {
        return None;
    }
    match function {
        // Of equal zeros and with a NaN the second operand.
        FloatFn::Min => return Some(if x < y { a } else { b }),
        FloatFn::Max => return Some(if x > y { a } else { b }),
        _ => {}
    }
    if rounding == Rounding::Other {
        return None;
    }
    if x.nan() {
        return Some(x.quiet());
    }
    if y.nan() {
        return Some(y.quiet());
    }
    let result = F::arithmetic(function, x, y);
    if result.nan() {
        return Some(F::DEFAULT_NAN);
    }
    // Tiny results are judged after rounding; one that rounds up to the smallest normal is left open.
    if rounding == Rounding::Flushing && (result.denormal() || is_smallest_normal::<F>(result)) {
        return None;
    }
    Some(result.bits())
}

fn is_smallest_normal<F: Float>(value: F) -> bool {
    let magnitude = value.bits() & (u64::MAX >> (65 - 8 * F::BYTES));
    magnitude == if F::BYTES == 4 { 0x0080_0000 } else { 0x0010_0000_0000_0000 }
}

/// One element of a one-operand function.
fn unary<F: Float>(function: FloatFn, rounding: Rounding, immediate: u64, a: u64) -> Option<u64> {
    let x = F::from_bits(a);
    if rounding != Rounding::Nearest && x.denormal() {
        return None;
    }
    if x.nan() {
        return Some(x.quiet());
    }
    if function == FloatFn::Round {
        // Bits 4 to 7 (`vrndscale`) ask for fraction bits; bit 2 for MXCSR's mode.
        let mode = match immediate {
            _ if immediate & 0xf0 != 0 => return None,
            _ if immediate & 4 == 0 => immediate as u8,
            _ if rounding == Rounding::Other => return None,
            _ => 0,
        };
        return Some(x.round(mode).bits());
    }
    if rounding == Rounding::Other {
        return None;
    }
    let result = x.root();
    Some(if result.nan() { F::DEFAULT_NAN } else { result.bits() })
}

/// The 32 comparison predicates of AVX; SSE has the first 8.
fn compare<F: Float>(predicate: u64, rounding: Rounding, a: u64, b: u64) -> Option<bool> {
    let (x, y) = (F::from_bits(a), F::from_bits(b));
    if rounding != Rounding::Nearest && (x.denormal() || y.denormal()) {
        return None;
    }
    let unordered = x.nan() || y.nan();
    // Predicates 16 to 31 differ in signalling only.
    Some(match predicate & 15 {
        0 => x == y,
        1 => x < y,
        2 => x <= y,
        3 => unordered,
        4 => x != y,
        5 => unordered || x >= y,
        6 => unordered || x > y,
        7 => !unordered,
        8 => unordered || x == y,
        9 => unordered || x < y,
        10 => unordered || x <= y,
        11 => false,
        12 => !unordered && x != y,
        13 => x >= y,
        14 => x > y,
        _ => true,
    })
}

fn fuse<F: Float>(rounding: Rounding, a: u64, b: u64, c: u64, negate: bool, subtract: bool) -> Option<u64> {
    let (x, y, z) = (F::from_bits(a), F::from_bits(b), F::from_bits(c));
    let flushes = rounding == Rounding::Flushing;
    if rounding == Rounding::Other || flushes && (x.denormal() || y.denormal() || z.denormal()) {
        return None;
    }
    let x = if negate { x.negative() } else { x };
    let z = if subtract { z.negative() } else { z };
    let result = F::fused(x, y, z);
    if result.nan() || flushes && (result.denormal() || is_smallest_normal::<F>(result)) {
        return None;
    }
    Some(result.bits())
}

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    pub(crate) fn rounding(&self, op: &Op) -> Rounding {
        const EXCEPTION_FLAGS: u32 = 0x3f;
        const FLUSHING: u32 = 1 << 15 | 1 << 6;
        /// All exceptions masked, round to nearest.
        const DEFAULT: u32 = 0x1f80;
        match self.state.mxcsr.map(|mxcsr| mxcsr & !EXCEPTION_FLAGS) {
            // An embedded rounding mode overrides MXCSR.
            _ if op.masking.rounds => Rounding::Other,
            Some(DEFAULT) => Rounding::Nearest,
            Some(mxcsr) if mxcsr & !FLUSHING == DEFAULT => Rounding::Flushing,
            _ => Rounding::Other,
        }
    }

    pub(crate) fn float(&mut self, op: &Op, function: FloatFn) -> Result<(), End> {
        if op.element == 4 { self.float_of::<f32>(op, function) } else { self.float_of::<f64>(op, function) }
    }

    fn float_of<F: Float>(&mut self, op: &Op, function: FloatFn) -> Result<(), End> {
        let rounding = self.rounding(op);
        let c = self.source(op, op.c)?;
        let b = if op.b == Operand::None { c } else { self.source(op, op.b)? };
        let element = op.element;
        let scalar = op.aux == SCALAR;
        match function {
            FloatFn::CompareFlags => {
                self.compare_flags::<F>(rounding, &b, &c, element);
                return Ok(());
            }
            FloatFn::Compare if matches!(op.a, Operand::Mask(_)) => {
                let scalar_op = Op { size: if scalar { element } else { op.size }, ..*op };
                let result = self.by_element(&scalar_op, &b, &c, |x, y| compare::<F>(op.immediate, rounding, x, y));
                self.write_compared(op, result);
                return Ok(());
            }
            FloatFn::HorizontalAdd | FloatFn::HorizontalSubtract => {
                let out = horizontal::<F>(function, rounding, &b, &c, usize::from(op.size));
                self.write_vector(op, &out);
                return Ok(());
            }
            _ => {}
        }
        let mut out = if scalar { b } else { Wide::ZERO };
        let elements = if scalar { 1 } else { usize::from(op.size) / F::BYTES };
        if matches!(function, FloatFn::Add | FloatFn::Subtract | FloatFn::Multiply | FloatFn::Divide)
            && plain::<F>(function, rounding, &b, &c, elements, &mut out)
        {
            self.write_float(op, &out, &b);
            return Ok(());
        }
        for index in 0..elements {
            let value = c.element(element, index).and_then(|y| match function {
                FloatFn::SquareRoot | FloatFn::Round => unary::<F>(function, rounding, op.immediate, y),
                FloatFn::Compare => {
                    let x = b.element(element, index)?;
                    compare::<F>(op.immediate, rounding, x, y).map(|holds| u64::from(holds).wrapping_neg())
                }
                FloatFn::AddSubtract => {
                    let function = if index % 2 == 0 { FloatFn::Subtract } else { FloatFn::Add };
                    binary::<F>(function, rounding, b.element(element, index)?, y)
                }
                _ => binary::<F>(function, rounding, b.element(element, index)?, y),
            });
            out.set_element(element, index, value);
        }
        self.write_float(op, &out, &b);
        Ok(())
    }

    /// Writes a result; of a scalar one the mask's first bit rules the first element only.
    fn write_float(&mut self, op: &Op, out: &Wide, b: &Wide) {
        if op.aux != SCALAR || op.masking.mask == 0 {
            return self.write_vector(op, out);
        }
        let element = usize::from(op.element);
        let old = self.source_register(op.a);
        let first = match self.state.opmask(usize::from(op.masking.mask)) {
            None => Wide::UNKNOWN,
            Some(mask) if mask & 1 == 1 => *out,
            Some(_) if op.masking.zeroing => Wide::ZERO,
            Some(_) => old,
        };
        if let Operand::Vector(register) = op.a {
            self.state.set_wide(register, &b.with(0, element, &first).cut(16));
        }
    }

    fn source_register(&self, operand: Operand) -> Wide {
        match operand {
            Operand::Vector(register) => self.state.wide(register),
            _ => Wide::UNKNOWN,
        }
    }

    fn compare_flags<F: Float>(&mut self, rounding: Rounding, b: &Wide, c: &Wide, element: u8) {
        let pair = b.low(element).zip(c.low(element));
        let known = pair.map(|(x, y)| (F::from_bits(x), F::from_bits(y)));
        match known {
            Some((x, y)) if rounding == Rounding::Nearest || !(x.denormal() || y.denormal()) => {
                let values = if x.nan() || y.nan() {
                    ZF | PF | CF
                } else if x < y {
                    CF
                } else if x == y {
                    ZF
                } else {
                    0
                };
                self.state.put_flags(flags::STATUS, values, 0);
            }
            _ => self.state.put_flags(0, 0, flags::STATUS),
        }
    }

    pub(crate) fn fused(&mut self, op: &Op, fused: Fused) -> Result<(), End> {
        let rounding = self.rounding(op);
        let (a, b, c) = (self.source(op, op.a)?, self.source(op, op.b)?, self.source(op, op.c)?);
        let (x, y, z, signs) = match fused {
            Fused::Order132(signs) => (&a, &c, &b, signs),
            Fused::Order213(signs) => (&b, &a, &c, signs),
            Fused::Order231(signs) => (&b, &c, &a, signs),
        };
        let scalar = op.aux == SCALAR;
        let mut out = if scalar { a } else { Wide::ZERO };
        let elements = if scalar { 1 } else { usize::from(op.size / op.element) };
        for index in 0..elements {
            let (negate, subtract) = match signs {
                FusedSigns::Add => (false, false),
                FusedSigns::Subtract => (false, true),
                FusedSigns::NegatedAdd => (true, false),
                FusedSigns::NegatedSubtract => (true, true),
                FusedSigns::AddSubtract => (false, index % 2 == 0),
                FusedSigns::SubtractAdd => (false, index % 2 == 1),
            };
            let at = |value: &Wide| value.element(op.element, index);
            let value = match (at(x), at(y), at(z)) {
                (Some(x), Some(y), Some(z)) if op.element == 4 => fuse::<f32>(rounding, x, y, z, negate, subtract),
                (Some(x), Some(y), Some(z)) => fuse::<f64>(rounding, x, y, z, negate, subtract),
                _ => None,
            };
            out.set_element(op.element, index, value);
        }
        self.write_float(op, &out, &a);
        Ok(())
    }
}

/// The common case: all elements known, no rounding mode, no NaN. False if it is not; `out` is then
/// to be computed anew.
#[inline(always)]
fn plain<F: Float>(function: FloatFn, rounding: Rounding, b: &Wide, c: &Wide, elements: usize, out: &mut Wide) -> bool {
    let span = crate::state::low_bits(elements * F::BYTES);
    if rounding != Rounding::Nearest || b.known & c.known & span != span {
        return false;
    }
    for index in 0..elements {
        let (x, y) = (F::read(b, index), F::read(c, index));
        let result = F::arithmetic(function, x, y);
        if result.nan() {
            return false;
        }
        F::write(out, index, result);
    }
    out.known |= span;
    true
}

/// `haddps` and the like: within each 16 bytes, neighbours of b, then of c.
fn horizontal<F: Float>(function: FloatFn, rounding: Rounding, b: &Wide, c: &Wide, bytes: usize) -> Wide {
    let function = if function == FloatFn::HorizontalAdd { FloatFn::Add } else { FloatFn::Subtract };
    let (element, in_block) = (F::BYTES as u8, 16 / F::BYTES);
    let mut out = Wide::ZERO;
    for block in 0..bytes / 16 {
        for index in 0..in_block {
            let from = if index < in_block / 2 { b } else { c };
            let first = block * in_block + 2 * (index % (in_block / 2));
            let pair = from.element(element, first).zip(from.element(element, first + 1));
            let value = pair.and_then(|(x, y)| binary::<F>(function, rounding, x, y));
            out.set_element(element, block * in_block + index, value);
        }
    }
    out
}
