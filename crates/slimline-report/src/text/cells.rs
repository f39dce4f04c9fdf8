//! What tables of data structures, fields and loops have in their rows. Whatever shows such a row shows these cells.

use std::collections::HashMap;

use slimline_trace::escape::plain;

use super::number::{RANGE, bytes, confidence, count, percent, plural, range};
use super::table::{Column, shorten, shorten_path};
use super::{Limits, file_name, served};
use crate::view::{Field, Group, Line, Loop, LoopGroup, Place, Quality, Report, Sharing};

/// A row that rests on fewer samples says how many they are.
const FEW_SAMPLES: u64 = 5;

/// Columns of [`group`].
pub(crate) fn group_columns(report: &Report) -> Vec<Column<'static>> {
    vec![
        Column::Number(report.session.weight.noun()),
        Column::Number(RANGE),
        Column::Shortened("data", 24),
        Column::Text("kind"),
        Column::Number("bytes"),
        Column::Number("objects"),
        Column::Number("element"),
        Column::Text("allocated, declared"),
    ]
}

/// A data structure.
pub(crate) fn group(report: &Report, group: &Group) -> Vec<String> {
    vec![
        percent(group.share),
        range(group.share_interval),
        plain(&group.name),
        kind(group).to_owned(),
        if group.bytes == 0 { String::new() } else { about(group, bytes(group.bytes)) },
        if group.blocks == 0 { String::new() } else { about(group, count(group.blocks)) },
        group.element_bytes.map(|n| format!("{n} B")).unwrap_or_default(),
        if group.id == 0 { without_data(&report.session.quality) } else { origin(group) },
    ]
}

/// How many there are is told by those that samples touched, or by a part of the blocks.
pub(crate) fn about(group: &Group, number: String) -> String {
    match (group.blocks_estimated, group.blocks_at_least) {
        (true, _) => format!("~ {number}"),
        (false, true) => format!("≥ {number}"),
        (false, false) => number,
    }
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
    let parts =
        [("computing", quality.no_memory), ("lost", quality.lost + quality.no_code), ("ambiguous", quality.ambiguous)];
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

/// How many there are, of what kind, and their size together; none where that is not known.
pub(crate) fn objects(group: &Group) -> Option<String> {
    let kind = kind(group);
    let kind = if kind.is_empty() { String::new() } else { format!(" ({kind})") };
    let told = || format!("{}{kind}, {} in all", about(group, count(group.blocks)), about(group, bytes(group.bytes)));
    (group.blocks > 0).then(told)
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

/// A cluster: `{x y z}`; of a long one, which is the cold rest of a large structure, the first fields only.
pub(crate) fn braced(cluster: &[u64], names: &impl Fn(u64) -> String) -> String {
    const MOST: usize = 12;
    let mut inside: Vec<String> = cluster.iter().take(MOST).map(|&at| names(at)).collect();
    if cluster.len() > MOST {
        inside.push(format!("… {} more", count((cluster.len() - MOST) as u64)));
    }
    format!("{{{}}}", inside.join(" "))
}

/// Columns of [`field`]. What tells of a field depends on who saw it: bursts show how often it was accessed and stored to,
/// hardware how it was served.
pub(crate) fn field_columns(report: &Report) -> Vec<Column<'static>> {
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

/// A field of a structure. `is_counted`: bursts have [shown accesses](is_counted) to it; where none has, what share of them a field
/// has is not known.
pub(crate) fn field(report: &Report, field: &Field, is_counted: bool, limits: Limits) -> Vec<String> {
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

/// Whether bursts have shown accesses to it.
pub(crate) fn is_counted(group: &Group) -> bool {
    group.fields.iter().any(|field| field.loads + field.stores > 0)
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

/// What fields are called, by offset.
pub(crate) fn names(group: &Group) -> impl Fn(u64) -> String {
    let names: HashMap<u64, String> = group.fields.iter().map(|field| (field.offset, plain(&field.name))).collect();
    move |offset| names.get(&offset).cloned().unwrap_or_else(|| format!("+{offset}"))
}

/// Columns of [`field_of_all`].
pub(crate) fn field_of_all_columns(report: &Report) -> Vec<Column<'static>> {
    // How fields lie in their structure, `report` and `annotate` tell; here they compete with all others.
    vec![
        Column::Number(report.session.weight.noun()),
        Column::Shortened("data", 24),
        Column::Shortened("field", 24),
        Column::Number("offset"),
        Column::Number("of its data"),
        Column::Text("in loops"),
    ]
}

/// A field among those of all data structures.
pub(crate) fn field_of_all(report: &Report, group: &Group, field: &Field, limits: Limits) -> Vec<String> {
    vec![
        percent(group.share * field.share),
        plain(&group.name),
        plain(&field.name),
        field.offset.to_string(),
        percent(field.share),
        loops_of(report, field, limits),
    ]
}

/// Columns of [`loop_`].
pub(crate) fn loop_columns(report: &Report) -> Vec<Column<'static>> {
    let mut columns = vec![
        Column::Number(report.session.weight.noun()),
        Column::Number(RANGE),
        Column::Shortened("function", 24),
        Column::Text("lines"),
    ];
    columns.extend(report.session.served.is_some().then_some(Column::Number("cycles")));
    columns.push(Column::Text("touches"));
    columns
}

/// A loop with the data that it touches.
pub(crate) fn loop_(report: &Report, found: &Loop, limits: Limits) -> Vec<String> {
    let mut cells = vec![
        percent(found.share),
        range(found.share_interval),
        plain(&found.function),
        shorten_path(&lines(found), limits.columns(28)),
    ];
    let is_served = report.session.served.is_some();
    cells.extend(is_served.then(|| found.served.as_ref().map(served::mean_cycles).unwrap_or_default()));
    cells.push(touched(report, found, limits));
    cells
}

/// `bodies{x vx}`: the data that a loop touches.
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

/// What a line accesses: each data structure with what is told of its fields, ` {x vx}`. `group` finds one by its id.
pub(crate) fn accessed<'g>(line: &Line, group: impl Fn(u32) -> Option<&'g Group>) -> Vec<(&'g Group, String)> {
    /// What a line names of a structure; it may go through all of it.
    const MOST_FIELDS: usize = 8;
    let parts = line.groups.iter().filter_map(|part| Some((group(part.id)?, &part.fields)));
    let told = parts.map(|(group, fields)| {
        let name = names(group);
        let mut named: Vec<String> = fields.iter().take(MOST_FIELDS).map(|&at| name(at)).collect();
        if fields.len() > named.len() {
            named.push(format!("+{}", fields.len() - named.len()));
        }
        (group, if group.fields.len() < 2 { String::new() } else { format!(" {{{}}}", named.join(" ")) })
    });
    told.collect()
}
