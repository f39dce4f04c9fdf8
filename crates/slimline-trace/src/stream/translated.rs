//! Which code a translated program has run: what the segments of its records mean, told while it runs.
//!
//! Who translates a binary finds its code piece by piece. Each instruction that accesses memory is a segment, whose number is that of
//! its description in a file beside the process's ring, written before any record of it:
//!
//! ```text
//!    0 ┌──────────────────────────┐
//!      │ CodeHead                 │  of the process, or of what a fork made of it
//!   32 ├──────────────────────────┤
//!      │ TAG_FILE, bytes          │  two u32   ┐ a file that code comes from, from 0 in the order in which they are told
//!      │ path, zeros up to 8      │            ┘
//!      │ TAG_SEGMENT, file + 1    │  two u32   ┐ a segment, likewise; file 0: code that is in no file
//!      │ offset in it, or address │  u64       │
//!      │ kind, atomic, bytes      │  u8, u8, zeros, u32 ┘
//!      │ …                        │
//!      └──────────────────────────┘
//! ```
//!
//! Integers are in native order, as in the ring.

/// How the name of such a file ends, which is `<pid>-<n>.code` with the first `n` that is free.
pub const FILE_EXTENSION: &str = "code";
/// First bytes of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"slimcode");
/// Layout version. Version 1: the first.
pub const VERSION: u32 = 1;
/// What begins the description of a file.
pub const TAG_FILE: u32 = 1;
/// What begins that of a segment.
pub const TAG_SEGMENT: u32 = 2;
/// Bytes of a segment's description.
pub const SEGMENT_BYTES: usize = 24;

/// What the file begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeHead {
    /// The process, in its own PID namespace.
    pub pid: u32,
    /// Number of the module that the segments are of.
    pub module: u64,
    /// From the program's addresses to those that it has in the translator's process: its objects are told by these.
    pub guest_base: u64,
}

impl CodeHead {
    /// Bytes of it.
    pub const BYTES: usize = 32;

    /// As it is written.
    pub fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let version_and_pid = u64::from(VERSION) | u64::from(self.pid) << 32;
        for (place, number) in bytes.chunks_exact_mut(8).zip([MAGIC, version_and_pid, self.module, self.guest_base]) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }
}

/// An instruction that accesses memory, or one of its two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentCode {
    /// Index of the file that it comes from, if it comes from one.
    pub file: Option<u32>,
    /// Where in the file it is, or which address it has.
    pub place: u64,
    /// A load, store or update: a [`SiteKind`](super::record::SiteKind) by its number.
    pub kind: u8,
    /// Its record has a time stamp before the address.
    pub is_atomic: bool,
    /// Bytes that it accesses.
    pub bytes: u32,
}

impl SegmentCode {
    /// As it is written.
    pub fn bytes(&self) -> [u8; SEGMENT_BYTES] {
        let mut bytes = [0; SEGMENT_BYTES];
        let first = u64::from(TAG_SEGMENT) | u64::from(self.file.map_or(0, |file| file + 1)) << 32;
        let last = u64::from(self.kind) | u64::from(self.is_atomic) << 8 | u64::from(self.bytes) << 32;
        for (place, number) in bytes.chunks_exact_mut(8).zip([first, self.place, last]) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }
}

#[cfg(feature = "session")]
mod reading {
    use super::{CodeHead, MAGIC, SEGMENT_BYTES, SegmentCode, TAG_FILE, TAG_SEGMENT, VERSION};

    /// Longest path.
    const MOST_PATH_BYTES: usize = 1 << 16;

    /// What is described.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Described {
        /// A file.
        File(String),
        /// A segment.
        Segment(SegmentCode),
    }

    fn number(bytes: &[u8], at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
    }

    impl CodeHead {
        /// The head that these bytes begin with; none of fewer, of another version, or of something else.
        pub fn read(bytes: &[u8]) -> Option<Self> {
            let (magic, version_and_pid) = (number(bytes, 0)?, number(bytes, 8)?);
            if magic != MAGIC || version_and_pid as u32 != VERSION {
                return None;
            }
            let pid = (version_and_pid >> 32) as u32;
            Some(Self { pid, module: number(bytes, 16)?, guest_base: number(bytes, 24)? })
        }
    }

    impl Described {
        /// What these bytes begin with, and how many it takes. None where it is not whole yet, or nothing that is known.
        pub fn read(bytes: &[u8]) -> Option<(Self, usize)> {
            let first = number(bytes, 0)?;
            let high = (first >> 32) as u32;
            match first as u32 {
                TAG_FILE => {
                    let length = high as usize;
                    let whole = 8 + length.next_multiple_of(8);
                    let path = bytes.get(..whole).filter(|_| length <= MOST_PATH_BYTES)?;
                    Some((Self::File(String::from_utf8_lossy(&path[8..8 + length]).into_owned()), whole))
                }
                TAG_SEGMENT => {
                    let (place, last) = (number(bytes, 8)?, number(bytes, 16)?);
                    let (kind, is_atomic, bytes) = (last as u8, last >> 8 & 1 != 0, (last >> 32) as u32);
                    let file = high.checked_sub(1);
                    Some((Self::Segment(SegmentCode { file, place, kind, is_atomic, bytes }), SEGMENT_BYTES))
                }
                _ => None,
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn what_is_written_is_read() {
            let head = CodeHead { pid: 77, module: 0x12_3456_789a, guest_base: 0x1000 };
            assert_eq!(CodeHead::read(&head.bytes()), Some(head));
            assert_eq!(CodeHead::read(&head.bytes()[..31]), None);
            let segment = SegmentCode { file: Some(3), place: 0x1234_5678_9abc, kind: 2, is_atomic: true, bytes: 64 };
            let other = SegmentCode { file: None, is_atomic: false, ..segment };
            for code in [segment, other] {
                assert_eq!(Described::read(&code.bytes()), Some((Described::Segment(code), SEGMENT_BYTES)));
                assert_eq!(Described::read(&code.bytes()[..SEGMENT_BYTES - 1]), None);
            }
            let mut file = [TAG_FILE.to_ne_bytes(), 4_u32.to_ne_bytes()].concat();
            file.extend(b"/a/b\0\0\0\0");
            assert_eq!(Described::read(&file), Some((Described::File("/a/b".to_owned()), 16)));
            assert_eq!(Described::read(&file[..15]), None);
            assert_eq!(Described::read(&[0; 64]), None);
        }
    }
}

#[cfg(feature = "session")]
pub use reading::Described;
