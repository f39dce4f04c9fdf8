//! What stands in a ring: messages and their parts.

use crate::access::AccessKind;

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum MessageKind {
    /// Fills the ring up to its end.
    Pad = 0,
    /// A [`SampleHead`] and its arrays.
    Sample = 1,
    /// A [`RangeEvent`] and its name.
    Range = 2,
    /// Part of a snapshot of `/proc/self/maps`: a [`MapsHead`] and text.
    Maps = 3,
    /// A [`ThreadEvent`].
    Thread = 4,
    /// An [`AllocatorEvent`](super::AllocatorEvent).
    Allocator = 5,
}

/// Before every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct MessageHeader {
    /// A [`MessageKind`].
    pub kind: u16,
    /// Zero.
    pub reserved: u16,
    /// Bytes of the whole message, this header included; a multiple of 8.
    pub bytes: u32,
}

/// How the address of a sample was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Quality {
    /// The registers at the sampled instruction still hold the operands of the blamed one.
    Exact = 0,
    /// Found by undoing the instructions between the blamed and the sampled one.
    Inverted = 1,
    /// A register was lost: the address is that of the next execution of the same instruction.
    NextInstance = 2,
    /// The blamed instruction is known, its address is not.
    Lost = 3,
    /// No memory instruction precedes the sampled one closely enough.
    NoMemory = 4,
    /// The code around the sampled instruction could not be read or decoded.
    NoCode = 5,
    /// Several ways lead to the sampled instruction, with different instructions to blame, and nothing shows which was
    /// taken.
    Ambiguous = 6,
}

/// Why a burst ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum BurstEnd {
    /// The asked length was reached.
    Limit = 0,
    /// A branch or an address depended on a value that is not known.
    Unknown = 1,
    /// An instruction that is not emulated.
    Unsupported = 2,
    /// A system call.
    Syscall = 3,
    /// The program would fault here.
    Fault = 4,
    /// The record or the emulator's store buffer was full.
    Full = 5,
    /// No burst was asked for, or the budget had none left.
    NotStarted = 6,
    /// Execution reached the agent's own code (an allocation call).
    Agent = 7,
}

/// A sample. Followed by `frames` return addresses (`u64`, innermost caller first), `blocks` × [`BlockRecord`],
/// `accesses` × [`AccessRecord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct SampleHead {
    /// `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The thread's CPU time, without what its samples took until now.
    pub cpu_ns: u64,
    /// Time this sample stands for; 0 for the second clock's.
    pub weight_ns: u64,
    /// Instruction at which the thread was stopped.
    pub sampled_ip: u64,
    /// Blamed instruction; 0 where there is none.
    pub ip: u64,
    /// Address it accesses; 0 where not known.
    pub address: u64,
    /// Stack pointer at the sampled instruction.
    pub stack_pointer: u64,
    /// Instructions emulated in the burst.
    pub burst_instructions: u32,
    /// Rows that follow.
    pub accesses: u32,
    /// Rows that follow.
    pub frames: u16,
    /// Rows that follow.
    pub blocks: u16,
    /// Row of `blocks` that holds `address`, or [`NO_BLOCK`].
    pub block: u16,
    /// Size of the blamed access.
    pub access_bytes: u16,
    /// [`AccessKind`] of the blamed access.
    pub kind: u8,
    /// A [`Quality`].
    pub quality: u8,
    /// A [`BurstEnd`].
    pub burst_end: u8,
    /// 1 where the call stack was cut at [`MAX_FRAMES`](super::MAX_FRAMES) (of an allocation earlier), 2 where unwinding failed before its end,
    /// 3 where a step had no unwind information and was guessed from the frame pointer, else 0.
    pub stack_cut: u8,
    /// The path of regions that the thread is on, by the number that slimline-regions has given it in this process; 0 outside of all, and
    /// where that library is not.
    pub region: u32,
}

/// Pages by which it is chosen which heap blocks are followed are of 2^this bytes.
pub const PAGE_BITS: u32 = 12;
/// A heap block of so many bytes or more is followed whatever page it begins on, unless there are so many that this is
/// what costs most; …
pub const ALWAYS_FOLLOWED_BYTES: u64 = 1 << 10;
/// … and one of so many bytes in any case.
pub const MOST_FOLLOWED_BYTES: u64 = 1 << 16;

/// No block: the address is not in a small heap block (it may be in a range, a static, a stack).
pub const NO_BLOCK: u16 = u16::MAX;

/// A heap block that was live when a sample touched it.
///
/// Three kinds: one that is followed; one that was passed over, whose bounds the allocator's own tags told
/// ([`Self::passed_over`]); and [`Self::NOT_FOLLOWED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct BlockRecord {
    /// Start.
    pub base: u64,
    /// Bits 0–23 size asked for, 24–31 [`Self::follow_shift`].
    pub size_and_shift: u32,
    /// Allocation call path: row of the stack area, from 1; 0 unknown.
    pub stack: u32,
}

impl BlockRecord {
    /// Stands for all blocks that were passed over and whose bounds are not known: the address is on a page on which there are
    /// such, and in no block that is followed.
    pub const NOT_FOLLOWED: Self = Self { base: 0, size_and_shift: 0, stack: 0 };

    /// Packs one. Sizes are below [`LARGE_BLOCK_BYTES`].
    pub fn new(base: u64, bytes: u32, stack: u32, follow_shift: u32) -> Self {
        Self { base, size_and_shift: bytes & LOW_24 | follow_shift << 24, stack }
    }

    /// One that was passed over: its bytes are those that the program may use, as `malloc_usable_size` has them. Or the
    /// allocator's own tag of a block, of [`TAG_BYTES`].
    pub fn passed_over(base: u64, usable_bytes: u32) -> Self {
        Self::new(base, usable_bytes, 0, PASSED_OVER.into())
    }

    /// Size asked for; of one that was passed over the usable size.
    pub fn bytes(self) -> u32 {
        self.size_and_shift & LOW_24
    }

    /// One block in 2^this was followed when it came to be; [`PASSED_OVER`].
    pub fn follow_shift(self) -> u8 {
        (self.size_and_shift >> 24) as u8
    }

    /// Whether it is followed.
    pub fn is_followed(self) -> bool {
        self.base != 0 && self.follow_shift() != PASSED_OVER
    }
}

/// Bytes of the tag that glibc's `malloc` keeps in front of each block. No block has as few.
pub const TAG_BYTES: u64 = 8;

/// What a block that was passed over has in the place of its [`BlockRecord::follow_shift`].
pub const PASSED_OVER: u8 = u8::MAX;

const LOW_24: u32 = (1 << 24) - 1;
const _: () = assert!(LARGE_BLOCK_BYTES <= 1 << 24);

/// One access of a burst, in two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct AccessRecord {
    /// Bits 0–47 address, 48–55 bytes of the access (0 stands for 256 or more), 56–63 access kind.
    pub place: u64,
    /// Bits 0–47 instruction, 48–63 row of the sample's blocks or [`NO_BLOCK`].
    pub cause: u64,
}

const LOW_48: u64 = (1 << 48) - 1;

impl AccessRecord {
    /// Packs one access. Addresses of user space fit 47 bits.
    pub fn new(ip: u64, address: u64, bytes: u16, kind: AccessKind, block: u16) -> Self {
        let size = if bytes > 255 { 0 } else { u64::from(bytes) };
        Self {
            place: address & LOW_48 | size << 48 | u64::from(kind.bits()) << 56,
            cause: ip & LOW_48 | u64::from(block) << 48,
        }
    }

    /// Address accessed.
    pub fn address(self) -> u64 {
        self.place & LOW_48
    }

    /// Size in bytes; 0 stands for 256 or more.
    pub fn bytes(self) -> u8 {
        (self.place >> 48) as u8
    }

    /// Load, store or both.
    pub fn kind(self) -> AccessKind {
        AccessKind::from_bits((self.place >> 56) as u8)
    }

    /// Instruction.
    pub fn ip(self) -> u64 {
        self.cause & LOW_48
    }

    /// Row of the sample's blocks or [`NO_BLOCK`].
    pub fn block(self) -> u16 {
        (self.cause >> 48) as u16
    }

    /// The same in another block.
    pub fn with_block(self, block: u16) -> Self {
        Self { cause: self.cause & LOW_48 | u64::from(block) << 48, ..self }
    }
}

/// What happened to an address range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum RangeKind {
    /// A heap block of [`LARGE_BLOCK_BYTES`] or more came to be.
    Allocated = 0,
    /// A large heap block was freed.
    Freed = 1,
    /// The program called `mmap` (or `mremap` moved a mapping here).
    Mapped = 2,
    /// The program called `munmap` (or `mremap` moved a mapping away).
    Unmapped = 3,
    /// A thread began: one of its blocks of static thread-local storage. [`RangeEvent::of`] says whose.
    ThreadLocal = 4,
    /// A thread ended: all its thread-local storage that lies in the range.
    ThreadLocalGone = 5,
    /// As [`Self::Allocated`], of an allocator whose blocks lie in those of another.
    InnerAllocated = 6,
    /// As [`Self::Freed`], likewise.
    InnerFreed = 7,
}

/// Blocks from this size on are told as [`RangeEvent`]s and found by time; smaller ones are named in each sample.
pub const LARGE_BLOCK_BYTES: u64 = 1 << 20;

/// Longest name of a [`RangeEvent`]: of a longer path the end is kept.
pub const MAX_RANGE_NAME: usize = 128;
/// In [`RangeEvent::of`]: thread-local storage of no module, which is the C library's control block of the thread.
pub const NO_MODULE: u64 = u64::MAX;

/// A large block, a mapping or a thread's storage came or went. Followed by `name_bytes` of text, padded to 8: of a mapped
/// file its path, of other memory that several may map what the kernel calls it; nothing else has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RangeEvent {
    /// `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Start.
    pub base: u64,
    /// Size; of a free and of what `shmdt` detaches, 0.
    pub bytes: u64,
    /// Call path as in [`BlockRecord::stack`].
    pub stack: u32,
    /// A [`RangeKind`].
    pub kind: u32,
    /// Of a mapped file where in it the range begins; of thread-local storage what was added to the link-time addresses of
    /// its module, or [`NO_MODULE`]; else 0.
    pub of: u64,
    /// 1 where other processes may see what is written: `MAP_SHARED`.
    pub is_shared: u32,
    /// At most [`MAX_RANGE_NAME`].
    pub name_bytes: u32,
}

/// Part of a snapshot of `/proc/self/maps`. Followed by `text_bytes` of its text, padded to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct MapsHead {
    /// `CLOCK_MONOTONIC` of the snapshot; the same in all its parts.
    pub time_ns: u64,
    /// Number of this part, from 0.
    pub part: u32,
    /// 1 in the last part.
    pub last: u32,
    /// Bytes of text in this part.
    pub text_bytes: u32,
    /// Zero.
    pub reserved: u32,
}

/// A thread began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ThreadEvent {
    /// `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The thread's own CPU time so far (user and kernel).
    pub cpu_ns: u64,
    /// Kernel's number.
    pub tid: u32,
    /// 0 began, 1 ended.
    pub ended: u32,
    /// Name as the kernel has it, NUL-terminated.
    pub name: [u8; 16],
}

const _: () = {
    assert!(size_of::<MessageHeader>() == 8);
    assert!(size_of::<SampleHead>() == 80);
    assert!(size_of::<BlockRecord>() == 16);
    assert!(size_of::<AccessRecord>() == 16);
    assert!(size_of::<RangeEvent>() == 48);
    assert!(size_of::<MapsHead>() == 24);
    assert!(size_of::<ThreadEvent>() == 40);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_record_keeps_every_part() {
        let record = AccessRecord::new(0x5555_5555_4321, 0x7fff_ffff_f123, 32, AccessKind::LOAD_STORE.atomic(), 77);
        assert_eq!(record.ip(), 0x5555_5555_4321);
        assert_eq!(record.address(), 0x7fff_ffff_f123);
        assert_eq!(record.bytes(), 32);
        assert_eq!(record.kind(), AccessKind::LOAD_STORE.atomic());
        assert_eq!(record.block(), 77);
    }
}
