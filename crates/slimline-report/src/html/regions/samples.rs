//! What samples tell, by data and thread.

use std::fmt::{self, Write};

use crate::html::table::{Cell, Column, Table};
use crate::regions::{DataSamples, Estimated, SampledCounts, SampledData};
use crate::text::number::{RANGE, range};
use crate::text::{estimated, weight};

pub(super) fn samples(out: &mut impl Write, caption: &str, all: &[DataSamples], data: &SampledData) -> fmt::Result {
    let columns = [
        Column::Text("TID"),
        Column::Number("samples"),
        Column::Number(data.noun),
        Column::Number(RANGE),
        Column::Number("accesses"),
        Column::Number(RANGE),
        Column::Number("~loads"),
        Column::Number(RANGE),
        Column::Number("~stores"),
        Column::Number(RANGE),
    ];
    let mut table = Table::new(caption, &columns);
    for of in all {
        table.group(data.name(of.chosen));
        for (thread, counts) in &of.threads {
            let thread = thread.map_or_else(Cell::nothing, |thread| Cell::number(&thread.to_string(), thread));
            table.row(&cells(data, thread, counts));
        }
        table.last(&cells(data, Cell::text("SUM"), &of.sum));
    }
    table.write(out)
}

/// Ranges are sorted by where they begin.
fn cells(data: &SampledData, thread: Cell, counts: &SampledCounts) -> Vec<Cell> {
    let SampledCounts { samples, weight: own, access_share, access_share_interval, loads, stores, .. } = counts;
    let Estimated { value, low, high } = *own;
    let ends = format!("{}–{}", weight(data, low), weight(data, high));
    let mut cells = vec![
        thread,
        Cell::count(*samples),
        Cell::number(&weight(data, value), value),
        Cell::number(&ends, low),
        Cell::share(*access_share),
        Cell::number(&range(*access_share_interval), access_share_interval.low),
    ];
    for estimate in [loads, stores] {
        cells.extend(match estimate {
            Some(of) => {
                let [value, range] = estimated(of);
                [Cell::number(&value, of.value), Cell::number(&range, of.low)]
            }
            None => [Cell::nothing(), Cell::nothing()],
        });
    }
    cells
}
