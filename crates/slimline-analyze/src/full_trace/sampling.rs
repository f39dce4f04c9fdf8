//! Accesses of which only some are looked up.
//!
//! How often an instruction ran is counted in the whole of a run; whose blocks it accessed is asked in some batches only, where the analysis
//! is to keep up with the program. What it accessed in the others is taken to be divided as it was there: an estimate of its own for each
//! instruction. One that ran in none of these batches has none: nobody knows whose its accesses are.
//!
//! Parts are not chosen by chance alone, but where there was time. So each stands for those that were passed over right before it, too, by their words: a
//! phase of the run counts by its length, however much of it was looked up.
//!
//! How far shares may be off is told by leaving out a part of what was asked (the jackknife, grouped): what was asked at a time, a chunk
//! or what all threads had written by then, belongs to one of [`GROUPS`] groups in turn, and how much estimates without one of them
//! differ from each other says how much others would.

use std::collections::BTreeMap;

use slimline_trace::stream::decode::{Program, SegmentId, SiteId};

use super::heap::live_blocks::Group;
use super::spots::Spot;
use super::{Accesses, TraceAnalysis, TraceBatch};

/// Groups of parts that were looked up.
pub(super) const GROUPS: usize = 8;
/// Student's t of `GROUPS - 1` degrees of freedom for 95 %.
const T_95: f64 = 2.365;

/// How much of a trace was looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookedUp {
    /// Accesses that were.
    pub accesses: u64,
    /// Of all of these.
    pub of: u64,
    /// Accesses that the filter wants of instructions of which none was.
    pub unseen: u64,
    /// Parts of the run that were.
    pub parts: u64,
}

/// What was looked up.
#[derive(Debug, Default)]
pub(super) struct Sampling {
    /// By segment, then group: visits, each as often as its part counts.
    visits: Vec<[u64; GROUPS]>,
    /// By segment: visits.
    looked_up: Vec<u64>,
    /// Begun.
    parts: u64,
    /// For how much the one that was begun last stands, itself counted, by what it is itself.
    weight: u64,
    /// Words since then that were passed over.
    since: u64,
    /// Parts that were.
    passed_over: u64,
}

impl Sampling {
    /// What comes, so many words, was written at another time, and is looked up or not.
    pub(super) fn begin_part(&mut self, is_looked_up: bool, words: u64) {
        if is_looked_up {
            let words = words.max(1);
            self.parts += 1;
            (self.weight, self.since) = ((self.since + words + words / 2) / words, 0);
        } else {
            self.since += words;
            self.passed_over += 1;
        }
    }

    /// A batch is looked up; its group, and how often it counts.
    pub(super) fn look_up(&mut self, program: &Program, batch: &TraceBatch<'_>) -> (usize, u64) {
        self.visits.resize(program.segments().len(), [0; GROUPS]);
        self.looked_up.resize(program.segments().len(), 0);
        let (group, weight) = ((self.parts % GROUPS as u64) as usize, self.weight.max(1));
        for visits in batch.visits {
            let segment = visits.segment.0 as usize;
            self.looked_up[segment] += u64::from(visits.times);
            self.visits[segment][group] += u64::from(visits.times) * weight;
        }
        (group, weight)
    }

    /// Whether all batches were.
    pub(super) fn is_all(&self) -> bool {
        self.passed_over == 0
    }

    /// By site: visits that were looked up.
    fn looked_up(&self, program: &Program) -> Vec<u64> {
        let mut by_site = vec![0_u64; program.site_count()];
        for (segment, &visits) in (0..).zip(&self.looked_up) {
            add_to_sites(&mut by_site, program, SegmentId(segment), visits);
        }
        by_site
    }

    /// By site: visits as often as they count, but for those of one group.
    fn by_site(&self, program: &Program, without: Option<usize>) -> Vec<u64> {
        let mut by_site = vec![0_u64; program.site_count()];
        for (segment, parts) in (0..).zip(&self.visits) {
            let parts = parts.iter().enumerate().filter(|(group, _)| Some(*group) != without);
            let visits: u64 = parts.map(|(_, visits)| *visits).sum();
            if visits > 0 {
                add_to_sites(&mut by_site, program, SegmentId(segment), visits);
            }
        }
        by_site
    }
}

/// Adds a segment's visits to its sites, and to what stands for loads of copies.
fn add_to_sites(by_site: &mut [u64], program: &Program, segment: SegmentId, visits: u64) {
    for (told, site) in program.sites_of(segment) {
        let loads = told.site.of_loads(site);
        by_site[told.site.0 as usize] += visits;
        if loads != told.site {
            by_site[loads.0 as usize] += visits;
        }
    }
}

/// Accesses to blocks, by their site.
pub(super) type BySpot = BTreeMap<SiteId, Vec<(Spot, Accesses)>>;

/// The groups that are accessed.
pub(super) fn groups_of(by_spot: &BySpot) -> impl Iterator<Item = Group> + '_ {
    by_spot.values().flatten().map(|(spot, _)| spot.group)
}

/// Those that there were, or an estimate of them, and then maybe without a group of what was looked up.
pub(super) fn by_spot(program: &Program, analysis: &TraceAnalysis, without: Option<usize>) -> BySpot {
    let mut by_spot = BySpot::new();
    for (site, spot, sum) in analysis.heap().accesses(program, without) {
        by_spot.entry(site).or_default().push((spot, sum));
    }
    if let Some(sampling) = analysis.heap().sampling() {
        let looked_up = sampling.by_site(program, without);
        for (site, visits, _) in analysis.counts().sites(program) {
            for (_, sum) in by_spot.get_mut(&site).into_iter().flatten() {
                *sum = scaled(*sum, looked_up[site.0 as usize], visits);
            }
        }
    }
    by_spot.values_mut().for_each(|spots| spots.sort_by_key(|(spot, _)| *spot));
    by_spot
}

/// By site: visits that were looked up; none where all were.
pub(super) fn visits_looked_up(program: &Program, analysis: &TraceAnalysis) -> Option<Vec<u64>> {
    analysis.heap().sampling().map(|sampling| sampling.looked_up(program))
}

/// How much was looked up; `None` where all was.
pub(super) fn looked_up(program: &Program, analysis: &TraceAnalysis) -> Option<LookedUp> {
    let sampling = analysis.heap().sampling()?;
    let by_site = sampling.looked_up(program);
    let mut found = LookedUp { parts: sampling.parts, ..LookedUp::default() };
    for (site, visits, accesses) in analysis.counts().sites(program) {
        let count = accesses.count();
        found.of = found.of.saturating_add(count);
        let looked_up = by_site[site.0 as usize];
        let (module, known) = program.site(site);
        if looked_up == 0 && analysis.filter().wants(module, known) {
            found.unseen = found.unseen.saturating_add(count);
        }
        let part = u128::from(count) * u128::from(looked_up) / u128::from(visits.max(1));
        found.accesses = found.accesses.saturating_add(part as u64);
    }
    // Then nothing is an estimate, though there were parts that might have been passed over.
    (found.accesses < found.of).then_some(found)
}

/// Half the width of the interval (95 %) of the share of so many accesses that each of what `sums` tells apart has, with all that may be
/// its and nobody looked up; of none where all was looked up, or too little.
pub(super) fn share_errors<K: Ord>(
    program: &Program,
    analysis: &TraceAnalysis,
    (looked_up, all): (Option<LookedUp>, u64),
    sums: impl Fn(&BySpot) -> BTreeMap<K, u64>,
) -> BTreeMap<K, f64> {
    let Some(looked_up) = looked_up.filter(|looked_up| looked_up.parts >= GROUPS as u64) else {
        return BTreeMap::new();
    };
    let mut shares: BTreeMap<K, [f64; GROUPS]> = BTreeMap::new();
    for part in 0..GROUPS {
        for (of, sum) in sums(&by_spot(program, analysis, Some(part))) {
            shares.entry(of).or_default()[part] = sum as f64 / all.max(1) as f64;
        }
    }
    let unseen = looked_up.unseen as f64 / all.max(1) as f64;
    shares.into_iter().map(|(of, without_each)| (of, half_width(&without_each) + unseen)).collect()
}

/// So many of `all`, of which `part` were looked up with these accesses.
fn scaled(accesses: Accesses, part: u64, all: u64) -> Accesses {
    let scale = |number: u64| {
        let product = u128::from(number) * u128::from(all) + u128::from(part / 2);
        u64::try_from(product / u128::from(part.max(1))).unwrap_or(u64::MAX)
    };
    Accesses {
        loads: scale(accesses.loads),
        stores: scale(accesses.stores),
        loaded_bytes: scale(accesses.loaded_bytes),
        stored_bytes: scale(accesses.stored_bytes),
    }
}

/// Half the width of a share's interval of 95 %, of its estimates without each part.
fn half_width(without_each: &[f64; GROUPS]) -> f64 {
    let count = GROUPS as f64;
    let mean = without_each.iter().sum::<f64>() / count;
    let squares: f64 = without_each.iter().map(|share| (share - mean).powi(2)).sum();
    T_95 * ((count - 1.0) / count * squares).sqrt()
}

#[cfg(test)]
mod tests {
    use slimline_trace::stream::decode::Decoder;
    use slimline_trace::stream::order::Piece;
    use slimline_trace::stream::sites::{Site, SiteKind};

    use super::super::findings::{TraceFindings, findings};
    use super::super::splitting::SplitRules;
    use super::super::tests::{program_of, visits_of};
    use super::*;

    /// What loads as many times in batches that are looked up, and others, makes of blocks: each batch is told by whether it is looked up
    /// and the addresses that segments 1 and 2 load. It is the same whether what is passed over was decoded before.
    fn run(batches: &[(bool, Vec<(u32, u64)>)]) -> TraceFindings {
        let [decoded, words] = [false, true].map(|is_by_words| run_passing(batches, is_by_words));
        assert_eq!(format!("{decoded:?}"), format!("{words:?}"));
        words
    }

    fn run_passing(batches: &[(bool, Vec<(u32, u64)>)], is_by_words: bool) -> TraceFindings {
        let [allocate, load] = [SiteKind::Allocate, SiteKind::Load].map(|kind| Site::new(kind, 8));
        let program = program_of(&[&[allocate], &[load], &[load]]);
        let mut analysis = TraceAnalysis::new().sampled();
        let mut decoder = Decoder::new();
        let mut sequence = 0;
        let mut take = |run: &[(u32, Vec<u64>)], is_looked_up: bool| {
            let (words, visits) = visits_of(&program, run);
            let batch = TraceBatch { tid: 7, sequence, visits: &visits, words: &words, ..TraceBatch::default() };
            analysis.begin_part(is_looked_up, words.len() as u64);
            match (is_looked_up, is_by_words) {
                (true, _) => analysis.update(&program, &batch),
                (false, false) => analysis.pass_over(&program, &batch),
                (false, true) => {
                    let count = words.len();
                    let mut piece = Piece::default();
                    (piece.tid, piece.sequence, piece.words) = (7, sequence, words);
                    let records = analysis.pass_over_words(&program, &mut decoder, (0, 0), (&mut piece, false));
                    assert_eq!(records, count);
                }
            }
            sequence += 1;
        };
        take(&[(0, vec![0x1000, 64])], false);
        for (is_looked_up, loads) in batches {
            let run: Vec<_> = loads.iter().map(|(segment, address)| (*segment, vec![*address])).collect();
            take(&run, *is_looked_up);
        }
        findings(&program, &analysis, &SplitRules::default())
    }

    #[test]
    fn blocks_are_followed_where_nothing_is_looked_up() {
        let (inside, outside) = (0x1008, 0x2000);
        let looked_up = vec![(1, inside), (1, inside), (1, inside), (1, outside)];
        let found = run(&[(true, looked_up), (false, vec![(1, outside); 8]), (false, vec![(2, inside); 3])]);
        assert_eq!(found.total.loads, 15, "all are counted");
        // Three of four of twelve; of the second instruction nobody knows.
        assert_eq!((found.heap[0].blocks, found.heap[0].accesses.loads), (1, 9));
        assert_eq!(found.looked_up, Some(LookedUp { accesses: 4, of: 15, unseen: 3, parts: 1 }));
        // With what is known of the instruction alone: here, no name.
        let nobodys = Accesses { loads: 3, loaded_bytes: 24, ..Accesses::default() };
        assert_eq!(found.not_looked_up, nobodys);
        let told: Vec<_> = found.fields_not_looked_up.iter().map(|row| (&*row.name, row.accesses)).collect();
        assert_eq!(told, [("", nobodys)]);
        assert_eq!(found.heap[0].share_error, None, "one part says nothing of others");
    }

    #[test]
    fn phases_count_by_their_length() {
        // Three parts inside, of which one was looked up; one outside, which was.
        let [inside, outside] = [vec![(1, 0x1000); 4], vec![(1, 0x2000); 4]];
        let found = run(&[(false, inside.clone()), (false, inside.clone()), (true, inside), (true, outside)]);
        assert_eq!(
            (found.total.loads, found.heap[0].accesses.loads),
            (16, 12),
            "3 of 4: the allocation's part is less than half of one"
        );
    }

    #[test]
    fn what_is_all_alike_has_no_error() {
        let alike = |is_looked_up| (is_looked_up, vec![(1, 0x1000), (1, 0x2000)]);
        let batches: Vec<_> = (0..24).map(|batch| alike(batch % 3 == 0)).collect();
        let found = run(&batches);
        assert_eq!((found.heap[0].accesses.loads, found.heap[0].share_error), (24, Some(0.0)));
        assert_eq!(found.variable_errors.into_iter().collect::<Vec<_>>(), [(String::new(), 0.0)]);
        // Half of the parts are all inside, half are all outside.
        let one_way = |batch| (true, vec![(1, if batch % 2 == 0 { 0x1000 } else { 0x2000 }); 700]);
        let mut batches: Vec<_> = (0..8).map(one_way).collect();
        let all = run(&batches);
        assert_eq!((all.looked_up, all.heap[0].share_error), (None, None), "what was all looked up is no estimate");
        batches.push((false, vec![(1, 0x1000)]));
        let found = run(&batches);
        let without: [f64; GROUPS] = std::array::from_fn(|left_out| {
            let others = || (0..8).filter(|batch| *batch != left_out);
            others().filter(|batch| batch % 2 == 0).count() as f64 / others().count() as f64
        });
        let error = found.heap[0].share_error.unwrap();
        assert!((error - half_width(&without)).abs() < 1e-3, "{error}");
    }

    #[test]
    fn what_was_not_looked_up_is_as_what_was() {
        let found = Accesses { loads: 3, stores: 1, loaded_bytes: 24, stored_bytes: 8 };
        let expected = Accesses { loads: 8, stores: 3, loaded_bytes: 60, stored_bytes: 20 };
        assert_eq!(scaled(found, 4, 10), expected, "7.5 and 2.5 are rounded up");
        assert_eq!(scaled(found, 4, 4), found);
        let most = Accesses { loads: u64::MAX, ..found };
        assert_eq!(scaled(most, 1, u64::MAX).loads, u64::MAX);
    }

    #[test]
    fn intervals_are_of_what_parts_differ_by() {
        assert_eq!(half_width(&[0.25; GROUPS]), 0.0);
        // Each is 0.01 from their mean: 2.365 × √(7/8 × 8 × 0.0001).
        let shares = std::array::from_fn(|part| if part % 2 == 0 { 0.49 } else { 0.51 });
        assert!((half_width(&shares) - 2.365 * 0.026_457_5).abs() < 1e-6);
    }
}
