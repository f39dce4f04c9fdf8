//! Signals as they arrive: a handler writes each to a pipe, with who sent it.
//!
//! Whatever thread the kernel chooses runs the handler. Handlers, unlike blocked signals, leave faults of slimline itself as they
//! are: a fault on a blocked signal ends the process, whatever handler there is.

use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use super::SignalSet;

/// Bytes of an arrival in a pipe or socket: three numbers of four bytes and the value.
pub(super) const ARRIVAL_BYTES: usize = 20;
/// Room for 52,000 arrivals. Where an ordinary user has no right to that much, there is room for 3,200.
const PIPE_BYTES: usize = 1 << 20;
/// Signals that the kernel sends for what an instruction did.
const OF_FAULTS: [i32; 4] = [libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

/// Its ends live as long as the process: a handler may run in another thread at any time.
static PIPE: OnceLock<(File, OwnedFd)> = OnceLock::new();
/// The end that the handler writes to.
static WRITTEN_TO: AtomicI32 = AtomicI32::new(-1);

/// A signal that was sent, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) signal: i32,
    /// `SI_USER`, `SI_KERNEL` and others of sigaction(2).
    pub(super) code: i32,
    /// The process that sent it; 0 for the kernel, and for processes that our namespace does not number.
    pub(super) sender: i32,
    /// What came with it (sigqueue(3)), else 0.
    pub(super) value: usize,
}

impl Arrival {
    /// No signal: it ends an answer of the witness, and see [`Arrivals::mark`].
    pub(super) const MARK: Self = Self { signal: 0, code: 0, sender: 0, value: 0 };

    /// # Safety
    /// The kernel must have filled `info` for a signal.
    pub(super) unsafe fn from_info(signal: i32, info: &libc::siginfo_t) -> Self {
        // SAFETY: promised by the caller. Where a field has no meaning it holds a number all the same.
        let (sender, value) = unsafe { (info.si_pid(), info.si_value().sival_ptr.addr()) };
        let is_of_process = info.si_code <= 0 || signal == libc::SIGCHLD;
        let value = if info.si_code == libc::SI_QUEUE { value } else { 0 };
        Self { signal, code: info.si_code, sender: if is_of_process { sender } else { 0 }, value }
    }

    pub(super) fn to_bytes(self) -> [u8; ARRIVAL_BYTES] {
        let mut bytes = [0; ARRIVAL_BYTES];
        let (numbers, value) = bytes.split_at_mut(12);
        for (place, number) in numbers.chunks_exact_mut(4).zip([self.signal, self.code, self.sender]) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        value.copy_from_slice(&self.value.to_ne_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; ARRIVAL_BYTES]) -> Self {
        let (numbers, value) = bytes.split_at(12);
        let (numbers, _) = numbers.as_chunks::<4>();
        let value = value.as_array().map_or(0, |value| usize::from_ne_bytes(*value));
        let [signal, code, sender] = [numbers[0], numbers[1], numbers[2]].map(i32::from_ne_bytes);
        Self { signal, code, sender, value }
    }
}

/// Signals have our handler until this is dropped; then they have the actions that they had before.
pub(super) struct Arrivals {
    before: Vec<(i32, libc::sigaction)>,
}

impl Arrivals {
    pub(super) fn start(signals: impl IntoIterator<Item = i32>) -> io::Result<Self> {
        make_pipe()?;
        let mut arrivals = Self { before: Vec::new() };
        for signal in signals {
            arrivals.before.push((signal, exchange(signal, &ours())?));
        }
        Ok(arrivals)
    }

    /// Becomes readable when a signal arrives.
    pub(super) fn wake(&self) -> Option<BorrowedFd<'_>> {
        PIPE.get().map(|(read, _)| read.as_fd())
    }

    /// Writes an arrival of no signal, behind all that arrived. Async-signal-safe, and for forked children, too.
    pub(super) fn mark() {
        write(Arrival::MARK);
    }

    /// Those since the last call, marks included.
    pub(super) fn read(&self) -> Vec<Arrival> {
        let mut arrived = Vec::new();
        let Some(mut pipe) = PIPE.get().map(|(read, _)| read) else { return arrived };
        let mut bytes = [0; ARRIVAL_BYTES];
        // Each was written at once, so none is there in part.
        while pipe.read_exact(&mut bytes).is_ok() {
            arrived.push(Arrival::from_bytes(bytes));
        }
        arrived
    }

    /// The signals.
    pub(super) fn signals(&self) -> SignalSet {
        SignalSet::from_signals(self.before.iter().map(|(signal, _)| *signal))
    }

    /// Has a signal do to this process what it does by default, once.
    pub(super) fn act_by_default(signal: i32) {
        let before = exchange(signal, &by_default());
        // SAFETY: no memory is involved.
        unsafe { libc::raise(signal) };
        // Those that can't have a handler have none.
        if let Ok(before) = before {
            let _ = exchange(signal, &before);
        }
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // It was valid before.
            let _ = exchange(*signal, before);
        }
        // What arrived meanwhile would have been held a moment ago.
        self.read();
    }
}

fn make_pipe() -> io::Result<()> {
    if PIPE.get().is_none() {
        let (read, written) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let _ = fcntl_setpipe_size(&written, PIPE_BYTES);
        WRITTEN_TO.store(written.as_raw_fd(), Ordering::Release);
        let _ = PIPE.set((File::from(read), written));
    }
    Ok(())
}

/// Sets the action of a signal, and returns the one before.
fn exchange(signal: i32, action: &libc::sigaction) -> io::Result<libc::sigaction> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: an action that is whole, with a handler that is async-signal-safe or none.
    match unsafe { libc::sigaction(signal, action, before.as_mut_ptr()) } {
        // SAFETY: the kernel has written it.
        0 => Ok(unsafe { before.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn action(handler: usize, flags: i32) -> libc::sigaction {
    libc::sigaction { sa_sigaction: handler, sa_mask: SignalSet::all().0, sa_flags: flags, sa_restorer: None }
}

fn ours() -> libc::sigaction {
    action(on_signal as *const () as usize, libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK)
}

fn by_default() -> libc::sigaction {
    action(libc::SIG_DFL, 0)
}

/// Async-signal-safe: it makes system calls alone, and puts back the `errno` of the interrupted code.
extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes what it knows of the signal.
    unsafe {
        let errno = *libc::__errno_location();
        if (*info).si_code > 0 && OF_FAULTS.contains(&signal) {
            // It ends us when this handler returns.
            libc::sigaction(signal, &by_default(), ptr::null_mut());
            libc::raise(signal);
        } else {
            write(Arrival::from_info(signal, &*info));
        }
        *libc::__errno_location() = errno;
    }
}

/// If the pipe is full the arrival is lost: a handler can't wait for room.
fn write(arrival: Arrival) {
    let bytes = arrival.to_bytes();
    // SAFETY: bytes that are there, and a descriptor that is never closed.
    unsafe { libc::write(WRITTEN_TO.load(Ordering::Acquire), bytes.as_ptr().cast(), ARRIVAL_BYTES) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_survives_as_bytes() {
        let arrival = Arrival { signal: 64, code: -1, sender: 123_456, value: usize::MAX - 5 };
        assert_eq!(Arrival::from_bytes(arrival.to_bytes()), arrival);
    }

    #[test]
    fn each_arrives_whatever_thread_it_comes_to_and_none_after_the_end() {
        let (first, second) = (libc::SIGRTMAX() - 1, libc::SIGRTMAX() - 2);
        let arrivals = Arrivals::start([first, second]).unwrap();
        let own = std::process::id().cast_signed();
        let value = libc::sigval { sival_ptr: ptr::without_provenance_mut(9) };
        // SAFETY: no memory is involved.
        unsafe {
            libc::sigqueue(own, first, value);
            libc::kill(own, second);
        }
        let mut arrived = Vec::new();
        while arrived.len() < 2 {
            arrived.extend(arrivals.read());
        }
        arrived.sort_by_key(|arrival| -arrival.signal);
        let of = |signal, code, value| Arrival { signal, code, sender: own, value };
        assert_eq!(arrived, [of(first, libc::SI_QUEUE, 9), of(second, libc::SI_USER, 0)]);
        drop(arrivals);
        let now = exchange(first, &by_default()).unwrap();
        assert_eq!(now.sa_sigaction, libc::SIG_DFL);
    }
}
