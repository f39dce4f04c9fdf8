//! A simulator that is slow and plainly right: every cache is a list of ways, nobody keeps a directory, and each question
//! is answered by looking everywhere. What misses of lines that others took were for is told at the end, by all that was noted.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use slimline_simulate::access::{Access, AccessKind};
use slimline_simulate::machine::{Counting, Inclusion, Machine, Prefetch, Replacement};
use slimline_simulate::simulation::{Counts, Events, LargePages, MachineEvents, MemoryPolicy, Misses, Options};

#[derive(Clone, Debug, Default)]
struct Way {
    line: Option<u64>,
    is_dirty: bool,
    is_unused: bool,
    used_at: u64,
    interval: u8,
}

#[derive(Debug, Default)]
struct Set {
    ways: Vec<Way>,
    /// Inner nodes of the tree, by depth and place in it: whether the right half is older.
    tree: HashMap<(u32, usize), bool>,
}

/// What happens to a line in a cache.
#[derive(Clone, Copy, Debug)]
enum Note {
    /// It comes, and no store had taken it before.
    Came,
    /// It comes again for this key after a store took it, to stay or not.
    CameBack {
        key: u32,
        stays: bool,
    },
    Left,
}

/// One access to a line.
#[derive(Debug)]
struct Touch {
    at: u64,
    core: usize,
    way: Vec<usize>,
    line: u64,
    units: BTreeSet<u64>,
    is_store: bool,
}

#[derive(Debug)]
struct TwinCache {
    kind: usize,
    sets: Vec<Set>,
    replacement: Replacement,
    chance: u64,
    seen: HashSet<u64>,
    /// Least recent first.
    shadow: Vec<u64>,
    shadow_lines: usize,
    /// Lines that a store took.
    lost: HashSet<u64>,
    /// What happened to each line, and when.
    notes: BTreeMap<u64, Vec<(u64, Note)>>,
    streams: BTreeMap<u32, (u32, u64, i64)>,
    /// Bytes used of each line, and who brought it.
    used: HashMap<u64, (u32, BTreeSet<u64>)>,
}

impl TwinCache {
    fn set(&mut self, line: u64) -> &mut Set {
        let sets = self.sets.len() as u64;
        &mut self.sets[(line % sets) as usize]
    }

    fn way(&mut self, line: u64) -> Option<&mut Way> {
        self.set(line).ways.iter_mut().find(|way| way.line == Some(line))
    }

    fn holds(&mut self, line: u64) -> bool {
        self.way(line).is_some()
    }

    /// The way was used, or filled.
    fn note(&mut self, line: u64, now: u64, interval: u8) {
        let set = self.set(line);
        let place = set.ways.iter().position(|way| way.line == Some(line)).unwrap();
        set.ways[place].used_at = now;
        set.ways[place].interval = interval;
        let (mut first, mut count, mut depth) = (0, set.ways.len(), 0);
        while count > 1 && count.is_power_of_two() {
            let is_right = place >= first + count / 2;
            set.tree.insert((depth, first), !is_right);
            count /= 2;
            first += if is_right { count } else { 0 };
            depth += 1;
        }
    }

    fn room(&mut self, line: u64) -> usize {
        let replacement = self.replacement;
        if let Some(empty) = self.set(line).ways.iter().position(|way| way.line.is_none()) {
            return empty;
        }
        let ways = self.set(line).ways.len();
        match replacement {
            Replacement::Lru => {
                let ways = &self.set(line).ways;
                (0..ways.len()).min_by_key(|&way| ways[way].used_at).unwrap()
            }
            Replacement::TreePlru => {
                let set = self.set(line);
                let (mut first, mut count, mut depth) = (0, ways, 0);
                while count > 1 {
                    let is_right = *set.tree.get(&(depth, first)).unwrap_or(&false);
                    count /= 2;
                    first += if is_right { count } else { 0 };
                    depth += 1;
                }
                first
            }
            Replacement::Random { .. } => {
                self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let z = (self.chance ^ (self.chance >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                ((z ^ (z >> 31)) % ways as u64) as usize
            }
            Replacement::Rrip => loop {
                let set = self.set(line);
                if let Some(way) = set.ways.iter().position(|way| way.interval == 3) {
                    break way;
                }
                set.ways.iter_mut().for_each(|way| way.interval += 1);
            },
        }
    }
}

/// Sets of large and small pages, most recent last.
type TlbSets = Vec<Vec<(bool, u64)>>;

/// A whole machine.
pub(crate) struct Twin {
    machine: Machine,
    options: Options,
    caches: Vec<TwinCache>,
    /// By core.
    data: Vec<Vec<usize>>,
    instructions: Vec<Vec<usize>>,
    /// By core and TLB.
    tlbs: Vec<Vec<TlbSets>>,
    homes: HashMap<u64, usize>,
    now: u64,
    touches: Vec<Touch>,
    pub(crate) counts: BTreeMap<u32, Counts>,
    /// Whose store changed a line first.
    changers: HashMap<u64, u32>,
    pub(crate) events: Vec<Events>,
    pub(crate) machine_events: MachineEvents,
}

impl Twin {
    pub(crate) fn new(machine: &Machine, options: &Options) -> Self {
        let mut caches = Vec::new();
        let mut number_of = HashMap::new();
        let mut kinds: Vec<usize> = (0..machine.caches.len()).collect();
        kinds.sort_by_key(|&kind| machine.caches[kind].level);
        for kind in kinds {
            let told = &machine.caches[kind];
            for number in 0..told.sharing.caches() {
                number_of.insert((kind, number), caches.len());
                let ways = vec![Way { interval: 3, ..Way::default() }; told.ways as usize];
                let seed = if let Replacement::Random { seed } = told.replacement { seed } else { 0 };
                caches.push(TwinCache {
                    kind,
                    sets: (0..told.sets()).map(|_| Set { ways: ways.clone(), ..Set::default() }).collect(),
                    replacement: told.replacement,
                    chance: seed.wrapping_add(u64::from(number)),
                    seen: HashSet::new(),
                    shadow: Vec::new(),
                    shadow_lines: told.lines() as usize,
                    lost: HashSet::new(),
                    notes: BTreeMap::new(),
                    streams: BTreeMap::new(),
                    used: HashMap::new(),
                });
            }
        }
        let way = |core: u32, instructions: bool| -> Vec<usize> {
            let path = machine.path(instructions);
            if machine.caches[path.first().copied().unwrap_or(0)].level != 1 {
                return Vec::new();
            }
            let of = |kind: usize| number_of[&(kind, machine.caches[kind].sharing.cache_of_core[core as usize])];
            path.into_iter().map(of).collect()
        };
        let tlbs = machine.tlbs.iter().map(|tlb| vec![Vec::new(); (tlb.entries / tlb.ways) as usize]);
        Self {
            data: (0..machine.cores).map(|core| way(core, false)).collect(),
            instructions: (0..machine.cores).map(|core| way(core, true)).collect(),
            tlbs: vec![tlbs.collect(); machine.cores as usize],
            homes: HashMap::new(),
            now: 0,
            touches: Vec::new(),
            counts: BTreeMap::new(),
            changers: HashMap::new(),
            events: vec![Events::default(); machine.caches.len()],
            machine_events: MachineEvents::default(),
            machine: machine.clone(),
            options: options.clone(),
            caches,
        }
    }

    pub(crate) fn access(&mut self, access: &Access) {
        let is_cachegrind = self.machine.counting == Counting::Cachegrind;
        let kinds: &[AccessKind] = match access.kind {
            AccessKind::Modify if is_cachegrind => &[AccessKind::Load],
            AccessKind::Modify => &[AccessKind::Load, AccessKind::Store],
            AccessKind::Load | AccessKind::Prefetch => &[AccessKind::Load],
            AccessKind::Store => &[AccessKind::Store],
            AccessKind::Fetch => &[AccessKind::Fetch],
        };
        for &kind in kinds {
            self.reference(access, kind, is_cachegrind);
        }
    }

    fn of_key(&mut self, key: u32) -> &mut Counts {
        let none = Counts {
            misses: vec![Misses::default(); self.machine.caches.len()],
            tlb_misses: vec![0; self.machine.tlbs.len()],
            served_by_memory: vec![0; self.machine.memories.len()],
            write_backs: vec![0; self.machine.caches.len()],
            ..Counts::default()
        };
        self.counts.entry(key).or_insert(none)
    }

    fn reference(&mut self, access: &Access, kind: AccessKind, is_cachegrind: bool) {
        let core = (access.thread % self.machine.cores) as usize;
        let way = if kind == AccessKind::Fetch { self.instructions[core].clone() } else { self.data[core].clone() };
        if way.is_empty() {
            return;
        }
        let counts = self.of_key(access.key);
        match kind {
            AccessKind::Load => counts.loads += 1,
            AccessKind::Store => counts.stores += 1,
            _ => counts.fetches += 1,
        }
        let line_bytes = u64::from(self.machine.line_bytes());
        let bytes: Vec<u64> = (access.address..).take(access.bytes.max(1) as usize).collect();
        if kind != AccessKind::Fetch {
            self.translate(core, &bytes, access.key);
        }
        let mut lines: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for byte in bytes {
            // Masks of long lines have several bytes a bit.
            let unit = (line_bytes / 64).max(1);
            lines.entry(byte / line_bytes).or_default().insert(byte / unit);
        }
        let numbers: Vec<u64> = lines.keys().copied().collect();
        if is_cachegrind && numbers.len() > 1 {
            let last = (access.address + line_bytes - 1).min(access.address + u64::from(access.bytes) - 1) / line_bytes;
            if last == numbers[0] {
                return self.line(core, &way, last, &BTreeSet::new(), kind, access.key);
            }
            return self.cachegrind(core, &way, &[numbers[0], last], kind, access.key);
        }
        for (number, (line, units)) in lines.into_iter().enumerate() {
            self.line(core, &way, line, &units, kind, access.key);
            let counts = self.of_key(access.key);
            match kind {
                AccessKind::Fetch => counts.further_fetches += u64::from(number > 0),
                _ => counts.further_lines += u64::from(number > 0),
            }
        }
    }

    fn translate(&mut self, core: usize, bytes: &[u64], key: u32) {
        if self.machine.tlbs.is_empty() {
            return;
        }
        let is_large = |byte: u64| match &self.options.large_pages {
            LargePages::None => false,
            LargePages::All => true,
            LargePages::Ranges(ranges) => ranges.iter().any(|range| range.contains(&byte)),
        };
        let mut pages: Vec<(bool, u64)> =
            bytes.iter().map(|&byte| (is_large(byte), byte / if is_large(byte) { 2 << 20 } else { 4096 })).collect();
        pages.dedup();
        for (is_large, page) in pages {
            let mut order: Vec<usize> = (0..self.machine.tlbs.len()).collect();
            order.sort_by_key(|&tlb| self.machine.tlbs[tlb].level);
            let mut found = None;
            for tlb in order {
                let told = &self.machine.tlbs[tlb];
                if !(if is_large { told.large_pages } else { told.small_pages }) {
                    continue;
                }
                let sets = u64::from(told.entries / told.ways);
                let number = if is_large { page + (1 << 59) } else { page };
                let set = &mut self.tlbs[core][tlb][(number % sets) as usize];
                let place = set.iter().position(|&held| held == (is_large, page));
                if let Some(place) = place {
                    set.remove(place);
                } else if set.len() == told.ways as usize {
                    set.remove(0);
                }
                set.push((is_large, page));
                if place.is_some() {
                    found = Some(u64::from(told.latency_cycles));
                    break;
                }
                self.of_key(key).tlb_misses[tlb] += 1;
            }
            let walk = u64::from(self.machine.page_walk_cycles);
            let counts = self.of_key(key);
            counts.page_walks += u64::from(found.is_none());
            counts.cycles += found.unwrap_or(walk);
        }
    }

    fn is_own(&self, core: usize, cache: usize) -> bool {
        self.data[core].contains(&cache) || self.instructions[core].contains(&cache)
    }

    /// Caches that the core does not use and that hold the line, nearest first.
    fn others(&mut self, core: usize, line: u64) -> Vec<usize> {
        (0..self.caches.len()).filter(|&cache| !self.is_own(core, cache) && self.caches[cache].holds(line)).collect()
    }

    fn farther(&self, cache: usize) -> Vec<usize> {
        let ways = self.data.iter().chain(&self.instructions);
        ways.filter_map(|way| way.iter().position(|&own| own == cache).map(|place| way[place + 1..].to_vec()))
            .next()
            .unwrap_or_default()
    }

    fn nearer(&self, cache: usize) -> BTreeSet<usize> {
        let ways = self.data.iter().chain(&self.instructions);
        ways.filter_map(|way| way.iter().position(|&own| own == cache).map(|place| way[..place].to_vec()))
            .flatten()
            .collect()
    }

    fn settle(&mut self, core: usize, line: u64, is_store: bool, has_own: bool) -> bool {
        let others = self.others(core, line);
        self.machine_events.upgrades += u64::from(is_store && has_own && !others.is_empty());
        let mut transferred = false;
        for &other in &others {
            let way = self.caches[other].way(line).unwrap();
            if std::mem::take(&mut way.is_dirty) {
                transferred = true;
                self.written_back(self.caches[other].kind, line);
                let farther = self.farther(other);
                match farther.into_iter().find(|&far| self.caches[far].holds(line)) {
                    Some(far) => self.caches[far].way(line).unwrap().is_dirty = true,
                    None => self.written_to_memory(line),
                }
            }
        }
        self.machine_events.transfers += u64::from(transferred);
        if is_store {
            for &other in &others {
                self.take(other, line);
                self.events[self.caches[other].kind].invalidations += 1;
                self.caches[other].shadow.retain(|&held| held != line);
                self.caches[other].lost.insert(line);
            }
        }
        transferred
    }

    fn look_up(&mut self, cache: usize, line: u64, key: u32) -> Result<bool, Misses> {
        self.now += 1;
        let now = self.now;
        let kind = self.caches[cache].kind;
        let twin = &mut self.caches[cache];
        let was_in_shadow = twin.shadow.contains(&line);
        twin.shadow.retain(|&held| held != line);
        twin.shadow.push(line);
        if twin.shadow.len() > twin.shadow_lines {
            twin.shadow.remove(0);
        }
        if let Some(way) = twin.way(line) {
            let was_unused = std::mem::take(&mut way.is_unused);
            self.events[kind].used_prefetches += u64::from(was_unused);
            twin.note(line, now, 0);
            return Ok(was_unused);
        }
        let is_new = twin.seen.insert(line);
        let mut class = Misses::default();
        let was_lost = twin.lost.remove(&line);
        match was_in_shadow {
            // True ones are told at the end.
            _ if was_lost => class.coherence_false = 1,
            _ if is_new => class.cold = 1,
            _ if !self.options.classes => {}
            true => class.conflict = 1,
            false => class.capacity = 1,
        }
        let stays = self.inclusion(cache) != Inclusion::Exclusive;
        self.note(cache, line, if was_lost { Note::CameBack { key, stays } } else { Note::Came });
        Err(class)
    }

    fn note(&mut self, cache: usize, line: u64, note: Note) {
        self.caches[cache].notes.entry(line).or_default().push((self.now, note));
    }

    fn missed(&mut self, key: u32, cache: usize, kind: AccessKind, class: Misses) {
        let place = self.caches[cache].kind;
        let misses = &mut self.of_key(key).misses[place];
        match kind {
            AccessKind::Load => misses.loads += 1,
            AccessKind::Store => misses.stores += 1,
            _ => misses.fetches += 1,
        }
        misses.cold += class.cold;
        misses.capacity += class.capacity;
        misses.conflict += class.conflict;
        misses.coherence_true += class.coherence_true;
        misses.coherence_false += class.coherence_false;
    }

    fn line(&mut self, core: usize, way: &[usize], line: u64, units: &BTreeSet<u64>, kind: AccessKind, key: u32) {
        let is_store = kind == AccessKind::Store;
        self.now += 1;
        self.touches.push(Touch { at: self.now, core, way: way.to_vec(), line, units: units.clone(), is_store });
        let has_own = self.caches[way[0]].holds(line);
        let mut transferred = false;
        if is_store || !has_own {
            transferred = self.settle(core, line, is_store, has_own);
        }
        let mut server = way.len();
        let mut was_unused = false;
        for (step, &cache) in way.iter().enumerate() {
            match self.look_up(cache, line, key) {
                Ok(unused) => {
                    (server, was_unused) = (step, unused);
                    break;
                }
                Err(class) => self.missed(key, cache, kind, class),
            }
        }
        let transfer = self.machine.transfer_cycles.filter(|_| transferred && server > 0);
        let mut cycles = match (transfer, way.get(server)) {
            (Some(transfer), _) => u64::from(transfer),
            (None, Some(&cache)) => u64::from(self.machine.caches[self.caches[cache].kind].latency_cycles),
            (None, None) => self.memory(core, line, Some(key)),
        };
        if server > 0 {
            let hit = u64::from(self.machine.caches[self.caches[way[0]].kind].latency_cycles);
            cycles = cycles.max(hit);
            let was_dirty = server < way.len() && self.give(way[server], line);
            for &cache in way[1..server.max(1)].iter().rev() {
                if self.inclusion(cache) != Inclusion::Exclusive {
                    self.fill(cache, line, false, false);
                }
            }
            self.fill(way[0], line, was_dirty, false);
            if kind != AccessKind::Fetch {
                self.caches[way[0]].used.insert(line, (key, BTreeSet::new()));
            }
        }
        self.of_key(key).cycles += cycles;
        if is_store {
            self.change(way[0], line, key);
        }
        if kind != AccessKind::Fetch
            && let Some((_, used)) = self.caches[way[0]].used.get_mut(&line)
        {
            used.extend(units);
        }
        for step in 0..server + usize::from(was_unused) {
            self.unasked(core, way, step, line, key, kind);
        }
    }

    fn cachegrind(&mut self, core: usize, way: &[usize], lines: &[u64], kind: AccessKind, key: u32) {
        let mut server = way.len();
        for (step, &cache) in way.iter().enumerate() {
            let mut first = None;
            for &line in lines {
                if let Err(class) = self.look_up(cache, line, key) {
                    self.fill(cache, line, false, false);
                    first = first.or(Some(class));
                }
                // A later line may have pushed it out again.
                if step == 0 && kind == AccessKind::Store {
                    self.change(cache, line, key);
                }
            }
            let Some(class) = first else {
                server = step;
                break;
            };
            self.missed(key, cache, kind, class);
        }
        let cycles = match way.get(server) {
            Some(&cache) => u64::from(self.machine.caches[self.caches[cache].kind].latency_cycles),
            None => self.memory(core, lines[0], Some(key)),
        };
        let hit = u64::from(self.machine.caches[self.caches[way[0]].kind].latency_cycles);
        self.of_key(key).cycles += cycles.max(hit);
    }

    fn memory(&mut self, core: usize, line: u64, key: Option<u32>) -> u64 {
        let near = self.machine.memory_of_core()[core];
        let page = line * u64::from(self.machine.line_bytes()) / 4096;
        let used = |twin: &Self, memory: usize| twin.homes.values().filter(|&&home| home == memory).count() as u64;
        if !self.homes.contains_key(&page) {
            let wanted = match &self.options.memory {
                MemoryPolicy::FirstTouch => near,
                MemoryPolicy::Interleaved => page as usize % self.machine.memories.len(),
                MemoryPolicy::Bound(homes) => homes.get(&page).map_or(near, |home| *home as usize),
            };
            let mut order: Vec<usize> = (0..self.machine.memories.len()).collect();
            order.sort_by_key(|&memory| (memory != wanted, self.machine.memories[memory].latency_cycles[wanted]));
            let fits = |memory: &usize| {
                self.machine.memories[*memory].bytes.is_none_or(|bytes| used(self, *memory) < bytes / 4096)
            };
            let home = order.into_iter().find(fits).unwrap_or(wanted);
            let home = if self.machine.memories.len() == 1 { 0 } else { home };
            self.homes.insert(page, home);
        }
        let home = self.homes[&page];
        if let Some(key) = key {
            self.of_key(key).served_by_memory[home] += 1;
            self.of_key(key).served_from_afar += u64::from(home != near);
        }
        u64::from(self.machine.memories[home].latency_cycles[near])
    }

    fn inclusion(&self, cache: usize) -> Inclusion {
        let told = &self.machine.caches[self.caches[cache].kind];
        if told.level == 1 { Inclusion::Neither } else { told.inclusion }
    }

    fn give(&mut self, cache: usize, line: u64) -> bool {
        self.inclusion(cache) == Inclusion::Exclusive && self.take(cache, line)
    }

    /// Takes a line out; whether it was changed.
    fn take(&mut self, cache: usize, line: u64) -> bool {
        let way = self.caches[cache].way(line).unwrap();
        way.line = None;
        way.is_unused = false;
        let was_dirty = std::mem::take(&mut way.is_dirty);
        self.left(cache, line);
        was_dirty
    }

    fn left(&mut self, cache: usize, line: u64) {
        self.note(cache, line, Note::Left);
        if let Some((key, used)) = self.caches[cache].used.remove(&line) {
            self.count_used(key, used.len());
        }
    }

    fn count_used(&mut self, key: u32, units: usize) {
        if self.options.used_bytes {
            let unit = (u64::from(self.machine.line_bytes()) / 64).max(1);
            let counts = self.of_key(key);
            counts.fetched_lines += 1;
            counts.used_bytes += units as u64 * unit;
        }
    }

    fn fill(&mut self, cache: usize, line: u64, is_dirty: bool, is_unused: bool) {
        self.now += 1;
        let now = self.now;
        let place = self.caches[cache].room(line);
        let way = &mut self.caches[cache].set(line).ways[place];
        let left = way.line.replace(line).map(|left| (left, way.is_dirty));
        way.is_dirty = is_dirty;
        way.is_unused = is_unused;
        self.caches[cache].note(line, now, 2);
        let Some((line, mut is_dirty)) = left else { return };
        self.left(cache, line);
        let kind = self.caches[cache].kind;
        self.events[kind].evictions += 1;
        if self.inclusion(cache) == Inclusion::Inclusive {
            for near in self.nearer(cache) {
                if self.caches[near].holds(line) {
                    is_dirty |= self.take(near, line);
                    self.events[self.caches[near].kind].back_invalidations += 1;
                }
            }
        }
        if is_dirty {
            self.written_back(kind, line);
        }
        for far in self.farther(cache) {
            if let Some(way) = self.caches[far].way(line) {
                way.is_dirty |= is_dirty;
                return;
            }
            let is_held = self.nearer(far).into_iter().any(|near| self.caches[near].holds(line));
            if self.inclusion(far) == Inclusion::Exclusive && !is_held {
                self.came_unasked(far, line);
                return self.fill(far, line, is_dirty, false);
            }
        }
        if is_dirty {
            self.written_to_memory(line);
        }
    }

    fn came_unasked(&mut self, cache: usize, line: u64) {
        self.caches[cache].seen.insert(line);
        self.caches[cache].lost.remove(&line);
        self.note(cache, line, Note::Came);
    }

    /// A store changes a line in a first-level cache.
    fn change(&mut self, cache: usize, line: u64, key: u32) {
        let was_dirty = std::mem::replace(&mut self.caches[cache].way(line).unwrap().is_dirty, true);
        if !was_dirty {
            self.changers.insert(line, key);
        }
    }

    fn written_back(&mut self, kind: usize, line: u64) {
        self.events[kind].write_backs += 1;
        let key = self.changers[&line];
        self.of_key(key).write_backs[kind] += 1;
    }

    fn written_to_memory(&mut self, line: u64) {
        self.machine_events.memory_writes += 1;
        let key = self.changers[&line];
        self.of_key(key).memory_writes += 1;
    }

    fn unasked(&mut self, core: usize, way: &[usize], step: usize, line: u64, key: u32, kind: AccessKind) {
        let cache = way[step];
        let place = self.caches[cache].kind;
        let next = match self.machine.caches[place].prefetch {
            Prefetch::None => return,
            Prefetch::NextLine => line as i64 + 1,
            Prefetch::Stride => {
                let stream = self.caches[cache].streams.entry(key % 64).or_insert((0, 0, 0));
                if stream.0 != key {
                    *stream = (key, line, 0);
                    return;
                }
                let stride = line as i64 - stream.1 as i64;
                let was = std::mem::replace(stream, (key, line, stride));
                if stride == 0 || was.2 != stride {
                    return;
                }
                line as i64 + stride
            }
        };
        let page = |line: i64| line * i64::from(self.machine.line_bytes()) / 4096;
        if next < 0 || page(next) != page(line as i64) {
            return;
        }
        let next = next as u64;
        let is_held = self.nearer(cache).into_iter().any(|near| self.caches[near].holds(next));
        if self.caches[cache].holds(next) || self.inclusion(cache) == Inclusion::Exclusive && is_held {
            return;
        }
        self.events[place].prefetches += 1;
        self.settle(core, next, false, false);
        let server = (step + 1..way.len()).find(|&far| self.caches[way[far]].holds(next)).unwrap_or(way.len());
        let mut is_dirty = false;
        match way.get(server) {
            Some(&far) => {
                self.now += 1;
                let now = self.now;
                self.caches[far].note(next, now, 0);
                is_dirty = self.give(far, next);
            }
            None => drop(self.memory(core, next, None)),
        }
        for &far in way[step + 1..server].iter().rev() {
            if self.inclusion(far) != Inclusion::Exclusive {
                self.came_unasked(far, next);
                self.fill(far, next, false, false);
            }
        }
        self.came_unasked(cache, next);
        self.fill(cache, next, is_dirty, true);
        if step == 0 && kind != AccessKind::Fetch {
            self.caches[cache].used.insert(next, (key, BTreeSet::new()));
        }
    }

    /// Dubois et al., ISCA 1993: a miss is for what others wrote where a byte is accessed, while the line is there, that another
    /// core wrote since the line came last but for nothing.
    fn tell_true_misses(&mut self) {
        for cache in 0..self.caches.len() {
            for (line, notes) in std::mem::take(&mut self.caches[cache].notes) {
                let mut has_seen = 0;
                for (index, &(came, note)) in notes.iter().enumerate() {
                    let Note::CameBack { key, stays } = note else {
                        has_seen = if let Note::Came = note { came } else { has_seen };
                        continue;
                    };
                    let left = notes[index..].iter().find(|(_, note)| matches!(note, Note::Left));
                    let left = if stays { left.map_or(u64::MAX, |(at, _)| *at) } else { came };
                    let of_line = || self.touches.iter().filter(|touch| touch.line == line);
                    let is_others = |touch: &&Touch| touch.is_store && !self.is_own(touch.core, cache);
                    let others = of_line().filter(is_others).filter(|touch| (has_seen..came).contains(&touch.at));
                    let unseen: BTreeSet<u64> = others.flat_map(|touch| &touch.units).copied().collect();
                    // The access that brought it came first.
                    let brought = of_line().rfind(|touch| touch.at <= came && touch.way.contains(&cache));
                    let touches = of_line().filter(|touch| (came..=left).contains(&touch.at)).chain(brought);
                    let mut own = touches.filter(|touch| touch.way.contains(&cache));
                    if own.any(|touch| !touch.units.is_disjoint(&unseen)) {
                        has_seen = came;
                        let kind = self.caches[cache].kind;
                        let misses = &mut self.of_key(key).misses[kind];
                        misses.coherence_false -= 1;
                        misses.coherence_true += 1;
                    }
                }
            }
        }
    }

    pub(crate) fn end(&mut self) {
        self.tell_true_misses();
        for cache in 0..self.caches.len() {
            let used: Vec<_> = self.caches[cache].used.drain().map(|(_, used)| used).collect();
            used.into_iter().for_each(|(key, used)| self.count_used(key, used.len()));
        }
    }
}
