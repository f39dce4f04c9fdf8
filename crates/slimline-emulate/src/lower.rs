//! Decoded instruction to [`Op`]: everything but vectors, which are in `lower_vector`.

use iced_x86::{CodeSize, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use crate::lower_vector;
use crate::op::{Alu, BitTest, Bits, FlagChange, Masking, Op, Operand, Place, Repeat, Shift, Text, Unary, Work};
use crate::state::{FS_BASE, GS_BASE, RAX, RBX, RCX, RDX, ZERO};

/// Longest x86 instruction.
pub(crate) const MAX_INSTRUCTION_BYTES: usize = 15;

/// Decodes and lowers the instruction at the start of `code`.
pub(crate) fn lower_bytes(code: &[u8], ip: u64) -> Op {
    let mut instruction = Instruction::default();
    Decoder::with_ip(64, code, ip, DecoderOptions::NONE).decode_out(&mut instruction);
    lower(&instruction)
}

/// Lowers a decoded instruction.
pub(crate) fn lower(instruction: &Instruction) -> Op {
    let mut op = Op { length: instruction.len() as u8, atomic: instruction.has_lock_prefix(), ..Op::EMPTY };
    if instruction.is_invalid() || instruction.code_size() != CodeSize::Code64 {
        return Op { work: Work::Undecodable, ..op };
    }
    op.a = operand(instruction, 0);
    op.b = operand(instruction, 1);
    op.c = operand(instruction, 2);
    op.d = operand(instruction, 3);
    op.place = place(instruction);
    op.size = operand_bytes(instruction, 0) as u8;
    op.from = operand_bytes(instruction, 1) as u16;
    op.immediate = immediate(instruction);
    if !integer(instruction, &mut op) && !control(instruction, &mut op) && !lower_vector::lower(instruction, &mut op) {
        other(instruction, &mut op);
    }
    op
}

/// Replaces the commonest work by its form for whole general registers.
pub(crate) fn specialize(op: &mut Op) {
    if op.size < 4 {
        return;
    }
    op.work = match (op.work, op.a, op.b) {
        (Work::Move, Operand::Gpr(_), Operand::Gpr(_)) => Work::MoveRegister,
        (Work::Move, Operand::Gpr(_), Operand::Memory) => Work::LoadRegister,
        (Work::Move, Operand::Memory, Operand::Gpr(_)) => Work::StoreRegister,
        (Work::Alu(alu), Operand::Gpr(a), Operand::Gpr(b)) if a != b || matches!(alu, Alu::Test | Alu::Cmp) => {
            Work::AluRegister(alu)
        }
        (Work::Alu(alu), Operand::Gpr(_), Operand::Immediate) => {
            op.immediate &= crate::flags::ones(op.size);
            Work::AluImmediate(alu)
        }
        (work, ..) => work,
    };
}

/// Index of a general-purpose register of any width, `ah` … `bh` included.
pub(crate) fn gpr(register: Register) -> Option<u8> {
    let full = register.full_register();
    (Register::RAX..=Register::R15).contains(&full).then(|| full as u8 - Register::RAX as u8)
}

fn register_operand(register: Register) -> Operand {
    match register {
        Register::AH | Register::CH | Register::DH | Register::BH => Operand::High(register as u8 - Register::AH as u8),
        _ if register.is_gpr() => gpr(register).map_or(Operand::Untracked, Operand::Gpr),
        _ if register.is_vector_register() => Operand::Vector(register.number() as u8),
        _ if register.is_k() => Operand::Mask(register.number() as u8),
        _ => Operand::Untracked,
    }
}

fn operand(instruction: &Instruction, index: u32) -> Operand {
    if index >= instruction.op_count() {
        return Operand::None;
    }
    match instruction.op_kind(index) {
        OpKind::Register => register_operand(instruction.op_register(index)),
        OpKind::Memory => Operand::Memory,
        OpKind::Immediate8
        | OpKind::Immediate8_2nd
        | OpKind::Immediate16
        | OpKind::Immediate32
        | OpKind::Immediate64
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64
        | OpKind::NearBranch64 => Operand::Immediate,
        _ => Operand::None,
    }
}

fn operand_bytes(instruction: &Instruction, index: u32) -> usize {
    if index >= instruction.op_count() {
        return 0;
    }
    match instruction.op_kind(index) {
        OpKind::Register => instruction.op_register(index).size(),
        OpKind::Memory => instruction.memory_size().size(),
        _ => 8,
    }
}

fn immediate(instruction: &Instruction) -> u64 {
    for index in 0..instruction.op_count() {
        match instruction.op_kind(index) {
            OpKind::NearBranch64 => return instruction.near_branch64(),
            kind if operand(instruction, index) == Operand::Immediate && kind != OpKind::Immediate8_2nd => {
                return instruction.immediate(index);
            }
            _ => {}
        }
    }
    0
}

fn place(instruction: &Instruction) -> Place {
    let mut place = Place {
        displacement: 0,
        needs: 0,
        base: ZERO as u8,
        index: ZERO as u8,
        scale_log2: 0,
        segment: ZERO as u8,
        narrow: false,
    };
    if !(0..instruction.op_count()).any(|index| instruction.op_kind(index) == OpKind::Memory) {
        return place;
    }
    place.displacement = instruction.memory_displacement64();
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    if let Some(base) = gpr(base) {
        place.base = base;
        place.needs |= 1 << base;
    }
    if let Some(index) = gpr(index) {
        place.index = index;
        place.needs |= 1 << index;
    } else if index.is_vector_register() {
        // Only gathers and scatters have one, and they look at it as a vector register.
        place.index = index.number() as u8;
    }
    place.scale_log2 = instruction.memory_index_scale().trailing_zeros() as u8;
    place.narrow = base.size() == 4 || index.size() == 4;
    place.segment = match instruction.memory_segment() {
        Register::FS => FS_BASE as u8,
        Register::GS => GS_BASE as u8,
        _ => ZERO as u8,
    };
    place.needs |= (1 << place.segment) & !(1 << ZERO);
    place
}

/// Puts the operands of a two-operand instruction into the form a = f(b, c) with b = a.
fn two_to_three(op: &mut Op) {
    op.c = op.b;
    op.b = op.a;
}

fn integer(instruction: &Instruction, op: &mut Op) -> bool {
    use Mnemonic as M;
    op.work = match instruction.mnemonic() {
        M::Mov | M::Movnti => {
            if op.a == Operand::Untracked {
                return false;
            }
            Work::Move
        }
        M::Movzx => Work::MoveZero,
        M::Movsx | M::Movsxd => Work::MoveSign,
        M::Lea => Work::Address,
        M::Add => Work::Alu(Alu::Add),
        M::Or => Work::Alu(Alu::Or),
        M::Adc => Work::Alu(Alu::Adc),
        M::Sbb => Work::Alu(Alu::Sbb),
        M::And => Work::Alu(Alu::And),
        M::Sub => Work::Alu(Alu::Sub),
        M::Xor => Work::Alu(Alu::Xor),
        M::Cmp => Work::Alu(Alu::Cmp),
        M::Test => Work::Alu(Alu::Test),
        M::Inc => Work::Unary(Unary::Inc),
        M::Dec => Work::Unary(Unary::Dec),
        M::Neg => Work::Unary(Unary::Neg),
        M::Not => Work::Unary(Unary::Not),
        M::Shl | M::Sal => Work::Shift(Shift::Shl),
        M::Shr => Work::Shift(Shift::Shr),
        M::Sar => Work::Shift(Shift::Sar),
        M::Rol => Work::Shift(Shift::Rol),
        M::Ror => Work::Shift(Shift::Ror),
        M::Rcl => Work::Shift(Shift::Rcl),
        M::Rcr => Work::Shift(Shift::Rcr),
        M::Shlx => Work::ShiftPlain(Shift::Shl),
        M::Shrx => Work::ShiftPlain(Shift::Shr),
        M::Sarx => Work::ShiftPlain(Shift::Sar),
        M::Rorx => Work::ShiftPlain(Shift::Ror),
        M::Shld => Work::ShiftDouble(true),
        M::Shrd => Work::ShiftDouble(false),
        M::Bt => Work::BitTest(BitTest::Test),
        M::Bts => Work::BitTest(BitTest::Set),
        M::Btr => Work::BitTest(BitTest::Reset),
        M::Btc => Work::BitTest(BitTest::Complement),
        M::Bsf => Work::Bits(Bits::ScanForward),
        M::Bsr => Work::Bits(Bits::ScanReverse),
        M::Tzcnt => Work::Bits(Bits::TrailingZeros),
        M::Lzcnt => Work::Bits(Bits::LeadingZeros),
        M::Popcnt => Work::Bits(Bits::Population),
        M::Andn => Work::Bits(Bits::AndNot),
        M::Bextr => Work::Bits(Bits::Extract),
        M::Blsi => Work::Bits(Bits::LowestSet),
        M::Blsmsk => Work::Bits(Bits::MaskToLowestSet),
        M::Blsr => Work::Bits(Bits::ResetLowestSet),
        M::Bzhi => Work::Bits(Bits::ZeroHigh),
        M::Pdep => Work::Bits(Bits::Deposit),
        M::Pext => Work::Bits(Bits::Gather),
        M::Imul if instruction.op_count() == 1 => Work::MultiplyWide(true),
        M::Imul => {
            if instruction.op_count() == 2 {
                two_to_three(op);
            }
            Work::Multiply
        }
        M::Mul => Work::MultiplyWide(false),
        M::Mulx => Work::Mulx,
        M::Div => Work::Divide(false),
        M::Idiv => Work::Divide(true),
        M::Adcx => Work::AddCarryOnly(false),
        M::Adox => Work::AddCarryOnly(true),
        M::Bswap => Work::ByteSwap,
        M::Movbe => Work::MoveSwapped,
        M::Xchg => {
            op.atomic |= op.a == Operand::Memory || op.b == Operand::Memory;
            if op.b == Operand::Memory {
                core::mem::swap(&mut op.a, &mut op.b);
            }
            Work::Exchange
        }
        M::Xadd => Work::ExchangeAdd,
        M::Cmpxchg => Work::CompareExchange,
        M::Cmpxchg8b | M::Cmpxchg16b => Work::CompareExchangePair,
        M::Cbw | M::Cwde | M::Cdqe => {
            op.size = match instruction.mnemonic() {
                M::Cbw => 2,
                M::Cwde => 4,
                _ => 8,
            };
            Work::ExtendRax
        }
        M::Cwd | M::Cdq | M::Cqo => {
            op.size = match instruction.mnemonic() {
                M::Cwd => 2,
                M::Cdq => 4,
                _ => 8,
            };
            Work::ExtendRdx
        }
        M::Crc32 => Work::Crc32,
        M::Clc => Work::Flag(FlagChange::ClearCarry),
        M::Stc => Work::Flag(FlagChange::SetCarry),
        M::Cmc => Work::Flag(FlagChange::ComplementCarry),
        M::Cld => Work::Flag(FlagChange::ClearDirection),
        M::Std => Work::Flag(FlagChange::SetDirection),
        M::Sahf => Work::Flag(FlagChange::LoadAh),
        M::Lahf => Work::Flag(FlagChange::StoreAh),
        M::Xlatb => {
            op.place.base = RBX as u8;
            op.place.index = RAX as u8;
            op.place.needs = 1 << RBX | 1 << RAX;
            return instruction.memory_base() == Register::RBX && {
                op.work = Work::Xlat;
                instruction.segment_prefix() == Register::None
            };
        }
        M::Rdfsbase => Work::ReadBase(true),
        M::Rdgsbase => Work::ReadBase(false),
        M::Wrfsbase => Work::WriteBase(true),
        M::Wrgsbase => Work::WriteBase(false),
        _ => {
            use iced_x86::ConditionCode;
            let condition = instruction.condition_code();
            if condition == ConditionCode::None {
                return false;
            }
            // iced numbers the conditions as the encoding does, after `None`.
            let number = condition as u8 - ConditionCode::o as u8;
            if instruction.is_jcc_short_or_near() {
                Work::JumpIf(number)
            } else if is_setcc(instruction) {
                Work::SetIf(number)
            } else if is_cmovcc(instruction) {
                Work::MoveIf(number)
            } else {
                return false;
            }
        }
    };
    true
}

fn is_setcc(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Seta
            | M::Setae
            | M::Setb
            | M::Setbe
            | M::Sete
            | M::Setg
            | M::Setge
            | M::Setl
            | M::Setle
            | M::Setne
            | M::Setno
            | M::Setnp
            | M::Setns
            | M::Seto
            | M::Setp
            | M::Sets
    )
}

fn is_cmovcc(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Cmova
            | M::Cmovae
            | M::Cmovb
            | M::Cmovbe
            | M::Cmove
            | M::Cmovg
            | M::Cmovge
            | M::Cmovl
            | M::Cmovle
            | M::Cmovne
            | M::Cmovno
            | M::Cmovnp
            | M::Cmovns
            | M::Cmovo
            | M::Cmovp
            | M::Cmovs
    )
}

fn control(instruction: &Instruction, op: &mut Op) -> bool {
    use Mnemonic as M;
    let stack_bytes = instruction.stack_pointer_increment().unsigned_abs() as u8;
    op.work = match instruction.mnemonic() {
        M::Push | M::Pop => {
            op.size = stack_bytes;
            if instruction.mnemonic() == M::Push { Work::Push } else { Work::Pop }
        }
        M::Pushfq | M::Pushf => {
            op.size = stack_bytes;
            Work::PushFlags
        }
        M::Popfq | M::Popf => {
            op.size = stack_bytes;
            Work::PopFlags
        }
        M::Enter => {
            // Frames of nesting level > 0 copy the display; no compiler emits them.
            if instruction.immediate8_2nd() != 0 || instruction.code() != iced_x86::Code::Enterq_imm16_imm8 {
                return false;
            }
            Work::Enter
        }
        // `leavew` is of no use in 64-bit code.
        M::Leave if instruction.code() == iced_x86::Code::Leaveq => Work::Leave,
        M::Call if instruction.is_call_near() || instruction.is_call_near_indirect() => Work::Call,
        M::Jmp if instruction.is_jmp_short_or_near() || instruction.is_jmp_near_indirect() => Work::Jump,
        M::Ret => Work::Return,
        M::Loop | M::Loope | M::Loopne | M::Jrcxz | M::Jecxz => {
            op.size = match instruction.mnemonic() {
                M::Jrcxz => 8,
                M::Jecxz => 4,
                _ => instruction.code().loop_counter_bytes(),
            };
            Work::Loop(match instruction.mnemonic() {
                M::Loop => 0,
                M::Loope => 1,
                M::Loopne => 2,
                _ => 3,
            })
        }
        _ if instruction.is_string_instruction() => return string(instruction, op),
        _ => return false,
    };
    true
}

/// Counter width of the loop instructions, which only their code tells.
trait LoopCounter {
    fn loop_counter_bytes(self) -> u8;
}

impl LoopCounter for iced_x86::Code {
    fn loop_counter_bytes(self) -> u8 {
        use iced_x86::Code as C;
        if matches!(self, C::Loop_rel8_64_ECX | C::Loope_rel8_64_ECX | C::Loopne_rel8_64_ECX) { 4 } else { 8 }
    }
}

fn string(instruction: &Instruction, op: &mut Op) -> bool {
    use Mnemonic as M;
    let (text, bytes) = match instruction.mnemonic() {
        M::Movsb => (Text::Move, 1),
        M::Movsw => (Text::Move, 2),
        M::Movsd => (Text::Move, 4),
        M::Movsq => (Text::Move, 8),
        M::Stosb => (Text::Store, 1),
        M::Stosw => (Text::Store, 2),
        M::Stosd => (Text::Store, 4),
        M::Stosq => (Text::Store, 8),
        M::Lodsb => (Text::Load, 1),
        M::Lodsw => (Text::Load, 2),
        M::Lodsd => (Text::Load, 4),
        M::Lodsq => (Text::Load, 8),
        M::Cmpsb => (Text::Compare, 1),
        M::Cmpsw => (Text::Compare, 2),
        M::Cmpsd => (Text::Compare, 4),
        M::Cmpsq => (Text::Compare, 8),
        M::Scasb => (Text::Scan, 1),
        M::Scasw => (Text::Scan, 2),
        M::Scasd => (Text::Scan, 4),
        M::Scasq => (Text::Scan, 8),
        _ => return false,
    };
    let wide = (0..instruction.op_count()).all(|index| {
        !matches!(
            instruction.op_kind(index),
            OpKind::MemorySegSI
                | OpKind::MemorySegESI
                | OpKind::MemorySegDI
                | OpKind::MemorySegEDI
                | OpKind::MemoryESDI
                | OpKind::MemoryESEDI
        )
    });
    if !wide || instruction.segment_prefix() != Register::None {
        return false;
    }
    op.size = bytes;
    let compares = matches!(text, Text::Compare | Text::Scan);
    let repeat = match (instruction.has_rep_prefix(), instruction.has_repne_prefix()) {
        (false, false) => Repeat::Once,
        (true, _) if compares => Repeat::WhileEqual,
        (_, true) if compares => Repeat::WhileUnequal,
        _ => Repeat::Always,
    };
    op.work = Work::Text(text, repeat);
    true
}

/// What is left: no effect, unknown results, or the end of a burst.
fn other(instruction: &Instruction, op: &mut Op) {
    use Mnemonic as M;
    let forget = |op: &mut Op, registers: u64| {
        op.immediate = registers;
        Work::Forget
    };
    op.work = match instruction.mnemonic() {
        M::Nop
        | M::Endbr64
        | M::Endbr32
        | M::Pause
        | M::Lfence
        | M::Sfence
        | M::Mfence
        | M::Fnop
        | M::Wait
        | M::Prefetcht0
        | M::Prefetcht1
        | M::Prefetcht2
        | M::Prefetchnta
        | M::Prefetchw
        | M::Prefetch
        | M::Prefetchwt1
        | M::Prefetchit0
        | M::Prefetchit1
        | M::Clflush
        | M::Clflushopt
        | M::Clwb
        | M::Cldemote
        | M::Serialize
        | M::Fnclex
        | M::Emms
        | M::Reservednop => Work::Nothing,
        M::Cpuid => forget(op, 1 << RAX | 1 << RBX | 1 << RCX | 1 << RDX),
        M::Rdtsc | M::Xgetbv => forget(op, 1 << RAX | 1 << RDX),
        M::Rdtscp => forget(op, 1 << RAX | 1 << RCX | 1 << RDX),
        M::Rdrand | M::Rdseed | M::Rdpid | M::Rdsspd | M::Rdsspq => match op.a {
            Operand::Gpr(register) => forget(op, 1 << register | crate::flags::STATUS << 32),
            _ => Work::Unsupported,
        },
        M::Syscall | M::Sysenter | M::Int => Work::Syscall,
        M::Ud0 | M::Ud1 | M::Ud2 | M::Int1 | M::Int3 | M::Hlt => Work::Exception,
        M::Call | M::Jmp | M::Retf | M::Iret | M::Iretd | M::Iretq | M::Sysret | M::Sysretq => Work::FarBranch,
        _ => Work::Unsupported,
    };
    if op.work == Work::Unsupported {
        op.immediate = instruction.mnemonic() as u64;
    }
}

/// Masking of an EVEX or VEX instruction.
pub(crate) fn masking(instruction: &Instruction) -> Masking {
    use iced_x86::{EncodingKind, RoundingControl};
    Masking {
        mask: match instruction.op_mask() {
            Register::None => 0,
            mask => mask.number() as u8,
        },
        zeroing: instruction.zeroing_masking(),
        broadcast: instruction.is_broadcast(),
        extends: instruction.encoding() != EncodingKind::Legacy,
        rounds: instruction.rounding_control() != RoundingControl::None,
    }
}
