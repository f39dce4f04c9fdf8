//! Machines as TOML.
//!
//! ```toml
//! name = "two cores"
//! cores = 2
//!
//! [[cache]]
//! name = "L1d"
//! level = 1
//! holds = "data"             # or "instructions"; left out: both
//! size = "32 KiB"            # or a number of bytes
//! line = 64
//! ways = 8                   # or "full"
//! latency = 4                # cycles
//!
//! [[cache]]
//! name = "L2"
//! level = 2
//! size = "8 MiB"
//! line = 64
//! ways = 16
//! latency = 40
//! shared_by = "all"          # a number of cores (1 where it is left out), or a list: ["0-3,8", "4-7"]
//! inclusion = "neither"      # "inclusive", "exclusive"
//! replacement = "lru"        # "tree-plru", "rrip", "random" (with `seed`)
//! prefetch = "none"          # "next-line", "stride"
//!
//! [[tlb]]
//! name = "DTLB"
//! level = 1
//! entries = 64
//! ways = 4
//! pages = ["4 KiB", "2 MiB"]
//!
//! [[memory]]
//! name = "DRAM"
//! latency = 200              # several memories: a list, from the cores near to each
//! cores = "all"              # or a list: "0-3"
//! ```

use serde::{Deserialize, Serialize};

use super::size::bytes_of;
use super::{Cache, Counting, Holds, Inclusion, Machine, MachineError, Memory, Prefetch, Replacement, Sharing, Tlb};
use super::{LARGE_PAGE_BYTES, MOST_CORES, SMALL_PAGE_BYTES, named};

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineText {
    pub(super) name: String,
    #[serde(default = "one")]
    pub(super) cores: u32,
    #[serde(default)]
    pub(super) page_walk: u32,
    pub(super) transfer: Option<u32>,
    #[serde(default)]
    pub(super) counting: CountingText,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) cache: Vec<CacheText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tlb: Vec<TlbText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) memory: Vec<MemoryText>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CountingText {
    #[default]
    Lines,
    Cachegrind,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheText {
    pub(super) name: String,
    pub(super) level: u8,
    #[serde(default)]
    pub(super) holds: HoldsText,
    pub(super) size: Number,
    pub(super) line: u32,
    pub(super) ways: Number,
    pub(super) latency: u32,
    #[serde(default = "private")]
    pub(super) shared_by: SharingText,
    #[serde(default)]
    pub(super) inclusion: InclusionText,
    #[serde(default)]
    pub(super) replacement: ReplacementText,
    pub(super) seed: Option<u64>,
    #[serde(default)]
    pub(super) prefetch: PrefetchText,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HoldsText {
    Data,
    Instructions,
    #[default]
    Both,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum InclusionText {
    Inclusive,
    Exclusive,
    #[default]
    Neither,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ReplacementText {
    #[default]
    Lru,
    TreePlru,
    Random,
    Rrip,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PrefetchText {
    #[default]
    None,
    NextLine,
    Stride,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TlbText {
    pub(super) name: String,
    pub(super) level: u8,
    pub(super) entries: u32,
    pub(super) ways: Number,
    #[serde(default)]
    pub(super) latency: u32,
    pub(super) pages: Vec<Number>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryText {
    pub(super) name: String,
    pub(super) size: Option<Number>,
    pub(super) cores: Option<String>,
    pub(super) latency: Latency,
}

/// `4096`, `"4 KiB"`, `"full"`, `"all"`.
#[derive(Deserialize, Serialize)]
#[serde(untagged, expecting = "neither a number nor a text")]
pub(super) enum Number {
    Plain(u64),
    Text(String),
}

#[derive(Deserialize, Serialize)]
#[serde(untagged, expecting = "neither a number of cores, \"all\", nor a list of lists of cores")]
pub(super) enum SharingText {
    Cores(u32),
    All(String),
    Lists(Vec<String>),
}

#[derive(Deserialize, Serialize)]
#[serde(untagged, expecting = "neither a number of cycles nor a list of them")]
pub(super) enum Latency {
    One(u32),
    FromEach(Vec<u32>),
}

fn one() -> u32 {
    1
}

fn private() -> SharingText {
    SharingText::Cores(1)
}

impl Machine {
    /// A machine of its description in TOML.
    ///
    /// # Errors
    /// One line: where the text is no description, its line and why; where the machine can't be, as [`Machine::check`].
    pub fn parse(text: &str) -> Result<Self, MachineError> {
        let told: MachineText = toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            MachineError(format!("line {line}: {}", error.message().lines().next().unwrap_or_default()))
        })?;
        let machine = told.machine()?;
        machine.check()?;
        Ok(machine)
    }

    /// A machine that is known by name, one of [`NAMES`](super::NAMES).
    pub fn named(name: &str) -> Option<Self> {
        named::text(name).map(|text| Self::parse(text).expect("a test parses all of them"))
    }
}

impl MachineText {
    fn machine(self) -> Result<Machine, MachineError> {
        let Self { name, cores, page_walk, transfer, counting, cache, tlb, memory } = self;
        if cores == 0 || cores > MOST_CORES {
            return wrong(format!("cores = {cores}: not 1 to {MOST_CORES}"));
        }
        let memories = memory.len();
        Ok(Machine {
            name,
            cores,
            caches: each("cache", cache, |told| &told.name, |told| told.cache(cores))?,
            tlbs: each("TLB", tlb, |told| &told.name, TlbText::tlb)?,
            page_walk_cycles: page_walk,
            memories: each("memory", memory, |told| &told.name, |told| told.memory(cores, memories))?,
            transfer_cycles: transfer,
            counting: match counting {
                CountingText::Lines => Counting::Lines,
                CountingText::Cachegrind => Counting::Cachegrind,
            },
        })
    }
}

/// Makes something of each; an error begins with what it is of.
fn each<T, U>(
    kind: &str,
    told: Vec<T>,
    name: impl Fn(&T) -> &String,
    make: impl Fn(&T) -> Result<U, MachineError>,
) -> Result<Vec<U>, MachineError> {
    let one =
        |told: &T| make(told).map_err(|MachineError(what)| MachineError(format!("{kind} {}: {what}", name(told))));
    told.iter().map(one).collect()
}

fn wrong<T>(what: String) -> Result<T, MachineError> {
    Err(MachineError(what))
}

impl CacheText {
    fn cache(&self, cores: u32) -> Result<Cache, MachineError> {
        let bytes = self.size.bytes("size")?;
        let lines = bytes / u64::from(self.line.max(1));
        Ok(Cache {
            name: self.name.clone(),
            level: self.level,
            holds: match self.holds {
                HoldsText::Data => Holds::Data,
                HoldsText::Instructions => Holds::Instructions,
                HoldsText::Both => Holds::Unified,
            },
            bytes,
            line_bytes: self.line,
            ways: self.ways.ways(lines)?,
            latency_cycles: self.latency,
            sharing: self.shared_by.sharing(cores)?,
            inclusion: match self.inclusion {
                InclusionText::Inclusive => Inclusion::Inclusive,
                InclusionText::Exclusive => Inclusion::Exclusive,
                InclusionText::Neither => Inclusion::Neither,
            },
            replacement: match (&self.replacement, self.seed) {
                (ReplacementText::Random, seed) => Replacement::Random { seed: seed.unwrap_or(0) },
                (_, Some(_)) => return wrong("a seed, but its replacement is not random".to_owned()),
                (ReplacementText::Lru, None) => Replacement::Lru,
                (ReplacementText::TreePlru, None) => Replacement::TreePlru,
                (ReplacementText::Rrip, None) => Replacement::Rrip,
            },
            prefetch: match self.prefetch {
                PrefetchText::None => Prefetch::None,
                PrefetchText::NextLine => Prefetch::NextLine,
                PrefetchText::Stride => Prefetch::Stride,
            },
        })
    }
}

impl TlbText {
    fn tlb(&self) -> Result<Tlb, MachineError> {
        let mut tlb = Tlb {
            name: self.name.clone(),
            level: self.level,
            entries: self.entries,
            ways: self.ways.ways(u64::from(self.entries))?,
            latency_cycles: self.latency,
            small_pages: false,
            large_pages: false,
        };
        for size in &self.pages {
            match size.bytes("pages")? {
                SMALL_PAGE_BYTES => tlb.small_pages = true,
                LARGE_PAGE_BYTES => tlb.large_pages = true,
                other => return wrong(format!("pages of {other} bytes: there are those of 4 KiB and of 2 MiB")),
            }
        }
        Ok(tlb)
    }
}

impl MemoryText {
    fn memory(&self, cores: u32, memories: usize) -> Result<Memory, MachineError> {
        let cores = match self.cores.as_deref() {
            None if memories == 1 => (0..cores).collect(),
            None => Vec::new(),
            Some("all") => (0..cores).collect(),
            Some(list) => cores_of(list, cores)?,
        };
        let latency_cycles = match &self.latency {
            Latency::One(cycles) => vec![*cycles; memories],
            Latency::FromEach(cycles) => cycles.clone(),
        };
        let bytes = self.size.as_ref().map(|size| size.bytes("size")).transpose()?;
        Ok(Memory { name: self.name.clone(), bytes, cores, latency_cycles })
    }
}

impl Number {
    fn bytes(&self, what: &str) -> Result<u64, MachineError> {
        match self {
            Self::Plain(bytes) => Ok(*bytes),
            Self::Text(text) => bytes_of(text).map_or_else(
                || wrong(format!("{what} = {text:?}: not a size as in \"32 KiB\" (B, KiB, MiB, GiB)")),
                Ok,
            ),
        }
    }

    /// Ways of a cache of so many lines.
    fn ways(&self, lines: u64) -> Result<u32, MachineError> {
        let ways = match self {
            Self::Plain(ways) => *ways,
            Self::Text(text) if text == "full" => lines,
            Self::Text(text) => return wrong(format!("ways = {text:?}: neither a number nor \"full\"")),
        };
        u32::try_from(ways).or_else(|_| wrong(format!("{ways} ways are too many")))
    }
}

impl SharingText {
    fn sharing(&self, cores: u32) -> Result<Sharing, MachineError> {
        match self {
            Self::Cores(0) => wrong("shared_by = 0: at least one core has it".to_owned()),
            Self::Cores(of) => Ok(Sharing::groups(cores, *of)),
            Self::All(all) if all == "all" => Ok(Sharing::groups(cores, cores)),
            Self::All(other) => wrong(format!("shared_by = {other:?}: a list of cores goes into brackets")),
            Self::Lists(lists) => {
                let mut cache_of_core = vec![None; cores as usize];
                for (cache, list) in (0..).zip(lists) {
                    for core in cores_of(list, cores)? {
                        if cache_of_core[core as usize].replace(cache).is_some() {
                            return wrong(format!("shared_by: core {core} is told twice"));
                        }
                    }
                }
                let told = |(core, cache): (usize, Option<u32>)| {
                    cache.map_or_else(|| wrong(format!("shared_by: core {core} has none")), Ok)
                };
                Ok(Sharing {
                    cache_of_core: cache_of_core.into_iter().enumerate().map(told).collect::<Result<_, _>>()?,
                })
            }
        }
    }
}

/// The cores of a list as `0-3,8`; all are below `cores`.
fn cores_of(list: &str, cores: u32) -> Result<Vec<u32>, MachineError> {
    let mut found = Vec::new();
    for part in list.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) else {
            return wrong(format!("{list:?} is no list of cores as in \"0-3,8\""));
        };
        if first > last || last >= cores {
            return wrong(format!("cores {part:?} of {list:?}: there are {cores} (from 0)"));
        }
        found.extend(first..=last);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
