//! A flame graph (Gregg, CACM 59(6), 2016) of memory cost, as SVG: functions, on them the data structures that they wait for, on
//! these the fields. Colours tell code from data. A script in it shows a part over the whole width; without it the picture is whole.
//!
//! inferno draws such pictures; its licence (CDDL) is none that everything here can be shipped under, and it knows no data.

use std::fmt::{self, Write};

use slimline_trace::escape::{Xml, command_line};

use super::tree::{self, Layer, Node};
use super::{CostTable, CostUnit, one_line};
use crate::svg;
use crate::text::number::{count, duration, percent, plural};

/// In pixels.
const WIDTH: usize = 1200;
const MARGIN: usize = 20;
const INNER: usize = WIDTH - 2 * MARGIN;
const ROW: usize = 18;
const HEAD: usize = 60;
/// Wide enough for most letters.
const LETTER: f64 = 7.2;
/// Narrower frames are left out, as no screen shows them.
const NARROWEST: f64 = 0.1;

/// Colours that those who see no red or no green tell apart (Okabe and Ito), for code lighter.
const CODE: &str = "#f3d9a4";
const GROUP: &str = "#56b4e9";
const FIELD: &str = "#a9d8f4";
const UNKNOWN: &str = "#cccccc";

const SCRIPT: &str = include_str!("flamegraph.js");

/// Writes the picture.
///
/// # Errors
/// As `out`.
pub fn write(out: &mut impl Write, table: &CostTable) -> fmt::Result {
    let root = tree::of(table);
    let height = HEAD + root.depth() * ROW + MARGIN;
    svg::begin(out, WIDTH, height)?;
    let run = &table.run;
    writeln!(out, "<style>g.frame {{ cursor: pointer }} g.frame rect {{ stroke: white; stroke-width: 0.5 }}</style>")?;
    let title = format!("{} by code and data: {}", run.unit.noun(), command_line(&run.command));
    svg::text(out, MARGIN, MARGIN + 8, "font-weight=\"bold\"", &title)?;
    let first = run.remarks.first().map_or("", String::as_str);
    svg::text(out, MARGIN, MARGIN + 26, "fill=\"#555555\"", first)?;
    let x = WIDTH - 340;
    for (number, (colour, label)) in
        [(CODE, "code"), (GROUP, "data"), (FIELD, "field"), (UNKNOWN, "not known")].iter().enumerate()
    {
        let x = x + number * 80;
        writeln!(out, "<rect x=\"{x}\" y=\"14\" width=\"12\" height=\"12\" fill=\"{colour}\"/>")?;
        svg::text(out, x + 16, 25, "", label)?;
    }
    writeln!(out, "<desc>{}</desc>", Xml(run.remarks.join("; ")))?;
    let mut picture = Picture { out, total: root.cost, unit: run.unit, bottom: height - MARGIN - ROW, left_out: 0 };
    picture.frame(("all", &root), 0, 0)?;
    let left_out = picture.left_out;
    if left_out > 0 {
        let words = format!("{} too narrow to be shown", plural(left_out, "frame"));
        svg::text(out, WIDTH - MARGIN, height - 6, "text-anchor=\"end\" fill=\"#555555\"", &words)?;
    }
    writeln!(
        out,
        "<script><![CDATA[\nconst MARGIN = {MARGIN}, INNER = {INNER}, LETTER = {LETTER};\n{SCRIPT}]]></script>\n</svg>"
    )
}

struct Picture<'a, W> {
    out: &'a mut W,
    total: u64,
    unit: CostUnit,
    bottom: usize,
    left_out: u64,
}

impl<W: Write> Picture<'_, W> {
    /// A frame that begins behind so much cost, and all that stand on it.
    fn frame(&mut self, (name, node): (&str, &Node), before: u64, depth: usize) -> fmt::Result {
        let part = |cost: u64| cost as f64 / self.total.max(1) as f64;
        let (from, size) = (part(before), part(node.cost));
        let (x, width) = (MARGIN as f64 + from * INNER as f64, size * INNER as f64);
        if width < NARROWEST {
            self.left_out += 1;
            return Ok(());
        }
        let y = self.bottom - depth * ROW;
        let colour = match node.layer {
            _ if node.is_unknown => UNKNOWN,
            Layer::Code => CODE,
            Layer::Group => GROUP,
            Layer::Field => FIELD,
        };
        let name = one_line(name);
        let title = format!("{name}: {} ({})", self.cost(node.cost), percent(size));
        writeln!(
            self.out,
            "<g class=\"frame\" tabindex=\"0\" data-from=\"{from:.9}\" data-size=\"{size:.9}\" data-depth=\"{depth}\" data-name=\"{}\">\
             <title>{}</title>\
             <rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\" fill=\"{colour}\"/>\
             <text x=\"{:.2}\" y=\"{}\" font-size=\"12\">{}</text></g>",
            Xml(&name),
            Xml(title),
            ROW - 1,
            x + 3.0,
            y + 13,
            Xml(fitting(&name, width)),
        )?;
        let mut before = before;
        for ((_, name), below) in &node.below {
            self.frame((name, below), before, depth + 1)?;
            before += below.cost;
        }
        Ok(())
    }

    fn cost(&self, cost: u64) -> String {
        if self.unit.is_time() { duration(cost) } else { format!("{} {}", count(cost), self.unit.noun()) }
    }
}

/// What of a name fits into so many pixels.
fn fitting(name: &str, width: f64) -> String {
    let most = ((width - 6.0) / LETTER).max(0.0) as usize;
    match name.chars().count() {
        _ if most < 3 => String::new(),
        letters if letters <= most => name.to_owned(),
        _ => name.chars().take(most - 1).chain(['…']).collect(),
    }
}
