//! Who tells of the accesses of a program that is run.

use std::ffi::OsString;

use anyhow::{bail, ensure};
use slimline_collect::{Qemu, TraceCollector, is_instrumented, program_file};

use crate::cli::{self, CollectorOptions};
use crate::configuration::Configuration;

/// The collector that is asked for, of this command; with values, if they are asked for.
pub(crate) fn collector(
    options: &CollectorOptions,
    command: &[OsString],
    values: bool,
) -> anyhow::Result<TraceCollector> {
    match options.collector {
        cli::TraceCollector::Translate => {
            let qemu = Qemu::find(options.qemu.as_deref())?;
            let program = command.first().map(|name| program_file(name)).transpose()?;
            let allocators = Configuration::here()?.allocator_calls(program.as_deref())?;
            Ok(TraceCollector::Translated { qemu, allocators, values })
        }
        cli::TraceCollector::Instrument if values => bail!(
            "--values goes with --collector translate: a program that is instrumented tells values where it was compiled with \
             slimline cc --slimline-values (or cargo), without any option here"
        ),
        cli::TraceCollector::Instrument if options.qemu.is_some() => bail!("--qemu goes with --collector translate"),
        cli::TraceCollector::Instrument => Ok(TraceCollector::Instrumented),
    }
}

/// Refuses what says who tells, where nothing is run: `instead` is what is asked for.
pub(crate) fn check_unasked(options: &CollectorOptions, instead: &str) -> anyhow::Result<()> {
    let is_asked = options.collector != cli::TraceCollector::default() || options.qemu.is_some();
    ensure!(!is_asked, "--collector and --qemu go with a program that is run, not with {instead}");
    Ok(())
}

/// Why nothing was traced of a command, in words: what failed in one of its processes, if anything did.
pub(crate) fn why_untraced<'a>(collector: &TraceCollector, command: &[OsString], failure: Option<&'a str>) -> &'a str {
    if let Some(failure) = failure {
        return failure;
    }
    match collector {
        TraceCollector::Translated { .. } => "QEMU told of no access",
        TraceCollector::Instrumented if is_instrumented(command) => "the program's instrumented code made no access",
        TraceCollector::Instrumented => {
            "no process of it has instrumented code (compile with slimline cc, gcc or cargo, or run it as it is with \
             --collector translate)"
        }
    }
}
