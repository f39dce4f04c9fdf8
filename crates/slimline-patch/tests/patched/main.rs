//! Patches of programs, applied by `patch`, compiled by gcc and clang: they print what they printed before. And what is refused.

mod bundled;
mod cpp;
mod fields;
mod linkage;
mod refused;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use slimline_instrument::syntax::{Clang, CompileCommand};
use slimline_patch::edits::unified_diff;
use slimline_patch::program::{Program, on_deep_stack};
use slimline_patch::{Change, Refusal, Wanted, patch};
use tempfile::TempDir;

/// What is to be done with a structure.
fn wanted(structure: &str, change: Change, parts: &[&[&str]]) -> Wanted {
    let parts = parts.iter().map(|part| part.iter().map(|field| (*field).to_owned()).collect()).collect();
    Wanted { structure: structure.to_owned(), change, parts }
}

/// The diff for a program whose sources are in a directory; or the line at which it is refused, and why.
fn diff(directory: &Path, sources: &[&str], wanted: &Wanted) -> Result<String, String> {
    let directory = &directory.canonicalize().unwrap();
    let run = || {
        let clang = Clang::find().unwrap();
        let command = |source: &&str| CompileCommand::new(directory.clone(), source.into(), &[], false);
        let program = Program::read(&clang, sources.iter().map(command).collect(), &mut || {}).unwrap();
        let edits = patch(&program, wanted).map_err(|Refusal { at, why }| match at {
            Some((file, line)) => {
                let path = Path::new(&program.sources[file as usize].path);
                format!("{}:{line}: {why}", path.file_name().unwrap().to_string_lossy())
            }
            None => why,
        })?;
        assert_eq!(program.check(&clang, &edits).unwrap(), None, "{}", edits.apply(0, &program.sources[0]));
        let mut diff = String::new();
        for file in edits.files() {
            let source = &program.sources[file as usize];
            let path = Path::new(&source.path).strip_prefix(directory).unwrap();
            diff += &unified_diff(path.to_str().unwrap(), &source.text, &edits.apply(file, source));
        }
        Ok(diff)
    };
    on_deep_stack(run).unwrap()
}

/// Where it is refused, and why.
fn refusal(directory: &Path, sources: &[&str], wanted: &Wanted) -> String {
    match diff(directory, sources, wanted) {
        Ok(diff) => panic!("{diff}"),
        Err(why) => why,
    }
}

/// A directory with these files in it.
fn directory_of(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, text)| fs::write(directory.path().join(name), text).unwrap());
    directory
}

fn succeeded(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// What the program of these sources prints, compiled by that compiler with all warnings being errors.
fn printed(directory: &Path, sources: &[&str], compiler: &str, arguments: &[&str]) -> String {
    let program = directory.join(format!("program.{compiler}"));
    let mut compile = Command::new(compiler);
    // An array that is named where it is indexed may be nothing to a function then.
    compile
        .args(["-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-pthread"])
        .args(sources)
        .arg("-o")
        .arg(&program);
    succeeded(compile.current_dir(directory));
    String::from_utf8(succeeded(Command::new(&program).args(arguments)).stdout).unwrap()
}

/// Applies a diff as its user would.
fn apply(directory: &Path, diff: &str) {
    let file = directory.join("change.diff");
    fs::write(&file, diff).unwrap();
    let output = succeeded(Command::new("patch").args(["-p1", "--fuzz=0", "-i", "change.diff"]).current_dir(directory));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("offset"));
}

/// Checks that the program prints the same with the change; gives the diff.
fn check(directory: &Path, sources: &[&str], arguments: &[&str], wanted: &Wanted) -> String {
    let compilers = if sources[0].ends_with(".cpp") { ["g++", "clang++-19"] } else { ["gcc", "clang-19"] };
    let before = printed(directory, sources, compilers[0], arguments);
    let diff = diff(directory, sources, wanted).unwrap();
    apply(directory, &diff);
    for compiler in compilers {
        assert_eq!(printed(directory, sources, compiler, arguments), before, "{compiler}:\n{diff}");
    }
    diff
}
