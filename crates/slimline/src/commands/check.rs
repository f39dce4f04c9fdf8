//! `slimline check`

use slimline_trace::path_text::text_of;
use std::env;
use std::io::Write;

use anyhow::anyhow;
use slimline_analyze::comparison::gate::Allowed;
use slimline_report::comparison::{Check, NamedHot, junit, sarif};
use slimline_report::text;

use super::{print, write_whole};
use crate::cli::{self, CheckFormat};
use crate::comparing;
use crate::configuration::{CheckLimits, Configuration};
use crate::is_broken_pipe;

/// Exit status where something is worse than allowed.
const REGRESSED: u8 = 1;

pub(crate) fn run(options: &cli::Check) -> anyhow::Result<u8> {
    let configured = Configuration::here()?.check_limits()?;
    let comparison = comparing::compare(&options.against, &options.new, &options.machine)?;
    let is_for_this = !options.limits.hot.is_empty();
    let hot = NamedHot { patterns: if is_for_this { &options.limits.hot } else { &configured.hot }, is_for_this };
    let check = Check::of(&comparison, &allowed(&options.limits, &configured), &hot).map_err(|why| anyhow!(why))?;
    let out = match options.format {
        CheckFormat::Text => {
            let mut out = String::new();
            text::check(&mut out, &check)?;
            out
        }
        CheckFormat::Json => check.json(),
        CheckFormat::Junit => junit(&check),
        CheckFormat::Sarif => {
            let directory = env::current_dir().unwrap_or_default();
            sarif(&check, &text_of(directory.as_os_str()))
        }
    };
    let told = match &options.report {
        Some(file) => write_whole(file, |to| write!(to, "{}", anstream::adapter::strip_str(&out))),
        None => print(&out),
    };
    // Whoever reads no further asks for the verdict all the same.
    told.or_else(|error| if is_broken_pipe(&error) { Ok(()) } else { Err(error) })?;
    Ok(if check.regressions.is_empty() { 0 } else { REGRESSED })
}

/// As the command line says, else the configuration, else the defaults.
fn allowed(limits: &cli::Limits, configured: &CheckLimits) -> Allowed {
    let usual = Allowed::default();
    let part = |asked: Option<f64>, configured: Option<f64>, usual: f64| {
        asked.or(configured).map_or(usual, |percent| percent / 100.0)
    };
    Allowed {
        size_percent: limits.size.or(configured.size).unwrap_or(usual.size_percent),
        lines: limits.lines.or(configured.lines).unwrap_or(usual.lines),
        hole_bytes: limits.holes.or(configured.holes).unwrap_or(usual.hole_bytes),
        hot_share: part(limits.hot_share, configured.hot_share, usual.hot_share),
        share_points: part(limits.share_points, configured.share_points, usual.share_points),
        misses_percent: limits.misses.or(configured.misses).unwrap_or(usual.misses_percent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_says_more_than_the_configuration() {
        let configured = CheckLimits { size: Some(20.0), lines: Some(2), ..CheckLimits::default() };
        let limits = cli::Limits { size: Some(0.0), ..cli::Limits::default() };
        let found = allowed(&limits, &configured);
        assert_eq!((found.size_percent, found.lines, found.hole_bytes, found.misses_percent), (0.0, 2, 0, 5.0));
    }
}
