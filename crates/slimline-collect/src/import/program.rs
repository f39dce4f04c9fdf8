//! One program that a process ran, from what a file tells of it to the parts of a session.

use slimline_trace::session::{ProcessSummary, ProcessWriter, SessionError, SessionWriter, Trigger};
use slimline_trace::tables::{Sample, StackRow};

use super::naming::Naming;
use crate::program_run::ProgramRun;
use crate::recorder::PartRows;
use crate::stack_interner::StackInterner;
use crate::writer_thread::write_part;

/// A program, and what besides the kernel's records a file tells of it.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) run: ProgramRun,
    naming: Naming,
    stacks: StackInterner,
    /// Made with the first part: programs without samples leave nothing behind.
    writer: Option<ProcessWriter>,
}

impl Program {
    pub(super) fn new(run: ProgramRun) -> Self {
        Self { run, naming: Naming::default(), stacks: StackInterner::default(), writer: None }
    }

    /// Names that the file gives by itself.
    pub(super) fn naming(&mut self) -> &mut Naming {
        &mut self.naming
    }

    /// A call path: return addresses, innermost first; whether there were more.
    pub(super) fn stack(&mut self, frames: &[u64], is_cut: bool) -> Option<StackRow> {
        self.stacks.sampled(frames, is_cut.into())
    }

    /// Takes a sample.
    pub(super) fn push(&mut self, sample: Sample) {
        if self.run.has_room() {
            self.run.push(sample, std::iter::empty());
        }
    }

    /// Whether enough has come together for a part.
    pub(super) fn is_part_due(&self) -> bool {
        self.run.is_part_due() || self.stacks.is_part_due()
    }

    /// Writes the rows since the last part. What the last part alone tells is left to it: nobody reads the session before
    /// it is whole.
    ///
    /// # Errors
    /// They can't be written.
    pub(super) fn write(&mut self, session: &SessionWriter) -> Result<(), SessionError> {
        let rows = self.run.take_rows();
        self.write_rows(rows, session)
    }

    fn write_rows(&mut self, rows: PartRows, session: &SessionWriter) -> Result<(), SessionError> {
        let rows = PartRows { stacks: std::mem::take(&mut self.stacks.new), ..rows };
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(session.process(self.run.directory())?),
        };
        write_part(writer, &rows)
    }

    /// Writes what is left; `None` of a program without samples.
    ///
    /// # Errors
    /// It can't be written.
    pub(super) fn finish(mut self, session: &SessionWriter) -> Result<Option<ProcessSummary>, SessionError> {
        if self.run.samples() == 0 {
            return Ok(None);
        }
        let rows = PartRows { names: self.naming.rows().clone(), ..self.run.take_part() };
        self.write_rows(rows, session)?;
        Ok(Some(self.run.summary(self.run.last_seen_ns(), Trigger::Counter)))
    }
}
