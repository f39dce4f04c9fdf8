//! `slimline place`: lookups of cross sections as in the paper's case, whose best placement beats the naive ones.

use serde_json::Value;

use super::traced::{failed, json, slimline, traced_with};

const LOOKUPS: &str = include_str!("../../../../programs/c/cross_sections.c");

const MACHINE: &str = r#"
name = "with a scratchpad"
cache = [
    { name = "L1", level = 1, size = "2 KiB", line = 64, ways = 4, latency = 1 },
    { name = "L2", level = 2, size = "8 KiB", line = 64, ways = 8, latency = 10 },
]
memory = [
    { name = "main", cores = "all", latency = 200 },
    { name = "pad", size = "15 KiB", latency = 20 },
]
"#;

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_else(|| panic!("{name} of {row}"))
}

#[test]
fn the_hot_part_of_a_table_beats_naive_choices() {
    let directory = traced_with(LOOKUPS, &["3000"]);
    std::fs::write(directory.path().join("pad.toml"), MACHINE).unwrap();
    let ask = ["place", "run.trace", "--machine", "pad.toml", "--part", "1 KiB"];
    let report = json(directory.path(), &ask);
    let data = report["data"].as_array().unwrap();
    assert_eq!((&data[0]["name"], number(&data[0], "bytes")), (&"nuclide_grids".into(), 48 * 32 * 64), "{report}");
    let biggest = data.iter().max_by_key(|row| number(row, "bytes")).unwrap();
    assert_eq!((&biggest["name"], number(biggest, "bytes")), (&"index_grid".into(), 4 * 32 * 32 * 64));
    let of_data: u64 = data.iter().map(|row| number(row, "lines")).sum();
    assert_eq!(of_data + number(&report["not_placeable"], "lines"), number(&report["in_all"], "lines"));

    let saved = |choice: &str| {
        let choices = report["choices"].as_array().unwrap();
        let row = choices.iter().find(|row| row["choice"] == choice).unwrap();
        assert!(number(row, "bytes") <= 15 << 10);
        assert_eq!(number(row, "saved_cycles"), number(row, "lines") * 180);
        number(row, "saved_cycles")
    };
    let naive = ["biggest", "coldest", "last", "first"].map(saved);
    assert!(
        naive.is_sorted() && naive[0] * 3 < naive[1] && naive[2] * 3 < naive[3] * 2,
        "the paper's order: {naive:?}"
    );
    // Five nuclides of 3 KiB are all of the room.
    assert_eq!([saved("hottest"), saved("best")], [saved("first"); 2]);
    let best = &report["choices"][6]["placed"];
    assert_eq!((number(&best[0], "data"), number(&best[0], "start"), number(&best[0], "end")), (0, 0, 15 << 10));
    assert!(number(&report["at_most"], "saved_cycles") >= saved("best"));

    // As said where all of it would fit: what main served is served by the pad then.
    let all = json(directory.path(), &[&ask[..], &["--room", "1M"]].concat());
    let cycles = number(&all, "cycles") - number(&all["choices"][6], "saved_cycles");
    let fast = MACHINE.replace("latency = 200", "latency = 20");
    std::fs::write(directory.path().join("fast.toml"), fast).unwrap();
    let simulated = json(directory.path(), &["simulate", "run.trace", "--machine", "fast.toml"]);
    let unplaced = number(&all["not_placeable"], "saved_cycles");
    assert_eq!(cycles - unplaced, number(&simulated["machines"][0], "cycles"));

    let text = slimline(directory.path(), &ask);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("bytes 0 to 15,360 of 98,304") && text.contains("grid_point *piece[2]; "), "{text}");
}

#[test]
fn what_can_not_be_placed_is_said() {
    let directory = traced_with(LOOKUPS, &["1"]);
    std::fs::write(directory.path().join("pad.toml"), MACHINE).unwrap();
    let said = failed(directory.path(), &["place", "run.trace", "--machine", "valgrind"]);
    assert!(said.contains("--machine valgrind: no memory that is near to no core is limited"), "{said}");
    let said = failed(directory.path(), &["place", "run.trace", "--machine", "pad.toml", "--memory", "HBM"]);
    assert!(said.contains("no memory is called HBM: there is main, pad"), "{said}");
    let said = failed(directory.path(), &["place", "run.trace", "--machine", "pad.toml", "--memory", "main"]);
    assert!(said.contains("main is near to cores"), "{said}");
    for part in ["32", "16K"] {
        let said = failed(directory.path(), &["place", "run.trace", "--machine", "pad.toml", "--part", part]);
        assert!(
            said.contains("wanted is a line (64 bytes) or more, and no more than there is room for (15360"),
            "{said}"
        );
    }
    let unlimited = MACHINE.replace(r#"size = "15 KiB", "#, "");
    std::fs::write(directory.path().join("pad.toml"), unlimited).unwrap();
    let said = failed(directory.path(), &["place", "run.trace", "--machine", "pad.toml", "--memory", "pad"]);
    assert!(said.contains("pad has no size: say how much fits (--room)"), "{said}");
    let full = MACHINE.replace(r#"cores = "all""#, r#"cores = "all", size = "8 KiB""#);
    std::fs::write(directory.path().join("pad.toml"), full).unwrap();
    let said = failed(directory.path(), &["place", "run.trace", "--machine", "pad.toml"]);
    assert!(said.contains("as it is, since the others are full"), "{said}");
}
