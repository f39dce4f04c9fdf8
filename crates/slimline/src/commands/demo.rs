//! `slimline demo`: compile a small program, record it, print report and advice.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use slimline_trace::session::{DEFAULT_DIRECTORY, End};

use super::write_whole;
use super::{advise, record, report};
use crate::{cli, say};

/// The same program in two languages: one compiler is always at hand where slimline was built.
const SOURCES: [Source; 2] = [
    Source {
        compilers: &["rustc"],
        file: "bodies.rs",
        text: include_str!("../../demo/bodies.rs"),
        arguments: &["--edition", "2021", "-O", "-g", "-o", "bodies", "bodies.rs"],
    },
    Source {
        compilers: &["cc", "gcc", "clang"],
        file: "bodies.c",
        text: include_str!("../../demo/bodies.c"),
        arguments: &["-O2", "-g", "-o", "bodies", "bodies.c"],
    },
];

/// The program runs for seconds only, and nobody minds what recording it costs.
const FREQUENCY_HZ: u32 = 1000;

/// What `--html` writes.
const PAGE_FILE: &str = "slimline-demo.html";

struct Source {
    compilers: &'static [&'static str],
    file: &'static str,
    text: &'static str,
    arguments: &'static [&'static str],
}

pub(crate) fn run(options: &cli::Demo) -> anyhow::Result<u8> {
    let (directory, scratch) = match &options.keep {
        Some(directory) => {
            fs::create_dir_all(directory).with_context(|| format!("can't make {}", directory.display()))?;
            (directory.clone(), None)
        }
        None => {
            let scratch = tempfile::Builder::new().prefix("slimline-demo-").tempdir()?;
            (scratch.path().to_owned(), Some(scratch))
        }
    };
    let program = compile(&directory)?;
    let session = directory.join(DEFAULT_DIRECTORY);
    say(format_args!("slimline record -F {FREQUENCY_HZ} -- {}", program.display()));
    let frequency = cli::Frequency::Fixed(FREQUENCY_HZ);
    let outcome = record::record(&cli::Record::of(program.into_os_string(), session.clone(), frequency), true)?;
    if outcome.end() != (End::Exited { status: 0 }) {
        bail!("the demo program failed: {:?}", outcome.end());
    }
    say("slimline report");
    report::run(&cli::Report::of(session.clone()))?;
    say("");
    say("slimline advise");
    advise::run(&cli::Advise::of(session.clone()))?;
    if options.html {
        let page = options.keep.as_deref().unwrap_or(Path::new("")).join(PAGE_FILE);
        let content = report::html_page(&session)?;
        write_whole(&page, |out| out.write_all(content.as_bytes()))?;
        say("");
        say(format_args!("Open {} in a browser: the same as a page.", page.display()));
    }
    if scratch.is_none() {
        say("");
        say(format_args!("Kept in {}: source, program and session.", directory.display()));
    }
    Ok(0)
}

/// Compiles the bundled program with the first compiler that is there.
fn compile(directory: &Path) -> anyhow::Result<PathBuf> {
    for source in &SOURCES {
        for compiler in source.compilers {
            fs::write(directory.join(source.file), source.text)?;
            let run = Command::new(compiler).args(source.arguments).current_dir(directory).output();
            let Ok(output) = run else { continue };
            if !output.status.success() {
                String::from_utf8_lossy(&output.stderr).lines().for_each(say);
                bail!("{compiler} could not compile the demo");
            }
            say(format_args!("{compiler} {}", source.arguments.join(" ")));
            return Ok(directory.join("bodies"));
        }
    }
    bail!("the demo needs rustc or a C compiler in PATH; to profile a program you have: slimline record -- PROGRAM")
}
