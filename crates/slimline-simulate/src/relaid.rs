//! Accesses as they were if structures had another layout.
//!
//! ```text
//!   element     0         1          part 0   0 1 2 …       {x vx}     one behind the other, or
//!   as it is    x y vx vy x y vx vy  part 1   0 1 2 …       {y vy}     several lanes together: xxxx vxvxvxvx
//! ```
//!
//! Bytes of a field move together. What one access covers may come apart: it is several accesses then, one for each stretch of memory
//! that it becomes.

mod links;

use rustc_hash::FxHashMap;

use self::links::Links;
use crate::access::{Access, AccessKind, Consumer, Located, Work};
use crate::relocated::is_object;

/// Key of what is no element of a structure that is known.
pub const NO_STRUCTURE: u32 = 0;

/// The key of accesses to a structure; `leads_on`: to a field of it that holds a pointer.
pub const fn structure_key(structure: u32, leads_on: bool) -> u32 {
    1 + 2 * structure + leads_on as u32
}

/// The structure whose key it is.
pub const fn structure_of_key(key: u32) -> Option<u32> {
    match key {
        NO_STRUCTURE => None,
        key => Some((key - 1) / 2),
    }
}

/// Whether it is the key of a field that holds a pointer.
pub const fn leads_on(key: u32) -> bool {
    key != NO_STRUCTURE && key.is_multiple_of(2)
}

/// What a field holds, as far as accesses to it do more than that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holds {
    /// What no address is made of.
    #[default]
    Numbers,
    /// A pointer.
    Pointer,
    /// The number of an element in the memory of all of them: who loads it loads the address where that begins, too.
    Index,
    /// Some bits of bytes of which other fields have the others: who stores these bits loads the bytes first.
    Bits,
    /// What it pointed to, which is an object of its own: nobody loads or stores the pointer any longer.
    Pointee,
}

impl Holds {
    /// Whether what is accessed next may be found by it.
    const fn leads_on(self) -> bool {
        matches!(self, Self::Pointer | Self::Index)
    }
}

/// A field, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedField {
    /// Its offset as it is.
    pub from: u32,
    /// Its size.
    pub bytes: u32,
    /// The part that it goes to.
    pub part: u32,
    /// Its offset there.
    pub to: u32,
    /// Its size there: of a narrower type a part of it is the whole.
    pub to_bytes: u32,
    /// What it holds there.
    pub holds: Holds,
}

/// Memory that elements have in a layout; each has as much of each part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// From one element to the next.
    pub bytes: u32,
    /// Elements whose fields lie together, one field of all of them behind the other; 1 where each element is one piece.
    pub lanes: u32,
}

/// How a structure is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructureLayout {
    /// Bytes of an element as it is.
    bytes: u32,
    fields: Vec<MovedField>,
    parts: Vec<Part>,
    /// By byte as it is: the field that it is of, or the next one.
    field_of: Vec<u32>,
    /// Where in the first part the pointer is by which all others are found.
    link_at: Option<u32>,
    /// Some fields are indexes.
    has_indexes: bool,
    /// Nothing moves.
    is_as_it_is: bool,
}

impl StructureLayout {
    /// Of an element of so many bytes. Where other parts are found by a pointer in the first one, `link_at` says where that is.
    ///
    /// # Panics
    /// If a field lies beyond the element, or goes to no part.
    pub fn new(bytes: u32, mut fields: Vec<MovedField>, parts: Vec<Part>, link_at: Option<u32>) -> Self {
        // What has no bytes is nowhere.
        fields.retain(|field| field.bytes > 0);
        fields.sort_unstable_by_key(|field| field.from);
        for field in &fields {
            assert!(field.from.checked_add(field.bytes).is_some_and(|end| end <= bytes), "a field within its element");
            assert!((field.part as usize) < parts.len(), "a field's part is one of them");
        }
        let mut field_of = Vec::with_capacity(bytes as usize);
        let mut at = 0;
        for byte in 0..bytes {
            while fields.get(at).is_some_and(|field| field.from + field.bytes <= byte) {
                at += 1;
            }
            field_of.push(at as u32);
        }
        let is_one = matches!(parts[..], [Part { bytes: of_part, lanes: 0 | 1 }] if of_part == bytes);
        let stays = |field: &MovedField| {
            (field.to, field.to_bytes) == (field.from, field.bytes) && field.holds != Holds::Pointee
        };
        let is_as_it_is = is_one && fields.iter().all(stays);
        let has_indexes = fields.iter().any(|field| field.holds == Holds::Index);
        Self { bytes, fields, parts, field_of, link_at, has_indexes, is_as_it_is }
    }

    /// Its fields, and where they go.
    pub fn fields(&self) -> &[MovedField] {
        &self.fields
    }

    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Where in the first part the pointer is by which all others are found; none where they are found otherwise.
    pub fn link_at(&self) -> Option<u32> {
        self.link_at
    }

    /// Addresses that each of its objects has in [`Relayout::bases`]: of each part, and where some fields are indexes of the variable that has the
    /// address of what they count in.
    pub fn bases(&self) -> usize {
        self.parts.len() + usize::from(self.has_indexes)
    }

    /// Whether some fields are indexes.
    pub fn has_indexes(&self) -> bool {
        self.has_indexes
    }

    /// The same with parts of these sizes.
    #[must_use]
    pub fn with_parts(&self, parts: Vec<Part>) -> Self {
        Self::new(self.bytes, self.fields.clone(), parts, self.link_at)
    }

    /// Bytes of a part of so many elements.
    pub fn bytes_of(&self, part: usize, elements: u64) -> u64 {
        let Part { bytes, lanes } = self.parts[part];
        elements.next_multiple_of(lanes.max(1).into()).saturating_mul(bytes.into())
    }
}

/// Where an object's elements are, and go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacedObject {
    /// Which of the layouts; none where it stays as it is.
    pub layout: Option<u32>,
    /// The structure that it is of, for keys.
    pub structure: Option<u32>,
    /// Address of its first element.
    pub start: u64,
    /// Where in [`Relayout::bases`] its own begin: as many as [`StructureLayout::bases`].
    pub bases: u32,
}

/// Structures in other layouts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Relayout {
    /// How some are laid out.
    pub layouts: Vec<StructureLayout>,
    /// By object, as accesses' keys number them.
    pub objects: Vec<PlacedObject>,
    /// Where parts of objects begin, and behind those of each object where the address is that its indexes go by.
    pub bases: Vec<u64>,
}

/// Hands accesses on with the addresses that they have in other layouts. An access's key says which object it is to
/// ([`is_object`]); those handed on have [`structure_key`]s.
pub struct Relaid<'a, C> {
    to: C,
    relayout: &'a Relayout,
    links: Links,
    /// By thread: what is computed with accesses that are gone, which goes with the next one.
    left: FxHashMap<u32, Work>,
    handed_on: Vec<Access>,
}

impl<'a, C: Consumer> Relaid<'a, C> {
    /// Has handed nothing on.
    pub fn new(to: C, relayout: &'a Relayout) -> Self {
        Self { to, relayout, links: Links::default(), left: FxHashMap::default(), handed_on: Vec::new() }
    }

    /// Who took it all in.
    pub fn finish(self) -> C {
        self.to
    }

    fn hand_on(&mut self, access: &Access) {
        let mut access = *access;
        if !self.left.is_empty()
            && let Some(left) = self.left.remove(&access.thread)
        {
            access.work = access.work.plus(left);
        }
        let before = self.handed_on.len();
        self.move_on(&access);
        if self.handed_on.len() == before
            && let Some(left) = access.work.without_access()
        {
            self.left.insert(access.thread, left);
        }
    }

    fn move_on(&mut self, access: &Access) {
        let object = is_object(access.key).then(|| self.relayout.objects.get(access.key as usize)).flatten();
        let Some((object, structure)) = object.and_then(|object| Some((object, object.structure?))) else {
            return self.handed_on.push(Access { key: NO_STRUCTURE, ..*access });
        };
        let delta = access.address.wrapping_sub(object.start);
        // In front of the first element is what an allocator keeps there.
        let is_before = delta > u64::MAX / 2;
        let layout = object.layout.map(|layout| &self.relayout.layouts[layout as usize]);
        match layout.filter(|_| !is_before && access.kind != AccessKind::Fetch) {
            None => self.handed_on.push(Access { key: structure_key(structure, false), ..*access }),
            Some(layout) => {
                let bases = &self.relayout.bases[object.bases as usize..][..layout.bases()];
                let to = Moving { access, structure, layout, bases, links: &mut self.links };
                to.hand_on(delta, &mut self.handed_on);
            }
        }
    }
}

/// An access whose bytes move.
struct Moving<'a> {
    access: &'a Access,
    structure: u32,
    layout: &'a StructureLayout,
    bases: &'a [u64],
    links: &'a mut Links,
}

impl Moving<'_> {
    fn hand_on(self, delta: u64, handed_on: &mut Vec<Access>) {
        let Self { access, structure, layout, bases, links } = self;
        let size = u64::from(layout.bytes.max(1));
        let (first, end) = (handed_on.len(), delta + u64::from(access.bytes.max(1)));
        let (mut at, mut index, mut offset) = (delta, delta / size, (delta % size) as u32);
        let (mut is_by_index, mut is_gone) = (false, false);
        while at < end {
            let whole = (end - at) / size;
            if offset == 0 && whole > 1 && layout.parts.iter().all(|part| part.lanes <= 1) {
                // Of whole elements each part is one stretch; parts that have none of its fields are other objects'.
                let parts = (0..).zip(layout.parts.iter().zip(bases));
                for (_, (part, base)) in parts.filter(|(part, _)| layout.fields.iter().any(|field| field.part == *part))
                {
                    let stride = u64::from(part.bytes);
                    let (address, bytes) = (base + index * stride, (whole * stride).min(u64::from(u32::MAX)) as u32);
                    let key = structure_key(structure, false);
                    handed_on.push(Access { address, key, bytes, ..*access });
                }
                (at, index) = (at + whole * size, index + whole);
                continue;
            }
            let field = layout.field_of.get(offset as usize).and_then(|field| layout.fields.get(*field as usize));
            // Padding in front of the field, or behind the last one.
            let from = field.map_or(layout.bytes, |field| field.from.max(offset));
            at += u64::from(from - offset);
            if at >= end {
                break;
            }
            let Some(field) = field else {
                (index, offset) = (index + 1, 0);
                continue;
            };
            let bytes = u64::from(field.from + field.bytes - from).min(end - at);
            if field.holds == Holds::Pointee {
                is_gone = true;
                (at, offset) = (at + bytes, from + bytes as u32);
                if offset >= layout.bytes {
                    (index, offset) = (index + 1, 0);
                }
                continue;
            }
            if field.part > 0
                && let Some(link_at) = layout.link_at
                && let Some(kind) = links.follow(access.thread, (access.key, index), access.kind)
            {
                let address = bases[0] + index * u64::from(layout.parts[0].bytes) + u64::from(link_at);
                let key = structure_key(structure, true);
                handed_on.push(Access { address, key, bytes: 8, kind, ..*access });
            }
            let Part { bytes: stride, lanes } = layout.parts[field.part as usize];
            let covered = (u64::from(from - field.from), bytes);
            let (within, moved) = if field.to_bytes == field.bytes { covered } else { (0, field.to_bytes.into()) };
            let base = bases[field.part as usize];
            let address = match lanes {
                0 | 1 => base + index * u64::from(stride) + u64::from(field.to) + within,
                lanes => {
                    let lanes = u64::from(lanes);
                    let block = (index / lanes) * lanes * u64::from(stride);
                    base + block + u64::from(field.to) * lanes + (index % lanes) * u64::from(field.to_bytes) + within
                }
            };
            let key = structure_key(structure, field.holds.leads_on());
            is_by_index |= field.holds == Holds::Index && access.kind != AccessKind::Store;
            let goes_on = |last: &&mut Access| {
                let end = last.address + u64::from(last.bytes);
                // Where nothing moves, padding between two pieces does not part them. Bits may be of the same bytes.
                let is_beside = end == address || field.holds == Holds::Bits && (last.address..end).contains(&address);
                last.kind == access.kind && last.address <= address && (layout.is_as_it_is || is_beside)
            };
            match handed_on[first..].last_mut().filter(goes_on) {
                Some(last) => {
                    let end = (address + moved).max(last.address + u64::from(last.bytes));
                    last.bytes = (end - last.address) as u32;
                    if field.holds.leads_on() {
                        last.key = key;
                    }
                }
                None => {
                    let is_whole = index * size >= delta && (index + 1) * size <= end;
                    if field.holds == Holds::Bits && access.kind == AccessKind::Store && !is_whole {
                        handed_on.push(Access { address, key, bytes: moved as u32, kind: AccessKind::Load, ..*access });
                    }
                    handed_on.push(Access { address, key, bytes: moved as u32, ..*access });
                }
            }
            at += bytes;
            offset = from + bytes as u32;
            if offset >= layout.bytes {
                (index, offset) = (index + 1, 0);
            }
        }
        if is_by_index && let Some(&address) = bases.get(layout.parts.len()) {
            let key = structure_key(structure, false);
            handed_on.push(Access { address, key, bytes: 8, kind: AccessKind::Load, ..*access });
        }
        if handed_on.len() == first && !is_gone {
            // Nothing but padding, which has no place of its own.
            let address = bases[0] + (delta / size) * u64::from(layout.parts[0].bytes);
            handed_on.push(Access { address, key: structure_key(structure, false), ..*access });
        }
        // What is computed with it is computed once.
        for piece in handed_on.iter_mut().skip(first + 1) {
            piece.work = piece.work.min(Work::USUAL);
        }
    }
}

impl<C: Consumer> Consumer for Relaid<'_, C> {
    fn take(&mut self, accesses: &[Access]) {
        self.handed_on.clear();
        accesses.iter().for_each(|access| self.hand_on(access));
        self.to.take(&self.handed_on);
    }

    fn skip(&mut self, accesses: &[Access]) {
        self.links.skip(accesses);
    }

    /// Where pages are says nothing of where they would be: nobody is told.
    fn locate(&mut self, _: &Located<'_>) {}
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::relocated::NO_OBJECT;

    #[derive(Default)]
    struct Seen(Vec<Access>);

    impl Seen {
        fn places(&self) -> Vec<(u64, u32, u32)> {
            self.0.iter().map(|access| (access.address, access.bytes, access.key)).collect()
        }
    }

    impl Consumer for Seen {
        fn take(&mut self, accesses: &[Access]) {
            self.0.extend(accesses);
        }
    }

    fn field(from: u32, bytes: u32, part: u32, to: u32) -> MovedField {
        MovedField { from, bytes, part, to, to_bytes: bytes, holds: Holds::Numbers }
    }

    fn seen(relayout: &Relayout, accesses: &[(u64, u32, u32)]) -> Vec<(u64, u32, u32)> {
        let access = |&(address, bytes, key)| Access {
            address,
            key,
            bytes,
            thread: 0,
            kind: AccessKind::Load,
            work: Work::USUAL,
        };
        let mut relaid = Relaid::new(Seen::default(), relayout);
        relaid.take(&accesses.iter().map(access).collect::<Vec<_>>());
        relaid.finish().places()
    }

    fn of(layout: StructureLayout, bases: &[u64]) -> Relayout {
        let object = PlacedObject { layout: Some(0), structure: Some(3), start: 0x1000, bases: 0 };
        Relayout { layouts: vec![layout], objects: vec![object], bases: bases.to_vec() }
    }

    /// `{ int a; /* 4 bytes */ double b; int c; /* 4 bytes */ }` as {b} and {a c}.
    #[test]
    fn fields_go_to_their_parts() {
        let fields = vec![field(0, 4, 1, 0), field(8, 8, 0, 0), field(16, 4, 1, 4)];
        let layout = StructureLayout::new(24, fields, vec![Part { bytes: 8, lanes: 1 }; 2], None);
        let relayout = of(layout, &[0x10_000, 0x20_000]);
        let key = structure_key(3, false);
        // c of the element 2; b of it; its padding; all of the element 1, and b and c of it; three elements.
        let asked = [(0x1040, 4, 0), (0x1038, 8, 0), (0x1034, 4, 0), (0x1018, 24, 0), (0x1020, 12, 0), (0x1000, 72, 0)];
        let expected = [
            (0x20_014, 4, key),
            (0x10_010, 8, key),
            (0x10_010, 4, key),
            (0x20_008, 4, key),
            (0x10_008, 8, key),
            (0x20_00c, 4, key),
            (0x10_008, 8, key),
            (0x20_00c, 4, key),
            (0x10_000, 24, key),
            (0x20_000, 24, key),
        ];
        assert_eq!(seen(&relayout, &asked), expected);
        // What is no object, and what lies in front of its elements.
        let cookie = (0xff8, 8, 0);
        assert_eq!(seen(&relayout, &[(0x1000, 8, NO_OBJECT), cookie]), [(0x1000, 8, 0), (0xff8, 8, key)]);
    }

    /// What goes with an access goes with one of its pieces, with the others what usually does.
    #[test]
    fn what_is_computed_with_an_access_is_computed_once() {
        let fields = vec![field(0, 8, 0, 0), field(8, 8, 1, 0)];
        let relayout =
            of(StructureLayout::new(16, fields, vec![Part { bytes: 8, lanes: 1 }; 2], None), &[0x10_000, 0x20_000]);
        let pieces = |instructions: f64| {
            let work = Work::of(instructions);
            let access = Access { address: 0x1010, key: 0, bytes: 16, thread: 0, kind: AccessKind::Load, work };
            let mut relaid = Relaid::new(Seen::default(), &relayout);
            relaid.take(&[access]);
            relaid.finish().0.iter().map(|piece| piece.work.instructions()).collect::<Vec<_>>()
        };
        assert_eq!(pieces(40.0), [40.0, 2.5]);
        assert_eq!(pieces(1.5), [1.5, 1.5]);
    }

    /// But for the instruction that it was.
    #[test]
    fn what_is_computed_with_an_access_that_is_gone_goes_with_the_next_one() {
        let fields = vec![field(0, 8, 0, 0), MovedField { holds: Holds::Pointee, ..field(8, 8, 0, 8) }];
        let relayout = of(StructureLayout::new(16, fields, vec![Part { bytes: 24, lanes: 1 }], None), &[0x1000]);
        let access = |(address, thread, instructions)| {
            let work = Work::of(instructions);
            Access { address, key: 0, bytes: 8, thread, kind: AccessKind::Load, work }
        };
        let all = [(0x1008, 0, 30.0), (0x1000, 1, 4.0), (0x1018, 0, 10.0), (0x1000, 0, 2.0), (0x1000, 0, 2.0)];
        let mut relaid = Relaid::new(Seen::default(), &relayout);
        relaid.take(&all.map(access));
        let seen = relaid.finish().0;
        let work: Vec<(u32, f64)> = seen.iter().map(|of| (of.thread, of.work.instructions())).collect();
        assert_eq!(work, [(1, 4.0), (0, 29.0 + 9.0 + 2.0), (0, 2.0)]);
    }

    /// An array of doubles that is the second field of an element of 24 bytes, whose other fields are other arrays': also of many at once.
    #[test]
    fn arrays_become_fields() {
        let parts = vec![Part { bytes: 4, lanes: 1 }, Part { bytes: 24, lanes: 1 }];
        let layout = StructureLayout::new(8, vec![field(0, 8, 1, 8)], parts, None);
        let relayout = of(layout, &[0x10_000, 0x20_000]);
        let key = structure_key(3, false);
        let expected = [(0x20_008, 8, key), (0x20_008 + 24 * 5, 8, key), (0x20_000, 24 * 10, key)];
        assert_eq!(seen(&relayout, &[(0x1000, 8, 0), (0x1028, 8, 0), (0x1000, 80, 0)]), expected);
    }

    /// What stays as it is, is accessed as it was: holes in the middle do not part it, and what leads on does so.
    #[test]
    fn what_does_not_move_stays_one_access() {
        let fields =
            vec![field(0, 4, 0, 0), MovedField { holds: Holds::Pointer, ..field(8, 8, 0, 8) }, field(16, 0, 0, 16)];
        let layout = StructureLayout::new(24, fields, vec![Part { bytes: 24, lanes: 1 }], None);
        let relayout = of(layout, &[0x1000]);
        assert_eq!(seen(&relayout, &[(0x1018, 16, 0)]), [(0x1018, 16, structure_key(3, true))]);
        assert_eq!(seen(&relayout, &[(0x1010, 8, 0)]), [(0x1000, 8, structure_key(3, false))]);
        let gibibyte = 24 * 40_000_000;
        assert_eq!(seen(&relayout, &[(0x1000, gibibyte, 0)]), [(0x1000, gibibyte, structure_key(3, false))]);
    }

    /// `{ long a; struct part *part; long b; }` with 16 bytes of a part in the pointer's place, which is an object of its own.
    #[test]
    fn pointers_to_what_is_in_their_place_are_gone() {
        let part = MovedField { to_bytes: 16, holds: Holds::Pointee, ..field(8, 8, 0, 8) };
        let fields = vec![field(0, 8, 0, 0), part, field(16, 8, 0, 24)];
        let layout = StructureLayout::new(24, fields, vec![Part { bytes: 32, lanes: 1 }], None);
        let relayout = of(layout, &[0x10_000]);
        let key = structure_key(3, false);
        assert_eq!(seen(&relayout, &[(0x1008, 8, 0), (0x1020, 8, 0)]), []);
        // All of the element 1, its b, and three elements at once.
        let asked = [(0x1018, 24, 0), (0x1028, 8, 0), (0x1000, 72, 0)];
        let expected = [(0x10_020, 8, key), (0x10_038, 8, key), (0x10_038, 8, key), (0x10_000, 96, key)];
        assert_eq!(seen(&relayout, &asked), expected);
    }

    #[test]
    fn lanes_lie_together() {
        // Two shorts, in lanes of four: aaaa bbbb aaaa bbbb.
        let fields = vec![field(0, 2, 0, 0), field(2, 2, 0, 2)];
        let layout = StructureLayout::new(4, fields, vec![Part { bytes: 4, lanes: 4 }], None);
        assert_eq!(layout.bytes_of(0, 5), 32);
        let relayout = of(layout, &[0x10_000]);
        let addresses: Vec<u64> = [0x1000, 0x1004, 0x1002, 0x1006, 0x1010, 0x1016]
            .iter()
            .map(|&at| seen(&relayout, &[(at, 2, 0)])[0].0)
            .collect();
        assert_eq!(addresses, [0x10_000, 0x10_002, 0x10_008, 0x10_00a, 0x10_010, 0x10_01a]);
    }

    /// `{ long a; long b; }` as `{ char a; short b; }`: half of a field is all of the narrower one.
    #[test]
    fn narrower_fields_are_accessed_as_a_whole() {
        let fields =
            vec![MovedField { to_bytes: 1, ..field(0, 8, 0, 0) }, MovedField { to_bytes: 2, ..field(8, 8, 0, 2) }];
        let layout = StructureLayout::new(16, fields, vec![Part { bytes: 4, lanes: 1 }], None);
        let relayout = of(layout, &[0x10_000]);
        let key = structure_key(3, false);
        let asked = [(0x1010, 8, 0), (0x101c, 4, 0), (0x1008, 16, 0), (0x1000, 32, 0)];
        // What lies side by side then is one access.
        let expected = [(0x10_004, 1, key), (0x10_006, 2, key), (0x10_002, 3, key), (0x10_000, 8, key)];
        assert_eq!(seen(&relayout, &asked), expected);
    }

    /// The cold part is found by a pointer, which is loaded once as long as it is that of one element.
    #[test]
    fn linked_parts_cost_a_load() {
        let fields = vec![field(0, 8, 0, 0), field(8, 8, 1, 0)];
        let layout =
            StructureLayout::new(16, fields, vec![Part { bytes: 16, lanes: 1 }, Part { bytes: 8, lanes: 1 }], Some(8));
        let relayout = of(layout, &[0x10_000, 0x20_000]);
        let asked = [(0x1008, 8, 0), (0x1008, 8, 0), (0x1000, 8, 0), (0x1018, 8, 0)];
        let (key, link) = (structure_key(3, false), structure_key(3, true));
        let expected = [
            (0x10_008, 8, link),
            (0x20_000, 8, key),
            (0x20_000, 8, key),
            (0x10_000, 8, key),
            (0x10_018, 8, link),
            (0x20_008, 8, key),
        ];
        assert_eq!(seen(&relayout, &asked), expected);
        assert!(leads_on(link) && !leads_on(key) && !leads_on(NO_STRUCTURE));
        assert_eq!([structure_of_key(link), structure_of_key(key), structure_of_key(0)], [Some(3), Some(3), None]);
    }

    fn whats(relayout: &Relayout, accesses: &[(u64, u32, AccessKind)]) -> Vec<(u64, u32, AccessKind)> {
        #[derive(Default)]
        struct Kinds(Vec<(u64, u32, AccessKind)>);
        impl Consumer for Kinds {
            fn take(&mut self, accesses: &[Access]) {
                self.0.extend(accesses.iter().map(|access| (access.address, access.bytes, access.kind)));
            }
        }
        let access = |&(address, bytes, kind)| Access { address, key: 0, bytes, thread: 0, kind, work: Work::USUAL };
        let mut relaid = Relaid::new(Kinds::default(), relayout);
        relaid.take(&accesses.iter().map(access).collect::<Vec<_>>());
        relaid.finish().0
    }

    /// `{ long v; struct node *left, *right; }` with both as indexes: who loads one adds it to an address that is loaded, too, and who loads both
    /// loads that once.
    #[test]
    fn indexes_cost_a_load_of_what_they_count_from() {
        use AccessKind::{Load, Modify, Store};
        let index = |from, to| MovedField { to_bytes: 4, holds: Holds::Index, ..field(from, 8, 0, to) };
        let fields = vec![field(0, 8, 0, 0), index(8, 8), index(16, 12)];
        let layout = StructureLayout::new(24, fields, vec![Part { bytes: 16, lanes: 1 }], None);
        assert!(layout.has_indexes() && layout.bases() == 2);
        let relayout = of(layout, &[0x10_000, 0x77_000]);
        let asked = [(0x1020, 8, Load), (0x1008, 16, Load), (0x1010, 8, Store), (0x1008, 8, Modify), (0x1000, 8, Load)];
        let base = (0x77_000, 8, Load);
        let expected = [
            (0x10_018, 4, Load),
            base,
            (0x10_008, 8, Load),
            base,
            (0x10_00c, 4, Store),
            (0x10_008, 4, Modify),
            base,
            (0x10_000, 8, Load),
        ];
        assert_eq!(whats(&relayout, &asked), expected);
        assert_eq!(seen(&relayout, &[(0x1008, 8, 0)])[0].2, structure_key(3, true));
    }

    /// `{ long key; long a; long b; long c; }` of which a and b are bits of one byte, c is one of the next: a store of some bits loads the byte, a
    /// copy of all of the element does not.
    #[test]
    fn bits_are_stored_into_what_is_loaded_first() {
        use AccessKind::{Load, Modify, Store};
        let bits = |from, to| MovedField { to_bytes: 1, holds: Holds::Bits, ..field(from, 8, 0, to) };
        let fields = vec![field(0, 8, 0, 0), bits(8, 8), bits(16, 8), bits(24, 9)];
        let relayout = of(StructureLayout::new(32, fields, vec![Part { bytes: 16, lanes: 1 }], None), &[0x10_000]);
        let (a, byte) = (0x10_018, |kind| (0x10_018_u64, 1_u32, kind));
        assert_eq!(whats(&relayout, &[(0x1028, 8, Store)]), [byte(Load), byte(Store)]);
        assert_eq!(whats(&relayout, &[(0x1030, 8, Load), (0x1030, 4, Modify)]), [byte(Load), byte(Modify)]);
        // Of two fields in one byte there is one access, of three in two bytes that of both.
        assert_eq!(whats(&relayout, &[(0x1028, 16, Load), (0x1028, 24, Load)]), [byte(Load), (a, 2, Load)]);
        assert_eq!(whats(&relayout, &[(0x1020, 32, Store)]), [(0x10_010, 10, Store)]);
    }

    proptest! {
        /// The twin moves byte by byte: each byte of a field has one place, and no two bytes have the same; but for those of fields that have a
        /// narrower type, which all stand for the whole of it.
        #[test]
        fn bytes_are_moved_one_by_one(
            sizes in proptest::collection::vec((0_u32..9, 0_u32..4, 0_u32..2, 1_u32..9), 1..6),
            lanes in proptest::sample::select(vec![1_u32, 4, 8]),
            start in 0_u64..200,
            bytes in 1_u32..100,
        ) {
            let (mut fields, mut from, mut ends) = (Vec::new(), 0, [0_u32; 2]);
            for (bytes, padding, part, most) in sizes {
                let to_bytes = bytes.min(most);
                fields.push(MovedField { to_bytes, ..field(from, bytes, part, ends[part as usize]) });
                ends[part as usize] += to_bytes;
                from += bytes + padding;
            }
            prop_assume!(ends != [0, 0]);
            let parts = ends.map(|bytes| Part { bytes, lanes }).to_vec();
            let relayout = of(StructureLayout::new(from, fields.clone(), parts, None), &[0x10_0000, 0x80_0000]);
            let (mut places_of, mut owners) = (BTreeMap::new(), BTreeMap::new());
            for byte in 0..from * 320 {
                let (index, offset) = (byte / from, byte % from);
                let Some(of) = fields.iter().find(|of| (of.from..of.from + of.bytes).contains(&offset)) else { continue };
                let is_narrowed = of.to_bytes < of.bytes;
                let within = if is_narrowed { 0..of.to_bytes } else { offset - of.from..offset - of.from + 1 };
                let block = (index / lanes) * lanes * ends[of.part as usize];
                let begin = of.to * lanes + (index % lanes) * of.to_bytes;
                let places = within.map(|within| {
                    [0x10_0000, 0x80_0000][of.part as usize] + u64::from(block + begin + within)
                });
                let places: Vec<u64> = places.collect();
                let owner = if is_narrowed { (index, of.from) } else { (index, offset) };
                for place in &places {
                    prop_assert_eq!(*owners.entry(*place).or_insert(owner), owner, "two in one place");
                }
                places_of.insert(0x1000 + u64::from(byte), places);
            }
            let moved: BTreeSet<u64> = seen(&relayout, &[(0x1000 + start, bytes, 0)])
                .into_iter()
                .flat_map(|(at, bytes, _)| at..at + u64::from(bytes))
                .filter(|at| owners.contains_key(at))
                .collect();
            let expected: BTreeSet<u64> =
                (0x1000 + start..).take(bytes as usize).filter_map(|at| places_of.get(&at)).flatten().copied().collect();
            if !expected.is_empty() {
                prop_assert_eq!(moved, expected);
            }
        }
    }
}
