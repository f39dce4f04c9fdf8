//! The types of programs as their debug information declares them: what `slimline layouts` shows.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use slimline_analyze::declared_layout::{DeclaredLayout, is_rust_enum, lines};
use slimline_attribute::tables::{Type, TypeKind};
use slimline_attribute::typing::definitions::Definition;

use crate::assemble::layout::{language, view};
use crate::simulation::csv_cell;
use crate::view::{LayoutMember, Position};

/// Version of the JSON. 1: the first.
pub const LAYOUTS_SCHEMA: u32 = 1;

/// Directories of what is installed, whose headers are nobody's to change; and what compilers call the place of what is their own.
const INSTALLED: [&str; 5] = ["/usr/include/", "/usr/lib/", "/usr/lib64/", "/rustc/", "<built-in>"];
/// How types are called that compilers make for virtual calls.
const OF_COMPILERS: [&str; 2] = ["dyn ", "type(__vtype_"];

/// Everything `slimline layouts` shows, and its JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct LayoutsReport {
    /// [`LAYOUTS_SCHEMA`].
    pub schema: u32,
    /// Where types were read from.
    pub files: Vec<LayoutsFile>,
    /// Which types are looked at.
    pub filter: TypeFilter,
    /// Types of libraries that are not among `types`.
    pub left_out: u64,
    /// In the order that was asked for.
    pub types: Vec<TypeLayout>,
}

/// Which types are looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct TypeFilter {
    /// Names that they have, `*` and `?` standing for others; any where there is none.
    pub types: Vec<String>,
    /// Files that they are declared in, likewise.
    pub sources: Vec<String>,
    /// Least size.
    pub least_bytes: u64,
    /// Also types of libraries.
    pub all: bool,
}

impl TypeFilter {
    /// Whether some are left out, beside those of libraries.
    pub fn chooses(&self) -> bool {
        !self.types.is_empty() || !self.sources.is_empty() || self.least_bytes > 0
    }
}

/// A program, library or object file.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct LayoutsFile {
    /// Its path, as it was named.
    pub path: String,
    /// Its separate debug file; none where it has debug information itself.
    pub debug_file: Option<String>,
    /// Its compilation units.
    pub units: u32,
    /// What is missing, in words; empty where nothing is.
    pub missing: Vec<String>,
}

/// A structure, class or union.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct TypeLayout {
    /// Name as its language spells it.
    pub name: String,
    /// `structure`, `union`, `enum` (of Rust, with fields).
    pub kind: String,
    /// `c`, `c++`, `rust`, `fortran`, `other`.
    pub language: String,
    /// Size.
    pub bytes: u64,
    /// What its address is a multiple of.
    pub alignment: u64,
    /// Cache lines of 64 bytes that it takes, where it begins at a line's start.
    pub lines: u64,
    /// Holes between its own members.
    pub holes: u64,
    /// Their bytes.
    pub hole_bytes: u64,
    /// Bytes behind its last member.
    pub padding_bytes: u64,
    /// Members that lie on two lines and would fit in one.
    pub crossings: Vec<String>,
    /// Where it is declared; none where not known.
    pub declared_at: Option<Position>,
    /// Compilation units that define it.
    pub units: u32,
    /// Types of this name, with this one: several have other layouts, or are declared elsewhere.
    pub same_name: u32,
    /// Whether nobody knows where its virtual bases lie: what looks like padding may be these.
    #[serde(default)]
    pub lacks_virtual_bases: bool,
    /// Members and holes, those of structures within it, too.
    pub members: Vec<LayoutMember>,
}

impl TypeLayout {
    /// That of a definition whose type is a row of `types`.
    pub fn of(definition: &Definition, types: &[Type]) -> Option<Self> {
        let type_ = &types[definition.type_id.index()];
        let found = DeclaredLayout::of(types, definition.type_id);
        let kind = match type_.kind {
            TypeKind::Union if is_rust_enum(types, type_) => "enum",
            TypeKind::Union => "union",
            _ => "structure",
        };
        Some(Self {
            name: type_.name.clone(),
            kind: kind.to_owned(),
            language: language(type_.language).to_owned(),
            bytes: type_.bytes,
            alignment: definition.alignment,
            lines: lines(type_.bytes),
            holes: found.holes.len() as u64,
            hole_bytes: found.hole_bytes(),
            padding_bytes: found.padding_bytes,
            crossings: found.crossings.into_iter().map(|crossing| crossing.name).collect(),
            declared_at: definition.declared_at.as_ref().map(|at| Position { file: at.file.clone(), line: at.line }),
            units: definition.units,
            same_name: 1,
            lacks_virtual_bases: definition.lacks_virtual_bases,
            members: view(definition.type_id, types)?.members,
        })
    }
}

/// Whether a type is a library's or the language's own, by its name and where it is declared.
pub fn is_library(definition: &Definition, types: &[Type]) -> bool {
    let type_ = &types[definition.type_id.index()];
    let file = definition.declared_at.as_ref().map_or("", |at| at.file.as_str());
    // What has no directory of its own is behind that of the unit.
    let file = file.find('<').map_or(file, |at| &file[at..]);
    type_.is_built_in()
        || INSTALLED.iter().any(|installed| file.starts_with(installed))
        || OF_COMPILERS.iter().any(|begin| type_.name.starts_with(begin))
}

/// What types are put in order by; the largest number first, but names from A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutOrder {
    /// Bytes.
    Size,
    /// Bytes of holes, then of padding.
    Holes,
    /// Members that cross a line.
    Crossings,
    /// Name.
    Name,
}

impl LayoutsReport {
    /// The report of these types, in that order; those of one name are counted.
    pub fn new(
        files: Vec<LayoutsFile>,
        (filter, left_out): (TypeFilter, u64),
        mut types: Vec<TypeLayout>,
        order: LayoutOrder,
    ) -> Self {
        let mut names: HashMap<(String, String), u32> = HashMap::new();
        for layout in &types {
            *names.entry((layout.language.clone(), layout.name.clone())).or_default() += 1;
        }
        for layout in &mut types {
            layout.same_name = names[&(layout.language.clone(), layout.name.clone())];
        }
        let place = |layout: &TypeLayout| layout.declared_at.clone().map(|at| (at.file, at.line));
        types.sort_by_cached_key(|layout| (layout.name.clone(), place(layout), layout.bytes));
        types.sort_by_key(|layout| {
            std::cmp::Reverse(match order {
                LayoutOrder::Size => (layout.bytes, layout.hole_bytes),
                LayoutOrder::Holes => (layout.hole_bytes, layout.padding_bytes),
                LayoutOrder::Crossings => (layout.crossings.len() as u64, layout.bytes),
                LayoutOrder::Name => (0, 0),
            })
        });
        Self { schema: LAYOUTS_SCHEMA, files, filter, left_out, types }
    }

    /// Names that several types have.
    pub fn ambiguous_names(&self) -> u64 {
        let mut names: Vec<_> = self.types.iter().filter(|layout| layout.same_name > 1).map(key).collect();
        names.sort_unstable();
        names.dedup();
        names.len() as u64
    }

    /// As JSON, indented, with a line end.
    pub fn json(&self) -> String {
        crate::pretty(self)
    }

    /// A line for each type, without members, as CSV.
    pub fn csv(&self) -> String {
        let mut text = "name,kind,language,bytes,alignment,lines,holes,hole_bytes,padding_bytes,crossings,\
                        declared_in,line,units,same_name\n"
            .to_owned();
        for layout in &self.types {
            let TypeLayout { name, kind, language, bytes, alignment, lines, holes, hole_bytes, .. } = layout;
            let TypeLayout { padding_bytes, crossings, declared_at, units, same_name, .. } = layout;
            let [name, crossings] = [name.clone(), crossings.join(" ")].map(|cell| csv_cell(&cell));
            let (file, line) =
                declared_at.as_ref().map_or_else(Default::default, |at| (csv_cell(&at.file), at.line.to_string()));
            text += &format!(
                "{name},{kind},{language},{bytes},{alignment},{lines},{holes},{hole_bytes},{padding_bytes},\
                 {crossings},{file},{line},{units},{same_name}\n"
            );
        }
        text
    }
}

fn key(layout: &TypeLayout) -> (&str, &str) {
    (&layout.language, &layout.name)
}
