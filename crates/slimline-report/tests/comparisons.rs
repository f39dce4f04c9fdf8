//! What `layouts`, `diff` and `check` print, as snapshots. Review with `cargo insta review`.

#[allow(dead_code, reason = "other tests use the rest of it")]
mod art;

use art::art;
use slimline_analyze::comparison::gate::Allowed;
use slimline_analyze::comparison::layouts::{DeclaredField, DeclaredType, Figures};
use slimline_report::comparison::{Check, Comparison, Snapshot, junit, sarif};
use slimline_report::declared_layouts::{LayoutOrder, LayoutsFile, LayoutsReport, TypeFilter, TypeLayout};
use slimline_report::text::{self, Limits, WIDTH};
use slimline_report::view::*;
use slimline_report::{annotate, json};

/// Of the new version: a field more at the front, which pushes `R` over the line, and more time in `P`.
fn changed() -> Report {
    let mut report = art();
    for group in &mut report.groups {
        let Some(layout) = &mut group.layout else { continue };
        layout.bytes += 8;
        layout.members.iter_mut().for_each(|member| member.offset += 8);
        group.fields.iter_mut().for_each(|field| field.offset += 8);
        let new = LayoutMember { bytes: 8, name: "seed".into(), type_name: "long".into(), ..LayoutMember::default() };
        layout.members.insert(0, new);
        for field in &mut group.fields {
            let moved = if field.name == "P" { 0.2 } else { 0.0 };
            field.share += moved;
            field.share_interval.low += moved;
            field.share_interval.high += moved;
        }
    }
    report
}

fn compared() -> Comparison {
    let (old, new) = (Snapshot::of_report(&art()), Snapshot::of_report(&changed()));
    Comparison::of(("baseline.json".into(), &old), ("slimline.data".into(), &new)).unwrap()
}

/// Without styles, and in the page's width.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\x1b') {
        out.push_str(before);
        rest = behind.split_once('m').unwrap().1;
    }
    out.push_str(rest);
    assert!(out.lines().all(|line| line.chars().count() <= WIDTH), "{out}");
    out
}

#[test]
fn differences_are_told() {
    let mut out = String::new();
    text::comparison(&mut out, &compared(), Limits { rows: 8, ..Limits::default() }).unwrap();
    insta::assert_snapshot!(plain(&out));
}

#[test]
fn regressions_are_told_in_every_format() {
    let comparison = compared();
    let check = Check::of(&comparison, &Allowed::default(), &[]);
    let mut out = String::new();
    text::check(&mut out, &check).unwrap();
    insta::assert_snapshot!("check", plain(&out));
    insta::assert_snapshot!("check_junit", junit(&check));
    let log = sarif(&check, "/src/art").replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!("check_sarif", log);
    let json: serde_json::Value = serde_json::from_str(&check.json()).unwrap();
    assert_eq!(json["regressions"].as_array().unwrap().len(), check.regressions.len());
}

#[test]
fn a_report_that_was_kept_tells_what_it_told() {
    let (kept, report) = (Snapshot::of_json(&json(&art())).unwrap(), Snapshot::of_report(&art()));
    assert_eq!((kept.types, kept.data), (report.types, report.data));
    let same = Comparison::of(("a".into(), &report_of(&art())), ("b".into(), &report_of(&art()))).unwrap();
    assert!(Check::of(&same, &Allowed::default(), &["*.*".to_owned()]).regressions.is_empty());
}

fn report_of(report: &Report) -> Snapshot {
    Snapshot::of_report(report)
}

/// What `simulate` tells of a trace whose data is of one type, with the types that the trace declares.
fn traced((function, name, type_name): (&str, &str, &str), share_of_x: f64) -> Snapshot {
    let misses = serde_json::json!([{ "name": "L1", "misses": 10 }]);
    let simulated = serde_json::json!({ "schema": 1, "machines": [{
        "name": "small", "loads": 100, "stores": 0, "caches": misses,
        "by": {
            "data": [{
                "name": name, "kind": "heap", "type": type_name, "share": 1.0, "caches": misses,
                "allocated_at": { "function": function, "file": "sky.c", "line": 7 },
            }],
            "uses": [
                { "data": 0, "field": "body.x", "share": share_of_x },
                { "data": 0, "field": "body.y[]", "share": 1.0 - share_of_x },
            ],
        },
    }] });
    let field = |path: &str, offset| DeclaredField { path: path.to_owned(), offset, bytes: 8, heat: 0.0 };
    let body = DeclaredType {
        name: "body".to_owned(),
        figures: Figures { bytes: 24, lines: 1, ..Figures::default() },
        fields: vec![field("x", 0), field("y", 8), field("z", 16)],
        ..DeclaredType::default()
    };
    Snapshot::of_json(&simulated.to_string()).unwrap().with_types(vec![body])
}

/// Nothing of them is by chance, and data of another name and function is what it was.
#[test]
fn traces_are_compared_by_all_accesses() {
    let heap = |function, name, share_of_x| traced((function, name, "body"), share_of_x);
    let (old, new) = (heap("make", "bodies", 0.5), heap("make_all", "stars", 0.75));
    // A static array of them is called otherwise.
    for of in [&old, &traced(("", "bodies", "struct body[64]"), 0.5)] {
        let heat: Vec<f64> = of.types.as_ref().unwrap()[0].fields.iter().map(|field| field.heat).collect();
        assert_eq!(heat, [0.5, 0.5, 0.0]);
        // What no access used is there, for another run's may.
        let data = &of.data.as_ref().unwrap()[0];
        assert_eq!((data.key.element_bytes, data.fields.len()), (24, 3));
    }
    let comparison = Comparison::of(("old.trace".into(), &old), ("new.trace".into(), &new)).unwrap();
    let mut out = String::new();
    text::comparison(&mut out, &comparison, Limits::default()).unwrap();
    let out = plain(&out);
    for told in ["SHARES of the cycles, of all accesses", "+25.0", "KNOWN AGAIN", "stars (make_all) was bodies (make)"]
    {
        assert!(out.contains(told), "{told}: {out}");
    }
    assert!(!out.contains("run only") && !out.contains("beyond chance"), "{out}");
    let check = Check::of(&comparison, &Allowed::default(), &[]);
    let told: Vec<String> = check.regressions.iter().map(|regression| check.message(regression)).collect();
    assert_eq!(told, ["stars.x (make_all): 75.0 % of the cycles, was 50.0 %: +25.0 points"]);
    // Of a session types are called otherwise, and shares are of other things.
    assert!(Comparison::of(("a".into(), &old), ("b".into(), &report_of(&art()))).is_err());
}

fn layouts() -> LayoutsReport {
    let member = |offset: u64, bytes: u64, name: &str| LayoutMember {
        offset,
        bytes,
        name: name.into(),
        type_name: if name.is_empty() { String::new() } else { format!("char[{bytes}]") },
        ..LayoutMember::default()
    };
    let node = TypeLayout {
        name: "struct node".into(),
        kind: "structure".into(),
        language: "c".into(),
        bytes: 1072,
        alignment: 8,
        lines: 17,
        holes: 1,
        hole_bytes: 4,
        crossings: vec!["key".into()],
        declared_at: Some(Position { file: "/src/a/very/long/way/to/the/file/that/declares_nodes.h".into(), line: 12 }),
        units: 3,
        members: vec![member(0, 60, "text"), member(60, 4, ""), member(64, 1000, "rest"), member(1064, 8, "key")],
        ..TypeLayout::default()
    };
    let base = TypeLayout {
        name: "sky::Ship".into(),
        language: "c++".into(),
        kind: "structure".into(),
        bytes: 32,
        alignment: 8,
        lines: 1,
        padding_bytes: 20,
        lacks_virtual_bases: true,
        units: 1,
        ..TypeLayout::default()
    };
    let other = TypeLayout { bytes: 40, ..node.clone() };
    let file = LayoutsFile {
        path: "program".into(),
        units: 3,
        missing: vec!["1 of 3 units are damaged".into()],
        ..LayoutsFile::default()
    };
    LayoutsReport::new(vec![file], (TypeFilter::default(), 1234), vec![base, other, node], LayoutOrder::Holes)
}

#[test]
fn types_are_shown_as_declared() {
    let report = layouts();
    let mut out = String::new();
    text::declared_layouts(&mut out, &report, Limits { rows: 2, ..Limits::default() }).unwrap();
    text::declared_layouts(&mut out, &report, Limits::default()).unwrap();
    for layout in &report.types {
        annotate::declared_type(&mut out, layout).unwrap();
    }
    insta::assert_snapshot!("layouts", plain(&out));
    insta::assert_snapshot!("layouts_csv", report.csv());
    let kept = Snapshot::of_json(&report.json()).unwrap();
    assert_eq!(kept.types, Snapshot::of_layouts(&report).types);
}
