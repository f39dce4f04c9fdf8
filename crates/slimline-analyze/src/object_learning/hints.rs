//! What an allocator is told of an object: which part of a feature's range its value is in.

use super::features::KnownFields;
use super::{Feature, FeatureKind, OfType};
use crate::object_layout::BUCKET_BYTES;

/// So the greatest value is in the last cell, not behind it, whatever six digits round.
const ABOVE_ONE: f64 = 1.00001;
/// Cells of a dimension at most.
const MOST_CELLS: f64 = 4096.0;
/// Objects that have a number on average, that each number may have an arena of its own.
const LEAST_OF_NUMBER: f64 = 4.0;

/// Features that say where an object belongs. Each is a dimension of as many cells; each combination of cells is an arena of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Hint {
    /// Of all objects that are to be allocated.
    pub features: Vec<Feature>,
    /// Of each dimension.
    pub cells: u32,
}

/// A hint that may be given, and where it puts objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The hint.
    pub hint: Hint,
    /// Each object that has its features, and its arena.
    pub arenas: Vec<(u32, u64)>,
}

/// How a value becomes the number of its cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The least value; 0 where it is taken as it is.
    pub subtracted: f64,
    /// What keeps a value above 0 that is rounded to a little less than the least one.
    pub added: f64,
    /// What is left times or by that.
    pub scale: Scale,
}

/// See [`Cell`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// As it is.
    One,
    /// Integers, without what remains.
    DividedBy(f64),
    /// What follows the point is cut off.
    Times(f64),
}

impl Hint {
    /// For so many objects of so many bytes: each arena has about a bucket of them.
    pub(super) fn new(features: Vec<Feature>, objects: u64, bytes: f64) -> Self {
        let arenas = (objects as f64 * bytes / BUCKET_BYTES as f64).max(2.0);
        let cells = arenas.powf(1.0 / features.len() as f64).ceil().clamp(2.0, MOST_CELLS);
        Self { features, cells: cells as u32 }
    }

    /// The same, where its one feature is a number that many of so many objects have, with an arena for each number. A bucket is not full
    /// then, but none has objects of several numbers.
    fn by_number(&self, objects: usize) -> Option<Self> {
        let [Feature { is_integer: true, range: (least, most), .. }] = self.features.as_slice() else { return None };
        let numbers = most - least + 1.0;
        let is_finer = numbers > f64::from(self.cells) && numbers <= MOST_CELLS;
        let are_many = objects as f64 >= LEAST_OF_NUMBER * numbers;
        (is_finer && are_many).then(|| Self { cells: numbers as u32, ..self.clone() })
    }

    /// How a feature's values become cells. Values without a range are taken as they are, modulo the dimension.
    pub fn cell(&self, feature: &Feature) -> Cell {
        let ((least, most), cells) = (feature.range, f64::from(self.cells));
        let span = if feature.is_integer { most - least + 1.0 } else { (most - least) * ABOVE_ONE };
        if !span.is_finite() || span <= 0.0 {
            return Cell { subtracted: 0.0, added: 0.0, scale: Scale::One };
        }
        let added = if feature.is_integer || least == 0.0 { 0.0 } else { span / 1e6 };
        let scale = match (feature.is_integer, span <= cells) {
            (true, true) => Scale::One,
            (true, false) => Scale::DividedBy((span / cells).ceil()),
            (false, _) => Scale::Times(cells / span),
        };
        Cell { subtracted: least, added, scale }
    }

    /// The arena of an object with these values, one of each feature; none where one is not known.
    pub(super) fn arena(&self, values: impl Iterator<Item = f64>) -> Option<u64> {
        self.features.iter().zip(values).try_fold(0, |arena: u64, (feature, value)| {
            let number = self.cell(feature).number(value)?;
            Some(arena.wrapping_mul(self.cells.into()).wrapping_add(number % u64::from(self.cells)))
        })
    }
}

impl OfType<'_> {
    /// Ways to tell these features. Their ranges become those of all objects, as it is all that are to be allocated so.
    pub(super) fn candidates(&self, known: &KnownFields<'_>, hint: &mut Hint) -> Vec<Candidate> {
        let mut columns = Vec::with_capacity(hint.features.len());
        for feature in &mut hint.features {
            let of_name = match feature.kind {
                FeatureKind::Secondary => self.secondary(known, &self.objects, Some(&feature.name)),
                _ => self.primary(known, &self.objects, Some(&feature.name)),
            };
            let Some(column) = of_name.into_iter().next() else { return Vec::new() };
            feature.range = column.range();
            columns.push(column);
        }
        let hints = [Some(hint.clone()), hint.by_number(self.objects.len())];
        let candidate = |hint: Hint| {
            let arena = |at: usize| hint.arena(columns.iter().map(|column| column.values[at]));
            let arenas = self.objects.iter().enumerate().filter_map(|(at, object)| Some((*object, arena(at)?)));
            Candidate { arenas: arenas.collect(), hint }
        };
        hints.into_iter().flatten().map(candidate).collect()
    }
}

impl Cell {
    /// The number of a value's cell, before it is taken modulo the dimension.
    fn number(&self, value: f64) -> Option<u64> {
        let from_least = value - self.subtracted + self.added;
        let scaled = match self.scale {
            Scale::One => from_least,
            Scale::DividedBy(by) => from_least / by,
            Scale::Times(by) => from_least * by,
        };
        (!scaled.is_nan()).then_some(scaled as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::FeatureKind;
    use super::*;

    fn feature(range: (f64, f64), is_integer: bool) -> Feature {
        let (gini, permutation, permutation_error, known, changed) = (0.5, 0.5, 0.01, 1.0, 0.0);
        let (kind, name) = (FeatureKind::Primary, "x".to_owned());
        Feature { kind, name, gini, permutation, permutation_error, known, changed, range, is_integer }
    }

    #[test]
    fn arenas_have_about_a_bucket_of_objects() {
        let of = |features, objects| Hint::new(vec![feature((0.0, 1.0), false); features], objects, 64.0).cells;
        // 64 objects fill a bucket.
        assert_eq!((of(1, 6400), of(2, 6400), of(1, 10), of(1, 1 << 30)), (100, 10, 2, 4096));
    }

    #[test]
    fn a_value_is_in_the_cell_of_its_part_of_the_range() {
        let arena = |range, is_integer, value: f64| {
            let hint = Hint { features: vec![feature(range, is_integer)], cells: 64 };
            hint.arena([value].into_iter())
        };
        assert_eq!([0.0, 99.0, 100.0, 6399.0].map(|at| arena((0.0, 6399.0), true, at).unwrap()), [0, 0, 1, 63]);
        assert_eq!([10.0, 60.0].map(|at| arena((10.0, 60.0), true, at).unwrap()), [0, 50]);
        assert_eq!([-1.0, 0.0, 0.999, 1.0].map(|at| arena((-1.0, 1.0), false, at).unwrap()), [0, 31, 63, 63]);
        assert_eq!([3.0, 67.0].map(|at| arena((5.0, f64::INFINITY), false, at).unwrap()), [3, 3]);
        assert_eq!(arena((0.0, 1.0), false, f64::NAN), None);
    }

    #[test]
    fn dimensions_make_arenas_of_their_own() {
        let hint = Hint { features: vec![feature((0.0, 7.0), true), feature((0.0, 1.0), false)], cells: 8 };
        assert_eq!(hint.arena([3.0, 0.5].into_iter()), Some(3 * 8 + 3));
        assert_eq!(hint.arena([0.0, f64::NAN].into_iter()), None);
    }
}
