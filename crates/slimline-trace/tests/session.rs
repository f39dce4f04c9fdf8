//! Sessions as readers meet them: whole, cut off, damaged, foreign.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use slimline_trace::access::AccessKind;
use slimline_trace::address::{Avma, FileOffset, PhysicalAddress};
use slimline_trace::served::{MemoryLevel, Served, Snoop, Translation};
use slimline_trace::session::*;
use slimline_trace::tables::*;
use slimline_trace::wire::{BurstEnd, Quality};

use session_info::{info, summary};

mod session_info;

/// Rows of one part: two windows of two and one accesses.
#[derive(Default)]
struct Rows {
    stacks: StackFrames,
    blocks: Blocks,
    samples: Samples,
    accesses: Accesses,
    dead_ranges: Ranges,
    live_ranges: Ranges,
    ended_mappings: Mappings,
    mappings: Mappings,
    threads: Threads,
    paths: Paths,
    names: Names,
}

fn range(base: u64, died_ns: Option<u64>) -> Range {
    Range {
        base: Avma(base),
        bytes: 1 << 20,
        born_ns: 120,
        died_ns,
        stack: None,
        origin: RangeOrigin::Heap,
        source: RangeSource::default(),
    }
}

fn rows(part: u32) -> Rows {
    let mut rows = Rows::default();
    let stack = StackRow::new(part as usize);
    rows.stacks.push_stack(stack, [Avma(0x401_000), Avma(0x402_000 + u64::from(part))], StackEnd::Depth);
    rows.blocks.push(Block {
        base: Avma(0x5000),
        bytes: 48,
        stack: Some(stack),
        chance: Chance { follow_shift: Some(3) },
    });
    for window in 0..2_u32 {
        let accesses = 2 - window;
        rows.samples.push(Sample {
            time_ns: 200 + u64::from(window),
            thread: ThreadRow::new(0),
            cpu_ns: 100 + u64::from(window),
            weight: 1_000_000,
            sampled_ip: Avma(0x401_008),
            ip: Avma(0x401_004),
            address: Avma(0x5008),
            stack_pointer: Avma(0x7fff_0000_0000),
            access_bytes: 8,
            kind: AccessKind::LOAD,
            quality: Quality::Inverted,
            block: Some(BlockRow::new(0)),
            stack: Some(stack),
            accesses,
            burst_instructions: 300,
            burst_end: BurstEnd::Limit,
            served: Served::UNKNOWN,
            within: Within::default(),
        });
        for access in 0..accesses {
            rows.accesses.push(Access {
                window: part * 2 + window,
                ip: Avma(0x401_004),
                address: Avma(0x5008 + u64::from(access)),
                bytes: 256,
                kind: AccessKind::LOAD_STORE.atomic(),
                block: (access == 0).then(|| BlockRow::new(0)),
            });
        }
    }
    rows.dead_ranges.push(range(0x10_0000 * u64::from(part + 1), Some(150)));
    rows.live_ranges.push(range(0x900_0000, None));
    let mapping = Mapping {
        start: Avma(0x40_0000),
        end: Avma(0x40_2000),
        file_offset: FileOffset(0),
        permissions: "r-xp".into(),
        device: "fe:00".into(),
        inode: 12,
        path: "/opt/program".into(),
        first_seen_ns: 100,
        last_seen_ns: 200 + u64::from(part),
    };
    rows.ended_mappings.push(Mapping { path: format!("/opt/gone {part}"), ..mapping.clone() });
    rows.mappings.push(mapping);
    let (name, kind) = (format!("variable {part}"), NameKind::Variable);
    let named = Name { start: Avma(0x9000), end: Avma(0x9008), kind, name, file: "a.c".to_owned(), line: 7 };
    rows.names.push(named);
    rows.paths.push(PathTotal { stack, counted: 3, peak_blocks: 48, peak_bytes: 4800 + u64::from(part) });
    rows.threads.push(Thread {
        tid: 7,
        name: "program".into(),
        began_ns: 100,
        ended_ns: None,
        cpu_ns: 0,
        samples: u64::from(part + 1) * 2,
    });
    rows
}

impl Rows {
    fn new_rows(&self) -> NewRows<'_> {
        NewRows {
            stacks: &self.stacks,
            blocks: &self.blocks,
            samples: &self.samples,
            accesses: &self.accesses,
            dead_ranges: &self.dead_ranges,
            live_ranges: &self.live_ranges,
            ended_mappings: &self.ended_mappings,
            mappings: &self.mappings,
            threads: &self.threads,
            paths: &self.paths,
            names: &self.names,
        }
    }
}

/// A session of one process with two parts.
fn write(directory: &Path) {
    let session = SessionWriter::create(directory, &info()).unwrap();
    let mut process = session.process("p7-0").unwrap();
    for part in 0..2 {
        assert_eq!(process.next_window(), part * 2);
        process.write_part(rows(part).new_rows()).unwrap();
    }
    session.update(&SessionInfo { complete: true, end: Some(End::Exited { status: 3 }), ..info() }).unwrap();
}

/// Reads everything there is, as a report does.
fn read(directory: &Path) -> Result<(Vec<Process>, Vec<Part>), SessionError> {
    let session = Session::open(directory)?;
    let processes = session.processes().iter().map(|process| session.load(process)).collect::<Result<Vec<_>, _>>()?;
    let parts = processes.iter().flat_map(|process| process.parts().collect::<Vec<_>>()).collect::<Result<_, _>>()?;
    Ok((processes, parts))
}

fn fresh() -> (tempfile::TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("slimline.data");
    write(&directory);
    (scratch, directory)
}

#[test]
fn reads_back_what_was_written() {
    let (_scratch, directory) = fresh();
    let session = Session::open(&directory).unwrap();
    assert!(session.info().complete);
    assert_eq!(session.info().end, Some(End::Exited { status: 3 }));
    assert_eq!(session.info().duration_ns(), 300);

    let (processes, parts) = read(&directory).unwrap();
    let process = &processes[0];
    assert_eq!(process.stacks.len(), 2);
    assert_eq!(process.stacks.frames(StackRow::new(1)), [Avma(0x401_000), Avma(0x402_001)]);
    assert_eq!(process.stacks.end(StackRow::new(0)), StackEnd::Depth);
    let bases: Vec<_> = process.ranges.base.iter().map(|base| base.0).collect();
    assert_eq!(bases, [0x10_0000, 0x20_0000, 0x900_0000], "dead ranges of all parts, live ranges of the last");
    assert_eq!(process.mappings.path, ["/opt/gone 0", "/opt/gone 1", "/opt/program"], "of all parts, of the last");
    assert_eq!(process.mappings.row(2), rows(1).mappings.row(0));
    assert_eq!(process.threads, rows(1).threads);
    assert_eq!(process.names, rows(1).names);
    for (number, part) in (0..).zip(&parts) {
        let written = rows(number);
        assert_eq!((&part.samples, &part.accesses), (&written.samples, &written.accesses));
        assert_eq!(part.blocks, written.blocks);
        let windows: Vec<_> = part.windows().map(|window| (window.id.0, window.accesses)).collect();
        assert_eq!(windows, [(number * 2, 0..2), (number * 2 + 1, 2..3)]);
    }
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_was_in_its_place_does_not_open_a_session_to_others() {
    let (scratch, directory) = fresh();
    set_mode(&directory, 0o755);
    write(&directory);
    assert_eq!(mode_of(&directory), 0o700, "after a session that was made open");
    let place = scratch.path().join("made-before");
    for left_over in [place.clone(), scratch.path().join("made-before.new")] {
        fs::create_dir(&left_over).unwrap();
        set_mode(&left_over, 0o777);
    }
    write(&place);
    assert_eq!(mode_of(&place), 0o700, "after an empty directory");
}

#[test]
fn ranks_share_a_directory_that_is_theirs_alone() {
    let (_scratch, run) = empty();
    let place = write_rank(&run, 0, 2, 5000);
    assert_eq!((mode_of(&run), mode_of(&place)), (0o700, 0o700));
    // Made by the user: names are no secret, as long as nobody else can change them.
    set_mode(&run, 0o755);
    assert_eq!(mode_of(&write_rank(&run, 1, 2, 5000)), 0o700);
    for mode in [0o775, 0o757, 0o1777] {
        set_mode(&run, mode);
        let refused = place_of_rank(&run, Rank { number: 1, of: Some(2) }).unwrap_err().to_string();
        assert!(refused.contains("not a directory that only you may write to"), "{mode:o}: {refused}");
    }
}

#[test]
fn a_rank_of_unknown_many_sets_nothing_aside() {
    let (_scratch, run) = empty();
    write_rank(&run, 1, 2, 5000);
    for of in [None, Some(u32::MAX)] {
        assert_eq!(place_of_rank(&run, Rank { number: 0, of }).unwrap(), run.join("rank-0"));
    }
    assert!(run.join("rank-1").join(HEADER_FILE).exists());
}

#[test]
fn is_private_and_keeps_only_the_last_state() {
    let (_scratch, directory) = fresh();
    for path in [directory.clone(), directory.join("p7-0")] {
        assert_eq!(mode_of(&path), 0o700);
    }
    assert!(!directory.join("p7-0/threads-00000.parquet").exists());
    assert!(directory.join("p7-0/threads-00001.parquet").exists());
}

#[test]
fn a_killed_collector_leaves_whole_parts() {
    let (_scratch, directory) = fresh();
    let process = directory.join("p7-0");
    // What a kill between the files of part 1 leaves: no manifest, some files, a temporary one, no final header.
    fs::remove_file(process.join("part-00001.json")).unwrap();
    fs::rename(process.join("samples-00001.parquet"), process.join("samples-00001.parquet.tmp")).unwrap();
    for name in ["threads", "mappings", "live-ranges", "paths", "names"] {
        let of = |part| process.join(format!("{name}-{part:05}.parquet"));
        fs::rename(of(1), of(0)).unwrap();
    }
    let mut early = info();
    early.complete = false;
    fs::write(directory.join(HEADER_FILE), serde_json::to_vec(&early).unwrap()).unwrap();
    // The state files above hold part 1's bytes, so write part 0's again, as the collector had them.
    let again = tempfile::tempdir().unwrap();
    let once = again.path().join("s");
    let session = SessionWriter::create(&once, &info()).unwrap();
    session.process("p7-0").unwrap().write_part(rows(0).new_rows()).unwrap();
    for name in ["threads", "mappings", "live-ranges", "paths", "names"] {
        let file = format!("p7-0/{name}-00000.parquet");
        fs::copy(once.join(&file), directory.join(&file)).unwrap();
    }

    assert!(!Session::open(&directory).unwrap().info().complete);
    let (processes, parts) = read(&directory).unwrap();
    assert_eq!((processes[0].part_count(), parts.len()), (1, 1));
    assert_eq!(parts[0].samples, rows(0).samples);
}

#[test]
fn a_header_that_is_cut_off_is_a_damaged_one() {
    let (_scratch, directory) = fresh();
    write(&directory);
    let file = directory.join(HEADER_FILE);
    let whole = fs::read(&file).unwrap();
    for length in [whole.len() / 2, whole.len() - 3] {
        fs::write(&file, &whole[..length]).unwrap();
        let told = Session::open(&directory).unwrap_err().to_string();
        assert!(told.contains("session.json: ") && told.contains("EOF"), "{length}: {told}");
    }
    fs::write(&file, "not ours").unwrap();
    assert!(matches!(Session::open(&directory), Err(SessionError::NotASession(_))));
}

#[test]
fn an_older_session_is_set_aside_and_nothing_else_is() {
    let (scratch, directory) = fresh();
    write(&directory);
    write(&directory);
    assert!(Session::open(&scratch.path().join("slimline.data.old")).is_ok());

    let precious = scratch.path().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("thesis.tex"), "").unwrap();
    for refused in [check_output_directory(&precious), SessionWriter::create(&precious, &info()).map(drop)] {
        assert!(matches!(refused, Err(SessionError::NotASession(_))), "{refused:?}");
    }
    assert!(precious.join("thesis.tex").exists());

    // The place for the older one is taken by something else.
    fs::remove_dir_all(scratch.path().join("slimline.data.old")).unwrap();
    fs::write(scratch.path().join("slimline.data.old"), "mine").unwrap();
    assert!(matches!(check_output_directory(&directory), Err(SessionError::NotADirectory(_))));
    assert!(matches!(SessionWriter::create(&directory, &info()), Err(SessionError::NotADirectory(_))));
    assert!(Session::open(&directory).is_ok());
}

/// While it is written, and after whoever wrote it was killed.
#[test]
fn a_session_has_one_writer() {
    let (_scratch, directory) = fresh();
    let mut first = SessionWriter::stage(&directory, &info()).unwrap();
    let is_refused = || {
        let refused = [check_output_directory(&directory), SessionWriter::stage(&directory, &info()).map(drop)];
        refused.iter().all(|refused| matches!(refused, Err(SessionError::BeingWritten(path)) if *path == directory))
    };
    assert!(is_refused(), "before it is in its place");
    first.install().unwrap();
    assert!(is_refused(), "and there");
    assert!(Session::open(&directory).is_ok(), "it can be read");
    drop(first);
    assert!(check_output_directory(&directory).is_ok());
    assert!(SessionWriter::create(&directory, &info()).is_ok());
}

/// Notes that somebody keeps in a session stay: what would remove them is refused.
#[test]
fn what_is_no_sessions_file_is_not_removed_with_one() {
    let (scratch, directory) = fresh();
    let old = scratch.path().join("slimline.data.old");
    for foreign in ["notes.txt", "p7-0/notes.txt", "figures"] {
        write(&directory);
        match foreign {
            "figures" => fs::create_dir(directory.join(foreign)).unwrap(),
            _ => fs::write(directory.join(foreign), "mine").unwrap(),
        }
        write(&directory);
        assert!(old.join(foreign).exists(), "set aside with its session");
        for refused in [check_output_directory(&directory), SessionWriter::create(&directory, &info()).map(drop)] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(&format!("slimline.data.old: holds {foreign}, ")), "{error}");
        }
        assert!(old.join(foreign).exists() && Session::open(&directory).is_ok());
        fs::remove_dir_all(&old).unwrap();
        fs::remove_dir_all(&directory).unwrap();
    }
    // One without samples would be removed at once.
    drop(SessionWriter::create(&directory, &without_parts(0)).unwrap());
    fs::write(directory.join("notes.txt"), "mine").unwrap();
    assert!(matches!(check_output_directory(&directory), Err(SessionError::HoldsMore { .. })));
    assert!(SessionWriter::create(&directory, &info()).is_err() && directory.join("notes.txt").exists());
}

/// A session whose process has as many samples as the header says, and none on disk.
fn without_parts(samples: u64) -> SessionInfo {
    SessionInfo { processes: vec![ProcessSummary { samples, parts: 0, ..summary("p7-0") }], ..info() }
}

#[test]
fn what_has_no_samples_displaces_no_older_session() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("slimline.data");
    let old = scratch.path().join("slimline.data.old");
    write(&directory);
    assert_eq!(earlier_session(&directory), None);
    for run in 0..3 {
        let session = SessionWriter::create(&directory, &without_parts(0)).unwrap();
        session.process("p7-0").unwrap().write_part(Rows::default().new_rows()).unwrap();
        assert_eq!(earlier_session(&directory), Some(old.clone()), "run {run}");
        assert_eq!(read(&old).unwrap().1.len(), 2);
    }
    // Samples that only the header tells of, and samples of a killed collector, which it does not tell of.
    SessionWriter::create(&directory, &without_parts(5)).unwrap();
    assert_eq!(read(&old).unwrap().1.len(), 2, "the empty session before it was removed");
    let session = SessionWriter::create(&directory, &without_parts(0)).unwrap();
    assert_eq!(Session::open(&old).unwrap().info(), &without_parts(5));
    session.process("p7-0").unwrap().write_part(rows(0).new_rows()).unwrap();
    drop(session);
    SessionWriter::create(&directory, &without_parts(0)).unwrap();
    assert_eq!(read(&old).unwrap().1.len(), 1);
}

#[test]
fn a_session_that_is_not_installed_changes_nothing() {
    let (scratch, directory) = fresh();
    write(&directory);
    write(&directory);
    SessionWriter::stage(&directory, &without_parts(0)).unwrap().discard();
    let names: Vec<_> = fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(read(&directory).unwrap().1.len(), 2);
    // One that a killed collector left there is no obstacle, what is not ours is.
    let staged = scratch.path().join("slimline.data.new");
    drop(SessionWriter::stage(&directory, &without_parts(0)).unwrap());
    write(&directory);
    assert!(!staged.exists());
    fs::write(&staged, "mine").unwrap();
    assert!(matches!(check_output_directory(&directory), Err(SessionError::NotADirectory(_))));
    assert!(matches!(SessionWriter::stage(&directory, &info()), Err(SessionError::NotADirectory(_))));
}

/// `spoil` the session; reading it must end in an error of one line that holds `expected`.
#[track_caller]
fn check_refused(spoil: impl FnOnce(&Path), expected: &str) {
    let (_scratch, directory) = fresh();
    spoil(&directory);
    let error = read(&directory).expect_err("a spoilt session was read").to_string();
    assert!(error.contains(expected), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn refuses_what_is_no_session() {
    let error = Session::open(Path::new("/nonexistent/slimline.data")).unwrap_err().to_string();
    assert!(error.contains("no such session"), "{error}");
    let error = Session::open(Path::new("/etc/hostname")).unwrap_err().to_string();
    assert!(error.contains("not a directory"), "{error}");
    check_refused(|directory| fs::remove_file(directory.join(HEADER_FILE)).unwrap(), "not a slimline session");
    check_refused(
        |directory| fs::write(directory.join(HEADER_FILE), "PK\u{3}\u{4}").unwrap(),
        "not a slimline session",
    );
    check_refused(|directory| fs::write(directory.join(HEADER_FILE), r#"{"format": 1}"#).unwrap(), "damaged");
    let newer = format!(r#"{{"format": {}, "anything": []}}"#, FORMAT_VERSION + 1);
    check_refused(|directory| fs::write(directory.join(HEADER_FILE), newer).unwrap(), "newer");
}

#[test]
fn names_the_damaged_file() {
    let cut = |directory: &Path| {
        let path = directory.join("p7-0/accesses-00001.parquet");
        let content = fs::read(&path).unwrap();
        fs::write(&path, &content[..content.len() - 9]).unwrap();
    };
    check_refused(cut, "accesses-00001.parquet: truncated");
    let empty = |directory: &Path| fs::write(directory.join("p7-0/stacks-00000.parquet"), "").unwrap();
    check_refused(empty, "stacks-00000.parquet: truncated: 0 bytes");
    let gone = |directory: &Path| fs::remove_file(directory.join("p7-0/threads-00001.parquet")).unwrap();
    check_refused(gone, "threads-00001.parquet: missing");
    let flip = |directory: &Path| {
        let path = directory.join("p7-0/samples-00000.parquet");
        let mut content = fs::read(&path).unwrap();
        let middle = content.len() / 2;
        content[middle] ^= 4;
        fs::write(&path, content).unwrap();
    };
    check_refused(flip, "samples-00000.parquet: damaged");
    let manifest = |directory: &Path| fs::write(directory.join("p7-0/part-00000.json"), "{").unwrap();
    check_refused(manifest, "part-00000.json: damaged");
    let last = |directory: &Path| fs::remove_file(directory.join("p7-0/part-00001.json")).unwrap();
    check_refused(last, "live-ranges-00000.parquet: missing");
    let all = |directory: &Path| fs::remove_dir_all(directory.join("p7-0")).unwrap();
    check_refused(all, "part-00000.json: missing");
}

/// A place for a run of ranks.
fn empty() -> (tempfile::TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let run = scratch.path().join("run");
    (scratch, run)
}

/// Where the session of rank `number` of `of` goes, and its session there, that began at this time and took 10 ns.
fn write_rank(run: &Path, number: u32, of: u32, started_unix_ns: u64) -> PathBuf {
    let place = place_of_rank(run, Rank { number, of: Some(of) }).unwrap();
    write(&place);
    let info = SessionInfo {
        complete: true,
        started_unix_ns,
        started_ns: 1000,
        ended_ns: 1010,
        end: Some(End::Exited { status: number as i32 }),
        stopped_early: (number == 1).then(|| "no space left".to_owned()),
        ..info()
    };
    fs::write(place.join(HEADER_FILE), serde_json::to_vec(&info).unwrap()).unwrap();
    place
}

#[test]
fn sessions_of_ranks_are_read_as_one() {
    let (_scratch, run) = empty();
    for number in [10, 2, 1, 0] {
        write_rank(&run, number, 11, 5000 + u64::from(number));
    }
    fs::write(run.join("notes"), "of the user").unwrap();
    let session = Session::open(&run).unwrap();
    let directories: Vec<_> = session.processes().iter().map(|process| process.directory.as_str()).collect();
    assert_eq!(directories, ["rank-0/p7-0", "rank-1/p7-0", "rank-2/p7-0", "rank-10/p7-0"], "by number");
    let info = session.info();
    assert_eq!((info.started_unix_ns, info.duration_ns()), (5000, 20), "until the last one's end");
    assert_eq!(info.end, Some(End::Exited { status: 1 }), "the first that failed");
    assert_eq!(info.stopped_early.as_deref(), Some("rank-1: no space left"));
    for process in session.processes() {
        assert_eq!(session.load(process).unwrap().parts().count(), 2);
    }
}

/// An agent's summary of process 7 that failed, and what was sampled from outside: of another program, of a thread, and of the rest.
fn failed_and_outside() -> Vec<ProcessSummary> {
    let outside = |directory: &str, adds_to| ProcessSummary { parts: 0, adds_to, ..summary(directory) };
    vec![
        ProcessSummary { failure: Some("it is traced".into()), ..summary("p7-0") },
        outside("p7-1000", None),
        outside("p7-1001", Some(AddsTo::Thread("p7-0".into()))),
        outside("p7-1002", Some(AddsTo::Rest("p7-0".into()))),
    ]
}

#[test]
fn a_failed_process_went_on_outside_if_its_rest_was_sampled() {
    let mut all = SessionInfo { processes: failed_and_outside(), ..info() };
    assert_eq!(all.went_on_outside().into_iter().collect::<Vec<_>>(), ["p7-0"]);
    assert_eq!(all.process_count(), 2);
    all.processes.pop();
    assert!(all.went_on_outside().is_empty());
}

#[test]
fn what_a_process_adds_to_is_written_and_may_be_missing() {
    let written = |process: &ProcessSummary| serde_json::to_value(process).unwrap();
    let processes = failed_and_outside();
    assert_eq!(written(&processes[3])["adds_to"], serde_json::json!({"rest": "p7-0"}));
    assert!(written(&processes[0]).get("adds_to").is_none(), "as in older sessions");
    for process in processes {
        assert_eq!(serde_json::from_value::<ProcessSummary>(written(&process)).unwrap(), process);
    }
}

#[test]
fn ranks_name_what_their_own_processes_add_to() {
    let (_scratch, run) = empty();
    for number in 0..2 {
        let place = write_rank(&run, number, 2, 5000);
        let info = SessionInfo { processes: failed_and_outside(), ..info() };
        fs::write(place.join(HEADER_FILE), serde_json::to_vec(&info).unwrap()).unwrap();
    }
    let session = Session::open(&run).unwrap();
    let mut directories: Vec<&str> = session.info().went_on_outside().into_iter().collect();
    directories.sort_unstable();
    assert_eq!(directories, ["rank-0/p7-0", "rank-1/p7-0"]);
}

#[test]
fn ranks_of_an_earlier_larger_run_are_set_aside() {
    let (_scratch, run) = empty();
    for number in 0..3 {
        write_rank(&run, number, 3, 5000);
    }
    for number in 0..2 {
        write_rank(&run, number, 2, 6000);
    }
    assert_eq!(Session::open(&run).unwrap().processes().len(), 2);
    assert!(run.join("rank-2.old").join(HEADER_FILE).exists() && !run.join("rank-2").exists());
    // A session of one process takes the place of all of them.
    write(&run);
    assert_eq!(Session::open(&run).unwrap().processes()[0].directory, "p7-0");
    assert_eq!(Session::open(&run.with_file_name("run.old")).map(|old| old.processes().len()).ok(), Some(2));
    // The other way round would have the ranks move what belongs to others of them.
    let refused = place_of_rank(&run, Rank { number: 0, of: Some(2) }).unwrap_err().to_string();
    assert!(refused.contains("not of a parallel run"), "{refused}");
}

#[test]
fn a_directory_with_something_else_beside_sessions_is_not_set_aside() {
    let (_scratch, run) = empty();
    write_rank(&run, 0, 2, 5000);
    fs::write(run.join("precious"), "").unwrap();
    assert!(matches!(SessionWriter::create(&run, &info()), Err(SessionError::NotASession(_))));
    assert!(run.join("precious").exists() && Session::open(&run).is_ok());
}

#[test]
fn weights_of_different_units_are_not_added() {
    let (_scratch, run) = empty();
    write_rank(&run, 0, 2, 5000);
    let place = write_rank(&run, 1, 2, 5000);
    let mut header: serde_json::Value = serde_json::from_slice(&fs::read(place.join(HEADER_FILE)).unwrap()).unwrap();
    header["collector"]["weight"] = serde_json::json!("latency_cycles");
    fs::write(place.join(HEADER_FILE), header.to_string()).unwrap();
    let refused = Session::open(&run).unwrap_err().to_string();
    assert!(refused.contains("different units") && refused.contains("rank-1"), "{refused}");
}

#[test]
fn never_leaves_its_directory() {
    let outside = |directory: &Path| {
        let mut info = info();
        info.processes = vec![summary("../../etc")];
        fs::write(directory.join(HEADER_FILE), serde_json::to_vec(&info).unwrap()).unwrap();
    };
    check_refused(outside, "not a plain name");
}

#[test]
fn refuses_rows_that_name_no_row() {
    let check = |expected: &str, spoil: &dyn Fn(&mut Rows)| {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("s");
        let session = SessionWriter::create(&directory, &info()).unwrap();
        let mut spoilt = rows(0);
        spoil(&mut spoilt);
        session.process("p7-0").unwrap().write_part(spoilt.new_rows()).unwrap();
        let error = read(&directory).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("no such block", &|rows| rows.accesses.block[1] = Some(BlockRow::new(1)));
    check("no such block", &|rows| rows.samples.block[1] = Some(BlockRow::new(9)));
    check("no such call path", &|rows| rows.samples.stack[0] = Some(StackRow::new(1)));
    check("no such call path", &|rows| rows.blocks.stack[0] = Some(StackRow::new(1)));
    check("a call path that does not exist", &|rows| rows.live_ranges.stack[0] = Some(StackRow::new(1)));
    check("no such thread", &|rows| rows.samples.thread[0] = ThreadRow::new(1));
    check("do not add up", &|rows| rows.samples.accesses[0] = 3);
    check("out of order", &|rows| rows.stacks.depth[1] = 2);
    check("out of order", &|rows| rows.stacks.stack[0] = StackRow::new(1));
}

/// The header as version 1 had it: weights in nanoseconds, and no word of events.
#[test]
fn a_header_of_version_1_is_read() {
    let (_scratch, directory) = fresh();
    let path = directory.join(HEADER_FILE);
    let mut header: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    header["format"] = 1.into();
    let rename = |of: &mut serde_json::Value, from: &str, to: &str| {
        let of = of.as_object_mut().unwrap();
        let value = of.remove(from).unwrap();
        of.insert(to.to_owned(), value);
    };
    header["collector"].as_object_mut().unwrap().remove("events").unwrap();
    rename(&mut header["processes"][0], "weight", "weight_ns");
    let losses = &mut header["processes"][0]["losses"];
    rename(losses, "dropped_weight", "dropped_weight_ns");
    losses.as_object_mut().unwrap().remove("throttled").unwrap();
    fs::write(&path, serde_json::to_vec(&header).unwrap()).unwrap();
    let session = Session::open(&directory).unwrap();
    assert_eq!(session.info().collector.weight, WeightUnit::TimeNs);
    assert_eq!(session.info().processes[0].weight, 4_000_000);
    assert_eq!(read(&directory).unwrap().1.len(), 2);
}

#[test]
fn units_have_the_names_that_json_gives_them() {
    for unit in [WeightUnit::TimeNs, WeightUnit::LatencyCycles, WeightUnit::Period, WeightUnit::Samples] {
        assert_eq!(serde_json::to_value(unit).unwrap(), unit.name());
    }
}

fn served() -> impl Strategy<Value = Served> {
    let one_of = |count: usize| proptest::option::of(0..count);
    let cycles = (any::<Option<u32>>(), any::<Option<u16>>(), any::<Option<u16>>());
    let path = (one_of(MemoryLevel::ALL.len()), any::<Option<u8>>(), one_of(Snoop::ALL.len()));
    let page = (one_of(Translation::ALL.len()), any::<Option<bool>>(), any::<Option<u64>>(), any::<Option<u64>>());
    (cycles, path, page).prop_map(
        |(cycles, (level, hops, snoop), (translation, locked, physical_address, page_bytes))| Served {
            latency_cycles: cycles.0,
            instruction_cycles: cycles.1,
            retire_cycles: cycles.2,
            level: level.map(|at| MemoryLevel::ALL[at]),
            hops,
            snoop: snoop.map(|at| Snoop::ALL[at]),
            translation: translation.map(|at| Translation::ALL[at]),
            locked,
            physical_address: physical_address.map(PhysicalAddress),
            page_bytes,
        },
    )
}

/// Samples of which hardware tells these.
fn samples_served(all: &[Served]) -> Samples {
    let mut samples = Samples::default();
    for &served in all {
        samples.push(Sample { served, ..rows(0).samples.row(0) });
    }
    samples
}

/// Names of the columns of a Parquet file.
fn columns(file: bytes::Bytes) -> Vec<String> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let reader = SerializedFileReader::new(file).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr();
    schema.columns().iter().map(|column| column.name().to_owned()).collect()
}

#[test]
fn only_what_hardware_tells_has_a_column() {
    let of_a_clock = columns(samples_served(&[Served::UNKNOWN; 3]).to_parquet().unwrap().into());
    assert_eq!(of_a_clock.last().unwrap(), "burst_end");
    let some = Served { level: Some(MemoryLevel::L3), ..Served::UNKNOWN };
    let told = columns(samples_served(&[Served::UNKNOWN, some]).to_parquet().unwrap().into());
    assert_eq!(told[..of_a_clock.len()], of_a_clock);
    assert_eq!(told[of_a_clock.len()..], ["level"]);
}

fn access() -> impl Strategy<Value = Access> {
    (any::<u32>(), any::<u64>(), any::<u64>(), any::<u16>(), 0..8_u8, proptest::option::of(0..u32::MAX - 1)).prop_map(
        |(window, ip, address, bytes, kind, block)| Access {
            window,
            ip: Avma(ip),
            address: Avma(address),
            bytes,
            kind: AccessKind::from_bits(kind),
            block: block.map(|row| BlockRow::new(row as usize)),
        },
    )
}

proptest! {
    #[test]
    fn any_accesses_round_trip(rows in proptest::collection::vec(access(), 0..600)) {
        let mut table = Accesses::default();
        rows.iter().for_each(|row| table.push(row.clone()));
        let file = table.to_parquet().unwrap().into();
        prop_assert_eq!(Accesses::from_parquet(file, rows.len()).unwrap(), table);
    }

    #[test]
    fn whatever_hardware_tells_round_trips(all in proptest::collection::vec(served(), 0..60)) {
        let samples = samples_served(&all);
        let file = samples.to_parquet().unwrap().into();
        prop_assert_eq!(Samples::from_parquet(file, all.len()).unwrap(), samples);
    }

    #[test]
    fn any_stacks_round_trip(stacks in proptest::collection::vec(proptest::collection::vec(any::<u64>(), 1..9), 0..40)) {
        let mut table = StackFrames::default();
        for (row, frames) in stacks.iter().enumerate() {
            table.push_stack(StackRow::new(row), frames.iter().copied().map(Avma), StackEnd::Outermost);
        }
        let read = StackFrames::from_parquet(table.to_parquet().unwrap().into(), table.len()).unwrap();
        let mut found = Stacks::default();
        found.append(&read).unwrap();
        let found: Vec<Vec<u64>> = found.iter().map(|(_, frames)| frames.iter().map(|frame| frame.0).collect()).collect();
        prop_assert_eq!(found, stacks);
    }

    #[test]
    fn any_range_and_mapping_round_trip(numbers in any::<[u64; 5]>(), died in any::<Option<u64>>(), text in ".{0,40}") {
        let [a, b, c, d, e] = numbers;
        let mut ranges = Ranges::default();
        for origin in [RangeOrigin::Map, RangeOrigin::ThreadLocal] {
            let name = (origin == RangeOrigin::Map).then(|| text.clone());
            let source = RangeSource { name, file_offset: died.map(FileOffset), is_shared: Some(true), module_bias: died };
            ranges.push(Range { base: Avma(a), bytes: b, born_ns: c, died_ns: died, stack: None, origin, source });
        }
        prop_assert_eq!(&Ranges::from_parquet(ranges.to_parquet().unwrap().into(), 2).unwrap(), &ranges);
        let mut mappings = Mappings::default();
        mappings.push(Mapping {
            start: Avma(a), end: Avma(b), file_offset: FileOffset(c), permissions: "rw-p".into(), device: String::new(),
            inode: d, path: text, first_seen_ns: e, last_seen_ns: u64::MAX,
        });
        prop_assert_eq!(&Mappings::from_parquet(mappings.to_parquet().unwrap().into(), 1).unwrap(), &mappings);
    }

    /// Whatever byte of whatever file changes, or wherever one is cut: an error, no panic, and never other rows.
    #[test]
    fn damage_is_always_noticed(file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), change in 0..=255_u8) {
        let (_scratch, directory) = fresh();
        let mut files: Vec<_> = fs::read_dir(directory.join("p7-0")).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
        files.sort();
        let path = file.get(&files);
        let mut content = fs::read(path).unwrap();
        let at = at.index(content.len());
        if change == 0 { content.truncate(at) } else { content[at] ^= change }
        fs::write(path, content).unwrap();
        let error = read(&directory).expect_err("damage was not noticed").to_string();
        prop_assert!(error.contains(path.file_name().unwrap().to_str().unwrap()), "{}", error);
    }

    /// A file of another table, under a manifest that matches it, is refused too.
    #[test]
    fn another_tables_file_is_refused(rows in 0..3_usize) {
        let threads = rows_of_threads(rows);
        let file: bytes::Bytes = threads.to_parquet().unwrap().into();
        prop_assert!(Samples::from_parquet(file.clone(), rows).is_err());
        prop_assert!(Threads::from_parquet(file.clone(), rows + 1).is_err());
        prop_assert!(Threads::from_parquet(file, rows).is_ok());
    }
}

fn rows_of_threads(count: usize) -> Threads {
    let mut threads = Threads::default();
    for tid in 0..count as u32 {
        threads.push(Thread { tid, name: "t".into(), began_ns: 0, ended_ns: Some(1), cpu_ns: 1, samples: 0 });
    }
    threads
}

/// What is no file has no end, or nobody who writes it.
#[test]
fn waits_for_nobody() {
    for name in [HEADER_FILE, "p7-0/part-00001.json", "p7-0/samples-00001.parquet"] {
        let (_scratch, directory) = fresh();
        let path = directory.join(name);
        fs::remove_file(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        let zeros = read(&directory).unwrap_err().to_string();
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let pipe = read(&directory).unwrap_err().to_string();
        for error in [zeros, pipe] {
            assert!(error.ends_with(&format!("{name}: not a regular file")), "{error}");
        }
        fs::remove_file(&path).unwrap();
        fs::File::create(&path).unwrap().set_len(1 << 42).unwrap();
        let sparse = read(&directory).unwrap_err().to_string();
        assert!(sparse.contains("larger than") || sparse.contains("truncated"), "{sparse}");
    }
}

/// Equal rows take hardly any room in a file, and all of it in memory.
#[test]
fn rows_beyond_those_announced_are_not_read() {
    let mut threads = rows_of_threads(1);
    let row = threads.row(0);
    (0..1_000_000).for_each(|_| threads.push(row.clone()));
    let file: bytes::Bytes = threads.to_parquet().unwrap().into();
    assert!(file.len() < 100_000, "{} bytes", file.len());
    let Err(TableError::Rows { found, expected: 10 }) = Threads::from_parquet(file, 10) else { panic!("was read") };
    assert!(found < 100_000, "{found} rows were read first");
}

#[test]
fn texts_as_long_as_books_are_not_read() {
    let mut threads = Threads::default();
    let name = "x".repeat(4 << 20);
    for _ in 0..40 {
        threads.push(Thread { tid: 1, name: name.clone(), began_ns: 0, ended_ns: None, cpu_ns: 1, samples: 0 });
    }
    let file: bytes::Bytes = threads.to_parquet().unwrap().into();
    let error = Threads::from_parquet(file, 40).unwrap_err().to_string();
    assert_eq!(error, "column name takes more than 128 MiB");
}

#[test]
fn a_part_that_does_not_fit_is_taken_back_as_a_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("s");
    let session = SessionWriter::create(&directory, &info()).unwrap();
    let mut process = session.process("p7-0").unwrap();
    process.write_part(rows(0).new_rows()).unwrap();
    // The disk is full from the second part's accesses on.
    symlink("/dev/full", directory.join("p7-0/accesses-00001.parquet.tmp")).unwrap();
    let error = process.write_part(rows(1).new_rows()).unwrap_err();
    assert_eq!(error.out_of_space(), Some(OutOfSpace::Disk), "{error}");
    assert!(error.to_string().contains("accesses-00001.parquet"), "{error}");
    let names: Vec<_> = fs::read_dir(directory.join("p7-0")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_str().unwrap().contains("00001")), "{names:?}");
    let (_, parts) = read(&directory).unwrap();
    assert_eq!(parts.len(), 1);
    assert_eq!(parts[0].samples, rows(0).samples);
}
