//! Processes that an agent recorded in part, and slimline sampled from outside for the rest.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::SessionInfo;

/// Which part of a process was sampled from outside, with the directory of the process that its agent recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddsTo {
    /// All threads, after the agent gave up.
    Rest(String),
    /// One thread, which the agent did not see begin.
    Thread(String),
}

impl SessionInfo {
    /// Directories of the processes that were sampled from outside after their agents gave up.
    pub fn went_on_outside(&self) -> HashSet<&str> {
        let continued = self.processes.iter().filter_map(|process| match &process.adds_to {
            Some(AddsTo::Rest(directory)) => Some(directory.as_str()),
            Some(AddsTo::Thread(_)) | None => None,
        });
        continued.collect()
    }

    /// The number of processes, counting each once that an agent recorded in part. A process counts again after `exec`.
    pub fn process_count(&self) -> usize {
        self.processes.iter().filter(|process| process.adds_to.is_none()).count()
    }
}
