//! The head: what was run, how it was seen, what was lost.

use std::fmt::{self, Write};

use super::labelled;
use super::number::{bytes, count, duration, percent, plural};
use crate::escape::{command_line, plain};
use crate::view::{Bursts, Lost, Quality, Session, Unnamed};

/// Columns of the labels.
const LABEL_WIDTH: usize = 10;

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
    if let Some(reason) = &session.frequency_reason {
        line(out, "rate", &format!("{:.0} Hz: {}", session.frequency_hz, plain(reason)))?;
    }
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
            "{} for {} of user time; {} seen in {} of {:.0} instructions",
            count(session.samples),
            duration(session.weight_total),
            if session.accesses == 1 { "1 access".to_owned() } else { format!("{} accesses", count(session.accesses)) },
            plural(session.bursts.count, "burst"),
            session.bursts.mean_instructions,
        ),
    )?;
    line(out, "addresses", &quality(&session.quality))?;
    if let Some(ends) = ends(&session.bursts) {
        line(out, "burst ends", &ends)?;
    }
    let cpu_ns = session.user_ns + session.system_ns;
    if session.system_ns > 0 {
        let share = session.system_ns as f64 / cpu_ns as f64;
        line(
            out,
            "not seen",
            &format!("{} in the kernel ({} of CPU time)", duration(session.system_ns), percent(share)),
        )?;
    }
    if session.sampling_ns > 0 {
        // Of a program that was killed, the samples' own time is all that is known.
        let whole = if cpu_ns > 0 { cpu_ns } else { session.weight_total };
        let share = session.sampling_ns as f64 / whole.max(1) as f64;
        line(
            out,
            "slimline",
            &format!(
                "{} in its own samples ({} of CPU time), without the interrupts",
                duration(session.sampling_ns),
                percent(share)
            ),
        )?;
    }
    if session.allocations > 0 {
        line(
            out,
            "heap",
            &format!(
                "{} of {}{}",
                plural(session.allocations, "allocation"),
                bytes(session.allocated_bytes),
                followed(session),
            ),
        )?;
    }
    if session.accesses > 0 && session.paced < 0.9995 {
        line(
            out,
            "counts",
            &match session.paced {
                0.0 => "no access lies in a loop of known pace, so they favour slow code".to_owned(),
                paced => format!(
                    "{} of the accesses lie in loops of known pace; the other counts favour slow code",
                    percent(paced)
                ),
            },
        )?;
    }
    line(out, "lost", &lost(&session.lost))?;
    for told in unnamed(&session.unnamed) {
        line(out, "not named", &told)?;
    }
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
    if let Some(why) = &session.no_samples_because {
        line(out, "why", &plain(why))?;
    }
    for note in &session.notes {
        line(out, "note", &plain(note))?;
    }
    Ok(())
}

/// One labelled value, folded at word ends.
fn line(out: &mut impl Write, label: &str, value: &str) -> fmt::Result {
    labelled(out, label, LABEL_WIDTH, value)
}

/// What is to be said where not all blocks were followed.
fn followed(session: &Session) -> String {
    if session.follow_shift == 0 {
        return String::new();
    }
    let share = session.allocations_followed as f64 / session.allocations.max(1) as f64;
    format!(
        "; to keep within the budget {} of the blocks were followed, at the end one in {} and all of \
         {} or more; accesses to others are counted where the same instruction accesses followed ones",
        percent(share),
        1_u64 << session.follow_shift.min(63),
        bytes(session.followed_bytes),
    )
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

/// Shares below this are told in JSON only.
const LEAST_UNNAMED: f64 = 0.005;
/// Modules named with each reason.
const MODULES: usize = 3;

/// One line a reason, costliest first. Samples without an address are told as such above.
fn unnamed(rows: &[Unnamed]) -> Vec<String> {
    let mut reasons: Vec<(&str, f64, Vec<&str>)> = Vec::new();
    for row in rows.iter().filter(|row| row.reason != "no_address") {
        let name = row.module.rsplit('/').next().unwrap_or_default();
        match reasons.iter_mut().find(|(reason, ..)| *reason == row.reason) {
            Some((_, share, modules)) => {
                *share += row.share;
                modules.push(name);
            }
            None => reasons.push((&row.reason, row.share, vec![name])),
        }
    }
    reasons.retain(|(_, share, _)| *share >= LEAST_UNNAMED);
    reasons.sort_by(|a, b| b.1.total_cmp(&a.1));
    reasons.iter().map(|(reason, share, modules)| format!("{} {}", percent(*share), because(reason, modules))).collect()
}

fn because(reason: &str, modules: &[&str]) -> String {
    let modules: Vec<&str> = modules.iter().copied().filter(|name| !name.is_empty()).collect();
    let mut list = modules.iter().take(MODULES).map(|name| plain(name)).collect::<Vec<_>>().join(", ");
    if modules.len() > MODULES {
        list += &format!(" and {} more", modules.len() - MODULES);
    }
    let of = |what: &str| if list.is_empty() { what.to_owned() } else { format!("{what} of {list}") };
    match reason {
        "no_mapping" => "at addresses in no mapping that was seen".to_owned(),
        "no_call_path" => "in heap blocks without a call path".to_owned(),
        "no_variable" => of("in data without a symbol"),
        "code_in_no_file" => "in code that was generated at run time".to_owned(),
        "unreadable_module" => of("in code that can no longer be read"),
        "no_function" => of("in stripped code"),
        "no_line" => of("in code without lines (no debug information)"),
        "split_debug_info" => of("in code whose lines are in .dwo files, which are not read,"),
        "damaged_debug_info" => of("in code with damaged or partly missing debug information"),
        other => of(other),
    }
}
