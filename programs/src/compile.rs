//! Building a program with the compiler that its language's users have.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{Language, Program};

/// How far the compiler optimizes; debug information is always there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Optimization {
    /// `-O2 -g`.
    O2,
    /// `-O3 -g`.
    O3,
}

impl Program {
    /// Builds it into `directory` (made if missing) and returns the executable, which an earlier build with the same
    /// sources may have left there. Any number of processes may do so at once.
    pub fn build(&self, optimization: Optimization, directory: &Path) -> Result<PathBuf> {
        let level = match optimization {
            Optimization::O2 => "2",
            Optimization::O3 => "3",
        };
        let executable = directory.join(format!("{}.O{level}", self.name));
        if newer(&executable, &self.sources()) {
            return Ok(executable);
        }
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        // Renamed when whole, so that a parallel build never runs half a file.
        let unfinished = directory.join(format!("{}.O{level}.{}", self.name, std::process::id()));
        let modules = directory.join(format!("{}.O{level}.{}.modules", self.name, std::process::id()));
        let mut command = match self.language {
            Language::C => Command::new("gcc"),
            Language::Cpp => Command::new("g++"),
            Language::Rust => Command::new("rustc"),
            Language::Fortran => Command::new("gfortran"),
        };
        match self.language {
            Language::C | Language::Cpp => {
                command.args(["-g", "-Wall", "-Wextra", "-pthread", &format!("-O{level}")]);
            }
            Language::Fortran => {
                std::fs::create_dir_all(&modules).with_context(|| modules.display().to_string())?;
                command.args(["-g", "-Wall", &format!("-O{level}"), "-J"]).arg(&modules);
            }
            Language::Rust => {
                command.args(["--edition", "2024", "-g", "-C", &format!("opt-level={level}")]);
            }
        }
        command.arg(&self.source).arg("-o").arg(&unfinished);
        let output = command.output().with_context(|| format!("can't run {:?}", command.get_program()))?;
        if self.language == Language::Fortran {
            std::fs::remove_dir_all(&modules).with_context(|| modules.display().to_string())?;
        }
        if !output.status.success() {
            bail!("{}: {}", self.source.display(), String::from_utf8_lossy(&output.stderr));
        }
        std::fs::rename(&unfinished, &executable)?;
        Ok(executable)
    }

    /// The files that it is made of.
    fn sources(&self) -> Vec<PathBuf> {
        let shared = match self.language {
            Language::C | Language::Cpp => Some("c/truth.h"),
            Language::Rust => Some("rust/truth.rs"),
            Language::Fortran => None,
        };
        let shared = shared.map(|shared| Path::new(env!("CARGO_MANIFEST_DIR")).join(shared));
        [self.source.clone()].into_iter().chain(shared).collect()
    }
}

/// Whether `built` exists and none of `sources` changed since.
fn newer(built: &Path, sources: &[PathBuf]) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    changed(built).is_some_and(|built| sources.iter().all(|source| changed(source).is_some_and(|at| at < built)))
}
