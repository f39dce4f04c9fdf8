//! The program's registers, as QEMU keeps them.
//!
//! Its functions for plugins tell registers only since version 9.0. But on x86-64 its code generator keeps the address of the virtual
//! CPU's state in `rbp` in all versions, and calls us with that unchanged; and what that state begins with are the general registers.
//! They are up to date where a block begins and where memory was accessed. All of that is looked for before it is relied on: of
//! instructions that return, the address that they load must be the stack pointer's.
#![allow(unsafe_code)] // assembly, and memory that QEMU has

use std::arch::global_asm;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// General registers, by their numbers in instructions.
const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
const RSP: usize = 4;
const RSI: usize = 6;
const RDI: usize = 7;
/// Those that arguments are passed in, in their order.
const ARGUMENTS: [usize; 6] = [RDI, RSI, RDX, RCX, 8, 9];
/// How many there are.
const COUNT: usize = 16;

/// Returns that are looked at; where `rbp` leads to registers in none of them, it never does.
const MOST_LOOKS: u32 = 1000;
/// It is known that it does.
const KNOWN: u32 = u32::MAX;

/// Looks that are left, or [`KNOWN`].
static STATE: AtomicU32 = AtomicU32::new(MOST_LOOKS);

// With `rbp` as one more argument.
global_asm!(
    ".pushsection .text.slimline_registers, \"ax\", @progbits",
    ".globl slimline_on_entry",
    ".hidden slimline_on_entry",
    ".type slimline_on_entry, @function",
    "slimline_on_entry:",
    "mov rdx, rbp",
    "jmp {entered}",
    ".size slimline_on_entry, . - slimline_on_entry",
    ".globl slimline_on_return",
    ".hidden slimline_on_return",
    ".type slimline_on_return, @function",
    "slimline_on_return:",
    "mov r8, rbp",
    "jmp {returned}",
    ".size slimline_on_return, . - slimline_on_return",
    ".popsection",
    entered = sym crate::heap::entered,
    returned = sym crate::heap::returned,
);

/// The registers of a virtual CPU.
#[derive(Clone, Copy)]
pub(crate) struct Registers(*const u64);

impl Registers {
    /// What `rbp` leads to.
    pub(crate) fn at(rbp: *const u64) -> Self {
        Self(rbp)
    }

    fn get(self, number: usize) -> u64 {
        // SAFETY: only asked for once they are known to be there (`are_known`), which is so for all virtual CPUs alike.
        unsafe { self.0.add(number).read() }
    }

    pub(crate) fn argument(self, number: u8) -> u64 {
        // From 1, as the allocators' files count them.
        ARGUMENTS.get(usize::from(number).wrapping_sub(1)).map_or(0, |&register| self.get(register))
    }

    pub(crate) fn stack_pointer(self) -> u64 {
        self.get(RSP)
    }

    pub(crate) fn result(self) -> u64 {
        self.get(RAX)
    }
}

/// Whether registers are where they are looked for.
pub(crate) fn are_known() -> bool {
    STATE.load(Relaxed) == KNOWN
}

/// Looks whether they are, by an instruction that returns and loads from this address. False once it is known that they are not.
#[cold]
pub(crate) fn look(registers: Registers, loaded: u64) -> bool {
    let left = STATE.load(Relaxed);
    if left == 0 || left == KNOWN {
        return left == KNOWN;
    }
    let mut bytes = [0; COUNT * 8];
    // By the kernel, as the address may be none; opened each time, as descriptors are the program's.
    let memory = File::open("/proc/self/mem");
    let are_there = memory.is_ok_and(|memory| memory.read_exact_at(&mut bytes, registers.0 as u64).is_ok());
    let word = |number: usize| bytes[number * 8..].first_chunk().map(|word| u64::from_ne_bytes(*word));
    let state = if are_there && word(RSP) == Some(loaded) { KNOWN } else { left - 1 };
    STATE.store(state, Relaxed);
    state != 0
}
