//! Layouts of structures, tried on all that a recorded program accessed, beside orders of loops.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use slimline_analyze::full_trace::attributed::AttributedAccesses;
use slimline_analyze::full_trace::object_structures::{Filled, StructureShape, Structured, TouchingLine};
use slimline_analyze::full_trace::objects::{Object, ObjectOrigin};
use slimline_analyze::relayout::addresses::{TooLarge, relayout};
use slimline_analyze::relayout::allocating::allocating_cycles;
use slimline_analyze::relayout::candidates::{Candidate, Objects, Untouchable, candidates, with_inlined};
use slimline_analyze::relayout::columns::{HandedOnLines, all_handed_on, join, traced_functions};
use slimline_analyze::relayout::loops::{Following, Measuring};
use slimline_analyze::relayout::search::{Searched, is_worth_trying, release, settle};
use slimline_analyze::relayout::unstructured::{tell_apart, unstructured};
use slimline_analyze::relayout::visits::{Visiting, Visits};
use slimline_analyze::relayout::{Taken, TimeRatio, shares};
use slimline_analyze::ties::Ties;
use slimline_report::relayout::{Facts, LargePagesTaken, LastLevel, NodesTaken, RelayoutReport, Replayed};
use slimline_report::simulation::AccessTrace;
use slimline_simulate::access::{Access, Consumer};
use slimline_simulate::footprint::Footprint;
use slimline_simulate::machine::{Cache, Machine};
use slimline_simulate::page_use::{PageUse, UsedPages};
use slimline_simulate::prefetched::Chosen;
use slimline_simulate::relaid::{Relaid, Relayout};
use slimline_simulate::simulation::{LargePages, MemoryPolicy, Options};
use slimline_simulate::spread::on_threads;
use slimline_simulate::waiting::{Waited, Waiting};
use slimline_simulate::windows::{WINDOW, Windows};
use slimline_trace::stream::decode::{Program, SiteId};
use slimline_trace::stream::order::{Piece, StreamKey};

use crate::accesses::AttributedReader;
use crate::inlining::{find_inlined, owners_of};
use crate::loops::{LoopSearch, Walks};
use crate::machines::{simulated_machine, simulation};
use crate::object_trace::{FoundObjects, ObjectReader, Wanted};
use crate::prefetches::{MeasuredPrefetches, PrefetchSearch};
use crate::recorded::{Pass, Reader, RecordedTrace};
use crate::ties::{Sources, Structure, on_each};

/// Part of the time that a structure must take to be looked at.
const LEAST_SHARE: f64 = 0.03;
/// Structures that are looked at, at most.
const MOST_STRUCTURES: usize = 4;
/// And others, whose pointers lead to these.
const MOST_OWNERS: usize = 2;
/// Accesses that each layout is tried on, at most, in windows over all of them.
pub(crate) const MOST_TRIED: u64 = 1 << 24;
/// And those that the program as it is and what is advised are replayed on: some seconds of a run, a minute of ours.
pub(crate) const MOST_REPLAYED: u64 = 1 << 27;
/// Replays that run together at most: each has a machine of its own, whose memory grows with what is accessed.
const TOGETHER: usize = 8;
/// And places of objects in them: 1 GiB.
const MOST_PLACED: usize = 1 << 24;

/// Which layouts of a structure a search is among.
pub(crate) type IsTried = fn(&StructureShape, &Candidate) -> bool;

/// Searches for better layouts of the structures that a trace's program waits for, among these, on the machine of this name; on `host` where
/// none is named.
pub(crate) fn search(directory: &Path, machine: Option<&str>, is_tried: IsTried) -> anyhow::Result<RelayoutReport> {
    let name = machine.unwrap_or("host");
    let machine = simulated_machine(name)?.with_usual_tlbs();
    let trace = RecordedTrace::open(directory)?;
    let (mut survey, mut walks) = (Survey::of(&machine), Walks::default());
    let mut walking = walks.taking();
    let mut accesses = AttributedReader::new(&trace, AttributedAccesses::new(), &mut walking);
    let mut reader = survey.reader(&trace);
    let pass = trace.read(&mut [&mut reader, &mut accesses])?;
    let objects = reader.finish();
    let search = Search::of(&trace, &pass, (survey, objects), (&machine, name))?.among(is_tried);
    let sites = accesses.sites();
    let read = accesses.finish(&trace, &pass)?;
    let (extents, walks) = (walking.finish(), walks.finish());
    let loops = LoopSearch::of((&walks, extents), &machine, &read.origins);
    let of_keys = (&*sites, &*walks);
    let prefetches = PrefetchSearch::of(trace.program(), of_keys, &read.origins, AttributedAccesses::new);
    drop(walks);
    let as_it_is = search.as_it_is()?;
    let mut visited = search.visiting(&as_it_is)?;
    let mut measured = search.measuring(&loops, &prefetches)?;
    let mut visiting = Search::reader(&mut visited);
    let mut measuring = measured.as_mut().map(|to| AttributedReader::new(&trace, AttributedAccesses::new(), to));
    let mut readers: Vec<&mut dyn Reader> = vec![&mut visiting];
    readers.extend(measuring.as_mut().map(|reader| -> &mut dyn Reader { reader }));
    let pass = trace.read(&mut readers)?;
    visiting.finish();
    measuring.map(|reader| reader.finish(&trace, &pass)).transpose()?;
    search.report((visited, &as_it_is), (&loops, &prefetches), measured)
}

/// What a first pass tells of all accesses.
pub(crate) struct Survey {
    seen: (Counted, Footprint),
    /// Objects whose fields could be narrower are found by a reader of their own.
    of_values: Counted,
}

/// Objects and structures; and the same by who has values told, where the trace tells any.
pub(crate) struct SurveyReader<'a> {
    objects: ObjectReader<'a>,
    values: Option<ObjectReader<'a>>,
}

impl Survey {
    pub(crate) fn of(machine: &Machine) -> Self {
        let lines = Footprint::new(machine.line_bytes(), farthest(machine).map_or(0, Cache::lines));
        Self { seen: (Counted(0), lines), of_values: Counted(0) }
    }

    pub(crate) fn reader(&mut self, trace: &RecordedTrace) -> SurveyReader<'_> {
        let Self { seen, of_values } = self;
        let values = tells_values(trace.program()).then(|| ObjectReader::new(Wanted::Values, of_values));
        SurveyReader { objects: ObjectReader::new(Wanted::Structures, seen), values }
    }
}

impl SurveyReader<'_> {
    pub(crate) fn finish(self) -> (FoundObjects, Option<FoundObjects>) {
        (self.objects.finish(), self.values.map(ObjectReader::finish))
    }
}

impl Reader for SurveyReader<'_> {
    fn take(&mut self, program: &Program, stream: StreamKey, piece: &Piece, visits: Range<usize>) {
        if let Some(values) = &mut self.values {
            values.take(program, stream, piece, visits.clone());
        }
        self.objects.take(program, stream, piece, visits);
    }
}

/// Whether any access tells what it loaded or stored.
fn tells_values(program: &Program) -> bool {
    (0..program.site_count() as u32).any(|site| program.site(SiteId(site)).1.value.is_some())
}

/// The cache behind which is memory.
fn farthest(machine: &Machine) -> Option<&Cache> {
    machine.path(false).last().map(|&cache| &machine.caches[cache])
}

/// Sources in which traced code accessed structures.
fn sources_of(structured: &Structured) -> BTreeSet<PathBuf> {
    let of_structures = structured.structures.iter().flat_map(|shape| &shape.lines);
    let of_arrays = structured.arrays.iter().flat_map(|array| &array.lines);
    of_structures.chain(of_arrays).map(TouchingLine::path).collect()
}

/// What relies on the layouts of these, in the order in which they were searched.
fn ties_of(
    (structured, searched): (&Structured, &[Searched]),
    sources: &Sources,
    handed_on: &HandedOnLines,
    modules: &[String],
) -> anyhow::Result<Vec<Ties>> {
    let shapes = || searched.iter().map(|of| (of.structure, &structured.structures[of.structure as usize]));
    let declared: Vec<Structure<'_>> = shapes()
        .filter(|(_, shape)| !shape.is_columns)
        .map(|(_, shape)| Structure { name: &shape.name, bytes: shape.bytes.into(), declared_at: None })
        .collect();
    let mut of_declared = on_each(&declared, sources, modules.iter().map(String::as_str))?.into_iter();
    let of_columns = |structure| sources.with_lines(handed_on.get(&structure).cloned().unwrap_or_default());
    let ties = shapes().map(|(structure, shape)| match shape.is_columns {
        true => of_columns(structure),
        false => of_declared.next().expect("each that is declared has some"),
    });
    Ok(ties.collect())
}

fn objects_of(structured: &Structured, (objects, origins): (&[Object], &[ObjectOrigin]), structure: u32) -> Objects {
    let all = structured.objects.iter().zip(objects);
    let of_it = all.filter_map(|(of, object)| Some((of.filter(|of| of.structure == structure)?, object)));
    let mut found = Objects { count: 0, otherwise: 0, apart: 0 };
    for (of, object) in of_it {
        found.count += 1;
        found.otherwise += u64::from(of.filled == Filled::Otherwise);
        let is_static = origins.get(object.origin as usize).is_some_and(|origin| origin.variable.is_some());
        found.apart += u64::from(is_static || of.filled != Filled::One);
    }
    found
}

/// A trace whose structures are known, to be replayed.
pub(crate) struct Search<'a> {
    trace: &'a RecordedTrace,
    machine: (&'a Machine, &'a str),
    structured: Structured,
    sources: Sources,
    handed_on: HandedOnLines,
    origins: Vec<ObjectOrigin>,
    objects: Vec<Object>,
    /// All that it has.
    accesses: u64,
    last_level: Option<LastLevel>,
    described: AccessTrace,
    is_tried: IsTried,
}

/// How a second pass sees the structures visited, and what a machine waits for.
pub(crate) type Visited<'a> = Windows<(Visiting<'a>, Relaid<'a, Waiting>)>;

/// How it sees what loops take, who uses which pages, and what loads take that may be prefetched; and, of all accesses, what steps of loops access.
pub(crate) type Measured<'a> = (Option<Following>, Windows<InWindows<'a>>);

/// What of that is seen in windows.
type InWindows<'a> = ((Option<Measuring>, Option<PageUse>), Option<MeasuredPrefetches<'a>>);

impl<'a> Search<'a> {
    /// Of what was found in a first pass, among all layouts.
    ///
    /// # Errors
    /// No access is to an object that is known.
    pub(crate) fn of(
        trace: &'a RecordedTrace,
        pass: &Pass,
        (survey, (objects, values)): (Survey, (FoundObjects, Option<FoundObjects>)),
        machine: (&'a Machine, &'a str),
    ) -> anyhow::Result<Self> {
        let (Counted(accesses), lines) = survey.seen;
        let described = objects.described(trace, pass, accesses)?;
        let last_level = farthest(machine.0).map(|cache| LastLevel {
            name: cache.name.clone(),
            bytes: cache.bytes,
            accessed_bytes: lines.bytes(),
        });
        let found = objects.found;
        let (mut structured, origins) = (found.structured(trace.program()), found.origins(trace.program()));
        if let Some(values) = values {
            structured.narrow_as(&values.found.structured(trace.program()));
        }
        let objects = found.into_objects();
        let files = sources_of(&structured);
        let sources = Sources::of(files.iter().map(PathBuf::as_path));
        let handed_on = all_handed_on(&structured.arrays, &traced_functions(trace.program()), sources.texts());
        let handed_on = join(&mut structured, &objects, &handed_on);
        let is_tried: IsTried = |_, _| true;
        Ok(Self {
            trace,
            machine,
            structured,
            sources,
            handed_on,
            origins,
            objects,
            accesses,
            last_level,
            described,
            is_tried,
        })
    }

    /// The same among these layouts only.
    fn among(self, is_tried: IsTried) -> Self {
        Self { is_tried, ..self }
    }

    /// Objects where they are; those of no structure are told apart by what allocates them.
    ///
    /// # Errors
    /// The trace is damaged.
    pub(crate) fn as_it_is(&self) -> anyhow::Result<Relayout> {
        let none = vec![None; self.structured.structures.len()];
        let mut relayout = relayout(&self.objects, &self.structured, &none)
            .map_err(|TooLarge| anyhow!("objects are larger than the memory of a process: the trace is damaged"))?;
        tell_apart(&mut relayout, &self.objects, &self.structured);
        Ok(relayout)
    }

    /// Who sees, in a second pass, how structures are visited and what is waited for as they are.
    pub(crate) fn visiting<'r>(&'r self, as_it_is: &'r Relayout) -> anyhow::Result<Visited<'r>> {
        let visiting = Visiting::new(&self.structured, &as_it_is.objects);
        let waiting = self.waiting(MOST_REPLAYED, &Options::default())?;
        let both = (visiting, Relaid::new(waiting, as_it_is));
        Ok(Windows::new(both, self.accesses, MOST_REPLAYED))
    }

    /// Who measures, in a second pass, what loops and loads take and who uses which pages; none where no loop walks against the layout, no load has an
    /// index, and cores are near to one memory.
    pub(crate) fn measuring<'p>(
        &self,
        loops: &LoopSearch<'_>,
        prefetches: &'p PrefetchSearch<'_>,
    ) -> anyhow::Result<Option<Measured<'p>>> {
        let (machine, name) = self.machine;
        let nests = loops.measuring(self.waiting(MOST_REPLAYED, &Options::default())?);
        let has_nodes = machine.near_memories().len() > 1;
        let pages = has_nodes.then(|| simulation(machine, name, &Options::default())).transpose()?.map(PageUse::new);
        let loads = prefetches.measuring(self.waiting(MOST_REPLAYED, &Options::default())?);
        let is_wanted = nests.is_some() || pages.is_some() || loads.is_some();
        let following = || loops.following(&self.described);
        Ok(is_wanted.then(|| (following(), Windows::new(((nests, pages), loads), self.accesses, MOST_REPLAYED))))
    }

    /// Who reads for it.
    pub(crate) fn reader<'r>(visited: &'r mut Visited<'_>) -> ObjectReader<'r> {
        ObjectReader::new(Wanted::Structures, visited)
    }

    /// Tries layouts of the structures that are waited for, in as many passes as that takes, and other orders of loops.
    pub(crate) fn report(
        &self,
        (visited, as_it_is): (Visited<'_>, &Relayout),
        (loops, prefetches): (&LoopSearch<'_>, &PrefetchSearch<'_>),
        measured: Option<Measured<'_>>,
    ) -> anyhow::Result<RelayoutReport> {
        let (visiting, relaid) = visited.finish();
        let visited = visiting.finish();
        let (visits, replayed) = (&visited.visits, visited.accesses);
        let waited = relaid.finish().finish();
        let before = self.taken_as_laid_out(&waited, MOST_REPLAYED);
        let structured = &self.structured;
        let share = shares(&waited);
        let of_structure = |structure: u32| {
            let to_it = visits[structure as usize].accesses;
            let objects = objects_of(structured, (&self.objects, &self.origins), structure);
            Searched::new(structure, share(structure), to_it, objects)
        };
        // An array of numbers that one thread has, or that nobody stores to, is memory of no structure.
        let is_looked_at = |structure: &u32| {
            let shape = &structured.structures[*structure as usize];
            !shape.is_columns || shape.fields.len() > 1 || visits[*structure as usize].is_shared()
        };
        let all = (0..structured.structures.len() as u32).filter(&is_looked_at);
        let all: Vec<Searched> = all.map(of_structure).collect();
        let of_structures = all.iter().map(|of| of.share).sum();
        let unstructured = unstructured((&self.objects, structured), &share, |structure| is_looked_at(&structure));
        let mut searched: Vec<Searched> = all.iter().filter(|of| of.share >= LEAST_SHARE).cloned().collect();
        searched.sort_by(|a, b| b.share.total_cmp(&a.share));
        searched.truncate(MOST_STRUCTURES);
        searched.extend(owners_of(structured, &searched, &all).into_iter().take(MOST_OWNERS));
        find_inlined(self.trace, (&self.objects, structured), &mut searched, &all)?;
        self.try_each(&mut searched, visits)?;
        self.confirm(&mut searched, &before)?;
        let (together, large_pages) = self.together(&searched)?;
        let windows = if self.accesses > MOST_REPLAYED { MOST_REPLAYED / WINDOW } else { 0 };
        let (following, measured) = measured.unzip();
        let ((nests, pages), loads) = measured.map(Windows::finish).unwrap_or_default();
        let prefetches = prefetches.judge(loads, self, &self.described)?;
        let memory_nodes = pages.map(|pages| self.on_nodes(pages.finish(), before)).transpose()?.flatten();
        let mut loops = loops.judge((nests, following.flatten()), self.machine, (before, windows), &self.described)?;
        if !loops.is_empty() {
            loops.note_relaid(self.relaid(&searched, as_it_is), |of| &structured.structures[of as usize].name);
        }
        let ties = ties_of((structured, &searched), &self.sources, &self.handed_on, &self.described.modules)?;
        let facts = Facts {
            machine: self.machine.0,
            structured,
            origins: &self.origins,
            objects: &self.objects,
            visits,
            unstructured: &unstructured,
            ties: &ties,
            loops: loops.facts(),
            prefetches: prefetches.facts(),
        };
        let last_level = self.last_level.clone();
        let accesses = self.accesses;
        let replayed = Replayed { accesses, replayed, before, together, large_pages, memory_nodes, last_level };
        Ok(RelayoutReport::new(self.described.clone(), &facts, &searched, &replayed, of_structures))
    }

    /// Cycles that allocators take with these layouts, while the program does so many accesses at most.
    fn allocating(&self, chosen: &[Option<&Candidate>], most: u64) -> f64 {
        let all = allocating_cycles(&self.objects, &self.origins, &self.structured, chosen);
        all * (most as f64 / self.accesses.max(1) as f64).min(1.0)
    }

    /// Structures for which a layout is advised, and where each of their objects is.
    fn relaid<'s>(
        &'s self,
        searched: &[Searched],
        as_it_is: &'s Relayout,
    ) -> impl Iterator<Item = (u32, Range<u64>)> + use<'s> {
        let advised: BTreeSet<u32> = searched
            .iter()
            .filter(|of| of.advised().is_some() || of.held_in.is_some())
            .map(|of| of.structure)
            .collect();
        let objects = self.structured.objects.iter().zip(self.objects.iter().zip(&as_it_is.objects));
        objects.filter_map(move |(of, (object, placed))| {
            let structure = of.as_ref()?.structure;
            advised.contains(&structure).then(|| (structure, placed.start..placed.start.saturating_add(object.bytes)))
        })
    }

    /// A machine that is to see so many accesses at most.
    fn waiting(&self, most: u64, options: &Options) -> anyhow::Result<Waiting> {
        let (machine, name) = self.machine;
        let waiting = Waiting::new(simulation(machine, name, options)?);
        // In windows pages seem to be accessed first that were before.
        Ok(if self.accesses > most { waiting.without_faults() } else { waiting })
    }

    /// What a machine with pages of such a size and place makes of the trace in each of these layouts, of so many accesses at most. None where objects have no
    /// room in a process's addresses.
    fn replay(&self, all: &[(Options, Layouts<'_>)], most: u64) -> anyhow::Result<Vec<Option<Taken>>> {
        let mut taken = Vec::with_capacity(all.len());
        let together = (MOST_PLACED / self.objects.len().max(1)).clamp(1, TOGETHER);
        for some in all.chunks(together) {
            let of_chosen = |(_, chosen): &(_, Layouts<'_>)| relayout(&self.objects, &self.structured, chosen).ok();
            let relayouts: Vec<Option<Relayout>> = some.iter().map(of_chosen).collect();
            let mut replaying = Vec::with_capacity(some.len());
            for ((options, _), relayout) in some.iter().zip(&relayouts) {
                let Some(relayout) = relayout else { continue };
                let relaid = Relaid::new(self.waiting(most, options)?, relayout);
                replaying.push(Windows::new(relaid, self.accesses, most));
            }
            let (replayed, read) = on_threads(replaying, |to| {
                let mut reader = ObjectReader::new(Wanted::Structures, to);
                self.trace.read(&mut [&mut reader]).map(|_| drop(reader.finish()))
            });
            read?;
            let mut replayed = replayed.into_iter().map(|windows| windows.finish().finish().finish());
            taken.extend(some.iter().zip(&relayouts).map(|((_, chosen), relayout)| {
                relayout.as_ref()?;
                Some(Taken::of(&replayed.next()?, self.allocating(chosen, most)))
            }));
        }
        Ok(taken)
    }

    /// What a machine made of so many accesses at most, with objects where they are.
    pub(crate) fn taken_as_laid_out(&self, waited: &Waited, most: u64) -> Taken {
        Taken::of(waited, self.allocating(&self.with(&[]), most))
    }

    /// What the program takes with each of these prefetches, of so many accesses at most.
    pub(crate) fn with_prefetches(
        &self,
        prefetches: &PrefetchSearch<'_>,
        all: &[Vec<Chosen<'_>>],
        most: u64,
    ) -> anyhow::Result<Vec<Taken>> {
        let mut taken = Vec::with_capacity(all.len());
        for some in all.chunks(TOGETHER) {
            let mut replaying = Vec::with_capacity(some.len());
            for chosen in some {
                let prefetched = prefetches.prefetched(self.waiting(most, &Options::default())?, chosen);
                replaying.push(Windows::new(prefetched, self.accesses, most));
            }
            let (replayed, read) = on_threads(replaying, |to| {
                let mut reader = AttributedReader::new(self.trace, prefetches.accesses(), to);
                self.trace.read(&mut [&mut reader]).and_then(|pass| reader.finish(self.trace, &pass).map(drop))
            });
            read?;
            let waited = replayed.into_iter().map(|windows| windows.finish().finish().finish());
            taken.extend(waited.map(|waited| self.taken_as_laid_out(&waited, most)));
        }
        Ok(taken)
    }

    /// Tries layouts of each structure, each with nothing else changed; those that are one change on top of another once it is known what that comes to.
    fn try_each(&self, searched: &mut [Searched], visits: &[Visits]) -> anyhow::Result<()> {
        let mut found: Vec<Vec<Candidate>> = Vec::with_capacity(searched.len());
        for of in searched.iter_mut() {
            let shape = &self.structured.structures[of.structure as usize];
            let of_it = candidates(shape, &visits[of.structure as usize], of.objects).and_then(|all| {
                let all = with_inlined(all, (shape, &visits[of.structure as usize]), &of.inlined);
                let has_any = !all.is_empty();
                let asked: Vec<Candidate> = all.into_iter().filter(|of| (self.is_tried)(shape, of)).collect();
                if has_any && asked.is_empty() { Err(Untouchable::NoneAsked) } else { Ok(asked) }
            });
            of.untouchable = of_it.as_ref().err().copied();
            found.push(of_it.unwrap_or_default());
        }
        let mut ratios: Vec<Vec<Option<TimeRatio>>> = found.iter().map(|found| vec![None; found.len()]).collect();
        let with = |&(of, number): &(usize, usize)| {
            (Options::default(), self.with(&[(searched[of].structure, &found[of][number])]))
        };
        let numbered = || (0..).zip(&found).flat_map(|(of, found)| (0..found.len()).map(move |number| (of, number)));
        let plain: Vec<_> = numbered().filter(|&(of, number)| !found[of][number].is_combined()).collect();
        let mut all = vec![(Options::default(), self.with(&[]))];
        all.extend(plain.iter().map(with));
        let mut taken = self.replay(&all, MOST_TRIED)?.into_iter();
        let Some(before) = taken.next().flatten() else { return Ok(()) };
        let ratio = |taken: Option<Taken>| taken.map(|taken| TimeRatio::of(&taken, &before));
        for ((of, number), taken) in plain.into_iter().zip(taken) {
            ratios[of][number] = ratio(taken);
        }
        let is_next = |&(of, number): &(usize, usize)| {
            let candidate = &found[of][number];
            candidate.is_combined() && is_worth_trying(candidate, found[of].iter().zip(&ratios[of]))
        };
        let combined: Vec<_> = numbered().filter(is_next).collect();
        let taken = self.replay(&combined.iter().map(with).collect::<Vec<_>>(), MOST_TRIED)?;
        for ((of, number), taken) in combined.into_iter().zip(taken) {
            ratios[of][number] = ratio(taken);
        }
        for ((of, found), ratios) in searched.iter_mut().zip(found).zip(ratios) {
            // What has no room was not tried, nor what is not worth it.
            let tried = found.into_iter().zip(ratios).filter_map(|(candidate, ratio)| Some((candidate, ratio?)));
            let (found, ratios): (Vec<Candidate>, Vec<TimeRatio>) = tried.unzip();
            of.judge(found, &ratios);
        }
        settle(searched);
        Ok(())
    }

    /// All structures, these so.
    fn with<'c>(&self, some: &[(u32, &'c Candidate)]) -> Layouts<'c> {
        let mut chosen = vec![None; self.structured.structures.len()];
        some.iter().for_each(|(structure, candidate)| chosen[*structure as usize] = Some(*candidate));
        chosen
    }

    /// Replays what the program as it is was replayed on with each change that is to be advised alone. One that does not save enough so is not
    /// advised.
    fn confirm(&self, searched: &mut [Searched], before: &Taken) -> anyhow::Result<()> {
        let is_open = |of: &Searched| of.chosen.is_some() && of.confirmed.is_none();
        let of_change: Vec<usize> = (0..searched.len()).filter(|&of| is_open(&searched[of])).collect();
        let mut each = Vec::with_capacity(of_change.len());
        for &of in &of_change {
            if let Some(tried) = searched[of].advised() {
                each.push((Options::default(), self.with(&[(searched[of].structure, &tried.candidate)])));
            }
        }
        let taken = self.replay(&each, MOST_REPLAYED)?;
        for (of, taken) in of_change.into_iter().zip(taken) {
            // It had room as it was tried.
            if let Some(taken) = taken {
                searched[of].confirm(taken, before);
            }
        }
        if release(searched) { self.confirm(searched, before) } else { Ok(()) }
    }

    /// All that is advised together; and the program as it is on large pages, and with that: none on a machine whose TLBs have no such pages.
    fn together(&self, searched: &[Searched]) -> anyhow::Result<(Option<Taken>, Option<LargePagesTaken>)> {
        let advised: Vec<_> = searched.iter().filter_map(|of| Some((of.structure, &of.advised()?.candidate))).collect();
        let has_large_pages = self.machine.0.tlbs.iter().any(|tlb| tlb.large_pages);
        let on_large_pages = || Options { large_pages: LargePages::All, ..Options::default() };
        let mut all = Vec::new();
        if has_large_pages {
            all.push((on_large_pages(), self.with(&[])));
        }
        if has_large_pages && !advised.is_empty() {
            all.push((on_large_pages(), self.with(&advised)));
        }
        if advised.len() > 1 {
            all.push((Options::default(), self.with(&advised)));
        }
        let mut taken = self.replay(&all, MOST_REPLAYED)?;
        let together = match advised.as_slice() {
            [] => None,
            // That was confirmed.
            [(one, _)] => searched.iter().find(|of| of.structure == *one).and_then(|of| of.confirmed),
            _ => taken.pop().flatten(),
        };
        let mut large = taken.into_iter();
        let alone = large.next().flatten();
        let with_advised = large.next().flatten();
        Ok((together, alone.map(|alone| LargePagesTaken { alone, with_advised })))
    }

    /// The program as it is, which takes this, with its pages in other nodes' memories.
    fn on_nodes(
        &self,
        UsedPages { touched, used, keys }: UsedPages,
        before: Taken,
    ) -> anyhow::Result<Option<NodesTaken>> {
        // In windows alone pages seem to be touched first that were before; all accesses are as before.
        let is_in_windows = self.accesses > MOST_REPLAYED;
        let policies = [Some(MemoryPolicy::Interleaved), Some(used), is_in_windows.then_some(touched)];
        let of = |memory| (Options { memory, ..Options::default() }, self.with(&[]));
        let taken = self.replay(&policies.into_iter().flatten().map(of).collect::<Vec<_>>(), MOST_REPLAYED)?;
        let (interleaved, used, touched) = match taken[..] {
            [Some(interleaved), Some(used)] => (interleaved, used, before),
            [Some(interleaved), Some(used), Some(touched)] => (interleaved, used, touched),
            _ => return Ok(None),
        };
        Ok(Some(NodesTaken { touched, interleaved, used, keys }))
    }
}

/// By structure: the layout that it has, where it is not as it is.
type Layouts<'a> = Vec<Option<&'a Candidate>>;

/// How many accesses there were.
struct Counted(u64);

impl Consumer for Counted {
    fn take(&mut self, accesses: &[Access]) {
        self.0 += accesses.len() as u64;
    }
}
