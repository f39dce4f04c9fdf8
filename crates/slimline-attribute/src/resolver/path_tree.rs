//! Groups by call path. Paths that begin alike share nodes, so that a path that was cut finds those that go on as it
//! does, and the other way round, in as many steps as it has frames, however many paths there are.

use rustc_hash::FxHashMap;
use slimline_trace::access::GroupId;

/// Groups by the numbers of their frames, innermost first.
#[derive(Debug)]
pub(super) struct PathTree {
    /// By node and frame.
    next: FxHashMap<(u32, u32), u32>,
    /// Node 0 is the path without frames.
    nodes: Vec<Node>,
}

/// The paths that end at a node, and those that go on.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    here: Option<GroupId>,
    /// Whether the path that made the group was cut here.
    is_cut: bool,
    /// The first group of this node and of all that follow it.
    first: Option<GroupId>,
}

impl Default for PathTree {
    fn default() -> Self {
        Self { next: FxHashMap::default(), nodes: vec![Node::default()] }
    }
}

impl PathTree {
    /// The group of exactly this path; or else the first whose path goes on where this one was cut (`is_cut`), or was
    /// itself cut where this one goes on.
    pub(super) fn find(&self, path: &[u32], is_cut: bool) -> Option<GroupId> {
        let mut number = 0;
        let mut joined = None;
        for depth in 0..=path.len() {
            let node = &self.nodes[number as usize];
            let cut_here = node.here.filter(|_| node.is_cut);
            joined = joined.into_iter().chain(cut_here).min();
            match path.get(depth) {
                Some(&frame) => match self.next.get(&(number, frame)) {
                    Some(&next) => number = next,
                    None => return joined,
                },
                None if node.here.is_some() => return node.here,
                None => joined = joined.into_iter().chain(node.first.filter(|_| is_cut)).min(),
            }
        }
        joined
    }

    /// Notes that `path` is of `group`; with `is_cut`, that this path was cut and made the group.
    pub(super) fn insert(&mut self, path: &[u32], group: GroupId, is_cut: bool) {
        let mut number = 0;
        self.pass(number, group);
        for &frame in path {
            let fresh = self.nodes.len() as u32;
            number = *self.next.entry((number, frame)).or_insert(fresh);
            if number == fresh {
                self.nodes.push(Node::default());
            }
            self.pass(number, group);
        }
        let end = &mut self.nodes[number as usize];
        if end.here.is_none() {
            (end.here, end.is_cut) = (Some(group), is_cut);
        }
    }

    fn pass(&mut self, number: u32, group: GroupId) {
        let first = &mut self.nodes[number as usize].first;
        *first = Some(first.map_or(group, |first| first.min(group)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same by looking at all paths.
    #[derive(Default)]
    struct Twin(Vec<(Vec<u32>, GroupId, bool)>);

    impl Twin {
        fn find(&self, path: &[u32], is_cut: bool) -> Option<GroupId> {
            let exact = self.0.iter().find(|(known, ..)| known == path).map(|&(_, group, _)| group);
            let goes_on = |known: &[u32], known_cut: bool| {
                is_cut && known.starts_with(path) || known_cut && path.starts_with(known)
            };
            exact.or_else(|| {
                self.0.iter().filter(|(known, _, cut)| goes_on(known, *cut)).map(|&(_, group, _)| group).min()
            })
        }
    }

    proptest! {
        #[test]
        fn finds_what_a_look_at_all_paths_finds(
            paths in prop::collection::vec((prop::collection::vec(0_u32..3, 0..5), any::<bool>()), 0..60),
        ) {
            let (mut tree, mut twin) = (PathTree::default(), Twin::default());
            let mut groups = 0;
            for (path, is_cut) in paths {
                let found = tree.find(&path, is_cut);
                prop_assert_eq!(found, twin.find(&path, is_cut), "{:?} {}", path, is_cut);
                // As the table of groups does: what finds none makes one.
                let group = found.unwrap_or_else(|| {
                    groups += 1;
                    GroupId(groups)
                });
                tree.insert(&path, group, is_cut && found.is_none());
                if !twin.0.iter().any(|(known, ..)| *known == path) {
                    twin.0.push((path, group, is_cut && found.is_none()));
                }
            }
        }
    }
}
