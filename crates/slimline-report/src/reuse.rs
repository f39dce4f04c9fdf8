//! Reuse of data, as `slimline reuse` shows it.

use serde::Serialize;
use slimline_analyze::nests::{Change, NestWalk};
use slimline_analyze::origins::Origins;
use slimline_analyze::reuse::{DataReuse, LinePair, Reuse, ReuseFindings, main_cause};
use slimline_simulate::locality::{Cause, Costs, HomesOf, LocalityFindings};
use slimline_simulate::machine::Machine;
use slimline_simulate::reuse::{EstimatedMisses, Histogram, MissRatios};
use slimline_trace::stream::pages::HomesInfo;

use crate::full_trace::known;
use crate::simulation::{AccessTrace, DataRow, csv_cell, data_row, file_and_line};

/// Version of the JSON. 1: the first.
pub const REUSE_SCHEMA: u32 = 1;
/// Of its reuses a cache that data needs keeps all but this share.
const LEFT: f64 = 0.01;

/// Everything `slimline reuse` shows, and its JSON.
#[derive(Clone, Debug, Serialize)]
pub struct ReuseReport {
    /// [`REUSE_SCHEMA`].
    pub schema: u32,
    /// What was read.
    pub trace: AccessTrace,
    /// Name of the machine.
    pub machine: String,
    /// Its caches that hold data, nearest first.
    pub caches: Vec<CacheSize>,
    /// Bytes of its lines.
    pub line_bytes: u32,
    /// Lines that were accessed; an estimate where lines were sampled.
    pub lines: u64,
    /// Where homes of pages come from; none where lines were sampled.
    pub homes: Option<HomesRow>,
    /// Share of all lines whose distances were taken; none where all were.
    pub sampled: Option<f64>,
    /// Of all accesses.
    pub total: ReuseRow,
    /// By data, most cycles first.
    pub data: Vec<DataReuseRow>,
}

/// A cache of the machine.
#[derive(Clone, Debug, Serialize)]
pub struct CacheSize {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

fn cache_sizes(machine: &Machine) -> Vec<CacheSize> {
    let path = machine.path(false).into_iter().map(|cache| &machine.caches[cache]);
    path.map(|cache| CacheSize { name: cache.name.clone(), bytes: cache.bytes }).collect()
}

/// Where homes of pages come from.
#[derive(Clone, Debug, Serialize)]
pub struct HomesRow {
    /// `kernel`: it was asked while the program ran, for pages and for where threads ran. `first_touch`: simulated. `one_memory`:
    /// the machine has one.
    pub from: &'static str,
    /// Whether cycles, and what is waited for, are of what the kernel told: all nodes are memories of the machine. None where
    /// it told nothing.
    pub in_cycles: Option<bool>,
    /// Accesses of which it is not known where their page, or their thread, was: they are not in the ratio.
    pub untold_accesses: u64,
    /// What came of asking.
    pub asked: Option<HomesInfo>,
}

/// Reuse of a group of data.
#[derive(Clone, Debug, Serialize)]
pub struct DataReuseRow {
    /// What it is called; none where it is not known.
    pub name: Option<String>,
    /// What it is.
    #[serde(flatten)]
    pub data: DataRow,
    /// Numbers.
    #[serde(flatten)]
    pub reuse: ReuseRow,
    /// Which lines of code reuse what which others used; none where lines were sampled.
    pub pairs: Vec<PairRow>,
    /// Loops to change, most cycles saved first; none where lines were sampled.
    pub walks: Vec<WalkRow>,
}

/// A loop that walks against the layout, or again from the beginning, and what to do about it.
#[derive(Clone, Debug, Serialize)]
pub struct WalkRow {
    /// `interchange`: the innermost loop around the line with the loop around that. `go_on`: begin where the time before
    /// ended.
    pub change: &'static str,
    /// File of the access.
    pub file: Option<String>,
    /// Its line.
    pub line: Option<u32>,
    /// Its function.
    pub function: Option<String>,
    /// File of the line that calls that, where it was inlined: the loops may be around the call.
    pub called_in_file: Option<String>,
    /// The line.
    pub called_in_line: Option<u32>,
    /// From one step of the innermost loop to the next.
    pub inner_bytes: i64,
    /// From one time around it to the next.
    pub outer_bytes: i64,
    /// Mean steps of the innermost loop.
    pub inner_times: f64,
    /// Mean times that the loop around goes around.
    pub outer_times: f64,
    /// Accesses.
    pub accesses: u64,
    /// Mean cycles of one.
    pub cycles_per_access: f64,
    /// The same of the replay, which gives the next; none where nothing is replayed.
    pub replayed_cycles_per_access: Option<f64>,
    /// The same with the loops exchanged; none where they are not.
    pub predicted_cycles_per_access: Option<f64>,
    /// Accesses that are left.
    pub predicted_accesses: u64,
}

/// Numbers of some accesses.
#[derive(Clone, Debug, Serialize)]
pub struct ReuseRow {
    /// Accesses; those that touch several lines count for each.
    pub count: u64,
    /// Mean distance of those to lines that were accessed before, in lines.
    pub average_distance: Option<f64>,
    /// Least cache, fully associative and replaced by recency, that keeps 99 % of what is accessed again.
    pub needed_bytes: Option<u64>,
    /// Numbers of the machine; none where lines were sampled.
    pub simulated: Option<SimulatedReuse>,
    /// Accesses by distance.
    pub histogram: Vec<DistanceRow>,
    /// Accesses to lines that were never accessed before.
    pub first_uses: f64,
    /// Misses of fully associative caches of such sizes.
    pub miss_ratios: Vec<MissRatio>,
}

/// What the machine makes of them.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedReuse {
    /// Mean.
    pub cycles_per_access: f64,
    /// Share of accesses to pages of the memory near to the thread, of those of which that is known; none where there is one
    /// memory.
    pub numa_hit_ratio: Option<f64>,
    /// What most of the waiting is for: `first_use`, `thrashing`, `capacity`, `coherence`, `remote`; none where there is
    /// little.
    pub cause: Option<&'static str>,
    /// Cycles that were waited, by cause.
    pub waited: Waited,
    /// Most frequent ways from one access of an instruction to its next, at most eight.
    pub strides: Vec<StrideRow>,
    /// Share of those to the next element or back.
    pub unit_strides: Option<f64>,
}

/// Cycles beyond those of hits in the first level.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Waited {
    /// For lines that were never accessed before.
    pub first_use: u64,
    /// For lines that would be there, had they not been displaced by few others.
    pub thrashing: u64,
    /// For lines that are reused after too many others.
    pub capacity: u64,
    /// For lines that another core's store took.
    pub coherence: u64,
    /// For memory that is not near to the core.
    pub remote: u64,
}

/// A stride.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StrideRow {
    /// From one access to the next.
    pub bytes: i64,
    /// Of all strides.
    pub share: f64,
}

/// Accesses of some distances.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DistanceRow {
    /// From so many other lines on, up to the next row's.
    pub lines: u64,
    /// Accesses.
    pub count: f64,
}

/// Misses of a cache.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MissRatio {
    /// Its size.
    pub bytes: u64,
    /// Share of accesses that miss.
    pub ratio: f64,
    /// The 95 % interval, where lines were sampled.
    pub interval: Option<[f64; 2]>,
}

/// One line of code that reuses what another one used.
#[derive(Clone, Debug, Serialize)]
pub struct PairRow {
    /// File of the access.
    pub file: Option<String>,
    /// Its line.
    pub reuse_line: Option<u32>,
    /// File of the access before; none where there was none.
    pub use_file: Option<String>,
    /// Its line.
    pub use_line: Option<u32>,
    /// Whether there was an access before.
    pub is_first: bool,
    /// Mean distance.
    pub distance: Option<f64>,
    /// Mean cycles of an access.
    pub cycles_per_access: f64,
    /// Accesses.
    pub count: u64,
    /// As [`SimulatedReuse::cause`].
    pub cause: Option<&'static str>,
}

fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::FirstUse => "first_use",
        Cause::Thrashing => "thrashing",
        Cause::Capacity => "capacity",
        Cause::Coherence => "coherence",
        Cause::Remote => "remote",
    }
}

fn each(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

impl ReuseReport {
    /// Of all lines' distances.
    pub fn exact(trace: AccessTrace, found: &LocalityFindings, sums: &ReuseFindings, origins: &Origins) -> Self {
        let (machine, homes) = (&found.machine, found.homes);
        let all = &sums.total.locality;
        let (from, in_cycles) = match homes {
            HomesOf::Kernel { has_costs } => ("kernel", Some(has_costs)),
            HomesOf::FirstTouch => ("first_touch", None),
            HomesOf::OneMemory => ("one_memory", None),
        };
        let asked = trace.homes.clone();
        let homes_row = HomesRow { from, in_cycles, untold_accesses: all.costs.count - all.homed, asked };
        Self {
            schema: REUSE_SCHEMA,
            trace,
            machine: machine.name.clone(),
            caches: cache_sizes(machine),
            line_bytes: machine.line_bytes(),
            lines: found.lines,
            homes: Some(homes_row),
            sampled: None,
            total: exact_row(&sums.total, (machine, homes)),
            data: sums.data.iter().map(|data| data_reuse(data, (machine, homes), origins)).collect(),
        }
    }

    /// As CSV: for each group of data a line of all of it (`data`), then one for each line of code with the one that used the
    /// same before (`pair`; the latter is empty where there was none).
    pub fn csv(&self) -> String {
        fn number(number: Option<impl ToString>) -> String {
            number.map_or_else(String::new, |number| number.to_string())
        }
        let mean = |mean: Option<f64>| mean.map_or_else(String::new, |mean| format!("{mean:.3}"));
        let text = |text: &Option<String>| csv_cell(text.as_deref().unwrap_or_default());
        let mut out = "row,data,type,use_file,use_line,reuse_file,reuse_line,count,distance,cycles_per_access,\
                       numa_hit_ratio,cause,needed_bytes\n"
            .to_owned();
        for data in &self.data {
            let name = format!("{},{}", text(&data.name), text(&data.data.type_name));
            let ReuseRow { count, average_distance, needed_bytes, simulated, .. } = &data.reuse;
            let cycles = mean(simulated.as_ref().map(|of| of.cycles_per_access));
            let near = mean(simulated.as_ref().and_then(|of| of.numa_hit_ratio));
            let cause = simulated.as_ref().and_then(|of| of.cause).unwrap_or_default();
            let (distance, needed) = (mean(*average_distance), number(*needed_bytes));
            out += &format!("data,{name},,,,,{count},{distance},{cycles},{near},{cause},{needed}\n");
            for pair in &data.pairs {
                let from = format!("{},{}", text(&pair.use_file), number(pair.use_line));
                let to = format!("{},{}", text(&pair.file), number(pair.reuse_line));
                let PairRow { distance, cycles_per_access, count, cause, .. } = pair;
                let (distance, cause) = (mean(*distance), cause.unwrap_or_default());
                out += &format!("pair,{name},{from},{to},{count},{distance},{cycles_per_access:.3},,{cause},\n");
            }
        }
        out
    }

    /// As JSON, indented, with a line end.
    pub fn json(&self) -> String {
        crate::pretty(self)
    }
}

fn data_reuse(data: &DataReuse, machine: (&Machine, HomesOf), origins: &Origins) -> DataReuseRow {
    let of = &origins.data()[data.data as usize];
    DataReuseRow {
        name: known(&of.name),
        data: data_row(of),
        reuse: exact_row(&data.reuse, machine),
        pairs: data.pairs.iter().map(|pair| pair_row(pair, origins)).collect(),
        walks: data.walks.iter().map(|walk| walk_row(walk, origins)).collect(),
    }
}

fn walk_row(walk: &NestWalk, origins: &Origins) -> WalkRow {
    let (file, line) = file_and_line(origins.name(walk.line));
    let (called_in_file, called_in_line) = file_and_line(origins.name(walk.called_at));
    let &NestWalk { inner_bytes, outer_bytes, inner_times, outer_times, accesses, cycles, .. } = walk;
    let (change, replayed, predicted, left) = match walk.change {
        Change::Interchange { replayed, predicted } => ("interchange", Some(replayed), Some(predicted), accesses),
        Change::GoOn { accesses: left } => ("go_on", None, None, left),
    };
    WalkRow {
        change,
        file,
        line,
        function: known(origins.name(walk.function)),
        called_in_file,
        called_in_line,
        inner_bytes,
        outer_bytes,
        inner_times,
        outer_times,
        accesses,
        cycles_per_access: each(cycles, accesses),
        replayed_cycles_per_access: replayed,
        predicted_cycles_per_access: predicted,
        predicted_accesses: left,
    }
}

fn pair_row(pair: &LinePair, origins: &Origins) -> PairRow {
    let (file, reuse_line) = file_and_line(origins.name(pair.line));
    let (use_file, use_line) = pair.before.map_or((None, None), |line| file_and_line(origins.name(line)));
    let Costs { count, reuses, distances, cycles, .. } = pair.costs;
    PairRow {
        file,
        reuse_line,
        use_file,
        use_line,
        is_first: pair.before.is_none(),
        distance: (reuses > 0).then(|| each(distances, reuses)),
        cycles_per_access: each(cycles, count),
        count,
        cause: main_cause(&pair.costs).map(cause_name),
    }
}

fn exact_row(reuse: &Reuse, (machine, homes): (&Machine, HomesOf)) -> ReuseRow {
    let locality = &reuse.locality;
    let Costs { count, reuses, distances, cycles, waited } = locality.costs;
    let total = locality.walking.strides.total();
    let strides = locality.walking.strides.most_frequent().into_iter().take(8);
    let [first_use, thrashing, capacity, coherence, remote] = waited;
    let misses = locality.histogram.misses();
    let line_bytes = u64::from(machine.line_bytes());
    ReuseRow {
        count,
        average_distance: (reuses > 0).then(|| each(distances, reuses)),
        simulated: Some(SimulatedReuse {
            cycles_per_access: each(cycles, count),
            numa_hit_ratio: (homes != HomesOf::OneMemory && locality.homed > 0)
                .then(|| each(locality.near, locality.homed)),
            cause: reuse.cause.map(cause_name),
            waited: Waited { first_use, thrashing, capacity, coherence, remote },
            strides: strides.map(|s| StrideRow { bytes: s.bytes, share: each(s.count, total) }).collect(),
            unit_strides: (total > 0).then(|| each(locality.walking.strides.unit(), total)),
        }),
        ..row(&locality.histogram, &misses, line_bytes, |lines| MissRatio {
            bytes: lines * line_bytes,
            ratio: misses.ratio(lines).unwrap_or(0.0),
            interval: None,
        })
    }
}

/// What a histogram tells.
fn row(histogram: &Histogram, misses: &MissRatios, line_bytes: u64, ratio: impl Fn(u64) -> MissRatio) -> ReuseRow {
    let mut rows: Vec<DistanceRow> = Vec::new();
    for (distance, count) in histogram.distances() {
        // 0, 1, 2, 4, 8 …
        let lines = if distance == 0 { 0 } else { 1 << distance.ilog2() };
        match rows.last_mut() {
            Some(row) if row.lines == lines => row.count += count,
            _ => rows.push(DistanceRow { lines, count }),
        }
    }
    let all = misses.lines_for(0.0).max(1).next_power_of_two();
    let sizes = (0..=all.trailing_zeros()).map(|bits| 1_u64 << bits);
    let has_reuses = histogram.total() > histogram.first();
    ReuseRow {
        count: histogram.total().round() as u64,
        average_distance: histogram.mean(),
        needed_bytes: has_reuses.then(|| misses.lines_for(LEFT) * line_bytes),
        simulated: None,
        histogram: rows,
        first_uses: histogram.first(),
        miss_ratios: sizes.map(ratio).collect(),
    }
}

/// A group of data whose distances were sampled.
#[derive(Clone, Debug)]
pub struct SampledData {
    /// Which of [`Origins::data`].
    pub data: u32,
    /// All its accesses.
    pub accesses: u64,
    /// Of chosen lines.
    pub histogram: Histogram,
    /// With what is known of its error.
    pub misses: EstimatedMisses,
}

impl ReuseReport {
    /// Of the distances of some lines. `total` is of all data.
    pub fn sampled(
        trace: AccessTrace,
        machine: &Machine,
        share: f64,
        total: &SampledData,
        data: &[SampledData],
        origins: &Origins,
    ) -> Self {
        let data = data.iter().map(|sampled| {
            let of = &origins.data()[sampled.data as usize];
            DataReuseRow {
                name: known(&of.name),
                data: data_row(of),
                reuse: sampled_row(sampled, machine),
                pairs: Vec::new(),
                walks: Vec::new(),
            }
        });
        Self {
            schema: REUSE_SCHEMA,
            trace,
            machine: machine.name.clone(),
            caches: cache_sizes(machine),
            line_bytes: machine.line_bytes(),
            lines: total.histogram.first().round() as u64,
            homes: None,
            sampled: Some(share),
            total: sampled_row(total, machine),
            data: data.collect(),
        }
    }
}

fn sampled_row(sampled: &SampledData, machine: &Machine) -> ReuseRow {
    let line_bytes = u64::from(machine.line_bytes());
    let misses = sampled.histogram.misses();
    let ratio = |lines| {
        let found = sampled.misses.ratio(lines);
        MissRatio {
            bytes: lines * line_bytes,
            ratio: found.map_or(0.0, |found| found.value),
            interval: found.map(|found| [found.least, found.most]),
        }
    };
    ReuseRow { count: sampled.accesses, ..row(&sampled.histogram, &misses, line_bytes, ratio) }
}
