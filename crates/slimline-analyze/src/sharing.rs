//! What threads share: the same bytes (true sharing), or other bytes of the same line (false sharing).
//!
//! For each line that several threads access, and one stores to:
//!
//! ```text
//!   byte      0       8       16              64
//!             ├───────┼───────┼───────────────┤
//!   thread 1  SSSSSSSS LLLLLLLL                      S stores   L loads
//!   thread 2           SSSSSSSS LLLLLLLL
//!             └ side ┘└ truly ┘└─ side ┘             of thread 1 and thread 2
//! ```
//!
//! Bytes that two access and one stores to are truly shared. Two threads share falsely where one stores bytes that the other
//! does not access, and that one accesses bytes that the first does not: these are the two sides.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use slimline_simulate::sharing::{Part, SharedLines, Uses};

use crate::origins::Origins;

/// A variable, or a member of one: numbers of data and of a field's name, as [`Origins`] have them.
pub type Member = (u32, u32);

/// What threads truly share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedVariable {
    /// Which.
    pub member: Member,
    /// Accesses by thread, most first.
    pub threads: Vec<(u32, Uses)>,
    /// The same by line of code, most first.
    pub code: Vec<(u32, Uses)>,
    /// Lines that it is in.
    pub lines: u64,
}

impl SharedVariable {
    /// Whether the thread with most accesses has less than twice as many as the next one: then all are in each other's way.
    pub fn is_uniform(&self) -> bool {
        matches!(self.threads.as_slice(), [(_, first), (_, second), ..] if first.count() < 2 * second.count())
    }

    /// All accesses.
    pub fn uses(&self) -> Uses {
        sum(self.threads.iter().map(|(_, uses)| *uses))
    }

    /// Threads that store.
    pub fn writers(&self) -> usize {
        self.threads.iter().filter(|(_, uses)| uses.stores > 0).count()
    }
}

/// What shares lines with what else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FalselyShared {
    /// Who accesses what.
    pub sides: Vec<Side>,
    /// Lines that it happens in.
    pub lines: u64,
    /// Least bytes from what one thread accesses to what another one does.
    pub apart_bytes: u32,
}

/// One side of false sharing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Which variable or member.
    pub member: Member,
    /// Accesses by thread, most first.
    pub threads: Vec<(u32, Uses)>,
    /// The same by line of code, most first.
    pub code: Vec<(u32, Uses)>,
}

impl FalselyShared {
    /// All accesses.
    pub fn uses(&self) -> Uses {
        sum(self.sides.iter().flat_map(|side| &side.threads).map(|(_, uses)| *uses))
    }
}

/// What was found, most accesses first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharingFindings {
    /// By variable and member.
    pub shared: Vec<SharedVariable>,
    /// By what is on the sides.
    pub falsely: Vec<FalselyShared>,
}

#[derive(Default)]
struct Counts {
    threads: BTreeMap<u32, Uses>,
    code: BTreeMap<u32, Uses>,
}

impl Counts {
    fn add(&mut self, thread: u32, line: u32, uses: Uses) {
        self.threads.entry(thread).or_default().add(uses);
        self.code.entry(line).or_default().add(uses);
    }
}

#[derive(Default)]
struct FalseCounts {
    sides: BTreeMap<Member, Counts>,
    lines: u64,
    apart_bytes: Option<u32>,
}

/// Tells what is shared truly and falsely.
pub fn findings(lines: &SharedLines, origins: &Origins) -> SharingFindings {
    let mut shared: BTreeMap<Member, (Counts, u64)> = BTreeMap::new();
    let mut falsely: BTreeMap<Vec<Member>, FalseCounts> = BTreeMap::new();
    for (_, parts) in lines.lines() {
        let bytes = Bytes::of(&parts, lines.line_bytes());
        let mut members = BTreeSet::new();
        for (part, uses) in parts.iter().filter(|(part, _)| bytes.is_truly_shared(part)) {
            let origin = origins.of(part.key);
            let member = (origin.data, origin.field);
            let (counts, lines) = shared.entry(member).or_default();
            *lines += u64::from(members.insert(member));
            counts.add(part.thread, origin.line, *uses);
        }
        let sides: Vec<&(Part, Uses)> = parts.iter().filter(|(part, _)| bytes.is_side(part)).collect();
        if sides.is_empty() {
            continue;
        }
        let member = |part: &Part| {
            let origin = origins.of(part.key);
            (origin.data, origin.field)
        };
        let members: BTreeSet<Member> = sides.iter().map(|(part, _)| member(part)).collect();
        let counts = falsely.entry(members.into_iter().collect()).or_default();
        counts.lines += 1;
        for (part, uses) in &sides {
            let side = counts.sides.entry(member(part)).or_default();
            side.add(part.thread, origins.of(part.key).line, *uses);
        }
        let apart = apart_bytes(&sides);
        counts.apart_bytes = counts.apart_bytes.into_iter().chain(apart).min();
    }
    let shared = shared.into_iter().map(|(member, (counts, lines))| SharedVariable {
        member,
        threads: ranked(counts.threads),
        code: ranked(counts.code),
        lines,
    });
    let falsely = falsely.into_values().map(|counts| {
        let side = |(member, counts): (Member, Counts)| Side {
            member,
            threads: ranked(counts.threads),
            code: ranked(counts.code),
        };
        FalselyShared {
            sides: counts.sides.into_iter().map(side).collect(),
            lines: counts.lines,
            apart_bytes: counts.apart_bytes.unwrap_or(0),
        }
    });
    let mut found = SharingFindings { shared: shared.collect(), falsely: falsely.collect() };
    found.shared.sort_by_key(|shared| Reverse(shared.uses().count()));
    found.falsely.sort_by_key(|falsely| Reverse(falsely.uses().count()));
    found
}

fn sum(uses: impl Iterator<Item = Uses>) -> Uses {
    uses.fold(Uses::default(), |mut sum, more| {
        sum.add(more);
        sum
    })
}

fn ranked(counts: BTreeMap<u32, Uses>) -> Vec<(u32, Uses)> {
    let mut ranked: Vec<(u32, Uses)> = counts.into_iter().collect();
    ranked.sort_by_key(|(_, uses)| Reverse(uses.count()));
    ranked
}

/// Least bytes from the beginning of what one thread accesses to that of what another one does.
fn apart_bytes(sides: &[&(Part, Uses)]) -> Option<u32> {
    // In the order of their offsets, the nearest of another thread is next to the last of each.
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    let mut least = None;
    for (part, _) in sides {
        let others = last.iter().filter(|(thread, _)| **thread != part.thread);
        let nearest = others.map(|(_, offset)| part.offset - offset).filter(|&apart| apart > 0).min();
        least = least.into_iter().chain(nearest).min();
        last.insert(part.thread, part.offset);
    }
    least
}

/// Who accesses which bytes of a line; of longer lines than 64 bytes a bit is of several.
struct Bytes {
    shift: u32,
    /// By thread: what it accesses, and what it stores to.
    threads: BTreeMap<u32, (u64, u64)>,
    /// Accessed by several, and stored to.
    truly: u64,
    /// By thread: what it accesses and a thread that it shares falsely with does not.
    sides: BTreeMap<u32, u64>,
}

impl Bytes {
    fn of(parts: &[(Part, Uses)], line_bytes: u32) -> Self {
        let shift = (line_bytes / 64).max(1).trailing_zeros();
        let mut threads: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let (mut any, mut several, mut stored) = (0, 0, 0);
        for (part, uses) in parts {
            let mask = mask(part, shift);
            let (accesses, stores) = threads.entry(part.thread).or_default();
            *accesses |= mask;
            if uses.stores > 0 {
                *stores |= mask;
                stored |= mask;
            }
        }
        for (accesses, _) in threads.values() {
            several |= any & accesses;
            any |= accesses;
        }
        let mut sides: BTreeMap<u32, u64> = BTreeMap::new();
        for (one, (accesses, stores)) in &threads {
            for (other, (others, _)) in threads.iter().filter(|(other, _)| *other != one) {
                if stores & !others != 0 && others & !accesses != 0 {
                    *sides.entry(*one).or_default() |= accesses & !others;
                    *sides.entry(*other).or_default() |= others & !accesses;
                }
            }
        }
        Self { shift, threads, truly: several & stored, sides }
    }

    fn is_truly_shared(&self, part: &Part) -> bool {
        self.threads.len() > 1 && mask(part, self.shift) & self.truly != 0
    }

    fn is_side(&self, part: &Part) -> bool {
        self.sides.get(&part.thread).is_some_and(|side| mask(part, self.shift) & side != 0)
    }
}

fn mask(part: &Part, shift: u32) -> u64 {
    let (first, last) = (part.offset >> shift, (part.offset + part.bytes - 1) >> shift);
    (u64::MAX >> (63 - (last - first).min(63))) << first.min(63)
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::{Access, AccessKind, Consumer as _};
    use slimline_simulate::machine::Machine;
    use slimline_simulate::sharing::LineFinder;

    use super::*;
    use crate::origins::{Data, DataKind, Names, Origin, Thread};

    /// Keys: thread × 10 + member. Members 0 and 1 are fields of one variable, 2 is another one.
    fn origins() -> Origins {
        let mut names = Names::default();
        let fields = ["node.a", "node.b"].map(|name| names.number(name));
        let line = names.number("a.c:7");
        let data =
            ["nodes", "total"].map(|name| Data { kind: DataKind::Variable, name: name.to_owned(), ..Data::default() });
        let key = |key: u32| {
            let (thread, member) = (key / 10, key % 10);
            let field = fields.get(member as usize).copied().unwrap_or(0);
            Origin { data: member / 2, field, line, thread, ..Origin::default() }
        };
        let threads = (0..4).map(|tid| Thread { process: 0, tid });
        Origins::new((0..40).map(key).collect(), data.to_vec(), names, threads.collect())
    }

    fn found(accesses: &[(u32, u32, AccessKind, u64)]) -> SharingFindings {
        let access = |&(thread, member, kind, address): &(u32, u32, AccessKind, u64)| Access {
            address,
            key: thread * 10 + member,
            bytes: 8,
            thread,
            kind,
        };
        let accesses: Vec<Access> = accesses.iter().map(access).collect();
        let mut finder = LineFinder::new(64);
        finder.take(&accesses);
        let mut lines = finder.finish(&Machine::named("valgrind").unwrap(), 4).unwrap();
        lines.take(&accesses);
        findings(&lines, &origins())
    }

    fn told(threads: &[(u32, Uses)]) -> Vec<(u32, u64, u64)> {
        threads.iter().map(|(thread, uses)| (*thread, uses.loads, uses.stores)).collect()
    }

    use AccessKind::{Load, Modify, Store};

    #[test]
    fn a_counter_of_all_is_truly_shared() {
        let turns: Vec<_> = (0..3).flat_map(|_| [0, 1, 2]).map(|thread| (thread, 2, Modify, 0x100)).collect();
        let found = found(&[&turns[..], &[(0, 2, Load, 0x100)]].concat());
        let [counter] = found.shared.as_slice() else { panic!("{found:?}") };
        assert_eq!((counter.member, counter.lines, counter.writers()), ((1, 0), 1, 3));
        assert_eq!(told(&counter.threads), [(0, 4, 3), (1, 3, 3), (2, 3, 3)]);
        assert!(counter.is_uniform() && found.falsely.is_empty());
        // All but the first time of each thread it was gone.
        assert_eq!(counter.uses().true_misses, 7);
    }

    #[test]
    fn one_who_writes_and_many_who_read_are_not_uniform() {
        let found = found(&[(0, 0, Store, 0), (0, 0, Store, 0), (0, 0, Store, 0), (1, 0, Load, 0)]);
        assert!(!found.shared[0].is_uniform());
        assert_eq!(found.shared[0].writers(), 1);
    }

    #[test]
    fn neighbours_share_a_line_falsely() {
        // Elements of 16 bytes by thread, in two lines.
        let elements: Vec<_> = (0..6_u32).map(|n| (n % 3, 0, Modify, u64::from(n / 3 * 64 + n % 3 * 16))).collect();
        let found = found(&[&elements[..], &elements].concat());
        assert_eq!(found.shared, []);
        let [row] = found.falsely.as_slice() else { panic!("{found:?}") };
        assert_eq!((row.lines, row.apart_bytes, row.sides.len()), (2, 16, 1));
        assert_eq!(told(&row.sides[0].threads), [(0, 4, 4), (1, 4, 4), (2, 4, 4)]);
        assert_eq!((row.uses().true_misses, row.uses().false_misses), (0, 6));
    }

    #[test]
    fn a_line_can_be_shared_both_ways() {
        // As in the picture: a and b of a structure, and what is behind it.
        let found = found(&[(1, 0, Store, 0), (1, 1, Load, 8), (2, 1, Store, 8), (2, 2, Load, 16)]);
        assert_eq!(found.shared.iter().map(|shared| shared.member.1).collect::<Vec<_>>(), [2]);
        let [row] = found.falsely.as_slice() else { panic!("{found:?}") };
        let sides: Vec<_> = row.sides.iter().map(|side| (side.member.0, told(&side.threads))).collect();
        assert_eq!(sides, [(0, vec![(1, 0, 1)]), (1, vec![(2, 1, 0)])]);
        assert_eq!(row.apart_bytes, 16);
    }

    #[test]
    fn readers_of_other_bytes_suffer_too() {
        let found = found(&[(0, 0, Store, 0), (1, 1, Load, 8), (2, 1, Load, 8), (0, 0, Store, 0)]);
        assert_eq!(found.shared, []);
        assert_eq!(found.falsely[0].sides.len(), 2);
        // Who only reads shares nothing.
        assert_eq!(self::found(&[(0, 0, Load, 0), (1, 1, Load, 8)]), SharingFindings::default());
    }
}
