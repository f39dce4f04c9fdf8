//! The search back from a sampled instruction for the one to blame, along every way on which it can have been come to.

use crate::blame::MAX_BACK;
use crate::blame_code::{Code, Predecessor};
use crate::blame_flow::{Found, Step, Wanted};
use crate::blame_loop::Loop;
use crate::flags::condition;
use crate::state::State;

/// Ways of one length that are followed at once. With [`MAX_BACK`] it bounds the search.
const MAX_PATHS: usize = 16;
/// Ways with different answers that are kept apart.
const MAX_ENDS: usize = 12;
/// Loops that ways are kept within: a sampled instruction's, and those that it may have been come to from.
const MAX_LOOPS: usize = 4;
/// A chain of register operations that goes round a loop and takes at least so many cycles is what the loop waits for.
/// A counter and what compares it takes less.
const CHAIN_CYCLES: u8 = 4;

/// Which conditions the flags of a sample fulfill if a way was taken: those of its conditional jumps, as far as no flag
/// changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlagTest {
    /// By number, a bit each.
    holds: u16,
    fails: u16,
}

impl FlagTest {
    pub(crate) const ANY: FlagTest = FlagTest { holds: 0, fails: 0 };

    /// False where the way was not taken.
    pub(crate) fn agrees(self, state: &State) -> bool {
        let numbers = |set: u16| (0..16).filter(move |number| set >> number & 1 != 0);
        numbers(self.holds).all(|number| condition(number, state) != Some(false))
            && numbers(self.fails).all(|number| condition(number, state) != Some(true))
    }

    /// What both ask for.
    pub(crate) fn common(self, other: FlagTest) -> FlagTest {
        FlagTest { holds: self.holds & other.holds, fails: self.fails & other.fails }
    }

    fn add(&mut self, number: u8, holds: bool) {
        let set = if holds { &mut self.holds } else { &mut self.fails };
        *set |= 1 << (number & 15);
    }
}

/// The memory instruction, or slow one, that is nearest on a way.
#[derive(Clone, Copy)]
struct Suspect {
    length: u8,
    slow: bool,
}

/// Instructions on the way back from the sampled one, nearest first.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    ips: [u64; MAX_BACK],
    length: usize,
    /// What the waiting instruction waits for before the last of them.
    wanted: Wanted,
    /// Cycles of the register operations that it waits for.
    chain: u8,
    /// What it waits for is loaded from a stack slot.
    through_slot: bool,
    nearest: Option<Suspect>,
    /// Which loop the waiting instruction is in.
    within: Option<u8>,
    /// It leaves that loop, by where the loop was entered.
    enters: bool,
    test: FlagTest,
    /// No instruction on the way changed a flag.
    keeps_flags: bool,
}

impl Path {
    const EMPTY: Path = Path {
        ips: [0; MAX_BACK],
        length: 0,
        wanted: Wanted::NOTHING,
        chain: 0,
        through_slot: false,
        nearest: None,
        within: None,
        enters: false,
        test: FlagTest::ANY,
        keeps_flags: true,
    };

    pub(crate) fn ips(&self) -> &[u64] {
        &self.ips[..self.length]
    }

    fn with(mut self, predecessor: &Predecessor) -> Option<Path> {
        *self.ips.get_mut(self.length)? = predecessor.ip;
        self.length += 1;
        if let Some((number, holds)) = predecessor.condition.filter(|_| self.keeps_flags) {
            self.test.add(number, holds);
        }
        self.keeps_flags &= !predecessor.step.writes_flags();
        Some(self)
    }

    /// What the flags show about how its last instruction was reached, as long as there is one way.
    fn test_beyond(self, code: &Code) -> FlagTest {
        let mut farther = Path { length: 0, ..self };
        let mut ip = self.ips().last().copied();
        while let Some(at) = ip.filter(|_| farther.keeps_flags) {
            let mut before = code.before(at).into_iter().chain(code.branches_to(at));
            let (only, None) = (before.next(), before.next()) else { break };
            let next = only.and_then(|only| farther.with(&only));
            farther = next.unwrap_or(farther);
            ip = next.map(|next| next.ips[next.length - 1]);
        }
        farther.test
    }

    fn see(&mut self, step: &Step) {
        if step.is_suspect() && self.nearest.is_none() {
            self.nearest = Some(Suspect { length: self.length as u8, slow: step.slow });
        }
    }
}

/// What a way comes to.
#[derive(Clone, Copy)]
pub(crate) struct End {
    path: Path,
    pub(crate) blames: Blames,
}

/// What is to blame on a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blames {
    /// The last instruction's access.
    Access,
    /// No access: it computed.
    Nothing,
    /// There are too many ways to say.
    Unknown,
}

impl End {
    const UNKNOWN: End = End { path: Path::EMPTY, blames: Blames::Unknown };

    /// The way to the blamed instruction, or as far back as it was followed; empty if that is the sampled one.
    pub(crate) fn ips(&self) -> &[u64] {
        self.path.ips()
    }

    /// Whether the sampled instruction's loop was just entered on this way.
    pub(crate) fn enters(&self) -> bool {
        self.path.enters
    }

    pub(crate) fn test(&self) -> FlagTest {
        self.path.test
    }
}

/// The ends of all ways.
pub(crate) struct Ends {
    ends: [End; MAX_ENDS],
    count: usize,
}

impl Ends {
    const NONE: Ends = Ends { ends: [End::UNKNOWN; MAX_ENDS], count: 0 };

    pub(crate) fn all(&self) -> &[End] {
        &self.ends[..self.count]
    }

    fn add(&mut self, end: End) {
        let alike = |other: &&mut End| {
            (other.blames, other.path.enters) == (end.blames, end.path.enters)
                && (end.blames != Blames::Access || other.ips() == end.ips())
        };
        if let Some(other) = self.ends[..self.count].iter_mut().find(alike) {
            other.path.test = other.path.test.common(end.path.test);
            if other.ips() != end.ips() {
                other.path.length = 0;
            }
        } else if let Some(room) = self.ends.get_mut(self.count) {
            *room = end;
            self.count += 1;
        } else {
            self.ends[MAX_ENDS - 1] = End::UNKNOWN;
        }
    }
}

/// The search and its result.
pub(crate) struct Search<'c> {
    code: &'c Code<'c>,
    /// No branch from elsewhere leads to what is looked at.
    is_whole: bool,
    sampled_ip: u64,
    skid: usize,
    start: Path,
    loops: [Option<Loop>; MAX_LOOPS],
    loop_count: usize,
    ends: Ends,
}

impl<'c> Search<'c> {
    /// From an instruction `skid` after the waiting one.
    pub(crate) fn behind(skid: u8, code: &'c Code<'c>, is_whole: bool, sampled_ip: u64) -> Search<'c> {
        let skid = skid.into();
        Search {
            code,
            is_whole,
            sampled_ip,
            skid,
            start: Path::EMPTY,
            loops: [const { None }; _],
            loop_count: 0,
            ends: Ends::NONE,
        }
    }

    /// From the waiting instruction itself, which may be the one to blame.
    pub(crate) fn at(waiting: &Step, code: &'c Code<'c>, is_whole: bool, sampled_ip: u64) -> Search<'c> {
        let mut search = Search::behind(0, code, is_whole, sampled_ip);
        search.start.wanted = Wanted::before(waiting);
        search.start.see(waiting);
        if waiting.is_source() {
            search.end(search.start, waiting.slow);
        }
        search
    }

    /// What all ways come to.
    pub(crate) fn run(mut self) -> Ends {
        if self.ends.count > 0 {
            return self.ends;
        }
        self.start.within = self.loop_around(self.sampled_ip);
        let (mut paths, mut count) = ([self.start; MAX_PATHS], 1);
        // All ways of one length before any longer one.
        while count > 0 {
            let (mut longer, mut longer_count) = ([Path::EMPTY; MAX_PATHS], 0);
            for path in &paths[..count] {
                let ip = path.ips().last().copied().unwrap_or(self.sampled_ip);
                let (code, mut goes_on) = (self.code, false);
                for predecessor in code.before(ip).into_iter().chain(code.branches_to(ip)) {
                    goes_on = true;
                    let mut path = *path;
                    if path.within.is_some_and(|number| !self.has(number, predecessor.ip)) {
                        (path.enters, path.within) = (true, None);
                    }
                    if let Some(path) = self.step(path, &predecessor) {
                        match longer.get_mut(longer_count) {
                            Some(room) => {
                                *room = path;
                                longer_count += 1;
                            }
                            // Where a loop was entered matters least.
                            None if path.enters => {}
                            None => self.ends.add(End::UNKNOWN),
                        }
                    }
                }
                if !goes_on {
                    self.finish(*path);
                }
            }
            (paths, count) = (longer, longer_count);
        }
        self.ends
    }

    /// One instruction back; None where the way ends.
    fn step(&mut self, path: Path, predecessor: &Predecessor) -> Option<Path> {
        if predecessor.step.barrier && path.length + 1 >= self.skid {
            self.finish(Path { wanted: Wanted::NOTHING, ..path });
            return None;
        }
        let is_turn = predecessor.ip == self.sampled_ip || path.ips().contains(&predecessor.ip);
        let mut path = path.with(predecessor)?;
        if path.length < self.skid {
            return Some(path);
        }
        let step = &predecessor.step;
        if path.length == self.skid {
            if !path.enters {
                path.within = self.loop_around(predecessor.ip).or(path.within);
            }
            path.wanted = Wanted::before(step);
            path.chain = step.cycles;
            path.through_slot = step.loads_slot();
            if step.is_source() {
                self.end(path, step.slow);
                return None;
            }
        } else {
            match path.wanted.back(step) {
                Found::Source => {
                    self.end(path, step.slow);
                    return None;
                }
                Found::Link => {
                    path.chain = path.chain.saturating_add(step.cycles);
                    path.through_slot |= step.loads_slot();
                }
                Found::Aside => {}
            }
        }
        path.see(step);
        let is_decided = path.wanted.is_empty() && path.nearest.is_some();
        if is_turn || is_decided || path.length == MAX_BACK {
            self.finish(path);
            return None;
        }
        Some(path)
    }

    /// A way that comes to no load that was waited for.
    fn finish(&mut self, mut path: Path) {
        let is_of_registers = !path.wanted.is_empty() && !path.through_slot;
        let computes = path.within.is_some() && is_of_registers && path.chain >= CHAIN_CYCLES;
        match path.nearest.filter(|_| !computes) {
            Some(nearest) => {
                path.length = nearest.length.into();
                self.end(path, nearest.slow);
            }
            None => self.end(path, true),
        }
    }

    /// The last instruction of a way is what was waited for: its access, unless it computes.
    fn end(&mut self, mut path: Path, computes: bool) {
        if self.is_whole {
            path.test = path.test_beyond(self.code);
        }
        self.ends.add(End { path, blames: if computes { Blames::Nothing } else { Blames::Access } });
    }

    fn has(&self, number: u8, ip: u64) -> bool {
        self.loops.get(usize::from(number)).and_then(Option::as_ref).is_some_and(|around| around.has(ip))
    }

    /// The number of the innermost loop of the instruction at `ip`.
    fn loop_around(&mut self, ip: u64) -> Option<u8> {
        let around = self.code.innermost_loop(ip)?;
        let known = self.loops[..self.loop_count].iter().position(|known| known.as_ref() == Some(&around));
        let number = known.or_else(|| {
            *self.loops.get_mut(self.loop_count)? = Some(around);
            self.loop_count += 1;
            Some(self.loop_count - 1)
        })?;
        u8::try_from(number).ok()
    }
}
