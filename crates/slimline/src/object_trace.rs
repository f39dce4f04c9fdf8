//! Recorded traces as accesses to objects of the heap.

use std::path::Path;

use anyhow::bail;
use slimline_analyze::full_trace::TraceBatch;
use slimline_analyze::full_trace::objects::ObjectAccesses;
use slimline_report::simulation::AccessTrace;
use slimline_simulate::access::Consumer;
use slimline_simulate::interleave::Interleaver;
use slimline_trace::stream::decode::{Decoder, Program, SiteId};
use slimline_trace::stream::growing::GrowingProgram;
use slimline_trace::stream::recording::Recording;

use crate::accesses::missing;
use crate::progress::read_in_order;
use crate::tracing::{program_of, unordered, why_nothing};

/// What is wanted of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Blocks of the heap.
    Blocks,
    /// What their fields hold; elements of arrays are objects.
    Fields,
    /// Of which structures they are; static variables are objects, too.
    Structures,
    /// The same, and which of their fields could be narrower.
    Values,
}

/// A recorded trace, and what it is read by.
pub(crate) struct ObjectTrace {
    recording: Recording,
    program: GrowingProgram,
    wanted: Wanted,
    /// Code that is missing.
    missing: Vec<String>,
}

impl ObjectTrace {
    pub(crate) fn open(directory: &Path, wanted: Wanted) -> anyhow::Result<Self> {
        let recording = Recording::open(directory)?;
        let (program, missing) = program_of(&recording);
        Ok(Self { recording, program, wanted, missing })
    }

    pub(crate) fn program(&self) -> &Program {
        self.program.program()
    }

    /// Whether any access tells what it loaded or stored.
    pub(crate) fn tells_values(&self) -> bool {
        let program = self.program();
        (0..program.site_count() as u32).any(|site| program.site(SiteId(site)).1.value.is_some())
    }

    /// Reads the trace once, and hands its accesses on in one order; what of the order is not sure, in words.
    pub(crate) fn read(
        &self,
        decoder: &mut Decoder,
        consumer: &mut dyn Consumer,
    ) -> anyhow::Result<(ObjectAccesses, Option<String>)> {
        self.read_for(self.wanted, decoder, consumer)
    }

    /// The same for who wants something else of it: objects have other numbers then.
    pub(crate) fn read_for(
        &self,
        wanted: Wanted,
        decoder: &mut Decoder,
        consumer: &mut dyn Consumer,
    ) -> anyhow::Result<(ObjectAccesses, Option<String>)> {
        let program = self.program();
        let mut found = match wanted {
            Wanted::Blocks => ObjectAccesses::new(),
            Wanted::Fields => ObjectAccesses::with_fields(),
            Wanted::Structures => ObjectAccesses::with_structures(),
            Wanted::Values => ObjectAccesses::with_values(),
        };
        let (mut interleaver, mut stretch) = (Interleaver::new(consumer), Vec::new());
        let stamps_back = read_in_order(&self.recording, (program, decoder), |stream, piece, range| {
            for (since, until, range) in piece.stretches(range) {
                found.update(program, &TraceBatch::of(stream, piece, range), &mut stretch, &mut |_| {});
                interleaver.stretch(stream, since, until, &mut stretch);
            }
        })?;
        interleaver.finish();
        Ok((found, unordered(stamps_back)))
    }

    /// The same for the first time, which says what there is: `accesses` tells afterwards how many were handed on.
    pub(crate) fn read_first<C: Consumer>(
        &self,
        directory: &Path,
        consumer: &mut C,
        accesses: impl FnOnce(&C) -> u64,
    ) -> anyhow::Result<(ObjectAccesses, AccessTrace)> {
        let mut decoder = Decoder::new();
        let (found, unordered) = self.read(&mut decoder, consumer)?;
        let mut missing_of_it = self.missing.clone();
        missing_of_it.extend(unordered);
        let unknown = (found.unseen(), found.unknown_frees());
        missing_of_it.extend(missing(&self.recording, (self.program(), &decoder), unknown));
        if found.is_empty() {
            let what = match self.wanted {
                Wanted::Structures | Wanted::Values => "of the heap or variable that is known",
                Wanted::Blocks | Wanted::Fields => "of the heap whose allocation was traced",
            };
            let (file, accesses) = (directory.display(), accesses(consumer));
            if accesses > 0 {
                bail!("{file}: none of its {accesses} accesses is to a block {what}");
            }
            bail!("{file}: {}", why_nothing(&self.recording, &format!("none is to a block {what}")));
        }
        let trace = AccessTrace {
            file: directory.display().to_string(),
            format: "trace",
            command: self.recording.info().command.clone(),
            threads: Some(found.threads()),
            missing: missing_of_it,
            ..AccessTrace::default()
        };
        Ok((found, trace))
    }
}
