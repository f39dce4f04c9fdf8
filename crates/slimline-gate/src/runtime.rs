//! The functions of slimline's runtime, where a program is linked with it; else an instruction that does nothing, and says the same to
//! who translates the program (`slimline trace --collector translate`).
#![allow(unsafe_code)]

use core::arch::asm;

/// Defines a function that calls another one, which slimline's runtime has, where that is linked.
macro_rules! calls_if_there {
    ($name:ident, $symbol:literal, $what:literal) => {
        #[inline]
        pub(crate) fn $name() {
            let address: usize;
            // SAFETY: the linker makes the entry of the global offset table, and leaves it 0 where nobody defines a weak
            // symbol. It is only read.
            unsafe {
                asm!(
                    concat!(".weak ", $symbol),
                    concat!("mov {}, qword ptr [rip + ", $symbol, "@GOTPCREL]"),
                    out(reg) address,
                    options(pure, readonly, nostack, preserves_flags)
                );
            }
            if address == 0 {
                // SAFETY: `nopl` with a number, which changes nothing; accesses stay on their side of it.
                unsafe {
                    asm!(
                        concat!(".byte 0x0f, 0x1f, 0x80, 0x53, 0x4c, 0x4d, ", $what),
                        options(nostack, preserves_flags)
                    );
                }
            } else {
                // SAFETY: the runtime's symbol of this name is a function of this type, and may be called at any time.
                let function = unsafe { core::mem::transmute::<usize, extern "C" fn()>(address) };
                function();
            }
        }
    };
}

calls_if_there!(start, "__slimline_start", "1");
calls_if_there!(stop, "__slimline_stop", "2");
