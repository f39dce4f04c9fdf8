//! A report with something in all of its parts.

use slimline_report::view::*;
use slimline_trace::session::WeightUnit;

/// The published profile of ART (StructSlim, tables 5 and 6) with a session around it.
pub(crate) fn art() -> Report {
    let field = |offset, name: &str, share, stores, loops: &[usize]| Field {
        offset,
        bytes: 8,
        name: name.into(),
        share,
        share_interval: Interval { low: share - 0.02, high: share + 0.02 },
        access_share: share,
        access_share_interval: Interval { low: share - 0.03, high: share + 0.03 },
        loads: (share * 1e6) as u64 - stores,
        stores,
        stride_bytes: Some(64),
        loops: loops.to_vec(),
        served: None,
    };
    let member = |offset: u64, name: &str| LayoutMember {
        offset,
        bytes: 8,
        name: name.into(),
        type_name: "double".into(),
        ..LayoutMember::default()
    };
    let row = |first_line, last_line, share, fields: &[u64]| Loop {
        function: "match".into(),
        file: Some("/src/art/scanner.c".into()),
        first_line,
        last_line,
        column: None,
        share,
        share_interval: Interval { low: share - 0.01, high: share + 0.01 },
        no_memory_share: 0.0,
        depth: 2,
        inner: 0,
        module: "art".into(),
        module_path: "/src/art/art".into(),
        start_address: 0x1230,
        end_address: 0x1260,
        groups: vec![LoopGroup {
            id: 1,
            share,
            samples: (share * 2384.0) as u64,
            fields: fields.to_vec(),
            field_shares: fields.iter().map(|_| share / fields.len() as f64).collect(),
        }],
        served: None,
    };
    let line = |line, share, fields: &[u64]| Line {
        file: "/src/art/scanner.c".into(),
        line,
        share,
        share_interval: Interval { low: (share - 0.01_f64).max(0.0), high: share + 0.01 },
        samples: (share * 2384.0) as u64,
        groups: if fields.is_empty() { Vec::new() } else { vec![LineGroup { id: 1, fields: fields.to_vec() }] },
    };
    let names = ["I", "W", "X", "V", "U", "P", "Q", "R"];
    Report {
        schema: SCHEMA,
        session: Session {
            command: vec!["./art".into(), "-scanfile".into(), "c 756hel.in".into()],
            collector: "clock".into(),
            trigger: "perf cpu-clock, sigtrap".into(),
            weight: WeightUnit::TimeNs,
            events: Vec::new(),
            served: None,
            frequency_hz: 250.0,
            frequency_reason: Some("an interrupt costs 38 µs on this machine; -F 1000 for more".into()),
            burst_instructions: 256,
            duration_ns: 2_410_000_000,
            ended: "exit status 0".into(),
            complete: true,
            processes: 1,
            threads: 1,
            samples: 2384,
            accesses: 301_220,
            weight_total: 2_384_000_000,
            user_ns: 2_390_000_000,
            unsampled_ns: 30_000_000,
            system_ns: 20_000_000,
            sampling_ns: 36_000_000,
            allocations: 12_345,
            allocated_bytes: 64_200_000,
            allocations_followed: 12_345,
            owner_known_share: 0.0,
            follow_shift: 0,
            followed_bytes: 1024,
            paced: 0.93,
            quality: Quality { exact: 0.62, inverted: 0.2, next_instance: 0.17, lost: 0.01, ..Quality::default() },
            bursts: Bursts {
                count: 1240,
                mean_instructions: 243.0,
                ends: vec![Named { name: "limit".into(), share: 0.94 }, Named { name: "syscall".into(), share: 0.06 }],
            },
            lost: Lost { unresolved: 24, deep_stacks: 3, uncounted_threads: 1, ..Lost::default() },
            unnamed: vec![
                unnamed("no_line", "/lib/libc.so.6", 0.05),
                unnamed("no_address", "", 0.01),
                unnamed("no_line", "/lib/libm.so.6", 0.002),
                unnamed("no_function", "/opt/vendor.so", 0.001),
            ],
            skid: 1,
            skid_agreement: Some(0.97),
            no_samples_because: None,
            notes: Vec::new(),
        },
        groups: vec![
            Group {
                id: 1,
                name: "f1_layer".into(),
                kind: "heap".into(),
                share: 0.804,
                share_interval: Interval { low: 0.788, high: 0.82 },
                samples: 1917,
                loads: 240_000,
                stores: 1_000,
                blocks: 1,
                bytes: 64_000_000,
                allocated_at: Some(Place {
                    function: "init_net".into(),
                    file: Some("/src/art/scanner.c".into()),
                    line: 37,
                    stack: vec!["init_net scanner.c:37".into(), "main scanner.c:1200".into()],
                }),
                type_name: Some("f1_neuron".into()),
                element_bytes: Some(64),
                element_from: Some("debug_info".into()),
                element_confidence: Some(0.999),
                fields: vec![
                    field(0, "I", 0.055, 0, &[2]),
                    field(32, "U", 0.071, 9_000, &[2]),
                    field(40, "P", 0.733, 400, &[0, 1]),
                ],
                affinity: vec![Affinity { a: 0, b: 32, value: 0.86 }, Affinity { a: 32, b: 40, value: 0.05 }],
                clusters: vec![vec![40], vec![0, 32]],
                layout: Some(Layout {
                    name: "f1_neuron".into(),
                    language: "c".into(),
                    bytes: 72,
                    members: names
                        .iter()
                        .enumerate()
                        .map(|(n, name)| member(n as u64 * 8, name))
                        .chain([LayoutMember { offset: 64, bytes: 8, padding: true, ..LayoutMember::default() }])
                        .collect(),
                }),
                ..Group::default()
            },
            Group {
                id: 0,
                name: "unattributed".into(),
                kind: "unattributed".into(),
                share: 0.196,
                share_interval: Interval { low: 0.18, high: 0.212 },
                samples: 467,
                ..Group::default()
            },
        ],
        loops: vec![row(615, 616, 0.5657, &[40]), row(607, 608, 0.144, &[40]), row(545, 548, 0.1083, &[32, 0])],
        coverage: Coverage {
            accesses: 0.97,
            unknown: 0.0,
            objects: 0.93,
            structures: 0.9,
            fields: 0.81,
            missing: vec![
                Missing {
                    what: "type".into(),
                    reason: "from_caller".into(),
                    share: 0.07,
                    examples: vec![MissingUse {
                        function: "match".into(),
                        module: "art".into(),
                        place: "/src/art/scanner.c:607".into(),
                        group: "f1_layer".into(),
                        share: 0.05,
                    }],
                },
                Missing { what: "object".into(), reason: "no_address".into(), share: 0.04, examples: vec![] },
                Missing { what: "field".into(), reason: "outside_fields".into(), share: 0.02, examples: vec![] },
            ],
        },
        breakdowns: Breakdowns {
            functions: vec![
                Row {
                    name: "match".into(),
                    detail: "art".into(),
                    share: 0.95,
                    share_interval: Interval { low: 0.94, high: 0.96 },
                    samples: 2265,
                },
                Row {
                    name: "memcpy".into(),
                    detail: "libc.so.6".into(),
                    share: 0.05,
                    share_interval: Interval { low: 0.04, high: 0.06 },
                    samples: 119,
                },
            ],
            ..Breakdowns::default()
        },
        lines: vec![
            line(616, 0.5657, &[40]),
            line(608, 0.144, &[40]),
            line(547, 0.1083, &[0, 32]),
            line(1200, 0.02, &[]),
            line(546, 0.0, &[32]),
        ],
        advice: vec![Advice {
            kind: "split".into(),
            group: 1,
            other_groups: Vec::new(),
            title: "Split f1_neuron into {P} and {I U}".into(),
            fields: vec![vec![40], vec![0, 32]],
            layouts: vec![
                NewLayout { bytes: 8, fields: vec![PlacedField { from: 40, offset: 0, bytes: 8 }], pointer_at: None },
                NewLayout {
                    bytes: 24,
                    fields: vec![
                        PlacedField { from: 0, offset: 0, bytes: 8 },
                        PlacedField { from: 32, offset: 8, bytes: 8 },
                    ],
                    pointer_at: Some(16),
                },
            ],
            predicted: Some(Predicted {
                cycles: -0.21,
                cycles_interval: Interval { low: -0.3, high: -0.12 },
                lines: -0.86,
                method: "lines touched an iteration, weighted by the sampled time of each loop".into(),
            }),
            confidence: "high".into(),
            why:
                "P takes 73.3 % of the time of f1_neuron, alone in its loops, and fills 8 of the 64 bytes of each line."
                    .into(),
            code: "typedef struct {\n    double P;\n} f1_neuron_p;".into(),
            declared_at: Some(Position { file: "/src/art/scanner.c".into(), line: 31 }),
            touched_lines: vec!["scanner.c:608".into(), "scanner.c:616".into()],
            cautions: vec!["its size is relied on at scanner.c:52".into()],
        }],
    }
}

pub(crate) fn unnamed(reason: &str, module: &str, share: f64) -> Unnamed {
    Unnamed { reason: reason.into(), module: module.into(), share, accesses: 100 }
}
