//! Pace: how fast code runs, told by how far a walk came from one window to the next.
//!
//! A clock starts the windows, so a loop gets windows for its time, not for its executions: counts seen in windows
//! favour slow code. Where a site walks an array with a steady stride, two successive windows of its thread tell how
//! often it ran in between, and with the instructions a window has per execution, how many instructions the thread
//! executed:
//!
//! ```text
//!   window 1             window 2          executions = (second address − first address) / stride
//!   a a+s a+2s …  ····   b b+s …           pace = executions · instructions per execution / CPU time in between
//! ```
//!
//! That holds only if the walk was the same all the time. It was not where the address went back or is no whole number
//! of strides away; and where more than a third of the pairs fail so, the others are not trusted either. The pace of a
//! loop is the median over its pairs.

use std::collections::BTreeMap;

use slimline_trace::access::{SiteId, Window};

use crate::streams::Walk;

/// Executions of a site in a window below which its instructions per execution are too uncertain.
const LEAST_EXECUTIONS: u32 = 4;
/// Pairs of windows that a pace rests on, at least.
const LEAST_PAIRS: u64 = 5;
/// Buckets of the histogram per factor of two: 2.2 % each.
const PER_OCTAVE: f64 = 32.0;

/// Pairs of successive windows of one site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace {
    /// Pairs by the logarithm of the pace they tell.
    histogram: BTreeMap<i16, u64>,
    /// Pairs that can't be of one walk.
    broken: u64,
}

impl Pace {
    pub(crate) fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.histogram {
            *self.histogram.entry(*bucket).or_default() += count;
        }
        self.broken += other.broken;
    }

    /// Instructions a nanosecond; `None` where the pairs don't tell.
    pub(crate) fn instructions_per_ns(&self) -> Option<f64> {
        let pairs: u64 = self.histogram.values().sum();
        if pairs < LEAST_PAIRS || self.broken * 2 > pairs {
            return None;
        }
        let quantile = |part: f64| {
            let mut left = (pairs as f64 * part) as u64;
            self.histogram.iter().find_map(|(&bucket, &count)| {
                let here = left < count;
                left = left.saturating_sub(count);
                here.then(|| f64::from(bucket))
            })
        };
        // Walks that restarted in between at a later place scatter: a spread of more than a factor of two tells.
        let (low, middle, high) = (quantile(0.25)?, quantile(0.5)?, quantile(0.75)?);
        (high - low <= PER_OCTAVE).then(|| ((middle + 0.5) / PER_OCTAVE).exp2())
    }
}

/// Paces by site, and where each site's walk was in the latest window.
#[derive(Clone, Debug, Default)]
pub(crate) struct PaceTable {
    paces: BTreeMap<SiteId, Pace>,
    latest: Vec<Latest>,
    window: u64,
    /// CPU time since the window before; 0 where there is none or it is not known.
    elapsed_ns: u64,
    instructions: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    window: u64,
    group: u32,
    object: u32,
    address: u64,
    stride: i64,
    instructions_per_execution: f64,
}

impl PaceTable {
    /// No window of another batch is followed up.
    pub(crate) fn begin_batch(&mut self) {
        self.window += 1;
    }

    pub(crate) fn begin_window(&mut self, window: &Window) {
        self.window += 1;
        self.elapsed_ns = window.weight;
        self.instructions = window.instructions;
    }

    /// Takes in how a site walked through the current window.
    pub(crate) fn walk(&mut self, site: SiteId, walk: &Walk) {
        let Some(stride) = walk.steady_stride() else { return };
        if walk.executions < LEAST_EXECUTIONS || self.instructions == 0 {
            return;
        }
        if site.index() >= self.latest.len() {
            self.latest.resize(site.index() + 1, Latest::default());
        }
        let now = Latest {
            window: self.window,
            group: walk.group,
            object: walk.object,
            address: walk.first,
            stride,
            instructions_per_execution: f64::from(self.instructions) / f64::from(walk.executions),
        };
        let before = std::mem::replace(&mut self.latest[site.index()], now);
        if before.window + 1 != self.window || before.window == 0 || self.elapsed_ns == 0 {
            return;
        }
        let pace = self.paces.entry(site).or_default();
        let distance = now.address.wrapping_sub(before.address) as i64;
        let same_walk = (before.group, before.object, before.stride) == (now.group, now.object, now.stride);
        if !same_walk || distance % stride != 0 || distance / stride <= 0 {
            pace.broken += 1;
            return;
        }
        let per_execution = (before.instructions_per_execution + now.instructions_per_execution) / 2.0;
        let per_ns = (distance / stride) as f64 * per_execution / self.elapsed_ns as f64;
        *pace.histogram.entry((per_ns.log2() * PER_OCTAVE).floor() as i16).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (site, pace) in other.paces {
            self.paces.entry(site).or_default().merge(&pace);
        }
    }

    pub(crate) fn into_rows(self) -> Vec<(SiteId, Pace)> {
        self.paces.into_iter().collect()
    }
}
