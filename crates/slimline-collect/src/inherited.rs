//! What slimline was started with, and the command is to be started with: ignored signals, closed standard streams, open files.
#![allow(unsafe_code)] // runs before `main`, and closes descriptors by number

use std::fs;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Beyond the standard streams.
const FIRST_FILE: RawFd = 3;

/// A bit for each signal that was ignored.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// A bit for each standard stream that was closed.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// Runs before `main`: there Rust's runtime has `SIGPIPE` ignored and opened standard streams already.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    let is_ignored = |signal: &i32| {
        let mut action: Action = [0; 4];
        exchange(*signal, None, Some(&mut action));
        action[0] == libc::SIG_IGN
    };
    let ignored = (1..=64).filter(is_ignored).fold(0, |all, signal| all | 1 << (signal - 1));
    IGNORED.store(ignored, Ordering::Relaxed);
    // Where it is ignored nobody can wait for a child.
    // SAFETY: the default action is no code.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // SAFETY: no memory is involved.
    let is_closed = |stream: RawFd| unsafe { libc::fcntl(stream, libc::F_GETFD) } < 0;
    let closed = (0..FIRST_FILE).filter(|&stream| is_closed(stream)).fold(0, |all, stream| all | 1 << stream);
    CLOSED.store(closed, Ordering::Relaxed);
}

/// The kernel's `sigaction`: handler, flags, code that returns from it, mask. The C library keeps two signals to itself, which a
/// program may be started with ignored all the same.
type Action = [usize; 4];

/// Sets the action of a signal and reads the one before. Async-signal-safe.
fn exchange(signal: i32, new: Option<&Action>, old: Option<&mut Action>) {
    let new = new.map_or(ptr::null(), ptr::from_ref);
    let old = old.map_or(ptr::null_mut(), ptr::from_mut);
    // SAFETY: whole actions or null, without a handler that is code; a mask has 8 bytes. The kernel refuses what can't be.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, old, 8) };
}

/// Ignores the signals that were ignored when slimline started. In a forked child, before `exec`; async-signal-safe.
pub(crate) fn ignore_signals() {
    for signal in (1..=64).filter(|&signal| was_ignored(signal)) {
        exchange(signal, Some(&[libc::SIG_IGN, 0, 0, 0]), None);
    }
}

/// Whether a signal was ignored when slimline started.
pub(crate) fn was_ignored(signal: i32) -> bool {
    IGNORED.load(Ordering::Relaxed) >> (signal - 1) & 1 != 0
}

/// Closes the standard streams that were closed when slimline started. In a forked child, before `exec`; async-signal-safe.
pub(crate) fn close_streams() {
    let closed = CLOSED.load(Ordering::Relaxed);
    for stream in (0..FIRST_FILE).filter(|stream| closed >> stream & 1 != 0) {
        // SAFETY: what Rust's runtime put there, which nothing of the child uses.
        unsafe { libc::close(stream) };
    }
}

/// Closes slimline's copies of the command's files, so that a pipe ends when the command closes it. Keeps standard error. To be
/// called after the command has started.
pub(crate) fn let_go() {
    let Ok(null) = fs::File::options().read(true).write(true).open("/dev/null") else { return };
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
        // SAFETY: descriptors by number, which no Rust object owns.
        unsafe { libc::dup2(null.as_raw_fd(), stream) };
    }
    for file in inherited_files() {
        // SAFETY: a descriptor that `exec` passes on. Ours all close there.
        unsafe { libc::close(file) };
    }
}

/// Descriptors that programs get which we start, beyond the standard streams.
fn inherited_files() -> Vec<RawFd> {
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&file: &RawFd| file >= FIRST_FILE && is_inherited(file)).collect()
}

fn is_inherited(file: RawFd) -> bool {
    // SAFETY: no memory is involved.
    let flags = unsafe { libc::fcntl(file, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

#[cfg(test)]
mod tests {
    use std::os::fd::{FromRawFd, OwnedFd};

    use super::*;

    #[test]
    fn inherited_are_files_that_exec_leaves_open() {
        let own = fs::File::open("/dev/null").unwrap();
        // SAFETY: a fresh descriptor, which does not close on `exec`.
        let passed_on = unsafe { OwnedFd::from_raw_fd(libc::dup(own.as_raw_fd())) };
        let found = inherited_files();
        assert!(found.contains(&passed_on.as_raw_fd()) && !found.contains(&own.as_raw_fd()), "{found:?}");
        assert!(!found.contains(&0) && !found.contains(&2));
    }
}
