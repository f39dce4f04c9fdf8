//! What the fields of structures were seen to hold: whether a narrower type would do.
//!
//! What is stored and never loaded is no matter: so all loads of a field must be known by themselves, with their values. One that
//! takes several fields at once, or a part of one, tells nothing of each, and that field keeps its type; but who copies whole elements
//! only moves what they hold.

use rustc_hash::FxHashMap;
use slimline_trace::stream::record::ValueKind;
use slimline_trace::stream::sites::{Site, SiteKind};

use super::elements::{ElementId, Fit, NO_ELEMENT};
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
}

impl HeldValues {
    /// An access that a site makes: of one of several, none tells its value.
    pub(super) fn access(
        &mut self,
        memory: &mut Memory<'_>,
        site: &Site,
        (kind, address, bytes): (SiteKind, u64, u64),
        own: &[u64],
    ) {
        let number = memory.live.find(address);
        let block = memory.live.block(number);
        let element = block.content.element();
        if element == NO_ELEMENT || !matches!(block.content.fit(), Fit::Whole | Fit::Repeats) {
            return;
        }
        let size = u64::from(memory.elements.get(element).declaration.bytes.max(1));
        let Some(within) = (address - block.start).checked_sub(block.content.skipped().into()) else { return };
        let offset = within % size;
        if offset == 0 && bytes.is_multiple_of(size) && site.kind == SiteKind::Copy {
            return;
        }
        // What reaches into the next element is of any field.
        let (place, width) = if offset + bytes > size { (0, size) } else { (offset, bytes) };
        let (Ok(place), Ok(width)) = (u32::try_from(place), u32::try_from(width)) else { return };
        let held = self.0.entry((element, place, width)).or_default();
        let is_load = kind != SiteKind::Store;
        held.is_loaded |= is_load;
        let is_one = matches!(site.kind, SiteKind::Load | SiteKind::Store | SiteKind::Update);
        // The last of its words.
        match (site.value, own.last()) {
            (Some(kind), Some(&word)) if is_one => {
                let values = held.values.get_or_insert_with(|| Values::new(kind, width));
                held.is_untold |= !values.is_of(kind);
                values.add(word);
            }
            _ => held.is_untold |= is_load,
        }
    }

    /// The narrower type of a field of an element, if its type allows one and all that was loaded of it is known.
    pub(super) fn narrower(&self, element: ElementId, field: &FieldShape) -> Option<Narrower> {
        if field.is_shared || field.hold != Hold::None || !matches!(field.bytes, 2 | 4 | 8) {
            return None;
        }
        let end = field.offset + field.bytes;
        let overlapping = self.0.iter().filter(|((of, place, width), _)| {
            *of == element && *place < end && field.offset < place.saturating_add(*width)
        });
        let mut own = None;
        for ((_, place, width), held) in overlapping {
            match (*place, *width) == (field.offset, field.bytes) {
                true if held.is_untold => return None,
                true => own = held.values.as_ref(),
                false if held.is_loaded => return None,
                false => {}
            }
        }
        let values = own?;
        let number = number(&field.type_name, values.kind)?;
        let (bytes, range) = values.narrower(number, ROOM)?;
        Some(Narrower { bytes, number, range })
    }
}

/// What numbers a type is of; none where it is none that has a narrower one. Instructions that only move a number do not tell what it is: then
/// the type's name must.
fn number(type_name: &str, kind: ValueKind) -> Option<Number> {
    const INTEGERS: [&str; 10] =
        ["short", "int", "long", "unsigned", "signed", "size_t", "ssize_t", "ptrdiff_t", "isize", "usize"];
    const OTHERS: [&str; 11] =
        ["enum ", "atomic", "Atomic", "volatile", "bool", "Bool", "struct ", "union ", "class ", "char", "::"];
    let has_other = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ' ');
    if OTHERS.iter().any(|other| type_name.contains(other)) || type_name.contains(has_other) {
        return None;
    }
    let has_width = |prefix: &str| {
        type_name.strip_prefix(prefix).is_some_and(|rest| rest.trim_end_matches("_t").parse::<u8>().is_ok())
    };
    let is_unsigned = ["u", "uint"].into_iter().any(has_width)
        || type_name.split(' ').any(|word| ["unsigned", "size_t", "usize"].contains(&word));
    let is_integer = is_unsigned
        || ["i", "int"].into_iter().any(has_width)
        || type_name.split(' ').all(|word| INTEGERS.contains(&word));
    let is_float = type_name.contains("double") || type_name.contains("float") || has_width("f");
    match kind {
        ValueKind::Float => Some(Number::Float),
        ValueKind::Integer if is_unsigned => Some(Number::Unsigned),
        ValueKind::Integer if is_integer => Some(Number::Signed),
        ValueKind::Unsigned if !is_float => Some(Number::Unsigned),
        ValueKind::Signed if !is_float => Some(Number::Signed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_narrower_types() {
        let of = |name| number(name, ValueKind::Integer);
        assert_eq!(["long", "ssize_t", "i64", "int"].map(of), [Some(Number::Signed); 4]);
        assert_eq!(["unsigned long", "uint32_t", "size_t", "usize", "u64"].map(of), [Some(Number::Unsigned); 5]);
        let others = ["enum color", "volatile int", "int[2]", "void *", "AtomicU64", "std::atomic<int>", "_Bool"];
        assert_eq!(others.map(of), [None; 7]);
        // As they are moved they may be anything.
        assert_eq!(["double", "f64", "node_t", "index_t"].map(of), [None; 4]);
        assert_eq!(number("index_t", ValueKind::Unsigned), Some(Number::Unsigned));
        assert_eq!(number("double", ValueKind::Float), Some(Number::Float));
        assert_eq!(number("long", ValueKind::Pointer), None);
    }
}
