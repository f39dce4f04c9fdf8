//! `slimline histogram`: a search table whose misses are known by part, and a picture that a parser of XML reads.

use std::process::Command;

use serde_json::Value;

use super::traced::{failed, json, slimline, traced};

/// Of 4096 numbers on the heap the first eighth is read 64 times, the rest once; each is stored first. Of a static array of
/// 16 lines the last eight are read.
const SKEWED: &str = r#"
#include <stdlib.h>
enum { N = 4096 };
static long small[128] __attribute__((aligned(64)));
__attribute__((noinline)) static void fill(long *table) {
    for (long i = 0; i < N; i++) table[i] = i;
}
__attribute__((noinline)) static long sum(long *table, long from, long to, long with) {
    long sum = 0;
    for (long i = from; i < to; i++) sum += table[i] ^ with;
    return sum;
}
__attribute__((noinline)) static long of_small(int argc) {
    long sum = 0;
    small[64] = argc;
    for (long i = 64; i < 128; i++) sum += small[i];
    return sum;
}
int main(int argc, char **argv) {
    long *table = aligned_alloc(64, N * sizeof *table);
    fill(table);
    long all = 0;
    for (int round = 0; round < 64; round++) all += sum(table, 0, N / 8, round);
    all += sum(table, N / 8, N, 0);
    all += of_small(argc);
    free(table);
    return all == argc;
}
"#;

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap()
}

#[test]
fn the_hot_part_of_a_table_is_seen() {
    let directory = traced(SKEWED);
    let ask = ["histogram", "run.trace", "--machine", "four.toml", "--part", "4K"];
    let report = json(directory.path(), &ask);
    let rows = report["data"].as_array().unwrap();
    let share: f64 = rows.iter().map(|row| row["share"].as_f64().unwrap()).sum();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    let table = rows.iter().find(|row| row["kind"] == "heap").unwrap();
    assert_eq!((number(table, "extent_bytes"), number(table, "part_bytes")), (32768, 4096));
    let parts = table["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 8);
    for (at, part) in parts.iter().enumerate() {
        let times = if at == 0 { 64 } else { 1 };
        assert_eq!(number(part, "offset"), at as u64 * 4096);
        assert_eq!((number(part, "loads"), number(part, "stores")), (512 * times, 512));
        // A part is twice as large as the cache: each pass misses each of its lines.
        assert_eq!(part["misses"], serde_json::json!([64 * (times + 1)]));
    }
    // The first has 64·512 + 512 of 36,352 + 4096 accesses, and 65·64 of 65·64 + 7·128 misses.
    assert_eq!(table["half_of_accesses_in"], 0.125);
    assert_eq!(table["half_of_misses_in"], serde_json::json!([0.125]));

    // What is smaller than a part is told as large as it is.
    let small = rows.iter().find(|row| row["name"] == "small").unwrap();
    let parts = small["parts"].as_array().unwrap();
    let sizes: u64 = parts.iter().map(|part| number(part, "bytes")).sum();
    assert_eq!((number(small, "extent_bytes"), sizes, number(&parts[0], "offset")), (1024, 1024, 0));

    let by_line = json(directory.path(), &["histogram", "run.trace", "--machine", "four.toml", "--data", "small"]);
    let [small] = by_line["data"].as_array().unwrap().as_slice() else { panic!("{by_line}") };
    let parts = small["parts"].as_array().unwrap();
    assert_eq!((number(small, "extent_bytes"), parts.len(), number(small, "stores")), (1024, 8, 1));
    assert!(parts.iter().all(|part| number(part, "loads") == 8), "{small}");

    // As `trace --variable` asks for it.
    let by_pattern = json(directory.path(), &["histogram", "run.trace", "--machine", "four.toml", "--data", "sm?l*"]);
    assert_eq!(by_pattern["data"], by_line["data"]);

    let text = slimline(directory.path(), &ask);
    assert!(text.lines().all(|line| line.chars().count() <= 100) && text.contains("12.5 %"), "{text}");
    assert!(text.contains("; 32,768 bytes (32.0 KiB) in parts of 4.0 KiB"), "{text}");
    let csv = slimline(directory.path(), &[&ask[..], &["--format", "csv"]].concat());
    assert!(csv.starts_with("data,kind,allocated_at,offset,bytes,loads,stores,cycles,L1 misses\n"), "{csv}");
    assert!(csv.contains(",0,4096,32768,512,"), "{csv}");
}

#[test]
fn the_picture_is_xml_with_bars() {
    let directory = traced(SKEWED);
    let svg = slimline(directory.path(), &["histogram", "run.trace", "--machine", "four.toml", "--format", "svg"]);
    let file = directory.path().join("parts.svg");
    std::fs::write(&file, &svg).unwrap();
    // Its parser fails at what is not well-formed.
    let parse = "import sys, xml.dom.minidom as m; print(len(m.parse(sys.argv[1]).getElementsByTagName('rect')))";
    let output = Command::new("python3").args(["-c", parse]).arg(&file).output().unwrap();
    let rects: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().expect("well-formed");
    // 512 lines of the table that are loaded, stored and missed, and some more.
    assert!(rects > 3 * 512, "{rects}");
}

#[test]
fn what_can_not_be_told_is_said() {
    let directory = traced(SKEWED);
    let said = failed(directory.path(), &["histogram", "run.trace", "--data", "small", "--data", "tabel"]);
    assert!(said.contains("no data is called tabel") && said.contains("small"), "{said}");
    std::fs::write(directory.path().join("run.din"), "0 1000\n").unwrap();
    let said = failed(directory.path(), &["histogram", "run.din"]);
    assert!(said.contains("run.din: tells no data"), "{said}");
    let said = failed(directory.path(), &["histogram", "nothing.trace"]);
    assert!(said.contains("nothing.trace: No such file"), "{said}");
    assert!(failed(directory.path(), &["histogram", "run.trace", "--part", "0"]).contains("--part"), "no part");
}

#[test]
fn blocks_of_one_line_are_told_apart_by_who_called() {
    let directory = traced(
        r#"
#include <stdlib.h>
__attribute__((noinline)) static long *take(int n) { return calloc(n, sizeof(long)); }
__attribute__((noinline)) static long *small(void) { long *block = take(8); block[1] = 1; return block; }
__attribute__((noinline)) static long *large(void) { long *block = take(64); for (int i = 0; i < 64; i++) block[i] = i; return block; }
int main(int argc, char **argv) {
    long *one = small(), *other = large();
    return one[1] + other[argc] == 2 ? 0 : 1;
}
"#,
    );
    let stores = |options: &[&str]| {
        let ask = [&["histogram", "run.trace", "--machine", "four.toml"], options].concat();
        let report = json(directory.path(), &ask);
        let of = |row: &Value| {
            let callers = row["callers"].as_array().unwrap().iter().map(|caller| caller["function"].as_str().unwrap());
            let parts = row["parts"].as_array().unwrap();
            (callers.collect::<Vec<_>>().join(" < "), parts.iter().map(|part| number(part, "stores")).sum::<u64>())
        };
        let heap = report["data"].as_array().unwrap().iter().filter(|row| row["kind"] == "heap");
        let mut heap: Vec<_> = heap.map(of).collect();
        heap.sort();
        heap
    };
    assert_eq!(stores(&[]), [(String::new(), 65)]);
    assert_eq!(stores(&["--callers"]), [("large < main".to_owned(), 64), ("small < main".to_owned(), 1)]);
    let shown = slimline(directory.path(), &["simulate", "run.trace", "--callers"]);
    assert!(shown.contains("< large < main"), "{shown}");
}
