//! The agent inside real programs: they behave as they do alone, and what it writes is whole.
//!
//! Programs in `targets/` are compiled with `cc` and run alone and under the preload, with a configuration as the
//! collector would write it and a reader that drains the rings meanwhile.

mod heap;
mod reader;
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use reader::Process;
use run::{BETWEEN_NS, PERIOD_NS, Recorded, Target, WEIGHT_NS, alone, recorded};
use slimline_trace::wire::{ProcessState, Quality, TriggerKind};

const BOTH: [TriggerKind; 2] = [TriggerKind::PerfSigtrap, TriggerKind::ThreadTimer];

/// Runs a target alone and recorded, and checks that nobody could tell the difference.
fn same(target: &Target, arguments: &[&str], trigger: TriggerKind) -> Recorded {
    let expected = alone(target.command(arguments));
    let run = recorded(target.command(arguments), run::config(trigger));
    assert_eq!(String::from_utf8_lossy(&run.output.stdout), String::from_utf8_lossy(&expected.stdout));
    assert_eq!(String::from_utf8_lossy(&run.output.stderr), String::from_utf8_lossy(&expected.stderr));
    assert_eq!(run.output.status, expected.status);
    for process in &run.processes {
        assert_ne!(process.state, ProcessState::Failed as u32, "{}", process.failure);
        assert_eq!(process.broken, 0, "messages that were not whole");
    }
    run
}

fn used(process: &Process, trigger: TriggerKind) -> bool {
    // Where perf is forbidden the agent says so and uses timers.
    process.trigger == trigger as u32 || process.trigger_errno != 0
}

/// Where perf is forbidden the first clock is alone.
fn has_second_clock(process: &Process) -> bool {
    process.samples.iter().any(|sample| sample.head.weight_ns == WEIGHT_NS)
}

/// What a loaded machine can't change: a sample weighs whole periods, and a thread's samples together no more than the
/// time that has gone by since it began. Time counted twice shows where the thread had a processor to itself. That ticks
/// are lost, as they are in a virtual machine, does not show here.
fn weighs_no_more_than_its_time(process: &reader::Process) {
    let mut weights: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let weight_ns = if has_second_clock(process) { WEIGHT_NS } else { PERIOD_NS };
    for sample in &process.samples {
        assert!(sample.head.weight_ns >= weight_ns && sample.head.weight_ns.is_multiple_of(weight_ns));
        let (weight_ns, last_ns) = weights.entry(sample.tid).or_default();
        *weight_ns += sample.head.weight_ns;
        *last_ns = sample.head.time_ns.max(*last_ns);
    }
    for (tid, (weight_ns, last_ns)) in weights {
        let lived_ns = last_ns - process.begun_ns[&tid];
        // The timer starts with the thread, a little before that is told.
        assert!(weight_ns <= lived_ns + 20 * PERIOD_NS, "thread {tid}: {weight_ns} ns in {lived_ns} ns");
    }
}

#[test]
fn every_thread_is_sampled_and_weighs_no_more_than_its_time() {
    let target = Target::compile("spin");
    for trigger in BOTH {
        for threads in [1, 3] {
            let run = same(&target, &[&threads.to_string(), "400"], trigger);
            let [process] = &run.processes[..] else { panic!("{} processes", run.processes.len()) };
            assert!(used(process, trigger));
            assert_eq!(process.state, ProcessState::Exited as u32);
            assert_eq!(process.begun.len(), threads, "began");
            assert_eq!(process.ended.len(), threads, "ended");
            let sampled: BTreeSet<u32> = process.samples.iter().map(|sample| sample.tid).collect();
            assert_eq!(sampled, process.begun, "sampled");
            weighs_no_more_than_its_time(process);
        }
    }
}

/// A timer's samples are whole ticks of CPU time apart. Where perf grants a second clock, its samples fall between.
#[test]
fn a_second_clock_falls_between_the_ticks() {
    let target = Target::compile("spin");
    let run = same(&target, &["1", "3000"], TriggerKind::ThreadTimer);
    let process = &run.processes[0];
    assert!(process.samples.iter().all(|sample| sample.head.cpu_ns > 0));
    if !has_second_clock(process) {
        let by_perf = recorded(target.command(&["1", "100"]), run::config(TriggerKind::PerfSigtrap));
        assert_ne!(by_perf.processes[0].trigger_errno, 0, "no second clock though perf is granted");
        return;
    }
    let apart = |pair: &[reader::Sample]| pair[1].head.cpu_ns.saturating_sub(pair[0].head.cpu_ns);
    let close = process.samples.windows(2).filter(|pair| apart(pair) < PERIOD_NS).count();
    // A perf sample falls into the first or last millisecond between two ticks of four half of the time.
    assert!(close >= 10, "{close} of {} samples", process.samples.len());
    let longest = process.samples.windows(2).map(apart).max();
    assert!(longest.is_some_and(|longest_ns| longest_ns < 4 * BETWEEN_NS), "{longest:?}: one of them goes on");
}

#[test]
fn samples_carry_the_address_the_stack_and_an_exact_burst() {
    let target = Target::compile("spin");
    let run = same(&target, &["1", "1000"], TriggerKind::PerfSigtrap);
    let process = &run.processes[0];
    let blocks = &process.ranges;
    assert_eq!(blocks.len(), 2, "one large block, allocated and freed");
    let block = blocks[0].base..blocks[0].base + blocks[0].bytes;
    let addressed: Vec<_> = process.samples.iter().filter(|sample| block.contains(&sample.head.address)).collect();
    assert!(addressed.len() * 10 > process.samples.len() * 8, "{} of {}", addressed.len(), process.samples.len());
    let mut steps = 0;
    for sample in &addressed {
        assert!(sample.head.quality <= Quality::NextInstance as u8);
        assert!(sample.frames.len() >= 2, "main and what called it");
        // `sum += node->value; node = node->next` steps through the nodes in a known order.
        let nodes: Vec<u64> = sample
            .accesses
            .iter()
            .filter(|access| block.contains(&access.address()) && (access.address() - block.start) % 64 == 0)
            .map(|access| (access.address() - block.start) / 64)
            .collect();
        for pair in nodes.windows(2) {
            assert_eq!(pair[1], (pair[0] * 7919 + 13) % (1 << 14));
            steps += 1;
        }
    }
    assert!(steps > 10 * addressed.len(), "{steps}");
    assert!(process.maps.contains("/spin\n") && process.maps.contains("[stack]"));
}

#[test]
fn the_targets_own_signals_are_what_they_were() {
    let target = Target::compile("signals");
    for trigger in BOTH {
        // SIGTRAP, an ordinary real-time signal, and the two that the agent takes from the top.
        for signal in ["5", "40", "64", "63"] {
            let run = same(&target, &[signal], trigger);
            let main = run.processes.iter().find(|process| process.state == ProcessState::Exited as u32);
            assert!(main.is_some_and(|main| !main.samples.is_empty()), "signal {signal}");
        }
    }
}

#[test]
fn a_program_that_closes_everything_is_sampled_on() {
    let target = Target::compile("closer");
    for trigger in BOTH {
        let run = same(&target, &[], trigger);
        let process = &run.processes[0];
        weighs_no_more_than_its_time(process);
    }
}

#[test]
fn children_have_files_of_their_own() {
    let target = Target::compile("forks");
    for trigger in BOTH {
        let run = same(&target, &[], trigger);
        // The parent; fork, the two of fork of fork; vfork, posix_spawn; the shell and the command of `system`. Raw
        // forks are not followed, and must write nothing into their parent's file (`broken` is checked). A shell may
        // be replaced by its command: then both have the same process id and a file each.
        let with_samples = run.processes.iter().filter(|process| !process.samples.is_empty()).count();
        let samples: Vec<usize> = run.processes.iter().map(|process| process.samples.len()).collect();
        assert!(with_samples >= 6, "samples of each: {samples:?}");
        for process in &run.processes {
            assert!(process.samples.iter().all(|sample| process.begun.contains(&sample.tid)));
        }
    }
}

#[test]
fn threads_may_end_in_any_way_and_slots_are_used_again() {
    let target = Target::compile("lifetimes");
    for trigger in BOTH {
        let run = same(&target, &[], trigger);
        let process = &run.processes[0];
        assert_eq!(process.ended.len(), process.begun.len());
        assert!(process.begun.len() + process.threads_without_ring as usize >= 2506, "{}", process.begun.len());
        assert!(process.slots_used < 2048, "slots are used again: {}", process.slots_used);
    }
}

#[test]
fn a_killed_process_leaves_whole_messages() {
    let target = Target::compile("spin");
    let mut command = target.command(&["2", "100000000"]);
    let run = run::killed_after_samples(&mut command, run::config(TriggerKind::PerfSigtrap), 300);
    let process = &run.processes[0];
    assert_eq!(process.broken, 0);
    assert!(process.samples.len() >= 300);
    assert_eq!(process.state, ProcessState::Running as u32);
}

#[test]
fn without_a_configuration_nothing_happens() {
    let target = Target::compile("signals");
    let expected = alone(target.command(&["5"]));
    let mut config = run::config(TriggerKind::PerfSigtrap);
    for spoil in [
        (|config: &mut slimline_trace::wire::RunConfig| config.version += 1) as fn(&mut _),
        |config| config.magic = 0,
        |config| (config.root_pid, config.follow_children) = (1, 0),
    ] {
        let good = config;
        spoil(&mut config);
        let run = recorded(target.command(&["5"]), config);
        assert_eq!(run.output.stdout, expected.stdout);
        assert!(run.processes.is_empty());
        config = good;
    }
    let mut command = target.command(&["5"]);
    command.env("LD_PRELOAD", run::agent()).env("SLIMLINE_RUN", "/nonexistent");
    assert_eq!(alone(command).stdout, expected.stdout);
    let mut command = target.command(&["5"]);
    command.env("LD_PRELOAD", run::agent());
    assert_eq!(alone(command).stdout, expected.stdout);
}

#[test]
fn programs_of_the_system_behave_as_alone() {
    let script = |text: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", text]).env("LC_ALL", "C");
        command
    };
    let commands = [
        "seq 200000 | sort -R --random-source=/bin/sh | sort -n --parallel=2 | md5sum",
        "seq 300000 | gzip -6 | gzip -dc | md5sum",
        "perl -e 'my %h; $h{$_ % 1000} .= $_ for 1..300000; print length(join \"\", %h), \"\\n\"; kill 0'",
        "sh -c 'kill -TRAP $$'; echo $?; (trap 'echo trapped' TRAP; kill -TRAP $$; true) | cat",
    ];
    for text in commands {
        let expected = alone(script(text));
        let run = recorded(script(text), run::config(TriggerKind::PerfSigtrap));
        assert_eq!(run.output.stdout, expected.stdout, "{text}");
        assert_eq!(run.output.stderr, expected.stderr, "{text}");
        assert_eq!(run.output.status, expected.status, "{text}");
        assert!(run.processes.iter().all(|process| process.broken == 0));
    }
}
