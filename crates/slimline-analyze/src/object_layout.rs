//! In which order objects of the heap could lie, how far each would have to move, and whether that is worth it.

mod arenas;
mod other_run;
mod placing;
mod slots;

use std::collections::BTreeMap;

use slimline_layout::graph::Graph;
use slimline_layout::order::{Hierarchical, arrangement_cost, breadth_first, random};
use slimline_simulate::relocated::Steps;
use slimline_simulate::simulation::Outcome;

pub use self::arenas::{BUCKET_BYTES, in_arenas};
pub use self::other_run::{HeldBy, HeldValues, OtherRun};
use self::placing::Placing;
pub(crate) use self::placing::{ALIGNMENT, PLACE, block_spacing};
pub use self::slots::Slots;
use crate::full_trace::objects::Object;

/// What must be saved of the cycles that it is worth moving objects.
pub const WORTH_IT: f64 = 0.02;

/// An order of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// Where they were: what is freed makes room for others.
    Original,
    /// As they were allocated, one behind the other.
    Allocated,
    /// As each was accessed first.
    FirstAccess,
    /// By a search through the access graph, from the object that is accessed first.
    BreadthFirst,
    /// By chance.
    Random,
    /// By communities of the access graph, and their Fiedler vectors.
    Hierarchical,
    /// As the same objects lie in the hierarchical order of another run.
    OtherRun,
}

impl Arrangement {
    /// All that one run makes.
    pub const ALL: [Self; 6] =
        [Self::Original, Self::Allocated, Self::FirstAccess, Self::BreadthFirst, Self::Random, Self::Hierarchical];

    /// As reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Allocated => "allocated",
            Self::FirstAccess => "first_access",
            Self::BreadthFirst => "breadth_first",
            Self::Random => "random",
            Self::Hierarchical => "hierarchical",
            Self::OtherRun => "other_run",
        }
    }
}

/// Objects in an order.
#[derive(Clone, Debug, PartialEq)]
pub struct Arranged {
    /// Which one.
    pub arrangement: Arrangement,
    /// Σ w · |φ(u) − φ(v)| over the edges of the access graph, φ a place in the order.
    pub cost: u128,
    /// By object: how far it moves, modulo 2⁶⁴; empty where none does.
    pub moves: Vec<u64>,
}

/// Objects of a process that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Of what orders are made.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Who is accessed next to whom.
    pub graph: &'a Graph,
    /// Objects as each was accessed first.
    pub first_accesses: &'a [u32],
    /// See there.
    pub hierarchical: &'a Hierarchical,
    /// What allocators of the program's own give them.
    pub slots: &'a Slots,
    /// The order of [`OtherRun::order`]; empty where that is not wanted.
    pub other_run: &'a [u32],
    /// What is drawn by chance is drawn by it.
    pub seed: u64,
}

/// These objects in the arrangements that are wanted, where they move with so many bytes behind each that none has.
///
/// # Errors
/// If a process's objects are larger than all of its memory.
pub fn arrangements(
    objects: &[Object],
    known: Known<'_>,
    wanted: &[Arrangement],
    larger_by: u64,
) -> Result<Vec<Arranged>, TooLarge> {
    let Known { graph, first_accesses, hierarchical, slots, other_run, seed } = known;
    let arranged = |&arrangement| {
        let order = match arrangement {
            Arrangement::Original => by_address(objects),
            Arrangement::Allocated => in_order_of_allocation(objects),
            Arrangement::FirstAccess => first_accesses.to_vec(),
            Arrangement::BreadthFirst => breadth_first(graph, first_accesses),
            Arrangement::Random => random(graph.nodes(), seed),
            Arrangement::Hierarchical => hierarchical.order.clone(),
            Arrangement::OtherRun => other_run.to_vec(),
        };
        let moves = match arrangement {
            Arrangement::Original => Vec::new(),
            _ => moves(objects, &order, (slots, larger_by))?,
        };
        Ok(Arranged { arrangement, cost: arrangement_cost(graph, &order), moves })
    };
    wanted.iter().map(arranged).collect()
}

fn in_order_of_allocation(objects: &[Object]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..objects.len() as u32).collect();
    order.sort_unstable_by_key(|&object| {
        let Object { process, sequence, index, .. } = objects[object as usize];
        (process, sequence, index)
    });
    order
}

/// Those that were at one address as they were allocated.
fn by_address(objects: &[Object]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..objects.len() as u32).collect();
    order.sort_unstable_by_key(|&object| {
        let Object { process, start, sequence, .. } = objects[object as usize];
        (process, start, sequence)
    });
    order
}

/// How many had memory that others, allocated before, had had.
pub fn reusing(objects: &[Object]) -> u64 {
    let mut sorted: Vec<&Object> = objects.iter().collect();
    sorted.sort_unstable_by_key(|object| (object.process, object.sequence, object.index));
    // Memory that was had so far: where each stretch of it begins, and ends.
    let mut had: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    let mut reusing = 0;
    for &&Object { process, start, bytes, .. } in &sorted {
        let (mut from, mut to) = (start, start.saturating_add(bytes.max(1)));
        let is_reused = had.range(..(process, to)).next_back().is_some_and(|(of, end)| of.0 == process && *end > start);
        reusing += u64::from(is_reused);
        // All that it overlaps or adjoins becomes one stretch with it.
        while let Some((&of, &end)) = had.range(..=(process, to)).next_back()
            && of.0 == process
            && end >= from
        {
            had.remove(&of);
            (from, to) = (from.min(of.1), to.max(end));
        }
        had.insert((process, from), to);
    }
    reusing
}

/// How far each moves if those of a process lie one behind the other, as an allocator would put them that never reuses memory.
fn moves(objects: &[Object], order: &[u32], (slots, larger_by): (&Slots, u64)) -> Result<Vec<u64>, TooLarge> {
    let mut moves = vec![0; objects.len()];
    Placing::new(slots, larger_by).in_order(objects, order.iter().copied(), &mut moves)?;
    Ok(moves)
}

/// Whether objects should lie otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// No two objects are accessed next to each other.
    NoNeighbours,
    /// No order saves [`WORTH_IT`] of the cycles that the original one takes.
    Leave,
    /// One does.
    Reorder {
        /// The order that saves most.
        to: Arrangement,
        /// Share of the cycles that it saves of the original ones.
        saved: f64,
        /// And of those in the order of allocation, whose objects reuse no memory either.
        saved_of_allocated: f64,
    },
}

/// What a machine made of a trace with objects so.
pub type Replayed<'a> = (&'a Arranged, Outcome, Steps);

/// By what a machine made of objects in the arrangements, so many of which were [`reusing`] memory.
pub fn verdict(reusing: u64, replayed: &[Replayed<'_>]) -> Verdict {
    let cycles: Vec<_> =
        replayed.iter().map(|(arranged, outcome, _)| (arranged.arrangement, outcome.total().cycles)).collect();
    by_cycles(&cycles, reusing > 0)
}

/// By the cycles that each arrangement takes. None but the original one reuses memory; so an order that saves no more than that of
/// allocation does saves it by that, and not by its order. Where nothing was reused, objects were in that order but for where lines begin
/// in it: what that saves is luck.
fn by_cycles(cycles: &[(Arrangement, u64)], is_reusing: bool) -> Verdict {
    let of = |wanted| cycles.iter().find(|(arrangement, _)| *arrangement == wanted).copied();
    let (Some((_, original)), Some(allocated)) = (of(Arrangement::Original), of(Arrangement::Allocated)) else {
        return Verdict::NoNeighbours;
    };
    let saved = |of: u64, by: u64| 1.0 - by as f64 / of.max(1) as f64;
    let others = cycles.iter().filter(|(arrangement, _)| *arrangement != Arrangement::Original);
    let best = others.copied().filter(|(_, cycles)| saved(allocated.1, *cycles) >= WORTH_IT);
    let Some((to, least)) = best.min_by_key(|(_, cycles)| *cycles).or(is_reusing.then_some(allocated)) else {
        return Verdict::Leave;
    };
    let saved = saved(original, least);
    match saved >= WORTH_IT {
        true => Verdict::Reorder { to, saved, saved_of_allocated: 1.0 - least as f64 / allocated.1.max(1) as f64 },
        false => Verdict::Leave,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::placing::PLACE;
    use super::*;
    use crate::full_trace::objects::ObjectOrigin;

    fn object(start: u64, bytes: u64, sequence: u32) -> Object {
        Object { process: 0, start, bytes, sequence, ordinal: sequence, origin: 0, index: None }
    }

    fn known<'a>(graph: &'a Graph, first_accesses: &'a [u32], hierarchical: &'a Hierarchical) -> Known<'a> {
        static NONE: LazyLock<Slots> = LazyLock::new(Slots::default);
        Known { graph, first_accesses, hierarchical, slots: &NONE, other_run: &[], seed: 1 }
    }

    fn moves(objects: &[Object], order: &[u32], larger_by: u64) -> Result<Vec<u64>, TooLarge> {
        super::moves(objects, order, (&Slots::default(), larger_by))
    }

    #[test]
    fn objects_lie_one_behind_the_other() {
        // Accessed in this order; the second one has the memory of the last one, which was freed.
        let objects = [object(0x500, 24, 2), object(0x100, 40, 3), object(0x100, 8, 1)];
        let graph = Graph::new(3, [(0, 1, 5), (1, 2, 1)].into_iter());
        let hierarchical = Hierarchical::of(&graph, 1);
        let all = arrangements(&objects, known(&graph, &[1, 2, 0], &hierarchical), &Arrangement::ALL, 0).unwrap();
        let of = |arrangement| all.iter().find(|arranged| arranged.arrangement == arrangement).unwrap();
        let at =
            |arranged: &Arranged, object: usize| objects[object].start.wrapping_add(arranged.moves[object]) - PLACE;
        let allocated = of(Arrangement::Allocated);
        assert_eq!(allocated.cost, 5 + 2);
        // 32 bytes at least, 24 and a header, 40 and a header.
        assert_eq!([2, 0, 1].map(|object| at(allocated, object)), [16, 48, 80]);
        // 1, 2, 0.
        let first_access = of(Arrangement::FirstAccess);
        assert_eq!(first_access.cost, 2 * 5 + 1);
        assert_eq!([1, 2, 0].map(|object| at(first_access, object)), [16, 64, 96]);
        // 2, 1, 0.
        let original = of(Arrangement::Original);
        assert_eq!((original.cost, original.moves.len()), (5 + 1, 0));
    }

    #[test]
    fn each_process_has_memory_of_its_own() {
        let of = |process, bytes| Object { process, ..object(0x100, bytes, 1) };
        let objects = [of(0, 8), of(1, 8), of(0, 40)];
        let places = moves(&objects, &[0, 1, 2], 0).unwrap().into_iter().map(|by| by.wrapping_add(0x100) - PLACE);
        assert_eq!(places.collect::<Vec<_>>(), [16, 16, 48]);
        let larger = moves(&objects, &[0, 1, 2], 64).unwrap().into_iter().map(|by| by.wrapping_add(0x100) - PLACE);
        // 72 bytes and a header.
        assert_eq!(larger.collect::<Vec<_>>(), [16, 16, 96]);
        assert_eq!(moves(&[of(0, 1 << 46), of(1, 1 << 46)], &[0, 1], 0).map(|moves| moves.len()), Ok(2));
        assert_eq!(moves(&[of(0, 1 << 46), of(0, 1 << 46)], &[0, 1], 0), Err(TooLarge));
        assert_eq!(moves(&[of(0, u64::MAX)], &[0], 0), Err(TooLarge));
    }

    /// 24 bytes of a pool and 24 of the C library's, in turns.
    #[test]
    fn objects_of_a_pool_lie_as_closely_as_there() {
        let of = |start, sequence, origin| Object { origin, ..object(start, 24, sequence) };
        let objects = [of(0x100, 1, 1), of(0x500, 2, 0), of(0x118, 3, 1), of(0x520, 4, 0)];
        let origins =
            [false, true].map(|is_of_own_allocator| ObjectOrigin { is_of_own_allocator, ..Default::default() });
        let slots = Slots::of(&objects, &origins);
        let moves = super::moves(&objects, &[0, 2, 1, 3], (&slots, 0)).unwrap();
        let at = |object: usize| objects[object].start.wrapping_add(moves[object]) - PLACE;
        assert_eq!([0, 2, 1, 3].map(at), [16, 40, 64, 96]);
    }

    #[test]
    fn objects_that_had_memory_of_others() {
        // The second one begins within the first; of the third nothing is anybody's; another process has the same addresses.
        let other = Object { process: 1, ..object(0x500, 24, 1) };
        assert_eq!(reusing(&[object(0x500, 24, 2), object(0x510, 40, 3), object(0x538, 8, 1), other]), 1);
        assert_eq!(reusing(&[object(0x100, 8, 1), object(0x100, 8, 2), object(0x100, 4, 3)]), 2);
        // A large one over two that were before; side by side is nobody's.
        assert_eq!(reusing(&[object(0x100, 8, 1), object(0x110, 8, 2), object(0x100, 64, 3)]), 1);
        assert_eq!(reusing(&[object(0x100, 8, 1), object(0x108, 8, 2)]), 0);
    }

    #[test]
    fn elements_lie_side_by_side_in_their_order() {
        let of = |start, index| Object { index: Some(index), ..object(start, 24, 7) };
        // Met in another order than that of the array.
        let objects = [of(0x118, 1), of(0x100, 0), object(0x900, 8, 8)];
        let graph = Graph::new(3, [(0, 1, 1)].into_iter());
        let hierarchical = Hierarchical::of(&graph, 1);
        let all = arrangements(&objects, known(&graph, &[0, 1, 2], &hierarchical), &Arrangement::ALL, 0).unwrap();
        let allocated = all.iter().find(|of| of.arrangement == Arrangement::Allocated).unwrap();
        let at = |object: usize| objects[object].start.wrapping_add(allocated.moves[object]) - PLACE;
        assert_eq!([at(1), at(0), at(2)], [16, 40, 64]);
    }

    #[test]
    fn an_order_must_save_more_than_what_reuses_nothing() {
        use Arrangement::*;
        let of = |allocated, hierarchical| {
            by_cycles(&[(Original, 1000), (Allocated, allocated), (Hierarchical, hierarchical)], true)
        };
        let expected = Verdict::Reorder { to: Hierarchical, saved: 0.25, saved_of_allocated: 0.5 };
        assert_eq!(of(1500, 750), expected);
        assert_eq!(of(1000, 981), Verdict::Leave);
        let allocated = Verdict::Reorder { to: Allocated, saved: 0.25, saved_of_allocated: 0.0 };
        assert_eq!((of(750, 740), of(750, 800)), (allocated, allocated));
        assert_eq!(of(1000, 1200), Verdict::Leave);
        // Where nothing is reused, that is where lines begin.
        assert_eq!(by_cycles(&[(Original, 1000), (Allocated, 900), (Hierarchical, 950)], false), Verdict::Leave);
        assert_eq!(by_cycles(&[(Original, 1000)], true), Verdict::NoNeighbours);
    }
}
