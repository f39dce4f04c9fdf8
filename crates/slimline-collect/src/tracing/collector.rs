//! Who makes a program's records.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use slimline_trace::wire::ALLOCATORS_FILE;

use super::qemu::Qemu;
use crate::allocators::{AllocatorCall, Allocators};
use crate::program;

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

    /// What starts a program, which sees `name` as its own and has `variables` in its environment; the translator's plugin, and what
    /// that reads, is put into `directory`, where rings are.
    pub(super) fn command(
        &self,
        directory: &Path,
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
                fs::write(directory.join(ALLOCATORS_FILE), Allocators::new(allocators).file())?;
                let (file, before) = program::as_started(program)?;
                let name = if before.is_empty() { name } else { file.as_os_str() };
                let mut command = qemu.command(directory, (&file, name), variables, *values)?;
                command.args(before);
                Ok(command)
            }
        }
    }
}
