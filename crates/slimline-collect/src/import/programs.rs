//! The processes of an imported file, each with the program that it runs.

use std::collections::HashMap;

use slimline_trace::session::{ProcessSummary, SessionError, SessionWriter};

use super::program::Program;
use crate::live_mappings::LiveMappings;
use crate::program_run::ProgramRun;

/// All processes seen.
#[derive(Debug)]
pub(super) struct Programs {
    session: SessionWriter,
    running: HashMap<u32, Program>,
    finished: Vec<ProcessSummary>,
    /// Programs so far: what tells apart those of one process.
    begun: u32,
    samples: u64,
}

impl Programs {
    /// None yet; to be written into `session`.
    pub(super) fn new(session: SessionWriter) -> Self {
        Self { session, running: HashMap::new(), finished: Vec::new(), begun: 0, samples: 0 }
    }

    /// The program that a process runs; makes one where nothing was known of it.
    pub(super) fn of(&mut self, pid: u32) -> &mut Program {
        if !self.running.contains_key(&pid) {
            let program = self.begin(pid, 0, LiveMappings::default());
            self.running.insert(pid, program);
        }
        self.running.get_mut(&pid).expect("it was just put there")
    }

    fn begin(&mut self, pid: u32, parent_pid: u32, mappings: LiveMappings) -> Program {
        let directory = format!("p{pid}-{}", self.begun);
        self.begun += 1;
        Program::new(ProgramRun::new(pid, parent_pid, directory, mappings))
    }

    /// A process was made by another, whose mappings it has where `inherits`.
    ///
    /// # Errors
    /// An earlier process of the same number can't be written.
    pub(super) fn forked(&mut self, pid: u32, parent: u32, time_ns: u64, inherits: bool) -> Result<(), SessionError> {
        self.end(pid, time_ns)?;
        let parents = self.running.get(&parent).filter(|_| inherits);
        let mappings = parents.map_or_else(LiveMappings::default, |parent| parent.run.mappings().forked(time_ns));
        let program = self.begin(pid, parent, mappings);
        self.running.insert(pid, program);
        Ok(())
    }

    /// A process runs another program from now on.
    ///
    /// # Errors
    /// The one before can't be written.
    pub(super) fn replaced(&mut self, pid: u32, time_ns: u64) -> Result<(), SessionError> {
        let parent = self.running.get(&pid).map_or(0, |program| program.run.parent_pid());
        self.end(pid, time_ns)?;
        let program = self.begin(pid, parent, LiveMappings::default());
        self.running.insert(pid, program);
        Ok(())
    }

    /// A process ended.
    ///
    /// # Errors
    /// It can't be written.
    pub(super) fn end(&mut self, pid: u32, time_ns: u64) -> Result<(), SessionError> {
        let Some(mut program) = self.running.remove(&pid) else { return Ok(()) };
        program.run.end(time_ns);
        self.finished.extend(program.finish(&self.session)?);
        Ok(())
    }

    /// Takes a sample of a process; its row is made with the program's own threads and call paths.
    ///
    /// # Errors
    /// A part was due and can't be written.
    pub(super) fn push(
        &mut self,
        pid: u32,
        row: impl FnOnce(&mut Program) -> slimline_trace::tables::Sample,
    ) -> Result<(), SessionError> {
        self.samples += 1;
        let program = self.of(pid);
        let sample = row(program);
        program.push(sample);
        if !program.is_part_due() {
            return Ok(());
        }
        let program = self.running.get_mut(&pid).expect("it was just there");
        program.write(&self.session)
    }

    /// Samples taken so far.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// Writes all that is left. The session, and its processes in the order in which they were first seen.
    ///
    /// # Errors
    /// They can't be written.
    pub(super) fn finish(mut self) -> (SessionWriter, Result<Vec<ProcessSummary>, SessionError>) {
        let number = |process: &ProcessSummary| {
            process.directory.rsplit_once('-').and_then(|(_, number)| number.parse::<u32>().ok())
        };
        for program in self.running.into_values() {
            match program.finish(&self.session) {
                Ok(summary) => self.finished.extend(summary),
                Err(error) => return (self.session, Err(error)),
            }
        }
        self.finished.sort_by_key(number);
        (self.session, Ok(self.finished))
    }
}
