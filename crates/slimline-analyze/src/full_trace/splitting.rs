//! Hot and cold fields by counts (after T. Chilimbi, B. Davidson and J. Larus, PLDI 1999).
//!
//! A structure is *live* if it has more than a hundredth of the accesses that structures have on average. A field of it
//! is *cold* if it is accessed less than half as often as its fields are on average. The cold fields are worth a
//! structure of their own, behind a pointer, where they are larger than the pointer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::elements::{Element, ElementId, Elements, NO_ELEMENT, Part};
use super::heap::live_blocks::Group;
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
    /// It is declared in a header of the system.
    Foreign,
    /// No field is cold.
    NothingCold,
    /// Fields look cold, but there are enough accesses of which nobody knows the field to make them warm.
    Unclear,
    /// The pointer would be as large as what it replaces.
    LittleCold,
    /// There is one object of it: what is split off that saves nothing.
    OneObject,
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
    /// Those of them of which no field is known.
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

/// What was accessed of a structure.
#[derive(Clone, Debug, Default)]
struct Touched {
    /// By part: accesses that touch it.
    parts: Vec<u64>,
    /// Those of them that nothing but this structure was named for.
    apart: Vec<u64>,
    accesses: u64,
    elsewhere: u64,
    /// Accesses that may be of any of its fields, or of none.
    unsure: u64,
    /// Loads and stores that touch this part and the next one at once, by its index.
    ties: BTreeMap<usize, u64>,
    /// The groups of blocks that it is accessed in; none among them of what lies nobody knows where.
    groups: BTreeSet<Option<Group>>,
}

/// Structures that are accessed, while sites are looked at.
#[derive(Debug)]
pub(super) struct Structures<'p> {
    elements: &'p Elements,
    accessed: BTreeMap<ElementId, Touched>,
}

/// Whether a structure's field was accessed as part of what lies around it, or by its own name only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The block says so.
    ByBlock,
    /// The site says so.
    BySite,
}

impl<'p> Structures<'p> {
    pub(super) fn new(elements: &'p Elements) -> Self {
        Self { elements, accessed: BTreeMap::new() }
    }

    /// So many accesses to these bytes of a structure, all at once; none where they are not known.
    pub(super) fn add(&mut self, id: ElementId, bytes: &[Range<u32>], known: Known, count: u64) {
        if id == NO_ELEMENT {
            return;
        }
        let parts = &self.elements.get(id).parts;
        let touched = self.accessed.entry(id).or_default();
        touched.parts.resize(parts.len(), 0);
        touched.apart.resize(parts.len(), 0);
        let (mut times, mut inner) = (0, Vec::new());
        for (index, part) in parts.iter().enumerate() {
            let touches =
                |bytes: &&Range<u32>| !bytes.is_empty() && bytes.start < part.end() && part.offset_bytes < bytes.end;
            let of_part: Vec<&Range<u32>> = bytes.iter().filter(touches).collect();
            if of_part.is_empty() {
                continue;
            }
            times += 1;
            touched.parts[index] = touched.parts[index].saturating_add(count);
            if known == Known::BySite {
                touched.apart[index] = touched.apart[index].saturating_add(count);
            }
            if let Some(of) = part.is_all().filter(|of| self.elements.get(*of).is_laid_out()) {
                let size = self.elements.get(of).declaration.bytes;
                inner.push((of, of_part.into_iter().map(|bytes| within(bytes, part, size)).collect::<Vec<_>>()));
            }
        }
        touched.accesses = touched.accesses.saturating_add(count.saturating_mul(times.max(1)));
        if times == 0 {
            touched.elsewhere = touched.elsewhere.saturating_add(count);
        }
        for (of, bytes) in inner {
            self.add(of, &bytes, Known::ByBlock, count);
        }
    }

    /// It is accessed in a block of this group, if that is known.
    pub(super) fn meet(&mut self, id: ElementId, group: Option<Group>) {
        if id != NO_ELEMENT {
            self.accessed.entry(id).or_default().groups.insert(group);
        }
    }

    /// So many loads and stores, of these bytes each: fields that one of them reaches are tied, unless it reaches all.
    pub(super) fn tie(&mut self, id: ElementId, bytes: &Range<u32>, count: u64) {
        let element = self.elements.get(id);
        if id == NO_ELEMENT || bytes.end - bytes.start >= element.declaration.bytes {
            return;
        }
        let Some(touched) = self.accessed.get_mut(&id) else { return };
        for (index, pair) in element.parts.windows(2).enumerate() {
            if bytes.start < pair[0].end() && pair[1].offset_bytes < bytes.end {
                let tied = touched.ties.entry(index).or_default();
                *tied = tied.saturating_add(count);
            }
        }
        let inner = element.parts.iter().filter(|part| bytes.start >= part.offset_bytes && bytes.end <= part.end());
        let inner = inner.filter_map(|part| {
            let of = part.is_all().filter(|of| self.elements.get(*of).is_laid_out())?;
            Some((of, within(bytes, part, self.elements.get(of).declaration.bytes)))
        });
        for (of, bytes) in inner.collect::<Vec<_>>() {
            self.tie(of, &bytes, count);
        }
    }

    /// So many accesses may be of this structure, of whichever field.
    pub(super) fn add_unsure(&mut self, id: ElementId, count: u64) {
        if let Some(touched) = self.accessed.get_mut(&id) {
            touched.unsure = touched.unsure.saturating_add(count);
        }
    }

    /// What to do with them, most accesses first; by how many bytes there are of a group, of a variable those of a process or a thread.
    pub(super) fn judged(self, rules: &SplitRules, bytes_of: impl Fn(Group) -> Option<u64>) -> Vec<StructureFindings> {
        let total: u64 = self.accessed.values().map(|touched| touched.accesses).fold(0, u64::saturating_add);
        let average = total as f64 / self.accessed.len().max(1) as f64;
        // What lies in others may be accessed by its own name, wherever it is. What something is made of has a lower number.
        let mut named = BTreeSet::new();
        for id in 1..self.elements.count() {
            let own = self.accessed.get(&id).is_some_and(|touched| touched.apart.iter().any(|count| *count > 0));
            let made_of = || self.elements.get(id).parts.iter().flat_map(|part| &part.made_of);
            if own || made_of().any(|of| named.contains(of)) {
                named.insert(id);
            }
        }
        let judged = self.accessed.iter().map(|(&id, touched)| {
            let element = self.elements.get(id);
            let mut found = findings_of(element, touched);
            let doubt = self.doubt(id, touched);
            let is_named = |part: &Part| part.made_of.iter().any(|of| named.contains(of));
            let named: Vec<bool> = element.parts.iter().map(is_named).collect();
            found.verdict = judge(&mut found, average, &doubt, &named, &touched.ties, rules);
            let only = touched.groups.iter().next().copied().flatten().filter(|_| touched.groups.len() == 1);
            let is_one = only.and_then(&bytes_of).is_some_and(|bytes| bytes < 2 * u64::from(found.bytes));
            found.verdict = match found.verdict {
                Verdict::Split | Verdict::LittleCold if element.declaration.is_foreign => Verdict::Foreign,
                Verdict::Split | Verdict::LittleCold if is_one => Verdict::OneObject,
                Verdict::Split if !element.declaration.is_plain() => Verdict::NotPlain,
                verdict => verdict,
            };
            if found.verdict == Verdict::Split {
                let is_alias = element.declaration.is_alias;
                let form = Form { language: element.declaration.language, is_alias };
                found.code = definitions(&found, form);
            }
            found
        });
        let mut found: Vec<_> = judged.collect();
        found.sort_by(|a, b| (b.accesses.cmp(&a.accesses)).then_with(|| (&a.name, a.bytes).cmp(&(&b.name, b.bytes))));
        found
    }

    /// By part: accesses that may be of it, though they are not counted as such. Structures that begin alike are accessed by
    /// the name of either, as a list of all objects does that have one header.
    fn doubt(&self, id: ElementId, touched: &Touched) -> Vec<u64> {
        let mut doubt = vec![touched.unsure.saturating_add(touched.elsewhere); touched.parts.len()];
        for (&other, of_other) in &self.accessed {
            let are_alike =
                other != id && (self.elements.begins_with(id, other) || self.elements.begins_with(other, id));
            if are_alike {
                doubt.iter_mut().zip(&of_other.apart).for_each(|(doubt, count)| *doubt = doubt.saturating_add(*count));
            }
        }
        doubt
    }
}

/// Where bytes of a structure are in its part, or in one of the elements that this is an array of.
fn within(bytes: &Range<u32>, part: &Part, element_bytes: u32) -> Range<u32> {
    let from = bytes.start.saturating_sub(part.offset_bytes);
    let to = bytes.end.min(part.end()) - part.offset_bytes;
    let size = element_bytes.max(1);
    if to - from >= size { 0..size } else { from % size..(from % size).saturating_add(to - from).min(size) }
}

fn findings_of(element: &Element, touched: &Touched) -> StructureFindings {
    let field = |(part, accesses): (&Part, &u64)| FieldCount {
        name: part.name.clone(),
        type_name: part.type_name.clone(),
        offset_bytes: part.offset_bytes,
        bytes: part.bytes,
        accesses: *accesses,
        is_cold: false,
    };
    StructureFindings {
        name: element.declaration.name.clone(),
        bytes: element.declaration.bytes,
        accesses: touched.accesses,
        elsewhere: touched.elsewhere,
        fields: element.parts.iter().zip(&touched.parts).map(field).collect(),
        verdict: Verdict::NotLive,
        code: String::new(),
    }
}

/// Tells which fields are cold, where that matters. `average` is of the accesses of structures; `doubt` has for each field the
/// accesses that may be of it besides, and `is_named` whether it is a structure that is accessed by its own name, which may be
/// in here: those are not cold. Nor are those that `ties` ties to one that is not ([`keep_tied`]).
fn judge(
    found: &mut StructureFindings,
    average: f64,
    doubt: &[u64],
    is_named: &[bool],
    ties: &BTreeMap<usize, u64>,
    rules: &SplitRules,
) -> Verdict {
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
    let mut is_doubted = false;
    for (index, field) in found.fields.iter_mut().enumerate() {
        let doubt = doubt.get(index).copied().unwrap_or(0);
        let looks_cold = (field.accesses as f64) < least && !is_named.get(index).copied().unwrap_or(false);
        field.is_cold = looks_cold && (field.accesses.saturating_add(doubt) as f64) < least;
        is_doubted |= looks_cold && !field.is_cold;
    }
    keep_tied(&mut found.fields, ties);
    let cold = found.fields.iter().filter(|field| field.is_cold);
    let cold_bytes = cold.fold(0_u32, |sum, field| sum.saturating_add(field.bytes));
    match cold_bytes {
        0 if is_doubted => Verdict::Unclear,
        0 => Verdict::NothingCold,
        bytes if bytes <= rules.pointer_bytes || hot_bytes(found, rules) >= found.bytes => Verdict::LittleCold,
        _ => Verdict::Split,
    }
}

/// What one instruction accesses with a warm field stays with it, where that is at least half of its own accesses, and a tenth of the
/// warm one's: less is no loop's habit, as where all fields are set once.
fn keep_tied(fields: &mut [FieldCount], ties: &BTreeMap<usize, u64>) {
    let is_tied = |one: &FieldCount, other: &FieldCount, count: u64| {
        let (warm, cold) = if one.is_cold { (other, one) } else { (one, other) };
        one.is_cold != other.is_cold
            && count.saturating_mul(2) >= cold.accesses
            && count.saturating_mul(10) >= warm.accesses
    };
    // A field that becomes warm may be tied on, to either side.
    while let Some(first) = ties.iter().find_map(|(&first, &count)| {
        let (one, other) = (fields.get(first)?, fields.get(first + 1)?);
        is_tied(one, other, count).then_some(first)
    }) {
        (fields[first].is_cold, fields[first + 1].is_cold) = (false, false);
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
fn definitions(found: &StructureFindings, form: Form) -> String {
    let name = plain_name(&found.name);
    let cold_name = format!("{name}_cold");
    let part = |is_cold: bool| -> Vec<String> {
        let fields = found.fields.iter().filter(|field| field.is_cold == is_cold);
        let line = |field: &FieldCount| match field.name.contains(", ") {
            // Bit fields or a union's: their widths are not known here.
            true => form.as_declared(&field.name, ""),
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
    use slimline_attribute::tables::Language;
    use slimline_trace::stream::decode::Program;
    use slimline_trace::stream::sites::{Member, ModuleBuilder, Site, SiteKind, Structure};

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
            structure: None,
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
            builder.structure(Structure { name, is_alias, size_bytes, members, ..Structure::default() });
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
        let batch = TraceBatch { tid: 7, visits: &visits, words: &words, ..TraceBatch::default() };
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
            "struct node_cold {\n    char note[20];\n    /* is_old, is_new: as declared */\n};\n\
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
        assert_eq!(judge(&mut arc, 1.0, &[], &[], &BTreeMap::new(), &SplitRules::default()), Verdict::LittleCold);
    }

    #[test]
    fn fields_of_one_access_stay_together() {
        // 124 accesses to five fields: cold are those with less than 12.4, but `value` is loaded with `key`.
        let cold = |times: &[_]| {
            let found = found(times).remove(0);
            found.fields.into_iter().filter(|field| field.is_cold).map(|field| field.name).collect::<Vec<_>>()
        };
        let [note, flags] = ["note", "is_old, is_new"].map(str::to_owned);
        let rest = ["next".to_owned(), note, flags];
        assert_eq!(cold(&[("node", 0, 8, 100), ("node", 0, 16, 12)]), rest);
        // Of 212 accesses to `key` those are too few, as where all fields are set once.
        let all = [&["value".to_owned()], &rest[..]].concat();
        assert_eq!(cold(&[("node", 0, 8, 200), ("node", 0, 16, 12)]), all);
        // Those that reach all of it tie nothing.
        assert_eq!(cold(&[("node", 0, 8, 100), ("node", 0, 48, 3)]), all);
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
        assert_eq!(
            judge(&mut found, 1.0, &[], &[false, true, false], &BTreeMap::new(), &SplitRules::default()),
            Verdict::Split
        );
        assert_eq!(found.fields.iter().map(|field| field.is_cold).collect::<Vec<_>>(), [false, false, true]);
    }

    #[test]
    fn what_may_be_accessed_by_another_name_is_not_cold() {
        // Of 90 accesses to two fields one with less than 22.5 is cold.
        let found = |doubt: &[u64]| {
            let mut found = found(&[("node", 0, 8, 1)]).remove(0);
            found.fields.truncate(2);
            (found.accesses, found.fields[0].accesses, found.fields[1].accesses) = (90, 90, 0);
            found.fields[1].bytes = 40;
            let verdict = judge(&mut found, 1.0, doubt, &[], &BTreeMap::new(), &SplitRules::default());
            (verdict, found.fields[1].is_cold)
        };
        assert_eq!(found(&[0, 22]), (Verdict::Split, true));
        assert_eq!(found(&[0, 23]), (Verdict::Unclear, false));
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
            definitions(&found("node"), Form { language: Language::C, is_alias: true }),
            "typedef struct node_cold {\n    long rare[4];\n} node_cold;\n\
             typedef struct node {\n    long hot[4];\n    node_cold *cold;\n} node;\n"
        );
        let form = |language| Form { language, is_alias: false };
        let of_template = definitions(&found("ns::vector<int, std::allocator<int> >"), form(Language::C));
        assert!(of_template.starts_with("struct vector_cold {"), "{of_template}");
        let of_rust = definitions(&found("list::Node"), form(Language::Rust));
        assert!(of_rust.ends_with("struct Node {\n    hot: long[4],\n    cold: Box<Node_cold>,\n}\n"), "{of_rust}");
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
