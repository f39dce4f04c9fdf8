//! Whether a process has the agent, or will have it. It comes with the environment that a program is started with, and who
//! starts one may give it another: `env -i`, `sudo`, launchers that preload a library of their own.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::{proc_stat, proc_text};

/// The agent of a run, by what its processes have of it.
#[derive(Debug)]
pub(crate) struct LoadedAgent {
    /// Its file.
    path: PathBuf,
}

/// What a process has of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It is there, in the program whose environment lies at this address.
    Loaded { begun: u64 },
    /// It isn't and won't be: why, behind the program's name.
    Missing(&'static str),
    /// The program is still being loaded, or lets nobody look.
    Unknown,
}

impl LoadedAgent {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// What `pid` has of it.
    pub(crate) fn presence_in(&self, pid: u32) -> Presence {
        let Some(begun) = environment_address(pid) else { return Presence::Unknown };
        let found = self.found_in(pid, begun);
        // Of one and the same program.
        if environment_address(pid) == Some(begun) { found.unwrap_or(Presence::Unknown) } else { Presence::Unknown }
    }

    /// `None` where it can't be read.
    fn found_in(&self, pid: u32, begun: u64) -> Option<Presence> {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mappings = proc_text::read(&format!("/proc/{pid}/maps")).ok()?;
        Some(self.found(&environment, &mappings, begun))
    }

    /// What is mapped decides, as programs write titles over their environment, and the path may lead elsewhere from where
    /// they are. It is the first that the loader loads.
    fn found(&self, environment: &[u8], mappings: &str, begun: u64) -> Presence {
        if self.is_mapped_in(mappings) {
            Presence::Loaded { begun }
        } else if mappings.is_empty() {
            Presence::Unknown
        } else if !self.is_named_in(environment) {
            Presence::Missing("was started without the agent in LD_PRELOAD")
        } else if is_c_library_mapped_in(mappings) {
            Presence::Missing(
                "could not load the agent, as where it runs LD_PRELOAD's path leads to no library that it may read",
            )
        } else {
            Presence::Unknown
        }
    }

    /// Whether the loader is told to load it; it takes the first variable of a name.
    fn is_named_in(&self, environment: &[u8]) -> bool {
        let variables = environment.split(|&byte| byte == 0);
        let preloaded = variables.filter_map(|variable| variable.strip_prefix(b"LD_PRELOAD=")).next();
        let mut libraries = preloaded.unwrap_or_default().split(|&byte| byte == b':' || byte == b' ');
        libraries.any(|library| Path::new(OsStr::from_bytes(library)) == self.path)
    }

    /// Wherever the process sees it.
    fn is_mapped_in(&self, mappings: &str) -> bool {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        names_in(mappings).any(|mapped| mapped == name)
    }
}

/// Whether the loader is through with the libraries to preload: those that the program needs come next.
fn is_c_library_mapped_in(mappings: &str) -> bool {
    names_in(mappings).any(|name| name.starts_with("libc.so") || name.starts_with("libc-"))
}

/// Names of the mapped files, without their directories.
fn names_in(mappings: &str) -> impl Iterator<Item = &str> {
    let paths = mappings.lines().filter_map(|line| line.split_once('/'));
    let whole = paths.map(|(_, path)| path.strip_suffix(" (deleted)").unwrap_or(path));
    whole.map(|path| path.rsplit('/').next().unwrap_or(path))
}

/// Where the environment of what `pid` runs lies, which each program has at another place; `None` as long as the kernel has
/// not put it there, or does not tell.
pub(crate) fn environment_address(pid: u32) -> Option<u64> {
    address_in(&proc_stat::line_of(pid)?)
}

fn address_in(line: &str) -> Option<u64> {
    const ENVIRONMENT_START: usize = 50;
    proc_stat::number(line, ENVIRONMENT_START).filter(|&address| address != 0)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A library that any program can have preloaded: the C library, which these tests use.
    pub(crate) fn some_library() -> PathBuf {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
        let libraries = paths.filter(|path| path.contains("/libgcc_s.so") || path.contains("/libm.so"));
        libraries.map(PathBuf::from).next().expect("what Rust's standard library needs")
    }

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
    fn what_is_mapped_decides_once_the_loader_is_through() {
        let line = |path: &str| format!("7f00-7f10 r-xp 0 08:01 7                  {path}\n");
        let begun = line("/bin/sh") + &line("/lib64/ld-linux-x86-64.so.2");
        let through = begun.clone() + &line("/lib/x86_64-linux-gnu/libc.so.6");
        let with = begun.clone() + &line("/opt/run/libagent.so");
        let named = b"LD_PRELOAD=/opt/run/libagent.so\0";
        let found = |environment: &[u8], mappings: &str| agent().found(environment, mappings, 7);
        assert_eq!([found(named, &with), found(b"a title", &with)], [Presence::Loaded { begun: 7 }; 2]);
        assert_eq!([found(named, &begun), found(named, ""), found(b"", "")], [Presence::Unknown; 3]);
        assert!(matches!(found(b"A=1\0", &begun), Presence::Missing(why) if why.contains("without")));
        assert!(matches!(found(named, &through), Presence::Missing(why) if why.contains("could not load")));
    }

    #[test]
    fn programs_with_a_wiped_environment_or_another_path_have_none() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("libagent.so");
        fs::copy(some_library(), &path).unwrap();
        let agent = LoadedAgent::new(path.clone());
        let missing = LoadedAgent::new("/not/there/libagent.so".into());
        let start = |command: &mut Command| command.arg("1000").stderr(Stdio::null()).spawn().unwrap();
        let mut with = start(Command::new("/bin/sleep").env("LD_PRELOAD", &path));
        let mut without = start(Command::new("/bin/sleep").env_clear());
        // The loader finds no library there, and says so.
        let mut elsewhere = start(Command::new("/bin/sleep").env("LD_PRELOAD", &missing.path));
        let judge = |agent: &LoadedAgent, child: &Child| loop {
            match agent.presence_in(child.id()) {
                Presence::Unknown => std::thread::yield_now(),
                found => return found,
            }
        };
        let found = [judge(&agent, &with), judge(&agent, &without), judge(&missing, &elsewhere)];
        let begun = environment_address(with.id()).unwrap();
        for child in [&mut with, &mut without, &mut elsewhere] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(found[0], Presence::Loaded { begun });
        assert!(matches!(found[1], Presence::Missing(why) if why.contains("without")));
        assert!(matches!(found[2], Presence::Missing(why) if why.contains("could not load")));
        assert_eq!(agent.presence_in(with.id()), Presence::Unknown, "of what has ended");
    }
}
