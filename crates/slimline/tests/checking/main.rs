//! `slimline layouts`, `diff` and `check`: what types are declared as, what changed, and whether it may.

mod compared;
mod declared;
mod gate;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../ends/scratch.rs"]
mod scratch;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../ends/viewers.rs"]
mod viewers;

use std::fs;
use std::process::Output;

use scratch::{Scratch, stderr, stdout};

/// Two loops over an array of structures, each of which uses one field: some 0.5 s.
const BODIES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct body { double x, y; long id; char rest[32]; double mass; };
static struct body *bodies;
enum { N = 1 << 17 };
static double heaviest(void) {
    double most = 0;
    for (long i = 0; i < N; i++)
        if (bodies[i].mass > most) most = bodies[i].mass;
    return most;
}
static void drift(void) {
    for (long i = 0; i < N; i++) bodies[i].x += 0.5;
}
int main(void) {
    bodies = calloc(N, sizeof *bodies);
    double sum = 0;
    for (int step = 0; step < 400; step++) {
        drift();
        sum += heaviest();
    }
    printf("%g %g\n", sum, bodies[7].x);
    return 0;
}
"#;

/// The same program, with a field that pushes `mass` from offset 56 to 64, over the line.
fn planted() -> String {
    BODIES.replace("long id;", "long id, extra;")
}

fn slimline(scratch: &Scratch, arguments: &[&str]) -> Output {
    scratch.slimline(arguments).output().unwrap()
}

fn shown(scratch: &Scratch, arguments: &[&str]) -> String {
    let output = slimline(scratch, arguments);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

/// A program of that source, in a file of the same name in both versions.
fn compile(scratch: &Scratch, name: &str, source: &str) {
    let directory = scratch.path(&format!("{name}.src"));
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("bodies.c"), source).unwrap();
    let output = scratch.bash(&format!("gcc -O2 -g {name}.src/bodies.c -o {name}")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// What a command prints goes to a file.
fn keep(scratch: &Scratch, arguments: &[&str], file: &str) {
    fs::write(scratch.path(file), shown(scratch, arguments)).unwrap();
}
