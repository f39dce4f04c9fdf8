//! What a process runs by now, and what can become of that: it has an agent, is sampled from outside, or neither.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::program::why_without_agent;
use crate::{RecordError, proc_text};

/// Verdicts kept at one time; a recording that sees more programs looks at some of them again.
const MOST_VERDICTS: usize = 4096;

/// Tells programs apart by their files, whatever these are called, here or in another container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Program {
    /// This file, as it was when its inode was last changed.
    File { device: u64, inode: u64, changed_s: i64, changed_ns: i64 },
    /// We may not look: it has more rights than we have, or asked for that.
    Hidden,
}

/// What can become of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The agent comes with it, or nothing is known.
    HasAgent,
    /// It can't have one.
    Without(String),
    /// It can't be recorded in any way.
    Unrecordable(String),
}

/// What was found out about programs so far.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(HashMap<Program, Verdict>);

impl Program {
    /// What `pid` runs now; `None` where it has ended.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        match executable(pid) {
            Ok(found) => Some(Self::File {
                device: found.dev(),
                inode: found.ino(),
                changed_s: found.ctime(),
                changed_ns: found.ctime_nsec(),
            }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Some(Self::Hidden),
            Err(_) => None,
        }
    }

    /// What it is called, as far as `pid`, which runs it, lets us see.
    pub(crate) fn name(self, pid: u32) -> PathBuf {
        let own_name = || proc_text::read(&format!("/proc/{pid}/comm")).map(|name| name.trim_end().into());
        let link = fs::read_link(format!("/proc/{pid}/exe"));
        link.or_else(|_| own_name()).unwrap_or_default()
    }
}

/// The file that `pid` runs. A process whose first thread has ended shows it at its other threads only.
fn executable(pid: u32) -> io::Result<Metadata> {
    let of_threads = |error: io::Error| {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.filter_map(|thread| fs::metadata(thread.path().join("exe")).ok()).next().ok_or(error)
    };
    fs::metadata(format!("/proc/{pid}/exe")).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => of_threads(error),
        _ => Err(error),
    })
}

impl Verdicts {
    /// On `program`, which `pid` runs.
    pub(crate) fn on(&mut self, program: Program, pid: u32) -> Verdict {
        if let Some(known) = self.0.get(&program) {
            return known.clone();
        }
        let found = match program {
            Program::File { .. } => why_without_agent(pid, &program.name(pid)),
            // Each of them has its own rights.
            Program::Hidden => return of_hidden(pid),
        };
        let verdict = match found {
            Ok(Some(why)) => Verdict::Without(why),
            Ok(None) => Verdict::HasAgent,
            Err(error @ (RecordError::ForeignArchitecture { .. } | RecordError::Privileged { .. })) => {
                Verdict::Unrecordable(error.to_string())
            }
            // It has ended meanwhile, or reading failed this time.
            Err(_) => return Verdict::HasAgent,
        };
        if self.0.len() >= MOST_VERDICTS {
            self.0.clear();
        }
        self.0.insert(program, verdict.clone());
        verdict
    }
}

/// A process that has an agent may have asked to be hidden (`PR_SET_DUMPABLE`); one that has other rights than we have has
/// none.
fn of_hidden(pid: u32) -> Verdict {
    let rights = |pid: &str| Rights::read(&proc_text::read(&format!("/proc/{pid}/status")).ok()?);
    match (rights(&pid.to_string()), rights("self")) {
        (Some(its), Some(ours))
            if its.user != ours.user || its.group != ours.group || its.permitted & !ours.permitted != 0 =>
        {
            Verdict::Unrecordable(format!(
                "it has other rights than slimline (user {}, group {}), as set-user-id, set-group-id or file capabilities \
                 give them: the system ignores preloaded libraries there, and lets nobody without them sample it",
                its.user, its.group
            ))
        }
        _ => Verdict::HasAgent,
    }
}

/// What a process may do, of its `/proc/<pid>/status`.
#[derive(Debug, PartialEq, Eq)]
struct Rights {
    user: u32,
    group: u32,
    permitted: u64,
}

impl Rights {
    /// `None` where it has ended.
    fn read(status: &str) -> Option<Self> {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        if field("State:")?.starts_with(['Z', 'X']) {
            return None;
        }
        // Real, effective, saved, and of files.
        let effective = |name| field(name)?.split_ascii_whitespace().nth(1)?.parse().ok();
        let permitted = u64::from_str_radix(field("CapPrm:")?, 16).ok()?;
        Some(Self { user: effective("Uid:")?, group: effective("Gid:")?, permitted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tsudo\nState:\tS (sleeping)\nUid:\t1000\t0\t0\t0\nGid:\t1000\t27\t27\t27\n\
                          CapInh:\t0000000000000000\nCapPrm:\t000001ffffffffff\n";

    #[test]
    fn rights_are_the_effective_ones_of_the_living() {
        assert_eq!(Rights::read(STATUS), Some(Rights { user: 0, group: 27, permitted: 0x1ff_ffff_ffff }));
        assert_eq!(Rights::read(&STATUS.replace("S (sleeping)", "Z (zombie)")), None);
        assert_eq!(Rights::read("Name:\tsudo\n"), None);
    }

    #[test]
    fn a_program_for_glibc_has_an_agent_and_one_that_is_gone_is_none() {
        let own = std::process::id();
        let program = Program::of(own).unwrap();
        let mut verdicts = Verdicts::default();
        assert_eq!(verdicts.on(program, own), Verdict::HasAgent);
        assert_eq!(program.name(own), std::env::current_exe().unwrap());
        assert_eq!(Program::of(u32::MAX), None);
        assert_eq!(verdicts.0.len(), 1);
    }

    /// Nothing is known of it, so it must be looked at again.
    #[test]
    fn what_could_not_be_read_is_no_verdict() {
        let own = std::process::id();
        let program = Program::of(own).unwrap();
        let mut verdicts = Verdicts::default();
        assert_eq!(verdicts.on(program, u32::MAX), Verdict::HasAgent);
        assert!(verdicts.0.is_empty());
    }

    #[test]
    fn verdicts_are_bounded() {
        let program = |inode| Program::File { device: 1, inode, changed_s: 0, changed_ns: 0 };
        let mut verdicts = Verdicts::default();
        for inode in 0..MOST_VERDICTS as u64 + 3 {
            verdicts.on(program(inode), std::process::id());
        }
        assert_eq!(verdicts.0.len(), 3);
    }

    /// What runs counts, not what has its name by now.
    #[test]
    fn a_program_that_was_replaced_is_another() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("program");
        let start = || {
            fs::copy("/bin/sleep", &path).unwrap();
            std::process::Command::new(&path).arg("1000").spawn().unwrap()
        };
        let mut first = start();
        fs::remove_file(&path).unwrap();
        let mut second = start();
        let found = [&first, &second].map(|child| Program::of(child.id()).unwrap());
        for child in [&mut first, &mut second] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_ne!(found[0], found[1]);
    }
}
