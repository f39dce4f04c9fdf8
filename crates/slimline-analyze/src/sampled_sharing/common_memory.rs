//! Addresses of shared memory that all processes have in common.

use rustc_hash::FxHashMap;
use slimline_attribute::data::shared_memory::{SharedMappings, SharedObject};
use slimline_trace::tables::Mappings;

/// Common addresses are above those of processes: each object has an address space of its own.
const SPACE_BITS: u32 = 48;
const FIRST_SPACE: u64 = 1 << 15;
/// Where an object begins in its space.
const FIRST_ADDRESS: u64 = 1 << 44;

/// What processes share.
#[derive(Debug, Default)]
pub(super) struct CommonMemory {
    /// By process.
    processes: Vec<SharedMappings>,
    /// Each object's number, and the first process that has it.
    objects: FxHashMap<SharedObject, (u64, usize)>,
    /// By process: the first one that shares any object with it, or itself.
    companies: Vec<usize>,
}

impl CommonMemory {
    /// In the place of the process that a line is of.
    pub(super) const OF_NO_PROCESS: usize = usize::MAX;

    /// Takes in the next process.
    pub(super) fn add_process(&mut self, mappings: &Mappings) {
        let process = self.processes.len();
        let shared = SharedMappings::new(mappings);
        let mut company = process;
        for object in shared.objects() {
            let next = (self.objects.len() as u64, process);
            let (_, first) = *self.objects.entry(object.clone()).or_insert(next);
            company = company.min(self.companies.get(first).copied().unwrap_or(first));
        }
        self.companies.push(company);
        self.processes.push(shared);
    }

    /// Whether a process has any shared mapping.
    pub(super) fn has_any(&self, process: usize) -> bool {
        self.processes.get(process).is_some_and(|shared| !shared.is_empty())
    }

    /// The common address of a process's address at a time; none where that is the process's alone.
    pub(super) fn address(&self, process: usize, address: u64, time_ns: u64) -> Option<u64> {
        let (object, offset) = self.processes.get(process)?.at(address, time_ns)?;
        let (number, _) = self.objects.get(object)?;
        Some((FIRST_SPACE + number) << SPACE_BITS | FIRST_ADDRESS.wrapping_add(offset) & ((1 << SPACE_BITS) - 1))
    }

    /// A number that processes have in common which share memory.
    pub(super) fn company(&self, process: usize) -> usize {
        self.companies.get(process).copied().unwrap_or(process)
    }
}
