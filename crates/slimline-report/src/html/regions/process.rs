//! What a page says of a process.

use std::fmt::{self, Write};

use super::one_region::one_region;
use super::tree::tree;
use super::{found_by, id, region_of, told, whole_place};
use crate::html::bar::{self, Part, TONES};
use crate::html::page::Escaped;
use crate::html::table::{Cell, Column, Table};
use crate::regions::{OverheadShares, RegionTimes, RegionsProcess, RegionsReport, SpeedUp};
use crate::text::number::{count, duration, percent};
use crate::text::{counted, region_place, region_title};

/// Most regions that are parts of the large bar.
const PARTS: usize = 10;

/// Class of the style sheet, and name, of what is lost.
const CLASSES: [(&str, &str); 4] = [
    ("synchronization", "synchronization"),
    ("imbalance", "imbalance"),
    ("limited", "limited parallelism"),
    ("management", "management"),
];

/// The process at that place of the report.
pub(super) fn process(
    out: &mut impl Write,
    process: &RegionsProcess,
    place: usize,
    report: &RegionsReport,
) -> fmt::Result {
    let RegionsProcess { pid, program, .. } = process;
    if process.regions.is_empty() {
        writeln!(out, "<section>\n<h2>Process {pid} met no region</h2>")?;
    } else {
        writeln!(out, "<section>\n<h2>Process {pid} <code>{}</code></h2>", Escaped(program))?;
        figures(out, process)?;
        if let Some(counting) = &process.counting {
            writeln!(out, "<p class=\"faint\">{}.</p>", Escaped(counted(counting)))?;
        }
        shares(out, process, place)?;
        overheads(out, process, place)?;
        tree(out, process, place)?;
        writeln!(out, "<h3>Each region</h3>")?;
        for row in &process.regions {
            one_region(out, row, &id(place, row.number), report)?;
        }
    }
    if !process.outside_accesses.is_empty() || !process.outside_samples.is_empty() {
        writeln!(out, "<h3>Outside of regions</h3>")?;
        let all = (process.outside_accesses.as_slice(), process.outside_samples.as_slice());
        told(out, "outside of regions", all, report)?;
    }
    writeln!(out, "</section>")
}

/// How long it ran, and how parallel it is.
fn figures(out: &mut impl Write, process: &RegionsProcess) -> fmt::Result {
    let SpeedUp { parallel_ns, threads, now, without_overhead, limit, .. } = process.speed_up;
    let parallel = parallel_ns as f64 / process.duration_ns.max(1) as f64;
    let limit = match limit {
        Some(limit @ 0.0..100.0) => format!("{limit:.1}"),
        Some(_) => "beyond 100".to_owned(),
        None => "without limit".to_owned(),
    };
    writeln!(out, "<dl class=\"figures\">")?;
    let mut figure = |term: &str, shown: &str, exact_ns: Option<u64>| {
        let title = exact_ns.map_or_else(String::new, |ns| format!(" title=\"{} ns\"", count(ns)));
        writeln!(out, "<div><dt>{term}</dt><dd{title}>{}</dd></div>", Escaped(shown))
    };
    figure("ran", &duration(process.duration_ns), Some(process.duration_ns))?;
    figure("threads", &count(threads), None)?;
    figure("in parallel regions", &percent(parallel), Some(parallel_ns))?;
    figure("overhead", &percent(process.overhead.total), None)?;
    figure("speed-up", &format!("{now:.2}"), None)?;
    figure("without overhead", &format!("{without_overhead:.2}"), None)?;
    figure("with ever more threads", &limit, None)?;
    writeln!(out, "</dl>")
}

fn shares(out: &mut impl Write, process: &RegionsProcess, place: usize) -> fmt::Result {
    writeln!(out, "<h3>Where threads spend their time</h3>")?;
    let counting_ns = process.counting.map(|counting| counting.subtracted_ns);
    // Of teams within teams threads may be counted in several: then these are more than the whole.
    let in_regions = process.regions.iter().map(|row| row.sum.exclusive_ns);
    let all_ns = in_regions.chain([process.outside_ns, counting_ns.unwrap_or(0)]).fold(0, u64::saturating_add);
    let part = |class, name: String, ns: u64| Part { class, name, share: ns as f64 / all_ns.max(1) as f64 };
    let mut parts: Vec<Part> = (process.regions.iter().take(PARTS).enumerate())
        .map(|(rank, row)| part(TONES[rank % TONES.len()], region_title(row), row.sum.exclusive_ns))
        .collect();
    let more = process.regions.iter().skip(PARTS);
    if more.len() > 0 {
        let name = format!("{} more", count(more.len() as u64));
        parts.push(part("more", name, more.map(|row| row.sum.exclusive_ns).sum()));
    }
    parts.push(part("outside", "outside".to_owned(), process.outside_ns));
    parts.extend(counting_ns.map(|ns| part("counting", "counting".to_owned(), ns)));
    writeln!(out, "{}", bar::large("Shares of thread time", &parts))?;
    let columns = [
        Column::Text("region"),
        Column::Text("at"),
        Column::Number("executed"),
        Column::Number("with what is in it"),
        Column::Number("without"),
        Column::Number("share"),
    ];
    let mut table = Table::new("Time of threads by region", &columns);
    for row in &process.regions {
        let RegionTimes { count: executed, exec_ns, exclusive_ns, .. } = row.sum;
        table.row_of(
            &found_by(row),
            &[
                Cell::link(&id(place, row.number), &region_title(row), row.number),
                Cell::text(&region_place(&row.at)).titled(&whole_place(&row.at)),
                Cell::count(executed),
                Cell::duration(exec_ns),
                Cell::duration(exclusive_ns),
                Cell::share(row.share),
            ],
        );
    }
    let whole_ns = process.overhead.whole_ns.max(1) as f64;
    let mut rest = |what: &str, ns: u64| {
        let share = Cell::share(ns as f64 / whole_ns);
        let [at, executed, with] = [(); 3].map(|()| Cell::default());
        table.last(&[Cell::text(what), at, executed, with, Cell::duration(ns), share]);
    };
    rest("outside", process.outside_ns);
    counting_ns.into_iter().for_each(|ns| rest("counting", ns));
    table.write(out)
}

fn overheads(out: &mut impl Write, process: &RegionsProcess, place: usize) -> fmt::Result {
    if process.overheads.is_empty() {
        return Ok(());
    }
    write!(out, "<h3>What parallel regions lose</h3>\n{}", bar::legend(&CLASSES))?;
    let columns = [
        Column::Text("region"),
        Column::Text("at"),
        Column::Number("thread time"),
        Column::Number("overhead"),
        Column::Bar("of thread time"),
        Column::Number("synch."),
        Column::Number("imbalance"),
        Column::Number("limited"),
        Column::Number("managing"),
    ];
    let mut table = Table::new("Time that is lost, as shares of thread time", &columns);
    let cells = |region: Cell, at: Cell, shares: &OverheadShares| {
        let OverheadShares { whole_ns, total, synchronization, imbalance, limited_parallelism, management } = *shares;
        let classes = [synchronization, imbalance, limited_parallelism, management];
        let parts = CLASSES.iter().zip(classes);
        let parts: Vec<Part> =
            parts.map(|((class, name), share)| Part { class, name: (*name).to_owned(), share }).collect();
        let mut cells = vec![region, at, Cell::duration(whole_ns), Cell::share(total)];
        cells.push(Cell::bar(bar::small("lost", &parts)));
        cells.extend(classes.map(Cell::share));
        cells
    };
    for row in &process.overheads {
        let Some(region) = region_of(process, row.region) else { continue };
        let link = Cell::link(&id(place, region.number), &region_title(region), region.number);
        let at = Cell::text(&region_place(&region.at)).titled(&whole_place(&region.at));
        table.row_of(&found_by(region), &cells(link, at, &row.shares));
    }
    table.last(&cells(Cell::text("program"), Cell::default(), &process.overhead));
    table.write(out)
}
