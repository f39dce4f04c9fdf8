//! Another layout of a structure, written into the sources of a C or C++ program.
//!
//! Clang's syntax trees ([`tree`]) tell every use that all units of the program make of the structure (`uses`). Each kind of change knows
//! which uses it can keep right, and how: by edits of single tokens, so that everything else stays as its authors wrote it, and by code behind the
//! definition. If it does not know so of one use, nothing changes, and that use is told ([`Refusal`]).
//!
//! - `record`: the definition and the text of its fields; `names`: what types have to do with it.
//! - `allocation`, `flows`: where blocks of it are allocated, and which variables point to the first of an array.
//! - `reorder`: other orders, alignments; `pool`: blocks side by side; `hot_cold`: what is hardly used behind a pointer; `split`: arrays of parts;
//!   `generated`: the code behind the definition.
//! - [`edits`]: new texts, and the diff; [`program`]: what clang and files say.
//!
//! No file is changed here.

mod allocation;
pub mod edits;
mod flows;
mod generated;
mod hot_cold;
mod names;
mod pool;
pub mod program;
mod record;
mod reorder;
mod source;
mod split;
pub mod tree;
mod uses;

use rustc_hash::FxHashMap;

pub use crate::edits::Edits;
use crate::names::Names;
pub use crate::program::Program;
use crate::record::Definition;
pub use crate::source::Source;
use crate::tree::{FileId, Node, Place, Spot};
use crate::uses::{OfUnit, Use, Uses, What};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its fields get another order.
    Reorder,
    /// Likewise, if that is another one, and its elements are aligned to so many bytes.
    Align(u32),
    /// Blocks of it lie side by side.
    Pool,
    /// The first part stays, the second one goes behind a pointer; blocks of the first part lie side by side, or are where `malloc` has them.
    HotCold {
        /// See there.
        is_pool: bool,
    },
    /// The first part stays, others get arrays of their own.
    Split,
}

/// A structure that is to be laid out in another way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its tag, or another name of it, without scopes.
    pub structure: String,
    /// What is to be done.
    pub change: Change,
    /// Names of the fields of each part.
    pub parts: Vec<Vec<String>>,
}

/// Why nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// File and line, where it is for something that stands there.
    pub at: Option<(FileId, usize)>,
    /// In words: a sentence without its end.
    pub why: String,
}

impl Refusal {
    fn of(why: impl Into<String>) -> Self {
        Self { at: None, why: why.into() }
    }
}

/// The edits that make a change; where one thing can't be understood, none.
///
/// # Errors
/// What that is.
pub fn patch(program: &Program, wanted: &Wanted) -> Result<Edits, Refusal> {
    let found = Found::of(program, &wanted.structure)?;
    let definition = &found.definition;
    let names: Vec<&String> = definition.fields.iter().map(|field| &field.name).collect();
    let number = |name: &String| names.iter().position(|known| *known == name);
    let parts: Option<Vec<Vec<usize>>> = wanted.parts.iter().map(|part| part.iter().map(number).collect()).collect();
    let count = |parts: &Vec<Vec<usize>>| parts.iter().map(Vec::len).sum::<usize>();
    let Some(parts) = parts.filter(|parts| count(parts) == names.len()) else {
        return Err(found.refusal(definition.start, "its members here are not those that were traced"));
    };
    if let Some(field) = definition.fields.iter().find(|field| field.is_bit_field) {
        let at = definition.declarations[field.declaration].first;
        return Err(found.refusal(at, "it has bit-fields"));
    }
    let mut patching = Patching { program, found: &found, edits: Edits::default(), changes: FxHashMap::default() };
    match wanted.change {
        Change::Reorder => patching.reorder(&parts.concat(), None)?,
        Change::Align(bytes) => patching.reorder(&parts.concat(), Some(bytes))?,
        Change::Pool => patching.pool()?,
        Change::HotCold { is_pool } => {
            let [hot, cold] = parts.as_slice() else { return Err(Refusal::of("it has not two parts")) };
            patching.hot_cold((hot, cold), is_pool)?;
        }
        Change::Split => patching.split(&parts)?,
    }
    patching.finish()
}

/// The structure as the program has it.
struct Found<'a> {
    program: &'a Program,
    definition: Definition,
    /// Names by which any unit knows it.
    alias: String,
    uses: Uses,
    is_cpp: bool,
    /// By unit.
    names: Vec<Names>,
    /// Units that the definition is in.
    units_with_definition: usize,
}

/// A declaration of the structure in a unit.
struct Declared<'a> {
    node: &'a Node,
    is_in_namespace: bool,
    is_at_top: bool,
}

impl<'a> Found<'a> {
    fn of(program: &'a Program, structure: &str) -> Result<Self, Refusal> {
        let mut declared: Vec<Option<Declared<'a>>> = Vec::new();
        for unit in &program.units {
            let mut of_unit = Vec::new();
            declarations(&unit.tree, structure, (false, true), &mut of_unit);
            if of_unit.len() > 1 {
                return Err(Refusal::of("there are several structures of that name"));
            }
            declared.push(of_unit.pop());
        }
        let Some(first) = declared.iter().flatten().next() else {
            return Err(Refusal::of("no source that the commands compile defines it"));
        };
        let spot = first.node.begin.spelled;
        if declared.iter().flatten().any(|other| other.node.begin.spelled != spot) {
            return Err(Refusal::of("there are several structures of that name"));
        }
        let Some(file) = spot.file else { return Err(Refusal::of("it is a library's")) };
        let source = &program.sources[file as usize];
        let at = |offset: usize, why: String| Refusal { at: Some((file, source.line(offset))), why };
        if !first.is_at_top {
            return Err(at(spot.offset, "it is defined in a function or in another type".to_owned()));
        }
        if first.node.tag == "union" {
            return Err(at(spot.offset, "it is a union".to_owned()));
        }
        let definition = Definition::read(first.node, (file, source), first.is_in_namespace)
            .map_err(|(offset, why)| at(offset, why))?;
        let members = members(first.node);
        for (unit, other) in program.units.iter().zip(&declared) {
            if other.as_ref().is_some_and(|other| self::members(other.node) != members) {
                let path = unit.command.path();
                return Err(at(
                    spot.offset,
                    format!("its members in {} are others than in another unit", path.display()),
                ));
            }
        }
        let types: Vec<String> = definition.fields.iter().map(|field| field.type_text.clone()).collect();
        let (mut uses, mut names) = (Uses::default(), Vec::new());
        for (number, (unit, declared)) in program.units.iter().zip(&declared).enumerate() {
            let record = declared.as_ref().map(|declared| declared.node);
            let fields = record.iter().flat_map(|record| record.inner.iter().filter(|inner| inner.kind == "FieldDecl"));
            let of_unit = OfUnit {
                names: Names::of(&definition.tag, unit.is_cpp),
                record: record.map_or("", |record| record.id.as_str()),
                fields: fields.enumerate().map(|(number, field)| (field.id.as_str(), number)).collect(),
                types: &types,
                sources: &program.sources,
            };
            names.push(uses.add(number, &unit.tree, &of_unit));
        }
        uses.finish();
        let is_cpp = program.units.iter().zip(&declared).any(|(unit, declared)| unit.is_cpp && declared.is_some());
        let units_with_definition = declared.iter().flatten().count();
        Ok(Self { program, definition, alias: structure.to_owned(), uses, is_cpp, names, units_with_definition })
    }

    fn source(&self) -> &'a Source {
        &self.program.sources[self.definition.file as usize]
    }

    /// At a byte of the file that defines it.
    fn refusal(&self, offset: usize, why: &str) -> Refusal {
        Refusal { at: Some((self.definition.file, self.source().line(offset))), why: why.to_owned() }
    }

    /// At some use.
    fn refusal_at(&self, spot: Spot, why: impl Into<String>) -> Refusal {
        let line =
            |file: FileId| self.program.sources.get(file as usize).map(|source| (file, source.line(spot.offset)));
        Refusal { at: spot.file.and_then(line), why: why.into() }
    }

    /// `struct node`, or the name that it has without a tag; in C++ its name.
    fn type_name(&self) -> String {
        if self.is_cpp { self.plain_name().to_owned() } else { self.definition.spelled(&self.alias) }
    }

    /// What new names begin with.
    fn plain_name(&self) -> &str {
        if self.definition.tag.is_empty() { &self.alias } else { &self.definition.tag }
    }

    /// A name that no source has.
    fn new_name(&self, name: &str) -> String {
        let is_taken = |name: &str| {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let has = |source: &Source| source.text.split(|c| !is_word(c)).any(|word| word == name);
            self.program.sources.iter().any(has)
        };
        let mut free = name.to_owned();
        while is_taken(&free) {
            free += "_";
        }
        free
    }
}

/// Names and types of a structure's members: a directive may leave some out, in some units.
fn members(record: &Node) -> Vec<(&str, &str)> {
    let fields = record.inner.iter().filter(|inner| inner.kind == "FieldDecl");
    fields.map(|field| (field.name.as_str(), field.type_text.text())).collect()
}

/// Finds the structure's complete declarations.
fn declarations<'a>(
    node: &'a Node,
    structure: &str,
    (is_in_namespace, is_at_top): (bool, bool),
    found: &mut Vec<Declared<'a>>,
) {
    for (number, inner) in node.inner.iter().enumerate() {
        if matches!(inner.kind.as_str(), "RecordDecl" | "CXXRecordDecl") && inner.is_complete && !inner.is_implicit {
            // One that has another name only is known by that.
            let aliases = node.inner[number + 1..].iter().filter(|next| next.kind.starts_with("Type"));
            let is_alias = |next: &Node| next.name == structure && uses::pointers_to(next, &inner.id) == Some(0);
            if inner.name == structure || aliases.into_iter().any(is_alias) {
                found.push(Declared { node: inner, is_in_namespace, is_at_top });
            }
        }
        let is_scope = matches!(inner.kind.as_str(), "NamespaceDecl" | "LinkageSpecDecl");
        let of_inner = (is_in_namespace || inner.kind == "NamespaceDecl", is_at_top && is_scope);
        declarations(inner, structure, of_inner, found);
    }
}

/// A change that is being made.
struct Patching<'a> {
    program: &'a Program,
    found: &'a Found<'a>,
    edits: Edits,
    /// How often each token is to change.
    changes: FxHashMap<Spot, usize>,
}

impl<'a> Patching<'a> {
    /// The place of a token that is to change: in a file of the program's.
    fn token(&mut self, place: Place) -> Result<(FileId, Spot), Refusal> {
        let Some(file) = place.spelled.file else {
            return Err(self.found.refusal_at(place.expanded, "a macro puts its use together"));
        };
        *self.changes.entry(place.spelled).or_default() += 1;
        Ok((file, place.spelled))
    }

    /// A range of tokens that is to be put between others: none of a macro.
    fn range(&self, begin: Place, end: Place) -> Result<(FileId, usize, usize), Refusal> {
        match begin.spelled.file {
            Some(file)
                if begin.spelled == begin.expanded && end.spelled == end.expanded && end.spelled.file == Some(file) =>
            {
                Ok((file, begin.spelled.offset, end.spelled.end()))
            }
            _ => Err(self.found.refusal_at(begin.expanded, "a macro is in the way")),
        }
    }

    fn source(&self, file: FileId) -> &'a Source {
        &self.program.sources[file as usize]
    }

    fn refuse(&self, use_: &Use, why: impl Into<String>) -> Refusal {
        self.found.refusal_at(use_.at, why)
    }

    /// What no change can keep right, in words.
    fn never(what: &What) -> Option<String> {
        Some(match what {
            What::Unknown(what) => format!("this use of it is not understood ({what})"),
            What::Cast(other) => format!("a pointer to it is taken for another type here ({other})"),
            What::Bytes(function) => format!("{function} reads or writes it as bytes"),
            What::External(name) => format!("{name} is defined in no source that is compiled"),
            What::ByPointer => "a function gets it that is called by a pointer, whose type does not tell so".to_owned(),
            What::Inside { is_union: true } => "it is a member of a union".to_owned(),
            What::Adopted(Some(function)) => format!("what {function} gives is taken for it"),
            What::Adopted(None) => "a pointer to anything is taken for one to it".to_owned(),
            _ => return None,
        })
    }

    /// All edits, if each is wanted wherever what it changes is read.
    fn finish(self) -> Result<Edits, Refusal> {
        for (spot, wanted) in &self.changes {
            if self.found.uses.readings.get(spot) != Some(wanted) {
                return Err(self.found.refusal_at(*spot, "this is used for other types, too"));
            }
        }
        for file in self.edits.files() {
            let source = self.source(file);
            if let Some(offset) = source.not_utf8 {
                let why = format!(
                    "a change is needed in this file, which is not UTF-8 (iconv -f latin1 -t utf-8 {} makes it so)",
                    source.path
                );
                return Err(Refusal { at: Some((file, source.line(offset))), why });
            }
        }
        if let Some(conflict) = self.edits.conflict() {
            let spot = Spot { file: Some(conflict.file), offset: conflict.offset, bytes: 0 };
            return Err(self.found.refusal_at(spot, "two changes want this to be different things"));
        }
        Ok(self.edits)
    }
}
