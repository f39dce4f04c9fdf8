//! Functions that give out and take back memory, and where files have them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use object::read::ReadCache;
use object::{Object, ObjectSegment, ObjectSymbol};
use slimline_trace::wire::{ALLOCATORS_FILE, AllocatorFunction, AllocatorRole};

/// A function of an allocator. Arguments are counted from 1; 0 is none.
#[derive(Debug)]
pub struct Allocator {
    /// As linked.
    pub name: String,
    /// How the path of its file ends; empty for any.
    module: String,
    /// What a call of it does.
    pub does: Does,
    /// The argument that is the block to free or to resize.
    pub block: u8,
    size: u8,
    count: u8,
    /// The argument that says where the new block is stored; else it is returned.
    pub place: u8,
    unit_bytes: u32,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Makes a block.
    Allocates,
    /// Makes a block larger or smaller.
    Resizes,
    /// Takes a block back.
    Frees,
}

impl Allocator {
    /// As [`AllocatorFunction::bytes`] has it; none of what frees whole pools, which nobody here can tell, or is damaged.
    fn read(bytes: &[u8]) -> Option<Self> {
        let text = |at: usize, length: usize| {
            let text = bytes.get(at..at + length)?.split(|&byte| byte == 0).next()?;
            Some(String::from_utf8_lossy(text).into_owned())
        };
        let u32_at = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let u8_at = |at: usize| bytes.get(at).copied();
        let role = u32_at(offset_of!(AllocatorFunction, role))?;
        let roles = [
            (AllocatorRole::Allocate, Does::Allocates),
            (AllocatorRole::Resize, Does::Resizes),
            (AllocatorRole::Free, Does::Frees),
        ];
        Some(Self {
            name: text(offset_of!(AllocatorFunction, name), 496)?,
            module: text(offset_of!(AllocatorFunction, module), 240)?,
            does: roles.into_iter().find(|(known, _)| *known as u32 == role)?.1,
            block: u8_at(offset_of!(AllocatorFunction, block))?,
            size: u8_at(offset_of!(AllocatorFunction, size))?,
            count: u8_at(offset_of!(AllocatorFunction, count))?,
            place: u8_at(offset_of!(AllocatorFunction, place))?,
            unit_bytes: u32_at(offset_of!(AllocatorFunction, unit_bytes))?,
        })
    }

    /// The bytes that are asked for; `argument` tells arguments.
    pub fn bytes(&self, argument: impl Fn(u8) -> u64) -> u64 {
        let of = |number: u8| if number == 0 { 1 } else { argument(number) };
        of(self.size).saturating_mul(of(self.count)).saturating_mul(self.unit_bytes.into())
    }
}

/// All allocators that are looked for. They live as long as the process: its code refers to them.
#[derive(Debug, Default)]
pub struct Allocators(&'static [Allocator]);

impl Allocators {
    /// Those that slimline has put into the directory.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn read(directory: &Path) -> io::Result<Self> {
        let content = fs::read(directory.join(ALLOCATORS_FILE))?;
        let all: Vec<Allocator> =
            content.chunks_exact(size_of::<AllocatorFunction>()).filter_map(Allocator::read).collect();
        Ok(Self(all.leak()))
    }

    /// Where a file has them, by bytes of it; none of what is no ELF file, or has no symbols.
    pub fn of_file(&self, path: &Path) -> HashMap<u64, &'static Allocator> {
        let Ok(file) = File::open(path) else { return HashMap::new() };
        let cache = ReadCache::new(file);
        let Ok(file) = object::File::parse(&cache) else { return HashMap::new() };
        let wanted: HashMap<&str, &'static Allocator> = self
            .0
            .iter()
            .filter(|of| path.as_os_str().as_bytes().ends_with(of.module.as_bytes()))
            .map(|of| (of.name.as_str(), of))
            .collect();
        let offset_of = |address: u64| {
            file.segments().find_map(|segment| {
                let (offset, bytes) = segment.file_range();
                let within = address.checked_sub(segment.address()).filter(|within| *within < bytes)?;
                Some(offset + within)
            })
        };
        let symbols = file.symbols().chain(file.dynamic_symbols()).filter(|symbol| symbol.is_definition());
        symbols.filter_map(|symbol| Some((offset_of(symbol.address())?, *wanted.get(symbol.name().ok()?)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, role: AllocatorRole, arguments: [u8; 4], unit_bytes: u32) -> Option<Allocator> {
        let mut record = AllocatorFunction {
            name: [0; 496],
            module: [0; 240],
            role: role as u32,
            is_inner: 0,
            needs_own_malloc: 0,
            size: arguments[0],
            count: arguments[1],
            block: arguments[2],
            place: arguments[3],
            pool: 0,
            reserved: [0; 3],
            unit_bytes,
            padding: [0; 2],
        };
        record.name[..name.len()].copy_from_slice(name.as_bytes());
        Allocator::read(&record.bytes())
    }

    #[test]
    fn sizes_are_products() {
        let arguments = |number: u8| [7, 10, 100][usize::from(number) - 1];
        let bytes = |of: [u8; 4], unit| function("f", AllocatorRole::Allocate, of, unit).unwrap().bytes(arguments);
        assert_eq!(bytes([1, 0, 0, 0], 1), 7);
        assert_eq!(bytes([2, 3, 0, 0], 8), 8000);
        assert_eq!(bytes([0, 0, 0, 0], 48), 48);
        let huge = |_| u64::MAX;
        assert_eq!(function("f", AllocatorRole::Resize, [1, 2, 0, 0], 1).unwrap().bytes(huge), u64::MAX);
    }

    #[test]
    fn what_frees_pools_is_left_out() {
        assert!(function("reset", AllocatorRole::Reset, [0; 4], 1).is_none());
        assert_eq!(function("free", AllocatorRole::Free, [0, 0, 1, 0], 1).unwrap().does, Does::Frees);
        assert!(Allocator::read(&[0; 8]).is_none());
    }

    #[test]
    fn the_c_librarys_are_found() {
        let known = function("malloc", AllocatorRole::Allocate, [1, 0, 0, 0], 1).unwrap();
        let allocators = Allocators(vec![known].leak());
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let library =
            maps.lines().find_map(|line| line.find('/').map(|at| &line[at..]).filter(|it| it.contains("libc.so")));
        let found = allocators.of_file(Path::new(library.unwrap()));
        assert_eq!(found.values().map(|of| of.name.as_str()).collect::<Vec<_>>(), ["malloc"]);
        assert!(allocators.of_file(Path::new("/proc/self/maps")).is_empty());
    }
}
