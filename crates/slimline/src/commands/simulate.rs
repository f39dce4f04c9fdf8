//! `slimline simulate`

use std::path::Path;

use anyhow::{Context, bail};
use slimline_collect::{AddressFormat, Topology, TracedAccess, TracedKind, read_addresses};
use slimline_report::simulation::SimulationReport;
use slimline_report::text;
use slimline_simulate::machine::host::{HostCache, HostDescription, HostNode};
use slimline_simulate::machine::{Holds, Machine, NAMES};
use slimline_simulate::simulation::{Access, AccessKind, LargePages, Options, Simulation};
use slimline_trace::regular_file::read_regular;

use super::print;
use crate::cli::{self, Format, TraceFormat};

/// No description of a machine is longer.
const MOST_MACHINE_BYTES: u64 = 1 << 20;

/// Passes a trace through machines, all in one go, and shows what became of it.
pub(crate) fn run(options: &cli::Simulate) -> anyhow::Result<u8> {
    let simulated = Options {
        classes: options.classes,
        used_bytes: options.used_bytes,
        large_pages: if options.large_pages { LargePages::All } else { LargePages::None },
    };
    let simulation = |name: &String| {
        let machine = machine(name)?;
        Simulation::new(&machine, &simulated).with_context(|| format!("--machine {name}"))
    };
    let mut simulations = options.machine.iter().map(simulation).collect::<anyhow::Result<Vec<_>>>()?;
    let mut batch = Vec::new();
    let mut take = |accesses: &[TracedAccess]| {
        batch.clear();
        batch.extend(accesses.iter().map(access));
        simulations.iter_mut().for_each(|simulation| simulation.run(&batch));
    };
    let format = options.from.map(|format| match format {
        TraceFormat::Lackey => AddressFormat::Lackey,
        TraceFormat::Din => AddressFormat::Din,
    });
    let file = options.file.display().to_string();
    let format = match read_addresses(&options.file, format, &mut take).with_context(|| file.clone())? {
        AddressFormat::Lackey => "lackey",
        AddressFormat::Din => "din",
    };
    let outcomes: Vec<_> = simulations.into_iter().map(Simulation::finish).collect();
    let report = SimulationReport::new(file, format, &outcomes, options.classes, options.used_bytes);
    match options.format {
        Format::Json => print(&report.json())?,
        Format::Text => {
            let mut out = String::new();
            text::simulation(&mut out, &report)?;
            print(&out)?;
        }
    }
    Ok(0)
}

/// Such a trace tells no thread: it is of one core.
fn access(traced: &TracedAccess) -> Access {
    let kind = match traced.kind {
        TracedKind::Load => AccessKind::Load,
        TracedKind::Store => AccessKind::Store,
        TracedKind::Modify => AccessKind::Modify,
        TracedKind::Fetch => AccessKind::Fetch,
    };
    Access { address: traced.address, key: 0, bytes: traced.bytes, core: 0, kind }
}

/// This machine, one known by name, or one described in a file.
fn machine(name: &str) -> anyhow::Result<Machine> {
    if name == "host" {
        return host(&slimline_collect::topology()).machine().context("--machine host");
    }
    if let Some(machine) = Machine::named(name) {
        return Ok(machine);
    }
    let path = Path::new(name);
    if !path.exists() {
        bail!("--machine {name}: neither host, {} nor a file", NAMES.join(", "));
    }
    let content = read_regular(path, MOST_MACHINE_BYTES).with_context(|| name.to_owned())?;
    let text = String::from_utf8(content).ok().with_context(|| format!("{name}: not text"))?;
    Machine::parse(&text).with_context(|| name.to_owned())
}

fn host(topology: &Topology) -> HostDescription {
    let caches = topology.caches.iter().filter_map(|(cache, cpus)| {
        let holds = match cache.kind.as_str() {
            "Data" => Holds::Data,
            "Instruction" => Holds::Instructions,
            "Unified" => Holds::Unified,
            _ => return None,
        };
        Some(HostCache {
            level: u8::try_from(cache.level).ok()?,
            holds,
            bytes: cache.bytes,
            line_bytes: cache.line_bytes,
            ways: cache.ways,
            cpus: cpus.clone(),
        })
    });
    let node = |node: &slimline_collect::TopologyNode| HostNode {
        number: node.number,
        cpus: node.cpus.clone(),
        bytes: node.bytes,
        distances: node.distances.clone(),
    };
    HostDescription {
        cpus: topology.cpus.clone(),
        caches: caches.collect(),
        nodes: topology.nodes.iter().map(node).collect(),
    }
}
