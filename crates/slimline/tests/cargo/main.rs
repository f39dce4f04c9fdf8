//! `slimline cargo`: a project that is built, run and tested by it, and what can't be.

mod project;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

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
        Self::of(project::FILES)
    }

    fn of(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
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
        for name in [
            "CARGO_TARGET_DIR",
            "CARGO_INCREMENTAL",
            "CARGO_ENCODED_RUSTFLAGS",
            "RUSTC_WRAPPER",
            "RUSTDOC",
            "RUSTC",
            "CARGO_BUILD_TARGET",
        ] {
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
        let mut slimline = self.slimline(&["trace", "--live", "--report", "-", "--format", "json"]);
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

/// What was made in between and is still there.
fn left_of(project: &Project, profile: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(project.place(PROGRAMS).join(profile).join("deps")).unwrap();
    let is_left = |file: &PathBuf| file.extension().is_some_and(|end| end == "bc" || end == "slimline");
    files.map(|file| file.unwrap().path()).filter(is_left).collect()
}

/// A program that runs in the place of rustc, whose path and arguments it is given, for the crates of the project.
fn in_place_of_rustc(project: &Project, script: &str) -> PathBuf {
    let file = project.0.path().join("in_place_of_rustc");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

/// What loops do in closed form: N is 1000.
fn check_counts(report: &Value) {
    assert_eq!(named(&report["functions"], "bodies::drift"), (2 * 20 * 1000, 20 * 1000));
    // By four threads, and by the library that is opened.
    assert_eq!(named(&report["functions"], "bodies::weigh"), (5 * 1000, 0));
    assert_eq!(named(&report["fields"], "bodies::Body.x"), (20 * 1000, 21 * 1000));
    assert_eq!(named(&report["fields"], "bodies::Body.mass"), (5 * 1000, 1000));
    assert_eq!(named(&report["variables"], "bodies::TICKS"), (4 * 50, 4 * 50));
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
    let notice: Vec<_> = said.lines().take_while(|line| line.starts_with("slimline: ")).collect();
    assert_eq!(
        notice,
        [
            "slimline: building in target/slimline/x86_64-unknown-linux-gnu",
            "slimline: the standard library is prebuilt: of it only what is generic or inlined is traced"
        ]
    );
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
    assert_eq!(left_of(&project, "release"), [] as [PathBuf; 0]);
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
    let mut traced = project.slimline(&[
        "trace",
        "--live",
        "--report",
        "-",
        "--format",
        "json",
        "--function",
        "bodies::drift",
        "--",
    ]);
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
    // What is built anew is traced, too, and so is what is kept of the parts of a crate that did not change.
    let source = project.0.path().join("bodies/src/lib.rs");
    let changed = fs::read_to_string(&source).unwrap().replace("sum += bodies[i].mass", "sum += bodies[i].speed * 2.0");
    fs::write(&source, changed).unwrap();
    let again = succeeds(&mut project.slimline(&["cargo", "build"]));
    assert!(!text(&again.stderr).contains("not traced"), "{}", text(&again.stderr));
    let report = project.traced("debug", &["--function", "bodies::*"]);
    assert_eq!(named(&report["fields"], "bodies::Body.x").0, 20 * 1000);
    assert_eq!(named(&report["fields"], "bodies::Body.speed").0, (20 + 5) * 1000);
    assert_eq!(named(&report["fields"], "bodies::Body.mass").0, 0);
    assert_eq!(left_of(&project, "debug"), [] as [PathBuf; 0]);
    succeeds(project.slimline(&["cargo", "build", "--release"]).env("CARGO_INCREMENTAL", "1"));
    let original =
        fs::read_to_string(&source).unwrap().replace("sum += bodies[i].speed * 2.0", "sum += bodies[i].mass");
    fs::write(&source, original).unwrap();
    succeeds(project.slimline(&["cargo", "build", "--release"]).env("CARGO_INCREMENTAL", "1"));
    check_counts(&project.traced("release", &[]));
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
fn crates_are_optimized_together_part_by_part() {
    let project = Project::new();
    let thin = ["cargo", "--config", "profile.release.lto='thin'", "build", "--release"];
    let built = succeeds(&mut project.slimline(&thin));
    assert!(!text(&built.stderr).contains("not traced"), "{}", text(&built.stderr));
    check_counts(&project.traced("release", &[]));
    assert_eq!(left_of(&project, "release"), [] as [PathBuf; 0]);
}

#[test]
fn libraries_for_other_languages() {
    let project = Project::of(&[
        ("Cargo.toml", "[package]\nname = 'sums'\nedition = '2024'\n[lib]\ncrate-type = ['cdylib', 'staticlib']\n"),
        (
            "src/lib.rs",
            r#"#[unsafe(no_mangle)]
pub extern "C" fn sum(values: &[u64; 100]) -> u64 { values.iter().map(|value| value * 2).collect::<Vec<_>>().iter().sum() }"#,
        ),
        (
            "main.c",
            "unsigned long sum(unsigned long *); unsigned long all[100]; int main(void) { return (int)sum(all); }",
        ),
    ]);
    succeeds(&mut project.slimline(&["cargo", "build", "--release"]));
    let made = project.place(PROGRAMS).join("release");
    for (program, library) in [("shared", "libsums.so"), ("static", "libsums.a")] {
        assert!(is_instrumented(&made.join(library)), "{library}");
        let program = project.0.path().join(program);
        let mut compiler = project.slimline(&["cc", "-O1", "main.c", "-o"]);
        succeeds(compiler.arg(&program).arg(made.join(library)).args(["-lpthread", "-ldl", "-lm"]));
        let mut traced = project.slimline(&["trace", "--live", "--report", "-", "--format", "json", "--"]);
        let output = succeeds(traced.arg(&program).env("LD_LIBRARY_PATH", &made));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        // A hundred of the caller's, and the vector's.
        let (loads, stores) = (&report["total"]["loads"], &report["total"]["stores"]);
        assert_eq!((loads, stores), (&200.into(), &100.into()), "{library}");
    }
}

#[test]
fn blocks_are_called_by_what_holds_them() {
    let project = Project::of(&[
        ("Cargo.toml", "[package]\nname = 'held'\nedition = '2024'\n"),
        (
            "src/main.rs",
            r#"struct Body { x: f64, speed: f64 }
struct Grid { cells: Vec<Body>, name: String }
fn main() {
    let mut bodies: Vec<Body> = (0..1000).map(|n| Body { x: f64::from(n), speed: 1.0 }).collect();
    for body in &mut bodies { body.x += body.speed; }
    let mut table = vec![0_u32; 5000];
    for n in 0..50_000_usize { table[n * 7919 % 5000] += 1; }
    let mut grid = Grid { cells: Vec::with_capacity(100), name: "grid".to_owned() };
    for n in 0..100 { grid.cells.push(Body { x: f64::from(n), speed: 2.0 }); }
    let sum: f64 = grid.cells.iter().map(|cell| cell.speed).sum();
    let scaled: Vec<u64> = table
        .iter()
        .map(|value| u64::from(*value) * 3)
        .collect();
    let total = std::hint::black_box(
        scaled.iter().map(|value| value + 1).collect::<Vec<u64>>()
    ).len();
    println!("{} {} {sum} {} {} {total}", bodies[3].x, table[3], grid.name, scaled[7]);
}"#,
        ),
    ]);
    succeeds(&mut project.slimline(&["cargo", "build", "--release"]));
    let program = project.place(PROGRAMS).join("release/held");
    succeeds(project.slimline(&["trace", "-o", "held.trace", "--"]).arg(program));
    let simulated = succeeds(&mut project.slimline(&["simulate", "held.trace", "--format", "json"]));
    let report: Value = serde_json::from_slice(&simulated.stdout).unwrap();
    let all = report["machines"][0]["by"]["data"].as_array().unwrap();
    // Nobody holds what is made within a call: not what was declared last.
    assert!(!all.iter().any(|row| row["name"] == "scaled" && row["allocated_at"]["line"] != 14), "{all:#?}");
    for (line, name) in [(4, "bodies"), (6, "table"), (8, "grid.cells"), (14, "scaled")] {
        let row = all.iter().find(|row| row["name"] == name && row["allocated_at"]["line"] == line);
        assert!(row.is_some(), "{name}: {all:#?}");
    }
}

#[test]
fn parts_that_can_t_be_traced_are_told() {
    let project = Project::new();
    // A compiler that has lost the bitcode of a part.
    let loses = r#"rustc=$1; shift
"$rustc" "$@" || exit
case "$*" in *"--crate-name bodies "*) ls target/slimline/*/debug/deps/bodies-*.rcgu.bc | head -n 2 | xargs rm;; esac"#;
    let script = in_place_of_rustc(&project, loses);
    let built = succeeds(project.slimline(&["cargo", "build", "-p", "app"]).env("RUSTC_WORKSPACE_WRAPPER", &script));
    let said = text(&built.stderr);
    let line = said.lines().find(|line| line.contains("not traced")).unwrap_or_else(|| panic!("{said}"));
    let (name, rest) = line.split_once(": 2 of its ").unwrap_or_else(|| panic!("{line}"));
    assert!(name.starts_with("slimline: bodies-"), "{line}");
    assert!(rest.ends_with(" parts are not traced: rustc wrote no bitcode of them"), "{line}");
}

const ARENA: &str = r#"
pub struct Node { next: *mut Node, key: u64 }
pub struct Arena { room: Vec<u64>, used: usize }
impl Arena {
    #[inline(never)]
    pub fn make(&mut self, _empty: (), bytes: usize) -> *mut u8 {
        let block = unsafe { self.room.as_mut_ptr().add(self.used) };
        self.used += bytes / 8;
        block.cast()
    }
}
fn main() {
    let bytes = std::env::args().count() * size_of::<Node>();
    let mut arena = Arena { room: vec![0; 1 << 12], used: 8 };
    let mut list: *mut Node = std::ptr::null_mut();
    for key in 0..100 {
        let node = arena.make((), bytes).cast::<Node>();
        unsafe { node.write(Node { next: list, key }) };
        list = node;
    }
    let mut sum = 0;
    while let Some(node) = unsafe { list.as_ref() } { sum += node.key; list = node.next; }
    println!("{sum}");
}
"#;

/// What is there already is compiled anew where they change.
#[test]
fn allocators_of_the_project_are_known() {
    let manifest = "[package]\nname = \"arena\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    let project = Project::of(&[("Cargo.toml", manifest), ("src/main.rs", ARENA)]);
    let counted = || {
        let built = succeeds(&mut project.slimline(&["cargo", "build", "--release"]));
        let program = project.place(PROGRAMS).join("release/arena");
        let output =
            succeeds(project.slimline(&["trace", "--live", "--report", "-", "--format", "json", "--"]).arg(program));
        let report: Value = serde_json::from_str(text(&output.stdout).strip_prefix("4950\n").unwrap()).unwrap();
        let groups = report["heap"].as_array().unwrap().iter();
        let counted: Vec<_> = groups.map(|it| ["blocks", "loads"].map(|key| it[key].as_u64().unwrap())).collect();
        (counted, text(&built.stderr).contains("a call of `arena::Arena::make` has not"))
    };
    let told = "[[allocator]]\nallocate = [{ function = \"arena::Arena::make\", size = 2 }]\n";
    let tell = |told: &str| fs::write(project.0.path().join("slimline.toml"), told).unwrap();
    assert!(!counted().0.contains(&[100, 200]));
    tell(told);
    let (blocks, is_unlike) = counted();
    assert!(blocks.contains(&[100, 200]) && !is_unlike, "{blocks:?}");
    tell(&told.replace("size = 2", "size = 3"));
    let (blocks, is_unlike) = counted();
    assert!(!blocks.contains(&[100, 200]) && is_unlike, "{blocks:?}");
    // Tools run elsewhere than slimline, which is told of files from where it runs, also where they tell of nothing.
    let source = project.0.path().join("src");
    for told in [told, ""] {
        fs::write(source.join("own.toml"), told).unwrap();
        // Compiled once more, also where it was with just these.
        fs::write(source.join("main.rs"), ARENA).unwrap();
        let mut build = project.slimline(&["cargo", "build", "--release", "--manifest-path", "../Cargo.toml"]);
        succeeds(build.current_dir(&source).env("SLIMLINE_CONFIGURATION", "own.toml"));
    }
}

#[test]
fn nothing_is_left_after_ctrl_c() {
    let project = Project::new();
    let waits = r#"rustc=$1; shift
"$rustc" "$@" || exit
case "$*" in *"--crate-name bodies "*--out-dir*) touch compiled; sleep 100;; esac"#;
    let script = in_place_of_rustc(&project, waits);
    let mut slimline = project.slimline(&["cargo", "build", "-p", "app"]);
    let mut slimline = slimline.env("RUSTC_WORKSPACE_WRAPPER", &script).process_group(0).spawn().unwrap();
    let wait_for = |what: &str, is_so: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            sleep(Duration::from_millis(20));
        }
    };
    wait_for("rustc is done", &|| project.0.path().join("compiled").exists());
    assert!(!left_of(&project, "debug").is_empty());
    let group = format!("-{}", slimline.id());
    succeeds(Command::new("kill").args(["-INT", "--", &group]));
    assert!(!slimline.wait().unwrap().success());
    wait_for("all is tidy", &|| left_of(&project, "debug").is_empty());
}

#[test]
fn bitcode_that_is_asked_for_stays() {
    let project = Project::new();
    let emit = format!("{SCALAR} --emit=llvm-bc");
    succeeds(project.slimline(&["cargo", "build", "--release", "-p", "app"]).env("RUSTFLAGS", emit));
    assert!(is_instrumented(&project.place(PROGRAMS).join("release/app")));
    let mut left = left_of(&project, "release");
    left.sort();
    let names: Vec<_> = left.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert!(matches!(*names, [app, bodies] if app.starts_with("app-") && bodies.starts_with("bodies-")), "{names:?}");
}

#[test]
fn what_would_be_built_untraced_is_refused() {
    let project = Project::new();
    // The linker's optimizer would make the code.
    let later = project.slimline(&["cargo", "build", "-p", "app"]).env("RUSTFLAGS", "-C linker-plugin-lto").output();
    let later = later.unwrap();
    assert_eq!(later.status.code(), Some(101), "{}", text(&later.stderr));
    let line =
        "slimline: -C linker-plugin-lto can't be combined with tracing: its objects hold no code yet; leave it out";
    assert!(text(&later.stderr).lines().any(|said| said == line), "{}", text(&later.stderr));
    // Targets, wherever they are named.
    let target = "wasm32-unknown-unknown";
    let line = refused(project.slimline(&["cargo", "build"]).env("CARGO_BUILD_TARGET", target));
    assert_eq!(line, format!("slimline: CARGO_BUILD_TARGET {target} can't be traced, only x86_64-unknown-linux-gnu"));
    let configuration = project.0.path().join(".cargo/config.toml");
    fs::create_dir(configuration.parent().unwrap()).unwrap();
    fs::write(&configuration, format!("[build]\ntarget = '{target}'\n")).unwrap();
    let line = refused(&mut project.slimline(&["cargo", "build"]));
    let file = configuration.canonicalize().unwrap().display().to_string();
    assert_eq!(line, format!("slimline: {file}: build.target {target} can't be traced, only x86_64-unknown-linux-gnu"));
    // Wrappers are not refused, but told.
    fs::write(&configuration, "[build]\ntarget = 'host-tuple'\nrustc-wrapper = '/nowhere/cache'\n").unwrap();
    let built = succeeds(&mut project.slimline(&["cargo", "build", "-p", "bodies"]));
    let line = "slimline: build.rustc-wrapper is not used while what rustc makes is rewritten";
    assert_eq!(text(&built.stderr).lines().next(), Some(line));
    assert!(is_instrumented(&project.place(PROGRAMS).join("debug/libbodies.rlib")));
    // Where cargo would build is what cargo tells.
    fs::write(project.0.path().join("Cargo.toml"), "[package").unwrap();
    let broken = project.slimline(&["cargo", "build"]).output().unwrap();
    assert_eq!(broken.status.code(), Some(2));
    let said = text(&broken.stderr);
    assert!(said.starts_with("error: "), "{said}");
    assert!(said.ends_with("\nslimline: cargo metadata failed, so nobody knows where it would build\n"), "{said}");
}

#[test]
fn outside_of_packages() {
    let elsewhere = Project::of(&[]);
    let line = refused(&mut elsewhere.slimline(&["cargo", "install", "ripgrep"]));
    assert_eq!(line, "slimline: cargo install builds what is in no package here: say where, with --target-dir");
    let made = succeeds(&mut elsewhere.slimline(&["cargo", "new", "--vcs", "none", "little"]));
    assert!(text(&made.stderr).starts_with("slimline: nothing is traced: could not find `Cargo.toml`"), "{made:?}");
    succeeds(&mut elsewhere.slimline(&["cargo", "install", "--path", "little", "--root", "root"]));
    assert!(is_instrumented(&elsewhere.0.path().join("root/bin/little")));
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

#[test]
fn a_program_says_what_of_it_is_traced() {
    let gate = Path::new(env!("CARGO_MANIFEST_DIR")).join("../slimline-gate").canonicalize().unwrap();
    let manifest = format!(
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
         [dependencies]\nslimline-gate = {{ path = \"{}\" }}\n",
        gate.display()
    );
    let source = r#"
#[inline(never)]
fn sum(values: &[u64]) -> u64 { values.iter().sum() }
fn main() {
    let values: Vec<u64> = (0..1000).collect();
    let (before, within) = (sum(&values), slimline_gate::traced(|| sum(&values[..100])));
    slimline_gate::start();
    let started = sum(&values[..10]);
    slimline_gate::stop();
    println!("{} {} {} {}", before, within, started, sum(&values));
}
"#;
    let project = Project::of(&[("Cargo.toml", &manifest), ("src/main.rs", source)]);
    let printed = "499500 4950 45 499500\n";
    // By cargo alone there is no runtime.
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--release", "--offline"]).current_dir(project.0.path());
    assert_eq!(text(&succeeds(cargo.env_remove("CARGO_TARGET_DIR")).stdout), printed);
    succeeds(&mut project.slimline(&["cargo", "build", "--release"]));
    let program = project.place(PROGRAMS).join("release/app");
    let loads = |options: &[&str]| {
        let mut slimline = project.slimline(&["trace", "--live", "--report", "-", "--format", "json"]);
        let output = succeeds(slimline.args(options).arg("--").arg(&program));
        let report = text(&output.stdout).strip_prefix(printed).unwrap();
        serde_json::from_str::<Value>(report).unwrap()["total"]["loads"].as_u64().unwrap()
    };
    let in_sum = |paused: &[&str]| loads(&[&["--function", "app::sum"], paused].concat());
    assert_eq!([in_sum(&["--paused"]), in_sum(&[])], [110, 1000 + 110], "one sum of all is enough for two");
}

/// All of the program is one loop, which is left and entered at its header.
#[test]
fn a_loop_is_traced_in_part() {
    let gate = Path::new(env!("CARGO_MANIFEST_DIR")).join("../slimline-gate").canonicalize().unwrap();
    let manifest = format!(
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
         [dependencies]\nslimline-gate = {{ path = \"{}\" }}\n",
        gate.display()
    );
    let source = r#"
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
static TOUCHED: AtomicU64 = AtomicU64::new(0);
fn main() {
    let (mut sum, mut all) = (0, Vec::new());
    for i in 0..1000 {
        if i == 100 { slimline_gate::start(); }
        if i == 300 { slimline_gate::stop(); }
        TOUCHED.store(i, Relaxed);
        sum += i;
        all.push(sum.to_string());
    }
    println!("{} {sum} {}", all.concat().len(), TOUCHED.load(Relaxed));
}
"#;
    let project = Project::of(&[("Cargo.toml", &manifest), ("src/main.rs", source)]);
    succeeds(&mut project.slimline(&["cargo", "build", "--release"]));
    let program = project.place(PROGRAMS).join("release/app");
    let stores = |options: &[&str]| {
        let mut slimline =
            project.slimline(&["trace", "--live", "--report", "-", "--format", "json", "--variable", "TOUCHED"]);
        let output = succeeds(slimline.args(options).arg("--").arg(&program));
        let report = text(&output.stdout).strip_prefix("5349 499500 999\n").unwrap();
        serde_json::from_str::<Value>(report).unwrap()["total"]["stores"].as_u64().unwrap()
    };
    // The round that starts is the last one that is not traced.
    assert_eq!([stores(&[]), stores(&["--paused"])], [300, 199]);
}

/// Linkers may take long, and know nothing of what is beside them.
#[test]
fn callers_are_known_after_panics() {
    let project = Project::of(&[
        ("Cargo.toml", "[package]\nname = 'panics'\nedition = '2024'\n"),
        (
            "src/main.rs",
            r#"use std::hint::black_box;
use std::panic::catch_unwind;
struct Held(usize);
impl Drop for Held { #[inline(never)] fn drop(&mut self) { take(self.0); black_box(()); } }
#[inline(never)]
fn take(bytes: usize) { black_box(Vec::<u8>::with_capacity(black_box(bytes))); black_box(()); }
#[inline(never)]
fn ping(n: u32) {
    black_box(n);
    if n == 0 { std::panic::resume_unwind(Box::new(())); }
    if n == 2 { assert!(catch_unwind(|| pong(n)).is_err()); take(16); } else { pong(n); }
    black_box(n);
}
#[inline(never)]
fn pong(n: u32) { let held = Held(32); ping(n - 1); black_box(&held); std::mem::forget(held); }
#[inline(never)]
fn catches() { let _ = catch_unwind(|| ping(1)); take(64); black_box(()); }
fn main() { ping(4); catches(); take(128); println!("done"); }"#,
        ),
    ]);
    succeeds(&mut project.slimline(&["cargo", "build", "--release"]));
    let program = project.place(PROGRAMS).join("release/panics");
    let mut slimline = project.slimline(&["trace", "--live", "--report", "-", "--callers", "--format", "json", "--"]);
    let output = succeeds(slimline.arg(program));
    let report: Value = serde_json::from_str(text(&output.stdout).strip_prefix("done\n").unwrap()).unwrap();
    let own = ["take", "ping", "pong", "catches", "main", "drop"];
    let path = |row: &Value| -> String {
        let callers = row["callers"].as_array().unwrap().iter().filter_map(|caller| caller["function"].as_str());
        let last = callers.filter_map(|name| own.into_iter().find(|own| name.rsplit("::").next() == Some(own)));
        last.collect::<Vec<_>>().join(" < ")
    };
    let rows = report["heap"].as_array().unwrap();
    let path_of = |bytes: u64| {
        let mut paths = rows.iter().filter(|row| row["allocated_bytes"] == bytes).map(path);
        paths.find(|path| !path.is_empty()).unwrap_or_else(|| panic!("{bytes} bytes: {rows:#?}"))
    };
    assert!(path_of(16).starts_with("ping < pong < ping < pong < ping < main"), "{}", path_of(16));
    assert!(path_of(64).starts_with("catches < main"), "{}", path_of(64));
    assert!(path_of(128).starts_with("main"), "{}", path_of(128));
}

#[test]
fn linking_leaves_nothing_after_ctrl_c() {
    let files = [("Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n")];
    let project = Project::of(&[files[0], ("src/main.rs", "fn main() {}\n")]);
    let [linker, temporary] = ["waits", "temporary"].map(|name| project.0.path().join(name));
    fs::write(&linker, "#!/bin/sh\ntouch linking; exec sleep 100\n").unwrap();
    fs::set_permissions(&linker, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(&temporary).unwrap();
    let mut slimline = project.slimline(&["cargo", "build"]);
    slimline.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", &linker).env("TMPDIR", &temporary);
    let mut slimline = slimline.process_group(0).spawn().unwrap();
    let wait_for = |what: &str, is_so: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            sleep(Duration::from_millis(20));
        }
    };
    let ours = || {
        let files = fs::read_dir(&temporary).unwrap().map(|file| file.unwrap().file_name());
        files.filter(|name| name.to_str().unwrap().starts_with("slimline-")).count()
    };
    wait_for("it links", &|| project.0.path().join("linking").exists());
    assert_eq!(ours(), 1);
    succeeds(Command::new("kill").args(["-INT", "--", &format!("-{}", slimline.id())]));
    assert!(!slimline.wait().unwrap().success());
    wait_for("all is tidy", &|| ours() == 0);
}
