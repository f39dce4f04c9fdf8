//! Reading accesses of whatever has any: traces of instrumented programs, and other tools' traces of addresses.

mod addresses;
mod live;

use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use slimline_analyze::full_trace::TraceBatch;
use slimline_analyze::full_trace::attributed::AttributedAccesses;
use slimline_analyze::origins::Origins;
use slimline_collect::{TraceOutcome, is_drmemtrace};
use slimline_report::full_trace::untraced;
use slimline_report::simulation::AccessTrace;
use slimline_simulate::access::Consumer;
use slimline_simulate::interleave::Interleaver;
use slimline_trace::stream::decode::{Decoder, Program};
use slimline_trace::stream::order::in_order;
use slimline_trace::stream::recording::Recording;

use crate::cli::AccessInput;
use crate::tracing::{add_object, not_recorded, undecoded, unordered, why_nothing};

/// What was read.
pub(crate) struct Accesses {
    pub(crate) trace: AccessTrace,
    /// What the accesses' keys stand for.
    pub(crate) origins: Origins,
    pub(crate) ended: Ended,
}

/// How the program ended that ran for it.
pub(crate) struct Ended(Option<TraceOutcome>);

impl Ended {
    /// The exit status; where a program ran for it, this process ends as that ended.
    pub(crate) fn status(&self) -> u8 {
        self.0.as_ref().map_or(0, |outcome| outcome.exit())
    }
}

/// Reads all accesses, and hands them on in one order.
pub(crate) fn read(input: &AccessInput, consumer: &mut dyn Consumer) -> anyhow::Result<Accesses> {
    if !tells_data(input) {
        return addresses::read(input, consumer);
    }
    attributed(input, AttributedAccesses::new(), consumer)
}

/// The same of a trace that tells data, and each access with the part of it where it is, of so many bytes or more.
pub(crate) fn read_with_parts(
    input: &AccessInput,
    bytes: NonZeroU64,
    consumer: &mut dyn Consumer,
) -> anyhow::Result<Accesses> {
    if !tells_data(input) {
        must_be_there(input)?;
        bail!("{}: tells no data: wanted is what slimline trace -o wrote", input.trace().display());
    }
    attributed(input, AttributedAccesses::with_parts(bytes), consumer)
}

/// Whether the accesses come with what they are of, as ours do; other tools tell addresses.
fn tells_data(input: &AccessInput) -> bool {
    input.live || input.trace().is_dir() && !is_drmemtrace(input.trace())
}

fn attributed(
    input: &AccessInput,
    accesses: AttributedAccesses,
    consumer: &mut dyn Consumer,
) -> anyhow::Result<Accesses> {
    let accesses = if input.callers { accesses.by_callers() } else { accesses };
    if input.live {
        live::read(&input.command, accesses, consumer)
    } else {
        recorded(input.trace(), accesses, consumer)
    }
}

fn recorded(
    directory: &Path,
    mut accesses: AttributedAccesses,
    consumer: &mut dyn Consumer,
) -> anyhow::Result<Accesses> {
    let recording = Recording::open(directory)?;
    let mut trace = AccessTrace {
        file: directory.display().to_string(),
        format: "trace",
        command: recording.info().command.clone(),
        ..AccessTrace::default()
    };
    let mut program = Arc::<Program>::default();
    for object in recording.objects() {
        trace.missing.extend(add_object(&mut program, &object.path, Ok(&object.section)).err());
    }
    let mut decoder = Decoder::new();
    // Whose data it is needs the order of causes; which lines threads take from each other, that of time.
    let (mut interleaver, mut stretch) = (Interleaver::new(consumer), Vec::new());
    let mut pieces = recording.pieces(&program, &mut decoder)?;
    in_order(&mut pieces, recording.streams(), |stream, piece, range| {
        for (since, until, range) in piece.stretches(range) {
            accesses.update(&program, &TraceBatch::of(stream, piece, range), &mut stretch);
            interleaver.stretch(stream, since, until, &mut stretch);
        }
    })?;
    interleaver.finish();
    trace.missing.extend(unordered(pieces.stamps_back()));
    trace.missing.extend(missing(&recording, (&program, &decoder), &accesses));
    let origins = accesses.origins(&program);
    if origins.is_empty() {
        let why = why_nothing(&recording, "the program's instrumented code made none");
        bail!("{}: {why}", directory.display());
    }
    trace.threads = Some(origins.threads().len() as u64);
    Ok(Accesses { trace, origins, ended: Ended(None) })
}

/// What is missing of a recorded trace, in words.
fn missing(
    recording: &Recording,
    (program, decoder): (&Program, &Decoder),
    accesses: &AttributedAccesses,
) -> Vec<String> {
    let mut missing = not_recorded(recording);
    missing.extend(undecoded(decoder));
    missing.extend(unknown(program, accesses));
    missing
}

/// What is not known of the accesses, in words.
fn unknown(program: &Program, accesses: &AttributedAccesses) -> Vec<String> {
    let mut missing = Vec::from_iter(untraced(&accesses.untraced(program)));
    for (count, what) in [
        (accesses.unknown_frees(), "# blocks were freed whose allocation was not traced"),
        (accesses.oversized(), "# copies and fills of more than 64 GiB: the trace is damaged"),
    ] {
        if count > 0 {
            missing.push(what.replace('#', &count.to_string()));
        }
    }
    missing
}

/// What is not there is told as such, and how to make it.
fn must_be_there(input: &AccessInput) -> anyhow::Result<()> {
    let file = input.trace().display();
    match input.trace().metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound && input.trace().as_os_str() != "-" => {
            bail!("{file}: No such file or directory (write a trace with: slimline trace -o DIR -- COMMAND)")
        }
        Err(error) if input.trace().as_os_str() != "-" => Err(error).with_context(|| file.to_string()),
        _ => Ok(()),
    }
}
