//! Hot and cold fields by counts (after T. Chilimbi, B. Davidson and J. Larus, PLDI 1999).
//!
//! A structure is *live* if it has more than a hundredth of the accesses that structures have on average. A field of it
//! is *cold* if it is accessed less than half as often as its fields are on average. The cold fields are worth a
//! structure of their own, behind a pointer, where they are larger than the pointer.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use slimline_attribute::tables::Language;
use slimline_trace::stream::sites::{Member, Module, Name, Site, Structure};

use crate::advise::definition::{Form, plain_name};

/// Alignment of most fields at the most: of the C types only `long double` and vectors have more.
const MOST_ALIGN: u32 = 8;

/// When fields are cold, and when that matters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitRules {
    /// A structure is live where it has more than this part of what structures have on average.
    pub live: f64,
    /// A field is cold where it has less than this part of what the structure's fields have on average.
    pub cold: f64,
    /// Structures up to this size stay as they are.
    pub small_bytes: u32,
    /// Size of the pointer to the cold part.
    pub pointer_bytes: u32,
}

impl Default for SplitRules {
    fn default() -> Self {
        Self { live: 0.01, cold: 0.5, small_bytes: 8, pointer_bytes: 8 }
    }
}

/// Whether a structure is to be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its cold fields are to be moved.
    Split,
    /// It is hardly accessed.
    NotLive,
    /// It is no larger than a pointer.
    Small,
    /// There is nothing to take apart.
    OneField,
    /// No field is cold.
    NothingCold,
    /// The pointer would be as large as what it replaces.
    LittleCold,
    /// It has a parent, members without a name, or an array without a length at its end: what it would become is not told.
    NotPlain,
}

/// A structure and what was accessed of it.
#[derive(Clone, Debug, PartialEq)]
pub struct StructureFindings {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u32,
    /// Accesses, counted for each field that they touch.
    pub accesses: u64,
    /// Those of them that are no field's: copies of the whole, paddings.
    pub elsewhere: u64,
    /// In their order; those that share bytes are one.
    pub fields: Vec<FieldCount>,
    /// What to do with it.
    pub verdict: Verdict,
    /// The two definitions; empty where it is not to be split.
    pub code: String,
}

/// A field and how often it was accessed.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldCount {
    /// Its name; of those that share bytes all of them.
    pub name: String,
    /// Its type, as C spells it; of those that share bytes that of the first.
    pub type_name: String,
    /// From the structure's beginning.
    pub offset_bytes: u32,
    /// Its size.
    pub bytes: u32,
    /// Loads and stores that touch it.
    pub accesses: u64,
    /// It is cold.
    pub is_cold: bool,
}

/// Structures that are accessed, while sites are looked at.
#[derive(Debug, Default)]
pub(super) struct Structures<'p> {
    /// By module and name: each module declares its own.
    accessed: BTreeMap<(*const Module, Name), (&'p Module, &'p Structure, StructureFindings)>,
}

impl<'p> Structures<'p> {
    /// A site of the module accesses memory so often.
    pub(super) fn add(&mut self, module: &'p Module, site: &Site, count: u64) {
        let found = match self.accessed.entry((module, site.structure)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let declared = module.structures.iter().find(|declared| declared.name == site.structure);
                let Some(declared) = declared else { return };
                new.insert((module, declared, Declaration::of(module, declared).not_accessed()))
            }
        };
        add(&mut found.2, site, count);
    }

    /// What to do with them, most accesses first.
    pub(super) fn judged(self, rules: &SplitRules) -> Vec<StructureFindings> {
        let mut structures: BTreeMap<Declaration, StructureFindings> = BTreeMap::new();
        for (module, declared, found) in self.accessed.into_values() {
            match structures.entry(Declaration::of(module, declared)) {
                Entry::Occupied(mut known) => known.get_mut().merge(&found),
                Entry::Vacant(new) => drop(new.insert(found)),
            }
        }
        let total: u64 = structures.values().map(|structure| structure.accesses).sum();
        let average = total as f64 / structures.len().max(1) as f64;
        let names: BTreeSet<String> = structures.keys().map(|declaration| declaration.name.clone()).collect();
        let judged = structures.into_iter().map(|(declaration, mut found)| {
            found.verdict = judge(&mut found, average, &names, rules);
            if found.verdict == Verdict::Split && !declaration.is_plain() {
                found.verdict = Verdict::NotPlain;
            }
            if found.verdict == Verdict::Split {
                found.code = definitions(&found, declaration.is_alias);
            }
            found
        });
        let mut found: Vec<_> = judged.collect();
        // Names are in order already.
        found.sort_by_key(|structure| std::cmp::Reverse(structure.accesses));
        found
    }
}

impl StructureFindings {
    /// Adds what was accessed of the same structure elsewhere.
    fn merge(&mut self, other: &Self) {
        self.accesses = self.accesses.saturating_add(other.accesses);
        self.elsewhere = self.elsewhere.saturating_add(other.elsewhere);
        for (field, other) in self.fields.iter_mut().zip(&other.fields) {
            field.accesses = field.accesses.saturating_add(other.accesses);
        }
    }
}

/// What makes a structure one: units that see another one of its name have another structure.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Declaration {
    name: String,
    is_alias: bool,
    bytes: u32,
    /// Name, type, offset and size.
    members: Vec<(String, String, u32, u32)>,
}

impl Declaration {
    fn of(module: &Module, declared: &Structure) -> Self {
        let member = |member: &Member| {
            let text = |name| module.name(name).to_owned();
            (text(member.name), text(member.type_name), member.offset_bytes, member.size_bytes)
        };
        Self {
            name: module.name(declared.name).to_owned(),
            is_alias: declared.is_alias,
            bytes: declared.size_bytes,
            members: declared.members.iter().map(member).collect(),
        }
    }

    /// Whether its members can be declared elsewhere as they are here.
    fn is_plain(&self) -> bool {
        let has_names = self.members.iter().all(|(name, ..)| !name.is_empty());
        has_names && self.members.last().is_none_or(|(.., bytes)| *bytes > 0)
    }

    fn not_accessed(&self) -> StructureFindings {
        let mut fields: Vec<FieldCount> = Vec::new();
        for (name, type_name, offset_bytes, bytes) in &self.members {
            let name = if name.is_empty() { type_name } else { name };
            match fields.last_mut() {
                // Bit fields, and members of a union.
                Some(last) if *offset_bytes < last.offset_bytes.saturating_add(last.bytes) => {
                    last.name = format!("{}, {name}", last.name);
                    let end = offset_bytes.saturating_add(*bytes).saturating_sub(last.offset_bytes);
                    last.bytes = last.bytes.max(end);
                }
                _ => fields.push(FieldCount {
                    name: name.clone(),
                    type_name: type_name.clone(),
                    offset_bytes: *offset_bytes,
                    bytes: *bytes,
                    accesses: 0,
                    is_cold: false,
                }),
            }
        }
        StructureFindings {
            name: self.name.clone(),
            bytes: self.bytes,
            accesses: 0,
            elsewhere: 0,
            fields,
            verdict: Verdict::NotLive,
            code: String::new(),
        }
    }
}

/// Counts an access for each field that it touches.
fn add(found: &mut StructureFindings, site: &Site, count: u64) {
    let bytes = site.size_bytes.saturating_mul(site.lanes.into());
    let touched = site.offset_bytes.filter(|_| bytes > 0).map(|from| (from, from.saturating_add(bytes)));
    let mut is_any = false;
    for field in &mut found.fields {
        let end = field.offset_bytes.saturating_add(field.bytes.max(1));
        if touched.is_some_and(|(from, to)| from < end && field.offset_bytes < to) {
            field.accesses = field.accesses.saturating_add(count);
            found.accesses = found.accesses.saturating_add(count);
            is_any = true;
        }
    }
    if !is_any {
        found.elsewhere = found.elsewhere.saturating_add(count);
        found.accesses = found.accesses.saturating_add(count);
    }
}

/// The structure that a member is, or is an array of; as its type is spelled.
fn bare(type_name: &str) -> &str {
    let name = type_name.split('[').next().unwrap_or_default();
    ["struct ", "union ", "const ", "volatile "]
        .into_iter()
        .fold(name, |name, word| name.strip_prefix(word).unwrap_or(name))
}

/// Tells which fields are cold, where that matters. `average` is of the accesses of structures. Members that are structures
/// of these names may have been accessed as such: they are not cold.
fn judge(found: &mut StructureFindings, average: f64, names: &BTreeSet<String>, rules: &SplitRules) -> Verdict {
    if found.fields.len() < 2 {
        return Verdict::OneField;
    }
    if found.bytes <= rules.small_bytes {
        return Verdict::Small;
    }
    if found.accesses as f64 <= average * rules.live {
        return Verdict::NotLive;
    }
    let least = found.accesses as f64 / found.fields.len() as f64 * rules.cold;
    let mut cold_bytes = 0_u32;
    for field in &mut found.fields {
        field.is_cold = (field.accesses as f64) < least && !names.contains(bare(&field.type_name));
        cold_bytes = cold_bytes.saturating_add(if field.is_cold { field.bytes } else { 0 });
    }
    match cold_bytes {
        0 => Verdict::NothingCold,
        bytes if bytes <= rules.pointer_bytes || hot_bytes(found, rules) >= found.bytes => Verdict::LittleCold,
        _ => Verdict::Split,
    }
}

/// Size of a structure of the fields that are not cold and the pointer behind them. A field lies at a multiple of what its
/// place and size now are both multiples of: that is its alignment, or more, but for those above [`MOST_ALIGN`].
fn hot_bytes(found: &StructureFindings, rules: &SplitRules) -> u32 {
    let pointer = rules.pointer_bytes.max(1);
    let hot = found.fields.iter().filter(|field| !field.is_cold);
    let mut align = pointer;
    let end = hot.fold(0_u32, |end, field| {
        let of_field = 1 << (field.offset_bytes | field.bytes).trailing_zeros().min(MOST_ALIGN.trailing_zeros());
        align = align.max(of_field);
        end.next_multiple_of(of_field).saturating_add(field.bytes)
    });
    end.next_multiple_of(pointer).saturating_add(pointer).next_multiple_of(align)
}

/// The cold fields in a structure of their own, and the others with a pointer to it.
fn definitions(found: &StructureFindings, is_alias: bool) -> String {
    let name = plain_name(&found.name);
    let cold_name = format!("{name}_cold");
    let form = Form { language: Language::C, is_alias };
    let part = |is_cold: bool| -> Vec<String> {
        let fields = found.fields.iter().filter(|field| field.is_cold == is_cold);
        let line = |field: &FieldCount| match field.name.contains(", ") {
            // Bit fields or a union's: their widths are not known here.
            true => format!("/* {}: as they are declared */", field.name),
            false => form.field(&field.type_name, &field.name),
        };
        fields.map(line).collect()
    };
    let mut code = String::new();
    form.structure(&mut code, &cold_name, &part(true), None);
    form.structure(&mut code, name, &part(false), Some(&cold_name));
    code
}

#[cfg(test)]
mod tests {
    use slimline_trace::stream::decode::Program;
    use slimline_trace::stream::sites::{ModuleBuilder, SiteKind};

    use super::super::findings::findings;
    use super::super::tests::visits_of;
    use super::super::{TraceAnalysis, TraceBatch};
    use super::*;

    /// What is found where a `node { key; value; next; char note[20]; flags }` and a `pair { a; b }` are accessed so often.
    fn found(times: &[(&str, u32, u32, u64)]) -> Vec<StructureFindings> {
        let mut builder = ModuleBuilder::new();
        let mut member = |name: &str, type_name: &str, offset_bytes, size_bytes| Member {
            name: builder.name(name),
            type_name: builder.name(type_name),
            offset_bytes,
            size_bytes,
        };
        let node = vec![
            member("key", "long", 0, 8),
            member("value", "long", 8, 8),
            member("next", "struct node *", 16, 8),
            member("note", "char[20]", 24, 20),
            member("is_old", "unsigned int", 44, 1),
            member("is_new", "unsigned int", 44, 1),
        ];
        let pair = vec![member("a", "int", 0, 4), member("b", "int", 4, 4)];
        for (name, is_alias, size_bytes, members) in [("node", false, 48, node), ("pair", true, 8, pair)] {
            let name = builder.name(name);
            builder.structure(Structure { name, is_alias, size_bytes, members });
        }
        let mut words = Vec::new();
        for (segment, (structure, offset, bytes, count)) in (0..).zip(times) {
            let structure = builder.name(structure);
            let site = Site { structure, offset_bytes: Some(*offset), ..Site::new(SiteKind::Load, *bytes) };
            builder.segment([site]);
            words.extend((0..*count).map(|_| (segment, vec![0x1000])));
        }
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let (words, visits) = visits_of(&program, &words);
        let mut analysis = TraceAnalysis::new();
        let batch = TraceBatch { process: 0, stream: 0, tid: 7, sequence: 0, visits: &visits, words: &words };
        analysis.update(&program, &batch);
        findings(&program, &analysis, &SplitRules::default()).structures
    }

    #[test]
    fn cold_fields_go_behind_a_pointer() {
        // 100 accesses to five fields: cold are those with less than ten.
        let found = found(&[("node", 0, 8, 50), ("node", 16, 8, 31), ("node", 8, 8, 10), ("node", 30, 1, 9)]);
        let [node] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((node.accesses, node.elsewhere, node.verdict), (100, 0, Verdict::Split));
        let fields: Vec<_> = node.fields.iter().map(|f| (f.name.as_str(), f.accesses, f.is_cold)).collect();
        let expected = [("key", 50, false), ("value", 10, false), ("next", 31, false), ("note", 9, true)];
        assert_eq!(fields, [&expected[..], &[("is_old, is_new", 0, true)]].concat());
        assert_eq!(
            node.code,
            "struct node_cold {\n    char note[20];\n    /* is_old, is_new: as they are declared */\n};\n\
             struct node {\n    long key;\n    long value;\n    struct node *next;\n    struct node_cold *cold;\n};\n"
        );
    }

    #[test]
    fn where_the_pointer_takes_what_is_gained_there_is_no_split() {
        // `arc { int cost; int ident; arc *next; }`: 12 of 16 bytes are cold, and 4 with a pointer behind are 16 again.
        let field = |offset_bytes, bytes, is_cold| FieldCount {
            name: String::new(),
            type_name: String::new(),
            offset_bytes,
            bytes,
            accesses: 0,
            is_cold,
        };
        let of = |bytes, fields: &[(u32, u32, bool)]| StructureFindings {
            name: "arc".to_owned(),
            bytes,
            accesses: 0,
            elsewhere: 0,
            fields: fields.iter().map(|&(offset, bytes, is_cold)| field(offset, bytes, is_cold)).collect(),
            verdict: Verdict::NotLive,
            code: String::new(),
        };
        let hot = |bytes, fields: &[_]| hot_bytes(&of(bytes, fields), &SplitRules::default());
        assert_eq!(hot(16, &[(0, 4, false), (4, 4, true), (8, 8, true)]), 16);
        assert_eq!(hot(24, &[(0, 4, false), (4, 4, false), (8, 16, true)]), 16);
        assert_eq!(hot(48, &[(0, 1, false), (8, 8, true), (16, 20, false), (40, 4, false)]), 40);
        let mut arc = of(16, &[(0, 4, false), (4, 4, false), (8, 8, false)]);
        (arc.accesses, arc.fields[0].accesses) = (90, 90);
        assert_eq!(judge(&mut arc, 1.0, &BTreeSet::new(), &SplitRules::default()), Verdict::LittleCold);
    }

    #[test]
    fn an_access_counts_for_each_field_that_it_touches() {
        let found = found(&[("node", 0, 16, 2), ("node", 45, 2, 3)]);
        assert_eq!((found[0].accesses, found[0].elsewhere), (7, 3));
        assert_eq!([0, 1, 2].map(|field| found[0].fields[field].accesses), [2, 2, 0]);
    }

    /// `push(&node->pairs[i])` accesses pairs, wherever they lie.
    #[test]
    fn a_member_that_is_an_accessed_structure_is_not_cold() {
        assert_eq!(["struct pair[4]", "pair", "struct pair *"].map(bare), ["pair", "pair", "pair *"]);
        let field = |type_name: &str, accesses| FieldCount {
            name: "field".to_owned(),
            type_name: type_name.to_owned(),
            offset_bytes: 0,
            bytes: 16,
            accesses,
            is_cold: false,
        };
        let mut found = StructureFindings {
            name: "node".to_owned(),
            bytes: 48,
            accesses: 90,
            elsewhere: 0,
            fields: vec![field("long[2]", 90), field("struct pair[2]", 0), field("struct other", 0)],
            verdict: Verdict::NotLive,
            code: String::new(),
        };
        let names = BTreeSet::from(["pair".to_owned()]);
        assert_eq!(judge(&mut found, 1.0, &names, &SplitRules::default()), Verdict::Split);
        assert_eq!(found.fields.iter().map(|field| field.is_cold).collect::<Vec<_>>(), [false, false, true]);
    }

    #[test]
    fn what_can_not_be_declared_elsewhere_is_not_split() {
        let declaration = |members: &[(&str, u32)]| {
            let member = |(name, bytes): &(&str, u32)| ((*name).to_owned(), "T".to_owned(), 0, *bytes);
            let members = members.iter().map(member).collect();
            Declaration { name: "T".to_owned(), is_alias: false, bytes: 64, members }
        };
        assert!(declaration(&[("a", 8), ("b", 56)]).is_plain());
        assert!(!declaration(&[("", 8), ("b", 56)]).is_plain(), "a parent");
        assert!(!declaration(&[("a", 8), ("data", 0)]).is_plain(), "an array without a length");
    }

    #[test]
    fn names_of_typedefs_and_of_templates() {
        let field = |name: &str, is_cold| FieldCount {
            name: name.to_owned(),
            type_name: "long[4]".to_owned(),
            offset_bytes: 0,
            bytes: 32,
            accesses: 0,
            is_cold,
        };
        let found = |name: &str| StructureFindings {
            name: name.to_owned(),
            bytes: 64,
            accesses: 0,
            elsewhere: 0,
            fields: vec![field("hot", false), field("rare", true)],
            verdict: Verdict::Split,
            code: String::new(),
        };
        assert_eq!(
            definitions(&found("node"), true),
            "typedef struct node_cold {\n    long rare[4];\n} node_cold;\n\
             typedef struct node {\n    long hot[4];\n    node_cold *cold;\n} node;\n"
        );
        let of_template = definitions(&found("ns::vector<int, std::allocator<int> >"), false);
        assert!(of_template.starts_with("struct vector_cold {"), "{of_template}");
    }

    #[test]
    fn verdicts() {
        let verdict = |times: &[_], name: &str| found(times).iter().find(|s| s.name == name).unwrap().verdict;
        let even = [("node", 0, 8, 9), ("node", 8, 8, 9), ("node", 16, 8, 9), ("node", 24, 8, 9), ("node", 44, 1, 9)];
        assert_eq!(verdict(&even, "node"), Verdict::NothingCold);
        let but_one = [("node", 0, 8, 9), ("node", 16, 8, 9), ("node", 24, 8, 9), ("node", 44, 1, 9)];
        assert_eq!(verdict(&but_one, "node"), Verdict::LittleCold);
        assert_eq!(verdict(&[("pair", 0, 4, 9)], "pair"), Verdict::Small);
        assert_eq!(verdict(&[("node", 0, 8, 1), ("pair", 0, 4, 399)], "node"), Verdict::NotLive);
        assert_eq!(verdict(&[("node", 0, 8, 3), ("pair", 0, 4, 399)], "node"), Verdict::Split);
        assert!(found(&[]).is_empty());
    }
}
