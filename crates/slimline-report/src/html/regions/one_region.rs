//! What a page says of one region: its times by thread, and accesses.

use std::fmt::{self, Write};

use super::{found_by, told, whole_place};
use crate::html::bar::{self, Part};
use crate::html::page::Escaped;
use crate::html::table::{Cell, Column, Table};
use crate::regions::{RegionRow, RegionTimes, RegionsReport};
use crate::text::{region_place, region_title, unit_of_times};

/// Name of a phase's column, its class in the style sheet, and its time.
type PhaseTime = (&'static str, &'static str, Option<u64>);

pub(super) fn one_region(out: &mut impl Write, row: &RegionRow, id: &str, report: &RegionsReport) -> fmt::Result {
    let title = region_title(row);
    let found_by = found_by(row).to_lowercase();
    writeln!(out, "<section class=\"region\" id=\"{id}\" data-region=\"{}\">", Escaped(&found_by))?;
    writeln!(out, "<h4>{title} {}</h4>", Escaped(&region_place(&row.at)))?;
    if row.at.file.is_some() {
        writeln!(out, "<p class=\"faint\">{}</p>", Escaped(&whole_place(&row.at)))?;
    }
    times(out, row, &title)?;
    told(out, &format!("in {title}, with the regions within"), (&row.accesses, &row.samples), report)?;
    writeln!(out, "</section>")
}

fn times(out: &mut impl Write, row: &RegionRow, title: &str) -> fmt::Result {
    let (unit, unit_ns) = unit_of_times(row.sum.exec_ns);
    let of_kind: Vec<PhaseTime> = phases(&row.sum).into_iter().filter(|(.., phase)| phase.is_some()).collect();
    let mut columns = vec![Column::Text("TID"), Column::Number("execT"), Column::Number("execC")];
    columns.extend(of_kind.iter().map(|(name, ..)| Column::Number(name)));
    columns.push(Column::Bar("of the longest"));
    let caption = format!("{title} by thread, times in {unit}");
    let mut table = Table::new(&caption, &columns);
    let time = |ns: u64| Cell::time(&format!("{:.3}", ns as f64 / unit_ns), ns);
    let cells = |thread: Cell, times: &RegionTimes, bar: Cell| {
        let mut cells = vec![thread, time(times.exec_ns), Cell::count(times.count)];
        cells.extend(phases(times).into_iter().filter_map(|(.., phase)| phase.map(time)));
        cells.push(bar);
        cells
    };
    let longest_ns = row.threads.iter().map(|(_, times)| times.exec_ns).max().unwrap_or(0).max(1);
    for (thread, times) in &row.threads {
        let part = |(name, class, phase): PhaseTime| {
            let share = phase? as f64 / longest_ns as f64;
            Some(Part { class, name: name.to_owned(), share })
        };
        let parts: Vec<Part> = phases(times).into_iter().filter_map(part).collect();
        let bar = bar::small("of the longest thread's time", &parts);
        table.row(&cells(Cell::number(&thread.to_string(), thread), times, Cell::bar(bar)));
    }
    table.last(&cells(Cell::text("SUM"), &row.sum, Cell::default()));
    table.write(out)?;
    let named: Vec<(&str, &str)> = of_kind.iter().map(|(name, class, _)| (*class, *name)).collect();
    if named.len() > 1 { out.write_str(&bar::legend(&named)) } else { Ok(()) }
}

/// In the order in which they follow one another.
fn phases(times: &RegionTimes) -> [PhaseTime; 4] {
    let RegionTimes { enter_ns, body_ns, exit_barrier_ns, exit_ns, .. } = *times;
    [
        ("enterT", "enter", enter_ns),
        ("bodyT", "body", body_ns),
        ("exitBarT", "exit-barrier", exit_barrier_ns),
        ("exitT", "exit", exit_ns),
    ]
}
