//! Time and accesses of chosen data by region and thread, of a run that was sampled.

use std::collections::BTreeMap;

use serde::Serialize;
use slimline_analyze::region_accesses::Accessor;
use slimline_analyze::sampled_regions::{Estimate, SampledAccesses, SampledRegionFindings};
use slimline_analyze::share::Share;
use slimline_regions::Profile;
use slimline_trace::session::WeightUnit;

use super::accesses::{ByData, ChosenRow, Sum, chosen_name};
use crate::simulation::csv_cell;
use crate::view::Interval;

/// How much was sampled.
#[derive(Clone, Debug, Serialize)]
pub struct SampledData {
    /// Samples that weigh.
    pub samples: u64,
    /// What they weigh: the name of the unit.
    pub unit: &'static str,
    /// What that is a share of, in a word.
    pub noun: &'static str,
    /// Their weight.
    pub weight: u64,
    /// Accesses that bursts saw.
    pub seen_accesses: u64,
    /// Bursts that saw any.
    pub bursts: u64,
    /// What was chosen.
    pub chosen: Vec<ChosenRow>,
}

impl SampledData {
    /// What chosen data is called.
    #[must_use]
    pub fn name(&self, chosen: Option<usize>) -> &str {
        chosen_name(&self.chosen, chosen)
    }
}

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimated {
    /// The best one.
    pub value: f64,
    /// From where on.
    pub low: f64,
    /// Up to where.
    pub high: f64,
}

impl From<&Estimate> for Estimated {
    fn from(estimate: &Estimate) -> Self {
        let (low, high) = estimate.interval();
        Self { value: estimate.value(), low, high }
    }
}

/// What samples tell.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SampledCounts {
    /// Samples that it rests on.
    pub samples: u64,
    /// Their weight; of a clock, user time in nanoseconds.
    pub weight: Estimated,
    /// Share of the accesses that bursts saw.
    pub access_share: f64,
    /// Its 95 % interval.
    pub access_share_interval: Interval,
    /// Loads that bursts saw.
    pub seen_loads: u64,
    /// Stores that they saw.
    pub seen_stores: u64,
    /// Loads that there were; none where the pace of the code is not known.
    pub loads: Option<Estimated>,
    /// Stores, likewise.
    pub stores: Option<Estimated>,
    /// Bytes loaded and stored, likewise.
    pub bytes: Option<Estimated>,
}

/// What samples tell of chosen data, or of other data and of computing.
pub type DataSamples = ByData<SampledCounts>;

impl DataSamples {
    /// Columns behind those that say where.
    pub(super) const CSV: &str = "data,within,samples,weight,weight_low,weight_high,access_share,access_share_low,access_share_high,seen_loads,\
                                  seen_stores,loads,loads_low,loads_high,stores,stores_low,stores_high,bytes,bytes_low,bytes_high";

    /// A line for each thread, behind what is the same in all.
    pub(super) fn csv(&self, data: &SampledData, start: &str, within: &str) -> String {
        let name = csv_cell(data.name(self.chosen));
        let mut out = String::new();
        for (thread, counts) in &self.threads {
            let thread = thread.map(|thread| thread.to_string()).unwrap_or_default();
            let SampledCounts { samples, weight, access_share, access_share_interval, seen_loads, seen_stores, .. } =
                counts;
            let estimates = [counts.loads, counts.stores, counts.bytes].map(|of| match of {
                Some(Estimated { value, low, high }) => format!("{value:.0},{low:.0},{high:.0}"),
                None => ",,".to_owned(),
            });
            let Estimated { value, low, high } = weight;
            out += &format!("{start},{thread},{name},{within},{samples},{value:.0},{low:.0},{high:.0},");
            let Interval { low, high } = access_share_interval;
            out += &format!("{access_share},{low},{high},{seen_loads},{seen_stores},{}\n", estimates.join(","));
        }
        out
    }
}

impl Sum for SampledAccesses {
    fn add(&mut self, other: &Self) {
        self.add(other);
    }
}

/// A process of a session.
#[derive(Clone, Debug)]
pub struct SampledProcess {
    /// Its number in the system.
    pub pid: u32,
    /// Its regions, if it met any.
    pub profile: Option<Profile>,
}

/// Samples of a session, to be told by regions.
#[derive(Clone, Copy, Debug)]
pub struct SampledRegionsRun<'a> {
    /// What they tell.
    pub found: &'a SampledRegionFindings,
    /// What samples weigh.
    pub unit: WeightUnit,
    /// What was chosen, as accessors have it.
    pub chosen: &'a [ChosenRow],
    /// Its processes, by the numbers that accessors have for them.
    pub processes: &'a [SampledProcess],
    /// What ran.
    pub command: &'a [String],
}

impl SampledRegionsRun<'_> {
    pub(super) fn data(&self) -> SampledData {
        let (seen_accesses, bursts) = self.found.seen();
        let whole = &self.found.whole;
        SampledData {
            samples: whole.samples,
            unit: self.unit.name(),
            noun: self.unit.noun(),
            weight: whole.weight,
            seen_accesses,
            bursts,
            chosen: self.chosen.to_vec(),
        }
    }

    /// What a process did, with how many samples tell that.
    pub(super) fn of_process(&self, process: u32) -> impl Iterator<Item = (&Accessor, SampledAccesses, u64)> {
        let all: &BTreeMap<Accessor, SampledAccesses> = &self.found.accesses;
        let own = all.iter().filter(move |(accessor, _)| accessor.process == process);
        own.map(|(accessor, of)| (accessor, of.clone(), of.samples()))
    }

    pub(super) fn shown(&self, of: &SampledAccesses) -> SampledCounts {
        let whole = self.found.whole.weight as f64;
        let Share { value, low, high, samples } = self.found.weight_share(of);
        let [value, low, high] = [value, low, high].map(|share| share * whole);
        let accesses = self.found.access_share(of);
        let [loads, stores, bytes] = match of.estimates() {
            Some(all) => all.map(|of| Some((&of).into())),
            None => [None; 3],
        };
        SampledCounts {
            samples,
            weight: Estimated { value, low, high },
            access_share: accesses.value,
            access_share_interval: Interval { low: accesses.low, high: accesses.high },
            seen_loads: of.seen_loads,
            seen_stores: of.seen_stores,
            loads,
            stores,
            bytes,
        }
    }
}
