//! What is compared: programs of ours, and programs that nobody here wrote.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use sample_programs::{Optimization, Program};

use super::programs::PROGRAMS;
use crate::oracle::site_name;
use crate::target_dir;

/// Programs of ours, each with its hottest group.
const OURS: &[(&str, Optimization)] = &[
    ("int4_two_loops", Optimization::O2),
    ("art", Optimization::O2),
    ("neighbor", Optimization::O2),
    ("tsp_tree", Optimization::O2),
    ("zones", Optimization::O2),
    ("particles", Optimization::O2),
    ("vec_struct", Optimization::O2),
    ("int4_two_loops", Optimization::O3),
    ("tsp_tree", Optimization::O3),
    ("art", Optimization::O3),
];

/// One program with its arguments.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) executable: PathBuf,
    pub(super) arguments: Vec<String>,
    /// Allocator wrappers that both sides look through.
    pub(super) skip: &'static [&'static str],
    pub(super) structures: Vec<Structure>,
}

/// One data structure of a program, as each side tells it.
#[derive(Clone, Debug)]
pub(super) struct Structure {
    /// What the table calls it.
    pub(super) name: String,
    /// Part of the name that the oracle gives the allocation site.
    pub(super) site: String,
    pub(super) element_bytes: u64,
    /// Where the first element starts in its block.
    pub(super) start: u64,
    /// The function that a report's allocation path has first, wrappers aside. All groups with it are added up, as the
    /// oracle's site adds up all callers.
    pub(super) function: String,
    /// The line in it, for functions that allocate several things; then the path may have it anywhere.
    pub(super) line: Option<u32>,
}

/// The cases that `only` names, all if it names none. Foreign programs are downloaded only if one is asked for.
pub(super) fn select(only: &[String]) -> Result<Vec<Case>> {
    let asked = |name: &str| {
        only.is_empty() || only.iter().any(|asked| asked == name || name.starts_with(&format!("{asked} ")))
    };
    let mut cases = Vec::new();
    for (name, optimization) in OURS {
        let label = format!("{name} {}", if *optimization == Optimization::O2 { "-O2" } else { "-O3" });
        if asked(&label) {
            cases.push(ours(&label, name, *optimization)?);
        }
    }
    for program in PROGRAMS {
        if asked(program.build.name) {
            cases.push(program.case()?);
        }
    }
    if cases.is_empty() {
        bail!("no such case: {}", only.join(" "));
    }
    Ok(cases)
}

fn ours(label: &str, name: &str, optimization: Optimization) -> Result<Case> {
    let program = Program::named(name)?;
    let group = program.truth()?.groups.into_iter().next().context("no group")?;
    let at = group.allocated_at.as_ref().context("not allocated")?;
    Ok(Case {
        name: label.to_owned(),
        executable: program.build(optimization, &target_dir()?.join("programs"))?,
        arguments: Vec::new(),
        skip: &[],
        structures: vec![Structure {
            name: group.name,
            site: site_name(&program, at),
            element_bytes: group.element_bytes,
            start: group.start,
            function: at.function.clone(),
            line: Some(at.line),
        }],
    })
}
