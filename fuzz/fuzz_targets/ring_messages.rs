//! Any words in a ring that a recorded program wrote over.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slimline_collect::fuzzing;

fuzz_target!(|input: &[u8]| {
    let words: Vec<u64> = input.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    fuzzing::ring_messages(&words);
});
