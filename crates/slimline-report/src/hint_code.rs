//! How a program tells `slimline-tidy` what was learned.

use slimline_analyze::object_learning::{Feature, Hint, Scale};

/// Columns of a line, as it stands indented in a report.
const CODE_COLUMNS: usize = 96;

/// The language of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    C,
    CPlusPlus,
    Rust,
}

impl Language {
    fn of(file: &str) -> Self {
        match file.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "rs" => Self::Rust,
            "c" | "h" => Self::C,
            _ => Self::CPlusPlus,
        }
    }
}

/// A context with the hint's arenas, and a call that allocates an object by its features, in the language of the file. None where a feature
/// has no name.
pub(crate) fn hint_code(type_name: &str, hint: &Hint, file: &str) -> Option<String> {
    let features = &hint.features;
    if features
        .iter()
        .any(|feature| feature.name.starts_with('+') || feature.name.contains("->+") || feature.name.contains(' '))
    {
        return None;
    }
    let language = Language::of(file);
    let type_name = if type_name.is_empty() { "object" } else { type_name };
    let name = identifier(type_name);
    let sizes = vec![hint.cells.to_string(); features.len()].join(", ");
    let binned: Vec<String> = features.iter().map(|feature| cell(hint, feature, language)).collect();
    let said =
        features.iter().map(|feature| format!("{}: {}", named(feature, language), range(feature))).collect::<Vec<_>>();
    let said = format!("// In this run {}.", said.join(", "));
    let count = features.len();
    Some(match language {
        Language::Rust => {
            let hint = listed(&format!("let object = {name}_pool.alloc(object, &["), &binned, "])?;");
            format!(
                "{said}\nlet {name}_context = slimline_tidy::Context::new(&[{sizes}])?;\n\
                let {name}_pool = slimline_tidy::Pool::new(&{name}_context);\n{hint}"
            )
        }
        Language::C | Language::CPlusPlus => {
            let hint = listed("const size_t hint[] = {", &binned, "};");
            let call = format!("tidy_alloc({name}_context, sizeof *object, hint);");
            let made = match language {
                // Its constructor is called as before.
                Language::CPlusPlus => {
                    let made = format!("object = new (memory) {type_name}(/* as before */);");
                    format!("{}\n{made}", wrapped("void *memory = ", &call))
                }
                _ => wrapped("object = ", &call),
            };
            format!(
                "{said}\nconst size_t {name}_sizes[] = {{{sizes}}};\n\
                struct tidy_context *{name}_context = tidy_create({count}, {name}_sizes);\n{hint}\n{made}"
            )
        }
    })
}

/// On one line, or each on its own.
fn listed(before: &str, items: &[String], after: &str) -> String {
    let line = format!("{before}{}{after}", items.join(", "));
    if line.chars().count() <= CODE_COLUMNS {
        return line;
    }
    let items: String = items.iter().map(|item| format!("    {item},\n")).collect();
    format!("{before}\n{items}{after}")
}

/// On one line, or on two.
fn wrapped(before: &str, after: &str) -> String {
    let line = format!("{before}{after}");
    if line.chars().count() <= CODE_COLUMNS { line } else { format!("{}\n    {after}", before.trim_end()) }
}

/// A feature as it is written: Rust has one way to what is pointed to.
fn named(feature: &Feature, language: Language) -> String {
    if language == Language::Rust { feature.name.replace("->", ".") } else { feature.name.clone() }
}

/// The number of the cell that a feature's value is in.
fn cell(hint: &Hint, feature: &Feature, language: Language) -> String {
    let cell = hint.cell(feature);
    let name = named(feature, language);
    let literal = |value| literal(value, language == Language::Rust && !feature.is_integer);
    let from_least = match cell.subtracted {
        0.0 => name.clone(),
        least if cell.added > 0.0 => format!("{name} - {} + {}", literal(least), literal(cell.added)),
        least if least < 0.0 => format!("{name} + {}", literal(-least)),
        least => format!("{name} - {}", literal(least)),
    };
    let factor = if cell.subtracted == 0.0 { name } else { format!("({from_least})") };
    let value = match cell.scale {
        Scale::One => from_least,
        Scale::DividedBy(by) => format!("{factor} / {}", literal(by)),
        Scale::Times(by) => format!("{factor} * {}", literal(by)),
    };
    let value = if value.contains(' ') { format!("({value})") } else { value };
    if language == Language::Rust { format!("{value} as usize") } else { format!("(size_t){value}") }
}

/// A number in a program.
fn literal(value: f64, is_float_of_rust: bool) -> String {
    let number = number(value);
    if is_float_of_rust && !number.contains(['.', 'e']) { format!("{number}.0") } else { number }
}

fn range(feature: &Feature) -> String {
    format!("{} to {}", number(feature.range.0), number(feature.range.1))
}

/// An integer, or six digits of what is none.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value}");
    }
    let digits = (5 - value.abs().max(f64::MIN_POSITIVE).log10().floor() as i32).max(0);
    match digits {
        0..=12 => format!("{value:.*}", digits as usize).trim_end_matches('0').trim_end_matches('.').to_owned(),
        _ => format!("{value:.5e}"),
    }
}

/// What may be a name of C and Rust.
fn identifier(type_name: &str) -> String {
    let last = type_name.rsplit("::").next().unwrap_or(type_name);
    let last = last.split('<').next().unwrap_or(last);
    let name: String =
        last.chars().map(|of| if of.is_ascii_alphanumeric() { of.to_ascii_lowercase() } else { '_' }).collect();
    if name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        name
    } else {
        format!("of_{name}")
    }
}

#[cfg(test)]
mod tests {
    use slimline_analyze::object_learning::FeatureKind;

    use super::*;

    fn feature(name: &str, range: (f64, f64), is_integer: bool) -> Feature {
        let (gini, permutation, permutation_error, known, changed) = (0.5, 0.5, 0.01, 1.0, 0.0);
        let kind = FeatureKind::Primary;
        let name = name.to_owned();
        Feature { kind, name, gini, permutation, permutation_error, known, changed, range, is_integer }
    }

    #[test]
    fn a_value_is_in_the_cell_of_its_part_of_the_range() {
        let of = |range, is_integer, language| {
            let hint = Hint { features: vec![feature("x", range, is_integer)], cells: 64 };
            cell(&hint, &hint.features[0], language)
        };
        let bin = |range, is_integer| of(range, is_integer, Language::C);
        assert_eq!(bin((0.0, 6399.0), true), "(size_t)(x / 100)");
        assert_eq!(bin((10.0, 60.0), true), "(size_t)(x - 10)");
        assert_eq!(bin((0.0, 2.0), false), "(size_t)(x * 31.9997)");
        assert_eq!(bin((-1.0, 1.0), false), "(size_t)((x - -1 + 0.00000200002) * 31.9997)");
        assert_eq!(of((-1.0, 1.0), false, Language::Rust), "((x - -1.0 + 0.00000200002) * 31.9997) as usize");
        assert_eq!(bin((5.0, f64::INFINITY), false), "(size_t)x");
    }

    /// What is compiled and run there is what is printed here.
    fn check_printed(file: &str, tested: &str) {
        let secondary = if file.ends_with(".rs") { "owner->group" } else { "owner->in.group" };
        let features = vec![
            feature("x", (-1.0, 1.0), false),
            feature("id", (-10.0, 40.0), true),
            feature(secondary, (0.0, 6399.0), true),
        ];
        let printed = hint_code("node", &Hint { features, cells: 64 }, file).unwrap();
        // rustfmt breaks lines as it likes.
        let words = |text: &str| {
            let words = text.chars().filter(|character| !character.is_whitespace()).collect::<String>();
            words.replace(",)", ")").replace(",]", "]")
        };
        let parts = tested.split("// Printed from here on.\n").skip(1);
        let marked: String = parts.filter_map(|part| part.split("// Up to here").next()).map(words).collect();
        assert_eq!(words(&printed), marked);
    }

    #[test]
    fn code_is_what_tests_of_slimline_tidy_compile() {
        check_printed("a.c", include_str!("../../slimline-tidy/tests/c/printed_hint.c"));
        check_printed("a.rs", include_str!("../../slimline-tidy/tests/printed_hint.rs"));
    }

    #[test]
    fn objects_of_cpp_are_constructed() {
        let features = vec![feature("region", (0.0, 63.0), true)];
        let printed = hint_code("customer", &Hint { features, cells: 64 }, "a.cpp").unwrap();
        let last: Vec<&str> = printed.lines().skip(3).collect();
        let expected = [
            "const size_t hint[] = {(size_t)region};",
            "void *memory = tidy_alloc(customer_context, sizeof *object, hint);",
            "object = new (memory) customer(/* as before */);",
        ];
        assert_eq!(last, expected);
    }

    #[test]
    fn long_lines_are_broken() {
        let items = ["a".repeat(50), "b".repeat(50)];
        assert_eq!(listed("x = {", &items, "};"), format!("x = {{\n    {},\n    {},\n}};", items[0], items[1]));
        assert_eq!(listed("x = {", &items[..1], "};"), format!("x = {{{}}};", items[0]));
        assert_eq!(wrapped("object = ", &items.concat()), format!("object =\n    {}", items.concat()));
    }

    #[test]
    fn names_are_names_of_c() {
        assert_eq!(["mesh::Node<f64>", "struct edge", "9p"].map(identifier), ["node", "struct_edge", "of_9p"]);
    }

    #[test]
    fn numbers_have_six_digits() {
        assert_eq!([0.5, 123_456.789, -3.0, 4.00094e-20].map(number), ["0.5", "123457", "-3", "4.00094e-20"]);
    }
}
