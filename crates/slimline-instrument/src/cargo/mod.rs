//! Rust programs: cargo, with tools of ours in the place of rustc, rustdoc and the linker.
//!
//! ```text
//!   slimline cargo build ──► cargo ──► slimline-rustc rustc … ──► rustc ──► slimline-linker/cc … ──► cc
//!                                            │                                    │
//!                                   archives: rewritten                  objects: rewritten,
//!                                   once rustc has made them             the runtime with them
//! ```
//!
//! rustc optimizes and writes the bitcode of each part of a crate (`--emit=llvm-bc`) beside the object that it makes of it.
//! That object is replaced by one of the rewritten bitcode, which rustc's own libLLVM makes code of, where objects go
//! into an archive or to the linker. cargo runs as many tools at once as it runs rustcs, and does again what has changed.
//!
//! cargo and rustc know their tools by path, without arguments: so they are links to this program, which knows by the
//! name that it is called by what it is to be.

mod archive;
mod building;
mod compiling;
mod configuration;
mod invocation;
mod linking;
mod objects;
mod scratch;
mod toolchain;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::llvm::LlvmError;
use crate::rewrite::{OwnAllocators, RewriteError, Told};

pub use building::build;

/// Environment variable that names the file which tells of a program's allocators: tools run where the packages are.
pub const ALLOCATORS_VARIABLE: &str = "SLIMLINE_CONFIGURATION";
/// The machine that code can be traced on.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Why nothing could be built.
#[derive(Debug, thiserror::Error)]
pub enum CargoError {
    /// A program can't be started, or a file can't be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The program or the file.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
    /// The compiler has a libLLVM that is not known.
    #[error("{rustc} has {llvm}, and bitcode of versions {} to {} can be rewritten", crate::llvm::SUPPORTED.start(), crate::llvm::SUPPORTED.end())]
    Version {
        /// What the compiler says of itself.
        rustc: String,
        /// What it says of its LLVM.
        llvm: String,
    },
    /// The compiler is not where it says that it is.
    #[error("{}: no librustc_driver in lib, so nobody knows rustc's libLLVM", sysroot.display())]
    NoDriver {
        /// Where it says that it is.
        sysroot: PathBuf,
    },
    /// Code for another machine is asked for.
    #[error("{asked} can't be traced, only {TARGET}")]
    Target {
        /// What is asked for, and where.
        asked: String,
    },
    /// cargo does not tell where it would build; why, it has said itself.
    #[error("cargo metadata failed, so nobody knows where it would build")]
    Metadata,
    /// There is no package, so what is built has no place.
    #[error("cargo {command} builds what is in no package here: say where, with --target-dir")]
    NoPlace {
        /// cargo's command.
        command: String,
    },
    /// The command line asks for what can't be traced.
    #[error("{argument} can't be combined with tracing: {reason}")]
    Argument {
        /// What was asked for.
        argument: String,
        /// Why not.
        reason: &'static str,
    },
    /// The libLLVM can't be used.
    #[error(transparent)]
    Llvm(#[from] LlvmError),
    /// Code can't be instrumented.
    #[error("{}: {error}", object.display())]
    Rewrite {
        /// The object that was to be made.
        object: PathBuf,
        /// Why not.
        error: RewriteError,
    },
    /// There is code that would not be traced.
    #[error("{}: rustc wrote no bitcode of what it consists of", made.display())]
    NoBitcode {
        /// The archive, or one of the objects that are linked.
        made: PathBuf,
    },
    /// An archive can't be read, or written anew.
    #[error("{}: {reason}", archive.display())]
    Archive {
        /// The archive.
        archive: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// What this program is to be, by the name that it is called by.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Tool {
    /// In the place of rustc, whose path is the first argument.
    Rustc { values: bool },
    /// In the place of rustdoc.
    Rustdoc,
    /// In the place of the linker of this name.
    Linker(OsString),
}

impl Tool {
    const RUSTC: &str = "slimline-rustc";
    const RUSTC_VALUES: &str = "slimline-rustc-values";
    const RUSTDOC: &str = "slimline-rustdoc";
    /// Of a directory: rustc chooses a linker's arguments by its name, which stays as it is.
    const LINKERS: &str = "slimline-linker";

    fn called(path: &Path) -> Option<Self> {
        let name = path.file_name()?;
        if path.parent().and_then(Path::file_name).is_some_and(|directory| directory == Self::LINKERS) {
            return Some(Self::Linker(name.to_owned()));
        }
        match name.to_str()? {
            Self::RUSTC => Some(Self::Rustc { values: false }),
            Self::RUSTC_VALUES => Some(Self::Rustc { values: true }),
            Self::RUSTDOC => Some(Self::Rustdoc),
            _ => None,
        }
    }
}

/// Does what this program is called for, where that is one of cargo's or rustc's tools; the status to end with.
/// `runtime` is the archive that instrumented programs are linked with, `allocators` reads those of the program's own, as
/// [`ALLOCATORS_VARIABLE`] names them.
pub fn as_tool<E: From<CargoError>>(
    arguments: &[OsString],
    runtime: &[u8],
    allocators: impl FnOnce() -> Result<OwnAllocators, E>,
) -> Option<Result<u8, E>> {
    let (own, arguments) = arguments.split_first()?;
    let own = Path::new(own);
    let tool = Tool::called(own)?;
    let done = |allocators| match tool {
        Tool::Rustc { values } => compiling::rustc(own, arguments, Told { values, allocators }),
        Tool::Rustdoc => compiling::rustdoc(own, arguments),
        Tool::Linker(name) => linking::link(&name, arguments, runtime, &allocators),
    };
    Some(allocators().and_then(|allocators| Ok(done(allocators)?)))
}

fn io_error(path: impl AsRef<Path>, error: io::Error) -> CargoError {
    CargoError::Io { path: path.as_ref().to_owned(), error }
}

/// Makes a link to this program, in the place of another one.
fn make_tool(place: &Path) -> Result<(), CargoError> {
    let own = std::env::current_exe().map_err(|error| io_error("/proc/self/exe", error))?;
    if std::fs::read_link(place).is_ok_and(|target| target == own) {
        return Ok(());
    }
    let directory = place.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory).map_err(|error| io_error(directory, error))?;
    // Others may do the same at this moment, and use what is there.
    let mut name = place.file_name().unwrap_or(OsStr::new("tool")).to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = place.with_file_name(name);
    let made = std::os::unix::fs::symlink(&own, &new).and_then(|()| std::fs::rename(&new, place));
    made.map_err(|error| io_error(place, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_known_by_their_names() {
        let called = |path: &str| Tool::called(Path::new(path));
        assert_eq!(called("/w/tools/slimline-rustc"), Some(Tool::Rustc { values: false }));
        assert_eq!(called("/w/tools/slimline-rustc-values"), Some(Tool::Rustc { values: true }));
        assert_eq!(called("slimline-rustdoc"), Some(Tool::Rustdoc));
        assert_eq!(called("/w/slimline-linker/clang"), Some(Tool::Linker("clang".into())));
        for other in ["/usr/bin/slimline", "rustc", "/w/slimline-linker/x/clang", ""] {
            assert_eq!(called(other), None, "{other}");
        }
    }

    #[test]
    fn links_are_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("tools/slimline-rustc");
        for _ in 0..2 {
            make_tool(&place).unwrap();
            assert_eq!(std::fs::read_link(&place).unwrap(), std::env::current_exe().unwrap());
        }
        std::fs::remove_file(&place).unwrap();
        std::os::unix::fs::symlink("/nowhere", &place).unwrap();
        make_tool(&place).unwrap();
        assert_eq!(std::fs::read_link(&place).unwrap(), std::env::current_exe().unwrap());
    }
}
