//! Any site table and any words of an instrumented program's trace: an error, or analyses that count no more than was written.
//!
//! The first two bytes of the input say how many of a table's follow; the rest is words. A table's head is made to fit, as whoever
//! forges one would, and small words are headers of its segments.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slimline_analyze::full_trace::attributed::AttributedAccesses;
use slimline_analyze::full_trace::findings::findings;
use slimline_analyze::full_trace::splitting::SplitRules;
use slimline_analyze::full_trace::{TraceAnalysis, TraceBatch};
use slimline_trace::stream::decode::{Decoder, Program};
use slimline_trace::stream::sites::{Module, ModuleId, VERSION};
use twox_hash::XxHash64;

fuzz_target!(init: std::panic::set_hook(Box::new(|panic| eprintln!("{panic}"))), |input: &[u8]| {
    let Some((length, rest)) = input.split_first_chunk::<2>() else { return };
    let (table, rest) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    let Ok(modules) = Module::read_section(&blob(table)) else { return };
    let mut program = Program::new();
    modules.into_iter().for_each(|(id, module)| program.add(id, module));
    let header = |word: u64| program.segments().get(word as usize).map_or(word, |segment| segment.header);
    let words: Vec<u64> = rest.as_chunks::<8>().0.iter().map(|bytes| header(u64::from_le_bytes(*bytes))).collect();
    let (mut decoder, mut visits) = (Decoder::new(), Vec::new());
    for is_open in [false, true] {
        let is_plain = decoder.decode(&program, &words, is_open, &mut visits);
        assert!(program.records_end(&visits) <= words.len());
        let batch = TraceBatch { tid: 1, visits: &visits, words: &words, is_plain, ..TraceBatch::default() };
        for mut analysis in [TraceAnalysis::new(), TraceAnalysis::new().by_callers()] {
            analysis.update(&program, &batch);
            let found = findings(&program, &analysis, &SplitRules::default());
            assert!(found.heap_total.count() <= found.total.count());
        }
        let (mut attributed, mut accesses) = (AttributedAccesses::with_parts(64.try_into().unwrap()), Vec::new());
        attributed.update(&program, &batch, &mut accesses);
        let keys = attributed.origins(&program).keys().len();
        assert!(accesses.iter().all(|access| (access.key as usize) < keys));
    }
});

/// A site table with a right head.
fn blob(table: &[u8]) -> Vec<u8> {
    let mut body = table.to_vec();
    body.resize(body.len().next_multiple_of(8), 0);
    let id = ModuleId::from_hash(XxHash64::oneshot(0, &body)).number();
    let head = [u64::from(VERSION), 32 + body.len() as u64, id];
    [b"slimsite".as_slice(), &head.map(u64::to_le_bytes).concat(), &body].concat()
}
