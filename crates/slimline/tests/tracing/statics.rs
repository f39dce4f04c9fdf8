//! Static variables are told by where accesses go, whatever the pointer is called that they go by.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::compiled::{compiled_with, named};
use super::{report, slimline, text};

/// Arrays that functions are given; a counter beside another one, in the same sixteen bytes; two variables of one name; what the optimizer
/// takes apart; what is on the stack.
const PROGRAM: &str = r#"
#include <stdio.h>
static long hot[1000], cold[1000];
static int left, right;
static struct { long sum; long padding; long most; } totals;
__attribute__((noinline)) static long total(volatile long *values, int n) {
    long sum = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    return sum;
}
__attribute__((noinline)) static void bump(volatile int *counter, int n) {
    for (int i = 0; i < n; i++) ++*counter;
}
__attribute__((noinline)) static long first(void) { static long calls; return total(&calls, 1); }
__attribute__((noinline)) static long second(void) { static long calls; return total(&calls, 1); }
int main(int argc, char **argv) {
    volatile long local[4] = {0};
    hot[argc] = argc;
    long sum = 0;
    for (int i = 0; i < 5; i++) { sum += total(hot, 1000); totals.sum += argc; if (totals.most < argc) totals.most = argc; }
    sum += total(cold, 1000) + total(local, 4);
    bump(&left, 30);
    bump(&right, 20);
    sum += first() + second();
    printf("%ld %d\n", sum + totals.sum + totals.most, left + right);
}
"#;

fn json(arguments: &[&str], program: &Path) -> Value {
    let output = slimline().args(arguments).arg("--").arg(program).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(if output.stderr.is_empty() { &output.stdout } else { &output.stderr });
    serde_json::from_str(&shown[shown.find('{').unwrap()..]).unwrap()
}

fn loads(report: &Value, name: &str) -> u64 {
    named(&report["variables"], name).0
}

#[test]
fn whatever_they_are_accessed_by() {
    for options in [&["-fPIE", "-pie"], &["-fno-pie", "-no-pie"], &["-fuse-ld=gold", "-pie"]] {
        let scratch = TempDir::new().unwrap();
        let program = compiled_with(&scratch, PROGRAM, options);
        let live = json(&["trace", "--live", "--format", "json"], &program);
        let trace = scratch.path().join("trace");
        let recorded = slimline().arg("trace").arg("-o").arg(&trace).arg("--").arg(&program).output().unwrap();
        assert!(recorded.status.success());
        // What the trace says needs the program no more.
        std::fs::remove_file(&program).unwrap();
        let replayed = slimline().args(["trace", "--format", "json", "--replay"]).arg(&trace).output().unwrap();
        for report in [live, report(&replayed)] {
            assert_eq!(named(&report["variables"], "hot"), (5000, 1));
            assert_eq!(named(&report["variables"], "cold"), (1000, 0));
            assert_eq!(
                (named(&report["variables"], "left"), named(&report["variables"], "right")),
                ((31, 30), (21, 20))
            );
            // What is nowhere known is by the name that it goes by.
            assert_eq!(loads(&report, "values"), 4);
            let calls: Vec<&str> = report["variables"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|row| row["name"].as_str())
                .filter(|name| name.contains("calls"))
                .collect();
            let [first, second] = calls.as_slice() else { panic!("{calls:?}") };
            assert!(first.ends_with("program.c:14)") && second.ends_with("program.c:15)"), "{calls:?}");
            // Its parts are as far apart as they want.
            assert!(loads(&report, "totals") > 0, "{}", report["variables"]);
            assert_eq!((&report["heap"], &report["processes"][0]["threads"]), (&Value::Array(Vec::new()), &1.into()));
        }
        let simulated = slimline().args(["simulate", "--format", "json"]).arg(&trace).output().unwrap();
        let simulated = report(&simulated);
        let data = simulated["machines"][0]["by"]["data"].as_array().unwrap();
        let hot = data.iter().find(|row| row["name"] == "hot").unwrap();
        assert_eq!((&hot["kind"], &hot["declared_at"]["line"]), (&"static".into(), &3.into()));
        assert_eq!((&hot["loads"], &hot["peak_bytes"]), (&5000.into(), &8000.into()));
        assert_eq!(&simulated["trace"]["threads"], &1);
    }
}

#[test]
fn what_is_asked_for_is_what_is_accessed() {
    let scratch = TempDir::new().unwrap();
    let program = compiled_with(&scratch, PROGRAM, &[]);
    let report = json(&["trace", "--live", "--format", "json", "--variable", "cold"], &program);
    assert_eq!((&report["total"]["loads"], &report["functions"][0]["name"]), (&1000.into(), &"total".into()));
    // Of the instruction's 6006 times.
    assert_eq!(report["sites"][0]["executions"], 1000);
    let report = json(&["trace", "--live", "--format", "json", "--variable", "values"], &program);
    assert_eq!(report["total"]["loads"], 4);
    let output = slimline().args(["trace", "--live", "--variable", "cool", "--"]).arg(&program).output().unwrap();
    assert!(
        text(&output.stderr).contains("--variable cool: no variable with accesses has that name; there are cold, ")
    );
}

#[test]
fn without_symbols_by_the_pointer() {
    let scratch = TempDir::new().unwrap();
    let program = compiled_with(&scratch, PROGRAM, &[]);
    assert!(Command::new("strip").arg(&program).status().unwrap().success());
    let report = json(&["trace", "--live", "--format", "json"], &program);
    assert_eq!(loads(&report, "values"), 6006);
}

/// Of values it is not known which of an instruction's were of which variable.
#[test]
fn values_are_of_what_is_asked_for_only() {
    const SOURCE: &str = "
        static volatile int hot[100], cold[100], own[10];
        __attribute__((noinline)) static void set(volatile int *of, int n) { for (int i = 0; i < n; i++) of[i] = n; }
        int main(void) { set(hot, 100); set(cold, 50); for (int i = 0; i < 10; i++) own[i] = 7; }";
    let scratch = TempDir::new().unwrap();
    let program = compiled_with(&scratch, SOURCE, &["--slimline-values"]);
    let of = |variable| json(&["trace", "--live", "--format", "json", "--variable", variable], &program);
    let report = of("own");
    assert_eq!((&report["values"][0]["values"], &report["values"][0]["greatest"]), (&10.into(), &"7".into()));
    assert!(!report["missing"].to_string().contains("values are left out"), "{}", report["missing"]);
    let report = of("cold");
    assert_eq!(report["values"], Value::Array(Vec::new()));
    let missing = "150 values are left out of instructions that access what was not asked for, too";
    assert!(report["missing"].to_string().contains(missing), "{}", report["missing"]);
    let report = json(&["trace", "--live", "--format", "json"], &program);
    assert_eq!(report["values"][0]["values"], 150);
}

/// Those of a library that is closed, and opened again.
#[test]
fn of_libraries_that_are_loaded() {
    const LIBRARY: &str = "
        static volatile long inside[100];
        __attribute__((noinline)) static long total(volatile long *values) {
            long sum = 0;
            for (int i = 0; i < 100; i++) sum += values[i];
            return sum;
        }
        long library(void) { return total(inside); }";
    const LOADER: &str = r#"
        #include <dlfcn.h>
        #include <sys/mman.h>
        int main(int argc, char **argv) {
            for (int i = 0; i < 2; i++) {
                void *library = dlopen(argv[1], RTLD_NOW);
                if (!library) return 1;
                ((long (*)(void))dlsym(library, "library"))();
                dlclose(library);
                mmap(0, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            }
        }"#;
    let [scratch, beside] = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let library = compiled_with(&beside, LIBRARY, &["-shared", "-fPIC"]);
    let program = compiled_with(&scratch, LOADER, &["-ldl"]);
    let output =
        slimline().args(["trace", "--live", "--format", "json", "--"]).arg(&program).arg(&library).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let trace = scratch.path().join("trace");
    let recorded =
        slimline().arg("trace").arg("-o").arg(&trace).arg("--").arg(&program).arg(&library).output().unwrap();
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let replayed = slimline().args(["trace", "--format", "json", "--replay"]).arg(&trace).output().unwrap();
    for report in [report(&output), report(&replayed)] {
        assert_eq!(loads(&report, "inside"), 200);
    }
}

/// As large programs have: more than there is room for in one chunk. A trace of nothing else is none.
#[test]
fn of_which_there_are_many() {
    const MANY: usize = 20_000;
    let declared: String = (0..MANY).map(|number| format!("volatile int v{number};\n")).collect();
    let source = format!("{declared}int main(void) {{ v0 = 1; v{} = 2; }}\n", MANY - 1);
    let scratch = TempDir::new().unwrap();
    let program = compiled_with(&scratch, &source, &[]);
    let trace = scratch.path().join("trace");
    let record = |options: &[&str]| {
        let output =
            slimline().arg("trace").args(options).arg("-o").arg(&trace).arg("--").arg(&program).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    record(&[]);
    record(&["--paused"]);
    record(&["--paused"]);
    let replay = |of: &Path| slimline().args(["trace", "--format", "json", "--replay"]).arg(of).output().unwrap();
    assert_eq!(replay(&trace).status.code(), Some(2));
    let report = report(&replay(&scratch.path().join("trace.old")));
    let last = format!("v{}", MANY - 1);
    assert_eq!(["v0", &last].map(|name| named(&report["variables"], name)), [(0, 1), (0, 1)]);
}

/// Both bring the runtime, and both tell of themselves.
#[test]
fn of_programs_and_the_libraries_that_they_are_linked_with() {
    const LIBRARY: &str = "
        static volatile long inside[100];
        long library(void) { long sum = 0; for (int i = 0; i < 100; i++) sum += inside[i]; return sum; }";
    const PROGRAM: &str = "
        long library(void);
        static volatile long own[50];
        int main(void) { for (int i = 0; i < 50; i++) own[i] = i; return library() == 7; }";
    for linker in ["-fuse-ld=bfd", "-fuse-ld=gold"] {
        let [scratch, beside] = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        let library = compiled_with(&beside, LIBRARY, &["-shared", "-fPIC", linker]);
        let program = compiled_with(&scratch, PROGRAM, &[linker, library.to_str().unwrap()]);
        let report = json(&["trace", "--live", "--format", "json"], &program);
        let rows = &report["variables"];
        assert_eq!((named(rows, "inside"), named(rows, "own")), ((100, 0), (0, 50)), "{linker}: {rows}");
        assert_eq!(report["processes"][0]["threads"], 1, "{linker}");
    }
}

/// What a linker leaves out is still declared, somewhere.
#[test]
fn what_is_left_out_has_no_place() {
    const LEFT_OUT: &str = "
        int first[16] = {1};
        int huge[1 << 18] = {1};
        int collected(int i) { return first[i] + huge[i]; }";
    const PROGRAM: &str = "
        int hot[100];
        int main(int argc, char **argv) { for (int i = 0; i < 100; i++) hot[i] = argc; return 0; }";
    for linker in ["-fuse-ld=bfd", "-fuse-ld=gold"] {
        let scratch = TempDir::new().unwrap();
        let other = scratch.path().join("left_out.c");
        std::fs::write(&other, LEFT_OUT).unwrap();
        let sections = ["-fno-data-sections", "-ffunction-sections", "-Wl,--gc-sections"];
        let program = compiled_with(&scratch, PROGRAM, &[&sections[..], &[linker, other.to_str().unwrap()]].concat());
        let report = json(&["trace", "--live", "--format", "json"], &program);
        let rows = &report["variables"];
        assert_eq!((named(rows, "hot"), named(rows, "huge")), ((0, 100), (0, 0)), "{linker}: {rows}");
    }
}

/// What is behind a structure's last member has no bounds in its declaration.
#[test]
fn arrays_without_bounds_are_of_their_structure() {
    const SOURCE: &str = "
        static struct list { long count; long items[]; } list = { 3, { 1, 2, 3 } };
        __attribute__((noinline)) static long total(volatile long *of, long n) {
            long sum = 0;
            for (long i = 0; i < n; i++) sum += of[i];
            return sum;
        }
        int main(void) { return total(list.items, 3) == 7; }";
    let scratch = TempDir::new().unwrap();
    let program = compiled_with(&scratch, SOURCE, &[]);
    let trace = scratch.path().join("trace");
    assert!(slimline().arg("trace").arg("-o").arg(&trace).arg("--").arg(&program).output().unwrap().status.success());
    let simulated = report(&slimline().args(["simulate", "--format", "json"]).arg(&trace).output().unwrap());
    let data = simulated["machines"][0]["by"]["data"].as_array().unwrap();
    let list = data.iter().find(|row| row["name"] == "list").unwrap();
    assert_eq!((&list["loads"], &list["declared_at"]["line"]), (&3.into(), &2.into()), "{list}");
    assert_eq!(list["peak_bytes"], 32);
}

/// What lies in no structure is of a type all the same, where debug information says which.
#[test]
fn arrays_of_numbers_are_told_by_their_type() {
    const SOURCE: &str = "
        #include <stdlib.h>
        static double a[40];
        float grid[5][8];
        int main(int argc, char **argv) {
            long *block = malloc(40 * sizeof(long));
            for (int i = 0; i < 40; i++) { a[i] = i; block[i] = i; grid[i / 8][i % 8] += argc; }
            for (int i = 0; i < 40; i++) argc += a[i] + block[i] + grid[i % 5][i % 8];
            return argc == 7;
        }";
    let scratch = TempDir::new().unwrap();
    let program = compiled_with(&scratch, SOURCE, &["-O1"]);
    let report = json(&["trace", "--live", "--format", "json"], &program);
    let fields = &report["fields"];
    let of = |name: &str| named(fields, name);
    assert_eq!((of("double"), of("long"), of("float")), ((40, 40), (40, 40), (80, 40)), "{fields}");
    assert!(fields.as_array().unwrap().iter().all(|row| !row["name"].is_null()), "{fields}");
}

/// Of two in one line each has its own members; a namesake that is never accessed makes no name longer.
#[test]
fn what_has_no_name_or_another_ones() {
    const SOURCE: &str = "
        struct { int a, b; } one[4]; struct { char c[24]; int d; } two[4]; struct { long e; } three[4];
        __attribute__((noinline)) static int never(void) { static volatile int calls; return calls++; }
        __attribute__((noinline)) static int often(void) { static volatile int calls; return calls++; }
        int main(int argc, char **argv) {
            for (int i = 0; i < 4; i++) { one[i].b = argc; two[i].d = argc; three[i].e = often(); }
            return argc == 7 ? never() : 0;
        }";
    let scratch = TempDir::new().unwrap();
    let program = compiled_with(&scratch, SOURCE, &["-O0"]);
    let report = json(&["trace", "--live", "--format", "json"], &program);
    let fields = &report["fields"];
    let of = |number: &str, field: &str| named(fields, &format!("(anonymous struct at program.c:2{number}).{field}")).1;
    assert_eq!((of("", "b"), of(" #2", "d"), of(" #3", "e")), (4, 4, 4), "{fields}");
    let structures = report["structures"].as_array().unwrap();
    let bytes = |name: &str| structures.iter().find(|it| it["name"] == name).map(|it| it["bytes"].clone());
    assert_eq!(bytes("(anonymous struct at program.c:2 #2)"), Some(28.into()), "{structures:?}");
    assert_eq!(named(&report["variables"], "often::calls"), (0, 0));
    assert_eq!(named(&report["variables"], "calls"), (4, 4), "{}", report["variables"]);
}

/// Where a name is several variables', by the name all of them, by the title one.
#[test]
fn namesakes_are_asked_for_in_one_way() {
    const SOURCE: &str = "
        __attribute__((noinline)) static int one(void) { static volatile int calls; return calls++; }
        __attribute__((noinline)) static int other(void) { static volatile int calls; return calls++; }
        int main(void) { one(); return other() == 7; }";
    let scratch = TempDir::new().unwrap();
    let program = compiled_with(&scratch, SOURCE, &[]);
    let trace = scratch.path().join("trace");
    assert!(slimline().arg("trace").arg("-o").arg(&trace).arg("--").arg(&program).output().unwrap().status.success());
    let asked = |command: &[&str], asks: &str, rows: &str, pattern: &str| {
        let output = slimline().args(command).arg(&trace).args(["--format", "json", asks, pattern]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let names: Vec<String> = report(&output)[rows]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["name"].as_str().unwrap().to_owned())
            .collect();
        names
    };
    let all = asked(&["trace", "--replay"], "--variable", "variables", "*");
    assert!(all.len() == 2 && all.iter().all(|name| name.starts_with("calls (")), "{all:?}");
    for (command, asks, rows) in
        [(&["trace", "--replay"][..], "--variable", "variables"), (&["histogram"], "--data", "data")]
    {
        let by = |pattern: &str| asked(command, asks, rows, pattern);
        assert_eq!((by("calls").len(), by("c?ll*").len()), (2, 2));
        assert_eq!(by(&all[0]), all[..1]);
    }
}

/// Each thread has its own, of the program and of a library that it is linked with.
#[test]
fn threads_own_variables() {
    const LIBRARY: &str = "
        static __thread long inside[4];
        __attribute__((noinline)) static void count(volatile long *of, int n) { for (int i = 0; i < n; i++) ++of[i & 3]; }
        long in_library(int n) { count(inside, n); return inside[0]; }";
    const SOURCE: &str = "
        #include <pthread.h>
        struct counters { long hits, misses; };
        static __thread struct counters own;
        static __thread long slots[16];
        long in_library(int);
        __attribute__((noinline)) static void hit(volatile struct counters *c, int n) { while (n--) c->hits++; }
        __attribute__((noinline)) static long total(volatile long *of, int n) {
            long sum = 0;
            for (int i = 0; i < n; i++) sum += of[i];
            return sum;
        }
        static void *work(void *n) {
            hit(&own, (long)n);
            return (void *)(total(slots, 16) + in_library((long)n));
        }
        int main(void) {
            pthread_t threads[3];
            for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, (void *)(10 * (i + 1)));
            for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
            return work((void *)100) == (void *)7;
        }";
    let scratch = TempDir::new().unwrap();
    let library = compiled_with(&scratch, LIBRARY, &["-fPIC", "-shared"]);
    let library_path = library.with_file_name("libinside.so");
    std::fs::rename(library, &library_path).unwrap();
    let program = compiled_with(&scratch, SOURCE, &[library_path.to_str().unwrap()]);
    let trace = scratch.path().join("trace");
    assert!(slimline().arg("trace").arg("-o").arg(&trace).arg("--").arg(&program).output().unwrap().status.success());
    let replayed = slimline().args(["trace", "--format", "json", "--replay"]).arg(&trace).output().unwrap();
    let live = json(&["trace", "--live", "--format", "json"], &program);
    for report in [live, report(&replayed)] {
        let rows = &report["variables"];
        assert_eq!((named(rows, "own"), named(rows, "slots").0), ((160, 160), 64), "{rows}");
        assert_eq!((named(rows, "inside"), named(rows, "of")), ((164, 160), (0, 0)), "{rows}");
        assert_eq!(named(&report["fields"], "counters.hits"), (160, 160));
    }
    let histogram = report(&slimline().args(["histogram", "--format", "json"]).arg(&trace).output().unwrap());
    let data = histogram["data"].as_array().unwrap();
    let bytes = |name: &str| data.iter().find(|row| row["name"] == name).map(|row| row["extent_bytes"].clone());
    assert_eq!(["own", "slots", "inside"].map(bytes), [16, 128, 32].map(|bytes| Some(bytes.into())), "{histogram}");
}

/// What goes by a pointer to bare elements is of the structure's member, for the report and for who asks for its type; and what there
/// is one of is not to be split.
#[test]
fn members_of_structures_without_a_name() {
    const SOURCE: &str = "
        struct row { int id; int cells[8]; };
        static struct row rows[50];
        static struct { struct row first; } holder;
        static struct single { long hot; char note[40]; long end; } single;
        __attribute__((noinline)) static int sum(volatile int *of, int n) {
            int sum = 0;
            for (int i = 0; i < n; i++) sum += of[i];
            return sum;
        }
        __attribute__((noinline)) static void heat(volatile struct single *it, int n) { while (n--) it->hot++; }
        int main(int argc, char **argv) {
            int all = 0;
            for (int i = 0; i < 50; i++) { rows[i].id = argc; all += sum(rows[i].cells, 8); }
            heat(&single, 1000);
            return all + sum(holder.first.cells, 8) == 7;
        }";
    let scratch = TempDir::new().unwrap();
    let program = compiled_with(&scratch, SOURCE, &[]);
    let all = json(&["trace", "--live", "--format", "json"], &program);
    assert_eq!(named(&all["fields"], "row.cells[]"), (400, 0), "{}", all["fields"]);
    let asked = json(&["trace", "--live", "--format", "json", "--type", "row"], &program);
    assert_eq!((&asked["total"]["loads"], &asked["total"]["stores"]), (&400.into(), &50.into()));
    assert_eq!(named(&asked["variables"], "rows"), (400, 50));
    let single = all["structures"].as_array().unwrap().iter().find(|row| row["name"] == "single").unwrap();
    assert_eq!((&single["verdict"], &single["code"]), (&"one_object".into(), &"".into()), "{single}");
}
