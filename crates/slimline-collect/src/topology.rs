//! Which CPUs share which caches, and which memory is near to them, as sysfs shows it.

use std::fs;
use std::path::Path;

use slimline_trace::session::Cache;

use crate::machine::{caches, cpus_in};

/// What the kernel tells of this machine's caches and memories; empty where it tells nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// CPUs that are online.
    pub cpus: Vec<u32>,
    /// Each cache once, with the CPUs that share it.
    pub caches: Vec<(Cache, Vec<u32>)>,
    /// NUMA nodes.
    pub nodes: Vec<TopologyNode>,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyNode {
    /// Its number.
    pub number: u32,
    /// Its CPUs.
    pub cpus: Vec<u32>,
    /// Its memory.
    pub bytes: u64,
    /// To each node, in their order; 10 is the own one.
    pub distances: Vec<u32>,
}

/// This machine's.
pub fn topology() -> Topology {
    read(Path::new("/sys/devices/system"), &crate::machine::online_cpus())
}

fn read(system: &Path, online: &[u32]) -> Topology {
    let mut found: Vec<(Cache, Vec<u32>)> = Vec::new();
    for &cpu in online {
        for cache in caches(&system.join(format!("cpu/cpu{cpu}/cache"))) {
            let mut cpus = cpus_in(&cache.shared_by);
            if !cpus.contains(&cpu) {
                cpus = vec![cpu];
            }
            let is_known =
                |(known, its): &(Cache, Vec<u32>)| (known.level, &known.kind, its) == (cache.level, &cache.kind, &cpus);
            if !found.iter().any(is_known) {
                found.push((cache, cpus));
            }
        }
    }
    Topology { cpus: online.to_vec(), caches: found, nodes: nodes(&system.join("node")) }
}

/// By number. A kernel may leave some out.
fn nodes(directory: &Path) -> Vec<TopologyNode> {
    let numbers = fs::read_to_string(directory.join("online")).unwrap_or_default();
    let node = |number: u32| {
        let read = |name| fs::read_to_string(directory.join(format!("node{number}/{name}"))).ok();
        // `Node 0 MemTotal:       16384 kB`
        let memory = read("meminfo")?;
        let kibibytes = memory.lines().find(|line| line.contains("MemTotal:"))?.split_whitespace().nth(3)?;
        Some(TopologyNode {
            number,
            cpus: cpus_in(read("cpulist")?.trim()),
            bytes: kibibytes.parse::<u64>().ok()?.checked_mul(1024)?,
            distances: read("distance")?.split_whitespace().filter_map(|distance| distance.parse().ok()).collect(),
        })
    };
    cpus_in(numbers.trim()).into_iter().filter_map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_told_once_with_all_its_cpus() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |name: String, text: &str| {
            let path = scratch.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        for cpu in 0..2 {
            for (index, level, kind, size, shared) in
                [(0, "1", "Data", "48K", cpu.to_string()), (1, "3", "Unified", "36608K", "0-1".to_owned())]
            {
                let files = [
                    ("level", level),
                    ("type", kind),
                    ("size", size),
                    ("shared_cpu_list", &shared),
                    ("ways_of_associativity", "11"),
                ];
                for (name, text) in files {
                    write(format!("cpu/cpu{cpu}/cache/index{index}/{name}"), text);
                }
            }
            write(format!("node/node{cpu}/cpulist"), &cpu.to_string());
            write(
                format!("node/node{cpu}/meminfo"),
                &format!("Node {cpu} MemTotal:  2048 kB\nNode {cpu} MemFree: 1 kB"),
            );
            write(format!("node/node{cpu}/distance"), if cpu == 0 { "10 21" } else { "21 10" });
        }
        write("node/online".to_owned(), "0-1");
        let found = read(scratch.path(), &[0, 1]);
        let caches: Vec<_> =
            found.caches.iter().map(|(cache, cpus)| (cache.level, cache.bytes >> 10, &cpus[..])).collect();
        assert_eq!(caches, [(1, 48, &[0][..]), (3, 36_608, &[0, 1]), (1, 48, &[1])]);
        let nodes: Vec<_> = found.nodes.iter().map(|node| (node.bytes, &node.cpus[..], &node.distances[..])).collect();
        assert_eq!(nodes, [(2 << 20, &[0][..], &[10, 21][..]), (2 << 20, &[1], &[21, 10])]);
        assert_eq!(read(&scratch.path().join("missing"), &[0]).caches, []);
    }
}
