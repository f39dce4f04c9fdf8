//! `slimline share`: a counter that all threads add to, and counters that lie in one line.

use serde_json::Value;

use super::traced::{by_three_threads, counters, json, slimline, traced};

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn misses(row: &Value) -> (u64, u64) {
    let count = |name: &str| row["total"][name].as_u64().unwrap();
    (count("true_misses"), count("false_misses"))
}

#[test]
fn a_statistics_counter_is_uniformly_and_truly_shared() {
    let directory = traced(&by_three_threads(
        "#include <stdatomic.h>\n\
         static struct { long before[8]; atomic_long hits; long behind[7]; } statistics __attribute__((aligned(64)));",
        "statistics.hits += self",
    ));
    let report = json(directory.path(), &["share", "run.trace", "--machine", "four.toml"]);
    assert_eq!(report["falsely_shared"], Value::Array(Vec::new()));
    let [row] = array(&report["shared"]) else { panic!("{report}") };
    assert_eq!((&row["variable"], &row["uniform"], &row["writers"]), (&"statistics".into(), &true.into(), &3.into()));
    assert!(row["field"].as_str().unwrap().ends_with("hits"), "{row}");
    let threads = array(&row["threads"]);
    assert!(threads.len() == 3 && threads.iter().all(|thread| thread["stores"] == 100_000), "{row}");
    assert_eq!((array(&row["code"]).len(), &row["code"][0]["line"]), (1, &4.into()));
    let (true_misses, false_misses) = misses(row);
    // Each of these atomic additions has a time stamp of its own, so their order is the run's. How often the counter really
    // went from core to core is up to the scheduler: once a round and thread where threads ran one after the other.
    assert!(true_misses > 100 && false_misses == 0, "{row}");
    assert!(row["fix"].as_str().unwrap().starts_with("a part for each thread"), "{row}");
}

#[test]
fn counters_in_one_line_are_falsely_shared_until_they_are_apart() {
    let directory = traced(&counters());
    let report = json(directory.path(), &["share", "run.trace", "--machine", "four.toml"]);
    assert_eq!(report["shared"], Value::Array(Vec::new()));
    let [row] = array(&report["falsely_shared"]) else { panic!("{report}") };
    assert_eq!(
        (&row["lines"], &row["apart_bytes"], &row["sides"][0]["variable"]),
        (&1.into(), &8.into(), &"packed".into())
    );
    let (true_misses, false_misses) = misses(row);
    assert!(true_misses == 0 && false_misses > 1000, "{row}");
    assert!(row["fix"].as_str().unwrap().contains("pad each to 64 bytes"), "{row}");
    let text = slimline(directory.path(), &["share", "run.trace", "--machine", "four.toml"]);
    assert!(text.contains("packed") && text.lines().all(|line| line.chars().count() <= 100), "{text}");

    let apart = counters().replace("volatile long count[4];", "struct { volatile long of; long pad[7]; } count[4];");
    let directory = traced(&apart.replace("count[self]++", "count[self].of++"));
    let report = json(directory.path(), &["share", "run.trace", "--machine", "four.toml"]);
    assert_eq!((array(&report["shared"]).len(), array(&report["falsely_shared"]).len()), (0, 0), "{report}");
}

#[test]
fn who_adds_up_at_the_end_shares_nothing() {
    // A member for each of two threads; the third thread has none. Main clears both, and reads them when all have ended.
    let source = by_three_threads(
        "static struct { long a, b; } c __attribute__((aligned(64)));",
        "*(volatile long *)(self == 0 ? &c.a : self == 1 ? &c.b : &self) += 1",
    );
    let read = "*(volatile long *)&c.a + *(volatile long *)&c.b > 0 ? 0 : 1";
    let source = source
        .replace("pthread_t threads[3];", "pthread_t threads[3]; *(volatile long *)&c.a = *(volatile long *)&c.b = 0;")
        .replace("    return 0;\n", &format!("    return {read};\n"));
    let directory = traced(&source);
    let report = json(directory.path(), &["share", "run.trace", "--machine", "four.toml"]);
    let of_c = |name: &str| {
        let is_c = |row: &&Value| row.to_string().contains("program.c") && row.to_string().contains("\"c");
        array(&report[name]).iter().filter(is_c).cloned().collect::<Vec<_>>()
    };
    assert!(of_c("shared").is_empty(), "{report}");
    let [row] = &of_c("falsely_shared")[..] else { panic!("{report}") };
    assert_eq!((&row["lines"], &row["apart_bytes"]), (&1.into(), &8.into()));
    let threads: Vec<u64> = array(&row["sides"])
        .iter()
        .flat_map(|side| array(&side["threads"]))
        .map(|thread| thread["stores"].as_u64().unwrap())
        .collect();
    assert_eq!(threads, [100_000, 100_000], "{row}");
}
