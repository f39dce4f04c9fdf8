//! Of which structures objects are: what a new layout of these has to know.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashSet;
use slimline_attribute::tables::Language;
use slimline_simulate::relocated::is_object;
use slimline_trace::stream::decode::{Program, SiteId};

use super::elements::{Content, Element, ElementId, Fit, NO_ELEMENT, Part};
use super::findings::{is_own, place};
use super::heap::blocks::Blocks;
use super::heap::live_blocks::{BlockNumber, NO_GROUP};
use super::held_values::{HeldValues, Narrower};
use super::objects::Object;
use super::spots::Memory;

/// How elements of a structure fill an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// It is one.
    One,
    /// One behind the other.
    Array,
    /// Otherwise: one with something behind it.
    Otherwise,
}

/// What an object consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectStructure {
    /// Which of [`Structured::structures`].
    pub structure: u32,
    /// How.
    pub filled: Filled,
    /// Bytes before the first element.
    pub skipped: u32,
}

/// A field of a structure, or those that share bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldShape {
    /// Its name; of those that share bytes all of them.
    pub name: String,
    /// As it is spelled; of those that share bytes that of the first.
    pub type_name: String,
    /// From the structure's beginning.
    pub offset: u32,
    /// Its size.
    pub bytes: u32,
    /// Bit-fields, or members of a union.
    pub is_shared: bool,
    /// What holds it to its place.
    pub hold: Hold,
    /// A narrower type that would hold all that it was seen to hold; none where no value was told.
    pub narrower: Option<Narrower>,
}

/// What holds a field to its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// Nothing does.
    #[default]
    None,
    /// It is a parent or a member without a name: it stays in front, or moves as one to where other fields of its element are not.
    AsOne,
    /// It is a table of virtual functions, or a parent with one: it stays in front, and where it is the others are, too.
    WithAll,
}

impl FieldShape {
    /// Whether it holds a pointer to data.
    pub fn leads_on(&self) -> bool {
        const POINTERS: [&str; 14] = [
            "*",
            "&",
            "Box<",
            "NonNull<",
            "_ptr<",
            "Rc<",
            "Arc<",
            "Vec<",
            "vector<",
            "basic_string<",
            "deque<",
            "list<",
            "map<",
            "set<",
        ];
        let is_function = self.type_name.contains("(*)(") || self.type_name.contains("fn(");
        !is_function && POINTERS.iter().any(|word| self.type_name.contains(word))
    }
}

/// A line that accesses a structure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TouchingLine {
    /// As the compiler was given it.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// Where in the structure; none where the instruction does not say it by itself.
    pub offset: Option<u32>,
    /// Where the compiler ran: a relative file is below it. Empty where it is not known.
    pub directory: String,
}

impl TouchingLine {
    /// Where the file is, from wherever one looks, if that is known; else as the compiler was given it.
    pub fn path(&self) -> PathBuf {
        Path::new(&self.directory).join(&self.file)
    }
}

/// A structure as it is declared.
#[derive(Clone, Debug, PartialEq)]
pub struct StructureShape {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u32,
    /// Rust, or C for what is C or C++.
    pub language: Language,
    /// It is known by a `typedef`'s name.
    pub is_alias: bool,
    /// It is of the system's headers, or a library's of the language.
    pub is_foreign: bool,
    /// It has an atomic among its members.
    pub has_atomics: bool,
    /// Its members, by offset.
    pub fields: Vec<FieldShape>,
    /// Lines that access it, in order.
    pub lines: Vec<TouchingLine>,
}

/// The structures of objects.
#[derive(Clone, Debug, Default)]
pub struct Structured {
    /// Those that objects are of.
    pub structures: Vec<StructureShape>,
    /// By object; none where it is not known.
    pub objects: Vec<Option<ObjectStructure>>,
}

impl Structured {
    /// Takes over which fields could be narrower from another reading of the same trace, whose objects have other numbers.
    pub fn narrow_as(&mut self, other: &Self) {
        for own in &mut self.structures {
            let is_same = |of: &&StructureShape| (&of.name, of.bytes) == (&own.name, own.bytes);
            let mut all = other.structures.iter().filter(is_same);
            // Two of one name are not told from each other.
            if let (Some(of), None) = (all.next(), all.next()) {
                let fields = own.fields.iter_mut().zip(&of.fields);
                fields.for_each(|(field, known)| field.narrower = known.narrower);
            }
        }
    }
}

/// What is known of objects so far.
#[derive(Debug, Default)]
pub(super) struct ObjectStructures {
    /// None where nobody asked.
    values: Option<HeldValues>,
    /// By object.
    contents: Vec<Content>,
    /// Which sites access which structures; and by site the one that it accessed last.
    touching: FxHashSet<(ElementId, u32)>,
    last: Vec<ElementId>,
}

impl ObjectStructures {
    /// Also tells what fields hold.
    pub(super) fn with_values() -> Self {
        Self { values: Some(HeldValues::default()), ..Self::default() }
    }

    /// Who takes in what fields hold.
    pub(super) fn values(&mut self) -> Option<&mut HeldValues> {
        self.values.as_mut()
    }

    /// What an access tells of the block that it is to.
    pub(super) fn learn(&mut self, memory: &mut Memory<'_>, number: BlockNumber, (site, address): (u32, u64)) {
        let block = memory.live.block(number);
        let bytes = block.end - block.start;
        if block.group != NO_GROUP
            && let Some(learned) = memory.elements.learned(block.content, site, address - block.start, bytes)
        {
            memory.live.learn(number, learned);
        }
    }

    /// A site accesses an object that has this in it now.
    pub(super) fn access(&mut self, object: u32, content: Content, site: u32) {
        if !is_object(object) {
            return;
        }
        let (object, of_site) = (object as usize, site as usize);
        if self.contents.len() <= object {
            self.contents.resize(object + 1, Content::default());
        }
        self.contents[object] = content;
        if self.last.len() <= of_site {
            self.last.resize(of_site + 1, NO_ELEMENT);
        }
        let element = content.element();
        if element != NO_ELEMENT && std::mem::replace(&mut self.last[of_site], element) != element {
            self.touching.insert((element, site));
        }
    }

    pub(super) fn finish(&self, program: &Program, blocks: &Blocks, objects: &[Object]) -> Structured {
        let elements = blocks.elements();
        let mut numbers = vec![None; elements.count() as usize];
        let mut structured = Structured::default();
        let mut of_elements = Vec::new();
        for object in 0..objects.len() {
            let content = self.contents.get(object).copied().unwrap_or_default();
            let filled = match content.fit() {
                Fit::None => None,
                Fit::Whole => Some(Filled::One),
                Fit::Repeats => Some(Filled::Array),
                Fit::First | Fit::Open => Some(Filled::Otherwise),
            };
            structured.objects.push(filled.map(|filled| {
                let element = content.element();
                let structure = *numbers[element as usize].get_or_insert_with(|| {
                    let mut shape = shape(elements.get(element), |of| elements.get(of));
                    if let Some(values) = &self.values {
                        shape.fields.iter_mut().for_each(|field| field.narrower = values.narrower(element, field));
                    }
                    structured.structures.push(shape);
                    of_elements.push(element);
                    structured.structures.len() as u32 - 1
                });
                ObjectStructure { structure, filled, skipped: content.skipped() }
            }));
        }
        for &(element, site) in &self.touching {
            let Some(number) = numbers[element as usize] else { continue };
            let (module, site) = program.site(SiteId(site));
            let at = place(module, site);
            if at.line == 0 || !is_own(&at) {
                continue;
            }
            let is_by_name = module.name(site.structure) == elements.get(element).declaration.name;
            let offset = site.offset_bytes.filter(|_| is_by_name);
            let directory = module.name(module.directory).to_owned();
            let line = TouchingLine { file: at.file, line: at.line, offset, directory };
            structured.structures[number as usize].lines.push(line);
        }
        for structure in &mut structured.structures {
            structure.lines.sort_unstable();
            structure.lines.dedup();
        }
        structured
    }
}

/// Whether a field is a table of virtual functions, or a parent that has one.
fn has_table<'e>(part: &Part, of: &impl Fn(ElementId) -> &'e Element) -> bool {
    let is_in = |inner: &ElementId| of(*inner).parts.iter().any(|part| has_table(part, of));
    part.name.starts_with("_vptr") || (!part.has_name() && part.made_of.iter().any(is_in))
}

fn shape<'e>(element: &Element, of: impl Fn(ElementId) -> &'e Element) -> StructureShape {
    let declaration = &element.declaration;
    let field = |part: &Part| FieldShape {
        name: part.name.clone(),
        type_name: part.type_name.clone(),
        offset: part.offset_bytes,
        bytes: part.bytes,
        is_shared: part.is_shared(),
        hold: match part.has_name() {
            _ if has_table(part, &of) => Hold::WithAll,
            true => Hold::None,
            false => Hold::AsOne,
        },
        narrower: None,
    };
    let is_atomic = |part: &Part| {
        part.type_name.starts_with("_Atomic") || part.made_of.iter().any(|inner| of(*inner).declaration.is_atomic())
    };
    StructureShape {
        name: declaration.name.clone(),
        bytes: declaration.bytes,
        language: if declaration.is_rusts { Language::Rust } else { Language::C },
        is_alias: declaration.is_alias,
        is_foreign: declaration.is_foreign,
        has_atomics: element.parts.iter().any(is_atomic),
        fields: element.parts.iter().map(field).collect(),
        lines: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_files_are_where_the_compiler_ran() {
        let path = |directory: &str, file: &str| {
            let line = TouchingLine { file: file.to_owned(), line: 1, offset: None, directory: directory.to_owned() };
            line.path().display().to_string()
        };
        assert_eq!(path("/src/sky", "lib/star.c"), "/src/sky/lib/star.c");
        assert_eq!(path("/src/sky", "/usr/src/moon.c"), "/usr/src/moon.c");
        assert_eq!(path("", "star.c"), "star.c");
    }
}
