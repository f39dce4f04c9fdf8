//! Memory of no structure, and what of the time it takes: no layout of it is tried, but a report says which data it is.

use std::collections::BTreeMap;

use slimline_simulate::relaid::Relayout;

use crate::full_trace::object_structures::Structured;
use crate::full_trace::objects::Object;

/// Objects of no structure that one line allocates, or a static variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unstructured {
    /// What allocates them, by its place among origins.
    pub origin: u32,
    /// The array that it is, by its place among structures, which it is none of.
    pub array: Option<u32>,
    /// Part of the program's time, as [`shares`](super::shares) tells it.
    pub share: f64,
    /// How many there are.
    pub objects: u64,
    /// Their bytes: of all that there were, whether at a time or not.
    pub bytes: u64,
}

/// Tells objects of no structure apart by what allocates them: each is of one whose number comes behind those that there are.
pub fn tell_apart(relayout: &mut Relayout, objects: &[Object], structured: &Structured) {
    let structures = structured.structures.len() as u32;
    for (placed, object) in relayout.objects.iter_mut().zip(objects) {
        placed.structure = placed.structure.or_else(|| structures.checked_add(object.origin));
    }
}

/// Memory of no structure by what allocates it, most of the time first; with what [`tell_apart`] did. Of structures those that `is_one` of them are no memory of none.
pub fn unstructured(
    (objects, structured): (&[Object], &Structured),
    share: impl Fn(u32) -> f64,
    is_one: impl Fn(u32) -> bool,
) -> Vec<Unstructured> {
    let structures = structured.structures.len() as u32;
    let mut of_number: BTreeMap<u32, Unstructured> = BTreeMap::new();
    for (number, object) in objects.iter().enumerate() {
        let structure = structured.objects.get(number).copied().flatten().map(|of| of.structure);
        let told = match structure {
            Some(structure) if is_one(structure) => continue,
            Some(array) => array,
            None => {
                let Some(told) = structures.checked_add(object.origin) else { continue };
                told
            }
        };
        let found = of_number.entry(told).or_insert_with(|| {
            let share = share(told);
            Unstructured { origin: object.origin, array: structure, share, objects: 0, bytes: 0 }
        });
        found.objects += 1;
        found.bytes += object.bytes;
    }
    let mut found: Vec<Unstructured> = of_number.into_values().filter(|of| of.share > 0.0).collect();
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::{Access, AccessKind, Consumer, Work};
    use slimline_simulate::machine::Machine;
    use slimline_simulate::relaid::Relaid;
    use slimline_simulate::simulation::{Options, Simulation};
    use slimline_simulate::waiting::Waiting;

    use super::super::addresses::relayout;
    use super::super::candidates::tests::structure;
    use super::super::shares;
    use super::*;
    use crate::full_trace::object_structures::{Filled, ObjectStructure};

    #[test]
    fn what_is_of_no_structure_is_told_by_what_allocates_it() {
        let mut array = structure(8, &[("sums", 8)]);
        array.is_columns = true;
        let of = |structure, filled| Some(ObjectStructure { structure, filled, skipped: 0 });
        let structured = Structured {
            structures: vec![structure(16, &[("a", 8), ("b", 8)]), array],
            objects: vec![of(0, Filled::One), None, of(1, Filled::Column(0)), None, None],
            ..Structured::default()
        };
        let object = |(at, origin): (u64, u32)| Object { start: at << 12, bytes: 64, origin, ..OBJECT };
        let objects: Vec<Object> = [(1, 0), (2, 3), (3, 1), (4, 3), (5, 2)].into_iter().map(object).collect();
        let mut relaid = relayout(&objects, &structured, &[None, None]).unwrap();
        tell_apart(&mut relaid, &objects, &structured);
        // Each access hits but for the first of each object; so often is each accessed, and once what is no object.
        let load =
            |key, address| Access { address, key, bytes: 8, thread: 0, kind: AccessKind::Load, work: Work::USUAL };
        let times = [4, 3, 2, 5, 1];
        let each = objects.iter().zip(0..).zip(times);
        let mut accesses: Vec<Access> =
            each.flat_map(|((object, key), times)| vec![load(key, object.start); times]).collect();
        accesses.push(load(u32::MAX, 9 << 12));
        let machine = Machine::named("dinero-i5").unwrap();
        let waiting = Waiting::new(Simulation::new(&machine, &Options::default()).unwrap());
        let mut to = Relaid::new(waiting, &relaid);
        to.take(&accesses);
        let waited = to.finish().finish();
        let found = unstructured((&objects, &structured), shares(&waited), |structure| structure == 0);
        let told: Vec<_> = found.iter().map(|of| (of.origin, of.array, of.objects, of.bytes)).collect();
        assert_eq!(told, [(3, None, 2, 128), (1, Some(1), 1, 64), (2, None, 1, 64)]);
        let of_structure = shares(&waited)(0);
        let elsewhere = 1.0 - of_structure - found.iter().map(|of| of.share).sum::<f64>();
        assert!(elsewhere > 0.0 && elsewhere < of_structure, "{elsewhere} {found:?}");
    }

    const OBJECT: Object = Object { process: 0, start: 0, bytes: 0, sequence: 1, ordinal: 1, origin: 0, index: None };
}
