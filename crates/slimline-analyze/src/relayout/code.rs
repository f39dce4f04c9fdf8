//! The definitions of a layout.

mod fortran;

use std::fmt::Write as _;

use slimline_attribute::tables::Language;

use super::candidates::{Candidate, Change, is_linked, pointee};
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
        let own = |field: &usize| line(form, structure, candidate, *field, 1);
        part.iter().filter_map(own).collect()
    };
    // What stays one structure.
    let whole = || -> Vec<String> {
        let padding = fortran::padding(structure, candidate);
        lines(&candidate.parts[0]).into_iter().chain(padding).collect()
    };
    let is_rust = structure.language == Language::Rust;
    let mut code = String::new();
    match candidate.change {
        Change::Align if structure.is_columns => {
            if is_rust {
                let _ = writeln!(code, "#[repr(align({}))]", alignment(candidate, 0));
            }
            form.structure(&mut code, &line_name(structure), &whole(), None);
        }
        Change::Reorder
        | Change::Pool
        | Change::Align
        | Change::Inline
        | Change::Shrink
        | Change::BitFields
        | Change::Indexes => {
            // Else the compiler orders fields as it likes.
            let is_ordered = !candidate.parts[0].is_sorted();
            let attribute = match (candidate.change == Change::Align, is_ordered) {
                (true, true) => format!("#[repr(C, align({}))]", alignment(candidate, 0)),
                (true, false) => format!("#[repr(align({}))]", alignment(candidate, 0)),
                (false, true) => "#[repr(C)]".to_owned(),
                (false, false) => String::new(),
            };
            if is_rust && !attribute.is_empty() {
                let _ = writeln!(code, "{attribute}");
            }
            form.structure(&mut code, name, &whole(), None);
        }
        Change::HotCold => {
            let cold = format!("{name}_cold");
            form.structure(&mut code, &cold, &lines(&candidate.parts[1]), None);
            form.structure(&mut code, name, &lines(&candidate.parts[0]), Some(&cold));
        }
        Change::Merge => {
            for (number, part) in candidate.merged() {
                if is_rust && candidate.align > 0 {
                    let _ = writeln!(code, "#[repr(align({}))]", alignment(candidate, number));
                }
                form.structure(&mut code, &part_name(structure, part), &lines(part), None);
            }
        }
        Change::Split | Change::ArrayOfEach => {
            for part in &candidate.parts {
                form.structure(&mut code, &format!("{name}_{}", part_name(structure, part)), &lines(part), None);
            }
        }
        Change::Blocks => {
            let lanes = candidate.layout.parts()[0].lanes;
            let lines: Vec<String> =
                candidate.parts[0].iter().filter_map(|field| line(form, structure, candidate, *field, lanes)).collect();
            form.structure(&mut code, &format!("{name}_block"), &lines, None);
        }
    }
    let usage = match structure.language {
        Language::Fortran => fortran::usage(structure, candidate, name),
        _ => usage(structure, candidate, name),
    };
    let indexed = indexed(structure, candidate, name);
    for text in [usage, indexed, bits(candidate, is_rust), narrowed(candidate, is_rust).to_owned()] {
        if !text.is_empty() {
            comment(form, &mut code, &text);
        }
    }
    code
}

/// What is to be done where fields have narrower types.
const fn narrowed(candidate: &Candidate, is_rust: bool) -> &'static str {
    match is_rust {
        _ if candidate.types.narrowed.is_empty() => "",
        true => "narrower: conversions where they are stored (try_into, so that what is too large is found) and loaded",
        false => {
            "narrower: check where they are stored that no more than this is, and look at what takes their addresses, prints or scans them"
        }
    }
}

/// What is to be done where pointers are indexes.
fn indexed(structure: &StructureShape, candidate: &Candidate, name: &str) -> String {
    let Some(field) = candidate.types.indexed.first().map(|field| field_name(&structure.fields[*field])) else {
        return String::new();
    };
    let items = if candidate.is_pool { format!("{name}_pool") } else { "items".to_owned() };
    match (structure.language == Language::Rust, candidate.is_pool) {
        (true, _) => format!(
            "{items}: one Vec<{name}>, whose first is none: node.{field} becomes {items}[node.{field} as usize]; functions get indexes, or the Vec and one"
        ),
        (false, true) => format!(
            "all {name} from one array {items} that never moves: malloc of as many as there will be, or addresses reserved by mmap with MAP_NORESERVE; its first is none. node->{field} becomes &{items}[node->{field}], a pointer's index is node - {items}"
        ),
        (false, false) => format!(
            "items: the array of all of them, whose first is none (or keep index + 1): node->{field} becomes &items[node->{field}], a pointer's index is node - items"
        ),
    }
}

/// What is to be done where fields are bits of a byte.
fn bits(candidate: &Candidate, is_rust: bool) -> String {
    match is_rust {
        _ if candidate.types.packed.is_empty() => String::new(),
        true => "bits: methods load and store them by shifts and masks (or the crate bitflags)".to_owned(),
        false => {
            "bit-fields: none has an address (&node->flag), and a store loads its byte first, so that threads which store those of one byte need a lock; check where they are stored that no more than this is"
                .to_owned()
        }
    }
}

/// Of an element of an array that has lines of its own.
fn line_name(structure: &StructureShape) -> String {
    format!("{}_line", field_name(&structure.fields[0]))
}

/// What is to be done where a pointer becomes what it points to.
fn inlining(structure: &StructureShape, candidate: &Candidate, name: &str, is_rust: bool) -> String {
    let Some(inlined) = &candidate.inlined else { return String::new() };
    let field = field_name(&structure.fields[inlined.field.field]);
    let pool = if candidate.is_pool { format!("; {name} from a pool or arena (docs/tidy.md)") } else { String::new() };
    let ownership = &inlined.ownership;
    let without = match ownership.elements.saturating_sub(ownership.leading) {
        0 => String::new(),
        _ if is_rust => "; an Option where there may be none".to_owned(),
        _ => "; where it may be NULL, a flag that says so".to_owned(),
    };
    match is_rust {
        true => format!(
            "node.{field}.x stays as it is, *node.{field} becomes node.{field}, Box::new(…) what is in it{without}{pool}"
        ),
        false => format!(
            "node->{field}->x becomes node->{field}.x, a pointer to it &node->{field}; it is neither allocated nor freed by itself{without}; its own definition comes first{pool}"
        ),
    }
}

/// Writes a comment in lines of not too many columns.
fn comment(form: Form, code: &mut String, text: &str) {
    const COLUMNS: usize = 90;
    let mut line = form.mark().to_owned();
    for word in text.split(' ') {
        if line.len() + 1 + word.len() > COLUMNS {
            let _ = writeln!(code, "{line}");
            form.mark().clone_into(&mut line);
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

/// The declaration of a field, as often as there are lanes. None of what is declared with the field in front of it.
fn line(form: Form, structure: &StructureShape, candidate: &Candidate, number: usize, lanes: u32) -> Option<String> {
    let field = &structure.fields[number];
    let is_rust = form.language == Language::Rust;
    if let Some(few) = field.few_bits.filter(|_| candidate.types.packed.contains(&number)) {
        if is_rust {
            return byte_of_bits(structure, candidate, number);
        }
        // What is stored to a truth is one whatever it was: it keeps its type.
        let own = match few.range {
            None => field.type_name.as_str(),
            Some(_) if few.is_signed => "int8_t",
            Some(_) => "uint8_t",
        };
        return Some(form.field(own, &format!("{} : {}", field_name(field), few.bits)));
    }
    if candidate.types.indexed.contains(&number) {
        let own = if is_rust { "u32" } else { "uint32_t" };
        let own = match lanes {
            1 => own.to_owned(),
            _ if is_rust => format!("[{own}; {lanes}]"),
            _ => format!("{own}[{lanes}]"),
        };
        return Some(form.field(&own, &field_name(field)) + " // an index, 0: none");
    }
    let is_inlined = candidate.inlined.as_ref().is_some_and(|inlined| inlined.field.field == number);
    if let Some(held) = pointee(&field.type_name).filter(|_| is_inlined) {
        return Some(form.field(held, &field_name(field)) + " // it, not a pointer to it");
    }
    let is_known = !field.is_shared && field.hold == Hold::None;
    // An array of pointers is nothing that Fortran has.
    let has_no_lanes =
        field.type_name.contains("(*") || form.language == Language::Fortran && field.type_name.contains('*');
    if !is_known || lanes > 1 && has_no_lanes {
        // The widths of bit-fields are not known here, nor how a parent is declared.
        let times = if lanes > 1 { format!(", {lanes} of it") } else { String::new() };
        return Some(form.as_declared(&field.name, &times));
    }
    let narrower = field.narrower.filter(|_| candidate.types.narrowed.contains(&number));
    let own = narrower.map_or_else(|| field.type_name.clone(), |of| narrower_type(form.language, &of));
    let type_name = match own.find('[') {
        _ if lanes == 1 => own,
        _ if form.language == Language::Fortran => fortran::lanes(&own, lanes),
        _ if form.language == Language::Rust => format!("[{own}; {lanes}]"),
        // Of arrays there is one for each lane.
        Some(at) => format!("{}[{lanes}]{}", &own[..at], &own[at..]),
        None => format!("{own}[{lanes}]"),
    };
    Some(form.field(&type_name, &field_name(field)))
}

/// The byte whose bits a field and others are, in Rust; none where it is not the first of them.
fn byte_of_bits(structure: &StructureShape, candidate: &Candidate, number: usize) -> Option<String> {
    let fields = candidate.layout.fields();
    let place = |number: usize| {
        let of = fields.iter().find(|of| of.from == structure.fields[number].offset)?;
        Some((of.part, of.to))
    };
    let of_it = candidate.parts.iter().flatten().copied();
    let of_it: Vec<usize> = of_it.filter(|other| place(*other) == place(number)).collect();
    let mut from = 0;
    let told = of_it.iter().map(|&number| {
        let field = &structure.fields[number];
        let bits = field.few_bits.map_or(0, |few| few.bits);
        from += bits;
        format!("{}: {bits} from bit {}", field_name(field), from - bits)
    });
    let told: Vec<String> = told.collect();
    let names: Vec<String> = of_it.iter().map(|number| field_name(&structure.fields[*number])).collect();
    (of_it.first() == Some(&number)).then(|| format!("{}: u8, // {}", names.join("_"), told.join(", ")))
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

/// Of the elements of a part.
fn alignment(candidate: &Candidate, part: usize) -> u32 {
    1 << candidate.layout.parts()[part].bytes.trailing_zeros().min(6)
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
        Change::Shrink | Change::BitFields if candidate.is_pool => {
            "get them from a pool or arena (docs/tidy.md)".to_owned()
        }
        Change::Shrink | Change::BitFields | Change::Indexes => String::new(),
        Change::Align if structure.is_columns => {
            let (align, field, name) = (alignment(candidate, 0), field(0), line_name(structure));
            let how = match is_rust {
                true => format!("{field} has elements of {name}"),
                false => format!(
                    "struct {name} {field}[…], _Alignas({align}) on its member (C++: struct alignas({align}) {name})"
                ),
            };
            format!("{how}: {field}[i] becomes {field}[i].{field}; blocks of the heap by aligned_alloc({align}, …)")
        }
        Change::Align if is_rust => "nothing else changes".to_owned(),
        Change::Align => {
            let align = alignment(candidate, 0);
            format!(
                "_Alignas({align}) on its first member (C++: struct alignas({align}) {name}); its blocks by aligned_alloc({align}, …), arrays too"
            )
        }
        Change::Pool => format!(
            "get them from a pool or arena: chunks of many {name}, handed out one behind the other (docs/tidy.md)"
        ),
        Change::Inline => inlining(structure, candidate, name, is_rust),
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
        Change::Merge => {
            let of_part = |(number, part): (usize, &Vec<usize>)| {
                let (name, field) = (part_name(structure, part), field_name(&structure.fields[part[0]]));
                let align = match alignment(candidate, number) {
                    _ if candidate.align == 0 || is_rust => String::new(),
                    align => format!(", _Alignas({align}) on its first member (C++: struct alignas({align}) {name})"),
                };
                format!(
                    "{name}_items of struct {name} in the place of {} arrays{align}: {field}[i] becomes {name}_items[i].{field}",
                    part.len()
                )
            };
            let parts: Vec<String> = candidate.merged().map(of_part).collect();
            format!("{}; whole arrays that are set, copied or handed on are loops then", parts.join("; "))
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
    use super::super::candidates::tests::{structure, with_part};
    use super::super::candidates::{Objects, Retyped, candidates};
    use super::super::visits::Visits;
    use super::*;
    use crate::full_trace::held_values::FewBits;
    use crate::full_trace::values::Range;

    fn all(structure: &StructureShape, in_arrays: u64) -> Vec<(Change, String)> {
        let visits =
            Visits { accesses: 2000, in_arrays, most_elements: 100, ..Visits::of(&[(0b101, 1000), (0b010, 1)]) };
        let found = candidates(structure, &visits, Objects { count: 100, otherwise: 0, apart: 0 }).unwrap();
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

    #[test]
    fn what_is_held_by_value_has_its_own_type() {
        let (shape, found) = with_part(true);
        assert_eq!(
            definitions(&shape, &found[0]),
            "struct owner {\n    long key;\n    struct part part; // it, not a pointer to it\n    const struct part *other;\n    \
             struct owner *up;\n};\n\
             // node->part->x becomes node->part.x, a pointer to it &node->part; it is neither\n\
             // allocated nor freed by itself; where it may be NULL, a flag that says so; its own\n\
             // definition comes first\n"
        );
        let (mut shape, found) = with_part(false);
        shape.language = Language::Rust;
        shape.fields[1].type_name = "alloc::boxed::Box<part::Part, alloc::alloc::Global>".to_owned();
        let code = definitions(&shape, &found[1]);
        assert!(code.contains("    part: part::Part, // it, not a pointer to it\n"), "{code}");
        assert!(code.contains("an Option where there may be none; owner from a pool or arena"), "{code}");
    }

    /// Two truths, one number of three bits with a sign, and one of one.
    fn flags(language: Language) -> StructureShape {
        let mut shape = structure(16, &[("key", 8), ("a", 1), ("b", 1), ("c", 1), ("d", 1), ("note", 4)]);
        shape.language = language;
        let few = |bits, is_signed, range| Some(FewBits { bits, is_signed, range, storer: None });
        let of = [
            few(1, false, None),
            few(1, false, None),
            few(3, true, Some(Range::Signed(-1, 0))),
            few(1, false, Some(Range::Unsigned(0, 1))),
        ];
        let names = ["u64", "bool", "bool", "i8", "u8", "[u8; 4]"];
        shape.fields.iter_mut().zip(names).for_each(|(field, name)| field.type_name = name.to_owned());
        shape.fields[1..5].iter_mut().zip(of).for_each(|(field, few)| field.few_bits = few);
        shape
    }

    #[test]
    fn definitions_have_bits() {
        let mut shape = flags(Language::C);
        let packed = Retyped { packed: vec![1, 2, 3, 4], ..Retyped::default() };
        let visits =
            Visits { accesses: 2000, in_arrays: 2000, most_elements: 100, ..Visits::of(&[(0b111_1111, 1000)]) };
        let code = |shape: &StructureShape| {
            let found = candidates(shape, &visits, Objects { count: 1, otherwise: 0, apart: 0 }).unwrap();
            let bits = found.iter().find(|of| of.change == Change::BitFields).unwrap();
            assert_eq!(bits.types, packed);
            definitions(shape, bits)
        };
        // 8 and 9 bytes of which four are bits of one.
        shape.fields[5].bytes = 5;
        shape.fields[5].type_name = "char[5]".to_owned();
        shape.bytes = 24;
        shape.fields.push(FieldShape {
            name: "end".to_owned(),
            type_name: "char[2]".to_owned(),
            offset: 17,
            bytes: 2,
            ..FieldShape::default()
        });
        let c = code(&shape);
        assert!(
            c.contains(
                "    char end[2];\n    int8_t c : 3;\n    bool a : 1;\n    bool b : 1;\n    uint8_t d : 1;\n};\n"
            ),
            "{c}"
        );
        shape.language = Language::Rust;
        let rust = code(&shape);
        assert!(
            rust.contains(
                "    c_a_b_d: u8, // c: 3 from bit 0, a: 1 from bit 3, b: 1 from bit 4, d: 1 from bit 5\n}\n"
            ),
            "{rust}"
        );
        assert!(rust.contains("// bits: methods load and store them"), "{rust}");
    }

    /// Narrower fields in parts of elements.
    #[test]
    fn definitions_have_the_narrower_types() {
        let mut shape = structure(64, &[("key", 8), ("kind", 8), ("note", 32), ("count", 8), ("next", 8)]);
        shape.fields.iter_mut().for_each(|field| field.type_name = field.type_name.replace(" []", ""));
        for field in [1, 3] {
            shape.fields[field].narrower =
                Some(Narrower { bytes: 2, number: Number::Signed, range: Range::Signed(-1, 9) });
        }
        let visits = Visits { accesses: 2000, most_elements: 100, ..Visits::of(&[(0b11011, 1000), (0b100, 1)]) };
        let found = candidates(&shape, &visits, Objects { count: 100, otherwise: 0, apart: 0 }).unwrap();
        let hot_cold = found.iter().find(|of| of.change == Change::HotCold && !of.types.narrowed.is_empty()).unwrap();
        let code = definitions(&shape, hot_cold);
        assert!(
            code.starts_with(
                "struct node_cold {\n    long note;\n};\n\
                 struct node {\n    long key;\n    struct node *next;\n    int16_t kind;\n    int16_t count;\n    struct node_cold *cold;\n};\n\
                 // node->note becomes node->cold->note"
            ),
            "{code}"
        );
        assert!(code.contains("\n// narrower: check where they are stored that no more than this is"), "{code}");
    }

    #[test]
    fn arrays_have_the_definition_of_what_they_become() {
        let mut shape = structure(32, &[("x", 8), ("y", 8), ("z", 8), ("key", 8)]);
        shape.is_columns = true;
        shape.fields.iter_mut().for_each(|field| field.type_name = "double".to_owned());
        let code = all(&shape, 2000);
        assert!(code.iter().all(|(change, _)| *change == Change::Merge), "{code:?}");
        // x and z, key never, y by itself.
        assert_eq!(
            code[0].1,
            "struct x_z {\n    double x;\n    double z;\n};\n\
             // x_z_items of struct x_z in the place of 2 arrays: x[i] becomes x_z_items[i].x; whole\n\
             // arrays that are set, copied or handed on are loops then\n"
        );
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
            pool.contains("    /* Base: as declared */\n    /* a, b: as declared */\n    struct node *next;\n"),
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
