//! `slimline advise TRACE`: loops in other orders.

use std::fs;

use serde_json::{Value, json};

use super::advise::{MACHINE, TRACE};
use super::traced::{json as report_of, slimline, traced_so};

/// Rows of two KiB, with a line between them so that no set of a cache gets all of a column, which are gone through as `LOOPS` say, four times over.
const MATRICES: &str = r#"
#include <stdlib.h>
enum { N = 256 };
double from[N][N + 8], to[N][N + 8], sums[N];
__attribute__((noinline)) static void gone_through(void) {
LOOPS
}
int main(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) from[i][j] = to[i][j] = i + j;
    for (int pass = 0; pass < 4; pass++) gone_through();
    return to[3][4] < 0 || sums[5] < 0;
}
"#;

/// What is said of loops, and where the trace is. Of two lines the loops begin in 6 and 7.
fn advised(loops: &str, options: &[&str]) -> (Value, tempfile::TempDir) {
    let directory = traced_so(&MATRICES.replace("LOOPS", loops), options);
    fs::write(directory.path().join("small.toml"), MACHINE).unwrap();
    let report = report_of(directory.path(), &[&["advise"], &TRACE[..]].concat());
    (report["loops"].clone(), directory)
}

const TRANSPOSED: &str =
    "    for (int i = 0; i < N; i++)\n        for (int j = 0; j < N; j++)\n            to[i][j] = from[j][i];";

#[test]
fn columns_are_gone_through_by_rows() {
    let sums = "    for (int j = 0; j < N; j++) {\n        double sum = 0;\n        \
                for (int i = 0; i < N; i++) sum += from[i][j];\n        sums[j] = sum;\n    }";
    let (loops, _) = advised(sums, &[]);
    let [row] = loops.as_array().unwrap().as_slice() else { panic!("{loops}") };
    assert_eq!((&row["function"], &row["loop_lines"]), (&"gone_through".into(), &json!([6, 8])));
    assert_eq!((&row["inner_times"], &row["outer_times"]), (&256.into(), &256.into()));
    let sum =
        json!({ "data": "sums", "kind": "store", "at": row["walks"][1]["at"], "inner_bytes": null, "outer_bytes": 8 });
    assert_eq!((&row["walks"][0]["inner_bytes"], &row["walks"][1]), (&2112.into(), &sum));
    let advice = &row["advice"];
    assert_eq!((&advice["change"], &advice["tile"]), (&"interchange".into(), &Value::Null));
    assert_eq!(advice["code"], "for (int i = 0; i < N; i++)\n    for (int j = 0; j < N; j++)\n");
    // An eighth of the lines of the matrix, beside the loop that sets it: once 65536 accesses, of which an eighth are lines, for each matrix.
    let lines = advice["predicted"]["memory_lines_ratio"].as_f64().unwrap();
    assert!((0.15..0.25).contains(&lines), "{advice}");
    let predicted = |what: &str| advice["predicted"][what].as_f64().unwrap();
    let (low, expected, high) = (predicted("time_ratio_low"), predicted("time_ratio"), predicted("time_ratio_high"));
    assert!(low <= expected && expected <= high && expected < 0.8, "{advice}");
    let cautions = advice["cautions"].to_string();
    assert!(cautions.contains("(sums) must then be set before the loops"), "{cautions}");
}

/// Rows of a product, added up.
#[test]
fn the_inner_two_of_three_loops_are_exchanged() {
    let product = "    for (int i = 0; i < 4; i++)\n        for (int j = 0; j < N; j++)\n            for (int k = 0; k < N; k++)\n                \
                   sums[j] += from[i][k] * from[k][j];";
    let (loops, directory) = advised(product, &[]);
    let [row] = loops.as_array().unwrap().as_slice() else { panic!("{loops}") };
    assert_eq!((&row["inner_times"], &row["outer_times"]), (&256.into(), &256.into()), "{row}");
    // Which two of the three it is, their place does not tell.
    let advice = &row["advice"];
    assert_eq!(
        (&advice["change"], &row["loop_lines"], &advice["code"]),
        (&"interchange".into(), &Value::Null, &Value::Null),
        "{row}"
    );
    let predicted = |what: &str| advice["predicted"][what].as_f64().unwrap();
    assert!(predicted("time_ratio_high") < 1.0 && predicted("time_ratio") < 0.7, "{advice}");
    let text = slimline(directory.path(), &[&["advise"], &TRACE[..]].concat());
    assert!(text.contains("\n  Exchange the two innermost loops of gone_through around program.c:9\n"), "{text}");
    // Where steps store to what others load by columns, they keep their order.
    let (loops, _) = advised(&product.replace("sums[j]", "from[i][j]"), &[]);
    assert_eq!(loops[0]["advice"], Value::Null, "{loops}");
    assert!(loops[0]["reason"].as_str().unwrap().contains("not by the same strides"), "{loops}");
}

#[test]
fn what_goes_both_ways_is_tiled() {
    let (loops, directory) = advised(TRANSPOSED, &[]);
    let row = &loops[0];
    let advice = &row["advice"];
    assert_eq!(advice["change"], "tile", "{row}");
    let tile = advice["tile"].as_u64().unwrap();
    let code = advice["code"].as_str().unwrap();
    assert!(code.starts_with(&format!("for (int ii = 0; ii < N; ii += {tile})\n")), "{code}");
    let time = |row: &Value| row["time_ratio"].as_f64().unwrap();
    assert_eq!(row["tried"][0]["change"], "interchange", "{row}");
    assert!(time(advice) < 0.7 * time(&row["tried"][0]), "{row}");
    let text = slimline(directory.path(), &[&["advise"], &TRACE[..]].concat());
    assert!(text.contains(&format!("\n  Tile the loops of gone_through at program.c:6 and 7 by {tile}\n")), "{text}");
    assert!(text.contains("      for (int ii = 0; ii < N;"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let page = slimline(directory.path(), &[&["advise"], &TRACE[..], &["--format", "html"]].concat());
    assert!(page.contains("Tile the loops of gone_through") && page.contains("Loops in that order"), "{page}");
}

#[test]
fn matrices_are_told_by_their_names() {
    let directory = traced_so(&MATRICES.replace("LOOPS", TRANSPOSED), &[]);
    fs::write(directory.path().join("small.toml"), MACHINE).unwrap();
    let report = report_of(directory.path(), &[&["advise"], &TRACE[..]].concat());
    let rows = report["unstructured"].as_array().unwrap();
    let mut names: Vec<&str> = rows.iter().map(|row| row["data"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["array sums", "from", "to"], "{rows:?}");
    assert!(rows[..2].iter().all(|row| row["object_bytes"] == 256 * 264 * 8), "{rows:?}");
    assert!(rows.iter().all(|row| row["allocated_at"].is_null()), "{rows:?}");
    // Stacks take next to nothing.
    let told: f64 = rows.iter().map(|row| row["share"].as_f64().unwrap()).sum();
    let rest = report["unknown_share"].as_f64().unwrap() - told;
    assert!((-1e-9..0.01).contains(&rest), "{report}");
}

/// As it is compiled by itself, in vectors and unrolled.
#[test]
fn optimized_loops_are_seen_as_they_were_written() {
    let optimized = ["-fvectorize", "-fslp-vectorize", "-funroll-loops"];
    let source = MATRICES.replace("LOOPS", TRANSPOSED);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("program.c"), source).unwrap();
    fs::write(directory.path().join("small.toml"), MACHINE).unwrap();
    slimline(directory.path(), &[&["cc", "-O2", "-g"], &optimized[..], &["-o", "program", "program.c"]].concat());
    slimline(directory.path(), &["trace", "-o", "run.trace", "--", "./program"]);
    let report = report_of(directory.path(), &[&["advise"], &TRACE[..]].concat());
    assert_eq!(report["loops"][0]["advice"]["change"], "tile", "{}", report["loops"]);
}

#[test]
fn loops_that_are_fine_are_left_alone() {
    let copied =
        "    for (int i = 0; i < N; i++)\n        for (int j = 0; j < N; j++)\n            to[i][j] += from[i][j];";
    assert_eq!(advised(copied, &[]).0, json!([]));
}

/// Each element is made of the one above it and to its right.
#[test]
fn steps_that_need_each_other_keep_their_order() {
    let skewed = "    for (int j = 1; j < N - 1; j++)\n        for (int i = 1; i < N; i++)\n            to[i][j] = to[i - 1][j + 1] + from[i][j];";
    let (loops, directory) = advised(skewed, &[]);
    let row = &loops[0];
    assert_eq!(row["advice"], Value::Null, "{row}");
    assert!(row["reason"].as_str().unwrap().contains("need what other steps store to to"), "{row}");
    let text = slimline(directory.path(), &[&["advise"], &TRACE[..]].concat());
    assert!(text.contains("\n  The loops around program.c:8 ("), "{text}");
    // What is made of the one above it, and in its own column, does not mind.
    let straight = skewed.replace("j + 1]", "j]");
    let (loops, _) = advised(&straight, &[]);
    assert_eq!(loops[0]["advice"]["change"], "interchange", "{loops}");
}

/// Rows of the product have a line between them: the sums are not one behind the other.
#[test]
fn a_product_in_rows_with_gaps_is_exchanged() {
    let product = "    for (int i = 0; i < 4; i++)\n        for (int j = 0; j < N; j++)\n            for (int k = 0; k < N; k++)\n                \
                   to[i][j] += from[i][k] * from[k][j];";
    let (loops, _) = advised(product, &[]);
    assert_eq!(loops[0]["advice"]["change"], "interchange", "{loops}");
}

/// Half of a product with itself, whose other half is the same.
#[test]
fn triangles_are_exchanged_where_all_accesses_say_that_they_may_be() {
    let triangle = "    for (int i = 0; i < N; i += 64)\n        for (int j = i; j < N; j++) {\n            to[i][j] = 0;\n            \
                    for (int k = 0; k < N; k++) to[i][j] += from[k][i] * from[k][j];\n            to[j][i] = to[i][j];\n        }";
    let (loops, _) = advised(triangle, &[]);
    assert_eq!(loops[0]["advice"]["change"], "interchange", "{loops}");
    // What one column leaves in the other half the next one loads.
    let (loops, _) = advised(&triangle.replace("from[k][i]", "to[k][i]"), &[]);
    assert_eq!(loops[0]["advice"], Value::Null, "{loops}");
}

/// In place, what is stored by rows was loaded by columns.
#[test]
fn what_is_stored_by_other_strides_is_left_alone() {
    let turned =
        "    for (int i = 0; i < N; i++)\n        for (int j = 0; j < N; j++)\n            to[i][j] += to[j][i];";
    let (loops, _) = advised(turned, &[]);
    assert_eq!(loops[0]["advice"], Value::Null);
    assert!(loops[0]["reason"].as_str().unwrap().contains("not by the same strides"), "{loops}");
}

/// What a loop prints would be in another order.
#[test]
fn loops_that_call_what_writes_keep_their_order() {
    let loops = "    FILE *out = fopen(\"/dev/null\", \"w\");\n    for (int j = 0; j < N; j++)\n        for (int i = 0; i < N; i++)\n            \
                 fprintf(out, \"%d \", (int)from[i][j]);\n    fclose(out);";
    let directory =
        traced_so(&MATRICES.replace("LOOPS", loops).replace("<stdlib.h>", "<stdio.h>\n#include <stdlib.h>"), &[]);
    fs::write(directory.path().join("small.toml"), MACHINE).unwrap();
    let report = report_of(directory.path(), &[&["advise"], &TRACE[..]].concat());
    let row = &report["loops"][0];
    assert_eq!(row["advice"], Value::Null, "{row}");
    let reason = row["reason"].as_str().unwrap();
    assert!(reason.contains("interchange would save") && reason.contains("may write"), "{reason}");
    assert!(reason.contains("(fprintf)"), "{reason}");
}

/// A function of the program's own, of which the trace has all that it stores.
#[test]
fn loops_that_call_what_computes_are_exchanged() {
    let loops = "    for (int j = 0; j < N; j++)\n        for (int i = 0; i < N; i++)\n            to[i][j] = third(from[i][j]);";
    let third = "enum { N = 256 }; __attribute__((noinline)) static double third(double of) { return of / 3; }";
    let source = MATRICES.replace("LOOPS", loops).replace("enum { N = 256 };", third);
    let directory = traced_so(&source, &[]);
    fs::write(directory.path().join("small.toml"), MACHINE).unwrap();
    let report = report_of(directory.path(), &[&["advise"], &TRACE[..]].concat());
    assert_eq!(report["loops"][0]["advice"]["change"], "interchange", "{}", report["loops"]);
}

/// Only `for (…)` loops are read in the source. Of others the machine code tells whether they end early.
#[test]
fn loops_that_may_end_early_keep_their_order() {
    let loops = |ends: &str| {
        format!(
            "    int j = 0;\n    while (j < N) {{\n        int i = 0;\n        while (i < N) {{\n            \
             {ends}\n            to[i][j] = from[i][j];\n            i++;\n        }}\n        j++;\n    }}"
        )
    };
    let (rows, _) = advised(&loops("if (from[i][j] > 1e9) break;"), &[]);
    assert_eq!(rows[0]["advice"], Value::Null, "{rows}");
    assert!(rows[0]["reason"].as_str().unwrap().contains("they may end early"), "{rows}");
    let (rows, _) = advised(&loops(""), &[]);
    assert_eq!(rows[0]["advice"]["change"], "interchange", "{rows}");
}

/// Digit separators hide no `break` from who reads the source.
#[test]
fn digit_separators_hide_nothing() {
    let ends = "    for (int j = 0; j < N; j++)\n        for (int i = 0; i < N; i++) {\n            \
                const double most = 1'000'000'0.0; if (from[i][j] > most) break;\n            to[i][j] = from[i][j];\n        }";
    let (rows, _) = advised(ends, &["-std=c23"]);
    assert_eq!(rows[0]["advice"], Value::Null, "{rows}");
    assert!(rows[0]["reason"].as_str().unwrap().contains("may end early, or leave steps out (break)"), "{rows}");
}

/// Nodes that lie in a row, one column of them after the other.
#[test]
fn lists_are_gone_through_in_their_own_order() {
    let list = "    static struct node { struct node *next; double v[15]; } nodes[N];\n    \
                for (int i = 0; i < N - 1; i++) nodes[i].next = &nodes[i + 1];\n    \
                for (int c = 0; c < 15; c++) {\n        double sum = 0;\n        \
                for (struct node *at = nodes; at; at = at->next) sum += at->v[c];\n        sums[c] = sum;\n    }";
    let (rows, _) = advised(list, &[]);
    assert_eq!(rows[0]["advice"], Value::Null, "{rows}");
    assert!(rows[0]["reason"].as_str().unwrap().contains("follows pointers"), "{rows}");
}

/// An outlined function loads bounds and shared variables each time that it is called: not in each step of another order.
#[test]
fn loops_of_openmp_gain_what_they_gain_without_it() {
    let product = "    for (int j = 0; j < N; j++) {\n        double by = to[0][j];\nPRAGMA\n        \
                   for (int i = 0; i < N; i++) sums[i] += from[i][j] * by;\n    }";
    let ratio = |pragma: &str, options: &[&str]| {
        let (rows, _) = advised(&product.replace("PRAGMA", pragma), options);
        let tried = &rows[0]["tried"][0];
        assert_eq!(tried["change"], "interchange", "{rows}");
        tried["time_ratio"].as_f64().unwrap()
    };
    let plain = ratio("", &[]);
    let parallel = ratio("#pragma omp parallel for num_threads(1)", &["-fopenmp"]);
    assert!(plain < 0.95 && (plain - parallel).abs() < 0.1, "{plain} {parallel}");
}
