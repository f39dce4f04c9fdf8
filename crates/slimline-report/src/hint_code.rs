//! How a program tells `slimline-tidy` what was learned.

use slimline_analyze::object_learning::{Feature, LearnedType};

/// Bytes of a bucket where nothing is said: objects of one hint fill at least one.
const BUCKET_BYTES: f64 = 4096.0;
/// So the greatest value is in the last cell, not behind it, whatever six digits round.
const ABOVE_ONE: f64 = 1.00001;
/// Arenas of a dimension at most.
const MOST_CELLS: f64 = 4096.0;

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

/// A context whose arenas each have about a bucket of this run's objects, and a call that allocates one by its features, in the language of
/// the file. None where a feature has no name.
pub(crate) fn hint_code(of: &LearnedType, features: &[Feature], file: &str) -> Option<String> {
    if features
        .iter()
        .any(|feature| feature.name.starts_with('+') || feature.name.contains("->+") || feature.name.contains(' '))
    {
        return None;
    }
    let language = Language::of(file);
    let type_name = if of.type_name.is_empty() { "object" } else { &of.type_name };
    let name = identifier(type_name);
    let arenas = (of.objects as f64 * of.bytes / BUCKET_BYTES).max(2.0);
    let cells = arenas.powf(1.0 / features.len() as f64).ceil().clamp(2.0, MOST_CELLS);
    let sizes = vec![format!("{cells}"); features.len()].join(", ");
    let binned: Vec<String> = features.iter().map(|feature| bin(feature, cells, language)).collect();
    let binned = binned.join(", ");
    let said = features.iter().map(|feature| format!("{}: {}", feature.name, range(feature))).collect::<Vec<_>>();
    let said = format!("// In this run {}.", said.join(", "));
    let count = features.len();
    let cast = match language {
        Language::CPlusPlus => format!("({type_name} *)"),
        Language::C | Language::Rust => String::new(),
    };
    Some(match language {
        Language::Rust => format!(
            "{said}\nlet {name}_context = slimline_tidy::Context::new(&[{sizes}])?;\n\
            let {name}_pool = slimline_tidy::Pool::new(&{name}_context);\n\
            let object = {name}_pool.alloc(object, &[{binned}])?;"
        ),
        Language::C | Language::CPlusPlus => format!(
            "{said}\nconst size_t {name}_sizes[] = {{{sizes}}};\n\
            struct tidy_context *{name}_context = tidy_create({count}, {name}_sizes);\n\
            const size_t hint[] = {{{binned}}};\n\
            object = {cast}tidy_alloc({name}_context, sizeof *object, hint);"
        ),
    })
}

/// The cell of a feature's value: its range in as many parts.
fn bin(feature: &Feature, cells: f64, language: Language) -> String {
    let (least, most) = feature.range;
    let name = &feature.name;
    let span = if feature.is_integer { most - least + 1.0 } else { (most - least) * ABOVE_ONE };
    let literal = |value| literal(value, language == Language::Rust && !feature.is_integer);
    let value = if span.is_finite() && span > 0.0 {
        let offset = match least {
            0.0 => name.clone(),
            // Rounded, it may be a little above: then the least value would be below 0.
            _ if !feature.is_integer => format!("({name} - {} + {})", literal(least), literal(span / 1e6)),
            least if least < 0.0 => format!("({name} + {})", literal(-least)),
            least => format!("({name} - {})", literal(least)),
        };
        match (feature.is_integer, span <= cells) {
            (true, true) => offset,
            (true, false) => format!("{offset} / {}", literal((span / cells).ceil())),
            (false, _) => format!("{offset} * {}", literal(cells / span)),
        }
    } else {
        name.clone()
    };
    if language == Language::Rust { format!("({value}) as usize") } else { format!("(size_t)({value})") }
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
        let of = |range, is_integer, language| bin(&feature("x", range, is_integer), 64.0, language);
        let bin = |range, is_integer| of(range, is_integer, Language::C);
        assert_eq!(bin((0.0, 6399.0), true), "(size_t)(x / 100)");
        assert_eq!(bin((10.0, 60.0), true), "(size_t)((x - 10))");
        assert_eq!(bin((0.0, 2.0), false), "(size_t)(x * 31.9997)");
        assert_eq!(bin((-1.0, 1.0), false), "(size_t)((x - -1 + 0.00000200002) * 31.9997)");
        assert_eq!(of((-1.0, 1.0), false, Language::Rust), "((x - -1.0 + 0.00000200002) * 31.9997) as usize");
        assert_eq!(bin((5.0, f64::INFINITY), false), "(size_t)(x)");
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
