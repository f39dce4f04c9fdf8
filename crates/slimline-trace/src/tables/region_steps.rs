//! Where threads of a process were: each change of a thread's path of regions, told by the process while others sampled it from outside.

use super::table;

table! {
    /// Changes, by thread and then by time.
    RegionSteps of
    /// A thread goes on along another path.
    RegionStep in "region-steps" {
        /// The kernel's number of the thread.
        tid: u32 as Dictionary,
        /// When.
        time_ns: u64 as Delta,
        /// The path, by its process's number for it; 0 outside of all.
        region: u32 as Delta,
    }
}

impl RegionSteps {
    /// The same in the order of threads and times.
    #[must_use]
    pub fn sorted(&self) -> Self {
        let mut rows: Vec<RegionStep> = self.iter().collect();
        rows.sort_by_key(|row| (row.tid, row.time_ns));
        let mut sorted = Self::with_capacity(rows.len());
        rows.into_iter().for_each(|row| sorted.push(row));
        sorted
    }

    /// The path that a thread was on at a time, where these are [sorted](Self::sorted). None outside of all, and where nothing is known of the
    /// thread.
    #[must_use]
    pub fn region_at(&self, tid: u32, time_ns: u64) -> Option<u32> {
        let first = self.tid.partition_point(|of| *of < tid);
        let end = self.tid.partition_point(|of| *of <= tid);
        let until = self.time_ns[first..end].partition_point(|of| *of <= time_ns);
        let last = first + until.checked_sub(1)?;
        Some(self.region[last]).filter(|region| *region != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Table;

    #[test]
    fn a_thread_is_where_it_went_last() {
        let mut steps = RegionSteps::default();
        for (tid, time_ns, region) in [(8, 30, 5), (7, 20, 0), (7, 10, 3), (8, 40, 6)] {
            steps.push(RegionStep { tid, time_ns, region });
        }
        let steps = steps.sorted();
        let at = |tid| [9, 10, 19, 20, 35, 99].map(|time_ns| steps.region_at(tid, time_ns));
        assert_eq!(at(7), [None, Some(3), Some(3), None, None, None]);
        assert_eq!(at(8), [None, None, None, None, Some(5), Some(6)]);
        assert_eq!((at(6), RegionSteps::default().region_at(7, 1)), ([None; 6], None));
        let read = RegionSteps::from_parquet(steps.to_parquet().unwrap().into(), 4).unwrap();
        assert_eq!(read, steps);
    }
}
