//! Which data to place in a faster memory, as text, with the code of split buffers.

use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::full_trace::more;
use super::number::{bytes, count, percent};
use super::simulation::{access_trace, data_name};
use super::table::{Column, Rows};
use super::{HEADING, STRONG};
use crate::placement::{ChoiceRow, PlaceableRow, PlacedRow, PlacementReport};

/// What data is called in a table.
const NAME_COLUMNS: usize = 40;
/// Splits that save less of the cycles are not worth writing.
const WORTH_CODE: f64 = 0.001;
/// Of the hottest data's name within a row's words.
const HOTTEST_COLUMNS: usize = 24;

/// Writes the report; of so much data.
///
/// # Errors
/// As `out`.
pub fn placement(out: &mut impl Write, report: &PlacementReport, most: usize) -> fmt::Result {
    access_trace(out, &report.trace)?;
    let memory = plain(&report.memory);
    writeln!(
        out,
        "{}, simulated: {} cycles with nothing in {memory}, which has room for {}",
        plain(&report.machine),
        count(report.cycles),
        bytes(report.room_bytes)
    )?;
    if report.in_all.lines == 0 {
        return writeln!(out, "No line came from a memory that is slower than {memory}: nothing to place");
    }
    writeln!(out, "\n{HEADING}What living in {memory} would save{HEADING:#}")?;
    let mut rows = Rows::new(
        &[
            Column::Shortened("data", NAME_COLUMNS),
            Column::Text("kind"),
            Column::Number("needs"),
            Column::Number("lines"),
            Column::Number("of cycles"),
        ],
        false,
    );
    for row in report.data.iter().take(most) {
        rows.push(vec![
            data_name(row.name.as_deref(), &row.data),
            kind(row),
            bytes(row.bytes),
            count(row.saved.lines),
            percent(row.saved.share.saved_share),
        ]);
    }
    if report.not_placeable.lines > 0 {
        let saved = &report.not_placeable;
        let cells = ["(not placeable)", "", "?", &count(saved.lines), &percent(saved.share.saved_share)];
        rows.push(cells.map(str::to_owned).to_vec());
    }
    rows.write(out, 2)?;
    more(out, report.data.len(), most)?;
    choices(out, report)?;
    best(out, report, &memory)
}

/// What it is, or of how many blocks.
pub(crate) fn kind(row: &PlaceableRow) -> String {
    if row.divisible { row.data.kind.to_owned() } else { format!("{} blocks", count(row.data.blocks)) }
}

/// Ways of choosing that say something new, each in words.
pub(crate) fn worded_choices(report: &PlacementReport) -> Vec<(String, &ChoiceRow)> {
    let hottest = report.data.first().map_or_else(String::new, |row| {
        let name = row.name.as_deref().map_or_else(|| data_name(None, &row.data), plain);
        super::table::shorten(&name, HOTTEST_COLUMNS)
    });
    // What fits is placed whole by all four ways of placing the hottest: one row is enough.
    let fits_whole = report.data.first().is_some_and(|row| row.bytes <= report.room_bytes);
    let told = report.choices.iter().filter(|of| !fits_whole || !["last", "coldest", "hottest"].contains(&of.choice));
    let worded = told.map(|choice| {
        let words = match choice.choice {
            "biggest" => "the biggest data first".to_owned(),
            "whole" => "whole data, hottest first".to_owned(),
            "first" if fits_whole => format!("all of {hottest}"),
            "first" => format!("the first bytes of {hottest}"),
            "last" => format!("the last bytes of {hottest}"),
            "coldest" => format!("the coldest window of {hottest}"),
            "hottest" => format!("the hottest window of {hottest}"),
            _ => "the best that was found".to_owned(),
        };
        (words, choice)
    });
    worded.collect()
}

fn choices(out: &mut impl Write, report: &PlacementReport) -> fmt::Result {
    writeln!(out, "\n{HEADING}What each way of choosing would save{HEADING:#}")?;
    let columns = [
        Column::Text("placed"),
        Column::Number("room"),
        Column::Number("lines"),
        Column::Number("cycles"),
        Column::Number("of all"),
    ];
    let mut rows = Rows::new(&columns, false);
    for (words, choice) in worded_choices(report) {
        let cells = match &choice.placed {
            None => [words, "does not fit".to_owned(), "0".to_owned(), "0".to_owned(), "0".to_owned()],
            Some(_) => [
                words,
                bytes(choice.bytes),
                count(choice.saved.lines),
                less(choice.saved.share.saved_cycles, count),
                less(choice.saved.share.saved_share, percent),
            ],
        };
        rows.push(cells.to_vec());
    }
    rows.write(out, 2)?;
    writeln!(out, "  {}", at_most(report))
}

/// What no choice exceeds.
pub(crate) fn at_most(report: &PlacementReport) -> String {
    let most = percent(report.at_most.saved_share);
    format!("No choice of at most one range of each, cut at such parts, saves more than {most} of the cycles.")
}

/// With a minus before what is not nothing.
pub(crate) fn less<T: PartialEq + Default + Copy>(saved: T, words: impl Fn(T) -> String) -> String {
    let words = words(saved);
    if saved == T::default() { words } else { format!("−{words}") }
}

fn best(out: &mut impl Write, report: &PlacementReport, memory: &str) -> fmt::Result {
    writeln!(out, "\n{HEADING}The best: place in {memory}{HEADING:#}")?;
    let split: Vec<(&PlacedRow, &PlaceableRow)> =
        report.best().iter().map(|placed| (placed, &report.data[placed.data])).collect();
    if split.is_empty() {
        return writeln!(out, "  Nothing fits");
    }
    for (placed, row) in split {
        let name = data_name(row.name.as_deref(), &row.data);
        writeln!(out, "  {STRONG}{name}{STRONG:#}: {}", placed_words(placed, row))?;
        if let Some(code) = code(placed, row, memory) {
            writeln!(out)?;
            code.lines().try_for_each(|line| writeln!(out, "      {line}"))?;
            writeln!(out)?;
        }
    }
    Ok(())
}

/// What of it is placed, and what that saves.
pub(crate) fn placed_words(placed: &PlacedRow, row: &PlaceableRow) -> String {
    let saves = percent(placed.saved.share.saved_share);
    match is_whole(placed, row) {
        true => format!("all of it, {} (−{saves})", bytes(row.bytes)),
        false => format!(
            "bytes {} to {} of {}: {} (−{saves})",
            count(placed.start),
            count(placed.end),
            count(row.bytes),
            bytes(placed.end - placed.start)
        ),
    }
}

fn is_whole(placed: &PlacedRow, row: &PlaceableRow) -> bool {
    (placed.start, placed.end) == (0, row.bytes)
}

/// As in the paper's Figure 6: one buffer for each memory, and a walk over all without a branch for each element. None where it is not worth
/// writing, or nothing is to be written.
pub(crate) fn code(placed: &PlacedRow, row: &PlaceableRow, memory: &str) -> Option<String> {
    if is_whole(placed, row) || row.data.kind != "heap" || placed.saved.share.saved_share < WORTH_CODE {
        return None;
    }
    let element = row.data.type_name.as_deref().map_or_else(|| "char".to_owned(), plain);
    let pieces = [(0, placed.start, false), (placed.start, placed.end, true), (placed.end, row.bytes, false)];
    let pieces: Vec<_> = pieces.into_iter().filter(|(start, end, _)| start < end).collect();
    let n = pieces.len();
    let mut lines = vec![
        format!("{element} *piece[{n}];   // in C with struct, where it is one"),
        format!("size_t size = sizeof *piece[0], elements[{n}] = {{"),
    ];
    lines.extend(pieces.iter().map(|(start, end, _)| format!("    {end} / size - {start} / size,")));
    lines.push("};".to_owned());
    for (number, (.., is_fast)) in pieces.iter().enumerate() {
        let (allocate, note) = match is_fast {
            true => ("fast_malloc", format!("   // what allocates in {memory}")),
            false => ("malloc", String::new()),
        };
        lines.push(format!("piece[{number}] = {allocate}(elements[{number}] * size);{note}"));
    }
    lines.extend([
        "// all elements, without a branch for each".to_owned(),
        format!("for (int p = 0; p < {n}; p++)"),
        "    for (size_t i = 0; i < elements[p]; i++)".to_owned(),
        "        use(piece[p][i]);".to_owned(),
        "// element i, where it is not a walk:".to_owned(),
    ]);
    let mut at = "i".to_owned();
    for number in 0..n - 1 {
        lines.push(format!("//   {at} < elements[{number}] ? piece[{number}][{at}] :"));
        at = format!("{at} - elements[{number}]");
    }
    lines.push(format!("//   piece[{}][{at}]", n - 1));
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::Consumer as _;
    use slimline_simulate::machine::Machine;
    use slimline_simulate::simulation::{Options, Simulation};

    use super::super::a_run;
    use super::*;

    #[test]
    fn a_small_report() {
        let machine = r#"
            name = "with a scratchpad"
            cores = 2
            cache = [{ name = "L1", level = 1, size = 256, line = 64, ways = 2, latency = 2 }]
            memory = [
                { name = "main", cores = "all", latency = 200 },
                { name = "pad", size = 256, latency = 20 },
            ]
        "#;
        let mut simulation = Simulation::new(&Machine::parse(machine).unwrap(), &Options::default()).unwrap();
        simulation.take(&a_run::in_parts(a_run::accesses()));
        let outcome = simulation.finish();
        let report = PlacementReport::new(a_run::trace(), &outcome, (&a_run::origins_in_parts(), &[]), 1, 256);
        let mut out = String::new();
        placement(&mut out, &report, 2).unwrap();
        insta::assert_snapshot!(a_run::unstyled(&out));
        let of_data: u64 = report.data.iter().map(|row| row.saved.lines).sum();
        assert_eq!(of_data + report.not_placeable.lines, report.in_all.lines);

        let nothing = PlacementReport::new(a_run::trace(), &outcome, (&a_run::origins_in_parts(), &[]), 0, 256);
        let mut out = String::new();
        placement(&mut out, &nothing, 2).unwrap();
        assert!(out.ends_with("slower than main: nothing to place\n"), "{out}");
    }
}
