//! Who makes a program's records.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::qemu::Qemu;

/// How records are made.
#[derive(Clone, Debug, Default)]
pub enum TraceCollector {
    /// By the program itself, which was compiled for it.
    #[default]
    Instrumented,
    /// By a translator, of any program.
    Translated(Qemu),
}

impl TraceCollector {
    /// Whether code is found while it runs.
    pub(super) fn translates(&self) -> bool {
        matches!(self, Self::Translated(_))
    }

    /// What starts a program, which sees `name` as its own; the translator's plugin is put into `directory`, where rings are.
    pub(super) fn command(&self, directory: &Path, program: &Path, name: &OsStr) -> io::Result<Command> {
        match self {
            Self::Instrumented => {
                let mut command = Command::new(program);
                command.arg0(name);
                Ok(command)
            }
            Self::Translated(qemu) => qemu.command(directory, program, name),
        }
    }
}
