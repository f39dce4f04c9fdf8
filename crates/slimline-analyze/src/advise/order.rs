//! Reordering: fewer holes, and fields that are used together side by side.

use super::definition::{self, Part};
use super::lines::{Layout, Packing, block_spacing};
use super::split::{alignment, as_it_is, laid_out};
use super::{Advice, Kind, Subject, percent};
use crate::structure::ElementFrom;

/// The fields cluster by cluster, in each the strictest alignment first; `None` where that is no other order or where
/// the fields are not all known.
pub(super) fn reorder(subject: &Subject<'_>) -> Option<Advice> {
    let structure = subject.group.structure.filter(|structure| structure.from == ElementFrom::DebugInfo)?;
    let mut order: Vec<usize> = Vec::new();
    for cluster in &subject.group.clusters {
        let mut fields = cluster.fields.clone();
        let key = |&field: &usize| {
            // What moves together keeps its inner order and its place among the others.
            let set = subject.group.fields[field].moves_with;
            let first = &subject.group.fields[set];
            (std::cmp::Reverse(alignment(first.offset, first.bytes)), set, field)
        };
        fields.sort_by_key(key);
        order.extend(fields);
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
