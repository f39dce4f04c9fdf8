//! Recorded traces as graphs of objects that are accessed next to each other, and replayed with objects elsewhere.

use anyhow::anyhow;
use slimline_analyze::full_trace::object_fields::Fields;
use slimline_analyze::full_trace::objects::{Object, ObjectOrigin};
use slimline_analyze::object_layout::{
    Arranged, Arrangement, Known, Replayed, Slots, TooLarge, arrangements, in_arenas,
};
use slimline_layout::graph::{Graph, GraphBuilder};
use slimline_layout::louvain::modularity;
use slimline_layout::order::Hierarchical;
use slimline_report::layout::LevelRow;
use slimline_report::simulation::AccessTrace;
use slimline_simulate::access::{Access, Consumer};
use slimline_simulate::machine::Machine;
use slimline_simulate::relocated::{Relocated, Steps, is_object};
use slimline_simulate::simulation::{Options, Outcome, Simulation};
use slimline_simulate::spread::on_threads;

use crate::machines::simulation;
use crate::object_trace::ObjectTrace;
use crate::progress::Progress;

/// The objects of a trace.
pub(crate) struct Objects {
    pub(crate) trace: AccessTrace,
    pub(crate) objects: Vec<Object>,
    pub(crate) origins: Vec<ObjectOrigin>,
    /// What they hold, where that was asked for.
    pub(crate) fields: Fields,
    /// As each was accessed first.
    pub(crate) first_accesses: Vec<u32>,
    /// What allocators of the program's own give them.
    slots: Slots,
}

/// Objects that are accessed next to each other, and their communities.
pub(crate) struct ObjectGraph {
    pub(crate) graph: Graph,
    pub(crate) hierarchical: Hierarchical,
}

impl ObjectGraph {
    pub(crate) fn of(graph: Graph, seed: u64) -> Self {
        let _progress = Progress::of("grouping objects", 0);
        let hierarchical = Hierarchical::of(&graph, seed);
        Self { graph, hierarchical }
    }

    pub(crate) fn levels(&self) -> Vec<LevelRow> {
        let level = |communities: &Vec<u32>| LevelRow {
            communities: communities.iter().max().map_or(0, |most| u64::from(*most) + 1),
            modularity: modularity(&self.graph, communities),
        };
        self.hierarchical.levels.iter().map(level).collect()
    }

    /// Objects in the orders that are wanted, and in that of another run where there is one; without edges only in the original one, which
    /// comes first and than which none is better.
    pub(crate) fn arrangements(
        &self,
        of: &Objects,
        (other_run, seed): (&[u32], u64),
        wanted: &[Arrangement],
    ) -> anyhow::Result<Vec<Arranged>> {
        let _progress = Progress::of("ordering objects", 0);
        let Self { graph, hierarchical } = self;
        let Objects { first_accesses, slots, .. } = of;
        let known = Known { graph, first_accesses, hierarchical, slots, other_run, seed };
        let mut wanted = if graph.edge_count() == 0 { vec![Arrangement::Original] } else { wanted.to_vec() };
        wanted.extend((!other_run.is_empty()).then_some(Arrangement::OtherRun));
        of.that_fit(arrangements(&of.objects, known, &wanted, 0))
    }

    /// The orders of allocation and of communities, with so many bytes behind each object.
    pub(crate) fn of_larger(&self, of: &Objects, larger_by: u64) -> anyhow::Result<Vec<Arranged>> {
        let Self { graph, hierarchical } = self;
        let Objects { first_accesses, slots, .. } = of;
        let known = Known { graph, first_accesses, hierarchical, slots, other_run: &[], seed: 0 };
        let wanted = [Arrangement::Allocated, Arrangement::Hierarchical];
        of.that_fit(arrangements(&of.objects, known, &wanted, larger_by))
    }
}

impl Objects {
    /// How far each moves into the arena that it has.
    pub(crate) fn in_arenas(&self, arenas: &[(u32, u64)]) -> anyhow::Result<Vec<u64>> {
        self.that_fit(in_arenas(&self.objects, arenas, &self.slots))
    }

    fn that_fit<T>(&self, arranged: Result<T, TooLarge>) -> anyhow::Result<T> {
        arranged.map_err(|TooLarge| {
            let file = &self.trace.file;
            anyhow!("{file}: blocks of the heap are larger than the memory of a process: the trace is damaged")
        })
    }
}

impl ObjectTrace {
    /// Its objects, and the graph of those that one thread accesses within the window.
    pub(crate) fn objects(&self, window: u16) -> anyhow::Result<(Objects, Graph)> {
        let mut building = Building::new(window);
        let (found, trace) = self.read_first(&mut building, |building| building.accesses)?;
        let origins = found.origins(self.program());
        let (objects, fields) = found.into_objects_with_fields(self.program());
        let Building { graph, first_accesses, .. } = building;
        let slots = Slots::of(&objects, &origins);
        Ok((Objects { trace, objects, origins, fields, first_accesses, slots }, graph.finish()))
    }

    /// The graph of some of its objects only.
    pub(crate) fn graph_of(&self, is_wanted: Vec<bool>, window: u16) -> anyhow::Result<Graph> {
        let graph = GraphBuilder::with_nodes(window.into(), is_wanted.len() as u32);
        let mut building = Building { graph, is_wanted: Some(is_wanted), ..Building::new(window) };
        self.read(&mut building)?;
        Ok(building.graph.finish())
    }

    /// What a machine makes of the trace with objects in these orders.
    pub(crate) fn replay<'a>(
        &self,
        all: &'a [Arranged],
        machine: (&Machine, &str),
    ) -> anyhow::Result<Vec<Replayed<'a>>> {
        let moves: Vec<&[u64]> = all.iter().map(|arranged| arranged.moves.as_slice()).collect();
        let replayed = all.iter().zip(self.replay_moved(&moves, machine)?);
        Ok(replayed.map(|(arranged, (outcome, steps))| (arranged, outcome, steps)).collect())
    }

    /// And with each object moved so far, for each of these.
    pub(crate) fn replay_moved(
        &self,
        all: &[&[u64]],
        (machine, name): (&Machine, &str),
    ) -> anyhow::Result<Vec<(Outcome, Steps)>> {
        let mut replaying: Vec<Relocated<'_, Simulation>> = Vec::with_capacity(all.len());
        for moves in all {
            replaying.push(Relocated::new(simulation(machine, name, &Options::default())?, moves));
        }
        let (replayed, read) = on_threads(replaying, |replaying| self.read(replaying));
        read?;
        let outcomes = replayed.into_iter().map(|relocated| {
            let (simulation, steps) = relocated.finish();
            (simulation.finish(), steps)
        });
        Ok(outcomes.collect())
    }
}

/// Takes the objects of accesses in.
struct Building {
    graph: GraphBuilder,
    /// All accesses, wherever they go.
    accesses: u64,
    /// Objects as each was accessed first.
    first_accesses: Vec<u32>,
    /// By object.
    is_known: Vec<bool>,
    /// By object: whether it is to be in the graph; none where all are.
    is_wanted: Option<Vec<bool>>,
}

impl Building {
    fn new(window: u16) -> Self {
        Self {
            graph: GraphBuilder::new(window.into()),
            accesses: 0,
            first_accesses: Vec::new(),
            is_known: Vec::new(),
            is_wanted: None,
        }
    }
}

impl Consumer for Building {
    fn take(&mut self, accesses: &[Access]) {
        self.accesses += accesses.len() as u64;
        for access in accesses.iter().filter(|access| is_object(access.key)) {
            if self.is_wanted.as_ref().is_some_and(|wanted| !wanted[access.key as usize]) {
                continue;
            }
            self.graph.access(access.thread, access.key);
            let object = access.key as usize;
            if self.is_known.len() <= object {
                self.is_known.resize(object + 1, false);
            }
            if !std::mem::replace(&mut self.is_known[object], true) {
                self.first_accesses.push(access.key);
            }
        }
    }
}
