//! AMD instruction-based sampling: the registers of a tagged op, as `ibs_op` events add them to samples
//! (`PERF_SAMPLE_RAW`).
//!
//! ```text
//!   u32 capabilities, then u64: OP_CTL, OP_RIP, OP_DATA, OP_DATA2, OP_DATA3, DC_LIN_AD, DC_PHYS_AD
//!                          [BRN_TARGET with capability 5] [OP_DATA4 with capability 10]
//! ```
//!
//! Bits as in AMD's Processor Programming Reference for family 19h, MSRC001_1033 to 103D.

use slimline_trace::access::AccessKind;
use slimline_trace::address::PhysicalAddress;
use slimline_trace::served::{MemoryLevel, Served, Translation};

use super::fields::{ByteOrder, Fields, Malformed};

/// The processor tells branch targets.
const CAPABILITY_BRANCH_TARGET: u32 = 1 << 5;
/// There is a fourth word of data.
const CAPABILITY_DATA4: u32 = 1 << 10;
/// Data sources are those of Zen 4 and later.
const CAPABILITY_ZEN4: u32 = 1 << 11;

/// A tagged op.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IbsOp {
    capabilities: u32,
    /// `IBS_OP_CTL`.
    pub control: u64,
    rip: u64,
    data: u64,
    data2: u64,
    data3: u64,
    linear_address: u64,
    physical_address: u64,
    branch_target: Option<u64>,
    /// `IBS_OP_DATA4`, of loads that were done again.
    pub data4: Option<u64>,
}

const fn bits(word: u64, first: u32, width: u32) -> u64 {
    word >> first & (u64::MAX >> (64 - width))
}

impl IbsOp {
    /// Decodes the raw data of a sample.
    ///
    /// # Errors
    /// It ends before the registers do.
    pub fn decode(raw: &[u8], order: ByteOrder) -> Result<Self, Malformed> {
        const WITHIN: &str = "IBS registers";
        let mut fields = Fields::new(raw, order);
        let capabilities = fields.u32(WITHIN)?;
        let mut op = Self {
            capabilities,
            control: fields.u64(WITHIN)?,
            rip: fields.u64(WITHIN)?,
            data: fields.u64(WITHIN)?,
            data2: fields.u64(WITHIN)?,
            data3: fields.u64(WITHIN)?,
            linear_address: fields.u64(WITHIN)?,
            physical_address: fields.u64(WITHIN)?,
            ..Self::default()
        };
        if capabilities & CAPABILITY_BRANCH_TARGET != 0 {
            op.branch_target = Some(fields.u64(WITHIN)?);
        }
        if capabilities & CAPABILITY_DATA4 != 0 {
            op.data4 = Some(fields.u64(WITHIN)?);
        }
        Ok(op)
    }

    /// The instruction, if the processor knows it.
    pub fn ip(&self) -> Option<u64> {
        (bits(self.data, 38, 1) == 0).then_some(self.rip)
    }

    /// What the op does to memory.
    pub fn kind(&self) -> AccessKind {
        let kind = AccessKind::from_bits(bits(self.data3, 0, 2) as u8);
        if bits(self.data3, 15, 1) != 0 && kind != AccessKind::NONE { kind.atomic() } else { kind }
    }

    /// The address accessed.
    pub fn address(&self) -> Option<u64> {
        (bits(self.data3, 17, 1) != 0).then_some(self.linear_address)
    }

    /// Size of the access in bytes.
    pub fn bytes(&self) -> Option<u16> {
        let width = bits(self.data3, 22, 4);
        (1..=7).contains(&width).then(|| 1 << (width - 1))
    }

    /// Where the branch went, if the op is one that retired.
    pub fn branch_target(&self) -> Option<u64> {
        self.branch_target.filter(|_| bits(self.data, 37, 1) != 0)
    }

    /// Cycles from the op's tagging to its retiring.
    pub fn tag_to_retire_cycles(&self) -> u16 {
        bits(self.data, 16, 16) as u16
    }

    /// Cycles from its completion to its retiring.
    pub fn complete_to_retire_cycles(&self) -> u16 {
        bits(self.data, 0, 16) as u16
    }

    /// The first-level cache did not have the data.
    pub fn is_miss(&self) -> bool {
        bits(self.data3, 7, 1) != 0
    }

    /// Cycles that a load missed the first-level cache.
    pub fn miss_cycles(&self) -> Option<u16> {
        // Of stores the counter holds nothing.
        let is_load = bits(self.data3, 0, 1) != 0;
        (is_load && self.is_miss()).then(|| bits(self.data3, 32, 16) as u16)
    }

    /// How the access was served; nothing of an op that makes none.
    pub fn served(&self) -> Served {
        if self.kind() == AccessKind::NONE {
            return Served::UNKNOWN;
        }
        let (level, hops) = self.level();
        Served {
            latency_cycles: self.miss_cycles().map(u32::from),
            instruction_cycles: Some(self.tag_to_retire_cycles()).filter(|&cycles| cycles > 0),
            level,
            hops,
            translation: Some(self.translation()).filter(|_| self.address().is_some()),
            locked: Some(bits(self.data3, 15, 1) != 0),
            physical_address: (bits(self.data3, 18, 1) != 0).then_some(PhysicalAddress(self.physical_address)),
            page_bytes: self.page_bytes(),
            ..Served::UNKNOWN
        }
    }

    fn translation(&self) -> Translation {
        match (bits(self.data3, 2, 1), bits(self.data3, 3, 1)) {
            (0, _) => Translation::L1,
            (_, 0) => Translation::L2,
            _ => Translation::Walk,
        }
    }

    /// Size of the page, where a TLB had it.
    fn page_bytes(&self) -> Option<u64> {
        const LARGE: u64 = 2 << 20;
        const HUGE: u64 = 1 << 30;
        let is_set = |bit| bits(self.data3, bit, 1) != 0;
        match self.translation() {
            _ if self.address().is_none() => None,
            Translation::L1 if is_set(5) => Some(HUGE),
            Translation::L1 if is_set(4) => Some(LARGE),
            Translation::L2 if is_set(19) => Some(HUGE),
            Translation::L2 if is_set(6) => Some(LARGE),
            Translation::L1 | Translation::L2 => Some(4096),
            _ => None,
        }
    }

    /// Where a load's data came from, and how far away, as `perf_mem_data_src` counts.
    fn level(&self) -> (Option<MemoryLevel>, Option<u8>) {
        let source = bits(self.data2, 0, 3) | bits(self.data2, 6, 2) << 3;
        let is_remote_node = bits(self.data2, 4, 1) != 0;
        let is_zen4 = self.capabilities & CAPABILITY_ZEN4 != 0;
        // The rest is not valid of accesses that pass the caches by.
        if bits(self.data3, 14, 1) != 0 {
            let is_device = is_zen4 && source == 7;
            return (Some(if is_device { MemoryLevel::Io } else { MemoryLevel::Uncached }), None);
        }
        if !self.is_miss() {
            return (Some(MemoryLevel::L1), None);
        }
        // Erratum 1293: without a miss buffer of its own "the second level had it" may be wrong.
        let shares_buffer = bits(self.data3, 16, 1) != 0;
        if bits(self.data3, 20, 1) == 0 && !shares_buffer {
            return (Some(MemoryLevel::L2), None);
        }
        let is_load = bits(self.data3, 0, 1) != 0;
        let dram = if is_remote_node { MemoryLevel::RemoteDram } else { MemoryLevel::LocalDram };
        let cache_hops = Some(if is_remote_node { 2 } else { 1 });
        let told = match (is_zen4, source) {
            _ if !is_load => None,
            (true, 1) => Some((MemoryLevel::L3, None)),
            (true, 2) | (false, 2 | 4) => Some((MemoryLevel::RemoteCache, cache_hops)),
            (true, 5) => Some((MemoryLevel::RemoteCache, Some(2))),
            (_, 3) => Some((dram, None)),
            (true, 6) => Some((MemoryLevel::Pmem, None)),
            (_, 7) => Some((MemoryLevel::Io, None)),
            (true, 8) => Some((MemoryLevel::Cxl, None)),
            _ => None,
        };
        match told {
            Some((level, hops)) => (Some(level), hops),
            None => (shares_buffer.then_some(MemoryLevel::LineFillBuffer), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers as the kernel copies them.
    fn raw(capabilities: u32, words: &[u64]) -> Vec<u8> {
        capabilities.to_le_bytes().into_iter().chain(words.iter().flat_map(|word| word.to_le_bytes())).collect()
    }

    fn op(capabilities: u32, data: u64, data2: u64, data3: u64) -> IbsOp {
        let words = [0, 0x40_1000, data, data2, data3, 0x7f00_0000_1008, 0x1_2345_6008, 0x40_2000, 0];
        IbsOp::decode(&raw(capabilities, &words), ByteOrder::Little).unwrap()
    }

    /// Ops of a real processor (`tests/tables/ibs.csv`): packed into registers by the manual's table of bits, each comes
    /// back as the row says.
    #[test]
    fn recorded_ops_are_decoded() {
        const DATA: [(&str, u32); 9] = [
            ("IbsCompToRetCtr", 0),
            ("IbsTagToRetCtr", 16),
            ("IbsOpReturn", 34),
            ("IbsOpBrnTaken", 35),
            ("IbsOpBrnMisp", 36),
            ("IbsOpBrnRet", 37),
            ("IbsRipInvalid", 38),
            ("IbsOpBrnFuse", 39),
            ("IbsOpMicrocode", 40),
        ];
        const DATA3: [(&str, u32); 20] = [
            ("IbsLdOp", 0),
            ("IbsStOp", 1),
            ("IbsDcL1tlbMiss", 2),
            ("IbsDcL2TlbMiss", 3),
            ("IbsDcL1TlbHit2M", 4),
            ("IbsDcL1TlbHit1G", 5),
            ("IbsDcL2tlbHit2M", 6),
            ("IbsDcMiss", 7),
            ("IbsDcMissAcc", 8),
            ("IbsDcWcMemAcc", 13),
            ("IbsDcUcMemAcc", 14),
            ("IbsDcLockedOp", 15),
            ("DcMissNoMabAlloc", 16),
            ("IbsDcLinAddrValid", 17),
            ("IbsDcPhyAddrValid", 18),
            ("IbsDcL2tlbHit1G", 19),
            ("IbsL2Miss", 20),
            ("IbsSwPf", 21),
            ("IbsOpDcMissOpenMemReqs", 26),
            ("IbsDcMissLat", 32),
        ];
        let text = include_str!("../../tests/tables/ibs.csv");
        let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let mut rows = 0;
        for line in text.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let cell = |name: &str| cells[header.iter().position(|of| *of == name).unwrap()];
            let number = |name: &str| match cell(name) {
                "-" => 0,
                cell => match cell.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
                    None => cell.parse().unwrap(),
                },
            };
            let pack = |places: &[(&str, u32)]| places.iter().map(|&(name, first)| number(name) << first).sum::<u64>();
            let width = match cell("IbsOpMemWidth") {
                "Reserved-6" => 32,
                width => width.parse::<u64>().unwrap(),
            };
            let encoded = if width == 0 { 0 } else { u64::from(width.ilog2()) + 1 };
            let data3 = pack(&DATA3) | encoded << 22 | number("IbstlbRefillLat") << 48;
            let registers = [
                number("IbsOpMaxCnt[26:0]") >> 4,
                number("IbsOpRip"),
                pack(&DATA),
                0,
                data3,
                number("IbsDcLinAd"),
                number("IbsDcPhysAd"),
                number("IbsBrnTarget"),
            ];
            let op = IbsOp::decode(&raw(CAPABILITY_BRANCH_TARGET, &registers), ByteOrder::Little).unwrap();
            let is_set = |name| number(name) == 1;
            assert_eq!(op.ip(), Some(number("IbsOpRip")));
            assert_eq!((op.kind().loads(), op.kind().stores()), (is_set("IbsLdOp"), is_set("IbsStOp")), "{line}");
            assert_eq!(op.address(), is_set("IbsDcLinAddrValid").then(|| number("IbsDcLinAd")));
            assert_eq!(op.bytes().map_or(0, u64::from), width);
            assert_eq!(u64::from(op.tag_to_retire_cycles()), number("IbsTagToRetCtr"));
            assert_eq!(u64::from(op.complete_to_retire_cycles()), number("IbsCompToRetCtr"));
            assert_eq!(op.branch_target(), is_set("IbsOpBrnRet").then(|| number("IbsBrnTarget")));
            let served = op.served();
            let is_access = is_set("IbsLdOp") || is_set("IbsStOp");
            let missed_load = is_set("IbsLdOp") && is_set("IbsDcMiss");
            assert_eq!(served.latency_cycles, missed_load.then(|| number("IbsDcMissLat") as u32), "{line}");
            assert_eq!(served.level == Some(MemoryLevel::L1), is_access && !is_set("IbsDcMiss"), "{line}");
            let physical = is_access && is_set("IbsDcPhyAddrValid");
            assert_eq!(served.physical_address, physical.then(|| PhysicalAddress(number("IbsDcPhysAd"))));
            rows += 1;
        }
        assert!(rows >= 40, "{rows}");
    }

    #[test]
    fn sources_before_and_since_zen_4() {
        const MISSED_LOAD: u64 = 1 | 1 << 7 | 1 << 20 | 1 << 17;
        let level = |capabilities, source: u64, more: u64| {
            let data2 = source & 7 | source >> 3 << 6 | more;
            let served = op(capabilities, 0, data2, MISSED_LOAD).served();
            (served.level, served.hops)
        };
        const FAR: u64 = 1 << 4;
        assert_eq!(level(0, 2, 0), (Some(MemoryLevel::RemoteCache), Some(1)));
        assert_eq!(level(0, 3, 0), (Some(MemoryLevel::LocalDram), None));
        assert_eq!(level(0, 3, FAR), (Some(MemoryLevel::RemoteDram), None));
        assert_eq!(level(0, 0, 0), (None, None));
        let zen4 = CAPABILITY_ZEN4;
        assert_eq!(level(zen4, 1, 0), (Some(MemoryLevel::L3), None));
        assert_eq!(level(zen4, 2, 0), (Some(MemoryLevel::RemoteCache), Some(1)));
        assert_eq!(level(zen4, 5, FAR), (Some(MemoryLevel::RemoteCache), Some(2)));
        assert_eq!(level(zen4, 6, 0), (Some(MemoryLevel::Pmem), None));
        assert_eq!(level(zen4, 8, 0), (Some(MemoryLevel::Cxl), None));
        assert_eq!(level(zen4, 7, 0), (Some(MemoryLevel::Io), None));

        // No source, but a buffer that another miss has.
        let shared = op(zen4, 0, 0, MISSED_LOAD | 1 << 16).served();
        assert_eq!(shared.level, Some(MemoryLevel::LineFillBuffer));
        let uncached = op(zen4, 0, 0, MISSED_LOAD | 1 << 14).served();
        assert_eq!(uncached.level, Some(MemoryLevel::Uncached));
        let second = op(zen4, 0, 0, MISSED_LOAD & !(1 << 20)).served();
        assert_eq!(second.level, Some(MemoryLevel::L2));
    }

    #[test]
    fn pages_by_the_tlb_that_had_them() {
        const LOAD: u64 = 1 | 1 << 17;
        let pages = |more: u64| {
            let served = op(0, 0, 0, LOAD | more).served();
            (served.translation, served.page_bytes)
        };
        assert_eq!(pages(0), (Some(Translation::L1), Some(4096)));
        assert_eq!(pages(1 << 4), (Some(Translation::L1), Some(2 << 20)));
        assert_eq!(pages(1 << 5), (Some(Translation::L1), Some(1 << 30)));
        assert_eq!(pages(1 << 2 | 1 << 6), (Some(Translation::L2), Some(2 << 20)));
        assert_eq!(pages(1 << 2 | 1 << 3), (Some(Translation::Walk), None));
    }

    #[test]
    fn optional_registers_follow_their_capabilities() {
        let words = [1, 2, 1 << 37, 4, 5, 6, 7, 0x1111, 0x2222];
        let decode = |capabilities, count: usize| {
            IbsOp::decode(&raw(capabilities, &words[..count]), ByteOrder::Little)
                .map(|op| (op.branch_target(), op.data4))
        };
        assert_eq!(decode(0, 7), Ok((None, None)));
        assert_eq!(decode(CAPABILITY_BRANCH_TARGET, 8), Ok((Some(0x1111), None)));
        assert_eq!(decode(CAPABILITY_DATA4, 8), Ok((None, Some(0x1111))));
        assert_eq!(decode(CAPABILITY_BRANCH_TARGET | CAPABILITY_DATA4, 9), Ok((Some(0x1111), Some(0x2222))));
        assert!(decode(CAPABILITY_BRANCH_TARGET, 7).is_err() && decode(0, 6).is_err());
    }
}
