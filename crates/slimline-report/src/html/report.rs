//! The report of a session as a page: what was run, which data costs the time, how its structures lie on cache lines, which loops use which
//! fields, what to change, and the source. Each part has a module.

mod advice;
mod code;
mod data;
mod elements;
mod group;
mod overview;
mod source;

use std::collections::HashMap;
use std::fmt::{self, Write};

use slimline_trace::escape::command_line;

pub use self::source::source_files;
use super::page::{self, Escaped};
use super::table::Cell;
use crate::source::Source;
use crate::text::{Limits, told_apart};
use crate::view::{Group, Report};

/// Most groups that have a section of their own: all that cost enough to be in the report as text, in nearly all sessions.
const MOST_SECTIONS: usize = 40;

/// What the parts of the page are made of.
struct Page<'a> {
    report: &'a Report,
    by_id: HashMap<u32, &'a Group>,
    /// Groups that have a section, costliest first.
    sections: Vec<&'a Group>,
    /// What shares are of, in a word.
    cost: &'static str,
}

impl<'a> Page<'a> {
    fn of(report: &'a Report) -> Self {
        let by_id = report.groups.iter().map(|group| (group.id, group)).collect();
        let floor = Limits::default().floor(&report.session);
        let is_advised = |group: &Group| {
            let about = |id: u32| id == group.id;
            report.advice.iter().any(|advice| about(advice.group) || advice.other_groups.iter().any(|&id| about(id)))
        };
        let is_told = |group: &&Group| group.id != 0 && (group.share >= floor || is_advised(group));
        let sections = report.groups.iter().filter(is_told).take(MOST_SECTIONS).collect();
        Self { report, by_id, sections, cost: report.session.weight.noun() }
    }

    fn group(&self, id: u32) -> Option<&'a Group> {
        self.by_id.get(&id).copied()
    }

    fn has_section(&self, group: &Group) -> bool {
        self.sections.iter().any(|told| told.id == group.id)
    }

    /// The name of a group, which leads to its section where it has one.
    fn name(&self, group: &Group) -> String {
        let name = Escaped(&group.name);
        match self.has_section(group) {
            true => format!("<a href=\"#{}\">{name}</a>", group_id(group.id)),
            false => name.to_string(),
        }
    }

    fn name_cell(&self, group: &Group) -> Cell {
        match self.has_section(group) {
            true => Cell::link(&group_id(group.id), &group.name, &group.name).titled(&group.name),
            false => Cell::long_text(&group.name),
        }
    }
}

/// Identifier of what the page says of a group.
fn group_id(id: u32) -> String {
    format!("group-{id}")
}

/// Identifier of the card of an advice, by its place in the report.
fn advice_id(place: usize) -> String {
    format!("advice-{}", place + 1)
}

/// Parts of the page: identifier and heading.
const PARTS: [page::Part; 6] = [
    ("overview", "Overview"),
    ("data", "Data"),
    ("structures", "Structures"),
    ("advice", "Advice"),
    ("source", "Source"),
    ("code", "Code and threads"),
];

/// Writes the page, with the files of `sources` as annotated source; [`source_files`] says which it asks for.
///
/// # Errors
/// As `out`.
pub fn report(out: &mut impl Write, report: &Report, sources: &HashMap<String, Source>) -> fmt::Result {
    let report = &told_apart(report);
    let command = command_line(&report.session.command);
    let title = if command.is_empty() { "an imported session" } else { &command };
    let is_empty = report.session.samples == 0;
    let parts = if is_empty { &PARTS[..1] } else { &PARTS[..] };
    page::begin_parts(out, title, parts, |out| overview::figures(out, &report.session))?;
    let page = Page::of(report);
    for &part in parts {
        page::part(out, part, |out| match part.0 {
            "overview" => overview::overview(out, &page),
            "data" => data::groups(out, &page),
            "structures" => group::sections(out, &page),
            "advice" => advice::cards(out, &page),
            "source" => source::annotated(out, &page, sources),
            _ => code::breakdowns(out, &page),
        })?;
    }
    page::end_parts(out)
}
