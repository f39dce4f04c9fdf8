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

#[cfg(test)]
mod tests {
    use slimline_trace::access::AccessKind;
    use slimline_trace::served::{MemoryLevel, Translation};
    use slimline_trace::session::Session;
    use slimline_trace::wire::Quality;

    use crate::import::{ImportOptions, import};
    use crate::perf_event::encode::{Encoder, SyntheticSample};
    use crate::perf_event::{ByteOrder, EventAttr, misc_bits, record_type, sample_type};

    /// Ops of AMD's sampling without any field of the kernel's: all is in the registers. `IBS_OP_DATA3` is of a load of 8
    /// bytes that missed the first level for 300 cycles, and of an op that touches no memory.
    #[test]
    fn registers_of_ibs_tell_what_the_kernel_was_not_asked_for() {
        const IBS_OP: u32 = 11;
        const PMU_MAPPINGS: u64 = 16;
        const LOAD: u64 = 1 | 1 << 7 | 1 << 17 | 4 << 22 | 300 << 32;
        let asked = sample_type::IP | sample_type::TID | sample_type::TIME | sample_type::PERIOD | sample_type::RAW;
        let attr = EventAttr { kind: IBS_OP, sample_type: asked, ..EventAttr::default() };
        let mut file = Encoder::new(ByteOrder::NATIVE);
        file.raw(if cfg!(target_endian = "big") { b"2ELIFREP" } else { b"PERFILE2" }).u64(16);
        file.record(record_type::HEADER_ATTR, 0, |fields| {
            fields.raw(&attr.encode());
        });
        file.record(record_type::HEADER_FEATURE, 0, |fields| {
            fields.u64(PMU_MAPPINGS).u32(1).u32(IBS_OP).u32(8).text("ibs_op");
        });
        for (time, data3) in [(100, LOAD), (200, 0)] {
            let mut raw = Encoder::new(ByteOrder::NATIVE);
            raw.u32(0);
            for word in [0, 0x40_1000, 400 << 16, 0, data3, 0x7f00_1000, 0] {
                raw.u64(word);
            }
            let raw = raw.bytes().to_vec();
            let misc = misc_bits::CPUMODE_USER;
            let (ip, pid, tid, period) = (0x40_1000, 7, 7, 50_000);
            file.sample(
                &attr,
                &SyntheticSample { misc, ip, pid, tid, time, period, raw, ..SyntheticSample::default() },
            );
        }
        let scratch = tempfile::tempdir().unwrap();
        let (input, output) = (scratch.path().join("perf.data"), scratch.path().join("session"));
        std::fs::write(&input, file.bytes()).unwrap();
        import(&ImportOptions { input, output: output.clone(), columns: None }, &mut |_| ()).unwrap();

        let session = Session::open(&output).unwrap();
        let samples = session.load(&session.processes()[0]).unwrap().part(0).unwrap().samples;
        let (load, other) = (samples.row(0), samples.row(1));
        assert_eq!((load.address.0, load.access_bytes, load.kind), (0x7f00_1000, 8, AccessKind::LOAD));
        assert_eq!((load.weight, load.served.latency_cycles), (50_000, Some(300)));
        assert_eq!((load.served.level, load.served.translation), (Some(MemoryLevel::L2), Some(Translation::L1)));
        assert_eq!((load.quality, other.quality, other.address.0), (Quality::Exact, Quality::NoMemory, 0));
    }
}
