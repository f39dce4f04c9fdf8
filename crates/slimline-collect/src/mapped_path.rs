//! Paths as the kernel tells them of what is mapped, as recordings have them.
//!
//! The kernel says two things of a path in a way that a file's own name may look like:
//!
//! - `/proc/<pid>/maps` writes a line break as `\012`, and a backslash as itself;
//! - what was unlinked has ` (deleted)` behind its path.
//!
//! So where either is there, files of all names that can be meant are looked at: the mapped one has its inode. In recordings
//! a path ends in ` (deleted)` only where the file is gone; of one that is there, and called so, the blank is written `\x20`
//! ([`path_text`](slimline_trace::path_text)).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use slimline_trace::path_text::{DELETED, text_of_bytes, text_of_existing};

/// A line break, as the kernel writes it.
const LINE_BREAK: &[u8] = br"\012";
/// Line breaks of a path, beyond which all are taken for such.
const MOST_LINE_BREAKS: u32 = 4;

/// The text of a path that the kernel told. `inode` is the mapped file's, 0 where it is not known; `pid` a process that sees
/// the file by that path, if it runs.
pub(crate) fn mapped_path(path: &[u8], inode: u64, pid: Option<u32>) -> String {
    let count = path.windows(LINE_BREAK.len()).filter(|window| *window == LINE_BREAK).count() as u32;
    let is_marked = path.ends_with(DELETED.as_bytes());
    if !path.starts_with(b"/") || count == 0 && !is_marked {
        return text_of_bytes(path).into_owned();
    }
    let all = if count <= MOST_LINE_BREAKS { (1_u32 << count) - 1 } else { u32::MAX };
    let choices = if count <= MOST_LINE_BREAKS { 0..=all } else { all..=all };
    let there = choices.map(|choice| with_line_breaks(path, choice)).find(|path| is_there(path, inode, pid));
    match there {
        Some(path) => text_of_existing(OsStr::from_bytes(&path)),
        None => text_of_bytes(&with_line_breaks(path, all)).into_owned(),
    }
}

/// What `/proc/<pid>/exe` leads to; empty where it can't be read.
pub(crate) fn executable_of(pid: u32) -> String {
    let link = format!("/proc/{pid}/exe");
    let Ok(path) = fs::read_link(&link) else { return String::new() };
    let inode = fs::metadata(&link).map_or(0, |found| found.ino());
    mapped_path(path.as_os_str().as_bytes(), inode, Some(pid))
}

/// The path with line breaks in the place of those sequences that have a bit in `choice`; from the 32nd on in the place of all.
fn with_line_breaks(path: &[u8], choice: u32) -> Vec<u8> {
    let mut made = Vec::with_capacity(path.len());
    let mut rest = path;
    let mut number = 0_u32;
    while let [first, behind @ ..] = rest {
        if rest.starts_with(LINE_BREAK) {
            let is_one = 1_u32.checked_shl(number).is_none_or(|bit| choice & bit != 0);
            number += 1;
            if is_one {
                made.push(b'\n');
                rest = &rest[LINE_BREAK.len()..];
                continue;
            }
        }
        made.push(*first);
        rest = behind;
    }
    made
}

/// Whether the file of that inode is at the path, as the process sees it or as we do.
fn is_there(path: &[u8], inode: u64, pid: Option<u32>) -> bool {
    let own = Path::new(OsStr::from_bytes(path));
    let seen = pid.map(|pid| {
        let mut seen = format!("/proc/{pid}/root").into_bytes();
        seen.extend(path);
        seen
    });
    let seen = seen.as_deref().map(|seen| Path::new(OsStr::from_bytes(seen)));
    [seen, Some(own)]
        .into_iter()
        .flatten()
        .filter_map(|path| fs::metadata(path).ok())
        .any(|found| inode == 0 || found.ino() == inode)
}

#[cfg(test)]
mod tests {
    use slimline_trace::path_text::path_of;

    use super::*;

    /// A file of that name, with the path that `/proc/<pid>/maps` would say, and its inode.
    fn file(directory: &Path, name: &[u8]) -> (Vec<u8>, u64) {
        let path = directory.join(OsStr::from_bytes(name));
        fs::write(&path, "").unwrap();
        let mut told = Vec::new();
        for &byte in path.as_os_str().as_bytes() {
            if byte == b'\n' { told.extend(LINE_BREAK) } else { told.push(byte) }
        }
        (told, fs::metadata(&path).unwrap().ino())
    }

    #[test]
    fn files_that_are_there_are_found_by_the_text() {
        let scratch = tempfile::tempdir().unwrap();
        let names: [&[u8]; 9] = [
            b"plain",
            b"caf\xe9",
            b"line\nbreak",
            br"line\012break",
            b"both\n\\012\n",
            b"tab\tand blank",
            br"back\slash\x41",
            b"not (deleted)",
            b"caf\xe9\n (deleted)",
        ];
        let made = names.map(|name| file(scratch.path(), name));
        for (name, (told, inode)) in names.iter().zip(&made) {
            let text = mapped_path(told, *inode, None);
            let path = scratch.path().join(OsStr::from_bytes(name));
            assert_eq!(path_of(&text), path, "{text}");
            assert!(!text.ends_with(DELETED), "{text}");
        }
        // Two of them are told alike.
        assert_eq!(made[2].0, made[3].0);
    }

    #[test]
    fn what_is_gone_stays_marked() {
        let scratch = tempfile::tempdir().unwrap();
        let (told, inode) = file(scratch.path(), b"gone\n");
        fs::remove_file(scratch.path().join("gone\n")).unwrap();
        let marked = [&told[..], DELETED.as_bytes()].concat();
        let text = format!("{}/gone\n (deleted)", scratch.path().display());
        assert_eq!(mapped_path(&marked, inode, None), text);
        // Another file has its name with the mark.
        let (_, other) = file(scratch.path(), b"gone\n (deleted)");
        assert_ne!(inode, 0);
        if other != inode {
            assert_eq!(mapped_path(&marked, inode, None), text);
        }
        for name in ["/memfd:x (deleted)", "/dev/zero (deleted)", "[heap]", "", "anon_inode:x"] {
            assert_eq!(mapped_path(name.as_bytes(), 5, None), name);
        }
    }

    #[test]
    fn our_own_program_is_told() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(path_of(&executable_of(std::process::id())), own);
        assert_eq!(executable_of(u32::MAX), "");
    }
}
