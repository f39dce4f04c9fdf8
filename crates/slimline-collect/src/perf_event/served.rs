//! What a sample's weight, data source and pages tell of how its access was served.

use slimline_trace::address::PhysicalAddress;
use slimline_trace::served::{MemoryLevel, Served, Snoop, Translation};

use super::data_source::{self, DataSource, Level, LevelKind, TlbLookup};
use super::sample::{Sample, Weight};

impl Sample<'_> {
    /// How the access was served, as far as the sample tells.
    pub fn served(&self) -> Served {
        let source = self.data_source.unwrap_or_default();
        let (latency, instruction, retire) = match self.weight {
            None => (0, 0, 0),
            Some(Weight::One(cycles)) => (u32::try_from(cycles).unwrap_or(u32::MAX), 0, 0),
            Some(Weight::Three { access, instruction, retire }) => (access, instruction, retire),
        };
        // The kernel writes 0 for what the hardware does not tell.
        Served {
            latency_cycles: Some(latency).filter(|&cycles| cycles > 0),
            instruction_cycles: Some(instruction).filter(|&cycles| cycles > 0),
            retire_cycles: Some(retire).filter(|&cycles| cycles > 0),
            level: source.level().and_then(memory_level),
            hops: source.hops(),
            snoop: source.snoop().map(snoop),
            translation: source.tlb().and_then(translation),
            locked: source.locked(),
            physical_address: self.physical_address.filter(|&address| address != 0).map(PhysicalAddress),
            page_bytes: self.data_page_bytes.filter(|&bytes| bytes != 0),
        }
    }

    /// The data source's word; all of it is unknown where the event does not ask for it.
    pub fn source(&self) -> DataSource {
        self.data_source.unwrap_or_default()
    }
}

/// Where the data came from; `None` where no more is told than where it was not.
fn memory_level(level: Level) -> Option<MemoryLevel> {
    if level.is_miss {
        return None;
    }
    let is_cache = matches!(
        level.kind,
        LevelKind::L0 | LevelKind::L1 | LevelKind::L2 | LevelKind::L3 | LevelKind::L4 | LevelKind::AnyCache
    );
    Some(match level.kind {
        _ if is_cache && level.is_remote => MemoryLevel::RemoteCache,
        // What is nearer than the first level is one more of it.
        LevelKind::L0 | LevelKind::L1 => MemoryLevel::L1,
        LevelKind::LineFillBuffer | LevelKind::L2MissBuffer => MemoryLevel::LineFillBuffer,
        LevelKind::L2 => MemoryLevel::L2,
        LevelKind::L3 => MemoryLevel::L3,
        LevelKind::L4 | LevelKind::MemorySideCache => MemoryLevel::L4,
        LevelKind::AnyCache => return None,
        LevelKind::Ram if level.is_remote => MemoryLevel::RemoteDram,
        LevelKind::Ram => MemoryLevel::LocalDram,
        LevelKind::PersistentMemory => MemoryLevel::Pmem,
        LevelKind::Cxl => MemoryLevel::Cxl,
        LevelKind::Io => MemoryLevel::Io,
        LevelKind::Uncached => MemoryLevel::Uncached,
    })
}

fn snoop(snoop: data_source::Snoop) -> Snoop {
    match snoop {
        data_source::Snoop::None => Snoop::None,
        data_source::Snoop::Miss => Snoop::Miss,
        data_source::Snoop::Hit => Snoop::Hit,
        data_source::Snoop::Forward => Snoop::Forward,
        data_source::Snoop::Peer => Snoop::Peer,
        data_source::Snoop::HitModified => Snoop::HitModified,
    }
}

fn translation(tlb: TlbLookup) -> Option<Translation> {
    match tlb {
        TlbLookup { fault: true, .. } => Some(Translation::Fault),
        TlbLookup { walker: true, .. } | TlbLookup { miss: true, l2: true, .. } => Some(Translation::Walk),
        // A miss of the first level says nothing of the second.
        TlbLookup { miss: true, .. } => None,
        TlbLookup { hit: true, l1: true, l2: false, .. } => Some(Translation::L1),
        TlbLookup { hit: true, l1: false, l2: true, .. } => Some(Translation::L2),
        TlbLookup { hit: true, .. } => Some(Translation::Tlb),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: u64) -> Served {
        Sample { data_source: Some(DataSource(word)), ..Sample::default() }.served()
    }

    #[test]
    fn a_xeons_samples() {
        // perf script: LVL L3 or L3 hit|SNP None|TLB L2 miss|LCK No, weight 240
        let weight = Some(Weight::Three { access: 240, instruction: 0, retire: 0 });
        let sample = Sample { weight, data_source: Some(DataSource(0x106_5010_0842)), ..Sample::default() };
        let expected = Served {
            latency_cycles: Some(240),
            level: Some(MemoryLevel::L3),
            snoop: Some(Snoop::None),
            translation: Some(Translation::Walk),
            locked: Some(false),
            ..Served::UNKNOWN
        };
        assert_eq!(sample.served(), expected);
        // LVL LFB/MAB hit, TLB L1 or L2 hit
        assert_eq!(of(0x118_6810_0242).level, Some(MemoryLevel::LineFillBuffer));
        assert_eq!(of(0x118_6810_0242).translation, Some(Translation::Tlb));
    }

    #[test]
    fn levels_near_and_far() {
        let newer = |number: u64, is_remote: bool| of(number << 33 | u64::from(is_remote) << 37).level;
        assert_eq!(newer(1, false), Some(MemoryLevel::L1));
        assert_eq!(newer(3, false), Some(MemoryLevel::L3));
        assert_eq!(newer(3, true), Some(MemoryLevel::RemoteCache));
        assert_eq!(newer(11, true), Some(MemoryLevel::RemoteCache));
        assert_eq!(newer(11, false), None);
        assert_eq!(newer(13, false), Some(MemoryLevel::LocalDram));
        assert_eq!(newer(13, true), Some(MemoryLevel::RemoteDram));
        assert_eq!(newer(6, false), Some(MemoryLevel::L4));
        assert_eq!(newer(9, true), Some(MemoryLevel::Cxl));
        assert_eq!(of(0), Served::UNKNOWN);
        let missed = (0x4 | 0x8) << 5;
        assert_eq!(of(missed).level, None, "not in the first level: where, is not told");
    }

    #[test]
    fn zeros_are_unknown() {
        let weight = Some(Weight::One(0));
        let sample = Sample { weight, physical_address: Some(0), data_page_bytes: Some(0), ..Sample::default() };
        assert_eq!(sample.served(), Served::UNKNOWN);
        let sample = Sample { weight: Some(Weight::One(1 << 40)), data_page_bytes: Some(4096), ..Sample::default() };
        assert_eq!((sample.served().latency_cycles, sample.served().page_bytes), (Some(u32::MAX), Some(4096)));
    }
}
