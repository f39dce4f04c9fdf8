//! `slimline advise TRACE`: layouts of structures that were tried.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::traced::{failed, json, slimline, traced, traced_so};

/// A core with a cache of 4 KiB, so that small programs miss it.
pub(super) const MACHINE: &str = r#"
name = "small"
cache = [{ name = "L1", level = 1, holds = "data", size = 4096, line = 64, ways = 8, latency = 4 }]
memory = [{ name = "memory", latency = 200 }]
"#;

/// Bodies of 64 bytes of which loops use 16, and a program that uses all of each. `LINKED` makes nodes of them.
const BODIES: &str = r#"
#include <stdlib.h>
struct body { double x, y, z, vx, vy, vz, mass; struct body *next; };
#ifdef LINKED
static struct body *bodies;
int main(void) {
    for (int i = 0; i < 2048; i++) {
        struct body *body = calloc(1, sizeof *body);
        body->next = bodies, bodies = body;
    }
    double sum = 0;
    for (int pass = 0; pass < 40; pass++)
        for (struct body *body = bodies; body; body = body->next) sum += body->x;
    return sum > 1;
}
#else
int main(void) {
    struct body *bodies = calloc(2048, sizeof *bodies);
    double sum = 0;
    for (int pass = 0; pass < 40; pass++)
        for (int i = 0; i < 2048; i++) {
#ifdef ALL
            struct body *body = &bodies[i];
            sum += body->x + body->y + body->z + body->vx + body->vy + body->vz + body->mass + (body->next != 0);
#else
            bodies[i].x += bodies[i].vx;
#endif
        }
    return sum > 1;
}
#endif
"#;

pub(super) const TRACE: [&str; 3] = ["run.trace", "--machine", "small.toml"];

/// What is said of `struct body` in a program that is compiled with these options; and where its trace is.
fn advised(options: &[&str]) -> (Value, Value, tempfile::TempDir) {
    let directory = traced_so(BODIES, options);
    fs::write(directory.path().join("small.toml"), MACHINE).unwrap();
    let report = json(directory.path(), &[&["advise"], &TRACE[..]].concat());
    let mut structures = report["structures"].as_array().unwrap().iter();
    let body = structures.find(|of| of["name"].as_str().unwrap().ends_with("body")).expect("what all accesses are to");
    (body.clone(), report, directory)
}

#[test]
fn an_array_is_split_by_what_loops_use_together() {
    let (body, report, directory) = advised(&[]);
    assert_eq!((&report["machine"], &report["schema"]), (&"small".into(), &1.into()));
    assert_eq!((&body["bytes"], &body["objects"]), (&64.into(), &1.into()));
    assert_eq!(body["patterns"][0]["fields"], serde_json::json!(["x", "vx"]));
    let advice = &body["advice"];
    assert_eq!((&advice["change"], &advice["parts"][0]), (&"split".into(), &serde_json::json!(["x", "vx"])));
    assert_eq!(advice["part_bytes"][0], 16);
    // 64 bytes become 16: a quarter of the lines.
    let lines = advice["predicted"]["memory_lines_ratio"].as_f64().unwrap();
    assert!((0.24..0.27).contains(&lines), "{advice}");
    let predicted = |what: &str| advice["predicted"][what].as_f64().unwrap();
    let (low, expected, high) = (predicted("time_ratio_low"), predicted("time_ratio"), predicted("time_ratio_high"));
    assert!(low <= expected && expected <= high && expected < 0.7, "{advice}");
    assert!(advice["code"].as_str().unwrap().starts_with("struct body_x_vx {\n    double x;\n    double vx;\n};\n"));
    let lines = advice["touched_lines"].as_array().unwrap();
    assert!(lines.iter().any(|line| line.as_str().unwrap().ends_with(":26")), "{lines:?}");

    let text = slimline(directory.path(), &[&["advise"], &TRACE[..]].concat());
    assert!(text.contains("\n  Split body into {x vx} {y z vy vz mass next}\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

/// Compiled by a relative name in a directory of its own, and asked for from two others.
#[test]
fn sources_are_found_from_other_directories() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let source = root.join("source");
    fs::create_dir(&source).unwrap();
    let asserted = format!("{BODIES}_Static_assert(sizeof(struct body) == 64, \"as in files\");\n");
    fs::write(source.join("sky.c"), &asserted).unwrap();
    slimline(&source, &["cc", "-O1", "-g", "-o", "../program", "sky.c"]);
    slimline(&root, &["trace", "-o", "run.trace", "--", "./program"]);
    fs::write(root.join("small.toml"), MACHINE).unwrap();
    let relied_on = |file: &str| format!("its size is relied on at {file}:{}", asserted.lines().count());

    let text = slimline(&root, &[&["advise"], &TRACE[..]].concat());
    assert!(text.contains(&format!("Mind that {}.", relied_on("source/sky.c"))), "{text}");
    assert!(text.contains("Lines that touch fields that move: source/sky.c:26"), "{text}");

    let elsewhere = tempfile::tempdir().unwrap();
    let [trace, machine, file] =
        ["run.trace", "small.toml", "source/sky.c"].map(|name| root.join(name).display().to_string());
    let report = json(elsewhere.path(), &["advise", &trace, "--machine", &machine]);
    let advice = &report["structures"][0]["advice"];
    assert_eq!(advice["cautions"][0], relied_on(&file));
    assert_eq!(advice["touched_lines"][0], format!("{file}:26"));
}

#[test]
fn nodes_keep_what_is_hot_and_lie_side_by_side() {
    let (body, ..) = advised(&["-DLINKED"]);
    let advice = &body["advice"];
    assert_eq!((&advice["change"], &advice["is_pool"]), (&"hot_cold_split".into(), &true.into()));
    assert_eq!(advice["parts"], serde_json::json!([["x", "next"], ["y", "z", "vx", "vy", "vz", "mass"]]));
    assert_eq!(advice["part_bytes"], serde_json::json!([24, 48]));
    assert!(advice["code"].as_str().unwrap().contains("    struct body_cold *cold;\n"));
}

/// Of eight bytes each, of which values need less: a pointer and what is loaded with another field stay.
const RECORDS: &str = r#"
#include <stdlib.h>
#include <string.h>
enum color { RED, GREEN };
struct record { long id, kind; double weight; unsigned long large; const char *name; long both[2], wide; enum color color; };
struct table { long size; struct record sentinel; };
struct table table;
int main(int argc, char **argv) {
    struct record *records = calloc(2048, sizeof *records), *copy = malloc(sizeof *copy);
    long sum = 0;
    for (long i = 0; i < 2048; i++)
        records[i] = (struct record){.id = -i, .kind = i % 3, .weight = i / 2.0, .large = 1ul << 40 | i, .name = "a", .wide = 3, .color = GREEN};
    // As a member of another structure it holds more.
    table.sentinel.wide = 1l << 40 | argc;
    for (int pass = 0; pass < 40; pass++)
        for (int i = 0; i < 2048; i++) {
            struct record *record = &records[(i * 97 + pass) % 2048];
            sum += record->id * record->kind + (long)record->weight + (long)(record->large >> 20) + *record->name;
            long both[2];
            memcpy(both, record->both, sizeof both);
            sum += both[0];
            *copy = *record;
            sum += record->wide + record->color + table.sentinel.wide;
        }
    return sum == copy->id;
}
"#;

#[test]
fn fields_get_the_narrower_types_that_their_values_allow() {
    let directory = traced_so(RECORDS, &["--slimline-values"]);
    fs::write(directory.path().join("small.toml"), MACHINE).unwrap();
    let report = json(directory.path(), &[&["advise"], &TRACE[..]].concat());
    let mut structures = report["structures"].as_array().unwrap().iter();
    let record = structures.find(|of| of["name"].as_str().unwrap().ends_with("record")).expect("what accesses are to");
    let narrower: Vec<String> = record["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| {
            let of = &field["narrower"];
            format!("{} {} {} {}", field["name"], of["type"], of["least"], of["greatest"])
        })
        .collect();
    let expected = [
        r#""id" "int16_t" "-2047" "0""#,
        r#""kind" "int8_t" "0" "2""#,
        r#""weight" "float" "0" "1023.5""#,
        r#""large" null null null"#,
        r#""name" null null null"#,
        r#""both" null null null"#,
        r#""wide" null null null"#,
        r#""color" null null null"#,
    ];
    assert_eq!(narrower, expected);
    let tried = record["tried"].as_array().unwrap().iter().find(|of| of["change"] == "shrink").expect("is tried");
    // 16 bytes of both, 8 of name, large and wide, 4 of weight and color, and 2 + 1.
    assert_eq!(tried["part_bytes"], serde_json::json!([56]));
    assert!(tried["time_ratio"].as_f64().unwrap() < 1.0, "{tried}");
}

/// Nodes of which a walk uses three numbers that stay small, and never the note.
const COUNTED: &str = r#"
#include <stdlib.h>
struct item { long key, kind; char note[48]; long count; struct item *next; };
int main(void) {
    struct item *items = 0;
    for (int i = 0; i < 2048; i++) {
        struct item *item = calloc(1, sizeof *item);
        item->key = i, item->kind = i % 3, item->count = i % 9, item->next = items, items = item;
    }
    long sum = 0;
    for (int pass = 0; pass < 40; pass++)
        for (struct item *item = items; item; item = item->next) sum += item->key * item->kind + item->count;
    return sum == 1;
}
"#;

/// What is left of a node with narrower fields alone, with the note elsewhere alone, and with both: the best of all is advised.
#[test]
fn hot_parts_have_narrower_fields() {
    let directory = traced_so(COUNTED, &["--slimline-values"]);
    fs::write(directory.path().join("small.toml"), MACHINE).unwrap();
    let report = json(directory.path(), &[&["advise"], &TRACE[..]].concat());
    let item = &report["structures"][0];
    let advice = &item["advice"];
    assert_eq!(advice["change"], "hot_cold_split", "{item}");
    assert_eq!(advice["narrowed"], serde_json::json!(["key", "kind", "count"]));
    // Two pointers and 2 + 1 + 1.
    assert_eq!(advice["part_bytes"], serde_json::json!([24, 48]));
    let ratio = |change: &str, is_narrowed: bool| {
        let is_it = |of: &&Value| {
            of["change"] == change && of["is_pool"] == true && (of["narrowed"] != serde_json::json!([])) == is_narrowed
        };
        let tried = item["tried"].as_array().unwrap().iter().find(is_it);
        tried.unwrap_or_else(|| panic!("{change}: {item}"))["time_ratio"].as_f64().unwrap()
    };
    let both = ratio("hot_cold_split", true);
    assert!(both < ratio("hot_cold_split", false) && both < ratio("shrink", true), "{item}");
    let code = advice["code"].as_str().unwrap();
    assert!(
        code.contains("    int16_t key;\n    int8_t kind;\n    int8_t count;\n    struct item_cold *cold;\n"),
        "{code}"
    );
    let cautions = advice["cautions"].as_array().unwrap();
    assert!(cautions[0].as_str().unwrap().contains("key 0 to 2047 (int16_t), kind 0 to 2 (int8_t)"), "{cautions:?}");
}

/// The commands that compiled the program are in its debug information; what comes out is compiled again, and ends as before.
#[test]
fn what_is_advised_is_written_as_a_patch() {
    let (_, _, directory) = advised(&[]);
    let patched = ["--patch", "change.diff"];
    let text = slimline(directory.path(), &[&["advise"], &TRACE[..], &patched].concat());
    let made = "\nPATCH\n  Of layouts those were tried that can be patched; there may be better ones without --patch.\n  \
                body: patched.\n  1 source changed, which clang takes";
    assert!(text.contains(made), "{text}");
    assert!(text.contains("\n      patch -p1 -d . < change.diff\n"), "{text}");
    let diff = fs::read_to_string(directory.path().join("change.diff")).unwrap();
    assert!(diff.contains("\n+struct body { double x, vx; };\n"), "{diff}");
    let run = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).current_dir(directory.path()).status().unwrap().code()
    };
    assert_eq!(run("patch", &["-p1", "--fuzz=0", "-s", "-i", "change.diff"]), Some(0));
    let source = fs::read_dir(directory.path()).unwrap().flatten().map(|entry| entry.file_name());
    let source = source.map(|name| name.into_string().unwrap()).find(|name| name.ends_with(".c")).unwrap();
    assert_eq!(run("gcc", &["-O2", "-Wall", "-Werror", &source, "-o", "again"]), Some(0));
    assert_eq!(run("./again", &[]), Some(0));
}

/// Also where nothing would be advised: a search takes minutes.
#[test]
fn commands_are_looked_for_before_anything_is_tried() {
    let (_, _, directory) = advised(&["-DALL"]);
    let patched = ["--patch", "change.diff", "--compile-commands", "none.json"];
    let said = failed(directory.path(), &[&["advise"], &TRACE[..], &patched].concat());
    assert!(said.contains("none.json: "), "{said}");
    assert!(!directory.path().join("change.diff").exists());
}

/// The project's commands tell of another unit, which has a structure of that name, too.
#[test]
fn what_can_not_be_patched_is_said() {
    let (_, _, directory) = advised(&["-DLINKED"]);
    let path = |name: &str| directory.path().join(name).display().to_string();
    fs::write(path("save.c"), "struct body { double x; };\ndouble of(struct body *body) { return body->x; }\n")
        .unwrap();
    let command = |file: &str| serde_json::json!({ "directory": path(""), "file": file, "command": format!("cc -DLINKED -c {file}") });
    let tell = |files: &[&str]| {
        let commands: Vec<_> = files.iter().map(|file| command(file)).collect();
        fs::write(path("commands.json"), serde_json::to_vec(&commands).unwrap()).unwrap();
    };
    let patched = ["--patch", "change.diff", "--compile-commands", "commands.json"];
    let arguments = [&["advise"], &TRACE[..], &patched].concat();
    tell(&["save.c"]);
    let said = failed(directory.path(), &arguments);
    assert!(said.contains("commands.json: does not tell how ") && said.contains("program.c is compiled"), "{said}");
    tell(&["save.c", "program.c"]);
    let report = json(directory.path(), &arguments);
    let patch = &report["patch"];
    assert_eq!(patch["structures"][0]["refused"], "there are several structures of that name");
    assert!(patch["file"].is_null());
    assert_eq!(fs::read_to_string(path("change.diff")).unwrap(), "");
    let said = failed(
        directory.path(),
        &[&["advise"], &TRACE[..], &["--patch", "a", "--compile-commands", "save.c"]].concat(),
    );
    assert!(said.contains("save.c: no file of compile commands: "), "{said}");
}

/// Two threads allocate nodes, far from each other; a parent process forks.
const THREADS: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
struct node { long key; char note[48]; struct node *next; };
static void *work(void *passes) {
    struct node *list = 0;
    for (int i = 0; i < 1024; i++) {
        struct node *node = calloc(1, sizeof *node);
        node->key = i, node->next = list, list = node;
    }
    long sum = 0;
    for (long pass = 0; pass < (long)passes; pass++)
        for (struct node *node = list; node; node = node->next) sum += node->key;
    return (void *)sum;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, (void *)20);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    if (fork() == 0) return work((void *)20) == 0;
    wait(0);
    return 0;
}
"#;

#[test]
fn threads_and_processes_have_their_own_memory() {
    let directory = traced_so(THREADS, &[]);
    fs::write(directory.path().join("small.toml"), MACHINE).unwrap();
    let report = json(directory.path(), &[&["advise"], &TRACE[..]].concat());
    let node = &report["structures"][0];
    assert_eq!((&node["bytes"], &node["objects"]), (&64.into(), &3072.into()), "{report}");
    assert_eq!(node["advice"]["change"], "hot_cold_split");
    assert_eq!(node["advice"]["parts"], serde_json::json!([["key", "next"], ["note"]]));
}

/// All of each element is used each time: no layout is advised.
#[test]
fn what_is_used_as_a_whole_is_left_alone() {
    let (body, report, _) = advised(&["-DALL"]);
    assert_eq!((&body["advice"], &report["together"]), (&Value::Null, &Value::Null));
    assert!(body["reason"].as_str().unwrap().contains("saves 5 % of the time, or 2 % for sure"), "{body}");
    assert!(body["share"].as_f64().unwrap() > 0.9, "{body}");
    let shares = report["structures"].as_array().unwrap().iter().map(|of| of["share"].as_f64().unwrap());
    let rest = ["other_share", "unknown_share"].map(|of| report[of].as_f64().unwrap());
    assert!((shares.chain(rest).sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn what_is_wrong_is_one_line() {
    let directory = traced(BODIES);
    let run = |arguments: &[&str]| failed(directory.path(), &[&["advise"], arguments].concat());
    assert!(run(&["missing", "--machine", "host"]).contains("missing: no such session or trace"));
    assert!(run(&[".", "--machine", "host"]).contains("--machine goes with a trace"));
    assert!(run(&["run.trace", "--verbose"]).contains("--verbose goes with a session"));
    assert!(
        run(&["run.trace", "--machine", "nowhere"]).contains("--machine nowhere: neither host, measured, valgrind")
    );
}
