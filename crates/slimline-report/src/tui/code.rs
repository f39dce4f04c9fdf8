//! Lines of a source file with what each costs and accesses.

use std::collections::HashMap;

use slimline_trace::escape::plain;

use super::window::{Motion, Window};
use crate::source::Source;
use crate::text::cells::accessed;
use crate::text::number::{percent, plural, range};
use crate::view::{Line, Loop, Report};

/// A source file that is looked at.
pub(super) struct Code {
    pub(super) file: String,
    source: Source,
    /// Where lines are in its text, as bytes.
    ends: Vec<(usize, usize)>,
    /// Numbers of the lines that are shown: all of the text, or those of which something is known.
    numbers: Vec<u32>,
    /// Of lines that cost something or touch data: their places in the report.
    costs: HashMap<u32, usize>,
    /// First and last line of the loop that was asked for.
    of_loop: Option<(u32, u32)>,
    pub(super) window: Window,
}

impl Code {
    /// At the costliest line of a loop.
    pub(super) fn of_loop(report: &Report, found: &Loop, source: Source) -> Option<Self> {
        let file = found.file.as_ref().filter(|_| found.first_line > 0)?;
        let lines = (found.first_line, found.last_line.max(found.first_line));
        let mut code = Self::of(report, file, source);
        code.of_loop = Some(lines);
        let hot = code.hottest(report).into_iter().find(|line| (lines.0..=lines.1).contains(line));
        code.go_to(hot.unwrap_or(lines.0));
        Some(code)
    }

    pub(super) fn at_line(report: &Report, line: &Line, source: Source) -> Self {
        let mut code = Self::of(report, &line.file, source);
        code.go_to(line.line);
        code
    }

    fn of(report: &Report, file: &str, source: Source) -> Self {
        let known = report.lines.iter().enumerate().filter(|(_, line)| line.file == file);
        let costs: HashMap<u32, usize> = known.map(|(place, line)| (line.line, place)).collect();
        let text = source.text().unwrap_or_default();
        let mut ends = Vec::new();
        for line in text.lines() {
            let begin = line.as_ptr().addr() - text.as_ptr().addr();
            ends.push((begin, begin + line.len()));
        }
        let numbers = match source.text() {
            Some(_) => (1..=ends.len() as u32).collect(),
            None => {
                let mut known: Vec<u32> = costs.keys().copied().collect();
                known.sort_unstable();
                known
            }
        };
        let file = file.to_owned();
        Self { file, source, ends, numbers, costs, of_loop: None, window: Window::default() }
    }

    /// What a reader must know of the file.
    pub(super) fn notice(&self) -> Option<String> {
        self.source.notice()
    }

    pub(super) fn lines(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn number(&self, row: usize) -> u32 {
        self.numbers[row]
    }

    /// What is written there; nothing where the file could not be read.
    pub(super) fn text(&self, row: usize) -> String {
        let Some(&(begin, end)) = self.ends.get(row) else { return String::new() };
        let text = self.source.text().unwrap_or_default();
        plain(&text[begin..end].replace('\t', "    "))
    }

    pub(super) fn cost<'r>(&self, report: &'r Report, row: usize) -> Option<&'r Line> {
        self.costs.get(&self.numbers[row]).map(|&place| &report.lines[place])
    }

    pub(super) fn is_in_loop(&self, row: usize) -> bool {
        self.of_loop.is_some_and(|(first, last)| (first..=last).contains(&self.numbers[row]))
    }

    pub(super) fn go(&mut self, motion: Motion) {
        self.window.go(motion, self.numbers.len());
    }

    /// To a line, or to the one before where it is not shown.
    fn go_to(&mut self, line: u32) {
        self.window.cursor = self.numbers.partition_point(|&number| number <= line).saturating_sub(1);
    }

    /// Numbers of the lines that cost something, costliest first.
    fn hottest(&self, report: &Report) -> Vec<u32> {
        let mut hot: Vec<&Line> =
            self.costs.values().map(|&place| &report.lines[place]).filter(|line| line.share > 0.0).collect();
        hot.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.line.cmp(&b.line)));
        hot.into_iter().map(|line| line.line).collect()
    }

    /// To the costliest line of the file.
    pub(super) fn go_to_hottest(&mut self, report: &Report) {
        if let Some(&line) = self.hottest(report).first() {
            self.go_to(line);
        }
    }

    /// To the line that costs next to the one under the cursor, less or more: from any other line to the costliest.
    pub(super) fn go_to_next_hot(&mut self, report: &Report, is_colder: bool) {
        let hot = self.hottest(report);
        let here = self.numbers.get(self.window.cursor);
        let place = hot.iter().position(|line| Some(line) == here);
        let next = match (place, is_colder) {
            (None, _) => 0,
            (Some(place), true) => (place + 1) % hot.len(),
            (Some(place), false) => (place + hot.len() - 1) % hot.len(),
        };
        if let Some(&line) = hot.get(next) {
            self.go_to(line);
        }
    }

    /// To the next line with a text in it, whatever its letters' size, around the end; whether there is any.
    pub(super) fn search(&mut self, wanted: &str, is_backwards: bool, from_here: bool) -> bool {
        let wanted = wanted.to_lowercase();
        let lines = self.numbers.len();
        let steps = usize::from(!from_here)..lines + usize::from(!from_here);
        let row = |step: usize| match is_backwards {
            false => (self.window.cursor + step) % lines,
            true => (self.window.cursor + lines * 2 - step) % lines,
        };
        let found = steps.map(row).find(|&row| self.text(row).to_lowercase().contains(&wanted));
        if let Some(row) = found {
            self.window.cursor = row;
        }
        found.is_some()
    }

    /// All that is known of the line under the cursor.
    pub(super) fn detail(&self, report: &Report) -> String {
        let Some(line) = self.window_line(report) else { return String::new() };
        let cost = report.session.weight.noun();
        let samples = plural(line.samples, "sample");
        let (share, interval) = (percent(line.share), range(line.share_interval));
        let touches = touches(report, line);
        let touches = if touches.is_empty() { touches } else { format!("  touches {touches}") };
        format!("line {}  {share} of the {cost} ({interval}), {samples}{touches}", line.line)
    }

    fn window_line<'r>(&self, report: &'r Report) -> Option<&'r Line> {
        (self.window.cursor < self.numbers.len()).then(|| self.cost(report, self.window.cursor)).flatten()
    }
}

/// `bodies {x vx}`
pub(super) fn touches(report: &Report, line: &Line) -> String {
    let parts = accessed(line, |id| report.groups.iter().find(|group| group.id == id));
    let parts = parts.iter().map(|(group, fields)| format!("{}{fields}", plain(&group.name)));
    parts.collect::<Vec<_>>().join(", ")
}
