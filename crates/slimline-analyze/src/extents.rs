//! Where fields begin and end, by the accesses alone.
//!
//! An access is as wide as a field, or narrower (a bit that is tested, half of a word), or wider: set-up code clears and
//! copies several fields by one instruction. So the narrow ones come first, and a wide one adds only what they left:
//!
//! ```text
//!   loads of 8 bytes at 0 and 8, a store of 16 bytes at 0      ──►   0..8, 8..16
//!   a load of 8 bytes at 0, a store of 16 bytes at 0           ──►   0..8, 8..16 (reached by the store alone)
//!   a load of 4 bytes at 0, a load of 8 bytes at 0             ──►   0..8 (half of it was read)
//!   one instruction reads single bytes at 24, 25, 26, 27…      ──►   24..28… (text, an array)
//! ```

use std::collections::BTreeMap;

/// Adjoining places that one instruction reaches; so many are an array. Fewer may be fields that it chooses from, as a
/// tree's children.
const LEAST_ELEMENTS: usize = 4;
/// Accesses after which a walk over everything has most likely been in both halves of an element: all of eight are in
/// one span of half its size in 1 of 30 cases.
const ENOUGH_TO_SPAN: u64 = 8;
/// Part of the mean below which an array's first and last places are not taken for its own.
const STRAY: f64 = 0.2;
/// Widest access to one field that is not by a vector register.
const WORD_BYTES: u64 = 8;
/// Part of the accesses below which narrow ones don't tell what a wide one is made of.
const NOISE: f64 = 0.05;

/// Ranges of an element that are accessed, with how often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents {
    ranges: BTreeMap<Extent, u64>,
    /// Arrays of single bytes, which other code reads by words.
    texts: BTreeMap<Extent, u64>,
}

/// Bytes of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Extent {
    from: u64,
    to: u64,
}

/// How often a range was accessed.
type Seen = (Extent, u64);

impl Extent {
    fn bytes(self) -> u64 {
        self.to - self.from
    }

    fn holds(self, other: Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }

    fn joined(self, other: Self) -> Self {
        Self { from: self.from.min(other.from), to: self.to.max(other.to) }
    }
}

impl Extents {
    /// Takes in how often one instruction, whose accesses are `bytes` wide, was seen at each place (offset) of an element.
    /// `is_dense`: it goes by steps no longer than that, so it walks over an array inside of the element, or over
    /// everything (a `memset`), which shows no fields.
    pub(crate) fn add_site(&mut self, bytes: u64, element_bytes: u64, places: &BTreeMap<u64, u64>, is_dense: bool) {
        let span = places.keys().next_back().zip(places.keys().next()).map_or(0, |(last, first)| last + bytes - first);
        let is_inside = places.values().sum::<u64>() >= ENOUGH_TO_SPAN && span * 2 < element_bytes;
        if is_dense && !is_inside {
            return;
        }
        let extent = |&from: &u64| Extent { from, to: from.saturating_add(bytes.max(1)).min(element_bytes) };
        let ranges: Vec<Seen> = places.iter().map(|(from, &seen)| (extent(from), seen)).collect();
        for run in ranges.chunk_by(|(before, _), (next, _)| next.from <= before.to) {
            // What is moved by vectors, or by all of its words, is copied as a whole: no array.
            let is_array = run.len() >= LEAST_ELEMENTS
                && bytes <= WORD_BYTES
                && run.iter().map(|(extent, _)| extent.bytes()).sum::<u64>() < element_bytes;
            let run = if is_array { self.without_strays(run) } else { run };
            if is_array && let Some(&(first, _)) = run.first() {
                let whole = run.iter().fold(first, |whole, &(extent, _)| whole.joined(extent));
                let arrays = if bytes == 1 { &mut self.texts } else { &mut self.ranges };
                *arrays.entry(whole).or_default() += run.iter().map(|(_, seen)| seen).sum::<u64>();
            } else {
                run.iter().for_each(|&(extent, seen)| *self.ranges.entry(extent).or_default() += seen);
            }
        }
    }

    /// An array without the places at its ends that were hardly seen: a sample's address may be one step off. They count
    /// for themselves.
    fn without_strays<'r>(&mut self, run: &'r [Seen]) -> &'r [Seen] {
        let mean = run.iter().map(|(_, seen)| seen).sum::<u64>() as f64 / run.len() as f64;
        let is_own = |(_, seen): &Seen| *seen as f64 >= STRAY * mean;
        // One at least is as often seen as the mean.
        let first = run.iter().position(is_own).unwrap_or(0);
        let end = run.iter().rposition(is_own).map_or(run.len(), |last| last + 1);
        for &(extent, seen) in run[..first].iter().chain(&run[end..]) {
            *self.ranges.entry(extent).or_default() += seen;
        }
        &run[first..end]
    }

    /// Fields (from, to), in order; none overlap, and together they are all that was accessed.
    pub(crate) fn fields(self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<Seen> = self.ranges.into_iter().collect();
        ranges.sort_by_key(|&(extent, _)| (extent.bytes(), extent.from));
        let (mut texts, mut copies): (Vec<Seen>, Vec<Seen>) = (Vec::new(), Vec::new());
        for (text, seen) in self.texts {
            let by_words: u64 = ranges.iter().filter(|(extent, _)| text.holds(*extent)).map(|(_, seen)| seen).sum();
            let is_text = seen as f64 >= NOISE * (seen + by_words) as f64;
            match texts.last_mut().filter(|(last, _)| text.from < last.to) {
                Some((last, known)) if is_text => (*last, *known) = (last.joined(text), *known + seen),
                _ if is_text => texts.push((text, seen)),
                _ => copies.push((text, seen)),
            }
        }
        ranges.splice(0..0, texts);
        ranges.extend(copies);
        let mut fields: Vec<Seen> = Vec::new();
        for (extent, seen) in ranges {
            add(&mut fields, extent, seen);
        }
        fields.sort_unstable();
        fields.into_iter().map(|(extent, _)| (extent.from, extent.to)).collect()
    }
}

/// Adds a range to fields that narrower ones made.
fn add(fields: &mut Vec<Seen>, extent: Extent, seen: u64) {
    let overlaps = |field: &Extent| field.from < extent.to && extent.from < field.to;
    let mut inside: Vec<Seen> = fields.iter().copied().filter(|(field, _)| overlaps(field)).collect();
    inside.sort_unstable();
    let by_narrow: u64 = inside.iter().map(|(_, seen)| seen).sum();
    let is_told = by_narrow as f64 >= NOISE * (by_narrow + seen) as f64;
    let is_several = inside.iter().filter(|(field, _)| extent.holds(*field) && *field != extent).count() > 1;
    if inside.is_empty() || is_told && (is_several || extent.bytes() > WORD_BYTES) {
        let mut from = extent.from;
        for (field, _) in &inside {
            if from < field.from {
                fields.push((Extent { from, to: field.from }, seen));
            }
            from = from.max(field.to);
        }
        if from < extent.to {
            fields.push((Extent { from, to: extent.to }, seen));
        }
        return;
    }
    fields.retain(|(field, _)| !overlaps(field));
    let whole = inside.iter().map(|&(field, _)| field).fold(extent, Extent::joined);
    fields.push((whole, by_narrow.saturating_add(seen)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ELEMENT_BYTES: u64 = 64;

    /// The fields by instructions, each with its width and the (offset, times) it was seen at.
    fn fields(sites: &[(u64, &[(u64, u64)])]) -> Vec<(u64, u64)> {
        let mut extents = Extents::default();
        for &(bytes, places) in sites {
            extents.add_site(bytes, ELEMENT_BYTES, &places.iter().copied().collect(), false);
        }
        extents.fields()
    }

    #[test]
    fn one_wide_store_makes_no_wide_field() {
        let clears = (16, &[(0, 5)][..]);
        assert_eq!(fields(&[(8, &[(0, 90)]), (8, &[(8, 70)]), clears]), [(0, 8), (8, 16)]);
        assert_eq!(fields(&[(8, &[(0, 90)]), clears]), [(0, 8), (8, 16)], "the rest is the store's alone");
        assert_eq!(fields(&[clears]), [(0, 16)], "nothing else tells");
        // A pair of 4 bytes is set by one store of 8.
        assert_eq!(fields(&[(4, &[(0, 9)]), (4, &[(4, 9)]), (8, &[(0, 5)])]), [(0, 4), (4, 8)]);
        // A structure of 24 bytes is copied by stores of 16 that overlap.
        assert_eq!(
            fields(&[(8, &[(0, 9)]), (8, &[(8, 9)]), (8, &[(16, 9)]), (16, &[(0, 5)]), (16, &[(8, 5)])]),
            [(0, 8), (8, 16), (16, 24)]
        );
        // What no narrow access reaches begins and ends where they do.
        assert_eq!(fields(&[(8, &[(0, 9)]), (4, &[(12, 9)]), (32, &[(0, 5)])]), [(0, 8), (8, 12), (12, 16), (16, 32)]);
    }

    #[test]
    fn half_of_a_field_is_no_field() {
        assert_eq!(fields(&[(8, &[(0, 9)]), (4, &[(0, 9)])]), [(0, 8)]);
        assert_eq!(fields(&[(8, &[(0, 9)]), (1, &[(7, 9)])]), [(0, 8)]);
        // Neither are single bytes, if hardly anything reads them.
        assert_eq!(fields(&[(8, &[(0, 990)]), (1, &[(0, 1)]), (1, &[(5, 1)])]), [(0, 8)]);
        // At odd places.
        assert_eq!(fields(&[(8, &[(0, 9)]), (8, &[(4, 9)])]), [(0, 12)]);
    }

    #[test]
    fn bytes_of_a_text_are_one_field() {
        let bytes: Vec<(u64, u64)> = (24..40).map(|offset| (offset, 3)).collect();
        assert_eq!(fields(&[(1, &bytes), (8, &[(16, 9)])]), [(16, 24), (24, 40)]);
        // As memcmp reads it besides, by words and vectors.
        assert_eq!(fields(&[(1, &bytes), (8, &[(24, 9)]), (8, &[(32, 9)]), (16, &[(24, 9)])]), [(24, 40)]);
        assert_eq!(fields(&[(1, &bytes[..8]), (1, &bytes[2..])]), [(24, 40)], "two loops over parts of it");
        // Now and then only: what copies two words byte by byte.
        assert_eq!(fields(&[(1, &bytes), (8, &[(24, 990)]), (8, &[(32, 990)])]), [(24, 32), (32, 40)]);
        // Children of a tree's node, chosen by one instruction.
        assert_eq!(fields(&[(8, &[(0, 9), (8, 9)])]), [(0, 8), (8, 16)]);
        // All words of an element, one after another: a copy.
        let words: Vec<(u64, u64)> = (0..8).map(|word| (8 * word, 3)).collect();
        assert_eq!(fields(&[(8, &words)]).len(), 8);
    }

    #[test]
    fn a_walk_over_everything_shows_no_fields_and_one_over_a_part_does() {
        let walked = |bytes: u64, places: &[u64], seen: u64| {
            let mut extents = Extents::default();
            extents.add_site(bytes, ELEMENT_BYTES, &places.iter().map(|&place| (place, seen)).collect(), true);
            extents.fields()
        };
        assert_eq!(walked(1, &[8, 9, 10, 11, 12, 13], 9), [(8, 14)]);
        assert_eq!(walked(8, &[0, 8, 16, 24, 32, 40, 48, 56], 9), []);
        assert_eq!(walked(8, &[8, 48, 56], 9), [], "seen in both halves");
        assert_eq!(walked(1, &[8, 9, 10, 11, 12, 13], 1), [], "too few to tell");
        assert_eq!(walked(8, &[], 0), []);
        // One address was a step off; the field before it stays as it is.
        let bytes: Vec<(u64, u64)> = (8..20).map(|offset| (offset, 13)).chain([(7, 1)]).collect();
        assert_eq!(fields(&[(1, &bytes), (8, &[(0, 9)])]), [(0, 8), (8, 20)]);
    }

    proptest! {
        #[test]
        fn fields_are_all_that_was_accessed_and_do_not_overlap(
            sites in prop::collection::vec(
                (prop::sample::select(vec![1_u64, 2, 4, 8, 16, 32]), prop::collection::btree_map(0_u64..ELEMENT_BYTES, 1_u64..50, 1..9)),
                1..12,
            ),
        ) {
            let mut extents = Extents::default();
            let mut accessed = [false; ELEMENT_BYTES as usize];
            for (bytes, places) in &sites {
                extents.add_site(*bytes, ELEMENT_BYTES, places, false);
                for &from in places.keys() {
                    accessed[from as usize..(from + bytes).min(ELEMENT_BYTES) as usize].fill(true);
                }
            }
            let fields = extents.fields();
            prop_assert!(fields.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{:?}", fields);
            let mut covered = [false; ELEMENT_BYTES as usize];
            fields.iter().for_each(|&(from, to)| covered[from as usize..to as usize].fill(true));
            prop_assert_eq!(covered, accessed);
        }
    }
}
