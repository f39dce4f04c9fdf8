//! What pointers lead to, in sentences.

use std::path::Path;

use slimline_trace::escape::plain;

use super::super::number::{count, percent, plural};
use crate::relayout::{InlinedRow, NotInlinedRow, OwnershipRow, StructureRow};
use crate::source::seen_from;

/// Whose pointers objects were found by, and where they are allocated; files below `here` relative to it.
pub(crate) fn owned(of: &StructureRow, row: &InlinedRow, here: &Path) -> String {
    let OwnershipRow { objects, owned, elements, elements_without, through, .. } = row.ownership;
    let places: Vec<String> = row.allocated_at.iter().map(|at| plain(&seen_from(here, at))).collect();
    let places = if places.is_empty() { String::new() } else { format!(", allocated at {}", places.join(", ")) };
    let without = match elements_without {
        0 => format!("each of {} has one", plural(elements, "element")),
        _ => format!("{} of {} have none", count(elements_without), plural(elements, "element")),
    };
    format!(
        "{}: {} of {} bytes{places}, of which {} are found by the {} of one {} each and none by several, {} of the accesses through it; {without}.",
        plain(&row.structure),
        plural(objects, "object"),
        row.bytes,
        count(owned),
        plain(&row.field),
        plain(&of.name),
        percent(through),
    )
}

/// Why what a pointer leads to stays there.
pub(crate) fn left_alone(of: &StructureRow, row: &NotInlinedRow) -> String {
    let [structure, field, pointee, reason] =
        [&of.name, &row.field, &row.structure, &row.reason].map(|text| plain(text));
    format!("{structure}.{field}: {pointee} stays behind it: {reason}.")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tests::{text, two_structures};
    use super::*;
    use crate::relayout::RelayoutReport;

    /// Parts of the first structure are held by value, and of the second one there are some that are shared.
    pub(crate) fn two_with_pointers() -> RelayoutReport {
        let mut report = two_structures();
        let ownership = OwnershipRow {
            objects: 1000,
            owned: 990,
            shared: 0,
            outlived: 0,
            elsewhere: 0,
            unowned: 10,
            through: 0.75,
            elements: 2000,
            elements_without: 1010,
        };
        let [field, structure] = ["x", "struct part"].map(str::to_owned);
        let allocated_at = vec!["/src/moon/part.c:5".to_owned(), "/src/sky.c:9".to_owned()];
        report.structures[0].advice.as_mut().unwrap().inlined =
            Some(InlinedRow { field: field.clone(), structure: structure.clone(), bytes: 40, ownership, allocated_at });
        let ownership = Some(OwnershipRow { shared: 7, ..ownership });
        let reason = "7 of 1000 objects are shared".to_owned();
        report.structures[1].not_inlined = vec![NotInlinedRow { field, structure, reason, ownership }];
        report
    }

    #[test]
    fn owners_are_told() {
        let text = text(&two_with_pointers());
        let owned = "  struct part: 1,000 objects of 40 bytes, allocated at part.c:5, /src/sky.c:9, of which 990 are\n    \
                     found by the x of one struct body each and none by several, 75.0 % of the accesses through it;\n    \
                     1,010 of 2,000 elements have none.\n  Predicted:";
        assert!(text.contains(owned), "{text}");
        assert!(text.contains("\n  Lines that load or store the pointer: /src/sky.c:1,"), "{text}");
        let (_, alone) = text.split_once("LEAVE ALONE\n").unwrap();
        assert!(
            alone.contains("\n  struct one.x: struct part stays behind it: 7 of 1000 objects are shared.\n"),
            "{alone}"
        );
    }
}
