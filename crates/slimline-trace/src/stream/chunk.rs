//! A chunk of a trace, as it comes of a ring or of a recording.

use std::borrow::Cow;

/// What was written to a stream between two exchanges of its chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Number of the process in the trace.
    pub process: u32,
    /// Number of the stream in the process, from 0: a thread has one, and others for its signal handlers.
    pub stream: u32,
    /// The kernel's number of the thread.
    pub tid: u32,
    /// The thread's pointer, by which it finds its thread-local variables; 0 where it is not known, as of what was recorded.
    pub thread_pointer: u64,
    /// Number of the stream's chunk, from 0.
    pub sequence: u64,
    /// Time stamp of when the thread took it.
    pub began: u64,
    /// Of when it was full; 0 where it never was.
    pub ended: u64,
    /// Its records; without those that were taken while it was written.
    pub words: Cow<'a, [u64]>,
    /// Nobody said how far it is filled: it ends where a word of 0 stands in a header's place, if not before.
    pub is_open: bool,
}
