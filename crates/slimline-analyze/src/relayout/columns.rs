//! Arrays that could be one array of structures.
//!
//! Arrays of as many elements each are seen as one structure, of which each of them holds one field of every element: then it is visits of
//! its elements that tell which arrays are walked together, and layouts of it that are tried, as of any other.
//!
//! ```text
//!   as it is   x x x x …   y y y y …   id id id id …       merged   x y x y x y x y …   id id id id …
//! ```

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;
use slimline_trace::stream::decode::Program;

use super::visits::MOST_FIELDS;
use crate::full_trace::object_structures::{
    Array, FieldShape, Filled, Hold, ObjectStructure, StructureShape, Structured, TouchingLine,
};
use crate::full_trace::objects::Object;
use crate::ties::{Reliance, Tie};

/// Shorter arrays are not merged: there are many of a few elements which have as many by chance.
const LEAST_ELEMENTS: u64 = 64;
/// Arrays of more elements are none of which each thread has an element.
const MOST_OF_THREADS: u64 = 1024;
/// Arrays that their structure's name has at most.
const NAMED: usize = 4;

/// Lines that hand arrays to code that is not traced, with their files: by object, or by the structure that it is a field of.
pub type HandedOnLines = BTreeMap<u32, Vec<(String, Tie)>>;

/// Makes a structure of the arrays of each process that have as many elements, and one of each array that is short or has as many as no other one: threads
/// may have its elements. Those that are handed on stay apart: the lines of these by structure.
pub fn join(structured: &mut Structured, objects: &[Object], handed_on: &HandedOnLines) -> HandedOnLines {
    let mut alike: BTreeMap<(u32, u64), Vec<&Array>> = BTreeMap::new();
    for array in structured.arrays.iter().filter(|array| array.elements >= LEAST_ELEMENTS) {
        let process = objects[array.object as usize].process;
        alike.entry((process, array.elements)).or_default().push(array);
    }
    let (several, alone): (Vec<_>, Vec<_>) = alike.into_values().partition(|arrays| arrays.len() > 1);
    let short = structured.arrays.iter().filter(|array| array.elements < LEAST_ELEMENTS);
    let alone = alone.into_iter().flatten().chain(short);
    let alone = alone.filter(|array| (2..=MOST_OF_THREADS).contains(&array.elements));
    let mut made: Vec<_> = alone.map(|array| (vec![array.object], shape(&[array]))).collect();
    for mut arrays in several {
        // So that each lies at a multiple of its size.
        arrays.sort_by_key(|array| (std::cmp::Reverse(array.element_bytes), array.object));
        arrays.truncate(MOST_FIELDS);
        made.push((arrays.iter().map(|array| array.object).collect::<Vec<_>>(), shape(&arrays)));
    }
    let mut lines = HandedOnLines::new();
    for (of_columns, mut shape) in made {
        let structure = structured.structures.len() as u32;
        for ((column, object), field) in (0..).zip(of_columns).zip(&mut shape.fields) {
            if let Some(of_it) = handed_on.get(&object) {
                field.hold = Hold::Apart;
                lines.entry(structure).or_default().extend(of_it.iter().cloned());
            }
            let filled = Filled::Column(column);
            structured.objects[object as usize] = Some(ObjectStructure { structure, filled, skipped: 0 });
        }
        structured.structures.push(shape);
    }
    lines
}

fn shape(arrays: &[&Array]) -> StructureShape {
    let mut bytes = 0;
    let (mut fields, mut lines) = (Vec::new(), Vec::new());
    for array in arrays {
        let of_it = array.lines.iter().map(|line| TouchingLine { offset: Some(bytes), ..line.clone() });
        lines.extend(of_it);
        fields.push(FieldShape {
            name: distinct_name(&array.name, &fields),
            type_name: array.type_name.clone(),
            offset: bytes,
            bytes: array.element_bytes,
            ..FieldShape::default()
        });
        bytes += array.element_bytes;
    }
    lines.sort_unstable();
    let mut names: Vec<&str> = fields.iter().take(NAMED).map(|field| field.name.as_str()).collect();
    if arrays.len() > NAMED {
        names.push("…");
    }
    StructureShape {
        name: format!("{} {}", if arrays.len() > 1 { "arrays" } else { "array" }, names.join(", ")),
        bytes,
        language: arrays[0].language,
        is_alias: false,
        is_foreign: false,
        has_atomics: false,
        is_columns: true,
        fields,
        lines,
    }
}

/// Arrays of one name in several places are told apart as fields must be: `v`, `v_2`.
fn distinct_name(name: &str, fields: &[FieldShape]) -> String {
    let is_new = |name: &String| fields.iter().all(|field| field.name != *name);
    let numbered = (2..).map(|number: usize| format!("{name}_{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(is_new).unwrap_or_default()
}

/// A line on which the address of an array is handed to a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOn<'a> {
    /// From 1.
    pub line: u32,
    /// The function.
    pub function: &'a str,
}

/// Functions of which a trace tells what they access.
pub fn traced_functions(program: &Program) -> FxHashSet<&str> {
    let of_module = program.modules().iter().flat_map(|(_, module)| {
        module
            .frames
            .iter()
            .map(|frame| frame.function)
            .map(|name| module.name(name))
            .chain(module.sites.iter().map(|site| module.name(site.function)))
    });
    of_module.map(unqualified).collect()
}

/// As it is called: `step` of `ns::step<int>(int)`.
fn unqualified(name: &str) -> &str {
    let name = name.split(['<', '(']).next().unwrap_or_default().trim_end();
    name.rsplit("::").next().unwrap_or(name)
}

/// Lines of a source that hand the array of this name on, or the address of a part of it: what a macro makes, or what is written over several lines,
/// is not found.
pub fn handed_on<'s>(name: &str, source: &'s str) -> Vec<HandedOn<'s>> {
    let mut found = Vec::new();
    for (line, text) in (1..).zip(source.lines()) {
        let text = text.split("//").next().unwrap_or_default();
        for (at, _) in text.match_indices(name) {
            let (before, behind) = (&text[..at], &text[at + name.len()..]);
            // Of members all of the way there is the array's name.
            let before = before.trim_end_matches(|c: char| is_word(c) || matches!(c, '.' | '-' | '>'));
            let is_member = before.len() < at && text[..at].ends_with(['.', '>']);
            let is_name = (before.len() == at || is_member) && !behind.starts_with(is_word);
            let before = without_cast(before);
            let (before, is_address) = match before.trim_end().strip_suffix('&') {
                Some(before) => (before, true),
                None => (before.trim_end(), false),
            };
            let is_argument = before.trim_end().ends_with(['(', ',']) && is_whole(behind.trim_start(), is_address);
            if is_name
                && is_argument
                && let Some(function) = called(before)
                && !KEPT.contains(&function)
            {
                found.push(HandedOn { line, function });
            }
        }
    }
    found
}

/// Without what makes another type of an argument, or says that it changes.
fn without_cast(before: &str) -> &str {
    let before = before.trim_end();
    if let Some(borrowed) = before.strip_suffix("&mut") {
        return borrowed;
    }
    match before.strip_suffix(')').and_then(|cast| cast.rfind('(').map(|open| (&before[..open], &cast[open + 1..]))) {
        Some((outside, cast)) if cast.trim_end().ends_with('*') => outside,
        _ => before,
    }
}

/// Whether the argument ends behind the name, or goes on to the address of an element.
fn is_whole(behind: &str, is_address: bool) -> bool {
    let behind = match behind.strip_prefix('[') {
        Some(index) if is_address => index.split_once(']').map_or("", |(_, behind)| behind.trim_start()),
        Some(_) => return false,
        None => behind,
    };
    behind.starts_with([',', ')', '+'])
}

/// What takes nothing of an array, or is no function.
const KEPT: [&str; 8] = ["free", "sizeof", "if", "while", "for", "switch", "return", "assert"];

/// The function whose arguments begin in front of here.
fn called(before: &str) -> Option<&str> {
    let mut open = 0;
    for (at, c) in before.char_indices().rev() {
        match c {
            ')' => open += 1,
            '(' if open > 0 => open -= 1,
            '(' => {
                let name = before[..at].trim_end();
                let from = name.rfind(|c| !is_word(c)).map_or(0, |before| before + 1);
                return Some(&name[from..]).filter(|name| !name.is_empty());
            }
            _ => {}
        }
    }
    None
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Which arrays are handed to functions of which a trace does not tell, by any of their names; `sources` are those in which they are accessed, with
/// their paths.
pub fn all_handed_on(arrays: &[Array], traced: &FxHashSet<&str>, sources: &[(String, String)]) -> HandedOnLines {
    let mut all = HandedOnLines::new();
    for array in arrays.iter().filter(|array| array.elements > 1) {
        let mut lines = BTreeSet::new();
        for (file, text) in sources {
            for at in array.names.iter().flat_map(|name| handed_on(name, text)) {
                if !traced.contains(at.function) {
                    lines.insert((file.clone(), Tie { reliance: Reliance::HandedOn, line: at.line }));
                }
            }
        }
        if !lines.is_empty() {
            all.insert(array.object, lines.into_iter().collect());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use slimline_attribute::tables::Language;

    use super::*;

    fn array(object: u32, name: &str, element_bytes: u32, elements: u64) -> Array {
        Array {
            object,
            name: name.to_owned(),
            names: [name.to_owned()].into(),
            type_name: format!("type{element_bytes}"),
            element_bytes,
            elements,
            language: Language::C,
            lines: vec![TouchingLine {
                file: "a.c".to_owned(),
                line: object + 1,
                offset: None,
                directory: String::new(),
            }],
        }
    }

    fn object(process: u32) -> Object {
        Object { process, start: 0x1000, bytes: 8192, sequence: 1, ordinal: 1, origin: 0, index: None }
    }

    /// Two of as many elements and one of another process's; one that has more, one that is short.
    #[test]
    fn arrays_of_as_many_elements_are_one_structure() {
        let arrays = vec![
            array(0, "id", 4, 100),
            array(1, "x", 8, 100),
            array(2, "more", 8, 101),
            array(3, "short", 8, 8),
            array(4, "other", 8, 100),
            array(5, "also", 8, 8),
        ];
        let objects: Vec<Object> = [0, 0, 0, 0, 1, 0].into_iter().map(object).collect();
        let mut structured = Structured { structures: Vec::new(), objects: vec![None; 6], arrays };
        assert!(join(&mut structured, &objects, &HandedOnLines::new()).is_empty());
        // The others are by themselves.
        let [.., shape] = structured.structures.as_slice() else { panic!("{structured:?}") };
        let names: Vec<(&str, u32)> =
            structured.structures.iter().map(|shape| (shape.name.as_str(), shape.bytes)).collect();
        let alone = [("array more", 8), ("array other", 8), ("array short", 8), ("array also", 8)];
        assert_eq!(names[..4], alone);
        assert_eq!((shape.name.as_str(), shape.bytes, shape.is_columns), ("arrays x, id", 12, true));
        let fields: Vec<_> =
            shape.fields.iter().map(|field| (field.name.as_str(), field.offset, field.bytes)).collect();
        assert_eq!(fields, [("x", 0, 8), ("id", 8, 4)]);
        let lines: Vec<_> = shape.lines.iter().map(|line| (line.line, line.offset)).collect();
        assert_eq!(lines, [(1, Some(8)), (2, Some(0))]);
        let column = |structure, field| Some(ObjectStructure { structure, filled: Filled::Column(field), skipped: 0 });
        let expected = [column(4, 1), column(4, 0), column(0, 0), column(2, 0), column(1, 0), column(3, 0)];
        assert_eq!(structured.objects, expected);
    }

    #[test]
    fn arrays_that_are_handed_on() {
        let found = |source| -> Vec<_> { handed_on("x", source).iter().map(|at| (at.line, at.function)).collect() };
        let source = "qsort(x, n, sizeof *x, by);\n\
                      sum += x[i] + f(x[i], ax, xs); // g(x)\n\
                      step(n, y, x);\n\
                      static void step(long n, double *x, double *y)\n\
                      free(x); if (x) return;\n\
                      memcpy(&grid->x, (void *)(x), 8);\n\
                      work(grid.x, h(1, 2), x)";
        assert_eq!(found(source), [(1, "qsort"), (3, "step"), (6, "memcpy"), (7, "work"), (7, "work")]);
        let parts = "fwrite((void *)x, 8, n, f);\n\
                     memcpy(d, &x[i], 8);\n\
                     sort(x + 1, n - 1);\n\
                     sum += f(x[i], (long)(x[1]));\n\
                     fill(&mut x, 0);";
        assert_eq!(found(parts), [(1, "fwrite"), (2, "memcpy"), (3, "sort"), (5, "fill")]);
    }

    #[test]
    fn functions_are_called_by_the_last_part_of_their_name() {
        let names = ["step", "ns::step", "ns::step<ns::cell>(int)", "path::to::step"];
        assert_eq!(names.map(unqualified), ["step"; 4]);
        assert_eq!(["operator()(int)", ""].map(unqualified), ["operator", ""]);
    }

    #[test]
    fn arrays_of_one_name_are_told_apart() {
        let [one, two, other] = [(0, "v"), (1, "v"), (2, "w")].map(|(object, name)| array(object, name, 8, 100));
        let shape = shape(&[&one, &two, &other]);
        let names: Vec<&str> = shape.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!((names.as_slice(), shape.name.as_str()), (&["v", "v_2", "w"][..], "arrays v, v_2, w"));
    }

    #[test]
    fn what_untraced_functions_get_stays_apart() {
        let objects = [object(0), object(0)];
        // Who allocates the second one calls it values.
        let mut arrays = vec![array(0, "x", 8, 100), array(1, "values", 8, 100)];
        arrays[1].names.insert("y".to_owned());
        let sources = [("a.c".to_owned(), "step(x, y);\nqsort(y, n, 8, by);".to_owned())];
        let traced: FxHashSet<&str> = ["step"].into_iter().collect();
        let found = all_handed_on(&arrays, &traced, &sources);
        let lines = vec![("a.c".to_owned(), Tie { reliance: Reliance::HandedOn, line: 2 })];
        assert_eq!(found, [(1, lines.clone())].into());
        let mut structured = Structured { structures: Vec::new(), objects: vec![None; 2], arrays };
        assert_eq!(join(&mut structured, &objects, &found), [(0, lines)].into());
        let holds: Vec<Hold> = structured.structures[0].fields.iter().map(|field| field.hold).collect();
        assert_eq!(holds, [Hold::None, Hold::Apart]);
    }
}
