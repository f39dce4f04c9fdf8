//! What a heap group is called.
//!
//! Candidates, best first:
//!
//! 1. a static or member that the pointer to its blocks is stored to, where the allocation is: `net->neurons`;
//! 2. of blocks that each are one element (nodes of a tree): their type. The variable that holds a node for a moment
//!    (`t`, `fresh`) says nothing of the many; nor does a library's type (`LeafNode<K, V>`), which is no name for data of
//!    the program's;
//! 3. the variable that holds the block where it is allocated, or to where that is returned: `bodies`;
//! 4. the variable by which most of the accesses reach it: a slice's parameter, `this->items`;
//! 5. what a function that allocates and returns it calls it;
//! 6. their type, where that is a tuple of Rust's: no variable of the program's holds the table of a map, whose entries are
//!    `(K, V)`;
//! 7. the function and line that allocates it.
//!
//! A member that links one node to another (`t->left`) is no candidate: each node has another one.

use std::collections::BTreeMap;

use crate::tables::Element;
use crate::typing::heap::{HeldIn, Holder};

/// By how many accesses each variable reached a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached {
    by: BTreeMap<String, u64>,
    accesses: u64,
}

impl Reached {
    /// Counts accesses by `variable`; `None` where debug information does not tell.
    pub(super) fn add(&mut self, variable: Option<&str>, accesses: u64) {
        self.accesses += accesses;
        if let Some(variable) = variable {
            match self.by.get_mut(variable) {
                Some(known) => *known += accesses,
                None => drop(self.by.insert(variable.to_owned(), accesses)),
            }
        }
    }

    /// The variable of more than half of the accesses.
    fn by_most(&self) -> Option<&str> {
        self.by.iter().find(|&(_, &accesses)| accesses > self.accesses / 2).map(|(name, _)| name.as_str())
    }
}

/// What is known of a group whose name is wanted.
pub(super) struct Candidates<'t> {
    pub(super) holder: Option<&'t Holder>,
    pub(super) reached: &'t Reached,
    /// Element, and the name of its type, where that is not a library's.
    pub(super) element: Option<(Element, &'t str)>,
    /// Blocks touched, and the size of each; 0 where they differ.
    pub(super) objects: u64,
    pub(super) object_bytes: u64,
}

impl Candidates<'_> {
    /// The best name; `None` leaves the place of the allocation.
    pub(super) fn best(&self) -> Option<&str> {
        let held_in = |wanted| self.holder.filter(|holder| holder.held_in == wanted).map(|holder| holder.name.as_str());
        held_in(HeldIn::Memory)
            .or_else(|| held_in(HeldIn::Container))
            .or_else(|| self.node_type())
            .or_else(|| held_in(HeldIn::Variable))
            .or_else(|| self.reached.by_most())
            .or_else(|| held_in(HeldIn::Constructor))
            .or_else(|| self.element.map(|(_, name)| name).filter(|name| name.starts_with('(')))
    }

    /// The type of blocks that each have room for one element only.
    fn node_type(&self) -> Option<&str> {
        let (element, name) = self.element?;
        let room = self.object_bytes.checked_sub(element.start)?;
        (self.objects > 1 && element.bytes > 1 && room >= element.bytes && room < 2 * element.bytes).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::TypeId;

    const NODES: (u64, u64) = (1000, 56);
    const ARRAY: (u64, u64) = (1, 5600);

    #[track_caller]
    fn check(
        holder: Option<(&str, HeldIn)>,
        reached: &[(Option<&str>, u64)],
        (objects, object_bytes): (u64, u64),
        expected: Option<&str>,
    ) {
        let holder = holder.map(|(name, held_in)| Holder { name: name.to_owned(), held_in });
        let mut by = Reached::default();
        reached.iter().for_each(|&(variable, accesses)| by.add(variable, accesses));
        let element = Element { type_id: TypeId(0), bytes: 56, start: 0, agreement: 1.0 };
        let element = Some((element, "struct tree"));
        let candidates = Candidates { holder: holder.as_ref(), reached: &by, element, objects, object_bytes };
        assert_eq!(candidates.best(), expected);
    }

    #[test]
    fn an_array_is_called_as_its_holder_calls_it() {
        let by_slice = [(Some("xs"), 90), (None, 10)];
        check(Some(("bodies", HeldIn::Variable)), &by_slice, ARRAY, Some("bodies"));
        check(Some(("mesh->bodies", HeldIn::Memory)), &by_slice, ARRAY, Some("mesh->bodies"));
    }

    #[test]
    fn without_a_holder_most_of_the_accesses_name_it() {
        check(None, &[(Some("xs"), 51), (Some("ys"), 49)], ARRAY, Some("xs"));
        check(None, &[(Some("xs"), 50), (Some("ys"), 50)], ARRAY, None);
        check(None, &[(Some("xs"), 40), (None, 60)], ARRAY, None);
        check(None, &[], ARRAY, None);
        check(Some(("made", HeldIn::Constructor)), &[(Some("xs"), 1)], ARRAY, Some("xs"));
        check(Some(("made", HeldIn::Constructor)), &[], ARRAY, Some("made"));
    }

    #[test]
    fn a_table_that_nobody_holds_is_called_by_its_entries() {
        let element = Element { type_id: TypeId(0), bytes: 40, start: 0, agreement: 1.0 };
        let best = |type_name: &str, reached: &Reached| {
            let element = Some((element, type_name));
            let candidates = Candidates { holder: None, reached, element, objects: 1, object_bytes: 5600 };
            candidates.best().map(str::to_owned)
        };
        let mut reached = Reached::default();
        assert_eq!(best("(u64, Entry)", &reached).as_deref(), Some("(u64, Entry)"));
        assert_eq!(best("Entry", &reached), None);
        reached.add(Some("pairs"), 1);
        assert_eq!(best("(u64, Entry)", &reached).as_deref(), Some("pairs"));
    }

    #[test]
    fn many_nodes_are_called_by_their_type() {
        check(Some(("t", HeldIn::Constructor)), &[(Some("t"), 9)], NODES, Some("struct tree"));
        check(Some(("fresh", HeldIn::Variable)), &[], NODES, Some("struct tree"));
        check(Some(("list", HeldIn::Memory)), &[], NODES, Some("list"));
        // There is one, or they are arrays.
        check(Some(("head", HeldIn::Variable)), &[], (1, 56), Some("head"));
        check(Some(("row", HeldIn::Variable)), &[], (1000, 112), Some("row"));
        check(Some(("row", HeldIn::Variable)), &[], (1000, 0), Some("row"));
    }
}
