//! Which mappings other processes may share: lines of `/proc/self/maps` whose rights say so.
//!
//! What is mapped is known by its device and inode, which also memory without a file has. All processes see the same of the
//! same memory, wherever it lies in each.

use core::sync::atomic::Ordering::Relaxed;

use crate::objects::read_maps;
use crate::ring::{self, Ring};

/// A mapping that other processes may share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// See [`slimline_trace::stream::ring::SharedMapping::object`].
    pub(crate) object: u64,
    /// Of its first byte in the object.
    pub(crate) offset: u64,
}

/// Tells the reader of shared mappings in these addresses that it does not know, and of those that are gone. `is_ours` says which
/// addresses belong to the runtime.
pub(crate) fn tell(ring: Ring, addresses: core::ops::Range<usize>, is_ours: impl Fn(usize) -> bool, since: u64) {
    // Lines come in the order of addresses.
    let mut known_to = addresses.start;
    let mut line = Line::default();
    let is_read = read_maps(|byte| {
        if let Some(found) = line.push(byte).filter(|found| found.start < addresses.end && known_to < found.end)
            && !is_ours(found.start)
        {
            end(ring, known_to..found.start);
            if ring.shared_at(found.start) != Some(found) {
                ring.add_shared(found, since);
            }
            known_to = found.end;
        }
    });
    if is_read {
        end(ring, known_to..addresses.end);
    }
}

/// What the reader knows of in these addresses is no longer shared.
fn end(ring: Ring, addresses: core::ops::Range<usize>) {
    if addresses.start < addresses.end && ring.has_shared_in(&addresses) {
        let gone = Shared { start: addresses.start, end: addresses.end, object: 0, offset: 0 };
        ring.add_shared(gone, ring::stamp());
    }
}

/// A line of `/proc/self/maps`, byte by byte: `start-end rights offset major:minor inode      path`.
#[derive(Default)]
struct Line {
    found: Shared,
    device: u64,
    inode: u64,
    is_shared: bool,
    /// Of the fields as they stand above, from 0; blanks behind a field are its own.
    field: u8,
    /// Bytes of the path that are as the kernel names memory of System V.
    system_v: usize,
    is_other_path: bool,
    was_blank: bool,
}

/// Inodes of System V's memory are its identifiers, on the device where memory without a file has others.
const SYSTEM_V: &[u8] = b"/SYSV";

impl Line {
    /// The mapping, if that was the end of a line of a shared one.
    fn push(&mut self, byte: u8) -> Option<Shared> {
        if byte == b'\n' {
            let line = core::mem::take(self);
            let object = line.object();
            let is_whole = line.is_shared && line.inode != 0;
            return is_whole.then_some(Shared { object, ..line.found });
        }
        if byte == b' ' {
            self.was_blank = true;
            return None;
        }
        if core::mem::take(&mut self.was_blank) && self.field < 6 {
            self.field += 1;
        }
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            _ => byte.wrapping_sub(b'a').wrapping_add(10),
        };
        match (self.field, byte) {
            (0, b'-') => self.field = 1,
            (0, _) => self.found.start = self.found.start << 4 | digit as usize,
            (1, _) => self.found.end = self.found.end << 4 | digit as usize,
            (2, byte) => self.is_shared = byte == b's',
            (3, _) => self.found.offset = self.found.offset << 4 | u64::from(digit),
            (4, b':') => {}
            (4, _) => self.device = self.device << 4 | u64::from(digit),
            (5, _) => self.inode = self.inode.wrapping_mul(10).wrapping_add(digit.into()),
            _ if SYSTEM_V.get(self.system_v) == Some(&byte) && !self.is_other_path => self.system_v += 1,
            _ => self.is_other_path = self.system_v < SYSTEM_V.len(),
        }
        None
    }

    fn object(&self) -> u64 {
        const INODE_BITS: u32 = 48;
        let is_system_v = u64::from(self.system_v == SYSTEM_V.len());
        // Devices beyond 2¹³ share numbers, and so do inodes beyond 2⁴⁸: nobody has that many of both.
        let device = (self.device & 0x1fff) << INODE_BITS;
        is_system_v << 62 | 1 << 61 | device | self.inode & ((1 << INODE_BITS) - 1)
    }
}

impl Ring {
    /// Whether a mapping is known that has any of these addresses.
    pub(crate) fn has_shared_in(self, addresses: &core::ops::Range<usize>) -> bool {
        let mut starts =
            self.shared_mappings().filter(|known| known.start < addresses.end && addresses.start < known.end);
        starts.any(|known| {
            let first = known.start.max(addresses.start);
            self.shared_at(first).is_some_and(|last| last.object != 0)
        })
    }

    /// What is known last of an address.
    fn shared_at(self, address: usize) -> Option<Shared> {
        self.shared_mappings().filter(|known| (known.start..known.end).contains(&address)).last()
    }

    fn shared_mappings(self) -> impl Iterator<Item = Shared> {
        let count = self.header().shared.load(Relaxed) as usize;
        (0..count).map_while(move |number| self.shared(number)).map(|entry| {
            let start = entry.start.load(Relaxed) as usize;
            let end = start + entry.bytes.load(Relaxed) as usize;
            Shared { start, end, object: entry.object.load(Relaxed), offset: entry.offset.load(Relaxed) }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn found(maps: &str) -> Vec<Shared> {
        let mut line = Line::default();
        maps.bytes().filter_map(|byte| line.push(byte)).collect()
    }

    #[test]
    fn shared_mappings_are_found_with_what_they_are_of() {
        let found = found(
            "55d0e000-55d0f000 r-xp 00001000 08:01 1234                               /usr/bin/a s\n\
             7f0000000000-7f0000001000 rw-s 00000000 00:01 7                          /dev/zero (deleted)\n\
             7f0000002000-7f0000003000 rw-s 00001000 00:01 7                          /SYSV00000000 (deleted)\n\
             7f0000003000-7f0000004000 rw-p 00000000 00:00 0 \n\
             7f0000004000-7f0000005000 rw-s 00002000 00:01 7                          /dev/zero (deleted)\n\
             7f0000006000-7f0000007000 r--s 00000000 fe:01 7                          /SYS\n",
        );
        let places: Vec<_> = found.iter().map(|of| (of.start, of.end - of.start, of.offset)).collect();
        assert_eq!(
            places,
            [
                (0x7f00_0000_0000, 0x1000, 0),
                (0x7f00_0000_2000, 0x1000, 0x1000),
                (0x7f00_0000_4000, 0x1000, 0x2000),
                (0x7f00_0000_6000, 0x1000, 0)
            ]
        );
        let objects: Vec<_> = found.iter().map(|of| of.object).collect();
        assert!(objects.iter().all(|&object| object != 0 && object >> 63 == 0));
        assert_eq!(objects[0], objects[2]);
        assert!(objects[1] != objects[0] && objects[3] != objects[0] && objects[3] != objects[1]);
    }
}
