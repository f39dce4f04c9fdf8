//! `slimline simulate`

use slimline_report::simulation::SimulationReport;
use slimline_report::text;
use slimline_simulate::simulation::{LargePages, Options, Simulation};

use super::{ReportPlace, show_table};
use crate::accesses;
use crate::cli;
use crate::machines::{machine, simulation};

/// Passes a trace through machines, all in one go, and shows what became of it.
pub(crate) fn run(options: &cli::Simulate) -> anyhow::Result<u8> {
    let simulated = Options {
        classes: options.classes,
        used_bytes: options.used_bytes,
        large_pages: if options.large_pages { LargePages::All } else { LargePages::None },
    };
    let of_machine = |name: &String| simulation(&machine(name)?, name, &simulated);
    let mut simulations = options.machine.iter().map(of_machine).collect::<anyhow::Result<Vec<_>>>()?;
    let place = ReportPlace::of(&options.input)?;
    let read = accesses::read(&options.input, &mut simulations)?;
    let outcomes: Vec<_> = simulations.into_iter().map(Simulation::finish).collect();
    let report = SimulationReport::new(read.trace, &outcomes, &read.origins, &simulated);
    let text = |out: &mut String| text::simulation(out, &report, options.rows);
    let written = show_table((options.format, place), &report.trace, || report.json(), || report.csv(), text);
    read.ended.status(written)
}
