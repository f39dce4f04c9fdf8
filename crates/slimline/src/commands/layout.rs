//! `slimline layout`

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use slimline_analyze::full_trace::TraceBatch;
use slimline_analyze::full_trace::objects::{NO_OBJECT, ObjectAccesses};
use slimline_analyze::object_layout::arrangements;
use slimline_layout::graph::GraphBuilder;
use slimline_layout::louvain::modularity;
use slimline_layout::order::Hierarchical;
use slimline_report::layout::{GraphFacts, LayoutReport, LevelRow, order_csv};
use slimline_report::simulation::AccessTrace;
use slimline_report::text;
use slimline_simulate::access::{Access, Consumer};
use slimline_simulate::interleave::Interleaver;
use slimline_simulate::relocated::Relocated;
use slimline_simulate::simulation::{Options, Simulation};
use slimline_trace::stream::decode::{Decoder, Program};
use slimline_trace::stream::growing::GrowingProgram;
use slimline_trace::stream::order::in_order;
use slimline_trace::stream::recording::Recording;

use super::{ReportPlace, show};
use crate::cli;
use crate::machines::{machine, simulation};
use crate::tracing::{add_object, not_recorded, undecoded, unordered, why_nothing};

/// Makes the access graph in one pass of a trace, and replays it with objects in each order in a second one.
pub(crate) fn run(options: &cli::Layout) -> anyhow::Result<u8> {
    let machine = machine(&options.machine)?;
    simulation(&machine, &options.machine, &Options::default())?;
    let recording = Recording::open(&options.trace)?;
    let mut missing = Vec::new();
    let mut program = GrowingProgram::default();
    for object in recording.objects() {
        missing.extend(add_object(&mut program, &object.path, Ok(&object.section)).err());
    }
    let program = program.program();
    let mut building = Building { graph: GraphBuilder::new(options.window.into()) };
    let mut decoder = Decoder::new();
    let (found, unordered) = read(&recording, (program, &mut decoder), &mut building)?;
    missing.extend(unordered);
    missing.extend(not_recorded(&recording));
    missing.extend(undecoded(&decoder));
    if found.unknown_frees() > 0 {
        missing.push(format!("{} blocks that were freed or resized and not known", found.unknown_frees()));
    }
    let objects = found.objects();
    if objects.is_empty() {
        let why = why_nothing(&recording, "none is to a block of the heap whose allocation was traced");
        bail!("{}: {why}", options.trace.display());
    }
    let graph = building.graph.finish();
    let hierarchical = Hierarchical::of(&graph, options.seed);
    let mut all = arrangements(objects, &graph, &hierarchical, options.seed);
    if graph.edge_count() == 0 {
        // None is better than the original, which comes first.
        all.truncate(1);
    }
    let origins = found.origins(program);
    if let Some(path) = &options.order {
        write_order(path, &order_csv((objects, &origins), &hierarchical.order, &hierarchical.levels))?;
    }
    let replaying = |moves| Ok(Relocated::new(simulation(&machine, &options.machine, &Options::default())?, moves));
    let mut replaying: Vec<Relocated<'_, Simulation>> =
        all.iter().map(|arranged| replaying(&arranged.moves)).collect::<anyhow::Result<_>>()?;
    read(&recording, (program, &mut Decoder::new()), &mut replaying)?;
    let replayed: Vec<_> = (all.iter().zip(replaying))
        .map(|(arranged, relocated)| {
            let (simulation, steps) = relocated.finish();
            (arranged, simulation.finish(), steps)
        })
        .collect();
    let level = |communities: &Vec<u32>| LevelRow {
        communities: communities.iter().max().map_or(0, |most| u64::from(*most) + 1),
        modularity: modularity(&graph, communities),
    };
    let facts = GraphFacts {
        window: options.window,
        seed: options.seed,
        edges: graph.edge_count() as u64,
        weight: graph.edges().map(|(.., weight)| weight).sum(),
        levels: hierarchical.levels.iter().map(level).collect(),
        inexact: hierarchical.inexact,
    };
    let trace = AccessTrace {
        file: options.trace.display().to_string(),
        format: "trace",
        command: recording.info().command.clone(),
        threads: Some(found.threads()),
        missing,
        ..AccessTrace::default()
    };
    let report = LayoutReport::new(trace, (objects, &origins), facts, &replayed);
    let text = |out: &mut String| text::layout(out, &report, options.rows);
    show(options.format, ReportPlace::Output, || report.json(), text)?;
    Ok(0)
}

/// Takes the objects of accesses in.
struct Building {
    graph: GraphBuilder,
}

impl Consumer for Building {
    fn take(&mut self, accesses: &[Access]) {
        for access in accesses.iter().filter(|access| access.key != NO_OBJECT) {
            self.graph.access(access.thread, access.key);
        }
    }
}

/// Reads a trace once, and hands its accesses on in one order; what of the order is not sure, in words.
fn read(
    recording: &Recording,
    (program, decoder): (&Program, &mut Decoder),
    consumer: &mut dyn Consumer,
) -> anyhow::Result<(ObjectAccesses, Option<String>)> {
    let mut found = ObjectAccesses::new();
    let (mut interleaver, mut stretch) = (Interleaver::new(consumer), Vec::new());
    let mut pieces = recording.pieces(program, decoder)?;
    in_order(&mut pieces, recording.streams(), |stream, piece, range| {
        for (since, until, range) in piece.stretches(range) {
            found.update(program, &TraceBatch::of(stream, piece, range), &mut stretch, &mut |_| {});
            interleaver.stretch(stream, since, until, &mut stretch);
        }
    })?;
    interleaver.finish();
    Ok((found, unordered(pieces.stamps_back())))
}

/// All of it, or what was there stays; a pipe or a terminal is written to.
fn write_order(path: &Path, csv: &str) -> anyhow::Result<()> {
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        return fs::write(path, csv).with_context(|| path.display().to_string());
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.unfinished", std::process::id()));
    let written = fs::write(&unfinished, csv).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        _ = fs::remove_file(&unfinished);
    }
    written.with_context(|| path.display().to_string())
}
