//! `cargo bench -p slimline-analyze`: the main profile against a bare sum over the same columns, on one core.
//!
//! The ratio of the two is what to watch: it does not depend on the machine as the times do.

use std::hint::black_box;
use std::time::{Duration, Instant};

use slimline_analyze::analysis::{Analysis, Pass};
use slimline_analyze::findings::DataProfile;
use slimline_attribute::tables::{Group, GroupKind, Site, Tables, Thread};
use slimline_trace::access::{
    Access, AccessBatch, AccessKind, Evidence, GroupId, ObjectId, SiteId, Taken, ThreadId, WindowId,
};
use slimline_trace::address::Avma;

/// What a minute at 1 kHz gives: 60,000 samples with 115 accesses each.
const WINDOWS: u32 = 60_000;
const ACCESSES: u32 = 115;
const SITES: u32 = 2000;
const GROUPS: u32 = 200;
const RUNS: usize = 5;

fn main() {
    let (batches, tables) = session();
    let rows: usize = batches.iter().map(AccessBatch::len).sum();
    let bare = best(|| {
        black_box(batches.iter().map(sum).fold(0u64, u64::wrapping_add));
    });
    let profile = DataProfile::default();
    let updates = best(|| {
        let mut pass = Pass::new(&profile);
        batches.iter().for_each(|batch| pass.push(batch));
        black_box(&mut pass);
    });
    let whole = best(|| {
        let mut pass = Pass::new(&profile);
        batches.iter().for_each(|batch| pass.push(batch));
        black_box(pass.finish(&tables));
    });
    let ns = |time: Duration| time.as_nanos() as f64 / rows as f64;
    println!("{rows} rows, best of {RUNS}");
    println!("bare sum        {:8.1} ms  {:6.2} ns a row", bare.as_secs_f64() * 1e3, ns(bare));
    println!("profile         {:8.1} ms  {:6.2} ns a row", updates.as_secs_f64() * 1e3, ns(updates));
    println!("with finish     {:8.1} ms  {:6.2} ns a row", whole.as_secs_f64() * 1e3, ns(whole));
    println!("ratio           {:8.1}", whole.as_secs_f64() / bare.as_secs_f64());
    println!("order           {:?}", DataProfile::ORDER);
}

fn best(mut run: impl FnMut()) -> Duration {
    let time = |()| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    [(); RUNS].map(time).into_iter().min().unwrap_or_default()
}

/// Reads every column once.
fn sum(batch: &AccessBatch) -> u64 {
    let mut sum = 0u64;
    for row in 0..batch.len() {
        let row = batch.row(row);
        let handles =
            u64::from(row.site.0) + u64::from(row.group.0) + u64::from(row.object.0) + u64::from(row.window.0);
        let place = row.address.0.wrapping_add(row.offset).wrapping_add(u64::from(row.bytes));
        let what = u64::from(row.kind.bits()) + u64::from(row.evidence.is_execution());
        sum = sum.wrapping_add(handles).wrapping_add(place).wrapping_add(row.weight).wrapping_add(what);
    }
    sum
}

/// Windows of loops with two to nine streams: mostly affine over large arrays, some scattered, some on the stack.
fn session() -> (Vec<AccessBatch>, Tables) {
    let mut state = 88_172_645_463_325_252u64;
    let mut random = move |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % limit
    };
    let mut batches = vec![AccessBatch::with_capacity(ThreadId(0), 1 << 15)];
    for window in 0..WINDOWS {
        if batches.last().is_none_or(|batch| batch.len() > 32 << 10) {
            batches.push(AccessBatch::with_capacity(ThreadId(0), 1 << 15));
        }
        let Some(batch) = batches.last_mut() else { return Default::default() };
        batch.begin_window(WindowId(window), u64::from(window) * 1_000_000, 400);
        let streams = 2 + random(8);
        let first_site = random(u64::from(SITES) - 10);
        let start = random(1 << 20);
        for access in 0..=ACCESSES {
            let stream = u64::from(access) % streams;
            let site = (first_site + stream) as u32;
            let group = site.wrapping_mul(31) % GROUPS;
            let element = match site % 10 {
                0 | 1 => random(1 << 20),
                2 => 3,
                _ => start + u64::from(access) / streams,
            };
            let offset = element * 48 + stream * 8 % 48;
            let row = Access {
                window: WindowId(window),
                site: SiteId(site),
                address: Avma((u64::from(group) << 32) + offset),
                bytes: 8,
                kind: if site.is_multiple_of(4) { AccessKind::STORE } else { AccessKind::LOAD },
                group: GroupId(group),
                object: ObjectId(group),
                offset,
                weight: if access == 0 { 1_000_000 } else { 0 },
                evidence: if access == 0 { Evidence::Cost } else { Evidence::Execution },
            };
            match access {
                0 => batch.push_sample(row, Taken { cpu_ns: u64::from(window + 1) * 1_000_000, ..Taken::UNKNOWN }),
                _ => batch.push(row),
            }
        }
    }
    let mut tables = Tables::new();
    tables.sites = vec![Site::unknown(); SITES as usize];
    let group = Group { kind: GroupKind::Heap, objects: 1, bytes: 48 << 20, ..Group::unattributed() };
    tables.groups = vec![group; GROUPS as usize];
    tables.threads = vec![Thread { pid: 1, tid: 1, name: String::new() }];
    (batches, tables)
}
