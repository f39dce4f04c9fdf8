//! What is asked of the kernel, and what of its records concerns us, in a form that outlives the ring.

use slimline_emulate::State;
use slimline_trace::tables::Mapping;

use super::hardware::Granted;
use crate::perf_event::{
    self, ByteOrder, Caught, Decoded, EventAttr, Events, Flags, IbsOp, RawRecord, Record, Registers, Sample, TaskId,
    Weighing, event_type, sample_type, software_event,
};

/// Registers in samples: all that user mode has but the segments', which the kernel does not give
/// (`PERF_REG_X86_AX` to `SS`, and `R8` to `R15`).
const REGISTERS: u64 = 0x00ff_0fff;
/// The kernel's numbers of the general-purpose registers, in the instruction set's order.
const GENERAL: [u32; 16] = [0, 2, 3, 1, 7, 6, 4, 5, 16, 17, 18, 19, 20, 21, 22, 23];
const FLAGS: u32 = 9;
/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;
const CLOCK_MONOTONIC: i32 = 1;
/// Addresses from here on are the kernel's.
const KERNEL_BEGIN: u64 = 1 << 63;

/// When events begin to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// When the thread, or who inherits from it, next calls `exec`.
    AtExec,
    /// When they are enabled.
    Enabled,
    /// Likewise; threads inherit them, new processes do not.
    EnabledWithoutChildren,
}

impl Begin {
    /// The switches that say so.
    fn flags(self) -> Flags {
        match self {
            Self::AtExec => Flags::ENABLE_ON_EXEC,
            Self::Enabled => Flags::default(),
            Self::EnabledWithoutChildren => Flags::INHERIT_THREAD,
        }
    }
}

/// The software clock in user mode with a sample every `period_ns` of a thread's time, and all records that tell of threads,
/// programs and mappings.
pub(super) fn attributes(period_ns: u64, begin: Begin) -> EventAttr {
    let flags = Flags::DISABLED
        .and(Flags::INHERIT)
        .and(Flags::EXCLUDE_KERNEL)
        .and(Flags::EXCLUDE_HV)
        .and(Flags::MMAP)
        .and(Flags::MMAP2)
        .and(Flags::MMAP_DATA)
        .and(Flags::COMM)
        .and(Flags::COMM_EXEC)
        .and(Flags::TASK)
        .and(Flags::WATERMARK)
        .and(Flags::SAMPLE_ID_ALL)
        .and(Flags::USE_CLOCKID);
    EventAttr {
        kind: event_type::SOFTWARE,
        config: software_event::CPU_CLOCK,
        period_or_frequency: period_ns,
        sample_type: sample_type::IP | sample_type::TID | sample_type::TIME | sample_type::ID | sample_type::REGS_USER,
        flags: flags.and(begin.flags()),
        wakeup: super::event::WAKE_BYTES,
        user_registers: REGISTERS,
        clock_id: CLOCK_MONOTONIC,
        ..EventAttr::default()
    }
}

/// No samples, and all records that tell of threads, programs and mappings: beside hardware events, which may be there on
/// some CPUs only.
pub(super) fn side_attributes(begin: Begin) -> EventAttr {
    EventAttr {
        config: software_event::DUMMY,
        period_or_frequency: 0,
        sample_type: sample_type::TID | sample_type::TIME | sample_type::IDENTIFIER,
        user_registers: 0,
        ..attributes(0, begin)
    }
}

/// A hardware event with what its reader needs besides: threads inherit it, times are of our clock, and records say whose
/// they are. In a group it counts when its leader does.
pub(super) fn of_reader(attr: &EventAttr, begin: Begin, is_in_group: bool) -> EventAttr {
    let flags = attr.flags.and(Flags::INHERIT).and(Flags::SAMPLE_ID_ALL).and(Flags::USE_CLOCKID).and(Flags::WATERMARK);
    let flags = flags.and(begin.flags());
    let flags = if is_in_group { flags.without(Flags::DISABLED.and(Flags::ENABLE_ON_EXEC)) } else { flags };
    let sample_type = attr.sample_type | sample_type::IDENTIFIER;
    EventAttr { sample_type, flags, wakeup: super::event::WAKE_BYTES, clock_id: CLOCK_MONOTONIC, ..attr.clone() }
}

/// The events that write into the rings.
#[derive(Debug)]
pub(super) struct Writers {
    events: Events,
    weighing: Weighing,
}

impl Writers {
    /// The event that each ring is made of, and those of the hardware beside it.
    pub(super) fn new(of_rings: EventAttr, hardware: &[Granted]) -> Self {
        let named = hardware.iter().map(|event| (&event.attr, event.name.clone()));
        let weighing = Weighing::of([(&of_rings, String::new())].into_iter().chain(named));
        let mut events = Events::default();
        events.add(of_rings, []);
        for event in hardware {
            events.add(event.attr.clone(), []);
        }
        Self { events, weighing }
    }

    /// Records of an event (0 that of the ring, then those of the hardware) carry this number.
    pub(super) fn name(&mut self, event: usize, id: u64) {
        self.events.name(event, [id]);
    }

    /// What the events' samples weigh.
    pub(super) fn weighing(&self) -> &Weighing {
        &self.weighing
    }

    fn attr(&self, event: usize) -> &EventAttr {
        &self.events.attrs()[event]
    }
}

/// Something that happened in a process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    pub(super) time_ns: u64,
    pub(super) task: TaskId,
    pub(super) what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// The clock interrupted the thread. `registers` are those of 64-bit code, `event` is the number of the event that was
    /// opened, for this thread or for one that it inherits from.
    Sample { event: u64, ip: u64, registers: Option<[u64; 17]> },
    /// The hardware sampled an access of the thread. `event` is as above.
    Caught { event: u64, sample: Box<CaughtSample> },
    /// The hardware sampled the kernel's code.
    CaughtInKernel,
    /// Memory was mapped.
    Mapped(Mapping),
    /// What `/proc/<pid>/maps` said.
    Maps(Vec<u8>),
    /// The thread has a name; by `exec` it is another program's.
    Named { name: String, by_exec: bool },
    /// The thread began, made by this one.
    Began { parent: TaskId },
    /// The thread ended.
    Ended,
    /// So many records found the ring full.
    Lost(u64),
    /// The kernel held the clock back, as it interrupted too often.
    Throttled,
}

/// A sample of the hardware's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CaughtSample {
    pub(super) ip: u64,
    /// The instruction is the one that made the access; else it is the next one.
    pub(super) has_exact_ip: bool,
    pub(super) caught: Caught,
    pub(super) weight: u64,
}

/// The state that a sample's registers give; what they do not hold is unknown.
pub(super) fn state_of(ip: u64, registers: &[u64; 17]) -> State {
    let mut state = State::unknown(ip);
    let (general, flags) = (&registers[..16], registers[16]);
    for (number, &value) in general.iter().enumerate() {
        state.set_gpr(number, Some(value));
    }
    state.set_flags(flags);
    state
}

/// Place of the stack pointer among registers.
pub(super) const STACK_POINTER: usize = slimline_emulate::RSP;

/// Appends what the records in `bytes` tell to `events`. Returns how many could not be read.
pub(super) fn decode(bytes: &[u8], writers: &Writers, events: &mut Vec<Event>) -> u64 {
    let mut rest = bytes;
    let mut damaged = 0;
    while !rest.is_empty() {
        let Ok(Some((record, size))) = RawRecord::at_start(rest, ByteOrder::NATIVE) else {
            // Where the next record begins is lost, and with it all that is left.
            return damaged + 1;
        };
        rest = &rest[size..];
        let Some(event) = writers.events.writer_of(&record) else {
            damaged += 1;
            continue;
        };
        match Record::decode(&record, writers.attr(event)) {
            Ok(decoded) => events.extend(event_of(decoded, writers, event)),
            Err(perf_event::Malformed { .. }) => damaged += 1,
        }
    }
    damaged
}

fn event_of(decoded: Decoded<'_>, writers: &Writers, event: usize) -> Option<Event> {
    let Decoded { record, id } = decoded;
    let (time_ns, of_record) = (id.time?, id.task?);
    let (task, what) = match record {
        Record::Sample(sample) if !writers.attr(event).counts_time() => (of_record, caught(&sample, writers, event)?),
        Record::Sample(sample) => {
            let registers = sample.user_registers.as_ref().and_then(general_registers);
            (of_record, What::Sample { event: id.id.unwrap_or(0), ip: sample.ip?, registers })
        }
        Record::Mapping(mapping) => (mapping.task, What::Mapped(mapping.row(time_ns)?)),
        Record::Comm { task, name, by_exec } => {
            (task, What::Named { name: String::from_utf8_lossy(name).into_owned(), by_exec })
        }
        Record::Fork(forked) => (forked.task, What::Began { parent: forked.parent }),
        Record::Exit(ended) => (ended.task, What::Ended),
        Record::Lost { records } => (of_record, What::Lost(records)),
        Record::LostSamples { samples } => (of_record, What::Lost(samples)),
        Record::Throttle => (of_record, What::Throttled),
        _ => return None,
    };
    Some(Event { time_ns, task, what })
}

/// A sample of the hardware's. Registers of AMD's sampling that can't be read tell nothing.
fn caught(sample: &Sample<'_>, writers: &Writers, event: usize) -> Option<What> {
    let ip = sample.ip?;
    if !sample.is_user() || ip >= KERNEL_BEGIN {
        return Some(What::CaughtInKernel);
    }
    let op = sample.raw.and_then(|raw| IbsOp::decode(raw, ByteOrder::NATIVE).ok());
    let caught = Caught::of(sample, op.as_ref());
    let weight = writers.weighing.weight(event, writers.attr(event), sample, &caught).unwrap_or(0);
    let event = sample.id.id.unwrap_or(0);
    Some(What::Caught {
        event,
        sample: Box::new(CaughtSample { ip, has_exact_ip: sample.has_exact_ip, caught, weight }),
    })
}

fn general_registers(registers: &Registers<'_>) -> Option<[u64; 17]> {
    if registers.abi != ABI_64 {
        return None;
    }
    let mut values = [0; 17];
    for (value, number) in values.iter_mut().zip(GENERAL.into_iter().chain([FLAGS])) {
        *value = registers.get(number)?;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use slimline_trace::address::{Avma, FileOffset};

    use super::*;
    use crate::perf_event::encode::{Encoder, SyntheticSample};
    use crate::perf_event::{misc_bits, record_type};

    const AT: SyntheticSampleAt = SyntheticSampleAt { pid: 7, tid: 8, time: 100 };

    #[derive(Clone, Copy)]
    struct SyntheticSampleAt {
        pid: u32,
        tid: u32,
        time: u64,
    }

    impl SyntheticSampleAt {
        fn values(self) -> SyntheticSample {
            let Self { pid, tid, time } = self;
            SyntheticSample { pid, tid, time, id: 5, ..SyntheticSample::default() }
        }
    }

    fn attr() -> EventAttr {
        attributes(1_000_000, Begin::AtExec)
    }

    fn clock() -> Writers {
        Writers::new(attr(), &[])
    }

    #[track_caller]
    fn check(encoder: &Encoder, expected: &[What]) {
        let mut events = Vec::new();
        assert_eq!(decode(encoder.bytes(), &clock(), &mut events), 0);
        assert!(events.iter().all(|event| event.time_ns == 100 && event.task.pid == 7));
        assert_eq!(events.into_iter().map(|event| event.what).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn samples_give_the_registers_in_the_order_of_the_instruction_set() {
        // The kernel's order: ax bx cx dx si di bp sp ip flags cs ss r8…r15, each its own number here.
        let sample = SyntheticSample {
            ip: 0x1234,
            user_abi: ABI_64,
            user_registers: (0..12).chain(16..24).collect(),
            ..AT.values()
        };
        let mut encoder = Encoder::new(ByteOrder::NATIVE);
        encoder.sample(&attr(), &sample);
        let narrow = SyntheticSample { user_abi: 1, ..sample };
        encoder.sample(&attr(), &narrow);
        let registers = [0, 2, 3, 1, 7, 6, 4, 5, 16, 17, 18, 19, 20, 21, 22, 23, 9];
        let found = |registers| What::Sample { event: 5, ip: 0x1234, registers };
        check(&encoder, &[found(Some(registers)), found(None)]);
        let state = state_of(0x1234, &registers);
        assert_eq!((state.rip, state.gpr(slimline_emulate::RDI), state.flags().0 & 1), (0x1234, Some(5), 1));
    }

    #[test]
    fn mappings_are_told_as_proc_tells_them() {
        let mut encoder = Encoder::new(ByteOrder::NATIVE);
        for (name, offset, protection, flags) in
            [("/bin/x", 0x2000, 5, 2), ("//anon", 0x10000, 3, 2), ("[heap]", 9, 3, 1)]
        {
            encoder.with_trailer(&attr(), &AT.values(), record_type::MMAP2, 0, |fields| {
                fields.u32(7).u32(8).u64(0x10000).u64(0x3000).u64(offset);
                fields.u32(0xfe).u32(1).u64(77).u64(0).u32(protection).u32(flags).text(name);
            });
        }
        let mapping = |file_offset, permissions: &str, path: &str| {
            What::Mapped(Mapping {
                start: Avma(0x10000),
                end: Avma(0x13000),
                file_offset: FileOffset(file_offset),
                permissions: permissions.to_owned(),
                device: "fe:01".to_owned(),
                inode: 77,
                path: path.to_owned(),
                first_seen_ns: 100,
                last_seen_ns: 100,
            })
        };
        check(&encoder, &[mapping(0x2000, "r-xp", "/bin/x"), mapping(0, "rw-p", ""), mapping(0, "rw-s", "[heap]")]);
    }

    #[test]
    fn threads_programs_and_losses_are_told() {
        let mut encoder = Encoder::new(ByteOrder::NATIVE);
        encoder.comm(&attr(), &AT.values(), 7, 8, "name", true);
        let task = |fields: &mut Encoder| {
            fields.u32(7).u32(3).u32(9).u32(4).u64(99);
        };
        encoder.with_trailer(&attr(), &AT.values(), record_type::FORK, 0, task);
        encoder.with_trailer(&attr(), &AT.values(), record_type::EXIT, 0, task);
        let lost = |fields: &mut Encoder| {
            fields.u64(5).u64(12);
        };
        encoder.with_trailer(&attr(), &AT.values(), record_type::LOST, 0, lost);
        encoder.with_trailer(&attr(), &AT.values(), record_type::THROTTLE, 0, |fields| {
            fields.u64(100).u64(5).u64(5);
        });
        // Of no concern here.
        encoder.with_trailer(&attr(), &AT.values(), record_type::SWITCH, misc_bits::SWITCH_OUT, |_| ());
        let named = What::Named { name: "name".to_owned(), by_exec: true };
        let began = What::Began { parent: TaskId { pid: 3, tid: 4 } };
        check(&encoder, &[named, began, What::Ended, What::Lost(12), What::Throttled]);
    }

    #[test]
    fn what_is_cut_off_is_counted_and_nothing_after_it_is_guessed() {
        let mut encoder = Encoder::new(ByteOrder::NATIVE);
        encoder.comm(&attr(), &AT.values(), 7, 8, "name", false);
        let whole = encoder.bytes().len();
        encoder.comm(&attr(), &AT.values(), 7, 8, "other", false);
        for end in whole + 1..encoder.bytes().len() {
            let mut events = Vec::new();
            assert_eq!(decode(&encoder.bytes()[..end], &clock(), &mut events), 1);
            assert_eq!(events.len(), 1);
        }
    }

    proptest! {
        #[test]
        fn garbage_is_survived(bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(8), any::<u8>()], 0..400)) {
            let mut events = Vec::new();
            let damaged = decode(&bytes, &clock(), &mut events);
            prop_assert!(damaged as usize + events.len() <= bytes.len());
        }
    }
}
