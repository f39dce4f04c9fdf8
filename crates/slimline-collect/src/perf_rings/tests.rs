//! The hardware's samples from rings to sessions: what a kernel would write, with each optional field on and off.

use std::fs;
use std::os::unix::fs::MetadataExt;

use slimline_trace::access::AccessKind;
use slimline_trace::address::PhysicalAddress;
use slimline_trace::served::{MemoryLevel, Snoop, Translation};
use slimline_trace::session::{Session, SessionInfo, SessionWriter, Trigger};
use slimline_trace::tables::Sample;
use slimline_trace::wire::Quality;

use super::*;
use crate::perf_event::encode::{Encoder, SyntheticSample};
use crate::perf_event::{ByteOrder, Flags, event_type, misc_bits, record_type, sample_type, software_event};
use crate::pmu::MEMORY_FIELDS;
use crate::record::tests::empty_info;

/// No process has this number, nor any above.
const PID: u32 = 4_194_999;
/// Numbers of the events: that of the ring, then those of the hardware, in their order.
const RING_ID: u64 = 1000;
const CODE: u64 = 0x40_0000;
const RING_BYTES: usize = 64 << 10;

fn event(name: &str, config: u64, sample_type: u64) -> PmuEvent {
    let flags = Flags::DISABLED.and(Flags::FREQ).with_precise_ip(3);
    PmuEvent {
        name: name.to_owned(),
        attr: EventAttr { kind: 4, config, period_or_frequency: 1000, sample_type, flags, ..EventAttr::default() },
        is_in_group: false,
        needs_aux: false,
        least_latency_cycles: None,
        cpus: None,
    }
}

/// Rings of two CPUs, with what a kernel that grants `events` writes into them.
struct Kernel {
    rings: Vec<Ring>,
    of_rings: EventAttr,
    hardware: Vec<Granted>,
}

impl Kernel {
    fn granting(events: &[PmuEvent]) -> Self {
        let rings = (0..2).map(|_| Ring::of_file(tempfile::tempfile().unwrap(), RING_BYTES)).collect();
        let of_rings = records::side_attributes(Begin::AtExec);
        let kernel = Self { rings, of_rings, hardware: Negotiated::granting(events).granted };
        kernel.put(0, |to| {
            to.comm(&kernel.of_rings, &of_ring(10), PID, PID, "program", true);
        });
        kernel
    }

    fn put(&self, cpu: usize, write: impl FnOnce(&mut Encoder)) {
        let mut encoder = Encoder::new(ByteOrder::NATIVE);
        write(&mut encoder);
        assert!(self.rings[cpu].put(encoder.bytes()));
    }

    /// A sample of the hardware's event of this place.
    fn sample(&self, cpu: usize, event: usize, sample: &SyntheticSample) {
        let sample = SyntheticSample { identifier: RING_ID + 1 + event as u64, ..sample.clone() };
        self.put(cpu, |to| _ = to.sample(&self.hardware[event].attr, &sample));
    }

    /// The session that came of it.
    fn session(self, change: impl FnOnce(&mut Tracks)) -> (tempfile::TempDir, Session, WeightUnit) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("session");
        let writer = WriterThread::start(SessionWriter::create(&path, &empty_info()).unwrap()).unwrap();
        let mut writers = Writers::new(self.of_rings, &self.hardware);
        (0..=self.hardware.len()).for_each(|event| writers.name(event, RING_ID + event as u64));
        let options = RingOptions { sampled: Sampled::Hardware(Vec::new()), ..RingOptions::of_clock(0) };
        let mut tracks = Tracks::new(&options);
        change(&mut tracks);
        let rings = Rings::of_rings(self.rings, writers, tracks);
        let weight = rings.weight();
        let (processes, _) = rings.finish(&writer);
        let (session, written) = writer.finish();
        written.unwrap();
        session.update(&SessionInfo { processes, complete: true, ..empty_info() }).unwrap();
        (scratch, Session::open(&path).unwrap(), weight)
    }

    fn samples(self) -> (Vec<Sample>, WeightUnit) {
        let (_scratch, session, weight) = self.session(|_| ());
        let process = session.load(&session.processes()[0]).unwrap();
        (process.parts().flat_map(|part| part.unwrap().samples.iter().collect::<Vec<_>>()).collect(), weight)
    }
}

fn of_ring(time: u64) -> SyntheticSample {
    SyntheticSample { identifier: RING_ID, pid: PID, tid: PID, time, ..SyntheticSample::default() }
}

/// A load of 240 cycles that the third level had, as a Xeon recorded one, here with every field.
fn load(time: u64) -> SyntheticSample {
    SyntheticSample {
        misc: misc_bits::CPUMODE_USER | misc_bits::EXACT_IP,
        ip: CODE,
        pid: PID,
        tid: PID,
        time,
        address: 0x7f00_0000_1008,
        cpu: 3,
        period: 5000,
        weight: 7 << 48 | 250 << 32 | 240,
        data_source: 0x106_5010_0842,
        physical_address: 0x1_2345_6008,
        data_page_bytes: 4096,
        ..SyntheticSample::default()
    }
}

/// What an event needs for a row.
const NEEDED: u64 = sample_type::IP | sample_type::TID | sample_type::TIME;

#[test]
fn each_field_on_and_off() {
    let optional: Vec<u64> = (0..25).map(|bit| 1 << bit).filter(|bit| MEMORY_FIELDS & !NEEDED & bit != 0).collect();
    let mut combinations =
        vec![MEMORY_FIELDS, NEEDED, MEMORY_FIELDS & !sample_type::WEIGHT_STRUCT | sample_type::WEIGHT];
    combinations.extend(optional.iter().flat_map(|field| [MEMORY_FIELDS & !field, NEEDED | field]));
    for fields in combinations {
        let kernel = Kernel::granting(&[event("cpu/mem-loads/P", 0x1cd, fields)]);
        kernel.sample(1, 0, &load(20));
        let (samples, unit) = kernel.samples();
        let [sample] = &samples[..] else { panic!("{fields:#x}: {samples:?}") };
        let has = |field| fields & field != 0;
        let served = &sample.served;
        let address = if has(sample_type::ADDR) { 0x7f00_0000_1008 } else { 0 };
        assert_eq!((sample.time_ns, sample.ip.0, sample.sampled_ip.0), (20, CODE, CODE));
        assert_eq!(sample.address.0, address, "{fields:#x}");
        assert_eq!(sample.quality, if has(sample_type::ADDR) { Quality::Exact } else { Quality::Lost });
        let has_source = has(sample_type::DATA_SRC);
        assert_eq!(sample.kind, if has_source { AccessKind::LOAD } else { AccessKind::NONE });
        assert_eq!(served.level, has_source.then_some(MemoryLevel::L3));
        assert_eq!(served.snoop, has_source.then_some(Snoop::None));
        assert_eq!(served.translation, has_source.then_some(Translation::Walk));
        assert_eq!(served.locked, has_source.then_some(false));
        assert_eq!(served.page_bytes, has(sample_type::DATA_PAGE_SIZE).then_some(4096));
        assert_eq!(served.physical_address, has(sample_type::PHYS_ADDR).then_some(PhysicalAddress(0x1_2345_6008)));
        let one = has(sample_type::WEIGHT);
        let has_latency = one || has(sample_type::WEIGHT_STRUCT);
        let cycles = if one { u32::MAX } else { 240 };
        assert_eq!(served.latency_cycles, has_latency.then_some(cycles), "{fields:#x}: one word is all of it");
        assert_eq!(served.instruction_cycles, (has_latency && !one).then_some(250));
        assert_eq!(served.retire_cycles, (has_latency && !one).then_some(7));
        let period = if has(sample_type::PERIOD) { 5000 } else { 1 };
        let expected = match (has_latency && has(sample_type::ADDR), has(sample_type::PERIOD)) {
            (true, _) => (WeightUnit::LatencyCycles, u64::from(cycles) * period),
            (false, true) => (WeightUnit::Period, 5000),
            (false, false) => (WeightUnit::Samples, 1),
        };
        assert_eq!((unit, sample.weight), expected, "{fields:#x}");
    }
}

/// A sample as the kernel's `perf_output_sample` lays it out, written down byte by byte.
#[test]
fn a_kernels_bytes_become_a_row() {
    let kernel = Kernel::granting(&[event("cpu/mem-loads/P", 0x1cd, MEMORY_FIELDS)]);
    let [pid_low, pid_high, ..] = PID.to_le_bytes();
    let [_, _, pid_third, _] = PID.to_le_bytes();
    let bytes = [
        0x09, 0, 0, 0, 0x02, 0x40, 0x60, 0, // header: sample, user mode with exact IP, 96 bytes
        0xe9, 0x03, 0, 0, 0, 0, 0, 0, // identifier 1001
        0x10, 0, 0x40, 0, 0, 0, 0, 0, // ip
        pid_low, pid_high, pid_third, 0, pid_low, pid_high, pid_third, 0, // pid, tid
        0x14, 0, 0, 0, 0, 0, 0, 0, // time
        0x08, 0x10, 0, 0, 0, 0x7f, 0, 0, // address
        0x03, 0, 0, 0, 0, 0, 0, 0, // cpu
        0x0a, 0, 0, 0, 0, 0, 0, 0, // period
        0xf0, 0, 0, 0, 0xfa, 0, 0x07, 0, // weight: 240, 250, 7
        0x42, 0x08, 0x10, 0x50, 0x06, 0x01, 0, 0, // data source
        0x08, 0x60, 0x45, 0x23, 0x01, 0, 0, 0, // physical address
        0, 0x10, 0, 0, 0, 0, 0, 0, // page size
    ];
    assert_eq!(bytes.len(), 96);
    assert!(kernel.rings[0].put(&bytes));
    let (samples, unit) = kernel.samples();
    let [sample] = &samples[..] else { panic!("{samples:?}") };
    assert_eq!((sample.ip.0, sample.address.0, sample.time_ns), (0x40_0010, 0x7f00_0000_1008, 20));
    assert_eq!((unit, sample.weight, sample.served.latency_cycles), (WeightUnit::LatencyCycles, 2400, Some(240)));
    assert_eq!((sample.served.level, sample.served.page_bytes), (Some(MemoryLevel::L3), Some(4096)));
}

/// Loads, the leader that they need, and stores, in one ring: loads weigh, stores are accesses.
#[test]
fn events_are_told_apart_and_losses_counted() {
    let leader = PmuEvent {
        attr: EventAttr { kind: 4, config: 0x8203, flags: Flags::DISABLED, ..EventAttr::default() },
        ..event("cpu/mem-loads-aux/", 0, 0)
    };
    let loads = PmuEvent { is_in_group: true, ..event("cpu/mem-loads/P", 0x1cd, MEMORY_FIELDS) };
    let kernel =
        Kernel::granting(&[leader, loads, event("cpu/mem-stores/P", 0x2cd, MEMORY_FIELDS & !sample_type::PHYS_ADDR)]);
    // Of two CPUs, whose rings are read one after another.
    kernel.sample(1, 1, &load(30));
    kernel.sample(0, 1, &load(20));
    let store = SyntheticSample { data_source: 4, ..load(25) };
    kernel.sample(0, 2, &store);
    let in_kernel = SyntheticSample { misc: misc_bits::CPUMODE_KERNEL, ip: u64::MAX << 40, ..load(26) };
    kernel.sample(0, 1, &in_kernel);
    let of_loads = SyntheticSample { identifier: RING_ID + 2, ..of_ring(31) };
    kernel.put(0, |to| {
        let attr = &kernel.hardware[1].attr;
        to.with_trailer(attr, &of_loads, record_type::THROTTLE, 0, |fields| {
            fields.u64(31).u64(RING_ID + 2).u64(1);
        });
        to.with_trailer(attr, &of_loads, record_type::LOST_SAMPLES, 0, |fields| {
            fields.u64(4);
        });
        to.with_trailer(attr, &of_loads, record_type::LOST, 0, |fields| {
            fields.u64(RING_ID + 2).u64(3);
        });
        // Of an event that nobody opened.
        to.sample(attr, &SyntheticSample { identifier: 77, ..load(32) });
    });
    let (_scratch, session, unit) = kernel.session(|_| ());
    let summary = &session.processes()[0];
    let samples = session.load(summary).unwrap().part(0).unwrap().samples;
    assert_eq!((unit, &samples.time_ns[..]), (WeightUnit::LatencyCycles, &[20, 25, 30][..]));
    assert_eq!(samples.weight, [1_200_000, 0, 1_200_000]);
    assert_eq!(samples.kind, [AccessKind::LOAD, AccessKind::STORE, AccessKind::LOAD]);
    let losses = summary.losses;
    assert_eq!((losses.throttled, losses.dropped_samples, losses.kernel_samples), (1, 7, 1));
    assert_eq!((losses.damaged_messages, losses.dropped_weight), (1, 0), "what was lost weighs nobody knows what");
    assert_eq!((summary.trigger, summary.samples, summary.weight), (Trigger::Counter, 3, 2_400_000));
}

/// A thread with events of its own, which it would have inherited as well.
#[test]
fn a_thread_is_sampled_by_its_own_events() {
    let kernel = Kernel::granting(&[event("cpu/mem-loads/P", 0x1cd, MEMORY_FIELDS)]);
    kernel.sample(0, 0, &load(20));
    kernel.sample(0, 0, &SyntheticSample { tid: PID + 1, ..load(21) });
    let (_scratch, session, _) = kernel.session(|tracks| {
        tracks.opened_for.insert(RING_ID + 1, PID);
        tracks.own.extend([PID, PID + 1]);
    });
    assert_eq!(session.processes()[0].samples, 1);
}

/// Registers of AMD's sampling where the kernel tells nothing else: a load of 8 bytes that missed the first level for 300
/// cycles, and an op that touches no memory.
#[test]
fn registers_tell_what_the_kernel_does_not() {
    const LOAD: u64 = 1 | 1 << 7 | 1 << 17 | 4 << 22 | 300 << 32;
    let fields = NEEDED | sample_type::ADDR | sample_type::WEIGHT | sample_type::PERIOD | sample_type::RAW;
    let kernel = Kernel::granting(&[event("ibs_op//", 0, fields)]);
    let untold = SyntheticSample { address: 0, weight: 0, ..load(20) };
    for (time, data3) in [(20, LOAD), (21, 0)] {
        let mut raw = Encoder::new(ByteOrder::NATIVE);
        raw.u32(0);
        [0, CODE, 400 << 16, 0, data3, 0x7f00_1000, 0].into_iter().for_each(|word| _ = raw.u64(word));
        kernel.sample(0, 0, &SyntheticSample { time, raw: raw.bytes().to_vec(), ..untold.clone() });
    }
    // Cut off: the sample is one all the same.
    kernel.sample(0, 0, &SyntheticSample { time: 22, raw: vec![1; 12], ..untold });
    let (samples, unit) = kernel.samples();
    let [load, other, cut] = &samples[..] else { panic!("{samples:?}") };
    assert_eq!((load.address.0, load.access_bytes, load.kind), (0x7f00_1000, 8, AccessKind::LOAD));
    assert_eq!((unit, load.weight, load.served.latency_cycles), (WeightUnit::LatencyCycles, 1_500_000, Some(300)));
    assert_eq!((load.served.level, load.served.translation), (Some(MemoryLevel::L2), Some(Translation::L1)));
    assert_eq!((load.quality, other.quality, cut.quality), (Quality::Exact, Quality::NoMemory, Quality::Lost));
    assert_eq!((other.weight, cut.weight, cut.address.0), (0, 0, 0));
}

/// The instruction's file tells how wide an access is, and which instruction is before one that the hardware shows late.
#[test]
fn the_code_tells_width_and_the_instruction_before() {
    // 0: mov rax, [rdi]; 3: add rdi, 8; 7: jmp 0
    const WALK: [u8; 9] = [0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 0x08, 0xeb, 0xf7];
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), WALK).unwrap();
    let inode = fs::metadata(file.path()).unwrap().ino();
    let kernel = Kernel::granting(&[event("cpu/mem-loads/P", 0x1cd, MEMORY_FIELDS & !sample_type::DATA_SRC)]);
    kernel.put(0, |to| {
        to.with_trailer(&kernel.of_rings, &of_ring(11), record_type::MMAP2, 0, |fields| {
            fields.u32(PID).u32(PID).u64(CODE).u64(0x1000).u64(0);
            fields.u32(0xfe).u32(1).u64(inode).u64(0).u32(5).u32(2).text(file.path().to_str().unwrap());
        });
    });
    kernel.sample(0, 0, &load(20));
    kernel.sample(0, 0, &SyntheticSample { misc: misc_bits::CPUMODE_USER, ip: CODE + 3, ..load(21) });
    // Exact, and no memory instruction: the hardware is believed, and nothing is made up.
    kernel.sample(0, 0, &SyntheticSample { ip: CODE + 3, ..load(22) });
    let (samples, _) = kernel.samples();
    let told: Vec<_> =
        samples.iter().map(|sample| (sample.ip.0, sample.sampled_ip.0, sample.access_bytes, sample.kind)).collect();
    let expected = [
        (CODE, CODE, 8, AccessKind::LOAD),
        (CODE, CODE + 3, 8, AccessKind::LOAD),
        (CODE + 3, CODE + 3, 0, AccessKind::NONE),
    ];
    assert_eq!(told, expected);
}

/// The same way with what every kernel has: page faults tell the address that was touched first. They stand for hardware
/// here, as member of a group whose leader takes no samples.
fn page_faults() -> RingOptions {
    const PAGE_FAULTS: u64 = 2;
    let software = |config, period_or_frequency| EventAttr {
        kind: event_type::SOFTWARE,
        config,
        period_or_frequency,
        sample_type: NEEDED | sample_type::ADDR | sample_type::PERIOD,
        flags: Flags::DISABLED.and(Flags::EXCLUDE_KERNEL).and(Flags::EXCLUDE_HV),
        ..EventAttr::default()
    };
    let leader = PmuEvent { attr: software(software_event::DUMMY, 0), ..event("dummy", 0, 0) };
    let member = PmuEvent { attr: software(PAGE_FAULTS, 1), is_in_group: true, ..event("page-faults:u", 0, 0) };
    RingOptions { sampled: Sampled::Hardware(vec![leader, member]), ..RingOptions::of_clock(0) }
}

fn recorded(rings: Rings) -> (tempfile::TempDir, Session) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("session");
    let writer = WriterThread::start(SessionWriter::create(&path, &empty_info()).unwrap()).unwrap();
    let (processes, _) = rings.finish(&writer);
    let (session, written) = writer.finish();
    written.unwrap();
    session.update(&SessionInfo { processes, complete: true, ..empty_info() }).unwrap();
    (scratch, Session::open(&path).unwrap())
}

#[test]
fn a_command_is_sampled_by_a_real_kernel() {
    let rings = match Rings::for_children(&page_faults()) {
        Ok(rings) => rings,
        Err(error) => return eprintln!("skipped: the kernel refuses to sample from outside: {error}"),
    };
    let events = rings.sampled_events();
    assert_eq!((events.len(), events[0].name.as_str(), events[0].period), (1, "page-faults:u", Some(1)));
    assert_eq!(rings.weight(), WeightUnit::Period);
    let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
    child.wait().unwrap();
    let (_scratch, session) = recorded(rings);
    let summary = session.processes().iter().find(|process| process.pid == child.id()).unwrap();
    // The loader alone touches more pages than that.
    assert!(summary.samples > 10 && summary.weight == summary.samples, "{summary:?}");
    assert!(summary.executable.ends_with("/true") && summary.trigger == Trigger::Counter, "{summary:?}");
    assert_eq!((summary.losses.damaged_messages, summary.losses.dropped_samples), (0, 0));
    let process = session.load(summary).unwrap();
    for part in process.parts() {
        for sample in part.unwrap().samples.iter() {
            assert!(sample.address.0 != 0 && sample.quality == Quality::Exact, "{sample:?}");
        }
    }
}

#[test]
fn threads_that_run_already_are_sampled_by_a_real_kernel() {
    const PAGES: usize = 64;
    let (to_spinner, begin) = std::sync::mpsc::channel::<()>();
    let (to_us, begun) = std::sync::mpsc::channel();
    let toucher = std::thread::spawn(move || {
        to_us.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
        begin.recv().unwrap();
        let map = memmap2::MmapOptions::new().len(PAGES * 4096).map_anon().unwrap();
        let touched: u64 = (0..PAGES).map(|page| u64::from(std::hint::black_box(map[page * 4096]))).sum();
        (map.as_ptr() as u64, touched)
    });
    let tid = begun.recv().unwrap();
    let attached = Rings::attach(&page_faults(), &[std::process::id()], false);
    to_spinner.send(()).unwrap();
    let (base, _) = toucher.join().unwrap();
    let rings = match attached {
        Ok(rings) => rings,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let (_scratch, session) = recorded(rings);
    let process = session.load(&session.processes()[0]).unwrap();
    let row = process.threads.tid.iter().position(|&other| other == tid).unwrap();
    let mut pages: Vec<u64> = process
        .parts()
        .flat_map(|part| part.unwrap().samples.iter().collect::<Vec<_>>())
        .filter(|sample| sample.thread.index() == row)
        .filter_map(|sample| sample.address.0.checked_sub(base).map(|offset| offset / 4096))
        .filter(|&page| page < PAGES as u64)
        .collect();
    pages.sort_unstable();
    pages.dedup();
    // One fault may map several pages at once, and large ones are one.
    assert!(pages.first() == Some(&0), "{pages:?}");
}
