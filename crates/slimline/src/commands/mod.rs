//! One module a subcommand. Each returns the exit status.

mod advise;
mod annotate;
mod browse;
mod cargo;
mod check;
mod compile;
mod demo;
mod diff;
mod doctor;
mod export;
mod gcc;
mod histogram;
mod import;
mod layout;
mod layouts;
mod learn;
mod links;
mod machine;
mod place;
mod record;
mod regions;
mod report;
mod reuse;
mod share;
mod simulate;
mod trace;
mod trace_page;

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use slimline_instrument::driver::{FORTRAN_MODULE, HEADER, Language};
use slimline_instrument::gcc::Compiler;
use slimline_report::html::{self, Finding};
use slimline_report::simulation::AccessTrace;

use crate::cli::{AccessInput, Cli, Command, Format, PageFormat, ReportFormat};
use crate::{say, sources};

pub(crate) fn run(cli: Cli) -> anyhow::Result<u8> {
    match &cli.command {
        Command::Record(options) => record::run(options),
        Command::Trace(options) => trace::run(options),
        Command::CompileC(options) => compile::run(Language::C, options),
        Command::CompileCPlusPlus(options) => compile::run(Language::CPlusPlus, options),
        Command::Flang(options) => compile::run(Language::Fortran, options),
        Command::Gcc(options) => gcc::run(Compiler::C, options),
        Command::GccCPlusPlus(options) => gcc::run(Compiler::CPlusPlus, options),
        Command::Gfortran(options) => gcc::run(Compiler::Fortran, options),
        Command::Cargo(options) => cargo::run(options),
        Command::Links(options) => links::run(options),
        Command::Header { fortran } => {
            print(if *fortran { FORTRAN_MODULE } else { HEADER })?;
            Ok(0)
        }
        Command::Import(options) => import::run(options),
        Command::Report(options) => report::run(options),
        Command::Advise(options) => advise::run(options),
        Command::Annotate(options) => annotate::run(options),
        Command::Export(options) => export::run(options),
        Command::Histogram(options) => histogram::run(options),
        Command::Layout(options) => layout::run(options),
        Command::Diff(options) => diff::run(options),
        Command::Check(options) => check::run(options),
        Command::Layouts(options) => layouts::run(options),
        Command::Learn(options) => learn::run(options),
        Command::Place(options) => place::run(options),
        Command::Regions(options) => regions::run(options),
        Command::Reuse(options) => reuse::run(options),
        Command::Share(options) => share::run(options),
        Command::Simulate(options) => simulate::run(options),
        Command::Machine(options) => machine::run(options),
        Command::Doctor(options) => doctor::run(options),
        Command::Demo(options) => demo::run(options),
        Command::Calibrate { microseconds } => {
            slimline_collect::run_stall_kernel(Duration::from_micros(*microseconds))?;
            Ok(0)
        }
    }
}

/// Where a report goes.
enum ReportPlace {
    Output,
    /// Where the program's own output is not mixed with it.
    Error,
    File(PathBuf, File),
}

impl ReportPlace {
    /// Where the user asks for, `-` being standard output; else that, or standard error where a program runs that has its output
    /// there. Made before it runs, so that nothing runs in vain.
    fn open(asked: Option<&Path>, has_run: bool) -> anyhow::Result<Self> {
        match asked {
            None if has_run => Ok(Self::Error),
            Some(path) if path.as_os_str() != "-" => {
                let file = File::create(path).with_context(|| path.display().to_string())?;
                Ok(Self::File(path.to_owned(), file))
            }
            _ => Ok(Self::Output),
        }
    }

    /// The same for what reads accesses.
    fn of(input: &AccessInput) -> anyhow::Result<Self> {
        Self::open(input.report.as_deref(), input.live)
    }

    /// Writes a report; styles reach terminals only, and not where `NO_COLOR` is set.
    fn print(self, text: &str) -> anyhow::Result<()> {
        match self {
            Self::Output => print(text),
            Self::Error => {
                let mut out = anstream::stderr().lock();
                out.write_all(text.as_bytes())?;
                Ok(out.flush()?)
            }
            Self::File(path, file) => {
                let mut out = anstream::StripStream::new(file);
                out.write_all(text.as_bytes()).and_then(|()| out.flush()).with_context(|| path.display().to_string())
            }
        }
    }
}

/// Prints a report in the format that is asked for.
fn show(
    format: Format,
    place: ReportPlace,
    json: impl FnOnce() -> String,
    text: impl FnOnce(&mut String) -> fmt::Result,
) -> anyhow::Result<()> {
    match format {
        Format::Json => place.print(&json()),
        Format::Text => {
            let mut out = String::new();
            text(&mut out)?;
            place.print(&out)
        }
    }
}

/// The same of what an analysis of a trace found, which has a page, too.
fn show_found(
    (format, place): (PageFormat, ReportPlace),
    found: (&AccessTrace, Finding<'_>),
    json: impl FnOnce() -> String,
    text: impl FnOnce(&mut String) -> fmt::Result,
) -> anyhow::Result<()> {
    match format {
        PageFormat::Json => show(Format::Json, place, json, text),
        PageFormat::Text => show(Format::Text, place, json, text),
        PageFormat::Html => print_page(place, found),
    }
}

/// The same with a table, which has no place for what is missing.
fn show_table(
    (format, place): (ReportFormat, ReportPlace),
    found: (&AccessTrace, Finding<'_>),
    json: impl FnOnce() -> String,
    csv: impl FnOnce() -> String,
    text: impl FnOnce(&mut String) -> fmt::Result,
) -> anyhow::Result<()> {
    match format {
        ReportFormat::Json => show(Format::Json, place, json, text),
        ReportFormat::Text => show(Format::Text, place, json, text),
        ReportFormat::Csv => {
            say_missing(found.0);
            place.print(&csv())
        }
        ReportFormat::Html => print_page(place, found),
    }
}

/// Writes the page of what one analysis found.
fn print_page(place: ReportPlace, (trace, finding): (&AccessTrace, Finding<'_>)) -> anyhow::Result<()> {
    let (mut page, findings) = (String::new(), [finding]);
    html::trace(&mut page, trace, None, &findings, &sources::of_trace(&findings))?;
    place.print(&page)
}

/// Tells what is missing of a recording beside a format that has no place for it.
fn say_missing(trace: &AccessTrace) {
    trace.missing.iter().for_each(|what| say(format_args!("slimline: missing: {what}")));
}

/// Writes a report to standard output; styles reach terminals only, and not where `NO_COLOR` is set.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// All of it, or what was there stays; a pipe or a terminal is written to, and standard output for `-`.
fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut dyn io::Write>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let write_into = |out: &mut dyn io::Write| {
        let mut out = BufWriter::new(out);
        write(&mut out)?;
        out.flush()
    };
    if path.as_os_str() == "-" {
        return Ok(write_into(&mut io::stdout().lock())?);
    }
    let write_to = |path: &OsStr| write_into(&mut File::create(path)?);
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        return write_to(path.as_os_str()).with_context(|| path.display().to_string());
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.unfinished", std::process::id()));
    let written = write_to(&unfinished).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        _ = fs::remove_file(&unfinished);
    }
    written.with_context(|| path.display().to_string())
}
