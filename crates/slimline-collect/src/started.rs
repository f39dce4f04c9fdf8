//! The command that slimline starts, and how it ends.
//!
//! A command may ask to be traced (`ptrace(PTRACE_TRACEME)`), as programs do that look for debuggers. Its tracer is then who
//! started it, which is us, and each signal stops it until we let it go on. We do, with the signal: as if nobody traced it.
#![allow(unsafe_code)] // continues a child that asked to be traced

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::process::Child;
use std::ptr::{null_mut, without_provenance_mut};

use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};
use slimline_trace::session::End;

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum State {
    /// Nothing new.
    Runs,
    /// A signal stopped it, as `SIGTSTP` does. Each stop is reported once.
    Stopped { signal: i32 },
    /// Not to be asked again.
    Ended(End),
}

/// A child of ours. It must be waited for by the thread that started it, which alone may continue it.
#[derive(Debug)]
pub(crate) struct Started {
    pid: Pid,
    /// It asked to be traced, and stopped since.
    is_traced: bool,
}

impl From<Child> for Started {
    fn from(child: Child) -> Self {
        Self { pid: Pid::from_child(&child), is_traced: false }
    }
}

impl Started {
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.pid.as_raw_pid().cast_unsigned()
    }

    /// What it does now.
    pub(crate) fn state(&mut self) -> io::Result<State> {
        // `Child::try_wait` takes a traced child's stop for its end.
        while let Some((_, status)) = waitpid(Some(self.pid), WaitOptions::NOHANG | WaitOptions::UNTRACED)? {
            let Some(signal) = status.stopping_signal() else { return Ok(State::Ended(end_of(status))) };
            if !self.let_go_on(status, signal) {
                return Ok(State::Stopped { signal });
            }
        }
        Ok(State::Runs)
    }

    /// Lets threads go on that asked to be traced one by one, and waits for those of them that ended: before that the process does
    /// not end.
    pub(crate) fn look_after_threads(&mut self) {
        let of_any = WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned()) | WaitOptions::NOHANG;
        for tid in tasks_of(self.id()).filter_map(|tid| Pid::from_raw(tid.cast_signed())).filter(|&tid| tid != self.pid)
        {
            // It fails for threads that nobody traces.
            while let Ok(Some((_, status))) = waitpid(Some(tid), of_any) {
                let Some(signal) = status.stopping_signal() else { break };
                Self { pid: tid, is_traced: false }.let_go_on(status, signal);
            }
        }
    }

    /// How it ended; `None` where it has not.
    pub(crate) fn end(&mut self) -> io::Result<Option<End>> {
        Ok(match self.state()? {
            State::Ended(end) => Some(end),
            State::Runs | State::Stopped { .. } => None,
        })
    }

    /// Lets it go on with a signal that stopped it for its tracer. Returns whether it did: not where the signal stopped it as it
    /// stops every process.
    fn let_go_on(&mut self, status: WaitStatus, signal: i32) -> bool {
        let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
        // SAFETY: where the kernel returns 0 it has written a whole record. It fails for a child that we don't trace, and for
        // one that the signal has stopped already.
        let info = unsafe {
            let got = libc::ptrace(libc::PTRACE_GETSIGINFO, self.pid.as_raw_pid(), null_mut::<()>(), info.as_mut_ptr());
            (got == 0).then(|| info.assume_init())
        };
        let Some(info) = info else {
            // Without a tracer it stays stopped until SIGCONT.
            self.ask_kernel(libc::PTRACE_DETACH, 0);
            self.is_traced = false;
            return false;
        };
        // At the first stop the kernel does not tell yet that it is of an `exec`, but by a signal in the child's own name.
        // SAFETY: a signal that a process sent has a sender.
        let is_own = info.si_code == libc::SI_USER && unsafe { info.si_pid() } == self.pid.as_raw_pid();
        let is_of_exec = match self.is_traced {
            false => signal == libc::SIGTRAP && is_own,
            true => status.as_raw() >> 16 == libc::PTRACE_EVENT_EXEC,
        };
        if !self.is_traced {
            self.ask_kernel(libc::PTRACE_SETOPTIONS, libc::PTRACE_O_TRACEEXEC);
            self.is_traced = true;
        }
        self.ask_kernel(libc::PTRACE_CONT, if is_of_exec { 0 } else { signal });
        true
    }

    fn ask_kernel(&self, request: libc::c_uint, data: i32) {
        let data = without_provenance_mut::<()>(data as usize);
        // SAFETY: no memory is involved. It fails where the child was killed meanwhile.
        unsafe { libc::ptrace(request, self.pid.as_raw_pid(), null_mut::<()>(), data) };
    }
}

/// The threads of a process.
pub(crate) fn tasks_of(pid: u32) -> impl Iterator<Item = u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok())
}

fn end_of(status: WaitStatus) -> End {
    match status.terminating_signal() {
        Some(signal) => End::Signaled { signal },
        None => End::Exited { status: status.exit_status().unwrap_or(0) },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;
    use crate::proc_stat;

    /// Its end, once it has come.
    fn end_of(mut started: Started) -> End {
        loop {
            if let Some(end) = started.end().unwrap() {
                return end;
            }
            std::thread::yield_now();
        }
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// A shell that asks to be traced before it runs.
    fn traced(script: &str) -> Started {
        let mut command = shell(script);
        let ask = || {
            // SAFETY: no memory is involved.
            match unsafe { libc::ptrace(libc::PTRACE_TRACEME) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: the closure makes one system call.
        let child = unsafe { command.pre_exec(ask) }.spawn();
        child.unwrap().into()
    }

    #[test]
    fn a_command_ends_by_its_status_or_by_a_signal() {
        let end = |script| end_of(Started::from(shell(script).spawn().unwrap()));
        assert_eq!(end("exit 7"), End::Exited { status: 7 });
        assert_eq!(end("kill -TERM $$"), End::Signaled { signal: 15 });
    }

    #[test]
    fn one_that_asked_to_be_traced_runs_as_if_nobody_traced_it() {
        assert_eq!(end_of(traced("exit 7")), End::Exited { status: 7 }, "the stop after exec is not its end");
        assert_eq!(end_of(traced("trap 'exit 8' USR1; kill -USR1 $$; exit 9")), End::Exited { status: 8 });
        assert_eq!(end_of(traced("kill -TERM $$; exit 9")), End::Signaled { signal: 15 });
        assert_eq!(end_of(traced("trap 'exit 6' TRAP; kill -TRAP $$; exit 9")), End::Exited { status: 6 });
        assert_eq!(end_of(traced("exec sh -c 'exit 5'")), End::Exited { status: 5 }, "nor is the next one");
    }

    #[test]
    fn one_that_asked_to_be_traced_stops_and_goes_on() {
        let mut started = traced("kill -STOP $$; exit 5");
        let pid = started.id();
        // Once without a tracer, it is stopped as others are.
        while !proc_stat::is_stopped(pid) {
            assert_eq!(started.end().unwrap(), None);
            std::thread::yield_now();
        }
        // SAFETY: no memory is involved.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGCONT) };
        assert_eq!(end_of(started), End::Exited { status: 5 });
    }
}
