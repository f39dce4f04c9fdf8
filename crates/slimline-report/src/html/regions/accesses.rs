//! Accesses by data and thread.

use std::fmt::{self, Write};

use crate::html::bar;
use crate::html::table::{Cell, Column, Table};
use crate::regions::{AccessCounts, DataAccesses, RegionData};

pub(super) fn accesses(out: &mut impl Write, caption: &str, all: &[DataAccesses], data: &RegionData) -> fmt::Result {
    let names: Vec<String> = data.caches.iter().map(|cache| format!("{cache} misses")).collect();
    let is_far = all.iter().any(|of| of.sum.from_afar > 0);
    let mut columns =
        vec![Column::Text("TID"), Column::Number("loads"), Column::Number("stores"), Column::Number("bytes")];
    columns.extend(names.iter().map(|name| Column::Number(name)));
    columns.extend(is_far.then_some(Column::Number("from afar")));
    columns.push(Column::Number("cycles"));
    let mut table = Table::new(caption, &columns);
    for of in all {
        table.group(data.name(of.chosen));
        let cells = |thread: Cell, counts: &AccessCounts, beside: &dyn Fn(usize, u64) -> String| {
            let AccessCounts { loads, stores, bytes, misses, from_afar, cycles } = counts;
            let mut cells = vec![thread, Cell::count(*loads), Cell::count(*stores), Cell::bytes(*bytes)];
            let misses = misses.iter().enumerate();
            cells.extend(misses.map(|(cache, misses)| Cell::count(*misses).beside(&beside(cache, *misses))));
            cells.extend(is_far.then(|| Cell::count(*from_afar)));
            cells.push(Cell::count(*cycles));
            cells
        };
        let of_most = |cache: usize, misses: u64| {
            let all = of.threads.iter().filter_map(|(_, counts)| counts.misses.get(cache));
            bar::of_most(misses, all.copied().max().unwrap_or(0))
        };
        for (thread, counts) in &of.threads {
            let thread = thread.map_or_else(Cell::nothing, |thread| Cell::number(&thread.to_string(), thread));
            table.row(&cells(thread, counts, &of_most));
        }
        table.last(&cells(Cell::text("SUM"), &of.sum, &|_, _| String::new()));
    }
    table.write(out)
}
