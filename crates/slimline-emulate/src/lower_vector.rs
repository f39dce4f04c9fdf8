//! Decoded vector instruction to [`Op`]: a table from mnemonics to work, shape and element size.

use iced_x86::{CpuidFeature, EncodingKind, Instruction, Mnemonic as M};

use crate::float::{FusedSigns, SCALAR};
use crate::lower::masking;
use crate::op::{Op, Operand, Work};
use crate::vector::{Conversion, FloatFn, Fused, Lane, Logic, Opmask, Shuffle, VectorWork as V};

/// How the operands of an encoding map to a, b, c, d.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// a = f(b, c); with two operands a = f(a, b).
    Binary,
    /// a = f(b), as c.
    Unary,
    /// As encoded, no destination.
    Compare,
}

/// A line of the table.
struct Line {
    work: V,
    element: u8,
    aux: u8,
    shape: Shape,
}

const fn binary(work: V, element: u8) -> Option<Line> {
    Some(Line { work, element, aux: 0, shape: Shape::Binary })
}

const fn unary(work: V, element: u8) -> Option<Line> {
    Some(Line { work, element, aux: 0, shape: Shape::Unary })
}

const fn unary_aux(work: V, element: u8, aux: u8) -> Option<Line> {
    Some(Line { work, element, aux, shape: Shape::Unary })
}

const fn binary_aux(work: V, element: u8, aux: u8) -> Option<Line> {
    Some(Line { work, element, aux, shape: Shape::Binary })
}

const fn lane(lane: Lane, element: u8) -> Option<Line> {
    binary(V::Lanes(lane), element)
}

const fn shuffle(shuffle: Shuffle, element: u8) -> Option<Line> {
    binary(V::Shuffle(shuffle), element)
}

const fn shuffle_one(shuffle: Shuffle, element: u8) -> Option<Line> {
    unary(V::Shuffle(shuffle), element)
}

const fn float(function: FloatFn, element: u8) -> Option<Line> {
    binary(V::Float(function), element)
}

const fn scalar(function: FloatFn, element: u8) -> Option<Line> {
    binary_aux(V::Float(function), element, SCALAR)
}

const fn mask(work: Opmask, width: u8) -> Option<Line> {
    binary(V::Opmask(work), width)
}

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
            // pblendvb and blendvps of SSE take xmm0 as selector.
            (op.b, op.c, op.d) = (op.a, op.b, Operand::Vector(0));
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

/// Moves, integers and permutations.
fn line(instruction: &Instruction, op: &Op) -> Option<Line> {
    let vex3 = op.c != Operand::None;
    let to_memory = op.a == Operand::Memory;
    let to_mask = matches!(op.a, Operand::Mask(_));
    match instruction.mnemonic() {
        M::Movaps
        | M::Movups
        | M::Movapd
        | M::Movupd
        | M::Movdqa
        | M::Movdqu
        | M::Lddqu
        | M::Vlddqu
        | M::Movntps
        | M::Movntpd
        | M::Movntdq
        | M::Movntdqa
        | M::Vmovntps
        | M::Vmovntpd
        | M::Vmovntdq
        | M::Vmovntdqa
        | M::Vmovaps
        | M::Vmovups
        | M::Vmovdqa
        | M::Vmovdqu
        | M::Vmovdqa32
        | M::Vmovdqu32 => unary(V::Move, 4),
        M::Vmovapd | M::Vmovupd | M::Vmovdqa64 | M::Vmovdqu64 => unary(V::Move, 8),
        M::Vmovdqu8 => unary(V::Move, 1),
        M::Vmovdqu16 => unary(V::Move, 2),
        M::Movd | M::Vmovd => unary(if matches!(op.a, Operand::Vector(_)) { V::LoadLow } else { V::StoreLow }, 4),
        M::Movq | M::Vmovq => unary(if matches!(op.a, Operand::Vector(_)) { V::LoadLow } else { V::StoreLow }, 8),
        M::Movss | M::Vmovss | M::Movsd | M::Vmovsd => {
            let element = if matches!(instruction.mnemonic(), M::Movss | M::Vmovss) { 4 } else { 8 };
            match (op.a, op.b) {
                (Operand::Memory, _) => unary(V::StoreLow, element),
                (_, Operand::Memory) => unary(V::LoadLow, element),
                _ => binary(V::MoveScalar, element),
            }
        }
        M::Movlps | M::Movlpd | M::Vmovlps | M::Vmovlpd if to_memory => unary_aux(V::StoreHalf, 8, 0),
        M::Movhps | M::Movhpd | M::Vmovhps | M::Vmovhpd if to_memory => unary_aux(V::StoreHalf, 8, 8),
        M::Movlps | M::Movlpd | M::Vmovlps | M::Vmovlpd => binary_aux(V::MoveHalf, 8, 0),
        M::Movhps | M::Movhpd | M::Vmovhps | M::Vmovhpd => binary_aux(V::MoveHalf, 8, 8 * 16),
        M::Movhlps | M::Vmovhlps => binary_aux(V::MoveHalf, 8, 8),
        M::Movlhps | M::Vmovlhps => binary_aux(V::MoveHalf, 8, 8 * 16),
        M::Movddup | M::Vmovddup => shuffle_one(Shuffle::Even, 8),
        M::Movsldup | M::Vmovsldup => shuffle_one(Shuffle::Even, 4),
        M::Movshdup | M::Vmovshdup => shuffle_one(Shuffle::Odd, 4),
        M::Vpbroadcastb => unary_aux(V::Broadcast, 1, 1),
        M::Vpbroadcastw => unary_aux(V::Broadcast, 2, 2),
        M::Vpbroadcastd | M::Vbroadcastss => unary_aux(V::Broadcast, 4, 4),
        M::Vpbroadcastq | M::Vbroadcastsd => unary_aux(V::Broadcast, 8, 8),
        M::Vbroadcastf32x2 | M::Vbroadcasti32x2 => unary_aux(V::Broadcast, 4, 8),
        M::Vbroadcastf128 | M::Vbroadcasti128 | M::Vbroadcastf32x4 | M::Vbroadcasti32x4 => {
            unary_aux(V::Broadcast, 4, 16)
        }
        M::Vbroadcastf64x2 | M::Vbroadcasti64x2 => unary_aux(V::Broadcast, 8, 16),
        M::Vbroadcastf32x8 | M::Vbroadcasti32x8 => unary_aux(V::Broadcast, 4, 32),
        M::Vbroadcastf64x4 | M::Vbroadcasti64x4 => unary_aux(V::Broadcast, 8, 32),
        M::Pinsrb | M::Vpinsrb => binary(V::Insert, 1),
        M::Pinsrw | M::Vpinsrw => binary(V::Insert, 2),
        M::Pinsrd | M::Vpinsrd => binary(V::Insert, 4),
        M::Pinsrq | M::Vpinsrq => binary(V::Insert, 8),
        M::Pextrb | M::Vpextrb => unary(V::Extract, 1),
        M::Pextrw | M::Vpextrw => unary(V::Extract, 2),
        M::Pextrd | M::Vpextrd | M::Extractps | M::Vextractps => unary(V::Extract, 4),
        M::Pextrq | M::Vpextrq => unary(V::Extract, 8),
        M::Insertps | M::Vinsertps => shuffle(Shuffle::InsertFloat, 4),
        M::Vinsertf128 | M::Vinserti128 | M::Vinsertf32x4 | M::Vinserti32x4 => binary_aux(V::InsertBlock, 4, 16),
        M::Vinsertf64x2 | M::Vinserti64x2 => binary_aux(V::InsertBlock, 8, 16),
        M::Vinsertf32x8 | M::Vinserti32x8 => binary_aux(V::InsertBlock, 4, 32),
        M::Vinsertf64x4 | M::Vinserti64x4 => binary_aux(V::InsertBlock, 8, 32),
        M::Vextractf128 | M::Vextracti128 | M::Vextractf32x4 | M::Vextracti32x4 => unary_aux(V::ExtractBlock, 4, 16),
        M::Vextractf64x2 | M::Vextracti64x2 => unary_aux(V::ExtractBlock, 8, 16),
        M::Vextractf32x8 | M::Vextracti32x8 => unary_aux(V::ExtractBlock, 4, 32),
        M::Vextractf64x4 | M::Vextracti64x4 => unary_aux(V::ExtractBlock, 8, 32),
        M::Pmovmskb | M::Vpmovmskb => unary(V::SignMask, 1),
        M::Movmskps | M::Vmovmskps => unary(V::SignMask, 4),
        M::Movmskpd | M::Vmovmskpd => unary(V::SignMask, 8),
        M::Pmovzxbw | M::Vpmovzxbw => unary_aux(V::Extend(false), 2, 1),
        M::Pmovzxbd | M::Vpmovzxbd => unary_aux(V::Extend(false), 4, 1),
        M::Pmovzxbq | M::Vpmovzxbq => unary_aux(V::Extend(false), 8, 1),
        M::Pmovzxwd | M::Vpmovzxwd => unary_aux(V::Extend(false), 4, 2),
        M::Pmovzxwq | M::Vpmovzxwq => unary_aux(V::Extend(false), 8, 2),
        M::Pmovzxdq | M::Vpmovzxdq => unary_aux(V::Extend(false), 8, 4),
        M::Pmovsxbw | M::Vpmovsxbw => unary_aux(V::Extend(true), 2, 1),
        M::Pmovsxbd | M::Vpmovsxbd => unary_aux(V::Extend(true), 4, 1),
        M::Pmovsxbq | M::Vpmovsxbq => unary_aux(V::Extend(true), 8, 1),
        M::Pmovsxwd | M::Vpmovsxwd => unary_aux(V::Extend(true), 4, 2),
        M::Pmovsxwq | M::Vpmovsxwq => unary_aux(V::Extend(true), 8, 2),
        M::Pmovsxdq | M::Vpmovsxdq => unary_aux(V::Extend(true), 8, 4),
        M::Vpmovwb => unary_aux(V::Truncate, 1, 2),
        M::Vpmovdb => unary_aux(V::Truncate, 1, 4),
        M::Vpmovqb => unary_aux(V::Truncate, 1, 8),
        M::Vpmovdw => unary_aux(V::Truncate, 2, 4),
        M::Vpmovqw => unary_aux(V::Truncate, 2, 8),
        M::Vpmovqd => unary_aux(V::Truncate, 4, 8),
        M::Vmaskmovps | M::Vpmaskmovd => binary(if to_memory { V::MaskedStore } else { V::MaskedLoad }, 4),
        M::Vmaskmovpd | M::Vpmaskmovq => binary(if to_memory { V::MaskedStore } else { V::MaskedLoad }, 8),
        M::Vpgatherdd | M::Vgatherdps => unary_aux(V::Gather, 4, 4),
        M::Vpgatherdq | M::Vgatherdpd => unary_aux(V::Gather, 8, 4),
        M::Vpgatherqd | M::Vgatherqps => unary_aux(V::Gather, 4, 8),
        M::Vpgatherqq | M::Vgatherqpd => unary_aux(V::Gather, 8, 8),
        M::Paddb | M::Vpaddb => lane(Lane::Add, 1),
        M::Paddw | M::Vpaddw => lane(Lane::Add, 2),
        M::Paddd | M::Vpaddd => lane(Lane::Add, 4),
        M::Paddq | M::Vpaddq => lane(Lane::Add, 8),
        M::Psubb | M::Vpsubb => lane(Lane::Subtract, 1),
        M::Psubw | M::Vpsubw => lane(Lane::Subtract, 2),
        M::Psubd | M::Vpsubd => lane(Lane::Subtract, 4),
        M::Psubq | M::Vpsubq => lane(Lane::Subtract, 8),
        M::Paddsb | M::Vpaddsb => lane(Lane::AddSigned, 1),
        M::Paddsw | M::Vpaddsw => lane(Lane::AddSigned, 2),
        M::Paddusb | M::Vpaddusb => lane(Lane::AddUnsigned, 1),
        M::Paddusw | M::Vpaddusw => lane(Lane::AddUnsigned, 2),
        M::Psubsb | M::Vpsubsb => lane(Lane::SubtractSigned, 1),
        M::Psubsw | M::Vpsubsw => lane(Lane::SubtractSigned, 2),
        M::Psubusb | M::Vpsubusb => lane(Lane::SubtractUnsigned, 1),
        M::Psubusw | M::Vpsubusw => lane(Lane::SubtractUnsigned, 2),
        M::Pmullw | M::Vpmullw => lane(Lane::MultiplyLow, 2),
        M::Pmulld | M::Vpmulld => lane(Lane::MultiplyLow, 4),
        M::Vpmullq => lane(Lane::MultiplyLow, 8),
        M::Pmulhw | M::Vpmulhw => lane(Lane::MultiplyHigh, 2),
        M::Pmulhuw | M::Vpmulhuw => lane(Lane::MultiplyHighUnsigned, 2),
        M::Pmulhrsw | M::Vpmulhrsw => lane(Lane::MultiplyHighRounded, 2),
        M::Pmuldq | M::Vpmuldq => lane(Lane::MultiplyWide, 8),
        M::Pmuludq | M::Vpmuludq => lane(Lane::MultiplyWideUnsigned, 8),
        M::Pmaddwd | M::Vpmaddwd => lane(Lane::MultiplyAdd, 4),
        M::Pmaddubsw | M::Vpmaddubsw => lane(Lane::MultiplyAddBytes, 2),
        M::Psadbw | M::Vpsadbw => lane(Lane::SumDifferences, 8),
        M::Phaddw | M::Vphaddw => lane(Lane::PairAdd, 2),
        M::Phaddd | M::Vphaddd => lane(Lane::PairAdd, 4),
        M::Phsubw | M::Vphsubw => lane(Lane::PairSubtract, 2),
        M::Phsubd | M::Vphsubd => lane(Lane::PairSubtract, 4),
        M::Packsswb | M::Vpacksswb => lane(Lane::PackSigned, 1),
        M::Packssdw | M::Vpackssdw => lane(Lane::PackSigned, 2),
        M::Packuswb | M::Vpackuswb => lane(Lane::PackUnsigned, 1),
        M::Packusdw | M::Vpackusdw => lane(Lane::PackUnsigned, 2),
        M::Pminsb | M::Vpminsb => lane(Lane::MinSigned, 1),
        M::Pminsw | M::Vpminsw => lane(Lane::MinSigned, 2),
        M::Pminsd | M::Vpminsd => lane(Lane::MinSigned, 4),
        M::Vpminsq => lane(Lane::MinSigned, 8),
        M::Pmaxsb | M::Vpmaxsb => lane(Lane::MaxSigned, 1),
        M::Pmaxsw | M::Vpmaxsw => lane(Lane::MaxSigned, 2),
        M::Pmaxsd | M::Vpmaxsd => lane(Lane::MaxSigned, 4),
        M::Vpmaxsq => lane(Lane::MaxSigned, 8),
        M::Pminub | M::Vpminub => lane(Lane::MinUnsigned, 1),
        M::Pminuw | M::Vpminuw => lane(Lane::MinUnsigned, 2),
        M::Pminud | M::Vpminud => lane(Lane::MinUnsigned, 4),
        M::Vpminuq => lane(Lane::MinUnsigned, 8),
        M::Pmaxub | M::Vpmaxub => lane(Lane::MaxUnsigned, 1),
        M::Pmaxuw | M::Vpmaxuw => lane(Lane::MaxUnsigned, 2),
        M::Pmaxud | M::Vpmaxud => lane(Lane::MaxUnsigned, 4),
        M::Vpmaxuq => lane(Lane::MaxUnsigned, 8),
        M::Pavgb | M::Vpavgb => lane(Lane::Average, 1),
        M::Pavgw | M::Vpavgw => lane(Lane::Average, 2),
        M::Psignb | M::Vpsignb => lane(Lane::Sign, 1),
        M::Psignw | M::Vpsignw => lane(Lane::Sign, 2),
        M::Psignd | M::Vpsignd => lane(Lane::Sign, 4),
        M::Pabsb | M::Vpabsb => unary(V::Lanes(Lane::Absolute), 1),
        M::Pabsw | M::Vpabsw => unary(V::Lanes(Lane::Absolute), 2),
        M::Pabsd | M::Vpabsd => unary(V::Lanes(Lane::Absolute), 4),
        M::Vpabsq => unary(V::Lanes(Lane::Absolute), 8),
        M::Vpopcntb => unary(V::Lanes(Lane::Population), 1),
        M::Vpopcntw => unary(V::Lanes(Lane::Population), 2),
        M::Vpopcntd => unary(V::Lanes(Lane::Population), 4),
        M::Vpopcntq => unary(V::Lanes(Lane::Population), 8),
        M::Vplzcntd => unary(V::Lanes(Lane::LeadingZeros), 4),
        M::Vplzcntq => unary(V::Lanes(Lane::LeadingZeros), 8),
        M::Pcmpeqb | M::Vpcmpeqb if !to_mask => lane(Lane::Equal, 1),
        M::Pcmpeqw | M::Vpcmpeqw if !to_mask => lane(Lane::Equal, 2),
        M::Pcmpeqd | M::Vpcmpeqd if !to_mask => lane(Lane::Equal, 4),
        M::Pcmpeqq | M::Vpcmpeqq if !to_mask => lane(Lane::Equal, 8),
        M::Pcmpgtb | M::Vpcmpgtb if !to_mask => lane(Lane::Greater, 1),
        M::Pcmpgtw | M::Vpcmpgtw if !to_mask => lane(Lane::Greater, 2),
        M::Pcmpgtd | M::Vpcmpgtd if !to_mask => lane(Lane::Greater, 4),
        M::Pcmpgtq | M::Vpcmpgtq if !to_mask => lane(Lane::Greater, 8),
        M::Psllw | M::Vpsllw => lane(Lane::ShiftLeft, 2),
        M::Pslld | M::Vpslld => lane(Lane::ShiftLeft, 4),
        M::Psllq | M::Vpsllq => lane(Lane::ShiftLeft, 8),
        M::Psrlw | M::Vpsrlw => lane(Lane::ShiftRight, 2),
        M::Psrld | M::Vpsrld => lane(Lane::ShiftRight, 4),
        M::Psrlq | M::Vpsrlq => lane(Lane::ShiftRight, 8),
        M::Psraw | M::Vpsraw => lane(Lane::ShiftArithmetic, 2),
        M::Psrad | M::Vpsrad => lane(Lane::ShiftArithmetic, 4),
        M::Vpsraq => lane(Lane::ShiftArithmetic, 8),
        M::Vpsllvw => lane(Lane::ShiftLeftEach, 2),
        M::Vpsllvd => lane(Lane::ShiftLeftEach, 4),
        M::Vpsllvq => lane(Lane::ShiftLeftEach, 8),
        M::Vpsrlvw => lane(Lane::ShiftRightEach, 2),
        M::Vpsrlvd => lane(Lane::ShiftRightEach, 4),
        M::Vpsrlvq => lane(Lane::ShiftRightEach, 8),
        M::Vpsravw => lane(Lane::ShiftArithmeticEach, 2),
        M::Vpsravd => lane(Lane::ShiftArithmeticEach, 4),
        M::Vpsravq => lane(Lane::ShiftArithmeticEach, 8),
        M::Vprold | M::Vprolvd => lane(Lane::RotateLeft, 4),
        M::Vprolq | M::Vprolvq => lane(Lane::RotateLeft, 8),
        M::Vprord | M::Vprorvd => lane(Lane::RotateRight, 4),
        M::Vprorq | M::Vprorvq => lane(Lane::RotateRight, 8),
        M::Pand | M::Vpand | M::Vpandd | M::Andps | M::Vandps => binary(V::Logic(Logic::And), 4),
        M::Vpandq | M::Andpd | M::Vandpd => binary(V::Logic(Logic::And), 8),
        M::Pandn | M::Vpandn | M::Vpandnd | M::Andnps | M::Vandnps => binary(V::Logic(Logic::AndNot), 4),
        M::Vpandnq | M::Andnpd | M::Vandnpd => binary(V::Logic(Logic::AndNot), 8),
        M::Por | M::Vpor | M::Vpord | M::Orps | M::Vorps => binary(V::Logic(Logic::Or), 4),
        M::Vporq | M::Orpd | M::Vorpd => binary(V::Logic(Logic::Or), 8),
        M::Pxor | M::Vpxor | M::Vpxord | M::Xorps | M::Vxorps => binary(V::Logic(Logic::Xor), 4),
        M::Vpxorq | M::Xorpd | M::Vxorpd => binary(V::Logic(Logic::Xor), 8),
        M::Vpternlogd => binary(V::Ternary, 4),
        M::Vpternlogq => binary(V::Ternary, 8),
        M::Punpcklbw | M::Vpunpcklbw => shuffle(Shuffle::UnpackLow, 1),
        M::Punpcklwd | M::Vpunpcklwd => shuffle(Shuffle::UnpackLow, 2),
        M::Punpckldq | M::Vpunpckldq | M::Unpcklps | M::Vunpcklps => shuffle(Shuffle::UnpackLow, 4),
        M::Punpcklqdq | M::Vpunpcklqdq | M::Unpcklpd | M::Vunpcklpd => shuffle(Shuffle::UnpackLow, 8),
        M::Punpckhbw | M::Vpunpckhbw => shuffle(Shuffle::UnpackHigh, 1),
        M::Punpckhwd | M::Vpunpckhwd => shuffle(Shuffle::UnpackHigh, 2),
        M::Punpckhdq | M::Vpunpckhdq | M::Unpckhps | M::Vunpckhps => shuffle(Shuffle::UnpackHigh, 4),
        M::Punpckhqdq | M::Vpunpckhqdq | M::Unpckhpd | M::Vunpckhpd => shuffle(Shuffle::UnpackHigh, 8),
        M::Pshufb | M::Vpshufb => shuffle(Shuffle::Bytes, 1),
        M::Pshufd | M::Vpshufd => shuffle_one(Shuffle::InLane, 4),
        M::Pshuflw | M::Vpshuflw => shuffle_one(Shuffle::LowWords, 2),
        M::Pshufhw | M::Vpshufhw => shuffle_one(Shuffle::HighWords, 2),
        M::Shufps | M::Vshufps => shuffle(Shuffle::Two, 4),
        M::Shufpd | M::Vshufpd => shuffle(Shuffle::Two, 8),
        M::Palignr | M::Vpalignr => shuffle(Shuffle::Align, 1),
        M::Valignd => shuffle(Shuffle::AlignElements, 4),
        M::Valignq => shuffle(Shuffle::AlignElements, 8),
        M::Pslldq | M::Vpslldq => shuffle(Shuffle::BytesLeft, 1),
        M::Psrldq | M::Vpsrldq => shuffle(Shuffle::BytesRight, 1),
        M::Vpermq | M::Vpermpd if op.c == Operand::Immediate => shuffle_one(Shuffle::Quads, 8),
        M::Vpermq | M::Vpermpd => shuffle(Shuffle::Across, 8),
        M::Vpermd | M::Vpermps => shuffle(Shuffle::Across, 4),
        M::Vpermw => shuffle(Shuffle::Across, 2),
        M::Vpermb => shuffle(Shuffle::Across, 1),
        M::Vpermilps if op.c == Operand::Immediate => shuffle_one(Shuffle::InLane, 4),
        M::Vpermilpd if op.c == Operand::Immediate => shuffle_one(Shuffle::InLane, 8),
        M::Vpermilps => shuffle(Shuffle::InLaneBy, 4),
        M::Vpermilpd => shuffle(Shuffle::InLaneBy, 8),
        M::Vpermt2b => shuffle(Shuffle::TwoTables(false), 1),
        M::Vpermt2w => shuffle(Shuffle::TwoTables(false), 2),
        M::Vpermt2d | M::Vpermt2ps => shuffle(Shuffle::TwoTables(false), 4),
        M::Vpermt2q | M::Vpermt2pd => shuffle(Shuffle::TwoTables(false), 8),
        M::Vpermi2b => shuffle(Shuffle::TwoTables(true), 1),
        M::Vpermi2w => shuffle(Shuffle::TwoTables(true), 2),
        M::Vpermi2d | M::Vpermi2ps => shuffle(Shuffle::TwoTables(true), 4),
        M::Vpermi2q | M::Vpermi2pd => shuffle(Shuffle::TwoTables(true), 8),
        M::Vperm2f128 | M::Vperm2i128 => shuffle(Shuffle::Halves, 8),
        M::Vshuff32x4 | M::Vshufi32x4 => shuffle(Shuffle::Blocks, 4),
        M::Vshuff64x2 | M::Vshufi64x2 => shuffle(Shuffle::Blocks, 8),
        M::Pblendw | M::Vpblendw => shuffle(Shuffle::Blend, 2),
        M::Blendps | M::Vblendps | M::Vpblendd => shuffle(Shuffle::Blend, 4),
        M::Blendpd | M::Vblendpd => shuffle(Shuffle::Blend, 8),
        M::Pblendvb | M::Vpblendvb => shuffle(Shuffle::BlendBy, 1),
        M::Blendvps | M::Vblendvps => shuffle(Shuffle::BlendBy, 4),
        M::Blendvpd | M::Vblendvpd => shuffle(Shuffle::BlendBy, 8),
        M::Vpblendmb => shuffle(Shuffle::BlendMask, 1),
        M::Vpblendmw => shuffle(Shuffle::BlendMask, 2),
        M::Vpblendmd | M::Vblendmps => shuffle(Shuffle::BlendMask, 4),
        M::Vpblendmq | M::Vblendmpd => shuffle(Shuffle::BlendMask, 8),
        M::Ptest | M::Vptest => Some(Line { work: V::Test, element: 1, aux: 0, shape: Shape::Compare }),
        M::Vtestps => Some(Line { work: V::Test, element: 4, aux: 0, shape: Shape::Compare }),
        M::Vtestpd => Some(Line { work: V::Test, element: 8, aux: 0, shape: Shape::Compare }),
        M::Pcmpistri | M::Vpcmpistri | M::Pcmpestri | M::Vpcmpestri | M::Pcmpestri64 | M::Vpcmpestri64
            if !vex3 || op.c == Operand::Immediate =>
        {
            Some(Line { work: V::StringCompare(false), element: 1, aux: 0, shape: Shape::Compare })
        }
        M::Pcmpistrm | M::Vpcmpistrm | M::Pcmpestrm | M::Vpcmpestrm | M::Pcmpestrm64 | M::Vpcmpestrm64
            if !vex3 || op.c == Operand::Immediate =>
        {
            Some(Line { work: V::StringCompare(true), element: 1, aux: 0, shape: Shape::Compare })
        }
        _ => None,
    }
}

/// Floats.
fn line_float(instruction: &Instruction) -> Option<Line> {
    use FloatFn as F;
    let single = |scalar_form: bool, function: F| if scalar_form { scalar(function, 4) } else { float(function, 4) };
    let double = |scalar_form: bool, function: F| if scalar_form { scalar(function, 8) } else { float(function, 8) };
    match instruction.mnemonic() {
        M::Addps | M::Vaddps => single(false, F::Add),
        M::Addss | M::Vaddss => single(true, F::Add),
        M::Addpd | M::Vaddpd => double(false, F::Add),
        M::Addsd | M::Vaddsd => double(true, F::Add),
        M::Subps | M::Vsubps => single(false, F::Subtract),
        M::Subss | M::Vsubss => single(true, F::Subtract),
        M::Subpd | M::Vsubpd => double(false, F::Subtract),
        M::Subsd | M::Vsubsd => double(true, F::Subtract),
        M::Mulps | M::Vmulps => single(false, F::Multiply),
        M::Mulss | M::Vmulss => single(true, F::Multiply),
        M::Mulpd | M::Vmulpd => double(false, F::Multiply),
        M::Mulsd | M::Vmulsd => double(true, F::Multiply),
        M::Divps | M::Vdivps => single(false, F::Divide),
        M::Divss | M::Vdivss => single(true, F::Divide),
        M::Divpd | M::Vdivpd => double(false, F::Divide),
        M::Divsd | M::Vdivsd => double(true, F::Divide),
        M::Minps | M::Vminps => single(false, F::Min),
        M::Minss | M::Vminss => single(true, F::Min),
        M::Minpd | M::Vminpd => double(false, F::Min),
        M::Minsd | M::Vminsd => double(true, F::Min),
        M::Maxps | M::Vmaxps => single(false, F::Max),
        M::Maxss | M::Vmaxss => single(true, F::Max),
        M::Maxpd | M::Vmaxpd => double(false, F::Max),
        M::Maxsd | M::Vmaxsd => double(true, F::Max),
        M::Sqrtps | M::Vsqrtps => unary(V::Float(F::SquareRoot), 4),
        M::Sqrtss | M::Vsqrtss => single(true, F::SquareRoot),
        M::Sqrtpd | M::Vsqrtpd => unary(V::Float(F::SquareRoot), 8),
        M::Sqrtsd | M::Vsqrtsd => double(true, F::SquareRoot),
        M::Roundps | M::Vroundps | M::Vrndscaleps => unary(V::Float(F::Round), 4),
        M::Roundss | M::Vroundss | M::Vrndscaless => single(true, F::Round),
        M::Roundpd | M::Vroundpd | M::Vrndscalepd => unary(V::Float(F::Round), 8),
        M::Roundsd | M::Vroundsd | M::Vrndscalesd => double(true, F::Round),
        M::Cmpps | M::Vcmpps => single(false, F::Compare),
        M::Cmpss | M::Vcmpss => single(true, F::Compare),
        M::Cmppd | M::Vcmppd => double(false, F::Compare),
        // The string instruction of this name has no vector operand and was taken before.
        M::Cmpsd | M::Vcmpsd => double(true, F::Compare),
        M::Ucomiss | M::Comiss | M::Vucomiss | M::Vcomiss => {
            Some(Line { work: V::Float(F::CompareFlags), element: 4, aux: SCALAR, shape: Shape::Compare })
        }
        M::Ucomisd | M::Comisd | M::Vucomisd | M::Vcomisd => {
            Some(Line { work: V::Float(F::CompareFlags), element: 8, aux: SCALAR, shape: Shape::Compare })
        }
        M::Haddps | M::Vhaddps => single(false, F::HorizontalAdd),
        M::Haddpd | M::Vhaddpd => double(false, F::HorizontalAdd),
        M::Hsubps | M::Vhsubps => single(false, F::HorizontalSubtract),
        M::Hsubpd | M::Vhsubpd => double(false, F::HorizontalSubtract),
        M::Addsubps | M::Vaddsubps => single(false, F::AddSubtract),
        M::Addsubpd | M::Vaddsubpd => double(false, F::AddSubtract),
        M::Cvtsi2ss | M::Vcvtsi2ss => {
            binary_aux(V::Convert(Conversion::ScalarToFloat(true)), 4, integer_bytes(instruction))
        }
        M::Cvtsi2sd | M::Vcvtsi2sd => {
            binary_aux(V::Convert(Conversion::ScalarToFloat(true)), 8, integer_bytes(instruction))
        }
        M::Vcvtusi2ss => binary_aux(V::Convert(Conversion::ScalarToFloat(false)), 4, integer_bytes(instruction)),
        M::Vcvtusi2sd => binary_aux(V::Convert(Conversion::ScalarToFloat(false)), 8, integer_bytes(instruction)),
        M::Cvtss2sd | M::Vcvtss2sd => binary_aux(V::Convert(Conversion::ScalarBetween), 8, 4),
        M::Cvtsd2ss | M::Vcvtsd2ss => binary_aux(V::Convert(Conversion::ScalarBetween), 4, 8),
        M::Cvttss2si | M::Vcvttss2si => {
            unary_aux(V::Convert(Conversion::ScalarTruncate(true)), integer_result(instruction), 4)
        }
        M::Cvttsd2si | M::Vcvttsd2si => {
            unary_aux(V::Convert(Conversion::ScalarTruncate(true)), integer_result(instruction), 8)
        }
        M::Cvtss2si | M::Vcvtss2si => {
            unary_aux(V::Convert(Conversion::ScalarToInteger(true)), integer_result(instruction), 4)
        }
        M::Cvtsd2si | M::Vcvtsd2si => {
            unary_aux(V::Convert(Conversion::ScalarToInteger(true)), integer_result(instruction), 8)
        }
        M::Vcvttss2usi => unary_aux(V::Convert(Conversion::ScalarTruncate(false)), integer_result(instruction), 4),
        M::Vcvttsd2usi => unary_aux(V::Convert(Conversion::ScalarTruncate(false)), integer_result(instruction), 8),
        M::Cvtdq2ps | M::Vcvtdq2ps => unary_aux(V::Convert(Conversion::ToFloat(true)), 4, 4),
        M::Cvtdq2pd | M::Vcvtdq2pd => unary_aux(V::Convert(Conversion::ToFloat(true)), 8, 4),
        M::Vcvtudq2ps => unary_aux(V::Convert(Conversion::ToFloat(false)), 4, 4),
        M::Vcvtudq2pd => unary_aux(V::Convert(Conversion::ToFloat(false)), 8, 4),
        M::Vcvtqq2pd => unary_aux(V::Convert(Conversion::ToFloat(true)), 8, 8),
        M::Vcvtuqq2pd => unary_aux(V::Convert(Conversion::ToFloat(false)), 8, 8),
        M::Vcvtqq2ps => unary_aux(V::Convert(Conversion::ToFloat(true)), 4, 8),
        M::Cvttps2dq | M::Vcvttps2dq => unary_aux(V::Convert(Conversion::Truncate(true)), 4, 4),
        M::Cvtps2dq | M::Vcvtps2dq => unary_aux(V::Convert(Conversion::ToInteger(true)), 4, 4),
        M::Cvttpd2dq | M::Vcvttpd2dq => unary_aux(V::Convert(Conversion::Truncate(true)), 4, 8),
        M::Cvtpd2dq | M::Vcvtpd2dq => unary_aux(V::Convert(Conversion::ToInteger(true)), 4, 8),
        M::Vcvttpd2qq => unary_aux(V::Convert(Conversion::Truncate(true)), 8, 8),
        M::Cvtps2pd | M::Vcvtps2pd => unary_aux(V::Convert(Conversion::Between), 8, 4),
        M::Cvtpd2ps | M::Vcvtpd2ps => unary_aux(V::Convert(Conversion::Between), 4, 8),
        _ => line_fused(instruction),
    }
}

/// Bytes of the integer source of a conversion.
fn integer_bytes(instruction: &Instruction) -> u8 {
    let last = instruction.op_count() - 1;
    match instruction.op_kind(last) {
        iced_x86::OpKind::Register => instruction.op_register(last).size() as u8,
        _ => instruction.memory_size().size() as u8,
    }
}

fn integer_result(instruction: &Instruction) -> u8 {
    instruction.op_register(0).size() as u8
}

fn line_fused(instruction: &Instruction) -> Option<Line> {
    macro_rules! fused {
        ($($signs:ident: $($order:ident $ps:ident $pd:ident $ss:ident $sd:ident)*;)*) => {
            match instruction.mnemonic() {
                $($(M::$ps => binary(V::Fused(Fused::$order(FusedSigns::$signs)), 4),
                M::$pd => binary(V::Fused(Fused::$order(FusedSigns::$signs)), 8),
                M::$ss => binary_aux(V::Fused(Fused::$order(FusedSigns::$signs)), 4, SCALAR),
                M::$sd => binary_aux(V::Fused(Fused::$order(FusedSigns::$signs)), 8, SCALAR),)*)*
                M::Vfmaddsub132ps => binary(V::Fused(Fused::Order132(FusedSigns::AddSubtract)), 4),
                M::Vfmaddsub132pd => binary(V::Fused(Fused::Order132(FusedSigns::AddSubtract)), 8),
                M::Vfmaddsub213ps => binary(V::Fused(Fused::Order213(FusedSigns::AddSubtract)), 4),
                M::Vfmaddsub213pd => binary(V::Fused(Fused::Order213(FusedSigns::AddSubtract)), 8),
                M::Vfmaddsub231ps => binary(V::Fused(Fused::Order231(FusedSigns::AddSubtract)), 4),
                M::Vfmaddsub231pd => binary(V::Fused(Fused::Order231(FusedSigns::AddSubtract)), 8),
                M::Vfmsubadd132ps => binary(V::Fused(Fused::Order132(FusedSigns::SubtractAdd)), 4),
                M::Vfmsubadd132pd => binary(V::Fused(Fused::Order132(FusedSigns::SubtractAdd)), 8),
                M::Vfmsubadd213ps => binary(V::Fused(Fused::Order213(FusedSigns::SubtractAdd)), 4),
                M::Vfmsubadd213pd => binary(V::Fused(Fused::Order213(FusedSigns::SubtractAdd)), 8),
                M::Vfmsubadd231ps => binary(V::Fused(Fused::Order231(FusedSigns::SubtractAdd)), 4),
                M::Vfmsubadd231pd => binary(V::Fused(Fused::Order231(FusedSigns::SubtractAdd)), 8),
                _ => None,
            }
        };
    }
    fused! {
        Add:
            Order132 Vfmadd132ps Vfmadd132pd Vfmadd132ss Vfmadd132sd
            Order213 Vfmadd213ps Vfmadd213pd Vfmadd213ss Vfmadd213sd
            Order231 Vfmadd231ps Vfmadd231pd Vfmadd231ss Vfmadd231sd;
        Subtract:
            Order132 Vfmsub132ps Vfmsub132pd Vfmsub132ss Vfmsub132sd
            Order213 Vfmsub213ps Vfmsub213pd Vfmsub213ss Vfmsub213sd
            Order231 Vfmsub231ps Vfmsub231pd Vfmsub231ss Vfmsub231sd;
        NegatedAdd:
            Order132 Vfnmadd132ps Vfnmadd132pd Vfnmadd132ss Vfnmadd132sd
            Order213 Vfnmadd213ps Vfnmadd213pd Vfnmadd213ss Vfnmadd213sd
            Order231 Vfnmadd231ps Vfnmadd231pd Vfnmadd231ss Vfnmadd231sd;
        NegatedSubtract:
            Order132 Vfnmsub132ps Vfnmsub132pd Vfnmsub132ss Vfnmsub132sd
            Order213 Vfnmsub213ps Vfnmsub213pd Vfnmsub213ss Vfnmsub213sd
            Order231 Vfnmsub231ps Vfnmsub231pd Vfnmsub231ss Vfnmsub231sd;
    }
}

/// Opmasks and comparisons into them.
fn line_mask(instruction: &Instruction) -> Option<Line> {
    let compare =
        |signed: bool, element: u8, predicate: u8| binary_aux(V::Opmask(Opmask::Compare(signed)), element, predicate);
    let by_immediate = instruction.immediate8() & 7;
    macro_rules! widths {
        ($($work:expr => $shape:ident $b:ident $w:ident $d:ident $q:ident;)*) => {
            match instruction.mnemonic() {
                $(M::$b => $shape(V::Opmask($work), 1),
                M::$w => $shape(V::Opmask($work), 2),
                M::$d => $shape(V::Opmask($work), 4),
                M::$q => $shape(V::Opmask($work), 8),)*
                _ => None,
            }
        };
    }
    match instruction.mnemonic() {
        M::Kunpckbw => mask(Opmask::Unpack, 2),
        M::Kunpckwd => mask(Opmask::Unpack, 4),
        M::Kunpckdq => mask(Opmask::Unpack, 8),
        M::Kortestb | M::Kortestw | M::Kortestd | M::Kortestq | M::Ktestb | M::Ktestw | M::Ktestd | M::Ktestq => {
            let (work, width) = match instruction.mnemonic() {
                M::Kortestb => (Opmask::OrTest, 1),
                M::Kortestw => (Opmask::OrTest, 2),
                M::Kortestd => (Opmask::OrTest, 4),
                M::Kortestq => (Opmask::OrTest, 8),
                M::Ktestb => (Opmask::Test, 1),
                M::Ktestw => (Opmask::Test, 2),
                M::Ktestd => (Opmask::Test, 4),
                _ => (Opmask::Test, 8),
            };
            Some(Line { work: V::Opmask(work), element: width, aux: 0, shape: Shape::Compare })
        }
        M::Vpcmpeqb => compare(true, 1, 0),
        M::Vpcmpeqw => compare(true, 2, 0),
        M::Vpcmpeqd => compare(true, 4, 0),
        M::Vpcmpeqq => compare(true, 8, 0),
        M::Vpcmpgtb => compare(true, 1, 6),
        M::Vpcmpgtw => compare(true, 2, 6),
        M::Vpcmpgtd => compare(true, 4, 6),
        M::Vpcmpgtq => compare(true, 8, 6),
        M::Vpcmpb => compare(true, 1, by_immediate),
        M::Vpcmpw => compare(true, 2, by_immediate),
        M::Vpcmpd => compare(true, 4, by_immediate),
        M::Vpcmpq => compare(true, 8, by_immediate),
        M::Vpcmpub => compare(false, 1, by_immediate),
        M::Vpcmpuw => compare(false, 2, by_immediate),
        M::Vpcmpud => compare(false, 4, by_immediate),
        M::Vpcmpuq => compare(false, 8, by_immediate),
        _ => widths! {
            Opmask::Move => unary Kmovb Kmovw Kmovd Kmovq;
            Opmask::Not => unary Knotb Knotw Knotd Knotq;
            Opmask::ShiftLeft => unary Kshiftlb Kshiftlw Kshiftld Kshiftlq;
            Opmask::ShiftRight => unary Kshiftrb Kshiftrw Kshiftrd Kshiftrq;
            Opmask::And => binary Kandb Kandw Kandd Kandq;
            Opmask::AndNot => binary Kandnb Kandnw Kandnd Kandnq;
            Opmask::Or => binary Korb Korw Kord Korq;
            Opmask::Xor => binary Kxorb Kxorw Kxord Kxorq;
            Opmask::XorNot => binary Kxnorb Kxnorw Kxnord Kxnorq;
            Opmask::Add => binary Kaddb Kaddw Kaddd Kaddq;
            Opmask::TestBits(false) => binary Vptestmb Vptestmw Vptestmd Vptestmq;
            Opmask::TestBits(true) => binary Vptestnmb Vptestnmw Vptestnmd Vptestnmq;
            Opmask::FromVector => unary Vpmovb2m Vpmovw2m Vpmovd2m Vpmovq2m;
            Opmask::ToVector => unary Vpmovm2b Vpmovm2w Vpmovm2d Vpmovm2q;
        },
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
