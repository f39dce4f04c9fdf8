//! The static variables of a file as a site table: each one's declaration is a site, whose words say where it is.
//!
//! What a pointer was called that an instruction goes by does not say which variable it points to; where variables are does. So
//! they are told as blocks are that a program allocates, when their file is loaded; those that each thread has of its own, when a
//! thread is seen.

use std::collections::BTreeMap;

use slimline_trace::address::{Avma, FileOffset, Svma};
use slimline_trace::fortran_names;
use slimline_trace::stream::record::{Header, MAX_SEGMENT_WORDS, ModuleId};
use slimline_trace::stream::ring::CHUNK_BYTES;
use slimline_trace::stream::sites::{Frame, ModuleBuilder, Site, SiteKind};

use crate::hooked::structures::Structures;
use crate::module::bias::{FileMapping, Load, load_biases};
use crate::module::image::Segment;
use crate::module::symbols::Variable;
use crate::module::{Module, demangle};
use crate::typing::debug_info::DebugInfo;
use crate::typing::layout::TypeTable;
use crate::typing::statics::StaticVariable;

/// Variables that a record tells.
const RECORD_VARIABLES: usize = MAX_SEGMENT_WORDS / 2;
/// Records of a chunk, which have room in one of the ring's.
const CHUNK_RECORDS: usize = CHUNK_BYTES / 8 / (1 + MAX_SEGMENT_WORDS);
/// Bytes of the smallest mapping.
const PAGE_BYTES: u64 = 4096;

/// The static variables of one file.
pub struct StaticsTable {
    blob: Vec<u8>,
    module: ModuleId,
    /// Where each is in the file's own addresses, and its bytes; in the order of the sites.
    variables: Vec<(Svma, u64)>,
    /// The same of what each thread has of its own, from the beginning of its block; their sites come behind.
    thread_locals: Vec<(Svma, u64)>,
    loads: Vec<Load>,
}

impl StaticsTable {
    /// What debug information or, where that has none, symbols tell of a file's variables; none where there are none.
    pub fn of(module: &Module<'_>) -> Option<Self> {
        let image = module.image()?;
        let mut types = TypeTable::new();
        let info = module.debug_info();
        let is_fortran = info.is_some_and(DebugInfo::has_fortran);
        let of_all = info.map(|info| info.static_variables(&mut types)).unwrap_or_default();
        let of_threads = info.map(|info| info.thread_locals(&mut types)).unwrap_or_default();
        let (mut table, mut structures) = (ModuleBuilder::new(), Structures::default());
        let symbols = module.symbols();
        let room_of_thread = |Svma(at): Svma| {
            let bytes = image.thread_locals()?.bytes.checked_sub(at)?;
            (bytes > 0).then_some(Room { bytes, is_code: false })
        };
        let room_of_all = |at| room_at(image.segments(), at);
        let mut by = (&mut table, &mut structures, &types);
        let found = Self::found(&mut by, is_fortran, (of_all, symbols.variables()), room_of_all);
        let own = Self::found(&mut by, is_fortran, (of_threads, symbols.thread_locals()), room_of_thread);
        if found.is_empty() && own.is_empty() {
            return None;
        }
        for sites in found.chunks(RECORD_VARIABLES).chain(own.chunks(RECORD_VARIABLES)) {
            table.segment(sites.iter().map(|found| found.site));
        }
        let (module, blob) = table.finish("", module.path(), "", "").encode();
        let [variables, thread_locals] =
            [found, own].map(|found| found.iter().map(|found| (found.address, found.bytes)).collect());
        Some(Self { blob, module, variables, thread_locals, loads: image.loads().collect() })
    }

    /// Those that are declared or have symbols, which are in their order, where there is room for them.
    fn found(
        (table, structures, types): &mut (&mut ModuleBuilder, &mut Structures, &TypeTable),
        is_fortran: bool,
        (declared, symbols): (Vec<StaticVariable>, &[Variable<'_>]),
        room_at: impl Fn(Svma) -> Option<Room>,
    ) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        let symbol_bytes = |at: Svma| {
            let first = symbols.partition_point(|symbol| symbol.start < at);
            let there = symbols[first..].iter().take_while(|symbol| symbol.start == at).map(|symbol| symbol.bytes);
            there.filter(|bytes| *bytes > 0).max()
        };
        for StaticVariable { name, address, bytes, type_id, declared_at, .. } in declared {
            let frame = declared_at.map(|at| {
                let file = table.name(&at.file);
                table.frame(Frame { file, line: at.line, column: at.column, ..Frame::default() })
            });
            // Members are as instructions name them, of those that do: compilers know better which bits of which union they are.
            let structure = structures.name(table, types.rows(), type_id);
            let [variable, detail] = [&name, &types.rows()[type_id.index()].name].map(|text| table.name(text));
            let site = Site { variable, detail, structure, frame, ..Site::new(SiteKind::Static, 0) };
            let room = room_at(address);
            let symbol_bytes = symbol_bytes(address).filter(|bytes| room.is_some_and(|room| *bytes <= room.bytes));
            let known_by = match symbol_bytes {
                Some(_) => KnownBy::Both,
                None => KnownBy::Declaration,
            };
            found.push(Found { address, bytes, symbol_bytes: symbol_bytes.unwrap_or(0), known_by, site });
        }
        for symbol in symbols {
            let name = as_declared(symbol.name);
            let variable = table.name(&demangle(if is_fortran { fortran_names::external(name) } else { name }));
            let site = Site { variable, ..Site::new(SiteKind::Static, 0) };
            let (address, bytes) = (symbol.start, symbol.bytes);
            found.push(Found { address, bytes, symbol_bytes: bytes, known_by: KnownBy::Symbol, site });
        }
        found.retain(|it| room_at(it.address).is_some_and(|room| it.fits(room)));
        apart(found)
    }

    /// The table, as it stands in [`SECTION`](slimline_trace::stream::sites::SECTION).
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// What was added to the file's own addresses in a process where byte `offset` of it is at `start`; none where it has no such byte.
    pub fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        let mapping =
            FileMapping { start: Avma(start), end: Avma(start.checked_add(PAGE_BYTES)?), offset: FileOffset(offset) };
        load_biases(&[mapping], &self.loads).pop()?
    }

    /// Chunks of records that say where they are where so much was added.
    pub fn chunks(&self, bias: u64) -> Vec<Vec<u64>> {
        self.records(&self.variables, 0, bias)
    }

    /// The same of a thread's own variables, whose block begins at `block`.
    pub fn thread_chunks(&self, block: u64) -> Vec<Vec<u64>> {
        let first = self.variables.chunks(RECORD_VARIABLES).len();
        self.records(&self.thread_locals, first as u32, block)
    }

    /// The bytes of a thread's block up to the end of the last of its own variables.
    pub fn thread_bytes(&self) -> u64 {
        self.thread_locals.last().map_or(0, |&(Svma(at), bytes)| at.saturating_add(bytes))
    }

    fn records(&self, variables: &[(Svma, u64)], first: u32, bias: u64) -> Vec<Vec<u64>> {
        let records = (first..).zip(variables.chunks(RECORD_VARIABLES)).map(|(segment, variables)| {
            let header = Header::new(self.module, segment).word();
            let places = variables.iter().flat_map(|&(Svma(address), bytes)| [address.wrapping_add(bias), bytes]);
            std::iter::once(header).chain(places).collect::<Vec<u64>>()
        });
        let records: Vec<Vec<u64>> = records.collect();
        records.chunks(CHUNK_RECORDS).map(<[_]>::concat).collect()
    }
}

/// Who says that a variable is there, whom to believe most first: of variables that the linker left out debug information still tells an
/// address, which may be that of others; and symbols have neither a type nor a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KnownBy {
    Both,
    Symbol,
    Declaration,
}

/// What may be a variable.
#[derive(Clone, Copy, Debug)]
struct Found {
    address: Svma,
    bytes: u64,
    /// Of the symbol that begins there; 0 where there is none.
    symbol_bytes: u64,
    known_by: KnownBy,
    site: Site,
}

impl Found {
    fn fits(&self, room: Room) -> bool {
        // Linkers may put constants beside code; but what they left out they leave at the file's beginning, where code is then.
        let is_data = !room.is_code || self.known_by != KnownBy::Declaration;
        is_data && (1..=room.bytes).contains(&self.bytes)
    }
}

/// What is left of a segment from an address on.
#[derive(Clone, Copy, Debug)]
struct Room {
    bytes: u64,
    is_code: bool,
}

fn room_at(segments: &[Segment<'_>], at: Svma) -> Option<Room> {
    let rooms = segments.iter().filter_map(|segment| {
        let bytes = segment.memory_bytes.checked_sub(at.0.checked_sub(segment.svma.0)?)?;
        (bytes > 0).then_some(Room { bytes, is_code: segment.executable })
    });
    rooms.min_by_key(|room| room.is_code)
}

/// Those that share no bytes, in the order of their addresses: of those that do who is to be believed most, then the first, then the
/// largest. What is declared with less than it has, as arrays at the end of structures have no bounds, reaches as far as its symbol.
fn apart(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by_key(|it| (it.known_by, it.address, std::cmp::Reverse(it.bytes)));
    let mut kept: BTreeMap<Svma, Found> = BTreeMap::new();
    for it in found {
        let end = it.address.0.saturating_add(it.bytes);
        let before = kept.range(..Svma(end)).next_back();
        if before.is_none_or(|(_, before)| before.address.0.saturating_add(before.bytes) <= it.address.0) {
            kept.insert(it.address, it);
        }
    }
    let mut kept: Vec<Found> = kept.into_values().collect();
    let mut next = u64::MAX;
    for it in kept.iter_mut().rev() {
        it.bytes = it.bytes.max(it.symbol_bytes.min(next.saturating_sub(it.address.0)));
        next = it.address.0;
    }
    kept
}

/// A symbol without the numbers that compilers append, to parts of variables and to those of functions: `TABLE.0`, `calls.1234`.
fn as_declared(symbol: &str) -> &str {
    match symbol.rsplit_once('.') {
        Some((name, number)) if !name.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => symbol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(address: u64, bytes: u64, symbol_bytes: u64, known_by: KnownBy) -> Found {
        let site = Site::new(SiteKind::Static, 0);
        Found { address: Svma(address), bytes, symbol_bytes, known_by, site }
    }

    /// Addresses, bytes and who told them.
    fn kept(all: Vec<Found>) -> Vec<(u64, u64, KnownBy)> {
        apart(all).into_iter().map(|it| (it.address.0, it.bytes, it.known_by)).collect()
    }

    #[test]
    fn what_was_left_out_takes_no_place_of_others() {
        use KnownBy::{Both, Declaration, Symbol};
        let declared = |address, bytes| found(address, bytes, 0, Declaration);
        // One that reaches over all, and one that begins within another.
        let left_out = [declared(0x40, 0x10000), declared(0x1008, 4)];
        let living = [found(0x1000, 16, 16, Both), found(0x1010, 8, 8, Symbol), declared(0x20000, 8)];
        let all = [&left_out[..], &living].concat();
        assert_eq!(kept(all), [(0x1000, 16, Both), (0x1010, 8, Symbol), (0x20000, 8, Declaration)]);
        // Where only declarations are known, the first, and of two that begin there the larger: a block of several variables.
        assert_eq!(
            kept(vec![declared(8, 8), declared(8, 24), declared(16, 8), declared(32, 4)]),
            [(8, 24, Declaration), (32, 4, Declaration)]
        );
    }

    #[test]
    fn declared_variables_reach_as_far_as_their_symbols() {
        use KnownBy::{Both, Symbol};
        let all = vec![found(0x100, 8, 40, Both), found(0x100, 40, 40, Symbol), found(0x120, 8, 8, Both)];
        assert_eq!(kept(all), [(0x100, 0x20, Both), (0x120, 8, Both)]);
        let all = vec![found(0x100, 8, 40, Both), found(0x100, 40, 40, Symbol)];
        assert_eq!(kept(all), [(0x100, 40, Both)]);
    }

    #[test]
    fn variables_lie_in_one_segment() {
        let segment = |svma, memory_bytes, executable| Segment {
            svma: Svma(svma),
            memory_bytes,
            file_offset: 0,
            data: &[],
            executable,
            writable: !executable,
        };
        let segments = [segment(0, 0x1000, true), segment(0x1000, 0x100, false)];
        let fits = |address, bytes, known_by| {
            room_at(&segments, Svma(address)).is_some_and(|room| found(address, bytes, 0, known_by).fits(room))
        };
        assert!(fits(0x1000, 0x100, KnownBy::Declaration) && !fits(0x1000, 0x101, KnownBy::Symbol));
        assert!(!fits(0x40, 8, KnownBy::Declaration) && fits(0x40, 8, KnownBy::Symbol));
        assert!(!fits(0x2000, 8, KnownBy::Both) && !fits(0x1000, 0, KnownBy::Symbol));
    }

    #[test]
    fn numbers_behind_names_are_the_compilers() {
        let of = ["_ZN3app7TOUCHED17hf7c16ea5c88ddf68E.0", "calls.1234", "walk.calls", ".5", "table"];
        let declared = ["_ZN3app7TOUCHED17hf7c16ea5c88ddf68E", "calls", "walk.calls", ".5", "table"];
        assert_eq!(of.map(as_declared), declared);
    }
}
