//! The table from mnemonics to vector work: moves, integers, permutations and opmasks.

use iced_x86::{Instruction, Mnemonic as M};

use crate::float::SCALAR;
use crate::op::{Op, Operand};
use crate::string_compare::{EXPLICIT, EXPLICIT_64, IMPLICIT};
use crate::vector::{FloatFn, Lane, Logic, Opmask, Shuffle, VectorWork as V};

/// How the operands of an encoding map to a, b, c, d.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// a = f(b, c); with two operands a = f(a, b).
    Binary,
    /// a = f(b), as c.
    Unary,
    /// As encoded, no destination.
    Compare,
}

/// A line of the table.
pub(crate) struct Line {
    pub(crate) work: V,
    pub(crate) element: u8,
    pub(crate) aux: u8,
    pub(crate) shape: Shape,
}

pub(crate) const fn binary(work: V, element: u8) -> Option<Line> {
    Some(Line { work, element, aux: 0, shape: Shape::Binary })
}

pub(crate) const fn unary(work: V, element: u8) -> Option<Line> {
    Some(Line { work, element, aux: 0, shape: Shape::Unary })
}

pub(crate) const fn unary_aux(work: V, element: u8, aux: u8) -> Option<Line> {
    Some(Line { work, element, aux, shape: Shape::Unary })
}

pub(crate) const fn binary_aux(work: V, element: u8, aux: u8) -> Option<Line> {
    Some(Line { work, element, aux, shape: Shape::Binary })
}

pub(crate) const fn lane(lane: Lane, element: u8) -> Option<Line> {
    binary(V::Lanes(lane), element)
}

pub(crate) const fn shuffle(shuffle: Shuffle, element: u8) -> Option<Line> {
    binary(V::Shuffle(shuffle), element)
}

pub(crate) const fn shuffle_one(shuffle: Shuffle, element: u8) -> Option<Line> {
    unary(V::Shuffle(shuffle), element)
}

pub(crate) const fn float(function: FloatFn, element: u8) -> Option<Line> {
    binary(V::Float(function), element)
}

pub(crate) const fn scalar(function: FloatFn, element: u8) -> Option<Line> {
    binary_aux(V::Float(function), element, SCALAR)
}

pub(crate) const fn mask(work: Opmask, width: u8) -> Option<Line> {
    binary(V::Opmask(work), width)
}
const fn string(to_mask: bool, aux: u8) -> Option<Line> {
    Some(Line { work: V::StringCompare(to_mask), element: 1, aux, shape: Shape::Compare })
}

/// Moves, integers and permutations.
pub(crate) fn line(instruction: &Instruction, op: &Op) -> Option<Line> {
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
        M::Pcmpistri | M::Vpcmpistri => string(false, IMPLICIT),
        M::Pcmpistrm | M::Vpcmpistrm => string(true, IMPLICIT),
        M::Pcmpestri | M::Vpcmpestri => string(false, EXPLICIT),
        M::Pcmpestrm | M::Vpcmpestrm => string(true, EXPLICIT),
        M::Pcmpestri64 | M::Vpcmpestri64 => string(false, EXPLICIT_64),
        M::Pcmpestrm64 | M::Vpcmpestrm64 => string(true, EXPLICIT_64),
        _ => None,
    }
}

/// Opmasks and comparisons into them.
pub(crate) fn line_mask(instruction: &Instruction) -> Option<Line> {
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
