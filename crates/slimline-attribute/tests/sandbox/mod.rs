//! Compiles small programs for tests.

#![allow(dead_code)] // each test file uses a part

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use slimline_attribute::files::{FileBytes, Files};

/// A directory of files as the core sees it: what is under `root`, by absolute path, and nothing else of the machine.
pub(crate) struct Sandbox {
    pub(crate) root: tempfile::TempDir,
    /// Paths that are served from elsewhere.
    pub(crate) redirected: Vec<(String, PathBuf)>,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self { root: tempfile::tempdir().expect("temporary directory"), redirected: Vec::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn text_path(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    /// Writes `source` and compiles it with `compiler flags… -o program source`, in the sandbox's directory.
    pub(crate) fn compile(
        &self,
        compiler: &str,
        flags: &[&str],
        source_name: &str,
        source: &str,
        program: &str,
    ) -> String {
        std::fs::write(self.path(source_name), source).expect("write source");
        self.run(compiler, &[flags, &["-o", program, source_name]].concat());
        self.text_path(program)
    }

    /// Runs a tool in the sandbox's directory; panics where it fails.
    pub(crate) fn run(&self, tool: &str, arguments: &[&str]) -> String {
        let output = Command::new(tool)
            .args(arguments)
            .current_dir(self.root.path())
            .output()
            .unwrap_or_else(|error| panic!("{tool} is needed by this test: {error}"));
        assert!(output.status.success(), "{tool} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

impl Files for Sandbox {
    fn open(&self, path: &str) -> Option<FileBytes> {
        let redirected = self.redirected.iter().find(|(from, _)| from == path).map(|(_, to)| to.as_path());
        let path = redirected.unwrap_or(Path::new(path));
        if !path.starts_with(self.root.path()) && redirected.is_none() {
            return None;
        }
        Some(Arc::new(std::fs::read(path).ok()?))
    }
}
