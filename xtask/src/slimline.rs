//! The program under test: a release build of `slimline`, and its sessions.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::measure::timed;
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
    pub(crate) loads: u64,
    pub(crate) stores: u64,
    pub(crate) fields: Vec<Field>,
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
        let status = Command::new("cargo")
            .args(["build", "--release", "--package", "slimline"])
            .current_dir(root())
            .status()
            .context("cargo build --release")?;
        if !status.success() {
            bail!("cargo build --release --package slimline: {status}");
        }
        let sessions = target_dir()?.join("sessions");
        std::fs::create_dir_all(&sessions).with_context(|| sessions.display().to_string())?;
        Ok(Self { executable: target_dir()?.join("release/slimline"), sessions })
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
        record.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => record.env(name, value),
                None => record.env_remove(name),
            };
        }
        if let Some(directory) = command.get_current_dir() {
            record.current_dir(directory);
        }
        record
    }

    /// `slimline report --format json` of a session.
    pub(crate) fn report(&self, session: &Path) -> Result<Report> {
        let mut command = Command::new(&self.executable);
        command.arg("report").arg(session).args(["--format", "json"]);
        let (_, output) = timed(command)?;
        serde_json::from_slice(&output.stdout).context("what `slimline report --format json` printed")
    }
}
