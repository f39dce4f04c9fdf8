//! Tables in which each row is once, as formats have them for names, frames and stacks.

use std::collections::HashMap;
use std::hash::Hash;

/// Rows in the order in which they were first asked for, by number from 0.
#[derive(Clone, Debug)]
pub(crate) struct Numbered<T> {
    numbers: HashMap<T, u32>,
    rows: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), rows: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    /// The number of a row, which is added where it is new.
    pub(crate) fn number(&mut self, row: T) -> u32 {
        let next = self.rows.len() as u32;
        *self.numbers.entry(row).or_insert_with_key(|row| {
            self.rows.push(row.clone());
            next
        })
    }

    /// All rows.
    pub(crate) fn rows(&self) -> &[T] {
        &self.rows
    }

    /// All rows.
    pub(crate) fn into_rows(self) -> Vec<T> {
        self.rows
    }
}
