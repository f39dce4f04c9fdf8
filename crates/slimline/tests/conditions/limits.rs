//! Resource limits: a program keeps its own, and what we take of them is named.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use slimline_report::view::Report;
use slimline_trace::wire::{AGENT_BYTES, LEAST_ADDRESS_SPACE};

use crate::scratch::{Scratch, check_refused, copy_for_everybody, is_root, skip, stderr, stdout};

const LIMITED: &str = include_str!("limited.c");

/// In a user namespace of its own a program has no rights that lift limits.
fn is_unshared(test: &str) -> bool {
    let tried = Command::new("unshare").args(["-U", "true"]).output();
    let is_allowed = tried.is_ok_and(|output| output.status.success());
    if !is_allowed {
        skip(test, "unshare -U is not allowed here");
    }
    is_allowed
}

/// Pending signals are counted for all processes of a user: only one that nobody else is gives the same answer twice. The
/// command that becomes one; none where that is not allowed.
fn as_nobody_else(test: &str) -> Option<String> {
    let user = 200_000 + std::process::id();
    let change = format!("setpriv --reuid {user} --regid {user} --clear-groups");
    let tried = Command::new("bash").args(["-c", &format!("{change} true")]).output();
    if is_root() && tried.is_ok_and(|output| output.status.success()) {
        return Some(change);
    }
    skip(test, "not root, who alone can become another user");
    None
}

struct Limited {
    scratch: Scratch,
    program: PathBuf,
}

impl Limited {
    fn new() -> Self {
        let scratch = Scratch::new();
        let program = scratch.compile("limited", LIMITED, &["-O1", "-g", "-w", "-pthread", "-lrt"]);
        Self { scratch, program }
    }

    /// The same, where anybody may read, write and record.
    fn for_everybody() -> Self {
        let limited = Self::new();
        fs::set_permissions(limited.scratch.path(""), Permissions::from_mode(0o777)).unwrap();
        copy_for_everybody(&limited.scratch.path(""));
        limited
    }

    /// Runs it under these limits, alone or `with` a command before it.
    fn run(&self, limits: &str, with: &str, arguments: &str) -> Output {
        let script = format!("{limits}; exec {with} {} {arguments}", self.program.display());
        let output = self.scratch.bash(&script).output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        output
    }

    fn report(&self) -> Report {
        let output = self.scratch.slimline(["report", "--format", "json"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Lines, and the numbers of the one that has them apart.
fn split(output: &Output) -> (Vec<String>, Vec<i64>) {
    let text = stdout(output);
    let is_number = |line: &&str| line.starts_with("locked kB:");
    let lines = text.lines().filter(|line| !is_number(line)).map(str::to_owned).collect();
    let numbers = text.lines().find(is_number).unwrap_or_default().split(' ').filter_map(|word| word.parse().ok());
    (lines, numbers.collect())
}

/// The stack is larger with another environment, and the heap by what lies around it.
#[track_caller]
fn check_locks(alone: &Output, with: &Output, what: &str) {
    let (alone, with) = (split(alone), split(with));
    assert_eq!(alone.0, with.0, "{what}");
    assert_eq!(alone.1.len(), 4, "{what}");
    for (alone, with) in alone.1.iter().zip(&with.1) {
        assert!(alone.abs_diff(*with) <= 512, "{what}: locked {alone} kB alone, {with} kB");
    }
}

/// `MCL_CURRENT`, `MCL_FUTURE` and `MCL_ONFAULT`.
const FLAGS: [i32; 4] = [1, 2, 3, 7];

#[test]
fn memory_is_locked_as_alone_when_recorded() {
    let limited = Limited::new();
    for flags in FLAGS {
        for way in ["call", "raw"] {
            let arguments = format!("lock {flags} {way}");
            let alone = limited.run(":", "", &arguments);
            check_locks(&alone, &limited.run(":", "$SLIMLINE record --", &arguments), &arguments);
            assert!(limited.report().session.samples > 0, "{arguments}");
        }
    }
}

#[test]
fn memory_is_locked_as_alone_under_a_limit() {
    if !is_unshared("memory_is_locked_as_alone_under_a_limit") {
        return;
    }
    let limited = Limited::new();
    // All, all but the thread's stack, too little for anything, none.
    for limit in [200_000, 8192, 1024, 0] {
        for flags in FLAGS {
            let (limits, arguments) = (format!("ulimit -l {limit}"), format!("lock {flags} call"));
            let alone = limited.run(&limits, "unshare -U", &arguments);
            let recorded = limited.run(&limits, "unshare -U $SLIMLINE record --", &arguments);
            check_locks(&alone, &recorded, &format!("{limits}; {arguments}"));
        }
    }
}

#[test]
fn memory_is_locked_as_alone_when_traced() {
    let limited = Limited::new();
    let source = limited.scratch.path("limited.c");
    let flags = ["-O1", "-g", "-w", "-pthread", "-lrt", "-o"];
    for compiler in ["cc", "gcc"] {
        let mut compile = limited.scratch.slimline([compiler]);
        let compiled = compile.arg(&source).args(flags).arg(&limited.program).output().unwrap();
        assert!(compiled.status.success(), "{}", stderr(&compiled));
        for flags in [1, 3] {
            let arguments = format!("lock {flags} call");
            let alone = limited.run(":", "", &arguments);
            let traced = limited.run(":", "$SLIMLINE trace --live --report report.txt --", &arguments);
            check_locks(&alone, &traced, &format!("{compiler}: {arguments}"));
        }
    }
}

#[test]
fn signals_and_timers_are_the_programs_up_to_its_limit() {
    let Some(user) = as_nobody_else("signals_and_timers_are_the_programs_up_to_its_limit") else { return };
    let limited = Limited::for_everybody();
    for limit in [0, 1, 2, 6, 40] {
        let limits = format!("ulimit -i {limit}");
        let alone = limited.run(&limits, &user, "pending");
        let recorded = limited.run(&limits, &format!("{user} ./slimline record --"), "pending");
        assert_eq!(stdout(&recorded), stdout(&alone), "{limits}: {}", stderr(&recorded));
    }
}

#[test]
fn threads_beyond_the_limit_on_pending_signals_are_sampled_or_named() {
    let test = "threads_beyond_the_limit_on_pending_signals_are_sampled_or_named";
    let Some(user) = as_nobody_else(test) else { return };
    let limited = Limited::for_everybody();
    for limit in [0, 3] {
        let record = format!("{user} ./slimline record --");
        let recorded = limited.run(&format!("ulimit -i {limit}"), &record, "threads 5");
        assert_eq!(stdout(&recorded), "done\n");
        let session = limited.report().session;
        let is_named = session.notes.iter().any(|note| note.contains("ulimit -i"));
        assert_eq!(is_named, session.lost.threads > 0, "{:?}", session.notes);
        // Those that work; the first one waits.
        assert!(session.threads >= 5 || is_named, "{limit}: {} threads, {:?}", session.threads, session.notes);
    }
}

#[test]
fn a_limit_on_address_space_is_named_or_kept() {
    let limited = Limited::new();
    let mib = LEAST_ADDRESS_SPACE >> 20;
    for (limit_mib, is_inside) in [(mib - 1, false), (mib + 1, true), (700, true), (1000, true)] {
        let limits = format!("ulimit -v {}", limit_mib << 10);
        let script = format!("{limits}; exec $SLIMLINE record -- {} threads 2", limited.program.display());
        let recorded = limited.scratch.bash(&script).output().unwrap();
        if !is_inside && stderr(&recorded).contains("the kernel refuses to sample from outside") {
            assert!(stderr(&recorded).contains("(ulimit -v)"), "{}", stderr(&recorded));
            continue;
        }
        assert_eq!(stdout(&recorded), "done\n", "{script}: {recorded:?}");
        let says_so = stderr(&recorded).contains("slimline: sampled from outside: address space is limited to");
        assert_eq!(says_so, !is_inside, "{}", stderr(&recorded));
        let session = limited.report().session;
        assert!(session.samples > 0, "{limits}: {:?}", session.notes);
        let is_outside = session.notes.iter().any(|note| note.contains("sampled from outside"));
        assert_eq!(is_outside, !is_inside, "{limits}: {:?}", session.notes);
        assert!(is_inside || session.notes.iter().any(|note| note.contains("ulimit -v")), "{:?}", session.notes);
        let doctor = limited.scratch.bash(&format!("{limits}; exec $SLIMLINE doctor -- true")).output().unwrap();
        assert!(stdout(&doctor).contains("ulimit -v"), "{doctor:?}");
    }
}

/// Three fifths of what it allows itself, which leaves the agent its share and a little.
#[test]
fn a_limit_that_the_program_sets_itself_leaves_it_what_it_has_alone() {
    let limited = Limited::new();
    for mib in [48, 64, 256] {
        let arguments = format!("space {mib}");
        let alone = limited.run(":", "", &arguments);
        let recorded = limited.run(":", "$SLIMLINE record --", &arguments);
        assert_eq!(stdout(&recorded), stdout(&alone), "{mib} MiB");
        let session = limited.report().session;
        assert!(session.samples > 0, "{mib} MiB: {:?}", session.notes);
    }
}

#[test]
fn what_slimline_itself_lacks_is_named() {
    let scratch = Scratch::new();
    let output = scratch.bash("ulimit -n 5; exec $SLIMLINE record -- true").output().unwrap();
    check_refused(&output, "open files are limited to 5 (ulimit -n), and slimline itself needs 10");
}

/// The figure that the documentation gives.
#[test]
fn the_agent_takes_as_much_address_space_as_documented() {
    let scratch = Scratch::new();
    let size = |with: &str| {
        let script = format!("{with} grep -E '^VmSize' /proc/self/status");
        let output = scratch.bash(&script).output().unwrap();
        let text = stdout(&output);
        let size = text.split_whitespace().nth(1).and_then(|size| size.parse::<u64>().ok());
        size.unwrap_or_else(|| panic!("{output:?}")) << 10
    };
    let (alone, recorded) = (size(""), size("$SLIMLINE record --"));
    assert!(recorded - alone <= AGENT_BYTES, "{} KiB", (recorded - alone) >> 10);
}
