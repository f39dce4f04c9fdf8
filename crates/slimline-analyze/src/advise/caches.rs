//! Whether data stays in caches. Small structures compete for a core's own: what each of them would do alone says nothing, so
//! all that are in use are taken together. What is larger may still be in a last level, from where a line comes in a fraction
//! of the time, and mostly ahead of its use.

use slimline_attribute::tables::{Amount, GroupKind, Tables};
use slimline_trace::access::GroupId;

use super::{Advice, Confidence, Floors, Subject, sharing};
use crate::fields::LINE_BYTES;
use crate::findings::{Findings, GroupFindings};
use crate::number::bytes;

/// Structures each of which would fit a core's own caches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Small {
    /// How many.
    count: u64,
    /// Their size altogether.
    bytes: u64,
}

impl Small {
    /// Those of `findings` that cost any time.
    pub(super) fn of(findings: &Findings, tables: &Tables, floors: &Floors) -> Self {
        let mut small = Self::default();
        for group in findings.groups.iter().filter(|group| group.share.value > 0.0) {
            if let Some(bytes) = small_bytes(group, tables, floors) {
                small.count += 1;
                small.bytes = small.bytes.saturating_add(bytes);
            }
        }
        small
    }
}

/// Size of a group that would fit the caches by itself; `None` where it would not, or where its size is not known: of
/// stacks the mapping is, and what of it is used is not.
fn small_bytes(group: &GroupFindings, tables: &Tables, floors: &Floors) -> Option<u64> {
    known_bytes(group, tables).filter(|bytes| *bytes < floors.cached_bytes)
}

fn known_bytes(group: &GroupFindings, tables: &Tables) -> Option<u64> {
    let row = tables.group(group.group);
    let is_known =
        row.is_seen_whole(group.share.samples) && !matches!(row.kind, GroupKind::Stack | GroupKind::Unattributed);
    let Amount { objects, bytes } = row.at_one_time();
    // Small blocks may each lie on a line of their own, with others between them.
    let in_lines = match row.object_bytes {
        1..LINE_BYTES if objects > 1 => bytes / row.object_bytes * LINE_BYTES,
        _ => bytes,
    };
    is_known.then_some(in_lines)
}

/// The same of all groups that the subject stands for.
fn own_bytes(subject: &Subject<'_>) -> Option<u64> {
    sum(subject, |group| small_bytes(group, subject.tables, subject.floors))
}

/// A size of all groups that the subject stands for.
fn sum(subject: &Subject<'_>, of: impl Fn(&GroupFindings) -> Option<u64>) -> Option<u64> {
    let group = |id: &GroupId| subject.findings.groups.iter().find(|group| group.group == *id);
    subject.members.iter().map(|id| of(group(id)?)).sum()
}

/// Why lines of the group are not fetched from far; `None` where they may be.
pub(super) fn fits(subject: &Subject<'_>) -> Option<String> {
    let own = own_bytes(subject)?;
    if subject.small.bytes > subject.floors.cached_bytes {
        return None;
    }
    let others = match subject.small.count {
        0 | 1 => String::new(),
        _ => format!(", with the other structures of such size {}", bytes(subject.small.bytes)),
    };
    let apart = if sharing::is_possible(subject) {
        ", apart from lines that threads take from each other"
    } else {
        "; its lines are not fetched from far"
    };
    Some(format!("All of it ({}{others}) fits a core's own caches{apart}.", bytes(own)))
}

/// The advice for a group that would fit the caches by itself, but does not with the others: how far its lines come is
/// not known.
pub(super) fn with_company(subject: &Subject<'_>, advice: Advice) -> Advice {
    if own_bytes(subject).is_none() || subject.small.bytes <= subject.floors.cached_bytes {
        return advice;
    }
    let why = format!(
        "{} Alone it would fit a core's own caches, but {} structures of such size are in use, {} together.",
        advice.why,
        subject.small.count,
        bytes(subject.small.bytes)
    );
    Advice { why, confidence: advice.confidence.min(Confidence::Medium), ..advice }
}

/// Size of all data that costs any time; `None` where that of some of it is not known.
pub(super) fn in_use_bytes(findings: &Findings, tables: &Tables) -> Option<u64> {
    let mut used = findings.groups.iter().filter(|group| group.share.value > 0.0);
    used.try_fold(0_u64, |sum, group| Some(sum.saturating_add(known_bytes(group, tables)?)))
}

/// The advice for a group that a last-level cache may hold: how much time the lines take that it saves is not known.
pub(super) fn with_last_level(subject: &Subject<'_>, in_use_bytes: Option<u64>, advice: Advice) -> Advice {
    let most = subject.floors.last_level_bytes;
    let own = sum(subject, |group| known_bytes(group, subject.tables)).filter(|own| *own <= most);
    let Some(own) = own.filter(|_| advice.predicted.is_some()) else { return advice };
    let held = match in_use_bytes {
        Some(all) if all <= most => {
            format!("All data that takes time ({}) fits the last-level cache ({})", bytes(all), bytes(most))
        }
        _ => {
            let others = "in which other data that takes time is, too";
            format!("Alone it ({}) would fit the last-level cache ({}), {others}", bytes(own), bytes(most))
        }
    };
    let why = format!(
        "{} {held}: saved lines may save hardly any time. `slimline advise` of a trace replays the caches.",
        advice.why
    );
    Advice { why, confidence: advice.confidence.min(Confidence::Medium), ..advice }
}
