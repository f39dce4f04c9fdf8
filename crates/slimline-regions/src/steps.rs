//! Each change of a thread's path, for who samples the process from outside: their samples tell a time, and nothing of the program.
//!
//! A file for each thread, [`DIRECTORY_VARIABLE`](crate::DIRECTORY_VARIABLE)`/<pid>-<tid>`[`STEPS_SUFFIX`](crate::STEPS_SUFFIX), of records of 16 bytes:
//! time, path and zero, in native order. Written when a page is full and when the process ends.

use std::fs::File;
use std::io::Write as _;

use crate::path::PathId;

const RECORD_BYTES: usize = 16;
const BUFFERED: usize = 4096 / RECORD_BYTES;

/// Those of one thread.
pub(crate) struct Steps {
    file: File,
    buffer: [[u8; RECORD_BYTES]; BUFFERED],
    length: usize,
    /// Such as could not be written.
    pub(crate) lost: u64,
}

impl Steps {
    /// To this file.
    pub(crate) fn to(file: File) -> Self {
        Self { file, buffer: [[0; RECORD_BYTES]; BUFFERED], length: 0, lost: 0 }
    }

    /// The thread goes on along a path.
    pub(crate) fn push(&mut self, time_ns: u64, PathId(path): PathId) {
        let record = &mut self.buffer[self.length];
        record[..8].copy_from_slice(&time_ns.to_ne_bytes());
        record[8..].copy_from_slice(&u64::from(path).to_ne_bytes());
        self.length += 1;
        if self.length == BUFFERED {
            self.flush();
        }
    }

    /// Writes what there is. Allocates nothing: it may be in a signal's handler.
    pub(crate) fn flush(&mut self) {
        let length = std::mem::take(&mut self.length);
        if length > 0 && self.file.write_all(self.buffer[..length].as_flattened()).is_err() {
            self.lost += length as u64;
        }
    }
}
