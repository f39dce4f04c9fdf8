//! The torture suite: the programs of `programs/torture`, and the table of allocators, servers and compilers.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::Case;
use crate::{measure, root, setup, workload};

/// Cases that are more than one source file.
const TABLE: &str = include_str!("torture.toml");

/// How a source says which options it needs beyond [`OPTIONS`].
const ASKS_FOR: &str = "// gcc: ";
const OPTIONS: &str = "-O2 -g -Wall -Wextra -Werror -pthread";

#[derive(Deserialize)]
struct Table {
    case: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    #[serde(default)]
    prepare: String,
    command: String,
}

/// All of them, by name within each kind.
pub(super) fn cases() -> Result<Vec<Case>> {
    setup::install(&[setup::TESTS, setup::TORTURE].concat())?;
    let mut cases = sources(&root().join("programs/torture"))?;
    let table: Table = toml::from_str(TABLE).context("torture.toml")?;
    cases.extend(table.case.into_iter().map(|row| Case {
        name: row.name,
        prepare: row.prepare,
        command: row.command,
        is_isolated: false,
    }));
    for workload in workload::debian(1.0)? {
        let (name, command) = (workload.name.clone(), workload.script());
        cases.push(Case { name, prepare: String::new(), command, is_isolated: false });
    }
    Ok(cases)
}

/// One case for each C file of a directory.
fn sources(directory: &Path) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for entry in directory.read_dir().with_context(|| directory.display().to_string())? {
        let source = entry?.path();
        if source.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let prepare = build(&name, &measure::read(&source)?);
        let command = "exec ./program".to_owned();
        cases.push(Case { name, prepare, command, is_isolated: false });
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

/// The script that builds a source.
fn build(name: &str, text: &str) -> String {
    let asked = text.lines().next().and_then(|line| line.strip_prefix(ASKS_FOR)).unwrap_or_default();
    format!("gcc {OPTIONS} \"$PROGRAMS/torture/{name}.c\" -o program {asked}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_say_what_they_stand_for_and_which_options_they_need() {
        let directory = root().join("programs/torture");
        let cases = sources(&directory).unwrap();
        assert!(cases.len() >= 40, "only {}", cases.len());
        for case in &cases {
            let text = measure::read(&directory.join(format!("{}.c", case.name))).unwrap();
            let comment = text.lines().find(|line| !line.starts_with(ASKS_FOR)).unwrap();
            assert!(comment.starts_with("// ") && comment.len() > 40, "{}: {comment}", case.name);
        }
        assert!(build("a", "// gcc: -lm\n// b\n").ends_with("torture/a.c\" -o program -lm"));
        assert!(build("a", "// b\n").ends_with("-o program "));
    }

    #[test]
    fn names_are_distinct_and_fit_for_directories() {
        let table: Table = toml::from_str(TABLE).unwrap();
        let mut names: Vec<String> = table.case.into_iter().map(|row| row.name).collect();
        names.extend(sources(&root().join("programs/torture")).unwrap().into_iter().map(|case| case.name));
        assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || "_-+.".contains(c))));
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
