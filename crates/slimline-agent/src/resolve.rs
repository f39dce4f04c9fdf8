//! Looks functions up by name in the loaded objects, where `dlsym` could not be called.
//!
//! `dlsym` takes the dynamic linker's lock and may allocate. The functions that need a look-up are called by constructors
//! that run before ours, by allocators that hold their own lock, in signal handlers and in forked children, where either
//! would wait for ever. So the tables are read here, which takes no lock, allocates nothing and changes nothing: those
//! that the dynamic linker itself reads whenever it binds a symbol.
//!
//! Looked through are the objects that were loaded when the first look-up was made, in the order in which the linker
//! looks through them. Versions count as they do there ([`find`]). Objects that are loaded later may be unloaded at any
//! time: none of these is looked for.
#![allow(unsafe_code)] // reads the dynamic linker's tables

use core::ffi::{CStr, c_char};
use core::ptr::null;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use crate::kernel;

/// `struct link_map` of `<link.h>`: an object in the linker's list.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct LinkMap {
    /// Load bias.
    bias: u64,
    name: *const c_char,
    dynamic: *const Dynamic,
    next: *const LinkMap,
    previous: *const LinkMap,
}

/// `Elf64_Dyn`.
#[derive(Debug)]
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

/// `struct r_debug` of `<link.h>`, as far as it is needed.
#[repr(C)]
struct Debug {
    version: i32,
    objects: *const LinkMap,
}

unsafe extern "C" {
    /// Our own dynamic section.
    #[link_name = "_DYNAMIC"]
    static OWN_DYNAMIC: [Dynamic; 1];
}

/// Address of a symbol that not every C library has; null if this one lacks it. A library with a reference that nothing
/// satisfies would not be loaded, and the program not be started.
macro_rules! weak {
    ($name:literal) => {{
        let address: *const ();
        // SAFETY: a load from the table that the linker fills in when it loads us.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                out(reg) address,
                options(nostack, readonly, preserves_flags, pure)
            );
        }
        address
    }};
}
pub(crate) use weak;

/// The first object of the linker's list; null as long as the linker has not shown it.
///
/// Glibc has a symbol for that, and so has musl. Any linker notes it in the program's dynamic section; but the kernel knows the
/// loader's headers for the program's where somebody has started the program through its loader.
fn first_object() -> *const LinkMap {
    let (of_glibc, of_musl) = (weak!("_r_debug").cast::<Debug>(), weak!("_dl_debug_addr").cast::<*const Debug>());
    // SAFETY: null, or the pointer of that name, which is set before the linker binds our symbols.
    let of_musl = unsafe { of_musl.as_ref() };
    let debug = if of_glibc.is_null() { of_musl.copied().unwrap_or_else(debug_of_program) } else { of_glibc };
    // SAFETY: null, or the linker's own, which lives as long as the process.
    unsafe { debug.as_ref() }.map_or(null(), |debug| debug.objects)
}

/// Whether there are objects to look through. Until the linker shows them, nothing is found that is there.
pub(crate) fn has_objects() -> bool {
    !first_object().is_null()
}

/// See elf(5), `DT_DEBUG`. Null where the program has none.
fn debug_of_program() -> *const Debug {
    const DT_DEBUG: i64 = 21;
    // SAFETY: the kernel's vector says where the program's headers are and how many; they are mapped with it.
    let headers = unsafe {
        let start: *const libc::Elf64_Phdr =
            core::ptr::with_exposed_provenance(libc::getauxval(libc::AT_PHDR) as usize);
        if start.is_null() {
            return null();
        }
        core::slice::from_raw_parts(start, libc::getauxval(libc::AT_PHNUM) as usize)
    };
    let of_kind = |kind| headers.iter().find(|header| header.p_type == kind);
    let (Some(itself), Some(dynamic)) = (of_kind(libc::PT_PHDR), of_kind(libc::PT_DYNAMIC)) else { return null() };
    let bias = (headers.as_ptr().addr() as u64).wrapping_sub(itself.p_vaddr);
    let section = core::ptr::with_exposed_provenance(bias.wrapping_add(dynamic.p_vaddr) as usize);
    // SAFETY: the program's own section.
    let noted = unsafe { entries(section) }.find(|entry| entry.tag == DT_DEBUG);
    noted.map_or(null(), |entry| core::ptr::with_exposed_provenance(entry.value as usize))
}

/// The entries of a dynamic section, without the last one.
///
/// # Safety
/// It must be null or a section that ends with an entry of tag 0, as it is used.
unsafe fn entries<'a>(section: *const Dynamic) -> impl Iterator<Item = &'a Dynamic> {
    // SAFETY: promised by the caller.
    let at = |entry: *const Dynamic| unsafe { entry.as_ref() }.filter(|entry| entry.tag != 0);
    // SAFETY: it was not the last.
    core::iter::successors(at(section), move |entry| at(unsafe { core::ptr::from_ref(*entry).add(1) }))
}

/// The last object that is looked through; null before the first look-up.
static LAST: AtomicPtr<LinkMap> = AtomicPtr::new(core::ptr::null_mut());

/// The objects that were loaded when the process started, in the linker's order.
fn objects() -> impl Iterator<Item = &'static LinkMap> + Clone {
    // SAFETY: the linker's own, filled in before any code runs but its own. Objects up to the last are never unloaded.
    let each = |at: *const LinkMap| core::iter::successors(unsafe { at.as_ref() }, |map| unsafe { map.next.as_ref() });
    let first = first_object();
    if LAST.load(Relaxed).is_null()
        && let Some(last) = each(first).last()
    {
        // Of two threads that come here first either knows a true answer.
        LAST.store(core::ptr::from_ref(last).cast_mut(), Relaxed);
    }
    let last = LAST.load(Relaxed).cast_const();
    let mut is_over = false;
    each(first).take_while(move |map| !core::mem::replace(&mut is_over, core::ptr::eq(*map, last)))
}

/// A function that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) address: *const (),
    pub(crate) object: Object,
}

/// The object that defines it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object(&'static LinkMap);

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Object {
    /// Whether it is the object that this code is in.
    pub(crate) fn is_ours(self) -> bool {
        self.0.dynamic == own_dynamic()
    }

    /// The last part of its path; empty for the program.
    pub(crate) fn file_name(self) -> &'static [u8] {
        // SAFETY: the linker's string, which lives as long as the object.
        let path = unsafe { self.0.name.as_ref().map_or(&[][..], |name| CStr::from_ptr(name).to_bytes()) };
        path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
    }
}

fn own_dynamic() -> *const Dynamic {
    (&raw const OWN_DYNAMIC).cast()
}

/// The function that a call of `name` would reach without us.
pub(crate) fn next(name: &CStr) -> Option<Found> {
    find(objects().skip_while(|map| map.dynamic != own_dynamic()).skip(1), name)
}

/// The function that a call of `name` reaches.
pub(crate) fn first(name: &CStr) -> Option<Found> {
    find(objects(), name)
}

/// The function that a reference to `name` is bound to, where it is looked for in these objects.
///
/// A reference asks for a version: the one that was the default when its object was linked. The linker binds it to the first
/// object that has that version, even hidden ones (those that no new program is to be linked with: `libc_malloc_debug.so.0`
/// has but these), or that has no versions (most allocators). Taken for the version asked for is the first default that there is.
fn find(objects: impl Iterator<Item = &'static LinkMap> + Clone, name: &CStr) -> Option<Found> {
    let name = name.to_bytes();
    let mut tables = objects.filter_map(|map| Some((map, Tables::of(map)?)));
    let version = tables.clone().find_map(|(_, tables)| tables.version(tables.symbol(name, None)?));
    tables.find_map(|(map, tables)| {
        let address = tables.function(name, version)?;
        Some(Found { address, object: Object(map) })
    })
}

/// Hides our definitions of these names from the dynamic linker. Existing bindings stay.
///
/// Through `/proc/self/mem`: our symbols may lie on a page that is not writable, or that has code as well.
pub(crate) fn withhold<'n>(names: impl Iterator<Item = &'n CStr>) {
    let Some(tables) = objects().find(|map| map.dynamic == own_dynamic()).and_then(Tables::of) else { return };
    let mut names = names.filter_map(|name| tables.symbol(name.to_bytes(), None)).peekable();
    if names.peek().is_none() {
        return;
    }
    let Ok(memory) = kernel::open(c"/proc/self/mem", libc::O_RDWR, 0) else { return };
    for number in names {
        let symbol = tables.symbols.wrapping_add(number as usize);
        // The section that defines it, and its value, which follows. (A symbol that has no section is not defined.)
        const BEGIN: usize = core::mem::offset_of!(libc::Elf64_Sym, st_shndx);
        const END: usize = core::mem::offset_of!(libc::Elf64_Sym, st_value) + size_of::<libc::Elf64_Addr>();
        // SAFETY: an entry of our own table. The linker sees a definition or none.
        let _ = unsafe { kernel::write_at(memory, &[0; END - BEGIN], (symbol.addr() + BEGIN) as u64) };
    }
    kernel::close(memory);
}

/// An object's symbols and the index into them.
struct Tables {
    bias: u64,
    symbols: *const libc::Elf64_Sym,
    names: *const c_char,
    /// `DT_GNU_HASH`, else `DT_HASH`.
    gnu_hash: *const u32,
    hash: *const u32,
    /// `DT_VERSYM`: each symbol's version; null without versions.
    versions: *const u16,
    /// `DT_VERDEF`: the versions that the object has.
    defined: *const VersionDefinition,
}

/// `Elf64_Verdef`.
#[repr(C)]
struct VersionDefinition {
    revision: u16,
    flags: u16,
    /// As in `DT_VERSYM`.
    index: u16,
    names: u16,
    hash: u32,
    /// How far from here the offset of the version's name stands.
    to_name: u32,
    /// How far from here the next one is; 0 for the last.
    to_next: u32,
}

impl Tables {
    /// None for an object without symbols.
    fn of(map: &LinkMap) -> Option<Self> {
        const SYMBOLS: i64 = 6;
        const NAMES: i64 = 5;
        const HASH: i64 = 4;
        const GNU_HASH: i64 = 0x6fff_fef5;
        const VERSIONS: i64 = 0x6fff_fff0;
        const DEFINED: i64 = 0x6fff_fffc;
        let (mut symbols, mut names, mut hash, mut gnu_hash, mut versions, mut defined) = (0, 0, 0, 0, 0, 0);
        // SAFETY: it is mapped as long as the object is.
        for &Dynamic { tag, value } in unsafe { entries(map.dynamic) } {
            match tag {
                SYMBOLS => symbols = value,
                NAMES => names = value,
                HASH => hash = value,
                GNU_HASH => gnu_hash = value,
                VERSIONS => versions = value,
                DEFINED => defined = value,
                _ => {}
            }
        }
        // Glibc adds the bias to most entries, but not to `DT_VERDEF`. Musl and the kernel's own object add it to none.
        let place = |value: u64| match value {
            0 => 0,
            value if value < map.bias => value + map.bias,
            value => value,
        } as usize;
        (symbols != 0 && names != 0 && (hash != 0 || gnu_hash != 0)).then(|| Self {
            bias: map.bias,
            symbols: core::ptr::with_exposed_provenance(place(symbols)),
            names: core::ptr::with_exposed_provenance(place(names)),
            gnu_hash: core::ptr::with_exposed_provenance(place(gnu_hash)),
            hash: core::ptr::with_exposed_provenance(place(hash)),
            versions: core::ptr::with_exposed_provenance(place(versions)),
            defined: core::ptr::with_exposed_provenance(place(defined)),
        })
    }

    /// Address of the function with that name, as the object defines it for references to that version.
    fn function(&self, name: &[u8], version: Option<&[u8]>) -> Option<*const ()> {
        let number = self.symbol(name, version)?;
        // SAFETY: a number that the index has.
        let symbol = unsafe { self.symbols.add(number as usize).read() };
        let address = core::ptr::with_exposed_provenance::<()>(self.bias.wrapping_add(symbol.st_value) as usize);
        if symbol.st_info & 0xf != STT_GNU_IFUNC {
            return Some(address);
        }
        // SAFETY: what a symbol of this kind leads to is a function that chooses one; it takes nothing on this architecture.
        let choose = unsafe { core::mem::transmute::<*const (), unsafe extern "C" fn() -> *const ()>(address) };
        // SAFETY: as above.
        Some(unsafe { choose() })
    }

    /// The symbol that a reference to that version is bound to; without a version: the default.
    fn symbol(&self, name: &[u8], version: Option<&[u8]>) -> Option<u32> {
        if self.gnu_hash.is_null() { self.by_hash(name, version) } else { self.by_gnu_hash(name, version) }
    }

    /// Whether that symbol is a definition of `name` for references to that version.
    fn is(&self, number: u32, name: &[u8], version: Option<&[u8]>) -> bool {
        const STT_TLS: u8 = 6;
        // SAFETY: a number that the index has; names are NUL-terminated.
        let is_definition = unsafe {
            let symbol = &*self.symbols.add(number as usize);
            symbol.st_shndx != 0
                && symbol.st_info & 0xf != STT_TLS
                && symbol.st_info >> 4 != STB_LOCAL
                && CStr::from_ptr(self.names.add(symbol.st_name as usize)).to_bytes() == name
        };
        is_definition
            && match (self.version(number), version) {
                (Some(own), Some(version)) => own == version,
                _ => self.version_word(number) & HIDDEN_VERSION == 0,
            }
    }

    /// The symbol's version and whether it is hidden, as `DT_VERSYM` has it.
    fn version_word(&self, number: u32) -> u16 {
        // SAFETY: there is one for each symbol.
        if self.versions.is_null() { GLOBAL_VERSION } else { unsafe { self.versions.add(number as usize).read() } }
    }

    /// Name of the symbol's version. None for one that has none, and for a copy of another object's variable, whose version is
    /// that object's.
    fn version(&self, number: u32) -> Option<&'static [u8]> {
        let index = self.version_word(number) & !HIDDEN_VERSION;
        // SAFETY: where the object's section says; each definition leads to the next.
        let next = |at: &&'static VersionDefinition| unsafe {
            (at.to_next != 0).then(|| &*core::ptr::from_ref(*at).byte_add(at.to_next as usize))
        };
        // SAFETY: null, or the first one.
        let mut defined = core::iter::successors(unsafe { self.defined.as_ref() }, next);
        let found = defined.find(|defined| index > GLOBAL_VERSION && defined.index == index)?;
        // SAFETY: the definition says where the offset of its name is; names are NUL-terminated.
        unsafe {
            let name = core::ptr::from_ref(found).byte_add(found.to_name as usize).cast::<u32>().read();
            Some(CStr::from_ptr(self.names.add(name as usize)).to_bytes())
        }
    }

    /// By the table of GNU's linkers: a Bloom filter, then chains of hashes that end with an odd one.
    fn by_gnu_hash(&self, name: &[u8], version: Option<&[u8]>) -> Option<u32> {
        let hash = name.iter().fold(5381_u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
        // SAFETY: the table's head says how long its parts are.
        unsafe {
            let [buckets, first, words, shift] = *self.gnu_hash.cast::<[u32; 4]>();
            let filter = self.gnu_hash.add(4).cast::<u64>();
            let bucket_heads = filter.add(words as usize).cast::<u32>();
            let hashes = bucket_heads.add(buckets as usize);
            let word = filter.add((hash / 64 % words.max(1)) as usize).read();
            if buckets == 0 || word >> (hash % 64) & word >> (hash >> (shift % 32) & 63) & 1 == 0 {
                return None;
            }
            let mut number = bucket_heads.add((hash % buckets) as usize).read();
            if number < first {
                return None;
            }
            loop {
                let known = hashes.add((number - first) as usize).read();
                if (known ^ hash) >> 1 == 0 && self.is(number, name, version) {
                    return Some(number);
                }
                if known & 1 != 0 {
                    return None;
                }
                number += 1;
            }
        }
    }

    /// By the table of System V: buckets and chains of symbols.
    fn by_hash(&self, name: &[u8], version: Option<&[u8]>) -> Option<u32> {
        let hash = name.iter().fold(0_u32, |hash, &byte| {
            let hash = (hash << 4).wrapping_add(byte.into());
            let top = hash & 0xf000_0000;
            (hash ^ top >> 24) & !top
        });
        // SAFETY: the table's head says how long its parts are.
        unsafe {
            let [buckets, _] = *self.hash.cast::<[u32; 2]>();
            let heads = self.hash.add(2);
            let next = heads.add(buckets as usize);
            let mut number = heads.add((hash % buckets.max(1)) as usize).read();
            while number != 0 {
                if self.is(number, name, version) {
                    return Some(number);
                }
                number = next.add(number as usize).read();
            }
        }
        None
    }
}

const STT_GNU_IFUNC: u8 = 10;
const STB_LOCAL: u8 = 0;
/// In `DT_VERSYM`: not the default.
const HIDDEN_VERSION: u16 = 0x8000;
/// In `DT_VERSYM`: no version.
const GLOBAL_VERSION: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn by_linker(handle: *mut libc::c_void, name: &CStr) -> *const () {
        // SAFETY: a NUL-terminated name.
        unsafe { libc::dlsym(handle, name.as_ptr()) }.cast_const().cast()
    }

    #[test]
    fn finds_what_the_linker_finds() {
        let names = [
            c"malloc",
            c"free",
            c"calloc",
            c"sbrk",
            c"brk",
            c"mmap",
            c"sigaction",
            c"memcpy",
            c"strlen",
            c"pthread_create",
            c"dl_iterate_phdr",
            c"_dl_find_object",
            c"epoll_pwait",
            c"prctl",
            c"environ",
            c"free_sized",
            c"no_such_function",
            c"pow",
            c"time",
            c"gettimeofday",
            c"_Unwind_Backtrace",
        ];
        for name in names {
            let address = |found: Option<Found>| found.map_or(null(), |found| found.address);
            assert_eq!(address(first(name)), by_linker(libc::RTLD_DEFAULT, name), "{name:?}");
            assert_eq!(address(next(name)), by_linker(libc::RTLD_NEXT, name), "{name:?}");
        }
    }

    /// A loaded object, by what the linker calls a handle.
    fn object(file_name: &CStr) -> Option<&'static LinkMap> {
        // What is loaded here is not among the objects of other tests.
        assert!(objects().count() > 1);
        // SAFETY: a NUL-terminated name; the handle is the object in the linker's list, and is never closed.
        unsafe { libc::dlopen(file_name.as_ptr(), libc::RTLD_LAZY).cast::<LinkMap>().as_ref() }
    }

    #[test]
    fn versions_are_those_that_the_linker_finds() {
        let library = object(c"libc.so.6").unwrap();
        let tables = Tables::of(library).unwrap();
        let mut compared = 0;
        for name in [c"memcpy", c"malloc", c"pthread_cond_init", c"posix_spawn", c"nothing"] {
            for version in [c"GLIBC_2.2.5", c"GLIBC_2.3.2", c"GLIBC_2.14", c"GLIBC_2.15", c"GLIBC_1"] {
                let handle = core::ptr::from_ref(library).cast_mut().cast();
                // SAFETY: a handle, and NUL-terminated names.
                let expected =
                    unsafe { libc::dlvsym(handle, name.as_ptr(), version.as_ptr()) }.cast_const().cast::<()>();
                let found = tables.function(name.to_bytes(), Some(version.to_bytes())).unwrap_or(null());
                assert_eq!(found, expected, "{name:?} {version:?}");
                compared += usize::from(!found.is_null());
            }
        }
        assert!(compared > 5, "{compared} versions are there");
    }

    #[test]
    fn a_hidden_version_is_found_where_it_is_the_one_asked_for() {
        // Its functions have hidden versions only.
        let Some(debugging) = object(c"libc_malloc_debug.so.0") else { return };
        let (library, mathematics) = (object(c"libc.so.6").unwrap(), object(c"libm.so.6").unwrap());
        let owner = |objects: &[&'static LinkMap], name| {
            find(objects.iter().copied(), name).map(|found| core::ptr::from_ref(found.object.0))
        };
        let found_in = |object: &LinkMap| Some(core::ptr::from_ref(object));
        assert_eq!(owner(&[mathematics, debugging, library], c"malloc"), found_in(debugging));
        assert_eq!(owner(&[mathematics, library, debugging], c"malloc"), found_in(library));
        assert_eq!(owner(&[debugging, library], c"reallocarray"), found_in(library));
        assert_eq!(owner(&[debugging], c"malloc"), None, "nobody can be linked with it");
    }

    #[test]
    fn the_program_notes_the_list_that_the_library_names() {
        assert_eq!(debug_of_program(), weak!("_r_debug").cast());
        assert!(has_objects());
    }

    #[test]
    fn both_indexes_of_an_object_agree() {
        let mut compared = 0;
        for tables in objects().filter_map(Tables::of).filter(|t| !t.hash.is_null() && !t.gnu_hash.is_null()) {
            for name in ["malloc", "__vdso_gettimeofday", "clock_gettime", "__tls_get_addr", "nothing"] {
                let [by_hash, by_gnu_hash] =
                    [Tables::by_hash, Tables::by_gnu_hash].map(|by| by(&tables, name.as_bytes(), None));
                assert_eq!(by_hash, by_gnu_hash, "{name}");
                compared += 1;
            }
        }
        assert!(compared > 0, "no object has both");
    }
}
