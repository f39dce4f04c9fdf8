//! `slimline place`

use anyhow::{Context, Error, anyhow, bail};
use slimline_analyze::placement::{check_memory, fast_memory};
use slimline_report::placement::PlacementReport;
use slimline_report::text;
use slimline_simulate::extents::Extents;
use slimline_simulate::machine::Machine;
use slimline_simulate::simulation::Options;

use super::{ReportPlace, show};
use crate::accesses;
use crate::cli;
use crate::machines::{machine, simulation};

/// Passes a trace through a machine, and shows which data one of its memories is best for.
pub(crate) fn run(options: &cli::Place) -> anyhow::Result<u8> {
    let machine = machine(&options.machine)?;
    let of_machine = || format!("--machine {}", options.machine);
    let memory = memory(&machine, options.memory.as_deref()).with_context(of_machine)?;
    let name = &machine.memories[memory].name;
    let Some(room) = options.room.map(u64::from).or(machine.memories[memory].bytes) else {
        bail!("{}: {name} has no size: say how much fits (--room)", of_machine());
    };
    let (part, line) = (u64::from(options.part), machine.line_bytes());
    if part < u64::from(line) || part > room {
        bail!(
            "--part {part}: wanted is a line ({line} bytes) or more, and no more than there is room for ({room} bytes)"
        );
    }
    let mut simulation = simulation(&machine, &options.machine, &Options::default())?;
    let place = ReportPlace::of(&options.input)?;
    let mut extents = Extents::handing_on(&mut simulation);
    let read = accesses::read_with_parts(&options.input, options.part, &mut extents)?;
    let extents = extents.finish();
    let outcome = simulation.finish();
    let already = outcome.total().served_by_memory[memory];
    let written = if already > 0 {
        Err(anyhow!("{}: {name} serves {already} lines as it is, since the others are full", of_machine()))
    } else {
        let report = PlacementReport::new(read.trace, &outcome, (&read.origins, &extents), memory, room);
        show(options.format, place, || report.json(), |out| text::placement(out, &report, options.rows))
    };
    read.ended.status(written)
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
