//! Directives of C and C++, by the compilers of ours that make calls of them.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::{Sources, text};

const OURS: &str = env!("CARGO_BIN_EXE_slimline");

/// Each kind of place where a directive may stand, or seem to.
const PROGRAM: &str = r#"
#include "headers/its own.h"
#include "headers/../headers/its own.h"
#define DO_PRAGMA(x) _Pragma(#x)
#define WATCHED(array, bytes) DO_PRAGMA(omp inst data(array, bytes, #array))
#define LITERAL _Pragma("omp inst data(third, 3, \"third \\\"quoted\\\"\")")
static char first[100], second[100], third[100];
/* #pragma omp inst data(first, 1, "comment") */
// #pragma omp inst data(first, 2, "comment")
const char *text = "\
#pragma omp inst data(first, 3, \"string\")";
#if 0
#pragma omp inst data(nothing)
#pragma omp inst data(first, 4, "left out")
#endif
#ifndef OTHER
#define OTHER 7
#endif
static void in_region(void) {
#pragma pomp inst begin(sorting)
    first[0]++;
#pragma pomp inst end(sorting)
}
int main(void) {
    int line = __LINE__;
#pragma omp inst data(first, sizeof(first), "first")
#  pragma \
    pomp inst data(second + OTHER, \
                   (1, OTHER), /* why */ "second") // so
    WATCHED(third, 2 * 15);
    LITERAL
    DO_PRAGMA(omp inst data(third, 5,
                            "lines"))
    in_region();
    watch_in_header();
#pragma pomp inst init
    return __LINE__ != line + 12 || first[0] != 1;
}
"#;
const HEADER: &str = "#ifndef OWN\n#define OWN\nstatic char own[9];\nstatic inline void watch_in_header(void) {\n\
                      #pragma omp inst data(own, sizeof(own), \"its own\")\n}\n#endif\n";
const USER: &str = "#include \"headers/its own.h\"\nint main(void) { watch_in_header(); return 0; }\n";
const SAID: [&str; 7] = [
    "watch 100 first",
    "watch 7 second",
    "watch 30 third",
    "watch 3 third%20\"quoted\"",
    "watch 5 lines",
    "watch 9 its%20own",
    "region sorting in 0",
];

fn sources() -> Sources {
    Sources::new(&[("program.c", PROGRAM), ("program.cpp", PROGRAM), ("headers/its own.h", HEADER)])
}

#[test]
fn directives_become_calls() {
    let sources = sources();
    for (compiler, source) in [("cc", "program.c"), ("c++", "program.cpp")] {
        for options in [&["-O2"][..], &["-O0", "-fopenmp=libomp"], &["-no-pie", "-fno-pie"]] {
            sources.make(
                &[
                    &[
                        OURS,
                        compiler,
                        "-Wall",
                        "-Werror",
                        "-Wno-unused-value",
                        "-Wno-unknown-pragmas",
                        "-o",
                        "program",
                        source,
                    ],
                    options,
                ]
                .concat(),
            );
            assert_eq!(sources.said("program"), SAID, "{compiler} {options:?}");
        }
    }
}

/// Functions of each sort, and a header that has two names.
#[test]
fn cpp_has_places_of_its_own() {
    const HEADER: &str = r#"
#pragma once
namespace deep {
template <typename T> struct box {
    T values[4];
    void watched() {
#pragma pomp inst data(values, sizeof(values), "template")
        auto lambda = [this] {
#pragma pomp inst begin(lambda)
            values[0] = 1;
#pragma pomp inst end(lambda)
        };
        lambda();
    }
};
} // namespace deep
"#;
    const PROGRAM: &str = r#"
#include <link.hpp>
#include "headers/../headers/box.hpp"
namespace {
void unnamed() {
    static int own[2];
#pragma pomp inst data(own, sizeof own, "unnamed")
}
} // namespace
extern "C" {
static constexpr int twice(int x) { return 2 * x; }
}
static volatile double values[3];
int main() {
    deep::box<int> ints;
    deep::box<double> doubles;
    ints.watched();
    doubles.watched();
    unnamed();
#pragma pomp inst data(values, twice(12), "volatile")
    switch (ints.values[0]) {
    case 1:
#pragma pomp inst data(&doubles, 4, "case")
        break;
    }
}
"#;
    let sources = Sources::new(&[("program.cpp", PROGRAM), ("headers/box.hpp", HEADER)]);
    fs::create_dir(sources.path("links")).unwrap();
    std::os::unix::fs::symlink("../headers/box.hpp", sources.path("links/link.hpp")).unwrap();
    let strict = ["-Wall", "-Wextra", "-Wshadow", "-Wold-style-cast", "-Werror", "-Wno-unknown-pragmas"];
    for compiler in ["c++", "g++"] {
        for standard in ["-std=c++11", "-std=c++20"] {
            let words = [OURS, compiler, "-isystem", "links", standard, "-o", "program", "program.cpp"];
            sources.make(&[&words[..], &strict].concat());
            let watched = ["watch 16 template", "watch 32 template", "watch 8 unnamed", "watch 24 volatile"];
            assert_eq!(sources.said("program"), [&watched[..], &["watch 4 case", "region lambda in 0"]].concat());
        }
    }
}

/// gcc's compilers make the same calls.
#[test]
fn gcc_has_them_too() {
    let sources = sources();
    for (compiler, source) in [("gcc", "program.c"), ("g++", "program.cpp")] {
        let strict = ["-Wall", "-Wextra", "-Wredundant-decls", "-Wshadow", "-Werror", "-Wno-unused-value"];
        for options in [&["-O2"][..], &["-O0", "-fopenmp"], &["-no-pie", "-fno-pie"]] {
            let words = [&[OURS, compiler, "-Wno-unknown-pragmas", "-o", "program", source], &strict[..], options];
            sources.make(&words.concat());
            assert_eq!(sources.said("program"), SAID, "{compiler} {options:?}");
        }
    }
    let gcc = |arguments: &[&str]| sources.make(&[&[OURS, "gcc", "-Wno-unused-value"], arguments].concat());
    let check = || {
        gcc(&["-o", "program", "program.o"]);
        assert_eq!(sources.said("program"), SAID);
        fs::remove_file(sources.path("program.o")).unwrap();
    };
    gcc(&["-Wnested-externs", "-Werror", "-MD", "-include", "headers/its own.h", "-DOTHER=7", "-c", "program.c"]);
    let list = fs::read_to_string(sources.path("program.d")).unwrap();
    assert!(list.starts_with("program.o: program.c") && list.contains("headers/its\\ own.h"), "{list}");
    check();
    from_input("gcc", &sources);
    check();
    // What another has preprocessed keeps the directives.
    fs::write(sources.path("user.c"), USER).unwrap();
    sources.make(&["gcc", "-E", "-o", "user.i", "user.c"]);
    gcc(&["-Wall", "-Wextra", "-Wnested-externs", "-Werror", "-o", "program", "user.i"]);
    assert_eq!(sources.said("program"), ["watch 9 its%20own"]);
    // A precompiled header is of no use here, and does no harm.
    gcc(&["-x", "c-header", "-o", "headers/its own.h.gch", "headers/its own.h"]);
    gcc(&["-o", "program", "user.c"]);
    assert_eq!(sources.said("program"), ["watch 9 its%20own"]);
}

/// Makes an object of what comes through standard input.
fn from_input(compiler: &str, sources: &Sources) {
    let mut child = Command::new(OURS);
    child.args([compiler, "-x", "c", "-c", "-o", "program.o", "-Wno-unused-value", "-"]).current_dir(sources.path(""));
    let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(PROGRAM.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Commands that make an object in other ways, and those that make none.
#[test]
fn builds_go_on_as_before() {
    let sources = sources();
    let cc = |arguments: &[&str]| sources.make(&[&[OURS, "cc", "-Wno-unused-value"], arguments].concat());
    let check = || {
        cc(&["-o", "program", "program.o"]);
        assert_eq!(sources.said("program"), SAID);
        fs::remove_file(sources.path("program.o")).unwrap();
    };
    // Which files are read is told as before.
    cc(&["-MD", "-c", "program.c"]);
    let list = fs::read_to_string(sources.path("program.d")).unwrap();
    assert_eq!(list, "program.o: program.c headers/its\\ own.h headers/../headers/its\\ own.h\n");
    check();
    // What is preprocessed has the calls, of which macros are known that are not where it is compiled.
    cc(&["-E", "-o", "program.i", "program.c"]);
    cc(&["-c", "-o", "program.o", "program.i"]);
    check();
    fs::write(sources.path("user.c"), USER).unwrap();
    sources.make(&["clang-19", "-E", "-o", "user.i", "user.c"]);
    let preprocessed = fs::read_to_string(sources.path("user.i")).unwrap();
    assert!(preprocessed.contains("#pragma omp inst data(own, sizeof(own)"), "{preprocessed}");
    cc(&["-g", "-Wall", "-Wextra", "-Wredundant-decls", "-Werror", "-o", "program", "user.i"]);
    assert_eq!(sources.said("program"), ["watch 9 its%20own"]);
    cc(&["-S", "-o", "program.s", "program.c"]);
    sources.make(&["clang-19", "-c", "-o", "program.o", "program.s"]);
    check();
    from_input("cc", &sources);
    check();
    cc(&["-fopenmp", "-fsyntax-only", "program.c"]);
    // Several sources at once.
    let other = "static char z[4];\nvoid other(void) {\n#pragma omp inst data(z, 4, \"z\")\n}\n";
    let program =
        "void other(void);\nint main(void) {\n other();\n#pragma omp inst data(main, 1, \"main\")\n return 0; }\n";
    fs::write(sources.path("other.c"), other).unwrap();
    fs::write(sources.path("several.c"), program).unwrap();
    cc(&["-o", "program", "several.c", "other.c"]);
    assert_eq!(sources.said("program"), ["watch 4 z", "watch 1 main"]);
}

/// Precompiled headers hold what was made of directives, and are valid for the sources that are on disk.
#[test]
fn headers_may_be_precompiled() {
    let sources = sources();
    for (compiler, source, language) in [("cc", "user.c", "c-header"), ("c++", "user.cpp", "c++-header")] {
        fs::write(sources.path(source), USER).unwrap();
        let header = "headers/its own.h";
        sources.make(&[OURS, compiler, "-g", "-x", language, "-o", "own.pch", header]);
        sources.make(&[OURS, compiler, "-g", "-Werror", "-include-pch", "own.pch", "-o", "program", source]);
        assert_eq!(sources.said("program"), ["watch 9 its%20own"]);
        // One that the compiler itself has made knows of no calls.
        let plain = if compiler == "cc" { "clang-19" } else { "clang++-19" };
        sources.make(&[plain, "-g", "-x", language, "-o", "own.pch", header]);
        let watched = USER.replace("return 0", "\n#pragma omp inst data(own, 2, \"two\")\nreturn 0");
        fs::write(sources.path(source), watched).unwrap();
        sources.make(&[OURS, compiler, "-g", "-include-pch", "own.pch", "-o", "program", source]);
        assert_eq!(sources.said("program"), ["watch 2 two"]);
    }
}

/// What compilers say has the source's lines and columns, and so have debug information and messages about mistakes.
#[test]
fn places_stay_those_of_the_source() {
    let sources = Sources::new(&[
        ("unknown.c", "int main(void) {\n#pragma omp inst data(absent, 8, \"a\")\n  return other; }\n"),
        (
            "wrong.c",
            "#if 0\n#pragma omp inst data(x)\n#endif\nint x;\nint main(void) {\n#pragma omp inst data(&x, 4)\n}\n",
        ),
        ("body.c", "int x;\nint main(void) {\n  if (x)\n#pragma omp inst data(&x, 4, \"x\")\n    x = 1;\n}\n"),
    ]);
    let says = |compiler: &str, source: &str| {
        let output = sources.run(&[OURS, compiler, "-c", source]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let lines = text(&output.stderr).lines().filter(|line| line.contains("error: ")).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    let absent =
        ["2:23: error: use of undeclared identifier 'absent'", "3:10: error: use of undeclared identifier 'other'"];
    assert_eq!(says("cc", "unknown.c"), absent.map(|line| format!("unknown.c:{line}")));
    let [first, second] = &says("gcc", "unknown.c")[..] else { panic!() };
    assert!(first.starts_with("unknown.c:2:23: error: 'absent' undeclared"), "{first}");
    assert!(second.starts_with("unknown.c:3:10: error: 'other' undeclared"), "{second}");
    let takes = "inst data takes three arguments: an address, a number of bytes, and a name in quotes";
    let body = "inst data can not be all that if, else or a loop has: put it into braces";
    for (compiler, column) in [("cc", 13), ("gcc", 19)] {
        assert_eq!(says(compiler, "wrong.c"), [format!("wrong.c:6:{column}: error: {takes}")]);
        assert_eq!(says(compiler, "body.c"), [format!("body.c:4:{column}: error: {body}")]);
    }
}
