//! How well a session was seen: how addresses were found and how long bursts were.

use slimline_trace::session::WeightUnit;
use slimline_trace::tables::{Samples, StackEnd, Stacks};
use slimline_trace::wire::{BurstEnd, Quality};

/// Sums over samples; start from the default, merge by [`SampleQuality::merge`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleQuality {
    /// Samples.
    pub samples: u64,
    /// Their weight.
    pub weight: u64,
    /// Weight by how the address was found, in the order of [`Quality`].
    pub weight_by_quality: [u64; 7],
    /// Samples whose address is lost, or whose code could not be read.
    pub unresolved: u64,
    /// Samples whose call path is deeper than was recorded.
    pub deep_stacks: u64,
    /// Samples whose call path ends where unwinding failed.
    pub broken_stacks: u64,
    /// Bursts that were started.
    pub bursts: u64,
    /// Instructions in them.
    pub burst_instructions: u64,
    /// Accesses in them.
    pub burst_accesses: u64,
    /// Bursts by why they ended, in the order of [`BurstEnd`].
    pub bursts_by_end: [u64; 8],
}

impl SampleQuality {
    /// Takes samples in; `stacks` are those of their process. Where weights are times, those that weigh nothing are a second
    /// clock's, which only say where the thread was.
    pub fn update(&mut self, samples: &Samples, stacks: &Stacks, unit: WeightUnit) {
        for row in (0..samples.len()).filter(|&row| samples.weight[row] > 0 || !unit.is_time()) {
            let (weight, quality, end) = (samples.weight[row], samples.quality[row], samples.burst_end[row]);
            self.samples += 1;
            self.weight += weight;
            self.weight_by_quality[quality as usize] += weight;
            self.unresolved += u64::from(matches!(quality, Quality::Lost | Quality::NoCode));
            match samples.stack[row].map(|stack| stacks.end(stack)) {
                Some(StackEnd::Depth) => self.deep_stacks += 1,
                Some(StackEnd::Unwinding) => self.broken_stacks += 1,
                Some(StackEnd::Outermost) | None => {}
            }
            if end != BurstEnd::NotStarted {
                self.bursts += 1;
                self.burst_instructions += u64::from(samples.burst_instructions[row]);
                self.burst_accesses += u64::from(samples.accesses[row]);
                self.bursts_by_end[end as usize] += 1;
            }
        }
    }

    /// Adds what another saw.
    pub fn merge(&mut self, other: &Self) {
        self.samples += other.samples;
        self.weight += other.weight;
        self.unresolved += other.unresolved;
        self.deep_stacks += other.deep_stacks;
        self.broken_stacks += other.broken_stacks;
        self.bursts += other.bursts;
        self.burst_instructions += other.burst_instructions;
        self.burst_accesses += other.burst_accesses;
        add(&mut self.weight_by_quality, &other.weight_by_quality);
        add(&mut self.bursts_by_end, &other.bursts_by_end);
    }

    /// Share of the weight whose address was found so; all sum to 1, and are 0 where there is no weight.
    pub fn share(&self, quality: Quality) -> f64 {
        ratio(self.weight_by_quality[quality as usize], self.weight)
    }

    /// Share of the bursts that ended so; all sum to 1, and are 0 where there is no burst.
    pub fn end_share(&self, end: BurstEnd) -> f64 {
        ratio(self.bursts_by_end[end as usize], self.bursts)
    }

    /// Mean length of a burst in instructions; 0 where there is none.
    pub fn mean_burst(&self) -> f64 {
        ratio(self.burst_instructions, self.bursts)
    }
}

fn add<const N: usize>(into: &mut [u64; N], from: &[u64; N]) {
    for (into, from) in into.iter_mut().zip(from) {
        *into += from;
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slimline_trace::address::Avma;
    use slimline_trace::tables::Sample;

    fn samples(rows: &[(u64, Quality, BurstEnd, u32)]) -> Samples {
        let mut samples = Samples::default();
        for &(weight, quality, burst_end, burst_instructions) in rows {
            samples.push(Sample { weight, quality, burst_end, burst_instructions, accesses: 2, ..blank() });
        }
        samples
    }

    fn blank() -> Sample {
        use slimline_trace::access::AccessKind;
        use slimline_trace::served::Served;
        use slimline_trace::tables::{ThreadRow, Within};
        Sample {
            time_ns: 0,
            thread: ThreadRow::new(0),
            cpu_ns: 0,
            weight: 0,
            sampled_ip: Avma(0),
            ip: Avma(0),
            address: Avma(0),
            stack_pointer: Avma(0),
            access_bytes: 0,
            kind: AccessKind::LOAD,
            quality: Quality::Exact,
            block: None,
            stack: None,
            accesses: 0,
            burst_instructions: 0,
            burst_end: BurstEnd::Limit,
            served: Served::UNKNOWN,
            within: Within::default(),
        }
    }

    #[test]
    fn shares_are_of_weight_and_merge() {
        let mut all = SampleQuality::default();
        let rows = [(3, Quality::Exact, BurstEnd::Limit, 300), (1, Quality::Lost, BurstEnd::Syscall, 100)];
        all.update(&samples(&rows), &Stacks::default(), WeightUnit::TimeNs);
        let mut more = SampleQuality::default();
        // The last two: computing, and the second clock's.
        let rows = [(4, Quality::NoCode), (2, Quality::NoMemory), (0, Quality::Lost)];
        let rows = rows.map(|(weight, quality)| (weight, quality, BurstEnd::NotStarted, 0));
        more.update(&samples(&rows), &Stacks::default(), WeightUnit::TimeNs);
        all.merge(&more);
        assert_eq!((all.samples, all.weight, all.unresolved), (4, 10, 2));
        assert_eq!(all.share(Quality::Exact), 0.3);
        assert_eq!(all.share(Quality::NoCode), 0.4);
        assert_eq!(all.mean_burst(), 200.0);
        assert_eq!(all.end_share(BurstEnd::Limit), 0.5);
        assert_eq!(all.burst_accesses, 4);
    }

    #[test]
    fn an_access_without_latency_is_a_sample() {
        let rows = [(0, Quality::Exact), (9, Quality::Exact)]
            .map(|(weight, quality)| (weight, quality, BurstEnd::NotStarted, 0));
        let mut quality = SampleQuality::default();
        quality.update(&samples(&rows), &Stacks::default(), WeightUnit::LatencyCycles);
        assert_eq!((quality.samples, quality.weight), (2, 9));
    }

    #[test]
    fn call_paths_that_stop_early_are_counted_by_sample() {
        let mut stacks = Stacks::default();
        let whole = stacks.push(&[Avma(1)], StackEnd::Outermost);
        let deep = stacks.push(&[Avma(2)], StackEnd::Depth);
        let broken = stacks.push(&[Avma(3)], StackEnd::Unwinding);
        let mut samples = Samples::default();
        for stack in [Some(whole), Some(deep), Some(broken), Some(deep), None] {
            samples.push(Sample { stack, weight: 1, ..blank() });
        }
        let mut quality = SampleQuality::default();
        quality.update(&samples, &stacks, WeightUnit::TimeNs);
        assert_eq!((quality.deep_stacks, quality.broken_stacks), (2, 1));
    }
}
