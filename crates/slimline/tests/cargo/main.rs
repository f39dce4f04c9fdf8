//! `slimline cargo`: a project that is built, run and tested by it, and what can't be.

mod project;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Neither vectors nor anything else that makes several accesses one.
const SCALAR: &str = "-C no-vectorize-loops -C no-vectorize-slp";
/// Where programs are, below the target directory.
const PROGRAMS: &str = "slimline/x86_64-unknown-linux-gnu";
/// What the program prints.
const PRINTED: &str = "27 [2000.0, 2000.0, 2000.0, 2000.0] 374250 1200 true [1, 1, 1, 1, 1, 1, 1, 1]\n2000\n";

/// The project in a directory of its own.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in project::FILES {
            let file = directory.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        Self(directory)
    }

    /// `slimline` in it, without what the cargo that runs this test has set.
    fn slimline(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
        command.current_dir(self.0.path()).args(arguments).env("CARGO_NET_OFFLINE", "true");
        for name in
            ["CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTDOC", "RUSTC"]
        {
            command.env_remove(name);
        }
        command.env("RUSTFLAGS", SCALAR).env("RUST_BACKTRACE", "0");
        command
    }

    fn place(&self, name: &str) -> PathBuf {
        self.0.path().join("target").join(name)
    }

    /// The report of the program of this profile, with these options.
    fn traced(&self, profile: &str, options: &[&str]) -> Value {
        let program = self.place(PROGRAMS).join(profile).join("app");
        let mut slimline = self.slimline(&["trace", "--live", "--format", "json"]);
        let output = slimline.args(options).arg("--").arg(&program).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        let report = text(&output.stdout).strip_prefix(PRINTED);
        serde_json::from_str(report.unwrap_or_else(|| panic!("{}", text(&output.stdout)))).unwrap()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    output
}

/// The one line of a command that was refused.
fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    said.trim_end().to_owned()
}

/// Loads and stores of the row of this name.
fn named(rows: &Value, name: &str) -> (u64, u64) {
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name);
    row.map_or((0, 0), |row| (row["loads"].as_u64().unwrap(), row["stores"].as_u64().unwrap()))
}

fn is_instrumented(file: &Path) -> bool {
    let section = b"slimline_sites";
    fs::read(file).unwrap().windows(section.len()).any(|part| part == section)
}

/// Executables and shared libraries below a directory.
fn programs(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for file in fs::read_dir(directory).unwrap().map(|file| file.unwrap()) {
        let kind = file.file_type().unwrap();
        if kind.is_dir() {
            found.extend(programs(&file.path()));
        } else if kind.is_file() && file.metadata().unwrap().permissions().mode() & 0o100 != 0 {
            found.push(file.path());
        }
    }
    found
}

/// What loops do in closed form: N is 1000.
fn check_counts(report: &Value) {
    assert_eq!(named(&report["functions"], "bodies::drift"), (2 * 20 * 1000, 20 * 1000));
    // By four threads, and by the library that is opened.
    assert_eq!(named(&report["functions"], "bodies::weigh"), (5 * 1000, 0));
    assert_eq!(named(&report["fields"], "bodies::Body.x"), (20 * 1000, 21 * 1000));
    assert_eq!(named(&report["fields"], "bodies::Body.mass"), (5 * 1000, 1000));
    assert_eq!(named(&report["variables"], "TICKS"), (4 * 50, 4 * 50));
    // A panic at the 78th value; its unwinding drops the guard.
    assert_eq!(named(&report["functions"], "bodies::fail_at").0, 78);
    assert_eq!(named(&report["functions"], "<bodies::Guard as core::ops::drop::Drop>::drop").1, 8);
    assert_eq!(report["processes"].as_array().unwrap().len(), 1);
    assert_eq!(report["processes"][0]["threads"], 5);
}

#[test]
fn a_project_is_built_and_traced() {
    let project = Project::new();
    let built = succeeds(&mut project.slimline(&["cargo", "build", "--release"]));
    let said = text(&built.stderr);
    assert!(said.starts_with("slimline: building in ") && said.contains("the standard library is prebuilt"), "{said}");
    // A program alone does what it does.
    let alone = Command::new(project.place(PROGRAMS).join("release/app")).output().unwrap();
    assert_eq!((alone.status.code(), text(&alone.stdout)), (Some(3), PRINTED));
    let report = project.traced("release", &[]);
    check_counts(&report);
    // What was asked for is told with its type, its fields and where.
    let heap = report["heap"].as_array().unwrap();
    let made_for =
        |name: &str| heap.iter().find(|group| group["type_name"] == name).unwrap_or_else(|| panic!("no {name}"));
    let all = made_for("bodies::Body");
    assert_eq!(
        (&all["function"], &all["blocks"], &all["peak_bytes"]),
        (&"bodies::make".into(), &1.into(), &64_000.into())
    );
    assert_eq!((all["file"].as_str(), all["line"].as_u64()), (Some("bodies/src/lib.rs"), Some(18)));
    assert_eq!(named(&all["fields"], "bodies::Body.speed"), (20 * 1000, 1000));
    assert_eq!(named(&all["fields"], "bodies::Body.tag"), (0, 1000));
    let nodes = made_for("bodies::Node");
    assert_eq!((&nodes["function"], &nodes["blocks"]), (&"bodies::list".into(), &500.into()));
    assert_eq!(named(&nodes["fields"], "bodies::Node.key"), (3 * 500, 500));
    assert_eq!(named(&nodes["fields"], "bodies::Node.next"), (3 * 500, 500));
    // Alternatives share their bytes; the optimizer may load what it does not use.
    assert!(named(&report["fields"], "bodies::Shape.Disc.radius | Box.0").0 >= 40);
    for (variable, loads) in [("body", 40_000), ("bodies", 5000)] {
        assert_eq!(named(&report["variables"], variable).0, loads, "{variable}");
    }
    let body = &report["structures"][0];
    assert_eq!(
        (&body["name"], &body["bytes"], &body["verdict"]),
        (&"bodies::Body".into(), &64.into(), &"split".into())
    );
    let code = body["code"].as_str().unwrap();
    assert!(
        code.contains("struct Body_cold {\n    mass: f64,\n") && code.ends_with("    cold: Box<Body_cold>,\n}\n"),
        "{code}"
    );
    assert!(code.contains("name: [u8; 36],"), "{code}");
    // Build scripts and procedural macros run here and now: they are the compiler's host's.
    let [host, target] = ["slimline/release", PROGRAMS].map(|directory| programs(&project.place(directory)));
    assert!(host.len() >= 2 && !host.iter().any(|file| is_instrumented(file)), "{host:?}");
    assert!(target.len() >= 2 && target.iter().all(|file| is_instrumented(file)), "{target:?}");
    assert!(!project.place("release").exists(), "what cargo builds by itself is elsewhere");
    // Nothing is left of what was made in between, and nothing is made twice.
    let files = fs::read_dir(project.place(PROGRAMS).join("release/deps")).unwrap();
    let left: Vec<_> =
        files.map(|file| file.unwrap().path()).filter(|file| file.extension().is_some_and(|it| it == "bc")).collect();
    assert!(left.is_empty(), "{left:?}");
    let again = succeeds(&mut project.slimline(&["cargo", "build", "--release"]));
    assert!(!text(&again.stderr).contains("Compiling"), "{}", text(&again.stderr));
}

#[test]
fn its_tests_run_as_they_do() {
    let project = Project::new();
    let tested = succeeds(&mut project.slimline(&["cargo", "test"]));
    let said = text(&tested.stdout);
    assert!(said.contains("test tests::drifts ... ok"), "{said}");
    // Tests in documentation are linked with what is traced.
    assert!(said.contains("test bodies/src/lib.rs - drift (line 9) ... ok"), "{said}");
    let mut traced = project.slimline(&["trace", "--live", "--format", "json", "--function", "bodies::drift", "--"]);
    let output =
        succeeds(traced.args([env!("CARGO_BIN_EXE_slimline"), "cargo", "test", "-q", "--lib", "-p", "bodies"]));
    let at = text(&output.stdout).find("{\n").unwrap();
    let report: Value = serde_json::from_str(&text(&output.stdout)[at..]).unwrap();
    assert_eq!(named(&report["fields"], "bodies::Body.x"), (4, 4), "the test drifts four bodies");
}

#[test]
fn levels_values_and_link_time_optimization() {
    let project = Project::new();
    succeeds(&mut project.slimline(&["cargo", "build"]));
    let report = project.traced("debug", &["--function", "bodies::drift"]);
    assert_eq!(named(&report["fields"], "bodies::Body.x"), (20 * 1000, 20 * 1000));
    assert_eq!(named(&report["fields"], "bodies::Body.speed"), (20 * 1000, 0));
    // Values, and all crates in one piece: the standard library's code is part of it.
    let fat = ["cargo", "--config", "profile.release.lto='fat'", "build", "--release", "--slimline-values"];
    succeeds(&mut project.slimline(&fat));
    let report = project.traced("release", &[]);
    check_counts(&report);
    let speed = report["values"].as_array().unwrap().iter().find(|row| row["name"] == "bodies::Body.speed").unwrap();
    assert_eq!((&speed["values"], &speed["least"], &speed["greatest"]), (&21_000.into(), &"1".into(), &"1".into()));
    // Without them everything is compiled anew.
    let without = succeeds(&mut project.slimline(&[&fat[..5]].concat()));
    assert!(text(&without.stderr).contains("Compiling bodies"), "{}", text(&without.stderr));
    assert_eq!(project.traced("release", &[])["values"], Value::Array(Vec::new()));
}

#[test]
fn what_can_t_be_traced_is_refused() {
    let project = Project::new();
    let line = refused(&mut project.slimline(&["cargo", "build", "--target", "aarch64-unknown-linux-gnu"]));
    assert_eq!(line, "slimline: --target aarch64-unknown-linux-gnu can't be traced, only x86_64-unknown-linux-gnu");
    // A compiler with an LLVM that nobody knows yet.
    let rustc = project.0.path().join("rustc");
    fs::write(
        &rustc,
        "#!/bin/sh\necho 'rustc 9.0.0'\necho 'host: x86_64-unknown-linux-gnu'\necho 'LLVM version: 97.1.0'\n",
    )
    .unwrap();
    fs::set_permissions(&rustc, fs::Permissions::from_mode(0o755)).unwrap();
    let line = refused(project.slimline(&["cargo", "build"]).env("RUSTC", &rustc));
    assert_eq!(line, "slimline: rustc 9.0.0 has LLVM 97, and bitcode of versions 19 to 22 can be rewritten");
    let line = refused(project.slimline(&["cargo", "build"]).env("RUSTC", "/nowhere/rustc"));
    assert_eq!(line, "slimline: /nowhere/rustc: No such file or directory (os error 2)");
    // What is seen when linking only, cargo tells with its own words around it.
    let fixed =
        project.slimline(&["cargo", "build", "-p", "app"]).env("RUSTFLAGS", "-C target-feature=+crt-static").output();
    let fixed = fixed.unwrap();
    assert_eq!(fixed.status.code(), Some(101), "{}", text(&fixed.stderr));
    let reason = "can't be combined with tracing: the runtime needs the dynamic linker";
    assert!(text(&fixed.stderr).contains(reason), "{}", text(&fixed.stderr));
    // cargo's own mistakes are cargo's to tell.
    let unknown = project.slimline(&["cargo", "build", "--nonsense"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(1), "{}", text(&unknown.stderr));
}

#[test]
fn questions_are_answered_by_cargo() {
    let project = Project::new();
    let version = succeeds(&mut project.slimline(&["cargo", "--version"]));
    assert!(text(&version.stdout).starts_with("cargo "), "{version:?}");
    let help = succeeds(&mut project.slimline(&["cargo", "--help"]));
    let said = text(&help.stdout);
    assert!(said.starts_with("Options of slimline's own:\n  --slimline-values") && said.contains("--list"), "{said}");
}
