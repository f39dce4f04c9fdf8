//! `slimline gcc`, `slimline g++` and `slimline gfortran`: programs whose accesses are known in closed form, what builds them,
//! and how that ends badly.

mod building;
mod counted;
mod noted;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn slimline() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    command.env_remove("SLIMLINE_GCC");
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs one of the compilers in a directory; it has nothing to say.
fn compile<A: AsRef<OsStr>>(directory: &Path, arguments: &[A]) {
    let output = slimline().current_dir(directory).args(arguments).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// A program of one file.
struct Compiled {
    scratch: TempDir,
}

impl Compiled {
    /// By this compiler of ours, with `-O2` and these options.
    fn new(compiler: &str, source: &str, options: &[&str]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let name = match compiler {
            "gcc" => "program.c",
            "g++" => "program.cpp",
            _ => "program.f90",
        };
        fs::write(scratch.path().join(name), source).unwrap();
        let all = [&[compiler, "-O2", "-pthread", "-o", "program", name][..], options].concat();
        compile(scratch.path(), &all);
        Self { scratch }
    }

    fn program(&self) -> PathBuf {
        self.scratch.path().join("program")
    }

    /// The same by the compiler itself.
    fn native(&self, compiler: &str, options: &[&str]) -> Output {
        let source = if compiler == "g++" { "program.cpp" } else { "program.c" };
        let mut command = Command::new(compiler);
        command.current_dir(self.scratch.path()).args(["-O2", "-pthread", "-o", "native", source]).args(options);
        assert!(command.status().unwrap().success());
        Command::new(self.scratch.path().join("native")).output().unwrap()
    }

    /// What it prints when it is traced, and the report.
    fn traced(&self, arguments: &[&str]) -> (String, Value) {
        self.traced_with(&[], arguments)
    }

    /// The same with options of `trace`.
    fn traced_with(&self, options: &[&str], arguments: &[&str]) -> (String, Value) {
        let mut command = slimline();
        command.args(["trace", "--live", "--report", "-", "--format", "json"]).args(options);
        command.arg("--").arg(self.program()).args(arguments);
        let output = command.output().unwrap();
        let all = text(&output.stdout);
        let begin = all.find("{\"schema\"").or_else(|| all.find("{\n")).unwrap_or_else(|| panic!("{output:?}"));
        (all[..begin].to_owned(), serde_json::from_str(&all[begin..]).unwrap())
    }
}

/// Loads and stores of the row of this name.
fn named(rows: &Value, name: &str) -> (u64, u64) {
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name);
    row.map_or((0, 0), |row| (row["loads"].as_u64().unwrap(), row["stores"].as_u64().unwrap()))
}

/// Line, blocks, peak in bytes, type and allocator.
type HeapRow<'r> = (u64, u64, u64, &'r str, &'r str);

/// The heap groups, by the line that allocates them.
fn heap(report: &Value) -> Vec<HeapRow<'_>> {
    let row = |row: &'_ Value| {
        let number = |key: &str| row[key].as_u64().unwrap();
        (number("line"), number("blocks"), number("peak_bytes"))
    };
    let rows = report["heap"].as_array().unwrap().iter().map(|group| {
        let (line, blocks, peak) = row(group);
        let word = |key: &str| group[key].as_str().unwrap_or_default();
        (line, blocks, peak, word("type_name"), word("allocator"))
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable();
    rows
}
