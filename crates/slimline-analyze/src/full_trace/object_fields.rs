//! What the fields of objects hold.
//!
//! ```text
//!   object 7, of malloc at mesh.c:12     + 0  x      1.5        first loaded value, or else last stored one
//!                                        + 8  y      2.5
//!                                        +16  next   0x4010 ──► the object that lived there, if any did
//! ```
//!
//! A field's value is what it held as it was loaded first: what a program puts into an object when it makes it, with what it may have
//! cleared before. What is stored later is not known when memory is asked for, so it is counted as a change only. Of a pointer it is the
//! first object that it pointed to.
//!
//! Fields are columns by what allocates their objects: 9 bytes for each object and field, 17 of pointers.

use std::fmt;

use rustc_hash::FxHashMap;
use slimline_trace::stream::decode::{Program, SiteId};
use slimline_trace::stream::record::ValueKind;
use slimline_trace::stream::sites::{Site, SiteKind};

use super::findings::field;
use super::heap::blocks::Blocks;
use super::heap::live_blocks::Group;

/// Fields of the objects that one line allocates: buffers that anything is put into have no more.
const MOST_FIELDS: u32 = 256;

/// What is known of a field of an object.
const STORED: u8 = 1;
const LOADED: u8 = 2;
const CHANGED: u8 = 4;

/// An object as pointers find it: by what it is, not by its number, as it may not have been accessed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pointed {
    /// Its block, as [`Object::sequence`](super::objects::Object::sequence).
    pub sequence: u32,
    /// Its place in its array; 0 of what is in none.
    pub index: u32,
}

impl Pointed {
    const NOTHING: Self = Self { sequence: u32::MAX, index: u32::MAX };
}

/// What a field holds, exactly: of integers beyond 2⁵³ a number with a fraction is another one's as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Held {
    /// Of up to 64 bits, with a sign or without one.
    Integer(i128),
    /// Its bits, as a number of 64.
    Float(u64),
}

impl Held {
    fn of(word: u64, kind: ValueKind, bytes: u32) -> Self {
        let unused = 64 - 8 * bytes.clamp(1, 8);
        match (kind, bytes) {
            (ValueKind::Float, 4) => Self::Float(f64::from(f32::from_bits(word as u32)).to_bits()),
            (ValueKind::Float, 8) => Self::Float(word),
            (ValueKind::Signed, _) => Self::Integer(((word << unused).cast_signed() >> unused).into()),
            _ => Self::Integer((word << unused >> unused).into()),
        }
    }

    /// The nearest number that there is.
    pub fn number(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Float(bits) => f64::from_bits(bits),
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Integer(integer) => integer.fmt(out),
            Self::Float(bits) => f64::from_bits(bits).fmt(out),
        }
    }
}

/// A field of the objects that one line allocates.
#[derive(Clone, Debug)]
pub struct Field {
    /// What allocates them, as [`Object::origin`](super::objects::Object::origin).
    pub origin: u32,
    /// From the object's beginning.
    pub offset: u32,
    /// Its width.
    pub bytes: u32,
    /// What it holds.
    pub kind: ValueKind,
    /// `node.x`; where the trace knows none, `+8`.
    pub name: String,
    site: u32,
    /// By the object's place among those of its origin.
    values: Vec<u64>,
    states: Vec<u8>,
    /// Of a field that ever pointed to an object.
    pointed: Vec<Pointed>,
    /// How often what it holds was looked up, and was the address of an object.
    looked_up: u64,
    found: u64,
}

impl Field {
    /// Of objects of one origin that hold these integers.
    #[cfg(test)]
    pub(crate) fn of_integers(name: &str, values: Vec<u64>, is_changed: bool) -> Self {
        let states = vec![if is_changed { STORED | LOADED | CHANGED } else { STORED | LOADED }; values.len()];
        let (name, kind, pointed) = (name.to_owned(), ValueKind::Unsigned, Vec::new());
        let (origin, offset, bytes) = (0, 0, 8);
        let (site, looked_up, found) = Default::default();
        Self { origin, offset, bytes, kind, name, site, values, states, pointed, looked_up, found }
    }

    /// What it holds in an object, by its place; none where nobody accessed it.
    pub fn held(&self, place: u32) -> Option<Held> {
        let place = place as usize;
        if self.states.get(place).is_none_or(|state| state & (STORED | LOADED) == 0) {
            return None;
        }
        Some(Held::of(self.values[place], self.kind, self.bytes))
    }

    /// The same as a number that is compared with others.
    pub fn value(&self, place: u32) -> Option<f64> {
        self.held(place).map(Held::number)
    }

    /// Whether something else was stored after it was loaded.
    pub fn is_changed(&self, place: u32) -> bool {
        self.states.get(place as usize).is_some_and(|state| state & CHANGED != 0)
    }

    /// The first object that it pointed to.
    pub fn pointed(&self, place: u32) -> Option<Pointed> {
        self.pointed.get(place as usize).copied().filter(|pointed| *pointed != Pointed::NOTHING)
    }

    /// Whether it is a pointer: by its type, or as most of what it holds that is no small number is the address of an object.
    pub fn is_pointer(&self) -> bool {
        self.kind == ValueKind::Pointer || self.found > 0 && 2 * self.found >= self.looked_up
    }

    /// In how many objects it was accessed.
    pub fn known(&self) -> usize {
        self.states.iter().filter(|state| **state & (STORED | LOADED) != 0).count()
    }
}

/// Fields of all objects so far.
#[derive(Debug, Default)]
pub(super) struct ObjectFields {
    /// By object: its place among those of its origin.
    places: Vec<u32>,
    /// By origin.
    origins: Vec<OfOrigin>,
    fields: Vec<Field>,
    by_place: FxHashMap<(Group, u32, u32), u32>,
}

#[derive(Clone, Debug, Default)]
struct OfOrigin {
    objects: u32,
    fields: u32,
    accesses: u64,
    /// Of these, those of copies.
    copied: u64,
}

/// Who looks up what a pointer points to.
pub(super) type Follow<'a> = &'a mut dyn FnMut(u64) -> Option<Pointed>;

impl ObjectFields {
    fn of_origin(&mut self, origin: Group) -> &mut OfOrigin {
        let needed = origin as usize + 1;
        if self.origins.len() < needed {
            self.origins.resize(needed, OfOrigin::default());
        }
        &mut self.origins[origin as usize]
    }

    /// The next object, of this origin.
    pub(super) fn add_object(&mut self, origin: Group) {
        let of = self.of_origin(origin);
        of.objects += 1;
        let place = of.objects - 1;
        self.places.push(place);
    }

    /// An access to an object of the origin.
    pub(super) fn access(&mut self, origin: Group, kind: SiteKind) {
        let of = self.of_origin(origin);
        of.accesses += 1;
        of.copied += u64::from(kind == SiteKind::Copy);
    }

    /// A load or store of a value in an object, so many bytes from its beginning.
    pub(super) fn value(
        &mut self,
        (object, origin): (u32, Group),
        offset: u32,
        (id, site): (SiteId, &Site),
        value: u64,
        follow: Follow<'_>,
    ) {
        let Some(kind) = site.value else { return };
        let bytes = site.size_bytes;
        let number = match self.by_place.get(&(origin, offset, bytes)) {
            Some(number) => *number,
            None => {
                let of = self.of_origin(origin);
                if of.fields == MOST_FIELDS {
                    return;
                }
                of.fields += 1;
                let number = self.fields.len() as u32;
                let ((name, values, states, pointed), (looked_up, found)) = Default::default();
                let site = id.0;
                self.fields.push(Field {
                    origin,
                    offset,
                    bytes,
                    kind,
                    name,
                    site,
                    values,
                    states,
                    pointed,
                    looked_up,
                    found,
                });
                self.by_place.insert((origin, offset, bytes), number);
                number
            }
        };
        let field = &mut self.fields[number as usize];
        if field.kind == ValueKind::Integer {
            // Another instruction may know better.
            field.kind = kind;
        }
        let place = self.places[object as usize] as usize;
        if field.values.len() <= place {
            field.values.resize(place + 1, 0);
            field.states.resize(place + 1, 0);
        }
        let state = &mut field.states[place];
        match (site.kind, *state & LOADED != 0) {
            (SiteKind::Load, false) => {
                *state |= LOADED;
                field.values[place] = value;
            }
            (SiteKind::Store, false) => {
                *state |= STORED;
                field.values[place] = value;
            }
            (SiteKind::Store, true) if field.values[place] != value => *state |= CHANGED,
            _ => {}
        }
        let is_known = field.pointed.get(place).is_some_and(|pointed| *pointed != Pointed::NOTHING);
        // A word that is no small number may be a pointer where its type does not say that it is none.
        let may_point = bytes == 8 && !matches!(kind, ValueKind::Float | ValueKind::Signed);
        if !is_known && may_point && value > u64::from(u16::MAX) {
            field.looked_up += 1;
            let Some(pointed) = follow(value) else { return };
            field.found += 1;
            if field.pointed.len() <= place {
                field.pointed.resize(place + 1, Pointed::NOTHING);
            }
            field.pointed[place] = pointed;
        }
    }

    /// With names: as what is allocated is declared, or as the instruction has it that accessed a field first, which knows the innermost
    /// structure only.
    pub(super) fn finish(mut self, program: &Program, blocks: &Blocks) -> Fields {
        for of in &mut self.fields {
            let (module, site) = program.site(SiteId(of.site));
            let elements = blocks.elements();
            let declared = || {
                let allocated = elements.named(blocks.site_of(of.origin)).element;
                elements.member_at(allocated, of.offset, of.bytes)
            };
            of.name = match site.field.is_none() {
                true => declared().unwrap_or_else(|| format!("+{}", of.offset)),
                false => with_outer(field(module, site), declared()),
            };
        }
        tell_elements_apart(&mut self.fields);
        let copied = |of: &OfOrigin| (of.copied, of.accesses);
        Fields { places: self.places, copied: self.origins.iter().map(copied).collect(), fields: self.fields }
    }
}

impl Fields {
    /// Those of this name, with its structure before it or without; of several lines that allocate the structure there are several.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Field> + 'a {
        let is_named =
            move |of: &&Field| of.name == name || of.name.split_once('.').is_some_and(|(_, own)| own == name);
        self.fields.iter().filter(is_named)
    }
}

/// The name of a member as the object is declared, if it is that of a structure within it: `inner.group` there is `of.in.group`.
fn with_outer(own: String, declared: Option<String>) -> String {
    let member = own.split_once('.').map_or(own.as_str(), |(_, member)| member);
    let is_within = |declared: &String| {
        declared.strip_suffix(member).is_some_and(|outer| outer.ends_with('.') && outer.matches('.').count() > 1)
    };
    declared.filter(is_within).unwrap_or(own)
}

/// Gives elements of an array that is a member their places: `points[]` at three offsets are `points[0]` to `points[2]`. One that nobody
/// accessed has none.
fn tell_elements_apart(fields: &mut [Field]) {
    let key = |of: &Field| (of.origin, of.bytes, of.name.clone());
    let mut offsets: FxHashMap<(u32, u32, String), Vec<u32>> = FxHashMap::default();
    for of in fields.iter().filter(|of| of.name.contains("[]")) {
        offsets.entry(key(of)).or_default().push(of.offset);
    }
    offsets.values_mut().for_each(|all| all.sort_unstable());
    for of in fields {
        if let Some(place) = offsets.get(&key(of)).and_then(|all| all.binary_search(&of.offset).ok()) {
            of.name = of.name.replacen("[]", &format!("[{place}]"), 1);
        }
    }
}

/// What the fields of all objects hold.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// By object: its place among those of its origin.
    pub places: Vec<u32>,
    /// By origin: accesses to its objects that copies made, and all of them.
    pub copied: Vec<(u64, u64)>,
    /// Fields; those of one origin in the order in which each was accessed first.
    pub fields: Vec<Field>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(kind: SiteKind, value: ValueKind, size_bytes: u32) -> Site {
        Site { value: Some(value), ..Site::new(kind, size_bytes) }
    }

    /// One object of origin 0 after these loads and stores, each at an offset.
    fn seen(accesses: &[(SiteKind, ValueKind, u32, u32, u64)]) -> ObjectFields {
        let mut fields = ObjectFields::default();
        fields.add_object(0);
        for &(kind, value, bytes, offset, word) in accesses {
            let mut follow = |at| (at == 0x40_0010).then_some(Pointed { sequence: 9, index: 2 });
            fields.value((0, 0), offset, (SiteId(0), &site(kind, value, bytes)), word, &mut follow);
        }
        fields
    }

    #[test]
    fn a_field_holds_what_was_loaded_first() {
        use SiteKind::{Load, Store};
        use ValueKind::{Float, Integer, Signed};
        let fields = seen(&[
            (Store, Signed, 4, 0, 0),
            (Store, Signed, 4, 0, 0xffff_fffe),
            (Load, Signed, 4, 0, 0xffff_fffe),
            (Store, Signed, 4, 0, 7),
            (Store, Float, 8, 8, 1.5_f64.to_bits()),
            (Store, Integer, 8, 16, 3),
            (Load, Float, 4, 24, 2.5_f32.to_bits().into()),
        ])
        .fields;
        let values: Vec<_> = fields.iter().map(|field| (field.offset, field.value(0), field.is_changed(0))).collect();
        assert_eq!(
            values,
            [(0, Some(-2.0), true), (8, Some(1.5), false), (16, Some(3.0), false), (24, Some(2.5), false)]
        );
        assert!(
            fields.iter().all(|field| !field.is_pointer() && field.value(1).is_none() && field.pointed(0).is_none())
        );
    }

    #[test]
    fn a_pointer_is_what_points_to_objects() {
        use SiteKind::{Load, Store};
        use ValueKind::{Integer, Pointer};
        let fields = seen(&[
            (Store, Integer, 8, 0, 0),
            (Load, Integer, 8, 0, 0),
            (Store, Integer, 8, 0, 0x40_0010),
            (Store, Pointer, 8, 8, 0),
        ])
        .fields;
        assert_eq!((fields[0].pointed(0), fields[0].is_pointer()), (Some(Pointed { sequence: 9, index: 2 }), true));
        assert_eq!((fields[1].pointed(0), fields[1].is_pointer()), (None, true));
    }

    #[test]
    fn integers_are_told_exactly() {
        use SiteKind::Load;
        use ValueKind::{Float, Signed, Unsigned};
        let fields = seen(&[
            (Load, Unsigned, 8, 0, u64::MAX - 1),
            (Load, Signed, 8, 8, (1 << 53) + 1),
            (Load, Signed, 2, 16, 0xffff),
            (Load, Float, 8, 24, 2.5_f64.to_bits()),
        ])
        .fields;
        let told: Vec<String> = fields.iter().map(|field| field.held(0).unwrap().to_string()).collect();
        assert_eq!(told, ["18446744073709551614", "9007199254740993", "-1", "2.5"]);
    }

    #[test]
    fn members_of_members_are_named_as_declared() {
        let of = |own: &str, declared: Option<&str>| with_outer(own.to_owned(), declared.map(str::to_owned));
        assert_eq!(of("inner.group", Some("of.in.group")), "of.in.group");
        assert_eq!(of("point.x", Some("mesh.points[].x")), "mesh.points[].x");
        // The same structure, another member of a union, a type of which nothing is known.
        assert_eq!(of("of.group", Some("of.group")), "of.group");
        assert_eq!(of("inner.group", Some("of.in.sub_group")), "inner.group");
        assert_eq!(of("inner.group", None), "inner.group");
    }

    #[test]
    fn elements_of_an_array_that_is_a_member_have_their_places() {
        let of = |origin, offset, bytes, name: &str| Field {
            origin,
            offset,
            bytes,
            ..Field::of_integers(name, vec![1], false)
        };
        let mut fields = [
            of(0, 16, 8, "node.points[]"),
            of(0, 0, 8, "node.points[]"),
            of(0, 8, 8, "node.points[]"),
            // Another width of them, another line's, and no array.
            of(0, 12, 4, "node.points[]"),
            of(1, 16, 8, "node.points[]"),
            of(0, 24, 8, "node.x"),
        ];
        tell_elements_apart(&mut fields);
        let names = fields.map(|of| of.name);
        let expected = ["points[2]", "points[0]", "points[1]", "points[0]", "points[0]", "x"];
        assert_eq!(names, expected.map(|name| format!("node.{name}")));
    }

    #[test]
    fn buffers_have_so_many_fields() {
        let kind = (SiteKind::Store, ValueKind::Integer);
        let fields = seen(&(0..2 * MOST_FIELDS).map(|at| (kind.0, kind.1, 1, at, 0)).collect::<Vec<_>>());
        assert_eq!(fields.fields.len(), MOST_FIELDS as usize);
    }
}
