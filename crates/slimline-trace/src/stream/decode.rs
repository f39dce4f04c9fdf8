//! From a chunk's words to the segments that ran.
//!
//! The inner loop looks each header up in a direct-mapped table of the segments that ran last: hot code has few. What it
//! gives are positions only ([`Visit`]), a batch a chunk; whoever needs the addresses takes them from the words, by the
//! segment's sites.

use std::collections::HashMap;

use super::record::{HEADER_MARK, Header, ModuleId};
use super::sites::{Module, Site, SiteKind};

/// A segment of any module that is known, by a number of our own, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentId(pub u32);

/// A site of any module, likewise. Those of a segment have consecutive numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SiteId(pub u32);

/// A segment as a decoder needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownSegment {
    /// Its header.
    pub header: u64,
    /// Words behind the header.
    pub words: u32,
    /// Its first site.
    pub first_site: SiteId,
    /// How many sites it has.
    pub sites: u32,
    /// Index in [`Program::modules`].
    pub module: u32,
}

/// All site tables of a run.
#[derive(Debug, Default)]
pub struct Program {
    modules: Vec<(ModuleId, Module)>,
    segments: Vec<KnownSegment>,
    /// All sites, each with its module.
    sites: Vec<(u32, Site)>,
    by_header: HashMap<u64, SegmentId>,
}

impl Program {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a module, unless it is there.
    pub fn add(&mut self, id: ModuleId, module: Module) {
        if self.modules.iter().any(|(known, _)| *known == id) {
            return;
        }
        let index = self.modules.len() as u32;
        for (number, segment) in (0..).zip(&module.segments) {
            let sites = module.sites_of(number);
            let header = Header::new(id, number).word();
            let known = KnownSegment {
                header,
                words: segment.words,
                first_site: SiteId(self.sites.len() as u32),
                sites: sites.len() as u32,
                module: index,
            };
            self.by_header.insert(header, SegmentId(self.segments.len() as u32));
            self.segments.push(known);
            self.sites.extend(sites.iter().map(|site| (index, *site)));
        }
        self.modules.push((id, module));
    }

    /// The modules in the order in which they were added.
    pub fn modules(&self) -> &[(ModuleId, Module)] {
        &self.modules
    }

    /// All segments, by [`SegmentId`].
    pub fn segments(&self) -> &[KnownSegment] {
        &self.segments
    }

    /// The segment with this header.
    pub fn segment_of(&self, header: u64) -> Option<&KnownSegment> {
        self.by_header.get(&header).map(|id| &self.segments[id.0 as usize])
    }

    /// How many sites there are.
    pub fn site_count(&self) -> usize {
        self.sites.len()
    }

    /// A site and its module. It must be one of this program.
    pub fn site(&self, id: SiteId) -> (&Module, &Site) {
        let (module, site) = &self.sites[id.0 as usize];
        (&self.modules[*module as usize].1, site)
    }

    /// The sites of a segment of this program, with their numbers.
    pub fn sites_of(&self, segment: SegmentId) -> impl Iterator<Item = (SiteId, &Site)> {
        let known = &self.segments[segment.0 as usize];
        let range = known.first_site.0..known.first_site.0 + known.sites;
        range.map(|site| (SiteId(site), &self.sites[site as usize].1))
    }
}

/// A segment ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visit {
    /// Which one.
    pub segment: SegmentId,
    /// Index of its first word, the one behind the header.
    pub at: u32,
}

/// What was not understood of the chunks so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Undecoded {
    /// Words that were passed over: no known header, nor behind one.
    pub words: u64,
    /// Places where that happened.
    pub places: u64,
    /// Headers among them that are of no known module.
    pub unknown_headers: u64,
    /// Records at the end of a killed thread's chunk that were not whole.
    pub cut_records: u64,
}

/// Segments that are found without a search.
const CACHED: usize = 1 << 12;

/// Decodes chunks of one run.
#[derive(Debug)]
pub struct Decoder {
    cache: Box<[Cached; CACHED]>,
    undecoded: Undecoded,
}

#[derive(Clone, Copy, Debug)]
struct Cached {
    header: u64,
    words: u32,
    segment: SegmentId,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Has decoded nothing.
    pub fn new() -> Self {
        // No header is 0.
        let empty = Cached { header: 0, words: 0, segment: SegmentId(0) };
        Self { cache: Box::new([empty; CACHED]), undecoded: Undecoded::default() }
    }

    /// What was not understood.
    pub fn undecoded(&self) -> Undecoded {
        self.undecoded
    }

    /// Puts the segments that ran into `visits` (cleared first), in order. Where a chunk is open it ends at the first word of
    /// 0 in a header's place.
    pub fn decode(&mut self, program: &Program, words: &[u64], is_open: bool, visits: &mut Vec<Visit>) {
        visits.clear();
        let mut at = 0;
        let mut is_lost = false;
        while let Some(&word) = words.get(at) {
            let place = (word ^ word >> 24) as usize % CACHED;
            let mut cached = self.cache[place];
            if cached.header != word || word == 0 {
                let Some(&segment) = program.by_header.get(&word) else {
                    if is_open && word == 0 {
                        break;
                    }
                    self.undecoded.words += 1;
                    self.undecoded.places += u64::from(!is_lost);
                    self.undecoded.unknown_headers += u64::from(!is_lost && word & HEADER_MARK != 0);
                    is_lost = true;
                    at += 1;
                    continue;
                };
                cached = Cached { header: word, words: program.segments[segment.0 as usize].words, segment };
                self.cache[place] = cached;
            }
            is_lost = false;
            let end = at + 1 + cached.words as usize;
            if end > words.len() {
                self.undecoded.cut_records += 1;
                break;
            }
            visits.push(Visit { segment: cached.segment, at: at as u32 + 1 });
            at = end;
        }
        if is_open {
            self.drop_unfinished(program, words, visits);
        }
    }

    /// The last record of a thread that was killed may not have all of its words: those that it lacks are 0. No access
    /// is at address 0.
    fn drop_unfinished(&mut self, program: &Program, words: &[u64], visits: &mut Vec<Visit>) {
        let Some(last) = visits.last() else { return };
        let mut at = last.at as usize;
        let is_unfinished = program.sites_of(last.segment).any(|(_, site)| {
            let first = words.get(at).copied().unwrap_or(0);
            at += site.words();
            matches!(site.kind, SiteKind::Load | SiteKind::Store | SiteKind::Update) && first == 0
        });
        if is_unfinished {
            visits.pop();
            self.undecoded.cut_records += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stream::sites::ModuleBuilder;

    /// A module with segments of so many loads each.
    fn program(loads: &[usize]) -> (Program, Vec<u64>) {
        let mut builder = ModuleBuilder::new();
        for &loads in loads {
            builder.segment(vec![Site::new(SiteKind::Load, 8); loads]);
        }
        let module = builder.finish("a.c", "a.o", "/", "test");
        let (id, _) = module.encode();
        let mut program = Program::new();
        program.add(id, module);
        let headers = (0..loads.len() as u32).map(|segment| Header::new(id, segment).word()).collect();
        (program, headers)
    }

    fn decode(program: &Program, words: &[u64], is_open: bool) -> (Vec<(u32, u32)>, Undecoded) {
        let (mut decoder, mut visits) = (Decoder::new(), Vec::new());
        decoder.decode(program, words, is_open, &mut visits);
        (visits.iter().map(|visit| (visit.segment.0, visit.at)).collect(), decoder.undecoded())
    }

    #[test]
    fn records_follow_each_other() {
        let (program, h) = program(&[2, 0, 1]);
        let words = [h[0], 8, 16, h[1], h[2], 24, h[0], 8, 16];
        assert_eq!(decode(&program, &words, false), (vec![(0, 1), (1, 4), (2, 5), (0, 7)], Undecoded::default()));
    }

    #[test]
    fn what_is_not_understood_is_passed_over_and_counted() {
        let (program, h) = program(&[2, 1]);
        let foreign = HEADER_MARK | 5;
        let words = [h[1], 8, foreign, 16, 24, h[1], 8, 3, h[1], 32, h[0], 8];
        let (visits, undecoded) = decode(&program, &words, false);
        assert_eq!(visits, [(1, 1), (1, 6), (1, 9)]);
        assert_eq!(undecoded, Undecoded { words: 4, places: 2, unknown_headers: 1, cut_records: 1 });
    }

    #[test]
    fn an_open_chunk_ends_where_nothing_was_written() {
        let (program, h) = program(&[2, 1]);
        let whole = [h[0], 8, 16, h[1], 24, 0, 0, 0, 0];
        assert_eq!(decode(&program, &whole, true), (vec![(0, 1), (1, 4)], Undecoded::default()));
        let half = [h[1], 24, h[0], 8, 0, 0, 0, 0];
        let cut = Undecoded { cut_records: 1, ..Undecoded::default() };
        assert_eq!(decode(&program, &half, true), (vec![(1, 1)], cut));
        assert_eq!(decode(&program, &[0; 9], true), (vec![], Undecoded::default()));
    }

    #[test]
    fn a_module_is_known_once_and_its_sites_have_numbers_of_their_own() {
        let (mut known, _) = program(&[2, 1]);
        let (other, _) = program(&[3]);
        let (id, module) = other.modules()[0].clone();
        known.add(id, module.clone());
        known.add(id, module);
        assert_eq!((known.modules().len(), known.segments().len(), known.site_count()), (2, 3, 6));
        let sites: Vec<u32> = known.sites_of(SegmentId(2)).map(|(site, _)| site.0).collect();
        assert_eq!(sites, [3, 4, 5]);
    }

    proptest! {
        /// Whatever the words are: no panic, and each word is accounted for.
        #[test]
        fn any_words_are_survived(words in proptest::collection::vec(prop_oneof![any::<u64>(), 0..4_u64], 0..200), open: bool) {
            let (program, headers) = program(&[2, 0, 1, 7]);
            let words: Vec<u64> = words.iter().map(|&w| if w < 4 { headers[w as usize] } else { w }).collect();
            let (visits, undecoded) = decode(&program, &words, open);
            let decoded: u64 = visits.iter().map(|(s, _)| 1 + u64::from(program.segments()[*s as usize].words)).sum();
            prop_assert!(decoded + undecoded.words <= words.len() as u64);
            if !open && undecoded.cut_records == 0 {
                prop_assert_eq!(decoded + undecoded.words, words.len() as u64);
            }
        }
    }
}
