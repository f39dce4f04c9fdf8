//! `slimline record` from outside: programs that can't be preloaded, and processes that run already.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

use slimline_report::view::Report;
use slimline_trace::session::{End, Session, SessionInfo, Trigger};

use crate::scratch::{NOBODY, Scratch, WALK, check_refused, copy_for_everybody, is_root, skip, stderr, stdout};

/// Whether the kernel lets us sample from outside here; says so where it does not.
pub(crate) fn is_allowed(scratch: &Scratch, test: &str) -> bool {
    let output = scratch.slimline(["doctor", "--format", "json"]).output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rings = found["collectors"].as_array().unwrap().iter().find(|row| row["name"] == "clock/perf-rings").unwrap();
    if rings["available"] != "yes" {
        skip(test, rings["reason"].as_str().unwrap());
    }
    rings["available"] == "yes"
}

#[track_caller]
pub(crate) fn report(scratch: &Scratch) -> Report {
    let output = scratch.slimline(["report", "--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn info(scratch: &Scratch) -> SessionInfo {
    Session::open(&scratch.session()).unwrap().info().clone()
}

/// The walk over elements of 64 bytes was seen, and how it was sampled is told.
#[track_caller]
fn check_walk(scratch: &Scratch, why: &str) {
    let report = report(scratch);
    assert!(report.session.samples > 0 && report.session.accesses > 0, "{:?}", report.session);
    assert_eq!(report.session.trigger, "perf cpu-clock, ring buffers");
    assert!(report.session.notes.iter().any(|note| note.contains(why)), "{:?}", report.session.notes);
    let hottest = report.groups.iter().max_by(|a, b| a.share.total_cmp(&b.share)).unwrap();
    assert_eq!((hottest.kind.as_str(), hottest.element_bytes), ("mapping", Some(64)), "{}", hottest.name);
    let fields: Vec<u64> =
        hottest.fields.iter().map(|field| field.offset % 64 - hottest.fields[0].offset % 64).collect();
    assert_eq!(fields, [0, 8], "value and key");
    assert!(hottest.fields.iter().all(|field| field.stride_bytes == Some(64)));
}

#[test]
fn a_static_program_is_sampled_from_outside() {
    let scratch = Scratch::new();
    if !is_allowed(&scratch, "a_static_program_is_sampled_from_outside") {
        return;
    }
    let program = scratch.compile("walk", WALK, &["-O1", "-g", "-static"]);
    let output = scratch.slimline(["record".as_ref(), "--".as_ref(), program.as_os_str()]).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "0\n"), "{}", stderr(&output));
    check_walk(&scratch, "is statically linked, so the agent can't be preloaded");
    assert_eq!(info(&scratch).end, Some(End::Exited { status: 0 }));

    let doctor = scratch.slimline(["doctor".as_ref(), "--".as_ref(), program.as_os_str()]).output().unwrap();
    assert!(stdout(&doctor).contains("from outside, by ring buffers"), "{}", stdout(&doctor));
}

/// The loader has no loader either, and is no static program.
#[test]
fn a_program_that_is_started_through_its_loader_is_recorded_once_by_its_agent() {
    let scratch = Scratch::new();
    let program = scratch.compile("walk", WALK, &["-O1", "-g"]);
    let walk = format!("/lib64/ld-linux-x86-64.so.2 {}", program.display());
    for script in [format!("exec {walk}"), format!("{walk}; exit 0")] {
        let output = scratch.slimline(["record", "--", "sh", "-c", &script]).output().unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "0\n"), "{}", stderr(&output));
        let info = info(&scratch);
        assert!(info.processes.iter().all(|process| process.trigger != Trigger::PerfRing), "{:?}", info.processes);
        let of_loader = info.processes.iter().find(|process| process.executable.contains("ld-linux"));
        assert!(of_loader.is_some_and(|process| process.samples > 0), "{:?}", info.processes);
    }
}

const GO_WALK: &str = r"
package main
type particle struct {
	mass     float64
	position [3]float64
	charge   int64
	name     string
	rest     [8]byte
}
var table [1 << 15]particle
func walk(parts []particle) (sum float64) {
	for i := range parts {
		sum += parts[i].mass * float64(parts[i].charge)
	}
	return sum
}
func main() {
	parts := make([]particle, 1<<15)
	for i := range parts {
		parts[i].mass, parts[i].charge = float64(i), int64(i&3)
		table[i] = parts[i]
	}
	sum := 0.0
	for pass := 0; pass < 2000; pass++ {
		sum += walk(parts)
		for i := range table {
			sum += table[i].mass
		}
	}
	if sum < 0 {
		panic(sum)
	}
}
";

/// Variables, functions, lines and fields by Go's DWARF; its heap, in which its stacks lie, is no stack.
#[test]
fn go_is_sampled_from_outside_with_its_variables_and_fields() {
    let test = "go_is_sampled_from_outside_with_its_variables_and_fields";
    let scratch = Scratch::new();
    if !is_allowed(&scratch, test) {
        return;
    }
    fs::write(scratch.path("walk.go"), GO_WALK).unwrap();
    let mut go = Command::new("go");
    go.args(["build", "-o", "walk", "walk.go"]).current_dir(scratch.path("."));
    go.envs([("GO111MODULE", "off"), ("GOFLAGS", ""), ("GOTOOLCHAIN", "local")]);
    match go.env("HOME", scratch.path(".")).env("GOCACHE", scratch.path("cache")).output() {
        Err(error) => return skip(test, &format!("no Go compiler: {error}")),
        Ok(output) => assert!(output.status.success(), "{}", stderr(&output)),
    }
    let output = scratch.slimline(["record", "-F", "1000", "--", "./walk"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&scratch);
    let group = |name: &str| report.groups.iter().find(|group| group.name == name);
    let table = group("main.table").expect("a variable by its name");
    assert_eq!((table.kind.as_str(), table.element_bytes), ("static", Some(64)), "{table:?}");
    assert!(table.fields.iter().any(|field| field.name == "mass" && field.share > 0.5), "{:?}", table.fields);
    let heap = group("anonymous memory").expect("the heap");
    assert!(heap.share > 0.2 && heap.kind == "mapping", "{} {}", heap.share, heap.kind);
    let stack: f64 = report.groups.iter().filter(|group| group.kind == "stack").map(|group| group.share).sum();
    assert!(stack < 0.1, "{stack}");
    let walk =
        report.loops.iter().find(|found| found.function == "main.walk").expect("a loop of a function by its name");
    assert!(walk.file.as_ref().is_some_and(|file| file.ends_with("walk.go")) && walk.first_line > 0, "{walk:?}");
}

const ZIG_WALK: &str = r"
const Vector = struct { x: f64, y: f64, z: f64 };
const Body = struct { mass: f64, at: Vector, speed: Vector, kind: u8 };
var table: [1 << 15]Body = undefined;

noinline fn walk() f64 {
    var sum: f64 = 0;
    for (&table) |*body| sum += body.mass;
    return sum;
}
noinline fn move(step: f64) void {
    for (&table) |*body| body.at.x += step * body.speed.x;
}
pub fn main() !void {
    for (&table, 0..) |*body, i| {
        const at: f64 = @floatFromInt(i);
        body.* = .{ .mass = at, .at = .{ .x = at, .y = 0, .z = 0 }, .speed = .{ .x = 1, .y = 2, .z = 3 }, .kind = 1 };
    }
    var sum: f64 = 0;
    for (0..4000) |_| {
        sum += walk();
        move(0.5);
    }
    if (sum < 0) return error.Negative;
}
";

/// Variables, their fields, functions and lines by Zig's DWARF: without libc its programs are static.
#[test]
fn zig_is_sampled_from_outside_with_its_variables_and_fields() {
    let test = "zig_is_sampled_from_outside_with_its_variables_and_fields";
    let scratch = Scratch::new();
    if !is_allowed(&scratch, test) {
        return;
    }
    fs::write(scratch.path("walk.zig"), ZIG_WALK).unwrap();
    let mut zig = Command::new("zig");
    zig.args(["build-exe", "-O", "ReleaseFast", "-fno-strip", "walk.zig"]).current_dir(scratch.path("."));
    match zig.env("ZIG_GLOBAL_CACHE_DIR", scratch.path("cache")).output() {
        Err(error) => return skip(test, &format!("no Zig compiler: {error}")),
        Ok(output) => assert!(output.status.success(), "{}", stderr(&output)),
    }
    let output = scratch.slimline(["record", "-F", "1000", "--", "./walk"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&scratch);
    let table = report.groups.iter().find(|group| group.name == "walk.table").expect("a variable by its name");
    assert_eq!((table.kind.as_str(), table.element_bytes), ("static", Some(64)), "{table:?}");
    for (field, share) in [("mass", 0.2), ("at.x", 0.1), ("speed.x", 0.1)] {
        let found = table.fields.iter().find(|found| found.name == field);
        assert!(found.is_some_and(|found| found.share > share), "{field}: {:?}", table.fields);
    }
    let walk = report.loops.iter().find(|found| found.function == "walk.walk").expect("a function's loop");
    assert!(walk.file.as_ref().is_some_and(|file| file.ends_with("walk.zig")) && walk.first_line == 8, "{walk:?}");
}

#[test]
fn the_way_can_be_asked_for_and_the_program_sees_nothing() {
    let scratch = Scratch::new();
    if !is_allowed(&scratch, "the_way_can_be_asked_for_and_the_program_sees_nothing") {
        return;
    }
    let program = scratch.compile("walk", WALK, &["-O1", "-g"]);
    let script = format!("{}; env; ls /proc/self/fd; exit 5", program.display());
    let output = scratch.slimline(["record", "--out-of-process", "--", "bash", "-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(
        !stdout(&output).contains("LD_PRELOAD") && !stdout(&output).contains("SLIMLINE_RUN"),
        "{}",
        stdout(&output)
    );
    assert!(!stdout(&output).lines().any(|line| line.starts_with('9') && line.len() == 3), "a descriptor of ours");
    check_walk(&scratch, "asked for (--out-of-process)");
    let info = info(&scratch);
    // bash, walk, env and ls, each a program of its own.
    assert!(info.processes.iter().any(|process| process.executable == program.to_str().unwrap()), "{info:?}");
    assert_eq!(
        info.processes.iter().filter(|process| process.executable.ends_with("bash")).count(),
        4,
        "and its forks"
    );
}

/// Starts a script that prints its process' number first.
fn start(scratch: &Scratch, script: &str) -> (Child, u32) {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("echo $$; {script}")]).current_dir(scratch.path(""));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().parse().unwrap())
}

#[test]
fn a_running_process_is_sampled_and_runs_on() {
    let scratch = Scratch::new();
    if !is_allowed(&scratch, "a_running_process_is_sampled_and_runs_on") {
        return;
    }
    let (mut target, pid) = start(&scratch, "while :; do :; done");
    // By its own time, as the machine may be loaded.
    let wait = format!(
        "used() {{ cut -d' ' -f14 /proc/{pid}/stat; }}; until=$(($(used) + 40)); while [ $(used) -lt $until ]; do :; done"
    );
    let output = scratch.slimline(["record", "-p", &pid.to_string(), "--", "bash", "-c", &wait]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(target.try_wait().unwrap().is_none(), "it runs on");
    target.kill().unwrap();
    target.wait().unwrap();
    let info = info(&scratch);
    assert!(info.complete && info.end == Some(End::Detached), "{info:?}");
    assert_eq!((info.command[0].as_str(), info.processes.len()), ("bash", 1));
    assert!(info.processes[0].samples > 10 && info.processes[0].executable.ends_with("bash"), "{info:?}");
    assert_eq!(report(&scratch).session.ended, "ran on");
}

#[test]
fn a_running_process_that_becomes_another_program_and_ends() {
    let scratch = Scratch::new();
    if !is_allowed(&scratch, "a_running_process_that_becomes_another_program_and_ends") {
        return;
    }
    let program = scratch.compile("walk", WALK, &["-O1", "-g"]);
    let (mut target, pid) = start(&scratch, &format!("read go; exec {}", program.display()));
    let mut recorder = scratch.slimline(["record", "-p", &pid.to_string()]);
    let recorder = recorder.stderr(Stdio::piped()).spawn().unwrap();
    while !scratch.session().join("session.json").exists() {
        std::thread::yield_now();
    }
    target.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(target.wait().unwrap().code(), Some(0));
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    check_walk(&scratch, "ran already");
    let info = info(&scratch);
    assert_eq!(info.end, Some(End::Gone));
    let programs: Vec<_> = info.processes.iter().map(|process| process.executable.as_str()).collect();
    assert!(programs.len() == 2 && programs[0].ends_with("bash") && programs[1].ends_with("/walk"), "{programs:?}");
}

#[test]
fn ctrl_c_ends_the_sampling_of_a_running_process() {
    let scratch = Scratch::new();
    if !is_allowed(&scratch, "ctrl_c_ends_the_sampling_of_a_running_process") {
        return;
    }
    let (mut target, pid) = start(&scratch, "read never");
    let mut recorder = scratch.slimline(["record", "-p", &pid.to_string()]).stderr(Stdio::piped()).spawn().unwrap();
    while !scratch.session().join("session.json").exists() {
        assert!(recorder.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    kill("-INT", &recorder.id().to_string());
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(target.try_wait().unwrap().is_none(), "it runs on");
    assert!(info(&scratch).complete);
    drop(target.stdin.take());
    target.wait().unwrap();
}

/// One that ignores it is left to itself, and one that is stopped ends.
#[test]
fn ctrl_c_does_not_wait_for_the_command_that_tells_the_time() {
    let scratch = Scratch::new();
    if !is_allowed(&scratch, "ctrl_c_does_not_wait_for_the_command_that_tells_the_time") {
        return;
    }
    let (mut target, pid) = start(&scratch, "while :; do :; done");
    for (command, runs_on) in [("trap '' TERM; echo here; exec sleep 1000", true), ("echo here; kill -STOP $$", false)]
    {
        let mut recording = scratch.slimline(["record", "-p", &pid.to_string(), "--", "sh", "-c", command]);
        let mut recording = recording.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // What the command inherits stays open as long as it runs.
        let mut line = String::new();
        BufReader::new(recording.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "here\n");
        kill("-INT", &recording.id().to_string());
        let status = recording.wait().unwrap();
        let mut told = BufReader::new(recording.stderr.take().unwrap());
        let lines: Vec<String> = (0..1 + u32::from(runs_on)).map(|_| read_line(&mut told)).collect();
        assert_eq!(status.code(), Some(0), "{lines:?}");
        assert!(lines[0].contains(" samples, "), "{lines:?}");
        if runs_on {
            assert!(lines[1].contains(" runs on, the command: it ignores SIGTERM (kill -KILL "), "{lines:?}");
            kill("-KILL", lines[1].split(' ').nth(2).unwrap());
        }
    }
    target.kill().unwrap();
    target.wait().unwrap();
}

#[track_caller]
fn kill(signal: &str, pid: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
}

fn read_line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line
}

fn attach(scratch: &Scratch, pid: &str) -> Output {
    scratch.slimline(["record", "-p", pid]).output().unwrap()
}

#[test]
fn what_can_not_be_attached_to_is_told() {
    let scratch = Scratch::new();
    check_refused(&attach(&scratch, "4194999"), "no process has the number 4194999");
    let usage = attach(&scratch, "0");
    assert!(usage.status.code() == Some(2) && stderr(&usage).starts_with("error: "), "{}", stderr(&usage));
    // A child that nobody has waited for.
    let mut child = Command::new("true").spawn().unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    check_refused(&attach(&scratch, &child.id().to_string()), "has ended already");
    child.wait().unwrap();
    assert!(!scratch.session().exists());

    if !is_root() {
        return skip("what_can_not_be_attached_to_is_told", "not root, so nobody to become");
    }
    let (mut target, pid) = start(&scratch, "read never");
    let slimline = copy_for_everybody(&scratch.path(""));
    let mut command = Command::new(slimline);
    command.args(["record".as_ref(), "-o".as_ref(), scratch.path("never").as_os_str()]);
    command.args(["-p", &pid.to_string()]).uid(NOBODY).gid(NOBODY);
    check_refused(&command.output().unwrap(), &format!("process {pid}: "));
    drop(target.stdin.take());
    target.wait().unwrap();
}
