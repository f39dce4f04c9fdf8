//! Loops that walk against the layout: down the columns of an array that lies in rows.

use std::collections::BTreeSet;

use super::{Advice, Confidence, Floors, Kind, MANY_SAMPLES, REACHED, Saved, Subject, fewer, percent, place_of};
use crate::fields::LINE_BYTES;
use crate::findings::{Findings, LoopGroup, Walk};
use crate::share::Share;
use crate::structure::KNOWN;
use crate::ties::Ties;

/// A page of memory as most of it is mapped.
const PAGE_BYTES: u64 = 4096;
/// Part of a walk's distances that must be its stride.
const REGULAR: f64 = 0.75;

/// A loop that walks a group against its layout.
pub(super) struct Against {
    name: String,
    /// The loop, by row of the findings.
    row: usize,
    /// Part of the lines that it fetches of the group which the exchange saves.
    saved_part: f64,
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
pub(super) fn by_loop(found: Vec<Against>, findings: &Findings, floors: &Floors) -> Vec<Advice> {
    let mut loops: Vec<Vec<Against>> = Vec::new();
    for against in found {
        match loops.iter_mut().find(|known| known[0].loops == against.loops) {
            Some(known) => known.push(against),
            None => loops.push(vec![against]),
        }
    }
    let is_worth_it = |advice: &Advice| advice.predicted.as_ref().is_some_and(|gain| -gain.cycles >= floors.gain);
    loops.into_iter().map(|all| together(all, findings)).filter(is_worth_it).collect()
}

/// What is walked in one loop, as one advice; the first of them has its words.
fn together(mut all: Vec<Against>, findings: &Findings) -> Advice {
    // Of all copies that the compiler made of it.
    let rows: BTreeSet<usize> = all.iter().map(|of| of.row).collect();
    let sum = |of: fn(&Share) -> f64| rows.iter().map(|&row| of(&findings.loops[row].share)).sum::<f64>().min(1.0);
    let (share, share_high) = (sum(|share| share.value), sum(|share| share.high));
    let saved_part = all.iter().map(|of| of.saved_part).fold(0.0, f64::max);
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
            sum.cycles += own.cycles;
            sum.cycles_low += own.cycles_low;
            sum.cycles_high += own.cycles_high;
        }
        advice.confidence = advice.confidence.min(more.confidence);
        let new: Vec<_> = more.touched_lines.into_iter().filter(|line| !advice.touched_lines.contains(line)).collect();
        advice.touched_lines.extend(new);
    }
    if let Some(predicted) = &mut advice.predicted {
        // No more than the loop takes can be saved of it, and what is still fetched takes time.
        predicted.cycles = predicted.cycles.max(-share * saved_part);
        predicted.cycles_low = predicted.cycles_low.max(-share_high * saved_part);
        predicted.cycles_high = predicted.cycles_high.max(predicted.cycles);
    }
    advice.why = format!("The loop takes {} of the {}. {}", percent(share), findings.unit.noun(), advice.why);
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

/// What a walk against the layout fetches as a whole but uses only in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Line,
    /// Neighbours lie on lines of their own, but on one page: it is translated, and prefetched within, once for all.
    Page,
}

impl Unit {
    fn bytes(self) -> u64 {
        match self {
            Unit::Line => LINE_BYTES,
            Unit::Page => PAGE_BYTES,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Unit::Line => "line",
            Unit::Page => "page",
        }
    }

    /// Part of the saving that is expected to become time saved. The second-level TLB has most translations, and a page's
    /// lines have to come anyway.
    fn reached(self) -> (f64, f64, f64) {
        match self {
            Unit::Line => REACHED,
            Unit::Page => (0.05, 0.2, 0.6),
        }
    }
}

/// A walk that passes over neighbours which the loop around it visits later.
#[derive(Clone, Copy)]
struct Passing {
    unit: Unit,
    /// Distance of neighbours.
    grain: u64,
    /// Distance walked.
    stride: u64,
}

/// How a walk goes against the layout of objects of so many bytes, if it does.
fn against(walk: &Walk, object_bytes: u64) -> Option<Passing> {
    let stride = walk.motion.stride_bytes?.unsigned_abs();
    let grain = walk.motion.grain.filter(|grain| grain.confidence >= KNOWN)?.bytes;
    let unit = if grain < LINE_BYTES { Unit::Line } else { Unit::Page };
    (walk.motion.regularity >= REGULAR
        && stride > unit.bytes()
        && grain < unit.bytes()
        && grain < stride
        && !is_no_column(walk, object_bytes, unit))
    .then_some(Passing { unit, grain, stride })
}

/// Whether the next walk does not run beside this one. Down the columns of an array, the next walk begins beside where
/// this one began, within the unit. If it begins at the same place, it is a repetition. If it goes on at the other end
/// (`i * 97 % n`, or an array of such indexes), the inner loop itself comes to the neighbours. In both cases there is no
/// outer loop to exchange it with.
fn is_no_column(walk: &Walk, object_bytes: u64, unit: Unit) -> bool {
    let (Some(stride), Some(back)) = (walk.motion.stride_bytes.filter(|stride| *stride != 0), walk.motion.back_bytes)
    else {
        return false;
    };
    let around = stride.abs_diff(back);
    let (stride, behind) = (stride.unsigned_abs(), back.rem_euclid(stride.abs()).unsigned_abs());
    let beside = behind.min(stride - behind);
    beside == 0 || beside >= unit.bytes() || around.is_power_of_two() || around == object_bytes
}

/// Whether the steps of a loop, and of the one around it, may be done in another order.
fn may_be_exchanged(subject: &Subject<'_>, row: usize) -> bool {
    let loops = &subject.tables.loops;
    let found = &loops[subject.findings.loops[row].loop_id.index()];
    let around = found.parent.map(|parent| &loops[parent.index()]);
    std::iter::once(found).chain(around).all(|found| found.call.is_none() && !found.leaves_early)
}

fn interchange(subject: &Subject<'_>, row: usize, of_group: &LoopGroup) -> Option<Against> {
    let leading = of_group.walks.iter().max_by(|a, b| a.share.total_cmp(&b.share).then(b.site.cmp(&a.site)))?;
    let group = subject.tables.group(subject.group.group);
    let object_bytes = group.bytes.checked_div(group.objects).unwrap_or(0);
    let Passing { unit, grain, stride } = against(leading, object_bytes)?;
    if subject.tables.site(leading.site).is_chased || !may_be_exchanged(subject, row) {
        return None;
    }
    // One for each access now; one for as many neighbours as it holds then.
    let part = 1.0 - grain.max(u64::from(leading.bytes)) as f64 / unit.bytes() as f64;
    let is_alike = |walk: &&Walk| {
        against(walk, object_bytes).is_some_and(|of| of.unit == unit) && !subject.tables.site(walk.site).is_chased
    };
    let share: f64 = of_group.walks.iter().filter(is_alike).map(|walk| walk.share).sum();
    let share = share * part;
    let saved = Saved { share, unhidden: share * subject.findings.loops[row].unhidden(), most: share };
    let name = unit.name();
    let what = format!("a {name} for each access now, one for {} neighbours then", unit.bytes() / grain);
    let lines = if unit == Unit::Line { fewer(part) } else { 0.0 };
    let predicted = subject.gain(saved, unit.reached(), lines, &what);
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
            "Its accesses are {stride} bytes apart, each on a {name} of its own, and it comes back for the neighbours, \
             {grain} bytes apart, only after a whole column. Where the loops can't be exchanged, walk in blocks, or \
             store the array transposed."
        ),
        code: String::new(),
        declared_at: subject.tables.group(subject.group.group).declared_at.clone(),
        touched_lines: subject.lines_of(of_group.walks.iter().map(|walk| walk.site)),
        ties: Ties::default(),
    };
    let name = subject.tables.group(subject.group.group).name.clone();
    let loops = format!("{} with {outer}", place_of(found));
    Some(Against { name, row, saved_part: part, loops, in_order: in_order(subject, row), advice })
}
