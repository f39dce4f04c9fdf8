//! The gate: a planted regression fails, and noise does not.

use std::fs;

use serde_json::Value;

use super::scratch::{Scratch, check_refused, stderr, stdout};
use super::viewers::check_sarif;
use super::{BODIES, compile, keep, planted, shown, slimline};

/// Status and output of `slimline check`.
fn check(scratch: &Scratch, arguments: &[&str]) -> (Option<i32>, String) {
    let output = slimline(scratch, &[&["check"], arguments].concat());
    assert_eq!(stderr(&output), "");
    (output.status.code(), stdout(&output))
}

const MOVED: &str = "is at offset 64, on line 1; it was at 56, on line 0; new: extra at 24";

#[test]
fn layouts_alone_tell_a_field_that_is_pushed_over_the_line() {
    let scratch = Scratch::new();
    compile(&scratch, "old", BODIES);
    compile(&scratch, "new", &planted());
    keep(&scratch, &["layouts", "old", "--format", "json"], "layouts.json");
    assert_eq!(
        check(&scratch, &["old", "--against", "layouts.json"]),
        (Some(0), "no regression: compared 1 type (0 changed)\n".to_owned())
    );
    let (status, text) = check(&scratch, &["new", "--against", "layouts.json"]);
    assert_eq!(status, Some(1));
    let expected = "lines: struct body: 2 cache lines, was 1; 72 bytes, was 64; new: extra at 24\n    ";
    assert!(text.starts_with(expected) && text.contains("/new.src/bodies.c:4\n"), "{text}");
    // Who knows which field is hot says so, on the command line or once for all.
    let (status, text) = check(&scratch, &["new", "--against", "old", "--hot", "body.mass"]);
    assert_eq!(status, Some(1));
    let unfolded = text.replace("\n    ", " ");
    assert!(unfolded.starts_with(&format!("hot_field: struct body: hot field mass {MOVED} ")), "{text}");
    fs::write(scratch.path("slimline.toml"), "[check]\nhot = [\"body.*\"]\nlines = 1\nsize = 15\n").unwrap();
    let (status, text) = check(&scratch, &["new", "--against", "layouts.json"]);
    assert_eq!((status, text.lines().last()), (Some(1), Some("1 regression: compared 1 type (1 changed)")));
    let lax = check(&scratch, &["new", "--against", "layouts.json", "--hot", "body.x"]);
    assert_eq!(lax.0, Some(0), "{}", lax.1);
}

#[test]
fn verdicts_are_files_for_other_tools() {
    let scratch = Scratch::new();
    compile(&scratch, "old", BODIES);
    compile(&scratch, "new", &planted());
    let base = ["new", "--against", "old", "--hot", "body.mass", "--format"];
    let formatted = |format: &str| check(&scratch, &[&base, [format].as_slice()].concat()).1;
    let junit = formatted("junit");
    assert!(junit.contains("<testsuites tests=\"5\" failures=\"2\">"), "{junit}");
    assert!(junit.contains(&format!("message=\"struct body: hot field mass {MOVED}\"")), "{junit}");
    assert!(junit.contains("<testcase classname=\"slimline.holes\" name=\""), "{junit}");
    let sarif: Value = serde_json::from_str(&formatted("sarif")).unwrap();
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!((&result["ruleId"], &result["level"]), (&"hot_field".into(), &"error".into()));
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "new.src/bodies.c");
    assert_eq!(place["region"]["startLine"], 4);
    let json: Value = serde_json::from_str(&formatted("json")).unwrap();
    let told = &json["regressions"][0];
    assert_eq!((&told["type"], &told["field"]), (&"struct body".into(), &"mass".into()));
    assert_eq!((&told["old_offset"], &told["offset"]), (&56.into(), &64.into()));
    // The file is whole, and nothing else is printed.
    let (status, text) = check(&scratch, &["new", "--against", "old", "--format", "sarif", "--report", "check.sarif"]);
    assert_eq!((status, text.as_str()), (Some(1), ""));
    assert!(fs::read_to_string(scratch.path("check.sarif")).unwrap().ends_with("}\n"));
    check_sarif("verdicts_are_files_for_other_tools", &scratch.path("check.sarif"));
}

fn record(scratch: &Scratch, session: &str, program: &str) {
    shown(scratch, &["record", "-o", session, "--", &format!("./{program}")]);
}

fn recorded() -> Scratch {
    let scratch = Scratch::new();
    compile(&scratch, "old", BODIES);
    compile(&scratch, "new", &planted());
    record(&scratch, "before.data", "old");
    keep(&scratch, &["report", "before.data", "--format", "json"], "baseline.json");
    scratch
}

#[test]
fn a_session_tells_a_hot_field_that_is_pushed_over_the_line() {
    let scratch = recorded();
    record(&scratch, "after.data", "new");
    let (status, text) = check(&scratch, &["after.data", "--against", "baseline.json"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.starts_with("hot_field: struct body: hot field mass ("), "{text}");
    assert!(text.replace("\n    ", " ").contains(MOVED), "{text}");
    // The baseline knows what is hot: the program need not run again.
    let (status, text) = check(&scratch, &["new", "--against", "baseline.json"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.starts_with("hot_field: struct body: hot field mass ("), "{text}");
    assert_eq!(check(&scratch, &["old", "--against", "baseline.json"]).0, Some(0));
}

#[test]
fn twenty_runs_of_the_same_program_pass() {
    let scratch = recorded();
    for run in 0..20 {
        let session = format!("run-{run}");
        record(&scratch, &session, "old");
        let (status, text) = check(&scratch, &[&session, "--against", "baseline.json"]);
        assert_eq!(status, Some(0), "run {run}: {text}");
    }
}

#[test]
fn misses_are_held_against_their_limit() {
    let scratch = Scratch::new();
    let machine = |misses: u64| {
        let lines: String = (0..misses).map(|line| format!(" L {:x},4\n", line * 64)).collect();
        lines + &" L 0,4\n".repeat(50)
    };
    for (name, misses) in [("old", 100), ("near", 104), ("far", 106)] {
        fs::write(scratch.path(name), machine(misses)).unwrap();
        keep(&scratch, &["simulate", name, "--machine", "valgrind", "--format", "json"], &format!("{name}.json"));
    }
    let status = |new: &str, limit: &str| check(&scratch, &[new, "--against", "old.json", "--misses", limit]).0;
    assert_eq!(
        [status("near.json", "5"), status("far.json", "5"), status("far.json", "6")],
        [Some(0), Some(1), Some(0)]
    );
    let (_, text) = check(&scratch, &["far.json", "--against", "old.json"]);
    assert!(text.starts_with("misses: all data: 106 misses of D1 on valgrind, was 100 (+6.0 %)\n"), "{text}");
}

/// A gate that compared nothing, or not all, must not pass.
#[test]
fn what_was_not_compared_does_not_pass() {
    let scratch = Scratch::new();
    compile(&scratch, "old", BODIES);
    compile(&scratch, "new", &planted().replace("double mass", "double weight").replace(".mass", ".weight"));
    keep(&scratch, &["layouts", "old", "--format", "json"], "layouts.json");
    let refused = |arguments: &[&str], expected: &str| {
        check_refused(&slimline(&scratch, &[&["check"], arguments].concat()), expected);
    };
    let against = ["--against", "layouts.json"];
    refused(
        &[&["old", "--hot", "body.mas"], &against[..]].concat(),
        "hot field body.mas: no field of layouts.json or old",
    );
    refused(&[&["new", "--hot", "body.mass"], &against[..]].concat(), "hot field body.mass: layouts.json has it");
    // Files of debug information that are gone.
    let output = scratch.bash("gcc -O2 -g -gsplit-dwarf old.src/bodies.c -o split && rm *.dwo").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    refused(
        &[&["split"], &against[..]].concat(),
        "split: 1 unit is in a .dwo file that is not there, or of another build",
    );
    // Misses of another machine, and of another one of the same name.
    fs::write(scratch.path("trace"), " L 10,4\n").unwrap();
    let machine = |name: &str, bytes: u64| {
        let text = format!(
            "name = \"tiny\"\n[[cache]]\nname = \"L1\"\nlevel = 1\nsize = {bytes}\nline = 64\nways = 2\nlatency = 4\n\
             [[memory]]\nname = \"DRAM\"\nlatency = 200\ncores = \"all\"\n"
        );
        fs::write(scratch.path("tiny.toml"), text).unwrap();
        keep(&scratch, &["simulate", "trace", "--machine", "tiny.toml", "--format", "json"], name);
    };
    machine("small.json", 1024);
    machine("large.json", 2048);
    keep(&scratch, &["simulate", "trace", "--machine", "valgrind", "--format", "json"], "valgrind.json");
    refused(&["small.json", "--against", "valgrind.json"], "no machine in common: valgrind is on the old side only");
    refused(&["large.json", "--against", "small.json"], "has 2,048 bytes, 2 ways, lines of 64 bytes; had 1,024 bytes");
    assert_eq!(check(&scratch, &["small.json", "--against", "small.json"]).0, Some(0));
    // What is configured as hot is not asked for where there are no types.
    fs::write(scratch.path("slimline.toml"), "[check]\nhot = [\"body.mass\"]\n").unwrap();
    assert_eq!(check(&scratch, &["small.json", "--against", "small.json"]).0, Some(0));
    refused(&[&["new"], &against[..]].concat(), "hot field body.mass: layouts.json has it");
}

/// A session without debug information tells no types.
#[test]
fn a_baseline_without_types_does_not_pass() {
    let scratch = Scratch::new();
    compile(&scratch, "old", BODIES);
    let output = scratch.bash("strip -o bare old").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    record(&scratch, "bare.data", "bare");
    keep(&scratch, &["report", "bare.data", "--format", "json"], "bare.json");
    let refused = slimline(&scratch, &["check", "old", "--against", "bare.json"]);
    check_refused(&refused, "bare.json tells no types, so nothing was compared: compile the program with -g");
}

/// Whoever reads no further still gets the verdict.
#[test]
fn a_closed_pipe_leaves_the_verdict() {
    let scratch = Scratch::new();
    compile(&scratch, "old", BODIES);
    compile(&scratch, "new", &planted());
    for (new, report, expected) in
        [("new", &[][..], Some(1)), ("new", &["--report", "-"][..], Some(1)), ("old", &[][..], Some(0))]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = scratch.slimline([&["check", new, "--against", "old"], report].concat());
        let output = command.stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (expected, String::new()), "{new} {report:?}");
    }
}

#[test]
fn what_cannot_be_compared_is_one_line() {
    let scratch = Scratch::new();
    compile(&scratch, "old", BODIES);
    fs::write(scratch.path("trace"), " L 10,4\n").unwrap();
    keep(&scratch, &["simulate", "trace", "--machine", "valgrind", "--format", "json"], "misses.json");
    fs::write(scratch.path("other.json"), "{\"schema\": 1}").unwrap();
    fs::write(scratch.path("newer.json"), "{\"schema\": 9, \"session\": {}, \"groups\": []}").unwrap();
    fs::write(scratch.path("cut.json"), "{\"schema\": 1, ").unwrap();
    let cases: [(&[&str], &str); 8] = [
        (&["old", "--against", "nowhere"], "nowhere: No such file or directory"),
        (
            &["old", "--against", "misses.json"],
            "misses.json (simulation) and old (layouts) have nothing that could be compared",
        ),
        (
            &["old", "--against", "other.json"],
            "other.json: no JSON of slimline report, layouts or simulate (--format json)",
        ),
        (
            &["old", "--against", "newer.json"],
            "newer.json: a report of format 9, this slimline reads format 1: make it anew",
        ),
        (&["old", "--against", "cut.json"], "cut.json: not JSON: EOF while parsing"),
        (&["old", "--against", "trace"], "trace: neither a session, a trace, a program nor JSON of slimline"),
        (&["old", "--against", "."], ".: not a slimline session (no valid session.json)"),
        (&["old", "--against", "old.src"], "old.src"),
    ];
    for (arguments, expected) in cases {
        check_refused(&slimline(&scratch, &[&["check"], arguments].concat()), expected);
    }
    fs::write(scratch.path("slimline.toml"), "[check]\nsize = -1\n").unwrap();
    let refused = slimline(&scratch, &["check", "old", "--against", "old"]);
    check_refused(&refused, "slimline.toml: check: size: not a percentage, 0 or more");
}
