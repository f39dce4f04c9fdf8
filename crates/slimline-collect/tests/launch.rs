//! What the target, and whoever started slimline, see: output, exit status, signals; and what is refused before.
//! What is recorded of a target is tested in `recording.rs`.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use slimline_trace::session::{End, Session};

/// The example `record_command`, which cargo builds beside this test.
fn recorder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples/record_command");
    assert!(path.is_file(), "{} is missing: run all tests of this crate, not one file's", path.display());
    path
}

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn session(&self) -> Session {
        Session::open(&self.path("s")).unwrap()
    }

    /// `record_command s COMMAND…`, not yet started.
    fn command(&self, command: &[&str]) -> Command {
        let mut recorder = Command::new(recorder());
        recorder.arg(self.path("s")).args(command).stdin(Stdio::null());
        recorder
    }

    fn run(&self, command: &[&str]) -> Output {
        self.command(command).output().unwrap()
    }

    /// Runs a shell script; the shell is the target.
    fn script(&self, script: &str) -> Output {
        self.run(&["sh", "-c", script])
    }

    /// Compiles a C program; `flags` come after the source.
    fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let (program, file) = (self.path(name), self.path(&format!("{name}.c")));
        fs::write(&file, source).unwrap();
        let output = Command::new("cc").arg("-o").arg(&program).arg(&file).args(flags).output().expect("cc starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }

    /// Starts a target, in a process group with its recorder, that prints a line when it is ready; waits for that.
    fn start_ready(&self, script: &str) -> (Child, BufReader<ChildStdout>) {
        let mut command = self.command(&["sh", "-c", script]);
        let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        (child, output)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn signal(name: &str, target: &str) {
    assert!(Command::new("kill").args([name, "--", target]).status().unwrap().success());
}

fn rest_of(mut output: BufReader<ChildStdout>) -> String {
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    rest
}

/// The command is refused with status 2 and one line that holds `expected`; nothing is written.
#[track_caller]
fn check_refused(scratch: &Scratch, command: &[&str], expected: &str) {
    let output = scratch.run(command);
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(line.contains(expected), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(output.stdout.is_empty());
    assert!(!scratch.path("s").exists(), "a session was left behind");
}

#[test]
fn refuses_what_can_not_be_started() {
    let scratch = Scratch::new();
    let write_program = |name: &str, content: &str| {
        fs::write(scratch.path(name), content).unwrap();
        fs::set_permissions(scratch.path(name), Permissions::from_mode(0o755)).unwrap();
        scratch.path(name)
    };
    check_refused(&scratch, &[], "no command given");
    check_refused(&scratch, &["no-such-program-4711"], "command not found in PATH");
    check_refused(&scratch, &["./no-such-program"], "command not found");
    check_refused(&scratch, &["/usr"], "is a directory");
    check_refused(&scratch, &["/etc/passwd"], "not executable");
    let plain = write_program("plain", "neither a program nor a script\n");
    check_refused(&scratch, &[text(&plain)], "neither an ELF program nor a script");
    let script = write_program("script", "#! /no/such/interpreter -x\n");
    check_refused(&scratch, &[text(&script)], "/no/such/interpreter: command not found");
    let itself = write_program("itself", &format!("#!{}\n", scratch.path("itself").display()));
    check_refused(&scratch, &[text(&itself)], "neither an ELF program nor a script");
}

#[test]
fn refuses_programs_that_the_agent_can_not_enter() {
    let scratch = Scratch::new();
    let source = "int main(void) { return 0; }";
    let original = fs::read(scratch.compile("program", source, &[])).unwrap();
    let spoilt = |name: &str, spoil: &dyn Fn(&mut Vec<u8>)| {
        let (path, mut content) = (scratch.path(name), original.clone());
        spoil(&mut content);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    };
    // Offsets of the ELF header: 4 class, 18 machine (183 is AArch64).
    check_refused(&scratch, &[text(&spoilt("arm", &|content| content[18] = 183))], "a program for AArch64");
    check_refused(&scratch, &[text(&spoilt("small", &|content| content[4] = 1))], "32-bit");
    check_refused(&scratch, &[text(&spoilt("cut", &|content| content.truncate(80)))], "damaged ELF file");
    check_refused(&scratch, &[text(&spoilt("header", &|content| content.truncate(20)))], "damaged ELF file");
    if rustix::process::geteuid().is_root() {
        // A file that belongs to somebody else, whose identity it takes on.
        let other = spoilt("other", &|_| {});
        std::os::unix::fs::chown(&other, Some(65_534), Some(65_534)).unwrap();
        fs::set_permissions(&other, Permissions::from_mode(0o4755)).unwrap();
        check_refused(&scratch, &[text(&other)], "set-user-id");
    }
}

#[test]
fn refuses_to_overwrite_what_is_no_session() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("s")).unwrap();
    fs::write(scratch.path("s/precious"), "").unwrap();
    let output = scratch.run(&["touch", text(&scratch.path("ran"))]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not a slimline session"));
    assert!(scratch.path("s/precious").exists());
    assert!(!scratch.path("ran").exists(), "the target was started all the same");
}

#[test]
fn streams_and_exit_status_are_the_targets() {
    let scratch = Scratch::new();
    let mut command = scratch.command(&["sh", "-c", "cat; echo error >&2; exit 7"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through\0and through").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"through\0and through");
    assert_eq!(output.stderr, b"error\n");
    let session = scratch.session();
    assert!(session.info().complete);
    assert_eq!(session.info().end, Some(End::Exited { status: 7 }));
    assert_eq!(session.info().command[1], "-c");
}

#[test]
fn argument_zero_and_odd_arguments_arrive() {
    let scratch = Scratch::new();
    let mut command = scratch.command(&["sh", "-c", "printf '%s|' \"$0\" \"$@\"", "zero", ""]);
    let output = command.arg(OsString::from("a b\n$c")).output().unwrap();
    assert_eq!(output.stdout, b"zero||a b\n$c|");
    let output = scratch.script("tr '\\0' '|' < /proc/$$/cmdline");
    assert!(output.stdout.starts_with(b"sh|-c|"), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn dies_of_the_signal_that_the_target_died_of() {
    for (name, number) in [("KILL", 9), ("SEGV", 11), ("TERM", 15), ("INT", 2), ("USR1", 10)] {
        let scratch = Scratch::new();
        let output = scratch.script(&format!("kill -{name} $$"));
        assert_eq!(output.status.signal(), Some(number), "{name}: {:?}", output.status);
        assert_eq!(scratch.session().info().end, Some(End::Signaled { signal: number }));
        assert!(scratch.session().info().complete);
    }
}

#[test]
fn ctrl_c_is_for_the_target_and_the_session_is_finished() {
    let scratch = Scratch::new();
    let script = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.02; done";
    let (mut child, output) = scratch.start_ready(script);
    // As the terminal does it: to the whole process group.
    signal("-INT", &format!("-{}", child.id()));
    assert_eq!(rest_of(output), "caught\n");
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert!(scratch.session().info().complete);
}

#[test]
fn a_target_that_ignores_ctrl_c_runs_on() {
    let scratch = Scratch::new();
    let (mut child, output) = scratch.start_ready("trap '' INT; echo ready; sleep 0.3; echo done; exit 4");
    signal("-INT", &format!("-{}", child.id()));
    signal("-INT", &child.id().to_string());
    assert_eq!(rest_of(output), "done\n");
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert!(scratch.session().info().complete);
}

#[test]
fn what_is_sent_is_passed_on() {
    for (name, number) in [("-TERM", 15), ("-HUP", 1), ("-INT", 2), ("-QUIT", 3)] {
        let scratch = Scratch::new();
        let (mut child, _output) = scratch.start_ready("ulimit -c 0; echo ready; exec sleep 60");
        signal(name, &child.id().to_string());
        assert_eq!(child.wait().unwrap().signal(), Some(number));
        assert_eq!(scratch.session().info().end, Some(End::Signaled { signal: number }));
    }
}

#[test]
fn the_target_starts_with_the_dispositions_it_would_have() {
    let scratch = Scratch::new();
    let ignored = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        u64::from_str_radix(text.split_whitespace().last().unwrap(), 16).unwrap()
    };
    let look = ["grep", "SigIgn", "/proc/self/status"];
    let alone = Command::new(look[0]).args(&look[1..]).output().unwrap();
    assert_eq!(ignored(&scratch.run(&look)), ignored(&alone));
    // What nohup and the like ignore stays ignored.
    let script =
        format!("trap '' INT HUP; exec {} {} {}", recorder().display(), text(&scratch.path("i")), look.join(" "));
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(ignored(&output) & 0b11, 0b11);
}

#[test]
fn stops_and_goes_on_with_the_target() {
    let scratch = Scratch::new();
    let (mut child, output) = scratch.start_ready("echo ready; sleep 0.2; echo done");
    signal("-TSTP", &format!("-{}", child.id()));
    signal("-CONT", &format!("-{}", child.id()));
    assert_eq!(rest_of(output), "done\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn goes_on_however_soon_the_group_is_continued() {
    let scratch = Scratch::new();
    let (mut child, output) = scratch.start_ready("echo ready; sleep 2; echo done");
    let group = Pid::from_child(&child);
    for pause in (0..400).step_by(10).map(Duration::from_micros) {
        kill_process_group(group, Signal::TSTP).unwrap();
        std::thread::sleep(pause);
        kill_process_group(group, Signal::CONT).unwrap();
        // Where both stopped they go on within the time between two looks of the witness.
        let is_stopped = || fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap().contains(") T ");
        let begin = Instant::now();
        std::thread::sleep(Duration::from_millis(10));
        while is_stopped() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it stays stopped after a pause of {pause:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert_eq!(rest_of(output), "done\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn does_not_wait_for_what_the_target_leaves_behind() {
    let scratch = Scratch::new();
    let file = scratch.path("pid");
    let output = scratch.script(&format!("sleep 60 >/dev/null 2>&1 & echo $! > {}; exit 3", text(&file)));
    assert_eq!(output.status.code(), Some(3));
    let pid = fs::read_to_string(file).unwrap();
    assert!(Path::new("/proc").join(pid.trim()).exists(), "what it left behind lives on");
    signal("-KILL", pid.trim());
    assert!(scratch.session().info().complete);
}

#[test]
fn a_disk_that_fills_up_ends_recording_and_not_the_target() {
    let scratch = Scratch::new();
    // From here on session.json is written to a full device. The session takes its place once the target runs.
    let trap = format!(
        "until [ -d {0} ]; do :; done; ln -s /dev/full {0}/session.json.tmp; echo out",
        text(&scratch.path("s"))
    );
    let output = scratch.script(&trap);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("No space left on device"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    let session = scratch.session();
    assert!(!session.info().complete, "what was written before can be read, and says that it is not whole");

    // A target that fails has the last word.
    let output = Scratch::new().script("exit 9");
    assert_eq!(output.status.code(), Some(9));
}

#[test]
fn a_file_size_limit_is_refused_before_the_target_starts() {
    let scratch = Scratch::new();
    let command = format!("{} {} touch {}", recorder().display(), text(&scratch.path("s")), text(&scratch.path("ran")));
    let output = Command::new("bash").args(["-c", &format!("ulimit -f 1; exec {command}")]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{:?} {message}", output.status);
    assert!(message.contains("the size of files is limited to 1 KiB (ulimit -f)"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(!scratch.path("ran").exists());
}

#[test]
fn nothing_is_left_in_memory() {
    let scratch = Scratch::new();
    let output = scratch.script("echo $SLIMLINE_RUN; ls -d $SLIMLINE_RUN");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 2 && lines[0] == lines[1], "{text}");
    assert!(!Path::new(lines[0]).exists());
}
