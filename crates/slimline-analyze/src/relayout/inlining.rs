//! Which structures could be held by value where there are pointers to them.
//!
//! ```text
//!   struct planet { …; struct orbit *orbit; … }   each orbit is one planet's, and found by its pointer:
//!   struct planet { …; struct orbit orbit; … }    beside the planet's other fields, without the pointer's loads
//! ```
//!
//! A pass of its own tells whose pointers objects are found by ([`owners`](crate::full_trace::owners)); what comes of that is a layout as any other.

use super::candidates::{Objects, alignment, bare, pointee};
use crate::full_trace::object_structures::{Hold, Structured};
use crate::full_trace::owners::{Holder, Owned, OwningField};

/// Part of the objects that must have one owner.
const LEAST_OWNED: f64 = 0.9;
/// Part of the accesses to them that must come through it.
const LEAST_THROUGH: f64 = 0.5;
/// Fewer objects are not worth it.
const LEAST_OBJECTS: u64 = 8;

/// What is known of a field's pointers and of what they lead to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// Objects of the structure that is pointed to.
    pub objects: u64,
    /// Those that one element's pointer leads to.
    pub owned: u64,
    /// Those that several elements' pointers lead to.
    pub shared: u64,
    /// Those that outlived what pointed to them, or its pointer.
    pub outlived: u64,
    /// How often pointers of the field led to anything else.
    pub elsewhere: u64,
    /// Accesses to them through the field …
    pub through: u64,
    /// … and otherwise.
    pub otherwise: u64,
    /// Elements that have the field.
    pub elements: u64,
    /// Those of them whose pointer was seen to lead somewhere.
    pub leading: u64,
}

impl Ownership {
    /// Those that no pointer was seen to lead to.
    pub fn unowned(&self) -> u64 {
        self.objects.saturating_sub(self.owned + self.shared + self.outlived)
    }

    /// Part of the accesses that come through the field.
    pub fn part_through(&self) -> f64 {
        self.through as f64 / (self.through + self.otherwise).max(1) as f64
    }

    /// Why objects must stay behind their pointers.
    fn refused(&self) -> Option<NotInlined> {
        if self.shared > 0 {
            Some(NotInlined::Shared)
        } else if self.outlived > 0 {
            Some(NotInlined::Outlived)
        } else if self.elsewhere > 0 {
            Some(NotInlined::Elsewhere)
        } else if (self.owned as f64) < LEAST_OWNED * self.objects as f64 {
            Some(NotInlined::Unowned)
        } else if self.part_through() < LEAST_THROUGH {
            Some(NotInlined::Otherwise)
        } else {
            None
        }
    }
}

/// Why what is pointed to stays behind its pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotInlined {
    /// Several elements' pointers lead to one object.
    Shared,
    /// Some are used, or are there, when their element's pointer leads elsewhere, or the element was freed.
    Outlived,
    /// Some of the pointers lead to anything else: elements of arrays, say, or structures that begin with this one.
    Elsewhere,
    /// Of many no pointer is known that leads to them.
    Unowned,
    /// Most accesses to them do not come through the field.
    Otherwise,
    /// They are elements of arrays, or have something behind them.
    NotSingle,
    /// There may be objects of other types behind the pointer, as it has virtual functions.
    Polymorphic,
    /// It is a library's.
    Foreign,
}

/// Objects that are in the place of the pointers to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// Which field is what it pointed to.
    pub field: OwningField,
    /// Size of that.
    pub bytes: u32,
    /// And what it is aligned to.
    pub align: u32,
    /// Objects, and whose each is.
    pub objects: Vec<(u32, Holder)>,
    /// How it was.
    pub ownership: Ownership,
}

/// A field whose pointees can't be in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The field.
    pub field: OwningField,
    /// Why.
    pub why: NotInlined,
    /// Whose pointers its objects were found by; none where that was not asked.
    pub ownership: Option<Ownership>,
}

/// Fields of a structure that point to objects of another one, of which a trace has some; or why these can't be in their place whoever points to them.
pub fn pointer_fields(
    structured: &Structured,
    owner: u32,
    objects: impl Fn(u32) -> Objects,
) -> Vec<Result<OwningField, Refused>> {
    let shape = &structured.structures[owner as usize];
    if shape.is_foreign || shape.is_columns {
        return Vec::new();
    }
    let free = shape.fields.iter().enumerate().filter(|(_, field)| !field.is_shared && field.hold == Hold::None);
    let mut found = Vec::new();
    for (number, field) in free {
        let Some(name) = pointee(&field.type_name).map(bare) else { continue };
        let is_it = |of: &u32| {
            let other = &structured.structures[*of as usize];
            *of != owner && !other.is_columns && bare(&other.name) == name
        };
        let mut all = (0..structured.structures.len() as u32).filter(is_it);
        // Two of one name are not told from each other.
        let (Some(pointee), None) = (all.next(), all.next()) else { continue };
        let field = OwningField { owner, field: number, offset: field.offset, pointee };
        let Objects { count, otherwise, apart } = objects(pointee);
        if count < LEAST_OBJECTS {
            continue;
        }
        let of_it = &structured.structures[pointee as usize];
        let why = if of_it.is_foreign {
            Some(NotInlined::Foreign)
        } else if of_it.fields.iter().any(|field| field.hold == Hold::WithAll) {
            Some(NotInlined::Polymorphic)
        } else if (count.saturating_sub(apart.max(otherwise)) as f64) < LEAST_OWNED * count as f64 {
            Some(NotInlined::NotSingle)
        } else {
            None
        };
        found.push(why.map_or(Ok(field), |why| Err(Refused { field, why, ownership: None })));
    }
    found
}

/// What is known of a field, of so many elements that have it and objects that it may point to, as something to be tried.
///
/// # Errors
/// Why it is not.
pub fn inlined(
    structured: &Structured,
    (field, owned): (OwningField, Owned),
    (elements, objects): (u64, u64),
) -> Result<Inlined, Refused> {
    let Owned { objects: pairs, shared, outlived, elsewhere, through, otherwise } = owned;
    let mut holders: Vec<Holder> = pairs.iter().map(|(_, holder)| *holder).collect();
    holders.sort_unstable();
    holders.dedup();
    let (owned, leading) = (pairs.len() as u64, holders.len() as u64);
    let ownership = Ownership { objects, owned, shared, outlived, elsewhere, through, otherwise, elements, leading };
    if let Some(why) = ownership.refused() {
        return Err(Refused { field, why, ownership: Some(ownership) });
    }
    let shape = &structured.structures[field.pointee as usize];
    let align = shape.fields.iter().map(alignment).max().unwrap_or(1);
    Ok(Inlined { field, bytes: shape.bytes, align, objects: pairs, ownership })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::candidates::tests::structure;
    use super::*;
    use crate::full_trace::object_structures::{Filled, ObjectStructure, StructureShape};

    /// `struct owner { long key; struct part *part; struct part *other; struct owner *up; }`, and a part of 40 bytes.
    pub(crate) fn structured(parts: usize) -> Structured {
        let mut owner = structure(32, &[("key", 8), ("part", 8), ("other", 8), ("up", 8)]);
        owner.name = "struct owner".to_owned();
        let types = ["long", "struct part *", "const struct part *", "struct owner *"];
        owner.fields.iter_mut().zip(types).for_each(|(field, of)| field.type_name = of.to_owned());
        let part = StructureShape { name: "struct part".to_owned(), ..structure(40, &[("x", 8), ("rest", 32)]) };
        let of = |structure, filled| Some(ObjectStructure { structure, filled, skipped: 0 });
        let mut objects = vec![of(0, Filled::Array)];
        objects.extend(vec![of(1, Filled::One); parts]);
        Structured { structures: vec![owner, part], objects, ..Structured::default() }
    }

    const MANY: Objects = Objects { count: 100, otherwise: 0, apart: 0 };
    const FIELD: OwningField = OwningField { owner: 0, field: 1, offset: 8, pointee: 1 };

    /// So many parts that are each one owner's.
    pub(crate) fn owned(parts: u32) -> Owned {
        let objects = (0..parts).map(|part| (1 + part, Holder { object: 0, index: part.into() })).collect();
        Owned { objects, through: 90, otherwise: 10, ..Owned::default() }
    }

    #[test]
    fn pointers_to_other_structures_are_looked_at() {
        let mut all = structured(100);
        let why = |all: &Structured, objects| {
            let found = pointer_fields(all, 0, |_| objects);
            found.into_iter().map(|of| of.map(|of| of.offset).map_err(|of| of.why)).collect::<Vec<_>>()
        };
        assert_eq!(why(&all, MANY), [Ok(8), Ok(16)]);
        assert_eq!(pointer_fields(&all, 0, |_| MANY)[0], Ok(FIELD));
        assert_eq!(why(&all, Objects { count: 7, ..MANY }), []);
        assert_eq!(why(&all, Objects { apart: 11, ..MANY }), [Err(NotInlined::NotSingle); 2]);
        assert_eq!(why(&all, Objects { apart: 10, otherwise: 10, ..MANY }), [Ok(8), Ok(16)]);
        all.structures[1].fields[0].hold = Hold::WithAll;
        assert_eq!(why(&all, MANY), [Err(NotInlined::Polymorphic); 2]);
        all.structures[1].is_foreign = true;
        assert_eq!(why(&all, MANY), [Err(NotInlined::Foreign); 2]);
        all.structures[0].is_foreign = true;
        assert_eq!(why(&all, MANY), []);
        // Another one of that name.
        let mut all = structured(100);
        all.structures.push(all.structures[1].clone());
        assert_eq!(why(&all, MANY), []);
    }

    #[test]
    fn nearly_all_must_have_one_owner_and_be_found_through_it() {
        let all = structured(100);
        let tried = |owned| inlined(&all, (FIELD, owned), (150, 100));
        let found = tried(owned(95)).unwrap();
        assert_eq!((found.bytes, found.align, found.objects.len()), (40, 8, 95));
        let ownership = found.ownership;
        assert_eq!((ownership.unowned(), ownership.elements - ownership.leading), (5, 55));
        let why = |owned| tried(owned).map(|of| of.objects.len()).map_err(|of| of.why);
        assert_eq!(why(owned(90)), Ok(90));
        assert_eq!(why(owned(89)), Err(NotInlined::Unowned));
        assert_eq!(why(Owned { shared: 1, ..owned(95) }), Err(NotInlined::Shared));
        assert_eq!(why(Owned { outlived: 1, ..owned(95) }), Err(NotInlined::Outlived));
        assert_eq!(why(Owned { through: 50, otherwise: 50, ..owned(95) }), Ok(95));
        assert_eq!(why(Owned { through: 49, otherwise: 51, ..owned(95) }), Err(NotInlined::Otherwise));
        assert_eq!(why(Owned { elsewhere: 1, ..owned(95) }), Err(NotInlined::Elsewhere));
        // The same pointer led to two of them, one after the other.
        let mut again = owned(95);
        again.objects[1].1 = again.objects[0].1;
        assert_eq!(tried(again).unwrap().ownership.leading, 94);
    }
}
