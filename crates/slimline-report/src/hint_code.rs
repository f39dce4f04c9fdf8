//! How a program tells `slimline-tidy` what was learned.

use slimline_analyze::object_learning::{Feature, LearnedType};

/// Bytes of a bucket where nothing is said: objects of one hint fill at least one.
const BUCKET_BYTES: f64 = 4096.0;
/// Arenas of a dimension at most.
const MOST_CELLS: f64 = 4096.0;

/// C, or Rust where the file is of that: a context whose arenas each have about a bucket of this run's objects, and a call that
/// allocates one by its features.
pub(crate) fn hint_code(of: &LearnedType, features: &[Feature], file: &str) -> String {
    let is_rust = file.ends_with(".rs");
    let type_name = if of.type_name.is_empty() { "object" } else { &of.type_name };
    let name = identifier(type_name);
    let arenas = (of.objects as f64 * of.bytes / BUCKET_BYTES).max(2.0);
    let cells = arenas.powf(1.0 / features.len() as f64).ceil().clamp(2.0, MOST_CELLS);
    let sizes = vec![format!("{cells}"); features.len()].join(", ");
    let binned: Vec<String> = features.iter().map(|feature| bin(feature, cells, is_rust)).collect();
    let binned = binned.join(", ");
    let said = features.iter().map(|feature| format!("{}: {}", feature.name, range(feature))).collect::<Vec<_>>();
    let said = format!("// In this run {}.", said.join(", "));
    match is_rust {
        true => format!(
            "{said}\nlet {name}_context = slimline_tidy::Context::new(&[{sizes}])?;\nlet {name}_pool = slimline_tidy::Pool::new(&{name}_context);\nlet object = {name}_pool.alloc(object, &[{binned}])?;"
        ),
        false => format!(
            "{said}\nstruct tidy_context *{name}_context = tidy_create({}, (const size_t[]){{{sizes}}});\nobject = tidy_alloc({name}_context, sizeof *object,\n                    (const size_t[]){{{binned}}});",
            features.len()
        ),
    }
}

/// The cell of a feature's value: its range in as many parts.
fn bin(feature: &Feature, cells: f64, is_rust: bool) -> String {
    let (least, most) = feature.range;
    let name = &feature.name;
    let span = if feature.is_integer { most - least + 1.0 } else { most - least };
    if !(span.is_finite() && span > 0.0) {
        return name.clone();
    }
    let offset = match least {
        0.0 => name.clone(),
        least if least < 0.0 => format!("({name} + {})", number(-least)),
        least => format!("({name} - {})", number(least)),
    };
    let value = match (feature.is_integer, span <= cells) {
        (true, true) => offset,
        (true, false) => format!("{offset} / {}", number((span / cells).ceil())),
        (false, _) => format!("{offset} * {}", number(cells / span)),
    };
    if is_rust { format!("({value}) as usize") } else { format!("(size_t)({value})") }
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
        let bin = |range, is_integer| bin(&feature("x", range, is_integer), 64.0, false);
        assert_eq!(bin((0.0, 6399.0), true), "(size_t)(x / 100)");
        assert_eq!(bin((10.0, 60.0), true), "(size_t)((x - 10))");
        assert_eq!(bin((-1.0, 1.0), false), "(size_t)((x + 1) * 32)");
        assert_eq!(bin((5.0, 5.0), false), "x");
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
