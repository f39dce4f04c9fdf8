//! Every text format with names that no format may take for its own, and with shares below what is told: strict readers read them.

#[allow(dead_code, reason = "other tests use the rest of it")]
mod art;
#[path = "../src/strict.rs"]
mod strict;

use std::collections::HashMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use art::art;
use serde_json::Value;
use slimline_analyze::comparison::gate::Allowed;
use slimline_report::comparison::{self, Check, Comparison, NamedHot, Snapshot};
use slimline_report::export::*;
use slimline_report::text::{By, Limits};
use slimline_report::view::*;
use slimline_report::{annotate, csv, html, json, text};
use slimline_trace::escape::plain;
use strict::HOSTILE;

/// A share that is told as `<0.1 %`.
const TINY: f64 = 0.0002;

/// Names, and what is told with them.
const NAMES: [&str; 20] = [
    "name",
    "type_name",
    "function",
    "file",
    "module",
    "module_path",
    "title",
    "why",
    "reason",
    "function_path",
    "trigger",
    "ended",
    "frequency_reason",
    "what",
    "code",
    "because",
    "detail",
    "place",
    "cpu",
    "command",
];

/// The same with a hostile text behind each name, and nothing but tiny shares.
fn spoilt(value: &mut Value, key: &str) {
    match value {
        Value::String(text) if NAMES.contains(&key) => text.push_str(HOSTILE),
        Value::Number(number) if number.is_f64() && key.ends_with("share") => *value = TINY.into(),
        Value::Array(all) => all.iter_mut().for_each(|value| spoilt(value, key)),
        // How bursts end, slimline says in its own words.
        Value::Object(_) if key == "bursts" => {}
        Value::Object(all) => all.iter_mut().for_each(|(key, value)| spoilt(value, key)),
        _ => {}
    }
}

fn hostile() -> Report {
    let mut value = serde_json::from_str(&json(&art())).unwrap();
    spoilt(&mut value, "");
    let report: Report = serde_json::from_value(value).unwrap();
    assert!(report.groups[0].name.ends_with(HOSTILE) && report.groups[0].share == TINY);
    report
}

/// Frames, data and threads with such names; one part of 2,000, the rest in one place.
fn table() -> CostTable {
    let name = |what: &str| format!("{what}{HOSTILE}");
    let frame = |function: &str, line| CodeFrame {
        function: name(function),
        module: name("module"),
        file: Some(name("file.c")),
        line,
    };
    let field = DataField { name: name("field"), type_name: Some(name("type")) };
    let row = |stack, data, cost| CostRow {
        stack,
        data,
        thread: 0,
        cost: Counts { samples: 1, cost, loads: 3, stores: 4, loaded_bytes: 8, stored_bytes: 9 },
    };
    CostTable {
        run: Run {
            command: vec![name("./program")],
            duration_ns: 1000,
            remarks: vec![name("remark"), name("other")],
            ..Run::default()
        },
        frames: vec![frame("main", 1), frame("drift", 2), CodeFrame::default()],
        stacks: vec![vec![0], vec![0, 1], vec![2]],
        groups: vec![DataGroup {
            name: name("data"),
            kind: "heap".into(),
            type_name: Some(name("type")),
            place: Some(frame("main", 3)),
            allocated_by: vec![frame("main", 3)],
            blocks: 1,
            bytes: 64,
        }],
        data: vec![DataPath { group: 0, field: Some(field) }, DataPath { group: 0, field: None }],
        threads: vec![ThreadName { pid: 1, tid: 2, name: name("thread") }],
        rows: vec![row(0, 0, 2_000_000), row(1, 1, 999), row(2, 0, 500)],
        timed: vec![TimedRow { time_ns: 5, stack: 1, data: 1, thread: 0, cost: 999 }],
    }
}

fn written(write: impl FnOnce(&mut String) -> std::fmt::Result) -> String {
    let mut out = String::new();
    write(&mut out).unwrap();
    out
}

#[test]
fn the_flame_graph_is_xml_with_tiny_shares() {
    let picture = written(|out| flamegraph::write(out, &table()));
    let told = strict::xml(&picture);
    let expected = format!("{}: 999 accesses (<0.1 %)", strict::shown(&format!("drift{HOSTILE}")));
    assert!(told.contains(&expected), "{told:#?}");
}

#[test]
fn a_report_as_a_page_is_html() {
    let source = |text: String| slimline_report::source::Source::Text { text, is_newer: false };
    let report = hostile();
    let path = report.lines[0].file.clone();
    let sources = HashMap::from([(path, source(format!("{}\n", HOSTILE.replace('\n', " ")).repeat(1300)))]);
    let page = written(|out| html::report(out, &report, &sources));
    strict::html(&page);
    assert!(page.contains("&lt;0.1 %") && page.contains("&lt;/script&gt;"));
}

#[test]
fn tables_have_a_cell_for_each_column() {
    let report = hostile();
    for by in [By::Group, By::Field, By::Loop, By::Type, By::Line, By::Function, By::Thread, By::Region, By::Quality] {
        strict::csv(&csv::report(&report, by));
    }
    let groups = strict::csv(&csv::report(&report, By::Group));
    assert_eq!(groups[0][0], plain(&report.groups[0].name));
}

#[test]
fn json_is_json() {
    let report = hostile();
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(read(&json(&report))["groups"][0]["name"], report.groups[0].name);
    read(&speedscope::json(&table()));
    read(&firefox::json(&table()));
    read(&dhat::json(&table()));
    let log = read(&sarif::json(&report, "/src", "of"));
    assert_eq!(log["version"], "2.1.0");
    assert!(!log["runs"][0]["results"].as_array().unwrap().is_empty());
}

#[test]
fn what_check_writes_is_xml_and_json() {
    let (old, mut new) = (art(), hostile());
    // The same names in both, and more in each field.
    let mut before = hostile();
    before.groups.clone_from(&old.groups);
    new.groups.clone_from(&old.groups);
    for (group, other) in new.groups.iter_mut().zip(&mut before.groups) {
        group.name.push_str(HOSTILE);
        other.name.push_str(HOSTILE);
        group.type_name = group.type_name.as_ref().map(|name| format!("{name}{HOSTILE}"));
        other.type_name.clone_from(&group.type_name);
        if let Some(layout) = &mut group.layout {
            layout.bytes += 64;
            layout.name.push_str(HOSTILE);
        }
        if let Some(layout) = &mut other.layout {
            layout.name.push_str(HOSTILE);
        }
    }
    let sides = (Snapshot::of_report(&before), Snapshot::of_report(&new));
    let comparison = Comparison::of((HOSTILE.into(), sides.0), (HOSTILE.into(), sides.1)).unwrap();
    let check = Check::of(&comparison, &Allowed::default(), &NamedHot { patterns: &[], is_for_this: true }).unwrap();
    assert!(!check.regressions.is_empty());
    let told = strict::xml(&comparison::junit(&check)).concat();
    assert!(told.contains(&strict::shown(HOSTILE)), "{told}");
    let log: Value = serde_json::from_str(&comparison::sarif(&check, "/src")).unwrap();
    assert!(!log["runs"][0]["results"].as_array().unwrap().is_empty());
    serde_json::from_str::<Value>(&check.json()).unwrap();
    serde_json::from_str::<Value>(&comparison.json()).unwrap();
}

#[test]
fn graphviz_reads_any_name() {
    let mut report = art();
    report.groups[0].name.push_str(HOSTILE);
    report.groups[0].type_name = Some(HOSTILE.to_owned());
    report.groups[0].fields.iter_mut().for_each(|field| (field.name, field.share) = (HOSTILE.to_owned(), TINY));
    let graph = written(|out| dot::graph(out, &report));
    let mut dot = Command::new("dot")
        .args(["-Tsvg"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("graphviz is installed (cargo xtask test installs it)");
    dot.stdin.take().unwrap().write_all(graph.as_bytes()).unwrap();
    let output = dot.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaint.is_empty(), "{complaint}\n{graph}");
}

/// A stack of frames, a space, and a number: nothing in a name is the end of one.
#[test]
fn a_folded_stack_is_a_line_with_a_number() {
    let folded = written(|out| collapsed::write(out, &table()));
    let lines: Vec<&str> = folded.lines().collect();
    assert_eq!(lines.len(), 3, "{folded}");
    for line in lines {
        let (stack, cost) = line.rsplit_once(' ').unwrap();
        cost.parse::<u64>().unwrap();
        assert!((2..=4).contains(&stack.split(';').count()) && !stack.contains(char::is_control), "{line}");
    }
}

/// The grammar of the manual: positions, costs, calls, and names with their numbers, of which each is told once.
#[test]
fn callgrind_is_of_its_grammar() {
    let profile = written(|out| callgrind::write(out, &table()));
    let mut names = HashMap::new();
    for line in profile.lines().filter(|line| !line.is_empty()) {
        assert!(!line.contains(char::is_control), "{line:?}");
        if line.starts_with(|first: char| first.is_ascii_digit()) {
            assert!(line.split(' ').all(|number| number.parse::<u64>().is_ok()), "{line}");
        } else if let Some((key @ ("ob" | "fl" | "fn" | "cob" | "cfi" | "cfn"), name)) = line.split_once('=') {
            let (number, name) = name.strip_prefix('(').unwrap().split_once(')').unwrap();
            let known = names.entry((key.trim_start_matches('c').replace("fi", "fl"), number.parse::<u32>().unwrap()));
            let known = known.or_insert_with(|| name.to_owned());
            assert!(name.is_empty() || known == name, "{line}");
        } else {
            let heads = [
                "# ",
                "version: ",
                "creator: ",
                "cmd: ",
                "desc: ",
                "positions: ",
                "event: ",
                "events: ",
                "summary: ",
                "calls=",
            ];
            assert!(heads.iter().any(|head| line.starts_with(head)), "{line}");
        }
    }
}

/// Nothing that a terminal would act on.
#[test]
fn text_shows_names_and_does_not_act() {
    let report = hostile();
    let mut out = written(|out| text::report(out, &report, By::Group, Limits::default()));
    out += &written(|out| text::advise(out, &report, true));
    if let Some(group) = report.groups.iter().find(|group| group.layout.is_some()) {
        out += &written(|out| annotate::structure(out, &report, group));
    }
    assert!(!out.contains("\u{1b}[2J") && !out.contains(['\0', '\u{202e}', '\u{b}', '\r']), "{out:?}");
    assert!(out.contains("<0.1 %"));
}
