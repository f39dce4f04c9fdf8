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

    /// Executes one instruction with signals suppressed: the signal it stopped with.
    pub(crate) fn try_step(&mut self) -> i32 {
        self.resume(libc::PTRACE_SINGLESTEP, 0);
        self.wait().expect("the child stays alive")
    }

    /// Writes code, read-only pages included.
    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) {
        for (index, word) in bytes.chunks(8).enumerate() {
            let mut padded = [0x90; 8];
            padded[..word.len()].copy_from_slice(word);
            let (at, value) = (address as usize + 8 * index, usize::from_le_bytes(padded));
            // SAFETY: see the module.
            let done = unsafe { libc::ptrace(libc::PTRACE_POKEDATA, self.pid(), at, value) };
            assert_eq!(done, 0, "PTRACE_POKEDATA");
        }
    }

    /// Writes writable memory.
    pub(crate) fn write_data(&mut self, address: u64, bytes: &[u8]) {
        let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let remote = libc::iovec { iov_base: address as usize as *mut libc::c_void, iov_len: bytes.len() };
        // SAFETY: see the module; the local buffer is only read.
        let done = unsafe { libc::process_vm_writev(self.pid(), &raw const local, 1, &raw const remote, 1, 0) };
        assert_eq!(done, bytes.len() as isize, "process_vm_writev");
    }

    /// Sets general-purpose registers, instruction pointer and flags.
    pub(crate) fn set_registers(&mut self, gpr: &[u64; 16], rip: u64, flags: u64) {
        let mut raw = self.raw_registers();
        let [rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15] = *gpr;
        (raw.rax, raw.rcx, raw.rdx, raw.rbx, raw.rsp, raw.rbp, raw.rsi, raw.rdi) =
            (rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi);
        (raw.r8, raw.r9, raw.r10, raw.r11, raw.r12, raw.r13, raw.r14, raw.r15) = (r8, r9, r10, r11, r12, r13, r14, r15);
        (raw.rip, raw.eflags, raw.orig_rax) = (rip, flags, u64::MAX);
        // SAFETY: see the module.
        let done = unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.pid(), 0, &raw const raw) };
        assert_eq!(done, 0, "PTRACE_SETREGS");
    }

    /// Sets vector registers, opmasks and MXCSR as far as this CPU has them.
    pub(crate) fn set_vectors(&mut self, vectors: &[[u8; 64]; 32], masks: &[u64; 8], mxcsr: u32) {
        let (mut area, bytes) = self.xsave();
        let layout = self.layout;
        area[24..28].copy_from_slice(&mxcsr.to_le_bytes());
        let mut present = 0b11_u64;
        for (component, at) in [(2, layout.ymm_upper), (5, layout.opmask), (6, layout.zmm_upper), (7, layout.zmm_high)]
        {
            if at != 0 && at < bytes {
                present |= 1 << component;
            }
        }
        area[512..520].copy_from_slice(&present.to_le_bytes());
        for (register, vector) in vectors.iter().enumerate() {
            if register < 16 {
                area[160 + 16 * register..][..16].copy_from_slice(&vector[..16]);
                if present >> 2 & 1 == 1 {
                    area[layout.ymm_upper + 16 * register..][..16].copy_from_slice(&vector[16..32]);
                }
                if present >> 6 & 1 == 1 {
                    area[layout.zmm_upper + 32 * register..][..32].copy_from_slice(&vector[32..]);
                }
            } else if present >> 7 & 1 == 1 {
                area[layout.zmm_high + 64 * (register - 16)..][..64].copy_from_slice(vector);
            }
        }
        for (register, mask) in masks.iter().enumerate().filter(|_| present >> 5 & 1 == 1) {
            area[layout.opmask + 8 * register..][..8].copy_from_slice(&mask.to_le_bytes());
        }
        let vector = libc::iovec { iov_base: area.as_mut_ptr().cast(), iov_len: bytes };
        // SAFETY: see the module.
        let done = unsafe { libc::ptrace(libc::PTRACE_SETREGSET, self.pid(), NT_X86_XSTATE, &raw const vector) };
        assert_eq!(done, 0, "PTRACE_SETREGSET");
    }

    fn xsave(&self) -> ([u8; 16384], usize) {
        let mut area = [0_u8; 16384];
        let mut vector = libc::iovec { iov_base: area.as_mut_ptr().cast(), iov_len: area.len() };
        // SAFETY: see the module.
        let got = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, self.pid(), NT_X86_XSTATE, &raw mut vector) };
        assert_eq!(got, 0, "PTRACE_GETREGSET");
        (area, vector.iov_len)
    }

    fn raw_registers(&self) -> libc::user_regs_struct {
        // SAFETY: all-zero is a valid value of this plain structure.
        let mut raw: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: see the module.
        unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.pid(), 0, &raw mut raw) };
        raw
    }

    pub(crate) fn registers(&self) -> Registers {
        let raw = self.raw_registers();
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
        let (area, bytes) = self.xsave();
        assert!(state.set_xsave(&area[..bytes], &self.layout));
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
