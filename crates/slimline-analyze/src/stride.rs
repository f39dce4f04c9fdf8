//! Strides from addresses: plain and robust GCD, and how sure they are.
//!
//! Addresses of one instruction that walks an array are congruent modulo the stride, so any sample of them has the
//! stride, or a multiple of it, as the GCD of its differences (StructSlim, equations 2 to 4). A single wrong address
//! ruins that. The robust GCD asks instead which modulus *describes* the addresses best, some of them being noise.

/// Greatest common divisor; of 0 and a number, that number.
pub fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// GCD of the differences of `addresses`; 0 where there are fewer than two different ones.
pub fn plain_gcd(addresses: &[u64]) -> u64 {
    let Some((&first, rest)) = addresses.split_first() else { return 0 };
    rest.iter().fold(0, |stride, address| gcd(stride, address.abs_diff(first)))
}

/// What a GCD found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stride {
    /// The stride.
    pub bytes: u64,
    /// Addresses that agree with it.
    pub agreeing: usize,
    /// Addresses looked at, all different.
    pub addresses: usize,
    /// Chance that it is the true stride and no multiple of it, 0 to 1.
    pub confidence: f64,
}

/// Up to this many different addresses the plain GCD succeeds as often as the robust one, unless one is wrong.
pub const FEW_ADDRESSES: usize = 10;

/// Alignment that wrong addresses are thought to have: they come from registers that hold some other address.
const WRONG_ALIGNMENT: f64 = 4.0;
/// Part of the addresses thought to be wrong before looking.
const WRONG_PART: f64 = 0.1;
/// Chance below which agreement of most addresses on some multiple of the plain GCD is no accident. It bounds how often
/// the answer is not the plain one though no address is wrong.
const ACCIDENT: f64 = 2e-4;
/// Random tuples of 3, 4 and 5 addresses whose GCDs are candidates. With a fifth wrong, 41 % of the 4-tuples are clean;
/// the chance to meet none of 40 is below 10⁻⁸.
const TUPLES: usize = 40;

/// Stride of `addresses` (sorted, all different) of which some may be wrong; `None` where there are fewer than two.
///
/// A candidate s is scored by the logarithm of the likelihood of a mixture: (1 − ε) of the addresses lie evenly on
/// one residue class of s, ε of them evenly on all aligned addresses; less ln s for the choice of the class:
///
/// ```text
///   score(s) = agreeing · ln((1 − ε) s) + others · ln(ε · alignment) − ln s
/// ```
///
/// The plain GCD agrees with all addresses, so it wins unless a few of them stand in the way of a much larger stride,
/// and the agreement of the others can't be an accident.
/// Then a second look at those few: clock samples fall on the first access of each cache line, so a minority may be
/// regular too, on a divisor of the majority's stride. The same input always gives the same answer.
pub fn robust_gcd(addresses: &[u64]) -> Option<Stride> {
    let plain = plain_gcd(addresses);
    if plain == 0 {
        return None;
    }
    let mut best = Class { stride: plain, residue: addresses[0] % plain, agreeing: addresses.len() };
    let mut best_score = best.score(addresses.len());
    for stride in candidates(addresses) {
        let class = Class::of(stride, addresses);
        if class.agreeing * 2 <= addresses.len() {
            continue;
        }
        // What those that agree have in common may be more than the tuple showed.
        let class = class.tightened(addresses);
        let score = class.score(addresses.len());
        if score > best_score && class.accident(plain, addresses.len()) < ACCIDENT {
            (best, best_score) = (class, score);
        }
    }
    let best = best.stepped_down(addresses);
    Some(best.stride_of(addresses))
}

/// The plain GCD of `addresses` (sorted, all different) with its confidence.
pub fn plain_stride(addresses: &[u64]) -> Option<Stride> {
    let stride = plain_gcd(addresses);
    (stride > 0)
        .then(|| Class { stride, residue: addresses[0] % stride, agreeing: addresses.len() }.stride_of(addresses))
}

/// Addresses that are congruent.
#[derive(Clone, Copy)]
struct Class {
    stride: u64,
    residue: u64,
    agreeing: usize,
}

impl Class {
    /// The fullest residue class of `stride`; the smallest residue among equals.
    fn of(stride: u64, addresses: &[u64]) -> Self {
        let mut residues: Vec<u64> = addresses.iter().map(|address| address % stride).collect();
        residues.sort_unstable();
        let fullest = residues.chunk_by(|a, b| a == b).max_by_key(|class| (class.len(), std::cmp::Reverse(class[0])));
        let (residue, agreeing) = fullest.map_or((0, 0), |class| (class[0], class.len()));
        Self { stride, residue, agreeing }
    }

    fn holds(&self, address: u64) -> bool {
        address % self.stride == self.residue
    }

    fn tightened(self, addresses: &[u64]) -> Self {
        let agreeing: Vec<u64> = addresses.iter().copied().filter(|&address| self.holds(address)).collect();
        match plain_gcd(&agreeing) {
            0 => self,
            stride => Self { stride, residue: agreeing[0] % stride, agreeing: agreeing.len() },
        }
    }

    fn score(&self, addresses: usize) -> f64 {
        let (stride, others) = (self.stride as f64, (addresses - self.agreeing) as f64);
        self.agreeing as f64 * ((1.0 - WRONG_PART) * stride).ln() + others * (WRONG_PART * WRONG_ALIGNMENT).ln()
            - stride.ln()
    }

    /// Chance that so many of the addresses agree on this or a greater multiple of `plain`, if they were spread evenly
    /// over its classes: Σ over q ≥ classes of q · tail(1/q), where tail falls as q^-agreeing.
    fn accident(&self, plain: u64, addresses: usize) -> f64 {
        if self.agreeing < 3 {
            return 1.0;
        }
        let classes = self.stride as f64 / plain as f64;
        classes * tail(addresses, self.agreeing, 1.0 / classes) * (1.0 + classes / (self.agreeing - 2) as f64)
    }

    /// The largest divisor of the stride that explains those that don't agree, where chance does not.
    fn stepped_down(self, addresses: &[u64]) -> Self {
        /// Chance below which the minority is regular.
        const CHANCE: f64 = 0.002;
        /// Part of the minority that must be.
        const PART: f64 = 0.3;
        let others: Vec<u64> = addresses.iter().copied().filter(|&address| !self.holds(address)).collect();
        if others.len() < 2 {
            return self;
        }
        for factor in 2..=self.stride.min(64) {
            if !self.stride.is_multiple_of(factor) {
                continue;
            }
            let smaller = Self { stride: self.stride / factor, residue: self.residue % (self.stride / factor), ..self };
            let regular = others.iter().filter(|&&address| smaller.holds(address)).count();
            let by_chance = (WRONG_ALIGNMENT / smaller.stride as f64).min(1.0);
            if regular as f64 >= PART * others.len() as f64 && tail(others.len(), regular, by_chance) < CHANCE {
                return Self { agreeing: self.agreeing + regular, ..smaller }.stepped_down(addresses);
            }
        }
        self
    }

    fn stride_of(self, addresses: &[u64]) -> Stride {
        let mut agreeing = addresses.iter().filter(|&&address| self.holds(address));
        let first = agreeing.next().copied().unwrap_or_default();
        let last = agreeing.next_back().copied().unwrap_or(first);
        let places = ((last - first) / self.stride).saturating_add(1);
        // If the true stride were the next smaller one there would be twice as many places. Two always agree.
        let doubt =
            if self.agreeing < 3 { 1.0 } else { chance_of_multiple(places.saturating_mul(2), self.agreeing as u64) };
        Stride { bytes: self.stride, agreeing: self.agreeing, addresses: addresses.len(), confidence: 1.0 - doubt }
    }
}

/// GCDs of the differences in pseudo-random tuples, always the same ones; largest first, all different.
fn candidates(addresses: &[u64]) -> Vec<u64> {
    // xorshift64 (Marsaglia 2003) from a fixed seed.
    let mut state = 88_172_645_463_325_252u64;
    let mut pick = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        addresses[(state >> 11) as usize % addresses.len()]
    };
    let mut found = Vec::with_capacity(3 * TUPLES);
    for size in [3, 4, 5] {
        for _ in 0..TUPLES {
            let first = pick();
            let stride = (1..size).fold(0, |stride, _| gcd(stride, pick().abs_diff(first)));
            if stride > 1 {
                found.push(stride);
            }
        }
    }
    found.sort_unstable_by_key(|&stride| std::cmp::Reverse(stride));
    found.dedup();
    found
}

/// Chance of at least `k` successes in `n` trials of probability `p`.
fn tail(n: usize, k: usize, p: f64) -> f64 {
    if p >= 1.0 || k == 0 {
        return 1.0;
    }
    // Terms of the binomial distribution, each from the one before. Logarithms: the first may be below 10^-308.
    let mut term = (0..k).fold(0.0, |sum, i| sum + ((n - i) as f64 / (k - i) as f64 * p).ln());
    term += (n - k) as f64 * (1.0 - p).ln();
    let mut sum = 0.0;
    for i in k..=n {
        sum += term.exp();
        term += ((n - i) as f64 / (i + 1) as f64 * p / (1.0 - p)).ln();
    }
    sum.min(1.0)
}

/// Chance that `seen` different ones of `places` evenly spaced addresses, drawn at random, all lie in one residue class
/// of some prime p, so that their GCD is p times too large.
///
/// The sum over the primes of (classes × ways to draw from one) / ways to draw at all; about Σ p^(1 − seen) where there
/// are many more places than seen ones. (Equation 4 of StructSlim counts one class per prime; there are p.)
pub fn chance_of_multiple(places: u64, seen: u64) -> f64 {
    /// Terms below this don't change the two digits anyone reads.
    const NEGLIGIBLE: f64 = 1e-9;
    if seen < 2 {
        return 1.0;
    }
    let mut chance = 0.0;
    let mut primes: Vec<u64> = Vec::new();
    for p in 2..=places / seen.max(2) + 1 {
        if primes.iter().take_while(|&&q| q * q <= p).any(|&q| p.is_multiple_of(q)) {
            continue;
        }
        primes.push(p);
        // `places` mod p of the classes have one member more than the others.
        let (members, fuller) = (places / p, places % p);
        let term = fuller as f64 * all_in_one(members + 1, places, seen)
            + (p - fuller) as f64 * all_in_one(members, places, seen);
        chance += term;
        if chance >= 1.0 {
            return 1.0;
        }
        if term < NEGLIGIBLE * p as f64 {
            break;
        }
    }
    chance
}

/// Chance that `seen` draws without replacement from `places` all hit the same given `members`.
fn all_in_one(members: u64, places: u64, seen: u64) -> f64 {
    if members < seen {
        return 0.0;
    }
    let mut chance = 1.0;
    for i in 0..seen {
        chance *= (members - i) as f64 / (places - i) as f64;
        if chance < 1e-18 {
            return 0.0;
        }
    }
    chance
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Random(u64);

    impl Random {
        /// xorshift needs many bits set to begin well.
        fn new(seed: u64) -> Self {
            Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        }

        fn below(&mut self, limit: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) % limit
        }
    }

    /// `count` different addresses of an array of 40,000 elements; each wrong with a chance of `wrong` percent.
    fn sample(random: &mut Random, stride: u64, count: usize, wrong: u64) -> Vec<u64> {
        const ELEMENTS: u64 = 40_000;
        let mut found = Vec::new();
        while found.len() < count {
            let address = if random.below(100) < wrong {
                random.below(ELEMENTS * stride / 4) * 4
            } else {
                random.below(ELEMENTS) * stride + 8
            };
            if !found.contains(&address) {
                found.push(address);
            }
        }
        found.sort_unstable();
        found
    }

    /// Successes in 400 trials: plain, robust.
    fn successes(stride: u64, count: usize, wrong: u64) -> (u32, u32) {
        let mut random = Random::new(count as u64 * 1000 + wrong);
        let mut right = (0, 0);
        for _ in 0..400 {
            let addresses = sample(&mut random, stride, count, wrong);
            right.0 += u32::from(plain_gcd(&addresses) == stride);
            right.1 += u32::from(robust_gcd(&addresses).unwrap().bytes == stride);
        }
        right
    }

    /// The lab's table (stride 192, 400 trials). Bounds in percent: what the lab's prototype reached, less the
    /// spread of 400 trials.
    #[test]
    fn finds_the_stride_among_wrong_addresses() {
        // (wrong %, addresses, least successes of the robust GCD in %)
        let table = [
            // Of five addresses one can't tell which is wrong: the plain GCD's results.
            (0, 5, 90),
            (0, 10, 99),
            (0, 20, 100),
            (0, 100, 100),
            (1, 5, 84),
            (1, 10, 97),
            (1, 20, 99),
            (1, 100, 99),
            (10, 5, 54),
            (10, 10, 90),
            (10, 20, 97),
            (10, 100, 98),
            (20, 5, 28),
            (20, 10, 82),
            (20, 20, 95),
            (20, 100, 98),
        ];
        let mut failures = String::new();
        for (wrong, addresses, least) in table {
            let (plain, robust) = successes(192, addresses, wrong);
            println!("{wrong:2} % wrong, {addresses:3} addresses: plain {}, robust {} of 400", plain, robust);
            if robust < least * 4 {
                failures += &format!("{wrong} % wrong, {addresses} addresses: {robust} of 400, not {least} %\n");
            }
        }
        assert!(failures.is_empty(), "{failures}");
    }

    #[test]
    fn is_the_plain_one_where_none_is_wrong() {
        let (mut trials, mut differing) = (0, 0);
        for stride in [8, 16, 24, 40, 64, 192, 4096] {
            for count in [2, 3, 5, 10, 20, 50, 100] {
                let mut random = Random::new(stride * 1000 + count as u64);
                for _ in 0..200 {
                    let addresses = sample(&mut random, stride, count, 0);
                    trials += 1;
                    differing += u32::from(robust_gcd(&addresses).unwrap().bytes != plain_gcd(&addresses));
                }
            }
        }
        // `ACCIDENT` promises one in 5,000 on average.
        assert!(differing <= 2, "{differing} of {trials}");
    }

    #[test]
    fn samples_on_the_first_access_of_each_line() {
        // Structures of 16 bytes: 9 of 10 samples fall on the first one of a line, which alone would say 64.
        let mut random = Random::new(99);
        let mut addresses: Vec<u64> =
            (0..100).map(|i| random.below(10_000) * 64 + if i % 10 == 0 { 16 * random.below(4) } else { 0 }).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(robust_gcd(&addresses).unwrap().bytes, 16);
    }

    #[test]
    fn too_few_addresses_give_no_stride() {
        assert_eq!(robust_gcd(&[]), None);
        assert_eq!(robust_gcd(&[64]), None);
        assert_eq!(robust_gcd(&[64, 64]), None);
        assert_eq!(plain_gcd(&[24, 8]), 16);
        assert_eq!(robust_gcd(&[8, 24]).unwrap().bytes, 16);
        // Two addresses always agree: nothing is known.
        assert_eq!(robust_gcd(&[0, 6400]).unwrap().confidence, 0.0);
    }

    #[test]
    fn confidence_follows_the_corrected_equation() {
        // Ten of very many: Σ p^-9 = 1/512 + 1/19683 + … ≈ 0.2 %.
        let ten = chance_of_multiple(10_000_000, 10);
        assert!((ten - 0.002_004).abs() < 2e-6, "{ten}");
        // All of them: certain.
        assert_eq!(chance_of_multiple(10, 10), 0.0);
        // Three of six: both even or both odd triples of 20, (0 3 …) has no third.
        assert!((chance_of_multiple(6, 3) - 0.1).abs() < 1e-12);
        assert_eq!(chance_of_multiple(6, 1), 1.0);
        // The wrong formula would say a thousandth.
        assert!(ten > 0.0019);
    }

    /// The chance by drawing.
    #[test]
    fn confidence_is_the_frequency_of_success() {
        for (places, seen) in [(50, 4), (1000, 5), (30, 6)] {
            let mut random = Random::new(places * 31 + seen);
            let mut failures = 0;
            for _ in 0..20_000 {
                let mut drawn = Vec::new();
                while drawn.len() < seen as usize {
                    let place = random.below(places);
                    if !drawn.contains(&place) {
                        drawn.push(place);
                    }
                }
                failures += u32::from(plain_gcd(&drawn) != 1);
            }
            let (found, expected) = (f64::from(failures) / 20_000.0, chance_of_multiple(places, seen));
            // The sum over primes counts a composite multiple once for each of its primes: an upper bound, and close.
            assert!(
                found <= expected + 0.006 && found > 0.85 * expected - 0.006,
                "{places} {seen}: {found} {expected}"
            );
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_divides_the_agreeing(
            addresses in proptest::collection::btree_set(0u64..u64::MAX, 2..40)
        ) {
            let addresses: Vec<u64> = addresses.into_iter().collect();
            let stride = robust_gcd(&addresses).unwrap();
            prop_assert!(stride.bytes > 0 && stride.agreeing <= stride.addresses);
            prop_assert!((0.0..=1.0).contains(&stride.confidence));
        }
    }
}
