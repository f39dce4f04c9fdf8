//! The access that a sample caught: from the kernel's fields and, where there are any, from the processor's registers.

use slimline_trace::access::AccessKind;
use slimline_trace::address::Avma;
use slimline_trace::served::Served;
use slimline_trace::tables::{self, StackRow, ThreadRow};
use slimline_trace::wire::{BurstEnd, Quality};

use super::data_source::Operation;
use super::ibs::IbsOp;
use super::sample::Sample;
use super::spe::SpeRecord;

/// What a sample tells of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    /// The address; 0 where it is not told.
    pub address: u64,
    /// Size in bytes; 0 where it is not told.
    pub bytes: u16,
    /// What it does.
    pub kind: AccessKind,
    /// How it was served.
    pub served: Served,
    /// The processor says that the operation touches no memory.
    pub is_no_access: bool,
}

/// Whose a sample is, and what else is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// When.
    pub time_ns: u64,
    /// Its thread.
    pub thread: ThreadRow,
    /// What it weighs.
    pub weight: u64,
    /// The instruction that it shows.
    pub sampled_ip: u64,
    /// The instruction that is to blame; 0 where that is not known.
    pub ip: u64,
    /// How well the access is known.
    pub quality: Quality,
    /// Its stack pointer; 0 where it is not known.
    pub stack_pointer: u64,
    /// Its call path.
    pub stack: Option<StackRow>,
}

impl Caught {
    /// Of a sample; `op` are the registers of AMD's instruction-based sampling.
    pub fn of(sample: &Sample<'_>, op: Option<&IbsOp>) -> Self {
        let told = sample.address.filter(|&address| address != 0);
        let operation = sample.source().operation().map(Operation::kind);
        let kind = operation.or(op.map(IbsOp::kind)).unwrap_or(AccessKind::NONE);
        let served = op.map_or(sample.served(), |op| filled(sample.served(), op.served()));
        Self {
            address: told.or(op.and_then(IbsOp::address)).unwrap_or(0),
            bytes: op.and_then(IbsOp::bytes).unwrap_or(0),
            kind: if served.locked == Some(true) { kind.atomic() } else { kind },
            served,
            is_no_access: op.is_some_and(|op| op.kind() == AccessKind::NONE),
        }
    }

    /// Of an operation that Arm's profiling extension sampled on a core with this main ID register.
    pub fn of_operation(operation: &SpeRecord, midr: Option<u64>) -> Self {
        Self {
            address: operation.address.unwrap_or(0),
            bytes: 0,
            kind: operation.kind.unwrap_or(AccessKind::NONE),
            served: operation.served(midr),
            is_no_access: !operation.is_access(),
        }
    }

    /// The row of the sample, which has no burst.
    pub fn row(&self, taken: Taken) -> tables::Sample {
        tables::Sample {
            time_ns: taken.time_ns,
            thread: taken.thread,
            // Nobody tells.
            cpu_ns: 0,
            weight: taken.weight,
            sampled_ip: Avma(taken.sampled_ip),
            ip: Avma(taken.ip),
            address: Avma(self.address),
            stack_pointer: Avma(taken.stack_pointer),
            access_bytes: self.bytes,
            kind: self.kind,
            quality: taken.quality,
            block: None,
            stack: taken.stack,
            accesses: 0,
            burst_instructions: 0,
            burst_end: BurstEnd::NotStarted,
            served: self.served,
            within: tables::Within::default(),
        }
    }
}

/// What the kernel told, and where it told nothing, what the processor's registers do.
fn filled(told: Served, registers: Served) -> Served {
    Served {
        latency_cycles: told.latency_cycles.or(registers.latency_cycles),
        instruction_cycles: told.instruction_cycles.or(registers.instruction_cycles),
        retire_cycles: told.retire_cycles.or(registers.retire_cycles),
        level: told.level.or(registers.level),
        hops: told.hops.or(registers.hops),
        snoop: told.snoop.or(registers.snoop),
        translation: told.translation.or(registers.translation),
        locked: told.locked.or(registers.locked),
        physical_address: told.physical_address.or(registers.physical_address),
        page_bytes: told.page_bytes.or(registers.page_bytes),
    }
}
