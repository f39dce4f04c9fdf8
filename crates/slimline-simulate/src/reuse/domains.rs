//! Who sees which accesses: a cache sees those of the cores that it belongs to.

use super::recency::Recency;
use crate::machine::{Holds, Machine};

/// Sets of cores, each the cores of one cache or of the memory, such that two sets are disjoint or one has all of the
/// other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreSets {
    cores: u32,
    /// By core: its domains, from the core alone to all cores.
    paths: Vec<Vec<u32>>,
    domains: u32,
}

/// Why cores can't share so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoreSetsError {
    /// Nobody would access anything.
    #[error("there are no cores")]
    NoCores,
    /// A set names a core that there is not.
    #[error("core {core} shares a cache, but there are {cores} cores")]
    NoSuchCore {
        /// The core.
        core: u32,
        /// How many there are.
        cores: u32,
    },
    /// Two sets overlap, and neither has all of the other.
    #[error(
        "core {core} shares a cache with some and another one with others: one of them must have all cores of the other"
    )]
    Crossing {
        /// A core in both.
        core: u32,
    },
}

impl CoreSets {
    /// `cores` cores and the sets that share something: caches of several cores. Each core for itself and all together
    /// need not be named.
    pub fn new(cores: u32, sets: &[Vec<u32>]) -> Result<Self, CoreSetsError> {
        if cores == 0 {
            return Err(CoreSetsError::NoCores);
        }
        let mut all: Vec<Vec<u32>> = (0..cores).map(|core| vec![core]).collect();
        for set in sets {
            let mut set = set.clone();
            set.sort_unstable();
            set.dedup();
            if let Some(&core) = set.last().filter(|core| **core >= cores) {
                return Err(CoreSetsError::NoSuchCore { core, cores });
            }
            all.push(set);
        }
        all.push((0..cores).collect());
        all.sort_by_key(|set| (set.len(), set.first().copied()));
        all.retain(|set| !set.is_empty());
        all.dedup();
        for (index, small) in all.iter().enumerate() {
            for large in &all[index + 1..] {
                let common: Vec<u32> = small.iter().copied().filter(|core| large.contains(core)).collect();
                if let Some(&core) = common.first().filter(|_| common.len() < small.len()) {
                    return Err(CoreSetsError::Crossing { core });
                }
            }
        }
        let path = |core| {
            let mine = (0..).zip(&all).filter(|(_, set)| set.contains(&core));
            mine.map(|(domain, _)| domain).collect()
        };
        Ok(Self { cores, paths: (0..cores).map(path).collect(), domains: all.len() as u32 })
    }

    /// Those of a machine: the cores of each of its caches that hold data.
    pub fn of_machine(machine: &Machine) -> Result<Self, CoreSetsError> {
        let of_cache = |cache: &crate::machine::Cache| {
            let mut sets = vec![Vec::new(); cache.sharing.caches() as usize];
            for (core, &number) in (0..).zip(&cache.sharing.cache_of_core) {
                sets[number as usize].push(core);
            }
            sets
        };
        let caches = machine.caches.iter().filter(|cache| cache.holds != Holds::Instructions);
        Self::new(machine.cores, &caches.flat_map(of_cache).collect::<Vec<_>>())
    }

    /// Cores.
    pub fn cores(&self) -> u32 {
        self.cores
    }

    /// Number of the smallest domain that has both cores.
    fn common(&self, one: u32, other: u32) -> u32 {
        let others = &self.paths[other as usize];
        // All cores together are a domain.
        self.paths[one as usize].iter().copied().find(|domain| others.contains(domain)).unwrap_or(self.domains - 1)
    }
}

/// What each domain has seen.
#[derive(Clone, Debug)]
pub(super) struct Domains {
    core_sets: CoreSets,
    seen: Vec<Seen>,
    is_active: Vec<bool>,
    /// By core: the domains whose lists its accesses change.
    written: Vec<Vec<u32>>,
}

#[derive(Clone, Debug)]
enum Seen {
    Nothing,
    /// What a domain inside it has seen, as no other core was active yet.
    As(u32),
    Own(Box<Recency>),
}

impl Domains {
    pub(super) fn new(core_sets: CoreSets) -> Self {
        let (cores, domains) = (core_sets.cores as usize, core_sets.domains as usize);
        Self {
            core_sets,
            seen: vec![Seen::Nothing; domains],
            is_active: vec![false; cores],
            written: vec![Vec::new(); cores],
        }
    }

    pub(super) fn core_sets(&self) -> &CoreSets {
        &self.core_sets
    }

    /// Lines that came after `line` where both cores' accesses are seen.
    pub(super) fn after(&self, line: u32, one: u32, other: u32) -> Option<u32> {
        let domain =
            if one == other { self.core_sets.paths[one as usize][0] } else { self.core_sets.common(one, other) };
        self.recency(domain)?.after(line)
    }

    fn recency(&self, mut domain: u32) -> Option<&Recency> {
        loop {
            match &self.seen[domain as usize] {
                Seen::Nothing => return None,
                Seen::As(inner) => domain = *inner,
                Seen::Own(recency) => return Some(recency),
            }
        }
    }

    /// Reads what will be needed when `core` accesses `line`: any number, for the compiler to keep the reads.
    pub(super) fn read_ahead(&self, core: u32, line: u32) -> u64 {
        let own = self.core_sets.paths[core as usize][0];
        self.recency(own).map_or(0, |recency| recency.read_ahead(line))
    }

    /// `core` accesses `line`.
    pub(super) fn touch(&mut self, core: u32, line: u32) {
        if !self.is_active[core as usize] {
            self.begin(core);
        }
        for &domain in &self.written[core as usize] {
            if let Seen::Own(recency) = &mut self.seen[domain as usize] {
                recency.touch(line);
            }
        }
    }

    /// A core's first access: domains that it shares with cores that were active before now have a list of their own.
    fn begin(&mut self, core: u32) {
        self.is_active[core as usize] = true;
        let path = self.core_sets.paths[core as usize].clone();
        for (at, &domain) in path.iter().enumerate() {
            let inner = at.checked_sub(1).map(|at| path[at]);
            match (&self.seen[domain as usize], inner) {
                (Seen::Nothing, None) => self.seen[domain as usize] = Seen::Own(Box::new(Recency::new())),
                (Seen::Nothing, Some(inner)) => self.seen[domain as usize] = Seen::As(inner),
                (Seen::As(other), Some(inner)) if *other != inner => {
                    let before = self.recency(*other).cloned().unwrap_or_else(Recency::new);
                    self.seen[domain as usize] = Seen::Own(Box::new(before));
                }
                _ => {}
            }
        }
        for core in 0..self.core_sets.cores as usize {
            let path = &self.core_sets.paths[core];
            let is_own = |domain: &&u32| matches!(self.seen[**domain as usize], Seen::Own(_));
            self.written[core] = path.iter().filter(is_own).copied().collect();
        }
    }

    /// As if nobody had accessed the line.
    pub(super) fn forget(&mut self, line: u32) {
        for seen in &mut self.seen {
            if let Seen::Own(recency) = seen {
                recency.forget(line);
            }
        }
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let lists = self.seen.iter().map(|seen| if let Seen::Own(recency) = seen { recency.bytes() } else { 0 });
        lists.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_nested() {
        let core_sets = CoreSets::new(4, &[vec![0, 1], vec![3, 2], vec![0, 1, 2, 3]]).unwrap();
        assert_eq!((core_sets.domains, core_sets.cores()), (7, 4));
        assert_eq!([core_sets.common(0, 1), core_sets.common(2, 3), core_sets.common(1, 2)], [4, 5, 6]);
        assert_eq!(CoreSets::new(0, &[]), Err(CoreSetsError::NoCores));
        assert_eq!(CoreSets::new(2, &[vec![2]]), Err(CoreSetsError::NoSuchCore { core: 2, cores: 2 }));
        assert_eq!(CoreSets::new(3, &[vec![0, 1], vec![1, 2]]), Err(CoreSetsError::Crossing { core: 1 }));
        assert_eq!(CoreSets::new(1, &[]).unwrap().domains, 1);
    }

    #[test]
    fn a_machine_shares_caches() {
        let machine = Machine::named("valgrind").unwrap();
        assert_eq!(CoreSets::of_machine(&machine), CoreSets::new(machine.cores, &[]));
        let text = "name = \"pairs\"\ncores = 4\n\
                    [[cache]]\nname = \"L1d\"\nlevel = 1\nholds = \"data\"\nsize = \"32 KiB\"\nline = 64\nways = 8\nlatency = 4\n\
                    [[cache]]\nname = \"L2\"\nlevel = 2\nsize = \"1 MiB\"\nline = 64\nways = 16\nlatency = 14\nshared_by = 2\n\
                    [[memory]]\nname = \"memory\"\nlatency = 200\n";
        let pairs = CoreSets::of_machine(&Machine::parse(text).unwrap()).unwrap();
        assert_eq!(pairs, CoreSets::new(4, &[vec![0, 1], vec![2, 3]]).unwrap());
    }

    #[test]
    fn one_core_has_one_list() {
        let mut domains = Domains::new(CoreSets::new(4, &[vec![0, 1]]).unwrap());
        let lists = |domains: &Domains| domains.seen.iter().filter(|seen| matches!(seen, Seen::Own(_))).count();
        domains.touch(1, 0);
        assert_eq!(lists(&domains), 1);
        domains.touch(0, 1);
        assert_eq!(lists(&domains), 3, "two cores, and what they share");
        assert_eq!(
            (domains.after(0, 1, 1), domains.after(0, 1, 0), domains.after(0, 0, 3)),
            (Some(0), Some(1), Some(1))
        );
        domains.touch(3, 2);
        assert_eq!(lists(&domains), 5, "and a third one, and all");
    }
}
