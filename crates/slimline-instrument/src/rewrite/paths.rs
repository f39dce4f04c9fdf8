//! Blocks that nothing but one other leads to: records go on from that one into them.

use std::collections::{HashMap, HashSet};

use crate::llvm::Block;

/// The blocks of a function by what leads to them.
pub(super) struct Paths<'m> {
    /// All of them. One that only another one leads to stands somewhere behind that.
    pub(super) order: Vec<Block<'m>>,
    only: HashMap<Block<'m>, Block<'m>>,
    led: HashSet<Block<'m>>,
}

impl<'m> Paths<'m> {
    /// Those of a function with these blocks, its entry first.
    #[expect(clippy::mutable_key_type, reason = "handles are compared by what they point to, which stays")]
    pub(super) fn of(blocks: &[Block<'m>]) -> Self {
        // None where several lead there.
        let mut before: HashMap<Block<'m>, Option<Block<'m>>> = HashMap::new();
        for block in blocks {
            for next in block.successors() {
                let known = before.entry(next).or_insert(Some(*block));
                *known = known.filter(|known| known == block);
            }
        }
        let only: HashMap<_, _> = before.into_iter().filter_map(|(block, before)| Some((block, before?))).collect();
        let mut next: HashMap<Block<'m>, Vec<Block<'m>>> = HashMap::new();
        for block in blocks.iter().rev() {
            if let Some(before) = only.get(block) {
                next.entry(*before).or_default().push(*block);
            }
        }
        let mut order = Vec::with_capacity(blocks.len());
        let mut seen = HashSet::new();
        // Those that several lead to; then what is left, which nobody ever gets to: circles.
        let heads = blocks.iter().filter(|block| !only.contains_key(block));
        for head in heads.chain(blocks) {
            let mut waiting = vec![*head];
            while let Some(block) = waiting.pop() {
                if seen.insert(block) {
                    order.push(block);
                    waiting.extend(next.get(&block).into_iter().flatten());
                }
            }
        }
        let led = only.values().copied().collect();
        Self { order, only, led }
    }

    /// The block that alone leads to this one.
    pub(super) fn before(&self, block: Block<'m>) -> Option<Block<'m>> {
        self.only.get(&block).copied()
    }

    /// Whether some block has nothing before it but this one.
    pub(super) fn leads(&self, block: Block<'m>) -> bool {
        self.led.contains(&block)
    }
}
