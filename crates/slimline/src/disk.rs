//! Files of the machine, for the attribution core.

#![allow(unsafe_code)] // memory maps: debug information is hundreds of megabytes of which a report needs a few

use std::sync::Arc;

use anyhow::ensure;
use memmap2::Mmap;
use slimline_attribute::files::{FileBytes, Files};
use slimline_collect::{missing_pages, survive_cut_files};
use slimline_trace::path_text::path_of;
use slimline_trace::regular_file::open_regular;

/// The file system as it is.
pub(crate) struct Disk;

impl Files for Disk {
    fn open(&self, path: &str) -> Option<FileBytes> {
        let file = open_regular(&path_of(path)).ok()?;
        survive_cut_files();
        // SAFETY: the map is read-only and private. Executables and debug files in use are replaced by rename, not written
        // over; what is cut off under us reads as zeros, which readers of foreign files survive, and `check_whole` tells.
        let map = unsafe { Mmap::map(&file) }.ok()?;
        Some(Arc::new(map))
    }
}

/// Whether all that was read of files was in them.
///
/// # Errors
/// One was cut off meanwhile: what was made of it is not to be shown.
pub(crate) fn check_whole() -> anyhow::Result<()> {
    ensure!(missing_pages() == 0, "a program or its debug file was cut off while it was read: try again");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_file_that_is_cut_off_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 16).unwrap();
        let mapped = Disk.open(file.path().to_str().unwrap()).unwrap();
        File::create(file.path()).unwrap();
        assert!((*mapped).as_ref().iter().all(|&byte| byte == 0));
        assert!(check_whole().is_err());
    }

    #[test]
    fn nothing_but_files_is_opened() {
        let scratch = tempfile::tempdir().unwrap();
        let pipe = scratch.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(Disk.open(pipe.to_str().unwrap()).is_none());
        assert!(Disk.open("/dev/zero").is_none());
    }
}
