//! What allocations and frees cost whose hints tell nothing: beside malloc, the system's, in the same run.
//!
//! `cargo bench -p slimline-tidy --bench throughput`; with `-- "pairs, 1"` these rows only. Rounds of both are interleaved; what is shown is the median of the
//! ratios of neighbouring rounds: above 1, Tidy does more in a second.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::ptr::NonNull;
use std::thread;
use std::time::Instant;

use slimline_tidy::Context;

const ROUNDS: usize = 5;
const ARENAS: usize = 32;

/// What is measured.
#[derive(Clone, Copy)]
enum Allocator<'c> {
    Malloc,
    /// In a context of 32 × 32 arenas: an arena by chance, or always the same.
    Tidy {
        context: &'c Context,
        spread: bool,
    },
}

impl Allocator<'_> {
    #[inline(always)]
    fn alloc(self, layout: Layout, chance: u64) -> NonNull<u8> {
        let object = match self {
            // SAFETY: no size is 0.
            Self::Malloc => NonNull::new(unsafe { System.alloc(layout) }).unwrap(),
            Self::Tidy { context, spread: true } => {
                context.alloc(layout, &[(chance >> 20) as usize, (chance >> 40) as usize]).unwrap()
            }
            Self::Tidy { context, spread: false } => context.alloc(layout, &[7, 7]).unwrap(),
        };
        // Who allocates writes.
        // SAFETY: all sizes are that large.
        unsafe { object.cast::<u64>().write(chance) };
        object
    }

    #[inline(always)]
    fn free(self, object: NonNull<u8>, layout: Layout) {
        // SAFETY: each object is freed once, by what allocated it.
        unsafe {
            match self {
                Self::Malloc => System.dealloc(object.as_ptr(), layout),
                Self::Tidy { context, .. } => context.free(object),
            }
        }
    }
}

struct Random(u64);

impl Random {
    #[inline(always)]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Sixteen to 128 bytes.
#[inline(always)]
fn layout(chance: u64) -> Layout {
    Layout::from_size_align(16 + (chance >> 8) as usize % 15 * 8, 8).unwrap()
}

/// Frees each object before the next one is allocated.
fn pairs(allocator: Allocator<'_>, operations: usize, seed: u64) {
    let mut random = Random(seed);
    for _ in 0..operations / 2 {
        let chance = random.next();
        let object = black_box(allocator.alloc(layout(chance), chance));
        allocator.free(object, layout(chance));
    }
}

/// Allocates so many objects, then frees them in that order.
fn batches<const OBJECTS: usize>(allocator: Allocator<'_>, operations: usize, seed: u64) {
    let mut random = Random(seed);
    let mut objects = Vec::with_capacity(OBJECTS);
    for _ in 0..operations / 2 / OBJECTS {
        for _ in 0..OBJECTS {
            let chance = random.next();
            objects.push((allocator.alloc(layout(chance), chance), layout(chance)));
        }
        for (object, layout) in objects.drain(..) {
            allocator.free(object, layout);
        }
    }
}

/// Keeps so many objects; frees one by chance and allocates another one in its place.
fn churn<const OBJECTS: usize>(allocator: Allocator<'_>, operations: usize, seed: u64) {
    let mut random = Random(seed);
    let make = |random: &mut Random| {
        let chance = random.next();
        (allocator.alloc(layout(chance), chance), layout(chance))
    };
    let mut objects: Vec<_> = (0..OBJECTS).map(|_| make(&mut random)).collect();
    for _ in 0..operations / 2 {
        let which = (random.next() >> 16) as usize % OBJECTS;
        let (object, layout) = objects[which];
        allocator.free(object, layout);
        objects[which] = make(&mut random);
    }
    for (object, layout) in objects {
        allocator.free(object, layout);
    }
}

/// Nanoseconds an operation.
fn time(run: fn(Allocator<'_>, usize, u64), allocator: Allocator<'_>, threads: usize, operations: usize) -> f64 {
    let begin = Instant::now();
    if threads == 1 {
        run(allocator, operations, 88_172_645_463_325_252);
    } else {
        thread::scope(|scope| {
            for number in 0..threads as u64 {
                scope.spawn(move || run(allocator, operations / threads, 88_172_645_463_325_252 + (number << 32)));
            }
        });
    }
    begin.elapsed().as_secs_f64() * 1e9 / operations as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    // `cargo test --benches` runs it, too.
    let quick = !std::env::args().any(|argument| argument == "--bench");
    let (rounds, operations) = if quick { (1, 100_000) } else { (ROUNDS, 2_000_000) };
    type Run = fn(Allocator<'_>, usize, u64);
    let runs: [(&str, Run); 5] = [
        ("pairs", pairs),
        ("batches of 1000", batches::<1000>),
        ("batches of 100 000", batches::<100_000>),
        ("churn of 10 000", churn::<10_000>),
        ("churn of 300 000", churn::<300_000>),
    ];
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    println!("| operations | threads | hints | malloc, ns | Tidy, ns | malloc ÷ Tidy |");
    println!("| --- | ---: | --- | ---: | ---: | ---: |");
    for threads in [1, 8] {
        for (name, run) in runs {
            if threads > 1 && name.ends_with("00 000") {
                continue;
            }
            for spread in [true, false] {
                let hints = if spread { "by chance" } else { "the same" };
                if !format!("{name}, {threads}, {hints}").contains(&wanted) {
                    continue;
                }
                let mut times = Vec::new();
                for _ in 0..rounds {
                    let context = Context::new(&[ARENAS, ARENAS]).unwrap();
                    let malloc = time(run, Allocator::Malloc, threads, operations);
                    times.push((malloc, time(run, Allocator::Tidy { context: &context, spread }, threads, operations)));
                }
                let malloc = median(times.iter().map(|(malloc, _)| *malloc).collect());
                let tidy = median(times.iter().map(|(_, tidy)| *tidy).collect());
                let ratio = median(times.iter().map(|(malloc, tidy)| malloc / tidy).collect());
                println!("| {name} | {threads} | {hints} | {malloc:.1} | {tidy:.1} | {ratio:.2} |");
            }
        }
    }
}
