//! One shared line: who accesses its parts, and what it goes from thread to thread for.
//!
//! What it goes for is known by what its new holder accesses until it loses the line again, not by the access that found it
//! gone (Dubois et al., ISCA 1993): two threads that each store their own word and then load the other one's tell each other
//! something.

use rustc_hash::FxHashMap;

use super::{Between, Part, SharedLine, Uses};

/// No thread.
const NO_ONE: u32 = u32::MAX;

/// A line in the second pass.
#[derive(Clone, Debug)]
pub(super) struct Line {
    parts: FxHashMap<Part, Uses>,
    pairs: FxHashMap<(u32, u32), Between>,
    /// By bit of a mask, who stored it last.
    writers: [u32; 64],
    holders: Vec<Holder>,
}

/// A core that accesses the line: that of one thread, but for [`LIVE_CORES`](super::LIVE_CORES).
#[derive(Clone, Copy, Debug)]
struct Holder {
    core: u32,
    /// What others have stored, and it did not access when the line came for that.
    unseen: u64,
    /// What others have stored since it had the line.
    fresh: u64,
    /// Who of them was the last.
    taker: u32,
    /// The line came to it, so far for nothing.
    open: Option<Transfer>,
}

/// The line went from a thread to another one.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    /// What was accessed first.
    part: Part,
    /// What that thread has accessed since.
    touched: u64,
    from: u32,
    /// What the one that it is from had stored.
    stored: u64,
}

/// How an access found the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// There.
    Held,
    /// Gone, as others had stored.
    Taken,
    /// Gone for lack of room, or never there: all of it was seen when it came.
    Absent,
}

impl Default for Line {
    fn default() -> Self {
        Self { parts: FxHashMap::default(), pairs: FxHashMap::default(), writers: [NO_ONE; 64], holders: Vec::new() }
    }
}

impl Line {
    /// One that a core has, which knows all that is there.
    pub(super) fn held_by(core: u32) -> Self {
        Self { holders: vec![Holder::new(core)], ..Self::default() }
    }

    /// Whether others were seen to store since this core had the line.
    pub(super) fn is_taken_from(&self, core: u32) -> bool {
        self.holders.iter().any(|holder| holder.core == core && holder.fresh != 0)
    }

    /// A core accesses a part, which are these bytes as a mask.
    pub(super) fn access(&mut self, core: u32, part: Part, bytes: u64, uses: Uses, found: Found) {
        self.parts.entry(part).or_default().add(uses);
        let place = self.holders.iter().position(|holder| holder.core == core).unwrap_or_else(|| {
            self.holders.push(Holder::new(core));
            self.holders.len() - 1
        });
        let mut holder = self.holders[place];
        match found {
            Found::Taken => {
                self.settle(holder.open.take());
                let from = holder.taker;
                let stored = bits(holder.fresh).filter(|&bit| self.writers[bit] == from);
                let stored = stored.fold(0, |mask, bit| mask | 1 << bit);
                holder.open = Some(Transfer { part, touched: 0, from, stored });
            }
            // It may have come unasked.
            Found::Held if holder.fresh == 0 => {}
            Found::Held | Found::Absent => {
                self.settle(holder.open.take());
                holder.unseen = 0;
            }
        }
        holder.fresh = 0;
        if let Some(open) = &mut holder.open {
            let lacked = bytes & holder.unseen;
            if lacked != 0 {
                (holder.open, holder.unseen) = (None, 0);
                self.told(part, lacked);
            } else if part.thread == open.part.thread {
                open.touched |= bytes;
            }
        }
        self.holders[place] = holder;
        if uses.stores > 0 {
            for other in self.holders.iter_mut().filter(|other| other.core != core) {
                other.unseen |= bytes;
                other.fresh |= bytes;
                other.taker = part.thread;
            }
            bits(bytes).for_each(|bit| self.writers[bit] = part.thread);
        }
    }

    /// The line came for these bytes of what is accessed now.
    fn told(&mut self, part: Part, lacked: u64) {
        self.parts.entry(part).or_default().true_misses += 1;
        let Some(from) = bits(lacked).next().map(|bit| self.writers[bit]) else { return };
        let told = bits(lacked).filter(|&bit| self.writers[bit] == from).fold(0, |mask, bit| mask | 1 << bit);
        let between = self.between(part.thread, from);
        between.truly += 1;
        between.true_bytes |= told;
    }

    /// The line is gone again: if it came for nothing so far, it did.
    fn settle(&mut self, open: Option<Transfer>) {
        let Some(Transfer { part, touched, from, stored }) = open else { return };
        self.parts.entry(part).or_default().false_misses += 1;
        if from == NO_ONE {
            return;
        }
        let (own, other) = if part.thread < from { (0, 1) } else { (1, 0) };
        let between = self.between(part.thread, from);
        between.falsely += 1;
        between.false_bytes[own] |= touched;
        between.false_bytes[other] |= stored;
    }

    fn between(&mut self, one: u32, other: u32) -> &mut Between {
        self.pairs.entry((one.min(other), one.max(other))).or_default()
    }

    /// What is known of it, in order, if nothing happens any more.
    pub(super) fn known(&self, number: u64) -> SharedLine {
        if self.holders.iter().any(|holder| holder.open.is_some()) {
            let mut settled = self.clone();
            for place in 0..settled.holders.len() {
                let open = settled.holders[place].open.take();
                settled.settle(open);
            }
            return settled.known(number);
        }
        let mut parts: Vec<(Part, Uses)> = self.parts.iter().map(|(part, uses)| (*part, *uses)).collect();
        parts.sort_unstable_by_key(|(part, _)| *part);
        let mut pairs: Vec<_> = self.pairs.iter().map(|(pair, between)| (*pair, *between)).collect();
        pairs.sort_unstable_by_key(|(pair, _)| *pair);
        SharedLine { number, parts, pairs }
    }
}

impl Holder {
    fn new(core: u32) -> Self {
        Self { core, unseen: 0, fresh: 0, taker: NO_ONE, open: None }
    }
}

/// Places of the bits that are set.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(bit)
    })
}
