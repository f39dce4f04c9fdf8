//! Recorded traces as accesses to objects of the heap.

use std::ops::Range;
use std::path::Path;

use anyhow::bail;
use slimline_analyze::full_trace::TraceBatch;
use slimline_analyze::full_trace::objects::ObjectAccesses;
use slimline_report::simulation::AccessTrace;
use slimline_simulate::access::{Access, Consumer};
use slimline_simulate::interleave::Interleaver;
use slimline_trace::stream::decode::Program;
use slimline_trace::stream::order::{Piece, StreamKey};

use crate::recorded::{Pass, Reader, RecordedTrace};
use crate::tracing::why_nothing;

/// What is wanted of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Blocks of the heap.
    Blocks,
    /// What their fields hold; elements of arrays are objects.
    Fields,
    /// Of which structures they are; static variables are objects, too.
    Structures,
    /// The same, and which of their fields could be narrower. Objects have other numbers then.
    Values,
}

/// Makes accesses to objects of what is read, and hands them on in one order.
pub(crate) struct ObjectReader<'a> {
    found: ObjectAccesses,
    wanted: Wanted,
    interleaver: Interleaver<'a>,
    stretch: Vec<Access>,
}

impl<'a> ObjectReader<'a> {
    pub(crate) fn new(wanted: Wanted, consumer: &'a mut dyn Consumer) -> Self {
        let found = match wanted {
            Wanted::Blocks => ObjectAccesses::new(),
            Wanted::Fields => ObjectAccesses::with_fields(),
            Wanted::Structures => ObjectAccesses::with_structures(),
            Wanted::Values => ObjectAccesses::with_values(),
        };
        Self { found, wanted, interleaver: Interleaver::new(consumer), stretch: Vec::new() }
    }

    /// Hands on what is left. The objects.
    pub(crate) fn finish(self) -> FoundObjects {
        self.interleaver.finish();
        FoundObjects { found: self.found, wanted: self.wanted }
    }
}

impl Reader for ObjectReader<'_> {
    fn take(&mut self, program: &Program, stream: StreamKey, piece: &Piece, visits: Range<usize>) {
        let Self { found, interleaver, stretch, .. } = self;
        for (since, until, range) in piece.stretches(visits) {
            found.update(program, &TraceBatch::of(stream, piece, range), stretch, &mut |_| {});
            interleaver.stretch(stream, since, until, stretch);
        }
    }
}

/// Objects that were found.
pub(crate) struct FoundObjects {
    pub(crate) found: ObjectAccesses,
    wanted: Wanted,
}

impl FoundObjects {
    /// What is told of the trace.
    ///
    /// # Errors
    /// None of so many accesses is to an object.
    pub(crate) fn described(&self, trace: &RecordedTrace, pass: &Pass, accesses: u64) -> anyhow::Result<AccessTrace> {
        let Self { found, wanted } = self;
        if found.is_empty() {
            let what = match wanted {
                Wanted::Structures | Wanted::Values => "of the heap or variable that is known",
                Wanted::Blocks | Wanted::Fields => "of the heap whose allocation was traced",
            };
            let file = trace.directory().display();
            if accesses > 0 {
                bail!("{file}: none of its {accesses} accesses is to a block {what}");
            }
            bail!("{file}: {}", why_nothing(trace.recording(), &format!("none is to a block {what}")));
        }
        Ok(trace.described(pass, found.threads(), (found.unseen(), found.unknown_blocks())))
    }
}

/// A recorded trace that is read several times for the same objects.
pub(crate) struct ObjectTrace {
    trace: RecordedTrace,
    wanted: Wanted,
}

impl ObjectTrace {
    pub(crate) fn open(directory: &Path, wanted: Wanted) -> anyhow::Result<Self> {
        Ok(Self { trace: RecordedTrace::open(directory)?, wanted })
    }

    pub(crate) fn program(&self) -> &Program {
        self.trace.program()
    }

    /// Reads the trace once, and hands its accesses on in one order.
    pub(crate) fn read(&self, consumer: &mut dyn Consumer) -> anyhow::Result<(FoundObjects, Pass)> {
        let mut reader = ObjectReader::new(self.wanted, consumer);
        let pass = self.trace.read(&mut [&mut reader])?;
        Ok((reader.finish(), pass))
    }

    /// The same for the first time, which says what there is: `accesses` tells afterwards how many were handed on.
    pub(crate) fn read_first<C: Consumer>(
        &self,
        consumer: &mut C,
        accesses: impl FnOnce(&C) -> u64,
    ) -> anyhow::Result<(ObjectAccesses, AccessTrace)> {
        let (objects, pass) = self.read(consumer)?;
        let described = objects.described(&self.trace, &pass, accesses(consumer))?;
        Ok((objects.found, described))
    }
}
