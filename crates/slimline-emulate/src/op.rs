//! The compact form that decoded instructions are lowered to.
//!
//! Every enum here is `repr(u8)` with a payload-free first variant, so that all-zero bytes are a
//! valid (empty) value: see [`crate::Emulator`].

/// Where an operand lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operand {
    None,
    /// The addressed memory.
    Memory,
    Immediate,
    Gpr(u8),
    /// `ah`, `ch`, `dh`, `bh`: bits 8 to 15 of the register.
    High(u8),
    Vector(u8),
    Mask(u8),
    /// MMX, x87, segment and other registers that are not tracked: always unknown.
    Untracked,
}

/// Arithmetic on two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Alu {
    Add,
    Or,
    Adc,
    Sbb,
    And,
    Sub,
    Xor,
    Cmp,
    Test,
}

/// Arithmetic on one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Unary {
    Inc,
    Dec,
    Neg,
    Not,
}

/// Shifts and rotates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Shift {
    Shl,
    Shr,
    Sar,
    Rol,
    Ror,
    Rcl,
    Rcr,
}

/// Bit tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum BitTest {
    Test,
    Set,
    Reset,
    Complement,
}

/// Bit counts and fields: the result of one or two sources, with flags of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Bits {
    ScanForward,
    ScanReverse,
    TrailingZeros,
    LeadingZeros,
    Population,
    AndNot,
    Extract,
    LowestSet,
    MaskToLowestSet,
    ResetLowestSet,
    ZeroHigh,
    Deposit,
    Gather,
}

/// String instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Text {
    Move,
    Store,
    Load,
    Compare,
    Scan,
}

/// Repeat prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Repeat {
    Once,
    Always,
    WhileEqual,
    WhileUnequal,
}

/// Status flag instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FlagChange {
    ClearCarry,
    SetCarry,
    ComplementCarry,
    ClearDirection,
    SetDirection,
    LoadAh,
    StoreAh,
}

/// What an instruction does; its operands are in [`Op`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Work {
    /// No effect: nops, prefetches, fences, cache control.
    Nothing,
    /// a = b.
    Move,
    /// The commonest moves and arithmetic in a form of their own: general registers of 4 or 8 bytes.
    MoveRegister,
    LoadRegister,
    StoreRegister,
    AluRegister(Alu),
    AluImmediate(Alu),
    /// a = b, zero-extended from `from` bytes.
    MoveZero,
    /// a = b, sign-extended from `from` bytes.
    MoveSign,
    /// a = address.
    Address,
    /// a = a op b.
    Alu(Alu),
    Unary(Unary),
    Shift(Shift),
    /// a = b shifted by c (`sarx` …), no flags.
    ShiftPlain(Shift),
    /// a:b shifted by c; true = left.
    ShiftDouble(bool),
    BitTest(BitTest),
    /// a = f(b) or f(b, c).
    Bits(Bits),
    /// a = b * c.
    Multiply,
    /// rdx:rax = rax * b; true = signed.
    MultiplyWide(bool),
    /// a:b = rdx * c.
    Mulx,
    /// rax, rdx = rdx:rax / b; true = signed.
    Divide(bool),
    /// `adcx` (CF) or `adox` (OF, true).
    AddCarryOnly(bool),
    ByteSwap,
    /// a = b with bytes reversed.
    MoveSwapped,
    Exchange,
    ExchangeAdd,
    CompareExchange,
    /// `cmpxchg8b` and `cmpxchg16b`.
    CompareExchangePair,
    /// Sign-extends rax within itself to `size`.
    ExtendRax,
    /// Sign of rax into rdx.
    ExtendRdx,
    /// a = condition ? b : a.
    MoveIf(u8),
    SetIf(u8),
    Crc32,
    Flag(FlagChange),
    Xlat,
    /// a = fs (true) or gs base.
    ReadBase(bool),
    WriteBase(bool),
    Push,
    Pop,
    PushFlags,
    PopFlags,
    Enter,
    Leave,
    Call,
    Jump,
    Return,
    JumpIf(u8),
    /// `loop`, `loope` (1), `loopne` (2), `jrcxz` (3).
    Loop(u8),
    Text(Text, Repeat),
    /// Vector instructions: see [`crate::vector`].
    Vector(crate::vector::VectorWork),
    /// Known operands, unknown results.
    Poison,
    /// Like `Poison` with memory as destination.
    PoisonStore,
    /// `cpuid`, `rdtsc` and the like: forgets the registers in the immediate.
    Forget,
    Syscall,
    Exception,
    FarBranch,
    Undecodable,
    /// The mnemonic is in the immediate.
    Unsupported,
}

/// The address of a memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Displacement; absolute for RIP-relative operands.
    pub(crate) displacement: u64,
    /// Registers the address depends on, a bit per index into `Registers::values`.
    pub(crate) needs: u32,
    /// Indices into `Registers::values`; `ZERO` when absent. The index may be a vector register.
    pub(crate) base: u8,
    pub(crate) index: u8,
    pub(crate) scale_log2: u8,
    /// `ZERO`, `FS_BASE` or `GS_BASE`.
    pub(crate) segment: u8,
    /// Whether base + index is cut to 32 bits.
    pub(crate) narrow: bool,
}

/// How a vector instruction writes its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Masking {
    /// Opmask register, 0 = none.
    pub(crate) mask: u8,
    /// Masked-off elements become zero instead of staying.
    pub(crate) zeroing: bool,
    /// The memory operand is one element, repeated.
    pub(crate) broadcast: bool,
    /// VEX or EVEX: bytes above the operand become zero.
    pub(crate) extends: bool,
    /// The instruction has a rounding mode of its own.
    pub(crate) rounds: bool,
}

/// A lowered instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) place: Place,
    pub(crate) immediate: u64,
    pub(crate) work: Work,
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    pub(crate) c: Operand,
    /// Fourth operand: the selector of a blend.
    pub(crate) d: Operand,
    /// Bytes of the result.
    pub(crate) size: u8,
    /// Bytes of the memory operand or narrower source.
    pub(crate) from: u16,
    /// Bytes of a vector element (what masks select by), and what else the vector work needs.
    pub(crate) element: u8,
    pub(crate) aux: u8,
    /// Bytes of the instruction.
    pub(crate) length: u8,
    pub(crate) atomic: bool,
    pub(crate) masking: Masking,
}

impl Op {
    pub(crate) const EMPTY: Op = Op {
        place: Place { displacement: 0, needs: 0, base: 0, index: 0, scale_log2: 0, segment: 0, narrow: false },
        immediate: 0,
        work: Work::Nothing,
        a: Operand::None,
        b: Operand::None,
        c: Operand::None,
        d: Operand::None,
        size: 0,
        from: 0,
        element: 0,
        aux: 0,
        length: 0,
        atomic: false,
        masking: Masking { mask: 0, zeroing: false, broadcast: false, extends: false, rounds: false },
    };
}

impl Place {
    /// The effective address, if every register it depends on is known.
    #[inline(always)]
    pub(crate) fn address(&self, registers: &crate::state::Registers) -> Option<u64> {
        if registers.known & self.needs != self.needs {
            return None;
        }
        let value = |index: u8| registers.values.get(index as usize).copied().unwrap_or(0);
        let mut address =
            self.displacement.wrapping_add(value(self.base)).wrapping_add(value(self.index) << self.scale_log2);
        if self.narrow {
            address &= 0xffff_ffff;
        }
        Some(address.wrapping_add(value(self.segment)))
    }
}
