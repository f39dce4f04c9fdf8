//! How a program's source says regions and watched memory, in each language: programs by each compiler, with the library
//! preloaded that writes down what they say.

mod fortran;
mod gate;
mod header;
mod pragmas;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

/// The library as it is preloaded.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload");
        let status = Command::new(env!("CARGO"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["rustc", "--quiet", "--profile", "agent", "--locked", "--package", "slimline-regions", "--lib"])
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

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A directory of sources, and of what is made of them.
struct Sources(TempDir);

impl Sources {
    fn new(files: &[(&str, &str)]) -> Self {
        let sources = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            let path = sources.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        sources
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What a command of these words says and ends with, run there.
    fn run(&self, words: &[impl AsRef<OsStr>]) -> Output {
        Command::new(&words[0]).args(&words[1..]).current_dir(self.0.path()).env("LC_ALL", "C").output().unwrap()
    }

    /// The same where it must succeed and have nothing to say.
    fn make(&self, words: &[&str]) {
        let output = self.run(words);
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    }

    /// What a program of these says, once where nobody listens and once with the library: as its profile has it, of watched memory
    /// size and name.
    fn said(&self, program: &str) -> Vec<String> {
        let alone = Command::new(self.path(program)).output().unwrap();
        assert!(alone.status.success() && alone.stderr.is_empty(), "{alone:?}");
        let written = tempfile::tempdir().unwrap();
        let mut command = Command::new(self.path(program));
        command.env("LD_PRELOAD", library()).env("SLIMLINE_REGIONS", written.path());
        let output = command.output().unwrap();
        assert_eq!(output, alone);
        let profiles: Vec<_> = fs::read_dir(written.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let [profile] = &profiles[..] else { panic!("{profiles:?}") };
        let mut said = Vec::new();
        for line in fs::read_to_string(profile).unwrap().lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["watch", _, bytes, name, ..] => {
                    said.push(format!("watch {} {name}", u64::from_str_radix(bytes, 16).unwrap()));
                }
                ["path", parent, "user", "name", name] => said.push(format!("region {name} in {parent}")),
                ["unwatched", count] if count != "0" => said.push(format!("{count} unwatched")),
                _ => {}
            }
        }
        said
    }
}
