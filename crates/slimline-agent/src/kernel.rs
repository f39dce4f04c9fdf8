//! System calls without libc's wrappers: they leave the target's `errno` alone, are no cancellation points, and go
//! past any function of the same name that the target or we interpose.
#![allow(unsafe_code)] // system calls are instructions

use core::arch::asm;
use core::ffi::CStr;
use core::ptr::NonNull;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use slimline_trace::wire::AGENT_SHARE;

use crate::own_memory::{self, PAGE_BYTES};

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

/// The value, or the `errno`.
pub(crate) fn check(result: isize) -> Result<usize, i32> {
    if (-4095..0).contains(&result) { Err(-result as i32) } else { Ok(result as usize) }
}

/// Anonymous private memory, zero, that takes no room until touched and is left out of core dumps.
/// None where the kernel refuses, or where a limit on address space leaves the agent no more.
pub(crate) fn map(bytes: usize) -> Option<NonNull<u8>> {
    if may_take(bytes) { map_beyond_share(bytes) } else { None }
}

/// The same for little that nothing is recorded without: a program may set the limit when the agent has its share already.
pub(crate) fn map_beyond_share(bytes: usize) -> Option<NonNull<u8>> {
    let grown = if own_memory::is_apart() { own_memory::grow(bytes) } else { None };
    let start = grown.or_else(|| map_anywhere(bytes))?;
    own_memory::note(start, bytes);
    // SAFETY: the range is ours; the advice changes no content. Its failure costs nothing but dump size.
    unsafe { call(libc::SYS_madvise, [start, bytes, libc::MADV_DONTDUMP as usize, 0, 0, 0]) };
    NonNull::new(start as *mut u8)
}

/// Address space that the process may have.
pub(crate) fn address_space_limit() -> u64 {
    limit(libc::RLIMIT_AS).min(limit(libc::RLIMIT_DATA))
}

/// Whether a limit on address space leaves so many bytes for the agent: most of it is the program's.
fn may_take(bytes: usize) -> bool {
    match address_space_limit() {
        libc::RLIM_INFINITY => true,
        limit => (own_memory::total_bytes() + bytes) as u64 <= limit / AGENT_SHARE,
    }
}

/// Where memory of the agent's own may go: away from the program's, whose holes the kernel would fill first. A program may unmap
/// memory and map it anew at the same place, which nobody else takes alone.
fn place(bytes: usize) -> usize {
    /// Below this library: what programs map grows down from about there.
    const DISTANCE: usize = 64 << 30;
    /// Places are used again after that much. Those that are in use still the kernel passes over.
    const ROOM: usize = 32 << 30;
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    let taken = TAKEN.fetch_add(bytes.next_multiple_of(PAGE_BYTES), Relaxed) % ROOM;
    let here = place as *const () as usize;
    here.checked_sub(DISTANCE).map_or(0, |base| base.next_multiple_of(PAGE_BYTES) + taken)
}

fn map_anywhere(bytes: usize) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let arguments = [place(bytes), bytes, protection as usize, flags as usize, usize::MAX, 0];
    // SAFETY: a new mapping at a place that is free touches nothing that exists.
    check(unsafe { call(libc::SYS_mmap, arguments) }).ok()
}

/// Shared memory of a file.
pub(crate) fn map_file(file: i32, offset: usize, bytes: usize) -> Result<NonNull<u8>, i32> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    if !may_take(bytes) {
        return Err(libc::ENOMEM);
    }
    let arguments = [place(bytes), bytes, protection as usize, libc::MAP_SHARED as usize, file as usize, offset];
    // SAFETY: as in `map`.
    let start = check(unsafe { call(libc::SYS_mmap, arguments) })?;
    own_memory::note(start, bytes);
    // On a disk's file system the first touch of each page would read ahead: milliseconds a process, of nothing but
    // zeros. SAFETY: the advice changes no content.
    unsafe { call(libc::SYS_madvise, [start, bytes, libc::MADV_RANDOM as usize, 0, 0, 0]) };
    NonNull::new(start as *mut u8).ok_or(libc::ENOMEM)
}

/// Shared memory of a file of which the first page is mapped already, at `first`. What the kernel locks of it is what it
/// locks of that page.
///
/// # Safety
/// `first` must be the start of a mapping from [`map_file`], from offset 0 on.
pub(crate) unsafe fn map_file_like(first: *mut u8, offset: usize, bytes: usize) -> Option<NonNull<u8>> {
    let may_move = libc::MREMAP_MAYMOVE as usize;
    // Nothing is moved where there are no old bytes to move: the file is mapped once more.
    // SAFETY: the old mapping stays as it is.
    let whole = check(unsafe { call(libc::SYS_mremap, [first.addr(), 0, offset + bytes, may_move, 0, 0]) }).ok()?;
    // SAFETY: just mapped, and nobody has seen it.
    unsafe { call(libc::SYS_munmap, [whole, offset, 0, 0, 0, 0]) };
    own_memory::note(whole + offset, bytes);
    NonNull::new((whole + offset) as *mut u8)
}

/// Gives memory from [`map`] or [`map_file`] back.
///
/// # Safety
/// The range must come from one of them whole, and nothing may use it any more.
pub(crate) unsafe fn unmap(start: *mut u8, bytes: usize) {
    own_memory::forget(start.addr());
    // SAFETY: promised by the caller.
    unsafe { call(libc::SYS_munmap, [start as usize, bytes, 0, 0, 0, 0]) };
}

/// Makes whole pages from [`map`] zero again and gives their memory back.
///
/// # Safety
/// The pages must be the caller's to write, and zero must be a value of what lies there.
pub(crate) unsafe fn clear(start: *mut u8, bytes: usize) {
    // SAFETY: promised by the caller.
    unsafe { call(libc::SYS_madvise, [start as usize, bytes, libc::MADV_DONTNEED as usize, 0, 0, 0]) };
}

/// Makes the lowest page of a mapping inaccessible: a stack's end.
///
/// # Safety
/// The page must be the agent's own, and unused.
pub(crate) unsafe fn guard(start: *mut u8) {
    // SAFETY: promised by the caller.
    unsafe { call(libc::SYS_mprotect, [start as usize, 4096, libc::PROT_NONE as usize, 0, 0, 0]) };
}

/// Has a forked child see zeros in a private mapping; false where the kernel can't (before Linux 4.14).
///
/// # Safety
/// The range must be private anonymous memory of the agent's own.
pub(crate) unsafe fn wipe_on_fork(start: *mut u8, bytes: usize) -> bool {
    // SAFETY: promised by the caller.
    unsafe { call(libc::SYS_madvise, [start as usize, bytes, libc::MADV_WIPEONFORK as usize, 0, 0, 0]) == 0 }
}

/// Leaves a mapping out of forked children.
///
/// # Safety
/// The range must be the agent's own, and a child must not use it.
pub(crate) unsafe fn keep_from_children(start: *mut u8, bytes: usize) {
    // SAFETY: promised by the caller.
    unsafe { call(libc::SYS_madvise, [start as usize, bytes, libc::MADV_DONTFORK as usize, 0, 0, 0]) };
}

/// Copies memory of the calling process and returns how many bytes: it stops at the first page that can't be read. Raises no
/// signal. Refuses what its mapping does not let the process read, memory of devices and secret memory. `thread` is the
/// calling thread's number.
pub(crate) fn copy_memory(thread: u32, from: u64, into: &mut [u8]) -> usize {
    let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: the caller's own buffer.
    unsafe { copy_ranges(thread, &[range(from, into.len())], &[to]) }
}

/// So many bytes from an address on.
pub(crate) fn range(start: u64, bytes: usize) -> libc::iovec {
    libc::iovec { iov_base: core::ptr::with_exposed_provenance_mut(start as usize), iov_len: bytes }
}

/// Copies several ranges, one behind the other, as [`copy_memory`] does.
///
/// # Safety
/// `to` must be the caller's to write.
pub(crate) unsafe fn copy_ranges(thread: u32, from: &[libc::iovec], to: &[libc::iovec]) -> usize {
    let arguments = [thread as usize, to.as_ptr() as usize, to.len(), from.as_ptr() as usize, from.len(), 0];
    // SAFETY: the kernel checks the addresses that it reads from; the others are the caller's promise.
    check(unsafe { call(libc::SYS_process_vm_readv, arguments) }).unwrap_or(0)
}

/// Asks which pages are resident, from the page at `start` on: the lowest bit of each answer says so. Answers beyond the
/// first hole between mappings stay as they are.
pub(crate) fn resident_pages(start: u64, answers: &mut [u8]) {
    let arguments = [start as usize, answers.len() * 4096, answers.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel writes a byte for each page.
    unsafe { call(libc::SYS_mincore, arguments) };
}

/// Whether a load of the eight bytes at `address` (8-aligned) would succeed here and now, protection keys included: the kernel
/// fetches a signal set from there before it finds that it was asked for nothing sensible.
pub(crate) fn can_load(address: u64) -> bool {
    const NO_SUCH_OPERATION: usize = usize::MAX;
    if address == 0 {
        return false; // means "no set" to the kernel
    }
    // SAFETY: the kernel checks the address itself, and changes nothing for an unknown operation.
    let result = unsafe { call(libc::SYS_rt_sigprocmask, [NO_SUCH_OPERATION, address as usize, 0, 8, 0, 0]) };
    result != -libc::EFAULT as isize
}

/// Nanoseconds of a clock that the kernel always has.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to `time` only.
    unsafe { call(libc::SYS_clock_gettime, [clock as usize, &raw mut time as usize, 0, 0, 0, 0]) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
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

/// Kernel's number of the calling thread.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { call(libc::SYS_gettid, [0; 6]) as u32 }
}

/// How many threads the process has; None where `/proc` does not tell.
pub(crate) fn threads() -> Option<u64> {
    // A directory has a link for each in it, for itself, and for its name.
    link_count(c"/proc/self/task").and_then(|links| links.checked_sub(2))
}

/// Pid of the tracer (`ptrace`), such as a debugger; None without one, without `/proc`, or where it is in an outer PID namespace.
pub(crate) fn tracer() -> Option<u32> {
    // The line is among the first ten.
    let mut room = [0; 512];
    let file = open(c"/proc/self/status", libc::O_RDONLY, 0).ok()?;
    let length = read(file, &mut room);
    close(file);
    tracer_in(&room[..length.ok()?])
}

/// Parses `TracerPid` of `/proc/<pid>/status`; 0 means untraced.
fn tracer_in(status: &[u8]) -> Option<u32> {
    let mut lines = status.split(|&byte| byte == b'\n');
    let number = lines.find_map(|line| line.strip_prefix(b"TracerPid:\t"))?;
    core::str::from_utf8(number).ok()?.parse().ok().filter(|&pid| pid != 0)
}

/// Number of the namespace that process ids are of; 0 where `/proc` does not tell.
pub(crate) fn pid_namespace() -> u64 {
    let mut room = [0; 32];
    let link = read_link(c"/proc/self/ns/pid", &mut room).unwrap_or(&[]);
    let number = link.strip_prefix(b"pid:[").and_then(|rest| rest.strip_suffix(b"]"));
    number.and_then(|digits| core::str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(0)
}

/// Kernel's name of the calling thread, NUL-terminated.
pub(crate) fn thread_name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: the kernel writes at most 16 bytes there.
    unsafe { call(libc::SYS_prctl, [libc::PR_GET_NAME as usize, name.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    name[15] = 0;
    name
}

/// Opens a file; the descriptor is closed on exec.
pub(crate) fn open(path: &CStr, flags: i32, mode: u32) -> Result<i32, i32> {
    let flags = flags | libc::O_CLOEXEC;
    // SAFETY: a path ends in NUL.
    let result = unsafe {
        call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags as usize, mode as usize, 0, 0])
    };
    check(result).map(|file| file as i32)
}

/// Closes a descriptor of the agent's own.
pub(crate) fn close(file: i32) {
    // SAFETY: no memory is involved; the descriptor is ours.
    unsafe { call(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]) };
}

/// Writes bytes at an offset of a file; how many were written.
///
/// # Safety
/// If the file is this process's memory, that memory must be allowed to become what is written.
pub(crate) unsafe fn write_at(file: i32, bytes: &[u8], offset: u64) -> Result<usize, i32> {
    let arguments = [file as usize, bytes.as_ptr() as usize, bytes.len(), offset as usize, 0, 0];
    // SAFETY: the kernel reads the buffer; promised by the caller.
    check(unsafe { call(libc::SYS_pwrite64, arguments) })
}

/// Reads up to the buffer's length; 0 at the end.
pub(crate) fn read(file: i32, into: &mut [u8]) -> Result<usize, i32> {
    loop {
        // SAFETY: the kernel writes at most the buffer's length into it.
        let result = unsafe { call(libc::SYS_read, [file as usize, into.as_mut_ptr() as usize, into.len(), 0, 0, 0]) };
        match check(result) {
            Err(libc::EINTR) => {}
            result => return result,
        }
    }
}

/// What a symbolic link says, as far as the buffer holds it; not NUL-terminated.
pub(crate) fn read_link<'a>(path: &CStr, into: &'a mut [u8]) -> Result<&'a [u8], i32> {
    let at = libc::AT_FDCWD as usize;
    let (start, length) = (into.as_mut_ptr() as usize, into.len());
    // SAFETY: the kernel reads the path and writes at most the buffer's length into it.
    let result = unsafe { call(libc::SYS_readlinkat, [at, path.as_ptr() as usize, start, length, 0, 0]) };
    check(result).map(|length| &into[..length])
}

/// What the kernel says of a segment of System V shared memory.
pub(crate) fn shared_segment(id: i32) -> Result<libc::shmid_ds, i32> {
    // SAFETY: a structure of integers; zeros are one.
    let mut found: libc::shmid_ds = unsafe { core::mem::zeroed() };
    let arguments = [id as usize, libc::IPC_STAT as usize, &raw mut found as usize, 0, 0, 0];
    // SAFETY: the kernel fills the structure, which is its own on this architecture.
    check(unsafe { call(libc::SYS_shmctl, arguments) }).map(|_| found)
}

/// How many links a file has.
fn link_count(path: &CStr) -> Option<u64> {
    // SAFETY: a structure of integers; zeros are one.
    let mut found: libc::stat = unsafe { core::mem::zeroed() };
    let arguments = [libc::AT_FDCWD as usize, path.as_ptr() as usize, &raw mut found as usize, 0, 0, 0];
    // SAFETY: a path ends in NUL, and the kernel fills the structure.
    check(unsafe { call(libc::SYS_newfstatat, arguments) }).ok()?;
    Some(found.st_nlink)
}

/// What the kernel says of an open file.
fn status(file: i32) -> Result<libc::stat, i32> {
    // SAFETY: a structure of integers; zeros are one.
    let mut found: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel fills the structure.
    check(unsafe { call(libc::SYS_fstat, [file as usize, &raw mut found as usize, 0, 0, 0, 0]) })?;
    Ok(found)
}

/// Size of a file.
pub(crate) fn file_bytes(file: i32) -> Result<usize, i32> {
    status(file).map(|found| found.st_size as usize)
}

/// Whether a mapping of an open file is memory: a regular file's, but for those that the kernel shows devices as, or
/// `/dev/zero`'s. True also where the descriptor is none.
pub(crate) fn is_memory_file(file: i32) -> bool {
    let zeros = libc::makedev(1, 5);
    status(file).map_or(true, |found| match found.st_mode & libc::S_IFMT {
        libc::S_IFREG => !is_of_kernel(file),
        libc::S_IFCHR => found.st_rdev == zeros,
        _ => false,
    })
}

/// Which file an open descriptor is of: device and inode.
pub(crate) fn identity(file: i32) -> Option<[u64; 2]> {
    status(file).ok().map(|found| [found.st_dev, found.st_ino])
}

/// Whether an open file is in sysfs, proc or debugfs, where regular files may be registers of a device.
fn is_of_kernel(file: i32) -> bool {
    const DEBUGFS_MAGIC: i64 = 0x6462_6720;
    // SAFETY: a structure of integers; zeros are one.
    let mut found: libc::statfs = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel fills the structure.
    let result = unsafe { call(libc::SYS_fstatfs, [file as usize, &raw mut found as usize, 0, 0, 0, 0]) };
    result == 0 && [libc::SYSFS_MAGIC, libc::PROC_SUPER_MAGIC, DEBUGFS_MAGIC].contains(&found.f_type)
}

/// A file's content, to be read only.
pub(crate) fn map_private(file: i32, bytes: usize) -> Result<NonNull<u8>, i32> {
    let arguments = [place(bytes), bytes, libc::PROT_READ as usize, libc::MAP_PRIVATE as usize, file as usize, 0];
    // SAFETY: a new mapping at a place that is free touches nothing that exists.
    let start = check(unsafe { call(libc::SYS_mmap, arguments) })?;
    own_memory::note(start, bytes);
    NonNull::new(start as *mut u8).ok_or(libc::ENOMEM)
}

/// Memory of the agent's own at a place that was free, to be written; None where it wasn't, or the kernel refuses.
pub(crate) fn map_at(start: u64, bytes: usize) -> Option<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let arguments = [start as usize, bytes, protection as usize, flags as usize, usize::MAX, 0];
    // SAFETY: nothing that exists is replaced.
    let mapped = check(unsafe { call(libc::SYS_mmap, arguments) }).ok()?;
    if mapped as u64 != start {
        // Kernels before 4.17 take it for a hint.
        // SAFETY: just mapped.
        unsafe { call(libc::SYS_munmap, [mapped, bytes, 0, 0, 0, 0]) };
        return None;
    }
    own_memory::note(mapped, bytes);
    if own_memory::is_apart() {
        // SAFETY: ours; no content changes.
        unsafe { call(libc::SYS_munlock, [mapped, bytes, 0, 0, 0, 0]) };
    }
    NonNull::new(mapped as *mut u8)
}

/// Says what may be done with memory: `PROT_READ` and so on.
///
/// # Safety
/// Whoever uses the memory must get along with that.
pub(crate) unsafe fn protect(start: u64, bytes: usize, protection: i32) -> bool {
    // SAFETY: promised by the caller.
    check(unsafe { call(libc::SYS_mprotect, [start as usize, bytes, protection as usize, 0, 0, 0]) }).is_ok()
}

/// Gives a file its size.
pub(crate) fn truncate(file: i32, bytes: usize) -> Result<(), i32> {
    // SAFETY: no memory is involved; the descriptor is ours.
    check(unsafe { call(libc::SYS_ftruncate, [file as usize, bytes, 0, 0, 0, 0]) }).map(|_| ())
}

/// Takes room on the disk now, so that writing to a mapping later can't fail; true also where the file system has no
/// such thing.
pub(crate) fn allocate(file: i32, offset: usize, bytes: usize) -> bool {
    // SAFETY: no memory is involved; the descriptor is ours.
    let result = unsafe { call(libc::SYS_fallocate, [file as usize, 0, offset, bytes, 0, 0]) };
    matches!(check(result), Ok(_) | Err(libc::EOPNOTSUPP | libc::ENOSYS))
}

/// A soft resource limit.
pub(crate) fn limit(resource: u32) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes to `limit` only.
    unsafe { call(libc::SYS_prlimit64, [0, resource as usize, 0, &raw mut limit as usize, 0, 0]) };
    limit.rlim_cur
}

/// Moves a descriptor to a number that programs do not come across; the new one.
pub(crate) fn hide(file: i32) -> i32 {
    const OUT_OF_THE_WAY: u64 = 900;
    let lowest = OUT_OF_THE_WAY.min(limit(libc::RLIMIT_NOFILE).saturating_sub(8)).max(3);
    // SAFETY: no memory is involved; the descriptor is ours.
    let result =
        unsafe { call(libc::SYS_fcntl, [file as usize, libc::F_DUPFD_CLOEXEC as usize, lowest as usize, 0, 0, 0]) };
    match check(result) {
        Ok(moved) => {
            close(file);
            moved as i32
        }
        Err(_) => file,
    }
}

/// Changes the calling thread's signal mask (`how` as for `sigprocmask`); the `errno` or 0, and the mask before.
pub(crate) fn set_mask(how: i32, mask: u64) -> (i32, u64) {
    let mut old = 0_u64;
    // SAFETY: the kernel reads and writes 8 bytes each.
    let result = unsafe {
        call(libc::SYS_rt_sigprocmask, [how as usize, &raw const mask as usize, &raw mut old as usize, 8, 0, 0])
    };
    (check(result).err().unwrap_or(0), old)
}

/// Keeps all signals from the calling thread as long as it is there.
pub(crate) struct Signals {
    before: u64,
}

impl Signals {
    pub(crate) fn block() -> Self {
        Self { before: set_mask(libc::SIG_BLOCK, u64::MAX).1 }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        set_mask(libc::SIG_SETMASK, self.before);
    }
}

/// Signals that wait for the calling thread or its process; the `errno` or 0 before it.
pub(crate) fn pending() -> (i32, u64) {
    let mut pending = 0_u64;
    // SAFETY: the kernel writes 8 bytes.
    let result = unsafe { call(libc::SYS_rt_sigpending, [&raw mut pending as usize, 8, 0, 0, 0, 0]) };
    (check(result).err().unwrap_or(0), pending)
}

/// Sends a signal with the contents at `info` (a `siginfo_t`) to a thread or a process; whether the kernel took it.
pub(crate) fn queue_signal(process: u32, thread: Option<u32>, signal: i32, info: usize) -> bool {
    let (process, signal) = (process as usize, signal as usize);
    // SAFETY: the kernel checks the address and reads a `siginfo_t` there.
    let result = unsafe {
        match thread {
            Some(thread) => call(libc::SYS_rt_tgsigqueueinfo, [process, thread as usize, signal, info, 0, 0]),
            None => call(libc::SYS_rt_sigqueueinfo, [process, signal, info, 0, 0, 0]),
        }
    };
    result == 0
}

/// User and system time of the process in nanoseconds.
pub(crate) fn process_times_ns() -> (u64, u64) {
    // SAFETY: a structure of integers.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel writes to `usage` only.
    unsafe { call(libc::SYS_getrusage, [libc::RUSAGE_SELF as usize, &raw mut usage as usize, 0, 0, 0, 0]) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

/// Lets other threads run.
pub(crate) fn yield_now() {
    // SAFETY: no memory is involved.
    unsafe { call(libc::SYS_sched_yield, [0; 6]) };
}

/// Whether Valgrind runs this code: it tells by a sequence of instructions that does nothing else, as its manual says
/// (`RUNNING_ON_VALGRIND` of valgrind.h).
pub(crate) fn is_under_valgrind() -> bool {
    const RUNNING_ON_VALGRIND: u64 = 0x1001;
    let request = [RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0];
    let answer: u64;
    // SAFETY: the rotations add up to 128 bits, and exchanging a register with itself changes nothing.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            inout("rdi") 0_u64 => _,
            in("rax") request.as_ptr(),
            inout("rdx") 0_u64 => answer,
            options(nostack)
        );
    }
    answer != 0
}

/// Ends the process.
pub(crate) fn exit(status: i32) -> ! {
    loop {
        // SAFETY: it never comes back.
        unsafe { call(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Ends the process by an undefined instruction.
pub(crate) fn abort() -> ! {
    // SAFETY: it never comes back.
    unsafe { asm!("ud2", options(noreturn, nostack)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program may map it anew at once.
    #[test]
    fn what_a_program_unmaps_stays_free() {
        const BYTES: usize = 1 << 20;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        for bytes in [4096, BYTES, 3 * BYTES] {
            // SAFETY: a mapping that nobody uses.
            let hole = unsafe {
                let hole = libc::mmap(core::ptr::null_mut(), BYTES, protection, flags, -1, 0);
                libc::munmap(hole, BYTES);
                hole.addr()
            };
            let own = map(bytes).unwrap().as_ptr();
            assert!(own.addr() + bytes <= hole || own.addr() >= hole + BYTES, "{own:?} in {hole:x}");
            // SAFETY: just mapped.
            unsafe { unmap(own, bytes) };
        }
    }

    #[test]
    fn a_tracer_is_told_by_its_line() {
        assert_eq!(tracer_in(b"Name:\tTracerPid:\nPPid:\t7\nTracerPid:\t4711\nUid:\t0\n"), Some(4711));
        assert_eq!(tracer_in(b"Name:\ta\nTracerPid:\t0\nUid:\t0\n"), None);
        assert_eq!((tracer_in(b"Name:\ta\nTra"), tracer_in(b"")), (None, None));
    }
}
