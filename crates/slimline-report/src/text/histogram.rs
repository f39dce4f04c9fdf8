//! What happened in each part of data, as bars of text.

use std::fmt::{self, Write};
use std::iter;

use slimline_trace::escape::plain;

use super::full_trace::more;
use super::number::{bytes, count, percent, plural};
use super::simulation::{access_trace, data_name};
use super::{DIM, HEADING, STRONG};
use crate::histogram::{DataHistogram, HistogramReport, PartCounts};

/// Widths: what is counted, how often, and the bars.
const LABEL_COLUMNS: usize = 14;
const COUNT_COLUMNS: usize = 14;
const BAR_COLUMNS: usize = 48;
/// From something to everything.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Writes the report; of so much data.
///
/// # Errors
/// As `out`.
pub fn histogram(out: &mut impl Write, report: &HistogramReport, most: usize) -> fmt::Result {
    access_trace(out, &report.trace)?;
    writeln!(out, "Misses of {}, simulated", plain(&report.machine))?;
    writeln!(
        out,
        "\n{HEADING}Where in data it happens, from first byte to last; which share of the bytes has half of it{HEADING:#}"
    )?;
    for row in report.data.iter().take(most) {
        writeln!(out)?;
        data(out, report, row)?;
    }
    if report.data.is_empty() {
        writeln!(out, "\n  Nothing was accessed")?;
    }
    more(out, report.data.len(), most)
}

fn data(out: &mut impl Write, report: &HistogramReport, row: &DataHistogram) -> fmt::Result {
    let name = data_name(row.name.as_deref(), &row.data);
    write!(out, "  {STRONG}{name}{STRONG:#}: {} of cycles", percent(row.share))?;
    if row.part_count() == 1 {
        let size = if row.part_bytes == 0 { String::new() } else { format!("; {}", whole_bytes(row.extent_bytes)) };
        return writeln!(out, "{size}, {}, {}", plural(row.total.loads, "load"), plural(row.total.stores, "store"));
    }
    let overlaid =
        if row.data.blocks > 1 { format!(", {} blocks overlaid", count(row.data.blocks)) } else { String::new() };
    writeln!(out, "; {} in parts of {}{overlaid}", whole_bytes(row.extent_bytes), bytes(row.part_bytes))?;
    line(out, row, "loads", |counts| counts.loads)?;
    line(out, row, "stores", |counts| counts.stores)?;
    for (cache, name) in report.caches.iter().enumerate() {
        line(out, row, &format!("{} misses", plain(name)), |counts| counts.misses[cache])?;
    }
    Ok(())
}

fn line(out: &mut impl Write, row: &DataHistogram, label: &str, of: impl Fn(&PartCounts) -> u64) -> fmt::Result {
    let (columns, total) = (row.columns(BAR_COLUMNS, &of), of(&row.total));
    let most = columns.iter().copied().max().unwrap_or(0).max(1);
    let width = BAR_COLUMNS / columns.len().max(1);
    let bars: String = columns.iter().flat_map(|&count| iter::repeat_n(bar(count, most), width)).collect();
    let half = row.half_of(&of).map_or_else(String::new, |share| format!("{DIM}{}{DIM:#}", percent(share)));
    let line = format!("    {label:<LABEL_COLUMNS$} {:>COUNT_COLUMNS$}  {bars:<BAR_COLUMNS$}  {half}", count(total));
    writeln!(out, "{}", line.trim_end())
}

/// A size as it is, and what that is about where it is large.
fn whole_bytes(size: u64) -> String {
    if size < 1024 { bytes(size) } else { format!("{} ({})", plural(size, "byte"), bytes(size)) }
}

/// A blank where nothing happened, and never one where something did.
fn bar(count: u64, most: u64) -> char {
    if count == 0 {
        return ' ';
    }
    BARS[(u128::from(count) * BARS.len() as u128).div_ceil(u128::from(most)) as usize - 1]
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::Consumer as _;
    use slimline_simulate::extents::Extents;
    use slimline_simulate::simulation::{Options, Simulation};

    use super::super::a_run;
    use super::*;
    use crate::strict;

    #[test]
    fn bars_are_from_something_to_all() {
        let bars: String = [0, 1, 100, 101, 799, 800].iter().map(|&count| bar(count, 800)).collect();
        assert_eq!(bars, " ▁▁▂██");
        assert_eq!((bar(1, 1), bar(u64::MAX, u64::MAX)), ('█', '█'));
    }

    #[test]
    fn a_small_report() {
        let machine = a_run::machine();
        let origins = a_run::origins_in_parts();
        let of = |only: &[String]| {
            let mut simulation = Simulation::new(&machine, &Options::default()).unwrap();
            let mut extents = Extents::handing_on(&mut simulation);
            extents.take(&a_run::in_parts(a_run::accesses()));
            let extents = extents.finish();
            HistogramReport::new(a_run::trace(), &simulation.finish(), (&origins, &extents), only)
        };
        let report = of(&[]);
        let mut out = String::new();
        histogram(&mut out, &report, 2).unwrap();
        insta::assert_snapshot!(a_run::unstyled(&out));
        insta::assert_snapshot!("csv", report.csv());
        let mut picture = String::new();
        crate::svg::svg(&mut picture, &report, 2).unwrap();
        insta::assert_snapshot!("svg", picture);
        // The same with names that no format may take for its own, and a share below what is told.
        let mut hostile = report.clone();
        hostile.machine.push_str(strict::HOSTILE);
        hostile.caches.iter_mut().for_each(|cache| cache.push_str(strict::HOSTILE));
        for row in &mut hostile.data {
            (row.name, row.share) = (Some(strict::HOSTILE.to_owned()), 0.0002);
        }
        picture.clear();
        crate::svg::svg(&mut picture, &hostile, 2).unwrap();
        assert!(strict::xml(&picture).concat().contains("<0.1 %"));
        strict::csv(&hostile.csv());
        let only = |name: &str| of(&[name.to_owned()]).data.len();
        assert_eq!(["CDF", "filter.c:12", "double", "ilter.c:12", "none"].map(only), [1, 1, 1, 0, 0]);
    }
}
