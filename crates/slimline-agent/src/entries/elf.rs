//! Functions by name, from the symbol tables of an object's file or of its separate debug file. Nothing in a file is
//! trusted.
#![allow(unsafe_code)] // maps files

use core::ffi::CStr;
use core::fmt::Write;
use core::ptr::NonNull;
use core::slice;

use crate::kernel;
use crate::text::Path;

/// A file's content while it lives.
pub(super) struct File {
    start: NonNull<u8>,
    bytes: usize,
}

impl File {
    pub(super) fn open(path: &CStr) -> Option<Self> {
        let file = kernel::open(path, libc::O_RDONLY, 0).ok()?;
        let mapped = kernel::file_bytes(file).ok().filter(|&bytes| bytes > 0).and_then(|bytes| {
            let start = kernel::map_private(file, bytes).ok()?;
            Some(Self { start, bytes })
        });
        kernel::close(file);
        mapped
    }

    /// Its content from now on.
    pub(super) fn keep(self) -> &'static [u8] {
        let kept = core::mem::ManuallyDrop::new(self);
        // SAFETY: as below; never unmapped.
        unsafe { slice::from_raw_parts(kept.start.as_ptr(), kept.bytes) }
    }

    pub(super) fn content(&self) -> &[u8] {
        // SAFETY: mapped so long. A file that is cut short meanwhile ends the program, as it would one that is loaded
        // from it.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: mapped by `open`; nobody borrows it any more.
        unsafe { kernel::unmap(self.start.as_ptr(), self.bytes) };
    }
}

/// A function that a symbol names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol<'a> {
    pub(super) name: &'a [u8],
    pub(super) address: u64,
    pub(super) bytes: u64,
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(data.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(data.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const SYMBOL_TABLE: u32 = 2;
const NOTES: u32 = 7;
const DYNAMIC_SYMBOLS: u32 = 11;
/// Sections of no content, as in a debug file.
const NO_BITS: u32 = 8;

#[derive(Clone, Copy)]
struct Section<'a> {
    kind: u32,
    link: u32,
    content: &'a [u8],
}

/// A file's sections. 64-bit and little-endian: all that can be loaded where we are.
#[derive(Clone, Copy)]
pub(super) struct Elf<'a> {
    data: &'a [u8],
    table: &'a [u8],
}

impl<'a> Elf<'a> {
    pub(super) fn of(file: &'a File) -> Option<Self> {
        let data = file.content();
        let count = usize::from(u16_at(data, 60)?);
        let is_known = data.starts_with(b"\x7fELF\x02\x01") && usize::from(u16_at(data, 58)?) == SECTION_BYTES;
        let start = usize::try_from(u64_at(data, 40)?).ok().filter(|_| is_known)?;
        let table = data.get(start..start.checked_add(count * SECTION_BYTES)?)?;
        Some(Self { data, table })
    }

    fn section(&self, number: usize) -> Option<Section<'a>> {
        let header = self.table.chunks_exact(SECTION_BYTES).nth(number)?;
        let (start, bytes) = (usize::try_from(u64_at(header, 24)?).ok()?, usize::try_from(u64_at(header, 32)?).ok()?);
        let kind = u32_at(header, 4)?;
        let content = if kind == NO_BITS { &[] } else { self.data.get(start..start.checked_add(bytes)?)? };
        Some(Section { kind, link: u32_at(header, 40)?, content })
    }

    fn sections(self) -> impl Iterator<Item = Section<'a>> {
        (0..self.table.len() / SECTION_BYTES).filter_map(move |number| self.section(number))
    }

    /// Whether it has symbols of functions that it does not export.
    pub(super) fn has_symbol_table(self) -> bool {
        self.sections().any(|section| section.kind == SYMBOL_TABLE)
    }

    /// Calls `visit` for each function that is defined here.
    pub(super) fn each_function(self, visit: &mut dyn FnMut(Symbol<'a>)) {
        for section in self.sections().filter(|section| matches!(section.kind, SYMBOL_TABLE | DYNAMIC_SYMBOLS)) {
            let Some(names) = self.section(section.link as usize) else { continue };
            for symbol in section.content.chunks_exact(SYMBOL_BYTES) {
                if let Some(symbol) = function(symbol, names.content) {
                    visit(symbol);
                }
            }
        }
    }

    /// Where its separate debug file is, if there is one.
    pub(super) fn debug_path(self) -> Option<Path> {
        let notes = self.sections().filter(|section| section.kind == NOTES);
        let id = notes.into_iter().find_map(|section| build_id(section.content))?;
        let (first, rest) = id.split_first()?;
        let mut path = Path::new();
        write!(path, "/usr/lib/debug/.build-id/{first:02x}/").ok()?;
        rest.iter().try_for_each(|byte| write!(path, "{byte:02x}")).ok()?;
        path.write_str(".debug").ok()?;
        Some(path)
    }
}

fn function<'a>(symbol: &'a [u8], names: &'a [u8]) -> Option<Symbol<'a>> {
    const FUNCTION: u8 = 2;
    let (kind, section) = (*symbol.get(4)? & 0xf, u16_at(symbol, 6)?);
    if kind != FUNCTION || section == 0 {
        return None;
    }
    let name = names.get(u32_at(symbol, 0)? as usize..)?;
    let length = name.iter().position(|&byte| byte == 0)?;
    Some(Symbol { name: &name[..length], address: u64_at(symbol, 8)?, bytes: u64_at(symbol, 16)? })
}

fn build_id(mut notes: &[u8]) -> Option<&[u8]> {
    const BUILD_ID: u32 = 3;
    loop {
        let (name_bytes, bytes) = (u32_at(notes, 0)? as usize, u32_at(notes, 4)? as usize);
        let content = 12_usize.checked_add(name_bytes.checked_next_multiple_of(4)?)?;
        let end = content.checked_add(bytes)?;
        if u32_at(notes, 8)? == BUILD_ID && notes.get(12..)?.starts_with(b"GNU\0") {
            return notes.get(content..end);
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
}
