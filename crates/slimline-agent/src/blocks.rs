//! The live-heap index: which block holds this address, answered at once and from a signal handler.
//!
//! Shadow memory. User space is cut into regions of 4 MiB; a region in which a block was ever allocated has a *leaf*,
//! mapped on demand and sparse, found through a directory of branches, which are mapped on demand too:
//!
//! ```text
//!   address  46        35 34        22 21        12 11      4 3    0
//!           ┌────────────┬────────────┬────────────┬─────────┬──────┐
//!           │ directory  │ branch     │ page       │ granule │ byte │
//!           └────────────┴────────────┴────────────┴─────────┴──────┘
//!   leaf.cells[granule]: the block that begins in these 16 bytes, and in   (u32, see `Cell`)
//!                        the granule behind, if the block reaches into it: its size
//!   leaf.spans[page]:    the block that began before this page and holds   (u32, how many granules before the page;
//!                        its first byte                                     0: none)
//! ```
//!
//! An allocation writes its cells and one span for each page boundary that it crosses; a free clears the start. Sizes
//! and spans are never cleared: whoever comes by one looks at the start it belongs to. A look-up follows the span of its
//! page, else scans back to the last start in the page: blocks are disjoint, so that is the only candidate. The start
//! is one atomic word and is written last, so a concurrent reader sees the block that was or the one that is, and a
//! size that comes from another block is told by its check bits or by the start having changed meanwhile.
//!
//! Memory: 4 bytes for 16 of heap, in whole pages; so at most a quarter of the address space that ever held small
//! blocks (4 KiB for each 16 KiB in which at least one begins), and 4 bytes a page for the middle of larger ones. It
//! does not shrink. Address space: 1 MiB for each 4 MiB in which one begins, and 64 KiB for each 32 GiB of those.
//!
//! Flags say of each line pair (128 bytes) whether a block that begins there was entered, so that the release of one that
//! nobody follows ([`crate::follow`]) ends here, and without a look at a cell that is in no cache. Pages that are 512 MiB
//! apart share theirs, so that the entry functions find them in one step. Once blocks are passed over, who looks in vain
//! takes the flag back ([`BlockIndex::sweep`]).
//!
//! Where blocks were passed over is known by those few that were not: a flag says of each 64 KiB whether one of these ever
//! began there. It stays, also where memory is unmapped and something else is mapped there.
//!
//! Not held, and counted: a block that is not 8-aligned, which no allocator makes, and the earlier of two that begin in
//! the same 16 bytes, possible below other allocators than glibc's for blocks of 8 bytes.
#![allow(unsafe_code)] // leaves are raw mappings

mod cell;

use crate::confine::Busy;
use crate::kernel;
use cell::{Cell, LARGE, WIDE};
pub(crate) use cell::{MAX_STACK, Removed};
use core::ptr::{null_mut, without_provenance_mut};
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst, compiler_fence,
};
use slimline_trace::wire::{LARGE_BLOCK_BYTES, PAGE_BITS};

const ADDRESS_BITS: u32 = 47;
const REGION_BITS: u32 = 22;
const BRANCH_BITS: u32 = 35;
const GRANULE_BITS: u32 = 4;
const GRANULE_BYTES: u64 = 1 << GRANULE_BITS;
const BRANCHES: usize = 1 << (ADDRESS_BITS - BRANCH_BITS);
const REGIONS: usize = 1 << (BRANCH_BITS - REGION_BITS);
const CELLS: usize = 1 << (REGION_BITS - GRANULE_BITS);
const PAGES: usize = 1 << (REGION_BITS - PAGE_BITS);
const GRANULES_IN_PAGE: usize = 1 << (PAGE_BITS - GRANULE_BITS);

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Address.
    pub(crate) base: u64,
    /// Size asked for.
    pub(crate) bytes: u32,
    /// Allocation call path; 0 unknown.
    pub(crate) stack: u32,
    /// One block in 2^this was followed when it came to be.
    pub(crate) follow_shift: u32,
}

#[repr(C)]
struct Leaf {
    cells: [AtomicU32; CELLS],
    spans: [AtomicU32; PAGES],
    /// A bit for each chunk: whether a block that count chose began there.
    chosen: [AtomicU64; CHUNKS / u64::BITS as usize],
}

impl Branch {
    #[inline(always)]
    fn leaf(&self, address: u64) -> &AtomicPtr<Leaf> {
        &self.leaves[(address >> REGION_BITS) as usize % REGIONS]
    }
}

const PAIR_BITS: u32 = PAGE_BITS - 5;
const GRANULES_IN_PAIR: usize = 1 << (PAIR_BITS - GRANULE_BITS);
const CHUNK_BITS: u32 = 16;
const CHUNKS: usize = 1 << (REGION_BITS - CHUNK_BITS);

/// How many pages have a word of [`BlockIndex::entered`] of their own, and how many regions they fill.
const ENTERED: usize = 1 << 17;
const APART: usize = ENTERED / PAGES;
/// So many regions that share their words are looked through by a sweep.
const ALIKE: usize = 8;

/// All flags of a word of [`BlockIndex::entered`], and one entry.
const ALL_PAIRS: u64 = u32::MAX as u64;
const ONE_ENTRY: u64 = ALL_PAIRS + 1;

/// The flag of an address.
#[inline(always)]
fn pair(address: u64) -> u64 {
    1 << (address >> PAIR_BITS & 31)
}

impl Leaf {
    #[inline(always)]
    fn cell(&self, address: u64) -> &AtomicU32 {
        &self.cells[(address >> GRANULE_BITS) as usize % CELLS]
    }

    /// Whether blocks live that begin in the pair of lines around `address`.
    fn has_starts(&self, address: u64) -> bool {
        let first = (address >> PAIR_BITS << PAIR_BITS >> GRANULE_BITS) as usize % CELLS;
        self.cells[first..first + GRANULES_IN_PAIR].iter().any(|cell| Cell(cell.load(Acquire)).is_live())
    }

    fn chunk(&self, address: u64) -> (&AtomicU64, u64) {
        let chunk = (address >> CHUNK_BITS) as usize % CHUNKS;
        (&self.chosen[chunk / u64::BITS as usize], 1 << (chunk % u64::BITS as usize))
    }
}

/// The leaves of 32 GiB.
#[repr(C)]
struct Branch {
    leaves: [AtomicPtr<Leaf>; REGIONS],
}

/// See the module. 1 MiB of zeroes, untouched until used.
#[repr(C)]
pub(crate) struct BlockIndex {
    directory: [AtomicPtr<Branch>; BRANCHES],
    /// By page, modulo [`ENTERED`]: a bit for each pair of lines, whether a block that begins there was entered (it may
    /// still live); above these how many were, modulo 2^32, since blocks are passed over.
    entered: [AtomicU64; ENTERED],
    /// The regions that have a leaf, each in the list of those that share their words of `entered`: its number and one; 0:
    /// none. If the last place is taken there may be more.
    regions: [[AtomicU32; ALIKE]; APART],
    /// [`ALL`], [`SOME`] or [`SOME_WITH_SWEEPS`].
    holds: AtomicU32,
}

/// Every block is entered.
const ALL: u32 = 0;
/// Some are passed over.
const SOME: u32 = 1;
/// And no thread enters one any more as if that were not so.
const SOME_WITH_SWEEPS: u32 = 2;

/// The live blocks of this process.
pub(crate) static BLOCKS: BlockIndex = BlockIndex::new();

/// Those of them that an allocator of the program's own cuts into blocks hold these.
pub(crate) static INNER: BlockIndex = BlockIndex::new();
/// Whether there may be any.
static HAS_INNER: AtomicBool = AtomicBool::new(false);

/// Says that there may be blocks in blocks from now on.
pub(crate) fn expect_inner() {
    HAS_INNER.store(true, Relaxed);
}

/// Whether there may be blocks in blocks.
#[inline(always)]
pub(crate) fn has_inner() -> bool {
    HAS_INNER.load(Relaxed)
}

/// Where the entry functions' assembly ([`crate::hooks`]) finds the flags of a page without a call.
///
/// ```text
///   flags = *(u64 *)(BLOCKS + ENTERED_OFFSET + (address >> PAGE_SHIFT & ENTERED_MASK) * 8)
///   flag  = flags >> (address >> PAIR_SHIFT & 31) & 1
/// ```
pub(crate) mod layout {
    use super::{BlockIndex, ENTERED, PAGE_BITS, PAIR_BITS};
    use core::mem::offset_of;

    pub(crate) const ENTERED_OFFSET: usize = offset_of!(BlockIndex, entered);
    pub(crate) const ENTERED_MASK: usize = ENTERED - 1;
    pub(crate) const PAGE_SHIFT: u32 = PAGE_BITS;
    pub(crate) const PAIR_SHIFT: u32 = PAIR_BITS;
    // The assembly shifts the lower half of the address.
    const _: () = assert!(ENTERED << PAGE_BITS <= 1 << 32);
}

/// In the place of a branch or a leaf: the kernel had no memory for it once; it is not asked again.
const REFUSED: usize = 1;

/// What a place of the directory or of a branch leads to.
#[inline(always)]
fn found<T>(place: &AtomicPtr<T>) -> Option<&'static T> {
    let found = place.load(Acquire);
    // SAFETY: anything above the mark was mapped by `fill`, for ever.
    (found.addr() > REFUSED).then(|| unsafe { &*found })
}

/// The same, mapped where it was not; zeroes must be a `T`. None where there is no memory for it.
fn fill<T>(place: &AtomicPtr<T>) -> Option<&'static T> {
    // A thread may be here that has seen no filter yet: it maps nothing once there is one.
    if place.load(Acquire).is_null()
        && let Some(_busy) = Busy::begin()
    {
        let fresh = kernel::map(size_of::<T>()).map_or(without_provenance_mut(REFUSED), |start| start.as_ptr().cast());
        if place.compare_exchange(null_mut(), fresh, Release, Relaxed).is_err() && fresh.addr() != REFUSED {
            // SAFETY: another thread was first; nobody has seen ours.
            unsafe { kernel::unmap(fresh.cast(), size_of::<T>()) };
        }
    }
    found(place)
}

impl BlockIndex {
    const fn new() -> Self {
        Self {
            directory: [const { AtomicPtr::new(null_mut()) }; BRANCHES],
            entered: [const { AtomicU64::new(0) }; ENTERED],
            regions: [const { [const { AtomicU32::new(0) }; ALIKE] }; APART],
            holds: AtomicU32::new(ALL),
        }
    }

    /// The place of a branch; none for addresses that user space has not.
    #[inline(always)]
    fn branch(&self, address: u64) -> Option<&AtomicPtr<Branch>> {
        self.directory.get((address >> BRANCH_BITS) as usize)
    }

    #[inline(always)]
    fn leaf(&self, address: u64) -> Option<&Leaf> {
        found(found(self.branch(address)?)?.leaf(address))
    }

    /// The leaf of an address, mapped where it was not; None where there is no memory for it.
    fn ready(&self, address: u64) -> Option<&Leaf> {
        self.leaf(address).or_else(|| self.add_leaf(address))
    }

    #[cold]
    #[inline(never)]
    fn add_leaf(&self, address: u64) -> Option<&Leaf> {
        let place = fill(self.branch(address)?)?.leaf(address);
        if place.load(Acquire).is_null() {
            // Before anything can begin there. By two threads at once it may be listed twice.
            let region = address >> REGION_BITS;
            let alike = &self.regions[region as usize % APART];
            let _ = alike.iter().find(|place| place.compare_exchange(0, region as u32 + 1, Relaxed, Relaxed).is_ok());
        }
        fill(place)
    }

    #[inline(always)]
    fn cell(&self, address: u64) -> Option<&AtomicU32> {
        Some(self.leaf(address)?.cell(address))
    }

    /// The cell in which a block begins at `base`, and what it says; None where none does.
    #[inline(always)]
    fn start(&self, base: u64) -> Option<(&AtomicU32, Cell)> {
        let place = self.cell(base).filter(|_| self.may_hold_start(base))?;
        let start = Cell(place.load(Relaxed));
        start.begins(base).then_some((place, start))
    }

    /// Not all blocks are entered from now on.
    pub(crate) fn pass_over(&self) {
        let _ = self.holds.compare_exchange(ALL, SOME, SeqCst, Relaxed);
    }

    /// Flags may be taken back from now on: blocks are passed over for so long that every start is seen which a thread
    /// stored before it could know. (It stores the start, then looks: so that is as long as a store takes to leave its
    /// processor, which is nanoseconds, and which the kernel waits for when it takes the processor away.)
    pub(crate) fn allow_sweeps(&self) {
        let _ = self.holds.compare_exchange(SOME, SOME_WITH_SWEEPS, SeqCst, Relaxed);
    }

    #[inline(always)]
    fn holds_all(&self) -> bool {
        self.holds.load(Relaxed) == ALL
    }

    #[inline(always)]
    fn entered(&self, address: u64) -> &AtomicU64 {
        &self.entered[(address >> PAGE_BITS) as usize % ENTERED]
    }

    #[inline(always)]
    fn may_hold_start(&self, address: u64) -> bool {
        self.entered(address).load(Relaxed) & pair(address) != 0
    }

    /// Whether a block lives for which the flag of `address` stands; also true where that would take too long to tell.
    fn has_starts(&self, address: u64) -> bool {
        let alike = &self.regions[(address >> REGION_BITS) as usize % APART];
        let within = address & ((1 << REGION_BITS) - 1);
        alike[ALIKE - 1].load(Relaxed) != 0
            || alike.iter().map(|region| u64::from(region.load(Relaxed))).take_while(|&region| region != 0).any(
                |region| {
                    let there = (region - 1) << REGION_BITS | within;
                    self.leaf(there).is_some_and(|leaf| leaf.has_starts(there))
                },
            )
    }

    /// Stores the start of a block, and then that it was entered.
    #[inline(always)]
    fn enter(&self, leaf: &Leaf, base: u64, start: Cell) {
        leaf.cell(base).store(start.0, Release);
        // The start first: see `allow_sweeps`.
        compiler_fence(SeqCst);
        if !self.holds_all() {
            // The flag may be about to be taken back, by who must see this then.
            let entry = |pairs: u64| Some(pairs.wrapping_add(ONE_ENTRY) | pair(base));
            let _ = self.entered(base).fetch_update(SeqCst, Relaxed, entry);
        } else if !self.may_hold_start(base) {
            self.entered(base).fetch_or(pair(base), SeqCst);
        }
    }

    /// There is no block at `base`, which is about to be freed: spares the next one the look, unless others begin near it.
    ///
    /// One may be entered at the same time. Its start is stored before it is counted: so the start is seen here, or the
    /// count is found changed.
    pub(crate) fn sweep(&self, base: u64) {
        if self.holds.load(Relaxed) != SOME_WITH_SWEEPS {
            return;
        }
        let before = self.entered(base).load(Acquire);
        if before & pair(base) != 0 && !self.has_starts(base) {
            let _ = self.entered(base).compare_exchange(before, before & !pair(base), SeqCst, Relaxed);
        }
    }

    /// Notes that the block at `base` is followed because count chose it: there are others around that are passed over,
    /// if any are.
    pub(crate) fn note_chosen(&self, base: u64) {
        if !self.holds_all()
            && let Some(leaf) = self.ready(base)
        {
            let (chunks, flag) = leaf.chunk(base);
            // Most often it is there already, and an atomic change is dear.
            if chunks.load(Relaxed) & flag == 0 {
                chunks.fetch_or(flag, Relaxed);
            }
        }
    }

    /// Whether an address that no block here holds may be in one that was passed over: whether one that was not is in
    /// reach. Async-signal-safe.
    pub(crate) fn may_be_passed_over(&self, address: u64, reach_bytes: u64) -> bool {
        let first = address.saturating_sub(reach_bytes) >> CHUNK_BITS;
        let last = address.saturating_add(reach_bytes) >> CHUNK_BITS;
        let in_word = u64::from(u64::BITS);
        // A word of flags at a time.
        (first / in_word..=last / in_word).any(|word| {
            let start = word * in_word;
            let above = u64::MAX << first.saturating_sub(start);
            let below = u64::MAX >> (start + in_word - 1).saturating_sub(last);
            self.leaf(start << CHUNK_BITS)
                .is_some_and(|leaf| leaf.chunk(start << CHUNK_BITS).0.load(Relaxed) & above & below != 0)
        })
    }

    /// Enters a new block in the common case: false, and nothing done, where [`Self::insert`] is needed.
    #[inline(always)]
    #[must_use]
    pub(crate) fn insert_within_page(&self, base: u64, bytes: u64, stack: u32, follow_shift: u32) -> bool {
        let in_granule = base & (GRANULE_BYTES - 1);
        if (base & ((1 << PAGE_BITS) - 1)) + bytes > 1 << PAGE_BITS || in_granule & 7 != 0 {
            return false;
        }
        let Some(leaf) = self.leaf(base) else { return false };
        let granule = (base >> GRANULE_BITS) as usize % CELLS;
        let place = &leaf.cells[granule];
        // Another block in this granule, or one whose end was missed.
        if Cell(place.load(Relaxed)).is_live() {
            return false;
        }
        let size_code = if in_granule + bytes > GRANULE_BYTES {
            // In the same page, so in the same leaf.
            leaf.cells[(granule + 1) % CELLS].store(Cell::size(bytes, stack).0, Relaxed);
            WIDE
        } else {
            bytes as u32
        };
        self.enter(leaf, base, Cell::start(base, size_code, stack, follow_shift));
        true
    }

    /// Enters a new block. Returns how many blocks are missing from the index by that: 1 if it could not be entered or
    /// if it drove out another that begins in the same granule, else 0.
    #[must_use]
    pub(crate) fn insert(&self, base: u64, bytes: u64, stack: u32, follow_shift: u32) -> u64 {
        self.try_insert(base, bytes, stack, follow_shift).unwrap_or(1)
    }

    fn try_insert(&self, base: u64, bytes: u64, stack: u32, follow_shift: u32) -> Option<u64> {
        let leaf = self.ready(base).filter(|_| base.is_multiple_of(8))?;
        let size_code = if bytes >= LARGE_BLOCK_BYTES {
            LARGE
        } else if (base & (GRANULE_BYTES - 1)) + bytes > GRANULE_BYTES {
            let behind = base + GRANULE_BYTES;
            self.ready(behind)?.cell(behind).store(Cell::size(bytes, stack).0, Relaxed);
            for page in (base >> PAGE_BITS) + 1..=(base + bytes - 1) >> PAGE_BITS {
                let first = page << PAGE_BITS;
                let distance = (first >> GRANULE_BITS) - (base >> GRANULE_BITS);
                self.ready(first)?.spans[page as usize % PAGES].store(distance as u32, Relaxed);
            }
            WIDE
        } else {
            bytes as u32
        };
        let old = Cell(leaf.cell(base).load(Relaxed));
        self.enter(leaf, base, Cell::start(base, size_code, stack, follow_shift));
        Some(u64::from(old.is_live() && !old.begins(base)))
    }

    /// Notes that the block at `base`, which nobody else knows yet, is counted: for how many blocks, as a power of two. None
    /// where it is not here.
    #[must_use]
    pub(crate) fn note_counted(&self, base: u64) -> Option<u32> {
        let (place, start) = self.start(base)?;
        let counted = start.counted();
        place.store(counted.0, Release);
        Removed(counted).stands_for()
    }

    /// Size of the block at `base` that is about to leave, or has just left and was not freed yet.
    pub(crate) fn bytes_of(&self, base: u64, removed: Removed) -> Option<u32> {
        match removed.0.size_code() {
            LARGE => None,
            WIDE => Cell(self.cell(base + GRANULE_BYTES)?.load(Relaxed)).bytes_of(removed.0),
            bytes => Some(bytes),
        }
    }

    /// Takes out the block that begins at `base`, before its memory is given back.
    #[inline(always)]
    pub(crate) fn remove(&self, base: u64) -> Option<Removed> {
        let (place, start) = self.start(base)?;
        place.store(Cell::NONE.0, Relaxed);
        Some(Removed(start))
    }

    /// Whether a block begins at `base`.
    pub(crate) fn is_entered(&self, base: u64) -> bool {
        self.start(base).is_some()
    }

    /// Takes out all blocks that begin in a range: what it is made of is something else now.
    pub(crate) fn clear(&self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        let mut at = start;
        while at < end {
            let Some(leaf) = self.leaf(at) else {
                let has_branch = self.branch(at).and_then(found).is_some();
                let bits = if has_branch { REGION_BITS } else { BRANCH_BITS };
                at = ((at >> bits) + 1) << bits;
                continue;
            };
            let next = ((at >> PAGE_BITS) + 1) << PAGE_BITS;
            if self.entered(at).load(Relaxed) & ALL_PAIRS != 0 {
                for granule in at >> GRANULE_BITS..next.min(end).div_ceil(GRANULE_BYTES) {
                    let place = leaf.cell(granule << GRANULE_BITS);
                    let cell = Cell(place.load(Relaxed));
                    let base = (granule << GRANULE_BITS) + cell.offset();
                    if cell.is_live() && (start..end).contains(&base) {
                        place.store(Cell::NONE.0, Relaxed);
                    }
                }
            }
            at = next;
        }
    }

    /// Marks the block at `base` before a `realloc`. It stays findable while its content is copied, and the mark lets
    /// [`Self::end_move`] tell it from a new block at the same place.
    pub(crate) fn begin_move(&self, base: u64) -> Option<Removed> {
        let (place, start) = self.start(base)?;
        place.store(start.0 | Cell::MOVING, Relaxed);
        Some(Removed(start))
    }

    /// The `realloc` is done: takes the old block out, unless its place was given to a new block
    /// already. (That one has no mark; were it being moved too, it would be its own owner's to enter again.)
    pub(crate) fn end_move(&self, base: u64, moving: Removed) {
        if let Some(place) = self.cell(base) {
            // Where this fails the place is another thread's block now.
            let _ = place.compare_exchange(moving.0.0 | Cell::MOVING, Cell::NONE.0, Relaxed, Relaxed);
        }
    }

    /// The `realloc` failed and the block is what it was.
    pub(crate) fn cancel_move(&self, base: u64, moving: Removed) {
        if let Some(place) = self.cell(base) {
            place.store(moving.0.0, Relaxed);
        }
    }

    /// The live block that holds `address`, large ones excepted. Async-signal-safe.
    pub(crate) fn find(&self, address: u64) -> Option<Block> {
        let leaf = self.leaf(address)?;
        let page = address >> PAGE_BITS;
        let first = page << (PAGE_BITS - GRANULE_BITS);
        let distance = u64::from(leaf.spans[page as usize % PAGES].load(Acquire));
        if distance != 0
            && let Some(block) = self.holding(first.wrapping_sub(distance), address)
        {
            return Some(block);
        }
        let from = first as usize % CELLS;
        let within = (address >> GRANULE_BITS) as usize % GRANULES_IN_PAGE;
        let index = leaf.cells[from..=from + within].iter().enumerate().rposition(|(index, cell)| {
            let cell = Cell(cell.load(Relaxed));
            let begins_behind = index == within && cell.offset() > address & (GRANULE_BYTES - 1);
            cell.is_live() && !begins_behind
        })?;
        self.holding(first + index as u64, address)
    }

    /// The live blocks that begin in the same 64 KiB as `address`, large ones excepted: those behind it first. Async-signal-safe.
    pub(crate) fn starts_near(&self, address: u64) -> impl Iterator<Item = Block> {
        const COUNT: u64 = 1 << (CHUNK_BITS - GRANULE_BITS);
        let first = address >> CHUNK_BITS << (CHUNK_BITS - GRANULE_BITS);
        let within = (address >> GRANULE_BITS) % COUNT;
        let count = if self.leaf(address).is_some() { COUNT } else { 0 };
        (0..count).filter_map(move |step| self.beginning_in(first + (within + step) % COUNT))
    }

    /// The block that begins in `granule`, if it holds `address`.
    fn holding(&self, granule: u64, address: u64) -> Option<Block> {
        self.beginning_in(granule).filter(|block| address.wrapping_sub(block.base) < u64::from(block.bytes))
    }

    fn beginning_in(&self, granule: u64) -> Option<Block> {
        let at = granule << GRANULE_BITS;
        let place = self.cell(at)?;
        let start = Cell(place.load(Acquire));
        if !start.is_live() || start.size_code() == LARGE {
            return None;
        }
        let bytes = if start.size_code() == WIDE {
            let bytes = Cell(self.cell(at + GRANULE_BYTES)?.load(Acquire)).bytes_of(start)?;
            if place.load(Relaxed) & !Cell::MOVING != start.0 & !Cell::MOVING {
                return None;
            }
            bytes
        } else {
            start.size_code()
        };
        let base = at + start.offset();
        Some(Block { base, bytes, stack: start.stack(), follow_shift: start.follow_shift() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::vec::Vec;

    struct Owned(*mut u8);

    impl Owned {
        fn new() -> Self {
            Self(kernel::map(size_of::<BlockIndex>()).unwrap().as_ptr())
        }

        fn index(&self) -> &BlockIndex {
            // SAFETY: zeroes are an empty index.
            unsafe { &*self.0.cast() }
        }
    }

    impl Drop for Owned {
        fn drop(&mut self) {
            for branch in self.index().directory.iter().filter_map(found) {
                for leaf in branch.leaves.iter().filter_map(found) {
                    // SAFETY: mapped by `fill`; the index goes away.
                    unsafe { kernel::unmap(core::ptr::from_ref(leaf).cast_mut().cast(), size_of::<Leaf>()) };
                }
                // SAFETY: as above.
                unsafe { kernel::unmap(core::ptr::from_ref(branch).cast_mut().cast(), size_of::<Branch>()) };
            }
            // SAFETY: mapped by `new`.
            unsafe { kernel::unmap(self.0, size_of::<BlockIndex>()) };
        }
    }

    const HEAP: u64 = 0x5555_6000_0000;

    #[test]
    fn what_begins_in_a_range_is_cleared_and_nothing_else() {
        let owned = Owned::new();
        let index = owned.index();
        // One that begins before it and reaches in, two inside on two pages, one behind; and a region without blocks.
        for (base, bytes) in [(0x0ff0, 0x20), (0x1010, 8), (0x3ff8, 0x100), (0x5000, 16)] {
            assert_eq!(index.insert(HEAP + base, bytes, 1, 0), 0);
        }
        index.clear(HEAP + 0x1008, 0x3ff8);
        let found =
            [0x0ff0, 0x1000, 0x1010, 0x3ff8, 0x5000].map(|at| index.find(HEAP + at).map(|found| found.base - HEAP));
        assert_eq!(found, [Some(0x0ff0), Some(0x0ff0), None, None, Some(0x5000)]);
        index.clear(HEAP + 0x5001, 1 << 30);
        assert!(index.find(HEAP + 0x5000).is_some());
    }

    fn block(base: u64, bytes: u32, stack: u32) -> Option<Block> {
        Some(Block { base, bytes, stack, follow_shift: 0 })
    }

    #[test]
    fn finds_every_byte_of_a_small_block_and_none_beside_it() {
        let owned = Owned::new();
        let index = owned.index();
        assert_eq!(index.insert(HEAP + 0x40, 24, 7, 0), 0);
        for address in HEAP..HEAP + 0x100 {
            let expected = (HEAP + 0x40..HEAP + 0x58).contains(&address).then_some(block(HEAP + 0x40, 24, 7).unwrap());
            assert_eq!(index.find(address), expected, "{address:#x}");
        }
        assert!(index.remove(HEAP + 0x40).is_some());
        assert!(index.remove(HEAP + 0x40).is_none());
        assert_eq!(index.find(HEAP + 0x40), None);
    }

    #[test]
    fn blocks_near_an_address_are_those_of_its_chunk() {
        let owned = Owned::new();
        let index = owned.index();
        let chunk = HEAP >> CHUNK_BITS << CHUNK_BITS;
        let end = chunk + (1 << CHUNK_BITS);
        for base in [chunk - 16, chunk, chunk + 0x1238, end - 16, end] {
            assert_eq!(index.insert(base, 16, 1, 0), 0);
        }
        let near: Vec<u64> = index.starts_near(chunk + 0x777).map(|block| block.base).collect();
        assert_eq!(near, [chunk + 0x1238, end - 16, chunk]);
        assert_eq!(index.starts_near(chunk + (1 << BRANCH_BITS)).count(), 0);
    }

    #[test]
    fn looks_in_vain_are_spared_once_no_block_begins_near() {
        let owned = Owned::new();
        let index = owned.index();
        let (old, late, elsewhere) = (HEAP + 0x100, HEAP + 0x140, HEAP + 0x180);
        assert_eq!(index.insert(old, 48, 7, 0), 0);
        assert!(index.may_hold_start(late) && !index.may_hold_start(elsewhere));
        let alike = (1..=2).map(|times| late + times * ((ENTERED as u64) << PAGE_BITS));
        assert!(alike.clone().all(|base| index.may_hold_start(base)), "what shares the flag");
        index.sweep(late);
        index.pass_over();
        index.sweep(late);
        index.allow_sweeps();
        assert!(index.remove(late).is_none() && index.may_hold_start(late), "one still lives");
        assert_eq!(index.find(old + 8), block(old, 48, 7), "what was followed stays so");
        assert!(index.remove(old).is_some() && index.may_hold_start(old));
        index.sweep(late);
        assert!(!index.may_hold_start(old) && !index.may_hold_start(late));
        assert!(index.insert_within_page(late, 48, 8, 0) && index.may_hold_start(old));
        assert!(index.remove(late).is_some());
        for base in alike.clone() {
            assert_eq!(index.insert(base, 48, 9, 0), 0);
            index.sweep(late);
            assert!(index.may_hold_start(late), "one lives that shares the flag");
            assert!(index.remove(base).is_some());
            index.sweep(late);
            assert!(!index.may_hold_start(late) && !index.may_hold_start(base));
        }
    }

    #[test]
    fn a_flag_that_too_many_regions_share_stays() {
        let owned = Owned::new();
        let index = owned.index();
        index.pass_over();
        index.allow_sweeps();
        for region in 0..ALIKE as u64 {
            let base = HEAP + region * ((ENTERED as u64) << PAGE_BITS);
            assert_eq!(index.insert(base, 16, 1, 0), 0);
            assert!(index.remove(base).is_some());
            index.sweep(HEAP);
            assert_eq!(index.may_hold_start(HEAP), region + 1 == ALIKE as u64, "{region}");
        }
    }

    #[test]
    fn what_was_passed_over_is_known_by_what_was_not() {
        let owned = Owned::new();
        let index = owned.index();
        index.note_chosen(HEAP);
        assert!(!index.may_be_passed_over(HEAP, 1 << 10), "all are entered");
        index.pass_over();
        index.note_chosen(HEAP);
        let chunk = HEAP >> CHUNK_BITS << CHUNK_BITS;
        let end = chunk + (1 << CHUNK_BITS);
        for reach_bytes in [1 << 10, 4 << 20] {
            for near in [chunk - reach_bytes, HEAP, end + reach_bytes - 1] {
                assert!(index.may_be_passed_over(near, reach_bytes), "{near:#x}");
            }
            for far in [chunk - reach_bytes - 1, end + reach_bytes] {
                assert!(!index.may_be_passed_over(far, reach_bytes), "{far:#x}");
            }
        }
        assert!(!index.may_be_passed_over(0, 1 << 10) && !index.may_be_passed_over(u64::MAX, 1 << 10));
    }

    /// One thread enters and takes out blocks that nobody else touches, another sweeps around them.
    #[test]
    fn no_block_is_lost_to_a_sweep() {
        let owned = Owned::new();
        let index = owned.index();
        index.pass_over();
        index.allow_sweeps();
        assert!(index.ready(HEAP).is_some());
        let done = &core::sync::atomic::AtomicBool::new(false);
        let lost = std::thread::scope(|scope| {
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    index.sweep(HEAP);
                }
            });
            let mut bases = (0..300_000).map(|time| HEAP + time % 8 * 16);
            let lost = bases.find(|&base| !index.insert_within_page(base, 8, 1, 0) || index.remove(base).is_none());
            done.store(true, Relaxed);
            lost
        });
        assert_eq!(lost, None);
    }

    #[test]
    fn follows_spans_over_pages_and_regions() {
        let owned = Owned::new();
        let index = owned.index();
        let region = (HEAP >> REGION_BITS << REGION_BITS) + (1 << REGION_BITS);
        let (base, bytes) = (region - 5000, LARGE_BLOCK_BYTES as u32 - 1);
        assert_eq!(index.insert(base, u64::from(bytes), MAX_STACK, 0), 0);
        for address in [base, base + 903, base + 904, region, region + 4096, base + u64::from(bytes) - 1] {
            assert_eq!(index.find(address), block(base, bytes, MAX_STACK), "{address:#x}");
        }
        assert_eq!(index.find(base - 1), None);
        assert_eq!(index.find(base + u64::from(bytes)), None);
        // A shorter one at the same place: old spans lead to it and must not be believed.
        index.remove(base);
        assert_eq!(index.insert(base, 4500, 1, 0), 0);
        assert_eq!(index.find(region - 4096), block(base, 4500, 1));
        assert_eq!(index.find(region), None);
    }

    #[test]
    fn marks_large_blocks_without_finding_them() {
        let owned = Owned::new();
        assert_eq!(owned.index().insert(HEAP, 3 << 30, 5, 0), 0);
        assert_eq!(owned.index().find(HEAP + 8), None);
        assert!(owned.index().remove(HEAP).unwrap().is_large());
    }

    #[test]
    fn later_of_two_blocks_in_a_granule_stays_and_the_loss_is_told() {
        let owned = Owned::new();
        let index = owned.index();
        assert_eq!(index.insert(HEAP, 8, 1, 0), 0);
        assert_eq!(index.insert(HEAP + 8, 8, 2, 0), 1);
        assert_eq!(index.find(HEAP + 3), None);
        assert_eq!(index.find(HEAP + 9), block(HEAP + 8, 8, 2));
        assert!(index.remove(HEAP).is_none(), "the other one's entry");
        assert!(index.remove(HEAP + 8).is_some());
    }

    #[test]
    fn an_address_outside_user_space_is_refused() {
        let owned = Owned::new();
        assert_eq!(owned.index().insert(1 << 47, 8, 1, 0), 1);
        assert_eq!(owned.index().find(u64::MAX), None);
        assert!(owned.index().remove(1 << 63).is_none());
        assert_eq!(owned.index().insert(HEAP + 4, 8, 1, 0), 1, "not aligned");
    }

    #[test]
    fn a_moved_block_is_found_until_its_place_is_given_away() {
        let owned = Owned::new();
        let index = owned.index();
        assert_eq!(index.insert(HEAP, 100, 1, 0), 0);
        let moving = index.begin_move(HEAP).unwrap();
        assert_eq!(index.find(HEAP + 99), block(HEAP, 100, 1), "while it is copied");
        assert_eq!(index.insert(HEAP, 100, 1, 0), 0, "another thread's, equal in all");
        index.end_move(HEAP, moving);
        assert_eq!(index.find(HEAP), block(HEAP, 100, 1));
        let moving = index.begin_move(HEAP).unwrap();
        index.cancel_move(HEAP, moving);
        let moving = index.begin_move(HEAP).unwrap();
        index.end_move(HEAP, moving);
        assert_eq!(index.find(HEAP), None);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Allocate { at: u64, bytes: u64 },
        Free { which: usize },
        Reallocate { which: usize, at: u64, bytes: u64 },
        Find { near: usize, offset: i64 },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Places on both sides of a region's end; sizes from nothing to large.
        let at = || (0u64..1 << 17).prop_map(|granule| HEAP + (1 << REGION_BITS) - (1 << 20) + granule * 16);
        let at = move || (at(), prop_oneof![4 => Just(0u64), 1 => Just(8u64)]).prop_map(|(at, odd)| at + odd);
        let bytes =
            || prop_oneof![6 => 0u64..200, 3 => 0u64..20_000, 1 => 0u64..LARGE_BLOCK_BYTES + 5000, 1 => Just(1u64)];
        let step = prop_oneof![
            4 => (at(), bytes()).prop_map(|(at, bytes)| Step::Allocate { at, bytes }),
            2 => any::<usize>().prop_map(|which| Step::Free { which }),
            1 => (any::<usize>(), at(), bytes()).prop_map(|(which, at, bytes)| Step::Reallocate { which, at, bytes }),
            6 => (any::<usize>(), -70_000i64..70_000).prop_map(|(near, offset)| Step::Find { near, offset }),
            4 => (any::<usize>(), -20i64..40).prop_map(|(near, offset)| Step::Find { near, offset }),
        ];
        prop::collection::vec(step, 1..400)
    }

    /// The obvious index: a sorted map.
    #[derive(Default)]
    struct Twin(BTreeMap<u64, (u64, u32)>);

    impl Twin {
        /// Whether an allocator could hand this range out: free, and no second start in a granule.
        fn has_room(&self, at: u64, bytes: u64) -> bool {
            let below = self.0.range(..at).next_back().is_none_or(|(base, (size, _))| base + size <= at);
            let above = self.0.range(at..).next().is_none_or(|(base, _)| at + bytes.max(1) <= *base);
            let granule = at & !15;
            below && above && self.0.range(granule..granule + 16).next().is_none()
        }

        fn find(&self, address: u64) -> Option<Block> {
            let (base, (bytes, stack)) = self.0.range(..=address).next_back()?;
            (address - base < *bytes && *bytes < LARGE_BLOCK_BYTES)
                .then(|| block(*base, *bytes as u32, *stack).unwrap())
        }

        fn nth(&self, which: usize) -> Option<u64> {
            self.0.keys().nth(which.checked_rem(self.0.len())?).copied()
        }
    }

    proptest! {
        #[test]
        fn answers_as_a_sorted_map_does(steps in steps()) {
            let owned = Owned::new();
            let index = owned.index();
            let mut twin = Twin::default();
            for (number, step) in steps.into_iter().enumerate() {
                let stack = number as u32 + 1;
                match step {
                    Step::Allocate { at, bytes } if twin.has_room(at, bytes) => {
                        if !index.insert_within_page(at, bytes, stack, 0) {
                            prop_assert_eq!(index.insert(at, bytes, stack, 0), 0);
                        }
                        twin.0.insert(at, (bytes, stack));
                    }
                    Step::Allocate { .. } => {}
                    Step::Free { which } => if let Some(base) = twin.nth(which) {
                        let (bytes, _) = twin.0.remove(&base).unwrap();
                        prop_assert_eq!(index.remove(base).unwrap().is_large(), bytes >= LARGE_BLOCK_BYTES);
                    },
                    Step::Reallocate { which, at, bytes } => if let Some(base) = twin.nth(which) {
                        let moving = index.begin_move(base).unwrap();
                        if twin.has_room(at, bytes) {
                            prop_assert_eq!(index.insert(at, bytes, stack, 0), 0);
                            index.end_move(base, moving);
                            twin.0.remove(&base);
                            twin.0.insert(at, (bytes, stack));
                        } else {
                            index.cancel_move(base, moving);
                        }
                    },
                    Step::Find { near, offset } => {
                        let address = twin.nth(near).unwrap_or(HEAP).wrapping_add_signed(offset);
                        prop_assert_eq!(index.find(address), twin.find(address), "{:#x}", address);
                    }
                }
            }
        }
    }

    /// Threads hand slots of one heap to each other through a locked twin and race with readers that take no lock.
    #[test]
    fn concurrent_readers_see_whole_blocks_only() {
        const SLOT: u64 = 6000;
        let owned = Owned::new();
        let index = owned.index();
        let twin: Vec<Mutex<Option<(u32, u32)>>> = (0..64).map(|_| Mutex::new(None)).collect();
        let base = |slot: usize| HEAP + slot as u64 * SLOT / 16 * 16;
        let (twin, done) = (&twin, &core::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            let writers = [1u64, 2].map(|seed| {
                scope.spawn(move || {
                    let mut random = seed;
                    for _ in 0..100_000 {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        let slot = (random >> 33) as usize % twin.len();
                        let mut live = twin[slot].lock().unwrap();
                        if let Some((bytes, stack)) = live.take() {
                            assert_eq!(index.find(base(slot) + u64::from(bytes) - 1), block(base(slot), bytes, stack));
                            assert!(index.remove(base(slot)).is_some());
                        } else {
                            // The stack says the size, so that a reader can tell a torn cell.
                            let bytes = 1 + (random >> 20) as u32 % (SLOT as u32 - 16);
                            assert_eq!(index.insert(base(slot), u64::from(bytes), bytes + 1, 0), 0);
                            *live = Some((bytes, bytes + 1));
                        }
                    }
                })
            });
            scope.spawn(move || {
                let mut address = HEAP;
                while !done.load(Relaxed) {
                    address = HEAP + (address - HEAP + 1237) % (64 * SLOT);
                    if let Some(found) = index.find(address) {
                        assert!((0..twin.len()).any(|slot| base(slot) == found.base));
                        assert_eq!(found.stack, found.bytes + 1);
                        assert!(address >= found.base && address - found.base < u64::from(found.bytes));
                    }
                }
            });
            for writer in writers {
                writer.join().unwrap();
            }
            done.store(true, Relaxed);
        });
    }
}
