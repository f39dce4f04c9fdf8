//! Types of two builds: sizes, holes, and fields that are new, gone, or elsewhere.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::declared_layout::{LINE_BYTES, crosses_line};

/// A type as one build declares it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeclaredType {
    /// Name as its language spells it.
    pub name: String,
    /// Where it is declared: file and line; none where not known.
    pub place: Option<(String, u32)>,
    /// Figures.
    pub figures: Figures,
    /// What of it is data, those of structures within it by their path, by offset.
    pub fields: Vec<DeclaredField>,
}

/// What a type's declaration comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Size.
    pub bytes: u64,
    /// Cache lines.
    pub lines: u64,
    /// Bytes of holes.
    pub hole_bytes: u64,
    /// Bytes behind the last member.
    pub padding_bytes: u64,
}

/// A field of a type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeclaredField {
    /// `pos.x`
    pub path: String,
    /// Where it begins.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
    /// Share of all that was measured which it has; 0 where nothing was.
    pub heat: f64,
}

/// Two builds' types of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeChange {
    /// Their name.
    pub name: String,
    /// Where the new one is declared.
    pub place: Option<(String, u32)>,
    /// Of the old build.
    pub old: Figures,
    /// Of the new one.
    pub new: Figures,
    /// Fields that only the new one has.
    pub added: Vec<DeclaredField>,
    /// Fields that only the old one has.
    pub gone: Vec<DeclaredField>,
    /// Fields that lie elsewhere, or are of another size.
    pub moved: Vec<MovedField>,
}

/// A field that lies elsewhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MovedField {
    /// As the new build has it; its heat is the larger one of both.
    pub field: DeclaredField,
    /// Where it began.
    pub old_offset: u64,
    /// What its size was.
    pub old_bytes: u64,
}

impl MovedField {
    /// Whether it begins on a later line than before.
    pub fn is_on_later_line(&self) -> bool {
        self.field.offset / LINE_BYTES > self.old_offset / LINE_BYTES
    }

    /// Whether it lies on two lines, and did not.
    pub fn crosses_newly(&self) -> bool {
        crosses_line(self.field.offset, self.field.bytes) && !crosses_line(self.old_offset, self.old_bytes)
    }
}

/// What became of types.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayoutChanges {
    /// Those that changed, by name.
    pub changed: Vec<TypeChange>,
    /// Types of the new build only; none where either did not tell all types.
    pub added: Vec<DeclaredType>,
    /// Types of the old build only, likewise.
    pub gone: Vec<DeclaredType>,
    /// How many are the same.
    pub same: u64,
}

/// Whether an old type is that new one.
type IsIt<'w> = &'w dyn Fn(&DeclaredType, &DeclaredType) -> bool;

/// Compares the types of two builds. Types are known again by name; of several of a name those of one file go together, first those that
/// are the same. Then others do, likewise, in their order, as a file may have another name now: not with a new one whose file was there
/// before, which is another type.
pub fn compare(old: &[DeclaredType], new: &[DeclaredType]) -> LayoutChanges {
    let mut changes = LayoutChanges::default();
    let mut by_name: BTreeMap<&str, [Vec<&DeclaredType>; 2]> = BTreeMap::new();
    for (side, types) in [old, new].into_iter().enumerate() {
        types.iter().for_each(|type_| by_name.entry(&type_.name).or_default()[side].push(type_));
    }
    let old_files: HashSet<&str> = old.iter().filter_map(file).collect();
    for [mut before, mut after] in by_name.into_values() {
        // Wherever it was moved to.
        let is_only_one = before.len() == 1 && after.len() == 1;
        let is_moved = |old: &DeclaredType, new: &DeclaredType| match (file(old), file(new)) {
            (Some(old), Some(new)) => is_only_one || old == new || !old_files.contains(new),
            _ => true,
        };
        let ways: [IsIt<'_>; 4] = [
            &|old, new| is_same(old, new) && file(old) == file(new),
            &|old, new| file(old) == file(new),
            &|old, new| is_same(old, new) && is_moved(old, new),
            &is_moved,
        ];
        for is_it in ways {
            before.retain(|old| {
                let Some(at) = after.iter().position(|new| is_it(old, new)) else { return true };
                let new = after.remove(at);
                match is_same(old, new) {
                    true => changes.same += 1,
                    false => changes.changed.push(change(old, new)),
                }
                false
            });
        }
        changes.gone.extend(before.into_iter().cloned());
        changes.added.extend(after.into_iter().cloned());
    }
    changes
}

fn file(type_: &DeclaredType) -> Option<&str> {
    type_.place.as_ref().and_then(|place| place.0.rsplit('/').next())
}

fn is_same(old: &DeclaredType, new: &DeclaredType) -> bool {
    let is_alike =
        |(a, b): (&DeclaredField, &DeclaredField)| (&a.path, a.offset, a.bytes) == (&b.path, b.offset, b.bytes);
    old.figures == new.figures
        && old.fields.len() == new.fields.len()
        && old.fields.iter().zip(&new.fields).all(is_alike)
}

fn change(old: &DeclaredType, new: &DeclaredType) -> TypeChange {
    // Of fields without a name the first of the one is the first of the other.
    let mut before: HashMap<&str, Vec<&DeclaredField>> = HashMap::new();
    for field in old.fields.iter().rev() {
        before.entry(&field.path).or_default().push(field);
    }
    let (mut added, mut moved) = (Vec::new(), Vec::new());
    for field in &new.fields {
        match before.get_mut(field.path.as_str()).and_then(Vec::pop) {
            None => added.push(field.clone()),
            Some(was) if (was.offset, was.bytes) == (field.offset, field.bytes) => {}
            Some(was) => moved.push(MovedField {
                field: DeclaredField { heat: field.heat.max(was.heat), ..field.clone() },
                old_offset: was.offset,
                old_bytes: was.bytes,
            }),
        }
    }
    let mut gone: Vec<DeclaredField> = before.into_values().flatten().cloned().collect();
    gone.sort_by_key(|field| field.offset);
    TypeChange {
        name: new.name.clone(),
        place: new.place.clone(),
        old: old.figures,
        new: new.figures,
        added,
        gone,
        moved,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn type_(name: &str, bytes: u64, fields: &[(&str, u64, u64, f64)]) -> DeclaredType {
        let field = |&(path, offset, bytes, heat): &(&str, u64, u64, f64)| DeclaredField {
            path: path.to_owned(),
            offset,
            bytes,
            heat,
        };
        let figures = Figures { bytes, lines: bytes.div_ceil(64), ..Figures::default() };
        DeclaredType {
            name: name.to_owned(),
            place: Some((format!("/src/{name}.c"), 7)),
            figures,
            fields: fields.iter().map(field).collect(),
        }
    }

    #[test]
    fn fields_are_followed() {
        let old =
            type_("body", 64, &[("x", 0, 8, 0.3), ("gone", 8, 4, 0.0), ("edge", 52, 12, 0.1), ("same", 16, 8, 0.0)]);
        let new =
            type_("body", 72, &[("extra", 0, 8, 0.0), ("x", 8, 8, 0.2), ("edge", 60, 12, 0.0), ("same", 16, 8, 0.0)]);
        let found = compare(&[old.clone(), type_("other", 8, &[])], &[new, type_("fresh", 4, &[])]);
        let [change] = found.changed.as_slice() else { panic!("{found:?}") };
        assert_eq!((change.old.bytes, change.new.lines), (64, 2));
        assert_eq!((change.added[0].path.as_str(), change.gone[0].path.as_str()), ("extra", "gone"));
        let moved: Vec<_> = change
            .moved
            .iter()
            .map(|moved| (moved.field.path.as_str(), moved.old_offset, moved.field.offset, moved.field.heat))
            .collect();
        assert_eq!(moved, [("x", 0, 8, 0.3), ("edge", 52, 60, 0.1)]);
        // 60 to 72 crosses byte 64, and begins on the same line as before.
        assert!(change.moved[1].crosses_newly() && !change.moved[1].is_on_later_line());
        assert!(!change.moved[0].crosses_newly());
        assert_eq!((found.added[0].name.as_str(), found.gone[0].name.as_str()), ("fresh", "other"));
        assert_eq!(compare(std::slice::from_ref(&old), std::slice::from_ref(&old)).same, 1);
    }

    /// Which of the old ones comes first says nothing.
    #[test]
    fn of_one_name_those_of_one_file_go_together() {
        let of =
            |file: &str, bytes| DeclaredType { place: Some((format!("/src/{file}"), 7)), ..type_("own", bytes, &[]) };
        let grown = |changes: &LayoutChanges| {
            changes.changed.iter().map(|change| (change.old.bytes, change.new.bytes)).collect::<Vec<_>>()
        };
        let found = compare(&[of("a.c", 8), of("b.c", 16)], &[of("b.c", 24)]);
        assert_eq!((grown(&found), found.gone), (vec![(16, 24)], vec![of("a.c", 8)]));
        // b.c was there before, so what is new in it is another type; c.c was not, and may be what a.c is called now.
        let found = compare(&[of("a.c", 8), of("b.c", 16)], &[of("b.c", 24), of("b.c", 32)]);
        assert_eq!((grown(&found), found.gone.len(), found.added), (vec![(16, 24)], 1, vec![of("b.c", 32)]));
        let found = compare(&[of("a.c", 8), of("b.c", 16)], &[of("b.c", 24), of("c.c", 32)]);
        assert_eq!((grown(&found), found.gone.len()), (vec![(16, 24), (8, 32)], 0));
        // Also where a type has become what another file's was.
        let found = compare(&[of("a.c", 8), of("b.c", 16)], &[of("a.c", 16), of("b.c", 24)]);
        assert_eq!((grown(&found), found.same), (vec![(8, 16), (16, 24)], 0));
        // The only one of its name is itself, wherever it was moved to.
        let other = |bytes| DeclaredType { name: "other".to_owned(), ..of("b.c", bytes) };
        let found = compare(&[of("a.c", 8), other(4)], &[of("b.c", 24), other(4)]);
        assert_eq!((grown(&found), found.same), (vec![(8, 24)], 1));
    }

    /// Two types of one name: the one that did not change stays itself, whichever comes first.
    #[test]
    fn of_one_name_those_that_are_the_same_go_together() {
        let small = type_("own", 16, &[("a", 0, 1, 0.0)]);
        let large = type_("own", 24, &[("a", 16, 1, 0.0)]);
        let larger = type_("own", 32, &[("a", 24, 1, 0.0)]);
        let found = compare(&[small.clone(), large], &[larger, small]);
        assert_eq!((found.same, found.changed.len()), (1, 1));
        assert_eq!((found.changed[0].old.bytes, found.changed[0].new.bytes), (24, 32));
    }
}
