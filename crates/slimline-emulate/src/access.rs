//! What a burst observes, what it reads from, and why it ends.

use iced_x86::Mnemonic;

/// Direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AccessKind {
    /// Reads memory.
    Load,
    /// Writes memory.
    Store,
    /// One read and one write of the same bytes, as `add [mem], reg` does.
    Update,
}

/// One exact memory access of an emulated instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Address of the accessing instruction.
    pub ip: u64,
    /// First byte accessed.
    pub address: u64,
    /// Bytes accessed, 1 to 64 (more only for state saves such as `fxsave`).
    pub bytes: u16,
    /// Load, store or both.
    pub kind: AccessKind,
    /// Whether the access is one atomic operation (`lock`, or `xchg` with memory).
    pub atomic: bool,
}

/// The memory a burst reads. Writes never reach it: they stay in the emulator's overlay.
pub trait Memory {
    /// Copies `into.len()` bytes (1 to 64) from `address`; false when any of them is unreadable.
    ///
    /// Besides what the program loads, the aligned 64 bytes around each store are read once (they
    /// never cross a page), 16 bytes of code at each instruction, and single bytes.
    ///
    /// Mark it `#[inline]`: the emulator calls it with slices of constant length, which then
    /// become single moves.
    fn read(&mut self, address: u64, into: &mut [u8]) -> bool;

    /// Whether the bytes that [`Memory::read`] gives here are what the program would read. A memory that holds less than
    /// the program's says no where the bytes exist and are not known: they are poisoned then, and no code.
    #[inline(always)]
    fn knows(&mut self, _address: u64, _bytes: usize) -> bool {
        true
    }
}

/// Why a burst ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The asked number of instructions was emulated.
    Limit,
    /// The next instruction enters the kernel (`syscall`, `int`).
    Syscall,
    /// An address depends on an unknown register.
    UnknownAddress,
    /// A branch, a masked access or a string instruction depends on an unknown flag, mask or count.
    UnknownCondition,
    /// An indirect branch or return goes to an unknown address.
    UnknownTarget,
    /// Memory or code at the address is unreadable.
    Fault,
    /// The instruction would raise an exception that is not a page fault (`div` by zero, `ud2`, `int3`).
    Exception,
    /// The burst stored to more places than the overlay holds.
    OverlayFull,
    /// The bytes at the instruction pointer are no instruction.
    Undecodable,
    /// A far branch, `iret`, `sysret` and the like.
    FarBranch,
    /// Effects of this instruction are not modelled and cannot be bounded.
    Unsupported(Mnemonic),
}

impl End {
    /// A short stable name for counters and reports.
    pub const fn name(self) -> &'static str {
        match self {
            End::Limit => "limit",
            End::Syscall => "syscall",
            End::UnknownAddress => "unknown_address",
            End::UnknownCondition => "unknown_condition",
            End::UnknownTarget => "unknown_target",
            End::Fault => "fault",
            End::Exception => "exception",
            End::OverlayFull => "overlay_full",
            End::Undecodable => "undecodable",
            End::FarBranch => "far_branch",
            End::Unsupported(_) => "unsupported",
        }
    }

    /// Number of distinct reasons: `index()` is below it.
    pub const COUNT: usize = 11;

    /// A dense index of the reason, for counters.
    pub const fn index(self) -> usize {
        match self {
            End::Limit => 0,
            End::Syscall => 1,
            End::UnknownAddress => 2,
            End::UnknownCondition => 3,
            End::UnknownTarget => 4,
            End::Fault => 5,
            End::Exception => 6,
            End::OverlayFull => 7,
            End::Undecodable => 8,
            End::FarBranch => 9,
            End::Unsupported(_) => 10,
        }
    }
}

/// What a finished burst says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Instructions emulated to their end; groups of a repeated string instruction count singly.
    pub instructions: u32,
    /// Why it ended.
    pub end: End,
}
