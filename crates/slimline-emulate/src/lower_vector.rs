//! Decoded vector instruction to [`Op`]: the tables' lines applied to operands, and what is in no table.

use iced_x86::{CpuidFeature, EncodingKind, Instruction, Mnemonic as M};

use crate::float::SCALAR;
use crate::float_table::line_float;
use crate::lower::masking;
use crate::op::{Op, Operand, Work};
use crate::vector::{Conversion, FloatFn, Lane, Opmask, Shuffle, VectorWork as V};
use crate::vector_table::{Line, Shape, line, line_mask};

pub(crate) fn lower(instruction: &Instruction, op: &mut Op) -> bool {
    op.masking = masking(instruction);
    let lined = !touches_mmx(instruction)
        && line(instruction, op)
            .or_else(|| line_float(instruction))
            .or_else(|| line_mask(instruction))
            .is_some_and(|line| apply(instruction, op, line));
    lined || whole(instruction, op) || untracked(instruction, op) || poison(instruction, op)
}

fn touches_mmx(instruction: &Instruction) -> bool {
    (0..instruction.op_count())
        .any(|index| instruction.op_kind(index) == iced_x86::OpKind::Register && instruction.op_register(index).is_mm())
}

fn memory_bytes(instruction: &Instruction) -> usize {
    if instruction.is_broadcast() {
        return instruction.memory_size().element_size();
    }
    instruction.memory_size().size()
}

fn apply(instruction: &Instruction, op: &mut Op, line: Line) -> bool {
    let operands = [op.a, op.b, op.c, op.d];
    let count = operands.iter().filter(|&&operand| operand != Operand::None).count();
    let with_immediate = usize::from(operands.contains(&Operand::Immediate));
    let immediate_counts = matches!(line.work, V::Lanes(_) | V::Shuffle(Shuffle::BytesLeft | Shuffle::BytesRight));
    let counted = if immediate_counts { count } else { count - with_immediate };
    match line.shape {
        Shape::Binary if counted == 2 => {
            (op.b, op.c) = (op.a, op.b);
            // pblendvb and blendvps of SSE take xmm0 as selector.
            if line.work == V::Shuffle(Shuffle::BlendBy) {
                op.d = Operand::Vector(0);
            }
        }
        Shape::Unary if counted == 2 => (op.b, op.c) = (Operand::None, op.b),
        Shape::Compare if counted == 2 => (op.a, op.b, op.c) = (Operand::None, op.a, op.b),
        Shape::Binary | Shape::Unary if counted >= 3 => {}
        _ => return false,
    }
    op.element = line.element;
    op.aux = line.aux;
    let widest = (0..instruction.op_count())
        .filter(|&index| instruction.op_kind(index) == iced_x86::OpKind::Register)
        .map(|index| instruction.op_register(index))
        .filter(|register| register.is_vector_register())
        .map(|register| register.size())
        .max();
    let first = instruction.op_register(0);
    let from_first = instruction.op_kind(0) == iced_x86::OpKind::Register && first.is_vector_register();
    op.size = match line.work {
        // Those that move between vectors and general registers keep the register's size.
        V::SignMask => {
            op.aux = widest.unwrap_or(16) as u8;
            first.size() as u8
        }
        V::StoreLow | V::Extract if matches!(op.a, Operand::Gpr(_)) => first.size() as u8,
        V::Opmask(work) if matches!(op.a, Operand::Gpr(_)) && work == Opmask::Move => first.size() as u8,
        V::Convert(_) if instruction.is_broadcast() && line.aux > line.element => return false,
        V::ExtractBlock | V::Truncate | V::Convert(_) => {
            let memory = if line.aux > line.element { instruction.memory_size().size() } else { 0 };
            widest.unwrap_or(16).max(memory) as u8
        }
        // A gather's indices may be wider than its result.
        V::Gather => {
            let index = instruction.memory_index().size();
            let elements = (index / usize::from(op.aux)).min(first.size() / usize::from(op.element));
            (elements * usize::from(op.aux.max(op.element))) as u8
        }
        _ if from_first => first.size() as u8,
        _ => widest.unwrap_or(16) as u8,
    };
    if operands.contains(&Operand::Memory) {
        op.from = memory_bytes(instruction) as u16;
    }
    if let V::StoreLow | V::LoadLow = line.work {
        op.from = u16::from(line.element);
    }
    if line.work == V::Float(FloatFn::Compare) && !op.masking.extends {
        // SSE ignores the upper bits of the predicate.
        op.immediate &= 7;
    }
    op.work = Work::Vector(line.work);
    op.masking.mask == 0 || can_mask(op, line.work)
}

/// Whether masking of the work is modelled.
fn can_mask(op: &Op, work: V) -> bool {
    let scalar = op.aux == SCALAR && matches!(work, V::Float(_) | V::Fused(_));
    if [op.a, op.b, op.c].contains(&Operand::Memory) {
        // Where the mask selects the elements that memory is accessed for.
        return match work {
            V::Lanes(Lane::ShiftLeft | Lane::ShiftRight | Lane::ShiftArithmetic) => op.b == Operand::Memory,
            V::Lanes(Lane::MultiplyAdd | Lane::MultiplyAddBytes | Lane::PackSigned | Lane::PackUnsigned) => false,
            V::Move | V::Lanes(_) | V::Logic(_) | V::Ternary | V::Gather => true,
            V::Shuffle(Shuffle::BlendMask) | V::Opmask(_) => true,
            V::Float(_) | V::Fused(_) => !scalar,
            _ => false,
        };
    }
    match work {
        V::MoveScalar | V::LoadLow | V::StoreLow | V::Insert | V::Extract | V::MoveHalf => false,
        V::Convert(conversion) => !matches!(
            conversion,
            Conversion::ScalarToFloat(_)
                | Conversion::ScalarToInteger(_)
                | Conversion::ScalarTruncate(_)
                | Conversion::ScalarBetween
        ),
        _ => true,
    }
}

/// Instructions without operands.
fn whole(instruction: &Instruction, op: &mut Op) -> bool {
    op.work = match instruction.mnemonic() {
        M::Vzeroupper => Work::Vector(V::ZeroUpper(false)),
        M::Vzeroall => Work::Vector(V::ZeroUpper(true)),
        _ => return false,
    };
    op.size = 64;
    true
}

/// x87, MMX and control registers: their contents are not tracked, their accesses are.
fn untracked(instruction: &Instruction, op: &mut Op) -> bool {
    let features = instruction.cpuid_features();
    let fpu = features.iter().any(|feature| {
        matches!(feature, CpuidFeature::FPU | CpuidFeature::FPU287 | CpuidFeature::FPU387 | CpuidFeature::CMOV)
    });
    let memory = [op.a, op.b, op.c].contains(&Operand::Memory);
    let mmx = touches_mmx(instruction);
    let control =
        matches!(instruction.mnemonic(), M::Ldmxcsr | M::Vldmxcsr | M::Stmxcsr | M::Vstmxcsr | M::Fxsave | M::Fxsave64);
    if matches!(instruction.mnemonic(), M::Ldmxcsr | M::Vldmxcsr) || !(fpu || mmx || control) {
        return false;
    }
    op.immediate = flags_written(instruction);
    op.from = memory_bytes(instruction) as u16;
    if memory && op.from == 0 {
        return false;
    }
    let stores = matches!(
        instruction.mnemonic(),
        M::Fst
            | M::Fstp
            | M::Fist
            | M::Fistp
            | M::Fisttp
            | M::Fbstp
            | M::Fnstcw
            | M::Fstcw
            | M::Fnstsw
            | M::Fstsw
            | M::Fnstenv
            | M::Fstenv
            | M::Fnsave
            | M::Fsave
            | M::Fxsave
            | M::Fxsave64
            | M::Stmxcsr
            | M::Vstmxcsr
    );
    // Any other destination in memory belongs to an MMX move.
    let to_memory = memory && (stores || mmx && op.a == Operand::Memory);
    if matches!(instruction.mnemonic(), M::Maskmovq) {
        return false;
    }
    op.work = if to_memory { Work::PoisonStore } else { Work::Poison };
    true
}

/// Vector instructions that are not modelled: memory is read, the first operand is written.
fn poison(instruction: &Instruction, op: &mut Op) -> bool {
    let vector = |operand: Operand| matches!(operand, Operand::Vector(_) | Operand::Mask(_));
    let operands = [op.a, op.b, op.c, op.d];
    let is_vector = operands.into_iter().any(vector) || instruction.encoding() != EncodingKind::Legacy;
    let exceptional = matches!(
        instruction.mnemonic(),
        // Two destinations, implicit operands, or accesses that depend on the mask.
        M::Vp2intersectd
            | M::Vp2intersectq
            | M::Maskmovdqu
            | M::Vmaskmovdqu
            | M::Vpexpandb
            | M::Vpexpandw
            | M::Vpexpandd
            | M::Vpexpandq
            | M::Vexpandps
            | M::Vexpandpd
    );
    let writes_register = matches!(op.a, Operand::Vector(_) | Operand::Mask(_) | Operand::Gpr(_));
    let memory = operands.contains(&Operand::Memory);
    let indexed = memory && instruction.memory_index().is_vector_register();
    if !is_vector || exceptional || !writes_register || indexed || instruction.op_count() < 2 {
        return false;
    }
    let from = if memory { memory_bytes(instruction) } else { 0 };
    if memory && (from == 0 || from > 64 || op.masking.mask != 0) {
        return false;
    }
    op.from = from as u16;
    op.immediate = flags_written(instruction);
    op.work = Work::Vector(V::Poison);
    op.size = 16;
    true
}

/// The status flags that an instruction writes, in the upper half of an immediate.
fn flags_written(instruction: &Instruction) -> u64 {
    use crate::flags::{AF, CF, DF, OF, PF, SF, ZF};
    use iced_x86::RflagsBits;
    let modified = instruction.rflags_modified();
    let table = [
        (RflagsBits::CF, CF),
        (RflagsBits::PF, PF),
        (RflagsBits::AF, AF),
        (RflagsBits::ZF, ZF),
        (RflagsBits::SF, SF),
        (RflagsBits::DF, DF),
        (RflagsBits::OF, OF),
    ];
    table.into_iter().filter(|(theirs, _)| modified & theirs != 0).fold(0, |all, (_, ours)| all | ours) << 32
}
