//! How a sample program says where its time really went: the Rust face of `../c/truth.h`.

use std::sync::atomic::{AtomicU64, Ordering};

/// User time of one loop, summed over passes and threads.
pub struct Truth {
    name: &'static str,
    ns: AtomicU64,
}

#[repr(C)]
struct Timeval {
    seconds: i64,
    microseconds: i64,
}

/// `struct rusage`.
#[repr(C)]
struct Usage {
    user: Timeval,
    system: Timeval,
    rest: [i64; 14],
}

unsafe extern "C" {
    fn getrusage(who: i32, usage: *mut Usage) -> i32;
}

const RUSAGE_SELF: i32 = 0;
const RUSAGE_THREAD: i32 = 1;

fn user_ns(who: i32) -> u64 {
    let none = || Timeval { seconds: 0, microseconds: 0 };
    let mut usage = Usage { user: none(), system: none(), rest: [0; 14] };
    // SAFETY: `usage` is a valid `struct rusage` of x86-64 Linux.
    unsafe { getrusage(who, &mut usage) };
    usage.user.seconds as u64 * 1_000_000_000 + usage.user.microseconds as u64 * 1000
}

impl Truth {
    pub const fn new(name: &'static str) -> Self {
        Self { name, ns: AtomicU64::new(0) }
    }

    /// Runs one pass and adds the calling thread's user time for it.
    pub fn time<R>(&self, pass: impl FnOnce() -> R) -> R {
        let started = user_ns(RUSAGE_THREAD);
        let result = pass();
        self.ns.fetch_add(user_ns(RUSAGE_THREAD) - started, Ordering::Relaxed);
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
    text += &format!("process {}\n", user_ns(RUSAGE_SELF));
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
