//! The head: what was run, how it was seen, what was lost.

use std::fmt::{self, Write};

use super::number::{count, duration, percent, plural};
use super::{HEADING, STRONG};
use crate::escape::{command_line, plain};
use crate::view::{Bursts, Lost, Quality, Session};

/// Widest value: the page less the labels.
const VALUE_WIDTH: usize = super::WIDTH - 12;

pub(super) fn write(out: &mut impl Write, session: &Session) -> fmt::Result {
    line(out, "command", &command_line(&session.command))?;
    line(
        out,
        "collector",
        &format!(
            "{} (sampled): {}, {:.0} Hz a thread, bursts of {} instructions",
            session.collector, session.trigger, session.frequency_hz, session.burst_instructions
        ),
    )?;
    line(
        out,
        "run",
        &format!(
            "{} wall, {}; {}, {}",
            duration(session.duration_ns),
            plain(&session.ended),
            if session.processes == 1 {
                "1 process".to_owned()
            } else {
                format!("{} processes", count(session.processes))
            },
            plural(session.threads, "thread"),
        ),
    )?;
    if session.samples == 0 {
        return empty(out, session);
    }
    line(
        out,
        "samples",
        &format!(
            "{} for {} of user time; {} seen in bursts, {:.0} instructions each",
            count(session.samples),
            duration(session.weight_total),
            if session.accesses == 1 { "1 access".to_owned() } else { format!("{} accesses", count(session.accesses)) },
            session.bursts.mean_instructions,
        ),
    )?;
    line(out, "addresses", &quality(&session.quality))?;
    if let Some(ends) = ends(&session.bursts) {
        line(out, "burst ends", &ends)?;
    }
    let cpu_ns = session.user_ns + session.system_ns;
    if cpu_ns > 0 {
        let share = session.system_ns as f64 / cpu_ns as f64;
        line(
            out,
            "not seen",
            &format!("{} in the kernel ({} of CPU time)", duration(session.system_ns), percent(share)),
        )?;
    }
    line(out, "lost", &lost(&session.lost))?;
    if !session.complete {
        line(out, "incomplete", "the collector did not close this session; it holds what was written until then")?;
    }
    for note in &session.notes {
        line(out, "note", &plain(note))?;
    }
    Ok(())
}

fn empty(out: &mut impl Write, session: &Session) -> fmt::Result {
    line(out, "samples", "none: there is nothing to report")?;
    let why = if session.duration_ns < 50_000_000 {
        "the run was shorter than 50 ms; give it more work, or raise the rate with -F"
    } else {
        "the program hardly ran on a CPU, or never entered user code; see `slimline doctor -- COMMAND`"
    };
    writeln!(out, "{STRONG}{:>10}{STRONG:#}  {why}", "why")?;
    for note in &session.notes {
        line(out, "note", &plain(note))?;
    }
    Ok(())
}

/// One labelled value, folded at word ends.
fn line(out: &mut impl Write, label: &str, value: &str) -> fmt::Result {
    let mut label = label;
    let mut rest = value;
    while rest.chars().count() > VALUE_WIDTH {
        let limit = rest.char_indices().nth(VALUE_WIDTH).map_or(rest.len(), |(at, _)| at);
        let cut = rest[..limit].rfind(' ').filter(|&at| at > 0).unwrap_or(limit);
        writeln!(out, "{HEADING}{label:>10}{HEADING:#}  {}", &rest[..cut])?;
        rest = rest[cut..].trim_start();
        label = "";
    }
    writeln!(out, "{HEADING}{label:>10}{HEADING:#}  {rest}")
}

fn quality(quality: &Quality) -> String {
    let parts = [
        ("exact", quality.exact),
        ("by undoing", quality.inverted),
        ("next execution", quality.next_instance),
        ("lost", quality.lost),
        ("no memory instruction", quality.no_memory),
        ("no code", quality.no_code),
    ];
    join(parts.iter().filter(|(_, share)| *share > 0.0).map(|(name, share)| format!("{name} {}", percent(*share))))
}

fn ends(bursts: &Bursts) -> Option<String> {
    if bursts.ends.is_empty() {
        return None;
    }
    Some(join(bursts.ends.iter().map(|end| format!("{} {}", end.name, percent(end.share)))))
}

fn lost(lost: &Lost) -> String {
    let parts = [
        (lost.dropped, "sample dropped (ring full)", "samples dropped (ring full)"),
        (lost.throttled, "trigger held back", "triggers held back"),
        (lost.unresolved, "sample without an address", "samples without an address"),
        (lost.messages, "event dropped (ring full)", "events dropped (ring full)"),
        (lost.threads, "thread not sampled", "threads not sampled"),
        (lost.stacks, "call path dropped", "call paths dropped"),
        (lost.blocks, "heap block not indexed", "heap blocks not indexed"),
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
