//! Other tools' traces of addresses: what was accessed in which order, and of drmemtrace's also by which thread and instruction.

use anyhow::{Context, bail};
use slimline_analyze::full_trace::attributed::{address_space, own_address};
use slimline_analyze::origins::{Data, Names, Origin, Origins};
use slimline_collect::{
    AddressFormat, AddressInput, DrmemtraceInput, DrmemtraceLosses, Input, ThreadPart, TracedAccess, TracedKind,
    open_addresses, read_addresses, read_drmemtrace,
};
use slimline_report::simulation::AccessTrace;
use slimline_simulate::access::{Access, AccessKind, Consumer, Work};
use slimline_simulate::interleave::Interleaver;

use super::keys::Keys;
use super::{Accesses, Ended, exported, must_be_there, table};
use crate::cli::{AccessInput, TraceFormat};
use crate::progress::Progress;

/// Reads all accesses, and hands them on in one order; also of what `slimline export` made tables of.
pub(super) fn read(input: &AccessInput, consumer: &mut dyn Consumer) -> anyhow::Result<Accesses> {
    must_be_there(input)?;
    let _progress = Progress::of(&format!("reading {}", input.trace().display()), 0);
    if input.callers {
        bail!("{}: tells no callers: --callers is for what slimline trace -o wrote", input.trace().display());
    }
    match &input.columns {
        Some(columns) => table::read(input, columns, consumer),
        None if exported::is_exported(input.trace()) => exported::read(input.trace(), consumer),
        None => {
            let file = || input.trace().display().to_string();
            match open_addresses(input.trace()).with_context(file)? {
                AddressInput::Drmemtrace(trace) => of_threads(file(), trace, consumer),
                AddressInput::Text(text) => of_nobody(file(), text, input.from, consumer),
            }
        }
    }
}

/// Lackey's and Dinero's tell no thread: all of one is of one core.
fn of_nobody(
    file: String,
    text: Input,
    format: Option<TraceFormat>,
    consumer: &mut dyn Consumer,
) -> anyhow::Result<Accesses> {
    let mut batch = Vec::new();
    let mut take = |accesses: &[TracedAccess]| {
        batch.clear();
        batch.extend(accesses.iter().map(access));
        consumer.take(&batch);
    };
    let format = format.map(|format| match format {
        TraceFormat::Lackey => AddressFormat::Lackey,
        TraceFormat::Din => AddressFormat::Din,
    });
    let read = read_addresses(text, format, &mut take).with_context(|| file.clone())?;
    let missing = match read.passed_over {
        0 => Vec::new(),
        labels => vec![format!("{labels} labels of din that are no accesses (3, 4): they are passed over")],
    };
    let format = match read.format {
        AddressFormat::Lackey => "lackey",
        AddressFormat::Din => "din",
    };
    Ok(Accesses {
        trace: AccessTrace { file, format, missing, ..AccessTrace::default() },
        origins: Origins::default(),
        overlap: None,
        pids: Vec::new(),
        ended: Ended(None),
    })
}

/// The parts of all threads, spread over the time that they took.
fn of_threads(file: String, trace: DrmemtraceInput, consumer: &mut dyn Consumer) -> anyhow::Result<Accesses> {
    let mut keys = Keys::default();
    let (mut interleaver, mut stretch) = (Interleaver::new(consumer), Vec::new());
    let mut began = None;
    let losses = read_drmemtrace(trace, &mut |part: ThreadPart<'_>| {
        let began = *began.get_or_insert(part.since_us);
        let process = keys.process(part.process);
        let thread = keys.thread(process, part.thread as u32);
        stretch.extend(part.accesses.iter().map(|(traced, instruction)| {
            let key = keys.of(thread, traced.kind, *instruction);
            Access { address: own_address(traced.address) | address_space(process), key, thread, ..access(traced) }
        }));
        // As fine as an access, where times are told in microseconds.
        let time = |us: u64| us.saturating_sub(began).saturating_mul(1000);
        interleaver.stretch((0, part.file), time(part.since_us), part.until_us.map(time), &mut stretch);
    })?;
    let overlap = interleaver.finish();
    let origins = keys.origins(vec![Data::default()], Names::default(), |instruction, names| Origin {
        line: names.number(&format!("{instruction:#x}")),
        ..Origin::default()
    });
    let trace = AccessTrace {
        file,
        format: "drmemtrace",
        threads: Some(origins.threads().len() as u64),
        missing: missing(&losses),
        ..AccessTrace::default()
    };
    Ok(Accesses { trace, origins, overlap, pids: Vec::new(), ended: Ended(None) })
}

/// What is missing of such a trace, in words.
fn missing(losses: &DrmemtraceLosses) -> Vec<String> {
    let mut missing = Vec::new();
    if losses.is_filtered {
        missing.push("all that hit the tracer's own filter: it was a filtered trace (-L0_filter)".to_owned());
    }
    for (count, what) in [
        (losses.cut_files, "the ends of # files, which are cut off"),
        (losses.prefetches, "# prefetches: they are passed over"),
        (losses.flushes, "# flushes of caches, likewise"),
        (losses.of_nobody, "# accesses that belong to no thread, behind the end of one"),
        (losses.unknown, "# records of types that this slimline does not know: of a newer DynamoRIO?"),
    ] {
        if count > 0 {
            missing.push(what.replace('#', &count.to_string()));
        }
    }
    missing
}

/// The access, without thread and key.
pub(super) fn access(traced: &TracedAccess) -> Access {
    let kind = match traced.kind {
        TracedKind::Load => AccessKind::Load,
        TracedKind::Store => AccessKind::Store,
        TracedKind::Modify => AccessKind::Modify,
        TracedKind::Fetch => AccessKind::Fetch,
    };
    Access { address: traced.address, key: 0, bytes: traced.bytes, thread: 0, kind, work: Work::USUAL }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[derive(Default)]
    struct Taken(Vec<Access>);

    impl Consumer for Taken {
        fn take(&mut self, accesses: &[Access]) {
            self.0.extend_from_slice(accesses);
        }
    }

    fn read_trace(path: &Path, taken: &mut Taken) -> anyhow::Result<Accesses> {
        let AddressInput::Drmemtrace(trace) = open_addresses(path)? else { panic!("no trace of drmemtrace") };
        of_threads(String::new(), trace, taken)
    }

    #[test]
    fn processes_have_memory_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let entry = |kind: u16, size: u16, value: u64| {
            [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
        };
        let load = || entry(0, 8, 0x1000);
        let of = |thread, process| [entry(22, 4, thread), entry(24, 4, process)].concat();
        let all = [entry(25, 0, 5), entry(28, 2, 7), of(1, 10), load(), load(), of(2, 20), load(), entry(26, 0, 0)];
        fs::write(directory.path().join("a.trace"), all.concat()).unwrap();
        let mut taken = Taken::default();
        let found = read_trace(directory.path(), &mut taken).unwrap();
        let told: Vec<_> = taken.0.iter().map(|access| (access.address, access.thread)).collect();
        assert_eq!(told, [(0x1000, 0), (0x1000, 0), (0x1000 | 1 << 48, 1)]);
        let [one, two] = found.origins.threads() else { panic!("{:?}", found.origins.threads()) };
        assert_eq!(((one.process, one.tid), (two.process, two.tid)), ((0, 1), (1, 2)));
        assert_eq!(found.trace.missing, Vec::<String>::new());
    }
}
