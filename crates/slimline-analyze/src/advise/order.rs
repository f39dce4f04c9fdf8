//! Reordering: fewer holes, and fields that are used together side by side.

use slimline_attribute::tables::Language;

use super::definition::{self, Part};
use super::lines::{Layout, Packing};
use super::placing::{NewLayout, laid_out, of_same_member, strictest};
use super::split::as_it_is;
use super::{Advice, Kind, Subject, percent};
use crate::object_layout::block_spacing;
use crate::structure::ElementFrom;
use crate::ties::Ties;

/// The fields cluster by cluster, in each the strictest alignment first; `None` where that is no other order or where
/// the fields are not all known.
pub(super) fn reorder(subject: &Subject<'_>) -> Option<Advice> {
    // rustc orders fields by itself, and that a structure is `repr(C)` debug information does not tell.
    if subject.language() == Language::Rust {
        return None;
    }
    let structure = subject.group.structure.filter(|structure| structure.from == ElementFrom::DebugInfo)?;
    let mut order: Vec<usize> = Vec::new();
    for cluster in &subject.group.clusters {
        // A member moves as a whole, with what is used most of it, and keeps its inner order.
        let mut members: Vec<Vec<usize>> = Vec::new();
        for &field in cluster.fields.iter().filter(|field| !order.contains(field)) {
            if !members.iter().any(|member| member.contains(&field)) {
                members.push(of_same_member(subject, field));
            }
        }
        members.sort_by_key(|member| (std::cmp::Reverse(strictest(subject, member)), member[0]));
        order.extend(members.concat());
    }
    let (placed, bytes) = laid_out(subject, &order);
    let as_before = order.windows(2).all(|pair| pair[0] < pair[1]);
    // A flexible array has to stay last, a base or a virtual table first.
    let fixed = subject.group.fields.iter().any(|field| field.bytes == 0) || has_fixed(subject);
    if as_before || fixed || bytes > structure.element_bytes {
        return None;
    }
    let spacing = if structure.one_per_object { block_spacing(structure.start + bytes) } else { bytes };
    let start = if structure.one_per_object { structure.start } else { 0 };
    let after = |fields: &[usize]| -> Vec<Layout> {
        let used = placed.iter().filter(|(field, ..)| fields.contains(field));
        vec![Layout { spacing, used: used.map(|&(_, offset, bytes)| (start + offset, bytes)).collect() }]
    };
    let packing = Packing::of(subject, |fields| as_it_is(subject, &structure, fields), after);
    let predicted = subject.predict(&packing);
    let smaller = match structure.element_bytes - bytes {
        0 => String::new(),
        saved => format!(" Without holes it is {bytes} bytes, not {} ({saved} fewer).", structure.element_bytes),
    };
    Some(Advice {
        kind: Kind::Reorder,
        group: subject.group.group,
        others: subject.others(),
        title: format!("Reorder {} to {}", subject.name(), subject.braces(&order)),
        fields: vec![subject.offsets(&order)],
        layouts: vec![NewLayout::of(subject, &placed, bytes)],
        confidence: subject.confidence(&predicted),
        why: format!(
            "{} {} of the {}. Fields that are used together lie side by side then: {} fewer lines in its \
             loops.{smaller}",
            subject.takes(),
            percent(subject.group.share.value),
            subject.cost(),
            percent(-predicted.lines),
        ),
        code: definition::reordered(subject, &Part { fields: &order, pointer: false }),
        declared_at: subject.declared_at(),
        touched_lines: Vec::new(),
        ties: Ties::default(),
        predicted: Some(predicted),
    })
}

fn has_fixed(subject: &Subject<'_>) -> bool {
    use slimline_attribute::tables::MemberRole;
    let element = subject.tables.group(subject.group.group).element;
    element.is_some_and(|element| {
        let members = &subject.tables.type_(element.type_id).members;
        members.iter().any(|member| member.role != MemberRole::Field)
    })
}
