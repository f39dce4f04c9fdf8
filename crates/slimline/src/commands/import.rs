//! `slimline import`

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context;
use slimline_collect::{ImportOptions, Progress, import};
use slimline_report::{import_losses, import_remarks};
use slimline_trace::session::SessionInfo;

use crate::cli;
use crate::say;

/// Nothing is told of what takes less, and then as often.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// Imports a file and says on standard error what became of it.
pub(crate) fn run(options: &cli::Import) -> anyhow::Result<u8> {
    let total_bytes = fs::metadata(&options.file).ok().filter(fs::Metadata::is_file).map(|file| file.len());
    let mut told = Instant::now();
    let mut progress = |progress: Progress| {
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            let Progress { read_bytes, samples } = progress;
            let of_total = total_bytes.map_or_else(String::new, |total| format!(" of {}", mebibytes(total)));
            say(format_args!("slimline: read {}{of_total}, {samples} samples", mebibytes(read_bytes)));
        }
    };
    let outcome = import(
        &ImportOptions {
            input: options.file.clone(),
            output: options.output.clone(),
            columns: options.columns.clone(),
        },
        &mut progress,
    )
    .with_context(|| options.file.display().to_string())?;
    say(format_args!("slimline: {}: {}", outcome.directory.display(), summary(&outcome.info)));
    Ok(0)
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
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
