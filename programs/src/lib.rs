//! Small programs in C, C++, Rust and Fortran whose hot data is known, for tests and benches.
//!
//! Each source file states its truth (hot group, element, fields, loops with their lines, the split to advise) as TOML
//! in its first comment, so that no test repeats it: [`Program::truth`]. Each program takes `[passes] [elements]`,
//! prints a checksum, and writes the user time of each loop to the file that the environment variable `TRUTH` names:
//! [`Times`]. A program `x` may have a twin `x_split` with the split applied by hand, which prints the same checksum.

pub mod by_hand;
mod compile;
mod truth;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

pub use compile::Optimization;
pub use truth::{AllocatedAt, Group, Loop, Times, Truth};

/// Language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C, by gcc.
    C,
    /// C++, by g++.
    Cpp,
    /// Rust, by rustc.
    Rust,
    /// Fortran, by gfortran.
    Fortran,
}

/// One program of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// File name without extension.
    pub name: String,
    /// Language.
    pub language: Language,
    /// Absolute path of its source file.
    pub source: PathBuf,
}

/// Files beside the programs that are no programs.
const SHARED_SOURCES: [&str; 1] = ["truth.rs"];

/// All programs, by name.
pub fn catalogue() -> Result<Vec<Program>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut programs = Vec::new();
    for (directory, extension, language) in [
        ("c", "c", Language::C),
        ("cpp", "cpp", Language::Cpp),
        ("rust", "rs", Language::Rust),
        ("fortran", "f90", Language::Fortran),
    ] {
        let directory = root.join(directory);
        for entry in directory.read_dir().with_context(|| directory.display().to_string())? {
            let source = entry?.path();
            let shared = source.file_name().is_some_and(|name| SHARED_SOURCES.iter().any(|shared| name == *shared));
            if source.extension().is_none_or(|found| found != extension) || shared {
                continue;
            }
            let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            programs.push(Program { name, language, source });
        }
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

impl Program {
    /// The program of that name.
    pub fn named(name: &str) -> Result<Self> {
        match catalogue()?.into_iter().find(|program| program.name == name) {
            Some(program) => Ok(program),
            None => bail!("no program named {name} under {}", env!("CARGO_MANIFEST_DIR")),
        }
    }

    /// What its first comment states; fails on programs that state nothing.
    pub fn truth(&self) -> Result<Truth> {
        let text = self.text()?;
        Truth::from_comment(&text).with_context(|| format!("truth of {}", self.source.display()))
    }

    /// Its source text.
    pub fn text(&self) -> Result<String> {
        std::fs::read_to_string(&self.source).with_context(|| self.source.display().to_string())
    }

    /// The program with its split applied by hand, if there is one.
    pub fn split_twin(&self) -> Option<Self> {
        Self::named(&format!("{}_split", self.name)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line `number` (1-based) of `text`.
    fn line(text: &str, number: u32) -> &str {
        text.lines().nth(number as usize - 1).unwrap_or("")
    }

    /// What a program states must stay true when somebody adds a line above a loop.
    #[test]
    fn stated_lines_hold_loops_and_allocations() {
        let mut checked = 0;
        for program in catalogue().unwrap().iter().filter(|program| program.text().unwrap().contains("truth:\n")) {
            let (text, truth) = (program.text().unwrap(), program.truth().unwrap());
            for stated in &truth.loops {
                let Some([first, last]) = stated.lines else { continue };
                let head = line(&text, first).trim_start();
                assert!(head.starts_with("for ") || head.starts_with("while "), "{}: {head}", program.name);
                assert!(first < last && line(&text, last).trim_end().ends_with(';'), "{}: {last}", program.name);
                checked += 1;
            }
            for group in &truth.groups {
                let Some(at) = &group.allocated_at else { continue };
                let code = line(&text, at.line);
                let allocates = ["malloc(", "new ", "with_capacity(", "collect()", "std::vector<"];
                assert!(allocates.iter().any(|word| code.contains(word)), "{}: {code}", program.name);
                checked += 1;
            }
        }
        assert!(checked >= 30, "only {checked} lines checked");
    }

    #[test]
    fn stated_splits_name_each_hot_field_once() {
        for program in catalogue().unwrap().iter().filter(|program| program.text().unwrap().contains("truth:\n")) {
            let truth = program.truth().unwrap();
            for group in &truth.groups {
                let mut split: Vec<&str> = group.split.iter().flatten().map(String::as_str).collect();
                let hot = truth.loops.iter().filter(|l| l.group.as_ref() == Some(&group.name)).flat_map(|l| &l.fields);
                for field in hot {
                    assert!(split.contains(&field.as_str()), "{}: {field} is in no part of the split", program.name);
                }
                let parts = split.len();
                split.sort_unstable();
                split.dedup();
                assert_eq!(split.len(), parts, "{}: a field is in two parts", program.name);
            }
        }
    }

    #[test]
    fn at_least_four_programs_have_a_split_twin() {
        let twins = catalogue().unwrap().iter().filter(|program| program.split_twin().is_some()).count();
        assert!(twins >= 4, "{twins}");
    }
}
