//! Records before their fields are read.

use super::fields::{ByteOrder, Fields, Malformed};

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 8;

/// Values of [`RawRecord::kind`]. From 64 on, records are perf's own and not the kernel's.
#[allow(missing_docs)] // the kernel's names
pub mod record_type {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const THROTTLE: u32 = 5;
    pub const UNTHROTTLE: u32 = 6;
    pub const FORK: u32 = 7;
    pub const READ: u32 = 8;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const AUX: u32 = 11;
    pub const ITRACE_START: u32 = 12;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    pub const NAMESPACES: u32 = 16;
    pub const KSYMBOL: u32 = 17;
    pub const BPF_EVENT: u32 = 18;
    pub const CGROUP: u32 = 19;
    pub const TEXT_POKE: u32 = 20;
    pub const AUX_OUTPUT_HW_ID: u32 = 21;
    /// The first number that is not the kernel's.
    pub const FIRST_OF_PERF: u32 = 64;
    pub const HEADER_ATTR: u32 = 64;
    pub const HEADER_TRACING_DATA: u32 = 66;
    pub const FINISHED_ROUND: u32 = 68;
    pub const ID_INDEX: u32 = 69;
    pub const AUXTRACE_INFO: u32 = 70;
    pub const AUXTRACE: u32 = 71;
    pub const THREAD_MAP: u32 = 73;
    pub const CPU_MAP: u32 = 74;
    pub const EVENT_UPDATE: u32 = 78;
    pub const TIME_CONV: u32 = 79;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const FINISHED_INIT: u32 = 82;
    pub const COMPRESSED2: u32 = 83;
}

/// Bits of [`RawRecord::misc`].
#[allow(missing_docs)] // the kernel's names
pub mod misc_bits {
    pub const CPUMODE_MASK: u16 = 7;
    pub const CPUMODE_KERNEL: u16 = 1;
    pub const CPUMODE_USER: u16 = 2;
    pub const CPUMODE_HYPERVISOR: u16 = 3;
    pub const CPUMODE_GUEST_KERNEL: u16 = 4;
    pub const CPUMODE_GUEST_USER: u16 = 5;
    /// Of MMAP: data, not code.
    pub const MMAP_DATA: u16 = 1 << 13;
    /// Of COMM: by `exec`.
    pub const COMM_EXEC: u16 = 1 << 13;
    /// Of FORK, where perf makes it up: the child's mappings are told by themselves.
    pub const FORK_EXEC: u16 = 1 << 13;
    /// Of SWITCH: away from the thread.
    pub const SWITCH_OUT: u16 = 1 << 13;
    /// Of SAMPLE: the instruction pointer is that of the instruction that caused it.
    pub const EXACT_IP: u16 = 1 << 14;
    /// Of SWITCH: the thread could have gone on.
    pub const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    /// Of MMAP2: a build id in place of the inode.
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
}

/// A record: its header and the bytes that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// What it is; see [`record_type`].
    pub kind: u32,
    /// Where it happened, and what depends on the kind; see [`misc_bits`].
    pub misc: u16,
    /// What follows the header.
    pub body: &'a [u8],
    /// Order of its bytes.
    pub order: ByteOrder,
}

impl<'a> RawRecord<'a> {
    /// The record at the start of `bytes`, and how long it is with its header; `None` where not all of it is there.
    ///
    /// # Errors
    /// It says that it is shorter than its header: where the next one begins is lost.
    pub fn at_start(bytes: &'a [u8], order: ByteOrder) -> Result<Option<(Self, usize)>, Malformed> {
        const WITHIN: &str = "header";
        if bytes.len() < HEADER_BYTES {
            return Ok(None);
        }
        let mut fields = Fields::new(bytes, order);
        let (kind, misc, size) = (fields.u32(WITHIN)?, fields.u16(WITHIN)?, fields.u16(WITHIN)?.into());
        if size < HEADER_BYTES {
            return Err(Malformed { within: WITHIN });
        }
        let record = bytes.get(HEADER_BYTES..size);
        Ok(record.map(|body| (Self { kind, misc, body, order }, size)))
    }

    /// In which mode the CPU was; see [`misc_bits::CPUMODE_MASK`].
    pub fn cpu_mode(&self) -> u16 {
        self.misc & misc_bits::CPUMODE_MASK
    }

    /// Its fields.
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.body, self.order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_whole_malformed_or_not_there_yet() {
        let bytes = [9, 0, 0, 0, 2, 64, 12, 0, 1, 2, 3, 4, 5];
        let (record, size) = RawRecord::at_start(&bytes, ByteOrder::Little).unwrap().unwrap();
        assert_eq!((record.kind, record.misc, record.body, size), (9, 0x4002, &[1, 2, 3, 4][..], 12));
        assert_eq!(record.cpu_mode(), misc_bits::CPUMODE_USER);
        for end in 0..12 {
            assert_eq!(RawRecord::at_start(&bytes[..end], ByteOrder::Little), Ok(None));
        }
        for size in 0..8 {
            let mut bytes = bytes;
            bytes[6] = size;
            assert!(RawRecord::at_start(&bytes, ByteOrder::Little).is_err());
        }
        let big = [0, 0, 0, 9, 64, 2, 0, 8];
        let (record, size) = RawRecord::at_start(&big, ByteOrder::Big).unwrap().unwrap();
        assert_eq!((record.kind, record.misc, size), (9, 0x4002, 8));
    }
}
