//! Which data to place in a faster memory: plans compared, and the best one.

use std::fmt::{self, Write};

use crate::html::bar;
use crate::html::page::{self, Escaped};
use crate::html::table::{Cell, Column, Table};
use crate::placement::PlacementReport;
use crate::text::number::{bytes, count, percent};
use crate::text::placement::{at_most, code, kind, less, placed_words, worded_choices};
use crate::text::simulation::data_name;

pub(super) fn placement(out: &mut impl Write, report: &PlacementReport) -> fmt::Result {
    let memory = &report.memory;
    let head = format!(
        "{}, simulated: {} cycles with nothing in {memory}, which has room for {}",
        report.machine,
        count(report.cycles),
        bytes(report.room_bytes)
    );
    writeln!(out, "<p>{}.</p>", Escaped(&head))?;
    if report.in_all.lines == 0 {
        let nothing = format!("No line came from a memory that is slower than {memory}: nothing to place.");
        return writeln!(out, "<p>{}</p>", Escaped(&nothing));
    }
    choices(out, report)?;
    best(out, report)?;
    data(out, report)
}

fn choices(out: &mut impl Write, report: &PlacementReport) -> fmt::Result {
    writeln!(out, "<h3>What each way of choosing would save</h3>")?;
    let columns = [
        Column::Text("placed"),
        Column::Number("room"),
        Column::Number("lines"),
        Column::Number("cycles"),
        Column::Number("of all"),
        Column::Bar("by what no choice exceeds"),
    ];
    let mut table = Table::new("Plans, the best one last", &columns);
    let most = report.at_most.saved_cycles;
    for (words, choice) in worded_choices(report) {
        let saved = &choice.saved.share;
        let (cycles, share) = (less(saved.saved_cycles, count), less(saved.saved_share, percent));
        let room = if choice.placed.is_none() { Cell::text("does not fit") } else { Cell::bytes(choice.bytes) };
        table.row(&[
            Cell::text(&words),
            room,
            Cell::count(choice.saved.lines),
            Cell::number(&cycles, saved.saved_cycles),
            Cell::number(&share, saved.saved_share),
            Cell::bar(bar::of_most(saved.saved_cycles, most)),
        ]);
    }
    table.write(out)?;
    writeln!(out, "<p>{}</p>", Escaped(at_most(report)))
}

fn best(out: &mut impl Write, report: &PlacementReport) -> fmt::Result {
    writeln!(out, "<h3>The best: place in {}</h3>", Escaped(&report.memory))?;
    if report.best().is_empty() {
        return writeln!(out, "<p>Nothing fits.</p>");
    }
    writeln!(out, "<ul>")?;
    for placed in report.best() {
        let row = &report.data[placed.data];
        let name = data_name(row.name.as_deref(), &row.data);
        writeln!(out, "<li><strong>{}</strong>: {}", Escaped(&name), Escaped(placed_words(placed, row)))?;
        if let Some(split) = code(placed, row, &report.memory) {
            page::code(out, &format!("Split buffers of {name}"), &split)?;
        }
        writeln!(out, "</li>")?;
    }
    writeln!(out, "</ul>")
}

fn data(out: &mut impl Write, report: &PlacementReport) -> fmt::Result {
    writeln!(out, "<h3>What living in {} would save</h3>", Escaped(&report.memory))?;
    let columns = [
        Column::Text("data"),
        Column::Text("kind"),
        Column::Number("needs"),
        Column::Number("lines"),
        Column::Number("of cycles"),
        Column::Bar("of all"),
    ];
    let mut table = Table::searched("Data that can be placed, each by itself", &columns);
    for row in &report.data {
        let share = row.saved.share.saved_share;
        table.row(&[
            Cell::long_text(&data_name(row.name.as_deref(), &row.data)),
            Cell::text(&kind(row)),
            Cell::bytes(row.bytes),
            Cell::count(row.saved.lines),
            Cell::share(share),
            Cell::bar(bar::filled(share)),
        ]);
    }
    if report.not_placeable.lines > 0 {
        let saved = &report.not_placeable;
        let share = saved.share.saved_share;
        table.last(&[
            Cell::text("(not placeable)"),
            Cell::default(),
            Cell::nothing(),
            Cell::count(saved.lines),
            Cell::share(share),
            Cell::bar(bar::filled(share)),
        ]);
    }
    table.write(out)
}
