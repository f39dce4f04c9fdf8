//! `slimline report --format html` of a trace: what all analyses find in it, on one page.
//!
//! A first pass is for all that need no more than the accesses; a second one for who does what to the lines that were found to be shared, and
//! how the structures that were found are visited. Then layouts are tried, in passes of their own ([`relayouts`](crate::relayouts)).

use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;

use slimline_analyze::full_trace::attributed::AttributedAccesses;
use slimline_report::full_trace::TraceReport;
use slimline_report::histogram::HistogramReport;
use slimline_report::html::{self, Analysis, Finding};
use slimline_report::placement::PlacementReport;
use slimline_report::relayout::RelayoutReport;
use slimline_report::reuse::ReuseReport;
use slimline_report::sharing::SharingReport;
use slimline_report::simulation::{AccessTrace, SimulationReport};
use slimline_simulate::access::Consumer;
use slimline_simulate::extents::Extents;
use slimline_simulate::locality::Walking;
use slimline_simulate::machine::Machine;
use slimline_simulate::sharing::LineFinder;
use slimline_simulate::simulation::{Options, Simulation};
use slimline_trace::stream::decode::SiteId;

use super::{histogram, place, reuse, share, simulate, trace};
use crate::accesses::{Accesses, AttributedReader};
use crate::loops::{LoopSearch, Walks};
use crate::machines::{machine, simulation};
use crate::object_trace::ObjectReader;
use crate::prefetches::PrefetchSearch;
use crate::recorded::{Pass, Reader, RecordedTrace};
use crate::relayouts::{Search, Survey};
use crate::sources;

/// Bytes of parts that data is cut at, for histograms and for placing it: what these commands take where they are not told.
const HISTOGRAM_PART: NonZeroU64 = NonZeroU64::new(64).unwrap();
const PLACED_PART: NonZeroU64 = NonZeroU64::new(4096).unwrap();

/// The page of a trace, on the machine that the command line calls so; with `callers` blocks of the heap are told apart by who called for
/// them. What an analysis can't tell, and why, is said in its part of the page.
pub(super) fn page(directory: &Path, machine_name: &str, callers: bool) -> anyhow::Result<String> {
    let machine = machine(machine_name)?;
    let with_tlbs = machine.clone().with_usual_tlbs();
    let trace = RecordedTrace::open_traced(directory)?;
    let of = Of { trace: &trace, machine: &machine, with_tlbs: &with_tlbs, machine_name, callers };
    let FirstPass { counts, read, caches, reuse, extents, placement, finder, search, walks } = of.first_pass()?;
    let (walks, reached, sites) = walks;
    let loops = told(&read).map(|read| LoopSearch::of((&walks, reached), &with_tlbs, &read.origins));
    let made: fn() -> AttributedAccesses =
        if callers { || AttributedAccesses::new().by_callers() } else { AttributedAccesses::new };
    let of_keys = (&*sites, &*walks);
    let prefetches = told(&read).map(|read| PrefetchSearch::of(trace.program(), of_keys, &read.origins, made));
    let searches = told(&loops).and_then(|loops| Ok((loops, told(&prefetches)?)));
    let (advice, sharing) = of.second_pass(&read, finder, told(&search), searches)?;
    let findings = [
        finding(&advice, Analysis::Advice, Finding::Advice),
        finding(&caches, Analysis::Caches, Finding::Caches),
        finding(&reuse, Analysis::Reuse, Finding::Reuse),
        finding(&sharing, Analysis::Sharing, Finding::Sharing),
        finding(&extents, Analysis::Extents, Finding::Extents),
        finding(&placement, Analysis::Placement, Finding::Placement),
    ];
    let of_trace = AccessTrace {
        file: directory.display().to_string(),
        format: "trace",
        command: counts.command.clone(),
        threads: Some(counts.processes.iter().map(|process| process.threads).sum()),
        ..AccessTrace::default()
    };
    let mut page = String::new();
    html::trace(&mut page, &of_trace, Some(&counts), &findings, &sources::of_trace(&findings))?;
    Ok(page)
}

/// What the page is of.
#[derive(Clone, Copy)]
struct Of<'a> {
    trace: &'a RecordedTrace,
    machine: &'a Machine,
    /// The same for who must have TLBs.
    with_tlbs: &'a Machine,
    machine_name: &'a str,
    callers: bool,
}

/// Something that was found, or why it was not.
type Found<R> = Result<R, String>;

struct FirstPass<'a> {
    counts: TraceReport,
    read: Found<Accesses>,
    caches: Found<SimulationReport>,
    reuse: Found<ReuseReport>,
    extents: Found<HistogramReport>,
    placement: Found<PlacementReport>,
    finder: LineFinder,
    search: Found<Search<'a>>,
    /// By key: how it walks, how far it reaches, and its instruction.
    walks: (Vec<Walking>, Vec<Range<u64>>, Vec<SiteId>),
}

impl<'a> Of<'a> {
    fn accesses(&self) -> AttributedAccesses {
        self.by_callers(AttributedAccesses::new())
    }

    fn in_parts(&self, bytes: NonZeroU64) -> AttributedAccesses {
        self.by_callers(AttributedAccesses::with_parts(bytes))
    }

    fn by_callers(&self, accesses: AttributedAccesses) -> AttributedAccesses {
        if self.callers { accesses.by_callers() } else { accesses }
    }

    fn reader<'r>(&self, accesses: AttributedAccesses, consumer: &'r mut dyn Consumer) -> AttributedReader<'r>
    where
        'a: 'r,
    {
        AttributedReader::new(self.trace, accesses, consumer)
    }

    fn simulation(&self, options: &Options) -> anyhow::Result<Simulation> {
        simulation(self.machine, self.machine_name, options)
    }

    /// All that needs no more than the accesses.
    fn first_pass(&self) -> anyhow::Result<FirstPass<'a>> {
        let &Self { trace, machine, with_tlbs, machine_name, .. } = self;
        let asked = Options { classes: true, used_bytes: true, ..Options::default() };
        let mut levels = vec![self.simulation(&asked)?];
        let mut locality = reuse::of_all((machine, machine_name)).map_err(in_words);
        let mut finder = LineFinder::new(machine.line_bytes());
        let mut for_extents = self.simulation(&Options::default())?;
        let plan = place::Plan::of(machine, None, None, PLACED_PART);
        let mut placing = plan.and_then(|plan| Ok((plan, self.simulation(&Options::default())?))).map_err(in_words);
        let mut counting = trace::counting(trace);
        let (mut survey, mut walks) = (Survey::of(with_tlbs), Walks::default());
        let mut walking = walks.taking();

        // Only where there are several processes is it of any matter what they share.
        let has_processes = trace.recording().info().processes.len() > 1;
        let mut of_accesses: Vec<&mut dyn Consumer> = vec![&mut levels, &mut walking];
        let mut of_several: Vec<&mut dyn Consumer> = Vec::new();
        if has_processes { &mut of_several } else { &mut of_accesses }.push(&mut finder);
        of_accesses.extend(locality.as_mut().ok().map(|locality| -> &mut dyn Consumer { locality }));
        let mut whole = self.reader(self.accesses(), &mut of_accesses);
        let mut extents = Extents::handing_on(&mut for_extents);
        let mut by_parts = self.reader(self.in_parts(HISTOGRAM_PART), &mut extents);
        let mut placed = told_mut(&mut placing).map(|(_, simulation)| Extents::handing_on(simulation));
        let mut by_placed = told_mut(&mut placed).map(|extents| self.reader(self.in_parts(PLACED_PART), extents));
        let mut surveying = survey.reader(trace);
        let mut finding = has_processes.then(|| self.reader(self.accesses().sharing_memory(), &mut of_several));
        let mut readers: Vec<&mut dyn Reader> = vec![&mut counting, &mut whole, &mut by_parts, &mut surveying];
        readers.extend(finding.as_mut().map(|reader| -> &mut dyn Reader { reader }));
        readers.extend(by_placed.as_mut().ok().map(|reader| -> &mut dyn Reader { reader }));
        let pass = trace.read(&mut readers)?;

        let read_by = |reader: AttributedReader<'_>| reader.finish(trace, &pass).map_err(in_words);
        let counts = trace::counted(counting, trace.recording(), &pass);
        let sites = whole.sites();
        let read = read_by(whole);
        let caches = told(&read).map(|read| simulate::found(read, levels, &asked));
        let reuse = told(&read).and_then(|read| reuse::found(read, locality?).map_err(in_words));
        let (read_parts, extents) = (read_by(by_parts), extents.finish());
        let extents = read_parts.map(|read| histogram::found(&read, &for_extents.finish(), &extents, &[]));
        let (read_placed, placed) = (by_placed.and_then(read_by), placed.map(Extents::finish));
        let placement = placing.and_then(|(plan, simulation)| {
            place::found(&read_placed?, (simulation.finish(), machine_name), &placed?, &plan).map_err(in_words)
        });
        let objects = surveying.finish();
        let search = Search::of(trace, &pass, (survey, objects), (with_tlbs, machine_name)).map_err(in_words);
        let reached = walking.finish();
        let walks = (walks.finish(), reached, sites);
        Ok(FirstPass { counts, read, caches, reuse, extents, placement, finder, search, walks })
    }

    /// What needs to know which structures there are, or which lines are shared.
    fn second_pass(
        &self,
        first: &Found<Accesses>,
        finder: LineFinder,
        search: Found<&Search<'_>>,
        searches: Found<(&LoopSearch<'_>, &PrefetchSearch<'_>)>,
    ) -> anyhow::Result<(Found<RelayoutReport>, Found<SharingReport>)> {
        let &Self { trace, machine, machine_name, .. } = self;
        let threads = first.as_ref().map_or(0, |read| read.trace.threads.unwrap_or_default());
        let shared_lines = |_| share::shared_lines(finder, threads, (machine, machine_name)).map_err(in_words);
        let mut lines = told(first).and_then(shared_lines);
        let as_it_is = search.clone().and_then(|search| search.as_it_is().map_err(in_words));
        let mut visited = search.clone().and_then(|search| search.visiting(told(&as_it_is)?).map_err(in_words));
        let mut visiting = told_mut(&mut visited).map(Search::reader);
        let measuring = |search: &Search<'_>| {
            let (loops, prefetches) = searches.clone()?;
            search.measuring(loops, prefetches).map_err(in_words)
        };
        let mut measured = search.clone().and_then(measuring).ok().flatten();
        let mut measuring = measured.as_mut().map(|to| self.reader(self.accesses(), to));
        // One thread shares nothing.
        let several = lines.as_mut().ok().filter(|_| threads > 1);
        let mut sharing = several.map(|lines| self.reader(self.accesses().sharing_memory(), lines));
        let mut readers: Vec<&mut dyn Reader> = Vec::new();
        readers.extend(visiting.as_mut().ok().map(|reader| -> &mut dyn Reader { reader }));
        readers.extend(measuring.as_mut().map(|reader| -> &mut dyn Reader { reader }));
        readers.extend(sharing.as_mut().map(|reader| -> &mut dyn Reader { reader }));
        let pass = match readers.is_empty() {
            true => None,
            false => Some(trace.read(&mut readers)?),
        };
        let finish = |(reader, pass): (AttributedReader<'_>, &Pass)| reader.finish(trace, pass).map_err(in_words);
        let measured = measuring.zip(pass.as_ref()).map(finish).transpose().and(Ok(measured));
        let second = sharing.zip(pass.as_ref()).map(finish);
        let read = second.as_ref().unwrap_or(first);
        let sharing = lines.and_then(|lines| Ok(share::found(told(read)?, &lines, machine)));
        let visited = visiting.map(ObjectReader::finish).and(visited);
        let visited = visited.and_then(|visited| Ok((visited, told(&as_it_is)?)));
        let advice = search.and_then(|search| search.report(visited?, searches.clone()?, measured?).map_err(in_words));
        Ok((advice, sharing))
    }
}

fn told<R>(found: &Found<R>) -> Found<&R> {
    found.as_ref().map_err(String::clone)
}

fn told_mut<R>(found: &mut Found<R>) -> Found<&mut R> {
    found.as_mut().map_err(|why| why.clone())
}

fn in_words(error: anyhow::Error) -> String {
    format!("{error:#}")
}

fn finding<'a, R>(found: &'a Found<R>, analysis: Analysis, of: fn(&'a R) -> Finding<'a>) -> Finding<'a> {
    match found {
        Ok(report) => of(report),
        Err(why) => Finding::Untold(analysis, why),
    }
}
