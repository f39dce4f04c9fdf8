//! Charts: curves over sizes and bars side by side, as pictures that take the page's colours. What they show is in a table beside each.

use std::fmt::{self, Write};

use super::page::Escaped;
use crate::text::number::{bytes, percent};

/// In the pictures' units, which are pixels of a small screen.
const WIDTH: f64 = 520.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 12.0;
const INSIDE: f64 = WIDTH - LEFT - RIGHT;
const BELOW: f64 = 22.0;
/// Names of marks have two rows above, in turns.
const ABOVE: f64 = 32.0;
const ROW: f64 = 14.0;
const CURVES_HEIGHT: f64 = 180.0;
const BARS_ABOVE: f64 = 18.0;

/// Curves that are told apart, by colour and dashes.
pub(super) const CURVES: [&str; 6] = ["curve-0", "curve-1", "curve-2", "curve-3", "curve-4", "curve-5"];

/// Shares by size.
pub(super) struct Curve {
    /// One of [`CURVES`].
    pub(super) class: &'static str,
    pub(super) name: String,
    /// Bytes, ascending, and the share; from the last one on it stays.
    pub(super) points: Vec<(u64, f64)>,
    /// The 95 % interval of each point, where they are estimates.
    pub(super) ends: Vec<[f64; 2]>,
}

/// Draws curves, with sizes that are marked: bytes and a name.
pub(super) fn curves(out: &mut impl Write, said: &str, curves: &[Curve], marks: &[(u64, &str)]) -> fmt::Result {
    let sizes = curves.iter().flat_map(|curve| &curve.points).map(|(size, _)| *size);
    let (least, most) = (sizes.clone().min().unwrap_or(1).max(1), sizes.max().unwrap_or(1).max(2));
    let (first, last) = (least.ilog2(), most.next_power_of_two().ilog2().max(least.ilog2() + 1));
    let x = |size: u64| {
        let along = ((size.max(1) as f64).log2() - f64::from(first)) / f64::from(last - first);
        LEFT + along.clamp(0.0, 1.0) * INSIDE
    };
    let shares =
        curves.iter().flat_map(|of| of.points.iter().map(|point| point.1).chain(of.ends.iter().map(|of| of[1])));
    let top = round_top(shares.fold(0.0, f64::max));
    let y = |share: f64| ABOVE + (1.0 - share / top) * CURVES_HEIGHT;
    begin(out, said, ABOVE + CURVES_HEIGHT + BELOW)?;
    for fourth in 0..=4 {
        let share = top * f64::from(fourth) / 4.0;
        level(out, y(share), &percent(share))?;
    }
    let step = (last - first).div_ceil(5).max(1);
    for power in (first..=last).step_by(step as usize) {
        let anchor = if power == last { "end" } else { "middle" };
        text(out, (x(1 << power), ABOVE + CURVES_HEIGHT + 16.0), anchor, &bytes(1 << power))?;
    }
    let within = marks.iter().filter(|(size, _)| (1 << first..=1 << last).contains(size));
    for (number, (size, name)) in within.enumerate() {
        let (x, row) = (x(*size), (number % 2) as f64);
        writeln!(
            out,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
            6.0 + row * ROW,
            ABOVE + CURVES_HEIGHT
        )?;
        let (at, anchor) = if x > WIDTH - 80.0 { (x - 4.0, "end") } else { (x + 4.0, "start") };
        text(out, (at, 12.0 + row * ROW), anchor, &format!("{name} {}", bytes(*size)))?;
    }
    for curve in curves {
        let mut line: String =
            curve.points.iter().map(|(size, share)| format!("{:.1},{:.1} ", x(*size), y(*share))).collect();
        if let Some((_, share)) = curve.points.last() {
            line += &format!("{:.1},{:.1}", LEFT + INSIDE, y(*share));
        }
        if !curve.ends.is_empty() {
            let sizes = || curve.points.iter().zip(&curve.ends).map(|((size, _), ends)| (x(*size), ends));
            let lower = sizes().map(|(x, ends)| format!("{x:.1},{:.1} ", y(ends[0])));
            let upper = sizes().rev().map(|(x, ends)| format!("{x:.1},{:.1} ", y(ends[1])));
            let band: String = lower.chain(upper).collect();
            writeln!(out, "<polygon class=\"band\" points=\"{}\"/>", band.trim_end())?;
        }
        writeln!(out, "<polyline class=\"{}\" points=\"{}\"/>", curve.class, line.trim_end())?;
        for (size, share) in &curve.points {
            writeln!(
                out,
                "<circle class=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"><title>{}</title></circle>",
                curve.class,
                x(*size),
                y(*share),
                Escaped(&format!("{}, {}: {}", curve.name, bytes(*size), percent(*share)))
            )?;
        }
    }
    writeln!(out, "</svg>")?;
    write!(out, "<ul class=\"legend\">")?;
    for Curve { class, name, .. } in curves {
        let line = format!("<line class=\"{class}\" x1=\"0\" x2=\"34\" y1=\"6\" y2=\"6\"/>");
        let key = format!("<svg class=\"chart key\" viewBox=\"0 0 34 12\" aria-hidden=\"true\">{line}</svg>");
        write!(out, "<li>{key} {}</li>", Escaped(name))?;
    }
    writeln!(out, "</ul>")
}

/// The least of 1, 2 and 5 times a power of ten, in percent, that is no less; at most all.
fn round_top(share: f64) -> f64 {
    let tops = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];
    tops.into_iter().find(|top| share <= *top).unwrap_or(1.0)
}

/// A bar: what it says where it is pointed at, and its parts, from below.
pub(super) struct Bar {
    pub(super) said: String,
    pub(super) parts: Vec<u64>,
}

/// Bars side by side, whose parts are of these classes of the style sheet.
pub(super) struct Bars<'a> {
    pub(super) said: &'a str,
    pub(super) classes: &'a [&'static str],
    pub(super) bars: &'a [Bar],
    /// Names below bars, by the bar's place.
    pub(super) below: &'a [(usize, String)],
    /// What the highest bar comes to, in words.
    pub(super) highest: &'a str,
    pub(super) height: f64,
}

impl Bars<'_> {
    pub(super) fn write(&self, out: &mut impl Write) -> fmt::Result {
        let Self { said, classes, bars, below, highest, height } = *self;
        let most = bars.iter().map(|bar| bar.parts.iter().sum::<u64>()).max().unwrap_or(0).max(1);
        let width = INSIDE / bars.len().max(1) as f64;
        let bottom = BARS_ABOVE + height;
        begin(out, said, bottom + BELOW)?;
        level(out, BARS_ABOVE, "")?;
        text(out, (LEFT, BARS_ABOVE - 5.0), "start", highest)?;
        for (place, bar) in bars.iter().enumerate() {
            let mut y = bottom;
            for (class, part) in classes.iter().zip(&bar.parts).filter(|(_, part)| **part > 0) {
                let of_it = height * *part as f64 / most as f64;
                y -= of_it;
                writeln!(
                    out,
                    "<rect class=\"{class}\" x=\"{:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{of_it:.2}\"><title>{}</title></rect>",
                    LEFT + place as f64 * width,
                    // A little room between those that are wide enough.
                    if width > 6.0 { width - 1.5 } else { width },
                    Escaped(&bar.said)
                )?;
            }
        }
        level(out, bottom, "")?;
        for (place, name) in below {
            let (at, anchor) = match *place {
                0 => (LEFT, "start"),
                last if last + 1 >= bars.len() => (LEFT + INSIDE, "end"),
                place => (LEFT + (place as f64 + 0.5) * width, "middle"),
            };
            text(out, (at, bottom + 16.0), anchor, name)?;
        }
        writeln!(out, "</svg>")
    }
}

fn begin(out: &mut impl Write, said: &str, height: f64) -> fmt::Result {
    writeln!(
        out,
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
        Escaped(said)
    )
}

/// A line across, with a name to its left.
fn level(out: &mut impl Write, y: f64, name: &str) -> fmt::Result {
    writeln!(out, "<line class=\"level\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>", LEFT + INSIDE)?;
    if name.is_empty() { Ok(()) } else { text(out, (LEFT - 5.0, y + 4.0), "end", name) }
}

fn text(out: &mut impl Write, (x, y): (f64, f64), anchor: &str, text: &str) -> fmt::Result {
    writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", Escaped(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_stays_where_it_ends_and_marks_beyond_it_are_left_out() {
        let curve = Curve {
            class: CURVES[0],
            name: "a<b".to_owned(),
            points: vec![(64, 0.2), (128, 0.1), (256, 0.0)],
            ends: Vec::new(),
        };
        let mut out = String::new();
        curves(&mut out, "misses", &[curve], &[(128, "L1"), (1 << 20, "L2")]).unwrap();
        // The top is 20 %; 128 bytes are half of the way from 64 to 256.
        let right = LEFT + INSIDE;
        let line =
            format!("points=\"{LEFT:.1},32.0 {:.1},122.0 {right:.1},212.0 {right:.1},212.0\"", (LEFT + right) / 2.0);
        assert!(out.contains(&line), "{out}");
        assert!(out.contains(">L1 128 B</text>") && !out.contains("L2"), "{out}");
        assert!(out.contains("<title>a&lt;b, 128 B: 10.0 %</title>"), "{out}");
    }

    #[test]
    fn tops_are_round() {
        assert_eq!([0.0, 0.004, 0.021, 0.5, 0.51].map(round_top), [0.001, 0.005, 0.05, 0.5, 1.0]);
    }

    #[test]
    fn bars_are_stacked_from_below() {
        let bar = |parts: [u64; 2]| Bar { said: "x".to_owned(), parts: parts.to_vec() };
        let bars = [bar([1, 3]), bar([0, 2])];
        let mut out = String::new();
        let below = [(0, "0".to_owned()), (1, "1".to_owned())];
        let chart =
            Bars { said: "s", classes: &["loads", "stores"], bars: &bars, below: &below, highest: "4", height: 100.0 };
        chart.write(&mut out).unwrap();
        let heights: Vec<&str> =
            out.split("<rect ").skip(1).map(|of| of.split("y=\"").nth(1).unwrap().split_once('"').unwrap().0).collect();
        assert_eq!(heights, ["93.00", "18.00", "68.00"], "{out}");
    }
}
