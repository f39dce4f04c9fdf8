//! `slimline export`

use slimline_report::dot;

use super::print;
use crate::cli::{self, Tool};
use crate::pipeline;

pub(crate) fn run(options: &cli::Export) -> anyhow::Result<u8> {
    let report = pipeline::report(&options.input.session)?;
    let mut out = String::new();
    match options.to {
        Tool::Dot => dot::graph(&mut out, &report)?,
    }
    print(&out)?;
    Ok(0)
}
