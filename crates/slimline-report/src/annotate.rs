//! A structure as pahole prints it, with what each field costs.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use slimline_analyze::declared_layout::{LINE_BYTES, crosses_line};
use slimline_analyze::full_trace::filter::is_match;
use slimline_trace::escape::plain;

use crate::declared_layouts::TypeLayout;
use crate::text::number::percent;
use crate::text::served::{levels, mean_cycles, others};
use crate::text::{WIDTH, line_range, shorten_end, shorten_path};
use crate::view::{Field, Group, Layout, LayoutMember, Report, Served};

/// Column at which costs begin.
const COST_COLUMN: usize = 40;
/// Room for the cost: what offset and size, 14 columns and a blank, leave of the page.
const COST_WIDTH: usize = WIDTH - COST_COLUMN - 15;

/// Groups whose element type matches `name`: the whole name, or its last part (`Node` for `struct Node`, `ns::Node`), with
/// the arguments of a template or without (`ns::Node<int>`).
pub fn matching<'a>(report: &'a Report, name: &str) -> Vec<&'a Group> {
    let matches = |full: &str| is_called(full, name);
    report.groups.iter().filter(|group| group.type_name.as_deref().is_some_and(matches) || group.name == name).collect()
}

/// Element types that have a base or a member of a type which matches `name`, the hottest first.
pub fn holding<'a>(report: &'a Report, name: &str) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for layout in report.groups.iter().filter_map(|group| group.layout.as_ref()) {
        let holds = layout.members.iter().any(|member| member.nested && is_called(&member.type_name, name));
        if holds && !found.contains(&layout.name.as_str()) {
            found.push(&layout.name);
        }
    }
    found
}

/// Whether that is a type's whole name, or its last part (`Node` for `struct Node`, `ns::Node`), with the arguments of a template or
/// without; `*` and `?` in it stand for others.
pub fn is_called(full: &str, name: &str) -> bool {
    let template = full.split('<').next().unwrap_or(full);
    let fortran = full.strip_prefix("type(").and_then(|rest| rest.strip_suffix(')'));
    let names = [full, template].into_iter().map(|path| [Some(path), path.rsplit([' ', ':']).next()]);
    names.chain([[fortran, None]]).flatten().flatten().any(|own| is_match(name, own))
}

/// Writes the element type of `group`: offsets, sizes, holes, cache-line boundaries, and the cost of each field.
pub fn structure(out: &mut impl Write, report: &Report, group: &Group) -> fmt::Result {
    match &group.layout {
        Some(layout) => declared(out, report, group, layout),
        None => observed(out, report, group),
    }
}

fn declared(out: &mut impl Write, report: &Report, group: &Group, layout: &Layout) -> fmt::Result {
    header(out, report, group)?;
    // By where the fields are that accesses are counted by: the member whose line has their cost.
    let mut told: BTreeMap<Vec<u64>, String> = BTreeMap::new();
    let gaps = members(out, layout, &columns(report), |member| {
        let fields = if is_marker(member, layout) { Vec::new() } else { fields_of(group, member) };
        let offsets: Vec<u64> = fields.iter().map(|field| field.offset).collect();
        // The processor loads and stores a unit of bit-fields as one, and alternatives of a union are the same bytes: so
        // they are counted as one, and told once.
        let cost = match told.get(&offsets) {
            Some(first) => format!("    with {}", plain(first)),
            None => cost(report, &fields),
        };
        if !offsets.is_empty() {
            told.entry(offsets).or_insert_with(|| member.name.clone());
        }
        cost
    })?;
    summary(out, layout.bytes, gaps, "")?;
    if group.fields.iter().any(Field::is_only_spanned) {
        writeln!(out, "/* wide: reached only by wide loads that begin in an earlier field */")?;
    }
    Ok(())
}

/// Writes a declared type by itself: what `slimline layouts` says of it, and its members.
///
/// # Errors
/// As `out`.
pub fn declared_type(out: &mut impl Write, declared: &TypeLayout) -> fmt::Result {
    if let Some(at) = &declared.declared_at {
        writeln!(out, "/* {} */", shorten_path(&plain(&format!("{}:{}", at.file, at.line)), WIDTH - 6))?;
    }
    let layout = Layout {
        name: declared.name.clone(),
        language: declared.language.clone(),
        bytes: declared.bytes,
        members: declared.members.clone(),
    };
    let all = members(out, &layout, " offset  size", |member| {
        let crosses = member.bits.is_none() && crosses_line(member.offset, member.bytes);
        if crosses { "crosses a line".to_owned() } else { String::new() }
    })?;
    let own = Gaps { holes: (declared.holes, declared.hole_bytes), padding: (1, declared.padding_bytes) };
    summary(out, declared.bytes, own, &format!(", alignment {}", declared.alignment))?;
    let within = all.holes.1.saturating_sub(declared.hole_bytes) + all.padding.1.saturating_sub(declared.padding_bytes);
    if within > 0 {
        writeln!(out, "/* {} more within structures that it has */", bytes_word(within))?;
    }
    if declared.lacks_virtual_bases {
        writeln!(out, "/* where its virtual bases lie is not known: they are not among its members */")?;
    }
    if declared.same_name > 1 {
        writeln!(out, "/* one of {} types of this name */", declared.same_name)?;
    }
    Ok(())
}

/// Writes a structure with its holes and where cache lines begin; behind offset and size of each member is what is told of it, under
/// `columns`. Holes of structures within it count, too.
fn members(
    out: &mut impl Write,
    layout: &Layout,
    columns: &str,
    mut told: impl FnMut(&LayoutMember) -> String,
) -> Result<Gaps, fmt::Error> {
    let open = format!("{} {{", plain(&layout.name));
    if open.chars().count() > COST_COLUMN {
        writeln!(out, "{open}")?;
        writeln!(out, "{:COST_COLUMN$}{columns}", "")?;
    } else {
        writeln!(out, "{open:<COST_COLUMN$}{columns}")?;
    }
    let mut line = 0;
    let mut gaps = Gaps::default();
    let mut open: Vec<&LayoutMember> = Vec::new();
    for member in &layout.members {
        while let Some(inner) = open.pop_if(|inner| inner.depth >= member.depth) {
            close(out, inner, layout)?;
        }
        if member.offset / LINE_BYTES > line {
            line = member.offset / LINE_BYTES;
            let indent = indent(member);
            writeln!(out, "{:indent$}/* --- cache line {line} ({} bytes) --- */", "", line * LINE_BYTES)?;
        }
        if member.is_hole() {
            let word = if member.padding { "padding" } else { "hole" };
            let so_far = if member.padding { &mut gaps.padding } else { &mut gaps.holes };
            *so_far = (so_far.0 + 1, so_far.1 + member.bytes);
            writeln!(out, "{:indent$}/* {} {word} */", "", bytes_word(member.bytes), indent = indent(member))?;
            continue;
        }
        if member.nested {
            writeln!(out, "{:indent$}{} {{", "", opening(member, layout), indent = indent(member))?;
            open.push(member);
            continue;
        }
        let text = format!("{:indent$}{}", "", declaration(member, layout), indent = indent(member));
        row(out, &text, member, &told(member))?;
    }
    while let Some(inner) = open.pop() {
        close(out, inner, layout)?;
    }
    writeln!(out, "}};")?;
    Ok(gaps)
}

/// Holes, and padding at the ends of structures: how many there are, and their bytes.
#[derive(Clone, Copy, Default)]
struct Gaps {
    holes: (u64, u64),
    padding: (u64, u64),
}

/// `/* size 72 bytes, 2 cache lines, 1 hole of 7 bytes, 3 bytes of padding */`, with what is told behind that.
fn summary(out: &mut impl Write, bytes: u64, gaps: Gaps, rest: &str) -> fmt::Result {
    let lines = bytes.div_ceil(LINE_BYTES);
    let holes = hole_words(gaps.holes);
    let padding =
        if gaps.padding.1 == 0 { String::new() } else { format!(", {} of padding", bytes_word(gaps.padding.1)) };
    let plural = if lines == 1 { "" } else { "s" };
    writeln!(out, "/* size {}, {lines} cache line{plural}, {holes}{padding}{rest} */", bytes_word(bytes))
}

fn hole_words(holes: (u64, u64)) -> String {
    match holes {
        (0, _) => "no holes".to_owned(),
        (1, bytes) => format!("1 hole of {}", bytes_word(bytes)),
        (n, bytes) => format!("{n} holes, {} in all", bytes_word(bytes)),
    }
}

fn bytes_word(bytes: u64) -> String {
    if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") }
}

/// A line of the structure: declaration, offset, size and cost; a long declaration has a line of its own.
fn row(out: &mut impl Write, text: &str, member: &LayoutMember, cost: &str) -> fmt::Result {
    if text.chars().count() > COST_COLUMN {
        writeln!(out, "{text}")?;
        write!(out, "{:COST_COLUMN$}", "")?;
    } else {
        write!(out, "{text:<COST_COLUMN$}")?;
    }
    let line = format!(" {:>6} {:>5}  {}", member.offset, member.bytes, shorten_end(cost, COST_WIDTH));
    writeln!(out, "{}", line.trim_end())
}

/// What begins a nested structure: its type, or in Rust its name and type.
fn opening(member: &LayoutMember, layout: &Layout) -> String {
    let (name, type_name) = (plain(&member.name), plain(&member.type_name));
    match layout.language.as_str() {
        "rust" => format!("{name}: {type_name}"),
        // A structure without a name is spelled `struct {…}`.
        _ => type_name.trim_end_matches(" {…}").to_owned(),
    }
}

fn close(out: &mut impl Write, member: &LayoutMember, layout: &Layout) -> fmt::Result {
    let text = match (layout.language.as_str(), member.name.as_str()) {
        ("rust", _) => "},".to_owned(),
        (_, "") => "};".to_owned(),
        (_, name) => format!("}} {};", plain(name)),
    };
    row(out, &format!("{:indent$}{text}", "", indent = indent(member)), member, "")
}

fn header(out: &mut impl Write, report: &Report, group: &Group) -> fmt::Result {
    let cost = report.session.weight.noun();
    writeln!(out, "/* {}: {} of the session's {cost} */", plain(&group.name), percent(group.share))?;
    let Some(served) = &group.served else { return Ok(()) };
    for told in [served_words(served), others(served)].iter().filter(|told| !told.is_empty()) {
        writeln!(out, "/* {} */", shorten_end(told, WIDTH - 6))?;
    }
    Ok(())
}

/// `412 samples, 96 cycles on average; L1 62 %, DRAM 20 %`
fn served_words(served: &Served) -> String {
    let latency = match mean_cycles(served) {
        none if none.is_empty() => none,
        cycles => format!(", {cycles} cycles on average"),
    };
    let levels = match levels(served, 4) {
        none if none.is_empty() => none,
        levels => format!("; {levels}"),
    };
    format!("{} samples{latency}{levels}", served.samples)
}

/// Names of the columns behind a member: what is told of a field's accesses is how often bursts saw them, or how many
/// cycles hardware measured.
fn columns(report: &Report) -> String {
    let accesses = if report.session.served.is_some() { "cycles" } else { "accesses" };
    format!(" offset  size  {:>7}  {accesses:>8}  loops", report.session.weight.noun())
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

/// The fields that accesses to a member are counted by.
/// Whether a member has no bytes of its own where another has some, as an empty base class or `PhantomData`. An array
/// without a length, behind all others, has those that follow.
fn is_marker(member: &LayoutMember, layout: &Layout) -> bool {
    let has_them = |other: &LayoutMember| {
        !other.nested
            && !other.is_hole()
            && (other.offset..other.offset.saturating_add(other.bytes)).contains(&member.offset)
    };
    member.bytes == 0 && layout.members.iter().any(has_them)
}

fn fields_of<'g>(group: &'g Group, member: &LayoutMember) -> Vec<&'g Field> {
    let (start, end) = match member.bits {
        // Of a bit-field, the bytes that hold its bits.
        Some((first, bits)) => {
            let (first, end) = (u64::from(first), u64::from(first) + u64::from(bits));
            (member.offset + first / 8, member.offset + end.div_ceil(8))
        }
        None => (member.offset, member.offset + member.bytes.max(1)),
    };
    let overlaps = |field: &&Field| field.offset < end && start < field.offset + field.bytes.max(1);
    group.fields.iter().filter(overlaps).collect()
}

fn cost(report: &Report, fields: &[&Field]) -> String {
    if !fields.iter().any(|field| field.is_used()) {
        return costs("–", "–", &[]);
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
        .map(|found| format!("{}:{}", plain(&found.function), line_range(found)))
        .collect();
    if fields.iter().filter(|field| field.is_used()).all(|field| field.is_only_spanned()) {
        return costs("–", "wide", &names);
    }
    let seen = match (&report.session.served, fields) {
        (None, _) => percent(accesses),
        // Means of several don't add up.
        (Some(_), [field]) => field.served.as_ref().map(mean_cycles).unwrap_or_default(),
        (Some(_), _) => String::new(),
    };
    costs(&percent(share), &seen, &names)
}

/// Under the heading: cost, accesses or cycles, and loops.
fn costs(cost: &str, accesses: &str, loops: &[String]) -> String {
    format!("{cost:>7}  {accesses:>8}  {}", loops.join(" ")).trim_end().to_owned()
}

/// Without debug information: the fields as they were accessed.
fn observed(out: &mut impl Write, report: &Report, group: &Group) -> fmt::Result {
    header(out, report, group)?;
    let size = group.element_bytes.map_or("size not known".to_owned(), |bytes| format!("{bytes} bytes"));
    writeln!(out, "/* no debug information: offsets and sizes as accessed; element {size} */")?;
    writeln!(out, "{:<COST_COLUMN$}{}", "{", columns(report))?;
    for field in &group.fields {
        let member = LayoutMember { offset: field.offset, bytes: field.bytes, ..LayoutMember::default() };
        let text = format!("    {}", plain(&field.name));
        row(out, &text, &member, &cost(report, &[field]))?;
    }
    writeln!(out, "}}")
}
