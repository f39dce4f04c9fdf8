//! x86-64 emulation for sampling: decode, undo backwards, emulate forwards.
#![no_std]

#[cfg(test)]
extern crate std;

mod access;
mod bits;
mod blame;
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
pub use blame::{MAX_BACK, Plan, Quality, plan};
pub use emulator::{Emulator, prepare};
pub use iced_x86::Mnemonic;
pub use state::{RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP, Registers, State};
pub use undo::undo;
pub use xsave::XsaveLayout;
