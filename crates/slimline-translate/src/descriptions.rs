//! The file that says what the segments of the process's records are.

use std::collections::HashMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process;

use slimline_trace::stream::record::{Header, MAX_SEGMENTS, ModuleId, SiteKind};
use slimline_trace::stream::ring::DIRECTORY_VARIABLE;
use slimline_trace::stream::translated::{
    CodeHead, Counter, FILE_EXTENSION, Position, SiteCode, TAG_FILE, TAG_FUNCTION,
};

use crate::access::object_loaded;
use crate::allocators::{Allocator, Allocators};
use crate::code_file::{CodeFile, count};
use crate::records::Planned;

/// A mapping of a file with code, by addresses in QEMU's process.
#[derive(Clone, Debug)]
struct Mapped {
    start: u64,
    end: u64,
    /// Which byte of the file is there.
    offset: u64,
    path: OsString,
    /// Its number, once it is described.
    file: Option<u32>,
}

impl Mapped {
    fn holds(&self, place: u64) -> bool {
        (self.start..self.end).contains(&place)
    }
}

/// What is described by now.
#[derive(Debug)]
pub(crate) struct Descriptions {
    directory: PathBuf,
    file: CodeFile,
    module: ModuleId,
    segments: u32,
    /// Those of the process when an address in none was asked for last.
    mapped: Vec<Mapped>,
    /// Files that are described, by path.
    files: HashMap<OsString, u32>,
    /// Functions that are, by name.
    functions: HashMap<&'static str, u32>,
    /// What is not written yet.
    unwritten: Vec<u8>,
    guest_base: u64,
    allocators: Allocators,
    /// Allocators of files, by path and by bytes of the file. Files are looked through once.
    found: HashMap<OsString, HashMap<u64, &'static Allocator>>,
    /// By where a call returns to in QEMU's process, the allocator and what it does.
    call_sites: HashMap<(u64, &'static str, SiteKind), Header>,
}

impl Descriptions {
    /// Makes the file, beside the ring. `guest_base` is what QEMU adds to the program's addresses.
    pub(crate) fn create(guest_base: u64) -> io::Result<Self> {
        let directory = PathBuf::from(env::var_os(DIRECTORY_VARIABLE).ok_or(io::ErrorKind::NotFound)?);
        let (file, module) = begin(&directory, guest_base)?;
        let allocators = Allocators::read(&directory)?;
        Ok(Self {
            directory,
            file,
            module,
            segments: 0,
            mapped: Vec::new(),
            files: HashMap::new(),
            functions: HashMap::new(),
            unwritten: Vec::new(),
            guest_base,
            allocators,
            found: HashMap::new(),
            call_sites: HashMap::new(),
        })
    }

    /// The same for a forked child, whose new code is its own; what its parent had described it goes on running.
    pub(crate) fn fork(&mut self) -> io::Result<()> {
        (self.file, self.module) = begin(&self.directory, self.guest_base)?;
        self.segments = 0;
        self.mapped.clear();
        self.files.clear();
        self.functions.clear();
        self.unwritten.clear();
        self.found.values().filter(|of_file| !of_file.is_empty()).for_each(|_| count(Counter::AllocatorFiles));
        Ok(())
    }

    /// Describes what the instruction at `place` accesses in QEMU's process, in the next segment of its record or in one that was begun;
    /// the segment's header. None where there are too many.
    pub(crate) fn site(&mut self, place: u64, planned: &Planned, joins: bool) -> Option<Header> {
        let position = match (planned.begins, joins) {
            (true, _) => Position::Begins,
            (false, true) => Position::Joins,
            (false, false) => Position::Continues,
        };
        self.describe(place, |file, place| SiteCode {
            file,
            place,
            kind: planned.kind as u8,
            is_stamped: planned.kind == SiteKind::Update,
            function: None,
            bytes: planned.bytes,
            position,
            relative: planned.relative,
            value: planned.value,
        })
    }

    /// Describes what a call does that returns to `place` in QEMU's process.
    pub(crate) fn call_site(&mut self, place: u64, allocator: &'static Allocator, kind: SiteKind) -> Option<Header> {
        let key = (place, allocator.name.as_str(), kind);
        if let Some(known) = self.call_sites.get(&key) {
            return Some(*known);
        }
        let next = self.functions.len() as u32;
        let function = match self.functions.get(key.1) {
            Some(known) => *known,
            None => {
                self.text(TAG_FUNCTION, key.1.as_bytes());
                self.functions.insert(key.1, next);
                next
            }
        };
        // What happens before a call is of the call, and what does after it of where it returns to.
        let is_before = matches!(kind, SiteKind::Free | SiteKind::ResizeBegins);
        let header = self.describe(place - u64::from(is_before), |file, place| SiteCode {
            file,
            place,
            kind: kind as u8,
            is_stamped: !is_before,
            function: Some(function),
            bytes: 0,
            position: Position::Begins,
            relative: None,
            value: None,
        })?;
        self.call_sites.insert(key, header);
        Some(header)
    }

    fn describe(&mut self, place: u64, code: impl FnOnce(Option<u32>, u64) -> SiteCode) -> Option<Header> {
        let code = match self.file_at(place) {
            Some((file, offset)) => code(Some(file), offset),
            None => code(None, place.wrapping_sub(self.guest_base)),
        };
        if code.position != Position::Joins {
            if self.segments as usize >= MAX_SEGMENTS {
                return None;
            }
            self.segments += 1;
        }
        self.unwritten.extend(code.bytes());
        Some(Header::new(self.module, self.segments - 1))
    }

    /// The allocator that begins at `place` in QEMU's process.
    pub(crate) fn allocator_at(&mut self, place: u64) -> Option<&'static Allocator> {
        let index = self.look_up(place)?;
        let Self { mapped, found, allocators, .. } = self;
        let Mapped { start, offset, path, .. } = &mapped[index];
        let at = place - start + offset;
        if let Some(of_file) = found.get(path) {
            return of_file.get(&at).copied();
        }
        let of_file = allocators.of_file(Path::new(path));
        if !of_file.is_empty() {
            count(Counter::AllocatorFiles);
        }
        found.entry(path.clone()).or_insert(of_file).get(&at).copied()
    }

    /// Writes what was described. Its code must not run before.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        let written = self.file.append(&self.unwritten);
        self.unwritten.clear();
        written
    }

    /// The mapping of a file that a place is in, by its index, if it is in any.
    fn look_up(&mut self, place: u64) -> Option<usize> {
        let find = |mapped: &[Mapped]| mapped.iter().position(|mapped| mapped.holds(place));
        find(&self.mapped).or_else(|| {
            self.mapped = mappings().unwrap_or_default();
            find(&self.mapped)
        })
    }

    /// The file that is mapped there, and which byte of it.
    pub(crate) fn file_at(&mut self, place: u64) -> Option<(u32, u64)> {
        let index = self.look_up(place)?;
        let Mapped { start, offset, file, .. } = self.mapped[index];
        let offset = place - start + offset;
        if let Some(file) = file {
            return Some((file, offset));
        }
        let path = self.mapped[index].path.clone();
        let next = self.files.len() as u32;
        let file = match self.files.get(&path) {
            Some(known) => *known,
            None => {
                self.text(TAG_FILE, path.as_bytes());
                self.files.insert(path, next);
                object_loaded(place as usize);
                next
            }
        };
        self.mapped[index].file = Some(file);
        Some((file, offset))
    }

    /// Describes what is told by a text.
    fn text(&mut self, tag: u32, text: &[u8]) {
        self.unwritten.extend(tag.to_ne_bytes());
        self.unwritten.extend((text.len() as u32).to_ne_bytes());
        self.unwritten.extend(text);
        self.unwritten.resize(self.unwritten.len().next_multiple_of(8), 0);
    }
}

/// A new file in the directory, with its head, and the module whose segments it describes.
fn begin(directory: &Path, guest_base: u64) -> io::Result<(CodeFile, ModuleId)> {
    let pid = process::id();
    let mut number = 0_u32;
    loop {
        // No two of a run are alike: a process's number comes back with another file.
        let module = ModuleId::from_hash(hash(u64::from(pid) << 32 | u64::from(number)));
        let head = CodeHead { pid, module: module.number(), guest_base };
        match CodeFile::create(&directory.join(format!("{pid}-{number}.{FILE_EXTENSION}")), &head) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return Ok((made?, module)),
        }
    }
}

/// Spreads a number over all bits (the finalizer of MurmurHash3).
fn hash(mut number: u64) -> u64 {
    number = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    number = (number ^ number >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

/// All files that are mapped into QEMU's process.
fn mappings() -> io::Result<Vec<Mapped>> {
    let text = fs::read("/proc/self/maps")?;
    let mapping = |line: &[u8]| {
        // Paths are any bytes.
        let path = line.iter().position(|&byte| byte == b'/')?;
        let (line, path) = line.split_at(path);
        let (range, rest) = str::from_utf8(line).ok()?.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let offset = number(rest.split_whitespace().nth(1)?)?;
        let path = with_line_breaks(path);
        Some(Mapped { start: number(start)?, end: number(end)?, offset, path, file: None })
    };
    Ok(text.split(|&byte| byte == b'\n').filter_map(mapping).collect())
}

/// A path as the file has it, of one in which the kernel wrote line breaks as `\012`. A file may also be called so.
fn with_line_breaks(path: &[u8]) -> OsString {
    const LINE_BREAK: &[u8] = br"\012";
    let told = OsStr::from_bytes(path);
    if !path.windows(LINE_BREAK.len()).any(|window| window == LINE_BREAK) || Path::new(told).exists() {
        return told.to_owned();
    }
    let mut made = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, behind @ ..] = rest {
        let is_one = rest.starts_with(LINE_BREAK);
        made.push(if is_one { b'\n' } else { *first });
        rest = if is_one { &rest[LINE_BREAK.len()..] } else { behind };
    }
    OsString::from_vec(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_of_paths_are_those_of_the_file() {
        let directory = env::temp_dir().join(format!("slimline-line-breaks-{}", process::id()));
        fs::create_dir(&directory).unwrap();
        let told = |name: &[u8]| [directory.as_os_str().as_bytes(), b"/", name].concat();
        assert_eq!(with_line_breaks(&told(br"a\012b")).as_bytes(), told(b"a\nb"));
        fs::write(Path::new(OsStr::from_bytes(&told(br"a\012b"))), "").unwrap();
        assert_eq!(with_line_breaks(&told(br"a\012b")).as_bytes(), told(br"a\012b"));
        assert_eq!(with_line_breaks(&told(b"caf\xe9")).as_bytes(), told(b"caf\xe9"));
        fs::remove_dir_all(&directory).unwrap();
    }
}
