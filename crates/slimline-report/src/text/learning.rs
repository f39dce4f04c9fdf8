//! Which features of objects say with whom they are accessed, as text.

use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::full_trace::more;
use super::layout::communities;
use super::number::{count, percent, plural};
use super::simulation::access_trace;
use super::table::{Column, Rows};
use super::{HEADING, fold, shorten_end};
use crate::learning::{AccuracyRow, LearningReport, TypeRow};

/// Columns of the longest bar, and of names.
const BAR_COLUMNS: usize = 24;
const NAME_COLUMNS: usize = 28;

/// Writes the report; of so many features of each type.
///
/// # Errors
/// As `out`.
pub fn learning(out: &mut impl Write, report: &LearningReport, most: usize) -> fmt::Result {
    access_trace(out, &report.trace)?;
    write!(out, "{}, window {}, seed {}", plural(report.objects, "object"), report.window, report.seed)?;
    let levels = report.levels.iter().map(|level| communities(level.communities)).collect::<Vec<_>>();
    if levels.is_empty() {
        return writeln!(out, ": no two belong together more than chance lets expect, so there is nothing to learn");
    }
    writeln!(out, ", levels of {}", levels.join(", "))?;
    if report.of_three_types {
        fold(
            out,
            "Of all types nothing was found: this is of accesses to the three types of most objects only.",
            0,
            0,
        )?;
    }
    if !report.has_values {
        let no_values = "The trace does not tell what is loaded and stored, so no fields are known: compile with slimline cc \
            --slimline-values.";
        fold(out, no_values, 0, 0)?;
    }
    if report.types.is_empty() {
        return writeln!(out, "No type has enough objects that are accessed next to others");
    }
    report.types.iter().try_for_each(|row| learned_type(out, report, row, most))
}

fn learned_type(out: &mut impl Write, report: &LearningReport, row: &TypeRow, most: usize) -> fmt::Result {
    let name = row.type_name.as_deref().map_or_else(|| "(not known)".to_owned(), plain);
    let file = row.file.as_deref().map(|file| plain(file.rsplit('/').next().unwrap_or(file)));
    let place = match (file, row.line) {
        (Some(file), Some(line)) => format!(", {file}:{line}"),
        _ => String::new(),
    };
    let name = shorten_end(&name, NAME_COLUMNS);
    write!(
        out,
        "\n{HEADING}{name}{HEADING:#}{place}: {} of {:.0} bytes",
        plural(row.objects, "object"),
        row.mean_bytes
    )?;
    match row.learned < row.objects {
        true => writeln!(out, "; {} of them, of communities that are drawn, are learned from", count(row.learned))?,
        false => writeln!(out)?,
    }
    write!(out, "  level {}: {}", row.level, communities(row.communities))?;
    if row.alone > 0 {
        write!(out, ", {} of one object, which none can learn", count(row.alone))?;
    }
    writeln!(out, "; forests of {} trees, 5 folds", row.trees)?;
    let columns = [
        Column::Text("community said right by"),
        Column::Number("first"),
        Column::Number("±"),
        Column::Number("among five"),
    ];
    let mut rows = Rows::new(&columns, false);
    let mut accuracy = |name: &str, of: &AccuracyRow| {
        rows.push(vec![name.to_owned(), percent(of.mean), percent(2.0 * of.standard_error), percent(of.among_five)]);
    };
    accuracy("all features", &row.accuracy);
    accuracy("fields and kind alone", &row.accuracy_of_fields);
    accuracy("place alone", &row.accuracy_of_place);
    accuracy("the most frequent one", &row.accuracy_of_guess);
    rows.push(vec!["shuffled, the best".to_owned(), percent(row.accuracy_of_shuffled), String::new(), String::new()]);
    rows.write(out, 2)?;
    features(out, row, most)?;
    verdict(out, report, row)
}

fn features(out: &mut impl Write, row: &TypeRow, most: usize) -> fmt::Result {
    let columns = [
        Column::Shortened("feature", NAME_COLUMNS),
        Column::Text("of"),
        Column::Number("importance"),
        Column::Text(""),
        Column::Number("loss without"),
        Column::Number("±"),
        Column::Number("changes"),
    ];
    let mut rows = Rows::new(&columns, false);
    let greatest = row.features.first().map_or(1.0, |feature| feature.gini.max(f64::MIN_POSITIVE));
    for feature in row.features.iter().take(most) {
        rows.push(vec![
            plain(&feature.name),
            feature.kind.to_owned(),
            format!("{:.3}", feature.gini),
            "█".repeat((feature.gini / greatest * BAR_COLUMNS as f64).round() as usize),
            percent(feature.permutation),
            percent(2.0 * feature.permutation_standard_error),
            if feature.changed > 0.0 { percent(feature.changed) } else { String::new() },
        ]);
    }
    rows.write(out, 2)?;
    more(out, row.features.len(), most)
}

fn verdict(out: &mut impl Write, report: &LearningReport, row: &TypeRow) -> fmt::Result {
    let names = row.verdict_features.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ");
    let saved = report.layout.saved.map_or_else(String::new, |saved| {
        format!(" The best order would save {} of the cycles on {}.", percent(saved), plain(&report.machine))
    });
    let words = match row.verdict {
        "hint" => format!("Allocate by {names}: it says who is accessed together.{saved}"),
        "already_so" => format!("Already laid out so: {names} says who is accessed together as well as fields do."),
        "nothing_to_gain" => format!("Features say who is accessed together, but no order of objects saves cycles on {}.", plain(&report.machine)),
        "changes_later" => format!("Only {names} says who is accessed together, and that changes after the object was made: grouping by it takes moving objects when it does."),
        "moved_about" => "Objects are copied about rather than used where they are: hints would not last; keep pointers to them instead.".to_owned(),
        _ => "No feature says who is accessed together: it takes another data structure, or accesses in another order.".to_owned(),
    };
    fold(out, &words, 2, 2)?;
    let Some(code) = &row.code else { return Ok(()) };
    writeln!(out)?;
    code.lines().try_for_each(|line| writeln!(out, "    {}", plain(line)))
}
