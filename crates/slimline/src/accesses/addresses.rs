//! Other tools' traces of addresses: what was accessed in which order, and of drmemtrace's also by which thread and instruction.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, bail};
use slimline_analyze::origins::{Data, Names, Origin, Origins, Thread};
use slimline_collect::{
    AddressFormat, DrmemtraceCounts, ThreadPart, TracedAccess, TracedKind, read_addresses, read_drmemtrace,
};
use slimline_report::simulation::AccessTrace;
use slimline_simulate::access::{Access, AccessKind, Consumer};
use slimline_simulate::interleave::Interleaver;

use super::{Accesses, Ended, must_be_there};
use crate::cli::{AccessInput, TraceFormat};

/// Reads all accesses, and hands them on in one order.
pub(super) fn read(input: &AccessInput, consumer: &mut dyn Consumer) -> anyhow::Result<Accesses> {
    must_be_there(input)?;
    if input.callers {
        bail!("{}: tells no callers: --callers is for what slimline trace -o wrote", input.trace().display());
    }
    if input.trace().is_dir() { of_threads(input.trace(), consumer) } else { of_nobody(input, consumer) }
}

/// Lackey's and Dinero's tell no thread: all of one is of one core.
fn of_nobody(input: &AccessInput, consumer: &mut dyn Consumer) -> anyhow::Result<Accesses> {
    let mut batch = Vec::new();
    let mut take = |accesses: &[TracedAccess]| {
        batch.clear();
        batch.extend(accesses.iter().map(access));
        consumer.take(&batch);
    };
    let format = input.from.map(|format| match format {
        TraceFormat::Lackey => AddressFormat::Lackey,
        TraceFormat::Din => AddressFormat::Din,
    });
    let file = input.trace().display().to_string();
    let format = match read_addresses(input.trace(), format, &mut take).with_context(|| file.clone())? {
        AddressFormat::Lackey => "lackey",
        AddressFormat::Din => "din",
    };
    Ok(Accesses {
        trace: AccessTrace { file, format, ..AccessTrace::default() },
        origins: Origins::default(),
        ended: Ended(None),
    })
}

/// The parts of all threads, spread over the time that they took.
fn of_threads(directory: &Path, consumer: &mut dyn Consumer) -> anyhow::Result<Accesses> {
    let mut keys = Keys::default();
    let (mut interleaver, mut stretch) = (Interleaver::new(consumer), Vec::new());
    let mut began = None;
    let counts = read_drmemtrace(directory, &mut |part: ThreadPart<'_>| {
        let began = *began.get_or_insert(part.since_us);
        let thread = keys.thread(&part);
        stretch.extend(part.accesses.iter().map(|(traced, instruction)| {
            let key = keys.of(thread, traced.kind, *instruction);
            Access { key, thread, ..access(traced) }
        }));
        // As fine as an access, where times are told in microseconds.
        let time = |us: u64| us.saturating_sub(began).saturating_mul(1000);
        interleaver.stretch((0, part.file), time(part.since_us), part.until_us.map(time), &mut stretch);
    })?;
    interleaver.finish();
    let origins = keys.origins();
    let trace = AccessTrace {
        file: directory.display().to_string(),
        format: "drmemtrace",
        threads: Some(origins.threads().len() as u64),
        missing: missing(&counts),
        ..AccessTrace::default()
    };
    Ok(Accesses { trace, origins, ended: Ended(None) })
}

/// What is missing of such a trace, in words.
fn missing(counts: &DrmemtraceCounts) -> Vec<String> {
    let mut missing = Vec::new();
    if counts.is_filtered {
        missing.push("all that hit the tracer's own filter: it was a filtered trace (-L0_filter)".to_owned());
    }
    for (count, what) in [
        (counts.cut_files, "the ends of # files, which are cut off"),
        (counts.prefetches, "# prefetches: they are passed over"),
        (counts.flushes, "# flushes of caches, likewise"),
        (counts.unknown, "# records of types that this slimline does not know: of a newer DynamoRIO?"),
    ] {
        if count > 0 {
            missing.push(what.replace('#', &count.to_string()));
        }
    }
    missing
}

/// Keys of threads' instructions.
#[derive(Default)]
struct Keys {
    threads: Vec<Thread>,
    processes: Vec<u64>,
    /// By thread, then instruction; fetches of it are told apart from its accesses.
    numbers: HashMap<(u32, u64, bool), u32>,
    keys: Vec<(u32, u64, u64)>,
}

impl Keys {
    fn thread(&mut self, part: &ThreadPart<'_>) -> u32 {
        let process = self.processes.iter().position(|process| *process == part.process).unwrap_or_else(|| {
            self.processes.push(part.process);
            self.processes.len() - 1
        });
        let thread = Thread { process: process as u32, tid: part.thread as u32 };
        let known = self.threads.iter().position(|known| *known == thread).unwrap_or_else(|| {
            self.threads.push(thread);
            self.threads.len() - 1
        });
        known as u32
    }

    fn of(&mut self, thread: u32, kind: TracedKind, instruction: u64) -> u32 {
        let next = self.keys.len() as u32;
        let key = *self.numbers.entry((thread, instruction, kind == TracedKind::Fetch)).or_insert(next);
        if key == next {
            self.keys.push((thread, instruction, 0));
        }
        self.keys[key as usize].2 += 1;
        key
    }

    fn origins(self) -> Origins {
        let mut names = Names::default();
        let origins = self.keys.iter().map(|&(thread, instruction, accesses)| {
            let line = names.number(&format!("{instruction:#x}"));
            Origin { line, thread, accesses, ..Origin::default() }
        });
        let origins = origins.collect();
        Origins::new(origins, vec![Data::default()], names, self.threads)
    }
}

fn access(traced: &TracedAccess) -> Access {
    let kind = match traced.kind {
        TracedKind::Load => AccessKind::Load,
        TracedKind::Store => AccessKind::Store,
        TracedKind::Modify => AccessKind::Modify,
        TracedKind::Fetch => AccessKind::Fetch,
    };
    Access { address: traced.address, key: 0, bytes: traced.bytes, thread: 0, kind }
}
