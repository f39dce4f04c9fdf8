//! Layouts whose fields have other types: narrower ones, indexes in the place of pointers, some bits of a byte.

use std::cmp::Reverse;

use slimline_simulate::relaid::Holds;

use super::{Candidate, Change, Of, POINTER_BYTES, alignment};
use crate::full_trace::object_structures::{FieldShape, Hold, StructureShape};

/// Size of an index.
const INDEX_BYTES: u32 = 4;
const BYTE_BITS: u32 = 8;

/// Fields that have other types than they are declared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retyped {
    /// Those that have their narrower type.
    pub narrowed: Vec<usize>,
    /// Pointers to other elements that are numbers of these, from the first one of all.
    pub indexed: Vec<usize>,
    /// Those that are some bits of a byte that others have the rest of.
    pub packed: Vec<usize>,
}

impl Retyped {
    /// Whether all have their own.
    pub const fn is_none(&self) -> bool {
        self.narrowed.is_empty() && self.indexed.is_empty() && self.packed.is_empty()
    }

    /// The change that they make of one that changes nothing else.
    pub(super) fn change(&self, otherwise: Change) -> Change {
        match self {
            _ if !self.indexed.is_empty() => Change::Indexes,
            _ if !self.packed.is_empty() => Change::BitFields,
            _ if !self.narrowed.is_empty() => Change::Shrink,
            _ => otherwise,
        }
    }

    /// Each that has one of these types less; what is no bits of a byte any longer may have its narrower type instead.
    fn with_less(&self, fields: &[FieldShape]) -> Vec<Self> {
        let without = |of: &[usize], field: usize| of.iter().copied().filter(|other| *other != field).collect();
        let mut less = Vec::new();
        for &field in &self.packed {
            let packed: Vec<usize> = without(&self.packed, field);
            less.push(Self { packed: packed.clone(), ..self.clone() });
            if fields[field].narrower.is_some() {
                let mut narrowed = self.narrowed.clone();
                narrowed.push(field);
                narrowed.sort_unstable();
                less.push(Self { packed, narrowed, ..self.clone() });
            }
        }
        less.extend(
            self.narrowed.iter().map(|&field| Self { narrowed: without(&self.narrowed, field), ..self.clone() }),
        );
        less.extend(self.indexed.iter().map(|&field| Self { indexed: without(&self.indexed, field), ..self.clone() }));
        less
    }
}

/// What one pointer to a structure points to, as its type is spelled; none of what is no pointer, or counts who has it, or owns an array.
pub(in crate::relayout) fn pointee(type_name: &str) -> Option<&str> {
    let name = type_name.trim();
    let inside = |prefix: &str| name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix('>'));
    if let Some(some) = ["core::option::Option<", "Option<"].into_iter().find_map(inside) {
        return pointee(some);
    }
    const OWNERS: [&str; 5] =
        ["alloc::boxed::Box<", "Box<", "core::ptr::non_null::NonNull<", "NonNull<", "std::unique_ptr<"];
    if let Some(owned) = OWNERS.into_iter().find_map(inside) {
        // Behind it is an allocator, or what deletes it.
        return Some(owned.split(", ").next().unwrap_or(owned));
    }
    let raw = ["*mut ", "*const "].into_iter().find_map(|prefix| name.strip_prefix(prefix));
    raw.or_else(|| name.strip_suffix('*')).map(str::trim)
}

/// A type's name without the words that go before it.
pub(in crate::relayout) fn bare(name: &str) -> &str {
    let name = name.strip_prefix("const ").unwrap_or(name);
    name.strip_prefix("struct ").or_else(|| name.strip_prefix("class ")).unwrap_or(name)
}

/// Whether a field is a pointer to one element of its own structure, and nothing else.
pub(super) fn points_to_its_own(structure: &StructureShape, field: &FieldShape) -> bool {
    let is_free = !field.is_shared && field.hold == Hold::None;
    is_free
        && field.bytes == POINTER_BYTES
        && pointee(&field.type_name).is_some_and(|name| bare(name) == bare(&structure.name))
}

impl Of<'_> {
    fn with(&self, types: Retyped) -> Of<'_> {
        Of { types, ..*self }
    }

    /// The same layout with other types: narrower ones, bits of bytes with narrower ones, and where elements have numbers (`are_numbered`) indexes
    /// without and with either. Each has as few of them as make its parts as small as all would, and is smaller than those with fewer kinds of
    /// them: what is hardly used is left as it is.
    pub(super) fn retyped(&self, are_numbered: bool, layout: &dyn Fn(&Of<'_>) -> Option<Candidate>) -> Vec<Candidate> {
        let fields = || 0..self.fields().len();
        let narrowed: Vec<usize> = fields().filter(|&field| self.fields()[field].narrower.is_some()).collect();
        let packed = self.packable();
        let wide: Vec<usize> = narrowed.iter().copied().filter(|field| !packed.contains(field)).collect();
        let numbers = [
            Retyped::default(),
            Retyped { narrowed: narrowed.clone(), ..Retyped::default() },
            Retyped { narrowed: wide, packed, ..Retyped::default() },
        ];
        let is_pointer = |field: &usize| are_numbered && points_to_its_own(self.structure, &self.fields()[*field]);
        let indexed: Vec<usize> = fields().filter(is_pointer).collect();
        // As it is declared where that is no layout.
        let plain = layout(self).map_or(self.structure.bytes, |plain| plain.hot_bytes());
        let mut found = Vec::new();
        // The smallest with these numbers or simpler ones: without indexes, and with them.
        let (mut without, mut with) = (plain, u32::MAX);
        for types in numbers {
            let least = self.least(types.clone(), layout).filter(|least| least.hot_bytes() < without);
            without = least.as_ref().map_or(without, Candidate::hot_bytes);
            found.extend(least);
            if !indexed.is_empty() {
                let least = self.least(Retyped { indexed: indexed.clone(), ..types }, layout);
                let is_smaller =
                    |least: &Candidate| least.hot_bytes() < without.min(with) && !least.types.indexed.is_empty();
                let least = least.filter(is_smaller);
                with = least.as_ref().map_or(with, Candidate::hot_bytes);
                found.extend(least);
            }
        }
        found
    }

    /// Those of the fields that can be some bits of a byte of which one thread stores most: what another one stores has a byte of its own.
    fn packable(&self) -> Vec<usize> {
        let few = |field: &usize| self.fields()[*field].few_bits;
        let all: Vec<usize> = (0..self.fields().len()).filter(|field| few(field).is_some()).collect();
        let by = |thread: Option<u32>| {
            let is_by = |field: &&usize| few(field).is_some_and(|few| few.storer.is_none() || few.storer == thread);
            all.iter().filter(is_by).copied().collect::<Vec<_>>()
        };
        let mut threads: Vec<Option<u32>> = all.iter().filter_map(few).map(|few| few.storer).collect();
        threads.sort_unstable();
        threads.dedup();
        let most = threads.into_iter().map(by).reduce(|most, of| if of.len() > most.len() { of } else { most });
        most.unwrap_or_default()
    }

    /// A layout with as few other types as make its parts as small as all of these do. None where there is none.
    fn least(&self, types: Retyped, layout: &dyn Fn(&Of<'_>) -> Option<Candidate>) -> Option<Candidate> {
        if types.is_none() {
            return None;
        }
        let mut least = layout(&self.with(types))?;
        let is_as_small = |of: &Candidate, least: &Candidate| {
            of.hot_bytes() == least.hot_bytes() && of.hot_parts().len() == least.hot_parts().len()
        };
        while let Some(less) = least.types.with_less(self.fields()).into_iter().find_map(|types| {
            let of = layout(&self.with(types))?;
            is_as_small(&of, &least).then_some(of)
        }) {
            least = less;
        }
        Some(least).filter(|least| !least.types.is_none())
    }

    /// Fields in this order, which has holes where some are narrower but if these are put together.
    pub(super) fn in_order(&self, order: &[usize]) -> Vec<usize> {
        if self.types.is_none() { order.to_vec() } else { self.packed(order) }
    }

    /// Bytes and alignment of a field; of one that is bits of a byte those of that byte.
    pub(super) fn extent(&self, field: usize) -> (u32, u32) {
        let of = &self.fields()[field];
        if self.types.packed.contains(&field) {
            return (1, 1);
        }
        if self.types.indexed.contains(&field) {
            return (INDEX_BYTES, INDEX_BYTES);
        }
        if let Some(inlined) = self.inlined_at(field) {
            return (inlined.bytes, inlined.align);
        }
        match of.narrower.filter(|_| self.types.narrowed.contains(&field)) {
            Some(narrower) => (narrower.bytes, narrower.bytes),
            None => (of.bytes, alignment(of)),
        }
    }

    /// Fields of a part that are bits of bytes, those of each byte: the widest first, each in the first byte that has room. A compiler that goes on
    /// to the next byte where a field has no room in this one comes to the same.
    pub(super) fn bytes_of_bits(&self, fields: &[usize]) -> Vec<Vec<usize>> {
        let bits = |field: usize| self.fields()[field].few_bits.map_or(BYTE_BITS, |few| few.bits);
        let mut packed: Vec<usize> = fields.iter().copied().filter(|field| self.types.packed.contains(field)).collect();
        packed.sort_by_key(|field| Reverse(bits(*field)));
        let mut bytes: Vec<(u32, Vec<usize>)> = Vec::new();
        for field in packed {
            match bytes.iter_mut().find(|(taken, _)| taken + bits(field) <= BYTE_BITS) {
                Some((taken, of_it)) => {
                    *taken += bits(field);
                    of_it.push(field);
                }
                None => bytes.push((bits(field), vec![field])),
            }
        }
        bytes.into_iter().map(|(_, fields)| fields).collect()
    }

    /// What a field holds, with the types that these have.
    pub(super) fn holds(&self, field: usize) -> Holds {
        if self.types.packed.contains(&field) {
            Holds::Bits
        } else if self.types.indexed.contains(&field) {
            Holds::Index
        } else if self.inlined_at(field).is_some() {
            Holds::Pointee
        } else {
            self.fields()[field].holds()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{MANY, structure, visits};
    use super::super::{Objects, candidates};
    use super::*;
    use crate::full_trace::held_values::{FewBits, Narrower, Number};
    use crate::full_trace::values::Range;

    fn few(bits: u32, storer: Option<u32>) -> Option<FewBits> {
        Some(FewBits { bits, is_signed: false, range: Some(Range::Unsigned(0, 1)), storer })
    }

    /// What each layout of a kind is, as bytes of its first part, which fields have other types, and whether it is of a pool.
    fn of(found: &[Candidate], change: Change) -> Vec<(u32, Retyped, bool)> {
        let of_change = found.iter().filter(|of| of.change == change);
        of_change.map(|of| (of.layout.parts()[0].bytes, of.types.clone(), of.is_pool)).collect()
    }

    /// `{ long v; struct node *left, *right; }`, of which v is small.
    fn tree() -> StructureShape {
        let mut tree = structure(24, &[("v", 8), ("left", 8), ("next", 8)]);
        tree.fields[0].type_name = "long".to_owned();
        tree.fields[1].type_name = "struct node *".to_owned();
        tree
    }

    #[test]
    fn nodes_of_a_pool_have_indexes() {
        let mut shape = tree();
        let used = visits(&[(0b111, 1000)], false);
        let indexes =
            |shape: &StructureShape, objects| of(&candidates(shape, &used, objects).unwrap(), Change::Indexes);
        let both = Retyped { indexed: vec![1, 2], ..Retyped::default() };
        assert_eq!(indexes(&shape, MANY), [(16, both.clone(), true)]);
        // 4 + 4 + 4.
        shape.fields[0].narrower = Some(Narrower { bytes: 4, number: Number::Signed, range: Range::Signed(0, 9) });
        let narrow = Retyped { narrowed: vec![0], ..both.clone() };
        assert_eq!(indexes(&shape, MANY), [(16, both, true), (12, narrow, true)]);
        // Four times as many have no number in four bytes.
        let count = |count| Objects { count, otherwise: 0, apart: 0 };
        assert_eq!(indexes(&shape, count((1 << 30) - 1)).len(), 2);
        assert_eq!(indexes(&shape, count(1 << 30)), []);
        // One pointer less saves nothing, and where one alone does the other one stays.
        shape.fields[1].type_name = "void *".to_owned();
        shape.fields[0].narrower = None;
        assert_eq!(indexes(&shape, MANY), []);
    }

    /// A key of eight bytes, what is hardly used, two pointers: 32 bytes stay with that behind a pointer, 24 with indexes.
    #[test]
    fn hot_parts_have_indexes() {
        let mut shape = structure(64, &[("key", 8), ("note", 40), ("left", 8), ("next", 8)]);
        shape.fields[2].type_name = "struct node *".to_owned();
        let found = candidates(&shape, &visits(&[(0b1101, 1000), (0b10, 1)], false), MANY).unwrap();
        let indexed = Retyped { indexed: vec![2, 3], ..Retyped::default() };
        let none = Retyped::default;
        assert_eq!(of(&found, Change::HotCold), [(32, none(), false), (32, none(), true), (24, indexed.clone(), true)]);
        assert_eq!(of(&found, Change::Indexes), [(56, indexed, true)]);
    }

    #[test]
    fn one_array_has_indexes_and_several_have_none() {
        let used = visits(&[(0b111, 1000)], true);
        let found = |count| candidates(&tree(), &used, Objects { count, otherwise: 0, apart: 0 }).unwrap();
        assert_eq!(of(&found(1), Change::Indexes).iter().map(|of| (of.0, of.2)).collect::<Vec<_>>(), [(16, false)]);
        assert_eq!(of(&found(2), Change::Indexes), []);
    }

    /// As the leaf that all of a tree's ends point to often is.
    #[test]
    fn where_one_is_a_variable_nodes_have_no_numbers() {
        let used = visits(&[(0b111, 1000)], false);
        let found = |apart| candidates(&tree(), &used, Objects { count: 1000, otherwise: 0, apart }).unwrap();
        assert!(!of(&found(0), Change::Indexes).is_empty());
        assert_eq!(of(&found(1), Change::Indexes), []);
    }

    #[test]
    fn pointers_to_one_element_are_known_by_their_type() {
        let is_own = |structure_name: &str, type_name: &str| {
            let mut shape = tree();
            shape.name = structure_name.to_owned();
            shape.fields[1].type_name = type_name.to_owned();
            points_to_its_own(&shape, &shape.fields[1])
        };
        for own in ["struct node *", "node *", "const struct node *"] {
            assert!(is_own("struct node", own), "{own}");
        }
        for own in [
            "*mut ns::Node",
            "alloc::boxed::Box<ns::Node>",
            "core::option::Option<alloc::boxed::Box<ns::Node, alloc::alloc::Global>>",
            "core::option::Option<core::ptr::non_null::NonNull<ns::Node>>",
            "std::unique_ptr<ns::Node, std::default_delete<ns::Node> >",
        ] {
            assert!(is_own("ns::Node", own), "{own}");
        }
        for other in [
            "struct node **",
            "struct node_list *",
            "struct node",
            "void *",
            "struct node *[1]",
            "_Atomic(struct node *)",
            "struct node *volatile",
            "alloc::rc::Rc<node>",
            "alloc::vec::Vec<node>",
            "long",
        ] {
            assert!(!is_own("struct node", other), "{other}");
        }
    }

    /// `{ long key; bool a…i; }`: 8 + 9 bytes are 24, 8 + 2 are 16.
    #[test]
    fn flags_become_bits_where_bytes_are_too_many() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let fields: Vec<(&str, u32)> = [("key", 8)].into_iter().chain(names.map(|name| (name, 1))).collect();
        let mut shape = structure(24, &fields);
        shape.fields[0].type_name = "long".to_owned();
        shape.fields[1..].iter_mut().for_each(|field| {
            field.type_name = "bool".to_owned();
            field.few_bits = few(1, Some(7));
        });
        let used = visits(&[(0b11, 1000)], true);
        let bits = |shape: &StructureShape| {
            let found = candidates(shape, &used, Objects { count: 1, otherwise: 0, apart: 0 }).unwrap();
            found.into_iter().filter(|of| of.change == Change::BitFields).collect::<Vec<_>>()
        };
        let [one] = bits(&shape).try_into().unwrap();
        // As few as make it 16 bytes: two, with which seven bytes and that one are eight.
        assert_eq!((one.layout.parts()[0].bytes, one.types.packed.len()), (16, 2));
        let packed = |from: u32| one.layout.fields().iter().find(|field| field.from == from).unwrap();
        let [first, second] = [8 + 7, 8 + 8].map(packed);
        assert_eq!((first.to, first.holds, second.to), (15, Holds::Bits, 15));
        // Another thread stores one of them: the others do. Of two threads' eight, none are left.
        shape.fields[9].few_bits = few(1, Some(8));
        assert_eq!(bits(&shape)[0].types.packed, [7, 8]);
        shape.fields[1..].iter_mut().zip(0..).for_each(|(field, thread)| field.few_bits = few(1, Some(thread)));
        assert!(bits(&shape).is_empty());
        // What nobody stores goes with whom it may.
        shape.fields[4].few_bits = few(1, None);
        assert_eq!(bits(&shape)[0].types.packed.len(), 2);
        shape.fields[1..].iter_mut().for_each(|field| field.few_bits = None);
        assert!(bits(&shape).is_empty());
    }

    /// Numbers of eight bytes that are small: narrower ones are one byte each, bits less than that.
    #[test]
    fn bits_are_tried_beside_narrower_types() {
        let fields: Vec<(&str, u32)> = ["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(|name| (name, 8)).to_vec();
        let mut shape = structure(72, &fields);
        shape.fields.iter_mut().for_each(|field| {
            field.type_name = "long".to_owned();
            field.narrower = Some(Narrower { bytes: 1, number: Number::Unsigned, range: Range::Unsigned(0, 3) });
            field.few_bits = few(4, None);
        });
        let found =
            candidates(&shape, &visits(&[(0b1_1111_1111, 9)], true), Objects { count: 1, otherwise: 0, apart: 0 })
                .unwrap();
        let narrow = of(&found, Change::Shrink)[0].0;
        let bits = of(&found, Change::BitFields).swap_remove(0);
        // Two of four bits each in a byte; the ninth has one of its own.
        assert_eq!((narrow, bits.0, bits.1.packed.len(), bits.1.narrowed.len()), (9, 5, 8, 1));
    }

    fn of_bits(bits: &[u32]) -> StructureShape {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
        let fields: Vec<(&str, u32)> = names[..bits.len()].iter().map(|name| (*name, 1)).collect();
        let mut shape = structure(bits.len() as u32, &fields);
        shape.fields.iter_mut().zip(bits).for_each(|(field, bits)| field.few_bits = few(*bits, None));
        shape
    }

    proptest! {
        /// A compiler that puts each where the one before it ends, or into the next byte where it has no room in this one, comes to the same bytes.
        #[test]
        fn compilers_put_bits_where_they_are_seen(bits in proptest::collection::vec(1_u32..7, 1..12)) {
            let shape = of_bits(&bits);
            let visits = visits(&[(1, 1)], true);
            let all: Vec<usize> = (0..bits.len()).collect();
            let types = Retyped { packed: all.clone(), ..Retyped::default() };
            let bytes = Of { structure: &shape, visits: &visits, types, inlined: None }.bytes_of_bits(&all);
            let mut at = 0;
            for (number, byte) in bytes.iter().enumerate() {
                for &field in byte {
                    let begins = if at % 8 + bits[field] > 8 { (at / 8 + 1) * 8 } else { at };
                    prop_assert_eq!(begins / 8, number as u32, "{:?}", bytes);
                    at = begins + bits[field];
                }
            }
            let mut told: Vec<usize> = bytes.into_iter().flatten().collect();
            told.sort_unstable();
            prop_assert_eq!(told, all);
        }
    }
}
