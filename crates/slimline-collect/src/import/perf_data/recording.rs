//! What the records of a perf.data file say, applied to the processes that they are of.

use slimline_trace::access::AccessKind;
use slimline_trace::address::Avma;
use slimline_trace::served::Served;
use slimline_trace::session::{Imported, SampledEvent, WeightUnit};
use slimline_trace::tables::Sample;
use slimline_trace::wire::{BurstEnd, Quality};

use super::features::Features;
use super::rounds::Rounds;
use super::{Description, ImportError, Programs};
use crate::perf_event::{
    self, ByteOrder, Context, Decoded, EventAttr, Events, Flags, IbsOp, RawRecord, Record, RecordId, Weight,
    event_type, record_type, sample_type, software_event,
};

/// `pid` of what belongs to no process that perf could see.
const NO_PROCESS: u32 = u32::MAX;
/// Addresses from here on are the kernel's.
const KERNEL_BEGIN: u64 = 1 << 63;
/// Register of the stack pointer, by architecture (`PERF_REG_X86_SP`, `PERF_REG_ARM64_SP`).
const STACK_POINTERS: [(&str, u32); 2] = [("x86_64", 7), ("aarch64", 31)];
const ABI_64: u64 = 2;

/// Why records ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The file ends within a record.
    Truncated,
    /// A record can't be.
    Damaged,
}

/// Records of perf's own that say nothing which is not said elsewhere, too: maps of ids, threads and CPUs, names, marks.
const PASSED_OVER: [u32; 7] = [69, 73, 74, 78, 79, 80, 82];

/// A recording while it is read.
#[derive(Debug)]
pub(super) struct Recording {
    order: ByteOrder,
    events: Events,
    /// What the samples of each event count; `None` of one that never has any.
    units: Vec<Option<WeightUnit>>,
    event_ids: Vec<Vec<u64>>,
    features: Features,
    rounds: Rounds,
    unit: Option<WeightUnit>,
    /// Earliest and latest time of all.
    times: Option<[u64; 2]>,
    /// Time of the last record that was applied.
    applied_ns: u64,
    counts: Imported,
    stopped_early: Option<String>,
}

impl Recording {
    pub(super) fn new(order: ByteOrder) -> Self {
        Self {
            order,
            events: Events::default(),
            units: Vec::new(),
            event_ids: Vec::new(),
            features: Features::default(),
            rounds: Rounds::default(),
            unit: None,
            times: None,
            applied_ns: 0,
            counts: Imported { format: "perf.data".to_owned(), ..Imported::default() },
            stopped_early: None,
        }
    }

    /// Takes a feature in; one that can't be read tells nothing.
    pub(super) fn take_feature(&mut self, number: u32, bytes: &[u8]) {
        if self.features.take(number, bytes, self.order).is_err() {
            self.counts.malformed_records += 1;
        }
    }

    /// Adds an event.
    pub(super) fn add_event(&mut self, attr: EventAttr, ids: Vec<u64>) -> Result<(), ImportError> {
        let name = self.features.event_name(&attr, &ids);
        if let Some(what) = attr.unknown_layout() {
            return Err(ImportError::Newer { event: name, what });
        }
        self.events.add(attr, ids.iter().copied());
        self.event_ids.push(ids);
        Ok(())
    }

    /// perf did not come to close the file.
    pub(super) fn was_not_closed(&mut self) {
        self.stopped_early = Some("perf did not close the file: it was killed, or the disk was full".to_owned());
    }

    /// Records ended early.
    pub(super) fn stop(&mut self, stop: Stop) {
        self.stopped_early = Some(match stop {
            Stop::Truncated => "the file is truncated".to_owned(),
            Stop::Damaged => "the file is damaged: where its next record begins is lost".to_owned(),
        });
    }

    /// Takes the next record of the file.
    pub(super) fn take(&mut self, record: &RawRecord<'_>, programs: &mut Programs) -> Result<(), ImportError> {
        self.counts.records += 1;
        match record.kind {
            record_type::HEADER_ATTR => {
                let (attr, bytes) = EventAttr::decode(record.body, self.order)?;
                let mut fields = record.fields();
                fields.take(bytes, "event attribute")?;
                let ids = fields.words(fields.rest().len() as u64 / 8, "event ids")?;
                self.add_event(attr, ids.iter().collect())?;
            }
            record_type::HEADER_FEATURE => {
                let mut fields = record.fields();
                match fields.u64("feature") {
                    Ok(number) => self.take_feature(u32::try_from(number).unwrap_or(u32::MAX), fields.rest()),
                    Err(_) => self.counts.malformed_records += 1,
                }
            }
            record_type::FINISHED_ROUND => self.rounds.finish_round(),
            kind if PASSED_OVER.contains(&kind) => {}
            kind if kind >= record_type::FIRST_OF_PERF => self.count_unknown(kind),
            _ => self.hold(record, programs)?,
        }
        self.release(programs)
    }

    /// Applies all that is left.
    pub(super) fn finish(&mut self, programs: &mut Programs) -> Result<(), ImportError> {
        if self.events.attrs().is_empty() {
            return Err(ImportError::NoEvents);
        }
        self.rounds.finish();
        self.release(programs)
    }

    /// Holds a record of the kernel's back until its time comes. One without a time is perf's own of what there was before.
    fn hold(&mut self, record: &RawRecord<'_>, programs: &mut Programs) -> Result<(), ImportError> {
        let Some(event) = self.events.writer_of(record) else {
            self.counts.records_without_event += 1;
            return Ok(());
        };
        let id = match RecordId::of(record, &self.events.attrs()[event]) {
            Ok(id) => id,
            Err(perf_event::Malformed { .. }) => {
                self.counts.malformed_records += 1;
                return Ok(());
            }
        };
        match id.time.filter(|&time| time != 0 && time != u64::MAX) {
            Some(time_ns) => {
                let [first, last] = self.times.unwrap_or([time_ns; 2]);
                self.times = Some([first.min(time_ns), last.max(time_ns)]);
                self.rounds.push(time_ns, record);
                Ok(())
            }
            None => self.apply(record, programs),
        }
    }

    fn release(&mut self, programs: &mut Programs) -> Result<(), ImportError> {
        while let Some(waiting) = self.rounds.pop() {
            self.counts.records_out_of_order += u64::from(waiting.time_ns < self.applied_ns);
            self.applied_ns = self.applied_ns.max(waiting.time_ns);
            self.apply(&waiting.record(self.order), programs)?;
        }
        Ok(())
    }

    fn apply(&mut self, record: &RawRecord<'_>, programs: &mut Programs) -> Result<(), ImportError> {
        let Some(event) = self.events.writer_of(record) else { return Ok(()) };
        let Ok(Decoded { record: decoded, id }) = Record::decode(record, &self.events.attrs()[event]) else {
            self.counts.malformed_records += 1;
            return Ok(());
        };
        let time_ns = id.time.unwrap_or(0);
        match decoded {
            Record::Sample(sample) => return self.apply_sample(&sample, event, programs),
            Record::Mapping(mapping) => {
                if let Some(row) =
                    mapping.row(time_ns).filter(|_| mapping.task.pid != NO_PROCESS && mapping.start < KERNEL_BEGIN)
                {
                    programs.of(mapping.task.pid).mapped(row);
                }
            }
            Record::Comm { task, name, by_exec } => {
                if by_exec {
                    programs.replaced(task.pid, time_ns)?;
                }
                let name = String::from_utf8_lossy(name);
                programs.of(task.pid).thread_named(task.tid, time_ns, &name);
            }
            Record::Fork(task) => {
                let (child, parent) = (task.task, task.parent);
                // The kernel's own threads are no programs.
                if child.pid != parent.pid {
                    programs.forked(child.pid, parent.pid, time_ns, task.inherits)?;
                }
                programs.of(child.pid).thread_began(child.tid, time_ns);
            }
            Record::Exit(task) if programs.of(task.task.pid).thread_ended(task.task.tid, time_ns) => {
                programs.end(task.task.pid, time_ns)?;
            }
            Record::Lost { records } => self.counts.lost_records = self.counts.lost_records.saturating_add(records),
            Record::LostSamples { samples } => {
                self.counts.lost_samples = self.counts.lost_samples.saturating_add(samples);
            }
            Record::Throttle => self.counts.throttled += 1,
            Record::Unknown(kind) => self.count_unknown(kind),
            _ => {}
        }
        Ok(())
    }

    /// Of a type that says nothing of data, or is not known here.
    fn count_unknown(&mut self, kind: u32) {
        *self.counts.unknown_records.entry(kind).or_default() += 1;
    }

    fn apply_sample(
        &mut self,
        sample: &perf_event::Sample<'_>,
        event: usize,
        programs: &mut Programs,
    ) -> Result<(), ImportError> {
        let unit = self.unit();
        let sampled_unit = self.units[event].unwrap_or(WeightUnit::Samples);
        let weight = if sampled_unit == unit { weight_of(sample, &self.events.attrs()[event], unit) } else { 0 };
        self.counts.samples_without_weight += u64::from(sampled_unit != unit);
        let Some((task, ip)) = sample.id.task.zip(sample.ip).filter(|(task, _)| task.pid != NO_PROCESS) else {
            self.counts.samples_without_thread += 1;
            return Ok(());
        };
        if !sample.is_user() || ip >= KERNEL_BEGIN {
            self.counts.kernel_samples += 1;
            self.counts.kernel_weight = self.counts.kernel_weight.saturating_add(weight);
            return Ok(());
        }
        let op = sample.raw.filter(|_| self.is_ibs(event)).map(|raw| IbsOp::decode(raw, self.order));
        let op = op.transpose().unwrap_or_else(|_| {
            self.counts.malformed_records += 1;
            None
        });
        let told = sample.address.filter(|&address| address != 0);
        let address = told.or(op.and_then(|op| op.address())).unwrap_or(0);
        self.counts.samples_without_address += u64::from(address == 0);
        let kind = sample.source().operation().map(perf_event::Operation::kind);
        let kind = kind.or(op.map(|op| op.kind())).unwrap_or(AccessKind::NONE);
        let served = op.map_or(sample.served(), |op| filled(sample.served(), op.served()));
        let kind = if served.locked == Some(true) { kind.atomic() } else { kind };
        let frames: Vec<u64> = sample
            .callchain()
            .filter(|frame| frame.context == Context::User)
            .map(|frame| frame.address)
            // The first one is the instruction itself.
            .skip(1)
            .collect();
        // An address is of the instruction that the sample tells, and so is a latency. The clock's instruction is one that
        // came after what took the time, and nobody looked for that.
        let quality = match sampled_unit {
            _ if address != 0 => Quality::Exact,
            _ if op.is_some_and(|op| op.kind() == AccessKind::NONE) => Quality::NoMemory,
            WeightUnit::LatencyCycles => Quality::Lost,
            _ => Quality::NoCode,
        };
        let time_ns = sample.id.time.unwrap_or(self.applied_ns);
        let stack_pointer = self.stack_pointer(sample);
        programs.push(task.pid, |program| Sample {
            time_ns,
            thread: program.thread(task.tid, time_ns),
            // perf does not tell.
            cpu_ns: 0,
            weight,
            sampled_ip: Avma(ip),
            ip: Avma(if quality == Quality::NoCode { 0 } else { ip }),
            address: Avma(address),
            stack_pointer: Avma(stack_pointer),
            access_bytes: op.and_then(|op| op.bytes()).unwrap_or(0),
            kind,
            quality,
            block: None,
            stack: program.stack(&frames),
            accesses: 0,
            burst_instructions: 0,
            burst_end: BurstEnd::NotStarted,
            served,
        })?;
        Ok(())
    }

    /// Whether an event's raw data are the registers of AMD's instruction-based sampling.
    fn is_ibs(&self, event: usize) -> bool {
        self.features.pmus.get(&self.events.attrs()[event].kind).is_some_and(|pmu| pmu == "ibs_op")
    }

    fn stack_pointer(&self, sample: &perf_event::Sample<'_>) -> u64 {
        let architecture = self.features.machine.architecture.as_str();
        let register = STACK_POINTERS.iter().find(|(name, _)| *name == architecture).map(|&(_, register)| register);
        let registers = sample.user_registers.filter(|registers| registers.abi == ABI_64);
        register.zip(registers).and_then(|(register, registers)| registers.get(register)).unwrap_or(0)
    }

    /// What the session's weights count: of what its events count, that of which most is known. Decided with the first
    /// sample, as all events come before it.
    fn unit(&mut self) -> WeightUnit {
        if let Some(unit) = self.unit.filter(|_| self.units.len() == self.events.attrs().len()) {
            return unit;
        }
        self.units = self.events.attrs().iter().map(unit_of).collect();
        let by_knowledge = [WeightUnit::LatencyCycles, WeightUnit::TimeNs, WeightUnit::Period];
        let unit = by_knowledge.into_iter().find(|&unit| self.units.contains(&Some(unit)));
        *self.unit.insert(unit.unwrap_or(WeightUnit::Samples))
    }

    /// What the recording is, besides its samples.
    pub(super) fn describe(mut self) -> Description {
        let weight = self.unit();
        let named = self.events.attrs().iter().zip(&self.event_ids).zip(&self.units).filter(|(_, unit)| unit.is_some());
        let events = named.map(|((attr, ids), _)| sampled_event(attr, self.features.event_name(attr, ids))).collect();
        let clock = self.events.attrs().iter().zip(&self.units).find(|(_, unit)| **unit == Some(WeightUnit::TimeNs));
        let period_ns = clock.filter(|_| weight.is_time()).map_or(0, |(attr, _)| period_ns(attr));
        let Features { machine, perf_version, command, wall_clock, .. } = self.features;
        let [started_ns, ended_ns] = self.times.unwrap_or_default();
        let started_unix_ns = wall_clock.map_or(0, |(unix_ns, clock_ns)| {
            unix_ns.saturating_add_signed(started_ns.wrapping_sub(clock_ns).cast_signed())
        });
        let mut counts = self.counts;
        if !perf_version.is_empty() {
            counts.format = format!("{}, perf {perf_version}", counts.format);
        }
        let stopped_early = self.stopped_early;
        Description {
            machine,
            command,
            weight,
            events,
            period_ns,
            started_ns,
            ended_ns,
            started_unix_ns,
            stopped_early,
            counts,
        }
    }
}

/// What an event's samples count; `None` of one that is there for other records only.
fn unit_of(attr: &EventAttr) -> Option<WeightUnit> {
    if attr.kind == event_type::SOFTWARE && attr.config == software_event::DUMMY {
        return None;
    }
    // Software has no latency, whatever was asked for.
    let is_hardware = !matches!(attr.kind, event_type::SOFTWARE | event_type::TRACEPOINT | event_type::BREAKPOINT);
    let has_weight = attr.samples(sample_type::WEIGHT) || attr.samples(sample_type::WEIGHT_STRUCT);
    Some(if is_hardware && has_weight && attr.samples(sample_type::ADDR) {
        WeightUnit::LatencyCycles
    } else if attr.counts_time() {
        WeightUnit::TimeNs
    } else if attr.samples(sample_type::PERIOD) || !attr.flags.has(Flags::FREQ) {
        WeightUnit::Period
    } else {
        WeightUnit::Samples
    })
}

/// Time between two samples of a clock; 0 where it is not told.
fn period_ns(attr: &EventAttr) -> u64 {
    let asked = attr.period_or_frequency;
    if attr.flags.has(Flags::FREQ) { 1_000_000_000_u64.checked_div(asked).unwrap_or(0) } else { asked }
}

fn sampled_event(attr: &EventAttr, name: String) -> SampledEvent {
    let asked = Some(attr.period_or_frequency).filter(|&asked| asked > 0);
    let is_frequency = attr.flags.has(Flags::FREQ);
    let least_latency_cycles = name
        .split_once("ldlat=")
        .and_then(|(_, rest)| rest.split(|end: char| !end.is_ascii_digit()).next()?.parse().ok());
    SampledEvent {
        name,
        period: asked.filter(|_| !is_frequency),
        frequency_hz: asked.filter(|_| is_frequency),
        least_latency_cycles,
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

fn weight_of(sample: &perf_event::Sample<'_>, attr: &EventAttr, unit: WeightUnit) -> u64 {
    match unit {
        WeightUnit::LatencyCycles => match sample.weight {
            Some(Weight::One(cycles)) => cycles,
            Some(Weight::Three { access, .. }) => access.into(),
            None => 0,
        },
        WeightUnit::TimeNs | WeightUnit::Period => sample.period.unwrap_or(attr.period_or_frequency),
        WeightUnit::Samples => 1,
    }
}
