//! What is wrong with a machine.

use std::collections::BTreeSet;

use crate::simulation::LargePages;

use super::{Cache, Counting, Holds, Inclusion, Machine, MachineError, Prefetch, Replacement, Tlb};

/// More cores than any machine of today has.
pub const MOST_CORES: u32 = 1024;
/// Lines of all caches of a machine together: the simulation keeps 4 to 9 bytes of each, 40 more where it tells
/// misses of conflict.
pub const MOST_LINES: u64 = 1 << 26;
/// Longest line.
const MOST_LINE_BYTES: u32 = 4096;
/// Entries of a TLB.
const MOST_ENTRIES: u32 = 1 << 20;

fn wrong<T>(what: String) -> Result<T, MachineError> {
    Err(MachineError(what))
}

impl Machine {
    /// Whether it can be simulated.
    ///
    /// # Errors
    /// One line that names the cache, TLB or memory and what is wrong with it.
    pub fn check(&self) -> Result<(), MachineError> {
        if self.cores == 0 || self.cores > MOST_CORES {
            return wrong(format!("cores = {}: not 1 to {MOST_CORES}", self.cores));
        }
        if self.caches.is_empty() {
            return wrong("no cache".to_owned());
        }
        self.check_names()?;
        for cache in &self.caches {
            self.check_cache(cache)?;
        }
        let lines: u64 = self.caches.iter().map(|cache| cache.lines() * u64::from(cache.sharing.caches())).sum();
        if lines > MOST_LINES {
            return wrong(format!("{lines} lines in all caches together: at most {MOST_LINES} can be simulated"));
        }
        self.check_path(false, "data")?;
        if self.caches.iter().any(|cache| cache.holds == Holds::Instructions) {
            self.check_path(true, "instructions")?;
        }
        self.check_counting()?;
        for tlb in &self.tlbs {
            check_tlb(tlb)?;
        }
        self.check_tlb_levels()?;
        self.check_memories()
    }

    fn check_names(&self) -> Result<(), MachineError> {
        let caches = self.caches.iter().map(|cache| &cache.name);
        let others = self.tlbs.iter().map(|tlb| &tlb.name).chain(self.memories.iter().map(|memory| &memory.name));
        let mut seen = BTreeSet::new();
        for name in caches.chain(others) {
            if name.is_empty() {
                return wrong("a cache, TLB or memory without a name".to_owned());
            }
            if !seen.insert(name) {
                return wrong(format!("{name}: two have this name"));
            }
        }
        Ok(())
    }

    fn check_cache(&self, cache: &Cache) -> Result<(), MachineError> {
        let Cache { name, bytes, line_bytes, ways, sharing, .. } = cache;
        if !line_bytes.is_power_of_two() || *line_bytes > MOST_LINE_BYTES {
            return wrong(format!(
                "cache {name}: a line of {line_bytes} bytes: not a power of two up to {MOST_LINE_BYTES}"
            ));
        }
        let first = &self.caches[0];
        if *line_bytes != first.line_bytes {
            let (other, its) = (&first.name, first.line_bytes);
            return wrong(format!(
                "cache {name}: a line of {line_bytes} bytes, but {other} has {its}: all caches have the same"
            ));
        }
        if *ways == 0 {
            return wrong(format!("cache {name}: no ways"));
        }
        let set_bytes = u64::from(*ways) * u64::from(*line_bytes);
        if *bytes == 0 || !bytes.is_multiple_of(set_bytes) {
            return wrong(format!(
                "cache {name}: {bytes} bytes are no multiple of a set's {set_bytes} ({ways} ways of {line_bytes} bytes)"
            ));
        }
        if cache.lines() > MOST_LINES {
            return wrong(format!("cache {name}: {} lines: at most {MOST_LINES} can be simulated", cache.lines()));
        }
        if cache.replacement == Replacement::TreePlru && !(ways.is_power_of_two() && *ways <= 64) {
            return wrong(format!("cache {name}: tree-plru needs a power of two of ways up to 64, not {ways}"));
        }
        if sharing.cache_of_core.len() != self.cores as usize {
            return wrong(format!("cache {name}: its sharing is not of {} cores", self.cores));
        }
        let used: BTreeSet<u32> = sharing.cache_of_core.iter().copied().collect();
        if used.len() != used.last().map_or(0, |&last| last as usize + 1) {
            return wrong(format!("cache {name}: its caches are not numbered from 0 without gaps"));
        }
        Ok(())
    }

    /// The caches on the way of data, or of instructions, fit behind each other.
    fn check_path(&self, instructions: bool, what: &str) -> Result<(), MachineError> {
        let path = self.path(instructions);
        for (level, &place) in (1..).zip(&path) {
            let cache = &self.caches[place];
            let name = &cache.name;
            if u32::from(cache.level) < level {
                return wrong(format!("cache {name}: a second one of level {} for {what}", cache.level));
            }
            if u32::from(cache.level) > level {
                return wrong(format!("cache {name}: level {}, but no cache of level {level} for {what}", cache.level));
            }
        }
        if path.is_empty() {
            return wrong(format!("no cache for {what}"));
        }
        for pair in path.windows(2) {
            let (near, far) = (&self.caches[pair[0]], &self.caches[pair[1]]);
            let (near_name, name) = (&near.name, &far.name);
            if far.latency_cycles < near.latency_cycles {
                let (cycles, less) = (far.latency_cycles, near.latency_cycles);
                return wrong(format!("cache {name}: {cycles} cycles, less than the {less} of {near_name} before it"));
            }
            let mut far_of_near = vec![None; near.sharing.caches() as usize];
            for (&from, &to) in near.sharing.cache_of_core.iter().zip(&far.sharing.cache_of_core) {
                if *far_of_near[from as usize].get_or_insert(to) != to {
                    return wrong(format!("cache {name}: cores that share one {near_name} do not share one {name}"));
                }
            }
        }
        Ok(())
    }

    /// Cachegrind knows one core, whose caches only take in what they are asked for.
    fn check_counting(&self) -> Result<(), MachineError> {
        if self.counting == Counting::Lines {
            return Ok(());
        }
        if self.cores > 1 {
            return wrong(format!("counting as Cachegrind is of one core, not of {}", self.cores));
        }
        let is_other = |cache: &&Cache| cache.inclusion != Inclusion::Neither || cache.prefetch != Prefetch::None;
        match self.caches.iter().find(is_other) {
            Some(cache) => wrong(format!(
                "cache {}: counting as Cachegrind is of caches that are neither inclusive nor exclusive, and fetch \
                 nothing unasked",
                cache.name
            )),
            None => Ok(()),
        }
    }

    fn check_tlb_levels(&self) -> Result<(), MachineError> {
        let sizes = [("4 KiB", false), ("2 MiB", true)];
        let holds = |tlb: &Tlb, large| if large { tlb.large_pages } else { tlb.small_pages };
        for (size, large) in sizes {
            let mut levels: Vec<(u8, &str)> =
                self.tlbs.iter().filter(|tlb| holds(tlb, large)).map(|tlb| (tlb.level, tlb.name.as_str())).collect();
            levels.sort_unstable();
            if let Some(pair) = levels.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                return wrong(format!("TLB {}: a second one of level {} for pages of {size}", pair[1].1, pair[1].0));
            }
        }
        Ok(())
    }

    /// Whether all pages that data lies on have a TLB, where there is any: else each access would be a walk of the page table.
    pub(crate) fn check_pages(&self, large_pages: &LargePages) -> Result<(), MachineError> {
        let (has_small, has_large) = match large_pages {
            LargePages::None => (true, false),
            LargePages::All => (false, true),
            LargePages::Ranges(_) => (true, true),
        };
        let is_held = |holds: fn(&Tlb) -> bool| self.tlbs.is_empty() || self.tlbs.iter().any(holds);
        if has_small && !is_held(|tlb| tlb.small_pages) {
            return wrong("no TLB holds pages of 4 KiB, which data lies on".to_owned());
        }
        if has_large && !is_held(|tlb| tlb.large_pages) {
            return wrong("no TLB holds pages of 2 MiB, which data lies on".to_owned());
        }
        Ok(())
    }

    fn check_memories(&self) -> Result<(), MachineError> {
        if self.memories.is_empty() {
            return wrong("no memory".to_owned());
        }
        let mut near = vec![None; self.cores as usize];
        for memory in &self.memories {
            let name = &memory.name;
            if memory.latency_cycles.len() != self.memories.len() {
                let (told, all) = (memory.latency_cycles.len(), self.memories.len());
                return wrong(format!(
                    "memory {name}: {told} latencies: needs one, or one from each of the {all} memories' cores"
                ));
            }
            if memory.bytes == Some(0) {
                return wrong(format!("memory {name}: a size of 0 holds nothing"));
            }
            for &core in &memory.cores {
                let Some(place) = near.get_mut(core as usize) else {
                    return wrong(format!("memory {name}: core {core}: there are {} (from 0)", self.cores));
                };
                if let Some(other) = place.replace(name) {
                    return wrong(format!("memory {name}: core {core} is near to {other} already"));
                }
            }
        }
        match near.iter().position(Option::is_none) {
            Some(core) => wrong(format!("core {core} is near to no memory")),
            None => Ok(()),
        }
    }
}

fn check_tlb(tlb: &Tlb) -> Result<(), MachineError> {
    let Tlb { name, entries, ways, .. } = tlb;
    if tlb.level == 0 {
        return wrong(format!("TLB {name}: level 0: they are counted from 1"));
    }
    if *ways == 0 || *entries == 0 || *entries > MOST_ENTRIES || entries % ways != 0 {
        return wrong(format!(
            "TLB {name}: {entries} entries of {ways} ways: needs 1 to {MOST_ENTRIES}, a multiple of the ways"
        ));
    }
    if !tlb.small_pages && !tlb.large_pages {
        return wrong(format!("TLB {name}: holds no pages"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tlbs_are_needed_for_the_pages_that_data_lies_on() {
        let machine = |pages: &str| {
            let text = format!(
                "name = \"m\"\ncache = [{{ name = \"L1\", level = 1, size = 128, line = 64, ways = 2, latency = 1 }}]\n\
                 tlb = [{{ name = \"DTLB\", level = 1, entries = 4, ways = 4, latency = 0, pages = [{pages}] }}]\nmemory = [{{ name = \"m\", \
                 latency = 9 }}]\n"
            );
            Machine::parse(&text).unwrap()
        };
        let wrong =
            |pages: &str, large: &LargePages| machine(pages).check_pages(large).err().map(|error| error.to_string());
        let some = LargePages::Ranges(vec![0..1 << 21, 1 << 30..1 << 31]);
        let (small, large) = ("\"4 KiB\"", "\"2 MiB\"");
        let without = |size: &str| Some(format!("no TLB holds pages of {size}, which data lies on"));
        assert_eq!(wrong(small, &LargePages::None), None);
        assert_eq!(wrong(small, &LargePages::All), without("2 MiB"));
        assert_eq!(wrong(small, &some), without("2 MiB"));
        assert_eq!(wrong(large, &LargePages::None), without("4 KiB"));
        assert_eq!(wrong(large, &LargePages::All), None);
        assert_eq!(wrong(large, &some), without("4 KiB"));
        assert_eq!(wrong("\"4 KiB\", \"2 MiB\"", &some), None);
        let bare = Machine { tlbs: Vec::new(), ..machine(small) };
        assert_eq!(bare.check_pages(&LargePages::All), Ok(()));
    }
}
