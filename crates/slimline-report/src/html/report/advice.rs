//! What to change, by how much that would help, and the new definitions.

use std::fmt::{self, Write};

use super::{Page, advice_id};
use crate::html::bar;
use crate::html::page::{self, Escaped};
use crate::text::{gain, what_changes};
use crate::view::{Advice, Predicted};

/// A card for each change, the greatest gain first; behind them what is to be left alone, and why.
pub(super) fn cards(out: &mut impl Write, page: &Page<'_>) -> fmt::Result {
    let all = || page.report.advice.iter().enumerate();
    if !page.report.advice.iter().any(Advice::is_change) {
        writeln!(out, "<p>No change of layout is worth advising here.</p>")?;
    }
    for (place, advice) in all().filter(|(_, advice)| advice.is_change()) {
        card(out, page, place, advice)?;
    }
    let is_judged = |advice: &Advice| advice.kind != "not_judged";
    for (heading, judged) in [("Not judged", false), ("Leave alone", true)] {
        let others = all().filter(|(_, advice)| !advice.is_change() && is_judged(advice) == judged);
        let others: Vec<(usize, &Advice)> = others.collect();
        if others.is_empty() {
            continue;
        }
        writeln!(out, "<h3>{heading}</h3>\n<dl class=\"alone\">")?;
        for (place, Advice { title, why, .. }) in others {
            writeln!(
                out,
                "<div id=\"{}\"><dt>{}</dt><dd>{}</dd></div>",
                advice_id(place),
                Escaped(title),
                Escaped(why)
            )?;
        }
        writeln!(out, "</dl>")?;
    }
    Ok(())
}

fn card(out: &mut impl Write, page: &Page<'_>, place: usize, advice: &Advice) -> fmt::Result {
    let id = advice_id(place);
    writeln!(
        out,
        "<article class=\"card\" id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h3 id=\"{id}-title\">{}</h3>",
        Escaped(&advice.title)
    )?;
    if let Some(predicted) = &advice.predicted {
        prediction(out, page, predicted, &advice.confidence)?;
    }
    writeln!(out, "<p>{}</p>", Escaped(&advice.why))?;
    for caution in &advice.cautions {
        writeln!(out, "<p class=\"missing\">Mind that {}.</p>", Escaped(caution))?;
    }
    writeln!(out, "<dl class=\"terms\">")?;
    let ids = [advice.group].into_iter().chain(advice.other_groups.iter().copied());
    let data: Vec<String> = ids.filter_map(|id| page.group(id)).map(|group| page.name(group)).collect();
    writeln!(out, "<dt>data</dt><dd>{}</dd>", data.join(", "))?;
    if let Some(at) = &advice.declared_at {
        writeln!(out, "<dt>declared at</dt><dd>{}</dd>", Escaped(&format!("{}:{}", at.file, at.line)))?;
    }
    if let Some(Predicted { lines, method, .. }) = &advice.predicted {
        if *lines != 0.0 {
            writeln!(out, "<dt>cache lines</dt><dd>{} touched by its loops</dd>", Escaped(gain(*lines)))?;
        }
        writeln!(out, "<dt>method</dt><dd>{}</dd>", Escaped(method))?;
    }
    if !advice.touched_lines.is_empty() {
        // Where only the walk changes, no field moves.
        let what = if advice.fields.is_empty() { "lines that walk it" } else { "lines that touch moved fields" };
        let lines: Vec<String> = advice.touched_lines.iter().map(|at| format!("<li>{}</li>", Escaped(at))).collect();
        writeln!(out, "<dt>{what}</dt><dd><ul class=\"pairs\">{}</ul></dd>", lines.concat())?;
    }
    writeln!(out, "</dl>")?;
    if !advice.code.is_empty() {
        page::code(out, "New definitions", &advice.code)?;
    }
    writeln!(out, "</article>")
}

fn prediction(out: &mut impl Write, page: &Page<'_>, predicted: &Predicted, confidence: &str) -> fmt::Result {
    let Predicted { cycles, cycles_interval, .. } = *predicted;
    let confidence = format!(" <span class=\"confidence {confidence}\">{confidence} confidence</span>");
    bar::prediction(out, what_changes(page.report.session.weight), (cycles, cycles_interval), &confidence)
}
