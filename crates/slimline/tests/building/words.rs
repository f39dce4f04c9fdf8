//! `slimline-cc` and the others: links to slimline, or copies of it, that are compilers by their names.

use std::fs;
use std::os::unix::fs::symlink;

use super::{SLIMLINE, Scratch, run, text};

const COMPILERS: [&str; 7] = ["cc", "c++", "flang", "gcc", "g++", "gfortran", "cargo"];
const SOURCE: &str = "#include <stdio.h>\nint all[64];\nint main(void) { for (int i = 0; i < 64; i++) all[i] = i; puts(\"done\"); return 0; }\n";

#[test]
fn links_are_compilers() {
    let scratch = Scratch::new();
    let links = scratch.links();
    scratch.write("a.c", SOURCE);
    let names: Vec<_> =
        fs::read_dir(&links).unwrap().map(|link| link.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.len(), COMPILERS.len());
    for compiler in COMPILERS {
        let version = run(scratch.command(links.join(format!("slimline-{compiler}"))).arg("--version"));
        let own = run(scratch.command(SLIMLINE).args([compiler, "--version"]));
        assert_eq!(text(&version.stdout), text(&own.stdout), "{compiler}");
    }
    for compiler in ["slimline-cc", "slimline-gcc"] {
        run(scratch.command(links.join(compiler)).args(["-O1", "a.c", "-o", "a.out"]));
        assert_eq!(text(&run(&mut scratch.command("./a.out")).stdout), "done\n");
        let trace = scratch.traced("./a.out");
        assert!(trace.to_string().contains("\"all\""), "{trace:#}");
    }
}

#[test]
fn a_copy_is_a_compiler_and_found_by_path() {
    let scratch = Scratch::new();
    scratch.write("a.c", SOURCE);
    let bin = scratch.file("a b");
    fs::create_dir(&bin).unwrap();
    // As a hard link or a copy by `install` would be.
    if fs::hard_link(SLIMLINE, bin.join("slimline-gcc")).is_err() {
        fs::copy(SLIMLINE, bin.join("slimline-gcc")).unwrap();
    }
    let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())));
    run(scratch.command("sh").env("PATH", path.unwrap()).args(["-c", "slimline-gcc a.c -o a.out && ./a.out"]));
}

#[test]
fn links_are_made_again_and_nothing_else_is_touched() {
    let scratch = Scratch::new();
    let links = scratch.links();
    let link = links.join("slimline-cc");
    fs::remove_file(&link).unwrap();
    symlink("/nowhere/slimline", &link).unwrap();
    scratch.links();
    assert_eq!(fs::read_link(&link).unwrap(), fs::canonicalize(SLIMLINE).unwrap());
    fs::remove_file(&link).unwrap();
    fs::write(&link, "mine").unwrap();
    let refused = scratch.command(SLIMLINE).arg("links").arg(&links).output().unwrap();
    let line = text(&refused.stderr);
    assert_eq!((refused.status.code(), line.lines().count()), (Some(2), 1), "{line}");
    assert!(line.contains("slimline-cc: is there already, and no link"), "{line}");
    assert_eq!(fs::read(&link).unwrap(), b"mine");
    let nowhere = scratch.command(SLIMLINE).args(["links", "/nowhere/at/all"]).output().unwrap();
    assert_eq!((nowhere.status.code(), text(&nowhere.stderr).lines().count()), (Some(2), 1), "{nowhere:?}");
}
