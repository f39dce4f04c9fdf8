//! The table from mnemonics to floating-point work.

use iced_x86::{Instruction, Mnemonic as M};

use crate::float::{FusedSigns, SCALAR};
use crate::vector::{Conversion, FloatFn, Fused, VectorWork as V};
use crate::vector_table::{Line, Shape, binary, binary_aux, float, scalar, unary, unary_aux};

/// Floats.
pub(crate) fn line_float(instruction: &Instruction) -> Option<Line> {
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
