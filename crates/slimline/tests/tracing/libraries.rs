//! Libraries that bring the runtime: however they are linked, a process has one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::compiled::{compiled_with, named};
use super::{report, slimline, text};

/// What counts, of a library.
const LIBRARY: &str = "
    #include <stdlib.h>
    void __slimline_stop(void) __attribute__((weak));
    static long NAME_table[64];
    __attribute__((visibility(\"default\"))) long NAME_work(void) {
        long *NAME_block = malloc(256 * sizeof(long)), sum = 0;
        for (int i = 0; i < 256; i++) { NAME_block[i] = i; NAME_table[i % 64] += i; }
        for (int i = 0; i < 256; i++) sum += NAME_block[i];
        free(NAME_block);
        return sum + NAME_table[7];
    }
    __attribute__((visibility(\"default\"))) void NAME_stop(void) { __slimline_stop(); }";

/// A thread, a forked child, and what comes behind a stop.
const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef OPENED
static long (*a_work)(void), (*b_work)(void);
static void (*a_stop)(void);
#else
long a_work(void), b_work(void);
void a_stop(void);
#endif
static void *run(void *sum) { *(long *)sum += a_work() + b_work(); return 0; }
int main(int argc, char **argv) {
    long one = 0, other = 0;
#ifdef OPENED
    void *a = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL), *b = dlopen(argv[2], RTLD_LAZY | RTLD_LOCAL);
    a_work = (long (*)(void))dlsym(a, "a_work"), b_work = (long (*)(void))dlsym(b, "b_work");
    a_stop = (void (*)(void))dlsym(a, "a_stop");
#endif
    pthread_t thread;
    pthread_create(&thread, 0, run, &other);
    pthread_join(thread, 0);
    run(&one);
    if (!fork()) { run(&one); _exit(one == 2 * 2 * 32640 + 2 * (1 + 2) * 622); }
    wait(0);
    a_stop();
    run(&one);
    return 0;
}"#;

/// Thread-local variables that are large, or none but the runtime's.
const OPENED: &str = "
    static _Thread_local long table[ELEMENTS];
    __attribute__((noinline)) static long sum_of(volatile long *values) {
        long sum = 0;
        for (int i = 0; i < 8; i++) { values[i] += i; sum += values[i]; }
        return sum;
    }
    long work(void) { return sum_of(table); }";

/// Opens all that it is given, and has two threads call each.
const OPENER: &str = r#"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
static long (*work[64])(void);
static int count;
static void *run(void *sum) { for (int i = 0; i < count; i++) *(long *)sum += work[i](); return 0; }
int main(int argc, char **argv) {
    long sum = 0;
    for (; count < argc - 1; count++) {
        void *library = dlopen(argv[count + 1], RTLD_NOW | RTLD_LOCAL);
        if (!library) { puts(dlerror()); return 1; }
        work[count] = (long (*)(void))dlsym(library, "work");
    }
    pthread_t thread;
    pthread_create(&thread, 0, run, &sum);
    pthread_join(thread, 0);
    run(&sum);
    return sum != 56L * count;
}"#;

fn compiled_by(compiler: &str, scratch: &TempDir, source: &str, options: &[&str]) -> PathBuf {
    let (file, program) = (scratch.path().join("program.c"), scratch.path().join("program"));
    std::fs::write(&file, source).unwrap();
    let output = slimline().args([compiler, "-O2", "-o"]).args([&program, &file]).args(options).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    program
}

/// The dynamic linker keeps little room beside each thread's pointer: neither the runtime nor what it is linked with may need any.
#[test]
fn many_are_opened_and_large_ones() {
    for compiler in ["cc", "gcc"] {
        let [scratch, large] = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        let library = |directory: &TempDir, elements: &str| {
            let options = ["-shared", "-fPIC", &format!("-DELEMENTS={elements}")];
            compiled_by(compiler, directory, OPENED, &options)
        };
        let mut files = vec![library(&large, "1000000")];
        let small = library(&scratch, "8");
        for number in 0..20 {
            let copy = scratch.path().join(format!("copy{number}.so"));
            std::fs::copy(&small, &copy).unwrap();
            files.push(copy);
        }
        let traced = compiled_by(compiler, &scratch, OPENER, &["-pthread", "-ldl"]);
        let plain = scratch.path().join("plain");
        let mut native = Command::new("cc");
        native.arg(scratch.path().join("program.c")).args(["-pthread", "-ldl", "-o"]).arg(&plain);
        assert!(native.status().unwrap().success());
        for program in [traced, plain] {
            let alone = Command::new(&program).args(&files).output().unwrap();
            assert!(alone.status.success(), "{}: {}", program.display(), text(&alone.stdout));
            let output = slimline()
                .args(["trace", "--live", "--report", "-", "--format", "json", "--"])
                .arg(&program)
                .args(&files)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
            let report = report(&output);
            let functions = report["functions"].as_array().unwrap();
            // Each file's has a row.
            let of = functions.iter().filter(|row| row["name"].as_str().is_some_and(|name| name.starts_with("sum_of")));
            let sum = |key: &str| of.clone().map(|row| row[key].as_u64().unwrap()).sum::<u64>();
            assert_eq!((sum("calls"), sum("stores")), (42, 42 * 8), "{}", report["functions"]);
            assert_eq!(report["processes"][0]["threads"], 2);
        }
    }
}

/// The dynamic linker makes them when a thread first asks for them; each of the two libraries is closed and opened again. They are accessed by
/// pointers only, in the program and in the library, and what the program allocates and frees before may have been at the same place. Of
/// threads that run at one time none gets what another one had.
const OWNER: &str = "
    struct entry { long hits, spare; };
    static __thread struct entry NAME[8];
    struct entry *own(void) { return NAME; }
    __attribute__((noinline)) void inside(volatile struct entry *of, long n) { while (n--) of[n % 8].spare++; }";
const USER: &str = r#"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
struct entry { long hits, spare; };
static struct entry *(*own[2])(void);
static void (*inside[2])(volatile struct entry *, long);
__attribute__((noinline)) static void hit(volatile struct entry *of, long n) { while (n--) of[n % 8].hits++; }
static pthread_barrier_t all_have_theirs;
static void work(long n) {
    void *volatile block;
    for (int i = 0; i < 50; i++) { block = malloc(8 * i); free(block); }
    for (int i = 0; i < 2; i++, n *= 3) { hit(own[i](), n); inside[i](own[i](), n); }
}
static void *run(void *times) {
    work((long)times);
    pthread_barrier_wait(&all_have_theirs);
    return 0;
}
static int use(char **files) {
    void *libraries[2];
    for (int i = 0; i < 2; i++) {
        libraries[i] = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
        if (!libraries[i]) return puts(dlerror());
        own[i] = (struct entry *(*)(void))dlsym(libraries[i], "own");
        inside[i] = (void (*)(volatile struct entry *, long))dlsym(libraries[i], "inside");
    }
    if (!fork()) { work(5); _exit(0); }
    wait(0);
    work(10);
    for (long i = 1; i < 4; i++) {
        pthread_t threads[2];
        pthread_barrier_init(&all_have_theirs, 0, 2);
        for (int k = 0; k < 2; k++) pthread_create(&threads[k], 0, run, (void *)(20 * i));
        for (int k = 0; k < 2; k++) pthread_join(threads[k], 0);
    }
    for (int i = 0; i < 2; i++) dlclose(libraries[i]);
    return 0;
}
int main(int argc, char **argv) { return use(argv + 1) || use(argv + 1); }"#;

#[test]
fn threads_own_variables_of_libraries_that_are_opened() {
    for compiler in ["cc", "gcc"] {
        let [scratch, a, b] = [(); 3].map(|()| TempDir::new().unwrap());
        let libraries = [("table", &a), ("other", &b)].map(|(name, directory)| {
            compiled_by(compiler, directory, &OWNER.replace("NAME", name), &["-shared", "-fPIC"])
        });
        let traced = compiled_by(compiler, &scratch, USER, &["-pthread", "-ldl"]);
        let plain = scratch.path().join("plain");
        let mut native = Command::new("cc");
        native.arg(scratch.path().join("program.c")).args(["-pthread", "-ldl", "-o"]).arg(&plain);
        assert!(native.status().unwrap().success());
        let trace = scratch.path().join("trace");
        let live = ["trace", "--live", "--report", "-", "--format", "json", "--"].map(OsStr::new);
        let recorded = [OsStr::new("trace"), OsStr::new("-o"), trace.as_os_str(), OsStr::new("--")];
        // Each run of the program has two rounds, of a forked child, the main thread and two others three times.
        let times = 2 * (5 + 10 + 2 * (20 + 40 + 60));
        for (program, hits) in [(traced, times), (plain, 0)] {
            let [live, _] = [&live[..], &recorded].map(|how| {
                let output = slimline().args(how).arg(&program).args(&libraries).output().unwrap();
                assert!(output.status.success(), "{compiler}: {}", text(&output.stderr));
                output
            });
            let replayed = slimline().args(["trace", "--format", "json", "--replay"]).arg(&trace).output().unwrap();
            for report in [report(&live), report(&replayed)] {
                let (rows, fields) = (&report["variables"], &report["fields"]);
                let of = |times: u64| (times, times);
                assert_eq!(named(rows, "table"), of(hits + times), "{compiler}: {rows}");
                assert_eq!(named(rows, "other"), of(3 * (hits + times)), "{compiler}: {rows}");
                assert_eq!(named(rows, "of"), (0, 0), "{compiler}: {rows}");
                assert_eq!(named(fields, "entry.spare"), of(4 * times), "{compiler}: {fields}");
                assert_eq!(report["missing"], Value::Array(Vec::new()), "{compiler}");
            }
        }
    }
}

/// What the library that is initialized first calls is of another one, whose own turn is still to come; the host is not instrumented.
#[test]
fn code_is_called_before_its_library_is_initialized() {
    const SOURCES: [&str; 3] = [
        "long b_add(void);
         static volatile long c_table[8];
         __attribute__((constructor)) static void first(void) { for (int i = 0; i < 8; i++) c_table[i] = b_add(); }
         long c_sum(void) { return c_table[7]; }",
        "long c_sum(void);
         static volatile long b_table[64];
         long b_add(void) { for (int i = 0; i < 64; i++) b_table[i] += i; return b_table[7]; }
         long b_sum(void) { return c_sum() + b_table[3]; }",
        "long b_sum(void);
         long work(void) { return b_sum(); }",
    ];
    const HOST: &str = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int argc, char **argv) {
            void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
            if (!library) { puts(dlerror()); return 1; }
            return ((long (*)(void))dlsym(library, "work"))() != 80;
        }"#;
    let scratch = TempDir::new().unwrap();
    let mut library: Option<PathBuf> = None;
    for (source, name) in SOURCES.iter().zip(["c", "b", "a"]) {
        let own = TempDir::new_in(scratch.path()).unwrap();
        let needed = library.map(|library| library.display().to_string());
        let options: Vec<&str> = ["-shared", "-fPIC"].into_iter().chain(needed.as_deref()).collect();
        let file = scratch.path().join(format!("lib{name}.so"));
        std::fs::rename(compiled_with(&own, source, &options), &file).unwrap();
        library = Some(file);
    }
    let (source, host) = (scratch.path().join("host.c"), scratch.path().join("host"));
    std::fs::write(&source, HOST).unwrap();
    assert!(Command::new("cc").arg(&source).args(["-ldl", "-o"]).arg(&host).status().unwrap().success());
    let output = slimline()
        .args(["trace", "--live", "--report", "-", "--format", "json", "--"])
        .args([Some(host), library].into_iter().flatten())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = &report(&output)["variables"];
    assert_eq!((named(rows, "b_table"), named(rows, "c_table")), ((8 * 65 + 1, 8 * 64), (1, 8)), "{rows}");
}

/// The host is not instrumented, and has taken all keys whose values lie beside each thread's pointer, or all but one; or some, and given
/// one of them back.
#[test]
fn a_host_without_room_for_the_words_goes_on_and_is_told() {
    const HOST: &str = r#"
        #include <dlfcn.h>
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        int main(int argc, char **argv) {
            pthread_key_t key, given_back = 0;
            for (int i = 0; i < atoi(argv[1]); i++) {
                pthread_key_create(&key, 0);
                if (i == atoi(argv[2])) given_back = key;
            }
            if (given_back) pthread_key_delete(given_back);
            for (int i = 3; i < argc; i++) {
                void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
                if (!library) { puts(dlerror()); return 1; }
                if (((long (*)(void))dlsym(library, "work"))() != 28) return 2;
            }
            // Each library asked again would have taken one more.
            int left = 0;
            while (pthread_key_create(&key, 0) == 0) left++;
            printf("%d\n", left);
            return 0;
        }"#;
    let scratch = TempDir::new().unwrap();
    let library = compiled_by("cc", &scratch, OPENED, &["-shared", "-fPIC", "-DELEMENTS=8"]);
    let copies = ["a.so", "b.so", "c.so"].map(|name| {
        let copy = scratch.path().join(name);
        std::fs::copy(&library, &copy).unwrap();
        copy
    });
    let (source, host) = (scratch.path().join("host.c"), scratch.path().join("host"));
    std::fs::write(&source, HOST).unwrap();
    assert!(Command::new("cc").arg(&source).args(["-ldl", "-o"]).arg(&host).status().unwrap().success());
    for (taken, ours, is_traced) in [
        (["29", "-1"], 2, true),
        (["31", "-1"], 1, false),
        (["32", "-1"], 1, false),
        (["10", "5"], 2, true),
        (["31", "5"], 1, false),
    ] {
        let alone = Command::new(&host).args(taken).output().unwrap();
        let live = ["trace", "--live", "--report", "-", "--format", "json", "--"];
        let recorded = scratch.path().join("trace");
        for how in [&live[..], &["trace", "-o", recorded.to_str().unwrap(), "--"], &["simulate", "--live", "--"]] {
            let mut traced = slimline();
            traced.args(how).arg(&host).args(taken).args(&copies);
            let output = traced.output().unwrap();
            let (written, said) = (text(&output.stdout), text(&output.stderr));
            let free: u32 = text(&alone.stdout).trim().parse().unwrap();
            let free = (free - ours).to_string();
            assert!(output.status.success() && written.lines().any(|line| line == free), "{taken:?}: {written}{said}");
            let is_said = [&written, &said]
                .iter()
                .any(|it| it.contains("its program is not instrumented, and of the C library's keys"));
            assert_eq!(is_said, !is_traced, "{taken:?}, {how:?}: {written}{said}");
            // A report names the function; the others say how much there is, or that there is nothing.
            let is_nothing = match how[1] {
                "--live" if how[0] == "trace" => !written.contains("\"work\""),
                _ => said.contains("nothing was traced"),
            };
            assert_eq!(is_nothing, !is_traced, "{taken:?}, {how:?}: {written}{said}");
        }
    }
}

struct Libraries {
    _directories: [TempDir; 2],
    files: [PathBuf; 2],
}

impl Libraries {
    fn linked(options: &[&str]) -> Self {
        let directories = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        let script = directories[0].path().join("hidden.map");
        std::fs::write(&script, "{ global: a_*; b_*; local: *; };").unwrap();
        let script = format!("-Wl,--version-script={}", script.display());
        let mut options: Vec<&str> = options.iter().map(|it| if *it == "MAP" { script.as_str() } else { it }).collect();
        options.extend(["-shared", "-fPIC", "-Wl,-z,lazy"]);
        let [a, b] = [("a", &directories[0]), ("b", &directories[1])]
            .map(|(name, directory)| compiled_with(directory, &LIBRARY.replace("NAME", name), &options));
        Self { files: [a, b], _directories: directories }
    }

    /// Traces a program with both, three times of each at work.
    fn check(&self, program: &Path, what: &str) {
        let output = slimline()
            .args(["trace", "--live", "--report", "-", "--format", "json", "--"])
            .arg(program)
            .args(&self.files)
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{what}: {}", text(&output.stderr));
        let report = report(&output);
        let rows = &report["variables"];
        for library in ["a", "b"] {
            let of = |name: &str| named(rows, &format!("{library}_{name}"));
            assert_eq!((of("block"), of("table")), ((768, 768), (768 + 3, 768)), "{what}: {rows}");
        }
        let blocks = report["heap"].as_array().unwrap().iter().map(|group| group["blocks"].as_u64().unwrap());
        // Blocks are told while nothing else is.
        assert_eq!(blocks.collect::<Vec<_>>(), [4, 4], "{what}: {}", report["heap"]);
        let threads = report["processes"].as_array().unwrap().iter().map(|process| process["threads"].as_u64());
        assert_eq!(threads.collect::<Vec<_>>(), [Some(2), Some(1)], "{what}: {}", report["processes"]);
        let mut missing = report["missing"].as_array().unwrap().iter().map(|what| what.as_str().unwrap());
        assert!(missing.all(|what| what.contains("while the program was paused")), "{what}: {}", report["missing"]);
    }
}

#[test]
fn a_process_has_one_runtime_whatever_hides_it() {
    for options in [&["MAP"][..], &["-Wl,--exclude-libs,ALL"], &["-fvisibility=hidden", "-Wl,-Bsymbolic"], &[]] {
        let libraries = Libraries::linked(options);
        let [a, b] = libraries.files.each_ref().map(|file| file.to_str().unwrap());
        for (how, inputs) in [("linked", &[a, b][..]), ("opened", &["-DOPENED", "-ldl"])] {
            let scratch = TempDir::new().unwrap();
            let inputs = [&["-pthread", "-Wl,-z,lazy"], inputs].concat();
            let program = compiled_with(&scratch, PROGRAM, &inputs);
            libraries.check(&program, &format!("{options:?}, {how}"));
            // A program that has no runtime.
            let plain = scratch.path().join("plain");
            let mut compiler = Command::new("cc");
            compiler.arg(scratch.path().join("program.c")).args(inputs).arg("-o").arg(&plain);
            assert!(compiler.status().unwrap().success());
            libraries.check(&plain, &format!("{options:?}, {how} by what is not instrumented"));
        }
    }
}
