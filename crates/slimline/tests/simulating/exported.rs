//! `slimline export --to parquet`: each access of a program whose accesses are known.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use slimline_trace::tables::{Table, TracedAccesses, TracedKeys};

use super::traced::{counters, failed, json, slimline, traced};
use super::viewers::check_sarif;

/// 300 nodes are stored and then read 4000 times: more accesses than one file of tables has.
const NODES: &str = r#"
#include <stdlib.h>
struct node { long key; long value; };
__attribute__((noinline)) static long sum(struct node *first) {
    long sum = 0;
    for (int i = 0; i < 300; i++) sum += first[i].key;
    return sum;
}
int main(void) {
    struct node *nodes = malloc(300 * sizeof *nodes);
    for (int i = 0; i < 300; i++) nodes[i].key = i, nodes[i].value = 0;
    long all = 0;
    for (int round = 0; round < 4000; round++) { all += sum(nodes); nodes[round % 300].value++; }
    return all == 0;
}
"#;

#[test]
fn accesses_are_tables() {
    let directory = traced(NODES);
    slimline(directory.path(), &["export", "run.trace", "--to", "parquet", "-o", "tables"]);
    let read = |name: &str| fs::read(directory.path().join("tables").join(name)).unwrap().into();
    let all = 300 * 2 + 4000 * (300 + 2);
    let accesses = [("accesses-00000.parquet", 1 << 20), ("accesses-00001.parquet", all - (1 << 20))]
        .map(|(name, rows)| TracedAccesses::from_parquet(read(name), rows).unwrap());
    assert_eq!(fs::read_dir(directory.path().join("tables")).unwrap().count(), 3);
    let keys = (1..).find_map(|rows| TracedKeys::from_parquet(read("keys.parquet"), rows).ok()).unwrap();
    let mut fields: BTreeMap<(&str, bool), u64> = BTreeMap::new();
    let mut first = None;
    for access in accesses.iter().flat_map(TracedAccesses::iter) {
        let key = access.key as usize;
        let field = keys.field[key].as_deref().unwrap_or_default();
        let offset = access.address.0 - *first.get_or_insert(access.address.0);
        assert_eq!((access.bytes, access.loads != access.stores), (8, true));
        assert_eq!((offset % 16, field), (if field == "node.key" { 0 } else { 8 }, field));
        *fields.entry((field, access.stores)).or_default() += 1;
    }
    let expected = [
        (("node.key", false), 1_200_000),
        (("node.key", true), 300),
        (("node.value", false), 4000),
        (("node.value", true), 4300),
    ];
    assert_eq!(fields.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(keys.accesses.iter().sum::<u64>(), all as u64);
    let of_sum: Vec<_> = keys.iter().filter(|key| key.function.as_deref() == Some("sum")).collect();
    assert_eq!((of_sum.len(), of_sum[0].data.as_deref(), &*of_sum[0].kind), (1, Some("nodes"), "heap"));
    // What is there is not touched, and what has no accesses leaves nothing.
    let said = failed(directory.path(), &["export", "run.trace", "--to", "parquet", "-o", "tables"]);
    assert!(said.contains("tables: is there already: name another directory"), "{said}");
    fs::create_dir(directory.path().join("empty")).unwrap();
    let said = failed(directory.path(), &["export", "empty", "--to", "parquet", "-o", "others"]);
    assert!(said.contains("holds no recorded trace") && !directory.path().join("others").exists(), "{said}");
}

/// Takes from places of data what tables don't tell: the function, and where in its line it is.
fn without_functions(report: &mut Value) {
    match report {
        Value::Object(members) => {
            for place in ["allocated_at", "declared_at"] {
                if let Some(Value::Object(place)) = members.get_mut(place) {
                    place.insert("function".to_owned(), Value::Null);
                    place.insert("column".to_owned(), Value::Null);
                }
            }
            members.values_mut().for_each(without_functions);
        }
        Value::Array(values) => values.iter_mut().for_each(without_functions),
        _ => {}
    }
}

/// Tables of accesses say threads, and nothing of processes.
fn without_process_ids(report: &mut Value) {
    match report {
        Value::Object(fields) => {
            fields.remove("pid");
            fields.values_mut().for_each(without_process_ids);
        }
        Value::Array(rows) => rows.iter_mut().for_each(without_process_ids),
        _ => {}
    }
}

/// What is made tables of is what it was before: each analysis that takes accesses says the same of it.
#[test]
fn tables_come_back() {
    for (source, threads) in [(NODES, 1), (counters().as_str(), 3)] {
        let directory = traced(source);
        slimline(directory.path(), &["export", "run.trace", "--to", "parquet", "-o", "tables"]);
        let tasks: [&[&str]; 3] = [
            &["simulate", "--machine", "pena-sp"],
            &["reuse", "--machine", "pena-sp"],
            &["share", "--machine", "pena-sp"],
        ];
        for task in tasks {
            let [of_trace, of_tables] = ["run.trace", "tables"].map(|from| {
                let mut report = json(directory.path(), &[&task[..1], &[from], &task[1..]].concat());
                let trace = report.get_mut("trace").unwrap().as_object_mut().unwrap();
                assert!(trace["threads"].as_u64() >= Some(threads));
                ["file", "format", "command", "homes"].iter().for_each(|own| drop(trace.remove(*own)));
                // Rows of tables say no times.
                report.as_object_mut().unwrap().remove("overlap");
                without_functions(&mut report);
                without_process_ids(&mut report);
                report
            });
            assert_eq!(of_trace, of_tables, "{task:?}");
        }
    }
}

/// Costs of a trace are its accesses, exact ones: by data, with loads and stores, and by who allocated.
#[test]
fn accesses_are_costs_for_other_tools() {
    let directory = traced(NODES);
    let all = 300 * 2 + 4000 * (300 + 2);
    slimline(directory.path(), &["export", "run.trace", "--to", "callgrind", "-o", "callgrind.out"]);
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    let (loads, stores) = (4000 * 301, 300 * 2 + 4000);
    assert!(
        read("callgrind.out").contains(&format!("summary: {all} {all} {loads} {stores}\n")),
        "{}",
        read("callgrind.out")
    );
    slimline(directory.path(), &["export", "run.trace", "--to", "collapsed", "-o", "stacks.txt"]);
    let stacks = read("stacks.txt");
    assert!(stacks.lines().any(|line| line == "sum;nodes [heap];nodes.key 1200000"), "{stacks}");
    let sum: u64 = stacks.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, all);
    slimline(directory.path(), &["export", "run.trace", "--to", "dhat", "-o", "dhat.json"]);
    let file: Value = serde_json::from_str(&read("dhat.json")).unwrap();
    let point = &file["pps"][0];
    let told = ["tb", "tbk", "rb", "wb"].map(|of| point[of].as_u64().unwrap());
    assert_eq!(told, [300 * 16, 1, 8 * loads, 8 * stores], "{file}");
    assert_eq!(file["te"], loads + stores);
    let said = failed(directory.path(), &["export", "run.trace", "--to", "firefox"]);
    assert!(said.contains("accesses of a trace have no times"), "{said}");
    let said = failed(directory.path(), &["export", "run.trace", "--to", "dot"]);
    assert!(said.contains("--to dot is of sessions: a page of the trace has such graphs"), "{said}");
}

/// What is advised of a trace is for code review, too: at a line of a file, by a rule that the log has.
#[test]
fn advice_of_a_trace_is_sarif() {
    let directory = traced(NODES);
    let sarif = ["export", "run.trace", "--to", "sarif", "--machine", "pena-sp"];
    let log: Value = serde_json::from_str(&slimline(directory.path(), &sarif)).unwrap();
    let run = &log["runs"][0];
    let result = &run["results"][0];
    let rule = &run["tool"]["driver"]["rules"][result["ruleIndex"].as_u64().unwrap() as usize];
    assert_eq!(rule["id"], result["ruleId"], "{result}");
    assert_eq!(result["locations"][0]["logicalLocations"][0]["name"], "node", "{result}");
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], 10, "{result}");
    assert!(place["artifactLocation"]["uri"].as_str().unwrap().ends_with(".c"), "{result}");
    let kept = directory.path().join("advice.sarif");
    fs::write(&kept, log.to_string()).unwrap();
    check_sarif("advice_of_a_trace_is_sarif", &kept);
    let said = failed(directory.path(), &["export", "run.trace", "--to", "dhat", "--machine", "host"]);
    assert!(said.contains("--machine goes with --to sarif of a trace"), "{said}");
}
