//! Programs, libraries, sources, recordings and build directories with paths that are no plain text: the same is known of
//! them as of any other.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use slimline_trace::path_text::path_of;
use tempfile::TempDir;

/// What files are called on old file systems, and to annoy.
const NAMES: [&[u8]; 7] = [
    b"caf\xe9",
    b"line\nbreak",
    br"line\012break",
    b"tab\t and blanks ",
    br"back\slash \xE9",
    b"not gone (deleted)",
    b"all \xff\n\\012 of it (deleted)",
];

const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct cell { long value; long next; char pad[48]; };
long walk(struct cell *cells, long steps) {
  long sum = 0, at = 0;
  for (long i = 0; i < steps; i++) { sum += cells[at].value; at = cells[at].next; }
  return sum;
}
#ifndef LIBRARY
int main(int count, char **arguments) {
  long n = 1 << 16;
  struct cell *cells = malloc(n * sizeof *cells);
  for (long i = 0; i < n; i++) { cells[i].value = i; cells[i].next = (i * 40503 + 7) & (n - 1); }
  printf("%ld\n", walk(cells, count > 1 ? atol(arguments[1]) : 6000000));
  free(cells);
  return 0;
}
#endif
"#;

/// A directory of that name, with the source in it.
struct Place {
    _scratch: TempDir,
    directory: PathBuf,
}

impl Place {
    fn new(name: &[u8]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let directory = fs::canonicalize(scratch.path()).unwrap().join(OsStr::from_bytes(name));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("hot.c"), SOURCE).unwrap();
        Self { _scratch: scratch, directory }
    }

    fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.join(name)
    }

    fn run(&self, command: &mut Command) -> Output {
        let output = command.current_dir(&self.directory).output().unwrap();
        assert!(output.status.success(), "{:?}: {command:?}: {output:?}", self.directory);
        output
    }

    /// Compiled by its whole path: so it is in debug information.
    fn compile(&self, compiler: &mut Command, output: &Path) {
        self.run(compiler.args(["-g", "-O1", "-o"]).arg(output).arg(self.file("hot.c")));
    }

    fn slimline<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Output {
        self.run(slimline().args(arguments))
    }

    fn json<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Value {
        serde_json::from_slice(&self.slimline(arguments).stdout).unwrap()
    }
}

fn slimline() -> Command {
    Command::new(env!("CARGO_BIN_EXE_slimline"))
}

/// All texts below a key, wherever it is.
fn texts<'v>(value: &'v Value, key: &str, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            found.extend(value.as_str().filter(|_| name == key));
            texts(value, key, found);
        }),
        Value::Array(all) => all.iter().for_each(|value| texts(value, key, found)),
        _ => {}
    }
}

#[test]
fn recordings_have_all_names() {
    for name in NAMES {
        let place = Place::new(name);
        let program = place.file(OsStr::from_bytes(name));
        place.compile(&mut Command::new("gcc"), &program);
        let session = place.file("session of ".to_owned() + "it");
        place.slimline(&[
            OsStr::new("record"),
            OsStr::new("-o"),
            session.as_os_str(),
            OsStr::new("--"),
            program.as_os_str(),
        ]);
        let report =
            place.json(&[OsStr::new("report"), session.as_os_str(), OsStr::new("--format"), OsStr::new("json")]);
        let shown = String::from_utf8_lossy(name);
        let fields = report["groups"][0]["fields"].as_array().unwrap();
        let names: Vec<_> = fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"value") && names.contains(&"next"), "{shown}: {names:?}");
        let mut files = Vec::new();
        texts(&report, "file", &mut files);
        assert!(files.iter().any(|file| path_of(file) == place.file("hot.c")), "{shown}: {files:?}");
        assert_eq!(report["session"]["command"][0].as_str().map(path_of), Some(program.clone()), "{shown}");
        // A terminal gets lines of text.
        let output = place.slimline(&[OsStr::new("report"), session.as_os_str()]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("walk") && !text.contains('\u{fffd}') && !text.contains('\t'), "{text}");
        assert!(text.lines().any(|line| line.contains("hot.c")), "{text}");
    }
}

/// As it is where the agent can't be: mappings are told by the kernel's records and by `/proc`.
#[test]
fn what_is_seen_from_outside_has_names() {
    let doctor = slimline().args(["doctor", "--format", "json"]).output().unwrap();
    let may_sample = String::from_utf8_lossy(&doctor.stdout).contains("perf-rings");
    assert!(may_sample, "{doctor:?}");
    for name in NAMES {
        let place = Place::new(name);
        let program = place.file(OsStr::from_bytes(name));
        place.compile(&mut Command::new("gcc"), &program);
        let outside = ["record", "--out-of-process", "--"].map(OsStr::new);
        let command = [program.as_os_str(), OsStr::new("30000000")];
        let recorded =
            slimline().current_dir(&place.directory).args([&outside[..], &command].concat()).output().unwrap();
        if String::from_utf8_lossy(&recorded.stderr).contains("the kernel refuses") {
            eprintln!("left out: the kernel refuses to sample from outside");
            return;
        }
        let report = place.json(&["report", "--format", "json"]);
        let mut functions = Vec::new();
        texts(&report, "function", &mut functions);
        assert!(functions.contains(&"walk"), "{name:?}: {functions:?}");
    }
}

#[test]
fn libraries_have_names() {
    for name in NAMES {
        let place = Place::new(name);
        let mut library = OsString::from("lib");
        library.push(OsStr::from_bytes(name));
        let library = place.file(library);
        place.compile(Command::new("gcc").args(["-shared", "-fPIC", "-DLIBRARY"]), &library);
        let main = SOURCE.split("#ifndef LIBRARY").nth(1).unwrap().trim_end().trim_end_matches("#endif");
        let head = SOURCE.split("long walk").next().unwrap();
        fs::write(place.file("main.c"), format!("{head}long walk(struct cell *, long);{main}")).unwrap();
        let mut linked = Command::new("gcc");
        place.run(linked.args(["-g", "-O1", "-o", "program", "main.c"]).arg(&library));
        place.slimline(&["record", "--", "./program"]);
        let report = place.json(&["report", "--format", "json"]);
        let mut functions = Vec::new();
        texts(&report, "function", &mut functions);
        assert!(functions.contains(&"walk"), "{name:?}: {functions:?}");
    }
}

#[test]
fn what_is_really_gone_is_told() {
    let place = Place::new(b"caf\xe9\n");
    place.compile(&mut Command::new("gcc"), &place.file("program"));
    place.run(slimline().args(["record", "--", "sh", "-c", "./program & sleep 0.1; rm program; wait"]));
    let output = place.slimline(&["report"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("can no longer be read") && text.contains("program"), "{text}");
}

#[test]
fn declared_layouts_are_read_and_traces_have_names() {
    for name in NAMES {
        let place = Place::new(name);
        let program = place.file(OsStr::from_bytes(name));
        place.compile(slimline().arg("cc"), &program);
        let shown = String::from_utf8_lossy(name).into_owned();
        let layouts =
            place.json(&[OsStr::new("layouts"), program.as_os_str(), OsStr::new("--format"), OsStr::new("json")]);
        let mut types = Vec::new();
        texts(&layouts, "name", &mut types);
        assert!(types.iter().any(|name| name.ends_with("cell")), "{shown}: {types:?}");
        let report = place.file("report.json");
        let live = ["trace", "--live", "--format", "json", "--report"].map(OsStr::new);
        let command = [report.as_os_str(), OsStr::new("--"), program.as_os_str(), OsStr::new("10000")];
        place.slimline(&[&live[..], &command].concat());
        let live: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
        let trace = place.file("the trace");
        let options = [OsStr::new("trace"), OsStr::new("-o"), trace.as_os_str(), OsStr::new("--"), program.as_os_str()];
        place.slimline(&[&options[..], &[OsStr::new("10000")]].concat());
        let replayed = ["trace", "--format", "json", "--replay"].map(OsStr::new);
        let replayed = place.json(&[&replayed[..], &[trace.as_os_str()]].concat());
        for report in [&live, &replayed] {
            let mut fields = Vec::new();
            texts(report, "field", &mut fields);
            texts(report, "name", &mut fields);
            assert!(fields.contains(&"next") && fields.contains(&"value"), "{shown}: {fields:?}");
        }
    }
}

#[test]
fn programs_of_gcc_s_hooks_have_names() {
    for name in [NAMES[0], NAMES[6]] {
        let place = Place::new(name);
        let program = place.file(OsStr::from_bytes(name));
        place.compile(slimline().arg("gcc"), &program);
        let live = ["trace", "--live", "--format", "json", "--report", "report.json", "--"].map(OsStr::new);
        place.slimline(&[&live[..], &[program.as_os_str(), OsStr::new("10000")]].concat());
        let report: Value = serde_json::from_slice(&fs::read(place.file("report.json")).unwrap()).unwrap();
        let mut fields = Vec::new();
        texts(&report, "name", &mut fields);
        assert!(fields.contains(&"next") && fields.contains(&"value"), "{fields:?}");
    }
}
