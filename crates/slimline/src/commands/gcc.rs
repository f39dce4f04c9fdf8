//! `slimline gcc`, `slimline g++` and `slimline gfortran`: gcc's compilers, with every access traced.

use slimline_instrument::gcc::{self, Compiler};

use super::print;
use crate::cli::{Gcc, gcc_help};
use crate::configuration::Configuration;

/// Ends with the status that the compiler would end with.
pub(crate) fn run(compiler: Compiler, options: &Gcc) -> anyhow::Result<u8> {
    if options.arguments.iter().any(|argument| argument == "--help") {
        print(&format!("{}\n\nAll else is {}'s:\n\n", gcc_help(), compiler.name()))?;
    }
    let allocators = Configuration::found()?.own_allocators()?;
    Ok(gcc::compile(compiler, &options.arguments, &allocators)?)
}
