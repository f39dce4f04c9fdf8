//! `slimline simulate`

use slimline_report::html::Finding;
use slimline_report::simulation::SimulationReport;
use slimline_report::text;
use slimline_simulate::simulation::{LargePages, Options, Simulation};

use super::{ReportPlace, show_table};
use crate::accesses::{self, Accesses, Ended};
use crate::cli::{self, AccessInput};
use crate::machines::{machine, simulation};

/// Passes a trace through machines, all in one go, and shows what became of it.
pub(crate) fn run(options: &cli::Simulate) -> anyhow::Result<u8> {
    let simulated = Options {
        classes: options.classes,
        used_bytes: options.used_bytes,
        large_pages: if options.large_pages { LargePages::All } else { LargePages::None },
        ..Options::default()
    };
    let simulations = options.machine.iter().map(|name| simulation(&machine(name)?, name, &simulated));
    let simulations = simulations.collect::<anyhow::Result<Vec<_>>>()?;
    let place = ReportPlace::of(&options.input)?;
    let (report, ended) = report(&options.input, simulations, &simulated)?;
    let found = (&report.trace, Finding::Caches(&report));
    let text = |out: &mut String| text::simulation(out, &report, options.rows);
    ended.status(show_table((options.format, place), found, || report.json(), || report.csv(), text))
}

fn report(
    input: &AccessInput,
    mut simulations: Vec<Simulation>,
    simulated: &Options,
) -> anyhow::Result<(SimulationReport, Ended)> {
    let read = accesses::read(input, &mut simulations)?;
    Ok((found(&read, simulations, simulated), read.ended))
}

/// What these machines made of all accesses; `simulated` is what they were asked for.
pub(super) fn found(read: &Accesses, simulations: Vec<Simulation>, simulated: &Options) -> SimulationReport {
    let outcomes: Vec<_> = simulations.into_iter().map(Simulation::finish).collect();
    SimulationReport::new(read.trace.clone(), &outcomes, &read.origins, simulated)
}
