//! Whether a process has the agent, or will have it. It comes with the environment that a program is started with, and who
//! starts one may give it another: `env -i`, `sudo`, launchers that preload a library of their own.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::proc_text;

/// The agent of a run, by what its processes have of it.
#[derive(Debug)]
pub(crate) struct LoadedAgent {
    /// Its file.
    path: PathBuf,
}

impl LoadedAgent {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Whether `pid` has neither the agent nor an environment that brings it. False where nothing is known.
    pub(crate) fn is_missing_in(&self, pid: u32) -> bool {
        let Some(begun) = environment_address(pid) else { return false };
        let is_missing = self.is_left_out(pid);
        // Of one and the same program: each has its environment at another place.
        is_missing == Some(true) && environment_address(pid) == Some(begun)
    }

    /// `None` where it can't be read.
    fn is_left_out(&self, pid: u32) -> Option<bool> {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        if self.is_named_in(&environment) {
            return Some(false);
        }
        // Programs write titles over their environment.
        let mappings = proc_text::read(&format!("/proc/{pid}/maps")).ok()?;
        Some(!mappings.is_empty() && !self.is_mapped_in(&mappings))
    }

    /// Whether the loader will load it, which takes the first variable of a name.
    fn is_named_in(&self, environment: &[u8]) -> bool {
        let variables = environment.split(|&byte| byte == 0);
        let preloaded = variables.filter_map(|variable| variable.strip_prefix(b"LD_PRELOAD=")).next();
        let mut libraries = preloaded.unwrap_or_default().split(|&byte| byte == b':' || byte == b' ');
        libraries.any(|library| Path::new(OsStr::from_bytes(library)) == self.path)
    }

    /// Wherever the process sees it.
    fn is_mapped_in(&self, mappings: &str) -> bool {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let paths = mappings.lines().filter_map(|line| line.split_once('/'));
        paths.map(|(_, path)| path.strip_suffix(" (deleted)").unwrap_or(path)).any(|path| path.ends_with(&*name))
    }
}

/// Where the environment of what `pid` runs lies; `None` as long as the kernel has not put it there, or does not tell.
fn environment_address(pid: u32) -> Option<u64> {
    address_in(&proc_text::read(&format!("/proc/{pid}/stat")).ok()?)
}

/// See proc_pid_stat(5), field 50.
fn address_in(stat: &str) -> Option<u64> {
    // The name is in parentheses and may hold any byte; behind it comes field 3.
    let (_, rest) = stat.rsplit_once(") ")?;
    let address = rest.split_ascii_whitespace().nth(50 - 3)?.parse().ok();
    address.filter(|&address| address != 0)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn agent() -> LoadedAgent {
        LoadedAgent::new("/opt/run/libagent.so".into())
    }

    #[test]
    fn the_first_variable_of_the_name_counts() {
        let agent = LoadedAgent::new("/run/libagent.so".into());
        for (environment, is_named) in [
            (&b""[..], false),
            (b"A=1\0LD_PRELOAD=/run/libagent.so\0", true),
            (b"LD_PRELOAD=/lib/other.so:/run/libagent.so", true),
            (b"LD_PRELOAD=/lib/other.so /run/libagent.so", true),
            (b"LD_PRELOAD=/lib/other.so\0LD_PRELOAD=/run/libagent.so\0", false),
            (b"XLD_PRELOAD=/run/libagent.so\0", false),
            (b"LD_PRELOAD=/run/libagent.so.1\0", false),
        ] {
            assert_eq!(agent.is_named_in(environment), is_named, "{}", String::from_utf8_lossy(environment));
        }
    }

    #[test]
    fn it_is_found_among_mappings_by_its_name() {
        let line = |path: &str| format!("7f00-7f10 r-xp 0 08:01 7                  {path}\n");
        for (path, is_mapped) in [
            ("/opt/run/libagent.so", true),
            ("/elsewhere/libagent.so (deleted)", true),
            ("/elsewhere/libagent.so.1", false),
            ("[heap]", false),
        ] {
            assert_eq!(agent().is_mapped_in(&(line("/bin/sh") + &line(path))), is_mapped, "{path}");
        }
    }

    #[test]
    fn an_address_of_zero_is_none() {
        let stat = |address: u64| {
            let before: Vec<String> = (4..50).map(|field| field.to_string()).collect();
            format!("7 (a) b) S {} {address} 51 0", before.join(" "))
        };
        assert_eq!((address_in(&stat(4096)), address_in(&stat(0))), (Some(4096), None));
        assert_eq!(address_in("7 (cut) S 1 2"), None);
    }

    #[test]
    fn programs_with_a_wiped_environment_have_none() {
        // The loader reads no library of this name, and says so.
        let path = agent().path;
        let start = |command: &mut Command| command.arg("1000").stderr(Stdio::null()).spawn().unwrap();
        let mut with = start(Command::new("/bin/sleep").env("LD_PRELOAD", &path));
        let mut without = start(Command::new("/bin/sleep").env_clear());
        // They have left our memory before they have an environment.
        while [&with, &without].iter().any(|child| environment_address(child.id()).is_none()) {
            std::thread::yield_now();
        }
        let found = [&with, &without].map(|child| agent().is_missing_in(child.id()));
        for child in [&mut with, &mut without] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(found, [false, true]);
        assert!(!agent().is_missing_in(with.id()), "nothing is known of what has ended");
    }
}
