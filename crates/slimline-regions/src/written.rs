//! Writing the profile when the process ends.
//!
//! That may be in a signal's handler: nothing here allocates or waits for long, and what can't be had is counted as lost.
//! (The standard library copies paths that are longer than some 380 bytes: who names such a directory has to expect that a
//! signal in the middle of an allocation ends the process without a profile.)

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use slimline_trace::path_text::PathText;

use crate::cost::Cost;
use crate::format::{SUFFIX, Writer};
use crate::live::{Counted, Live, held};
use crate::path::Paths;
use crate::profile::Thread;
use crate::watched::watches;

/// A line of `/proc/self/maps` is an address range, some numbers, and a path of at most 4096 bytes, some of them escaped.
const LINE_BYTES: usize = 8192;
const BUFFER_BYTES: usize = 4096;

/// Writes the profile of the process of that number. Nothing where it has no regions, and nowhere to say so where it can't.
pub(crate) fn write(live: &'static Live, process: u32) {
    let (Some(paths), Some(threads)) = (held(&live.paths), held(&live.threads)) else { return };
    let now_ns = live.now_ns();
    let (mut lost_threads, mut lost_steps) = (0, 0);
    let (began_ns, duration_ns) = live.lifetime(now_ns);
    let mut has_rows = false;
    for thread in threads.iter() {
        match held(&thread.counts) {
            Some(mut counts) => {
                counts.stack.finish(now_ns);
                if let Some(steps) = &mut counts.steps {
                    steps.flush();
                    lost_steps += steps.lost;
                }
                has_rows |= counts.stack.rows().next().is_some();
            }
            None => lost_threads += 1,
        }
    }
    let watches_any = watches().is_some_and(|watches| !watches.all.is_empty() || watches.unknown_ends > 0);
    if !has_rows && !watches_any && live.unknown_ends.load(Relaxed) == 0 {
        return;
    }
    // Nobody else has it: this is called once.
    let Some(mut space) = held(&SPACE) else { return };
    let Space { partial, whole, line, out } = &mut *space;
    let directory = live.directory.as_os_str().as_bytes();
    let in_directory = partial.push(directory).and(whole.push(directory));
    let named = in_directory.and(write!(partial, "/.{process}{SUFFIX}")).and(write!(whole, "/{process}{SUFFIX}"));
    if named.is_err() {
        return;
    }
    let (partial, whole) = (partial.path(), whole.path());
    let _ = fs::remove_file(partial);
    let Ok(file) = OpenOptions::new().write(true).create_new(true).open(partial) else { return };
    let buffered = Buffered { file, bytes: out, length: 0 };
    let ended = Ended {
        process,
        began_ns,
        unknown_ends: live.unknown_ends.load(Relaxed),
        lost_steps,
        lost_events: live.lost_events.load(Relaxed),
        duration_ns,
        cost: live.cost(),
        lost_threads,
        paths: &paths,
        threads: &threads,
    };
    // What comes of it is told by whether the file is there.
    let _ = match lines(&ended, buffered, line) {
        Ok(()) => fs::rename(partial, whole),
        Err(fmt::Error) => fs::remove_file(partial),
    };
}

/// What writing needs: the stack of a signal's handler may be small.
struct Space {
    partial: Name,
    whole: Name,
    line: [u8; LINE_BYTES],
    out: [u8; BUFFER_BYTES],
}

static SPACE: Mutex<Space> =
    Mutex::new(Space { partial: Name::new(), whole: Name::new(), line: [0; LINE_BYTES], out: [0; BUFFER_BYTES] });

/// A process that has ended.
struct Ended<'a> {
    process: u32,
    began_ns: u64,
    duration_ns: u64,
    unknown_ends: u64,
    lost_steps: u64,
    lost_events: u64,
    cost: Option<Cost>,
    lost_threads: u64,
    paths: &'a Paths,
    threads: &'a [&'static Counted],
}

fn lines(ended: &Ended, to: Buffered, line: &mut [u8; LINE_BYTES]) -> fmt::Result {
    let mut writer = Writer::new(to)?;
    writer.process(ended.process, (ended.began_ns, ended.duration_ns), [ended.paths.lost(), ended.lost_threads])?;
    ended.cost.map_or(Ok(()), |cost| writer.cost(cost))?;
    if let Some(watches) = watches() {
        watches.all.iter().try_for_each(|watched| writer.watched(watched))?;
        writer.unwatched(watches.unknown_ends)?;
    }
    writer.unbegun(ended.unknown_ends)?;
    writer.unwritten(ended.lost_steps)?;
    writer.uncounted(ended.lost_events)?;
    mappings(&mut writer, line)?;
    for thread in ended.threads {
        writer.thread(Thread { number: thread.number, kernel_id: thread.kernel_id.load(Relaxed) })?;
    }
    for (_, node) in ended.paths.iter() {
        writer.path(node)?;
    }
    for thread in ended.threads {
        // Who holds it was counted as lost.
        let Ok(counts) = thread.counts.try_lock() else { continue };
        for (path, times) in counts.stack.rows() {
            writer.row(path, thread.number, times)?;
        }
    }
    writer.end()?.flush()
}

/// What of files is in this process and is not written: their code, whatever a translator says of its rights. Nothing where the kernel
/// doesn't say: then addresses have no module.
fn mappings(writer: &mut Writer<Buffered>, bytes: &mut [u8; LINE_BYTES]) -> fmt::Result {
    let Ok(mut maps) = File::open("/proc/self/maps") else { return Ok(()) };
    let mut length = 0;
    while let Ok(more @ 1..) = maps.read(&mut bytes[length..]) {
        length += more;
        let mut from = 0;
        while let Some(line) = bytes[from..length].iter().position(|byte| *byte == b'\n') {
            if let Some((range, is_code, path)) = mapping(&bytes[from..from + line]) {
                writer.mapping(range, is_code, PathText(path))?;
            }
            from += line + 1;
        }
        bytes.copy_within(from..length, 0);
        length -= from;
    }
    Ok(())
}

/// Of `START-END r-xp OFFSET DEVICE INODE PATH`.
fn mapping(line: &[u8]) -> Option<([u64; 3], bool, &[u8])> {
    let (numbers, path) = line.split_at(line.iter().position(|byte| *byte == b'/')?);
    let mut words = str::from_utf8(numbers).ok()?.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next().filter(|rights| !rights.contains('w'))?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(([number(start)?, number(end)?, number(words.next()?)?], rights.contains('x'), path))
}

/// A path that is put together without allocating.
struct Name {
    bytes: [u8; libc::PATH_MAX as usize],
    length: usize,
}

impl Name {
    const fn new() -> Self {
        Self { bytes: [0; libc::PATH_MAX as usize], length: 0 }
    }

    fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.bytes[..self.length]))
    }

    fn push(&mut self, bytes: &[u8]) -> fmt::Result {
        let to = self.bytes.get_mut(self.length..self.length + bytes.len()).ok_or(fmt::Error)?;
        to.copy_from_slice(bytes);
        self.length += bytes.len();
        Ok(())
    }
}

impl fmt::Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes())
    }
}

struct Buffered<'a> {
    file: File,
    bytes: &'a mut [u8; BUFFER_BYTES],
    length: usize,
}

impl Buffered<'_> {
    fn flush(&mut self) -> fmt::Result {
        let length = std::mem::take(&mut self.length);
        self.file.write_all(&self.bytes[..length]).map_err(|_| fmt::Error)
    }
}

impl fmt::Write for Buffered<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.length == BUFFER_BYTES {
                self.flush()?;
            }
            self.bytes[self.length] = byte;
            self.length += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::mapping;

    #[test]
    fn code_of_files_is_told_from_other_memory() {
        let line = b"55d0c0001000-55d0c0002000 r-xp 00001000 08:01 1234                       /opt/a b/program";
        assert_eq!(mapping(line), Some(([0x55d0_c000_1000, 0x55d0_c000_2000, 0x1000], true, &b"/opt/a b/program"[..])));
        let line = b"4000000000-4000003000 r--p 00000000 fe:00 10                       /opt/caf\xe9";
        assert_eq!(mapping(line), Some(([0x40_0000_0000, 0x40_0000_3000, 0], false, &b"/opt/caf\xe9"[..])));
        assert_eq!(mapping(b"55d0c0001000-55d0c0002000 rw-p 00001000 08:01 1234 /opt/program"), None);
        assert_eq!(mapping(b"7ffe0000-7fff0000 r-xp 00000000 00:00 0    [vdso]"), None);
    }
}
