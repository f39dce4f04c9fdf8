//! What a process has mapped where, from two sources: the kernel's records of each new mapping, which come in time and tell
//! nothing of those that go, and `/proc/<pid>/maps`, which is right whenever it is read.

use std::collections::BTreeMap;

use slimline_trace::address::{Avma, FileOffset};
use slimline_trace::tables::{Mapping, Mappings};

use crate::mapping_history::parse_line;

/// The mappings of one process, those that there are and those that there were.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveMappings {
    /// Rows of the table, by their first address. They do not overlap.
    live: BTreeMap<u64, usize>,
    rows: Mappings,
    latest_ns: u64,
    /// Counted up whenever code may lie elsewhere than before.
    generation: u64,
}

impl LiveMappings {
    /// Those of a child that its parent, whose these are, forked at this time.
    pub(crate) fn forked(&self, time_ns: u64) -> Self {
        let mut child = Self { latest_ns: time_ns, ..Self::default() };
        for &row in self.live.values() {
            child.add(Mapping { first_seen_ns: time_ns, last_seen_ns: time_ns, ..self.rows.row(row) });
        }
        child
    }

    /// Takes in a new mapping, which replaces what was there.
    pub(crate) fn map(&mut self, mapping: Mapping) {
        let time_ns = mapping.first_seen_ns;
        self.latest_ns = self.latest_ns.max(time_ns);
        if self.at(mapping.start.0).is_some_and(|row| self.is_same(row, &mapping)) {
            return;
        }
        self.cut(mapping.start.0, mapping.end.0, time_ns);
        self.add(mapping);
    }

    /// Takes in `/proc/<pid>/maps` as it was at this time.
    pub(crate) fn snapshot(&mut self, time_ns: u64, text: &str) {
        self.latest_ns = self.latest_ns.max(time_ns);
        let mut gone: BTreeMap<u64, usize> = std::mem::take(&mut self.live);
        let mut new = Vec::new();
        for mapping in text.lines().filter_map(|line| parse_line(line, time_ns)) {
            match gone.get(&mapping.start.0).copied().filter(|&row| self.is_same(row, &mapping)) {
                Some(row) => {
                    gone.remove(&mapping.start.0);
                    self.live.insert(mapping.start.0, row);
                }
                None => new.push(mapping),
            }
        }
        self.generation += u64::from(!gone.is_empty() || !new.is_empty());
        new.into_iter().for_each(|mapping| self.add(mapping));
    }

    /// The row of the mapping that holds an address now.
    pub(crate) fn at(&self, address: u64) -> Option<usize> {
        let (_, &row) = self.live.range(..=address).next_back()?;
        (address < self.rows.end[row].0).then_some(row)
    }

    /// Where an address is in the file whose code is mapped there and can't be written: the mapping's row, and the place.
    pub(crate) fn code_at(&self, address: u64) -> Option<(usize, u64)> {
        let row = self.at(address)?;
        let is_code = matches!(self.rows.permissions[row].as_bytes(), [_, b'-', b'x', ..]);
        let place = address - self.rows.start[row].0 + self.rows.file_offset[row].0;
        (is_code && self.rows.path[row].starts_with('/')).then_some((row, place))
    }

    /// A row of the table. Rows keep their numbers.
    pub(crate) fn row(&self, row: usize) -> Mapping {
        self.rows.row(row)
    }

    /// Changes whenever code may lie elsewhere than before.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The first program mapped: the executable, in a fresh process.
    pub(crate) fn executable(&self) -> Option<&str> {
        self.rows.path.iter().find(|path| path.starts_with('/')).map(String::as_str)
    }

    /// The table, with what there is now seen until now.
    pub(crate) fn table(&self) -> Mappings {
        let mut rows = self.rows.clone();
        for &row in self.live.values() {
            rows.last_seen_ns[row] = rows.last_seen_ns[row].max(self.latest_ns);
        }
        rows
    }

    /// Ends what there is, as the process has ended.
    pub(crate) fn end(&mut self, time_ns: u64) {
        self.latest_ns = self.latest_ns.max(time_ns);
    }

    fn is_same(&self, row: usize, other: &Mapping) -> bool {
        let rows = &self.rows;
        (rows.start[row], rows.end[row], rows.file_offset[row]) == (other.start, other.end, other.file_offset)
            && (&rows.permissions[row], &rows.path[row], rows.inode[row])
                == (&other.permissions, &other.path, other.inode)
    }

    fn add(&mut self, mapping: Mapping) {
        self.generation += 1;
        self.live.insert(mapping.start.0, self.rows.len());
        self.rows.push(mapping);
    }

    /// Takes `start..end` out of all that there is. What is left of a mapping is one of its own from now on.
    fn cut(&mut self, start: u64, end: u64, time_ns: u64) {
        let first = self.live.range(..start).next_back().map_or(start, |(&base, _)| base);
        let overlapping: Vec<usize> =
            self.live.range(first..end).map(|(_, &row)| row).filter(|&row| self.rows.end[row].0 > start).collect();
        for row in overlapping {
            let whole = self.rows.row(row);
            self.live.remove(&whole.start.0);
            let last = &mut self.rows.last_seen_ns[row];
            *last = (*last).max(time_ns.saturating_sub(1));
            let rest = Mapping { first_seen_ns: time_ns, last_seen_ns: time_ns, ..whole.clone() };
            if whole.start.0 < start {
                self.add(Mapping { end: Avma(start), ..rest.clone() });
            }
            if end < whole.end.0 {
                // Anonymous memory has no place in a file.
                let skipped = if whole.path.starts_with('/') { end - whole.start.0 } else { 0 };
                let file_offset = FileOffset(whole.file_offset.0.wrapping_add(skipped));
                self.add(Mapping { start: Avma(end), file_offset, ..rest });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, path: &str, time_ns: u64) -> Mapping {
        Mapping {
            start: Avma(start),
            end: Avma(end),
            file_offset: FileOffset(0x1000),
            permissions: "r-xp".to_owned(),
            device: "fe:00".to_owned(),
            inode: 7,
            path: path.to_owned(),
            first_seen_ns: time_ns,
            last_seen_ns: time_ns,
        }
    }

    fn lives(mappings: &LiveMappings) -> Vec<(u64, u64, u64, u64, u64)> {
        let table = mappings.table();
        table
            .iter()
            .map(|row| (row.start.0, row.end.0, row.file_offset.0, row.first_seen_ns, row.last_seen_ns))
            .collect()
    }

    #[test]
    fn what_is_mapped_over_ends_and_its_rest_lives_on() {
        let mut mappings = LiveMappings::default();
        mappings.map(mapping(0x10000, 0x20000, "/lib/a", 10));
        mappings.map(mapping(0x14000, 0x15000, "/lib/b", 20));
        mappings.end(30);
        let expected = [
            (0x10000, 0x20000, 0x1000, 10, 19),
            (0x10000, 0x14000, 0x1000, 20, 30),
            (0x15000, 0x20000, 0x6000, 20, 30),
            (0x14000, 0x15000, 0x1000, 20, 30),
        ];
        assert_eq!(lives(&mappings), expected);
        let at = |address| mappings.at(address).map(|row| mappings.row(row).path);
        assert_eq!(at(0x14fff).as_deref(), Some("/lib/b"));
        assert_eq!(at(0x15000).as_deref(), Some("/lib/a"));
        assert_eq!((at(0xffff), at(0x20000)), (None, None));
        assert_eq!(mappings.executable(), Some("/lib/a"));
    }

    #[test]
    fn a_snapshot_ends_what_it_does_not_show() {
        let mut mappings = LiveMappings::default();
        mappings.map(mapping(0x10000, 0x20000, "/lib/a", 10));
        mappings.map(mapping(0x30000, 0x31000, "/lib/b", 20));
        let before = mappings.generation();
        mappings.snapshot(40, "10000-20000 r-xp 00001000 fe:00 7   /lib/a\n50000-51000 rw-p 00000000 00:00 0\n");
        assert_ne!(mappings.generation(), before);
        let expected =
            [(0x10000, 0x20000, 0x1000, 10, 40), (0x30000, 0x31000, 0x1000, 20, 20), (0x50000, 0x51000, 0, 40, 40)];
        assert_eq!(lives(&mappings), expected);
        let before = mappings.generation();
        mappings.snapshot(50, "10000-20000 r-xp 00001000 fe:00 7   /lib/a\n50000-51000 rw-p 00000000 00:00 0\n");
        mappings.map(mapping(0x10000, 0x20000, "/lib/a", 55));
        assert_eq!(mappings.generation(), before, "nothing new");
    }

    #[test]
    fn a_child_begins_with_what_its_parent_has() {
        let mut mappings = LiveMappings::default();
        mappings.map(mapping(0x10000, 0x20000, "/lib/a", 10));
        mappings.map(mapping(0x10000, 0x20000, "/lib/b", 20));
        let child = mappings.forked(50);
        assert_eq!(lives(&child), [(0x10000, 0x20000, 0x1000, 50, 50)]);
    }
}
