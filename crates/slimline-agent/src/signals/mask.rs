//! Between the masks that the target means and those that the kernel holds.

use super::{REAL_TIME, bit, ours, shadow};

/// What the kernel gets for a mask of the target: ours is never blocked, the shadow in its place.
pub(crate) fn to_kernel(mask: u64) -> u64 {
    translate(mask, bit(ours()), bit(shadow()))
}

/// What the target gets for a mask of the kernel.
pub(crate) fn from_kernel(mask: u64) -> u64 {
    translate_back(mask, bit(ours()), bit(shadow()))
}

/// What the kernel gets for the mask that the process was started with: by a program with an agent, which has the shadow in the
/// place of ours, or without.
pub(crate) fn of_start(blocked: u64) -> u64 {
    to_kernel(from_kernel(blocked) | blocked & bit(ours()))
}

fn translate(mask: u64, ours: u64, shadow: u64) -> u64 {
    match mask & ours {
        // With every real-time signal blocked, the shadow does not stand for ours.
        0 if has_all_real_time(mask, ours, shadow) => mask & !shadow,
        0 => mask,
        _ => mask & !ours | shadow,
    }
}

/// The shadow stays, so that a mask of all signals stays one; and it is back in one of all signals but ours.
fn translate_back(mask: u64, ours: u64, shadow: u64) -> u64 {
    match mask & shadow {
        0 if has_all_real_time(mask, ours, shadow) => mask & !ours | shadow,
        0 => mask & !ours,
        _ => mask | ours,
    }
}

/// Whether a mask has all real-time signals that programs may use, beside these two: threads that block everything except
/// fault signals have such a mask.
fn has_all_real_time(mask: u64, ours: u64, shadow: u64) -> bool {
    let all = REAL_TIME.fold(0, |all, signal| all | bit(signal));
    shadow != 0 && (mask | ours | shadow) & all == all
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
        for mask in [0, 1 << 20, TRAP | LAST, u64::MAX, !TRAP & !LAST & !(1 << 40)] {
            assert_eq!(translate_back(translate(mask, TRAP, LAST), TRAP, LAST), mask, "{mask:#x}");
        }
        let without_both = !TRAP & !LAST;
        let read = translate_back(translate(without_both, TRAP, LAST), TRAP, LAST);
        assert_eq!(read, without_both | LAST, "as one of all but ours");
        let alone = translate_back(translate(TRAP, TRAP, LAST), TRAP, LAST);
        assert_eq!(alone & TRAP, TRAP, "blocked is blocked");
    }

    /// As of threads that leave signals to others, but faults to whom they are of.
    #[test]
    fn who_blocks_all_but_ours_has_ours() {
        let faults = [4, 5, 7, 8, 11].into_iter().fold(0, |all, signal| all | bit(signal));
        for mask in [!TRAP, !faults] {
            assert_eq!(translate(mask, TRAP, LAST) & LAST, 0, "it would stand for ours");
            assert_eq!(translate_back(translate(mask, TRAP, LAST), TRAP, LAST), mask, "{mask:#x}");
        }
        assert_eq!(translate(LAST, TRAP, LAST), LAST, "who waits for it alone has to have it blocked");
    }

    #[test]
    fn nothing_changes_while_nothing_is_claimed() {
        for mask in [0, TRAP, LAST, u64::MAX] {
            assert_eq!(translate(mask, 0, 0), mask);
            assert_eq!(translate_back(mask, 0, 0), mask);
        }
    }
}
