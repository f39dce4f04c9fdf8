//! One case, alone and recorded: what it printed, how it ended, and the files that it left.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::Case;
use crate::measure::{CpuSeconds, after_name, read, timed};
use crate::slimline::Slimline;

/// Samples a second of recorded runs.
const FREQUENCY: &str = "1000";

/// Exit status of a program that the machine lacks something for; its last line says what, after [`SKIPPED`].
const SKIPPED_STATUS: i32 = 77;
const SKIPPED: &str = "skipped: ";

/// How slimline's own lines on standard error begin.
const OURS: &[u8] = b"slimline: ";

/// Wall time after which a run counts as hung: so many times that of the run alone, within these bounds.
const LIMIT_FACTOR: u32 = 20;
const LEAST_LIMIT: Duration = Duration::from_secs(60);
const MOST_LIMIT: Duration = Duration::from_secs(300);

/// How a case ended, alone against recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Equal,
    /// How many recorded runs were equal, and what differed in the first that was not.
    Different {
        equal: u32,
        first: String,
    },
    /// It can't be prepared, or two runs alone differ: which says nothing of slimline, but the case is wrong.
    Unfit(String),
    /// What the machine lacks.
    Skipped(String),
}

pub(super) struct Comparison {
    pub(super) verdict: Verdict,
    /// User and system time of a run alone.
    pub(super) cpu_seconds: f64,
    /// Processes and programs that the last recording knows.
    pub(super) processes: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Status(ExitStatus),
    /// It was killed after this time.
    Hung(Duration),
}

#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    end: End,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Hash of each file's content by its path in the working directory.
    files: BTreeMap<PathBuf, u64>,
}

/// Runs a case twice alone and `times` times recorded.
pub(super) fn compare(case: &Case, times: u32, slimline: &Slimline, work: &Path) -> Result<Comparison> {
    let runs = Runs::new(case, work)?;
    let not_run = |verdict| Comparison { verdict, cpu_seconds: 0.0, processes: 0 };
    if let Some(verdict) = runs.prepare()? {
        return Ok(not_run(verdict));
    }
    let started = Instant::now();
    let (alone, cpu_seconds) = runs.run(MOST_LIMIT, None)?;
    let limit = (started.elapsed() * LIMIT_FACTOR).clamp(LEAST_LIMIT, MOST_LIMIT);
    if let Some(why) = why_skipped(&alone) {
        return Ok(not_run(Verdict::Skipped(why)));
    }
    let (again, _) = runs.run(limit, None)?;
    if let Some(why) = difference(&alone, &again) {
        return Ok(not_run(Verdict::Unfit(format!("two runs alone differ: {why}"))));
    }
    let session = runs.directory.join("session");
    let (mut equal, mut first, mut processes) = (0, None, 0);
    for _ in 0..times {
        remove(&session)?;
        let (recorded, _) = runs.run(limit, Some((slimline, &session)))?;
        match difference(&alone, &recorded) {
            None => equal += 1,
            Some(what) => {
                first.get_or_insert(what);
            }
        }
        processes = processes_of(&session).unwrap_or(processes);
    }
    remove(&session)?;
    let verdict = first.map_or(Verdict::Equal, |first| Verdict::Different { equal, first });
    Ok(Comparison { verdict, cpu_seconds, processes })
}

/// The directories of one case.
struct Runs<'a> {
    case: &'a Case,
    directory: PathBuf,
}

impl<'a> Runs<'a> {
    fn new(case: &'a Case, work: &Path) -> Result<Self> {
        let directory = work.join(&case.name);
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        Ok(Self { case, directory })
    }

    /// Makes the directory that runs start with; a verdict if that is impossible.
    fn prepare(&self) -> Result<Option<Verdict>> {
        let prepared = self.directory.join("prepared");
        remove(&prepared)?;
        fs::create_dir_all(&prepared)?;
        let (outcome, _) = self.start(self.shell(&self.case.prepare, &prepared), &prepared, MOST_LIMIT)?;
        Ok(match (&outcome.end, why_skipped(&outcome)) {
            (_, Some(why)) => Some(Verdict::Skipped(why)),
            (End::Status(status), _) if status.success() => None,
            (end, _) => {
                eprintln!("{}: {}", self.case.name, String::from_utf8_lossy(&outcome.stderr));
                Some(Verdict::Unfit(format!("it can't be prepared: {}", spelled(end))))
            }
        })
    }

    /// A run in a fresh copy of the prepared directory, and its CPU seconds.
    fn run(&self, limit: Duration, recorder: Option<(&Slimline, &Path)>) -> Result<(Outcome, f64)> {
        let place = self.directory.join("run");
        remove(&place)?;
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(self.directory.join("prepared")).arg(&place);
        timed(copy)?;
        let command = self.shell(&self.case.command, &place);
        let command = match recorder {
            Some((slimline, session)) => slimline.record(&command, session, &["-F", FREQUENCY]),
            None => command,
        };
        let (mut outcome, cpu_seconds) = self.start(command, &place, limit)?;
        if recorder.is_some() {
            outcome.stderr = without_our_lines(&outcome.stderr);
        }
        outcome.files = hashes(&place)?;
        Ok((outcome, cpu_seconds))
    }

    /// The script in an environment that is the same in each run.
    fn shell(&self, script: &str, place: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).current_dir(place);
        command.env("PWD", place).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command.env("PYTHONHASHSEED", "0").env("PERL_HASH_SEED", "0").env("SOURCE_DATE_EPOCH", "1");
        command.env("PROGRAMS", crate::root().join("programs"));
        if self.case.is_isolated {
            command.env("HOME", place).env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin:/usr/games");
        }
        command
    }

    fn start(&self, mut command: Command, place: &Path, limit: Duration) -> Result<(Outcome, f64)> {
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| self.directory.join(name));
        // Files, not pipes: a process that runs on would keep a pipe open.
        command.stdin(Stdio::null()).stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
        let mut child = command.current_dir(place).process_group(0).spawn().context("/bin/sh")?;
        let (end, cpu_seconds) = ended(&mut child, limit)?;
        Ok((Outcome { end, stdout: fs::read(stdout)?, stderr: fs::read(stderr)?, files: BTreeMap::new() }, cpu_seconds))
    }
}

/// Waits for a process, and ends its group after `limit`.
fn ended(child: &mut Child, limit: Duration) -> Result<(End, f64)> {
    let started = Instant::now();
    let stat = PathBuf::from(format!("/proc/{}/stat", child.id()));
    let mut hung = false;
    loop {
        // A process that ended keeps its times until somebody waits for it.
        if after_name(&read(&stat)?)?.starts_with('Z') {
            break;
        }
        if !hung && started.elapsed() > limit {
            hung = true;
            let group = rustix::process::Pid::from_child(child);
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL)?;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let CpuSeconds { own, children } = CpuSeconds::of(child.id())?;
    let status = child.wait()?;
    Ok((if hung { End::Hung(limit) } else { End::Status(status) }, own + children))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context(path.display().to_string()),
        _ => Ok(()),
    }
}

fn why_skipped(outcome: &Outcome) -> Option<String> {
    let End::Status(status) = &outcome.end else { return None };
    let text = String::from_utf8_lossy(&outcome.stdout);
    let why = text.lines().last()?.strip_prefix(SKIPPED)?;
    (status.code() == Some(SKIPPED_STATUS)).then(|| why.to_owned())
}

/// What the program printed on standard error, which slimline prints its own lines on.
fn without_our_lines(stderr: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(stderr.len());
    for line in stderr.split_inclusive(|byte| *byte == b'\n') {
        // Our first line goes on where the program left its last one without a line break.
        let ours = line.windows(OURS.len()).position(|window| window == OURS);
        kept.extend_from_slice(&line[..ours.unwrap_or(line.len())]);
    }
    kept
}

/// Hashes of all files below a directory; links and sockets count by their name alone.
fn hashes(directory: &Path) -> Result<BTreeMap<PathBuf, u64>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in next.read_dir().with_context(|| next.display().to_string())? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let mut hasher = DefaultHasher::new();
            if kind.is_dir() {
                pending.push(path.clone());
            } else if kind.is_file() {
                fs::read(&path).with_context(|| path.display().to_string())?.hash(&mut hasher);
            }
            found.insert(path.strip_prefix(directory)?.to_owned(), hasher.finish());
        }
    }
    Ok(found)
}

/// What differs between two runs, in words.
fn difference(expected: &Outcome, found: &Outcome) -> Option<String> {
    if expected.end != found.end {
        return Some(format!("{}, not {}", spelled(&found.end), spelled(&expected.end)));
    }
    for (what, expected, found) in
        [("stdout", &expected.stdout, &found.stdout), ("stderr", &expected.stderr, &found.stderr)]
    {
        if expected != found {
            return Some(format!("{what}: {}", first_difference(expected, found)));
        }
    }
    let names = expected.files.keys().chain(found.files.keys());
    let differs = |name: &&PathBuf| expected.files.get(*name) != found.files.get(*name);
    names.filter(differs).min().map(|name| format!("file {}", name.display()))
}

fn spelled(end: &End) -> String {
    match end {
        End::Hung(limit) => format!("hung for {} s", limit.as_secs()),
        End::Status(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit status {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        },
    }
}

/// The first line that differs, as it should be and as it is.
fn first_difference(expected: &[u8], found: &[u8]) -> String {
    let shown = |line: Option<&[u8]>| {
        line.map_or("nothing".to_owned(), |line| format!("`{:.80}`", String::from_utf8_lossy(line)).replace('|', "¦"))
    };
    let (mut expected, mut found) = (expected.split(|byte| *byte == b'\n'), found.split(|byte| *byte == b'\n'));
    loop {
        match (expected.next(), found.next()) {
            (None, None) => return "equal lines".to_owned(),
            (wanted, got) if wanted != got => return format!("{}, not {}", shown(got), shown(wanted)),
            _ => {}
        }
    }
}

#[derive(Deserialize)]
struct Session {
    processes: Vec<serde::de::IgnoredAny>,
}

/// How many processes a recording has; none if there is no complete one.
fn processes_of(session: &Path) -> Option<usize> {
    let text = fs::read_to_string(session.join("session.json")).ok()?;
    Some(serde_json::from_str::<Session>(&text).ok()?.processes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: i32, stdout: &str, files: &[(&str, u64)]) -> Outcome {
        Outcome {
            end: End::Status(ExitStatus::from_raw(status)),
            stdout: stdout.into(),
            stderr: Vec::new(),
            files: files.iter().map(|(name, hash)| (PathBuf::from(name), *hash)).collect(),
        }
    }

    #[test]
    fn each_kind_of_difference_is_found_and_named() {
        let expected = outcome(0, "a\nb\n", &[("x", 1), ("y", 2)]);
        let said = |found| difference(&expected, &found);
        assert_eq!(said(outcome(0, "a\nb\n", &[("x", 1), ("y", 2)])), None);
        assert_eq!(said(outcome(11, "a\nb\n", &[])).unwrap(), "signal 11, not exit status 0");
        assert_eq!(said(outcome(256, "a\nb\n", &[])).unwrap(), "exit status 1, not exit status 0");
        assert_eq!(said(outcome(0, "a\nc\n", &[])).unwrap(), "stdout: `c`, not `b`");
        assert_eq!(said(outcome(0, "a\nb\n", &[("x", 1), ("y", 3)])).unwrap(), "file y");
        assert_eq!(said(outcome(0, "a\nb\n", &[("x", 1), ("y", 2), ("z", 0)])).unwrap(), "file z");
        assert_eq!(spelled(&End::Hung(Duration::from_secs(9))), "hung for 9 s");
    }

    #[test]
    fn our_lines_are_left_out_wherever_they_begin() {
        assert_eq!(without_our_lines(b"one\nslimline: x: 5 samples\ntwo\n"), b"one\ntwo\n");
        assert_eq!(without_our_lines(b"no line breakslimline: x: 5 samples\n"), b"no line break");
    }

    #[test]
    fn only_the_status_and_the_line_together_skip() {
        let said = "work\nskipped: keys (none)\n";
        assert_eq!(why_skipped(&outcome(77 << 8, said, &[])).unwrap(), "keys (none)");
        assert_eq!(why_skipped(&outcome(0, said, &[])), None);
        assert_eq!(why_skipped(&outcome(77 << 8, "work\n", &[])), None);
    }

    #[test]
    fn what_runs_too_long_is_ended() {
        let mut child = Command::new("sleep").arg("100").process_group(0).spawn().unwrap();
        assert_eq!(ended(&mut child, Duration::from_millis(20)).unwrap().0, End::Hung(Duration::from_millis(20)));
    }

    #[test]
    fn files_are_known_by_their_content() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("d")).unwrap();
        fs::write(directory.path().join("d/a"), "1").unwrap();
        fs::write(directory.path().join("b"), "2").unwrap();
        let found = hashes(directory.path()).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), [Path::new("b"), Path::new("d"), Path::new("d/a")]);
        assert_ne!(found[Path::new("b")], found[Path::new("d/a")]);
    }
}
