//! What tables list: rows of the report, with the cells that `slimline report` shows of them and what they are sorted by.

use std::cmp::Ordering;

use slimline_trace::escape::plain;

use crate::text::cells::{self, element, kind, lines, origin};
use crate::text::data::{fields_by_cost, outside_fields, outside_loops};
use crate::text::table::Column;
use crate::text::{Limits, breakdown};
use crate::view::{Breakdowns, Field, Group, Loop, Report, Row as BreakdownRow};

/// What a table is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Groups,
    /// Of all data structures.
    Fields,
    /// Of one.
    FieldsOf,
    Loops,
    Of(Breakdown),
}

/// The session's weight by something else than data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breakdown {
    Functions,
    Lines,
    Types,
    Threads,
    Regions,
}

impl Breakdown {
    pub(super) fn rows(self, breakdowns: &Breakdowns) -> &[BreakdownRow] {
        match self {
            Self::Functions => &breakdowns.functions,
            Self::Lines => &breakdowns.lines,
            Self::Types => &breakdowns.types,
            Self::Threads => &breakdowns.threads,
            Self::Regions => &breakdowns.regions,
        }
    }

    /// Headings of a row's name and detail.
    fn headings(self) -> [&'static str; 2] {
        match self {
            Self::Functions => ["function", "module"],
            Self::Lines => ["line", "module"],
            Self::Types => ["type", ""],
            Self::Threads => ["thread", "name"],
            Self::Regions => ["region", ""],
        }
    }
}

/// A row: places in the report's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Group(usize),
    Field(usize, usize),
    Loop(usize),
    Of(Breakdown, usize),
}

/// What rows are sorted by.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Key {
    Number(f64),
    Text(String),
    /// Of a line: its file, and its number.
    Place(String, u64),
}

impl Key {
    pub(super) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Place(a, line), Self::Place(b, other)) => a.cmp(b).then(line.cmp(other)),
            // Keys of one column are of one kind.
            _ => Ordering::Equal,
        }
    }
}

/// A table without its cursor: what its rows are, in the report's order.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    pub(super) kind: Kind,
    pub(super) rows: Vec<Row>,
    /// A column before all others, where the rows are parts of something: its heading, and a share for each row.
    pub(super) parts: Option<(&'static str, Vec<f64>)>,
    /// What the table is not about.
    pub(super) note: Option<String>,
}

impl Listing {
    fn of(kind: Kind, rows: Vec<Row>) -> Self {
        Self { kind, rows, parts: None, note: None }
    }

    pub(super) fn groups(report: &Report, is_listed: impl Fn(&Group) -> bool) -> Self {
        let listed = report.groups.iter().enumerate().filter(|(_, group)| is_listed(group));
        Self::of(Kind::Groups, listed.map(|(place, _)| Row::Group(place)).collect())
    }

    /// Data that a thread uses, with the part of each that it has.
    pub(super) fn groups_of_thread(report: &Report, thread: &BreakdownRow) -> Self {
        let part = |group: &Group| {
            let is_it = |tid: u32, name: &str, pid: u32| {
                thread.name == tid.to_string() && thread.detail == format!("{name} (process {pid})")
            };
            let used = group.threads.iter().find(|used| is_it(used.tid, &used.name, used.pid))?;
            Some(used.share)
        };
        let used =
            report.groups.iter().enumerate().filter_map(|(place, group)| Some((Row::Group(place), part(group)?)));
        let (rows, parts) = used.unzip();
        Self { parts: Some(("by it", parts)), ..Self::of(Kind::Groups, rows) }
    }

    pub(super) fn fields(report: &Report) -> Self {
        let found = fields_by_cost(report);
        let note = outside_fields(report, &found);
        let rows = found.into_iter().map(|(group, field)| Row::Field(group, field)).collect();
        Self { note, ..Self::of(Kind::Fields, rows) }
    }

    pub(super) fn fields_of(report: &Report, group: usize) -> Self {
        let fields = 0..report.groups[group].fields.len();
        Self::of(Kind::FieldsOf, fields.map(|field| Row::Field(group, field)).collect())
    }

    pub(super) fn loops(report: &Report, is_listed: impl Fn(&Loop) -> bool) -> Self {
        let listed = report.loops.iter().enumerate().filter(|(_, found)| is_listed(found));
        Self::of(Kind::Loops, listed.map(|(place, _)| Row::Loop(place)).collect())
    }

    pub(super) fn all_loops(report: &Report) -> Self {
        Self { note: outside_loops(report), ..Self::loops(report, |_| true) }
    }

    /// Loops that use a data structure, or one field of it, with what of the session's weight each spends on it.
    pub(super) fn loops_on(report: &Report, group: usize, field: Option<usize>) -> Self {
        let group = &report.groups[group];
        let field = field.map(|field| &group.fields[field]);
        let part = |place: usize, found: &Loop| {
            let part = found.groups.iter().find(|part| part.id == group.id)?;
            match field {
                None => Some(part.share),
                Some(field) if field.loops.contains(&place) => {
                    let at = part.fields.iter().position(|&offset| offset == field.offset);
                    Some(at.and_then(|at| part.field_shares.get(at)).copied().unwrap_or(0.0))
                }
                Some(_) => None,
            }
        };
        let using = report.loops.iter().enumerate();
        let mut using: Vec<(Row, f64)> =
            using.filter_map(|(place, found)| Some((Row::Loop(place), part(place, found)?))).collect();
        using.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (rows, parts) = using.into_iter().unzip();
        Self { parts: Some(("on it", parts)), ..Self::of(Kind::Loops, rows) }
    }

    pub(super) fn breakdown(report: &Report, by: Breakdown) -> Self {
        let rows = 0..by.rows(&report.breakdowns).len();
        Self::of(Kind::Of(by), rows.map(|place| Row::Of(by, place)).collect())
    }

    /// Its columns, that of parts first.
    pub(super) fn columns(&self, report: &Report) -> Vec<Column<'static>> {
        let own = match self.kind {
            Kind::Groups => cells::group_columns(report),
            Kind::Fields => cells::field_of_all_columns(report),
            Kind::FieldsOf => cells::field_columns(report),
            Kind::Loops => cells::loop_columns(report),
            Kind::Of(by) => {
                let [name, detail] = by.headings();
                let mut columns = breakdown::columns(report.session.weight.noun()).to_vec();
                (columns[3], columns[4]) = (Column::Shortened(name, usize::MAX), Column::Text(detail));
                columns
            }
        };
        self.parts.iter().map(|(heading, _)| Column::Number(heading)).chain(own).collect()
    }

    /// What a row's columns show.
    pub(super) fn cells(&self, report: &Report, place: usize) -> Vec<String> {
        let limits = Limits::default();
        let own = match self.rows[place] {
            Row::Group(at) => cells::group(report, &report.groups[at]),
            Row::Field(group, at) => {
                let group = &report.groups[group];
                let field = &group.fields[at];
                match self.kind {
                    Kind::FieldsOf if field.is_used() => cells::field(report, field, cells::is_counted(group), limits),
                    Kind::FieldsOf => unused(self.columns(report).len(), field),
                    _ => cells::field_of_all(report, group, field, limits),
                }
            }
            Row::Loop(at) => cells::loop_(report, &report.loops[at], limits),
            Row::Of(by, at) => breakdown::cells(&by.rows(&report.breakdowns)[at]),
        };
        let part = self.parts.iter().map(|(_, parts)| crate::text::number::percent(parts[place]));
        part.chain(own).collect()
    }

    /// What a row is sorted by in one of [`Listing::columns`].
    pub(super) fn key(&self, report: &Report, place: usize, column: usize) -> Key {
        let own = match &self.parts {
            Some((_, parts)) if column == 0 => return Key::Number(parts[place]),
            Some(_) => column - 1,
            None => column,
        };
        match self.rows[place] {
            Row::Group(at) => group_key(&report.groups[at], own),
            Row::Field(group, at) => {
                let group = &report.groups[group];
                let field = &group.fields[at];
                match self.kind {
                    Kind::FieldsOf => field_key(report, field, own),
                    _ => field_of_all_key(report, group, field, own),
                }
            }
            Row::Loop(at) => loop_key(report, &report.loops[at], own),
            Row::Of(by, at) => breakdown_key(&by.rows(&report.breakdowns)[at], own),
        }
    }

    /// The row's share: what its heat is.
    pub(super) fn share(&self, report: &Report, place: usize) -> f64 {
        match (&self.parts, self.rows[place]) {
            (Some((_, parts)), _) => parts[place],
            (None, Row::Group(at)) => report.groups[at].share,
            (None, Row::Field(group, at)) => {
                let field = &report.groups[group].fields[at];
                if self.kind == Kind::FieldsOf { field.share } else { report.groups[group].share * field.share }
            }
            (None, Row::Loop(at)) => report.loops[at].share,
            (None, Row::Of(by, at)) => by.rows(&report.breakdowns)[at].share,
        }
    }

    /// What a filter looks for words in, in small letters.
    pub(super) fn words(&self, report: &Report, place: usize) -> String {
        let words = match self.rows[place] {
            Row::Group(at) => {
                let group = &report.groups[at];
                let type_name = group.type_name.as_deref().unwrap_or_default();
                format!("{} {} {} {type_name}", group.name, kind(group), origin(group))
            }
            Row::Field(group, at) => {
                let group = &report.groups[group];
                match self.kind {
                    Kind::FieldsOf => group.fields[at].name.clone(),
                    _ => format!("{} {}", group.name, group.fields[at].name),
                }
            }
            Row::Loop(at) => {
                let found = &report.loops[at];
                format!("{} {}", found.function, lines(found))
            }
            Row::Of(by, at) => {
                let row = &by.rows(&report.breakdowns)[at];
                format!("{} {}", row.name, row.detail)
            }
        };
        words.to_lowercase()
    }

    /// All of what a row is, for the line below the table: what is cut in its cells, or has no column where it is narrow.
    pub(super) fn detail(&self, report: &Report, place: usize) -> String {
        let wide = Limits { wide: true, ..Limits::default() };
        match self.rows[place] {
            Row::Group(at) => {
                let group = &report.groups[at];
                let from = cells::group(report, group).pop().unwrap_or_default();
                let what = if group.id == 0 { String::new() } else { format!("{}  ", element(group)) };
                format!("{}  {what}{from}", plain(&group.name))
            }
            Row::Field(group, at) => {
                let group = &report.groups[group];
                let field = &group.fields[at];
                let loops = cells::field(report, field, true, wide).pop().unwrap_or_default();
                format!("{}.{}  {loops}", plain(&group.name), plain(&field.name))
            }
            Row::Loop(at) => {
                let found = &report.loops[at];
                let file = found.file.as_deref().unwrap_or(&found.module_path);
                format!("{} in {}  {}", lines(found), plain(file), cells::touched(report, found, wide))
            }
            Row::Of(by, at) => {
                let row = &by.rows(&report.breakdowns)[at];
                format!("{}  {}", plain(&row.name), plain(&row.detail))
            }
        }
    }
}

/// A field that nothing was seen to use: where it lies, and that.
fn unused(columns: usize, field: &Field) -> Vec<String> {
    let mut cells = vec![String::new(); columns];
    (cells[0], cells[1], cells[2]) = (field.offset.to_string(), field.bytes.to_string(), plain(&field.name));
    cells[columns - 1] = "not seen used".to_owned();
    cells
}

/// By the columns of [`cells::group_columns`].
fn group_key(group: &Group, column: usize) -> Key {
    match column {
        0 => Key::Number(group.share),
        1 => Key::Number(group.share_interval.low),
        2 => Key::Text(group.name.clone()),
        3 => Key::Text(kind(group).to_owned()),
        4 => Key::Number(group.bytes as f64),
        5 => Key::Number(group.blocks as f64),
        6 => Key::Number(group.element_bytes.unwrap_or(0) as f64),
        _ => Key::Text(origin(group)),
    }
}

/// By the columns of [`cells::field_columns`].
fn field_key(report: &Report, field: &Field, column: usize) -> Key {
    let of_loops = Key::Number(field.loops.len() as f64);
    let stride = Key::Number(field.stride_bytes.map_or(f64::NEG_INFINITY, |stride| stride as f64));
    let served = field.served.as_ref();
    match (column, report.session.served.is_some()) {
        (0, _) => Key::Number(field.offset as f64),
        (1, _) => Key::Number(field.bytes as f64),
        (2, _) => Key::Text(field.name.clone()),
        (3, _) => Key::Number(field.share),
        (4, _) => Key::Number(field.share_interval.low),
        (5, false) => Key::Number(field.access_share),
        (6, false) => Key::Number(field.access_share_interval.low),
        (7, false) => Key::Number(field.stores as f64 / (field.loads + field.stores).max(1) as f64),
        (8, false) | (7, true) => stride,
        (5, true) => Key::Number(served.map_or(0.0, |served| served.samples as f64)),
        (6, true) => Key::Number(served.and_then(|served| served.latency).map_or(0.0, |latency| latency.mean_cycles)),
        (8, true) => Key::Text(served.map(|served| crate::text::served::levels(served, 2)).unwrap_or_default()),
        _ => of_loops,
    }
}

/// By the columns of [`cells::field_of_all_columns`].
fn field_of_all_key(report: &Report, group: &Group, field: &Field, column: usize) -> Key {
    match column {
        0 => Key::Number(group.share * field.share),
        1 => Key::Text(group.name.clone()),
        2 => Key::Text(field.name.clone()),
        3 => field_key(report, field, 0),
        4 => Key::Number(field.share),
        _ => Key::Number(field.loops.len() as f64),
    }
}

/// By the columns of [`cells::loop_columns`].
fn loop_key(report: &Report, found: &Loop, column: usize) -> Key {
    match (column, report.session.served.is_some()) {
        (0, _) => Key::Number(found.share),
        (1, _) => Key::Number(found.share_interval.low),
        (2, _) => Key::Text(found.function.clone()),
        (3, _) => {
            let line = if found.first_line > 0 { found.first_line.into() } else { found.start_address };
            Key::Place(found.file.clone().unwrap_or_default(), line)
        }
        (4, true) => {
            let latency = found.served.as_ref().and_then(|served| served.latency);
            Key::Number(latency.map_or(0.0, |latency| latency.mean_cycles))
        }
        _ => Key::Number(found.groups.len() as f64),
    }
}

/// By the columns of [`breakdown::columns`].
fn breakdown_key(row: &BreakdownRow, column: usize) -> Key {
    match column {
        0 => Key::Number(row.share),
        1 => Key::Number(row.share_interval.low),
        2 => Key::Number(row.samples as f64),
        3 => match row.name.rsplit_once(':').map(|(file, line)| (file, line.parse())) {
            Some((file, Ok(line))) => Key::Place(file.to_owned(), line),
            _ => Key::Place(row.name.clone(), 0),
        },
        _ => Key::Text(row.detail.clone()),
    }
}
