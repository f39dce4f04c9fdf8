//! Loads, stores and bytes by site.
//!
//! A site's accesses are its segment's visits, but where its words say how much it accesses (copies, fills, masks):
//! those are added up one by one.

use slimline_trace::stream::decode::{Program, SegmentId, SiteId, Tallies};
use slimline_trace::stream::sites::{Site, SiteKind};

use super::{Accesses, TraceBatch};

/// Counts of one run.
#[derive(Debug, Default)]
pub struct SiteCounts {
    /// By segment.
    segments: Vec<Counted>,
    /// By site, for such sites: what they accessed.
    varying: Vec<Accesses>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// Times that it ran.
    visits: u64,
    /// It has sites whose words say how much they access.
    varies: bool,
}

/// Whether a visit of the site always accesses the same number of bytes.
fn is_fixed(kind: SiteKind) -> bool {
    use SiteKind::{Copy, Fill, Gather, MaskedLoad, MaskedStore, Scatter};
    !matches!(kind, Copy | Fill | MaskedLoad | MaskedStore | Gather | Scatter)
}

/// What one visit of the site accesses. `words` are the site's own.
pub(super) fn accesses(site: &Site, words: &[u64]) -> Accesses {
    let word = |index: usize| words.get(index).copied().unwrap_or(0);
    let lanes = |mask: u64| u64::from((mask & site.lanes_mask()).count_ones());
    let size = u64::from(site.size_bytes);
    let (count, bytes) = match site.kind {
        SiteKind::Load | SiteKind::Store | SiteKind::Update => (1, size),
        SiteKind::Copy => (1, word(2)),
        SiteKind::Fill => (1, word(1)),
        SiteKind::MaskedLoad | SiteKind::MaskedStore => {
            let lanes = lanes(word(1));
            (u64::from(lanes > 0), lanes * size)
        }
        SiteKind::Gather | SiteKind::Scatter => {
            let lanes = lanes(word(0));
            (lanes, lanes * size)
        }
        _ => return Accesses::default(),
    };
    let (reads, writes) = (u64::from(site.kind.reads()), u64::from(site.kind.writes()));
    Accesses {
        loads: count * reads,
        stores: count * writes,
        loaded_bytes: bytes.saturating_mul(reads),
        stored_bytes: bytes.saturating_mul(writes),
    }
}

impl SiteCounts {
    pub(super) fn update(&mut self, program: &Program, batch: &TraceBatch<'_>) {
        self.make_room(program);
        for visits in batch.visits {
            let index = visits.segment.0 as usize;
            let counted = &mut self.segments[index];
            counted.visits += u64::from(visits.times);
            if !counted.varies {
                continue;
            }
            for words in batch.words_of_each(*visits, program.segments()[index].words) {
                for (told, site) in program.sites_of(visits.segment) {
                    if !is_fixed(site.kind) {
                        let own = words.get(told.word as usize..).unwrap_or(&[]);
                        self.varying[told.site.0 as usize].add(accesses(site, own));
                    }
                }
            }
        }
    }

    /// Takes in segments of which no more is asked than how often they ran ([`Self::varies`]).
    pub(super) fn add(&mut self, tallies: &Tallies) {
        for (segment, times) in tallies.iter() {
            self.segments[segment.0 as usize].visits += u64::from(times);
        }
    }

    /// Whether words of the segment, which there is room for, say how much it accesses.
    pub(super) fn varies(&self, segment: SegmentId) -> bool {
        self.segments[segment.0 as usize].varies
    }

    pub(super) fn make_room(&mut self, program: &Program) {
        let segments = program.segments().len();
        for segment in self.segments.len()..segments {
            let varies = program.sites_of(SegmentId(segment as u32)).any(|(_, site)| !is_fixed(site.kind));
            self.segments.push(Counted { visits: 0, varies });
        }
        self.varying.resize(program.site_count(), Accesses::default());
    }

    /// Times that a segment ran.
    pub fn visits(&self, segment: SegmentId) -> u64 {
        self.segments.get(segment.0 as usize).map_or(0, |counted| counted.visits)
    }

    /// Sites that ran, with the times, and what they accessed; loads of copies as those of what stands for them ([`SiteId::of_loads`]).
    pub fn sites<'a>(&'a self, program: &'a Program) -> impl Iterator<Item = (SiteId, u64, Accesses)> {
        // A site is in all segments that continue its own.
        let mut times = vec![0_u64; program.site_count()];
        for (segment, &Counted { visits, .. }) in (0..).zip(&self.segments).filter(|(_, counted)| counted.visits > 0) {
            for (told, _) in program.sites_of(SegmentId(segment)) {
                let times = &mut times[told.site.0 as usize];
                *times = times.saturating_add(visits);
            }
        }
        let ran = (0..).map(SiteId).zip(times).filter(|(_, times)| *times > 0);
        ran.flat_map(move |(id, times)| {
            let (_, site) = program.site(id);
            let accesses = match is_fixed(site.kind) {
                true => accesses(site, &[]).times(times),
                false => self.varying[id.0 as usize],
            };
            let of_loads = id.of_loads(site);
            if of_loads == id {
                return [Some((id, times, accesses)), None];
            }
            let stores = Accesses { loads: 0, loaded_bytes: 0, ..accesses };
            let loads = Accesses { stores: 0, stored_bytes: 0, ..accesses };
            [Some((id, times, stores)), Some((of_loads, times, loads))]
        })
        .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Run;
    use super::*;

    fn site(kind: SiteKind, size_bytes: u32, lanes: u16) -> Site {
        Site { lanes, ..Site::new(kind, size_bytes) }
    }

    fn counted(run: &Run) -> Vec<(u64, Accesses)> {
        let mut counts = SiteCounts::default();
        counts.update(run.program(), &run.batch());
        counts.sites(run.program()).map(|(_, visits, accesses)| (visits, accesses)).collect()
    }

    fn numbers(loads: u64, stores: u64, loaded_bytes: u64, stored_bytes: u64) -> Accesses {
        Accesses { loads, stores, loaded_bytes, stored_bytes }
    }

    #[test]
    fn each_kind_counts_what_it_accesses() {
        use SiteKind::*;
        let kinds = [site(Load, 8, 1), site(Store, 4, 1), site(Update, 2, 1), site(Copy, 0, 1), site(Fill, 0, 1)];
        let lanes = [site(MaskedLoad, 4, 8), site(Gather, 8, 4), site(Enter, 0, 1)];
        let mut run = Run::new(&[&kinds, &lanes]);
        run.visit(0, &[8, 16, 24, 32, 40, 100, 48, 7]);
        run.visit(0, &[8, 16, 24, 32, 40, 1, 48, 3]);
        run.visit(1, &[8, 0b1011, 0b0110, 1, 2, 3, 4]);
        run.visit(1, &[8, 0, u64::MAX, 1, 2, 3, 4]);
        let expected = [
            (2, numbers(2, 0, 16, 0)),
            (2, numbers(0, 2, 0, 8)),
            (2, numbers(2, 2, 4, 4)),
            (2, numbers(2, 2, 101, 101)),
            (2, numbers(0, 2, 0, 10)),
            (2, numbers(1, 0, 12, 0)),
            (2, numbers(6, 0, 48, 0)),
            (2, numbers(0, 0, 0, 0)),
        ];
        assert_eq!(counted(&run), expected);
    }

    #[test]
    fn numbers_that_no_program_writes_are_survived() {
        let mut run = Run::new(&[&[site(SiteKind::Fill, 0, 1)]]);
        run.visit(0, &[8, u64::MAX]);
        run.visit(0, &[8, u64::MAX]);
        assert_eq!(counted(&run), [(2, numbers(0, 2, 0, u64::MAX))]);
    }
}
