//! The driver: what build systems ask compilers for.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use slimline_instrument::driver::{self, DriverError, Language};
use slimline_instrument::rewrite::OwnAllocators;
use tempfile::TempDir;

use crate::harness::{run, run_traced, runtime, tables};

const MAIN: &str =
    "#include <stdio.h>\n#include \"half.h\"\nint main(void) { int x[] = {4, 6}; printf(\"%d\\n\", half(x)); }\n";
const HALF: &str = "#include \"half.h\"\nint half(const int *x) { return (x[0] + x[1] + EXTRA) / 2; }\n";

/// A directory with a program of two sources.
fn sources() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("main.c"), MAIN).unwrap();
    std::fs::write(directory.path().join("half.c"), HALF).unwrap();
    std::fs::write(directory.path().join("half.h"), "int half(const int *x);\n").unwrap();
    directory
}

/// Runs the driver with arguments in which `%/` is the directory.
fn drive(directory: &TempDir, arguments: &[&str]) -> Result<u8, DriverError> {
    let path = directory.path().to_str().unwrap();
    let arguments: Vec<OsString> = arguments.iter().map(|it| it.replace("%/", &format!("{path}/")).into()).collect();
    driver::compile(Language::C, &arguments, runtime(), OwnAllocators::default())
}

fn succeed(directory: &TempDir, arguments: &[&str]) {
    assert_eq!(drive(directory, arguments).unwrap(), 0, "{arguments:?}");
}

#[test]
fn objects_are_made_and_linked() {
    let directory = sources();
    succeed(&directory, &["-O2", "-DEXTRA=0", "-MD", "-MF", "%/half.d", "-c", "%/half.c", "-o", "%/half.o"]);
    let rule = std::fs::read_to_string(directory.path().join("half.d")).unwrap();
    assert!(rule.contains("half.o:") && rule.contains("half.h"), "{rule}");
    assert!(!rule.contains(".bc"), "{rule}");
    succeed(&directory, &["-O2", "-c", "%/main.c", "-o", "%/main.o"]);
    run(Command::new("ar").arg("rcs").args(["libhalf.a", "half.o"]).current_dir(directory.path()));
    succeed(&directory, &["%/main.o", "-L%/.", "-lhalf", "-o", "%/traced"]);
    let program = directory.path().join("traced");
    assert_eq!(tables(&program).len(), 2);
    let trace = run_traced(directory, &program);
    assert_eq!(trace.output.stdout, b"5\n");
    assert_eq!(trace.count(|site| site.function == "half" && site.variable == "x"), 2);
}

#[test]
fn one_command_may_do_everything() {
    let directory = sources();
    std::fs::write(directory.path().join("options"), "-O1 \"-DEXTRA=2 - 1\"\n").unwrap();
    let options = format!("@{}/options", directory.path().display());
    succeed(&directory, &[&options, "-x", "c", "%/main.c", "%/half.c", "-pthread", "-lm", "-o", "%/traced"]);
    let program = directory.path().join("traced");
    let names: Vec<_> = tables(&program).iter().map(|(_, table)| table.name(table.object).to_owned()).collect();
    assert_eq!(names, ["", ""]);
    assert_eq!(run_traced(directory, &program).output.stdout, b"5\n");
}

#[test]
fn shared_objects_use_the_programs_runtime() {
    let directory = sources();
    succeed(&directory, &["-O2", "-DEXTRA=0", "-fPIC", "-shared", "%/half.c", "-o", "%/libhalf.so"]);
    succeed(&directory, &["-O2", "%/main.c", "-L%/.", "-lhalf", "-Wl,-rpath,%/", "-o", "%/traced"]);
    let (program, library) = (directory.path().join("traced"), directory.path().join("libhalf.so"));
    let both = [tables(&program), tables(&library)].concat();
    assert_eq!(both.len(), 2);
    let status = Command::new(&program).env("TRACE", directory.path().join("trace")).output().unwrap();
    assert_eq!(status.stdout, b"5\n");
    // One runtime, one stream: records of both modules in it.
    let stream = std::fs::read(directory.path().join("trace.0")).unwrap();
    assert!(!directory.path().join("trace.1").exists());
    for (id, _) in both {
        let of_module = |word: &[u8; 8]| u64::from_ne_bytes(*word) >> 24 == 1 << 39 | id.number();
        assert!(stream.as_chunks::<8>().0.iter().any(of_module), "{id:?}");
    }
}

#[test]
fn assembly_is_traced_too_and_the_rest_is_as_it_is() {
    let directory = sources();
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    succeed(&directory, &["-S", "-O1", "%/main.c", "-o", "%/main.s"]);
    assert!(read("main.s").contains("slimline_sites"));
    succeed(&directory, &["-E", "%/main.c", "-o", "%/main.i"]);
    assert!(read("main.i").contains("int half(const int *x);"));
    succeed(&directory, &["-M", "%/main.c", "-MF", "%/main.d"]);
    assert!(read("main.d").contains("half.h"));
    succeed(&directory, &["-fsyntax-only", "%/main.c"]);
    succeed(&directory, &["-c", "%/main.s", "-o", "%/main.o"]);
    succeed(&directory, &["-r", "%/main.o", "-nostdlib", "-o", "%/partial.o"]);
    succeed(&directory, &["--version"]);
}

#[test]
fn mistakes_have_clangs_status_and_leave_nothing() {
    let directory = sources();
    std::fs::write(directory.path().join("wrong.c"), "int f(void) { return x; }\n").unwrap();
    assert_eq!(drive(&directory, &["-c", "%/wrong.c", "-o", "%/wrong.o"]).unwrap(), 1);
    assert!(!directory.path().join("wrong.o").exists());
    assert_eq!(drive(&directory, &["-c", "%/missing.c"]).unwrap(), 1);
    assert_eq!(drive(&directory, &["--no-such-option", "-c", "%/main.c", "-o", "%/main.o"]).unwrap(), 1);
    // Undefined: half.
    assert_ne!(drive(&directory, &["%/main.c", "-o", "%/main"]).unwrap(), 0);
    for (option, line) in [
        ("-flto", "-flto=full can't be combined with tracing: its objects hold no code yet; leave it out"),
        (
            "-fsanitize=address",
            "-fsanitize=address can't be combined with tracing: sanitizers add accesses of their own; leave them out",
        ),
        ("-static", "-static can't be combined with tracing: the runtime needs the dynamic linker"),
    ] {
        let error = drive(&directory, &[option, "-DEXTRA=0", "%/main.c", "%/half.c", "-o", "%/main"]).unwrap_err();
        assert_eq!(error.to_string(), line);
    }
    let arm = drive(
        &directory,
        &["--target=aarch64-linux-gnu", "-ffreestanding", "-DEXTRA=0", "-c", "%/half.c", "-o", "%/half.o"],
    );
    let arm = arm.unwrap_err().to_string();
    assert!(arm.ends_with("code for aarch64-unknown-linux-gnu can't be instrumented, only for x86_64 Linux"), "{arm}");
    assert!(!Path::new("half.o").exists());
}
