//! `slimline cc` and `slimline c++`: clang, with every access traced.

use slimline_instrument::driver::{self, Language};

use crate::cli::Compile;

/// Ends with the status that clang would end with.
pub(crate) fn run(language: Language, options: &Compile) -> anyhow::Result<u8> {
    Ok(driver::compile(language, &options.arguments, slimline_collect::RUNTIME)?)
}
