//! Who touches pages first, and from near which memory they are used: what memory policies come to.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::access::{Access, AccessKind, Consumer};
use crate::machine::SMALL_PAGE_BYTES;
use crate::simulation::{MemoryPolicy, Simulation};

/// Takes accesses through a machine's caches, and counts those that memory serves by page. Those that are left out
/// touch pages, too.
#[derive(Debug)]
pub struct PageUse {
    simulation: Simulation,
    memory_of_core: Vec<usize>,
    touched: FxHashMap<u64, FirstTouch>,
    /// By key, page, and the memory that the thread is near to: accesses that memory served. No more than accesses that are taken in, nor
    /// than there are keys at pages.
    served: FxHashMap<(u32, u64, u32), u64>,
}

/// The first access to a page.
#[derive(Clone, Copy, Debug)]
struct FirstTouch {
    key: u32,
    /// The memory that is near to its core.
    near: u32,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct UsedPages {
    /// Pages where they are touched first, whatever of the accesses is replayed later.
    pub touched: MemoryPolicy,
    /// Each page near to those whose accesses to it memory serves most; of two that are as many, the memory that comes first in the machine;
    /// those that memory serves nobody where they are touched first.
    pub used: MemoryPolicy,
    /// By key. Nothing is there of keys behind the last one that was accessed.
    pub keys: Vec<KeyUse>,
}

/// Of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUse {
    /// Accesses that memory served, each to the page of its first byte.
    pub served: u64,
    /// Those of them to memory that is not near, as pages are touched first, as if all had room there …
    pub far: u64,
    /// … and as they are used.
    pub far_as_used: u64,
    /// Pages that it touched first.
    pub touched_pages: u64,
}

impl PageUse {
    /// Of a machine that has done nothing yet.
    pub fn new(simulation: Simulation) -> Self {
        let machine = simulation.machine();
        Self {
            memory_of_core: machine.memory_of_core(),
            simulation,
            touched: FxHashMap::default(),
            served: FxHashMap::default(),
        }
    }

    fn near(&self, access: &Access) -> u32 {
        self.memory_of_core[self.simulation.machine().core_of(access.thread) as usize] as u32
    }

    fn touch(&mut self, access: &Access) {
        let (near, (first, last)) = (self.near(access), access.ends());
        for page in first / SMALL_PAGE_BYTES..=last / SMALL_PAGE_BYTES {
            self.touched.entry(page).or_insert(FirstTouch { key: access.key, near });
        }
    }

    /// What was found.
    pub fn finish(self) -> UsedPages {
        let mut by_page: FxHashMap<u64, Vec<(u32, u64)>> = FxHashMap::default();
        for (&(_, page, near), &served) in &self.served {
            let of_page = by_page.entry(page).or_default();
            match of_page.iter_mut().find(|(of, _)| *of == near) {
                Some((_, sum)) => *sum += served,
                None => of_page.push((near, served)),
            }
        }
        let touched: FxHashMap<u64, u32> = self.touched.iter().map(|(&page, first)| (page, first.near)).collect();
        let mut used = touched.clone();
        for (page, mut of_page) in by_page {
            of_page.sort_unstable();
            // The first of those that are as good.
            if let Some((near, _)) = of_page.into_iter().rev().max_by_key(|(_, served)| *served) {
                used.insert(page, near);
            }
        }
        let mut keys: Vec<KeyUse> = Vec::new();
        let of_key = |keys: &mut Vec<KeyUse>, key: u32, add: &dyn Fn(&mut KeyUse)| {
            if keys.len() <= key as usize {
                keys.resize(key as usize + 1, KeyUse::default());
            }
            add(&mut keys[key as usize]);
        };
        for ((key, page, near), served) in self.served {
            let far = |homes: &FxHashMap<u64, u32>| if homes.get(&page) == Some(&near) { 0 } else { served };
            let (far, far_as_used) = (far(&touched), far(&used));
            of_key(&mut keys, key, &|of| {
                of.served += served;
                of.far += far;
                of.far_as_used += far_as_used;
            });
        }
        for first in self.touched.values() {
            of_key(&mut keys, first.key, &|of| of.touched_pages += 1);
        }
        let [touched, used] = [touched, used].map(|homes| MemoryPolicy::Bound(Arc::new(homes)));
        UsedPages { touched, used, keys }
    }
}

impl Consumer for PageUse {
    fn take(&mut self, accesses: &[Access]) {
        for access in accesses {
            let cost = self.simulation.cost(access, None);
            if access.kind == AccessKind::Fetch {
                continue;
            }
            self.touch(access);
            if cost.is_from_memory {
                let key = (access.key, access.first_byte() / SMALL_PAGE_BYTES, self.near(access));
                *self.served.entry(key).or_default() += 1;
            }
        }
    }

    fn skip(&mut self, accesses: &[Access]) {
        accesses.iter().filter(|access| access.kind != AccessKind::Fetch).for_each(|access| self.touch(access));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Work;
    use crate::machine::Machine;
    use crate::simulation::Options;
    use crate::windows::{WINDOW, Windows};

    /// Two cores, each near to one memory, and a cache of four lines each.
    fn page_use() -> PageUse {
        let text = "name = \"m\"\ncores = 2\ncache = [{ name = \"L1\", level = 1, holds = \"data\", size = 256, line = 64, ways = 4, \
             latency = 2 }]\nmemory = [{ name = \"a\", cores = \"0\", latency = [100, 300] }, \
             { name = \"b\", cores = \"1\", latency = [300, 100] }]\n";
        PageUse::new(Simulation::new(&Machine::parse(text).unwrap(), &Options::default()).unwrap())
    }

    fn load(address: u64, key: u32, thread: u32) -> Access {
        Access { address, key, bytes: 8, thread, kind: AccessKind::Load, work: Work::USUAL }
    }

    fn bound(policy: MemoryPolicy) -> Vec<(u64, u32)> {
        let MemoryPolicy::Bound(homes) = policy else { panic!("{policy:?}") };
        let mut homes: Vec<(u64, u32)> = homes.iter().map(|(&page, &home)| (page, home)).collect();
        homes.sort_unstable();
        homes
    }

    /// Key 0 touches three pages from thread 0; key 1, of thread 1, uses the first one twice, and the second as often as key 0.
    #[test]
    fn pages_go_where_they_are_used() {
        let mut all = page_use();
        let line = |page: u64, line: u64| page * SMALL_PAGE_BYTES + line * 64;
        all.take(&[load(line(0, 0), 0, 0), load(line(1, 0), 0, 0), load(line(2, 0), 0, 0)]);
        // The second one of these hits.
        all.take(&[load(line(0, 1), 1, 1), load(line(0, 1) + 8, 1, 1), load(line(0, 2), 1, 1)]);
        all.take(&[load(line(1, 1), 1, 1)]);
        let found = all.finish();
        assert_eq!(bound(found.touched), [(0, 0), (1, 0), (2, 0)]);
        assert_eq!(bound(found.used), [(0, 1), (1, 0), (2, 0)]);
        let first = KeyUse { served: 3, far: 0, far_as_used: 1, touched_pages: 3 };
        assert_eq!(found.keys, [first, KeyUse { served: 3, far: 3, far_as_used: 1, touched_pages: 0 }]);
    }

    #[test]
    fn what_is_left_out_touches_pages() {
        let mut all = Windows::new(page_use(), 4 * WINDOW, WINDOW);
        let within = vec![load(0, 0, 1); WINDOW as usize];
        all.take(&within);
        all.take(&[load(SMALL_PAGE_BYTES - 4, 1, 1), load(0, 1, 0)]);
        let found = all.finish().finish();
        assert_eq!(bound(found.touched), [(0, 1), (1, 1)]);
        let keys: Vec<(u64, u64)> = found.keys.iter().map(|of| (of.served, of.touched_pages)).collect();
        assert_eq!(keys, [(1, 1), (0, 1)]);
    }
}
