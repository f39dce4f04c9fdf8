//! End to end: each sample program is compiled, recorded and reported, and the report is held against what the
//! program states about itself and what it measured while it was recorded.

mod judge;

use std::path::Path;
use std::process::{Command, Output};

use sample_programs::{Optimization, Program, Times};
use slimline_report::view::Report;

/// The one way that a program is checked: record at 1 kHz, for samples enough in a short run, report, compare.
fn check(name: &str, optimization: Optimization) {
    let program = Program::named(name).unwrap();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let executable = program.build(optimization, &scratch.join("programs")).unwrap();
    let run = tempfile::tempdir_in(scratch).unwrap();
    let (session, measured) = (run.path().join("session"), run.path().join("truth"));

    let mut record = Command::new(env!("CARGO_BIN_EXE_slimline"));
    record.args(["record", "-F", "1000", "-o"]).arg(&session).arg("--").arg(&executable).env("TRUTH", &measured);
    succeed(&mut record);
    let mut report = Command::new(env!("CARGO_BIN_EXE_slimline"));
    let report = succeed(report.arg("report").arg(&session).args(["--format", "json"]));
    let report: Report = serde_json::from_slice(&report.stdout).unwrap();

    let truth = program.truth().unwrap();
    let mut times = Times::read(&measured).unwrap();
    let allocating: Vec<_> = truth.loops.iter().filter(|stated| stated.allocates).collect();
    if !allocating.is_empty() {
        // What the program itself measured while recorded holds what tracking its allocations cost.
        succeed(Command::new(&executable).env("TRUTH", &measured));
        let alone = Times::read(&measured).unwrap();
        for stated in allocating {
            times.replace(&stated.name, &alone).unwrap();
        }
    }
    for group in report.groups.iter().filter(|group| group.share > 0.0) {
        let whole = group.fields.iter().map(|field| field.share).sum::<f64>() + group.elsewhere;
        assert!((whole - 1.0).abs() < 1e-9, "{}: fields and what is in none are {whole} of it", group.name);
    }
    let wrong = judge::judge(&truth, &times, &report);
    assert!(wrong.is_empty(), "{}:\n  {}", executable.display(), wrong.join("\n  "));
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    output
}

/// One module a program, one test an optimization level.
macro_rules! check_at_o2_and_o3 {
    ($($program:ident;)*) => {$(
        mod $program {
            use sample_programs::Optimization;

            #[test]
            fn at_o2() {
                super::check(stringify!($program), Optimization::O2);
            }

            #[test]
            fn at_o3() {
                super::check(stringify!($program), Optimization::O3);
            }
        }
    )*};
}

check_at_o2_and_o3! {
    int4_two_loops;
    art;
    neighbor;
    tsp_tree;
    zones;
    column_major;
    list_chase;
    gather;
    search_tree;
    three_levels;
    particles;
    new_array;
    vec_struct;
    threads;
}
