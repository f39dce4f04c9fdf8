//! How much of a group was alive at one time.

/// Most blocks and bytes of a group that were alive at one time: of each of its call paths, so at most that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alive {
    pub(super) counted: u64,
    pub(super) blocks: u64,
    pub(super) bytes: u64,
}

/// With fewer blocks counted the objects that were touched tell more: 16 are off by a quarter.
pub(super) const LEAST_COUNTED: u64 = 16;

/// Most blocks that were alive at one time, and most bytes; of each (when it began, when it ended, bytes).
pub(super) fn most_alive(lives: &[(u64, u64, u64)]) -> (u64, u64) {
    let began = lives.iter().map(|&(began_ns, _, bytes)| (began_ns, true, bytes));
    // Even the shortest life is one.
    let ended =
        lives.iter().map(|&(began_ns, ended_ns, bytes)| (ended_ns.max(began_ns.saturating_add(1)), false, bytes));
    let mut events: Vec<(u64, bool, u64)> = began.chain(ended).collect();
    // At one moment, ends come first.
    events.sort_unstable();
    let (mut blocks, mut bytes, mut most) = (0, 0_u64, (0, 0));
    for (_, is_begin, size) in events {
        if is_begin {
            (blocks, bytes) = (blocks + 1, bytes.saturating_add(size));
        } else {
            (blocks, bytes) = (blocks - 1, bytes.saturating_sub(size));
        }
        most = (blocks.max(most.0), bytes.max(most.1));
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_alive_is_counted_at_one_time() {
        assert_eq!(most_alive(&[]), (0, 0));
        // A vector that grows: the old block is freed when the new one is there. A thousand times over.
        let grows = |turn: u64| [(turn * 100, turn * 100 + 20, 1 << 20), (turn * 100 + 10, turn * 100 + 90, 2 << 20)];
        assert_eq!(most_alive(&(0..1000).flat_map(grows).collect::<Vec<_>>()), (2, 3 << 20));
        // Freed and allocated at the same moment; most blocks at one time, most bytes at another; one never freed.
        assert_eq!(most_alive(&[(0, 10, 5), (10, 20, 5), (30, 40, 1), (30, u64::MAX, 1)]), (2, 5));
        assert_eq!(most_alive(&[(7, 7, 3)]), (1, 3));
    }
}
