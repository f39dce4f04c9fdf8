//! `slimline cc`, `slimline c++` and `slimline flang`: LLVM's compilers, with every access traced.

use slimline_instrument::driver::{self, Language};

use super::print;
use crate::cli::{COMPILE_OPTIONS, Compile};
use crate::configuration::Configuration;

/// Ends with the status that the compiler would end with.
pub(crate) fn run(language: Language, options: &Compile) -> anyhow::Result<u8> {
    if options.arguments.iter().any(|argument| argument == "--help") {
        print(&format!("{COMPILE_OPTIONS}\n\nAll else is {}'s:\n\n", language.compiler()))?;
    }
    let allocators = Configuration::found()?.own_allocators()?;
    Ok(driver::compile(language, &options.arguments, slimline_collect::RUNTIME, allocators)?)
}
