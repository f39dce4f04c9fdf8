//! `slimline learn`

use slimline_analyze::object_layout::{Arrangement, verdict};
use slimline_analyze::object_learning::{Options as LearningOptions, is_anything_found, learn, of_most_allocated};
use slimline_report::layout::VerdictRow;
use slimline_report::learning::{LearningFacts, LearningReport};
use slimline_report::text;
use slimline_simulate::simulation::Options;

use super::{ReportPlace, show};
use crate::cli;
use crate::machines::{machine, simulation};
use crate::object_graph::{ObjectGraph, ObjectTrace};

/// Types that are looked at alone where of all nothing is found.
const MOST_ALLOCATED: usize = 3;

/// Learns of each type of objects which features say with whom they are accessed: of all accesses, and where nothing is found, once more
/// of those to the types of most objects.
pub(crate) fn run(options: &cli::Learn) -> anyhow::Result<u8> {
    let machine = machine(&options.machine)?;
    // What is wrong with it is told before anything is read.
    simulation(&machine, &options.machine, &Options::default())?;
    let (trace, missing) = ObjectTrace::open(&options.trace, true)?;
    let (found, graph) = trace.objects(&options.trace, options.window, missing)?;
    let learning =
        LearningOptions { seed: options.seed, trees: options.trees.clone(), most_objects: options.most_objects };
    let layout_of = |graph: &ObjectGraph| -> anyhow::Result<_> {
        let mut all = graph.arrangements(&found, options.seed)?;
        // Whether any order is worth it: the others are `slimline layout`'s.
        let is_told = [Arrangement::Original, Arrangement::Allocated, Arrangement::Hierarchical];
        all.retain(|arranged| is_told.contains(&arranged.arrangement));
        let replayed = trace.replay(&all, (&machine, &options.machine))?;
        let cycles: Vec<_> =
            replayed.iter().map(|(arranged, outcome, _)| (arranged.arrangement, outcome.total().cycles)).collect();
        Ok(verdict(&cycles))
    };
    let learn_of = |graph: ObjectGraph| -> anyhow::Result<_> {
        let layout = layout_of(&graph)?;
        let of = (found.objects.as_slice(), found.origins.as_slice(), &found.fields);
        let learned = learn(of, (&graph.graph, &graph.hierarchical.levels), layout, &learning);
        Ok((graph, layout, learned))
    };
    let mut all = learn_of(ObjectGraph::of(graph, options.seed))?;
    let is_wanted = of_most_allocated(&found.objects, &found.origins, MOST_ALLOCATED);
    let is_narrower = is_wanted.contains(&false);
    let of_three_types = is_narrower && !is_anything_found(&all.2);
    if of_three_types {
        all = learn_of(ObjectGraph::of(trace.graph_of(is_wanted, options.window)?, options.seed))?;
    }
    let (graph, layout, learned) = all;
    let facts = LearningFacts {
        objects: found.objects.len() as u64,
        has_values: !found.fields.fields.is_empty(),
        of_three_types,
        window: options.window,
        seed: options.seed,
        levels: graph.levels(),
        machine: machine.name.clone(),
    };
    let report = LearningReport::new(found.trace, facts, VerdictRow::of(layout), (&learned, &found.origins));
    let text = |out: &mut String| text::learning(out, &report, options.rows);
    show(options.format, ReportPlace::Output, || report.json(), text)?;
    Ok(0)
}
