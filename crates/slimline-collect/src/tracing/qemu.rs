//! QEMU's user mode, which runs a program as it is and tells our plugin of its accesses.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use slimline_trace::stream::ring::{DIRECTORY_VARIABLE, VALUES_VARIABLE};

use crate::RecordError;
use crate::program;

/// Its program's name.
const PROGRAM: &str = "qemu-x86_64";

/// A QEMU that loads plugins.
#[derive(Clone, Debug)]
pub struct Qemu(PathBuf);

/// Why there is none. Each displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum QemuError {
    /// It is not there.
    #[error(
        "no {PROGRAM} in PATH, which translates programs: apt-get install qemu-user (Debian 12), or name one with --qemu"
    )]
    Missing,
    /// It can't be run; the reason names its file.
    #[error(transparent)]
    Unusable(RecordError),
    /// It was built without.
    #[error(
        "{}: was built without plugins, as Debian's are since version 13: name another one with --qemu (of Debian 12, or of \
         QEMU's source by ./configure --target-list=x86_64-linux-user --enable-plugins)", .0.display()
    )]
    WithoutPlugins(PathBuf),
}

impl Qemu {
    /// The one at `path`, else the first in PATH.
    ///
    /// # Errors
    /// There is none that loads plugins.
    pub fn find(path: Option<&Path>) -> Result<Self, QemuError> {
        let named = path.map_or(OsStr::new(PROGRAM), Path::as_os_str);
        let path = match program::find(named) {
            Ok(found) => found,
            Err(RecordError::NotFound { .. }) if path.is_none() => return Err(QemuError::Missing),
            Err(error) => return Err(QemuError::Unusable(error)),
        };
        let help = Command::new(&path)
            .arg("-h")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| QemuError::Unusable(RecordError::Spawn { program: path.clone(), error }))?;
        let lists = |text: &[u8]| text.windows(b"-plugin".len()).any(|window| window == b"-plugin");
        if lists(&help.stdout) || lists(&help.stderr) { Ok(Self(path)) } else { Err(QemuError::WithoutPlugins(path)) }
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What runs a program under it, with the plugin. `name` is what the program sees as its own, and
    /// `variables` are in its environment alone; values are told if they are wanted.
    pub(super) fn command(
        &self,
        plugin: &Path,
        (program, name): (&Path, &OsStr),
        variables: &[(&str, OsString)],
        with_values: bool,
    ) -> Command {
        let mut command = Command::new(&self.0);
        // All that it can translate: programs for newer processors die of SIGILL else. What the plugin is told is not for the program.
        command.args(["-cpu", "max", "-U", DIRECTORY_VARIABLE, "-U", VALUES_VARIABLE, "-plugin"]).arg(plugin);
        match with_values {
            true => command.env(VALUES_VARIABLE, "1"),
            false => command.env_remove(VALUES_VARIABLE),
        };
        for (variable, value) in variables {
            let mut set = OsString::from(format!("{variable}="));
            set.push(value);
            command.arg("-E").arg(set);
        }
        command.arg("-0").arg(name).arg(program);
        command
    }
}

/// The file of the program that a process of QEMU's runs, as [`Qemu::command`] starts one, and the plugin what that goes on as.
pub(super) fn program_that_runs(pid: u32) -> Option<PathBuf> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    // Behind `-0` is its name, then the file.
    let program = words.split(|&byte| byte == 0).skip_while(|word| *word != b"-0").nth(2)?;
    let directory = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    fs::canonicalize(directory.join(OsStr::from_bytes(program))).ok()
}
