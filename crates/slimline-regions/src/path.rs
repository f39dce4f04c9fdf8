//! Regions and the stacks of them: the nodes of the call graph.

use std::collections::HashMap;
use std::sync::Arc;

use crate::kind::Kind;

/// Where a region is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// At a code address: where the call into the runtime that begins it returns to.
    Code {
        /// The address in the process.
        address: u64,
        /// Which of those that begin there, counted from 1: the sections of one construct. 0 where there is but one.
        part: u32,
    },
    /// By the name that it was marked with.
    Name(Arc<str>),
}

/// A region: all executions of one construct.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub place: Place,
}

impl Region {
    /// The region of a kind at a code address.
    #[must_use]
    pub fn at(kind: Kind, address: u64) -> Self {
        Self { kind, place: Place::Code { address, part: 0 } }
    }
}

/// A stack of regions, outermost first: a node of the call graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

/// Outside of all regions.
pub const ROOT: PathId = PathId(0);

/// More paths than that are not told apart: each thread has a row of [`Times`](crate::Times) for each of them.
pub const MAX_PATHS: usize = 1 << 14;

/// A path: its last region and the path before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The path without its last region.
    pub parent: PathId,
    /// Its last region.
    pub region: Region,
}

/// All paths seen, each once.
#[derive(Debug, Default)]
pub struct Paths {
    /// Of path `n + 1`: the root has no region.
    nodes: Vec<Node>,
    index: HashMap<(PathId, Region), PathId>,
    lost: u64,
}

impl Paths {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The path that goes on from `parent` by `region`. Recursion is folded: where `region` is on the path already, that is
    /// the path up to there. (Tasks that create tasks would make as many paths as calls otherwise.) None where there are
    /// [`MAX_PATHS`] already; that is counted.
    pub fn child(&mut self, parent: PathId, region: &Region) -> Option<PathId> {
        let mut at = parent;
        while let Some(node) = self.node(at) {
            if node.region == *region {
                return Some(at);
            }
            at = node.parent;
        }
        if let Some(known) = self.index.get(&(parent, region.clone())) {
            return Some(*known);
        }
        if self.nodes.len() + 1 >= MAX_PATHS {
            self.lost += 1;
            return None;
        }
        self.nodes.push(Node { parent, region: region.clone() });
        let path = PathId(self.nodes.len() as u32);
        self.index.insert((parent, region.clone()), path);
        Some(path)
    }

    /// The last region of a path and the path before it; None for the root and for paths that there are not.
    #[must_use]
    pub fn node(&self, path: PathId) -> Option<&Node> {
        self.nodes.get((path.0 as usize).checked_sub(1)?)
    }

    /// All paths but the root, parents before their children.
    pub fn iter(&self) -> impl Iterator<Item = (PathId, &Node)> {
        (1..).map(PathId).zip(&self.nodes)
    }

    /// Forgets how often paths were too many.
    pub fn forget_lost(&mut self) {
        self.lost = 0;
    }

    /// How often a path was asked for that was one too many.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_kept_once_and_recursion_is_folded() {
        let mut paths = Paths::new();
        let (task, wait) = (Region::at(Kind::Task, 16), Region::at(Kind::Taskwait, 32));
        let outer = paths.child(ROOT, &task).unwrap();
        let waiting = paths.child(outer, &wait).unwrap();
        assert_eq!(paths.child(waiting, &task), Some(outer));
        assert_eq!(paths.child(outer, &wait), Some(waiting));
        assert_ne!(paths.child(ROOT, &wait), Some(waiting));
        assert_eq!(paths.iter().count(), 3);
    }

    #[test]
    fn paths_that_are_too_many_are_counted() {
        let mut paths = Paths::new();
        for address in 1..MAX_PATHS as u64 {
            assert!(paths.child(ROOT, &Region::at(Kind::Loop, address)).is_some());
        }
        assert_eq!(paths.child(ROOT, &Region::at(Kind::Loop, 0)), None);
        assert!(paths.child(ROOT, &Region::at(Kind::Loop, 1)).is_some());
        assert_eq!(paths.lost(), 1);
    }
}
