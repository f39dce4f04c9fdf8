//! What the records of a perf.data file say, applied to the processes that they are of.

use std::collections::HashMap;

use slimline_trace::session::{Imported, SampledEvent, WeightUnit};
use slimline_trace::wire::Quality;

use super::clock::CounterClock;
use super::features::Features;
use super::rounds::{Held, Operation, Rounds};
use super::stream::AuxPiece;
use super::{Description, ImportError, Programs};
use crate::perf_event::{
    self, ByteOrder, Caught, Context, Decoded, EventAttr, Events, Flags, IbsOp, RawRecord, Record, RecordId, Sample,
    SpeRecords, Taken, TaskId, Weighing, period_ns, record_type, sample_type,
};

/// `pid` of what belongs to no process that perf could see.
const NO_PROCESS: u32 = u32::MAX;
/// Addresses from here on are the kernel's.
const KERNEL_BEGIN: u64 = 1 << 63;
/// Register of the stack pointer, by architecture (`PERF_REG_X86_SP`, `PERF_REG_ARM64_SP`).
const STACK_POINTERS: [(&str, u32); 2] = [("x86_64", 7), ("aarch64", 31)];
const ABI_64: u64 = 2;
/// Longest call chain where an event says nothing of it (`kernel.perf_event_max_stack`).
const DEFAULT_MOST_FRAMES: usize = 127;

/// Why records ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The file ends within a record.
    Truncated,
    /// A record can't be.
    Damaged,
}

/// Records of perf's own that say nothing which is not said elsewhere, too: maps of ids, threads and CPUs, names, marks.
const PASSED_OVER: [u32; 5] = [
    record_type::ID_INDEX,
    record_type::THREAD_MAP,
    record_type::CPU_MAP,
    record_type::EVENT_UPDATE,
    record_type::FINISHED_INIT,
];
/// The format of Arm's profiling extension, in AUXTRACE_INFO.
const AUX_OF_ARM_SPE: u32 = 4;

/// A recording while it is read.
#[derive(Debug)]
pub(super) struct Recording {
    order: ByteOrder,
    events: Events,
    weighing: Weighing,
    event_ids: Vec<Vec<u64>>,
    features: Features,
    rounds: Rounds,
    /// Earliest and latest time of all.
    times: Option<[u64; 2]>,
    /// Time of the last record that was applied.
    applied_ns: u64,
    counts: Imported,
    stopped_early: Option<String>,
    /// AUX areas hold operations of Arm's profiling extension.
    has_operations: bool,
    counter: Option<CounterClock>,
    /// Who runs on each CPU, and the processes of threads: operations tell neither.
    on_cpu: HashMap<u32, TaskId>,
    process_of: HashMap<u32, u32>,
}

impl Recording {
    pub(super) fn new(order: ByteOrder) -> Self {
        Self {
            order,
            events: Events::default(),
            weighing: Weighing::default(),
            event_ids: Vec::new(),
            features: Features::default(),
            rounds: Rounds::default(),
            times: None,
            applied_ns: 0,
            counts: Imported { format: "perf.data".to_owned(), ..Imported::default() },
            stopped_early: None,
            has_operations: false,
            counter: None,
            on_cpu: HashMap::new(),
            process_of: HashMap::new(),
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

    /// So many bytes are behind the recording's end.
    pub(super) fn passed_behind(&mut self, bytes: u64) {
        self.counts.trailing_bytes += bytes;
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
            record_type::TIME_CONV => match CounterClock::decode(record.fields()) {
                Ok(counter) => self.counter = Some(counter),
                Err(perf_event::Malformed { .. }) => self.counts.malformed_records += 1,
            },
            record_type::AUXTRACE_INFO if record.fields().u32("AUX format") == Ok(AUX_OF_ARM_SPE) => {
                self.has_operations = true;
            }
            kind if PASSED_OVER.contains(&kind) => {}
            kind if kind >= record_type::FIRST_OF_PERF => self.count_unknown(kind),
            _ => self.hold(record, programs)?,
        }
        self.release(programs)
    }

    /// Whether AUX data can be read.
    pub(super) fn reads_aux(&self) -> bool {
        self.has_operations
    }

    /// Takes a piece of an AUX area.
    pub(super) fn take_aux(&mut self, piece: AuxPiece<'_>, programs: &mut Programs) -> Result<(), ImportError> {
        let AuxPiece { cpu, tid, offset, bytes } = piece;
        for sampled in SpeRecords::new(bytes, offset) {
            let Ok(sampled) = sampled else {
                self.counts.malformed_records += 1;
                continue;
            };
            let time_ns = self.counter.zip(sampled.timestamp).map(|(clock, counter)| clock.time_ns(counter));
            let operation = Operation { sampled, cpu, tid };
            match time_ns {
                Some(time_ns) => {
                    self.note_time(time_ns);
                    self.rounds.push(time_ns, Held::Operation(Box::new(operation)));
                    // A piece may hold more of them than should wait.
                    self.release(programs)?;
                }
                None => self.apply_operation(&operation, self.applied_ns, programs)?,
            }
        }
        Ok(())
    }

    fn note_time(&mut self, time_ns: u64) {
        let [first, last] = self.times.unwrap_or([time_ns; 2]);
        self.times = Some([first.min(time_ns), last.max(time_ns)]);
    }

    /// So many bytes of AUX data were passed over.
    pub(super) fn passed_aux(&mut self, bytes: u64) {
        self.counts.aux_bytes = bytes;
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
                self.note_time(time_ns);
                self.rounds.push(time_ns, Held::of(record));
                Ok(())
            }
            None => self.apply(record, programs),
        }
    }

    fn release(&mut self, programs: &mut Programs) -> Result<(), ImportError> {
        while let Some(waiting) = self.rounds.pop() {
            self.counts.records_out_of_order += u64::from(waiting.time_ns < self.applied_ns);
            self.applied_ns = self.applied_ns.max(waiting.time_ns);
            match &waiting.held {
                Held::Operation(operation) => self.apply_operation(operation, waiting.time_ns, programs)?,
                Held::Record { kind, misc, body } => {
                    let record = RawRecord { kind: *kind, misc: *misc, body, order: self.order };
                    self.apply(&record, programs)?;
                }
            }
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
                    programs.of(mapping.task.pid).run.mapped(row);
                }
            }
            Record::Comm { task, name, by_exec } => {
                if by_exec {
                    programs.replaced(task.pid, time_ns)?;
                }
                self.process_of.insert(task.tid, task.pid);
                let name = String::from_utf8_lossy(name);
                programs.of(task.pid).run.thread_named(task.tid, time_ns, &name);
            }
            Record::Fork(task) => {
                let (child, parent) = (task.task, task.parent);
                self.process_of.insert(child.tid, child.pid);
                // The kernel's own threads are no programs.
                if child.pid != parent.pid {
                    programs.forked(child.pid, parent.pid, time_ns, task.inherits)?;
                }
                programs.of(child.pid).run.thread_began(child.tid, time_ns);
            }
            Record::Switch { is_out, .. } => {
                if let Some((cpu, task)) = id.cpu.zip(id.task) {
                    if is_out {
                        self.on_cpu.remove(&cpu)
                    } else {
                        self.on_cpu.insert(cpu, task)
                    };
                }
            }
            Record::Exit(task) if programs.of(task.task.pid).run.thread_ended(task.task.tid, time_ns) => {
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
        let caught = self.caught(sample, event);
        let weight = self.weight(sample, event, &caught);
        let Some((task, ip)) = self.taken(sample, weight.unwrap_or(0)) else { return Ok(()) };
        self.counts.samples_without_weight += u64::from(weight.is_none());
        self.counts.samples_without_address += u64::from(caught.address == 0);
        // An address is of the instruction that the sample tells, and so is a latency. The clock's instruction is one that
        // came after what took the time, and nobody looked for that.
        let quality = match self.weighing.unit_of(event) {
            _ if caught.address != 0 => Quality::Exact,
            _ if caught.is_no_access => Quality::NoMemory,
            Some(WeightUnit::LatencyCycles) => Quality::Lost,
            _ => Quality::NoCode,
        };
        let time_ns = sample.id.time.unwrap_or(self.applied_ns);
        let stack_pointer = self.stack_pointer(sample);
        let (frames, is_cut) = frames(sample, &self.events.attrs()[event]);
        programs.push(task.pid, |program| {
            caught.row(Taken {
                time_ns,
                thread: program.run.thread(task.tid, time_ns),
                weight: weight.unwrap_or(0),
                sampled_ip: ip,
                ip: if quality == Quality::NoCode { 0 } else { ip },
                quality,
                stack_pointer,
                stack: program.stack(&frames, is_cut),
            })
        })?;
        Ok(())
    }

    /// An operation of Arm's profiling extension.
    fn apply_operation(
        &mut self,
        operation: &Operation,
        time_ns: u64,
        programs: &mut Programs,
    ) -> Result<(), ImportError> {
        self.decide_weighing();
        let Operation { sampled, cpu, tid } = operation;
        let Some(event) = (0..self.events.attrs().len()).find(|&event| self.is_spe(event)) else {
            self.counts.records_without_event += 1;
            return Ok(());
        };
        let (ip, level) = sampled.instruction.unwrap_or_default();
        let caught = Caught::of_operation(sampled, self.features.midr);
        let weight = self.weighing.weight(event, &self.events.attrs()[event], &Sample::default(), &caught);
        if level > 0 || ip >= KERNEL_BEGIN {
            self.counts.kernel_samples += 1;
            self.counts.kernel_weight = self.counts.kernel_weight.saturating_add(weight.unwrap_or(0));
            return Ok(());
        }
        let of_thread = |tid: u32| Some(TaskId { pid: *self.process_of.get(&tid)?, tid });
        let told = sampled.context.or(*tid).and_then(of_thread);
        let Some(task) = told.or_else(|| self.on_cpu.get(&(*cpu)?).copied()).filter(|_| ip != 0) else {
            self.counts.samples_without_thread += 1;
            return Ok(());
        };
        self.counts.samples_without_weight += u64::from(weight.is_none());
        self.counts.samples_without_address += u64::from(caught.address == 0);
        let quality = match caught.address {
            0 if caught.is_no_access => Quality::NoMemory,
            0 => Quality::Lost,
            _ => Quality::Exact,
        };
        programs.push(task.pid, |program| {
            let thread = program.run.thread(task.tid, time_ns);
            let (weight, stack_pointer, stack) = (weight.unwrap_or(0), 0, None);
            caught.row(Taken { time_ns, thread, weight, sampled_ip: ip, ip, quality, stack_pointer, stack })
        })?;
        Ok(())
    }

    /// Whether an event's samples are operations in AUX areas.
    fn is_spe(&self, event: usize) -> bool {
        self.features.pmus.get(&self.events.attrs()[event].kind).is_some_and(|pmu| pmu.starts_with("arm_spe"))
    }

    /// The access that a sample tells of.
    fn caught(&mut self, sample: &perf_event::Sample<'_>, event: usize) -> Caught {
        let op = sample.raw.filter(|_| self.is_ibs(event)).map(|raw| IbsOp::decode(raw, self.order));
        self.counts.malformed_records += u64::from(matches!(op, Some(Err(_))));
        Caught::of(sample, op.and_then(Result::ok).as_ref())
    }

    /// What a sample weighs; `None` where those of another event do.
    fn weight(&mut self, sample: &perf_event::Sample<'_>, event: usize, caught: &Caught) -> Option<u64> {
        self.decide_weighing();
        self.weighing.weight(event, &self.events.attrs()[event], sample, caught)
    }

    /// Thread and instruction of a sample that is a program's; counts those that are not.
    fn taken(&mut self, sample: &perf_event::Sample<'_>, weight: u64) -> Option<(TaskId, u64)> {
        let Some((task, ip)) = sample.id.task.zip(sample.ip).filter(|(task, _)| task.pid != NO_PROCESS) else {
            self.counts.samples_without_thread += 1;
            return None;
        };
        if !sample.is_user() || ip >= KERNEL_BEGIN {
            self.counts.kernel_samples += 1;
            self.counts.kernel_weight = self.counts.kernel_weight.saturating_add(weight);
            return None;
        }
        Some((task, ip))
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

    /// Decides with the first sample which event weighs, as all events come before it.
    fn decide_weighing(&mut self) {
        if self.weighing.events() == self.events.attrs().len() {
            return;
        }
        let mut attrs = self.events.attrs().to_vec();
        for (event, attr) in attrs.iter_mut().enumerate() {
            // Operations tell address and latency, though no field of the kernel's does.
            let told = sample_type::ADDR | sample_type::WEIGHT;
            attr.sample_type |= if self.is_spe(event) { told } else { 0 };
        }
        let name = |(attr, ids): (_, &Vec<u64>)| (attr, self.features.event_name(attr, ids));
        self.weighing = Weighing::of(attrs.iter().zip(&self.event_ids).map(name));
    }

    /// What the recording is, besides its samples.
    pub(super) fn describe(mut self) -> Description {
        self.decide_weighing();
        let weighing = &self.weighing;
        let name = |event: usize| self.features.event_name(&self.events.attrs()[event], &self.event_ids[event]);
        let sampled: Vec<usize> = (0..weighing.events()).filter(|&event| weighing.unit_of(event).is_some()).collect();
        let attr = |event: usize| &self.events.attrs()[event];
        let events = sampled.iter().map(|&event| sampled_event(attr(event), name(event))).collect();
        let period_ns =
            weighing.first().filter(|_| weighing.unit().is_time()).map_or(0, |event| period_ns(attr(event)));
        self.counts.weighed_event = weighing.first().map(name).unwrap_or_default();
        let weight = weighing.unit();
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

/// Return addresses of a sample's call chain, innermost first, and whether it was cut at the longest that the event allows.
fn frames(sample: &perf_event::Sample<'_>, attr: &EventAttr) -> (Vec<u64>, bool) {
    let most = if attr.max_stack == 0 { DEFAULT_MOST_FRAMES } else { attr.max_stack.into() };
    let of_program = sample.callchain().filter(|frame| frame.context == Context::User).map(|frame| frame.address);
    // The first one is the instruction itself.
    (of_program.skip(1).collect(), sample.callchain().count() >= most)
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
