//! What a waiting instruction waits for: its operands, followed back through registers, flags and
//! stack slots to the load, or the slow instruction, that produced them.

use iced_x86::Instruction;

use crate::access::AccessKind;
use crate::blame_latency::is_slow;
use crate::float::FloatFn;
use crate::lanes::{Lane, Logic};
use crate::op::{Alu, Op, Operand, Place, Repeat, Shift, Text, Unary, Work};
use crate::opmask::Opmask;
use crate::state::{RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP, ZERO};
use crate::undo::{memory_operand, written};
use crate::vector::VectorWork;

/// A set of registers: 16 general ones, 32 vectors, 8 opmasks, then the two below.
type Set = u64;

const VECTOR: u32 = 16;
const MASK: u32 = 48;
/// The status flags as one register.
const FLAGS: Set = 1 << 56;
/// The x87 and MMX registers as one.
const UNTRACKED: Set = 1 << 57;
/// Nothing waits long for the stack pointer.
const STACK_POINTER: Set = 1 << RSP;

/// How likely the memory operand of an instruction keeps it waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    /// No memory operand.
    Absent,
    /// One that is nearly always in the nearest cache: a stack slot, a constant or scalar at a fixed
    /// address, the target of an indirect call or jump.
    Weak,
    Strong,
}

/// A stack slot: base register and displacement.
type Slot = (u8, u64);

/// What the walk needs of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) strength: Strength,
    /// It takes long by itself, and no strong operand keeps it waiting.
    pub(crate) slow: bool,
    /// What its result, or its completion, waits for; without the address of a strong operand.
    reads: Set,
    writes: Set,
    loads: Option<Slot>,
    stores: Option<Slot>,
    /// What ran directly before the next instruction is not known: a call, or not decoded.
    pub(crate) barrier: bool,
    /// Least cycles from its register operands to its result.
    pub(crate) cycles: u8,
}

impl Step {
    /// `op` is the instruction's lowered form.
    pub(crate) fn of(instruction: &Instruction, op: &Op) -> Step {
        let operand = memory_operand(op);
        let strength = match operand {
            None => Strength::Absent,
            Some((place, _, kind)) if is_weak(op, &place, kind) => Strength::Weak,
            Some(_) => Strength::Strong,
        };
        let explicit = [op.a, op.b, op.c, op.d].contains(&Operand::Memory);
        let (mut loads, mut stores) = (None, None);
        if let Some((place, _, kind)) = operand.filter(|_| explicit && strength == Strength::Weak)
            && place.base != ZERO as u8
        {
            let slot = Some((place.base, place.displacement));
            loads = slot.filter(|_| kind != AccessKind::Store);
            stores = slot.filter(|_| kind != AccessKind::Load);
        }
        let barrier = matches!(
            op.work,
            Work::Call | Work::Syscall | Work::Exception | Work::FarBranch | Work::Undecodable | Work::Unsupported
        );
        let slow = strength != Strength::Strong && is_slow(instruction.mnemonic());
        let (reads, writes) = (reads(op) & !STACK_POINTER, writes(op));
        Step { strength, slow, reads, writes, loads, stores, barrier, cycles: cycles(op) }
    }

    pub(crate) fn writes_flags(&self) -> bool {
        self.barrier || self.writes & FLAGS != 0
    }

    /// Whether it loads a stack slot.
    pub(crate) fn loads_slot(&self) -> bool {
        self.loads.is_some()
    }

    /// A bit for each vector register.
    pub(crate) fn writes_vectors(&self) -> u32 {
        if self.barrier { u32::MAX } else { (self.writes >> VECTOR) as u32 }
    }

    /// A bit for each opmask register.
    pub(crate) fn writes_masks(&self) -> u8 {
        if self.barrier { u8::MAX } else { (self.writes >> MASK) as u8 }
    }

    /// Whether it is what itself and those that depend on it are kept waiting by: the time is that of its access, or
    /// its own.
    pub(crate) fn is_source(&self) -> bool {
        self.strength == Strength::Strong || self.slow
    }

    /// Whether it may have kept others waiting at all.
    pub(crate) fn is_suspect(&self) -> bool {
        self.strength != Strength::Absent || self.slow
    }
}

/// What is waited for at one place on the way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    registers: Set,
    slot: Option<Slot>,
}

/// What one more instruction on the way back means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The load, or the slow instruction, that was waited for.
    Source,
    /// It computed what was waited for; its own operands are waited for now.
    Link,
    /// It is unrelated to what is waited for.
    Aside,
}

impl Wanted {
    pub(crate) const NOTHING: Wanted = Wanted { registers: 0, slot: None };

    pub(crate) fn is_empty(&self) -> bool {
        self.registers == 0 && self.slot.is_none()
    }

    /// What an instruction waits for before it runs. A strong memory operand is the caller's business.
    pub(crate) fn before(waiting: &Step) -> Wanted {
        Wanted { registers: waiting.reads, slot: waiting.loads }
    }

    /// Steps back over one instruction.
    pub(crate) fn back(&mut self, step: &Step) -> Found {
        let to_slot = self.slot.is_some() && self.slot == step.stores;
        // A slot addressed from another value of its base is not the same one.
        self.slot = self.slot.filter(|(base, _)| !to_slot && step.writes >> base & 1 == 0);
        let to_register = self.registers & step.writes & !STACK_POINTER != 0;
        if to_register {
            if step.is_source() {
                return Found::Source;
            }
            self.registers &= !step.writes;
            self.registers |= step.reads;
            self.slot = step.loads.or(self.slot);
        }
        if to_slot {
            self.registers |= step.reads;
            self.slot = step.loads.or(self.slot);
        }
        if to_register || to_slot { Found::Link } else { Found::Aside }
    }
}

/// Least cycles from an instruction's register operands to its result on CPUs of the last decade: moves are often done by
/// renaming, a multiplication takes three to five, float arithmetic two to five.
fn cycles(op: &Op) -> u8 {
    match op.work {
        Work::Move | Work::Nothing | Work::JumpIf(_) | Work::Jump | Work::Vector(VectorWork::Move) => 0,
        Work::Multiply | Work::MultiplyWide(_) | Work::Mulx => 3,
        Work::Vector(VectorWork::Float(_) | VectorWork::Fused(_)) => 3,
        _ => 1,
    }
}

/// Whether the memory operand at `place` is nearly always in the nearest cache. Other cores take the
/// line of an atomic one away whatever its address. A frame's locals lie below `rbp`; at or above it,
/// `rbp` may as well be a pointer to data. An index makes it an array. What is written at a fixed address is no
/// constant but a variable, whose line other cores may want.
fn is_weak(op: &Op, place: &Place, kind: AccessKind) -> bool {
    if op.atomic || crate::vector::gathers(op.work) || matches!(op.work, Work::Text(..) | Work::Xlat) {
        return false;
    }
    let code_pointer = matches!(op.work, Work::Call | Work::Jump | Work::Leave);
    code_pointer
        || place.index == ZERO as u8
            && match usize::from(place.base) {
                ZERO => kind == AccessKind::Load,
                RSP => true,
                RBP => (place.displacement as i64) < 0,
                _ => false,
            }
}

fn bit(operand: Operand) -> Set {
    match operand {
        Operand::Gpr(register) => 1 << (register & 15),
        Operand::High(register) => 1 << (register & 3),
        Operand::Vector(register) => 1 << (VECTOR + u32::from(register & 31)),
        Operand::Mask(register) => 1 << (MASK + u32::from(register & 7)),
        Operand::Untracked => UNTRACKED,
        Operand::None | Operand::Memory | Operand::Immediate => 0,
    }
}

/// Whether the operands are x87 or MMX registers, which may be implicit.
fn is_untracked(op: &Op) -> bool {
    matches!(op.work, Work::Poison | Work::PoisonStore)
}

fn writes(op: &Op) -> Set {
    let flags = match op.work {
        Work::Alu(_) | Work::Shift(_) | Work::ShiftDouble(_) | Work::BitTest(_) | Work::Bits(_) => FLAGS,
        Work::Unary(Unary::Not) => 0,
        Work::Unary(_) | Work::Multiply | Work::MultiplyWide(_) | Work::Divide(_) | Work::AddCarryOnly(_) => FLAGS,
        Work::ExchangeAdd | Work::CompareExchange | Work::CompareExchangePair | Work::PopFlags => FLAGS,
        Work::Text(Text::Compare | Text::Scan, _) | Work::Flag(_) => FLAGS,
        Work::Poison | Work::Vector(VectorWork::Poison) if op.immediate != 0 => FLAGS,
        Work::Vector(VectorWork::Test | VectorWork::StringCompare(_)) => FLAGS,
        Work::Vector(VectorWork::Float(FloatFn::CompareFlags)) => FLAGS,
        Work::Vector(VectorWork::Opmask(Opmask::OrTest | Opmask::Test)) => FLAGS,
        _ => 0,
    };
    let others = match op.work {
        Work::Vector(VectorWork::StringCompare(true)) => bit(Operand::Vector(0)),
        Work::Vector(_) if matches!(op.a, Operand::Vector(_) | Operand::Mask(_)) => bit(op.a),
        _ if is_untracked(op) => UNTRACKED,
        _ => 0,
    };
    // Of vectors that are all written only the upper parts are: no wait is for them.
    let all_vectors = matches!(op.work, Work::Vector(VectorWork::ZeroUpper(_)));
    let general = if all_vectors { 0 } else { Set::from(written(op)) };
    general | flags | others
}

fn reads(op: &Op) -> Set {
    let (a, b, c, d) = (bit(op.a), bit(op.b), bit(op.c), bit(op.d));
    let address = || (op.place.needs & 0xffff) as Set;
    let general = match op.work {
        Work::Nothing => return 0,
        Work::Alu(Alu::Xor | Alu::Sub) if op.a == op.b && op.a != Operand::Memory => return 0,
        Work::Move | Work::MoveZero | Work::MoveSign | Work::MoveSwapped | Work::ShiftPlain(_) | Work::Bits(_) => 0,
        Work::Multiply | Work::SetIf(_) | Work::ReadBase(_) | Work::Pop | Work::PopFlags | Work::Forget => 0,
        Work::Address => address(),
        // The code pointer itself is in the cache; the object that leads to it may not be.
        Work::Call | Work::Jump if op.a == Operand::Memory => address(),
        Work::Mulx => return c | 1 << RDX,
        Work::MultiplyWide(_) | Work::ExtendRax | Work::ExtendRdx | Work::Xlat => a | 1 << RAX,
        Work::Divide(_) => a | 1 << RAX | 1 << RDX,
        Work::CompareExchange => a | 1 << RAX,
        Work::CompareExchangePair => 1 << RAX | 1 << RBX | 1 << RCX | 1 << RDX,
        Work::Loop(_) => 1 << RCX,
        Work::Enter | Work::Leave => 1 << RBP,
        Work::Text(text, repeat) => {
            let operands = match text {
                Text::Move | Text::Compare => 1 << RSI | 1 << RDI,
                Text::Store | Text::Scan => 1 << RAX | 1 << RDI,
                Text::Load => 1 << RSI,
            };
            operands | if repeat == Repeat::Once { 0 } else { 1 << RCX }
        }
        Work::Vector(work) => return vector_reads(op, work),
        _ => a,
    };
    let flags = match op.work {
        Work::JumpIf(_) | Work::SetIf(_) | Work::MoveIf(_) | Work::AddCarryOnly(_) | Work::PushFlags => FLAGS,
        Work::Alu(Alu::Adc | Alu::Sbb) | Work::Shift(Shift::Rcl | Shift::Rcr) | Work::Loop(1 | 2) => FLAGS,
        Work::Flag(_) => FLAGS | 1 << RAX,
        _ => 0,
    };
    general | b | c | d | flags | if is_untracked(op) { UNTRACKED } else { 0 }
}

fn vector_reads(op: &Op, work: VectorWork) -> Set {
    let constant = matches!(
        work,
        VectorWork::Logic(Logic::Xor | Logic::AndNot) | VectorWork::Lanes(Lane::Subtract | Lane::Equal | Lane::Greater)
    );
    if constant && op.b == op.c && op.b != Operand::Memory || matches!(work, VectorWork::ZeroUpper(_)) {
        return 0;
    }
    // Lengths of strings, and the selector of some older instructions.
    let implicit = match work {
        VectorWork::StringCompare(_) => 1 << RAX | 1 << RDX,
        VectorWork::Poison => bit(Operand::Vector(0)),
        _ => 0,
    };
    let merges = op.masking.mask != 0 && !op.masking.zeroing;
    let to_itself =
        matches!(work, VectorWork::Fused(_) | VectorWork::Ternary | VectorWork::Gather | VectorWork::Poison);
    let a = if merges || to_itself { bit(op.a) } else { 0 };
    let mask = if op.masking.mask != 0 { bit(Operand::Mask(op.masking.mask)) } else { 0 };
    a | bit(op.b) | bit(op.c) | bit(op.d) | mask | implicit
}

#[cfg(test)]
mod tests {
    use iced_x86::{
        Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register, RflagsBits,
    };
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    use super::*;
    use crate::lower::{gpr, lower};

    const STATUS: u32 =
        RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF;

    fn of_register(register: Register) -> Set {
        match gpr(register) {
            Some(number) => 1 << number,
            None if register.is_vector_register() => 1 << (VECTOR + register.number() as u32),
            None if register.is_k() => 1 << (MASK + register.number() as u32),
            None => 0,
        }
    }

    /// (reads, writes) by the decoder's own tables. Reads are without those of a memory operand's address,
    /// and None where an operand shares a register with it.
    fn by_tables(factory: &mut InstructionInfoFactory, instruction: &Instruction) -> (Option<Set>, Set) {
        let (mut reads, mut writes) = (0, 0);
        for used in factory.info(instruction).used_registers() {
            let set = of_register(used.register());
            if matches!(used.access(), OpAccess::Read | OpAccess::ReadWrite) {
                reads |= set;
            }
            if matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite) {
                writes |= set;
            }
        }
        if instruction.rflags_read() & STATUS != 0 {
            reads |= FLAGS;
        }
        if instruction.rflags_modified() & STATUS != 0 {
            writes |= FLAGS;
        }
        let address = of_register(instruction.memory_base()) | of_register(instruction.memory_index());
        let operands = (0..instruction.op_count())
            .filter(|&index| instruction.op_kind(index) == OpKind::Register)
            .fold(writes | 1 << RAX | 1 << RCX | 1 << RDX, |all, index| {
                all | of_register(instruction.op_register(index))
            });
        let memory = (0..instruction.op_count()).any(|index| instruction.op_kind(index) == OpKind::Memory);
        let reads = match memory {
            true if address & operands != 0 => None,
            true => Some(reads & !address),
            false => Some(reads),
        };
        (reads, writes)
    }

    /// Whether the result is the same whatever the operand is, though it is read by name.
    fn is_constant(instruction: &Instruction) -> bool {
        let mnemonic = format!("{:?}", instruction.mnemonic());
        let named = ["Pcmpeq", "Vpcmpeq", "Pcmpgt", "Vpcmpgt", "Andnp", "Vandnp", "Pandn", "Vpandn"]
            .into_iter()
            .any(|start| mnemonic.starts_with(start));
        let registers = (0..instruction.op_count()).map(|index| instruction.op_register(index));
        let sources = registers.skip(if instruction.op_count() == 3 { 1 } else { 0 }).collect::<Vec<_>>();
        named && sources.len() == 2 && sources[0] == sources[1]
    }

    /// Every one- and two-byte opcode with every operand byte, by prefix.
    #[test]
    fn reads_and_writes_agree_with_the_decoder() {
        let prefixes: [&[u8]; 8] =
            [&[], &[0x48], &[0x0f], &[0x66, 0x0f], &[0xf2, 0x0f], &[0xf3, 0x0f], &[0xf3, 0x48, 0x0f], &[0xc5, 0xf1]];
        let mut factory = InstructionInfoFactory::new();
        let mut checked = 0;
        let mut wrong = Vec::<String>::new();
        for (prefix, opcode, operands) in prefixes
            .into_iter()
            .flat_map(|prefix| (0..=255).flat_map(move |opcode| (0..=255).map(move |byte| (prefix, opcode, byte))))
        {
            let mut code = prefix.to_vec();
            code.extend([opcode, operands, 0x24, 0, 0, 0, 0, 0, 0, 0, 0]);
            let instruction = Decoder::with_ip(64, &code, 0x1000, DecoderOptions::NONE).decode();
            let op = lower(&instruction);
            let step = Step::of(&instruction, &op);
            // Barriers, prefetches, and what works on other registers (x87, `cpuid`, `mov rax, cr0`).
            let aside = matches!(op.work, Work::Nothing | Work::Forget | Work::Poison | Work::PoisonStore);
            if instruction.is_invalid() || instruction.is_privileged() || step.barrier || aside {
                continue;
            }
            checked += 1;
            let (reads, writes) = by_tables(&mut factory, &instruction);
            let reads = reads.filter(|_| !is_constant(&instruction)).unwrap_or(0) & !STACK_POINTER;
            // A register moved onto itself is not written.
            let itself = if op.a == op.b && op.size == 8 { bit(op.a) } else { 0 };
            let (unread, unwritten) = (reads & !step.reads, writes & !step.writes & !itself);
            if (unread, unwritten) != (0, 0) {
                wrong.push(format!(
                    "{:?} {code:02x?}: not read {unread:#x}, not written {unwritten:#x}",
                    instruction.code()
                ));
            }
        }
        assert!(checked > 100_000, "{checked}");
        // One line of each instruction.
        wrong.dedup_by(|a, b| a.split(' ').next() == b.split(' ').next());
        assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
    }
}
