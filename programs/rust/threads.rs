//! A `Vec` of cells shared out to two threads or more, each of which updates two of a cell's five fields.
//!
//! truth:
//! [[group]]
//! name = "cells"
//! type = "Cell"
//! element_bytes = 40
//! fields = { row = 0, level = 8, column = 16, rate = 24, owner = 32 }
//! allocated_at = { function = "main", line = 51 }
//! split = [["level", "rate"], ["row", "column", "owner"]]
//!
//! [[loop]]
//! name = "advance"
//! function = "advance"
//! lines = [40, 41]
//! group = "cells"
//! fields = ["level", "rate"]
//! stride_bytes = 40

#[path = "truth.rs"]
mod truth;

use truth::Truth;

const DEFAULT_THREADS: usize = 2;

struct Cell {
    row: u64,
    level: f64,
    column: u64,
    rate: f64,
    owner: u64,
}

static FILL: Truth = Truth::new("fill");
static ADVANCE: Truth = Truth::new("advance");

/// One step of each cell's level at its own rate.
fn advance(cells: &mut [Cell]) {
    for cell in cells {
        cell.level += cell.rate;
    }
}

fn main() {
    let passes = truth::argument(1, 600);
    let n = truth::argument(2, 1 << 20);
    let mut cells: Vec<Cell> = FILL.time(|| {
        (0..n as u64)
            .map(|i| Cell { row: i >> 10, level: (i % 127) as f64, column: i & 1023, rate: 0.5, owner: i % 3 })
            .collect()
    });
    std::thread::scope(|scope| {
        for part in cells.chunks_mut(n.div_ceil(truth::argument(3, DEFAULT_THREADS))) {
            scope.spawn(move || {
                for _ in 0..passes {
                    ADVANCE.time(|| advance(part));
                }
            });
        }
    });
    let sum: f64 = cells.iter().map(|cell| cell.level).sum();
    let last = &cells[n - 1];
    println!("{sum} {} {} {}", last.row, last.column, last.owner);
    truth::write(&[&FILL, &ADVANCE]);
}
