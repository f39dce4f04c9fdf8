//! Every export of one table of costs made by hand. Review snapshots with `cargo insta review`.

use serde_json::Value;
use slimline_report::export::*;
use slimline_trace::session::WeightUnit;

fn frame(function: &str, line: u32) -> CodeFrame {
    CodeFrame { function: function.into(), module: "bodies".into(), file: Some("/src/bodies.c".into()), line }
}

fn counts(samples: u64, cost: u64, loads: u64, stores: u64) -> Counts {
    Counts { samples, cost, loads, stores, loaded_bytes: 8 * loads, stored_bytes: 8 * stores }
}

/// Two functions that `main` calls, one by itself on a second thread, a recursion; fields, a scalar, computing, and data that nobody knows.
fn table() -> CostTable {
    let field = |group, name: &str| DataPath {
        group,
        field: Some(DataField { name: name.into(), type_name: Some("double".into()) }),
    };
    let row = |stack, data, thread, cost| CostRow { stack, data, thread, cost };
    let timed = |time_ns, stack, data, thread, cost| TimedRow { time_ns, stack, data, thread, cost };
    CostTable {
        run: Run {
            command: vec!["./bodies".into(), "a file".into()],
            unit: CostUnit::Sampled(WeightUnit::TimeNs),
            is_exact: false,
            period_ns: 1_000_000,
            started_unix_ns: 1_700_000_000_000_000_000,
            duration_ns: 20_000_000,
            remarks: vec!["clock samples: 12 by the clock at 1000 Hz for 12 ms of user time".into()],
        },
        frames: vec![
            frame("main", 42),
            frame("drift", 30),
            frame("kick", 22),
            frame("walk", 50),
            frame("walk", 51),
            CodeFrame { function: "(unknown callers)".into(), ..CodeFrame::default() },
            CodeFrame {
                function: "operator new; \u{1b}[31m".into(),
                module: "libc.so.6".into(),
                ..CodeFrame::default()
            },
        ],
        stacks: vec![vec![0, 1], vec![0, 2], vec![0, 3, 3, 3, 4], vec![5, 6], vec![1]],
        groups: vec![
            DataGroup {
                name: "bodies".into(),
                kind: "heap".into(),
                type_name: Some("struct body".into()),
                place: Some(frame("main", 36)),
                allocated_by: vec![frame("main", 36)],
                blocks: 1,
                bytes: 128_000_000,
            },
            DataGroup {
                name: "table".into(),
                kind: "static".into(),
                place: Some(CodeFrame { file: Some("/src/bodies.c".into()), line: 7, ..CodeFrame::default() }),
                blocks: 1,
                bytes: 4096,
                ..DataGroup::default()
            },
            DataGroup { name: "unattributed".into(), kind: "unattributed".into(), ..DataGroup::default() },
        ],
        data: vec![
            field(0, "x"),
            field(0, "vx"),
            DataPath { group: 0, field: None },
            DataPath { group: 1, field: None },
            field(1, "+40"),
            DataPath { group: 2, field: None },
            field(2, "no memory instruction (computing)"),
        ],
        threads: vec![
            ThreadName { pid: 7, tid: 7, name: "bodies".into() },
            ThreadName { pid: 7, tid: 8, name: String::new() },
        ],
        rows: vec![
            row(0, 0, 0, counts(5, 5_000_000, 0, 0)),
            row(0, 1, 0, counts(2, 2_000_000, 0, 0)),
            row(1, 2, 0, counts(2, 1_500_001, 0, 0)),
            row(2, 3, 0, counts(1, 1_000_000, 0, 0)),
            row(2, 4, 0, counts(1, 1_000_000, 0, 0)),
            row(1, 6, 0, counts(1, 1_000_000, 0, 0)),
            row(3, 5, 1, counts(1, 500_000, 0, 0)),
            row(4, 0, 0, counts(0, 0, 900, 450)),
        ],
        timed: vec![
            timed(1_000_000, 0, 0, 0, 5_000_000),
            timed(1_000_000, 0, 1, 0, 2_000_000),
            timed(2_000_000, 1, 2, 0, 1_500_001),
            timed(3_000_000, 2, 3, 0, 1_000_000),
            timed(4_000_000, 2, 4, 0, 1_000_000),
            timed(5_000_000, 1, 6, 0, 1_000_000),
            timed(5_000_000, 3, 5, 1, 500_000),
        ],
    }
}

const TOTAL: u64 = 12_000_001;

/// The version in a snapshot would change with every release.
fn settled(text: &str) -> String {
    text.replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

fn callgrind() -> String {
    let mut out = String::new();
    callgrind::write(&mut out, &table()).unwrap();
    out
}

#[test]
fn callgrind_has_code_and_data() {
    insta::assert_snapshot!(settled(&callgrind()));
}

/// Lines of cost that stand for no call add up to the summary.
#[test]
fn callgrind_adds_up() {
    let (mut sums, mut is_call) = ([0_u64; 4], false);
    for line in callgrind().lines() {
        if line.starts_with(|first: char| first.is_ascii_digit()) {
            let costs = line.split(' ').skip(1).map(|cost| cost.parse::<u64>().unwrap());
            if !is_call {
                sums.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += cost);
            }
        }
        is_call = line.starts_with("calls=");
    }
    assert_eq!(sums, [TOTAL, TOTAL, 900, 450]);
    assert!(callgrind().contains(&format!("summary: {TOTAL} {TOTAL} 900 450\n")));
}

/// `walk` calls itself at one line twice, which costs once, and at another line.
#[test]
fn a_recursion_costs_once_in_callgrind() {
    let text = callgrind();
    let calls: Vec<&str> = text.lines().filter(|line| line.starts_with("50 ")).collect();
    assert_eq!(calls, ["50 2000000 2000000"], "{text}");
}

#[test]
fn collapsed_stacks_end_in_data() {
    let mut out = String::new();
    collapsed::write(&mut out, &table()).unwrap();
    insta::assert_snapshot!(out);
    let sum: u64 = out.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, TOTAL);
}

#[test]
fn a_flame_graph_names_code_and_data() {
    let mut out = String::new();
    flamegraph::write(&mut out, &table()).unwrap();
    let frames: Vec<&str> = out.lines().filter(|line| line.starts_with("<g class=\"frame\"")).collect();
    let title = |line: &str| line.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0.to_owned();
    insta::assert_snapshot!(frames.iter().map(|line| title(line)).collect::<Vec<_>>().join("\n"));
    let size =
        |line: &&str| line.split_once("data-size=\"").unwrap().1.split_once('"').unwrap().0.parse::<f64>().unwrap();
    let at = |depth: usize| frames.iter().filter(move |line| line.contains(&format!("data-depth=\"{depth}\"")));
    assert_eq!(at(0).map(size).sum::<f64>(), 1.0);
    assert!((at(1).map(size).sum::<f64>() - 1.0).abs() < 1e-6);
    assert!(!out.contains('\u{1b}') && out.ends_with("</svg>\n"));
}

fn numbers(values: &Value) -> Vec<u64> {
    values.as_array().unwrap().iter().map(|value| value.as_u64().unwrap()).collect()
}

/// What the schema asks for, and what speedscope's importer checks.
#[test]
fn speedscope_has_a_profile_for_each_thread() {
    let file: Value = serde_json::from_str(&speedscope::json(&table())).unwrap();
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = file["shared"]["frames"].as_array().unwrap();
    assert!(frames.iter().all(|frame| frame["name"].is_string()));
    let mut sum = 0;
    for profile in file["profiles"].as_array().unwrap() {
        assert_eq!((&profile["type"], &profile["unit"]), (&"sampled".into(), &"nanoseconds".into()));
        let (samples, weights) = (profile["samples"].as_array().unwrap(), numbers(&profile["weights"]));
        assert_eq!(samples.len(), weights.len());
        assert!(samples.iter().flat_map(numbers).all(|frame| (frame as usize) < frames.len()));
        let whole: u64 = weights.iter().sum();
        assert_eq!((profile["startValue"].as_u64(), profile["endValue"].as_u64()), (Some(0), Some(whole)));
        sum += whole;
    }
    assert_eq!(sum, TOTAL);
    let name_of = |sample: &Value| {
        let name = |frame: u64| frames[frame as usize]["name"].as_str().unwrap().to_owned();
        numbers(sample).into_iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(name_of(&file["profiles"][0]["samples"][0]), ["main", "drift", "bodies [heap]", "bodies.x"]);
    assert_eq!(file["profiles"][1]["name"], "thread 8");
}

/// Each table has as many rows as it says, and refers to rows that are there.
#[test]
fn firefox_tables_refer_to_each_other() {
    let profile: Value = serde_json::from_str(&firefox::json(&table())).unwrap();
    assert_eq!(profile["meta"]["preprocessedProfileVersion"], 55);
    let threads = profile["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2);
    let mut sum = 0.0;
    for thread in threads {
        let length = |table: &str| thread[table]["length"].as_u64().unwrap();
        for table in ["samples", "frameTable", "funcTable", "stackTable", "resourceTable"] {
            for (column, values) in thread[table].as_object().unwrap().iter().filter(|(_, values)| values.is_array()) {
                assert_eq!(values.as_array().unwrap().len() as u64, length(table), "{table}.{column}");
            }
        }
        let strings = thread["stringArray"].as_array().unwrap().len() as u64;
        for (table, column, rows) in [
            ("samples", "stack", length("stackTable")),
            ("stackTable", "frame", length("frameTable")),
            ("stackTable", "prefix", length("stackTable")),
            ("frameTable", "func", length("funcTable")),
            ("frameTable", "category", 2),
            ("funcTable", "name", strings),
            ("funcTable", "fileName", strings),
            ("resourceTable", "name", strings),
        ] {
            let values = thread[table][column].as_array().unwrap().iter().filter_map(Value::as_u64);
            assert!(values.into_iter().all(|value| value < rows), "{table}.{column}");
        }
        assert_eq!(thread["samples"]["weightType"], "tracing-ms");
        let times: Vec<f64> =
            thread["samples"]["time"].as_array().unwrap().iter().map(|at| at.as_f64().unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
        sum += thread["samples"]["weight"].as_array().unwrap().iter().map(|ms| ms.as_f64().unwrap()).sum::<f64>();
    }
    assert!((sum * 1e6 - TOTAL as f64).abs() < 1e-3, "{sum} ms");
}

/// What `dh_view.js` asks for, and what it takes for a mistake: a stack that is there twice.
#[test]
fn dhat_has_a_point_for_each_structure() {
    let file: Value = serde_json::from_str(&dhat::json(&table())).unwrap();
    for key in ["dhatFileVersion", "mode", "verb", "bklt", "bkacc", "tu", "Mtu", "cmd", "pid", "te", "pps", "ftbl"] {
        assert!(!file[key].is_null(), "{key}");
    }
    assert_eq!((file["dhatFileVersion"].as_u64(), &file["ftbl"][0]), (Some(2), &"[root]".into()));
    assert_eq!(file["bksu"], "blocks (seen)", "sampled numbers say so");
    let points = file["pps"].as_array().unwrap();
    let mut stacks: Vec<_> = points.iter().map(|point| numbers(&point["fs"])).collect();
    let bodies = &points[0];
    assert_eq!([&bodies["tb"], &bodies["tbk"], &bodies["rb"], &bodies["wb"]], [128_000_000, 1, 7200, 3600]);
    let names: Vec<&str> = stacks[0].iter().map(|&frame| file["ftbl"][frame as usize].as_str().unwrap()).collect();
    assert_eq!(names, ["bodies [heap] (struct body)", "main (/src/bodies.c:36)"]);
    stacks.sort();
    stacks.dedup();
    assert_eq!((stacks.len(), points.len()), (1, 1), "nothing is known of how the others are read and written");
}

/// A trace has no samples: accesses are its cost, and no word of what was seen.
#[test]
fn accesses_of_a_trace_are_exact() {
    let mut table = table();
    table.run = Run { unit: CostUnit::Accesses, is_exact: true, ..Run::default() };
    let mut out = String::new();
    callgrind::write(&mut out, &table).unwrap();
    assert!(out.contains("events: accesses data_accesses loads stores\n"), "{out}");
    let file: Value = serde_json::from_str(&dhat::json(&table)).unwrap();
    assert!(file["bsu"].is_null() && file["tu"] == "accesses", "{file}");
    let file: Value = serde_json::from_str(&speedscope::json(&CostTable { timed: Vec::new(), ..table })).unwrap();
    assert_eq!(file["profiles"][0]["unit"], "none");
}

/// A session without samples is a file without costs.
#[test]
fn nothing_is_no_error() {
    let table = CostTable::default();
    let mut out = String::new();
    callgrind::write(&mut out, &table).unwrap();
    flamegraph::write(&mut out, &table).unwrap();
    collapsed::write(&mut out, &table).unwrap();
    for json in [speedscope::json(&table), firefox::json(&table), dhat::json(&table)] {
        serde_json::from_str::<Value>(&json).unwrap();
    }
}
