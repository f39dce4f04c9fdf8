//! Which code a translated program has run: what the segments of its records mean, told while it runs.
//!
//! Who translates a binary finds its code piece by piece. What an instruction does to memory is a site, and each call of an allocator. The
//! sites of a block of code are segments that go on from each other; a segment's number is that of its description in a file beside the
//! process's ring, written before any record of it:
//!
//! ```text
//!    0 ┌──────────────────────────┐
//!      │ CodeHead                 │  of the process, or of what a fork made of it
//!  104 ├──────────────────────────┤
//!      │ TAG_FILE, bytes          │  two u32   ┐ a file that code comes from, from 0 in the order in which they are told
//!      │ path, zeros up to 8      │            ┘
//!      │ TAG_FUNCTION, bytes      │  two u32   ┐ a function that is called, likewise
//!      │ its name, zeros up to 8  │            ┘
//!      │ TAG_SITE, file + 1       │  two u32   ┐ a site; file 0: code that is in no file
//!      │ offset in it, or address │  u64       │ of an allocation where the call returns to
//!      │ kind, flags, function    │  u8, u8, u16: its number + 1; of flags bit 0: stamped, the others what its value is, if told
//!      │ bytes                    │  u32       │
//!      │ position, word + 1       │  u16, u16: which segment it is of, and the word that tells its address
//!      │ bytes from there         │  i32       ┘
//!      │ …                        │
//!      └──────────────────────────┘
//! ```
//!
//! Integers are in native order, as in the ring. How much of the file is written stands in its head: it is larger. So do counts of what is
//! not told ([`Counter`]), which go on as the program does.

use super::record::{Relative, ValueKind};

/// An instruction that does nothing (`nopl 0x014d4c53(%rax)`), by which a program that is translated says that it is to be traced from here
/// on: what `slimline_start()` is where no runtime is linked.
pub const START: [u8; 7] = [0x0f, 0x1f, 0x80, b'S', b'L', b'M', 1];
/// The same that it is not (`slimline_stop()`).
pub const STOP: [u8; 7] = [0x0f, 0x1f, 0x80, b'S', b'L', b'M', 2];

/// The same that it tells something of itself: the next instruction loads a word of memory, which says how many follow it (at most
/// [`MOST_NOTED`]), and these are a record of the runtime's own table.
pub const NOTE: [u8; 7] = [0x0f, 0x1f, 0x80, b'S', b'L', b'M', 3];
/// Most words of it.
pub const MOST_NOTED: usize = 4;

/// How the name of such a file ends, which is `<pid>-<n>.code` with the first `n` that is free.
pub const FILE_EXTENSION: &str = "code";
/// First bytes of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"slimcode");
/// Layout version. Version 1: the first. 2: functions that are called, and how much is written. 3: segments of several sites, which go on
/// from each other, and addresses without words. 4: values, and counters.
pub const VERSION: u32 = 4;
/// What begins the description of a file.
pub const TAG_FILE: u32 = 1;
/// What begins that of a site.
pub const TAG_SITE: u32 = 2;
/// What begins that of a function.
pub const TAG_FUNCTION: u32 = 3;
/// Bytes of a site's description.
pub const SITE_BYTES: usize = 32;

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
    pub const BYTES: usize = Self::COUNTERS_OFFSET + 8 * Counter::ALL.len();
    /// Where in it eight bytes say how many of the file are written.
    pub const LENGTH_OFFSET: usize = 32;
    /// Where in it the counters are, eight bytes each.
    const COUNTERS_OFFSET: usize = 40;

    /// As it is written, before anything is behind it.
    pub fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        // Counters are 0.
        let version_and_pid = u64::from(VERSION) | u64::from(self.pid) << 32;
        let numbers = [MAGIC, version_and_pid, self.module, self.guest_base, Self::BYTES as u64];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }
}

/// What is counted of a process while it runs, as its records don't tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Values that could not be read.
    UnreadValues = 0,
    /// Instructions that load or store numbers of 80 bits.
    NumberInstructions = 1,
    /// Times that these ran while the program was traced, as long as none of their accesses was told.
    NumberRuns = 2,
    /// Not 0 where their accesses are told.
    NumbersTold = 3,
    /// The same of instructions that save or restore the processor's state.
    StateInstructions = 4,
    /// Times that these ran.
    StateRuns = 5,
    /// Not 0 where their accesses are told.
    StatesTold = 6,
    /// Files of the program in which functions of allocators were found by their names.
    AllocatorFiles = 7,
}

impl Counter {
    /// All of them, in the order in which they are written.
    pub const ALL: [Self; 8] = [
        Self::UnreadValues,
        Self::NumberInstructions,
        Self::NumberRuns,
        Self::NumbersTold,
        Self::StateInstructions,
        Self::StateRuns,
        Self::StatesTold,
        Self::AllocatorFiles,
    ];

    /// Where in the file it is: eight bytes, at a multiple of that.
    pub const fn offset(self) -> usize {
        CodeHead::COUNTERS_OFFSET + 8 * self as usize
    }
}

/// Which segment a site is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Position {
    /// The first of one whose record begins with it.
    Begins = 0,
    /// The first of one that continues the segment before it.
    Continues = 1,
    /// The same segment as the site before it.
    Joins = 2,
}

/// What an instruction does to memory, one of two such things, or what a call of an allocator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteCode {
    /// Index of the file that it comes from, if it comes from one.
    pub file: Option<u32>,
    /// Where in the file it is, or which address it has. Of an allocation that is where the call returns to.
    pub place: u64,
    /// A load, store or update, or one of what allocators do: a [`SiteKind`](super::record::SiteKind) by its number.
    pub kind: u8,
    /// It has a time stamp, with which its record begins.
    pub is_stamped: bool,
    /// Index of the function that is called.
    pub function: Option<u32>,
    /// Bytes that it accesses.
    pub bytes: u32,
    /// Which segment it is of.
    pub position: Position,
    /// Where its address has no word.
    pub relative: Option<Relative>,
    /// What the word behind its address says of its value, as far as its instruction tells.
    pub value: Option<ValueKind>,
}

impl SiteCode {
    /// As it is written.
    pub fn bytes(&self) -> [u8; SITE_BYTES] {
        let mut bytes = [0; SITE_BYTES];
        let first = u64::from(TAG_SITE) | u64::from(self.file.map_or(0, |file| file + 1)) << 32;
        let function = self.function.map_or(0, |function| u64::from(function + 1) & 0xffff);
        let flags = u64::from(self.is_stamped) | self.value.map_or(0, |value| value as u64) << 1;
        let third = u64::from(self.kind) | flags << 8 | function << 16 | u64::from(self.bytes) << 32;
        let (word, distance) = self.relative.map_or((0, 0), |it| (u64::from(it.word + 1) & 0xffff, it.bytes));
        let last = self.position as u64 | word << 16 | u64::from(distance.cast_unsigned()) << 32;
        for (place, number) in bytes.chunks_exact_mut(8).zip([first, self.place, third, last]) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }
}

#[cfg(feature = "session")]
mod reading {
    use crate::path_text;

    use super::{
        CodeHead, Counter, MAGIC, Position, Relative, SITE_BYTES, SiteCode, TAG_FILE, TAG_FUNCTION, TAG_SITE, VERSION,
        ValueKind,
    };

    /// Longest text.
    const MOST_TEXT_BYTES: usize = 1 << 16;

    /// What is described.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Described {
        /// A file.
        File(String),
        /// A function that is called.
        Function(String),
        /// A site.
        Site(SiteCode),
    }

    fn number(bytes: &[u8], at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
    }

    impl CodeHead {
        /// How much of the file is written, by its first bytes; 0 where they are fewer.
        pub fn written(bytes: &[u8]) -> u64 {
            number(bytes, Self::LENGTH_OFFSET).unwrap_or(0)
        }

        /// A counter by the same; 0 where they are fewer.
        pub fn counted(bytes: &[u8], counter: Counter) -> u64 {
            number(bytes, counter.offset()).unwrap_or(0)
        }

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
                tag @ (TAG_FILE | TAG_FUNCTION) => {
                    let length = high as usize;
                    let whole = 8 + length.next_multiple_of(8);
                    let text = bytes.get(..whole).filter(|_| length <= MOST_TEXT_BYTES)?;
                    let text = path_text::text_of_bytes(&text[8..8 + length]).into_owned();
                    Some((if tag == TAG_FILE { Self::File(text) } else { Self::Function(text) }, whole))
                }
                TAG_SITE => {
                    let (place, third, last) = (number(bytes, 8)?, number(bytes, 16)?, number(bytes, 24)?);
                    let (kind, is_stamped, bytes) = (third as u8, third >> 8 & 1 != 0, (third >> 32) as u32);
                    let value = match (third >> 9) as u32 & 0x7f {
                        0 => None,
                        value => Some(ValueKind::from_number(value)?),
                    };
                    let (file, function) = (high.checked_sub(1), u32::from((third >> 16) as u16).checked_sub(1));
                    let position = match last as u16 {
                        0 => Position::Begins,
                        1 => Position::Continues,
                        2 => Position::Joins,
                        _ => return None,
                    };
                    let distance = ((last >> 32) as u32).cast_signed();
                    let word = u32::from((last >> 16) as u16).checked_sub(1);
                    let relative = word.map(|word| Relative { word, bytes: distance });
                    let site = SiteCode { file, place, kind, is_stamped, function, bytes, position, relative, value };
                    Some((Self::Site(site), SITE_BYTES))
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
            assert_eq!((CodeHead::read(&head.bytes()[..31]), CodeHead::written(&head.bytes())), (None, 104));
            let mut counting = head.bytes();
            counting[Counter::UnreadValues.offset()] = 7;
            let counted = |bytes: &[u8]| CodeHead::counted(bytes, Counter::UnreadValues);
            assert_eq!([&head.bytes()[..], &counting, &counting[..47]].map(counted), [0, 7, 0]);
            let place = 0x1234_5678_9abc;
            let (position, relative) = (Position::Joins, Some(Relative { word: 0, bytes: -24 }));
            let (file, function) = (Some(3), Some(600));
            let (kind, is_stamped, bytes, value) = (2, true, 64, None);
            let site = SiteCode { file, place, kind, is_stamped, function, bytes, position, relative, value };
            let other = SiteCode { file: None, is_stamped: false, function: None, position: Position::Begins, ..site };
            let without = SiteCode { relative: None, position: Position::Continues, ..other };
            let valued = SiteCode { value: Some(ValueKind::Float), ..without };
            let both = SiteCode { is_stamped: true, value: Some(ValueKind::Unsigned), ..without };
            for code in [site, other, without, valued, both] {
                assert_eq!(Described::read(&code.bytes()), Some((Described::Site(code), SITE_BYTES)));
                assert_eq!(Described::read(&code.bytes()[..SITE_BYTES - 1]), None);
            }
            let mut damaged = site.bytes();
            damaged[24] = 3;
            assert_eq!(Described::read(&damaged), None);
            let mut damaged = site.bytes();
            damaged[17] = 6 << 1;
            assert_eq!(Described::read(&damaged), None);
            let mut file = [TAG_FILE.to_ne_bytes(), 4_u32.to_ne_bytes()].concat();
            file.extend(b"/a/b\0\0\0\0");
            assert_eq!(Described::read(&file), Some((Described::File("/a/b".to_owned()), 16)));
            assert_eq!(Described::read(&file[..15]), None);
            file[0] = TAG_FUNCTION as u8;
            assert_eq!(Described::read(&file), Some((Described::Function("/a/b".to_owned()), 16)));
            assert_eq!(Described::read(&[0; 64]), None);
        }
    }
}

#[cfg(feature = "session")]
pub use reading::Described;
