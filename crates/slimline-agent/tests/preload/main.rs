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
use run::{PERIOD_NS, Recorded, Target, alone, recorded};
use slimline_trace::wire::{BurstEnd, ProcessHeader, ProcessState, Quality, RangeEvent, RangeKind, TriggerKind};

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

/// What a loaded machine can't change: a sample weighs whole periods (none is of the second clock), and a thread's samples together no more than the
/// time that has gone by since it began. Time counted twice shows where the thread had a processor to itself. That ticks
/// are lost, as they are in a virtual machine, does not show here.
fn weighs_no_more_than_its_time(process: &reader::Process) {
    let mut weights: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for sample in &process.samples {
        assert!(sample.head.weight_ns.is_multiple_of(PERIOD_NS));
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

/// The second clock says where a thread is; only the first one's samples weigh and have bursts.
#[test]
fn a_second_clock_weighs_nothing() {
    let target = Target::compile("spin");
    for trigger in BOTH {
        let run = same(&target, &["1", "3000"], trigger);
        let process = &run.processes[0];
        weighs_no_more_than_its_time(process);
        let (second, first): (Vec<_>, Vec<_>) = process.samples.iter().partition(|sample| sample.head.weight_ns == 0);
        assert!(first.iter().any(|sample| sample.head.burst_end != BurstEnd::NotStarted as u8));
        assert!(first.iter().all(|sample| sample.head.cpu_ns > 0));
        assert_eq!(second.is_empty(), process.between_errno != 0, "{} of the second clock", second.len());
        for sample in second {
            assert_eq!((sample.head.burst_end, sample.head.burst_instructions), (BurstEnd::NotStarted as u8, 0));
            assert!(sample.accesses.is_empty() && sample.head.cpu_ns > 0);
            assert!(!sample.frames.is_empty());
        }
        let by_itself = slimline_trace::wire::RunConfig { between_ns: 0, ..run::config(trigger) };
        let alone = recorded(target.command(&["1", "300"]), by_itself);
        assert!(alone.processes[0].samples.iter().all(|sample| sample.head.weight_ns > 0));
    }
}

/// A child takes the next best trigger, by the signal that its parent took.
#[test]
fn a_child_whose_perf_is_refused_is_sampled_by_timers() {
    let target = Target::compile("refused");
    let run = same(&target, &[], TriggerKind::PerfSigtrap);
    let [one, other] = &run.processes[..] else { panic!("{} processes", run.processes.len()) };
    let child = if one.parent_pid == other.pid { one } else { other };
    assert_eq!((child.trigger, child.trigger_errno), (TriggerKind::ThreadTimer as u32, libc::EACCES as u32));
    assert_eq!(child.between_errno, libc::EACCES as u32);
    assert!(!child.samples.is_empty() && child.samples.iter().all(|sample| sample.head.weight_ns > 0));
}

/// An allocator's lock is held while a function of ours is called for the first time.
#[test]
fn a_program_may_allocate_before_the_agent_starts_and_wherever_it_likes() {
    let target = Target::compile("early");
    for trigger in BOTH {
        let run = same(&target, &[], trigger);
        assert!(run.processes.len() > 10, "its children by fork");
    }
}

#[test]
fn a_stack_may_be_guarded_in_its_middle() {
    let target = Target::compile_with("guarded.c", "cc", &["-O2"]);
    for trigger in BOTH {
        same(&target, &[], trigger);
    }
}

/// Faults come to the agent first where the program leaves them to the kernel.
#[test]
fn faults_of_the_program_are_what_they_were() {
    let target = Target::compile("faults");
    for trigger in BOTH {
        for way in ["none", "null", "overflow", "sent", "raised", "blocked", "file", "handled", "raw", "left"] {
            same(&target, &[way], trigger);
        }
    }
}

/// Without copies of its memory a program can't be sampled from inside: it runs, and that is told.
#[test]
fn where_the_kernel_copies_no_memory_nothing_is_sampled() {
    let (sandbox, target) = (Target::compile("sandbox"), Target::compile("spin"));
    let path = target.path().to_str().unwrap();
    let expected = alone(target.command(&["2", "200"]));
    let run = recorded(sandbox.command(&[path, "2", "200"]), run::config(TriggerKind::PerfSigtrap));
    assert_eq!((run.output.status, run.output.stdout), (expected.status, expected.stdout));
    let process =
        run.processes.iter().find(|process| process.state == ProcessState::Failed as u32).expect("that failed");
    assert!(process.failure.contains("process_vm_readv"), "{}", process.failure);
    assert!(process.samples.is_empty());
}

#[test]
fn samples_carry_the_address_the_stack_and_an_exact_burst() {
    let target = Target::compile("spin");
    let run = same(&target, &["1", "1000"], TriggerKind::PerfSigtrap);
    let process = &run.processes[0];
    let is_storage = |event: &&RangeEvent| event.kind >= RangeKind::ThreadLocal as u32;
    let (storage, blocks): (Vec<&RangeEvent>, Vec<&RangeEvent>) = process.ranges.iter().partition(is_storage);
    assert_eq!(blocks.len(), 2, "one large block, allocated and freed");
    let (gone, told) = storage.split_last().unwrap();
    assert_eq!(gone.kind, RangeKind::ThreadLocalGone as u32);
    let lies_in = |event: &&&RangeEvent| gone.base <= event.base && event.base + event.bytes <= gone.base + gone.bytes;
    // At least the C library's, the agent's, and the control block.
    assert!(told.len() >= 3 && told.iter().filter(lies_in).count() == told.len(), "{storage:x?}");
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
fn a_system_call_is_restarted_as_the_handler_asks() {
    let target = Target::compile("restart");
    for trigger in BOTH {
        for signal in ["5", "64"] {
            let run = same(&target, &[signal], trigger);
            assert_eq!(run.output.stdout, b"Interrupted system call\nrestarted\n");
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

/// A trigger's frame would not fit on some of them.
#[test]
fn stacks_are_as_small_as_the_program_likes() {
    let target = Target::compile("alternate");
    for trigger in BOTH {
        let run = same(&target, &[], trigger);
        assert!(run.processes[0].samples.len() > 50, "{} samples", run.processes[0].samples.len());
    }
}

/// Some handlers interrupt the agent, which goes on in the child with what it held. Such a child is counted, not recorded.
#[test]
fn a_child_may_return_from_the_handler_that_forked() {
    let target = Target::compile("returning");
    let run = same(&target, &[], TriggerKind::ThreadTimer);
    let unrecorded: u32 = run.processes.iter().map(|process| process.children_unrecorded).sum();
    assert_eq!(run.processes.len() + unrecorded as usize, 201, "{unrecorded} counted");
    assert!(run.processes.len() > 20);
    assert_eq!(run.processes.iter().filter(|process| process.broken != 0).count(), 0);
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

/// What the target can write over is not what the agent goes by.
#[test]
fn a_child_of_a_program_that_scribbles_lives() {
    let target = Target::compile("scribble");
    let offset = std::mem::offset_of!(ProcessHeader, stack_words).to_string();
    for words in [u64::MAX, 1 << 26, 8 << 20] {
        let run = recorded(target.command(&[&offset, &words.to_string()]), run::config(TriggerKind::Off));
        assert_eq!(String::from_utf8_lossy(&run.output.stdout), "0x700\n", "{words:#x}");
    }
}

/// A program with more rights than its caller that is linked to the agent takes no orders from the caller's environment.
#[test]
fn nothing_of_the_environment_is_read_in_secure_mode() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(directory.path(), 0o755);
    let library = directory.path().join("libagent.so");
    std::fs::copy(run::agent(), &library).unwrap();
    let (link, search) = (library.to_str().unwrap(), format!("-Wl,-rpath,{}", directory.path().display()));
    let program = directory.path().join("secure");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/preload/targets/secure.c");
    let mut compile = Command::new("cc");
    compile.args(["-Wl,--no-as-needed", source, link, &search, "-o"]).arg(&program);
    assert!(compile.status().unwrap().success());
    let rings = |is_secure: bool| {
        let run_directory = directory.path().join(if is_secure { "secure-run" } else { "run" });
        std::fs::create_dir(&run_directory).unwrap();
        mode(&run_directory, 0o777);
        run::write_config(&run_directory, &run::config(TriggerKind::Off));
        let output = alone({
            let mut command = Command::new(&program);
            command.env("SLIMLINE_RUN", &run_directory);
            command
        });
        let rings = std::fs::read_dir(&run_directory)
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "ring"));
        (String::from_utf8_lossy(&output.stdout).into_owned(), rings.count())
    };
    assert_eq!(rings(false), ("0\n".to_owned(), 1), "linked, it records as when it is preloaded");
    // Somebody else's, with the right to be him.
    if std::os::unix::fs::chown(&program, Some(65_534), Some(65_534)).is_err() {
        eprintln!("skipped: not root, so no program of somebody else's");
        return;
    }
    mode(&program, 0o4755);
    let (mode, rings) = rings(true);
    if mode == "0\n" {
        eprintln!("skipped: set-user-id means nothing on this mount");
        return;
    }
    assert_eq!((mode.as_str(), rings), ("1\n", 0));
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
