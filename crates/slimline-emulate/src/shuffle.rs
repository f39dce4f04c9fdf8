//! Permutations: each result element is one element of a source, zero, or unknown.

use crate::access::{Access, End, Memory};
use crate::machine::Machine;
use crate::op::{Op, Operand};
use crate::state::low_bits;
use crate::vector::sign_bits;
use crate::wide::Wide;

/// Which permutation; the immediate or an operand says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Shuffle {
    UnpackLow,
    UnpackHigh,
    /// `pshufb`.
    Bytes,
    /// `pshufd`, `vpermilps` with an immediate: within 16 bytes of c.
    InLane,
    LowWords,
    HighWords,
    /// `shufps`, `shufpd`.
    Two,
    /// `palignr`.
    Align,
    /// `valignd`, `valignq`.
    AlignElements,
    /// `pslldq`, `psrldq`.
    BytesLeft,
    BytesRight,
    /// `vpermq`, `vpermpd` with an immediate: within 32 bytes.
    Quads,
    /// `vpermd`, `vpermps`, `vpermb` …: element b of c.
    Across,
    /// `vpermilps`, `vpermilpd` by c within 16 bytes of b.
    InLaneBy,
    /// `vpermt2d` (false) and `vpermi2d` (true): two tables.
    TwoTables(bool),
    /// `vperm2f128`, `vperm2i128`.
    Halves,
    /// `vshuff64x2` and the like.
    Blocks,
    /// Even elements twice: `movddup`, `movsldup`.
    Even,
    /// Odd elements twice: `movshdup`.
    Odd,
    /// By immediate: bit set = c.
    Blend,
    /// By the sign bits of d.
    BlendBy,
    /// By opmask: `vpblendmb` and the like.
    BlendMask,
    /// `insertps`.
    InsertFloat,
}

/// Where a result element comes from.
#[derive(Clone, Copy)]
enum Pick {
    B(usize),
    C(usize),
    Zero,
    Unknown,
}

/// Builds a vector of `bytes` from elements of `b` and `c`.
fn pick(b: &Wide, c: &Wide, element: usize, bytes: usize, choose: impl Fn(usize) -> Pick) -> Wide {
    let mut out = Wide::ZERO;
    let span = low_bits(element);
    for index in 0..bytes / element {
        let at = index * element;
        let (source, from) = match choose(index) {
            Pick::B(from) => (b, from * element),
            Pick::C(from) => (c, from * element),
            Pick::Zero => continue,
            Pick::Unknown => {
                out.known &= !(span << at);
                continue;
            }
        };
        let from = from & (64 - element);
        out.bytes[at..at + element].copy_from_slice(&source.bytes[from..from + element]);
        out.known = out.known & !(span << at) | (source.known >> from & span) << at;
    }
    out
}

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    pub(crate) fn shuffle(&mut self, op: &Op, shuffle: Shuffle) -> Result<(), End> {
        let element = usize::from(op.element);
        let bytes = usize::from(op.size);
        let immediate = op.immediate as usize & 0xff;
        let c = if shuffle == Shuffle::InsertFloat && op.c == Operand::Memory {
            // The one element in memory stands for whichever the immediate selects.
            self.source(op, op.c)?.repeated(4)
        } else {
            self.source(op, op.c)?
        };
        let b = if op.b == Operand::None { c } else { self.source(op, op.b)? };
        let in_block = 16 / element;
        // First element of the 16-byte block of an element, and its place in it.
        let split = |index: usize| (index / in_block * in_block, index % in_block);
        let out = match shuffle {
            Shuffle::UnpackLow | Shuffle::UnpackHigh => {
                let skip = if shuffle == Shuffle::UnpackHigh { in_block / 2 } else { 0 };
                pick(&b, &c, element, bytes, |index| {
                    let (block, within) = split(index);
                    let from = block + skip + within / 2;
                    if within % 2 == 0 { Pick::B(from) } else { Pick::C(from) }
                })
            }
            Shuffle::Bytes => pick(&b, &c, 1, bytes, |index| match c.element(1, index) {
                None => Pick::Unknown,
                Some(selector) if selector & 0x80 != 0 => Pick::Zero,
                Some(selector) => Pick::B(index / 16 * 16 + (selector as usize & 15)),
            }),
            Shuffle::InLane => pick(&b, &c, element, bytes, |index| {
                let (block, within) = split(index);
                // Of 8-byte elements each has its own bit, over all blocks.
                let from = if element == 8 { immediate >> index & 1 } else { immediate >> (2 * within) & 3 };
                Pick::C(block + from)
            }),
            Shuffle::LowWords | Shuffle::HighWords => pick(&b, &c, 2, bytes, |index| {
                let skip = if shuffle == Shuffle::HighWords { 4 } else { 0 };
                let (block, within) = (index / 8 * 8, index % 8);
                if within / 4 * 4 != skip {
                    return Pick::C(index);
                }
                Pick::C(block + skip + (immediate >> (2 * (within % 4)) & 3))
            }),
            Shuffle::Two => pick(&b, &c, element, bytes, |index| {
                let (block, within) = split(index);
                if element == 8 {
                    let from = block + (immediate >> index & 1);
                    return if within == 0 { Pick::B(from) } else { Pick::C(from) };
                }
                let from = block + (immediate >> (2 * within) & 3);
                if within < 2 { Pick::B(from) } else { Pick::C(from) }
            }),
            Shuffle::Align => pick(&b, &c, 1, bytes, |index| {
                let (block, within) = (index / 16 * 16, index % 16 + immediate);
                match within {
                    0..16 => Pick::C(block + within),
                    16..32 => Pick::B(block + within - 16),
                    _ => Pick::Zero,
                }
            }),
            Shuffle::AlignElements => {
                let elements = bytes / element;
                pick(&b, &c, element, bytes, |index| {
                    let from = index + immediate % elements;
                    if from < elements { Pick::C(from) } else { Pick::B(from - elements) }
                })
            }
            Shuffle::BytesLeft | Shuffle::BytesRight => pick(&b, &c, 1, bytes, |index| {
                let (block, within) = (index / 16 * 16, index % 16);
                let from = if shuffle == Shuffle::BytesLeft {
                    within.checked_sub(immediate)
                } else {
                    Some(within + immediate).filter(|&from| from < 16)
                };
                from.map_or(Pick::Zero, |from| Pick::B(block + from))
            }),
            Shuffle::Quads => {
                pick(&b, &c, 8, bytes, |index| Pick::C(index / 4 * 4 + (immediate >> (2 * (index % 4)) & 3)))
            }
            Shuffle::Across => pick(&b, &c, element, bytes, |index| match b.element(op.element, index) {
                Some(from) => Pick::C(from as usize % (bytes / element)),
                None => Pick::Unknown,
            }),
            Shuffle::InLaneBy => pick(&b, &c, element, bytes, |index| {
                let (block, _) = split(index);
                match c.element(op.element, index) {
                    Some(selector) if element == 8 => Pick::B(block + (selector as usize >> 1 & 1)),
                    Some(selector) => Pick::B(block + (selector as usize & 3)),
                    None => Pick::Unknown,
                }
            }),
            Shuffle::TwoTables(index_first) => {
                let a = self.source(op, op.a)?;
                let (indices, table) = if index_first { (a, b) } else { (b, a) };
                let elements = bytes / element;
                pick(&table, &c, element, bytes, |index| match indices.element(op.element, index) {
                    Some(from) if from as usize & elements == 0 => Pick::B(from as usize % elements),
                    Some(from) => Pick::C(from as usize % elements),
                    None => Pick::Unknown,
                })
            }
            Shuffle::Halves => pick(&b, &c, 8, bytes, |index| {
                let control = immediate >> (index / 2 * 4);
                let from = (control & 1) * 2 + index % 2;
                match control & 0xa {
                    0 => Pick::B(from),
                    2 => Pick::C(from),
                    _ => Pick::Zero,
                }
            }),
            Shuffle::Blocks => {
                let blocks = bytes / 16;
                let width = blocks.trailing_zeros() as usize;
                pick(&b, &c, 8, bytes, |index| {
                    let block = index / 2;
                    let from = (immediate >> (block * width) & (blocks - 1)) * 2 + index % 2;
                    if block < blocks / 2 { Pick::B(from) } else { Pick::C(from) }
                })
            }
            Shuffle::Even => pick(&b, &c, element, bytes, |index| Pick::C(index & !1)),
            Shuffle::Odd => pick(&b, &c, element, bytes, |index| Pick::C(index | 1)),
            Shuffle::Blend => pick(&b, &c, element, bytes, |index| {
                // The 16-bit form repeats its 8 bits for each 16 bytes.
                if immediate >> (index % 8) & 1 == 1 { Pick::C(index) } else { Pick::B(index) }
            }),
            Shuffle::BlendBy => {
                let d = self.source(op, op.d)?;
                pick(&b, &c, element, bytes, |index| {
                    let top = index * element + element - 1;
                    match (d.known >> top & 1, d.bytes[top] >> 7) {
                        (0, _) => Pick::Unknown,
                        (_, 0) => Pick::B(index),
                        _ => Pick::C(index),
                    }
                })
            }
            Shuffle::BlendMask => return self.blend_by_mask(op, &b, &c),
            Shuffle::InsertFloat => {
                let (from, to) = (immediate >> 6 & 3, immediate >> 4 & 3);
                pick(&b, &c, 4, 16, |index| match index {
                    _ if immediate >> index & 1 == 1 => Pick::Zero,
                    _ if index == to => Pick::C(from),
                    _ => Pick::B(index),
                })
            }
        };
        self.write_vector(op, &out);
        Ok(())
    }

    fn blend_by_mask(&mut self, op: &Op, b: &Wide, c: &Wide) -> Result<(), End> {
        let (element, bytes) = (usize::from(op.element), usize::from(op.size));
        let mask = match op.masking.mask {
            0 => Some(u64::MAX),
            mask => self.state.opmask(usize::from(mask)),
        };
        let out = pick(b, c, element, bytes, |index| match mask {
            None => Pick::Unknown,
            Some(mask) if mask >> index & 1 == 1 => Pick::C(index),
            Some(_) if op.masking.zeroing => Pick::Zero,
            Some(_) => Pick::B(index),
        });
        if let Operand::Vector(register) = op.a {
            self.state.set_wide(register, &out.cut(bytes));
        }
        Ok(())
    }
}

/// Sign bits of a vector as an opmask: `vpmovb2m` and the like.
pub(crate) fn to_opmask(value: &Wide, element: usize, bytes: usize) -> Option<u64> {
    sign_bits(value, element, bytes / element)
}
