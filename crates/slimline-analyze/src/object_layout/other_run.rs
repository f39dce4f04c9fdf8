//! An order of objects that was made of another run: what it is worth in one that it was not made of.

use rustc_hash::FxHashMap;

use super::in_order_of_allocation;
use crate::full_trace::object_fields::Held;
use crate::full_trace::objects::{Object, ObjectOrigin};

/// What is the same in both runs, beside the place: the object's process, number of allocation there and place in an array, or what its
/// fields hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Same {
    Allocation { process: u32, ordinal: u32, index: Option<u32> },
    Values(HeldValues),
}

/// Function, file, line and type; of what is known by fields the type alone.
type Place = (String, String, u32, String);

/// What an object's fields hold, in the order that they are named in.
pub type HeldValues = Box<[Held]>;

/// The same by an object's number; nothing where one of them is not known.
pub type HeldBy<'a> = &'a dyn Fn(u32) -> Option<HeldValues>;

/// An order of another run's objects.
#[derive(Debug, Default)]
pub struct OtherRun {
    places: FxHashMap<Place, u32>,
    ranks: FxHashMap<(u32, Same), u32>,
}

impl OtherRun {
    /// Objects are the same in both runs if fields hold the same where some are named, else if they are the same line's same block in the
    /// order of allocation. Of several that are, the first one counts.
    pub fn new((objects, origins): (&[Object], &[ObjectOrigin]), held: Option<HeldBy<'_>>, order: &[u32]) -> Self {
        let mut own = Self::default();
        let of_origins: Vec<u32> = origins
            .iter()
            .map(|origin| {
                let next = own.places.len() as u32;
                *own.places.entry(place(origin, held.is_some())).or_insert(next)
            })
            .collect();
        for (rank, &number) in (0..).zip(order) {
            let object = &objects[number as usize];
            if let Some(same) = same(object, number, held) {
                own.ranks.entry((of_origins[object.origin as usize], same)).or_insert(rank);
            }
        }
        own
    }

    /// This run's objects in that order, behind them those that the other one did not have, as they were allocated; and how many it had.
    pub fn order(&self, (objects, origins): (&[Object], &[ObjectOrigin]), held: Option<HeldBy<'_>>) -> (Vec<u32>, u64) {
        let of_origins: Vec<Option<u32>> =
            origins.iter().map(|origin| self.places.get(&place(origin, held.is_some())).copied()).collect();
        let rank = |number: u32| {
            let object = &objects[number as usize];
            self.ranks.get(&(of_origins[object.origin as usize]?, same(object, number, held)?)).copied()
        };
        let ranks: Vec<Option<u32>> = (0..objects.len() as u32).map(rank).collect();
        let mut order = in_order_of_allocation(objects);
        order.sort_by_key(|number| ranks[*number as usize].unwrap_or(u32::MAX));
        (order, ranks.iter().flatten().count() as u64)
    }
}

fn same(object: &Object, number: u32, held: Option<HeldBy<'_>>) -> Option<Same> {
    let &Object { process, ordinal, index, .. } = object;
    match held {
        None => Some(Same::Allocation { process, ordinal, index }),
        Some(held) => held(number).map(Same::Values),
    }
}

fn place(ObjectOrigin { allocated_at, type_name, .. }: &ObjectOrigin, is_by_field: bool) -> Place {
    match is_by_field {
        true => (String::new(), String::new(), 0, type_name.clone()),
        false => (allocated_at.function.clone(), allocated_at.file.clone(), allocated_at.line, type_name.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects of two lines, which they are in turns.
    fn objects(count: u32) -> Vec<Object> {
        let object = |number: u32| Object {
            process: 0,
            start: 0x1000 + 64 * u64::from(number),
            bytes: 24,
            sequence: number + 1,
            ordinal: number / 2 + 1,
            origin: number % 2,
            index: None,
        };
        (0..count).map(object).collect()
    }

    fn origins() -> Vec<ObjectOrigin> {
        let of = |line| {
            let mut origin = ObjectOrigin { type_name: "node".to_owned(), ..ObjectOrigin::default() };
            origin.allocated_at.line = line;
            origin
        };
        vec![of(10), of(20)]
    }

    #[test]
    fn the_same_line_s_same_block_is_the_same_object() {
        let (before, mut lines) = (objects(6), origins());
        let other = OtherRun::new((&before, &lines), None, &[5, 4, 3, 2, 1, 0]);
        // The lines are met in another order, and there are two objects more.
        let mut now = objects(8);
        now.iter_mut().for_each(|object| object.origin = 1 - object.origin);
        lines.reverse();
        assert_eq!(other.order((&now, &lines), None), (vec![5, 4, 3, 2, 1, 0, 6, 7], 6));
        lines[0].allocated_at.line = 30;
        assert_eq!(other.order((&now, &lines), None), (vec![4, 2, 0, 1, 3, 5, 6, 7], 3));
    }

    #[test]
    fn what_fields_hold_says_who_it_is() {
        let (before, lines) = (objects(4), origins());
        // As numbers with a fraction the two are one.
        let large = (1 << 60) + 1;
        let one = |integer| Box::from([Held::Integer(integer)]);
        let held = |number| [Some(large), Some(1 << 60), None, Some(large)][number as usize].map(one);
        let other = OtherRun::new((&before, &lines), Some(&held), &[3, 2, 1, 0]);
        let now = objects(3);
        let held = |number| [Some(9), Some(1 << 60), Some(large)][number as usize].map(one);
        assert_eq!(other.order((&now, &lines), Some(&held)), (vec![2, 1, 0], 2));
        // Of two fields both count.
        let two = |number: u32| Some([Held::Integer(number.into()), Held::Integer(7)].into());
        let other = OtherRun::new((&before, &lines), Some(&two), &[3, 2, 1, 0]);
        assert_eq!(other.order((&now, &lines), Some(&two)), (vec![2, 1, 0], 3));
        let two = |number: u32| Some([Held::Integer(number.into()), Held::Integer((7 + number % 2).into())].into());
        assert_eq!(other.order((&now, &lines), Some(&two)), (vec![2, 0, 1], 2));
    }
}
