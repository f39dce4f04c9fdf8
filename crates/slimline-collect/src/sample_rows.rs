//! Samples and accesses of one process since its last part, bounded.

use std::mem;

use slimline_trace::tables::{Access, Accesses, Sample, Samples};

use crate::process_summary::Counts;

/// A part is due at this many accesses: at least 0.3 s of a loaded two-thread target at the default rate, 6 MB of columns.
const PART_ACCESSES: usize = 256 << 10;
/// … or samples, where no bursts are taken.
pub(crate) const PART_SAMPLES: usize = 16 << 10;
/// Rows held while the disk does not keep up, in parts; beyond, samples are counted as unwritten and dropped.
pub(crate) const MOST_PARTS_WAITING: usize = 16;

/// The rows of the next part.
#[derive(Debug, Default)]
pub(crate) struct SampleRows {
    samples: Samples,
    accesses: Accesses,
    next_window: u32,
}

impl SampleRows {
    /// Whether one more sample may be taken; where not, it is counted as unwritten.
    pub(crate) fn has_room(&self, counts: &mut Counts) -> bool {
        let has_room = self.accesses.len() < PART_ACCESSES * MOST_PARTS_WAITING
            && self.samples.len() < PART_SAMPLES * MOST_PARTS_WAITING
            && self.next_window < u32::MAX;
        counts.unwritten_samples += u64::from(!has_room);
        has_room
    }

    /// Number of the next sample, which is that of its window.
    pub(crate) fn next_window(&self) -> u32 {
        self.next_window
    }

    /// Takes a sample and the accesses of its window, whose number and count are filled in here.
    pub(crate) fn push(&mut self, sample: Sample, accesses: impl Iterator<Item = Access>, counts: &mut Counts) {
        let rows = self.accesses.len();
        accesses.for_each(|access| self.accesses.push(access));
        let accesses = (self.accesses.len() - rows) as u32;
        counts.samples += 1;
        counts.weightless_samples += u64::from(sample.weight == 0);
        counts.weight = counts.weight.saturating_add(sample.weight);
        counts.accesses += u64::from(accesses);
        self.samples.push(Sample { accesses, ..sample });
        self.next_window += 1;
    }

    /// Whether enough has come together for a part.
    pub(crate) fn is_part_due(&self) -> bool {
        self.accesses.len() >= PART_ACCESSES || self.samples.len() >= PART_SAMPLES
    }

    /// The rows since the last part. What filled one part will fill the next: no growing, no copying.
    pub(crate) fn take(&mut self) -> (Samples, Accesses) {
        (mem::take(&mut self.samples), mem::replace(&mut self.accesses, Accesses::with_capacity(PART_ACCESSES)))
    }
}
