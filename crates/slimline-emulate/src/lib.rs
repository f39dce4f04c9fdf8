//! x86-64 emulation for sampling: decode, undo backwards, emulate forwards.
//!
//! A clock sample hands over the registers of a thread. From them this crate tells which access the
//! sample pays for ([`plan`]), and walks the following instructions as a *burst* ([`Emulator::run`]):
//! every load and store they will do, exactly, without executing anything. Reads go through
//! [`Memory`]; writes stay in a private overlay. `no_std`, no I/O, no unsafe code, and no allocation
//! after [`prepare`], so that it can run in a signal handler of the profiled process as well as offline.
//!
//! ```
//! use slimline_emulate::{Access, Emulator, Memory, RDI, State};
//!
//! /// mov rax, [rdi]; add rdi, 8; jmp -9, at address 0x1000; everything else reads as zero.
//! struct Loop;
//! impl Memory for Loop {
//!     fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
//!         const CODE: [u8; 9] = [0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 0x08, 0xeb, 0xf7];
//!         for (byte, at) in into.iter_mut().zip(address..) {
//!             *byte = at.checked_sub(0x1000).and_then(|at| CODE.get(at as usize)).copied().unwrap_or(0);
//!         }
//!         true
//!     }
//! }
//!
//! slimline_emulate::prepare();
//! let mut emulator = Box::new(Emulator::<256>::new());
//! let mut state = State::unknown(0x1000);
//! state.set_gpr(RDI, Some(0x8000));
//! let mut addresses = Vec::new();
//! let burst = emulator.run(&mut state, &mut Loop, 9, |access: Access| addresses.push(access.address));
//! assert_eq!((burst.instructions, addresses), (9, vec![0x8000, 0x8008, 0x8010]));
//! ```
//!
//! # Semantics
//!
//! **Known and unknown.** Each general-purpose register, status flag (CF PF AF ZF SF OF DF), opmask,
//! byte of a vector register and byte stored by the burst is known or poisoned; a result that depends
//! on a poisoned operand is poisoned, never guessed. Results that do not depend on their operand
//! (`xor r, r`, `pcmpeqd x, x`, `and r, 0`) are known. Flags that the architecture leaves undefined
//! are poisoned. A write of 1 or 2 bytes to an unknown register leaves it unknown.
//!
//! **Exact** are the integer instructions up to BMI2 and ADX, the string instructions, atomics, the
//! moves, logic, integer arithmetic, comparisons and permutations of SSE to AVX2 and of AVX-512
//! F/BW/DQ/VL (and VBMI's), opmask instructions, gathers, `pcmpistri` and kin, and float arithmetic,
//! comparison, rounding, conversion and FMA if MXCSR rounds to nearest. With flush-to-zero or
//! denormals-are-zero set, results that touch denormals are poisoned; so are FMA results with a NaN
//! and whatever has a rounding mode of its own.
//!
//! **Poisoned** are the results of other vector instructions (AES, SHA, VNNI, reciprocals, …), of x87 and
//! MMX (their registers are not tracked), of `cpuid`, `rdtsc`, `rdrand`, `xgetbv`, `stmxcsr`, `pushf`,
//! and of `bsf`/`bsr` of zero. Their memory operands are reported all the same.
//!
//! **A burst ends** ([`End`]) at the limit; before a system call, exception or far branch; where an
//! address, branch, mask, count or target is unknown; where memory is unreadable; when the overlay is
//! full (384 lines of 64 bytes); and at an instruction whose effects are not bounded (`xsavec`,
//! scatters, `maskmovdqu`, masked memory operands of permutations, …). Such an instruction has changed
//! neither the state nor the overlay in a way that shows, and has reported nothing that the CPU would
//! not do: of `push [mem]` with an unwritable stack the load is reported.
//!
//! **Accesses** are reported in program order, one for each memory operand. A read-modify-write is one
//! [`AccessKind::Update`]: a read and a write. `cmpxchg` writes even if it fails, as hardware does.
//! Gathers report an access for each active element, masked moves one for each run of active elements.
//! Repeated string instructions proceed in groups of up to 64 bytes (see the module `string`).
//! `lea`, prefetches, cache control and nops access nothing. Alignment and write protection are not
//! checked. A store to code is not seen by the burst's own fetches.
//!
//! # Placing the emulator
//!
//! [`Emulator`] has a fixed size, holds no pointers and is valid as all-zero bytes, equal to
//! [`Emulator::new`]: fresh mapped memory is an emulator, and a `static` one costs no file space. It
//! is large (use a `Box` or a mapping, not the stack). Each thread needs its own.
//!
//! # How it is tested
//!
//! `tests/singlestep` compares with the CPU: bursts from random points of real programs against
//! single-stepping them, and random instructions on random registers; see there for the long forms.
#![no_std]

#[cfg(test)]
extern crate std;

mod access;
mod bits;
mod blame;
mod blame_code;
mod blame_flow;
mod blame_latency;
mod blame_loop;
mod blame_replay;
mod blame_search;
mod budget;
mod control;
mod convert;
mod emulator;
mod exchange;
mod flags;
mod float;
mod float_table;
mod integer;
mod lanes;
mod lower;
mod lower_vector;
mod machine;
mod op;
mod opmask;
mod overlay;
mod poison;
pub mod relocate;
mod shuffle;
mod state;
mod string;
mod string_compare;
mod undo;
mod vector;
mod vector_table;
mod wide;
mod xsave;

pub use access::{Access, AccessKind, Burst, End, Memory};
pub use blame::{Blamed, CodeAround, MAX_BACK, Plan, Quality, code_window, plan};
pub use budget::Budget;
pub use emulator::{Emulator, prepare};
pub use iced_x86::Mnemonic;
pub use state::{RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP, Registers, State};
pub use undo::undo;
pub use xsave::XsaveLayout;
