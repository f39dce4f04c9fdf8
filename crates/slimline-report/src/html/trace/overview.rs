//! What was run and read, what of it is missing, where the cycles go and what to change.

use std::fmt::{self, Write};

use super::{Finding, Page, advice, paragraphs};
use crate::full_trace::{TraceReport, TracedProcess};
use crate::html::bar;
use crate::html::page::{self, Escaped};
use crate::html::table::{Cell, Column, Table};
use crate::simulation::{SimulatedMachine, SimulatedRow};
use crate::text::number::{bytes, count, percent, plural, plural_of};
use crate::text::simulation::row_name;
use crate::text::{full_trace, gain};

/// What a reader looks for first.
pub(super) fn figures(out: &mut impl Write, page: &Page<'_>) -> fmt::Result {
    let mut figures: Vec<(&str, String)> = Vec::new();
    let mut figure = |name: &'static str, shown: String| {
        // Of several that say the same the first one is enough.
        if figures.iter().all(|(known, _)| *known != name) {
            figures.push((name, shown));
        }
    };
    if let Some(TraceReport { total, processes, .. }) = page.counts {
        figure("accesses", count(total.accesses));
        figure("loads", count(total.loads));
        figure("stores", count(total.stores));
        figure("processes", count(processes.len() as u64));
    }
    if let Some(threads) = page.trace.threads {
        figure("threads", count(threads));
    }
    for finding in page.findings {
        match finding {
            Finding::Advice(report) => {
                figure("accesses", count(report.accesses));
                if let Some(together) = &report.together {
                    figure("run time, with all advice", gain(together.time_ratio - 1.0));
                }
            }
            Finding::Caches(report) => {
                if let [machine] = report.machines.as_slice() {
                    figure("loads", count(machine.loads));
                    figure("stores", count(machine.stores));
                    figure("simulated cycles", count(machine.cycles));
                    figure("cycles an access", format!("{:.2}", machine.cycles_each()));
                }
            }
            Finding::Reuse(report) => {
                figure("accesses", count(report.total.count));
                figure("cache lines accessed", count(report.lines));
            }
            Finding::Sharing(report) => {
                figure("data shared falsely", count(report.falsely_shared.len() as u64));
                figure("data shared truly", count(report.shared.len() as u64));
            }
            Finding::Extents(_) | Finding::Untold(..) => {}
            Finding::Placement(report) => {
                figure("room for data", bytes(report.room_bytes));
                if let Some(best) = report.choices.last() {
                    figure("cycles saved by placing", percent(best.saved.share.saved_share));
                }
            }
        }
    }
    page::figures(out, &figures)
}

pub(super) fn overview(out: &mut impl Write, page: &Page<'_>) -> fmt::Result {
    missing(out, page)?;
    for finding in page.findings {
        match finding {
            Finding::Caches(report) => {
                if let Some(machine) = report.machines.first() {
                    where_cycles_go(out, machine)?;
                }
            }
            Finding::Advice(report) => advice::titles(out, report)?,
            _ => {}
        }
    }
    what_was_read(out, page)
}

fn missing(out: &mut impl Write, page: &Page<'_>) -> fmt::Result {
    let traces = [Some(page.trace)].into_iter().chain(page.findings.iter().map(Finding::trace)).flatten();
    let told = page.counts.iter().flat_map(|counts| &counts.missing);
    let mut missing: Vec<&String> = Vec::new();
    for what in told.chain(traces.flat_map(|trace| &trace.missing)) {
        if !missing.contains(&what) {
            missing.push(what);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    writeln!(out, "<div class=\"missing\">\n<h3>Missing</h3>\n<ul>")?;
    missing.iter().try_for_each(|what| writeln!(out, "<li>{}</li>", Escaped(what)))?;
    writeln!(out, "</ul>\n</div>")
}

fn where_cycles_go(out: &mut impl Write, machine: &SimulatedMachine) -> fmt::Result {
    let Some(by) = &machine.by else { return Ok(()) };
    writeln!(out, "<h3>Where the cycles of {} go</h3>", Escaped(&machine.name))?;
    let is_known = |row: &&SimulatedRow| row.data.as_ref().is_some_and(|data| data.kind != "unattributed");
    let (known, others): (Vec<_>, Vec<_>) = by.data.iter().partition(is_known);
    let known: Vec<(String, f64)> = known.into_iter().map(|row| (row_name(row), row.counts.share)).collect();
    let others = others.into_iter().map(|row| row.counts.share).sum();
    bar::of_data(out, "Shares of the cycles", &known, ("not known", others))
}

fn what_was_read(out: &mut impl Write, page: &Page<'_>) -> fmt::Result {
    writeln!(out, "<h3>What was read</h3>\n<dl class=\"terms\">")?;
    let mut fact = |term: &str, shown: &str| writeln!(out, "<dt>{term}</dt><dd>{}</dd>", Escaped(shown));
    let what = match page.trace.format {
        "trace" => "trace",
        "session" => "session",
        _ => "file",
    };
    fact(what, &page.trace.file)?;
    if !["trace", "session"].contains(&page.trace.format) {
        fact("written as", page.trace.format)?;
    }
    let mut machines: Vec<&str> = Vec::new();
    for machine in page.findings.iter().flat_map(Finding::machines) {
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    fact(if machines.len() == 1 { "machine" } else { "machines" }, &machines.join(", "))?;
    if let Some(counts) = page.counts {
        let total = &counts.total;
        let accesses = format!(
            "{}: {} ({}), {} ({})",
            plural_of(total.accesses, "access", "accesses"),
            plural(total.loads, "load"),
            bytes(total.loaded_bytes),
            plural(total.stores, "store"),
            bytes(total.stored_bytes)
        );
        fact("accesses", &accesses)?;
    }
    writeln!(out, "</dl>")?;
    match page.counts {
        Some(counts) => counted(out, counts),
        None => Ok(()),
    }
}

/// What is known of how the numbers came to be.
fn counted(out: &mut impl Write, counts: &TraceReport) -> fmt::Result {
    paragraphs(out, &full_trace::remarks(counts))?;
    if !counts.unasked.is_empty() {
        writeln!(
            out,
            "<p>Start, stop and windows take effect where these functions begin, but not in all of their loops:</p>\n<ul>"
        )?;
        for function in &counts.unasked {
            let file = function.file.as_deref().map_or_else(String::new, |file| format!(" ({file})"));
            writeln!(out, "<li>{}</li>", Escaped(&format!("{}{file}: {}", function.function, function.reason)))?;
        }
        writeln!(out, "</ul>")?;
    }
    let columns =
        [Column::Text("process"), Column::Text("program"), Column::Number("threads"), Column::Number("words")];
    let mut table = Table::searched("Processes that were traced, with the words of their traces", &columns);
    for TracedProcess { pid, program, threads, words, .. } in &counts.processes {
        let pid = Cell::number(&pid.to_string(), pid);
        table.row(&[pid, Cell::long_text(program), Cell::count(*threads), Cell::count(*words)]);
    }
    table.write(out)
}
