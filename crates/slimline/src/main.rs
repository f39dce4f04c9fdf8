//! The `slimline` program: command line, exit codes, files and progress around the library crates.

mod cli;
mod commands;
mod disk;
mod inspect;
mod pipeline;

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;

/// Exit status for bad usage or input, as clap's own.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    match commands::run(cli::Cli::parse()) {
        Ok(status) => ExitCode::from(status),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("slimline: {error:#}"));
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// One line on standard error. Where that is closed or full there is nobody left to tell.
fn say(line: impl Display) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// `slimline report | head` is no failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
