//! What allocations and frees cost whose hints tell nothing: beside malloc, the system's, in the same run.
//!
//! `cargo bench -p slimline-tidy --bench throughput`; with `-- "pairs, 1"` these rows only. Rounds of both are interleaved; what is shown is the median of the
//! ratios of neighbouring rounds: above 1, Tidy does more in a second.
//!
//! The least that it could take is measured beside: a line of an arena, one of its bucket and one of the object, each by chance
//! where hints are, and nothing else ([`Lines`]).
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

use slimline_tidy::{Context, DEFAULT_BUCKET_BYTES};

const ROUNDS: usize = 15;
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
    Lines {
        lines: &'c Lines,
        spread: bool,
    },
}

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicUsize; 8]);

/// What any allocator that keeps the objects of an arena apart has to read and write, without what it has to do: objects are
/// always the same, one of each arena.
struct Lines {
    /// The number of each one's bucket.
    arenas: Vec<Line>,
    /// The number of each one's arena, and a count.
    buckets: Vec<Line>,
    data: NonNull<u8>,
}

// SAFETY: of the data nothing is read.
unsafe impl Sync for Lines {}

impl Lines {
    const ALL: usize = ARENAS * ARENAS;
    const DATA: Layout = Layout::new::<[[u8; DEFAULT_BUCKET_BYTES]; Self::ALL]>();

    fn new() -> Self {
        let (mut arenas, mut buckets) = (Vec::new(), Vec::new());
        arenas.resize_with(Self::ALL, Line::default);
        buckets.resize_with(Self::ALL, Line::default);
        for (arena, line) in arenas.iter_mut().enumerate() {
            // An odd number of steps: each bucket once.
            let bucket = arena * 621 % Self::ALL;
            *line.0[0].get_mut() = bucket;
            *buckets[bucket].0[0].get_mut() = arena;
        }
        // SAFETY: the size is not 0.
        let data = NonNull::new(unsafe { System.alloc_zeroed(Self::DATA) }).unwrap();
        Self { arenas, buckets, data }
    }

    fn count(line: &Line, more: isize) {
        line.0[1].store(line.0[1].load(Relaxed).wrapping_add_signed(more), Relaxed);
    }

    #[inline(always)]
    fn alloc(&self, hint: [usize; 2]) -> NonNull<u8> {
        let bucket = self.arenas[hint[0] % ARENAS * ARENAS + hint[1] % ARENAS].0[0].load(Relaxed);
        Self::count(&self.buckets[bucket], 1);
        // A line of the bucket that differs from its neighbours', as buckets' colors do.
        // SAFETY: the data are as many buckets; a bucket has 64 lines.
        unsafe { self.data.add(bucket * DEFAULT_BUCKET_BYTES + bucket * 37 % 62 * 64) }
    }

    #[inline(always)]
    fn free(&self, object: NonNull<u8>) {
        let bucket = &self.buckets[(object.addr().get() - self.data.addr().get()) / DEFAULT_BUCKET_BYTES];
        black_box(self.arenas[bucket.0[0].load(Relaxed)].0[1].load(Relaxed));
        Self::count(bucket, -1);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: it was allocated so.
        unsafe { System.dealloc(self.data.as_ptr(), Self::DATA) };
    }
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
            Self::Lines { lines, spread: true } => lines.alloc([(chance >> 20) as usize, (chance >> 40) as usize]),
            Self::Lines { lines, spread: false } => lines.alloc([7, 7]),
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
                Self::Lines { lines, .. } => lines.free(object),
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
    let (rounds, each) = if quick { (1, 12_500) } else { (ROUNDS, 2_500_000) };
    type Run = fn(Allocator<'_>, usize, u64);
    let runs: [(&str, Run); 5] = [
        ("pairs", pairs),
        ("batches of 1000", batches::<1000>),
        ("batches of 100 000", batches::<100_000>),
        ("churn of 10 000", churn::<10_000>),
        ("churn of 300 000", churn::<300_000>),
    ];
    let lines = Lines::new();
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    println!("| operations | threads | hints | malloc, ns | Tidy, ns | malloc ÷ Tidy | lines, ns |");
    println!("| --- | ---: | --- | ---: | ---: | ---: | ---: |");
    for threads in [1, 8] {
        let operations = threads * each;
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
                    let tidy = time(run, Allocator::Tidy { context: &context, spread }, threads, operations);
                    let lines = time(run, Allocator::Lines { lines: &lines, spread }, threads, operations);
                    times.push([malloc, tidy, lines]);
                }
                let of = |which: usize| median(times.iter().map(|times| times[which]).collect());
                let ratio = median(times.iter().map(|[malloc, tidy, _]| malloc / tidy).collect());
                let [malloc, tidy, lines] = [of(0), of(1), of(2)];
                println!("| {name} | {threads} | {hints} | {malloc:.1} | {tidy:.1} | {ratio:.2} | {lines:.1} |");
            }
        }
    }
}
