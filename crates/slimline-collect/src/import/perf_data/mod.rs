//! perf.data: what `perf record` and `perf mem record` write, into a file or into a pipe.
//!
//! ```text
//!   layout ─► stream (decompress) ─► rounds (order of time) ─► recording ─► programs ─► session
//!         └─► attributes, features (in pipe mode among the records) ─┘
//! ```
//!
//! The file is read once from its begin to its end; what is held is the records of the rounds that are not finished, and
//! the rows of each program's next part.

mod features;
mod layout;
mod recording;
mod rounds;
mod stream;

use std::io::{Read, Seek};

use super::description::Description;
use super::{ImportError, Programs, Progress};
use layout::{Layout, read_layout};
use recording::{Recording, Stop};
use stream::{End, RecordStream};

/// Records between two reports of progress.
const RECORDS_PER_REPORT: u32 = 4096;

/// A file, or a pipe, in which nothing can be sought.
pub(super) enum Input<F, P> {
    File(F),
    Pipe(P),
}

/// Reads a recording into `programs`.
///
/// # Errors
/// It is none, or can't be read; what it holds up to where it is cut is no error.
pub(super) fn read<F: Read + Seek, P: Read>(
    input: Input<F, P>,
    programs: &mut Programs,
    progress: &mut dyn FnMut(Progress),
) -> Result<Description, ImportError> {
    match input {
        Input::Pipe(mut pipe) => {
            let Layout { order, sections } = read_layout(&mut pipe)?;
            if sections.is_some() {
                return Err(ImportError::NotSeekable);
            }
            read_records(Recording::new(order), RecordStream::new(pipe, order, None), programs, progress)
        }
        Input::File(mut file) => {
            let Layout { order, sections } = read_layout(&mut file)?;
            let mut recording = Recording::new(order);
            let mut bytes = None;
            if let Some(sections) = sections {
                for (number, feature) in sections.read_features(&mut file, order)? {
                    recording.take_feature(number, &feature);
                }
                for (attr, ids) in sections.read_attrs(&mut file, order)? {
                    recording.add_event(attr, ids)?;
                }
                sections.seek_records(&mut file)?;
                bytes = Some(sections.data.bytes).filter(|&bytes| bytes > 0);
                if bytes.is_none() {
                    recording.was_not_closed();
                }
            }
            read_records(recording, RecordStream::new(file, order, bytes), programs, progress)
        }
    }
}

fn read_records<R: Read>(
    mut recording: Recording,
    mut stream: RecordStream<R>,
    programs: &mut Programs,
    progress: &mut dyn FnMut(Progress),
) -> Result<Description, ImportError> {
    let mut until_report = 0_u32;
    while let Some(record) = stream.next()? {
        recording.take(&record, programs)?;
        if until_report == 0 {
            progress(Progress { read_bytes: stream.read_bytes(), samples: programs.samples() });
            until_report = RECORDS_PER_REPORT;
        }
        until_report -= 1;
    }
    recording.finish(programs)?;
    match stream.end() {
        Some(End::Truncated) => recording.stop(Stop::Truncated),
        Some(End::Damaged) => recording.stop(Stop::Damaged),
        Some(End::Whole) | None => {}
    }
    Ok(recording.describe())
}
