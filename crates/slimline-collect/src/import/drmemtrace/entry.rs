//! One record of a trace file: `trace_entry_t` of drmemtrace, as 64-bit tracers write it.
//!
//! ```text
//!    0      2      4                    12
//!   ┌──────┬──────┬─────────────────────┐
//!   │ type │ size │ address, or a value │  little-endian, without padding
//!   └──────┴──────┴─────────────────────┘
//! ```

/// Bytes of a record.
pub(super) const ENTRY_BYTES: usize = 12;

/// A record that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// What a thread did begins: the version of the format.
    Header(u64),
    /// It ends here. Another thread may follow.
    Footer,
    Load {
        address: u64,
        bytes: u16,
    },
    Store {
        address: u64,
        bytes: u16,
    },
    /// An instruction that is fetched.
    Fetch {
        address: u64,
        bytes: u16,
    },
    /// So many instructions that follow the one before, each of so many bytes.
    Bundle {
        count: u16,
        lengths: [u8; 8],
    },
    /// An instruction that runs again without a fetch, as a string instruction does for each element.
    Unfetched {
        address: u64,
    },
    /// A fetch, or not where it is of the instruction before.
    MaybeFetch {
        address: u64,
        bytes: u16,
    },
    /// By an instruction, or by the processor itself.
    Prefetch,
    /// Of a cache.
    Flush,
    /// What follows is of this thread.
    Thread(u64),
    /// Which is of this process.
    Process(u64),
    /// Microseconds since 1601.
    Time(u64),
    /// What kind of trace it is, in bits.
    FileType(u64),
    /// Other markers, ends of threads, the bytes of instructions.
    Other,
    /// Of a type that was not known when this was written.
    Unknown,
}

/// Types of records, and of markers (`trace_type_t`, `trace_marker_type_t`).
mod types {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    pub(super) const PREFETCH: u16 = 2;
    pub(super) const PREFETCH_INSTR: u16 = 9;
    pub(super) const INSTR: u16 = 10;
    pub(super) const INSTR_RETURN: u16 = 16;
    pub(super) const INSTR_BUNDLE: u16 = 17;
    pub(super) const INSTR_FLUSH: u16 = 18;
    pub(super) const INSTR_FLUSH_END: u16 = 19;
    pub(super) const DATA_FLUSH: u16 = 20;
    pub(super) const DATA_FLUSH_END: u16 = 21;
    pub(super) const THREAD: u16 = 22;
    pub(super) const THREAD_EXIT: u16 = 23;
    pub(super) const PID: u16 = 24;
    pub(super) const HEADER: u16 = 25;
    pub(super) const FOOTER: u16 = 26;
    pub(super) const HARDWARE_PREFETCH: u16 = 27;
    pub(super) const MARKER: u16 = 28;
    pub(super) const INSTR_NO_FETCH: u16 = 29;
    pub(super) const INSTR_MAYBE_FETCH: u16 = 30;
    pub(super) const INSTR_SYSENTER: u16 = 31;
    pub(super) const PREFETCH_READ_L1_NT: u16 = 32;
    pub(super) const PREFETCH_WRITE_L3_NT: u16 = 46;
    pub(super) const ENCODING: u16 = 47;
    pub(super) const INSTR_TAKEN_JUMP: u16 = 48;
    pub(super) const INSTR_UNTAKEN_JUMP: u16 = 49;

    pub(super) const MARKER_TIMESTAMP: u16 = 2;
    pub(super) const MARKER_FILETYPE: u16 = 9;
    /// The last one that was known when this was written; from 100 on they are their users' own.
    pub(super) const MARKER_SKIPPED_MEMREF: u16 = 46;
    pub(super) const MARKER_RESERVED_END: u16 = 100;
}

/// Newest version of the format that a header is known by.
const MOST_VERSION: u64 = 1 << 16;

/// Whether a file that begins so is a trace of a 64-bit program.
pub(super) fn is_trace(begin: &[u8]) -> bool {
    let Some((first, _)) = begin.split_first_chunk::<ENTRY_BYTES>() else { return false };
    // The size of a header is 0.
    first[2..4] == [0; 2] && matches!(Entry::of(first), Entry::Header(1..MOST_VERSION))
}

impl Entry {
    pub(super) fn of(bytes: &[u8; ENTRY_BYTES]) -> Self {
        use types::*;
        let [a, b, c, d, value @ ..] = *bytes;
        let (kind, size) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        let address = u64::from_le_bytes(value);
        match kind {
            READ => Self::Load { address, bytes: size },
            WRITE => Self::Store { address, bytes: size },
            PREFETCH..=PREFETCH_INSTR | HARDWARE_PREFETCH | PREFETCH_READ_L1_NT..=PREFETCH_WRITE_L3_NT => {
                Self::Prefetch
            }
            INSTR..=INSTR_RETURN | INSTR_SYSENTER | INSTR_TAKEN_JUMP | INSTR_UNTAKEN_JUMP => {
                Self::Fetch { address, bytes: size }
            }
            INSTR_BUNDLE => Self::Bundle { count: size, lengths: value },
            INSTR_FLUSH | DATA_FLUSH => Self::Flush,
            THREAD => Self::Thread(address),
            PID => Self::Process(address),
            HEADER => Self::Header(address),
            FOOTER => Self::Footer,
            INSTR_NO_FETCH => Self::Unfetched { address },
            INSTR_MAYBE_FETCH => Self::MaybeFetch { address, bytes: size },
            MARKER => match size {
                MARKER_TIMESTAMP => Self::Time(address),
                MARKER_FILETYPE => Self::FileType(address),
                marker if marker > MARKER_SKIPPED_MEMREF && marker < MARKER_RESERVED_END => Self::Unknown,
                _ => Self::Other,
            },
            INSTR_FLUSH_END | DATA_FLUSH_END | THREAD_EXIT | ENCODING => Self::Other,
            _ => Self::Unknown,
        }
    }
}

/// A record as it is written.
#[cfg(test)]
pub(super) fn written(kind: u16, size: u16, value: u64) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..2].copy_from_slice(&kind.to_le_bytes());
    bytes[2..4].copy_from_slice(&size.to_le_bytes());
    bytes[4..].copy_from_slice(&value.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_what_drmemtrace_numbers() {
        let of = |kind, size, value| Entry::of(&written(kind, size, value));
        assert_eq!(of(0, 8, 0x10), Entry::Load { address: 0x10, bytes: 8 });
        assert_eq!(of(1, 4, 0x20), Entry::Store { address: 0x20, bytes: 4 });
        for jump in [10, 13, 16, 31, 48, 49] {
            assert_eq!(of(jump, 3, 0x40), Entry::Fetch { address: 0x40, bytes: 3 }, "{jump}");
        }
        for prefetch in [2, 3, 9, 27, 32, 46] {
            assert_eq!(of(prefetch, 64, 0x40), Entry::Prefetch, "{prefetch}");
        }
        assert_eq!(of(17, 2, 0x0503), Entry::Bundle { count: 2, lengths: [3, 5, 0, 0, 0, 0, 0, 0] });
        assert_eq!((of(22, 4, 77), of(25, 0, 5), of(26, 0, 0)), (Entry::Thread(77), Entry::Header(5), Entry::Footer));
        assert_eq!(
            (of(28, 2, 9), of(28, 9, 0xe40), of(28, 3, 1)),
            (Entry::Time(9), Entry::FileType(0xe40), Entry::Other)
        );
        assert_eq!((of(47, 3, 1), of(50, 0, 0)), (Entry::Other, Entry::Unknown));
        let markers = [46, 47, 99, 100].map(|marker| of(28, marker, 0));
        assert_eq!(markers, [Entry::Other, Entry::Unknown, Entry::Unknown, Entry::Other]);
    }
}
