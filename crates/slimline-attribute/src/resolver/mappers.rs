//! Which calls of a process map memory again and again, as allocators do that keep a pool.

use rustc_hash::{FxHashMap, FxHashSet};
use slimline_trace::address::Avma;
use slimline_trace::tables::{RangeOrigin, Ranges, Stacks};

/// Mappings that make a pool. Two tables of one size are two tables.
const LEAST_MAPPINGS: u64 = 4;

/// Calls by the address they return to, of one process.
#[derive(Debug, Default)]
pub(super) struct Mappers {
    calls: FxHashMap<Avma, Mapper>,
}

/// What a call mapped.
#[derive(Debug)]
struct Mapper {
    mappings: u64,
    /// Size of the first.
    bytes: u64,
    has_one_size: bool,
    callers: FxHashSet<Option<Avma>>,
}

impl Mappers {
    /// Of all mappings that a process made.
    pub(super) fn new(ranges: &Ranges, stacks: &Stacks) -> Self {
        let mut calls: FxHashMap<Avma, Mapper> = FxHashMap::default();
        for row in (0..ranges.len()).filter(|&row| ranges.origin[row] == RangeOrigin::Map) {
            let frames = ranges.stack[row].map_or(&[][..], |stack| stacks.frames(stack));
            let bytes = ranges.bytes[row];
            for (depth, &call) in frames.iter().enumerate() {
                // Of a recursion, the innermost call.
                if frames[..depth].contains(&call) {
                    continue;
                }
                let mapper = calls.entry(call).or_insert_with(|| Mapper {
                    mappings: 0,
                    bytes,
                    has_one_size: true,
                    callers: FxHashSet::default(),
                });
                mapper.mappings += 1;
                mapper.has_one_size &= mapper.bytes == bytes;
                mapper.callers.insert(frames.get(depth + 1).copied());
            }
        }
        Self { calls }
    }

    /// Whether the call that returns there maps as an allocator does: the same size many times, for several callers, and
    /// again for the same ones. A function that each caller has make one table does not.
    pub(super) fn keeps_pool(&self, call: Avma) -> bool {
        self.calls.get(&call).is_some_and(|mapper| {
            let callers = mapper.callers.len() as u64;
            mapper.has_one_size && callers > 1 && mapper.mappings >= LEAST_MAPPINGS && mapper.mappings > callers
        })
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::tables::{Range, RangeSource, StackEnd};

    use super::*;

    /// Whether the call that returns to 1 keeps a pool, where these callers had it map so many bytes.
    fn keeps_pool(mappings: &[(u64, u64)]) -> bool {
        let (mut ranges, mut stacks) = (Ranges::default(), Stacks::default());
        for &(caller, bytes) in mappings {
            let stack = Some(stacks.push(&[1, caller, 1, 9].map(Avma), StackEnd::Outermost));
            let origin = RangeOrigin::Map;
            let source = RangeSource::default();
            ranges.push(Range { base: Avma(0), bytes, born_ns: 0, died_ns: None, stack, origin, source });
        }
        Mappers::new(&ranges, &stacks).keeps_pool(Avma(1))
    }

    #[test]
    fn a_pool_is_mapped_again_and_again() {
        assert!(keeps_pool(&[(2, 256), (3, 256), (2, 256), (2, 256)]));
        assert!(!keeps_pool(&[(2, 256), (3, 256)]), "two tables");
        assert!(!keeps_pool(&[(2, 256), (3, 256), (2, 256)]), "too few to tell");
        assert!(!keeps_pool(&[(2, 256), (3, 256), (4, 256), (5, 256)]), "a table for each caller");
        assert!(!keeps_pool(&[(2, 256), (3, 256), (2, 256), (3, 512)]), "sizes as they were asked for");
        assert!(!keeps_pool(&[(2, 256); 9]), "one caller's");
        assert!(!Mappers::default().keeps_pool(Avma(1)));
    }
}
