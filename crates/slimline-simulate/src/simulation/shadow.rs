//! What a fully associative cache of the same size would hold: a miss that it would not have is one of conflict.

use rustc_hash::FxHashMap;

/// No entry.
const NONE: u32 = u32::MAX;

/// Lines in order of use, the least recent dropped.
#[derive(Debug)]
pub(super) struct Shadow {
    places: FxHashMap<u64, u32>,
    nodes: Vec<Node>,
    /// Most recent and least recent.
    first: u32,
    last: u32,
    free: Vec<u32>,
    lines: usize,
}

#[derive(Debug)]
struct Node {
    line: u64,
    newer: u32,
    older: u32,
}

impl Shadow {
    pub(super) fn new(lines: u64) -> Self {
        let lines = lines as usize;
        Self { places: FxHashMap::default(), nodes: Vec::new(), first: NONE, last: NONE, free: Vec::new(), lines }
    }

    /// Whether this line was used last.
    #[inline]
    pub(super) fn is_first(&self, line: u64) -> bool {
        self.nodes.get(self.first as usize).is_some_and(|node| node.line == line)
    }

    /// The line is used. Whether it was there.
    pub(super) fn access(&mut self, line: u64) -> bool {
        if self.is_first(line) {
            return true;
        }
        if let Some(&place) = self.places.get(&line) {
            self.unlink(place);
            self.link_first(place);
            return true;
        }
        let place = if let Some(place) = self.free.pop() {
            place
        } else if self.nodes.len() < self.lines {
            self.nodes.push(Node { line, newer: NONE, older: NONE });
            (self.nodes.len() - 1) as u32
        } else {
            let place = self.last;
            self.unlink(place);
            self.places.remove(&self.nodes[place as usize].line);
            place
        };
        self.nodes[place as usize].line = line;
        self.places.insert(line, place);
        self.link_first(place);
        false
    }

    /// The line is taken away.
    pub(super) fn remove(&mut self, line: u64) {
        if let Some(place) = self.places.remove(&line) {
            self.unlink(place);
            self.free.push(place);
        }
    }

    fn unlink(&mut self, place: u32) {
        let Node { newer, older, .. } = self.nodes[place as usize];
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.first = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.last = newer,
        }
    }

    fn link_first(&mut self, place: u32) {
        let older = std::mem::replace(&mut self.first, place);
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = place,
            None => self.last = place,
        }
        let node = &mut self.nodes[place as usize];
        (node.newer, node.older) = (NONE, older);
    }
}
