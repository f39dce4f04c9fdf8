//! What a session that was imported tells of the file, and of what in it is no sample of a program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A file that was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Imported {
    /// Its name, as given.
    pub file: String,
    /// What it is, and what wrote it.
    pub format: String,
    /// Records or rows read.
    pub records: u64,
    /// Samples of the kernel's, a hypervisor's or a guest's code: they are left out.
    pub kernel_samples: u64,
    /// Their weight.
    pub kernel_weight: u64,
    /// Samples that were taken in, of which no address is told.
    pub samples_without_address: u64,
    /// The event whose samples weigh; empty where the file tells of none.
    pub weighed_event: String,
    /// Samples of other events: they were taken in and weigh nothing.
    pub samples_without_weight: u64,
    /// Samples of variables beyond those that addresses can tell apart: they were taken in, and have no address.
    pub samples_of_other_variables: u64,
    /// Samples without thread or instruction: they are left out.
    pub samples_without_thread: u64,
    /// Records that the recording lost because a buffer was full.
    pub lost_records: u64,
    /// Samples that hardware or kernel dropped.
    pub lost_samples: u64,
    /// Times that the kernel stopped an event for a while because it came too often.
    pub throttled: u64,
    /// Records that end before their fields do, or rows without what they need.
    pub malformed_records: u64,
    /// Records of events that the file does not describe.
    pub records_without_event: u64,
    /// Records that came later than their time.
    pub records_out_of_order: u64,
    /// Bytes of AUX areas, in which hardware leaves samples or traces in a format of its own: they were not read.
    pub aux_bytes: u64,
    /// Bytes behind all that the file's header describes, as of another file that was appended: they were not read.
    pub trailing_bytes: u64,
    /// Records that say nothing of data, or are not known, by type.
    pub unknown_records: BTreeMap<u32, u64>,
}
