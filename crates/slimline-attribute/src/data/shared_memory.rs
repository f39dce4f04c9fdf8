//! Memory that processes share: mappings of one object are the same memory, wherever they lie in each process.

use slimline_trace::tables::Mappings;

/// What is mapped: a file, or memory that has none (`MAP_SHARED | MAP_ANONYMOUS`, a `memfd`, a segment of System V). The kernel
/// gives each of these an inode.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedObject {
    device: String,
    inode: u64,
    /// Inodes of System V's segments are their identifiers, which are numbered apart from those of others on the same device.
    is_system_v: bool,
}

/// The shared mappings of a process, and others that were at the same addresses at another time.
#[derive(Clone, Debug, Default)]
pub struct SharedMappings {
    /// By first address.
    rows: Vec<Row>,
    objects: Vec<SharedObject>,
}

#[derive(Clone, Debug)]
struct Row {
    start: u64,
    end: u64,
    /// The highest end of this row and all before it.
    reach: u64,
    seen_ns: (u64, u64),
    /// Which object, and the offset of the first byte in it; none of private memory.
    shared: Option<(usize, u64)>,
}

impl SharedMappings {
    /// Those that the tables of a process tell of.
    pub fn new(mappings: &Mappings) -> Self {
        let mut found = Self::default();
        let is_shared =
            |row: usize| mappings.permissions[row].as_bytes().get(3) == Some(&b's') && mappings.inode[row] != 0;
        let shared: Vec<usize> = (0..mappings.len()).filter(|&row| is_shared(row)).collect();
        let ends = |row: usize| (mappings.start[row].0, mappings.end[row].0);
        let (Some(first), Some(last)) =
            (shared.iter().map(|&row| ends(row).0).min(), shared.iter().map(|&row| ends(row).1).max())
        else {
            return found;
        };
        for row in (0..mappings.len()).filter(|&row| ends(row).0 < last && first < ends(row).1) {
            let (start, end) = ends(row);
            let shared = is_shared(row).then(|| {
                let object = SharedObject {
                    device: mappings.device[row].clone(),
                    inode: mappings.inode[row],
                    is_system_v: mappings.path[row].starts_with("/SYSV"),
                };
                let number = found.objects.iter().position(|known| *known == object).unwrap_or_else(|| {
                    found.objects.push(object);
                    found.objects.len() - 1
                });
                (number, mappings.file_offset[row].0)
            });
            let seen_ns = (mappings.first_seen_ns[row], mappings.last_seen_ns[row]);
            found.rows.push(Row { start, end, reach: end, seen_ns, shared });
        }
        found.rows.sort_by_key(|row| row.start);
        let mut reach = 0;
        for row in &mut found.rows {
            reach = row.end.max(reach);
            row.reach = reach;
        }
        found
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// All objects that are mapped.
    pub fn objects(&self) -> &[SharedObject] {
        &self.objects
    }

    /// The object that an address belonged to at a time, or nearest to that, and the address's offset in it.
    pub fn at(&self, address: u64, time_ns: u64) -> Option<(&SharedObject, u64)> {
        let behind = self.rows.partition_point(|row| row.start <= address);
        let there = self.rows[..behind].iter().rev().take_while(|row| row.reach > address);
        let away_ns = |row: &Row| match row.seen_ns {
            (first, _) if time_ns < first => first - time_ns,
            (_, last) => time_ns.saturating_sub(last),
        };
        let nearest = there.filter(|row| address < row.end).min_by_key(|row| away_ns(row))?;
        let (object, offset) = nearest.shared?;
        Some((&self.objects[object], offset + (address - nearest.start)))
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::address::{Avma, FileOffset};
    use slimline_trace::tables::Mapping;

    use super::*;

    fn mapping(start: u64, end: u64, permissions: &str, inode: u64, path: &str, seen_ns: (u64, u64)) -> Mapping {
        Mapping {
            start: Avma(start),
            end: Avma(end),
            file_offset: FileOffset(0x100),
            permissions: permissions.to_owned(),
            device: "00:01".to_owned(),
            inode,
            path: path.to_owned(),
            first_seen_ns: seen_ns.0,
            last_seen_ns: seen_ns.1,
        }
    }

    fn mappings(rows: &[Mapping]) -> SharedMappings {
        let mut mappings = Mappings::default();
        rows.iter().for_each(|row| mappings.push(row.clone()));
        SharedMappings::new(&mappings)
    }

    #[test]
    fn the_same_memory_is_known_wherever_it_lies() {
        let zero = "/dev/zero (deleted)";
        let parent = mappings(&[
            mapping(0x1000, 0x3000, "rw-s", 7, zero, (1, 9)),
            mapping(0x5000, 0x6000, "rw-p", 7, "/lib/a.so", (1, 9)),
            mapping(0x8000, 0x9000, "rw-s", 7, "/SYSV00000000 (deleted)", (1, 9)),
        ]);
        let other = mappings(&[mapping(0xa000, 0xc000, "r--s", 7, zero, (1, 9))]);
        let (object, offset) = parent.at(0x1010, 5).unwrap();
        assert_eq!((other.at(0xa010, 5), offset), (Some((object, 0x110)), 0x110));
        assert_ne!(parent.at(0x8000, 5).unwrap().0, object, "a segment has an identifier, no inode");
        assert_eq!([0x3000, 0x5000, 0xfff].map(|address| parent.at(address, 5)), [None, None, None]);
        assert!(mappings(&[mapping(0x5000, 0x6000, "rw-p", 7, "/lib/a.so", (1, 9))]).is_empty());
    }

    #[test]
    fn what_came_to_lie_there_later_is_private() {
        let process = mappings(&[
            mapping(0x1000, 0x3000, "rw-s", 7, "/run/shm/a", (1, 9)),
            mapping(0x2000, 0x4000, "rw-p", 0, "", (20, 30)),
        ]);
        assert!(process.at(0x2000, 9).is_some() && process.at(0x2000, 25).is_none());
        assert!(process.at(0x1000, 25).is_some(), "nothing else is known of it");
    }
}
