//! Groups, their fields, and loops.

use std::collections::HashMap;
use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::number::{RANGE, bytes, confidence, count, percent, plural, range};
use super::table::{Column, Rows, shorten, shorten_end, shorten_path};
use super::{Limits, file_name, fold, heading, more, served};
use crate::view::{Field, Group, Loop, LoopGroup, Place, Quality, Report, Sharing};

/// Share from which it is told what of the time a table is not about.
const OUTSIDE: f64 = 0.005;
/// What of a structure's share is in none of its fields has a row from here on; less would be told as nothing.
const LEAST_ELSEWHERE: f64 = 0.0005;
/// A row that rests on fewer samples says how many they are.
const FEW_SAMPLES: u64 = 5;

/// The top table: data structures by share.
pub(super) fn table(out: &mut impl Write, report: &Report, limits: Limits) -> fmt::Result {
    heading(out, "DATA")?;
    let mut rows = Rows::on_page(
        &[
            Column::Number(report.session.weight.noun()),
            Column::Number(RANGE),
            Column::Shortened("data", 24),
            Column::Text("kind"),
            Column::Number("bytes"),
            Column::Number("objects"),
            Column::Number("element"),
            Column::Text("allocated, declared"),
        ],
        limits,
    );
    let shown = shown(report, limits);
    for group in shown {
        rows.push(vec![
            percent(group.share),
            range(group.share_interval),
            plain(&group.name),
            kind(group).to_owned(),
            if group.bytes == 0 { String::new() } else { about(group, bytes(group.bytes)) },
            if group.blocks == 0 { String::new() } else { about(group, count(group.blocks)) },
            group.element_bytes.map(|n| format!("{n} B")).unwrap_or_default(),
            if group.id == 0 { without_data(&report.session.quality) } else { origin(group) },
        ]);
    }
    let rest = &report.groups[shown.len()..];
    if !rest.is_empty() {
        let mut cells = vec![String::new(); 8];
        cells[0] = percent(rest.iter().map(|group| group.share).sum());
        cells[2] = more(rest.iter().map(|group| group.share));
        rows.push(cells);
    }
    rows.write(out, 2)?;
    for (what, told) in [("by type", types_in_several(report, shown)), ("strides", strides_of_scalars(shown))] {
        if !told.is_empty() {
            fold(out, &format!("{what}: {}", told.join(", ")), 2, 4)?;
        }
    }
    Ok(())
}

/// How loops go over data of which one field is used, as arrays of numbers: it has no table of fields.
fn strides_of_scalars(shown: &[Group]) -> Vec<String> {
    let stride = |group: &Group| {
        let mut used = group.fields.iter().filter(|field| field.is_used());
        match (used.next(), used.next()) {
            (Some(only), None) => only.stride_bytes,
            _ => None,
        }
    };
    let told = shown.iter().filter_map(|group| Some((group, stride(group)?)));
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

/// How many there are is told by those that samples touched, or by a part of the blocks.
pub(crate) fn about(group: &Group, number: String) -> String {
    match (group.blocks_estimated, group.blocks_at_least) {
        (true, _) => format!("~ {number}"),
        (false, true) => format!("≥ {number}"),
        (false, false) => number,
    }
}

pub(super) fn shown(report: &Report, limits: Limits) -> &[Group] {
    let floor = limits.floor(&report.session);
    let enough = report.groups.iter().take_while(|group| group.share >= floor).count();
    &report.groups[..enough.min(limits.rows)]
}

/// In few letters; nothing where the name says it already.
pub(crate) fn kind(group: &Group) -> &str {
    match group.kind.as_str() {
        "thread_local" => "thread",
        "shared_memory" => "shared",
        "unattributed" => "",
        kind if kind == group.name => "",
        kind => kind,
    }
}

/// What the time of no known data is: computing, and samples whose address is lost; the rest lies in no known object.
pub(crate) fn without_data(quality: &Quality) -> String {
    let parts = [("computing", quality.no_memory), ("lost", quality.lost + quality.no_code)];
    let told =
        parts.iter().filter(|(_, share)| *share > 0.0).map(|(name, share)| format!("{name} {}", percent(*share)));
    told.collect::<Vec<_>>().join(", ")
}

/// The line comes first, then callers: what does not fit the page is cut at its end.
pub(crate) fn origin(group: &Group) -> String {
    let place = group.allocated_at.as_ref();
    match (place, &group.declared_at) {
        (Some(place), _) => {
            let mut path = own_path(place).join(" < ");
            if let Some(file) = &place.file {
                path = format!("{}:{} {path}", file_name(file), place.line);
            }
            path
        }
        (None, Some(position)) => format!("{}:{}", file_name(&position.file), position.line),
        (None, None) => String::new(),
    }
}

/// Functions on the call path of an allocation: from the program's own innermost one out to `main`; of those without
/// a name the address.
fn own_path(place: &Place) -> Vec<String> {
    let mut functions: Vec<String> = Vec::new();
    let frames = place.stack.iter().map(|frame| frame.rsplit_once(' ').unwrap_or((frame.as_str(), "")));
    for (function, module) in frames.skip_while(|(function, _)| *function != place.function) {
        let address = function.strip_prefix(module).filter(|rest| rest.starts_with('+'));
        functions.push(plain(address.unwrap_or(function)));
        if function == "main" {
            break;
        }
    }
    if functions.is_empty() {
        functions.push(plain(&place.function));
    }
    functions
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
    let structured =
        shown(report, limits).iter().filter(|group| group.fields.iter().filter(|field| field.is_used()).count() > 1);
    let (told, few): (Vec<&Group>, Vec<&Group>) = structured.partition(|group| group.samples >= limits.least_samples());
    for group in told {
        heading(out, title(group, limits))?;
        let columns = field_columns(report);
        let mut rows = Rows::on_page(&columns, limits);
        let used: Vec<&Field> = group.fields.iter().filter(|field| field.is_used()).collect();
        let hottest = hottest(&used, limits.rows);
        let is_counted = group.fields.iter().any(|field| field.loads + field.stores > 0);
        for field in &hottest {
            rows.push(field_cells(report, field, is_counted, limits));
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
            writeln!(out, "  wide: reached only by wide loads that begin in an earlier field")?;
        }
        let names = names(group);
        let strong: Vec<String> = group
            .affinity
            .iter()
            .filter(|pair| pair.value >= 0.005)
            .take(limits.columns(6))
            .map(|pair| {
                let name = |at| shorten(&names(at), limits.columns(40));
                format!("{}–{} {:.2}", name(pair.a), name(pair.b), pair.value)
            })
            .collect();
        if !strong.is_empty() {
            fold(out, &format!("used together (0 to 1): {}", strong.join(", ")), 2, 4)?;
        }
        let is_used = |at: &u64| used.iter().any(|field| field.offset == *at);
        let clusters = group.clusters.iter().map(|cluster| cluster.iter().copied().filter(is_used).collect::<Vec<_>>());
        let clusters: Vec<Vec<u64>> = clusters.filter(|cluster| !cluster.is_empty()).collect();
        if clusters.len() > 1 {
            let clusters: Vec<String> = clusters.iter().map(|cluster| braced(cluster, &names)).collect();
            fold(out, &format!("belong together: {}", clusters.join(" ")), 2, 4)?;
        }
        let unused: Vec<u64> = group.fields.iter().map(|field| field.offset).filter(|at| !is_used(at)).collect();
        if !unused.is_empty() {
            fold(out, &format!("not seen used: {}", braced(&unused, &names)), 2, 4)?;
        }
        if let Some(sharing) = &group.sharing {
            fold(out, &format!("threads: {}", threads(group, sharing)), 2, 4)?;
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

/// Who uses the group at once, and what its cache lines tell.
pub(crate) fn threads(group: &Group, sharing: &Sharing) -> String {
    const MOST: usize = 4;
    let storing = group.threads.iter().filter(|thread| thread.stores > 0).count();
    let named = group.threads.iter().take(MOST).map(|thread| format!("{} {}", thread.tid, plain(&thread.name)));
    let mut named: Vec<String> = named.collect();
    if group.threads.len() > MOST {
        named.push(format!("{} more", count((group.threads.len() - MOST) as u64)));
    }
    let lines = match sharing.evidence.as_str() {
        "shared" => format!(
            "{} of {} cache lines seen shared, what that costs is not judged",
            count(sharing.lines_shared),
            count(sharing.lines)
        ),
        "apart" => "each on cache lines of its own, as far as seen".to_owned(),
        _ => "whether on the same cache lines is not known".to_owned(),
    };
    format!(
        "{} at once ({}), {} of them storing; {lines}",
        group.threads.len(),
        named.join(", "),
        count(storing as u64)
    )
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

/// A cluster: `{x y z}`; of a long one, which is the cold rest of a large structure, the first fields only.
pub(crate) fn braced(cluster: &[u64], names: &impl Fn(u64) -> String) -> String {
    const MOST: usize = 12;
    let mut inside: Vec<String> = cluster.iter().take(MOST).map(|&at| names(at)).collect();
    if cluster.len() > MOST {
        inside.push(format!("… {} more", count((cluster.len() - MOST) as u64)));
    }
    format!("{{{}}}", inside.join(" "))
}

/// What the group's elements are, and how that is known.
pub(crate) fn element(group: &Group) -> String {
    let element = match (&group.type_name, group.element_bytes) {
        (Some(name), Some(size)) => format!("{}, {size} bytes an element", plain(name)),
        (Some(name), None) => plain(name),
        (None, Some(size)) => format!("{size} bytes an element"),
        (None, None) => "element not known".to_owned(),
    };
    let from = match group.element_from.as_deref() {
        Some("debug_info") => " (debug information)".to_owned(),
        Some("stride") => {
            format!(" (from strides, confidence {})", confidence(group.element_confidence.unwrap_or_default()))
        }
        Some("block_size") => " (the size of every block)".to_owned(),
        _ => String::new(),
    };
    format!("{element}{from}")
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

/// What tells of a field depends on who saw it: bursts show how often it was accessed and stored to, hardware how it was
/// served.
fn field_columns(report: &Report) -> Vec<Column<'static>> {
    let seen = match report.session.served {
        None => {
            vec![Column::Number("accesses"), Column::Number(RANGE), Column::Number("stores"), Column::Number("stride")]
        }
        Some(_) => vec![
            Column::Number("samples"),
            Column::Number("cycles"),
            Column::Number("stride"),
            Column::Shortened("served by", 21),
        ],
    };
    let mut columns = vec![
        Column::Number("offset"),
        Column::Number("size"),
        Column::Shortened("field", 22),
        Column::Number(report.session.weight.noun()),
        Column::Number(RANGE),
    ];
    columns.extend(seen);
    columns.push(Column::Text("in loops"));
    columns
}

/// `is_counted`: bursts have shown accesses to its structure; where none has, what share of them a field has is not known.
fn field_cells(report: &Report, field: &Field, is_counted: bool, limits: Limits) -> Vec<String> {
    let mut cells = vec![
        format!("{}", field.offset),
        format!("{}", field.bytes),
        plain(&field.name),
        percent(field.share),
        range(field.share_interval),
    ];
    let stride = field.stride_bytes.map(|stride| stride.to_string()).unwrap_or_default();
    match (&report.session.served, &field.served) {
        (None, _) => {
            let accesses = field.loads + field.stores;
            let stores = if accesses == 0 { 0.0 } else { field.stores as f64 / accesses as f64 };
            cells.extend(match field.is_only_spanned() {
                _ if !is_counted => [const { String::new() }; 3],
                true => ["wide".to_owned(), String::new(), String::new()],
                false => [percent(field.access_share), range(field.access_share_interval), percent(stores)],
            });
            cells.push(stride);
        }
        (Some(_), None) => cells.extend(["0".to_owned(), String::new(), stride, String::new()]),
        (Some(_), Some(of_field)) => {
            cells.extend([count(of_field.samples), served::mean_cycles(of_field), stride, served::levels(of_field, 2)]);
        }
    }
    cells.push(loops_of(report, field, limits));
    cells
}

fn loops_of(report: &Report, field: &Field, limits: Limits) -> String {
    let most = limits.columns(3);
    let loops = field.loops.iter().filter_map(|&row| report.loops.get(row));
    let named: Vec<String> = loops.take(most).map(lines).collect();
    let more = field.loops.len().saturating_sub(named.len());
    if more == 0 { named.join(" ") } else { format!("{} +{more}", named.join(" ")) }
}

/// File and lines; where there are none, the addresses of its code in its module.
pub(crate) fn lines(found: &Loop) -> String {
    match &found.file {
        Some(file) => format!("{}:{}", file_name(file), line_range(found)),
        None => line_range(found),
    }
}

/// `615-616`, `7`, `7:31` beside another loop on that line, `7(inner)` inside of one, or as addresses `0x15b40-0x15b7c`.
pub(crate) fn line_range(found: &Loop) -> String {
    let lines = match (found.first_line, found.last_line) {
        (0, _) => return format!("{:#x}-{:#x}", found.start_address, found.end_address),
        (first, last) if first == last => match found.column {
            Some(column) => format!("{first}:{column}"),
            None => first.to_string(),
        },
        (first, last) => format!("{first}-{last}"),
    };
    match found.inner {
        0 => lines,
        1 => format!("{lines}(inner)"),
        around => format!("{lines}({around} inside)"),
    }
}

pub(crate) fn names(group: &Group) -> impl Fn(u64) -> String {
    let names: HashMap<u64, String> = group.fields.iter().map(|field| (field.offset, plain(&field.name))).collect();
    move |offset| names.get(&offset).cloned().unwrap_or_else(|| format!("+{offset}"))
}

/// All fields of all groups, by share of the session.
pub(super) fn fields(out: &mut impl Write, report: &Report, limits: Limits) -> fmt::Result {
    heading(out, "FIELDS")?;
    let mut found: Vec<(&Group, &Field)> =
        report.groups.iter().flat_map(|group| group.fields.iter().map(move |field| (group, field))).collect();
    found.retain(|(_, field)| field.is_used() && !field.is_only_spanned());
    found.sort_by(|a, b| (b.0.share * b.1.share).total_cmp(&(a.0.share * a.1.share)));
    // How fields lie in their structure, `report` and `annotate` tell; here they compete with all others.
    let mut rows = Rows::on_page(
        &[
            Column::Number(report.session.weight.noun()),
            Column::Shortened("data", 24),
            Column::Shortened("field", 24),
            Column::Number("offset"),
            Column::Number("of its data"),
            Column::Text("in loops"),
        ],
        limits,
    );
    let floor = limits.floor(&report.session);
    let enough = found.iter().take_while(|(group, field)| group.share * field.share >= floor).count();
    let shown = enough.min(limits.rows);
    for (group, field) in &found[..shown] {
        rows.push(vec![
            percent(group.share * field.share),
            plain(&group.name),
            plain(&field.name),
            field.offset.to_string(),
            percent(field.share),
            loops_of(report, field, limits),
        ]);
    }
    if shown < found.len() {
        let mut cells = vec![String::new(); 6];
        cells[0] = percent(found[shown..].iter().map(|(group, field)| group.share * field.share).sum());
        cells[1] = more(found[shown..].iter().map(|(group, field)| group.share * field.share));
        rows.push(cells);
    }
    rows.write(out, 2)?;
    let outside = 1.0 - found.iter().map(|(group, field)| group.share * field.share).sum::<f64>();
    if outside >= OUTSIDE {
        let cost = report.session.weight.noun();
        writeln!(out, "  {} of the {cost} is spent on data without known fields", percent(outside))?;
    }
    Ok(())
}

/// Loops with the data they touch.
pub(super) fn loops(out: &mut impl Write, report: &Report, limits: Limits) -> fmt::Result {
    heading(out, "LOOPS")?;
    let mut columns = vec![
        Column::Number(report.session.weight.noun()),
        Column::Number(RANGE),
        Column::Shortened("function", 24),
        Column::Text("lines"),
    ];
    let is_served = report.session.served.is_some();
    columns.extend(is_served.then_some(Column::Number("cycles")));
    columns.push(Column::Text("touches"));
    let mut rows = Rows::on_page(&columns, limits);
    let floor = limits.floor(&report.session);
    let enough = report.loops.iter().take_while(|found| found.share >= floor).count().min(limits.rows);
    for found in &report.loops[..enough] {
        let mut cells = vec![
            percent(found.share),
            range(found.share_interval),
            plain(&found.function),
            shorten_path(&lines(found), limits.columns(28)),
        ];
        cells.extend(is_served.then(|| found.served.as_ref().map(served::mean_cycles).unwrap_or_default()));
        cells.push(touched(report, found, limits));
        rows.push(cells);
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
        let legend = "lines of loops: 7:31 begins in column 31 of line 7, where another one does; (inner), (2 inside): \
                      inside of one, of two more on the same lines";
        fold(out, legend, 2, 4)?;
    }
    let outside = 1.0 - report.loops.iter().map(|found| found.share).sum::<f64>();
    if outside >= OUTSIDE {
        let cost = report.session.weight.noun();
        writeln!(out, "  {} of the {cost} is outside of all loops", percent(outside))?;
    }
    Ok(())
}

pub(crate) fn touched(report: &Report, found: &Loop, limits: Limits) -> String {
    // The first group is what belongs to no data; what computing has of it is told as such.
    let is_worth_it = |part: &&LoopGroup| part.id != 0 || part.share - found.no_memory_share >= 0.1 * found.share;
    let computing = (found.no_memory_share >= 0.1 * found.share && found.no_memory_share > 0.0)
        .then(|| format!("({} computing)", percent(found.no_memory_share)));
    let parts = found
        .groups
        .iter()
        .filter(is_worth_it)
        .take(limits.columns(3))
        .filter_map(|part| report.groups.iter().find(|group| group.id == part.id).map(|group| (part, group)))
        .map(|(part, group)| {
            let name = names(group);
            let fields: Vec<String> = part.fields.iter().take(limits.columns(6)).map(|&at| name(at)).collect();
            let group_name = shorten(&plain(&group.name), limits.columns(24));
            let fields = match fields.is_empty() || group.fields.len() < 2 {
                true => String::new(),
                false => format!("{{{}}}", fields.join(" ")),
            };
            let few = match part.samples {
                0 => " (no sample)".to_owned(),
                few @ 1..FEW_SAMPLES => format!(" ({})", plural(few, "sample")),
                _ => String::new(),
            };
            format!("{group_name}{fields}{few}")
        });
    computing.into_iter().chain(parts).collect::<Vec<_>>().join("  ")
}
