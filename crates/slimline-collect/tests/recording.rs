//! Small programs under the real agent: what of them ends up in the session.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use slimline_trace::session::{Part, Process, ProcessState, Session};
use slimline_trace::tables::RangeOrigin;

/// A list of 20,000 nodes of 40 bytes, walked until half a second of CPU time is used; then what `END` says.
const LIST: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct node { struct node *next; long value[4]; };

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void *walk(void *list) {
    long sum = 0;
    double begin = cpu_seconds();
    while (cpu_seconds() - begin < 0.5)
        for (struct node *n = list; n; n = n->next) sum += n->value[2];
    return (void *)sum;
}

int main(void) {
    struct node *list = 0;
    for (int i = 0; i < 20000; i++) {
        struct node *n = malloc(sizeof *n);
        n->next = list;
        n->value[2] = i;
        list = n;
    }
    volatile char *big = malloc(3 << 20);
    big[100] = 1;
    free((void *)big);
    END
}
"#;

struct Recording {
    _scratch: tempfile::TempDir,
    output: Output,
    session: Session,
}

/// Compiles [`LIST`] with this end and records it.
fn record(end: &str) -> Recording {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    fs::write(path("list.c"), LIST.replace("END", end)).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-g", "-pthread", "-o"]).arg(path("list")).arg(path("list.c"));
    assert!(compiler.status().expect("cc starts").success());
    let output = Command::new(recorder()).arg(path("s")).arg(path("list")).output().unwrap();
    let session = Session::open(&path("s")).unwrap();
    Recording { _scratch: scratch, output, session }
}

/// The example `record_command`, which cargo builds beside this test.
fn recorder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples/record_command");
    assert!(path.is_file(), "{} is missing: run all tests of this crate, not one file's", path.display());
    path
}

fn load(session: &Session) -> (Process, Vec<Part>) {
    let process = session.load(&session.processes()[0]).unwrap();
    let parts = process.parts().collect::<Result<_, _>>().unwrap();
    (process, parts)
}

/// Share of the accesses that fall into a block, and whether all of those blocks are nodes.
fn share_in_nodes(parts: &[Part]) -> f64 {
    let (mut inside, mut all) = (0, 0);
    for part in parts {
        all += part.accesses.len();
        for block in part.accesses.block.iter().flatten() {
            inside += usize::from(part.blocks.bytes[block.index()] == 40);
        }
    }
    inside as f64 / all.max(1) as f64
}

#[test]
fn a_walk_over_a_list_is_seen_as_such() {
    let Recording { _scratch, output, session } = record("printf(\"%ld\\n\", (long)walk(list) & 1); return 3;");
    assert_eq!(output.status.code(), Some(3));
    let [summary] = session.processes() else { panic!("{:?}", session.processes()) };
    assert_eq!(summary.state, ProcessState::Exited, "{summary:?}");
    assert!(summary.executable.ends_with("/list"));
    assert!(summary.allocations >= 20_001 && summary.allocated_bytes >= 20_000 * 40 + (3 << 20), "{summary:?}");
    assert!(summary.samples > 0 && summary.losses.dropped_samples == 0, "{summary:?}");

    let (process, parts) = load(&session);
    assert_eq!(parts.iter().map(|part| part.samples.len() as u64).sum::<u64>(), summary.samples);
    assert_eq!(parts.iter().map(|part| part.accesses.len() as u64).sum::<u64>(), summary.accesses);
    assert!(share_in_nodes(&parts) > 0.9, "{}", share_in_nodes(&parts));
    let part = &parts[0];
    let stack = part.blocks.stack[0].expect("the nodes' call path is known");
    assert!(!process.stacks.frames(stack).is_empty());
    let big = process.ranges.iter().find(|range| range.origin == RangeOrigin::Heap && range.bytes == 3 << 20);
    let big = big.expect("the large block is a range");
    assert!(big.died_ns.is_some_and(|died| died >= big.born_ns), "{big:?}");
    // Every blamed instruction lies in a mapping.
    let in_a_mapping = |ip: u64| {
        (0..process.mappings.len())
            .any(|row| (process.mappings.start[row].0..process.mappings.end[row].0).contains(&ip))
    };
    assert!(part.samples.sampled_ip.iter().all(|ip| in_a_mapping(ip.0)));
    assert_eq!(process.threads.samples.iter().sum::<u64>(), summary.samples);
}

#[test]
fn a_target_that_is_killed_leaves_what_it_recorded() {
    let Recording { _scratch, output, session } = record("walk(list); raise(SIGKILL);");
    assert_eq!(output.status.signal(), Some(9));
    let [summary] = session.processes() else { panic!("{:?}", session.processes()) };
    assert_eq!(summary.state, ProcessState::Gone);
    assert!(session.info().complete && summary.samples > 0, "{summary:?}");
    let (_, parts) = load(&session);
    assert!(share_in_nodes(&parts) > 0.9);
}

#[test]
fn threads_are_told_apart() {
    let threads = "pthread_t t[2]; for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, walk, list);
                   for (int i = 0; i < 2; i++) pthread_join(t[i], 0); return 0;";
    let Recording { _scratch, session, .. } = record(threads);
    let (process, parts) = load(&session);
    let sampled = process.threads.samples.iter().filter(|&&samples| samples > 0).count();
    assert!(process.threads.len() >= 3 && sampled >= 2, "{:?}", process.threads);
    assert!(share_in_nodes(&parts) > 0.9);
}

#[test]
fn forked_children_are_processes_of_their_own() {
    let fork = "if (fork() == 0) { walk(list); return 0; } int s; extern int wait(int *); wait(&s); return 0;";
    let Recording { _scratch, session, .. } = record(fork);
    let mut pids: Vec<u32> = session.processes().iter().map(|process| process.pid).collect();
    pids.dedup();
    assert_eq!(pids.len(), 2, "{:?}", session.processes());
    let child = session.processes().iter().max_by_key(|process| process.samples).unwrap();
    let process = session.load(child).unwrap();
    let parts: Vec<Part> = process.parts().collect::<Result<_, _>>().unwrap();
    assert!(share_in_nodes(&parts) > 0.9, "blocks that the parent allocated are known in the child");
}

#[test]
fn sessions_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let recording = record("return 0;");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(recording.session.directory()), 0o700);
}
