//! Objects that are no heap blocks: each program here spends its time in one sort, and the report names it.

use slimline_report::view::{Group, Report};
use std::path::PathBuf;
use std::process::Command;

mod allocators;
mod passed_over;

#[path = "../ends/scratch.rs"]
#[allow(dead_code)]
mod scratch;

use scratch::{Scratch, stderr};

const OBJECTS: &str = include_str!("objects.c");
const ITEMS_BYTES: u64 = (1 << 12) * 64;

/// Records a program and reads the report of it.
#[track_caller]
fn report_of(scratch: &Scratch, program: &PathBuf, arguments: &[&str]) -> Report {
    let mut command = scratch.slimline(["record", "-F", "1000", "--"]);
    let recorded = command.arg(program).args(arguments).output().unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let report = scratch.slimline(["report", "--format", "json"]).output().unwrap();
    assert!(report.status.success(), "{}", stderr(&report));
    serde_json::from_slice(&report.stdout).unwrap()
}

/// The group that the program spent nearly all of its time in.
#[track_caller]
fn hottest(what: &str, flags: &[&str]) -> Group {
    let scratch = Scratch::new();
    let program = scratch.compile("objects", OBJECTS, &[&["-O2", "-g", "-pthread"], flags].concat());
    let group = report_of(&scratch, &program, &[what]).groups.remove(0);
    assert!(group.share > 0.9, "{} {}: {}", group.name, group.kind, group.share);
    let names: Vec<&str> = group.fields.iter().map(|field| field.name.as_str()).collect();
    assert!(names.contains(&"value") && names.contains(&"key"), "{}: {names:?}", group.name);
    assert_eq!(group.element_bytes, Some(64));
    group
}

/// Its name, kind, blocks and bytes.
fn told(group: &Group) -> (&str, &str, u64, u64) {
    (&group.name, &group.kind, group.blocks, group.bytes)
}

#[track_caller]
fn check_made_in(group: &Group, function: &str) {
    let made_at = group.allocated_at.as_ref().expect("a call path");
    assert!(made_at.function == function || made_at.stack.iter().any(|line| line.contains(function)), "{made_at:?}");
}

#[test]
fn a_thread_local_array_has_an_instance_for_each_thread() {
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie", "-fno-pie"]] {
        assert_eq!(told(&hottest("thread-local", flags)), ("per_thread", "thread_local", 3, 3 * ITEMS_BYTES));
    }
}

#[test]
fn what_a_program_takes_from_the_break_is_told_by_call_path() {
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie", "-fno-pie"]] {
        let group = hottest("break", flags);
        assert_eq!((group.kind.as_str(), group.blocks, group.bytes), ("mapping", 4, 4 * ITEMS_BYTES));
        check_made_in(&group, "of_four");
    }
}

#[test]
fn anonymous_mappings_are_told_by_call_path() {
    let group = hottest("anonymous", &[]);
    assert_eq!((group.kind.as_str(), group.blocks, group.bytes), ("mapping", 4, 4 * ITEMS_BYTES));
    check_made_in(&group, "of_four");
}

#[test]
fn shared_anonymous_mappings_are_shared_memory() {
    let group = hottest("shared", &[]);
    assert_eq!((group.kind.as_str(), group.blocks, group.bytes), ("shared_memory", 4, 4 * ITEMS_BYTES));
    check_made_in(&group, "of_four");
}

#[test]
fn shared_memory_is_told_by_name() {
    for (what, name) in [("shm", "/slimline-objects-"), ("memfd", "memfd:pool"), ("sysv", "SYSV0051311e")] {
        let group = hottest(what, &[]);
        let (told_name, rest) = (&group.name, (group.kind.as_str(), group.blocks, group.bytes));
        assert!(told_name.contains(name) && rest == ("shared_memory", 1, ITEMS_BYTES), "{told_name}: {rest:?}");
        check_made_in(&group, if what == "sysv" { "of_segment" } else { "of_file" });
    }
}

#[test]
fn a_mapped_file_is_told_by_name_and_offset() {
    let group = hottest("file", &[]);
    assert_eq!(told(&group), ("items.bin at 0x10000", "file", 1, ITEMS_BYTES));
    check_made_in(&group, "of_file");
}

/// In a library that is loaded at the start, in C++ and in Rust.
#[test]
fn thread_locals_of_libraries_and_languages() {
    let scratch = Scratch::new();
    let library = "struct item { double value; long key; char rest[48]; };
        __thread struct item counts[4096];
        double count(void) {
            double sum = 0;
            for (int pass = 0; pass < 20000; pass++)
                for (int i = 0; i < 4096; i++) { counts[i].value += 1; sum += counts[i].key; }
            return sum;
        }";
    let library = scratch.compile("libcounts.so", library, &["-O2", "-g", "-shared", "-fPIC"]);
    let main = "double count(void); int main(void) { return count() == 1; }";
    let directory = library.parent().unwrap().to_str().unwrap();
    let rpath = format!("-Wl,-rpath,{directory}");
    let program = scratch.compile("uses", main, &["-O2", library.to_str().unwrap(), &rpath]);
    let group = report_of(&scratch, &program, &[]).groups.remove(0);
    assert_eq!(told(&group), ("counts", "thread_local", 1, ITEMS_BYTES));

    let cpp = "struct item { double value; long key; char rest[48]; };
        namespace app { struct cache { static thread_local item slots[4096]; }; thread_local item cache::slots[4096]; }
        int main() {
            double sum = 0;
            for (int pass = 0; pass < 20000; pass++)
                for (auto &item : app::cache::slots) { item.value += 1; sum += item.key; }
            return sum == 1;
        }";
    let program = compile("c++", &scratch, "threaded.cc", cpp, &["-O2", "-g"]);
    let group = report_of(&scratch, &program, &[]).groups.remove(0);
    assert_eq!(told(&group), ("app::cache::slots", "thread_local", 1, ITEMS_BYTES));

    let rust = "use std::cell::RefCell;
        #[derive(Clone, Copy)] struct Item { value: f64, key: i64, _rest: [u8; 48] }
        thread_local! { static CACHE: RefCell<[Item; 4096]> =
            const { RefCell::new([Item { value: 0.0, key: 0, _rest: [0; 48] }; 4096]) }; }
        fn main() {
            let mut sum = 0.0;
            CACHE.with_borrow_mut(|items| for _ in 0..20_000 {
                for item in items.iter_mut() { item.value += 1.0; sum += item.key as f64; }
            });
            std::process::exit(i32::from(sum == 1.0));
        }";
    let program = compile("rustc", &scratch, "cached.rs", rust, &["-O", "-g"]);
    let group = report_of(&scratch, &program, &[]).groups.remove(0);
    assert_eq!((group.name.as_str(), group.kind.as_str(), group.blocks), ("cached::CACHE", "thread_local", 1));
}

/// Each thread's copy of them is a block that the dynamic linker allocates when the thread first asks for one: small and large ones,
/// aligned more than blocks are, by its function and by descriptors.
#[test]
fn thread_locals_of_libraries_that_are_opened() {
    const LIBRARY: &str = "struct item { double value; long key; char rest[48]; };
        static __thread struct item counts[ITEMS] __attribute__((aligned(ALIGNMENT)));
        double count(void) {
            double sum = 0;
            for (int pass = 0; pass < 40000000 / ITEMS; pass++)
                for (int i = 0; i < ITEMS; i++) { counts[i].value += 1; sum += counts[i].key; }
            return sum;
        }";
    const USER: &str = "#include <dlfcn.h>
        #include <pthread.h>
        static double (*count)(void);
        static void *run(void *unused) { return count() > 1e9 ? &count : 0; }
        int main(void) {
            count = (double (*)(void))dlsym(dlopen(\"./libcounts.so\", RTLD_NOW), \"count\");
            pthread_t thread;
            pthread_create(&thread, 0, run, 0);
            run(0);
            pthread_join(thread, 0);
            return 0;
        }";
    let scratch = Scratch::new();
    let program = scratch.compile("opens", USER, &["-O2", "-g", "-pthread", "-ldl"]);
    for (items, alignment, dialect) in [(4096_u64, 8, "gnu"), (40, 64, "gnu"), (40, 8, "gnu2"), (4096, 128, "gnu2")] {
        let defined = [("ITEMS", items), ("ALIGNMENT", alignment)].map(|(name, value)| format!("-D{name}={value}"));
        let dialect = format!("-mtls-dialect={dialect}");
        let flags = ["-O1", "-g", "-shared", "-fPIC", &defined[0], &defined[1], &dialect];
        scratch.compile("libcounts.so", LIBRARY, &flags);
        let group = report_of(&scratch, &program, &[]).groups.remove(0);
        let bytes = 2 * 64 * items;
        assert_eq!(told(&group), ("counts", "thread_local", 2, bytes), "{flags:?}");
        let fields: Vec<&str> = group.fields.iter().map(|field| field.name.as_str()).collect();
        assert!(fields.contains(&"value") && fields.contains(&"key"), "{flags:?}: {fields:?}");
    }
}

/// Compiles a program with another compiler.
fn compile(compiler: &str, scratch: &Scratch, file: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (source_path, program) = (scratch.path(file), scratch.path(file.split('.').next().unwrap()));
    std::fs::write(&source_path, source).unwrap();
    let output = Command::new(compiler).args(flags).arg("-o").arg(&program).arg(&source_path).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    program
}
