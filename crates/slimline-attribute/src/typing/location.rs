//! DWARF locations as far as inference needs them: which register or frame slot holds a variable or a piece of it.

use gimli::{AttributeValue, Operation, constants as dw};
use iced_x86::Register;

use super::debug_info::{DebugInfo, Die, Entry, Slice};

/// One of the 16 general registers, numbered as the instruction set does (rax 0, rcx 1, rdx 2, rbx 3, rsp 4, …).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gpr(pub(super) u8);

impl Gpr {
    pub(super) const RAX: Self = Self(0);
    pub(super) const RSP: Self = Self(4);
    pub(super) const RBP: Self = Self(5);
    pub(super) const RDI: Self = Self(7);

    /// From DWARF's numbering, which orders the first eight differently.
    fn from_dwarf(register: gimli::Register) -> Option<Self> {
        const FIRST: [u8; 8] = [0, 2, 1, 3, 6, 7, 5, 4];
        match register.0 {
            number @ 0..8 => Some(Self(FIRST[usize::from(number)])),
            number @ 8..16 => Some(Self(number as u8)),
            _ => None,
        }
    }
}

/// Where a variable, or a piece of it, is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Its value is the register.
    Register(Gpr),
    /// Its value is the register plus a constant.
    Sum(Gpr, i64),
    /// Its value is an array's element, as LLVM tells of a pointer that it has no register for.
    Element(Indexed),
    /// It lives in memory at the register plus a constant.
    Memory(Gpr, i64),
    /// It lives in memory at the call frame address plus a constant.
    Frame(i64),
    /// It lives where the word in that frame slot points to.
    BehindFrame(i64),
    /// It lives where the word in memory at the register plus a constant points to.
    BehindMemory(Gpr, i64),
}

/// `base + index * factor + plus`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Indexed {
    pub(super) base: Gpr,
    pub(super) index: Gpr,
    pub(super) factor: i64,
    pub(super) plus: i64,
}

/// A piece of a variable in a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) place: Place,
    /// Byte offset of the piece in the variable.
    pub(super) offset: u64,
    /// Size of the piece; `None` for all of the variable.
    pub(super) bytes: Option<u64>,
}

/// What `DW_OP_fbreg` counts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FrameBase {
    CallFrame,
    Register(Gpr),
    Unknown,
}

/// A word on the expression's stack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Register(Gpr, i64),
    Frame(i64),
    BehindFrame(i64),
    BehindRegister(Gpr, i64),
    /// The register times a factor, plus a constant.
    Scaled(Gpr, i64, i64),
    Indexed(Indexed),
    Constant(i64),
    Unknown,
}

impl Word {
    fn times(self, factor: i64) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(value.wrapping_mul(factor)),
            Self::Register(register, plus) => Self::Scaled(register, factor, plus.wrapping_mul(factor)),
            Self::Scaled(register, by, plus) => {
                Self::Scaled(register, by.wrapping_mul(factor), plus.wrapping_mul(factor))
            }
            _ => Self::Unknown,
        }
    }

    fn plus_word(self, other: Self) -> Self {
        match (self, other) {
            (Self::Constant(more), word) | (word, Self::Constant(more)) => word.plus(more),
            (Self::Register(base, a), Self::Register(index, b)) => {
                Self::Indexed(Indexed { base, index, factor: 1, plus: a.wrapping_add(b) })
            }
            (Self::Register(base, a), Self::Scaled(index, factor, b))
            | (Self::Scaled(index, factor, b), Self::Register(base, a)) => {
                Self::Indexed(Indexed { base, index, factor, plus: a.wrapping_add(b) })
            }
            _ => Self::Unknown,
        }
    }

    fn plus(self, more: i64) -> Self {
        match self {
            Self::Register(register, offset) => Self::Register(register, offset.wrapping_add(more)),
            Self::Frame(offset) => Self::Frame(offset.wrapping_add(more)),
            Self::Constant(value) => Self::Constant(value.wrapping_add(more)),
            Self::Scaled(register, factor, plus) => Self::Scaled(register, factor, plus.wrapping_add(more)),
            Self::Indexed(indexed) => Self::Indexed(Indexed { plus: indexed.plus.wrapping_add(more), ..indexed }),
            Self::BehindFrame(_) | Self::BehindRegister(..) if more == 0 => self,
            _ => Self::Unknown,
        }
    }
}

impl<'a> DebugInfo<'a> {
    /// What `DW_OP_fbreg` counts from in the function `entry`.
    pub(super) fn frame_base(&self, die: Die, entry: &Entry<'a>) -> FrameBase {
        let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(dw::DW_AT_frame_base) else {
            return FrameBase::Unknown;
        };
        let Some(unit) = self.unit(die.unit) else { return FrameBase::Unknown };
        match expression.operations(unit.encoding()).next() {
            Ok(Some(Operation::CallFrameCFA)) => FrameBase::CallFrame,
            Ok(Some(Operation::Register { register })) => {
                Gpr::from_dwarf(register).map_or(FrameBase::Unknown, FrameBase::Register)
            }
            _ => FrameBase::Unknown,
        }
    }

    /// The pieces that `expression` puts in registers and frame slots; pieces that are elsewhere are left out.
    pub(super) fn pieces(&self, unit: u32, expression: gimli::Expression<Slice<'a>>, frame: FrameBase) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let Some(parsed) = self.unit(unit) else { return pieces };
        let mut operations = expression.operations(parsed.encoding());
        let mut stack: Vec<Word> = Vec::new();
        let mut place = None;
        let mut offset = 0_u64;
        let mut in_pieces = false;
        while let Ok(Some(operation)) = operations.next() {
            match operation {
                Operation::Register { register } => place = Gpr::from_dwarf(register).map(Place::Register),
                Operation::RegisterOffset { register, offset, .. } => stack
                    .push(Gpr::from_dwarf(register).map_or(Word::Unknown, |register| Word::Register(register, offset))),
                Operation::FrameOffset { offset } => stack.push(match frame {
                    FrameBase::CallFrame => Word::Frame(offset),
                    FrameBase::Register(register) => Word::Register(register, offset),
                    FrameBase::Unknown => Word::Unknown,
                }),
                Operation::CallFrameCFA => stack.push(Word::Frame(0)),
                Operation::UnsignedConstant { value } => stack.push(Word::Constant(value.cast_signed())),
                Operation::SignedConstant { value } => stack.push(Word::Constant(value)),
                Operation::PlusConstant { value } => {
                    let top = stack.pop().unwrap_or(Word::Unknown);
                    stack.push(top.plus(value.cast_signed()));
                }
                Operation::Plus => {
                    let sum = match (stack.pop(), stack.pop()) {
                        (Some(second), Some(first)) => first.plus_word(second),
                        _ => Word::Unknown,
                    };
                    stack.push(sum);
                }
                Operation::Mul => {
                    let product = match (stack.pop(), stack.pop()) {
                        (Some(Word::Constant(factor)), Some(word)) | (Some(word), Some(Word::Constant(factor))) => {
                            word.times(factor)
                        }
                        _ => Word::Unknown,
                    };
                    stack.push(product);
                }
                Operation::Shl => {
                    let product = match (stack.pop(), stack.pop()) {
                        (Some(Word::Constant(bits @ 0..32)), Some(word)) => word.times(1 << bits),
                        _ => Word::Unknown,
                    };
                    stack.push(product);
                }
                Operation::Minus => {
                    let difference = match (stack.pop(), stack.pop()) {
                        (Some(Word::Constant(less)), Some(word)) => word.plus(less.wrapping_neg()),
                        _ => Word::Unknown,
                    };
                    stack.push(difference);
                }
                Operation::Deref { .. } => {
                    let word = match stack.pop() {
                        Some(Word::Frame(offset)) => Word::BehindFrame(offset),
                        Some(Word::Register(register, offset)) => Word::BehindRegister(register, offset),
                        _ => Word::Unknown,
                    };
                    stack.push(word);
                }
                Operation::StackValue => {
                    place = match stack.pop() {
                        Some(Word::Register(register, offset)) => Some(Place::Sum(register, offset)),
                        Some(Word::Indexed(indexed)) => Some(Place::Element(indexed)),
                        _ => None,
                    };
                }
                Operation::Piece { size_in_bits, .. } => {
                    let bytes = size_in_bits / 8;
                    let found = place.take().or_else(|| memory_place(stack.pop()?));
                    pieces.extend(found.map(|place| Piece { place, offset, bytes: Some(bytes) }));
                    stack.clear();
                    offset = bytes.saturating_add(offset);
                    in_pieces = true;
                }
                Operation::Nop => {}
                // A value that can't be followed stands for itself.
                _ => stack.push(Word::Unknown),
            }
        }
        if !in_pieces {
            let found = place.or_else(|| memory_place(stack.pop()?));
            pieces.extend(found.map(|place| Piece { place, offset: 0, bytes: None }));
        }
        pieces
    }
}

fn memory_place(word: Word) -> Option<Place> {
    match word {
        Word::Register(register, offset) => Some(Place::Memory(register, offset)),
        Word::Frame(offset) => Some(Place::Frame(offset)),
        Word::BehindFrame(offset) => Some(Place::BehindFrame(offset)),
        Word::BehindRegister(register, offset) => Some(Place::BehindMemory(register, offset)),
        Word::Scaled(..) | Word::Indexed(_) | Word::Constant(_) | Word::Unknown => None,
    }
}

/// Any part of a general register.
pub(super) fn gpr(register: Register) -> Option<Gpr> {
    register.is_gpr().then(|| Gpr(register.full_register().number() as u8))
}
