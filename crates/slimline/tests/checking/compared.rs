//! `slimline diff`, of types, sessions and simulations.

use std::fs;

use serde_json::Value;

use super::scratch::Scratch;
use super::scratch::stdout;
use super::{BODIES, compile, keep, planted, shown, slimline};

#[test]
fn types_of_two_programs_are_compared() {
    let scratch = Scratch::new();
    compile(&scratch, "old", BODIES);
    let changed = planted()
        .replace("double x, y;", "double x; float y;")
        .replace("int main", "struct fresh { int k; } fresh; int main");
    compile(&scratch, "new", &changed);
    let text = shown(&scratch, &["diff", "old", "new"]);
    let expected = "old → new

LAYOUTS
  struct body (bodies.c:4): 64 → 72 bytes, 1 → 2 lines, 0 → 4 bytes of holes
    + extra at 24, 8 bytes
    mass 56 → 64, on a later line
    y 8 → 8, 8 → 4 bytes
    rest 24 → 32
  + struct fresh, 4 bytes
  0 types are the same
";
    assert_eq!(text, expected);
    keep(&scratch, &["layouts", "old", "--format", "json"], "old.json");
    assert_eq!(shown(&scratch, &["diff", "old.json", "new"]), expected.replace("old →", "old.json →"));
    let json: Value = serde_json::from_str(&shown(&scratch, &["diff", "old", "new", "--format", "json"])).unwrap();
    assert_eq!((&json["schema"], &json["layouts"]["same"]), (&1.into(), &0.into()));
    assert_eq!(json["layouts"]["changed"][0]["moved"][1]["old_offset"], 24);
    assert!(json["shares"].is_null() && json["misses"].is_null());
    // What the baseline was not asked for is not new.
    keep(&scratch, &["layouts", "old", "--type", "body", "--format", "json"], "body.json");
    assert!(!shown(&scratch, &["diff", "body.json", "new"]).contains("fresh"));
}

#[test]
fn shares_of_two_sessions_are_compared() {
    let scratch = Scratch::new();
    compile(&scratch, "old", BODIES);
    // Twenty times as many passes over `x`; functions and lines are elsewhere.
    let heavier = BODIES.replace("drift();\n        sum", "for (int k = 0; k < 20; k++) drift();\n        sum");
    compile(&scratch, "new", &heavier.replace("static double heaviest", "\n\nstatic double heaviest"));
    for (session, program) in [("a", "./old"), ("b", "./new")] {
        shown(&scratch, &["record", "-o", session, "--", program]);
    }
    let text = shown(&scratch, &["diff", "a", "b"]);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let json: Value = serde_json::from_str(&shown(&scratch, &["diff", "a", "b", "--format", "json"])).unwrap();
    let rows = json["shares"]["changed"].as_array().unwrap();
    let x = rows.iter().find(|row| row["field"] == "x").unwrap_or_else(|| panic!("{text}"));
    assert!(x["difference"]["value"].as_f64().unwrap() > 0.2, "{x}");
    assert_eq!(x["is_beyond_chance"], true, "{x}");
    let data = &x["data"];
    assert_eq!(
        (&data["name"], &data["function"], &data["type"]),
        (&"bodies".into(), &"main".into(), &"struct body".into())
    );
    let same = shown(&scratch, &["diff", "a", "a"]);
    assert!(!same.contains("beyond chance"), "{same}");
}

#[test]
fn misses_of_two_traces_are_compared() {
    let scratch = Scratch::new();
    for (name, lines) in [("old", 100), ("new", 150)] {
        let text: String = (0..lines).map(|line| format!(" L {:x},4\n", line * 64)).collect();
        fs::write(scratch.path(name), text).unwrap();
        keep(&scratch, &["simulate", name, "--machine", "valgrind", "--format", "json"], &format!("{name}.json"));
    }
    let text = shown(&scratch, &["diff", "old.json", "new.json"]);
    assert!(text.contains("valgrind: 100 → 150 accesses"), "{text}");
    assert!(text.contains("+50.0 %"), "{text}");
}

/// Types, shares and misses of what each access of two programs was to.
#[test]
fn recorded_traces_are_compared() {
    let scratch = Scratch::new();
    let changed = planted();
    for (name, source) in [("old", BODIES), ("new", &changed)] {
        fs::write(scratch.path("bodies.c"), source.replace("step < 400", "step < 4")).unwrap();
        shown(&scratch, &["cc", "-O2", "-g", "bodies.c", "-o", name]);
        shown(&scratch, &["trace", "-o", &format!("{name}.trace"), "--", &format!("./{name}")]);
    }
    let diff = ["diff", "old.trace", "new.trace", "--machine", "valgrind"];
    let text = shown(&scratch, &diff);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.starts_with("old.trace → new.trace\n\nLAYOUTS\n  body: 64 → 72 bytes, 1 → 2 lines\n"), "{text}");
    assert!(text.contains("valgrind: 1,572,866 → 1,572,866 accesses") && !text.contains("I1"), "{text}");
    let json: Value = serde_json::from_str(&shown(&scratch, &[&diff[..], &["--format", "json"]].concat())).unwrap();
    let rows = json["shares"]["changed"].as_array().unwrap();
    let share = |field: &str, side: &str| {
        let row = rows.iter().find(|row| row["field"] == field).unwrap_or_else(|| panic!("{text}"));
        row[side]["share"].as_f64().unwrap()
    };
    // Each store to `x` has a load before it; each line of `x` and `mass` misses.
    for side in ["old", "new"] {
        assert!((share("x", side) + share("mass", side) - 1.0).abs() < 0.001, "{text}");
        assert!((0.5..0.8).contains(&share("x", side)), "{text}");
    }
    let gate = slimline(&scratch, &["check", "new.trace", "--against", "old.trace", "--machine", "valgrind"]);
    assert_eq!(gate.status.code(), Some(1));
    assert!(stdout(&gate).starts_with("hot_field: body: hot field mass"), "{}", stdout(&gate));
    let same = shown(&scratch, &["check", "old.trace", "--against", "old.trace", "--machine", "valgrind"]);
    assert!(same.contains("no regression"), "{same}");
}
