//! The report as a terminal shows it that is browsed: from data to its fields, the loops that use them, and the source.
//!
//! [`Browser`] is the state and what keys do to it; it draws itself into a buffer and asks nothing of the terminal, which is the
//! binary's. What it shows are the cells that `slimline report` prints: no number is computed or formatted here.

mod code;
mod draw;
mod draw_list;
mod help;
mod list;
mod listing;
mod map;
mod screen;
mod structure;
mod theme;
mod window;

use slimline_trace::escape::plain;

use self::code::Code;
use self::list::List;
use self::listing::{Breakdown, Listing, Row};
use self::screen::{Screen, TABS, Tab};
use self::structure::Structure;
pub use self::theme::Theme;
use self::window::{Motion, Window};
use crate::source::Source;
use crate::text::{By, told_apart};
use crate::view::Report;

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A letter, a digit or a sign.
    Char(char),
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Backspace.
    Backspace,
    /// The arrow to the left.
    Left,
    /// The arrow to the right.
    Right,
    /// The arrow up.
    Up,
    /// The arrow down.
    Down,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// Tab.
    Tab,
    /// Shift and Tab.
    BackTab,
}

/// What is to be done when a key was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Draw, and wait for the next one.
    Continue,
    /// End.
    Quit,
}

/// Reads a source file: its path, and that of a program or library that was compiled of it, empty where none is known.
pub type ReadSource = Box<dyn Fn(&str, &str) -> Source>;

/// What takes keys before the screen does.
enum Mode {
    Browsing,
    /// Typing a filter, or in source what is looked for; behind it is the filter that was there before.
    Typing {
        text: String,
        before: String,
    },
    /// Choosing a column to sort by.
    Sorting(Window),
    /// Reading the keys.
    Help(Window),
    /// Reading how the session was recorded.
    Session(Window),
}

/// A report that is browsed.
pub struct Browser {
    report: Report,
    theme: Theme,
    read: ReadSource,
    /// Tables of the whole report, made when they are first looked at.
    tabs: Vec<(Tab, Option<List>)>,
    tab: usize,
    /// What was opened from there, the one in sight last.
    opened: Vec<Screen>,
    mode: Mode,
    /// What was looked for in source.
    searched: String,
    /// Why a key did nothing, until the next one.
    told: Option<String>,
}

impl Browser {
    /// Of a report, cut by `by` first; [`By::Quality`] has no table, and is taken for data.
    pub fn new(report: &Report, by: By, theme: Theme, read: ReadSource) -> Self {
        let report = told_apart(report);
        let has_regions = !report.breakdowns.regions.is_empty();
        let tabs: Vec<(Tab, Option<List>)> =
            TABS.into_iter().filter(|tab| tab.by != By::Region || has_regions).map(|tab| (tab, None)).collect();
        let tab = tabs.iter().position(|(tab, _)| tab.by == by).unwrap_or(0);
        let mut browser = Self {
            report,
            theme,
            read,
            tabs,
            tab,
            opened: Vec::new(),
            mode: Mode::Browsing,
            searched: String::new(),
            told: None,
        };
        browser.show_tab(tab);
        browser
    }

    /// Does what a key is for.
    pub fn press(&mut self, key: Key) -> Flow {
        self.told = None;
        match &mut self.mode {
            Mode::Browsing => return self.browse(key),
            Mode::Typing { .. } => self.type_in(key),
            Mode::Sorting(_) => return self.choose_column(key),
            Mode::Help(window) | Mode::Session(window) => match key {
                Key::Char('q') => return Flow::Quit,
                _ => match motion(key) {
                    // As many lines as there may be: what is beyond the last is cut when it is drawn.
                    Some(motion) => window.go(motion, usize::MAX),
                    None => self.mode = Mode::Browsing,
                },
            },
        }
        Flow::Continue
    }

    fn browse(&mut self, key: Key) -> Flow {
        if let Some(motion) = motion(key) {
            self.go(motion);
            return Flow::Continue;
        }
        match key {
            Key::Char('q') => return Flow::Quit,
            Key::Char('h' | '?') => self.mode = Mode::Help(Window::default()),
            Key::Char('i') => self.mode = Mode::Session(Window::default()),
            Key::Enter | Key::Right => self.open(),
            Key::Escape | Key::Left | Key::Backspace => self.back(key),
            Key::Tab | Key::BackTab => self.tab_key(key == Key::Tab),
            Key::Char(digit @ '1'..='9') => {
                let tab = digit as usize - '1' as usize;
                if tab < self.tabs.len() {
                    self.show_tab(tab);
                }
            }
            Key::Char('/') => self.begin_typing(),
            Key::Char('s') if self.list().is_some() => {
                let column = self.list().map_or(0, |list| list.sort.column);
                self.mode = Mode::Sorting(Window::at(column));
            }
            Key::Char('<' | ',') => self.rearrange(|list, report| list.sort_beside(report, false)),
            Key::Char('>' | '.') => self.rearrange(|list, report| list.sort_beside(report, true)),
            Key::Char('r' | 'R') => self.rearrange(List::reverse),
            Key::Char('H') => {
                if let Some(Screen::Code(code)) = self.opened.last_mut() {
                    code.go_to_hottest(&self.report);
                }
            }
            Key::Char(next @ ('n' | 'N')) => self.search_on(next == 'N'),
            _ => {}
        }
        Flow::Continue
    }

    fn go(&mut self, motion: Motion) {
        match self.opened.last_mut() {
            None => self.tabs[self.tab].1.as_mut().expect("the tab in sight was made").go(motion),
            Some(Screen::List { list, .. }) => list.go(motion),
            Some(Screen::Structure(structure)) => structure.go(motion),
            Some(Screen::Code(code)) => code.go(motion),
        }
    }

    /// The table in sight.
    fn list(&self) -> Option<&List> {
        match self.opened.last() {
            None => self.tabs[self.tab].1.as_ref(),
            Some(Screen::List { list, .. }) => Some(list),
            Some(Screen::Structure(structure)) => Some(&structure.fields),
            Some(Screen::Code(_)) => None,
        }
    }

    /// Changes the order of the table in sight, or the rows that it shows.
    fn rearrange(&mut self, change: impl FnOnce(&mut List, &Report)) {
        let (report, theme) = (&self.report, self.theme);
        match self.opened.last_mut() {
            None => change(self.tabs[self.tab].1.as_mut().expect("the tab in sight was made"), report),
            Some(Screen::List { list, .. }) => change(list, report),
            Some(Screen::Structure(structure)) => {
                change(&mut structure.fields, report);
                structure.fields_changed(report, theme);
            }
            Some(Screen::Code(_)) => {}
        }
    }

    fn show_tab(&mut self, tab: usize) {
        self.opened.clear();
        self.tab = tab;
        let (of, list) = &mut self.tabs[tab];
        list.get_or_insert_with(|| List::new(&self.report, of.listing(&self.report)));
    }

    /// The next view, or in source the next costly line, as `perf annotate` has it.
    fn tab_key(&mut self, is_next: bool) {
        let tabs = self.tabs.len();
        match self.opened.last_mut() {
            None => self.show_tab((self.tab + if is_next { 1 } else { tabs - 1 }) % tabs),
            Some(Screen::Code(code)) => code.go_to_next_hot(&self.report, is_next),
            Some(Screen::List { .. } | Screen::Structure(_)) => {}
        }
    }

    /// One screen back; a filter goes first, by Escape.
    fn back(&mut self, key: Key) {
        let is_filtered = self.list().is_some_and(|list| !list.filter.is_empty());
        if key == Key::Escape && is_filtered {
            self.rearrange(|list, report| list.set_filter(report, ""));
        } else if self.opened.pop().is_none() {
            self.told = Some("this is the first screen: q quits".to_owned());
        }
    }

    fn open(&mut self) {
        let row = match self.opened.last() {
            Some(Screen::Code(_)) => return,
            Some(Screen::Structure(structure)) => {
                let (group, field) = (structure.group, structure.chosen());
                return self.open_loops_on(group, field);
            }
            Some(Screen::List { list, .. }) => list.chosen(),
            None => self.list().and_then(List::chosen),
        };
        let Some((_, row)) = row else { return };
        match row {
            Row::Group(group) => self.opened.push(Screen::Structure(Structure::new(&self.report, group, None))),
            Row::Field(group, field) => {
                self.opened.push(Screen::Structure(Structure::new(&self.report, group, Some(field))));
            }
            Row::Loop(at) => self.open_loop(at),
            Row::Of(by, at) => self.open_breakdown(by, at),
        }
    }

    fn open_list(&mut self, title: String, listing: Listing, if_empty: &str) {
        if listing.rows.is_empty() {
            self.told = Some(if_empty.to_owned());
        } else {
            self.opened.push(Screen::List { title, list: List::new(&self.report, listing) });
        }
    }

    fn open_loops_on(&mut self, group: usize, field: Option<usize>) {
        let listing = Listing::loops_on(&self.report, group, field);
        let name =
            field.map_or(String::new(), |field| format!("{}: ", plain(&self.report.groups[group].fields[field].name)));
        self.open_list(format!("{name}loops"), listing, "no loop was seen to use it");
    }

    fn open_loop(&mut self, at: usize) {
        let found = &self.report.loops[at];
        let Some(file) = &found.file else {
            self.told = Some("of its code no line is known: was it compiled with -g?".to_owned());
            return;
        };
        let source = (self.read)(file, &found.module_path);
        match Code::of_loop(&self.report, found, source) {
            Some(code) => self.opened.push(Screen::Code(code)),
            None => self.told = Some("of its code no line is known: was it compiled with -g?".to_owned()),
        }
    }

    fn open_breakdown(&mut self, by: Breakdown, at: usize) {
        let row = &by.rows(&self.report.breakdowns)[at];
        let name = plain(&row.name);
        match by {
            Breakdown::Functions => {
                let listing = Listing::loops(&self.report, |of| of.function == row.name && of.module == row.detail);
                self.open_list(format!("{name}: loops"), listing, "no loop of it is known");
            }
            Breakdown::Lines => {
                let is_it = |line: &&crate::view::Line| {
                    row.name.strip_prefix(&line.file).and_then(|rest| rest.strip_prefix(':'))
                        == Some(line.line.to_string().as_str())
                };
                let Some(line) = self.report.lines.iter().find(is_it) else {
                    self.told = Some("it is in no source file that is known".to_owned());
                    return;
                };
                let module = self.report.loops.iter().find(|found| found.file.as_ref() == Some(&line.file));
                let source = (self.read)(&line.file, module.map_or("", |found| &found.module_path));
                self.opened.push(Screen::Code(Code::at_line(&self.report, line, source)));
            }
            Breakdown::Types => {
                let is_of = |group: &crate::view::Group| group.type_name.as_ref() == Some(&row.name);
                let listing = Listing::groups(&self.report, is_of);
                self.open_list(name, listing, "no data structure of it is known");
            }
            Breakdown::Threads => {
                let listing = Listing::groups_of_thread(&self.report, row);
                self.open_list(format!("thread {name}"), listing, "no data is known that it uses a hundredth of");
            }
            Breakdown::Regions => self.told = Some("slimline regions shows what regions access".to_owned()),
        }
    }

    fn begin_typing(&mut self) {
        let before = self.list().map(|list| list.filter.clone()).unwrap_or_default();
        self.mode = Mode::Typing { text: before.clone(), before };
    }

    fn type_in(&mut self, key: Key) {
        let Mode::Typing { text, before } = &mut self.mode else { return };
        match key {
            Key::Char(character) => text.push(character),
            Key::Backspace if text.is_empty() => {
                self.mode = Mode::Browsing;
                return;
            }
            Key::Backspace => _ = text.pop(),
            Key::Escape => {
                let before = std::mem::take(before);
                self.mode = Mode::Browsing;
                if self.list().is_some() {
                    self.rearrange(|list, report| list.set_filter(report, &before));
                }
                return;
            }
            Key::Enter => {
                let text = std::mem::take(text);
                self.mode = Mode::Browsing;
                if self.list().is_none() {
                    self.searched = text;
                }
                return;
            }
            // The table stays in sight while its filter is typed, and can be gone through.
            _ => {
                if let Some(motion) = motion(key).filter(|_| !matches!(key, Key::Char(_))) {
                    self.go(motion);
                }
                return;
            }
        }
        let text = text.clone();
        if let Some(Screen::Code(code)) = self.opened.last_mut() {
            if !text.is_empty() && !code.search(&text, false, true) {
                self.told = Some("not found".to_owned());
            }
        } else {
            self.rearrange(|list, report| list.set_filter(report, &text));
        }
    }

    fn search_on(&mut self, is_backwards: bool) {
        let Some(Screen::Code(code)) = self.opened.last_mut() else { return };
        if self.searched.is_empty() {
            self.told = Some("nothing was looked for yet: / looks for text".to_owned());
        } else if !code.search(&self.searched, is_backwards, false) {
            self.told = Some(format!("not found: {}", self.searched));
        }
    }

    fn choose_column(&mut self, key: Key) -> Flow {
        let columns = self.list().map_or(0, |list| list.listing.columns(&self.report).len());
        let Mode::Sorting(window) = &mut self.mode else { return Flow::Continue };
        if let Some(motion) = motion(key) {
            window.go(motion, columns);
            return Flow::Continue;
        }
        let column = window.cursor;
        match key {
            Key::Char('q') => return Flow::Quit,
            Key::Enter | Key::Right | Key::Char('s') => {
                self.mode = Mode::Browsing;
                self.rearrange(|list, report| list.sort_by(report, column));
            }
            _ => self.mode = Mode::Browsing,
        }
        Flow::Continue
    }
}

/// Where a key takes a cursor, if it does.
fn motion(key: Key) -> Option<Motion> {
    match key {
        Key::Up | Key::Char('k') => Some(Motion::Up),
        Key::Down | Key::Char('j') => Some(Motion::Down),
        Key::PageUp | Key::Char('b') => Some(Motion::PageUp),
        Key::PageDown | Key::Char(' ') => Some(Motion::PageDown),
        Key::Home | Key::Char('g') => Some(Motion::Home),
        Key::End | Key::Char('G') => Some(Motion::End),
        _ => None,
    }
}
