//! Pointers from elements to parts of them that are elsewhere, which the program as it is does not have.

use rustc_hash::FxHashMap;

use crate::access::{Access, AccessKind};
use crate::relocated::is_object;

/// An element: its object, and its place in it.
type Element = (u32, u64);

/// What was done with these pointers so far.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// By thread: the element that was found by its pointer last.
    last: Vec<Option<Element>>,
    /// Elements whose parts were reached: a bit for the first one of each object, and for others, by object.
    first: Vec<u64>,
    others: FxHashMap<u32, Vec<u64>>,
    /// The first object that no access that was left out was to: objects have numbers in the order in which they are accessed first.
    unskipped: u32,
}

impl Links {
    /// What these accesses did with pointers is not seen.
    pub(super) fn skip(&mut self, accesses: &[Access]) {
        let objects = accesses.iter().map(|access| access.key).filter(|&key| is_object(key));
        self.unskipped = objects.map(|object| object + 1).fold(self.unskipped, u32::max);
    }

    /// What is done with the pointer before a thread accesses what it points to. It is in a register as long as it is that of one
    /// element. Who stores there before anything else was done made the element, and stores the pointer, too.
    pub(super) fn follow(&mut self, thread: u32, element: Element, kind: AccessKind) -> Option<AccessKind> {
        let thread = thread as usize;
        if self.last.len() <= thread {
            self.last.resize(thread + 1, None);
        }
        if self.last[thread].replace(element) == Some(element) {
            return None;
        }
        let is_new = self.reach(element) && element.0 >= self.unskipped;
        Some(if is_new && kind == AccessKind::Store { AccessKind::Store } else { AccessKind::Load })
    }

    /// Whether nobody reached it before.
    fn reach(&mut self, (object, index): Element) -> bool {
        let (bits, at) = match index {
            0 => (&mut self.first, object.into()),
            _ => (self.others.entry(object).or_default(), index - 1),
        };
        let (word, bit) = ((at / 64) as usize, 1 << (at % 64));
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        let is_new = bits[word] & bit == 0;
        bits[word] |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Work;

    #[test]
    fn what_was_left_out_may_have_made_it() {
        let mut links = Links::default();
        let access = |key| Access { address: 0, key, bytes: 8, thread: 0, kind: AccessKind::Load, work: Work::USUAL };
        links.skip(&[access(4), access(7), access(crate::relocated::NO_OBJECT)]);
        let store = AccessKind::Store;
        assert_eq!(links.follow(0, (7, 0), store), Some(AccessKind::Load));
        assert_eq!(links.follow(0, (8, 0), store), Some(store));
    }

    #[test]
    fn who_stores_first_stores_the_pointer() {
        let mut links = Links::default();
        let (load, store) = (AccessKind::Load, AccessKind::Store);
        let asked = [
            (0, (7, 0), store, Some(store)),
            // It has it yet.
            (0, (7, 0), load, None),
            (1, (7, 0), store, Some(load)),
            (0, (7, 100), store, Some(store)),
            (0, (7, 0), store, Some(load)),
            (0, (7, 100), load, Some(load)),
            // Nobody was seen to make it.
            (0, (8, 0), load, Some(load)),
            (1, (8, 0), store, Some(load)),
        ];
        for (thread, element, kind, expected) in asked {
            assert_eq!(links.follow(thread, element, kind), expected, "{thread} {element:?}");
        }
    }
}
