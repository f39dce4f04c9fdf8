//! What the page says of a data structure.

use std::fmt::{self, Write};

use super::elements::{as_advised, as_it_is};
use super::{Page, advice_id, data, group_id};
use crate::html::affinity::{Together, Used, used_together};
use crate::html::bar;
use crate::html::matrix::{self, MOST_FIELDS, Matrix};
use crate::html::page::Escaped;
use crate::html::structure_map::legend;
use crate::html::table::{Cell, Column, Table};
use crate::text::cells::objects;
use crate::text::number::{RANGE, percent, range};
use crate::text::served::{levels, levels_and_others, mean_cycles};
use crate::text::{element, hottest, lines, threads};
use crate::view::{Advice, Field, Group, Interval, Loop, LoopGroup};

/// Loops that a row of the table of fields names.
const LOOPS_OF_FIELD: usize = 6;

/// What of a structure's share is in none of its fields has a row from here on; less would be told as nothing.
const LEAST_ELSEWHERE: f64 = 0.0005;

/// A section for each that costs enough; that of the costliest whose fields are known is open.
pub(super) fn sections(out: &mut impl Write, page: &Page<'_>) -> fmt::Result {
    if page.sections.is_empty() {
        return writeln!(out, "<p>No data that is known costs enough to be looked into.</p>");
    }
    if page.sections.iter().any(|group| !group.fields.is_empty()) {
        legend(out, &format!("a field's share of its structure's {}", page.cost))?;
    }
    let first = page.sections.iter().position(|group| group.fields.len() > 1).unwrap_or(0);
    for (place, group) in page.sections.iter().enumerate() {
        let open = if place == first { " open" } else { "" };
        let Interval { low, high } = group.share_interval;
        writeln!(
            out,
            "<details class=\"group\"{open}>\n<summary><h3>{}</h3> <span class=\"share\">{}</span> \
             <span class=\"faint\">{} % of the {}{}</span></summary>\n<div class=\"inside\" id=\"{}\">",
            Escaped(&group.name),
            Escaped(percent(group.share)),
            range(Interval { low, high }),
            page.cost,
            Escaped(&group.element_bytes.map_or_else(String::new, |_| format!("; {}", element(group)))),
            group_id(group.id)
        )?;
        one(out, page, group)?;
        writeln!(out, "</div>\n</details>")?;
    }
    Ok(())
}

fn one(out: &mut impl Write, page: &Page<'_>, group: &Group) -> fmt::Result {
    facts(out, page, group)?;
    as_it_is(out, page, group)?;
    for (_, advice) in advice_of(page, group) {
        as_advised(out, page, group, advice)?;
    }
    if !group.fields.is_empty() {
        fields(out, page, group)?;
    }
    loops_and_fields(page, group).write(out)?;
    used_together(out, &together(group))
}

/// Which loops use it, and what of it.
fn loops_and_fields<'a>(page: &'a Page<'_>, group: &'a Group) -> Matrix<'a> {
    let is_worth_it = |part: &LoopGroup| part.id == group.id && (part.share > 0.0 || !part.fields.is_empty());
    let uses = |found: &'_ Loop| found.groups.iter().position(is_worth_it);
    let loops = page.report.loops.iter().filter_map(|found| Some((found, &found.groups[uses(found)?])));
    let mut loops: Vec<(&Loop, &LoopGroup)> = loops.collect();
    loops.sort_by(|a, b| b.1.share.total_cmp(&a.1.share));
    let used: Vec<&Field> = group.fields.iter().filter(|field| !field.loops.is_empty()).collect();
    let fields = hottest(&used, MOST_FIELDS);
    let what = if fields.is_empty() { "Loops that use" } else { "Loops and what they use of" };
    let of_group = |share: f64| if group.share > 0.0 { share / group.share } else { 0.0 };
    let row = |&(found, part): &(&Loop, &LoopGroup)| {
        let share = |field: &&Field| {
            let place = part.fields.iter().position(|&at| at == field.offset)?;
            part.field_shares.get(place).map(|&share| of_group(share))
        };
        matrix::Row {
            name: format!("{} {}", found.function, lines(found)),
            shares: fields.iter().map(share).collect(),
            all: of_group(part.share),
        }
    };
    Matrix {
        caption: format!("{what} {}: shares of its {}", group.name, page.cost),
        code: "loop",
        rows: loops.iter().map(row).collect(),
        more_fields: used.len() - fields.len(),
        fields: fields
            .iter()
            .map(|field| (field.name.as_str(), format!("{}, offset {}", field.name, field.offset)))
            .collect(),
    }
}

fn together(group: &Group) -> Together<'_> {
    let used = group.fields.iter().filter(|field| field.is_used());
    Together {
        of: &group.name,
        fields: used.map(|field| Used { offset: field.offset, name: &field.name, share: field.share }).collect(),
        pairs: group.affinity.iter().map(|pair| (pair.a, pair.b, pair.value)).collect(),
        clusters: group.clusters.clone(),
    }
}

/// What is advised for a group, with its place in the report.
fn advice_of<'p>(page: &'p Page<'_>, group: &'p Group) -> impl Iterator<Item = (usize, &'p Advice)> {
    let is_about = |advice: &Advice| advice.group == group.id || advice.other_groups.contains(&group.id);
    page.report.advice.iter().enumerate().filter(move |(_, advice)| is_about(advice))
}

fn facts(out: &mut impl Write, page: &Page<'_>, group: &Group) -> fmt::Result {
    writeln!(out, "<dl class=\"terms\">")?;
    let mut fact = |term: &str, markup: String| writeln!(out, "<dt>{term}</dt><dd>{markup}</dd>");
    for (place, advice) in advice_of(page, group) {
        fact("advice", format!("<a href=\"#{}\">{}</a>", advice_id(place), Escaped(&advice.title)))?;
    }
    if let Some(objects) = objects(group) {
        fact("objects", Escaped(&objects).to_string())?;
    }
    if let Some(place) = &group.allocated_at {
        let frames: Vec<String> = place.stack.iter().map(|frame| format!("<li>{}</li>", Escaped(frame))).collect();
        fact("allocated by", format!("<ol class=\"frames\">{}</ol>", frames.concat()))?;
    }
    if let Some(at) = &group.declared_at {
        fact("declared at", Escaped(&format!("{}:{}", at.file, at.line)).to_string())?;
    }
    if let Some(sharing) = &group.sharing {
        fact("threads", Escaped(&threads(group, sharing)).to_string())?;
    }
    if let Some(served) = &group.served {
        fact("served by", Escaped(&levels_and_others(served)).to_string())?;
    }
    writeln!(out, "</dl>")
}

/// The same as the map, in numbers.
fn fields(out: &mut impl Write, page: &Page<'_>, group: &Group) -> fmt::Result {
    let is_served = page.report.session.served.is_some();
    let mut columns = vec![
        Column::Text("field"),
        Column::Number("offset"),
        Column::Number("size"),
        Column::Number(page.cost),
        Column::Bar("95 % interval"),
        Column::Number(RANGE),
    ];
    columns.extend(match is_served {
        false => vec![Column::Number("accesses"), Column::Number(RANGE), Column::Number("stores")],
        true => vec![Column::Number("samples"), Column::Number("cycles"), Column::Text("served by")],
    });
    columns.extend([Column::Number("stride"), Column::Text("in loops")]);
    let caption = format!("Fields of {}: shares of its own {}", group.name, page.cost);
    let mut table = Table::searched(&caption, &columns);
    let is_counted = group.fields.iter().any(|field| field.loads + field.stores > 0);
    for field in &group.fields {
        let mut cells = vec![Cell::long_text(&field.name), Cell::count(field.offset), Cell::count(field.bytes)];
        if field.is_used() {
            let interval = field.share_interval;
            let bar = Cell::bar(bar::interval(field.share, interval));
            cells.extend([Cell::share(field.share), bar, data::interval(interval)]);
        } else {
            cells.extend([Cell::text("not seen used"), Cell::default(), Cell::nothing()]);
        }
        cells.extend(if is_served { served_cells(field) } else { access_cells(field, is_counted) });
        cells.push(field.stride_bytes.map_or_else(Cell::nothing, |stride| Cell::number(&stride.to_string(), stride)));
        let loops = field.loops.iter().filter_map(|&row| page.report.loops.get(row)).map(lines);
        let mut named: Vec<String> = loops.take(LOOPS_OF_FIELD).collect();
        if field.loops.len() > named.len() {
            named.push(format!("+{}", field.loops.len() - named.len()));
        }
        let named = named.join(" ");
        cells.push(Cell::long_text(&named));
        table.row(&cells);
    }
    if group.elsewhere >= LEAST_ELSEWHERE {
        let mut rest = vec![Cell::default(); columns.len()];
        (rest[0], rest[3]) = (Cell::text("in no field"), Cell::share(group.elsewhere));
        table.last(&rest);
    }
    table.write(out)?;
    if group.fields.iter().any(Field::is_only_spanned) {
        writeln!(out, "<p class=\"faint\">wide: reached only by wide loads that begin in an earlier field</p>")?;
    }
    Ok(())
}

fn access_cells(field: &Field, is_counted: bool) -> [Cell; 3] {
    let accesses = field.loads + field.stores;
    match field.is_only_spanned() {
        _ if !is_counted || !field.is_used() => [(); 3].map(|()| Cell::nothing()),
        true => [Cell::text("wide"), Cell::nothing(), Cell::nothing()],
        false => {
            let stores = if accesses == 0 { 0.0 } else { field.stores as f64 / accesses as f64 };
            [Cell::share(field.access_share), data::interval(field.access_share_interval), Cell::share(stores)]
        }
    }
}

fn served_cells(field: &Field) -> [Cell; 3] {
    match &field.served {
        None => [Cell::count(0), Cell::nothing(), Cell::nothing()],
        Some(served) => {
            let cycles = served
                .latency
                .map_or_else(Cell::nothing, |latency| Cell::number(&mean_cycles(served), latency.mean_cycles));
            let levels = levels(served, 3);
            [Cell::count(served.samples), cycles, Cell::long_text(&levels)]
        }
    }
}
