//! Loops in other orders, tried beside layouts of structures.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::Context as _;
use slimline_analyze::origins::Origins;
use slimline_analyze::relayout::Taken;
use slimline_analyze::relayout::loops::source::around;
use slimline_analyze::relayout::loops::{
    Following, FoundNests, JudgedLoops, LEAST_SHARE, LoopCode, Measured, MeasuredNest, Measuring, Nest, find,
};
use slimline_attribute::code::order::StepOrder;
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_report::relayout::{LoopFacts, LoopSource};
use slimline_report::simulation::AccessTrace;
use slimline_simulate::extents::Extents;
use slimline_simulate::locality::{KeyWalks, Walking};
use slimline_simulate::machine::Machine;
use slimline_simulate::waiting::Waiting;
use slimline_trace::path_text::path_of;

use crate::disk::{Disk, check_whole};
use crate::sources::{text, traced_line};

/// Loops whose orders are tried, at most.
const MOST_LOOPS: usize = 4;

/// How accesses go through memory, as a first pass tells.
#[derive(Default)]
pub(crate) struct Walks(KeyWalks);

impl Walks {
    /// What was found, by key.
    pub(crate) fn finish(self) -> Vec<Walking> {
        self.0.finish()
    }

    /// Who takes them in.
    pub(crate) fn taking(&mut self) -> Extents<'_> {
        Extents::handing_on(&mut self.0)
    }
}

/// Nests that were found, and what their keys stand for.
pub(crate) struct LoopSearch<'a> {
    found: FoundNests,
    /// By key.
    extents: Vec<Range<u64>>,
    origins: &'a Origins,
    /// What was read of sources, by the line's name among the origins'.
    sources: RefCell<BTreeMap<u32, LoopSource>>,
}

/// Loops of which other orders were tried.
pub(crate) struct TriedLoops<'a> {
    search: &'a LoopSearch<'a>,
    measured: Vec<MeasuredNest>,
    judged: Vec<(JudgedLoops, LoopSource)>,
}

impl<'a> LoopSearch<'a> {
    /// Of what a first pass told.
    pub(crate) fn of((walks, extents): (&[Walking], Vec<Range<u64>>), machine: &Machine, origins: &'a Origins) -> Self {
        let found = find(walks, u64::from(machine.line_bytes()), origins);
        Self { found, extents, origins, sources: RefCell::default() }
    }

    /// Who measures nests in a second pass; none where there is none.
    pub(crate) fn measuring(&self, waiting: Waiting) -> Option<Measuring> {
        (!self.found.nests.is_empty()).then(|| Measuring::new(&self.found, waiting))
    }

    /// Who follows in a second pass, of all accesses, nests of which it takes that to know whether their order may be another one; none where there are none.
    pub(crate) fn following(&self, trace: &AccessTrace) -> Option<Following> {
        let Self { found, extents, origins, .. } = self;
        // Behind a gap a pass seems to be another one.
        if !trace.missing.is_empty() {
            return None;
        }
        let standing = |(number, nest): (usize, &Nest)| {
            nest.to_follow((self.source(number, trace).pair.as_ref(), origins), extents)
        };
        let standing: Vec<_> = found.nests.iter().enumerate().map(standing).collect();
        Following::new(found, &standing)
    }

    /// Tries other orders of the loops that take most of what the program takes, as measured in so many windows; 0 where all of it was.
    ///
    /// # Errors
    /// The machine is none, or a module was cut off meanwhile.
    pub(crate) fn judge(
        &'a self,
        (measuring, following): (Option<Measuring>, Option<Following>),
        (machine, name): (&Machine, &str),
        (before, windows): (Taken, u64),
        trace: &AccessTrace,
    ) -> anyhow::Result<TriedLoops<'a>> {
        let Self { found, extents, origins, .. } = self;
        let measured = measuring.map(Measuring::finish).unwrap_or_default();
        let followed = following.map(Following::finish).unwrap_or_default();
        let all = Measured { found, nests: &measured, followed: &followed, extents, before, windows };
        let mut shares: Vec<(usize, f64)> = match measured.is_empty() {
            true => Vec::new(),
            false => found.loops.iter().map(|loops| all.share(loops)).enumerate().collect(),
        };
        shares.retain(|(_, share)| *share >= LEAST_SHARE);
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        let store = FileStore::new(&Disk);
        let modules: Vec<Module<'_>> = match shares.is_empty() {
            true => Vec::new(),
            false => trace.modules.iter().map(|module| Module::open(&store, module)).collect(),
        };
        let mut judged = Vec::new();
        for (loops, _) in shares.into_iter().take(MOST_LOOPS) {
            let nest = all.nest(&found.loops[loops]);
            let source = LoopSource { steps: self.steps(nest, trace, &modules), ..self.source(nest, trace) };
            let code = LoopCode { pair: source.pair.as_ref(), steps: source.steps.as_ref() };
            let of = all.judge(loops, machine, (code, origins));
            judged.push((of.with_context(|| format!("--machine {name}"))?, source));
        }
        check_whole()?;
        Ok(TriedLoops { search: self, measured, judged })
    }

    /// What the machine code of a nest's access that walks against the layout says about the order of steps, in any of the
    /// trace's modules as they are now.
    fn steps(&self, nest: usize, trace: &AccessTrace, modules: &[Module<'_>]) -> Option<StepOrder> {
        let nest = &self.found.nests[nest];
        let place = self.origins.name(self.origins.of(nest.streams[nest.leading].keys[0]).line);
        let (Some(path), Some(line)) = traced_line(place, trace) else { return None };
        modules.iter().find_map(|module| StepOrder::around(module, &|file| path_of(file) == path, line))
    }

    /// The source of a nest's access that walks against the layout.
    fn source(&self, nest: usize, trace: &AccessTrace) -> LoopSource {
        let nest = &self.found.nests[nest];
        let place = self.origins.of(nest.streams[nest.leading].keys[0]).line;
        let read = || {
            let (path, line) = traced_line(self.origins.name(place), trace);
            let pair = path.as_ref().zip(line).and_then(|(path, line)| around(&text(path)?, line));
            LoopSource { file: path.map(|path| path.display().to_string()), pair, steps: None, relaid: Vec::new() }
        };
        self.sources.borrow_mut().entry(place).or_insert_with(read).clone()
    }
}

impl TriedLoops<'_> {
    /// What a report is made of.
    pub(crate) fn facts(&self) -> LoopFacts<'_> {
        let Self { search, measured, judged } = self;
        LoopFacts { judged, found: &search.found, measured, origins: search.origins }
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.judged.is_empty()
    }

    /// Takes in where objects of structures are for which another layout is advised, and what these are called.
    pub(crate) fn note_relaid<'n>(
        &mut self,
        relaid: impl Iterator<Item = (u32, Range<u64>)>,
        name: impl Fn(u32) -> &'n str,
    ) {
        let Self { search, judged, .. } = self;
        let reaches = |of: &JudgedLoops| -> Vec<Range<u64>> {
            let nests = search.found.loops[of.loops].nests.iter().map(|&nest| &search.found.nests[nest]);
            let keys = nests.flat_map(|nest| nest.streams.iter().flat_map(|of| &of.keys));
            keys.filter_map(|&key| search.extents.get(key as usize)).cloned().collect()
        };
        let mut all: Vec<_> = judged.iter().map(|(of, _)| (reaches(of), BTreeSet::new())).collect();
        for (structure, object) in relaid {
            for (reaches, found) in all.iter_mut().filter(|(_, found)| !found.contains(&structure)) {
                if reaches.iter().any(|reach| reach.start < object.end && object.start < reach.end) {
                    found.insert(structure);
                }
            }
        }
        for ((_, source), (_, found)) in judged.iter_mut().zip(all) {
            source.relaid = found.into_iter().map(|structure| name(structure).to_owned()).collect();
        }
    }
}
