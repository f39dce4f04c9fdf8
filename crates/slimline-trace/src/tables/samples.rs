//! Samples: one row a trigger.

use std::ops::Range;

use super::{BlockRow, StackRow, ThreadRow, table};
use crate::access::AccessKind;
use crate::address::Avma;
use crate::served::Served;
use crate::wire::{BurstEnd, Quality};

table! {
    /// Samples in the order in which they were drained: in time order within each thread.
    ///
    /// The sample's number in its process is the number of its window of accesses.
    Samples of
    /// One trigger of one thread: what it was stopped at, what that cost, and how much was emulated from there.
    Sample in "samples" {
        /// When.
        time_ns: u64 as Delta,
        /// Whose.
        thread: ThreadRow as Dictionary,
        /// CPU time of its thread, without what samples took.
        cpu_ns: u64 as Delta,
        /// What this sample costs, in the session's [unit](crate::session::WeightUnit): of a clock, the time it stands
        /// for.
        weight: u64 as Delta formerly "weight_ns",
        /// Instruction at which the thread was stopped.
        sampled_ip: Avma as Delta,
        /// Blamed instruction; 0 where there is none.
        ip: Avma as Delta,
        /// Address it accesses; 0 where not known.
        address: Avma as Delta,
        /// Stack pointer at the sampled instruction.
        stack_pointer: Avma as Delta,
        /// Size of the blamed access.
        access_bytes: u16 as Dictionary,
        /// What the blamed access does; bit 0 load, bit 1 store, bit 2 atomic.
        kind: AccessKind as Dictionary,
        /// How the address was found.
        quality: Quality as Dictionary,
        /// Small heap block that holds `address`.
        block: Option<BlockRow> as Delta,
        /// Call path, innermost caller first; the sampled instruction itself is not part of it.
        stack: Option<StackRow> as Delta,
        /// Rows of [`Accesses`](super::Accesses) that belong to this sample's window.
        accesses: u32 as Delta,
        /// Instructions emulated in the burst.
        burst_instructions: u32 as Delta,
        /// Why the burst ended.
        burst_end: BurstEnd as Dictionary,
        /// What hardware tells of the blamed access: a column for each of its fields that any sample has.
        served: Served as Spread,
        /// Where the thread was: a column where any sample has a region.
        within: Within as Spread,
    }
}

/// Which region of the program a thread is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Within {
    /// The path of regions, by its process's number for it; none outside of all, and where they were not asked for.
    pub region: Option<u32>,
}

impl Samples {
    /// Every row, with those of its window among the accesses of all of them.
    pub fn windows(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let mut start = 0;
        self.accesses.iter().enumerate().map(move |(row, &accesses)| {
            let window = start..start + accesses as usize;
            start = window.end;
            (row, window)
        })
    }
}

#[cfg(test)]
// The macro makes a table for the whole crate's users; one of these needs less.
#[allow(dead_code, unreachable_pub)]
mod tests {
    use super::*;
    use crate::tables::Table;

    table! {
        /// The table as version 1 of the session's format had it.
        OldSamples of
        /// One of them.
        OldSample in "samples" {
            /// See [`Sample`].
            time_ns: u64 as Delta,
            /// Likewise.
            thread: ThreadRow as Dictionary,
            /// Likewise.
            cpu_ns: u64 as Delta,
            /// What became `weight`.
            weight_ns: u64 as Delta,
            /// Likewise.
            sampled_ip: Avma as Delta,
            /// Likewise.
            ip: Avma as Delta,
            /// Likewise.
            address: Avma as Delta,
            /// Likewise.
            stack_pointer: Avma as Delta,
            /// Likewise.
            access_bytes: u16 as Dictionary,
            /// Likewise.
            kind: AccessKind as Dictionary,
            /// Likewise.
            quality: Quality as Dictionary,
            /// Likewise.
            block: Option<BlockRow> as Delta,
            /// Likewise.
            stack: Option<StackRow> as Delta,
            /// Likewise.
            accesses: u32 as Delta,
            /// Likewise.
            burst_instructions: u32 as Delta,
            /// Likewise.
            burst_end: BurstEnd as Dictionary,
        }
    }

    #[test]
    fn samples_of_version_1_are_read() {
        let mut old = OldSamples::default();
        for weight_ns in [4_000_000, 12] {
            old.push(OldSample {
                time_ns: 7,
                thread: ThreadRow::new(0),
                cpu_ns: 6,
                weight_ns,
                sampled_ip: Avma(0x401_000),
                ip: Avma(0x400_ffc),
                address: Avma(0x5008),
                stack_pointer: Avma(0),
                access_bytes: 8,
                kind: AccessKind::LOAD,
                quality: Quality::Exact,
                block: None,
                stack: None,
                accesses: 0,
                burst_instructions: 0,
                burst_end: BurstEnd::NotStarted,
            });
        }
        let read = Samples::from_parquet(old.to_parquet().unwrap().into(), 2).unwrap();
        assert_eq!(read.weight, [4_000_000, 12]);
        assert_eq!(read.address, old.address);
        assert_eq!(read.served, [Served::UNKNOWN; 2]);
        assert_eq!(read.within, [Within::default(); 2]);
        assert!(Samples::from_parquet(old.to_parquet().unwrap().into(), 3).is_err());
    }
}
