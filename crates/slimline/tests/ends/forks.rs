//! Children of recorded programs: what they know of their parents' memory, and that all of them are recorded, however they were made.

use slimline_trace::session::Trigger;

use crate::outside::{info, is_allowed, report};
use crate::scratch::{Scratch, stderr};

/// Walks a large block, `table`, in children of which its first argument says how they are made, its second how many.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { LARGE = 16 << 20 };
static long *large;
static volatile long sum;
__attribute__((noinline)) static long *table(void) { return malloc(LARGE); }
__attribute__((noinline)) static void walk(double seconds) {
    struct timespec now = {0, 0};
    while ((double)now.tv_sec + (double)now.tv_nsec / 1e9 < seconds) {
        long all = 0;
        for (int i = 0; i < LARGE / 8; i += 9) all += large[i];
        sum += all;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    }
}
static int child(void *unused) { (void)unused; walk(0.6); _exit(7); }
static volatile int done;
static int thread(void *unused) {
    (void)unused;
    walk(0.6);
    done = 1;
    syscall(SYS_exit, 0);
    return 0;
}
static long make(const char *how) {
    long pid;
    if (!strcmp(how, "fork")) {
        if (!(pid = fork())) child(0);
    } else if (!strcmp(how, "raw")) {
        if (!(pid = syscall(SYS_fork))) child(0);
    } else if (!strcmp(how, "clone3")) {
        struct clone_args arguments;
        memset(&arguments, 0, sizeof arguments);
        arguments.exit_signal = SIGCHLD;
        if (!(pid = syscall(SYS_clone3, &arguments, sizeof arguments))) child(0);
    } else if (!strcmp(how, "assembly")) {
        __asm__ volatile("syscall" : "=a"(pid) : "a"(SYS_fork) : "rcx", "r11", "memory");
        if (!pid) child(0);
    } else if (!strcmp(how, "double")) {
        // A daemon: its parent ends first.
        if (!(pid = fork())) { setsid(); if (!fork()) child(0); _exit(7); }
    } else if (!strcmp(how, "thread")) {
        // One that the C library does not know.
        char *stack = mmap(0, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
        pid = clone(thread, stack + (1 << 18), flags, 0);
        while (!done) usleep(1000);
    } else {
        char *stack = mmap(0, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pid = clone(child, stack + (1 << 18), SIGCHLD | (strcmp(how, "vm") ? 0 : CLONE_VM), 0);
    }
    return pid;
}
int main(int argc, char **argv) {
    int status;
    (void)argc;
    large = table();
    for (int i = 0; i < LARGE / 8; i++) large[i] = i;
    for (int i = 0; i < atoi(argv[2]); i++) make(argv[1]);
    while (waitpid(-1, &status, __WALL) > 0) if (WEXITSTATUS(status) != 7) return 9;
    if (!strcmp(argv[1], "double")) sleep(2);
    return 0;
}
"#;

/// Records it, and returns how many of its processes have samples, and the triggers of these.
fn recorded(scratch: &Scratch, how: &str, children: u32) -> Vec<Trigger> {
    let program = scratch.compile("program", PROGRAM, &["-O1", "-g"]);
    let _ = std::fs::remove_dir_all(scratch.session());
    let mut record = scratch.slimline(["record", "-F", "1000", "--"]);
    let output = record.arg(&program).arg(how).arg(children.to_string()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{how}: {}", stderr(&output));
    let processes = info(scratch).processes;
    let sampled = processes.iter().filter(|process| process.samples > 100);
    sampled.map(|process| process.trigger).collect()
}

#[test]
fn children_know_large_blocks_of_their_parents() {
    let scratch = Scratch::new();
    for (how, children) in [("fork", 3), ("raw", 1), ("clone3", 1), ("clone", 1), ("double", 1)] {
        let triggers = recorded(&scratch, how, children);
        assert!(triggers.len() >= children as usize, "{how}: {triggers:?} of {:?}", info(&scratch).processes);
        let report = report(&scratch);
        let groups = report.groups.iter().filter(|group| group.kind == "heap");
        let group = groups.max_by(|a, b| a.share.total_cmp(&b.share)).unwrap_or_else(|| panic!("{how}"));
        let allocated_at = group.allocated_at.as_ref().map(|place| place.function.as_str());
        assert_eq!(allocated_at, Some("table"), "{how}: {}", group.name);
        assert!(group.share > 0.2, "{how}: {} {}", group.name, group.share);
        // Private copies are their parent's block.
        assert_eq!((group.blocks, group.bytes), (1, 16 << 20), "{how}");
    }
}

/// The agent is not asked by such children, nor by such threads.
#[test]
fn what_begins_behind_the_agents_back_is_sampled_from_outside() {
    let scratch = Scratch::new();
    if !is_allowed(&scratch, "what_begins_behind_the_agents_back_is_sampled_from_outside") {
        return;
    }
    for how in ["assembly", "vm", "thread"] {
        let triggers = recorded(&scratch, how, 1);
        assert!(triggers.contains(&Trigger::PerfRing), "{how}: {triggers:?} of {:?}", info(&scratch).processes);
    }
}
