//! From a chunk's words to the segments that ran.
//!
//! A record's header says how long it is, so the next one can be read only once it was looked up. Where words tell by themselves which
//! of them are headers they need not wait for each other ([`marks`]); else records are walked through. Headers are looked up in a
//! direct-mapped table of the segments that ran last: hot code has few. What comes out are positions only ([`Visits`]), a batch a chunk; whoever needs the addresses takes them from the words,
//! by the segment's sites.

mod marks;
mod tallies;

use std::collections::HashMap;
use std::ops::{Add, Deref};
use std::sync::Arc;

pub use self::tallies::Tallies;
use super::record::{ADDRESSES_END, HEADER_MARK, Header, ModuleId, NO_STAMP};
use super::sites::{LoadedAddress, Module, Site, SiteKind};

/// A segment of any module that is known, by a number of our own, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentId(pub u32);

/// A site of any module, likewise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SiteId(pub u32);

/// A segment as a decoder needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownSegment {
    /// Its header.
    pub header: u64,
    /// Words behind the header.
    pub words: u32,
    /// Index in [`Program::modules`].
    pub module: u32,
    /// Its first word is a time stamp.
    pub is_stamped: bool,
    /// The one whose record its own goes on from.
    pub continues: Option<SegmentId>,
    /// Another one continues it: its record may become that one's.
    pub may_go_on: bool,
    /// Where in [`Program::told`] its sites are.
    first_told: u32,
    sites: u32,
}

impl SiteId {
    /// What stands for the loads of this site: of copies that tell what they load another one, which no segment has.
    pub fn of_loads(self, site: &Site) -> Self {
        if site.source.is_some() { Self(self.0 + 1) } else { self }
    }
}

/// A site of a segment or of what that continues, and where in a record it is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Which one.
    pub site: SiteId,
    /// Which of the record's words is its first one; of one without a word of its own, the one that its address is told by.
    pub word: u32,
    /// From the address in that word to its own, where it has no word.
    pub distance: Option<i32>,
}

impl Told {
    /// Its address, of one that is told by the word that it has or by another one.
    #[inline]
    pub fn address(self, word: u64) -> u64 {
        word.wrapping_add_signed(self.distance.unwrap_or(0).into())
    }
}

/// What one visit tells of a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Own<'a> {
    /// Its words.
    Words(&'a [u64]),
    /// Its address, which it has no word for.
    Address([u64; 1]),
}

impl Deref for Own<'_> {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match self {
            Self::Words(words) => words,
            Self::Address(address) => address,
        }
    }
}

/// All site tables of a run.
#[derive(Clone, Debug, Default)]
pub struct Program {
    modules: Vec<(ModuleId, Arc<Module>)>,
    segments: Vec<KnownSegment>,
    /// All sites, each with its module.
    sites: Vec<(u32, Site)>,
    /// Those of each segment and of what it continues, in the order of the program.
    told: Vec<Told>,
    addresses: Vec<KnownAddress>,
    bodies: Vec<KnownBody>,
    /// By site: which of these it is in.
    body_of: Vec<Option<u32>>,
    by_header: HashMap<u64, SegmentId>,
}

/// What is known of the address of a load, and of what it loads: a [`LoadedAddress`](super::sites::LoadedAddress) of any module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownAddress {
    /// The load.
    pub site: SiteId,
    /// Loads that its address is computed of.
    pub loads: Vec<SiteId>,
    /// One of these was loaded in a step before.
    pub is_carried: bool,
    /// It loads a pointer that goes on to where its way is not followed.
    pub leads_on: bool,
    /// Instructions that compute the address of these.
    pub instructions: u32,
}

/// A [`Body`](super::sites::Body) of any module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownBody {
    /// How many instructions it has.
    pub instructions: u32,
    /// Loads and stores among them.
    pub sites: Vec<SiteId>,
    /// Index in [`Program::bodies`] of the next one around it.
    pub around: Option<usize>,
    /// It is a loop's.
    pub is_loop: bool,
}

impl Program {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a module, or a part of one, unless it is there.
    pub fn add(&mut self, id: ModuleId, module: impl Into<Arc<Module>>) {
        let module = module.into();
        if self.has(id, &module) {
            return;
        }
        let index = self.modules.len() as u32;
        let first_segment = self.segments.len();
        let mut numbers = Vec::with_capacity(module.sites.len());
        for (number, segment) in (0..).zip(&module.segments) {
            let sites = module.sites_of(number);
            let header = Header::new(id, module.first_segment + number).word();
            let first_told = self.told.len();
            let mut word = 0;
            if let Some(before) = segment.continues {
                let before = &mut self.segments[first_segment + before as usize];
                before.may_go_on = true;
                word = before.words;
                let told = before.first_told as usize..(before.first_told + before.sites) as usize;
                self.told.extend_from_within(told);
            }
            for site in sites {
                let of = SiteId(self.sites.len() as u32);
                numbers.push(of);
                self.told.push(match site.relative {
                    None => Told { site: of, word, distance: None },
                    Some(relative) => Told { site: of, word: relative.word, distance: Some(relative.bytes) },
                });
                self.sites.push((index, *site));
                if site.source.is_some() {
                    self.sites.push((index, site.of_source()));
                }
                word += site.words() as u32;
            }
            let known = KnownSegment {
                header,
                words: segment.words,
                module: index,
                is_stamped: self.told.get(first_told).is_some_and(|told| self.is_stamp(told.site)),
                continues: segment.continues.map(|before| SegmentId(first_segment as u32 + before)),
                may_go_on: false,
                first_told: first_told as u32,
                sites: (self.told.len() - first_told) as u32,
            };
            self.by_header.insert(header, SegmentId(self.segments.len() as u32));
            self.segments.push(known);
        }
        let number = |site: &u32| numbers.get(*site as usize).copied();
        self.addresses.extend(module.addresses.iter().filter_map(|address| {
            let loads = address.loads.iter().map(number).collect::<Option<_>>()?;
            let LoadedAddress { is_carried, leads_on, instructions, .. } = *address;
            Some(KnownAddress { site: number(&address.site)?, loads, is_carried, leads_on, instructions })
        }));
        let before = self.bodies.len();
        self.body_of.resize(self.sites.len(), None);
        for body in &module.bodies {
            let sites: Vec<SiteId> = body.sites.iter().filter_map(number).collect();
            sites.iter().for_each(|site| self.body_of[site.0 as usize] = Some(self.bodies.len() as u32));
            let around = body.around.map(|around| before + around as usize);
            self.bodies.push(KnownBody { instructions: body.instructions, sites, around, is_loop: body.is_loop });
        }
        self.modules.push((id, module));
    }

    /// Whether this module, or this part of it, was added.
    pub fn has(&self, id: ModuleId, module: &Module) -> bool {
        self.modules.iter().any(|(known, part)| *known == id && part.first_segment == module.first_segment)
    }

    fn is_stamp(&self, site: SiteId) -> bool {
        self.sites[site.0 as usize].1.kind == SiteKind::Acquire
    }

    /// The modules, and parts of such, in the order in which they were added.
    pub fn modules(&self) -> &[(ModuleId, Arc<Module>)] {
        &self.modules
    }

    /// All segments, by [`SegmentId`].
    pub fn segments(&self) -> &[KnownSegment] {
        &self.segments
    }

    /// What is known of addresses of loads, in no order.
    pub fn addresses(&self) -> &[KnownAddress] {
        &self.addresses
    }

    /// What loops and functions are made of: a load or store is in one of them at most.
    pub fn bodies(&self) -> &[KnownBody] {
        &self.bodies
    }

    /// Index in [`Self::bodies`] of the one that a load or store is in, where that is known.
    pub fn body_of(&self, site: SiteId) -> Option<usize> {
        self.body_of.get(site.0 as usize).copied().flatten().map(|body| body as usize)
    }

    /// How many instructions there are for each load and store of the loop that one of them is in, where that is known: a function may have many on ways that
    /// are hardly gone.
    pub fn instructions_per_access(&self, site: SiteId) -> Option<f64> {
        let body = Some(&self.bodies[self.body_of(site)?]).filter(|body| body.is_loop)?;
        Some(f64::from(body.instructions) / body.sites.len() as f64)
    }

    /// The segment with this header.
    pub fn segment_of(&self, header: u64) -> Option<SegmentId> {
        self.by_header.get(&header).copied()
    }

    /// Index behind the words of the last of a chunk's visits; 0 where there are none.
    pub fn records_end(&self, visits: &[Visits]) -> usize {
        visits.last().map_or(0, |last| last.end(self.segments[last.segment.0 as usize].words))
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

    /// Index in [`Self::modules`] of a site's module. It must be one of this program.
    pub fn module_index(&self, id: SiteId) -> u32 {
        self.sites[id.0 as usize].0
    }

    /// The sites of a segment of this program and of what it continues, each with what one visit tells of it; those that lack any words
    /// are left out.
    pub fn sites_with_words<'a>(
        &'a self,
        segment: SegmentId,
        words: &'a [u64],
    ) -> impl Iterator<Item = (SiteId, &'a Site, Own<'a>)> {
        self.sites_of(segment).filter_map(move |(told, site)| {
            let first = told.word as usize;
            let own = match told.distance {
                None => Own::Words(words.get(first..first + site.words())?),
                Some(_) => Own::Address([told.address(*words.get(first)?)]),
            };
            Some((told.site, site, own))
        })
    }

    /// The sites of a segment of this program and of what it continues, and where its record tells of each.
    pub fn sites_of(&self, segment: SegmentId) -> impl Iterator<Item = (Told, &Site)> {
        let known = &self.segments[segment.0 as usize];
        let told = &self.told[known.first_told as usize..(known.first_told + known.sites) as usize];
        told.iter().map(|told| (*told, &self.sites[told.site.0 as usize].1))
    }
}

/// A segment ran, so many times one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visits {
    /// Which one.
    pub segment: SegmentId,
    /// Index of the first visit's first word, the one behind the header.
    pub at: u32,
    /// How often, at least once.
    pub times: u32,
}

impl Visits {
    /// Index of each visit's first word, of a segment with so many words.
    pub fn places(self, words: u32) -> impl Iterator<Item = usize> + Clone {
        (0..self.times as usize).map(move |visit| self.at as usize + visit * (1 + words as usize))
    }

    /// Index behind the last visit's words.
    pub fn end(self, words: u32) -> usize {
        self.at as usize + self.times as usize * (1 + words as usize) - 1
    }
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

impl Add for Undecoded {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            words: self.words + other.words,
            places: self.places + other.places,
            unknown_headers: self.unknown_headers + other.unknown_headers,
            cut_records: self.cut_records + other.cut_records,
        }
    }
}

/// Where decoding ends, if not at the words' end: at what stands in a header's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Until {
    End,
    Zero,
    /// Zero or anything else that no known header is.
    Stranger,
}

/// Chunks that are walked through where one had words that look like headers and are none.
const WALKS: u32 = 64;
/// Segments that are found without a search.
const CACHED: usize = 1 << 12;

/// Decodes chunks of one run.
#[derive(Debug)]
pub struct Decoder {
    cache: Box<[Cached; CACHED]>,
    undecoded: Undecoded,
    /// Chunks that are walked through without a try at their marks.
    walks: u32,
    /// Chunks that are decoded without a try to count only.
    decodes: u32,
}

#[derive(Clone, Copy, Debug)]
struct Cached {
    header: u64,
    /// Words of the record, the header counted.
    length: u32,
    segment: SegmentId,
}

fn place_of(header: u64) -> usize {
    (header ^ header >> 24) as usize % CACHED
}

/// Adds a visit whose header is there.
#[inline(always)]
fn push(visits: &mut Vec<Visits>, segment: SegmentId, at: u32) {
    match visits.last_mut() {
        Some(visits) if visits.segment == segment => visits.times += 1,
        _ => visits.push(Visits { segment, at: at + 1, times: 1 }),
    }
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
        let empty = Cached { header: 0, length: 0, segment: SegmentId(0) };
        Self { cache: Box::new([empty; CACHED]), undecoded: Undecoded::default(), walks: 0, decodes: 0 }
    }

    /// What was not understood.
    pub fn undecoded(&self) -> Undecoded {
        self.undecoded
    }

    /// Decodes the words that there are of a chunk whose thread goes on writing, up to the last record that is certainly
    /// whole, before the first one with a time stamp after `now`, and before what is not understood, which counts as that only
    /// once the thread is done with it. Gives the time up to which that is all: `now`, or when the record began that is left out.
    pub fn decode_growing(&mut self, program: &Program, words: &[u64], now: u64, visits: &mut Vec<Visits>) -> u64 {
        let before = self.undecoded;
        self.decode_up_to(Until::Stranger, program, words, visits);
        self.undecoded = before;
        let left_out = drop_doubtful(program, words, visits);
        drop_later(program, words, now, visits);
        left_out.map_or(now, |stamp| stamp.min(now))
    }

    /// Puts the segments that ran into `visits` (cleared first), in order. Where a chunk is open it ends at the first word of
    /// 0 in a header's place. Whether it came out that all words but headers are below [`ADDRESSES_END`].
    pub fn decode(&mut self, program: &Program, words: &[u64], is_open: bool, visits: &mut Vec<Visits>) -> bool {
        if is_open {
            self.decode_up_to(Until::Zero, program, words, visits);
            self.drop_unfinished(program, words, visits);
            return false;
        }
        self.walks = self.walks.saturating_sub(1);
        if self.walks == 0 {
            visits.clear();
            if let Some(highest) = self.by_marks(program, words, |segment, at| push(visits, segment, at)) {
                return highest < ADDRESSES_END;
            }
            // A program that has such words once mostly has them always.
            self.walks = WALKS;
        }
        self.decode_up_to(Until::End, program, words, visits);
        false
    }

    /// As [`Self::decode`], but visits of segments of which no more is asked are only counted, where all words are records and those that are no headers
    /// below [`ADDRESSES_END`]. Whether they are: where they are not, all visits are there, and nothing is counted.
    pub fn tally(
        &mut self,
        program: &Program,
        words: &[u64],
        is_open: bool,
        visits: &mut Vec<Visits>,
        tallies: &mut Tallies,
    ) -> bool {
        tallies.clear();
        self.decodes = self.decodes.saturating_sub(1);
        if !is_open && self.walks == 0 && self.decodes == 0 {
            visits.clear();
            let highest = self.by_marks(program, words, |segment, at| {
                // What else ran in between is not seen here, so visits don't come together.
                if !tallies.count(segment) {
                    visits.push(Visits { segment, at: at + 1, times: 1 });
                }
            });
            if highest.is_some_and(|highest| highest < ADDRESSES_END) {
                return true;
            }
            tallies.clear();
            // As where it takes walks.
            self.decodes = WALKS;
        }
        self.decode(program, words, is_open, visits)
    }

    /// The segment with this header; none where it is no header that is known.
    #[inline]
    fn known(&mut self, program: &Program, word: u64) -> Option<Cached> {
        let cached = self.cache[place_of(word)];
        if cached.header == word && word != 0 { Some(cached) } else { self.search(program, word) }
    }

    #[cold]
    fn search(&mut self, program: &Program, word: u64) -> Option<Cached> {
        let segment = *program.by_header.get(&word)?;
        let length = program.segments[segment.0 as usize].words + 1;
        let found = Cached { header: word, length, segment };
        self.cache[place_of(word)] = found;
        Some(found)
    }

    fn decode_up_to(&mut self, until: Until, program: &Program, words: &[u64], visits: &mut Vec<Visits>) {
        visits.clear();
        let mut at = 0;
        let mut is_lost = false;
        while let Some(&word) = words.get(at) {
            let Some(cached) = self.known(program, word) else {
                if until == Until::Stranger || until == Until::Zero && word == 0 {
                    break;
                }
                self.undecoded.words += 1;
                self.undecoded.places += u64::from(!is_lost);
                self.undecoded.unknown_headers += u64::from(!is_lost && word & HEADER_MARK != 0);
                is_lost = true;
                at += 1;
                continue;
            };
            is_lost = false;
            let length = cached.length as usize;
            let first = at;
            let mut times = 1;
            at += length;
            while words.get(at) == Some(&word) {
                times += 1;
                at += length;
            }
            let is_cut = at > words.len();
            times -= u32::from(is_cut);
            if times > 0 {
                visits.push(Visits { segment: cached.segment, at: first as u32 + 1, times });
            }
            if is_cut {
                self.undecoded.cut_records += 1;
                break;
            }
        }
    }

    /// The last record of a thread that was killed may not have all of its words: those that it lacks are 0. No access
    /// is at address 0. What it goes on from is whole.
    fn drop_unfinished(&mut self, program: &Program, words: &[u64], visits: &mut Vec<Visits>) {
        let Some(last) = visits.last_mut() else { return };
        let length = program.segments[last.segment.0 as usize].words;
        let first = last.end(length) - length as usize;
        let is_unfinished = |segment: &SegmentId| {
            program.sites_of(*segment).any(|(told, site)| {
                site.kind.is_plain() && words.get(first + told.word as usize).is_none_or(|word| *word == 0)
            })
        };
        if !is_unfinished(&last.segment) {
            return;
        }
        let before = |segment: &SegmentId| program.segments[segment.0 as usize].continues;
        let whole = std::iter::successors(before(&last.segment), before).find(|segment| !is_unfinished(segment));
        last.times -= 1;
        visits.pop_if(|last| last.times == 0);
        visits.extend(whole.map(|segment| Visits { segment, at: first as u32, times: 1 }));
        self.undecoded.cut_records += 1;
    }
}

/// Leaves out the last record, unless none of its words is 0 and nothing continues it: its thread may not have written all of it.
/// Its time stamp, if it has one.
fn drop_doubtful(program: &Program, words: &[u64], visits: &mut Vec<Visits>) -> Option<u64> {
    let end = program.records_end(visits);
    let last = visits.last_mut()?;
    let &KnownSegment { words: length, may_go_on, is_stamped, .. } = &program.segments[last.segment.0 as usize];
    let own = &words[end - length as usize..end];
    if !may_go_on && !own.contains(&0) {
        return None;
    }
    last.times -= 1;
    visits.pop_if(|last| last.times == 0);
    own.first().copied().filter(|stamp| is_stamped && *stamp > NO_STAMP)
}

/// Leaves out what has a time stamp after `now`, and all that follows it.
fn drop_later(program: &Program, words: &[u64], now: u64, visits: &mut Vec<Visits>) {
    let later = visits.iter().enumerate().find_map(|(index, run)| {
        let known = &program.segments[run.segment.0 as usize];
        let mut stamps = run.places(known.words).map(|at| words[at]);
        let times = if known.is_stamped { stamps.position(|stamp| stamp > now)? } else { return None };
        Some((index, times as u32))
    });
    if let Some((index, times)) = later {
        visits.truncate(index + 1);
        visits[index].times = times;
        visits.pop_if(|last| last.times == 0);
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use proptest::prelude::*;

    use super::*;
    use crate::stream::sites::{Body, ModuleBuilder, Relative};

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

    #[test]
    fn loops_tell_how_many_instructions_go_with_an_access() {
        let module = |builder: &mut ModuleBuilder| {
            builder.segment(vec![Site::new(SiteKind::Load, 8); 4]);
            builder.bodies(vec![
                Body { instructions: 7, sites: vec![2], around: None, is_loop: false },
                Body { instructions: 30, sites: vec![0, 1], around: Some(0), is_loop: true },
            ]);
        };
        let mut program = Program::new();
        // The second one's sites and bodies come behind the first one's.
        for name in ["a.c", "b.c"] {
            let mut builder = ModuleBuilder::new();
            module(&mut builder);
            let module = builder.finish(name, name, "/", "test");
            program.add(module.encode().0, module);
        }
        let of = |site| (program.body_of(SiteId(site)), program.instructions_per_access(SiteId(site)));
        let loops = [(Some(1), Some(15.0)), (Some(1), Some(15.0)), (Some(0), None), (None, None)];
        assert_eq!([0, 1, 2, 3].map(of), loops);
        let behind = loops.map(|(body, instructions)| (body.map(|body| body + 2), instructions));
        assert_eq!([4, 5, 6, 7].map(of), behind);
        assert_eq!(program.bodies()[3].around, Some(2));
    }

    fn decode(program: &Program, words: &[u64], is_open: bool) -> (Vec<(u32, u32)>, Undecoded) {
        let mut decoder = Decoder::new();
        let visits = decode_with(&mut decoder, program, words, is_open);
        (visits, decoder.undecoded())
    }

    fn decode_with(decoder: &mut Decoder, program: &Program, words: &[u64], is_open: bool) -> Vec<(u32, u32)> {
        let mut visits = Vec::new();
        decoder.decode(program, words, is_open, &mut visits);
        places(program, &visits)
    }

    /// Each visit by itself.
    fn places(program: &Program, visits: &[Visits]) -> Vec<(u32, u32)> {
        let words_of = |visits: &Visits| program.segments()[visits.segment.0 as usize].words;
        let each = |visits: &Visits| {
            let segment = visits.segment.0;
            visits.places(words_of(visits)).map(move |at| (segment, at as u32)).collect::<Vec<_>>()
        };
        visits.iter().flat_map(each).collect()
    }

    /// One header after the other, each looked up.
    fn decode_slowly(program: &Program, words: &[u64], is_open: bool) -> (Vec<(u32, u32)>, Undecoded) {
        let (mut visits, mut undecoded) = (Vec::new(), Undecoded::default());
        let (mut at, mut is_lost) = (0, false);
        while at < words.len() && !(is_open && words[at] == 0) {
            let Some(segment) = program.segments().iter().position(|segment| segment.header == words[at]) else {
                undecoded.words += 1;
                undecoded.places += u64::from(!is_lost);
                undecoded.unknown_headers += u64::from(!is_lost && words[at] >= HEADER_MARK);
                is_lost = true;
                at += 1;
                continue;
            };
            is_lost = false;
            let end = at + 1 + program.segments()[segment].words as usize;
            if end > words.len() {
                undecoded.cut_records += 1;
                break;
            }
            visits.push((segment as u32, at as u32 + 1));
            at = end;
        }
        // All words of the tests' segments are addresses of loads.
        if let Some(&(segment, at)) = visits.last().filter(|_| is_open) {
            let length = program.segments()[segment as usize].words;
            if words[at as usize..(at + length) as usize].contains(&0) {
                visits.pop();
                undecoded.cut_records += 1;
            }
        }
        (visits, undecoded)
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
        let sites: Vec<u32> = known.sites_of(SegmentId(2)).map(|(told, _)| told.site.0).collect();
        assert_eq!(sites, [3, 4, 5]);
    }

    /// Segment 0: a load and one 8 bytes before it; 1 continues it with a fill, 2 that one with a load 4 bytes behind the fill.
    fn path() -> (Program, Vec<u64>) {
        let relative = |word, bytes| Site { relative: Some(Relative { word, bytes }), ..Site::new(SiteKind::Load, 4) };
        let mut builder = ModuleBuilder::new();
        builder.segment([Site::new(SiteKind::Load, 8), relative(0, -8)]);
        builder.segment_behind(Some(0), [Site::new(SiteKind::Fill, 0)]);
        builder.segment_behind(Some(1), [relative(1, 4)]);
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let headers = program.segments().iter().map(|segment| segment.header).collect();
        (program, headers)
    }

    #[test]
    fn a_record_tells_all_that_it_continues() {
        let (program, h) = path();
        assert_eq!(decode(&program, &[h[0], 16, h[2], 24, 32, 5, h[1], 40, 48, 0], false).0, [(0, 1), (2, 3), (1, 7)]);
        let told = |segment, words: &[u64]| -> Vec<(u32, Vec<u64>)> {
            let sites = program.sites_with_words(SegmentId(segment), words);
            sites.map(|(site, _, own)| (site.0, own.to_vec())).collect()
        };
        assert_eq!(told(0, &[16]), [(0, vec![16]), (1, vec![8])]);
        assert_eq!(told(2, &[24, 32, 5]), [(0, vec![24]), (1, vec![16]), (2, vec![32, 5]), (3, vec![36])]);
        assert_eq!(told(2, &[4]), [(0, vec![4]), (1, vec![u64::MAX - 3])], "what it lacks is left out");
    }

    #[test]
    fn of_a_record_that_was_cut_what_it_goes_on_from_is_whole() {
        let mut builder = ModuleBuilder::new();
        let load = Site::new(SiteKind::Load, 8);
        builder.segment([load]);
        builder.segment_behind(Some(0), [load]);
        builder.segment_behind(Some(1), [load, load]);
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let h: Vec<_> = program.segments().iter().map(|segment| segment.header).collect();
        let cut = Undecoded { cut_records: 1, ..Undecoded::default() };
        for (last, expected) in [([8, 16, 24, 0], (1, 6)), ([8, 0, 0, 0], (0, 6))] {
            let words = [&[h[2], 8, 16, 24, 32, h[2]], &last[..], &[0, 0]].concat();
            assert_eq!(decode(&program, &words, true), (vec![(2, 1), expected], cut), "{last:?}");
        }
        assert_eq!(decode(&program, &[h[0], 8, h[2], 0, 0, 0, 0], true), (vec![(0, 1)], cut));
    }

    #[test]
    fn a_stamped_record_that_is_left_out_limits_what_is_told() {
        let mut builder = ModuleBuilder::new();
        builder.segment([Site::new(SiteKind::Acquire, 0), Site::new(SiteKind::Load, 8)]);
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let header = program.segments()[0].header;
        let mut visits = Vec::new();
        let mut told = |words: &[u64]| Decoder::new().decode_growing(&program, words, 20, &mut visits);
        assert_eq!(
            [told(&[header, 5, 8]), told(&[header, 5, 0]), told(&[header, 25, 0]), told(&[header, 0, 0])],
            [20, 5, 20, 20]
        );
    }

    #[test]
    fn of_a_chunk_that_grows_no_record_is_taken_that_may_go_on() {
        let (program, h) = path();
        for (words, expected) in [
            (vec![h[0], 16, 0, 0], vec![]),
            // The next word is there, the header not yet.
            (vec![h[0], 16, 24, 32, 0], vec![]),
            (vec![h[0], 16, h[1], 24, 32, 8, 0], vec![(0, 1)]),
            (vec![h[0], 16, h[2], 24, 32, 8, 0], vec![(0, 1), (2, 1)]),
        ] {
            assert_eq!(decode_growing(&program, &words), (expected, Undecoded::default()), "{words:?}");
        }
    }

    fn decode_growing(program: &Program, words: &[u64]) -> (Vec<(u32, u32)>, Undecoded) {
        let (mut decoder, mut visits) = (Decoder::new(), Vec::new());
        decoder.decode_growing(program, words, 20, &mut visits);
        (visits.iter().map(|visits| (visits.segment.0, visits.times)).collect(), decoder.undecoded())
    }

    #[test]
    fn of_a_chunk_that_grows_whole_records_are_taken() {
        let (program, h) = program(&[2, 1]);
        let none = Undecoded::default();
        for (words, expected) in [
            (vec![h[1], 24, h[1], 32, h[0], 8, 0, 0], vec![(1, 2)]),
            (vec![h[1], 24, h[1], 0], vec![(1, 1)]),
            (vec![h[1], 24, h[1]], vec![(1, 1)]),
            (vec![h[0], 8, 16, 0], vec![(0, 1)]),
            (vec![h[0], 8, 0, h[1], 0, 0], vec![(0, 1)]),
            (vec![h[1], 0], vec![]),
            (vec![0], vec![]),
        ] {
            assert_eq!(decode_growing(&program, &words), (expected, none), "{words:?}");
        }
        // What is no record may be part of one.
        assert_eq!(decode_growing(&program, &[h[1], 8, 5, h[1], 9]), (vec![(1, 1)], none));
        assert_eq!(decode_growing(&program, &[h[1], 8, 5, 0, 0]), (vec![(1, 1)], none));
    }

    #[test]
    fn of_a_chunk_that_grows_nothing_is_taken_that_is_later() {
        let mut builder = ModuleBuilder::new();
        builder.segment([Site::new(SiteKind::Acquire, 0)]);
        builder.segment([Site::new(SiteKind::Load, 8)]);
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let [stamp, load] = [0, 1].map(|segment: usize| program.segments()[segment].header);
        let none = Undecoded::default();
        for (words, expected) in [
            (vec![load, 8, stamp, 20, load, 99, load, 8], vec![(1, 1), (0, 1), (1, 2)]),
            (vec![load, 8, stamp, 19, stamp, 20, stamp, 21, stamp, 22, load, 8], vec![(1, 1), (0, 2)]),
            (vec![load, 8, stamp, 21, 5, 5, load, 8], vec![(1, 1)]),
        ] {
            assert_eq!(decode_growing(&program, &words), (expected, none), "{words:?}");
        }
    }

    fn any_words() -> impl Strategy<Value = Vec<u64>> {
        // Headers of the four segments as small numbers, other words as they are.
        proptest::collection::vec(prop_oneof![1 => any::<u64>(), 6 => 0..4_u64, 1 => Just(4)], 0..200)
    }

    /// As [`any_words`] has them; 4 is a zero.
    fn with_headers(words: &[u64], headers: &[u64]) -> Vec<u64> {
        words.iter().map(|&w| if w < 4 { headers[w as usize] } else { w - 4 }).collect()
    }

    proptest! {
        /// Whatever the words are: no panic, and each word is accounted for.
        #[test]
        fn any_words_are_survived(words in any_words(), open: bool) {
            let (program, headers) = program(&[2, 0, 1, 7]);
            let words = with_headers(&words, &headers);
            let (visits, undecoded) = decode(&program, &words, open);
            let decoded: u64 = visits.iter().map(|(s, _)| 1 + u64::from(program.segments()[*s as usize].words)).sum();
            prop_assert!(decoded + undecoded.words <= words.len() as u64);
            if !open && undecoded.cut_records == 0 {
                prop_assert_eq!(decoded + undecoded.words, words.len() as u64);
            }
        }

        /// What is counted and what is asked for is all that there is, and where it is what it was.
        #[test]
        fn tallies_and_what_is_asked_for_are_all(
            chunks in proptest::collection::vec(proptest::collection::vec((0..4_usize, 0..1_u64 << 48), 0..400), 1..4),
            is_asked: [bool; 4],
            left_out in proptest::option::of(prop_oneof![Just(HEADER_MARK | 1), Just(ADDRESSES_END)]),
        ) {
            let (program, headers) = program(&[2, 0, 1, 3]);
            let (mut decoder, mut tallies, mut visits) = (Decoder::new(), Tallies::default(), Vec::new());
            tallies.ask(is_asked.into_iter());
            for chunk in chunks {
                let record = |(segment, word): (usize, u64)| {
                    let own = u64::from(program.segments()[segment].words);
                    iter::once(headers[segment]).chain((0..own).map(move |number| word + number))
                };
                let mut words: Vec<u64> = chunk.into_iter().flat_map(record).collect();
                // No header, or no address.
                words.extend(left_out.into_iter().flat_map(|word| [headers[2], word]));
                let all = decode_with(&mut Decoder::new(), &program, &words, false);
                prop_assert_eq!(decoder.tally(&program, &words, false, &mut visits, &mut tallies), left_out.is_none());
                let counted: Vec<(u32, u32)> = tallies.iter().map(|(segment, times)| (segment.0, times)).collect();
                if left_out.is_some() {
                    prop_assert_eq!(counted, []);
                    prop_assert_eq!(places(&program, &visits), all);
                    continue;
                }
                let (asked, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(segment, _)| is_asked[*segment as usize]);
                let visits: Vec<_> = visits.iter().map(|visits| (visits.segment.0, visits.at, visits.times)).collect();
                prop_assert_eq!(visits, asked.into_iter().map(|(segment, at)| (segment, at, 1)).collect::<Vec<_>>());
                let mut expected: Vec<(u32, u32)> = Vec::new();
                for (segment, _) in others {
                    match expected.iter_mut().find(|(known, _)| *known == segment) {
                        Some((_, times)) => *times += 1,
                        None => expected.push((segment, 1)),
                    }
                }
                prop_assert_eq!(counted, expected);
            }
        }

        /// What was guessed of earlier chunks changes nothing.
        #[test]
        fn as_if_each_header_were_looked_up(chunks in proptest::collection::vec((any_words(), any::<bool>()), 1..4)) {
            let (program, headers) = program(&[2, 0, 1, 3]);
            let mut decoder = Decoder::new();
            let mut expected = Undecoded::default();
            for (words, open) in chunks {
                let words = with_headers(&words, &headers);
                let (visits, undecoded) = decode_slowly(&program, &words, open);
                prop_assert_eq!(decode_with(&mut decoder, &program, &words, open), visits);
                expected.words += undecoded.words;
                expected.places += undecoded.places;
                expected.unknown_headers += undecoded.unknown_headers;
                expected.cut_records += undecoded.cut_records;
                prop_assert_eq!(decoder.undecoded(), expected);
            }
        }
    }
}
