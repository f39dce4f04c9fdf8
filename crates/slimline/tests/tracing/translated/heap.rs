//! Blocks of programs that are translated: whose they are, and how often they were accessed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use super::missing;
use crate::compiled::named;
use crate::{slimline, text};

/// What it does is known in closed form.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
struct node { struct node *next; long value; };
struct point { double x, y; };
struct item { long key, count; };
static __attribute__((noinline)) struct node *push(struct node *before, long value) {
    struct node *made = malloc(sizeof *made);
    made->next = before;
    made->value = value;
    return made;
}
static char *chunk; static size_t used;
__attribute__((noinline)) void *pool_take(size_t count, size_t bytes) {
    if (!chunk) chunk = malloc(1 << 16);
    void *taken = chunk + used;
    used += count * bytes;
    return taken;
}
static void *work(void *unused) {
    for (int i = 0; i < 100; i++) {
        struct item *item = malloc(sizeof *item);
        for (int k = 0; k < 10; k++) *(volatile long *)&item->count += k;
        free(item);
    }
    return unused;
}
int main(void) {
    struct node *head = 0; long sum = 0; double x = 0;
    for (int i = 0; i < 1000; i++) head = push(head, i);
    for (struct node *at = head; at; at = at->next) sum += at->value;
    struct point *points = calloc(500, sizeof *points);
    for (int i = 0; i < 500; i++) points[i].x = i;
    points = realloc(points, 1000 * sizeof *points);
    for (int i = 0; i < 1000; i++) points[i].y = i;
    for (int i = 0; i < 500; i++) x += points[i].x;
    free(points);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    void *aligned = 0;
    if (posix_memalign(&aligned, 64, 256)) return 1;
    for (int i = 0; i < 16; i++) ((volatile char *)aligned)[i] = 1;
    long *taken = pool_take(10, sizeof(long));
    for (int i = 0; i < 10; i++) ((volatile long *)taken)[i] = i;
    printf("%ld %g\n", sum, x);
    return 0;
}
"#;

fn built(scratch: &Path, options: &[&str]) -> PathBuf {
    let (source, program) = (scratch.join("program.c"), scratch.join("program"));
    fs::write(&source, PROGRAM).unwrap();
    let mut gcc = Command::new("gcc");
    let status = gcc.args(["-g", "-O1", "-pthread"]).args(options).arg("-o").arg(&program).arg(&source).status();
    assert!(status.unwrap().success());
    program
}

fn translated(directory: &Path, command: &[&str]) -> Output {
    let mut slimline = slimline();
    let options = ["trace", "--collector", "translate", "--live", "--format", "json", "--rows", "999", "--report"];
    slimline.current_dir(directory).args(options).arg("report.json").arg("--").args(command).output().unwrap()
}

fn heap(directory: &Path) -> Value {
    let report: Value = serde_json::from_slice(&fs::read(directory.join("report.json")).unwrap()).unwrap();
    report["heap"].clone()
}

/// Blocks, loads and stores of what a line allocates.
fn of_line(heap: &Value, line: u64) -> (u64, u64, u64, Value) {
    let is_here =
        |row: &&Value| row["file"].as_str().is_some_and(|file| file.ends_with("program.c")) && row["line"] == line;
    let row = heap.as_array().unwrap().iter().find(is_here).unwrap_or_else(|| panic!("line {line}: {heap}"));
    let number = |name: &str| row[name].as_u64().unwrap();
    (number("blocks"), number("loads"), number("stores"), row.clone())
}

#[test]
fn blocks_are_of_the_calls_that_ask_for_them() {
    for options in [&[][..], &["-static"], &["-no-pie", "-fno-pie", "-O2"]] {
        let scratch = TempDir::new().unwrap();
        let program = built(scratch.path(), options);
        let output = translated(scratch.path(), &[program.to_str().unwrap()]);
        assert_eq!(
            (output.status.code(), text(&output.stdout)),
            (Some(0), "499500 124750\n"),
            "{}",
            text(&output.stderr)
        );
        let heap = heap(scratch.path());
        let counts = |line| {
            let (blocks, loads, stores, _) = of_line(&heap, line);
            (blocks, loads, stores)
        };
        let (.., nodes) = of_line(&heap, 10);
        assert_eq!((counts(10), &nodes["type_name"]), ((1000, 2000, 2000), &"node".into()), "{options:?}");
        assert_eq!(named(&nodes["fields"], "node.value"), (1000, 1000));
        assert_eq!(counts(34).0, 1);
        // In two of what `calloc` gave, the copies that `realloc` makes are its own.
        assert_eq!(counts(36).0, 1);
        assert_eq!(named(&of_line(&heap, 36).3["fields"], "point.y"), (0, 1000));
        assert_eq!(named(&of_line(&heap, 36).3["fields"], "point.x").0, 500);
        // Of four threads: each time a load and a store.
        assert_eq!(counts(24), (400, 4000, 4000));
        assert_eq!(counts(44), (1, 0, 16));
        // The chunk of an allocator that nobody has named.
        assert_eq!(counts(17), (1, 0, 10));
        // What the C library keeps for threads it frees with them, by the same function.
        let report: Value = serde_json::from_slice(&fs::read(scratch.path().join("report.json")).unwrap()).unwrap();
        assert_eq!(missing(&report), [""; 0], "{options:?}");
    }
}

#[test]
fn allocators_of_the_program_are_followed_where_they_are_named() {
    let scratch = TempDir::new().unwrap();
    let program = built(scratch.path(), &[]);
    let own = "[[allocator]]\nallocate = [{ function = \"pool_take\", count = 1, size = 2 }]\n";
    fs::write(scratch.path().join("slimline.toml"), own).unwrap();
    let output = translated(scratch.path(), &[program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let heap = heap(scratch.path());
    let (blocks, loads, stores, row) = of_line(&heap, 46);
    assert_eq!((blocks, loads, stores, &row["peak_bytes"]), (1, 0, 10, &80.into()));
}

/// Also behind functions that `longjmp` left.
#[test]
fn callers_are_followed() {
    let scratch = TempDir::new().unwrap();
    let (source, program) = (scratch.path().join("callers.c"), scratch.path().join("callers"));
    let code = "#include <setjmp.h>\n#include <stdlib.h>\n#define OUT __attribute__((noinline))\nstatic jmp_buf back;\n\
        OUT void *make(size_t bytes) { void *made = malloc(bytes); __asm__ volatile(\"\" : : \"r\"(made) : \"memory\"); return made; }\n\
        OUT void first(void) { for (int i = 0; i < 3; i++) free(make(100)); longjmp(back, 1); }\n\
        OUT void second(void) { for (int i = 0; i < 5; i++) free(make(100)); __asm__ volatile(\"\"); }\n\
        int main(void) { if (!setjmp(back)) first(); second(); free(make(100)); return 0; }\n";
    fs::write(&source, code).unwrap();
    let status = Command::new("gcc").args(["-g", "-O1", "-o"]).arg(&program).arg(&source).status();
    assert!(status.unwrap().success());
    let run = ["trace", "--collector", "translate", "--live", "--callers", "--format", "json", "--report", "-", "--"];
    let output = slimline().args(run).arg(&program).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let of_make = report["heap"].as_array().unwrap().iter().filter(|row| row["function"] == "make");
    let mut told: Vec<_> = of_make
        .map(|row| {
            let callers = row["callers"].as_array().unwrap().iter();
            let own = callers.filter(|caller| caller["file"].as_str().is_some_and(|file| file.ends_with("callers.c")));
            let own: Vec<_> = own.map(|caller| caller["function"].as_str().unwrap().to_owned()).collect();
            (own.join(" "), row["blocks"].as_u64().unwrap())
        })
        .collect();
    told.sort();
    let expected = [("first main", 3), ("main", 1), ("second main", 5)];
    assert_eq!(told, expected.map(|(callers, blocks)| (callers.to_owned(), blocks)));
}

/// Scripts are run as the kernel does: by what they name, with what they give it.
#[test]
fn scripts_are_run_by_what_they_name() {
    let scratch = TempDir::new().unwrap();
    let script = scratch.path().join("script");
    fs::write(&script, "#!/bin/sh -e\necho $0 $# \"$2\"\nfalse\necho no\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let alone = Command::new(&script).args(["a", "b c"]).output().unwrap();
    let output = translated(scratch.path(), &[script.to_str().unwrap(), "a", "b c"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (alone.status.code(), text(&alone.stdout)));
    assert_eq!(output.status.code(), Some(1));
    assert!(!heap(scratch.path()).as_array().unwrap().is_empty(), "{}", text(&output.stderr));
}

/// What a program becomes, or starts, is traced too, and sees nothing of that.
#[test]
fn programs_that_are_started_are_translated_too() {
    let scratch = TempDir::new().unwrap();
    let program = built(scratch.path(), &[]);
    let script = scratch.path().join("script");
    fs::write(&script, "#!/bin/sh\necho \"$0 $1\"\nenv | grep -c ^SLIMLINE_TRACE\nexec \"$2\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let run = format!("'{0}' 1 '{1}'; /not/there; '{0}' 2 '{1}'; exit 7", script.display(), program.display());
    let alone = Command::new("/bin/sh").args(["-c", &run]).output().unwrap();
    let output = translated(scratch.path(), &["/bin/sh", "-c", &run]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(7), text(&alone.stdout)));
    assert!(text(&output.stdout).contains(" 1\n0\n499500 124750\n"), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("/not/there: not found"), "{}", text(&output.stderr));
    let heap = heap(scratch.path());
    let (blocks, loads, stores, _) = of_line(&heap, 10);
    assert_eq!((blocks, loads, stores), (2000, 4000, 4000), "each is in the report");
}

/// Nothing is left of us by then but QEMU: what it starts runs untraced, and says nothing of that.
#[test]
fn what_a_program_leaves_behind_runs_on_as_alone() {
    let scratch = TempDir::new().unwrap();
    let [ours, out] = ["ours", "out"].map(|name| scratch.path().join(name));
    assert!(Command::new("mkfifo").arg(&ours).status().unwrap().success());
    let left = format!(
        "(read go < '{}'; /bin/echo $go; echo $?) > '{}' 2>&1 < /dev/null & exit 3",
        ours.display(),
        out.display()
    );
    let output = translated(scratch.path(), &["/bin/sh", "-c", &left]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    fs::write(&ours, "here\n").unwrap();
    let written = loop {
        let written = fs::read_to_string(&out).unwrap();
        if written.ends_with("0\n") || written.ends_with("1\n") {
            break written;
        }
        std::thread::yield_now();
    };
    assert_eq!(written, "here\n0\n");
}

/// A program says by itself what of it is traced, compiled by anybody.
#[test]
fn programs_say_what_of_them_is_traced() {
    let scratch = TempDir::new().unwrap();
    let (source, program) = (scratch.path().join("program.c"), scratch.path().join("program"));
    fs::write(scratch.path().join("slimline.h"), slimline().arg("header").output().unwrap().stdout).unwrap();
    let code = "#include \"slimline.h\"\nstatic volatile long a[1000];\n\
        static void add(void) { for (int i = 0; i < 1000; i++) a[i] = i; }\n\
        int main(void) { add(); for (int k = 0; k < 3; k++) { slimline_start(); add(); slimline_stop(); add(); } return 5; }\n";
    fs::write(&source, code).unwrap();
    let status = Command::new("gcc").args(["-g", "-O1", "-o"]).arg(&program).arg(&source).status();
    assert!(status.unwrap().success());
    assert_eq!(Command::new(&program).status().unwrap().code(), Some(5));
    let run = ["trace", "--collector", "translate", "--live", "--paused", "--format", "json", "--report", "-", "--"];
    let output = slimline().args(run).arg(&program).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!((output.status.code(), named(&report["variables"], "a")), (Some(5), (0, 3000)));
}

/// A static program without a C library, all of whose accesses are the same in both: those of the stack are eight calls and returns.
const WITHOUT_LIBRARY: &str = r#"
static long a[1 << 17]; static volatile int b[1 << 12]; static volatile long sum;
static __attribute__((noinline)) void fill(long stride) { for (long i = 0; i < 1 << 17; i += stride) a[i] = i; }
static __attribute__((noinline)) void add(void) { long s = 0; for (int k = 0; k < 3; k++) for (int i = 0; i < 1 << 17; i += 5) s += a[i]; sum = s; }
static __attribute__((noinline)) void swap(void) { for (int i = 0; i < 1 << 12; i++) b[i] = b[(i * 2654435761u) >> 20 & 4095] + 1; }
__attribute__((force_align_arg_pointer)) void _start(void) {
    fill(1); add(); fill(9); swap(); add(); swap();
    __asm__ volatile("syscall" : : "a"(60), "D"(0) : "rcx", "r11", "memory");
    __builtin_unreachable();
}
"#;

#[test]
fn a_machine_like_cachegrinds_misses_as_cachegrind_does() {
    let scratch = TempDir::new().unwrap();
    let (source, program) = (scratch.path().join("bare.c"), scratch.path().join("bare"));
    fs::write(&source, WITHOUT_LIBRARY).unwrap();
    let options = [
        "-O2",
        "-fno-tree-vectorize",
        "-fno-unroll-loops",
        "-nostdlib",
        "-static",
        "-fno-stack-protector",
        "-fcf-protection=none",
    ];
    let status = Command::new("gcc").args(options).arg("-o").arg(&program).arg(&source).status();
    assert!(status.unwrap().success());
    let run = [
        "simulate",
        "--machine",
        "valgrind",
        "--live",
        "--collector",
        "translate",
        "--format",
        "json",
        "--report",
        "-",
        "--",
    ];
    let simulated = slimline().args(run).arg(&program).output().unwrap();
    let report: Value =
        serde_json::from_slice(&simulated.stdout).unwrap_or_else(|_| panic!("{}", text(&simulated.stderr)));
    let machine = &report["machines"][0];
    let sizes = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64", "--cachegrind-out-file=/dev/null"];
    let cachegrind =
        Command::new("valgrind").args(["--tool=cachegrind", "--cache-sim=yes"]).args(sizes).arg(&program).output();
    let said = cachegrind.unwrap();
    // `D1  misses:  1,234  (  1,000 rd   +  234 wr)`
    let told = |line: &str| -> Vec<u64> {
        let line = text(&said.stderr).lines().find(|it| it.contains(line)).unwrap_or_else(|| panic!("{line}"));
        let after = line.split_once('(').unwrap().1.replace(',', "");
        after.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
    };
    let number = |value: &Value| value.as_u64().unwrap();
    assert_eq!([number(&machine["loads"]), number(&machine["stores"])], told("D   refs:")[..]);
    let cache = |name: &str| {
        let cache = machine["caches"].as_array().unwrap().iter().find(|cache| cache["name"] == name).unwrap();
        [number(&cache["load_misses"]), number(&cache["store_misses"])]
    };
    assert_eq!(cache("D1"), told("D1  misses:")[..]);
    assert_eq!(cache("LL"), told("LLd misses:")[..]);
}

/// Made, gone through in that order, and freed; the allocator's own accesses are to headers between them and to what is free.
const LIST: &str = r#"
#include <stdlib.h>
struct node { struct node *next; long value; };
int main(void) {
    struct node *head = 0, **end = &head;
    for (int i = 0; i < 3000; i++, end = &(*end)->next) (*end = malloc(sizeof **end))->value = i, (*end)->next = 0;
    long sum = 0;
    for (int i = 0; i < 5; i++) for (struct node *at = head; at; at = at->next) sum += at->value;
    for (struct node *at = head, *next; at; at = next) next = at->next, free(at);
    return sum != 5 * 2999L * 1500;
}
"#;

#[test]
fn what_the_allocator_does_itself_speaks_against_no_order() {
    let scratch = TempDir::new().unwrap();
    let (source, program, trace) =
        (scratch.path().join("list.c"), scratch.path().join("list"), scratch.path().join("trace"));
    fs::write(&source, LIST).unwrap();
    let status = Command::new("gcc").args(["-O2", "-g", "-o"]).arg(&program).arg(&source).status();
    assert!(status.unwrap().success());
    let mut tracing = slimline();
    tracing.args(["trace", "--collector", "translate", "-o"]).arg(&trace).arg("--").arg(&program);
    assert_eq!(tracing.output().unwrap().status.code(), Some(0));
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/hinted/small.toml");
    let layout =
        slimline().args(["layout", "--format", "json", "--machine"]).arg(machine).arg(&trace).output().unwrap();
    let layout: Value = serde_json::from_slice(&layout.stdout).unwrap_or_else(|_| panic!("{}", text(&layout.stderr)));
    // Two headers each, at least, as they are made and freed.
    assert!(layout["beside_accesses"].as_u64().unwrap() >= 6000, "{layout}");
    let orders = layout["orders"].as_array().unwrap();
    let allocated = orders.iter().find(|row| row["order"] == "allocated").unwrap();
    // They lie so.
    let ratio = allocated["cycles_ratio"].as_f64().unwrap();
    assert!((0.98..1.02).contains(&ratio), "{layout}");
}
