//! Numbers for what is told by 64 bits and comes again and again: from 0 on, in the order in which it first came.

use rustc_hash::FxHashMap;

/// What is found without a look into the table.
const RECENT: usize = 1 << RECENT_BITS;
const RECENT_BITS: u32 = 8;
/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Numbers of things, which are below 2^64 - 1. Takes up to 40 bytes each.
#[derive(Debug)]
pub(crate) struct Numbers {
    known: FxHashMap<u64, u32>,
    /// What was looked up last, one more than it, and its number.
    recent: Vec<(u64, u32)>,
}

impl Default for Numbers {
    fn default() -> Self {
        Self { known: FxHashMap::default(), recent: vec![(0, 0); RECENT] }
    }
}

impl Numbers {
    /// The number of a thing, a new one where it has none.
    #[inline]
    pub(crate) fn number(&mut self, of: u64) -> u32 {
        let place = recent_place(of);
        let (recent, number) = self.recent[place];
        if recent == of + 1 { number } else { self.look_up(of, place) }
    }

    fn look_up(&mut self, of: u64, place: usize) -> u32 {
        let next = self.known.len() as u32;
        let number = *self.known.entry(of).or_insert(next);
        self.recent[place] = (of + 1, number);
        number
    }

    /// The number of a thing that may have none.
    pub(crate) fn find(&self, of: u64) -> Option<u32> {
        let (recent, number) = self.recent[recent_place(of)];
        if recent == of + 1 { Some(number) } else { self.known.get(&of).copied() }
    }

    /// Memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.known.capacity() * 2 * size_of::<(u64, u32)>() + self.recent.len() * size_of::<(u64, u32)>()
    }
}

/// Arrays are often far apart by powers of two: multiplied so they have places of their own.
#[inline]
fn recent_place(of: u64) -> usize {
    (of.wrapping_mul(GOLDEN) >> (u64::BITS - RECENT_BITS)) as usize
}
