//! `cargo xtask rules`: what ARCHITECTURE.md promises of the source tree, checked.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::measure::read;
use crate::{book, root};

/// What each crate may depend on among ours, at run or build time. Tests may use any.
const DEPENDENCIES: &[(&str, &[&str])] = &[
    ("slimline-trace", &[]),
    ("slimline-emulate", &[]),
    ("slimline-source", &[]),
    ("slimline-agent", &["slimline-trace", "slimline-emulate"]),
    ("slimline-runtime", &["slimline-trace"]),
    ("slimline-translate", &["slimline-trace"]),
    ("slimline-gate", &[]),
    ("slimline-regions", &["slimline-trace"]),
    ("slimline-collect", &["slimline-trace", "slimline-emulate", "slimline-regions"]),
    ("slimline-instrument", &["slimline-trace", "slimline-source"]),
    ("slimline-attribute", &["slimline-trace", "slimline-emulate"]),
    (
        "slimline-analyze",
        &[
            "slimline-trace",
            "slimline-attribute",
            "slimline-source",
            "slimline-simulate",
            "slimline-layout",
            "slimline-learn",
        ],
    ),
    ("slimline-layout", &[]),
    ("slimline-learn", &[]),
    ("slimline-patch", &["slimline-instrument", "slimline-source"]),
    ("slimline-simulate", &[]),
    ("slimline-tidy", &[]),
    (
        "slimline-report",
        &[
            "slimline-trace",
            "slimline-attribute",
            "slimline-analyze",
            "slimline-regions",
            "slimline-simulate",
            "slimline-layout",
        ],
    ),
    (
        "slimline",
        &[
            "slimline-trace",
            "slimline-emulate",
            "slimline-instrument",
            "slimline-collect",
            "slimline-attribute",
            "slimline-analyze",
            "slimline-simulate",
            "slimline-layout",
            "slimline-patch",
            "slimline-regions",
            "slimline-report",
        ],
    ),
    ("sample-programs", &[]),
    ("xtask", &["sample-programs"]),
];

/// Crates that do no I/O and never print.
const PURE: &[&str] = &[
    "crates/slimline-analyze/",
    "crates/slimline-attribute/",
    "crates/slimline-emulate/",
    "crates/slimline-source/",
    "crates/slimline-simulate/",
    "crates/slimline-layout/",
    "crates/slimline-learn/",
];
const IMPURE: &[&str] = &["std::fs", "std::net", "std::process", "println!", "eprintln!", "print!(", "eprint!("];

/// Where `unsafe` may be allowed outside tests and benches. A directory ends in `/`; a file is one named module, which
/// says at its head why.
const UNSAFE: &[&str] = &[
    "crates/slimline-agent/",
    // All of LLVM is behind C functions.
    "crates/slimline-instrument/src/llvm/",
    "crates/slimline-runtime/",
    // An allocator.
    "crates/slimline-tidy/",
    "crates/slimline-translate/",
    // Stands in the place of OpenMP's runtimes, and is called by them.
    "crates/slimline-regions/src/functions.rs",
    "crates/slimline-regions/src/gomp/",
    "crates/slimline-regions/src/marks.rs",
    "crates/slimline-regions/src/ompt/mod.rs",
    "crates/slimline-regions/src/process.rs",
    "crates/slimline-regions/src/traced.rs",
    "crates/slimline-regions/src/watched.rs",
    // Is there such a symbol? Stable Rust can't ask.
    "crates/slimline-gate/src/runtime.rs",
    "crates/slimline-gate/src/preloaded.rs",
    // Vectors of four words, where the processor has such.
    "crates/slimline-trace/src/stream/decode/marks.rs",
    "crates/slimline-collect/src/ring.rs",
    "crates/slimline-collect/src/tracing/ring.rs",
    "crates/slimline-collect/src/cut_files.rs",
    // A system call that no crate has.
    "crates/slimline-collect/src/move_pages.rs",
    "crates/slimline-collect/src/perf_rings/event.rs",
    "crates/slimline-collect/src/inherited.rs",
    "crates/slimline-collect/src/signals/",
    "crates/slimline-collect/src/started.rs",
    "crates/slimline-collect/src/stall_kernel.rs",
    // Memory maps of debug files.
    "crates/slimline/src/disk.rs",
];

/// Module names that say nothing.
const VAGUE: &[&str] = &["util", "utils", "helper", "helpers", "common", "misc", "shared", "types", "stuff"];

/// Marks of work left half done.
const UNFINISHED: &[&str] = &["todo!(", "unimplemented!(", "dbg!(", "FIXME"];

/// Places that everybody may write to: what a source names there by itself, somebody else may have put there first.
/// Directories of temporary files are made, with names of their own.
const EVERYBODYS: &[&str] = &["\"/tmp/", "\"/var/tmp/", "\"/dev/shm/"];
/// Names in it are what a recorded file says, not where anything is written.
const QUOTES_EVERYBODYS: &[&str] = &[
    "crates/slimline-collect/tests/import.rs",
    "crates/slimline-agent/src/confine.rs",
    "crates/slimline-attribute/src/resolver/groups/mappings.rs",
];

/// Lines without tests past which a file gets a warning.
const ROOM_LINES: usize = 600;

/// The one file that must spell what it forbids.
const THIS_FILE: &str = "xtask/src/rules.rs";

/// Prints each broken rule as one line. Whether none is broken; long files only warn.
pub(crate) fn run() -> Result<bool> {
    let mut broken = dependency_rules()?;
    broken.extend(book::broken_rules(&files("*.md")?)?);
    for path in files("*.rs")? {
        // A file that git knows and the working tree has just lost.
        let Ok(text) = read(&root().join(&path)) else { continue };
        broken.extend(source_rules(&path, &text));
        let lines = without_tests(&text).count();
        if lines > ROOM_LINES {
            eprintln!("warning: {path}: {lines} lines without its tests; is there a second room in it?");
        }
    }
    for rule in &broken {
        eprintln!("{rule}");
    }
    eprintln!("house rules: {} broken", broken.len());
    Ok(broken.is_empty())
}

/// Files of the repository whose names match, tracked or about to be.
fn files(names: &str) -> Result<Vec<String>> {
    let mut command = Command::new("git");
    command.args(["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", names]);
    let output = command.current_dir(root()).output().context("git ls-files")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `null`, `dev` or `build`.
    kind: Option<String>,
    /// Set for crates of this repository.
    path: Option<String>,
}

fn dependency_rules() -> Result<Vec<String>> {
    let mut command = Command::new("cargo");
    command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(root());
    let output = command.output().context("cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(wrong_dependencies(&serde_json::from_slice(&output.stdout).context("cargo metadata")?))
}

fn wrong_dependencies(metadata: &Metadata) -> Vec<String> {
    let allowed: BTreeMap<&str, &[&str]> = DEPENDENCIES.iter().copied().collect();
    let mut broken = Vec::new();
    for package in &metadata.packages {
        let Some(allowed) = allowed.get(package.name.as_str()) else {
            broken.push(format!("{}: a crate that {THIS_FILE} knows no dependencies for", package.name));
            continue;
        };
        let ours = package.dependencies.iter().filter(|d| d.path.is_some() && d.kind.as_deref() != Some("dev"));
        for dependency in ours.filter(|dependency| !allowed.contains(&dependency.name.as_str())) {
            broken.push(format!("{}: must not depend on {}", package.name, dependency.name));
        }
    }
    broken
}

/// Rules that one file breaks, as `path:line: rule`.
fn source_rules(path: &str, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let module = path.trim_end_matches("/mod.rs").trim_end_matches(".rs").rsplit('/').next().unwrap_or(path);
    if VAGUE.contains(&module) {
        broken.push(format!("{path}: `{module}` says nothing about what is in it"));
    }
    if path == THIS_FILE {
        return broken;
    }
    for (number, line) in (1..).zip(text.lines()) {
        for word in UNFINISHED.iter().filter(|word| line.contains(**word)) {
            broken.push(format!("{path}:{number}: {word} in a finished change"));
        }
        if !QUOTES_EVERYBODYS.contains(&path) && EVERYBODYS.iter().any(|place| line.contains(place)) {
            broken.push(format!("{path}:{number}: a fixed name where everybody may write"));
        }
    }
    for (number, line) in without_tests(text) {
        let code = code_of(line);
        if (code.contains("allow(unsafe_code") || code.contains("expect(unsafe_code")) && !may_be_unsafe(path) {
            broken.push(format!("{path}:{number}: no place for unsafe code; {THIS_FILE} lists those"));
        }
    }
    // Integration tests and benches of a pure crate may read fixtures.
    if PURE.iter().any(|pure| path.strip_prefix(pure).is_some_and(|inside| inside.starts_with("src/"))) {
        for (number, line) in without_tests(text) {
            for word in IMPURE.iter().filter(|word| code_of(line).contains(**word)) {
                broken.push(format!("{path}:{number}: {word} in a crate that does no I/O"));
            }
        }
    }
    broken
}

fn may_be_unsafe(path: &str) -> bool {
    let in_tests = path.contains("/tests/") || path.contains("/benches/");
    in_tests || UNSAFE.iter().any(|place| if place.ends_with('/') { path.starts_with(place) } else { path == *place })
}

/// The line without a comment at its end or a comment that it is.
fn code_of(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

/// Numbered lines up to the unit tests, which stand last in a file.
fn without_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(path: &str, text: &str) -> usize {
        source_rules(path, text).len()
    }

    #[test]
    fn pure_crates_neither_read_nor_print() {
        assert_eq!(broken("crates/slimline-analyze/src/stride.rs", "use std::fs;\nprintln!();\n"), 2);
        assert_eq!(broken("crates/slimline-report/src/text.rs", "use std::fs;\n"), 0);
        assert_eq!(broken("crates/slimline-analyze/src/stride.rs", "// not std::fs\n#[cfg(test)]\nuse std::fs;\n"), 0);
        assert_eq!(broken("crates/slimline-analyze/tests/fixtures.rs", "use std::fs;\n"), 0);
    }

    #[test]
    fn unsafe_has_its_places() {
        assert_eq!(broken("crates/slimline-agent/src/burst.rs", "#![allow(unsafe_code)]\n"), 0);
        assert_eq!(broken("crates/slimline-report/src/text.rs", "#![allow(unsafe_code)]\n"), 1);
        assert_eq!(broken("crates/slimline-report/src/text.rs", "#[cfg(test)]\n#![allow(unsafe_code)]\n"), 0);
    }

    #[test]
    fn nothing_has_a_fixed_name_where_everybody_may_write() {
        assert_eq!(broken("crates/slimline/tests/ends/outside.rs", "run(\"/tmp/never\");\n"), 1);
        assert_eq!(broken("crates/slimline/src/main.rs", "#[cfg(test)]\nrun(\"/dev/shm/x\");\n"), 1);
        let candidates = "[\"/tmp\", \"/var/tmp\"]\n";
        assert_eq!(broken("crates/slimline-collect/src/run_directory.rs", candidates), 0);
        assert_eq!(broken("crates/slimline-collect/tests/import.rs", "\"/tmp/fx/touch\"\n"), 0);
    }

    #[test]
    fn names_and_marks() {
        assert_eq!(broken("crates/slimline/src/utils.rs", ""), 1);
        assert_eq!(broken("crates/slimline/src/misc/mod.rs", ""), 1);
        assert_eq!(broken("crates/slimline/src/main.rs", "fn f() { todo!() }\n"), 1);
    }

    #[test]
    fn dependencies_point_one_way() {
        let metadata = |json: &str| serde_json::from_str::<Metadata>(json).unwrap();
        let one = |package: &str, on: &str, kind: &str| {
            wrong_dependencies(&metadata(&format!(
                r#"{{"packages": [{{"name": "{package}", "dependencies":
                    [{{"name": "{on}", "kind": {kind}, "path": "/x"}}, {{"name": "serde", "kind": null}}]}}]}}"#
            )))
        };
        assert!(one("slimline-analyze", "slimline-trace", "null").is_empty());
        assert_eq!(one("slimline-trace", "slimline-analyze", "null").len(), 1);
        assert!(one("slimline-trace", "slimline-analyze", "\"dev\"").is_empty());
        assert_eq!(one("slimline-trace", "slimline-analyze", "\"build\"").len(), 1);
        assert_eq!(one("slimline-attic", "slimline-trace", "null").len(), 1);
    }
}
