//! Which part of a program `slimline trace` traces.
//!
//! ```text
//! slimline cargo build --release
//! slimline trace --paused --live -- target/slimline/x86_64-unknown-linux-gnu/release/program
//! ```
//!
//! What is called here holds for the process and all of its threads: functions that begin afterwards are traced, or not, and
//! loops from the next time that they go round. In programs that are not traced, or run elsewhere than on x86-64 Linux, it does
//! nothing; nothing has to be linked. Those that were not built by `slimline cargo` say it by an instruction that does nothing, for
//! `slimline trace --collector translate`. It is `slimline.h` (`slimline header`) for Rust.

#![no_std]

/// Trace from now on.
#[inline(always)]
pub fn start() {
    runtime::start();
}

/// Trace nothing from now on, until [`start`].
#[inline(always)]
pub fn stop() {
    runtime::stop();
}

/// Traces what `run` does, and nothing from then on. Where it panics nothing is traced from then on, either.
///
/// ```
/// let sum = slimline_gate::traced(|| (0..10).sum::<u32>());
/// assert_eq!(sum, 45);
/// ```
pub fn traced<T>(run: impl FnOnce() -> T) -> T {
    struct Stop;
    impl Drop for Stop {
        fn drop(&mut self) {
            stop();
        }
    }
    let _stop = Stop;
    start();
    run()
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod runtime;

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod runtime {
    pub(crate) fn start() {}
    pub(crate) fn stop() {}
}

#[cfg(test)]
mod tests {
    /// This test is not linked with the runtime.
    #[test]
    fn without_the_runtime_nothing_happens() {
        super::start();
        super::stop();
        assert_eq!(super::traced(|| 7), 7);
    }
}
