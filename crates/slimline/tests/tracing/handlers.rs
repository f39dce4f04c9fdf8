//! Signal handlers that do not return: everything that was written before and in them is counted, and nothing ends that would
//! not end alone.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use serde_json::Value;
use slimline_instrument::driver::{Language, compile};
use slimline_instrument::rewrite::OwnAllocators;

use super::compiled::{SCALAR, named};
use super::{slimline, text};

const SOURCE: &str = r#"
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
enum { ROUNDS = 200, STEPS = 1000 };
struct counters { long walked, handled, caught, replaced; };
static volatile counters all;

[[gnu::noinline]] static void walk() { for (int i = 0; i < STEPS; i++) all.walked = i; }
static void install(int signal, void handler(int), int flags) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    if (sigaction(signal, &action, nullptr)) abort();
}

static void throws(int) { all.handled = 1; throw 7; }
static void fault() { walk(); *(volatile int *)8 = 1; }
static void (*volatile faults)() = fault;
static void exceptions() {
    install(SIGSEGV, throws, SA_NODEFER);
    for (int i = 0; i < ROUNDS; i++) {
        try { faults(); } catch (int seven) { all.caught = seven; }
        walk();
    }
}

static sigjmp_buf back;
static void jumps(int) { all.handled = 1; siglongjmp(back, 1); }
static void long_jumps() {
    install(SIGUSR1, jumps, 0);
    for (volatile int i = 0; i < ROUNDS; i++) {
        walk();
        if (sigsetjmp(back, 1) == 0) raise(SIGUSR1); else all.caught = 1;
        walk();
    }
}

struct guard { ~guard() { all.caught = 1; } };
static void ends(int) { guard g; all.handled = 1; pthread_exit(nullptr); }
static void raise_it() { raise(SIGUSR1); }
static void (*volatile raises)() = raise_it;
static void *thread(void *) { guard g; walk(); raises(); abort(); }
static void thread_ends() {
    install(SIGUSR1, ends, 0);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t id;
        if (pthread_create(&id, nullptr, thread, nullptr) || pthread_join(id, nullptr)) abort();
    }
}

/* A child in its parent's memory has handlers of its own. */
static void counts(int) { all.handled = 1; }
static void replaces(int) { all.replaced = 1; }
static void children() {
    install(SIGUSR1, counts, 0);
    for (volatile int i = 0; i < ROUNDS; i++) {
        pid_t child = vfork();
        if (child == 0) {
            install(SIGUSR1, replaces, 0);
            _exit(0);
        }
        waitpid(child, nullptr, 0);
        raise(SIGUSR1);
        walk();
    }
}

int main(int, char **argv) {
    if (!strcmp(argv[1], "exceptions")) exceptions();
    if (!strcmp(argv[1], "long_jumps")) long_jumps();
    if (!strcmp(argv[1], "thread_ends")) thread_ends();
    if (!strcmp(argv[1], "children")) children();
    puts("done");
}
"#;

#[test]
fn handlers_are_left_in_any_way() {
    let scratch = tempfile::tempdir().unwrap();
    let (file, program) = (scratch.path().join("program.cpp"), scratch.path().join("program"));
    fs::write(&file, SOURCE).unwrap();
    let mut arguments: Vec<OsString> = SCALAR.iter().map(OsString::from).collect();
    arguments.extend(["-o".into(), program.clone().into(), file.into()]);
    assert_eq!(
        compile(Language::CPlusPlus, &arguments, slimline_collect::RUNTIME, OwnAllocators::default()).unwrap(),
        0
    );
    let rounds = 200;
    for (mode, walks, caught) in [
        ("exceptions", 2 * rounds, rounds),
        ("long_jumps", 2 * rounds, rounds),
        // Both frames' destructors run.
        ("thread_ends", rounds, 2 * rounds),
        ("children", rounds, 0),
    ] {
        let alone = Command::new(&program).arg(mode).output().unwrap();
        assert_eq!((alone.status.code(), text(&alone.stdout)), (Some(0), "done\n"), "{mode}");
        let output = slimline()
            .args(["trace", "--live", "--report", "-", "--format", "json", "--"])
            .arg(&program)
            .arg(mode)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{mode}: {}", text(&output.stderr));
        let report: Value = serde_json::from_str(text(&output.stdout).strip_prefix("done\n").unwrap()).unwrap();
        let stores = |field: &str| named(&report["fields"], &format!("counters.{field}")).1;
        let found = ["walked", "handled", "caught", "replaced"].map(stores);
        assert_eq!(found, [1000 * walks, rounds, caught, 0], "{mode}");
        assert_eq!(report["missing"], Value::Array(Vec::new()), "{mode}");
    }
}
