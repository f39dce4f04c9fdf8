//! What a machine is: caches, data TLBs, memories, and which cores share what.
//!
//! A [`Machine`] is plain data. It comes of a description in TOML ([`Machine::parse`]), by name ([`Machine::named`]), or of
//! what a kernel tells of this machine ([`host`]), and is completed by what is [`measured`](Machine::measured) on it.
//! [`Machine::to_toml`] writes a description. [`Machine::check`] says what is wrong with one.

mod check;
pub mod host;
mod measured;
mod named;
mod parse;
pub mod size;
mod written;

pub use check::{MOST_CORES, MOST_LINES};
pub use measured::Measured;
pub use named::NAMES;

/// Bytes of a page that is not said to be large.
pub const SMALL_PAGE_BYTES: u64 = 4 << 10;
/// Bytes of a large page.
pub const LARGE_PAGE_BYTES: u64 = 2 << 20;

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What it is called in reports.
    pub name: String,
    /// Cores, numbered from 0.
    pub cores: u32,
    /// All caches, in any order.
    pub caches: Vec<Cache>,
    /// Data TLBs, in any order. None: addresses are translated at no cost, and nothing is counted.
    pub tlbs: Vec<Tlb>,
    /// Cycles of a walk of the page table, when no TLB holds the page.
    pub page_walk_cycles: u32,
    /// Memories; at least one.
    pub memories: Vec<Memory>,
    /// Cycles until a line comes from another core's cache that has changed it. `None`: as long as from the cache or
    /// memory that it is found in after it was written back.
    pub transfer_cycles: Option<u32>,
    /// How accesses are counted.
    pub counting: Counting,
}

/// One kind of cache: as many of them, all alike, as its [`Sharing`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// What it is called: `L1d`.
    pub name: String,
    /// How far it is from the core, from 1.
    pub level: u8,
    /// What it holds.
    pub holds: Holds,
    /// Its size.
    pub bytes: u64,
    /// Bytes of a line: a power of two, the same in all caches.
    pub line_bytes: u32,
    /// Lines of a set. The number of sets, `bytes / line_bytes / ways`, need not be a power of two: a line's set is its
    /// number modulo that.
    pub ways: u32,
    /// Cycles of an access that is served here, all told.
    pub latency_cycles: u32,
    /// Which cores have which of them.
    pub sharing: Sharing,
    /// What it holds of what nearer caches hold.
    pub inclusion: Inclusion,
    /// What makes room.
    pub replacement: Replacement,
    /// What it fetches unasked.
    pub prefetch: Prefetch,
}

impl Cache {
    /// Lines of each.
    pub fn lines(&self) -> u64 {
        self.bytes / u64::from(self.line_bytes.max(1))
    }

    /// Sets of each.
    pub fn sets(&self) -> u64 {
        self.lines() / u64::from(self.ways.max(1))
    }
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Data only.
    Data,
    /// Instructions only.
    Instructions,
    /// Both.
    Unified,
}

/// Which cores have which cache of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// For each core, the number of its cache, from 0.
    pub cache_of_core: Vec<u32>,
}

impl Sharing {
    /// Neighbouring cores have one together, so many each.
    pub fn groups(cores: u32, of: u32) -> Self {
        Self { cache_of_core: (0..cores).map(|core| core / of.max(1)).collect() }
    }

    /// How many caches there are.
    pub fn caches(&self) -> u32 {
        self.cache_of_core.iter().max().map_or(0, |last| last + 1)
    }
}

/// What a cache holds of what the nearer caches of its cores hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inclusion {
    /// All of it: what leaves this cache leaves them, too.
    Inclusive,
    /// None of it: it takes in what leaves the last of them, and gives up what goes back.
    Exclusive,
    /// Neither: what misses fills it, and it loses lines on its own.
    #[default]
    Neither,
}

/// What makes room for a line in a full set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacement {
    /// The least recently used line.
    #[default]
    Lru,
    /// The line that the bits of a binary tree lead to; each access turns those on its way away from it.
    TreePlru,
    /// A line by chance; the same seed makes the same choices.
    Random {
        /// Where chance begins.
        seed: u64,
    },
    /// Static re-reference interval prediction with two bits (SRRIP-HP; Jaleel et al., ISCA 2010).
    Rrip,
}

/// What a cache fetches unasked. It is asked where a line misses, and where one is used first that was fetched unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefetch {
    /// Nothing.
    #[default]
    None,
    /// The line behind.
    NextLine,
    /// The line as far away again as this is from the one before with the same key, once two such distances were the same.
    Stride,
}

/// One kind of data TLB; each core has its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tlb {
    /// What it is called: `DTLB`.
    pub name: String,
    /// How far it is from the core, from 1. Two of a level hold pages of different sizes.
    pub level: u8,
    /// Pages that it holds.
    pub entries: u32,
    /// Entries of a set.
    pub ways: u32,
    /// Cycles that an access takes longer when its page is found here.
    pub latency_cycles: u32,
    /// Whether it holds pages of 4 KiB.
    pub small_pages: bool,
    /// Whether it holds pages of 2 MiB.
    pub large_pages: bool,
}

/// A memory: a NUMA node, or one without cores, as a scratchpad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What it is called.
    pub name: String,
    /// How much fits; `None`: all.
    pub bytes: Option<u64>,
    /// Cores that it is near to. Pages that they touch first live here while there is room.
    pub cores: Vec<u32>,
    /// Cycles of an access that is served here, all told: from the cores near to each memory, in their order.
    pub latency_cycles: Vec<u32>,
}

/// How accesses are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// Each line that an access touches is looked up by itself; a modification is a load, then a store.
    #[default]
    Lines,
    /// As Cachegrind does: an access that straddles two lines is one, and misses once where either line does; both are
    /// looked up at the next level then. A modification is a load.
    Cachegrind,
}

/// What is wrong with a machine, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MachineError(pub(crate) String);

/// What cores of the last ten years have: TLBs of so many entries and ways, and cycles that the second one takes longer.
const USUAL_TLBS: [(&str, u8, u32, u32, u32); 2] = [("DTLB", 1, 64, 4, 0), ("STLB", 2, 1536, 12, 7)];
/// Cycles of a walk through page tables that are in caches; in virtual machines two to three times as many.
const USUAL_PAGE_WALK_CYCLES: u32 = 40;

impl Machine {
    /// The same with usual TLBs for data, where nobody said which it has, and it counts as machines do.
    #[must_use]
    pub fn with_usual_tlbs(mut self) -> Self {
        if self.tlbs.is_empty() && self.counting == Counting::Lines {
            let tlb = |(name, level, entries, ways, latency_cycles): (&str, u8, u32, u32, u32)| Tlb {
                name: name.to_owned(),
                level,
                entries,
                ways,
                latency_cycles,
                small_pages: true,
                large_pages: true,
            };
            self.tlbs = USUAL_TLBS.map(tlb).to_vec();
            self.page_walk_cycles = USUAL_PAGE_WALK_CYCLES;
        }
        self
    }

    /// The caches that an access passes, nearest first: those of data, or those of instructions.
    pub fn path(&self, instructions: bool) -> Vec<usize> {
        let other = if instructions { Holds::Data } else { Holds::Instructions };
        let mut path: Vec<usize> = (0..self.caches.len()).filter(|&cache| self.caches[cache].holds != other).collect();
        path.sort_by_key(|&cache| self.caches[cache].level);
        path
    }

    /// Bytes of a line.
    pub fn line_bytes(&self) -> u32 {
        self.caches.first().map_or(1, |cache| cache.line_bytes)
    }

    /// The core that a thread runs on: that of its number, modulo all.
    #[inline]
    pub fn core_of(&self, thread: u32) -> u32 {
        if thread < self.cores { thread } else { thread % self.cores }
    }

    /// The memories that some core is near to, each once.
    pub fn near_memories(&self) -> Vec<u32> {
        let mut near: Vec<u32> = self.memory_of_core().into_iter().map(|memory| memory as u32).collect();
        near.sort_unstable();
        near.dedup();
        near
    }

    /// The memory that each core is near to.
    pub fn memory_of_core(&self) -> Vec<usize> {
        let near = |core| self.memories.iter().position(|memory| memory.cores.contains(&core)).unwrap_or(0);
        (0..self.cores).map(near).collect()
    }
}
