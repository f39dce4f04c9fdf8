//! What belongs to a rustc: its libLLVM, its host.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::CargoError;
use crate::llvm::{self, libllvm_of};

/// What `rustc -vV` says that matters here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Version {
    /// `rustc 1.95.0 (59807616e 2026-04-14)`.
    pub(super) name: String,
    /// `x86_64-unknown-linux-gnu`.
    pub(super) host: String,
    /// The major version of its LLVM.
    llvm: Option<u32>,
}

impl Version {
    pub(super) fn parse(said: &str) -> Self {
        let after = |key: &str| said.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim();
        Self {
            name: said.lines().next().unwrap_or_default().to_owned(),
            host: after("host:").to_owned(),
            llvm: after("LLVM version:").split('.').next().and_then(|number| number.parse().ok()),
        }
    }

    /// Whether the bitcode of this rustc can be rewritten.
    pub(super) fn check(&self) -> Result<(), CargoError> {
        if self.llvm.is_some_and(|version| llvm::SUPPORTED.contains(&version)) {
            return Ok(());
        }
        let llvm = self.llvm.map_or_else(|| "no LLVM that it tells of".to_owned(), |version| format!("LLVM {version}"));
        let rustc = if self.name.is_empty() { "rustc" } else { &self.name };
        Err(CargoError::Version { rustc: rustc.to_owned(), llvm })
    }
}

/// What this rustc answers.
pub(super) fn asked<S: AsRef<OsStr>>(rustc: &mut Command, arguments: &[S]) -> Result<Output, CargoError> {
    let failed = |rustc: &Command, error| CargoError::Io { path: rustc.get_program().into(), error };
    let output = rustc.args(arguments).output().map_err(|error| failed(rustc, error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
        return Err(failed(rustc, io::Error::other(format!("{}: {said}", output.status))));
    }
    Ok(output)
}

/// The libLLVM of this rustc: the one that its driver needs, which is a library beside it.
pub(super) fn libllvm(rustc: &OsStr) -> Result<PathBuf, CargoError> {
    let is_path = Path::new(rustc).parent().is_some_and(|parent| parent.is_absolute());
    // cargo names the file where it can, which saves asking.
    let beside = Path::new(rustc).parent().and_then(Path::parent).filter(|_| is_path);
    if let Some(driver) = beside.and_then(driver_in) {
        return Ok(libllvm_of(&driver)?);
    }
    let said = asked(&mut Command::new(rustc), &["--print", "sysroot"])?.stdout;
    libllvm_in(Path::new(String::from_utf8_lossy(&said).trim()))
}

/// The libLLVM of the rustc that lives here.
pub(super) fn libllvm_in(sysroot: &Path) -> Result<PathBuf, CargoError> {
    let driver = driver_in(sysroot).ok_or_else(|| CargoError::NoDriver { sysroot: sysroot.to_owned() })?;
    Ok(libllvm_of(&driver)?)
}

fn driver_in(sysroot: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(sysroot.join("lib")).ok()?.flatten();
    let is_driver = |name: &str| name.starts_with("librustc_driver") && name.ends_with(".so");
    files.map(|file| file.path()).find(|file| file.file_name().and_then(OsStr::to_str).is_some_and(is_driver))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\ncommit-hash: 5980\ncommit-date: 2026-04-14\n\
                        host: x86_64-unknown-linux-gnu\nrelease: 1.95.0\nLLVM version: 22.1.2\n";

    #[test]
    fn versions_are_read() {
        let version = Version::parse(SAID);
        assert_eq!((&*version.host, version.llvm), ("x86_64-unknown-linux-gnu", Some(22)));
        version.check().unwrap();
        let newer = Version::parse(&SAID.replace("22.1.2", "97.0.1")).check().unwrap_err();
        assert_eq!(
            newer.to_string(),
            "rustc 1.95.0 (59807616e 2026-04-14) has LLVM 97, and bitcode of versions 19 to 22 can be rewritten"
        );
        assert!(Version::parse("").check().is_err());
    }

    #[test]
    fn a_directory_without_a_compiler_has_no_libllvm() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(matches!(libllvm_in(scratch.path()), Err(CargoError::NoDriver { .. })));
    }
}
