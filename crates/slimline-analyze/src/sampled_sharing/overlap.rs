//! How far threads ran at the same time, each from its first look to its last.

use std::ops::Range;

/// When a thread was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Looked {
    pub(super) process: usize,
    /// Of processes that share memory.
    pub(super) company: usize,
    /// How often.
    pub(super) looks: u64,
    /// From the first time to behind the last; empty where none is known.
    pub(super) times_ns: Range<u64>,
}

impl Looked {
    pub(super) fn never(process: usize, company: usize) -> Self {
        Self { process, company, looks: 0, times_ns: 0..0 }
    }

    /// Once more; 0 for a time that is not known.
    pub(super) fn look(&mut self, time_ns: u64) {
        self.looks += 1;
        if time_ns != 0 {
            let start = if self.times_ns.is_empty() { time_ns } else { self.times_ns.start.min(time_ns) };
            self.times_ns = start..self.times_ns.end.max(time_ns + 1);
        }
    }
}

/// Which part of what all threads did, but for the one that was looked at most, they did while another one of their process was at it, too, or
/// of one that shares memory with it, where looks are spread evenly; none where there is one thread only.
pub(super) fn overlap<'l>(threads: impl Iterator<Item = &'l Looked>) -> Option<f64> {
    let mut threads: Vec<&Looked> = threads.filter(|looked| !looked.times_ns.is_empty()).collect();
    threads.sort_by_key(|looked| (looked.company, looked.looks));
    let busiest = threads.iter().map(|looked| looked.looks).max()?;
    let mut is_left_out = false;
    let (mut looks, mut overlapped) = (0, 0.0);
    for of_process in threads.chunk_by(|a, b| a.company == b.company) {
        let several = Several::of(of_process.iter().map(|looked| &looked.times_ns));
        for looked in of_process {
            if looked.looks == busiest && !std::mem::replace(&mut is_left_out, true) {
                continue;
            }
            let Range { start, end } = looked.times_ns;
            looks += looked.looks;
            let part = (several.before(end) - several.before(start)) as f64 / (end - start) as f64;
            overlapped += looked.looks as f64 * part;
        }
    }
    (looks > 0).then(|| overlapped / looks as f64)
}

/// When two threads or more were at it: times from which on another number of them was, that number, and how long two or more were
/// before.
struct Several(Vec<(u64, i64, u64)>);

impl Several {
    fn of<'r>(ranges: impl Iterator<Item = &'r Range<u64>>) -> Self {
        let mut ends: Vec<(u64, i64)> = ranges.flat_map(|range| [(range.start, 1), (range.end, -1)]).collect();
        ends.sort_unstable();
        let mut steps: Vec<(u64, i64, u64)> = Vec::with_capacity(ends.len());
        for (time, change) in ends {
            let (_, threads, _) = steps.last().copied().unwrap_or_default();
            let before = Self::at(steps.last(), time);
            steps.push((time, threads + change, before));
        }
        Self(steps)
    }

    fn at(step: Option<&(u64, i64, u64)>, time: u64) -> u64 {
        step.map_or(0, |&(since, threads, before)| before + if threads > 1 { time - since } else { 0 })
    }

    /// How long before that time.
    fn before(&self, time: u64) -> u64 {
        let steps = self.0.partition_point(|(since, ..)| *since <= time);
        Self::at(steps.checked_sub(1).map(|step| &self.0[step]), time)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn looked(process: usize, looks: u64, times_ns: Range<u64>) -> Looked {
        Looked { process, company: process, looks, times_ns }
    }

    #[test]
    fn times_are_from_the_first_look_to_the_last() {
        let mut one = Looked::never(3, 3);
        [0, 70, 50, 90].into_iter().for_each(|time| one.look(time));
        assert_eq!(one, looked(3, 4, 50..91));
    }

    #[test]
    fn the_busiest_is_not_asked() {
        let overlap = |threads: &[Looked]| overlap(threads.iter());
        assert_eq!(overlap(&[]), None);
        assert_eq!(overlap(&[looked(0, 9, 10..50)]), None);
        assert_eq!(overlap(&[looked(0, 9, 10..50), looked(0, 4, 40..60)]), Some(0.5));
        assert_eq!(overlap(&[looked(0, 9, 10..50), looked(0, 4, 50..60)]), Some(0.0));
        assert_eq!(overlap(&[looked(0, 9, 10..50), looked(1, 4, 40..60)]), Some(0.0));
        // One that sets up, and two that work beside each other: 6 of 6 looks and 2 of 2.
        assert_eq!(overlap(&[looked(0, 9, 0..40), looked(0, 6, 50..60), looked(0, 2, 50..60)]), Some(1.0));
        // Half of 8 looks, and all 2 of another process.
        let threads = [looked(0, 9, 0..20), looked(0, 8, 10..30), looked(1, 2, 40..50), looked(1, 2, 40..50)];
        assert_eq!(overlap(&threads), Some(8.0 / 12.0));
    }

    proptest! {
        /// Moment by moment.
        #[test]
        fn as_counted(threads in prop::collection::vec((0_usize..2, 1_u64..5, 0_u64..40, 1_u64..20), 0..6)) {
            let threads: Vec<Looked> =
                threads.into_iter().map(|(process, looks, at, long)| looked(process, looks, at..at + long)).collect();
            let most = threads.iter().map(|looked| looked.looks).max();
            // Of several busiest ones, that of the first process.
            let busiest = (0..threads.len()).filter(|&at| Some(threads[at].looks) == most).min_by_key(|&at| threads[at].process);
            let (mut looks, mut overlapped) = (0.0, 0.0);
            for (at, one) in threads.iter().enumerate().filter(|(at, _)| Some(*at) != busiest) {
                let is_beside = |time: &u64| threads.iter().enumerate().any(|(other, of)| {
                    other != at && of.process == one.process && of.times_ns.contains(time)
                });
                let beside = one.times_ns.clone().filter(is_beside).count() as f64;
                looks += one.looks as f64;
                overlapped += one.looks as f64 * beside / one.times_ns.clone().count() as f64;
            }
            let found = overlap(threads.iter());
            prop_assert_eq!(found.is_some(), looks > 0.0);
            prop_assert!(found.is_none_or(|found| (found - overlapped / looks).abs() < 1e-9), "{found:?}");
        }
    }
}
