//! 64 bytes of vector register with a known bit per byte, seen as elements.

use crate::state::low_bits;

/// A vector value; bytes beyond the operand's width are zero and known unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Wide {
    pub(crate) bytes: [u8; 64],
    pub(crate) known: u64,
}

impl Wide {
    pub(crate) const ZERO: Wide = Wide { bytes: [0; 64], known: u64::MAX };
    pub(crate) const UNKNOWN: Wide = Wide { bytes: [0; 64], known: 0 };

    /// Element `index` of `E` bytes (1, 2, 4 or 8), zero-extended.
    #[inline(always)]
    pub(crate) fn get<const E: usize>(&self, index: usize) -> u64 {
        let mut buffer = [0; 8];
        buffer[..E].copy_from_slice(&self.bytes[index * E..index * E + E]);
        u64::from_le_bytes(buffer)
    }

    /// Sets element `index`; its known bits are the caller's.
    #[inline(always)]
    pub(crate) fn put<const E: usize>(&mut self, index: usize, value: u64) {
        self.bytes[index * E..index * E + E].copy_from_slice(&value.to_le_bytes()[..E]);
    }

    /// Element `index` of `element` bytes, if all its bytes are known.
    #[inline]
    pub(crate) fn element(&self, element: u8, index: usize) -> Option<u64> {
        let (start, width) = (index * usize::from(element), usize::from(element).min(8));
        let mut buffer = [0; 8];
        buffer[..width].copy_from_slice(self.bytes.get(start..start + width)?);
        let needs = low_bits(width) << start;
        (self.known & needs == needs).then(|| u64::from_le_bytes(buffer))
    }

    /// Sets element `index` of `element` bytes, known or not.
    #[inline]
    pub(crate) fn set_element(&mut self, element: u8, index: usize, value: Option<u64>) {
        let (start, width) = (index * usize::from(element), usize::from(element).min(8));
        let span = low_bits(width) << start;
        match value {
            Some(value) => {
                if let Some(bytes) = self.bytes.get_mut(start..start + width) {
                    bytes.copy_from_slice(&value.to_le_bytes()[..width]);
                }
                self.known |= span;
            }
            None => self.known &= !span,
        }
    }

    /// The low `count` bytes as up to 8-byte value, if known.
    pub(crate) fn low(&self, bytes: u8) -> Option<u64> {
        self.element(bytes, 0)
    }

    /// Repeats the low `element` bytes over all 64.
    pub(crate) fn repeated(&self, element: usize) -> Wide {
        let mut out = Wide::UNKNOWN;
        let pattern = self.known & low_bits(element);
        for block in 0..64 / element {
            out.bytes[block * element..(block + 1) * element].copy_from_slice(&self.bytes[..element]);
            out.known |= pattern << (block * element);
        }
        out
    }

    /// Zeroes (and makes known) everything from byte `from` on.
    #[inline(always)]
    pub(crate) fn cut(mut self, from: usize) -> Wide {
        if from < 64 {
            self.bytes[from..].fill(0);
            self.known |= !low_bits(from);
        }
        self
    }

    /// Takes bytes `from..to` from `other`.
    #[inline(always)]
    pub(crate) fn with(mut self, from: usize, to: usize, other: &Wide) -> Wide {
        self.bytes[from..to].copy_from_slice(&other.bytes[from..to]);
        let span = low_bits(to) & !low_bits(from);
        self.known = self.known & !span | other.known & span;
        self
    }

    /// Bytes `at..at + count` moved to the start, the rest zero.
    pub(crate) fn part(&self, at: usize, count: usize) -> Wide {
        let mut out = Wide::ZERO;
        out.bytes[..count].copy_from_slice(&self.bytes[at..at + count]);
        out.known = self.known >> at | !low_bits(count);
        out
    }

    /// Puts the low `count` bytes of `part` at byte `at`.
    pub(crate) fn with_part(mut self, at: usize, count: usize, part: &Wide) -> Wide {
        self.bytes[at..at + count].copy_from_slice(&part.bytes[..count]);
        let span = low_bits(count) << at;
        self.known = self.known & !span | part.known << at & span;
        self
    }
}

/// Keeps known only those elements of which every byte is known.
#[inline(always)]
pub(crate) fn whole(known: u64, element: usize) -> u64 {
    let lowest = match element {
        1 => return known,
        2 => known & known >> 1 & 0x5555_5555_5555_5555,
        4 => {
            let pairs = known & known >> 1;
            pairs & pairs >> 2 & 0x1111_1111_1111_1111
        }
        _ => {
            let pairs = known & known >> 1;
            let fours = pairs & pairs >> 2;
            fours & fours >> 4 & 0x0101_0101_0101_0101
        }
    };
    spread(lowest, element)
}

/// Extends a bit at each element's first byte to all its bytes.
#[inline(always)]
pub(crate) fn spread(first_bytes: u64, element: usize) -> u64 {
    first_bytes.wrapping_mul(low_bits(element))
}

/// One bit per element to one bit per byte.
pub(crate) fn bytes_of_elements(mask: u64, element: usize, elements: usize) -> u64 {
    if element == 1 {
        return mask & low_bits(elements);
    }
    let mut bytes = 0;
    for index in 0..elements {
        if mask >> index & 1 == 1 {
            bytes |= low_bits(element) << (index * element);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_known_as_a_whole() {
        assert_eq!(whole(0b1101_1111, 2), 0b1100_1111);
        assert_eq!(whole(0b1111_1111_0111_1111, 4), 0b1111_1111_0000_1111);
        assert_eq!(whole(u64::MAX >> 1, 8), u64::MAX >> 8);
        assert_eq!(bytes_of_elements(0b101, 4, 16), 0xf0f);
    }
}
