//! What happened in each part of data, as `slimline histogram` shows it.

use std::fmt::Write as _;
use std::ops::Range;

use serde::Serialize;
use slimline_analyze::histogram::{half_is_in, histograms};
use slimline_analyze::origins::{Data, Origins};
use slimline_simulate::simulation::{Counts, Outcome};

use crate::full_trace::known;
use crate::simulation::{AccessTrace, DataRow, csv_cell, data_row};

/// Version of the JSON. 1: the first. 2: `extent_bytes` of variables, and offsets, are from the first byte that was accessed to the
/// last one, not from the beginning of its part; parts have `bytes`.
pub const HISTOGRAM_SCHEMA: u32 = 2;

/// Everything `slimline histogram` shows, and its JSON.
#[derive(Clone, Debug, Serialize)]
pub struct HistogramReport {
    /// [`HISTOGRAM_SCHEMA`].
    pub schema: u32,
    /// What was read.
    pub trace: AccessTrace,
    /// The simulated machine.
    pub machine: String,
    /// Its caches that hold data, nearest first.
    pub caches: Vec<String>,
    /// All data, most cycles first; what belongs to none is a row without a name.
    pub data: Vec<DataHistogram>,
}

/// What happened to data, and where in it.
#[derive(Clone, Debug, Serialize)]
pub struct DataHistogram {
    /// What it is called; none where it is not known.
    pub name: Option<String>,
    /// What it is.
    #[serde(flatten)]
    pub data: DataRow,
    /// Of the machine's cycles.
    pub share: f64,
    /// From its first byte to its last: of blocks the largest, of variables what was accessed.
    pub extent_bytes: u64,
    /// Of the first part, what lies before the first byte.
    #[serde(skip)]
    before_bytes: u64,
    /// Bytes of a part; 0 where nothing is known of the data, which is one part then.
    pub part_bytes: u64,
    /// All parts.
    #[serde(flatten)]
    pub total: PartCounts,
    /// The least share of its bytes in which half of its loads and stores are; none without any.
    pub half_of_accesses_in: Option<f64>,
    /// The same of the misses of each cache.
    pub half_of_misses_in: Vec<Option<f64>>,
    /// Those that were accessed, by offset.
    pub parts: Vec<PartRow>,
}

/// A part.
#[derive(Clone, Debug, Serialize)]
pub struct PartRow {
    /// Its first byte, from the data's first one.
    pub offset: u64,
    /// Bytes of the data in it: of the first part and the last one these may be fewer than of others; 0 where nothing is known of
    /// the data.
    pub bytes: u64,
    /// What happened there.
    #[serde(flatten)]
    pub counts: PartCounts,
}

/// What happened.
#[derive(Clone, Debug, Serialize)]
pub struct PartCounts {
    /// Loads. What one instruction copies counts once for each part.
    pub loads: u64,
    /// Stores; likewise.
    pub stores: u64,
    /// One after the other.
    pub cycles: u64,
    /// Lines that each cache had not.
    pub misses: Vec<u64>,
}

impl PartCounts {
    /// Loads and stores.
    pub fn accesses(&self) -> u64 {
        self.loads + self.stores
    }
}

impl DataHistogram {
    /// How many parts it has, accessed or not.
    pub(crate) fn part_count(&self) -> u64 {
        if self.part_bytes == 0 { 1 } else { (self.before_bytes + self.extent_bytes).div_ceil(self.part_bytes) }
    }

    /// The least share of the parts in which half of it is.
    pub(crate) fn half_of(&self, of: impl Fn(&PartCounts) -> u64) -> Option<f64> {
        let counts: Vec<u64> = self.parts.iter().map(|part| of(&part.counts)).collect();
        half_is_in(&counts, self.part_count())
    }

    /// What it came to in so many columns or less, each of the same number of parts: of these counts.
    pub(crate) fn columns(&self, most: usize, of: impl Fn(&PartCounts) -> u64) -> Vec<u64> {
        let parts = self.part_count();
        let parts_of_each = parts.div_ceil(most as u64);
        let mut columns = vec![0; parts.div_ceil(parts_of_each) as usize];
        for part in &self.parts {
            let from_first = self.before_bytes + part.offset;
            let number = from_first.checked_div(self.part_bytes).unwrap_or(0).min(parts - 1);
            columns[(number / parts_of_each) as usize] += of(&part.counts);
        }
        columns
    }

    /// Offsets of the first bytes of these columns.
    pub(crate) fn column_starts(&self, most: usize) -> Vec<u64> {
        let parts = self.part_count();
        let bytes_of_each = parts.div_ceil(most as u64) * self.part_bytes;
        let columns = parts.div_ceil(parts.div_ceil(most as u64));
        (0..columns).map(|column| (column * bytes_of_each).saturating_sub(self.before_bytes)).collect()
    }
}

impl HistogramReport {
    /// The report of this machine over one trace, whose keys reach over these extents. Where `only` names any, data of these names alone.
    pub fn new(
        trace: AccessTrace,
        outcome: &Outcome,
        (origins, extents): (&Origins, &[Range<u64>]),
        only: &[String],
    ) -> Self {
        let machine = outcome.machine();
        let path = machine.path(false);
        let cycles = outcome.total().cycles.max(1) as f64;
        let counts = |counts: &Counts| PartCounts {
            loads: counts.loads,
            stores: counts.stores,
            cycles: counts.cycles,
            misses: path.iter().map(|&cache| counts.misses[cache].total()).collect(),
        };
        let is_wanted = |data: &Data| only.is_empty() || only.iter().any(|name| data.is_called(name));
        let found = histograms(outcome, origins, extents).into_iter();
        let found = found.filter(|found| is_wanted(&origins.data()[found.data as usize]));
        let data = found.map(|found| {
            let data = &origins.data()[found.data as usize];
            let within = found.before_bytes..found.before_bytes + found.extent_bytes;
            let parts = found.parts.iter().map(|(start, of)| {
                let first = within.start.max(*start);
                let end = within.end.min(start + found.part_bytes);
                let (offset, bytes) = (first - within.start, end.saturating_sub(first));
                PartRow { offset, bytes, counts: counts(of) }
            });
            let mut row = DataHistogram {
                name: known(&data.name),
                data: data_row(data),
                share: found.total.cycles as f64 / cycles,
                extent_bytes: found.extent_bytes,
                before_bytes: found.before_bytes,
                part_bytes: found.part_bytes,
                total: counts(&found.total),
                half_of_accesses_in: None,
                half_of_misses_in: Vec::new(),
                parts: parts.collect(),
            };
            let accesses = row.half_of(PartCounts::accesses);
            let misses = (0..path.len()).map(|cache| row.half_of(|counts| counts.misses[cache])).collect();
            (row.half_of_accesses_in, row.half_of_misses_in) = (accesses, misses);
            row
        });
        Self {
            schema: HISTOGRAM_SCHEMA,
            trace,
            machine: machine.name.clone(),
            caches: path.iter().map(|&cache| machine.caches[cache].name.clone()).collect(),
            data: data.collect(),
        }
    }

    /// As CSV, a line for each part that was accessed.
    pub fn csv(&self) -> String {
        let mut out = "data,kind,allocated_at,offset,bytes,loads,stores,cycles".to_owned();
        for cache in &self.caches {
            let _ = write!(out, ",{}", csv_cell(&format!("{cache} misses")));
        }
        out.push('\n');
        for row in &self.data {
            let [name, place] = [row.name.clone(), row.place()].map(|text| csv_cell(&text.unwrap_or_default()));
            for PartRow { offset, bytes, counts: PartCounts { loads, stores, cycles, misses } } in &row.parts {
                let kind = row.data.kind;
                let _ = write!(out, "{name},{kind},{place},{offset},{bytes},{loads},{stores},{cycles}");
                for misses in misses {
                    let _ = write!(out, ",{misses}");
                }
                out.push('\n');
            }
        }
        out
    }

    /// As JSON, indented, with a line end.
    pub fn json(&self) -> String {
        crate::pretty(self)
    }
}

impl DataHistogram {
    /// `file:line` of the allocation.
    fn place(&self) -> Option<String> {
        let position = self.data.allocated_at.as_ref()?;
        Some(format!("{}:{}", position.file.as_deref()?, position.line?))
    }
}
