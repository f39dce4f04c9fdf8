//! Between the masks that the target means and those that the kernel holds.

use super::{bit, ours, shadow};

/// What the kernel gets for a mask of the target: ours is never blocked, the shadow in its place.
pub(crate) fn to_kernel(mask: u64) -> u64 {
    translate(mask, bit(ours()), bit(shadow()))
}

/// What the target gets for a mask of the kernel.
pub(crate) fn from_kernel(mask: u64) -> u64 {
    translate_back(mask, bit(ours()), bit(shadow()))
}

fn translate(mask: u64, ours: u64, shadow: u64) -> u64 {
    if mask & ours == 0 { mask } else { mask & !ours | shadow }
}

/// The shadow stays, so that a mask of all signals stays one.
fn translate_back(mask: u64, ours: u64, shadow: u64) -> u64 {
    if mask & shadow == 0 { mask & !ours } else { mask | ours }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAP: u64 = bit(5);
    const LAST: u64 = bit(64);

    #[test]
    fn ours_is_never_blocked() {
        for mask in [0, TRAP, LAST, TRAP | LAST, u64::MAX, 1 << 20] {
            assert_eq!(translate(mask, TRAP, LAST) & TRAP, 0, "{mask:#x}");
        }
    }

    #[test]
    fn the_target_reads_what_it_wrote() {
        for mask in [0, 1 << 20, TRAP | LAST, u64::MAX, !TRAP & !LAST] {
            assert_eq!(translate_back(translate(mask, TRAP, LAST), TRAP, LAST), mask, "{mask:#x}");
        }
        let alone = translate_back(translate(TRAP, TRAP, LAST), TRAP, LAST);
        assert_eq!(alone & TRAP, TRAP, "blocked is blocked");
    }

    #[test]
    fn nothing_changes_while_nothing_is_claimed() {
        for mask in [0, TRAP, LAST, u64::MAX] {
            assert_eq!(translate(mask, 0, 0), mask);
            assert_eq!(translate_back(mask, 0, 0), mask);
        }
    }
}
