//! What pointers lead to, as what could be in their place.

use std::collections::BTreeMap;

use serde::Serialize;
use slimline_analyze::full_trace::owners::OwningField;
use slimline_analyze::relayout::inlining::{Inlined, NotInlined, Ownership, Refused};

use super::{Facts, RelayoutReport, StructureRow};
use crate::cautions::Caution;

/// Whose pointers objects were found by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OwnershipRow {
    /// Objects that pointers may lead to.
    pub objects: u64,
    /// Those that one element's pointer leads to.
    pub owned: u64,
    /// Those that several elements' pointers lead to.
    pub shared: u64,
    /// Those that were used, or there, when their element's pointer led elsewhere, or were used when the element was freed.
    pub outlived: u64,
    /// How often pointers of the field led to what is no object by itself of that structure.
    pub elsewhere: u64,
    /// Those that no pointer was seen to lead to.
    pub unowned: u64,
    /// Part of the accesses to them that come through the field.
    pub through: f64,
    /// Elements that have the field.
    pub elements: u64,
    /// Those of them whose pointer was seen to lead to no object.
    pub elements_without: u64,
}

/// Objects that are in the place of the pointers to them, as is advised.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InlinedRow {
    /// The field that holds the pointers.
    pub field: String,
    /// The structure that they lead to.
    pub structure: String,
    /// Its size.
    pub bytes: u32,
    /// How it was.
    pub ownership: OwnershipRow,
    /// Where these objects are allocated, as `file:line`, where most are first: that falls away.
    pub allocated_at: Vec<String>,
}

/// A field whose pointers stay, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotInlinedRow {
    /// The field that holds the pointers.
    pub field: String,
    /// The structure that they lead to.
    pub structure: String,
    /// In words.
    pub reason: String,
    /// How it is; none where nothing of that matters.
    pub ownership: Option<OwnershipRow>,
}

impl OwnershipRow {
    fn of(ownership: &Ownership) -> Self {
        let &Ownership { objects, owned, shared, outlived, elsewhere, elements, leading, .. } = ownership;
        Self {
            objects,
            owned,
            shared,
            outlived,
            elsewhere,
            unowned: ownership.unowned(),
            through: ownership.part_through(),
            elements,
            elements_without: elements.saturating_sub(leading),
        }
    }
}

/// Names of a field and of the structure that its pointers lead to.
fn names(facts: &Facts<'_>, of: &OwningField) -> [String; 2] {
    let structures = &facts.structured.structures;
    let field = &structures[of.owner as usize].fields[of.field];
    [field.name.clone(), structures[of.pointee as usize].name.clone()]
}

impl InlinedRow {
    pub(super) fn of(facts: &Facts<'_>, inlined: &Inlined) -> Self {
        let [field, structure] = names(facts, &inlined.field);
        let mut of_origin: BTreeMap<u32, u64> = BTreeMap::new();
        for (object, _) in &inlined.objects {
            *of_origin.entry(facts.objects[*object as usize].origin).or_default() += 1;
        }
        let mut of_place: BTreeMap<String, u64> = BTreeMap::new();
        for (origin, count) in of_origin {
            let place = &facts.origins[origin as usize].allocated_at;
            if place.line > 0 {
                *of_place.entry(format!("{}:{}", place.file, place.line)).or_default() += count;
            }
        }
        let mut places: Vec<(String, u64)> = of_place.into_iter().collect();
        places.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let allocated_at = places.into_iter().map(|(place, _)| place).collect();
        let ownership = OwnershipRow::of(&inlined.ownership);
        Self { field, structure, bytes: inlined.bytes, ownership, allocated_at }
    }
}

impl RelayoutReport {
    /// Fields whose pointees can't be in their place, each with its structure.
    pub(crate) fn kept_pointers(&self) -> impl Iterator<Item = (&StructureRow, &NotInlinedRow)> {
        self.structures.iter().flat_map(|of| of.not_inlined.iter().map(move |row| (of, row)))
    }
}

impl NotInlinedRow {
    pub(super) fn of(facts: &Facts<'_>, refused: &Refused) -> Self {
        let [field, structure] = names(facts, &refused.field);
        let ownership = refused.ownership.as_ref().map(OwnershipRow::of);
        let reason = reason(refused.why, &field, &refused.ownership.unwrap_or_default());
        Self { field, structure, reason, ownership }
    }
}

fn reason(why: NotInlined, field: &str, of: &Ownership) -> String {
    let Ownership { objects, owned, shared, outlived, elsewhere, .. } = of;
    match why {
        NotInlined::Shared => format!("{shared} of {objects} objects are pointed to by several elements' {field}"),
        NotInlined::Outlived => {
            format!(
                "{outlived} of {objects} objects are used, or there, when {field} leads elsewhere, or are used when its element was freed"
            )
        }
        NotInlined::Elsewhere => format!(
            "{elsewhere} times {field} was seen to lead to what is no object by itself of that type: to an array, or to what begins with it, say"
        ),
        NotInlined::Unowned => {
            format!("of {objects} objects {owned} were seen to be pointed to by one element's {field}")
        }
        NotInlined::Otherwise => {
            format!("{:.1} % of the accesses to it do not come through {field}", 100.0 * (1.0 - of.part_through()))
        }
        NotInlined::NotSingle => "its objects are variables, arrays, or have something behind them".to_owned(),
        NotInlined::Polymorphic => {
            "it has virtual functions, so that there may be objects of other types behind the pointer".to_owned()
        }
        NotInlined::Foreign => "it is a library's".to_owned(),
    }
}

/// What to mind where it is done.
pub(super) fn cautions(row: &InlinedRow) -> Vec<Caution> {
    let InlinedRow { field, structure, ownership, .. } = row;
    let OwnershipRow { unowned, through, elements_without, .. } = ownership;
    let mut all = vec![Caution::of(&format!(
        "each {structure} was one element's in this run: {field} must not lead to what others use, nor be used when its element is gone or was copied; allocating and freeing falls away, which is not counted"
    ))];
    if *elements_without > 0 {
        all.push(Caution::of(&format!("{elements_without} elements have no {structure}, and get room for one")));
    }
    if *unowned > 0 {
        all.push(Caution::of(&format!(
            "{unowned} objects of {structure} that no {field} was seen to lead to stay as they are"
        )));
    }
    if *through < 0.995 {
        all.push(Caution::of(&format!(
            "{:.1} % of the accesses to {structure} come by other ways than {field}: pointers to it become pointers into the element",
            100.0 * (1.0 - through)
        )));
    }
    all
}
