//! Loops that walk against the layout: down the columns of an array that lies in rows.

use super::{Advice, Confidence, Kind, MANY_SAMPLES, REACHED, Saved, Subject, fewer, percent, place_of};
use crate::fields::LINE_BYTES;
use crate::findings::{LoopGroup, Walk};
use crate::structure::KNOWN;
use crate::ties::Ties;

/// Part of a walk's distances that must be its stride.
const REGULAR: f64 = 0.75;

/// Loops of the group whose accesses are more than a line apart while they come back for what lies in between.
pub(super) fn interchanges(subject: &Subject<'_>) -> Vec<Advice> {
    subject.loops().filter_map(|(row, of_group)| interchange(subject, row, of_group)).collect()
}

/// Distance of neighbours and distance walked, where the walk passes over neighbours that the loop visits later.
fn against(walk: &Walk) -> Option<(u64, u64)> {
    let stride = walk.motion.stride_bytes?.unsigned_abs();
    let grain = walk.motion.grain.filter(|grain| grain.confidence >= KNOWN)?.bytes;
    (walk.motion.regularity >= REGULAR && stride > LINE_BYTES && grain < LINE_BYTES && grain < stride)
        .then_some((grain, stride))
}

/// Whether the loop goes from element to element by pointers that these have: their order is the list's, whatever distances were seen.
fn chases(subject: &Subject<'_>, of_group: &LoopGroup) -> bool {
    let Some(type_) = subject.element_type() else { return false };
    let leads_on = |offset: u64| {
        let mut members = type_.members.iter().filter(|member| member.offset == offset);
        members.any(|member| {
            member.type_name.strip_prefix(type_.name.as_str()).is_some_and(|rest| rest.trim_start().starts_with('*'))
        })
    };
    let used = of_group.fields.iter().map(|field| subject.group.fields[field.field].offset);
    used.into_iter().any(leads_on)
}

fn interchange(subject: &Subject<'_>, row: usize, of_group: &LoopGroup) -> Option<Advice> {
    let leading = of_group.walks.iter().max_by(|a, b| a.share.total_cmp(&b.share).then(b.site.cmp(&a.site)))?;
    let (grain, stride) = against(leading)?;
    if chases(subject, of_group) {
        return None;
    }
    // A line for each access now; a line for as many neighbours as it holds then.
    let part = 1.0 - grain.max(u64::from(leading.bytes)) as f64 / LINE_BYTES as f64;
    let share: f64 = of_group.walks.iter().filter(|walk| against(walk).is_some()).map(|walk| walk.share).sum();
    let share = share * part;
    let saved = Saved { share, unhidden: share * subject.findings.loops[row].unhidden(), most: share };
    let what = format!("a line for each access now, one for {} neighbours then", LINE_BYTES / grain);
    let predicted = subject.gain(saved, REACHED, fewer(part), &what);
    if -predicted.cycles < subject.floors.gain {
        return None;
    }
    let found = &subject.tables.loops[subject.findings.loops[row].loop_id.index()];
    // Where none is around it in its function there may be one around the call, or none.
    let (outer, is_seen) = match found.parent {
        Some(_) => ("the one around it", true),
        None => ("the one around its call", false),
    };
    let name = &subject.tables.group(subject.group.group).name;
    Some(Advice {
        kind: Kind::Interchange,
        group: subject.group.group,
        others: Vec::new(),
        title: format!(
            "Walk {name} in the order in which it lies: interchange the loop of {} with {outer}",
            place_of(found)
        ),
        fields: Vec::new(),
        layouts: Vec::new(),
        predicted: Some(predicted),
        confidence: match subject.group.share.samples {
            _ if !is_seen => Confidence::Low,
            MANY_SAMPLES.. => Confidence::High,
            _ => Confidence::Medium,
        },
        why: format!(
            "The loop takes {} of the {}. Its accesses are {stride} bytes apart, each on a line of its own, and it \
             comes back for the neighbours, {grain} bytes apart, only after a whole column. Where the loops can't be \
             exchanged, walk in blocks, or store the array transposed.",
            percent(of_group.share),
            subject.cost()
        ),
        code: String::new(),
        declared_at: subject.tables.group(subject.group.group).declared_at.clone(),
        touched_lines: subject.lines_of(of_group.walks.iter().map(|walk| walk.site)),
        ties: Ties::default(),
    })
}
