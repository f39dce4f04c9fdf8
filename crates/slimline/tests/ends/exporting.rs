//! `slimline export`: the tools that exports are for read them, and their sums are those of the report.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use slimline_report::view::Report;

use crate::scratch::{Scratch, check_refused, skip, stderr, stdout};
use crate::viewers::{check_sarif, viewer};

/// What an export writes.
#[track_caller]
fn exported(scratch: &Scratch, to: &str) -> String {
    let output = scratch.slimline(["export", "--to", to]).output().unwrap();
    assert!(output.status.success(), "{to}: {}", stderr(&output));
    stdout(&output)
}

/// What an export writes, as a file.
#[track_caller]
fn exported_to(scratch: &Scratch, to: &str, file: &str) {
    let output = scratch.slimline(["export", "--to", to, "-o", file]).output().unwrap();
    assert!(output.status.success(), "{to}: {}", stderr(&output));
}

fn report(scratch: &Scratch) -> Report {
    let output = scratch.slimline(["report", "--format", "json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn is_installed(tool: &str) -> bool {
    Command::new("which").arg(tool).output().is_ok_and(|output| output.status.success())
}

/// Costs, and the shares of structures and fields, are the report's.
#[test]
fn sums_are_those_of_the_report() {
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1", "-g"]);
    let report = report(&scratch);
    let total = report.session.weight_total;
    let (mut groups, mut fields): (BTreeMap<String, u64>, BTreeMap<String, u64>) = Default::default();
    for line in exported(&scratch, "collapsed").lines() {
        let (stack, cost) = line.rsplit_once(' ').unwrap();
        let cost: u64 = cost.parse().unwrap();
        let frames: Vec<&str> = stack.split(';').collect();
        let group = frames.iter().rposition(|frame| frame.ends_with(']') || *frame == "unattributed").unwrap();
        *groups.entry(frames[group].to_owned()).or_default() += cost;
        *fields.entry(frames[group + 1..].join(";")).or_default() += cost;
    }
    assert_eq!(groups.values().sum::<u64>(), total);
    let near = |cost: u64, share: f64| (cost as f64 - share * total as f64).abs() <= 1e-6 * total as f64;
    let mut by_label: BTreeMap<String, f64> = BTreeMap::new();
    for group in &report.groups {
        let label = match &group.name {
            name if *name == group.kind => name.clone(),
            name => format!("{name} [{}]", group.kind),
        };
        *by_label.entry(label).or_default() += group.share;
    }
    for (label, share) in &by_label {
        assert!(near(groups.get(label).copied().unwrap_or(0), *share), "{label}: {share} {groups:?}");
    }
    let items = report.groups.iter().find(|group| group.name == "items").unwrap();
    for field in &items.fields {
        let cost = fields.get(&format!("items.{}", field.name)).copied().unwrap_or(0);
        assert!(near(cost, items.share * field.share), "{}: {} {fields:?}", field.name, field.share);
    }
    let sum = |name: &str, of: &str| -> u64 {
        let file: serde_json::Value = serde_json::from_str(&exported(&scratch, name)).unwrap();
        let values = file[of].as_array().unwrap().iter();
        values.flat_map(|one| one["weights"].as_array().unwrap()).map(|weight| weight.as_u64().unwrap()).sum()
    };
    assert_eq!(sum("speedscope", "profiles"), total);
    let file: serde_json::Value = serde_json::from_str(&exported(&scratch, "firefox")).unwrap();
    let weights =
        file["threads"].as_array().unwrap().iter().flat_map(|thread| thread["samples"]["weight"].as_array().unwrap());
    let milliseconds: f64 = weights.map(|weight| weight.as_f64().unwrap()).sum();
    assert!((milliseconds * 1e6 - total as f64).abs() < 1.0, "{milliseconds} {total}");
    assert!(exported(&scratch, "callgrind").contains(&format!("summary: {total} {total} ")));
    let picture = exported(&scratch, "flamegraph");
    assert!(picture.contains("items.value") && picture.ends_with("</svg>\n"), "{picture}");
}

/// 1,234,567 (12.3%)
fn first_number(text: &str) -> u64 {
    let number = text.trim_start().split([' ', '(']).next().unwrap();
    number.replace(',', "").parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

#[test]
fn callgrind_annotate_reads_code_and_data() {
    if !is_installed("callgrind_annotate") {
        return skip("callgrind_annotate_reads_code_and_data", "no callgrind_annotate (Debian: valgrind)");
    }
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1", "-g"]);
    let total = report(&scratch).session.weight_total;
    let script =
        "$SLIMLINE export --to callgrind -o callgrind.out && callgrind_annotate --threshold=100 $SHOWN callgrind.out";
    let annotated = |shown: &str| {
        let output = scratch.bash(script).env("SHOWN", shown).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
        stdout(&output)
    };
    for (event, function) in [("time_ns", ":main ["), ("data_time_ns", ":items::value [heap]")] {
        let text = annotated(&format!("--show={event} --sort={event}"));
        let totals = text.lines().find(|line| line.ends_with("PROGRAM TOTALS")).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(first_number(totals), total, "{text}");
        let row = text.lines().find(|line| line.contains(function)).unwrap_or_else(|| panic!("{function}: {text}"));
        assert!(first_number(row) * 4 > total, "{row}\n{text}");
    }
    // The loop's line, in the source.
    let text = annotated("--show=time_ns --auto=yes");
    assert!(text.lines().any(|line| line.contains("sum += items[i].value") && line.contains('%')), "{text}");
}

#[test]
fn pprof_reads_stacks_and_labels() {
    if !is_installed("go") {
        return skip("pprof_reads_stacks_and_labels", "no go tool pprof (Debian: golang-go)");
    }
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1", "-g"]);
    let total = report(&scratch).session.weight_total;
    let run = |arguments: &str| {
        let home = scratch.path("home");
        let script = format!("$SLIMLINE export --to pprof -o profile.pb.gz && go tool pprof {arguments} profile.pb.gz");
        let output = scratch.bash(&script).env("HOME", home).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let raw = run("-raw -sample_index=time");
    assert!(raw.contains("samples/count time/nanoseconds[dflt] loads/count stores/count"), "{raw}");
    let samples = raw.split_once("stores/count").unwrap().1.split_once("Locations").unwrap().0;
    let costs = samples.lines().filter_map(|line| line.split_once(':')).map(|(values, _)| values);
    let costs = costs.filter_map(|values| values.split_whitespace().nth(1)?.parse::<u64>().ok());
    assert_eq!(costs.sum::<u64>(), total, "{raw}");
    let top = run("-top -sample_index=time");
    assert!(top.contains("items.value") && top.contains("items [heap]"), "{top}");
    let by_code = run(r"-top -hide='\[data\]'");
    assert!(by_code.contains("main") && !by_code.contains("items"), "{by_code}");
    let tags = run("-tags");
    assert!(tags.contains("group:") && tags.contains("items"), "{tags}");
}

#[test]
fn advice_is_a_result_of_sarif() {
    let scratch = Scratch::new();
    let source = include_str!("../../demo/bodies.c");
    let program = scratch.compile("bodies", source, &["-O2", "-g"]);
    let output = scratch.slimline(["record".as_ref(), "--".as_ref(), program.as_os_str()]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let log: serde_json::Value = serde_json::from_str(&exported(&scratch, "sarif")).unwrap();
    let result = &log["runs"][0]["results"][0];
    assert_eq!((&log["version"], &result["ruleId"]), (&"2.1.0".into(), &"split".into()), "{log}");
    let place = &result["locations"][0]["physicalLocation"];
    let uri = place["artifactLocation"]["uri"].as_str().unwrap();
    assert!(uri.ends_with("bodies.c") && place["region"]["startLine"].as_u64() > Some(0), "{result}");
    assert!(result["properties"]["predicted"]["cycles"].as_f64() < Some(0.0), "{result}");
    exported_to(&scratch, "sarif", "advice.sarif");
    check_sarif("advice_is_a_result_of_sarif", &scratch.path("advice.sarif"));
}

/// Its own code, without its page, finds all the time there is, and that most of it goes to the data of the loop.
#[test]
fn the_firefox_profiler_reads_code_and_data() {
    let test = "the_firefox_profiler_reads_code_and_data";
    let Some(reader) = viewer(test, "@firefox-devtools/profiler-cli/dist/profiler-cli.js") else { return };
    if !is_installed("node") {
        return skip(test, "no node");
    }
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1", "-g"]);
    let total = report(&scratch).session.weight_total as f64 / 1e6;
    exported_to(&scratch, "firefox", "run.json");
    // Who answers is a process of its own, which must not outlive the test, and is given up if it does not begin within half a second.
    let script = "trap 'node $READER stop >&2' EXIT
        for try in {1..10}; do node $READER load run.json >&2 && break; node $READER stop >&2; done
        node $READER thread functions --json";
    let output = scratch.bash(script).env("READER", reader).env("HOME", scratch.path("home")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let read: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let functions = read["functions"].as_array().unwrap();
    let time_of = |name: &str, of: &str| {
        let function = functions.iter().find(|function| function["nameWithLibrary"] == name);
        function.unwrap_or_else(|| panic!("{name}: {read:#}"))[of].as_f64().unwrap()
    };
    let all: f64 = functions.iter().map(|function| function["selfSamples"].as_f64().unwrap()).sum();
    assert!((all - total).abs() < 1e-3, "{all} {total}");
    assert!(time_of("[data]!items.value", "selfSamples") * 4.0 > total, "{read:#}");
    assert!(time_of("walk!main", "totalSamples") >= time_of("[data]!items [heap]", "totalSamples"), "{read:#}");
}

#[test]
fn what_can_not_be_written_is_refused() {
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1", "-g"]);
    let refused = |arguments: &[&str], expected: &str| {
        check_refused(&scratch.slimline(["export"].iter().chain(arguments)).output().unwrap(), expected);
    };
    refused(&["--to", "callgrind", "-o", "missing/callgrind.out"], "missing/callgrind.out: No such file or directory");
    refused(&["--to", "callgrind", "--callers"], "--callers is of traces");
    // On a terminal.
    let output = scratch.bash("script -qec \"$SLIMLINE export --to pprof\" /dev/null").output().unwrap();
    let said = stdout(&output);
    assert!(said.contains("--to pprof is no text for a terminal: name a file (-o profile.pb.gz)"), "{said}");
    assert_eq!(output.status.code(), Some(2), "{said}");
    // What was there stays until all is written.
    fs::write(scratch.path("kept"), "before").unwrap();
    refused(&["--to", "dhat", "-o", "kept", "no.data"], "no.data: no such session");
    assert_eq!(fs::read_to_string(scratch.path("kept")).unwrap(), "before");
}

#[test]
fn a_session_without_samples_says_why_there_is_nothing() {
    let scratch = Scratch::new();
    assert!(scratch.slimline(["record", "--", "true"]).output().unwrap().status.success());
    let output = scratch.slimline(["export", "--to", "collapsed"]).output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success() && said.contains("slimline.data: 0 samples: the program "), "{said}");
    let compared = scratch.slimline(["check", "slimline.data", "--against", "slimline.data"]).output().unwrap();
    check_refused(&compared, "slimline.data has no samples, so nothing was compared");
}

/// Every row of a report, as CSV.
#[test]
fn shares_of_a_table_sum_to_1() {
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1", "-g"]);
    for by in ["group", "field", "type", "line", "function", "thread"] {
        let output = scratch.slimline(["report", "--format", "csv", "--by", by]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().unwrap();
        let share = header.iter().position(|column| *column == "share").unwrap();
        let rows: Vec<_> = lines.collect();
        assert!(rows.iter().all(|row| row.len() == header.len()), "{text}");
        let sum: f64 = rows.iter().map(|row| row[share].parse::<f64>().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{by}: {sum}\n{text}");
    }
    let output = scratch.slimline(["report", "--format", "csv", "--per-process", "--by", "thread"]).output().unwrap();
    assert!(stdout(&output).starts_with("pid,name,detail,share,"), "{}", stdout(&output));
}
