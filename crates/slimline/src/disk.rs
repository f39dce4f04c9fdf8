//! Files of the machine, for the attribution core.

#![allow(unsafe_code)] // memory maps: debug information is hundreds of megabytes of which a report needs a few

use std::fs::File;
use std::sync::Arc;

use memmap2::Mmap;
use slimline_attribute::files::{FileBytes, Files};

/// The file system as it is.
pub(crate) struct Disk;

impl Files for Disk {
    fn open(&self, path: &str) -> Option<FileBytes> {
        let file = File::open(path).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        // SAFETY: the map is read-only and private. Another process that truncates the file under it could end this one
        // with SIGBUS; executables and debug files in use are replaced by rename, not truncated, and nothing is written
        // here that a crash could damage.
        let map = unsafe { Mmap::map(&file) }.ok()?;
        Some(Arc::new(map))
    }
}
