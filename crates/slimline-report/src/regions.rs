//! OpenMP regions of a run, as `slimline regions` shows them.

#[cfg(test)]
pub(crate) mod a_profile;
mod accesses;
mod comparison;
mod samples;
mod session;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use slimline_regions::{
    Analysis, Code, Ended, Kind, OverheadReport, Overheads, Phase, Place, Profile, Region, Subtracted, Table, Times,
};
use slimline_trace::session::End;

use self::accesses::ByRegion;
pub use self::accesses::{AccessCounts, ByData, ChosenBy, ChosenRow, DataAccesses, RegionData, TracedRegions};
pub use self::comparison::{ComparedProcess, ComparedRegion, ComparedRun, ComparedTimes, Comparison};
pub use self::samples::{DataSamples, Estimated, SampledCounts, SampledData, SampledProcess, SampledRegionsRun};
pub use self::session::SessionRegions;
use crate::full_trace::ProgramEnd;
use crate::simulation::csv_cell;

/// Version of the JSON. 1: the first. 2: `sampled`, `samples`, `exclusive_samples`, `outside_samples`.
pub const REGIONS_SCHEMA: u32 = 2;

/// Everything `slimline regions` shows, and its JSON. Times are in nanoseconds, without what counting cost.
#[derive(Clone, Debug, Serialize)]
pub struct RegionsReport {
    /// [`REGIONS_SCHEMA`].
    pub schema: u32,
    /// What ran.
    pub command: Vec<String>,
    /// How it ended, where that is known.
    pub ended: Option<ProgramEnd>,
    /// Data whose accesses are told by regions, where the run was traced.
    pub data: Option<RegionData>,
    /// The same where the run was sampled.
    pub sampled: Option<SampledData>,
    /// Its processes that met regions, or accessed data, by their numbers.
    pub processes: Vec<RegionsProcess>,
    /// The same beside an earlier run, where one was asked for.
    pub against: Option<Comparison>,
    /// What is missing, in words.
    pub missing: Vec<String>,
}

/// One process.
#[derive(Clone, Debug, Serialize)]
pub struct RegionsProcess {
    /// Its number.
    pub pid: u32,
    /// File of its program; empty where that is not known.
    pub program: String,
    /// How long it ran.
    pub duration_ns: u64,
    /// How many threads met regions, or the initial one.
    pub threads: u64,
    /// What counting cost; none where that could not be measured, and is in the times.
    pub counting: Option<Counting>,
    /// How parallel it is.
    pub speed_up: SpeedUp,
    /// What is lost in parallel regions, most first.
    pub overheads: Vec<OverheadRow>,
    /// The same of the program: shares are of its duration times its threads.
    pub overhead: OverheadShares,
    /// Regions: those first that threads spend most time in, without the regions within.
    pub regions: Vec<RegionRow>,
    /// Time that threads spent in no region, or not at all: duration times threads, less what they were in regions, and what
    /// counting cost.
    pub outside_ns: u64,
    /// Regions within regions, parents before their children.
    pub call_graph: Vec<PathRow>,
    /// Accesses in no region.
    pub outside_accesses: Vec<DataAccesses>,
    /// What samples tell of that.
    pub outside_samples: Vec<DataSamples>,
}

/// What counting cost.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Counting {
    /// Times that a region was executed.
    pub executions: u64,
    /// What counting one of them costs, as measured in the process, in picoseconds.
    pub each_ps: u64,
    /// What was taken away, summed over threads.
    pub subtracted_ns: u64,
}

/// How parallel a program is. Work is what threads do without waiting and without what OpenMP costs, and is taken to last as
/// long on one thread.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SpeedUp {
    /// How long it was in parallel regions.
    pub parallel_ns: u64,
    /// Work in them, summed over threads.
    pub work_ns: u64,
    /// Threads that it has.
    pub threads: u64,
    /// How much faster it is than one thread would be.
    pub now: f64,
    /// The same without any overhead.
    pub without_overhead: f64,
    /// The same with ever more threads (Amdahl): the rest is serial, and bodies of a critical section come one after the other. None where nothing is so.
    pub limit: Option<f64>,
}

/// Shares that are lost.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct OverheadShares {
    /// What they are shares of.
    pub whole_ns: u64,
    /// All four.
    pub total: f64,
    /// Threads wait for one another, to coordinate.
    pub synchronization: f64,
    /// Threads have more or less work than others.
    pub imbalance: f64,
    /// There is not work for all threads.
    pub limited_parallelism: f64,
    /// The runtime starts and ends teams and tasks.
    pub management: f64,
}

/// What is lost in a parallel region, with all that is in it but nested ones.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OverheadRow {
    /// Number of the region.
    pub region: usize,
    /// Shares of its time summed over threads.
    #[serde(flatten)]
    pub shares: OverheadShares,
}

/// A region.
#[derive(Clone, Debug, Serialize)]
pub struct RegionRow {
    /// Its number: in the order in which regions were first met.
    pub number: usize,
    /// What it is.
    #[serde(flatten)]
    pub at: RegionPlace,
    /// Share of the program's duration times its threads that they were in it, without the regions within.
    pub share: f64,
    /// By thread.
    pub threads: Vec<(u32, RegionTimes)>,
    /// Over all threads.
    pub sum: RegionTimes,
    /// Accesses, with those in the regions within, where the run was traced.
    pub accesses: Vec<DataAccesses>,
    /// The same without.
    pub exclusive_accesses: Vec<DataAccesses>,
    /// Time and accesses, with those in the regions within, where the run was sampled.
    pub samples: Vec<DataSamples>,
    /// The same without.
    pub exclusive_samples: Vec<DataSamples>,
}

/// What a region is, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct RegionPlace {
    /// [`Kind::name`].
    pub kind: &'static str,
    /// Name of one that is marked in the source.
    pub name: Option<String>,
    /// Function; none where it is not known.
    pub function: Option<String>,
    /// File of the source; none where it is not known.
    pub file: Option<String>,
    /// First line.
    pub line: Option<u32>,
    /// Last line, where it is another one.
    pub last_line: Option<u32>,
    /// Which of several at that place: of `section`s.
    pub part: u32,
    /// Code address, in hexadecimal, where no line is known.
    pub address: Option<String>,
}

/// What was counted of a region on a thread, or on all.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RegionTimes {
    /// `execC`: executions of its body.
    pub count: u64,
    /// `execT`: all of its phases, with the regions within.
    pub exec_ns: u64,
    /// The same without.
    pub exclusive_ns: u64,
    /// `bodyT`, with the regions within; phases that its kind does not have are none.
    pub body_ns: Option<u64>,
    /// `enterT`.
    pub enter_ns: Option<u64>,
    /// `exitBarT`.
    pub exit_barrier_ns: Option<u64>,
    /// `exitT`.
    pub exit_ns: Option<u64>,
}

/// A region within those that are above it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PathRow {
    /// How many are above it.
    pub depth: usize,
    /// Number of the region.
    pub region: usize,
    /// Times that it was executed there, over all threads.
    pub count: u64,
    /// Time over all threads, with the regions within.
    pub exec_ns: u64,
    /// The same without.
    pub exclusive_ns: u64,
}

impl RegionsReport {
    /// Of the profiles of a run's processes.
    #[must_use]
    pub fn new(profiles: Vec<Profile>, missing: Vec<String>) -> Self {
        Self::of(profiles, missing, Accesses::Unknown)
    }

    /// The same of a run that was traced.
    #[must_use]
    pub fn traced(profiles: Vec<Profile>, missing: Vec<String>, traced: &TracedRegions<'_>) -> Self {
        Self::of(profiles, missing, Accesses::Traced(traced))
    }

    /// The same of a run that was sampled.
    #[must_use]
    pub fn sampled(missing: Vec<String>, sampled: &SampledRegionsRun<'_>) -> Self {
        let profiles = sampled.processes.iter().filter_map(|process| process.profile.clone());
        Self::of(profiles.collect(), missing, Accesses::Sampled(sampled))
    }

    fn of(profiles: Vec<Profile>, mut missing: Vec<String>, told: Accesses<'_>) -> Self {
        profiles.iter().for_each(|profile| missing.extend(lost(profile)));
        let run = profiles.iter().find_map(|profile| profile.run.clone());
        let end = run.as_ref().map(|run| match run.ended {
            Ended::Status(status) => End::Exited { status },
            Ended::Signal(signal) => End::Signaled { signal },
        });
        let mut processes = Vec::new();
        for (profile, process) in each_process(profiles, told) {
            let (row, lost) = RegionsProcess::of(profile, told, process);
            if lost > 0 {
                let what = if matches!(told, Accesses::Sampled(_)) { "samples" } else { "accesses" };
                missing.push(format!("process {}: regions of {lost} {what}, which its profile has not", row.pid));
            }
            processes.push(row);
        }
        Self {
            schema: REGIONS_SCHEMA,
            command: run.map_or_else(|| told.command().to_vec(), |run| run.command),
            ended: end.and_then(ProgramEnd::of),
            data: told.traced().map(|traced| RegionData {
                machine: traced.machine.name.clone(),
                caches: traced
                    .machine
                    .path(false)
                    .iter()
                    .map(|&cache| traced.machine.caches[cache].name.clone())
                    .collect(),
                cycles: traced.cycles,
                chosen: traced.chosen.to_vec(),
            }),
            sampled: told.sampled().map(SampledRegionsRun::data),
            processes,
            against: None,
            missing,
        }
    }

    /// The same beside an earlier run.
    #[must_use]
    pub fn against(self, then: &Self) -> Self {
        Self { against: Some(Comparison::new(then, &self)), ..self }
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> String {
        crate::pretty(self)
    }

    /// As CSV: a row for each region and thread, and where the run was traced for each data chosen. Phases that a kind does not have are
    /// empty.
    #[must_use]
    pub fn csv(&self) -> String {
        let columns = match (&self.data, &self.sampled) {
            (Some(data), _) => {
                let misses: String = data.caches.iter().map(|name| csv_cell(&format!("{name} misses")) + ",").collect();
                format!("data,within,loads,stores,bytes,{misses}from_afar,cycles")
            }
            (None, Some(_)) => DataSamples::CSV.to_owned(),
            (None, None) => "exec_count,exec_ns,exclusive_ns,body_ns,enter_ns,exit_barrier_ns,exit_ns".to_owned(),
        };
        let mut out = format!("pid,region,kind,name,function,file,line,last_line,part,thread,{columns}\n");
        let told = |accesses: &[DataAccesses], samples: &[DataSamples], start: &str, within: &str| {
            let accesses = self.data.iter().flat_map(|data| accesses.iter().map(|of| of.csv(data, start, within)));
            let samples = self.sampled.iter().flat_map(|data| samples.iter().map(|of| of.csv(data, start, within)));
            accesses.chain(samples).collect::<String>()
        };
        let is_timed = self.data.is_none() && self.sampled.is_none();
        for process in &self.processes {
            for region in &process.regions {
                let start = format!("{},{},{}", process.pid, region.number, region.at.csv());
                if is_timed {
                    region
                        .threads
                        .iter()
                        .for_each(|(thread, times)| out += &format!("{start},{thread},{}\n", times.csv()));
                }
                out += &told(&region.accesses, &region.samples, &start, "with");
                out += &told(&region.exclusive_accesses, &region.exclusive_samples, &start, "without");
            }
            let start = format!("{},,outside,,,,,,", process.pid);
            out += &told(&process.outside_accesses, &process.outside_samples, &start, "without");
        }
        out
    }
}

impl RegionPlace {
    fn csv(&self) -> String {
        let Self { kind, name, function, file, line, last_line, part, address: _ } = self;
        let text = |text: &Option<String>| csv_cell(text.as_deref().unwrap_or_default());
        let number = |number: &Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
        let (name, function, file) = (text(name), text(function), text(file));
        format!("{kind},{name},{function},{file},{},{},{part}", number(line), number(last_line))
    }
}

impl RegionTimes {
    fn csv(&self) -> String {
        let Self { count, exec_ns, exclusive_ns, body_ns, enter_ns, exit_barrier_ns, exit_ns } = self;
        let phases = [body_ns, enter_ns, exit_barrier_ns, exit_ns];
        let phases = phases.map(|ns| ns.map(|ns| ns.to_string()).unwrap_or_default()).join(",");
        format!("{count},{exec_ns},{exclusive_ns},{phases}")
    }
}

/// How accesses are told.
#[derive(Clone, Copy)]
enum Accesses<'a> {
    Unknown,
    Traced(&'a TracedRegions<'a>),
    Sampled(&'a SampledRegionsRun<'a>),
}

impl<'a> Accesses<'a> {
    fn traced(self) -> Option<&'a TracedRegions<'a>> {
        if let Self::Traced(traced) = self { Some(traced) } else { None }
    }

    fn sampled(self) -> Option<&'a SampledRegionsRun<'a>> {
        if let Self::Sampled(sampled) = self { Some(sampled) } else { None }
    }

    fn command(self) -> &'a [String] {
        match self {
            Self::Unknown => &[],
            Self::Traced(traced) => traced.command,
            Self::Sampled(sampled) => sampled.command,
        }
    }
}

/// Each process with its profile, and with its number in what was recorded, where it is in that. Those that met no region wrote none.
fn each_process(profiles: Vec<Profile>, told: Accesses<'_>) -> Vec<(Profile, Option<u32>)> {
    let without = |pid| Profile { process: pid, ..Profile::default() };
    let mut all: Vec<(Profile, Option<u32>)> = match told {
        Accesses::Unknown => profiles.into_iter().map(|profile| (profile, None)).collect(),
        Accesses::Traced(traced) => {
            let mut by_pid: BTreeMap<u32, Profile> =
                profiles.into_iter().map(|profile| (profile.process, profile)).collect();
            // A program that a process became wrote the profile: it is the last of that number.
            let own = traced.pids.iter().rev().filter_map(|&(process, pid)| {
                let own = by_pid.remove(&pid);
                let has_any = || traced.of_process(process).next().is_some();
                let profile = own.or_else(|| has_any().then(|| without(pid)))?;
                Some((profile, Some(process)))
            });
            let mut all: Vec<_> = own.collect();
            all.extend(by_pid.into_values().map(|profile| (profile, None)));
            all
        }
        // Of ranks on several machines several processes may have one number.
        Accesses::Sampled(sampled) => {
            let own = (0..).zip(sampled.processes).filter_map(|(number, process)| {
                let has_any = || sampled.of_process(number).next().is_some();
                let profile = process.profile.clone().or_else(|| has_any().then(|| without(process.pid)))?;
                Some((profile, Some(number)))
            });
            own.collect()
        }
    };
    all.sort_by_key(|(profile, process)| (profile.process, *process));
    all
}

/// What a profile lacks, in words.
fn lost(profile: &Profile) -> Vec<String> {
    let Profile {
        process,
        lost_regions,
        lost_threads,
        unknown_unwatches,
        unknown_ends,
        lost_steps,
        lost_events,
        cost,
        ..
    } = profile;
    let mut lost = Vec::new();
    if *lost_regions > 0 {
        lost.push(format!("process {process}: {lost_regions} regions too many to be told from those around them"));
    }
    if *lost_threads > 0 {
        lost.push(format!("process {process}: {lost_threads} threads that a signal met while they were counting"));
    }
    if *unknown_unwatches > 0 {
        lost.push(format!("process {process}: {unknown_unwatches} times slimline_unwatch of what is not watched"));
    }
    if *lost_events > 0 {
        lost.push(format!("process {process}: {lost_events} begins and ends of regions within what counts others"));
    }
    if *lost_steps > 0 {
        lost.push(format!(
            "process {process}: {lost_steps} changes of regions that could not be written: samples behind them are told of those before"
        ));
    }
    if *unknown_ends > 0 {
        lost.push(format!("process {process}: {unknown_ends} times slimline_region_end where no region had begun"));
    }
    if cost.is_none() {
        lost.push(format!("process {process}: what counting costs was not measured, so it is in the times"));
    }
    lost
}

impl RegionsProcess {
    /// Of a profile, with what is told of the process of that number; and how many accesses, or samples, are of no region that is known.
    fn of(profile: Profile, told: Accesses<'_>, process: Option<u32>) -> (Self, u64) {
        let (mut profile, new) = one_by_source(&profile);
        let cost = profile.cost;
        let Subtracted { executions, cost_ns } = profile.subtract_cost();
        let whole_ns = profile.duration_ns.saturating_mul(profile.threads.len() as u64);
        let tables = profile.flat();
        let numbers: HashMap<&Region, usize> =
            tables.iter().enumerate().map(|(place, table)| (&table.region, place + 1)).collect();
        let analyzed = OverheadReport::of(&profile);
        let number_of = |path| profile.node(path).map_or(0, |node| numbers[&node.region]);
        let region_of = |path| number_of(path).saturating_sub(1);
        let traced = told.traced().zip(process).map(|(traced, process)| {
            ByRegion::of(traced.of_process(process), (&profile, &new), (tables.len(), region_of))
        });
        let sampled = told.sampled().zip(process).map(|(sampled, process)| {
            let by_region = ByRegion::of(sampled.of_process(process), (&profile, &new), (tables.len(), region_of));
            (sampled, by_region)
        });
        let mut overheads: Vec<OverheadRow> = analyzed
            .regions
            .iter()
            .map(|(path, analysis)| OverheadRow { region: number_of(*path), shares: shares(analysis) })
            .collect();
        overheads.sort_by(|one, other| lost_ns(other).total_cmp(&lost_ns(one)));
        let call_graph = call_graph(&profile, &numbers);
        let in_regions = call_graph.iter().fold(0_u64, |sum, row| sum.saturating_add(row.exclusive_ns));
        let counting = cost.map(|cost| Counting {
            executions,
            each_ps: cost.inside_ps.saturating_add(cost.outside_ps),
            subtracted_ns: cost_ns,
        });
        let mut regions: Vec<RegionRow> =
            (1..).zip(&tables).map(|(number, table)| row(&profile, (number, table), whole_ns)).collect();
        regions.sort_by_key(|row| std::cmp::Reverse(row.sum.exclusive_ns));
        for row in &mut regions {
            if let Some(by_region) = &traced {
                [row.accesses, row.exclusive_accesses] = by_region.region(row.number, AccessCounts::clone);
            }
            if let Some((sampled, by_region)) = &sampled {
                [row.samples, row.exclusive_samples] = by_region.region(row.number, |of| sampled.shown(of));
            }
        }
        let process = Self {
            pid: profile.process,
            program: profile.mappings.first().map(|mapping| mapping.path.clone()).unwrap_or_default(),
            duration_ns: profile.duration_ns,
            threads: profile.threads.len() as u64,
            counting,
            speed_up: SpeedUp::of(&profile, &analyzed),
            overheads,
            overhead: shares(&analyzed.program),
            regions,
            outside_ns: whole_ns.saturating_sub(in_regions).saturating_sub(cost_ns),
            call_graph,
            outside_accesses: traced.as_ref().map_or_else(Vec::new, |all| all.outside(AccessCounts::clone)),
            outside_samples: sampled
                .as_ref()
                .map_or_else(Vec::new, |(sampled, all)| all.outside(|of| sampled.shown(of))),
        };
        let lost = traced.map_or(0, |all| all.lost) + sampled.map_or(0, |(_, all)| all.lost);
        (process, lost)
    }
}

fn lost_ns(row: &OverheadRow) -> f64 {
    row.shares.total * row.shares.whole_ns as f64
}

fn shares(analysis: &Analysis) -> OverheadShares {
    let share = |ns| analysis.percent(ns) / 100.0;
    let Overheads { synchronization_ns, imbalance_ns, limited_parallelism_ns, management_ns } = analysis.overheads;
    OverheadShares {
        whole_ns: analysis.whole_ns,
        total: share(analysis.overheads.total_ns()),
        synchronization: share(synchronization_ns),
        imbalance: share(imbalance_ns),
        limited_parallelism: share(limited_parallelism_ns),
        management: share(management_ns),
    }
}

impl SpeedUp {
    fn of(profile: &Profile, analyzed: &OverheadReport) -> Self {
        let mut in_parallel = vec![false; profile.nodes.len() + 1];
        for (path, node) in profile.paths() {
            in_parallel[path.0 as usize] = node.region.kind == Kind::Parallel || in_parallel[node.parent.0 as usize];
        }
        let work = profile.rows.iter().filter(|row| in_parallel[row.path.0 as usize]);
        let work_ns = work.fold(0_u64, |sum, row| sum.saturating_add(row.times.exclusive_ns[Phase::Body as usize]));
        let threads = profile.threads.len() as u64;
        let parallel_ns = analyzed.parallel_ns;
        let serial_ns = profile.duration_ns.saturating_sub(parallel_ns);
        // Bodies of one such construct never run at the same time; those of several may.
        let is_exclusive = |table: &&Table| matches!(table.region.kind, Kind::Critical | Kind::Atomic | Kind::Ordered);
        let exclusive_ns = |table: &Table| table.sum.phase_ns(Phase::Body);
        let one_by_one_ns = profile.flat().iter().filter(is_exclusive).map(exclusive_ns).max().unwrap_or(0);
        let least_ns = serial_ns.saturating_add(one_by_one_ns);
        let one_thread = serial_ns.saturating_add(work_ns) as f64;
        let against = |ns: f64| if ns > 0.0 { one_thread / ns } else { 1.0 };
        Self {
            parallel_ns,
            work_ns,
            threads,
            now: against(profile.duration_ns as f64),
            without_overhead: against(serial_ns as f64 + work_ns as f64 / threads.max(1) as f64),
            limit: (least_ns > 0).then(|| against(least_ns as f64)),
        }
    }
}

fn row(profile: &Profile, (number, table): (usize, &Table), whole_ns: u64) -> RegionRow {
    let kind = table.region.kind;
    let sum = times(kind, &table.sum);
    RegionRow {
        number,
        at: place(profile, &table.region, table.sum.end_address),
        share: if whole_ns == 0 { 0.0 } else { sum.exclusive_ns as f64 / whole_ns as f64 },
        threads: table.threads.iter().map(|(thread, of)| (*thread, times(kind, of))).collect(),
        sum,
        accesses: Vec::new(),
        exclusive_accesses: Vec::new(),
        samples: Vec::new(),
        exclusive_samples: Vec::new(),
    }
}

fn times(kind: Kind, times: &Times) -> RegionTimes {
    let phase = |phase: Phase| kind.phases().contains(&phase).then(|| times.phase_ns(phase));
    RegionTimes {
        count: times.count,
        exec_ns: times.exec_ns(),
        exclusive_ns: times.exclusive_exec_ns(),
        body_ns: phase(Phase::Body),
        enter_ns: phase(Phase::Enter),
        exit_barrier_ns: phase(Phase::ExitBarrier),
        exit_ns: phase(Phase::Exit),
    }
}

/// Depth first, children in the order in which they were met.
fn call_graph(profile: &Profile, numbers: &HashMap<&Region, usize>) -> Vec<PathRow> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); profile.nodes.len() + 1];
    profile.paths().for_each(|(path, node)| children[node.parent.0 as usize].push(path.0 as usize));
    let sums = profile.call_graph();
    let mut waiting: Vec<(usize, usize)> = children[0].iter().rev().map(|path| (*path, 0)).collect();
    let mut rows = Vec::new();
    while let Some((path, depth)) = waiting.pop() {
        let (node, times) = (&profile.nodes[path - 1], &sums[path - 1]);
        rows.push(PathRow {
            depth,
            region: numbers[&node.region],
            count: times.count,
            exec_ns: times.exec_ns(),
            exclusive_ns: times.exclusive_exec_ns(),
        });
        waiting.extend(children[path].iter().rev().map(|child| (*child, depth + 1)));
    }
    rows
}

/// The profile with regions of one source line as one, whatever code addresses the compiler has made of it; and the new path of each
/// path but the root.
pub(crate) fn one_by_source(profile: &Profile) -> (Profile, Vec<slimline_regions::PathId>) {
    let key = |region: &Region| match &region.place {
        Place::Code { address, part } => {
            let code = profile.code(*address).filter(|code| code.line != 0)?;
            Some((region.kind, code.file.clone(), code.line, of_source(&code.function).to_owned(), *part))
        }
        Place::Name(_) => None,
    };
    let mut first: HashMap<_, &Region> = HashMap::new();
    for (_, node) in profile.paths() {
        if let Some(key) = key(&node.region) {
            first.entry(key).or_insert(&node.region);
        }
    }
    profile.unified(|region| key(region).map_or_else(|| region.clone(), |key| first[&key].clone()))
}

fn place(profile: &Profile, region: &Region, end_address: u64) -> RegionPlace {
    let kind = region.kind.name();
    let nowhere = RegionPlace {
        kind,
        name: None,
        function: None,
        file: None,
        line: None,
        last_line: None,
        part: 0,
        address: None,
    };
    match &region.place {
        Place::Name(name) => RegionPlace { name: Some(name.to_string()), ..nowhere },
        Place::Code { address, part } => {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let code = profile.code(*address);
            let line = code.map(|code| code.line).filter(|line| *line != 0);
            let file = code.and_then(|code| some(&code.file));
            // The end that is known may be in code that was inlined from elsewhere.
            let is_behind = |end: &&Code| Some(end.line) > line && some(&end.file) == file;
            let end = profile.code(end_address).filter(is_behind).filter(|_| line.is_some());
            RegionPlace {
                function: code.and_then(|code| some(of_source(&code.function))),
                file,
                line,
                last_line: end.map(|end| end.line),
                part: *part,
                address: line.is_none().then(|| format!("{address:#x}")),
                ..nowhere
            }
        }
    }
}

/// The function that a compiler made another one of: `main` of `main._omp_fn.0`, and of `main.omp_outlined`.
fn of_source(function: &str) -> &str {
    let ends =
        [" [clone ._omp_fn", " [clone .omp_outlined", "._omp_fn.", ".omp_outlined", " (._omp_fn", " (.omp_outlined"];
    ends.iter().filter_map(|end| function.find(end)).min().map_or(function, |end| &function[..end])
}
