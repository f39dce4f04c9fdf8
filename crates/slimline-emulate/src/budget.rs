//! What sampling may cost.
//!
//! A trigger's own price (interrupt, signal, return: 15 µs in a virtual machine) can't be helped, and every sample has
//! its blamed access and its stack. Bursts are what can be left out: their price differs tenfold between programs, and
//! what they tell needs far fewer of them than there are samples. So a part of the sampled CPU time is the budget, and a
//! sample has a burst while that is not overdrawn.
//!
//! Whether a sample has one depends on what *earlier* ones cost, never on where this one is. So code that alternates
//! within a few samples gets bursts by its time. A long phase whose bursts are dear has fewer of them than a cheap one,
//! though: reading makes up for it, as a burst stands there for all of its thread's samples since the one before it.
//!
//! Only bursts are limited. Samples themselves are all taken, and so is one burst in sixteen whatever it costs: where
//! that alone is dear, samples cost more than the budget.

/// Samples without a burst in a row, at most: who spends the whole budget on stacks must be seen as well.
const MOST_LEFT_OUT: u32 = 15;

/// An account, of which `ADVANCE_NS` may be spent in advance, so that short threads have bursts as well; it is also the most
/// that can be saved or owed. Zeros are a fresh one.
#[derive(Debug, Default)]
pub struct Budget<const ADVANCE_NS: i64> {
    /// Earned less spent, without the advance.
    balance_ns: i64,
    left_out: u32,
    spent_ns: u64,
}

impl<const ADVANCE_NS: i64> Budget<ADVANCE_NS> {
    /// Credits `budget_ppm` millionths of the CPU time that a sample stands for; says whether it can have a burst.
    #[must_use]
    pub fn earn(&mut self, weight_ns: u64, budget_ppm: u32) -> bool {
        let earned = u128::from(weight_ns) * u128::from(budget_ppm) / 1_000_000;
        self.book(earned.min(ADVANCE_NS as u128) as i64);
        let affordable = self.balance_ns > -ADVANCE_NS || self.left_out >= MOST_LEFT_OUT;
        self.left_out = if affordable { 0 } else { self.left_out + 1 };
        affordable
    }

    /// What all samples cost until now.
    #[must_use]
    pub fn spent_ns(&self) -> u64 {
        self.spent_ns
    }

    /// Debits what the sample cost.
    pub fn spend(&mut self, cost_ns: u64) {
        self.spent_ns = self.spent_ns.saturating_add(cost_ns);
        self.book(-(cost_ns.min(ADVANCE_NS as u64) as i64));
    }

    fn book(&mut self, amount_ns: i64) {
        self.balance_ns = (self.balance_ns + amount_ns).clamp(-2 * ADVANCE_NS, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Bursts among samples a millisecond apart that cost `base_ns`, and `burst_ns` more with a burst; and the cost.
    fn run(samples: u64, base_ns: u64, burst_ns: u64, budget_ppm: u32) -> (u64, u64) {
        let mut budget = Budget::<400_000>::default();
        let (mut bursts, mut spent) = (0, 0);
        for _ in 0..samples {
            let burst = budget.earn(MS, budget_ppm);
            let cost = base_ns + if burst { burst_ns } else { 0 };
            bursts += u64::from(burst);
            spent += cost;
            budget.spend(cost);
        }
        (bursts, spent)
    }

    #[test]
    fn cheap_bursts_are_all_taken() {
        assert_eq!(run(1000, 2_000, 8_000, 10_000).0, 1000);
    }

    #[test]
    fn dear_bursts_keep_to_the_budget() {
        // 10 µs a sample are earned, 4 µs go to each and 24 µs more to a burst: every fourth has one.
        let (bursts, spent) = run(100_000, 4_000, 24_000, 10_000);
        let advance = 400_000 / 18_000;
        assert!((25_000..=25_000 + advance + 5).contains(&bursts), "{bursts}");
        assert!(spent <= 100_000 * 10_000 + 400_000 + 28_000, "{spent}");
    }

    #[test]
    fn the_first_samples_have_bursts() {
        // 30 µs a sample of which 10 µs are earned: the advance of 400 µs pays for 20.
        assert_eq!(run(20, 4_000, 26_000, 10_000).0, 20);
        assert_eq!(run(22, 4_000, 26_000, 10_000).0, 21);
    }

    #[test]
    fn some_bursts_are_taken_even_where_stacks_spend_it_all() {
        let (bursts, _) = run(16_000, 50_000, 20_000, 10_000);
        assert!((1000..1020).contains(&bursts), "{bursts}");
    }

    #[test]
    fn one_sample_that_was_kept_from_the_processor_is_forgotten_soon() {
        let mut budget = Budget::<400_000>::default();
        budget.spend(u64::MAX);
        budget.spend(u64::MAX);
        let waited = (0..100).take_while(|_| !budget.earn(MS, 40_000)).count();
        assert!(waited <= 10, "{waited}");
        assert!(budget.earn(u64::MAX, 1_000_000));
    }
}
