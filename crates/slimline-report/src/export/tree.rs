//! Rows as a tree of stacks: code from the outermost function on, data below it.

use std::collections::BTreeMap;

use super::CostTable;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    Code,
    Group,
    Field,
}

/// A function, a data structure or a field, with what is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) layer: Layer,
    /// Nobody knows which code or data it is.
    pub(super) is_unknown: bool,
    /// Its own and of all below it.
    pub(super) cost: u64,
    /// By name. A function and data of one name are two.
    pub(super) below: BTreeMap<(bool, String), Node>,
}

impl Node {
    fn new(layer: Layer, is_unknown: bool) -> Self {
        Self { layer, is_unknown, cost: 0, below: BTreeMap::new() }
    }

    /// Nodes below each other, itself included, at most.
    pub(super) fn depth(&self) -> usize {
        1 + self.below.values().map(Self::depth).max().unwrap_or(0)
    }
}

/// The node of all rows with a cost.
pub(super) fn of(table: &CostTable) -> Node {
    let mut root = Node::new(Layer::Code, false);
    for row in table.rows.iter().filter(|row| row.cost.cost > 0) {
        root.cost += row.cost.cost;
        let mut node = &mut root;
        let code = table.stacks[row.stack as usize].iter().map(|&frame| &table.frames[frame as usize]);
        let code = code.map(|frame| (Layer::Code, frame.is_unknown(), frame.function.clone()));
        let is_unknown = table.group_of(row.data).is_unattributed();
        let data = [Layer::Group, Layer::Field].into_iter().zip(table.data_labels(row.data));
        let data = data.map(|(layer, name)| (layer, is_unknown, name));
        for (layer, is_unknown, name) in code.chain(data) {
            let key = (layer != Layer::Code, name);
            node = node.below.entry(key).or_insert_with(|| Node::new(layer, is_unknown));
            node.cost += row.cost.cost;
        }
    }
    root
}
