//! In which region of the program a thread is, and which memory is watched, as the stream tells: parts of a batch in between.

use rustc_hash::FxHashMap;
use slimline_simulate::access::Access;
use slimline_trace::stream::decode::{Program, SegmentId};
use slimline_trace::stream::record::{Header, REGION, UNWATCH, WATCH};

use super::TraceBatch;
use super::attributed::own_address;

/// A range of memory that accesses are told by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeSource {
    /// Asked for, by its place among those.
    Asked(u32),
    /// Watched by the program.
    Watched {
        /// Number of the process in the trace.
        process: u32,
        /// That the process has given it.
        number: u32,
    },
}

/// Memory that accesses are told by, and as long as there are any who they are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// Whose it is.
    pub source: RangeSource,
    /// First byte.
    pub start: u64,
    /// How many.
    pub bytes: u64,
}

/// Where threads are, and what is watched.
#[derive(Debug, Default)]
pub(super) struct Regions {
    told: [Option<SegmentId>; 3],
    /// Segments that were looked through for these.
    known_segments: usize,
    /// By process and stream.
    paths: FxHashMap<(u32, u32), u32>,
    /// Numbers of those who are told apart: thread and path.
    actors: FxHashMap<(u32, u32), u32>,
    /// By number.
    all: Vec<(u32, u32)>,
    ranges: Ranges,
}

impl Regions {
    /// Also tells accesses to these ranges, in whatever process, and to those that the program watches from others.
    pub(super) fn with_ranges(asked: &[(u64, u64)]) -> Self {
        Self { ranges: Ranges::asked(asked), ..Self::default() }
    }

    /// Goes through a batch part by part: `each` gets what there is from one change to the next.
    pub(super) fn parts<'b>(
        &mut self,
        program: &Program,
        batch: &TraceBatch<'b>,
        mut each: impl FnMut(&mut Self, &TraceBatch<'b>),
    ) {
        self.look_for(program);
        let process = batch.process;
        let mut from = 0;
        for (at, visits) in batch.visits.iter().enumerate() {
            let Some(kind) = self.told.iter().position(|told| *told == Some(visits.segment)) else { continue };
            each(self, &TraceBatch { visits: &batch.visits[from..at], ..*batch });
            from = at + 1;
            let words = program.segments()[visits.segment.0 as usize].words;
            for words in batch.words_of_each(*visits, words) {
                match (kind, words) {
                    (0, &[path]) => drop(self.paths.insert((process, batch.stream), path as u32)),
                    (1, &[start, bytes, number]) => {
                        let source = RangeSource::Watched { process, number: number as u32 };
                        self.ranges.begin(process, MemoryRange { source, start, bytes });
                    }
                    (2, &[number]) => self.ranges.end(process, number as u32),
                    _ => {}
                }
            }
        }
        each(self, &TraceBatch { visits: &batch.visits[from..], ..*batch });
    }

    fn look_for(&mut self, program: &Program) {
        if self.known_segments < program.segments().len() {
            self.known_segments = program.segments().len();
            self.told = [REGION, WATCH, UNWATCH].map(|header: Header| program.segment_of(header.word()));
        }
    }

    /// The number of who runs a batch's code: the thread, where it is now.
    pub(super) fn actor(&mut self, thread: u32, batch: &TraceBatch<'_>) -> u32 {
        let path = self.paths.get(&(batch.process, batch.stream)).copied().unwrap_or(0);
        *self.actors.entry((thread, path)).or_insert_with(|| {
            self.all.push((thread, path));
            self.all.len() as u32 - 1
        })
    }

    /// Thread and path of a number.
    pub(super) fn of_actor(&self, actor: u32) -> (u32, u32) {
        self.all.get(actor as usize).copied().unwrap_or_default()
    }

    /// Ranges by which accesses are told.
    pub(super) fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// The same, to tell accesses.
    pub(super) fn ranges_mut(&mut self) -> &mut Ranges {
        &mut self.ranges
    }
}

/// Which ranges an access is in, by the number of that set; [`NOWHERE`] in none.
type SetId = u32;
const NOWHERE: SetId = 0;

/// Ranges, which may lie over each other, and keys of accesses by which of them those are in.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Whether accesses are told by them at all.
    is_asked: bool,
    /// All that there ever were.
    ranges: Vec<MemoryRange>,
    /// Those of all processes, and those of each that are watched now: numbers in `ranges`.
    asked: Vec<u32>,
    watched: FxHashMap<u32, Vec<u32>>,
    /// By process: from each address on which set, up to the next one. Made anew after each change.
    borders: FxHashMap<u32, Vec<(u64, SetId)>>,
    sets: Vec<Vec<u32>>,
    set_numbers: FxHashMap<Vec<u32>, SetId>,
    /// By set, then key: the key that stands for both, plus one.
    keys: Vec<Vec<u32>>,
    /// By that key.
    all: Vec<(u32, SetId)>,
    counts: Vec<u64>,
}

impl Ranges {
    fn asked(asked: &[(u64, u64)]) -> Self {
        let mut all = Self { is_asked: true, ..Self::default() };
        for (number, &(start, bytes)) in (0..).zip(asked) {
            all.ranges.push(MemoryRange { source: RangeSource::Asked(number), start, bytes });
            all.asked.push(number);
        }
        all
    }

    fn begin(&mut self, process: u32, range: MemoryRange) {
        self.ranges.push(range);
        self.watched.entry(process).or_default().push(self.ranges.len() as u32 - 1);
        self.borders.remove(&process);
    }

    fn end(&mut self, process: u32, number: u32) {
        let Some(watched) = self.watched.get_mut(&process) else { return };
        let source = RangeSource::Watched { process, number };
        watched.retain(|range| self.ranges[*range as usize].source != source);
        self.borders.remove(&process);
    }

    /// Gives accesses of a process keys that also say which ranges they are in.
    pub(super) fn tell(&mut self, process: u32, accesses: &mut [Access]) {
        if !self.is_asked {
            return;
        }
        let borders = match self.borders.remove(&process) {
            Some(borders) => borders,
            None => self.borders_of(process),
        };
        for access in accesses {
            let first = own_address(access.address);
            let last = first.saturating_add(u64::from(access.bytes.max(1) - 1));
            let at = borders.partition_point(|(from, _)| *from <= first);
            let mut set = at.checked_sub(1).map_or(NOWHERE, |before| borders[before].1);
            for &(_, next) in borders[at..].iter().take_while(|(from, _)| *from <= last) {
                set = self.both(set, next);
            }
            access.key = self.key(access.key, set);
        }
        self.borders.insert(process, borders);
    }

    fn borders_of(&mut self, process: u32) -> Vec<(u64, SetId)> {
        let watched = self.watched.get(&process).map_or(&[][..], Vec::as_slice);
        let active: Vec<u32> = self.asked.iter().chain(watched).copied().collect();
        let end = |range: &MemoryRange| range.start.saturating_add(range.bytes);
        let mut at: Vec<u64> = active
            .iter()
            .map(|number| &self.ranges[*number as usize])
            .filter(|range| range.bytes > 0)
            .flat_map(|range| [range.start, end(range)])
            .collect();
        at.sort_unstable();
        at.dedup();
        let set_at = |address: u64| {
            let holds = |number: &&u32| {
                let range = &self.ranges[**number as usize];
                (range.start..end(range)).contains(&address)
            };
            active.iter().filter(holds).copied().collect::<Vec<u32>>()
        };
        let sets: Vec<Vec<u32>> = at.iter().map(|address| set_at(*address)).collect();
        at.into_iter().zip(sets).map(|(address, set)| (address, self.set(set))).collect()
    }

    fn set(&mut self, mut ranges: Vec<u32>) -> SetId {
        if self.sets.is_empty() {
            self.sets.push(Vec::new());
            self.set_numbers.insert(Vec::new(), NOWHERE);
        }
        ranges.sort_unstable();
        ranges.dedup();
        *self.set_numbers.entry(ranges.clone()).or_insert_with(|| {
            self.sets.push(ranges);
            self.sets.len() as u32 - 1
        })
    }

    /// The set of what is in either.
    fn both(&mut self, one: SetId, other: SetId) -> SetId {
        if one == other || other == NOWHERE {
            return one;
        }
        let of = |set: SetId| self.sets.get(set as usize).cloned().unwrap_or_default();
        let together = [of(one), of(other)].concat();
        self.set(together)
    }

    fn key(&mut self, key: u32, set: SetId) -> u32 {
        if self.keys.len() <= set as usize {
            self.keys.resize_with(set as usize + 1, Vec::new);
        }
        let keys = &mut self.keys[set as usize];
        if keys.len() <= key as usize {
            keys.resize(key as usize + 1, 0);
        }
        let told = &mut keys[key as usize];
        if *told == 0 {
            self.all.push((key, set));
            self.counts.push(0);
            *told = self.all.len() as u32;
        }
        self.counts[*told as usize - 1] += 1;
        *told - 1
    }

    /// Whether accesses have other keys than those that they had.
    pub(super) fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// By the keys that accesses were given: their own, the set of ranges that these are in, and how many accesses.
    pub(super) fn told(&self) -> impl Iterator<Item = (u32, SetId, u64)> {
        self.all.iter().zip(&self.counts).map(|(&(key, set), &accesses)| (key, set, accesses))
    }

    /// By set, which ranges: numbers in [`Self::all`].
    pub(super) fn sets(&self) -> Vec<Vec<u32>> {
        self.sets.clone()
    }

    /// All ranges that there ever were.
    pub(super) fn all(&self) -> &[MemoryRange] {
        &self.ranges
    }
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::AccessKind;

    use super::*;
    use slimline_simulate::access::Work;

    fn access(address: u64, bytes: u32) -> Access {
        Access { address, key: 7, bytes, thread: 0, kind: AccessKind::Load, work: Work::USUAL }
    }

    /// Which ranges each access is in, after they were told.
    fn told(ranges: &mut Ranges, process: u32, mut accesses: Vec<Access>) -> Vec<Vec<u32>> {
        ranges.tell(process, &mut accesses);
        let (keys, sets): (Vec<_>, _) = (ranges.told().collect(), ranges.sets());
        accesses
            .iter()
            .map(|access| sets.get(keys[access.key as usize].1 as usize).cloned().unwrap_or_default())
            .collect()
    }

    #[test]
    fn what_lies_in_several_ranges_is_in_all() {
        let mut ranges = Ranges::asked(&[(100, 100), (150, 100), (400, 0)]);
        let accesses = vec![
            access(99, 1),
            access(99, 2),
            access(149, 1),
            access(150, 8),
            access(200, 4),
            access(249, 1),
            access(250, 8),
            access(90, 200),
            access(400, 1),
        ];
        let expected: [&[u32]; 9] = [&[], &[0], &[0], &[0, 1], &[1], &[1], &[], &[0, 1], &[]];
        assert_eq!(told(&mut ranges, 3, accesses), expected);
        assert_eq!(ranges.told().map(|(key, _, accesses)| (key, accesses)).fold((0, 0), |_, last| last), (7, 2));
        assert_eq!(ranges.told().map(|(_, _, accesses)| accesses).sum::<u64>(), 9);
    }

    #[test]
    fn what_is_watched_is_so_from_then_on_in_its_process() {
        let mut ranges = Ranges::asked(&[]);
        assert_eq!(told(&mut ranges, 1, vec![access(64, 8)]), [[0_u32; 0]]);
        let watched = |process, number| RangeSource::Watched { process, number };
        ranges.begin(1, MemoryRange { source: watched(1, 0), start: 64, bytes: 8 });
        ranges.begin(2, MemoryRange { source: watched(2, 0), start: 72, bytes: 8 });
        let both = || vec![access(64, 8), access(72, 8)];
        assert_eq!(told(&mut ranges, 1, both()), [vec![0], vec![]]);
        assert_eq!(told(&mut ranges, 2, both()), [vec![], vec![1]]);
        ranges.end(1, 0);
        assert_eq!(told(&mut ranges, 1, both()), [[0_u32; 0]; 2]);
        // What was never watched changes nothing.
        ranges.end(1, 9);
        assert_eq!(told(&mut ranges, 2, both()), [vec![], vec![1]]);
    }
}
