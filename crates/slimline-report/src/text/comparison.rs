//! Differences of two runs or builds, and what of them is not allowed, as text.

use std::fmt::{self, Write};

use slimline_analyze::comparison::chance::Sampled;
use slimline_analyze::comparison::gate::Regression;
use slimline_analyze::comparison::layouts::{LayoutChanges, MovedField, TypeChange};
use slimline_analyze::comparison::misses::MissChanges;
use slimline_analyze::comparison::shares::ShareChanges;
use slimline_analyze::comparison::{DataKey, Renamed};
use slimline_trace::escape::plain;

use super::number::{RANGE, count, percent, plural, plural_of, range};
use super::table::{Column, Rows};
use super::{Limits, STRONG, file_name, fold, heading};
use crate::comparison::{Check, Comparison, renamed_words, rule_id, title};
use crate::view::Interval;

/// Fields of a type that are told by name; the rest is counted.
const MOST_FIELDS: usize = 6;
/// Differences of exact shares below this are not told: they would read as none.
const LEAST_DIFFERENCE: f64 = 0.0005;

/// Writes what differs; tables have at most so many rows.
///
/// # Errors
/// As `out`.
pub fn comparison(out: &mut impl Write, comparison: &Comparison, limits: Limits) -> fmt::Result {
    fold(out, &format!("{} → {}", plain(&comparison.old), plain(&comparison.new)), 0, 2)?;
    if let Some(changes) = &comparison.layouts {
        layouts(out, changes, comparison.noun, limits)?;
    }
    if let Some(changes) = &comparison.shares {
        match comparison.is_exact {
            true => exact_shares(out, changes, comparison.noun, limits)?,
            false => shares(out, changes, comparison.noun, limits)?,
        }
    }
    if let Some(changes) = &comparison.misses {
        misses(out, changes, limits)?;
    }
    not_compared(out, comparison)?;
    // What shares tell of is what misses tell of.
    let renamed = comparison.shares.as_ref().map(|changes| &changes.renamed);
    known_again(
        out,
        renamed.or(comparison.misses.as_ref().map(|changes| &changes.renamed)).map_or(&[], Vec::as_slice),
        limits,
    )
}

/// Writes what is worse than allowed, a paragraph each, and the verdict.
///
/// # Errors
/// As `out`.
pub fn check(out: &mut impl Write, check: &Check<'_>) -> fmt::Result {
    for regression in &check.regressions {
        let text = format!("{}: {}", rule_id(regression.rule()), plain(&check.message(regression)));
        fold(out, &text, 0, 4)?;
        let place = match regression {
            Regression::Field(change, ..) | Regression::Type(change, _) => change.place.as_ref(),
            Regression::Share(_) | Regression::Misses(_) => None,
        };
        if let Some((file, line)) = place {
            writeln!(out, "    {}:{line}", plain(file))?;
        }
    }
    not_compared(out, check.comparison)?;
    let Comparison { layouts, shares, misses, .. } = check.comparison;
    let mut compared = Vec::new();
    if let Some(changes) = layouts {
        let changed = changes.changed.len() as u64;
        compared.push(format!("{} ({} changed)", plural(changes.same + changed, "type"), count(changed)));
    }
    compared.extend(shares.as_ref().map(|changes| plural(changes.rows.len() as u64, "share")));
    compared.extend(misses.as_ref().map(|changes| plural_of(changes.rows.len() as u64, "miss count", "miss counts")));
    let verdict = match check.regressions.len() {
        0 => "no regression".to_owned(),
        many => plural(many as u64, "regression"),
    };
    writeln!(out, "{STRONG}{verdict}{STRONG:#}: compared {}", compared.join(", "))
}

/// Machines and caches without a counterpart, and what is missing of a side.
fn not_compared(out: &mut impl Write, comparison: &Comparison) -> fmt::Result {
    for unmatched in comparison.unmatched() {
        fold(out, &format!("Not compared: {}", plain(&unmatched)), 0, 4)?;
    }
    for (which, side) in [("old", &comparison.before), ("new", &comparison.after)] {
        for missing in &side.missing {
            fold(out, &format!("Missing on the {which} side: {}", plain(missing)), 0, 4)?;
        }
    }
    Ok(())
}

fn layouts(out: &mut impl Write, changes: &LayoutChanges, noun: &str, limits: Limits) -> fmt::Result {
    heading(out, "LAYOUTS")?;
    for change in changes.changed.iter().take(limits.rows) {
        one_type(out, change, noun)?;
    }
    if changes.changed.len() > limits.rows {
        writeln!(out, "  {} more changed", count((changes.changed.len() - limits.rows) as u64))?;
    }
    for (sign, types) in [("+", &changes.added), ("-", &changes.gone)] {
        for type_ in types.iter().take(limits.rows) {
            fold(out, &format!("{sign} {}, {}", plain(&type_.name), plural(type_.figures.bytes, "byte")), 2, 6)?;
        }
        if types.len() > limits.rows {
            writeln!(out, "  {sign} {} more", count((types.len() - limits.rows) as u64))?;
        }
    }
    let are = if changes.same == 1 { "is" } else { "are" };
    writeln!(out, "  {} {are} the same", plural(changes.same, "type"))
}

fn one_type(out: &mut impl Write, change: &TypeChange, noun: &str) -> fmt::Result {
    let (old, new) = (change.old, change.new);
    let figures = [
        (old.bytes, new.bytes, "bytes"),
        (old.lines, new.lines, "lines"),
        (old.hole_bytes, new.hole_bytes, "bytes of holes"),
        (old.padding_bytes, new.padding_bytes, "bytes of padding"),
    ];
    let differing = figures.iter().filter(|(old, new, _)| old != new);
    let told: Vec<String> =
        differing.map(|(old, new, what)| format!("{} → {} {what}", count(*old), count(*new))).collect();
    let told = if told.is_empty() { "as large as before".to_owned() } else { told.join(", ") };
    let place = change.place.as_ref().map(|(file, line)| format!(" ({}:{line})", file_name(file))).unwrap_or_default();
    fold(out, &format!("{}{place}: {told}", plain(&change.name)), 2, 6)?;
    let mut lines = Vec::new();
    for field in &change.added {
        lines.push(format!("+ {} at {}, {}", plain(&field.path), field.offset, plural(field.bytes, "byte")));
    }
    for field in &change.gone {
        lines.push(format!("- {} at {}, {}", plain(&field.path), field.offset, plural(field.bytes, "byte")));
    }
    // Those that are hot, or worse off, first.
    let mut moved: Vec<_> = change.moved.iter().collect();
    let rank = |moved: &&MovedField| {
        (moved.field.heat, f64::from(u8::from(moved.crosses_newly() || moved.is_on_later_line())))
    };
    moved.sort_by(|a, b| rank(b).partial_cmp(&rank(a)).unwrap_or(std::cmp::Ordering::Equal));
    for found in moved {
        let mut line = format!("{} {} → {}", plain(&found.field.path), found.old_offset, found.field.offset);
        if found.old_bytes != found.field.bytes {
            line += &format!(", {} → {} bytes", found.old_bytes, found.field.bytes);
        }
        if found.crosses_newly() {
            line += ", now on two lines";
        } else if found.is_on_later_line() {
            line += ", on a later line";
        }
        if found.field.heat > 0.0 {
            line += &format!("; {} of the {noun}", percent(found.field.heat));
        }
        lines.push(line);
    }
    let more = lines.len().saturating_sub(MOST_FIELDS);
    for line in lines.iter().take(MOST_FIELDS) {
        fold(out, line, 4, 8)?;
    }
    if more > 0 {
        writeln!(out, "    {}", plural_of(more as u64, "more field", "more fields"))?;
    }
    Ok(())
}

fn shares(out: &mut impl Write, changes: &ShareChanges, noun: &str, limits: Limits) -> fmt::Result {
    heading(out, format_args!("SHARES of the {noun}"))?;
    let columns = [
        Column::Number("old"),
        Column::Number(RANGE),
        Column::Number("new"),
        Column::Number(RANGE),
        Column::Number("points"),
        Column::Shortened("data", 40),
        Column::Text(""),
    ];
    let mut rows = Rows::on_page(&columns, limits);
    let ends = |share: Sampled| [percent(share.value), range(Interval { low: share.low, high: share.high })];
    for row in changes.rows.iter().take(limits.rows) {
        let mut cells: Vec<String> = ends(row.old).into_iter().chain(ends(row.new)).collect();
        cells.push(format!("{:+.1}", row.difference.value * 100.0));
        cells.push(plain(&title(&row.key, row.field.as_deref())));
        cells.push(if row.is_beyond_chance { "beyond chance".to_owned() } else { String::new() });
        rows.push(cells);
    }
    if !changes.rows.is_empty() {
        rows.write(out, 2)?;
    }
    if changes.rows.len() > limits.rows {
        writeln!(out, "  {} more rows", count((changes.rows.len() - limits.rows) as u64))?;
    }
    shares_of_one_run(out, changes)
}

/// Of all accesses: nothing is by chance.
fn exact_shares(out: &mut impl Write, changes: &ShareChanges, noun: &str, limits: Limits) -> fmt::Result {
    heading(out, format_args!("SHARES of the {noun}, of all accesses"))?;
    let columns =
        [Column::Number("old"), Column::Number("new"), Column::Number("points"), Column::Shortened("data", 60)];
    let mut rows = Rows::on_page(&columns, limits);
    let differing: Vec<_> = changes.rows.iter().filter(|row| row.difference.value.abs() >= LEAST_DIFFERENCE).collect();
    for row in differing.iter().take(limits.rows) {
        rows.push(vec![
            percent(row.old.value),
            percent(row.new.value),
            format!("{:+.1}", row.difference.value * 100.0),
            plain(&title(&row.key, row.field.as_deref())),
        ]);
    }
    match differing.is_empty() {
        true => writeln!(out, "  {} are the same", plural(changes.rows.len() as u64, "share"))?,
        false => rows.write(out, 2)?,
    }
    if differing.len() > limits.rows {
        writeln!(out, "  {} more rows", count((differing.len() - limits.rows) as u64))?;
    }
    shares_of_one_run(out, changes)
}

/// Data whose function or name is another one.
fn known_again(out: &mut impl Write, renamed: &[Renamed], limits: Limits) -> fmt::Result {
    if renamed.is_empty() {
        return Ok(());
    }
    heading(out, "KNOWN AGAIN under another name or function")?;
    for renamed in renamed.iter().take(limits.rows) {
        fold(out, &plain(&renamed_words(renamed)), 2, 6)?;
    }
    match renamed.len().saturating_sub(limits.rows) {
        0 => Ok(()),
        more => writeln!(out, "  {} more", count(more as u64)),
    }
}

fn shares_of_one_run(out: &mut impl Write, changes: &ShareChanges) -> fmt::Result {
    let told = |(key, share): &(DataKey, Sampled)| format!("{} {}", plain(&title(key, None)), percent(share.value));
    of_one_run(out, "old", &changes.gone, told)?;
    of_one_run(out, "new", &changes.added, told)
}

/// Data that only one run has.
fn of_one_run<T>(out: &mut impl Write, which: &str, data: &[T], told: impl Fn(&T) -> String) -> fmt::Result {
    if data.is_empty() {
        return Ok(());
    }
    let first: Vec<String> = data.iter().take(MOST_FIELDS).map(told).collect();
    let more = data.len().saturating_sub(MOST_FIELDS);
    let more = if more > 0 { format!(" and {} more", count(more as u64)) } else { String::new() };
    fold(out, &format!("In the {which} run only: {}{more}", first.join(", ")), 2, 6)
}

fn misses(out: &mut impl Write, changes: &MissChanges, limits: Limits) -> fmt::Result {
    heading(out, "MISSES")?;
    for (machine, old, new) in &changes.accesses {
        writeln!(out, "  {}: {} → {} accesses", plain(machine), count(*old), count(*new))?;
    }
    let columns = [
        Column::Shortened("machine", 16),
        Column::Shortened("cache", 12),
        Column::Number("old"),
        Column::Number("new"),
        Column::Number("change"),
        Column::Shortened("data", 40),
    ];
    let mut rows = Rows::on_page(&columns, limits);
    for row in changes.rows.iter().filter(|row| row.key.is_none() || row.old != row.new).take(limits.rows) {
        rows.push(vec![
            plain(&row.machine),
            plain(&row.cache),
            count(row.old),
            count(row.new),
            row.growth().map_or_else(String::new, |growth| format!("{:+.1} %", growth * 100.0)),
            row.key.as_ref().map_or_else(|| "all".to_owned(), |key| plain(&title(key, None))),
        ]);
    }
    if !changes.rows.is_empty() {
        rows.write(out, 2)?;
    }
    let told = |key: &DataKey| plain(&title(key, None));
    of_one_run(out, "old", &changes.gone, told)?;
    of_one_run(out, "new", &changes.added, told)
}
