//! The file of descriptions, as memory: descriptors are the program's, which counts them and may close all.
#![allow(unsafe_code)] // a mapping

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr;
use std::slice;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64};

use slimline_trace::stream::translated::{CodeHead, Counter};

/// Bytes that are mapped at a time.
const STEP_BYTES: usize = 1 << 20;

/// The head of the process's file, which is mapped as long as it is this one.
static HEAD: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Counts one more.
pub(crate) fn count(counter: Counter) {
    let head = HEAD.load(Relaxed);
    if !head.is_null() {
        // SAFETY: of a head, at a multiple of eight.
        unsafe { AtomicU64::from_ptr(head.add(counter.offset()).cast()) }.fetch_add(1, Relaxed);
    }
}

/// A file that is appended to, and not open.
#[derive(Debug)]
pub(crate) struct CodeFile {
    path: PathBuf,
    /// The first step, with the head: how much is written stands there.
    head: Step,
    /// The step that is being written, if it is another one.
    last: Option<Step>,
    written: usize,
}

/// A mapped part of the file.
#[derive(Debug)]
struct Step(*mut u8);

// SAFETY: memory that is mapped for all threads alike.
unsafe impl Send for Step {}

impl Step {
    fn map(file: &File, number: usize) -> io::Result<Self> {
        let offset = number * STEP_BYTES;
        file.set_len((offset + STEP_BYTES) as u64)?;
        let (protection, descriptor) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: at no address that is in use.
        let mapped = unsafe {
            libc::mmap(ptr::null_mut(), STEP_BYTES, protection, libc::MAP_SHARED, descriptor, offset as libc::off_t)
        };
        if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(mapped.cast())) }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped, and only we write there; a reader has a copy.
        unsafe { slice::from_raw_parts_mut(self.0, STEP_BYTES) }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        // SAFETY: mapped by us.
        unsafe { libc::munmap(self.0.cast(), STEP_BYTES) };
    }
}

impl CodeFile {
    /// Makes the file, with its head.
    ///
    /// # Errors
    /// There is one of that name, or no room.
    pub(crate) fn create(path: &Path, head: &CodeHead) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let mut first = Step::map(&file, 0)?;
        first.bytes()[..CodeHead::BYTES].copy_from_slice(&head.bytes());
        // A forked child's replaces its parent's, which is unmapped after that.
        HEAD.store(first.0, Relaxed);
        let mut made = Self { path: path.to_owned(), head: first, last: None, written: CodeHead::BYTES };
        made.publish();
        Ok(made)
    }

    /// Appends, for readers to see all of it or nothing.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (number, at) = (self.written / STEP_BYTES, self.written % STEP_BYTES);
            if number > 0 && at == 0 {
                let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
                self.last = Some(Step::map(&file, number)?);
            }
            let step = self.last.as_mut().unwrap_or(&mut self.head);
            let (now, later) = bytes.split_at(bytes.len().min(STEP_BYTES - at));
            step.bytes()[at..at + now.len()].copy_from_slice(now);
            self.written += now.len();
            bytes = later;
        }
        self.publish();
        Ok(())
    }

    fn publish(&mut self) {
        // SAFETY: of the head, at a multiple of eight; readers see it at once.
        let length = unsafe { AtomicU64::from_ptr(self.head.0.add(CodeHead::LENGTH_OFFSET).cast()) };
        length.store(self.written as u64, Release);
    }
}
