//! A browser on a terminal that is only a buffer.

use ratatui_core::backend::TestBackend;
use ratatui_core::buffer::Buffer;
use ratatui_core::style::Modifier;
use ratatui_core::terminal::Terminal;
use slimline_report::source::Source;
use slimline_report::text::By;
use slimline_report::tui::{Browser, Flow, Key, Theme};
use slimline_report::view::*;

use crate::art::art;

/// Lines above the rows of a table: the head, the views, the headings.
const ABOVE_ROWS: usize = 5;

/// What is seen of a report.
pub(crate) struct Seen {
    pub(crate) browser: Browser,
    terminal: Terminal<TestBackend>,
}

impl Seen {
    pub(crate) fn new(report: &Report, size: (u16, u16)) -> Self {
        let source = Source::Text { text: scanner(), is_newer: false };
        Self::with_sources(report, size, Theme::Plain, move |file, module| {
            assert_eq!([file, module], ["/src/art/scanner.c", "/src/art/art"]);
            source.clone()
        })
    }

    pub(crate) fn with_sources(
        report: &Report,
        (width, height): (u16, u16),
        theme: Theme,
        read: impl Fn(&str, &str) -> Source + 'static,
    ) -> Self {
        let browser = Browser::new(report, By::Group, theme, Box::new(read));
        let mut seen = Self { browser, terminal: Terminal::new(TestBackend::new(width, height)).unwrap() };
        seen.draw();
        seen
    }

    fn draw(&mut self) {
        let browser = &mut self.browser;
        self.terminal.draw(|frame| browser.draw(frame.area(), frame.buffer_mut())).unwrap();
    }

    pub(crate) fn resize(&mut self, (width, height): (u16, u16)) {
        self.terminal.backend_mut().resize(width, height);
        self.draw();
    }

    pub(crate) fn press(&mut self, key: Key) {
        assert_eq!(self.browser.press(key), Flow::Continue);
        self.draw();
    }

    pub(crate) fn press_all(&mut self, keys: &str) {
        keys.chars().for_each(|key| self.press(Key::Char(key)));
    }

    /// Down to a line with these words.
    pub(crate) fn go_down_to(&mut self, words: &str) {
        for _ in 0..100 {
            if self.cursor_line().contains(words) {
                return;
            }
            self.press(Key::Down);
        }
        panic!("no row has {words:?}: {}", self.screen());
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        self.terminal.backend().buffer()
    }

    fn lines(&self) -> Vec<String> {
        let buffer = self.buffer();
        let line =
            |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..buffer.area.height).map(line).collect()
    }

    /// All of it, without blanks at the ends of lines.
    pub(crate) fn screen(&self) -> String {
        self.lines().join("\n")
    }

    fn is_reversed(&self, x: u16, y: u16) -> bool {
        self.buffer()[(x, y)].modifier.contains(Modifier::REVERSED)
    }

    /// The line that the cursor is on.
    pub(crate) fn cursor_line(&self) -> String {
        let area = self.buffer().area;
        // Below the views, of which one is reversed, too, and above the keys; of structures beside the cursor's mark.
        let of_cursor = |&y: &u16| self.is_reversed(0, y) || self.is_reversed(area.width - 1, y);
        let at = (ABOVE_ROWS as u16 - 1..area.height - 1).find(of_cursor);
        at.map(|y| self.lines()[usize::from(y)].clone()).unwrap_or_default()
    }

    /// Rows of the table in sight, a blank between their words, without the cursor's mark.
    pub(crate) fn rows(&self) -> Vec<String> {
        let lines = self.lines();
        let rows = lines[ABOVE_ROWS..lines.len() - 2].iter();
        let rows = rows.filter(|line| line.contains('%') && !line.contains(" is "));
        rows.map(|line| line.split_whitespace().filter(|word| *word != "›").collect::<Vec<_>>().join(" ")).collect()
    }

    /// What was opened on the way here.
    pub(crate) fn path(&self) -> String {
        let path = &self.lines()[ABOVE_ROWS - 2];
        path.split("   ").next().unwrap_or_default().to_owned()
    }

    /// The view that is chosen.
    pub(crate) fn tab(&self) -> String {
        let y = ABOVE_ROWS as u16 - 2;
        let chosen = (0..self.buffer().area.width).filter(|&x| self.is_reversed(x, y));
        let title: String = chosen.map(|x| self.buffer()[(x, y)].symbol()).collect();
        title.trim_matches(|letter: char| letter == ' ' || letter.is_ascii_digit()).to_owned()
    }
}

/// A source of 1300 lines that say which they are.
pub(crate) fn scanner() -> String {
    (1..=1300).map(|line| format!("\tline_{line} <&>\n")).collect()
}

/// The report with something in all of its views.
pub(crate) fn art_with_more() -> Report {
    let mut report = art();
    let row = |name: &str, detail: &str, share: f64| Row {
        name: name.into(),
        detail: detail.into(),
        share,
        share_interval: Interval { low: (share - 0.01).max(0.0), high: share + 0.01 },
        samples: (share * 2384.0) as u64,
    };
    let breakdowns = &mut report.breakdowns;
    breakdowns.types = vec![row("f1_neuron", "", 0.804), row("type not known", "", 0.196)];
    breakdowns.threads = vec![row("4711", "art (process 4711)", 0.75), row("4712", "art (process 4711)", 0.25)];
    let lines = report.lines.iter().filter(|line| line.share > 0.0);
    breakdowns.lines = lines.map(|line| row(&format!("{}:{}", line.file, line.line), "", line.share)).collect();
    breakdowns.lines.push(row("memcpy", "libc.so.6", 0.1));
    let thread = |tid, share| GroupThread { tid, pid: 4711, name: "art".into(), share, loads: 9, stores: 1 };
    report.groups[0].threads = vec![thread(4711, 0.75), thread(4712, 0.25)];
    report.groups[0].sharing = Some(Sharing { evidence: "apart".into(), lines: 100, ..Sharing::default() });
    report
}
