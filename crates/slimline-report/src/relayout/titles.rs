//! What is advised, in a sentence.

use slimline_analyze::declared_layout::LINE_BYTES;
use slimline_analyze::full_trace::object_structures::StructureShape;
use slimline_analyze::relayout::candidates::{Candidate, Change, Retyped};

use crate::full_trace::known;

/// The change, and the other types that fields have beside it.
pub(super) fn title(shape: &StructureShape, candidate: &Candidate) -> String {
    let name = known(&shape.name).unwrap_or_else(|| "the structure".to_owned());
    let part = |part: &Vec<usize>| {
        let names: Vec<&str> = part.iter().map(|field| shape.fields[*field].name.as_str()).collect();
        format!("{{{}}}", names.join(" "))
    };
    let parts = candidate.parts.iter().map(part).collect::<Vec<_>>().join(" ");
    let bytes = candidate.layout.parts()[0].bytes;
    let Retyped { narrowed, indexed, packed } = &candidate.types;
    let types = if narrowed.len() == 1 { "a narrower type" } else { "narrower types" };
    let besides = |change: Change| {
        let all = [
            (indexed, Change::Indexes, format!("make indexes of {}", part(indexed))),
            (packed, Change::BitFields, format!("make bit-fields of {}", part(packed))),
            (narrowed, Change::Shrink, format!("give {} {types}", part(narrowed))),
        ];
        let besides = all.into_iter().filter(|(fields, of, _)| !fields.is_empty() && *of != change);
        besides.map(|(.., words)| format!(", and {words}")).collect::<String>()
    };
    let instead = format!("in the place of {}", shape.bytes);
    let change = match candidate.change {
        Change::Reorder => format!("Reorder {name} as {parts}: {bytes} bytes in the place of {}", shape.bytes),
        Change::Align => {
            let order = if candidate.parts[0].is_sorted() { String::new() } else { format!(" as {parts}") };
            // No other way makes a small one so large.
            let why = match u64::from(bytes).is_multiple_of(LINE_BYTES) && shape.bytes <= bytes / 2 {
                true => "each element has lines of its own",
                false => "no element crosses into another line than it must",
            };
            let elements = if shape.is_columns { "elements of " } else { "" };
            format!("Align {elements}{name}{order} to {bytes} bytes, so that {why}")
        }
        Change::Pool => format!("Allocate {name} from a pool, side by side"),
        Change::Merge => {
            let merged: Vec<String> = candidate.merged().map(|(_, fields)| part(fields)).collect();
            let bytes: Vec<String> =
                candidate.merged().map(|(number, _)| candidate.layout.parts()[number].bytes.to_string()).collect();
            let one = if merged.len() == 1 { "one array" } else { "an array each" };
            let (merged, bytes) = (merged.join(" "), bytes.join(" and "));
            format!("Make {one} of structures of the arrays {merged}: {bytes} bytes an element")
        }
        Change::Inline => {
            let held = candidate.inlined.as_ref().map(|inlined| &shape.fields[inlined.field.field]);
            let (field, of_it) = held.map(|field| (field.name.as_str(), field.type_name.as_str())).unwrap_or_default();
            let pool = if candidate.is_pool { ", and allocate it from a pool" } else { "" };
            format!("Hold {field} of {name} by value, in the place of {of_it}{pool}: {bytes} bytes {instead}")
        }
        Change::HotCold => {
            let cold = candidate.parts.get(1).map(part).unwrap_or_default();
            let pool = if candidate.is_pool { ", and allocate both parts from pools" } else { "" };
            format!("Move {cold} of {name} behind a pointer{pool}: {bytes} bytes stay")
        }
        Change::Shrink => {
            let pool = if candidate.is_pool { " from pools" } else { "" };
            format!("Give {} of {name} {types}: {bytes} bytes{pool} {instead}", part(narrowed))
        }
        Change::BitFields => {
            let pool = if candidate.is_pool { " from pools" } else { "" };
            format!("Make bit-fields of {} of {name}: {bytes} bytes{pool} {instead}", part(packed))
        }
        Change::Indexes => {
            let pool = if candidate.is_pool { " from one pool" } else { "" };
            format!("Make indexes of the pointers {} of {name}: {bytes} bytes{pool} {instead}", part(indexed))
        }
        Change::Split => format!("Split {name} into {parts}"),
        Change::ArrayOfEach => format!("Make an array of each field of {name}"),
        Change::Blocks => {
            let lanes = candidate.layout.parts()[0].lanes;
            format!("Make blocks of {lanes} elements of {name}, each field of them together")
        }
    };
    change + &besides(candidate.change)
}
