//! How a sample program says where its time really went: the Rust face of `../c/truth.h`.

use std::sync::atomic::{AtomicU64, Ordering};

/// CPU time of one loop, summed over passes and threads.
pub struct Truth {
    name: &'static str,
    ns: AtomicU64,
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;
const CLOCK_THREAD_CPUTIME_ID: i32 = 3;

fn clock_ns(clock: i32) -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is a valid `struct timespec` of x86-64 Linux, both clocks exist there.
    unsafe { clock_gettime(clock, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

impl Truth {
    pub const fn new(name: &'static str) -> Self {
        Self { name, ns: AtomicU64::new(0) }
    }

    /// Runs one pass and adds the calling thread's CPU time for it.
    pub fn time<R>(&self, pass: impl FnOnce() -> R) -> R {
        let started = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        let result = pass();
        self.ns.fetch_add(clock_ns(CLOCK_THREAD_CPUTIME_ID) - started, Ordering::Relaxed);
        result
    }
}

/// Writes all totals to the file that the environment variable TRUTH names, if it is set.
pub fn write(loops: &[&Truth]) {
    let Ok(path) = std::env::var("TRUTH") else { return };
    let mut text = String::new();
    for truth in loops {
        text += &format!("loop {} {}\n", truth.name, truth.ns.load(Ordering::Relaxed));
    }
    text += &format!("process {}\n", clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    std::fs::write(&path, text).expect(&path);
}

/// The `n`th command-line argument as a positive number, or `otherwise`.
pub fn argument(n: usize, otherwise: usize) -> usize {
    match std::env::args().nth(n).map(|text| text.parse()) {
        None => otherwise,
        Some(Ok(value)) if value > 0 => value,
        Some(_) => {
            eprintln!("argument {n}: not a positive number");
            std::process::exit(2);
        }
    }
}
