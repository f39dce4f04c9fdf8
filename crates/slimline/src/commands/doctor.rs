//! `slimline doctor`

use slimline_collect::{Availability, Capability, CommandDiagnosis, Diagnosis, Qemu};
use slimline_instrument::driver::{self, Language};
use slimline_instrument::gcc::{self, Compiler};
use slimline_instrument::llvm::Llvm;
use slimline_report::doctor::{self, Collector, Command, Fact};
use slimline_report::{followed_calls, unseen_calls};
use slimline_trace::session::FoundAllocator;

use super::{ReportPlace, record, show};
use crate::cli;
use crate::configuration::Configuration;
use crate::disk::check_whole;
use crate::foreseen_hooks::foresee;
use crate::inspect;

pub(crate) fn run(options: &cli::Doctor) -> anyhow::Result<u8> {
    let found = slimline_collect::doctor(options.command.first(), &record::calibration()?);
    let command = found.command.as_ref().map(command);
    check_whole()?;
    let sampling = found.capabilities.iter().map(collector);
    let collectors = sampling.chain([instrument(), instrument_by_gcc(), translate()]).collect();
    let view = doctor::Diagnosis::new(facts(&found), collectors, command);
    show(options.format, ReportPlace::Output, || doctor::json(&view), |out| doctor::write(out, &view))?;
    // As `record` would end: a program that is not there is bad input. One that is there can be looked at.
    let is_missing = found.command.as_ref().is_some_and(|command| command.program.is_none());
    Ok(if is_missing { crate::BAD_INPUT } else { 0 })
}

fn facts(found: &Diagnosis) -> Vec<Fact> {
    let machine = &found.machine;
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| facts.push(Fact { name: name.to_owned(), value });
    add("machine", format!("{}, {} logical CPUs", machine.cpu, machine.logical_cpus));
    add("kernel", format!("Linux {} {}", machine.kernel, machine.architecture));
    add("C library", found.libc.clone().unwrap_or_else(|| "not known".to_owned()));
    add(
        "perf_event_paranoid",
        found.perf_event_paranoid.map_or_else(|| "not readable".to_owned(), |level| level.to_string()),
    );
    add(
        "shared memory",
        match &found.run_directory {
            Ok((path, free)) => format!("{}, {} MiB free", path.display(), free >> 20),
            Err(error) => error.clone(),
        },
    );
    let skid = &found.skid;
    let measured = if skid.calibrated { "measured" } else { "assumed" };
    add("skid, instructions", format!("{}, {measured}: {}", skid.instructions, skid.note));
    let cost = match found.trigger_cost_ns {
        Some(cost_ns) => format!("{:.1} µs, measured", cost_ns as f64 / 1000.0),
        None => "not measured".to_owned(),
    };
    add("interrupt, CPU time", cost);
    if let Some((trigger, why)) = &found.trigger {
        add("default trigger", format!("{}: {why}", trigger.label()));
    }
    if let Some((hertz, why)) = &found.rate {
        add("default rate", format!("{hertz:.0} Hz: {why}"));
    }
    for limit in &found.limits {
        add(limit.command, limit.verdict.clone());
    }
    facts
}

fn command(found: &CommandDiagnosis) -> Command {
    let mut obstacle = found.obstacle.clone();
    let (mut facts, mut lacks) = match (&found.program, &found.runs) {
        (Some(program), Some(runs)) => inspect::inspect(program, runs, found.without_agent.as_deref()),
        _ => Default::default(),
    };
    if let Some(runs) = found.runs.as_ref().filter(|_| found.without_agent.is_none()) {
        let own = Configuration::here().and_then(|configuration| configuration.allocator_calls(Some(runs)));
        match own {
            Ok(own) => allocators(&foresee(runs, &own), &mut facts, &mut lacks),
            // As `record` would end.
            Err(error) => obstacle = Some(format!("{error:#}")),
        }
    }
    let program = found.program.as_ref().map(|path| path.display().to_string());
    Command { program, obstacle, facts, lacks }
}

/// Which functions of allocators would be followed, and why not the others.
fn allocators(found: &[FoundAllocator], facts: &mut Vec<Fact>, lacks: &mut Vec<String>) {
    if let Some(names) = followed_calls(found) {
        let value = format!("{names} are followed, beside the C library's");
        facts.push(Fact { name: "allocators".to_owned(), value });
    }
    let unseen = unseen_calls(found.iter());
    lacks.extend(unseen.into_iter().map(|(names, why)| format!("calls of {names} (of an allocator): {why}")));
}

/// Programs that clang compiles for traces.
fn instrument() -> Collector {
    let usable = driver::usable(Language::C).map_err(|error| error.to_string()).and_then(|(compiler, library)| {
        Llvm::load(&library).map_err(|error| error.to_string())?;
        Ok(format!("{}: every access of programs that slimline cc, c++ or cargo has compiled", compiler.display()))
    });
    tracing("instrument", usable)
}

/// The slower way.
fn instrument_by_gcc() -> Collector {
    let usable = gcc::usable(Compiler::C).map_err(|error| error.to_string());
    let usable = usable
        .map(|gcc| format!("{}: the same by slimline gcc, g++ and gfortran, slower and with less", gcc.display()));
    tracing("instrument by gcc", usable)
}

/// Programs as they are.
fn translate() -> Collector {
    let usable = Qemu::find(None).map_err(|error| error.to_string());
    let usable = usable.map(|qemu| format!("{}: every access of programs as they are", qemu.path().display()));
    tracing("translate", usable)
}

/// A collector of traces, and what it takes, or why it can't be used, which also says what to do.
fn tracing(name: &str, usable: Result<String, String>) -> Collector {
    let available = if usable.is_ok() { "yes" } else { "no" };
    let reason = usable.unwrap_or_else(|why| why);
    Collector { name: name.to_owned(), available: available.to_owned(), reason, remedy: None }
}

fn collector(capability: &Capability) -> Collector {
    Collector {
        name: capability.collector.to_owned(),
        available: match capability.availability {
            Availability::Available => "yes",
            Availability::Unavailable => "no",
        }
        .to_owned(),
        reason: capability.reason.clone(),
        remedy: capability.remedy.clone(),
    }
}
