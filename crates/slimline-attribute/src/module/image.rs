//! An ELF file for x86-64: what is where, in the file and in the linked image.

use std::borrow::Cow;
use std::cell::OnceCell;

use object::elf;
use object::read::elf::{
    ElfFile64, ElfSection64, FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _, Sym as _, SymbolTable,
};
use object::{
    CompressedData, LittleEndian, Object as _, ObjectSection, ObjectSymbol as _, RelocationKind, RelocationTarget,
};
use rustc_hash::{FxHashMap, FxHashSet};
use slimline_trace::address::Svma;

use super::bias::Load;
use super::store::FileStore;
use super::unwind::Unwound;

/// The reader that all debug and unwind information is read with: borrowed bytes, little endian as x86-64 is.
pub type Slice<'a> = gimli::EndianSlice<'a, gimli::LittleEndian>;

const ENDIAN: LittleEndian = LittleEndian;

/// A part of the file that is loaded into memory.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Where the linker put it.
    pub svma: Svma,
    /// Size in memory; beyond the file's bytes it is zeros (`.bss`).
    pub memory_bytes: u64,
    /// Where its bytes are in the file.
    pub file_offset: u64,
    /// Its bytes in the file.
    pub data: &'a [u8],
    /// Whether it holds code.
    pub executable: bool,
    /// Whether the program may write it.
    pub writable: bool,
}

/// The template of a module's thread-local variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadLocalTemplate {
    /// Size of one thread's copy.
    pub bytes: u64,
    /// Its alignment.
    pub alignment: u64,
}

/// A defined symbol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol<'a> {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) name: &'a str,
    pub(super) kind: elf::SymbolType,
    pub(super) binding: elf::SymbolBind,
    /// Whether its section holds code.
    pub(super) executable: bool,
    /// Address after its section.
    pub(super) section_end: u64,
}

/// What a slot that the dynamic linker fills will hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relocated<'a> {
    /// An address in the same module.
    Address(Svma),
    /// The address of a function or variable that the symbol names.
    Import(&'a str),
}

/// A parsed ELF file.
pub struct Image<'a> {
    file: ElfFile64<'a, LittleEndian>,
    segments: Vec<Segment<'a>>,
    thread_locals: Option<ThreadLocalTemplate>,
    relocations: OnceCell<FxHashMap<u64, Relocated<'a>>>,
    unwound: OnceCell<Unwound<'a>>,
}

impl<'a> Image<'a> {
    /// Parses the headers; `None` for anything but a little-endian 64-bit ELF file for x86-64.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let file = ElfFile64::<LittleEndian>::parse(bytes).ok()?;
        if file.elf_header().e_machine(ENDIAN) != elf::EM_X86_64 {
            return None;
        }
        let mut segments = Vec::new();
        let mut thread_locals = None;
        for header in file.elf_program_headers() {
            let flags = header.p_flags(ENDIAN);
            match header.p_type(ENDIAN) {
                elf::PT_LOAD => segments.push(Segment {
                    svma: Svma(header.p_vaddr(ENDIAN)),
                    memory_bytes: header.p_memsz(ENDIAN),
                    file_offset: header.p_offset(ENDIAN),
                    // The segments of a debug file point past its end: it has sections only.
                    data: header.data(ENDIAN, bytes).unwrap_or_default(),
                    executable: flags.0 & elf::PF_X.0 != 0,
                    writable: flags.0 & elf::PF_W.0 != 0,
                }),
                elf::PT_TLS => {
                    thread_locals = Some(ThreadLocalTemplate {
                        bytes: header.p_memsz(ENDIAN),
                        alignment: header.p_align(ENDIAN).max(1),
                    });
                }
                _ => {}
            }
        }
        Some(Self { file, segments, thread_locals, relocations: OnceCell::new(), unwound: OnceCell::new() })
    }

    /// Segments in the order of the file.
    pub fn segments(&self) -> &[Segment<'a>] {
        &self.segments
    }

    /// The same as [`load_biases`](super::bias::load_biases) needs them.
    pub fn loads(&self) -> impl Iterator<Item = Load> {
        let load =
            |it: &Segment<'_>| Load { svma: it.svma, file_offset: it.file_offset, file_bytes: it.data.len() as u64 };
        self.segments.iter().map(load)
    }

    /// The segment that covers an address.
    pub fn segment_at(&self, svma: Svma) -> Option<&Segment<'a>> {
        self.segments.iter().find(|segment| svma >= segment.svma && svma.0 - segment.svma.0 < segment.memory_bytes)
    }

    /// The template of thread-local variables.
    pub fn thread_locals(&self) -> Option<ThreadLocalTemplate> {
        self.thread_locals
    }

    /// The file's bytes from an address to the end of its segment; empty where there are none.
    pub fn bytes_from(&self, svma: Svma) -> &'a [u8] {
        let Some(segment) = self.segment_at(svma) else { return &[] };
        let skip = usize::try_from(svma.0 - segment.svma.0).unwrap_or(usize::MAX);
        segment.data.get(skip..).unwrap_or_default()
    }

    /// Bounds and name of the loaded section that covers an address.
    pub fn section_at(&self, svma: Svma) -> Option<(Svma, Svma, &'a str)> {
        let sections = self.file.elf_section_table();
        sections.iter().find_map(|section| {
            let flags = section.sh_flags(ENDIAN).0;
            let (start, bytes) = (section.sh_addr(ENDIAN), section.sh_size(ENDIAN));
            // Thread-local sections overlap what follows them: they are templates, not memory.
            let is_loaded = flags & elf::SHF_ALLOC.0 != 0 && flags & elf::SHF_TLS.0 == 0;
            if !is_loaded || svma.0 < start || svma.0 - start >= bytes {
                return None;
            }
            let name = sections.section_name(ENDIAN, section).ok()?;
            Some((Svma(start), Svma(start.checked_add(bytes)?), str::from_utf8(name).ok()?))
        })
    }

    /// Where a section is linked to, and its content; `None` where there is none that is loaded as it is in the file.
    pub fn linked_section(&self, name: &str) -> Option<(Svma, &'a [u8])> {
        let section = self.file.section_by_name(name)?;
        Some((Svma(section.address()), section.data().ok()?))
    }

    /// Whether it has the tables of Go's run-time system, which lays stacks among the blocks of its heap.
    pub fn is_go(&self) -> bool {
        self.file.section_by_name(".gopclntab").is_some()
    }

    /// The whole file.
    pub fn bytes(&self) -> &'a [u8] {
        self.file.data()
    }

    /// The linker's fingerprint of the file.
    pub fn build_id(&self) -> Option<&'a [u8]> {
        self.file.build_id().ok().flatten()
    }

    /// Name and CRC-32 of the separate debug file.
    pub(super) fn debug_link(&self) -> Option<(&'a [u8], u32)> {
        self.file.gnu_debuglink().ok().flatten()
    }

    /// Path and build-id of the file that `dwz` moved shared debug information to.
    pub(super) fn alternate_link(&self) -> Option<(&'a [u8], &'a [u8])> {
        self.file.gnu_debugaltlink().ok().flatten()
    }

    /// Whether the file has DWARF entries and not just their section headers.
    pub fn has_debug_info(&self) -> bool {
        self.file
            .section_by_name(".debug_info")
            .is_some_and(|section| section.compressed_file_range().is_ok_and(|range| range.compressed_size != 0))
    }

    /// Whether there is a section of this name.
    pub(super) fn has_section(&self, name: &str) -> bool {
        self.file.section_by_name(name).is_some()
    }

    /// Whether there is a section whose name begins so.
    pub(super) fn has_section_of(&self, begin: &str) -> bool {
        self.file.sections().any(|section| section.name().is_ok_and(|name| name.starts_with(begin)))
    }

    /// Whether it is the memory of a program that was killed.
    pub(super) fn is_core_dump(&self) -> bool {
        self.file.elf_header().e_type(ENDIAN) == elf::ET_CORE
    }

    /// Whether there is a symbol table with names.
    pub fn has_symbol_table(&self) -> bool {
        self.file.elf_symbol_table().symbols().len() > 1
    }

    /// Whether there is a table of dynamic symbols with names.
    pub fn has_dynamic_symbols(&self) -> bool {
        self.file.elf_dynamic_symbol_table().symbols().len() > 1
    }

    /// A section's content, decompressed where needed; empty where there is no such section or it is damaged. Of several
    /// with that name, as a `.dwo` file has one for each type, all in their order.
    pub(super) fn section(&self, store: &'a FileStore<'a>, name: &str) -> Slice<'a> {
        let named = self.file.sections().filter(|section| section.name() == Ok(name));
        let content = |section: &ElfSection64<'a, '_, LittleEndian>| Some(self.linked(section, content(section)?));
        let mut parts: Vec<Cow<'a, [u8]>> = named.filter_map(|section| content(&section)).collect();
        if parts.is_empty() {
            // Under the name that a compressed section had once.
            parts.extend(self.file.section_by_name(name).and_then(|section| content(&section)));
        }
        let whole = if parts.len() > 1 { Some(Cow::Owned(parts.concat())) } else { parts.pop() };
        let bytes = match whole {
            Some(Cow::Borrowed(bytes)) => bytes,
            Some(Cow::Owned(bytes)) => store.keep(bytes),
            None => &[],
        };
        Slice::new(bytes, gimli::LittleEndian)
    }

    /// A section's content with the numbers that a linker would put into an object file's: where in other sections something is.
    fn linked(&self, section: &ElfSection64<'a, '_, LittleEndian>, content: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        if self.file.elf_header().e_type(ENDIAN) != elf::ET_REL {
            return content;
        }
        let mut content = content.into_owned();
        for (offset, relocation) in section.relocations() {
            let target = match relocation.target() {
                RelocationTarget::Symbol(index) => {
                    self.file.symbol_by_index(index).map_or(0, |symbol| symbol.address())
                }
                _ => 0,
            };
            let value = target.wrapping_add_signed(relocation.addend());
            let bytes = usize::from(relocation.size() / 8);
            let place = usize::try_from(offset).ok().and_then(|at| content.get_mut(at..at.checked_add(bytes)?));
            if let (RelocationKind::Absolute, Some(place), 1..=8) = (relocation.kind(), place, bytes) {
                place.copy_from_slice(&value.to_le_bytes()[..bytes]);
            }
        }
        Cow::Owned(content)
    }

    /// Calls `visit` with each defined, named symbol: those of the symbol table, then the dynamic ones.
    pub(super) fn for_each_symbol(&self, mut visit: impl FnMut(Symbol<'a>)) {
        self.for_each_symbol_of(&[self.file.elf_symbol_table(), self.file.elf_dynamic_symbol_table()], &mut visit);
    }

    /// The same with those that other modules find, which are the dynamic ones.
    pub(super) fn for_each_exported(&self, mut visit: impl FnMut(Symbol<'a>)) {
        self.for_each_symbol_of(&[self.file.elf_dynamic_symbol_table()], &mut visit);
    }

    fn for_each_symbol_of(
        &self,
        tables: &[&SymbolTable<'a, elf::FileHeader64<LittleEndian>>],
        visit: &mut impl FnMut(Symbol<'a>),
    ) {
        let sections = self.file.elf_section_table();
        for table in tables {
            for (index, symbol) in table.enumerate() {
                let section = table.symbol_section(ENDIAN, symbol, index).ok().flatten();
                let Some(section) = section.and_then(|index| sections.section(index).ok()) else { continue };
                let Some(name) = table.symbol_name(ENDIAN, symbol).ok().and_then(|name| str::from_utf8(name).ok())
                else {
                    continue;
                };
                if name.is_empty() {
                    continue;
                }
                visit(Symbol {
                    address: symbol.st_value(ENDIAN),
                    bytes: symbol.st_size(ENDIAN),
                    name,
                    kind: symbol.st_type(),
                    binding: symbol.st_bind(),
                    executable: section.sh_flags(ENDIAN).0 & elf::SHF_EXECINSTR.0 != 0,
                    section_end: section.sh_addr(ENDIAN).saturating_add(section.sh_size(ENDIAN)),
                });
            }
        }
    }

    /// What the dynamic linker will store in the eight bytes at an address; `None` where it stores nothing.
    pub fn relocated(&self, slot: Svma) -> Option<Relocated<'a>> {
        self.relocations.get_or_init(|| self.read_relocations()).get(&slot.0).copied()
    }

    /// The pointer that the eight bytes at an address hold once the module is loaded, as a link-time address.
    pub fn pointer_at(&self, slot: Svma) -> Option<Svma> {
        match self.relocated(slot) {
            Some(Relocated::Address(target)) => Some(target),
            Some(Relocated::Import(_)) => None,
            // Position-dependent, or relocated in place by the packed form (RELR).
            None => {
                let bytes = self.bytes_from(slot).first_chunk()?;
                Some(Svma(u64::from_le_bytes(*bytes)))
            }
        }
    }

    /// Where libraries' variables are copied to (`stdout`): the program has room for them, and no more.
    pub(super) fn copies(&self) -> FxHashSet<Svma> {
        let mut found = FxHashSet::default();
        self.for_each_relocation(|relocation| {
            if relocation.r_type(ENDIAN, false) == elf::R_X86_64_COPY {
                found.insert(Svma(relocation.r_offset(ENDIAN)));
            }
        });
        found
    }

    fn for_each_relocation(&self, mut visit: impl FnMut(&elf::Rela64<LittleEndian>)) {
        for section in self.file.elf_section_table().iter() {
            let Ok(Some((relocations, _))) = section.rela(ENDIAN, self.file.data()) else { continue };
            relocations.iter().for_each(&mut visit);
        }
    }

    fn read_relocations(&self) -> FxHashMap<u64, Relocated<'a>> {
        let mut found = FxHashMap::default();
        let symbols = self.file.elf_dynamic_symbol_table();
        self.for_each_relocation(|relocation| {
            let symbol = || {
                let index = object::SymbolIndex(relocation.r_sym(ENDIAN, false) as usize);
                symbols.symbol(index).ok()
            };
            let value = match relocation.r_type(ENDIAN, false) {
                elf::R_X86_64_RELATIVE => Some(Relocated::Address(Svma(relocation.r_addend(ENDIAN).cast_unsigned()))),
                elf::R_X86_64_GLOB_DAT | elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_64 => symbol().and_then(|symbol| {
                    let name = symbols.symbol_name(ENDIAN, symbol).ok()?;
                    Some(Relocated::Import(str::from_utf8(name).ok()?))
                }),
                _ => None,
            };
            if let Some(value) = value {
                found.insert(relocation.r_offset(ENDIAN), value);
            }
        });
        found
    }
}

impl<'a> Image<'a> {
    /// Its unwind information.
    pub(super) fn unwound(&self) -> &Unwound<'a> {
        self.unwound.get_or_init(|| {
            let section = |name| self.file.section_by_name(name);
            let address = |name| section(name).map_or(0, |section| section.address());
            let frame = section(".eh_frame");
            let data = frame.as_ref().and_then(|frame| frame.data().ok()).unwrap_or_default();
            let bases = gimli::BaseAddresses::default()
                .set_eh_frame(frame.map_or(0, |frame| frame.address()))
                .set_text(address(".text"))
                .set_got(address(".got"));
            Unwound::read(data, bases)
        })
    }

    /// First and last+1 address of the function that holds an address, by unwind information.
    pub fn unwind_bounds(&self, svma: Svma) -> Option<(Svma, Svma)> {
        self.unwound().bounds(svma)
    }

    /// How far the call frame address is above the stack pointer before the instruction at an address, where unwind
    /// information counts it from there.
    pub fn frame_above_stack_pointer(&self, svma: Svma) -> Option<i64> {
        self.unwound().above_stack_pointer(svma)
    }
}

/// What a byte of compressed data becomes at most: with zstd four bytes may stand for a block of 128 KiB. (With zlib it is
/// some 1000.)
const MOST_INFLATION: u64 = 1 << 15;

/// A section's content, decompressed where needed; `None` where it is damaged.
fn content<'a>(section: &impl ObjectSection<'a>) -> Option<Cow<'a, [u8]>> {
    section.compressed_data().ok().filter(is_plausible)?.decompress().ok()
}

/// Whether it may become as large as it says, for which memory is taken before anything else is looked at.
fn is_plausible(compressed: &CompressedData<'_>) -> bool {
    compressed.uncompressed_size <= (compressed.data.len() as u64).saturating_mul(MOST_INFLATION)
}

#[cfg(test)]
mod tests {
    use object::CompressionFormat;

    use super::*;

    /// Found by fuzzing: 2^62 bytes were asked for.
    #[test]
    fn what_can_not_become_so_large_is_damaged() {
        let data = [0; 100];
        let claims = |uncompressed_size| {
            is_plausible(&CompressedData { format: CompressionFormat::Zlib, data: &data, uncompressed_size })
        };
        assert!(claims(100) && claims(100 << 15));
        assert!(!claims((100 << 15) + 1) && !claims(1 << 62));
    }
}
