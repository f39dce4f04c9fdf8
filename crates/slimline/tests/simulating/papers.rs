//! Programs shaped like the case studies of MACPO (ICPP 2012): the diagnosis names the data, its strides and what to change,
//! and a second variant of each program, where that was done, costs what was predicted.

use serde_json::Value;

use super::traced::{json, named, slimline, traced_with};

/// A column of 256 elements has more lines than the first level, and rows of all arrays fit there.
const MACHINE: &str = r#"
name = "narrow"
cache = [
    { name = "L1", level = 1, holds = "data", size = "8 KiB", line = 64, ways = 8, latency = 2 },
    { name = "L2", level = 2, size = "128 KiB", line = 64, ways = 8, latency = 12 },
]
memory = [{ name = "memory", latency = 150 }]
"#;

/// What `reuse` tells of a variant of a program, as JSON and as text.
fn reuse(program: &str, arguments: [&str; 2]) -> (Value, String) {
    let directory = traced_with(program, &arguments);
    std::fs::write(directory.path().join("narrow.toml"), MACHINE).unwrap();
    let ask = ["reuse", "run.trace", "--machine", "narrow.toml"];
    (json(directory.path(), &ask), slimline(directory.path(), &ask))
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row}"))
}

/// Mean cycles of what one line of code does to some data.
fn cycles_at(report: &Value, data: &str, line: &Value) -> f64 {
    let pairs = named(&report["data"], data)["pairs"].as_array().unwrap();
    let of_line = pairs.iter().filter(|pair| pair["reuse_line"] == *line);
    let (cycles, count) = of_line.fold((0.0, 0.0), |(cycles, count), pair| {
        let n = number(pair, "count");
        (cycles + n * number(pair, "cycles_per_access"), count + n)
    });
    assert!(count > 0.0, "nothing at {line} of {data}");
    cycles / count
}

/// The line of the program that has this text.
fn line_of(program: &str, text: &str) -> usize {
    program.lines().position(|line| line.contains(text)).expect("is there") + 1
}

/// Asserts that the loops around these lines are to be exchanged, and that it is as good as predicted where they are.
fn is_to_be_interchanged(program: &str, passes: &str, strides: [i64; 2], places: &[(&str, &str, &str)]) {
    let (now, text) = reuse(program, [passes, "1"]);
    let (then, of_then) = reuse(program, [passes, "2"]);
    for (data, code, call) in places {
        let walks = named(&now["data"], data)["walks"].as_array().unwrap();
        let line = line_of(program, code);
        let row = walks
            .iter()
            .find(|row| row["line"] == line && row["inner_bytes"] == strides[0])
            .unwrap_or_else(|| panic!("{line} of {data}: {walks:?}"));
        assert_eq!((&row["change"], &row["outer_bytes"]), (&"interchange".into(), &strides[1].into()));
        // What is inlined has its loops where it is called.
        assert_eq!(row["called_in_line"], line_of(program, call));
        let before = cycles_at(&now, data, &row["line"]);
        let predicted = number(row, "predicted_cycles_per_access");
        let after = cycles_at(&then, data, &row["line"]);
        assert!(after < before * 0.7, "{data} at {line}: {before} to {after}");
        assert!((predicted / after - 1.0).abs() < 0.15, "{data} at {line}: {before} to {after}: {row}");
    }
    let (_, _, call) = places[0];
    assert!(text.contains(&format!("(inlined at line {})", line_of(program, call))), "{text}");
    assert!(text.contains("interchange these two:") && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!of_then.contains("interchange these two"), "{of_then}");
}

#[test]
fn inverted_loops_over_an_image() {
    const SRAD: &str = include_str!("../../../../programs/c/srad.c");
    let places = [
        ("image", "float here =", "differ(row, column);"),
        ("north", "north[row][column] = up", "differ(row, column);"),
        ("coefficient", "float down =", "flatten(row, column);"),
    ];
    is_to_be_interchanged(SRAD, "3", [1024, 4], &places);
}

#[test]
fn weights_down_their_columns() {
    const BACKPROP: &str = include_str!("../../../../programs/c/backprop.c");
    let places = [
        ("w", "w[below * WIDTH + above] += change", "adjust(w, oldw, below, above);"),
        ("oldw", "float change =", "adjust(w, oldw, below, above);"),
    ];
    is_to_be_interchanged(BACKPROP, "3", [1028, 4], &places);
}

#[test]
fn a_table_by_diagonals() {
    const NEEDLEMAN: &str = include_str!("../../../../programs/c/needleman.c");
    let places = [("reference", "int both =", "(step + 1) * WIDTH")];
    is_to_be_interchanged(NEEDLEMAN, "3", [1024, 4], &places);
}

#[test]
fn searches_that_begin_again() {
    const PARTICLE_FILTER: &str = include_str!("../../../../programs/c/particle_filter.c");
    let (now, text) = reuse(PARTICLE_FILTER, ["1024", "1"]);
    let (then, of_then) = reuse(PARTICLE_FILTER, ["1024", "2"]);
    let cdf = named(&now["data"], "CDF");
    let [row] = &cdf["walks"].as_array().unwrap()[..] else { panic!("{cdf}") };
    assert_eq!((&row["change"], &row["inner_bytes"], &row["outer_bytes"]), (&"go_on".into(), &8.into(), &0.into()));
    assert_eq!(row["line"], line_of(PARTICLE_FILTER, "CDF[at] >= number"));
    let of_line = |report: &Value| {
        let pairs = named(&report["data"], "CDF")["pairs"].as_array().unwrap().iter();
        pairs.filter(|pair| pair["reuse_line"] == row["line"]).map(|pair| number(pair, "count")).sum::<f64>()
    };
    let (before, after) = (of_line(&now), of_line(&then));
    // The compiler has an instruction of its own for the first element of each search.
    let told = number(row, "accesses");
    assert!(after < before / 100.0 && told <= before && told > before * 0.99, "{before} to {after}: {row}");
    assert!((number(row, "predicted_accesses") / after - 1.0).abs() < 0.01, "{after}: {row}");
    assert!(text.contains("begin where the last search ended"), "{text}");
    assert!(!of_then.contains("begin where the last search ended"), "{of_then}");
}

/// What `share` tells of a variant of a program of four threads.
fn share(program: &str, variant: &str) -> (Value, String) {
    let directory = traced_with(program, &["2000", variant]);
    let ask = ["share", "run.trace", "--machine", "four.toml"];
    (json(directory.path(), &ask), slimline(directory.path(), &ask))
}

fn rows<'a>(report: &'a Value, name: &str) -> Vec<&'a Value> {
    let rows = report[name].as_array().unwrap().iter();
    // The threads' barrier and the program's settings are shared as well.
    rows.filter(|row| ["packed", "padded", "statistics"].contains(&row["variable"].as_str().unwrap_or("packed")))
        .collect()
}

#[test]
fn counters_packed_in_one_line() {
    const COUNTERS: &str = include_str!("../../../../programs/c/packed_counters.c");
    let (packed, text) = share(COUNTERS, "1");
    let [row] = rows(&packed, "falsely_shared")[..] else { panic!("{packed}") };
    assert_eq!((&row["lines"], &row["apart_bytes"]), (&1.into(), &8.into()));
    let sides = row["sides"].as_array().unwrap();
    assert!(sides.iter().all(|side| side["variable"] == "packed"), "{row}");
    let line = line_of(COUNTERS, "packed.count[own]++");
    assert!(sides.iter().flat_map(|side| side["code"].as_array().unwrap()).any(|code| code["line"] == line), "{row}");
    assert!(row["fix"].as_str().unwrap().contains("pad each to 64 bytes"), "{row}");
    assert!(text.contains("pad each to 64 bytes"), "{text}");
    let (padded, _) = share(COUNTERS, "2");
    assert!(rows(&padded, "falsely_shared").is_empty(), "{padded}");
    // The first thread adds them up at the end.
    let misses = |row: &Value| number(&row["total"], "true_misses") + number(&row["total"], "false_misses");
    let left: f64 = rows(&padded, "shared").into_iter().map(misses).sum();
    assert!(left <= 4.0 && misses(row) > 100.0, "{row} {padded}");
}

#[test]
fn statistics_that_all_threads_add_to() {
    const STATISTICS: &str = include_str!("../../../../programs/c/statistics.c");
    let (shared, text) = share(STATISTICS, "1");
    let [row] = rows(&shared, "shared")[..] else { panic!("{shared}") };
    assert_eq!((&row["variable"], &row["uniform"], &row["writers"]), (&"statistics".into(), &true.into(), &4.into()));
    assert!(row["field"].as_str().unwrap().ends_with("requests"), "{row}");
    let threads = row["threads"].as_array().unwrap();
    assert_eq!(threads.iter().filter(|thread| thread["stores"] == 2000).count(), 4, "{row}");
    let line = line_of(STATISTICS, "statistics.requests += 1;");
    assert!(row["code"].as_array().unwrap().iter().any(|code| code["line"] == line), "{row}");
    assert!(text.contains(&format!("program.c:{line}")), "{text}");
    let (own, _) = share(STATISTICS, "2");
    let misses = |row: &Value| row["total"]["true_misses"].as_u64().unwrap();
    let left: u64 = rows(&own, "shared").into_iter().map(misses).sum();
    assert!(left <= 4 && misses(row) > left, "{own}");
}
