//! Which instruction accesses what: a number for each combination that occurs.
//!
//! Most accesses of an instruction are of the same member of the same block, or of the same gap between blocks, as the one
//! before. So it is asked for a *column*, the addresses of one instruction in the order in which it accessed them: whether the
//! next one is the same again is a subtraction and a comparison, with all that they need in registers, and what is of another
//! block of the same group costs the way to that block only.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::elements::{Content, ElementId, Elements, LeafId, NO_ELEMENT, NO_LEAF, View};
use super::heap::live_blocks::{Addresses, Block, Group, LiveBlocks, NO_GROUP, Reach};
use super::parts::Parts;
use crate::origins::{Part, Whose};

/// What of which blocks is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Spot {
    /// The group of the blocks; [`NO_GROUP`] outside blocks.
    pub(super) group: Group,
    /// What the blocks consist of; [`NO_ELEMENT`] where that is not known of the place.
    pub(super) element: ElementId,
    /// Of the element; [`NO_LEAF`] where there is none.
    pub(super) leaf: LeafId,
}

/// Addresses of one instruction: words of its records, and how far behind them they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column<'a> {
    pub(super) words: &'a [u64],
    /// Modulo 2⁶⁴.
    pub(super) distance: u64,
}

/// Who accesses what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AccessedSpot {
    /// Who runs the instruction: those that are told apart, by numbers of whoever asks. One has one process's memory.
    pub(super) actor: u32,
    pub(super) site: u32,
    pub(super) spot: Spot,
    /// The whole where nobody asked for parts.
    pub(super) part: Part,
}

/// All that were accessed so far.
#[derive(Debug, Default)]
pub(super) struct AccessedSpots {
    numbers: Numbers,
    /// By actor, then site: what it accessed last.
    recent: Vec<Vec<Recent>>,
}

#[derive(Debug, Default)]
struct Numbers {
    known: FxHashMap<AccessedSpot, u32>,
    /// By number.
    all: Vec<AccessedSpot>,
}

impl Numbers {
    fn of(&mut self, spot: AccessedSpot) -> u32 {
        *self.known.entry(spot).or_insert_with(|| {
            self.all.push(spot);
            self.all.len() as u32 - 1
        })
    }
}

/// What accesses are judged by.
#[derive(Debug)]
pub(super) struct Memory<'a> {
    pub(super) process: u32,
    pub(super) live: &'a mut LiveBlocks,
    pub(super) elements: &'a mut Elements,
    /// None where nobody asked.
    pub(super) parts: Option<&'a mut Parts>,
}

// Each actor has one of each site.
const _: () = assert!(size_of::<Recent>() <= 96);

/// Of what was never accessed.
const NO_NUMBER: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Recent {
    /// Of the spot.
    number: u32,
    leaf: LeafId,
    group: Group,
    /// What is in the block, and its bytes: another one of its group that has the same is seen in the same way.
    content: Content,
    bytes: u64,
    view: View,
    /// Addresses of the block, and of the part of it, and until when they are its own.
    reach: Reach,
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            number: NO_NUMBER,
            leaf: NO_LEAF,
            group: NO_GROUP,
            content: Content::default(),
            bytes: 0,
            view: View::default(),
            reach: Reach::default(),
        }
    }
}

impl Spot {
    fn new(group: Group, view: View, leaf: LeafId) -> Self {
        let element = if leaf == NO_LEAF { NO_ELEMENT } else { view.element() };
        Self { group, element, leaf }
    }
}

impl AccessedSpots {
    /// Makes room for an actor and so many sites.
    pub(super) fn make_room(&mut self, actor: u32, sites: usize) {
        if self.recent.len() <= actor as usize {
            self.recent.resize_with(actor as usize + 1, Vec::new);
        }
        let recent = &mut self.recent[actor as usize];
        if recent.len() < sites {
            recent.resize(sites, Recent::default());
        }
    }

    /// What was accessed last is of no use any more: the actors' memory is another process's.
    pub(super) fn forget_recent(&mut self) {
        self.recent.iter_mut().for_each(Vec::clear);
    }

    /// All of them, by number.
    pub(super) fn all(&self) -> &[AccessedSpot] {
        &self.numbers.all
    }

    /// Goes through a column of a site that there is room for: `each` gets the number of what is accessed, and which of the
    /// addresses that is of. Between them no block may begin or end.
    #[inline]
    pub(super) fn column(
        &mut self,
        memory: &mut Memory<'_>,
        (actor, site): (u32, u32),
        column: Column<'_>,
        mut each: impl FnMut(u32, Range<usize>),
    ) {
        let Self { numbers, recent } = self;
        let recent = &mut recent[actor as usize][site as usize];
        if !memory.live.is_current(&recent.reach) {
            recent.reach = Reach::default();
        }
        let mut at = 0;
        while at < column.words.len() {
            let from = at;
            let rest = Column { words: &column.words[at..], ..column };
            at += memory.elements.count_same(&recent.view, recent.leaf, recent.reach.addresses, rest);
            if at == from {
                let address = column.words[at].wrapping_add(column.distance);
                recent.look_up(memory, numbers, (actor, site), address);
                at += 1;
            }
            each(recent.number, from..at);
        }
    }

    /// The number of what is accessed by so many bytes, which may be of several members; and for how many bytes from there on the
    /// part of the data goes on.
    pub(super) fn span(
        &mut self,
        memory: &mut Memory<'_>,
        (actor, site): (u32, u32),
        address: u64,
        bytes: u64,
    ) -> (u32, u64) {
        let mut number = 0;
        let column = Column { words: &[address], distance: 0 };
        self.column(memory, (actor, site), column, |found, _| number = found);
        let Recent { leaf, group, view, reach, .. } = self.recent[actor as usize][site as usize];
        let span = memory.elements.span(&view, address, bytes);
        let of_first = self.numbers.all[number as usize];
        if span != leaf {
            number = self.numbers.of(AccessedSpot { spot: Spot::new(group, view, span), ..of_first });
        }
        let part = addresses(&of_first.part, memory.live.start_of(&reach));
        (number, part.left_from(address).max(1))
    }
}

impl Recent {
    /// Makes it what the site accesses at this address.
    fn look_up(&mut self, memory: &mut Memory<'_>, numbers: &mut Numbers, (actor, site): (u32, u32), address: u64) {
        let Memory { process, live, elements, parts } = memory;
        let number = live.find(address);
        let block = live.block(number);
        let Block { start, end, group, mut content, .. } = block;
        let bytes = end - start;
        let mut view = View::default();
        if group != NO_GROUP {
            if let Some(learned) = elements.learned(content, site, address - start, bytes) {
                live.learn(number, learned);
                content = learned;
            }
            view = match (self.group, self.content, self.bytes) == (group, content, bytes) {
                true => self.view.of_block(start, content),
                false => elements.view(content, site, start, end),
            };
        }
        let leaf = elements.leaf(&view, address);
        let part = parts.as_mut().map(|parts| parts.part(*process, &block, site, address)).unwrap_or_default();
        let is_same = (self.group, self.view.element(), self.leaf) == (group, view.element(), leaf);
        if !is_same || parts.is_some() || self.number == NO_NUMBER {
            self.number = numbers.of(AccessedSpot { actor, site, spot: Spot::new(group, view, leaf), part });
        }
        (self.leaf, self.group, self.content, self.bytes, self.view) = (leaf, group, content, bytes, view);
        self.reach = live.reach(number);
        self.reach.addresses = self.reach.addresses.of_both(addresses(&part, start));
    }
}

/// What is kept of a spot of this number, of which there may be a new one.
#[inline]
pub(super) fn of_number<T: Clone + Default>(kept: &mut Vec<T>, number: u32) -> &mut T {
    let number = number as usize;
    if number >= kept.len() {
        kept.resize(number + 1, T::default());
    }
    &mut kept[number]
}

/// The addresses of a part of data whose block, if it has one, begins there.
fn addresses(part: &Part, block_start: u64) -> Addresses {
    match part.whose {
        Whose::Nobodys => Addresses::ALL,
        Whose::Block => Addresses { from: block_start.wrapping_add(part.start), bytes: part.bytes },
        Whose::Variable { .. } => Addresses { from: part.start, bytes: part.bytes },
    }
}
