//! The architectural state of one thread, each part of it known or unknown.

use crate::wide::Wide;
use crate::xsave::{self, XsaveLayout};

/// Index of `rax`; the other general-purpose registers follow in encoding order.
pub const RAX: usize = 0;
/// Index of `rcx`.
pub const RCX: usize = 1;
/// Index of `rdx`.
pub const RDX: usize = 2;
/// Index of `rbx`.
pub const RBX: usize = 3;
/// Index of `rsp`.
pub const RSP: usize = 4;
/// Index of `rbp`.
pub const RBP: usize = 5;
/// Index of `rsi`.
pub const RSI: usize = 6;
/// Index of `rdi`.
pub const RDI: usize = 7;

/// Index of the pseudo-register that is always zero: an address without base or index uses it.
pub(crate) const ZERO: usize = 16;
pub(crate) const FS_BASE: usize = 17;
pub(crate) const GS_BASE: usize = 18;

/// Everything an effective address can depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// 16 general-purpose registers, then zero, `fs` base and `gs` base.
    pub(crate) values: [u64; 19],
    /// One bit per entry of `values`.
    pub(crate) known: u32,
}

impl Registers {
    const UNKNOWN: Registers = Registers { values: [0; 19], known: 1 << ZERO };

    /// The general-purpose register `index` (0 = `rax` … 15 = `r15`), if known.
    #[inline(always)]
    pub fn gpr(&self, index: usize) -> Option<u64> {
        let index = index & 15;
        (self.known >> index & 1 == 1).then_some(self.values[index])
    }

    /// Sets a general-purpose register, or forgets it.
    #[inline(always)]
    pub fn set_gpr(&mut self, index: usize, value: Option<u64>) {
        let index = index & 15;
        match value {
            Some(value) => {
                self.values[index] = value;
                self.known |= 1 << index;
            }
            None => self.known &= !(1 << index),
        }
    }
}

/// Registers and flags of one thread; whatever is not set is unknown and never guessed.
#[derive(Clone, Debug)]
pub struct State {
    /// General-purpose registers and segment bases.
    pub registers: Registers,
    /// Instruction pointer: the next instruction to emulate.
    pub rip: u64,
    pub(crate) flags: u64,
    pub(crate) flags_known: u64,
    pub(crate) mxcsr: Option<u32>,
    pub(crate) masks: [u64; 8],
    pub(crate) masks_known: u8,
    pub(crate) vectors: [[u8; 64]; 32],
    pub(crate) vectors_known: [u64; 32],
}

impl State {
    /// A state of which only the instruction pointer is known.
    pub const fn unknown(rip: u64) -> State {
        State {
            registers: Registers::UNKNOWN,
            rip,
            flags: 0,
            flags_known: 0,
            mxcsr: None,
            masks: [0; 8],
            masks_known: 0,
            vectors: [[0; 64]; 32],
            vectors_known: [0; 32],
        }
    }

    /// The general-purpose register `index` (0 = `rax` … 15 = `r15`), if known.
    #[inline(always)]
    pub fn gpr(&self, index: usize) -> Option<u64> {
        self.registers.gpr(index)
    }

    /// Sets a general-purpose register, or forgets it.
    #[inline(always)]
    pub fn set_gpr(&mut self, index: usize, value: Option<u64>) {
        self.registers.set_gpr(index, value);
    }

    /// Sets or forgets the base address of `fs` (thread-local storage on Linux).
    pub fn set_fs_base(&mut self, base: Option<u64>) {
        self.set_base(FS_BASE, base);
    }

    /// Sets or forgets the base address of `gs`.
    pub fn set_gs_base(&mut self, base: Option<u64>) {
        self.set_base(GS_BASE, base);
    }

    fn set_base(&mut self, index: usize, base: Option<u64>) {
        match base {
            Some(base) => {
                self.registers.values[index] = base;
                self.registers.known |= 1 << index;
            }
            None => self.registers.known &= !(1 << index),
        }
    }

    /// Makes every status flag known from a saved RFLAGS.
    pub fn set_flags(&mut self, rflags: u64) {
        self.flags = rflags;
        self.flags_known = crate::flags::ALL;
    }

    /// RFLAGS and the mask of those bits of it that are known (among CF PF AF ZF SF DF OF).
    pub fn flags(&self) -> (u64, u64) {
        (self.flags & self.flags_known, self.flags_known)
    }

    /// Sets the floating-point control and status register; unknown, float results are poisoned.
    pub fn set_mxcsr(&mut self, mxcsr: Option<u32>) {
        self.mxcsr = mxcsr;
    }

    /// The 64 bytes of vector register `index` (0..32) and a known bit for each.
    pub fn vector(&self, index: usize) -> (&[u8; 64], u64) {
        (&self.vectors[index & 31], self.vectors_known[index & 31])
    }

    /// Sets bytes `at..at + bytes.len()` of a vector register and makes them known.
    pub fn set_vector(&mut self, index: usize, at: usize, bytes: &[u8]) {
        let end = (at + bytes.len()).min(64);
        if at >= end {
            return;
        }
        self.vectors[index & 31][at..end].copy_from_slice(&bytes[..end - at]);
        self.vectors_known[index & 31] |= low_bits(end - at) << at;
    }

    /// The opmask register `index` (0..8), if known.
    pub fn opmask(&self, index: usize) -> Option<u64> {
        (self.masks_known >> (index & 7) & 1 == 1).then_some(self.masks[index & 7])
    }

    /// Sets or forgets an opmask register.
    pub fn set_opmask(&mut self, index: usize, value: Option<u64>) {
        let index = index & 7;
        match value {
            Some(value) => {
                self.masks[index] = value;
                self.masks_known |= 1 << index;
            }
            None => self.masks_known &= !(1 << index),
        }
    }

    /// Takes vector registers, opmasks and MXCSR from an XSAVE area in the standard format, as a
    /// signal frame or `NT_X86_XSTATE` holds it; false (and nothing taken) when it is too short.
    pub fn set_xsave(&mut self, area: &[u8], layout: &XsaveLayout) -> bool {
        xsave::take(self, area, layout)
    }

    #[inline]
    pub(crate) fn wide(&self, index: u8) -> Wide {
        let index = usize::from(index & 31);
        Wide { bytes: self.vectors[index], known: self.vectors_known[index] }
    }

    /// Writes the low `BYTES` of a vector register; those above become zero if `extends`, else stay.
    #[inline(always)]
    pub(crate) fn put_vector<const BYTES: usize>(&mut self, index: u8, value: &Wide, extends: bool) {
        let index = usize::from(index & 31);
        let (vector, known) = (&mut self.vectors[index], &mut self.vectors_known[index]);
        vector[..BYTES].copy_from_slice(&value.bytes[..BYTES]);
        let span = low_bits(BYTES);
        if extends {
            vector[BYTES..].fill(0);
            *known = value.known & span | !span;
        } else {
            *known = value.known & span | *known & !span;
        }
    }

    #[inline]
    pub(crate) fn set_wide(&mut self, index: u8, value: &Wide) {
        let index = usize::from(index & 31);
        self.vectors[index] = value.bytes;
        self.vectors_known[index] = value.known;
    }
}

/// A mask of the lowest `count` (0 to 64) bits.
#[inline(always)]
pub(crate) const fn low_bits(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}
