//! What was tried of a structure, and what came of it.

use std::sync::Arc;

use super::candidates::{Candidate, Objects, Untouchable};
use super::inlining::{Inlined, Refused};
use super::{Taken, TimeRatio, best};

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
    /// What could be in the place of pointers to it.
    pub inlined: Vec<Arc<Inlined>>,
    /// And what can't be, of what its pointers lead to.
    pub not_inlined: Vec<Refused>,
    /// The structure in whose elements its objects are, as is advised for that one.
    pub held_in: Option<u32>,
    /// Why nothing is tried.
    pub untouchable: Option<Untouchable>,
    /// What was tried, simplest first.
    pub tried: Vec<Tried>,
    /// What is advised, of these.
    pub chosen: Option<usize>,
    /// What all of the program took with the best of these, and nothing else changed.
    pub confirmed: Option<Taken>,
    /// That one, where it did not save enough then.
    rejected: Option<usize>,
}

impl Searched {
    /// One of which nothing was tried yet.
    pub const fn new(structure: u32, share: f64, accesses: u64, objects: Objects) -> Self {
        Self {
            structure,
            share,
            accesses,
            objects,
            inlined: Vec::new(),
            not_inlined: Vec::new(),
            held_in: None,
            untouchable: None,
            tried: Vec::new(),
            chosen: None,
            confirmed: None,
            rejected: None,
        }
    }

    /// Takes in what each of the layouts came to, and chooses one.
    pub fn judge(&mut self, candidates: Vec<Candidate>, ratios: &[TimeRatio]) {
        self.tried = candidates.into_iter().zip(ratios).map(|(candidate, &ratio)| Tried { candidate, ratio }).collect();
        self.choose(|_| true);
    }

    /// Chooses one of these.
    fn choose(&mut self, is_free: impl Fn(&Candidate) -> bool) {
        let free: Vec<usize> = (0..self.tried.len()).filter(|&tried| is_free(&self.tried[tried].candidate)).collect();
        let ratios: Vec<TimeRatio> = free.iter().map(|&tried| self.tried[tried].ratio).collect();
        self.chosen = best(&ratios).map(|best| free[best]);
    }

    /// Takes in what the program took with what is chosen alone: one that does not save enough is not advised.
    pub fn confirm(&mut self, taken: Taken, before: &Taken) {
        self.confirmed = Some(taken);
        if !TimeRatio::of(&taken, before).is_worth_it() {
            self.rejected = self.chosen.take();
        }
    }

    /// The layout that is advised.
    pub fn advised(&self) -> Option<&Tried> {
        self.chosen.map(|chosen| &self.tried[chosen])
    }

    /// Where none is advised: the one that all of the program was tried with, else the one that saves most.
    pub fn closest(&self) -> Option<&Tried> {
        if let Some(rejected) = self.rejected {
            return Some(&self.tried[rejected]);
        }
        self.tried.iter().max_by(|a, b| a.ratio.saved().total_cmp(&b.ratio.saved()))
    }
}

/// Leaves of what is advised what goes together: a structure that is held in another one's elements stays as it is otherwise. Who saves most comes first.
pub fn settle(searched: &mut [Searched]) {
    let saved = |of: &Searched| of.advised().map_or(0.0, |tried| tried.ratio.saved());
    let mut order: Vec<usize> = (0..searched.len()).collect();
    order.sort_by(|a, b| saved(&searched[*b]).total_cmp(&saved(&searched[*a])));
    // Structures that are laid out anew, and the one in which they are then.
    let mut taken: Vec<(u32, u32)> = Vec::new();
    for at in order {
        let of = &mut searched[at];
        let holder = |structure: u32| taken.iter().find(|(taken, _)| *taken == structure).map(|(_, holder)| *holder);
        let pointee = |candidate: &Candidate| candidate.inlined.as_ref().map(|inlined| inlined.field.pointee);
        of.held_in = holder(of.structure);
        if of.held_in.is_some() {
            of.chosen = None;
        } else if of.advised().and_then(|tried| pointee(&tried.candidate)).and_then(holder).is_some() {
            of.choose(|candidate| pointee(candidate).and_then(holder).is_none());
        }
        if let Some(advised) = of.advised() {
            taken.push((of.structure, of.structure));
            taken.extend(pointee(&advised.candidate).map(|pointee| (pointee, of.structure)));
        }
    }
}

/// Lets those choose for themselves that would be held in elements of a structure of which that is not advised after all. Whether there are any.
pub fn release(searched: &mut [Searched]) -> bool {
    let advised: Vec<u32> = searched.iter().filter(|of| of.chosen.is_some()).map(|of| of.structure).collect();
    let is_free = |of: &&mut Searched| of.held_in.is_some_and(|holder| !advised.contains(&holder));
    let mut any = false;
    for of in searched.iter_mut().filter(is_free) {
        of.held_in = None;
        // What others are held in is settled.
        of.choose(|candidate| candidate.inlined.is_none());
        any |= of.chosen.is_some();
    }
    any
}

#[cfg(test)]
mod tests {
    use super::super::candidates::tests::{structure, with_part};
    use super::super::candidates::{Change, candidates};
    use super::super::visits::Visits;
    use super::*;
    use crate::full_trace::held_values::{Narrower, Number};
    use crate::full_trace::values::Range;
    use slimline_simulate::waiting::Times;

    /// What saves most but not surely is not what all of the program was tried with.
    #[test]
    fn what_was_confirmed_and_fell_through_is_the_closest() {
        let shape = structure(88, &[("key", 8), ("note", 72), ("next", 8)]);
        let visits = Visits { accesses: 100, ..Visits::of(&[(0b101, 1000), (0b010, 1)]) };
        let objects = Objects { count: 100, otherwise: 0, apart: 0 };
        let found: Vec<Candidate> = candidates(&shape, &visits, objects).unwrap().into_iter().take(2).collect();
        let mut searched = Searched::new(0, 0.5, 100, objects);
        let ratio = |expected, high| TimeRatio { low: 0.5, expected, high };
        searched.judge(found, &[ratio(0.97, 0.99), ratio(0.955, 1.1)]);
        assert_eq!((searched.chosen, searched.closest().unwrap().ratio.expected), (Some(0), 0.955));
        let taken =
            |cycles| Taken { times: Times { least: cycles, expected: cycles, most: cycles }, ..Taken::default() };
        searched.confirm(taken(99.0), &taken(100.0));
        assert_eq!((searched.chosen, searched.closest().unwrap().ratio.expected), (None, 0.97));
    }

    /// Of nodes of which a part could be narrower: what is behind is not tried with that on top.
    #[test]
    fn what_is_far_behind_is_not_tried_with_more() {
        let mut shape = structure(88, &[("key", 8), ("kind", 8), ("note", 48), ("count", 8), ("uses", 8), ("next", 8)]);
        for field in [1, 3] {
            shape.fields[field].narrower =
                Some(Narrower { bytes: 2, number: Number::Signed, range: Range::Signed(0, 9) });
        }
        let visits = Visits { accesses: 100, ..Visits::of(&[(0b10_1011, 1000), (0b01_0100, 1)]) };
        let found = candidates(&shape, &visits, Objects { count: 100, otherwise: 0, apart: 0 }).unwrap();
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

    /// An owner (structure 0) whose parts (structure 1) could be in it, and these, which could be smaller themselves; by what the three layouts save.
    fn searched([reordered, inline, smaller]: [f64; 3]) -> [Searched; 2] {
        let objects = Objects { count: 100, otherwise: 0, apart: 0 };
        let ratio = |saved: f64| TimeRatio { low: 0.0, expected: 1.0 - saved, high: 1.0 };
        let of = |structure, tried: &[(&Candidate, f64)]| {
            let mut of = Searched::new(structure, 0.5, 100, objects);
            let ratios: Vec<TimeRatio> = tried.iter().map(|(_, saved)| ratio(*saved)).collect();
            of.judge(tried.iter().map(|(of, _)| (*of).clone()).collect(), &ratios);
            of
        };
        let (_, found) = with_part(true);
        let plain = Candidate { inlined: None, change: Change::Reorder, ..found[0].clone() };
        [of(0, &[(&plain, reordered), (&found[0], inline)]), of(1, &[(&plain, smaller)])]
    }

    #[test]
    fn what_is_held_in_another_structure_is_not_laid_out_by_itself() {
        let chosen = |of: &[Searched]| [0, 1].map(|at: usize| of[at].chosen);
        let mut of = searched([0.1, 0.5, 0.4]);
        settle(&mut of);
        assert_eq!((chosen(&of), of[1].held_in), ([Some(1), None], Some(0)));
        // It is not advised after all.
        of[0].chosen = None;
        assert!(release(&mut of));
        assert_eq!((chosen(&of), of[1].held_in), ([None, Some(0)], None));
        assert!(!release(&mut of));
        // Who saves more by itself stays where it is.
        let mut of = searched([0.1, 0.4, 0.5]);
        settle(&mut of);
        assert_eq!((chosen(&of), of[1].held_in), ([Some(0), Some(0)], None));
        let mut of = searched([0.0, 0.4, 0.5]);
        settle(&mut of);
        assert_eq!(chosen(&of), [None, Some(0)]);
        // Both are advised where they are not in each other's way.
        let mut of = searched([0.5, 0.51, 0.1]);
        settle(&mut of);
        assert_eq!((chosen(&of), of[1].held_in), ([Some(0), Some(0)], None));
    }

    #[test]
    fn what_all_of_the_program_does_not_confirm_is_not_advised() {
        let objects = Objects { count: 100, otherwise: 0, apart: 0 };
        let mut searched = Searched::new(0, 0.5, 100, objects);
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
