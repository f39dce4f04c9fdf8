//! The search back from a sampled instruction for the one to blame.

use crate::blame::MAX_BACK;
use crate::blame_code::{Code, Predecessor};
use crate::blame_flow::{Found, Step, Wanted};

/// Ways of one length that are followed at once. With [`MAX_BACK`] it bounds the search.
const MAX_PATHS: usize = 16;

/// Instructions on the way back from the sampled one, nearest first.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    ips: [u64; MAX_BACK],
    length: usize,
    /// What the waiting instruction waits for before the last of them.
    wanted: Wanted,
    /// A memory instruction or a slow one is among them.
    suspect: bool,
    /// It comes round a loop.
    back_edge: bool,
}

impl Path {
    const EMPTY: Path =
        Path { ips: [0; MAX_BACK], length: 0, wanted: Wanted::NOTHING, suspect: false, back_edge: false };

    pub(crate) fn ips(&self) -> &[u64] {
        &self.ips[..self.length]
    }

    /// Whether it was at this instruction before it came to it now.
    fn has_been_at(&self, ip: u64) -> bool {
        self.ips[..self.length - 1].contains(&ip)
    }

    fn with(mut self, ip: u64, back_edge: bool) -> Option<Path> {
        *self.ips.get_mut(self.length)? = ip;
        self.length += 1;
        self.back_edge |= back_edge;
        Some(self)
    }
}

/// The best way to a memory instruction, or a slow one, so far.
struct Best {
    path: Path,
    /// It ends at an instruction that takes long by itself: no access is to blame.
    slow: bool,
    /// By the first or second rule.
    waited_for: bool,
}

impl Best {
    /// Less is better.
    fn rank(&self) -> (bool, bool, usize) {
        (!self.waited_for, !self.path.back_edge, self.path.length)
    }
}

/// The search and its result.
pub(crate) struct Search {
    skid: usize,
    start: Path,
    best: Option<Best>,
    sampled_ip: u64,
    /// Round a loop there is no memory instruction and no slow one, as far as was looked.
    computes: bool,
}

impl Search {
    /// From an instruction `skid` after the waiting one.
    pub(crate) fn behind(skid: u8) -> Search {
        Search { skid: skid.into(), start: Path::EMPTY, best: None, sampled_ip: 0, computes: false }
    }

    /// From the waiting instruction itself, which may be the one to blame.
    pub(crate) fn at(waiting: &Step) -> Search {
        let start = Path { wanted: Wanted::before(waiting), suspect: waiting.is_suspect(), ..Path::EMPTY };
        let itself = Best { path: start, slow: waiting.slow, waited_for: waiting.is_source() };
        Search { skid: 0, start, best: start.suspect.then_some(itself), sampled_ip: 0, computes: false }
    }

    /// The way to the blamed instruction from the one at `sampled_ip`; empty if it is that one, None if no access is to
    /// blame.
    pub(crate) fn run(mut self, code: &Code, sampled_ip: u64) -> Option<Path> {
        self.sampled_ip = sampled_ip;
        let (mut paths, mut count) = ([self.start; MAX_PATHS], 1);
        if !self.may_improve_by(&self.start) {
            count = 0;
        }
        // All ways of one length before any longer one.
        while count > 0 {
            let (mut longer, mut longer_count) = ([Path::EMPTY; MAX_PATHS], 0);
            for path in &paths[..count] {
                let ip = path.ips().last().copied().unwrap_or(sampled_ip);
                for predecessor in code.before(ip).into_iter().chain(code.branches_to(ip)) {
                    if let Some(path) = self.step(*path, &predecessor)
                        && let Some(room) = longer.get_mut(longer_count)
                    {
                        *room = path;
                        longer_count += 1;
                    }
                }
            }
            (paths, count) = (longer, longer_count);
        }
        // What lies before a loop was executed once, and the loop many times.
        let is_before_it = |best: &Best| self.computes && !best.path.back_edge && best.path.length > 0;
        self.best.filter(|best| !best.slow && !is_before_it(best)).map(|best| best.path)
    }

    /// One instruction back; None where the path ends.
    fn step(&mut self, path: Path, predecessor: &Predecessor) -> Option<Path> {
        let mut path = path.with(predecessor.ip, predecessor.back_edge)?;
        if path.length < self.skid {
            return Some(path);
        }
        let step = &predecessor.step;
        let waited_for = if path.length == self.skid {
            path.wanted = Wanted::by(step);
            step.is_source()
        } else {
            path.wanted.back(step) == Found::Source
        };
        if step.is_suspect() {
            path.suspect = true;
            let offered = Best { path, slow: step.slow, waited_for };
            if self.best.as_ref().is_none_or(|best| offered.rank() < best.rank()) {
                self.best = Some(offered);
            }
        }
        let is_turn = path.length == MAX_BACK || predecessor.ip == self.sampled_ip || path.has_been_at(predecessor.ip);
        if path.back_edge && !path.suspect && is_turn {
            self.computes = true;
            return None;
        }
        (!waited_for && self.may_improve_by(&path)).then_some(path)
    }

    /// Whether going on along the path may lead to something better. A path that has not come round a loop by now is not
    /// taken to come round later: back edges only decide between ways that part near the sample, where a loop's head has
    /// its entry beside them. What is found nearer in the same turn is more likely than anything of the turn before.
    fn may_improve_by(&self, path: &Path) -> bool {
        let to_source = !path.wanted.is_empty();
        if path.length == MAX_BACK || path.suspect && !to_source {
            return false;
        }
        let best_ahead = (!to_source, !path.back_edge, path.length + 1);
        self.best.as_ref().is_none_or(|best| best_ahead < best.rank())
    }
}
