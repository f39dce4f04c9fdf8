//! `slimline place`

use std::num::NonZeroU64;
use std::ops::Range;

use anyhow::{Context, Error, bail};
use slimline_analyze::placement::{check_memory, fast_memory};
use slimline_report::html::Finding;
use slimline_report::placement::PlacementReport;
use slimline_report::text;
use slimline_simulate::extents::Extents;
use slimline_simulate::machine::Machine;
use slimline_simulate::simulation::{Options, Outcome};

use super::{ReportPlace, show_found};
use crate::accesses::{self, Accesses};
use crate::cli;
use crate::machines::{machine, simulation};

/// Passes a trace through a machine, and shows which data one of its memories is best for.
pub(crate) fn run(options: &cli::Place) -> anyhow::Result<u8> {
    let machine = machine(&options.machine)?;
    let plan = Plan::of(&machine, options.memory.as_deref(), options.room.map(u64::from), options.part)
        .with_context(|| format!("--machine {}", options.machine))?;
    let mut simulation = simulation(&machine, &options.machine, &Options::default())?;
    let place = ReportPlace::of(&options.input)?;
    let mut extents = Extents::handing_on(&mut simulation);
    let read = accesses::read_with_parts(&options.input, plan.part, &mut extents)?;
    let extents = extents.finish();
    let report = found(&read, (simulation.finish(), &options.machine), &extents, &plan);
    read.ended.status(report.and_then(|report| {
        let found = (&report.trace, Finding::Placement(&report));
        let text = |out: &mut String| text::placement(out, &report, options.rows);
        show_found((options.format, place), found, || report.json(), text)
    }))
}

/// What is to be placed where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Which of the machine's memories.
    memory: usize,
    /// What fits there.
    room: u64,
    /// Bytes of the parts that data is cut at.
    pub(super) part: NonZeroU64,
}

impl Plan {
    /// Of what is asked for, else the fastest memory and all of its size.
    pub(super) fn of(
        machine: &Machine,
        name: Option<&str>,
        room: Option<u64>,
        part: NonZeroU64,
    ) -> anyhow::Result<Self> {
        let memory = memory(machine, name)?;
        let Some(room) = room.or(machine.memories[memory].bytes) else {
            bail!("{} has no size: say how much fits (--room)", machine.memories[memory].name);
        };
        let line = machine.line_bytes();
        if part.get() < u64::from(line) || part.get() > room {
            bail!(
                "--part {part}: wanted is a line ({line} bytes) or more, and no more than there is room for ({room} bytes)"
            );
        }
        Ok(Self { memory, room, part })
    }
}

/// Which data that memory of the machine is best for, which the command line calls so.
///
/// # Errors
/// It serves data as it is.
pub(super) fn found(
    read: &Accesses,
    (outcome, name): (Outcome, &str),
    extents: &[Range<u64>],
    plan: &Plan,
) -> anyhow::Result<PlacementReport> {
    let Plan { memory, room, .. } = *plan;
    let already = outcome.total().served_by_memory[memory];
    if already > 0 {
        let memory = &outcome.machine().memories[memory].name;
        bail!("--machine {name}: {memory} serves {already} lines as it is, since the others are full");
    }
    Ok(PlacementReport::new(read.trace.clone(), &outcome, (&read.origins, extents), memory, room))
}

/// Which of the machine's memories: one that data can be placed in.
fn memory(machine: &Machine, name: Option<&str>) -> anyhow::Result<usize> {
    let Some(name) = name else {
        return fast_memory(machine).context(
            "no memory that is near to no core is limited and faster than the others: describe one (docs/machines.md)",
        );
    };
    let named = machine.memories.iter().position(|memory| memory.name == name);
    let memory = named.with_context(|| {
        let names: Vec<&str> = machine.memories.iter().map(|memory| memory.name.as_str()).collect();
        format!("no memory is called {name}: there is {}", names.join(", "))
    })?;
    check_memory(machine, memory).map_err(Error::msg)?;
    Ok(memory)
}
