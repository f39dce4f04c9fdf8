//! Reuse of data as text.

use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::full_trace::more;
use super::number::{bytes, count, percent, plural};
use super::simulation::{access_trace, data_name};
use super::table::{Column, Rows, shorten_path};
use super::{HEADING, STRONG, fold};
use crate::reuse::{DataReuseRow, HomesRow, MissRatio, PairRow, ReuseReport, ReuseRow, SimulatedReuse, WalkRow};

/// Columns of a name.
const NAME_COLUMNS: usize = 30;
/// Columns of the longest bar.
const BAR_COLUMNS: usize = 40;

/// Writes the report; at most so many rows a table.
///
/// # Errors
/// As `out`.
pub fn reuse(out: &mut impl Write, report: &ReuseReport, most: usize) -> fmt::Result {
    access_trace(out, &report.trace)?;
    writeln!(out, "{STRONG}{}{STRONG:#} accesses to {}", count(report.total.count), lines_of(report))?;
    if let Some(share) = report.sampled {
        writeln!(out, "{}", sampled(share))?;
    }
    if let Some(homes) = &report.homes {
        fold(out, &homes_in_words(homes, report.total.count), 0, 2)?;
    }
    curve(out, &report.total)?;
    if !report.data.is_empty() {
        data(out, report, most)?;
    }
    for row in report.data.iter().take(most).filter(|row| !row.pairs.is_empty()) {
        variable(out, row, most)?;
    }
    Ok(())
}

/// How many lines there are.
pub(crate) fn lines_of(report: &ReuseReport) -> String {
    let about = if report.sampled.is_some() { "about " } else { "" };
    format!(
        "{about}{} of {} bytes ({}), on {}",
        plural(report.lines, "line"),
        report.line_bytes,
        bytes(report.lines * u64::from(report.line_bytes)),
        plain(&report.machine),
    )
}

/// What a report of so many of all lines lacks.
pub(crate) fn sampled(share: f64) -> String {
    format!("Distances are those of {} of all lines; cycles, strides and lines of code are not told", percent(share))
}

/// Where homes of pages come from.
pub(crate) fn homes_in_words(homes: &HomesRow, accesses: u64) -> String {
    let Some(asked) = homes.asked.as_ref().filter(|_| homes.from == "kernel") else {
        return match homes.from {
            "one_memory" => "One memory is near to all cores: which node pages and threads are on does not matter".to_owned(),
            _ => "Homes of pages are simulated: each is near to the core that touches it first (the kernel told of none: \
                  slimline trace asks it where there are several nodes)"
                .to_owned(),
        };
    };
    let nodes: Vec<String> = asked.nodes.iter().map(u32::to_string).collect();
    let mut text = format!(
        "Homes of {} are as the kernel told them while the program ran, and so is where threads ran: nodes {}",
        plural(asked.pages, "page"),
        nodes.join(", ")
    );
    if asked.moves > 0 {
        text += &format!("; {} to another node was seen", plural(asked.moves, "move"));
    }
    let why = [
        (asked.not_present, "without memory when asked for"),
        (asked.ended, "of processes that had ended by then"),
        (asked.refused, "that it may not tell us of"),
    ];
    let why: Vec<String> =
        why.iter().filter(|(pages, _)| *pages > 0).map(|(pages, why)| format!("{} {why}", count(*pages))).collect();
    if !why.is_empty() {
        text += &format!("; not told of {}: {}", plural(asked.untold(), "page"), why.join(", "));
    }
    if homes.untold_accesses > 0 {
        let share = homes.untold_accesses as f64 / accesses.max(1) as f64;
        text += &format!("; so {} of the accesses are not counted as near or far", percent(share));
    }
    if homes.in_cycles == Some(false) {
        text += "; cycles are as if pages were near to the core that touches them first, as the machine's memories are not these \
                 nodes (--machine host, or a file with memories node0, node1 …)";
    }
    text
}

/// Sizes at which fewer miss than at half of it.
fn curve(out: &mut impl Write, total: &ReuseRow) -> fmt::Result {
    writeln!(out, "\n{HEADING}Misses of a fully associative cache, by its size{HEADING:#}")?;
    let has_interval = total.miss_ratios.iter().any(|size| size.interval.is_some());
    let mut columns = vec![Column::Number("size"), Column::Number("missed")];
    if has_interval {
        columns.push(Column::Number("from–to"));
    }
    columns.push(Column::Text(""));
    let mut rows = Rows::new(&columns, false);
    for MissRatio { bytes: size, ratio, interval } in &total.miss_ratios {
        let mut cells = vec![bytes(*size), percent(*ratio)];
        if has_interval {
            cells.push(
                interval.map_or_else(String::new, |[least, most]| format!("{}–{}", percent(least), percent(most))),
            );
        }
        cells.push("█".repeat((ratio * BAR_COLUMNS as f64).round() as usize));
        rows.push(cells);
    }
    rows.write(out, 2)
}

/// A mean distance; nothing where nothing was reused.
pub(crate) fn distance(distance: Option<f64>) -> String {
    match distance {
        Some(distance) if distance < 100.0 => format!("{distance:.2}"),
        Some(distance) => count(distance.round() as u64),
        None => String::new(),
    }
}

fn data(out: &mut impl Write, report: &ReuseReport, most: usize) -> fmt::Result {
    writeln!(out, "\n{HEADING}Data: mean distance in lines, and the cache that keeps 99 % of it{HEADING:#}")?;
    let is_simulated = report.sampled.is_none();
    let has_numa = report.total.simulated.as_ref().is_some_and(|simulated| simulated.numa_hit_ratio.is_some());
    let mut columns = vec![
        Column::Shortened("data", NAME_COLUMNS),
        Column::Number("count"),
        Column::Number("distance"),
        Column::Number("needs"),
    ];
    if is_simulated {
        columns.push(Column::Number("cycles each"));
        if has_numa {
            columns.push(Column::Number("near"));
        }
        columns.push(Column::Text("waits for"));
    }
    let mut rows = Rows::new(&columns, false);
    for row in report.data.iter().take(most) {
        let reuse = &row.reuse;
        let mut cells = vec![
            data_name(row.name.as_deref(), &row.data),
            count(reuse.count),
            distance(reuse.average_distance),
            reuse.needed_bytes.map_or_else(String::new, bytes),
        ];
        if let Some(simulated) = &reuse.simulated {
            cells.push(format!("{:.1}", simulated.cycles_per_access));
            if has_numa {
                cells.push(simulated.numa_hit_ratio.map_or_else(String::new, percent));
            }
            cells.push(simulated.cause.map_or("", in_words).to_owned());
        }
        rows.push(cells);
    }
    rows.write(out, 2)?;
    more(out, report.data.len(), most)
}

/// Why data waits, in words.
pub(crate) fn in_words(cause: &str) -> &'static str {
    match cause {
        "first_use" => "first use",
        "thrashing" => "thrashing",
        "capacity" => "capacity",
        "coherence" => "other cores",
        _ => "remote memory",
    }
}

/// What can be said of one cause.
pub(crate) fn diagnosis(cause: &str) -> &'static str {
    match cause {
        "first_use" => "lines that were never accessed before: only fewer bytes, or fetching ahead, help",
        "thrashing" => "lines that few others displaced: addresses that share sets; pad rows, or change their order",
        "capacity" => "lines that are accessed again after too many others: loops in another order, or in blocks",
        "coherence" => "lines that another core's stores took (slimline share tells whose)",
        _ => "pages of another node's memory: let each thread write first what it will read",
    }
}

/// One group of data: its numbers, what is to be said, and its lines of code.
fn variable(out: &mut impl Write, row: &DataReuseRow, most: usize) -> fmt::Result {
    writeln!(out, "\n{HEADING}{}{HEADING:#}", data_name(row.name.as_deref(), &row.data))?;
    if let Some(simulated) = &row.reuse.simulated {
        if let Some(cause) = simulated.cause {
            fold(out, &format!("waits most for {}", diagnosis(cause)), 2, 4)?;
        }
        if let Some(strides) = strides(simulated) {
            writeln!(out, "  strides: {strides}")?;
        }
    }
    for walk in row.walks.iter().take(most) {
        fold(out, &change(walk), 2, 4)?;
    }
    let columns = [
        Column::Shortened("reused at", 30),
        Column::Shortened("used before at", 24),
        Column::Number("distance"),
        Column::Number("cycles each"),
        Column::Number("count"),
    ];
    let mut rows = Rows::new(&columns, false);
    for pair in row.pairs.iter().take(most) {
        let PairRow { cycles_per_access, count: n, .. } = pair;
        let [at, before] = pair_places(pair, [30, 24]);
        rows.push(vec![at, before, distance(pair.distance), format!("{cycles_per_access:.1}"), count(*n)]);
    }
    rows.write(out, 2)?;
    more(out, row.pairs.len(), most)
}

/// From one access of an instruction to its next; none where there is none.
pub(crate) fn strides(simulated: &SimulatedReuse) -> Option<String> {
    let most = simulated.strides.iter().take(3);
    let most: Vec<String> = most.map(|stride| format!("{} bytes ({})", stride.bytes, percent(stride.share))).collect();
    let unit = simulated.unit_strides.filter(|_| !most.is_empty())?;
    Some(format!("{} to the next element; {}", percent(unit), most.join(", ")))
}

/// A loop and what to do about it.
pub(crate) fn change(walk: &WalkRow) -> String {
    let mut at = place(walk.file.as_deref(), walk.line, 40);
    if walk.called_in_line.is_some() {
        // A line of the same file needs no file.
        let call = match walk.called_in_file == walk.file {
            true => format!("line {}", walk.called_in_line.unwrap_or_default()),
            false => place(walk.called_in_file.as_deref(), walk.called_in_line, 40),
        };
        at = format!("{at} (inlined at {call})");
    }
    let signed = |bytes: i64| format!("{}{}", if bytes < 0 { "-" } else { "" }, count(bytes.unsigned_abs()));
    let steps = count(walk.inner_times.round() as u64);
    match (walk.replayed_cycles_per_access, walk.predicted_cycles_per_access) {
        (Some(now), Some(then)) => format!(
            "the innermost loop around {at} goes {} bytes a step, {steps} steps, and the loop around it {} bytes: \
             interchange these two: {then:.1} cycles an access, {now:.1} now (both by a replay of the nest; whether no \
             step needs what a later one makes, addresses don't tell)",
            signed(walk.inner_bytes),
            signed(walk.outer_bytes),
        ),
        _ => format!(
            "the loop around {at} goes {} bytes a step, from the same place each time, and never ends before it did the \
             time before: if it searches, begin where the last search ended: {} accesses, {} now",
            signed(walk.inner_bytes),
            count(walk.predicted_accesses),
            count(walk.accesses),
        ),
    }
}

/// Where it is reused, and where it was used before, in so many columns each.
pub(crate) fn pair_places(pair: &PairRow, [reused, used]: [usize; 2]) -> [String; 2] {
    let PairRow { file, reuse_line, use_file, use_line, is_first, .. } = pair;
    // A line of the same file needs no file.
    let before = match (is_first, use_file == file, use_line) {
        (true, ..) => "(first use)".to_owned(),
        (false, true, Some(line)) => format!("line {line}"),
        _ => place(use_file.as_deref(), *use_line, used),
    };
    [place(file.as_deref(), *reuse_line, reused), before]
}

fn place(file: Option<&str>, line: Option<u32>, columns: usize) -> String {
    match (file, line) {
        (Some(file), Some(line)) => shorten_path(&plain(&format!("{file}:{line}")), columns),
        // The address of an instruction of which nothing else is known.
        (Some(instruction), None) => shorten_path(&plain(instruction), columns),
        _ => "(not known)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use slimline_analyze::reuse::findings;
    use slimline_simulate::access::{Consumer as _, Located};
    use slimline_simulate::locality::Locality;
    use slimline_simulate::machine::Machine;
    use slimline_trace::stream::pages::HomesInfo;

    use super::super::a_run;
    use super::*;
    use crate::simulation::AccessTrace;

    #[test]
    fn a_small_report() {
        let mut locality = Locality::new(&a_run::machine()).unwrap();
        locality.take(&a_run::accesses());
        let (found, origins) = (locality.finish().unwrap(), a_run::origins());
        let sums = findings(&found, &origins);
        let mut out = String::new();
        let report = ReuseReport::exact(a_run::trace(), &found, &sums, &origins);
        reuse(&mut out, &report, 3).unwrap();
        insta::assert_snapshot!(a_run::unstyled(&out));
        insta::assert_snapshot!(report.csv());
    }

    /// Of a kernel's answers: which of the two machines' numbers they are, and of how much there are none.
    #[test]
    fn whose_homes_they_are() {
        let told = |asked: Option<HomesInfo>, machine: Machine| {
            let mut locality = Locality::new(&machine).unwrap();
            let nodes: Vec<u32> = asked.iter().flat_map(|asked| asked.nodes.clone()).collect();
            if asked.is_some() {
                locality.locate(&Located { nodes: &nodes, ..Located::default() });
                let pages: Vec<(u64, u32)> = (0x100..0x301).map(|page| (page << 12, 1)).collect();
                for thread in [(0, 1), (1, 0)] {
                    locality.locate(&Located { pages: &pages, thread: Some(thread), ..Located::default() });
                }
            }
            locality.take(&a_run::accesses());
            let (found, origins) = (locality.finish().unwrap(), a_run::origins());
            let report = ReuseReport::exact(
                AccessTrace { homes: asked, ..a_run::trace() },
                &found,
                &findings(&found, &origins),
                &origins,
            );
            (homes_in_words(report.homes.as_ref().unwrap(), report.total.count), report)
        };
        let asked = HomesInfo { nodes: vec![0, 1], pages: 513, moves: 1, ended: 2, refused: 3, ..HomesInfo::default() };
        let (text, report) = told(Some(asked.clone()), a_run::machine());
        insta::assert_snapshot!(text);
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!((&json["homes"]["from"], &json["homes"]["in_cycles"]), (&"kernel".into(), &true.into()));
        assert_eq!(json["homes"]["asked"]["moves"], 1);
        let (text, _) = told(Some(HomesInfo { nodes: vec![0, 4], ..asked }), a_run::machine());
        assert!(text.contains("cycles are as if pages were near"), "{text}");
        let (text, report) = told(None, a_run::machine());
        assert!(text.starts_with("Homes of pages are simulated"), "{text}");
        assert_eq!(report.homes.unwrap().untold_accesses, 0);
        let (text, report) = told(None, Machine::named("dinero-i5").unwrap());
        assert!(text.starts_with("One memory is near to all cores"), "{text}");
        assert_eq!(report.total.simulated.unwrap().numa_hit_ratio, None);
    }
}
