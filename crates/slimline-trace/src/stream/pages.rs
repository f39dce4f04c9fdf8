//! Which pages a chunk's accesses touch, and on which NUMA node a kernel said that they and their thread were.
//!
//! Who asks the kernel asks of pages, while their process lives; what was answered is kept by chunk ([`ChunkHomes`]), so that
//! who reads the trace knows it when it reads the chunk.

use serde::{Deserialize, Serialize};

use super::decode::{Program, Visits};

/// Bytes of a page that is not large. Homes are kept by such pages, as large ones can be taken apart.
pub const PAGE_BYTES: u64 = 4096;
/// Pages of the largest copy or fill that is looked at whole (a GiB): of larger ones this many, as a damaged trace may tell any size.
const MOST_PAGES: u64 = 1 << 18;
/// Pages of a chunk that are kept before those that were told twice are looked for.
const MANY_PAGES: usize = 1 << 20;
/// Pages that were found last, by their lowest bits: most accesses are to one of these.
const RECENT: usize = 64;

/// What a kernel said of a chunk's pages, while their process lived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkHomes {
    /// The process' number in the trace.
    pub process: u32,
    /// The stream's number in the process.
    pub stream: u32,
    /// The chunk's number in the stream.
    pub sequence: u64,
    /// Node of the CPU that its thread ran on last; none where the kernel did not tell.
    pub thread_node: Option<u32>,
    /// Numbers of pages whose home was not known before, or has changed, in their order, and their nodes.
    pub pages: Vec<(u64, u32)>,
}

/// What came of asking, of a whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HomesInfo {
    /// Numbers of the machine's nodes.
    pub nodes: Vec<u32>,
    /// Pages, by process, whose home was told.
    pub pages: u64,
    /// Times that a page was found on another node than before.
    pub moves: u64,
    /// Pages whose home was never told: there was no memory behind them yet, or none any more.
    pub not_present: u64,
    /// As the process had ended before they were asked for.
    pub ended: u64,
    /// As the kernel did not let us ask.
    pub refused: u64,
    /// Chunks of threads of which it was not told where they ran.
    pub unknown_threads: u64,
}

impl HomesInfo {
    /// Pages whose home was never told.
    pub fn untold(&self) -> u64 {
        self.not_present + self.ended + self.refused
    }
}

/// Puts the numbers of all pages that a chunk's accesses touch into `pages` (cleared first), in their order, each once.
pub fn touched_pages(program: &Program, words: &[u64], visits: &[Visits], pages: &mut Vec<u64>) {
    pages.clear();
    // No page has this number.
    let mut recent = [u64::MAX; RECENT];
    let mut most = MANY_PAGES;
    let mut touch = |address: u64, bytes: u64| {
        let last = address.saturating_add(bytes - 1) / PAGE_BYTES;
        let first = address / PAGE_BYTES;
        for page in first..=last.min(first + MOST_PAGES) {
            let place = page as usize % RECENT;
            if recent[place] != page {
                recent[place] = page;
                pages.push(page);
            }
        }
        // A chunk may copy or fill the same gibibytes again and again.
        if pages.len() > most {
            pages.sort_unstable();
            pages.dedup();
            most = MANY_PAGES.max(2 * pages.len());
        }
    };
    for visits in visits {
        let length = program.segments()[visits.segment.0 as usize].words;
        for at in visits.places(length) {
            let Some(words) = words.get(at..at + length as usize) else { continue };
            for (_, site, own) in program.sites_with_words(visits.segment, words) {
                site.each_access(&own, |_, address, bytes| {
                    // A copy of nothing touches nothing.
                    if bytes > 0 {
                        touch(address, bytes);
                    }
                });
            }
        }
    }
    pages.sort_unstable();
    pages.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::decode::Decoder;
    use crate::stream::sites::{Module, ModuleBuilder, Site, SiteKind};

    fn pages_of(sites: &[Site], record: &[u64]) -> Vec<u64> {
        let mut builder = ModuleBuilder::new();
        builder.segment(sites.to_vec());
        let section = builder.finish("a.c", "a.o", "/", "test").encode().1;
        let mut program = Program::new();
        for (id, module) in Module::read_section(&section).unwrap() {
            program.add(id, module);
        }
        let words = [&[program.segments()[0].header], record].concat();
        let (mut visits, mut pages) = (Vec::new(), vec![7]);
        Decoder::new().decode(&program, &words, false, &mut visits);
        assert_eq!(visits.len(), 1);
        touched_pages(&program, &words, &visits, &mut pages);
        pages
    }

    #[test]
    fn pages_by_hand() {
        let [load, store] = [SiteKind::Load, SiteKind::Store].map(|kind| Site::new(kind, 8));
        assert_eq!(pages_of(&[load, store, load], &[0x5008, 0x3000, 0x5ff8]), [3, 5]);
        // Over the end of a page.
        assert_eq!(pages_of(&[load], &[0x5ffc]), [5, 6]);
        let copy = Site::new(SiteKind::Copy, 0);
        assert_eq!(pages_of(&[copy], &[0x1_0000, 0x4ff0, 0x1020]), [4, 5, 6, 16, 17]);
        assert!(pages_of(&[copy], &[0x1_0000, 0x4ff0, 0]).is_empty());
        assert_eq!(pages_of(&[Site::new(SiteKind::Fill, 0)], &[0x2000, 0x1000]), [2]);
        // What nobody can have filled.
        assert_eq!(pages_of(&[Site::new(SiteKind::Fill, 0)], &[0, u64::MAX >> 1]).len() as u64, MOST_PAGES + 1);
        assert!(pages_of(&[Site::new(SiteKind::Free, 0)], &[0x2000]).is_empty());
        let gather = Site { lanes: 4, ..Site::new(SiteKind::Gather, 8) };
        assert_eq!(pages_of(&[gather], &[0b101, 0x1000, 0x2000, 0x3000, 0x4000]), [1, 3]);
        let masked = Site { lanes: 4, ..Site::new(SiteKind::MaskedStore, 8) };
        assert_eq!(pages_of(&[masked], &[0x1ff0, 0b0110]), [1, 2]);
    }

    /// Chunks that fill the same again and again.
    #[test]
    fn pages_take_memory_once() {
        const TIMES: u64 = 28;
        let bytes = (MOST_PAGES - 1) * PAGE_BYTES;
        let record: Vec<u64> = (0..TIMES).flat_map(|_| [PAGE_BYTES, bytes]).collect();
        let pages = pages_of(&[Site::new(SiteKind::Fill, 0); TIMES as usize], &record);
        assert_eq!(pages, (1..MOST_PAGES).collect::<Vec<_>>());
        assert!(pages.capacity() <= 2 * MANY_PAGES, "{}", pages.capacity());
    }

    /// Two that take one place of those found last.
    #[test]
    fn a_page_is_told_once() {
        let load = Site::new(SiteKind::Load, 8);
        let far = 0x1000 * (1 + RECENT as u64);
        assert_eq!(pages_of(&[load; 4], &[0x1000, far, 0x1000, far]), [1, 1 + RECENT as u64]);
    }
}
