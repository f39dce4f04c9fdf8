//! What a rustc is asked to do.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::{CargoError, TARGET};
use crate::llvm::CodeLevel;

/// The arguments of a rustc that matter here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Invocation {
    pub(super) crate_name: String,
    pub(super) out_dir: PathBuf,
    /// What stands behind the crate's name in the names of files: `-1f3a…`.
    extra_filename: String,
    pub(super) crate_types: Vec<String>,
    pub(super) target: Option<String>,
    pub(super) linker: Option<OsString>,
    level: Option<String>,
    /// Into how many parts the crate is divided, if that is said.
    parts: Option<u32>,
    /// Parts that have not changed are kept.
    is_incremental: bool,
    /// Code is made of all crates together, part by part.
    is_thin_lto: bool,
    /// It makes code that is linked, or put into an archive.
    is_linking: bool,
    /// It answers a question.
    is_question: bool,
    /// The code is made later, of this and other crates together.
    is_for_lto: bool,
    /// A test program is made of it, whatever the kind of the crate.
    is_test: bool,
    /// Its bitcode is asked for.
    emits_bitcode: bool,
    /// The argument that asks for bitcode in a file of another name.
    bitcode_elsewhere: Option<String>,
}

impl Invocation {
    /// Reads arguments, also those in files (`@file`).
    pub(super) fn parse(arguments: &[OsString]) -> Self {
        let mut all = Vec::with_capacity(arguments.len());
        for argument in arguments {
            match argument.as_bytes().strip_prefix(b"@").map(|file| fs::read(Path::new(OsStr::from_bytes(file)))) {
                Some(Ok(text)) => {
                    all.extend(text.split(|byte| *byte == b'\n').map(|line| OsString::from_vec(line.to_vec())));
                }
                _ => all.push(argument.clone()),
            }
        }
        let mut invocation = Self::default();
        let mut rest = all.into_iter();
        while let Some(argument) = rest.next() {
            let text = argument.to_string_lossy().into_owned();
            let (name, value) = match text.split_once('=') {
                Some((name, _)) if name.starts_with("--") => {
                    let value = argument.as_bytes()[name.len() + 1..].to_vec();
                    (name.to_owned(), OsString::from_vec(value))
                }
                _ if text.starts_with("-C") && text.len() > 2 => {
                    ("-C".to_owned(), OsString::from_vec(argument.as_bytes()[2..].to_vec()))
                }
                _ if WITH_VALUE.contains(&&*text) => (text, rest.next().unwrap_or_default()),
                _ => (text, OsString::new()),
            };
            invocation.take(&name, &value);
        }
        invocation
    }

    fn take(&mut self, name: &str, value: &OsStr) {
        let text = value.to_string_lossy();
        match name {
            "--crate-name" => self.crate_name = text.into_owned(),
            "--crate-type" => self.crate_types.extend(text.split(',').map(str::to_owned)),
            "--out-dir" => self.out_dir = value.into(),
            "--target" => self.target = Some(text.into_owned()),
            "--print" | "-V" | "-vV" | "--version" | "-" => self.is_question = true,
            "--emit" => text.split(',').for_each(|kind| self.take_kind(kind)),
            "--test" => self.is_test = true,
            "-O" => self.level = Some("3".to_owned()),
            "-C" | "--codegen" => self.take_option(value),
            _ => {}
        }
    }

    /// Takes one of the kinds of files that are to be made.
    fn take_kind(&mut self, kind: &str) {
        match kind.split_once('=') {
            None => {
                self.is_linking |= kind == "link";
                self.emits_bitcode |= kind == "llvm-bc";
            }
            Some(("link", _)) => self.is_linking = true,
            Some(("llvm-bc", _)) => self.bitcode_elsewhere = Some(format!("--emit={kind}")),
            Some(_) => {}
        }
    }

    fn take_option(&mut self, option: &OsStr) {
        let bytes = option.as_bytes();
        let end = bytes.iter().position(|byte| *byte == b'=').unwrap_or(bytes.len());
        let value = OsStr::from_bytes(bytes.get(end + 1..).unwrap_or_default());
        let text = value.to_string_lossy();
        match &bytes[..end] {
            b"extra-filename" => self.extra_filename = text.into_owned(),
            b"linker" => self.linker = Some(value.to_owned()),
            b"codegen-units" => self.parts = text.parse().ok(),
            b"incremental" => self.is_incremental = true,
            b"lto" => self.is_thin_lto = text == "thin",
            b"opt-level" => self.level = Some(text.into_owned()),
            b"linker-plugin-lto" => self.is_for_lto = !matches!(&*text, "n" | "no" | "off" | "false"),
            _ => {}
        }
    }

    /// Whether its code is to be traced. cargo names the target for what runs there, and not for build scripts and
    /// procedural macros, which run here and now.
    ///
    /// cargo has libraries made without code where it optimizes all crates together (`lto = "fat"`); the code is made, and
    /// rewritten, with the program.
    pub(super) fn is_traced(&self) -> bool {
        self.target.is_some() && self.is_linking && !self.is_question && (!self.is_for_lto || self.is_linked())
    }

    /// Whether the linker is called for it.
    fn is_linked(&self) -> bool {
        let is_linked = |kind: &String| kind != "lib" && kind != "rlib";
        self.is_test || self.crate_types.is_empty() || self.crate_types.iter().any(is_linked)
    }

    /// Refuses what would give no trace.
    pub(super) fn refuse(&self) -> Result<(), CargoError> {
        let refused = |argument: &str, reason| Err(CargoError::Argument { argument: argument.to_owned(), reason });
        match (&self.target, &self.bitcode_elsewhere) {
            (Some(target), _) if target != TARGET => Err(CargoError::Target { asked: format!("--target {target}") }),
            _ if self.is_for_lto => refused("-C linker-plugin-lto", "its objects hold no code yet; leave it out"),
            (_, Some(argument)) => refused(argument, "bitcode is needed beside the objects; leave the file out"),
            _ => Ok(()),
        }
    }

    /// Whether bitcode is made for who called, who keeps it.
    pub(super) fn emits_bitcode(&self) -> bool {
        self.emits_bitcode
    }

    /// The arguments by which rustc writes the bitcode of each part and keeps it. Asked for bitcode it makes one part of the crate
    /// where nothing else is said, so what it does by itself is said, unless it was asked anyway; and where there is one part it
    /// keeps no bitcode of other crates' parts, so then there are two.
    pub(super) fn for_bitcode(&self) -> Vec<OsString> {
        let parts = match self.parts {
            None if self.emits_bitcode && !self.is_thin_lto => None,
            None if self.is_incremental => Some(256),
            None => Some(16),
            Some(1) if self.is_thin_lto => Some(2),
            Some(_) => None,
        };
        let parts = parts.map(|parts| format!("-Ccodegen-units={parts}").into());
        std::iter::once("--emit=llvm-bc".into()).chain(parts).collect()
    }

    /// How the names of what it makes begin: `slimline-1f3a…`.
    pub(super) fn stem(&self) -> String {
        format!("{}{}", self.crate_name, self.extra_filename)
    }

    /// The archives that it makes.
    pub(super) fn archives(&self) -> Vec<PathBuf> {
        let is_made = |kinds: &[&str]| self.crate_types.iter().any(|kind| kinds.contains(&&**kind));
        let file = |end: &str| self.out_dir.join(format!("lib{}.{end}", self.stem()));
        let made = [(is_made(&["lib", "rlib"]), "rlib"), (is_made(&["staticlib"]), "a")];
        made.into_iter().filter(|(is_made, _)| *is_made).map(|(_, end)| file(end)).collect()
    }

    /// How much its code generator does.
    pub(super) fn level(&self) -> CodeLevel {
        self.level.as_deref().map_or(CodeLevel::None, CodeLevel::parse)
    }
}

/// Arguments with a value behind them.
const WITH_VALUE: &[&str] =
    &["--crate-name", "--crate-type", "--out-dir", "--target", "--print", "--emit", "-C", "--codegen"];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Invocation {
        Invocation::parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    /// As cargo 1.95 calls it.
    const LIBRARY: &str = "--crate-name shapes --edition=2024 shapes/src/lib.rs --error-format=json --crate-type lib \
        --emit=dep-info,metadata,link -C opt-level=3 -C embed-bitcode=no -C metadata=5f -C extra-filename=-1f3a \
        --out-dir /w/target/deps --target x86_64-unknown-linux-gnu -C linker=clang -L dependency=/w/target/deps";

    #[test]
    fn what_cargo_asks_is_understood() {
        let library = parse(LIBRARY);
        assert_eq!((&*library.stem(), library.level()), ("shapes-1f3a", CodeLevel::Most));
        assert_eq!(library.archives(), [Path::new("/w/target/deps/libshapes-1f3a.rlib")]);
        assert_eq!(library.linker.as_deref(), Some(OsStr::new("clang")));
        assert!(library.is_traced());
    }

    #[test]
    fn what_is_no_code_of_the_target_is_left() {
        for (from, to) in [
            ("--target x86_64-unknown-linux-gnu ", ""),
            ("dep-info,metadata,link", "dep-info,metadata"),
            ("-C embed-bitcode=no", "-C linker-plugin-lto"),
            ("--crate-name shapes", "--print=file-names"),
            ("shapes/src/lib.rs", "-"),
        ] {
            assert!(!parse(&LIBRARY.replace(from, to)).is_traced(), "{to}");
        }
        assert!(parse(&LIBRARY.replace("-C embed-bitcode=no", "-Clinker-plugin-lto=no")).is_traced());
    }

    #[test]
    fn what_would_give_no_trace_is_refused() {
        parse(LIBRARY).refuse().unwrap();
        let line = |from: &str, to: &str| {
            let invocation = parse(&LIBRARY.replace(from, to));
            assert!(invocation.is_traced(), "{to}");
            invocation.refuse().unwrap_err().to_string()
        };
        let later = "-C linker-plugin-lto can't be combined with tracing: its objects hold no code yet; leave it out";
        for linked in ["--crate-type bin", "--crate-type cdylib", "--crate-type lib --test", "--edition=2024"] {
            assert_eq!(line("--crate-type lib", &format!("{linked} -C linker-plugin-lto")), later, "{linked}");
        }
        assert_eq!(
            line("metadata,link", "link,llvm-bc=/w/x.bc"),
            "--emit=llvm-bc=/w/x.bc can't be combined with tracing: bitcode is needed beside the objects; leave the file out"
        );
        assert_eq!(
            line("x86_64-unknown-linux-gnu", "wasm32-unknown-unknown"),
            "--target wasm32-unknown-unknown can't be traced, only x86_64-unknown-linux-gnu"
        );
    }

    #[test]
    fn kinds_and_levels() {
        let several = parse("--crate-type cdylib --crate-type=rlib,staticlib --crate-name=a --out-dir=/o -O");
        assert_eq!(several.archives(), [Path::new("/o/liba.rlib"), Path::new("/o/liba.a")]);
        assert_eq!(several.level(), CodeLevel::Most);
        let level = |argument: &str| parse(argument).level();
        assert_eq!(
            ["-Copt-level=s", "-C opt-level=1", "-g"].map(level),
            [CodeLevel::Default, CodeLevel::Less, CodeLevel::None]
        );
    }

    #[test]
    fn crates_are_divided_as_rustc_does() {
        let arguments = |line: &str| parse(line).for_bitcode();
        assert_eq!(arguments("-C opt-level=3"), ["--emit=llvm-bc", "-Ccodegen-units=16"]);
        assert_eq!(arguments("-C incremental=/i"), ["--emit=llvm-bc", "-Ccodegen-units=256"]);
        assert_eq!(arguments("-C lto=thin -C codegen-units=1"), ["--emit=llvm-bc", "-Ccodegen-units=2"]);
        // Who asks for bitcode gets what rustc makes then.
        let asked = ["-C opt-level=3 --emit=link,llvm-bc", "-C incremental=/i --emit llvm-bc"];
        let given = ["-C codegen-units=1", "-C lto=fat -Ccodegen-units=1", "-C lto=thin -C codegen-units=8"];
        for line in given.iter().chain(&asked) {
            assert_eq!(arguments(line), ["--emit=llvm-bc"], "{line}");
        }
        assert_eq!(arguments("-C lto=thin --emit=llvm-bc"), ["--emit=llvm-bc", "-Ccodegen-units=16"]);
    }

    #[test]
    fn arguments_in_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("arguments");
        fs::write(&file, LIBRARY.replace(' ', "\n")).unwrap();
        let mut argument = OsString::from("@");
        argument.push(&file);
        assert_eq!(Invocation::parse(&[argument]), parse(LIBRARY));
    }
}
