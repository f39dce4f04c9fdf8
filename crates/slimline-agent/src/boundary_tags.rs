//! Bounds of heap blocks that were passed over, by the boundary tags of glibc's `malloc`.
//!
//! In front of each block glibc keeps the size of the chunk that the block is in (Knuth, TAOCP 1, 2.5):
//!
//! ```text
//!   chunk ─► ┌─────────────────────┐
//!            │ size of the chunk before, if that is free
//!            │ size │ flags        │  P: the chunk before is in use
//!   block ─► │ what the program has│
//!            │ …                   │
//!            ├─────────────────────┤  chunk + size: the next chunk. The block has its first word, too.
//! ```
//!
//! The agent looks backwards for the block that holds an address. Data may look like a tag. So a chunk counts if its neighbours
//! on both sides agree with it: the one behind says that it is in use and has a neighbour itself, the one before ends where it
//! begins. And it must be the only one.
//!
//! Not every allocator keeps such tags. Blocks that are followed show whether this one does: their bounds are known.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use slimline_emulate::Memory;
use slimline_trace::wire::TAG_BYTES;

/// Chunks begin at multiples of this, and are multiples of it.
const ALIGNMENT: u64 = 16;
/// In front of a block: what a chunk begins with.
const HEAD_BYTES: u64 = 16;
const WORD_BYTES: u64 = 8;
const LEAST_BYTES: u64 = 32;
/// No chunk of the heap is larger.
const MOST_BYTES: u64 = 1 << 40;
const PAGE_BYTES: u64 = 4096;

/// Flags of a tag.
const BEFORE_IS_IN_USE: u64 = 1;
const IS_MAPPED: u64 = 2;
const FLAGS: u64 = 7;

/// How far back the search for a chunk goes, and for the one before it. What it reads drives the program's own data out of
/// the caches, which no budget counts.
const MOST_BACK_BYTES: u64 = 1024;
/// What a chunk can have beyond what was asked for: up to the next size, and a rest that would be too small for a chunk.
const MOST_SLACK_BYTES: u64 = ALIGNMENT + LEAST_BYTES;

/// How many followed blocks must have had the tags that glibc gives them, …
const ENOUGH: u32 = 8;
/// … and to how many that did one may be that did not: other threads free blocks meanwhile.
const PER_DIFFERENT: u32 = 64;
static AGREED: AtomicU32 = AtomicU32::new(0);
static DIFFERED: AtomicU32 = AtomicU32::new(0);
/// The first blocks that were compared: a block counts once.
static COMPARED: [AtomicU64; ENOUGH as usize] = [const { AtomicU64::new(0) }; ENOUGH as usize];

/// A block by its tags; or a tag, which has [`TAG_BYTES`](slimline_trace::wire::TAG_BYTES).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) base: u64,
    /// As `malloc_usable_size` has it.
    pub(crate) usable_bytes: u64,
}

/// Whether too few followed blocks were compared.
pub(crate) fn are_unclear() -> bool {
    AGREED.load(Relaxed) < ENOUGH && DIFFERED.load(Relaxed) < ENOUGH
}

/// Looks at the tag of a followed block, once for each of the first ones.
pub(crate) fn compare(memory: &mut impl Memory, base: u64, bytes: u64) {
    if COMPARED.iter().any(|known| known.load(Relaxed) == base) {
        return;
    }
    let number = if has_tag(memory, base, bytes) { &AGREED } else { &DIFFERED }.fetch_add(1, Relaxed);
    if let Some(place) = COMPARED.get(number as usize) {
        place.store(base, Relaxed);
    }
}

fn has_tag(memory: &mut impl Memory, base: u64, bytes: u64) -> bool {
    let tag = base.is_multiple_of(ALIGNMENT).then(|| Tag::at(memory, base - HEAD_BYTES)).flatten();
    tag.is_some_and(|tag| {
        let usable = tag.bytes - WORD_BYTES;
        bytes <= usable && usable - bytes < MOST_SLACK_BYTES
    })
}

/// Whether the allocator keeps boundary tags, by what followed blocks have.
pub(crate) fn are_kept() -> bool {
    let (agreed, differed) = (AGREED.load(Relaxed), DIFFERED.load(Relaxed));
    agreed >= ENOUGH && differed.saturating_mul(PER_DIFFERENT) <= agreed
}

/// What holds an address: a block for which less than `most_bytes` were asked, or the tag of any block. None where the tags
/// around show none, or several.
pub(crate) fn bounds(memory: &mut impl Memory, address: u64, most_bytes: u64) -> Option<Bounds> {
    let in_line = address & !(ALIGNMENT - 1);
    let nearest = in_line.checked_sub(HEAD_BYTES)?;
    let most_usable_bytes = most_bytes.saturating_add(MOST_SLACK_BYTES);
    let mut found = None;
    for chunk in chunks_back(nearest, most_usable_bytes) {
        let Some(tag) = Tag::at(memory, chunk) else { continue };
        let holds = address < chunk.saturating_add(tag.bytes + WORD_BYTES);
        if holds && tag.is_used(memory, chunk) {
            // Tags of chunks that were merged stay until the program writes over them.
            if found.is_some() {
                return None;
            }
            found = Some((chunk, tag));
        }
    }
    if let Some((chunk, tag)) = found {
        let block = Bounds { base: chunk + HEAD_BYTES, usable_bytes: tag.bytes - WORD_BYTES };
        let is_small = block.usable_bytes < most_usable_bytes;
        return (is_small && tag.begins_behind_another(memory, chunk)).then_some(block);
    }
    let is_tag = address >= in_line + WORD_BYTES
        && Tag::at(memory, in_line)
            .is_some_and(|tag| tag.next(memory, in_line).is_some() && tag.begins_behind_another(memory, in_line));
    is_tag.then_some(Bounds { base: in_line + WORD_BYTES, usable_bytes: TAG_BYTES })
}

/// Where chunks may begin, from `nearest` on downwards.
fn chunks_back(nearest: u64, most_bytes: u64) -> impl Iterator<Item = u64> {
    let most = most_bytes.min(MOST_BACK_BYTES) / ALIGNMENT;
    (0..=most).map_while(move |step| nearest.checked_sub(step * ALIGNMENT))
}

/// What may be the tag of a chunk.
#[derive(Clone, Copy)]
struct Tag {
    bytes: u64,
    flags: u64,
}

impl Tag {
    fn at(memory: &mut impl Memory, chunk: u64) -> Option<Self> {
        let word = word(memory, chunk.checked_add(WORD_BYTES)?)?;
        let (bytes, flags) = (word & !FLAGS, word & FLAGS);
        let is_size = (LEAST_BYTES..MOST_BYTES).contains(&bytes) && bytes.is_multiple_of(ALIGNMENT);
        (is_size && flags & IS_MAPPED == 0).then_some(Self { bytes, flags })
    }

    /// Whether the chunk behind says that this one is in use.
    fn is_used(self, memory: &mut impl Memory, chunk: u64) -> bool {
        self.next(memory, chunk).is_some_and(|next| next.flags & BEFORE_IS_IN_USE != 0)
    }

    /// The tag of the chunk behind. Behind that is another chunk, or the end of the arena, which is one of a page.
    fn next(self, memory: &mut impl Memory, chunk: u64) -> Option<Self> {
        let behind = chunk.saturating_add(self.bytes);
        let next = Self::at(memory, behind)?;
        let end = behind.saturating_add(next.bytes);
        (end.is_multiple_of(PAGE_BYTES) || Self::at(memory, end).is_some()).then_some(next)
    }

    /// Whether the chunk before ends where this one begins.
    fn begins_behind_another(self, memory: &mut impl Memory, chunk: u64) -> bool {
        if self.flags & BEFORE_IS_IN_USE == 0 {
            let before = word(memory, chunk).and_then(|bytes| chunk.checked_sub(bytes));
            return before.is_some_and(|before| ends_at(memory, before, chunk));
        }
        let Some(last) = chunk.checked_sub(LEAST_BYTES) else { return false };
        chunks_back(last, MOST_BACK_BYTES).any(|before| ends_at(memory, before, chunk))
    }
}

/// Whether a chunk begins at `start` and ends at `end`.
fn ends_at(memory: &mut impl Memory, start: u64, end: u64) -> bool {
    Tag::at(memory, start).is_some_and(|tag| start + tag.bytes == end)
}

fn word(memory: &mut impl Memory, address: u64) -> Option<u64> {
    let mut word = [0; WORD_BYTES as usize];
    memory.read(address, &mut word).then(|| u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::memory::Target;

    /// Words of memory from an address on.
    struct Words {
        start: u64,
        words: Vec<u64>,
    }

    impl Memory for Words {
        fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
            assert!(address.is_multiple_of(8) && into.len() == 8);
            let index = address.checked_sub(self.start).map(|offset| (offset / 8) as usize);
            let word = index.and_then(|index| self.words.get(index));
            word.map(|word| into.copy_from_slice(&word.to_le_bytes())).is_some()
        }
    }

    impl Words {
        /// Chunks of these sizes from a page on, all in use, and zeros behind them up to the next page.
        fn chunks(sizes: &[u64]) -> Self {
            let mut words = Vec::new();
            for &bytes in sizes {
                words.extend([0, bytes | BEFORE_IS_IN_USE]);
                words.resize(words.len() + (bytes - HEAD_BYTES) as usize / 8, 0);
            }
            let rest = PAGE_BYTES - words.len() as u64 * 8;
            words.extend([0, rest | BEFORE_IS_IN_USE]);
            words.resize((PAGE_BYTES / 8) as usize, 0);
            Self { start: 0x5000, words }
        }

        fn base(&mut self, address: u64) -> Option<u64> {
            bounds(self, 0x5000 + address, 1024).map(|found| found.base - 0x5000)
        }

        fn set(&mut self, address: u64, word: u64) {
            self.words[address as usize / 8] = word;
        }
    }

    #[test]
    fn an_address_is_in_the_block_whose_neighbors_agree() {
        // Chunks at 0, 0x40, 0x60 and 0xc0; the rest begins at 0xe0.
        let mut memory = Words::chunks(&[0x40, 0x20, 0x60, 0x20]);
        for (address, base) in [(0x50, 0x50), (0x67, 0x50), (0x70, 0x70), (0xc7, 0x70), (0xd0, 0xd0)] {
            assert_eq!(memory.base(address), Some(base), "{address:#x}");
        }
        assert_eq!(bounds(&mut memory, 0x50c0, 1024), Some(Bounds { base: 0x5070, usable_bytes: 0x58 }));
        assert_eq!(memory.base(0x20), None, "nothing is known to be before the first");
        assert_eq!(memory.base(0x5f), Some(0x50));
        for tag in [0x48, 0x68, 0xc8] {
            let expected = Bounds { base: 0x5000 + tag, usable_bytes: TAG_BYTES };
            assert_eq!(bounds(&mut memory, 0x5004 + tag, 1024), Some(expected));
        }
        assert_eq!(memory.base(0x108), None, "nothing is allocated there");
    }

    #[test]
    fn data_that_looks_like_a_tag_is_none() {
        let mut memory = Words::chunks(&[0x40, 0x20, 0x60, 0x20]);
        // A size that ends where the block's own chunk does; then two of merged chunks.
        memory.set(0x88, 0x40 | BEFORE_IS_IN_USE);
        assert_eq!([0x78, 0x98].map(|address| memory.base(address)), [Some(0x70), None]);
        memory.set(0x78, 0x20 | BEFORE_IS_IN_USE);
        memory.set(0x98, 0x30 | BEFORE_IS_IN_USE);
        assert_eq!(memory.base(0xa8), None, "either may be a stale one");
        let mut memory = Words::chunks(&[0x40, 0x20, 0x60, 0x20]);
        // One that reaches over the chunk behind, and one that reaches nowhere.
        memory.set(0x78, 0x60 | BEFORE_IS_IN_USE);
        memory.set(0x98, 0x1000);
        assert_eq!(memory.base(0xa0), Some(0x70));
    }

    #[test]
    fn a_free_chunk_before_is_found_by_its_size() {
        let mut memory = Words::chunks(&[0x40, 0x20, 0x60, 0x20]);
        memory.set(0x68, 0x60);
        assert_eq!(memory.base(0x78), None, "it says that the one before is free, and not how large that is");
        memory.set(0x60, 0x20);
        assert_eq!(memory.base(0x78), Some(0x70));
        memory.set(0xc8, 0x20);
        assert_eq!(memory.base(0x78), None, "it is free itself");
    }

    /// The process's own memory.
    struct Own(Target);

    impl Memory for Own {
        fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
            self.0.copy(address, into)
        }
    }

    /// Blocks of glibc's own `malloc`, some of them freed and allocated anew.
    #[test]
    fn blocks_of_the_c_library_are_found_at_every_byte() {
        let mut memory = Own(Target::of_this_thread());
        // A linear congruential generator (Knuth, TAOCP 2, 3.3.4).
        let mut random = 1_u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % below
        };
        let mut blocks: Vec<Vec<u8>> = (0..2000).map(|_| Vec::with_capacity(1 + next(700))).collect();
        for _ in 0..4000 {
            let place = next(blocks.len());
            let bytes = 1 + next(700);
            blocks[place] = Vec::with_capacity(bytes);
        }
        let (mut found, mut missed) = (0, 0);
        for (number, block) in blocks.iter_mut().enumerate() {
            // Others keep what was there before, the tags of earlier chunks among it.
            if number % 4 == 0 {
                block.extend([0x31_u64; 88].iter().flat_map(|word| word.to_le_bytes()).take(block.capacity()));
            }
            let (base, bytes) = (block.as_ptr() as u64, block.capacity() as u64);
            assert!(has_tag(&mut memory, base, bytes), "{base:#x} {bytes}");
            for address in [base, base + bytes / 2, base + bytes - 1] {
                match bounds(&mut memory, address, 1024) {
                    Some(of) => {
                        assert_eq!(of.base, base, "{address:#x}");
                        assert!(of.usable_bytes >= bytes && of.usable_bytes - bytes < MOST_SLACK_BYTES);
                        found += 1;
                    }
                    None => missed += 1,
                }
            }
        }
        assert!(found > 2 * missed, "{found} found, {missed} missed");
    }
}
