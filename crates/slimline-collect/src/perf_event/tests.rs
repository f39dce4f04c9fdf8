//! The decoder against its twin: every field on and off, in both byte orders; and against bytes written down by hand.

use proptest::collection::vec;
use proptest::prelude::*;

use super::encode::{Encoder, SyntheticSample};
use super::*;

fn attr(sample_type: u64) -> EventAttr {
    EventAttr {
        sample_type,
        read_format: read_format::ID,
        user_registers: 0b1011,
        interrupt_registers: 1 << 63 | 1,
        ..EventAttr::default()
    }
}

/// A sample whose every value is another.
fn distinct() -> SyntheticSample {
    SyntheticSample {
        misc: misc_bits::CPUMODE_USER | misc_bits::EXACT_IP,
        identifier: 101,
        ip: 102,
        pid: 103,
        tid: 104,
        time: 105,
        address: 106,
        id: 107,
        stream_id: 108,
        cpu: 109,
        period: 110,
        times: [111, 112],
        counters: vec![[113, 114, 115], [116, 117, 118]],
        chain: vec![-512_i64 as u64, 119, 120],
        raw: vec![121; 9],
        hardware_index: 122,
        branches: vec![(123, 124, true, false, 125, 126), (127, 128, false, true, 65535, 129)],
        user_abi: 2,
        user_registers: vec![130, 131, 132],
        user_stack: vec![133; 24],
        valid_stack_bytes: 16,
        weight: 7 << 48 | 6 << 32 | 5,
        data_source: 134,
        transaction: 135,
        interrupt_abi: 2,
        interrupt_registers: vec![136, 137],
        physical_address: 138,
        cgroup: 139,
        data_page_bytes: 140,
        code_page_bytes: 141,
        aux: vec![142; 16],
    }
}

fn decode<'a>(bytes: &'a [u8], attr: &EventAttr, order: ByteOrder) -> Result<Sample<'a>, Malformed> {
    let (record, size) = RawRecord::at_start(bytes, order).unwrap().unwrap();
    assert_eq!(size, bytes.len());
    Sample::decode(&record, attr)
}

/// Whether `sample` says of each field what `values` says, and nothing of fields that the event lacks.
fn check(sample: &Sample<'_>, values: &SyntheticSample, attr: &EventAttr) {
    let has = |field| attr.samples(field);
    let word = |field, value| has(field).then_some(value);
    let identifier = word(sample_type::IDENTIFIER, values.identifier);
    assert_eq!(sample.id.id, word(sample_type::ID, values.id).or(identifier));
    assert_eq!(sample.ip, word(sample_type::IP, values.ip));
    let task = TaskId { pid: values.pid, tid: values.tid };
    assert_eq!(sample.id.task, has(sample_type::TID).then_some(task));
    assert_eq!(sample.id.time, word(sample_type::TIME, values.time));
    assert_eq!(sample.address, word(sample_type::ADDR, values.address));
    assert_eq!(sample.id.stream_id, word(sample_type::STREAM_ID, values.stream_id));
    assert_eq!(sample.id.cpu, has(sample_type::CPU).then_some(values.cpu));
    assert_eq!(sample.period, word(sample_type::PERIOD, values.period));
    assert_eq!(sample.counters.is_some(), has(sample_type::READ));
    if let Some(counters) = sample.counters {
        let format = attr.read_format;
        let optional = |bit, value| (format & bit != 0).then_some(value);
        let count = if format & read_format::GROUP == 0 { 1 } else { values.counters.len() };
        let expected = values.counters[..count].iter().map(|&[value, id, lost]| Counter {
            value,
            id: optional(read_format::ID, id),
            lost: optional(read_format::LOST, lost),
        });
        assert!(counters.iter().eq(expected));
        assert_eq!(counters.time_enabled_ns, optional(read_format::TOTAL_TIME_ENABLED, values.times[0]));
        assert_eq!(counters.time_running_ns, optional(read_format::TOTAL_TIME_RUNNING, values.times[1]));
    }
    let chain = sample.chain.map(|chain| chain.iter().collect());
    assert_eq!(chain, has(sample_type::CALLCHAIN).then(|| values.chain.clone()));
    assert_eq!(sample.raw.is_some(), has(sample_type::RAW));
    if let Some(raw) = sample.raw {
        assert!(raw.starts_with(&values.raw) && raw.len() < values.raw.len() + 8);
    }
    assert_eq!(sample.branches.is_some(), has(sample_type::BRANCH_STACK));
    if let Some(branches) = sample.branches {
        let optional = |bit, value| (attr.branch_sample_type & bit != 0).then_some(value);
        assert_eq!(branches.hardware_index, optional(branch_sample_type::HW_INDEX, values.hardware_index));
        let expected = values.branches.iter().map(|&(from, to, mispredicted, predicted, cycles, counters)| Branch {
            from,
            to,
            mispredicted,
            predicted,
            cycles,
            counters: optional(branch_sample_type::COUNTERS, counters),
        });
        assert!(branches.iter().eq(expected));
    }
    let registers =
        |registers: Option<Registers<'_>>| registers.map(|found| (found.abi, found.values.iter().collect()));
    let expected = |abi: u64, values: &Vec<u64>| (abi, if abi == 0 { Vec::new() } else { values.clone() });
    let user = has(sample_type::REGS_USER).then(|| expected(values.user_abi, &values.user_registers));
    assert_eq!(registers(sample.user_registers), user);
    let interrupt = has(sample_type::REGS_INTR).then(|| expected(values.interrupt_abi, &values.interrupt_registers));
    assert_eq!(registers(sample.interrupt_registers), interrupt);
    let stack = sample.user_stack.map(|stack| (stack.bytes, stack.valid_bytes));
    let valid = values.valid_stack_bytes.min(values.user_stack.len() as u64);
    assert_eq!(stack, has(sample_type::STACK_USER).then_some((&values.user_stack[..], valid)));
    let three = Weight::Three {
        access: values.weight as u32,
        instruction: (values.weight >> 32) as u16,
        retire: (values.weight >> 48) as u16,
    };
    let one = has(sample_type::WEIGHT).then_some(Weight::One(values.weight));
    assert_eq!(sample.weight, one.or(has(sample_type::WEIGHT_STRUCT).then_some(three)));
    assert_eq!(sample.data_source, has(sample_type::DATA_SRC).then_some(DataSource(values.data_source)));
    assert_eq!(sample.transaction, word(sample_type::TRANSACTION, values.transaction));
    assert_eq!(sample.physical_address, word(sample_type::PHYS_ADDR, values.physical_address));
    assert_eq!(sample.cgroup, word(sample_type::CGROUP, values.cgroup));
    assert_eq!(sample.data_page_bytes, word(sample_type::DATA_PAGE_SIZE, values.data_page_bytes));
    assert_eq!(sample.code_page_bytes, word(sample_type::CODE_PAGE_SIZE, values.code_page_bytes));
    assert_eq!(sample.aux, has(sample_type::AUX).then_some(&values.aux[..]));
}

#[test]
fn each_field_alone_and_all_but_it() {
    let values = distinct();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for field in 0..25 {
            for sample_type in [1 << field, sample_type::KNOWN & !(1 << field)] {
                let attr = attr(sample_type);
                let mut encoder = Encoder::new(order);
                let bytes = encoder.sample(&attr, &values).bytes();
                let sample = decode(bytes, &attr, order).unwrap();
                check(&sample, &values, &attr);
                assert!(sample.has_exact_ip && sample.is_user());
                let (record, _) = RawRecord::at_start(bytes, order).unwrap().unwrap();
                assert_eq!(RecordId::of(&record, &attr), Ok(sample.id));
            }
        }
    }
}

#[test]
fn no_end_is_trusted() {
    let (values, attr) = (distinct(), attr(sample_type::KNOWN));
    let mut encoder = Encoder::new(ByteOrder::Little);
    let whole = encoder.sample(&attr, &values).bytes();
    for end in HEADER_BYTES..whole.len() {
        let record = RawRecord { kind: 9, misc: 0, body: &whole[HEADER_BYTES..end], order: ByteOrder::Little };
        assert!(Sample::decode(&record, &attr).is_err(), "{end}");
    }
}

#[test]
fn a_kernels_bytes() {
    // The first sample of perf.data.weight_struct (`perf script -D`), with the attribute of its event.
    let sample_type = sample_type::IP
        | sample_type::TID
        | sample_type::TIME
        | sample_type::ADDR
        | sample_type::ID
        | sample_type::CPU
        | sample_type::DATA_SRC
        | sample_type::WEIGHT_STRUCT;
    let bytes = [
        0x09, 0, 0, 0, 0x01, 0x40, 0x48, 0, // header: sample, kernel mode with exact IP, 72 bytes
        0xfb, 0xa5, 0x21, 0xa4, 0xff, 0xff, 0xff, 0xff, // ip
        0x19, 0x45, 0, 0, 0x33, 0x4a, 0, 0, // pid, tid
        0x72, 0xc4, 0xe7, 0x82, 0xf9, 0x0b, 0, 0, // time
        0xe8, 0x20, 0xe1, 0xa5, 0xff, 0xff, 0xff, 0xff, // address
        0x7d, 0x0c, 0, 0, 0, 0, 0, 0, // id
        0x1d, 0, 0, 0, 0, 0, 0, 0, // cpu
        0x60, 0, 0, 0, 0, 0, 0, 0, // weight
        0x42, 0x02, 0x10, 0x68, 0x18, 0x01, 0, 0, // data source
    ];
    let attr = EventAttr { sample_type, ..EventAttr::default() };
    let sample = decode(&bytes, &attr, ByteOrder::Little).unwrap();
    // perf script: 17689/18995 [029] 13166.270989 … 96 ffffffffa421a5fb
    assert_eq!(sample.ip, Some(0xffff_ffff_a421_a5fb));
    assert_eq!(sample.id.task, Some(TaskId { pid: 17689, tid: 18995 }));
    assert_eq!(sample.id.time, Some(13_166_270_989_426));
    assert_eq!(sample.address, Some(0xffff_ffff_a5e1_20e8));
    assert_eq!((sample.id.id, sample.id.cpu), (Some(3197), Some(29)));
    assert_eq!(sample.weight, Some(Weight::Three { access: 96, instruction: 0, retire: 0 }));
    assert_eq!(sample.data_source, Some(DataSource(0x118_6810_0242)));
    assert!(sample.has_exact_ip && !sample.is_user());
}

#[test]
fn contexts_divide_a_call_chain() {
    let marker = |number: i64| number as u64;
    let chain = vec![marker(-128), 0xffff_8000, 0xffff_9000, marker(-512), 0x40_1000, 0x40_2000, marker(-7), 5];
    let values = SyntheticSample { misc: misc_bits::CPUMODE_KERNEL, chain, ..SyntheticSample::default() };
    let attr = attr(sample_type::CALLCHAIN);
    let mut encoder = Encoder::new(ByteOrder::Little);
    let sample = decode(encoder.sample(&attr, &values).bytes(), &attr, ByteOrder::Little).unwrap();
    let found: Vec<_> = sample.callchain().map(|frame| (frame.context, frame.address)).collect();
    let expected = [
        (Context::Kernel, 0xffff_8000),
        (Context::Kernel, 0xffff_9000),
        (Context::User, 0x40_1000),
        (Context::User, 0x40_2000),
        (Context::Unknown, 5),
    ];
    assert_eq!(found, expected);
}

#[test]
fn registers_are_found_by_their_bit() {
    let values = SyntheticSample { user_abi: 2, user_registers: vec![7, 8, 9], ..SyntheticSample::default() };
    let attr = attr(sample_type::REGS_USER);
    let mut encoder = Encoder::new(ByteOrder::Little);
    let sample = decode(encoder.sample(&attr, &values).bytes(), &attr, ByteOrder::Little).unwrap();
    let registers = sample.user_registers.unwrap();
    let found: Vec<_> = (0..5).map(|number| registers.get(number)).collect();
    assert_eq!(found, [Some(7), Some(8), None, Some(9), None]);
    assert_eq!((registers.get(63), registers.get(64)), (None, None));
}

/// Records other than samples, with and without a trailer.
#[test]
fn records_with_their_trailers() {
    let values = distinct();
    let trailer = sample_type::TID
        | sample_type::TIME
        | sample_type::ID
        | sample_type::STREAM_ID
        | sample_type::CPU
        | sample_type::IDENTIFIER;
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for flags in [Flags::SAMPLE_ID_ALL, Flags::default()] {
            let attr = EventAttr { flags, ..attr(trailer | sample_type::IP) };
            let id = if flags == Flags::default() {
                RecordId::default()
            } else {
                RecordId {
                    task: Some(TaskId { pid: 103, tid: 104 }),
                    time: Some(105),
                    id: Some(107),
                    stream_id: Some(108),
                    cpu: Some(109),
                }
            };
            let decoded = |kind: u32, misc: u16, body: &dyn Fn(&mut Encoder), check: &dyn Fn(&Record<'_>)| {
                let mut encoder = Encoder::new(order);
                encoder.with_trailer(&attr, &values, kind, misc, body);
                let (record, _) = RawRecord::at_start(encoder.bytes(), order).unwrap().unwrap();
                let decoded = Record::decode(&record, &attr).unwrap();
                assert_eq!(decoded.id, id, "type {kind}");
                assert_eq!(RecordId::of(&record, &attr), Ok(id));
                check(&decoded.record);
                for end in 0..record.body.len() {
                    // Shorter ones may still be whole, or not be: none may panic.
                    let _ = Record::decode(&RawRecord { body: &record.body[..end], ..record }, &attr);
                }
            };
            let task = TaskId { pid: 1, tid: 2 };
            let range = |to: &mut Encoder| {
                to.u32(1).u32(2).u64(0x40_0000).u64(0x2000).u64(0x1000);
            };
            let mapping = |name| Mapping {
                task,
                start: 0x40_0000,
                bytes: 0x2000,
                file_offset: 0x1000,
                name,
                is_data: false,
                protection: None,
                origin: MappingOrigin::Untold,
            };
            decoded(
                record_type::MMAP,
                misc_bits::MMAP_DATA,
                &|to| {
                    range(to);
                    to.text("//anon");
                },
                &|record| assert_eq!(*record, Record::Mapping(Mapping { is_data: true, ..mapping(b"//anon") })),
            );
            let of_inode = MappingOrigin::Inode { major: 8, minor: 1, inode: 77 };
            decoded(
                record_type::MMAP2,
                0,
                &|to| {
                    range(to);
                    to.u32(8).u32(1).u64(77).u64(3).u32(5).u32(2).text("/bin/cat");
                },
                &|record| {
                    let expected = Mapping { protection: Some([5, 2]), origin: of_inode, ..mapping(b"/bin/cat") };
                    assert_eq!(*record, Record::Mapping(expected));
                },
            );
            decoded(
                record_type::MMAP2,
                misc_bits::MMAP_BUILD_ID,
                &|to| {
                    range(to);
                    to.raw(&[20, 0, 0, 0]).raw(&[0xab; 20]).u32(5).u32(2).text("/bin/cat");
                },
                &|record| {
                    let origin = MappingOrigin::BuildId(&[0xab; 20]);
                    assert_eq!(
                        *record,
                        Record::Mapping(Mapping { protection: Some([5, 2]), origin, ..mapping(b"/bin/cat") })
                    );
                },
            );
            decoded(
                record_type::COMM,
                misc_bits::COMM_EXEC,
                &|to| {
                    to.u32(1).u32(2).text("twelve chars");
                },
                &|record| assert_eq!(*record, Record::Comm { task, name: b"twelve chars", by_exec: true }),
            );
            let of_task = Task { task, parent: TaskId { pid: 3, tid: 4 }, time: 99, inherits: true };
            let write_task = |to: &mut Encoder| {
                to.u32(1).u32(3).u32(2).u32(4).u64(99);
            };
            decoded(record_type::FORK, 0, &write_task, &|record| assert_eq!(*record, Record::Fork(of_task)));
            decoded(record_type::FORK, misc_bits::FORK_EXEC, &write_task, &|record| {
                assert_eq!(*record, Record::Fork(Task { inherits: false, ..of_task }));
            });
            decoded(record_type::EXIT, 0, &write_task, &|record| assert_eq!(*record, Record::Exit(of_task)));
            decoded(
                record_type::LOST,
                0,
                &|to| {
                    to.u64(107).u64(55);
                },
                &|record| assert_eq!(*record, Record::Lost { records: 55 }),
            );
            decoded(
                record_type::LOST_SAMPLES,
                0,
                &|to| {
                    to.u64(56);
                },
                &|record| assert_eq!(*record, Record::LostSamples { samples: 56 }),
            );
            let throttled = |to: &mut Encoder| {
                to.u64(105).u64(107).u64(108);
            };
            decoded(record_type::THROTTLE, 0, &throttled, &|record| assert_eq!(*record, Record::Throttle));
            decoded(record_type::UNTHROTTLE, 0, &throttled, &|record| assert_eq!(*record, Record::Unthrottle));
            decoded(
                record_type::READ,
                0,
                &|to| {
                    to.u32(1).u32(2).u64(1000).u64(107);
                },
                &|record| {
                    let Record::Read { task: of, counters } = record else { panic!("{record:?}") };
                    assert_eq!(*of, task);
                    assert!(counters.iter().eq([Counter { value: 1000, id: Some(107), lost: None }]));
                },
            );
            decoded(
                record_type::AUX,
                0,
                &|to| {
                    to.u64(4096).u64(64).u64(1);
                },
                &|record| assert_eq!(*record, Record::Aux { offset: 4096, bytes: 64, flags: 1 }),
            );
            let (is_out, is_preempted) = (true, true);
            let away = misc_bits::SWITCH_OUT | misc_bits::SWITCH_OUT_PREEMPT;
            decoded(record_type::SWITCH, away, &|_| (), &|record| {
                assert_eq!(*record, Record::Switch { is_out, is_preempted, other: None });
            });
            decoded(
                record_type::SWITCH_CPU_WIDE,
                0,
                &|to| {
                    to.u32(1).u32(2);
                },
                &|record| {
                    let other = Some(task);
                    assert_eq!(*record, Record::Switch { is_out: false, is_preempted: false, other });
                },
            );
            decoded(
                record_type::KSYMBOL,
                0,
                &|to| {
                    to.u64(0xffff).u32(32).u16(1).u16(1).text("bpf_prog");
                },
                &|record| {
                    let expected =
                        Record::KernelSymbol { address: 0xffff, bytes: 32, is_gone: true, name: b"bpf_prog" };
                    assert_eq!(*record, expected);
                },
            );
            decoded(record_type::CGROUP, 0, &|_| (), &|record| {
                assert_eq!(*record, Record::Other(record_type::CGROUP));
            });
            decoded(33, 0, &|_| (), &|record| assert_eq!(*record, Record::Unknown(33)));
        }
    }
}

/// An attribute of a kernel that knows less has zeros for the rest, one that knows more says so.
#[test]
fn attributes_of_all_sizes() {
    let attr = EventAttr {
        kind: 4,
        config: 0x1cd,
        period_or_frequency: 10_009,
        sample_type: 0x100_00ff,
        read_format: 4,
        flags: Flags::SAMPLE_ID_ALL.and(Flags::FREQ).with_precise_ip(2),
        wakeup: 1,
        breakpoint_type: 2,
        config1: 0x40,
        config2: 3,
        branch_sample_type: 5,
        user_registers: 6,
        user_stack_bytes: 7,
        clock_id: -1,
        interrupt_registers: 8,
        aux_watermark: 9,
        max_stack: 10,
        aux_sample_bytes: 11,
        signal_data: 12,
        config3: 13,
    };
    let bytes = attr.encode();
    assert_eq!(EventAttr::decode(&bytes, ByteOrder::NATIVE), Ok((attr.clone(), 136)));
    assert_eq!((attr.flags.precise_ip(), attr.flags.has(Flags::FREQ), attr.flags.has(Flags::COMM)), (2, true, false));

    // The first one, of 64 bytes: up to `bp_type` and `bp_addr`.
    let mut first = bytes;
    first[4..8].copy_from_slice(&64_u32.to_ne_bytes());
    let (older, size) = EventAttr::decode(&first[..64], ByteOrder::NATIVE).unwrap();
    assert_eq!((size, older.config1, older.config2, older.user_registers), (64, 0x40, 0, 0));
    // A longer one, with what nobody knows yet.
    let mut longer = bytes.to_vec();
    longer[4..8].copy_from_slice(&144_u32.to_ne_bytes());
    longer.extend([0xff; 8]);
    assert_eq!(EventAttr::decode(&longer, ByteOrder::NATIVE), Ok((attr.clone(), 144)));
    // Sizes that can't be.
    for size in [1_u32, 63, 137, 5000, u32::MAX] {
        let mut wrong = bytes;
        wrong[4..8].copy_from_slice(&size.to_ne_bytes());
        assert!(EventAttr::decode(&wrong, ByteOrder::NATIVE).is_err(), "{size}");
    }
    assert!(EventAttr::decode(&bytes[..100], ByteOrder::NATIVE).is_err());

    assert_eq!(attr.unknown_layout(), None);
    let newer = EventAttr { sample_type: 1 << 25 | 1, ..EventAttr::default() };
    assert_eq!(newer.unknown_layout().as_deref(), Some("sample_type bits 0x2000000"));
}

/// A big-endian compiler fills bit fields from the highest bit; `precise_ip` alone has two.
#[test]
fn switches_of_the_other_byte_order() {
    let flags = Flags::DISABLED.and(Flags::SAMPLE_ID_ALL).with_precise_ip(1);
    let mut bytes = EventAttr::default().encode();
    bytes[4..8].copy_from_slice(&136_u32.to_be_bytes());
    let word = 1_u64 << 63 | 1 << (63 - 18) | 0b01 << (63 - 16);
    bytes[40..48].copy_from_slice(&word.to_be_bytes());
    let (attr, _) = EventAttr::decode(&bytes, ByteOrder::Big).unwrap();
    assert_eq!(attr.flags, flags);
}

prop_compose! {
    fn values()(
        words in vec(any::<u64>(), 18),
        halves in vec(any::<u32>(), 3),
        misc in any::<u16>(),
        counters in vec(any::<[u64; 3]>(), 1..4),
        chain in vec(any::<u64>(), 0..20),
        raw in vec(any::<u8>(), 0..40),
        branches in vec(any::<(u64, u64, bool, bool, u16, u64)>(), 0..5),
        abi in 0..3_u64,
        registers in vec(any::<u64>(), 64),
        stack in vec(any::<u8>(), 0..9),
        aux in vec(any::<u8>(), 0..9),
    ) -> SyntheticSample {
        SyntheticSample {
            misc,
            identifier: words[0],
            ip: words[1],
            pid: halves[0],
            tid: halves[1],
            time: words[2],
            address: words[3],
            id: words[4],
            stream_id: words[5],
            cpu: halves[2],
            period: words[6],
            times: [words[7], words[8]],
            counters,
            chain,
            raw,
            hardware_index: words[9],
            branches,
            user_abi: abi,
            user_registers: registers.clone(),
            // The kernel copies whole words.
            user_stack: stack.iter().flat_map(|&byte| [byte; 8]).collect(),
            valid_stack_bytes: words[10],
            weight: words[11],
            data_source: words[12],
            transaction: words[13],
            interrupt_abi: 2 - abi,
            interrupt_registers: registers,
            physical_address: words[14],
            cgroup: words[15],
            data_page_bytes: words[16],
            code_page_bytes: words[17],
            aux: aux.iter().flat_map(|&byte| [byte; 8]).collect(),
        }
    }
}

proptest! {
    #[test]
    fn what_the_twin_writes_is_read(
        mut values in values(),
        fields in any::<u64>(),
        formats in any::<[u64; 2]>(),
        masks in any::<[u64; 2]>(),
        is_big in any::<bool>(),
    ) {
        let order = if is_big { ByteOrder::Big } else { ByteOrder::Little };
        values.user_registers.truncate(masks[0].count_ones() as usize);
        values.interrupt_registers.truncate(masks[1].count_ones() as usize);
        let attr = EventAttr {
            sample_type: fields & sample_type::KNOWN,
            read_format: formats[0] & read_format::KNOWN,
            branch_sample_type: formats[1] & branch_sample_type::KNOWN,
            user_registers: masks[0],
            interrupt_registers: masks[1],
            ..EventAttr::default()
        };
        let mut encoder = Encoder::new(order);
        let sample = decode(encoder.sample(&attr, &values).bytes(), &attr, order).unwrap();
        check(&sample, &values, &attr);
    }

    #[test]
    fn any_bytes_are_taken_without_a_panic(
        bytes in vec(any::<u8>(), 0..300),
        kind in 0..25_u32,
        misc in any::<u16>(),
        fields in any::<u64>(),
        flags in any::<u64>(),
    ) {
        let attr = EventAttr {
            sample_type: fields,
            read_format: fields >> 25,
            branch_sample_type: fields >> 30,
            user_registers: flags,
            flags: Flags(flags),
            ..EventAttr::default()
        };
        let record = RawRecord { kind, misc, body: &bytes, order: ByteOrder::Little };
        if let Ok(Decoded { record: Record::Sample(sample), .. }) = Record::decode(&record, &attr) {
            let _ = sample.callchain().count();
            let _ = sample.branches.map(|branches| branches.iter().count());
            let _ = sample.counters.map(|counters| counters.iter().count());
        }
        let mut events = Events::default();
        events.add(attr.clone(), [1]);
        events.add(attr, [2]);
        let _ = events.writer_of(&record);
        let _ = EventAttr::decode(&bytes, ByteOrder::Big);
    }
}
