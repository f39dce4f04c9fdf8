//! Keeps what was opened, so that everything read from it can be borrowed.

use typed_arena::Arena;

use crate::files::{FileBytes, Files};

/// Every file opened and every section decompressed for one session. Lives as long as what was read from it.
pub struct FileStore<'f> {
    files: &'f dyn Files,
    opened: Arena<FileBytes>,
    decompressed: Arena<Vec<u8>>,
}

impl<'f> FileStore<'f> {
    /// An empty store over `files`.
    pub fn new(files: &'f dyn Files) -> Self {
        Self { files, opened: Arena::new(), decompressed: Arena::new() }
    }

    /// The content of the file at an absolute path.
    pub fn open(&self, path: &str) -> Option<&[u8]> {
        let bytes = self.files.open(path)?;
        Some((**self.opened.alloc(bytes)).as_ref())
    }

    /// Keeps bytes that are in no file.
    pub fn keep(&self, bytes: Vec<u8>) -> &[u8] {
        self.decompressed.alloc(bytes)
    }
}
