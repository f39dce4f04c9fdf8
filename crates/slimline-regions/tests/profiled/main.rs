//! Small programs by both compilers, with the library preloaded.

mod classes;
mod constructs;
mod ends;
mod header;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;

use slimline_regions::{Kind, Phase, Profile, SUFFIX, Table, read};
use tempfile::TempDir;

/// Both compilers, each with a runtime of its own.
const COMPILERS: [&str; 2] = ["gcc", "clang-19"];

const MS: u64 = 1_000_000;

/// The library as it is preloaded.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload");
        let status = Command::new(env!("CARGO"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["rustc", "--profile", "agent", "--locked", "--package", "slimline-regions", "--lib"])
            .args(["--crate-type", "cdylib", "--features", "preload", "--target-dir"])
            .arg(&target)
            .args(["--", "-C", "force-unwind-tables=yes"])
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .status()
            .expect("cargo starts");
        assert!(status.success(), "{status}");
        target.join("agent/libslimline_regions.so")
    })
}

/// A program of `tests/programs` that a compiler made.
struct Program {
    directory: TempDir,
}

/// What came of a run.
struct Run {
    status: ExitStatus,
    output: String,
    profiles: Vec<Profile>,
    /// Files that are no profiles.
    others: usize,
}

impl Program {
    fn new(compiler: &str, name: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c");
        let status = Command::new(compiler)
            .args(["-g", "-O1", "-fopenmp", "-o"])
            .arg(directory.path().join("program"))
            .arg(source)
            .status()
            .unwrap_or_else(|error| panic!("{compiler}: {error}"));
        assert!(status.success(), "{compiler}: {status} (clang-19 needs libomp-19-dev)");
        Self { directory }
    }

    fn alone(&self, argument: &str) -> String {
        let output = Command::new(self.directory.path().join("program")).arg(argument).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn run(&self, argument: &str) -> Run {
        self.run_with(&[argument])
    }

    fn run_with(&self, arguments: &[&str]) -> Run {
        let written = TempDir::new().unwrap();
        let output = Command::new(self.directory.path().join("program"))
            .args(arguments)
            .env("LD_PRELOAD", library())
            .env("SLIMLINE_REGIONS", written.path())
            // Who waits sleeps: two processors would be kept from those who work by threads that turn round.
            .env("OMP_WAIT_POLICY", "passive")
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        let mut run = Run {
            status: output.status,
            output: String::from_utf8(output.stdout).unwrap(),
            profiles: Vec::new(),
            others: 0,
        };
        for entry in fs::read_dir(written.path()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.ends_with(SUFFIX) && !name.starts_with('.') {
                run.profiles.push(read(&fs::read(&path).unwrap()).unwrap());
            } else {
                run.others += 1;
            }
        }
        run
    }

    fn profile(&self) -> Profile {
        let mut run = self.run("exit");
        assert_eq!((run.profiles.len(), run.others), (1, 0));
        run.profiles.remove(0)
    }
}

/// The profile of a program by each compiler must pass `check`. A thread that wakes late on a busy machine is no error: it
/// may in nine of ten runs.
fn check(name: &str, check: impl Fn(&Profile) -> Result<(), String>) {
    for compiler in COMPILERS {
        let program = Program::new(compiler, name);
        let failed: Vec<_> = (0..10).map_while(|_| check(&program.profile()).err()).collect();
        assert!(failed.len() < 10, "{compiler}: {failed:#?}");
    }
}

/// The one region of a kind.
fn table(profile: &Profile, kind: Kind) -> Table {
    let mut tables: Vec<_> = profile.flat().into_iter().filter(|table| table.region.kind == kind).collect();
    assert_eq!(tables.len(), 1, "{tables:?}");
    tables.remove(0)
}

/// A phase of each thread, from the shortest.
fn sorted(table: &Table, phase: Phase) -> Vec<u64> {
    let mut times: Vec<_> = table.threads.iter().map(|(_, times)| times.phase_ns(phase)).collect();
    times.sort_unstable();
    times
}

/// Whether times are as predicted: within 5 %, or 10 ms where that is more, which a thread that wakes late is wrong by.
fn near(what: &str, measured_ns: &[u64], predicted_ms: &[u64]) -> Result<(), String> {
    let is_near =
        |(measured, predicted): (&u64, &u64)| measured.abs_diff(predicted * MS) <= (predicted * MS / 20).max(10 * MS);
    if measured_ns.len() == predicted_ms.len() && measured_ns.iter().zip(predicted_ms).all(is_near) {
        Ok(())
    } else {
        Err(format!("{what}: {measured_ns:?} ns, not {predicted_ms:?} ms"))
    }
}
