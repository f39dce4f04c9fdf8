//! `slimline check`

use std::env;
use std::io::Write;

use slimline_analyze::comparison::gate::Allowed;
use slimline_report::comparison::{Check, junit, sarif};
use slimline_report::text;

use super::{print, write_whole};
use crate::cli::{self, CheckFormat};
use crate::comparing;
use crate::configuration::{CheckLimits, Configuration};

/// Exit status where something is worse than allowed.
const REGRESSED: u8 = 1;

pub(crate) fn run(options: &cli::Check) -> anyhow::Result<u8> {
    let configured = Configuration::here()?.check_limits()?;
    let comparison = comparing::compare(&options.against, &options.new, &options.machine)?;
    let hot = if options.limits.hot.is_empty() { &configured.hot } else { &options.limits.hot };
    let check = Check::of(&comparison, &allowed(&options.limits, &configured), hot);
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
            sarif(&check, &directory.to_string_lossy())
        }
    };
    match &options.report {
        Some(file) => write_whole(file, |to| write!(to, "{}", anstream::adapter::strip_str(&out)))?,
        None => print(&out)?,
    }
    Ok(if check.regressions.is_empty() { 0 } else { REGRESSED })
}

/// As the command line says, else the configuration, else the defaults.
fn allowed(limits: &cli::Limits, configured: &CheckLimits) -> Allowed {
    let usual = Allowed::default();
    let part = |asked: Option<f64>, configured: Option<f64>, usual: f64| {
        asked.or(configured).map_or(usual, |percent| percent / 100.0)
    };
    Allowed {
        size: part(limits.size, configured.size, usual.size),
        lines: limits.lines.or(configured.lines).unwrap_or(usual.lines),
        hole_bytes: limits.holes.or(configured.holes).unwrap_or(usual.hole_bytes),
        hot_share: part(limits.hot_share, configured.hot_share, usual.hot_share),
        share_points: part(limits.share_points, configured.share_points, usual.share_points),
        misses: part(limits.misses, configured.misses, usual.misses),
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
        assert_eq!((found.size, found.lines, found.hole_bytes, found.misses), (0.0, 2, 0, 0.05));
    }
}
