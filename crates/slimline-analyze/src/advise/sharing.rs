//! What advice must say of data that several threads use at once: that sharing is not judged here, and what judges it.

use slimline_attribute::tables::Language;

use super::{Advice, Confidence, Kind, Subject};
use crate::number::percent;
use crate::threads::{Evidence, Sharing, ThreadUse};

/// Threads named, at most.
const NAMED: usize = 4;
/// Share of a group's samples whose line another core had written from which that is told …
const LEAST_MODIFIED: f64 = 0.01;
/// … and so many of them: one or two may be a lock or a counter beside it.
const LEAST_MODIFIED_SAMPLES: u64 = 3;

/// Whether threads may share lines of the group, some of them storing.
pub(super) fn is_possible(subject: &Subject<'_>) -> bool {
    let sharing = subject.group.threads.sharing;
    modified(subject).is_some() || sharing.is_some_and(|sharing| sharing.evidence() != Evidence::Apart)
}

/// What hardware tells of lines of the group that another core had written; `None` where that is rare.
fn modified(subject: &Subject<'_>) -> Option<String> {
    let modified = subject.group.service.modified;
    let share = modified.share().filter(|&share| share >= LEAST_MODIFIED && modified.are >= LEAST_MODIFIED_SAMPLES)?;
    Some(format!(
        "In {} of its samples ({}) another core had written the line (HitM): threads share lines of it. What that costs \
         is not judged here, but by `slimline share`.",
        percent(share),
        modified.are
    ))
}

/// The advice as it holds where several threads use the group at once.
pub(super) fn with_caution(subject: &Subject<'_>, advice: Advice) -> Advice {
    let (caution, evidence) = match (subject.group.threads.sharing, modified(subject)) {
        (None, None) => return advice,
        (Some(sharing), None) => (caution(subject, &sharing), sharing.evidence()),
        // That samples met no line again says less than one that was seen on its way.
        (None, Some(modified)) => (modified, Evidence::Shared),
        (Some(sharing), Some(modified)) if sharing.evidence() == Evidence::Apart => (modified, Evidence::Shared),
        (Some(sharing), Some(modified)) => (format!("{} {modified}", caution(subject, &sharing)), Evidence::Shared),
    };
    match (advice.kind, evidence) {
        (_, Evidence::Apart) => Advice { why: format!("{} {caution}", advice.why), ..advice },
        (Kind::LeaveAlone, _) => Advice {
            kind: Kind::NotJudged,
            title: format!("What threads share of {} is not judged", subject.name()),
            why: format!("{caution} Of the layout alone: {}", advice.why),
            confidence: Confidence::Low,
            ..advice
        },
        (_, evidence) => {
            let most = if evidence == Evidence::Shared { Confidence::Low } else { Confidence::Medium };
            Advice { why: format!("{} {caution}", advice.why), confidence: advice.confidence.min(most), ..advice }
        }
    }
}

/// Who uses it, who stores to it, and what of that was seen on the same cache lines.
fn caution(subject: &Subject<'_>, sharing: &Sharing) -> String {
    let threads = &subject.group.threads.threads;
    let storing: Vec<&ThreadUse> = threads.iter().filter(|used| used.stores > 0).collect();
    let writers = storing.len();
    let who = match writers {
        all if all == threads.len() => format!("{all} threads use it at once, and all store to it: "),
        // Which one does, samples alone told.
        0 => format!("{} threads use it at once, with stores among their accesses: ", threads.len()),
        some => format!("{} threads use it at once, and {some} of them {}: ", threads.len(), plural(some)),
    };
    let named = if storing.is_empty() { threads.iter().collect() } else { storing };
    let lines = match sharing.evidence() {
        Evidence::Shared => format!(
            "{} of {} cache lines looked at had stores of one thread and accesses of another. What that costs is not \
             judged here, but by `slimline share`",
            sharing.shared, sharing.lines
        ),
        Evidence::Apart => format!(
            "each on lines of its own, as far as seen ({} cache lines met again, none by another one)",
            sharing.met_again
        ),
        Evidence::Unknown => "whether on the same cache lines, the samples do not tell, and what that would cost is \
                              not judged here, but by `slimline share`"
            .to_owned(),
    };
    let apart = match (sharing.evidence(), subject.language()) {
        (Evidence::Shared, language) if subject.is_one_or_small() && writers > 1 => format!(
            " Where different threads store to different fields, these belong on cache lines of their own ({}).",
            if language == Language::Rust { "repr(align(64))" } else { "alignas(64)" }
        ),
        _ => String::new(),
    };
    format!("{who}{}; {lines}.{apart}", list(subject, &named))
}

fn plural(storing: usize) -> &'static str {
    if storing == 1 { "stores to it" } else { "store to it" }
}

/// `7211 (worker), 7212 (worker) and 6 more`.
fn list(subject: &Subject<'_>, threads: &[&ThreadUse]) -> String {
    let name = |used: &&ThreadUse| {
        let row = subject.tables.thread(used.thread);
        format!("{} ({})", row.tid, row.name)
    };
    let mut named = threads.iter().take(NAMED).map(name).collect::<Vec<_>>().join(", ");
    if threads.len() > NAMED {
        named += &format!(" and {} more", threads.len() - NAMED);
    }
    named
}
