//! What was loaded and stored, of programs that were compiled to tell it.
//!
//! A word says bits, not whether they have a sign: so least and greatest are kept both ways, and whoever shows them takes the
//! one that needs fewer bytes; where they need as many, the type of what is accessed decides. How many different values there were is estimated by linear counting (Whang, Vander-Zanden,
//! Taylor 1990): a bit of 1024 for each value, by its hash.

use std::cmp::Ordering;

use slimline_trace::stream::decode::{Program, SegmentId, SiteId, Told};
use slimline_trace::stream::sites::ValueKind;

use super::TraceBatch;
use super::held_values::Number;

/// All integers up to this keep their value in a number of 4 bytes with a fraction: one that is counted up stops there.
const EXACT_IN_SINGLE: f64 = 16_777_216.0;
/// Bits of a sketch of different values.
const SKETCH_BITS: u32 = 1024;
const SKETCH_WORDS: usize = SKETCH_BITS as usize / 64;

/// What is known of the values of a site, or of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// What they are.
    pub kind: ValueKind,
    /// Bytes of each.
    pub bytes: u32,
    /// How many.
    pub count: u64,
    /// How many of them were zero, or null.
    pub zeros: u64,
    /// Bits of the least and the greatest, without sign; of numbers with a fraction those of the number with a sign bit.
    unsigned: (u64, u64),
    signed: (i64, i64),
    /// Numbers with a fraction; none but those that are no number.
    float: Option<(f64, f64)>,
    /// All such numbers keep their value in 4 bytes.
    is_single: bool,
    sketch: [u64; SKETCH_WORDS],
}

/// The least and the greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// All of them as numbers without a sign.
    Unsigned(u64, u64),
    /// With one.
    Signed(i64, i64),
    /// With a fraction.
    Float(f64, f64),
}

impl Values {
    pub(super) fn new(kind: ValueKind, bytes: u32) -> Self {
        Self {
            kind,
            bytes,
            count: 0,
            zeros: 0,
            unsigned: (u64::MAX, 0),
            signed: (i64::MAX, i64::MIN),
            float: None,
            is_single: true,
            sketch: [0; SKETCH_WORDS],
        }
    }

    /// Whether they may be of that kind, too: instructions do not always tell whether an integer has a sign.
    pub(super) fn is_of(&mut self, kind: ValueKind) -> bool {
        if self.kind == ValueKind::Integer && matches!(kind, ValueKind::Signed | ValueKind::Unsigned) {
            self.kind = kind;
        }
        self.kind == kind || kind == ValueKind::Integer && self.kind != ValueKind::Float
    }

    pub(super) fn add(&mut self, word: u64) {
        self.count += 1;
        self.zeros += u64::from(word == 0);
        self.unsigned = (self.unsigned.0.min(word), self.unsigned.1.max(word));
        let unused = 64 - 8 * self.bytes.clamp(1, 8);
        let signed = (word << unused) as i64 >> unused;
        self.signed = (self.signed.0.min(signed), self.signed.1.max(signed));
        if self.kind == ValueKind::Float {
            self.add_float(word);
        }
        let hash = mixed(word) >> (64 - SKETCH_BITS.trailing_zeros());
        self.sketch[hash as usize / 64] |= 1 << (hash % 64);
    }

    fn add_float(&mut self, word: u64) {
        let number = if self.bytes == 4 { f64::from(f32::from_bits(word as u32)) } else { f64::from_bits(word) };
        if !number.is_nan() {
            let (least, greatest) = self.float.unwrap_or((number, number));
            self.float = Some((least.min(number), greatest.max(number)));
            self.is_single &= f64::from(number as f32) == number;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.zeros += other.zeros;
        self.unsigned = (self.unsigned.0.min(other.unsigned.0), self.unsigned.1.max(other.unsigned.1));
        self.signed = (self.signed.0.min(other.signed.0), self.signed.1.max(other.signed.1));
        self.float = match (self.float, other.float) {
            (Some(one), Some(two)) => Some((one.0.min(two.0), one.1.max(two.1))),
            (one, two) => one.or(two),
        };
        self.is_single &= other.is_single;
        self.sketch.iter_mut().zip(other.sketch).for_each(|(own, other)| *own |= other);
    }

    /// The least and the greatest; none where there is no number.
    pub fn range(&self) -> Option<Range> {
        match self.kind {
            ValueKind::Float => self.float.map(|(least, greatest)| Range::Float(least, greatest)),
            _ if self.count == 0 => None,
            ValueKind::Integer | ValueKind::Signed | ValueKind::Unsigned if self.is_signed() => {
                Some(Range::Signed(self.signed.0, self.signed.1))
            }
            _ => Some(Range::Unsigned(self.unsigned.0, self.unsigned.1)),
        }
    }

    /// The narrowest type that holds them all; none where that says nothing.
    pub fn narrowest(&self) -> Option<&'static str> {
        match self.kind {
            ValueKind::Pointer => None,
            ValueKind::Float => self.float.map(|_| if self.is_single { "float" } else { "double" }),
            _ if self.count == 0 => None,
            _ => Some(match (self.is_signed(), self.unsigned_bytes().min(self.signed_bytes())) {
                (false, 1) => "uint8_t",
                (false, 2) => "uint16_t",
                (false, 4) => "uint32_t",
                (false, _) => "uint64_t",
                (true, 1) => "int8_t",
                (true, 2) => "int16_t",
                (true, 4) => "int32_t",
                (true, _) => "int64_t",
            }),
        }
    }

    /// Bytes of the least type of the same numbers that is narrower than theirs and holds `room` times what they were, and that; none where no
    /// narrower one does.
    pub(super) fn narrower(&self, number: Number, room: u32) -> Option<(u32, Range)> {
        // Of a field that was only ever cleared nobody knows what it is for.
        if self.zeros == self.count {
            return None;
        }
        if number == Number::Float {
            let (least, greatest) = self.float.filter(|_| self.is_single && self.bytes == 8)?;
            let has_room = least.abs().max(greatest.abs()) * f64::from(room) <= EXACT_IN_SINGLE;
            return has_room.then_some((4, Range::Float(least, greatest)));
        }
        let (range, least, greatest) = self.integers(number, room);
        let bytes = bytes_of(number == Number::Signed, least, greatest)?;
        (bytes < self.bytes).then_some((bytes, range))
    }

    /// Bits that hold `room` times what integers were, or a single one where that was 0 and 1; none where it was only ever 0, or needs more than
    /// `most` bits.
    pub(super) fn bits(&self, number: Number, room: u32, most: u32) -> Option<(u32, Range)> {
        if self.zeros == self.count || number == Number::Float {
            return None;
        }
        if self.unsigned.1 == 1 {
            return Some((1, Range::Unsigned(0, 1)));
        }
        let (range, least, greatest) = self.integers(number, room);
        let bits = (1..=most).find(|bits| holds(*bits, number == Number::Signed, least, greatest))?;
        Some((bits, range))
    }

    /// What integers with a sign or without one were, and `room` times the ends of that.
    fn integers(&self, number: Number, room: u32) -> (Range, i128, i128) {
        let room = i128::from(room);
        match number {
            Number::Signed => {
                let (least, greatest) = self.signed;
                (Range::Signed(least, greatest), i128::from(least) * room, i128::from(greatest) * room)
            }
            Number::Unsigned | Number::Float => {
                let (least, greatest) = self.unsigned;
                (Range::Unsigned(least, greatest), i128::from(least) * room, i128::from(greatest) * room)
            }
        }
    }

    /// About how many different ones; none where there are too many to tell.
    pub fn distinct(&self) -> Option<u64> {
        let bits = f64::from(SKETCH_BITS);
        let clear = self.sketch.iter().map(|word| word.count_zeros()).sum::<u32>();
        // With fewer clear bits than that the estimate is off by more than a tenth.
        (clear >= SKETCH_BITS / 64).then(|| ((bits * (bits / f64::from(clear)).ln()).round() as u64).min(self.count))
    }

    fn is_signed(&self) -> bool {
        match self.signed_bytes().cmp(&self.unsigned_bytes()) {
            Ordering::Less => true,
            Ordering::Equal => self.kind == ValueKind::Signed && self.signed.0 < 0,
            Ordering::Greater => false,
        }
    }

    fn unsigned_bytes(&self) -> u32 {
        bytes_of(false, 0, self.unsigned.1.into()).unwrap_or(8)
    }

    fn signed_bytes(&self) -> u32 {
        bytes_of(true, self.signed.0.into(), self.signed.1.into()).unwrap_or(8)
    }
}

/// Bytes of the least type of integers that holds these, with a sign or without one; none where there is none.
fn bytes_of(is_signed: bool, least: i128, greatest: i128) -> Option<u32> {
    [1, 2, 4, 8].into_iter().find(|bytes| holds(8 * bytes, is_signed, least, greatest))
}

/// Whether integers of so many bits hold these.
const fn holds(bits: u32, is_signed: bool, least: i128, greatest: i128) -> bool {
    let beyond = 1_i128 << (bits - is_signed as u32);
    greatest < beyond && least >= if is_signed { -beyond } else { 0 }
}

/// A hash of a word, each bit of which depends on all of its (MurmurHash3's last steps): values often differ in a few only.
fn mixed(mut word: u64) -> u64 {
    word = (word ^ word >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word = (word ^ word >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}

/// Values of one run, by site.
#[derive(Debug, Default)]
pub struct SiteValues {
    /// By segment: where its values are.
    segments: Vec<Box<[Place]>>,
    sites: Vec<Option<Box<Values>>>,
    /// Whether any of them tells its values: most programs' do not.
    is_told: bool,
}

/// Which of a segment's words is a site's value.
#[derive(Clone, Copy, Debug)]
struct Place {
    site: SiteId,
    word: usize,
}

impl SiteValues {
    pub(super) fn update(&mut self, program: &Program, batch: &TraceBatch<'_>) {
        self.make_room(program);
        if !self.is_told {
            return;
        }
        for visits in batch.visits {
            let index = visits.segment.0 as usize;
            let places = &*self.segments[index];
            if places.is_empty() {
                continue;
            }
            for words in batch.words_of_each(*visits, program.segments()[index].words) {
                for place in places {
                    let values = self.sites[place.site.0 as usize].as_mut();
                    if let (Some(values), Some(word)) = (values, words.get(place.word)) {
                        values.add(*word);
                    }
                }
            }
        }
    }

    /// Whether the segment, which there is room for, tells any.
    pub(super) fn are_told(&self, segment: SegmentId) -> bool {
        !self.segments[segment.0 as usize].is_empty()
    }

    pub(super) fn make_room(&mut self, program: &Program) {
        self.sites.resize(program.site_count(), None);
        for segment in self.segments.len()..program.segments().len() {
            let mut places = Vec::new();
            for (Told { site, word, .. }, known) in program.sites_of(SegmentId(segment as u32)) {
                if let Some(kind) = known.value {
                    // The last of its words.
                    places.push(Place { site, word: word as usize + known.words() - 1 });
                    self.sites[site.0 as usize].get_or_insert_with(|| Box::new(Values::new(kind, known.size_bytes)));
                }
            }
            self.is_told |= !places.is_empty();
            self.segments.push(places.into());
        }
    }

    /// Values by site, of those that told any.
    pub fn sites(&self) -> impl Iterator<Item = (SiteId, &Values)> {
        let told = (0..).zip(&self.sites).filter_map(|(site, values)| Some((SiteId(site), values.as_deref()?)));
        told.filter(|(_, values)| values.count > 0)
    }
}

/// Puts values of one kind and size together under their names.
#[derive(Debug, Default)]
pub(super) struct NamedValues(std::collections::BTreeMap<(String, u32, ValueKind), Values>);

impl NamedValues {
    pub(super) fn add(&mut self, name: &str, values: &Values) {
        let key = (name.to_owned(), values.bytes, values.kind);
        self.0.entry(key).or_insert_with(|| Values::new(values.kind, values.bytes)).merge(values);
    }

    /// Most values first.
    pub(super) fn rows(self) -> Vec<(String, Values)> {
        let mut rows: Vec<_> = self.0.into_iter().map(|((name, ..), values)| (name, values)).collect();
        rows.sort_by_key(|(_, values)| std::cmp::Reverse(values.count));
        rows
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::stream::sites::{Site, SiteKind};

    use super::super::tests::Run;
    use super::*;

    fn values(kind: ValueKind, bytes: u32, words: &[u64]) -> Values {
        let site = Site { value: Some(kind), ..Site::new(SiteKind::Store, bytes) };
        let mut run = Run::new(&[&[Site::new(SiteKind::Load, 8), site]]);
        words.iter().for_each(|word| run.visit(0, &[0x1000, 0x2000, *word]));
        let mut values = SiteValues::default();
        values.update(run.program(), &run.batch());
        let [(SiteId(1), values)] = values.sites().collect::<Vec<_>>()[..] else { panic!() };
        values.clone()
    }

    #[test]
    fn integers_have_the_narrowest_type() {
        let minus = |number: i32| u64::from(number.cast_unsigned());
        for (words, range, narrowest) in [
            (&[0, 255][..], Range::Unsigned(0, 255), "uint8_t"),
            (&[7, 256], Range::Unsigned(7, 256), "uint16_t"),
            (&[minus(-1), 127], Range::Signed(-1, 127), "int8_t"),
            (&[minus(-1), 128], Range::Signed(-1, 128), "int16_t"),
            (&[minus(-40_000), 1], Range::Unsigned(1, minus(-40_000)), "uint32_t"),
            (&[0], Range::Unsigned(0, 0), "uint8_t"),
        ] {
            let found = values(ValueKind::Integer, 4, words);
            assert_eq!((found.range(), found.narrowest()), (Some(range), Some(narrowest)), "{words:?}");
        }
        // Both ways take four bytes.
        let words = [minus(-1), 1 << 20];
        for (kind, range, narrowest) in [
            (ValueKind::Integer, Range::Unsigned(1 << 20, minus(-1)), "uint32_t"),
            (ValueKind::Unsigned, Range::Unsigned(1 << 20, minus(-1)), "uint32_t"),
            (ValueKind::Signed, Range::Signed(-1, 1 << 20), "int32_t"),
        ] {
            let found = values(kind, 4, &words);
            assert_eq!((found.range(), found.narrowest()), (Some(range), Some(narrowest)), "{kind:?}");
        }
        // A sign that is not used.
        assert_eq!(values(ValueKind::Signed, 4, &[0, 255]).narrowest(), Some("uint8_t"));
        let zeros = values(ValueKind::Integer, 8, &[0, 5, 0]);
        assert_eq!((zeros.count, zeros.zeros, zeros.distinct()), (3, 2, Some(2)));
    }

    /// 0 and 1 are a bit whatever the type, also where it has a sign; else there is room for four times as much.
    #[test]
    fn few_bits_have_room() {
        let bits =
            |words: &[u64], number| values(ValueKind::Integer, 8, words).bits(number, 4, 4).map(|(bits, _)| bits);
        let both = |words: &[u64]| [bits(words, Number::Signed), bits(words, Number::Unsigned)];
        assert_eq!(both(&[0, 1]), [Some(1); 2]);
        assert_eq!(both(&[1]), [Some(1); 2]);
        // 8, which needs four bits, and one for the sign.
        assert_eq!(both(&[0, 2]), [None, Some(4)]);
        assert_eq!(both(&[3, 1]), [None, Some(4)]);
        assert_eq!(both(&[4]), [None; 2]);
        // Four times -1 and 1.
        assert_eq!(bits(&[u64::MAX, 1], Number::Signed), Some(4));
        assert_eq!(both(&[0, 0]), [None; 2]);
        assert_eq!(bits(&[1], Number::Float), None);
    }

    #[test]
    fn narrower_types_have_room() {
        let of =
            |kind, words: &[u64], number, room| values(kind, 8, words).narrower(number, room).map(|(bytes, _)| bytes);
        let minus = |number: i64| number.cast_unsigned();
        for (words, number, room, bytes) in [
            (&[0, 127][..], Number::Signed, 1, Some(1)),
            (&[0, 127], Number::Signed, 2, Some(2)),
            (&[0, 63], Number::Unsigned, 4, Some(1)),
            (&[0, 64], Number::Unsigned, 4, Some(2)),
            (&[minus(-32), 31], Number::Signed, 4, Some(1)),
            (&[minus(-33), 31], Number::Signed, 4, Some(2)),
            (&[1 << 30], Number::Unsigned, 4, None),
            (&[1 << 30], Number::Unsigned, 3, Some(4)),
            (&[minus(-1)], Number::Unsigned, 1, None),
        ] {
            assert_eq!(of(ValueKind::Integer, words, number, room), bytes, "{words:?} {number:?} {room}");
        }
        let float = |number: f64| of(ValueKind::Float, &[number.to_bits()], Number::Float, 4);
        assert_eq!([0.5, 0.1, 4e6, 5e6].map(float), [Some(4), None, Some(4), None]);
        assert_eq!(of(ValueKind::Integer, &[0, 0], Number::Signed, 4), None);
    }

    #[test]
    fn numbers_with_a_fraction() {
        let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        let found = values(ValueKind::Float, 8, &bits(&[1.5, -2.0, f64::NAN]));
        assert_eq!((found.range(), found.narrowest()), (Some(Range::Float(-2.0, 1.5)), Some("float")));
        assert_eq!(values(ValueKind::Float, 8, &bits(&[0.1])).narrowest(), Some("double"));
        let none = values(ValueKind::Float, 8, &bits(&[f64::NAN]));
        assert_eq!((none.range(), none.narrowest()), (None, None));
    }

    #[test]
    fn different_ones_are_counted_about() {
        for count in [1, 30, 1000] {
            let found = values(ValueKind::Integer, 8, &(0..count).map(|n| n * 8).collect::<Vec<_>>());
            let distinct = found.distinct().unwrap();
            assert!(distinct.abs_diff(count) <= count / 10, "{distinct} of {count}");
        }
        assert_eq!(values(ValueKind::Integer, 8, &(0..20_000).collect::<Vec<_>>()).distinct(), None);
    }
}
