//! `slimline advise`

use std::env;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use slimline_report::html::Finding;
use slimline_report::text;
use slimline_trace::stream::recording::is_recording;

use super::{ReportPlace, show, show_found, write_whole};
use crate::cli::{self, Format, PageFormat};
use crate::patching::{Compiled, Patched, can_be_patched, patch_of};
use crate::pipeline;
use crate::relayouts::{self, IsTried};

/// Says what to change: of a session by its samples, of a trace by replaying it with each layout.
pub(crate) fn run(options: &cli::Advise) -> anyhow::Result<u8> {
    let directory = &options.input.session;
    if is_recording(directory) {
        if options.verbose {
            bail!("--verbose goes with a session (of `slimline record`): {} is a trace", directory.display());
        }
        let compiled = options.patch.as_ref().map(|_| Compiled::of(directory, options.compile_commands.as_deref()));
        let compiled = compiled.transpose()?;
        let is_tried: IsTried = if options.patch.is_some() { can_be_patched } else { |_, _| true };
        let mut report = relayouts::search(directory, options.machine.as_deref(), is_tried)?;
        if let Some((path, compiled)) = options.patch.as_ref().zip(compiled) {
            let Patched { diff, report: mut made } = patch_of(compiled, &report)?;
            // Also where nothing is patched: an older one that is there would be taken for this.
            write_whole(path, |out| out.write_all(diff.as_bytes()))?;
            made.file = (!diff.is_empty()).then(|| path.display().to_string());
            report.patch = Some(made);
        }
        let here = env::current_dir().context("this directory")?;
        let text = |out: &mut String| text::relayout(out, &report, &here);
        let found = (&report.trace, Finding::Advice(&report));
        show_found((options.format, ReportPlace::Output), found, || report.json(), text)?;
        return Ok(0);
    }
    if !directory.exists() {
        bail!(
            "{}: no such session or trace (record one with: slimline record -- COMMAND, or write one with: slimline trace -o DIR -- COMMAND)",
            directory.display()
        );
    }
    if options.patch.is_some() {
        bail!("--patch goes with a trace (of `slimline trace -o`): {} is none", directory.display());
    }
    if options.machine.is_some() {
        bail!(
            "--machine goes with a trace (of `slimline trace -o`), which is replayed: {} is none",
            directory.display()
        );
    }
    let format = match options.format {
        PageFormat::Text => Format::Text,
        PageFormat::Json => Format::Json,
        PageFormat::Html => bail!(
            "--format html goes with a trace: the page of a session, with its advice, is that of slimline report --format html {}",
            directory.display()
        ),
    };
    let report = pipeline::report(directory)?;
    show(
        format,
        ReportPlace::Output,
        || slimline_report::json(&report),
        |out| text::advise(out, &report, options.verbose),
    )?;
    Ok(0)
}

impl cli::Advise {
    /// The advice of `session` as text.
    pub(crate) fn of(session: PathBuf) -> Self {
        Self {
            input: cli::Input { session },
            machine: None,
            patch: None,
            compile_commands: None,
            format: PageFormat::Text,
            verbose: false,
        }
    }
}
