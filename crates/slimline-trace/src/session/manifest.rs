//! The manifest of a part: which files belong to it, and what they must hold.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash64;

use super::{MOST_TEXT_BYTES, SessionError};
use crate::regular_file::{open_regular, read_regular};
use crate::tables::Table;

/// Bytes of a table's file: some hundred times what is written of a few seconds.
const MOST_TABLE_BYTES: u64 = 1 << 30;

/// Written last, by rename: a part exists if and only if its manifest does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Number of the part's first window.
    pub(super) first_window: u32,
    /// The part's files by the name of their table.
    pub(super) files: BTreeMap<String, FileEntry>,
}

/// What was written to one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FileEntry {
    rows: usize,
    bytes: u64,
    /// XXH64 with seed 0, in hex. Parquet does not protect its headers and footers, and the decoder trusts them.
    xxh64: String,
}

/// Path of the manifest of part `number`.
pub(super) fn manifest_path(process: &Path, number: u32) -> PathBuf {
    process.join(format!("part-{number:05}.json"))
}

/// Path of the file that holds table `name` of part `number`.
pub(super) fn table_path(process: &Path, name: &str, number: u32) -> PathBuf {
    process.join(format!("{name}-{number:05}.parquet"))
}

/// Writes `content` under a temporary name and renames it, so that a file with this name is always whole.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> Result<(), SessionError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let written = fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        // Room may be what is missing: give back what the attempt took. It stays where even that fails.
        let _ = fs::remove_file(&temporary);
        SessionError::Io { path: path.to_owned(), error }
    })
}

impl Manifest {
    /// Writes `table` as `name` into part `number` and enters it.
    pub(super) fn add<T: Table>(
        &mut self,
        process: &Path,
        number: u32,
        name: &str,
        table: &T,
    ) -> Result<(), SessionError> {
        let path = table_path(process, name, number);
        let content = table.to_parquet().map_err(|error| SessionError::damaged(&path, error))?;
        write_whole(&path, &content)?;
        let entry = FileEntry { rows: table.rows(), bytes: content.len() as u64, xxh64: checksum(&content) };
        self.files.insert(name.to_owned(), entry);
        Ok(())
    }

    /// Reads and checks the table `name` of part `number`.
    pub(super) fn table<T: Table>(&self, process: &Path, number: u32, name: &str) -> Result<T, SessionError> {
        let path = table_path(process, name, number);
        let entry = self.files.get(name).ok_or_else(|| SessionError::MissingFile(path.clone()))?;
        // The size before the content: a file that was not written by us may have any.
        let length = open_regular(&path).and_then(|file| file.metadata()).map(|found| found.len());
        let content = match length {
            Ok(found_bytes) if found_bytes != entry.bytes => {
                return Err(SessionError::Truncated { file: path, found_bytes, expected_bytes: entry.bytes });
            }
            Ok(_) => read_regular(&path, MOST_TABLE_BYTES),
            Err(error) => Err(error),
        };
        let content = content.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SessionError::MissingFile(path.clone()),
            _ => SessionError::Io { path: path.clone(), error },
        })?;
        if checksum(&content) != entry.xxh64 {
            return Err(SessionError::damaged(&path, "its checksum is wrong"));
        }
        T::from_parquet(Bytes::from(content), entry.rows).map_err(SessionError::table(&path))
    }

    /// Rows of the table `name`.
    pub(super) fn rows(&self, name: &str) -> usize {
        self.files.get(name).map_or(0, |entry| entry.rows)
    }

    /// The manifest of part `number`, where there is one.
    pub(super) fn read(process: &Path, number: u32) -> Result<Option<Self>, SessionError> {
        let path = manifest_path(process, number);
        let content = match read_regular(&path, MOST_TEXT_BYTES) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SessionError::Io { path, error }),
        };
        serde_json::from_slice(&content).map(Some).map_err(|error| SessionError::damaged(&path, error))
    }

    /// Makes part `number` exist.
    pub(super) fn commit(&self, process: &Path, number: u32) -> Result<(), SessionError> {
        let path = manifest_path(process, number);
        let content = serde_json::to_vec_pretty(self).map_err(|error| SessionError::damaged(&path, error))?;
        write_whole(&path, &content)
    }
}

fn checksum(content: &[u8]) -> String {
    format!("{:016x}", XxHash64::oneshot(0, content))
}
