//! Code of a process that runs on: read from the files that it has mapped, never from the process.
//!
//! Code that is in no file, or in one that was changed since, is not known. Where the bytes of a page could have been changed
//! after they were mapped (writable mappings, data that was relocated) they are not known either: so of a process' memory
//! this knows its executable mappings of files, and nothing else.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};

use slimline_emulate::Memory;
use slimline_trace::path_text::path_of;
use slimline_trace::regular_file::open_regular;
use slimline_trace::tables::Mapping;

use crate::live_mappings::{CodePlace, LiveMappings};

/// Pages are read and kept in this size.
const PAGE_BYTES: u64 = 4096;
/// Pages kept: 32 MiB. Beyond, all are forgotten and read anew.
const MOST_PAGES: usize = 8 << 10;
/// Files held open. Beyond, all are closed, and opened anew where they are asked for and still there.
const MOST_OPEN: usize = 256;
/// Addresses of user space end here.
const USER_END: u64 = 1 << 47;

type Page = Box<[u8; PAGE_BYTES as usize]>;

/// Files that processes have mapped as code, and the pages of them that were needed.
#[derive(Debug, Default)]
pub(crate) struct CodeFiles {
    files: HashMap<FileKey, Option<u32>>,
    open: HashMap<u32, File>,
    /// Files opened so far, the number of the next.
    opened: u32,
    /// By file and number of the page; `None` where it can't be read.
    pages: HashMap<(u32, u64), Option<Page>>,
}

/// The files behind a process' mappings, by the mapping's number, as far as they were asked for.
pub(crate) type KnownFiles = HashMap<usize, Option<u32>>;

/// What tells mapped files apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FileKey {
    device: String,
    inode: u64,
    path: String,
}

/// The process that code is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// Seconds since 1970 by which its files were mapped.
    pub(crate) mapped_by_s: i64,
}

impl CodeFiles {
    /// The code of a process, as it is mapped now. `known` remembers the files behind its mappings.
    pub(crate) fn of<'a>(
        &'a mut self,
        owner: Owner,
        mappings: &'a LiveMappings,
        known: &'a mut KnownFiles,
    ) -> CodeMemory<'a> {
        if self.pages.len() >= MOST_PAGES {
            self.pages.clear();
        }
        CodeMemory { files: self, owner, mappings, known }
    }

    fn file_of(&mut self, mapping: &Mapping, owner: Owner) -> Option<u32> {
        let key = FileKey { device: mapping.device.clone(), inode: mapping.inode, path: mapping.path.clone() };
        if let Some(&known) = self.files.get(&key) {
            return known;
        }
        if self.open.len() >= MOST_OPEN {
            self.open.clear();
            self.files.clear();
            self.pages.clear();
        }
        let number = open(mapping, owner).map(|file| {
            self.opened += 1;
            self.open.insert(self.opened, file);
            self.opened
        });
        self.files.insert(key, number);
        number
    }

    fn page(&mut self, file: u32, number: u64) -> Option<&Page> {
        let open = self.open.get(&file)?;
        let read = || {
            let mut page: Page = Box::new([0; PAGE_BYTES as usize]);
            let mut filled = 0;
            while filled < page.len() {
                match open.read_at(&mut page[filled..], number * PAGE_BYTES + filled as u64) {
                    // Beyond its end a page of a file is zeros.
                    Ok(0) => break,
                    Ok(bytes) => filled += bytes,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => return None,
                }
            }
            (filled > 0).then_some(page)
        };
        self.pages.entry((file, number)).or_insert_with(read).as_ref()
    }
}

/// The file behind a mapping: the same inode, in the process' own view of the file system or in ours; or, where a file
/// system shows other numbers there than to those who ask it, one that was not changed since.
fn open(mapping: &Mapping, owner: Owner) -> Option<File> {
    let of_process = format!("/proc/{}/root{}", owner.pid, mapping.path);
    let files: Vec<(File, Metadata)> = [of_process.as_str(), mapping.path.as_str()]
        .into_iter()
        .filter_map(|path| open_regular(&path_of(path)).ok())
        .filter_map(|file| file.metadata().ok().map(|found| (file, found)))
        .collect();
    let same = files.iter().position(|(_, found)| found.ino() == mapping.inode);
    let place = same.or_else(|| files.iter().position(|(_, found)| found.ctime() < owner.mapped_by_s))?;
    files.into_iter().nth(place).map(|(file, _)| file)
}

/// What is known of a process' memory.
#[derive(Debug)]
pub(crate) struct CodeMemory<'a> {
    files: &'a mut CodeFiles,
    owner: Owner,
    mappings: &'a LiveMappings,
    known: &'a mut KnownFiles,
}

impl CodeMemory<'_> {
    /// See [`LiveMappings::is_agent`].
    pub(crate) fn is_agent(&self, address: u64) -> bool {
        self.mappings.is_agent(address)
    }

    /// Whether two addresses lie on one page.
    pub(crate) const fn are_neighbours(one: u64, other: u64) -> bool {
        one / PAGE_BYTES == other / PAGE_BYTES
    }

    /// The code of `start..end` around `ip`, as far as it is known without a gap, and where it begins. Empty where that of
    /// `ip` is not.
    pub(crate) fn around(&mut self, ip: u64, start: u64, end: u64) -> (u64, Vec<u8>) {
        let mut from = ip & !(PAGE_BYTES - 1);
        if self.copy_page(from, &mut |_| ()).is_none() {
            return (ip, Vec::new());
        }
        while from > start && self.copy_page(from - PAGE_BYTES, &mut |_| ()).is_some() {
            from -= PAGE_BYTES;
        }
        let mut bytes = Vec::new();
        let mut page = from;
        while page < end && self.copy_page(page, &mut |code| bytes.extend_from_slice(code)).is_some() {
            page += PAGE_BYTES;
        }
        let cut = start.saturating_sub(from) as usize;
        bytes.truncate(end.saturating_sub(from) as usize);
        bytes.drain(..cut.min(bytes.len()));
        (from.max(start), bytes)
    }

    /// Shows the page of code at an address that begins one to `take`; `None` where there is none.
    fn copy_page(&mut self, page: u64, take: &mut impl FnMut(&[u8])) -> Option<()> {
        let (file, number) = self.locate(page)?;
        take(&self.files.page(file, number)?[..]);
        Some(())
    }

    /// The file and the page of it behind an address of code.
    fn locate(&mut self, address: u64) -> Option<(u32, u64)> {
        let CodePlace { number, mapping, offset } = self.mappings.code_at(address)?;
        let is_there = |file: &Option<u32>| file.is_none_or(|file| self.files.open.contains_key(&file));
        let file = match self.known.get(&number).copied().filter(is_there) {
            Some(known) => known,
            None => {
                let found = self.files.file_of(mapping, self.owner);
                self.known.insert(number, found);
                found
            }
        };
        Some((file?, offset / PAGE_BYTES))
    }

    fn copy(&mut self, address: u64, into: &mut [u8]) -> Option<()> {
        let offset = (address % PAGE_BYTES) as usize;
        let first = into.len().min(PAGE_BYTES as usize - offset);
        let (here, beyond) = into.split_at_mut(first);
        let (file, number) = self.locate(address)?;
        here.copy_from_slice(&self.files.page(file, number)?[offset..offset + first]);
        if !beyond.is_empty() {
            let (file, number) = self.locate(address.checked_add(first as u64)?)?;
            beyond.copy_from_slice(&self.files.page(file, number)?[..beyond.len()]);
        }
        Some(())
    }
}

impl Memory for CodeMemory<'_> {
    fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        if self.copy(address, into).is_none() {
            into.fill(0);
        }
        // Which data there is, is not known; the program would end where there is none.
        (PAGE_BYTES..USER_END).contains(&address)
    }

    fn knows(&mut self, address: u64, bytes: usize) -> bool {
        let mut probe = [0; 64];
        probe.get_mut(..bytes).is_some_and(|probe| self.copy(address, probe).is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use slimline_trace::address::{Avma, FileOffset};

    use super::*;

    const OWN: Owner = Owner { pid: u32::MAX, mapped_by_s: 0 };

    fn mapping(start: u64, bytes: u64, offset: u64, permissions: &str, path: &str, inode: u64) -> Mapping {
        Mapping {
            start: Avma(start),
            end: Avma(start + bytes),
            file_offset: FileOffset(offset),
            permissions: permissions.to_owned(),
            device: "00:01".to_owned(),
            inode,
            path: path.to_owned(),
            first_seen_ns: 1,
            last_seen_ns: 1,
        }
    }

    /// Two pages and a bit, each byte the number of its page.
    fn file() -> (tempfile::NamedTempFile, String, u64) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let content: Vec<u8> = (0..9000_u32).map(|at| (at / 4096) as u8).collect();
        fs::write(file.path(), content).unwrap();
        let (path, inode) = (file.path().to_str().unwrap().to_owned(), fs::metadata(file.path()).unwrap().ino());
        (file, path, inode)
    }

    #[test]
    fn code_is_known_and_data_is_not() {
        let (_file, path, inode) = file();
        let mut mappings = LiveMappings::default();
        mappings.map(mapping(0x40_0000, 0x2000, 0x1000, "r-xp", &path, inode));
        mappings.map(mapping(0x50_0000, 0x1000, 0, "rw-p", &path, inode));
        mappings.map(mapping(0x60_0000, 0x1000, 0, "r-xp", "", 0));
        let mut files = CodeFiles::default();
        let mut known = KnownFiles::new();
        let mut memory = files.of(OWN, &mappings, &mut known);
        let mut into = [9; 4];
        assert!(memory.read(0x40_0ffe, &mut into) && memory.knows(0x40_0ffe, 4));
        assert_eq!(into, [1, 1, 2, 2]);
        for hidden in [0x50_0000, 0x60_0000, 0x70_0000, 0x40_1ffe] {
            assert!(memory.read(hidden, &mut into) && !memory.knows(hidden, 4), "{hidden:#x}");
            assert_eq!(into, [0; 4]);
        }
        assert!(!memory.read(8, &mut into) && !memory.read(USER_END, &mut into));
        let (start, code) = memory.around(0x40_0010, 0x3f_fff0, 0x40_1010);
        assert_eq!((start, code.len(), code[0xfff], code[0x1000]), (0x40_0000, 0x1010, 1, 2));
        assert!(memory.around(0x60_0010, 0x60_0000, 0x60_0020).1.is_empty());
    }

    #[test]
    fn no_more_files_are_held_open_than_a_process_may() {
        const FILES: usize = MOST_OPEN + 44;
        let scratch = tempfile::tempdir().unwrap();
        let mut mappings = LiveMappings::default();
        for number in 0..FILES {
            let path = scratch.path().join(number.to_string());
            fs::write(&path, [number as u8; 4096]).unwrap();
            let inode = fs::metadata(&path).unwrap().ino();
            mappings.map(mapping(number as u64 * 0x1000, 0x1000, 0, "r-xp", path.to_str().unwrap(), inode));
        }
        let (mut files, mut known) = (CodeFiles::default(), KnownFiles::new());
        // Those of the first round were closed when the second one asks for them.
        for number in (0..FILES).chain(0..FILES) {
            let mut into = [0; 4];
            let address = number as u64 * 0x1000 + 8;
            assert!(files.of(OWN, &mappings, &mut known).knows(address, 4));
            files.of(OWN, &mappings, &mut known).copy(address, &mut into).unwrap();
            assert_eq!(into, [number as u8; 4]);
            assert!(files.open.len() <= MOST_OPEN);
        }
    }

    #[test]
    fn another_file_in_the_place_of_the_mapped_one_is_not_its_code() {
        let (_file, path, inode) = file();
        let mut mappings = LiveMappings::default();
        mappings.map(mapping(0x40_0000, 0x1000, 0, "r-xp", &path, inode + 1));
        let mut files = CodeFiles::default();
        assert!(!files.of(OWN, &mappings, &mut KnownFiles::new()).knows(0x40_0000, 4), "changed after it was mapped");
        // Of a file system that shows other numbers, what has not changed since.
        let mut files = CodeFiles::default();
        assert!(
            files.of(Owner { mapped_by_s: i64::MAX, ..OWN }, &mappings, &mut KnownFiles::new()).knows(0x40_0000, 4)
        );
    }
}
