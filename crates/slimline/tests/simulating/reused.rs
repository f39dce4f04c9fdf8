//! `slimline reuse`: distances of a program that are known.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::traced::{GRID, json, named, slimline, traced};

/// What a line of the grid's program is: a line of the grid, or of the sums.
type Line = (bool, usize);

/// The lines that the grid's program accesses, one after the other.
fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    for by_rows in [true, false] {
        for outer in 0..64 {
            for inner in 0..64 {
                let (row, column) = if by_rows { (outer, inner) } else { (inner, outer) };
                lines.push((true, (row * 64 + column) / 8));
            }
            lines.push((false, outer / 8));
        }
    }
    lines
}

/// First uses, and how many accesses have which distance, by their definition.
fn distances(is_grid: bool) -> (u64, BTreeMap<usize, u64>) {
    let all = lines();
    let mut last: BTreeMap<Line, usize> = BTreeMap::new();
    let (mut first, mut distances) = (0, BTreeMap::new());
    for (at, line) in all.iter().enumerate() {
        let before = last.insert(*line, at);
        match before {
            _ if line.0 != is_grid => {}
            None => first += 1,
            Some(before) => {
                let between: BTreeSet<Line> = all[before + 1..at].iter().copied().collect();
                *distances.entry(between.len()).or_insert(0) += 1;
            }
        }
    }
    (first, distances)
}

#[test]
fn distances_are_those_of_the_definition() {
    let directory = traced(GRID);
    let report = json(directory.path(), &["reuse", "run.trace", "--machine", "full.toml"]);
    assert_eq!((&report["lines"], &report["sampled"]), (&520.into(), &Value::Null));
    for (name, is_grid) in [("grid", true), ("sums", false)] {
        let row = named(&report["data"], name);
        let (first, distances) = distances(is_grid);
        let count: u64 = distances.values().sum();
        let sum: u64 = distances.iter().map(|(distance, count)| *distance as u64 * count).sum();
        assert_eq!((&row["count"], &row["first_uses"]), (&(first + count).into(), &(first as f64).into()));
        let average = row["average_distance"].as_f64().unwrap();
        assert!((average - sum as f64 / count as f64).abs() < 1e-9, "{name}: {average}");
        for size in row["miss_ratios"].as_array().unwrap() {
            let lines = size["bytes"].as_u64().unwrap() as usize / 64;
            let misses =
                first + distances.iter().filter(|(distance, _)| **distance >= lines).map(|(_, n)| n).sum::<u64>();
            let ratio = misses as f64 / (first + count) as f64;
            // Buckets are narrower than 1/32 of what they hold.
            assert!(size["ratio"].as_f64().unwrap() >= ratio - 1e-9, "{name} {lines}: {size} {ratio}");
            if lines <= 64 {
                assert!((size["ratio"].as_f64().unwrap() - ratio).abs() < 1e-9, "{name} {lines}: {size} {ratio}");
            }
        }
    }
    let grid = named(&report["data"], "grid");
    assert_eq!(grid["simulated"]["strides"][0]["bytes"], 8);
    let pairs = grid["pairs"].as_array().unwrap();
    let pair = |before: Option<u64>, line: u64| {
        let found = pairs.iter().find(|pair| pair["use_line"].as_u64() == before && pair["reuse_line"] == line);
        found.map(|pair| (pair["count"].as_u64().unwrap(), pair["cause"].as_str().map(str::to_owned)))
    };
    // Columns: more lines between than the first level holds.
    assert_eq!(pair(Some(17), 17), Some((3584, Some("capacity".to_owned()))));
    assert_eq!(pair(Some(9), 17), Some((512, Some("capacity".to_owned()))));
    assert_eq!(pair(Some(9), 9), Some((3584, None)));
    assert_eq!(pair(None, 9), Some((512, Some("first_use".to_owned()))));
    let text = slimline(directory.path(), &["reuse", "run.trace", "--machine", "full.toml"]);
    assert!(text.contains("waits most for") && text.lines().all(|line| line.chars().count() <= 100), "{text}");

    let sampled = json(directory.path(), &["reuse", "run.trace", "--machine", "full.toml", "--sampled", "100"]);
    assert!(sampled["sampled"].as_f64().unwrap() < 0.5, "{}", sampled["sampled"]);
    assert_eq!(
        (&named(&sampled["data"], "grid")["count"], &sampled["total"]["simulated"]),
        (&8192.into(), &Value::Null)
    );
    let exact = report["total"]["miss_ratios"]
        .as_array()
        .unwrap()
        .iter()
        .zip(sampled["total"]["miss_ratios"].as_array().unwrap());
    for (exact, sampled) in exact {
        let [least, most] = [0, 1].map(|end| sampled["interval"][end].as_f64().unwrap());
        // Of twice the width, as one in twenty is outside of it: which lines are sampled depends on where the program lies.
        let beyond = (most - least) / 2.0;
        assert!((least - beyond..=most + beyond).contains(&exact["ratio"].as_f64().unwrap()), "{exact} {sampled}");
    }
}

/// Elements of 64 bytes, walked by a loop that the compiler unrolls four times, forwards and backwards.
const UNROLLED: &str = r#"
#include <stdlib.h>
struct element { volatile long x, y, rest[6]; };
enum { N = 1024 };
__attribute__((noinline)) static long forwards(struct element *a, int n) {
    long sum = 0;
#pragma clang loop unroll_count(4)
    for (int i = 0; i < n; i++) sum += a[i].x + a[i].y;
    return sum;
}
__attribute__((noinline)) static void backwards(struct element *b, int n) {
#pragma clang loop unroll_count(4)
    for (int i = n - 1; i >= 0; i--) b[i].y = i;
}
/* Two neighbors half a stride apart, as in a fast Fourier transform: not what unrolling makes. */
__attribute__((noinline)) static long halves(volatile long *c, int n, int m) {
    long sum = 0;
    for (int i = 0; i < m / 2; i++) {
#pragma clang loop unroll(disable)
        for (int k = i; k < n; k += m) sum += c[k] + c[k + m / 2];
    }
    return sum;
}
int main(void) {
    struct element *a = aligned_alloc(64, N * sizeof *a), *b = aligned_alloc(64, N * sizeof *b);
    long *c = aligned_alloc(64, N * sizeof *c);
    for (int pass = 0; pass < 3; pass++) {
        forwards(a, N);
        backwards(b, N);
        halves(c, N, 32);
    }
    free(a);
    free(b);
    free(c);
    return 0;
}
"#;

#[test]
fn unrolled_loops_have_the_strides_that_were_written() {
    let directory = traced(UNROLLED);
    let report = json(directory.path(), &["reuse", "run.trace", "--machine", "full.toml"]);
    // The loop over `c` begins again after 32 accesses.
    for (name, stride, share) in [("a", 64, 0.99), ("b", -64, 0.99), ("c", 256, 0.95)] {
        let strides = named(&report["data"], name)["simulated"]["strides"].as_array().unwrap();
        assert_eq!(strides[0]["bytes"], stride, "{name}: {strides:?}");
        assert!(strides[0]["share"].as_f64().unwrap() > share, "{name}: {strides:?}");
    }
}
