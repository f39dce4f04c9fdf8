//! From snapshots of `/proc/self/maps` to mappings with the time they were seen.

use std::collections::HashMap;
use std::str;

use slimline_trace::address::{Avma, FileOffset};
use slimline_trace::tables::{Mapping, Mappings};

use crate::mapped_path::mapped_path;
use crate::message::{Damaged, MapsMessage};

/// Longest snapshot: about 300,000 lines. The kernel allows 65,530 mappings by default.
const MAX_TEXT_BYTES: usize = 32 << 20;

/// All distinct lines seen so far.
#[derive(Debug, Default)]
pub(crate) struct MappingHistory {
    /// Whose they are, if it is a process of ours.
    pid: Option<u32>,
    rows: HashMap<Line, usize>,
    /// In the order in which they were first seen.
    pub(crate) mappings: Mappings,
    partial: Option<Partial>,
}

/// What makes two lines the same mapping.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Line {
    start: u64,
    end: u64,
    offset: u64,
    permissions: String,
    path: String,
}

/// A snapshot whose last part has not come yet.
#[derive(Debug)]
struct Partial {
    time_ns: u64,
    next_part: u32,
    text: Vec<u8>,
}

impl MappingHistory {
    /// Of a process, where its number is known here.
    pub(crate) fn new(pid: Option<u32>) -> Self {
        Self { pid, ..Self::default() }
    }

    /// Takes the next part of a snapshot. A snapshot of which a part was dropped is left out as a whole.
    pub(crate) fn push(&mut self, message: MapsMessage<'_>) -> Result<(), Damaged> {
        if message.part == 0 {
            self.partial = Some(Partial { time_ns: message.time_ns, next_part: 0, text: Vec::new() });
        }
        let Some(mut partial) = self.partial.take() else { return Err(Damaged) };
        if partial.time_ns != message.time_ns
            || partial.next_part != message.part
            || partial.text.len() > MAX_TEXT_BYTES
        {
            return Err(Damaged);
        }
        message.append_text(&mut partial.text);
        partial.next_part += 1;
        if !message.last {
            self.partial = Some(partial);
            return Ok(());
        }
        self.add_snapshot(partial.time_ns, &partial.text);
        Ok(())
    }

    /// The first executable file mapped: the program, in a snapshot of a fresh process.
    pub(crate) fn executable(&self) -> Option<&str> {
        self.mappings.path.iter().find(|path| path.starts_with('/')).map(String::as_str)
    }

    pub(crate) fn add_snapshot(&mut self, time_ns: u64, text: &[u8]) {
        let pid = self.pid;
        for mapping in text.split(|&byte| byte == b'\n').filter_map(|line| parse_line(line, time_ns, pid)) {
            let line = Line {
                start: mapping.start.0,
                end: mapping.end.0,
                offset: mapping.file_offset.0,
                permissions: mapping.permissions.clone(),
                path: mapping.path.clone(),
            };
            let next = self.mappings.len();
            let row = *self.rows.entry(line).or_insert(next);
            if row == next {
                self.mappings.push(mapping);
            } else {
                let last = &mut self.mappings.last_seen_ns[row];
                *last = (*last).max(time_ns);
            }
        }
    }
}

/// `start-end perms offset device inode   path`; `None` for a line that is not of this form. Its process is `pid`, where it runs.
pub(crate) fn parse_line(line: &[u8], time_ns: u64, pid: Option<u32>) -> Option<Mapping> {
    const FIELDS: usize = 5;
    let blanks = line.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at);
    let (fields, path) = line.split_at(blanks.take(FIELDS).nth(FIELDS - 1).unwrap_or(line.len()));
    let path = path.trim_ascii_start();
    let (range, rest) = str::from_utf8(fields).ok()?.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let (permissions, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let (device, inode) = rest.split_once(' ')?;
    let inode = inode.parse().ok()?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    (start < end).then_some(Mapping {
        start: Avma(start),
        end: Avma(end),
        file_offset: FileOffset(hex(offset)?),
        permissions: permissions.to_owned(),
        device: device.to_owned(),
        inode,
        path: mapped_path(path, inode, pid),
        first_seen_ns: time_ns,
        last_seen_ns: time_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNAPSHOT: &str = "\
5581a0b4c000-5581a0b50000 r-xp 00002000 fe:00 1835046                    /usr/bin/my program (deleted)
7f0e2c000000-7f0e2c021000 rw-p 00000000 00:00 0\u{20}
7ffc11111000-7ffc11132000 rw-p 00000000 00:00 0                          [stack]
nonsense
1000-0fff r--p 00000000 00:00 0
";

    #[test]
    fn reads_lines_as_the_kernel_writes_them() {
        let mut history = MappingHistory::default();
        history.add_snapshot(7, SNAPSHOT.as_bytes());
        let found: Vec<_> = history.mappings.iter().collect();
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].path, "/usr/bin/my program (deleted)");
        assert_eq!((found[0].start, found[0].file_offset), (Avma(0x5581_a0b4_c000), FileOffset(0x2000)));
        assert_eq!((found[0].device.as_str(), found[0].inode), ("fe:00", 1_835_046));
        assert_eq!((found[1].path.as_str(), found[1].permissions.as_str()), ("", "rw-p"));
        assert_eq!(found[2].path, "[stack]");
        assert_eq!(history.executable(), Some("/usr/bin/my program (deleted)"));
    }

    #[test]
    fn a_line_seen_again_gets_no_second_row() {
        let mut history = MappingHistory::default();
        history.add_snapshot(7, SNAPSHOT.as_bytes());
        history.add_snapshot(9, b"7ffc11111000-7ffc11132000 rw-p 00000000 00:00 0    [stack]\n");
        assert_eq!(history.mappings.len(), 3);
        assert_eq!(history.mappings.first_seen_ns, [7, 7, 7]);
        assert_eq!(history.mappings.last_seen_ns, [7, 7, 9]);
    }

    #[test]
    fn reads_this_process() {
        let text = std::fs::read("/proc/self/maps").unwrap();
        let mut history = MappingHistory::default();
        history.add_snapshot(1, &text);
        assert_eq!(history.mappings.len(), text.iter().filter(|byte| **byte == b'\n').count());
    }
}
