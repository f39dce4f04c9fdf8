//! `slimline advise TRACE`: arrays that become one.

use std::fs;

use serde_json::{Value, json};

use super::advise::{MACHINE, TRACE};
use super::traced::{json as report_of, slimline, traced};

/// Three arrays of as many elements, and one that is longer; what is done `BEFORE` a `LOOP` runs twenty times.
const POINTS: &str = r#"
#include <stdlib.h>
enum { N = 4096 };
static double x[N];
static int group[N];
double *y, *far;
static void fill(double *values, long n) {
    for (long i = 0; i < n; i++) values[i] = (double)(i % 7);
}
int by_value(const void *a, const void *b) { return *(const double *)a > *(const double *)b; }
int main(void) {
    y = calloc(N, sizeof *y);
    far = calloc(N + 64, sizeof *far);
    BEFORE
    fill(x, N);
    fill(y, N);
    for (int i = 0; i < N; i++) group[i] = i % 3;
    double sum = 0;
    for (int pass = 0; pass < 20; pass++) {
        LOOP
    }
    return sum == 1;
}
"#;

/// At random, all of an element.
const LOOK_UP: &str =
    "for (int i = 0, j = pass; i < N; i++, j = (i * 1103 + pass) % N) sum += x[j] * y[j] + group[j] + far[j + 64];";

/// What is said of arrays in a program that does this.
fn advised(before: &str, each_pass: &str) -> (Value, Value, tempfile::TempDir) {
    let directory = traced(&POINTS.replace("BEFORE", before).replace("LOOP", each_pass));
    fs::write(directory.path().join("small.toml"), MACHINE).unwrap();
    let report = report_of(directory.path(), &[&["advise"], &TRACE[..]].concat());
    let arrays = report["structures"].as_array().unwrap().iter().find(|of| of["is_columns"] == true).cloned();
    (arrays.unwrap_or_else(|| panic!("{report}")), report, directory)
}

fn names(fields: &Value) -> Vec<&str> {
    fields.as_array().unwrap().iter().map(|field| field["name"].as_str().unwrap()).collect()
}

#[test]
fn arrays_that_are_looked_up_together_become_one() {
    let (arrays, _, directory) = advised("", LOOK_UP);
    let names = names(&arrays["fields"]);
    assert!(names.contains(&"x") && names.contains(&"y") && names[2] == "group" && names.len() == 3, "{arrays}");
    let advice = &arrays["advice"];
    assert_eq!(advice["change"], "merge", "{arrays}");
    let one: Vec<&Value> = advice["parts"][0].as_array().unwrap().iter().collect();
    assert_eq!((one.len(), advice["parts"].as_array().unwrap().len()), (3, 1), "{advice}");
    let code = advice["code"].as_str().unwrap();
    for line in ["    double x;\n", "    double y;\n", "    int group;\n", "x[i] becomes"] {
        assert!(code.contains(line), "{code}");
    }
    // Of four lines that each look-up loaded it loads two.
    let lines = advice["predicted"]["memory_lines_ratio"].as_f64().unwrap();
    assert!((0.3..0.7).contains(&lines), "{advice}");
    let touched = advice["touched_lines"].as_array().unwrap();
    assert!(touched.iter().any(|line| line.as_str().unwrap().ends_with(":20")), "{touched:?}");
    assert_eq!(advice["cautions"], json!([]));

    let text = slimline(directory.path(), &[&["advise"], &TRACE[..]].concat());
    assert!(text.contains("\n  Make one array of structures of the arrays {"), "{text}");
    assert!(text.contains(": 4,096 elements each, 20 bytes together, 80.0 KiB in all"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

/// `qsort` is not traced: what it gets stays an array of its own.
#[test]
fn what_untraced_code_gets_stays_apart() {
    let (arrays, ..) = advised("fill(y, N); qsort(y, N, sizeof *y, by_value);", LOOK_UP);
    let advice = &arrays["advice"];
    let parts: Vec<Vec<String>> = serde_json::from_value(advice["parts"].clone()).unwrap();
    let is_one = |part: &Vec<String>| *part == ["x", "group"];
    assert!(parts.len() == 2 && parts.iter().any(is_one), "{advice}");
    let caution = advice["cautions"][0].as_str().unwrap();
    assert!(caution.starts_with("code that is not traced gets the address of one of its arrays"), "{caution}");
    assert!(caution.ends_with("program.c:14"), "{caution}");
}

/// What grows may have another number of elements.
#[test]
fn what_grows_is_not_looked_at() {
    let (arrays, ..) = advised("y = realloc(y, N * sizeof *y);", LOOK_UP);
    assert_eq!(names(&arrays["fields"]), ["x", "group"]);
}

/// Loops that go along arrays one by one, or along all of them in order, gain nothing.
#[test]
fn arrays_are_left_alone() {
    let one_by_one = "for (int i = 0; i < N; i++) sum += x[(i * 1103) % N];\n\
                      for (int i = 0; i < N; i++) sum += y[(i * 1103) % N];\n\
                      for (int i = 0; i < N; i++) sum += group[(i * 1103) % N];";
    let (apart, ..) = advised("", one_by_one);
    assert_eq!((&apart["advice"], &apart["tried"]), (&Value::Null, &json!([])));
    assert_eq!(apart["reason"], "no two of them are used together by most who use either");
    let (in_order, ..) = advised("", "for (int i = 0; i < N; i++) sum += x[i] * y[i] + group[i];");
    assert!(in_order["advice"].is_null() && !in_order["tried"].as_array().unwrap().is_empty(), "{in_order}");
}
