//! How much of a group was alive at one time.

use crate::tables::Amount;

/// Most blocks and bytes of a group that were alive at one time: of each of its call paths, so at most that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alive {
    pub(super) counted: u64,
    pub(super) blocks: u64,
    pub(super) bytes: u64,
}

impl Alive {
    /// Most of a group that was alive at one time, of whose large blocks that is `most_large`; `None` where too little is known. Of small
    /// ones a part is counted; too few of them are left out where none was touched (`has_small`).
    pub(super) fn with(&self, has_small: bool, most_large: Amount) -> Option<Amount> {
        if self.counted >= LEAST_COUNTED {
            let small = Amount { objects: self.blocks, bytes: self.bytes };
            return Some([small, most_large].into_iter().sum());
        }
        (most_large.objects > 0 && !has_small).then_some(most_large)
    }
}

/// With fewer blocks counted the objects that were touched tell more: 16 are off by a quarter.
pub(super) const LEAST_COUNTED: u64 = 16;

/// Most blocks that were alive at one time, and most bytes; of each (when it began, when it ended, bytes).
pub(super) fn most_alive(lives: &[(u64, u64, u64)]) -> Amount {
    let began = lives.iter().map(|&(began_ns, _, bytes)| (began_ns, true, bytes));
    // Even the shortest life is one.
    let ended =
        lives.iter().map(|&(began_ns, ended_ns, bytes)| (ended_ns.max(began_ns.saturating_add(1)), false, bytes));
    let mut events: Vec<(u64, bool, u64)> = began.chain(ended).collect();
    // At one moment, ends come first.
    events.sort_unstable();
    let (mut now, mut most) = (Amount::default(), Amount::default());
    for (_, is_begin, size) in events {
        if is_begin {
            now = Amount { objects: now.objects + 1, bytes: now.bytes.saturating_add(size) };
        } else {
            now = Amount { objects: now.objects - 1, bytes: now.bytes.saturating_sub(size) };
        }
        most = Amount { objects: now.objects.max(most.objects), bytes: now.bytes.max(most.bytes) };
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_alive_is_counted_at_one_time() {
        let most_alive = |lives: &[_]| {
            let Amount { objects, bytes } = super::most_alive(lives);
            (objects, bytes)
        };
        assert_eq!(most_alive(&[]), (0, 0));
        // A vector that grows: the old block is freed when the new one is there. A thousand times over.
        let grows = |turn: u64| [(turn * 100, turn * 100 + 20, 1 << 20), (turn * 100 + 10, turn * 100 + 90, 2 << 20)];
        assert_eq!(most_alive(&(0..1000).flat_map(grows).collect::<Vec<_>>()), (2, 3 << 20));
        // Freed and allocated at the same moment; most blocks at one time, most bytes at another; one never freed.
        assert_eq!(most_alive(&[(0, 10, 5), (10, 20, 5), (30, 40, 1), (30, u64::MAX, 1)]), (2, 5));
        assert_eq!(most_alive(&[(7, 7, 3)]), (1, 3));
    }

    #[test]
    fn a_part_that_is_counted_tells_where_it_is_enough() {
        let large = Amount { objects: 2, bytes: 1600 };
        let of = |counted, bytes| Alive { counted, blocks: 64, bytes };
        assert_eq!(of(16, 900).with(true, large), Some(Amount { objects: 66, bytes: 2500 }));
        assert_eq!(of(15, 900).with(false, large), Some(large));
        assert_eq!(of(15, 900).with(true, large), None);
        assert_eq!(Alive::default().with(false, large), Some(large));
        assert_eq!(Alive::default().with(false, Amount::default()), None);
    }
}
