//! Which features of objects say with whom they are accessed.
//!
//! ```text
//!   objects of a type ──► features   primary    their fields: x, y
//!                                    secondary  fields of what they point to: source->rank
//!                                    place      address, number of allocation, index in their array
//!                                    kind       size, line that allocates them
//!   communities of the access graph ──► labels
//!                                          │
//!                         random forests, cross-validated: of all features, of the place alone, of all others alone
//! ```
//!
//! After Miucin 2018, 3.4: where features say the community, an allocator that is told them can put together what is accessed together
//! (`slimline-tidy`). Where the place alone says it as well, objects lie so already. Of a type's communities those of the level are
//! learned where forests are best, by how much of what guessing leaves wrong they get right (Cohen's κ, with the most frequent community as
//! the guess); levels of few communities say nothing of who is near and are left out.

mod features;
mod hints;

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use slimline_layout::graph::Graph;
use slimline_learn::cross_validation::{CrossValidation, Options as ForestOptions, cross_validate};
use slimline_learn::forest;
use slimline_learn::samples::Samples;
use slimline_learn::spread::Spread;

pub use self::features::FeatureKind;
use self::features::{Column, KnownFields};
pub use self::hints::{Candidate, Cell, Hint, Scale};
use crate::full_trace::object_fields::Fields;
use crate::full_trace::objects::{Object, ObjectOrigin};
use crate::object_layout::{Verdict as LayoutVerdict, WORTH_IT};

/// Objects of a type that it takes to say anything.
pub const LEAST_OBJECTS: usize = 100;
/// Communities of a level that is learned.
const LEAST_COMMUNITIES: usize = 12;
/// Communities that are drawn at least, where there are as many.
const DRAWN_COMMUNITIES: usize = 32;
/// Objects and trees, by which a level is chosen.
const TRIED_OBJECTS: usize = 3000;
const TRIED_TREES: usize = 30;
/// Trees of the forests that are compared with each other (of all features, of fields alone, of the place alone, of shuffled communities, with
/// a feature's values exchanged), and how often is shuffled and exchanged.
pub const COMPARED_TREES: usize = 50;
const COMPARED_TIMES: usize = 3;
/// What κ must be that a community is said at all, and by the place that objects are taken to lie so already.
const LEAST_KAPPA: f64 = 0.1;
const LEAST_KAPPA_OF_PLACE: f64 = 0.5;
/// Fields alone that say less than this part of what all features say are tried once more.
const SEEMS_LESS: f64 = 0.9;
/// Share of the objects whose feature changes after it is loaded that makes it useless as a hint.
const MOST_CHANGED: f64 = 0.1;
/// Share of accesses that are copies, from which on objects are rather moved about than used.
const MOST_COPIED: f64 = 0.25;
/// A feature that adds less than this part of what the best one does is no hint.
const LEAST_OF_BEST: f64 = 0.15;
/// How many features make a hint: dimensions of its arenas.
const MOST_HINTS: usize = 3;

/// How it is learned.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is drawn is drawn by it.
    pub seed: u64,
    /// Trees of the forests that are tried.
    pub trees: Vec<usize>,
    /// Objects of a type at most; where there are more, communities are drawn.
    pub most_objects: usize,
}

/// A feature, and what it is worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Feature {
    /// What it is of.
    pub kind: FeatureKind,
    /// `x`, `source->rank`, `address`.
    pub name: String,
    /// Share of the decrease of Gini's impurity that it makes, over all trees; all features have 1.
    pub gini: f64,
    /// By how much accuracy falls when its values are exchanged among objects, and the standard error of that.
    pub permutation: f64,
    /// See there.
    pub permutation_error: f64,
    /// Share of the objects whose value is known.
    pub known: f64,
    /// Share of those that were given another value after it was loaded.
    pub changed: f64,
    /// Least and greatest value.
    pub range: (f64, f64),
    /// All values are integers.
    pub is_integer: bool,
}

/// How often the community is said right.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accuracy {
    /// Mean over the folds, and its standard error.
    pub mean: f64,
    /// See there.
    pub error: f64,
    /// Mean of how often it is among the first five.
    pub among_five: f64,
}

impl Accuracy {
    fn of(first: &Spread, five: &Spread) -> Self {
        Self { mean: first.mean(), error: first.standard_error_of_folds(), among_five: five.mean() }
    }
}

/// What is to be done with a type.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Tell the allocator these features.
    Hint(Hint),
    /// Objects are elements of arrays: order those by these features, or what they are read from.
    OrderArray(Hint),
    /// These features say it and another order saves cycles, but objects that lie by them do not.
    HintSavesNothing(Hint),
    /// The place says it as well: objects lie in their communities already. In which order they lie there is another question.
    AlreadySo(Feature),
    /// Features say it, but neither they nor any order of objects saves anything on this machine.
    NothingToGain,
    /// Only these features say it, and they change after memory is asked for.
    ChangesLater(Vec<String>),
    /// Copies make this share of the accesses: objects do not stay where they are.
    MovedAbout(f64),
    /// What objects hold is not known, and their place does not say it.
    NoFields,
    /// No feature says it.
    NoFeature,
}

/// What was learned of a type's objects.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedType {
    /// Its name; empty where it is not known.
    pub type_name: String,
    /// What allocates its objects.
    pub origins: Vec<u32>,
    /// Objects that are neighbours of others.
    pub objects: u64,
    /// Of these, those that forests learned from.
    pub learned: u64,
    /// Mean bytes of an object.
    pub bytes: f64,
    /// Level of the communities that are said best, from 1, the finest.
    pub level: usize,
    /// How many they are, of those that were learned from, and how many of them have one object only.
    pub communities: u64,
    /// See there.
    pub alone: u64,
    /// Trees of the best forest.
    pub trees: usize,
    /// Of all features.
    pub accuracy: Accuracy,
    /// Of those but the place.
    pub of_fields: Accuracy,
    /// Of the place alone.
    pub of_place: Accuracy,
    /// Whether the place alone says no less than fields do, fold by fold.
    pub is_place_as_good: bool,
    /// All features, by a forest that is as large as those that it is compared with.
    pub compared: Accuracy,
    /// Most objects are elements of arrays.
    pub is_of_arrays: bool,
    /// All objects in some order save cycles of those in the order of allocation.
    pub is_any_order_better: bool,
    /// Of always the most frequent community.
    pub baseline: Accuracy,
    /// The best of forests that learned from shuffled communities.
    pub shuffled: f64,
    /// The most important first.
    pub features: Vec<Feature>,
    /// What is to be done.
    pub verdict: Verdict,
    /// Where features are to be told: ways to do so, of which the replay says the best.
    pub candidates: Vec<Candidate>,
    /// Share of the cycles in the order of allocation that is saved where objects lie in those, once that is known.
    pub hint_saves: Option<f64>,
}

/// Learns of each type with enough objects, that of most of them first; of blocks without a type only where none has one. `levels` are communities as
/// [`Hierarchical::levels`](slimline_layout::order::Hierarchical::levels) has them.
pub fn learn(
    (objects, origins, fields): (&[Object], &[ObjectOrigin], &Fields),
    (graph, levels): (&Graph, &[Vec<u32>]),
    layout: LayoutVerdict,
    options: &Options,
) -> Vec<LearnedType> {
    let known = KnownFields::of(objects, fields);
    let mut types = of_types(objects, origins, graph);
    types.retain(|of| of.objects.len() >= LEAST_OBJECTS);
    if types.iter().any(|of| !of.name.is_empty()) {
        // What has no type is what containers keep their elements in, as far as there are types.
        types.retain(|of| !of.name.is_empty());
    }
    let learned = types.iter().filter_map(|of| of.learn(&known, levels, layout, options));
    learned.collect()
}

/// Whether any of them found a use.
pub fn is_anything_found(learned: &[LearnedType]) -> bool {
    let is_found = |of: &LearnedType| of.is_said(&of.compared) || of.is_said(&of.of_place);
    learned.iter().any(is_found)
}

/// The types of most objects, as many as are asked for: of each object whether it is of one.
pub fn of_most_allocated(objects: &[Object], origins: &[ObjectOrigin], count: usize) -> Vec<bool> {
    let mut sums: BTreeMap<TypeKey<'_>, u64> = BTreeMap::new();
    for object in objects {
        *sums.entry(type_key(origins, object.origin)).or_default() += 1;
    }
    let mut sums: Vec<(u64, TypeKey<'_>)> = sums.into_iter().map(|(key, sum)| (sum, key)).collect();
    sums.sort_by(|a, b| (b.0, &a.1).cmp(&(a.0, &b.1)));
    sums.truncate(count);
    objects.iter().map(|object| sums.iter().any(|(_, key)| *key == type_key(origins, object.origin))).collect()
}

impl LearnedType {
    /// What of what guessing leaves wrong is right: Cohen's κ.
    pub fn kappa(&self, accuracy: &Accuracy) -> f64 {
        kappa(accuracy.mean, self.baseline.mean)
    }

    /// Whether features say the community, more than guesses and than noise do.
    pub fn is_said(&self, accuracy: &Accuracy) -> bool {
        let least = accuracy.mean - 2.0 * accuracy.error;
        least > self.baseline.mean.max(self.shuffled) && self.kappa(accuracy) >= LEAST_KAPPA
    }

    /// Its objects were replayed as each of [`Self::candidates`] puts them, which saved these shares of the cycles: advice that does not save
    /// any is none. Of two that save as much it is the one of more arenas, which stay full where there are more objects.
    pub fn replayed(&mut self, saved: &[f64]) {
        let best = saved.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let all = self.candidates.iter().zip(saved).filter(|(_, saved)| **saved > best - WORTH_IT);
        let Some((Candidate { hint, .. }, &saved)) = all.max_by_key(|(of, _)| of.hint.cells) else { return };
        self.hint_saves = Some(saved);
        let hint = hint.clone();
        self.verdict = match std::mem::replace(&mut self.verdict, Verdict::NoFeature) {
            Verdict::Hint(_) | Verdict::OrderArray(_) if saved < WORTH_IT => match self.is_any_order_better {
                true => Verdict::HintSavesNothing(hint),
                false => Verdict::NothingToGain,
            },
            Verdict::Hint(_) => Verdict::Hint(hint),
            Verdict::OrderArray(_) => Verdict::OrderArray(hint),
            verdict => verdict,
        };
    }

    fn judge(&self, copied: f64) -> Verdict {
        if copied >= MOST_COPIED {
            return Verdict::MovedAbout(copied);
        }
        let best_place = self.features.iter().find(|feature| feature.kind == FeatureKind::Place);
        if let Some(best) = best_place
            && self.is_said(&self.of_place)
            && self.kappa(&self.of_place) >= LEAST_KAPPA_OF_PLACE
            && self.is_place_as_good
        {
            return Verdict::AlreadySo(best.clone());
        }
        let is_own = |kind| matches!(kind, FeatureKind::Primary | FeatureKind::Secondary);
        if !self.features.iter().any(|feature| is_own(feature.kind)) {
            return Verdict::NoFields;
        }
        if !self.is_said(&self.of_fields) {
            return Verdict::NoFeature;
        }
        let hints: Vec<&Feature> = self.features.iter().filter(|feature| is_own(feature.kind)).collect();
        let is_worth = |feature: &&&Feature| feature.permutation > 2.0 * feature.permutation_error;
        let greatest = hints.iter().filter(is_worth).map(|feature| feature.permutation).fold(0.0, f64::max);
        let mut worth: Vec<&Feature> = match greatest > 0.0 {
            true => {
                hints.iter().filter(is_worth).filter(|of| of.permutation >= LEAST_OF_BEST * greatest).copied().collect()
            }
            // Each of several that say the same can be done without: the one that is missed most.
            false => hints.iter().copied().max_by(|a, b| a.permutation.total_cmp(&b.permutation)).into_iter().collect(),
        };
        worth.sort_by(|a, b| b.permutation.total_cmp(&a.permutation));
        let (late, mut early): (Vec<&Feature>, Vec<&Feature>) =
            worth.into_iter().partition(|of| of.changed > MOST_CHANGED);
        // What an object points to may not be there yet when memory is asked for.
        if early.iter().any(|feature| feature.kind != FeatureKind::Secondary) {
            early.retain(|feature| feature.kind != FeatureKind::Secondary);
        }
        let early: Vec<Feature> = early.into_iter().take(MOST_HINTS).cloned().collect();
        let hint = |features| Hint::new(features, self.objects, self.bytes);
        match (early.is_empty(), late.is_empty()) {
            (true, true) => Verdict::NoFeature,
            (true, false) => Verdict::ChangesLater(late.into_iter().map(|feature| feature.name.clone()).collect()),
            _ if self.is_of_arrays => Verdict::OrderArray(hint(early)),
            _ => Verdict::Hint(hint(early)),
        }
    }
}

fn kappa(accuracy: f64, guess: f64) -> f64 {
    if guess >= 1.0 { 0.0 } else { (accuracy - guess) / (1.0 - guess) }
}

/// A type by its name, or else by what allocates it.
type TypeKey<'a> = (&'a str, u32);

fn type_key(origins: &[ObjectOrigin], origin: u32) -> TypeKey<'_> {
    let name = origins[origin as usize].type_name.as_str();
    (name, if name.is_empty() { origin } else { 0 })
}

/// Objects of one type that are neighbours of others.
struct OfType<'a> {
    name: &'a str,
    origins: Vec<u32>,
    objects: Vec<u32>,
}

/// Objects that are learned from, their features and communities.
struct Drawn {
    objects: Vec<u32>,
    columns: Vec<Column>,
    labels: Vec<u32>,
}

/// All types, that of most objects first.
fn of_types<'a>(objects: &[Object], origins: &'a [ObjectOrigin], graph: &Graph) -> Vec<OfType<'a>> {
    let mut found: BTreeMap<TypeKey<'a>, OfType<'a>> = BTreeMap::new();
    for (number, object) in (0..graph.nodes()).zip(objects) {
        if graph.neighbours(number).next().is_none() {
            continue;
        }
        let key = type_key(origins, object.origin);
        let of = found.entry(key).or_insert_with(|| OfType { name: key.0, origins: Vec::new(), objects: Vec::new() });
        if !of.origins.contains(&object.origin) {
            of.origins.push(object.origin);
        }
        of.objects.push(number);
    }
    let mut types: Vec<OfType<'a>> = found.into_values().collect();
    // The line that most of them are of is named first.
    for of in &mut types {
        let mut counts: FxHashMap<u32, usize> = FxHashMap::default();
        of.objects.iter().for_each(|object| *counts.entry(objects[*object as usize].origin).or_default() += 1);
        of.origins.sort_by_key(|origin| std::cmp::Reverse(counts[origin]));
    }
    types.sort_by_key(|of| std::cmp::Reverse(of.objects.len()));
    types
}

impl OfType<'_> {
    fn learn(
        &self,
        known: &KnownFields<'_>,
        levels: &[Vec<u32>],
        layout: LayoutVerdict,
        options: &Options,
    ) -> Option<LearnedType> {
        let level = self.best_level(known, levels, options.seed)?;
        let Drawn { objects, columns, labels } = self.drawn(known, &levels[level], options.most_objects, options.seed);
        let forests =
            |among: &dyn Fn(FeatureKind) -> bool, larger: &[usize], is_each_tried: bool| -> Option<CrossValidation> {
                let columns: Vec<Vec<f64>> =
                    columns.iter().filter(|column| among(column.kind)).map(|column| column.values.clone()).collect();
                let features_per_split = is_each_tried.then_some(columns.len());
                let samples = Samples::new(columns, &labels).ok()?;
                let forest = forest::Options { seed: options.seed, features_per_split, ..forest::Options::default() };
                let tree_counts = [&[COMPARED_TREES], larger].concat();
                let times = if larger.is_empty() { 0 } else { COMPARED_TIMES };
                let options =
                    ForestOptions { tree_counts, shuffles: times, repeats: times, forest, ..ForestOptions::default() };
                cross_validate(&samples, &options).ok()
            };
        let all = forests(&|_| true, &options.trees, false)?;
        let best = all.scores.iter().filter(|of| options.trees.contains(&of.trees));
        let best = best.max_by(|a, b| a.accuracy.mean().total_cmp(&b.accuracy.mean()))?;
        let (trees, of_all) = (best.trees, Accuracy::of(&best.accuracy, &best.top));
        // Without any feature it is a guess.
        let baseline = Accuracy::of(&all.baseline.accuracy, &all.baseline.top);
        // By fold, and as all features are where they are no others.
        let alone = |among: &dyn Fn(FeatureKind) -> bool, is_each_tried| {
            forests(among, &[], is_each_tried)
                .and_then(|found| found.scores.into_iter().next())
                .map(|of| (of.accuracy, of.top))
        };
        let guess = || (all.baseline.accuracy.clone(), all.baseline.top.clone());
        let mut of_fields = alone(&|kind| kind != FeatureKind::Place, false).unwrap_or_else(guess);
        let of_place = alone(&|kind| kind == FeatureKind::Place, false).unwrap_or_else(guess);
        // Of a few fields one may say it all, and splits seldom try that one.
        if of_fields.0.mean() < SEEMS_LESS * of_all.mean {
            let tried = alone(&|kind| kind != FeatureKind::Place, true).unwrap_or_else(guess);
            of_fields = if tried.0.mean() > of_fields.0.mean() { tried } else { of_fields };
        }
        let ahead = of_fields.0.values.iter().zip(&of_place.0.values).map(|(fields, place)| fields - place).collect();
        let ahead = Spread { values: ahead };
        let compared = all.scores.iter().find(|of| of.trees == COMPARED_TREES)?;
        let of_arrays = objects.iter().filter(|object| known.objects[**object as usize].index.is_some()).count();
        let mut features: Vec<Feature> =
            columns.iter().enumerate().map(|(at, column)| feature(column, &all, at)).collect();
        features.sort_by(|a, b| b.gini.total_cmp(&a.gini));
        let bytes: u64 =
            objects.iter().map(|object| known.objects[*object as usize].bytes).fold(0, u64::saturating_add);
        let mut learned = LearnedType {
            type_name: self.name.to_owned(),
            origins: self.origins.clone(),
            objects: self.objects.len() as u64,
            learned: objects.len() as u64,
            bytes: bytes as f64 / objects.len() as f64,
            level: level + 1,
            communities: all.classes as u64,
            alone: all.alone as u64,
            trees,
            accuracy: of_all,
            of_fields: Accuracy::of(&of_fields.0, &of_fields.1),
            of_place: Accuracy::of(&of_place.0, &of_place.1),
            is_place_as_good: ahead.mean() <= 2.0 * ahead.standard_error_of_folds(),
            compared: Accuracy::of(&compared.accuracy, &compared.top),
            is_of_arrays: 2 * of_arrays > objects.len(),
            // What not reusing memory saves alone is not the order's.
            is_any_order_better: matches!(
                layout, LayoutVerdict::Reorder { saved_of_allocated, .. } if saved_of_allocated >= WORTH_IT
            ),
            baseline,
            shuffled: all.shuffled.accuracy.greatest(),
            features,
            verdict: Verdict::NoFeature,
            candidates: Vec::new(),
            hint_saves: None,
        };
        let copied = self.origins.iter().filter_map(|origin| known.fields.copied.get(*origin as usize));
        let (copied, accesses) = copied.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        learned.verdict = learned.judge(copied as f64 / accesses.max(1) as f64);
        if let Verdict::Hint(hint) | Verdict::OrderArray(hint) = &mut learned.verdict {
            learned.candidates = self.candidates(known, hint);
        }
        Some(learned)
    }

    /// So many of its objects at most. Where there are more, communities are drawn, and of large ones some of their objects: of one that
    /// only a few are drawn of nothing can be learned.
    fn drawn_objects(&self, communities: &[u32], most: usize, seed: u64) -> Vec<u32> {
        if self.objects.len() <= most {
            return self.objects.clone();
        }
        let (mut objects, mut random) = (self.objects.clone(), fastrand::Rng::with_seed(seed));
        random.shuffle(&mut objects);
        objects.sort_by_key(|object| communities[*object as usize]);
        let mut members: Vec<&[u32]> =
            objects.chunk_by(|a, b| communities[*a as usize] == communities[*b as usize]).collect();
        random.shuffle(&mut members);
        let of_each = most.div_ceil(members.len().min(DRAWN_COMMUNITIES));
        let drawn = members.into_iter().flat_map(|members| members.iter().take(of_each));
        let mut drawn: Vec<u32> = drawn.copied().take(most).collect();
        drawn.sort_unstable();
        drawn
    }

    /// The same, with what is learned from.
    fn drawn(&self, known: &KnownFields<'_>, communities: &[u32], most: usize, seed: u64) -> Drawn {
        let objects = self.drawn_objects(communities, most, seed);
        let columns = self.columns(known, &objects);
        let labels = objects.iter().map(|object| communities[*object as usize]).collect();
        Drawn { objects, columns, labels }
    }

    /// The level whose communities are said best.
    fn best_level(&self, known: &KnownFields<'_>, levels: &[Vec<u32>], seed: u64) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for (level, communities) in levels.iter().enumerate() {
            let different: FxHashSet<u32> = self.objects.iter().map(|object| communities[*object as usize]).collect();
            if different.len() < LEAST_COMMUNITIES {
                break;
            }
            let Drawn { columns, labels, .. } = self.drawn(known, communities, TRIED_OBJECTS, seed);
            let values = columns.into_iter().map(|column| column.values).collect();
            let Ok(samples) = Samples::new(values, &labels) else { continue };
            let forest = forest::Options { seed, ..forest::Options::default() };
            let tree_counts = vec![TRIED_TREES];
            let few =
                ForestOptions { folds: 3, tree_counts, shuffles: 0, repeats: 0, forest, ..ForestOptions::default() };
            let Ok(found) = cross_validate(&samples, &few) else { continue };
            let accuracy = found.scores.first().map_or(0.0, |scores| scores.accuracy.mean());
            let kappa = kappa(accuracy, found.baseline.accuracy.mean());
            if best.is_none_or(|(most, _)| kappa > most) {
                best = Some((kappa, level));
            }
        }
        best.map(|(_, level)| level)
    }
}

fn feature(column: &Column, all: &CrossValidation, at: usize) -> Feature {
    let known = column.known();
    let values = || column.values.iter().copied().filter(|value| !value.is_nan());
    // Repeats of one fold are of one forest: their mean is the fold's.
    let by_fold = all.permutation_importances[at].values.chunks(COMPARED_TIMES);
    let by_fold = by_fold.map(|repeats| repeats.iter().sum::<f64>() / repeats.len() as f64).collect();
    let permutation = Spread { values: by_fold };
    Feature {
        kind: column.kind,
        name: column.name.clone(),
        gini: all.gini_importances[at],
        permutation: permutation.mean(),
        permutation_error: permutation.standard_error_of_folds(),
        known: known as f64 / column.values.len().max(1) as f64,
        changed: column.changed as f64 / known.max(1) as f64,
        range: column.range(),
        is_integer: values().all(|value| value.fract() == 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::full_trace::object_fields::Field;
    use crate::object_layout::Arrangement;

    const OBJECTS: u32 = 600;
    const GROUPS: u32 = 20;
    const SAVES: LayoutVerdict =
        LayoutVerdict::Reorder { to: Arrangement::Hierarchical, saved: 0.2, saved_of_allocated: 0.2 };

    /// A number of each object's own, by chance.
    fn drawn(seed: u64) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..OBJECTS.into()).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut numbers);
        numbers
    }

    /// What is learned of objects that lie as they are allocated and hold these numbers, where those are accessed together whose `by`
    /// is in the same part of all.
    fn learned(x: Vec<u64>, by: &[u64], (is_changed, copied): (bool, f64), layout: LayoutVerdict) -> LearnedType {
        let object = |number: u32| Object {
            process: 0,
            start: 0x1000 + 32 * u64::from(number),
            bytes: 24,
            sequence: number + 1,
            ordinal: number + 1,
            origin: 0,
            index: None,
        };
        let objects: Vec<Object> = (0..OBJECTS).map(object).collect();
        let fields = Fields {
            places: (0..OBJECTS).collect(),
            copied: vec![((copied * 1000.0) as u64, 1000)],
            fields: vec![Field::of_integers("node.x", x, is_changed)],
        };
        let origins = [ObjectOrigin { type_name: "node".to_owned(), ..ObjectOrigin::default() }];
        let graph = Graph::new(OBJECTS, (1..OBJECTS).map(|object| (object - 1, object, 1)));
        let communities = by.iter().map(|number| (*number * u64::from(GROUPS) / u64::from(OBJECTS)) as u32).collect();
        let options = Options { seed: 1, trees: vec![20], most_objects: 500 };
        let mut all = learn((&objects, &origins, &fields), (&graph, &[communities]), layout, &options);
        assert_eq!(all.len(), 1);
        all.swap_remove(0)
    }

    #[test]
    fn a_field_that_says_it_is_a_hint() {
        let x = drawn(1);
        let of = learned(x.clone(), &x, (false, 0.0), SAVES);
        assert_eq!((of.level, of.communities, of.objects, of.learned), (1, 20, 600, 500));
        assert!(of.accuracy.mean > 0.4 && of.of_fields.mean > 0.9 && of.of_place.mean < 0.2, "{of:?}");
        assert!(of.baseline.mean < 0.1 && of.shuffled < 0.15, "{of:?}");
        assert!((of.features.iter().map(|feature| feature.gini).sum::<f64>() - 1.0).abs() < 1e-9);
        let Verdict::Hint(hint) = &of.verdict else { panic!("{of:?}") };
        let features = &hint.features;
        assert_eq!(features.iter().map(|feature| feature.name.as_str()).collect::<Vec<_>>(), ["x"]);
        assert_eq!((features[0].range, features[0].is_integer, features[0].known), ((0.0, 599.0), true, 1.0));
        // 600 objects of 24 bytes fill 3.5 buckets.
        assert_eq!(hint.cells, 4);
        let [Candidate { hint: tried, arenas }] = of.candidates.as_slice() else { panic!("{of:?}") };
        assert_eq!((tried, arenas.len()), (hint, 600));
        assert!(arenas.iter().all(|(object, arena)| *arena == x[*object as usize] / 150), "{of:?}");
    }

    #[test]
    fn a_hint_that_saves_nothing_is_none() {
        let x = drawn(1);
        let mut of = learned(x.clone(), &x, (false, 0.0), SAVES);
        of.replayed(&[0.5]);
        assert!(matches!(of.verdict, Verdict::Hint(_)));
        of.replayed(&[0.0]);
        assert!(matches!(&of.verdict, Verdict::HintSavesNothing(hint) if hint.features.len() == 1), "{of:?}");
    }

    /// 20 groups of 30 objects fill 3.5 buckets; in four arenas five groups each would be among each other.
    #[test]
    fn numbers_that_several_objects_have_may_have_arenas_of_their_own() {
        let group: Vec<u64> = drawn(1).into_iter().map(|number| number % u64::from(GROUPS)).collect();
        let by: Vec<u64> = group.iter().map(|group| group * u64::from(OBJECTS / GROUPS)).collect();
        let all = learned(group.clone(), &by, (false, 0.0), SAVES);
        assert_eq!(all.candidates.iter().map(|of| of.hint.cells).collect::<Vec<_>>(), [4, 20]);
        assert!(all.candidates[1].arenas.iter().all(|(object, arena)| *arena == group[*object as usize]));
        for (saved, cells) in [([0.2, 0.3], 20), ([0.2, 0.19], 20), ([0.2, 0.1], 4)] {
            let mut of = all.clone();
            of.replayed(&saved);
            assert!(matches!(&of.verdict, Verdict::Hint(hint) if hint.cells == cells), "{of:?}");
        }
    }

    #[test]
    fn where_nothing_is_saved_there_is_no_hint() {
        let x = drawn(1);
        let allocated = LayoutVerdict::Reorder { to: Arrangement::Allocated, saved: 0.2, saved_of_allocated: 0.0 };
        for layout in [allocated, LayoutVerdict::Leave] {
            let mut of = learned(x.clone(), &x, (false, 0.0), layout);
            of.replayed(&[0.019]);
            assert_eq!(of.verdict, Verdict::NothingToGain);
            // The order of all objects need not be one that a hint makes.
            let mut of = learned(x.clone(), &x, (false, 0.0), layout);
            of.replayed(&[0.021]);
            assert!(matches!(of.verdict, Verdict::Hint(_)), "{of:?}");
        }
    }

    #[test]
    fn a_field_that_changes_is_none() {
        let x = drawn(1);
        assert_eq!(learned(x.clone(), &x, (true, 0.0), SAVES).verdict, Verdict::ChangesLater(vec!["x".to_owned()]));
    }

    #[test]
    fn objects_that_are_copied_about_do_not_stay() {
        let x = drawn(1);
        assert_eq!(learned(x.clone(), &x, (false, 0.5), SAVES).verdict, Verdict::MovedAbout(0.5));
    }

    /// As in an array that is gone through, and its index is in a field as well.
    #[test]
    fn what_lies_so_already_is_left() {
        let numbers: Vec<u64> = (0..OBJECTS.into()).collect();
        let of = learned(drawn(2), &numbers, (false, 0.0), SAVES);
        assert!(matches!(&of.verdict, Verdict::AlreadySo(feature) if feature.kind == FeatureKind::Place), "{of:?}");
        let of = learned(numbers.clone(), &numbers, (false, 0.0), SAVES);
        assert!(matches!(&of.verdict, Verdict::AlreadySo(_)), "{of:?}");
    }

    /// A field of as many values as objects has importance, but says nothing.
    #[test]
    fn chance_is_no_feature() {
        let of = learned(drawn(3), &drawn(4), (false, 0.0), SAVES);
        assert_eq!(of.verdict, Verdict::NoFeature);
        let x = of.features.iter().find(|feature| feature.name == "x").unwrap();
        assert!(x.gini > 0.2 && x.permutation.abs() < 0.05, "{x:?}");
    }
}
