//! Source files that a report shows lines of.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use slimline_report::html::{Finding, source_files, traced_source_files};
use slimline_report::simulation::{AccessTrace, file_and_line};
use slimline_report::source::Source;
use slimline_report::view::Report;
use slimline_trace::path_text::path_of;
use slimline_trace::regular_file::read_regular;

/// Largest file that is read. Generated sources of some MiB are the largest that compilers are given.
const MOST_BYTES: u64 = 32 << 20;

/// Reads the files that the report's page asks for, as they are on this machine.
pub(crate) fn read(report: &Report) -> HashMap<String, Source> {
    let read_one = |(file, module): (String, String)| {
        let source = source(&path_of(&file), &[module]);
        (file, source)
    };
    source_files(report).into_iter().map(read_one).collect()
}

/// The same for a trace's page.
pub(crate) fn of_trace(findings: &[Finding<'_>]) -> HashMap<String, Source> {
    let read_one = |(file, trace): (&str, &AccessTrace)| (file.to_owned(), traced_source(file, trace));
    traced_source_files(findings).into_iter().map(read_one).collect()
}

/// A source file by the name that a compiler was told, which is relative to the directory that this ran in.
fn traced_source(file: &str, trace: &AccessTrace) -> Source {
    match traced_path(file, trace) {
        Ok(path) => source(&path, &trace.modules),
        Err(why) => Source::Unreadable(why),
    }
}

/// The file, by its whole path where that is known, and the line that a place `file:line` of a trace names.
pub(crate) fn traced_line(place: &str, trace: &AccessTrace) -> (Option<PathBuf>, Option<u32>) {
    let (file, line) = file_and_line(place);
    let path = file.and_then(|file| traced_path(&file, trace).ok()).filter(|path| path.is_absolute());
    (path, line)
}

/// Its whole path; that of none that is there where it can't be told, or why there are several.
fn traced_path(file: &str, trace: &AccessTrace) -> Result<PathBuf, String> {
    let file = path_of(file);
    if file.is_absolute() {
        return Ok(file);
    }
    let there = |directory: &String| Some(path_of(directory).join(&file)).filter(|path| path.is_file());
    let found: Vec<PathBuf> = trace.directories.iter().filter_map(there).collect();
    match (found.as_slice(), trace.directories.as_slice()) {
        ([one], _) => Ok(one.clone()),
        ([], []) => Ok(file),
        ([], [directory]) => Ok(path_of(directory).join(file)),
        ([], several) => Err(format!("it is in none of the {} directories of the build", several.len())),
        (several, _) => Err(format!("{} directories of the build have a file of that name", several.len())),
    }
}

/// A source file as it is on this machine; one of `modules` was compiled of it.
pub(crate) fn source(file: &Path, modules: &[String]) -> Source {
    // Another file of that name may be in this directory.
    if !file.is_absolute() {
        return Source::Unreadable("debug information tells only a relative path".to_owned());
    }
    match read_regular(file, MOST_BYTES) {
        Ok(bytes) => {
            Source::Text { text: String::from_utf8_lossy(&bytes).into_owned(), is_newer: is_newer(file, modules) }
        }
        Err(error) => Source::Unreadable(error.to_string()),
    }
}

/// A source file's text, if it is on this machine.
pub(crate) fn text(file: &Path) -> Option<String> {
    match source(file, &[]) {
        Source::Text { text, .. } => Some(text),
        Source::Unreadable(_) => None,
    }
}

/// Whether the file was changed after all of these were. Of a program that is gone nobody knows.
fn is_newer(file: &Path, modules: &[String]) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let last = modules.iter().filter_map(|module| changed(&path_of(module))).max();
    changed(file).zip(last).is_some_and(|(file, last)| file > last)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn relative_names_are_of_the_directory_that_the_compiler_ran_in() {
        let scratch = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| scratch.path().join(name));
        for (directory, files) in [(&one, &["a.c", "b.c"][..]), (&two, &["b.c"][..])] {
            fs::create_dir(directory).unwrap();
            files.iter().for_each(|file| fs::write(directory.join(file), "int a;\n").unwrap());
        }
        let directories = [&one, &two].map(|directory| directory.display().to_string()).to_vec();
        let trace = AccessTrace { directories, ..AccessTrace::default() };
        let text = Source::Text { text: "int a;\n".to_owned(), is_newer: false };
        assert_eq!(traced_source("a.c", &trace), text);
        assert_eq!(traced_source(&one.join("b.c").display().to_string(), &trace), text);
        let why = |file: &str, trace: &AccessTrace| match traced_source(file, trace) {
            Source::Unreadable(why) => why,
            Source::Text { text, .. } => text,
        };
        assert_eq!(why("b.c", &trace), "2 directories of the build have a file of that name");
        assert_eq!(why("c.c", &trace), "it is in none of the 2 directories of the build");
        assert!(why("c.c", &AccessTrace::default()).contains("relative"));
    }

    #[test]
    fn sources_that_are_newer_or_missing_are_told() {
        let scratch = tempfile::tempdir().unwrap();
        let [file, module] = ["a.c", "a"].map(|name| scratch.path().join(name));
        fs::write(&file, b"int a;\n\xff\n").unwrap();
        let built = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let set = |path: &Path, time| File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        fs::write(&module, "").unwrap();
        set(&module, built);
        let built_of = |module: &Path| [module.display().to_string()];
        let text = |is_newer| Source::Text { text: "int a;\n\u{fffd}\n".to_owned(), is_newer };
        set(&file, built);
        assert_eq!(source(&file, &built_of(&module)), text(false));
        set(&file, built + Duration::from_secs(1));
        assert_eq!(source(&file, &built_of(&module)), text(true));
        assert_eq!(source(&file, &built_of(&scratch.path().join("gone"))), text(false));
        let missing = source(&scratch.path().join("b.c"), &built_of(&module));
        assert!(matches!(&missing, Source::Unreadable(why) if why.starts_with("No such file")), "{missing:?}");
        assert!(matches!(source(scratch.path(), &[]), Source::Unreadable(_)));
        let relative = source(Path::new("Cargo.toml"), &[]);
        assert!(matches!(&relative, Source::Unreadable(why) if why.contains("relative")), "{relative:?}");
    }
}
