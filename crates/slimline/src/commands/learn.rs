//! `slimline learn`

use slimline_analyze::object_layout::{Arrangement, reusing, verdict};
use slimline_analyze::object_learning::{
    LearnedType, Options as LearningOptions, is_anything_found, learn, of_most_allocated,
};
use slimline_layout::graph::Graph;
use slimline_report::layout::VerdictRow;
use slimline_report::learning::{LearningFacts, LearningReport};
use slimline_report::text;
use slimline_simulate::machine::Machine;
use slimline_simulate::simulation::Outcome;

use super::{ReportPlace, show};
use crate::cli;
use crate::machines::simulated_machine;
use crate::object_graph::{ObjectGraph, Objects};
use crate::object_trace::{ObjectTrace, Wanted};
use crate::progress::Progress;

/// Types that are looked at alone where of all nothing is found.
const MOST_ALLOCATED: usize = 3;
/// Orders that say whether any is worth it, the original one first; the others are `slimline layout`'s.
const WORTH_TRYING: [Arrangement; 3] = [Arrangement::Original, Arrangement::Allocated, Arrangement::Hierarchical];

/// Learns of each type of objects which features say with whom they are accessed: of all accesses, and where nothing is found, once more
/// of those to the types of most objects.
pub(crate) fn run(options: &cli::Learn) -> anyhow::Result<u8> {
    let machine = simulated_machine(&options.machine)?;
    let &cli::ObjectInput { trace: ref directory, window, seed } = &options.input;
    let trace = ObjectTrace::open(directory, Wanted::Fields)?;
    let (found, graph) = trace.objects(window)?;
    let learning = LearningOptions { seed, trees: options.trees.clone(), most_objects: options.most_objects };
    let learn_of = |graph: Graph| -> anyhow::Result<_> {
        let graph = ObjectGraph::of(graph, seed);
        let all = graph.arrangements(&found, (&[], seed), &WORTH_TRYING)?;
        let replayed = trace.replay(&all, (&machine, &options.machine))?;
        let layout = verdict(reusing(&found.objects), &replayed);
        let allocated = replayed.iter().find(|(of, ..)| of.arrangement == Arrangement::Allocated);
        let allocated = allocated.map_or(0, |(_, outcome, _)| outcome.total().cycles);
        let of = (found.objects.as_slice(), found.origins.as_slice(), &found.fields);
        let _progress = Progress::of("learning", 0);
        let learned = learn(of, (&graph.graph, &graph.hierarchical.levels), layout, &learning);
        Ok((graph, (layout, allocated), learned))
    };
    let mut all = learn_of(graph)?;
    let is_wanted = of_most_allocated(&found.objects, &found.origins, MOST_ALLOCATED);
    let is_narrower = is_wanted.contains(&false);
    let of_three_types = is_narrower && !is_anything_found(&all.2);
    if of_three_types {
        all = learn_of(trace.graph_of(is_wanted, window)?)?;
    }
    let (graph, (layout, allocated), mut learned) = all;
    replay_hints(&trace, &found, ((&machine, &options.machine), allocated), &mut learned)?;
    let facts = LearningFacts {
        objects: found.objects.len() as u64,
        has_values: !found.fields.fields.is_empty(),
        of_three_types,
        window,
        seed,
        levels: graph.levels(),
        machine: machine.name.clone(),
    };
    let report = LearningReport::new(found.trace, facts, VerdictRow::of(layout), (&learned, &found.origins));
    let text = |out: &mut String| text::learning(out, &report, options.rows);
    show(options.format, ReportPlace::Output, || report.json(), text)?;
    Ok(0)
}

/// Replays objects that lie by what was learned, where they took so many cycles in the order of allocation: advice is only what saves some.
fn replay_hints(
    trace: &ObjectTrace,
    found: &Objects,
    (machine, allocated): ((&Machine, &str), u64),
    learned: &mut [LearnedType],
) -> anyhow::Result<()> {
    let hinted: Vec<&mut LearnedType> = learned.iter_mut().filter(|of| !of.candidates.is_empty()).collect();
    let candidates = hinted.iter().flat_map(|of| &of.candidates);
    let moves = candidates.map(|of| found.in_arenas(&of.arenas)).collect::<anyhow::Result<Vec<_>>>()?;
    if moves.is_empty() {
        return Ok(());
    }
    let moves: Vec<&[u64]> = moves.iter().map(Vec::as_slice).collect();
    let replayed = trace.replay_moved(&moves, machine)?;
    let saved = |(outcome, _): &(Outcome, _)| 1.0 - outcome.total().cycles as f64 / allocated.max(1) as f64;
    let mut saved = replayed.iter().map(saved);
    for of in hinted {
        let of_it: Vec<f64> = saved.by_ref().take(of.candidates.len()).collect();
        of.replayed(&of_it);
    }
    Ok(())
}
