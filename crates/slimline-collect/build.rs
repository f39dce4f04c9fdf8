//! Builds what runs inside measured programs, to be embedded: the agent and the profiler of regions as shared libraries, the
//! runtime of instrumented ones as an archive, and the plugin of translated ones, which has that archive in it.
//!
//! Cargo can't depend on such artifacts on stable, so this runs a second cargo with a target directory of its own (the
//! outer one holds the lock of its own). All are always optimized (profile `agent`).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let manifest = variable("CARGO_MANIFEST_DIR");
    let workspace = manifest.join("../..");
    for source in ["slimline-agent", "slimline-emulate", "slimline-regions", "slimline-runtime", "slimline-translate"] {
        println!("cargo::rerun-if-changed={}", manifest.join("..").join(source).display());
    }
    // Of the trace crate they see the records only: its other half changes far more often.
    let seen = ["Cargo.toml", "src/lib.rs", "src/wire.rs", "src/access.rs", "src/address.rs", "src/script.rs"];
    for source in seen.iter().chain(&[
        "src/stream/mod.rs",
        "src/stream/record.rs",
        "src/stream/ring.rs",
        "src/stream/translated.rs",
    ]) {
        println!("cargo::rerun-if-changed={}", manifest.join("../slimline-trace").join(source).display());
    }
    for file in ["Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", workspace.join(file).display());
    }

    for (package, variable) in [("slimline-agent", "SLIMLINE_AGENT"), ("slimline-regions", "SLIMLINE_REGIONS_LIBRARY")]
    {
        // A thread that is cancelled in one of the functions that these wrap is unwound through the wrapper.
        let built = build(&workspace, package, "cdylib", "preload", &["-C", "force-unwind-tables=yes"]);
        let library = built.join(format!("lib{}.so", package.replace('-', "_")));
        assert!(library.is_file(), "{} is missing: {package} must be built as a cdylib", display(&library));
        println!("cargo::rustc-env={variable}={}", display(&library));
    }

    let all = build(&workspace, "slimline-runtime", "staticlib", "archive", &[]).join("libslimline_runtime.a");
    let all = fs::read(&all).unwrap_or_else(|error| panic!("{}: {error}", display(&all)));
    let archive = variable("OUT_DIR").join("libslimline_runtime.a");
    let words = thread_words(&manifest);
    let members = [("slimline_rt.o/", runtime_in(&all), &SYMBOLS[..]), ("words.o/", &words, &WORDS)];
    fs::write(&archive, archive_of(&members)).expect("OUT_DIR can be written");
    println!("cargo::rustc-env=SLIMLINE_RUNTIME={}", display(&archive));

    let linked = format!("link-arg={}", display(&archive));
    let plugin = build(&workspace, "slimline-translate", "cdylib", "plugin", &["-C", &linked]);
    println!("cargo::rustc-env=SLIMLINE_TRANSLATE={}", display(&plugin.join("libslimline_translate.so")));
}

/// Builds a crate of ours and returns the directory of what came of it.
fn build(workspace: &Path, package: &str, crate_type: &str, feature: &str, flags: &[&str]) -> PathBuf {
    let target_directory = variable("OUT_DIR").join("agent");
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(workspace)
        .args(["rustc", "--profile", "agent", "--locked", "--package", package, "--lib"])
        .args(["--crate-type", crate_type, "--features", feature, "--target", &target])
        .arg("--target-dir")
        .arg(&target_directory)
        .arg("--")
        .args(flags)
        // Set for us by the outer cargo and by clippy; they would reach the inner one.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("CARGO_MAKEFLAGS")
        .env_remove("MAKEFLAGS");
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "building {package} failed: {status}");
    target_directory.join(target).join("agent")
}

/// What instrumented code refers to, and the runtime's own names that a linker must find.
const SYMBOLS: [&str; 18] = [
    "__slimline_clone",
    "__slimline_fork",
    "__slimline_gate",
    "__slimline_loaded",
    "__slimline_mlockall",
    "__slimline_mmap",
    "__slimline_mremap",
    "__slimline_munlockall",
    "__slimline_munmap",
    "__slimline_next_chunk",
    "__slimline_note",
    "__slimline_shmat",
    "__slimline_shmdt",
    "__slimline_sigaction",
    "__slimline_signal",
    "__slimline_syscall",
    "__slimline_sysv_signal",
    "slimline_object",
];
/// What the object has that only executables are linked with.
const WORDS: [&str; 2] = ["__slimline_cursor", "__slimline_thread"];

/// That object.
fn thread_words(manifest: &Path) -> Vec<u8> {
    let object = variable("OUT_DIR").join("slimline_words.o");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "obj", "-C", "panic=abort", "-C", "debuginfo=0"])
        .args(["--target", &env::var("TARGET").expect("cargo sets TARGET"), "-o"])
        .arg(&object)
        .arg(manifest.join("../slimline-runtime/src/thread_words.rs"));
    let status = rustc.status().expect("rustc starts");
    assert!(status.success(), "making thread_words.rs failed: {status}");
    fs::read(&object).unwrap_or_else(|error| panic!("{}: {error}", display(&object)))
}

/// The runtime's one object in the archive that rustc made. The others are of the compiler's own library, which nothing
/// in it needs: linked into programs they could only be in the way.
fn runtime_in(archive: &[u8]) -> &[u8] {
    let mut rest = archive.strip_prefix(MAGIC).expect("an archive");
    let mut found = None;
    while rest.len() >= HEADER_BYTES {
        let size = std::str::from_utf8(&rest[48..58]).expect("a member's size");
        let size: usize = size.trim_end().parse().expect("a member's size");
        let member = &rest[HEADER_BYTES..HEADER_BYTES + size];
        let defines = |symbol: &&str| member.windows(symbol.len()).any(|window| window == symbol.as_bytes());
        if member.starts_with(b"\x7fELF") && SYMBOLS.iter().all(defines) {
            assert!(found.is_none(), "the runtime is more than one object");
            found = Some(member);
        }
        rest = &rest[(HEADER_BYTES + size.next_multiple_of(2)).min(rest.len())..];
    }
    found.expect("the runtime's object")
}

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER_BYTES: usize = 60;

/// An archive of objects, each with its name and its symbols, and the index that linkers look these up in.
fn archive_of(objects: &[(&str, &[u8], &[&str])]) -> Vec<u8> {
    let symbols = || objects.iter().flat_map(|(_, _, symbols)| *symbols);
    let count = symbols().count();
    let mut index = u32::try_from(count).expect("few").to_be_bytes().to_vec();
    let names: Vec<u8> = symbols().flat_map(|symbol| symbol.bytes().chain([0])).collect();
    let index_bytes = (index.len() + count * 4 + names.len()).next_multiple_of(2);
    let mut place = MAGIC.len() + HEADER_BYTES + index_bytes;
    for (_, object, symbols) in objects {
        let at = u32::try_from(place).expect("small").to_be_bytes();
        symbols.iter().for_each(|_| index.extend(at));
        place += HEADER_BYTES + object.len().next_multiple_of(2);
    }
    index.extend(names);
    let mut archive = MAGIC.to_vec();
    let objects = objects.iter().map(|(name, object, _)| (*name, *object));
    for (name, content) in [("/", index.as_slice())].into_iter().chain(objects) {
        let size = content.len().next_multiple_of(2);
        archive.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644).bytes());
        archive.extend(content);
        archive.resize(archive.len() + size - content.len(), 0);
    }
    archive
}

fn variable(name: &str) -> PathBuf {
    PathBuf::from(env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")))
}

fn display(path: &Path) -> &str {
    path.to_str().expect("the target directory is UTF-8")
}
