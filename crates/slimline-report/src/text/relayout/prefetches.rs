//! Prefetches.

use std::fmt::{self, Write};
use std::path::Path;

use slimline_trace::escape::plain;

use super::super::fold;
use super::super::number::{percent, plural};
use super::{changed_code, predicted, signed, title, tried_table};
use crate::relayout::{AdvisedPrefetch, ChaseRow, PrefetchRow, TriedDistanceRow};
use crate::source::seen_from;

/// What is loaded by which index.
pub(crate) fn what_it_is(of: &PrefetchRow, here: &Path) -> String {
    let at = of.at.as_deref().map_or_else(String::new, |at| format!("{}: ", plain(&seen_from(here, at))));
    let through = of.through.as_deref().map_or_else(String::new, |through| format!(" through {}", plain(through)));
    format!(
        "{at}{} is loaded by an index of {}{through}, which goes by {} {} a step; {}",
        plain(&of.data),
        plain(&of.index),
        signed(of.index_bytes),
        if of.index_bytes.unsigned_abs() == 1 { "byte" } else { "bytes" },
        plural(of.loads, "load")
    )
}

/// One for which nothing is advised.
pub(super) fn left_alone(of: &PrefetchRow, here: &Path) -> String {
    let at = of.at.as_deref().map_or_else(String::new, |at| format!(" at {}", plain(&seen_from(here, at))));
    let reason = plain(of.reason.as_deref().unwrap_or_default());
    format!("Loads of {}{at} ({} of the time): {reason}.", plain(&of.data), percent(of.share))
}

/// What no distance helps.
pub(crate) fn chase(of: &ChaseRow, here: &Path) -> String {
    let at = of.at.as_deref().map_or_else(String::new, |at| format!(" at {}", plain(&seen_from(here, at))));
    format!(
        "Chase through {}{at} ({} of the time): each address comes of what the step before loads, so no prefetch so many steps ahead can be made of it.",
        plain(&of.data),
        percent(of.share)
    )
}

pub(super) fn one(
    out: &mut impl Write,
    (of, advice): (&PrefetchRow, &AdvisedPrefetch),
    is_all: bool,
    here: &Path,
) -> fmt::Result {
    title(out, &advice.change.title)?;
    fold(out, &what_it_is(of, here), 2, 4)?;
    fold(out, &format!("{} of the time.", percent(of.share)), 2, 2)?;
    fold(out, &predicted(&advice.change.predicted, is_all), 2, 2)?;
    changed_code(out, &advice.change)?;
    let words = |row: &TriedDistanceRow| (row.words(), row.distance == advice.distance, row.time_ratio);
    tried_table(out, of.tried.iter().map(words))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::super::a_run;
    use super::super::relayout;
    use super::super::tests::{predicted_row, two_structures};
    use super::*;
    use crate::relayout::{AdvisedCode, ENOUGH, PrefetchesReport, RelayoutReport};

    /// One that is asked for, one that is left alone, and a chase, beside structures.
    pub(crate) fn two_loads() -> RelayoutReport {
        let tried = [(4, 0.9), (8, 0.5)].map(|(distance, time_ratio)| TriedDistanceRow { distance, time_ratio });
        let advice = AdvisedPrefetch {
            distance: 8,
            change: AdvisedCode {
                title: "Prefetch stars[near[i]] 8 steps ahead at sky.c:31".to_owned(),
                predicted: predicted_row(0.5),
                cautions: vec!["near is loaded 8 steps ahead".to_owned()],
                code: Some("if (i + 8 < n) __builtin_prefetch(&stars[near[i + 8]]);\n".to_owned()),
                how: "Ask for what comes.".to_owned(),
            },
        };
        let row = |advice: Option<AdvisedPrefetch>| PrefetchRow {
            at: Some("/src/moon/sky.c:31".to_owned()),
            function: Some("turn".to_owned()),
            text: Some("stars[near[i]]".to_owned()),
            data: "stars".to_owned(),
            index: "near".to_owned(),
            index_bytes: -4,
            through: None,
            share: 0.25,
            loads: 1_048_576,
            mean_trip_count: None,
            crosses_ends: false,
            reason: advice.is_none().then(|| format!("no distance saves {ENOUGH}")),
            advice,
            tried: tried.to_vec(),
        };
        let chase = ChaseRow { at: Some("/src/moon/sky.c:40".to_owned()), data: "node".to_owned(), share: 0.125 };
        let other = PrefetchRow { through: Some("of".to_owned()), data: "moons".to_owned(), ..row(None) };
        let prefetches = PrefetchesReport { loads: vec![row(Some(advice)), other], together: None, chase: Some(chase) };
        RelayoutReport { prefetches, ..two_structures() }
    }

    #[test]
    fn prefetches_come_behind_loops() {
        let mut out = String::new();
        relayout(&mut out, &two_loads(), Path::new("/src/moon")).unwrap();
        let told = a_run::unstyled(&out);
        let (_, told) = told.split_once("\nADVICE 2\n").unwrap();
        let (advice, rest) = told.split_once("\nLEAVE ALONE\n").unwrap();
        let expected = "  Prefetch stars[near[i]] 8 steps ahead at sky.c:31\n  sky.c:31: stars is loaded by an index of near, which goes by −4 bytes a \
                        step; 1,048,576 loads\n  25.0 % of the time.\n  Predicted: −50.0 % run time";
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(advice).starts_with(&words(expected)), "{advice}");
        let code = "\n  Mind that near is loaded 8 steps ahead.\n\n      if (i + 8 < n) __builtin_prefetch(&stars[near[i + 8]]);\n\n";
        assert!(advice.contains(code), "{advice}");
        let rows: Vec<Vec<&str>> = advice.lines().rev().take(2).map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(rows, [vec!["8", "steps", "*", "−50.0", "%"], vec!["4", "steps", "−10.0", "%"]]);
        let rest = words(rest);
        assert!(rest.contains("Loads of moons at sky.c:31 (25.0 % of the time): no distance saves 5 %"), "{rest}");
        assert!(rest.contains("Chase through node at sky.c:40 (12.5 % of the time): each address comes"), "{rest}");
        assert!(told.lines().all(|line| line.chars().count() <= 100), "{told}");
    }

    #[test]
    fn loads_whose_source_is_elsewhere_are_told_in_words() {
        let mut report = two_loads();
        report.prefetches.loads[0].advice.as_mut().unwrap().change.code = None;
        let mut out = String::new();
        relayout(&mut out, &report, Path::new("/")).unwrap();
        assert!(out.contains("\n  Ask for what comes.\n") && !out.contains("__builtin"), "{out}");
    }
}
