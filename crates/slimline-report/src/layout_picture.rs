//! Which pages are accessed when, in several orders of objects, as a picture: below each order, how far it is from one access to the next.

use std::fmt::{self, Write};

use slimline_simulate::touched::Touched;

use crate::layout::LayoutReport;
use crate::svg::{begin, text, what_ran};
use crate::text::number::{count, percent, plural};

/// Columns and rows of a panel: what [`Touched`] is to have.
pub const PANEL_CELLS: (usize, usize) = (230, 60);

/// In pixels.
const MARGIN: usize = 20;
const CELL: usize = 4;
const WIDTH: usize = 2 * MARGIN + PANEL_CELLS.0 * CELL;
const PANEL_HEIGHT: usize = PANEL_CELLS.1 * CELL;
const TEXT_HEIGHT: usize = 20;
const BAR_HEIGHT: usize = 14;
/// Of a panel with its title, its bar and what that means.
const ROW_HEIGHT: usize = PANEL_HEIGHT + 3 * TEXT_HEIGHT + BAR_HEIGHT;
/// From the same line to another page (Okabe and Ito).
const STEPS: [(&str, &str); 3] = [("same line", "#009e73"), ("same page", "#e69f00"), ("another page", "#d55e00")];

/// Writes the picture: these orders of the report, by name.
///
/// # Errors
/// As `out`.
pub fn write_picture(out: &mut impl Write, report: &LayoutReport, orders: &[(&str, Touched)]) -> fmt::Result {
    let height = 2 * MARGIN + 2 * TEXT_HEIGHT + orders.len() * ROW_HEIGHT;
    begin(out, WIDTH, height)?;
    let of = what_ran(&report.trace);
    text(out, MARGIN, MARGIN + 10, "font-weight=\"bold\"", &of)?;
    let what = format!(
        "{} accesses to {}: time to the right, pages of objects downwards, darker where there are more",
        count(report.object_accesses),
        plural(report.objects, "object")
    );
    text(out, MARGIN, MARGIN + 10 + TEXT_HEIGHT, "", &what)?;
    for (number, (name, touched)) in orders.iter().enumerate() {
        panel(out, report, (name, touched), MARGIN + 2 * TEXT_HEIGHT + number * ROW_HEIGHT)?;
    }
    writeln!(out, "</svg>")
}

fn panel(out: &mut impl Write, report: &LayoutReport, (name, touched): (&str, &Touched), top: usize) -> fmt::Result {
    let Some(order) = report.order(name) else { return Ok(()) };
    let title = format!(
        "{}: {}; {:.3} of the original cycles",
        crate::text::layout_name(name),
        plural(touched.pages as u64, "page"),
        order.cycles_ratio
    );
    text(out, MARGIN, top + TEXT_HEIGHT - 6, "", &title)?;
    let panel = top + TEXT_HEIGHT;
    writeln!(
        out,
        "<rect x=\"{MARGIN}\" y=\"{panel}\" width=\"{}\" height=\"{PANEL_HEIGHT}\" fill=\"none\" stroke=\"#999\"/>",
        PANEL_CELLS.0 * CELL
    )?;
    let most = touched.cells.iter().copied().max().unwrap_or(0).max(1);
    writeln!(out, "<g fill=\"#0072b2\">")?;
    for (column, cells) in touched.cells.chunks(touched.rows).enumerate() {
        for (row, accesses) in cells.iter().enumerate().filter(|(_, accesses)| **accesses > 0) {
            // One access must be seen beside a million.
            let opacity = 0.15 + 0.85 * f64::from(*accesses).ln_1p() / f64::from(most).ln_1p();
            let (x, y) = (MARGIN + column * CELL, panel + row * CELL);
            writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" fill-opacity=\"{opacity:.2}\"/>"
            )?;
        }
    }
    writeln!(out, "</g>")?;
    let (line, page) = (order.to_another_line, order.to_another_page);
    let mut x = MARGIN as f64;
    let bar = panel + PANEL_HEIGHT + 6;
    let mut said = Vec::new();
    for ((step, colour), share) in STEPS.iter().zip([1.0 - line, line - page, page]) {
        let width = share.max(0.0) * (PANEL_CELLS.0 * CELL) as f64;
        writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{bar}\" width=\"{width:.1}\" height=\"{BAR_HEIGHT}\" fill=\"{colour}\"/>"
        )?;
        x += width;
        said.push(format!("{step} {}", percent(share)));
    }
    let said = format!("from one access to the next: {}", said.join(", "));
    text(out, MARGIN, bar + BAR_HEIGHT + TEXT_HEIGHT - 4, "", &said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{LAYOUT_SCHEMA, OrderRow, VerdictRow};
    use crate::simulation::AccessTrace;
    use crate::strict;

    #[test]
    fn a_picture_is_xml_with_any_name_and_tiny_shares() {
        let (to_another_line, to_another_page) = (0.0003, 0.0002);
        let order = OrderRow {
            order: "original",
            mean_distance: 1.0,
            to_another_line,
            to_another_page,
            caches: Vec::new(),
            cycles: 9,
            cycles_ratio: 1.0,
        };
        let report = LayoutReport {
            schema: LAYOUT_SCHEMA,
            trace: AccessTrace { file: strict::HOSTILE.to_owned(), ..AccessTrace::default() },
            objects: 1,
            object_bytes: 8,
            reusing: 0,
            object_accesses: 1,
            accesses: 1,
            beside_accesses: 0,
            edges: 0,
            window: 1,
            seed: 0,
            levels: Vec::new(),
            inexact: 0,
            types: Vec::new(),
            machine: String::new(),
            orders: vec![order],
            other_run: None,
            larger: Vec::new(),
            verdict: VerdictRow { verdict: "leave", order: None, saved: None, saved_of_allocated: None },
        };
        let mut picture = String::new();
        let touched = Touched { cells: vec![0, 1], rows: 2, pages: 2 };
        write_picture(&mut picture, &report, &[("original", touched)]).unwrap();
        let told = strict::xml(&picture).concat();
        assert!(told.contains("another page <0.1 %") && told.contains("]]>"), "{told}");
    }
}
