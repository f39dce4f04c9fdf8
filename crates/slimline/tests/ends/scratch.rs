//! A directory for one test, and the program under test in it.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The identity of "nobody".
pub(crate) const NOBODY: u32 = 65_534;

pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    /// Readable for everybody, so that a test may run as somebody else in it.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        Self(directory)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Where `record` writes where nothing else is said.
    pub(crate) fn session(&self) -> PathBuf {
        self.path("slimline.data")
    }

    /// `slimline ARGUMENTS…` in this directory.
    pub(crate) fn slimline<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    /// A shell script in this directory, with slimline as `$SLIMLINE`.
    pub(crate) fn bash(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", script]).env("SLIMLINE", env!("CARGO_BIN_EXE_slimline"));
        command.current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    pub(crate) fn write_program(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Compiles a C program; `flags` come after the source.
    pub(crate) fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let (program, file) = (self.path(name), self.path(&format!("{name}.c")));
        fs::write(&file, source).unwrap();
        let output = Command::new("cc").arg("-o").arg(&program).arg(&file).args(flags).output().expect("cc starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }

    /// A session of a small program with a structure; compiled with `flags`.
    pub(crate) fn record_walk(&self, flags: &[&str]) -> PathBuf {
        let program = self.compile("walk", WALK, flags);
        let output = self.slimline(["record".as_ref(), "--".as_ref(), program.as_os_str()]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        self.session()
    }
}

/// Walks an array of structures for a fixed amount of work, some 0.2 s: long enough for samples on any machine, as the
/// clock counts the program's own time.
pub(crate) const WALK: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct item { double value; long key; char rest[48]; };
int main(void) {
    long n = 1 << 18;
    struct item *items = calloc(n, sizeof *items);
    double sum = 0;
    for (int pass = 0; pass < 100; pass++)
        for (long i = 0; i < n; i++)
            sum += items[i].value + items[i].key;
    printf("%g\n", sum);
    return 0;
}
"#;

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The command ended with status 2 and one line of slimline's that holds `expected`, and printed nothing.
#[track_caller]
pub(crate) fn check_refused(output: &Output, expected: &str) {
    let line = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{:?}: {line}", output.status);
    assert!(line.contains(expected), "{expected:?} is not in: {line}");
    assert!(line.starts_with("slimline: ") && line.lines().count() == 1, "not one line of slimline's: {line}");
    assert_eq!(line.trim_end_matches('\n').find(char::is_control), None, "for a terminal: {line:?}");
    assert!(output.stdout.is_empty(), "{}", stdout(output));
}

/// Says that a test has nothing to test here. What a passing test prints is not shown, so `cargo xtask test` has such lines
/// collected in a file and shows them at its end.
pub(crate) fn skip(test: &str, why: &str) {
    eprintln!("skipped: {test}: {why}");
    if let Some(list) = std::env::var_os("SLIMLINE_SKIPPED_TESTS") {
        let mut list = fs::File::options().append(true).create(true).open(list).unwrap();
        writeln!(list, "{test}: {why}").unwrap();
    }
}

/// Whether tests may do what only root may. CI and containers do; for others those parts have nothing to test.
pub(crate) fn is_root() -> bool {
    // The owner of a file that we make is us.
    use std::os::unix::fs::MetadataExt;
    let file = tempfile::tempfile().unwrap();
    file.metadata().unwrap().uid() == 0
}

/// A copy of slimline that everybody may run.
pub(crate) fn copy_for_everybody(directory: &Path) -> PathBuf {
    let copy = directory.join("slimline");
    fs::copy(env!("CARGO_BIN_EXE_slimline"), &copy).unwrap();
    fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
    copy
}
