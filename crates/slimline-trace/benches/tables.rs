//! Writing and reading a session as a recording of 60 seconds leaves it: 60,000 windows, 7 million accesses.
//!
//! `cargo bench -p slimline-trace --bench tables`. Times depend on the machine; compare them with the copy of the same
//! columns in memory that is printed beside them.

use std::time::{Duration, Instant};

use slimline_trace::access::AccessKind;
use slimline_trace::address::Avma;
use slimline_trace::served::Served;
use slimline_trace::session::{NewRows, Session, SessionWriter};
use slimline_trace::tables::*;
use slimline_trace::wire::{BurstEnd, Quality};

#[path = "../tests/session_info/mod.rs"]
mod session_info;

const PARTS: u64 = 28;
const WINDOWS: u64 = 2200;
const ACCESSES: u64 = 116;

fn main() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("session");
    let writer = SessionWriter::create(&directory, &session_info::info()).unwrap();
    let mut process = writer.process("p7-0").unwrap();
    let (mut written, mut copied, mut rows) = (Duration::ZERO, Duration::ZERO, 0);
    for number in 0..PARTS {
        let part = part(number);
        rows += part.accesses.len();
        let start = Instant::now();
        process
            .write_part(NewRows {
                stacks: &part.stacks,
                blocks: &part.blocks,
                samples: &part.samples,
                accesses: &part.accesses,
                dead_ranges: &Ranges::default(),
                live_ranges: &Ranges::default(),
                ended_mappings: &Mappings::default(),
                mappings: &Mappings::default(),
                threads: &part.threads,
                paths: &part.paths,
                names: &Names::default(),
            })
            .unwrap();
        written += start.elapsed();
        let start = Instant::now();
        std::hint::black_box(part.accesses.clone());
        copied += start.elapsed();
    }
    let bytes: u64 =
        std::fs::read_dir(directory.join("p7-0")).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();

    let start = Instant::now();
    let session = Session::open(&directory).unwrap();
    let process = session.load(&session.processes()[0]).unwrap();
    let mut found = 0;
    for part in process.parts() {
        found += part.unwrap().windows().map(|window| window.accesses.len()).sum::<usize>();
    }
    let read = start.elapsed();
    assert_eq!(found, rows);
    let million = |time: Duration| rows as f64 / time.as_secs_f64() / 1e6;
    println!(
        "{rows} rows, {:.2} bytes a row: written {written:.2?} ({:.1} M/s), read {read:.2?} ({:.1} M/s), copied {copied:.2?}",
        bytes as f64 / rows as f64,
        million(written),
        million(read),
    );
}

struct Rows {
    stacks: StackFrames,
    blocks: Blocks,
    samples: Samples,
    accesses: Accesses,
    threads: Threads,
    paths: Paths,
}

/// Windows of a loop over three streams: structures in heap blocks, a plain array, a table read at random.
fn part(number: u64) -> Rows {
    let mut rows = Rows {
        stacks: StackFrames::default(),
        blocks: Blocks::default(),
        samples: Samples::default(),
        accesses: Accesses::default(),
        threads: Threads::default(),
        paths: Paths::default(),
    };
    let stack = StackRow::new(number as usize);
    rows.stacks.push_stack(stack, (0..8).map(|frame| Avma(0x40_0000 + frame * 99)), StackEnd::Outermost);
    rows.threads.push(Thread { tid: 7, name: "t".into(), began_ns: 0, ended_ns: None, cpu_ns: 0, samples: 0 });
    for window in number * WINDOWS..(number + 1) * WINDOWS {
        let first_block = rows.blocks.len();
        for block in 0..20 {
            rows.blocks.push(Block {
                base: Avma(0x5000_0000 + scatter(window * 20 + block, 22) * 64),
                bytes: 48,
                stack: Some(stack),
                chance: Chance { follow_shift: Some((block % 3) as u8) },
            });
        }
        for access in 0..ACCESSES {
            let (address, block) = match access % 3 {
                0 => {
                    let block = BlockRow::new(first_block + (access / 6 % 20) as usize);
                    (rows.blocks.base[block.index()].0 + 8 * (access % 2), Some(block))
                }
                1 => (0x6000_0000 + (window * 40 + access) * 8, None),
                _ => (0x7000_0000 + scatter(window * ACCESSES + access, 23) * 8, None),
            };
            rows.accesses.push(Access {
                window: window as u32,
                ip: Avma(0x5555_5555_4000 + access % 12 * 5),
                address: Avma(address),
                bytes: 8,
                kind: if access % 4 == 0 { AccessKind::STORE } else { AccessKind::LOAD },
                block,
            });
        }
        rows.samples.push(Sample {
            time_ns: window * 1_000_000 + scatter(window, 10),
            thread: ThreadRow::new(0),
            cpu_ns: window * 1_000_000 + scatter(window, 12),
            weight: 1_000_000,
            sampled_ip: Avma(0x5555_5555_4000),
            ip: Avma(0x5555_5555_4000),
            address: Avma(0x7000_0000 + scatter(window, 23) * 8),
            stack_pointer: Avma(0x7fff_ffff_0000),
            access_bytes: 8,
            kind: AccessKind::LOAD,
            quality: Quality::Exact,
            block: None,
            stack: Some(stack),
            accesses: ACCESSES as u32,
            burst_instructions: 300,
            burst_end: BurstEnd::Limit,
            served: Served::UNKNOWN,
            within: Within::default(),
        });
    }
    rows
}

/// A number of `bits` bits that looks random (multiplicative hashing, Knuth 6.4).
fn scatter(number: u64, bits: u32) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)
}
