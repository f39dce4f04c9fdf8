//! What the fields of structures were seen to hold: whether a narrower type would do.
//!
//! What is stored and never loaded is no matter: so all loads of a field must be known by themselves, with their values. One that
//! takes several fields at once, or a part of one, tells nothing of each, and that field keeps its type; but who copies whole elements
//! only moves what they hold. Where the structure is another one's member or on a stack, instructions count that name it.

use rustc_hash::FxHashMap;
use slimline_trace::stream::decode::SiteId;
use slimline_trace::stream::record::ValueKind;
use slimline_trace::stream::sites::{Site, SiteKind};

use super::elements::{ElementId, Elements, Fit, NO_ELEMENT};
use super::object_structures::{FieldShape, Hold};
use super::spots::Memory;
use super::values::{Range, Values};

/// Another run may have greater numbers: a narrower type must hold so many times what was seen.
pub const ROOM: u32 = 4;

/// A narrower type that a field could have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Narrower {
    /// Its size.
    pub bytes: u32,
    /// Numbers with a sign, without one, or with a fraction: as those that it holds now.
    pub number: Number,
    /// The least and the greatest that were seen.
    pub range: Range,
}

/// Bits that would hold what a field holds, if it shared bytes with others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FewBits {
    /// How many: [`MOST_BITS`] at most.
    pub bits: u32,
    /// With a sign.
    pub is_signed: bool,
    /// The least and the greatest that were seen; none of what has two values by its type.
    pub range: Option<Range>,
    /// The thread that stores it; none where nobody does. What several threads store has bytes of its own.
    pub storer: Option<u32>,
}

/// What has more bits shares a byte with hardly anything.
const MOST_BITS: u32 = 4;

/// Kinds of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Integers.
    Signed,
    /// Those without a sign.
    Unsigned,
    /// Numbers with a fraction.
    Float,
}

/// What fields of elements were seen to hold: by the element, the place of an access in it and its width.
#[derive(Debug, Default)]
pub(super) struct HeldValues(FxHashMap<(ElementId, u32, u32), Held>);

/// Accesses of a width to a place.
#[derive(Debug, Default)]
struct Held {
    values: Option<Values>,
    /// Some loaded what nobody told.
    is_untold: bool,
    is_loaded: bool,
    storer: Storer,
}

/// Who stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Storer {
    #[default]
    Nobody,
    One(u32),
    Several,
}

impl Storer {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nobody, other) => other,
            (own, other) if other == Self::Nobody || own == other => own,
            _ => Self::Several,
        }
    }
}

/// What an access does to a place of an element.
#[derive(Clone, Copy, Debug)]
struct Done {
    is_load: bool,
    storer: Storer,
    told: Option<(ValueKind, u64)>,
}

impl HeldValues {
    /// An access that a site makes in a thread: of one of several, none tells its value.
    pub(super) fn access(
        &mut self,
        memory: &mut Memory<'_>,
        (thread, id, site): (u32, SiteId, &Site),
        (kind, address, bytes): (SiteKind, u64, u64),
        own: &[u64],
    ) {
        let is_load = kind != SiteKind::Store;
        let is_one = matches!(site.kind, SiteKind::Load | SiteKind::Store | SiteKind::Update);
        // The last of its words.
        let told = site.value.filter(|_| is_one).zip(own.last().copied());
        let storer = if kind == SiteKind::Load { Storer::Nobody } else { Storer::One(thread) };
        let done = Done { is_load, storer, told };
        let number = memory.live.find(address);
        let block = memory.live.block(number);
        let element = block.content.element();
        // Also where the structure is another one's member, or on a stack: its type is one.
        let named = memory.elements.named(id);
        if is_one
            && named.element != NO_ELEMENT
            && named.element != element
            && let (Some(offset), Ok(width)) = (named.offset_bytes, u32::try_from(bytes))
        {
            self.add(memory.elements, (named.element, offset, width), done);
        }
        if element == NO_ELEMENT || !matches!(block.content.fit(), Fit::Whole | Fit::Repeats) {
            return;
        }
        let size = u64::from(memory.elements.get(element).declaration.bytes.max(1));
        let Some(within) = (address - block.start).checked_sub(block.content.skipped().into()) else { return };
        let offset = within % size;
        if offset == 0 && bytes.is_multiple_of(size) && site.kind == SiteKind::Copy && is_load {
            return;
        }
        // What reaches into the next element is of any field.
        let (place, width) = if offset + bytes > size { (0, size) } else { (offset, bytes) };
        if let (Ok(place), Ok(width)) = (u32::try_from(place), u32::try_from(width)) {
            self.add(memory.elements, (element, place, width), done);
        }
    }

    /// To an element, and to the structures that are its members.
    fn add(&mut self, elements: &Elements, at: (ElementId, u32, u32), done: Done) {
        let (element, place, width) = at;
        for part in &elements.get(element).parts {
            let Some(within) = place.checked_sub(part.offset_bytes).filter(|within| *within < part.bytes) else {
                continue;
            };
            for &member in &part.made_of {
                let size = elements.get(member).declaration.bytes.max(1);
                self.add(elements, (member, within % size, width), done);
            }
        }
        let held = self.0.entry(at).or_default();
        held.is_loaded |= done.is_load;
        held.storer = held.storer.and(done.storer);
        match done.told {
            Some((kind, word)) => {
                let values = held.values.get_or_insert_with(|| Values::new(kind, at.2));
                held.is_untold |= !values.is_of(kind);
                values.add(word);
            }
            None => held.is_untold |= done.is_load,
        }
    }

    /// The same by element.
    pub(super) fn places(&self) -> Places<'_> {
        let mut places = Places::default();
        for (&(element, place, width), held) in &self.0 {
            places.0.entry(element).or_default().push(HeldPlace { place, width, held });
        }
        places
    }
}

/// Accesses of a width to a place of an element.
#[derive(Debug)]
struct HeldPlace<'a> {
    place: u32,
    width: u32,
    held: &'a Held,
}

/// What fields of elements were seen to hold, by element.
#[derive(Debug, Default)]
pub(super) struct Places<'a>(FxHashMap<ElementId, Vec<HeldPlace<'a>>>);

/// What is known of a field.
#[derive(Clone, Copy, Debug, Default)]
enum Known<'a> {
    #[default]
    Nothing,
    Values(&'a Values),
    /// Not all that was loaded of it.
    InPart,
}

impl Places<'_> {
    /// Gives fields of an element, in their order, the narrower types and the bits that they could have: of those whose types allow that, and of
    /// which all that was loaded is known.
    pub(super) fn narrow(&self, element: ElementId, fields: &mut [FieldShape]) {
        let mut known = vec![Known::Nothing; fields.len()];
        let mut storers = vec![Storer::Nobody; fields.len()];
        for HeldPlace { place, width, held } in self.0.get(&element).into_iter().flatten() {
            let end = place.saturating_add(*width);
            let behind = fields.partition_point(|field| field.offset < end);
            for (field, (known, storer)) in fields[..behind].iter().zip(known.iter_mut().zip(&mut storers)) {
                if field.offset.saturating_add(field.bytes) <= *place {
                    continue;
                }
                *storer = storer.and(held.storer);
                let is_own = (*place, *width) == (field.offset, field.bytes);
                *known = match (*known, &held.values) {
                    (Known::Nothing, Some(values)) if is_own && !held.is_untold => Known::Values(values),
                    (known, _) if !is_own && !held.is_loaded => known,
                    _ => Known::InPart,
                };
            }
        }
        for (field, (known, storer)) in fields.iter_mut().zip(known.into_iter().zip(storers)) {
            if field.is_shared || field.hold != Hold::None {
                continue;
            }
            let few = |(bits, is_signed, range)| {
                let storer = match storer {
                    Storer::Nobody => None,
                    Storer::One(thread) => Some(thread),
                    Storer::Several => return None,
                };
                Some(FewBits { bits, is_signed, range, storer })
            };
            if ["bool", "_Bool"].contains(&field.type_name.as_str()) {
                field.few_bits = few((1, false, None));
            }
            let Known::Values(values) = known else { continue };
            let Some(number) = number(&field.type_name, values.kind).filter(|_| matches!(field.bytes, 1 | 2 | 4 | 8))
            else {
                continue;
            };
            field.narrower = values.narrower(number, ROOM).map(|(bytes, range)| Narrower { bytes, number, range });
            field.few_bits = values.bits(number, ROOM, MOST_BITS).and_then(|(bits, range)| {
                few((bits, number == Number::Signed && !matches!(range, Range::Unsigned(..)), Some(range)))
            });
        }
    }
}

/// What numbers a type is of, as its name says; none where it says nothing, or there is no narrower one: what else has numbers in it (an
/// enumeration, a structure of one member) loses its type.
fn number(type_name: &str, kind: ValueKind) -> Option<Number> {
    const SIGNED: [&str; 8] = ["short", "int", "long", "signed", "ssize_t", "ptrdiff_t", "isize", "off_t"];
    const UNSIGNED: [&str; 3] = ["unsigned", "size_t", "usize"];
    let has_width = |prefix: &str| {
        type_name.strip_prefix(prefix).is_some_and(|rest| rest.trim_end_matches("_t").parse::<u8>().is_ok())
    };
    let mut words = type_name.split(' ').filter(|word| *word != "const");
    let is_unsigned = ["u", "uint"].into_iter().any(has_width) || words.clone().any(|word| UNSIGNED.contains(&word));
    let is_integer = is_unsigned || ["i", "int"].into_iter().any(has_width) || words.all(|word| SIGNED.contains(&word));
    let is_known = !type_name.contains(['*', '[', '(', '<', '{', '&']) && !type_name.contains("char");
    match kind {
        ValueKind::Float => (["double", "f64"].contains(&type_name)).then_some(Number::Float),
        ValueKind::Pointer => None,
        _ if is_unsigned && is_known => Some(Number::Unsigned),
        _ if is_integer && is_known => Some(Number::Signed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_narrower_types() {
        for kind in [ValueKind::Integer, ValueKind::Signed, ValueKind::Unsigned] {
            let of = |name| number(name, kind);
            assert_eq!(["long", "ssize_t", "i64", "int", "long int", "int64_t"].map(of), [Some(Number::Signed); 6]);
            let unsigned = ["unsigned long", "uint32_t", "size_t", "usize", "u64", "short unsigned int"];
            assert_eq!(unsigned.map(of), [Some(Number::Unsigned); 6]);
            let others = ["enum color", "color_t", "volatile int", "int[2]", "void *", "unsigned int *", "AtomicU64"];
            assert_eq!(others.map(of), [None; 7]);
            let more = ["std::atomic<int>", "_Bool", "double", "f64", "NonZeroU32", "unsigned char", ""];
            assert_eq!(more.map(of), [None; 7]);
        }
        let of = |name| number(name, ValueKind::Float);
        assert_eq!(["double", "long", "real", "float"].map(of), [Some(Number::Float), None, None, None]);
        assert_eq!(number("long", ValueKind::Pointer), None);
    }

    /// Fields of eight bytes: one that is known, one of which a part is loaded, one of which a part is stored, one of another element's.
    #[test]
    fn all_loads_of_a_field_must_be_known() {
        let of = |is_loaded, word: Option<u64>, is_untold| Held {
            values: word.map(|word| {
                let mut values = Values::new(ValueKind::Integer, 8);
                values.add(word);
                values
            }),
            is_untold,
            is_loaded,
            storer: Storer::Nobody,
        };
        let all = [
            ((1, 0, 8), of(true, Some(7), false)),
            ((1, 8, 8), of(true, Some(7), false)),
            ((1, 12, 4), of(true, None, true)),
            ((1, 16, 8), of(true, Some(7), false)),
            ((1, 16, 2), of(false, None, false)),
            ((1, 24, 8), of(true, Some(7), true)),
            ((2, 32, 8), of(true, Some(7), false)),
            // Two of them at once.
            ((1, 40, 8), of(true, Some(7), false)),
            ((1, 40, 16), of(true, None, true)),
        ];
        let mut fields: Vec<FieldShape> = (0..6)
            .map(|at| FieldShape { type_name: "long".to_owned(), offset: 8 * at, bytes: 8, ..FieldShape::default() })
            .collect();
        HeldValues(all.into_iter().collect()).places().narrow(1, &mut fields);
        let narrowed: Vec<bool> = fields.iter().map(|field| field.narrower.is_some()).collect();
        assert_eq!(narrowed, [true, false, true, false, false, false]);
        assert_eq!(fields[0].narrower.map(|of| of.bytes), Some(1));
    }

    /// Flags of eight bytes: stored by nobody, by one thread, by two, and by two of which one clears it with the flag behind it; a `bool`.
    #[test]
    fn what_several_threads_store_has_bytes_of_its_own() {
        let held = |storer, is_loaded: bool| {
            let mut values = Values::new(ValueKind::Integer, 8);
            [0, 1].into_iter().for_each(|word| values.add(word));
            Held { values: is_loaded.then_some(values), is_untold: false, is_loaded, storer }
        };
        let two = Storer::One(1).and(Storer::One(2));
        let all = [
            ((1, 0, 8), held(Storer::Nobody, true)),
            ((1, 8, 8), held(Storer::One(3), true)),
            ((1, 16, 8), held(two, true)),
            ((1, 24, 8), held(Storer::One(1), true)),
            ((1, 24, 16), held(Storer::One(2), false)),
            ((1, 40, 1), held(Storer::One(2), false)),
        ];
        let long =
            |at: u32| FieldShape { type_name: "long".to_owned(), offset: 8 * at, bytes: 8, ..FieldShape::default() };
        let mut fields: Vec<FieldShape> = (0..5).map(long).collect();
        fields.push(FieldShape { type_name: "bool".to_owned(), offset: 40, bytes: 1, ..FieldShape::default() });
        HeldValues(all.into_iter().collect()).places().narrow(1, &mut fields);
        let of: Vec<_> = fields.iter().map(|field| field.few_bits.map(|few| (few.bits, few.storer))).collect();
        assert_eq!(of, [Some((1, None)), Some((1, Some(3))), None, None, None, Some((1, Some(2)))]);
    }
}
