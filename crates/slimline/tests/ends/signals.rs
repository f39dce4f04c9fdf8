//! `slimline record`: what becomes of signals, of a terminal's and of those that somebody sends.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::outside::info;
use crate::recording::report;
use crate::scratch::Scratch;

/// Starts a script, in a process group with its recorder, that prints a line when it is ready; waits for that.
fn start_ready(scratch: &Scratch, script: &str) -> (Child, BufReader<ChildStdout>) {
    let mut command = scratch.slimline(["record", "--", "bash", "-c", script]);
    let mut child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, output)
}

pub(crate) fn signal(name: &str, target: &str) {
    assert!(Command::new("kill").args([name, "--", target]).status().unwrap().success());
}

/// The same in a terminal of its own, whose Ctrl-C goes to both.
fn start_in_terminal(scratch: &Scratch, script: &str) -> (Child, BufReader<ChildStdout>) {
    let recorded = format!("exec $SLIMLINE record -- bash -c '{}'", script.replace('\'', "'\\''"));
    let mut terminal = scratch.bash("exec script --quiet --return --command \"$COMMAND\" /dev/null");
    terminal.env("COMMAND", recorded).env("SHELL", "/bin/sh");
    let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    wait_for_line(&mut output, "ready");
    (child, output)
}

fn wait_for_line(output: &mut impl BufRead, expected: &str) {
    let mut line = String::new();
    // The terminal shows `^C` where it was typed.
    while line.trim_end().trim_start_matches("^C") != expected {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "it has ended");
    }
}

fn type_ctrl_c(terminal: &mut Child) {
    terminal.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
}

#[test]
fn ctrl_c_goes_to_the_program_and_the_session_is_whole() {
    let scratch = Scratch::new();
    let (mut child, _output) = start_in_terminal(&scratch, "echo ready; while :; do :; done");
    type_ctrl_c(&mut child);
    assert_eq!(child.wait().unwrap().code(), Some(130), "slimline ends as the program ended");
    let report = report(&scratch);
    assert!(report.session.complete);
    assert_eq!(report.session.ended, "killed by signal 2");
}

/// And none is passed on besides: the program would take it for the second.
#[test]
fn a_second_ctrl_c_does_not_lose_the_session_either() {
    let scratch = Scratch::new();
    // It says that the first came once it is ready for the second. Not in what it does for a signal: bash loses one that comes just
    // as it leaves that (1 of 1500, without slimline).
    let script = "trap 'came=1' INT; echo ready; until [ \"$came\" ]; do :; done
        trap 'exit 6' INT; echo first; sleep 0.3; echo still; while :; do :; done";
    let (mut child, mut output) = start_in_terminal(&scratch, script);
    type_ctrl_c(&mut child);
    wait_for_line(&mut output, "first");
    wait_for_line(&mut output, "still");
    type_ctrl_c(&mut child);
    assert_eq!(child.wait().unwrap().code(), Some(6));
    let report = report(&scratch);
    assert!(report.session.complete);
    assert_eq!(report.session.ended, "exit status 6");
}

/// Sent to slimline alone.
#[test]
fn what_is_to_end_slimline_ends_the_program_and_the_session_is_whole() {
    for (name, number) in [("-INT", 2), ("-QUIT", 3), ("-TERM", 15), ("-HUP", 1)] {
        let scratch = Scratch::new();
        // Once it is no shell any more: bash ignores SIGQUIT.
        let (mut child, _output) = start_ready(&scratch, "ulimit -c 0; (sleep 0.2; echo ready) & exec sleep 60");
        signal(name, &child.id().to_string());
        assert_eq!(child.wait().unwrap().signal(), Some(number), "{name}");
        let report = report(&scratch);
        assert!(report.session.complete, "{name}");
        assert_eq!(report.session.ended, format!("killed by signal {number}"));
    }
}

/// The mappings of its threads' stacks are known although nobody could look at its end.
#[test]
fn stacks_of_threads_are_known_where_a_signal_ends_the_program() {
    const SOURCE: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static void *work(void *unused) {
    volatile double x = 1;
    for (long i = 0; i < 100000000; i++) x = x * 1.0000001;
    return unused;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    kill(getpid(), SIGTERM);
    pause();
}
"#;
    let scratch = Scratch::new();
    let program = scratch.compile("program", SOURCE, &["-O1", "-g", "-pthread"]);
    let output = scratch.slimline(["record".as_ref(), "--".as_ref(), program.as_os_str()]).output().unwrap();
    assert_eq!(output.status.signal(), Some(15), "{output:?}");
    let report = report(&scratch);
    let stack =
        report.groups.iter().find(|group| group.kind == "stack").unwrap_or_else(|| panic!("{:#?}", report.groups));
    assert!(stack.share > 0.9, "{:#?}", report.groups);
}

/// A script that counts how often a signal comes within one to two seconds after `sent`, and ends with 40 and that number.
fn counting(name: &str, sent: &str) -> String {
    format!(
        "came=0; trap 'came=$((came + 1))' {name}; echo ready; {sent}
        end=$((SECONDS + 2)); until [ $SECONDS -ge $end ]; do :; done; exit $((40 + came))"
    )
}

/// `kill 0` sends the signal to slimline as well, which must not end or pass it on.
#[test]
fn what_the_program_sends_to_its_group_comes_once() {
    // All that end a program by default, real-time signals included, but SIGSEGV and SIGBUS.
    let names =
        "USR1 USR2 ALRM TERM HUP INT QUIT ILL TRAP ABRT FPE SYS XCPU XFSZ STKFLT PWR IO PROF VTALRM RTMIN+3 RTMAX";
    let scratch = Scratch::new();
    let script = format!(
        "declare -A came; for name in {names}; do trap \"came[$name]+=x\" $name; done; echo ready
        for name in {names}; do kill -$name 0; done
        end=$((SECONDS + 2)); until [ $SECONDS -ge $end ]; do :; done
        for name in {names}; do echo $name ${{came[$name]}}; done"
    );
    let (mut child, output) = start_ready(&scratch, &script);
    let lines: Vec<String> = output.lines().map(Result::unwrap).collect();
    let expected: Vec<String> = names.split_whitespace().map(|name| format!("{name} x")).collect();
    assert_eq!(lines, expected);
    assert!(child.wait().unwrap().success());
    assert!(report(&scratch).session.complete);
}

/// Who sent it can't be asked any more when slimline looks.
#[test]
fn what_a_short_lived_process_sends_to_the_group_comes_once() {
    let scratch = Scratch::new();
    let sends = "for i in 1 2 3 4 5 6 7 8 9 10; do (kill -USR1 0 &); sleep 0.05; done";
    let (mut child, _output) = start_ready(&scratch, &counting("USR1", sends));
    assert_eq!(child.wait().unwrap().code(), Some(50));
}

/// As a shell does for `kill %1`.
#[test]
fn what_others_send_to_the_group_comes_once() {
    for name in ["TERM", "HUP", "USR1"] {
        let scratch = Scratch::new();
        let (mut child, _output) = start_ready(&scratch, &counting(name, ""));
        signal(&format!("-{name}"), &format!("-{}", child.id()));
        assert_eq!(child.wait().unwrap().code(), Some(41), "{name}");
    }
}

/// Who looks for slimline by its name means the program that it runs.
#[test]
fn what_is_sent_to_processes_named_slimline_reaches_the_program() {
    let scratch = Scratch::new();
    let name = format!("slimline-{}", std::process::id());
    let script = format!(
        "cp $SLIMLINE {name}; exec ./{name} record -- bash -c '{}'",
        counting("USR1", "").replace('\'', "'\\''")
    );
    let mut shell = scratch.bash(&script);
    let mut child = shell.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    wait_for_line(&mut output, "ready");
    // The kernel keeps 15 bytes of a name.
    assert!(Command::new("pkill").args(["-USR1", &name[..name.len().min(15)]]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(41));
}

/// The first of two equal signals that pend is the one that a process sees, and that may be another one in another process.
#[test]
fn what_several_processes_send_to_the_group_comes_as_often_as_alone() {
    let scratch = Scratch::new();
    // Those that come at the same time may come as one, so fewer is right, and more is not.
    let sends = "for i in 1 2 3 4 5; do (kill -USR1 0 &); (kill -USR1 0 &); sleep 0.05; done";
    let (mut child, _output) = start_ready(&scratch, &counting("USR1", sends));
    let came = child.wait().unwrap().code().unwrap() - 40;
    assert!((5..=10).contains(&came), "{came}");
}

/// As `timeout` does. Alone it would lead the group that slimline leads.
#[test]
fn a_program_that_left_the_group_gets_what_is_sent_to_it() {
    for name in ["TERM", "HUP"] {
        let scratch = Scratch::new();
        let script = format!("trap 'exit 7' {name}; echo ready; while :; do :; done");
        let mut command = scratch.slimline(["record", "--", "timeout", "20", "bash", "-c", &script]);
        let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        wait_for_line(&mut BufReader::new(child.stdout.take().unwrap()), "ready");
        signal(&format!("-{name}"), &format!("-{}", child.id()));
        let expected = if name == "TERM" { 124 } else { 125 };
        let code = child.wait().unwrap().code();
        assert!(code == Some(7) || code == Some(expected), "{name}: {code:?}");
    }
}

/// Other threads of slimline run by then, which must not take the signal by its default action.
#[test]
fn a_traced_program_gets_signals_as_a_recorded_one() {
    let scratch = Scratch::new();
    let source = "#include <signal.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        static void handle(int signal) { (void)signal; _exit(6); }
        int main(void) { signal(SIGTERM, handle); puts(\"ready\"); fflush(stdout); for (;;) pause(); }";
    std::fs::write(scratch.path("program.c"), source).unwrap();
    let built = scratch.slimline(["cc", "-O1", "-g", "program.c", "-o", "program"]).status().unwrap();
    assert!(built.success());
    for arguments in [&["trace", "-o", "traced"][..], &["trace", "--live"], &["simulate", "--live"], &["regions"]] {
        for is_group in [false, true] {
            let _ = std::fs::remove_dir_all(scratch.path("traced"));
            let mut command = scratch.slimline(arguments.iter().copied().chain(["--", "./program"]));
            let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            wait_for_line(&mut output, "ready");
            signal("-TERM", &format!("{}{}", if is_group { "-" } else { "" }, child.id()));
            std::io::copy(&mut output, &mut std::io::sink()).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(6), "{arguments:?}, to the group: {is_group}");
        }
    }
}

/// Such programs look for debuggers. Each signal stops them from then on, until who started them lets them go on.
#[test]
fn a_program_of_which_a_thread_asks_to_be_traced_runs_to_its_end() {
    const SOURCE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <signal.h>
#include <sys/ptrace.h>
static volatile int came;
static void handle(int signal) { came += signal == SIGUSR1; }
static void *work(void *unused) {
    printf("%ld\n", ptrace(PTRACE_TRACEME, 0, 0, 0));
    raise(SIGUSR1);
    return unused;
}
int main(void) {
    signal(SIGUSR1, handle);
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    printf("%d\n", came);
    return 7;
}
"#;
    let scratch = Scratch::new();
    let program = scratch.compile("program", SOURCE, &["-O1", "-g", "-pthread"]);
    let output = scratch.slimline(["record".as_ref(), "--".as_ref(), program.as_os_str()]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n1\n");
}

#[test]
fn a_program_that_asks_to_be_traced_runs_to_its_end() {
    const SOURCE: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <time.h>
static volatile int came;
static void handle(int signal) { came += signal == SIGUSR1; }
int main(void) {
    signal(SIGUSR1, handle);
    printf("%ld\n", ptrace(PTRACE_TRACEME, 0, 0, 0));
    printf("%ld\n", ptrace(PTRACE_TRACEME, 0, 0, 0));
    raise(SIGUSR1);
    static volatile long all[1 << 20];
    while (clock() < CLOCKS_PER_SEC / 2)
        for (int i = 0; i < 1 << 20; i += 8) all[i]++;
    raise(SIGUSR1);
    printf("%d\n", came);
    return 7;
}
"#;
    let scratch = Scratch::new();
    let program = scratch.compile("program", SOURCE, &["-O1", "-g"]);
    let output = scratch
        .slimline(["record".as_ref(), "-F".as_ref(), "1000".as_ref(), "--".as_ref(), program.as_os_str()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n-1\n2\n");
    assert!(report(&scratch).session.complete);
}

/// Servers take such signals to read their configuration again.
#[test]
fn what_is_sent_to_slimline_reaches_the_program() {
    for name in ["USR1", "USR2", "HUP", "ALRM", "ABRT", "STKFLT", "PWR", "RTMIN+5"] {
        let scratch = Scratch::new();
        let script = format!("trap 'exit 6' {name}; echo ready; while :; do :; done");
        let (mut child, _output) = start_ready(&scratch, &script);
        signal(&format!("-{name}"), &child.id().to_string());
        assert_eq!(child.wait().unwrap().code(), Some(6), "{name}");
        assert!(report(&scratch).session.complete, "{name}");
    }
}

/// Also by those that no signal handler is usual for.
#[test]
fn slimline_ends_by_the_signal_that_ended_the_program() {
    for (name, number) in [("ABRT", 6), ("SYS", 31), ("STKFLT", 16), ("PWR", 30), ("RTMIN+1", 35), ("RTMAX", 64)] {
        let scratch = Scratch::new();
        let script = format!("ulimit -c 0; kill -{name} $$; exit 9");
        let output = scratch.slimline(["record", "--", "bash", "-c", &script]).output().unwrap();
        assert_eq!(output.status.signal(), Some(number), "{name}: {output:?}");
    }
}

/// Also those that slimline itself can't do without, or that Rust's runtime changes.
#[test]
fn the_program_ignores_and_blocks_what_slimline_was_started_with() {
    const START: &str = "
import os, signal, sys
for number in signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGUSR1, signal.SIGTSTP, signal.SIGRTMIN:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGCHLD, signal.SIGALRM])
os.execv(sys.argv[1], sys.argv[1:])";
    let scratch = Scratch::new();
    const SHOW: &str = "print if /^Sig(Ign|Blk)/; END { exit 3 }";
    let shown = ["perl", "-ne", SHOW, "/proc/self/status"];
    let run = |before: &[&str]| {
        let mut command = Command::new("python3");
        command.args(["-c", START]).args(before).args(shown).current_dir(scratch.path("."));
        command.output().unwrap()
    };
    let slimline = env!("CARGO_BIN_EXE_slimline");
    let (alone, recorded) = (run(&["/usr/bin/env"]), run(&[slimline, "record", "--"]));
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), String::from_utf8_lossy(&alone.stdout));
    assert_eq!((alone.status.code(), recorded.status.code()), (Some(3), Some(3)), "{recorded:?}");
    let skid = info(&scratch).collector.skid;
    assert!(!format!("{skid:?}").contains("was lost"), "what slimline measures before needs its children: {skid:?}");
}

/// As `less` and `top` do for Ctrl-Z. A shell with jobs then takes the terminal back, and `fg` goes on.
#[test]
fn slimline_stops_with_the_program_and_goes_on_with_it() {
    const SHELL: &str = "
import os, signal, sys
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.execv(sys.argv[1], sys.argv[1:])
for _ in range(3):
    _, status = os.waitpid(child, os.WUNTRACED)
    print(os.WIFSTOPPED(status) and os.WSTOPSIG(status), flush=True)
    os.kill(child, signal.SIGCONT)
print(os.waitstatus_to_exitcode(os.waitpid(child, os.WUNTRACED)[1]))";
    let scratch = Scratch::new();
    let program = ["bash", "-c", "for name in STOP TSTP STOP; do kill -$name $$; done; exit 5"];
    let run = |before: &[&str]| {
        let mut command = Command::new("python3");
        command.args(["-c", SHELL]).args(before).args(program).current_dir(scratch.path("."));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let (alone, recorded) = (run(&["/usr/bin/env"]), run(&[env!("CARGO_BIN_EXE_slimline"), "record", "--"]));
    assert_eq!((alone.as_str(), recorded.as_str()), ("19\n20\n19\n5\n", "19\n20\n19\n5\n"));
}

/// Also where slimline was stopped with the program, and is continued alone.
#[test]
fn the_program_goes_on_when_slimline_is_continued() {
    for name in ["STOP", "TSTP"] {
        let scratch = Scratch::new();
        let (mut child, mut output) =
            start_ready(&scratch, "mkfifo fifo; echo $$ >pid; echo ready; read line <fifo; echo on; exit 5");
        let pid = std::fs::read_to_string(scratch.path("pid")).unwrap();
        signal(&format!("-{name}"), &format!("-{}", child.id()));
        for pid in [pid.trim(), &child.id().to_string()] {
            while !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ") {
                std::thread::yield_now();
            }
        }
        signal("-CONT", &child.id().to_string());
        std::fs::write(scratch.path("fifo"), "\n").unwrap();
        wait_for_line(&mut output, "on");
        assert_eq!(child.wait().unwrap().code(), Some(5), "{name}");
    }
}

/// It takes Ctrl-Z for something else, as editors do.
#[test]
fn slimline_does_not_stop_where_the_program_does_not() {
    let scratch = Scratch::new();
    let (mut child, mut output) =
        start_ready(&scratch, "trap 'echo no' TSTP; trap 'exit 4' USR1; echo ready; while :; do :; done");
    signal("-TSTP", &format!("-{}", child.id()));
    wait_for_line(&mut output, "no");
    std::thread::sleep(std::time::Duration::from_millis(300));
    signal("-USR1", &child.id().to_string());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!((child.wait().unwrap().code(), rest.as_str()), (Some(4), ""), "the signal came once");
    assert!(report(&scratch).session.complete);
}

#[test]
fn slimline_goes_on_when_something_else_continues_the_program() {
    let scratch = Scratch::new();
    let script = "for i in 1 2 3; do (sleep 0.2; kill -CONT $$) & kill -STOP $$; done; exit 5";
    let output = scratch.slimline(["record", "--", "bash", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(report(&scratch).session.complete);
}

/// A shell starts what is in the background with SIGINT ignored. The program may handle it all the same.
#[test]
fn what_was_ignored_reaches_a_program_that_handles_it() {
    let scratch = Scratch::new();
    let handle = "import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(6))
print('ready', flush=True)
while True: time.sleep(1)";
    std::fs::write(scratch.path("handle.py"), handle).unwrap();
    let script = "trap '' INT HUP; exec $SLIMLINE record -- python3 handle.py";
    let mut child = scratch.bash(script).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    wait_for_line(&mut BufReader::new(child.stdout.take().unwrap()), "ready");
    signal("-INT", &child.id().to_string());
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

/// As by a supervisor that is in a hurry.
#[test]
fn signals_that_come_after_the_programs_end_do_not_change_how_slimline_ends() {
    let scratch = Scratch::new();
    for round in 0..10 {
        let (mut child, _output) = start_ready(&scratch, "trap 'exit 5' TERM; echo ready; while :; do :; done");
        let pid = child.id().to_string();
        let status = loop {
            signal("-TERM", &pid);
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
        };
        assert_eq!(status.code(), Some(5), "round {round}: {status}");
    }
}

/// Whoever reads what the program writes waits for the program alone.
#[test]
fn a_pipe_ends_when_the_program_closes_it() {
    let scratch = Scratch::new();
    let script = "$SLIMLINE record -- sh -c 'exec >&- 5>&-; read line <go; exit 3' 5>&1 | { cat; echo >go; }
        echo ${PIPESTATUS[0]}";
    let output = scratch.bash(&format!("mkfifo go\n{script}")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "3\n", "{output:?}");
}

#[test]
fn streams_that_were_closed_stay_closed() {
    let scratch = Scratch::new();
    let show = "for stream in 0 1 2; do [ -e /proc/$$/fd/$stream ] && echo $stream; done >out";
    for closed in ["<&-", ">&-", "<&- >&-", "2>&-", "<&- >&- 2>&-"] {
        let run = |before: &str| {
            let script = format!("cat >show.sh <<'END'\n{show}\nEND\n{before} bash show.sh {closed}; cat out");
            String::from_utf8(scratch.bash(&script).output().unwrap().stdout).unwrap()
        };
        assert_eq!(run("$SLIMLINE record -- "), run(""), "{closed}");
    }
}

/// `alarm` outlives `exec`: the kernel sends the signal to slimline alone.
#[test]
fn an_alarm_that_was_set_before_slimline_started_ends_the_program() {
    let scratch = Scratch::new();
    let mut perl = scratch.bash("exec perl -e 'alarm 1; exec @ARGV' $SLIMLINE record -- sleep 30");
    let output = perl.output().unwrap();
    assert_eq!(output.status.signal(), Some(14), "{output:?}");
    assert!(report(&scratch).session.complete);
}

/// A terminal that goes away sends its signal to the session's leader alone.
#[test]
fn a_terminal_that_hangs_up_ends_the_program() {
    let scratch = Scratch::new();
    let (mut child, output) = start_in_terminal(&scratch, "echo $$ > pid; echo ready; while :; do :; done");
    let pid = std::fs::read_to_string(scratch.path("pid")).unwrap();
    // `script` holds the terminal.
    child.kill().unwrap();
    child.wait().unwrap();
    drop(output);
    let is_there = || std::fs::exists(format!("/proc/{}", pid.trim())).unwrap();
    let began = std::time::Instant::now();
    while is_there() {
        assert!(began.elapsed().as_secs() < 20, "it runs on");
        std::thread::yield_now();
    }
}
