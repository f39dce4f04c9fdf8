//! The crate `slimline-gate`.

use std::path::Path;
use std::process::Command;

use super::Sources;

const PROGRAM: &str = r#"
fn main() {
    let mut values = vec![0u64; 100];
    let outer = slimline_gate::region(c"outer");
    {
        let _inner = slimline_gate::region(c"in it");
        let _watch = slimline_gate::watch(&values[10..], c"values");
        values[10] = 1;
    }
    drop(slimline_gate::watch(&values[..0], c"nothing"));
    std::mem::forget(slimline_gate::watch(&7u16, c"seven"));
    drop(outer);
    drop(slimline_gate::region(c"last"));
}
"#;

#[test]
fn rust_programs_say_it_however_they_are_linked() {
    let gate = Path::new(env!("CARGO_MANIFEST_DIR")).join("../slimline-gate").canonicalize().unwrap();
    let manifest = format!(
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
         [dependencies]\nslimline-gate = {{ path = \"{}\" }}\n",
        gate.display()
    );
    let sources = Sources::new(&[("Cargo.toml", &manifest), ("src/main.rs", PROGRAM)]);
    for model in ["pie", "dynamic-no-pic"] {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--offline"]).current_dir(sources.path(""));
        cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", format!("-Crelocation-model={model}"));
        let status = cargo.env("CARGO_TARGET_DIR", sources.path(model)).status().unwrap();
        assert!(status.success(), "{status}");
        let watched = ["watch 720 values", "watch 0 nothing", "watch 2 seven"];
        let regions = ["region outer in 0", "region in%20it in 1", "region last in 0"];
        assert_eq!(sources.said(&format!("{model}/debug/app")), [&watched[..], &regions].concat(), "{model}");
    }
}
