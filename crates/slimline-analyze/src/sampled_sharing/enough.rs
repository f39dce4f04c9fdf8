//! Whether two threads would have been seen to share a line, if they did.
//!
//! Where a thread was seen before and after another one, and one of them stores, they may share the line or have taken turns. If
//! both are at it all the time looks come in random order, as many at each as there are: so it is known how likely fewer than
//! [`LEAST_HAND_OVERS`] times are then. Where that is unlikely they took turns, and else too few looks were taken.
//!
//! A time is seen where a look at a thread finds what the other one was seen to store since the look at that thread before: a first
//! look finds nothing. So looks have to come like this, others of the same thread in between:
//!
//! ```text
//!   both store     A  B  A  B  A              or  B  A  B  A  B      after the first look four changes
//!                        1  2  3
//!   only A stores  B  A  B  A  B  A  B                               B, and then A and B three times
//!                        1     2     3
//! ```
//!
//! Of a thread that stores every look is taken to see that: where few do, more of them are needed than is said.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter;

use slimline_trace::access::ThreadId;

use crate::sharing::LEAST_HAND_OVERS;

/// Threads at a line of which it is asked whether they share it.
const MOST_THREADS: usize = 64;
/// How likely it may be that so few were seen of what is shared all the time.
const MISSED: f64 = 0.05;
/// Looks to be expected at a line that two threads use alike, as many at each, for it to be told but for 1 time in 20, also where
/// only one of them stores: then every other look is the next one of seven that it takes, and of 12 such looks that are expected
/// fewer than seven come with 4.6 % (Poisson).
pub const ENOUGH_LOOKS: u64 = 24;

/// Who a look saw at a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct User {
    pub(super) thread: ThreadId,
    pub(super) stores: bool,
}

/// So many looks where there were these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needed {
    pub(super) looks: u64,
    pub(super) of: u64,
}

/// How many looks would tell whether two threads share a line, where it was seen that one was there before and after the other
/// one, and one of them stores; None where nothing is open. Of many threads those with most looks are asked.
pub(super) fn more_looks(users: &[User]) -> Option<Needed> {
    let mut looks: BTreeMap<ThreadId, (u64, bool)> = BTreeMap::new();
    for user in users {
        let of_thread = looks.entry(user.thread).or_default();
        *of_thread = (of_thread.0 + 1, of_thread.1 | user.stores);
    }
    let mut threads: Vec<(ThreadId, (u64, bool))> = looks.into_iter().collect();
    threads.sort_by_key(|&(thread, (looks, _))| (Reverse(looks), thread));
    threads.truncate(MOST_THREADS);
    let numbers: BTreeMap<ThreadId, usize> = threads.iter().enumerate().map(|(n, &(thread, _))| (thread, n)).collect();
    // How often a look at one of two was at the other one than the look before at any of them.
    let mut changes = vec![[0_u64; MOST_THREADS]; MOST_THREADS];
    let mut last = [0; MOST_THREADS];
    for (look, user) in (1..).zip(users) {
        let Some(&own) = numbers.get(&user.thread) else { continue };
        for other in (0..threads.len()).filter(|&other| last[other] > last[own]) {
            changes[own.min(other)][own.max(other)] += 1;
        }
        last[own] = look;
    }
    let mut most: Option<Needed> = None;
    for (number, &(_, one)) in threads.iter().enumerate() {
        for (other_number, &(_, other)) in threads.iter().enumerate().skip(number + 1) {
            if changes[number][other_number] < 2 {
                continue;
            }
            let of = one.0 + other.0;
            let part = |looks: u64| looks as f64 / of as f64;
            let chances = match (one.1, other.1) {
                (false, false) => continue,
                (true, true) => Chances::of_two_that_store(part(one.0)),
                (true, false) => Chances::of_one_that_stores(part(one.0)),
                (false, true) => Chances::of_one_that_stores(part(other.0)),
            };
            let looks = chances.needed_looks();
            if looks > of && most.is_none_or(|most| looks * most.of > most.looks * of) {
                most = Some(Needed { looks, of });
            }
        }
    }
    most
}

/// How likely so many of the looks that it takes have come.
struct Chances {
    /// Of each of those that are still missing: how likely a look is one.
    is_next: Vec<f64>,
    /// How likely it is waited for.
    waits: Vec<f64>,
}

impl Chances {
    fn waiting_for(is_next: impl Iterator<Item = f64>) -> Self {
        let is_next: Vec<f64> = is_next.collect();
        let waits = iter::once(1.0).chain(iter::repeat(0.0)).take(is_next.len()).collect();
        Self { is_next, waits }
    }

    /// Both store; one of them has this part of the looks.
    fn of_two_that_store(of_one: f64) -> Self {
        // As many changes to the one as to the other, whose look ever is the first.
        const { assert!(LEAST_HAND_OVERS % 2 == 1) };
        let changes = (0..=LEAST_HAND_OVERS).map(|change| if change % 2 == 0 { of_one } else { 1.0 - of_one });
        Self::waiting_for(iter::once(1.0).chain(changes))
    }

    /// The one that stores has this part of the looks.
    fn of_one_that_stores(of_it: f64) -> Self {
        let looks = 0..=2 * LEAST_HAND_OVERS;
        Self::waiting_for(looks.map(|look| if look % 2 == 0 { 1.0 - of_it } else { of_it }))
    }

    /// One look more.
    fn look(&mut self) {
        let mut came = 0.0;
        for (waits, is_next) in self.waits.iter_mut().zip(&self.is_next) {
            let goes = *waits * is_next;
            *waits += came - goes;
            came = goes;
        }
    }

    /// How likely fewer than [`LEAST_HAND_OVERS`] times were seen.
    fn few(&self) -> f64 {
        self.waits.iter().sum()
    }

    /// After how many looks that is unlikely. Where none has less than one of `n` looks it takes at most 11 times `n`.
    fn needed_looks(mut self) -> u64 {
        let mut looks = 0;
        while self.few() > MISSED {
            self.look();
            looks += 1;
        }
        looks
    }
}

#[cfg(test)]
mod tests {
    use slimline_simulate::sharing::{ObservedLines, Part, Uses};

    use super::*;

    fn after(mut chances: Chances, looks: u64) -> f64 {
        (0..looks).for_each(|_| chances.look());
        chances.few()
    }

    #[test]
    fn how_likely_few_times_are() {
        let two = || Chances::of_two_that_store(0.5);
        // Of three places none to three may be changes: all of them are fewer than four.
        assert!((after(two(), 4) - 1.0).abs() < 1e-12);
        // Of 13: (1 + 13 + 78 + 286) / 8192.
        assert!((after(two(), 14) - 378.0 / 8192.0).abs() < 1e-12);
        assert_eq!(two().needed_looks(), 14);
        // Of 14 looks fewer than seven are the next one, of 20 with 5.8 and of 21 with 3.9 %.
        let one = || Chances::of_one_that_stores(0.5);
        let few = 1 + 14 + 91 + 364 + 1001 + 2002 + 3003;
        assert!((after(one(), 14) - f64::from(few) / 16384.0).abs() < 1e-12);
        assert_eq!(one().needed_looks(), 21);
        // What loads more seldom has to be seen once more than what stores.
        assert_eq!([2.0 / 3.0, 1.0 / 3.0].map(|of_it| Chances::of_one_that_stores(of_it).needed_looks()), [26, 24]);
    }

    /// Every order of looks, with what is told of it.
    #[test]
    fn few_times_are_as_likely_as_in_all_orders() {
        for (looks, stores) in (1..=12_u32).flat_map(|looks| [(looks, [1, 1]), (looks, [1, 0]), (looks, [0, 1])]) {
            // By how many of the looks are at the first thread.
            let mut few = vec![0_u32; looks as usize + 1];
            for order in 0..1_u32 << looks {
                let mut lines = ObservedLines::default();
                for look in 0..looks {
                    let thread = order >> look & 1;
                    let part = Part { offset: 0, bytes: 8, key: thread, thread };
                    let uses = Uses { loads: 1, stores: stores[thread as usize], ..Uses::default() };
                    lines.look(0, 64, &[(part, uses)]);
                }
                let times: u64 = lines.lines()[0].pairs.iter().map(|(_, between)| between.truly).sum();
                few[(looks - order.count_ones()) as usize] += u32::from(times < LEAST_HAND_OVERS);
            }
            for of_first in [0.5, 0.2, 0.7, 0.95] {
                let likely = (0..).zip(&few).map(|(first, &orders)| {
                    f64::from(orders) * f64::powi(of_first, first) * f64::powi(1.0 - of_first, looks as i32 - first)
                });
                let chances = match stores {
                    [1, 1] => Chances::of_two_that_store(of_first),
                    [1, 0] => Chances::of_one_that_stores(of_first),
                    _ => Chances::of_one_that_stores(1.0 - of_first),
                };
                let (likely, told) = (likely.sum::<f64>(), after(chances, looks.into()));
                assert!((likely - told).abs() < 1e-9, "{looks} {stores:?} {of_first}: {likely} {told}");
            }
        }
    }

    /// Looks at the line as many as come by chance where so many are expected.
    #[test]
    fn enough_looks_are_the_fewest() {
        let few = |expected: u64| {
            let mut chances = Chances::of_one_that_stores(0.5);
            let mut so_many = (-(expected as f64)).exp();
            let mut few = 0.0;
            for looks in 1..200 {
                few += so_many * chances.few();
                chances.look();
                so_many *= expected as f64 / f64::from(looks);
            }
            few
        };
        assert!(few(ENOUGH_LOOKS) <= MISSED && few(ENOUGH_LOOKS - 1) > MISSED);
    }

    #[test]
    fn one_that_stores_needs_more_looks() {
        let users = |stores: [bool; 2], looks: u32| -> Vec<User> {
            (0..looks).map(|n| User { thread: ThreadId(n % 2), stores: stores[n as usize % 2] }).collect()
        };
        let needed = |stores, looks| more_looks(&users(stores, looks)).map(|needed| (needed.looks, needed.of));
        assert_eq!((needed([true, true], 14), needed([true, true], 12)), (None, Some((14, 12))));
        assert_eq!((needed([true, false], 14), needed([false, true], 20)), (Some((21, 14)), Some((21, 20))));
        assert_eq!((needed([true, false], 22), needed([false, false], 14)), (None, None));
    }

    #[test]
    fn thousands_of_threads_are_looked_through_in_time() {
        // Each hands on to the next one, and comes again once.
        let users: Vec<User> =
            (0..2).flat_map(|_| (0..3000).map(|n| User { thread: ThreadId(n), stores: true })).collect();
        // Of two each is seen twice, in turn: four looks, half of which each; 14 are enough.
        assert_eq!(more_looks(&users), Some(Needed { looks: 14, of: 4 }));
    }
}
