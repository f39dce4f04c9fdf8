//! `slimline import`

use std::fmt::Write as _;
use std::fs;

use anyhow::Context;
use slimline_collect::{ImportOptions, import};
use slimline_report::{import_losses, import_remarks};
use slimline_trace::session::SessionInfo;

use crate::cli;
use crate::progress::Progress;
use crate::say;

/// Imports a file and says on standard error what became of it.
pub(crate) fn run(options: &cli::Import) -> anyhow::Result<u8> {
    let file = options.file.display();
    let bytes = fs::metadata(&options.file).ok().filter(fs::Metadata::is_file).map_or(0, |file| file.len());
    let (shown, mut read) = (Progress::of(&format!("reading {file}"), bytes), 0);
    let mut progress = |read_so_far: u64| {
        shown.advance(read_so_far.saturating_sub(read));
        read = read_so_far;
    };
    let outcome = import(
        &ImportOptions {
            input: options.file.clone(),
            output: options.output.clone(),
            columns: options.columns.clone(),
        },
        &mut progress,
    )
    .with_context(|| file.to_string())?;
    drop(shown);
    say(format_args!("slimline: {}: {}", outcome.directory.display(), summary(&outcome.info)));
    Ok(0)
}

fn summary(info: &SessionInfo) -> String {
    let samples = info.counted_samples();
    let mut text = format!("{samples} samples");
    if info.processes.len() > 1 {
        let _ = write!(text, ", {} processes", info.processes.len());
    }
    let losses = info.imported.iter().flat_map(import_losses);
    let remarks = info.imported.iter().flat_map(import_remarks);
    for remark in losses.chain(remarks).chain(info.stopped_early.clone()) {
        let _ = write!(text, "; {remark}");
    }
    text
}
