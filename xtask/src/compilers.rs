//! Which compilers of C, C++ and Rust make a program that is measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use sample_programs::{Language, Program};

use crate::measure::timed;
use crate::target_dir;

/// clang's version where programs with and without instrumentation are compared: one that `slimline cc` knows.
const CLANG: &str = "clang-19";
const CLANG_CPP: &str = "clang++-19";

/// A compiler of C and one of C++, and how cargo is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compilers {
    /// Shell words.
    c: String,
    /// Shell words.
    cpp: String,
    /// Shell words.
    cargo: String,
    /// Where executables are, below the target directory.
    made_in: &'static str,
    /// What is made anew where this file has changed: it is one of ours.
    changing: Option<PathBuf>,
}

impl Compilers {
    pub(crate) fn gnu() -> Self {
        Self::plain("gcc", "g++")
    }

    pub(crate) fn clang() -> Self {
        Self::plain(CLANG, CLANG_CPP)
    }

    fn plain(c: &str, cpp: &str) -> Self {
        let cargo = "cargo".to_owned();
        Self { c: c.to_owned(), cpp: cpp.to_owned(), cargo, made_in: "release", changing: None }
    }

    /// `cc`, `c++` and `cargo` of this executable of slimline, with the same clang.
    pub(crate) fn instrumenting(slimline: &Path) -> Result<Self> {
        let path = slimline.to_str().context("the target directory's path is no UTF-8")?;
        let path = format!("'{}'", path.replace('\'', r"'\''"));
        let words = |task| format!("SLIMLINE_CLANG={CLANG} {path} {task}");
        let cargo = format!("{path} cargo");
        let made_in = "x86_64-unknown-linux-gnu/release";
        Ok(Self { c: words("cc"), cpp: words("c++"), cargo, made_in, changing: Some(slimline.to_owned()) })
    }

    /// The same, with options of C and C++ before all others.
    pub(crate) fn with_options(mut self, options: &str) -> Self {
        for words in [&mut self.c, &mut self.cpp] {
            *words = format!("{words} {options}");
        }
        self
    }

    /// A program of ours, which must be C, C++ or Rust; `made` is part of the executable's name. Options are those of C and C++: Rust is
    /// built by cargo's release profile, with debug information.
    pub(crate) fn build(&self, program: &Program, options: &str, made: &str) -> Result<PathBuf> {
        let executable = target_dir()?.join(format!("programs/{}.{made}", program.name));
        std::fs::create_dir_all(executable.with_file_name(""))?;
        let compiler = match program.language {
            Language::C => "$CC",
            Language::Cpp => "$CXX",
            Language::Rust => return self.build_crate(program, &executable.with_extension(format!("{made}.crate"))),
            Language::Fortran => bail!("neither C, C++ nor Rust"),
        };
        let script = self.in_script(&format!("{compiler} {options} -pthread \"$SOURCE\" -o \"$OUTPUT\" -lm"));
        let mut command = Command::new("sh");
        command.args(["-c", &script]).env("SOURCE", &program.source).env("OUTPUT", &executable);
        timed(command)?;
        Ok(executable)
    }

    /// A package of one source, in this directory.
    fn build_crate(&self, program: &Program, directory: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let (name, source) = (&program.name, program.source.display().to_string());
        let manifest = format!(
            "[workspace]\n[package]\nname = {name:?}\nedition = \"2024\"\n[[bin]]\nname = {name:?}\npath = {source:?}\n\
             [profile.release]\ndebug = true\n"
        );
        std::fs::write(directory.join("Cargo.toml"), manifest)?;
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{} build --quiet --release --target-dir target", self.cargo)]);
        command.current_dir(directory).env_remove("CARGO_BUILD_TARGET");
        timed(command)?;
        Ok(directory.join("target").join(self.made_in).join(name))
    }

    /// Whether a script leaves open which compiler it calls.
    pub(crate) fn are_asked_for(script: &str) -> bool {
        script.contains("$CC") || script.contains("$CXX")
    }

    /// A shell script with the compilers in the place of `$CC` and `$CXX`, where they begin a command.
    pub(crate) fn in_script(&self, script: &str) -> String {
        script.replace("$CXX", &self.cpp).replace("$CC", &self.c)
    }

    /// Whether a file is there that they made as they are.
    pub(crate) fn are_older_than(&self, made: &Path) -> bool {
        let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
        changed(made).is_some_and(|made| match &self.changing {
            Some(compiler) => changed(compiler).is_some_and(|compiler| compiler < made),
            None => true,
        })
    }
}

/// A copy of a program for Valgrind, which gives up on what clang writes today.
pub(crate) fn without_debug_information(executable: &Path) -> Result<PathBuf> {
    let name = executable.file_name().context("no file")?.to_string_lossy();
    let stripped = executable.with_file_name(format!("{name}.stripped"));
    let mut objcopy = Command::new("objcopy");
    objcopy.arg("--strip-debug").arg(executable).arg(&stripped);
    timed(objcopy)?;
    Ok(stripped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_name_compilers() {
        let script = "make x.c && $CC -c x.c && $CXX x.o";
        assert!(Compilers::are_asked_for(script) && !Compilers::are_asked_for("make CFLAGS=-g"));
        assert_eq!(Compilers::gnu().in_script(script), "make x.c && gcc -c x.c && g++ x.o");
        let ours = Compilers::instrumenting(Path::new("/it's/slimline")).unwrap();
        assert_eq!(ours.in_script("$CXX a.cc"), r"SLIMLINE_CLANG=clang-19 '/it'\''s/slimline' c++ a.cc");
    }

    #[test]
    fn what_an_older_slimline_made_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, second| {
            let path = directory.path().join(name);
            let file = std::fs::File::create(&path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(second)).unwrap();
            path
        };
        let (old, slimline, new) = (file("old", 10), file("slimline", 20), file("new", 30));
        let ours = Compilers::instrumenting(&slimline).unwrap();
        let missing = directory.path().join("missing");
        assert_eq!([&old, &new, &missing].map(|made| ours.are_older_than(made)), [false, true, false]);
        assert_eq!([&old, &missing].map(|made| Compilers::gnu().are_older_than(made)), [true, false]);
    }
}
