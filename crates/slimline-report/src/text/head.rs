//! The head: what was run, how it was seen, what was lost.

use std::fmt::{self, Write};

use slimline_trace::escape::{command_line, plain};
use slimline_trace::session::{SampledEvent, WeightUnit};

use super::labelled;
use super::number::{bytes, count, duration, percent, plural, plural_of};
use super::unnamed::{without_line, without_name};
use crate::view::{Bursts, Lost, Quality, Session};

/// A label, and what it is of.
type Row = (&'static str, String);

/// Columns of the labels.
const LABEL_WIDTH: usize = 10;

/// Of the CPU time in the kernel, of heap blocks that were not followed: from what share on a short head tells.
const WORTH_A_LINE: f64 = 0.05;

/// Of the user time, the same of what no sample stands for. Weights leave out what the interrupts cost, some per cent.
const UNSAMPLED_WORTH_A_LINE: f64 = 0.1;

/// What was run, how it was sampled, how well that was seen, what was lost and what has no name; with `full` all that is
/// known of how it was recorded, too.
pub(super) fn write(out: &mut impl Write, session: &Session, full: bool) -> fmt::Result {
    rows(session, full).iter().try_for_each(|(label, value)| labelled(out, label, LABEL_WIDTH, value))
}

/// The same as labels and values.
pub(crate) fn rows(session: &Session, full: bool) -> Vec<Row> {
    let command = command_line(&session.command);
    let command = if command.is_empty() { "not told by the file that was imported".to_owned() } else { command };
    let mut rows = vec![("command", command), ("run", run(session))];
    if session.samples == 0 {
        rows.push(("samples", "none: there is nothing to report".to_owned()));
        rows.extend(session.no_samples_because.as_ref().map(|why| ("why", plain(why))));
    } else {
        rows.push(("samples", samples(session)));
        rows.extend(shares(session).map(|shares| ("shares", shares)));
        rows.push(("addresses", quality(&session.quality)));
        rows.extend(if full { recording(session) } else { warnings(session) });
        rows.push(("lost", lost(&session.lost)));
        let (unnamed, cost) = (&session.unnamed, session.weight.noun());
        rows.extend(without_line(unnamed, cost).map(|told| ("no line", told)));
        rows.extend(without_name(unnamed, cost).map(|told| ("no name", told)));
        if !session.complete {
            let cut_off = "the collector did not close this session; it holds what was written until then";
            rows.push(("incomplete", cut_off.to_owned()));
        }
    }
    rows.extend(session.notes.iter().map(|note| ("note", plain(note))));
    rows
}

fn run(session: &Session) -> String {
    let processes = match session.processes {
        1 => "1 process".to_owned(),
        processes => format!("{} processes", count(processes)),
    };
    let threads = plural(session.threads, "thread");
    format!("{} wall, {}; {processes}, {threads}", duration(session.duration_ns), plain(&session.ended))
}

/// How many samples there are, by what clock.
pub(crate) fn samples(session: &Session) -> String {
    let number = count(session.samples);
    if !session.weight.is_time() {
        let events: Vec<String> = session.events.iter().map(event).collect();
        let of = if events.is_empty() { String::new() } else { format!(" of {}", events.join(" and ")) };
        return format!("{number} by {}{of}", plain(&session.collector));
    }
    format!(
        "{number} by the {} at {:.0} Hz for {} of user time; {} in {}",
        plain(&session.collector),
        session.frequency_hz,
        duration(session.weight_total),
        plural_of(session.accesses, "access", "accesses"),
        plural(session.bursts.count, "burst"),
    )
}

/// `cpu/mem-loads,ldlat=30/P every 10,007 events`
fn event(event: &SampledEvent) -> String {
    let name = plain(&event.name);
    match (event.period, event.frequency_hz) {
        (Some(period), _) => format!("{name} every {}", plural(period, "event")),
        (None, Some(hz)) => format!("{name} at {} Hz", count(hz)),
        (None, None) => name,
    }
}

/// What shares are of, where that is not time.
fn shares(session: &Session) -> Option<String> {
    let total = session.weight_total;
    match session.weight {
        WeightUnit::TimeNs => None,
        WeightUnit::LatencyCycles => Some(format!(
            "of the sampled accesses' latency, {} in all; accesses overlap and hide behind computing, so these are no \
             shares of time",
            plural(total, "cycle")
        )),
        WeightUnit::Period => Some(format!("of the {} that samples stand for, not of time", plural(total, "event"))),
        WeightUnit::Samples => Some("of samples, not of time: what each stands for is not known".to_owned()),
    }
}

/// Share of the CPU time that the program was in the kernel.
fn kernel_share(session: &Session) -> f64 {
    session.system_ns as f64 / session.user_ns.saturating_add(session.system_ns).max(1) as f64
}

/// What a reader must know before trusting the numbers, of what [`recording`] tells.
fn warnings(session: &Session) -> Vec<Row> {
    let mut rows = Vec::new();
    let unseen = [
        (kernel_share(session) >= WORTH_A_LINE).then(|| kernel(session)),
        (unsampled_share(session) >= UNSAMPLED_WORTH_A_LINE).then(|| unsampled(session)),
    ];
    let unseen: Vec<String> = unseen.into_iter().flatten().collect();
    if !unseen.is_empty() {
        rows.push(("not seen", unseen.join("; ")));
    }
    if session.accesses > 0 && session.paced < 0.5 {
        rows.push(("counts", counts(session)));
    }
    let followed = session.allocations_followed as f64 / session.allocations.max(1) as f64;
    if session.allocations > 0 && 1.0 - followed >= WORTH_A_LINE {
        let told = format!("{} of the blocks were followed; {}", percent(followed), owners_of_others(session));
        rows.push(("heap", told));
    }
    rows
}

/// What the costs of an export are not, as sentences.
pub(crate) fn what_is_missing(session: &Session) -> Vec<String> {
    let told = [
        shares(session).map(|shares| format!("costs are {shares}")),
        (session.system_ns > 0).then(|| format!("not sampled: {}", kernel(session))),
        (session.unsampled_ns > 0).then(|| format!("not sampled: {}", unsampled(session))),
        (!session.complete).then(|| "the recording was cut off: what came after is not known".to_owned()),
    ];
    told.into_iter().flatten().collect()
}

/// How far counts of accesses are free of the clock's bias.
fn counts(session: &Session) -> String {
    match session.paced {
        0.0 => "how fast loops run is not known, so counts of accesses favour slow code".to_owned(),
        paced => format!(
            "how fast loops run is known for {} of the accesses; counts of others favour slow code",
            percent(paced)
        ),
    }
}

/// Share of the user time that no sample stands for.
fn unsampled_share(session: &Session) -> f64 {
    session.unsampled_ns as f64 / session.user_ns.max(1) as f64
}

fn unsampled(session: &Session) -> String {
    let share = percent(unsampled_share(session));
    format!("{} of user time that no sample stands for ({share})", duration(session.unsampled_ns))
}

fn kernel(session: &Session) -> String {
    format!("{} in the kernel ({} of CPU time)", duration(session.system_ns), percent(kernel_share(session)))
}

/// How the session was recorded and what that cost.
fn recording(session: &Session) -> Vec<Row> {
    let mut rows = vec![("trigger", plain(&session.trigger))];
    if let Some(reason) = &session.frequency_reason {
        rows.push(("rate", format!("{:.0} Hz: {}", session.frequency_hz, plain(reason))));
    }
    if session.burst_instructions > 0 {
        let told = format!(
            "what a sample's thread runs next, emulated to see its accesses: up to {} instructions, {:.0} on average{}",
            session.burst_instructions,
            session.bursts.mean_instructions,
            ends(&session.bursts).map(|ends| format!("; ended by {ends}")).unwrap_or_default(),
        );
        rows.push(("bursts", told));
    }
    if session.accesses > 0 {
        rows.push(("counts", counts(session)));
    }
    if session.system_ns > 0 {
        rows.push(("not seen", format!("{}; {}", kernel(session), unsampled(session))));
    }
    if session.allocations > 0 {
        let (number, size) = (plural(session.allocations, "allocation"), bytes(session.allocated_bytes));
        rows.push(("heap", format!("{number} of {size}{}", followed(session))));
    }
    if session.sampling_ns > 0 {
        // Of a program that was killed, the samples' own time is all that is known.
        let cpu_ns = session.user_ns.saturating_add(session.system_ns);
        let sampled_ns = if session.weight.is_time() { session.weight_total } else { session.duration_ns };
        let whole = if cpu_ns > 0 { cpu_ns } else { sampled_ns };
        let share = session.sampling_ns as f64 / whole.max(1) as f64;
        let own = duration(session.sampling_ns);
        let told = format!("{own} in its own samples ({} of CPU time), without the interrupts", percent(share));
        rows.push(("slimline", told));
    }
    rows
}

/// What is to be said where not all blocks were followed.
fn followed(session: &Session) -> String {
    if session.follow_shift == 0 {
        return String::new();
    }
    let share = session.allocations_followed as f64 / session.allocations.max(1) as f64;
    format!(
        "; to keep within the budget {} of the blocks were followed, at the end one in {} and all of {} or more; {}",
        percent(share),
        1_u64 << session.follow_shift.min(63),
        bytes(session.followed_bytes),
        owners_of_others(session),
    )
}

/// How accesses to blocks that were not followed find their data.
fn owners_of_others(session: &Session) -> String {
    let estimated = "is estimated from what the same code accesses in followed ones and from sizes";
    match session.owner_known_share {
        0.0 => format!("the data of the others {estimated}"),
        known if known >= 1.0 - f64::EPSILON => "size and type identify the data of the others".to_owned(),
        known => format!(
            "size and type identify the data of {} of the accesses to the others; that of the rest {estimated}",
            percent(known)
        ),
    }
}

fn quality(quality: &Quality) -> String {
    let parts = [
        ("exact", quality.exact),
        ("by undoing instructions", quality.inverted),
        ("of the next execution", quality.next_instance),
        ("lost", quality.lost),
        ("no memory instruction (computing)", quality.no_memory),
        ("no code", quality.no_code),
        ("ambiguous (several instructions could be to blame)", quality.ambiguous),
    ];
    join(parts.iter().filter(|(_, share)| *share > 0.0).map(|(name, share)| format!("{name} {}", percent(*share))))
}

fn ends(bursts: &Bursts) -> Option<String> {
    if bursts.ends.is_empty() {
        return None;
    }
    Some(join(bursts.ends.iter().map(|end| format!("{} {}", end.name, percent(end.share)))))
}

/// How much was lost, and of what.
pub(crate) fn lost(lost: &Lost) -> String {
    let parts = [
        (lost.dropped, "sample dropped (ring full)", "samples dropped (ring full)"),
        (lost.throttled, "trigger held back", "triggers held back"),
        (lost.unresolved, "sample without an address", "samples without an address"),
        (lost.messages, "event dropped (ring full)", "events dropped (ring full)"),
        (lost.damaged, "damaged record left out", "damaged records left out"),
        (lost.threads, "thread not sampled", "threads not sampled"),
        (lost.children, "forked process not recorded", "forked processes not recorded"),
        (lost.stacks, "call path dropped", "call paths dropped"),
        (lost.blocks, "heap block not indexed", "heap blocks not indexed"),
        (
            lost.allocator_functions,
            "function of an allocator whose calls are not seen",
            "functions of allocators whose calls are not seen",
        ),
        (lost.unwritten, "sample not written", "samples not written"),
        (lost.deep_stacks, "call path too deep to keep whole", "call paths too deep to keep whole"),
        (
            lost.uncounted_threads,
            "thread whose last allocations are not counted",
            "threads whose last allocations are not counted",
        ),
        (lost.broken_stacks, "call path not unwound to its end", "call paths not unwound to their end"),
    ];
    let told = join(
        parts
            .iter()
            .filter(|(n, ..)| *n > 0)
            .map(|(n, one, many)| format!("{} {}", count(*n), if *n == 1 { one } else { many })),
    );
    if told.is_empty() { "nothing".to_owned() } else { told }
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}
