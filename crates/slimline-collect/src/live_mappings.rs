//! What a process has mapped where, from two sources: the kernel's records of each new mapping, which come in time and tell
//! nothing of those that go, and `/proc/<pid>/maps`, which is right whenever it is read.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use slimline_trace::address::{Avma, FileOffset};
use slimline_trace::path_text::DELETED;
use slimline_trace::tables::{Mapping, Mappings};
use slimline_trace::wire::AGENT_FILE;

use crate::mapping_history::parse_line;

/// The mappings of one process: those that there are, and those that have gone since the last part.
#[derive(Debug, Default)]
pub(crate) struct LiveMappings {
    /// By their first address; they do not overlap. A fork shares them with its parent until one of the two changes any.
    live: Arc<BTreeMap<u64, Live>>,
    /// Mappings so far: each has a number of its own.
    numbered: usize,
    /// What a fork has of its parent began with it.
    began_ns: u64,
    latest_ns: u64,
    /// Counted up whenever code may lie elsewhere than before.
    generation: u64,
    executable: Option<Arc<str>>,
    ended: Mappings,
}

/// A mapping that there is.
#[derive(Clone, Debug)]
struct Live {
    number: usize,
    mapping: Arc<Mapping>,
    last_seen_ns: u64,
}

impl Live {
    fn is(&self, other: &Mapping) -> bool {
        let mapping = &self.mapping;
        (mapping.start, mapping.end, mapping.file_offset) == (other.start, other.end, other.file_offset)
            && (&mapping.permissions, &mapping.path, mapping.inode) == (&other.permissions, &other.path, other.inode)
    }
}

/// Where code comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodePlace<'a> {
    /// Number of the mapping, which no other of the process ever has.
    pub(crate) number: usize,
    pub(crate) mapping: &'a Mapping,
    /// Place in the file.
    pub(crate) offset: u64,
}

impl LiveMappings {
    /// Those of a child that its parent, whose these are, forked at this time.
    pub(crate) fn forked(&self, time_ns: u64) -> Self {
        Self {
            live: Arc::clone(&self.live),
            numbered: self.numbered,
            began_ns: time_ns,
            latest_ns: time_ns,
            generation: self.generation,
            executable: self.executable.clone(),
            ended: Mappings::default(),
        }
    }

    /// Takes in a new mapping, which replaces what was there.
    pub(crate) fn map(&mut self, mapping: Mapping) {
        let time_ns = mapping.first_seen_ns;
        self.latest_ns = self.latest_ns.max(time_ns);
        if self.at(mapping.start.0).is_some_and(|there| there.is(&mapping)) {
            return;
        }
        self.cut(mapping.start.0, mapping.end.0, time_ns);
        self.add(mapping);
    }

    /// Takes in `/proc/<pid>/maps` as it was at this time, of that process.
    pub(crate) fn snapshot(&mut self, time_ns: u64, text: &[u8], pid: Option<u32>) {
        self.latest_ns = self.latest_ns.max(time_ns);
        let mut gone = Arc::unwrap_or_clone(mem::take(&mut self.live));
        let mut live = BTreeMap::new();
        let mut new = Vec::new();
        for mapping in text.split(|&byte| byte == b'\n').filter_map(|line| parse_line(line, time_ns, pid)) {
            let start = mapping.start.0;
            match gone.remove(&start) {
                Some(there) if there.is(&mapping) => {
                    let last_seen_ns = there.last_seen_ns.max(time_ns);
                    live.insert(start, Live { last_seen_ns, ..there });
                }
                other => {
                    gone.extend(other.map(|other| (start, other)));
                    new.push(mapping);
                }
            }
        }
        self.generation += u64::from(!gone.is_empty() || !new.is_empty());
        self.live = Arc::new(live);
        gone.into_values().for_each(|there| self.end_of(&there, 0));
        new.into_iter().for_each(|mapping| self.add(mapping));
    }

    fn at(&self, address: u64) -> Option<&Live> {
        let (_, there) = self.live.range(..=address).next_back()?;
        (address < there.mapping.end.0).then_some(there)
    }

    /// Whether there is a mapping at an address now.
    pub(crate) fn holds(&self, address: u64) -> bool {
        self.at(address).is_some()
    }

    /// Where the code at an address comes from: a file that is mapped there and can't be written.
    pub(crate) fn code_at(&self, address: u64) -> Option<CodePlace<'_>> {
        let Live { number, mapping, .. } = self.at(address)?;
        let is_code = matches!(mapping.permissions.as_bytes(), [_, b'-', b'x', ..]) && mapping.path.starts_with('/');
        let offset = (address - mapping.start.0).wrapping_add(mapping.file_offset.0);
        is_code.then_some(CodePlace { number: *number, mapping, offset })
    }

    /// Whether the code at an address is that of the agent, which stays in a program after it gave up. Nothing but this code
    /// accesses the memory that slimline has there.
    pub(crate) fn is_agent(&self, address: u64) -> bool {
        self.at(address).is_some_and(|there| {
            let path = &there.mapping.path;
            path.strip_suffix(DELETED).unwrap_or(path).rsplit('/').next() == Some(AGENT_FILE)
        })
    }

    /// Changes whenever code may lie elsewhere than before.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The first program mapped: the executable, in a fresh process.
    pub(crate) fn executable(&self) -> Option<&str> {
        self.executable.as_deref()
    }

    /// Those that there are, seen until now.
    pub(crate) fn live(&self) -> Mappings {
        let mut rows = Mappings::with_capacity(self.live.len());
        self.live.values().for_each(|there| rows.push(self.row(there, self.latest_ns)));
        rows
    }

    /// Those that have gone since the last call.
    pub(crate) fn take_ended(&mut self) -> Mappings {
        mem::take(&mut self.ended)
    }

    /// Ends what there is, as the process has ended.
    pub(crate) fn end(&mut self, time_ns: u64) {
        self.latest_ns = self.latest_ns.max(time_ns);
    }

    /// As the table tells it, seen until then at least.
    fn row(&self, there: &Live, until_ns: u64) -> Mapping {
        let first_seen_ns = there.mapping.first_seen_ns.max(self.began_ns);
        let last_seen_ns = there.last_seen_ns.max(until_ns).max(first_seen_ns);
        Mapping { first_seen_ns, last_seen_ns, ..Mapping::clone(&there.mapping) }
    }

    fn end_of(&mut self, there: &Live, until_ns: u64) {
        let row = self.row(there, until_ns);
        self.ended.push(row);
    }

    fn add(&mut self, mapping: Mapping) {
        self.generation += 1;
        if self.executable.is_none() && mapping.path.starts_with('/') {
            self.executable = Some(mapping.path.as_str().into());
        }
        let (number, last_seen_ns) = (self.numbered, mapping.last_seen_ns);
        self.numbered += 1;
        let start = mapping.start.0;
        Arc::make_mut(&mut self.live).insert(start, Live { number, mapping: Arc::new(mapping), last_seen_ns });
    }

    /// Takes `start..end` out of all that there is. What is left of a mapping is one of its own from now on.
    fn cut(&mut self, start: u64, end: u64, time_ns: u64) {
        let first = self.live.range(..start).next_back().map_or(start, |(&base, _)| base);
        let is_hit = |there: &&Live| there.mapping.end.0 > start;
        let overlapping: Vec<Live> =
            self.live.range(first..end).map(|(_, there)| there).filter(is_hit).cloned().collect();
        for there in overlapping {
            Arc::make_mut(&mut self.live).remove(&there.mapping.start.0);
            self.end_of(&there, time_ns.saturating_sub(1));
            let whole = Mapping::clone(&there.mapping);
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

    /// Those that have gone and those that there are, in the order in which they came.
    fn lives(mappings: &mut LiveMappings) -> Vec<(u64, u64, u64, u64, u64)> {
        let mut table = mappings.take_ended();
        table.append(&mut mappings.live());
        let mut rows: Vec<_> = table
            .iter()
            .map(|row| (row.start.0, row.end.0, row.file_offset.0, row.first_seen_ns, row.last_seen_ns))
            .collect();
        rows.sort_by_key(|row| row.3);
        rows
    }

    #[test]
    fn what_is_mapped_over_ends_and_its_rest_lives_on() {
        let mut mappings = LiveMappings::default();
        mappings.map(mapping(0x10000, 0x20000, "/lib/a", 10));
        mappings.map(mapping(0x14000, 0x15000, "/lib/b", 20));
        mappings.end(30);
        let at = |address| mappings.code_at(address).map(|place| place.mapping.path.as_str());
        assert_eq!(at(0x14fff), Some("/lib/b"));
        assert_eq!(at(0x15000), Some("/lib/a"));
        assert_eq!((at(0xffff), at(0x20000)), (None, None));
        assert_eq!(mappings.code_at(0x15008).map(|place| place.offset), Some(0x6008));
        assert_eq!(mappings.executable(), Some("/lib/a"));
        let expected = [
            (0x10000, 0x20000, 0x1000, 10, 19),
            (0x10000, 0x14000, 0x1000, 20, 30),
            (0x14000, 0x15000, 0x1000, 20, 30),
            (0x15000, 0x20000, 0x6000, 20, 30),
        ];
        assert_eq!(lives(&mut mappings), expected);
    }

    #[test]
    fn a_snapshot_ends_what_it_does_not_show() {
        let mut mappings = LiveMappings::default();
        mappings.map(mapping(0x10000, 0x20000, "/lib/a", 10));
        mappings.map(mapping(0x30000, 0x31000, "/lib/b", 20));
        let before = mappings.generation();
        let kept = "10000-20000 r-xp 00001000 fe:00 7   /lib/a\n";
        let all = format!("{kept}30000-31000 r-xp 00001000 fe:00 7   /lib/b\n");
        mappings.snapshot(30, all.as_bytes(), None);
        assert_eq!(mappings.generation(), before, "nothing new");
        let grown = format!("{kept}50000-51000 rw-p 00000000 00:00 0\n");
        mappings.snapshot(40, grown.as_bytes(), None);
        assert_ne!(mappings.generation(), before);
        let expected =
            [(0x10000, 0x20000, 0x1000, 10, 40), (0x30000, 0x31000, 0x1000, 20, 30), (0x50000, 0x51000, 0, 40, 40)];
        assert_eq!(lives(&mut mappings), expected);
        let before = mappings.generation();
        mappings.snapshot(50, grown.as_bytes(), None);
        mappings.map(mapping(0x10000, 0x20000, "/lib/a", 55));
        assert_eq!(mappings.generation(), before, "nothing new");
    }

    #[test]
    fn what_has_gone_is_told_once() {
        let mut mappings = LiveMappings::default();
        let mut told = 0;
        for time_ns in 1..=1000 {
            mappings.map(mapping(0x10000, 0x20000 + time_ns * 0x1000, "", time_ns));
            if time_ns % 100 == 0 {
                let ended = mappings.take_ended();
                assert_eq!((ended.len(), mappings.live().len()), (if told == 0 { 99 } else { 100 }, 1));
                told += ended.len();
            }
        }
        assert_eq!(told, 999);
    }

    #[test]
    fn a_child_begins_with_what_its_parent_has() {
        let mut mappings = LiveMappings::default();
        mappings.map(mapping(0x10000, 0x20000, "/lib/a", 10));
        mappings.map(mapping(0x10000, 0x20000, "/lib/b", 20));
        let mut child = mappings.forked(50);
        assert!(Arc::ptr_eq(&child.live, &mappings.live), "nothing is copied for one that only calls exec");
        // What either does then is its own.
        mappings.map(mapping(0x10000, 0x20000, "/lib/c", 60));
        child.map(mapping(0x30000, 0x31000, "/lib/d", 70));
        let expected = [(0x10000, 0x20000, 0x1000, 50, 70), (0x30000, 0x31000, 0x1000, 70, 70)];
        assert_eq!((lives(&mut child), child.executable()), (expected.to_vec(), Some("/lib/a")));
        assert_eq!(mappings.live().path, ["/lib/c"]);
    }
}
