//! Build systems with our compilers in the place of theirs: CMake, make, Ninja, Meson, autoconf, libtool and compiler caches;
//! split debug information; and the compilers as commands of one word.

mod split;
mod systems;
mod words;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A directory to build in, with a cache of its own.
struct Scratch {
    directory: TempDir,
}

impl Scratch {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        let file = self.file(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path()).env("XDG_CACHE_HOME", self.file("cache"));
        for variable in ["SLIMLINE_GCC", "SLIMLINE_CLANG", "SLIMLINE_FLANG", "CC", "CXX", "FC", "CFLAGS", "MAKEFLAGS"] {
            command.env_remove(variable);
        }
        command
    }

    fn slimline(&self, arguments: &[&str]) -> Output {
        run(self.command(SLIMLINE).args(arguments))
    }

    /// Links to all compilers, in a directory of their own.
    fn links(&self) -> PathBuf {
        let links = self.file("links");
        fs::create_dir_all(&links).unwrap();
        self.slimline(&["links", links.to_str().unwrap()]);
        links
    }

    /// What a trace of the program tells, in JSON.
    fn traced(&self, program: &str) -> Value {
        self.slimline(&["trace", "--live", "--format", "json", "--report", "trace.json", "--", program]);
        serde_json::from_slice(&fs::read(self.file("trace.json")).unwrap()).unwrap()
    }
}

const SLIMLINE: &str = env!("CARGO_BIN_EXE_slimline");

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    output
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Whether any text of the trace is this.
fn says(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text == wanted,
        Value::Array(all) => all.iter().any(|value| says(value, wanted)),
        Value::Object(map) => map.values().any(|value| says(value, wanted)),
        _ => false,
    }
}
