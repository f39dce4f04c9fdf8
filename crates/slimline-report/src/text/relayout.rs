//! Layouts that were tried on a trace, as text.

use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::advice::gain;
use super::number::{bytes, count, percent, plural, plural_of};
use super::simulation::access_trace;
use super::table::{Column, Rows};
use super::{STRONG, fold, heading};
use crate::relayout::{AdvisedRow, PredictedRow, RelayoutReport, StructureRow, TriedRow};

/// Lines that are named.
const MOST_LINES: usize = 12;
/// Columns of the parts of a layout.
const PARTS_COLUMNS: usize = 52;

/// Writes the report.
///
/// # Errors
/// As `out`.
pub fn relayout(out: &mut impl Write, report: &RelayoutReport) -> fmt::Result {
    access_trace(out, &report.trace)?;
    let machine = plain(&report.machine);
    let part = match report.accesses - report.replayed {
        0 => String::new(),
        _ => format!("{} of them in windows over the whole run, ", count(report.replayed)),
    };
    let all = plural_of(report.accesses, "access", "accesses");
    fold(out, &format!("{all}, {part}replayed through {machine} with each layout"), 0, 2)?;
    let (changes, others): (Vec<&StructureRow>, Vec<&StructureRow>) =
        report.structures.iter().partition(|of| of.advice.is_some());
    if changes.is_empty() {
        heading(out, "ADVICE")?;
        writeln!(out, "  No change of layout is worth advising here.")?;
    }
    for (number, of) in changes.iter().enumerate() {
        if let Some(advice) = &of.advice {
            heading(out, format_args!("ADVICE {}", number + 1))?;
            one(out, of, advice, report.accesses == report.replayed)?;
        }
    }
    let rest: f64 = report.other_share + report.unknown_share;
    if !others.is_empty() || rest > 0.0 {
        heading(out, "LEAVE ALONE")?;
    }
    for of in others {
        let reason = of.reason.as_deref().unwrap_or_default();
        let line = format!("{} ({} of the time): {}.", plain(&of.name), percent(of.share), plain(reason));
        fold(out, &line, 2, 4)?;
    }
    let unnamed = [
        (report.other_share, "Other structures", "each takes little, or there are four that take more"),
        (report.unknown_share, "Other memory", "of which structure it is is not known, or it is of none"),
    ];
    for (share, what, why) in unnamed.into_iter().filter(|(share, ..)| *share > 0.0) {
        fold(out, &format!("{what} ({} of the time): {why}.", percent(share)), 2, 4)?;
    }
    if let Some(together) = report.together.filter(|_| changes.len() > 1) {
        heading(out, "ALL OF IT")?;
        fold(out, &predicted(&together, report.accesses == report.replayed), 2, 2)?;
    }
    writeln!(out)?;
    let method = "Time is that of a core which waits for a miss unless another one is under way or it is a stream's, 2.5 cycles for each \
                  access and 4000 for the first to a page. The interval is from a program that computes much and whose misses all overlap \
                  to one that computes little and waits for each. Layouts were made of the run that they are judged by.";
    fold(out, method, 2, 2)
}

fn one(out: &mut impl Write, of: &StructureRow, advice: &AdvisedRow, is_all: bool) -> fmt::Result {
    let mut title = String::new();
    fold(&mut title, &plain(&advice.title), 2, 4)?;
    writeln!(out, "{STRONG}{}{STRONG:#}", title.trim_end())?;
    let place = of.allocated_at.as_deref().map_or_else(String::new, |at| format!(", allocated at {}", plain(at)));
    let what = format!(
        "{}: elements of {} bytes in {}, {} in all{place}",
        plain(&of.name),
        of.bytes,
        plural(of.objects, "object"),
        bytes(of.object_bytes)
    );
    fold(out, &what, 2, 4)?;
    let patterns: Vec<String> = of
        .patterns
        .iter()
        .map(|pattern| format!("{{{}}} {}", plain(&pattern.fields.join(" ")), percent(pattern.share)))
        .collect();
    let why = format!(
        "{} of the time. {} use: {}.",
        percent(of.share),
        format_args!("{} of its elements", plural(of.visits, "visit")),
        patterns.join(", ")
    );
    fold(out, &why, 2, 2)?;
    fold(out, &predicted(&advice.predicted, is_all), 2, 2)?;
    for caution in &advice.cautions {
        fold(out, &format!("Mind that {}.", plain(caution)), 2, 2)?;
    }
    writeln!(out)?;
    for line in advice.code.lines() {
        writeln!(out, "      {}", plain(line))?;
    }
    writeln!(out)?;
    tried(out, of, &advice.layout)?;
    if !advice.touched_lines.is_empty() {
        let more = advice.touched_lines.len().saturating_sub(MOST_LINES);
        let mut lines = plain(&advice.touched_lines[..advice.touched_lines.len() - more].join(", "));
        if more > 0 {
            lines += &format!(" and {} more", count(more as u64));
        }
        fold(out, &format!("Lines that touch fields that move: {lines}"), 2, 2)?;
    }
    Ok(())
}

fn predicted(predicted: &PredictedRow, is_all: bool) -> String {
    let ratio = |ratio: Option<f64>| ratio.map_or_else(|| "–".to_owned(), |ratio| gain(ratio - 1.0));
    format!(
        "Predicted: {} run time ({} to {}); misses of the first level {}, lines from memory {}; by replay of {} accesses.",
        gain(predicted.time_ratio - 1.0),
        gain(predicted.time_ratio_low - 1.0),
        gain(predicted.time_ratio_high - 1.0),
        ratio(predicted.first_misses_ratio),
        ratio(predicted.memory_lines_ratio),
        if is_all { "all" } else { "these" },
    )
}

fn tried(out: &mut impl Write, of: &StructureRow, advised: &TriedRow) -> fmt::Result {
    let columns = [
        Column::Text("tried"),
        Column::Text("bytes"),
        Column::Number("time"),
        Column::Shortened("parts", PARTS_COLUMNS),
    ];
    let mut rows = Rows::new(&columns, false);
    for row in &of.tried {
        let mark = if (row.change, &row.parts, row.is_pool) == (advised.change, &advised.parts, advised.is_pool) {
            " *"
        } else {
            ""
        };
        let pool = if row.is_pool && row.change != "pool" { ", pool" } else { "" };
        let sizes: Vec<String> = row.part_bytes.iter().map(u32::to_string).collect();
        let parts: Vec<String> = row.parts.iter().map(|part| format!("{{{}}}", plain(&part.join(" ")))).collect();
        rows.push(vec![
            format!("{}{pool}{mark}", row.change.replace('_', " ")),
            sizes.join("+"),
            gain(row.time_ratio - 1.0),
            parts.join(" "),
        ]);
    }
    rows.write(out, 2)
}

#[cfg(test)]
mod tests {
    use super::super::a_run;
    use super::*;
    use crate::relayout::{FieldRow, PatternRow, RELAYOUT_SCHEMA};

    fn predicted_row(time_ratio: f64) -> PredictedRow {
        PredictedRow {
            time_ratio,
            time_ratio_low: time_ratio / 2.0,
            time_ratio_high: 1.0,
            first_misses_ratio: Some(0.25),
            memory_lines_ratio: None,
        }
    }

    fn structure(name: &str, share: f64) -> StructureRow {
        let field = |(name, offset): (&str, u32)| FieldRow {
            name: name.to_owned(),
            type_name: "double".to_owned(),
            offset,
            bytes: 8,
            used: 0.5,
        };
        StructureRow {
            name: name.to_owned(),
            bytes: 16,
            share,
            accesses: 1000,
            objects: 1,
            object_bytes: 1 << 20,
            allocated_at: Some("/src/sky.c:12".to_owned()),
            fields: [("x", 0), ("y", 8)].map(field).to_vec(),
            visits: 1000,
            patterns: vec![
                PatternRow { fields: vec!["x".to_owned()], share: 0.75 },
                PatternRow { fields: vec!["x".to_owned(), "y".to_owned()], share: 0.25 },
            ],
            advice: None,
            reason: Some("it has a single field".to_owned()),
            tried: Vec::new(),
        }
    }

    fn advised(name: &str, share: f64) -> StructureRow {
        let tried = |change, parts: [&[&str]; 2], time_ratio| TriedRow {
            change,
            parts: parts.map(|part| part.iter().map(|field| (*field).to_owned()).collect()).to_vec(),
            part_bytes: vec![8, 8],
            is_pool: false,
            time_ratio,
        };
        let split = tried("split", [&["x"], &["y"]], 0.625);
        let advice = AdvisedRow {
            layout: split.clone(),
            title: format!("Split {name} into {{x}} {{y}}"),
            predicted: predicted_row(0.6),
            cautions: vec!["it looks packed".to_owned()],
            code: "struct body_x {\n    double x;\n};\n".to_owned(),
            touched_lines: (1..15).map(|line| format!("/src/sky.c:{line}")).collect(),
        };
        let hot_cold = tried("hot_cold_split", [&["x"], &["y"]], 1.25);
        StructureRow { advice: Some(advice), reason: None, tried: vec![hot_cold, split], ..structure(name, share) }
    }

    fn text(structures: Vec<StructureRow>, together: Option<PredictedRow>) -> String {
        text_of(structures, together, 4000)
    }

    fn text_of(structures: Vec<StructureRow>, together: Option<PredictedRow>, replayed: u64) -> String {
        let report = RelayoutReport {
            schema: RELAYOUT_SCHEMA,
            trace: a_run::trace(),
            machine: "host".to_owned(),
            accesses: 4000,
            replayed,
            other_share: 0.0,
            unknown_share: 1.0 - structures.iter().map(|of| of.share).sum::<f64>().min(1.0),
            structures,
            together,
        };
        let mut out = String::new();
        relayout(&mut out, &report).unwrap();
        a_run::unstyled(&out)
    }

    #[test]
    fn what_is_advised_is_told_with_what_was_tried() {
        let all = vec![advised("struct body", 0.5), advised("struct star", 0.25), structure("struct one", 0.125)];
        insta::assert_snapshot!(text(all, Some(predicted_row(0.3))));
    }

    #[test]
    fn windows_are_told() {
        let text = text_of(vec![advised("struct body", 0.5)], None, 1000);
        assert!(
            text.contains("4,000 accesses, 1,000 of them in windows over the whole run, replayed through host"),
            "{text}"
        );
        assert!(text.contains("by replay of these accesses."), "{text}");
    }

    #[test]
    fn where_nothing_is_advised_it_is_said_why() {
        let text = text(vec![structure("struct one", 0.875)], None);
        assert!(text.contains("\nADVICE\n  No change of layout is worth advising here.\n"), "{text}");
        assert!(text.contains("\nLEAVE ALONE\n  struct one (87.5 % of the time): it has a single field.\n"), "{text}");
    }
}
