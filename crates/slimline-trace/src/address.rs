//! Typed addresses.
//!
//! ```text
//!   file on disk            linked image              running process
//!   FileOffset  ──segment──►   Svma   ──+ load bias──►   Avma
//! ```

use core::fmt;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

address! {
    /// Actual virtual memory address: in the running process.
    Avma
}
address! {
    /// Stated virtual memory address: as the linker laid the module out (ELF `p_vaddr`, `st_value`, DWARF).
    Svma
}
address! {
    /// Offset in a file on disk.
    FileOffset
}
address! {
    /// Address in the machine's memory, behind the page tables.
    PhysicalAddress
}

impl Avma {
    /// The link-time address of this run-time address in a module loaded with `bias` (`avma = svma + bias`).
    pub fn to_svma(self, bias: u64) -> Svma {
        Svma(self.0.wrapping_sub(bias))
    }
}

impl Svma {
    /// The run-time address of this link-time address in a module loaded with `bias`.
    pub fn to_avma(self, bias: u64) -> Avma {
        Avma(self.0.wrapping_add(bias))
    }
}
