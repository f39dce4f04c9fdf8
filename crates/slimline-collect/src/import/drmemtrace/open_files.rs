//! Many files that are read by turns, of which a few are open at a time.
//!
//! A trace of some thousand threads has as many files, and all of them are read side by side. A process may have 1024 descriptors by
//! default, and whoever started it knows why: so that limit is not raised, but files are closed and opened anew where they were left.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;

/// Files that are open at a time.
const MOST_OPEN: usize = 64;

/// Files of which the one that was read longest ago is closed for the next one.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenFiles {
    /// The one that was read last is the last.
    open: Rc<RefCell<Vec<OpenFile>>>,
}

#[derive(Debug)]
struct OpenFile {
    path: Rc<Path>,
    file: File,
}

impl OpenFiles {
    /// All bytes of a file, which is opened when the first are read.
    pub(super) fn whole(&self, path: &Path) -> Bytes {
        Bytes { files: self.clone(), path: path.into(), at: 0, left: u64::MAX }
    }

    fn read_at(&self, path: &Rc<Path>, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let mut open = self.open.borrow_mut();
        match open.iter().rposition(|open| open.path == *path) {
            Some(place) => open[place..].rotate_left(1),
            None => {
                if open.len() == MOST_OPEN {
                    open.remove(0);
                }
                open.push(OpenFile { path: Rc::clone(path), file: File::open(path)? });
            }
        }
        let last = open.last().expect("it was put there, if it was not");
        last.file.read_at(buffer, at)
    }
}

/// Bytes of a file that others may read as well.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    files: OpenFiles,
    path: Rc<Path>,
    at: u64,
    left: u64,
}

impl Bytes {
    /// So many bytes of the same file.
    pub(super) fn part(&self, at: u64, bytes: u64) -> Self {
        Self { at, left: bytes, ..self.clone() }
    }
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let bytes = self.files.read_at(&self.path, &mut buffer[..most], self.at)?;
        self.at += bytes as u64;
        self.left -= bytes as u64;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_closed_go_on_where_they_were_left() {
        let directory = tempfile::tempdir().unwrap();
        let files = OpenFiles::default();
        let mut all: Vec<Bytes> = (0..2 * MOST_OPEN as u8)
            .map(|number| {
                let path = directory.path().join(number.to_string());
                std::fs::write(&path, [number, number + 1, number + 2]).unwrap();
                files.whole(&path)
            })
            .collect();
        for round in 0..3_u8 {
            for (number, bytes) in (0..).zip(&mut all) {
                let mut byte = [0];
                bytes.read_exact(&mut byte).unwrap();
                assert_eq!(byte, [number + round]);
            }
            assert_eq!(files.open.borrow().len(), MOST_OPEN);
        }
        // The last ones are open, and what is read again stays so.
        let mut part = all[MOST_OPEN].part(1, 1);
        let mut rest = Vec::new();
        part.read_to_end(&mut rest).unwrap();
        let open = files.open.borrow();
        assert_eq!((rest, &open.last().unwrap().path), (vec![MOST_OPEN as u8 + 1], &all[MOST_OPEN].path));
    }
}
