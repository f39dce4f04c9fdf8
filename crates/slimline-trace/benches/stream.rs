//! What reading a full trace costs, and what it takes on disk: of a loop nest, of a walk along a list, and of what an interpreter does.
//!
//! `cargo bench -p slimline-trace --bench stream`. Times depend on the machine: beside each is how often the sum of the
//! chunk's words fits into it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use slimline_trace::stream::chunk::Chunk;
use slimline_trace::stream::decode::{Decoder, Program};
use slimline_trace::stream::order::in_order;
use slimline_trace::stream::record::HEADER_MARK;
use slimline_trace::stream::recording::{Recording, RecordingWriter};
use slimline_trace::stream::sites::{Module, ModuleBuilder, Site, SiteKind};

/// Words of a chunk.
const CHUNK_WORDS: usize = 32_768;
const CHUNKS: u64 = 64;
const ROUNDS: u32 = 20;
/// What the interpreter knows.
const INSTRUCTIONS: u64 = 280;
/// Chunks that are in the caches, as those are that were just drained of a ring.
const WARM: usize = 2;

fn main() {
    let mut builder = ModuleBuilder::new();
    let site = |kind| Site::new(kind, 8);
    // c[i][j] += a[i][k] * b[k][j], with c in a register; then the row's end.
    builder.segment([site(SiteKind::Load), site(SiteKind::Load)]);
    builder.segment([site(SiteKind::Load), site(SiteKind::Store)]);
    // sum += node->key; node = node->next
    builder.segment([site(SiteKind::Load), site(SiteKind::Load)]);
    // An interpreter's instructions.
    (0..INSTRUCTIONS).for_each(|number| _ = builder.segment(vec![site(SiteKind::Load); words_of(number)]));
    let (_, blob) = builder.finish("bench.c", "bench.o", "/", "bench").encode();
    let mut program = Program::new();
    for (id, module) in Module::read_section(&blob).unwrap() {
        program.add(id, module);
    }
    let headers: Vec<u64> = program.segments().iter().map(|segment| segment.header).collect();
    println!(
        "| trace | sum ns/access | decode ns/access | decode ÷ sum | bytes/access | write ns/access | read ns/access |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    measure("loop nest", &program, &blob, loop_nest(&headers));
    measure("pointer chase", &program, &blob, pointer_chase(&headers));
    measure("interpreter", &program, &blob, interpreter(&headers[3..]));
}

/// Words behind an instruction's header: 1 to 7, four in the mean.
fn words_of(number: u64) -> usize {
    1 + (number % 7) as usize
}

/// Runs instructions of a program that nobody could foresee, over the same small stack.
fn interpreter(headers: &[u64]) -> Vec<Vec<u64>> {
    let mut state = 1_u64;
    let mut chunk = || {
        let mut words = Vec::new();
        while words.len() + 8 <= CHUNK_WORDS {
            // Knuth's MMIX.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = (state >> 33) % INSTRUCTIONS;
            words.push(headers[number as usize]);
            words.extend((0..words_of(number) as u64).map(|word| 0x5555_0000_0000 + 16 * (number % 32) + 8 * word));
        }
        words
    };
    (0..CHUNKS).map(|_| chunk()).collect()
}

/// Multiplies matrices of 300 × 300.
fn loop_nest(headers: &[u64]) -> Vec<Vec<u64>> {
    const N: u64 = 300;
    let [a, b, c] = [0x7f00_0000_0000, 0x7f00_0010_0000, 0x7f00_0020_0000];
    let mut words = Vec::new();
    'all: for i in 0..N {
        for j in 0..N {
            for k in 0..N {
                words.extend([headers[0], a + 8 * (i * N + k), b + 8 * (k * N + j)]);
            }
            words.extend([headers[1], c + 8 * (i * N + j), c + 8 * (i * N + j)]);
            if words.len() as u64 > CHUNKS * CHUNK_WORDS as u64 {
                break 'all;
            }
        }
    }
    chunks(&words)
}

/// Walks along a list of a million nodes of 64 bytes, in no order.
fn pointer_chase(headers: &[u64]) -> Vec<Vec<u64>> {
    const NODES: u64 = 1 << 20;
    let mut words = Vec::new();
    let mut node = 1_u64;
    while (words.len() as u64) < CHUNKS * CHUNK_WORDS as u64 {
        // A full period (Knuth, TAOCP 2, 3.2.1.2), whose lower bits are too regular for memory: they are mixed.
        node = (node * 0x9_e37d + 12_345) % NODES;
        let mixed = (node ^ node >> 7 ^ node << 9) % NODES;
        let address = 0x5555_0000_0000 + 64 * mixed;
        words.extend([headers[2], address, address + 8]);
    }
    chunks(&words)
}

fn chunks(words: &[u64]) -> Vec<Vec<u64>> {
    words.chunks(CHUNK_WORDS / 3 * 3).map(<[u64]>::to_vec).collect()
}

fn measure(name: &str, program: &Program, blob: &[u8], chunks: Vec<Vec<u64>>) {
    let is_address = |word: &&u64| **word & HEADER_MARK == 0;
    let accesses_of = |chunks: &[Vec<u64>]| chunks.iter().flatten().filter(is_address).count() as f64;
    let accesses = accesses_of(&chunks);
    let per_access = |time: Duration| time.as_nanos() as f64 / accesses;
    let warm_accesses = accesses_of(&chunks[..WARM]);
    let per_warm_access = |time: Duration| time.as_nanos() as f64 / warm_accesses;
    let sum = best(|| {
        for chunk in &chunks[..WARM] {
            black_box(chunk.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
        }
    });
    let (mut decoder, mut visits) = (Decoder::new(), Vec::new());
    let decode = best(|| {
        for chunk in &chunks[..WARM] {
            decoder.decode(program, chunk, false, &mut visits);
            black_box(&visits);
        }
    });
    assert_eq!(decoder.undecoded().words, 0);

    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("trace");
    let mut writer = RecordingWriter::create(&directory, Vec::new()).unwrap();
    writer.object(0, "bench", blob).unwrap();
    let recorded: Vec<Chunk<'_>> = (0..)
        .zip(&chunks)
        .map(|(sequence, words)| Chunk {
            process: 0,
            stream: 0,
            tid: 1,
            thread_pointer: 0,
            sequence,
            began: sequence,
            ended: sequence + 1,
            words: words.into(),
            is_open: false,
        })
        .collect();
    let start = Instant::now();
    recorded.iter().for_each(|chunk| writer.chunk(chunk.clone()).unwrap());
    let (totals, all) = writer.finish(true);
    all.unwrap();
    let written = start.elapsed();
    let recording = Recording::open(&directory).unwrap();
    let start = Instant::now();
    let mut read = 0;
    let mut pieces = recording.pieces(program, &mut decoder).unwrap();
    in_order(&mut pieces, recording.streams(), |_, piece, _| read += piece.words.len()).unwrap();
    let reading = start.elapsed();
    assert_eq!(read as u64, totals.words);
    println!(
        "| {name} | {:.2} | {:.2} | {:.1} | {:.3} | {:.1} | {:.1} |",
        per_warm_access(sum),
        per_warm_access(decode),
        decode.as_secs_f64() / sum.as_secs_f64(),
        totals.bytes as f64 / accesses,
        per_access(written),
        per_access(reading),
    );
}

/// The shortest of some rounds: what the machine does besides only adds.
fn best(mut run: impl FnMut()) -> Duration {
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..ROUNDS).map(time).min().unwrap_or_default()
}
