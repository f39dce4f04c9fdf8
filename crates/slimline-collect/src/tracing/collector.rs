//! Who makes a program's records.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::qemu::{self, Qemu};
use crate::allocators::{AllocatorCall, Allocators};
use crate::program;
use crate::run_directory::{Library, RunDirectory};

/// How records are made.
#[derive(Clone, Debug, Default)]
pub enum TraceCollector {
    /// By the program itself, which was compiled for it.
    #[default]
    Instrumented,
    /// By a translator, of any program.
    Translated {
        /// The translator.
        qemu: Qemu,
        /// Functions of allocators of the program's own, beside those that are known.
        allocators: Vec<AllocatorCall>,
        /// Values are told, too.
        values: bool,
    },
}

impl TraceCollector {
    /// Whether code is found while it runs.
    pub(super) fn translates(&self) -> bool {
        matches!(self, Self::Translated { .. })
    }

    /// What says which file a process runs.
    pub(super) fn file_of(&self) -> fn(u32) -> Option<PathBuf> {
        match self {
            Self::Instrumented => |pid| fs::read_link(format!("/proc/{pid}/exe")).ok(),
            Self::Translated { .. } => qemu::program_that_runs,
        }
    }

    /// What starts a program, which sees `name` as its own and has `variables` in its environment; what the translator's plugin reads is put
    /// beside the rings.
    pub(super) fn command(
        &self,
        run: &RunDirectory,
        (program, name): (&Path, &OsStr),
        variables: &[(&str, OsString)],
    ) -> io::Result<Command> {
        match self {
            Self::Instrumented => {
                let mut command = Command::new(program);
                command.arg0(name).envs(variables.iter().cloned());
                Ok(command)
            }
            Self::Translated { qemu, allocators, values } => {
                run.write_allocators(&Allocators::new(allocators).file())?;
                let (file, before) = program::as_started(program)?;
                let name = if before.is_empty() { name } else { file.as_os_str() };
                let mut command = qemu.command(&run.library(Library::Plugin), (&file, name), variables, *values);
                command.args(before);
                Ok(command)
            }
        }
    }
}
