//! `slimline cargo`: cargo, with every access of what it builds traced.

use slimline_instrument::cargo;

use super::print;
use crate::cli::{CARGO_OPTIONS, Cargo};
use crate::configuration::Configuration;

/// Ends with the status that cargo would end with.
pub(crate) fn run(options: &Cargo) -> anyhow::Result<u8> {
    if options.arguments.first().is_none_or(|argument| argument == "--help" || argument == "-h") {
        print(&format!("{CARGO_OPTIONS}\n\nAll else is cargo's:\n\n"))?;
    }
    Ok(cargo::build(&options.arguments, &Configuration::found()?.own_allocators()?)?)
}
