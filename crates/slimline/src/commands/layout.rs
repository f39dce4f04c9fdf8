//! `slimline layout`

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::bail;
use slimline_analyze::full_trace::attributed::address_space;
use slimline_analyze::full_trace::object_fields::{Field, Held};
use slimline_analyze::full_trace::objects::Object;
use slimline_analyze::object_layout::{Arranged, Arrangement, HeldBy, HeldValues, OtherRun, Replayed};
use slimline_report::layout::{GraphFacts, LargerRow, LayoutReport, OtherRunRow, write_order};
use slimline_report::layout_picture::{PANEL_CELLS, write_picture};
use slimline_report::object_graph::{DrawnGraph, MOST_DRAWN};
use slimline_report::text;
use slimline_simulate::machine::Machine;
use slimline_simulate::touched::Touching;

use super::{ReportPlace, show, write_whole};
use crate::cli;
use crate::machines::simulated_machine;
use crate::object_graph::{ObjectGraph, Objects};
use crate::object_trace::{ObjectTrace, Wanted};
use crate::say;

/// Fields that are named where there is none of the name that is asked for.
const FIELDS_NAMED: usize = 20;

/// What is wanted of objects that are known by fields, or by nothing.
fn wanted(fields: &[String]) -> Wanted {
    if fields.is_empty() { Wanted::Blocks } else { Wanted::Fields }
}

/// Makes the access graph in one pass of a trace, and replays it with objects in each order in a second one.
pub(crate) fn run(options: &cli::Layout) -> anyhow::Result<u8> {
    let drawing = options.graph.as_deref().map(drawing).transpose()?;
    if matches!(drawing, Some(Drawing::Svg)) && options.graph_objects > MOST_DRAWN {
        bail!(
            "--graph-objects {}: an SVG has {MOST_DRAWN} at most; write .dot, and have Graphviz draw it",
            options.graph_objects
        );
    }
    let cli::ObjectInput { trace: directory, window, seed } = &options.input;
    let fields = options.order_by.as_slice();
    if !fields.is_empty() && options.order.is_none() && options.order_from.is_none() {
        bail!("--order-by goes with --order FILE, --order-from TRACE, or both");
    }
    if is_standard_output(&options.order) && is_standard_output(&options.picture) {
        bail!("--order - and --picture -: one of them can be standard output");
    }
    if let Some(picture) = options.picture.as_deref().filter(|picture| !may_be_svg(picture)) {
        bail!("--picture {}: what is written is an SVG: have the name end in .svg", picture.display());
    }
    let machine = simulated_machine(&options.machine)?;
    let other = options.order_from.as_deref().map(|other| other_run(other, options)).transpose()?;
    let trace = ObjectTrace::open(directory, wanted(fields))?;
    let (found, graph) = trace.objects(*window)?;
    let graph = ObjectGraph::of(graph, *seed);
    let held = held(&found, fields)?;
    if held.as_ref().is_some_and(|held| (0..found.objects.len() as u32).all(|number| held(number).is_none())) {
        bail!("--order-by: no object of {} was seen to hold {}", found.trace.file, fields.join(" and "));
    }
    let of = (found.objects.as_slice(), found.origins.as_slice());
    let of_other_run = other.map(|other| other.order(of, held.as_ref().map(|held| held as HeldBy<'_>)));
    let (of_other_run, known) = of_other_run.unwrap_or_default();
    let all = graph.arrangements(&found, (&of_other_run, *seed), &Arrangement::ALL)?;
    let ObjectGraph { graph: edges, hierarchical } = &graph;
    let (objects, origins) = (found.objects.as_slice(), found.origins.as_slice());
    match (&options.order, held.as_ref()) {
        (Some(path), Some(held)) => {
            let line = |values: &[Held]| values.iter().map(Held::to_string).collect::<Vec<_>>().join(",");
            let mut written = 0;
            write_whole(path, |out| {
                hierarchical.order.iter().filter_map(|number| held(*number)).try_for_each(|values| {
                    written += 1;
                    writeln!(out, "{}", line(&values))
                })
            })?;
            if written < objects.len() {
                let (file, all, fields) = (path.display(), objects.len(), fields.join(" and "));
                say(format_args!("slimline: {file}: {written} of {all} objects were seen to hold {fields}"));
            }
        }
        (Some(path), None) => {
            write_whole(path, |out| write_order(out, (objects, origins), &hierarchical.order, &hierarchical.levels))?;
        }
        (None, _) => {}
    }
    drop(held);
    if let (Some(path), Some(drawing)) = (&options.graph, drawing) {
        let drawn = DrawnGraph::of((objects, origins), (edges, &hierarchical.levels), options.graph_objects);
        write_whole(path, |out| match drawing {
            Drawing::Dot => drawn.write_dot(out),
            Drawing::GraphMl => drawn.write_graphml(out),
            Drawing::Svg => written(|svg| drawn.write_svg(svg), out),
        })?;
    }
    let machine = (&machine, options.machine.as_str());
    let replayed = trace.replay(&all, machine)?;
    let larger = larger(&trace, &found, (&graph, machine), (&options.larger_by, &replayed))?;
    let facts = GraphFacts {
        window: *window,
        seed: *seed,
        edges: edges.edge_count() as u64,
        weight: edges.weight(),
        levels: graph.levels(),
        inexact: hierarchical.inexact,
        other_run: options.order_from.as_ref().map(|other| OtherRunRow {
            trace: other.display().to_string(),
            known,
            by: (!fields.is_empty()).then(|| fields.to_vec()),
        }),
        larger,
    };
    let report = LayoutReport::new(found.trace, (objects, origins), facts, &replayed);
    if let Some(path) = &options.picture {
        draw_pages(path, &trace, &report, (objects, &all))?;
    }
    let text = |out: &mut String| text::layout(out, &report, options.rows);
    let is_output_taken = is_standard_output(&options.order) || is_standard_output(&options.picture);
    let place = if is_output_taken { ReportPlace::Error } else { ReportPlace::Output };
    show(options.format, place, || report.json(), text)?;
    Ok(0)
}

/// The hierarchical order of another run's objects.
fn other_run(directory: &Path, options: &cli::Layout) -> anyhow::Result<OtherRun> {
    let fields = options.order_by.as_slice();
    let trace = ObjectTrace::open(directory, wanted(fields))?;
    let (found, graph) = trace.objects(options.input.window)?;
    found.trace.missing.iter().for_each(|what| say(format_args!("slimline: {}: missing: {what}", directory.display())));
    let order = ObjectGraph::of(graph, options.input.seed).hierarchical.order;
    let held = held(&found, fields)?;
    Ok(OtherRun::new((&found.objects, &found.origins), held.as_ref().map(|held| held as HeldBy<'_>), &order))
}

/// What the hierarchical order is worth beside that of allocation with objects as they are, and larger by each of these.
fn larger(
    trace: &ObjectTrace,
    found: &Objects,
    (graph, machine): (&ObjectGraph, (&Machine, &str)),
    (larger_by, as_they_are): (&[u64], &[Replayed<'_>]),
) -> anyhow::Result<Vec<LargerRow>> {
    if larger_by.is_empty() || graph.graph.edge_count() == 0 {
        return Ok(Vec::new());
    }
    let pairs = larger_by.iter().map(|by| graph.of_larger(found, *by)).collect::<anyhow::Result<Vec<_>>>()?.concat();
    let replayed = trace.replay(&pairs, machine)?;
    let row = |larger_by, of: &[Replayed<'_>]| {
        let cycles = |wanted| of.iter().find(|(of, ..)| of.arrangement == wanted).map_or(0, |of| of.1.total().cycles);
        let (allocated, hierarchical) = (cycles(Arrangement::Allocated), cycles(Arrangement::Hierarchical));
        LargerRow { larger_by, cycles_ratio: hierarchical as f64 / allocated.max(1) as f64 }
    };
    let larger = larger_by.iter().zip(replayed.chunks(2)).map(|(by, of)| row(*by, of));
    Ok([row(0, as_they_are)].into_iter().chain(larger).collect())
}

/// Draws what is accessed when in the orders that a picture shows.
fn draw_pages(
    path: &Path,
    trace: &ObjectTrace,
    report: &LayoutReport,
    (objects, all): (&[Object], &[Arranged]),
) -> anyhow::Result<()> {
    let drawn = [Arrangement::Original, Arrangement::Allocated, Arrangement::Hierarchical];
    let drawn: Vec<&Arranged> = all.iter().filter(|of| drawn.contains(&of.arrangement)).collect();
    let mut touching: Vec<Touching<'_>> = Vec::with_capacity(drawn.len());
    for of in &drawn {
        let objects = objects.iter().map(|object| (object.start ^ address_space(object.process), object.bytes));
        touching.push(Touching::new(objects, &of.moves, PANEL_CELLS, report.object_accesses));
    }
    trace.read(&mut touching)?;
    let touched = touching.into_iter().map(Touching::finish);
    let named: Vec<_> = drawn.iter().map(|of| of.arrangement.name()).zip(touched).collect();
    write_whole(path, |out| written(|svg| write_picture(svg, report, &named), out))
}

/// How a graph is written.
#[derive(Clone, Copy)]
enum Drawing {
    Dot,
    GraphMl,
    Svg,
}

/// Whether a picture's name says nothing else.
fn may_be_svg(path: &Path) -> bool {
    path.extension().is_none_or(|extension| extension.eq_ignore_ascii_case("svg"))
}

/// By the file's name.
fn drawing(path: &Path) -> anyhow::Result<Drawing> {
    match path.extension().and_then(OsStr::to_str) {
        Some("dot" | "gv") => Ok(Drawing::Dot),
        Some("graphml") => Ok(Drawing::GraphMl),
        Some("svg") => Ok(Drawing::Svg),
        _ => bail!("--graph {}: the name says how to write it, .svg, .dot or .graphml", path.display()),
    }
}

/// What these fields hold in an object, by the object's number. `None`: it is not asked for any.
fn held<'a>(
    found: &'a Objects,
    names: &'a [String],
) -> anyhow::Result<Option<impl Fn(u32) -> Option<HeldValues> + 'a>> {
    let fields = names.iter().map(|name| held_in(found, name)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok((!fields.is_empty()).then_some(move |number| fields.iter().map(|held| held(number)).collect()))
}

/// What one field does.
fn held_in<'a>(found: &'a Objects, name: &'a str) -> anyhow::Result<impl Fn(u32) -> Option<Held> + 'a> {
    // Where one line's objects have several of the name, the one that most of them have.
    let mut named: Vec<&Field> = found.fields.named(name).collect();
    named.sort_by_key(|field| field.known());
    let fields: HashMap<u32, &Field> = named.into_iter().map(|field| (field.origin, field)).collect();
    if fields.is_empty() {
        let names = found.fields.fields.iter().map(|field| field.name.as_str());
        // What has no name is called by its place (`+8`), which nobody who asks for a name means.
        let (unnamed, mut known): (BTreeSet<&str>, BTreeSet<&str>) = names.partition(|name| name.starts_with('+'));
        if known.is_empty() {
            known = unnamed;
        }
        let known: Vec<&str> = known.into_iter().take(FIELDS_NAMED).collect();
        let file = &found.trace.file;
        match known.is_empty() {
            true => bail!(
                "--order-by {name}: {file} tells no values (compile with slimline cc --slimline-values, or trace --collector translate --values)"
            ),
            false => bail!("--order-by {name}: no object of {file} has such a field; there are {}", known.join(", ")),
        }
    }
    Ok(move |number: u32| {
        let field = fields.get(&found.objects[number as usize].origin)?;
        field.held(found.fields.places[number as usize])
    })
}

/// Writes what is made as text.
fn written(make: impl FnOnce(&mut String) -> fmt::Result, out: &mut impl io::Write) -> io::Result<()> {
    let mut text = String::new();
    make(&mut text).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}

/// Whether what is written there goes to standard output, so that the report does not.
fn is_standard_output(path: &Option<PathBuf>) -> bool {
    path.as_ref().is_some_and(|path| path.as_os_str() == "-")
}
