//! The screen: what was run and how honest its numbers are above, what is looked at, what is under the cursor and what keys do below.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use slimline_trace::escape::{command_line, plain};

use super::code::{Code, touches};
use super::draw_list::{Columns, put};
use super::help::{KEYS, hints};
use super::list::List;
use super::screen::Screen;
use super::structure::{Said, Structure};
use super::theme::{CHOSEN, DIM, HEADING, Theme};
use super::{Browser, Mode};
use crate::text::head;
use crate::text::number::{count, percent};
use crate::text::table::{shorten, shorten_end, shorten_path};
use crate::text::{file_name, folded};
use crate::view::{Report, Session};

/// Terminals with fewer lines have less of the head.
const WHOLE_HEAD: usize = 16;
const SHORT_HEAD: usize = 10;
/// From so many columns on source has a column of what lines touch.
const WIDE_CODE: usize = 90;
/// Rows of the head that every report has: what more there are a reader is to be told of.
const USUAL_ROWS: usize = 5;

impl Browser {
    /// Draws what is in sight. Only rows that are get made.
    pub fn draw(&mut self, area: Rect, buffer: &mut Buffer) {
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        if width == 0 || height == 0 {
            return;
        }
        let head = self.head(width, height);
        for (at, (text, style)) in head.iter().enumerate() {
            put(buffer, line(area, at), 0, width, &shorten_end(text, width), *style);
        }
        let top = head.len();
        if self.report.session.samples == 0 {
            self.draw_why_empty(buffer, below(area, top, 1));
        } else {
            self.draw_path(buffer, line(area, top));
            let note = self.note().filter(|_| height >= SHORT_HEAD);
            let lower = 2 + usize::from(note.is_some());
            self.draw_body(buffer, below(area, top + 1, lower));
            let rows = [note.unwrap_or_default(), self.under_the_cursor()];
            let skipped = 3 - lower;
            for (at, text) in rows.iter().skip(skipped).enumerate() {
                let at = (height + at).checked_sub(lower);
                if let Some(at) = at {
                    put(buffer, line(area, at), 0, width, &shorten_end(text, width), DIM);
                }
            }
        }
        self.draw_keys(buffer, line(area, height - 1));
        self.draw_overlay(buffer, area);
    }

    /// What was run, how it was sampled, what of it no data is known for and what was lost.
    fn head(&self, width: usize, height: usize) -> Vec<(String, Style)> {
        let session = &self.report.session;
        let command = command_line(&session.command);
        let title = format!("slimline  {}", if command.is_empty() { "an imported session" } else { &command });
        let mut rows = vec![(title, HEADING)];
        if session.samples == 0 {
            return rows;
        }
        if height >= WHOLE_HEAD {
            rows.push((format!("samples  {}", head::samples(session)), Style::new()));
        }
        if height >= SHORT_HEAD {
            let unattributed = self.report.groups.iter().filter(|group| group.id == 0).map(|group| group.share).sum();
            let cut_off = if session.complete { "" } else { "; cut off" };
            let told = format!("unattributed {}{cut_off}; lost: {}", percent(unattributed), head::lost(&session.lost));
            let more = remarks(session);
            let room = width.saturating_sub(more.chars().count()).max(1);
            rows.push((format!("{:<room$}{more}", shorten_end(&told, room)), Style::new()));
        }
        rows
    }

    fn draw_why_empty(&mut self, buffer: &mut Buffer, area: Rect) {
        let rows = head::rows(&self.report.session, true);
        for (at, text) in told(&rows, usize::from(area.width)).iter().take(area.height.into()).enumerate() {
            put(buffer, line(area, at), 0, area.width.into(), text, Style::new());
        }
    }

    /// Which views there are, or what was opened on the way here; to the right the cursor's place.
    fn draw_path(&self, buffer: &mut Buffer, area: Rect) {
        let width = usize::from(area.width);
        buffer.set_style(area, Style::new());
        let place = self.place();
        let room = width.saturating_sub(place.chars().count() + 2);
        if self.opened.is_empty() {
            self.draw_tabs(buffer, area, room);
        } else {
            let titles = self.opened.iter().map(|screen| match screen {
                Screen::List { title, .. } => shorten(title, 30),
                Screen::Structure(structure) => shorten(&plain(&self.report.groups[structure.group].name), 30),
                Screen::Code(code) => file_name(&code.file),
            });
            let titles: Vec<String> = [self.tabs[self.tab].0.title.to_owned()].into_iter().chain(titles).collect();
            put(buffer, area, 0, room, &shorten_path(&titles.join(" › "), room.max(1)), HEADING);
        }
        let at = width.saturating_sub(place.chars().count());
        put(buffer, area, at, width, &place, DIM);
    }

    fn draw_tabs(&self, buffer: &mut Buffer, area: Rect, room: usize) {
        let titles = || self.tabs.iter().enumerate();
        let numbered: Vec<String> = titles().map(|(at, (tab, _))| format!(" {} {} ", at + 1, tab.title)).collect();
        let short: Vec<String> = titles().map(|(_, (tab, _))| format!(" {} ", tab.title)).collect();
        let width = |titles: &[String]| titles.iter().map(|title| title.chars().count()).sum::<usize>();
        let fitting = [numbered, short].into_iter().find(|titles| width(titles) <= room);
        let Some(fitting) = fitting else {
            let only = format!("‹ {} ›  {} of {}", self.tabs[self.tab].0.title, self.tab + 1, self.tabs.len());
            put(buffer, area, 0, room, &only, HEADING);
            return;
        };
        let mut x = 0;
        for (at, title) in fitting.iter().enumerate() {
            let style = if at == self.tab { CHOSEN } else { DIM };
            put(buffer, area, x, room, title, style);
            x += title.chars().count();
        }
    }

    /// `/words  3/120`
    fn place(&self) -> String {
        let of =
            |cursor: usize, rows: usize| format!("{}/{}", count((cursor + 1).min(rows) as u64), count(rows as u64));
        match (self.opened.last(), self.list()) {
            (Some(Screen::Code(code)), _) => of(code.window.cursor, code.lines()),
            (Some(Screen::Structure(structure)), _) if structure.fields.filter.is_empty() => String::new(),
            (_, Some(list)) => {
                let place = of(list.window.cursor, list.shown.len());
                let all = list.listing.rows.len();
                match list.filter.is_empty() {
                    true => place,
                    false => format!("/{}  {place} of {}", shorten_end(&plain(&list.filter), 20), count(all as u64)),
                }
            }
            (_, None) => String::new(),
        }
    }

    /// What is to be known of all rows.
    fn note(&self) -> Option<String> {
        match self.opened.last() {
            Some(Screen::Code(code)) => code.notice(),
            _ => self.list().and_then(|list| list.listing.note.clone()),
        }
    }

    /// Why a key did nothing, or all of what is under the cursor.
    fn under_the_cursor(&self) -> String {
        if let Some(told) = &self.told {
            return told.clone();
        }
        match self.opened.last() {
            Some(Screen::Code(code)) => code.detail(&self.report),
            Some(Screen::Structure(structure)) => structure.detail(&self.report),
            _ => {
                let chosen = self.list().and_then(|list| Some((list, list.chosen()?.0)));
                chosen.map(|(list, place)| list.listing.detail(&self.report, place)).unwrap_or_default()
            }
        }
    }

    fn draw_body(&mut self, buffer: &mut Buffer, area: Rect) {
        let (report, theme) = (&self.report, self.theme);
        match self.opened.last_mut() {
            None => {
                if let Some(list) = &mut self.tabs[self.tab].1 {
                    draw_list(buffer, area, report, list, theme);
                }
            }
            Some(Screen::List { list, .. }) => draw_list(buffer, area, report, list, theme),
            Some(Screen::Structure(structure)) => draw_structure(buffer, area, report, structure, theme),
            Some(Screen::Code(code)) => draw_code(buffer, area, report, code, theme),
        }
    }

    fn draw_keys(&self, buffer: &mut Buffer, area: Rect) {
        let width = usize::from(area.width);
        if let Mode::Typing { text, .. } = &self.mode {
            let shown = format!("/{}", plain(text));
            put(buffer, area, 0, width, &shorten_path(&shown, width.saturating_sub(1).max(1)), HEADING);
            let end = shown.chars().count().min(width.saturating_sub(1));
            put(buffer, area, end, 1, " ", CHOSEN);
            return;
        }
        let mut hints = match self.report.session.samples {
            0 => vec![("q", "quit")],
            _ => hints(self.opened.last()),
        };
        let room = |hints: &[(&str, &str)]| {
            hints.iter().map(|(key, word)| key.chars().count() + word.chars().count() + 3).sum::<usize>()
        };
        while hints.len() > 2 && room(&hints) > width + 2 {
            hints.remove(hints.len() - 3);
        }
        let mut x = 0;
        for (key, word) in hints {
            put(buffer, area, x, width, key, HEADING);
            x += key.chars().count() + 1;
            put(buffer, area, x, width, word, DIM);
            x += word.chars().count() + 2;
        }
    }

    fn draw_overlay(&mut self, buffer: &mut Buffer, area: Rect) {
        let inside = usize::from(area.width).saturating_sub(4);
        match &mut self.mode {
            Mode::Browsing | Mode::Typing { .. } => {}
            Mode::Help(window) => {
                let keys = KEYS.iter().flat_map(|(keys, words)| {
                    let text = if keys.is_empty() { (*words).to_owned() } else { format!("{keys:<18} {words}") };
                    folded(&text, inside, 0, 19)
                });
                let lines: Vec<String> = keys.collect();
                let shown = window.scrolled(room_inside(area), lines.len());
                framed(buffer, area, "Keys", &lines, shown, None);
            }
            Mode::Session(window) => {
                let lines = told(&head::rows(&self.report.session, true), inside);
                let shown = window.scrolled(room_inside(area), lines.len());
                framed(buffer, area, "The session", &lines, shown, None);
            }
            Mode::Sorting(window) => {
                let list = match self.opened.last() {
                    None => self.tabs[self.tab].1.as_ref(),
                    Some(Screen::List { list, .. }) => Some(list),
                    Some(Screen::Structure(structure)) => Some(&structure.fields),
                    Some(Screen::Code(_)) => None,
                };
                let columns = list.map(|list| list.listing.columns(&self.report)).unwrap_or_default();
                let lines: Vec<String> = columns.iter().map(|column| column.heading().to_owned()).collect();
                let shown = window.shown(room_inside(area), lines.len());
                framed(buffer, area, "Sort by", &lines, shown, Some(window.cursor));
            }
        }
    }
}

/// One line of an area.
fn line(area: Rect, at: usize) -> Rect {
    let at = at.min(area.height.into()) as u16;
    Rect { y: area.y + at, height: u16::from(at < area.height), ..area }
}

/// What is left of an area without so many lines above and below.
fn below(area: Rect, above: usize, lower: usize) -> Rect {
    let above = above.min(area.height.into()) as u16;
    let height = (area.height - above).saturating_sub(lower as u16);
    Rect { y: area.y + above, height, ..area }
}

/// How many remarks the head of a report has that this one has no room for, and by which key they are read.
fn remarks(session: &Session) -> String {
    match head::rows(session, false).len().saturating_sub(USUAL_ROWS) {
        0 => String::new(),
        1 => "  i: 1 remark".to_owned(),
        more => format!("  i: {more} remarks"),
    }
}

/// Labels and values, folded.
fn told(rows: &[(&'static str, String)], width: usize) -> Vec<String> {
    let label = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let one = |(name, value): &(&'static str, String)| {
        let mut lines = folded(value, width, label + 2, label + 2);
        lines[0].replace_range(..label + 2, &format!("{name:>label$}  "));
        lines
    };
    rows.iter().flat_map(one).collect()
}

fn draw_list(buffer: &mut Buffer, area: Rect, report: &Report, list: &mut List, theme: Theme) {
    let rows = below(area, 1, 0);
    let shown = list.window.shown(rows.height.into(), list.shown.len());
    let cells: Vec<Vec<String>> =
        list.shown[shown.clone()].iter().map(|&place| list.listing.cells(report, place)).collect();
    let columns = Columns::place(report, list, &cells, area.width.into());
    columns.draw_headings(buffer, line(area, 0));
    for (at, (row, cells)) in shown.zip(&cells).enumerate() {
        let share = list.listing.share(report, list.shown[row]);
        columns.draw_row(buffer, line(rows, at), cells, (share, theme), row == list.window.cursor);
    }
    if cells.is_empty() && rows.height > 0 {
        put(buffer, line(rows, 0), 0, area.width.into(), "no row has all these words", DIM);
    }
}

fn draw_structure(buffer: &mut Buffer, area: Rect, report: &Report, structure: &mut Structure, theme: Theme) {
    // The cursor's mark is beside the text.
    let text = Rect { x: area.x + 2.min(area.width), width: area.width.saturating_sub(2), ..area };
    let said = structure.said(report, text.width.into(), theme).to_vec();
    let shown = structure.window.shown(area.height.into(), said.len());
    let fields = &structure.fields;
    let cells = |line: &Said| match line {
        Said::Field(shown) => Some(fields.listing.cells(report, fields.shown[*shown])),
        Said::Words(_) | Said::FieldHeadings => None,
    };
    let cells: Vec<Option<Vec<String>>> = said[shown.clone()].iter().map(cells).collect();
    let in_sight: Vec<Vec<String>> = cells.iter().flatten().cloned().collect();
    let columns = Columns::place(report, fields, &in_sight, text.width.into());
    for (at, (number, cells)) in shown.zip(&cells).enumerate() {
        let is_chosen = number == structure.window.cursor;
        if is_chosen {
            put(buffer, line(area, at), 0, 1, "›", HEADING);
        }
        match (&said[number], cells) {
            (Said::Words(words), _) => _ = buffer.set_line(text.x, text.y + at as u16, words, text.width),
            (Said::FieldHeadings, _) => columns.draw_headings(buffer, line(text, at)),
            (Said::Field(shown), Some(cells)) => {
                let share = fields.listing.share(report, fields.shown[*shown]);
                columns.draw_row(buffer, line(text, at), cells, (share, theme), is_chosen);
            }
            (Said::Field(_), None) => {}
        }
    }
}

fn draw_code(buffer: &mut Buffer, area: Rect, report: &Report, code: &mut Code, theme: Theme) {
    let width = usize::from(area.width);
    let rows = below(area, 1, 0);
    let shown = code.window.centred(rows.height.into(), code.lines());
    let last = shown.end.checked_sub(1).map_or(0, |row| code.number(row));
    let digits = count(last.into()).len().max(4);
    let cost = report.session.weight.noun();
    let (share_at, code_at) = (digits + 3, digits + 3 + 9);
    let touches_at = if width >= WIDE_CODE { width - width / 3 } else { width };
    put(buffer, line(area, 0), 0, width, &format!("{:>digits$}", "line"), DIM);
    put(buffer, line(area, 0), share_at, width, &format!("{cost:>7}"), DIM);
    put(buffer, line(area, 0), code_at, width, "source", DIM);
    if touches_at < width {
        put(buffer, line(area, 0), touches_at, width, "touches", DIM);
    }
    for (at, row) in shown.enumerate() {
        let (area, is_chosen) = (line(rows, at), row == code.window.cursor);
        let style = if is_chosen { CHOSEN } else { Style::new() };
        buffer.set_style(area, style);
        put(buffer, area, 0, digits, &format!("{:>digits$}", count(code.number(row).into())), style);
        if code.is_in_loop(row) {
            put(buffer, area, digits + 1, 1, "│", style);
        }
        let known = code.cost(report, row);
        if let Some(known) = known.filter(|known| known.share > 0.0) {
            let style = if is_chosen { style } else { theme.share(known.share) };
            put(buffer, area, share_at, 7, &format!("{:>7}", percent(known.share)), style);
        }
        let room = touches_at.saturating_sub(code_at + 1);
        let text = code.text(row);
        if room > 0 {
            put(buffer, area, code_at, room, &shorten_end(&text, room), style);
        }
        if let Some(known) = known.filter(|_| touches_at < width) {
            let told = touches(report, known);
            put(buffer, area, touches_at, width, &shorten_end(&told, width - touches_at), style);
        }
    }
}

/// Lines that fit into a frame.
fn room_inside(area: Rect) -> usize {
    usize::from(area.height).saturating_sub(2)
}

/// Lines in a frame in the middle of an area.
fn framed(
    buffer: &mut Buffer,
    area: Rect,
    title: &str,
    lines: &[String],
    shown: std::ops::Range<usize>,
    chosen: Option<usize>,
) {
    let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0).max(title.chars().count() + 2);
    let (width, height) = ((widest + 4).min(area.width.into()), (shown.len() + 2).min(area.height.into()));
    if width < 4 || height < 2 {
        return;
    }
    let frame = Rect {
        x: area.x + (area.width - width as u16) / 2,
        y: area.y + (area.height - height as u16) / 2,
        width: width as u16,
        height: height as u16,
    };
    for y in frame.top()..frame.bottom() {
        for x in frame.left()..frame.right() {
            buffer[(x, y)].reset();
        }
    }
    let inner = width - 2;
    let more = if shown.len() < lines.len() { " ↑ ↓ " } else { "" };
    let head = format!("┌ {title} {}┐", "─".repeat(inner.saturating_sub(title.chars().count() + 2)));
    let foot = format!("└{more}{}┘", "─".repeat(inner.saturating_sub(more.chars().count())));
    put(buffer, line(frame, 0), 0, width, &head, HEADING);
    for (at, number) in shown.enumerate() {
        let row = line(frame, at + 1);
        put(buffer, row, 0, 1, "│", HEADING);
        put(buffer, row, width - 1, 1, "│", HEADING);
        let style = if chosen == Some(number) { CHOSEN } else { Style::new() };
        put(buffer, row, 2, width - 4, &lines[number], style);
    }
    put(buffer, line(frame, height - 1), 0, width, &foot, HEADING);
}
