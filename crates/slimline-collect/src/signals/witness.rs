//! A process that does nothing but get the signals that are sent to slimline's process group.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr::with_exposed_provenance_mut;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::{Arrival, SignalSet};
use crate::proc_stat;

/// What it is called in lists of processes. Whoever signals all processes named `slimline`, one after the other (`pkill`), must
/// not hit it: it would take that for a signal to the group.
const NAME: &[u8] = b"signal-witness\0";
/// Longer than it takes to answer on any machine that works.
const LONGEST: Duration = Duration::from_secs(2);
/// Bytes of an arrival on the channel: three numbers of four bytes and the value. All zero: there are no more.
const ARRIVAL_BYTES: usize = 20;

/// How often it looks whether a stopped process goes on.
const LOOK_EVERY_MS: i32 = 20;
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
        channel.set_read_timeout(Some(LONGEST))?;
        let arguments = own_arguments();
        // So that it is never there with a signal unblocked.
        let before = SignalSet::of(1..=libc::SIGRTMAX()).block()?;
        // SAFETY: the child makes system calls alone, which other threads' locks don't matter for.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            serve(of_witness.as_raw_fd(), arguments)
        }
        let error = io::Error::last_os_error();
        before.set_as_mask()?;
        Pid::from_raw(pid).filter(|_| pid > 0).map(|pid| Self { pid, channel }).ok_or(error)
    }

    /// What it got since the last question. Where somebody killed it another one takes its place, which knows nothing.
    pub(super) fn ask(&mut self) -> Vec<Arrival> {
        self.answer().unwrap_or_else(|_| {
            if let Ok(another) = Self::start() {
                *self = another;
            }
            Vec::new()
        })
    }

    fn answer(&mut self) -> io::Result<Vec<Arrival>> {
        self.channel.write_all(&[0; REQUEST_BYTES])?;
        let mut arrived = Vec::new();
        loop {
            let mut bytes = [0; ARRIVAL_BYTES];
            self.channel.read_exact(&mut bytes)?;
            if bytes == [0; ARRIVAL_BYTES] {
                return Ok(arrived);
            }
            arrived.push(Arrival::of_bytes(bytes));
        }
    }

    /// From now on it continues us as soon as a process is not stopped any more, up to [`Witness::watch_no_longer`].
    pub(super) fn watch(&mut self, pid: u32) -> io::Result<()> {
        let mut request = [0; REQUEST_BYTES];
        write!(&mut request[..], "/proc/{pid}/stat")?;
        self.channel.write_all(&request)
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

impl Arrival {
    fn to_bytes(self) -> [u8; ARRIVAL_BYTES] {
        let mut bytes = [0; ARRIVAL_BYTES];
        let (numbers, value) = bytes.split_at_mut(12);
        for (place, number) in numbers.chunks_exact_mut(4).zip([self.signal, self.code, self.sender]) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        value.copy_from_slice(&self.value.to_ne_bytes());
        bytes
    }

    fn of_bytes(bytes: [u8; ARRIVAL_BYTES]) -> Self {
        let (numbers, value) = bytes.split_at(12);
        let (numbers, _) = numbers.as_chunks::<4>();
        let value = value.as_array().map_or(0, |value| usize::from_ne_bytes(*value));
        let [signal, code, sender] = [numbers[0], numbers[1], numbers[2]].map(i32::from_ne_bytes);
        Self { signal, code, sender, value }
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
fn serve(channel: RawFd, arguments: Option<(usize, usize)>) -> ! {
    let rest = channel.cast_unsigned();
    // SAFETY: system calls alone, on memory of this process: its name, its arguments, which nobody reads from here on, and
    // variables. `_exit` runs no code of the process that it was forked from.
    unsafe {
        // Nobody waits for the end of a pipe because of this process.
        if rest > 0 {
            libc::syscall(libc::SYS_close_range, 0, rest - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, rest + 1, u32::MAX, 0);
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        if let Some((start, length)) = arguments {
            let arguments = with_exposed_provenance_mut::<u8>(start);
            arguments.write_bytes(0, length);
            arguments.copy_from_nonoverlapping(NAME.as_ptr(), length.min(NAME.len()));
        }
        let parent = libc::getppid();
        while let Some(request) = next_request(channel) {
            if request[0] != 0 {
                while !is_asked_within(channel, LOOK_EVERY_MS) {
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
                send(channel, arrival.to_bytes());
            }
            send(channel, [0; ARRIVAL_BYTES]);
        }
        libc::_exit(0)
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

/// Whether the process with this `stat` is stopped. A tracer's stop is none that `SIGCONT` ends.
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

fn send(channel: RawFd, bytes: [u8; ARRIVAL_BYTES]) {
    // SAFETY: bytes that are there. Where it fails there is nobody to tell, which the next read tells us.
    unsafe { libc::send(channel, bytes.as_ptr().cast(), ARRIVAL_BYTES, libc::MSG_NOSIGNAL) };
}

/// A signal that pends, which then does so no longer.
fn next_arrival() -> Option<Arrival> {
    let all = SignalSet::of(1..=libc::SIGRTMAX());
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a whole record, if it returns a signal. Each of these fields is there, at worst without
    // meaning.
    unsafe {
        let signal = libc::sigtimedwait(&raw const all.0, info.as_mut_ptr(), &raw const at_once);
        (signal > 0).then(|| {
            let info = info.assume_init();
            let value = if info.si_code == libc::SI_QUEUE { info.si_value().sival_ptr.addr() } else { 0 };
            Arrival { signal, code: info.si_code, sender: info.si_pid(), value }
        })
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

    #[test]
    fn it_tells_what_it_got_and_who_sent_it() {
        let mut witness = Witness::start().unwrap();
        assert_eq!(witness.ask(), []);
        let own = std::process::id().cast_signed();
        for signal in [Signal::TERM, Signal::USR1, Signal::TERM] {
            kill_process(witness.pid, signal).unwrap();
        }
        let value = libc::sigval { sival_ptr: std::ptr::without_provenance_mut(77) };
        // SAFETY: no memory is involved.
        unsafe { libc::sigqueue(witness.pid.as_raw_pid(), libc::SIGRTMAX(), value) };
        let of = |signal, code, value| Arrival { signal, code, sender: own, value };
        // Of those that pend twice the kernel keeps one.
        let expected = [
            of(libc::SIGUSR1, libc::SI_USER, 0),
            of(libc::SIGTERM, libc::SI_USER, 0),
            of(libc::SIGRTMAX(), libc::SI_QUEUE, 77),
        ];
        assert_eq!(witness.ask(), expected);
        assert_eq!(witness.ask(), []);
    }

    #[test]
    fn it_continues_its_parent_when_a_process_goes_on() {
        let mut shell = std::process::Command::new("sh");
        let mut child = shell.args(["-c", "kill -STOP $$; exec sleep 1000"]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        while state_of(pid).as_deref() != Some("T") {
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
        kill_process(witness.pid, Signal::HUP).unwrap();
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
