//! Collapsed ("folded") stacks, as `flamegraph.pl`, inferno, speedscope and others read them: `main;drift;bodies [heap];bodies.x
//! 1234`, a line for each stack, costs behind it.
//!
//! The format has no place for anything else: [`Run::remarks`](super::Run::remarks) are for who writes it to tell.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::{CostTable, one_line};

/// Writes all stacks with a cost, in the order of their text.
///
/// # Errors
/// As `out`.
pub fn write(out: &mut impl Write, table: &CostTable) -> fmt::Result {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for row in table.rows.iter().filter(|row| row.cost.cost > 0) {
        let code = table.stacks[row.stack as usize].iter().map(|&frame| table.frames[frame as usize].function.clone());
        let names: Vec<String> = code.chain(table.data_labels(row.data)).map(|name| folded(&name)).collect();
        *lines.entry(names.join(";")).or_default() += row.cost.cost;
    }
    lines.iter().try_for_each(|(stack, cost)| writeln!(out, "{stack} {cost}"))
}

/// A frame's name without what ends a frame.
fn folded(name: &str) -> String {
    one_line(name).replace(';', ":")
}
