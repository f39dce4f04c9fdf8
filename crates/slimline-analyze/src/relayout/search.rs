//! What was tried of a structure, and what came of it.

use super::candidates::{Candidate, Objects, Untouchable};
use super::{Taken, TimeRatio, WORTH_IT, best};

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
    use super::super::candidates::candidates;
    use super::super::candidates::tests::structure;
    use super::super::visits::Visits;
    use super::*;
    use slimline_simulate::waiting::Times;

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
