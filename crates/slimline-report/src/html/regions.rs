//! OpenMP regions as a page.

mod accesses;
mod one_region;
mod process;
mod samples;
mod tree;

use std::fmt::{self, Write};

use slimline_trace::escape::command_line;

use super::page::{self, Escaped};
use super::table::{Cell, Column, Table};
use crate::regions::{
    ChosenBy, ChosenRow, ComparedProcess, ComparedRegion, ComparedTimes, Comparison, DataAccesses, DataSamples,
    RegionPlace, RegionRow, RegionsProcess, RegionsReport,
};
use crate::text::number::plural_of;
use crate::text::{compared_run, ended, region_place, region_title, sampled_words};

/// What columns and classes are called, and what they are.
const TERMS: [(&str, &str); 10] = [
    ("execT, execC", "all of a region with the regions within; how often its body was executed"),
    ("bodyT", "its body, with the regions within"),
    ("enterT, exitT", "getting in and out: starting and ending the team, waiting for a critical section"),
    ("exitBarT", "waiting at the barrier at its end"),
    ("Overhead", "all four below, as a share of the time of the region's threads"),
    ("Synchronization", "waiting for critical sections, at barriers and for tasks"),
    ("Imbalance", "waiting at the end of what is shared"),
    ("Limited parallelism", "no work for this thread: single, few sections"),
    ("Management", "starting and ending teams and tasks"),
    ("TID", "number of the thread in the order in which they met OpenMP; 0 is the initial one"),
];

/// Writes the page, with all regions.
///
/// # Errors
/// As `out`.
pub fn regions(out: &mut impl Write, report: &RegionsReport) -> fmt::Result {
    let command = command_line(&report.command);
    if command.is_empty() {
        page::begin(out, "Regions", "")?;
        writeln!(out, "<main>\n<header>\n<h1>Regions</h1>")?;
    } else {
        page::begin(out, &format!("Regions of {command}"), "")?;
        writeln!(out, "<main>\n<header>\n<h1>Regions of <code>{}</code></h1>", Escaped(&command))?;
    }
    if let Some(end) = &report.ended {
        writeln!(out, "<p class=\"ended\">{}</p>", Escaped(&ended(end)))?;
    }
    writeln!(out, "</header>")?;
    missing(out, &report.missing)?;
    filter(out, report)?;
    if let Some(comparison) = &report.against {
        compared(out, comparison)?;
    }
    if let Some(data) = &report.data {
        let words = format!("Accesses to memory, each told apart; misses and cycles of {}.", data.machine);
        chosen(out, &words, &data.chosen)?;
    }
    if let Some(data) = &report.sampled {
        chosen(out, &sampled_words(data), &data.chosen)?;
    }
    if report.processes.is_empty() {
        writeln!(out, "<p>No process met a region.</p>")?;
    }
    for (place, process) in report.processes.iter().enumerate() {
        process::process(out, process, place, report)?;
    }
    writeln!(out, "<section>\n<h2>What is what</h2>\n<dl class=\"terms\">")?;
    for (term, means) in TERMS {
        writeln!(out, "<dt>{term}</dt><dd>{means}</dd>")?;
    }
    writeln!(out, "</dl>\n</section>\n</main>")?;
    page::end(out)
}

fn missing(out: &mut impl Write, missing: &[String]) -> fmt::Result {
    if missing.is_empty() {
        return Ok(());
    }
    writeln!(out, "<section class=\"missing\">\n<h2>Missing</h2>\n<ul>")?;
    for what in missing {
        writeln!(out, "<li>{}</li>", Escaped(what))?;
    }
    writeln!(out, "</ul>\n</section>")
}

/// Hidden until the script is there that it needs.
fn filter(out: &mut impl Write, report: &RegionsReport) -> fmt::Result {
    if report.processes.iter().all(|process| process.regions.is_empty()) {
        return Ok(());
    }
    writeln!(
        out,
        "<form id=\"filter\" role=\"search\" hidden><label>Regions with <input type=\"search\" placeholder=\"loop main.c\"></label> \
         <output aria-live=\"polite\"></output></form>"
    )
}

/// The data whose accesses are told, and how.
fn chosen(out: &mut impl Write, how: &str, chosen: &[ChosenRow]) -> fmt::Result {
    writeln!(out, "<section>\n<h2>Data</h2>\n<p>{}</p>", Escaped(how))?;
    if !chosen.is_empty() {
        let columns = [
            Column::Text("data"),
            Column::Text("from"),
            Column::Text("to"),
            Column::Number("bytes"),
            Column::Number("off at start"),
            Column::Number("off at end"),
            Column::Text("is"),
        ];
        let mut table = Table::new("Chosen data", &columns);
        for row in chosen {
            let address = |address: &Option<String>| address.as_deref().map_or_else(Cell::nothing, Cell::text);
            let of = if row.of.is_empty() { "not accessed".to_owned() } else { row.of.join(", ") };
            let of = match row.by {
                ChosenBy::Program => format!("watched by process {}: {of}", row.pid.unwrap_or(0)),
                ChosenBy::Name | ChosenBy::Address => of,
            };
            table.row(&[
                Cell::text(&row.name).titled(&row.name),
                address(&row.start),
                address(&row.end),
                row.bytes.map_or_else(Cell::nothing, Cell::count),
                Cell::count(row.start_imprecision),
                Cell::count(row.end_imprecision),
                Cell::text(&of).titled(&of),
            ]);
        }
        table.write(out)?;
    }
    writeln!(out, "</section>")
}

fn compared(out: &mut impl Write, comparison: &Comparison) -> fmt::Result {
    let command = command_line(&comparison.command);
    writeln!(out, "<section>\n<h2>Against an earlier run of <code>{}</code></h2>", Escaped(&command))?;
    if comparison.unpaired > 0 {
        let processes = plural_of(comparison.unpaired as u64, "process", "processes");
        writeln!(out, "<p>{processes} that one run alone has: not compared.</p>")?;
    }
    for process in &comparison.processes {
        let ComparedProcess { pid, then, now, regions } = process;
        writeln!(out, "<h3>Process {pid}: speed-up {:.2}</h3>", process.speed_up())?;
        writeln!(out, "<p>Then {}; now {}.</p>", Escaped(&compared_run(then)), Escaped(&compared_run(now)))?;
        let columns = [
            Column::Text("region"),
            Column::Text("at"),
            Column::Number("executed then"),
            Column::Number("now"),
            Column::Number("longest thread then"),
            Column::Number("now"),
            Column::Number("speed-up"),
            Column::Number("all threads then"),
            Column::Number("now"),
        ];
        let caption = format!("Regions of process {pid}, then and now");
        let mut table = Table::new(&caption, &columns);
        for region in regions {
            let ComparedRegion { at, then, now } = region;
            let cell = |of: &Option<ComparedTimes>, cell: fn(&ComparedTimes) -> Cell| {
                of.as_ref().map_or_else(Cell::nothing, cell)
            };
            let faster =
                region.speed_up().map_or_else(Cell::nothing, |faster| Cell::number(&format!("{faster:.2}"), faster));
            let [executed, longest, all]: [fn(&ComparedTimes) -> Cell; 3] = [
                |times| Cell::count(times.count),
                |times| Cell::duration(times.longest_ns),
                |times| Cell::duration(times.exec_ns),
            ];
            table.row_of(
                &format!("{} {}", at.kind, sought(at)),
                &[
                    Cell::text(at.kind),
                    Cell::text(&region_place(at)).titled(&whole_place(at)),
                    cell(then, executed),
                    cell(now, executed),
                    cell(then, longest),
                    cell(now, longest),
                    faster,
                    cell(then, all),
                    cell(now, all),
                ],
            );
        }
        table.write(out)?;
    }
    writeln!(out, "</section>")
}

/// What is told of one place: accesses that were counted, or samples.
fn told(
    out: &mut impl Write,
    place: &str,
    (accesses, samples): (&[DataAccesses], &[DataSamples]),
    report: &RegionsReport,
) -> fmt::Result {
    if let Some(data) = report.data.as_ref().filter(|_| !accesses.is_empty()) {
        accesses::accesses(out, &format!("Accesses {place}"), accesses, data)?;
    }
    if let Some(data) = report.sampled.as_ref().filter(|_| !samples.is_empty()) {
        samples::samples(out, &format!("Samples {place}"), samples, data)?;
    }
    Ok(())
}

/// Identifier of what the page says of a region of the process at that place: processes of one number may be several.
fn id(process: usize, region: usize) -> String {
    format!("p{}-r{region}", process + 1)
}

/// What a region is found by.
fn found_by(row: &RegionRow) -> String {
    format!("{} {}", region_title(row), sought(&row.at))
}

fn sought(at: &RegionPlace) -> String {
    format!("{} {}", region_place(at), at.file.as_deref().unwrap_or_default())
}

/// Where a region is, with the whole path of its file.
fn whole_place(at: &RegionPlace) -> String {
    match &at.file {
        Some(file) if at.name.is_none() => format!("{} in {file}", region_place(at)),
        _ => region_place(at),
    }
}

fn region_of(process: &RegionsProcess, number: usize) -> Option<&RegionRow> {
    process.regions.iter().find(|region| region.number == number)
}

#[cfg(test)]
mod tests {
    use slimline_regions::{Place, Profile};

    use super::*;
    use crate::regions::a_profile::{MS, profile, sampled, traced};
    use crate::strict;

    fn html(report: &RegionsReport) -> String {
        let mut out = String::new();
        regions(&mut out, report).unwrap();
        page::without_style_and_script(&out)
    }

    /// Rows of the table of that caption, its head without.
    fn rows<'a>(page: &'a str, caption: &str) -> Vec<&'a str> {
        let (_, table) =
            page.split_once(&format!("<caption>{caption}</caption>")).unwrap_or_else(|| panic!("{caption}"));
        let (_, body) = table.split_once("<tbody>").unwrap();
        body.split_once("</table>").unwrap().0.lines().filter(|line| line.starts_with("<tr")).collect()
    }

    #[test]
    fn a_small_page() {
        let mut report = traced(profile());
        report.missing.push("process 43: a profile that is cut off".to_owned());
        insta::assert_snapshot!(html(&report));
    }

    #[test]
    fn tables_have_all_rows() {
        let page = html(&traced(profile()));
        // Each region, what is outside, and what counting took.
        assert_eq!(rows(&page, "Time of threads by region").len(), 3 + 2);
        // One parallel region, and the program.
        assert_eq!(rows(&page, "Time that is lost, as shares of thread time").len(), 1 + 1);
        assert_eq!(rows(&page, "Chosen data").len(), 2);
        assert_eq!(rows(&page, "R3 loop by thread, times in s").len(), 2 + 1);
        assert_eq!(rows(&page, "R1 user by thread, times in ms").len(), 1 + 1);
        // What it is of, both threads and their sum; of other data one thread.
        let accesses = rows(&page, "Accesses in R3 loop, with the regions within");
        assert_eq!(accesses.len(), (1 + 2 + 1) + (1 + 1 + 1));
        assert_eq!(rows(&page, "Accesses outside of regions").len(), 1 + 1 + 1);
        // The second thread misses L1 most, the first a quarter of that.
        assert!(accesses[1].contains("600<span class=\"of-most\" aria-hidden=\"true\"><span style=\"width:25.0%\">"));
        assert!(
            accesses[2].contains("2,400<span class=\"of-most\" aria-hidden=\"true\"><span style=\"width:100.0%\">")
        );
        assert_eq!(page.matches("<section class=\"region\"").count(), 3);
        assert_eq!(page.matches("<li class=\"node\">").count(), 3);
    }

    #[test]
    fn samples_have_a_table_for_each_region() {
        let page = html(&sampled(profile()));
        let in_loop = rows(&page, "Samples in R3 loop, with the regions within");
        // What it is of, both threads, their sum.
        assert_eq!(in_loop.len(), 1 + 2 + 1);
        assert!(in_loop[1].contains("59") && in_loop[1].contains(" M<"), "{in_loop:?}");
        assert_eq!(rows(&page, "Samples outside of regions").len(), 1 + 2 + 1);
        assert!(page.contains("Sampled: 120 samples for 480.0 ms of user time"));
    }

    #[test]
    fn shares_of_thread_time_sum_to_one() {
        let mut profile = profile();
        // Sixteen more regions than the bar has parts for.
        for number in 0..16 {
            let mut node = profile.nodes[0].clone();
            node.region.place = Place::Name(format!("part {number}").into());
            profile.nodes.push(node);
            let mut row = profile.rows[0];
            row.path.0 = profile.nodes.len() as u32;
            row.times.inclusive_ns[1] = MS;
            row.times.exclusive_ns[1] = MS;
            profile.rows.push(row);
        }
        let page = html(&RegionsReport::new(vec![profile], Vec::new()));
        let bar = page.split_once("<div class=\"stack large\"").unwrap().1.split_once("</div>").unwrap().0;
        let widths = bar.split("width:").skip(1).map(|part| part.split_once('%').unwrap().0.parse::<f64>().unwrap());
        assert!((widths.sum::<f64>() - 100.0).abs() < 0.05, "{bar}");
        assert!(bar.contains("9 more 4.5 %"), "{bar}");
        assert_eq!(rows(&page, "Time of threads by region").len(), 19 + 2);
    }

    #[test]
    fn two_runs() {
        let then = RegionsReport::new(vec![profile()], Vec::new());
        let mut later = profile();
        later.nodes[0].region.place = Place::Name("map input".into());
        later.duration_ns = 50 * MS;
        let report = RegionsReport::new(vec![later, Profile { process: 77, ..Profile::default() }], Vec::new());
        let page = html(&report.against(&then));
        assert!(
            page.contains("<h3>Process 42: speed-up 2.00</h3>") && page.contains("1 process that one run alone has")
        );
        // What is new, what is in both, and what is gone.
        assert_eq!(rows(&page, "Regions of process 42, then and now").len(), 1 + 2 + 1);
        assert!(page.contains("Process 77 met no region"));
    }

    #[test]
    fn names_of_programs_do_nothing() {
        let hostile = "</td></style></script><script>alert('1')</script>\" onmouseover=\"x\0\u{1b}[2J\u{202e}";
        let mut profile = profile();
        profile.nodes[0].region.place = Place::Name(hostile.into());
        profile.mappings[0].path = format!("/opt/{hostile}");
        profile.code.iter_mut().for_each(|code| {
            code.function = hostile.to_owned();
            code.file = format!("/src/{hostile}");
        });
        profile.run.as_mut().unwrap().command.push(hostile.to_owned());
        let mut report = traced(profile.clone());
        let data = report.data.as_mut().unwrap();
        data.machine = hostile.to_owned();
        data.caches[0] = hostile.to_owned();
        data.chosen[0].name = hostile.to_owned();
        data.chosen[0].start = Some(hostile.to_owned());
        data.chosen[0].of = vec![hostile.to_owned()];
        report.missing.push(hostile.to_owned());
        let page = html(&report.against(&RegionsReport::new(vec![profile], Vec::new())));
        strict::html(&page);
        assert!(page.matches("alert(").count() > 20, "{page}");
        assert_eq!((page.matches("<script>").count(), page.matches("</script>").count()), (1, 1), "{page}");
        assert!(!page.contains("onmouseover=\"") && !page.contains("'1'"), "{page}");
        assert!(!page.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'));
    }
}
