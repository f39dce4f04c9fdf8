//! Programs that ask to be traced: the signals that their tracers see are those that they see without slimline.

use crate::outside::{is_allowed, report};
use crate::scratch::{Scratch, stderr, stdout};
use slimline_trace::session::{ProcessState, Session};

/// Traces a child: made by `fork`, which asks to be traced by `ptrace` or by `syscall`, or by `vfork`, which then becomes another
/// program. Prints how often each signal stopped it, what a word of its memory holds, and how it ended.
const PROGRAM: &str = r#"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile int came;
static long word = -4711;
static void count(int signal) { came += signal; }
static void work(double seconds) {
    struct timespec begun, now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begun);
    // Seldom: what the kernel does is not sampled.
    do {
        for (volatile int i = 0; i < 100000; i++) {}
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while ((double)(now.tv_sec - begun.tv_sec) + (double)(now.tv_nsec - begun.tv_nsec) / 1e9 < seconds);
}
// 10 where its own signal came once, and SIGTRAP is to kill it as it does from the start.
static int traced(void) {
    struct sigaction action;
    signal(SIGUSR1, count);
    work(0.3);
    raise(SIGUSR1);
    sigaction(SIGTRAP, NULL, &action);
    return action.sa_handler == SIG_DFL ? came : 9;
}
int main(int number, char **arguments) {
    const char *way = arguments[1];
    if (!strcmp(way, "traced")) return traced();
    int status, stops[65] = {0};
    pid_t child = strcmp(way, "vfork") ? fork() : vfork();
    if (!child) {
        if (!strcmp(way, "vfork")) {
            ptrace(PTRACE_TRACEME, 0, NULL, NULL);
            execl(arguments[0], arguments[0], "traced", NULL);
            _exit(8);
        }
        work(0.1);
        if (strcmp(way, "syscall") ? ptrace(PTRACE_TRACEME, 0, NULL, NULL) : syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0)) _exit(8);
        _exit(traced());
    }
    long peeked = 0;
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status), is_exec = !strcmp(way, "vfork") && signal == SIGTRAP && !stops[SIGTRAP];
        stops[signal]++;
        errno = 0;
        // The other program lies elsewhere.
        if (strcmp(way, "vfork")) peeked = ptrace(PTRACE_PEEKDATA, child, &word, NULL) + errno;
        ptrace(PTRACE_CONT, child, NULL, (void *)(long)(is_exec ? 0 : signal));
    }
    for (int signal = 1; signal < 65; signal++)
        if (stops[signal]) printf("signal %d: %d\n", signal, stops[signal]);
    work(0.1);
    printf("%ld, exit status %d, killed by %d\n", peeked, WEXITSTATUS(status), WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return 0;
}
"#;

/// Its library ends recording before the tracer sees its signals.
#[test]
fn a_tracer_that_a_program_asks_for_sees_its_own_signals_alone() {
    let test = "a_tracer_that_a_program_asks_for_sees_its_own_signals_alone";
    let scratch = Scratch::new();
    let program = scratch.compile("traced", PROGRAM, &["-O1", "-g"]);
    let path = program.to_str().unwrap();
    let is_allowed = is_allowed(&scratch, test);
    let from_outside = |why: &str| format!("({path}) was sampled from outside: {why}");
    for (way, expected, told) in [
        ("ptrace", "signal 10: 1\n-4711, exit status 10, killed by 0\n", "it asked to be traced (ptrace)"),
        ("syscall", "signal 10: 1\n-4711, exit status 10, killed by 0\n", "it asked to be traced (ptrace)"),
        ("vfork", "signal 5: 1\nsignal 10: 1\n0, exit status 10, killed by 0\n", "it is traced"),
    ] {
        let alone = std::process::Command::new(&program).arg(way).output().unwrap();
        assert_eq!(stdout(&alone), expected, "{way}");
        let recorded = scratch.slimline(["record", "-F", "1000", "--", path, way]).output().unwrap();
        assert_eq!(recorded.status.code(), Some(0), "{way}: {}", stderr(&recorded));
        assert_eq!(stdout(&recorded), expected, "{way}: {}", stderr(&recorded));
        let session = Session::open(&scratch.session()).unwrap();
        let is_whole = |state| state == ProcessState::Exited;
        assert!(
            session.processes().iter().any(|process| is_whole(process.state) && process.samples > 50),
            "{way}: the tracer is recorded to its end: {:?}",
            session.processes()
        );
        if is_allowed {
            let notes = report(&scratch).session.notes;
            assert!(notes.iter().any(|note| note.contains(&from_outside(told))), "{way}: {notes:?}");
        }
    }
}
