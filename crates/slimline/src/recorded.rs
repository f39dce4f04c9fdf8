//! Recorded traces, which are read once for all that need no more than their records.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::bail;
use slimline_analyze::full_trace::heap::UnknownBlocks;
use slimline_analyze::full_trace::unseen::Unseen;
use slimline_report::simulation::AccessTrace;
use slimline_trace::stream::decode::{Decoder, Program};
use slimline_trace::stream::growing::{GrowingProgram, Known};
use slimline_trace::stream::order::{Piece, StreamKey};
use slimline_trace::stream::recording::Recording;

use crate::accesses::{killed, unknown};
use crate::progress::read_in_order;
use crate::tracing::{not_recorded, program_of, undecoded, unordered, why_nothing};

/// A recorded trace, and the code that it is of.
pub(crate) struct RecordedTrace {
    directory: PathBuf,
    recording: Recording,
    program: GrowingProgram,
    /// Code that is missing, in words.
    missing_code: Vec<String>,
}

/// Who takes in what a trace's threads did. Several can take one pass together.
pub(crate) trait Reader {
    /// Takes in what a stream did next, after all that it can know of: these visits of a piece.
    fn take(&mut self, program: &Program, stream: StreamKey, piece: &Piece, visits: Range<usize>);
}

/// A pass over a trace: what of it was not understood, or is not in a sure order.
pub(crate) struct Pass {
    decoder: Decoder,
    stamps_back: u64,
}

impl Pass {
    /// In words.
    pub(crate) fn doubts(&self) -> (Vec<String>, Option<String>) {
        (undecoded(self.decoder.undecoded()), unordered(self.stamps_back))
    }
}

impl RecordedTrace {
    /// # Errors
    /// It is none, or can't be read.
    pub(crate) fn open(directory: &Path) -> anyhow::Result<Self> {
        let recording = Recording::open(directory)?;
        let (program, missing_code) = program_of(&recording);
        Ok(Self { directory: directory.to_owned(), recording, program, missing_code })
    }

    /// One that holds anything.
    ///
    /// # Errors
    /// As [`open`](Self::open), and where nothing was traced.
    pub(crate) fn open_traced(directory: &Path) -> anyhow::Result<Self> {
        let trace = Self::open(directory)?;
        if trace.recording.is_empty() {
            bail!("{}: {}", directory.display(), why_nothing(&trace.recording, "nothing was traced"));
        }
        Ok(trace)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn recording(&self) -> &Recording {
        &self.recording
    }

    pub(crate) fn program(&self) -> &Program {
        self.program.program()
    }

    /// All of its code, for who has a program of its own.
    pub(crate) fn known(&self) -> Known {
        self.program.known()
    }

    /// Code that is missing, in words.
    pub(crate) fn missing_code(&self) -> &[String] {
        &self.missing_code
    }

    /// Reads all of it once, for all of these.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn read(&self, readers: &mut [&mut dyn Reader]) -> anyhow::Result<Pass> {
        let (program, mut decoder) = (self.program(), Decoder::new());
        let stamps_back = read_in_order(&self.recording, (program, &mut decoder), |stream, piece, visits| {
            readers.iter_mut().for_each(|reader| reader.take(program, stream, piece, visits.clone()));
        })?;
        Ok(Pass { decoder, stamps_back })
    }

    /// What is told of it where a reader saw so many threads, and what of it is missing.
    pub(crate) fn described(
        &self,
        pass: &Pass,
        threads: u64,
        (unseen, blocks): (&Unseen, UnknownBlocks),
    ) -> AccessTrace {
        let mut missing = self.missing_code.clone();
        let (undecoded, unordered) = pass.doubts();
        missing.extend(unordered);
        missing.extend(self.recording.info().end.and_then(killed));
        missing.extend(not_recorded(&self.recording));
        missing.extend(undecoded);
        missing.extend(unknown(self.program(), unseen, blocks));
        AccessTrace {
            file: self.directory.display().to_string(),
            format: "trace",
            command: self.recording.info().command.clone(),
            threads: Some(threads),
            missing,
            modules: self.recording.objects().iter().map(|object| object.path.clone()).collect(),
            directories: directories(self.program()),
            ..AccessTrace::default()
        }
    }
}

/// Directories in which a program's code was compiled, each once.
pub(crate) fn directories(program: &Program) -> Vec<String> {
    let directories: BTreeSet<&str> =
        program.modules().iter().map(|(_, module)| module.name(module.directory)).collect();
    directories.into_iter().filter(|directory| !directory.is_empty()).map(str::to_owned).collect()
}
