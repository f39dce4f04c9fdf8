//! Of which structures objects are: what a new layout of these has to know.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};
use slimline_attribute::tables::Language;
use slimline_simulate::relaid::Holds;
use slimline_simulate::relocated::is_object;
use slimline_trace::stream::decode::{Program, SiteId};
use slimline_trace::stream::sites::{Module, Site, SiteKind};

use super::elements::{Content, Element, ElementId, Elements, Fit, NO_ELEMENT, Part, language_of};
use super::findings::{is_own, place};
use super::heap::blocks::Blocks;
use super::heap::live_blocks::{BlockNumber, Group, NO_GROUP};
use super::held_values::{FewBits, HeldValues, Narrower};
use super::objects::Object;
use super::plans::plain_kind;
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
    /// It is an array of this field of each element, in the place of elements.
    Column(u32),
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
    /// Bits that would hold all that, beside those of other fields; none where they are many, no value was told, or several threads store it.
    pub few_bits: Option<FewBits>,
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
    /// It is an array whose address goes to code that is not traced: it stays an array of its own.
    Apart,
}

impl FieldShape {
    /// The same for a replay.
    pub fn holds(&self) -> Holds {
        if self.leads_on() { Holds::Pointer } else { Holds::Numbers }
    }

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
    /// Rust, Fortran, or C for what is C or C++.
    pub language: Language,
    /// It is known by a `typedef`'s name.
    pub is_alias: bool,
    /// It is of the system's headers, or a library's of the language.
    pub is_foreign: bool,
    /// It has an atomic among its members.
    pub has_atomics: bool,
    /// It is no structure: its fields are arrays of as many elements each ([`Filled::Column`]), which could be one.
    pub is_columns: bool,
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
    /// Objects that are arrays of numbers or pointers, each the only one of what allocates it.
    pub arrays: Vec<Array>,
}

/// An array of numbers or pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Number of the object.
    pub object: u32,
    /// As the source calls it where it is allocated or declared.
    pub name: String,
    /// All that it is called, there and where it is accessed: pointers to it have names of their own.
    pub names: BTreeSet<String>,
    /// Type of an element.
    pub type_name: String,
    /// Size of one.
    pub element_bytes: u32,
    /// How many.
    pub elements: u64,
    /// Rust, Fortran, or C for what is C or C++.
    pub language: Language,
    /// Lines that access it.
    pub lines: Vec<TouchingLine>,
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
                fields.for_each(|(field, known)| {
                    (field.narrower, field.few_bits) = (known.narrower, known.few_bits);
                });
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
    /// The same of what allocates objects of no structure.
    touching_plain: FxHashSet<(Group, u32)>,
    last_plain: Vec<Group>,
    /// By group, what its blocks may be arrays of.
    guesses: Vec<Guess>,
}

/// What sites name that access blocks of which nobody said what is in them, as a function that hands on what `malloc` returns knows no type.
#[derive(Clone, Copy, Debug, Default)]
struct Guess {
    element: ElementId,
    named: u32,
    unnamed: u32,
    /// Two sites contradict each other, or an access is not where it would be in an array of these.
    is_wrong: bool,
}

impl Guess {
    /// Looks that have to agree, and how many of them one may be that names nothing.
    const LEAST: u32 = 2;
    const UNNAMED: u32 = 4;

    fn see(&mut self, site: u32, at: u64, elements: &Elements) {
        let named = elements.named(SiteId(site));
        if named.element == NO_ELEMENT {
            self.unnamed = self.unnamed.saturating_add(1);
            return;
        }
        self.named = self.named.saturating_add(1);
        let holds = |outer: ElementId, inner| elements.get(outer).has_within(inner);
        if self.element == NO_ELEMENT || holds(named.element, self.element) {
            self.element = named.element;
        }
        if self.element != named.element {
            self.is_wrong |= !holds(self.element, named.element);
            return;
        }
        let size = u64::from(elements.get(named.element).declaration.bytes);
        self.is_wrong |= named.offset_bytes.is_some_and(|offset| at.checked_rem(size) != Some(offset.into()));
    }

    fn element(&self) -> Option<ElementId> {
        let is_known = !self.is_wrong && self.named >= Self::LEAST && self.unnamed <= self.named / Self::UNNAMED;
        is_known.then_some(self.element)
    }
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

    /// A site accesses an object of a group that has this in it now, so many bytes behind its beginning.
    pub(super) fn access(
        &mut self,
        (object, group): (u32, Group),
        content: Content,
        (site, at): (u32, u64),
        elements: &Elements,
    ) {
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
            self.last_plain.resize(of_site + 1, NO_GROUP);
        }
        let element = content.element();
        if element == NO_ELEMENT && group != NO_GROUP {
            let of_group = group as usize;
            if self.guesses.len() <= of_group {
                self.guesses.resize(of_group + 1, Guess::default());
            }
            self.guesses[of_group].see(site, at, elements);
        }
        if element != NO_ELEMENT && std::mem::replace(&mut self.last[of_site], element) != element {
            self.touching.insert((element, site));
        }
        if element == NO_ELEMENT && std::mem::replace(&mut self.last_plain[of_site], group) != group {
            self.touching_plain.insert((group, site));
        }
    }

    pub(super) fn finish(&self, program: &Program, blocks: &Blocks, objects: &[Object]) -> Structured {
        let elements = blocks.elements();
        let places = self.values.as_ref().map(HeldValues::places).unwrap_or_default();
        let mut numbers = vec![None; elements.count() as usize];
        let mut structured = Structured::default();
        let mut of_elements = Vec::new();
        for (object, &Object { origin, bytes, .. }) in objects.iter().enumerate() {
            let known = self.contents.get(object).copied().unwrap_or_default();
            let guessed = || elements.array_of(self.guesses.get(origin as usize)?.element()?, bytes);
            let content = Some(known).filter(|known| known.fit() != Fit::None).or_else(guessed).unwrap_or_default();
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
                    places.narrow(element, &mut shape.fields);
                    structured.structures.push(shape);
                    of_elements.push(element);
                    structured.structures.len() as u32 - 1
                });
                ObjectStructure { structure, filled, skipped: content.skipped() }
            }));
        }
        let guessed = |&(group, site): &(Group, u32)| Some((self.guesses.get(group as usize)?.element()?, site));
        let touching_guessed: Vec<(ElementId, u32)> = self.touching_plain.iter().filter_map(guessed).collect();
        for &(element, site) in self.touching.iter().chain(&touching_guessed) {
            let Some(number) = numbers[element as usize] else { continue };
            let (module, site) = program.site(SiteId(site));
            let is_by_name = module.name(site.structure) == elements.get(element).declaration.name;
            let offset = site.offset_bytes.filter(|_| is_by_name);
            structured.structures[number as usize].lines.extend(touching_line(module, site, offset));
        }
        structured.arrays = self.arrays(program, blocks, objects, &structured);
        for structure in &mut structured.structures {
            structure.lines.sort_unstable();
            structure.lines.dedup();
        }
        structured
    }

    /// Objects that are arrays of numbers or pointers. What allocates one must have allocated it alone: which of several goes with which one of
    /// another array's nobody knows.
    fn arrays(&self, program: &Program, blocks: &Blocks, objects: &[Object], structured: &Structured) -> Vec<Array> {
        let mut of_group: FxHashMap<Group, Option<u32>> = FxHashMap::default();
        for (number, object) in (0..).zip(objects) {
            let alone = structured.objects[number as usize].is_none().then_some(number);
            of_group.entry(object.origin).and_modify(|several| *several = None).or_insert(alone);
        }
        let mut sites: FxHashMap<Group, Vec<SiteId>> = FxHashMap::default();
        for &(group, site) in &self.touching_plain {
            sites.entry(group).or_default().push(SiteId(site));
        }
        let of = |(group, sites): (Group, Vec<SiteId>)| {
            let object = (*of_group.get(&group)?)?;
            let (module, site) = program.site(blocks.site_of(group));
            let declared = elements_of(module, site)?;
            if blocks.elements().named(blocks.site_of(group)).element != NO_ELEMENT {
                return None;
            }
            // A type's own name says nothing of its size, but instructions do.
            let widths = sites.iter().map(|site| program.site(*site).1).filter(|site| plain_kind(site.kind).is_some());
            let element_bytes = scalar_bytes(declared).or_else(|| widths.map(|site| site.size_bytes).min())?;
            let own = last_name(module, site);
            let (mut lines, mut names): (Vec<TouchingLine>, BTreeSet<String>) = (Vec::new(), [own.clone()].into());
            for site in sites {
                let (module, site) = program.site(site);
                names.extend(Some(last_name(module, site)).filter(|name| !name.is_empty()));
                lines.extend(touching_line(module, site, None));
            }
            lines.sort_unstable();
            lines.dedup();
            let is_known = (1..=8).contains(&element_bytes) && !own.is_empty();
            is_known.then(|| Array {
                object,
                name: own,
                names,
                type_name: declared.to_owned(),
                element_bytes,
                elements: objects[object as usize].bytes / u64::from(element_bytes),
                language: language_of(module, [declared]),
                lines,
            })
        };
        let mut arrays: Vec<Array> = sites.into_iter().filter_map(of).collect();
        arrays.sort_by_key(|array| array.object);
        arrays
    }
}

/// What a site calls what it accesses or allocates: of a member of something that member.
fn last_name(module: &Module, site: &Site) -> String {
    module.name(site.variable).rsplit(['.', '>']).next().unwrap_or_default().to_owned()
}

/// The line of a site, if the program has it itself.
fn touching_line(module: &Module, site: &Site, offset: Option<u32>) -> Option<TouchingLine> {
    let at = place(module, site);
    let directory = module.name(module.directory).to_owned();
    (at.line > 0 && is_own(&at)).then_some(TouchingLine { file: at.file, line: at.line, offset, directory })
}

/// The type of the elements of what a site allocates, or of the array that it declares; none where nobody tells, or it may grow.
fn elements_of<'m>(module: &'m Module, site: &Site) -> Option<&'m str> {
    let name = match site.kind {
        SiteKind::Static => {
            let (element, behind) = module.name(site.detail).split_once('[')?;
            // Rows of several elements have no number of their own.
            if behind.contains('[') {
                return None;
            }
            element.trim_end()
        }
        SiteKind::Allocate | SiteKind::AllocateZeroed => module.name(site.structure),
        _ => return None,
    };
    (!name.is_empty()).then_some(name)
}

/// Bytes of a type of numbers, or of pointers, by its name; none where it is one of the program's own.
fn scalar_bytes(type_name: &str) -> Option<u32> {
    const WORDS: [(&str, u32); 22] = [
        ("char", 1),
        ("bool", 1),
        ("_Bool", 1),
        ("short", 2),
        ("float", 4),
        ("double", 8),
        ("long", 8),
        ("size_t", 8),
        ("usize", 8),
        ("isize", 8),
        ("int", 4),
        ("unsigned", 4),
        ("f32", 4),
        ("f64", 8),
        ("u8", 1),
        ("i8", 1),
        ("u16", 2),
        ("i16", 2),
        ("u32", 4),
        ("i32", 4),
        ("u64", 8),
        ("i64", 8),
    ];
    if type_name.contains('*') || type_name.starts_with('&') {
        return Some(8);
    }
    if ["complex", "_Complex"].iter().any(|word| type_name.contains(word)) {
        return None;
    }
    let fixed = type_name.trim_start_matches('u').strip_prefix("int").and_then(|rest| rest.strip_suffix("_t"));
    if let Some(bits) = fixed.and_then(|bits| bits.parse::<u32>().ok()) {
        return Some(bits / 8);
    }
    let words: Vec<&str> = type_name.split(' ').collect();
    if words.contains(&"double") && words.contains(&"long") {
        return Some(16);
    }
    WORDS.into_iter().find(|(word, _)| words.contains(word)).map(|(_, bytes)| bytes)
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
        few_bits: None,
    };
    let is_atomic = |part: &Part| {
        part.type_name.starts_with("_Atomic") || part.made_of.iter().any(|inner| of(*inner).declaration.is_atomic())
    };
    StructureShape {
        name: declaration.name.clone(),
        bytes: declaration.bytes,
        language: declaration.language,
        is_alias: declaration.is_alias,
        is_foreign: declaration.is_foreign,
        has_atomics: element.parts.iter().any(is_atomic),
        is_columns: false,
        fields: element.parts.iter().map(field).collect(),
        lines: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_numbers_have_sizes() {
        let all =
            ["double", "float", "long unsigned int", "short int", "unsigned char", "uint16_t", "int64_t", "node *"];
        assert_eq!(all.map(scalar_bytes), [8, 4, 8, 2, 1, 2, 8, 8].map(Some));
        let others = ["unsigned int", "const int", "f32", "usize", "long double"];
        assert_eq!(others.map(scalar_bytes), [4, 4, 4, 8, 16].map(Some));
        assert_eq!(["real", "interval_t", ""].map(scalar_bytes), [None; 3]);
    }

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
