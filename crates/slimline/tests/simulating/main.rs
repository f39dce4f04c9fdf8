//! `slimline simulate`: counts as Cachegrind's, published answers through the command line, and how it ends badly.

mod advise;
mod advise_arrays;
mod advise_inlined;
mod advise_loops;
mod advise_nodes;
mod advise_prefetches;
mod advise_tied;
mod advise_types;
mod exported;
mod histogram;
mod layout;
mod learn;
mod live;
mod papers;
mod place;
mod reused;
mod sampled;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../ends/scratch.rs"]
mod scratch;
mod sharing;
mod traced;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../ends/viewers.rs"]
mod viewers;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn simulate(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    command.arg("simulate").args(arguments).current_dir(directory).stdin(Stdio::null()).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A cache of 16 sets of two lines of 16 bytes.
const SMALL: &str = r#"
name = "small"
cache = [{ name = "L1", level = 1, holds = "data", size = 512, line = 16, ways = 2, latency = 1 }]
memory = [{ name = "memory", latency = 100 }]
"#;
/// Hits 4, misses 5, evictions 2 (csapp's cache lab, `yi.trace`).
const LACKEY: &str = "==1== Lackey\nI  04,2\n L 10,1\n M 20,1\n L 22,1\n S 18,1\n L 110,1\n L 210,1\n M 12,1\n";
/// The same as din, where a modification is two lines.
const DIN: &str = "2 4\n0 10\n0 20\n1 20\n0 22\n1 18\n0 110\n0 210\n0 12\n1 12\n";

#[test]
fn both_formats_give_the_published_answer() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("small.toml"), SMALL).unwrap();
    for (text, format) in [(LACKEY, "lackey"), (DIN, "din")] {
        fs::write(directory.path().join("trace"), text).unwrap();
        let arguments = ["trace", "--machine", "small.toml", "--machine", "host", "--format", "json"];
        let report = json(&simulate(directory.path(), &arguments));
        assert_eq!((&report["schema"], &report["trace"]["format"]), (&1.into(), &format.into()));
        let machine = &report["machines"][0];
        let cache = &machine["caches"][0];
        assert_eq!((&machine["loads"], &machine["stores"], &machine["fetches"]), (&6.into(), &3.into(), &0.into()));
        assert_eq!((&cache["lookups"], &cache["misses"], &cache["evictions"]), (&9.into(), &5.into(), &2.into()));
        assert_eq!(report["machines"][1]["name"], "host");
    }
    let output = simulate(directory.path(), &["trace", "--machine", "small.toml", "--classes", "--used-bytes"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("trace (din)\n\nsmall, 1 core\n  6 loads, 3 stores\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

/// What `machine` prints is the machine that it was asked for; what is measured can be simulated, and is said.
#[test]
fn machines_are_written_down() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("good"), LACKEY).unwrap();
    let written = traced::slimline(directory.path(), &["machine", "valgrind"]);
    fs::write(directory.path().join("written.toml"), written).unwrap();
    let of = |machine| traced::slimline(directory.path(), &["simulate", "good", "--machine", machine]);
    assert_eq!(of("written.toml"), of("valgrind"));
    let output = simulate(directory.path(), &["good", "--machine", "measured"]);
    let said = String::from_utf8(output.stderr).unwrap();
    // One core measures one memory.
    if said.starts_with("slimline: --machine measured: it has ") {
        return;
    }
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("slimline: measured: L1"), "{said}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("\nmeasured, "));
}

#[test]
fn what_is_wrong_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("good", LACKEY);
    write("bad", " L 10,1\n L 10\n");
    write("empty", "");
    write("wrong.toml", &SMALL.replace("512", "500"));
    write("typo.toml", &SMALL.replace("ways", "way"));
    write("table", "at,wide\n16,8\n17,?\n18,0\n");
    let cases: [(&[&str], &str); 12] = [
        (&["table", "--columns", "address=at,size=wide"], "slimline: table: line 4: a size that no access has"),
        (&["table", "--columns", "address=where"], "slimline: table: has no column `where`; it has at, wide"),
        (&["missing", "--columns", "address=at"], "slimline: missing: No such file or directory (write a trace with"),
        (&[".", "--columns", "address=at"], "slimline: .: Is a directory"),
        (&["missing"], "slimline: missing: No such file or directory (write a trace with: slimline trace -o"),
        (
            &["missing", "--callers"],
            "slimline: missing: No such file or directory (write a trace with: slimline trace -o",
        ),
        (&["empty"], "slimline: empty: holds no access"),
        (&["bad"], "slimline: bad: line 2: no size behind a comma: \" L 10\""),
        (&["good", "--from", "din"], "slimline: good: line 2: no label of din"),
        (
            &["good", "--machine", "cray"],
            "slimline: --machine cray: neither host, measured, valgrind, dinero-i5, pena-sp nor a file",
        ),
        (
            &["good", "--machine", "wrong.toml"],
            "slimline: wrong.toml: cache L1: 500 bytes are no multiple of a set's 32",
        ),
        (&["good", "--machine", "typo.toml"], "slimline: typo.toml: line 3: unknown field `way`"),
    ];
    for (arguments, line) in cases {
        let output = simulate(directory.path(), arguments);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.is_empty(), told.lines().count()),
            (Some(2), true, 1),
            "{told}"
        );
        assert!(told.starts_with(line), "{told}");
    }
}

#[test]
fn what_is_no_trace_of_threads_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("good"), LACKEY).unwrap();
    let crossed = "name = \"crossed\"\ncores = 3\ncache = [\n\
        { name = \"L1\", level = 1, holds = \"data\", size = 512, line = 16, ways = 2, latency = 1, shared_by = [\"0-1\", \"2\"] },\n\
        { name = \"L2\", level = 2, size = 512, line = 16, ways = 2, latency = 2, shared_by = [\"0\", \"1-2\"] },\n]\n\
        memory = [{ name = \"memory\", latency = 100 }]\n";
    fs::write(directory.path().join("crossed.toml"), crossed).unwrap();
    let small_pages = "name = \"s\"\ncache = [{ name = \"L1\", level = 1, size = 512, line = 16, ways = 2, latency = 1 }]\n\
        tlb = [{ name = \"DTLB\", level = 1, entries = 4, ways = 4, latency = 0, pages = [\"4 KiB\"] }]\nmemory = [{ name = \"m\", latency = 9 }]\n";
    fs::write(directory.path().join("small-pages.toml"), small_pages).unwrap();
    fs::create_dir(directory.path().join("samples")).unwrap();
    fs::write(directory.path().join("samples/session.json"), "{}").unwrap();
    // A TLB that is not used need not be there.
    let told = traced::slimline(directory.path(), &["simulate", "good", "--machine", "small-pages.toml"]);
    assert!(told.contains("DTLB"), "{told}");
    let cases: [(&[&str], &str); 7] = [
        (
            &["simulate", "good", "--machine", "small-pages.toml", "--large-pages"],
            "slimline: --machine small-pages.toml: no TLB holds pages of 2 MiB, which data lies on",
        ),
        (
            &["place", "good", "--machine", "pena-sp"],
            "slimline: good: tells no data, or not where in it: compile the program with slimline cc, gcc or cargo",
        ),
        (
            &["simulate", "samples"],
            "slimline: samples: holds no recorded trace but a session of samples, of which `slimline share` and",
        ),
        (&["simulate", "."], "slimline: .: holds no recorded trace"),
        (&["reuse", "."], "slimline: .: holds no recorded trace"),
        (&["share", "good"], "slimline: good: tells no threads: share is for what `slimline trace -o` wrote"),
        (&["reuse", "good", "--machine", "crossed.toml"], "slimline: "),
    ];
    for (arguments, line) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
        let output = command.args(arguments).current_dir(directory.path()).stdin(Stdio::null()).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{told}");
        assert!(told.starts_with(line), "{told}");
    }
}

/// The number before a word of a line, without its commas.
fn numbers(line: &str) -> Vec<u64> {
    let words = line.split(|c: char| c != ',' && !c.is_ascii_digit()).map(|word| word.replace(',', ""));
    words.filter_map(|word| word.parse().ok()).collect()
}

/// The numbers of one line of Cachegrind's summary: all, of reads, of writes.
fn summary(text: &str, title: &str) -> Vec<u64> {
    let line = text.lines().find_map(|line| line.split_once("== ")?.1.strip_prefix(title));
    numbers(line.unwrap_or_else(|| panic!("no {title} in: {text}")))
}

/// Every count of a small static program, without address space randomization and with the same environment under both.
#[test]
fn counts_are_those_of_cachegrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return scratch::skip("simulating::counts_are_those_of_cachegrind", "no valgrind here");
    }
    let directory = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulating/six.c");
    let compiled =
        Command::new("gcc").args(["-O1", "-static", "-o"]).arg(directory.path().join("six")).arg(source).output();
    assert!(compiled.unwrap().status.success());
    let valgrind = |arguments: &[&str], program: &str| {
        let mut command = Command::new("setarch");
        command.args(["-R", "env", "-i", "valgrind"]).args(arguments).args(["./six", program]);
        let output = command.current_dir(directory.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for program in ["list", "matrices", "quicksort", "strings", "histogram", "packed"] {
        valgrind(&["--tool=lackey", "--trace-mem=yes", "--log-file=trace"], program);
        let told = valgrind(
            &[
                "--tool=cachegrind",
                "--cache-sim=yes",
                "--I1=32768,8,64",
                "--D1=32768,8,64",
                "--LL=8388608,16,64",
                "--cachegrind-out-file=/dev/null",
            ],
            program,
        );
        let report = json(&simulate(directory.path(), &["trace", "--machine", "valgrind", "--format", "json"]));
        let machine = &report["machines"][0];
        let count = |value: &Value| value.as_u64().unwrap();
        let cache =
            |name: &str| machine["caches"].as_array().unwrap().iter().find(|cache| cache["name"] == name).unwrap();
        let (i1, d1, ll) = (cache("I1"), cache("D1"), cache("LL"));
        let of_both = |loads: u64, stores: u64| vec![loads + stores, loads, stores];
        assert_eq!(summary(&told, "I   refs:"), [count(&machine["fetches"])], "{program}");
        assert_eq!(summary(&told, "I1  misses:")[0], count(&i1["misses"]), "{program}");
        assert_eq!(summary(&told, "LLi misses:")[0], count(&ll["fetch_misses"]), "{program}");
        let refs = of_both(count(&machine["loads"]), count(&machine["stores"]));
        assert_eq!(summary(&told, "D   refs:"), refs, "{program}");
        let misses = |cache: &Value| of_both(count(&cache["load_misses"]), count(&cache["store_misses"]));
        assert_eq!(summary(&told, "D1  misses:")[1..], misses(d1)[1..], "{program}");
        assert_eq!(summary(&told, "LLd misses:")[1..], misses(ll)[1..], "{program}");
        assert!(count(&d1["misses"]) > 500, "{program}");
    }
}
