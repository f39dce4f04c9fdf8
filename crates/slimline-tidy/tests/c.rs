//! Programs in C and C++ that use the headers and the static library.

use std::path::{Path, PathBuf};
use std::process::Command;

fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [said, printed] = [output.stderr, output.stdout].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{command:?}: {}\n{said}{printed}", output.status);
    printed
}

/// The static library, as the crate's manifest says that it is made.
fn library() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustc", "--quiet", "--lib", "--crate-type", "staticlib", "--features", "c"]);
    done(cargo.arg("--target-dir").arg(&target).current_dir(env!("CARGO_MANIFEST_DIR")));
    target.join("debug/libslimline_tidy.a")
}

fn run(compiler: &str, options: &[&str], source: &str, library: &Path) -> String {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.replace('.', "_"));
    let mut compile = Command::new(compiler);
    compile.args(options).args(["-g", "-Wall", "-Wextra", "-Werror", "-I"]).arg(own.join("include"));
    compile.arg(own.join("tests/c").join(source)).arg(library).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    done(&mut compile);
    done(&mut Command::new(&program))
}

#[test]
#[cfg_attr(miri, ignore = "it starts programs")]
fn c_and_c_plus_plus() {
    let library = library();
    let of_c = run("cc", &["-std=c11"], "tidy.c", &library);
    assert_eq!(of_c, "5 objects, 1 large of 200000 bytes, 2 arenas, 1\n0 bytes left\n");
    assert_eq!(run("cc", &["-std=c11"], "printed_hint.c", &library), "3 objects in 2 arenas\n");
    let of_cpp = run("c++", &["-std=c++17"], "tidy.cpp", &library);
    // 49 is 7 · 7.
    let expected =
        "151 objects in 3 arenas, 99, 8.5\ntidy: a hint of other dimensions than its context's\n0 objects left\n";
    assert_eq!(of_cpp, expected);
}
