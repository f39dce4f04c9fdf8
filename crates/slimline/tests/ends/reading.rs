//! Commands that read a session: what they say of one that is empty, damaged, foreign or newer.

use std::fs;
use std::path::{Path, PathBuf};

use crate::scratch::{Scratch, check_refused, stderr, stdout};

/// Everything that reads a session, but for its name.
const READERS: [&[&str]; 8] = [
    &["report"],
    &["report", "--format", "json"],
    &["report", "--format", "html"],
    &["advise"],
    &["export", "--to", "dot"],
    &["export", "--to", "callgrind"],
    &["export", "--to", "sarif"],
    &["annotate"],
];

/// Every reader refuses `session` with one line that holds `expected`.
#[track_caller]
fn check_unreadable(scratch: &Scratch, session: &Path, expected: &str) {
    for reader in READERS {
        let mut command = scratch.slimline(reader);
        command.arg(session);
        if reader == ["annotate"] {
            command.arg("item");
        }
        check_refused(&command.output().unwrap(), expected);
    }
}

#[test]
fn what_is_no_session_is_told_apart() {
    let scratch = Scratch::new();
    check_unreadable(&scratch, &scratch.path("missing"), "missing: no such session");
    fs::write(scratch.path("file"), "text").unwrap();
    check_unreadable(&scratch, &scratch.path("file"), "file: not a directory");
    check_unreadable(&scratch, Path::new("/dev/null"), "/dev/null: not a directory");
    fs::create_dir(scratch.path("foreign")).unwrap();
    check_unreadable(&scratch, &scratch.path("foreign"), "foreign: not a slimline session");
    for content in ["", "{", "[]", "null", "{\"format\": \"one\"}", "\u{0}\u{1}", "{\"version\": 1}"] {
        fs::write(scratch.path("foreign/session.json"), content).unwrap();
        check_unreadable(&scratch, &scratch.path("foreign"), "foreign: not a slimline session");
    }
    fs::write(scratch.path("foreign/session.json"), "{\"format\": 1}").unwrap();
    check_unreadable(&scratch, &scratch.path("foreign"), "damaged");
    // What a file says reaches the terminal as text.
    let hostile = r#"{"format": 1, "slimline_version": "", "complete": "\u001b]0;x\u0007\n\u009b2J"}"#;
    fs::write(scratch.path("foreign/session.json"), hostile).unwrap();
    check_unreadable(&scratch, &scratch.path("foreign"), r"\u{1b}]0;x\u{7}");
    fs::write(scratch.path("foreign/session.json"), "{\"format\": 4711, \"and\": \"new things\"}").unwrap();
    check_unreadable(&scratch, &scratch.path("foreign"), "4711");
    // No argument: the default name.
    check_refused(&scratch.slimline(["report"]).output().unwrap(), "slimline.data: no such session");
}

#[test]
fn an_empty_profile_says_so_and_is_no_error() {
    let scratch = Scratch::new();
    let output = scratch.slimline(["record", "--", "true"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    for reader in ["report", "advise"] {
        let output = scratch.slimline([reader]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        // A loaded machine may fit a sample into `true`.
        assert!(text.contains("none: there is nothing to report") || text.contains("1 by the clock"), "{text}");
    }
    let output = scratch.slimline(["annotate", "item"]).output().unwrap();
    check_refused(&output, "no data of type \"item\" in slimline.data");
    let output = scratch.slimline(["annotate", "slimline.data"]).output().unwrap();
    check_refused(&output, "slimline.data is a session: name a type of its data, too");
    let output = scratch.slimline(["export", "--to", "dot"]).output().unwrap();
    assert!(output.status.success() && stdout(&output).starts_with("graph slimline {"));
}

#[test]
fn a_stripped_program_is_reported_by_offsets() {
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1", "-s"]);
    let output = scratch.slimline(["report"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("64 B"), "{}", stdout(&output));
    assert!(stdout(&output).contains("stripped (walk)"), "{}", stdout(&output));
}

#[test]
fn limits_that_show_nothing_are_refused() {
    let scratch = Scratch::new();
    for (option, value, expected) in [
        ("--rows", "0", "not a number of rows, 1 or more"),
        ("--rows", "-1", "not a number of rows, 1 or more"),
        ("--percent-limit", "101", "not a percentage from 0 to 100"),
        ("--percent-limit", "-0.1", "not a percentage from 0 to 100"),
        ("--percent-limit", "NaN", "not a percentage from 0 to 100"),
    ] {
        let output = scratch.slimline(["report", &format!("{option}={value}")]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{option} {value}");
        let said = stderr(&output);
        assert!(said.contains(option) && said.contains(expected), "{option} {value}: {said}");
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// Each file of a session, cut at several places, changed in the middle, and removed.
#[test]
fn damage_to_any_file_is_found() {
    let scratch = Scratch::new();
    let session = scratch.record_walk(&["-O1", "-g"]);
    let files = files(&session);
    assert!(files.len() >= 10, "a part has eight tables and a manifest: {files:?}");
    let check = |what: &str, file: &Path| {
        let output = scratch.slimline(["report"]).output().unwrap();
        let line = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{what} {}: {:?} {line}", file.display(), output.status);
        assert!(line.starts_with("slimline: ") && line.lines().count() == 1, "{what} {}: {line}", file.display());
        assert!(output.stdout.is_empty(), "{what} {}", file.display());
    };
    for file in &files {
        let whole = fs::read(file).unwrap();
        for length in [0, 1, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
            fs::write(file, &whole[..length]).unwrap();
            check(&format!("cut at {length}"), file);
        }
        if file.extension().is_some_and(|extension| extension == "parquet") {
            for at in [0, whole.len() / 2, whole.len() - 5] {
                let mut changed = whole.clone();
                changed[at] ^= 0x55;
                fs::write(file, changed).unwrap();
                check(&format!("changed at {at}"), file);
            }
        }
        fs::remove_file(file).unwrap();
        check("without", file);
        fs::write(file, &whole).unwrap();
    }
    let output = scratch.slimline(["report"]).output().unwrap();
    assert!(output.status.success(), "whole again: {}", stderr(&output));
}

#[test]
fn a_reader_that_leaves_is_no_error_and_a_full_disk_is() {
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1", "-g"]);
    for reader in [
        "report",
        "report --format json",
        "report --format csv",
        "advise",
        "export --to dot",
        "export --to callgrind",
        "export --to pprof",
        "export --to speedscope",
        "annotate item",
        "doctor",
        "--help",
    ] {
        let pipe = format!("set -o pipefail; $SLIMLINE {reader} | head -c 1 > /dev/null; echo ${{PIPESTATUS[0]}}");
        let output = scratch.bash(&pipe).output().unwrap();
        assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("0\n", ""), "{reader}");
        let output = scratch.bash(&format!("$SLIMLINE {reader} >&-")).output().unwrap();
        assert!(output.status.success(), "{reader}: {}", stderr(&output));
    }
    let output = scratch.bash("$SLIMLINE report > /dev/full").output().unwrap();
    check_refused(&output, "No space left on device");
}

#[test]
fn graphviz_renders_the_graph() {
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1", "-g"]);
    let output = scratch.bash("$SLIMLINE export --to dot | dot -Tsvg").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    let picture = stdout(&output);
    for word in ["struct item", "value", "key", "</svg>"] {
        assert!(picture.contains(word), "{word:?} is not in the picture: {picture}");
    }
}

#[test]
fn colours_reach_terminals_only() {
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1", "-g"]);
    let plain = scratch.slimline(["report"]).output().unwrap();
    assert!(!plain.stdout.contains(&0x1b), "escapes in a pipe");
    let forced = scratch.slimline(["report"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(forced.stdout.contains(&0x1b), "CLICOLOR_FORCE does nothing");
    let refused = scratch.slimline(["report"]).env("NO_COLOR", "1").output().unwrap();
    assert_eq!(stdout(&refused), stdout(&plain));
    for line in stdout(&plain).lines() {
        assert!(line.chars().count() <= 100, "wider than 100 columns: {line}");
    }
}
