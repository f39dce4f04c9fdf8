//! Perf events, and the rings in which the kernel leaves their records.
//!
//! An event that is inherited can have a ring only on one CPU, so there is one event a CPU and thread (or command), and one
//! ring a CPU. All access to a ring goes through atomics: the kernel writes while we read, and what is read here is some
//! value, never undefined behaviour.
#![allow(unsafe_code)] // system calls, and shared memory as atomics

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use crate::perf_event::EventAttr;

/// What an event is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// What the calling thread starts from now on, each from its first `exec`. The calling thread itself never.
    Children,
    /// A thread, and those that it makes.
    Thread(u32),
}

/// Opens an event on one CPU, in the group of `leader` where it is of one.
pub(crate) fn open(attributes: &EventAttr, whom: Whom, cpu: u32, leader: Option<&File>) -> io::Result<File> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let thread = match whom {
        Whom::Children => 0,
        Whom::Thread(tid) => tid.cast_signed(),
    };
    let group = leader.map_or(-1, AsRawFd::as_raw_fd);
    let encoded = attributes.encode();
    // SAFETY: the kernel reads as many bytes of the attributes as they say they have: all of the array.
    let result = unsafe {
        libc::syscall(libc::SYS_perf_event_open, encoded.as_ptr(), thread, cpu.cast_signed(), group, CLOSE_ON_EXEC)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made the descriptor, and nobody else knows it.
    Ok(unsafe { File::from_raw_fd(result as i32) })
}

/// Sends the records of `event` to `ring`, which must be of the same CPU.
pub(crate) fn redirect(event: &File, ring: &Ring) -> io::Result<()> {
    const SET_OUTPUT: libc::c_ulong = 0x2405;
    // SAFETY: this request takes a descriptor and no memory.
    check(unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, ring.event.as_raw_fd()) })
}

/// Lets an event count, and those inherited from it.
pub(crate) fn enable(event: &impl AsRawFd) -> io::Result<()> {
    const ENABLE: libc::c_ulong = 0x2400;
    // SAFETY: this request takes no memory.
    check(unsafe { libc::ioctl(event.as_raw_fd(), ENABLE, 0) })
}

/// Ends what [`enable`] began.
pub(crate) fn disable(event: &impl AsRawFd) -> io::Result<()> {
    const DISABLE: libc::c_ulong = 0x2401;
    // SAFETY: this request takes no memory.
    check(unsafe { libc::ioctl(event.as_raw_fd(), DISABLE, 0) })
}

/// The number that samples of this event carry, and those of events inherited from it.
pub(crate) fn id_of(event: &File) -> io::Result<u64> {
    const ID: libc::c_ulong = 0x8008_2407;
    let mut id = 0_u64;
    // SAFETY: the kernel writes 8 bytes.
    check(unsafe { libc::ioctl(event.as_raw_fd(), ID, &raw mut id) }).map(|()| id)
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Bytes of a ring's data: 2,700 samples, of which there are 50 to 500 between two drains. It and the page before it are what
/// `perf_event_mlock_kb` allows everybody for each CPU.
const RING_BYTES: usize = 512 << 10;
/// Smallest ring that is tried where memory may not be locked.
const SMALLEST_RING_BYTES: usize = 32 << 10;
/// How much of a ring must be full for a reader to be woken. Ours looks at the rings by itself.
pub(crate) const WAKE_BYTES: u32 = RING_BYTES as u32 / 2;

/// Places in the first page of a ring (`perf_event_mmap_page`).
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// The ring of one CPU.
#[derive(Debug)]
pub(crate) struct Ring {
    event: File,
    mapping: MmapRaw,
    data: usize,
}

impl Ring {
    /// Makes the ring of `event`. Smaller ones where the kernel does not allow as much.
    pub(crate) fn map(event: File) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let mut bytes = RING_BYTES;
        loop {
            match MmapOptions::new().len(page + bytes).map_raw(&event) {
                Ok(mapping) => return Ok(Self { event, mapping, data: page }),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && bytes > SMALLEST_RING_BYTES => {
                    bytes /= 2;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A ring of `bytes` in ordinary memory, for a writer of tests.
    #[cfg(test)]
    pub(crate) fn of_file(file: File, bytes: usize) -> Self {
        let page = rustix::param::page_size();
        file.set_len((page + bytes) as u64).unwrap();
        let mapping = MmapOptions::new().len(page + bytes).map_raw(&file).unwrap();
        Self { event: file, mapping, data: page }
    }

    /// How much it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.mapping.len() - self.data
    }

    /// Its event.
    pub(crate) fn event(&self) -> &File {
        &self.event
    }

    /// The `count` words at `offset`, which must be a multiple of 8; all inside the mapping.
    fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(offset.is_multiple_of(8) && count <= self.mapping.len() / 8 - offset / 8);
        // SAFETY: the mapping lives as long as `self`, is page-aligned, readable and writable; the assertion keeps the
        // words inside it and aligned. Atomics may be changed by others at any time.
        unsafe { std::slice::from_raw_parts(self.mapping.as_mut_ptr().add(offset).cast(), count) }
    }

    /// Appends all records that the kernel has written since the last call to `bytes`, in order, and hands their room back.
    pub(crate) fn take(&self, bytes: &mut Vec<u8>) {
        let (head_word, tail_word) = (&self.words(HEAD, 1)[0], &self.words(TAIL, 1)[0]);
        // What the kernel wrote before it moved the head is seen after it was read.
        let (head, tail) = (head_word.load(Ordering::Acquire), tail_word.load(Ordering::Relaxed));
        let room = self.bytes();
        // Records are multiples of eight bytes, and the kernel never overtakes the tail.
        let count = (head.wrapping_sub(tail) as usize).min(room) / 8;
        let start = (tail as usize % room) / 8;
        let to_end = count.min(room / 8 - start);
        bytes.reserve(count * 8);
        for (first, count) in [(start, to_end), (0, count - to_end)] {
            let run = self.words(self.data + first * 8, count);
            bytes.extend(run.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()));
        }
        tail_word.store(head, Ordering::Release);
    }

    /// Writes as the kernel does; whether there was room.
    #[cfg(test)]
    pub(crate) fn put(&self, record: &[u8]) -> bool {
        let room = self.bytes();
        let (head, tail) =
            (self.words(HEAD, 1)[0].load(Ordering::Relaxed), self.words(TAIL, 1)[0].load(Ordering::Acquire));
        if (head - tail) as usize + record.len() > room {
            return false;
        }
        for (number, word) in record.chunks_exact(8).enumerate() {
            let at = (head as usize + number * 8) % room;
            let value = u64::from_ne_bytes(word.try_into().unwrap());
            self.words(self.data + at, 1)[0].store(value, Ordering::Relaxed);
        }
        self.words(HEAD, 1)[0].store(head + record.len() as u64, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Records come out whole and in order, wherever the ring wraps.
        #[test]
        fn what_goes_in_comes_out(steps in prop::collection::vec(prop::option::of(1_usize..40), 1..60)) {
            let ring = Ring::of_file(tempfile::tempfile().unwrap(), 4096);
            let (mut written, mut read) = (Vec::new(), Vec::new());
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Some(words) => {
                        let record: Vec<u8> = (0..words * 8).map(|byte| (number + byte) as u8).collect();
                        if ring.put(&record) {
                            written.extend(record);
                        }
                    }
                    None => ring.take(&mut read),
                }
            }
            ring.take(&mut read);
            prop_assert_eq!(read, written);
        }
    }
}
