//! The newest LLVM there is: rustc's own, whose debug information is laid out otherwise.

use std::path::PathBuf;
use std::process::Command;

use slimline_instrument::llvm::{Llvm, LlvmError, SUPPORTED};
use slimline_instrument::rewrite::{Origin, Told, rewrite};

use crate::harness::run;

const SOURCE: &str = r#"
pub struct Item { pub key: u32, pub price: f64, pub next: Option<Box<Item>> }
pub fn total(mut list: &Option<Box<Item>>) -> f64 {
    let mut sum = 0.0;
    while let Some(item) = list { sum += item.price; list = &item.next; }
    sum
}
pub fn push(list: &mut Vec<Item>, key: u32) { list.push(Item { key, price: f64::from(key), next: None }); }
"#;

/// The libLLVM that this Rust uses.
fn rustc_library() -> PathBuf {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = String::from_utf8(run(Command::new(rustc).args(["--print", "sysroot"])).stdout).unwrap();
    let files = std::fs::read_dir(PathBuf::from(sysroot.trim()).join("lib")).unwrap().map(|file| file.unwrap().path());
    let is_library =
        |file: &PathBuf| file.file_name().unwrap().to_str().is_some_and(|it| it.starts_with("libLLVM.so."));
    files.into_iter().find(is_library).expect("rustc has a libLLVM")
}

#[test]
fn rusts_bitcode_is_rewritten() {
    let llvm = match Llvm::load(&rustc_library()) {
        Ok(llvm) => llvm,
        // A toolchain newer than what is known here is refused, which is what a user would see.
        Err(LlvmError::Version { found, .. }) if found > *SUPPORTED.end() => return,
        Err(error) => panic!("{error}"),
    };
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    std::fs::write(place("items.rs"), SOURCE).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    for level in ["0", "2"] {
        let mut command = Command::new(&rustc);
        command.args(["--edition=2024", "--crate-type=lib", "--emit=llvm-bc", "-g", "-C", "codegen-units=1", "-C"]);
        run(command.arg(format!("opt-level={level}")).arg("-o").args([place("items.bc"), place("items.rs")]));
        let done = rewrite(&llvm, &place("items.bc"), &place("out.bc"), &Told::default(), &Origin::default()).unwrap();
        assert!(done.functions >= 2 && done.sites >= 4, "{done:?}");
        // What is instrumented says so.
        let twice = rewrite(&llvm, &place("out.bc"), &place("twice.bc"), &Told::default(), &Origin::default())
            .unwrap_err()
            .to_string();
        assert!(twice.ends_with("is instrumented already"), "{twice}");
    }
    std::fs::write(place("damaged.bc"), "BC no bitcode").unwrap();
    assert!(rewrite(&llvm, &place("damaged.bc"), &place("out.bc"), &Told::default(), &Origin::default()).is_err());
}

#[test]
fn what_is_no_libllvm_is_refused() {
    let missing = Llvm::load(&PathBuf::from("/nowhere/libLLVM.so")).err().unwrap().to_string();
    assert!(missing.starts_with("/nowhere/libLLVM.so can't be loaded: "), "{missing}");
    let other = Llvm::load(&PathBuf::from("libc.so.6")).err().unwrap().to_string();
    assert_eq!(other, "libc.so.6 has no function LLVMGetVersion: is it a libLLVM of version 19 to 22?");
}
