//! A table that can be cloned for the price of a pointer for each 1,024 rows: clones share pages of rows until one writes to them.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

const PAGE_ROWS: usize = 1024;

/// Which of all clones wrote to a page last, as far as whoever uses the table wants to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Epoch(u32);

impl Epoch {
    /// The one of a clone.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

#[derive(Clone, Debug)]
struct Page<T> {
    epoch: Epoch,
    rows: [T; PAGE_ROWS],
}

/// Rows by number.
#[derive(Clone, Debug)]
pub(super) struct ClonedTable<T> {
    pages: Vec<Arc<Page<T>>>,
    rows: usize,
}

impl<T: Copy> ClonedTable<T> {
    /// With one row.
    pub(super) fn new(first: T) -> Self {
        Self { pages: vec![Arc::new(Page { epoch: Epoch::default(), rows: [first; PAGE_ROWS] })], rows: 1 }
    }

    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// Adds a row; the others of its page enter the epoch as of [`Self::enter`].
    pub(super) fn push(&mut self, row: T, epoch: Epoch, enter: impl Fn(&mut T)) {
        if self.rows.is_multiple_of(PAGE_ROWS) {
            self.pages.push(Arc::new(Page { epoch, rows: [row; PAGE_ROWS] }));
        } else {
            self.enter(self.rows, epoch, enter);
            let last = self.rows;
            self[last] = row;
        }
        self.rows += 1;
    }

    /// The epoch of a row's page.
    pub(super) fn epoch(&self, row: usize) -> Epoch {
        self.pages[row / PAGE_ROWS].epoch
    }

    /// Has the row's page be of this epoch; `enter` changes each of its rows if it was not.
    pub(super) fn enter(&mut self, row: usize, epoch: Epoch, enter: impl Fn(&mut T)) {
        let page = &mut self.pages[row / PAGE_ROWS];
        if page.epoch != epoch {
            let page = Arc::make_mut(page);
            page.epoch = epoch;
            page.rows.iter_mut().for_each(enter);
        }
    }
}

impl<T> Index<usize> for ClonedTable<T> {
    type Output = T;

    #[inline]
    fn index(&self, row: usize) -> &T {
        &self.pages[row / PAGE_ROWS].rows[row % PAGE_ROWS]
    }
}

impl<T: Copy> IndexMut<usize> for ClonedTable<T> {
    #[inline]
    fn index_mut(&mut self, row: usize) -> &mut T {
        &mut Arc::make_mut(&mut self.pages[row / PAGE_ROWS]).rows[row % PAGE_ROWS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_change_apart() {
        let mut first = ClonedTable::new((0, 0));
        let mut epoch = Epoch::default();
        (1..3000).for_each(|row| first.push((row, 7), epoch, |_| panic!("it is of that epoch")));
        let mut second = first.clone();
        epoch = epoch.next();
        second[2000].0 = 1;
        second.enter(2001, epoch, |row| row.1 = 9);
        second.push((3000, 8), epoch, |row| row.1 = 9);
        assert_eq!((first[2000], second[2000], first[1000], second[1000]), ((2000, 7), (1, 9), (1000, 7), (1000, 7)));
        assert_eq!((first.len(), second.len(), second[2999], second[3000]), (3000, 3001, (2999, 9), (3000, 8)));
        assert_eq!((first.epoch(2000), second.epoch(2000), second.epoch(10)), (Epoch(0), Epoch(1), Epoch(0)));
    }
}
