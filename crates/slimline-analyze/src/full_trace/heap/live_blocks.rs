//! The blocks of one process that live, by address.
//!
//! Small blocks by each 16 bytes of theirs, which are one block's as far as most allocators go; where several have them, as static
//! variables do, these are a *crowd*. Large blocks are in a tree. Looking
//! one up costs a few cache misses, but most instructions access the block that they accessed before, or none: their stack,
//! a static variable. So what is found has a number, also where it is a page without blocks (a *gap*), and whoever keeps
//! what the number reaches to ([`Reach`]) asks for an address first whether it is there: one subtraction and one comparison.
//!
//! A forked child begins with a clone, which shares all tables with the original until either changes them: a page at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use slimline_simulate::relocated::NO_OBJECT;

use super::super::elements::Content;
use super::cloned::{ClonedTable, Epoch};

/// Bytes of which one block is kept, or a crowd.
const GRAIN_BYTES: u64 = 16;
/// In a grain: the rest is the index of a crowd.
const CROWD: u32 = 1 << 31;
/// Grains of a page of the table.
const PAGE_GRAINS: usize = 4096;
const PAGE_BYTES: u64 = GRAIN_BYTES * PAGE_GRAINS as u64;
/// What glibc's malloc keeps before a block.
const HEADER_BYTES: u64 = 16;
/// Larger blocks are in the tree.
pub(super) const LARGE_BYTES: u64 = 1 << 18;
/// Gaps that are known at a time: 256 MiB of stacks and variables. Addresses that nobody has must not fill our memory.
const MOST_GAPS: usize = 4096;

/// Whose block it is: the number of a group ([`super::blocks`]); [`NO_GROUP`] of gaps.
pub(in crate::full_trace) type Group = u32;
/// Of addresses outside blocks.
pub(in crate::full_trace) const NO_GROUP: Group = u32::MAX;

/// A block, or a gap, by a number of our own. A number's group never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(in crate::full_trace) struct BlockNumber(u32);

/// A block as it was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::full_trace) struct Block {
    pub(in crate::full_trace) start: u64,
    pub(in crate::full_trace) end: u64,
    pub(in crate::full_trace) group: Group,
    pub(in crate::full_trace) content: Content,
    /// A forked child's copy of one that its parent has, or had.
    pub(in crate::full_trace) is_inherited: bool,
}

/// What is kept of a number: a line of the cache, as whoever looks up a block that is not the one before waits for it.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Kept {
    start: u64,
    /// Bytes from its start on that are its own beyond doubt: 0 once it is released, or where another block lies in it (the
    /// blocks of a pool, or a release that nobody saw).
    reach: u64,
    end: u64,
    group: Group,
    content: Content,
    /// Zeroes of gaps.
    born: Born,
    /// Another one each time that the number is of another block, that it reaches less far, or that more is known of it.
    version: u32,
    /// See [`LiveBlocks::object`].
    object: u32,
}

const _: () = assert!(size_of::<Kept>() == 64);

/// How many blocks had begun when one did, itself among them: no other one has that number, whatever becomes of its memory.
/// Those beyond 2³² begin again at 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::full_trace) struct Born {
    pub(in crate::full_trace) sequence: u32,
    /// And how many of its group.
    pub(in crate::full_trace) ordinal: u32,
}

impl Kept {
    fn lose_reach(&mut self) {
        self.reach = 0;
        self.version = self.version.wrapping_add(1);
    }
}

/// So many from one on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::full_trace) struct Addresses {
    pub(in crate::full_trace) from: u64,
    pub(in crate::full_trace) bytes: u64,
}

impl Addresses {
    /// All but the last.
    pub(in crate::full_trace) const ALL: Self = Self { from: 0, bytes: u64::MAX };

    #[inline]
    pub(in crate::full_trace) fn contain(self, address: u64) -> bool {
        address.wrapping_sub(self.from) < self.bytes
    }

    /// Those that are so many bytes before these.
    pub(in crate::full_trace) fn before(self, bytes: u64) -> Self {
        Self { from: self.from.wrapping_sub(bytes), ..self }
    }

    /// How many there are from this one on.
    pub(in crate::full_trace) fn left_from(self, address: u64) -> u64 {
        self.bytes.saturating_sub(address.wrapping_sub(self.from))
    }

    /// Those that both have.
    pub(in crate::full_trace) fn of_both(self, other: Self) -> Self {
        let from = self.from.max(other.from);
        Self { from, bytes: self.left_from(from).min(other.left_from(from)) }
    }
}

/// Addresses that are beyond doubt of a block, or a gap, as long as [`LiveBlocks::is_current`] says so.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::full_trace) struct Reach {
    block: BlockNumber,
    version: u32,
    pub(in crate::full_trace) addresses: Addresses,
}

/// A page of the table.
#[derive(Clone, Copy, Debug)]
enum Page {
    /// Index of its grains in [`LiveBlocks::grains`].
    Grains(u32),
    Gap(BlockNumber),
}

/// The living, and the gaps between them.
#[derive(Clone, Debug)]
pub(in crate::full_trace) struct LiveBlocks {
    /// By number; 0 is no block.
    kept: ClonedTable<Kept>,
    /// Blocks up to this one are a parent's, by when they began; 0: none.
    inherited_to: u32,
    /// Changes with each fork: numbers of objects are not a child's.
    epoch: Epoch,
    /// Numbers that are free again.
    free: FxHashMap<Group, Vec<BlockNumber>>,
    pages: FxHashMap<u64, Page>,
    /// Of pages with small blocks: the number of the block in each grain, or its [`CROWD`].
    grains: Vec<Arc<[u32; PAGE_GRAINS]>>,
    /// Of each of these, the lowest address at which it ever had a block that can be freed.
    heap_from: Vec<u64>,
    /// Blocks that share a grain, none of which has a byte of another one. No grain has an empty one.
    crowds: Arc<Vec<Vec<BlockNumber>>>,
    free_crowds: Vec<u32>,
    gaps: Vec<BlockNumber>,
    large: BTreeMap<u64, BlockNumber>,
    /// Blocks that nobody frees, none of which has a byte of another one: they are here, and as all others are. Others may be cut of
    /// them, and lie above; what is left free below those is theirs.
    lasting: Arc<BTreeMap<u64, BlockNumber>>,
    /// Blocks that have begun so far, and of each group.
    begun: u32,
    begun_of: Vec<u32>,
}

impl Default for LiveBlocks {
    fn default() -> Self {
        let content = Content::default();
        let nothing = Kept {
            start: 0,
            reach: 0,
            end: 0,
            group: NO_GROUP,
            content,
            born: Born::default(),
            version: 0,
            object: NO_OBJECT,
        };
        Self {
            kept: ClonedTable::new(nothing),
            inherited_to: 0,
            epoch: Epoch::default(),
            free: FxHashMap::default(),
            pages: FxHashMap::default(),
            grains: Vec::new(),
            heap_from: Vec::new(),
            crowds: Arc::default(),
            free_crowds: Vec::new(),
            gaps: Vec::new(),
            large: BTreeMap::new(),
            lasting: Arc::default(),
            begun: 0,
            begun_of: Vec::new(),
        }
    }
}

impl LiveBlocks {
    /// What the number reaches to; nothing where other blocks lie in it, and of number 0.
    pub(in crate::full_trace) fn reach(&self, number: BlockNumber) -> Reach {
        let Kept { start, reach, version, .. } = self.kept[number.0 as usize];
        Reach { block: number, version, addresses: Addresses { from: start, bytes: reach } }
    }

    /// Whether all is as it was when that was told: it is the same block, it reaches as far, and no more is known of it.
    #[inline]
    pub(in crate::full_trace) fn is_current(&self, reach: &Reach) -> bool {
        self.kept[reach.block.0 as usize].version == reach.version
    }

    /// Where the block or gap begins that it was told of.
    pub(in crate::full_trace) fn start_of(&self, reach: &Reach) -> u64 {
        self.kept[reach.block.0 as usize].start
    }

    /// The block or the gap of this number.
    pub(in crate::full_trace) fn block(&self, number: BlockNumber) -> Block {
        let Kept { start, end, group, content, born, .. } = self.kept[number.0 as usize];
        Block { start, end, group, content, is_inherited: self.is_inherited(born) }
    }

    /// When it began. Zeroes of gaps, and of number 0.
    pub(in crate::full_trace) fn born(&self, number: BlockNumber) -> Born {
        self.kept[number.0 as usize].born
    }

    /// The number that whoever numbers objects gave the block, as long as it lives; else [`NO_OBJECT`].
    pub(in crate::full_trace) fn object(&self, number: BlockNumber) -> u32 {
        match self.kept.epoch(number.0 as usize) {
            epoch if epoch == self.epoch => self.kept[number.0 as usize].object,
            _ => NO_OBJECT,
        }
    }

    /// Gives it one.
    pub(in crate::full_trace) fn set_object(&mut self, number: BlockNumber, object: u32) {
        self.in_epoch(number);
        self.kept[number.0 as usize].object = object;
    }

    /// Has numbers of objects beside a block's be this process's.
    fn in_epoch(&mut self, number: BlockNumber) {
        self.kept.enter(number.0 as usize, self.epoch, |kept| kept.object = NO_OBJECT);
    }

    /// The blocks of a child that is forked now.
    pub(super) fn for_child(&self) -> Self {
        Self { inherited_to: self.begun, ..self.clone() }
    }

    /// Becomes those of a child, which has the static variables that are known already, as well.
    pub(super) fn inherit(&mut self, parents: Self) {
        let lasting: Vec<Block> = self.lasting.values().map(|number| self.block(*number)).collect();
        *self = Self { epoch: parents.epoch.next(), ..parents };
        for block in lasting {
            let known = self.lasting.get(&block.start).map(|number| self.block(*number));
            if known.is_none_or(|known| (known.end, known.group) != (block.end, block.group)) {
                self.insert_lasting(block);
            }
        }
    }

    /// Whether a block that began then is a parent's, of which the child has a copy.
    fn is_inherited(&self, born: Born) -> bool {
        born.sequence <= self.inherited_to
    }

    /// More is known now of what is in a block.
    pub(in crate::full_trace) fn learn(&mut self, number: BlockNumber, content: Content) {
        let kept = &mut self.kept[number.0 as usize];
        kept.content = content;
        kept.version = kept.version.wrapping_add(1);
    }

    /// The block that has this address, or the gap; number 0 where there is neither.
    pub(in crate::full_trace) fn find(&mut self, address: u64) -> BlockNumber {
        let grain = match self.pages.get(&(address / PAGE_BYTES)) {
            Some(Page::Gap(gap)) => return *gap,
            Some(Page::Grains(index)) => self.grains[*index as usize][(address / GRAIN_BYTES) as usize % PAGE_GRAINS],
            None => match self.gap(address / PAGE_BYTES) {
                Some(gap) => return gap,
                None => 0,
            },
        };
        let has = |number: &BlockNumber| {
            let kept = &self.kept[number.0 as usize];
            (kept.start..kept.end).contains(&address)
        };
        let small = match self.crowd(grain) {
            None => Some(BlockNumber(grain)).filter(has),
            Some(crowd) => crowd.iter().copied().find(has),
        };
        let last = |blocks: &BTreeMap<u64, BlockNumber>| {
            blocks.range(..=address).next_back().map(|(_, number)| *number).filter(has)
        };
        small.or_else(|| last(&self.large)).or_else(|| last(&self.lasting)).unwrap_or_default()
    }

    /// The innermost block at an address, if it begins there.
    pub(super) fn beginning_at(&mut self, start: u64) -> Option<Block> {
        let number = self.find(start);
        Some(self.block(number)).filter(|block| block.group != NO_GROUP && block.start == start)
    }

    /// Makes a gap of a page without small blocks, unless a large one is there, too.
    fn gap(&mut self, page: u64) -> Option<BlockNumber> {
        let start = page * PAGE_BYTES;
        let end = start.checked_add(PAGE_BYTES)?;
        if self.large_in(start, end).next().is_some() || self.lasting_in(start, end).is_some() {
            return None;
        }
        if self.gaps.len() == MOST_GAPS {
            self.fill_gaps(0, u64::MAX);
        }
        let gap = Block { start, end, group: NO_GROUP, content: Content::default(), is_inherited: false };
        let number = self.number(gap);
        self.gaps.push(number);
        self.pages.insert(page, Page::Gap(number));
        Some(number)
    }

    /// Large blocks between these addresses; where large blocks lie in each other perhaps not all, but the innermost.
    fn large_in(&self, start: u64, end: u64) -> impl Iterator<Item = BlockNumber> {
        let before_end = self.large.range(..end).rev().map(|(_, number)| *number);
        before_end.take_while(move |number| self.kept[number.0 as usize].end > start)
    }

    /// The last of the blocks between these addresses that nobody frees.
    fn lasting_in(&self, start: u64, end: u64) -> Option<BlockNumber> {
        let (_, number) = self.lasting.range(..end).next_back()?;
        Some(*number).filter(|number| self.kept[number.0 as usize].end > start)
    }

    fn is_lasting(&self, number: BlockNumber) -> bool {
        self.lasting.get(&self.kept[number.0 as usize].start) == Some(&number)
    }

    /// Gaps between these addresses are none any more.
    fn fill_gaps(&mut self, start: u64, end: u64) {
        let Self { gaps, kept, pages, free, .. } = self;
        gaps.retain(|gap| {
            let found = &kept[gap.0 as usize];
            let is_filled = found.start < end && start < found.end;
            if is_filled {
                pages.remove(&(found.start / PAGE_BYTES));
                kept[gap.0 as usize].lose_reach();
                free.entry(NO_GROUP).or_default().push(*gap);
            }
            !is_filled
        });
    }

    fn number(&mut self, block: Block) -> BlockNumber {
        let Block { start, end, group, content, .. } = block;
        let mut born = Born::default();
        if group != NO_GROUP {
            if self.begun_of.len() <= group as usize {
                self.begun_of.resize(group as usize + 1, 0);
            }
            let count = |begun: &mut u32| {
                *begun = begun.checked_add(1).unwrap_or(1);
                *begun
            };
            born = Born { sequence: count(&mut self.begun), ordinal: count(&mut self.begun_of[group as usize]) };
        }
        let kept = Kept { start, reach: end - start, end, group, content, born, version: 0, object: NO_OBJECT };
        match self.free.get_mut(&group).and_then(Vec::pop) {
            Some(number) => {
                let version = self.kept[number.0 as usize].version.wrapping_add(1);
                self.in_epoch(number);
                self.kept[number.0 as usize] = Kept { version, ..kept };
                number
            }
            None => {
                self.kept.push(kept, self.epoch, |kept| kept.object = NO_OBJECT);
                BlockNumber(self.kept.len() as u32 - 1)
            }
        }
    }

    /// Adds one that nobody frees. Those that lie there already and have bytes of it are taken out.
    pub(super) fn insert_lasting(&mut self, block: Block) -> Vec<Block> {
        let mut before = Vec::new();
        while let Some(number) = self.lasting_in(block.start, block.end) {
            let Kept { start, end, .. } = self.kept[number.0 as usize];
            Arc::make_mut(&mut self.lasting).remove(&start);
            if self.large.get(&start) == Some(&number) {
                self.large.remove(&start);
            }
            let gone = self.release(number);
            if end - start <= LARGE_BYTES {
                self.fill(gone, number.0, 0);
            }
            before.push(gone);
        }
        let number = self.add(block);
        Arc::make_mut(&mut self.lasting).insert(block.start, number);
        before
    }

    /// Adds a block. What lies there already stays, below or above it.
    pub(in crate::full_trace) fn insert(&mut self, block: Block) {
        self.add(block);
        if block.end - block.start > LARGE_BYTES {
            return;
        }
        for page in block.start / PAGE_BYTES..=block.end / PAGE_BYTES {
            if let Some(Page::Grains(index)) = self.pages.get(&page) {
                let from = &mut self.heap_from[*index as usize];
                *from = block.start.min(*from);
            }
        }
    }

    /// Whether an address is beside small blocks that can be freed, or in one that was: where an allocator keeps what it
    /// knows of them. Not in one that lives.
    pub(in crate::full_trace) fn is_beside_blocks(&self, address: u64) -> bool {
        match self.pages.get(&(address / PAGE_BYTES)) {
            // Below the first one there may be static variables.
            Some(Page::Grains(index)) => address.saturating_add(HEADER_BYTES) >= self.heap_from[*index as usize],
            _ => false,
        }
    }

    fn add(&mut self, block: Block) -> BlockNumber {
        let number = self.number(block);
        let covered: Vec<BlockNumber> = self.large_in(block.start, block.end.max(block.start + 1)).collect();
        for below in &covered {
            self.kept[below.0 as usize].lose_reach();
        }
        if block.end - block.start <= LARGE_BYTES {
            self.fill(block, 0, number.0);
            return number;
        }
        // The one that starts last is found first, but small ones before it.
        if !covered.is_empty() || self.has_small(block) {
            self.kept[number.0 as usize].lose_reach();
        }
        self.fill_gaps(block.start, block.end);
        match self.large.insert(block.start, number) {
            Some(before) if !self.is_lasting(before) => drop(self.release(before)),
            _ => {}
        }
        number
    }

    /// Whether a small block lies between a block's ends.
    fn has_small(&self, block: Block) -> bool {
        let (first, last) = (block.start / PAGE_BYTES, (block.end - 1) / PAGE_BYTES);
        let is_there = |page: u64, index: u32| {
            let ends = (page * PAGE_BYTES, (page + 1) * PAGE_BYTES - 1);
            let grain = |address: u64| (address.clamp(ends.0, ends.1) / GRAIN_BYTES) as usize % PAGE_GRAINS;
            let (from, to) = (grain(block.start), grain(block.end - 1));
            self.grains[index as usize][from..=to].iter().any(|number| *number != 0)
        };
        // There are blocks with more pages than the table has.
        if last - first > self.pages.len() as u64 {
            return self.pages.iter().any(|(page, entry)| match entry {
                Page::Grains(index) => (first..=last).contains(page) && is_there(*page, *index),
                Page::Gap(_) => false,
            });
        }
        (first..=last).any(|page| match self.pages.get(&page) {
            Some(Page::Grains(index)) => is_there(page, *index),
            _ => false,
        })
    }

    /// Those that share this grain, if several do.
    fn crowd(&self, grain: u32) -> Option<&Vec<BlockNumber>> {
        if grain & CROWD == 0 { None } else { self.crowds.get((grain & !CROWD) as usize) }
    }

    /// Notes in a small block's grains that `after` is there, where `before` was; 0 is none. Others that were there lose
    /// these grains, but for those that have other bytes of the first or the last.
    fn fill(&mut self, block: Block, before: u32, after: u32) {
        let (mut grain, last) = (block.start / GRAIN_BYTES, block.end.max(block.start + 1).div_ceil(GRAIN_BYTES));
        while grain < last {
            let from = grain as usize % PAGE_GRAINS;
            let to = (from as u64 + (last - grain)).min(PAGE_GRAINS as u64) as usize;
            let page = self.grains_of(grain / PAGE_GRAINS as u64);
            let grains = &mut Arc::make_mut(&mut self.grains[page])[from..to];
            if grains.iter().all(|there| *there == before) {
                grains.fill(after);
            } else {
                for at in from..to {
                    let there = self.grains[page][at];
                    let now = if there == before { after } else { self.meet(there, block, before, after) };
                    Arc::make_mut(&mut self.grains[page])[at] = now;
                }
            }
            grain += (to - from) as u64;
        }
    }

    /// What is in a grain that had something else than `before` once `after` is there in its place.
    fn meet(&mut self, there: u32, block: Block, before: u32, after: u32) -> u32 {
        let mut members = match there {
            0 => Vec::new(),
            crowd if crowd & CROWD != 0 => {
                self.free_crowds.push(crowd & !CROWD);
                std::mem::take(&mut Arc::make_mut(&mut self.crowds)[(crowd & !CROWD) as usize])
            }
            one => vec![BlockNumber(one)],
        };
        let end = block.end.max(block.start + 1);
        members.retain(|member| {
            let kept = &self.kept[member.0 as usize];
            let is_met = kept.start < end && block.start < kept.end.max(kept.start + 1);
            if is_met && member.0 != before {
                self.kept[member.0 as usize].lose_reach();
            }
            !is_met
        });
        members.extend((after != 0).then_some(BlockNumber(after)));
        match members.as_slice() {
            [] => 0,
            [one] => one.0,
            _ => match self.free_crowds.pop() {
                Some(free) => {
                    Arc::make_mut(&mut self.crowds)[free as usize] = members;
                    CROWD | free
                }
                None => {
                    Arc::make_mut(&mut self.crowds).push(members);
                    CROWD | (self.crowds.len() as u32 - 1)
                }
            },
        }
    }

    /// Index of a page's grains, which are made if there are none.
    fn grains_of(&mut self, page: u64) -> usize {
        match self.pages.get(&page) {
            Some(Page::Grains(index)) => return *index as usize,
            Some(Page::Gap(_)) => self.fill_gaps(page * PAGE_BYTES, page * PAGE_BYTES + 1),
            None => {}
        }
        self.grains.push(Arc::new([0; PAGE_GRAINS]));
        self.heap_from.push(u64::MAX);
        self.pages.insert(page, Page::Grains(self.grains.len() as u32 - 1));
        self.grains.len() - 1
    }

    fn release(&mut self, number: BlockNumber) -> Block {
        let kept = &mut self.kept[number.0 as usize];
        kept.lose_reach();
        let Kept { start, end, group, content, born, .. } = *kept;
        self.free.entry(group).or_default().push(number);
        Block { start, end, group, content, is_inherited: self.is_inherited(born) }
    }

    /// Takes out the block that starts there, unless nobody frees it.
    pub(in crate::full_trace) fn remove(&mut self, start: u64) -> Option<Block> {
        if let Some(&number) = self.large.get(&start).filter(|number| !self.is_lasting(**number)) {
            self.large.remove(&start);
            // What it lay in is found again.
            if let Some((_, below)) = self.large.range(..start).next_back() {
                let Kept { start, end, .. } = self.kept[below.0 as usize];
                self.fill_gaps(start, end);
            }
            return Some(self.release(number));
        }
        let Some(Page::Grains(index)) = self.pages.get(&(start / PAGE_BYTES)) else { return None };
        let grain = self.grains[*index as usize][(start / GRAIN_BYTES) as usize % PAGE_GRAINS];
        let begins = |number: &&BlockNumber| self.kept[number.0 as usize].start == start;
        let number = match self.crowd(grain) {
            None => grain,
            Some(crowd) => crowd.iter().find(begins).map_or(0, |number| number.0),
        };
        if number == 0 || self.kept[number as usize].start != start || self.is_lasting(BlockNumber(number)) {
            return None;
        }
        let block = self.release(BlockNumber(number));
        self.fill(block, number, 0);
        Some(block)
    }

    /// The same of the small block that starts there, where a large one does, too: the first that a pool cut of its chunk.
    pub(super) fn remove_innermost(&mut self, start: u64) -> Option<Block> {
        let large = self.large.remove(&start);
        let removed = self.remove(start);
        if let Some(large) = large {
            self.large.insert(start, large);
        }
        removed.or_else(|| self.remove(start))
    }

    /// Takes out the blocks that start within another one, which is taken out already.
    pub(super) fn remove_within(&mut self, outer: Block) -> Vec<Block> {
        let mut starts: Vec<u64> = self.large.range(outer.start..outer.end).map(|(start, _)| *start).collect();
        let (first, last) = (outer.start / PAGE_BYTES, outer.end.saturating_sub(1) / PAGE_BYTES);
        // There are blocks with more pages than the table has.
        let pages: Vec<u64> = match last - first > self.pages.len() as u64 {
            true => self.pages.keys().copied().filter(|page| (first..=last).contains(page)).collect(),
            false => (first..=last).collect(),
        };
        for page in pages {
            if let Some(Page::Grains(index)) = self.pages.get(&page) {
                let mut before = 0;
                for &number in self.grains[*index as usize].iter() {
                    if number != before && number != 0 {
                        let one = [BlockNumber(number)];
                        let there = self.crowd(number).map_or(&one[..], Vec::as_slice);
                        starts.extend(there.iter().map(|number| self.kept[number.0 as usize].start));
                    }
                    before = number;
                }
            }
        }
        starts.sort_unstable();
        starts.dedup();
        let within = starts.into_iter().filter(|start| (outer.start..outer.end).contains(start));
        within.collect::<Vec<_>>().into_iter().filter_map(|start| self.remove(start)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(start: u64, end: u64, group: Group) -> Block {
        Block { start, end, group, content: Content::default(), is_inherited: false }
    }

    /// A place and a size, small or large, that meet others often; or several in 16 bytes.
    fn blocks() -> impl Strategy<Value = (u64, u64)> {
        let bytes = prop_oneof![1..3_000_u64, (1..6_u64).prop_map(|n| n * 100_000)];
        let apart = ((0..40_u64).prop_map(|place| place << 14), bytes);
        prop_oneof![apart, ((0..100_u64).prop_map(|place| (1 << 14) + place * 2), 1..40_u64)]
    }

    fn addresses(start: u64, bytes: u64) -> [u64; 5] {
        [start, start + bytes / 2, start + bytes, start + 600_000, start / 2]
    }

    #[test]
    fn a_number_that_is_used_again_or_known_better_is_another_version() {
        let mut live = LiveBlocks::default();
        live.insert(block(0x1000, 0x1040, 7));
        let number = live.find(0x1000);
        let first = live.reach(number);
        assert!(live.is_current(&first) && first.addresses == Addresses { from: 0x1000, bytes: 0x40 });
        live.learn(number, Content::default());
        let second = live.reach(number);
        assert!(!live.is_current(&first) && live.is_current(&second));
        live.remove(0x1000);
        live.insert(block(0x1010, 0x1040, 7));
        assert_eq!(live.find(0x1020), number, "a number of the group is used again");
        assert!(!live.is_current(&second));
    }

    #[test]
    fn addresses_of_both() {
        let of = |from, bytes| Addresses { from, bytes };
        assert_eq!(of(8, 8).of_both(of(10, 100)), of(10, 6));
        assert_eq!(of(10, 100).of_both(of(8, 8)), of(10, 6));
        assert_eq!(of(8, 8).of_both(Addresses::ALL), of(8, 8));
        assert_eq!(of(8, 8).of_both(of(16, 8)).bytes, 0);
        assert_eq!(of(8, 8).of_both(Addresses::default()).bytes, 0);
        assert!(of(8, 8).contain(15) && !of(8, 8).contain(16) && !of(8, 8).contain(7));
    }

    proptest! {
        /// The table finds what a list of the living finds.
        #[test]
        fn as_a_list_does(steps in proptest::collection::vec((0..3_u8, blocks()), 1..200)) {
            let (mut live, mut list) = (LiveBlocks::default(), Vec::<Block>::new());
            for (step, (start, bytes)) in steps {
                match step {
                    0 if !list.iter().any(|b| b.start < start + bytes && start < b.end) => {
                        let block = block(start, start + bytes, (start >> 14) as u32);
                        live.insert(block);
                        list.push(block);
                    }
                    1 => {
                        let known = list.iter().position(|block| block.start == start).map(|at| list.remove(at));
                        prop_assert_eq!(live.remove(start), known);
                    }
                    _ => {}
                }
                for address in addresses(start, bytes) {
                    let known = list.iter().find(|block| (block.start..block.end).contains(&address));
                    let found = live.find(address);
                    prop_assert_eq!(live.block(found).group, known.map_or(NO_GROUP, |block| block.group));
                }
            }
        }

        /// The same where blocks are cut of others that stay, and those are replaced that none is cut of.
        #[test]
        fn as_lists_of_what_lies_above_and_below_do(steps in proptest::collection::vec((0..4_u8, blocks()), 1..200)) {
            let (mut live, mut above, mut below) = (LiveBlocks::default(), Vec::<Block>::new(), Vec::<Block>::new());
            for (step, (start, bytes)) in steps {
                let end = start + bytes;
                let meets = |b: &Block| b.start < end && start < b.end;
                let new = block(start, end, (start >> 14) as u32 | (step as u32) << 20);
                match step {
                    0 if !above.iter().any(meets)
                        && below.iter().filter(|b| meets(b)).all(|b| b.start <= start && end <= b.end) =>
                    {
                        live.insert(new);
                        above.push(new);
                    }
                    1 => {
                        let known = above.iter().position(|block| block.start == start).map(|at| above.remove(at));
                        prop_assert_eq!(live.remove(start), known);
                    }
                    2 => {
                        let met: Vec<Block> = below.iter().copied().filter(|b| meets(b)).collect();
                        let is_used = |b: &Block| above.iter().any(|a| a.start < b.end && b.start < a.end);
                        if !is_used(&new) && !met.iter().any(is_used) {
                            let mut gone = live.insert_lasting(new);
                            gone.reverse();
                            let mut known = met.clone();
                            known.sort_by_key(|b| b.start);
                            prop_assert_eq!(gone, known);
                            below.retain(|b| !met.contains(b));
                            below.push(new);
                        }
                    }
                    _ => {}
                }
                for address in addresses(start, bytes) {
                    let known = above.iter().chain(&below).find(|block| (block.start..block.end).contains(&address));
                    let number = live.find(address);
                    let found = live.block(number);
                    prop_assert_eq!(found.group, known.map_or(NO_GROUP, |block| block.group));
                    let reach = live.reach(number).addresses;
                    prop_assert!(!reach.contain(address) || known.is_none_or(|known| known.start == found.start));
                }
            }
        }

        /// Whatever lies in what: what a number reached to once, and does still, is what would be found there.
        #[test]
        fn numbers_reach_no_further_than_they_are_found(
            steps in proptest::collection::vec((0..5_u8, blocks(), 0..4_u32), 1..200)
        ) {
            let (mut live, mut seen) = (LiveBlocks::default(), Vec::<Reach>::new());
            for (step, (start, bytes), group) in steps {
                if step == 4 {
                    live.insert_lasting(block(start, start + bytes, group));
                } else if step > 1 {
                    live.insert(block(start, start + bytes, group));
                } else if step == 1 {
                    live.remove(start);
                }
                for address in addresses(start, bytes) {
                    let found = live.find(address);
                    for reach in &seen {
                        let is_there = live.is_current(reach) && reach.addresses.contain(address);
                        prop_assert!(!is_there || reach.block == found);
                    }
                    seen.push(live.reach(found));
                }
            }
        }
    }

    #[test]
    fn what_is_beside_blocks_is_the_allocators() {
        let mut live = LiveBlocks::default();
        let block = |start: u64, bytes, group| block(start, start + bytes, group);
        live.insert_lasting(block(0x1_0000, 8, 1));
        live.insert(block(0x1_8010, 32, 2));
        live.insert(block(0x40_0000, LARGE_BYTES + 1, 2));
        live.find(0x9_0000);
        let beside = |live: &LiveBlocks| {
            [0x1_7ff8, 0x1_8000, 0x1_8030, 0x1_ffff, 0x2_0000, 0x9_0000, 0x40_0000].map(|at| live.is_beside_blocks(at))
        };
        assert_eq!(beside(&live), [false, true, true, true, false, false, false]);
        live.remove(0x1_8010);
        // Ends on the next page.
        live.insert(block(0x1_fff0, 16, 2));
        assert_eq!(beside(&live), [false, true, true, true, false, false, false]);
        live.insert(block(0x1_fff8, 16, 2));
        assert_eq!(beside(&live), [false, true, true, true, true, false, false]);
    }

    #[test]
    fn addresses_of_nobody_take_bounded_memory() {
        let mut live = LiveBlocks::default();
        for page in 0..10 * MOST_GAPS as u64 {
            let gap = live.find(page << 20);
            assert!(live.reach(gap).addresses.contain(page << 20));
        }
        assert!(live.kept.len() <= MOST_GAPS + 1 && live.pages.len() <= MOST_GAPS);
    }

    #[test]
    fn what_was_cut_of_a_block_is_taken_out_with_it() {
        let mut live = LiveBlocks::default();
        let chunk = block(0x10_0000, 0x20_0000, 1);
        let others = [block(0xf_fff0, 0x10_0000, 3), block(0x20_0000, 0x20_0010, 3)];
        let cut = [block(0x10_0000, 0x10_0040, 2), block(0x10_0040, 0x10_0080, 2), block(0x1f_0000, 0x1f_8000, 2)];
        [&[chunk][..], &others, &cut].concat().into_iter().for_each(|block| live.insert(block));
        assert_eq!(live.remove_innermost(0x10_0000), Some(cut[0]));
        live.insert(cut[0]);
        assert_eq!(live.remove(0x10_0000), Some(chunk));
        assert_eq!(live.remove_within(chunk), cut);
        assert_eq!(live.remove_within(chunk), []);
        assert_eq!(others.map(|block| live.remove_innermost(block.start)), others.map(Some));
    }

    #[test]
    fn a_block_reaches_to_its_end_and_where_nothing_lies_in_it() {
        let mut live = LiveBlocks::default();
        let pool = block(0x10_0000, 0x20_0000, 1);
        live.insert(pool);
        let number = live.find(0x18_0000);
        assert!(live.reach(number).addresses.contain(0x1f_ffff) && !live.reach(number).addresses.contain(0x20_0000));
        live.insert(block(0x18_0000, 0x18_0020, 2));
        assert!(!live.reach(number).addresses.contain(0x1f_ffff));
        let (below, above) = (live.find(0x1f_ffff), live.find(0x18_001f));
        assert_eq!((below, live.block(above).group), (number, 2));
        assert_eq!(live.remove(pool.start), Some(pool));
        assert_eq!(live.find(0x18_0000), above);
    }
}
