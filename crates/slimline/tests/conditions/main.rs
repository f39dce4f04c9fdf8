//! Conditions that a profiler trips over: each program here does the same recorded as alone.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use slimline_report::view::Report;

mod limits;
#[path = "../ends/scratch.rs"]
#[allow(dead_code)]
mod scratch;

use scratch::{Scratch, is_root, skip, stderr, stdout};

const HOSTILE: &str = include_str!("hostile.c");
const PLUGIN: &str = "long plugin(long i) { static long t[999]; long s = 0;
    for (int k = 0; k < 999; k++) s += t[k] += i; return s & 255; }";

/// A program with its libraries, and what it prints alone.
struct Condition {
    scratch: Scratch,
    program: PathBuf,
    arguments: Vec<&'static str>,
    alone: Output,
}

impl Condition {
    fn new(arguments: &[&'static str]) -> Self {
        let scratch = Scratch::new();
        scratch.compile("libplugin.so", PLUGIN, &["-O1", "-shared", "-fPIC"]);
        let program = scratch.compile("hostile", HOSTILE, &["-O2", "-g", "-w", "-pthread", "-ldl"]);
        let alone = Command::new(&program).args(arguments).current_dir(scratch.path("")).output().unwrap();
        assert!(alone.status.success(), "alone: {alone:?}");
        Self { scratch, program, arguments: arguments.to_vec(), alone }
    }

    /// Records it; it must have printed and returned the same. What the report says.
    #[track_caller]
    fn record(&self, options: &[&str]) -> Report {
        let mut command = self.scratch.slimline(["record"]);
        let recorded = command.args(options).arg("--").arg(&self.program).args(&self.arguments).output().unwrap();
        self.check(&recorded)
    }

    #[track_caller]
    fn check(&self, recorded: &Output) -> Report {
        assert_eq!(recorded.status, self.alone.status, "{recorded:?}");
        assert_eq!(stdout(recorded), stdout(&self.alone), "{}", stderr(recorded));
        let others = |line: &&str| !line.starts_with("slimline: ");
        assert_eq!(stderr(recorded).lines().filter(others).collect::<Vec<_>>(), Vec::<&str>::new());
        let report = self.scratch.slimline(["report", "--format", "json"]).output().unwrap();
        assert!(report.status.success(), "{}", stderr(&report));
        serde_json::from_slice(&report.stdout).unwrap()
    }
}

/// With signals of perf at a high rate, and with what suits the machine, which is often timers at the kernel's tick.
#[track_caller]
fn check(arguments: &[&'static str]) -> [Report; 2] {
    let condition = Condition::new(arguments);
    [condition.record(&["-F", "1000"]), condition.record(&[])]
}

#[test]
fn ten_thousand_short_threads() {
    for report in check(&["short-threads", "10000"]) {
        assert_eq!(report.session.lost.threads, 0, "each had a ring");
    }
}

#[test]
fn a_thousand_live_threads() {
    for report in check(&["live-threads", "1000"]) {
        assert_eq!(report.session.lost.threads, 0);
        assert!(report.session.samples > 0);
    }
}

#[test]
fn twenty_million_allocations() {
    for report in check(&["allocations", "20000000"]) {
        assert!((20_000_000..20_000_100).contains(&report.session.allocations), "{}", report.session.allocations);
        assert!(report.session.samples > 0);
    }
}

#[test]
#[ignore = "a minute; cargo xtask test --slow"]
fn a_hundred_million_allocations() {
    for report in check(&["allocations", "100000000"]) {
        assert!((100_000_000..100_000_100).contains(&report.session.allocations), "{}", report.session.allocations);
    }
}

#[test]
fn a_storm_of_forks() {
    for report in check(&["fork-storm", "300"]) {
        assert_eq!(report.session.processes, 401, "300 children, and each third has a child");
    }
}

#[test]
fn a_storm_of_programs() {
    for report in check(&["spawn-storm", "100"]) {
        assert_eq!(report.session.processes, 201);
    }
}

#[test]
fn a_library_that_comes_and_goes() {
    check(&["libraries", "3000"]);
}

#[test]
fn a_program_that_closes_all_descriptors() {
    for report in check(&["close-all"]) {
        assert!(report.session.samples > 0);
    }
}

#[test]
fn a_program_that_becomes_somebody_else() {
    if !is_root() {
        return skip("a_program_that_becomes_somebody_else", "not root, so nobody to become");
    }
    for report in check(&["drop-user"]) {
        // It is sampled from outside if it runs long enough to be found.
        assert!((1..=2).contains(&report.session.processes), "{}", report.session.processes);
        assert_eq!(report.session.lost.children, 1, "the child may not write beside us");
        assert!(report.session.samples > 0);
    }
}

#[test]
fn a_program_that_changes_its_root() {
    if !is_root() {
        return skip("a_program_that_changes_its_root", "not root");
    }
    for report in check(&["change-root"]) {
        assert!((1..=2).contains(&report.session.processes), "{}", report.session.processes);
        assert_eq!(report.session.lost.children, 1, "the child does not find us");
        assert!(report.session.samples > 0);
    }
}

#[test]
fn a_program_that_resets_all_signals() {
    for report in check(&["reset-signals"]) {
        assert!(report.session.samples > 0);
    }
}

#[test]
fn a_program_with_timers_of_its_own() {
    for report in check(&["own-timers"]) {
        assert!(report.session.samples > 0);
    }
}

#[test]
fn a_program_that_catches_its_faults() {
    for report in check(&["faults", "20000"]) {
        assert!(report.session.samples > 0);
    }
}

#[test]
fn a_program_with_stacks_of_its_own() {
    check(&["coroutines"]);
}

/// The kernel would kill it at the first system call of the agent's.
#[test]
fn a_program_that_confines_itself_is_recorded_until_then() {
    for arguments in [&["confine"], &["confine-strictly"]] {
        for report in check(arguments) {
            let told = report.session.notes.iter().any(|note| note.contains("confined itself (seccomp)"));
            assert!(told, "{:?}", report.session.notes);
        }
    }
}

/// As in a container whose seccomp profile refuses perf events, and as on a kernel without them.
#[test]
fn without_perf_events_the_timers_serve() {
    let condition = Condition::new(&["close-all"]);
    let refusing = condition.scratch.compile("refusing", include_str!("refusing.c"), &[]);
    // EPERM, EACCES, ENOSYS
    for error in [1, 13, 38] {
        let recorded = Command::new(&refusing)
            .arg(error.to_string())
            .args([env!("CARGO_BIN_EXE_slimline"), "record", "-F", "1000", "--"])
            .arg(&condition.program)
            .args(&condition.arguments)
            .current_dir(condition.scratch.path(""))
            .output()
            .unwrap();
        let report = condition.check(&recorded);
        assert!(report.session.samples > 0);
        assert!(report.session.trigger.contains("timer"), "{}", report.session.trigger);
    }
}

/// What is not to be read goes to a directory of the user's own.
#[test]
fn sessions_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let condition = Condition::new(&["close-all"]);
    condition.record(&[]);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(condition.scratch.session()), 0o700);
}

/// Interpreters that make code while they run, where they are installed.
#[test]
fn programs_that_compile_as_they_run() {
    let cases: [(&str, &[&str]); 4] = [
        (
            "node",
            &[
                "-e",
                "let s = 0, a = new Float64Array(1 << 16); for (let k = 0; k < 300; k++) \
          for (let i = 0; i < a.length; i++) s += a[i] += k; console.log(s)",
            ],
        ),
        ("java", &["-Xint", "-version"]),
        ("luajit", &["-e", "local s = 0 for i = 1, 2e8 do s = s + i % 7 end print(s)"]),
        ("python3", &["-c", "print(sum(i * i for i in range(3000000)))"]),
    ];
    for (name, arguments) in cases {
        let scratch = Scratch::new();
        let Ok(alone) = Command::new(name).args(arguments).current_dir(scratch.path("")).output() else {
            skip("programs_that_compile_as_they_run", &format!("{name} is not installed"));
            continue;
        };
        let mut command = scratch.slimline(["record", "-F", "1000", "--", name]);
        let recorded = command.args(arguments).output().unwrap();
        assert_eq!((recorded.status, stdout(&recorded)), (alone.status, stdout(&alone)), "{name}: {recorded:?}");
    }
}
