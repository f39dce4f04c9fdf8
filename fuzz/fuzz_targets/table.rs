//! Any table of somebody's samples, with any map of its columns in the first line.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use slimline_collect::{ImportOptions, import};

fuzz_target!(|input: &[u8]| {
    let Some(end) = input.iter().position(|&byte| byte == b'\n') else { return };
    let Ok(columns) = String::from_utf8_lossy(&input[..end]).parse() else { return };
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (table, output) = (directory.path().join("table.csv"), directory.path().join("session"));
    fs::write(&table, &input[end + 1..]).unwrap();
    let options = ImportOptions { input: table, output, columns: Some(columns) };
    if let Err(error) = import(&options, &mut |_| ()) {
        assert!(!error.to_string().contains('\n'), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "something is left behind");
    }
});
