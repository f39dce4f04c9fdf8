//! Allocations: each with the path that led to it, and the allocation functions as they are without the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::reader::{Process, Sample};
use crate::run::{self, Target, alone, recorded};
use crate::same;
use slimline_trace::wire::{
    ALWAYS_FOLLOWED_BYTES, AccessRecord, BlockRecord, BurstEnd, LARGE_BLOCK_BYTES, MAX_BURST, MAX_SAMPLE_BLOCKS,
    NO_BLOCK, Quality, RangeKind, RunConfig, TriggerKind,
};

/// A return address, and where its function begins.
#[derive(Clone, Copy)]
struct Frame {
    ip: u64,
    function: u64,
}

/// What a target says of one allocation: the block and the return addresses from the allocating function outwards.
struct Told {
    block: u64,
    path: Vec<Frame>,
}

fn told(output: &[u8]) -> BTreeMap<u32, Vec<Told>> {
    let mut threads = BTreeMap::<u32, Vec<Told>>::new();
    for line in std::str::from_utf8(output).unwrap().lines() {
        let mut words = line.split(' ');
        let thread = words.next().unwrap().parse().unwrap();
        let words: Vec<u64> = words.map(|word| u64::from_str_radix(word, 16).unwrap()).collect();
        let (&block, path) = words.split_first().unwrap();
        let path = path.chunks_exact(2).map(|pair| Frame { ip: pair[0], function: pair[1] }).collect();
        threads.entry(thread).or_default().push(Told { block, path });
    }
    threads
}

/// After the innermost frame of each function what called its outermost one.
fn folded(path: &[Frame]) -> Vec<u64> {
    let (mut kept, mut next) = (Vec::new(), 0);
    while let Some(frame) = path.get(next) {
        kept.push(frame.ip);
        next = path.iter().rposition(|other| other.function == frame.function).unwrap() + 1;
    }
    kept
}

/// The target's own unwinder found `expected`, first the allocating function itself. The agent's path begins further in,
/// with the return addresses of the allocation functions' callers, and goes as far out as it keeps or looks.
fn check_path(found: &(Vec<u64>, u8), expected: &[Frame]) {
    let (frames, cut) = found;
    // In the allocating function both stand at different calls; from its caller on they must be the same.
    let begin = frames.iter().position(|frame| *frame == expected[1].ip).expect("the allocating function's caller");
    assert!((1..=6).contains(&begin), "{begin} frames inside the allocating function");
    // The C library's unwinder names the start of the thread once more, by a null address.
    let expected: Vec<Frame> = expected.iter().copied().filter(|frame| frame.ip != 0).collect();
    let whole = folded(&expected);
    let frames = &frames[begin..];
    match cut {
        0 => assert!(frames.starts_with(&whole[1..]), "{frames:x?} of {whole:x?}"),
        1 => {
            // As many of the stack's frames as were looked at, from the allocating function on.
            let looked_at = (1..=expected.len()).rev().find(|count| folded(&expected[..*count])[1..] == *frames);
            let looked_at = looked_at.unwrap_or_else(|| panic!("{frames:x?} of {whole:x?}"));
            let is_full = begin + frames.len() == MAX_KEPT;
            assert!(is_full || begin - 1 + looked_at >= MAX_WALKED, "{is_full} {begin} {looked_at}");
        }
        cut => panic!("cut by {cut}: {frames:x?} of {whole:x?}"),
    }
}

/// Most frames of a path, and most that the agent looks at.
const MAX_KEPT: usize = 16;
const MAX_WALKED: usize = 24;

fn check_paths(target: &Target, threads: usize) {
    let run = recorded(target.command(&[]), run::config(TriggerKind::Off));
    assert!(run.output.status.success());
    let [process] = &run.processes[..] else { panic!("{} processes", run.processes.len()) };
    assert_eq!((process.dropped, process.broken), (0, 0));
    let told = told(&run.output.stdout);
    assert_eq!(told.len(), threads);
    for (thread, told) in &told {
        let allocated: Vec<_> = of_thread(process, *thread, RangeKind::Allocated);
        assert_eq!(allocated.len(), told.len());
        assert_eq!(of_thread(process, *thread, RangeKind::Freed).len(), told.len());
        for ((block, stack), told) in allocated.iter().zip(told) {
            assert_eq!(*block, told.block);
            check_path(&process.stacks[*stack as usize - 1], &told.path);
        }
    }
    let distinct: BTreeSet<_> = process.stacks.iter().collect();
    assert_eq!(distinct.len(), process.stacks.len(), "each path once");
}

fn of_thread(process: &Process, thread: u32, kind: RangeKind) -> Vec<(u64, u32)> {
    let rows = process.ranges.iter().zip(&process.range_threads);
    // What the target's start-up maps comes before and is none of its own blocks.
    rows.filter(|(event, told_by)| event.kind == kind as u32 && **told_by == thread)
        .map(|(event, _)| (event.base, event.stack))
        .collect()
}

#[test]
fn paths_are_right_however_frames_are_laid_out() {
    let variants: [&[&str]; 6] = [
        &["-O0"],
        &["-O1", "-fno-omit-frame-pointer"],
        &["-O2", "-fomit-frame-pointer"],
        &["-O2", "-fno-omit-frame-pointer", "-fcf-protection=full"],
        &["-O3", "-fno-plt", "-fomit-frame-pointer"],
        &["-Os", "-no-pie"],
    ];
    for flags in variants {
        let flags = [&["-pthread"], flags].concat();
        check_paths(&Target::compile_with("callpaths.c", "cc", &flags), 3);
    }
}

#[test]
fn paths_are_right_through_cpp() {
    for flags in [&["-O2"][..], &["-O2", "-static-libstdc++", "-static-libgcc"], &["-O0"]] {
        check_paths(&Target::compile_with("callpaths.cpp", "c++", flags), 1);
    }
}

#[test]
fn paths_are_right_through_rust() {
    for flags in [["--edition=2024", "-O"], ["--edition=2024", "-Cforce-frame-pointers=yes"]] {
        check_paths(&Target::compile_with("callpaths.rs", "rustc", &flags), 3);
    }
}

/// As [`same`], with another library preloaded below the agent.
fn same_above(below: &Path, target: &Target) -> Process {
    let command = || {
        let mut command = target.command(&[]);
        command.env("LD_PRELOAD", below);
        command
    };
    let expected = alone(command());
    let mut run = recorded(command(), run::config(TriggerKind::PerfSigtrap));
    assert_eq!(String::from_utf8_lossy(&run.output.stdout), String::from_utf8_lossy(&expected.stdout));
    assert_eq!(run.output.status, expected.status);
    assert!(expected.status.success());
    run.processes.remove(0)
}

fn semantics() -> Target {
    Target::compile_with("semantics.c", "cc", &["-O1", "-fno-builtin", "-w"])
}

#[test]
fn edges_answer_as_without_the_agent() {
    same(&semantics(), &[], TriggerKind::Off);
}

#[test]
fn another_preloaded_allocator_stays_the_allocator() {
    let below = Target::compile_with("below.c", "cc", &["-O1", "-shared", "-fPIC", "-fno-builtin"]);
    let process = same_above(below.path(), &semantics());
    assert!(process.allocations > 100);
    // Its blocks lie at multiples of 8; C++ comes through `malloc` here.
    same_above(below.path(), &Target::compile("hand_over"));
    let mut command = Target::compile_with("callpaths.cpp", "c++", &["-O2"]);
    check_above(below.path(), &mut command);
}

#[test]
fn jemalloc_below_is_seen_through_its_own_operators() {
    let path = Path::new("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2");
    assert!(path.exists(), "the package libjemalloc2 is needed: `cargo xtask test` installs it");
    same_above(path, &semantics());
    same_above(path, &Target::compile("hand_over"));
    check_above(path, &mut Target::compile_with("callpaths.cpp", "c++", &["-O2"]));
}

/// That a program which passes most blocks over does what it does alone.
fn passes_over_as_alone(command: impl Fn() -> Command) {
    let expected = alone(command());
    let run = recorded(command(), RunConfig { budget_ppm: 1, ..run::config(TriggerKind::Off) });
    assert_eq!(run.output.stdout, expected.stdout);
    assert_eq!(run.output.status, expected.status);
    assert!(expected.status.success());
}

#[test]
fn plain_operators_of_the_program_are_called_by_the_librarys_others() {
    for target in ["operators.cpp", "replaced.cpp"] {
        let target = Target::compile_with(target, "c++", &["-O1"]);
        passes_over_as_alone(|| target.command(&[]));
    }
}

#[test]
fn plain_operators_of_a_library_are_called_by_the_librarys_others() {
    let below = Target::compile_with("plain_operators.cpp", "c++", &["-O1", "-shared", "-fPIC"]);
    let target = Target::compile_with("operators.cpp", "c++", &["-O1"]);
    passes_over_as_alone(|| {
        let mut command = target.command(&[]);
        command.env("LD_PRELOAD", below.path());
        command
    });
}

#[test]
fn operators_come_down_to_the_malloc_of_the_program() {
    let target = Target::compile_with("own_malloc.cpp", "c++", &["-O1", "-fno-builtin"]);
    passes_over_as_alone(|| target.command(&[]));
}

/// Large blocks of a C++ program are told with their paths whichever allocator serves them.
fn check_above(below: &Path, target: &mut Target) {
    let mut command = target.command(&[]);
    command.env("LD_PRELOAD", below);
    let run = recorded(command, run::config(TriggerKind::Off));
    let process = &run.processes[0];
    let told = told(&run.output.stdout);
    let (thread, told) = told.iter().next().unwrap();
    let allocated = of_thread(process, *thread, RangeKind::Allocated);
    // The first of each operator comes while it is looked for.
    let mut allocated = allocated.iter();
    let seen = told.iter().filter(|told| {
        let found = allocated.clone().position(|(block, _)| *block == told.block);
        found.is_some_and(|index| {
            let (_, stack) = allocated.nth(index).unwrap();
            check_path(&process.stacks[*stack as usize - 1], &told.path);
            true
        })
    });
    assert!(seen.count() >= told.len() - 2);
}

#[test]
fn blocks_of_samples_carry_their_path_also_in_a_child() {
    let target = Target::compile("hand_over");
    let run = same(&target, &[], TriggerKind::PerfSigtrap);
    let bytes: u32 = String::from_utf8_lossy(&run.output.stdout).split(' ').next().unwrap().parse().unwrap();
    let mut paths = Vec::new();
    // Parent and last child walk over nodes; each names the path by a row of its own file.
    for process in &run.processes {
        let nodes = process.samples.iter().filter_map(|sample| {
            let block = sample.blocks.get(usize::from(sample.head.block)).filter(|_| sample.head.block != NO_BLOCK)?;
            (block.bytes() == bytes).then_some((sample, block))
        });
        let rows: BTreeSet<u32> = nodes.clone().map(|(_, block)| block.stack).collect();
        if nodes.clone().count() > 30 {
            assert_eq!(rows.len(), 1, "all nodes come from one line");
            paths.push(process.stacks[*rows.first().unwrap() as usize - 1].clone());
        }
        for (sample, block) in nodes {
            assert!(sample.head.address >= block.base && sample.head.address < block.base + u64::from(bytes));
        }
    }
    assert_eq!(paths.len(), 2, "parent and child");
    assert_eq!(paths[0], paths[1]);
    assert!(paths[0].0.len() >= 2);
}

/// A burst that fills all rows leaves the blamed access its own.
#[test]
fn the_blamed_block_has_a_row_however_many_a_burst_touches() {
    let target = Target::compile("many_blocks");
    let config = RunConfig { burst_instructions: MAX_BURST as u32, ..run::config(TriggerKind::PerfSigtrap) };
    let run = recorded(target.command(&[]), config);
    let bytes: u32 = String::from_utf8_lossy(&run.output.stdout).split(' ').next().unwrap().parse().unwrap();
    let mut seen = 0;
    for sample in &run.processes[0].samples {
        let is_known = [Quality::Exact as u8, Quality::Inverted as u8].contains(&sample.head.quality);
        if sample.head.burst_end != BurstEnd::Full as u8 || !is_known || sample.blocks.len() < MAX_SAMPLE_BLOCKS {
            continue;
        }
        // What the same instruction accesses in the burst are values; so is what is blamed.
        let own = |access: &&AccessRecord| access.ip() == sample.head.ip && access.block() != NO_BLOCK;
        let is_value = |access: &AccessRecord| sample.blocks[usize::from(access.block())].bytes() == bytes;
        if sample.accesses.iter().find(own).is_some_and(is_value) {
            assert_ne!(sample.head.block, NO_BLOCK);
            assert_eq!(sample.blocks[usize::from(sample.head.block)].bytes(), bytes);
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} of {}", run.processes[0].samples.len());
}

#[test]
fn within_a_budget_some_blocks_are_followed_and_the_others_are_told() {
    let target = Target::compile_with("churn.c", "cc", &["-O1"]);
    // Next to nothing: three million allocations take more, however fast the machine is.
    let config = RunConfig { budget_ppm: 1, burst_instructions: 64, ..run::config(TriggerKind::PerfSigtrap) };
    let run = recorded(target.command(&[]), config);
    let printed = String::from_utf8_lossy(&run.output.stdout).into_owned();
    let words: Vec<u64> = printed.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [allocations, _, small, large, shrunk] = words[..] else { panic!("{printed}") };
    let [process] = &run.processes[..] else { panic!("{} processes", run.processes.len()) };
    // The C library allocates a little of its own.
    assert!((allocations..allocations + 10).contains(&process.allocations), "{}", process.allocations);
    assert!(process.follow_shift >= 2, "one in 2^{}", process.follow_shift);
    assert!(process.allocations_followed < allocations / 2, "{}", process.allocations_followed);

    // At least 400 are counted: off by a twentieth, mostly.
    let is_small = |[_, blocks, bytes]: &&[u64; 3]| *bytes == blocks * small;
    let [_, blocks, _] = process.totals.iter().filter(is_small).max_by_key(|row| row[1]).expect("one call path");
    assert!((50_000..200_000).contains(blocks), "{blocks}");
    // Of those that were allocated and freed at once 16384 live at a time.
    let is_mixed = |[_, blocks, bytes]: &&[u64; 3]| *blocks > 500 && bytes / blocks > 100 && bytes / blocks < 200;
    let [counted, blocks, _] =
        process.totals.iter().find(is_mixed).unwrap_or_else(|| panic!("no such path: {:?}", process.totals));
    assert!((4000..64_000).contains(blocks) && *counted > 4000, "{blocks} {counted}");

    let (mut followed, mut not_followed, mut bounded, mut large_ones) = (0, 0, 0, 0);
    for sample in &process.samples {
        let blocks = sample.accesses.iter().map(|access| (access.address(), access.block()));
        for (address, row) in blocks.chain([(sample.head.address, sample.head.block)]) {
            let Some(block) = sample.blocks.get(usize::from(row)) else { continue };
            let is_unbounded = *block == BlockRecord::NOT_FOLLOWED;
            assert!(is_unbounded || address >= block.base && address - block.base < u64::from(block.bytes()));
            if !block.is_followed() {
                not_followed += 1;
                // What the C library makes of a request for 48 bytes, and of others.
                let is_chunk = block.bytes() % 16 == 8;
                assert!(is_unbounded || is_chunk && block.stack == 0, "{block:?}");
                bounded += u64::from(!is_unbounded);
                continue;
            }
            assert_ne!(block.stack, 0);
            assert_ne!(u64::from(block.bytes()), shrunk, "shrunk long before it was walked over");
            followed += u64::from(u64::from(block.bytes()) == small);
            large_ones += u64::from(u64::from(block.bytes()) == large);
        }
    }
    assert!(not_followed > 0 && large_ones > 0, "{not_followed} {large_ones}");
    // Not the first ones, before it is clear that the allocator keeps tags.
    assert!(bounded * 2 > not_followed, "{bounded} of {not_followed}");
    // Of so few followed ones samples may meet none; what they meet of them says how many there are.
    let expected = not_followed >> process.follow_shift;
    assert!(followed <= 16 * (expected + 1), "{followed} followed, {not_followed} not");
}

#[test]
fn blocks_of_a_size_that_costs_too_much_are_passed_over_too() {
    let target = Target::compile_with("churn.c", "cc", &["-O1"]);
    let config = RunConfig { budget_ppm: 1, burst_instructions: 64, ..run::config(TriggerKind::PerfSigtrap) };
    let run = recorded(target.command(&["1101"]), config);
    let printed = String::from_utf8_lossy(&run.output.stdout).into_owned();
    let large: u64 = printed.split_whitespace().nth(3).and_then(|word| word.parse().ok()).expect("a size");
    let [process] = &run.processes[..] else { panic!("{} processes", run.processes.len()) };
    // Those that count does not choose are more than half of them once it chooses one in four.
    assert!(
        process.follow_shift >= 1 && process.followed_bytes >= 2 * ALWAYS_FOLLOWED_BYTES,
        "{} {}",
        process.follow_shift,
        process.followed_bytes
    );
    assert!(process.allocations_followed < process.allocations * 3 / 4, "{}", process.allocations_followed);
    assert!(large < process.followed_bytes);
    // At most half of each of three equal walks is followed.
    let of_access = |sample: &Sample, block: u16| sample.blocks.get(usize::from(block)).copied();
    let accesses = process
        .samples
        .iter()
        .flat_map(|sample| sample.accesses.iter().filter_map(move |access| of_access(sample, access.block())));
    let (mut not_followed, mut followed) = (0, 0);
    for block in accesses {
        not_followed += u32::from(!block.is_followed());
        followed += u32::from(block.is_followed() && u64::from(block.bytes()) == large);
    }
    assert!(not_followed > followed, "{not_followed} {followed}");
}

#[test]
fn programs_of_the_system_allocate_as_alone() {
    let script = "create table t(a integer primary key, b text); \
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 30000) \
        insert into t select i, hex(i * 7919) from n; create index x on t(b); \
        select count(*), max(b) from t; select substr(b, 1, 2), count(*) from t group by 1;";
    let programs: [&[&str]; 4] = [
        &["sqlite3", ":memory:", script],
        &["perl", "-e", "my %h; push @{$h{$_ % 997}}, {n => $_, s => \"x$_\"} for 1..50000; print scalar(%h), qq(\\n)"],
        &["python3", "-c", "import json; d = [{'a': [i] * 5} for i in range(20000)]; print(len(json.dumps(d)))"],
        &["sort", "--parallel=2", "-k2", "/etc/services"],
    ];
    for words in programs {
        let (program, arguments) = words.split_first().unwrap();
        let command = || {
            let mut command = Command::new(program);
            command.args(arguments).env("PYTHONMALLOC", "malloc").env("LC_ALL", "C");
            command
        };
        let expected = alone(command());
        assert!(expected.status.success(), "{program}: {}", String::from_utf8_lossy(&expected.stderr));
        let run = recorded(command(), run::config(TriggerKind::PerfSigtrap));
        assert_eq!(run.output.stdout, expected.stdout, "{program}");
        assert_eq!(run.output.status, expected.status);
        let process = run.processes.iter().max_by_key(|process| process.allocations).unwrap();
        assert!(process.allocations > 0, "{program}");
        let whole = process.stacks.iter().filter(|(_, cut)| *cut <= 1).count();
        assert!(whole * 100 >= process.stacks.len() * 99, "{program}: {whole} of {} paths", process.stacks.len());
        assert!(process.ranges.iter().all(|event| {
            let is_block = event.kind == RangeKind::Allocated as u32;
            !is_block || event.bytes >= LARGE_BLOCK_BYTES
        }));
    }
}
