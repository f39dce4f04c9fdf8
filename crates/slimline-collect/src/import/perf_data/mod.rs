//! perf.data: what `perf record` and `perf mem record` write, into a file or into a pipe.
//!
//! ```text
//!   layout ─► stream (decompress) ─► rounds (order of time) ─► recording ─► programs ─► session
//!         └─► attributes, features (in pipe mode among the records) ─┘
//! ```
//!
//! The file is read once from its begin to its end; what is held is the records of the rounds that are not finished, and
//! the rows of each program's next part.

mod clock;
mod features;
mod layout;
mod recording;
mod rounds;
mod stream;

use std::io::{BufReader, Read, Seek};

use super::description::Description;
use super::input::{BUFFER_BYTES, Input};
use super::{ImportError, Programs};
use layout::{Layout, SectionReader, read_layout};
use recording::{Recording, Stop};
use stream::{End, Item, RecordStream};

/// Records between two reports of progress.
const RECORDS_PER_REPORT: u32 = 4096;

/// Reads a recording into `programs`.
///
/// # Errors
/// It is none, or can't be read; what it holds up to where it is cut is no error.
pub(super) fn read(
    input: Input,
    programs: &mut Programs,
    progress: &mut dyn FnMut(u64),
) -> Result<Description, ImportError> {
    let Layout { order, sections: None } = read_layout(&mut input.begin())? else {
        let (file, is_cut) = input.into_file().map_err(ImportError::Read)?;
        return read_file(BufReader::with_capacity(BUFFER_BYTES, file), is_cut, programs, progress);
    };
    let mut pipe = input.into_stream();
    read_layout(&mut pipe)?;
    read_records(Recording::new(order), RecordStream::new(pipe, order, None), programs, progress)
}

/// Reads a recording of which parts lie behind its records.
fn read_file<F: Read + Seek>(
    mut file: F,
    is_cut: bool,
    programs: &mut Programs,
    progress: &mut dyn FnMut(u64),
) -> Result<Description, ImportError> {
    let Layout { order, sections } = read_layout(&mut file)?;
    let mut recording = Recording::new(order);
    let mut bytes = None;
    if let Some(sections) = sections {
        let mut reader = SectionReader::new(&mut file, order);
        sections.read_features(&mut reader, |number, feature| recording.take_feature(number, feature))?;
        for (attr, ids) in sections.read_attrs(&mut reader)? {
            recording.add_event(attr, ids)?;
        }
        let described = reader.end();
        bytes = Some(sections.data.bytes).filter(|&bytes| bytes > 0);
        match bytes {
            Some(_) => recording.passed_behind(sections.bytes_behind(&mut file, described)?),
            None => recording.was_not_closed(),
        }
        sections.seek_records(&mut file)?;
    }
    if is_cut {
        recording.stop(Stop::Truncated);
    }
    read_records(recording, RecordStream::new(file, order, bytes), programs, progress)
}

fn read_records<R: Read>(
    mut recording: Recording,
    mut stream: RecordStream<R>,
    programs: &mut Programs,
    progress: &mut dyn FnMut(u64),
) -> Result<Description, ImportError> {
    let mut until_report = 0_u32;
    while let Some(item) = stream.next()? {
        match item {
            Item::Record(record) => recording.take(&record, programs)?,
            Item::Aux(piece) => recording.take_aux(piece, programs)?,
        }
        if recording.reads_aux() {
            stream.read_aux();
        }
        if until_report == 0 {
            progress(stream.read_bytes());
            until_report = RECORDS_PER_REPORT;
        }
        until_report -= 1;
    }
    recording.passed_aux(stream.aux_bytes());
    recording.passed_behind(stream.trailing_bytes());
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
    use slimline_trace::session::{Session, WeightUnit};
    use slimline_trace::tables::StackEnd;
    use slimline_trace::wire::Quality;

    use crate::import::{ImportError, ImportOptions, import};
    use crate::perf_event::encode::{Encoder, SyntheticSample};
    use crate::perf_event::{ByteOrder, EventAttr, Flags, misc_bits, record_type, sample_type};

    /// A pipe of these events' attributes, and what `write` writes, as a session, or why it is none.
    fn imported(
        attrs: &[EventAttr],
        write: impl FnOnce(&mut Encoder),
    ) -> Result<(tempfile::TempDir, Session), ImportError> {
        let mut file = Encoder::new(ByteOrder::NATIVE);
        file.raw(if cfg!(target_endian = "big") { b"2ELIFREP" } else { b"PERFILE2" }).u64(16);
        for (id, attr) in (1..).zip(attrs) {
            file.record(record_type::HEADER_ATTR, 0, |fields| {
                fields.raw(&attr.encode()).u64(id);
            });
        }
        write(&mut file);
        let scratch = tempfile::tempdir().unwrap();
        let (input, output) = (scratch.path().join("perf.data"), scratch.path().join("session"));
        std::fs::write(&input, file.bytes()).unwrap();
        import(&ImportOptions { input, output: output.clone(), columns: None }, &mut |_| ())?;
        Ok((scratch, Session::open(&output).unwrap()))
    }

    /// A sample of the only thread of process 7.
    fn of_user() -> SyntheticSample {
        let (misc, ip) = (misc_bits::CPUMODE_USER, 0x40_1000);
        SyntheticSample { misc, ip, pid: 7, tid: 7, time: 100, ..SyntheticSample::default() }
    }

    const WHO: u64 = sample_type::IDENTIFIER | sample_type::IP | sample_type::TID | sample_type::TIME;

    #[test]
    fn of_two_events_one_weighs() {
        let attr = |config| EventAttr {
            config,
            sample_type: WHO | sample_type::PERIOD,
            period_or_frequency: 1000,
            ..EventAttr::default()
        };
        let attrs = [attr(3), attr(5)];
        let (_scratch, session) = imported(&attrs, |file| {
            for (event, period) in [(0, 10), (1, 500), (0, 20), (1, 600)] {
                let identifier = event as u64 + 1;
                file.sample(&attrs[event], &SyntheticSample { identifier, period, ..of_user() });
            }
        })
        .unwrap();
        let info = session.info();
        assert_eq!((info.processes[0].weight, info.processes[0].samples), (30, 4));
        let counts = info.imported.as_ref().unwrap();
        assert_eq!((counts.weighed_event.as_str(), counts.samples_without_weight), ("event type 0, config 0x3", 2));
    }

    /// A chain as long as the event allows was cut, whatever it allows.
    #[test]
    fn chains_cut_by_the_kernel_are_marked() {
        let attr = |max_stack| EventAttr {
            sample_type: WHO | sample_type::CALLCHAIN,
            period_or_frequency: 1000,
            max_stack,
            ..EventAttr::default()
        };
        let ends = |max_stack, frames: u64| {
            let attrs = [attr(max_stack)];
            let chain = [-512_i64 as u64].into_iter().chain(0x40_1000..0x40_1000 + frames).collect();
            let (_scratch, session) =
                imported(&attrs, |file| _ = file.sample(&attrs[0], &SyntheticSample { chain, ..of_user() })).unwrap();
            let process = session.load(&session.processes()[0]).unwrap();
            let stack = process.part(0).unwrap().samples.stack[0].unwrap();
            assert_eq!(process.stacks.frames(stack).len() as u64, frames - 1, "the first is the instruction itself");
            process.stacks.end(stack)
        };
        assert_eq!((ends(0, 127), ends(0, 126)), (StackEnd::Depth, StackEnd::Outermost));
        assert_eq!((ends(16, 16), ends(16, 15)), (StackEnd::Depth, StackEnd::Outermost));
        assert_eq!(ends(1000, 127), StackEnd::Outermost);
    }

    /// Data in a format that is not known: that is said, and not that there is none.
    #[test]
    fn aux_data_is_told() {
        let attrs = [EventAttr { sample_type: WHO, ..EventAttr::default() }];
        let aux = |file: &mut Encoder| {
            file.record(record_type::AUXTRACE, 0, |fields| {
                fields.u64(4096).u64(0).u64(0).u32(0).u32(0).u32(0).u32(0);
            });
            file.raw(&[0; 4096]);
        };
        let refused = imported(&attrs, aux).err().unwrap().to_string();
        assert!(refused.contains("4096 bytes of AUX data"), "{refused}");
        let (_scratch, session) = imported(&attrs, |file| {
            aux(file);
            file.sample(&attrs[0], &of_user());
        })
        .unwrap();
        assert_eq!(session.info().imported.as_ref().unwrap().aux_bytes, 4096);
    }

    /// Operations of Arm's profiling extension: those of the thread that runs on their CPU then, in the order of time with the
    /// kernel's records, whatever the file's order is.
    #[test]
    fn operations_of_arm_are_samples_of_their_thread() {
        const SPE: u32 = 9;
        let attr = EventAttr {
            kind: SPE,
            sample_type: sample_type::IP | sample_type::TID | sample_type::TIME | sample_type::CPU,
            flags: Flags::SAMPLE_ID_ALL,
            period_or_frequency: 4096,
            ..EventAttr::default()
        };
        let at = |pid, tid, time| SyntheticSample { pid, tid, time, cpu: 2, ..SyntheticSample::default() };
        // A load of 300 cycles that another core had, a store, and one of the kernel's; the counter's unit is 10 ns.
        let mut packets = Encoder::new(ByteOrder::Little);
        packets.raw(&[0xb0, 0x10, 0x10, 0x40, 0, 0, 0, 0, 0x80, 0x49, 0, 0x52, 0x16, 0x03, 0x98, 0x2c, 1]);
        packets.raw(&[0xb2, 0x08, 0x10, 0, 0, 0, 0x7f, 0, 0, 0x43, 0x9, 0x71, 30, 0, 0, 0, 0, 0, 0, 0]);
        packets.raw(&[0xb0, 0x14, 0x10, 0x40, 0, 0, 0, 0, 0x80, 0x49, 1, 0x71, 50, 0, 0, 0, 0, 0, 0, 0]);
        packets.raw(&[0xb0, 0x14, 0x10, 0x40, 0, 0, 0, 0xff, 0xa0, 0x49, 1, 0x71, 55, 0, 0, 0, 0, 0, 0, 0]);
        // Nobody is known to run there then, and a record that is cut.
        packets.raw(&[0xb0, 0x14, 0x10, 0x40, 0, 0, 0, 0, 0x80, 0x49, 1, 0x71, 5, 0, 0, 0, 0, 0, 0, 0]);
        packets.raw(&[0x49, 1, 0x71]);
        let (_scratch, session) = imported(std::slice::from_ref(&attr), |file| {
            for (number, text) in [(16_u64, "arm_spe_0"), (9, "0x00000000410fd0c1")] {
                file.record(record_type::HEADER_FEATURE, 0, |fields| {
                    fields.u64(number);
                    if number == 16 {
                        fields.u32(1).u32(SPE);
                    }
                    fields.u32(24).raw(text.as_bytes()).raw(&vec![0; 24 - text.len()]);
                });
            }
            file.record(record_type::TIME_CONV, 0, |fields| {
                fields.u64(0).u64(10).u64(0);
            });
            file.record(record_type::AUXTRACE_INFO, 0, |fields| {
                fields.u32(4).u32(0);
            });
            file.record(record_type::AUXTRACE, 0, |fields| {
                fields.u64(packets.bytes().len() as u64).u64(0).u64(0).u32(2).u32(u32::MAX).u32(2).u32(0);
            });
            file.raw(packets.bytes());
            file.comm(&attr, &at(7, 7, 100), 7, 7, "first", true);
            file.comm(&attr, &at(7, 7, 101), 7, 8, "second", false);
            file.with_trailer(&attr, &at(7, 8, 200), record_type::SWITCH, 0, |_| ());
            file.with_trailer(&attr, &at(7, 8, 400), record_type::SWITCH, misc_bits::SWITCH_OUT, |_| ());
            file.with_trailer(&attr, &at(7, 7, 401), record_type::SWITCH, 0, |_| ());
        })
        .unwrap();
        let info = session.info();
        assert_eq!(info.collector.weight, WeightUnit::LatencyCycles);
        let counts = info.imported.as_ref().unwrap();
        assert_eq!((counts.kernel_samples, counts.samples_without_thread, counts.malformed_records), (1, 1, 1));
        assert_eq!(counts.aux_bytes, 0, "all of it was read");
        let process = session.load(&session.processes()[0]).unwrap();
        let samples = process.part(0).unwrap().samples;
        assert_eq!((samples.time_ns.as_slice(), samples.len()), (&[300, 500][..], 2));
        let tids: Vec<u32> = samples.thread.iter().map(|thread| process.threads.tid[thread.index()]).collect();
        assert_eq!(tids, [8, 7]);
        let load = samples.row(0);
        assert_eq!((load.ip.0, load.address.0, load.kind), (0x40_1010, 0x7f00_0000_1008, AccessKind::LOAD));
        assert_eq!((load.weight, load.quality), (300, Quality::Exact));
        assert_eq!((load.served.level, load.served.hops), (Some(MemoryLevel::RemoteCache), Some(1)));
        assert_eq!((samples.kind[1], samples.quality[1]), (AccessKind::STORE, Quality::Lost));
    }

    /// Ops of AMD's sampling without any field of the kernel's: all is in the registers. `IBS_OP_DATA3` is of a load of 8
    /// bytes that missed the first level for 300 cycles, and of an op that touches no memory.
    #[test]
    fn registers_of_ibs_tell_what_the_kernel_was_not_asked_for() {
        const IBS_OP: u32 = 11;
        const PMU_MAPPINGS: u64 = 16;
        const LOAD: u64 = 1 | 1 << 7 | 1 << 17 | 4 << 22 | 300 << 32;
        let asked = sample_type::IP | sample_type::TID | sample_type::TIME | sample_type::PERIOD | sample_type::RAW;
        let period_or_frequency = 50_000;
        let attr = EventAttr { kind: IBS_OP, sample_type: asked, period_or_frequency, ..EventAttr::default() };
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
