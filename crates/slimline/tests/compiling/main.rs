//! `slimline cc` and `slimline c++` as build systems call them: what they answer, and how they end badly.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the compiler in a directory, with another clang if one is named.
fn compile(directory: &Path, clang: Option<&str>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    command.current_dir(directory).args(arguments);
    match clang {
        Some(clang) => command.env("SLIMLINE_CLANG", clang),
        None => command.env_remove("SLIMLINE_CLANG"),
    };
    command.output().unwrap()
}

fn line(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn a_traced_program_runs_alone() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    std::fs::write(place("half.c"), "int half(const int *x) { return *x / 2; }\n").unwrap();
    let main = "#include <cstdio>\n#include <vector>\nextern \"C\" int half(const int *);\n\
                int main(int n, char **) { std::vector<int> v(n + 20, 8); std::printf(\"%d\\n\", half(&v[n])); return 3; }\n";
    std::fs::write(place("main.cpp"), main).unwrap();
    for arguments in [
        &["cc", "-O2", "-c", "half.c"][..],
        &["c++", "-O2", "-c", "main.cpp", "-o", "main.o"],
        &["c++", "main.o", "half.o", "-o", "program"],
    ] {
        let output = compile(directory.path(), None, arguments);
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
    let output = Command::new(place("program")).output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(3), &b"4\n"[..]));
}

#[test]
fn questions_are_answered_by_clang() {
    let directory = tempfile::tempdir().unwrap();
    for question in ["--version", "--help", "-dumpversion", "-print-resource-dir"] {
        let output = compile(directory.path(), None, &["cc", question]);
        assert!(output.status.success() && !output.stdout.is_empty(), "{question}: {output:?}");
    }
    // As configure scripts ask whether an option is known.
    std::fs::write(directory.path().join("empty.c"), "").unwrap();
    let unknown = compile(directory.path(), None, &["cc", "-Wno-such", "-Werror", "-c", "empty.c"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(compile(directory.path(), None, &["cc", "-c", "empty.c"]).status.success());
}

#[test]
fn other_compilers_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.c"), "int x;\n").unwrap();
    let with = |clang: &str| line(&compile(directory.path(), Some(clang), &["cc", "-c", "a.c"]));
    assert_eq!(with("/nowhere/clang"), "slimline: /nowhere/clang: No such file or directory (os error 2)");
    let gcc = with("gcc");
    assert!(gcc.starts_with("slimline: gcc is gcc") && gcc.ends_with("SLIMLINE_CLANG names another"), "{gcc}");
    // A clang whose LLVM is linked in: the same answers, from a file that needs no libLLVM.
    let script = directory.path().join("clang");
    let jobs = "#!/bin/sh\ncat >&2 <<END\nclang version 19.1.7\n \"$0\" \"-cc1\" \"-emit-obj\" \"-o\" \"a.o\" \"-x\" \"c\" \"a.c\"\nEND\n";
    std::fs::write(&script, jobs).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).unwrap();
    let alone = with(script.to_str().unwrap());
    assert!(
        alone.ends_with("needs no libLLVM.so and none lies beside it: is LLVM linked into it statically?"),
        "{alone}"
    );
    let nothing = Command::new(env!("CARGO_BIN_EXE_slimline"))
        .args(["cc", "-c", "a.c"])
        .env_remove("SLIMLINE_CLANG")
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    assert_eq!(line(&nothing), "slimline: no clang of version 19 to 22 in PATH; SLIMLINE_CLANG names one");
}
