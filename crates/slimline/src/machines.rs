//! The machines that a command line names.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context, bail};
use slimline_collect::{Topology, thread_cpu_ns};
use slimline_simulate::machine::host::{HostCache, HostDescription, HostNode};
use slimline_simulate::machine::size::text_of;
use slimline_simulate::machine::{Cache, Holds, Machine, Measured, NAMES};
use slimline_simulate::simulation::{Options, Simulation};
use slimline_trace::regular_file::read_regular;

use crate::progress::Progress;
use crate::say;

/// No description of a machine is longer.
const MOST_MACHINE_BYTES: u64 = 1 << 20;

/// What `--machine` names: this machine, one known by name, or one described in a file.
pub(crate) fn machine(name: &str) -> anyhow::Result<Machine> {
    called(name, &format!("--machine {name}"))
}

/// The same; `what` is what the command line calls it.
pub(crate) fn called(name: &str, what: &str) -> anyhow::Result<Machine> {
    match name {
        "host" => return host().with_context(|| what.to_owned()),
        "measured" => return measured().with_context(|| what.to_owned()),
        _ => {}
    }
    if let Some(machine) = Machine::named(name) {
        return Ok(machine);
    }
    let path = Path::new(name);
    if !path.exists() {
        bail!("{what}: neither host, measured, {} nor a file", NAMES.join(", "));
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

fn host() -> anyhow::Result<Machine> {
    Ok(description(&slimline_collect::topology()).machine()?)
}

/// This machine with what is measured on it, once: whatever asks for it in one call shall have the same.
fn measured() -> anyhow::Result<Machine> {
    static MEASURED: OnceLock<Machine> = OnceLock::new();
    if let Some(machine) = MEASURED.get() {
        return Ok(machine.clone());
    }
    let host = host()?;
    let progress = Progress::of("measuring caches and memory", 0);
    let (begun, cpu_before) = (Instant::now(), thread_cpu_ns());
    let Measured { machine, last_level, has_last_latency, has_memory } = host.measured()?;
    let taken = taken_by_others((thread_cpu_ns() - cpu_before) as f64 / 1e9, begun.elapsed().as_secs_f64());
    drop(progress);
    let of_data = machine.path(false);
    let cycles = |&cache: &usize| {
        let Cache { name, latency_cycles, .. } = &machine.caches[cache];
        let usual = if of_data.last() == Some(&cache) && !has_last_latency { "a usual " } else { "" };
        format!("{name} {usual}{latency_cycles} cycles")
    };
    let caches: Vec<String> = of_data.iter().map(cycles).collect();
    let memory = &machine.memories[0];
    let memory = match has_memory {
        true => format!("{} {}", memory.name, memory.latency_cycles[0]),
        false => format!("{} was not reached: a usual {}", memory.name, memory.latency_cycles[0]),
    };
    let last = of_data.last().map_or("", |&cache| &machine.caches[cache].name);
    let had = match last_level {
        Some((had, told)) => format!("{} of {last}'s {} are to be had now", text_of(had), text_of(told)),
        None => format!("{last} is as large as told, or larger than what was looked at"),
    };
    say(format_args!("slimline: measured: {}, {memory}; {had}", caches.join(", ")));
    if let Some(taken) = taken {
        say(format_args!(
            "slimline: others had {:.0} % of the time meanwhile, so all of that is too slow, and too small: measure while the machine \
             is idle, and keep it (slimline machine measured > here.toml, then --machine here.toml)",
            100.0 * taken
        ));
    }
    Ok(MEASURED.get_or_init(|| machine).clone())
}

/// The part of the time that others had; none where it is too little to matter.
fn taken_by_others(had: f64, passed: f64) -> Option<f64> {
    const LEAST: f64 = 0.1;
    let taken = 1.0 - had / passed.max(f64::MIN_POSITIVE);
    (taken >= LEAST).then_some(taken)
}

fn description(topology: &Topology) -> HostDescription {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_a_processor_measures_others() {
        assert_eq!(taken_by_others(1.0, 2.0), Some(0.5));
        assert_eq!(taken_by_others(1.95, 2.0), None);
        // Clocks are read one after the other.
        assert_eq!((taken_by_others(2.1, 2.0), taken_by_others(0.0, 0.0)), (None, Some(1.0)));
    }
}
