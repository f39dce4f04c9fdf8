//! The `slimline` program: command line, exit codes, files and progress around the library crates.

mod accesses;
mod cli;
mod collectors;
mod commands;
mod comparing;
mod configuration;
mod declared_layouts;
mod disk;
mod foreseen_hooks;
mod inlining;
mod inspect;
mod loops;
mod machines;
mod made_tables;
mod object_graph;
mod object_trace;
mod patching;
mod pipeline;
mod prefetches;
mod progress;
mod recorded;
mod region_data;
mod region_profiles;
mod relayouts;
mod sources;
mod ties;
mod tracing;

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;
use configuration::Configuration;
use slimline_instrument::gcc;
use slimline_trace::escape::plain;

/// Exit status for bad usage or input, as clap's own.
const BAD_INPUT: u8 = 2;

/// Characters of a line on standard error: more than the longest path with our words around it.
const LINE_CHARS: usize = 6000;

/// Stack that slimline needs.
const STACK_BYTES: usize = 8 << 20;

fn main() -> ExitCode {
    // The first thread's stack is as large as `ulimit -s` says, which is for the program that is recorded.
    if !slimline_collect::is_stack_small(STACK_BYTES as u64) {
        return run();
    }
    let main = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run);
    match main.map(|main| main.join()) {
        Ok(Ok(status)) => status,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => {
            say(format_args!("slimline: can't start a thread: {error}"));
            ExitCode::from(BAD_INPUT)
        }
    }
}

fn run() -> ExitCode {
    // cargo, rustc and gcc call their tools by path, without arguments that would say which it is.
    let arguments: Vec<_> = std::env::args_os().collect();
    let tool = slimline_instrument::cargo::as_tool(&arguments, slimline_collect::RUNTIME, || {
        Configuration::named()?.own_allocators()
    });
    let step =
        || gcc::as_step(&arguments, slimline_collect::RUNTIME, || Configuration::named()?.own_allocators()).map(Ok);
    let ended = match tool.or_else(step) {
        Some(ended) => ended,
        None => commands::run(cli::Cli::parse_from(cli::with_subcommand(arguments))),
    };
    match ended {
        Ok(status) => ExitCode::from(status),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("slimline: {error:#}"));
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// One line on standard error, whatever names are in it. Where that is closed or full there is nobody left to tell.
fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{}", one_line(&line.to_string()));
}

/// What a terminal can show of it, without control characters, and cut where a file put a book into a name.
fn one_line(text: &str) -> String {
    let mut line = plain(text);
    if let Some((end, _)) = line.char_indices().nth(LINE_CHARS) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// `slimline report | head` is no failure.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_and_has_an_end() {
        assert_eq!(one_line("no type \x1b[2J\n\u{202e}"), "no type \\u{1b}[2J\\n\\u{202e}");
        assert_eq!(one_line(&"ü".repeat(LINE_CHARS)), "ü".repeat(LINE_CHARS));
        assert_eq!(one_line(&"ü".repeat(LINE_CHARS + 1)), "ü".repeat(LINE_CHARS) + "…");
    }
}
