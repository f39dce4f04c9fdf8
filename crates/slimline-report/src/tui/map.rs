//! Maps of structures as lines of a terminal: a cache line is two of them, what its fields are called and how hot they are.

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};
use slimline_trace::escape::plain;

use super::theme::{DIM, Theme};
use crate::structure_map::{Block, HEAT, LINE_BYTES, MOST_ROWS, Map, What};
use crate::text::number::count;
use crate::text::{folded, shorten_end};

/// Columns of a cache line's number.
const LABEL: usize = 4;
/// What has holes and padding is filled by.
const HOLE: char = '░';

/// How many columns so many bytes have.
#[derive(Clone, Copy)]
struct Scale {
    columns: usize,
    bytes: usize,
}

impl Scale {
    /// The largest by which a cache line fits beside its number; on the narrowest terminals it is cut.
    fn of(width: usize) -> Self {
        let room = width.saturating_sub(LABEL);
        let line = LINE_BYTES as usize;
        let (columns, bytes) = if room >= 2 * line {
            (2, 1)
        } else if room >= line {
            (1, 1)
        } else {
            (1, 2)
        };
        Self { columns, bytes }
    }

    fn at(self, bytes: u64) -> usize {
        bytes as usize * self.columns / self.bytes
    }
}

/// The map on lines of `width`, below its title.
pub(super) fn lines(title: &str, map: &Map, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let scale = Scale::of(width);
    let title = folded(&format!("{title}: {}", map.words()), width, 0, 2);
    let mut lines: Vec<Line<'static>> = title.into_iter().map(|line| Line::styled(line, DIM)).collect();
    lines.push(ruler(scale));
    let rows = map.rows();
    for &(first, end) in rows.iter().take(MOST_ROWS) {
        if end - first > 1 {
            lines.push(alike(map, first, end, theme));
        } else {
            lines.extend(cache_line(map, first, scale, theme));
        }
    }
    if rows.len() > MOST_ROWS {
        lines.push(Line::styled("The lines behind these are in the table of fields.", DIM));
    }
    lines
}

fn ruler(scale: Scale) -> Line<'static> {
    let step = 8;
    let marks = (0..LINE_BYTES / step).map(|mark| format!("{:<1$}", mark * step, scale.at(step)));
    Line::styled(format!("{:LABEL$}{}", "", marks.collect::<String>()), DIM)
}

fn alike(map: &Map, first: u64, end: u64, theme: Theme) -> Line<'static> {
    let lines = format!("lines {}–{}: ", count(first), count(end - 1));
    match map.only_block(first).filter(|block| !block.what.is_cold()) {
        Some(Block { what, .. }) => {
            let told = format!("{} {}", plain(what.name()), what.heat_words());
            Line::from(vec![Span::raw(lines), Span::styled(told, style(what, theme))])
        }
        None => Line::styled(format!("{lines}nothing of them was seen used"), DIM),
    }
}

/// Names, and below them how hot they are, where any has room for that.
fn cache_line(map: &Map, line: u64, scale: Scale, theme: Theme) -> Vec<Line<'static>> {
    let label = |text: String| Span::styled(format!("{text:>width$} ", width = LABEL - 1), DIM);
    let mut names = vec![label(line.to_string())];
    let mut heats = vec![label(String::new())];
    let mut end = 0;
    let mut drawn = 0;
    let mut is_told = false;
    let mut block = |of: &Block, at: u64, bytes: u64, is_next: bool| {
        // What is less than a column is drawn by who has the column.
        let (from, to) = (scale.at(at).max(drawn), scale.at(at + bytes));
        if to <= from {
            return;
        }
        drawn = to;
        let width = to - from;
        let (text, heat, style) = match is_next {
            // Elements that follow on the same line.
            true => (String::new(), String::new(), DIM),
            false => (plain(of.what.name()), of.what.heat_words(), style(&of.what, theme)),
        };
        let is_hole = matches!(of.what, What::Hole | What::Padding);
        let fitting = |text: &str, is_cut: bool| match width - 1 {
            0 => String::new(),
            room if text.chars().count() <= room || is_cut => shorten_end(text, room),
            _ => String::new(),
        };
        let filled = |text: String| -> String {
            let blank = if is_hole { HOLE } else { ' ' };
            let edge = if is_hole { HOLE } else { '│' };
            let missing = (width - 1).saturating_sub(text.chars().count());
            [edge].into_iter().chain(text.chars()).chain(std::iter::repeat_n(blank, missing)).collect()
        };
        // A share that is cut would be another one.
        names.push(Span::styled(filled(if is_hole { String::new() } else { fitting(&text, true) }), style));
        let heat = fitting(&heat, false);
        is_told |= !heat.is_empty();
        heats.push(Span::styled(filled(heat), style));
    };
    for (of, at, bytes) in map.on_line(line) {
        block(of, at, bytes, false);
        end = at + bytes;
    }
    while map.is_array && end < LINE_BYTES && map.bytes > 0 {
        for of in &map.blocks {
            let bytes = of.bytes.min(LINE_BYTES - end);
            block(of, end, bytes, true);
            end += bytes;
        }
    }
    let mut lines = vec![Line::from(names)];
    lines.extend(is_told.then(|| Line::from(heats)));
    lines
}

fn style(what: &What, theme: Theme) -> Style {
    match what {
        What::Used(_, share) => theme.block(*share),
        What::Wide(_) | What::Pointer => Style::new(),
        What::Unused(_) | What::Unknown | What::Hole | What::Padding => DIM,
    }
}

/// What is meant by the colours, on one line or two.
pub(super) fn legend(width: usize, theme: Theme, cost: &str) -> Vec<Line<'static>> {
    let holes = Span::styled(format!("{HOLE}{HOLE} hole, padding  its {cost}: "), DIM);
    let heat = |&(from, words): &(f64, &'static str)| Span::styled(format!(" {words} "), theme.block(from));
    let heats: Vec<Span<'static>> = HEAT.iter().skip(1).map(heat).collect();
    let room: usize = heats.iter().chain([&holes]).map(|span| span.content.chars().count()).sum();
    if room > width {
        return vec![Line::from(holes), Line::from(heats)];
    }
    vec![Line::from([vec![holes], heats].concat())]
}
