//! Any bytes in one file of a session: an error, or tables whose rows refer to each other rightly.
//!
//! The rest of the session is that in `seeds/session-files`; the first byte of the input says which file the others replace.
//! A table's entry in its manifest is made to fit, as whoever forges a session would.
#![no_main]

use std::fs;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use slimline_trace::session::Session;
use twox_hash::XxHash64;

const MANIFEST: &str = "part-00000.json";
const FILES: [&str; 11] = [
    "session.json",
    MANIFEST,
    "accesses-00000.parquet",
    "blocks-00000.parquet",
    "live-ranges-00000.parquet",
    "mappings-00000.parquet",
    "paths-00000.parquet",
    "ranges-00000.parquet",
    "samples-00000.parquet",
    "stacks-00000.parquet",
    "threads-00000.parquet",
];
/// The process in the seeds' `session.json`.
const PROCESS: &str = "p1-0";

fuzz_target!(init: std::panic::set_hook(Box::new(|panic| eprintln!("{panic}"))), |input: &[u8]| {
    let Some((&which, content)) = input.split_first() else { return };
    let replaced = FILES[usize::from(which) % FILES.len()];
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds/session-files");
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::create_dir(directory.path().join(PROCESS)).unwrap();
    for name in FILES {
        let place = if name == "session.json" { directory.path().to_owned() } else { directory.path().join(PROCESS) };
        let bytes = match name {
            _ if name == replaced => content.to_vec(),
            MANIFEST => manifest(&fs::read(seeds.join(name)).unwrap(), replaced, content),
            _ => fs::read(seeds.join(name)).unwrap(),
        };
        fs::write(place.join(name), bytes).unwrap();
    }
    let Ok(session) = Session::open(directory.path()) else { return };
    for summary in session.processes() {
        let Ok(process) = session.load(summary) else { continue };
        for part in process.parts().take(4).flatten() {
            let accesses: usize = part.windows().map(|window| window.accesses.len()).sum();
            assert!(accesses <= part.accesses.len());
        }
    }
});

/// The manifest in which `replaced` has this content. How many rows that has nobody checks before it is read.
fn manifest(seed: &[u8], replaced: &str, content: &[u8]) -> Vec<u8> {
    let mut manifest: Value = serde_json::from_slice(seed).unwrap();
    let table = replaced.trim_end_matches("-00000.parquet");
    if let Some(entry) = manifest["files"].get_mut(table) {
        entry["bytes"] = json!(content.len());
        entry["xxh64"] = json!(format!("{:016x}", XxHash64::oneshot(0, content)));
    }
    serde_json::to_vec(&manifest).unwrap()
}
