//! The definitions of a layout.

use std::fmt::Write as _;

use slimline_attribute::tables::Language;

use super::candidates::{Candidate, Change, is_linked};
use crate::advise::definition::{Form, plain_name};
use crate::full_trace::held_values::{Narrower, Number};
use crate::full_trace::object_structures::{FieldShape, Hold, StructureShape};

/// Names of a part's fields that its own name is made of at most.
const NAMED: usize = 2;

/// The structures of a layout, in the program's language, and a comment on what else changes.
pub fn definitions(structure: &StructureShape, candidate: &Candidate) -> String {
    let form = Form { language: structure.language, is_alias: structure.is_alias };
    let name = plain_name(&structure.name);
    let lines = |part: &[usize]| -> Vec<String> {
        let own = |field: &usize| {
            let of = &structure.fields[*field];
            match of.narrower.filter(|_| candidate.narrowed.contains(field)) {
                Some(narrower) => form.field(&narrower_type(form.language, &narrower), &field_name(of)),
                None => line(form, of),
            }
        };
        part.iter().map(own).collect()
    };
    let is_rust = structure.language == Language::Rust;
    let mut code = String::new();
    match candidate.change {
        Change::Reorder | Change::Pool | Change::Align | Change::Shrink => {
            // Else the compiler orders fields as it likes.
            let is_ordered = !candidate.parts[0].is_sorted();
            let attribute = match (candidate.change == Change::Align, is_ordered) {
                (true, true) => format!("#[repr(C, align({}))]", alignment(candidate)),
                (true, false) => format!("#[repr(align({}))]", alignment(candidate)),
                (false, true) => "#[repr(C)]".to_owned(),
                (false, false) => String::new(),
            };
            if is_rust && !attribute.is_empty() {
                let _ = writeln!(code, "{attribute}");
            }
            form.structure(&mut code, name, &lines(&candidate.parts[0]), None);
        }
        Change::HotCold => {
            let cold = format!("{name}_cold");
            form.structure(&mut code, &cold, &lines(&candidate.parts[1]), None);
            form.structure(&mut code, name, &lines(&candidate.parts[0]), Some(&cold));
        }
        Change::Split | Change::ArrayOfEach => {
            for part in &candidate.parts {
                form.structure(&mut code, &format!("{name}_{}", part_name(structure, part)), &lines(part), None);
            }
        }
        Change::Blocks => {
            let lanes = candidate.layout.parts()[0].lanes;
            let array = |field: &FieldShape| {
                let own = &field.type_name;
                if field.is_shared || field.hold != Hold::None || own.contains("(*") {
                    return format!("/* {}, {lanes} of it: as it is declared */", field.name);
                }
                let type_name = match own.find('[').filter(|_| !is_rust) {
                    _ if is_rust => format!("[{own}; {lanes}]"),
                    // Of arrays there is one for each lane.
                    Some(at) => format!("{}[{lanes}]{}", &own[..at], &own[at..]),
                    None => format!("{own}[{lanes}]"),
                };
                form.field(&type_name, &field_name(field))
            };
            let lines: Vec<String> = candidate.parts[0].iter().map(|field| array(&structure.fields[*field])).collect();
            form.structure(&mut code, &format!("{name}_block"), &lines, None);
        }
    }
    comment(&mut code, &usage(structure, candidate, name));
    code
}

/// Writes a comment in lines of not too many columns.
fn comment(code: &mut String, text: &str) {
    const COLUMNS: usize = 90;
    let mut line = "//".to_owned();
    for word in text.split(' ') {
        if line.len() + 1 + word.len() > COLUMNS {
            let _ = writeln!(code, "{line}");
            "//".clone_into(&mut line);
        }
        line = line + " " + word;
    }
    let _ = writeln!(code, "{line}");
}

/// As the language spells it.
pub fn narrower_type(language: Language, narrower: &Narrower) -> String {
    let bits = 8 * narrower.bytes;
    match (language, narrower.number) {
        (Language::Rust, Number::Signed) => format!("i{bits}"),
        (Language::Rust, Number::Unsigned) => format!("u{bits}"),
        (Language::Rust, Number::Float) => format!("f{bits}"),
        (_, Number::Signed) => format!("int{bits}_t"),
        (_, Number::Unsigned) => format!("uint{bits}_t"),
        (_, Number::Float) => "float".to_owned(),
    }
}

fn line(form: Form, field: &FieldShape) -> String {
    match field.is_shared || field.hold != Hold::None {
        // The widths of bit-fields are not known here, nor how a parent is declared.
        true => format!("/* {}: as it is declared */", field.name),
        false => form.field(&field.type_name, &field_name(field)),
    }
}

/// A field's name as the source has it.
fn field_name(field: &FieldShape) -> String {
    let declared =
        field.name.strip_prefix("struct ").or_else(|| field.name.strip_prefix("class ")).unwrap_or(&field.name);
    let name = declared.split([',', ' ']).next().unwrap_or_default();
    // Those of a tuple have numbers.
    match name.strip_prefix("__") {
        Some(number) if number.chars().all(|c| c.is_ascii_digit()) => format!("field_{number}"),
        _ if name.starts_with(|c: char| c.is_ascii_digit()) => format!("field_{name}"),
        _ => name.to_owned(),
    }
}

fn alignment(candidate: &Candidate) -> u32 {
    1 << candidate.layout.parts()[0].bytes.trailing_zeros().min(6)
}

fn part_name(structure: &StructureShape, part: &[usize]) -> String {
    let names: Vec<String> = part.iter().map(|field| field_name(&structure.fields[*field])).collect();
    if names.len() > NAMED { format!("{}_etc", names[..NAMED].join("_")) } else { names.join("_") }
}

/// How the program uses it then.
fn usage(structure: &StructureShape, candidate: &Candidate, name: &str) -> String {
    let field = |part: usize| {
        let field = candidate.parts.get(part).and_then(|part| part.first());
        field.map(|field| field_name(&structure.fields[*field])).unwrap_or_default()
    };
    let is_rust = structure.language == Language::Rust;
    match candidate.change {
        Change::Reorder => {
            "nothing else changes, but where its size, its layout or an initializer without names is relied on"
                .to_owned()
        }
        Change::Shrink => {
            let pool = if candidate.is_pool { "; get them from a pool or arena (docs/tidy.md)" } else { "" };
            let all = match is_rust {
                true => "conversions where they are stored (try_into, so that what is too large is found) and loaded",
                false => {
                    "check where they are stored that no more than this is, and look at what takes their addresses, prints or scans them"
                }
            };
            format!("{all}{pool}")
        }
        Change::Align if is_rust => "nothing else changes".to_owned(),
        Change::Align => {
            let align = alignment(candidate);
            format!(
                "_Alignas({align}) on its first member (C++: struct alignas({align}) {name}); its blocks by aligned_alloc({align}, …), arrays too"
            )
        }
        Change::Pool => format!(
            "get them from a pool or arena: chunks of many {name}, handed out one behind the other (docs/tidy.md)"
        ),
        Change::HotCold if is_rust => {
            let pool = if candidate.is_pool {
                ", both parts from pools of their own: in the place of a Box an index or a reference"
            } else {
                ""
            };
            format!("node.{0} becomes node.cold.{0}{pool}", field(1))
        }
        Change::HotCold => {
            let of_pool = if candidate.is_pool {
                ", both parts from pools of their own"
            } else {
                ", the cold parts from an array or pool of their own"
            };
            format!("node->{0} becomes node->cold->{0}{of_pool}: side by side they would share lines", field(1))
        }
        Change::Split | Change::ArrayOfEach => {
            let (array, part) = (if is_rust { "Vec" } else { "array" }, part_name(structure, &candidate.parts[0]));
            let through = match is_linked(structure) {
                true => format!(", node->{0} becomes items_{part}[node - items].{0}", field(0)),
                false => String::new(),
            };
            format!("one {array} each: items[i].{0} becomes items_{part}[i].{0}{through}", field(0))
        }
        Change::Blocks => {
            let lanes = candidate.layout.parts()[0].lanes;
            format!(
                "items[i].{0} becomes items[i / {lanes}].{0}[i % {lanes}]: loops over whole blocks, with one over lanes inside",
                field(0)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::candidates::tests::structure;
    use super::super::candidates::{Objects, candidates};
    use super::super::visits::Visits;
    use super::*;

    fn all(structure: &StructureShape, in_arrays: u64) -> Vec<(Change, String)> {
        let visits =
            Visits { accesses: 2000, in_arrays, most_elements: 100, ..Visits::of(&[(0b101, 1000), (0b010, 1)]) };
        let found = candidates(structure, &visits, Objects { count: 100, otherwise: 0 }).unwrap();
        found.iter().map(|of| (of.change, definitions(structure, of))).collect()
    }

    fn first(all: &[(Change, String)], change: Change) -> &str {
        &all.iter().find(|(of, _)| *of == change).unwrap().1
    }

    #[test]
    fn each_change_of_nodes_has_its_definitions() {
        let all = all(&structure(56, &[("key", 8), ("note", 40), ("next", 8)]), 0);
        assert_eq!(
            first(&all, Change::Reorder),
            "struct node {\n    long key[];\n    struct node *next;\n    long note[];\n};\n\
             // nothing else changes, but where its size, its layout or an initializer without names is\n\
             // relied on\n"
        );
        assert_eq!(
            first(&all, Change::HotCold),
            "struct node_cold {\n    long note[];\n};\n\
             struct node {\n    long key[];\n    struct node *next;\n    struct node_cold *cold;\n};\n\
             // node->note becomes node->cold->note, the cold parts from an array or pool of their own:\n\
             // side by side they would share lines\n"
        );
        assert!(first(&all, Change::Align).contains("_Alignas(64) on its first member"));
        assert!(first(&all, Change::Pool).contains("chunks of many node, handed out one behind the other"));
    }

    /// Rust's compiler orders fields by itself; those of tuples have no names.
    #[test]
    fn definitions_of_rust() {
        let mut shape = structure(56, &[("key", 8), ("note", 40), ("__0", 8)]);
        shape.language = Language::Rust;
        shape.fields.iter_mut().for_each(|field| field.type_name = "u64".to_owned());
        shape.fields[2].type_name = "*mut node".to_owned();
        let all = all(&shape, 0);
        assert!(
            first(&all, Change::Reorder)
                .starts_with("#[repr(C)]\nstruct node {\n    key: u64,\n    field_0: *mut node,\n")
        );
        assert!(
            first(&all, Change::Align)
                .starts_with("#[repr(align(64))]\nstruct node {\n    key: u64,\n    note: u64,\n")
        );
        assert!(first(&all, Change::HotCold).contains("    cold: Box<node_cold>,\n"));
    }

    /// What can't be declared here as it is there is named only.
    #[test]
    fn what_has_no_name_is_declared_as_it_is() {
        let mut shape = structure(24, &[("Base", 8), ("a, b", 8), ("next", 8)]);
        (shape.fields[0].hold, shape.fields[1].is_shared) = (Hold::WithAll, true);
        let code = all(&shape, 0);
        let pool = first(&code, Change::Pool);
        assert!(
            pool.contains(
                "    /* Base: as it is declared */\n    /* a, b: as it is declared */\n    struct node *next;\n"
            ),
            "{pool}"
        );
    }

    #[test]
    fn each_change_of_arrays_has_its_definitions() {
        let all = all(&structure(24, &[("x", 8), ("y", 8), ("z", 8)]), 2000);
        assert_eq!(
            first(&all, Change::Split),
            "struct node_x_z {\n    long x[];\n    long z[];\n};\nstruct node_y {\n    long y[];\n};\n\
             // one array each: items[i].x becomes items_x_z[i].x\n"
        );
        assert_eq!(first(&all, Change::ArrayOfEach).matches("struct").count(), 3);
        assert!(first(&all, Change::Blocks).contains("long x[8][];\n"));
        assert!(first(&all, Change::Blocks).contains("items[i / 8].x[i % 8]"));
    }
}
