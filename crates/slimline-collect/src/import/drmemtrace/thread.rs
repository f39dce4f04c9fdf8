//! One file of a trace, part by part.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::PathBuf;

use super::entry::{ENTRY_BYTES, Entry};
use super::{DrmemtraceError, DrmemtraceLosses, InputError, ThreadPart};
use crate::import::{TracedAccess, TracedKind};

/// Accesses of a part at most: of a file that tells no time, or seldom.
const MOST_ACCESSES: usize = 1 << 16;

/// Bits of what kind of trace it is (`offline_file_type_t`).
const FILTERED: u64 = 0x01 | 0x80 | 0x100;
const INSTRUCTIONS_ONLY: u64 = 0x04;
const OF_32_BITS: u64 = 0x10 | 0x20;

/// A file that is read.
pub(super) struct ThreadFile {
    path: PathBuf,
    reader: Box<dyn Read>,
    buffer: Vec<u8>,
    /// What of the buffer was not taken yet.
    from: usize,
    until: usize,
    has_begun: bool,
    has_ended: bool,
    /// Its packing has no end.
    is_cut: bool,
    /// Behind a footer: what comes there is of nobody until a thread begins or goes on.
    is_of_nobody: bool,
    process: u64,
    thread: u64,
    /// Of threads that others took the place of: process and instruction, for when they go on.
    others: HashMap<u64, (u64, (u64, u64))>,
    /// Process and thread of the part that was read last.
    of_part: (u64, u64),
    since_us: u64,
    until_us: Option<u64>,
    next_us: u64,
    accesses: Vec<(TracedAccess, u64)>,
    /// The instruction that runs: its address, and the end of it.
    instruction: (u64, u64),
    pub(super) losses: DrmemtraceLosses,
}

impl ThreadFile {
    /// Of which so many bytes are looked at together.
    pub(super) fn new(reader: Box<dyn Read>, path: PathBuf, buffer_bytes: usize) -> Self {
        Self {
            path,
            reader,
            buffer: vec![0; buffer_bytes.next_multiple_of(ENTRY_BYTES)],
            from: 0,
            until: 0,
            has_begun: false,
            has_ended: false,
            is_cut: false,
            is_of_nobody: false,
            process: 0,
            thread: 0,
            others: HashMap::new(),
            of_part: (0, 0),
            since_us: 0,
            until_us: None,
            next_us: 0,
            accesses: Vec::new(),
            instruction: (0, 0),
            losses: DrmemtraceLosses::default(),
        }
    }

    /// The part that was read last.
    pub(super) fn part(&self, file: u32) -> ThreadPart<'_> {
        let ((process, thread), accesses) = (self.of_part, &*self.accesses);
        ThreadPart { file, process, thread, since_us: self.since_us, until_us: self.until_us, accesses }
    }

    /// Reads on to the next time that is told, or to where another thread goes on. Gives when the part began; none at the end.
    pub(super) fn read_part(&mut self) -> Result<Option<u64>, DrmemtraceError> {
        self.accesses.clear();
        self.since_us = self.next_us;
        self.until_us = None;
        self.of_part = (self.process, self.thread);
        while self.accesses.len() < MOST_ACCESSES {
            let Some(entry) = self.next_entry()? else {
                let is_part = !self.accesses.is_empty();
                return Ok(is_part.then_some(self.since_us));
            };
            match entry {
                Entry::Time(time) => {
                    // A chunk of a file begins with the time that was told last.
                    let time = time.max(self.next_us);
                    self.next_us = time;
                    if !self.accesses.is_empty() {
                        self.until_us = Some(time);
                        return Ok(Some(self.since_us));
                    }
                    self.since_us = time;
                }
                Entry::Thread(thread) => self.go_on_with(thread),
                Entry::Process(process) => self.process = process,
                other => self.take(other)?,
            }
            if self.of_part != (self.process, self.thread) {
                if !self.accesses.is_empty() {
                    return Ok(Some(self.since_us));
                }
                self.of_part = (self.process, self.thread);
            }
        }
        Ok(Some(self.since_us))
    }

    /// What follows is of this thread. Which process it is of is said once, and counts whenever the thread goes on.
    fn go_on_with(&mut self, thread: u64) {
        self.is_of_nobody = false;
        if thread != self.thread {
            self.others.insert(self.thread, (self.process, self.instruction));
            self.thread = thread;
            (self.process, self.instruction) = self.others.remove(&thread).unwrap_or((self.process, (0, 0)));
        }
    }

    fn take(&mut self, entry: Entry) -> Result<(), DrmemtraceError> {
        match entry {
            Entry::Header(_) => self.is_of_nobody = false,
            Entry::Footer => self.is_of_nobody = true,
            Entry::Load { .. } | Entry::Store { .. } | Entry::Fetch { .. } | Entry::Bundle { .. }
                if self.is_of_nobody =>
            {
                self.losses.of_nobody += 1;
            }
            Entry::Load { address, bytes } => self.access(TracedKind::Load, address, bytes.into()),
            Entry::Store { address, bytes } => self.access(TracedKind::Store, address, bytes.into()),
            Entry::Fetch { address, bytes } => self.fetch(address, bytes.into()),
            Entry::Bundle { count, lengths } => {
                for bytes in lengths.into_iter().take(count.into()) {
                    self.fetch(self.instruction.1, bytes.into());
                }
            }
            Entry::MaybeFetch { address, .. } if address == self.instruction.0 => {}
            Entry::MaybeFetch { address, bytes } => self.fetch(address, bytes.into()),
            Entry::Unfetched { address } => self.instruction.0 = address,
            Entry::Prefetch => self.losses.prefetches += 1,
            Entry::Flush => self.losses.flushes += 1,
            Entry::FileType(bits) => {
                self.losses.is_filtered |= bits & FILTERED != 0;
                if bits & INSTRUCTIONS_ONLY != 0 {
                    return Err(self.foreign("a trace of instructions only, without data"));
                }
                if bits & OF_32_BITS != 0 {
                    return Err(self.foreign("a trace of a 32-bit program, which is not read"));
                }
            }
            Entry::Unknown => self.losses.unknown += 1,
            // What the last three say parts what is read, and was taken in before.
            Entry::Other | Entry::Thread(_) | Entry::Process(_) | Entry::Time(_) => {}
        }
        Ok(())
    }

    fn fetch(&mut self, address: u64, bytes: u32) {
        self.instruction = (address, address.wrapping_add(bytes.into()));
        self.access(TracedKind::Fetch, address, bytes);
    }

    fn access(&mut self, kind: TracedKind, address: u64, bytes: u32) {
        self.accesses.push((TracedAccess { address, bytes, kind }, self.instruction.0));
    }

    fn foreign(&self, reason: &'static str) -> DrmemtraceError {
        DrmemtraceError::Foreign { file: self.path.clone(), reason }
    }

    /// The next record; none at the end of the file. Where that is not behind a footer, the file is cut off.
    fn next_entry(&mut self) -> Result<Option<Entry>, DrmemtraceError> {
        if self.has_ended {
            return Ok(None);
        }
        if self.until - self.from < ENTRY_BYTES {
            self.fill()?;
        }
        let Some((bytes, _)) = self.buffer[self.from..self.until].split_first_chunk::<ENTRY_BYTES>() else {
            if !self.has_begun {
                return Err(self.foreign("an empty file"));
            }
            self.losses.cut_files = u64::from(!self.is_of_nobody || self.from < self.until || self.is_cut);
            self.end();
            return Ok(None);
        };
        let entry = Entry::of(bytes);
        self.from += ENTRY_BYTES;
        if !self.has_begun && !matches!(entry, Entry::Header(_)) {
            return Err(self.foreign("not a trace that drmemtrace made of a 64-bit program: it has no header"));
        }
        self.has_begun = true;
        Ok(Some(entry))
    }

    /// There is nothing more to be read, and many other files may be.
    fn end(&mut self) {
        self.has_ended = true;
        (self.reader, self.buffer) = (Box::new(io::empty()), Vec::new());
        (self.from, self.until) = (0, 0);
    }

    /// Reads a buffer full, or all that is left. What is cut off within its packing ends there.
    fn fill(&mut self) -> Result<(), DrmemtraceError> {
        self.buffer.copy_within(self.from..self.until, 0);
        (self.from, self.until) = (0, self.until - self.from);
        while self.until < self.buffer.len() {
            match self.reader.read(&mut self.buffer[self.until..]) {
                Ok(0) => break,
                Ok(bytes) => self.until += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.is_cut = true;
                    break;
                }
                Err(error) => {
                    return Err(DrmemtraceError::Read { file: self.path.clone(), error: InputError::Read(error) });
                }
            }
        }
        Ok(())
    }
}
