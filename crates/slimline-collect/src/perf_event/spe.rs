//! Arm's statistical profiling extension: the packets that it leaves in an AUX area, one record of packets for each operation
//! that was sampled.
//!
//! ```text
//!   00           padding            01        end of a record
//!   71           timestamp, 8 bytes: end of a record, too
//!   b0 … b7      address            98 … 9f   counter of cycles
//!   42 52 62 72  events             43 53 …   where the data came from
//!   64 … 67      context            48 … 4b   kind of operation, by class
//!   20 … 23      two bytes of header follow as one: the index is longer; with 00, padding up to an alignment
//! ```
//!
//! Bits 5 and 4 of a header are the logarithm of the payload's bytes. As in the Arm Architecture Reference Manual, chapter
//! "Statistical Profiling Extension Sample Record Specification".

use slimline_trace::access::AccessKind;
use slimline_trace::address::PhysicalAddress;
use slimline_trace::served::{MemoryLevel, Served, Translation};

use super::fields::{ByteOrder, Fields, Malformed};

const WITHIN: &str = "SPE packets";

/// An operation that was sampled, as far as its packets tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeRecord {
    /// The instruction, and the exception level that it ran at (0 is user mode).
    pub instruction: Option<(u64, u8)>,
    /// The address that it accessed. The top byte may be a tag of the program's.
    pub address: Option<u64>,
    /// The physical one.
    pub physical_address: Option<u64>,
    /// What it does to memory; none of a branch or another operation.
    pub kind: Option<AccessKind>,
    /// Cycles from dispatch to completion.
    pub total_cycles: Option<u16>,
    /// Cycles from dispatch to issue.
    pub issue_cycles: Option<u16>,
    /// Cycles that translating the address took.
    pub translation_cycles: Option<u16>,
    /// What happened, a bit each; see [`spe_event`].
    pub events: Option<u64>,
    /// Where the data came from, as the processor's manual numbers it.
    pub source: Option<u64>,
    /// The process' number, as the kernel sets it (`CONTEXTIDR`).
    pub context: Option<u32>,
    /// The system counter.
    pub timestamp: Option<u64>,
}

/// Bits of [`SpeRecord::events`].
#[allow(missing_docs)] // the architecture's names
pub mod spe_event {
    pub const EXCEPTION: u64 = 1 << 0;
    pub const RETIRED: u64 = 1 << 1;
    pub const L1D_ACCESS: u64 = 1 << 2;
    pub const L1D_REFILL: u64 = 1 << 3;
    pub const TLB_ACCESS: u64 = 1 << 4;
    pub const TLB_WALK: u64 = 1 << 5;
    pub const LLC_ACCESS: u64 = 1 << 8;
    pub const LLC_MISS: u64 = 1 << 9;
    pub const REMOTE_ACCESS: u64 = 1 << 10;
}

/// Reads records one after another.
#[derive(Clone, Copy, Debug)]
pub struct SpeRecords<'a> {
    rest: &'a [u8],
    /// Bytes before `rest`, for alignment.
    offset: u64,
}

/// What a packet is.
enum Packet {
    Nothing,
    End,
    Timestamp(u64),
    Address(u8, u64),
    Counter(u8, u16),
    Context(u32),
    Operation(u8, u8),
    Events(u64),
    Source(u64),
}

impl<'a> SpeRecords<'a> {
    /// Of a piece of an AUX area that begins at `offset` in it.
    pub fn new(bytes: &'a [u8], offset: u64) -> Self {
        Self { rest: bytes, offset }
    }

    fn packet(&mut self) -> Result<Packet, Malformed> {
        const EXTENDED: u8 = 0x20;
        let mut fields = Fields::new(self.rest, ByteOrder::Little);
        let first = fields.u8(WITHIN)?;
        let (high, header) = match first & 0xfc {
            EXTENDED => ((first & 3) << 3, fields.u8(WITHIN)?),
            _ => (0, first),
        };
        let index = high | header & 7;
        let packet = match header {
            0 if first != 0 => {
                let align = 2_u64 << (first & 0xf);
                fields = Fields::new(self.rest, ByteOrder::Little);
                fields.take((align - self.offset % align) as usize, WITHIN)?;
                Packet::Nothing
            }
            0 => Packet::Nothing,
            1 => Packet::End,
            _ => {
                let payload = payload(&mut fields, header)?;
                match header {
                    0x71 => Packet::Timestamp(payload),
                    _ if header & 0xf8 == 0xb0 => Packet::Address(index, payload),
                    _ if header & 0xf8 == 0x98 => Packet::Counter(index, payload as u16),
                    _ if header & 0xfc == 0x64 => Packet::Context(payload as u32),
                    _ if header & 0xfc == 0x48 => Packet::Operation(header & 3, payload as u8),
                    _ if header & 0xcf == 0x42 => Packet::Events(payload),
                    _ if header & 0xcf == 0x43 => Packet::Source(payload),
                    _ => return Err(Malformed { within: WITHIN }),
                }
            }
        };
        self.offset = self.offset.wrapping_add((self.rest.len() - fields.rest().len()) as u64);
        self.rest = fields.rest();
        Ok(packet)
    }
}

/// Bits 5 and 4 of the header say how long it is.
fn payload(fields: &mut Fields<'_>, header: u8) -> Result<u64, Malformed> {
    match header >> 4 & 3 {
        0 => fields.u8(WITHIN).map(u64::from),
        1 => fields.u16(WITHIN).map(u64::from),
        2 => fields.u32(WITHIN).map(u64::from),
        _ => fields.u64(WITHIN),
    }
}

impl Iterator for SpeRecords<'_> {
    type Item = Result<SpeRecord, Malformed>;

    /// The next record. Behind one that can't be read there is none: where the next begins is lost.
    fn next(&mut self) -> Option<Self::Item> {
        let mut record = SpeRecord::default();
        while !self.rest.is_empty() {
            match self.packet() {
                Ok(Packet::End) if record == SpeRecord::default() => {}
                Ok(Packet::End) => return Some(Ok(record)),
                Ok(Packet::Timestamp(counter)) => return Some(Ok(SpeRecord { timestamp: Some(counter), ..record })),
                Ok(packet) => record.take(packet),
                Err(error) => {
                    self.rest = &[];
                    return Some(Err(error));
                }
            }
        }
        (record != SpeRecord::default()).then_some(Err(Malformed { within: WITHIN }))
    }
}

impl SpeRecord {
    fn take(&mut self, packet: Packet) {
        /// Of an address the top byte is something else.
        const ADDRESS: u64 = u64::MAX >> 8;
        match packet {
            Packet::Address(0, payload) => {
                // The kernel's addresses have all upper bits set.
                let sign = if payload >> 55 & 1 == 1 { !ADDRESS } else { 0 };
                self.instruction = Some((payload & ADDRESS | sign, (payload >> 61 & 3) as u8));
            }
            Packet::Address(2, payload) => self.address = Some(payload & ADDRESS),
            Packet::Address(3, payload) => self.physical_address = Some(payload & ADDRESS),
            Packet::Counter(0, cycles) => self.total_cycles = Some(cycles),
            Packet::Counter(1, cycles) => self.issue_cycles = Some(cycles),
            Packet::Counter(2, cycles) => self.translation_cycles = Some(cycles),
            Packet::Context(number) => self.context = Some(number),
            Packet::Operation(class, payload) => self.kind = Some(kind(class, payload)),
            Packet::Events(events) => self.events = Some(events),
            Packet::Source(source) => self.source = Some(source),
            // Branches' targets, and what is newer.
            Packet::Nothing | Packet::End | Packet::Timestamp(_) | Packet::Address(..) | Packet::Counter(..) => {}
        }
    }

    /// How the access was served, as its events and, of cores whose numbers are known, its source tell. `midr` is the core's
    /// main ID register.
    pub fn served(&self, midr: Option<u64>) -> Served {
        if !self.is_access() {
            return Served::UNKNOWN;
        }
        let cycles = |cycles: Option<u16>| cycles.filter(|&cycles| cycles > 0);
        let (level, hops) = self.level(midr);
        Served {
            latency_cycles: cycles(self.total_cycles).map(u32::from),
            instruction_cycles: cycles(self.total_cycles),
            level,
            hops,
            translation: self
                .has(spe_event::TLB_ACCESS | spe_event::TLB_WALK)
                .then(|| if self.has(spe_event::TLB_WALK) { Translation::Walk } else { Translation::Tlb }),
            locked: self.kind.map(AccessKind::is_atomic),
            physical_address: self.physical_address.map(PhysicalAddress),
            ..Served::UNKNOWN
        }
    }

    /// Whether the operation touches memory; one of which that is not told may.
    pub fn is_access(&self) -> bool {
        self.kind != Some(AccessKind::NONE)
    }

    fn has(&self, any_of: u64) -> bool {
        self.events.is_some_and(|events| events & any_of != 0)
    }

    fn level(&self, midr: Option<u64>) -> (Option<MemoryLevel>, Option<u8>) {
        if let Some(known) = self.source.filter(|_| midr.is_some_and(is_neoverse)).and_then(neoverse_level) {
            return known;
        }
        use spe_event::{L1D_ACCESS, L1D_REFILL, LLC_ACCESS, LLC_MISS, REMOTE_ACCESS};
        let level = if self.has(REMOTE_ACCESS) {
            // Of another chip: a cache or its memory.
            None
        } else if self.has(LLC_ACCESS) && !self.has(LLC_MISS) {
            Some(MemoryLevel::L3)
        } else if self.has(L1D_ACCESS) && !self.has(L1D_REFILL | LLC_ACCESS | LLC_MISS) {
            Some(MemoryLevel::L1)
        } else {
            None
        };
        (level, None)
    }
}

fn kind(class: u8, payload: u8) -> AccessKind {
    const ACCESSES: u8 = 1;
    const ATOMIC: u8 = 1 << 2;
    const EXCLUSIVE: u8 = 1 << 3;
    if class != ACCESSES {
        return AccessKind::NONE;
    }
    let kind = if payload & 1 == 1 { AccessKind::STORE } else { AccessKind::LOAD };
    match payload & 0xe2 {
        0x02 if payload & ATOMIC != 0 => AccessKind::LOAD_STORE.atomic(),
        0x02 if payload & EXCLUSIVE != 0 => kind.atomic(),
        _ => kind,
    }
}

/// Neoverse N1, V1, N2 and V2, whose manuals number sources alike.
fn is_neoverse(midr: u64) -> bool {
    const ARM: u64 = 0x41;
    midr >> 24 & 0xff == ARM && matches!(midr >> 4 & 0xfff, 0xd0c | 0xd40 | 0xd49 | 0xd4f)
}

/// Sources of these cores: each with how far away it is, as `perf_mem_data_src` counts.
fn neoverse_level(source: u64) -> Option<(Option<MemoryLevel>, Option<u8>)> {
    let (level, hops) = match source {
        0x0 => (MemoryLevel::L1, None),
        0x8 => (MemoryLevel::L2, None),
        // Another core, of the cluster or of another one.
        0x9 | 0xa => (MemoryLevel::RemoteCache, Some(1)),
        0xb => (MemoryLevel::L3, None),
        0xc => (MemoryLevel::RemoteCache, Some(2)),
        // Another chip.
        0xd => (MemoryLevel::RemoteCache, Some(3)),
        0xe => (MemoryLevel::LocalDram, None),
        _ => return None,
    };
    Some((Some(level), hops))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the bytes and wherever they lie: no more records than bytes, and an end.
        #[test]
        fn any_bytes_are_taken_without_a_panic(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), Just(1), Just(0x71), Just(0xb2), Just(0x20), Just(0x23)],
                0..200,
            ),
            offset in any::<u64>(),
        ) {
            let found: Vec<_> = SpeRecords::new(&bytes, offset).collect();
            prop_assert!(found.len() <= bytes.len());
            let broken = found.iter().position(Result::is_err);
            prop_assert!(broken.is_none_or(|broken| broken + 1 == found.len()), "nothing is guessed behind it");
            found.into_iter().flatten().for_each(|record| _ = record.served(Some(0x413f_d0c1)));
        }
    }

    fn records(bytes: &[u8]) -> Vec<Result<SpeRecord, Malformed>> {
        SpeRecords::new(bytes, 0).collect()
    }

    #[track_caller]
    fn check(bytes: &[u8], expected: SpeRecord) {
        let mut ended = bytes.to_vec();
        ended.push(0x01);
        assert_eq!(records(&ended), [Ok(expected)], "{bytes:02x?}");
        for end in 1..ended.len() {
            // Cut anywhere it is no record, and never a panic.
            assert!(records(&ended[..end]).iter().all(Result::is_err), "{bytes:02x?} up to {end}");
        }
    }

    const EMPTY: SpeRecord = SpeRecord {
        instruction: None,
        address: None,
        physical_address: None,
        kind: None,
        total_cycles: None,
        issue_cycles: None,
        translation_cycles: None,
        events: None,
        source: None,
        context: None,
        timestamp: None,
    };

    /// Each packet by the manual's table: header, payload, meaning.
    #[test]
    fn every_packet_by_its_bytes() {
        // Address of the instruction at EL0 and EL1, the latter's the kernel's.
        check(&[0xb0, 0x10, 0x32, 0x54, 0, 0, 0, 0, 0], SpeRecord { instruction: Some((0x54_3210, 0)), ..EMPTY });
        let kernel = SpeRecord { instruction: Some((0xffff_8000_1000_0010, 1)), ..EMPTY };
        check(&[0xb0, 0x10, 0, 0, 0x10, 0, 0x80, 0xff, 0xa0], kernel);
        // Data: the top byte is a tag.
        check(&[0xb2, 8, 0x10, 0, 0, 0, 0x7f, 0, 0x5a], SpeRecord { address: Some(0x7f00_0000_1008), ..EMPTY });
        check(
            &[0xb3, 8, 0x60, 0x45, 0x23, 1, 0, 0, 0x80],
            SpeRecord { physical_address: Some(0x1_2345_6008), ..EMPTY },
        );
        // Counters: total, issue, translation.
        check(&[0x98, 0x2c, 0x01], SpeRecord { total_cycles: Some(300), ..EMPTY });
        check(&[0x99, 5, 0], SpeRecord { issue_cycles: Some(5), ..EMPTY });
        check(&[0x9a, 1, 0], SpeRecord { translation_cycles: Some(1), ..EMPTY });
        // Events in one, two, four and eight bytes.
        check(&[0x42, 0x1e], SpeRecord { events: Some(0x1e), ..EMPTY });
        check(&[0x52, 0x16, 0x03], SpeRecord { events: Some(0x316), ..EMPTY });
        check(&[0x62, 2, 0, 4, 0], SpeRecord { events: Some(0x4_0002), ..EMPTY });
        check(&[0x72, 2, 0, 0, 0, 0, 0, 0, 1], SpeRecord { events: Some(1 << 56 | 2), ..EMPTY });
        // Source in one and two bytes; context of EL1 and EL2.
        check(&[0x43, 0x0b], SpeRecord { source: Some(0xb), ..EMPTY });
        check(&[0x53, 0x0e, 0], SpeRecord { source: Some(0xe), ..EMPTY });
        check(&[0x64, 0x39, 0x30, 0, 0], SpeRecord { context: Some(12345), ..EMPTY });
        check(&[0x65, 7, 0, 0, 0], SpeRecord { context: Some(7), ..EMPTY });
        // Operations: other, load, store, store of vectors, atomic, exclusive load, branch.
        for (header, payload, kind) in [
            (0x48, 0x00, AccessKind::NONE),
            (0x49, 0x00, AccessKind::LOAD),
            (0x49, 0x01, AccessKind::STORE),
            (0x49, 0x05, AccessKind::STORE),
            (0x49, 0x06, AccessKind::LOAD_STORE.atomic()),
            (0x49, 0x0a, AccessKind::LOAD.atomic()),
            (0x49, 0x12, AccessKind::LOAD),
            (0x4a, 0x01, AccessKind::NONE),
        ] {
            check(&[header, payload], SpeRecord { kind: Some(kind), ..EMPTY });
        }
        // Passed over: padding, a branch's target, an extended counter.
        check(&[0, 0, 0x49, 0, 0], SpeRecord { kind: Some(AccessKind::LOAD), ..EMPTY });
        check(&[0xb1, 8, 0, 0, 0, 0, 0, 0, 0, 0x42, 2], SpeRecord { events: Some(2), ..EMPTY });
        check(&[0x21, 0x98, 9, 0, 0x98, 3, 0], SpeRecord { total_cycles: Some(3), ..EMPTY });
    }

    #[test]
    fn records_end_with_a_time_or_by_themselves() {
        let bytes = [
            0x49, 0x00, 0x98, 7, 0, 0x71, 1, 2, 0, 0, 0, 0, 0, 0, // a load, and the time
            0x00, 0x00, 0x01, // padding, and an end of nothing
            0x49, 0x01, 0x01, // a store
        ];
        let load = SpeRecord { kind: Some(AccessKind::LOAD), total_cycles: Some(7), timestamp: Some(0x201), ..EMPTY };
        let store = SpeRecord { kind: Some(AccessKind::STORE), ..EMPTY };
        assert_eq!(records(&bytes), [Ok(load), Ok(store)]);
    }

    /// What comes after what is no packet is not guessed.
    #[test]
    fn garbage_ends_it() {
        let garbage = [0x49, 0x00, 0x01, 0xff, 0xff, 0x49, 0x00, 0x01];
        let found = records(&garbage);
        assert!(found.len() == 2 && found[0].is_ok() && found[1].is_err(), "{found:?}");
        for byte in 0..=255_u8 {
            let _ = records(&[byte; 64]);
        }
    }

    /// Padding up to an alignment, which counts from where the area begins.
    #[test]
    fn alignment_counts_from_the_areas_begin() {
        // At offset 12: up to 16, of an alignment of 8.
        let bytes = [0x22, 0x00, 0xee, 0xee, 0x49, 0x01, 0x01];
        let found: Vec<_> = SpeRecords::new(&bytes, 12).collect();
        assert_eq!(found, [Ok(SpeRecord { kind: Some(AccessKind::STORE), ..EMPTY })]);
    }

    #[test]
    fn levels_by_events_and_by_source() {
        use spe_event::*;
        const N1: u64 = 0x413f_d0c1;
        let load =
            |events: u64, source| SpeRecord { kind: Some(AccessKind::LOAD), events: Some(events), source, ..EMPTY };
        let level = |events, source, midr| load(events, source).served(midr).level;
        assert_eq!(level(L1D_ACCESS, None, None), Some(MemoryLevel::L1));
        assert_eq!(level(L1D_ACCESS | L1D_REFILL, None, None), None, "not there: where, is not told");
        assert_eq!(level(L1D_ACCESS | L1D_REFILL | LLC_ACCESS, None, None), Some(MemoryLevel::L3));
        assert_eq!(level(L1D_ACCESS | L1D_REFILL | LLC_ACCESS | LLC_MISS, None, None), None);
        assert_eq!(level(REMOTE_ACCESS | LLC_ACCESS, None, None), None);
        let sources = [0x0, 0x8, 0x9, 0xb, 0xd, 0xe, 0x5].map(|source| level(0, Some(source), Some(N1)));
        use MemoryLevel::{L1, L2, L3, LocalDram, RemoteCache};
        assert_eq!(
            sources,
            [Some(L1), Some(L2), Some(RemoteCache), Some(L3), Some(RemoteCache), Some(LocalDram), None]
        );
        assert_eq!(level(L1D_ACCESS, Some(0xe), Some(0x4800_d010)), Some(L1), "another maker's numbers");
        let served = SpeRecord { total_cycles: Some(300), ..load(TLB_ACCESS | TLB_WALK, None) }.served(None);
        assert_eq!((served.latency_cycles, served.translation), (Some(300), Some(Translation::Walk)));
        assert_eq!(load(TLB_ACCESS, None).served(None).translation, Some(Translation::Tlb));
        let branch = SpeRecord { kind: Some(AccessKind::NONE), total_cycles: Some(9), ..EMPTY };
        assert_eq!(branch.served(None), Served::UNKNOWN);
    }
}
