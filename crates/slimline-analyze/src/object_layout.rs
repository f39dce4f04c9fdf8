//! In which order objects of the heap could lie, and how far each would have to move.

use slimline_layout::graph::Graph;
use slimline_layout::order::{Hierarchical, arrangement_cost, breadth_first, random};

use crate::full_trace::objects::Object;

/// Where objects are put: no program's own memory is there.
const PLACE: u64 = 1 << 47;
/// What the C library's allocator needs beside a block, which begins at a multiple of [`ALIGNMENT`], and the least that it takes.
const HEADER_BYTES: u64 = 8;
const ALIGNMENT: u64 = 16;
const LEAST_BYTES: u64 = 32;

/// An order of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// Where they were: what is freed makes room for others.
    Original,
    /// As they were allocated, one behind the other.
    Allocated,
    /// As each was accessed first.
    FirstAccess,
    /// By a search through the access graph.
    BreadthFirst,
    /// By chance.
    Random,
    /// By communities of the access graph, and their Fiedler vectors.
    Hierarchical,
}

impl Arrangement {
    /// All of them, the best last.
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
        }
    }
}

/// Objects in an order.
#[derive(Clone, Debug, PartialEq)]
pub struct Arranged {
    /// Which one.
    pub arrangement: Arrangement,
    /// Numbers of objects, as they lie one behind the other.
    pub order: Vec<u32>,
    /// Σ w · |φ(u) − φ(v)| over the edges of the access graph, φ a place in the order.
    pub cost: u128,
    /// By object: how far it moves, modulo 2⁶⁴.
    pub moves: Vec<u64>,
}

/// All arrangements of these objects, by the graph of accesses to them and its hierarchical order.
pub fn arrangements(objects: &[Object], graph: &Graph, hierarchical: &Hierarchical, seed: u64) -> Vec<Arranged> {
    let arranged = |arrangement| {
        let mut order: Vec<u32> = (0..objects.len() as u32).collect();
        match arrangement {
            Arrangement::Original => order.sort_by_key(|&object| {
                let Object { process, start, sequence, .. } = objects[object as usize];
                (process, start, sequence)
            }),
            Arrangement::Allocated => order.sort_by_key(|&object| {
                let Object { process, sequence, .. } = objects[object as usize];
                (process, sequence)
            }),
            Arrangement::FirstAccess => {}
            Arrangement::BreadthFirst => order = breadth_first(graph),
            Arrangement::Random => order = random(graph.nodes(), seed),
            Arrangement::Hierarchical => order.clone_from(&hierarchical.order),
        }
        let moves = match arrangement {
            Arrangement::Original => vec![0; objects.len()],
            _ => moves(objects, &order),
        };
        Arranged { arrangement, cost: arrangement_cost(graph, &order), order, moves }
    };
    Arrangement::ALL.map(arranged).into()
}

/// How far each moves if they lie one behind the other, as an allocator would put them that never reuses memory.
fn moves(objects: &[Object], order: &[u32]) -> Vec<u64> {
    let mut moves = vec![0; objects.len()];
    let mut next = PLACE;
    for &object in order {
        let Object { start, bytes, .. } = objects[object as usize];
        moves[object as usize] = (next + ALIGNMENT).wrapping_sub(start);
        next += bytes.saturating_add(HEADER_BYTES).next_multiple_of(ALIGNMENT).max(LEAST_BYTES);
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(start: u64, bytes: u64, sequence: u32) -> Object {
        Object { process: 0, start, bytes, sequence, origin: 0 }
    }

    #[test]
    fn objects_lie_one_behind_the_other() {
        // Accessed in this order; the second one has the memory of the last one, which was freed.
        let objects = [object(0x500, 24, 2), object(0x100, 40, 3), object(0x100, 8, 1)];
        let graph = Graph::new(3, [(0, 1, 5), (1, 2, 1)].into_iter());
        let hierarchical = Hierarchical::of(&graph, 1);
        let all = arrangements(&objects, &graph, &hierarchical, 1);
        let of = |arrangement| all.iter().find(|arranged| arranged.arrangement == arrangement).unwrap();
        let allocated = of(Arrangement::Allocated);
        assert_eq!((allocated.order.as_slice(), allocated.cost), (&[2, 0, 1][..], 5 + 2));
        let at = |object: usize| objects[object].start.wrapping_add(allocated.moves[object]) - PLACE;
        // 32 bytes at least, 24 and a header, 40 and a header.
        assert_eq!([at(2), at(0), at(1)], [16, 48, 80]);
        let original = of(Arrangement::Original);
        assert_eq!((original.order.as_slice(), original.moves.as_slice()), (&[2, 1, 0][..], &[0, 0, 0][..]));
    }
}
