//! In which order objects should lie, as text.

use std::fmt::{self, Write};

use slimline_analyze::object_layout::{Arrangement, WORTH_IT};
use slimline_trace::escape::plain;

use super::full_trace::more;
use super::number::{bytes, count, percent, plural, plural_of};
use super::simulation::access_trace;
use super::table::{Column, Rows};
use super::{HEADING, file_name, fold, shorten_end};
use crate::layout::LayoutReport;

/// What an order is called for people.
const ORDERS: [(&str, &str); 7] = [
    ("original", "as it was"),
    ("allocated", "as allocated"),
    ("first_access", "by first access"),
    ("breadth_first", "breadth first"),
    ("random", "random"),
    ("hierarchical", "hierarchical"),
    ("other_run", "other run's"),
];
/// Where something was allocated.
const PLACE_COLUMNS: usize = 40;

/// Writes the report; of so many types.
///
/// # Errors
/// As `out`.
pub fn layout(out: &mut impl Write, report: &LayoutReport, most: usize) -> fmt::Result {
    access_trace(out, &report.trace)?;
    writeln!(
        out,
        "{} of {} are to {} of the heap, {} in all",
        plural_of(report.object_accesses, "access", "accesses"),
        count(report.accesses),
        plural(report.objects, "object"),
        bytes(report.object_bytes)
    )?;
    if report.beside_accesses > 0 {
        let beside = plural_of(report.beside_accesses, "access", "accesses");
        writeln!(out, "{beside} to memory among them that is none's (the allocator's own) are left out of orders")?;
    }
    if report.reusing > 0 {
        writeln!(out, "{} had memory that others had had before", plural(report.reusing, "object"))?;
    }
    if report.verdict.verdict == "no_neighbours" {
        return writeln!(out, "No two objects are accessed next to each other: no order is better than another");
    }
    types(out, report, most)?;
    write!(out, "\n{HEADING}Access graph{HEADING:#}: {}, window {}", plural(report.edges, "edge"), report.window)?;
    writeln!(out, ", seed {}", report.seed)?;
    for (level, row) in report.levels.iter().enumerate() {
        writeln!(out, "  level {}: {}, modularity {:.3}", level + 1, communities(row.communities), row.modularity)?;
    }
    if report.levels.is_empty() {
        writeln!(out, "  No two objects belong together more than chance lets expect")?;
    }
    if report.inexact > 0 {
        writeln!(out, "  {} of a level are ordered less exactly than they could be", plural(report.inexact, "group"))?;
    }
    orders(out, report)?;
    larger(out, report)?;
    verdict(out, report)
}

pub(super) fn communities(number: u64) -> String {
    if number == 1 { "1 community".to_owned() } else { format!("{} communities", count(number)) }
}

fn types(out: &mut impl Write, report: &LayoutReport, most: usize) -> fmt::Result {
    writeln!(out, "\n{HEADING}Objects{HEADING:#}")?;
    let columns = [
        Column::Shortened("type", PLACE_COLUMNS),
        Column::Shortened("allocated at", PLACE_COLUMNS),
        Column::Number("objects"),
        Column::Number("bytes"),
    ];
    let mut rows = Rows::new(&columns, false);
    for row in report.types.iter().take(most) {
        let file = row.file.as_deref().map(file_name);
        let place = match (file, row.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            _ => row.function.as_deref().map(plain).unwrap_or_default(),
        };
        let name = row.type_name.as_deref().map_or_else(|| "(not known)".to_owned(), plain);
        rows.push(vec![name, place, count(row.objects), bytes(row.bytes)]);
    }
    rows.write(out, 2)?;
    more(out, report.types.len(), most)
}

fn orders(out: &mut impl Write, report: &LayoutReport) -> fmt::Result {
    let machine = shorten_end(&plain(&report.machine), PLACE_COLUMNS);
    writeln!(
        out,
        "\n{HEADING}Orders, replayed through {machine}{HEADING:#}: misses and cycles by those of the original"
    )?;
    let mut columns =
        vec![Column::Text("order"), Column::Number("distance"), Column::Number("new line"), Column::Number("new page")];
    columns.extend(report.orders[0].caches.iter().map(|cache| Column::Number(&cache.name)));
    columns.push(Column::Number("cycles"));
    let mut rows = Rows::new(&columns, false);
    for row in &report.orders {
        let mut cells = vec![
            name(row.order).to_owned(),
            format!("{:.1}", row.mean_distance),
            percent(row.to_another_line),
            percent(row.to_another_page),
        ];
        let ratio = |ratio: Option<f64>| ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"));
        cells.extend(row.caches.iter().map(|cache| ratio(cache.ratio)));
        cells.push(format!("{:.3}", row.cycles_ratio));
        rows.push(cells);
    }
    rows.write(out, 2)?;
    if let Some(other) = &report.other_run {
        let words = format!(
            "other run's: the hierarchical order of {}, of which {} of this one's {} are known again, {}",
            plain(&other.trace),
            count(other.known),
            plural(report.objects, "object"),
            other.by.as_deref().map_or_else(
                || "by line and number of allocation".to_owned(),
                |by| format!("by {}", plain(&by.join(" and ")))
            )
        );
        fold(out, &words, 2, 2)?;
    }
    writeln!(out, "  distance: places from one object to a near one, on average; 1 is side by side")
}

fn larger(out: &mut impl Write, report: &LayoutReport) -> fmt::Result {
    if report.larger.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{HEADING}Larger objects{HEADING:#}: cycles of the hierarchical order by those of the order of allocation"
    )?;
    let mut rows = Rows::new(&[Column::Number("larger by"), Column::Number("cycles")], false);
    for row in &report.larger {
        rows.push(vec![bytes(row.larger_by), format!("{:.3}", row.cycles_ratio)]);
    }
    rows.write(out, 2)
}

pub(crate) fn name(order: &str) -> &str {
    ORDERS.iter().find(|(known, _)| *known == order).map_or(order, |(_, name)| name)
}

fn verdict(out: &mut impl Write, report: &LayoutReport) -> fmt::Result {
    writeln!(out)?;
    let (Some(order), Some(saved), Some(of_allocated)) =
        (report.verdict.order, report.verdict.saved, report.verdict.saved_of_allocated)
    else {
        let least = percent(WORTH_IT);
        let leave = format!(
            "No order saves {least} of the cycles, or more than that of allocation does: leave objects where they are"
        );
        return fold(out, &leave, 0, 0);
    };
    let saved = percent(saved);
    if order == Arrangement::Allocated.name() {
        let reusing = format!(
            "Objects in the order of allocation that reuse no memory would save {saved} of the cycles; no other order saves 2 % more than that"
        );
        return fold(out, &reusing, 0, 0);
    }
    let mut words = format!(
        "Objects in the {} order would save {saved} of the cycles, {} of those in the order of allocation.",
        name(order),
        percent(of_allocated)
    );
    if order != Arrangement::Random.name() {
        words.push_str(" An upper bound for other runs: the order is made of the one that it is judged by.");
    }
    let hierarchical = Arrangement::Hierarchical.name();
    if let Some(row) = report.order(hierarchical).filter(|_| order != hierarchical) {
        words += &format!(
            " --order writes the hierarchical one, which takes {:.3} of the original cycles.",
            row.cycles_ratio
        );
    }
    fold(out, &words, 0, 0)
}

#[cfg(test)]
mod tests {
    use slimline_analyze::full_trace::objects::{Object, ObjectOrigin};
    use slimline_analyze::object_layout::{Arranged, Known, Slots, arrangements};
    use slimline_layout::graph::GraphBuilder;
    use slimline_layout::order::Hierarchical;
    use slimline_simulate::access::{Access, AccessKind, Consumer as _, Work};
    use slimline_simulate::relocated::Relocated;
    use slimline_simulate::simulation::{Options, Simulation};

    use super::super::a_run;
    use super::*;
    use crate::layout::{GraphFacts, LargerRow, LevelRow, write_order};

    /// 64 nodes of 24 bytes, every other one of which is accessed in turn, and then the others.
    #[test]
    fn a_small_report() {
        let objects: Vec<Object> = (0..64_u32)
            .map(|number| Object {
                process: 0,
                start: 0x1000 + 32 * u64::from(number % 2 * 32 + number / 2),
                bytes: 24,
                sequence: number + 1,
                ordinal: number + 1,
                origin: 1,
                index: None,
            })
            .collect();
        let mut node = ObjectOrigin { type_name: "node".to_owned(), ..ObjectOrigin::default() };
        (node.allocated_at.file, node.allocated_at.line) = ("/src/list.c".to_owned(), 12);
        let origins = [ObjectOrigin::default(), node];
        let trace: Vec<u32> = (0..10).flat_map(|_| 0..64).collect();
        let mut graph = GraphBuilder::new(2);
        trace.iter().for_each(|&object| graph.access(0, object));
        let graph = graph.finish();
        let hierarchical = Hierarchical::of(&graph, 1);
        let first: Vec<u32> = (0..64).collect();
        let known = Known {
            graph: &graph,
            first_accesses: &first,
            hierarchical: &hierarchical,
            slots: &Slots::default(),
            other_run: &[],
            seed: 1,
        };
        let all = arrangements(&objects, known, &Arrangement::ALL, 0).unwrap();
        let access = |&key: &u32| {
            let address = objects[key as usize].start + 8;
            Access { address, key, bytes: 8, thread: 0, kind: AccessKind::Load, work: Work::USUAL }
        };
        let accesses: Vec<Access> = trace.iter().map(access).collect();
        let machine = a_run::machine();
        let replay = |arranged: &Arranged| {
            let simulation = Simulation::new(&machine, &Options::default()).unwrap();
            let mut relocated = Relocated::new(simulation, &arranged.moves);
            relocated.take(&accesses);
            let (simulation, steps) = relocated.finish();
            (simulation.finish(), steps)
        };
        let replayed = all.iter().map(|arranged| (arranged, replay(arranged)));
        let replayed: Vec<_> = replayed.map(|(arranged, (outcome, steps))| (arranged, outcome, steps)).collect();
        let facts = GraphFacts {
            window: 2,
            seed: 1,
            edges: graph.edge_count() as u64,
            weight: graph.weight(),
            levels: vec![LevelRow { communities: 8, modularity: 0.75 }],
            inexact: 0,
            other_run: None,
            larger: vec![LargerRow { larger_by: 64, cycles_ratio: 0.875 }],
        };
        let report = LayoutReport::new(a_run::trace(), (&objects, &origins), facts.clone(), &replayed);
        let mut out = String::new();
        layout(&mut out, &report, 5).unwrap();
        insta::assert_snapshot!(a_run::unstyled(&out));
        let mut csv = Vec::new();
        write_order(&mut csv, (&objects[..2], &origins), &[1, 0], &[vec![3, 4]]).unwrap();
        insta::assert_snapshot!("order_csv", String::from_utf8(csv).unwrap());
        let none = LayoutReport::new(
            a_run::trace(),
            (&objects, &origins),
            GraphFacts { edges: 0, weight: 0, levels: Vec::new(), ..facts },
            &replayed[..1],
        );
        assert_eq!(none.verdict.verdict, "no_neighbours");
        let mut out = String::new();
        layout(&mut out, &none, 5).unwrap();
        assert!(out.ends_with("no order is better than another\n"), "{out}");
    }
}
