//! `slimline place`

use std::num::NonZeroU64;

use anyhow::{Context, Error, anyhow, bail};
use slimline_analyze::placement::{check_memory, fast_memory};
use slimline_report::html::Finding;
use slimline_report::placement::PlacementReport;
use slimline_report::text;
use slimline_simulate::extents::Extents;
use slimline_simulate::machine::Machine;
use slimline_simulate::simulation::{Options, Simulation};

use super::{ReportPlace, show_found};
use crate::accesses::{self, Ended};
use crate::cli::{self, AccessInput};
use crate::machines::{machine, simulation};

/// Passes a trace through a machine, and shows which data one of its memories is best for.
pub(crate) fn run(options: &cli::Place) -> anyhow::Result<u8> {
    let machine = machine(&options.machine)?;
    let plan = Plan::of(&machine, options.memory.as_deref(), options.room.map(u64::from), options.part)
        .with_context(|| format!("--machine {}", options.machine))?;
    let simulation = simulation(&machine, &options.machine, &Options::default())?;
    let place = ReportPlace::of(&options.input)?;
    let (report, ended) = found(&options.input, (simulation, &options.machine), &plan)?;
    ended.status(report.and_then(|report| {
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
    part: NonZeroU64,
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

/// Which data that memory of the machine is best for, which the command line calls so. There is no report where it serves data as it is.
pub(super) fn found(
    input: &AccessInput,
    (mut simulation, name): (Simulation, &str),
    plan: &Plan,
) -> anyhow::Result<(anyhow::Result<PlacementReport>, Ended)> {
    let Plan { memory, room, part } = *plan;
    let mut extents = Extents::handing_on(&mut simulation);
    let read = accesses::read_with_parts(input, part, &mut extents)?;
    let extents = extents.finish();
    let outcome = simulation.finish();
    let already = outcome.total().served_by_memory[memory];
    let report = match already {
        0 => Ok(PlacementReport::new(read.trace, &outcome, (&read.origins, &extents), memory, room)),
        lines => {
            let memory = &outcome.machine().memories[memory].name;
            Err(anyhow!("--machine {name}: {memory} serves {lines} lines as it is, since the others are full"))
        }
    };
    Ok((report, read.ended))
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
