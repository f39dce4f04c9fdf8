//! Regions within regions, as a tree whose branches can be closed.

use std::fmt::{self, Write};

use super::{id, region_of, whole_place};
use crate::html::page::Escaped;
use crate::regions::{PathRow, RegionsProcess};
use crate::text::number::{count, duration};
use crate::text::region_place;

/// Columns beside the names.
const COLUMNS: [&str; 3] = ["executed", "with what is in it", "without"];

/// Nothing where no region is in another one.
pub(super) fn tree(out: &mut impl Write, process: &RegionsProcess, place: usize) -> fmt::Result {
    let rows = &process.call_graph;
    if rows.iter().all(|row| row.depth == 0) {
        return Ok(());
    }
    writeln!(out, "<h3>Regions within regions</h3>\n<div class=\"tree\">")?;
    // Each number says what it is to those who do not see what it is below.
    write!(out, "<div class=\"line heads\" aria-hidden=\"true\"><span class=\"what\">region</span>")?;
    COLUMNS.iter().try_for_each(|name| write!(out, "<span class=\"of\">{name}</span>"))?;
    writeln!(out, "</div>\n<ul>")?;
    for (number, row) in rows.iter().enumerate() {
        // Parents come before their children: a row that is deeper is within the one before.
        let deeper = rows.get(number + 1).map_or(0, |next| next.depth);
        let is_parent = deeper > row.depth;
        node(out, process, place, row, is_parent)?;
        if !is_parent {
            writeln!(out, "</li>")?;
            (deeper..row.depth).try_for_each(|_| writeln!(out, "</ul></details></li>"))?;
        }
    }
    writeln!(out, "</ul>\n</div>")
}

/// Begins what is of a region: with children up to where they begin.
fn node(out: &mut impl Write, process: &RegionsProcess, place: usize, row: &PathRow, is_parent: bool) -> fmt::Result {
    let PathRow { region, count: executed, exec_ns, exclusive_ns, .. } = *row;
    let (kind, at, whole) = match region_of(process, region) {
        Some(row) => (row.at.kind, region_place(&row.at), whole_place(&row.at)),
        None => ("", String::new(), String::new()),
    };
    let [executed_column, with, without] = COLUMNS;
    let line = format!(
        "<span class=\"what\" title=\"{}\">R{region} {kind} {}</span>\
         <span class=\"of\"><span class=\"unseen\">{executed_column} </span>{}</span>\
         <span class=\"of\" title=\"{} ns\"><span class=\"unseen\">{with} </span>{}</span>\
         <span class=\"of\" title=\"{} ns\"><span class=\"unseen\">{without} </span>{}</span>",
        Escaped(&whole),
        Escaped(&at),
        count(executed),
        count(exec_ns),
        duration(exec_ns),
        count(exclusive_ns),
        duration(exclusive_ns)
    );
    // Beside the line, not in it: what opens and closes can't hold links.
    write!(out, "<li class=\"node\"><a href=\"#{}\" title=\"to its table\">R{region}</a>", id(place, region))?;
    if is_parent {
        writeln!(out, "<details open><summary class=\"line\">{line}</summary><ul>")
    } else {
        write!(out, "<div class=\"line leaf\">{line}</div>")
    }
}
