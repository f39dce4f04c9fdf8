//! Arguments of `slimline diff` and `slimline check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Format, percentage_or_none, rows};

/// Show what differs between two runs or builds: types, shares with their intervals, misses.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline diff old.data slimline.data        two sessions: layouts, shares, what is beyond chance\n  \
        slimline diff before.json slimline.data     JSON of `slimline report --format json`\n  \
        slimline diff layouts.json ./program        types, without a run\n  \
        slimline diff ./program.old ./program\n  \
        slimline diff old.trace new.trace --machine host    types, shares of cycles, misses\n\n\
        Each side is a session (slimline record), a full trace (slimline trace -o), a program, library or object \
        file, or JSON that `slimline report`, `layouts` or `simulate` printed. Types are known again by name, \
        data by name, allocating function and type, or by what is left of these, never by address or line alone; what \
        was known again by less, and what has no counterpart, is told. Shares are sampled: docs/check.md says how they are compared.")]
pub(crate) struct Diff {
    /// The old side
    #[arg(value_name = "OLD")]
    pub(crate) old: PathBuf,
    /// The new side
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,
    /// Whose cycles and misses are compared, of traces (docs/machines.md)
    #[arg(long, value_name = "NAME|FILE", default_value = "host")]
    pub(crate) machine: String,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Most rows of a table
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = rows)]
    pub(crate) rows: usize,
}

/// Fail where layouts, shares or misses are worse than they were: for CI.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline layouts ./program --format json > layouts.json    once, kept in git\n  \
        slimline check ./program --against layouts.json            in CI, without a run\n  \
        slimline check ./program --against layouts.json --hot 'body.mass' --hot 'node.*'\n  \
        slimline report --format json > baseline.json              of a recorded run, kept in git\n  \
        slimline check ./program --against baseline.json           its hot fields, without another run\n  \
        slimline check slimline.data --against baseline.json       shares, too\n  \
        slimline check new.trace --against misses.json --misses 2\n  \
        slimline check ./program --against layouts.json --format junit --report check.xml\n\n\
        Sides are as those of `slimline diff`. Exit status: 0 nothing is worse than allowed, 1 something is, \
        2 bad usage or input. Each limit can be set in slimline.toml, too, in a table [check] under the name of \
        its option; docs/check.md has all of them, and lines for GitHub and GitLab.")]
pub(crate) struct Check {
    /// The new side
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,
    /// The old side
    #[arg(long, value_name = "OLD")]
    pub(crate) against: PathBuf,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Whose cycles and misses are compared, of traces (docs/machines.md)
    #[arg(long, value_name = "NAME|FILE", default_value = "host")]
    pub(crate) machine: String,
    /// How to print it
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    pub(crate) format: CheckFormat,
    /// Write it to this file instead; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// How much worse things may be.
#[derive(Debug, Default, Args)]
pub(crate) struct Limits {
    /// Percentage of its size that a type may grow by [default: 10]
    #[arg(long, value_name = "PERCENT", value_parser = at_least_zero)]
    pub(crate) size: Option<f64>,
    /// Cache lines that a type may take more [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) lines: Option<u64>,
    /// Bytes of holes that a type may have more [default: 0]
    #[arg(long, value_name = "BYTES")]
    pub(crate) holes: Option<u64>,
    /// This field is hot, whatever was measured: TYPE.FIELD; `*` and `?` stand for others; may be repeated
    #[arg(long, value_name = "TYPE.FIELD", value_parser = hot_field)]
    pub(crate) hot: Vec<String>,
    /// Percentage of everything that was measured from which on a field is hot [default: 5]
    #[arg(long, value_name = "PERCENT", value_parser = percentage_or_none)]
    pub(crate) hot_share: Option<f64>,
    /// Percentage points of everything that the share of data or of a field may rise by; more is a regression where it
    /// is beyond chance [default: 5]
    #[arg(long, value_name = "POINTS", value_parser = percentage_or_none)]
    pub(crate) share_points: Option<f64>,
    /// Percentage of its misses that a cache may have more [default: 5]
    #[arg(long, value_name = "PERCENT", value_parser = at_least_zero)]
    pub(crate) misses: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// For people
    Text,
    /// For programs: what `slimline diff` prints, and the regressions; the schema is versioned
    Json,
    /// JUnit's XML, which CI systems show as tests
    Junit,
    /// SARIF 2.1.0, for code review
    Sarif,
}

/// A percentage that may be more than a hundred: `20`, `20%`.
fn at_least_zero(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let percent = number.parse::<f64>().ok().filter(|percent| percent.is_finite() && *percent >= 0.0);
    percent.ok_or_else(|| "not a percentage, 0 or more".to_owned())
}

/// `TYPE.FIELD`
pub(crate) fn hot_field(text: &str) -> Result<String, String> {
    let parts = text.split_once('.').filter(|(type_, field)| !type_.is_empty() && !field.is_empty());
    parts.map(|_| text.to_owned()).ok_or_else(|| "not one TYPE.FIELD, as in body.mass".to_owned())
}
