//! `slimline record`: what is refused, and how a recording ends that something or somebody cuts short.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use slimline_report::view::Report;
use slimline_trace::session::{End, Session};

use crate::scratch::{NOBODY, Scratch, WALK, check_refused, copy_for_everybody, is_root, skip, stderr, stdout};
use crate::signals::signal;

fn record(scratch: &Scratch, command: &[&str]) -> Output {
    scratch.slimline(["record", "--"].iter().chain(command)).output().unwrap()
}

/// `record` refuses the command; nothing is written.
#[track_caller]
fn check_not_recorded(scratch: &Scratch, command: &[&str], expected: &str) {
    check_refused(&record(scratch, command), expected);
    assert!(!scratch.session().exists(), "a session was left behind");
}

/// What a report says of the session.
#[track_caller]
pub(crate) fn report(scratch: &Scratch) -> Report {
    let output = scratch.slimline(["report", "--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn usage_errors_are_claps() {
    let scratch = Scratch::new();
    for arguments in [&["record"][..], &["record", "-F", "0", "true"], &["no-such-command"], &["report", "--by", "x"]] {
        let output = scratch.slimline(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).starts_with("error: "), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn what_the_command_leaves_running_is_named() {
    let scratch = Scratch::new();
    let output = record(&scratch, &["sh", "-c", "sleep 5 > /dev/null 2>&1 & exit 5"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(stderr(&output).contains("ran on after the command: recording ended before it did"), "{}", stderr(&output));
    let notes = report(&scratch).session.notes;
    assert!(notes.iter().any(|note| note.contains("ran on after the command")), "{notes:?}");
    assert!(stderr(&output).contains(": the command ended before what it left running used CPU time"), "{output:?}");
}

/// As much as a program may ask for whose threads are many.
#[test]
fn a_small_stack_is_the_programs_own() {
    let scratch = Scratch::new();
    let limited = format!("ulimit -s 64; exec {} record -- /bin/echo here", env!("CARGO_BIN_EXE_slimline"));
    let output = scratch.bash(&limited).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "here\n"), "{}", stderr(&output));
}

/// What begins with `-` is an option until a command was named.
#[test]
fn unknown_options_are_no_commands() {
    let scratch = Scratch::new();
    for command in ["record", "trace", "doctor"] {
        let output = scratch.slimline([command, "--bogus", "--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(stderr(&output).starts_with("error: unexpected argument '--bogus'"), "{}", stderr(&output));
        assert!(!scratch.session().exists());
    }
    let output = scratch.slimline(["record", "--", "--bogus", "x"]).output().unwrap();
    check_refused(&output, "slimline: --bogus: command not found in PATH");
    let output = scratch.slimline(["record", "echo", "-n", "--", "--bogus"]).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "-- --bogus"), "{}", stderr(&output));
}

/// Where hardware samples accesses it is taken from outside; where it does not, that is said.
#[test]
fn what_was_chosen_is_told() {
    let scratch = Scratch::new();
    let output = scratch.slimline(["doctor", "--format", "json"]).output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let pmu = found["collectors"].as_array().unwrap().iter().find(|row| row["name"] == "pmu").unwrap();
    let record = |collector: &str| scratch.slimline(["record", "--collector", collector, "true"]).output().unwrap();
    let (asked, auto, clock) = (record("pmu"), record("auto"), record("clock"));
    if pmu["available"] == "yes" {
        assert_eq!(asked.status.code(), Some(0), "{}", stderr(&asked));
        return;
    }
    let reason = pmu["reason"].as_str().unwrap();
    check_refused(&asked, &format!("slimline: --collector pmu: {reason}"));
    check_refused(&asked, "; use --collector clock, which needs no hardware counter");
    assert_eq!(auto.status.code(), Some(0), "{}", stderr(&auto));
    assert!(!stderr(&auto).contains("by the clock"), "inside it would not be taken: {}", stderr(&auto));
    let outside = scratch.slimline(["record", "--out-of-process", "true"]).output().unwrap();
    if outside.status.code() == Some(0) {
        assert!(stderr(&outside).trim_end().ends_with(&format!("; by the clock: {reason}")), "{}", stderr(&outside));
    } else {
        check_refused(&outside, "the kernel refuses to sample from outside");
    }
    assert!(!stderr(&clock).contains("by the clock"), "it was asked for: {}", stderr(&clock));
}

/// `doctor` tells collectors of traces as the commands would use them.
#[test]
fn collectors_of_traces_are_told() {
    let scratch = Scratch::new();
    let told = |variables: &[(&str, &str)]| {
        let output = scratch.slimline(["doctor", "--format", "json"]).envs(variables.iter().copied()).output().unwrap();
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let all = found["collectors"].as_array().unwrap().clone();
        ["instrument", "instrument by gcc", "translate"].map(|name| {
            let row = all.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{all:?}"));
            (row["available"].as_str().unwrap().to_owned(), row["reason"].as_str().unwrap().to_owned())
        })
    };
    // The suite has installed them; a name in PATH is as good as a file's.
    for (available, reason) in told(&[]).into_iter().chain(told(&[("SLIMLINE_CLANG", "clang-19")])) {
        assert!(available == "yes" && reason.starts_with('/'), "{reason}");
    }
    let [clang, gcc, qemu] =
        told(&[("SLIMLINE_CLANG", "/bin/true"), ("SLIMLINE_GCC", "/bin/true"), ("PATH", "/nowhere")]);
    for (available, reason) in [clang, gcc, qemu] {
        assert!(available == "no" && !reason.is_empty(), "{reason}");
    }
}

#[test]
fn what_is_no_program_is_refused() {
    let scratch = Scratch::new();
    check_not_recorded(&scratch, &["no-such-program-4711"], "no-such-program-4711: command not found in PATH");
    check_not_recorded(&scratch, &["./no-such-program"], "./no-such-program: command not found");
    check_not_recorded(&scratch, &["/etc"], "/etc: is a directory, not a program");
    check_not_recorded(&scratch, &["/etc/passwd"], "/etc/passwd: not executable (chmod +x /etc/passwd)");
    let plain = scratch.write_program("plain", "echo no shebang\n");
    check_not_recorded(&scratch, &[text(&plain)], "neither an ELF program nor a script");
    let script = scratch.write_program("script", "#!/no/such/interpreter\n");
    check_not_recorded(&scratch, &[text(&script)], "/no/such/interpreter: command not found");
    let hostile = scratch.write_program("hostile", "#!/no/\u{1b}[31mred\n");
    check_not_recorded(&scratch, &[text(&hostile)], r"/no/\u{1b}[31mred: command not found");
    let empty = scratch.write_program("empty", "");
    check_not_recorded(&scratch, &[text(&empty)], "neither an ELF program nor a script");
}

#[test]
fn what_can_not_be_recorded_in_any_way_is_refused() {
    let scratch = Scratch::new();
    let source = "int main(void) { return 0; }";
    let original = fs::read(scratch.compile("program", source, &[])).unwrap();
    let spoilt = |name: &str, at: usize, byte: u8| {
        let mut content = original.clone();
        content[at] = byte;
        scratch.write_program(name, content)
    };
    // Offsets of the ELF header: 4 class, 18 machine (183 is AArch64).
    check_not_recorded(&scratch, &[text(&spoilt("arm", 18, 183))], "a program for AArch64");
    check_not_recorded(&scratch, &[text(&spoilt("small", 4, 1))], "a program for a 32-bit CPU");
    let cut = scratch.write_program("cut", &original[..100]);
    check_not_recorded(&scratch, &[text(&cut)], "damaged ELF file");
    if is_root() {
        let other = scratch.write_program("other", &original);
        std::os::unix::fs::chown(&other, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(&other, Permissions::from_mode(0o4755)).unwrap();
        check_not_recorded(&scratch, &[text(&other)], "set-user-id, so the system ignores preloaded libraries");
    } else {
        skip("what_can_not_be_recorded_in_any_way_is_refused", "not root, so no program of somebody else's");
    }
}

/// As somebody without root's rights: directories that may not be searched or written, and a program that may be run
/// but not read, so that only the run shows that it can't be preloaded.
#[test]
fn what_permissions_forbid_is_told() {
    if !is_root() {
        return skip("what_permissions_forbid_is_told", "not root, so nobody to become");
    }
    let scratch = Scratch::new();
    let slimline = copy_for_everybody(&scratch.path(""));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&slimline);
        command.args(arguments).current_dir(scratch.path("")).uid(NOBODY).gid(NOBODY).stdin(Stdio::null());
        command.output().unwrap()
    };
    fs::create_dir(scratch.path("closed")).unwrap();
    let hidden = scratch.write_program("closed/program", "#!/bin/sh\n");
    fs::set_permissions(scratch.path("closed"), Permissions::from_mode(0o700)).unwrap();
    check_refused(&run(&["record", "-o", text(&scratch.path("never")), "--", text(&hidden)]), "permission denied");
    // The scratch directory itself belongs to root.
    check_refused(&run(&["record", "--", "true"]), "slimline.data: Permission denied");

    fs::create_dir(scratch.path("open")).unwrap();
    fs::set_permissions(scratch.path("open"), Permissions::from_mode(0o777)).unwrap();
    let unreadable = scratch.compile("unreadable", "int main(void) { return 0; }", &["-static"]);
    fs::set_permissions(&unreadable, Permissions::from_mode(0o711)).unwrap();
    let session = scratch.path("open/s");
    let output = run(&["record", "-o", text(&session), "--", text(&unreadable)]);
    check_refused(&output, "its loader ignored LD_PRELOAD");
    assert!(!Session::open(&session).unwrap().info().complete);
    // The session is nobody's, and private.
    fs::set_permissions(&session, Permissions::from_mode(0o700)).unwrap();
    let output = scratch.slimline(["report", text(&session)]).output().unwrap();
    assert!(output.status.success() && stdout(&output).contains("none: there is nothing to report"), "{output:?}");
}

#[test]
fn a_session_that_can_not_be_written_is_refused_before_the_program_starts() {
    let scratch = Scratch::new();
    let ran = scratch.path("ran");
    let record = |output: &str| {
        let output = scratch.slimline(["record", "-o", output, "--", "touch", text(&ran)]).output().unwrap();
        assert!(!ran.exists(), "the program was started all the same");
        output
    };
    let refused = record("/proc/slimline.data");
    check_refused(&refused, "/proc/slimline.data: ");
    assert_eq!(stderr(&refused).matches("os error").count(), 1, "{}", stderr(&refused));
    check_refused(&record("/no/such/directory/s"), "/no/such/directory/s: No such file or directory");
    fs::write(scratch.path("file"), "precious").unwrap();
    check_refused(&record("file"), "file: not a directory");
    fs::create_dir(scratch.path("full")).unwrap();
    fs::write(scratch.path("full/precious"), "").unwrap();
    check_refused(&record("full"), "full: not a slimline session");
    assert!(scratch.path("full/precious").exists());
}

/// In a mount namespace of its own, so that it can do to `/tmp` what a hardened container does. Where not root, in a user
/// namespace as well.
struct OtherMounts(&'static str);

impl OtherMounts {
    fn for_test(test: &str) -> Option<Self> {
        let works = |options: &&str| {
            Command::new("unshare").args([options, "true"]).output().is_ok_and(|output| output.status.success())
        };
        let found = ["-m", "-rm"].into_iter().find(|options| works(options));
        if found.is_none() {
            skip(test, "unshare -m is not allowed here, nor with a user namespace");
        }
        found.map(Self)
    }

    fn run(&self, scratch: &Scratch, mounts: &str, record: &str) -> Output {
        let mut command = Command::new("unshare");
        command.args([self.0, "bash", "-ec", &format!("{mounts}\n{record}")]);
        command.env("SLIMLINE", env!("CARGO_BIN_EXE_slimline"));
        command.current_dir(scratch.path("")).env_remove("TMPDIR").env_remove("XDG_RUNTIME_DIR");
        command.output().unwrap()
    }
}

#[test]
fn without_a_place_for_the_agent_recording_is_refused() {
    // The scratch directory must not be under what is mounted over.
    let scratch = Scratch::new();
    let mount =
        |options: &str| format!("cd /; for d in /dev/shm /var/tmp /tmp; do mount -t tmpfs -o {options} none $d; done");
    let record = "$SLIMLINE record -o /dev/shm/s -- true";
    let Some(other) = OtherMounts::for_test("without_a_place_for_the_agent_recording_is_refused") else { return };
    let output = other.run(&scratch, &mount("noexec,size=256m"), record);
    check_refused(&output, "no usable directory for the library to preload: ");
    assert!(stderr(&output).contains("/tmp is mounted noexec") && stderr(&output).contains("set TMPDIR"));
    let output = other.run(&scratch, &mount("size=1m"), record);
    check_refused(&output, "no usable directory for the shared memory: ");
    let gone =
        "cd /; mount -t tmpfs -o ro none /dev/shm; mount -t tmpfs -o ro none /var/tmp; mount -t tmpfs -o ro none /tmp";
    let output = other.run(&scratch, gone, record);
    check_refused(&output, "no usable directory for the shared memory: ");
}

/// Its rings are in memory all the same.
#[test]
fn a_translator_loads_its_plugin_from_where_that_is_allowed() {
    let scratch = Scratch::new();
    let Some(other) = OtherMounts::for_test("a_translator_loads_its_plugin_from_where_that_is_allowed") else { return };
    let trace = "$SLIMLINE trace --collector translate --live --report report -- true";
    let output = other.run(&scratch, "mount -t tmpfs -o noexec,size=1g none /dev/shm", trace);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let report = fs::read_to_string(scratch.path("report")).unwrap();
    assert!(report.contains(" accesses: ") && report.contains("1 process, 1 thread"), "{report}");
}

/// What stopped it is said, and not that there was nothing.
#[test]
fn a_trace_that_nothing_of_could_be_written_says_why() {
    let scratch = Scratch::new();
    let Some(other) = OtherMounts::for_test("a_trace_that_nothing_of_could_be_written_says_why") else { return };
    let trace = "$SLIMLINE trace --collector translate -o small/t -- true";
    let output = other.run(&scratch, "mkdir small; mount -t tmpfs -o size=40k none small", trace);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.starts_with("slimline: small/t: recording stopped early: No space left on device"), "{told}");
}

/// What finds no room for its rings is told, and runs as it would.
#[test]
fn a_process_without_room_for_its_file_is_told() {
    let scratch = Scratch::new();
    let Some(other) = OtherMounts::for_test("a_process_without_room_for_its_file_is_told") else { return };
    let record =
        "$SLIMLINE record -- bash -c 'head -c 1G /dev/zero > /dev/shm/fill 2>&-; /bin/echo ran; rm /dev/shm/fill'";
    let output = other.run(&scratch, "mount -t tmpfs -o size=256m none /dev/shm", record);
    let told = stderr(&output);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "ran\n"), "{told}");
    let expected =
        "it could not make the file that it shares with slimline (No space left on device (os error 28)); make room in";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn a_second_recording_into_one_directory_is_refused() {
    let scratch = Scratch::new();
    let script = "mkfifo go; $SLIMLINE record -o s -- cat go & until [ -e s/session.json ]; do sleep 0.05; done
        $SLIMLINE record -o s -- echo no 2> told; status=$?; echo > go; wait $!; echo $status $?; cat told >&2";
    let output = scratch.bash(script).output().unwrap();
    assert_eq!(stdout(&output), "\n2 0\n");
    let told = stderr(&output);
    let refusals = told.lines().filter(|line| line.contains("another slimline is recording into it")).count();
    assert_eq!(refusals, 1, "{told}");
}

#[test]
fn a_disk_that_fills_up_ends_the_recording_and_not_the_program() {
    let scratch = Scratch::new();
    let program = scratch.compile("walk", WALK, &["-O1"]);
    let mounts = "mkdir disk && mount -t tmpfs -o size=24k none disk";
    let record = format!(
        "cd disk; $SLIMLINE record -- {} && status=0 || status=$?; $SLIMLINE report > ../report; exit $status",
        program.display()
    );
    let Some(other) = OtherMounts::for_test("a_disk_that_fills_up_ends_the_recording_and_not_the_program") else {
        return;
    };
    let output = other.run(&scratch, mounts, &record);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(stdout(&output), "0\n", "the program printed its result");
    assert!(message.contains("recording stopped before the program did: no space left"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    let report = fs::read_to_string(scratch.path("report")).unwrap();
    assert!(report.contains("incomplete") || report.contains("nothing to report"), "{report}");
}

#[test]
fn a_file_size_limit_reached_while_recording_is_like_a_full_disk() {
    let scratch = Scratch::new();
    let program = scratch.compile("walk", WALK, &["-O1"]);
    let script = format!("echo ready; read go; {}", program.display());
    let mut command = scratch.slimline(["record", "--", "bash", "-c", &script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut results = BufReader::new(child.stdout.take().unwrap());
    results.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    // Of slimline only: what it has started keeps the limit that it got.
    let limit = Command::new("prlimit").args(["--fsize=512", "--pid", &child.id().to_string()]).status().unwrap();
    assert!(limit.success());
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let reason = "recording stopped before the program did: the limit on the size of files (ulimit -f) was reached";
    check_status_and_line(&output, 2, reason);
    assert!(!Session::open(&scratch.session()).unwrap().info().complete);
    assert!(!report(&scratch).session.complete);
}

/// The program inherits the limit and keeps it, and its agent could not make the file that it shares with slimline.
#[test]
fn a_file_size_limit_that_forbids_recording_is_told_before_the_program_starts() {
    let scratch = Scratch::new();
    let output = scratch.bash("ulimit -f 100; $SLIMLINE record -- touch ran").output().unwrap();
    check_refused(&output, "the size of files is limited to 100 KiB (ulimit -f)");
    assert!(!scratch.path("ran").exists() && !scratch.session().exists());
}

#[test]
fn a_process_below_the_limit_on_the_size_of_files_is_told() {
    let scratch = Scratch::new();
    let output = record(&scratch, &["bash", "-c", "ulimit -f 100; cat /dev/null; exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("not recorded: the size of its files is limited to less than"), "{told}");
    assert!(report(&scratch).session.notes.iter().any(|note| note.contains("ulimit -f")));
}

#[track_caller]
fn check_status_and_line(output: &Output, status: i32, expected: &str) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(status), "{message}");
    assert!(message.contains(expected), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

/// A second clock, which says where threads are between samples, has some besides.
#[test]
fn the_samples_that_are_told_are_those_that_reports_count() {
    let scratch = Scratch::new();
    let program = scratch.compile("walk", WALK, &["-O1", "-g"]);
    let output = record(&scratch, &[text(&program)]);
    let told = stderr(&output);
    let samples = report(&scratch).session.samples;
    assert!(samples > 0 && told.contains(&format!(": {samples} samples, ")), "{samples}: {told}");
}

/// A memory file system over `/dev/shm`: what is left there is of this test's recordings.
const OWN_SHM: &str = "mount -t tmpfs none /dev/shm";

/// Kills slimline once the session holds samples, lets the program run on, and records again.
#[test]
fn a_killed_slimline_leaves_what_it_has_written_and_no_memory_for_long() {
    let test = "a_killed_slimline_leaves_what_it_has_written_and_no_memory_for_long";
    let Some(other) = OtherMounts::for_test(test) else { return };
    let scratch = Scratch::new();
    let program = scratch.compile("walk", &WALK.replace("pass < 100", "pass < 100000"), &["-O1"]);
    let script = format!(
        r#"
        $SLIMLINE record -- bash -c 'echo $$ > pid; {program} > /dev/null; true' &
        until grep -hA1 '"samples"' slimline.data/p*/part-* 2> /dev/null | grep -q 'rows.: [1-9]'; do :; done
        kill -KILL $!; wait $! && exit 3 || true
        ls -d /dev/shm/slimline-*
        walk=$(pgrep -P $(cat pid))
        $SLIMLINE record -o next -- true 2> /dev/null
        find /dev/shm -type f
        kill -KILL $(cat pid) $walk
        # Those that nobody waits for stay, without memory.
        while cat /proc/$(cat pid)/maps /proc/$walk/maps 2> /dev/null | grep -q .; do :; done
        $SLIMLINE record -o next -- true 2> /dev/null
        find /dev/shm -mindepth 1"#,
        program = program.display()
    );
    let output = other.run(&scratch, OWN_SHM, &script);
    assert!(output.status.success(), "{}", stderr(&output));
    let left: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    // After the kill the directory; while the program lives the agent for the programs that it starts; then nothing.
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(left[1], format!("{}/libslimline_agent.so", left[0]));
    let report = report(&scratch);
    assert!(!report.session.complete && report.session.samples > 0);
    assert_eq!(report.session.ended, "end not recorded");
}

#[test]
fn a_slimline_that_was_killed_before_its_first_part_says_so() {
    let scratch = Scratch::new();
    // Once a second of CPU time, and it waits.
    let mut command = scratch.slimline(["record", "-F", "1", "--", "bash", "-c", "echo $$; read never"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let _open = child.stdin.take();
    let mut program = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut program).unwrap();
    // It takes its place once the program runs.
    while !scratch.session().exists() {
        std::thread::yield_now();
    }
    signal("-KILL", &child.id().to_string());
    child.wait().unwrap();
    signal("-KILL", program.trim());
    let report = report(&scratch);
    assert!(!report.session.complete);
    let why = report.session.no_samples_because.unwrap();
    assert!(why.contains("was killed before it had written any"), "{why}");
    // The next recording takes its place, as nothing is lost with it.
    assert!(record(&scratch, &["true"]).status.success());
    assert!(!scratch.path("slimline.data.old").exists());
}

#[test]
fn a_run_without_samples_does_not_cost_the_session_before() {
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1"]);
    let samples = report(&scratch).session.samples;
    let old = scratch.path("slimline.data.old");
    for _ in 0..2 {
        // Once a second, and the program has ended long before.
        let output = scratch.slimline(["record", "-F", "1", "--", "true"]).output().unwrap();
        check_status_and_line(&output, 0, "; the session before it is slimline.data.old");
        let kept = scratch.slimline(["report", "--format", "json", text(&old)]).output().unwrap();
        let kept: Report = serde_json::from_slice(&kept.stdout).unwrap();
        assert_eq!(kept.session.samples, samples);
    }
    // One that can't be started changes nothing at all.
    let before = report(&scratch);
    let program = scratch.compile("program", WALK, &["-Wl,--dynamic-linker=/no/such/loader.so"]);
    check_refused(&record(&scratch, &[text(&program)]), "can't be started");
    assert_eq!(report(&scratch).session, before.session);
    assert!(old.exists() && !scratch.path("slimline.data.new").exists());
}

#[test]
fn a_shell_sees_the_status_that_the_program_alone_would_give() {
    for (script, status) in
        [("exit 0", 0), ("exit 1", 1), ("exit 200", 200), ("kill -KILL $$", 137), ("kill -SEGV $$", 139)]
    {
        let scratch = Scratch::new();
        let output = scratch.bash(&format!("$SLIMLINE record -- sh -c '{script}'; echo $?")).output().unwrap();
        assert_eq!(stdout(&output), format!("{status}\n"), "{}", stderr(&output));
        let info = Session::open(&scratch.session()).unwrap().info().clone();
        assert!(info.complete);
        let end = if status > 128 && script.starts_with("kill") {
            End::Signaled { signal: status - 128 }
        } else {
            End::Exited { status }
        };
        assert_eq!(info.end, Some(end));
    }
}

#[test]
fn what_the_system_will_not_start_is_told_in_one_line() {
    let scratch = Scratch::new();
    let source = "int main(void) { return 0; }";
    let program = scratch.compile("program", source, &["-Wl,--dynamic-linker=/no/such/loader.so"]);
    check_not_recorded(&scratch, &[text(&program)], "program: can't be started: No such file or directory");
}

#[test]
fn a_program_that_dies_while_it_is_loaded_was_not_recorded() {
    let scratch = Scratch::new();
    scratch.compile("libgone.so", "int gone(void) { return 0; }", &["-shared", "-fPIC"]);
    let flags = ["-L.", "-l:libgone.so"].map(|flag| flag.replace("-L.", &format!("-L{}", text(&scratch.path("")))));
    let source = "int gone(void); int main(void) { return gone(); }";
    let program = scratch.compile("program", source, &[&flags[0], &flags[1]]);
    let output = record(&scratch, &[text(&program)]);
    assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("libgone.so: cannot open shared object file"), "{told}");
    let own = told.lines().last().unwrap();
    assert!(own.contains("; the program was not recorded: its libraries could not be loaded (then"), "{told}");
    assert!(!Session::open(&scratch.session()).unwrap().info().complete);
}

#[test]
fn a_recording_without_samples_says_why() {
    let scratch = Scratch::new();
    // Enough CPU time for the kernel to count some in user mode, and far less than the time between two samples.
    let source = "#include <time.h>
int main(void) { while (clock() < CLOCKS_PER_SEC / 20) for (volatile int i = 0; i < 100000; i++); return 0; }";
    let program = scratch.compile("program", source, &[]);
    let output = scratch.slimline(["record", "-F", "1", "--", text(&program)]).output().unwrap();
    check_status_and_line(&output, 0, ": 0 samples, 0 accesses: the program ");
    assert!(stderr(&output).contains("comes after 1.00 s"), "{}", stderr(&output));
}

#[test]
fn a_closed_or_full_standard_error_changes_nothing() {
    let scratch = Scratch::new();
    for redirection in ["2>&-", "2>/dev/full"] {
        let output = scratch.bash(&format!("$SLIMLINE record -- sh -c 'exit 7' {redirection}")).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{redirection}");
        let output = scratch.bash(&format!("$SLIMLINE record -- ./missing {redirection}")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{redirection}");
    }
    let mut rest = String::new();
    let mut child = scratch.slimline(["record", "--", "echo", "out"]).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("out\n", Some(0)));
}

/// What one process does to the memory that it shares with slimline costs its own recording alone.
#[test]
fn a_process_whose_shared_memory_is_cut_off_is_told_and_the_others_are_recorded() {
    let scratch = Scratch::new();
    let program = scratch.compile(
        "cutter",
        r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    pid_t child = fork();
    if (child == 0) for (;;) pause();
    char ring[4096], maps[64], line[8192];
    snprintf(ring, sizeof ring, "%s/%d-0.ring", getenv("SLIMLINE_RUN"), (int)child);
    snprintf(maps, sizeof maps, "/proc/%d/maps", (int)getppid());
    // Until slimline reads it.
    for (int is_read = 0; !is_read;) {
        FILE *file = fopen(maps, "r");
        while (file && fgets(line, sizeof line, file)) is_read |= strstr(line, ring) != NULL;
        if (file) fclose(file);
    }
    if (truncate(ring, 0)) return 1;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    volatile double sum = 0;
    for (long i = 0; i < 100000000; i++) sum += i;
    return 0;
}
"#,
        &["-O1"],
    );
    let output = scratch.slimline(["record", "--", text(&program)]).output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(": the file that it shares with slimline was cut off"), "{said}");
    let session = Session::open(&scratch.session()).unwrap();
    assert!(session.info().complete && session.info().processes.iter().any(|process| process.samples > 0), "{said}");
}

/// Its process is a zombie to those who look at its state alone.
#[test]
fn a_program_whose_first_thread_ends_is_recorded_to_its_end() {
    let scratch = Scratch::new();
    let (main, end) = ("int main(void) {", "return 0;");
    assert!([main, end, "pass < 100"].iter().all(|part| WALK.contains(part)));
    let walk = WALK.replace(main, "static void *walk(void *of) {").replace(end, "return of;");
    let walk = walk.replace("pass < 100", "pass < 15000");
    let start = "int main(void) { pthread_t of; pthread_create(&of, NULL, walk, NULL); pthread_exit(NULL); }";
    let program = scratch.compile("walk", &format!("#include <pthread.h>\n{walk}{start}\n"), &["-O2", "-pthread"]);
    let output = record(&scratch, &[text(&program)]);
    assert!(output.status.success(), "{}", stderr(&output));
    let session = report(&scratch).session;
    assert!(session.complete);
    // It walks for longer than anybody waits for a zombie; on a busy machine some ticks find somebody else.
    assert!(2 * session.weight_total > session.user_ns, "{} of {}", session.weight_total, session.user_ns);
}
