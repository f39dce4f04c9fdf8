//! Builds the agent as a shared library, to be embedded.
//!
//! Cargo can't depend on a `cdylib` artifact on stable, so this runs a second cargo with a target directory of its own
//! (the outer one holds the lock of its own). The agent is always optimized (profile `agent`):
//! it runs inside the measured program.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let variable = |name: &str| PathBuf::from(env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")));
    let manifest = variable("CARGO_MANIFEST_DIR");
    let workspace = manifest.join("../..");
    let target_directory = variable("OUT_DIR").join("agent");
    let target = env::var("TARGET").expect("cargo sets TARGET");

    for source in ["slimline-agent", "slimline-emulate"] {
        println!("cargo::rerun-if-changed={}", manifest.join("..").join(source).display());
    }
    // Of the trace crate the agent sees the records only: its other half changes far more often.
    for source in ["Cargo.toml", "src/lib.rs", "src/wire.rs", "src/access.rs", "src/address.rs"] {
        println!("cargo::rerun-if-changed={}", manifest.join("../slimline-trace").join(source).display());
    }
    for file in ["Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", workspace.join(file).display());
    }

    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(&workspace)
        .args(["rustc", "--profile", "agent", "--locked", "--package", "slimline-agent", "--lib"])
        .args(["--crate-type", "cdylib", "--features", "preload", "--target", &target])
        .arg("--target-dir")
        .arg(&target_directory)
        // A thread that is cancelled in one of the functions that the agent wraps is unwound through the wrapper.
        .args(["--", "-C", "force-unwind-tables=yes"])
        // Set for us by the outer cargo and by clippy; they would reach the inner one.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("CARGO_MAKEFLAGS")
        .env_remove("MAKEFLAGS");
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "building slimline-agent failed: {status}");
    let library = target_directory.join(target).join("agent/libslimline_agent.so");
    assert!(library.is_file(), "{} is missing: slimline-agent must be a cdylib", display(&library));
    println!("cargo::rustc-env=SLIMLINE_AGENT={}", display(&library));
}

fn display(path: &Path) -> &str {
    path.to_str().expect("the target directory is UTF-8")
}
