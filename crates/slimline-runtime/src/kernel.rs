//! System calls without libc's wrappers: they leave the program's `errno` alone, are no cancellation points, and go past
//! any function of the same name that the program may have, which may be instrumented.
#![allow(unsafe_code)] // system calls are instructions

use core::arch::asm;
use core::ffi::CStr;
use core::sync::atomic::AtomicU32;

use crate::own_memory;

/// One system call. Returns what the kernel does: a value, or minus an `errno`.
///
/// # Safety
/// As the call itself: pointers must be valid for what the kernel does with them.
#[inline]
pub(crate) unsafe fn call(number: i64, arguments: [usize; 6]) -> isize {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the kernel changes rax, rcx and r11 only, and memory as the caller promised.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// The value; none where it is an `errno`.
fn check(result: isize) -> Option<usize> {
    if (-4095..0).contains(&result) { None } else { Some(result as usize) }
}

/// Private memory, zero, that takes no room until it is touched; its address, or none where the kernel refuses.
pub(crate) fn map(bytes: usize) -> Option<usize> {
    let grown = if own_memory::is_apart() { own_memory::grow(bytes) } else { None };
    let start = grown.or_else(|| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let arguments = [0, bytes, protection as usize, flags as usize, usize::MAX, 0];
        // SAFETY: a new mapping at a place that the kernel chooses touches nothing that exists.
        check(unsafe { call(libc::SYS_mmap, arguments) })
    })?;
    own_memory::note(start, bytes);
    Some(start)
}

/// Has `bytes` of memory from [`map`] be those of a file, from its start on, shared and left out of core dumps.
///
/// # Safety
/// Nothing may use the memory yet.
pub(crate) unsafe fn replace_by_file(start: usize, bytes: usize, file: i32) -> bool {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    // SAFETY: promised by the caller; the advice changes no content.
    unsafe {
        let arguments = [start, bytes, protection as usize, flags as usize, file as usize, 0];
        let is_mapped = check(call(libc::SYS_mmap, arguments)).is_some();
        call(libc::SYS_madvise, [start, bytes, libc::MADV_DONTDUMP as usize, 0, 0, 0]);
        is_mapped
    }
}

/// Maps more of the file of which a part is mapped at `from`: `bytes` of it from `distance` behind that part on, at an
/// address that has `remainder` over a multiple of `alignment`. What the kernel locks of it is what it locks of that part.
///
/// # Safety
/// `from` must be the start of a page of a shared mapping of ours.
pub(crate) unsafe fn map_behind(
    from: usize,
    distance: usize,
    bytes: usize,
    [alignment, remainder]: [usize; 2],
) -> Option<usize> {
    let whole = distance + bytes;
    let reserved = whole + alignment;
    // Nothing is moved where there are no old bytes to move: the file is mapped once more, first anywhere, then at the right
    // place in that.
    let again = |flags: i32, bytes, at| {
        // SAFETY: `from` stays as it is; a fixed place is within what was just reserved.
        check(unsafe { call(libc::SYS_mremap, [from, 0, bytes, (libc::MREMAP_MAYMOVE | flags) as usize, at, 0]) })
    };
    let start = again(0, reserved, 0)?;
    let at = start + (remainder.wrapping_sub(start + distance)) % alignment;
    let is_there = again(libc::MREMAP_FIXED, whole, at).is_some();
    let (wanted, end) = (at + distance, start + reserved);
    // SAFETY: what is left of the reservation, or all of it, is nobody else's.
    unsafe {
        if !is_there {
            unmap(start, reserved);
            return None;
        }
        unmap(start, wanted - start);
        unmap(wanted + bytes, end - wanted - bytes);
    }
    own_memory::note(wanted, bytes);
    Some(wanted)
}

/// Puts a part of a file, shared, in the place of a page; or private memory, zero, where there is no file. Whether it is
/// there now.
///
/// # Safety
/// Nothing may rely on what is in the page, which is the caller's and may be exchanged at any moment.
pub(crate) unsafe fn replace_page(at: usize, bytes: usize, file: Option<(i32, usize)>) -> bool {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (kind, file, offset) = match file {
        Some((file, offset)) => (libc::MAP_SHARED, file as usize, offset),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, usize::MAX, 0),
    };
    let flags = (kind | libc::MAP_FIXED) as usize;
    // SAFETY: promised by the caller.
    check(unsafe { call(libc::SYS_mmap, [at, bytes, protection as usize, flags, file, offset]) }).is_some()
}

/// Maps what is mapped at `from`, shared, also at `to`. Whether it is there now.
///
/// # Safety
/// As of [`replace_page`], of `to`.
pub(crate) unsafe fn map_again(from: usize, bytes: usize, to: usize) -> bool {
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
    // SAFETY: promised by the caller; nothing is moved where there are no old bytes to move.
    check(unsafe { call(libc::SYS_mremap, [from, 0, bytes, flags, to, 0]) }).is_some()
}

/// Has the page around an address be one to write to, or not. Whether it is.
///
/// # Safety
/// Nobody may write to it at that moment who is not to.
pub(crate) unsafe fn protect(address: usize, is_writable: bool) -> bool {
    const PAGE_BYTES: usize = 4096;
    let protection = if is_writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    let page = address & !(PAGE_BYTES - 1);
    // SAFETY: promised by the caller.
    check(unsafe { call(libc::SYS_mprotect, [page, PAGE_BYTES, protection as usize, 0, 0, 0]) }).is_some()
}

/// Gives memory back; nothing where `bytes` is 0.
///
/// # Safety
/// The range must be the runtime's own, and nothing may use it any more.
pub(crate) unsafe fn unmap(start: usize, bytes: usize) {
    own_memory::forget(start);
    // SAFETY: promised by the caller.
    unsafe { call(libc::SYS_munmap, [start, bytes, 0, 0, 0, 0]) };
}

/// Puts private memory in the place of a mapping, so that nobody sees what is still written there; gives it back where
/// there is no such memory.
///
/// # Safety
/// The range must be the runtime's own, and nothing but stray writes may use it any more.
pub(crate) unsafe fn bury(start: usize, bytes: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: promised by the caller.
    let mapped =
        check(unsafe { call(libc::SYS_mmap, [start, bytes, protection as usize, flags as usize, usize::MAX, 0]) });
    if mapped.is_none() {
        // SAFETY: promised by the caller.
        unsafe { unmap(start, bytes) };
    }
}

/// Has the kernel fill private memory with zeros in forked children; whether it does.
pub(crate) fn wipe_on_fork(start: usize, bytes: usize) -> bool {
    const MADV_WIPEONFORK: usize = 18;
    // SAFETY: the advice changes no content here.
    unsafe { call(libc::SYS_madvise, [start, bytes, MADV_WIPEONFORK, 0, 0, 0]) == 0 }
}

/// Whether pages of a mapping could be given memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Populated {
    Yes,
    No,
    /// The kernel knows no such call (before Linux 5.14).
    Unknown,
}

/// Gives whole pages of a shared mapping their memory now: where there is none left, writing to them later would end the
/// process.
pub(crate) fn populate(start: usize, bytes: usize) -> Populated {
    const MADV_POPULATE_WRITE: usize = 23;
    loop {
        // SAFETY: the advice changes no content.
        match unsafe { call(libc::SYS_madvise, [start, bytes, MADV_POPULATE_WRITE, 0, 0, 0]) } {
            0 => return Populated::Yes,
            error if error == -libc::EINVAL as isize => return Populated::Unknown,
            error if error == -libc::EINTR as isize || error == -libc::EAGAIN as isize => {}
            _ => return Populated::No,
        }
    }
}

/// The same by the file, which takes the room; true also where the file system has no such thing.
pub(crate) fn allocate(file: i32, offset: usize, bytes: usize) -> bool {
    // SAFETY: no memory is involved; the descriptor is ours.
    let result = unsafe { call(libc::SYS_fallocate, [file as usize, 0, offset, bytes, 0, 0]) };
    result == 0 || result == -libc::EOPNOTSUPP as isize || result == -libc::ENOSYS as isize
}

/// Gives a file its size.
pub(crate) fn truncate(file: i32, bytes: usize) -> bool {
    // SAFETY: no memory is involved; the descriptor is ours.
    unsafe { call(libc::SYS_ftruncate, [file as usize, bytes, 0, 0, 0, 0]) == 0 }
}

/// Opens a file; the `errno` where that fails.
pub(crate) fn open(path: &CStr, flags: i32) -> Result<i32, i32> {
    const MODE: usize = 0o600;
    let flags = flags | libc::O_CLOEXEC;
    let at = libc::AT_FDCWD as usize;
    // SAFETY: a path ends in NUL.
    let result = unsafe { call(libc::SYS_openat, [at, path.as_ptr() as usize, flags as usize, MODE, 0, 0]) };
    if result < 0 { Err(-result as i32) } else { Ok(result as i32) }
}

/// Closes a descriptor that [`open`] returned.
pub(crate) fn close(file: i32) {
    // SAFETY: no memory is involved; the descriptor is ours.
    unsafe { call(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]) };
}

/// Removes a file of ours.
pub(crate) fn unlink(path: &CStr) {
    // SAFETY: a path ends in NUL.
    unsafe { call(libc::SYS_unlink, [path.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// Reads up to the buffer's length; 0 at the end, and where it can't be read.
pub(crate) fn read(file: i32, into: &mut [u8]) -> usize {
    loop {
        // SAFETY: the kernel writes at most the buffer's length into it.
        let result = unsafe { call(libc::SYS_read, [file as usize, into.as_mut_ptr() as usize, into.len(), 0, 0, 0]) };
        if result != -libc::EINTR as isize {
            return check(result).unwrap_or(0).min(into.len());
        }
    }
}

/// Whether somebody holds an exclusive lock on the file or directory at `path`.
pub(crate) fn is_locked(path: &CStr) -> bool {
    let Ok(file) = open(path, libc::O_RDONLY | libc::O_DIRECTORY) else { return false };
    let operation = (libc::LOCK_SH | libc::LOCK_NB) as usize;
    // SAFETY: no memory is involved; the descriptor is ours.
    let result = unsafe { call(libc::SYS_flock, [file as usize, operation, 0, 0, 0, 0]) };
    // With it goes the lock, if we got it.
    close(file);
    result == -libc::EWOULDBLOCK as isize
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clock = libc::CLOCK_MONOTONIC as usize;
    // SAFETY: the kernel writes to `time` only.
    unsafe { call(libc::SYS_clock_gettime, [clock, &raw mut time as usize, 0, 0, 0, 0]) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Waits until `word` is no more what was `seen`, somebody wakes us, a signal comes or so many milliseconds are over.
/// False where it was the time.
pub(crate) fn wait(word: &AtomicU32, seen: u32, milliseconds: u32) -> bool {
    let time = libc::timespec {
        tv_sec: (milliseconds / 1000) as libc::time_t,
        tv_nsec: (milliseconds % 1000) as libc::c_long * 1_000_000,
    };
    let operation = libc::FUTEX_WAIT as usize; // not private: who wakes us is another process
    // SAFETY: the kernel reads the word and the time.
    let result = unsafe {
        call(libc::SYS_futex, [word.as_ptr() as usize, operation, seen as usize, &raw const time as usize, 0, 0])
    };
    result != -libc::ETIMEDOUT as isize
}

/// Process id, as the kernel has it.
pub(crate) fn process_id() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { call(libc::SYS_getpid, [0; 6]) as u32 }
}

/// Parent's process id.
pub(crate) fn parent_id() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { call(libc::SYS_getppid, [0; 6]) as u32 }
}

/// Number of the namespace that process ids are of; 0 where `/proc` does not tell.
pub(crate) fn pid_namespace() -> u64 {
    let mut found = core::mem::MaybeUninit::<libc::stat>::uninit();
    let at = libc::AT_FDCWD as usize;
    let arguments = [at, c"/proc/self/ns/pid".as_ptr() as usize, found.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: a path ends in NUL; the kernel fills the structure where it returns 0.
    unsafe { if call(libc::SYS_newfstatat, arguments) == 0 { found.assume_init().st_ino } else { 0 } }
}

/// Kernel's number of the calling thread.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { call(libc::SYS_gettid, [0; 6]) as u32 }
}

/// The calling thread's pointer, below which its own variables are.
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: its first word is the pointer itself, as programs for x86-64 rely on.
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}

/// The limit on the size of files.
pub(crate) fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let resource = libc::RLIMIT_FSIZE as usize;
    // SAFETY: the kernel writes to `limit` only.
    unsafe { call(libc::SYS_prlimit64, [0, resource, 0, &raw mut limit as usize, 0, 0]) };
    limit.rlim_cur
}

/// Whether the calling thread uses the stack that it has for signals.
pub(crate) fn is_on_alternate_stack() -> bool {
    let mut stack = libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: the kernel writes to `stack` only.
    unsafe { call(libc::SYS_sigaltstack, [0, &raw mut stack as usize, 0, 0, 0, 0]) };
    stack.ss_flags & libc::SS_ONSTACK != 0
}

/// Lets other threads run.
pub(crate) fn yield_now() {
    // SAFETY: no memory is involved.
    unsafe { call(libc::SYS_sched_yield, [0; 6]) };
}

/// Signals that wait until this is dropped.
pub(crate) struct Signals {
    before: u64,
}

impl Signals {
    /// Blocks all but those that faults raise.
    pub(crate) fn block() -> Self {
        const FAULTS: u64 = 1 << (libc::SIGSEGV - 1)
            | 1 << (libc::SIGBUS - 1)
            | 1 << (libc::SIGFPE - 1)
            | 1 << (libc::SIGILL - 1)
            | 1 << (libc::SIGTRAP - 1);
        Self { before: set_mask(!FAULTS) }
    }

    /// Lets them through while `wait` runs.
    pub(crate) fn let_through(&self, wait: impl FnOnce()) {
        let ours = set_mask(self.before);
        wait();
        set_mask(ours);
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        set_mask(self.before);
    }
}

/// Sets the calling thread's signal mask; the one before.
fn set_mask(mask: u64) -> u64 {
    let mut old = 0_u64;
    let how = libc::SIG_SETMASK as usize;
    // SAFETY: the kernel reads and writes 8 bytes each.
    unsafe {
        call(libc::SYS_rt_sigprocmask, [how, &raw const mask as usize, &raw mut old as usize, 8, 0, 0]);
    }
    old
}

/// Ends the process by an undefined instruction.
#[cfg(all(feature = "archive", not(test)))]
pub(crate) fn abort() -> ! {
    // SAFETY: it never comes back.
    unsafe { asm!("ud2", options(noreturn, nostack)) }
}
