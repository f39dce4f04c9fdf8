//! A process that does nothing but get the signals that are sent to slimline's process group.

use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr::with_exposed_provenance_mut;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, waitid, waitpid};

use super::SignalSet;
use super::arrivals::{ARRIVAL_BYTES, Arrival};
use crate::proc_stat;

/// What it is called in lists of processes. Whoever signals all processes named `slimline`, one after the other (`pkill`), must
/// not hit it: it would take that for a signal to the group.
const NAME: &[u8] = b"signal-witness\0";
/// Longer than it takes to answer on any machine that works.
const LONGEST: Duration = Duration::from_secs(2);
/// How often it looks whether a stopped process goes on.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Bytes of a request: the path of a process's `stat`, which ends with a zero; empty for a question.
const REQUEST_BYTES: usize = 32;

/// A child of ours in our process group, which blocks all signals. It ends when its channel does, which is when we end.
#[derive(Debug)]
pub(super) struct Witness {
    pid: Pid,
    channel: UnixStream,
}

impl Witness {
    pub(super) fn start() -> io::Result<Self> {
        let (channel, of_witness) = UnixStream::pair()?;
        channel.set_read_timeout(Some(LOOK_EVERY))?;
        let arguments = own_arguments();
        // So that it is never there with a signal unblocked.
        let before = SignalSet::all().block()?;
        // SAFETY: the child makes system calls alone, which other threads' locks don't matter for.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: this is the child, and the kernel has just said where its arguments are.
            unsafe { serve(of_witness.as_raw_fd(), channel.as_raw_fd(), arguments) }
        }
        let error = io::Error::last_os_error();
        before.set_as_mask()?;
        Some(pid).filter(|&pid| pid > 0).and_then(Pid::from_raw).map(|pid| Self { pid, channel }).ok_or(error)
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// What it got since the last question. Where somebody killed it another one takes its place, which knows nothing.
    pub(super) fn ask(&mut self) -> Vec<Arrival> {
        self.answer().unwrap_or_else(|_| {
            self.replace();
            Vec::new()
        })
    }

    /// Somebody may have killed it. What the group got meanwhile nobody knows.
    pub(super) fn replace_if_dead(&mut self) {
        // It is waited for when it is dropped.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if waitid(WaitId::Pid(self.pid), look).is_ok_and(|ended| ended.is_some()) {
            self.replace();
        }
    }

    fn replace(&mut self) {
        if let Ok(another) = Self::start() {
            *self = another;
        }
    }

    fn answer(&mut self) -> io::Result<Vec<Arrival>> {
        self.continue_if_stopped()?;
        self.channel.write_all(&[0; REQUEST_BYTES])?;
        let own = std::process::id().cast_signed();
        let mut arrived = Vec::new();
        loop {
            match Arrival::from_bytes(self.next_bytes()?) {
                Arrival::MARK => return Ok(arrived),
                arrival if arrival.sender == own => {}
                arrival => arrived.push(arrival),
            }
        }
    }

    /// It may have been stopped with the group. Else SIGCONT would take back a SIGTSTP that pends.
    fn continue_if_stopped(&self) -> io::Result<()> {
        if proc_stat::is_stopped(self.pid.as_raw_pid().cast_unsigned()) {
            kill_process(self.pid, Signal::CONT)?;
        }
        Ok(())
    }

    /// Its next message. A signal may stop it only now.
    fn next_bytes(&mut self) -> io::Result<[u8; ARRIVAL_BYTES]> {
        let asked = Instant::now();
        loop {
            // Each was sent at once, so none comes in part.
            let mut bytes = [0; ARRIVAL_BYTES];
            match self.channel.read_exact(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock && asked.elapsed() < LONGEST => {
                    self.continue_if_stopped()?;
                }
                read => return read.map(|()| bytes),
            }
        }
    }

    /// From now on it continues us as soon as a process is not stopped any more, up to [`Witness::watch_no_longer`].
    pub(super) fn watch(&mut self, pid: u32) -> io::Result<()> {
        let mut request = [0; REQUEST_BYTES];
        write!(&mut request[..], "/proc/{pid}/stat")?;
        self.channel.write_all(&request).or_else(|_| {
            self.replace();
            self.channel.write_all(&request)
        })
    }

    pub(super) fn watch_no_longer(&mut self) {
        // Where it was killed the next question finds out.
        let _ = self.channel.write_all(&[0; REQUEST_BYTES]);
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// Where the kernel finds what `ps` shows as our command line: its address and length.
fn own_arguments() -> Option<(usize, usize)> {
    const START: usize = 48;
    const END: usize = 49;
    let line = proc_stat::line_of(std::process::id())?;
    let (start, end) = (proc_stat::number(&line, START)?, proc_stat::number::<usize>(&line, END)?);
    Some((start, end.checked_sub(start).filter(|_| start != 0)?))
}

/// What the child does: answers questions until there is nobody to ask.
///
/// # Safety
/// To be called in a forked child, with where its arguments lie.
unsafe fn serve(channel: RawFd, of_parent: RawFd, arguments: Option<(usize, usize)>) -> ! {
    // SAFETY: system calls alone, on memory of this process: its name, its arguments, which nobody reads from here on, and
    // variables. `_exit` runs no code of the process that it was forked from.
    unsafe {
        // So that it sees the end of the channel when the parent ends.
        libc::close(of_parent);
        close_others(channel);
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        if let Some((start, length)) = arguments {
            let arguments = with_exposed_provenance_mut::<u8>(start);
            arguments.write_bytes(0, length);
            arguments.copy_from_nonoverlapping(NAME.as_ptr(), length.min(NAME.len()));
        }
        let parent = libc::getppid();
        while let Some(request) = next_request(channel) {
            if request[0] != 0 {
                while !is_asked_within(channel, LOOK_EVERY.as_millis() as i32) {
                    if !is_stopped(&request) {
                        // Again and again: it may be about to stop.
                        libc::kill(parent, libc::SIGCONT);
                    }
                }
                if next_request(channel).is_none() {
                    break;
                }
                continue;
            }
            while let Some(arrival) = next_arrival() {
                send(channel, arrival);
            }
            send(channel, Arrival::MARK);
        }
        libc::_exit(0)
    }
}

/// So that nobody waits for the end of a pipe because of this process.
fn close_others(channel: RawFd) {
    /// Where the kernel can't close ranges (before Linux 5.9).
    const MOST_OPEN: i32 = 1024;
    let place = channel.cast_unsigned();
    // SAFETY: this process has one thread, which uses the channel alone.
    unsafe {
        let is_below_closed = place == 0 || libc::syscall(libc::SYS_close_range, 0, place - 1, 0) == 0;
        if !is_below_closed || libc::syscall(libc::SYS_close_range, place + 1, u32::MAX, 0) != 0 {
            (0..MOST_OPEN).filter(|&other| other != channel).for_each(|other| _ = libc::close(other));
        }
    }
}

/// None where there is nobody any more who asks.
fn next_request(channel: RawFd) -> Option<[u8; REQUEST_BYTES]> {
    let mut request = [0; REQUEST_BYTES];
    // SAFETY: the kernel writes as many bytes as there are at most.
    let read = unsafe { libc::recv(channel, request.as_mut_ptr().cast(), REQUEST_BYTES, libc::MSG_WAITALL) };
    (read == REQUEST_BYTES.cast_signed()).then_some(request)
}

/// Whether a request comes, or nobody is there any more, within that time.
fn is_asked_within(channel: RawFd, milliseconds: i32) -> bool {
    let mut of_channel = libc::pollfd { fd: channel, events: libc::POLLIN, revents: 0 };
    // SAFETY: one record that is there.
    unsafe { libc::poll(&raw mut of_channel, 1, milliseconds) > 0 }
}

/// Whether the process with this `stat` is stopped. `SIGCONT` does not end a tracer's stop, which is another state.
fn is_stopped(path: &[u8; REQUEST_BYTES]) -> bool {
    let mut line = [0_u8; 64];
    // SAFETY: the path ends with a zero; the kernel writes as many bytes as there are at most.
    let read = unsafe {
        let stat = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        let read = libc::read(stat, line.as_mut_ptr().cast(), line.len());
        libc::close(stat);
        read
    };
    // The name before the state may hold anything, and has at most 15 bytes.
    let line = &line[..usize::try_from(read).unwrap_or(0)];
    let name_end = line.iter().rposition(|&byte| byte == b')');
    name_end.and_then(|end| line.get(end + 2)) == Some(&b'T')
}

fn send(channel: RawFd, arrival: Arrival) {
    let bytes = arrival.to_bytes();
    // SAFETY: bytes that are there. Where it fails the parent has ended, and the next read fails as well.
    unsafe { libc::send(channel, bytes.as_ptr().cast(), ARRIVAL_BYTES, libc::MSG_NOSIGNAL) };
}

/// A signal that pends, which then does so no longer.
fn next_arrival() -> Option<Arrival> {
    let all = SignalSet::all();
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a whole record, if it returns a signal.
    unsafe {
        let signal = libc::sigtimedwait(&raw const all.0, info.as_mut_ptr(), &raw const at_once);
        (signal > 0).then(|| Arrival::from_info(signal, &info.assume_init()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::process::kill_process;

    use super::*;

    fn state_of(pid: Pid) -> Option<String> {
        let line = proc_stat::line_of(pid.as_raw_pid().cast_unsigned())?;
        proc_stat::text(&line, 3).map(str::to_owned)
    }

    /// Sends signals from another process: one that we send is not told.
    fn send_from_shell(pid: Pid, names: &[&str]) -> i32 {
        let script = names.iter().map(|name| format!("kill -{name} {};", pid.as_raw_pid())).collect::<String>();
        let mut shell = std::process::Command::new("bash").args(["-c", &script]).spawn().unwrap();
        assert!(shell.wait().unwrap().success());
        shell.id().cast_signed()
    }

    #[test]
    fn an_answer_has_each_signal_and_its_sender() {
        let mut witness = Witness::start().unwrap();
        assert_eq!(witness.ask(), []);
        let sender = send_from_shell(witness.pid, &["TERM", "USR1", "TERM", "TSTP", "RTMAX", "RTMAX"]);
        let of = |signal| Arrival { signal, code: libc::SI_USER, sender, value: 0 };
        // Of those without a queue that pend twice the kernel keeps one.
        let real_time = of(libc::SIGRTMAX());
        assert_eq!(witness.ask(), [of(libc::SIGUSR1), of(libc::SIGTERM), of(libc::SIGTSTP), real_time, real_time]);
        assert_eq!(witness.ask(), []);
    }

    #[test]
    fn one_that_was_stopped_answers() {
        let mut witness = Witness::start().unwrap();
        let sender = send_from_shell(witness.pid, &["STOP", "HUP"]);
        assert_eq!(witness.ask(), [Arrival { signal: libc::SIGHUP, code: libc::SI_USER, sender, value: 0 }]);
    }

    #[test]
    fn it_continues_its_parent_when_a_process_goes_on() {
        let mut shell = std::process::Command::new("sh");
        let mut child = shell.args(["-c", "kill -STOP $$; exec sleep 1000"]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        while !proc_stat::is_stopped(child.id()) {
            std::thread::yield_now();
        }
        let came = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(libc::SIGCONT, Arc::clone(&came)).unwrap();
        let is_continued = || {
            std::thread::sleep(Duration::from_millis(100));
            came.swap(false, Ordering::Relaxed)
        };
        let mut witness = Witness::start().unwrap();
        witness.watch(child.id()).unwrap();
        assert!(!is_continued(), "it is stopped");
        kill_process(pid, Signal::CONT).unwrap();
        while !is_continued() {}
        // Again, until it is told that that is enough.
        while !is_continued() {}
        witness.watch_no_longer();
        assert_eq!(witness.ask(), []);
        is_continued();
        assert!(!is_continued());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn one_that_was_killed_is_replaced() {
        let mut witness = Witness::start().unwrap();
        kill_process(witness.pid, Signal::KILL).unwrap();
        let first = witness.pid;
        assert_eq!(witness.ask(), []);
        assert_ne!(witness.pid, first);
        assert_eq!(state_of(first), None, "it is no zombie");
        send_from_shell(witness.pid, &["HUP"]);
        assert_eq!(witness.ask().len(), 1);
    }

    #[test]
    fn it_has_neither_our_name_nor_our_descriptors_and_ends_with_us() {
        let mut witness = Witness::start().unwrap();
        witness.ask();
        let of_process = |name: &str| format!("/proc/{}/{name}", witness.pid.as_raw_pid());
        let command_line = std::fs::read(of_process("cmdline")).unwrap();
        assert!(command_line.starts_with(NAME), "{command_line:?}");
        assert!(command_line[NAME.len()..].iter().all(|&byte| byte == 0), "{command_line:?}");
        assert_eq!(std::fs::read_to_string(of_process("comm")).unwrap(), "signal-witness\n");
        assert_eq!(std::fs::read_dir(of_process("fd")).unwrap().count(), 1);
        witness.channel.shutdown(std::net::Shutdown::Both).unwrap();
        while state_of(witness.pid).is_some_and(|state| state != "Z") {
            std::thread::yield_now();
        }
    }
}
