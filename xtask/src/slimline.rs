//! The program under test: a release build of `slimline`, and its sessions.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::compilers::Compilers;
use crate::measure::{started_by, timed};
use crate::{root, target_dir};

/// What these tasks read of `slimline report --format json`: the documented names, not the code that wrote them.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Report {
    pub(crate) session: Session,
    pub(crate) groups: Vec<Group>,
    pub(crate) coverage: Coverage,
}

/// What was run.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Session {
    pub(crate) samples: u64,
}

/// How much of the time is resolved, as shares of all.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Coverage {
    pub(crate) accesses: f64,
    pub(crate) objects: f64,
    pub(crate) structures: f64,
    pub(crate) fields: f64,
    pub(crate) missing: Vec<Missing>,
}

/// What these tasks read of `slimline trace --format json`.
#[derive(Debug, Deserialize)]
struct TraceReport {
    total: Counts,
}

#[derive(Debug, Deserialize)]
struct Counts {
    accesses: u64,
}

/// What is not resolved for one reason.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Missing {
    pub(crate) what: String,
    pub(crate) reason: String,
    pub(crate) share: f64,
}

/// A data structure of a report.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Group {
    pub(crate) allocated_at: Option<AllocatedAt>,
    /// As debug information spells it.
    #[serde(rename = "type")]
    pub(crate) type_name: Option<String>,
    /// Of the time.
    pub(crate) share: f64,
    pub(crate) loads: u64,
    pub(crate) stores: u64,
    pub(crate) fields: Vec<Field>,
}

impl Group {
    /// Whether its elements are of this structure.
    pub(crate) fn is_made_of(&self, structure: &str) -> bool {
        self.type_name.as_deref().is_some_and(|name| name.strip_prefix("struct ").unwrap_or(name) == structure)
    }
}

/// Where a group is allocated.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct AllocatedAt {
    /// Call path, innermost first, as `function file:line`.
    pub(crate) stack: Vec<String>,
}

/// A field of a group's element.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Field {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) name: String,
    /// Its part of the group's time.
    pub(crate) share: f64,
    /// Its part of the accesses seen in the bursts, as corrected for how fast code runs.
    pub(crate) access_share: f64,
}

/// The built binary.
pub(crate) struct Slimline {
    executable: PathBuf,
    sessions: PathBuf,
}

impl Slimline {
    /// Builds the release binary; sessions will go to `<target>/sessions`.
    pub(crate) fn build() -> Result<Self> {
        build(&["--package", "slimline"])?;
        let sessions = target_dir()?.join("sessions");
        std::fs::create_dir_all(&sessions).with_context(|| sessions.display().to_string())?;
        Ok(Self { executable: target_dir()?.join("release/slimline"), sessions })
    }

    /// Builds the binary in the dev profile, which the tests use.
    pub(crate) fn build_for_tests() -> Result<Self> {
        build_in("dev", &["--package", "slimline"])?;
        let sessions = target_dir()?.join("sessions");
        std::fs::create_dir_all(&sessions).with_context(|| sessions.display().to_string())?;
        Ok(Self { executable: target_dir()?.join("debug/slimline"), sessions })
    }

    /// A program that reads a trace and throws it away, as slimline itself never does.
    pub(crate) fn discarding(&self) -> Result<PathBuf> {
        build(&["--package", "slimline", "--example", "discard_trace"])?;
        Ok(self.executable.with_file_name("examples").join("discard_trace"))
    }

    /// Where the session of that name goes; that of another run of these tasks lies elsewhere.
    pub(crate) fn session(&self, name: &str) -> PathBuf {
        self.sessions.join(format!("{name}-{}", std::process::id()))
    }

    /// `slimline record` of `command` with these `options` beside the default settings, environment and working
    /// directory kept. Standard input must be given to the result again.
    pub(crate) fn record(&self, command: &Command, session: &Path, options: &[&str]) -> Command {
        let mut record = Command::new(&self.executable);
        record.arg("record").args(options).arg("-o").arg(session).arg("--");
        started_by(record, command)
    }

    /// `slimline trace` of a `command`, likewise; one that is instrumented where `options` don't say who traces it.
    pub(crate) fn trace(&self, command: &Command, options: &[&OsStr]) -> Command {
        self.traced_by("trace", command, options)
    }

    /// `slimline simulate --live`, likewise.
    pub(crate) fn simulate_live(&self, command: &Command, options: &[&OsStr]) -> Command {
        self.traced_by("simulate", command, &[&["--live".as_ref()], options].concat())
    }

    fn traced_by(&self, task: &str, command: &Command, options: &[&OsStr]) -> Command {
        let mut traced = Command::new(&self.executable);
        traced.arg(task).args(options).arg("--");
        started_by(traced, command)
    }

    /// What `slimline trace --format json` says of a trace on disk.
    pub(crate) fn replay<T: DeserializeOwned>(&self, trace: &Path) -> Result<T> {
        let mut command = Command::new(&self.executable);
        command.args(["trace", "--format", "json", "--replay"]).arg(trace);
        let (_, output) = timed(command)?;
        serde_json::from_slice(&output.stdout).context("what `slimline trace --format json` printed")
    }

    /// How many accesses a trace on disk has.
    pub(crate) fn traced_accesses(&self, trace: &Path) -> Result<u64> {
        Ok(self.replay::<TraceReport>(trace)?.total.accesses)
    }

    /// `slimline` with this task and nothing else yet.
    pub(crate) fn command(&self, task: &str) -> Command {
        let mut command = Command::new(&self.executable);
        command.arg(task);
        command
    }

    /// `slimline` with this task, of a trace on disk.
    pub(crate) fn analysis(&self, task: &str, trace: &Path, options: &[&str]) -> Command {
        let mut analysis = self.command(task);
        analysis.arg(trace).args(options);
        analysis
    }

    /// `slimline cc` and `slimline c++`, with the clang of [`Compilers::clang`].
    pub(crate) fn compilers(&self) -> Result<Compilers> {
        Compilers::instrumenting(&self.executable)
    }

    /// `slimline report --format json` of a session.
    pub(crate) fn report(&self, session: &Path) -> Result<Report> {
        let mut command = Command::new(&self.executable);
        command.arg("report").arg(session).args(["--format", "json"]);
        let (_, output) = timed(command)?;
        serde_json::from_slice(&output.stdout).context("what `slimline report --format json` printed")
    }
}

/// `cargo build --release` of something.
fn build(what: &[&str]) -> Result<()> {
    build_in("release", what)
}

fn build_in(profile: &str, what: &[&str]) -> Result<()> {
    let words = ["build", "--profile", profile];
    let status = Command::new("cargo").args(words).args(what).current_dir(root()).status().context("cargo build")?;
    if !status.success() {
        bail!("cargo build --profile {profile} {}: {status}", what.join(" "));
    }
    Ok(())
}
