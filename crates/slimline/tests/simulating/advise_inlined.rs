//! `slimline advise TRACE`: what is pointed to, held by value.

use std::fs;

use serde_json::Value;

use super::advise::{MACHINE, TRACE};
use super::traced::{json, slimline, traced_so};

/// Planets in an array, whose orbits were allocated in another order. `SHARED` lets two planets have one orbit, `LISTED` has most of what is
/// done with orbits done through a list of them, `CHANGED` gives a planet another orbit while the first one is used.
const PLANETS: &str = r#"
#include <stdlib.h>
struct orbit { double radius, period; struct orbit *next; };
struct planet { double mass; struct orbit *orbit; long moons; };
enum { N = 2048 };
static struct planet planets[N];
static struct orbit *orbits;
__attribute__((noinline)) static double weighed(struct planet *all, int pass) {
    double sum = pass;
    for (int i = 0; i < N; i++) sum += all[i].mass * all[i].orbit->radius; // line 10
    return sum;
}
int main(void) {
    double sum = 0;
    for (int i = 0; i < N; i++) {
        struct orbit *orbit = malloc(sizeof *orbit); // line 16
        orbit->radius = i, orbit->period = 1, orbit->next = orbits, orbits = orbit;
        planets[i * 1021 % N].orbit = orbit; // line 18
    }
#ifdef SHARED
    planets[7].orbit = planets[9].orbit;
#endif
    for (int pass = 0; pass < 20; pass++) {
        sum += weighed(planets, pass);
#ifdef LISTED
        for (int again = 0; again < 2; again++)
            for (struct orbit *orbit = orbits; orbit; orbit = orbit->next) sum += orbit->period;
#endif
    }
#ifdef CHANGED
    struct orbit *before = planets[5].orbit;
    planets[5].orbit = malloc(sizeof *before);
    *planets[5].orbit = *before;
    sum += weighed(planets, 20) + before->radius;
#endif
    return sum == 1;
}
"#;

/// What is said of `struct planet`, of all, and in text.
fn advised(options: &[&str]) -> (Value, Value, String) {
    let directory = traced_so(PLANETS, options);
    fs::write(directory.path().join("small.toml"), MACHINE).unwrap();
    let all = [&["advise"], &TRACE[..]].concat();
    let report = json(directory.path(), &all);
    let mut structures = report["structures"].as_array().unwrap().iter();
    let planet = structures.find(|of| of["name"].as_str().unwrap().ends_with("planet")).expect("what has pointers");
    (planet.clone(), report.clone(), slimline(directory.path(), &all))
}

#[test]
fn what_one_element_s_pointer_leads_to_is_held_by_value() {
    let (planet, report, text) = advised(&[]);
    let advice = &planet["advice"];
    assert_eq!(advice["change"], "inline", "{text}");
    assert_eq!(advice["part_bytes"], serde_json::json!([40]));
    let inlined = &advice["inlined"];
    let counts = ["objects", "owned", "shared", "outlived", "unowned", "elements", "elements_without"];
    let ownership = &inlined["ownership"];
    assert_eq!(counts.map(|of| ownership[of].as_u64().unwrap()), [2048, 2048, 0, 0, 0, 2048, 0], "{inlined}");
    assert_eq!((&inlined["field"], ownership["through"].as_f64()), (&"orbit".into(), Some(1.0)), "{inlined}");
    let ends_with =
        |list: &Value, line: &str| list.as_array().unwrap().iter().any(|of| of.as_str().unwrap().ends_with(line));
    assert!(ends_with(&inlined["allocated_at"], ":16"), "{inlined}");
    assert!(ends_with(&advice["touched_lines"], ":10") && ends_with(&advice["touched_lines"], ":18"), "{advice}");
    assert!(advice["code"].as_str().unwrap().contains("\n    struct orbit orbit; // it, not a pointer to it\n"));
    // A line for each orbit and 24 bytes of one are 40 bytes, one after the other: 0.625 lines in the place of 1.375.
    let lines = advice["predicted"]["memory_lines_ratio"].as_f64().unwrap();
    assert!((0.44..0.52).contains(&lines), "{advice}");
    let orbit =
        report["structures"].as_array().unwrap().iter().find(|of| of["name"].as_str().unwrap().ends_with("orbit"));
    assert_eq!(orbit.unwrap()["advice"], Value::Null);
    assert!(
        text.contains("Hold orbit of planet by value, in the place of struct orbit *: 40 bytes in the place of 24"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("2,048 are found by the orbit of one planet each and none by several"), "{text}");
}

/// Why nothing is held by value, with the counts.
fn reason(option: &str) -> (Value, String) {
    let (planet, _, text) = advised(&[option]);
    assert!(planet["tried"].as_array().unwrap().iter().all(|of| of["change"] != "inline"), "{planet}");
    (planet["not_inlined"][0].clone(), text)
}

#[test]
fn what_several_elements_lead_to_stays_behind_its_pointers() {
    let (row, text) = reason("-DSHARED");
    assert_eq!(row["reason"], "1 of 2048 objects are pointed to by several elements' orbit");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("planet.orbit: orbit stays behind it: 1 of 2048 objects"), "{text}");
}

#[test]
fn what_is_gone_through_otherwise_stays_behind_its_pointers() {
    let (row, _) = reason("-DLISTED");
    assert!(row["reason"].as_str().unwrap().ends_with("of the accesses to it do not come through orbit"), "{row}");
    // Two loads of each in a list, twice a pass, and one through its planet.
    let through = row["ownership"]["through"].as_f64().unwrap();
    assert!((0.19..0.21).contains(&through), "{row}");
}

#[test]
fn what_is_used_beside_what_took_its_place_stays_behind_its_pointers() {
    let (row, _) = reason("-DCHANGED");
    assert_eq!(row["ownership"]["outlived"], 1, "{row}");
    assert!(
        row["reason"].as_str().unwrap().starts_with("1 of 2049 objects are used, or there, when orbit leads elsewhere"),
        "{row}"
    );
}
