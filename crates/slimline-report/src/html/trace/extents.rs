//! Where in data it is accessed and missed, from its first byte to its last.

use std::fmt::{self, Write};

use crate::histogram::{DataHistogram, HistogramReport, PartCounts};
use crate::html::bar;
use crate::html::chart::{Bar, Bars};
use crate::html::page::Escaped;
use crate::html::table::{Cell, Column, Table};
use crate::text::number::{bytes, count, percent, plural};
use crate::text::simulation::data_name;

/// Most data that is drawn; the table has all.
const MOST_DRAWN: usize = 24;
/// Bars of a chart at most: on small screens each is still seen.
const MOST_BARS: usize = 120;
const ACCESSES_HEIGHT: f64 = 90.0;
const MISSES_HEIGHT: f64 = 60.0;
const KEYS: [(&str, &str); 3] = [("loads", "loads"), ("stores", "stores"), ("misses", "misses")];

pub(super) fn extents(out: &mut impl Write, report: &HistogramReport) -> fmt::Result {
    if report.data.is_empty() {
        return writeln!(out, "<p>Nothing was accessed.</p>");
    }
    writeln!(
        out,
        "<p>Misses are those of {}, simulated. Blocks that one instruction allocates lie over each other.</p>",
        Escaped(&report.machine)
    )?;
    let is_drawn = |row: &&DataHistogram| row.part_count() > 1;
    let drawn: Vec<&DataHistogram> = report.data.iter().filter(is_drawn).take(MOST_DRAWN).collect();
    all(out, report, &drawn)?;
    if !drawn.is_empty() {
        out.write_str(&bar::legend(&KEYS))?;
    }
    for (place, row) in drawn.iter().enumerate() {
        one(out, report, place, row)?;
    }
    Ok(())
}

fn section_id(place: usize) -> String {
    format!("extent-{}", place + 1)
}

fn all(out: &mut impl Write, report: &HistogramReport, drawn: &[&DataHistogram]) -> fmt::Result {
    let missed: Vec<String> = report.caches.iter().map(|cache| format!("{cache} misses")).collect();
    let mut columns = vec![
        Column::Text("data"),
        Column::Number("cycles"),
        Column::Number("bytes"),
        Column::Number("blocks"),
        Column::Number("loads"),
        Column::Number("stores"),
        Column::Number("half of them in"),
    ];
    for name in &missed {
        columns.extend([Column::Number(name), Column::Number("half in")]);
    }
    let caption = "Data, and the least share of its bytes in which half of its accesses, and half of its misses, are";
    let mut table = Table::searched(caption, &columns);
    for row in &report.data {
        let name = data_name(row.name.as_deref(), &row.data);
        let place = drawn.iter().position(|of| std::ptr::eq(*of, row));
        let size = if row.part_bytes == 0 { Cell::nothing() } else { Cell::bytes(row.extent_bytes) };
        let half = |share: Option<f64>| share.map_or_else(Cell::nothing, Cell::share);
        let mut cells = vec![
            place.map_or_else(|| Cell::long_text(&name), |place| Cell::link(&section_id(place), &name, &name)),
            Cell::share(row.share),
            size,
            if row.data.blocks == 0 { Cell::nothing() } else { Cell::count(row.data.blocks) },
            Cell::count(row.total.loads),
            Cell::count(row.total.stores),
            half(row.half_of_accesses_in),
        ];
        for (misses, share) in row.total.misses.iter().zip(&row.half_of_misses_in) {
            cells.extend([Cell::count(*misses), half(*share)]);
        }
        table.row(&cells);
    }
    table.write(out)
}

/// Loads and stores above, misses of the farthest cache below, and both in numbers.
fn one(out: &mut impl Write, report: &HistogramReport, place: usize, row: &DataHistogram) -> fmt::Result {
    let name = data_name(row.name.as_deref(), &row.data);
    let overlaid = match row.data.blocks {
        0 | 1 => String::new(),
        blocks => format!(", {} blocks overlaid", count(blocks)),
    };
    writeln!(
        out,
        "<h3 id=\"{}\">{}</h3>\n<p class=\"faint\">{} of the cycles; {} in parts of {}{overlaid}</p>\n<figure>",
        section_id(place),
        Escaped(&name),
        Escaped(percent(row.share)),
        plural(row.extent_bytes, "byte"),
        bytes(row.part_bytes)
    )?;
    let columns = |of: &dyn Fn(&PartCounts) -> u64| row.columns(MOST_BARS, of);
    let loads = columns(&|counts| counts.loads);
    let stores = columns(&|counts| counts.stores);
    let misses: Vec<Vec<u64>> =
        (0..report.caches.len()).map(|cache| columns(&|counts: &PartCounts| counts.misses[cache])).collect();
    let ends = row.column_starts(MOST_BARS);
    let below = [(0, "0".to_owned()), (loads.len() - 1, plural(row.extent_bytes, "byte"))];
    let accesses: Vec<Bar> = (0..loads.len())
        .map(|column| Bar {
            said: format!(
                "from {}: {}, {}",
                count(ends[column]),
                plural(loads[column], "load"),
                plural(stores[column], "store")
            ),
            parts: vec![loads[column], stores[column]],
        })
        .collect();
    let highest = accesses.iter().map(|bar| bar.parts.iter().sum::<u64>()).max().unwrap_or(0);
    let said = format!("Loads and stores over the bytes of {name}; their numbers are in the table below");
    let highest = format!("loads and stores, highest: {}", count(highest));
    let bars = Bars {
        said: &said,
        classes: &["loads", "stores"],
        bars: &accesses,
        below: &below,
        highest: &highest,
        height: ACCESSES_HEIGHT,
    };
    bars.write(out)?;
    if let (Some(cache), Some(of)) = (report.caches.last(), misses.last()) {
        let missed: Vec<Bar> = of
            .iter()
            .zip(&ends)
            .map(|(misses, from)| Bar {
                said: format!("from {}: {} missed", count(*from), count(*misses)),
                parts: vec![*misses],
            })
            .collect();
        let highest = format!("misses of {cache}, highest: {}", count(of.iter().copied().max().unwrap_or(0)));
        let said = format!("Misses of {cache} over the bytes of {name}; their numbers are in the table below");
        Bars {
            said: &said,
            classes: &["misses"],
            bars: &missed,
            below: &below,
            highest: &highest,
            height: MISSES_HEIGHT,
        }
        .write(out)?;
    }
    writeln!(out, "</figure>\n<details class=\"numbers\">\n<summary>These bars in numbers</summary>")?;
    let heads: Vec<String> = report.caches.iter().map(|cache| format!("{cache} misses")).collect();
    let mut heading = vec![Column::Number("from byte"), Column::Number("loads"), Column::Number("stores")];
    heading.extend(heads.iter().map(|name| Column::Number(name)));
    let caption = format!("What happened in each part of {name}");
    let mut table = Table::searched(&caption, &heading);
    for column in 0..loads.len() {
        let mut cells = vec![Cell::count(ends[column]), Cell::count(loads[column]), Cell::count(stores[column])];
        cells.extend(misses.iter().map(|of| Cell::count(of[column])));
        table.row(&cells);
    }
    table.write(out)?;
    writeln!(out, "</details>")
}
