//! A header for sessions under test.

use std::collections::BTreeMap;

use slimline_trace::session::*;

pub(crate) fn info() -> SessionInfo {
    SessionInfo {
        format: FORMAT_VERSION,
        slimline_version: "0".into(),
        complete: false,
        command: vec!["./program".into(), "10".into()],
        program: "/opt/program".into(),
        working_directory: "/opt".into(),
        environment: BTreeMap::from([("OMP_NUM_THREADS".into(), "2".into())]),
        machine: Machine::default(),
        collector: Collector {
            name: "clock".into(),
            second_best: None,
            trigger: Trigger::PerfSigtrap,
            trigger_reason: "granted".into(),
            trigger_errno: 0,
            weight: WeightUnit::TimeNs,
            events: Vec::new(),
            period_ns: 1_000_000,
            clocks_ns: [1_000_000, 0],
            period_reason: Some("an interrupt costs 3 µs".into()),
            trigger_cost_ns: Some(3_000),
            burst_instructions: 300,
            budget_ppm: 10_000,
            track_allocations: true,
            follow_children: true,
            skid: Skid { instructions: 1, calibrated: true, samples_at_distance: vec![1, 99], note: String::new() },
        },
        started_unix_ns: 1,
        started_ns: 100,
        ended_ns: 400,
        end: None,
        stopped_early: None,
        imported: None,
        processes: vec![summary("p7-0")],
    }
}

pub(crate) fn summary(directory: &str) -> ProcessSummary {
    ProcessSummary {
        directory: directory.into(),
        pid: 7,
        parent_pid: 1,
        executable: "/opt/program".into(),
        state: ProcessState::Running,
        failure: None,
        trigger: Trigger::PerfSigtrap,
        trigger_errno: 0,
        between_errno: 0,
        forked_ns: 0,
        started_ns: 100,
        ended_ns: 400,
        parts: 2,
        samples: 4,
        weightless_samples: 0,
        weight: 4_000_000,
        accesses: 6,
        allocations: 2,
        allocated_bytes: 96,
        allocations_followed: 0,
        follow_shift: 0,
        followed_bytes: 1024,
        user_ns: None,
        system_ns: None,
        sampling_ns: 0,
        allocators: Vec::new(),
        unlooked: Vec::new(),
        adds_to: None,
        losses: Losses::default(),
    }
}
