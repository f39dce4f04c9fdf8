//! The model of a machine of what its kernel tells.

use super::{Cache, Counting, Holds, Inclusion, Machine, MachineError, Memory, Prefetch, Replacement, Sharing};

/// What a kernel tells of the machine it runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostDescription {
    /// CPUs that are online, by the kernel's numbers.
    pub cpus: Vec<u32>,
    /// Each cache once.
    pub caches: Vec<HostCache>,
    /// NUMA nodes. None: one memory for all.
    pub nodes: Vec<HostNode>,
}

/// A cache of one or several CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCache {
    /// From 1.
    pub level: u8,
    /// What it holds.
    pub holds: Holds,
    /// Its size.
    pub bytes: u64,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Lines of a set; 0: of all of it.
    pub ways: u32,
    /// CPUs that share it.
    pub cpus: Vec<u32>,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNode {
    /// Its number.
    pub number: u32,
    /// Its CPUs.
    pub cpus: Vec<u32>,
    /// Its memory.
    pub bytes: u64,
    /// To each node, in their order; 10 is the own one.
    pub distances: Vec<u32>,
}

/// Kernels tell no latencies: these are usual ones, by level, in cycles.
const LATENCY_CYCLES: [u32; 4] = [4, 14, 50, 80];
/// Of the memory of the own node.
const MEMORY_CYCLES: u32 = 200;
/// The distance to the own node.
const OWN_DISTANCE: u32 = 10;

impl HostDescription {
    /// Its model. CPUs are cores, in the order of their numbers. Where there are cores of two kinds, those of the first
    /// CPU's kind are the machine. What kernels don't tell: caches are neither inclusive nor exclusive and replace the
    /// least recently used line, latencies are usual ones, and there are no TLBs and no prefetchers.
    ///
    /// # Errors
    /// One line: what is missing, or as [`Machine::check`].
    pub fn machine(&self) -> Result<Machine, MachineError> {
        let kinds = |cpu: u32| {
            let mut caches: Vec<_> = self.caches.iter().filter(|cache| cache.cpus.contains(&cpu)).collect();
            caches.sort_by_key(|cache| (cache.level, cache.holds as u8));
            caches.iter().map(|c| (c.level, c.holds, c.bytes, c.line_bytes, c.ways)).collect::<Vec<_>>()
        };
        let Some(first) = self.cpus.iter().min().map(|&cpu| kinds(cpu)).filter(|kinds| !kinds.is_empty()) else {
            return Err(MachineError("this machine does not tell of its caches".to_owned()));
        };
        let mut cpus: Vec<u32> = self.cpus.iter().copied().filter(|&cpu| kinds(cpu) == first).collect();
        cpus.sort_unstable();
        let cores = cpus.len() as u32;
        let caches = first.iter().map(|&(level, holds, bytes, line_bytes, ways)| Cache {
            name: name(level, holds),
            level,
            holds,
            bytes,
            line_bytes,
            ways: if ways == 0 { u32::try_from(bytes / u64::from(line_bytes.max(1))).unwrap_or(0) } else { ways },
            latency_cycles: *LATENCY_CYCLES.get(usize::from(level).saturating_sub(1)).unwrap_or(&LATENCY_CYCLES[3]),
            sharing: self.sharing(level, holds, &cpus),
            inclusion: Inclusion::Neither,
            replacement: Replacement::Lru,
            prefetch: Prefetch::None,
        });
        let machine = Machine {
            name: "host".to_owned(),
            cores,
            caches: caches.collect(),
            tlbs: Vec::new(),
            page_walk_cycles: 0,
            memories: self.memories(&cpus),
            transfer_cycles: None,
            counting: Counting::Lines,
        };
        machine.check()?;
        Ok(machine)
    }

    /// Numbers the caches of a kind by the first of their CPUs.
    fn sharing(&self, level: u8, holds: Holds, cpus: &[u32]) -> Sharing {
        let of_kind: Vec<&HostCache> =
            self.caches.iter().filter(|cache| cache.level == level && cache.holds == holds).collect();
        let mut numbers: Vec<usize> = Vec::new();
        let number = |cpu| {
            let place = of_kind.iter().position(|cache| cache.cpus.contains(cpu)).unwrap_or(0);
            numbers.iter().position(|&known| known == place).unwrap_or_else(|| {
                numbers.push(place);
                numbers.len() - 1
            }) as u32
        };
        Sharing { cache_of_core: cpus.iter().map(number).collect() }
    }

    fn memories(&self, cpus: &[u32]) -> Vec<Memory> {
        let core_of = |cpu: &u32| cpus.iter().position(|known| known == cpu).map(|core| core as u32);
        let is_complete = self.nodes.len() > 1
            && self.nodes.iter().all(|node| node.distances.len() == self.nodes.len())
            && cpus.iter().all(|cpu| self.nodes.iter().any(|node| node.cpus.contains(cpu)));
        if !is_complete {
            let cores = (0..cpus.len() as u32).collect();
            return vec![Memory { name: "memory".to_owned(), bytes: None, cores, latency_cycles: vec![MEMORY_CYCLES] }];
        }
        let cycles = |place: usize| {
            let far = move |from: &HostNode| MEMORY_CYCLES.saturating_mul(from.distances[place]) / OWN_DISTANCE;
            self.nodes.iter().map(far).collect()
        };
        let memory = |(place, node): (usize, &HostNode)| Memory {
            name: format!("node{}", node.number),
            bytes: Some(node.bytes),
            cores: node.cpus.iter().filter_map(core_of).collect(),
            latency_cycles: cycles(place),
        };
        self.nodes.iter().enumerate().map(memory).collect()
    }
}

/// `L1d`
fn name(level: u8, holds: Holds) -> String {
    let kind = match holds {
        Holds::Data => "d",
        Holds::Instructions => "i",
        Holds::Unified => "",
    };
    format!("L{level}{kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(level: u8, holds: Holds, kibibytes: u64, ways: u32, cpus: &[u32]) -> HostCache {
        HostCache { level, holds, bytes: kibibytes << 10, line_bytes: 64, ways, cpus: cpus.to_vec() }
    }

    #[test]
    fn cpus_are_cores_whatever_their_numbers() {
        let node = |number, cpus: &[u32], distances: &[u32]| HostNode {
            number,
            cpus: cpus.to_vec(),
            bytes: 1 << 30,
            distances: distances.to_vec(),
        };
        let host = HostDescription {
            // 3 is offline; 0 and 4, and 1 and 5, are threads of a core.
            cpus: vec![0, 1, 4, 5],
            caches: vec![
                cache(1, Holds::Data, 48, 12, &[1, 5]),
                cache(1, Holds::Data, 48, 12, &[0, 4]),
                cache(3, Holds::Unified, 36_608, 11, &[0, 1, 4, 5]),
                cache(2, Holds::Unified, 2048, 16, &[0, 4]),
                cache(2, Holds::Unified, 2048, 16, &[1, 5]),
            ],
            nodes: vec![node(0, &[0, 4], &[10, 21]), node(2, &[1, 5], &[21, 10])],
        };
        let machine = host.machine().unwrap();
        assert_eq!(machine.cores, 4);
        let names: Vec<_> = machine.caches.iter().map(|cache| (cache.name.as_str(), cache.sets())).collect();
        assert_eq!(names, [("L1d", 64), ("L2", 2048), ("L3", 53_248)]);
        assert_eq!(machine.caches[0].sharing.cache_of_core, [0, 1, 0, 1]);
        assert_eq!(machine.caches[2].sharing.cache_of_core, [0, 0, 0, 0]);
        let memories: Vec<_> = machine.memories.iter().map(|m| (m.name.as_str(), &m.latency_cycles[..])).collect();
        assert_eq!(memories, [("node0", &[200, 420][..]), ("node2", &[420, 200][..])]);
        assert_eq!(machine.memory_of_core(), [0, 1, 0, 1]);
    }

    #[test]
    fn of_two_kinds_of_cores_the_first_is_the_machine() {
        let host = HostDescription {
            cpus: vec![0, 1, 2],
            caches: vec![
                cache(1, Holds::Data, 48, 12, &[0]),
                cache(1, Holds::Data, 32, 8, &[1]),
                cache(1, Holds::Data, 32, 8, &[2]),
            ],
            nodes: Vec::new(),
        };
        let machine = host.machine().unwrap();
        assert_eq!((machine.cores, machine.caches[0].bytes, machine.memories.len()), (1, 48 << 10, 1));
        let nothing = HostDescription { cpus: vec![0], ..HostDescription::default() };
        assert_eq!(nothing.machine().unwrap_err().to_string(), "this machine does not tell of its caches");
    }
}
