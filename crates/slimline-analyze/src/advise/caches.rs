//! Whether data stays in caches. Small structures compete for a core's own: what each of them would do alone says nothing, so
//! all that are in use are taken together. What is larger may still be in a last level, from where a line comes in a fraction
//! of the time, and mostly ahead of its use.

use slimline_attribute::tables::{GroupKind, Tables};
use slimline_trace::access::GroupId;

use super::{Advice, Confidence, Floors, Subject, sharing};
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
    let row = tables.group(group.group);
    let is_known =
        row.is_seen_whole(group.share.samples) && !matches!(row.kind, GroupKind::Stack | GroupKind::Unattributed);
    (is_known && row.bytes < floors.cached_bytes).then_some(row.bytes)
}

/// The same of all groups that the subject stands for.
fn own_bytes(subject: &Subject<'_>) -> Option<u64> {
    let group = |id: &GroupId| subject.findings.groups.iter().find(|group| group.group == *id);
    subject.members.iter().map(|id| small_bytes(group(id)?, subject.tables, subject.floors)).sum()
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

/// Size of all data that costs any time, but for stacks: how much of their mappings is used is not known.
pub(super) fn in_use_bytes(findings: &Findings, tables: &Tables) -> u64 {
    let used = findings.groups.iter().filter(|group| group.share.value > 0.0);
    let rows = used.map(|group| tables.group(group.group)).filter(|row| row.kind != GroupKind::Stack);
    rows.fold(0, |sum, row| row.bytes.saturating_add(sum))
}

/// The advice for a group that a last-level cache may hold: how much time the lines take that it saves is not known.
pub(super) fn with_last_level(subject: &Subject<'_>, in_use_bytes: u64, advice: Advice) -> Advice {
    let (own, most) = (subject.bytes(), subject.floors.last_level_bytes);
    if advice.predicted.is_none() || own == 0 || own > most {
        return advice;
    }
    let held = if in_use_bytes <= most {
        format!("All data that takes time ({}) fits the last-level cache ({})", bytes(in_use_bytes), bytes(most))
    } else {
        format!(
            "Alone it ({}) would fit the last-level cache ({}), in which all data that takes time ({}) has no room",
            bytes(own),
            bytes(most),
            bytes(in_use_bytes)
        )
    };
    let why = format!(
        "{} {held}: saved lines may save hardly any time. `slimline advise` of a trace replays the caches.",
        advice.why
    );
    Advice { why, confidence: advice.confidence.min(Confidence::Medium), ..advice }
}
