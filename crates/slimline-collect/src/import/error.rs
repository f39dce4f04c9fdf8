//! Why a file can't be imported.

use std::io;

use slimline_trace::escape::plain;
use slimline_trace::session::SessionError;

use super::input::InputError;
use crate::perf_event::Malformed;

/// Why a file can't be imported. Each displays as one line without the file's name.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file can't be opened or read.
    #[error("{0}")]
    Read(io::Error),
    /// The file is not what can be read here.
    #[error(transparent)]
    Input(#[from] InputError),
    /// It is none of the formats.
    #[error("not a perf.data file (of a table of samples, --columns tells which column is what)")]
    NotPerfData,
    /// A perf.data of before 2010.
    #[error("a perf.data file of version 1, which no perf has written since Linux 2.6.36")]
    TooOld,
    /// The header has a size that is none of the two known.
    #[error("a perf.data header of {0} bytes, where perf writes 16 or 104; a newer format, or damaged")]
    HeaderSize(u64),
    /// Several files in a directory (`perf record --threads`).
    #[error(
        "a directory, as `perf record --threads` makes one: its files can't be read alone; record without --threads"
    )]
    Directory,
    /// The file ends within this.
    #[error("truncated: it ends within its {0}")]
    Ends(&'static str),
    /// This can't be as it is.
    #[error("damaged: its {0} can't be as they are")]
    Damaged(&'static str),
    /// A part without which nothing can be read.
    #[error("damaged: it {0}")]
    Malformed(#[from] Malformed),
    /// Events with fields that are not known here.
    #[error(
        "recorded by a newer perf: {} has {what}, which this slimline can't read; use a newer slimline",
        plain(event)
    )]
    Newer {
        /// The event's name.
        event: String,
        /// The fields.
        what: String,
    },
    /// There is no decompressor to be had.
    #[error("its records are compressed, and the decompressor can't be started ({0})")]
    Decompress(io::Error),
    /// There is no event whose samples could be imported.
    #[error("it has no events")]
    NoEvents,
    /// There is no sample of a program's own code.
    #[error("none of its samples can be imported: {}", plain(.0))]
    NoSamples(String),
    /// A table is not as `--columns` says.
    #[error("{}", plain(.0))]
    Columns(String),
    /// A row of a table is not as `--columns` says.
    #[error("line {line}: {}", plain(reason))]
    Row {
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// A row of a table that has no lines.
    #[error("row {row}: {}", plain(reason))]
    TableRow {
        /// Its number, from 1.
        row: u64,
        /// What is wrong.
        reason: String,
    },
    /// There is none in a table of accesses.
    #[error("holds no access")]
    NoAccesses,
    /// The session can't be written. Tells the path itself.
    #[error(transparent)]
    Session(#[from] SessionError),
}
