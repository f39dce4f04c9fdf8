//! Files that other files name, opened without waiting for what only looks like one.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file for reading. A pipe, a device or a directory is not even opened, as that may wait for somebody or
/// do something.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] where it is none of these; else the system's.
pub fn open_regular(path: &Path) -> io::Result<File> {
    check_regular(&fs::metadata(path)?)?;
    // Something else may have taken its place since.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// The content of a regular file of at most `most_bytes`.
///
/// # Errors
/// As [`open_regular`]; [`ErrorKind::FileTooLarge`] where there is more.
pub fn read_regular(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let bytes = file.metadata()?.len();
    let mut content = Vec::new();
    if bytes <= most_bytes {
        content.reserve_exact(usize::try_from(bytes).unwrap_or(0));
        file.take(most_bytes.saturating_add(1)).read_to_end(&mut content)?;
    }
    // It may grow while it is read.
    if bytes > most_bytes || content.len() as u64 > most_bytes {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("larger than {} MiB", most_bytes >> 20)));
    }
    Ok(content)
}

fn check_regular(found: &fs::Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn nothing_but_files_is_opened() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name| scratch.path().join(name);
        fs::write(path("file"), "content").unwrap();
        symlink("file", path("link")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read_regular(&path(name), 7).unwrap(), b"content");
        }
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        symlink("/dev/zero", path("zeros")).unwrap();
        symlink("/dev/tty", path("terminal")).unwrap();
        for name in ["pipe", "zeros", "terminal", ""] {
            assert_eq!(open_regular(&path(name)).unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
        }
        assert_eq!(open_regular(&path("missing")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn what_is_too_large_is_not_read() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("sparse");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read_regular(&path, 1 << 20).unwrap_err().to_string(), "larger than 1 MiB");
        File::create(&path).unwrap().set_len(3).unwrap();
        assert_eq!(read_regular(&path, 3).unwrap(), [0; 3]);
        assert_eq!(read_regular(&path, 2).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}
