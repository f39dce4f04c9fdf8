//! Tables as they are drawn: only rows that are in sight are made, and columns that have no room are left out.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};

use super::list::{List, Sort};
use super::theme::{CHOSEN, DIM, HEADING, Theme};
use crate::text::number::RANGE;
use crate::text::table::{Column, shorten_callers, shorten_end, shorten_path};
use crate::view::Report;

/// Blanks between columns.
const GAP: usize = 2;
/// What a name keeps at least, and the text behind the numbers.
const LEAST_NAME: usize = 12;
const LEAST_TEXT: usize = 8;
/// What a name gets before the text behind the numbers gets more.
const USUAL_NAME: usize = 24;

/// The columns of a table that have room, and where each is.
pub(super) struct Columns {
    sort: Sort,
    /// Column, how it is laid out, its first cell on the line, its width.
    placed: Vec<(usize, Column<'static>, usize, usize)>,
}

/// Which columns stay where not all have room: those of the least numbers.
fn stays(all: &[Column<'static>], number: usize) -> usize {
    let before = number.checked_sub(1).map(|before| all[before].heading());
    let rank = match (all[number], before) {
        (_, None) | (Column::Shortened(..), _) => 0,
        // An interval says nothing without what it is of.
        (Column::Number(RANGE), Some("accesses")) => 6,
        (Column::Text(heading) | Column::Number(heading), _) => match heading {
            "lines" => 1,
            "time" | "latency" | "events" | "samples" | "size" | "of its data" => 2,
            RANGE | "bytes" | "cycles" => 3,
            "touches" | "kind" | "accesses" => 4,
            "objects" | "stride" | "stores" => 5,
            _ => 7,
        },
    };
    // Of two that are as good the left one stays.
    rank * 16 + number
}

/// Columns that any share and interval has room in, so that columns stay where they are while rows scroll.
fn usual_width(heading: &str) -> usize {
    match heading {
        "offset" | "size" | "stride" | "objects" | "element" => heading.len(),
        _ => 7,
    }
}

impl Columns {
    /// For lines of `width`; `cells` are those of the rows in sight.
    pub(super) fn place(report: &Report, list: &List, cells: &[Vec<String>], width: usize) -> Self {
        let all = list.listing.columns(report);
        let natural = |(number, column): (usize, &Column<'static>)| {
            let heading = column.heading().chars().count() + usize::from(number == list.sort.column);
            let least = match column {
                Column::Number(name) => heading.max(usual_width(name)),
                Column::Text(_) | Column::Shortened(..) => heading,
            };
            cells.iter().map(|row| row[number].chars().count()).max().unwrap_or(0).max(least)
        };
        let natural: Vec<usize> = all.iter().enumerate().map(natural).collect();
        let last = all.len() - 1;
        let least = |number: usize| match all[number] {
            Column::Shortened(..) => natural[number].min(LEAST_NAME),
            Column::Text(_) if number == last => natural[number].min(LEAST_TEXT),
            Column::Text(_) | Column::Number(_) => natural[number],
        };
        let mut kept: Vec<usize> = (0..all.len()).filter(|&number| natural[number] > 0).collect();
        let needed = |kept: &[usize]| kept.iter().map(|&number| least(number) + GAP).sum::<usize>();
        while kept.len() > 1 && needed(&kept) > width + GAP {
            let worst = (0..kept.len()).max_by_key(|&at| stays(&all, kept[at]));
            worst.map(|at| kept.remove(at));
        }
        let mut room = (width + GAP).saturating_sub(needed(&kept));
        let mut widths: Vec<usize> = kept.iter().map(|&number| least(number)).collect();
        for (is_given, most) in [(true, USUAL_NAME), (false, usize::MAX), (true, usize::MAX)] {
            for (at, &number) in kept.iter().enumerate() {
                if matches!(all[number], Column::Shortened(..)) == is_given {
                    let more = natural[number].min(most).saturating_sub(widths[at]).min(room);
                    widths[at] += more;
                    room -= more;
                }
            }
        }
        let mut x = 0;
        let placed = kept.iter().zip(widths).map(|(&number, width)| {
            let at = x;
            x += width + GAP;
            (number, all[number], at, width)
        });
        Self { sort: list.sort, placed: placed.collect() }
    }

    pub(super) fn draw_headings(&self, buffer: &mut Buffer, area: Rect) {
        for &(number, column, x, width) in &self.placed {
            let is_sorted = number == self.sort.column;
            let arrow = if self.sort.descending { "▾" } else { "▴" };
            let text = format!("{}{}", column.heading(), if is_sorted { arrow } else { "" });
            let style = if is_sorted { HEADING.add_modifier(Modifier::UNDERLINED) } else { DIM };
            put(buffer, area, x, width, &aligned(column, &text, width), style);
        }
    }

    /// A row on a line, whose shares are as hot as `share`.
    pub(super) fn draw_row(
        &self,
        buffer: &mut Buffer,
        area: Rect,
        cells: &[String],
        (share, theme): (f64, Theme),
        is_chosen: bool,
    ) {
        let base = if is_chosen { CHOSEN } else { Style::new() };
        buffer.set_style(Rect { height: 1, ..area }, base);
        let hot = self
            .placed
            .iter()
            .find(|(number, column, ..)| matches!(column, Column::Number(_)) && cells[*number].ends_with('%'));
        let hot = hot.map(|&(number, ..)| number);
        for (at, &(number, column, x, width)) in self.placed.iter().enumerate() {
            let text = &cells[number];
            let text = match column {
                Column::Shortened(..) if looks_like_path(text) => shorten_path(text, width),
                Column::Shortened(..) => shorten_callers(text, width),
                Column::Text(_) if at + 1 < self.placed.len() => shorten_path(text, width),
                Column::Text(_) | Column::Number(_) => shorten_end(text, width),
            };
            let style = if hot == Some(number) && !is_chosen { theme.share(share) } else { base };
            put(buffer, area, x, width, &aligned(column, &text, width), style);
        }
    }
}

/// Of a path the end tells most.
fn looks_like_path(text: &str) -> bool {
    text.starts_with('/')
}

fn aligned(column: Column<'_>, text: &str, width: usize) -> String {
    match column {
        Column::Number(_) => format!("{text:>width$}"),
        Column::Text(_) | Column::Shortened(..) => text.to_owned(),
    }
}

/// Text on the first line of an area, from a column of it on; what is beyond `width` or the area is cut.
pub(super) fn put(buffer: &mut Buffer, area: Rect, x: usize, width: usize, text: &str, style: Style) {
    let room = usize::from(area.width).saturating_sub(x);
    if room > 0 && area.height > 0 {
        buffer.set_stringn(area.x + x as u16, area.y, text, width.min(room), style);
    }
}
