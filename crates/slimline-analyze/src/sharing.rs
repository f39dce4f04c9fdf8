//! What threads share: the same bytes (true sharing), or other bytes of the same line (false sharing).
//!
//! For each line that several threads access, and one stores to, and each two of these threads:
//!
//! ```text
//!   byte      0       8       16              64
//!             ├───────┼───────┼───────────────┤
//!   thread 1  SSSSSSSS LLLLLLLL                      S stores   L loads
//!   thread 2           SSSSSSSS LLLLLLLL
//!             └ side ┘└ truly ┘                      of thread 1, of both
//!                      └──── side ─────┘             of thread 2
//! ```
//!
//! It is by time who shares what, not by sets: a main thread that fills in what others work on, and adds up their results,
//! has accessed all bytes of all of them, and is in nobody's way. So what counts is how often the line went from one thread to
//! the other, and what for: until it is gone again, the other one accesses bytes that the first one had stored and it had not
//! seen (true sharing), or none of these (false sharing; the bytes on both sides are those of these times). So it is of no
//! matter which of its bytes it accesses first (Dubois et al., ISCA 1993). Two threads share where that happened
//! [`LEAST_HAND_OVERS`] times or more, and none of them has less than 1 of [`LEAST_SHARE`] of the other one's accesses there.
//! All else is used by one thread after the other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use slimline_simulate::sharing::{Between, Part, SharedLine, Uses};

use crate::origins::Origins;

/// One more than it takes to begin and to end with a line: once to the thread that works, and once back.
pub const LEAST_HAND_OVERS: u64 = 3;
/// A line that has to come from another core takes about as long as a hundred hits, and each access of the thread with fewer
/// can be one time there and one back: below that, what both wait for is less than a fifth of what their accesses take.
pub const LEAST_SHARE: u64 = 1000;
/// Of all times that a line went between two threads, a kind that is less than one of so many is an exception.
const LEAST_OF_KIND: u64 = 100;
/// A line that comes from another core takes about as long as so many hits.
const HITS_OF_A_TRANSFER: u64 = 100;
/// What costs a smaller part of all is told, but nothing is to be changed for it.
pub const LEAST_COST: f64 = 0.005;
/// Where less than this part of what threads do is done while others are at it, nobody knows what they would take from each other if they ran
/// at the same time.
pub const LEAST_OVERLAP: f64 = 0.1;
/// Of the accesses to what threads add to, those that only load or only store are at most one of so many.
const LEAST_UNPAIRED: u64 = 10;

/// A variable, or a member of one: numbers of data and of a field's name, as [`Origins`] have them.
pub type Member = (u32, u32);

/// What threads use the same bytes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One stores, the others load.
    Told,
    /// Each adds to what is there: lines of code that store load as often.
    Updated,
    /// Several store, and others only load or only store: flags, locks, indexes of queues and what lies in these.
    Exchanged,
}

/// What threads truly share.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedVariable {
    /// Which.
    pub member: Member,
    /// Accesses by thread, most first.
    pub threads: Vec<(u32, Uses)>,
    /// The same by line of code, most first.
    pub code: Vec<(u32, Uses)>,
    /// Lines that it is in.
    pub lines: u64,
    /// Most threads that store to one byte of it.
    pub writers: u64,
    /// Of most accesses: the thread that accesses the byte most does so less than twice as often as the next one. Then all are
    /// in each other's way.
    pub is_uniform: bool,
    /// What for.
    pub way: Way,
    /// Part that these times are of what all accesses take, from 0 to 1.
    pub cost_share: f64,
    /// What else threads share the bytes of on the same lines, each with so many lines, most first.
    pub beside: Vec<(Member, u64)>,
    /// Keys of these accesses.
    pub keys: BTreeSet<u32>,
}

impl SharedVariable {
    /// All accesses.
    pub fn uses(&self) -> Uses {
        sum(self.threads.iter().map(|(_, uses)| *uses))
    }
}

/// What shares lines with what else.
#[derive(Clone, Debug, PartialEq)]
pub struct FalselyShared {
    /// Who accesses what.
    pub sides: Vec<Side>,
    /// Lines that it happens in.
    pub lines: u64,
    /// Least bytes from what one thread accesses to what another one does; of elements that are alike, from one to the next.
    pub apart_bytes: u32,
    /// Where, in most of the lines.
    pub cut: Cut,
    /// Part that these times are of what all accesses take, from 0 to 1.
    pub cost_share: f64,
    /// Keys of these accesses.
    pub keys: BTreeSet<u32>,
}

/// Where a line is to be cut so that no thread is on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// Before this.
    Before(Member),
    /// Between two elements of an array: the same is on both sides.
    Elements,
    /// No cut does.
    #[default]
    Nowhere,
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharingFindings {
    /// By variable and member.
    pub shared: Vec<SharedVariable>,
    /// By what is on the sides.
    pub falsely: Vec<FalselyShared>,
    /// What is in other lines that several threads access and one stores to, which were used by one after the other.
    pub in_turn: Vec<Member>,
    /// Such lines.
    pub in_turn_lines: u64,
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
struct TrueCounts {
    counts: Counts,
    lines: u64,
    writers: u64,
    /// Accesses to bytes, and those of them that are of threads alike.
    accesses: u64,
    uniform: u64,
    /// What is shared on the same lines, and on how many.
    beside: BTreeMap<Member, u64>,
    keys: BTreeSet<u32>,
}

impl TrueCounts {
    /// Adds what threads did to the bytes of a line that they share.
    fn add_bytes(&mut self, bytes: &BTreeMap<usize, BTreeMap<u32, Uses>>) {
        for threads in bytes.values() {
            let mut counts: Vec<u64> = threads.values().map(|uses| uses.count()).collect();
            counts.sort_unstable_by_key(|&count| Reverse(count));
            let all = counts.iter().sum::<u64>();
            self.accesses += all;
            self.uniform += if matches!(counts[..], [first, second, ..] if first < 2 * second) { all } else { 0 };
            self.writers = self.writers.max(threads.values().filter(|uses| uses.stores > 0).count() as u64);
        }
    }
}

#[derive(Default)]
struct FalseCounts {
    sides: BTreeMap<Member, Counts>,
    lines: u64,
    apart_bytes: Option<u32>,
    /// With how many lines.
    cuts: BTreeMap<Cut, u64>,
    keys: BTreeSet<u32>,
}

/// Tells what is shared truly and falsely, in lines of so many bytes.
pub fn findings(lines: &[SharedLine], line_bytes: u32, origins: &Origins) -> SharingFindings {
    let mut shared: BTreeMap<Member, TrueCounts> = BTreeMap::new();
    let mut falsely: BTreeMap<Vec<Member>, FalseCounts> = BTreeMap::new();
    let mut in_turn: BTreeMap<Member, u64> = BTreeMap::new();
    let mut in_turn_lines = 0;
    let member = |part: &Part| {
        let origin = origins.of(part.key);
        (origin.data, origin.field)
    };
    for line in lines {
        let bytes = Bytes::of(line, line_bytes);
        if bytes.truly.is_empty() && bytes.sides.is_empty() {
            in_turn_lines += 1;
            line.parts.iter().for_each(|(part, uses)| *in_turn.entry(member(part)).or_default() += uses.count());
            continue;
        }
        let mut by_bytes: BTreeMap<Member, BTreeMap<usize, BTreeMap<u32, Uses>>> = BTreeMap::new();
        for (part, uses, mask) in bytes.parts_of(line, &bytes.truly) {
            let member = member(part);
            let of_member = shared.entry(member).or_default();
            of_member.counts.add(part.thread, origins.of(part.key).line, *uses);
            of_member.keys.insert(part.key);
            let by_bytes = by_bytes.entry(member).or_default();
            for bit in (0..64).filter(|bit| mask >> bit & 1 != 0) {
                by_bytes.entry(bit).or_default().entry(part.thread).or_default().add(*uses);
            }
        }
        for (member, bytes) in &by_bytes {
            let counts = shared.entry(*member).or_default();
            counts.lines += 1;
            counts.add_bytes(bytes);
            for other in by_bytes.keys().filter(|other| *other != member) {
                *counts.beside.entry(*other).or_default() += 1;
            }
        }
        let sides: Vec<(&Part, &Uses, u64)> = bytes.parts_of(line, &bytes.sides).collect();
        if sides.is_empty() {
            continue;
        }
        let members: BTreeSet<Member> = sides.iter().map(|(part, ..)| member(part)).collect();
        let counts = falsely.entry(members.into_iter().collect()).or_default();
        counts.lines += 1;
        for (part, uses, _) in &sides {
            let side = counts.sides.entry(member(part)).or_default();
            side.add(part.thread, origins.of(part.key).line, **uses);
            counts.keys.insert(part.key);
        }
        let cut = cut(&sides, member);
        *counts.cuts.entry(cut).or_default() += 1;
        let apart = match cut {
            Cut::Elements => apart_alike(&sides, member),
            Cut::Before(_) | Cut::Nowhere => apart_bytes(&sides),
        };
        counts.apart_bytes = counts.apart_bytes.into_iter().chain(apart).min();
    }
    let missed_truly = |of: &TrueCounts| sum(of.counts.code.values().copied()).true_misses;
    let missed_falsely =
        |of: &FalseCounts| -> u64 { of.sides.values().map(|side| sum(side.code.values().copied()).false_misses).sum() };
    let all: u64 = shared.values().map(missed_truly).chain(falsely.values().map(missed_falsely)).sum();
    let accesses: u64 = origins.keys().iter().map(|origin| origin.accesses).sum();
    // Parts of one whole, in which all of these times are.
    let cost = |misses: u64| misses.saturating_mul(HITS_OF_A_TRANSFER);
    let cost_share = |misses: u64| cost(misses) as f64 / accesses.saturating_add(cost(all)).max(1) as f64;
    let shared = shared.into_iter().map(|(member, of)| SharedVariable {
        member,
        way: way(of.writers, &of.counts.code),
        cost_share: cost_share(missed_truly(&of)),
        keys: of.keys,
        beside: most_first(of.beside),
        threads: ranked(of.counts.threads),
        code: ranked(of.counts.code),
        lines: of.lines,
        writers: of.writers,
        is_uniform: 2 * of.uniform > of.accesses,
    });
    let falsely = falsely.into_values().map(|counts| {
        let side = |(member, counts): (Member, Counts)| Side {
            member,
            threads: ranked(counts.threads),
            code: ranked(counts.code),
        };
        FalselyShared {
            cost_share: cost_share(missed_falsely(&counts)),
            keys: counts.keys,
            sides: counts.sides.into_iter().map(side).collect(),
            lines: counts.lines,
            apart_bytes: counts.apart_bytes.unwrap_or(0),
            cut: counts.cuts.into_iter().max_by_key(|(_, lines)| *lines).map(|(cut, _)| cut).unwrap_or_default(),
        }
    });
    let mut found = SharingFindings {
        shared: shared.collect(),
        falsely: falsely.collect(),
        in_turn: most_first(in_turn).into_iter().map(|(member, _)| member).collect(),
        in_turn_lines,
    };
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

fn most_first(counts: BTreeMap<Member, u64>) -> Vec<(Member, u64)> {
    let mut counts: Vec<(Member, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts
}

fn ranked(counts: BTreeMap<u32, Uses>) -> Vec<(u32, Uses)> {
    let mut ranked: Vec<(u32, Uses)> = counts.into_iter().collect();
    ranked.sort_by_key(|(_, uses)| Reverse(uses.count()));
    ranked
}

/// What threads use bytes for that so many of them store to, by what lines of code do.
fn way(writers: u64, code: &BTreeMap<u32, Uses>) -> Way {
    let unpaired: u64 = code.values().map(|uses| uses.loads.abs_diff(uses.stores)).sum();
    let all: u64 = code.values().map(|uses| uses.count()).sum();
    match writers {
        0 | 1 => Way::Told,
        _ if unpaired.saturating_mul(LEAST_UNPAIRED) <= all => Way::Updated,
        _ => Way::Exchanged,
    }
}

/// Least bytes from a member that one thread accesses to the same one of another thread: as elements lie.
fn apart_alike(sides: &[(&Part, &Uses, u64)], member: impl Fn(&Part) -> Member) -> Option<u32> {
    let mut of_member: BTreeMap<Member, Vec<(&Part, &Uses, u64)>> = BTreeMap::new();
    sides.iter().for_each(|side| of_member.entry(member(side.0)).or_default().push(*side));
    // Members without names are one: it is by where each thread's begin.
    let firsts = |sides: Vec<(&Part, &Uses, u64)>| {
        let mut known = BTreeSet::new();
        let is_first = |side: &(&Part, &Uses, u64)| member(side.0).1 != 0 || known.insert(side.0.thread);
        apart_bytes(&sides.into_iter().filter(is_first).collect::<Vec<_>>())
    };
    of_member.into_values().filter_map(firsts).min()
}

/// Least bytes from the beginning of what one thread accesses to that of what another one does.
fn apart_bytes(sides: &[(&Part, &Uses, u64)]) -> Option<u32> {
    // In the order of their offsets, the nearest of another thread is next to the last of each.
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    let mut least = None;
    for (part, ..) in sides {
        let others = last.iter().filter(|(thread, _)| **thread != part.thread);
        let nearest = others.map(|(_, offset)| part.offset - offset).filter(|&apart| apart > 0).min();
        least = least.into_iter().chain(nearest).min();
        last.insert(part.thread, part.offset);
    }
    least
}

/// The first place where what is before it is of other threads than what is behind it. `sides` are in the order of their offsets.
fn cut(sides: &[(&Part, &Uses, u64)], member: impl Fn(&Part) -> Member) -> Cut {
    for at in 1..sides.len() {
        let (left, right) = sides.split_at(at);
        let is_inside = left[at - 1].0.offset == right[0].0.offset;
        let has = |some: &[(&Part, &Uses, u64)], is_meant: &dyn Fn(&Part) -> bool| {
            some.iter().any(|(part, ..)| is_meant(part))
        };
        if is_inside || has(left, &|one| has(right, &|other| one.thread == other.thread)) {
            continue;
        }
        let is_alike = has(left, &|one| has(right, &|other| member(one) == member(other)));
        return if is_alike { Cut::Elements } else { Cut::Before(member(right[0].0)) };
    }
    Cut::Nowhere
}

/// Which bytes of a line are shared, by thread that shares them.
struct Bytes {
    line_bytes: u32,
    truly: BTreeMap<u32, u64>,
    /// Falsely.
    sides: BTreeMap<u32, u64>,
}

impl Bytes {
    fn of(line: &SharedLine, line_bytes: u32) -> Self {
        let mut threads: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for (part, uses) in &line.parts {
            threads.entry(part.thread).or_default().push((part.mask(line_bytes), uses.count()));
        }
        let count = |thread: u32, bytes: u64| {
            let parts = threads.get(&thread).into_iter().flatten();
            parts.filter(|(mask, _)| mask & bytes != 0).map(|(_, count)| count).sum::<u64>()
        };
        // Whether both do that often.
        let is_shared = |(one, other): (u32, u32), times: u64, between: &Between, [ones, others]: [u64; 2]| {
            let (few, many) = (count(one, ones), count(other, others));
            let (few, many) = (few.min(many), few.max(many));
            let is_exception = times.saturating_mul(LEAST_OF_KIND) < between.truly + between.falsely;
            times >= LEAST_HAND_OVERS && few.saturating_mul(LEAST_SHARE) >= many && !is_exception
        };
        let (mut truly, mut sides) = (BTreeMap::new(), BTreeMap::new());
        for (pair, between) in &line.pairs {
            let both = [between.true_bytes; 2];
            if is_shared(*pair, between.truly, between, both) {
                add_bytes(&mut truly, *pair, both);
            }
            if is_shared(*pair, between.falsely, between, between.false_bytes) {
                add_bytes(&mut sides, *pair, between.false_bytes);
            }
        }
        Self { line_bytes, truly, sides }
    }

    /// Parts that have some of these bytes of their threads, which are told with them.
    fn parts_of<'a>(
        &self,
        line: &'a SharedLine,
        bytes: &BTreeMap<u32, u64>,
    ) -> impl Iterator<Item = (&'a Part, &'a Uses, u64)> {
        line.parts.iter().filter_map(move |(part, uses)| {
            let mask = part.mask(self.line_bytes) & bytes.get(&part.thread)?;
            (mask != 0).then_some((part, uses, mask))
        })
    }
}

fn add_bytes(of: &mut BTreeMap<u32, u64>, (one, other): (u32, u32), [ones, others]: [u64; 2]) {
    *of.entry(one).or_default() |= ones;
    *of.entry(other).or_default() |= others;
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::{Access, AccessKind, Consumer as _, Work};
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
            work: Work::USUAL,
        };
        let accesses: Vec<Access> = accesses.iter().map(access).collect();
        let mut finder = LineFinder::new(64);
        finder.take(&accesses);
        let mut lines = finder.finish(&Machine::named("valgrind").unwrap(), 4).unwrap();
        lines.take(&accesses);
        findings(&lines.lines(), 64, &origins())
    }

    fn told(threads: &[(u32, Uses)]) -> Vec<(u32, u64, u64)> {
        threads.iter().map(|(thread, uses)| (*thread, uses.loads, uses.stores)).collect()
    }

    use AccessKind::{Load, Modify, Store};

    type Told = (u32, u32, AccessKind, u64);

    fn times(count: usize, accesses: &[Told]) -> Vec<Told> {
        accesses.repeat(count)
    }

    #[test]
    fn a_counter_of_all_is_truly_shared() {
        let turns = times(4, &[(0, 2, Modify, 0x100), (1, 2, Modify, 0x100), (2, 2, Modify, 0x100)]);
        let found = found(&[&turns[..], &[(0, 2, Load, 0x100)]].concat());
        let [counter] = found.shared.as_slice() else { panic!("{found:?}") };
        assert_eq!((counter.member, counter.lines, counter.writers), ((1, 0), 1, 3));
        assert_eq!(told(&counter.threads), [(0, 5, 4), (1, 4, 4), (2, 4, 4)]);
        assert!(counter.is_uniform && found.falsely.is_empty());
        // All but the first time of each thread it was gone.
        assert_eq!(counter.uses().true_misses, 10);
    }

    #[test]
    fn what_is_shared_on_one_line_tells_of_each_other() {
        // Both fields on line 0, the second one on line 1 as well, and the total on line 2.
        let both = |at, member| [(0, member, Modify, at), (1, member, Modify, at)];
        let turn = [both(0, 0), both(8, 1), both(64, 1), both(128, 2)].concat();
        let found = found(&times(5, &turn));
        let beside: Vec<_> =
            found.shared.iter().map(|shared| (shared.member, shared.lines, &shared.beside[..])).collect();
        let (a, b) = ((0, 1), (0, 2));
        assert_eq!(beside, [(b, 2, &[(a, 1)][..]), (a, 1, &[(b, 1)]), ((1, 0), 1, &[])]);
    }

    #[test]
    fn one_who_writes_and_many_who_read_are_not_uniform() {
        let found = found(&times(4, &[(0, 0, Store, 0), (0, 0, Store, 0), (0, 0, Store, 0), (1, 0, Load, 0)]));
        assert!(!found.shared[0].is_uniform);
        assert_eq!(found.shared[0].writers, 1);
    }

    #[test]
    fn neighbours_share_a_line_falsely() {
        // Elements of 16 bytes by thread, in two lines.
        let elements: Vec<_> = (0..6_u32).map(|n| (n % 3, 0, Modify, u64::from(n / 3 * 64 + n % 3 * 16))).collect();
        let found = found(&times(8, &elements));
        assert_eq!(found.shared, []);
        let [row] = found.falsely.as_slice() else { panic!("{found:?}") };
        assert_eq!((row.lines, row.apart_bytes, row.sides.len()), (2, 16, 1));
        assert_eq!(told(&row.sides[0].threads), [(0, 16, 16), (1, 16, 16), (2, 16, 16)]);
        assert_eq!((row.uses().true_misses, row.uses().false_misses), (0, 42));
    }

    #[test]
    fn who_sets_up_and_reads_at_the_end_shares_nothing() {
        // Two members of one variable by a thread each, under one name; thread 0 clears both before and adds them up afterwards.
        let (before, after) = ([(0, 2, Store, 0), (0, 2, Store, 8)], [(0, 2, Load, 0), (0, 2, Load, 8)]);
        let work = times(100, &[(1, 2, Modify, 0), (2, 2, Modify, 8)]);
        let found = found(&[&before[..], &work, &after].concat());
        assert_eq!((found.shared.len(), found.in_turn_lines), (0, 0), "{found:?}");
        let [row] = found.falsely.as_slice() else { panic!("{found:?}") };
        assert_eq!(told(&row.sides[0].threads), [(1, 100, 100), (2, 100, 100)]);
        assert_eq!((row.apart_bytes, row.uses().true_misses, row.uses().false_misses), (8, 0, 198));
    }

    #[test]
    fn a_byte_of_each_thread_that_one_reads_all_the_time_has_one_writer() {
        let turn = [(1, 2, Modify, 0), (2, 2, Modify, 8), (0, 2, Load, 0), (0, 2, Load, 8)];
        let found = found(&times(50, &turn));
        let [row] = found.shared.as_slice() else { panic!("{found:?}") };
        // One stores each byte, and another one loads it as often: 100 to 50.
        assert_eq!((row.writers, row.is_uniform), (1, false));
        assert_eq!(found.falsely.len(), 1);
    }

    #[test]
    fn what_is_used_by_one_thread_after_the_other_is_in_nobodys_way() {
        // Handed on once and back; and one access of another thread among very many.
        let handed = [times(5, &[(0, 0, Modify, 0)]), times(5, &[(1, 0, Modify, 0)]), times(5, &[(0, 0, Modify, 0)])];
        let rare = [times(2000, &[(1, 2, Modify, 128)]), times(1, &[(0, 2, Load, 128)])].concat();
        let found = found(&[&handed.concat()[..], &times(5, &rare)].concat());
        assert_eq!((found.shared.len(), found.falsely.len(), found.in_turn_lines), (0, 0, 2), "{found:?}");
        assert_eq!(found.in_turn, [(1, 0), (0, 1)]);
    }

    #[test]
    fn the_least_share_is_told() {
        let found =
            |loads| found(&times(5, &[times(loads, &[(1, 2, Load, 0)]), times(1, &[(0, 2, Store, 0)])].concat()));
        assert_eq!(found(1000).shared.len(), 1);
        assert_eq!(found(1001).shared.len(), 0);
    }

    #[test]
    fn a_line_can_be_shared_both_ways() {
        // As in the picture: 1 lacks b, which 2 has stored, and then stores a; 2 lacks b and what is behind it for that.
        let turn = [(1, 1, Load, 8), (1, 0, Store, 0), (2, 2, Load, 16), (2, 1, Store, 8)];
        let found = found(&times(5, &turn));
        let shared: Vec<_> = found.shared.iter().map(|shared| (shared.member.1, told(&shared.threads))).collect();
        assert_eq!(shared, [(2, vec![(1, 5, 0), (2, 0, 5)])]);
        let [row] = found.falsely.as_slice() else { panic!("{found:?}") };
        let sides: Vec<_> = row.sides.iter().map(|side| (side.member.0, told(&side.threads))).collect();
        assert_eq!(sides, [(0, vec![(1, 0, 5)]), (0, vec![(2, 0, 5)]), (1, vec![(2, 5, 0)])]);
        assert_eq!(row.apart_bytes, 8);
    }

    #[test]
    fn who_stores_a_member_and_then_loads_the_others_is_told_something() {
        let found = found(&times(5, &[(1, 0, Store, 0), (1, 1, Load, 8), (2, 1, Store, 8), (2, 0, Load, 0)]));
        let shared: Vec<_> = found.shared.iter().map(|shared| (shared.member.1, told(&shared.threads))).collect();
        assert_eq!(shared, [(1, vec![(1, 0, 5), (2, 5, 0)]), (2, vec![(1, 5, 0), (2, 0, 5)])]);
        assert_eq!(found.falsely, []);
        // All but the first times.
        assert_eq!(found.shared.iter().map(|shared| shared.uses().true_misses).collect::<Vec<_>>(), [4, 4]);
        let own = [(1, 2, Store, 24), (1, 1, Load, 8), (2, 2, Store, 32), (2, 1, Modify, 8)];
        let found = self::found(&times(5, &own));
        // Each begins with what is its own. 1 does so for what comes then; 2 has all that it loads, and gets the line for nothing.
        let ([shared], [falsely]) = (&found.shared[..], &found.falsely[..]) else { panic!("{found:?}") };
        assert_eq!((shared.member, shared.uses().true_misses, falsely.uses().false_misses), ((0, 2), 4, 4));
        assert_eq!(shared.cost_share, falsely.cost_share);
    }

    #[test]
    fn a_line_is_cut_where_threads_part() {
        let member = |part: &Part| (part.key, 0);
        let cut_of = |parts: &[(u32, u32, u32)]| {
            let uses = Uses::default();
            let parts: Vec<Part> =
                parts.iter().map(|&(offset, key, thread)| Part { offset, bytes: 8, key, thread }).collect();
            cut(&parts.iter().map(|part| (part, &uses, 0)).collect::<Vec<_>>(), member)
        };
        // What is called 1 stands before 0: it is cut before what comes second.
        assert_eq!(cut_of(&[(0, 1, 7), (8, 0, 8)]), Cut::Before((0, 0)));
        assert_eq!(cut_of(&[(0, 5, 7), (8, 6, 7), (16, 7, 8), (24, 8, 9)]), Cut::Before((7, 0)));
        // Elements of two members each.
        assert_eq!(cut_of(&[(0, 1, 7), (8, 2, 7), (16, 1, 8), (24, 2, 8)]), Cut::Elements);
        // Both threads use the first one; two threads one place.
        assert_eq!(cut_of(&[(0, 1, 7), (0, 1, 8), (8, 2, 7), (16, 3, 8)]), Cut::Nowhere);
        assert_eq!(cut_of(&[(8, 1, 7), (8, 1, 8)]), Cut::Nowhere);
    }

    #[test]
    fn elements_of_two_members_are_as_far_apart_as_they_lie() {
        // Members at 0 and 8 of elements of 16 bytes, one for each thread.
        let of = |thread: u32| (0..2).map(move |n| (thread, n, Modify, u64::from(thread * 16 + n * 8)));
        let row = &found(&times(4, &[of(0), of(1)].into_iter().flatten().collect::<Vec<_>>())).falsely[0];
        assert_eq!((row.cut, row.apart_bytes), (Cut::Elements, 16));
        // The same without names.
        let row = &found(&times(
            4,
            &[0, 1].map(|n| [(n, 2, Modify, n as u64 * 16), (n, 2, Modify, n as u64 * 16 + 8)]).concat(),
        ))
        .falsely[0];
        assert_eq!((row.cut, row.apart_bytes), (Cut::Elements, 16));
    }

    #[test]
    fn what_is_exchanged_is_no_counter() {
        let uses = |loads, stores| Uses { loads, stores, ..Uses::default() };
        let way = |writers, code: &[(u64, u64)]| {
            way(writers, &(1..).zip(code.iter().map(|&(loads, stores)| uses(loads, stores))).collect())
        };
        // Added to in two places, and read now and then; a lock, taken by one line and given back by another.
        assert_eq!(way(3, &[(100, 100), (50, 50), (10, 0)]), Way::Updated);
        assert_eq!(way(3, &[(100, 100), (0, 100)]), Way::Exchanged);
        // A flag that two threads wait for and set; what one stores and others load.
        assert_eq!([way(2, &[(1000, 0), (0, 10)]), way(1, &[(9, 9)])], [Way::Exchanged, Way::Told]);
    }

    #[test]
    fn times_cost_a_part_of_all() {
        let all = times(4, &[(0, 2, Modify, 0x100), (1, 2, Modify, 0x100)]);
        let accesses: Vec<Access> = all
            .iter()
            .map(|&(thread, member, kind, address)| Access {
                address,
                key: thread * 10 + member,
                bytes: 8,
                thread,
                kind,
                work: Work::USUAL,
            })
            .collect();
        let mut finder = LineFinder::new(64);
        finder.take(&accesses);
        let mut lines = finder.finish(&Machine::named("valgrind").unwrap(), 4).unwrap();
        lines.take(&accesses);
        let (names, threads) = (Names::default(), (0..2).map(|tid| Thread { process: 0, tid }).collect());
        let keys = (0..13).map(|key| Origin { thread: key / 10, accesses: 200, ..Origin::default() }).collect();
        let found = findings(&lines.lines(), 64, &Origins::new(keys, vec![Data::default()], names, threads));
        // 6 times of 100, beside 13 × 200 accesses.
        assert_eq!(found.shared[0].cost_share, 600.0 / 3200.0);
        assert_eq!((found.shared[0].way, found.shared[0].keys.len()), (Way::Updated, 2));
    }

    #[test]
    fn readers_of_other_bytes_suffer_too() {
        let found = found(&times(4, &[(0, 0, Store, 0), (1, 1, Load, 8), (2, 1, Load, 8), (0, 0, Store, 0)]));
        assert_eq!(found.shared, []);
        assert_eq!(found.falsely[0].sides.len(), 2);
        // Who only reads shares nothing.
        assert_eq!(self::found(&[(0, 0, Load, 0), (1, 1, Load, 8)]), SharingFindings::default());
    }
}
