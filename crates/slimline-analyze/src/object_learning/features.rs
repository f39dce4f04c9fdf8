//! Features of objects as columns of numbers.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::OfType;
use crate::full_trace::object_fields::{Field, Fields, Pointed};
use crate::full_trace::objects::Object;

/// Features of a type: own fields first, then those that most objects have.
const MOST_FEATURES: usize = 120;

/// What a feature is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeatureKind {
    /// A field of the object.
    Primary,
    /// A field of an object that it points to.
    Secondary,
    /// Where it lies: address, number of its allocation, index in its array.
    Place,
    /// Its size, or the line that allocates it.
    Kind,
}

/// Fields, and whose they are.
pub(super) struct KnownFields<'a> {
    pub(super) objects: &'a [Object],
    pub(super) fields: &'a Fields,
    /// By origin, offset and bytes.
    by_place: FxHashMap<(u32, u32, u32), &'a Field>,
    by_origin: FxHashMap<u32, Vec<&'a Field>>,
    /// Objects that any points to could be.
    numbers: FxHashMap<(u32, Pointed), u32>,
}

impl<'a> KnownFields<'a> {
    pub(super) fn of(objects: &'a [Object], fields: &'a Fields) -> Self {
        let (mut by_place, mut by_origin) = (FxHashMap::default(), FxHashMap::<u32, Vec<&Field>>::default());
        for field in &fields.fields {
            by_place.insert((field.origin, field.offset, field.bytes), field);
            by_origin.entry(field.origin).or_default().push(field);
        }
        let has_pointers = fields.fields.iter().any(Field::is_pointer);
        let number = |(number, object): (u32, &Object)| ((object.process, object.pointed()), number);
        let numbers = if has_pointers { (0..).zip(objects).map(number).collect() } else { FxHashMap::default() };
        Self { objects, fields, by_place, by_origin, numbers }
    }

    fn of_origin(&self, origin: u32) -> impl Iterator<Item = &'a Field> + '_ {
        self.by_origin.get(&origin).into_iter().flatten().copied()
    }

    fn place(&self, object: u32) -> u32 {
        self.fields.places.get(object as usize).copied().unwrap_or(u32::MAX)
    }

    /// The object that a field of an object points to.
    fn pointed(&self, field: &Field, object: u32) -> Option<u32> {
        let pointed = field.pointed(self.place(object))?;
        self.numbers.get(&(self.objects[object as usize].process, pointed)).copied()
    }
}

/// A feature's values, by object.
pub(super) struct Column {
    pub(super) kind: FeatureKind,
    pub(super) name: String,
    /// NaN where it is not known.
    pub(super) values: Vec<f64>,
    pub(super) changed: usize,
}

impl Column {
    fn new(kind: FeatureKind, name: &str, count: usize) -> Self {
        Self { kind, name: name.to_owned(), values: vec![f64::NAN; count], changed: 0 }
    }

    pub(super) fn known(&self) -> usize {
        self.values.iter().filter(|value| !value.is_nan()).count()
    }

    /// Least and greatest.
    pub(super) fn range(&self) -> (f64, f64) {
        let known = self.values.iter().copied().filter(|value| !value.is_nan());
        known.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (value.min(least), value.max(most)))
    }

    fn is_constant(&self) -> bool {
        let mut known = self.values.iter().filter(|value| !value.is_nan());
        let first = known.next();
        known.all(|value| Some(value) == first) && self.known() == self.values.len() || first.is_none()
    }
}

/// Its member without the structure.
fn member<'a>(name: &'a str, type_name: &str) -> &'a str {
    name.strip_prefix(type_name).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name)
}

impl OfType<'_> {
    /// All features that tell any of these objects from others.
    pub(super) fn columns(&self, known: &KnownFields<'_>, objects: &[u32]) -> Vec<Column> {
        let mut columns = self.primary(known, objects, None);
        columns.extend(self.secondary(known, objects, None));
        columns.sort_by_key(|column| (column.kind, std::cmp::Reverse(column.known())));
        columns.truncate(MOST_FEATURES);
        let of = |kind, name, value: &dyn Fn(&Object) -> Option<f64>| {
            let mut column = Column::new(kind, name, objects.len());
            for (cell, object) in column.values.iter_mut().zip(objects) {
                *cell = value(&known.objects[*object as usize]).unwrap_or(f64::NAN);
            }
            column
        };
        columns.extend([
            of(FeatureKind::Place, "address", &|object| Some(object.start as f64)),
            of(FeatureKind::Place, "number of allocation", &|object| Some(object.sequence.into())),
            of(FeatureKind::Place, "index in its array", &|object| object.index.map(f64::from)),
            of(FeatureKind::Kind, "size", &|object| Some(object.bytes as f64)),
            of(FeatureKind::Kind, "line that allocates it", &|object| Some(object.origin.into())),
        ]);
        columns.retain(|column| !column.is_constant());
        columns
    }

    /// Fields that no line's objects have pointers in; of a name only where one is asked for.
    pub(super) fn primary(&self, known: &KnownFields<'_>, objects: &[u32], only: Option<&str>) -> Vec<Column> {
        let mut columns: BTreeMap<(u32, u32), Column> = BTreeMap::new();
        let own = || self.origins.iter().flat_map(|origin| known.of_origin(*origin));
        let pointers: FxHashSet<(u32, u32)> =
            own().filter(|field| field.is_pointer()).map(|field| (field.offset, field.bytes)).collect();
        let mut names: FxHashMap<&str, (u32, u32)> = FxHashMap::default();
        for field in own().filter(|field| !pointers.contains(&(field.offset, field.bytes))) {
            let (name, key) = (member(&field.name, self.name), (field.offset, field.bytes));
            // Two fields that are stored at once are called by the first, and are as wide as both.
            let name = match *names.entry(name).or_insert(key) == key {
                true => name.to_owned(),
                false => format!("{name}, {} bytes at {}", field.bytes, field.offset),
            };
            if only.is_none_or(|only| only == name) {
                columns.entry(key).or_insert_with(|| Column::new(FeatureKind::Primary, &name, objects.len()));
            }
        }
        for (&(offset, bytes), column) in &mut columns {
            for (at, &object) in objects.iter().enumerate() {
                let origin = known.objects[object as usize].origin;
                let Some(field) = known.by_place.get(&(origin, offset, bytes)) else { continue };
                let place = known.place(object);
                column.values[at] = field.value(place).unwrap_or(f64::NAN);
                column.changed += usize::from(field.is_changed(place));
            }
        }
        columns.into_values().collect()
    }

    /// Fields of what fields point to, as many as may be features; of a name only where one is asked for.
    pub(super) fn secondary(&self, known: &KnownFields<'_>, objects: &[u32], only: Option<&str>) -> Vec<Column> {
        let mut columns: BTreeMap<(u32, u32, u32, &str), Column> = BTreeMap::new();
        for (at, &object) in objects.iter().enumerate() {
            let origin = known.objects[object as usize].origin;
            for pointer in known.of_origin(origin).filter(|field| field.is_pointer()) {
                let Some(other) = known.pointed(pointer, object) else { continue };
                let place = known.place(other);
                for field in known.of_origin(known.objects[other as usize].origin).filter(|field| !field.is_pointer()) {
                    let key = (pointer.offset, field.offset, field.bytes, field.name.as_str());
                    if !columns.contains_key(&key) {
                        let of_field = field.name.split_once('.').map_or(field.name.as_str(), |(_, member)| member);
                        let name = format!("{}->{of_field}", member(&pointer.name, self.name));
                        if columns.len() == MOST_FEATURES || only.is_some_and(|only| only != name) {
                            continue;
                        }
                        columns.insert(key, Column::new(FeatureKind::Secondary, &name, objects.len()));
                    }
                    let Some(column) = columns.get_mut(&key) else { continue };
                    column.values[at] = field.value(place).unwrap_or(f64::NAN);
                    column.changed += usize::from(field.is_changed(place));
                }
            }
        }
        columns.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_what_is_pointed_to_have_names() {
        assert_eq!((member("node.x", "node"), member("base.x", "node"), member("+8", "")), ("x", "base.x", "+8"));
    }
}
