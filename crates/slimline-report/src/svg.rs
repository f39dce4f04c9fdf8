//! What happened in each part of data, as a picture: a chart for each, loads and stores above, misses of the farthest cache
//! below.

use std::fmt::{self, Write};

use slimline_trace::escape::Xml;

use crate::histogram::{DataHistogram, HistogramReport};
use crate::simulation::AccessTrace;
use crate::text::number::{bytes, count, percent, plural};
use crate::text::simulation::data_name;

/// All in pixels.
const WIDTH: usize = 960;
const MARGIN: usize = 20;
const BARS_WIDTH: usize = WIDTH - 2 * MARGIN;
const BARS_HEIGHT: usize = 80;
const TEXT_HEIGHT: usize = 20;
/// Of a chart with its title, its two rows of bars, the line between them and the axis.
const CHART_HEIGHT: usize = 2 * BARS_HEIGHT + 5 * TEXT_HEIGHT;

/// Colours that those who see no red or no green tell apart (Okabe and Ito).
const LOADS: &str = "#0072b2";
const STORES: &str = "#e69f00";
const MISSES: &str = "#cc79a7";

/// Writes the picture; of so much data that has parts.
///
/// # Errors
/// As `out`.
pub fn svg(out: &mut impl Write, report: &HistogramReport, most: usize) -> fmt::Result {
    let shown: Vec<&DataHistogram> = report.data.iter().filter(|row| row.part_count() > 1).take(most).collect();
    let height = 2 * MARGIN + 2 * TEXT_HEIGHT + shown.len() * CHART_HEIGHT;
    begin(out, WIDTH, height)?;
    let of = what_ran(&report.trace);
    text(out, MARGIN, MARGIN + 10, "font-weight=\"bold\"", &format!("{of}, on {}", report.machine))?;
    let cache = report.caches.last().map_or("", String::as_str);
    let mut x = MARGIN;
    for (colour, label) in [(LOADS, "loads"), (STORES, "stores"), (MISSES, &format!("misses of {cache}"))] {
        let y = MARGIN + TEXT_HEIGHT;
        writeln!(out, "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>")?;
        text(out, x + 18, y + 11, "", label)?;
        x += 120;
    }
    for (number, row) in shown.into_iter().enumerate() {
        chart(out, row, MARGIN + 2 * TEXT_HEIGHT + number * CHART_HEIGHT)?;
    }
    writeln!(out, "</svg>")
}

fn chart(out: &mut impl Write, row: &DataHistogram, top: usize) -> fmt::Result {
    let name = data_name(row.name.as_deref(), &row.data);
    let title = format!("{name}: {} of cycles, parts of {}", percent(row.share), bytes(row.part_bytes));
    text(out, MARGIN, top + 2 * TEXT_HEIGHT - 6, "", &title)?;
    let (above, below) = (top + 2 * TEXT_HEIGHT + BARS_HEIGHT, top + 3 * TEXT_HEIGHT + BARS_HEIGHT);
    let loads = row.columns(BARS_WIDTH, |counts| counts.loads);
    let stores = row.columns(BARS_WIDTH, |counts| counts.stores);
    let misses = row.columns(BARS_WIDTH, |counts| counts.misses.last().copied().unwrap_or(0));
    let highest = loads.iter().zip(&stores).map(|(loads, stores)| loads + stores).max().unwrap_or(0);
    let most_misses = misses.iter().copied().max().unwrap_or(0);
    let width = BARS_WIDTH as f64 / loads.len().max(1) as f64;
    for column in 0..loads.len() {
        let x = MARGIN as f64 + column as f64 * width;
        let scaled = |count: u64, most: u64| BARS_HEIGHT as f64 * count as f64 / most.max(1) as f64;
        let (of_loads, of_stores) = (scaled(loads[column], highest), scaled(stores[column], highest));
        let bottom = above as f64;
        bar(out, (x, bottom - of_loads), (width, of_loads), LOADS)?;
        bar(out, (x, bottom - of_loads - of_stores), (width, of_stores), STORES)?;
        bar(out, (x, below as f64), (width, scaled(misses[column], most_misses)), MISSES)?;
    }
    let middle = above + TEXT_HEIGHT - 6;
    let at_end = "text-anchor=\"end\"";
    text(out, MARGIN, middle, "", "0")?;
    text(out, WIDTH - MARGIN, middle, at_end, &plural(row.extent_bytes, "byte"))?;
    let highest = format!("highest: {} accesses, {} misses", count(highest), count(most_misses));
    text(out, WIDTH / 2, middle, "text-anchor=\"middle\"", &highest)
}

/// Nothing where there is no height.
fn bar(out: &mut impl Write, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) -> fmt::Result {
    if height <= 0.0 {
        return Ok(());
    }
    writeln!(out, "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"{colour}\"/>")
}

/// Begins a picture of this size, in pixels; `</svg>` ends it.
pub(crate) fn begin(out: &mut impl Write, width: usize, height: usize) -> fmt::Result {
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">"
    )?;
    writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>")
}

/// The command, or where it is not known the file.
pub(crate) fn what_ran(trace: &AccessTrace) -> String {
    match trace.command.as_slice() {
        [] => trace.file.clone(),
        command => command.join(" "),
    }
}

pub(crate) fn text(out: &mut impl Write, x: usize, y: usize, attributes: &str, content: &str) -> fmt::Result {
    writeln!(out, "<text x=\"{x}\" y=\"{y}\" {attributes}>{}</text>", Xml(content))
}
