//! Sorting of keys whose upper half is a rank.

/// Below it comparing is as fast.
const LEAST: usize = 256;
/// A pass's counters fit the first cache.
const MOST_DIGIT_BITS: u32 = 11;

/// Sorts by the upper 32 bits; those of all keys are within `least..=greatest`. Ranks of few bits take one pass.
pub(crate) fn sort(keys: &mut Vec<u64>, other: &mut Vec<u64>, least: u32, greatest: u32) {
    let bits = u32::BITS - (greatest - least).leading_zeros();
    if keys.len() < LEAST {
        keys.sort_unstable_by_key(|&key| (key >> 32) as u32);
        return;
    }
    // Counters beyond the number of keys would cost more than another pass.
    let most = MOST_DIGIT_BITS.min(keys.len().ilog2());
    let passes = bits.div_ceil(most);
    let digit_bits = bits.div_ceil(passes.max(1));
    for pass in 0..passes {
        pass_by(keys, other, least, pass * digit_bits, digit_bits);
        std::mem::swap(keys, other);
    }
}

/// Moves keys to `to`, in the order of some bits of their ranks and otherwise as they were.
fn pass_by(keys: &[u64], to: &mut Vec<u64>, least: u32, shift: u32, bits: u32) {
    let mask = (1_u32 << bits) - 1;
    let digit = |key: u64| ((((key >> 32) as u32 - least) >> shift) & mask) as usize;
    let mut ends = [0_u32; 1 << MOST_DIGIT_BITS];
    for &key in keys {
        ends[digit(key)] += 1;
    }
    let mut end = 0;
    for count in &mut ends[..=mask as usize] {
        // Where the digit's keys begin: it moves on to their end.
        end += std::mem::replace(count, end);
    }
    to.resize(keys.len(), 0);
    for &key in keys {
        let at = &mut ends[digit(key)];
        to[*at as usize] = key;
        *at += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_comparing_sorts(ranks in prop::collection::vec((0..1000_u32, 0..33_u32), 0..1500), shift in 0..22_u32) {
            let rank = |(rank, more): (u32, u32)| (rank << shift) + more;
            let mut keys: Vec<u64> = ranks.iter().zip(0..).map(|(&of, at)| u64::from(rank(of)) << 32 | at).collect();
            let all = || ranks.iter().map(|&of| rank(of));
            let (least, greatest) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
            let mut by_comparing = keys.clone();
            by_comparing.sort_unstable();
            sort(&mut keys, &mut Vec::new(), least, greatest);
            prop_assert!(keys.is_sorted_by_key(|key| key >> 32));
            keys.sort_unstable();
            prop_assert_eq!(keys, by_comparing);
        }
    }
}
