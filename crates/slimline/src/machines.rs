//! The machines that a command line names.

use std::path::Path;

use anyhow::{Context, bail};
use slimline_collect::Topology;
use slimline_simulate::machine::host::{HostCache, HostDescription, HostNode};
use slimline_simulate::machine::{Holds, Machine, NAMES};
use slimline_simulate::simulation::{Options, Simulation};
use slimline_trace::regular_file::read_regular;

/// No description of a machine is longer.
const MOST_MACHINE_BYTES: u64 = 1 << 20;

/// This machine, one known by name, or one described in a file.
pub(crate) fn machine(name: &str) -> anyhow::Result<Machine> {
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

/// The same if it can be simulated, which is so known before anything is read.
pub(crate) fn simulated_machine(name: &str) -> anyhow::Result<Machine> {
    let machine = machine(name)?;
    simulation(&machine, name, &Options::default())?;
    Ok(machine)
}

/// Its simulation; `name` is what the command line calls it.
pub(crate) fn simulation(machine: &Machine, name: &str, options: &Options) -> anyhow::Result<Simulation> {
    Simulation::new(machine, options).with_context(|| format!("--machine {name}"))
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
