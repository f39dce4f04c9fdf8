//! Any file or pipe that claims to be of `perf record`: a session, or a reason in one line and nothing left behind.
#![no_main]

use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use slimline_collect::{ImportOptions, import};

/// What a pipe holds without a reader.
const PIPE_BYTES: usize = 64 << 10;

fuzz_target!(|input: &[u8]| {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let output = directory.path().join("session");
    let import_from = |input: PathBuf| {
        let left = || fs::read_dir(directory.path()).unwrap().count();
        let before = left();
        match import(&ImportOptions { input, output: output.clone(), columns: None }, &mut |_| ()) {
            Ok(_) => fs::remove_dir_all(&output).unwrap(),
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
        assert_eq!(left(), before, "something is left behind");
    };
    let file = directory.path().join("perf.data");
    fs::write(&file, input).unwrap();
    import_from(file);
    if input.len() <= PIPE_BYTES {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(input).unwrap();
        drop(writer);
        import_from(format!("/dev/fd/{}", reader.as_raw_fd()).into());
    }
});
