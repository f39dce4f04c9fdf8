//! Machines as their kernels describe them, and the events that follow, bit by bit.
//!
//! What the files hold is what these processors' kernels show in `/sys/bus/event_source/devices`.

use std::fs;

use super::*;

/// A machine: the files of its event sources.
struct Machine(tempfile::TempDir);

impl Machine {
    fn of(files: &[(&str, &str)]) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|(name, content)| machine.write(name, content));
        machine
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // As sysfs has them.
        fs::write(path, format!("{content}\n")).unwrap();
    }

    fn attrs(&self, plan: &Plan) -> Vec<PmuEvent> {
        attrs(self.0.path(), plan).unwrap()
    }
}

/// Software events only, as in most virtual machines and containers.
const NOTHING: &[(&str, &str)] =
    &[("software/type", "1"), ("msr/type", "9"), ("cpu/type", "4"), ("cpu/format/event", "config:0-7")];

const SKYLAKE: &[(&str, &str)] = &[
    ("cpu/type", "4"),
    ("cpu/format/event", "config:0-7"),
    ("cpu/format/umask", "config:8-15"),
    ("cpu/format/ldlat", "config1:0-15"),
    ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
    ("cpu/events/mem-stores", "event=0xd0,umask=0x82"),
    ("cpu/caps/max_precise", "3"),
];

/// Alder Lake and later: two kinds of cores, and the leader that loads need on the large ones.
const HYBRID: &[(&str, &str)] = &[
    ("cpu_core/type", "4"),
    ("cpu_core/cpus", "0-3"),
    ("cpu_core/format/event", "config:0-7"),
    ("cpu_core/format/umask", "config:8-15"),
    ("cpu_core/format/ldlat", "config1:0-15"),
    ("cpu_core/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
    ("cpu_core/events/mem-loads-aux", "event=0x03,umask=0x82"),
    ("cpu_core/events/mem-stores", "event=0xcd,umask=0x2"),
    ("cpu_core/caps/max_precise", "3"),
    ("cpu_atom/type", "10"),
    ("cpu_atom/cpus", "4-7,9"),
    ("cpu_atom/format/event", "config:0-7"),
    ("cpu_atom/format/umask", "config:8-15"),
    ("cpu_atom/format/ldlat", "config1:0-15"),
    ("cpu_atom/events/mem-loads", "event=0xd0,umask=0x5,ldlat=3"),
    ("cpu_atom/events/mem-stores", "event=0xd0,umask=0x6"),
    ("cpu_atom/caps/max_precise", "3"),
];

const ZEN_4: &[(&str, &str)] = &[
    ("ibs_op/type", "11"),
    ("ibs_op/format/cnt_ctl", "config:19"),
    ("ibs_op/format/l3missonly", "config:16"),
    ("ibs_op/caps/zen4_ibs_extensions", "1"),
    ("ibs_fetch/type", "10"),
    ("ibs_fetch/format/rand_en", "config:57"),
    // Its counters have no addresses.
    ("cpu/type", "4"),
    ("cpu/format/event", "config:0-7,32-35"),
    ("cpu/caps/max_precise", "0"),
];

const NEOVERSE: &[(&str, &str)] = &[
    ("arm_spe_0/type", "9"),
    ("arm_spe_0/cpumask", "0-1"),
    ("arm_spe_0/format/ts_enable", "config:0"),
    ("arm_spe_0/format/pa_enable", "config:1"),
    ("arm_spe_0/format/jitter", "config:16"),
    ("arm_spe_0/format/branch_filter", "config:32"),
    ("arm_spe_0/format/load_filter", "config:33"),
    ("arm_spe_0/format/store_filter", "config:34"),
    ("arm_spe_0/format/event_filter", "config1:0-63"),
    ("arm_spe_0/format/min_latency", "config2:0-11"),
    ("arm_spe_0/caps/min_interval", "1024"),
];

/// `disabled`, `exclude_kernel`, `exclude_hv`: bits 0, 5 and 6.
const USER_ONLY: u64 = 0x61;
const FREQ: u64 = 1 << 10;

#[test]
fn intel_samples_loads_by_latency_and_stores() {
    let events = Machine::of(SKYLAKE).attrs(&Plan::default());
    let [loads, stores] = &events[..] else { panic!("{events:#?}") };
    assert_eq!(loads.name, "cpu/mem-loads,ldlat=30/P");
    assert_eq!((loads.attr.kind, loads.attr.config, loads.attr.config1), (4, 0x1cd, 30));
    assert_eq!(loads.attr.flags.0, USER_ONLY | FREQ | 3 << 15);
    assert_eq!(loads.attr.period_or_frequency, 1000);
    // IP, TID, TIME, ADDR, CPU, PERIOD, DATA_SRC, PHYS_ADDR, DATA_PAGE_SIZE, WEIGHT_STRUCT.
    assert_eq!(
        loads.attr.sample_type,
        0x1 | 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x8000 | 0x8_0000 | 0x40_0000 | 0x100_0000
    );
    assert_eq!((loads.least_latency_cycles, loads.is_in_group, loads.needs_aux), (Some(30), false, false));
    assert_eq!((stores.name.as_str(), stores.attr.config, stores.attr.config1), ("cpu/mem-stores/P", 0x82d0, 0));
    assert_eq!((stores.attr.sample_type, stores.least_latency_cycles), (loads.attr.sample_type, None));
    let nearest = Machine::of(SKYLAKE).attrs(&Plan { least_latency_cycles: 0, ..Plan::default() });
    assert_eq!((nearest[0].attr.config1, nearest[0].name.as_str()), (3, "cpu/mem-loads,ldlat=3/P"));
}

/// `struct perf_event_attr` of `linux/perf_event.h`, version 8: 17 words.
#[test]
fn the_kernel_gets_these_bytes() {
    let check = |event: &PmuEvent, words: &[u64]| {
        let mut expected = words.to_vec();
        expected.resize(17, 0);
        let expected: Vec<u8> = expected.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(event.attr.encode().to_vec(), expected, "{}", event.name);
    };
    // Type 4 and size 136; config; frequency; sample type; read format; flags; wake-up; config1.
    let intel = Machine::of(SKYLAKE).attrs(&Plan::default());
    check(&intel[0], &[0x88_0000_0004, 0x1cd, 1000, 0x0148_818f, 0, 0x1_8461, 0, 30]);
    check(&intel[1], &[0x88_0000_0004, 0x82d0, 1000, 0x0148_818f, 0, 0x1_8461]);
    let amd = Machine::of(ZEN_4).attrs(&Plan::default());
    // And the registers, RAW.
    check(&amd[0], &[0x88_0000_000b, 0x8_0000, 1000, 0x0148_858f, 0, 0x401]);
    let arm = Machine::of(NEOVERSE).attrs(&Plan::default());
    check(&arm[0], &[0x88_0000_0009, 0x6_0001_0001, 0x40_0000, 0x87, 0, 0x61]);
    let hybrid = Machine::of(HYBRID).attrs(&Plan::default());
    check(&hybrid[2], &[0x88_0000_0004, 0x8203, 0, 0x7, 0, 0x61]);
}

#[test]
fn loads_of_newer_processors_have_a_leader_that_takes_no_samples() {
    let machine = Machine::of(HYBRID);
    let events = machine.attrs(&Plan { least_latency_cycles: 50, ..Plan::default() });
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.name.as_str(), event.attr.kind, event.attr.config, event.attr.config1, event.is_in_group))
        .collect();
    let expected = [
        ("cpu_atom/mem-loads,ldlat=50/P", 10, 0x5d0, 50, false),
        ("cpu_atom/mem-stores/P", 10, 0x6d0, 0, false),
        ("cpu_core/mem-loads-aux/", 4, 0x8203, 0, false),
        ("cpu_core/mem-loads,ldlat=50/P", 4, 0x1cd, 50, true),
        ("cpu_core/mem-stores/P", 4, 0x2cd, 0, false),
    ];
    assert_eq!(told, expected);
    let cpus: Vec<_> = events.iter().map(|event| event.cpus.as_ref().map_or(0, Vec::len)).collect();
    assert_eq!(cpus, [5, 5, 4, 4, 4], "each kind of cores has its own");
    let leader = &events[2].attr;
    assert_eq!((leader.period_or_frequency, leader.flags.0), (0, USER_ONLY), "not precise, as it takes no samples");
}

#[test]
fn amd_tags_ops() {
    let events = Machine::of(ZEN_4).attrs(&Plan::default());
    let [ops] = &events[..] else { panic!("{events:#?}") };
    assert_eq!((ops.name.as_str(), ops.attr.kind, ops.attr.config), ("ibs_op/cnt_ctl=1/", 11, 1 << 19));
    assert_eq!(ops.attr.flags.0, 1 | FREQ, "it can't leave out the kernel");
    assert_eq!(ops.attr.flags.precise_ip(), 0);
    let far = Machine::of(ZEN_4).attrs(&Plan { l3_misses_only: true, ..Plan::default() });
    assert_eq!((far[0].name.as_str(), far[0].attr.config), ("ibs_op/cnt_ctl=1,l3missonly=1/", 1 << 19 | 1 << 16));

    let newer = Machine::of(ZEN_4);
    newer.write("ibs_op/format/swfilt", "config2:0");
    let [ops] = &newer.attrs(&Plan::default())[..] else { panic!("one") };
    assert_eq!((ops.attr.config2, ops.attr.flags.0), (1, USER_ONLY | FREQ));

    // Of the first generations: cycles are all that is counted.
    let old = Machine::of(&[("ibs_op/type", "7")]);
    assert_eq!(old.attrs(&Plan { l3_misses_only: true, ..Plan::default() })[0].attr.config, 0);
}

#[test]
fn arm_samples_into_an_area_of_its_own() {
    let events = Machine::of(NEOVERSE).attrs(&Plan::default());
    let [spe] = &events[..] else { panic!("{events:#?}") };
    assert_eq!(spe.name, "arm_spe_0/ts_enable=1,load_filter=1,store_filter=1,jitter=1/");
    assert_eq!((spe.attr.kind, spe.attr.config), (9, 1 | 1 << 33 | 1 << 34 | 1 << 16));
    assert_eq!(spe.cpus, Some(vec![0, 1]));
    assert_eq!((spe.attr.flags.0, spe.attr.period_or_frequency, spe.needs_aux), (USER_ONLY, 1 << 22, true));
    let slow = Machine::of(NEOVERSE);
    slow.write("arm_spe_0/caps/min_interval", "8388608");
    assert_eq!(slow.attrs(&Plan::default())[0].attr.period_or_frequency, 1 << 23);
}

#[test]
fn each_attempt_asks_for_less() {
    let events = Machine::of(SKYLAKE).attrs(&Plan::default());
    let attempts = events[0].attempts();
    let fields: Vec<u64> = attempts.iter().map(|attr| attr.sample_type).collect();
    let all = MEMORY_FIELDS;
    let unprivileged = all & !sample_type::PHYS_ADDR;
    let older = unprivileged & !sample_type::WEIGHT_STRUCT & !sample_type::DATA_PAGE_SIZE | sample_type::WEIGHT;
    assert_eq!(fields, [all, unprivileged, older, older, older]);
    let precise: Vec<u8> = attempts.iter().map(|attr| attr.flags.precise_ip()).collect();
    assert_eq!(precise, [3, 3, 3, 2, 1]);
    let leader = &Machine::of(HYBRID).attrs(&Plan::default())[2];
    assert_eq!(leader.attempts(), std::slice::from_ref(&leader.attr));
    assert_eq!(Machine::of(ZEN_4).attrs(&Plan::default())[0].attempts().len(), 3);
}

#[test]
fn what_a_machine_has_or_lacks_is_told() {
    let of = |files| hardware(Machine::of(files).0.path());
    assert_eq!(of(SKYLAKE), Ok(Hardware::IntelPebs));
    assert_eq!(of(HYBRID), Ok(Hardware::IntelPebs));
    assert_eq!(of(ZEN_4), Ok(Hardware::AmdIbs));
    assert_eq!(of(NEOVERSE), Ok(Hardware::ArmSpe));
    let none = of(NOTHING).unwrap_err();
    assert!(matches!(none, Reason::NoSource(_)) && none.remedy().is_some(), "{none}");
    assert!(matches!(hardware("/nonexistent".as_ref()), Err(Reason::NoSource(_))));

    let guest = Machine::of(SKYLAKE);
    guest.write("cpu/caps/max_precise", "0");
    let refused = attrs(guest.0.path(), &Plan::default()).unwrap_err();
    assert_eq!(refused, Reason::NotPrecise { pmu: "cpu".into() });
}

#[test]
fn a_description_that_makes_no_sense_is_one_clear_line() {
    let check = |file: &str, content: &str, expected: &str| {
        let machine = Machine::of(SKYLAKE);
        machine.write(file, content);
        let told = attrs(machine.0.path(), &Plan::default()).unwrap_err().to_string();
        assert_eq!(told, expected);
    };
    check("cpu/type", "four", "cpu/type: is no number");
    check("cpu/caps/max_precise", "very", "cpu/caps/max_precise: is no number");
    check("cpu/events/mem-stores", "event=0xd0,umask=?", "cpu/events/mem-stores: umask has no value");
    check("cpu/events/mem-stores", "event=0xd0,cmask=1", "cpu/format/cmask: is missing");
    check("cpu/events/mem-stores", "event=0x1d0", "cpu/format/event: has 8 bits: 464 is too large");
    check("cpu/format/ldlat", "config9:0-15", "cpu/format/ldlat: \"config9:0-15\" is no place");
    let machine = Machine::of(SKYLAKE);
    fs::write(machine.0.path().join("cpu/format/event"), [0xff; 8]).unwrap();
    assert!(attrs(machine.0.path(), &Plan::default()).unwrap_err().to_string().starts_with("cpu/format/event: "));
}
