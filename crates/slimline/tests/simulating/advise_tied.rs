//! What relies on a layout that is to change: by a session's advice and by a trace's, the same.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::advise::{MACHINE, TRACE};
use super::traced::{json, slimline};

const HEADER: &str = "#include <pthread.h>
struct body { double x, vx, y, z, vy, vz, mass; pthread_mutex_t lock; };
double weigh(struct body *bodies, long count, long passes);
";
const LIBRARY: &str = "#include \"sky.h\"
_Static_assert(sizeof(struct body) == 96, \"as in files\");
double weigh(struct body *bodies, long count, long passes) {
  double sum = 0;
  for (long pass = 0; pass < passes; pass++)
    for (long i = 0; i < count; i++)
      sum += bodies[i].x * bodies[i].mass;
  return sum;
}
";
/// Bodies, and how often they are gone through.
const PROGRAM: &str = "#include <stdlib.h>
#include <sky.h>
int main(int argc, char **argv) {
  long count = atol(argv[1]), passes = atol(argv[2]);
  struct body *bodies = calloc(count, sizeof *bodies);
  return weigh(bodies, count, passes) > 1;
}
";

/// A program with its library, or alone.
fn build(directory: &Path, compiler: &[&str], with_library: bool) {
    for (name, text) in [("sky.h", HEADER), ("sky.c", LIBRARY), ("program.c", PROGRAM), ("small.toml", MACHINE)] {
        fs::write(directory.join(name), text).unwrap();
    }
    let run = |arguments: &[&str]| {
        let mut command = Command::new(compiler[0]);
        let all = compiler[1..].iter().chain(&["-O1", "-g", "-I."]).chain(arguments);
        let output = command.args(all).current_dir(directory).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    if with_library {
        run(&["-shared", "-fPIC", "-o", "libsky.so", "sky.c"]);
        run(&["-o", "program", "program.c", "-L.", "-lsky", "-Wl,-rpath,$ORIGIN"]);
    } else {
        run(&["-o", "program", "program.c", "sky.c"]);
    }
}

/// What to mind, without the directory.
fn cautions(advice: &Value, directory: &Path) -> Vec<String> {
    let all = advice["cautions"].as_array().unwrap_or_else(|| panic!("{advice:#}"));
    let here = format!("{}/", directory.canonicalize().unwrap().display());
    all.iter().map(|caution| caution.as_str().unwrap().replace(&here, "")).collect()
}

const SIZE: &str = "its size is relied on at sky.c:2";
const EXPORTED: &str = "other programs that were built with its header rely on its layout, as functions or variables of it are exported at sky.c:3";
const LOCK: &str = "lock is a lock: who holds it uses what it guards, which is best kept beside it, and which fields that are nothing here tells";

#[test]
fn of_a_trace() {
    for (with_library, expected) in [(true, vec![SIZE, EXPORTED, LOCK]), (false, vec![SIZE, LOCK])] {
        let directory = tempfile::tempdir().unwrap();
        build(directory.path(), &[env!("CARGO_BIN_EXE_slimline"), "cc"], with_library);
        slimline(directory.path(), &["trace", "-o", "run.trace", "--", "./program", "2048", "40"]);
        let report = json(directory.path(), &[&["advise"], &TRACE[..]].concat());
        let body = &report["structures"][0];
        assert_eq!(cautions(&body["advice"], directory.path()), expected, "{body:#}");
    }
}

#[test]
fn of_a_session() {
    let mut confidences = Vec::new();
    for (with_library, expected) in [(true, vec![SIZE, EXPORTED, LOCK]), (false, vec![SIZE, LOCK])] {
        let directory = tempfile::tempdir().unwrap();
        build(directory.path(), &["cc"], with_library);
        slimline(directory.path(), &["record", "--", "./program", "500000", "60"]);
        let report = json(directory.path(), &["advise"]);
        let advice = &report["advice"][0];
        assert_eq!(cautions(advice, directory.path()), expected, "{advice:#}");
        confidences.push(advice["confidence"].as_str().unwrap().to_owned());
        let text = slimline(directory.path(), &["advise"]).replace("\n  ", " ");
        assert!(text.contains("Mind that its size is relied on at "), "{text}");
    }
    assert!(!confidences.contains(&"high".to_owned()), "what relies on it makes it less sure: {confidences:?}");
}
