//! Debugging information entries by handle, and the unit tables they live in.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use gimli::{AttributeValue, DwAt, DwTag, Section as _, UnitOffset, UnitType, constants as dw};

use slimline_trace::path_text::text_of_bytes;

use super::layout::{Subject, TableNumber};
use super::shape::{Fields, Shape};
use super::statics::Statics;
use super::unit_index::UnitIndex;
use crate::module::debug::{Debug, language_of};
use crate::module::virtual_tables::VirtualTables;
use crate::tables::{Language, SourcePosition, TypeId};

/// The reader that all of this module works on: borrowed bytes, little endian as x86-64 is.
pub type Slice<'a> = gimli::EndianSlice<'a, gimli::LittleEndian>;
/// Loaded DWARF sections of one module (with `sup` set where a `.gnu_debugaltlink` file was found).
pub type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;

pub(super) type Unit<'a> = gimli::Unit<Slice<'a>>;
pub(super) type Entry<'a> = gimli::DebuggingInformationEntry<Slice<'a>>;
pub(super) type Value<'a> = AttributeValue<Slice<'a>>;

/// A debugging information entry of one [`DebugInfo`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Die {
    pub(super) unit: u32,
    pub(super) offset: u32,
}

/// Which file and section a unit was read from; units are kept in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Info,
    Types,
    Supplementary,
    /// A `.dwo` file, by number, and its section `.debug_types` behind the other one.
    Split {
        file: usize,
        types: bool,
    },
}

struct UnitSlot<'a> {
    origin: Origin,
    /// Of a unit in a `.dwo` file: the unit that has its addresses.
    skeleton: Option<u32>,
    header: gimli::UnitHeader<Slice<'a>>,
    unit: OnceCell<Option<Unit<'a>>>,
    index: OnceCell<UnitIndex>,
    language: OnceCell<Option<Language>>,
    has_hooks: OnceCell<Option<bool>>,
}

/// The debug information of one module, read unit by unit as questions need it.
pub struct DebugInfo<'a> {
    dwarf: Arc<Dwarf<'a>>,
    split: Vec<Arc<Dwarf<'a>>>,
    units: Vec<UnitSlot<'a>>,
    signatures: HashMap<u64, Die>,
    unit_ranges: OnceCell<Vec<(u64, u64, u32)>>,
    definitions: OnceCell<HashMap<String, Vec<Die>>>,
    pub(super) statics: OnceCell<Statics>,
    pub(super) shapes: RefCell<HashMap<Die, Shape>>,
    pub(super) fields: RefCell<HashMap<Die, Rc<Fields>>>,
    /// Names with template arguments that were made, for all entries that were asked for; `None` of what is no template's.
    pub(super) template_names: RefCell<HashMap<Die, Option<String>>>,
    /// Rows that it made in tables; `None` of those that have none, or not yet.
    pub(super) rows: RefCell<HashMap<(TableNumber, Subject), Option<TypeId>>>,
    /// Where virtual bases lie; none where nobody has said.
    pub(super) virtual_tables: VirtualTables<'a>,
    /// Units whose content is in a `.dwo` file that is not there.
    lost_units: u32,
    is_cut: bool,
    /// Types that are being read because another one asks.
    pub(super) nesting: Cell<u32>,
}

impl<'a> DebugInfo<'a> {
    /// Reads the unit headers of `dwarf`, and nothing else yet. A damaged section ends the list where it is damaged.
    pub fn new(dwarf: Arc<Dwarf<'a>>) -> Self {
        let mut info = Self {
            dwarf: Arc::clone(&dwarf),
            split: Vec::new(),
            units: Vec::new(),
            signatures: HashMap::new(),
            unit_ranges: OnceCell::new(),
            definitions: OnceCell::new(),
            statics: OnceCell::new(),
            shapes: RefCell::default(),
            fields: RefCell::default(),
            template_names: RefCell::default(),
            rows: RefCell::default(),
            virtual_tables: VirtualTables::default(),
            lost_units: 0,
            is_cut: false,
            nesting: Cell::new(0),
        };
        let Headers { units, types, is_cut } = Headers::of(&dwarf);
        info.add_units(Origin::Info, None, units);
        info.add_units(Origin::Types, None, types);
        info.is_cut = is_cut;
        if let Some(sup) = dwarf.sup() {
            let Headers { units, is_cut, .. } = Headers::of(sup);
            info.add_units(Origin::Supplementary, None, units);
            info.is_cut |= is_cut;
        }
        info
    }

    /// The same of a module, with the units that are in `.dwo` files.
    pub fn of(debug: &Debug<'a>) -> Self {
        let mut info = Self::new(Arc::clone(debug.dwarf()));
        info.is_cut |= debug.is_cut();
        for number in 0..info.unit_count() {
            let Some((skeleton, dwarf)) = info.split_of(number, debug) else {
                info.lost_units += u32::from(info.is_skeleton(number));
                continue;
            };
            let Headers { units, types, is_cut } = Headers::of(&dwarf);
            info.is_cut |= is_cut;
            let file = info.split.len();
            info.split.push(dwarf);
            info.add_units(Origin::Split { file, types: false }, Some(skeleton), units);
            info.add_units(Origin::Split { file, types: true }, Some(skeleton), types);
        }
        info
    }

    /// With what is known of virtual bases.
    #[must_use]
    pub fn with_virtual_tables(self, virtual_tables: VirtualTables<'a>) -> Self {
        Self { virtual_tables, ..self }
    }

    /// Whether the unit says that its content is in a `.dwo` file.
    fn is_skeleton(&self, unit: u32) -> bool {
        self.may_be_skeleton(unit) && self.unit(unit).is_some_and(|unit| unit.dwo_id.is_some())
    }

    /// Number of compilation units, wherever their content is.
    pub fn compilation_units(&self) -> u32 {
        let is_one = |slot: &&UnitSlot<'a>| {
            slot.origin == Origin::Info && matches!(slot.header.type_(), UnitType::Compilation | UnitType::Skeleton(_))
        };
        self.units.iter().filter(is_one).count() as u32
    }

    /// Units whose content is in a `.dwo` file that is not there, or of another build.
    pub fn lost_units(&self) -> u32 {
        self.lost_units
    }

    /// Whether the list of units ends early, at a damaged header.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn split_of(&self, unit: u32, debug: &Debug<'a>) -> Option<(u32, Arc<Dwarf<'a>>)> {
        let skeleton = if self.may_be_skeleton(unit) { self.unit(unit)? } else { return None };
        Some((unit, debug.split_unit(skeleton)?))
    }

    fn may_be_skeleton(&self, unit: u32) -> bool {
        let header = &self.units[unit as usize].header;
        // Before DWARF 5 only the root entry tells a skeleton; it has addresses in a section of their own.
        match header.type_() {
            UnitType::Skeleton(_) => true,
            UnitType::Compilation => header.version() < 5 && !self.dwarf.debug_addr.reader().is_empty(),
            _ => false,
        }
    }

    fn add_units(&mut self, origin: Origin, skeleton: Option<u32>, headers: Vec<gimli::UnitHeader<Slice<'a>>>) {
        debug_assert!(self.units.last().is_none_or(|last| last.origin < origin), "they are searched by origin");
        for header in headers {
            if let UnitType::Type { type_signature, type_offset } | UnitType::SplitType { type_signature, type_offset } =
                header.type_()
                && let Some(die) = Die::new(self.units.len(), type_offset)
            {
                self.signatures.insert(type_signature.0, die);
            }
            let (unit, index, language, has_hooks) = Default::default();
            self.units.push(UnitSlot { origin, skeleton, header, unit, index, language, has_hooks });
        }
    }

    /// Number of units.
    pub fn unit_count(&self) -> u32 {
        u32::try_from(self.units.len()).unwrap_or(u32::MAX)
    }

    /// The sections that the unit's own offsets point into.
    pub(super) fn dwarf_of(&self, unit: u32) -> &Dwarf<'a> {
        match (self.units[unit as usize].origin, self.dwarf.sup()) {
            (Origin::Supplementary, Some(sup)) => sup,
            (Origin::Split { file, .. }, _) => &self.split[file],
            _ => &self.dwarf,
        }
    }

    /// The parsed unit; `None` where it is damaged.
    pub(super) fn unit(&self, unit: u32) -> Option<&Unit<'a>> {
        let slot = self.units.get(unit as usize)?;
        let read = || {
            let mut parsed = self.dwarf_of(unit).unit(slot.header).ok()?;
            if let Some(skeleton) = slot.skeleton.and_then(|skeleton| self.unit(skeleton)) {
                parsed.copy_relocated_attributes(skeleton);
            }
            Some(parsed)
        };
        slot.unit.get_or_init(read).as_ref()
    }

    /// The unit's index of scopes, functions and variables.
    pub(super) fn index(&self, unit: u32) -> &UnitIndex {
        self.units[unit as usize].index.get_or_init(|| UnitIndex::read(self, unit).unwrap_or_default())
    }

    /// Whether any of it is of Fortran.
    pub(crate) fn has_fortran(&self) -> bool {
        (0..self.units.len()).any(|unit| self.language(unit as u32) == Language::Fortran)
    }

    /// Language of the unit. Units that `dwz` made carry none; they take that of the first unit that has one.
    pub(super) fn language(&self, unit: u32) -> Language {
        let own = |unit: u32| {
            *self.units[unit as usize].language.get_or_init(|| {
                let root = self.entry(self.root(unit)?)?;
                match root.attr_value(dw::DW_AT_language)? {
                    AttributeValue::Language(language) => Some(language_of(language)),
                    _ => None,
                }
            })
        };
        own(unit).or_else(|| (0..self.unit_count()).find_map(own)).unwrap_or(Language::Other)
    }

    /// The unit's outermost entry.
    pub(super) fn root(&self, unit: u32) -> Option<Die> {
        Die::new(unit as usize, self.units.get(unit as usize)?.header.root_offset())
    }

    /// Reads one entry.
    pub(super) fn entry(&self, die: Die) -> Option<Entry<'a>> {
        self.unit(die.unit)?.entry(die.unit_offset()).ok()
    }

    /// Calls `visit` with each direct child of `die`, in order.
    pub(super) fn for_each_child(&self, die: Die, mut visit: impl FnMut(Die, &Entry<'a>)) -> Option<()> {
        let unit = self.unit(die.unit)?;
        let mut cursor = unit.entries_at_offset(die.unit_offset()).ok()?;
        let parent = cursor.next_dfs().ok()??;
        if !parent.has_children() || !cursor.next_entry().ok()? {
            return Some(());
        }
        let mut current = cursor.current();
        while let Some(entry) = current {
            visit(Die::new(die.unit as usize, entry.offset())?, entry);
            current = cursor.next_sibling().ok()?;
        }
        Some(())
    }

    /// The entry that a reference attribute of a `from` entry points to.
    pub(super) fn follow(&self, from: Die, value: &Value<'a>) -> Option<Die> {
        match *value {
            AttributeValue::UnitRef(offset) => Die::new(from.unit as usize, offset),
            AttributeValue::DebugInfoRef(offset) => {
                let origin = match self.units[from.unit as usize].origin {
                    Origin::Info | Origin::Types => Origin::Info,
                    Origin::Supplementary => Origin::Supplementary,
                    Origin::Split { file, .. } => Origin::Split { file, types: false },
                };
                self.in_section(origin, offset.0)
            }
            AttributeValue::DebugInfoRefSup(offset) => self.in_section(Origin::Supplementary, offset.0),
            AttributeValue::DebugTypesRef(signature) => self.signatures.get(&signature.0).copied(),
            _ => None,
        }
    }

    fn in_section(&self, origin: Origin, offset: usize) -> Option<Die> {
        let first = self.units.partition_point(|slot| slot.origin < origin);
        let last = self.units.partition_point(|slot| slot.origin <= origin);
        let found = self.units[first..last].partition_point(|slot| slot.header.offset().0 <= offset);
        let unit = first + found.checked_sub(1)?;
        let offset = gimli::UnitSectionOffset(offset).to_unit_offset(&self.units[unit].header)?;
        Die::new(unit, offset)
    }

    /// The entry that `attribute` of `die` refers to.
    pub(super) fn reference(&self, die: Die, entry: &Entry<'a>, attribute: DwAt) -> Option<Die> {
        self.follow(die, &entry.attr_value(attribute)?)
    }

    /// `DW_AT_type`, looked for in the abstract origin or specification too.
    pub(super) fn type_of(&self, die: Die) -> Option<Die> {
        self.inherited(die, |die, entry| self.reference(die, entry, dw::DW_AT_type))
    }

    /// The name with its template arguments, looked for in the abstract origin or specification too.
    pub(super) fn name(&self, die: Die) -> Option<Cow<'a, str>> {
        self.inherited(die, |die, entry| self.full_name(die, entry))
    }

    /// `DW_AT_name` of the entry itself, as it is there.
    pub(super) fn own_name(&self, die: Die, entry: &Entry<'a>) -> Option<&'a str> {
        self.text(die, entry.attr_value(dw::DW_AT_name)?)
    }

    /// The text that an attribute of the entry is.
    pub(super) fn text(&self, die: Die, value: Value<'a>) -> Option<&'a str> {
        let bytes = self.dwarf_of(die.unit).attr_string(self.unit(die.unit)?, value).ok()?;
        str::from_utf8(bytes.slice()).ok()
    }

    /// What `read` finds in `die`, else in the entry it instantiates or completes (at most a few steps away).
    pub(super) fn inherited<T>(&self, die: Die, read: impl Fn(Die, &Entry<'a>) -> Option<T>) -> Option<T> {
        let mut die = die;
        for _ in 0..8 {
            let entry = self.entry(die)?;
            if let Some(found) = read(die, &entry) {
                return Some(found);
            }
            die = self.declaration_of(die, &entry)?;
        }
        None
    }

    /// The entry that `entry` instantiates (`DW_AT_abstract_origin`) or completes (`DW_AT_specification`).
    pub(super) fn declaration_of(&self, die: Die, entry: &Entry<'a>) -> Option<Die> {
        self.reference(die, entry, dw::DW_AT_abstract_origin)
            .or_else(|| self.reference(die, entry, dw::DW_AT_specification))
    }

    /// Where `die` is declared.
    pub(super) fn declared_at(&self, die: Die) -> Option<SourcePosition> {
        self.inherited(die, |die, entry| {
            let line = unsigned(entry, dw::DW_AT_decl_line)?;
            let AttributeValue::FileIndex(file) = entry.attr_value(dw::DW_AT_decl_file)? else { return None };
            let column = unsigned(entry, dw::DW_AT_decl_column).unwrap_or(0);
            Some(SourcePosition {
                file: self.file_path(die.unit, file)?,
                line: u32::try_from(line).ok()?,
                column: u32::try_from(column).unwrap_or(0),
            })
        })
    }

    fn file_path(&self, unit: u32, file: u64) -> Option<String> {
        // Of a unit in a `.dwo` file its skeleton has the list of files.
        let is_listed = |unit: &u32| self.unit(*unit).is_some_and(|unit| unit.line_program.is_some());
        let unit = [Some(unit), self.units[unit as usize].skeleton].into_iter().flatten().find(is_listed)?;
        let dwarf = self.dwarf_of(unit);
        let unit = self.unit(unit)?;
        let header = unit.line_program.as_ref()?.header();
        let entry = header.file(file)?;
        let text = |value| Some(text_of_bytes(dwarf.attr_string(unit, value).ok()?.slice()).into_owned());
        let mut path = text(entry.path_name())?;
        if let Some(directory) = entry.directory(header).and_then(text) {
            path = join(&directory, &path);
        }
        if let Some(directory) = unit.comp_dir {
            path = join(&text_of_bytes(directory.slice()), &path);
        }
        Some(path)
    }

    /// Whether gcc has put a sanitizer's hooks into a unit's code (`-fsanitize=thread`), as far as it says how that was compiled.
    pub(super) fn has_hooks(&self, unit: u32) -> bool {
        let told = self.units[unit as usize].has_hooks.get_or_init(|| {
            let root = self.entry(self.root(unit)?)?;
            let producer =
                self.dwarf_of(unit).attr_string(self.unit(unit)?, root.attr_value(dw::DW_AT_producer)?).ok()?;
            Some(producer.to_string_lossy().contains("-fsanitize=thread"))
        });
        told.unwrap_or(false)
    }

    /// Name with the namespaces and types around it, in the unit's language: `ns::Outer::Inner`.
    pub(super) fn qualified_name(&self, die: Die) -> Option<String> {
        let mut die = die;
        let mut parts = vec![self.name(die)?];
        for _ in 0..32 {
            // A definition outside its class is named after where it was declared.
            for _ in 0..8 {
                match self.entry(die).and_then(|entry| self.declaration_of(die, &entry)) {
                    Some(declaration) => die = declaration,
                    None => break,
                }
            }
            match self.index(die.unit).parent(die.offset) {
                Some(parent) => die = Die { unit: die.unit, offset: parent },
                None => break,
            }
            match self.entry(die)?.tag() {
                dw::DW_TAG_namespace
                | dw::DW_TAG_structure_type
                | dw::DW_TAG_class_type
                | dw::DW_TAG_union_type
                | dw::DW_TAG_enumeration_type => {
                    // In a unit for one type those around it are only named by their signatures.
                    let named = || self.name(self.reference(die, &self.entry(die)?, dw::DW_AT_signature)?);
                    parts.extend(self.name(die).or_else(named));
                }
                _ => break,
            }
        }
        parts.reverse();
        Some(parts.join("::"))
    }

    /// The type's definition where `die` only declares it: by signature, else by name among all units.
    pub(super) fn definition(&self, die: Die, entry: &Entry<'a>) -> Option<Die> {
        if let Some(target) = self.reference(die, entry, dw::DW_AT_signature) {
            return Some(target);
        }
        let name = self.qualified_name(die)?;
        let language = self.language(die.unit);
        let found = self.defined(&name)?.iter().copied();
        found.into_iter().find(|&found| self.language(found.unit) == language && !self.is_typedef(found))
    }

    /// The definitions of types by qualified name, over all units.
    pub(super) fn defined(&self, name: &str) -> Option<&[Die]> {
        self.definitions.get_or_init(|| self.read_definitions()).get(name).map(Vec::as_slice)
    }

    fn read_definitions(&self) -> HashMap<String, Vec<Die>> {
        let mut found: HashMap<String, Vec<Die>> = HashMap::new();
        for unit in 0..self.unit_count() {
            if let Some(root) = self.root(unit) {
                self.collect_definitions(root, "", 0, &mut found);
            }
        }
        found
    }

    fn collect_definitions(&self, die: Die, prefix: &str, depth: u32, found: &mut HashMap<String, Vec<Die>>) {
        let mut nested = Vec::new();
        self.for_each_child(die, |child, entry| {
            let namespace = entry.tag() == dw::DW_TAG_namespace;
            let defines = match entry.tag() {
                dw::DW_TAG_typedef => self.reference(child, entry, dw::DW_AT_type).is_some_and(|target| {
                    self.entry(target).is_some_and(|to| is_aggregate(to.tag()) && !to.has_attr(dw::DW_AT_name))
                }),
                tag => is_aggregate(tag) || tag == dw::DW_TAG_enumeration_type,
            };
            if !namespace && !defines {
                return;
            }
            // A class completed outside the namespace or class that declares it.
            let completed = entry.has_attr(dw::DW_AT_specification).then(|| self.qualified_name(child)).flatten();
            let name = match self.full_name(child, entry) {
                _ if completed.is_some() => completed.unwrap_or_default(),
                Some(name) if prefix.is_empty() => name.into_owned(),
                Some(name) => format!("{prefix}::{name}"),
                None if namespace => prefix.to_owned(),
                None => return,
            };
            if !namespace && !flag(entry, dw::DW_AT_declaration) {
                found.entry(name.clone()).or_default().push(child);
            }
            if entry.has_children() && depth < 32 {
                nested.push((child, name));
            }
        });
        for (child, name) in nested {
            self.collect_definitions(child, &name, depth + 1, found);
        }
    }

    /// The unit whose code covers a link-time address.
    pub(super) fn unit_at(&self, address: u64) -> Option<u32> {
        let ranges = self.unit_ranges.get_or_init(|| {
            let mut ranges = Vec::new();
            // A skeleton has the addresses, and the unit that it is the skeleton of what is there.
            let mut filled: HashMap<u32, u32> = HashMap::new();
            for (unit, slot) in (0..).zip(&self.units) {
                if let Some(skeleton) = slot.skeleton {
                    filled.entry(skeleton).or_insert(unit);
                }
            }
            for skeleton in (0..self.unit_count()).filter(|&unit| self.units[unit as usize].skeleton.is_none()) {
                let Some(parsed) = self.unit(skeleton) else { continue };
                let mut entries = parsed.entries();
                let Ok(Some(root)) = entries.next_dfs() else { continue };
                let unit = filled.get(&skeleton).copied().unwrap_or(skeleton);
                ranges.extend(self.code_ranges(skeleton, root).into_iter().map(|(start, end)| (start, end, unit)));
            }
            ranges.sort_unstable();
            ranges
        });
        let after = ranges.partition_point(|range| range.0 <= address);
        // Ranges may nest where a linker folded functions, so a few before the nearest are looked at too.
        ranges[..after].iter().rev().take(8).find(|range| address < range.1).map(|range| range.2)
    }

    /// The function (`DW_TAG_subprogram` with code) that covers a link-time address.
    pub(super) fn function_at(&self, address: u64) -> Option<Die> {
        let unit = self.unit_at(address)?;
        self.index(unit).function_at(address).map(|offset| Die { unit, offset })
    }
}

/// What was found of the headers of units.
#[derive(Default)]
struct Headers<'a> {
    units: Vec<gimli::UnitHeader<Slice<'a>>>,
    /// Those for types (DWARF 4).
    types: Vec<gimli::UnitHeader<Slice<'a>>>,
    /// A header is damaged: what lies behind it is lost.
    is_cut: bool,
}

impl<'a> Headers<'a> {
    fn of(dwarf: &Dwarf<'a>) -> Self {
        let (mut found, mut units, mut types) = (Self::default(), dwarf.units(), dwarf.type_units());
        while let Some(header) = units.next().unwrap_or_else(|_| found.cut()) {
            found.units.push(header);
        }
        while let Some(header) = types.next().unwrap_or_else(|_| found.cut()) {
            found.types.push(header);
        }
        found
    }

    fn cut<T>(&mut self) -> Option<T> {
        self.is_cut = true;
        None
    }
}

impl Die {
    pub(super) fn new(unit: usize, offset: UnitOffset) -> Option<Self> {
        Some(Self { unit: u32::try_from(unit).ok()?, offset: u32::try_from(offset.0).ok()? })
    }

    pub(super) fn unit_offset(self) -> UnitOffset {
        UnitOffset(self.offset as usize)
    }
}

/// An attribute that is a non-negative constant.
pub(super) fn unsigned(entry: &Entry<'_>, attribute: DwAt) -> Option<u64> {
    match entry.attr(attribute)?.value() {
        AttributeValue::Sdata(value) => u64::try_from(value).ok(),
        value => value.udata_value(),
    }
}

/// A flag attribute; absent means no.
pub(super) fn flag(entry: &Entry<'_>, attribute: DwAt) -> bool {
    matches!(entry.attr_value(attribute), Some(AttributeValue::Flag(true)))
}

/// Whether a type is only declared there, or named by a signature: its definition is elsewhere.
pub(super) fn is_declared_only(entry: &Entry<'_>) -> bool {
    flag(entry, dw::DW_AT_declaration) || entry.has_attr(dw::DW_AT_signature)
}

/// Whether the tag is that of a type with members.
pub(super) fn is_aggregate(tag: DwTag) -> bool {
    matches!(tag, dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type | dw::DW_TAG_interface_type)
}

fn join(directory: &str, path: &str) -> String {
    if path.starts_with('/') || directory.is_empty() {
        path.to_owned()
    } else {
        format!("{}/{path}", directory.trim_end_matches('/'))
    }
}
