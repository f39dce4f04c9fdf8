//! What allocators take, which no access of a trace tells.

use super::addresses::Chosen;
use super::candidates::Candidate;
use crate::full_trace::object_structures::Structured;
use crate::full_trace::objects::{Object, ObjectOrigin};

/// Cycles of a block of the heap, from `malloc` to `free`, as nodes of 24 to 64 bytes took with glibc 2.36 on an AMD EPYC: 40 where the
/// memory was freed just before, 130 where it is new.
pub const BLOCK_CYCLES: f64 = 60.0;
/// The same of one that is the next of its pool: a comparison, a sum, and rarely a new chunk.
pub const POOL_CYCLES: f64 = 10.0;

/// Cycles that all blocks take to be allocated and freed, where structures have these layouts. Allocators of the program's own are not
/// known, and not counted; elements of an array are of one block.
pub fn allocating_cycles(
    objects: &[Object],
    origins: &[ObjectOrigin],
    structured: &Structured,
    chosen: &Chosen<'_>,
) -> f64 {
    let of_object = |(number, object): (usize, &Object)| {
        let origin = &origins[object.origin as usize];
        if origin.variable.is_some() || origin.is_of_own_allocator || object.index.is_some_and(|index| index > 0) {
            return 0.0;
        }
        let structure = structured.objects.get(number).copied().flatten().map(|of| of.structure);
        structure.and_then(|structure| chosen[structure as usize]).map_or(BLOCK_CYCLES, of_parts)
    };
    objects.iter().enumerate().map(of_object).sum()
}

fn of_parts(candidate: &Candidate) -> f64 {
    let of_part = |part| if candidate.is_from_pool(part) { POOL_CYCLES } else { BLOCK_CYCLES };
    (0..candidate.layout.parts().len()).map(of_part).sum()
}

#[cfg(test)]
mod tests {
    use super::super::candidates::tests::structure;
    use super::super::candidates::{Change, Objects, candidates};
    use super::super::visits::Visits;
    use super::*;
    use crate::full_trace::object_structures::{Filled, ObjectStructure};

    #[test]
    fn pools_take_less_and_parts_more() {
        let structure = structure(56, &[("key", 8), ("note", 40), ("next", 8)]);
        let visits = Visits { accesses: 2000, in_arrays: 0, most_elements: 1, ..Visits::of(&[(0b101, 1000)]) };
        let found = candidates(&structure, &visits, Objects { count: 100, otherwise: 0, apart: 0 }).unwrap();
        let with = |change, is_pool| found.iter().find(|of| of.change == change && of.is_pool == is_pool).unwrap();
        let object =
            |origin, index| Object { process: 0, start: 0x1000, bytes: 56, sequence: 1, ordinal: 1, origin, index };
        // Two nodes, a block of something else, an element of that, a static variable, and a block of an allocator of the program's own.
        let objects = [
            object(0, None),
            object(0, Some(0)),
            object(0, None),
            object(0, Some(1)),
            object(1, None),
            object(2, None),
        ];
        let node = Some(ObjectStructure { structure: 0, filled: Filled::One, skipped: 0 });
        let structured = Structured {
            structures: vec![structure],
            objects: vec![node, node, None, None, node, node],
            ..Structured::default()
        };
        let origins = [
            ObjectOrigin::default(),
            ObjectOrigin { variable: Some("table".to_owned()), ..ObjectOrigin::default() },
            ObjectOrigin { is_of_own_allocator: true, ..ObjectOrigin::default() },
        ];
        let cycles = |chosen| allocating_cycles(&objects, &origins, &structured, &[chosen]);
        assert_eq!(cycles(None), 3.0 * BLOCK_CYCLES);
        assert_eq!(cycles(Some(with(Change::Pool, true))), BLOCK_CYCLES + 2.0 * POOL_CYCLES);
        // What is cold comes from a pool in any case.
        assert_eq!(cycles(Some(with(Change::HotCold, false))), 3.0 * BLOCK_CYCLES + 2.0 * POOL_CYCLES);
        assert_eq!(cycles(Some(with(Change::HotCold, true))), BLOCK_CYCLES + 4.0 * POOL_CYCLES);
    }
}
