//! Fields that nothing was seen to use: what they take up, whatever else is advised.

use slimline_attribute::tables::{Amount, GroupKind, MemberRole, Type};

use super::placing::{laid_out, members_at, of_same_member};
use super::{Advice, FEW_SAMPLES, Kind, Subject, bytes};
use crate::object_layout::block_spacing;
use crate::structure::{ElementFrom, Structure};

/// Names of fields that are told; more nobody reads.
const MOST_NAMES: usize = 8;

/// The advice with what was never seen used.
pub(super) fn told(subject: &Subject<'_>, advice: Advice) -> Advice {
    let Some((type_, structure)) = declared(subject) else { return advice };
    let (unused, used): (Vec<usize>, Vec<usize>) =
        (0..subject.group.fields.len()).partition(|&field| is_unused(subject, type_, field));
    let unused_bytes: u64 = unused.iter().map(|&field| subject.group.fields[field].bytes).sum();
    if unused_bytes == 0 || used.is_empty() {
        return advice;
    }
    let names = match unused.len() {
        ..=MOST_NAMES => subject.braces(&unused),
        _ => format!("{} …}}", subject.braces(&unused[..MOST_NAMES]).trim_end_matches('}')),
    };
    let (_, left) = laid_out(subject, &used);
    let without = match structure.element_bytes.saturating_sub(left) {
        0 => String::new(),
        _ => format!("; without it an element takes {left}{}", saved(subject, &structure, left)),
    };
    let why = format!(
        "{} Nothing was seen to use {names}, {unused_bytes} of its {} bytes{without}.",
        advice.why, structure.element_bytes
    );
    let title = match advice.kind {
        Kind::LeaveAlone => format!("{}; nothing was seen to use {names}", advice.title),
        _ => advice.title,
    };
    Advice { title, why, ..advice }
}

/// The definition of the elements, where the program can change it and enough was seen of them to miss something.
fn declared<'s>(subject: &'s Subject<'_>) -> Option<(&'s Type, Structure)> {
    let row = subject.tables.group(subject.group.group);
    let structure = subject.group.structure.filter(|structure| structure.from == ElementFrom::DebugInfo)?;
    let type_ = subject.element_type().filter(|found| !found.is_built_in())?;
    // Of one object there is nothing to save, and many members are for other days.
    let is_seen = subject.group.share.samples >= FEW_SAMPLES && !subject.is_one_or_small();
    (is_seen && row.kind != GroupKind::Stack).then_some((type_, structure))
}

/// Whether nothing uses a field, nor what it can only go with.
fn is_unused(subject: &Subject<'_>, type_: &Type, field: usize) -> bool {
    let shape = &subject.group.fields[field];
    let is_table = |of: usize| {
        let shape = &subject.group.fields[of];
        members_at(type_, shape.offset, shape.bytes).iter().any(|member| member.role == MemberRole::VirtualTable)
    };
    let together = of_same_member(subject, field);
    let goes_with = together.iter().filter(|&&of| subject.group.fields[of].moves_with == shape.moves_with);
    goes_with.copied().all(|of| !subject.group.fields[of].is_used() && !is_table(of))
}

/// What all elements would take less: ` (48.0 MiB less)`.
fn saved(subject: &Subject<'_>, structure: &Structure, left: u64) -> String {
    let Amount { objects, bytes: all } = subject.amount();
    let less = if structure.one_per_object {
        let spacing = |bytes: u64| block_spacing(structure.start + bytes);
        objects.saturating_mul(spacing(structure.element_bytes) - spacing(left))
    } else {
        (all / structure.element_bytes).saturating_mul(structure.element_bytes - left)
    };
    if less == 0 { String::new() } else { format!(", all of them {} less", bytes(less)) }
}
