//! Tables of groups, of their fields, and of loops.

use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::cells::{self, braced, element, names, threads};
use super::number::{count, percent, plural};
use super::table::{Rows, shorten, shorten_end};
use super::{Limits, fold, heading, more};
use crate::view::{Field, Group, Report};

/// Share from which it is told what of the time a table is not about.
const OUTSIDE: f64 = 0.005;
/// What of a structure's share is in none of its fields has a row from here on; less would be told as nothing.
const LEAST_ELSEWHERE: f64 = 0.0005;

/// Kind and name of the one row of what lies in frames and is no variable's that has a row of its own.
const STACK: &str = "stack";
/// What that is.
const OF_STACKS: &str = "numbers, saved registers and return addresses in frames, of all functions; structures and arrays there have rows of \
                         their own";

/// The top table: data structures by share.
pub(super) fn table(out: &mut impl Write, report: &Report, limits: Limits) -> fmt::Result {
    heading(out, "DATA")?;
    let columns = cells::group_columns(report);
    let mut rows = Rows::on_page(&columns, limits);
    let shown = shown(report, limits);
    for group in shown {
        rows.push(cells::group(report, group));
    }
    let rest = &report.groups[shown.len()..];
    if !rest.is_empty() {
        let mut cells = vec![String::new(); columns.len()];
        cells[0] = percent(rest.iter().map(|group| group.share).sum());
        cells[2] = more(rest.iter().map(|group| group.share));
        rows.push(cells);
    }
    rows.write(out, 2)?;
    let told = [
        ("by type", types_in_several(report, shown)),
        ("strides", strides_of_scalars(shown)),
        (
            STACK,
            shown
                .iter()
                .filter(|group| group.kind == STACK && group.name == STACK)
                .map(|_| OF_STACKS.to_owned())
                .collect(),
        ),
    ];
    for (what, told) in told {
        if !told.is_empty() {
            fold(out, &format!("{what}: {}", told.join(", ")), 2, 4)?;
        }
    }
    Ok(())
}

/// Whether it has a table of fields: it is of structures, of which a field is used.
fn has_fields(group: &Group) -> bool {
    group.fields.len() > 1 && group.fields.iter().any(Field::is_used)
}

/// How loops go over arrays of numbers, which have no table of fields.
fn strides_of_scalars(shown: &[Group]) -> Vec<String> {
    let stride = |group: &Group| {
        let mut used = group.fields.iter().filter(|field| field.is_used());
        match (used.next(), used.next()) {
            (Some(only), None) => only.stride_bytes,
            _ => None,
        }
    };
    let told = shown.iter().filter(|group| !has_fields(group)).filter_map(|group| Some((group, stride(group)?)));
    told.map(|(group, stride)| format!("{} {stride} B", shorten(&plain(&group.name), 40))).collect()
}

/// Types of several data structures, with what all structures of the type have together.
fn types_in_several(report: &Report, shown: &[Group]) -> Vec<String> {
    let of_type = |groups: &[Group], name: &str| {
        groups.iter().filter(|group| group.share > 0.0 && group.type_name.as_deref() == Some(name)).count()
    };
    let types = report.breakdowns.types.iter().filter(|row| of_type(shown, &row.name) > 1);
    types
        .map(|row| {
            let name = shorten(&plain(&row.name), 40);
            format!("{name} {} in {} structures", percent(row.share), of_type(&report.groups, &row.name))
        })
        .collect()
}

pub(super) fn shown(report: &Report, limits: Limits) -> &[Group] {
    let floor = limits.floor(&report.session);
    let enough = report.groups.iter().take_while(|group| group.share >= floor).count();
    &report.groups[..enough.min(limits.rows)]
}

/// For each structure that was allocated, the whole call path, as the JSON has it.
pub(super) fn callers(out: &mut impl Write, report: &Report, limits: Limits) -> fmt::Result {
    heading(out, "ALLOCATED BY")?;
    for group in shown(report, limits) {
        let Some(place) = &group.allocated_at else { continue };
        writeln!(out, "  {}  {}", percent(group.share), plain(&group.name))?;
        for frame in &place.stack {
            writeln!(out, "      {}", plain(frame))?;
        }
    }
    Ok(())
}

/// For each structure that matters: its element, fields, affinities and clusters.
pub(super) fn details(out: &mut impl Write, report: &Report, limits: Limits) -> fmt::Result {
    let structured = shown(report, limits).iter().filter(|group| has_fields(group));
    let (told, few): (Vec<&Group>, Vec<&Group>) = structured.partition(|group| group.samples >= limits.least_samples());
    for group in told {
        heading(out, title(group, limits))?;
        let columns = cells::field_columns(report);
        let mut rows = Rows::on_page(&columns, limits);
        let used: Vec<&Field> = group.fields.iter().filter(|field| field.is_used()).collect();
        let hottest = hottest(&used, limits.rows);
        let is_counted = cells::is_counted(group);
        for field in &hottest {
            rows.push(cells::field(report, field, is_counted, limits));
        }
        let mut summed_up = |what: String, share: Option<f64>| {
            let mut cells = vec![String::new(); columns.len()];
            cells[2] = what;
            cells[3] = share.map(percent).unwrap_or_default();
            rows.push(cells);
        };
        let rest = used.len() - hottest.len();
        if rest > 0 {
            let share = |fields: &[&Field]| fields.iter().map(|field| field.share).sum::<f64>();
            summed_up(format!("{} more", count(rest as u64)), Some(share(&used) - share(&hottest)));
        }
        if group.fields.len() > used.len() {
            summed_up(format!("{} not seen used", count((group.fields.len() - used.len()) as u64)), None);
        }
        if group.elsewhere >= LEAST_ELSEWHERE {
            summed_up("in no field".to_owned(), Some(group.elsewhere));
        }
        rows.write(out, 2)?;
        if hottest.iter().any(|field| field.is_only_spanned()) {
            writeln!(out, "  {WIDE}")?;
        }
        for (label, told) in remarks(group, limits) {
            fold(out, &format!("{label}: {told}"), 2, 4)?;
        }
    }
    match few.len() {
        0 => Ok(()),
        rest => writeln!(
            out,
            "\n  Fields of {} with fewer than {} samples: --percent-limit 0",
            plural(rest as u64, "structure"),
            limits.least_samples()
        ),
    }
}

/// What `wide` means beside a field.
pub(crate) const WIDE: &str = "wide: reached only by wide loads that begin in an earlier field";

/// What is to be said of a structure beside its fields, each with a label.
pub(crate) fn remarks(group: &Group, limits: Limits) -> Vec<(&'static str, String)> {
    let used: Vec<u64> = group.fields.iter().filter(|field| field.is_used()).map(|field| field.offset).collect();
    let names = names(group);
    let strong = group.affinity.iter().filter(|pair| pair.value >= 0.005).take(limits.columns(6)).map(|pair| {
        let name = |at| shorten(&names(at), limits.columns(40));
        format!("{}–{} {:.2}", name(pair.a), name(pair.b), pair.value)
    });
    let strong: Vec<String> = strong.collect();
    let is_used = |at: &u64| used.binary_search(at).is_ok();
    let clusters = group.clusters.iter().map(|cluster| cluster.iter().copied().filter(is_used).collect::<Vec<_>>());
    let clusters: Vec<Vec<u64>> = clusters.filter(|cluster| !cluster.is_empty()).collect();
    let clusters: Vec<String> = match clusters.len() {
        0 | 1 => Vec::new(),
        _ => clusters.iter().map(|cluster| braced(cluster, &names)).collect(),
    };
    let unused: Vec<u64> = group.fields.iter().map(|field| field.offset).filter(|at| !is_used(at)).collect();
    let unused = if unused.is_empty() { String::new() } else { braced(&unused, &names) };
    let mut remarks = vec![
        ("used together (0 to 1)", strong.join(", ")),
        ("belong together", clusters.join(" ")),
        ("not seen used", unused),
    ];
    remarks.extend(group.sharing.as_ref().map(|sharing| ("threads", threads(group, sharing))));
    remarks.retain(|(_, told)| !told.is_empty());
    remarks
}

/// The `most` fields that cost most, by offset again.
pub(crate) fn hottest<'a>(used: &[&'a Field], most: usize) -> Vec<&'a Field> {
    let mut hottest = used.to_vec();
    let weight = |field: &Field| (field.share, field.access_share);
    hottest.sort_by(|a, b| {
        let (a, b) = (weight(a), weight(b));
        b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    hottest.truncate(most);
    hottest.sort_by_key(|field| field.offset);
    hottest
}

fn title(group: &Group, limits: Limits) -> String {
    let element = element(group);
    let share = percent(group.share);
    match limits.wide {
        true => format!("{}  {share}  {element}", plain(&group.name)),
        // A name may be as long as a template's: of all the rest there must be something to read.
        false => shorten_end(
            &format!("{}  {share}  {element}", shorten(&plain(&group.name), limits.width - 60)),
            limits.width,
        ),
    }
}

/// All fields of all groups, by share of the session.
pub(super) fn fields(out: &mut impl Write, report: &Report, limits: Limits) -> fmt::Result {
    heading(out, "FIELDS")?;
    let places = fields_by_cost(report);
    let field = |&(group, field): &(usize, usize)| (&report.groups[group], &report.groups[group].fields[field]);
    let found: Vec<(&Group, &Field)> = places.iter().map(field).collect();
    let columns = cells::field_of_all_columns(report);
    let mut rows = Rows::on_page(&columns, limits);
    let floor = limits.floor(&report.session);
    let enough = found.iter().take_while(|(group, field)| group.share * field.share >= floor).count();
    let shown = enough.min(limits.rows);
    for (group, field) in &found[..shown] {
        rows.push(cells::field_of_all(report, group, field, limits));
    }
    if shown < found.len() {
        let mut cells = vec![String::new(); columns.len()];
        cells[0] = percent(found[shown..].iter().map(|(group, field)| group.share * field.share).sum());
        cells[1] = more(found[shown..].iter().map(|(group, field)| group.share * field.share));
        rows.push(cells);
    }
    rows.write(out, 2)?;
    match outside_fields(report, &places) {
        Some(told) => writeln!(out, "  {told}"),
        None => Ok(()),
    }
}

/// All fields that are used, costliest first: places of their groups, and of them in these.
pub(crate) fn fields_by_cost(report: &Report) -> Vec<(usize, usize)> {
    let of_group = |(place, group): (usize, &Group)| {
        let is_told = |field: &Field| field.is_used() && !field.is_only_spanned();
        let told = group.fields.iter().enumerate().filter(|(_, field)| is_told(field));
        told.map(|(number, field)| (group.share * field.share, (place, number))).collect::<Vec<_>>()
    };
    let mut found: Vec<(f64, (usize, usize))> = report.groups.iter().enumerate().flat_map(of_group).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, place)| place).collect()
}

/// What all fields are not about, where that is worth telling.
pub(crate) fn outside_fields(report: &Report, found: &[(usize, usize)]) -> Option<String> {
    let share =
        |&(group, field): &(usize, usize)| report.groups[group].share * report.groups[group].fields[field].share;
    let outside = 1.0 - found.iter().map(share).sum::<f64>();
    let cost = report.session.weight.noun();
    (outside >= OUTSIDE).then(|| format!("{} of the {cost} is spent on data without known fields", percent(outside)))
}

/// Loops with the data they touch.
pub(super) fn loops(out: &mut impl Write, report: &Report, limits: Limits) -> fmt::Result {
    heading(out, "LOOPS")?;
    let columns = cells::loop_columns(report);
    let mut rows = Rows::on_page(&columns, limits);
    let floor = limits.floor(&report.session);
    let enough = report.loops.iter().take_while(|found| found.share >= floor).count().min(limits.rows);
    for found in &report.loops[..enough] {
        rows.push(cells::loop_(report, found, limits));
    }
    let rest = &report.loops[enough..];
    if !rest.is_empty() {
        let mut cells = vec![String::new(); columns.len()];
        cells[0] = percent(rest.iter().map(|found| found.share).sum());
        cells[2] = more(rest.iter().map(|found| found.share));
        rows.push(cells);
    }
    rows.write(out, 2)?;
    if report.loops[..enough].iter().any(|found| found.column.is_some() || found.inner > 0) {
        fold(out, LINES_OF_LOOPS, 2, 4)?;
    }
    match outside_loops(report) {
        Some(told) => writeln!(out, "  {told}"),
        None => Ok(()),
    }
}

/// How lines of loops are told.
pub(crate) const LINES_OF_LOOPS: &str = "lines of loops: 7:31 begins in column 31 of line 7, where another one does; (inner), (2 inside): \
                                         inside of one, of two more on the same lines";

/// What all loops are not about, where that is worth telling.
pub(crate) fn outside_loops(report: &Report) -> Option<String> {
    let outside = 1.0 - report.loops.iter().map(|found| found.share).sum::<f64>();
    let cost = report.session.weight.noun();
    (outside >= OUTSIDE).then(|| format!("{} of the {cost} is outside of all loops", percent(outside)))
}
