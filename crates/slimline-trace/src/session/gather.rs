//! Sessions that lie in one directory, as those of the ranks of a parallel run, read as one.

use std::fs;
use std::path::{Path, PathBuf};

use super::{AddsTo, End, SessionError, SessionInfo, read_one_header};
use crate::place::OLD;

/// The sessions in the subdirectories of `directory`, by name; numbers in names count as numbers.
pub(super) fn sessions_in(directory: &Path) -> Result<Vec<(String, SessionInfo)>, SessionError> {
    let entries = fs::read_dir(directory).map_err(SessionError::io(directory))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !is_beside(name))
        .collect();
    names.sort_by_key(|name| {
        (name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned(), number_of(name), name.clone())
    });
    let mut sessions = Vec::new();
    for name in names {
        match read_one_header(&directory.join(&name)) {
            Ok(info) => sessions.push((name, info)),
            Err(SessionError::NotASession(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sessions)
}

/// Whether nothing but sessions, and what they set aside, is in `directory`.
pub(super) fn holds_sessions_only(directory: &Path) -> bool {
    let is_session = |path: PathBuf| matches!(read_one_header(&path), Ok(_) | Err(SessionError::Newer { .. }));
    let entries =
        fs::read_dir(directory).map(|entries| entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>());
    entries.is_ok_and(|paths| !paths.is_empty() && paths.into_iter().all(is_session))
}

/// A session of before, or one that is not in its place yet.
fn is_beside(name: &str) -> bool {
    name.ends_with(OLD) || name.ends_with(super::writer::NEW)
}

fn number_of(name: &str) -> u64 {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[name.len() - digits..].parse().unwrap_or(0)
}

/// One session of several: their processes, from the first's start to the last's end. How they were recorded is told as of
/// the first.
pub(super) fn merged(directory: &Path, sessions: Vec<(String, SessionInfo)>) -> Result<SessionInfo, SessionError> {
    let mut merged: Option<SessionInfo> = None;
    for (name, mut info) in sessions {
        for process in &mut info.processes {
            process.directory = format!("{name}/{}", process.directory);
            if let Some(AddsTo::Rest(directory) | AddsTo::Thread(directory)) = &mut process.adds_to {
                *directory = format!("{name}/{directory}");
            }
        }
        info.stopped_early = info.stopped_early.map(|why| format!("{name}: {why}"));
        merged = Some(match merged {
            None => info,
            Some(all) if all.collector.weight != info.collector.weight => {
                let reason = format!("its sessions weigh samples in different units; report {name} alone");
                return Err(SessionError::damaged(directory, reason));
            }
            Some(all) => join(all, info),
        });
    }
    merged.ok_or_else(|| SessionError::NotASession(directory.to_owned()))
}

fn join(mut all: SessionInfo, one: SessionInfo) -> SessionInfo {
    // Of another machine the monotonic clock tells nothing here.
    let end_of = |info: &SessionInfo| info.started_unix_ns.saturating_add(info.duration_ns());
    let start_unix_ns = all.started_unix_ns.min(one.started_unix_ns);
    let duration_ns = end_of(&all).max(end_of(&one)) - start_unix_ns;
    all.started_ns = all.started_ns.min(one.started_ns);
    all.started_unix_ns = start_unix_ns;
    all.ended_ns = all.started_ns.saturating_add(duration_ns);
    all.complete &= one.complete;
    // One that failed says more than all that did not; one that goes on, still more.
    let is_good = |end: Option<End>| matches!(end, Some(End::Exited { status: 0 }));
    if is_good(all.end) || one.end.is_none() {
        all.end = one.end;
    }
    all.stopped_early = match (all.stopped_early, one.stopped_early) {
        (Some(first), Some(second)) => Some(format!("{first}; {second}")),
        (first, second) => first.or(second),
    };
    all.processes.extend(one.processes);
    all
}
