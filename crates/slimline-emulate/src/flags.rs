//! Status flags: their bits, how results set them, and the conditions that read them.

use crate::state::State;

pub(crate) const CF: u64 = 1;
pub(crate) const PF: u64 = 1 << 2;
pub(crate) const AF: u64 = 1 << 4;
pub(crate) const ZF: u64 = 1 << 6;
pub(crate) const SF: u64 = 1 << 7;
pub(crate) const DF: u64 = 1 << 10;
pub(crate) const OF: u64 = 1 << 11;
/// What arithmetic sets.
pub(crate) const STATUS: u64 = CF | PF | AF | ZF | SF | OF;
/// What is tracked.
pub(crate) const ALL: u64 = STATUS | DF;

impl State {
    /// Sets the flags in `defined` to their bits in `values` and poisons those in `undefined`.
    #[inline(always)]
    pub(crate) fn put_flags(&mut self, defined: u64, values: u64, undefined: u64) {
        self.flags = self.flags & !defined | values & defined;
        self.flags_known = (self.flags_known | defined) & !undefined;
    }

    /// The carry flag as 0 or 1, if known.
    #[inline(always)]
    pub(crate) fn carry(&self) -> Option<u64> {
        (self.flags_known & CF != 0).then_some(self.flags & CF)
    }
}

/// A mask of the bits of an operand of `bytes` (1, 2, 4 or 8).
#[inline(always)]
pub(crate) const fn ones(bytes: u8) -> u64 {
    u64::MAX >> (64 - 8 * bytes as u32)
}

/// Bits above which an operand of `bytes` has its sign.
#[inline(always)]
pub(crate) const fn top_bit(bytes: u8) -> u32 {
    8 * bytes as u32 - 1
}

/// Sign-extends the low `bytes` of `value`.
#[inline(always)]
pub(crate) const fn sign_extend(value: u64, bytes: u8) -> u64 {
    let shift = 64 - 8 * bytes as u32;
    ((value << shift) as i64 >> shift) as u64
}

/// SF, ZF and PF of a result already masked to `bytes`.
#[inline(always)]
pub(crate) fn of_result(result: u64, bytes: u8) -> u64 {
    let zero = u64::from(result == 0) << 6;
    let sign = (result >> top_bit(bytes) & 1) << 7;
    let parity = u64::from((result as u8).count_ones() & 1 == 0) << 2;
    zero | sign | parity
}

/// Sum of `a`, `b` and a carry with its flags; operands masked to `bytes`.
#[inline(always)]
pub(crate) fn add(a: u64, b: u64, carry: u64, bytes: u8) -> (u64, u64) {
    let result = a.wrapping_add(b).wrapping_add(carry) & ones(bytes);
    let top = top_bit(bytes);
    let carries = a & b | (a | b) & !result;
    let overflow = (a ^ result) & (b ^ result);
    let flags = of_result(result, bytes) | carries >> top & 1 | (a ^ b ^ result) & AF | (overflow >> top & 1) << 11;
    (result, flags)
}

/// Difference `a - b - borrow` with its flags; operands masked to `bytes`.
#[inline(always)]
pub(crate) fn subtract(a: u64, b: u64, borrow: u64, bytes: u8) -> (u64, u64) {
    let result = a.wrapping_sub(b).wrapping_sub(borrow) & ones(bytes);
    let top = top_bit(bytes);
    let borrows = !a & b | (!a | b) & result;
    let overflow = (a ^ b) & (a ^ result);
    let flags = of_result(result, bytes) | borrows >> top & 1 | (a ^ b ^ result) & AF | (overflow >> top & 1) << 11;
    (result, flags)
}

/// The sixteen conditions, numbered as in the encoding of `jcc` (0 = o, 1 = no, 2 = b, …).
#[inline(always)]
pub(crate) fn condition(number: u8, state: &State) -> Option<bool> {
    /// Flags that each pair of conditions reads.
    const NEEDS: [u64; 8] = [OF, CF, ZF, CF | ZF, SF, PF, SF | OF, SF | OF | ZF];
    let pair = number >> 1 & 7;
    let needs = NEEDS[pair as usize];
    let flags = state.flags;
    if state.flags_known & needs != needs {
        // `be` and `le` hold as soon as one known flag says so.
        let zero = state.flags_known & ZF != 0 && flags & ZF != 0;
        let carry = state.flags_known & CF != 0 && flags & CF != 0;
        return ((pair == 3 && (zero || carry)) || (pair == 7 && zero)).then_some(number & 1 == 0);
    }
    let less = (flags >> 7 ^ flags >> 11) & 1 == 1;
    let holds = match pair {
        6 => less,
        7 => less || flags & ZF != 0,
        _ => flags & needs != 0,
    };
    Some(holds ^ (number & 1 == 1))
}
