//! The data structures as a table.

use std::fmt::{self, Write};

use super::Page;
use crate::html::bar;
use crate::html::table::{Cell, Column, Table};
use crate::text::number::{RANGE, bytes, count, plural, range};
use crate::text::{about, kind, origin, without_data};
use crate::view::{Group, Interval};

pub(super) fn groups(out: &mut impl Write, page: &Page<'_>) -> fmt::Result {
    let columns = [
        Column::Text("data"),
        Column::Number(page.cost),
        Column::Bar("95 % interval"),
        Column::Number(RANGE),
        Column::Text("kind"),
        Column::Number("bytes"),
        Column::Number("objects"),
        Column::Number("element"),
        Column::Text("allocated, declared"),
        Column::Text("type"),
    ];
    let caption = format!("Data structures by their share of the {}, with 95 % intervals", page.cost);
    let mut table = Table::searched(&caption, &columns);
    for group in &page.report.groups {
        let from = if group.id == 0 { without_data(&page.report.session.quality) } else { origin(group) };
        let number = |n: u64, shown: String| match n {
            0 => Cell::nothing(),
            n => Cell::number(&about(group, shown), n),
        };
        table.row(&[
            page.name_cell(group),
            Cell::share(group.share),
            Cell::bar(bar::interval(group.share, group.share_interval)),
            interval(group.share_interval),
            Cell::text(kind(group)),
            number(group.bytes, bytes(group.bytes)),
            number(group.blocks, count(group.blocks)),
            group.element_bytes.map_or_else(Cell::nothing, |n| Cell::number(&format!("{n} B"), n)),
            Cell::text(&from).titled(whole_origin(group).as_ref().unwrap_or(&from)),
            group.type_name.as_deref().map_or_else(Cell::nothing, Cell::long_text),
        ]);
    }
    table.write(out)?;
    let untold = page.report.groups.iter().filter(|group| group.id != 0 && !page.has_section(group)).count();
    if untold > 0 {
        let structures = plural(untold as u64, "structure");
        writeln!(
            out,
            "<p class=\"faint\">{structures} that cost little have no section below; the JSON report has them.</p>"
        )?;
    }
    Ok(())
}

/// Both ends as text, sorted by the lower one.
pub(super) fn interval(of: Interval) -> Cell {
    Cell::number(&format!("{} %", range(of)), of.low)
}

/// `bodies (heap)`
pub(super) fn name_and_kind(group: &Group) -> String {
    match kind(group) {
        "" => group.name.clone(),
        kind => format!("{} ({kind})", group.name),
    }
}

/// With the whole path of its file.
fn whole_origin(group: &Group) -> Option<String> {
    let place = group.allocated_at.as_ref();
    let at = |file: &str, line: u32| format!("{file}:{line}");
    match (place, &group.declared_at) {
        (Some(place), _) => Some(at(place.file.as_deref()?, place.line)),
        (None, Some(position)) => Some(at(&position.file, position.line)),
        (None, None) => None,
    }
}
