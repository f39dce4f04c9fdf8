//! The processes and threads of a tree that are sampled from outside, each up to its next `exec`.

use std::collections::HashMap;
use std::time::Duration;

use slimline_trace::session::{AddsTo, ProcessSummary};

use crate::RecordError;
use crate::drain::is_alive;
use crate::perf_rings::{RingOptions, Rings};
use crate::running_program::Program;
use crate::source::Source;
use crate::writer_thread::WriterThread;

/// Sampled at one time: each takes rings of its own.
const MOST_OUTSIDE: usize = 64;
/// Number of the first program that is sampled from outside: those with agents are numbered from 0 in each process.
const FIRST_OUTSIDE: u32 = 1000;

/// A process or a single thread that is sampled.
pub(super) struct Outside {
    pub(super) rings: Rings,
    pub(super) process: u32,
    pub(super) program: Program,
    pub(super) adds_to: Option<AddsTo>,
}

/// All that are sampled.
pub(super) struct Outsiders {
    options: RingOptions,
    /// By process, or by thread if it is sampled alone.
    running: HashMap<u32, Outside>,
    /// How many there were.
    so_far: u32,
    /// Those that ended, or went on to another program.
    over: Vec<ProcessSummary>,
}

impl Outsiders {
    pub(super) fn new(options: RingOptions) -> Self {
        Self { options, running: HashMap::new(), so_far: 0, over: Vec::new() }
    }

    /// Opens rings by `attach`, which gets the number of the program. `None` if the process has ended meanwhile.
    ///
    /// # Errors
    /// Why that can't be done, to be put behind why the process has no agent.
    pub(super) fn attach(
        &self,
        attach: impl FnOnce(&RingOptions, u32) -> Result<Rings, RecordError>,
    ) -> Result<Option<Rings>, String> {
        if self.running.len() >= MOST_OUTSIDE {
            return Err(format!(", and {MOST_OUTSIDE} others are sampled from outside already"));
        }
        match attach(&self.options, FIRST_OUTSIDE + self.so_far) {
            Ok(rings) => Ok(Some(rings)),
            Err(RecordError::NoSuchProcess(_)) => Ok(None),
            Err(error) => Err(format!("; {}", error.without_process())),
        }
    }

    /// Takes in the process or thread `id`, which was just attached to.
    pub(super) fn insert(&mut self, id: u32, outside: Outside) {
        self.running.insert(id, outside);
        self.so_far += 1;
    }

    /// Ends sampling of the process or thread `id`.
    pub(super) fn end(&mut self, id: u32, writer: &WriterThread) {
        if let Some(outside) = self.running.remove(&id) {
            let Outside { rings, adds_to, .. } = outside;
            self.over.extend(linked(rings.finish(writer).0, adds_to.as_ref()));
        }
    }

    /// Ends sampling of the threads of `process` that are sampled alone: the whole process is about to be.
    pub(super) fn end_threads_of(&mut self, process: u32, writer: &WriterThread) {
        let is_thread = |(&id, outside): (&u32, &Outside)| (outside.process == process && id != process).then_some(id);
        for thread in self.running.iter().filter_map(is_thread).collect::<Vec<_>>() {
            self.end(thread, writer);
        }
    }

    /// The program of the process or thread `id`, if it is sampled.
    pub(super) fn program_of(&self, id: u32) -> Option<Program> {
        self.running.get(&id).map(|outside| outside.program)
    }

    /// All processes, and threads that are sampled alone.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> {
        self.running.keys().copied()
    }

    pub(super) fn has_ended_any(&self) -> bool {
        !self.over.is_empty()
    }

    /// Reads all rings. Whether it is time to write parts, and those that ended.
    pub(super) fn pass(&mut self, writer: &WriterThread) -> (bool, Vec<u32>) {
        // Asked before their rings are read: what an ended process left there is then read.
        let is_over = |(&id, outside): (&u32, &Outside)| (outside.rings.is_over() || !is_alive(id)).then_some(id);
        let over: Vec<u32> = self.running.iter().filter_map(is_over).collect();
        let mut is_time = false;
        for outside in self.running.values_mut() {
            is_time |= outside.rings.pass(writer);
        }
        over.iter().for_each(|&id| self.end(id, writer));
        (is_time, over)
    }

    pub(super) fn write_parts(&mut self, writer: &WriterThread) {
        self.running.values_mut().for_each(|outside| outside.rings.write_parts(writer));
    }

    /// The shortest pause that any of them allows.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.running.values().map(|outside| outside.rings.pause()).min()
    }

    pub(super) fn stop(&mut self) {
        self.running.values_mut().for_each(|outside| outside.rings.stop());
    }

    pub(super) fn summaries(&self) -> Vec<ProcessSummary> {
        let running =
            self.running.values().flat_map(|outside| linked(outside.rings.summaries(), outside.adds_to.as_ref()));
        self.over.iter().cloned().chain(running).collect()
    }

    pub(super) fn finish(mut self, writer: &WriterThread) -> Vec<ProcessSummary> {
        for id in self.running.keys().copied().collect::<Vec<_>>() {
            self.end(id, writer);
        }
        self.over
    }
}

/// The summaries, saying which process they add to.
fn linked(mut summaries: Vec<ProcessSummary>, adds_to: Option<&AddsTo>) -> Vec<ProcessSummary> {
    summaries.iter_mut().for_each(|summary| summary.adds_to = adds_to.cloned());
    summaries
}
