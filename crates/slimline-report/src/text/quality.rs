//! How much of the time is resolved, and why not the rest.

use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::number::percent;
use super::table::{Column, Rows, shorten_path};
use super::{Limits, heading, more};
use crate::view::{Coverage, Missing, MissingUse};

/// Widest function, place and data of an example.
const EXAMPLE_WIDTH: usize = 30;

/// `cost` is what shares are of, in a word.
pub(super) fn write(
    out: &mut impl Write,
    coverage: &Coverage,
    cost: &'static str,
    floor: f64,
    limits: Limits,
) -> fmt::Result {
    heading(out, "QUALITY")?;
    for (share, words) in shares(coverage, cost) {
        writeln!(out, "  {share:>7}  {words}")?;
    }
    if coverage.missing.is_empty() {
        return Ok(());
    }
    heading(out, "NOT RESOLVED")?;
    let mut table = Rows::on_page(
        &[
            Column::Number(cost),
            Column::Text("lacks"),
            Column::Text("why"),
            Column::Shortened("function", limits.columns(EXAMPLE_WIDTH)),
            Column::Text("place"),
            Column::Shortened("data", limits.columns(EXAMPLE_WIDTH)),
        ],
        limits,
    );
    let shown = coverage.missing.iter().take(limits.rows).take_while(|row| row.share >= floor);
    let mut written = 0;
    for row in shown {
        reason(&mut table, row, limits);
        written += 1;
    }
    let rest = &coverage.missing[written..];
    if !rest.is_empty() {
        let share: f64 = rest.iter().map(|row| row.share).sum();
        let more = more(rest.iter().map(|row| row.share));
        let blank = String::new;
        table.push(vec![percent(share), blank(), more, blank(), blank(), blank()]);
    }
    table.write(out, 2)
}

/// How much is resolved: each share, and what it is of.
pub(crate) fn shares(coverage: &Coverage, cost: &str) -> Vec<(String, String)> {
    let of = |part: f64, whole: f64| percent(if whole > 0.0 { part / whole } else { 0.0 });
    let of_cost = |what: &str| format!("of the {cost} is spent on {what}");
    let resolved_to = |what: &str| format!("of that is resolved to {what}");
    let rest = if coverage.unknown > 0.0 { "" } else { "; the rest is computing" };
    let mut shares = vec![
        (percent(coverage.accesses), of_cost(&format!("memory accesses{rest}"))),
        (of(coverage.objects, coverage.accesses), resolved_to("an object")),
        (percent(coverage.structures), of_cost("accesses into structures, or that may be")),
        (of(coverage.fields, coverage.structures), resolved_to("a field")),
    ];
    if coverage.unknown > 0.0 {
        shares.push((percent(coverage.unknown), of_cost("code that nobody could look at; the rest is computing")));
    }
    shares
}

/// A reason, and below it where it is met most.
fn reason(table: &mut Rows, row: &Missing, limits: Limits) {
    let blank = String::new;
    table.push(vec![
        percent(row.share),
        row.what.clone(),
        words(&row.what, &row.reason).to_owned(),
        blank(),
        blank(),
        blank(),
    ]);
    for MissingUse { function, place, group, share, .. } in &row.examples {
        let place = shorten_path(&plain(place), limits.columns(EXAMPLE_WIDTH));
        table.push(vec![blank(), blank(), percent(*share), plain(function), place, plain(group)]);
    }
}

pub(crate) fn words<'r>(what: &str, reason: &'r str) -> &'r str {
    match (what, reason) {
        ("object", "no_address") => "its address could not be told",
        ("object", "no_mapping") => "at an address in no mapping that was seen",
        ("object", "no_call_path") => "a heap block without a call path",
        ("object", "no_variable") => "of a module, where it has no symbol",
        ("object", "no_frame") => "on a stack, in no known frame",
        ("object", "unseen_mapping") => "in memory whose mapping was not seen",
        ("object", "not_followed") => "a heap block that was not followed",
        ("type", "no_debug_info") => "neither code nor data has debug information",
        ("type", "no_operand") => "the instruction names no operand",
        ("type", "too_long") => "the function is too long to follow",
        ("type", "thread_local") => "thread-local",
        ("type", "gather") => "a vector of addresses",
        ("type", "spill") => "a saved register",
        ("type", "no_variable") => "no variable is there",
        ("type", "untyped") => "a pointer to void, or to a type that is not defined",
        ("type", "from_caller") => "the address comes from the caller",
        ("type", "call_result") => "the address comes from a call",
        ("type", "no_pointer") => "the address was loaded from what is no pointer",
        ("type", "arithmetic") => "the address is computed in a way not followed",
        ("type", "paths_disagree") => "the address differs by the path taken",
        ("type", "offset_runs") => "the offset runs in steps of no array",
        ("type", "outside_type") => "the offset is outside of the type",
        ("field", "no_offset") => "whose it is was inferred, not where in it",
        ("field", _) => "padding, or outside of the type",
        _ => reason,
    }
}
