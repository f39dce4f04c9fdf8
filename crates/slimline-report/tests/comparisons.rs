//! What `layouts`, `diff` and `check` print, as snapshots. Review with `cargo insta review`.

#[allow(dead_code, reason = "other tests use the rest of it")]
mod art;

use art::art;
use slimline_analyze::comparison::gate::Allowed;
use slimline_analyze::comparison::layouts::{DeclaredField, DeclaredType, Figures};
use slimline_report::comparison::{Check, Comparison, NamedHot, Snapshot, junit, sarif};
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

fn between(old: Snapshot, new: Snapshot) -> Result<Comparison, String> {
    Comparison::of(("baseline.json".into(), old), ("slimline.data".into(), new))
}

fn judged<'c>(comparison: &'c Comparison, hot: &[&str]) -> Result<Check<'c>, String> {
    judged_so(comparison, hot, true)
}

fn judged_so<'c>(comparison: &'c Comparison, hot: &[&str], is_for_this: bool) -> Result<Check<'c>, String> {
    let patterns: Vec<String> = hot.iter().map(|pattern| (*pattern).to_owned()).collect();
    Check::of(comparison, &Allowed::default(), &NamedHot { patterns: &patterns, is_for_this })
}

fn compared() -> Comparison {
    let (old, new) = (Snapshot::of_report(&art()), Snapshot::of_report(&changed()));
    between(old, new).unwrap()
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
    let check = judged(&comparison, &[]).unwrap();
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
    let same = between(report_of(&art()), report_of(&art())).unwrap();
    assert!(judged(&same, &["*.*"]).unwrap().regressions.is_empty());
}

fn report_of(report: &Report) -> Snapshot {
    Snapshot::of_report(report)
}

fn traced(data: (&str, &str, &str), share_of_x: f64) -> Snapshot {
    traced_with(data, share_of_x, vec![body(&["x", "y", "z"])])
}

/// What `simulate` tells of a trace whose data is of one type, with the types that the trace declares.
fn traced_with((function, name, type_name): (&str, &str, &str), share_of_x: f64, types: Vec<DeclaredType>) -> Snapshot {
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
    Snapshot::of_json(&simulated.to_string()).unwrap().with_types(types)
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
    let comparison = between(old.clone(), new).unwrap();
    let mut out = String::new();
    text::comparison(&mut out, &comparison, Limits::default()).unwrap();
    let out = plain(&out);
    for told in ["SHARES of the cycles, of all accesses", "+25.0", "KNOWN AGAIN", "stars (make_all) was bodies (make)"]
    {
        assert!(out.contains(told), "{told}: {out}");
    }
    assert!(!out.contains("run only") && !out.contains("beyond chance"), "{out}");
    let check = judged(&comparison, &[]).unwrap();
    let told: Vec<String> = check.regressions.iter().map(|regression| check.message(regression)).collect();
    assert_eq!(told, ["stars.x (make_all): 75.0 % of the cycles, was 50.0 %: +25.0 points"]);
    // Of a session types are called otherwise, and shares are of other things.
    assert!(between(old, report_of(&art())).is_err());
}

fn body(fields: &[&str]) -> DeclaredType {
    let field = |(path, offset): (&&str, u64)| DeclaredField { path: (*path).to_owned(), offset, bytes: 8, heat: 0.0 };
    let bytes = 8 * fields.len() as u64;
    DeclaredType {
        name: "body".to_owned(),
        figures: Figures { bytes, lines: bytes.div_ceil(64), ..Figures::default() },
        fields: fields.iter().zip((0..).step_by(8)).map(field).collect(),
        ..DeclaredType::default()
    }
}

/// Two types are called so: what was used of the data says which it is.
#[test]
fn heat_is_that_of_the_type_whose_fields_were_used() {
    let heap = |types| traced_with(("make", "bodies", "body"), 0.5, types);
    let heat = |snapshot: &Snapshot| {
        let types = snapshot.types.as_ref().unwrap();
        types.iter().map(|type_| type_.fields.iter().map(|field| field.heat).collect()).collect::<Vec<Vec<f64>>>()
    };
    let told = heap(vec![body(&["x", "y"]), body(&["x", "z", "w"])]);
    assert_eq!(heat(&told), [vec![0.5, 0.5], vec![0.0, 0.0, 0.0]]);
    let data = &told.data.as_ref().unwrap()[0];
    assert_eq!((data.key.element_bytes, data.fields.len()), (16, 2));
    // It may be either.
    let told = heap(vec![body(&["x", "y"]), body(&["x", "y", "w"])]);
    assert_eq!(heat(&told), [vec![0.0; 2], vec![0.0; 3]]);
    assert_eq!(told.data.as_ref().unwrap()[0].key.element_bytes, 0);
}

fn types_of(types: Vec<DeclaredType>, missing: &[&str]) -> Snapshot {
    Snapshot {
        kind: "layouts",
        types: Some(types),
        filter: Some(TypeFilter::default()),
        missing: missing.iter().map(|what| (*what).to_owned()).collect(),
        ..Snapshot::default()
    }
}

/// What a gate says where nothing can be told from what was compared.
fn refused(old: Snapshot, new: Snapshot, hot: &[&str]) -> String {
    let comparison = between(old, new).unwrap();
    judged(&comparison, hot).err().unwrap_or_default()
}

#[test]
fn a_gate_that_compared_no_types_does_not_pass() {
    let of = |fields: &[&str]| types_of(vec![body(fields)], &[]);
    let other = DeclaredType { name: "other".to_owned(), ..body(&["x"]) };
    assert_eq!(refused(of(&["x"]), of(&["x"]), &[]), "");
    let told = refused(of(&["x"]), types_of(vec![other], &[]), &[]);
    assert!(told.starts_with("baseline.json and slimline.data have nothing of one name"), "{told}");
    let told = refused(types_of(Vec::new(), &[]), of(&["x"]), &[]);
    assert!(told.starts_with("baseline.json tells no types, so nothing was compared: compile"), "{told}");
    let chosen = |types| Snapshot {
        filter: Some(TypeFilter { sources: vec!["body.c".to_owned()], ..TypeFilter::default() }),
        ..types_of(types, &[])
    };
    let told = refused(chosen(vec![body(&["x"])]), chosen(Vec::new()), &[]);
    assert!(told.starts_with("slimline.data has no types of those that were chosen (--type, --source"), "{told}");
    // What is missing of the new side may be what is worse; of the old one it is told.
    let lacking = || types_of(vec![body(&["x"])], &["program: 2 units are damaged"]);
    let told = refused(of(&["x"]), lacking(), &[]);
    assert!(told.starts_with("program: 2 units are damaged: not all types of slimline.data can be compared"), "{told}");
    let comparison = between(lacking(), of(&["x"])).unwrap();
    let check = judged(&comparison, &[]).unwrap();
    let mut out = String::new();
    text::check(&mut out, &check).unwrap();
    let expected =
        "Missing on the old side: program: 2 units are damaged\nno regression: compared 1 type (0 changed)\n";
    assert_eq!(plain(&out), expected);
    let json: serde_json::Value = serde_json::from_str(&check.json()).unwrap();
    assert_eq!(json["missing"]["old"][0], "program: 2 units are damaged");
    assert!(sarif(&check, "/src").contains("program: 2 units are damaged"));
}

#[test]
fn hot_fields_that_are_named_must_be_there() {
    let of = |fields: &[&str]| types_of(vec![body(fields)], &[]);
    let told = refused(of(&["x", "mass"]), of(&["x", "mass"]), &["body.*", "body.mas"]);
    assert!(told.starts_with("hot field body.mas: no field of baseline.json or slimline.data is called so"), "{told}");
    // One for all checks may be another program's.
    let same = between(of(&["x", "mass"]), of(&["x", "mass"])).unwrap();
    assert!(judged_so(&same, &["body.mas"], false).is_ok());
    let renamed = between(of(&["x", "mass"]), of(&["x", "weight"])).unwrap();
    assert!(judged_so(&renamed, &["body.mass"], false).is_err());
    let told = refused(of(&["x", "mass"]), of(&["x", "weight"]), &["body.mass"]);
    assert!(told.starts_with("hot field body.mass: baseline.json has it, and no field of slimline.data"), "{told}");
    assert_eq!(refused(of(&["x", "mass"]), of(&["x", "weight"]), &["body.weight"]), "");
    // A session tells nothing of types that it did not meet.
    let met = |name: &str| Snapshot {
        filter: None,
        ..types_of(vec![body(&["x"]), DeclaredType { name: name.to_owned(), ..body(&["mass"]) }], &[])
    };
    assert_eq!(refused(met("node"), met("other"), &["node.mass"]), "");
    assert!(
        refused(simulated(4, 32768, 10), simulated(4, 32768, 10), &["body.x"]).starts_with("--hot body.x: no types")
    );
}

/// What `simulate` tells of a machine, and nothing of data.
fn simulated(cores: u32, bytes: u64, misses: u64) -> Snapshot {
    let cache = serde_json::json!({ "name": "L1", "bytes": bytes, "ways": 8, "line_bytes": 64, "misses": misses });
    let machine =
        serde_json::json!({ "name": "host", "cores": cores, "loads": 100, "stores": 0, "caches": [cache], "by": null });
    let simulated = serde_json::json!({ "schema": 1, "trace": { "missing": ["3 chunks"] }, "machines": [machine] });
    Snapshot::of_json(&simulated.to_string()).unwrap()
}

#[test]
fn a_gate_that_compared_no_machine_does_not_pass() {
    let valgrind = || {
        let mut other = simulated(4, 32768, 10);
        other.machines.as_mut().unwrap()[0].name = "valgrind".to_owned();
        other
    };
    let told = refused(valgrind(), simulated(4, 32768, 10), &[]);
    assert!(told.contains("no machine in common: valgrind is on the old side only; host is on the new side"), "{told}");
    let told = refused(simulated(4, 32768, 10), simulated(8, 49152, 90), &[]);
    for expected in [
        "host is another machine: 8 cores, had 4;",
        "host is another machine: its L1 has 49,152 bytes, 8 ways, lines of 64 bytes; had 32,768 bytes, 8 ways",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    // Where another one is compared, it is told.
    let mut both = simulated(4, 32768, 10);
    both.machines.as_mut().unwrap().extend(valgrind().machines.unwrap());
    let comparison = between(both, valgrind()).unwrap();
    let check = judged(&comparison, &[]).unwrap();
    let mut out = String::new();
    text::check(&mut out, &check).unwrap();
    let expected = "Not compared: host is on the old side only
Missing on the old side: 3 chunks
Missing on the new side: 3 chunks
no regression: compared 1 miss count
";
    assert_eq!(plain(&out), expected);
    let json: serde_json::Value = serde_json::from_str(&check.json()).unwrap();
    assert_eq!(json["misses"]["unmatched"][0], "host is on the old side only");
    assert!(sarif(&check, "/src").contains("host is on the old side only"));
}

/// Those that look for a test or a result by its name find each.
#[test]
fn what_is_worse_is_called_by_names_of_its_own() {
    let of = |bytes: u64| {
        let at = |file: &str| DeclaredType {
            place: Some((file.to_owned(), 7)),
            figures: Figures { bytes, lines: 1, ..Figures::default() },
            ..body(&["x"])
        };
        types_of(vec![at("/src/a.c"), at("/src/b.c")], &[])
    };
    let comparison = between(of(8), of(16)).unwrap();
    let check = judged(&comparison, &[]).unwrap();
    let tests = junit(&check);
    assert!(tests.contains("name=\"body\"") && tests.contains("name=\"body (2)\""), "{tests}");
    let log: serde_json::Value = serde_json::from_str(&sarif(&check, "/src")).unwrap();
    let prints = [0, 1].map(|row| log["runs"][0]["results"][row]["partialFingerprints"]["slimlineCheck/v1"].clone());
    assert_eq!(prints, ["size body", "size body (2)"]);
    // Of two machines each cache's misses are another test.
    let two = |misses| {
        let mut run = simulated(4, 32768, misses);
        let mut other = run.machines.clone().unwrap();
        other[0].name = "small".to_owned();
        run.machines.as_mut().unwrap().extend(other);
        run
    };
    let comparison = between(two(10), two(20)).unwrap();
    let tests = junit(&judged(&comparison, &[]).unwrap());
    assert!(tests.contains("\"all data: L1 of host\"") && tests.contains("\"all data: L1 of small\""), "{tests}");
}

/// Offsets that no type has are in no one's way.
#[test]
fn offsets_at_the_end_of_numbers_are_told() {
    let at = |offset: u64| {
        let mut report = layouts();
        for layout in &mut report.types {
            for member in &mut layout.members {
                (member.offset, member.bits) = (offset, None);
            }
            let bits = LayoutMember { type_name: "long".into(), bits: Some((u8::MAX, 9)), ..LayoutMember::default() };
            layout.members.push(LayoutMember { offset, ..bits });
            layout.members.push(LayoutMember { offset, bytes: u64::MAX, ..LayoutMember::default() });
            layout.members.push(LayoutMember { offset, bytes: u64::MAX, ..LayoutMember::default() });
        }
        report.files.clear();
        Snapshot::of_json(&report.json()).unwrap()
    };
    let comparison = between(at(0), at(u64::MAX)).unwrap();
    let check = judged(&comparison, &["*.*"]).unwrap();
    assert!(check.json().contains("is at offset 18446744073709551615, on lines"), "{}", check.json());
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
