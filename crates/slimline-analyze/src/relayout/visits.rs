//! Which fields of an element are used together.
//!
//! A *visit* is what a thread does with one element before it goes to many others: to compare two elements it goes to and fro. So each
//! thread has the [`OPEN`] elements of a structure that it was at last; a visit ends when another element takes its place.

use rustc_hash::FxHashMap;
use slimline_simulate::access::{Access, AccessKind, Consumer, Located};
use slimline_simulate::relaid::PlacedObject;
use slimline_simulate::relocated::is_object;

use crate::full_trace::object_structures::{Filled, ObjectStructure, StructureShape, Structured};

/// Elements of a structure that a thread is at, at a time.
const OPEN: usize = 4;
/// Fields that are told apart; those behind them count as the last.
pub const MOST_FIELDS: usize = 128;
/// Patterns that are told apart of a structure; those that come first once there are so many count as visits of their fields, each by itself.
const MOST_PATTERNS: usize = 1 << 12;
/// Elements that one access is seen to touch at most: a copy of all of them says nothing of what is used together.
const MOST_ELEMENTS: u64 = 16;

/// In the place of an object, where all arrays that elements are in stand for one.
const OF_COLUMNS: u32 = u32::MAX;

/// Fields, by bits.
pub type Fields = u128;

/// How elements of a structure are visited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visits {
    /// By the fields that were used: how often. Of [`MOST_PATTERNS`] at most.
    pub(super) patterns: FxHashMap<Fields, u64>,
    /// Visits with other patterns.
    pub(super) others: u64,
    /// By field, then field up to it: visits that used both.
    pub(super) both: Vec<Vec<u64>>,
    /// Accesses to it; copies of many elements at once are one.
    pub accesses: u64,
    /// Those to elements of arrays.
    pub in_arrays: u64,
    /// The most elements that one object had, as far as they were accessed.
    pub most_elements: u64,
    /// Who accessed it.
    pub(super) users: Users,
}

/// Threads that access a structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Users {
    first: Option<u32>,
    are_several: bool,
    is_stored: bool,
}

impl Users {
    fn see(&mut self, access: &Access) {
        self.are_several |= *self.first.get_or_insert(access.thread) != access.thread;
        self.is_stored |= access.kind.stores();
    }
}

impl Visits {
    /// Of these patterns.
    pub fn of(patterns: &[(Fields, u64)]) -> Self {
        let mut visits = Self::default();
        patterns.iter().for_each(|(fields, times)| visits.add(*fields, *times));
        visits
    }

    /// Whether threads may take its lines from each other: several access it, and it is stored to.
    pub fn is_shared(&self) -> bool {
        self.users.are_several && self.users.is_stored
    }

    /// The same, by several threads that store.
    #[cfg(test)]
    pub(super) fn by_several(self) -> Self {
        Self { users: Users { first: Some(0), are_several: true, is_stored: true }, ..self }
    }

    /// So many visits that used these fields.
    fn add(&mut self, fields: Fields, times: u64) {
        let has_room = self.patterns.len() < MOST_PATTERNS;
        match self.patterns.get_mut(&fields) {
            Some(count) => *count += times,
            None if has_room => drop(self.patterns.insert(fields, times)),
            None => self.others += times,
        }
        let used = (0..MOST_FIELDS).filter(|field| fields & (1 << field) != 0).collect::<Vec<_>>();
        for (at, &field) in used.iter().enumerate() {
            if self.both.len() <= field {
                self.both.resize_with(field + 1, Vec::new);
            }
            self.both[field].resize(field + 1, 0);
            used[..=at].iter().for_each(|other| self.both[field][*other] += times);
        }
    }

    /// All visits.
    pub fn count(&self) -> u64 {
        self.patterns.values().sum::<u64>() + self.others
    }

    /// Visits that used a field; the last one of [`MOST_FIELDS`] stands for those behind it.
    pub fn used(&self, field: usize) -> u64 {
        let field = field.min(MOST_FIELDS - 1);
        self.with_both(field, field)
    }

    fn with_both(&self, one: usize, other: usize) -> u64 {
        let row = self.both.get(one.max(other));
        row.and_then(|row| row.get(one.min(other))).copied().unwrap_or(0)
    }

    /// How much two fields are used together: of the visits that used either, those that used both.
    pub fn affinity(&self, one: usize, other: usize) -> f64 {
        let both = self.with_both(one, other);
        match self.used(one) + self.used(other) - both {
            0 => 0.0,
            either => both as f64 / either as f64,
        }
    }

    /// The most frequent patterns, and how often each was; of equal ones the lower fields first.
    pub fn most_frequent(&self, rows: usize) -> Vec<(Fields, u64)> {
        let mut patterns: Vec<(Fields, u64)> = self.patterns.iter().map(|(fields, count)| (*fields, *count)).collect();
        patterns.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        patterns.truncate(rows);
        patterns
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Open {
    element: Option<(u32, u64)>,
    fields: Fields,
    /// When it was last accessed.
    last: u64,
}

/// A structure, as accesses see it.
#[derive(Debug)]
struct Shape {
    bytes: u64,
    /// By byte; none of paddings.
    field_of: Vec<Option<u8>>,
}

impl Shape {
    fn of(structure: &StructureShape) -> Self {
        let mut field_of = vec![None; structure.bytes as usize];
        for (number, field) in structure.fields.iter().enumerate() {
            let (from, to) = (field.offset as usize, field.offset.saturating_add(field.bytes) as usize);
            let number = number.min(MOST_FIELDS - 1) as u8;
            let to = to.min(field_of.len());
            field_of[from.min(to)..to].fill(Some(number));
        }
        Self { bytes: u64::from(structure.bytes.max(1)), field_of }
    }

    /// The fields of some bytes of one element.
    fn fields(&self, from: u64, to: u64) -> Fields {
        let bytes = &self.field_of[from as usize..to as usize];
        bytes.iter().flatten().fold(0, |fields, number| fields | 1 << number)
    }
}

/// Takes visits of elements in; keys of accesses are numbers of objects.
#[derive(Debug)]
pub struct Visiting<'a> {
    structured: &'a Structured,
    objects: &'a [PlacedObject],
    shapes: Vec<Shape>,
    visits: Vec<Visits>,
    /// By thread, then structure.
    open: Vec<Vec<[Open; OPEN]>>,
    /// All accesses.
    accesses: u64,
}

/// How all structures were visited.
#[derive(Debug)]
pub struct Visited {
    /// By structure.
    pub visits: Vec<Visits>,
    /// All accesses.
    pub accesses: u64,
}

impl<'a> Visiting<'a> {
    /// Of these objects, as they are.
    pub fn new(structured: &'a Structured, objects: &'a [PlacedObject]) -> Self {
        Self {
            structured,
            objects,
            shapes: structured.structures.iter().map(Shape::of).collect(),
            visits: vec![Visits::default(); structured.structures.len()],
            open: Vec::new(),
            accesses: 0,
        }
    }

    /// What was seen.
    pub fn finish(mut self) -> Visited {
        for of_thread in &self.open {
            for (structure, open) in of_thread.iter().enumerate() {
                for open in open.iter().filter(|open| open.fields != 0) {
                    self.visits[structure].add(open.fields, 1);
                }
            }
        }
        Visited { visits: self.visits, accesses: self.accesses }
    }

    fn one(&mut self, access: &Access) {
        if access.kind == AccessKind::Fetch {
            return;
        }
        self.accesses += 1;
        let Some(placed) = is_object(access.key).then(|| self.objects.get(access.key as usize)).flatten() else {
            return;
        };
        let Some(&Some(ObjectStructure { structure, filled, .. })) = self.structured.objects.get(access.key as usize)
        else {
            return;
        };
        let (shape, visits) = (&self.shapes[structure as usize], &mut self.visits[structure as usize]);
        visits.accesses += 1;
        visits.users.see(access);
        visits.in_arrays += u64::from(matches!(filled, Filled::Array | Filled::Column(_)));
        // Elements are known by the object that they are in, but where each field has its own.
        let column = match filled {
            Filled::Column(field) => {
                Some((field, &self.structured.structures[structure as usize].fields[field as usize]))
            }
            _ => None,
        };
        let object = if column.is_some() { OF_COLUMNS } else { access.key };
        let element_bytes = column.map_or(shape.bytes, |(_, field)| u64::from(field.bytes.max(1)));
        let Some(delta) = access.address.checked_sub(placed.start) else { return };
        let end = delta + u64::from(access.bytes.max(1));
        let (first, last) = (delta / element_bytes, (end - 1) / element_bytes);
        visits.most_elements = visits.most_elements.max(last + 1);
        if last - first >= MOST_ELEMENTS {
            return;
        }
        let thread = access.thread as usize;
        if self.open.len() <= thread {
            self.open.resize(thread + 1, Vec::new());
        }
        let of_thread = &mut self.open[thread];
        if of_thread.len() <= structure as usize {
            of_thread.resize(structure as usize + 1, [Open::default(); OPEN]);
        }
        let open = &mut of_thread[structure as usize];
        for index in first..=last {
            let begin = index * element_bytes;
            let from = delta.max(begin) - begin;
            let to = (end - begin).min(element_bytes);
            let fields = match column {
                Some((field, _)) => 1 << field.min(MOST_FIELDS as u32 - 1),
                None => shape.fields(from, to),
            };
            let element = Some((object, index));
            let now = visits.accesses;
            if let Some(known) = open.iter_mut().find(|open| open.element == element) {
                (known.fields, known.last) = (known.fields | fields, now);
                continue;
            }
            let Some(oldest) = open.iter_mut().min_by_key(|open| open.last) else { continue };
            if oldest.fields != 0 {
                visits.add(oldest.fields, 1);
            }
            *oldest = Open { element, fields, last: now };
        }
    }
}

impl Consumer for Visiting<'_> {
    fn take(&mut self, accesses: &[Access]) {
        accesses.iter().for_each(|access| self.one(access));
    }

    fn locate(&mut self, _: &Located<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::super::candidates::tests::structure;
    use super::*;
    use slimline_simulate::access::Work;

    fn placed(starts: &[u64]) -> Vec<PlacedObject> {
        starts.iter().map(|&start| PlacedObject { start, structure: Some(0), ..PlacedObject::default() }).collect()
    }

    #[test]
    fn visits_are_of_one_element() {
        // {a b c d} of 8 bytes each: a and b of each element in turn, then all of c.
        let structured = Structured {
            structures: vec![structure(32, &[("a", 8), ("b", 8), ("c", 8), ("d", 8)])],
            objects: vec![Some(ObjectStructure { structure: 0, filled: Filled::Array, skipped: 0 })],
            ..Structured::default()
        };
        let objects = placed(&[0x1000]);
        let mut visiting = Visiting::new(&structured, &objects);
        let load =
            |address, bytes| Access { address, key: 0, bytes, thread: 0, kind: AccessKind::Load, work: Work::USUAL };
        for element in 0..10 {
            visiting.take(&[load(0x1000 + 32 * element, 8), load(0x1008 + 32 * element, 8)]);
        }
        for element in 0..10 {
            visiting.take(&[load(0x1010 + 32 * element, 8)]);
        }
        // A copy of all says nothing; one of two elements does.
        visiting.take(&[load(0x1000, 32 * 20), load(0x1000 + 19 * 32, 64)]);
        let Visited { visits, accesses } = visiting.finish();
        assert_eq!(accesses, 32);
        let visits = &visits[0];
        assert_eq!(visits.most_frequent(9), [(0b11, 10), (0b100, 10), (0b1111, 2)]);
        assert_eq!((visits.count(), visits.accesses, visits.in_arrays, visits.most_elements), (22, 32, 32, 21));
        assert_eq!([visits.affinity(0, 1), visits.affinity(2, 0), visits.affinity(3, 3)], [1.0, 2.0 / 22.0, 1.0]);
    }

    /// Each visit another pattern of twenty fields: counts stay exact, patterns are so many.
    #[test]
    fn patterns_are_bounded() {
        let patterns: Vec<(Fields, u64)> = (1..=20_000).map(|fields| (fields, 2)).collect();
        let visits = Visits::of(&patterns);
        assert_eq!((visits.count(), visits.patterns.len()), (40_000, MOST_PATTERNS));
        let with = |wanted: Fields| 2 * (1..=20_000_u128).filter(|fields| fields & wanted == wanted).count() as u64;
        assert_eq!([visits.used(3), visits.used(14)], [with(1 << 3), with(1 << 14)]);
        let either = with(1 << 3) + with(1 << 5) - with(1 << 3 | 1 << 5);
        assert_eq!(visits.affinity(5, 3), with(1 << 3 | 1 << 5) as f64 / either as f64);
    }

    #[test]
    fn several_threads_that_store_share() {
        let structured = Structured {
            structures: vec![structure(8, &[("count", 8)])],
            objects: vec![Some(ObjectStructure { structure: 0, filled: Filled::Array, skipped: 0 })],
            ..Structured::default()
        };
        let access = |thread, kind| Access {
            address: 0x1000 + u64::from(thread) * 8,
            key: 0,
            bytes: 8,
            thread,
            kind,
            work: Work::USUAL,
        };
        let objects = placed(&[0x1000]);
        let is_shared = |accesses: &[Access]| {
            let mut visiting = Visiting::new(&structured, &objects);
            visiting.take(accesses);
            visiting.finish().visits[0].is_shared()
        };
        assert!(is_shared(&[access(0, AccessKind::Load), access(1, AccessKind::Modify)]));
        assert!(!is_shared(&[access(0, AccessKind::Load), access(1, AccessKind::Load)]));
        assert!(!is_shared(&[access(1, AccessKind::Load), access(1, AccessKind::Store)]));
    }

    /// x and y of an element, which are two arrays, then id of each, a third one.
    #[test]
    fn arrays_are_visited_together() {
        let column = |field| Some(ObjectStructure { structure: 0, filled: Filled::Column(field), skipped: 0 });
        let structured = Structured {
            structures: vec![structure(20, &[("x", 8), ("y", 8), ("id", 4)])],
            objects: vec![column(1), column(0), column(2)],
            ..Structured::default()
        };
        let objects = placed(&[0x20_000, 0x10_000, 0x30_000]);
        let mut visiting = Visiting::new(&structured, &objects);
        let load =
            |address, key, bytes| Access { address, key, bytes, thread: 0, kind: AccessKind::Load, work: Work::USUAL };
        for element in 0..10 {
            visiting.take(&[load(0x10_000 + 8 * element, 1, 8), load(0x20_000 + 8 * element, 0, 8)]);
        }
        for element in 0..10 {
            visiting.take(&[load(0x30_000 + 4 * element, 2, 4)]);
        }
        let visits = &visiting.finish().visits[0];
        // The last ones of x and y are still open when id is loaded.
        assert_eq!(visits.most_frequent(9), [(0b011, 10), (0b100, 10)]);
        assert_eq!((visits.in_arrays, visits.most_elements), (30, 10));
    }

    /// Two elements in turn, as to compare them, are a visit each.
    #[test]
    fn who_goes_to_and_fro_stays() {
        let structured = Structured {
            structures: vec![structure(16, &[("a", 8), ("b", 8)])],
            objects: vec![Some(ObjectStructure { structure: 0, filled: Filled::One, skipped: 0 }); 2],
            ..Structured::default()
        };
        let objects = placed(&[0x1000, 0x2000]);
        let mut visiting = Visiting::new(&structured, &objects);
        let load =
            |address, key| Access { address, key, bytes: 8, thread: 0, kind: AccessKind::Load, work: Work::USUAL };
        visiting.take(&[load(0x1000, 0), load(0x2000, 1), load(0x1008, 0), load(0x2008, 1)]);
        assert_eq!(visiting.finish().visits[0].most_frequent(9), [(0b11, 2)]);
    }
}
