//! The file that says what the segments of the process's records are.

use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process;

use slimline_trace::stream::record::{Header, MAX_SEGMENTS, ModuleId, SiteKind};
use slimline_trace::stream::ring::DIRECTORY_VARIABLE;
use slimline_trace::stream::translated::{CodeHead, FILE_EXTENSION, SegmentCode, TAG_FILE};

use crate::access::object_loaded;

/// A mapping of a file with code, by addresses in QEMU's process.
#[derive(Clone, Debug)]
struct Mapped {
    start: u64,
    end: u64,
    /// Which byte of the file is there.
    offset: u64,
    path: String,
}

/// What is described by now.
#[derive(Debug)]
pub(crate) struct Descriptions {
    directory: OsString,
    file: File,
    module: ModuleId,
    segments: u32,
    /// Those of the process when an address in none was asked for last.
    mapped: Vec<Mapped>,
    /// Files that are described, by path.
    files: HashMap<String, u32>,
    /// What is not written yet.
    unwritten: Vec<u8>,
    guest_base: u64,
}

impl Descriptions {
    /// Makes the file, beside the ring. `guest_base` is what QEMU adds to the program's addresses.
    pub(crate) fn create(guest_base: u64) -> io::Result<Self> {
        let directory = env::var_os(DIRECTORY_VARIABLE).ok_or(io::ErrorKind::NotFound)?;
        let (file, module) = begin(&directory, guest_base)?;
        Ok(Self {
            directory,
            file,
            module,
            segments: 0,
            mapped: Vec::new(),
            files: HashMap::new(),
            unwritten: Vec::new(),
            guest_base,
        })
    }

    /// The same for a forked child, whose new code is its own; what its parent had described it goes on running.
    pub(crate) fn fork(&mut self) -> io::Result<()> {
        (self.file, self.module) = begin(&self.directory, self.guest_base)?;
        self.segments = 0;
        self.files.clear();
        self.unwritten.clear();
        Ok(())
    }

    /// Describes what the instruction at `place` accesses in QEMU's process; the header of its records. None where there are too many.
    pub(crate) fn segment(&mut self, place: u64, kind: SiteKind, bytes: u32) -> Option<Header> {
        if self.segments as usize >= MAX_SEGMENTS {
            return None;
        }
        let (file, place) = match self.file_at(place) {
            Some((file, offset)) => (Some(file), offset),
            None => (None, place.wrapping_sub(self.guest_base)),
        };
        let code = SegmentCode { file, place, kind: kind as u8, is_atomic: kind == SiteKind::Update, bytes };
        self.unwritten.extend(code.bytes());
        let header = Header::new(self.module, self.segments);
        self.segments += 1;
        Some(header)
    }

    /// Writes what was described. Its code must not run before.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.unwritten);
        self.unwritten.clear();
        written
    }

    /// The file that is mapped there, and which byte of it.
    fn file_at(&mut self, place: u64) -> Option<(u32, u64)> {
        let holds = |mapped: &&Mapped| (mapped.start..mapped.end).contains(&place);
        if self.mapped.iter().find(holds).is_none() {
            self.mapped = mappings().unwrap_or_default();
        }
        let Mapped { start, offset, path, .. } = self.mapped.iter().find(holds)?.clone();
        let next = self.files.len() as u32;
        let file = match self.files.get(&path) {
            Some(known) => *known,
            None => {
                self.unwritten.extend(TAG_FILE.to_ne_bytes());
                self.unwritten.extend((path.len() as u32).to_ne_bytes());
                self.unwritten.extend(path.bytes());
                self.unwritten.resize(self.unwritten.len().next_multiple_of(8), 0);
                self.files.insert(path, next);
                object_loaded(place as usize);
                next
            }
        };
        Some((file, place - start + offset))
    }
}

/// A new file in the directory, with its head, and the module whose segments it describes.
fn begin(directory: &OsString, guest_base: u64) -> io::Result<(File, ModuleId)> {
    let pid = process::id();
    let mut number = 0_u32;
    let file = loop {
        let path = Path::new(directory).join(format!("{pid}-{number}.{FILE_EXTENSION}"));
        match OpenOptions::new().append(true).create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            opened => break opened?,
        }
    };
    // No two of a run are alike: a process's number comes back with another file.
    let module = ModuleId::from_hash(hash(u64::from(pid) << 32 | u64::from(number)));
    let head = CodeHead { pid, module: module.number(), guest_base };
    (&file).write_all(&head.bytes())?;
    Ok((file, module))
}

/// Spreads a number over all bits (the finalizer of MurmurHash3).
fn hash(mut number: u64) -> u64 {
    number = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    number = (number ^ number >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

/// All files that are mapped into QEMU's process.
fn mappings() -> io::Result<Vec<Mapped>> {
    let text = fs::read_to_string("/proc/self/maps")?;
    let mapping = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let offset = number(rest.split_whitespace().nth(1)?)?;
        let path = rest.find('/').map(|at| rest[at..].to_owned())?;
        Some(Mapped { start: number(start)?, end: number(end)?, offset, path })
    };
    Ok(text.lines().filter_map(mapping).collect())
}
