//! OpenMP regions as text.

mod samples;

pub(crate) use self::samples::{estimated, sampled_words, weight};

use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::number::{self, count, duration, percent, plural, plural_of};
use super::table::{Column, Rows, shorten_end, shorten_path};
use super::{DIM, HEADING, STRONG, WIDTH};
use crate::full_trace::ProgramEnd;
use crate::regions::{
    AccessCounts, ChosenBy, ChosenRow, ComparedProcess, ComparedRegion, ComparedRun, ComparedTimes, Comparison,
    Counting, DataAccesses, DataSamples, OverheadShares, PathRow, RegionData, RegionPlace, RegionRow, RegionTimes,
    RegionsProcess, RegionsReport, SpeedUp,
};

/// Columns of the name of data.
const NAME_COLUMNS: usize = 14;
/// Columns of where a region is.
const PLACE_COLUMNS: usize = 44;

/// Writes the report; at most so many regions have tables, and lists so many rows.
///
/// # Errors
/// As `out`.
pub fn regions(out: &mut impl Write, report: &RegionsReport, most: usize) -> fmt::Result {
    let command = shorten_end(&plain(&report.command.join(" ")), WIDTH / 2);
    let ended = report.ended.as_ref().filter(|end| end.status != Some(0));
    let ended = ended.map_or_else(String::new, |end| format!(", {}", self::ended(end)));
    writeln!(out, "Regions of {command}{ended}")?;
    for missing in &report.missing {
        writeln!(out, "Missing: {}", plain(missing))?;
    }
    if let Some(comparison) = &report.against {
        compared(out, comparison, most)?;
    }
    if let Some(data) = &report.data {
        writeln!(out, "Accesses to memory, each told apart; misses and cycles of {}", plain(&data.machine))?;
        chosen_rows(out, &data.chosen)?;
    }
    if let Some(data) = &report.sampled {
        samples::head(out, data)?;
    }
    for process in &report.processes {
        writeln!(out)?;
        self::process(out, process, report, most)?;
    }
    Ok(())
}

/// How a program ended: `ended by SIGSEGV`.
pub(crate) fn ended(end: &ProgramEnd) -> String {
    match (end.signal_name, end.signal, end.status) {
        (Some(name), ..) => format!("ended by {name}"),
        (None, Some(signal), _) => format!("ended by signal {signal}"),
        (None, None, status) => format!("ended with status {}", status.unwrap_or(0)),
    }
}

/// `grid (step.c:7)` of `grid (/src/step.c:7)`.
fn without_directories(titles: &[String]) -> String {
    let short = |title: &String| match title.split_once(" (") {
        Some((name, place)) => format!("{name} ({}", place.rsplit('/').next().unwrap_or(place)),
        None => title.clone(),
    };
    titles.iter().map(short).collect::<Vec<_>>().join(", ")
}

/// The data whose accesses are told, as the head of ompP's reports has it.
fn chosen_rows(out: &mut impl Write, chosen: &[ChosenRow]) -> fmt::Result {
    if chosen.is_empty() {
        return Ok(());
    }
    let columns = [
        Column::Shortened("data", NAME_COLUMNS),
        Column::Number("from"),
        Column::Number("to"),
        Column::Number("bytes"),
        Column::Number("off at start, end"),
        Column::Shortened("is", PLACE_COLUMNS),
    ];
    let mut rows = Rows::new(&columns, false);
    for row in chosen {
        let nothing = || "–".to_owned();
        let of = if row.of.is_empty() { "not accessed".to_owned() } else { plain(&without_directories(&row.of)) };
        rows.push(vec![
            plain(&row.name),
            row.start.clone().unwrap_or_else(nothing),
            row.end.clone().unwrap_or_else(nothing),
            row.bytes.map_or_else(nothing, count),
            format!("{}, {}", row.start_imprecision, row.end_imprecision),
            match row.by {
                ChosenBy::Program => format!("watched by process {}: {of}", row.pid.unwrap_or(0)),
                ChosenBy::Name | ChosenBy::Address => of,
            },
        ]);
    }
    rows.write(out, 2)
}

fn process(out: &mut impl Write, process: &RegionsProcess, report: &RegionsReport, most: usize) -> fmt::Result {
    let RegionsProcess { pid, program, duration_ns, threads, .. } = process;
    if process.regions.is_empty() {
        writeln!(out, "{STRONG}Process {pid}{STRONG:#} met no region")?;
        return outside(out, process, report);
    }
    writeln!(
        out,
        "{STRONG}Process {pid}{STRONG:#} {}: {}, {}",
        shorten_path(&plain(program), WIDTH / 2),
        duration(*duration_ns),
        plural(*threads, "thread")
    )?;
    if let Some(counting) = &process.counting {
        writeln!(out, "  {}", counted(counting))?;
    }
    speed_up(out, process)?;
    shares(out, process, most)?;
    overheads(out, process, most)?;
    if let Some(data) = &report.data {
        where_accessed(out, process, data, most)?;
    }
    if let Some(data) = &report.sampled {
        samples::places(out, process, data, most)?;
    }
    call_graph(out, process, most)?;
    tables(out, process, report, most)?;
    outside(out, process, report)
}

/// Accesses in no region.
fn outside(out: &mut impl Write, process: &RegionsProcess, report: &RegionsReport) -> fmt::Result {
    if process.outside_accesses.is_empty() && process.outside_samples.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}Outside of regions{HEADING:#}")?;
    told(out, (&process.outside_accesses, &process.outside_samples), report)
}

/// What is told of one place: accesses that were counted, or samples.
fn told(
    out: &mut impl Write,
    (accesses, samples): (&[DataAccesses], &[DataSamples]),
    report: &RegionsReport,
) -> fmt::Result {
    if let Some(data) = report.data.as_ref().filter(|_| !accesses.is_empty()) {
        self::accesses(out, accesses, data)?;
    }
    if let Some(data) = report.sampled.as_ref().filter(|_| !samples.is_empty()) {
        samples::samples(out, samples, data)?;
    }
    Ok(())
}

/// Where each data chosen is accessed, and what that costs: over all threads, without the regions within.
fn where_accessed(out: &mut impl Write, process: &RegionsProcess, data: &RegionData, most: usize) -> fmt::Result {
    let of_regions = process.regions.iter().map(|row| (Some(row), &row.exclusive_accesses));
    let all = of_regions.chain([(None, &process.outside_accesses)]);
    let mut places: Vec<(Option<&RegionRow>, &DataAccesses)> =
        all.flat_map(|(row, all)| all.iter().map(move |of| (row, of))).collect();
    places.sort_by_key(|(_, of)| (of.chosen.is_none(), of.chosen, std::cmp::Reverse(of.sum.cycles)));
    writeln!(out, "\n{HEADING}Where data is accessed{HEADING:#}")?;
    let last = data.caches.last().map_or_else(|| "misses".to_owned(), |cache| format!("{} misses", plain(cache)));
    let columns = [
        Column::Shortened("data", NAME_COLUMNS),
        Column::Shortened("region", PLACE_COLUMNS),
        Column::Number("loads"),
        Column::Number("stores"),
        Column::Number(&last),
        Column::Number("cycles"),
    ];
    let mut rows = Rows::new(&columns, false);
    let mut hidden = 0;
    for (place, (row, of)) in places.iter().enumerate() {
        // Of each data so many.
        let first = places[..place].iter().filter(|(_, before)| before.chosen == of.chosen).count();
        if first >= most {
            hidden += 1;
            continue;
        }
        let AccessCounts { loads, stores, misses, cycles: own, .. } = &of.sum;
        rows.push(vec![
            if first == 0 { plain(data.name(of.chosen)) } else { String::new() },
            row.map_or_else(|| "outside".to_owned(), |row| format!("{} {}", title(row), self::place(&row.at))),
            count(*loads),
            count(*stores),
            count(misses.last().copied().unwrap_or(0)),
            percent(*own as f64 / data.cycles.max(1) as f64),
        ]);
    }
    rows.write(out, 2)?;
    if hidden > 0 {
        writeln!(out, "  {DIM}{} more{DIM:#}", count(hidden))?;
    }
    Ok(())
}

/// Accesses by data and thread.
fn accesses(out: &mut impl Write, all: &[DataAccesses], data: &RegionData) -> fmt::Result {
    let names: Vec<String> = data.caches.iter().map(|cache| format!("{} misses", plain(cache))).collect();
    let is_far = all.iter().any(|of| of.sum.from_afar > 0);
    let mut columns = vec![
        Column::Shortened("data", NAME_COLUMNS),
        Column::Number("TID"),
        Column::Number("loads"),
        Column::Number("stores"),
        Column::Number("bytes"),
    ];
    columns.extend(names.iter().map(|name| Column::Number(name)));
    columns.extend(is_far.then_some(Column::Number("from afar")));
    columns.push(Column::Number("cycles"));
    let mut rows = Rows::new(&columns, false);
    for of in all {
        let name = plain(data.name(of.chosen));
        let mut push = |name: &str, thread: String, counts: &AccessCounts| {
            let AccessCounts { loads, stores, bytes, misses, from_afar, cycles } = counts;
            let mut cells = vec![name.to_owned(), thread, count(*loads), count(*stores), number::bytes(*bytes)];
            cells.extend(misses.iter().map(|misses| count(*misses)));
            cells.extend(is_far.then(|| count(*from_afar)));
            cells.push(count(*cycles));
            rows.push(cells);
        };
        for (place, (thread, counts)) in of.threads.iter().enumerate() {
            let thread = thread.map_or_else(|| "–".to_owned(), |thread| thread.to_string());
            push(if place == 0 { &name } else { "" }, thread, counts);
        }
        push("", "SUM".to_owned(), &of.sum);
    }
    rows.write(out, 2)
}

/// `203.1 ms with 4 threads (75.3 % overhead)`.
pub(crate) fn compared_run(run: &ComparedRun) -> String {
    let ComparedRun { duration_ns, threads, overhead } = *run;
    format!("{} with {} ({} overhead)", duration(duration_ns), plural(threads, "thread"), percent(overhead))
}

/// What counting took, and that it is in no time that is told.
pub(crate) fn counted(counting: &Counting) -> String {
    format!(
        "Counting took {} ({} of {} each, measured): not in the times below",
        duration(counting.subtracted_ns),
        plural(counting.executions, "execution"),
        duration(counting.each_ps.div_ceil(1000))
    )
}

fn compared(out: &mut impl Write, comparison: &Comparison, most: usize) -> fmt::Result {
    let command = shorten_end(&plain(&comparison.command.join(" ")), WIDTH / 2);
    writeln!(out, "\n{HEADING}Against an earlier run{HEADING:#} of {command}")?;
    if comparison.unpaired > 0 {
        let processes = plural_of(comparison.unpaired as u64, "process", "processes");
        writeln!(out, "  {processes} that one run alone has: not compared")?;
    }
    for process in &comparison.processes {
        let ComparedProcess { pid, then, now, regions } = process;
        writeln!(out, "  Process {pid}: speed-up {:.2}", process.speed_up())?;
        writeln!(out, "    then {}\n    now {}", compared_run(then), compared_run(now))?;
        let columns = [
            Column::Text("region"),
            Column::Shortened("at", PLACE_COLUMNS),
            Column::Number("longest thread"),
            Column::Number("now"),
            Column::Number("speed-up"),
            Column::Number("all threads"),
            Column::Number("now"),
        ];
        let mut rows = Rows::new(&columns, false);
        for region in regions.iter().take(most) {
            let ComparedRegion { at, then, now } = region;
            let time = |of: &Option<ComparedTimes>, ns: fn(&ComparedTimes) -> u64| {
                of.as_ref().map_or_else(|| "–".to_owned(), |times| duration(ns(times)))
            };
            let faster = region.speed_up().map_or_else(|| "–".to_owned(), |faster| format!("{faster:.2}"));
            let [longest, all]: [fn(&ComparedTimes) -> u64; 2] = [|times| times.longest_ns, |times| times.exec_ns];
            rows.push(vec![
                at.kind.to_owned(),
                place(at),
                time(then, longest),
                time(now, longest),
                faster,
                time(then, all),
                time(now, all),
            ]);
        }
        rows.write(out, 2)?;
        if regions.len() > most {
            writeln!(out, "  {DIM}{} more{DIM:#}", count((regions.len() - most) as u64))?;
        }
    }
    Ok(())
}

fn speed_up(out: &mut impl Write, process: &RegionsProcess) -> fmt::Result {
    let SpeedUp { parallel_ns, threads, now, without_overhead, limit, .. } = process.speed_up;
    let parallel = parallel_ns as f64 / process.duration_ns.max(1) as f64;
    let limit = limit.map_or_else(String::new, |limit| match limit {
        0.0..100.0 => format!(", with ever more threads {limit:.1}"),
        _ => ", with ever more threads beyond 100".to_owned(),
    });
    writeln!(out, "  In parallel regions {} of the time ({})", percent(parallel), duration(parallel_ns))?;
    let threads = plural(threads, "thread");
    writeln!(out, "  Speed-up {now:.2} with {threads}; without overhead {without_overhead:.2}{limit}")
}

/// Where a region is: `matvec.c:30-37 main`.
pub(crate) fn place(at: &RegionPlace) -> String {
    let RegionPlace { name, function, file, line, last_line, part, address, .. } = at;
    let part = if *part > 0 { format!(" ({part})") } else { String::new() };
    let last = last_line.map_or_else(String::new, |last| format!("-{last}"));
    let function = function.as_deref().unwrap_or_default();
    let at = match (name, file, line, address) {
        (Some(name), ..) => name.clone(),
        (None, Some(file), Some(line), _) => {
            let file = file.rsplit('/').next().unwrap_or(file);
            format!("{file}:{line}{last} {function}")
        }
        // The address in the file tells more.
        (.., Some(_)) if function.contains("+0x") => function.to_owned(),
        (.., Some(address)) => format!("{address} {function}"),
        _ => function.to_owned(),
    };
    plain(at.trim_end()) + &part
}

/// `R3 loop`.
pub(crate) fn title(row: &RegionRow) -> String {
    format!("R{} {}", row.number, row.at.kind)
}

fn shares(out: &mut impl Write, process: &RegionsProcess, most: usize) -> fmt::Result {
    writeln!(out, "\n{HEADING}Where threads spend their time{HEADING:#}")?;
    let columns = [
        Column::Text("region"),
        Column::Shortened("at", PLACE_COLUMNS),
        Column::Number("executed"),
        Column::Number("with what is in it"),
        Column::Number("without"),
        Column::Number("share"),
    ];
    let mut rows = Rows::new(&columns, false);
    for row in process.regions.iter().take(most) {
        let RegionTimes { count: executed, exec_ns, exclusive_ns, .. } = row.sum;
        rows.push(vec![
            title(row),
            place(&row.at),
            count(executed),
            duration(exec_ns),
            duration(exclusive_ns),
            percent(row.share),
        ]);
    }
    let whole_ns = process.overhead.whole_ns.max(1) as f64;
    let mut rest = |what: String, ns: u64| {
        let share = percent(ns as f64 / whole_ns);
        rows.push(vec![what, String::new(), String::new(), String::new(), duration(ns), share]);
    };
    let hidden = process.regions.iter().skip(most);
    if hidden.len() > 0 {
        rest(format!("{} more", count(hidden.len() as u64)), hidden.map(|row| row.sum.exclusive_ns).sum());
    }
    rest("outside".to_owned(), process.outside_ns);
    if let Some(counting) = process.counting {
        rest("counting".to_owned(), counting.subtracted_ns);
    }
    rows.write(out, 2)
}

fn overheads(out: &mut impl Write, process: &RegionsProcess, most: usize) -> fmt::Result {
    if process.overheads.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}What parallel regions lose{HEADING:#}")?;
    let columns = [
        Column::Text("region"),
        Column::Shortened("at", PLACE_COLUMNS - 12),
        Column::Number("thread time"),
        Column::Number("overhead"),
        Column::Number("synch."),
        Column::Number("imbalance"),
        Column::Number("limited"),
        Column::Number("managing"),
    ];
    let mut rows = Rows::new(&columns, false);
    let cells = |shares: &OverheadShares| {
        let OverheadShares { whole_ns, total, synchronization, imbalance, limited_parallelism, management } = *shares;
        let shares = [total, synchronization, imbalance, limited_parallelism, management];
        [duration(whole_ns)].into_iter().chain(shares.map(percent))
    };
    for row in process.overheads.iter().take(most) {
        let Some(region) = process.regions.iter().find(|region| region.number == row.region) else { continue };
        rows.push([title(region), place(&region.at)].into_iter().chain(cells(&row.shares)).collect());
    }
    rows.push(["program".to_owned(), String::new()].into_iter().chain(cells(&process.overhead)).collect());
    rows.write(out, 2)?;
    if process.overheads.len() > most {
        writeln!(out, "  {DIM}{} more{DIM:#}", count((process.overheads.len() - most) as u64))?;
    }
    Ok(())
}

fn call_graph(out: &mut impl Write, process: &RegionsProcess, most: usize) -> fmt::Result {
    if process.call_graph.iter().all(|row| row.depth == 0) {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}Regions within regions{HEADING:#}")?;
    let columns = [
        Column::Shortened("region", PLACE_COLUMNS + 12),
        Column::Number("executed"),
        Column::Number("with what is in it"),
        Column::Number("without"),
    ];
    let mut rows = Rows::new(&columns, false);
    for row in process.call_graph.iter().take(most) {
        let PathRow { depth, region, count: executed, exec_ns, exclusive_ns } = *row;
        let Some(region) = process.regions.iter().find(|known| known.number == region) else { continue };
        let name = format!("{:depth$}{} {}", "", title(region), place(&region.at), depth = depth * 2);
        rows.push(vec![name, count(executed), duration(exec_ns), duration(exclusive_ns)]);
    }
    rows.write(out, 2)?;
    if process.call_graph.len() > most {
        writeln!(out, "  {DIM}{} more{DIM:#}", count((process.call_graph.len() - most) as u64))?;
    }
    Ok(())
}

/// A unit for all times of a table: its name, and how many nanoseconds it is.
pub(crate) fn unit(largest_ns: u64) -> (&'static str, f64) {
    match largest_ns {
        0..100_000 => ("µs", 1e3),
        100_000..100_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    }
}

fn tables(out: &mut impl Write, process: &RegionsProcess, report: &RegionsReport, most: usize) -> fmt::Result {
    for row in process.regions.iter().take(most) {
        let (unit, ns) = unit(row.sum.exec_ns);
        writeln!(out, "\n{HEADING}{}{HEADING:#} {} {DIM}(times in {unit}){DIM:#}", title(row), place(&row.at))?;
        let phases = |times: &RegionTimes| {
            [
                ("bodyT", times.body_ns),
                ("enterT", times.enter_ns),
                ("exitBarT", times.exit_barrier_ns),
                ("exitT", times.exit_ns),
            ]
        };
        let mut columns = vec![Column::Number("TID"), Column::Number("execT"), Column::Number("execC")];
        let of_kind = phases(&row.sum).into_iter().filter(|(_, phase)| phase.is_some());
        columns.extend(of_kind.map(|(name, _)| Column::Number(name)));
        let mut rows = Rows::new(&columns, false);
        let time = |ns_of: u64| format!("{:.3}", ns_of as f64 / ns);
        let mut push = |thread: String, times: &RegionTimes| {
            let of_phases = phases(times).into_iter().filter_map(|(_, phase)| phase.map(time));
            rows.push([thread, time(times.exec_ns), count(times.count)].into_iter().chain(of_phases).collect());
        };
        row.threads.iter().for_each(|(thread, times)| push(thread.to_string(), times));
        push("SUM".to_owned(), &row.sum);
        rows.write(out, 2)?;
        told(out, (&row.accesses, &row.samples), report)?;
    }
    let hidden = process.regions.len().saturating_sub(most);
    if hidden > 0 {
        writeln!(out, "\n{DIM}{} more (--rows){DIM:#}", plural(hidden as u64, "region"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use slimline_regions::{Place, Profile};

    use super::super::a_run::unstyled;
    use super::*;
    use crate::regions::a_profile::{MS, profile, sampled, traced};

    fn text(report: &RegionsReport, most: usize) -> String {
        let mut out = String::new();
        regions(&mut out, report, most).unwrap();
        unstyled(&out)
    }

    #[test]
    fn a_small_report() {
        let report = RegionsReport::new(vec![profile()], vec!["process 43: a profile that is cut off".to_owned()]);
        insta::assert_snapshot!(text(&report, 10));
        insta::assert_snapshot!(report.csv());
        let process = &report.processes[0];
        // Work: 20 of 100 ms serial, 20 in the marked region, which is serial too; 108 of two threads in parallel.
        assert_eq!((process.speed_up.parallel_ns, process.speed_up.work_ns), (60 * MS, 108 * MS));
        assert!((process.speed_up.now - 1.48).abs() < 1e-9);
        assert!((process.speed_up.without_overhead - 148.0 / 94.0).abs() < 1e-9);
        assert!((process.speed_up.limit.unwrap() - 3.7).abs() < 1e-9);
        // All of two threads' time: a marked region, a parallel one, loops, and the rest.
        let shares: f64 = process.regions.iter().map(|row| row.share).sum();
        assert!((shares + process.outside_ns as f64 / (200 * MS) as f64 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_small_report_of_a_traced_run() {
        let report = traced(profile());
        insta::assert_snapshot!(text(&report, 10));
        insta::assert_snapshot!(report.csv());
        // Of other data the place with most cycles alone.
        assert!(text(&report, 1).contains("\n  1 more\n"), "{}", text(&report, 1));
    }

    #[test]
    fn a_small_report_of_a_sampled_run() {
        let report = sampled(profile());
        insta::assert_snapshot!(text(&report, 10));
        insta::assert_snapshot!(report.csv());
        // All samples are told once.
        let process = &report.processes[0];
        let in_regions = process.regions.iter().flat_map(|row| &row.exclusive_samples);
        let all: u64 = in_regions.chain(&process.outside_samples).map(|of| of.sum.samples).sum();
        assert_eq!(all, report.sampled.as_ref().unwrap().samples);
    }

    #[test]
    fn a_few_rows() {
        let said = text(&RegionsReport::new(vec![profile()], Vec::new()), 1);
        assert!(said.contains("2 more") && said.contains("2 regions more (--rows)"), "{said}");
    }

    #[test]
    fn two_runs() {
        let then = RegionsReport::new(vec![profile()], Vec::new());
        let mut later = profile();
        // The loop has moved, and is faster; the marked region is gone, and there is a new one.
        later.code.iter_mut().filter(|code| code.line == 12).for_each(|code| code.line = 20);
        later.nodes[0].region.place = Place::Name("map input".into());
        later.rows.iter_mut().filter(|row| row.path.0 > 2).for_each(|row| row.times.inclusive_ns[1] /= 2);
        later.duration_ns = 50 * MS;
        let report = RegionsReport::new(vec![later, Profile { process: 77, ..Profile::default() }], Vec::new());
        insta::assert_snapshot!(text(&report.against(&then), 10).split("Process 42 /").next().unwrap());
    }

    #[test]
    fn what_is_lost_is_told() {
        let lossy = Profile {
            lost_regions: 3,
            lost_threads: 1,
            unknown_unwatches: 2,
            unknown_ends: 1,
            cost: None,
            ..profile()
        };
        let said = text(&RegionsReport::new(vec![lossy], Vec::new()), 10);
        assert_eq!(said.matches("Missing: process 42: ").count(), 5, "{said}");
    }
}
