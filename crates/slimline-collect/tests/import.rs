//! Recordings of perf become sessions that say what `perf script` says of them. `perf-data/README.md` tells how each
//! recording was made.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use slimline_collect::{
    ImportError, ImportOptions, ImportOutcome, TableLosses, TracedAccess, TracedKind, import, read_access_table,
};
use slimline_trace::access::AccessKind;
use slimline_trace::address::Avma;
use slimline_trace::served::{MemoryLevel, Snoop, Translation};
use slimline_trace::session::{Session, WeightUnit};
use slimline_trace::tables::{NameKind, Sample, Table, TracedAccesses, TracedKey, TracedKeys};
use slimline_trace::wire::Quality;
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/perf-data").join(name)
}

struct Imported {
    outcome: ImportOutcome,
    session: Session,
    _scratch: TempDir,
}

fn import_bytes(bytes: &[u8]) -> Result<Imported, ImportError> {
    let scratch = tempfile::tempdir().unwrap();
    let input = scratch.path().join("perf.data");
    fs::write(&input, bytes).unwrap();
    let options = ImportOptions { input, output: scratch.path().join("session"), columns: None };
    let outcome = import(&options, &mut |_| ()).inspect_err(|error| check_refusal(error, scratch.path()))?;
    let session = Session::open(&outcome.directory).unwrap();
    Ok(Imported { outcome, session, _scratch: scratch })
}

/// A refusal is one line, and leaves nothing behind but the input.
#[track_caller]
fn check_refusal(error: &ImportError, scratch: &Path) {
    let line = error.to_string();
    assert!(!line.is_empty() && !line.contains(char::is_control), "{line:?}");
    let left: Vec<_> = fs::read_dir(scratch).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["perf.data"], "{line}");
}

fn import_fixture(name: &str) -> Imported {
    import_bytes(&fs::read(fixture(name)).unwrap()).unwrap()
}

impl Imported {
    /// All samples, each with the number of its process and thread, and the thread's name.
    fn samples(&self) -> Vec<(u32, u32, String, Sample)> {
        let mut samples = Vec::new();
        for summary in self.session.processes() {
            let process = self.session.load(summary).unwrap();
            for part in process.parts() {
                for sample in part.unwrap().samples.iter() {
                    let thread = process.threads.row(sample.thread.index());
                    samples.push((summary.pid, thread.tid, thread.name, sample));
                }
            }
        }
        samples.sort_by_key(|(.., sample)| sample.time_ns);
        samples
    }
}

/// A sample as `perf script -F comm,pid,tid,time,event,ip,addr,period --ns` prints it.
#[derive(Debug, PartialEq)]
struct Line {
    pid: u32,
    tid: u32,
    comm: String,
    time_ns: u64,
    address: u64,
    ip: u64,
}

fn script(name: &str) -> Vec<Line> {
    let text = fs::read_to_string(fixture(name)).unwrap();
    let hex = |word: &str| u64::from_str_radix(word, 16).unwrap();
    text.lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (pid, tid) = words[1].split_once('/').unwrap();
            let (seconds, nanoseconds) = words[2].trim_end_matches(':').split_once('.').unwrap();
            Line {
                pid: pid.parse().unwrap(),
                tid: tid.parse().unwrap(),
                comm: words[0].to_owned(),
                time_ns: seconds.parse::<u64>().unwrap() * 1_000_000_000 + nanoseconds.parse::<u64>().unwrap(),
                address: hex(words[5]),
                ip: hex(words[6]),
            }
        })
        .collect()
}

/// In file mode, in pipe mode, and compressed: the same samples that perf sees.
#[test]
fn every_form_tells_what_perf_tells() {
    for name in ["file", "pipe", "zstd"] {
        let imported = import_fixture(&format!("{name}.data"));
        let expected = script(&format!("{name}.script"));
        let found: Vec<Line> = imported
            .samples()
            .into_iter()
            .map(|(pid, tid, comm, sample)| {
                let Sample { time_ns, address, ip, .. } = sample;
                Line { pid, tid, comm, time_ns, address: address.0, ip: ip.0 }
            })
            .collect();
        assert_eq!(found, expected, "{name}");
        let info = &imported.outcome.info;
        assert_eq!(info.collector.weight, WeightUnit::Period);
        assert_eq!(info.collector.events[0].name, "page-faults:u");
        assert_eq!(info.collector.events[0].period, Some(1));
        let counts = info.imported.as_ref().unwrap();
        assert_eq!((counts.malformed_records, counts.unknown_records.len()), (0, 0), "{name}: {counts:?}");
        assert!(info.command.iter().any(|word| word == "./touch"), "{:?}", info.command);
        assert!(!info.machine.cpu.is_empty());
        assert_eq!(info.processes[0].executable, "/tmp/fx/touch");
        assert_eq!(info.stopped_early, None);
    }
}

/// Each address lies in the mapping that the program's source says: 40 pages of a variable, 60 of a heap block.
#[test]
fn addresses_lie_where_the_program_put_its_data() {
    let imported = import_fixture("file.data");
    let process = imported.session.load(&imported.session.processes()[0]).unwrap();
    let mut by_path: BTreeMap<String, usize> = BTreeMap::new();
    for (.., sample) in imported.samples() {
        let holds = |row: &usize| {
            let mapping = process.mappings.row(*row);
            (mapping.start..mapping.end).contains(&sample.address)
                && (mapping.first_seen_ns..=mapping.last_seen_ns).contains(&sample.time_ns)
        };
        let mut rows = (0..process.mappings.len()).filter(holds);
        let row = rows.next().unwrap_or_else(|| panic!("{sample:?} is in no mapping"));
        assert_eq!(rows.next(), None, "mappings of one time do not overlap");
        *by_path.entry(process.mappings.path[row].clone()).or_default() += 1;
        assert_eq!((sample.quality, sample.weight), (Quality::Exact, 1));
    }
    assert!(by_path[""] >= 100, "{by_path:?}");
    assert!(by_path.contains_key("[stack]") && by_path.contains_key("/tmp/fx/touch"), "{by_path:?}");
}

#[test]
fn call_chains_become_call_paths() {
    let imported = import_fixture("zstd.data");
    let process = imported.session.load(&imported.session.processes()[0]).unwrap();
    let chains: Vec<usize> = imported
        .samples()
        .iter()
        .map(|(.., sample)| sample.stack.map_or(0, |stack| process.stacks.frames(stack).len()))
        .collect();
    // perf script: the first fault is in `_start` of the loader, which nobody called; the second in a callee of it.
    assert_eq!(chains[..2], [0, 1]);
    assert!(process.stacks.iter().all(|(_, frames)| frames.iter().all(|frame| frame.0 < 1 << 63)));
}

/// Where one event counts time and another one faults, time is what is weighed.
#[test]
fn events_that_count_something_else_weigh_nothing() {
    let imported = import_fixture("two.data");
    let info = &imported.outcome.info;
    assert_eq!(info.collector.weight, WeightUnit::TimeNs);
    let (mut clock, mut faults) = (0, 0);
    for (.., sample) in imported.samples() {
        if sample.weight > 0 {
            assert_eq!((sample.weight, sample.quality, sample.address.0), (5_000_000, Quality::NoCode, 0));
            clock += 1;
        } else {
            assert_eq!(sample.quality, Quality::Exact);
            faults += 1;
        }
    }
    // As `perf script` counts them: 7 and 146.
    assert_eq!((clock, faults), (7, 146));
    let counts = info.imported.as_ref().unwrap();
    assert_eq!((counts.samples_without_weight, counts.samples_without_address), (146, 7));
    assert_eq!((info.processes[0].weight, info.collector.period_ns), (35_000_000, 5_000_000));
}

/// What `perf script` says of the samples of programs; those of the kernel are counted.
#[test]
fn latencies_and_levels_of_a_xeon() {
    let imported = import_fixture("weight_struct.data");
    let info = &imported.outcome.info;
    assert_eq!(info.collector.weight, WeightUnit::LatencyCycles);
    assert_eq!((info.machine.host.as_str(), info.machine.logical_cpus), ("host.example", 112));
    let found: Vec<_> = imported
        .samples()
        .into_iter()
        .map(|(pid, tid, _, sample)| {
            assert_eq!(sample.kind.bits() & AccessKind::LOAD.bits(), 1);
            let served = sample.served;
            assert_eq!((sample.weight, served.snoop), (served.latency_cycles.unwrap().into(), Some(Snoop::None)));
            let at = (sample.ip.0, sample.address.0);
            (pid, tid, at, sample.weight, served.level, served.translation, served.locked)
        })
        .collect();
    let (buffer, l1, l3) = (MemoryLevel::LineFillBuffer, MemoryLevel::L1, MemoryLevel::L3);
    let (hit, walk) = (Translation::Tlb, Translation::Walk);
    let expected = [
        (17662, 20595, (0x12d_aae4, 0x4a1_cba7_6618), 70, buffer, hit, false),
        (17575, 19460, (0x29d_9c67, 0x4e7_ca80), 92, l1, hit, true),
        (17564, 19360, (0x1ad_a15a, 0x4482_53ad_3300), 240, l3, walk, false),
        (17575, 20391, (0x19b_3df9, 0x4609_440b_d6d0), 117, l3, hit, false),
        (17654, 19892, (0x561c_92f3_f3ed, 0x7fc3_ada9_f408), 168, l1, hit, false),
    ]
    .map(|(pid, tid, at, cycles, level, translation, locked)| {
        (pid, tid, at, cycles, Some(level), Some(translation), Some(locked))
    });
    assert_eq!(found, expected);
    let counts = info.imported.as_ref().unwrap();
    // The nine others, and the sum of their latencies.
    assert_eq!((counts.kernel_samples, counts.kernel_weight), (9, 225 + 96 + 71 + 77 + 70 + 81 + 80 + 89 + 249));
}

/// Cut anywhere, the file is refused with a reason, or what it holds up to there is imported and said to be cut.
#[test]
fn files_cut_anywhere_are_refused_or_imported_up_to_there() {
    for name in ["file.data", "pipe.data", "zstd.data"] {
        let whole = fs::read(fixture(name)).unwrap();
        let all = import_bytes(&whole).unwrap().samples().len();
        let (mut refused, mut cut) = (0, 0);
        for end in (0..whole.len()).step_by(whole.len() / 40) {
            match import_bytes(&whole[..end]) {
                Ok(imported) => {
                    cut += u32::from(imported.outcome.info.stopped_early.is_some());
                    assert!(imported.samples().len() <= all);
                }
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 0 && cut > 0, "{name}: {refused} refused, {cut} cut");
    }
}

/// Any byte may be wrong: there is a reason or a session, never a panic, and nothing is left behind where it is refused.
#[test]
fn damaged_files_are_no_panic() {
    for name in ["file.data", "pipe.data", "zstd.data", "weight_struct.data"] {
        let whole = fs::read(fixture(name)).unwrap();
        let (mut refused, mut taken) = (0, 0);
        for at in (0..whole.len()).step_by(whole.len() / 30) {
            for value in [0, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                match import_bytes(&damaged) {
                    Err(_) => refused += 1,
                    Ok(imported) => {
                        let samples: u64 = imported.session.processes().iter().map(|process| process.samples).sum();
                        assert_eq!(imported.samples().len() as u64, samples, "{name}: {value:#x} at {at}");
                        taken += 1;
                    }
                }
            }
        }
        assert!(refused > 0 && taken > 0, "{name}: {refused} refused, {taken} taken");
    }
}

#[test]
fn foreign_files_are_refused_in_one_line() {
    let refused = |bytes: &[u8]| import_bytes(bytes).err().unwrap().to_string();
    for foreign in [&b""[..], b"variable,line,latency\nm_x,7,30\n", &[0; 200]] {
        assert!(refused(foreign).starts_with("not a perf.data file"));
    }
    let zipped = refused(b"PK\x03\x04");
    assert!(zipped.contains("zip") && zipped.contains("unzip"), "{zipped}");
    assert!(refused(b"PERFFILE\x68\0\0\0\0\0\0\0").contains("version 1"));
    assert!(refused(b"PERFILE2\x70\0\0\0\0\0\0\0").contains("a perf.data header of 112 bytes"));
    assert_eq!(refused(b"PERFILE2\x68\0\0\0\0\0\0\0\x88"), "truncated: it ends within its header");
    assert_eq!(refused(b"PERFILE2\x10\0\0\0\0\0\0\0"), "it has no events");

    // An event with a sample field that no kernel had yet.
    let mut newer = fs::read(fixture("pipe.data")).unwrap();
    let attr = 16 + 8; // pipe header, record header
    newer[attr + 24 + 3] |= 0x40; // sample_type, bit 30
    let error = refused(&newer);
    assert!(error.starts_with("recorded by a newer perf: ") && error.contains("0x40000000"), "{error}");

    let scratch = tempfile::tempdir().unwrap();
    let [missing, output] = ["missing", "session"].map(|name| scratch.path().join(name));
    let options = ImportOptions { input: missing, output, columns: None };
    assert!(matches!(import(&options, &mut |_| ()), Err(ImportError::Read(_))));
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    // As `perf record --threads` makes one.
    let options =
        ImportOptions { input: scratch.path().to_owned(), output: scratch.path().join("session"), columns: None };
    let refused = import(&options, &mut |_| ()).unwrap_err().to_string();
    assert!(refused.starts_with("a directory, as `perf record --threads` makes one"), "{refused}");
}

/// What was there before stays, where there is nothing to put in its place.
#[test]
fn a_file_that_is_refused_costs_no_session() {
    let scratch = tempfile::tempdir().unwrap();
    let output = scratch.path().join("session");
    let import_into =
        |input: PathBuf| import(&ImportOptions { input, output: output.clone(), columns: None }, &mut |_| ());
    import_into(fixture("file.data")).unwrap();
    assert!(import_into(fixture("README.md")).is_err());
    assert_eq!(Session::open(&output).unwrap().processes().len(), 1);
    let left: Vec<_> = fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["session"]);
}

const LULESH: &str = "variable=variable,file=source,line=line,time=time:hex,latency=latency,level=dataSource:pebs,\
                      cpu=cpu,index=index*8";

fn table(content: impl AsRef<[u8]>, columns: &str) -> Result<Imported, ImportError> {
    let scratch = tempfile::tempdir().unwrap();
    let input = scratch.path().join("samples.csv");
    fs::write(&input, content).unwrap();
    let columns = Some(columns.parse().unwrap());
    let outcome = import(&ImportOptions { input, output: scratch.path().join("session"), columns }, &mut |_| ())?;
    let session = Session::open(&outcome.directory).unwrap();
    Ok(Imported { outcome, session, _scratch: scratch })
}

/// Every variable has the latency that a sum over the table's own text gives, and each line its own.
#[test]
fn a_table_of_samples_keeps_its_names_and_weights() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables/lulesh.csv");
    let text = fs::read_to_string(path).unwrap();
    let mut expected: BTreeMap<(String, String), u64> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let place = if cells[1] == "??" { String::new() } else { format!("{}:{}", cells[1], cells[2]) };
        *expected.entry((cells[0].to_owned(), place)).or_default() += cells[5].parse::<u64>().unwrap();
    }
    let imported = table(&text, LULESH).unwrap();
    let process = imported.session.load(&imported.session.processes()[0]).unwrap();
    let name_at = |address: Avma, kind: NameKind| {
        process.names.iter().find(|name| name.kind == kind && (name.start..name.end).contains(&address))
    };
    let mut found: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (_, tid, thread, sample) in imported.samples() {
        let variable = name_at(sample.address, NameKind::Variable).unwrap().name;
        let place =
            name_at(sample.ip, NameKind::Code).map_or_else(String::new, |at| format!("{}:{}", at.file, at.line));
        *found.entry((variable, place)).or_default() += sample.weight;
        assert_eq!(thread, format!("CPU {tid}"));
        assert_eq!(sample.served.latency_cycles.map(u64::from), Some(sample.weight));
        assert!(sample.served.translation.is_some());
    }
    assert_eq!(found, expected);
    let info = &imported.outcome.info;
    assert_eq!(
        (info.collector.weight, info.imported.as_ref().unwrap().malformed_records),
        (WeightUnit::LatencyCycles, 0)
    );
    // The first and the last time of the file, in hexadecimal there.
    let times = text.lines().skip(1).map(|line| u64::from_str_radix(line.split(',').nth(3).unwrap(), 16).unwrap());
    assert_eq!((Some(info.started_ns), Some(info.ended_ns)), (times.clone().min(), times.max()));
}

#[test]
fn tables_that_are_not_as_said_are_refused_in_one_line() {
    let refused = |text: &str, columns| table(text, columns).err().unwrap().to_string();
    let map = "variable=name,latency=cycles";
    assert_eq!(refused("name,cost\na,1\n", map), "has no column `cycles`; it has name, cost");
    assert_eq!(refused("\"na\nme\",cost\na,1\n", map), "has no column `name`; it has na\\nme, cost");
    assert_eq!(refused("name,cycles\na,many\nb,1.5\n", map), "line 2: `many` in column `cycles` can't be read");
    assert_eq!(refused("name,cycles\na\n", map), "line 2: it ends before its column `cycles`");
    assert_eq!(refused("name,cycles\n", map), "none of its samples can be imported: there are none");

    // Numbers that the kernel does not have are not cut to others.
    let process = "name,pid\na,4294967296\n";
    assert_eq!(refused(process, "variable=name,process=pid"), "line 2: `4294967296` in column `pid` can't be read");
    assert_eq!(refused(process, "variable=name,thread=pid"), "line 2: `4294967296` in column `pid` can't be read");
    assert_eq!(refused(process, "variable=name,cpu=pid"), "line 2: `4294967296` in column `pid` can't be read");
    // A quote that is not closed.
    let endless = format!("name,cycles\na,7\n\"b,{}", "1,2\n".repeat(1 << 20));
    assert_eq!(refused(&endless, map), "line 3: longer than 1024 KiB: a quote that is not closed, or no table");
    assert_eq!(
        refused(&"x".repeat(3 << 20), map),
        "line 1: longer than 1024 KiB: a quote that is not closed, or no table"
    );

    // One bad row among others is counted.
    let imported = table("name,cycles\na,7\nb,many\n\"c, d\",9\n", map).unwrap();
    let process = imported.session.load(&imported.session.processes()[0]).unwrap();
    assert_eq!(process.names.name, ["a", "c, d"]);
    assert_eq!(imported.outcome.info.imported.as_ref().unwrap().malformed_records, 1);
}

/// A row that tells no time is as late as the one before, and no time is told of a table that has none.
#[test]
fn rows_without_a_time_are_not_of_the_year_1970() {
    let map = "variable=name,latency=cycles,time=at";
    let imported = table("name,cycles,at\na,7,5000\nb,8,?\nc,9,6000\n", map).unwrap();
    let times: Vec<u64> = imported.samples().iter().map(|(.., sample)| sample.time_ns).collect();
    assert_eq!(times, [5000, 5000, 6000]);
    let info = &imported.outcome.info;
    assert_eq!((info.started_ns, info.ended_ns), (5000, 6000));
    let process = &info.processes[0];
    assert_eq!((process.started_ns, process.ended_ns), (5000, 6000));
}

/// Two events that count different things: their sum is nothing.
#[test]
fn one_of_several_events_weighs_and_it_is_said_which() {
    let imported = import_fixture("two.data");
    let counts = imported.outcome.info.imported.as_ref().unwrap();
    assert!(counts.weighed_event.contains("cpu-clock"), "{}", counts.weighed_event);
    assert_eq!(counts.samples_without_weight, 146);
    assert!(import_fixture("file.data").outcome.info.imported.unwrap().weighed_event.starts_with("page-faults"));
}

/// More variables than addresses can tell apart: what is beyond is counted apart.
#[test]
fn variables_without_an_address_are_counted_as_such() {
    let rows: String = (0..65_540).map(|number| format!("v{number},1\n")).collect();
    let imported = table(format!("name,cycles\n{rows}?,3\n"), "variable=name,latency=cycles").unwrap();
    let counts = imported.outcome.info.imported.as_ref().unwrap();
    assert_eq!((counts.samples_of_other_variables, counts.samples_without_address), (5, 1));
}

/// Parquet: of each name how often it is there, and by which thread; whatever the file is called.
fn parquet_of_keys() -> Vec<u8> {
    let mut keys = TracedKeys::default();
    for (key, data) in [(0, Some("list")), (1, None), (2, Some("tree"))] {
        keys.push(TracedKey {
            key,
            data_number: key,
            kind: "heap".to_owned(),
            data: data.map(str::to_owned),
            type_name: None,
            allocated_at: None,
            callers: None,
            blocks: 0,
            peak_bytes: 0,
            variable: None,
            field: None,
            function: Some("walk".to_owned()),
            line: None,
            process: 0,
            tid: 70 + key,
            accesses: 10 + u64::from(key),
        });
    }
    keys.to_parquet().unwrap()
}

#[test]
fn samples_of_parquet_are_those_of_text() {
    let columns = "variable=data,latency=accesses,thread=tid,function=function";
    let told = |imported: &Imported| {
        let samples = imported.samples().into_iter();
        let mut samples: Vec<_> = samples.map(|(_, tid, _, sample)| (tid, sample.weight, sample.address)).collect();
        samples.sort_unstable();
        let process = imported.session.load(&imported.session.processes()[0]).unwrap();
        (samples, process.names)
    };
    let of_parquet = told(&table(parquet_of_keys(), columns).unwrap());
    let text = "accesses,data,function,tid\n10,list,walk,70\n11,,walk,71\n12,tree,walk,72\n";
    assert_eq!(of_parquet, told(&table(text, columns).unwrap()));
    assert_eq!(
        of_parquet.0.iter().map(|sample| (sample.0, sample.1)).collect::<Vec<_>>(),
        [(70, 10), (71, 11), (72, 12)]
    );
    let refused = |content: &[u8], columns| table(content, columns).err().unwrap().to_string();
    let missing = refused(&parquet_of_keys(), "variable=name");
    assert!(missing.starts_with("has no column `name`; it has key, data_number, kind, data"), "{missing}");
    assert_eq!(refused(&parquet_of_keys(), "variable=data,line=kind"), "row 1: `heap` in column `kind` can't be read");
    let cut = refused(&parquet_of_keys()[..200], "variable=data");
    assert!(!cut.is_empty() && !cut.contains(char::is_control), "{cut:?}");
}

/// An access with its thread and function.
type Told = (TracedAccess, u32, String);

/// What a table of accesses tells.
fn accesses(content: impl AsRef<[u8]>, columns: &str) -> Result<(Vec<Told>, TableLosses), String> {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("accesses");
    fs::write(&file, content).unwrap();
    let mut found = Vec::new();
    let read = read_access_table(&file, &columns.parse().unwrap(), &mut |row| {
        found.push((row.access, row.thread, row.function.to_owned()));
    });
    read.map(|losses| (found, losses)).map_err(|error| error.to_string())
}

#[test]
fn accesses_of_parquet_are_those_of_text() {
    use TracedKind::{Load, Modify, Store};
    let text = "at,wide,what,cpu,by\n0x10,8,R,3,walk\n0x18,4,W,?,\n0xffffffffffffffff,1,RW,0,walk\n";
    let access = |address, bytes, kind| TracedAccess { address, bytes, kind };
    let expected = vec![
        (access(16, 8, Load), 3, "walk".to_owned()),
        (access(24, 4, Store), 0, String::new()),
        (access(u64::MAX, 1, Modify), 0, "walk".to_owned()),
    ];
    let found = accesses(text, "address=at,size=wide,kind=what,cpu=cpu,function=by").unwrap();
    assert_eq!(found, (expected, TableLosses::default()));
    let mut rows = TracedAccesses::default();
    for at in 0..100_000_u32 {
        let address = Avma(u64::from(at) * 8);
        rows.push(slimline_trace::tables::TracedAccess {
            key: at % 3,
            address,
            bytes: 8,
            loads: true,
            stores: at % 2 == 1,
        });
    }
    let (found, losses) =
        accesses(rows.to_parquet().unwrap(), "address=address,size=bytes,kind=stores,thread=key").unwrap();
    let expected = (0..100_000_u32)
        .map(|at| (access(u64::from(at) * 8, 8, if at % 2 == 1 { Store } else { Load }), at % 3, String::new()));
    assert!(found.into_iter().eq(expected) && losses == TableLosses::default());
}

#[test]
fn tables_of_accesses_that_are_not_as_said_are_refused_in_one_line() {
    let refused = |text: &str, columns| accesses(text, columns).unwrap_err();
    assert_eq!(refused("at\n", "address=at"), "holds no access");
    assert_eq!(refused("at\n?\n", "address=at"), "holds no access");
    assert_eq!(refused("at\n1\nx\n", "address=at"), "line 3: `x` in column `at` can't be read");
    assert_eq!(refused("at,n\n1,0\n", "address=at,size=n"), "line 2: a size that no access has");
    assert_eq!(refused("at,n\n1,5000\n", "address=at,size=n"), "line 2: a size that no access has");
    assert_eq!(refused("at,n\n1,jump\n", "address=at,kind=n"), "line 2: `jump` in column `n` can't be read");
    assert_eq!(refused("n\na\n", "variable=n"), "tells no `address`");
    assert_eq!(refused("at,n\n1,2\n", "address=at,latency=n"), "`latency` is of samples, not of accesses");
    let rows = accesses(parquet_of_keys(), "address=accesses,size=key").unwrap_err();
    assert_eq!(rows, "row 1: a size that no access has");
}
