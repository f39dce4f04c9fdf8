//! What the agent costs: CPU time of two kernels alone, with an idle agent, sampled, and sampled with bursts.
//!
//! Runs are interleaved, so that a busy machine slows all alike, and ratios are formed within a round. Says what part
//! is the handler's own (its counter in the process file); the rest is the kernel's: interrupt, signal, return.
//!
//! `cargo bench -p slimline-agent --bench overhead -- [rounds] [program arguments...]`; without a program, two kernels.

mod measure;
#[allow(dead_code)] // the tests use all of it
#[path = "../tests/preload/reader.rs"]
mod reader;
#[allow(dead_code)]
#[path = "../tests/preload/run.rs"]
mod run;

use std::process::Command;

use measure::{children_cpu_seconds, median};
use run::Target;
use slimline_trace::wire::{RunConfig, TriggerKind};

/// One way to run a kernel, with what was measured in each round.
struct Way {
    name: &'static str,
    burst_instructions: Option<u32>,
    seconds: Vec<f64>,
}

fn main() {
    // Cargo adds an option of its own.
    let mut given = std::env::args().skip(1).filter(|argument| argument != "--bench").peekable();
    let rounds = given.next_if(|argument| argument.parse::<usize>().is_ok());
    let rounds = rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(7);
    let program: Vec<String> = given.collect();
    if let [path, arguments @ ..] = &program[..] {
        let command = || {
            let mut command = Command::new(path);
            command.args(arguments);
            command
        };
        return measure(path, rounds, command);
    }
    for (name, arguments) in [("spin", &["1", "5000"][..]), ("integer", &["250000000"])] {
        let target = Target::compile(name);
        measure(name, rounds, || target.command(arguments));
    }
}

fn measure(name: &str, rounds: usize, command: impl Fn() -> Command) {
    let way = |name, burst_instructions| Way { name, burst_instructions, seconds: Vec::new() };
    let mut ways = [
        way("alone", None),
        way("alone again", None),
        way("sampled", Some(0)),
        way("sampled, with bursts", Some(run::config(TriggerKind::PerfSigtrap).burst_instructions)),
    ];
    let mut handler_ns = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        for (way, handler_ns) in ways.iter_mut().zip(&mut handler_ns) {
            let before = children_cpu_seconds();
            match way.burst_instructions {
                None => drop(run::alone(command())),
                Some(burst_instructions) => {
                    let config = RunConfig { burst_instructions, ..run::config(TriggerKind::PerfSigtrap) };
                    let run = run::recorded(command(), config);
                    let process = &run.processes[0];
                    handler_ns.push(process.sampling_ns as f64 / process.samples.len().max(1) as f64);
                }
            }
            way.seconds.push(children_cpu_seconds() - before);
        }
    }
    println!("{name}: {:.3} s of CPU time alone, {rounds} rounds", median(ways[0].seconds.clone()));
    let alone = ways[0].seconds.clone();
    for (way, handler_ns) in ways.iter().zip(handler_ns).skip(1) {
        let ratios = way.seconds.iter().zip(&alone).map(|(with, without)| with / without).collect();
        let own = if handler_ns.is_empty() { 0.0 } else { median(handler_ns) };
        println!("  {:<24} {:.4} of it; handler {:.1} µs a sample", way.name, median(ratios), own / 1000.0);
    }
}
