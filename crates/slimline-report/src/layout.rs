//! In which order objects of the heap should lie, as `slimline layout` shows it.

use std::io::{self, Write};

use serde::Serialize;
use slimline_analyze::full_trace::objects::{Object, ObjectOrigin};
use slimline_analyze::object_layout::{Replayed, Verdict, reusing, verdict};
use slimline_simulate::machine::Holds;
use slimline_simulate::simulation::Outcome;

use crate::full_trace::known;
use crate::simulation::{AccessTrace, csv_cell};

/// Version of the JSON. 1: the first. 2: `other_run.by` is a list.
pub const LAYOUT_SCHEMA: u32 = 2;

/// Everything `slimline layout` shows, and its JSON.
#[derive(Clone, Debug, Serialize)]
pub struct LayoutReport {
    /// [`LAYOUT_SCHEMA`].
    pub schema: u32,
    /// What was read.
    pub trace: AccessTrace,
    /// Objects that were accessed, their bytes, and the accesses to them.
    pub objects: u64,
    /// See there.
    pub object_bytes: u64,
    /// Objects that had memory that others had had before.
    pub reusing: u64,
    /// See there.
    pub object_accesses: u64,
    /// All accesses, wherever they go.
    pub accesses: u64,
    /// Those to memory among objects that none of them has, as allocators keep their lists in: no machine is told of these.
    pub beside_accesses: u64,
    /// Edges of the access graph.
    pub edges: u64,
    /// Two accesses are near with fewer than so many from the one to the other.
    pub window: u16,
    /// What was drawn was drawn by it.
    pub seed: u64,
    /// Communities, the finest level first.
    pub levels: Vec<LevelRow>,
    /// Groups of siblings whose order is not as exact as it should be.
    pub inexact: u64,
    /// What allocates the objects, that of most of them first.
    pub types: Vec<TypeRow>,
    /// The simulated machine.
    pub machine: String,
    /// All orders; the first is the original. Without two objects that are accessed next to each other there is no other.
    pub orders: Vec<OrderRow>,
    /// The other run of which one order is; none where none was asked for.
    pub other_run: Option<OtherRunRow>,
    /// The hierarchical order by that of allocation, were objects larger; the first as they are. None where that was not asked for.
    pub larger: Vec<LargerRow>,
    /// Whether another order is better.
    pub verdict: VerdictRow,
}

/// What the hierarchical order is worth if objects are larger.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LargerRow {
    /// By so many bytes each.
    pub larger_by: u64,
    /// Its cycles by those of the order of allocation.
    pub cycles_ratio: f64,
}

/// Another run, of which an order was made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OtherRunRow {
    /// Its trace.
    pub trace: String,
    /// Objects of this run that it has, too.
    pub known: u64,
    /// The fields by which they are; else it is the line that allocates them, and the number of their allocation there.
    pub by: Option<Vec<String>>,
}

/// Whether another order is better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct VerdictRow {
    /// `no_neighbours`, `leave` or `reorder`.
    pub verdict: &'static str,
    /// Of `reorder`: the order that saves most, as [`OrderRow::order`].
    pub order: Option<&'static str>,
    /// Share of the original order's cycles that it saves.
    pub saved: Option<f64>,
    /// Share of the cycles in the order of allocation that it saves, where no memory is reused either.
    pub saved_of_allocated: Option<f64>,
}

impl VerdictRow {
    /// As the analysis says it.
    pub fn of(verdict: Verdict) -> Self {
        let (verdict, order, saved, saved_of_allocated) = match verdict {
            Verdict::NoNeighbours => ("no_neighbours", None, None, None),
            Verdict::Leave => ("leave", None, None, None),
            Verdict::Reorder { to, saved, saved_of_allocated } => {
                ("reorder", Some(to.name()), Some(saved), Some(saved_of_allocated))
            }
        };
        Self { verdict, order, saved, saved_of_allocated }
    }
}

/// A level of communities.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LevelRow {
    /// How many there are.
    pub communities: u64,
    /// How much more of the weight is within them than degrees let expect, −½ to 1.
    pub modularity: f64,
}

/// What one line allocates.
#[derive(Clone, Debug, Serialize)]
pub struct TypeRow {
    /// Its type; none where it is not known.
    pub type_name: Option<String>,
    /// Function, file and line; none where it is not known.
    pub function: Option<String>,
    /// See there.
    pub file: Option<String>,
    /// See there.
    pub line: Option<u32>,
    /// Objects that were accessed.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// An order, and what it comes to.
#[derive(Clone, Debug, Serialize)]
pub struct OrderRow {
    /// `original`, `allocated`, `first_access`, `breadth_first`, `random`, `hierarchical` or
    /// `other_run`.
    pub order: &'static str,
    /// Mean distance in places from one end of an edge to the other, by weight; 1 is side by side. Objects that had the same memory one
    /// after the other have places of their own.
    pub mean_distance: f64,
    /// Share of accesses to objects that are not to the line of the thread's one before.
    pub to_another_line: f64,
    /// And not to its page.
    pub to_another_page: f64,
    /// Misses, nearest cache first, then TLBs.
    pub caches: Vec<MissRow>,
    /// The machine's cycles for all accesses, one after the other.
    pub cycles: u64,
    /// By those of the original order.
    pub cycles_ratio: f64,
}

/// Misses of a cache or TLB.
#[derive(Clone, Debug, Serialize)]
pub struct MissRow {
    /// Its name.
    pub name: String,
    /// How many, of all accesses.
    pub misses: u64,
    /// By those of the original order; none where that has none.
    pub ratio: Option<f64>,
}

/// What is told of the graph and its communities.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphFacts {
    /// As in the report.
    pub window: u16,
    /// As in the report.
    pub seed: u64,
    /// Edges, and the sum of their weights.
    pub edges: u64,
    /// See there.
    pub weight: u64,
    /// As in the report.
    pub levels: Vec<LevelRow>,
    /// As in the report.
    pub inexact: u64,
    /// As in the report.
    pub other_run: Option<OtherRunRow>,
    /// As in the report.
    pub larger: Vec<LargerRow>,
}

impl LayoutReport {
    /// Of these objects; each order with what the machine made of it.
    pub fn new(
        trace: AccessTrace,
        (objects, origins): (&[Object], &[ObjectOrigin]),
        facts: GraphFacts,
        replayed: &[Replayed<'_>],
    ) -> Self {
        let (_, original, steps) = &replayed[0];
        let reusing = reusing(objects);
        Self {
            schema: LAYOUT_SCHEMA,
            trace,
            objects: objects.len() as u64,
            object_bytes: objects.iter().fold(0, |sum, object| object.bytes.saturating_add(sum)),
            reusing,
            object_accesses: steps.accesses,
            accesses: steps.all,
            beside_accesses: steps.beside,
            edges: facts.edges,
            window: facts.window,
            seed: facts.seed,
            levels: facts.levels,
            inexact: facts.inexact,
            types: types(objects, origins),
            machine: original.machine().name.clone(),
            orders: replayed.iter().map(|of| order(of, original, facts.weight)).collect(),
            other_run: facts.other_run,
            larger: facts.larger,
            verdict: VerdictRow::of(verdict(reusing, replayed)),
        }
    }

    /// As JSON, indented, with a line end.
    pub fn json(&self) -> String {
        crate::pretty(self)
    }

    /// An order by its name.
    pub fn order(&self, name: &str) -> Option<&OrderRow> {
        self.orders.iter().find(|row| row.order == name)
    }
}

fn order((arranged, outcome, steps): &Replayed<'_>, original: &Outcome, weight: u64) -> OrderRow {
    let (total, before) = (outcome.total(), original.total());
    let machine = outcome.machine();
    let row = |name: &str, misses: u64, before: u64| MissRow {
        name: name.to_owned(),
        misses,
        ratio: (before > 0).then(|| misses as f64 / before as f64),
    };
    let caches = machine.caches.iter().zip(total.misses.iter().zip(&before.misses));
    let data = caches.filter(|(cache, _)| cache.holds != Holds::Instructions);
    let caches = data.map(|(cache, (misses, before))| row(&cache.name, misses.total(), before.total()));
    let tlbs = machine.tlbs.iter().zip(total.tlb_misses.iter().zip(&before.tlb_misses));
    let tlbs = tlbs.map(|(tlb, (misses, before))| row(&tlb.name, *misses, *before));
    let share = |part: u64| part as f64 / steps.accesses.max(1) as f64;
    OrderRow {
        order: arranged.arrangement.name(),
        mean_distance: arranged.cost as f64 / weight.max(1) as f64,
        to_another_line: share(steps.to_another_line),
        to_another_page: share(steps.to_another_page),
        caches: caches.chain(tlbs).collect(),
        cycles: total.cycles,
        cycles_ratio: total.cycles as f64 / before.cycles.max(1) as f64,
    }
}

fn types(objects: &[Object], origins: &[ObjectOrigin]) -> Vec<TypeRow> {
    let mut sums = vec![(0, 0); origins.len()];
    for object in objects {
        let (count, bytes) = &mut sums[object.origin as usize];
        *count += 1;
        *bytes = object.bytes.saturating_add(*bytes);
    }
    let row = |(origin, (objects, bytes)): (&ObjectOrigin, (u64, u64))| {
        let place = &origin.allocated_at;
        TypeRow {
            type_name: known(&origin.type_name),
            function: known(&place.function),
            file: known(&place.file),
            line: (place.line > 0).then_some(place.line),
            objects,
            bytes,
        }
    };
    let mut rows: Vec<TypeRow> = origins.iter().zip(sums).filter(|(_, sums)| sums.0 > 0).map(row).collect();
    rows.sort_by(|a, b| (b.objects, &a.file, a.line).cmp(&(a.objects, &b.file, b.line)));
    rows
}

/// Writes an order as CSV: objects as they should lie, with what each is, and its communities, the finest first.
///
/// # Errors
/// As `out`.
pub fn write_order(
    out: &mut impl Write,
    (objects, origins): (&[Object], &[ObjectOrigin]),
    order: &[u32],
    levels: &[Vec<u32>],
) -> io::Result<()> {
    write!(out, "place,process,allocation,address,bytes,type,function,file,line")?;
    for level in 1..=levels.len() {
        write!(out, ",community_{level}")?;
    }
    writeln!(out)?;
    let origin = |ObjectOrigin { allocated_at, type_name, .. }: &ObjectOrigin| {
        let cells = [type_name, &allocated_at.function, &allocated_at.file].map(|text| csv_cell(text));
        format!("{},{}", cells.join(","), allocated_at.line)
    };
    let origins: Vec<String> = origins.iter().map(origin).collect();
    for (place, &number) in order.iter().enumerate() {
        let Object { process, start, bytes, sequence, origin, .. } = objects[number as usize];
        write!(out, "{place},{process},{sequence},{start:#x},{bytes},{}", origins[origin as usize])?;
        for level in levels {
            write!(out, ",{}", level[number as usize])?;
        }
        writeln!(out)?;
    }
    Ok(())
}
