//! Orders of loops.

use std::fmt::{self, Write};
use std::path::Path;

use slimline_trace::escape::plain;

use super::super::fold;
use super::super::number::{count, percent, plural_of};
use super::{changed_code, predicted_by, signed, title, tried_table};
use crate::relayout::{AdvisedLoops, LoopRow, LoopWalkRow};
use crate::source::seen_from;

/// How it is predicted.
pub(crate) const BY: &str = "replay of the nest alone by its strides, of what it takes of these accesses";
/// Walks that are told.
const MOST_WALKS: usize = 6;

/// What loops these are.
pub(crate) fn what_they_are(of: &LoopRow, here: &Path) -> String {
    let at = of.at.as_deref().map_or_else(String::new, |at| format!("{}: ", plain(&seen_from(here, at))));
    let steps = count(of.inner_times);
    format!(
        "{at}{steps} steps of the inner loop, {} times around; {} in all",
        count(of.outer_times),
        plural_of(of.accesses, "access", "accesses")
    )
}

/// How its instructions walk.
pub(crate) fn walks(of: &LoopRow) -> Vec<String> {
    let words = |walk: &LoopWalkRow| {
        let around = signed(walk.outer_bytes);
        let how = match walk.inner_bytes {
            Some(0) => format!("in each step, by {around} bytes a time around"),
            Some(bytes) if walk.outer_bytes == 0 => {
                format!("by {} bytes a step, the same each time around", signed(bytes))
            }
            Some(bytes) => format!("by {} bytes a step, {around} a time around", signed(bytes)),
            None => format!("by {around} bytes a time around, once"),
        };
        let kind = match walk.kind {
            "store" => "stored",
            "modify" => "changed",
            _ => "loaded",
        };
        format!("{} is {kind} {how}", plain(&walk.data))
    };
    let mut all: Vec<String> = of.walks.iter().map(words).collect();
    all.dedup();
    let more = all.len().saturating_sub(MOST_WALKS);
    all.truncate(MOST_WALKS);
    if more > 0 {
        all.push(format!("{more} more"));
    }
    all
}

/// Loops for which nothing is advised.
pub(super) fn left_alone(of: &LoopRow, here: &Path) -> String {
    let at = of.at.as_deref().map_or_else(|| "a line that is not known".to_owned(), |at| seen_from(here, at));
    format!(
        "The loops around {} ({} of the time): {}.",
        plain(&at),
        percent(of.share),
        plain(of.reason.as_deref().unwrap_or_default())
    )
}

pub(super) fn one(out: &mut impl Write, (of, advice): (&LoopRow, &AdvisedLoops), here: &Path) -> fmt::Result {
    title(out, &advice.change.title)?;
    fold(out, &what_they_are(of, here), 2, 4)?;
    fold(out, &format!("{} of the time. {}.", percent(of.share), walks(of).join("; ")), 2, 2)?;
    fold(out, &predicted_by(&advice.change.predicted, BY), 2, 2)?;
    changed_code(out, &advice.change)?;
    tried_table(out, of.tried.iter().map(|row| (row.words(), row == &advice.order, row.time_ratio)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::super::a_run;
    use super::super::relayout;
    use super::super::tests::{predicted_row, two_structures};
    use super::*;
    use crate::relayout::{AdvisedCode, RelayoutReport, TriedOrderRow};

    fn walk(data: &str, kind: &'static str, inner_bytes: Option<i64>, outer_bytes: i64) -> LoopWalkRow {
        LoopWalkRow { data: data.to_owned(), kind, at: Some("sky.c:31".to_owned()), inner_bytes, outer_bytes }
    }

    /// One that is tiled, and one that is left alone, beside structures.
    pub(crate) fn two_loops() -> RelayoutReport {
        let [exchanged, tiled] = [("interchange", None, 1.0), ("tile", Some(16), 0.5)]
            .map(|(change, tile, time_ratio)| TriedOrderRow { change, tile, lanes: 1, time_ratio });
        let advice = AdvisedLoops {
            order: tiled,
            change: AdvisedCode {
                title: "Tile the loops of turn at sky.c:29 and 30 by 16".to_owned(),
                predicted: predicted_row(0.5),
                cautions: vec!["it rounds otherwise".to_owned()],
                code: Some("for (int i = 0; i < n; i++)\n    for (int j = 0; j < n; j++)\n".to_owned()),
                how: "Go through both loops in squares.".to_owned(),
            },
        };
        let row = |advice: Option<AdvisedLoops>| LoopRow {
            at: Some("/src/moon/sky.c:31".to_owned()),
            function: Some("turn".to_owned()),
            loop_lines: Some([29, 30]),
            inner_times: 4096,
            outer_times: 1024,
            share: 0.25,
            accesses: 8_388_608,
            walks: vec![
                walk("from", "load", Some(-32_768), 8),
                walk("to", "store", Some(8), 32_768),
                walk("sums", "modify", None, 8),
                walk("by_row", "load", Some(8), 0),
                walk("by_column", "store", Some(0), 8),
            ],
            reason: advice.is_none().then(|| "another loop runs each time around the outer one".to_owned()),
            advice,
            tried: vec![exchanged, tiled],
        };
        RelayoutReport { loops: vec![row(Some(advice)), row(None)], ..two_structures() }
    }

    #[test]
    fn orders_of_loops_come_behind_layouts() {
        let mut out = String::new();
        relayout(&mut out, &two_loops(), Path::new("/src/moon")).unwrap();
        let told = a_run::unstyled(&out);
        let (_, told) = told.split_once("\nADVICE 2\n").unwrap();
        let (advice, rest) = told.split_once("\nLEAVE ALONE\n").unwrap();
        let expected = "  Tile the loops of turn at sky.c:29 and 30 by 16\n  sky.c:31: 4,096 steps of the inner loop, 1,024 times around; \
                        8,388,608 accesses in all\n  25.0 % of the time. from is loaded by −32,768 bytes a step, 8 a time around; ";
        assert!(advice.starts_with(expected), "{advice}");
        let in_place = "; by_row is loaded by 8 bytes a step, the same each time around; by_column is stored in each step, by 8 bytes a time around";
        let advice_words = advice.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(advice_words.contains(in_place), "{advice}");
        let code = "\n  Mind that it rounds otherwise.\n\n      for (int i = 0; i < n; i++)\n          for (int j = 0; j < n; j++)\n\n";
        assert!(advice.contains(code), "{advice}");
        let rows: Vec<Vec<&str>> = advice.lines().rev().take(2).map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(rows, [vec!["tile", "16", "*", "−50.0", "%"], vec!["interchange", "0"]]);
        assert!(
            rest.contains("\n  The loops around sky.c:31 (25.0 % of the time): another loop runs each time"),
            "{rest}"
        );
        assert!(!rest.contains("ALL OF IT") && told.lines().all(|line| line.chars().count() <= 100), "{told}");
    }

    #[test]
    fn loops_whose_source_is_elsewhere_are_told_in_words() {
        let mut report = two_loops();
        report.loops[0].advice.as_mut().unwrap().change.code = None;
        let mut out = String::new();
        relayout(&mut out, &report, Path::new("/")).unwrap();
        assert!(out.contains("\n  Go through both loops in squares.\n") && !out.contains("for ("), "{out}");
    }
}
