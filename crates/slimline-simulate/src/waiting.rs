//! How long a program takes, where cores do not wait for every miss.
//!
//! The simulation knows what each access costs if all come one after the other. An out-of-order core waits for some of that only
//! (the model of Karkhanis and Smith, ISCA 2004, with the epochs of Chou, Fahs and Abraham, ISCA 2004):
//!
//! - a miss within [`WINDOW`] accesses of one that is waited for is under way at the same time, unless its address
//!   may be what that brings, as where a pointer was loaded from a line that is under way: the way along a list or tree is one miss after the other,
//!   but what the pointers of an array lead to is not, once they are there;
//! - a miss next to a line that was fetched before it, or as far from the one before as that was from the one before it, is a stream's, which
//!   hardware fetches in time;
//! - nobody waits for a store, nor for a prefetch; but who accesses a line that another core has taken does, whatever the access is;
//! - who loads what was prefetched waits for what is left of that miss by then, by the same rules as for a miss: it is under way from when it
//!   was asked for, by the time that the program took since;
//! - what is not waited for is transferred while the core computes, if not wholly: [`WINDOW`] by [`WINDOW`] of what each takes the root of
//!   the sum of squares, which is 1.4 times either where both take as long, and the longer one where they differ.
//!
//! A trace does not tell what is computed between accesses, but for code that tells how many instructions there are for each access of a loop
//! ([`Work`]): such an access counts for as many as have that many instructions usually. So there are three programs: as is usual ([`EXPECTED`]), and the ends
//! between which the truth lies: one that computes much and whose misses all overlap ([`LEAST`]), and one that computes little
//! and waits for each ([`MOST`]).

use rustc_hash::{FxHashMap, FxHashSet};

use crate::access::{Access, AccessKind, Consumer, Located, TOGETHER, Work};
use crate::machine::{LARGE_PAGE_BYTES, SMALL_PAGE_BYTES};
use crate::relaid::leads_on;
use crate::simulation::{LargePages, Outcome, Simulation};

/// Accesses that a core has under way at a time: some hundred and fifty to five hundred instructions, of which two in five access
/// memory.
pub const WINDOW: u64 = 64;
/// Lines that a core fetches at a time: the buffers of the first level, ten to twenty-four in cores of the last ten years. Streams from farther caches
/// are no faster: on an EPYC 3.7 cycles a line of 42 more than a hit, 4.7 where no stream is.
pub const IN_FLIGHT: f64 = 10.0;
/// Lines of streams that come from memory at a time: at 200 cycles and 3 GHz 15 GB/s, of which a core of a server gets 12 to 25.
pub const IN_FLIGHT_FROM_MEMORY: f64 = 16.0;
/// Streams that are followed at a time.
const STREAMS: usize = 16;
/// The farthest stride of one: hardware follows none beyond half a page.
const FARTHEST_STRIDE: u64 = 2048;
/// Lines that a stream may go on by without having a stride.
const NEXT_LINES: u64 = 2;

/// What is assumed of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assumed {
    /// Cycles of an access that hits, with the instructions around it.
    pub work_cycles: f64,
    /// Cycles of the kernel, where memory serves a page first: half a microsecond on bare metal, more in virtual machines.
    pub fault_cycles: f64,
}

impl Assumed {
    /// Cycles of so many accesses that hit, so many of them prefetches: around these nothing is computed but an address.
    fn work(&self, accesses: f64, prefetches: f64) -> f64 {
        (accesses - prefetches) * self.work_cycles + prefetches * self.work_cycles.min(EXPECTED.work_cycles)
    }
}

/// A fault of a large page by that of a small one: it is cleared, 512 times as many bytes, for one entry to the kernel (75 to 100
/// measured on a virtual machine, Linux 6).
pub const LARGE_FAULT: f64 = 100.0;

/// What is usual: some instructions for each access, of a cycle each.
pub const EXPECTED: Assumed = Assumed { work_cycles: Work::USUAL.instructions(), fault_cycles: 4000.0 };
/// Of a program that computes much.
pub const LEAST: Assumed = Assumed { work_cycles: 6.0, fault_cycles: 7500.0 };
/// Of one that computes little.
pub const MOST: Assumed = Assumed { work_cycles: 1.0, fault_cycles: 1000.0 };

/// Cycles of all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// If it computes much, and all misses overlap.
    pub least: f64,
    /// As the model has it.
    pub expected: f64,
    /// If it computes little, and no misses overlap.
    pub most: f64,
}

impl Times {
    fn add(&mut self, other: &Self) {
        self.least += other.least;
        self.expected += other.expected;
        self.most += other.most;
    }
}

/// Lines of prefetches that are followed at a time: those that nobody came for by then are there.
const MOST_ASKED: usize = 1 << 10;

/// When something happens, in cycles since the program began: as expected, and if it computes little and no misses overlap.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    expected: f64,
    most: f64,
}

/// What was found.
#[derive(Debug)]
pub struct Waited {
    /// Of all of it.
    pub times: Times,
    /// By key, where that was asked for: its part of that but for the kernel's. Nothing is there of keys behind the last one that was accessed.
    pub of_keys: Vec<Times>,
    /// By key: what its accesses take as expected, work and misses, whether something else is done meanwhile or not. Nothing is there of keys behind the last
    /// one that was accessed.
    pub keys: Vec<f64>,
    /// What the machine did.
    pub outcome: Outcome,
}

/// One thread's core.
#[derive(Debug)]
struct Core {
    /// Its accesses so far; one with more or fewer instructions than usual is as many as have these.
    accesses: f64,
    /// Those of them in this window, and which of these are prefetches.
    of_window: f64,
    prefetches: f64,
    /// Up to which misses are under way together.
    together_until: f64,
    /// Lines that are under way until then.
    under_way: Vec<u64>,
    /// It loaded a pointer from one of them since it waited last.
    is_led: bool,
    /// By line: when what was prefetched is there.
    asked: FxHashMap<u64, At>,
    /// Those that are followed, and where the next one goes.
    streams: [Stream; STREAMS],
    next_stream: usize,
    /// What was transferred in this window: as expected, and if all misses overlap.
    transfer: f64,
    least_transfer: f64,
    /// By access of this window, where times are told by key: its key, how many it is, and what of both transfers is for it.
    window: Vec<(u32, f64, f64, f64)>,
    times: Times,
}

impl Default for Core {
    fn default() -> Self {
        Self {
            accesses: 0.0,
            of_window: 0.0,
            prefetches: 0.0,
            together_until: 0.0,
            under_way: Vec::new(),
            is_led: false,
            asked: FxHashMap::default(),
            streams: [Stream::default(); STREAMS],
            next_stream: 0,
            transfer: 0.0,
            least_transfer: 0.0,
            window: Vec::new(),
            times: Times::default(),
        }
    }
}

impl Core {
    /// Ends a window. Of the time that work and transfers take together each access has its part by what it adds to either.
    fn end_window(&mut self, of_keys: &mut [Times]) {
        let work = |assumed: Assumed| assumed.work(self.of_window, self.prefetches);
        let ended = Times {
            expected: work(EXPECTED).hypot(self.transfer),
            least: work(LEAST).max(self.least_transfer),
            most: work(MOST),
        };
        let part = |own: f64, transfer: f64, (work, all): (f64, f64)| (own + transfer) / (work + all);
        let (expected, least) = ((work(EXPECTED), self.transfer), (work(LEAST), self.least_transfer));
        for (key, accesses, transfer, least_transfer) in self.window.drain(..) {
            of_keys[key as usize].add(&Times {
                expected: ended.expected * part(accesses * EXPECTED.work_cycles, transfer, expected),
                least: ended.least * part(accesses * LEAST.work_cycles, least_transfer, least),
                most: accesses * MOST.work_cycles,
            });
        }
        self.times.add(&ended);
        (self.of_window, self.prefetches, self.transfer, self.least_transfer) = (0.0, 0.0, 0.0, 0.0);
    }

    /// The time before the access that it is at.
    fn now(&self) -> At {
        let work = |assumed: Assumed| assumed.work(self.of_window, self.prefetches);
        At { expected: self.times.expected + work(EXPECTED).hypot(self.transfer), most: self.times.most + work(MOST) }
    }

    /// Asks for a line that takes so long.
    fn ask(&mut self, line: u64, cycles: f64) {
        let now = self.now();
        if self.asked.len() >= MOST_ASKED {
            self.asked.retain(|_, there| there.expected > now.expected || there.most > now.most);
        }
        if self.asked.len() < MOST_ASKED {
            self.asked.insert(line, At { expected: now.expected + cycles, most: now.most + cycles });
        }
    }

    /// What is left to wait for of a line that was asked for: as expected, and at most.
    fn left(&mut self, line: u64) -> (f64, f64) {
        if self.asked.is_empty() {
            return (0.0, 0.0);
        }
        let Some(there) = self.asked.remove(&line) else { return (0.0, 0.0) };
        let now = self.now();
        ((there.expected - now.expected).max(0.0), (there.most - now.most).max(0.0))
    }

    /// The stride of the stream that a miss is where it goes on, which it does from there; 0 of one that begins. One that is near a stream gives it a
    /// stride.
    fn stream(&mut self, address: u64, line_shift: u32) -> Option<u64> {
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.goes_on(address, line_shift)) {
            let stride = stream.stride;
            stream.reach(address);
            return Some(stride);
        }
        match self.streams.iter_mut().find(|stream| address.abs_diff(stream.last) <= FARTHEST_STRIDE) {
            Some(stream) => stream.reach(address),
            None => {
                self.streams[self.next_stream] = Stream { last: address, stride: 0 };
                self.next_stream = (self.next_stream + 1) % STREAMS;
            }
        }
        None
    }
}

/// Misses that follow each other.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Where the last one was, and how far from the one before it; 0 where there is none.
    last: u64,
    stride: u64,
}

impl Default for Stream {
    /// One that is near nothing.
    fn default() -> Self {
        Self { last: u64::MAX / 2, stride: 0 }
    }
}

impl Stream {
    fn goes_on(&self, address: u64, line_shift: u32) -> bool {
        let lines = (address >> line_shift).abs_diff(self.last >> line_shift);
        (1..=NEXT_LINES).contains(&lines) || self.stride != 0 && address == self.last.wrapping_add(self.stride)
    }

    fn reach(&mut self, address: u64) {
        (self.stride, self.last) = (address.wrapping_sub(self.last), address);
    }
}

/// Estimates times of accesses with keys of [`structure_key`](crate::relaid::structure_key).
#[derive(Debug)]
pub struct Waiting {
    simulation: Simulation,
    line_shift: u32,
    cores: Vec<Core>,
    keys: Vec<f64>,
    /// The same of all of its time; none where nobody asked.
    of_keys: Option<Vec<Times>>,
    /// Pages that memory served; none where faults do not count.
    pages: Option<FxHashSet<u64>>,
    /// Bytes of these, and what the fault of one takes by that of a small one.
    page_bytes: u64,
    fault: f64,
}

impl Waiting {
    /// On a machine that has done nothing yet.
    pub fn new(simulation: Simulation) -> Self {
        let machine = simulation.machine();
        let line_shift = machine.line_bytes().trailing_zeros();
        let (page_bytes, fault) = match simulation.large_pages() {
            LargePages::All => (LARGE_PAGE_BYTES, LARGE_FAULT),
            LargePages::None | LargePages::Ranges(_) => (SMALL_PAGE_BYTES, 1.0),
        };
        Self {
            simulation,
            line_shift,
            cores: Vec::new(),
            keys: Vec::new(),
            of_keys: None,
            pages: Some(FxHashSet::default()),
            page_bytes,
            fault,
        }
    }

    /// The same of a part of a program: which pages it accesses first nobody knows.
    #[must_use]
    pub fn without_faults(self) -> Self {
        Self { pages: None, ..self }
    }

    /// The same with times by key.
    #[must_use]
    pub fn by_key(self) -> Self {
        Self { of_keys: Some(Vec::new()), ..self }
    }

    /// What was found.
    pub fn finish(mut self) -> Waited {
        let faults = self.pages.as_ref().map_or(0, FxHashSet::len) as f64 * self.fault;
        let mut times = Times {
            least: faults * LEAST.fault_cycles,
            expected: faults * EXPECTED.fault_cycles,
            most: faults * MOST.fault_cycles,
        };
        let mut of_keys = self.of_keys.unwrap_or_default();
        for core in &mut self.cores {
            core.end_window(&mut of_keys);
            times.add(&core.times);
        }
        Waited { times, of_keys, keys: self.keys, outcome: self.simulation.finish() }
    }

    #[inline]
    fn one(&mut self, access: &Access) {
        let cost = self.simulation.cost(access, None);
        let thread = access.thread as usize;
        if self.cores.len() <= thread {
            self.cores.resize_with(thread + 1, Core::default);
        }
        let core = &mut self.cores[thread];
        let is_prefetch = access.kind == AccessKind::Prefetch;
        let weight = access.work.instructions() / Work::USUAL.instructions();
        core.accesses += weight;
        let line = access.first_byte() >> self.line_shift;
        let extra = (cost.cycles - cost.hit_cycles) as f64;
        // What it is waited for, and all that it adds to transfers: as expected, and if all misses overlap.
        let (mut waited, mut most_waited) = (extra, extra);
        let (mut transfer, mut least_transfer) = (0.0, 0.0);
        let mut stream = None;
        if extra > 0.0 {
            if let Some(pages) = self.pages.as_mut().filter(|_| cost.is_from_memory) {
                let (first, last) = access.ends();
                pages.extend(first / self.page_bytes..=last / self.page_bytes);
            }
            stream = core.stream(access.first_byte(), self.line_shift);
            let together = if stream.is_some() && cost.is_from_memory { IN_FLIGHT_FROM_MEMORY } else { IN_FLIGHT };
            least_transfer = extra / together;
            // What hardware fetches in time is there.
            if is_prefetch && stream.is_none() {
                core.ask(line, extra);
            }
        } else if !is_prefetch {
            (waited, most_waited) = core.left(line);
        }
        if is_prefetch {
            // Buffers for lines under way are few, whoever waits.
            (waited, most_waited) = (0.0, least_transfer);
            core.prefetches += weight;
        }
        core.of_window += weight;
        if waited > 0.0 {
            // A line that another core took comes when it is asked for: nobody knew that it was gone.
            let is_waited_for = match access.kind {
                _ if cost.coherence > 0 => true,
                AccessKind::Store => false,
                _ if stream.is_some() => false,
                _ => core.is_led || core.accesses > core.together_until,
            };
            if !is_waited_for {
                waited = 0.0;
            } else if extra > 0.0 {
                // What is left of an earlier miss is no time for others to come in.
                core.is_led = false;
                core.together_until = core.accesses + WINDOW as f64;
                core.under_way.clear();
            }
        }
        if waited == 0.0 {
            transfer = least_transfer;
        }
        if extra > 0.0 || most_waited > 0.0 {
            core.times.expected += waited;
            core.times.most += most_waited;
            core.transfer += transfer;
            core.least_transfer += least_transfer;
        }
        let key = access.key as usize;
        if self.keys.len() <= key {
            self.keys.resize(key + 1, 0.0);
        }
        self.keys[key] += weight * EXPECTED.work_cycles + waited + transfer;
        if !matches!(access.kind, AccessKind::Store | AccessKind::Prefetch) {
            let is_known = core.accesses > core.together_until;
            // The second line of an element is no stream yet.
            if most_waited > 0.0 && stream.is_none_or(|stride| stride == 0) && !is_known {
                core.under_way.push(line);
            }
            core.is_led |= leads_on(access.key) && !is_known && core.under_way.contains(&line);
        }
        if let Some(of_keys) = &mut self.of_keys {
            if of_keys.len() <= key {
                of_keys.resize(key + 1, Times::default());
            }
            of_keys[key].expected += waited;
            of_keys[key].most += most_waited;
            core.window.push((access.key, weight, transfer, least_transfer));
        }
        if core.of_window >= WINDOW as f64 {
            core.end_window(self.of_keys.as_deref_mut().unwrap_or_default());
        }
    }
}

impl Consumer for Waiting {
    fn take(&mut self, accesses: &[Access]) {
        for together in accesses.chunks(TOGETHER) {
            self.simulation.read_ahead(together);
            together.iter().for_each(|access| self.one(access));
        }
    }

    fn locate(&mut self, _: &Located<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::relaid::{NO_STRUCTURE, structure_key};
    use crate::simulation::Options;

    /// One cache of eight lines: a hit takes 2 cycles, memory 100 more than that. Without work and faults.
    fn waited(accesses: &[(u64, u32, AccessKind)]) -> Times {
        let machine = Machine::parse(
            "name = \"m\"\ncores = 1\ncache = [{ name = \"L1\", level = 1, holds = \"data\", size = 512, line = 64, \
             ways = 8, latency = 2 }]\nmemory = [{ name = \"m\", latency = 102 }]\n",
        );
        let mut waiting = Waiting::new(Simulation::new(&machine.unwrap(), &Options::default()).unwrap());
        let access = |&(address, key, kind)| Access { address, key, bytes: 8, thread: 0, kind, work: Work::USUAL };
        waiting.take(&accesses.iter().map(access).collect::<Vec<_>>());
        let pages: FxHashSet<u64> = accesses.iter().map(|(at, ..)| at / SMALL_PAGE_BYTES).collect();
        let Times { least, expected, most } = waiting.finish().times;
        // Without what is lost behind the comma beside so large a number.
        let without = |time: f64, assumed: Assumed| rounded(time - pages.len() as f64 * assumed.fault_cycles);
        Times { least: without(least, LEAST), expected: without(expected, EXPECTED), most: without(most, MOST) }
    }

    /// Two accesses on two small pages of one large one.
    #[test]
    fn large_pages_fault_once() {
        let machine = Machine::parse(
            "name = \"m\"\ncores = 1\ncache = [{ name = \"L1\", level = 1, holds = \"data\", size = 512, line = 64, \
             ways = 8, latency = 2 }]\nmemory = [{ name = \"m\", latency = 102 }]\n",
        )
        .unwrap();
        let time = |large_pages| {
            let options = Options { large_pages, ..Options::default() };
            let mut waiting = Waiting::new(Simulation::new(&machine, &options).unwrap());
            let access =
                |address| Access { address, key: 0, bytes: 8, thread: 0, kind: AccessKind::Store, work: Work::USUAL };
            waiting.take(&[0x20_0000, 0x20_1000].map(access));
            waiting.finish().times.expected
        };
        let saved = time(LargePages::None) - time(LargePages::All);
        assert_eq!(saved, (2.0 - LARGE_FAULT) * EXPECTED.fault_cycles);
    }

    #[test]
    fn keys_have_parts_of_all_of_it() {
        let machine = Machine::parse(
            "name = \"m\"\ncores = 1\ncache = [{ name = \"L1\", level = 1, holds = \"data\", size = 512, line = 64, \
             ways = 8, latency = 2 }]\nmemory = [{ name = \"m\", latency = 102 }]\n",
        )
        .unwrap();
        let simulation = Simulation::new(&machine, &Options::default()).unwrap();
        let mut waiting = Waiting::new(simulation).without_faults().by_key();
        let access =
            |(address, key)| Access { address, key, bytes: 8, thread: 0, kind: AccessKind::Load, work: Work::USUAL };
        // The first one is waited for; of three that are under way meanwhile the other key has two, and a hit.
        waiting.take(&[(FAR[0], 1), (FAR[1], 1), (FAR[2], 3), (FAR[3], 3), (FAR[3], 3)].map(access));
        let Waited { times, of_keys, keys, .. } = waiting.finish();
        // What each adds: work, what is waited for, and what is transferred.
        assert_eq!(keys, [0.0, 2.0 * 2.5 + 100.0 + 10.0, 0.0, 3.0 * 2.5 + 20.0]);
        let together = 12.5_f64.hypot(30.0);
        let [one, other] = [(5.0 + 10.0) / 42.5, (7.5 + 20.0) / 42.5].map(|part| together * part);
        assert_eq!(
            (rounded(of_keys[1].expected), rounded(of_keys[3].expected)),
            (rounded(100.0 + one), rounded(other))
        );
        assert_eq!((of_keys[1].most, of_keys[3].most), (202.0, 203.0));
        let sum = of_keys.iter().fold(Times::default(), |mut sum, key| {
            sum.add(key);
            sum
        });
        assert_eq!(
            [sum.least, sum.expected, sum.most].map(rounded),
            [times.least, times.expected, times.most].map(rounded)
        );
    }

    fn rounded(time: f64) -> f64 {
        (time * 1e6).round() / 1e6
    }

    /// Lines that are far from each other.
    const FAR: [u64; 4] = [0x10_000, 0x90_000, 0x30_000, 0x70_000];

    #[test]
    fn misses_near_each_other_overlap() {
        let loads = FAR.map(|at| (at, NO_STRUCTURE, AccessKind::Load));
        // One is waited for, three are under way meanwhile.
        assert_eq!(
            waited(&loads),
            Times { least: 40.0, expected: rounded(100.0 + 10_f64.hypot(30.0)), most: 400.0 + 4.0 }
        );
        // Hits in between until the window is over.
        let mut apart = vec![loads[0]];
        apart.extend(std::iter::repeat_n(loads[0], WINDOW as usize));
        apart.push(loads[1]);
        let accesses = WINDOW as f64 + 2.0;
        let expected = Times { least: accesses * 6.0, expected: accesses * 2.5 + 200.0, most: accesses + 200.0 };
        assert_eq!(waited(&apart), Times { least: expected.least - 2.0 * 6.0 + 12.0, ..expected });
    }

    #[test]
    fn what_a_pointer_leads_to_comes_after_it() {
        let chased = FAR.map(|at| (at, structure_key(0, true), AccessKind::Load));
        assert_eq!(waited(&chased).expected, 400.0 + 10.0);
        // Of pointers that are near all lead there at once.
        let near = (FAR[0], structure_key(0, true), AccessKind::Load);
        let mut held = vec![near];
        held.extend(std::iter::repeat_n(near, WINDOW as usize));
        let before = held.len();
        held.extend(FAR[1..].iter().flat_map(|at| [near, (*at, NO_STRUCTURE, AccessKind::Load)]));
        // The first window is over; then one is waited for, and two are under way meanwhile.
        let behind = (held.len() - before + 1) as f64;
        assert_eq!(waited(&held).expected, rounded(100.0 + 160.0 + 100.0 + (behind * 2.5).hypot(20.0)));
        // So does what a pointer in the second line of a node leads to.
        let two_lines = FAR.iter().flat_map(|at| {
            [(*at, structure_key(0, false), AccessKind::Load), (at + 64, structure_key(0, true), AccessKind::Load)]
        });
        assert_eq!(waited(&two_lines.collect::<Vec<_>>()).expected, rounded(400.0 + 20_f64.hypot(25.0)));
        // Who writes pointers is not led by them, and waits for nothing.
        let written = FAR.map(|at| (at, structure_key(0, true), AccessKind::Store));
        assert_eq!(waited(&written).expected, rounded(10_f64.hypot(40.0)));
    }

    #[test]
    fn an_access_with_more_instructions_counts_for_more() {
        let machine = Machine::parse(
            "name = \"m\"\ncores = 1\ncache = [{ name = \"L1\", level = 1, holds = \"data\", size = 512, line = 64, \
             ways = 8, latency = 2 }]\nmemory = [{ name = \"m\", latency = 102 }]\n",
        );
        let machine = machine.unwrap();
        let waiting = || Waiting::new(Simulation::new(&machine, &Options::default()).unwrap()).without_faults();
        // Three have 100 instructions each, which are 40 usual accesses; of the last one nothing is told.
        let (mut waiting, mut prefetching) = (waiting(), waiting());
        let (much, usual) = (Work::of(100.0), Work::USUAL);
        let access = |(address, work)| Access { address, key: 0, bytes: 8, thread: 0, kind: AccessKind::Load, work };
        waiting.take(&[(FAR[0], much), (FAR[1], much), (FAR[2], much), (FAR[3], usual)].map(access));
        let times = waiting.finish().times;
        // The third is no longer under way with the first, but the fourth is with that. A window ends behind the second.
        let expected = 200.0 + 200_f64.hypot(10.0) + 102.5_f64.hypot(10.0);
        assert_eq!(rounded(times.expected), rounded(expected));
        assert_eq!((times.most, times.least), (400.0 + 121.0, 121.0 * 6.0));
        // So has what computes the address of a prefetch.
        prefetching.take(&[Access { kind: AccessKind::Prefetch, ..access((FAR[0], much)) }]);
        assert_eq!(rounded(prefetching.finish().times.expected), rounded(100_f64.hypot(10.0)));
    }

    #[test]
    fn what_was_prefetched_is_waited_for_as_long_as_it_is_under_way() {
        let [one, hit] = [(FAR[0], NO_STRUCTURE, AccessKind::Prefetch), (FAR[1], NO_STRUCTURE, AccessKind::Load)];
        let load = (FAR[0], NO_STRUCTURE, AccessKind::Load);
        // A line that all others hit, so many of them, and the load of what was asked for before these.
        let after = |hits: usize| {
            let mut all = vec![hit];
            all.extend(std::iter::repeat_n(hit, WINDOW as usize));
            let before = all.len();
            all.push(one);
            all.extend(std::iter::repeat_n(hit, hits));
            all.push(load);
            (waited(&all), (all.len() - before) as f64)
        };
        // That and the first line, by the work of 65 accesses, of which one has ended the window.
        let (times, accesses) = after(0);
        let work = (64.0 + accesses) * 2.5;
        let of_window = |accesses: f64| 160.0 + ((1.0 + accesses) * 2.5_f64).hypot(10.0);
        // The prefetch is the second of its window, and 2.5 cycles and its transfer pass before the load.
        let passed = 5.0_f64.hypot(10.0) - 2.5;
        assert_eq!(times.expected, rounded(100.0 + 100.0 - passed + of_window(accesses)));
        assert!(times.expected > work + 100.0);
        assert_eq!(times.most, 64.0 + 1.0 + accesses + 100.0 + 99.0);
        // With work enough between nothing is waited for, but for transfers.
        let (times, accesses) = after(45);
        assert_eq!(times.expected, rounded(100.0 + of_window(accesses)));
        // Nothing more is computed around a prefetch by who computes much.
        assert_eq!(times.least, rounded(64.0 * 6.0 + accesses * 6.0 + 2.5));
    }

    #[test]
    fn streams_come_in_time() {
        let streamed: Vec<_> = (0..5).map(|line| (0x10_000 + line * 64, NO_STRUCTURE, AccessKind::Load)).collect();
        assert_eq!(waited(&streamed).expected, rounded(100.0 + 12.5_f64.hypot(25.0)));
        let back: Vec<_> = streamed.iter().rev().map(|of| (of.0, structure_key(0, true), of.2)).collect();
        // Also where a pointer leads along.
        assert_eq!(waited(&back).expected, rounded(100.0 + 12.5_f64.hypot(25.0)));
    }

    #[test]
    fn streams_from_farther_caches_are_no_faster_than_other_lines() {
        let machine = Machine::parse(
            "name = \"m\"\ncores = 1\ncache = [{ name = \"L1\", level = 1, holds = \"data\", size = 512, line = 64, \
             ways = 8, latency = 2 }, { name = \"L2\", level = 2, holds = \"both\", size = 65536, line = 64, ways = 8, \
             latency = 12 }]\nmemory = [{ name = \"m\", latency = 102 }]\n",
        );
        let simulation = Simulation::new(&machine.unwrap(), &Options::default()).unwrap();
        let mut waiting = Waiting::new(simulation).without_faults();
        let line = |line: u64| Access {
            address: 0x10_000 + line * 64,
            key: 0,
            bytes: 8,
            thread: 0,
            kind: AccessKind::Load,
            work: Work::USUAL,
        };
        // Sixteen lines from memory, the first of which is waited for, then the same from the second level, ten cycles each.
        waiting.take(&(0..16).chain(0..16).map(line).collect::<Vec<_>>());
        let [from_memory, from_second] = [15.0 * 100.0 / IN_FLIGHT_FROM_MEMORY, 16.0 * 10.0 / IN_FLIGHT];
        let expected = 100.0 + (32.0 * 2.5_f64).hypot(from_memory + from_second);
        assert_eq!(rounded(waiting.finish().times.expected), rounded(expected));
    }

    #[test]
    fn what_is_prefetched_in_a_stream_comes_in_time() {
        let line = |line: u64, kind| (0x10_000 + line * 64, NO_STRUCTURE, kind);
        let all = [line(0, AccessKind::Load), line(1, AccessKind::Prefetch), line(1, AccessKind::Load)];
        assert_eq!(waited(&all).expected, rounded(100.0 + 7.5_f64.hypot(6.25)));
    }

    #[test]
    fn streams_have_strides() {
        let every = |bytes: u64| -> Vec<_> {
            (0..6).map(|node| (0x10_000 + node * bytes, structure_key(0, true), AccessKind::Load)).collect()
        };
        // Two nodes until there is a stride; what is farther than half a page from each other is followed by nobody.
        assert_eq!(waited(&every(320)).expected, rounded(200.0 + 15_f64.hypot(25.0)));
        assert_eq!(waited(&every(2112)).expected, rounded(600.0 + 15.0));
    }
}
