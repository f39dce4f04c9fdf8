//! What tracking allocations costs: one `malloc(64)` and `free`, and whole programs, alone, with an idle agent, and
//! tracked without triggers.
//!
//! Runs are interleaved. Pairs: the best of many short stretches of each run, and of all rounds. Programs: CPU time, the
//! median of the ratios within a round.
//!
//! `cargo bench -p slimline-agent --bench allocation -- [rounds] [pairs] [hooked] [programs]`

mod measure;
#[allow(dead_code)] // the tests use all of it
#[path = "../tests/preload/reader.rs"]
mod reader;
#[allow(dead_code)]
#[path = "../tests/preload/run.rs"]
mod run;

use std::process::{Command, Output};

use measure::{children_cpu_seconds, median};
use run::Target;
use slimline_trace::wire::{AllocatorFunction, AllocatorRole, RunConfig, TriggerKind};

#[derive(Clone, Copy)]
enum Way {
    Alone,
    /// Preloaded, with nothing to record.
    Idle,
    Tracked,
}

const WAYS: [Way; 3] = [Way::Alone, Way::Idle, Way::Tracked];

/// What a run printed, and how many allocations were seen.
fn run_it(mut command: Command, way: Way) -> (Output, u64) {
    match way {
        Way::Alone => (run::alone(command), 0),
        Way::Idle => {
            command.env("LD_PRELOAD", run::agent());
            (run::alone(command), 0)
        }
        Way::Tracked => {
            let run = run::recorded(command, run::config(TriggerKind::Off));
            let allocations = run.processes.iter().map(|process| process.allocations).sum();
            (run.output, allocations)
        }
    }
}

fn pairs(rounds: usize) {
    let target = Target::compile_with("pairs.c", "cc", &["-O2", "-fomit-frame-pointer", "-fno-builtin"]);
    println!("ns a malloc(64) and free      alone    idle   (more)  tracked   (more)");
    for arguments in [["same", "1"], ["same", "6"], ["same", "12"], ["same", "24"], ["varied", "3"], ["varied", "5"]] {
        let mut best = [f64::MAX; 3];
        for _ in 0..rounds {
            for (way, best) in WAYS.into_iter().zip(&mut best) {
                let (output, _) = run_it(target.command(&arguments), way);
                let printed: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
                *best = best.min(printed);
            }
        }
        let [alone, idle, tracked] = best;
        let (more_idle, more) = (idle - alone, tracked - alone);
        let name =
            format!("{} path{}, {} deep", arguments[0], if arguments[0] == "same" { "" } else { "s" }, arguments[1]);
        println!("  {name:<24} {alone:>8.2} {idle:>7.2} {more_idle:>8.2} {tracked:>8.2} {more:>8.2}");
    }
}

/// A pair of an allocator of the program's own, whose functions' entries are changed.
fn hooked_pairs(rounds: usize) {
    let flags = ["-O2", "-fomit-frame-pointer", "-fno-builtin", "-DOWN_ALLOCATOR"];
    let target = Target::compile_with("pairs.c", "cc", &flags);
    let functions = [function("take", AllocatorRole::Allocate, 1, 0), function("give", AllocatorRole::Free, 0, 1)];
    let all = run::config(TriggerKind::Off);
    let ways = [(all, &[][..]), (all, &functions), (RunConfig { budget_ppm: 10_000, ..all }, &functions)];
    println!("ns a pair of its own         unhooked  followed   (more)  budget 1 %   (more)");
    for depth in ["1", "12"] {
        let mut best = [f64::MAX; 3];
        for _ in 0..rounds {
            for ((config, functions), best) in ways.iter().zip(&mut best) {
                let run = run::recorded_with(target.command(&["same", depth]), *config, functions);
                let printed: f64 = String::from_utf8_lossy(&run.output.stdout).trim().parse().expect("a number");
                *best = best.min(printed);
            }
        }
        let [unhooked, followed, budgeted] = best;
        let (all, some) = (followed - unhooked, budgeted - unhooked);
        println!("  {depth:>2} deep {unhooked:>26.2} {followed:>9.2} {all:>8.2} {budgeted:>11.2} {some:>8.2}");
    }
}

fn function(name: &str, role: AllocatorRole, size: u8, block: u8) -> AllocatorFunction {
    let mut padded = [0; 496];
    padded[..name.len()].copy_from_slice(name.as_bytes());
    AllocatorFunction {
        name: padded,
        module: [0; 240],
        role: role as u32,
        is_inner: 1,
        needs_own_malloc: 0,
        size,
        count: 0,
        block,
        place: 0,
        pool: 0,
        reserved: [0; 3],
        unit_bytes: 1,
        padding: [0; 2],
    }
}

fn programs(rounds: usize) {
    let sql = "create table t(a integer primary key, b text, c text); \
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000) \
        insert into t select i, 'x' || i, hex(i * 7919) from n; create index x on t(c); \
        select substr(b, 1, 3), count(*) from t group by 1 order by 2 desc limit 5;";
    let perl = "my %h; for my $r (1 .. 6) { my @a; push @a, {x => $_, y => qq(s$_), z => [$_, $_ + 1]} for 1 .. 60000; \
        $h{$_->{y}} .= $_->{x} for @a; } print scalar(keys %h), qq(\\n)";
    let python = "import json\nd = [{'a': i, 'b': str(i) * 3, 'c': [i] * 8} for i in range(100000)]\n\
        print(len(json.loads(json.dumps(d))))";
    let source = tempfile::Builder::new().suffix(".cc").tempfile().expect("a place for temporary files");
    let text = "#include <map>\n#include <regex>\n#include <algorithm>\nint main() { std::map<std::string, int> m; \
        std::regex r(\"a(b|c)*d\"); return m[\"x\"] + std::regex_match(\"abcd\", r); }\n";
    std::fs::write(source.path(), text).expect("room for a small file");
    let path = source.path().to_str().expect("a UTF-8 path");
    let all_by_malloc: &[(&str, &str)] = &[("PYTHONMALLOC", "malloc")];
    let programs = [
        ("perl", &["perl", "-e", perl][..], &[][..]),
        ("python3", &["/usr/bin/python3", "-c", python], &[]),
        ("python3, all by malloc", &["/usr/bin/python3", "-c", python], all_by_malloc),
        ("sqlite3", &["sqlite3", ":memory:", sql], &[]),
        ("g++ -O2 (cc1plus)", &["g++", "-O2", "-S", "-o", "/dev/null", path], &[]),
    ];
    println!("CPU time                      alone s    idle  tracked   allocations    ns each");
    for (name, words, environment) in programs {
        let (program, arguments) = words.split_first().expect("a program");
        let (mut seconds, mut allocations) = ([Vec::new(), Vec::new(), Vec::new()], 0);
        for _ in 0..rounds {
            for (way, seconds) in WAYS.into_iter().zip(&mut seconds) {
                let mut command = Command::new(program);
                command.args(arguments).envs(environment.iter().copied());
                let before = children_cpu_seconds();
                let (output, seen) = run_it(command, way);
                seconds.push(children_cpu_seconds() - before);
                assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
                allocations = allocations.max(seen);
            }
        }
        let ratio =
            |way: usize| median(seconds[way].iter().zip(&seconds[0]).map(|(with, alone)| with / alone).collect());
        let alone = median(seconds[0].clone());
        let each_ns = alone * (ratio(2) - 1.0) * 1e9 / allocations.max(1) as f64;
        let (idle, tracked) = (ratio(1), ratio(2));
        println!("  {name:<24} {alone:>10.3} {idle:>7.3} {tracked:>8.3} {allocations:>13} {each_ns:>10.1}");
    }
}

/// What can be measured by itself, by its name.
type Part = (&'static str, fn(usize));

fn main() {
    let rounds = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(5);
    let parts: [Part; 3] = [("pairs", pairs), ("hooked", hooked_pairs), ("programs", programs)];
    let is_named = |name: &str| std::env::args().any(|argument| argument == name);
    let is_any_named = parts.iter().any(|(name, _)| is_named(name));
    for (name, run) in parts {
        if !is_any_named || is_named(name) {
            run(rounds);
        }
    }
}
