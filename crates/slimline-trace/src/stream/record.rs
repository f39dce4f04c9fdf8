//! The words that instrumented code writes.
//!
//! A trace is a sequence of 64-bit words in native order. A *segment* is the accesses of one basic block between two
//! calls; each time it runs it writes one record:
//!
//! ```text
//!   63 62                    24 23             0
//!  ┌──┬────────────────────────┬────────────────┐
//!  │ 1│ module                 │ segment        │  Header
//!  ├──┴────────────────────────┴────────────────┤
//!  │ words of the segment's first site          │  SiteKind::words of them
//!  │ words of its second site                   │
//!  │ …                                          │
//!  └────────────────────────────────────────────┘
//! ```
//!
//! How many words follow, and what they are, is said by the site table of the module (`stream::sites`) alone. An address that
//! is always as far from another one of the record has no word.
//!
//! Where a block is left for another one that nothing else leads to, the record goes on: the other block's words come behind
//! those that there are, and its segment, which *continues* the first one, takes the place of that in the header. So a record
//! tells a path, and its header may change as long as no other record follows it:
//!
//! ```text
//!   if (p->kind == LEAF)        A   [A] &p->kind
//!       sum += p->value;        B   [B] &p->kind, &sum        p->value is 8 bytes behind p->kind
//! ```
//!
//! Addresses have bit 63 clear. Numbers of bytes and masks may have it set, so what looks like a header is one only if the record
//! before it ends there: a reader walks from the first word of a chunk, or checks that a walk would come to the same.

/// Bit that every header has and no address.
pub const HEADER_MARK: u64 = 1 << 63;
/// Addresses of programs are below this on x86-64, with five levels of page tables.
pub const ADDRESSES_END: u64 = 1 << 56;
/// Bits of a header that number the segment.
pub const SEGMENT_BITS: u32 = 24;
/// Bits of a header that name the module.
pub const MODULE_BITS: u32 = 63 - SEGMENT_BITS;
/// Segments that a module can have.
pub const MAX_SEGMENTS: usize = 1 << SEGMENT_BITS;
/// Most words of a segment, its header not counted.
pub const MAX_SEGMENT_WORDS: usize = 60;
/// Most sites of a record that goes on from block to block: whoever knows a segment's sites has those of all that it continues.
/// Within one block there may be any number without words.
pub const MAX_RECORD_SITES: usize = 16;
/// Most lanes of a masked, gathering or scattering access: as many as its mask has bits.
pub const MAX_LANES: u16 = 64;

/// In the place of a time stamp: none was needed. Not 0, which would look like a word that is not written yet.
pub const NO_STAMP: u64 = 1;

/// What the runtime writes by itself: the record of [`SiteKind::Resumes`].
pub const RESUMES: Header = Header::new(ModuleId::RUNTIME, 0);
/// What the library writes that follows regions: the record of [`SiteKind::Region`].
pub const REGION: Header = Header::new(ModuleId::RUNTIME, 1);
/// That of [`SiteKind::Watch`].
pub const WATCH: Header = Header::new(ModuleId::RUNTIME, 2);
/// That of [`SiteKind::Unwatch`].
pub const UNWATCH: Header = Header::new(ModuleId::RUNTIME, 3);
/// What the runtime writes before a fork: the record of [`SiteKind::Forks`].
pub const FORKS: Header = Header::new(ModuleId::RUNTIME, 4);
/// What the collector writes for a forked child: the record of [`SiteKind::Inherits`].
pub const INHERITS: Header = Header::new(ModuleId::RUNTIME, 5);
/// What the collector writes for shared mappings: the record of [`SiteKind::Shared`].
pub const SHARED: Header = Header::new(ModuleId::RUNTIME, 6);

/// Names a translation unit: the upper bits of a hash of its site table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct ModuleId(u64);

impl ModuleId {
    /// The runtime, whose table is not in any object.
    pub const RUNTIME: Self = Self((1 << MODULE_BITS) - 1);

    /// The module whose site table has this hash.
    pub const fn from_hash(hash: u64) -> Self {
        Self(hash >> (64 - MODULE_BITS))
    }

    /// The module of this number; none if it has more than [`MODULE_BITS`] bits.
    pub const fn from_number(number: u64) -> Option<Self> {
        if number >> MODULE_BITS == 0 { Some(Self(number)) } else { None }
    }

    /// Its number, of [`MODULE_BITS`] bits.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// The first word of a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct Header(u64);

impl Header {
    /// The header of this segment; only its lowest [`SEGMENT_BITS`] bits count.
    pub const fn new(module: ModuleId, segment: u32) -> Self {
        Self(HEADER_MARK | module.0 << SEGMENT_BITS | segment as u64 & (MAX_SEGMENTS as u64 - 1))
    }

    /// This word as a header; none if it can't be one.
    pub const fn from_word(word: u64) -> Option<Self> {
        if word & HEADER_MARK != 0 { Some(Self(word)) } else { None }
    }

    /// As it is written.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Whose segment.
    pub const fn module(self) -> ModuleId {
        ModuleId((self.0 & !HEADER_MARK) >> SEGMENT_BITS)
    }

    /// Which of the module's segments.
    pub const fn segment(self) -> u32 {
        (self.0 & (MAX_SEGMENTS as u64 - 1)) as u32
    }
}

/// Defines the kinds with their names and numbers, which are in objects: never given out anew.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal => $name:literal,)+) => {
        /// What an instruction does to memory, and so which words it writes.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum SiteKind {
            $($(#[$doc])* $kind = $number,)+
        }

        impl SiteKind {
            /// All kinds, in the order of their numbers.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$kind),+];

            /// The name in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// The kind of this number.
            pub const fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$kind),)+ _ => None }
            }
        }
    };
}

kinds! {
    /// `[address]`, then the value if it is kept.
    Load = 0 => "load",
    /// `[address]`, then the value if it is kept.
    Store = 1 => "store",
    /// Both at once, atomically (read-modify-write, compare-exchange): `[address]`.
    Update = 2 => "update",
    /// `memcpy`, `memmove`: `[to, from, bytes]`.
    Copy = 3 => "copy",
    /// `memset`: `[to, bytes]`.
    Fill = 4 => "fill",
    /// Lanes of a vector at consecutive addresses: `[address of lane 0, mask]`; bit n of the mask is lane n.
    MaskedLoad = 5 => "masked load",
    /// As [`Self::MaskedLoad`].
    MaskedStore = 6 => "masked store",
    /// Each lane at an address of its own: `[mask, address of lane 0, …]`; addresses of lanes that the mask leaves out
    /// mean nothing, and may have bit 63 set.
    Gather = 7 => "gather",
    /// As [`Self::Gather`].
    Scatter = 8 => "scatter",
    /// A new block: `[block, bytes]`. The block is 0 where the allocator had none to give.
    Allocate = 9 => "allocate",
    /// A new block of zeros: `[block, count, bytes of one]`.
    AllocateZeroed = 10 => "allocate zeroed",
    /// `realloc` returned: `[new, bytes]`, of the block that [`Self::ResizeBegins`] told. Where `new` is 0 and `bytes` is not,
    /// that one stays.
    Resize = 11 => "resize",
    /// `[block]`, which may be 0.
    Free = 12 => "free",
    /// The function begins: `[]`.
    Enter = 13 => "enter",
    /// The function returns: `[]`.
    Leave = 14 => "leave",
    /// Something that may access memory, nobody knows where (inline assembly, `va_arg`): `[]`. It is counted only.
    Untraced = 15 => "untraced",
    /// From here on, this site's record included, the thread may see what others did before this time: a lock was taken, an
    /// atomic variable read, a block allocated that another thread may have freed. `[time stamp]`, first in its segment;
    /// [`NO_STAMP`] while there is no other thread.
    Acquire = 16 => "acquire",
    /// `realloc` is called: `[block]`, which may be 0.
    ResizeBegins = 17 => "resize begins",
    /// The function begins, one that has places where it goes on: `[frame]`, which tells this call of it from all others that
    /// run.
    EnterFrame = 18 => "enter frame",
    /// The function goes on after what it called may have been left without an end: `setjmp` returned, an exception was caught or
    /// cleaned up after, another stack was changed to, or the program has tracing begin again. `[frame]`, as where it began.
    GoesOn = 19 => "goes on",
    /// The stream goes on after a part that was not traced, in which functions may have begun and ended: `[]`. Of the runtime's own
    /// table only ([`RESUMES`]).
    Resumes = 20 => "resumes",
    /// A static variable, or a part of one that the optimizer made of it, is where an object was loaded: `[address, bytes]`. Of
    /// tables only that are made when a program runs ([`STATICS_STREAM`](super::STATICS_STREAM)).
    Static = 21 => "static",
    /// The function calls another one: `[address of the return address]`. Of code that nobody compiled for this, where only calls are seen.
    Call = 22 => "call",
    /// A function returns to where it was called: `[address of the return address]`. Calls with theirs below it are over, too.
    Return = 23 => "return",
    /// The thread goes on to another region, by the number that the process has for its path: `[path]`, 0 outside of all. Of the runtime's own table only
    /// ([`REGION`]), as what follows.
    Region = 24 => "region",
    /// Memory is watched from here on, as the process's range of that number: `[address, bytes, number]`.
    Watch = 25 => "watch",
    /// It is no longer: `[number]`.
    Unwatch = 26 => "unwatch",
    /// The process forks: `[time stamp, process id]`, by which the child names this state of its parent. Of the runtime's own
    /// table only ([`FORKS`]), as what follows.
    Forks = 27 => "forks",
    /// A forked child begins with its parent's allocations as of that [`Self::Forks`]: `[time stamp, process id]`.
    Inherits = 28 => "inherits",
    /// A mapping that other processes may share: `[address, bytes, object, offset]`. Mappings of one object share the bytes
    /// at one offset. Object 0: these addresses are no longer shared.
    Shared = 29 => "shared",
}

/// What the word behind an address says of the value that was loaded or stored there: its bits, zeros above them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ValueKind {
    /// An integer of which nobody knows whether it has a sign.
    Integer = 1,
    /// A number of IEEE 754, of 4 or 8 bytes.
    Float = 2,
    /// An address.
    Pointer = 3,
    /// An integer with a sign, by the type of what is accessed.
    Signed = 4,
    /// An integer without.
    Unsigned = 5,
}

impl ValueKind {
    /// The kind of this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Integer),
            2 => Some(Self::Float),
            3 => Some(Self::Pointer),
            4 => Some(Self::Signed),
            5 => Some(Self::Unsigned),
            _ => None,
        }
    }
}

/// An address that is always as far from another one of the same record: of loads, stores and updates without values, calls and returns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Relative {
    /// Which of the record's words is the other one.
    pub word: u32,
    /// From that address to this one.
    pub bytes: i32,
}

impl SiteKind {
    /// Whether a block is made there, or made anew in another size.
    pub const fn makes_block(self) -> bool {
        matches!(self, Self::Allocate | Self::AllocateZeroed | Self::Resize)
    }

    /// Words that a site of this kind writes, given its lanes and whether it tells its value.
    pub const fn words(self, lanes: u16, has_value: bool) -> usize {
        let own = match self {
            Self::Enter | Self::Leave | Self::Untraced | Self::Resumes => 0,
            Self::Load | Self::Store | Self::Update | Self::Free | Self::Acquire | Self::ResizeBegins => 1,
            Self::EnterFrame | Self::GoesOn | Self::Call | Self::Return | Self::Region | Self::Unwatch => 1,
            Self::Fill | Self::MaskedLoad | Self::MaskedStore | Self::Allocate | Self::Resize | Self::Static => 2,
            Self::Forks | Self::Inherits => 2,
            Self::Copy | Self::AllocateZeroed | Self::Watch => 3,
            Self::Shared => 4,
            Self::Gather | Self::Scatter => 1 + lanes as usize,
        };
        own + has_value as usize
    }

    /// Whether its address is all that it tells, but for a value.
    pub const fn is_plain(self) -> bool {
        matches!(self, Self::Load | Self::Store | Self::Update)
    }

    /// Whether another site's word may tell its address.
    pub const fn may_be_relative(self) -> bool {
        self.is_plain() || matches!(self, Self::Call | Self::Return)
    }

    /// Whether it reads memory that the program names.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Load | Self::Update | Self::Copy | Self::MaskedLoad | Self::Gather)
    }

    /// Whether it writes memory that the program names.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Store | Self::Update | Self::Copy | Self::Fill | Self::MaskedStore | Self::Scatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_mark_module_and_segment() {
        let module = ModuleId::from_number(0x12_3456_789a).unwrap();
        let header = Header::new(module, 0xab_cdef);
        assert_eq!(header.word(), 0x9234_5678_9aab_cdef);
        assert_eq!(Header::from_word(header.word()), Some(header));
        assert_eq!((header.module(), header.segment()), (module, 0xab_cdef));
        assert_eq!(Header::from_word(0x7fff_ffff_ffff_fff8), None);
    }

    #[test]
    fn a_module_has_39_bits() {
        assert_eq!(ModuleId::from_hash(u64::MAX).number(), 0x7f_ffff_ffff);
        assert_eq!(ModuleId::from_number(1 << MODULE_BITS), None);
        let last = Header::new(ModuleId::from_hash(u64::MAX), MAX_SEGMENTS as u32 - 1);
        assert_eq!(last.word(), u64::MAX);
    }

    #[test]
    fn kinds_keep_their_numbers() {
        for (number, kind) in (0..).zip(SiteKind::ALL) {
            assert_eq!(kind as u8, number);
            assert_eq!(SiteKind::from_number(number), Some(kind));
        }
        assert_eq!(SiteKind::from_number(SiteKind::ALL.len() as u8), None);
    }

    #[test]
    fn words_by_kind() {
        assert_eq!(SiteKind::Load.words(1, false), 1);
        assert_eq!(SiteKind::Store.words(1, true), 2);
        assert_eq!(SiteKind::Copy.words(1, false), 3);
        assert_eq!(SiteKind::MaskedLoad.words(8, false), 2);
        assert_eq!(SiteKind::Gather.words(8, false), 9);
        assert_eq!(SiteKind::Untraced.words(1, false), 0);
        assert_eq!([SiteKind::EnterFrame, SiteKind::GoesOn, SiteKind::Resumes].map(|it| it.words(1, false)), [1, 1, 0]);
    }
}
