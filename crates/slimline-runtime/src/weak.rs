//! Functions of other libraries, which a process may do without.

/// Where a function is, by its name; 0 where nobody defines it.
macro_rules! weak_address {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: the linker makes the entry of the global offset table, and leaves it 0 where nobody defines the symbol. It is only read. By
        // another name, it makes no reference of the program's to it weak.
        unsafe {
            core::arch::asm!(
                concat!(".weakref slimline_weak_", $name, ", ", $name),
                concat!("mov {}, qword ptr [rip + slimline_weak_", $name, "@GOTPCREL]"),
                out(reg) address,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        address
    }};
}
pub(crate) use weak_address;
