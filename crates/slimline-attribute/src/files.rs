//! How the core gets at files without doing I/O.

use std::sync::Arc;

/// The whole content of a file, shared and read-only (a memory map in the binary, a vector in tests).
pub type FileBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Answers "I need this file". Implemented by the binary over the file system and by tests over a map.
pub trait Files: Sync {
    /// The file at an absolute path, which is text as [`path_text`](slimline_trace::path_text) has it; `None` where there is none or it can't be read.
    fn open(&self, path: &str) -> Option<FileBytes>;
}
