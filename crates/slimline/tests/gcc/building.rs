//! How projects are built, what is answered, and how it ends badly.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use super::{Compiled, compile, heap, named, slimline, text};

fn line(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = text(&output.stderr).to_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

/// A library, an archive, headers with inline functions that two files have, and a plug-in that is opened as it runs.
fn project(directory: &Path) {
    let write = |name: &str, content: &str| fs::write(directory.join(name), content).unwrap();
    write(
        "shared.h",
        "struct item { long key, spare; };\ntemplate <int N> __attribute__((noinline)) long walk(item *all) {\n  long sum = 0;\n  \
         for (int i = 0; i < N; i++) sum += all[i].key;\n  return sum;\n}\nlong first(item *), second(item *);\n",
    );
    write("first.cpp", "#include \"shared.h\"\nlong first(item *all) { return walk<50>(all); }\n");
    write("second.cpp", "#include \"shared.h\"\nlong second(item *all) { return walk<50>(all) + walk<10>(all); }\n");
    write("unused.cpp", "#include \"shared.h\"\nlong nobody(item *all) { return walk<20>(all); }\n");
    write(
        "plugin.c",
        "struct item { long key, spare; };\nvoid plug(struct item *all) { for (int i = 0; i < 50; i++) all[i].spare = i; }\n",
    );
    write(
        "main.cpp",
        "#include \"shared.h\"\n#include <cstdio>\n#include <dlfcn.h>\nstatic item items[50];\nint main() {\n  \
         for (int i = 0; i < 50; i++) items[i].key = i;\n  void *lib = dlopen(\"./plugin.so\", RTLD_NOW);\n  \
         if (!lib) { std::puts(dlerror()); return 1; }\n  ((void (*)(item *))dlsym(lib, \"plug\"))(items);\n  \
         std::printf(\"%ld %ld\\n\", first(items), second(items));\n  return 3;\n}\n",
    );
    write(
        "Makefile",
        "CXXFLAGS = -O2 -ffunction-sections -pipe\nCFLAGS = -O2 -fPIC\nall: program plugin.so\n\
         program: main.o libparts.a\n\t$(CXX) $(CXXFLAGS) -Wl,--gc-sections -o $@ main.o -L. -lparts -ldl\n\
         libparts.a: first.o second.o unused.o\n\tar rcs $@ $^\n\
         plugin.so: plugin.c\n\t$(CC) $(CFLAGS) -shared -o $@ $<\n\
         %.o: %.cpp shared.h\n\t$(CXX) $(CXXFLAGS) -MMD -c -o $@ $<\n",
    );
}

#[test]
fn a_project_is_built_by_several_jobs_and_runs_as_it_would() {
    let directory = tempfile::tempdir().unwrap();
    project(directory.path());
    let slimline_path = env!("CARGO_BIN_EXE_slimline");
    let mut make = Command::new("make");
    make.current_dir(directory.path()).args(["-j4", "--no-print-directory"]);
    make.args([format!("CC={slimline_path} gcc"), format!("CXX={slimline_path} g++")]);
    let built = make.output().unwrap();
    assert!(built.status.success() && built.stderr.is_empty(), "{built:?}");
    assert!(text(&fs::read(directory.path().join("first.d")).unwrap()).contains("shared.h"));
    let alone = Command::new("./program").current_dir(directory.path()).output().unwrap();
    assert_eq!((alone.status.code(), text(&alone.stdout)), (Some(3), "1225 1270\n"));
    let mut trace = slimline();
    trace.current_dir(directory.path()).args([
        "trace",
        "--live",
        "--report",
        "-",
        "--format",
        "json",
        "--",
        "./program",
    ]);
    let output = trace.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let (said, report) = text(&output.stdout).split_once('\n').unwrap();
    assert_eq!(said, "1225 1270");
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    // Sections that the linker has left out have left the table, too.
    assert_eq!(named(&report["fields"], "item.key"), (110, 50));
    assert_eq!(named(&report["fields"], "item.spare"), (0, 50));
    assert_eq!(named(&report["functions"], "plug"), (0, 50));
    assert_eq!(report["missing"], serde_json::Value::Array(Vec::new()));
    // Written down, it says the same without the program.
    let recording = directory.path().join("trace");
    let mut record = slimline();
    record.current_dir(directory.path()).args(["trace", "-o", "trace", "--", "./program"]);
    assert_eq!(record.output().unwrap().status.code(), Some(3));
    fs::remove_file(directory.path().join("program")).unwrap();
    let replayed = slimline().args(["trace", "--format", "json", "--replay"]).arg(recording).output().unwrap();
    let replayed: serde_json::Value = serde_json::from_str(text(&replayed.stdout)).unwrap();
    assert_eq!((&replayed["fields"], &replayed["lines"]), (&report["fields"], &report["lines"]));
}

#[test]
fn assembly_is_traced_as_code_and_sources_of_it_stay() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    fs::write(place("a.c"), "extern long given(void);\nint x;\nint main(void) { x = 5; return x - (int)given(); }\n")
        .unwrap();
    fs::write(
        place("given.s"),
        "\t.globl given\ngiven:\n\tmovl $5, %eax\n\tret\n\t.section .note.GNU-stack,\"\",@progbits\n",
    )
    .unwrap();
    compile(directory.path(), &["gcc", "-O2", "-S", "a.c"]);
    let printed =
        slimline().current_dir(directory.path()).args(["gcc", "-O2", "-S", "-o", "-", "a.c"]).output().unwrap();
    for made in [fs::read(place("a.s")).unwrap(), printed.stdout] {
        assert!(text(&made).contains("slimline_hooks") && !text(&made).contains("call\t__tsan_"));
    }
    compile(directory.path(), &["gcc", "a.s", "given.s", "-o", "program"]);
    assert_eq!(Command::new(place("program")).status().unwrap().code(), Some(0));
}

#[test]
fn questions_are_answered_by_gcc() {
    let directory = tempfile::tempdir().unwrap();
    for question in ["--version", "--help", "-dumpversion", "-print-libgcc-file-name"] {
        let output = slimline().args(["gcc", question]).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{question}: {output:?}");
    }
    // As configure scripts ask whether an option is known, and what is defined.
    fs::write(directory.path().join("empty.c"), "#ifdef __SANITIZE_THREAD__\n#error sanitized\n#endif\n").unwrap();
    let asked = |arguments: &[&str]| slimline().current_dir(directory.path()).args(arguments).output().unwrap();
    assert_eq!(asked(&["gcc", "-fno-such", "-c", "empty.c"]).status.code(), Some(1));
    assert!(asked(&["gcc", "-c", "empty.c"]).status.success());
    assert!(asked(&["gcc", "-E", "empty.c"]).status.success());
    assert!(asked(&["gcc", "-fsyntax-only", "empty.c"]).status.success());
}

#[test]
fn what_can_t_be_traced_is_refused_in_a_line() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.c"), "int x;\nint main(void) { return x; }\n").unwrap();
    fs::write(directory.path().join("arguments"), "-fsanitize=undefined -c a.c").unwrap();
    let with = |arguments: &[&str]| line(&slimline().current_dir(directory.path()).args(arguments).output().unwrap());
    for argument in ["-static", "-fsanitize=address", "-flto", "-m32", "-masm=intel", "--slimline-values"] {
        let line = with(&["gcc", argument, "a.c"]);
        assert!(line.starts_with(&format!("slimline: {argument} can't be combined with tracing: ")), "{line}");
    }
    let free = with(&["gcc", "-nostdlib", "a.c"]);
    assert_eq!(
        free,
        "slimline: -nostdlib or -nodefaultlibs can't be combined with tracing: the runtime needs the C library; link it too (-lc)"
    );
    assert!(with(&["gcc", "@arguments"]).starts_with("slimline: -fsanitize=undefined can't be combined"));
    assert!(!directory.path().join("a.o").exists());
    let other = |gcc: &str, path: Option<&str>| {
        let mut command = slimline();
        command.current_dir(directory.path()).args(["gcc", "-c", "a.c"]).env("SLIMLINE_GCC", gcc);
        if let Some(path) = path {
            command.env("PATH", path);
        }
        line(&command.output().unwrap())
    };
    assert_eq!(other("/nowhere/gcc", None), "slimline: /nowhere/gcc: No such file or directory (os error 2)");
    let clang = other("clang", None);
    assert!(clang.starts_with("slimline: clang is ") && clang.ends_with("SLIMLINE_GCC names another"), "{clang}");
    assert!(other("", Some("/nowhere")).starts_with("slimline: no gcc in PATH; SLIMLINE_GCC names a gcc"));
    let old = directory.path().join("gcc-9");
    fs::write(&old, "#!/bin/sh\necho 'Target: x86_64-linux-gnu' >&2\necho 'gcc version 9.4.0 (Old)' >&2\n").unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
    let old = other(old.to_str().unwrap(), None);
    assert!(old.contains("is gcc 9.4.0 (Old) for x86_64-linux-gnu, not gcc of version 11 or newer"), "{old}");
}

#[test]
fn allocators_of_the_project_are_known() {
    const SOURCE: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <new>
namespace app {
struct Node { Node *next; long key; };
struct Arena {
    char *at;
    [[gnu::noinline]] void *make(std::size_t bytes) { char *block = at; at += bytes; return block; }
};
}
int main() {
    app::Arena arena{static_cast<char *>(std::malloc(1 << 20)) + 64};
    app::Node *list = nullptr;
    for (long i = 0; i < 100; i++) list = new (arena.make(sizeof(app::Node) * (i % 3 / 2 + 1))) app::Node{list, i};
    long sum = 0;
    for (app::Node *node = list; node; node = node->next) sum += node->key;
    std::printf("%ld\n", sum);
}
"#;
    let without = Compiled::new("g++", SOURCE, &[]).traced(&[]).1;
    assert_eq!(heap(&without).iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(), [(13, 1)]);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("arena.cpp"), SOURCE).unwrap();
    let told = "[[allocator]]\nallocate = [{ function = \"app::Arena::make\", size = 2 }]\n";
    fs::write(directory.path().join("slimline.toml"), told).unwrap();
    let build = directory.path().join("build");
    fs::create_dir(&build).unwrap();
    compile(&build, &["g++", "-O2", "../arena.cpp", "-o", "arena"]);
    let mut trace = slimline();
    let output = trace
        .args(["trace", "--live", "--report", "-", "--format", "json", "--"])
        .arg(build.join("arena"))
        .output()
        .unwrap();
    let (said, report) = text(&output.stdout).split_once('\n').unwrap();
    assert_eq!(said, "4950");
    let report = serde_json::from_str(report).unwrap();
    let groups = heap(&report);
    // 33 of the 100 blocks are two nodes large.
    assert!(groups.iter().any(|row| (row.0, row.1, row.2) == (15, 100, 133 * 16)), "{groups:?}");
}
