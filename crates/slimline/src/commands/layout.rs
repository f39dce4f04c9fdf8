//! `slimline layout`

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use slimline_analyze::full_trace::object_fields::Field;
use slimline_analyze::object_layout::Arrangement;
use slimline_report::layout::{GraphFacts, LayoutReport, write_order};
use slimline_report::object_graph::DrawnGraph;
use slimline_report::text;

use super::{ReportPlace, show};
use crate::cli;
use crate::machines::simulated_machine;
use crate::object_graph::{ObjectGraph, ObjectTrace, Objects};
use crate::say;

/// Fields that are named where there is none of the name that is asked for.
const FIELDS_NAMED: usize = 20;

/// Makes the access graph in one pass of a trace, and replays it with objects in each order in a second one.
pub(crate) fn run(options: &cli::Layout) -> anyhow::Result<u8> {
    let machine = simulated_machine(&options.machine)?;
    let drawing = options.graph.as_deref().map(drawing).transpose()?;
    let cli::ObjectInput { trace: directory, window, seed } = &options.input;
    let (trace, missing) = ObjectTrace::open(directory, options.order_by.is_some())?;
    let (found, graph) = trace.objects(directory, *window, missing)?;
    let graph = ObjectGraph::of(graph, *seed);
    let all = graph.arrangements(&found, (&Arrangement::ALL, *seed))?;
    let ObjectGraph { graph: edges, hierarchical } = &graph;
    let (objects, origins) = (found.objects.as_slice(), found.origins.as_slice());
    match (&options.order, &options.order_by) {
        (Some(path), Some(field)) => {
            let values = in_order(&found, &hierarchical.order, field)?;
            write_whole(path, |out| values.iter().try_for_each(|value| writeln!(out, "{value}")))?;
            if values.len() < objects.len() {
                let (file, written, all) = (path.display(), values.len(), objects.len());
                say(format_args!("slimline: {file}: {written} of {all} objects were seen to hold {field}"));
            }
        }
        (Some(path), None) => {
            write_whole(path, |out| write_order(out, (objects, origins), &hierarchical.order, &hierarchical.levels))?;
        }
        (None, _) => {}
    }
    if let (Some(path), Some(drawing)) = (&options.graph, drawing) {
        let drawn = DrawnGraph::of((objects, origins), (edges, &hierarchical.levels), options.graph_objects);
        write_whole(path, |out| match drawing {
            Drawing::Dot => drawn.write_dot(out),
            Drawing::GraphMl => drawn.write_graphml(out),
        })?;
    }
    let replayed = trace.replay(&all, (&machine, &options.machine))?;
    let facts = GraphFacts {
        window: *window,
        seed: *seed,
        edges: edges.edge_count() as u64,
        weight: edges.weight(),
        levels: graph.levels(),
        inexact: hierarchical.inexact,
    };
    let report = LayoutReport::new(found.trace, (objects, origins), facts, &replayed);
    let text = |out: &mut String| text::layout(out, &report, options.rows);
    show(options.format, ReportPlace::Output, || report.json(), text)?;
    Ok(0)
}

/// How a graph is written.
#[derive(Clone, Copy)]
enum Drawing {
    Dot,
    GraphMl,
}

/// By the file's name.
fn drawing(path: &Path) -> anyhow::Result<Drawing> {
    match path.extension().and_then(OsStr::to_str) {
        Some("dot" | "gv") => Ok(Drawing::Dot),
        Some("graphml") => Ok(Drawing::GraphMl),
        _ => bail!("--graph {}: the name says how to write it, .dot or .graphml", path.display()),
    }
}

/// What a field holds in each object that has it, in an order of objects.
fn in_order(found: &Objects, order: &[u32], name: &str) -> anyhow::Result<Vec<f64>> {
    // Where one line's objects have several of the name, the one that most of them have.
    let mut named: Vec<&Field> = found.fields.named(name).collect();
    named.sort_by_key(|field| field.known());
    let fields: HashMap<u32, &Field> = named.into_iter().map(|field| (field.origin, field)).collect();
    if fields.is_empty() {
        let known: BTreeSet<&str> = found.fields.fields.iter().map(|field| field.name.as_str()).collect();
        let known: Vec<&str> = known.into_iter().take(FIELDS_NAMED).collect();
        match known.is_empty() {
            true => bail!(
                "--order-by {name}: the trace tells no values (compile with slimline cc --slimline-values, or trace --collector translate --values)"
            ),
            false => bail!("--order-by {name}: no object has such a field; there are {}", known.join(", ")),
        }
    }
    let value = |&number: &u32| {
        let field = fields.get(&found.objects[number as usize].origin)?;
        field.value(found.fields.places[number as usize])
    };
    Ok(order.iter().filter_map(value).collect())
}

/// All of it, or what was there stays; a pipe or a terminal is written to.
fn write_whole(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> anyhow::Result<()> {
    let write_to = |path: &OsStr| {
        let mut out = BufWriter::new(File::create(path)?);
        write(&mut out)?;
        out.flush()
    };
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        return write_to(path.as_os_str()).with_context(|| path.display().to_string());
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.unfinished", std::process::id()));
    let written = write_to(&unfinished).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        _ = fs::remove_file(&unfinished);
    }
    written.with_context(|| path.display().to_string())
}
