//! What there is to say of one data structure: how its element lies on cache lines, its fields, and what is advised for it.

use ratatui_core::text::{Line, Span};
use slimline_trace::escape::plain;

use super::list::List;
use super::listing::{Listing, Row};
use super::map;
use super::theme::{DIM, HEADING, Theme};
use super::window::{Motion, Window};
use crate::structure_map::{self, as_advised};
use crate::text::advice::{Part, parts};
use crate::text::cells::{element, objects, without_data};
use crate::text::data::{WIDE, remarks};
use crate::text::number::percent;
use crate::text::served::levels_and_others;
use crate::text::{Limits, folded, quality};
use crate::view::{Advice, Field, Group, Report};

/// The share of a structure that is in none of its fields is told from here on.
const LEAST_ELSEWHERE: f64 = 0.0005;

/// A line of what is said.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    Words(Line<'static>),
    /// The headings of the table of fields.
    FieldHeadings,
    /// A row of it: the place among those that are shown.
    Field(usize),
}

/// A data structure that is looked at.
pub(super) struct Structure {
    /// Its place in the report.
    pub(super) group: usize,
    pub(super) fields: List,
    /// Where the cursor is among [`Structure::said`].
    pub(super) window: Window,
    said: Vec<Said>,
    /// What `said` was made for: columns, and rows of the table.
    made_for: Option<(usize, usize)>,
}

impl Structure {
    pub(super) fn new(report: &Report, group: usize, field: Option<usize>) -> Self {
        let mut fields = List::new(report, Listing::fields_of(report, group));
        if let Some(field) = field {
            fields.choose(Row::Field(group, field));
        }
        Self { group, fields, window: Window::default(), said: Vec::new(), made_for: None }
    }

    /// All lines, for a terminal of `width` columns.
    pub(super) fn said(&mut self, report: &Report, width: usize, theme: Theme) -> &[Said] {
        let wanted = Some((width, self.fields.shown.len()));
        if self.made_for != wanted {
            let is_first = self.made_for.is_none();
            let was_at = self.said.get(self.window.cursor).cloned();
            self.said = said(report, self.group, self.fields.shown.len(), width, theme);
            self.made_for = wanted;
            if is_first {
                let chosen = Said::Field(self.fields.window.cursor);
                self.window = Window::at(self.said.iter().position(|line| *line == chosen).unwrap_or(0));
            } else if let Some(field @ Said::Field(_)) = was_at {
                // On a terminal of another width it is another line.
                self.window.cursor = self.said.iter().position(|line| *line == field).unwrap_or(self.window.cursor);
            }
            self.window.cursor = self.window.cursor.min(self.said.len().saturating_sub(1));
        }
        &self.said
    }

    pub(super) fn go(&mut self, motion: Motion) {
        self.window.go(motion, self.said.len());
    }

    /// The cursor goes to the first row of the table, as its rows are others, or in another order.
    pub(super) fn fields_changed(&mut self, report: &Report, theme: Theme) {
        let Some((width, _)) = self.made_for else { return };
        let said = self.said(report, width, theme);
        let headings = said.iter().position(|line| *line == Said::FieldHeadings).unwrap_or(0);
        self.window.cursor = (headings + 1).min(self.said.len().saturating_sub(1));
    }

    /// The field under the cursor, by its place in the structure.
    pub(super) fn chosen(&self) -> Option<usize> {
        let Said::Field(shown) = self.said.get(self.window.cursor)? else { return None };
        match self.fields.listing.rows[*self.fields.shown.get(*shown)?] {
            Row::Field(_, field) => Some(field),
            Row::Group(_) | Row::Loop(_) | Row::Of(..) => None,
        }
    }
}

impl Structure {
    /// All of the field under the cursor; nothing where there is none.
    pub(super) fn detail(&self, report: &Report) -> String {
        let Some(Said::Field(shown)) = self.said.get(self.window.cursor) else { return String::new() };
        self.fields.shown.get(*shown).map(|&place| self.fields.listing.detail(report, place)).unwrap_or_default()
    }
}

fn said(report: &Report, place: usize, fields: usize, width: usize, theme: Theme) -> Vec<Said> {
    let group = &report.groups[place];
    let cost = report.session.weight.noun();
    let mut page = Page { said: Vec::new(), width };
    if group.id == 0 {
        unattributed(&mut page, report);
        return page.said;
    }
    page.fold(&element(group));
    for (label, told) in facts(group) {
        page.labelled(label, &told);
    }
    if let Some(map) = structure_map::as_it_is(group) {
        page.blank();
        page.lines(map::lines(&structure_map::title(group, cost), &map, width, theme));
        page.lines(map::legend(width, theme, cost));
    }
    if !group.fields.is_empty() {
        page.heading(&format!("FIELDS  shares of its own {cost}"));
        page.said.push(Said::FieldHeadings);
        page.said.extend((0..fields).map(Said::Field));
        if fields < group.fields.len() {
            page.fold("  others are filtered out");
        }
        if group.elsewhere >= LEAST_ELSEWHERE {
            page.fold(&format!("  in no field {}", percent(group.elsewhere)));
        }
        if group.fields.iter().any(Field::is_only_spanned) {
            page.fold(&format!("  {WIDE}"));
        }
    }
    for (label, told) in remarks(group, Limits::default()) {
        page.labelled(label, &told);
    }
    let is_about = |advice: &&Advice| advice.group == group.id || advice.other_groups.contains(&group.id);
    for advice in report.advice.iter().filter(is_about) {
        page.advice(report, group, advice, theme);
    }
    if let Some(at) = group.allocated_at.as_ref().filter(|at| !at.stack.is_empty()) {
        page.heading("ALLOCATED BY");
        at.stack.iter().for_each(|frame| page.indented(&plain(frame), 2, 4));
    }
    page.said
}

/// What a reader wants to know before the fields.
fn facts(group: &Group) -> Vec<(&'static str, String)> {
    let at = |file: &str, line: u32| format!("{}:{line}", plain(file));
    let facts = [
        ("objects", objects(group)),
        ("allocated", group.allocated_at.as_ref().map(|_| crate::text::cells::origin(group))),
        ("declared", group.declared_at.as_ref().map(|position| at(&position.file, position.line))),
        ("served by", group.served.as_ref().map(levels_and_others)),
    ];
    facts.into_iter().filter_map(|(label, told)| Some((label, told?))).collect()
}

/// Why the rest belongs to no data.
fn unattributed(page: &mut Page, report: &Report) {
    let cost = report.session.weight.noun();
    page.fold(&format!("What of the {cost} no data is known for: {}.", without_data(&report.session.quality)));
    page.blank();
    for (share, words) in quality::shares(&report.coverage, cost) {
        page.fold(&format!("{share} {words}"));
    }
    if !report.coverage.missing.is_empty() {
        page.heading("NOT RESOLVED");
    }
    for missing in &report.coverage.missing {
        let why = quality::words(&missing.what, &missing.reason);
        page.indented(&format!("{:>7}  {}: {why}", percent(missing.share), missing.what), 2, 11);
    }
}

/// Lines as they are gathered.
struct Page {
    said: Vec<Said>,
    width: usize,
}

impl Page {
    fn lines(&mut self, lines: Vec<Line<'static>>) {
        self.said.extend(lines.into_iter().map(Said::Words));
    }

    fn blank(&mut self) {
        self.lines(vec![Line::default()]);
    }

    fn heading(&mut self, text: &str) {
        self.blank();
        self.lines(vec![Line::styled(text.to_owned(), HEADING)]);
    }

    fn fold(&mut self, text: &str) {
        self.indented(text, 0, 2);
    }

    fn indented(&mut self, text: &str, first: usize, indent: usize) {
        let lines = folded(text, self.width, first, indent);
        self.lines(lines.into_iter().map(Line::raw).collect());
    }

    fn labelled(&mut self, label: &str, told: &str) {
        let lines = folded(&format!("{label}: {told}"), self.width, 0, 2);
        let mut lines: Vec<Line<'static>> = lines.into_iter().map(Line::raw).collect();
        // The label is as wide as it was, unless it was cut.
        if let Some(rest) = lines[0].spans[0].content.strip_prefix(label).map(str::to_owned) {
            lines[0] = Line::from(vec![Span::styled(label.to_owned(), DIM), Span::raw(rest)]);
        }
        self.lines(lines);
    }

    fn advice(&mut self, report: &Report, group: &Group, advice: &Advice, theme: Theme) {
        self.heading("ADVICE");
        let styled = |lines: Vec<String>, style| lines.into_iter().map(|line| Line::styled(line, style)).collect();
        for part in parts(advice, report.session.weight) {
            match part {
                Part::Title(title) => self.lines(styled(folded(&title, self.width, 0, 2), theme.advice())),
                Part::Declared(at) => self.lines(styled(folded(&at, self.width, 0, 2), DIM)),
                Part::Told(told) => self.indented(&told, 0, 0),
                Part::Code(code) => {
                    self.blank();
                    for line in code {
                        let within = line.len() - line.trim_start().len();
                        self.indented(line.trim_start(), 4 + within, 8 + within);
                    }
                }
                Part::Lines(told) => {
                    self.blank();
                    self.indented(&told, 0, 2);
                }
            }
        }
        for (title, map) in as_advised(group, advice, report.session.weight.noun()) {
            self.blank();
            self.lines(map::lines(&title, &map, self.width, theme));
        }
    }
}
