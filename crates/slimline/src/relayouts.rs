//! Layouts of structures, tried on all that a recorded program accessed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use slimline_analyze::full_trace::object_structures::{Filled, Structured, TouchingLine};
use slimline_analyze::full_trace::objects::Object;
use slimline_analyze::relayout::addresses::{TooLarge, relayout};
use slimline_analyze::relayout::candidates::{Candidate, Objects, candidates};
use slimline_analyze::relayout::columns::{HandedOnLines, all_handed_on, join, traced_functions};
use slimline_analyze::relayout::plain_name;
use slimline_analyze::relayout::search::Searched;
use slimline_analyze::relayout::ties::{Tie, ties};
use slimline_analyze::relayout::visits::{Visiting, Visits};
use slimline_analyze::relayout::{Taken, TimeRatio, share};
use slimline_report::relayout::{Facts, LargePagesTaken, LastLevel, RelayoutReport, Replayed};
use slimline_simulate::access::{Access, Consumer};
use slimline_simulate::footprint::Footprint;
use slimline_simulate::machine::{Cache, Machine};
use slimline_simulate::relaid::{Relaid, Relayout};
use slimline_simulate::simulation::{LargePages, Options};
use slimline_simulate::spread::on_threads;
use slimline_simulate::waiting::{Waited, Waiting};
use slimline_simulate::windows::Windows;
use slimline_trace::stream::decode::Decoder;

use crate::machines::simulation;
use crate::object_trace::{ObjectTrace, Wanted};
use crate::sources::text;

/// Part of the time that a structure must take to be looked at.
const LEAST_SHARE: f64 = 0.03;
/// Structures that are looked at, at most.
const MOST_STRUCTURES: usize = 4;
/// Accesses that each layout is tried on, at most, in windows over all of them.
const MOST_TRIED: u64 = 1 << 25;
/// And those that the program as it is and what is advised are replayed on: some seconds of a run, a minute of ours.
const MOST_REPLAYED: u64 = 1 << 27;
/// Replays that run together at most: each has a machine of its own, whose memory grows with what is accessed.
const TOGETHER: usize = 8;
/// And places of objects in them: 1 GiB.
const MOST_PLACED: usize = 1 << 24;

/// Searches for better layouts of the structures that a trace's program waits for.
pub(crate) fn search(directory: &Path, machine: (&Machine, &str)) -> anyhow::Result<RelayoutReport> {
    let trace = ObjectTrace::open(directory, Wanted::Structures)?;
    let farthest = machine.0.path(false).last().map(|&cache| &machine.0.caches[cache]);
    let lines = Footprint::new(machine.0.line_bytes(), farthest.map_or(0, Cache::lines));
    let mut first = (Counted(0), lines);
    let (found, described) = trace.read_first(directory, &mut first, |(count, _)| count.0)?;
    let (count, lines) = first;
    let last_level =
        farthest.map(|cache| LastLevel { name: cache.name.clone(), bytes: cache.bytes, accessed_bytes: lines.bytes() });
    let (mut structured, origins) = (found.structured(trace.program()), found.origins(trace.program()));
    if trace.tells_values() {
        let (found, _) = trace.read_for(Wanted::Values, &mut Decoder::new(), &mut Counted(0))?;
        structured.narrow_as(&found.structured(trace.program()));
    }
    let objects = found.into_objects();
    let sources = sources_of(&structured);
    let handed_on = all_handed_on(&structured.arrays, &traced_functions(trace.program()), &sources);
    let handed_on = join(&mut structured, &objects, &handed_on);
    let replays = Replays { trace: &trace, objects: &objects, structured: &structured, machine, accesses: count.0 };
    let (visits, replayed, waited) = replays.as_it_is()?;
    let before = Taken::of(&waited);
    let of_structure = |structure: u32| {
        let to_it = visits[structure as usize].accesses;
        Searched {
            structure,
            share: share(&waited, structure, (to_it, replayed)),
            accesses: to_it,
            objects: objects_of(&structured, structure),
            untouchable: None,
            tried: Vec::new(),
            chosen: None,
            confirmed: None,
        }
    };
    let mut searched: Vec<Searched> = (0..structured.structures.len() as u32).map(of_structure).collect();
    let of_structures = searched.iter().map(|of| of.share).sum();
    searched.sort_by(|a, b| b.share.total_cmp(&a.share));
    searched.retain(|of| of.share >= LEAST_SHARE);
    searched.truncate(MOST_STRUCTURES);
    replays.try_each(&mut searched, &visits)?;
    let together = replays.confirm(&mut searched, &before)?;
    let large_pages = replays.with_large_pages(&searched)?;
    let ties = ties_of(&structured, &searched, &sources, &handed_on);
    let facts = Facts {
        machine: machine.0,
        structured: &structured,
        origins: &origins,
        objects: &objects,
        visits: &visits,
        ties: &ties,
    };
    let replayed = Replayed { accesses: count.0, replayed, before, together, large_pages, last_level };
    Ok(RelayoutReport::new(described, &facts, &searched, &replayed, of_structures))
}

/// Sources in which traced code accessed structures, as far as they are on this machine, with their paths.
fn sources_of(structured: &Structured) -> Vec<(String, String)> {
    let of_structures = structured.structures.iter().flat_map(|shape| &shape.lines);
    let of_arrays = structured.arrays.iter().flat_map(|array| &array.lines);
    let files: BTreeSet<PathBuf> = of_structures.chain(of_arrays).map(TouchingLine::path).collect();
    files.into_iter().filter_map(|file| Some((file.display().to_string(), text(&file)?))).collect()
}

/// What the program's sources rely on of the layouts of these; none where no source is here.
fn ties_of(
    structured: &Structured,
    searched: &[Searched],
    sources: &[(String, String)],
    handed_on: &HandedOnLines,
) -> Vec<Option<Vec<(String, Tie)>>> {
    let of = |searched: &Searched| {
        let shape = &structured.structures[searched.structure as usize];
        let in_file = |(file, text): &(String, String)| {
            ties(plain_name(&shape.name), text).into_iter().map(|tie| (file.clone(), tie)).collect::<Vec<_>>()
        };
        let found = match shape.is_columns {
            true => handed_on.get(&searched.structure).cloned().unwrap_or_default(),
            false => sources.iter().flat_map(in_file).collect(),
        };
        (!sources.is_empty()).then_some(found)
    };
    searched.iter().map(of).collect()
}

fn objects_of(structured: &Structured, structure: u32) -> Objects {
    let of_it = structured.objects.iter().flatten().filter(|of| of.structure == structure);
    let mut objects = Objects { count: 0, otherwise: 0 };
    for of in of_it {
        objects.count += 1;
        objects.otherwise += u64::from(of.filled == Filled::Otherwise);
    }
    objects
}

/// A trace that is replayed.
struct Replays<'a> {
    trace: &'a ObjectTrace,
    objects: &'a [Object],
    structured: &'a Structured,
    machine: (&'a Machine, &'a str),
    /// All that it has.
    accesses: u64,
}

impl Replays<'_> {
    /// A machine that is to see so many accesses at most.
    fn waiting(&self, most: u64, large_pages: LargePages) -> anyhow::Result<Waiting> {
        let (machine, name) = self.machine;
        let waiting = Waiting::new(simulation(machine, name, &Options { large_pages, ..Options::default() })?);
        // In windows pages seem to be accessed first that were before.
        Ok(if self.accesses > most { waiting.without_faults() } else { waiting })
    }

    /// How structures are visited, the accesses that were replayed, and what is waited for as they are.
    fn as_it_is(&self) -> anyhow::Result<(Vec<Visits>, u64, Waited)> {
        let none = vec![None; self.structured.structures.len()];
        let as_it_is = relayout(self.objects, self.structured, &none)
            .map_err(|TooLarge| anyhow!("objects are larger than the memory of a process: the trace is damaged"))?;
        let starts: Vec<u64> = as_it_is.objects.iter().map(|object| object.start).collect();
        let visiting = Visiting::new(self.structured, &starts);
        let both = (visiting, Relaid::new(self.waiting(MOST_REPLAYED, LargePages::None)?, &as_it_is));
        let mut windows = Windows::new(both, self.accesses, MOST_REPLAYED);
        self.trace.read(&mut Decoder::new(), &mut windows)?;
        let (visiting, relaid) = windows.finish();
        let (visits, replayed) = visiting.finish();
        Ok((visits, replayed, relaid.finish().finish()))
    }

    /// What a machine makes of the trace in each of these layouts, of so many accesses at most. None where objects have no room in a process's
    /// addresses.
    fn replay(
        &self,
        all: &[Vec<Option<&Candidate>>],
        most: u64,
        large_pages: &LargePages,
    ) -> anyhow::Result<Vec<Option<Taken>>> {
        let mut taken = Vec::with_capacity(all.len());
        let together = (MOST_PLACED / self.objects.len().max(1)).clamp(1, TOGETHER);
        for some in all.chunks(together) {
            let of_chosen = |chosen: &Vec<_>| relayout(self.objects, self.structured, chosen).ok();
            let relayouts: Vec<Option<Relayout>> = some.iter().map(of_chosen).collect();
            let mut replaying = Vec::with_capacity(some.len());
            for relayout in relayouts.iter().flatten() {
                replaying.push(Windows::new(
                    Relaid::new(self.waiting(most, large_pages.clone())?, relayout),
                    self.accesses,
                    most,
                ));
            }
            let (replayed, read) = on_threads(replaying, |to| self.trace.read(&mut Decoder::new(), to));
            read?;
            let mut replayed = replayed.into_iter().map(|windows| Taken::of(&windows.finish().finish().finish()));
            taken.extend(relayouts.iter().map(|relayout| relayout.as_ref().and_then(|_| replayed.next())));
        }
        Ok(taken)
    }

    /// Tries layouts of each structure, each with nothing else changed.
    fn try_each(&self, searched: &mut [Searched], visits: &[Visits]) -> anyhow::Result<()> {
        let mut found: Vec<Vec<Candidate>> = Vec::with_capacity(searched.len());
        for of in searched.iter_mut() {
            let shape = &self.structured.structures[of.structure as usize];
            let of_it = candidates(shape, &visits[of.structure as usize], of.objects);
            of.untouchable = of_it.as_ref().err().copied();
            found.push(of_it.unwrap_or_default());
        }
        let mut all = vec![self.with(&[])];
        for (of, found) in searched.iter().zip(&found) {
            all.extend(found.iter().map(|candidate| self.with(&[(of.structure, candidate)])));
        }
        let mut taken = self.replay(&all, MOST_TRIED, &LargePages::None)?.into_iter();
        let Some(before) = taken.next().flatten() else { return Ok(()) };
        for (of, found) in searched.iter_mut().zip(found) {
            // What has no room was not tried.
            let tried =
                found.into_iter().zip(taken.by_ref()).filter_map(|(candidate, taken)| Some((candidate, taken?)));
            let tried = tried.map(|(candidate, taken)| (candidate, TimeRatio::of(&taken, &before)));
            let (found, ratios): (Vec<Candidate>, Vec<TimeRatio>) = tried.unzip();
            of.judge(found, &ratios);
        }
        Ok(())
    }

    /// All structures, these so.
    fn with<'c>(&self, some: &[(u32, &'c Candidate)]) -> Vec<Option<&'c Candidate>> {
        let mut chosen = vec![None; self.structured.structures.len()];
        some.iter().for_each(|(structure, candidate)| chosen[*structure as usize] = Some(*candidate));
        chosen
    }

    /// Replays what the program as it is was replayed on with what is to be advised: each change alone, and all of them together. One that alone
    /// does not save enough is not advised.
    fn confirm(&self, searched: &mut [Searched], before: &Taken) -> anyhow::Result<Option<Taken>> {
        let of_change: Vec<usize> = (0..searched.len()).filter(|&of| searched[of].chosen.is_some()).collect();
        let mut each = Vec::with_capacity(of_change.len());
        for &of in &of_change {
            each.extend(searched[of].advised().map(|tried| self.with(&[(searched[of].structure, &tried.candidate)])));
        }
        let taken = self.replay(&each, MOST_REPLAYED, &LargePages::None)?;
        for (of, taken) in of_change.into_iter().zip(taken) {
            // It had room as it was tried.
            if let Some(taken) = taken {
                searched[of].confirm(taken, before);
            }
        }
        let advised = searched.iter().filter_map(|of| Some((of.structure, &of.advised()?.candidate)));
        match advised.collect::<Vec<_>>().as_slice() {
            [] => Ok(None),
            [(one, _)] => Ok(searched.iter().find(|of| of.structure == *one).and_then(|of| of.confirmed)),
            several => Ok(self.replay(&[self.with(several)], MOST_REPLAYED, &LargePages::None)?.pop().flatten()),
        }
    }

    /// The program as it is on large pages, and with all that is advised; none on a machine whose TLBs have no such pages.
    fn with_large_pages(&self, searched: &[Searched]) -> anyhow::Result<Option<LargePagesTaken>> {
        let (machine, _) = self.machine;
        if !machine.tlbs.iter().any(|tlb| tlb.large_pages) {
            return Ok(None);
        }
        let advised: Vec<_> = searched.iter().filter_map(|of| Some((of.structure, &of.advised()?.candidate))).collect();
        let mut all = vec![self.with(&[])];
        if !advised.is_empty() {
            all.push(self.with(&advised));
        }
        let taken = self.replay(&all, MOST_REPLAYED, &LargePages::All)?;
        let at = |number: usize| taken.get(number).copied().flatten();
        Ok(at(0).map(|alone| LargePagesTaken { alone, with_advised: at(1) }))
    }
}

/// How many accesses there were.
struct Counted(u64);

impl Consumer for Counted {
    fn take(&mut self, accesses: &[Access]) {
        self.0 += accesses.len() as u64;
    }
}
