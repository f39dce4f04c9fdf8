//! Which pages of objects are accessed when, with objects elsewhere: what a picture of an order shows.

use crate::access::{Access, AccessKind, Consumer, Located};
use crate::relocated::{PAGE_BYTES, is_object};

/// Accesses to objects by time and page: columns of as many accesses each, rows of as many pages each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Column by column.
    pub cells: Vec<u32>,
    /// Cells of a column.
    pub rows: usize,
    /// Pages that objects have bytes of.
    pub pages: usize,
}

/// Takes them in.
pub struct Touching<'a> {
    /// By object: how far it is moved, modulo 2⁶⁴; those beyond are not.
    moves: &'a [u64],
    /// Those of objects, ascending.
    pages: Vec<u64>,
    /// Accesses to objects, all and those that were.
    all: u64,
    seen: u64,
    columns: usize,
    touched: Touched,
}

impl<'a> Touching<'a> {
    /// With objects, each from an address on (as accesses have it) and of so many bytes, moved as far as this; so many accesses to objects
    /// are to come.
    pub fn new(
        objects: impl Iterator<Item = (u64, u64)>,
        moves: &'a [u64],
        (columns, rows): (usize, usize),
        all: u64,
    ) -> Self {
        let ends = objects.enumerate().flat_map(|(number, (start, bytes))| {
            let start = start.wrapping_add(moves.get(number).copied().unwrap_or(0));
            page(start)..=page(start.saturating_add(bytes.max(1) - 1))
        });
        let mut pages: Vec<u64> = Vec::new();
        for page in ends {
            if pages.last() != Some(&page) {
                pages.push(page);
            }
        }
        pages.sort_unstable();
        pages.dedup();
        let touched = Touched { cells: vec![0; columns * rows], rows, pages: pages.len() };
        Self { moves, pages, all: all.max(1), seen: 0, columns, touched }
    }

    /// What was accessed.
    pub fn finish(self) -> Touched {
        self.touched
    }
}

fn page(address: u64) -> u64 {
    address / PAGE_BYTES
}

impl Consumer for Touching<'_> {
    fn take(&mut self, accesses: &[Access]) {
        for access in accesses {
            if access.kind == AccessKind::Fetch || !is_object(access.key) {
                continue;
            }
            let by = self.moves.get(access.key as usize).copied().unwrap_or(0);
            let address = access.address.wrapping_add(by);
            let column = (u128::from(self.seen) * self.columns as u128 / u128::from(self.all)) as usize;
            self.seen += 1;
            let at = self.pages.partition_point(|page_of_object| *page_of_object < page(address));
            let row = at.min(self.pages.len().saturating_sub(1)) * self.touched.rows / self.pages.len().max(1);
            let cell = column.min(self.columns - 1) * self.touched.rows + row;
            self.touched.cells[cell] = self.touched.cells[cell].saturating_add(1);
        }
    }

    fn locate(&mut self, _: &Located<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Work;
    use crate::relocated::{BESIDE_OBJECTS, NO_OBJECT};

    #[test]
    fn cells_count_accesses_by_time_and_page() {
        // Three objects: two in a page, the third one over two pages far away.
        let objects = [(0x1000, 16), (0x1800, 16), (0x9ff0, 32)];
        let access = |address, key, kind| Access { address, key, bytes: 8, thread: 0, kind, work: Work::USUAL };
        let accesses = [
            access(0x1000, 0, AccessKind::Load),
            access(0x1808, 1, AccessKind::Store),
            access(0x5000, NO_OBJECT, AccessKind::Load),
            access(0x1010, BESIDE_OBJECTS, AccessKind::Load),
            access(0xa008, 2, AccessKind::Load),
            access(0x9ff8, 2, AccessKind::Load),
        ];
        let touched = |moves: &[u64], columns| {
            let mut touching = Touching::new(objects.into_iter(), moves, (columns, 3), 4);
            accesses.chunks(2).for_each(|part| touching.take(part));
            touching.finish()
        };
        assert_eq!(touched(&[], 2), Touched { cells: vec![2, 0, 0, 0, 1, 1], rows: 3, pages: 3 });
        // The second one is put into a page of its own, behind the others.
        assert_eq!(touched(&[0, 0x10000, 0], 1), Touched { cells: vec![2, 1, 1], rows: 3, pages: 4 });
    }
}
