//! `slimline advise TRACE`: loads that are prefetched.

use std::fs;

use serde_json::Value;

use super::advise::{MACHINE, TRACE};
use super::traced::{json, slimline, traced_so};

/// Elements of a line each, more than the cache has, and computing of which the memory is near: more than a core looks ahead over.
const PICKED: &str = r#"
#include <stdlib.h>
enum { N = 2048 };
struct line { long value, rest[7]; } lines[N];
struct item { struct item *next; long value, rest[6]; } items[N];
unsigned picks[N], others[N];
long near[8], found, few = 3;
__attribute__((noinline)) static void computed(long value) {
    for (int k = 0; k < 80; k++) near[k & 7] += value;
}
__attribute__((noinline)) static void picked(void) {
LOOPS
}
int main(void) {
    unsigned random = 1;
    for (unsigned i = 0; i < N; i++) picks[i] = others[i] = i;
    for (unsigned i = N - 1; i > 0; i--) {
        random = random * 1664525 + 1013904223;
        unsigned at = (random >> 8) % i, kept = picks[i];
        picks[i] = picks[at], picks[at] = kept;
        others[i] = (random >> 16) % N;
    }
    for (unsigned i = 0; i < N; i++) items[picks[i]].next = i > 0 ? &items[picks[i - 1]] : NULL;
    for (int pass = 0; pass < 3; pass++) picked();
    return found == 1;
}
"#;

/// What is said of prefetches, and where the trace is.
fn advised(loops: &str) -> (Value, tempfile::TempDir) {
    let directory = traced_so(&PICKED.replace("LOOPS", loops), &[]);
    fs::write(directory.path().join("small.toml"), MACHINE).unwrap();
    let report = json(directory.path(), &[&["advise"], &TRACE[..]].concat());
    (report["prefetches"].clone(), directory)
}

/// What is said of loads of `lines`; none where nothing is.
fn of_lines(report: &Value) -> Option<&Value> {
    report["loads"].as_array().unwrap().iter().find(|of| of["data"] == "lines")
}

#[test]
fn what_an_index_leads_to_is_asked_for_ahead() {
    let gather =
        "    for (int i = 0; i < N; i++) {\n        computed(i);\n        found += lines[picks[i]].value;\n    }";
    let (report, directory) = advised(gather);
    let row = of_lines(&report).unwrap_or_else(|| panic!("{report}"));
    assert_eq!(
        (&row["index"], &row["index_bytes"], &row["through"]),
        (&"picks".into(), &4.into(), &Value::Null),
        "{row}"
    );
    let advice = &row["advice"];
    let predicted = |what: &str| advice["predicted"][what].as_f64().unwrap();
    let (low, expected, high) = (predicted("time_ratio_low"), predicted("time_ratio"), predicted("time_ratio_high"));
    assert!(low <= expected && expected <= high && expected < 0.8, "{row}");
    // Four steps of so much computing are longer than memory takes.
    assert_eq!(advice["distance"], 4, "{row}");
    assert_eq!(advice["code"], "if (i + 4 < N) __builtin_prefetch(&lines[picks[i + 4]]);\n");
    assert!(row["at"].as_str().unwrap().ends_with("program.c:14"), "{row}");
    let distances: Vec<u64> =
        row["tried"].as_array().unwrap().iter().map(|of| of["distance"].as_u64().unwrap()).collect();
    assert_eq!(distances, [4, 8, 16, 32, 64]);
    let text = slimline(directory.path(), &[&["advise"], &TRACE[..]].concat());
    assert!(text.contains("\n  Prefetch lines[picks[i]].value 4 steps ahead at program.c:14\n"), "{text}");
    assert!(text.contains("\n      if (i + 4 < N) __builtin_prefetch(&lines[picks[i + 4]]);\n"), "{text}");
}

#[test]
fn an_index_of_an_index_is_asked_for_twice_as_far_ahead() {
    let both = "    for (int i = 0; i < N; i++) {\n        computed(i);\n        found += lines[picks[others[i]]].value;\n    }";
    let (report, _) = advised(both);
    let row = of_lines(&report).unwrap_or_else(|| panic!("{report}"));
    assert_eq!((&row["index"], &row["through"]), (&"others".into(), &"picks".into()), "{row}");
    assert_eq!(
        row["advice"]["code"],
        "if (i + 8 < N) __builtin_prefetch(&picks[others[i + 8]]);\nif (i + 4 < N) __builtin_prefetch(&lines[picks[others[i + 4]]]);\n"
    );
}

/// A hash of a key that goes by a stride.
#[test]
fn what_is_computed_of_an_index_is_asked_for() {
    let lookup = "    for (unsigned i = 0; i < N; i++) {\n        computed(i);\n        unsigned at = others[i] * 2654435769u >> 21;\n        \
                  found += lines[at].value;\n    }";
    let (report, _) = advised(lookup);
    let row = of_lines(&report).unwrap_or_else(|| panic!("{report}"));
    assert_eq!(
        row["advice"]["code"], "if (i + 4 < N) __builtin_prefetch(&lines[(others[i + 4] * 2654435769u >> 21)]);\n",
        "{row}"
    );
}

#[test]
fn what_the_caches_hold_is_left_alone() {
    let near = "    for (int i = 0; i < N; i++) found += lines[picks[i] & 15].value;";
    let (report, _) = advised(near);
    let row = of_lines(&report).unwrap_or_else(|| panic!("{report}"));
    assert!(row["advice"].is_null() && row["reason"].is_string(), "{row}");
}

/// Rows of three steps, which begin anywhere.
#[test]
fn loops_that_end_before_are_left_alone() {
    let short = "    for (int i = 0, row = 7; i < N; i++, row = (row * 5 + 3) % (N - 3)) {\n        computed(i);\n        \
                 for (int k = row; k < row + few; k++) found += lines[picks[k]].value;\n        near[1] = row;\n    }";
    let (report, _) = advised(short);
    let row = of_lines(&report).unwrap_or_else(|| panic!("{report}"));
    assert_eq!((&row["mean_trip_count"], &row["crosses_ends"]), (&3.0.into(), &false.into()), "{row}");
    assert!(row["advice"].is_null(), "{row}");
}

/// The same rows, one behind the other.
#[test]
fn rows_of_a_matrix_are_asked_for_across_their_ends() {
    let rows = "    for (int i = 0; i < N / 3; i++) {\n        computed(i);\n        \
                for (int k = i * few; k < i * few + few; k++) found += lines[picks[k]].value;\n        near[1] = i;\n    }";
    let (report, directory) = advised(rows);
    let row = of_lines(&report).unwrap_or_else(|| panic!("{report}"));
    assert_eq!((&row["mean_trip_count"], &row["crosses_ends"]), (&3.0.into(), &true.into()), "{row}");
    let distance = row["advice"]["distance"].as_u64().unwrap_or_else(|| panic!("{row}"));
    assert_eq!(row["advice"]["code"], format!("__builtin_prefetch(&lines[picks[k + {distance}]]);\n"));
    let text = slimline(directory.path(), &[&["advise"], &TRACE[..]].concat());
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = format!(
        "picks is loaded {distance} steps ahead, and the loop has 3.0 steps on average, behind which picks goes on"
    );
    assert!(words.contains(&said), "{text}");
}

/// A loop that nothing is accessed around, as each time through it is a call.
#[test]
fn loops_whose_ends_are_not_known_are_told_so() {
    let source =
        "    for (int i = 0; i < N; i++) {\n        computed(i);\n        found += lines[picks[i]].value;\n    }";
    let (report, _) = advised(source);
    let row = of_lines(&report).unwrap_or_else(|| panic!("{report}"));
    assert_eq!(row["mean_trip_count"], Value::Null, "{row}");
    let caution = row["advice"]["cautions"][0].as_str().unwrap();
    assert!(caution.contains("how many steps the loop has the trace does not tell"), "{caution}");
}

#[test]
fn a_chase_is_told_as_one() {
    let chase = "    for (struct item *item = &items[picks[N - 1]]; item; item = item->next) found += item->value;";
    let (report, directory) = advised(chase);
    assert_eq!(report["chase"]["data"], "item", "{report}");
    assert!(report["chase"]["share"].as_f64().unwrap() > 0.3, "{report}");
    assert!(report["loads"].as_array().unwrap().iter().all(|of| of["advice"].is_null()), "{report}");
    let text = slimline(directory.path(), &[&["advise"], &TRACE[..]].concat());
    assert!(text.contains("  Chase through item at program.c:12 ("), "{text}");
}
