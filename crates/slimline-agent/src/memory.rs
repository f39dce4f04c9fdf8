//! The target's memory. Every read of it can fail, and none harms it, whatever its other threads do meanwhile.
//!
//! Samples load it where faults come to us ([`Loads`]). Elsewhere the kernel copies (`process_vm_readv`) and says where it
//! can't, instead of raising a signal: pages that are gone, protected or execute-only, files that were truncated, memory of
//! devices, secret memory. No list of mappings is trusted.
//!
//! What a load may wait for or change is never loaded: from the first mapping of a device on the kernel copies, which
//! refuses those. Copying from a page that is not resident makes the kernel fetch it. Where the program itself serves such pages
//! (`userfaultfd`), the thread that does so may be waiting for a lock that this thread holds. So from the first use of
//! `userfaultfd` on the kernel is asked first whether the page is resident (`mincore`).

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use slimline_emulate::Memory;

use crate::confine::Busy;
use crate::kernel;
use crate::signals::faults::Loads;

const PAGE_BYTES: u64 = 4096;

/// Whether the program may serve its own page faults.
static SERVES_FAULTS: AtomicBool = AtomicBool::new(false);
/// Whether the program may have mapped what is no memory, or no file's.
static MAPS_DEVICES: AtomicBool = AtomicBool::new(false);

/// The program maps a file. Devices are neither regular files nor, but for one of zeros, memory.
pub(crate) fn before_mapping(file: i32) {
    if !MAPS_DEVICES.load(Relaxed)
        && let Some(_busy) = Busy::begin()
        && !kernel::is_memory_file(file)
    {
        MAPS_DEVICES.store(true, Relaxed);
    }
}

/// Notes a system call by which a program begins to serve its page faults.
#[inline]
pub(crate) fn before_system_call(number: i64, request: usize) {
    if number == libc::SYS_userfaultfd || number == libc::SYS_ioctl && is_of_userfaultfd(request) {
        SERVES_FAULTS.store(true, Relaxed);
    }
}

/// Whether a request of `ioctl` is one of `userfaultfd`'s, by its type (`UFFDIO`).
fn is_of_userfaultfd(request: usize) -> bool {
    request >> 8 & 0xff == 0xaa
}

/// The process's memory, as one of its threads sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The kernel's number of the calling thread.
    thread: u32,
}

impl Target {
    /// For the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        Self { thread: kernel::thread_id() }
    }

    /// Copies from `address`; false when any of the bytes can't be read.
    pub(crate) fn copy(self, address: u64, into: &mut [u8]) -> bool {
        let Some(end) = address.checked_add(into.len() as u64) else { return false };
        let mut pages = (address / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).map(|page| page * PAGE_BYTES);
        (!SERVES_FAULTS.load(Relaxed) || pages.all(is_resident)) && self.copy_resident(address, into)
    }

    fn copy_resident(self, address: u64, into: &mut [u8]) -> bool {
        kernel::copy_memory(self.thread, address, into) == into.len()
    }

    /// Copies an integer or a structure of integers.
    pub(crate) fn read<T: Plain>(self, address: u64) -> Option<T> {
        let mut value = T::ZERO;
        self.copy(address, value.bytes_mut()).then_some(value)
    }
}

/// What any bytes are a value of.
///
/// # Safety
/// Every pattern of bytes must be a value, and there must be no padding.
#[allow(unsafe_code)]
pub(crate) unsafe trait Plain: Copy {
    const ZERO: Self;

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the bytes of a value without padding, of which all patterns are values.
        unsafe { core::slice::from_raw_parts_mut(core::ptr::from_mut(self).cast(), size_of::<Self>()) }
    }
}

macro_rules! plain {
    ($($integer:ty)*) => {$(
        #[allow(unsafe_code)]
        // SAFETY: integers.
        unsafe impl Plain for $integer {
            const ZERO: Self = 0;
        }
    )*};
}
plain!(u32 i32 u64);

#[allow(unsafe_code)]
// SAFETY: as their elements.
unsafe impl<T: Plain, const COUNT: usize> Plain for [T; COUNT] {
    const ZERO: Self = [T::ZERO; COUNT];
}

/// What the kernel has not answered.
const NOT_ASKED: u8 = 1 << 7;

/// Whether a page is in memory.
fn is_resident(page: u64) -> bool {
    let mut answer = [NOT_ASKED];
    kernel::resident_pages(page, &mut answer);
    answer[0] & (NOT_ASKED | 1) == 1
}

/// Whether the kernel copies memory at all: sandboxes may forbid it.
pub(crate) fn can_copy() -> bool {
    let witness = 0x5eed_u64;
    Target::of_this_thread().read(&raw const witness as u64) == Some(witness)
}

/// What is copied at a time. The call takes most of the time, up to a page: 2.5 µs from memory that is in no cache. But what
/// is copied in vain pushes the program's data out of the caches.
const CHUNK_BYTES: usize = 1024;
/// Chunks kept at a time, a power of two. A burst reads 5 to 60.
const CHUNKS: usize = 64;
/// Pages that the kernel is asked for at a time.
const GROUP_PAGES: u64 = 16;
/// Groups remembered at a time, a power of two.
const GROUPS: usize = 32;
/// Chunks that a burst copies when it begins, at most.
const MOST_SOON: usize = 8;
const NOWHERE: libc::iovec = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
/// Most code that is looked at around a sample.
const MAX_CODE_BYTES: usize = 2048;

/// What will be read soon: from the chunk around an address on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Soon {
    pub(crate) address: u64,
    pub(crate) chunks: usize,
}

/// The target's memory, for one sample. Zeros are an empty one.
pub(crate) struct Copies {
    target: Target,
    /// Where nothing is copied but all is loaded.
    loads: Option<Loads>,
    burst: u32,
    /// Number of each chunk and the burst it was copied in.
    copied: [(u64, u32); CHUNKS],
    is_readable: [bool; CHUNKS],
    bytes: [[u8; CHUNK_BYTES]; CHUNKS],
    groups: [Group; GROUPS],
    code: [u8; MAX_CODE_BYTES],
}

/// Which of some pages are resident.
#[derive(Clone, Copy)]
struct Group {
    number: u64,
    burst: u32,
    /// A bit for each page that was asked for, and whether it is.
    asked: u16,
    resident: u16,
}

/// The row of `number` in a table of `rows`, a power of two.
fn row(number: u64, rows: usize) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - rows.ilog2())) as usize % rows
}

impl Copies {
    /// Forgets everything: a sample of the calling thread begins. `soon` is read soon, and copied by one system call.
    pub(crate) fn begin(&mut self, thread: u32, loads: Option<Loads>, soon: [Soon; 2]) {
        self.loads = loads.filter(|_| !SERVES_FAULTS.load(Relaxed) && !MAPS_DEVICES.load(Relaxed));
        self.target = Target { thread };
        self.burst = self.burst.wrapping_add(1);
        if self.burst == 0 {
            self.copied = [(0, 0); CHUNKS];
            self.groups = [Group { number: 0, burst: 0, asked: 0, resident: 0 }; GROUPS];
            self.burst = 1;
        }
        if self.loads.is_none() && !SERVES_FAULTS.load(Relaxed) {
            self.copy_at_once(soon);
        }
    }

    /// Copies these chunks, up to the first that can't be read.
    fn copy_at_once(&mut self, soon: [Soon; 2]) {
        let (mut numbers, mut to) = ([0; MOST_SOON], [NOWHERE; MOST_SOON]);
        let mut from = [NOWHERE; 2];
        let mut count = 0;
        for (Soon { address, chunks }, from) in soon.into_iter().zip(&mut from) {
            let first = address / CHUNK_BYTES as u64;
            *from = kernel::range(first * CHUNK_BYTES as u64, 0);
            for number in first..first + chunks as u64 {
                // Two of one row can't both be kept: the second and what follows is left for later.
                let row = row(number, CHUNKS);
                if count == MOST_SOON || numbers[..count].iter().any(|&other| self::row(other, CHUNKS) == row) {
                    break;
                }
                numbers[count] = number;
                to[count] = kernel::range(self.bytes[row].as_ptr() as u64, CHUNK_BYTES);
                from.iov_len += CHUNK_BYTES;
                count += 1;
            }
        }
        // SAFETY: the rows are our own, and each is there once.
        #[allow(unsafe_code)]
        let copied = unsafe { kernel::copy_ranges(self.target.thread, &from, &to[..count]) };
        for &number in &numbers[..copied / CHUNK_BYTES] {
            let row = row(number, CHUNKS);
            self.copied[row] = (number, self.burst);
            self.is_readable[row] = true;
        }
    }

    /// The row of the chunk around `address`; None where it can't be read.
    #[inline]
    fn chunk_row(&mut self, address: u64) -> Option<usize> {
        let number = address / CHUNK_BYTES as u64;
        let row = row(number, CHUNKS);
        if self.copied[row] != (number, self.burst) {
            self.copy(row, number);
        }
        self.is_readable[row].then_some(row)
    }

    #[cold]
    fn copy(&mut self, row: usize, number: u64) {
        let address = number * CHUNK_BYTES as u64;
        let may_be_copied = !SERVES_FAULTS.load(Relaxed) || self.is_resident(address / PAGE_BYTES);
        self.is_readable[row] = may_be_copied && self.target.copy_resident(address, &mut self.bytes[row]);
        self.copied[row] = (number, self.burst);
    }

    fn is_resident(&mut self, page: u64) -> bool {
        let group = &mut self.groups[row(page / GROUP_PAGES, GROUPS)];
        if (group.number, group.burst) != (page / GROUP_PAGES, self.burst) {
            *group = Group { number: page / GROUP_PAGES, burst: self.burst, asked: 0, resident: 0 };
        }
        let first = (page % GROUP_PAGES) as usize;
        if group.asked >> first & 1 == 0 {
            // From this page on: what lies behind a hole is not answered.
            let mut answers = [NOT_ASKED; GROUP_PAGES as usize];
            kernel::resident_pages(page * PAGE_BYTES, &mut answers[first..]);
            group.asked |= 1 << first;
            for (number, answer) in answers.iter().enumerate().filter(|(_, answer)| **answer & NOT_ASKED == 0) {
                group.asked |= 1 << number;
                group.resident |= u16::from(answer & 1) << number;
            }
        }
        group.resident >> first & 1 != 0
    }

    /// Copies code from `start` up to `end`, cut at the first page that can't be read and at [`MAX_CODE_BYTES`]. How many bytes
    /// there are: see [`Self::copied_code`].
    pub(crate) fn copy_code(&mut self, start: u64, end: u64) -> usize {
        let wanted = end.saturating_sub(start).min(MAX_CODE_BYTES as u64);
        if let Some(loads) = self.loads {
            return self.load_code(loads, start, wanted as usize);
        }
        let mut readable_end = start + wanted;
        if SERVES_FAULTS.load(Relaxed) {
            let mut pages = start / PAGE_BYTES..readable_end.div_ceil(PAGE_BYTES);
            let missing = pages.find(|&page| !self.is_resident(page));
            readable_end = missing.map_or(readable_end, |page| (page * PAGE_BYTES).max(start));
        }
        let room = &mut self.code[..(readable_end - start) as usize];
        kernel::copy_memory(self.target.thread, start, room)
    }

    /// The first bytes of the code that was copied last.
    pub(crate) fn copied_code(&self, bytes: usize) -> &[u8] {
        &self.code[..bytes]
    }

    fn load_code(&mut self, loads: Loads, start: u64, wanted: usize) -> usize {
        let mut length = 0;
        while length < wanted {
            let at = start + length as u64;
            let in_page = (PAGE_BYTES - at % PAGE_BYTES) as usize;
            let part = in_page.min(wanted - length);
            if !loads.copy(at, &mut self.code[length..length + part]) {
                break;
            }
            length += part;
        }
        length
    }

    /// A word, as stacks hold them; None where it is not aligned or can't be read.
    #[inline]
    pub(crate) fn word(&mut self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        (address.is_multiple_of(8) && self.read(address, &mut word)).then(|| u64::from_le_bytes(word))
    }

    #[cold]
    fn read_across(&mut self, address: u64, into: &mut [u8]) -> bool {
        let (low, high) = into.split_at_mut(CHUNK_BYTES - address as usize % CHUNK_BYTES);
        let Some(next) = address.checked_add(low.len() as u64) else { return false };
        self.read(address, low) && self.read(next, high)
    }
}

impl Memory for Copies {
    #[inline]
    fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        if let Some(loads) = self.loads {
            return loads.copy(address, into);
        }
        let offset = address as usize % CHUNK_BYTES;
        if offset + into.len() > CHUNK_BYTES {
            return self.read_across(address, into);
        }
        let Some(row) = self.chunk_row(address) else { return false };
        into.copy_from_slice(&self.bytes[row][offset..offset + into.len()]);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    const NOTHING_SOON: [Soon; 2] = [Soon { address: 0, chunks: 0 }; 2];
    use std::vec;

    #[allow(unsafe_code)]
    fn copies() -> Box<Copies> {
        // SAFETY: integers and bool; zeros are an empty one.
        unsafe { Box::new_zeroed().assume_init() }
    }

    /// Fresh pages, the first `touched` of them resident.
    #[allow(unsafe_code)]
    fn map(pages: usize, touched: usize) -> *mut u8 {
        let start = kernel::map(pages * 4096).unwrap().as_ptr();
        // SAFETY: our own mapping. Huge pages would make more of it resident than was touched.
        unsafe {
            libc::madvise(start.cast(), pages * 4096, libc::MADV_NOHUGEPAGE);
            (0..touched).for_each(|page| start.add(page * 4096).write(page as u8 + 1));
        }
        start
    }

    #[allow(unsafe_code)]
    fn protect(start: *mut u8, protection: i32) {
        // SAFETY: a page of our own, used by address only.
        assert_eq!(unsafe { libc::mprotect(start.cast(), 4096, protection) }, 0);
    }

    #[test]
    fn what_is_there_is_read_and_all_else_is_refused() {
        let start = map(40, 3);
        let base = start as u64;
        #[allow(unsafe_code)]
        // SAFETY: our own mapping.
        unsafe {
            start.add(4095).write(77);
            kernel::guard(start.add(2 * 4096));
        }
        let mut copies = copies();
        copies.begin(kernel::thread_id(), None, NOTHING_SOON);
        let mut two = [0; 2];
        assert!(copies.read(base + 4095, &mut two));
        assert_eq!(two, [77, 2], "across pages");
        assert!(!copies.read(base + 2 * 4096 - 1, &mut two), "straddles into the guard");
        assert!(!copies.read(base + 2 * 4096, &mut two));
        assert!(!copies.read(0, &mut two));
        assert!(!copies.read(u64::MAX, &mut two));
        assert!(!copies.read(0xffff_8000_0000_0000, &mut two));
        assert_eq!(copies.copy_code(base, base + 8 * 4096), MAX_CODE_BYTES);
        assert_eq!(copies.copy_code(base + 2 * 4096 - 100, base + 3 * 4096), 100, "up to the guard");
        #[allow(unsafe_code)]
        // SAFETY: our own mapping, last used below by address only.
        unsafe {
            kernel::unmap(start, 40 * 4096);
        }
        copies.begin(kernel::thread_id(), None, NOTHING_SOON);
        assert!(!copies.read(base, &mut two), "asked again in the next burst");
        assert_eq!(copies.copy_code(base, base + 1), 0);
    }

    /// The only test that does: tests run in processes of their own, or at least none depends on it.
    #[test]
    fn where_the_program_serves_faults_nothing_is_fetched() {
        before_system_call(libc::SYS_ioctl, 0x5401);
        assert!(!SERVES_FAULTS.load(Relaxed), "TCGETS");
        before_system_call(libc::SYS_ioctl, 0xc020_aa00);
        assert!(SERVES_FAULTS.load(Relaxed), "UFFDIO_REGISTER");
        let base = map(40, 3) as u64;
        let mut copies = copies();
        copies.begin(
            kernel::thread_id(),
            None,
            [Soon { address: base + 20 * 4096, chunks: 1 }, Soon { address: base, chunks: 1 }],
        );
        let mut two = [0; 2];
        assert!(copies.read(base + 4096, &mut two) && two == [2, 0]);
        assert!(!copies.read(base + 20 * 4096, &mut two), "never touched");
        assert!(!Target::of_this_thread().copy(base + 2 * 4096, &mut [0; 4097]));
        assert!(!is_resident(base + 20 * 4096) && !is_resident(base + 3 * 4096), "and still not");
        holes_hide_nothing();
    }

    #[test]
    fn what_is_read_soon_is_copied_as_far_as_it_is_there() {
        let start = map(3, 2);
        let base = start as u64;
        protect(start.wrapping_add(2 * 4096), libc::PROT_NONE);
        let chunk = CHUNK_BYTES as u64;
        let mut copies = copies();
        let last = base + 2 * 4096 - chunk;
        copies.begin(
            kernel::thread_id(),
            None,
            [Soon { address: base + 5, chunks: 2 }, Soon { address: last, chunks: 3 }],
        );
        let burst = copies.burst;
        let has =
            |copies: &Copies, address: u64| copies.copied[row(address / chunk, CHUNKS)] == (address / chunk, burst);
        assert!(has(&copies, base) && has(&copies, base + chunk) && has(&copies, last));
        assert!(!has(&copies, base + 2 * chunk) && !has(&copies, last + chunk), "not asked for, can't be read");
        let mut one = [0];
        assert!(copies.read(base, &mut one) && one == [1]);
        assert!(copies.read(base + 4096, &mut one) && one == [2] && !copies.read(base + 2 * 4096, &mut one));
        // More than there is room for, and rows that are met twice.
        copies.begin(kernel::thread_id(), None, [Soon { address: base, chunks: 8 }; 2]);
        assert!(copies.read(base, &mut one) && one == [1]);
    }

    #[test]
    fn a_hole_between_mappings_hides_nothing_behind_it() {
        holes_hide_nothing();
    }

    fn holes_hide_nothing() {
        let start = map(32, 32);
        let base = start as u64;
        #[allow(unsafe_code)]
        // SAFETY: a page of our own.
        unsafe {
            kernel::unmap(start.add(5 * 4096), 4096);
        }
        let mut copies = copies();
        copies.begin(kernel::thread_id(), None, NOTHING_SOON);
        for page in 0..32 {
            let mut one = [0];
            let is_read = copies.read(base + page * 4096, &mut one);
            assert_eq!((is_read, one[0]), if page == 5 { (false, 0) } else { (true, page as u8 + 1) });
        }
    }

    #[test]
    fn a_burst_sees_what_it_saw_and_the_next_what_is_there() {
        let start = map(1, 1);
        let mut copies = copies();
        let mut one = [0];
        copies.begin(kernel::thread_id(), None, NOTHING_SOON);
        assert!(copies.read(start as u64, &mut one) && one == [1]);
        #[allow(unsafe_code)]
        // SAFETY: our own page.
        unsafe {
            start.write(9);
        }
        protect(start, libc::PROT_NONE);
        assert!(copies.read(start as u64, &mut one) && one == [1], "in the same burst");
        copies.begin(kernel::thread_id(), None, NOTHING_SOON);
        assert!(!copies.read(start as u64, &mut one), "protected meanwhile");
        protect(start, libc::PROT_READ);
        copies.begin(kernel::thread_id(), None, NOTHING_SOON);
        assert!(copies.read(start as u64, &mut one) && one == [9]);
    }

    #[test]
    fn memory_of_devices_is_never_read() {
        // The kernel's page of clocks is mapped as memory of a device is (VM_IO, VM_PFNMAP).
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.ends_with("[vvar]")).expect("no [vvar] in the mappings");
        let start = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        let mut copies = copies();
        copies.begin(kernel::thread_id(), None, NOTHING_SOON);
        assert!(!copies.read(start, &mut [0; 8]));
        assert!(!Target::of_this_thread().copy(start, &mut [0; 8]));
    }

    #[test]
    fn what_is_only_to_be_executed_is_not_read() {
        let start = map(1, 1);
        protect(start, libc::PROT_EXEC);
        assert!(!Target::of_this_thread().copy(start as u64, &mut [0; 8]));
        let vsyscall = 0xffff_ffff_ff60_0000;
        assert!(!Target::of_this_thread().copy(vsyscall, &mut [0; 8]));
    }

    #[test]
    fn a_file_that_was_truncated_is_not_read() {
        use std::os::fd::AsRawFd as _;
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * 4096).unwrap();
        let start = kernel::map_file(file.as_raw_fd(), 0, 2 * 4096).unwrap().as_ptr();
        #[allow(unsafe_code)]
        // SAFETY: our own mapping.
        unsafe {
            start.write(5);
            start.add(4096).write(6);
        }
        let target = Target::of_this_thread();
        assert_eq!(target.read::<u32>(start as u64 + 4096), Some(6));
        file.set_len(4096).unwrap();
        assert_eq!(target.read::<u32>(start as u64 + 4096), None);
        assert_eq!(target.read::<u32>(start as u64), Some(5));
    }

    #[test]
    fn large_copies_are_whole_or_none() {
        let start = map(4, 3);
        let mut room = vec![0; 3 * 4096];
        let target = Target::of_this_thread();
        assert!(target.copy(start as u64, &mut room));
        assert_eq!((room[0], room[4096], room[8192]), (1, 2, 3));
        protect(start.wrapping_add(3 * 4096), libc::PROT_NONE);
        assert!(!target.copy(start as u64 + 1, &mut room), "reaches a page that can't be read");
    }
}
