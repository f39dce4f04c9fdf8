//! Trees of processes, of which some have the agent, some are sampled from outside, and some can't be recorded.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use slimline_trace::session::{ProcessState, ProcessSummary, Session, Trigger};

use crate::outside::{info, is_allowed, report};
use crate::scratch::{NOBODY, Scratch, WALK, check_refused, copy_for_everybody, is_root, skip, stderr, stdout};

/// Starts its arguments one after the other: `fork` by fork and exec, else by `posix_spawn`.
const STARTER: &str = r#"
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int count, char **arguments) {
    int is_fork = !strcmp(arguments[1], "fork"), status, failed = 0;
    for (int i = 2; i < count; i++) {
        pid_t child;
        if (is_fork) {
            if (!(child = fork())) execv(arguments[i], arguments + i), _exit(127);
        } else if (posix_spawn(&child, arguments[i], NULL, NULL, arguments + i, environ)) {
            return 9;
        }
        waitpid(child, &status, 0);
        failed |= status;
    }
    return failed != 0;
}
"#;

/// Walks until there is a file of the name that it is given, then becomes what else it is given. Fails where there is none
/// for a minute or so.
fn waiting_walk() -> String {
    let main = "int main(int count, char **arguments) {";
    let until = "pass < 20000 && access(arguments[1], F_OK)";
    let last = "if (access(arguments[1], F_OK)) return 9;\n    if (count > 2) execv(arguments[2], arguments + 2);";
    let walk = WALK.replace("int main(void) {", main).replace("pass < 100", until);
    let walk = walk.replace("printf(", &format!("{last}\n    printf("));
    assert!([main, until, last].iter().all(|part| walk.contains(part)));
    format!("#include <unistd.h>\n{walk}")
}

/// A recording that is looked at while it runs.
struct Recording<'s> {
    scratch: &'s Scratch,
    slimline: Child,
}

impl<'s> Recording<'s> {
    fn start(scratch: &'s Scratch, mut command: Command) -> Self {
        let slimline = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { scratch, slimline }
    }

    /// Waits until `happened`. The programs end by themselves some time, and with them the recording.
    #[track_caller]
    fn wait_until(&mut self, what: &str, happened: impl Fn(u32) -> bool) {
        while !happened(self.slimline.id()) {
            assert!(self.slimline.try_wait().unwrap().is_none(), "it ended before {what}");
            sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the session has such a process.
    #[track_caller]
    fn wait_for(&mut self, what: &str, is_it: impl Fn(&ProcessSummary) -> bool) {
        let session = self.scratch.session();
        self.wait_until(what, |_| Session::open(&session).is_ok_and(|session| session.processes().iter().any(&is_it)));
    }

    #[track_caller]
    fn wait_for_samples(&mut self, program: &Path) {
        self.wait_for(&format!("{} had samples", program.display()), |process| {
            process.executable == program.to_str().unwrap() && process.samples > 0
        });
    }

    fn end(self) -> Output {
        self.slimline.wait_with_output().unwrap()
    }
}

/// Makes the file that a [`waiting_walk`] waits for.
fn let_go(scratch: &Scratch, name: &str) {
    fs::write(scratch.path(name), "").unwrap();
}

/// Whoever started them; programs with the agent have their blocks.
#[test]
fn static_and_dynamic_programs_are_recorded_together() {
    let scratch = Scratch::new();
    if !is_allowed(&scratch, "static_and_dynamic_programs_are_recorded_together") {
        return;
    }
    let dynamic = scratch.compile("dynamic", WALK, &["-O1", "-g"]);
    let lone = waiting_walk().replace("arguments[1]", "\"go\"").replace("count > 2", "0");
    let lone = scratch.compile("static", &lone, &["-O1", "-g", "-static"]);
    let starter = scratch.compile("starter", STARTER, &["-O1"]);
    let static_starter = scratch.compile("static-starter", STARTER, &["-O1", "-static"]);
    for way in ["fork", "spawn"] {
        for (first, has_agents) in [(&starter, true), (&static_starter, false)] {
            let mut record = scratch.slimline(["record", "--"]);
            record.arg(first).arg(way).args([&dynamic, &lone]);
            // The session before is there until the program runs.
            let _ = fs::remove_dir_all(scratch.session());
            let mut recording = Recording::start(&scratch, record);
            recording.wait_for_samples(&lone);
            let_go(&scratch, "go");
            let output = recording.end();
            fs::remove_file(scratch.path("go")).unwrap();
            assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "0\n0\n"), "{}", stderr(&output));
            for program in [&dynamic, &lone] {
                let path = program.to_str().unwrap();
                let info = info(&scratch);
                let sampled = info.processes.iter().filter(|process| process.executable == path && process.samples > 0);
                assert_eq!(sampled.count(), 1, "{way} {path}: {:?}", info.processes);
            }
            let report = report(&scratch);
            assert_eq!(report.groups.iter().any(|group| group.kind == "heap"), has_agents, "{way}");
            let notes = report.session.notes.join("\n");
            assert!(notes.contains("sampled from outside"), "{notes}");
        }
    }
}

/// Programs that a process becomes one after the other, below one with an agent: how each was sampled.
fn become_each_other(scratch: &Scratch, programs: &[&PathBuf], meanwhile: impl Fn(&mut Recording<'_>)) -> Vec<Trigger> {
    let files: Vec<String> = (0..programs.len()).map(|number| format!("go{number}")).collect();
    let words = programs.iter().zip(&files).map(|(program, file)| format!("{} {file}", program.display()));
    let script = format!("{}; true", words.collect::<Vec<_>>().join(" "));
    let mut recording = Recording::start(scratch, scratch.slimline(["record", "--", "bash", "-c", &script]));
    for (program, file) in programs.iter().zip(&files) {
        recording.wait_for_samples(program);
        meanwhile(&mut recording);
        let_go(scratch, file);
    }
    let output = recording.end();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "0\n"), "{}", stderr(&output));
    report(scratch);
    let processes = info(scratch).processes;
    let sampled = |program: &&PathBuf| {
        let path = program.to_str().unwrap();
        let mut found = processes.iter().filter(|process| process.executable == path && process.samples > 0);
        let trigger = found.next().unwrap_or_else(|| panic!("{path}: {processes:?}")).trigger;
        assert!(found.next().is_none(), "{path}: {processes:?}");
        trigger
    };
    programs.iter().map(sampled).collect()
}

#[test]
fn a_static_program_that_becomes_another_goes_on_being_sampled() {
    let scratch = Scratch::new();
    if !is_allowed(&scratch, "a_static_program_that_becomes_another_goes_on_being_sampled") {
        return;
    }
    let [first, second] = ["first", "second"].map(|name| scratch.compile(name, &waiting_walk(), &["-O1", "-static"]));
    let triggers = become_each_other(&scratch, &[&first, &second], |_| {});
    assert_eq!(triggers, [Trigger::PerfRing; 2]);
}

/// Perf events that a process has open.
fn perf_events(pid: u32) -> usize {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter(|file| fs::read_link(file.path()).is_ok_and(|link| link.ends_with("anon_inode:[perf_event]"))).count()
}

#[test]
fn a_static_program_that_becomes_a_dynamic_one_is_left_to_its_agent() {
    let scratch = Scratch::new();
    if !is_allowed(&scratch, "a_static_program_that_becomes_a_dynamic_one_is_left_to_its_agent") {
        return;
    }
    let first = scratch.compile("first", &waiting_walk(), &["-O1", "-static"]);
    let second = scratch.compile("second", &waiting_walk(), &["-O1"]);
    let triggers = become_each_other(&scratch, &[&first, &second], |recording| {
        // Of the first program they must be there, of the second they must go.
        let is_second = Path::new("go0");
        let is_second = recording.scratch.path(is_second.to_str().unwrap()).exists();
        recording.wait_until("perf events came or went", |slimline| (perf_events(slimline) == 0) == is_second);
    });
    assert_eq!(triggers[0], Trigger::PerfRing);
    assert_ne!(triggers[1], Trigger::PerfRing);
}

/// Started by one that has the agent.
#[test]
fn a_program_whose_environment_was_wiped_is_sampled_from_outside() {
    let scratch = Scratch::new();
    if !is_allowed(&scratch, "a_program_whose_environment_was_wiped_is_sampled_from_outside") {
        return;
    }
    let program = scratch.compile("walk", &waiting_walk(), &["-O1", "-g"]);
    let after = scratch.compile("after", WALK, &["-O1"]);
    for wiped_by in ["env -i", "env LD_PRELOAD="] {
        let script = format!("{wiped_by} {} go; {}", program.display(), after.display());
        let _ = fs::remove_dir_all(scratch.session());
        let mut recording = Recording::start(&scratch, scratch.slimline(["record", "--", "bash", "-c", &script]));
        recording.wait_for_samples(&program);
        let_go(&scratch, "go");
        let output = recording.end();
        fs::remove_file(scratch.path("go")).unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "0\n0\n"), "{}", stderr(&output));
        let processes = info(&scratch).processes;
        for (program, is_outside) in [(&program, true), (&after, false)] {
            let path = program.to_str().unwrap();
            let sampled: Vec<_> =
                processes.iter().filter(|process| process.executable == path && process.samples > 0).collect();
            assert_eq!(sampled.len(), 1, "{wiped_by} {path}: {processes:?}");
            assert_eq!(sampled[0].trigger == Trigger::PerfRing, is_outside, "{path}");
        }
        assert!(processes.iter().all(|process| process.failure.is_none()), "{processes:?}");
        let notes = report(&scratch).session.notes.join("\n");
        assert!(
            notes.contains("were sampled from outside") && notes.contains("started without it (env -i)"),
            "{notes}"
        );
    }
}

/// A program that waits for the file `go`, with its owner's rights whoever starts it.
fn with_its_owners_rights(scratch: &Scratch, owner: u32) -> PathBuf {
    let program = scratch.compile("privileged", &waiting_walk(), &["-O1"]);
    chown(&program, Some(owner), Some(owner)).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    program
}

/// Below programs that have the agent, by root and by who may not even see what it runs.
#[test]
fn a_set_user_id_child_is_told() {
    if !is_root() {
        return skip("a_set_user_id_child_is_told", "not root, so nobody to become");
    }
    for (recorder, owner, why) in
        [(0, NOBODY, "set-user-id, so the system ignores"), (NOBODY, 0, "it has other rights than slimline (user 0,")]
    {
        let scratch = Scratch::new();
        let program = with_its_owners_rights(&scratch, owner);
        let slimline = copy_for_everybody(&scratch.path(""));
        chown(scratch.path(""), Some(recorder), Some(recorder)).unwrap();
        let mut command = Command::new(slimline);
        let script = format!("{} go; true", program.display());
        command.args(["record", "--", "bash", "-c", &script]).current_dir(scratch.path(""));
        let mut recording = Recording::start(&scratch, command_as(command, recorder));
        recording.wait_for("it was told", |process| process.failure.as_ref().is_some_and(|told| told.contains(why)));
        let_go(&scratch, "go");
        let output = recording.end();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "0\n"), "{}", stderr(&output));
        let notes = report(&scratch).session.notes.join("\n");
        let told = notes.lines().find(|line| line.contains(why)).unwrap_or_else(|| panic!("{notes}"));
        assert!(told.contains("privileged) was not recorded: "), "{told}");
        let failed = info(&scratch).processes.into_iter().filter(|process| process.failure.is_some());
        assert_eq!(failed.count(), 1, "told once");
    }
}

fn command_as(mut command: Command, user: u32) -> Command {
    command.uid(user).gid(user).stdin(Stdio::null());
    command
}

/// However short it is: the kernel tells.
#[test]
fn a_set_user_id_child_is_told_where_all_is_sampled_from_outside() {
    let test = "a_set_user_id_child_is_told_where_all_is_sampled_from_outside";
    let scratch = Scratch::new();
    if !is_root() {
        return skip(test, "not root, so nobody to become");
    }
    if !is_allowed(&scratch, test) {
        return;
    }
    let program = with_its_owners_rights(&scratch, NOBODY);
    let_go(&scratch, "go");
    let script = format!("{} go; true", program.display());
    let output = scratch.slimline(["record", "--out-of-process", "--", "bash", "-c", &script]).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "0\n"), "{}", stderr(&output));
    let notes = report(&scratch).session.notes.join("\n");
    assert!(notes.contains("(privileged) was not recorded: the kernel ended its sampling as it began"), "{notes}");
}

/// Whether this machine has PID namespaces for us; says so where it has not.
fn has_pid_namespaces(test: &str) -> bool {
    let tried = Command::new("unshare").args(["-prf", "true"]).output();
    let has = tried.is_ok_and(|output| output.status.success());
    if !has {
        skip(test, "unshare -prf is refused");
    }
    has
}

/// As in a container: what a process there takes for its number is another's here.
#[test]
fn programs_in_another_pid_namespace_are_recorded() {
    let scratch = Scratch::new();
    if !has_pid_namespaces("programs_in_another_pid_namespace_are_recorded") {
        return;
    }
    let program = scratch.compile("walk", WALK, &["-O1", "-g"]);
    let killed = scratch.compile("killed", &WALK.replace("printf(", "__builtin_trap(); printf("), &["-O1", "-g"]);
    // Two of them one after the other, both number 1; and one that is killed, and does not end by itself.
    let script = format!(
        "for program in {0} {0} {1}; do unshare -prf $program; done; true",
        program.display(),
        killed.display()
    );
    for mount in ["", "--mount-proc"] {
        let script = script.replace("-prf", &format!("-prf {mount}"));
        let output = scratch.slimline(["record", "--", "bash", "-c", &script]).output().unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "0\n0\n"), "{}", stderr(&output));
        let processes = info(&scratch).processes;
        let mut directories: Vec<&str> = processes.iter().map(|process| process.directory.as_str()).collect();
        directories.sort_unstable();
        directories.dedup();
        assert_eq!(directories.len(), processes.len());
        for (program, count, state) in [(&program, 2, ProcessState::Exited), (&killed, 1, ProcessState::Gone)] {
            let path = program.to_str().unwrap();
            let found = processes.iter().filter(|process| process.executable == path && process.samples > 0);
            assert_eq!(found.filter(|process| process.state == state).count(), count, "{path}");
        }
        let report = report(&scratch);
        assert!(
            report.groups[0].kind == "heap" && report.groups[0].element_bytes == Some(64),
            "{:?}",
            report.groups[0]
        );
    }
}

#[test]
fn a_process_in_another_pid_namespace_is_attached_to() {
    let test = "a_process_in_another_pid_namespace_is_attached_to";
    let scratch = Scratch::new();
    if !has_pid_namespaces(test) || !is_allowed(&scratch, test) {
        return;
    }
    let program = scratch.compile("walk", &waiting_walk(), &["-O1", "-g"]);
    let mut unshare = Command::new("unshare");
    let mut unshare = unshare.arg("-prf").arg(&program).arg("go").current_dir(scratch.path("")).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", unshare.id());
    let is_program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
    let pid = loop {
        let pid = fs::read_to_string(&children).unwrap().trim().to_owned();
        if is_program(&pid) {
            break pid;
        }
        assert!(unshare.try_wait().unwrap().is_none());
        sleep(Duration::from_millis(10));
    };
    let mut recording = Recording::start(&scratch, scratch.slimline(["record", "-p", &pid]));
    recording.wait_for_samples(&program);
    let_go(&scratch, "go");
    let output = recording.end();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(unshare.wait().unwrap().success());
    let info = info(&scratch);
    assert_eq!((info.processes.len(), info.processes[0].pid.to_string()), (1, pid));
}

/// Nothing that it says of a process is of one that is recorded.
#[test]
fn a_proc_of_another_pid_namespace_is_refused() {
    if !has_pid_namespaces("a_proc_of_another_pid_namespace_is_refused") {
        return;
    }
    let scratch = Scratch::new();
    for what in [&["--", "true"], &["-p", "1"]] {
        let mut command = Command::new("unshare");
        command.args(["-prf", env!("CARGO_BIN_EXE_slimline"), "record"]).args(what).current_dir(scratch.path(""));
        check_refused(&command.output().unwrap(), "/proc shows the processes of another PID namespace");
    }
    let mut command = Command::new("unshare");
    command
        .args(["-prf", env!("CARGO_BIN_EXE_slimline"), "trace", "--live", "--", "true"])
        .current_dir(scratch.path(""));
    check_refused(&command.output().unwrap(), "/proc shows the processes of another PID namespace");
    assert!(!scratch.session().exists());
}

/// Traces a program as debuggers do. Prints how many signals it stopped at after the first `exec`.
const TRACER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **arguments) {
    int status, signals = -1;
    pid_t child = fork();
    if (!child) ptrace(PTRACE_TRACEME, 0, 0, 0), execv(arguments[1], arguments + 1), _exit(127);
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        signals++;
        // After exec the kernel sends SIGTRAP to the tracer's benefit.
        ptrace(PTRACE_CONT, child, 0, WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status));
    }
    printf("%d signals, %d\n", signals, WEXITSTATUS(status));
}
"#;

/// gdb stops at each signal that slimline's library would get.
#[test]
fn a_program_that_is_traced_is_sampled_from_outside() {
    let scratch = Scratch::new();
    if !is_allowed(&scratch, "a_program_that_is_traced_is_sampled_from_outside") {
        return;
    }
    let program = scratch.compile("walk", &waiting_walk(), &["-O1", "-g"]);
    let tracer = scratch.compile("tracer", TRACER, &["-O1"]);
    let mut record = scratch.slimline(["record", "-F", "1000", "--"]);
    record.arg(&tracer).arg(&program).arg("go");
    let mut recording = Recording::start(&scratch, record);
    recording.wait_for_samples(&program);
    let_go(&scratch, "go");
    let output = recording.end();
    assert_eq!(stdout(&output), "0\n0 signals, 0\n", "{}", stderr(&output));
    let process = format!("({}) was sampled from outside: it is traced", program.display());
    let notes = report(&scratch).session.notes;
    assert!(notes.iter().any(|note| note.contains(&process)), "{notes:?}");
    let triggers: Vec<Trigger> = info(&scratch).processes.iter().map(|process| process.trigger).collect();
    assert!(triggers.contains(&Trigger::PerfRing), "{triggers:?}");
}

/// As gdb starts programs. The agents of the fork and of the shell give up as the program's does, and nobody samples those two.
#[test]
fn a_program_before_a_traced_one_was_not_sampled() {
    let test = "a_program_before_a_traced_one_was_not_sampled";
    let scratch = Scratch::new();
    if !is_allowed(&scratch, test) {
        return;
    }
    let program = scratch.compile("walk", &waiting_walk(), &["-O1", "-g"]);
    let tracer = scratch.compile("tracer", TRACER, &["-O1"]);
    let mut record = scratch.slimline(["record", "--"]);
    record.arg(&tracer).args(["/bin/sh", "-c"]).arg(format!("exec {} go", program.display()));
    let mut recording = Recording::start(&scratch, record);
    recording.wait_for_samples(&program);
    let_go(&scratch, "go");
    let output = recording.end();
    // The other exec's signal.
    assert_eq!(stdout(&output), "0\n1 signals, 0\n", "{}", stderr(&output));
    let info = info(&scratch);
    let mut failed: Vec<&ProcessSummary> = info.processes.iter().filter(|process| process.failure.is_some()).collect();
    failed.sort_by_key(|process| process.started_ns);
    let [_fork, shell, walk] = failed[..] else { panic!("{:?}", info.processes) };
    assert_eq!(info.went_on_outside().into_iter().collect::<Vec<_>>(), [walk.directory.as_str()]);
    assert_eq!(walk.executable, program.to_str().unwrap());
    assert_ne!(shell.executable, walk.executable);
    assert_eq!(info.process_count(), 4, "the tracer, its fork, the shell and the program: {:?}", info.processes);
}

/// Standard error and the report have the same lines.
#[test]
fn traced_processes_share_a_line() {
    let test = "traced_processes_share_a_line";
    let scratch = Scratch::new();
    if !is_allowed(&scratch, test) {
        return;
    }
    let mut record = scratch.slimline(["record", "--", "strace", "-f", "-o", "/dev/null", "sh", "-c"]);
    let script = "for i in 1 2 3 4 5 6; do (sh -c 'exec sleep 0.3'); done; true";
    let output = match record.arg(script).output() {
        Ok(output) if output.status.success() => output,
        _ => return skip(test, "no strace"),
    };
    let said = stderr(&output);
    let failed: Vec<&str> = said.lines().filter(|line| line.contains("it is traced")).collect();
    let processes = info(&scratch).processes;
    let of_agents = processes.iter().filter(|process| process.failure.is_some()).count();
    assert!(of_agents >= 13 && failed.len() <= 6, "{of_agents}: {failed:?}");
    let notes = report(&scratch).session.notes;
    let same = |line: &&str| notes.iter().any(|note| line.ends_with(note.as_str()));
    assert!(failed.iter().all(same), "{failed:?} {notes:?}");
}

/// Installs a seccomp filter that allows everything.
const CONFINING: &str = "#include <stddef.h>
    #include <sys/prctl.h>
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    static void confine(void) {
        struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        struct sock_fprog program = {1, all};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    }
    ";

/// Its library ends recording before the kernel may kill for a system call.
#[test]
fn a_program_that_confines_itself_is_sampled_from_outside_from_then_on() {
    let scratch = Scratch::new();
    if !is_allowed(&scratch, "a_program_that_confines_itself_is_sampled_from_outside_from_then_on") {
        return;
    }
    let main = "int main(int count, char **arguments) {";
    let (sum, block) = ("sum += items", "block = malloc(64), free(block), sum += items");
    let begin = format!("{main} void *volatile block; if (!fork()) return 0; confine();");
    let source = waiting_walk().replace(main, &begin).replace(sum, block);
    assert!(source.contains(&begin) && source.contains(block));
    let program = scratch.compile("walk", &format!("{CONFINING}{source}"), &["-O1", "-g"]);
    for options in [&[][..], &["--no-children"]] {
        let _ = fs::remove_dir_all(scratch.session());
        let mut record = scratch.slimline(["record"]);
        record.args(options).arg("--").arg(&program).arg("go");
        let mut recording = Recording::start(&scratch, record);
        recording.wait_for("it was sampled from outside", |process| {
            process.trigger == Trigger::PerfRing && process.samples > 30
        });
        let_go(&scratch, "go");
        let output = recording.end();
        fs::remove_file(scratch.path("go")).unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "0\n"), "{}", stderr(&output));
        let report = report(&scratch);
        let notes = &report.session.notes;
        let told = |note: &&String| note.contains("was sampled from outside");
        assert_eq!(notes.iter().filter(told).count(), 1, "{notes:?}");
        assert!(notes.iter().any(|note| note.contains("was sampled from outside: it confined itself")), "{notes:?}");
        let names = report.groups.iter().map(|group| group.name.as_str());
        let own: Vec<&str> = names.filter(|name| name.contains("slimline") || name.contains(".ring")).collect();
        assert!(own.is_empty(), "the agent's hooks still run, and use memory of slimline's: {own:?}");
        let children = if options.is_empty() { 1 } else { 0 };
        assert_eq!(info(&scratch).process_count(), 1 + children, "{options:?}");
    }
}

/// Without its children, which are static as well.
#[test]
fn a_static_program_that_the_command_becomes_is_sampled_without_its_children() {
    let test = "a_static_program_that_the_command_becomes_is_sampled_without_its_children";
    let scratch = Scratch::new();
    if !is_allowed(&scratch, test) {
        return;
    }
    let main = "int main(int count, char **arguments) {";
    let source = waiting_walk().replace(main, &format!("{main} fork();"));
    let program = scratch.compile("walk", &source, &["-O1", "-static"]);
    let script = format!("exec {} go", program.display());
    let mut recording =
        Recording::start(&scratch, scratch.slimline(["record", "--no-children", "--", "bash", "-c", &script]));
    recording.wait_for_samples(&program);
    let_go(&scratch, "go");
    let output = recording.end();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let processes = info(&scratch).processes;
    let outside: Vec<_> = processes.iter().filter(|process| process.trigger == Trigger::PerfRing).collect();
    assert_eq!(outside.len(), 1, "{processes:?}");
    assert_eq!(outside[0].pid, processes[0].pid, "{processes:?}");
}

/// Its loader refuses a library that needs what it lacks, and with that the program. A program that is started through its loader
/// allocates as alone.
#[test]
fn a_program_for_another_c_library_starts_and_is_sampled_from_outside() {
    let test = "a_program_for_another_c_library_starts_and_is_sampled_from_outside";
    let scratch = Scratch::new();
    if !is_allowed(&scratch, test) {
        return;
    }
    fs::write(scratch.path("walk.c"), waiting_walk()).unwrap();
    let program = scratch.path("walk");
    let compiled =
        Command::new("musl-gcc").args(["-O1", "-g", "-o"]).arg(&program).arg(scratch.path("walk.c")).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return skip(test, "no musl-gcc");
    }
    for loader in ["", "/lib/ld-musl-x86_64.so.1"] {
        let _ = fs::remove_dir_all(scratch.session());
        let script = format!("{loader} {} go; echo $?", program.display());
        let mut recording = Recording::start(&scratch, scratch.slimline(["record", "--", "bash", "-c", &script]));
        recording.wait_for("it was sampled from outside", |process| {
            process.trigger == Trigger::PerfRing && process.samples > 0
        });
        let_go(&scratch, "go");
        let output = recording.end();
        fs::remove_file(scratch.path("go")).unwrap();
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(0), "0\n0\n"),
            "{loader}: {}",
            stderr(&output)
        );
    }
}
