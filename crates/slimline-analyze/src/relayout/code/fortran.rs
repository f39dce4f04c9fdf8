//! What is Fortran's own of a layout: it has no alignment, no `->` and no index from 0.

use slimline_attribute::tables::Language;

use super::{alignment, field_name, line_name, part_name};
use crate::full_trace::object_structures::StructureShape;
use crate::relayout::candidates::{Candidate, Change};

/// The field behind all others that makes elements as large as the layout has them, where it is one that is aligned.
pub(super) fn padding(structure: &StructureShape, candidate: &Candidate) -> Option<String> {
    if !is_fortrans(structure) || candidate.change != Change::Align {
        return None;
    }
    let bytes = |from: u32| structure.fields.iter().find(|field| field.offset == from).map_or(0, |field| field.bytes);
    let end = candidate.layout.fields().iter().map(|field| field.to + bytes(field.from)).max()?;
    let missing = candidate.layout.parts()[0].bytes.checked_sub(end).filter(|missing| *missing > 0)?;
    Some(format!("integer(kind=1), dimension({missing}) :: padding"))
}

/// The type of a field that there is once for each lane.
pub(super) fn lanes(type_name: &str, lanes: u32) -> String {
    match type_name.strip_suffix(')').filter(|_| type_name.contains(", dimension(")) {
        // The last index is the one that goes farthest.
        Some(dimensions) => format!("{dimensions},{lanes})"),
        None => format!("{type_name}, dimension({lanes})"),
    }
}

/// How the program uses it then.
pub(super) fn usage(structure: &StructureShape, candidate: &Candidate, name: &str) -> String {
    let field = |part: usize| {
        let field = candidate.parts.get(part).and_then(|part| part.first());
        field.map(|field| field_name(&structure.fields[*field])).unwrap_or_default()
    };
    let aligned =
        "Fortran has no alignment: for arrays that begin on a line c_f_pointer of what C's aligned_alloc returns";
    match candidate.change {
        Change::Reorder => {
            "nothing else changes, but where sequence, bind(c), a constructor without keywords or unformatted output relies on the order"
                .to_owned()
        }
        Change::Align if structure.is_columns => {
            let (name, field) = (line_name(structure), field(0));
            format!("{field} has elements of type({name}): {field}(i) becomes {field}(i)%{field}. {aligned}")
        }
        Change::Align => aligned.to_owned(),
        Change::Pool => format!(
            "take them from one array of many type({name}), allocatable and target, handed out one behind the other: ptr => pool(next)"
        ),
        Change::HotCold => {
            let parts = if candidate.is_pool { "both parts from arrays" } else { "the cold parts from an array" };
            format!("node%{0} becomes node%cold%{0}, {parts} of their own: side by side they would share lines", field(1))
        }
        Change::Merge => {
            let of_part = |(number, part): (usize, &Vec<usize>)| {
                let (name, field) = (part_name(structure, part), field_name(&structure.fields[part[0]]));
                let begins = match alignment(candidate, number) {
                    _ if candidate.align == 0 => String::new(),
                    align => format!(" (which begins at a multiple of {align} bytes)"),
                };
                format!(
                    "{name}_items of type({name}) in the place of {} arrays{begins}: {field}(i) becomes {name}_items(i)%{field}",
                    part.len()
                )
            };
            let parts: Vec<String> = candidate.merged().map(of_part).collect();
            format!(
                "{}; whole arrays that are set, copied or handed on are its components then, which have gaps, or loops",
                parts.join("; ")
            )
        }
        Change::Split | Change::ArrayOfEach => {
            let part = part_name(structure, &candidate.parts[0]);
            format!("one array each: items(i)%{0} becomes items_{part}(i)%{0}", field(0))
        }
        Change::Blocks => {
            let lanes = candidate.layout.parts()[0].lanes;
            format!(
                "items(i)%{0} becomes items((i - 1) / {lanes} + 1)%{0}(mod(i - 1, {lanes}) + 1): loops over whole blocks, with one over lanes inside",
                field(0)
            )
        }
        // Of types and pointers that only other languages have.
        Change::Inline | Change::Shrink | Change::BitFields | Change::Indexes => String::new(),
    }
}

fn is_fortrans(structure: &StructureShape) -> bool {
    structure.language == Language::Fortran
}

#[cfg(test)]
mod tests {
    use super::super::definitions;
    use super::*;
    use crate::relayout::candidates::tests::structure;
    use crate::relayout::candidates::{Objects, candidates};
    use crate::relayout::visits::Visits;

    fn all(in_arrays: u64) -> Vec<(Change, String)> {
        let mut shape = structure(56, &[("t", 8), ("hist", 40), ("q", 8)]);
        shape.language = Language::Fortran;
        shape.name = "type(cell)".to_owned();
        let types = ["real(kind=8)", "real(kind=8), dimension(5)", "real(kind=8)"];
        shape.fields.iter_mut().zip(types).for_each(|(field, name)| field.type_name = name.to_owned());
        let visits =
            Visits { accesses: 2000, in_arrays, most_elements: 100, ..Visits::of(&[(0b101, 1000), (0b010, 1)]) };
        let found = candidates(&shape, &visits, Objects { count: 100, otherwise: 0, apart: 0 }).unwrap();
        found.iter().map(|of| (of.change, definitions(&shape, of))).collect()
    }

    fn first(all: &[(Change, String)], change: Change) -> &str {
        &all.iter().find(|(of, _)| *of == change).unwrap().1
    }

    #[test]
    fn arrays_come_apart_as_fortran_writes_it() {
        let all = all(2000);
        assert_eq!(
            first(&all, Change::Split),
            "type :: cell_t_q\n    real(kind=8) :: t\n    real(kind=8) :: q\nend type\n\
             type :: cell_hist\n    real(kind=8), dimension(5) :: hist\nend type\n\
             ! one array each: items(i)%t becomes items_t_q(i)%t\n"
        );
        assert_eq!(
            first(&all, Change::Align),
            "type :: cell\n    real(kind=8) :: t\n    real(kind=8), dimension(5) :: hist\n    real(kind=8) :: q\n    \
             integer(kind=1), dimension(8) :: padding\nend type\n\
             ! Fortran has no alignment: for arrays that begin on a line c_f_pointer of what C's\n\
             ! aligned_alloc returns\n"
        );
        assert_eq!(
            first(&all, Change::Blocks),
            "type :: cell_block\n    real(kind=8), dimension(8) :: t\n    real(kind=8), dimension(5,8) :: hist\n    \
             real(kind=8), dimension(8) :: q\nend type\n\
             ! items(i)%t becomes items((i - 1) / 8 + 1)%t(mod(i - 1, 8) + 1): loops over whole blocks,\n\
             ! with one over lanes inside\n"
        );
    }

    #[test]
    fn nodes_have_their_cold_part_behind_a_pointer() {
        let all = all(0);
        assert_eq!(
            first(&all, Change::HotCold),
            "type :: cell_cold\n    real(kind=8), dimension(5) :: hist\nend type\n\
             type :: cell\n    real(kind=8) :: t\n    real(kind=8) :: q\n    type(cell_cold), pointer :: cold\nend type\n\
             ! node%hist becomes node%cold%hist, the cold parts from an array of their own: side by\n\
             ! side they would share lines\n"
        );
        assert!(first(&all, Change::Pool).contains("one array of many type(cell)"));
    }
}
