//! Inverting instructions: the general-purpose registers before one, from those after it.
//!
//! Invertible are 64-bit `add`, `sub`, `inc`, `dec`, `xor`, `not`, `neg`, `bswap`, `xchg` and `lea` that
//! keep their source recoverable, and the stack pointer's moves. A 32-bit operation cleared the
//! upper half of its register, whose former content is lost. Whatever else an instruction writes
//! is lost; memory is not touched.

use crate::access::AccessKind;
use crate::lower::{MAX_INSTRUCTION_BYTES, lower_bytes};
use crate::op::{Alu, BitTest, FlagChange, Op, Operand, Place, Repeat, Text, Unary, Work};
use crate::state::{RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP, Registers, State, ZERO};

/// Caller-saved registers of the System V ABI: lost across a call.
const CALLER_SAVED: u16 = 1 << RAX | 1 << RCX | 1 << RDX | 1 << RSI | 1 << RDI | 0x0f00;
const ALL_REGISTERS: u16 = u16::MAX;
/// A bit of `Place::needs` that no register has: the address can't be told from registers alone.
const NEVER: u32 = 1 << 31;

/// How to recover what an instruction changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Recovery {
    Nothing,
    /// register += amount.
    Add {
        register: u8,
    },
    /// register += other + amount.
    AddOther {
        register: u8,
        other: u8,
    },
    /// register -= (other << shift) - amount.
    SubtractOther {
        register: u8,
        other: u8,
        shift: u8,
    },
    Xor {
        register: u8,
    },
    XorOther {
        register: u8,
        other: u8,
    },
    Not {
        register: u8,
    },
    Negate {
        register: u8,
    },
    ByteSwap {
        register: u8,
    },
    Exchange {
        register: u8,
        other: u8,
    },
    /// rbp = rsp - 8.
    Frame,
}

/// The inverse of one instruction on the general-purpose registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inverse {
    recovery: Recovery,
    /// Registers that are unknown before the instruction, a bit each.
    lost: u16,
    amount: u64,
}

impl Inverse {
    pub(crate) const NOTHING: Inverse = Inverse { recovery: Recovery::Nothing, lost: 0, amount: 0 };

    pub(crate) fn of(op: &Op) -> Inverse {
        let written = written(op);
        let (recovery, amount) = recovery(op);
        let inverse = Inverse { recovery, lost: 0, amount };
        Inverse { lost: written & !inverse.recovered(), ..inverse }
    }

    /// Registers that are recomputed.
    fn recovered(&self) -> u16 {
        match self.recovery {
            Recovery::Nothing => 0,
            Recovery::Frame => 1 << RBP,
            Recovery::Exchange { register, other } => 1 << register | 1 << other,
            Recovery::Add { register }
            | Recovery::AddOther { register, .. }
            | Recovery::SubtractOther { register, .. }
            | Recovery::Xor { register }
            | Recovery::XorOther { register, .. }
            | Recovery::Not { register }
            | Recovery::Negate { register }
            | Recovery::ByteSwap { register } => 1 << register,
        }
    }

    /// Registers whose value before can't be told.
    pub(crate) fn lost(&self) -> u16 {
        self.lost
    }

    /// Registers whose value before differs from that after.
    pub(crate) fn changed(&self) -> u16 {
        self.recovered() | self.lost
    }

    pub(crate) fn apply(&self, registers: &mut Registers) {
        let get = |register: u8| registers.gpr(register as usize);
        let (target, value) = match self.recovery {
            Recovery::Nothing => (None, None),
            Recovery::Add { register } => (Some(register), get(register).map(|value| value.wrapping_add(self.amount))),
            Recovery::AddOther { register, other } => {
                let sum = get(register).zip(get(other)).map(|(a, b)| a.wrapping_add(b));
                (Some(register), sum.map(|value| value.wrapping_add(self.amount)))
            }
            Recovery::SubtractOther { register, other, shift } => {
                let rest = get(register).zip(get(other)).map(|(a, b)| a.wrapping_sub(b << shift));
                (Some(register), rest.map(|value| value.wrapping_add(self.amount)))
            }
            Recovery::Xor { register } => (Some(register), get(register).map(|value| value ^ self.amount)),
            Recovery::XorOther { register, other } => {
                (Some(register), get(register).zip(get(other)).map(|(a, b)| a ^ b))
            }
            Recovery::Not { register } => (Some(register), get(register).map(|value| !value)),
            Recovery::Negate { register } => (Some(register), get(register).map(u64::wrapping_neg)),
            Recovery::ByteSwap { register } => (Some(register), get(register).map(u64::swap_bytes)),
            Recovery::Exchange { register, other } => {
                let (a, b) = (get(register), get(other));
                registers.set_gpr(register as usize, b);
                registers.set_gpr(other as usize, a);
                (None, None)
            }
            Recovery::Frame => (Some(RBP as u8), get(RSP as u8).map(|value| value.wrapping_sub(8))),
        };
        if let Some(register) = target {
            registers.set_gpr(register as usize, value);
        }
        registers.known &= !u32::from(self.lost);
    }
}

/// Undoes the instruction at the start of `code` (located at `ip`) on a state after it.
///
/// Flags and the vector registers become unknown, the instruction pointer becomes `ip`; false (and
/// nothing known of the general-purpose registers) when the bytes are no instruction.
pub fn undo(code: &[u8], ip: u64, state: &mut State) -> bool {
    let op = lower_bytes(&code[..code.len().min(MAX_INSTRUCTION_BYTES)], ip);
    Inverse::of(&op).apply(&mut state.registers);
    state.flags_known = 0;
    state.vectors_known = [0; 32];
    state.masks_known = 0;
    state.rip = ip;
    op.work != Work::Undecodable
}

fn recovery(op: &Op) -> (Recovery, u64) {
    const NONE: (Recovery, u64) = (Recovery::Nothing, 0);
    match op.work {
        Work::Push => {
            return (Recovery::Add { register: RSP as u8 }, u64::from(op.size));
        }
        Work::PushFlags => {
            return (Recovery::Add { register: RSP as u8 }, u64::from(op.size));
        }
        Work::PopFlags => {
            return (Recovery::Add { register: RSP as u8 }, u64::from(op.size).wrapping_neg());
        }
        // `pop rsp` is the one pop that loses the pointer.
        Work::Pop if op.a != Operand::Gpr(RSP as u8) => {
            return (Recovery::Add { register: RSP as u8 }, u64::from(op.size).wrapping_neg());
        }
        Work::Leave => return (Recovery::Frame, 0),
        _ => {}
    }
    let (Operand::Gpr(register), 8) = (op.a, op.size) else {
        return NONE;
    };
    let other = match op.b {
        Operand::Gpr(other) if other != register => Some(other),
        _ => None,
    };
    match op.work {
        Work::Alu(Alu::Add | Alu::Sub | Alu::Xor) if op.b == Operand::Immediate => match op.work {
            Work::Alu(Alu::Add) => (Recovery::Add { register }, op.immediate.wrapping_neg()),
            Work::Alu(Alu::Sub) => (Recovery::Add { register }, op.immediate),
            _ => (Recovery::Xor { register }, op.immediate),
        },
        Work::Alu(alu @ (Alu::Add | Alu::Sub | Alu::Xor)) => match (alu, other) {
            (Alu::Add, Some(other)) => (Recovery::SubtractOther { register, other, shift: 0 }, 0),
            (Alu::Sub, Some(other)) => (Recovery::AddOther { register, other }, 0),
            (Alu::Xor, Some(other)) => (Recovery::XorOther { register, other }, 0),
            _ => NONE,
        },
        Work::Unary(Unary::Inc) => (Recovery::Add { register }, 1_u64.wrapping_neg()),
        Work::Unary(Unary::Dec) => (Recovery::Add { register }, 1),
        Work::Unary(Unary::Not) => (Recovery::Not { register }, 0),
        Work::Unary(Unary::Neg) => (Recovery::Negate { register }, 0),
        Work::ByteSwap => (Recovery::ByteSwap { register }, 0),
        Work::Exchange => match other {
            Some(other) => (Recovery::Exchange { register, other }, 0),
            None => NONE,
        },
        Work::Address => lea(register, &op.place),
        _ => NONE,
    }
}

/// r = r + other * scale + displacement is invertible; r * 2 or r + r is not.
fn lea(register: u8, place: &Place) -> (Recovery, u64) {
    const NONE: (Recovery, u64) = (Recovery::Nothing, 0);
    let amount = place.displacement.wrapping_neg();
    let (base, index) = (place.base, place.index);
    if place.narrow {
        return NONE;
    }
    let (other, shift) = match (base == register, index == register) {
        (true, false) => (index, place.scale_log2),
        (false, true) if place.scale_log2 == 0 => (base, 0),
        _ => return NONE,
    };
    if other == ZERO as u8 {
        (Recovery::Add { register }, amount)
    } else {
        (Recovery::SubtractOther { register, other, shift }, amount)
    }
}

fn register_bit(operand: Operand) -> u16 {
    match operand {
        Operand::Gpr(register) | Operand::High(register) => 1 << (register & 15),
        _ => 0,
    }
}

/// General-purpose registers that the instruction writes.
pub(crate) fn written(op: &Op) -> u16 {
    let (a, b) = (register_bit(op.a), register_bit(op.b));
    match op.work {
        Work::Nothing | Work::BitTest(BitTest::Test) | Work::Alu(Alu::Cmp | Alu::Test) => 0,
        Work::JumpIf(_) | Work::Jump | Work::WriteBase(_) | Work::PoisonStore => 0,
        Work::Flag(FlagChange::StoreAh) => 1 << RAX,
        Work::Flag(_) => 0,
        // xchg rax, rax and mov rax, rax change nothing.
        Work::Move | Work::Exchange if op.a == op.b && op.size == 8 => 0,
        Work::Move
        | Work::MoveZero
        | Work::MoveSign
        | Work::Address
        | Work::Alu(_)
        | Work::Unary(_)
        | Work::Shift(_)
        | Work::ShiftPlain(_)
        | Work::ShiftDouble(_)
        | Work::BitTest(_)
        | Work::Bits(_)
        | Work::Multiply
        | Work::AddCarryOnly(_)
        | Work::ByteSwap
        | Work::MoveSwapped
        | Work::MoveIf(_)
        | Work::SetIf(_)
        | Work::Crc32
        | Work::ReadBase(_)
        | Work::Poison => a,
        Work::Vector(_) => {
            // String comparisons return an index in rcx.
            if op.size == 0 { ALL_REGISTERS } else { a | u16::from(crate::vector::writes_rcx(op.work)) << RCX }
        }
        Work::Mulx | Work::Exchange | Work::ExchangeAdd => a | b,
        Work::MultiplyWide(_) | Work::Divide(_) | Work::CompareExchangePair => 1 << RAX | 1 << RDX,
        Work::CompareExchange => a | 1 << RAX,
        Work::ExtendRax | Work::Xlat => 1 << RAX,
        Work::ExtendRdx => 1 << RDX,
        Work::Push | Work::PushFlags | Work::PopFlags | Work::Return => 1 << RSP,
        Work::Pop => a | 1 << RSP,
        Work::Enter | Work::Leave => 1 << RSP | 1 << RBP,
        Work::Loop(3) => 0,
        Work::Loop(_) => 1 << RCX,
        Work::Text(text, repeat) => {
            let pointers = match text {
                Text::Move | Text::Compare => 1 << RSI | 1 << RDI,
                Text::Store | Text::Scan => 1 << RDI,
                Text::Load => 1 << RSI | 1 << RAX,
            };
            pointers | if repeat == Repeat::Once { 0 } else { 1 << RCX }
        }
        Work::Forget => op.immediate as u16,
        Work::Call => CALLER_SAVED,
        Work::Syscall => 1 << RAX | 1 << RCX | 1 << 11,
        // Only the emulator's cache holds the specialized forms.
        Work::MoveRegister | Work::LoadRegister | Work::AluRegister(_) | Work::AluImmediate(_) => a,
        Work::StoreRegister => 0,
        Work::Exception | Work::FarBranch | Work::Undecodable | Work::Unsupported => ALL_REGISTERS,
    }
}

/// The memory operand of an instruction (the explicit one if there are two): where, how wide,
/// which direction. None for `lea`, nops and prefetches.
pub(crate) fn memory_operand(op: &Op) -> Option<(Place, u16, AccessKind)> {
    let at = |register: usize, displacement: u64| Place {
        displacement,
        needs: 1 << register,
        base: register as u8,
        index: ZERO as u8,
        scale_log2: 0,
        segment: ZERO as u8,
        narrow: false,
    };
    let size = u16::from(op.size);
    let explicit = [op.a, op.b, op.c, op.d].contains(&Operand::Memory);
    let kind = match op.work {
        Work::Nothing | Work::Address | Work::Undecodable => return None,
        Work::Text(Text::Move | Text::Compare | Text::Load, _) => {
            return Some((at(RSI, 0), size, AccessKind::Load));
        }
        Work::Text(Text::Store, _) => return Some((at(RDI, 0), size, AccessKind::Store)),
        Work::Text(Text::Scan, _) => return Some((at(RDI, 0), size, AccessKind::Load)),
        Work::Xlat => {
            return Some((Place { needs: NEVER, ..at(RBX, 0) }, 1, AccessKind::Load));
        }
        Work::Push | Work::PushFlags if !explicit => {
            return Some((at(RSP, u64::from(size).wrapping_neg()), size, AccessKind::Store));
        }
        Work::Call if !explicit => {
            return Some((at(RSP, 8_u64.wrapping_neg()), 8, AccessKind::Store));
        }
        Work::Pop | Work::PopFlags if !explicit => {
            return Some((at(RSP, 0), size, AccessKind::Load));
        }
        Work::Return => return Some((at(RSP, 0), 8, AccessKind::Load)),
        Work::Leave => return Some((at(RBP, 0), 8, AccessKind::Load)),
        Work::Enter => return Some((at(RSP, 8_u64.wrapping_neg()), 8, AccessKind::Store)),
        _ if !explicit => return None,
        Work::Alu(Alu::Cmp | Alu::Test) | Work::BitTest(BitTest::Test) => AccessKind::Load,
        Work::Poison | Work::Push | Work::Call | Work::Jump | Work::MultiplyWide(_) | Work::Divide(_) => {
            AccessKind::Load
        }
        Work::Move | Work::MoveSwapped | Work::SetIf(_) | Work::Pop | Work::PoisonStore if op.a == Operand::Memory => {
            AccessKind::Store
        }
        Work::Vector(_) if op.a == Operand::Memory => AccessKind::Store,
        _ if op.a == Operand::Memory => AccessKind::Update,
        _ => AccessKind::Load,
    };
    let bytes = match op.work {
        Work::MoveZero | Work::MoveSign | Work::Crc32 | Work::Poison | Work::PoisonStore => op.from,
        Work::Vector(_) => op.from,
        Work::Call | Work::Jump => 8,
        _ => size,
    };
    let mut place = op.place;
    let bit_string = matches!(op.work, Work::BitTest(_)) && op.b != Operand::Immediate;
    if bit_string || crate::vector::gathers(op.work) {
        place.needs = NEVER;
    }
    Some((place, bytes, kind))
}

/// Whether the next instruction in memory can follow this one.
pub(crate) fn falls_through(op: &Op) -> bool {
    !matches!(op.work, Work::Jump | Work::Return | Work::FarBranch | Work::Exception | Work::Undecodable)
}

/// The target of a direct jump, conditional or not.
pub(crate) fn direct_target(op: &Op) -> Option<u64> {
    match op.work {
        Work::JumpIf(_) | Work::Loop(_) => Some(op.immediate),
        Work::Jump if op.a == Operand::Immediate => Some(op.immediate),
        _ => None,
    }
}
