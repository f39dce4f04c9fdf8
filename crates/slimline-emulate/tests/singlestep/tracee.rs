//! A child under ptrace: run a while, stop, read registers and memory, single-step.

// SAFETY of the module: ptrace, waitpid and process_vm_readv are given pointers to local buffers of the
// sizes passed along; they fail with an error, not memory corruption, if the child is gone.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use slimline_emulate::{Memory, State, XsaveLayout};

const NT_X86_XSTATE: usize = 0x202;
const ADDR_NO_RANDOMIZE: libc::c_ulong = 0x004_0000;

/// General-purpose registers in the emulator's order, with what else identifies a state.
pub(crate) struct Registers {
    pub(crate) gpr: [u64; 16],
    pub(crate) rip: u64,
    pub(crate) flags: u64,
    pub(crate) fs_base: u64,
    pub(crate) gs_base: u64,
    in_syscall: bool,
}

/// A stopped child.
pub(crate) struct Tracee {
    child: Child,
    layout: XsaveLayout,
}

impl Tracee {
    /// Starts `command` and stops it at its first instruction.
    pub(crate) fn start(mut command: Command) -> Tracee {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: both calls are async-signal-safe and touch no memory of ours.
        unsafe {
            command.pre_exec(|| {
                libc::personality(ADDR_NO_RANDOMIZE);
                libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                Ok(())
            });
        }
        let child = command.spawn().expect("the program starts under ptrace");
        let mut tracee = Tracee { child, layout: XsaveLayout::of_this_cpu() };
        assert_eq!(tracee.wait(), Some(libc::SIGTRAP), "the child stops at exec");
        tracee
    }

    fn pid(&self) -> libc::pid_t {
        self.child.id() as libc::pid_t
    }

    /// Waits for the next stop: its signal, or none if the child has ended.
    fn wait(&mut self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: see the module.
        let waited = unsafe { libc::waitpid(self.pid(), &mut status, 0) };
        (waited == self.pid() && libc::WIFSTOPPED(status)).then(|| libc::WSTOPSIG(status))
    }

    fn resume(&self, request: libc::c_uint, signal: i32) {
        // SAFETY: see the module.
        unsafe { libc::ptrace(request, self.pid(), 0, signal as usize) };
    }

    /// Lets the child run for about `time`; false if it ended.
    pub(crate) fn run_for(&mut self, time: Duration) -> bool {
        self.resume(libc::PTRACE_CONT, 0);
        std::thread::sleep(time);
        // SAFETY: a signal to our own child, which is not reaped yet.
        unsafe { libc::kill(self.pid(), libc::SIGSTOP) };
        loop {
            match self.wait() {
                None => return false,
                Some(libc::SIGSTOP) => break,
                Some(signal) => self.resume(libc::PTRACE_CONT, if signal == libc::SIGTRAP { 0 } else { signal }),
            }
        }
        // Leave a system call that was interrupted.
        for _ in 0..8 {
            if !self.registers().in_syscall {
                return true;
            }
            if !self.step() {
                return false;
            }
        }
        true
    }

    /// Executes one instruction (one iteration of a repeated one); false if the child ended or took a
    /// signal.
    pub(crate) fn step(&mut self) -> bool {
        self.resume(libc::PTRACE_SINGLESTEP, 0);
        match self.wait() {
            Some(libc::SIGTRAP) => true,
            Some(signal) => {
                self.resume(libc::PTRACE_SINGLESTEP, signal);
                self.wait();
                false
            }
            None => false,
        }
    }

    pub(crate) fn registers(&self) -> Registers {
        // SAFETY: all-zero is a valid value of this plain structure.
        let mut raw: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: see the module.
        unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.pid(), 0, &raw mut raw) };
        Registers {
            gpr: [
                raw.rax, raw.rcx, raw.rdx, raw.rbx, raw.rsp, raw.rbp, raw.rsi, raw.rdi, raw.r8, raw.r9, raw.r10,
                raw.r11, raw.r12, raw.r13, raw.r14, raw.r15,
            ],
            rip: raw.rip,
            flags: raw.eflags,
            fs_base: raw.fs_base,
            gs_base: raw.gs_base,
            in_syscall: raw.orig_rax as i64 >= 0,
        }
    }

    /// The child's whole state.
    pub(crate) fn state(&self) -> State {
        let registers = self.registers();
        let mut state = State::unknown(registers.rip);
        for (index, &value) in registers.gpr.iter().enumerate() {
            state.set_gpr(index, Some(value));
        }
        state.set_flags(registers.flags);
        state.set_fs_base(Some(registers.fs_base));
        state.set_gs_base(Some(registers.gs_base));
        let mut area = [0_u8; 4096];
        let mut vector = libc::iovec { iov_base: area.as_mut_ptr().cast(), iov_len: area.len() };
        // SAFETY: see the module.
        let got = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, self.pid(), NT_X86_XSTATE, &raw mut vector) };
        assert_eq!(got, 0, "PTRACE_GETREGSET");
        assert!(state.set_xsave(&area[..vector.iov_len], &self.layout));
        state
    }
}

impl Memory for Tracee {
    fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let remote = libc::iovec { iov_base: address as usize as *mut libc::c_void, iov_len: into.len() };
        // SAFETY: see the module.
        let read = unsafe { libc::process_vm_readv(self.pid(), &raw const local, 1, &raw const remote, 1, 0) };
        read == into.len() as isize
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
