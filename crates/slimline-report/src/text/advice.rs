//! The advice: what to change, why, and the new definitions.

use std::fmt::{self, Write};

use slimline_trace::escape::plain;
use slimline_trace::session::WeightUnit;

use super::number::percent;
use super::{DIM, STRONG, fold, heading};
use crate::view::{Advice, Report};

pub(super) fn write(out: &mut impl Write, report: &Report) -> fmt::Result {
    let (changes, others): (Vec<&Advice>, Vec<&Advice>) = report.advice.iter().partition(|advice| advice.is_change());
    let (not_judged, alone): (Vec<&Advice>, Vec<&Advice>) =
        others.into_iter().partition(|advice| advice.kind == "not_judged");
    if changes.is_empty() {
        heading(out, "ADVICE")?;
        writeln!(out, "  No change of layout is worth advising here.")?;
    }
    for (number, advice) in changes.iter().enumerate() {
        heading(out, format_args!("ADVICE {}", number + 1))?;
        one(out, advice, report.session.weight)?;
    }
    for (title, without_change) in [("NOT JUDGED", not_judged), ("LEAVE ALONE", alone)] {
        if !without_change.is_empty() {
            heading(out, title)?;
        }
        for advice in without_change {
            fold(out, &format!("{}: {}", plain(&advice.title), plain(&advice.why)), 2, 4)?;
        }
    }
    Ok(())
}

/// What there is to say of an advice, in the order in which it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// What to do.
    Title(String),
    /// Where the structure is declared.
    Declared(String),
    /// A paragraph.
    Told(String),
    /// Lines of the new definitions.
    Code(Vec<String>),
    /// A paragraph apart from the code.
    Lines(String),
}

/// A change that is advised.
pub(crate) fn parts(advice: &Advice, unit: WeightUnit) -> Vec<Part> {
    let mut parts = vec![Part::Title(plain(&advice.title))];
    let declared = advice.declared_at.as_ref();
    parts.extend(declared.map(|at| Part::Declared(format!("declared at {}:{}", plain(&at.file), at.line))));
    parts.push(Part::Told(plain(&advice.why)));
    if let Some(predicted) = &advice.predicted {
        let lines = match predicted.lines {
            0.0 => String::new(),
            lines => format!(", {} cache lines touched by its loops", gain(lines)),
        };
        parts.push(Part::Told(format!(
            "Predicted: {} {} ({} to {}){lines}; {}. Confidence: {}.",
            gain(predicted.cycles),
            what_changes(unit),
            gain(predicted.cycles_interval.low),
            gain(predicted.cycles_interval.high),
            plain(&predicted.method),
            advice.confidence,
        )));
    }
    parts.extend(advice.cautions.iter().map(|caution| Part::Told(format!("Mind that {}.", plain(caution)))));
    if !advice.code.is_empty() {
        parts.push(Part::Code(advice.code.lines().map(plain).collect()));
    }
    if !advice.touched_lines.is_empty() {
        // Where only the walk changes, no field moves.
        let what = if advice.fields.is_empty() { "Lines that walk it" } else { "Lines that touch moved fields" };
        parts.push(Part::Lines(format!("{what}: {}", plain(&advice.touched_lines.join(", ")))));
    }
    parts
}

fn one(out: &mut impl Write, advice: &Advice, unit: WeightUnit) -> fmt::Result {
    for part in parts(advice, unit) {
        match part {
            Part::Title(title) => {
                let mut folded = String::new();
                fold(&mut folded, &title, 2, 4)?;
                writeln!(out, "{STRONG}{}{STRONG:#}", folded.trim_end())?;
            }
            Part::Declared(at) => writeln!(out, "  {DIM}{at}{DIM:#}")?,
            Part::Told(told) => fold(out, &told, 2, 2)?,
            Part::Code(lines) => {
                writeln!(out)?;
                lines.iter().try_for_each(|line| writeln!(out, "      {line}"))?;
            }
            Part::Lines(told) => {
                writeln!(out)?;
                fold(out, &told, 2, 2)?;
            }
        }
    }
    Ok(())
}

/// The lines at the end of a report that lead to the advice.
pub(super) fn pointer(out: &mut impl Write, report: &Report) -> fmt::Result {
    let is_told = |advice: &&Advice| advice.is_change() || advice.kind == "not_judged";
    let mut titles: Vec<String> = report.advice.iter().filter(is_told).map(|advice| plain(&advice.title)).collect();
    if titles.is_empty() {
        return Ok(());
    }
    heading(out, "ADVICE")?;
    let more = titles.len().saturating_sub(3);
    titles.truncate(3);
    for title in titles {
        fold(out, &title, 2, 4)?;
    }
    if more > 0 {
        writeln!(out, "  and {more} more")?;
    }
    writeln!(out, "  {DIM}`slimline advise` shows why, the predicted gain and the new definitions{DIM:#}")
}

/// `−21.0 %`
pub(crate) fn gain(share: f64) -> String {
    match share {
        0.0 => "0".to_owned(),
        ..0.0 => format!("−{}", percent(-share)),
        _ => format!("+{}", percent(share)),
    }
}

/// What a prediction is of.
pub(crate) fn what_changes(unit: WeightUnit) -> &'static str {
    match unit {
        WeightUnit::TimeNs => "run time",
        WeightUnit::LatencyCycles => "latency of accesses",
        WeightUnit::Period | WeightUnit::Samples => unit.noun(),
    }
}
