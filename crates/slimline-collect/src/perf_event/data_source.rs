//! `perf_mem_data_src`: what the hardware tells of an access, in the kernel's one encoding for all processors.
//!
//! The kernel names the memory level twice: in the older bits `mem_lvl`, which know neither persistent memory nor CXL,
//! and in `mem_lvl_num` with `mem_remote` and `mem_hops`, which count where they are there.

use slimline_trace::access::AccessKind;

/// The word as it is recorded (`PERF_SAMPLE_DATA_SRC`). Its fields are at the same bits in both byte orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataSource(pub u64);

/// What the instruction did (`mem_op`); several may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// It loads.
    pub loads: bool,
    /// It stores.
    pub stores: bool,
    /// It prefetches.
    pub prefetches: bool,
    /// It was fetched itself.
    pub executes: bool,
}

impl Operation {
    /// As accesses say it. Prefetching is loading: the line moves all the same.
    pub fn kind(self) -> AccessKind {
        let load = if self.loads || self.prefetches { AccessKind::LOAD.bits() } else { 0 };
        let store = if self.stores { AccessKind::STORE.bits() } else { 0 };
        AccessKind::from_bits(load | store)
    }
}

/// A level of the memory hierarchy, by the kernel's names (`mem_lvl_num`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LevelKind {
    /// Nearer than the first level, where processors have that.
    L0,
    /// First level.
    L1,
    /// Second level.
    L2,
    /// Third level.
    L3,
    /// Fourth level.
    L4,
    /// A line on its way to the first level.
    LineFillBuffer,
    /// A line on its way to the second level.
    L2MissBuffer,
    /// A cache on the memory's side.
    MemorySideCache,
    /// A cache; which is not told.
    AnyCache,
    /// DRAM.
    Ram,
    /// Persistent memory.
    PersistentMemory,
    /// Memory behind CXL.
    Cxl,
    /// A device.
    Io,
    /// Memory that is not cached.
    Uncached,
}

/// Where the data was, or was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Which level.
    pub kind: LevelKind,
    /// It was not there: farther away, and no more is told.
    pub is_miss: bool,
    /// The level is another core's, socket's or node's; [`DataSource::hops`] may say which.
    pub is_remote: bool,
}

/// What was found in other caches (`mem_snoop`, `mem_snoopx`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Snoop {
    /// They were not asked.
    None,
    /// None had it.
    Miss,
    /// One had it.
    Hit,
    /// One had it and forwarded it.
    Forward,
    /// It came from a peer.
    Peer,
    /// One had it modified.
    HitModified,
}

/// How the address was translated (`mem_dtlb`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlbLookup {
    /// A TLB had it.
    pub hit: bool,
    /// One that was asked had it not.
    pub miss: bool,
    /// About the first level.
    pub l1: bool,
    /// About the second level.
    pub l2: bool,
    /// The hardware walked the page tables.
    pub walker: bool,
    /// The kernel had to.
    pub fault: bool,
}

/// What held a load up (`mem_blk`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    /// An earlier store's data could not be forwarded.
    pub data: bool,
    /// An earlier store's address conflicted.
    pub address: bool,
}

const OP_NA: u64 = 1;
const LVL_NA: u64 = 1;
const LVL_MISS: u64 = 4;
const LVL_NUM_NA: u64 = 0xf;
const SNOOP_NA: u64 = 1;
const LOCK_NA: u64 = 1;
const TLB_NA: u64 = 1;
const BLOCKED_NA: u64 = 1;

/// Levels by bit of `mem_lvl`, nearest first; whether they are remote.
const OLDER_LEVELS: [(u64, LevelKind, bool); 11] = [
    (0x8, LevelKind::L1, false),
    (0x10, LevelKind::LineFillBuffer, false),
    (0x20, LevelKind::L2, false),
    (0x40, LevelKind::L3, false),
    (0x80, LevelKind::Ram, false),
    (0x400, LevelKind::AnyCache, true),
    (0x800, LevelKind::AnyCache, true),
    (0x100, LevelKind::Ram, true),
    (0x200, LevelKind::Ram, true),
    (0x1000, LevelKind::Io, false),
    (0x2000, LevelKind::Uncached, false),
];

impl DataSource {
    const fn bits(self, first: u32, width: u32) -> u64 {
        self.0 >> first & ((1 << width) - 1)
    }

    /// What the instruction did; `None` where that is not told.
    pub fn operation(self) -> Option<Operation> {
        let bits = self.bits(0, 5);
        let told = Operation {
            loads: bits & 2 != 0,
            stores: bits & 4 != 0,
            prefetches: bits & 8 != 0,
            executes: bits & 16 != 0,
        };
        (bits & OP_NA == 0 && bits != 0).then_some(told)
    }

    /// Where the data came from; `None` where that is not told.
    pub fn level(self) -> Option<Level> {
        let older = self.bits(5, 14);
        let is_miss = older & LVL_MISS != 0;
        let kind = match self.bits(33, 4) {
            // Kernels before 4.14 leave the newer field 0, processors without such a level say "not available".
            0 | LVL_NUM_NA => return self.older_level(),
            1 => LevelKind::L1,
            2 => LevelKind::L2,
            3 => LevelKind::L3,
            4 => LevelKind::L4,
            5 => LevelKind::L2MissBuffer,
            6 => LevelKind::MemorySideCache,
            7 => LevelKind::L0,
            8 => LevelKind::Uncached,
            9 => LevelKind::Cxl,
            10 => LevelKind::Io,
            11 => LevelKind::AnyCache,
            12 => LevelKind::LineFillBuffer,
            13 => LevelKind::Ram,
            _ => LevelKind::PersistentMemory,
        };
        Some(Level { kind, is_miss, is_remote: self.is_remote() })
    }

    fn older_level(self) -> Option<Level> {
        let bits = self.bits(5, 14);
        if bits & LVL_NA != 0 {
            return None;
        }
        let is_miss = bits & LVL_MISS != 0;
        // Some processors set several, where they can't tell: then it is the farthest of a hit, the farthest missed.
        let told = OLDER_LEVELS.iter().rfind(|(bit, ..)| bits & bit != 0);
        told.map(|&(_, kind, is_remote)| Level { kind, is_miss, is_remote: is_remote || self.is_remote() })
    }

    fn is_remote(self) -> bool {
        self.bits(37, 1) != 0
    }

    /// How far away the level is: 1 another core of the node, 2 another node of the socket, 3 another socket of the
    /// board, 4 another board; `None` where that is not told.
    pub fn hops(self) -> Option<u8> {
        Some(self.bits(43, 3) as u8).filter(|&hops| hops != 0)
    }

    /// What was found in other caches; `None` where that is not told.
    pub fn snoop(self) -> Option<Snoop> {
        let (bits, more) = (self.bits(19, 5), self.bits(38, 2));
        if bits & 0x10 != 0 {
            Some(Snoop::HitModified)
        } else if more & 2 != 0 {
            Some(Snoop::Peer)
        } else if more & 1 != 0 {
            Some(Snoop::Forward)
        } else if bits & SNOOP_NA != 0 {
            None
        } else if bits & 4 != 0 {
            Some(Snoop::Hit)
        } else if bits & 8 != 0 {
            Some(Snoop::Miss)
        } else {
            (bits & 2 != 0).then_some(Snoop::None)
        }
    }

    /// Whether the instruction was locked; `None` where that is not told.
    pub fn locked(self) -> Option<bool> {
        let bits = self.bits(24, 2);
        // A kernel that tells nothing leaves the whole word 0; one that tells of others says "not available".
        (bits & LOCK_NA == 0 && self.0 != 0).then_some(bits & 2 != 0)
    }

    /// How the address was translated; `None` where that is not told.
    pub fn tlb(self) -> Option<TlbLookup> {
        let bits = self.bits(26, 7);
        let told = TlbLookup {
            hit: bits & 2 != 0,
            miss: bits & 4 != 0,
            l1: bits & 8 != 0,
            l2: bits & 0x10 != 0,
            walker: bits & 0x20 != 0,
            fault: bits & 0x40 != 0,
        };
        (bits & TLB_NA == 0 && bits != 0).then_some(told)
    }

    /// What held the load up; `None` where that is not told.
    pub fn blocked(self) -> Option<Blocked> {
        let bits = self.bits(40, 3);
        let told = Blocked { data: bits & 2 != 0, address: bits & 4 != 0 };
        (bits & BLOCKED_NA == 0 && bits != 0).then_some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of the recorded file, and what `perf script -F data_src` says of them.
    #[test]
    fn words_that_a_xeon_recorded() {
        let at = |kind| Some(Level { kind, is_miss: false, is_remote: false });
        let hit = TlbLookup { hit: true, l1: true, l2: true, ..TlbLookup::default() };
        for (word, level, snoop, tlb, locked) in [
            // |OP LOAD|LVL LFB/MAB or LFB/MAB hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A
            (0x118_6810_0242, at(LevelKind::LineFillBuffer), Some(Snoop::None), Some(hit), Some(false)),
            // |OP LOAD|LVL L1 or L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A
            (0x102_6810_0142, at(LevelKind::L1), Some(Snoop::None), Some(hit), Some(false)),
            // |OP LOAD|LVL L1 or L1 hit|SNP None|TLB L1 or L2 hit|LCK Yes|BLK  N/A
            (0x102_6a10_0142, at(LevelKind::L1), Some(Snoop::None), Some(hit), Some(true)),
            // |OP LOAD|LVL L2 or L2 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A
            (0x104_6810_0442, at(LevelKind::L2), Some(Snoop::None), Some(hit), Some(false)),
            // |OP LOAD|LVL L3 or L3 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A
            (0x106_6810_0842, at(LevelKind::L3), Some(Snoop::None), Some(hit), Some(false)),
        ] {
            let source = DataSource(word);
            assert_eq!(source.operation().map(Operation::kind), Some(AccessKind::LOAD), "{word:#x}");
            assert_eq!(source.level(), level, "{word:#x}");
            assert_eq!(source.snoop(), snoop, "{word:#x}");
            assert_eq!(source.tlb(), tlb, "{word:#x}");
            assert_eq!(source.locked(), locked, "{word:#x}");
            assert_eq!((source.blocked(), source.hops()), (None, None), "{word:#x}");
        }
        // |OP LOAD|LVL L3 or L3 hit|SNP None|TLB L2 miss|LCK No|BLK  N/A
        let missed = DataSource(0x106_5010_0842).tlb();
        assert_eq!(missed, Some(TlbLookup { miss: true, l2: true, ..TlbLookup::default() }));
    }

    #[test]
    fn every_field_by_its_shift() {
        let told = |shift: u32, value: u64| DataSource(value << shift);
        // mem_op
        assert_eq!(told(0, 1).operation(), None);
        assert_eq!(told(0, 4).operation().map(Operation::kind), Some(AccessKind::STORE));
        assert_eq!(told(0, 6).operation().map(Operation::kind), Some(AccessKind::LOAD_STORE));
        assert_eq!(told(0, 8).operation(), Some(Operation { prefetches: true, ..Operation::default() }));
        assert_eq!(told(0, 16).operation(), Some(Operation { executes: true, ..Operation::default() }));
        // mem_lvl alone, as kernels before 4.14 write it
        let older = |bits| told(5, bits).level().map(|level| (level.kind, level.is_miss, level.is_remote));
        assert_eq!(older(0x1), None);
        assert_eq!(older(0x2 | 0x8), Some((LevelKind::L1, false, false)));
        assert_eq!(older(0x4 | 0x8), Some((LevelKind::L1, true, false)));
        assert_eq!(older(0x2 | 0x10), Some((LevelKind::LineFillBuffer, false, false)));
        assert_eq!(older(0x2 | 0x80), Some((LevelKind::Ram, false, false)));
        assert_eq!(older(0x2 | 0x100), Some((LevelKind::Ram, false, true)));
        assert_eq!(older(0x2 | 0x800), Some((LevelKind::AnyCache, false, true)));
        assert_eq!(older(0x2 | 0x1000), Some((LevelKind::Io, false, false)));
        assert_eq!(older(0x2 | 0x2000), Some((LevelKind::Uncached, false, false)));
        // mem_lvl_num counts before mem_lvl; mem_remote and mem_hops beside it
        let newer = |number: u64| DataSource(number << 33 | (0x2 | 0x8) << 5).level().map(|level| level.kind);
        let names = [
            LevelKind::L1,
            LevelKind::L2,
            LevelKind::L3,
            LevelKind::L4,
            LevelKind::L2MissBuffer,
            LevelKind::MemorySideCache,
            LevelKind::L0,
            LevelKind::Uncached,
            LevelKind::Cxl,
            LevelKind::Io,
            LevelKind::AnyCache,
            LevelKind::LineFillBuffer,
            LevelKind::Ram,
            LevelKind::PersistentMemory,
        ];
        for (number, kind) in (1..).zip(names) {
            assert_eq!(newer(number), Some(kind));
        }
        assert_eq!(newer(15), Some(LevelKind::L1), "not available: the older bits");
        let far = DataSource(13 << 33 | 1 << 37 | 3 << 43);
        assert_eq!(far.level(), Some(Level { kind: LevelKind::Ram, is_miss: false, is_remote: true }));
        assert_eq!(far.hops(), Some(3));
        // mem_snoop, mem_snoopx
        let snoops = [(1, None), (2, Some(Snoop::None)), (4, Some(Snoop::Hit)), (8, Some(Snoop::Miss))];
        for (bits, snoop) in snoops.into_iter().chain([(0x10, Some(Snoop::HitModified)), (0, None)]) {
            assert_eq!(told(19, bits).snoop(), snoop);
        }
        assert_eq!(told(38, 1).snoop(), Some(Snoop::Forward));
        assert_eq!(told(38, 2).snoop(), Some(Snoop::Peer));
        // mem_lock
        assert_eq!((told(24, 1).locked(), told(24, 2).locked()), (None, Some(true)));
        assert_eq!((DataSource(0).locked(), DataSource(2).locked()), (None, Some(false)));
        // mem_dtlb
        assert_eq!(told(26, 1).tlb(), None);
        assert_eq!(told(26, 0x22).tlb(), Some(TlbLookup { hit: true, walker: true, ..TlbLookup::default() }));
        assert_eq!(told(26, 0x44).tlb(), Some(TlbLookup { miss: true, fault: true, ..TlbLookup::default() }));
        // mem_blk
        assert_eq!(told(40, 1).blocked(), None);
        assert_eq!(told(40, 6).blocked(), Some(Blocked { data: true, address: true }));
    }
}
