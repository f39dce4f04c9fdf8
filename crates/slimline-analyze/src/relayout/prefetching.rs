//! Which loads to prefetch, and how many steps ahead: those whose addresses are computed of indexes that go by a stride.
//!
//! Site tables tell what addresses of loads are computed of ([`KnownAddress`]), a first pass which of these loads go by a stride ([`find`]), a
//! second one what each load takes. Those that take most are replayed with prefetches at some distances
//! ([`prefetched`](slimline_simulate::prefetched)).

pub mod source;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use slimline_simulate::access::Work;
use slimline_simulate::locality::Walking;
use slimline_simulate::prefetched::{
    Copy, FoundSteps, Indirect, KeyRole, MOST_INDEXES, MainStep, NO_BODY, NO_INSTRUCTION,
};
use slimline_simulate::relaid::structure_key;
use slimline_simulate::waiting::Waited;
use slimline_trace::stream::decode::{KnownAddress, Program, SiteId};

use super::{Taken, TimeRatio, best};
use crate::origins::{Origin, Origins};

/// Steps ahead that are tried.
pub const DISTANCES: [u32; 5] = [4, 8, 16, 32, 64];
/// Part of the time that a load must take to be looked at.
pub const LEAST_SHARE: f64 = 0.03;
/// Part of the time that a chase must take to be told of.
pub const LEAST_CHASED: f64 = 0.1;

/// A load of which something is known, with all copies of it that the compiler made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundLoad {
    /// Keys of its accesses.
    pub keys: Vec<u32>,
    /// By numbers of sites; none of a chase.
    pub copies: Vec<Copy>,
    /// Instructions that compute its address anew; none of a chase.
    pub computed: f64,
    /// Its address comes of what it loaded a step before.
    pub is_chase: bool,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundLoads {
    /// By key.
    pub keys: Vec<KeyRole>,
    /// The loads.
    pub loads: Vec<FoundLoad>,
}

/// How a site goes through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It stays where it is.
    Stays,
    /// Mostly by one stride.
    Strides,
    Otherwise,
}

/// What is known of sites.
struct Sites<'a> {
    ways: FxHashMap<SiteId, Way>,
    addresses: FxHashMap<SiteId, &'a KnownAddress>,
    program: &'a Program,
}

/// Finds loads whose addresses are computed of others, by what each key's accesses are of and how they go through memory.
pub fn find(program: &Program, (sites, walks): (&[SiteId], &[Walking]), origins: &Origins) -> FoundLoads {
    let sites_known = Sites::of(program, sites, walks);
    let mut keys_of: FxHashMap<SiteId, Vec<u32>> = FxHashMap::default();
    for (key, site) in (0..).zip(sites) {
        keys_of.entry(*site).or_default().push(key);
    }
    let place = |site: SiteId| {
        let Origin { variable, field, function, line, column, called_at, called_at_column, .. } =
            origins.of(keys_of[&site][0]);
        // What has no place in the source is no copy of anything; of a macro all has one place.
        match column {
            0 => [site.0, 0, 0, 0, 0, 0, 0],
            _ => [variable, field, function, line, column, called_at, called_at_column],
        }
    };
    let mut loads: BTreeMap<_, FoundLoad> = BTreeMap::new();
    for address in program.addresses().iter().filter(|address| keys_of.contains_key(&address.site)) {
        let is_chase = address.is_carried;
        let copy = sites_known.copy(address);
        if copy.is_none() && !is_chase {
            continue;
        }
        let load = loads.entry((is_chase, place(address.site))).or_default();
        load.is_chase = is_chase;
        load.keys.extend(&keys_of[&address.site]);
        if let Some((copy, computed)) = copy {
            load.computed = load.computed.max(computed);
            load.copies.push(copy);
        }
    }
    let mut loads: Vec<FoundLoad> = loads.into_values().collect();
    loads.iter_mut().for_each(|load| load.copies.sort_unstable_by_key(|copy| copy.load));
    // Instructions have numbers of their own, and so has what is around loops: there are few of them among all sites.
    let (mut numbers, mut bodies) = <(Numbers, Numbers)>::default();
    for copy in loads.iter_mut().flat_map(|load| &mut load.copies) {
        let others = copy.through.iter_mut().chain(&mut copy.indexes).chain(&mut copy.staying);
        others.chain([&mut copy.load]).for_each(|site| numbered(site, &mut numbers));
        copy.around.iter_mut().for_each(|body| numbered(body, &mut bodies));
    }
    let role = |(told_as, site): (u32, &SiteId)| {
        let leads_on = sites_known.addresses.get(site).is_some_and(|address| address.leads_on);
        let instruction = numbers.get(&site.0).copied().unwrap_or(NO_INSTRUCTION);
        let body = program.body_of(*site).and_then(|body| bodies.get(&(body as u32))).copied().unwrap_or(NO_BODY);
        KeyRole { instruction, body, told_as, leads_on }
    };
    let keys = (1..).zip(sites).map(role).collect();
    FoundLoads { keys, loads }
}

type Numbers = FxHashMap<u32, u32>;

/// Puts a number of its own, one of few, in the place of one among many.
fn numbered(number: &mut u32, numbers: &mut Numbers) {
    let next = numbers.len() as u32;
    *number = *numbers.entry(*number).or_insert(next);
}

impl<'a> Sites<'a> {
    fn of(program: &'a Program, sites: &[SiteId], walks: &[Walking]) -> Self {
        // By site: accesses but the first of each key, and those of them that stay and that go by the key's main stride.
        let mut counts: FxHashMap<SiteId, [u64; 3]> = FxHashMap::default();
        for (site, walking) in sites.iter().zip(walks) {
            let [all, stays, strides] = counts.entry(*site).or_default();
            *all += walking.strides.total();
            let frequent = walking.strides.most_frequent();
            *stays += frequent.iter().find(|stride| stride.bytes == 0).map_or(0, |stride| stride.count);
            *strides += frequent.iter().find(|stride| stride.bytes != 0).map_or(0, |stride| stride.count);
        }
        let way = |[all, stays, strides]: [u64; 3]| {
            if 10 * stays >= 9 * all {
                Way::Stays
            } else if 2 * strides >= all {
                Way::Strides
            } else {
                Way::Otherwise
            }
        };
        Self {
            ways: counts.into_iter().map(|(site, counts)| (site, way(counts))).collect(),
            addresses: program.addresses().iter().map(|address| (address.site, address)).collect(),
            program,
        }
    }

    /// The loads that an address is computed of; nothing where one was never done.
    fn loads(&self, address: &KnownAddress) -> Option<Vec<(SiteId, Way)>> {
        address.loads.iter().map(|load| Some((*load, *self.ways.get(load)?))).collect()
    }

    /// A load that can be prefetched, and how many instructions compute its address anew.
    fn copy(&self, address: &KnownAddress) -> Option<(Copy, f64)> {
        // What goes by a stride itself hardware fetches.
        if address.is_carried || self.ways.get(&address.site) != Some(&Way::Otherwise) {
            return None;
        }
        let body = self.program.body_of(address.site).map(|body| &self.program.bodies()[body]);
        let around = body.and_then(|body| body.around).map(|around| around as u32);
        let mut copy = Copy { load: address.site.0, through: None, indexes: Vec::new(), staying: Vec::new(), around };
        let mut computed = f64::from(address.instructions);
        for (load, way) in self.loads(address)? {
            match way {
                Way::Strides => copy.indexes.push(load.0),
                Way::Stays => copy.staying.push(load.0),
                Way::Otherwise => {
                    let is_first = copy.through.replace(load.0).is_none();
                    let between = self.addresses.get(&load).filter(|between| !between.is_carried && is_first)?;
                    // For itself, and for what it is an index of.
                    computed += 2.0 * f64::from(between.instructions);
                    let before = copy.indexes.len();
                    for (load, way) in self.loads(between)? {
                        match way {
                            Way::Strides => copy.indexes.push(load.0),
                            Way::Stays => copy.staying.push(load.0),
                            Way::Otherwise => return None,
                        }
                    }
                    if copy.indexes.len() == before {
                        return None;
                    }
                }
            }
        }
        (1..=MOST_INDEXES).contains(&copy.indexes.len()).then_some((copy, computed))
    }
}

/// A load of which distances are tried.
#[derive(Clone, Debug)]
pub struct SearchedLoad {
    /// Which of [`FoundLoads::loads`].
    pub load: usize,
    /// Part of the program's time that it takes, as the model of waiting has it.
    pub share: f64,
    /// How often it was loaded.
    pub loads: u64,
    /// Steps of a time through its loop, on average; none where nobody knows where that ends.
    pub mean_trip_count: Option<f64>,
    /// What to replay.
    pub indirect: Indirect,
    /// By distance, what the program takes with this change alone, by a part of the accesses.
    pub tried: Vec<(u32, TimeRatio)>,
    /// What is advised, of these.
    pub chosen: Option<usize>,
    /// What all of the program took with the best of these, and nothing else changed.
    pub confirmed: Option<Taken>,
    /// That one, where it did not save enough then.
    rejected: Option<usize>,
}

impl SearchedLoad {
    /// Takes in what each distance came to, and chooses one.
    pub fn judge(&mut self, ratios: Vec<(u32, TimeRatio)>) {
        self.chosen = best(&ratios.iter().map(|(_, ratio)| *ratio).collect::<Vec<_>>());
        self.tried = ratios;
    }

    /// Takes in what the program took with what is chosen alone: one that does not save enough is not advised.
    pub fn confirm(&mut self, taken: Taken, before: &Taken) {
        self.confirmed = Some(taken);
        if !TimeRatio::of(&taken, before).is_worth_it() {
            self.rejected = self.chosen.take();
        }
    }

    /// The distance that is advised.
    pub fn advised(&self) -> Option<u32> {
        self.chosen.map(|chosen| self.tried[chosen].0)
    }

    /// Where none is advised: the one that all of the program was tried with, else the one that saves most.
    pub fn closest(&self) -> Option<(u32, TimeRatio)> {
        if let Some(rejected) = self.rejected {
            return Some(self.tried[rejected]);
        }
        self.tried.iter().max_by(|a, b| a.1.saved().total_cmp(&b.1.saved())).copied()
    }
}

/// What loads take.
#[derive(Clone, Debug, Default)]
pub struct MeasuredLoads {
    /// Those that take most and can be prefetched, that first.
    pub searched: Vec<SearchedLoad>,
    /// The chase that takes most, if that is much: which load, and its part of the time.
    pub chase: Option<(usize, f64)>,
}

impl FoundLoads {
    /// Whether there is any that can be prefetched, or a chase.
    pub fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// The copies of each.
    pub fn copies(&self) -> Vec<&[Copy]> {
        self.loads.iter().map(|load| &*load.copies).collect()
    }

    /// So many at most of those that take most, of times by key and of how their indexes go on.
    pub fn measured(&self, waited: &Waited, steps: &[FoundSteps], most: usize) -> MeasuredLoads {
        let time = |load: usize| -> f64 {
            let roles = self.loads[load].keys.iter().map(|key| &self.keys[*key as usize]);
            let told_as = roles.map(|role| structure_key(role.told_as, role.leads_on) as usize);
            told_as.filter_map(|key| waited.of_keys.get(key)).map(|times| times.expected).sum()
        };
        let whole = waited.times.expected;
        let share = |load: usize| if whole > 0.0 { time(load) / whole } else { 0.0 };
        let mut searched: Vec<SearchedLoad> = Vec::new();
        let mut chase: Option<(usize, f64)> = None;
        for (number, load) in self.loads.iter().enumerate() {
            let share = share(number);
            if load.is_chase {
                if share >= LEAST_CHASED && chase.is_none_or(|(_, most)| share > most) {
                    chase = Some((number, share));
                }
                continue;
            }
            let Some(main) = steps[number].main().filter(|_| share >= LEAST_SHARE) else { continue };
            let MainStep { stride, lanes, crosses_ends } = main;
            let (copies, told_as) = (load.copies.clone(), self.keys.len() as u32 + 1 + number as u32);
            searched.push(SearchedLoad {
                load: number,
                share,
                loads: steps[number].loads,
                mean_trip_count: steps[number].mean_trip_count(),
                indirect: Indirect {
                    copies,
                    stride,
                    lanes,
                    crosses_ends,
                    told_as,
                    work: Work::of(1.0 + load.computed),
                },
                tried: Vec::new(),
                chosen: None,
                confirmed: None,
                rejected: None,
            });
        }
        searched.sort_by(|a, b| b.share.total_cmp(&a.share));
        searched.truncate(most);
        MeasuredLoads { searched, chase }
    }
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::{Access, AccessKind, Consumer as _};
    use slimline_simulate::locality::KeyWalks;
    use slimline_simulate::prefetched::Steps;
    use slimline_simulate::waiting::Times;
    use slimline_trace::stream::sites::{Body, LoadedAddress, ModuleBuilder, Site, SiteKind};

    use super::*;
    use crate::origins::Names;

    /// Loads, by numbers of sites: what each address is computed of, and whether a step before. All have a place of their own in the source.
    fn program(addresses: &[(u32, &[u32], bool)]) -> (Program, Origins) {
        let mut builder = ModuleBuilder::new();
        builder.segment(vec![Site::new(SiteKind::Load, 8); 4]);
        for &(site, loads, is_carried) in addresses {
            let loads = loads.to_vec();
            builder.address(LoadedAddress { site, loads, is_carried, leads_on: is_carried, instructions: site });
        }
        builder.bodies(vec![
            Body { instructions: 7, sites: vec![2], around: None, is_loop: false },
            Body { instructions: 30, sites: vec![0, 1], around: Some(0), is_loop: true },
        ]);
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let mut names = Names::default();
        let line = names.number("a.c:3");
        let keys = (1..=4).map(|column| Origin { line, column, ..Origin::default() }).collect();
        (program, Origins::new(keys, Vec::new(), names, Vec::new()))
    }

    /// By key, from these places.
    fn loads(places: Vec<u64>) -> Vec<Access> {
        let load =
            |(key, address)| Access { address, key, bytes: 8, thread: 0, kind: AccessKind::Load, work: Work::USUAL };
        (0..).zip(places).map(load).collect()
    }

    /// What is found where site after site is loaded from these places, step after step.
    fn found(addresses: &[(u32, &[u32], bool)], places: impl Fn(u64) -> Vec<u64>) -> FoundLoads {
        let (program, origins) = program(addresses);
        let mut walks = KeyWalks::default();
        for step in 0..50 {
            walks.take(&loads(places(step)));
        }
        let sites: Vec<SiteId> = (0..4).map(SiteId).collect();
        find(&program, (&sites, &walks.finish()), &origins)
    }

    fn mixed(step: u64) -> u64 {
        step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 << 3
    }

    #[test]
    fn a_load_has_indexes_that_go_by_a_stride() {
        let places = |step: u64| vec![1000 + 4 * step, mixed(step), 5000, mixed(step + 70)];
        // The third stays where it is: it tells no step.
        let all = found(&[(1, &[0, 2], false)], places);
        let copy = Copy { load: 2, through: None, indexes: vec![0], staying: vec![1], around: Some(0) };
        assert_eq!(all.loads, [FoundLoad { keys: vec![1], copies: vec![copy], computed: 1.0, is_chase: false }]);
        let roles: Vec<u32> = all.keys.iter().map(|role| role.instruction).collect();
        assert_eq!(roles, [0, 2, 1, NO_INSTRUCTION]);
        assert_eq!([0, 1, 2, 3].map(|key: usize| all.keys[key].body), [NO_BODY, NO_BODY, 0, NO_BODY]);
        // Of an index that has one itself.
        let all = found(&[(1, &[0], false), (3, &[1], false)], places);
        let copies: Vec<&Copy> = all.loads.iter().flat_map(|load| &load.copies).collect();
        let of_two = Copy { load: 2, through: Some(1), indexes: vec![0], staying: Vec::new(), around: None };
        assert_eq!(copies[1], &of_two);
        // What is between is computed twice.
        assert_eq!(all.loads[1].computed, 3.0 + 2.0);
        // Two between are too many, and what has an index that goes nowhere by a stride has none.
        assert!(found(&[(3, &[1], false)], places).is_empty());
        // What goes by a stride itself needs none.
        assert!(found(&[(0, &[2], false), (2, &[0], false)], places).is_empty());
    }

    #[test]
    fn a_chase_is_one() {
        let all = found(&[(1, &[1], true), (3, &[0, 1], true)], |step| vec![4 * step, mixed(step), 0, mixed(step) + 8]);
        assert!(all.loads.iter().all(|load| load.is_chase && load.copies.is_empty()), "{all:?}");
        assert_eq!(all.loads.len(), 2);
        assert!(all.keys[1].leads_on && !all.keys[0].leads_on);
    }

    #[test]
    fn what_takes_most_is_looked_at() {
        let places = |step: u64| vec![1000 + 4 * step, mixed(step), 5000, mixed(step + 70)];
        let all = found(&[(1, &[0], false), (3, &[0], false)], places);
        let mut steps = Steps::new(&all.keys, &all.copies());
        for step in 0..50 {
            steps.take(&loads(places(step)));
        }
        let of_key = |expected| Times { least: 0.0, expected, most: 0.0 };
        let mut of_keys = vec![Times::default(); 20];
        of_keys[structure_key(2, false) as usize] = of_key(2.0);
        of_keys[structure_key(4, false) as usize] = of_key(50.0);
        let machine = slimline_simulate::machine::Machine::parse(
            "name = \"m\"\ncache = [{ name = \"L1\", level = 1, holds = \"data\", size = 512, line = 64, ways = 8, latency = 2 }]\n\
             memory = [{ name = \"m\", latency = 102 }]\n",
        );
        let simulation =
            slimline_simulate::simulation::Simulation::new(&machine.unwrap(), &Default::default()).unwrap();
        let outcome = simulation.finish();
        let waited = Waited { times: of_key(100.0), of_keys, keys: Vec::new(), outcome };
        let measured = all.measured(&waited, &steps.finish(), 3);
        let [load] = &measured.searched[..] else { panic!("{measured:?}") };
        assert_eq!((load.load, load.share, load.loads), (1, 0.5, 50));
        assert_eq!((load.indirect.stride, load.indirect.lanes, load.indirect.crosses_ends), (4, 1, false));
        // Its prefetches are told behind all keys, as the second load's; three instructions compute the address.
        assert_eq!((load.indirect.told_as, load.indirect.work), (6, Work::of(4.0)));
        assert_eq!(measured.chase, None);
    }
}
