//! Numbers for lines, or for blocks of them, from 0 on in the order in which they were first asked for.

use rustc_hash::FxHashMap;

/// Neighbours that are told by one look into the table.
const LEAF: usize = 64;
/// No number yet.
const NONE: u32 = u32::MAX;
/// Leaves that are found without that look.
const RECENT: usize = 1 << RECENT_BITS;
const RECENT_BITS: u32 = 9;

/// Numbers of things that often are neighbours. Takes 4 bytes each, 300 where it is alone among its [`LEAF`].
#[derive(Debug)]
pub(crate) struct Numbers {
    leaf_of: FxHashMap<u64, u32>,
    leaves: Vec<[u32; LEAF]>,
    /// What was looked up last: 64th part of the name, one more, and leaf.
    recent: Box<[(u64, u32); RECENT]>,
    count: u32,
}

impl Default for Numbers {
    fn default() -> Self {
        Self { leaf_of: FxHashMap::default(), leaves: Vec::new(), recent: Box::new([(0, 0); RECENT]), count: 0 }
    }
}

impl Numbers {
    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Its number, and whether that is new. Memory ends long before 32 bits do.
    #[inline(always)]
    pub(crate) fn number(&mut self, of: u64) -> (u32, bool) {
        let name = of / LEAF as u64;
        let (recent, leaf) = self.recent[recent_place(name)];
        if recent == name + 1 {
            let number = self.leaves[leaf as usize][(of % LEAF as u64) as usize];
            if number != NONE {
                return (number, false);
            }
        }
        self.search(of)
    }

    /// The same of one whose leaf was not looked up last, or that has no number yet.
    #[inline(never)]
    fn search(&mut self, of: u64) -> (u32, bool) {
        let name = of / LEAF as u64;
        let leaf = self.look_up(name, recent_place(name));
        let number = &mut self.leaves[leaf as usize][(of % LEAF as u64) as usize];
        if *number != NONE {
            return (*number, false);
        }
        *number = self.count;
        self.count += 1;
        (self.count - 1, true)
    }

    fn look_up(&mut self, name: u64, place: usize) -> u32 {
        let next = self.leaves.len() as u32;
        let leaf = *self.leaf_of.entry(name).or_insert(next);
        if leaf == next {
            self.leaves.push([NONE; LEAF]);
        }
        self.recent[place] = (name + 1, leaf);
        leaf
    }

    /// Memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.leaves.capacity() * size_of::<[u32; LEAF]>()
            + self.leaf_of.capacity() * 2 * size_of::<(u64, u32)>()
            + size_of_val(&*self.recent)
    }
}

/// Arrays are often far apart by powers of two: multiplied by the golden ratio they have places of their own.
#[inline]
fn recent_place(name: u64) -> usize {
    (name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_one_number() {
        let mut numbers = Numbers::default();
        let far = u64::MAX / 64;
        for (line, expected) in [
            (5, (0, true)),
            (6, (1, true)),
            (5, (0, false)),
            (far, (2, true)),
            (5 + 64 * 64, (3, true)),
            (far, (2, false)),
            (6, (1, false)),
        ] {
            assert_eq!(numbers.number(line), expected);
        }
        assert_eq!(numbers.count(), 4);
    }
}
