//! Debug information: where it is, and what it says about one address.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use addr2line::LookupResult;
use gimli::constants as dw;
use rustc_hash::FxHashMap;
use slimline_trace::address::Svma;
use slimline_trace::fortran_names;
use slimline_trace::path_text::text_of_bytes;

use super::hex;
use super::image::{Image, Slice};
use super::split::SplitUnits;
use super::store::FileStore;
use crate::tables::Language;

/// Where distributions install separate debug files.
const DEBUG_ROOT: &str = "/usr/lib/debug";

/// A file of debug information apart from the code.
pub(super) struct DebugFile<'a> {
    pub(super) image: Image<'a>,
    pub(super) path: String,
}

/// Finds the separate debug file of the code in `path`: by build-id, else by `.gnu_debuglink`.
///
/// A file with another build-id, or with another checksum than the link names, is not taken: its lines would be wrong.
pub(super) fn find_separate<'a>(store: &'a FileStore<'a>, path: &str, code: &Image<'a>) -> Option<DebugFile<'a>> {
    let build_id = code.build_id();
    if let Some([first, rest @ ..]) = build_id
        && !rest.is_empty()
    {
        let path = format!("{DEBUG_ROOT}/.build-id/{}/{}.debug", hex(&[*first]), hex(rest));
        let image = store.open(&path).and_then(Image::parse);
        if let Some(image) = image.filter(|image| image.build_id() == build_id) {
            return Some(DebugFile { image, path });
        }
    }
    let (name, checksum) = code.debug_link()?;
    let name = Some(text_of_bytes(name)).filter(|name| !name.is_empty() && !name.contains('/'))?;
    let directory = path.rsplit_once('/')?.0;
    let places = [
        format!("{directory}/{name}"),
        format!("{directory}/.debug/{name}"),
        format!("{DEBUG_ROOT}{directory}/{name}"),
    ];
    places.into_iter().filter(|place| place != path).find_map(|path| {
        let image = Image::parse(store.open(&path)?)?;
        let same = match (build_id, image.build_id()) {
            (Some(code), Some(debug)) => code == debug,
            _ => crc32(image.bytes()) == checksum,
        };
        same.then_some(DebugFile { image, path })
    })
}

/// Finds the file that `dwz` moved debug information shared by several files to.
pub(super) fn find_alternate<'a>(store: &'a FileStore<'a>, path: &str, holder: &Image<'a>) -> Option<Image<'a>> {
    let (link, build_id) = holder.alternate_link()?;
    let link = text_of_bytes(link);
    let path = if link.starts_with('/') { link.into_owned() } else { format!("{}/{link}", path.rsplit_once('/')?.0) };
    let image = store.open(&path).and_then(Image::parse)?;
    (image.build_id() == Some(build_id)).then_some(image)
}

/// A path that goes on from another one, as `addr2line` joins them.
fn joined(mut path: Vec<u8>, part: &[u8]) -> Vec<u8> {
    if part.starts_with(b"/") {
        return part.to_vec();
    }
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend(part);
    path
}

/// CRC-32 as `.gnu_debuglink` has it (that of zlib and Ethernet).
fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The debug information of one module.
pub struct Debug<'a> {
    dwarf: Arc<gimli::Dwarf<Slice<'a>>>,
    context: addr2line::Context<Slice<'a>>,
    split: SplitUnits<'a>,
    /// Whether a split unit was not found.
    lacks_split: Cell<bool>,
    is_cut: bool,
    damaged: Cell<bool>,
    /// Paths of source files that are not UTF-8, as text, by what `addr2line` makes of them.
    not_utf8: OnceCell<FxHashMap<String, String>>,
    /// By the offset of their unit.
    statements: RefCell<FxHashMap<usize, Vec<Statement>>>,
}

/// One function of an inline stack, as debug information has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level<'d> {
    /// Name as linked, or as written where it has no linkage name; of Fortran's external procedures as written.
    pub name: Option<&'d str>,
    /// Path of the source file, as text ([`path_text`](slimline_trace::path_text)).
    pub file: Option<&'d str>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
}

/// Where a statement begins. Several may begin at one address; all are in the file that the code there comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Where.
    pub address: Svma,
    /// Its line, from 1.
    pub line: u32,
}

/// Leaves out what follows the first damaged header of a unit in `info`, the section `.debug_info`; whether there is one.
fn cut_at_damage<'a>(dwarf: &mut gimli::Dwarf<Slice<'a>>, info: Slice<'a>) -> bool {
    let mut headers = dwarf.units();
    let mut whole_bytes = 0;
    loop {
        match headers.next() {
            Ok(Some(header)) => whole_bytes += header.length_including_self(),
            Ok(None) => return false,
            Err(_) => break,
        }
    }
    dwarf.debug_info = gimli::DebugInfo::new(&info.slice()[..whole_bytes], gimli::LittleEndian);
    true
}

impl<'a> Debug<'a> {
    /// Reads what `holder`, the file at `path`, has.
    pub(super) fn read(
        store: &'a FileStore<'a>,
        path: &str,
        holder: &Image<'a>,
        alternate: Option<&Image<'a>>,
    ) -> Option<Self> {
        let load = |image: &Image<'a>| {
            gimli::Dwarf::load(|id| Ok::<_, core::convert::Infallible>(image.section(store, id.name())))
                .unwrap_or_else(|never| match never {})
        };
        let mut dwarf = load(holder);
        let is_cut = cut_at_damage(&mut dwarf, holder.section(store, gimli::SectionId::DebugInfo.name()));
        if let Some(alternate) = alternate {
            dwarf.set_sup(load(alternate));
        }
        let dwarf = Arc::new(dwarf);
        let context = addr2line::Context::from_arc_dwarf(Arc::clone(&dwarf)).ok()?;
        Some(Self {
            dwarf,
            context,
            split: SplitUnits::new(store, path),
            lacks_split: Cell::new(false),
            is_cut,
            damaged: Cell::new(is_cut),
            not_utf8: OnceCell::new(),
            statements: RefCell::default(),
        })
    }

    /// The sections, for questions about types.
    pub fn dwarf(&self) -> &Arc<gimli::Dwarf<Slice<'a>>> {
        &self.dwarf
    }

    /// The sections with the content of a unit of [`Self::dwarf`] that is a skeleton of one; `None` for other units, and
    /// where its file is not there.
    pub fn split_unit(&self, skeleton: &gimli::Unit<Slice<'a>>) -> Option<Arc<gimli::Dwarf<Slice<'a>>>> {
        let id = skeleton.dwo_id?;
        let name = skeleton.dwo_name().ok()??;
        let name = self.dwarf.attr_string(skeleton, name).ok();
        self.split.find(id, &self.dwarf, skeleton.comp_dir, name)
    }

    /// The directories that its units were compiled in, those within others first.
    pub fn directories(&self) -> Vec<String> {
        let mut directories = Vec::new();
        let mut headers = self.dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let directory = self.dwarf.unit(header).ok().and_then(|unit| unit.comp_dir);
            directories.extend(directory.map(|directory| text_of_bytes(directory.slice()).into_owned()));
        }
        directories.sort_unstable_by(|one, other| other.cmp(one));
        directories.dedup();
        directories
    }

    /// Whether a question needed a `.dwo` file (`-gsplit-dwarf`) that is not there: names and lines are missing.
    pub fn lacks_split_files(&self) -> bool {
        self.lacks_split.get()
    }

    /// Whether the header of a unit is damaged: what follows it is not read.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether a question met damaged entries (or entries that need a `.gnu_debugaltlink` file that is not there).
    pub fn is_damaged(&self) -> bool {
        self.damaged.get()
    }

    /// Whether it is about the code at an address, whatever it says of it.
    pub fn covers(&self, svma: Svma) -> bool {
        self.context.find_dwarf_and_unit(svma.0).skip_all_loads().is_some()
    }

    /// The statements that the line table lets begin in `start..end` (`is_stmt`), in order of address. Code that was
    /// moved away from its statement has its line, but begins none.
    pub fn statements_in(&self, start: Svma, end: Svma) -> Vec<Statement> {
        let Some(unit) = self.context.find_dwarf_and_unit(start.0).skip_all_loads() else { return Vec::new() };
        let Some(offset) = unit.debug_info_offset() else { return Vec::new() };
        let mut known = self.statements.borrow_mut();
        let rows = known.entry(offset.0).or_insert_with(|| statements_of(unit).unwrap_or_default());
        let first = rows.partition_point(|row| row.address < start);
        rows[first..].iter().take_while(|row| row.address < end).copied().collect()
    }

    /// The text of a path that `addr2line` told, which puts U+FFFD in the place of what is not UTF-8.
    fn file_text<'p>(&self, path: &'p str) -> Cow<'p, str> {
        if !path.contains(char::REPLACEMENT_CHARACTER) {
            return text_of_bytes(path.as_bytes());
        }
        let known = self.not_utf8.get_or_init(|| self.read_not_utf8()).get(path);
        known.map_or_else(|| text_of_bytes(path.as_bytes()), |known| Cow::Owned(known.clone()))
    }

    fn read_not_utf8(&self) -> FxHashMap<String, String> {
        let mut found = FxHashMap::default();
        let mut headers = self.dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Ok(unit) = self.dwarf.unit(header) else { continue };
            let Some(program) = &unit.line_program else { continue };
            let lines = program.header();
            for file in lines.file_names() {
                let text = |value| Some(self.dwarf.attr_string(&unit, value).ok()?.slice());
                let directory = file.directory(lines).filter(|_| file.directory_index() != 0).and_then(text);
                let parts = [unit.comp_dir.map(|directory| directory.slice()), directory, text(file.path_name())];
                let path = parts.into_iter().flatten().fold(Vec::new(), joined);
                if str::from_utf8(&path).is_err() {
                    found.insert(String::from_utf8_lossy(&path).into_owned(), text_of_bytes(&path).into_owned());
                }
            }
        }
        found
    }

    /// Calls `visit` with each level of the inline stack at an address, innermost first.
    pub fn for_each_frame(&self, svma: Svma, mut visit: impl FnMut(Level<'_>)) {
        let mut lookup = self.context.find_frames(svma.0);
        let found = loop {
            lookup = match lookup {
                LookupResult::Output(found) => break found,
                LookupResult::Load { load, continuation } => {
                    let found = self.split.find(load.dwo_id, &self.dwarf, load.comp_dir, load.path);
                    self.lacks_split.set(self.lacks_split.get() || found.is_none());
                    addr2line::LookupContinuation::resume(continuation, found)
                }
            };
        };
        let Ok(mut frames) = found else { return self.damaged.set(true) };
        loop {
            match frames.next() {
                Ok(Some(frame)) => {
                    let name = frame.function.as_ref().and_then(|function| {
                        let name = str::from_utf8(function.name.slice()).ok()?;
                        let is_fortran =
                            function.language.is_some_and(|language| language_of(language) == Language::Fortran);
                        Some(if is_fortran { fortran_names::external(name) } else { name })
                    });
                    let place = frame.location.as_ref();
                    let file = place.and_then(|place| place.file).map(|file| self.file_text(file));
                    visit(Level {
                        name,
                        file: file.as_deref(),
                        line: place.and_then(|place| place.line),
                        column: place.and_then(|place| place.column),
                    });
                }
                Ok(None) => return,
                Err(_) => return self.damaged.set(true),
            }
        }
    }
}

/// What is told apart of the languages that debug information knows.
pub(crate) fn language_of(language: gimli::DwLang) -> Language {
    match language {
        dw::DW_LANG_C
        | dw::DW_LANG_C89
        | dw::DW_LANG_C99
        | dw::DW_LANG_C11
        | dw::DW_LANG_C17
        | dw::DW_LANG_ObjC
        | dw::DW_LANG_UPC => Language::C,
        dw::DW_LANG_C_plus_plus
        | dw::DW_LANG_C_plus_plus_03
        | dw::DW_LANG_C_plus_plus_11
        | dw::DW_LANG_C_plus_plus_14
        | dw::DW_LANG_C_plus_plus_17
        | dw::DW_LANG_C_plus_plus_20
        | dw::DW_LANG_ObjC_plus_plus => Language::Cpp,
        dw::DW_LANG_Rust => Language::Rust,
        dw::DW_LANG_Fortran77
        | dw::DW_LANG_Fortran90
        | dw::DW_LANG_Fortran95
        | dw::DW_LANG_Fortran03
        | dw::DW_LANG_Fortran08
        | dw::DW_LANG_Fortran18 => Language::Fortran,
        _ => Language::Other,
    }
}

/// All statements of a unit's line table, in order.
fn statements_of(unit: gimli::UnitRef<'_, Slice<'_>>) -> gimli::Result<Vec<Statement>> {
    let Some(program) = unit.line_program.clone() else { return Ok(Vec::new()) };
    let mut found: Vec<Statement> = Vec::new();
    // Rows at one address: of these, only the last has code.
    let mut together: Vec<(Statement, u64)> = Vec::new();
    let mut rows = program.rows();
    let mut flush = |together: &mut Vec<(Statement, u64)>, file: u64| {
        found.extend(together.drain(..).filter(|(_, own)| *own == file).map(|(statement, _)| statement));
    };
    let mut last = (0, 0);
    while let Some((_, row)) = rows.next_row()? {
        if row.address() != last.0 || row.end_sequence() {
            flush(&mut together, last.1);
        }
        last = (row.address(), row.file_index());
        if row.is_stmt()
            && !row.end_sequence()
            && let Some(line) = row.line().and_then(|line| u32::try_from(line.get()).ok())
        {
            together.push((Statement { address: Svma(row.address()), line }, row.file_index()));
        }
    }
    flush(&mut together, last.1);
    found.sort_by_key(|statement| statement.address);
    Ok(found)
}

#[cfg(test)]
mod tests {
    #[test]
    fn checksum_is_that_of_zlib() {
        // The check value of CRC-32/ISO-HDLC.
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}
