//! `slimline regions`

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use slimline_collect::{RegionsOutcome, WrittenProfile, profile_regions, why_without_regions};
use slimline_regions::{Ended, Profile, Run, read_all};
use slimline_report::regions::RegionsReport;
use slimline_report::text;
use slimline_trace::session::End;

use super::{ReportPlace, show};
use crate::cli::{self, Format, TableFormat};
use crate::{is_broken_pipe, region_code, say};

/// Runs the program and shows where its threads were, or shows what was kept of that.
pub(crate) fn run(options: &cli::Regions) -> anyhow::Result<u8> {
    let report = |kept: &Path| read(kept).map(|profiles| RegionsReport::new(profiles, Vec::new()));
    let against = options.against.as_deref().map(report).transpose()?;
    let beside = |now: RegionsReport| match &against {
        Some(then) => now.against(then),
        None => now,
    };
    if let Some(kept) = &options.profile {
        let now = beside(report(kept)?);
        shown(options, ReportPlace::open(options.report.as_deref(), false)?, &now)?;
        return Ok(0);
    }
    if let Some(why) = why_without_regions(&options.command)? {
        bail!("{}: link it dynamically, with glibc", why.replace("the agent", "what times regions"));
    }
    if let Some(output) = &options.output {
        check_output(output)?;
    }
    let place = ReportPlace::open(options.report.as_deref(), true)?;
    let outcome = profile_regions(&options.command)?;
    let (mut profiles, missing) = taken(&outcome);
    if profiles.is_empty() {
        missing.iter().for_each(|what| say(format_args!("slimline: missing: {what}")));
        say(
            "slimline: no region was met: the program calls neither libgomp nor LLVM's libomp that are shared libraries, nor \
             slimline_region_begin(); Intel's, NVIDIA's and other runtimes are not seen",
        );
        outcome.exit(true);
    }
    let command: Vec<String> = options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    for profile in &mut profiles {
        profile.run = Some(Run { ended: ended(outcome.end), command: command.clone() });
    }
    region_code::look_up(&mut profiles);
    let kept = options.output.as_deref().map_or(Ok(()), |output| keep(output, &profiles));
    let written = kept.and_then(|()| shown(options, place, &beside(RegionsReport::new(profiles, missing))));
    match written {
        Err(error) if !is_broken_pipe(&error) => {
            say(format_args!("slimline: {error:#}"));
            outcome.exit(true)
        }
        _ => outcome.exit(false),
    }
}

/// Profiles that can be read, and what is missing beside them.
fn taken(outcome: &RegionsOutcome) -> (Vec<Profile>, Vec<String>) {
    let (mut profiles, mut missing) = (Vec::new(), Vec::new());
    for WrittenProfile { process, profile } in &outcome.profiles {
        match profile {
            Ok(profile) => profiles.push(profile.clone()),
            Err(error) => missing.push(format!("process {process}: {error}")),
        }
    }
    if outcome.runs_on {
        missing.push("processes that the command started and that run on".to_owned());
    }
    (profiles, missing)
}

fn ended(end: End) -> Ended {
    match end {
        End::Exited { status } => Ended::Status(status),
        End::Signaled { signal } => Ended::Signal(signal),
        // A command that we start is waited for.
        End::Detached | End::Gone => Ended::Status(0),
    }
}

fn read(kept: &Path) -> anyhow::Result<Vec<Profile>> {
    let bytes = fs::read(kept).with_context(|| kept.display().to_string())?;
    read_all(&bytes).with_context(|| format!("{}: not what slimline regions -o writes", kept.display()))
}

/// What another program wrote stays.
fn check_output(output: &Path) -> anyhow::Result<()> {
    match fs::read(output) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = output.parent().filter(|directory| !directory.as_os_str().is_empty());
            if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
                bail!("{}: no such directory", directory.display());
            }
            Ok(())
        }
        Err(error) => Err(error).with_context(|| output.display().to_string()),
        Ok(bytes) if read_all(&bytes).is_ok() => Ok(()),
        Ok(_) => bail!("{}: is there already, and no profile of regions: name another file", output.display()),
    }
}

/// Writes profiles in one step: nobody sees half a file.
fn keep(output: &Path, profiles: &[Profile]) -> anyhow::Result<()> {
    let beside = |suffix: &str| {
        let mut name = output.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let (temporary, old) = (beside(".tmp"), beside(".old"));
    let content: String = profiles.iter().map(Profile::written).collect();
    let write = || {
        File::create(&temporary)?.write_all(content.as_bytes())?;
        match fs::rename(output, old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::rename(&temporary, output),
        }
    };
    write().with_context(|| {
        // It says nothing that is not to be told now.
        let _ = fs::remove_file(&temporary);
        output.display().to_string()
    })
}

fn shown(options: &cli::Regions, place: ReportPlace, report: &RegionsReport) -> anyhow::Result<()> {
    let text = |out: &mut String| text::regions(out, report, options.rows);
    match options.format {
        TableFormat::Json => show(Format::Json, place, || report.json(), text),
        TableFormat::Text => show(Format::Text, place, || report.json(), text),
        TableFormat::Csv => {
            report.missing.iter().for_each(|what| say(format_args!("slimline: missing: {what}")));
            place.print(&report.csv())
        }
    }
}
