//! A program that does by hand what instrumented code does: it writes a trace of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

/// The oldest clang that instruments programs: its calling conventions are the runtime's.
const CLANG: &str = "clang-19";

/// Compiles `by_hand/writes.c` in a directory: its records are of the module of this number, whose site table has three
/// segments (one load; a load and a store; 60 loads), and `runtime` is the archive that hands out its chunks.
///
/// # Errors
/// Where the directory can't be written or clang fails.
pub fn writes(directory: &Path, module: u64, sites: &[u8], runtime: &[u8]) -> Result<PathBuf> {
    let [table, archive, program] = ["sites", "runtime.a", "writes"].map(|name| directory.join(name));
    fs::write(&table, sites)?;
    fs::write(&archive, runtime)?;
    let status = Command::new(CLANG)
        .args(["-O1", "-pthread", "-Wl,--export-dynamic-symbol=__slimline_*", "-o"])
        .arg(&program)
        .arg(format!("-DMODULE={module}ul"))
        .arg(format!("-DSITES=\"{}\"", table.display()))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("by_hand/writes.c"))
        .arg(&archive)
        .status()?;
    ensure!(status.success(), "{CLANG}: {status}");
    Ok(program)
}
