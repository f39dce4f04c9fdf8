//! What hardware tells of samples.

use serde::{Deserialize, Serialize};
use slimline_trace::served::MemoryLevel;

/// How the memory system served the samples of something, as far as hardware tells. Each share is of those of its samples
/// of which it tells; none where it tells of none.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Served {
    /// Samples of which it tells anything.
    pub samples: u64,
    /// How long the accesses took; none where it was not measured.
    pub latency: Option<Latency>,
    /// Where the data came from, nearest first.
    pub levels: Vec<ServedBy>,
    /// Those whose translation no TLB had.
    pub tlb_miss_share: Option<f64>,
    /// Those that were locked.
    pub locked_share: Option<f64>,
    /// Those whose data came from beyond their NUMA node.
    pub remote_share: Option<f64>,
    /// Those whose line another core had written (HitM): a hint that threads share it.
    pub modified_share: Option<f64>,
}

/// Latency of sampled accesses.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Latency {
    /// Samples of which it was measured.
    pub samples: u64,
    /// Share of the session's latency; of a field, of its group's.
    pub share: f64,
    /// Mean.
    pub mean_cycles: f64,
    /// Half of the samples took less; none of fewer than 20 samples. To 3 %.
    pub median_cycles: Option<u64>,
    /// 95 % of the samples took less; none of fewer than 200 samples. To 3 %.
    pub p95_cycles: Option<u64>,
    /// Mean of the whole instruction, from dispatch to completion; none where it was not measured.
    pub instruction_mean_cycles: Option<f64>,
    /// Mean of the cycles that it held up others before they could retire; none where it was not measured.
    pub retire_mean_cycles: Option<f64>,
}

/// Samples that one memory level served.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
pub struct ServedBy {
    /// `l1`, `line_fill_buffer`, `l2`, `l3`, `l4`, `remote_cache`, `local_dram`, `remote_dram`, `pmem`, `cxl`, `io`,
    /// `uncached`.
    #[serde(with = "level_name")]
    pub level: MemoryLevel,
    /// Share of the samples of which the level is told.
    pub share: f64,
    /// Share of the latency.
    pub latency_share: f64,
}

/// A level as its name.
mod level_name {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use slimline_trace::served::MemoryLevel;

    pub(super) fn serialize<S: Serializer>(level: &MemoryLevel, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(level.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<MemoryLevel, D::Error> {
        let name = String::deserialize(from)?;
        MemoryLevel::from_name(&name).ok_or_else(|| D::Error::custom(format_args!("no memory level: {name}")))
    }
}
