//! What a process runs by now, and what can become of that: it has an agent, is sampled from outside, or neither.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, open};

use crate::program::why_without_agent;
use crate::{RecordError, proc_text};

/// Verdicts kept at one time; a recording that sees more programs looks at some of them again.
const MOST_VERDICTS: usize = 4096;

/// Tells programs apart by their files, whatever these are called, here or in another container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Program {
    /// This file with this content: nobody can write to it while it runs. It may get other names and rights, and stays what
    /// it is.
    File { device: u64, inode: u64, bytes: u64, modified_s: i64, modified_ns: i64 },
    /// We may not look: it has more rights than we have, or asked for that.
    Hidden,
}

/// What a process was found to run. Its file is held: what is said of it is true of this program, whatever the process has
/// become meanwhile.
#[derive(Debug)]
pub(crate) struct Running {
    pid: u32,
    program: Program,
    file: Option<File>,
    changed: InodeTime,
}

/// When a file got its rights, as all else of its inode: seconds and nanoseconds.
type InodeTime = (i64, i64);

/// What can become of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It can have one, or nothing is known.
    MayHaveAgent,
    /// It can't have one.
    Without(String),
    /// It can't be recorded in any way.
    Unrecordable(String),
}

/// What was found out about programs so far, with the rights that they had.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(HashMap<(Program, InodeTime), Verdict>);

impl Running {
    /// What `pid` runs now; `None` where it has ended, or can't be asked.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let file = match executable(pid) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Some(Self { pid, program: Program::Hidden, file: None, changed: InodeTime::default() });
            }
            Err(_) => return None,
        };
        let found = file.metadata().ok()?;
        let program = Program::File {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.len(),
            modified_s: found.mtime(),
            modified_ns: found.mtime_nsec(),
        };
        Some(Self { pid, program, file: Some(file), changed: (found.ctime(), found.ctime_nsec()) })
    }

    pub(crate) fn program(&self) -> Program {
        self.program
    }

    /// What it is called, as far as it lets us see.
    pub(crate) fn name(&self) -> PathBuf {
        let own_name = || proc_text::read(&format!("/proc/{}/comm", self.pid)).map(|name| name.trim_end().into());
        let link = self.link().map_or_else(|| Err(io::ErrorKind::PermissionDenied.into()), fs::read_link);
        link.or_else(|_| own_name()).unwrap_or_default()
    }

    /// A path that leads to the file itself, here and in any container.
    fn link(&self) -> Option<PathBuf> {
        self.file.as_ref().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()).into())
    }

    fn verdict(&self) -> Option<Verdict> {
        match why_without_agent(&self.link()?, &self.name()) {
            Ok(Some(why)) => Some(Verdict::Without(why)),
            Ok(None) => Some(Verdict::MayHaveAgent),
            Err(error @ (RecordError::ForeignArchitecture { .. } | RecordError::Privileged { .. })) => {
                Some(Verdict::Unrecordable(error.to_string()))
            }
            // Reading failed this time.
            Err(_) => None,
        }
    }
}

impl Program {
    /// What `pid` runs now; `None` where it has ended, or can't be asked.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Running::of(pid).map(|running| running.program)
    }
}

/// The file that `pid` runs, to ask about it. A process whose first thread has ended shows it at its other threads only.
fn executable(pid: u32) -> io::Result<File> {
    // It need not be readable.
    let held = |link: PathBuf| open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map(File::from);
    let of_threads = |error: io::Error| {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.filter_map(|thread| held(thread.path().join("exe")).ok()).next().ok_or(error)
    };
    held(format!("/proc/{pid}/exe").into()).map_err(io::Error::from).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => of_threads(error),
        _ => Err(error),
    })
}

impl Verdicts {
    /// On what a process runs.
    pub(crate) fn on(&mut self, running: &Running) -> Verdict {
        if running.program == Program::Hidden {
            // Each of them has its own rights.
            return of_hidden(running.pid);
        }
        let key = (running.program, running.changed);
        if let Some(known) = self.0.get(&key) {
            return known.clone();
        }
        let verdict = running.verdict();
        if let Some(verdict) = &verdict {
            self.keep(key, verdict.clone());
        }
        verdict.unwrap_or(Verdict::MayHaveAgent)
    }

    /// As if that had been found out.
    #[cfg(test)]
    pub(crate) fn plant(&mut self, running: &Running, verdict: Verdict) {
        self.keep((running.program, running.changed), verdict);
    }

    fn keep(&mut self, key: (Program, InodeTime), verdict: Verdict) {
        if self.0.len() >= MOST_VERDICTS {
            self.0.clear();
        }
        self.0.insert(key, verdict);
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
        _ => Verdict::MayHaveAgent,
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
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};

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
    fn a_program_for_glibc_may_have_an_agent_and_one_that_is_gone_is_none() {
        let running = Running::of(std::process::id()).unwrap();
        let mut verdicts = Verdicts::default();
        assert_eq!(verdicts.on(&running), Verdict::MayHaveAgent);
        assert_eq!(running.name(), std::env::current_exe().unwrap());
        assert!(Running::of(u32::MAX).is_none());
        assert_eq!(verdicts.0.len(), 1);
    }

    /// Nothing is known of it, so it must be looked at again.
    #[test]
    fn what_could_not_be_read_is_no_verdict() {
        let own = Running::of(std::process::id()).unwrap();
        // No program, as an answer that was cut off would be none.
        let file = File::open("/proc/self/status").unwrap();
        let mut verdicts = Verdicts::default();
        assert_eq!(verdicts.on(&Running { file: Some(file), ..own }), Verdict::MayHaveAgent);
        assert!(verdicts.0.is_empty());
    }

    /// A process goes on to another program between the look and the verdict, which is of the one that was seen.
    #[test]
    fn a_verdict_is_of_the_program_that_was_seen() {
        let scratch = tempfile::tempdir().unwrap();
        let source = scratch.path().join("static.c");
        fs::write(&source, "int main(void) { for (;;) __builtin_ia32_pause(); }").unwrap();
        let program = scratch.path().join("static");
        let compiled = Command::new("gcc").args(["-static", "-o"]).args([&program, &source]).status();
        if !compiled.is_ok_and(|status| status.success()) {
            return eprintln!("skipped: no gcc, or no static C library");
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", "read go; exec \"$0\""]).arg(&program).stdin(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let before = Running::of(child.id()).unwrap();
        drop(child.stdin.take());
        while Running::of(child.id()).unwrap().name() != program {
            std::thread::yield_now();
        }
        let after = Running::of(child.id()).unwrap();
        let mut verdicts = Verdicts::default();
        let (of_shell, of_static) = (verdicts.on(&before), verdicts.on(&after));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(of_shell, Verdict::MayHaveAgent);
        assert!(matches!(of_static, Verdict::Without(why) if why.contains("static is statically linked")));
    }

    #[test]
    fn verdicts_are_bounded() {
        let program = |inode| Program::File { device: 1, inode, bytes: 0, modified_s: 0, modified_ns: 0 };
        let mut verdicts = Verdicts::default();
        for inode in 0..MOST_VERDICTS as u64 + 3 {
            verdicts.keep((program(inode), (0, 0)), Verdict::MayHaveAgent);
        }
        assert_eq!(verdicts.0.len(), 3);
    }

    /// Its verdict is looked for anew: it may have got rights that those who start it from now on have.
    #[test]
    fn a_program_with_another_name_or_other_rights_is_the_same() {
        let scratch = tempfile::tempdir().unwrap();
        let [path, other] = ["program", "other"].map(|name| scratch.path().join(name));
        fs::copy("/bin/sleep", &path).unwrap();
        let mut child = Command::new(&path).arg("1000").spawn().unwrap();
        let before = Running::of(child.id()).unwrap();
        // Inodes have the time of the last tick.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::hard_link(&path, other).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let after = Running::of(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(before.program, after.program);
        assert_ne!(before.changed, after.changed);
    }

    /// What runs counts, not what has its name by now.
    #[test]
    fn a_program_that_was_replaced_is_another() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("program");
        let start = || {
            fs::copy("/bin/sleep", &path).unwrap();
            Command::new(&path).arg("1000").spawn().unwrap()
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
