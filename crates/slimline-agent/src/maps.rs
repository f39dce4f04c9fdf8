//! Snapshots of `/proc/self/maps` for the collector, and what of them the handler needs: where code is.
#![allow(unsafe_code)] // one buffer for the process

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use slimline_trace::wire::{MapsHead, MessageKind};

use crate::kernel;
use crate::recorder::{self, bytes_of};
use crate::thread::Thread;

/// The kernel hands out at most a page of whole lines a read.
const PART_BYTES: usize = 8 << 10;
/// Executable mappings that the handler knows; a process with more gets a snapshot for each that is hit, at the rate
/// below.
const MAX_CODE_RANGES: usize = 512;
/// Least time between two snapshots from the handler: one costs about as much as ten samples.
const PAUSE_NS: u64 = 100_000_000;

/// Where code is: two tables, so that handlers of other threads read one while the other is filled.
struct Code {
    tables: [[[AtomicU64; 2]; MAX_CODE_RANGES]; 2],
    lengths: [AtomicUsize; 2],
    current: AtomicUsize,
}

static CODE: Code = Code {
    tables: [const { [const { [const { AtomicU64::new(0) }; 2] }; MAX_CODE_RANGES] }; 2],
    lengths: [const { AtomicUsize::new(0) }; 2],
    current: AtomicUsize::new(0),
};

/// Held while a snapshot is taken.
static TAKEN: AtomicBool = AtomicBool::new(false);
static LAST_NS: AtomicU64 = AtomicU64::new(0);

struct Buffer(UnsafeCell<[u8; PART_BYTES]>);
// SAFETY: used by the holder of `TAKEN`.
unsafe impl Sync for Buffer {}
static BUFFER: Buffer = Buffer(UnsafeCell::new([0; PART_BYTES]));

/// The mapping with code that holds `address`, of those known so far.
pub(crate) fn code_range(address: u64) -> Option<(u64, u64)> {
    let current = CODE.current.load(Acquire) & 1;
    let length = CODE.lengths[current].load(Relaxed).min(MAX_CODE_RANGES);
    let table = &CODE.tables[current][..length];
    let after = table.partition_point(|[start, _]| start.load(Relaxed) <= address);
    let [start, end] = table.get(after.checked_sub(1)?)?;
    let (start, end) = (start.load(Relaxed), end.load(Relaxed));
    (start <= address && address < end).then_some((start, end))
}

/// Tells the collector of code, or of a thread's stack, that no snapshot has shown, unless one was taken a moment ago. Safe in the handler.
pub(crate) fn snapshot_for(thread: &Thread) {
    let now = recorder::now_ns();
    let last = LAST_NS.load(Relaxed);
    if now.saturating_sub(last) >= PAUSE_NS && LAST_NS.compare_exchange(last, now, Relaxed, Relaxed).is_ok() {
        snapshot(thread);
    }
}

/// Takes a snapshot, unless another thread is at it. Only inside the agent.
pub(crate) fn snapshot(thread: &Thread) {
    if TAKEN.swap(true, Acquire) {
        return;
    }
    // SAFETY: we hold the flag. A handler of this thread that comes in between finds it taken.
    copy(thread, unsafe { &mut *BUFFER.0.get() });
    thread.is_mapped.set(true);
    TAKEN.store(false, Release);
}

/// In a forked child: nobody is at it.
pub(crate) fn forget() {
    TAKEN.store(false, Relaxed);
    LAST_NS.store(0, Relaxed);
}

fn copy(thread: &Thread, buffer: &mut [u8; PART_BYTES]) {
    let Ok(file) = kernel::open(c"/proc/self/maps", libc::O_RDONLY, 0) else { return };
    let time_ns = recorder::now_ns();
    let filled = 1 - (CODE.current.load(Relaxed) & 1);
    let mut ranges = 0;
    let mut part = 0;
    let mut kept = true;
    loop {
        let length = kernel::read(file, buffer).unwrap_or(0);
        let text = &buffer[..length];
        for (start, end) in text.split(|&byte| byte == b'\n').filter_map(code_of_line) {
            if ranges < MAX_CODE_RANGES {
                let range = &CODE.tables[filled][ranges];
                range[0].store(start, Relaxed);
                range[1].store(end, Relaxed);
                ranges += 1;
            }
        }
        let last = u32::from(length == 0);
        let head = MapsHead { time_ns, part, last, text_bytes: length as u32, reserved: 0 };
        kept &= thread.write(MessageKind::Maps, &[bytes_of(&[head]), text]);
        part += 1;
        if length == 0 {
            break;
        }
    }
    kernel::close(file);
    // What the collector did not get is not known.
    if kept {
        CODE.lengths[filled].store(ranges, Relaxed);
        CODE.current.store(filled, Release);
    }
}

/// Start and end of a line's mapping, if it holds code: `55d0c000-55d0d000 r-xp …`.
fn code_of_line(line: &[u8]) -> Option<(u64, u64)> {
    let dash = line.iter().position(|&byte| byte == b'-')?;
    let space = dash + line[dash..].iter().position(|&byte| byte == b' ')?;
    let executable = *line.get(space + 3)? == b'x';
    executable.then_some((hexadecimal(&line[..dash])?, hexadecimal(&line[dash + 1..space])?))
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |value, &digit| {
        let digit = (digit as char).to_digit(16)?;
        value.checked_mul(16)?.checked_add(digit.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_code_are_told_apart() {
        let code = b"7f1c2a000000-7f1c2a002000 r-xp 00001000 fe:01 123 /usr/lib/x.so";
        assert_eq!(code_of_line(code), Some((0x7f1c_2a00_0000, 0x7f1c_2a00_2000)));
        assert_eq!(code_of_line(b"7f1c2a000000-7f1c2a002000 rw-p 00001000 fe:01 123 x"), None);
        assert_eq!(
            code_of_line(b"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]"),
            Some((0xffff_ffff_ff60_0000, 0xffff_ffff_ff60_1000))
        );
        for bad in [&b""[..], b"-", b"1-2", b"1-2 r-", b"g-2 r-xp", b"11111111111111111-2 r-xp"] {
            assert_eq!(code_of_line(bad), None, "{bad:?}");
        }
    }
}
