//! A table that is browsed: which rows a filter leaves, in which order, and where its cursor is.

use std::cmp::Ordering;

use super::listing::{Key, Listing, Row};
use super::window::{Motion, Window};
use crate::text::table::Column;
use crate::view::Report;

/// A column, and the direction in which rows are sorted by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) column: usize,
    pub(super) descending: bool,
}

/// A table with its cursor.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) listing: Listing,
    /// Places of the rows that are shown, in their order.
    pub(super) shown: Vec<usize>,
    pub(super) filter: String,
    pub(super) sort: Sort,
    pub(super) window: Window,
}

impl List {
    /// In the report's order: by the first column, shares from the greatest and offsets from the least on.
    pub(super) fn new(report: &Report, listing: Listing) -> Self {
        let column = listing.columns(report)[0];
        let shown = (0..listing.rows.len()).collect();
        let sort = Sort { column: 0, descending: is_largest_first(column) };
        Self { listing, shown, filter: String::new(), sort, window: Window::default() }
    }

    /// The row under the cursor, and its place in the listing.
    pub(super) fn chosen(&self) -> Option<(usize, Row)> {
        let place = *self.shown.get(self.window.cursor)?;
        Some((place, self.listing.rows[place]))
    }

    pub(super) fn go(&mut self, motion: Motion) {
        self.window.go(motion, self.shown.len());
    }

    /// Puts the cursor on a row, where that is shown.
    pub(super) fn choose(&mut self, row: Row) {
        let is_it = |&place: &usize| self.listing.rows[place] == row;
        self.window.cursor = self.shown.iter().position(is_it).unwrap_or(self.window.cursor);
    }

    /// Keeps rows that have all the filter's words; the cursor goes to the first.
    pub(super) fn set_filter(&mut self, report: &Report, filter: &str) {
        let words = filter.to_lowercase();
        let words: Vec<&str> = words.split_whitespace().collect();
        // What is only longer keeps none that the one before did not.
        let all;
        let of: &[usize] = match filter.starts_with(&self.filter) {
            true => &self.shown,
            false => {
                all = (0..self.listing.rows.len()).collect::<Vec<_>>();
                &all
            }
        };
        let has_all = |&place: &usize| {
            let told = if words.is_empty() { String::new() } else { self.listing.words(report, place) };
            words.iter().all(|word| told.contains(word))
        };
        let kept: Vec<usize> = of.iter().copied().filter(has_all).collect();
        let is_wider = !filter.starts_with(&self.filter);
        self.shown = kept;
        self.filter = filter.to_owned();
        if is_wider {
            self.sort(report);
        }
        self.window = Window::default();
    }

    /// Sorts by a column in its own direction: numbers from the greatest on, names and offsets from the first.
    pub(super) fn sort_by(&mut self, report: &Report, column: usize) {
        let columns = self.listing.columns(report);
        let Some(&by) = columns.get(column) else { return };
        self.sort = Sort { column, descending: is_largest_first(by) };
        self.sort(report);
        self.window = Window::default();
    }

    /// The column to the right of the one that is sorted by, or to its left.
    pub(super) fn sort_beside(&mut self, report: &Report, to_the_right: bool) {
        let columns = self.listing.columns(report).len();
        let step = if to_the_right { 1 } else { columns - 1 };
        self.sort_by(report, (self.sort.column + step) % columns);
    }

    pub(super) fn reverse(&mut self, report: &Report) {
        self.sort.descending = !self.sort.descending;
        self.sort(report);
        self.window = Window::default();
    }

    /// Rows that are alike stay in the report's order.
    fn sort(&mut self, report: &Report) {
        let Sort { column, descending } = self.sort;
        let mut keyed: Vec<(Key, usize)> =
            self.shown.iter().map(|&place| (self.listing.key(report, place, column), place)).collect();
        let order = |a: &(Key, usize), b: &(Key, usize)| -> Ordering {
            let by_key = a.0.order(&b.0);
            (if descending { by_key.reverse() } else { by_key }).then(a.1.cmp(&b.1))
        };
        keyed.sort_unstable_by(order);
        self.shown = keyed.into_iter().map(|(_, place)| place).collect();
    }
}

/// Costs are read from the greatest on, names and places from the first.
fn is_largest_first(column: Column<'_>) -> bool {
    matches!(column, Column::Number(heading) if heading != "offset")
}
