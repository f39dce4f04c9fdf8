//! `slimline annotate`

use std::path::PathBuf;

use anyhow::bail;
use slimline_report::annotate;

use super::print;
use crate::cli::{self, Format};
use crate::pipeline;

/// Names listed where the one asked for is not there.
const SUGGESTIONS: usize = 8;

pub(crate) fn run(options: &cli::Annotate) -> anyhow::Result<u8> {
    let (session, name) = match options.words.as_slice() {
        [name] => (PathBuf::from(slimline_trace::session::DEFAULT_DIRECTORY), name),
        [session, name] => (PathBuf::from(session), name),
        _ => unreachable!("clap takes one or two words"),
    };
    let mut report = pipeline::report(&session)?;
    let found = annotate::matching(&report, name);
    if found.is_empty() {
        let mut known: Vec<&str> = report.groups.iter().filter_map(|group| group.type_name.as_deref()).collect();
        known.dedup();
        known.truncate(SUGGESTIONS);
        bail!("no data of type {name:?} in {}; the hottest types are: {}", session.display(), known.join(", "));
    }
    match options.format {
        Format::Text => {
            let mut out = String::new();
            for (number, group) in found.into_iter().enumerate() {
                if number > 0 {
                    out.push('\n');
                }
                annotate::structure(&mut out, &report, group)?;
            }
            print(&out)?;
        }
        Format::Json => {
            let wanted: Vec<u32> = found.iter().map(|group| group.id).collect();
            report.groups.retain(|group| wanted.contains(&group.id));
            report.advice.retain(|advice| wanted.contains(&advice.group));
            print(&slimline_report::json(&report))?;
        }
    }
    Ok(0)
}
