//! Loops that walk against the layout: down the columns of an array that lies in rows.

use std::collections::BTreeSet;

use super::{Advice, Confidence, Kind, MANY_SAMPLES, REACHED, Saved, Subject, fewer, percent, place_of};
use crate::fields::LINE_BYTES;
use crate::findings::{LoopGroup, Walk};
use crate::structure::KNOWN;
use crate::ties::Ties;

/// Part of a walk's distances that must be its stride.
const REGULAR: f64 = 0.75;

/// A loop that walks a group against its layout.
pub(super) struct Against {
    name: String,
    /// The loop, and the one that it is to be exchanged with.
    loops: String,
    /// What is walked in order there, which may not be so then.
    in_order: Vec<String>,
    advice: Advice,
}

impl Against {
    /// With its advice changed.
    pub(super) fn with(self, change: impl FnOnce(Advice) -> Advice) -> Self {
        Self { advice: change(self.advice), ..self }
    }
}

/// Loops of the group whose accesses are more than a line apart while they come back for what lies in between.
pub(super) fn interchanges(subject: &Subject<'_>) -> Vec<Against> {
    subject.loops().filter_map(|(row, of_group)| interchange(subject, row, of_group)).collect()
}

/// One advice for each loop, whatever it walks against its layout: it is one change.
pub(super) fn by_loop(found: Vec<Against>) -> Vec<Advice> {
    let mut loops: Vec<Vec<Against>> = Vec::new();
    for against in found {
        match loops.iter_mut().find(|known| known[0].loops == against.loops) {
            Some(known) => known.push(against),
            None => loops.push(vec![against]),
        }
    }
    loops.into_iter().map(together).collect()
}

/// What is walked in one loop, as one advice; the first of them has its words.
fn together(mut all: Vec<Against>) -> Advice {
    let gain = |of: &Against| of.advice.predicted.as_ref().map_or(0.0, |predicted| predicted.cycles);
    all.sort_by(|a, b| gain(a).total_cmp(&gain(b)));
    let names: Vec<String> = all.iter().map(|of| of.name.clone()).collect();
    let lies = if names.len() == 1 { "it lies" } else { "they lie" };
    let title =
        format!("Walk {} in the order in which {lies}: interchange the loop of {}", listed(&names), all[0].loops);
    let in_order: BTreeSet<String> = all.iter().flat_map(|of| of.in_order.iter().cloned()).collect();
    let in_order: Vec<String> = in_order.into_iter().filter(|name| !names.contains(name)).collect();
    let mut advices = all.into_iter().map(|of| of.advice);
    let mut advice = advices.next().expect("a loop has what it walks");
    for more in advices {
        advice.others.push(more.group);
        if let (Some(sum), Some(own)) = (&mut advice.predicted, more.predicted) {
            sum.cycles = (sum.cycles + own.cycles).max(-1.0);
            sum.cycles_low = (sum.cycles_low + own.cycles_low).max(-1.0);
            sum.cycles_high = (sum.cycles_high + own.cycles_high).max(-1.0);
        }
        advice.confidence = advice.confidence.min(more.confidence);
        let new: Vec<_> = more.touched_lines.into_iter().filter(|line| !advice.touched_lines.contains(line)).collect();
        advice.touched_lines.extend(new);
    }
    if names.len() > 1 {
        advice.why += &format!(" That is of {}; {} it walks alike.", names[0], listed(&names[1..]));
    }
    if !in_order.is_empty() {
        advice.why += &format!(
            " It walks {} in order now, which it may not do then: what that costs is not in the prediction.",
            listed(&in_order)
        );
    }
    Advice { title, ..advice }
}

/// `a`, `a and b`, `a, b and c`
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// What a loop goes through by no more than a line a step.
fn in_order(subject: &Subject<'_>, row: usize) -> Vec<String> {
    let is_in_order = |walk: &Walk| {
        let stride = walk.motion.stride_bytes.map_or(0, i64::unsigned_abs);
        walk.motion.regularity >= REGULAR && (1..=LINE_BYTES).contains(&stride)
    };
    let groups = subject.findings.loops[row].groups.iter().filter(|of| of.walks.iter().any(is_in_order));
    groups.map(|of| subject.tables.group(of.group).name.clone()).collect()
}

/// Distance of neighbours and distance walked, where the walk passes over neighbours that the loop around it visits later, in objects of so many
/// bytes.
fn against(walk: &Walk, object_bytes: u64) -> Option<(u64, u64)> {
    if is_no_column(walk, object_bytes) {
        return None;
    }
    let stride = walk.motion.stride_bytes?.unsigned_abs();
    let grain = walk.motion.grain.filter(|grain| grain.confidence >= KNOWN)?.bytes;
    (walk.motion.regularity >= REGULAR && stride > LINE_BYTES && grain < LINE_BYTES && grain < stride)
        .then_some((grain, stride))
}

/// Whether what begins again is none of the walks beside. Down the columns of an array it begins again beside where it began before, within a line. At
/// the same place it is repeated; where it goes on at the other end (`i * 97 % n`, or by an array of such indexes) it is the inner loop itself that
/// comes to the neighbours. No loop around either is one to exchange it with.
fn is_no_column(walk: &Walk, object_bytes: u64) -> bool {
    let (Some(stride), Some(back)) = (walk.motion.stride_bytes.filter(|stride| *stride != 0), walk.motion.back_bytes)
    else {
        return false;
    };
    let around = stride.abs_diff(back);
    let (stride, behind) = (stride.unsigned_abs(), back.rem_euclid(stride.abs()).unsigned_abs());
    let beside = behind.min(stride - behind);
    beside == 0 || beside >= LINE_BYTES || around.is_power_of_two() || around == object_bytes
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

fn interchange(subject: &Subject<'_>, row: usize, of_group: &LoopGroup) -> Option<Against> {
    let leading = of_group.walks.iter().max_by(|a, b| a.share.total_cmp(&b.share).then(b.site.cmp(&a.site)))?;
    let group = subject.tables.group(subject.group.group);
    let object_bytes = group.bytes.checked_div(group.objects).unwrap_or(0);
    let (grain, stride) = against(leading, object_bytes)?;
    if chases(subject, of_group) {
        return None;
    }
    // A line for each access now; a line for as many neighbours as it holds then.
    let part = 1.0 - grain.max(u64::from(leading.bytes)) as f64 / LINE_BYTES as f64;
    let share: f64 =
        of_group.walks.iter().filter(|walk| against(walk, object_bytes).is_some()).map(|walk| walk.share).sum();
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
    let advice = Advice {
        kind: Kind::Interchange,
        group: subject.group.group,
        others: Vec::new(),
        title: String::new(),
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
    };
    let name = subject.tables.group(subject.group.group).name.clone();
    Some(Against { name, loops: format!("{} with {outer}", place_of(found)), in_order: in_order(subject, row), advice })
}
