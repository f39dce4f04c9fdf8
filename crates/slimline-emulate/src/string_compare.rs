//! `pcmpistri` and its kin: comparisons of two strings of up to 16 elements, as strspn uses them.

use crate::access::{Access, End, Memory};
use crate::flags::{self, CF, OF, SF, ZF, sign_extend};
use crate::machine::Machine;
use crate::op::{Op, Operand};
use crate::state::{RAX, RCX, RDX, low_bits};
use crate::wide::Wide;

/// `aux` of the operation: lengths are implicit, in eax and edx, or in rax and rdx.
pub(crate) const IMPLICIT: u8 = 0;
pub(crate) const EXPLICIT: u8 = 4;
pub(crate) const EXPLICIT_64: u8 = 8;

/// One string: its elements, as far as they are valid.
struct Text {
    elements: [i64; 16],
    length: usize,
}

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    /// `to_mask`: the result goes to xmm0 instead of ecx.
    pub(crate) fn string_compare(&mut self, op: &Op, to_mask: bool) -> Result<(), End> {
        let (b, c) = (self.source(op, op.b)?, self.source(op, op.c)?);
        let control = op.immediate as u8;
        let texts = self.text_of(op, &b, control, RAX).zip(self.text_of(op, &c, control, RDX));
        let Some((first, second)) = texts else {
            if to_mask {
                self.state.vectors_known[0] = 0;
            } else {
                self.state.set_gpr(RCX, None);
            }
            self.state.put_flags(0, 0, flags::STATUS);
            return Ok(());
        };
        let elements = if control & 1 == 0 { 16 } else { 8 };
        let result = compare(&first, &second, control, elements);
        if to_mask {
            let mut out = Wide::ZERO;
            for index in 0..elements {
                let set = result >> index & 1;
                if control & 0x40 != 0 {
                    let width = 16 / elements;
                    out.set_element(width as u8, index, Some(set.wrapping_neg()));
                }
            }
            if control & 0x40 == 0 {
                out.set_element(8, 0, Some(result));
            }
            self.write_vector(&Op { a: Operand::Vector(0), size: 16, ..*op }, &out);
        } else {
            let index = match (result, control & 0x40) {
                (0, _) => elements as u32,
                (_, 0) => result.trailing_zeros(),
                _ => 63 - result.leading_zeros(),
            };
            self.write_gpr(RCX as u8, 4, Some(u64::from(index)));
        }
        let flag = |holds: bool, flag: u64| if holds { flag } else { 0 };
        let values = flag(result != 0, CF)
            | flag(second.length < elements, ZF)
            | flag(first.length < elements, SF)
            | flag(result & 1 == 1, OF);
        self.state.put_flags(flags::STATUS, values, 0);
        Ok(())
    }

    fn text_of(&self, op: &Op, value: &Wide, control: u8, length: usize) -> Option<Text> {
        let width = 1 + (control & 1);
        let count = 16 / usize::from(width);
        let mut text = Text { elements: [0; 16], length: count };
        for (index, element) in text.elements.iter_mut().enumerate().take(count) {
            let raw = value.element(width, index)?;
            *element = if control & 2 != 0 { sign_extend(raw, width) as i64 } else { raw as i64 };
        }
        text.length = match op.aux {
            IMPLICIT => text.elements[..count].iter().position(|&element| element == 0).unwrap_or(count),
            bytes => {
                let given = sign_extend(self.state.gpr(length)?, bytes) as i64;
                given.unsigned_abs().min(count as u64) as usize
            }
        };
        Some(text)
    }
}

/// One bit per element of `second`.
fn compare(first: &Text, second: &Text, control: u8, elements: usize) -> u64 {
    let set = &first.elements[..first.length];
    let mut result = 0;
    for index in 0..elements {
        let valid = index < second.length;
        let here = second.elements[index];
        let holds = match control >> 2 & 3 {
            // Any of the set.
            0 => valid && set.contains(&here),
            // In any of the ranges.
            1 => valid && set.chunks_exact(2).any(|range| (range[0]..=range[1]).contains(&here)),
            // Each equal, or both ended.
            2 => match (index < first.length, valid) {
                (true, true) => first.elements[index] == here,
                (ended, other) => ended == other,
            },
            // The first string begins here, as far as there is room.
            _ => set
                .iter()
                .take(elements - index)
                .enumerate()
                .all(|(at, &wanted)| index + at < second.length && second.elements[index + at] == wanted),
        };
        result |= u64::from(holds) << index;
    }
    match control >> 4 & 3 {
        1 => !result & low_bits(elements),
        3 => result ^ low_bits(second.length),
        _ => result,
    }
}
