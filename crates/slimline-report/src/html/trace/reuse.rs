//! How far apart accesses to the same lines are: misses of caches of every size, and what data waits for.

use std::fmt::{self, Write};

use super::paragraphs;
use crate::html::bar;
use crate::html::chart::{self, Bar, Bars, CURVES, Curve};
use crate::html::page::Escaped;
use crate::html::table::{Cell, Column, Table};
use crate::reuse::{DataReuseRow, ReuseReport, ReuseRow, Waited};
use crate::text::number::{RANGE, bytes, count, range};
use crate::text::reuse::{
    change, diagnosis, distance, homes_in_words, in_words, lines_of, pair_places, sampled, strides,
};
use crate::text::simulation::data_name;
use crate::view::Interval;

/// Most data with a curve of its own beside that of the program.
const MOST_CURVES: usize = CURVES.len() - 1;
/// Most data with a section of its own; the table has all.
const MOST_SECTIONS: usize = 24;
const DISTANCES_HEIGHT: f64 = 110.0;

pub(super) fn reuse(out: &mut impl Write, report: &ReuseReport) -> fmt::Result {
    writeln!(out, "<p>{}</p>", Escaped(&format!("{} accesses to {}", count(report.total.count), lines_of(report))))?;
    let remarks = report.sampled.map(sampled).into_iter();
    let homes = report.homes.as_ref().map(|homes| homes_in_words(homes, report.total.count));
    paragraphs(out, &remarks.chain(homes).collect::<Vec<_>>())?;
    curves(out, report)?;
    distances(out, "the program", &report.total, "h3")?;
    if report.data.is_empty() {
        return Ok(());
    }
    data(out, report)?;
    for (place, row) in report.data.iter().take(MOST_SECTIONS).enumerate() {
        section(out, place, row)?;
    }
    match report.data.len().saturating_sub(MOST_SECTIONS) {
        0 => Ok(()),
        more => writeln!(out, "<p class=\"faint\">{} more have no section.</p>", count(more as u64)),
    }
}

/// The program's miss-ratio curve, and those of the data that costs most.
fn curves(out: &mut impl Write, report: &ReuseReport) -> fmt::Result {
    writeln!(out, "<h3>Misses by the size of a cache</h3>\n<figure>")?;
    let curve = |name: String, class, row: &ReuseRow| Curve {
        class,
        name,
        points: row.miss_ratios.iter().map(|size| (size.bytes, size.ratio)).collect(),
        ends: Vec::new(),
    };
    let ends = report.total.miss_ratios.iter().map_while(|size| size.interval).collect();
    let program = Curve { ends, ..curve("the program".to_owned(), CURVES[0], &report.total) };
    let of_data = report.data.iter().filter(|row| !row.reuse.miss_ratios.is_empty()).take(MOST_CURVES);
    let of_data = CURVES[1..].iter().zip(of_data);
    let of_data = of_data.map(|(class, row)| curve(data_name(row.name.as_deref(), &row.data), class, &row.reuse));
    let all: Vec<Curve> = [program].into_iter().chain(of_data).collect();
    let marks: Vec<(u64, &str)> = report.caches.iter().map(|cache| (cache.bytes, cache.name.as_str())).collect();
    let said = format!(
        "Miss-ratio curves of {} by the size of a fully associative cache; their numbers are in the table below",
        all.len()
    );
    writeln!(
        out,
        "<figcaption>Share of accesses that miss a fully associative cache, by its size; dashed are the caches of {}</figcaption>",
        Escaped(&report.machine)
    )?;
    chart::curves(out, &said, &all, &marks)?;
    writeln!(out, "</figure>")?;
    numbers(out, report, &all)
}

/// The same as the curves, in numbers.
fn numbers(out: &mut impl Write, report: &ReuseReport, all: &[Curve]) -> fmt::Result {
    let has_ends = !all[0].ends.is_empty();
    let mut columns = vec![Column::Number("size"), Column::Number("the program")];
    columns.extend(has_ends.then_some(Column::Number(RANGE)));
    columns.extend(all[1..].iter().map(|curve| Column::Number(&curve.name)));
    let mut table = Table::new(
        "Accesses that miss; a cache that keeps all that is accessed again misses no more when it is larger",
        &columns,
    );
    let most = all.iter().map(|curve| curve.points.len()).max().unwrap_or(0);
    let longest = all.iter().find(|curve| curve.points.len() == most);
    for (place, (size, _)) in longest.iter().flat_map(|curve| &curve.points).enumerate() {
        // Sizes are the same powers of two in all, and a curve stays as it is behind its end.
        let of = |curve: &Curve| {
            curve.points.get(place).or(curve.points.last()).map_or_else(Cell::nothing, |point| Cell::share(point.1))
        };
        let mut cells = vec![Cell::bytes(*size), of(&all[0])];
        if has_ends {
            let ends = all[0].ends.get(place).map(|[low, high]| Interval { low: *low, high: *high });
            cells.push(ends.map_or_else(Cell::nothing, |ends| Cell::number(&format!("{} %", range(ends)), ends.low)));
        }
        cells.extend(all[1..].iter().map(of));
        table.row(&cells);
    }
    let caches: Vec<String> =
        report.caches.iter().map(|cache| format!("{} {}", cache.name, bytes(cache.bytes))).collect();
    details(out, "These curves in numbers", |out| {
        writeln!(out, "<p class=\"faint\">Caches of the machine: {}</p>", Escaped(&caches.join(", ")))?;
        table.write_unsorted(out)
    })
}

/// What is beside a picture: closed, as it is long.
fn details<W: Write>(out: &mut W, summary: &str, inside: impl FnOnce(&mut W) -> fmt::Result) -> fmt::Result {
    writeln!(out, "<details class=\"numbers\">\n<summary>{}</summary>", Escaped(summary))?;
    inside(out)?;
    writeln!(out, "</details>")
}

/// Accesses by distance.
fn distances(out: &mut impl Write, name: &str, row: &ReuseRow, heading: &str) -> fmt::Result {
    let Some(last) = row.histogram.last() else { return Ok(()) };
    let up_to = |lines: u64| if lines == 0 { 0 } else { 2 * lines - 1 };
    let words = |lines: u64| {
        if up_to(lines) == lines { count(lines) } else { format!("{}–{}", count(lines), count(up_to(lines))) }
    };
    let counted = |accesses: f64| accesses.round() as u64;
    // 0, 1, 2, 4, 8 …, also where there is none.
    let sizes: Vec<u64> = [0].into_iter().chain((0..=last.lines.max(1).ilog2()).map(|power| 1 << power)).collect();
    let found = |lines: u64| row.histogram.iter().find(|of| of.lines == lines).map_or(0, |of| counted(of.count));
    let mut bars: Vec<Bar> = sizes
        .iter()
        .map(|&lines| Bar {
            said: format!("{} lines: {} accesses", words(lines), count(found(lines))),
            parts: vec![found(lines), 0],
        })
        .collect();
    let first_uses = counted(row.first_uses);
    bars.push(Bar { said: format!("first use: {} accesses", count(first_uses)), parts: vec![0, first_uses] });
    let step = sizes.len().div_ceil(6).max(1);
    let labelled = sizes.iter().enumerate().step_by(step).filter(|(place, _)| place + 2 < sizes.len());
    let mut below: Vec<(usize, String)> = labelled.map(|(place, lines)| (place, count(*lines))).collect();
    below.push((bars.len() - 1, "first use".to_owned()));
    let highest = bars.iter().map(|bar| bar.parts.iter().sum::<u64>()).max().unwrap_or(0);
    writeln!(out, "<{heading}>Distances of {}</{heading}>\n<figure>", Escaped(name))?;
    writeln!(out, "<figcaption>Accesses by how many other lines were accessed since the same one</figcaption>")?;
    let said = format!("Histogram of the reuse distances of {name}; its numbers are in the table below");
    let chart = Bars {
        said: &said,
        classes: &["distances", "first-uses"],
        bars: &bars,
        below: &below,
        highest: &format!("highest: {} accesses", count(highest)),
        height: DISTANCES_HEIGHT,
    };
    chart.write(out)?;
    writeln!(out, "</figure>")?;
    let columns = [Column::Text("lines between"), Column::Number("accesses")];
    let caption = format!("Accesses of {name} by distance");
    let mut table = Table::new(&caption, &columns);
    let mut push = |name: &str, accesses: f64| table.row(&[Cell::text(name), Cell::count(counted(accesses))]);
    row.histogram.iter().for_each(|of| push(&words(of.lines), of.count));
    push("first use", row.first_uses);
    details(out, "These distances in numbers", |out| table.write_unsorted(out))
}

fn section_id(place: usize) -> String {
    format!("reuse-{}", place + 1)
}

fn data(out: &mut impl Write, report: &ReuseReport) -> fmt::Result {
    writeln!(out, "<h3>Data</h3>")?;
    let is_simulated = report.sampled.is_none();
    let has_numa = report.total.simulated.as_ref().is_some_and(|simulated| simulated.numa_hit_ratio.is_some());
    let mut columns =
        vec![Column::Text("data"), Column::Number("accesses"), Column::Number("distance"), Column::Number("needs")];
    if is_simulated {
        columns.push(Column::Number("cycles each"));
        columns.extend(has_numa.then_some(Column::Number("near")));
        columns.push(Column::Text("waits for"));
    }
    let caption = "Data: mean distance in lines, the cache that keeps 99 % of what is accessed again";
    let mut table = Table::searched(caption, &columns);
    for (place, row) in report.data.iter().enumerate() {
        let ReuseRow { count: accesses, average_distance, needed_bytes, simulated, .. } = &row.reuse;
        let name = data_name(row.name.as_deref(), &row.data);
        let mut cells = vec![
            if place < MOST_SECTIONS { Cell::link(&section_id(place), &name, &name) } else { Cell::long_text(&name) },
            Cell::count(*accesses),
            average_distance.map_or_else(Cell::nothing, |mean| Cell::number(&distance(Some(mean)), mean)),
            needed_bytes.map_or_else(Cell::nothing, Cell::bytes),
        ];
        if let Some(simulated) = simulated {
            let each = simulated.cycles_per_access;
            cells.push(Cell::number(&format!("{each:.1}"), each));
            cells.extend(has_numa.then(|| simulated.numa_hit_ratio.map_or_else(Cell::nothing, Cell::share)));
            cells.push(simulated.cause.map_or_else(Cell::nothing, |cause| Cell::text(in_words(cause))));
        }
        table.row(&cells);
    }
    table.write(out)
}

/// What is to be said of data: why it waits, what to do, which lines reuse what which used.
fn section(out: &mut impl Write, place: usize, row: &DataReuseRow) -> fmt::Result {
    let name = data_name(row.name.as_deref(), &row.data);
    writeln!(
        out,
        "<details class=\"group\"{}>\n<summary><h3>{}</h3> <span class=\"faint\">{} accesses</span></summary>\n\
         <div class=\"inside\" id=\"{}\">",
        if place == 0 { " open" } else { "" },
        Escaped(&name),
        count(row.reuse.count),
        section_id(place)
    )?;
    if let Some(simulated) = &row.reuse.simulated {
        if let Some(cause) = simulated.cause {
            writeln!(out, "<p>Waits most for {}.</p>", Escaped(diagnosis(cause)))?;
        }
        if let Some(strides) = strides(simulated) {
            writeln!(out, "<p class=\"faint\">Strides: {}</p>", Escaped(&strides))?;
        }
    }
    if !row.walks.is_empty() {
        writeln!(out, "<h4>Loops to change</h4>\n<ul>")?;
        row.walks.iter().try_for_each(|walk| writeln!(out, "<li>{}</li>", Escaped(&change(walk))))?;
        writeln!(out, "</ul>")?;
    }
    distances(out, &name, &row.reuse, "h4")?;
    if !row.pairs.is_empty() {
        let columns = [
            Column::Text("reused at"),
            Column::Text("used before at"),
            Column::Number("distance"),
            Column::Number("cycles each"),
            Column::Number("accesses"),
        ];
        let caption = format!("Which line of code reuses what of {name} which one used");
        let mut table = Table::searched(&caption, &columns);
        for pair in &row.pairs {
            let [at, before] = pair_places(pair, [usize::MAX; 2]);
            table.row(&[
                Cell::long_text(&at),
                Cell::long_text(&before),
                pair.distance.map_or_else(Cell::nothing, |mean| Cell::number(&distance(Some(mean)), mean)),
                Cell::number(&format!("{:.1}", pair.cycles_per_access), pair.cycles_per_access),
                Cell::count(pair.count),
            ]);
        }
        table.write(out)?;
    }
    if let Some(simulated) = &row.reuse.simulated {
        waits(out, &name, &simulated.waited)?;
    }
    writeln!(out, "</div>\n</details>")
}

/// Nothing where nothing is waited for.
fn waits(out: &mut impl Write, name: &str, waited: &Waited) -> fmt::Result {
    let Waited { first_use, thrashing, capacity, coherence, remote } = *waited;
    let all = [
        ("first_use", first_use),
        ("thrashing", thrashing),
        ("capacity", capacity),
        ("coherence", coherence),
        ("remote", remote),
    ];
    let most = all.iter().map(|(_, cycles)| *cycles).max().unwrap_or(0);
    if most == 0 {
        return Ok(());
    }
    let columns = [Column::Text("waited for"), Column::Number("cycles"), Column::Bar("of the most")];
    let caption = format!("What {name} waits for");
    let mut table = Table::new(&caption, &columns);
    for (cause, cycles) in all {
        table.row(&[Cell::text(in_words(cause)), Cell::count(cycles), Cell::bar(bar::of_most(cycles, most))]);
    }
    table.write_unsorted(out)
}
