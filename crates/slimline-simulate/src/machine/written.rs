//! A machine's description in TOML, as [`Machine::parse`] reads it.

use super::parse::{
    CacheText, CountingText, HoldsText, InclusionText, Latency, MachineText, MemoryText, Number, PrefetchText,
    ReplacementText, SharingText, TlbText,
};
use super::size::text_of;
use super::{
    Cache, Counting, Holds, Inclusion, LARGE_PAGE_BYTES, Machine, Memory, Prefetch, Replacement, SMALL_PAGE_BYTES,
    Sharing, Tlb,
};

impl Machine {
    /// Its description, which [`Machine::parse`] makes the same machine of.
    pub fn to_toml(&self) -> String {
        let text = MachineText {
            name: self.name.clone(),
            cores: self.cores,
            page_walk: self.page_walk_cycles,
            transfer: self.transfer_cycles,
            counting: match self.counting {
                Counting::Lines => CountingText::Lines,
                Counting::Cachegrind => CountingText::Cachegrind,
            },
            cache: self.caches.iter().map(|cache| cache_text(cache, self.cores)).collect(),
            tlb: self.tlbs.iter().map(tlb_text).collect(),
            memory: self.memories.iter().map(memory_text).collect(),
        };
        toml::to_string(&text).expect("texts, numbers and lists of them are TOML")
    }
}

fn cache_text(cache: &Cache, cores: u32) -> CacheText {
    let (replacement, seed) = match cache.replacement {
        Replacement::Lru => (ReplacementText::Lru, None),
        Replacement::TreePlru => (ReplacementText::TreePlru, None),
        Replacement::Random { seed } => (ReplacementText::Random, Some(seed)),
        Replacement::Rrip => (ReplacementText::Rrip, None),
    };
    CacheText {
        name: cache.name.clone(),
        level: cache.level,
        holds: match cache.holds {
            Holds::Data => HoldsText::Data,
            Holds::Instructions => HoldsText::Instructions,
            Holds::Unified => HoldsText::Both,
        },
        size: Number::Text(text_of(cache.bytes)),
        line: cache.line_bytes,
        ways: Number::Plain(cache.ways.into()),
        latency: cache.latency_cycles,
        shared_by: sharing_text(&cache.sharing, cores),
        inclusion: match cache.inclusion {
            Inclusion::Inclusive => InclusionText::Inclusive,
            Inclusion::Exclusive => InclusionText::Exclusive,
            Inclusion::Neither => InclusionText::Neither,
        },
        replacement,
        seed,
        prefetch: match cache.prefetch {
            Prefetch::None => PrefetchText::None,
            Prefetch::NextLine => PrefetchText::NextLine,
            Prefetch::Stride => PrefetchText::Stride,
        },
    }
}

/// How many neighbours have one together, where that says it all.
fn sharing_text(sharing: &Sharing, cores: u32) -> SharingText {
    let of = sharing.cache_of_core.iter().take_while(|&&cache| cache == 0).count() as u32;
    if *sharing == Sharing::groups(cores, of) {
        return if of == cores { SharingText::All("all".to_owned()) } else { SharingText::Cores(of) };
    }
    let of_cache = |cache: u32| {
        let cores = (0..).zip(&sharing.cache_of_core).filter(|(_, of)| **of == cache);
        list(&cores.map(|(core, _): (u32, _)| core).collect::<Vec<_>>())
    };
    SharingText::Lists((0..sharing.caches()).map(of_cache).collect())
}

fn tlb_text(tlb: &Tlb) -> TlbText {
    let pages = [(tlb.small_pages, SMALL_PAGE_BYTES), (tlb.large_pages, LARGE_PAGE_BYTES)];
    let held = |(is_held, bytes): (bool, u64)| is_held.then(|| Number::Text(text_of(bytes)));
    TlbText {
        name: tlb.name.clone(),
        level: tlb.level,
        entries: tlb.entries,
        ways: Number::Plain(tlb.ways.into()),
        latency: tlb.latency_cycles,
        pages: pages.into_iter().filter_map(held).collect(),
    }
}

fn memory_text(memory: &Memory) -> MemoryText {
    let latency = match memory.latency_cycles[..] {
        [cycles] => Latency::One(cycles),
        _ => Latency::FromEach(memory.latency_cycles.clone()),
    };
    // Left out where there is one memory, which is near to all.
    let cores = (!memory.cores.is_empty()).then(|| list(&memory.cores));
    MemoryText {
        name: memory.name.clone(),
        size: memory.bytes.map(|bytes| Number::Text(text_of(bytes))),
        cores,
        latency,
    }
}

/// `0-3,8` of cores in their order.
fn list(cores: &[u32]) -> String {
    let runs = cores.chunk_by(|before, core| before + 1 == *core);
    let run = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(u32::to_string).collect(),
    };
    runs.map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_ones_are_written_and_read() {
        for name in super::super::NAMES {
            let machine = Machine::named(name).unwrap();
            assert_eq!(Machine::parse(&machine.to_toml()).unwrap(), machine, "{name}");
        }
    }

    #[test]
    fn cores_are_listed_by_runs() {
        assert_eq!(list(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(list(&[5]), "5");
        assert_eq!(list(&[0, 2, 4, 5]), "0,2,4-5");
    }
}
