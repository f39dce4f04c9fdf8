//! Which features of objects say with whom they are accessed, as text.

use std::fmt::{self, Write};

use slimline_analyze::object_layout::WORTH_IT;
use slimline_analyze::object_learning::COMPARED_TREES;
use slimline_trace::escape::plain;

use super::full_trace::more;
use super::layout::communities;
use super::number::{count, percent, plural};
use super::simulation::access_trace;
use super::table::{Column, Rows};
use super::{HEADING, file_name, fold, shorten_end};
use crate::learning::{AccuracyRow, LearningReport, TypeRow};

/// Columns of the longest bar, and of names.
const BAR_COLUMNS: usize = 12;
const NAME_COLUMNS: usize = 36;

/// Writes the report; of so many features of each type.
///
/// # Errors
/// As `out`.
pub fn learning(out: &mut impl Write, report: &LearningReport, most: usize) -> fmt::Result {
    access_trace(out, &report.trace)?;
    let mut head = format!(
        "{}, window {}, seed {}",
        plural(report.facts.objects, "object"),
        report.facts.window,
        report.facts.seed
    );
    let levels = report.facts.levels.iter().map(|level| communities(level.communities)).collect::<Vec<_>>();
    if levels.is_empty() {
        head.push_str(": no two belong together more than chance lets expect, so there is nothing to learn");
        return fold(out, &head, 0, 0);
    }
    fold(out, &format!("{head}, levels of {}", levels.join(", ")), 0, 0)?;
    if report.facts.of_three_types {
        fold(
            out,
            "Of all types nothing was found: this is of accesses to the three types of most objects only.",
            0,
            0,
        )?;
    }
    if !report.facts.has_values {
        let no_values = "The trace does not tell what is loaded and stored, so no fields are known: compile with slimline cc \
            --slimline-values, or trace --collector translate --values.";
        fold(out, no_values, 0, 0)?;
    }
    if report.types.is_empty() {
        return writeln!(out, "No type has enough objects that are accessed next to others");
    }
    report.types.iter().try_for_each(|row| learned_type(out, report, row, most))
}

fn learned_type(out: &mut impl Write, report: &LearningReport, row: &TypeRow, most: usize) -> fmt::Result {
    let name = row.type_name.as_deref().map_or_else(|| "(not known)".to_owned(), plain);
    let file = row.file.as_deref().map(file_name);
    let place = match (file, row.line) {
        (Some(file), Some(line)) => format!(", {file}:{line}"),
        _ => String::new(),
    };
    let place = match row.other_lines {
        0 => place,
        lines => format!("{place} and {}", plural(lines as u64, "other line")),
    };
    let name = shorten_end(&name, NAME_COLUMNS);
    let objects = plural(row.objects, "object");
    writeln!(out, "\n{HEADING}{name}{HEADING:#}{place}: {objects} of {:.0} bytes", row.mean_bytes)?;
    let mut how = format!("level {}: {}", row.level, communities(row.communities));
    if row.learned < row.objects {
        how += &format!(" that were drawn, {} of their objects", count(row.learned));
    }
    if row.alone > 0 {
        how += &format!("; {} of one object, which none can learn", count(row.alone));
    }
    how += &format!("; 5 folds; all features by {} trees, others by {COMPARED_TREES}", row.trees);
    fold(out, &how, 2, 2)?;
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
    let machine = plain(&report.facts.machine);
    let saved = row.hint_saves.map(|saved| {
        let of_all = report.layout.saved_of_allocated;
        let of_all = of_all.map_or_else(String::new, |best| format!("; by the hierarchical order {}", percent(best)));
        format!(
            " Replayed so, {} of the cycles in the order of allocation are saved on {machine}{of_all}.",
            percent(saved)
        )
    });
    let saved = saved.unwrap_or_default();
    let words = match row.verdict {
        "hint" => format!("Allocate by {names}: it says who is accessed together.{saved}"),
        "order_array" => format!("Order the array, or what it is read from, by {names} (slimline layout --order-by): it says who is accessed together.{saved}"),
        "hint_saves_nothing" => format!("{names} says who is accessed together, but it saves nothing to allocate by it.{saved}"),
        "already_so" => {
            let within = report.layout.saved_of_allocated.filter(|saved| *saved >= WORTH_IT).map(|saved| {
                format!(" In which order they lie there is not as good: {} of the cycles in the order of allocation would be saved by \
                    the hierarchical order (slimline layout).", percent(saved))
            });
            format!("Communities lie together already: {names} says who is accessed together as well as fields do.{}", within.unwrap_or_default())
        }
        "nothing_to_gain" => format!(
            "Features say who is accessed together, but no order of objects saves cycles on {machine}. Where all fits in its caches, a \
             smaller machine (--machine FILE) or a larger run tells more."
        ),
        "changes_later" => format!("Only {names} says who is accessed together, and that changes after the object was made: grouping by it takes moving objects when it does."),
        "moved_about" => "Objects are copied about rather than used where they are: hints would not last; keep pointers to them instead.".to_owned(),
        "no_fields" => "What objects hold is not known, and where they lie does not say who is accessed together.".to_owned(),
        _ => "No feature says who is accessed together: it takes another data structure, or accesses in another order.".to_owned(),
    };
    fold(out, &words, 2, 2)?;
    let Some(code) = &row.code else { return Ok(()) };
    writeln!(out)?;
    code.lines().try_for_each(|line| writeln!(out, "    {}", plain(line)))
}

#[cfg(test)]
mod tests {
    use slimline_analyze::full_trace::objects::ObjectOrigin;
    use slimline_analyze::object_layout::{Arrangement, Verdict as LayoutVerdict};
    use slimline_analyze::object_learning::{Accuracy, Feature, FeatureKind, Hint, LearnedType, Verdict};

    use super::super::a_run;
    use super::*;
    use crate::layout::{LevelRow, VerdictRow};
    use crate::learning::LearningFacts;

    fn feature(kind: FeatureKind, name: &str, gini: f64, permutation: f64) -> Feature {
        let (permutation_error, known, changed, range) = (0.004, 1.0, 0.0, (0.0, 1000.0));
        let (name, is_integer) = (name.to_owned(), true);
        Feature { kind, name, gini, permutation, permutation_error, known, changed, range, is_integer }
    }

    fn hint(name: &str, permutation: f64) -> Hint {
        Hint { features: vec![feature(FeatureKind::Primary, name, 0.6, permutation)], cells: 188 }
    }

    fn learned(verdict: Verdict) -> LearnedType {
        let accuracy = |mean, error, among_five| Accuracy { mean, error, among_five };
        LearnedType {
            type_name: "edge".to_owned(),
            origins: vec![0],
            objects: 32_000,
            learned: 5000,
            bytes: 24.0,
            level: 2,
            communities: 40,
            alone: 3,
            trees: 400,
            accuracy: accuracy(0.923, 0.004, 0.983),
            of_fields: accuracy(0.912, 0.005, 0.985),
            of_place: accuracy(0.031, 0.005, 0.156),
            baseline: accuracy(0.031, 0.0, 0.155),
            is_place_as_good: false,
            compared: accuracy(0.92, 0.004, 0.98),
            is_of_arrays: false,
            is_any_order_better: true,
            shuffled: 0.039,
            features: vec![
                feature(FeatureKind::Primary, "source", 0.6, 0.528),
                Feature { changed: 0.999, ..feature(FeatureKind::Primary, "weight", 0.3, 0.1) },
                feature(FeatureKind::Place, "address", 0.1, 0.0),
            ],
            verdict,
            candidates: Vec::new(),
            hint_saves: Some(0.15),
        }
    }

    fn report(learned: &[LearnedType], has_values: bool) -> LearningReport {
        let mut edge = ObjectOrigin { type_name: "edge".to_owned(), ..ObjectOrigin::default() };
        (edge.allocated_at.file, edge.allocated_at.line) = ("/src/rank.cpp".to_owned(), 51);
        let level = |communities| LevelRow { communities, modularity: 0.5 };
        let facts = LearningFacts {
            objects: 67_702,
            has_values,
            of_three_types: !has_values,
            window: 2,
            seed: 1,
            levels: if learned.is_empty() { Vec::new() } else { vec![level(9859), level(229)] },
            machine: "small".to_owned(),
        };
        let to = Arrangement::Hierarchical;
        let layout = VerdictRow::of(LayoutVerdict::Reorder { to, saved: 0.21, saved_of_allocated: 0.2 });
        LearningReport::new(a_run::trace(), facts, layout, (learned, &[edge]))
    }

    fn written(report: &LearningReport) -> String {
        let mut out = String::new();
        learning(&mut out, report, 2).unwrap();
        a_run::unstyled(&out)
    }

    #[test]
    fn a_small_report() {
        let hint = Verdict::Hint(hint("source", 0.528));
        insta::assert_snapshot!(written(&report(&[learned(hint)], true)));
    }

    #[test]
    fn each_verdict_is_in_words() {
        let place = feature(FeatureKind::Place, "address", 0.1, 0.5);
        let verdicts = [
            Verdict::OrderArray(hint("x", 0.5)),
            Verdict::HintSavesNothing(hint("x", 0.5)),
            Verdict::AlreadySo(place),
            Verdict::NothingToGain,
            Verdict::ChangesLater(vec!["weight".to_owned()]),
            Verdict::MovedAbout(0.5),
            Verdict::NoFields,
            Verdict::NoFeature,
        ];
        let words = verdicts.map(|verdict| {
            let text = written(&report(&[learned(verdict)], false));
            text.rsplit("(--rows)\n").next().unwrap_or_default().to_owned()
        });
        insta::assert_snapshot!(words.concat());
    }

    #[test]
    fn without_communities_there_is_nothing_to_learn() {
        assert!(written(&report(&[], true)).replace('\n', " ").ends_with("so there is nothing to learn "));
    }
}
