//! A seccomp filter that refuses membarrier(2), as those do that know nothing of it.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, dead_code)] // system calls; each test uses some

use std::ffi::{c_int, c_ulong};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// `struct sock_filter`.
#[repr(C)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    length: u16,
    instructions: *const Instruction,
}

unsafe extern "C" {
    fn prctl(option: c_int, ...) -> c_int;
}

/// From now on, of this thread and those that it starts.
pub(crate) fn refuse_membarrier() -> io::Result<()> {
    const SET_NO_NEW_PRIVILEGES: c_int = 38;
    const SET_SECCOMP: c_int = 22;
    const FILTER: c_ulong = 2;
    const MEMBARRIER: u32 = if cfg!(target_arch = "x86_64") { 324 } else { 283 };
    let filter = [
        // The number of the call.
        Instruction { code: 0x20, if_true: 0, if_false: 0, value: 0 },
        Instruction { code: 0x15, if_true: 0, if_false: 1, value: MEMBARRIER },
        // EPERM; any other one is allowed.
        Instruction { code: 0x06, if_true: 0, if_false: 0, value: 0x0005_0001 },
        Instruction { code: 0x06, if_true: 0, if_false: 0, value: 0x7fff_0000 },
    ];
    let program = Program { length: filter.len() as u16, instructions: filter.as_ptr() };
    let (one, none): (c_ulong, c_ulong) = (1, 0);
    // SAFETY: prctl(2) reads the program, which is there, and nothing else.
    let set = unsafe {
        prctl(SET_NO_NEW_PRIVILEGES, one, none, none, none) == 0 && prctl(SET_SECCOMP, FILTER, &raw const program) == 0
    };
    if set { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Runs all tests of this program but one, where membarrier is refused from the beginning on: arenas are all threads' then.
pub(crate) fn run_all_but(test: &str) {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--skip", test]);
    // SAFETY: nothing is allocated between fork and exec.
    unsafe { program.pre_exec(refuse_membarrier) };
    let output = program.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains(" 0 passed"), "{said}");
}
