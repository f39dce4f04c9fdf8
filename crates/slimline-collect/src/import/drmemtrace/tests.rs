use std::fs;
use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use proptest::prelude::*;
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::entry::written;
use super::*;
use crate::import::TracedKind;

const X86_64: u64 = 0x40;

/// What a thread's file begins with.
fn head(thread: u64) -> Vec<u8> {
    [written(25, 0, 5), written(28, 12, 5), written(28, 9, X86_64), written(22, 4, thread), written(24, 4, 9)].concat()
}

fn file(thread: u64, entries: &[(u16, u16, u64)]) -> Vec<u8> {
    let entries = entries.iter().flat_map(|&(kind, size, value)| written(kind, size, value));
    head(thread).into_iter().chain(entries).chain(written(26, 0, 0)).collect()
}

fn time(us: u64) -> (u16, u16, u64) {
    (28, 2, us)
}

/// A trace of files with these names.
fn trace(files: &[(&str, &[u8])]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let below = directory.path().join("trace");
    fs::create_dir(&below).unwrap();
    for (name, bytes) in files {
        fs::write(below.join(name), bytes).unwrap();
    }
    directory
}

/// File, thread, beginning, end, and what was accessed: its kind, address, bytes and instruction.
type Told = (u32, u64, u64, Option<u64>, Vec<(TracedKind, u64, u32, u64)>);

fn opened(path: &Path) -> DrmemtraceInput {
    match open_addresses(path).unwrap() {
        AddressInput::Drmemtrace(trace) => trace,
        AddressInput::Text(_) => panic!("{}: taken for text", path.display()),
    }
}

fn parts(path: &Path) -> Result<(Vec<Told>, DrmemtraceLosses), String> {
    let mut parts = Vec::new();
    let losses = read_drmemtrace(opened(path), &mut |part| {
        let accesses = part.accesses.iter().map(|(access, pc)| (access.kind, access.address, access.bytes, *pc));
        parts.push((part.file, part.thread, part.since_us, part.until_us, accesses.collect()));
    });
    losses.map(|losses| (parts, losses)).map_err(|error| error.to_string())
}

#[test]
fn parts_of_threads_come_in_the_order_of_time() {
    use TracedKind::{Fetch, Load, Store};
    let one = file(1, &[time(100), (10, 3, 0x40), (0, 8, 0x1000), time(300), (10, 2, 0x43), (1, 4, 0x1008)]);
    let two = file(2, &[time(200), (48, 2, 0x50), (0, 1, 0x2000)]);
    let directory = trace(&[("drmemtrace.a.1.trace", &one), ("drmemtrace.a.2.trace", &two)]);
    let (parts, losses) = parts(directory.path()).unwrap();
    let expected: [Told; 3] = [
        (0, 1, 100, Some(300), vec![(Fetch, 0x40, 3, 0x40), (Load, 0x1000, 8, 0x40)]),
        (1, 2, 200, None, vec![(Fetch, 0x50, 2, 0x50), (Load, 0x2000, 1, 0x50)]),
        (0, 1, 300, None, vec![(Fetch, 0x43, 2, 0x43), (Store, 0x1008, 4, 0x43)]),
    ];
    assert_eq!(parts, expected);
    assert_eq!(losses, DrmemtraceLosses::default());
}

#[test]
fn string_instructions_and_bundles_are_told_apart() {
    let entries = [
        time(1),
        (10, 2, 0x40),
        // Two instructions of 3 and 5 bytes behind it.
        (17, 2, 0x0503),
        // `rep movsb`: fetched once.
        (30, 2, 0x60),
        (0, 1, 0x1000),
        (30, 2, 0x60),
        (29, 2, 0x60),
        (0, 1, 0x1001),
        (2, 64, 0x2000),
        (20, 64, 0x2000),
        (28, 28, 0),
        (10, 4, 0xffff_8000_0000_0000),
        (28, 29, 0),
        (99, 0, 0),
    ];
    let directory = trace(&[("a.trace", &file(1, &entries))]);
    let (parts, losses) = parts(directory.path()).unwrap();
    let fetched: Vec<_> =
        parts[0].4.iter().filter(|access| access.0 == TracedKind::Fetch).map(|access| access.1).collect();
    assert_eq!(fetched, [0x40, 0x42, 0x45, 0x60, 0xffff_8000_0000_0000]);
    let loaded: Vec<_> =
        parts[0].4.iter().filter(|access| access.0 == TracedKind::Load).map(|access| (access.1, access.3)).collect();
    assert_eq!(loaded, [(0x1000, 0x60), (0x1001, 0x60)]);
    let expected = DrmemtraceLosses { prefetches: 1, flushes: 1, unknown: 1, ..DrmemtraceLosses::default() };
    assert_eq!(losses, expected);
}

#[test]
fn a_file_of_a_core_has_several_threads() {
    let entries = [time(1), (10, 2, 0x40), (0, 1, 0x1000), (22, 4, 7), (24, 4, 9), (0, 1, 0x1001)];
    let directory = trace(&[("a.trace", &file(1, &entries))]);
    let parts = parts(directory.path()).unwrap().0;
    let threads: Vec<_> = parts.iter().map(|part| (part.1, part.4.len())).collect();
    assert_eq!(threads, [(1, 2), (7, 1)]);
}

/// What a core ran: threads with a header and a footer each, one behind the other and by turns. The instruction of a thread and its
/// process go on with it, and idle cores (marker 33) write nothing that counts.
#[test]
fn threads_of_a_core_follow_each_other() {
    let begin = |thread, process| [(25, 0, 7), (28, 12, 7), (28, 9, 0x1_0e40), (22, 4, thread), (24, 4, process)];
    let mut entries = Vec::from(&begin(1, 10)[1..]);
    entries.extend([time(100), (10, 2, 0x40), (0, 8, 0x1000)]);
    entries.extend(begin(2, 20));
    entries.extend([time(200), (10, 4, 0x50), (0, 8, 0x2000), (23, 4, 2), (26, 0, 0), (28, 33, 0), (28, 32, 0)]);
    // Thread 1 goes on, with a loop of its string instruction.
    entries.extend([(22, 4, 1), (0, 8, 0x1008), (23, 4, 1), (26, 0, 0)]);
    entries.extend(begin(3, 20));
    entries.extend([time(300), (10, 2, 0x60), (1, 8, 0x3000), (23, 4, 3), (26, 0, 0), (28, 33, 0)]);
    let directory = trace(&[("drmemtrace.core.000000.trace", &file(1, &entries)[12 * 5..])]);
    let path = directory.path().join("trace/drmemtrace.core.000000.trace");
    let bytes = [written(25, 0, 7).to_vec(), fs::read(&path).unwrap()].concat();
    fs::write(&path, &bytes).unwrap();
    let mut told = Vec::new();
    let losses = read_drmemtrace(opened(directory.path()), &mut |part| {
        let data = part.accesses.iter().filter(|(access, _)| access.kind != TracedKind::Fetch);
        told.extend(data.map(|(access, pc)| (part.process, part.thread, part.since_us, access.address, *pc)));
    });
    let expected = [
        (10, 1, 100, 0x1000, 0x40),
        (20, 2, 200, 0x2000, 0x50),
        (10, 1, 200, 0x1008, 0x40),
        (20, 3, 300, 0x3000, 0x60),
    ];
    assert_eq!((told.as_slice(), losses.unwrap()), (&expected[..], DrmemtraceLosses::default()));
    // Without the last footer it is cut off, wherever others are.
    fs::write(&path, &bytes[..bytes.len() - 24]).unwrap();
    let idle = parts(directory.path()).unwrap().1;
    assert_eq!(idle, DrmemtraceLosses::default(), "what is behind the last footer of a core may be idle markers");
    fs::write(&path, &bytes[..bytes.len() - 36]).unwrap();
    assert_eq!(parts(directory.path()).unwrap().1, DrmemtraceLosses { cut_files: 1, ..DrmemtraceLosses::default() });
}

#[test]
fn what_stands_behind_a_footer_is_counted() {
    let whole = file(1, &[time(1), (10, 2, 0x40), (0, 1, 0x1000)]);
    let losses = |behind: &[u8]| {
        let (parts, losses) = parts(trace(&[("a.trace", &[&whole, behind].concat())]).path()).unwrap();
        assert_eq!(parts.iter().map(|part| part.4.len()).sum::<usize>(), 2);
        losses
    };
    assert_eq!(losses(&[]), DrmemtraceLosses::default());
    assert_eq!(losses(&[0; 7]), DrmemtraceLosses { cut_files: 1, ..DrmemtraceLosses::default() });
    // Records of zeros would be loads.
    assert_eq!(losses(&[0; 24]), DrmemtraceLosses { of_nobody: 2, ..DrmemtraceLosses::default() });
    assert_eq!(losses(&[0xee; 12]), DrmemtraceLosses { unknown: 1, ..DrmemtraceLosses::default() });
}

#[test]
fn one_file_of_a_trace_is_one() {
    let plain = file(1, &[time(1), (10, 2, 0x40), (0, 1, 0x1000)]);
    let gzip = gzip(&plain);
    let directory = trace(&[("drmemtrace.app.1.2.memtrace.gz", &gzip), ("schedule.log", b"no trace")]);
    let expected = parts(trace(&[("a.trace", &plain)]).path()).unwrap();
    assert_eq!(parts(directory.path()).unwrap(), expected);
    assert_eq!(parts(&directory.path().join("trace/drmemtrace.app.1.2.memtrace.gz")).unwrap(), expected);
    // Its name says nothing of it.
    for (name, bytes) in [("a", &plain), ("b.bin", &gzip)] {
        let directory = trace(&[(name, bytes)]);
        assert_eq!(parts(directory.path()).unwrap(), expected, "{name}");
        assert_eq!(parts(&directory.path().join("trace").join(name)).unwrap(), expected, "{name}");
    }
    let zipped = zip(&plain, CompressionMethod::Deflated);
    let directory = trace(&[("a.zip", &zipped)]);
    assert_eq!(parts(&directory.path().join("trace/a.zip")).unwrap(), expected);
    for several in [[&zipped[..], &zipped].concat(), [&zipped[..], b"more"].concat()] {
        let why = parts(trace(&[("a.trace.zip", &several)]).path()).unwrap_err();
        assert!(why.ends_with("other bytes are before or behind the zip file: are several files in one?"), "{why}");
    }
    let windows = trace(&[]);
    fs::create_dir(windows.path().join("trace/window.0001")).unwrap();
    fs::create_dir(windows.path().join("trace/window.0000")).unwrap();
    assert!(parts(windows.path()).unwrap_err().ends_with("trace/window.0000"));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn zip(bytes: &[u8], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(io::Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for (part, bytes) in bytes.chunks(50_000).enumerate() {
        zip.start_file(format!("chunk.{part:04}"), options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn packed_files_are_the_same() {
    let loads: Vec<_> = (0..9000).map(|load| (0, 8, 0x1000 + load * 8)).collect();
    let plain = file(1, &[&[time(1), (10, 2, 0x40)][..], &loads].concat());
    let expected = parts(trace(&[("a.trace", &plain)]).path()).unwrap();
    assert_eq!(expected.0.iter().map(|part| part.4.len()).sum::<usize>(), 9001);
    for packed in [gzip(&plain), plain.chunks(70_001).flat_map(gzip).collect()] {
        let directory = trace(&[("a.trace.gz", &packed)]);
        assert_eq!(parts(directory.path()).unwrap(), expected);
    }
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let directory = trace(&[("a.trace.zip", &zip(&plain, method))]);
        assert_eq!(parts(directory.path()).unwrap(), expected);
    }
    // Frames end within a record.
    for (mode, frame_bytes) in
        [(BlockMode::Independent, plain.len()), (BlockMode::Linked, plain.len()), (BlockMode::Linked, 50_003)]
    {
        let sizes = [BlockSize::Max256KB, BlockSize::Max64KB];
        let frames = plain.chunks(frame_bytes).zip(sizes.into_iter().cycle());
        let packed = frames.flat_map(|(bytes, size)| lz4_frame(bytes, mode, size)).collect::<Vec<_>>();
        let directory = trace(&[("a.trace.lz4", &packed)]);
        assert_eq!(parts(directory.path()).unwrap(), expected, "{mode:?} {frame_bytes}");
    }
}

fn lz4_frame(bytes: &[u8], mode: BlockMode, size: BlockSize) -> Vec<u8> {
    let info = FrameInfo::new().block_mode(mode).block_size(size).content_checksum(true);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[rustfmt::skip]
const LZ4_FILE: &[u8] = &[
    0x04, 0x22, 0x4d, 0x18, 0x64, 0x40, 0xa7, 0x47, 0x00, 0x00, 0x00, 0x62, 0x19, 0x00, 0x00, 0x00,
    0x05, 0x00, 0x01, 0x00, 0x37, 0x1c, 0x00, 0x0c, 0x0c, 0x00, 0x33, 0x09, 0x00, 0x40, 0x0c, 0x00,
    0x53, 0x16, 0x00, 0x04, 0x00, 0x01, 0x0c, 0x00, 0x55, 0x18, 0x00, 0x04, 0x00, 0x09, 0x24, 0x00,
    0x15, 0x02, 0x18, 0x00, 0x35, 0x0a, 0x00, 0x02, 0x30, 0x00, 0x6f, 0x00, 0x00, 0x08, 0x00, 0x00,
    0x10, 0x0c, 0x00, 0xff, 0xc8, 0xc0, 0x1a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x39, 0x2a, 0x8c, 0x86,
];

#[test]
fn what_another_lz4_packs_is_read() {
    // `lz4 -9 -c` of lz4 1.9.4, of what the plain file has.
    let plain = file(1, &[&[time(1), (10, 2, 0x40)][..], &[(0, 8, 0x1000); 40]].concat());
    let directory = trace(&[("a.trace.lz4", LZ4_FILE)]);
    assert_eq!(parts(directory.path()), parts(trace(&[("a.trace", &plain)]).path()));
}

#[test]
fn thousands_of_threads_need_few_descriptors() {
    let files: Vec<_> = (0..2000)
        .map(|thread: u64| {
            // Two parts each, in the order of threads and then against it.
            let entries =
                [time(thread), (10, 2, 0x40), (0, 8, thread), time(9000 - thread), (10, 2, 0x42), (1, 8, thread)];
            (format!("{thread:04}.trace"), file(thread + 1, &entries))
        })
        .collect();
    let directory = trace(&files.iter().map(|(name, bytes)| (&**name, &**bytes)).collect::<Vec<_>>());
    let here = fs::canonicalize(directory.path()).unwrap();
    let is_here = |entry: io::Result<fs::DirEntry>| {
        fs::read_link(entry.unwrap().path()).is_ok_and(|opened| opened.starts_with(&here))
    };
    let (mut most_open, mut threads) = (0, Vec::new());
    read_drmemtrace(opened(directory.path()), &mut |part| {
        most_open = most_open.max(fs::read_dir("/proc/self/fd").unwrap().map(is_here).filter(|is| *is).count());
        assert_eq!(part.accesses.len(), 2);
        threads.push(part.thread);
    })
    .unwrap();
    assert!((1..=64).contains(&most_open), "{most_open}");
    assert!(threads.iter().copied().eq((1..=2000).chain((1..=2000).rev())));
}

#[test]
fn what_is_cut_off_is_read_up_to_there() {
    let whole = file(1, &[time(1), (10, 2, 0x40), (0, 1, 0x1000), (0, 1, 0x1001)]);
    // The footer, and half of what comes before it.
    let directory = trace(&[("a.trace", &whole[..whole.len() - 18])]);
    let (cut, losses) = parts(directory.path()).unwrap();
    assert_eq!((cut[0].4.len(), losses.cut_files), (2, 1));
    // The end of a packing, behind all records.
    let packed = gzip(&whole);
    let directory = trace(&[("a.trace.gz", &packed[..packed.len() - 3])]);
    let (cut, losses) = parts(directory.path()).unwrap();
    assert_eq!((cut[0].4.len(), losses.cut_files), (3, 1));
}

#[test]
fn what_is_no_such_trace_is_told() {
    let line = |files: &[(&str, &[u8])]| {
        let directory = trace(files);
        let error = parts(directory.path()).unwrap_err();
        error.replace(&format!("{}", directory.path().display()), "DIR")
    };
    assert_eq!(line(&[]), "DIR: holds no access");
    assert_eq!(line(&[("a.trace", b"")]), "DIR/trace/a.trace: an empty file");
    assert_eq!(line(&[("a.trace", &file(1, &[time(1)]))]), "DIR: holds no access");
    let no_header = "DIR/trace/a.trace: not a trace that drmemtrace made of a 64-bit program: it has no header";
    assert_eq!(line(&[("a.trace", &head(1)[12..])]), no_header);
    let typed = |bits| [head(1), written(28, 9, bits).to_vec()].concat();
    assert_eq!(line(&[("a.trace", &typed(0x44))]), "DIR/trace/a.trace: a trace of instructions only, without data");
    assert_eq!(line(&[("a.trace", &typed(0x20))]), "DIR/trace/a.trace: a trace of a 32-bit program, which is not read");
    let packed = line(&[("a.trace.xz", b"\xfd7zXZ\0")]);
    assert!(
        packed.starts_with("DIR/trace/a.trace.xz: packed by xz, which is not read: unpack it first (xz -dc"),
        "{packed}"
    );
    assert!(line(&[("a.trace.lz4", b"no lz4 at all")]).starts_with("DIR/trace/a.trace.lz4: "));
    assert!(line(&[("a.trace.zip", b"no zip")]).starts_with("DIR/trace/a.trace.zip: "));
    assert!(line(&[("a.trace.gz", b"no gzip")]).starts_with("DIR/trace/a.trace.gz: "));
    let raw = tempfile::tempdir().unwrap();
    fs::create_dir(raw.path().join("raw")).unwrap();
    assert!(parts(raw.path()).unwrap_err().contains("drrun -t drmemtrace -indir"));
    assert!(is_drmemtrace(raw.path()) && !is_drmemtrace(trace(&[]).path()));
}

proptest! {
    /// Whatever stands in a file, each record is read once, and parts come in the order of time.
    #[test]
    fn any_records_are_survived(
        files in proptest::collection::vec(proptest::collection::vec((0..52_u16, 0..34_u16, 0..64_u64), 0..60), 1..4),
        cut in 0..40_usize,
    ) {
        let names: Vec<_> = (0..files.len()).map(|number| format!("{number}.trace")).collect();
        let bytes: Vec<_> = files.iter().map(|entries| {
            let mut bytes = file(1, entries);
            bytes.truncate(bytes.len() - cut);
            bytes
        }).collect();
        let directory = trace(&names.iter().zip(&bytes).map(|(name, bytes)| (&**name, &**bytes)).collect::<Vec<_>>());
        let Ok((parts, _)) = parts(directory.path()) else { return Ok(()) };
        prop_assert!(parts.is_sorted_by_key(|part| part.2));
        // A bundle has up to eight instructions.
        let at_most = files.iter().flatten().map(|(kind, ..)| if *kind == 17 { 8 } else { 1 }).sum::<usize>();
        prop_assert!(parts.iter().map(|part| part.4.len()).sum::<usize>() <= at_most);
    }
}
