//! What was tried of a structure, and what came of it.

use super::candidates::{Candidate, Objects, Untouchable};
use super::{Taken, TimeRatio, WORTH_IT, best};

/// Part of the time by which a layout may be behind half of what the best one saves, and gains by other types of its fields what others do not.
const BEHIND: f64 = 0.05;

/// Whether a layout with other types of fields on top of its change is worth a try, by what came of the others of its structure: not where that change
/// alone saves less than half of what the best one does, and five hundredths less than that.
pub fn is_worth_trying<'a>(
    combined: &Candidate,
    tried: impl Iterator<Item = (&'a Candidate, &'a Option<TimeRatio>)>,
) -> bool {
    let (mut best, mut alone): (f64, Option<f64>) = (0.0, None);
    for (candidate, saved) in tried.filter_map(|(candidate, ratio)| Some((candidate, ratio.as_ref()?.saved()))) {
        if candidate.types.is_none() {
            best = best.max(saved);
        }
        if candidate.is_plain_of(combined) {
            alone = Some(alone.map_or(saved, |alone| alone.max(saved)));
        }
    }
    alone.is_none_or(|alone| alone >= best / 2.0 - BEHIND)
}

/// A layout that was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Which.
    pub candidate: Candidate,
    /// What it takes with this change alone, by a part of the accesses.
    pub ratio: TimeRatio,
}

/// A structure of which layouts are tried.
#[derive(Clone, Debug)]
pub struct Searched {
    /// Its number.
    pub structure: u32,
    /// Part of the program's time that it takes, as the model of waiting has it.
    pub share: f64,
    /// Accesses to it.
    pub accesses: u64,
    /// Its objects.
    pub objects: Objects,
    /// Why nothing is tried.
    pub untouchable: Option<Untouchable>,
    /// What was tried, simplest first.
    pub tried: Vec<Tried>,
    /// What is advised, of these.
    pub chosen: Option<usize>,
    /// What all of the program took with the best of these, and nothing else changed.
    pub confirmed: Option<Taken>,
}

impl Searched {
    /// Takes in what each of the layouts came to, and chooses one.
    pub fn judge(&mut self, candidates: Vec<Candidate>, ratios: &[TimeRatio]) {
        self.tried = candidates.into_iter().zip(ratios).map(|(candidate, &ratio)| Tried { candidate, ratio }).collect();
        self.chosen = best(ratios);
    }

    /// Takes in what the program took with what is chosen alone: one that does not save enough is not advised.
    pub fn confirm(&mut self, taken: Taken, before: &Taken) {
        self.confirmed = Some(taken);
        self.chosen = self.chosen.filter(|_| TimeRatio::of(&taken, before).saved() >= WORTH_IT);
    }

    /// The layout that is advised.
    pub fn advised(&self) -> Option<&Tried> {
        self.chosen.map(|chosen| &self.tried[chosen])
    }

    /// The one that saves most, whether that is enough or not.
    pub fn closest(&self) -> Option<&Tried> {
        self.tried.iter().max_by(|a, b| a.ratio.saved().total_cmp(&b.ratio.saved()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::candidates::tests::structure;
    use super::super::candidates::{Change, candidates};
    use super::super::visits::Visits;
    use super::*;
    use crate::full_trace::held_values::{Narrower, Number};
    use crate::full_trace::values::Range;
    use slimline_simulate::waiting::Times;

    /// Of nodes of which a part could be narrower: what is behind is not tried with that on top.
    #[test]
    fn what_is_far_behind_is_not_tried_with_more() {
        let mut shape = structure(88, &[("key", 8), ("kind", 8), ("note", 48), ("count", 8), ("uses", 8), ("next", 8)]);
        for field in [1, 3] {
            shape.fields[field].narrower =
                Some(Narrower { bytes: 2, number: Number::Signed, range: Range::Signed(0, 9) });
        }
        let visits = Visits { accesses: 100, ..Visits::of(&[(0b10_1011, 1000), (0b01_0100, 1)]) };
        let found = candidates(&shape, &visits, Objects { count: 100, otherwise: 0 }).unwrap();
        let hot_cold = |is_combined: bool, is_pool: bool| {
            let is_it = |of: &&Candidate| {
                of.change == Change::HotCold && of.is_pool == is_pool && of.is_combined() == is_combined
            };
            found.iter().position(|of| is_it(&of)).unwrap()
        };
        let is_worth_trying = |of: usize, saved: [f64; 2]| {
            let mut ratios = vec![None; found.len()];
            for (is_pool, saved) in [false, true].into_iter().zip(saved) {
                ratios[hot_cold(false, is_pool)] = Some(TimeRatio { low: 0.0, expected: 1.0 - saved, high: 1.0 });
            }
            is_worth_trying(&found[of], found.iter().zip(&ratios))
        };
        let [heap, pool] = [false, true].map(|is_pool| hot_cold(true, is_pool));
        assert!(is_worth_trying(heap, [0.16, 0.4]) && is_worth_trying(pool, [0.16, 0.4]));
        assert!(!is_worth_trying(heap, [0.14, 0.4]) && is_worth_trying(pool, [0.14, 0.4]));
        // Where nothing saves anything, what costs little is.
        assert!(is_worth_trying(heap, [-0.04, -0.2]) && !is_worth_trying(pool, [-0.04, -0.2]));
    }

    #[test]
    fn what_all_of_the_program_does_not_confirm_is_not_advised() {
        let objects = Objects { count: 100, otherwise: 0 };
        let mut searched = Searched {
            structure: 0,
            share: 0.5,
            accesses: 100,
            objects,
            untouchable: None,
            tried: Vec::new(),
            chosen: None,
            confirmed: None,
        };
        let visits = Visits { accesses: 100, ..Visits::default() };
        let found = candidates(&structure(16, &[("a", 8), ("b", 8)]), &visits, objects).unwrap();
        let ratios: Vec<TimeRatio> =
            (0..found.len()).map(|at| TimeRatio { low: 0.5, expected: 1.0 - at as f64 / 10.0, high: 1.1 }).collect();
        searched.judge(found, &ratios);
        assert_eq!(searched.chosen, Some(ratios.len() - 1));
        assert_eq!(searched.advised().map(|tried| tried.ratio), ratios.last().copied());
        let taken = |expected| Taken { times: Times { least: 0.0, expected, most: expected }, ..Taken::default() };
        searched.confirm(taken(50.0), &taken(100.0));
        assert_eq!(searched.chosen, Some(ratios.len() - 1));
        searched.confirm(taken(99.0), &taken(100.0));
        assert!(searched.advised().is_none() && searched.closest().is_some());
    }
}
