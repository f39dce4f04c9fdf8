//! Source files that a report shows lines of.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use slimline_report::html::source_files;
use slimline_report::source::Source;
use slimline_report::view::Report;
use slimline_trace::regular_file::read_regular;

/// Largest file that is read. Generated sources of some MiB are the largest that compilers are given.
const MOST_BYTES: u64 = 32 << 20;

/// Reads the files that the report's page asks for, as they are on this machine.
pub(crate) fn read(report: &Report) -> HashMap<String, Source> {
    let read_one = |(file, module): (String, String)| {
        let source = source(Path::new(&file), Path::new(&module));
        (file, source)
    };
    source_files(report).into_iter().map(read_one).collect()
}

/// A source file as it is on this machine; `module` was compiled of it, and is empty where that is not known.
pub(crate) fn source(file: &Path, module: &Path) -> Source {
    // Another file of that name may be in this directory.
    if !file.is_absolute() {
        return Source::Unreadable("debug information tells only a relative path".to_owned());
    }
    match read_regular(file, MOST_BYTES) {
        Ok(bytes) => {
            Source::Text { text: String::from_utf8_lossy(&bytes).into_owned(), is_newer: is_newer(file, module) }
        }
        Err(error) => Source::Unreadable(error.to_string()),
    }
}

/// A source file's text, if it is on this machine.
pub(crate) fn text(file: &Path) -> Option<String> {
    match source(file, Path::new("")) {
        Source::Text { text, .. } => Some(text),
        Source::Unreadable(_) => None,
    }
}

/// Whether the file was changed after the program was. Of a program that is gone nobody knows.
fn is_newer(file: &Path, module: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    changed(file).zip(changed(module)).is_some_and(|(file, module)| file > module)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn sources_that_are_newer_or_missing_are_told() {
        let scratch = tempfile::tempdir().unwrap();
        let [file, module] = ["a.c", "a"].map(|name| scratch.path().join(name));
        fs::write(&file, b"int a;\n\xff\n").unwrap();
        let built = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let set = |path: &Path, time| File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        fs::write(&module, "").unwrap();
        set(&module, built);
        let text = |is_newer| Source::Text { text: "int a;\n\u{fffd}\n".to_owned(), is_newer };
        set(&file, built);
        assert_eq!(source(&file, &module), text(false));
        set(&file, built + Duration::from_secs(1));
        assert_eq!(source(&file, &module), text(true));
        assert_eq!(source(&file, &scratch.path().join("gone")), text(false));
        let missing = source(&scratch.path().join("b.c"), &module);
        assert!(matches!(&missing, Source::Unreadable(why) if why.starts_with("No such file")), "{missing:?}");
        assert!(matches!(source(scratch.path(), &module), Source::Unreadable(_)));
        let relative = source(Path::new("Cargo.toml"), &module);
        assert!(matches!(&relative, Source::Unreadable(why) if why.contains("relative")), "{relative:?}");
    }
}
