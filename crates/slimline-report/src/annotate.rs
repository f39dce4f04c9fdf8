//! A structure as pahole prints it, with what each field costs.

use std::fmt::{self, Write};

use crate::escape::plain;
use crate::text::{WIDTH, shorten_end};
use crate::view::{Group, Layout, LayoutMember, Report};

/// Bytes of a cache line: where the layout is ruled off. 64 on every x86-64.
const LINE_BYTES: u64 = 64;
/// Column at which costs begin.
const COST_COLUMN: usize = 40;
/// Room for the cost: what offset and size, 14 columns and a blank, leave of the page.
const COST_WIDTH: usize = WIDTH - COST_COLUMN - 15;

/// Groups whose element type matches `name`: the whole name, or its last part (`Node` for `struct Node`, `ns::Node`).
pub fn matching<'a>(report: &'a Report, name: &str) -> Vec<&'a Group> {
    let matches = |full: &str| {
        full == name || full.rsplit([' ', ':']).next() == Some(name) || full.split('<').next() == Some(name)
    };
    report.groups.iter().filter(|group| group.type_name.as_deref().is_some_and(matches) || group.name == name).collect()
}

/// Writes the element type of `group`: offsets, sizes, holes, cache-line boundaries, and the cost of each field.
pub fn structure(out: &mut impl Write, report: &Report, group: &Group) -> fmt::Result {
    match &group.layout {
        Some(layout) => declared(out, report, group, layout),
        None => observed(out, report, group),
    }
}

fn declared(out: &mut impl Write, report: &Report, group: &Group, layout: &Layout) -> fmt::Result {
    header(out, group)?;
    let open = format!("{} {{", plain(&layout.name));
    writeln!(out, "{open:<COST_COLUMN$} offset  size    time  accesses  loops")?;
    let mut line = 0;
    let mut holes = (0, 0);
    for member in &layout.members {
        if member.depth == 0 && member.offset / LINE_BYTES > line {
            line = member.offset / LINE_BYTES;
            writeln!(out, "    /* --- cache line {line} ({} bytes) --- */", line * LINE_BYTES)?;
        }
        if member.name.is_empty() {
            holes = (holes.0 + 1, holes.1 + member.bytes);
            writeln!(out, "{:indent$}/* {} bytes hole */", "", member.bytes, indent = indent(member))?;
            continue;
        }
        let text = format!("{:indent$}{}", "", declaration(member, layout), indent = indent(member));
        if text.chars().count() > COST_COLUMN {
            writeln!(out, "{text}")?;
            write!(out, "{:COST_COLUMN$}", "")?;
        } else {
            write!(out, "{text:<COST_COLUMN$}")?;
        }
        let cost = shorten_end(&cost(report, group, member), COST_WIDTH);
        writeln!(out, " {:>6} {:>5}  {cost}", member.offset, member.bytes)?;
    }
    writeln!(out, "}};")?;
    let lines = layout.bytes.div_ceil(LINE_BYTES);
    let hole_words = match holes {
        (0, _) => "no holes".to_owned(),
        (1, bytes) => format!("1 hole of {bytes} bytes"),
        (n, bytes) => format!("{n} holes, {bytes} bytes in all"),
    };
    writeln!(
        out,
        "/* size {} bytes, {lines} cache line{}, {hole_words} */",
        layout.bytes,
        if lines == 1 { "" } else { "s" }
    )
}

fn header(out: &mut impl Write, group: &Group) -> fmt::Result {
    writeln!(out, "/* {}: {:.1} % of the session's time */", plain(&group.name), group.share * 100.0)
}

fn indent(member: &LayoutMember) -> usize {
    4 * (member.depth as usize + 1)
}

fn declaration(member: &LayoutMember, layout: &Layout) -> String {
    let (name, type_name) = (plain(&member.name), plain(&member.type_name));
    let bits = member.bits.map(|(_, n)| format!(" : {n}")).unwrap_or_default();
    match layout.language.as_str() {
        "rust" => format!("{name}: {type_name},"),
        _ => match type_name.split_once('[') {
            Some((element, bounds)) => format!("{element} {name}[{bounds};"),
            None => format!("{type_name} {name}{bits};"),
        },
    }
}

fn cost(report: &Report, group: &Group, member: &LayoutMember) -> String {
    if member.nested {
        return String::new();
    }
    let inside = |offset: u64| offset >= member.offset && offset < member.offset + member.bytes.max(1);
    let fields: Vec<_> = group.fields.iter().filter(|field| inside(field.offset)).collect();
    if fields.is_empty() {
        return "     –         –".to_owned();
    }
    let share: f64 = fields.iter().map(|field| field.share).sum();
    let accesses: f64 = fields.iter().map(|field| field.access_share).sum();
    let mut loops: Vec<usize> = fields.iter().flat_map(|field| field.loops.iter().copied()).collect();
    loops.sort_unstable();
    loops.dedup();
    let names: Vec<String> = loops
        .iter()
        .filter_map(|&row| report.loops.get(row))
        .take(2)
        .map(|found| format!("{}:{}-{}", plain(&found.function), found.first_line, found.last_line))
        .collect();
    // An empty sum of floats is -0.
    let percent = |share: f64| (share + 0.0) * 100.0;
    format!("{:>5.1}%    {:>5.1}%  {}", percent(share), percent(accesses), names.join(" ")).trim_end().to_owned()
}

/// Without debug information: the fields as they were accessed.
fn observed(out: &mut impl Write, report: &Report, group: &Group) -> fmt::Result {
    header(out, group)?;
    let size = group.element_bytes.map_or("size not known".to_owned(), |bytes| format!("{bytes} bytes"));
    writeln!(out, "/* no debug information: offsets and sizes as accessed; element {size} */")?;
    writeln!(out, "{:<COST_COLUMN$} offset  size    time  accesses  loops", "{")?;
    for field in &group.fields {
        let member = LayoutMember { offset: field.offset, bytes: field.bytes, ..LayoutMember::default() };
        let text = format!("    {}", plain(&field.name));
        let cost = shorten_end(&cost(report, group, &member), COST_WIDTH);
        writeln!(out, "{text:<COST_COLUMN$} {:>6} {:>5}  {cost}", field.offset, field.bytes)?;
    }
    writeln!(out, "}}")
}
