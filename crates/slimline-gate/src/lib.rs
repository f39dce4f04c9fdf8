//! What a program says to slimline: which part of it is traced, which regions it is timed by, and whose accesses are counted by a
//! name of their own. It is `slimline.h` (`slimline header`) for Rust.
//!
//! ```text
//! slimline cargo build --release
//! slimline trace --paused --live -- target/slimline/x86_64-unknown-linux-gnu/release/program
//! ```
//!
//! Where nobody listens, or elsewhere than on x86-64 Linux, all of this does nothing; nothing has to be linked.
//!
//! What [`start`] and [`stop`] say holds for the process and all of its threads: functions that begin afterwards are traced, or not, and
//! loops from the next time that they go round. Programs that were not built by `slimline cargo` say it by an instruction that does
//! nothing, for `slimline trace --collector translate`.
//!
//! [`region`] and [`watch`] call a library that slimline preloads. Whether it is there is asked once, when the program first says
//! something; where it is not, that and a load each time is what they cost.

#![no_std]

use core::ffi::{CStr, c_void};
use core::marker::PhantomData;

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

/// The calling thread is in a region of this name, within those that it is in already, until what is returned is dropped.
///
/// ```
/// let mut values = [3, 1, 2];
/// {
///     let _region = slimline_gate::region(c"sorting");
///     values.sort();
/// }
/// ```
pub fn region(name: &CStr) -> Region {
    preloaded::region_begin(name);
    Region { _of_thread: PhantomData }
}

/// A region that lasts as long as this; regions end in the order that is the reverse of the one that they began in.
#[must_use = "the region ends where this is dropped"]
#[derive(Debug)]
pub struct Region {
    /// It can't go to another thread.
    _of_thread: PhantomData<*const ()>,
}

impl Drop for Region {
    fn drop(&mut self) {
        preloaded::region_end();
    }
}

/// Accesses to this memory are counted by this name until what is returned is dropped, or for good where that is forgotten
/// ([`core::mem::forget`]).
///
/// It is the bytes that are watched: what moves, as vectors do that grow, leaves them. The memory is not borrowed, so that it can be
/// written to.
///
/// ```
/// let mut values = vec![0.0; 1000];
/// let _watch = slimline_gate::watch(&values[..], c"values");
/// values[7] = 1.0;
/// ```
pub fn watch<T: ?Sized>(memory: &T, name: &CStr) -> Watch {
    let start = (&raw const *memory).cast::<c_void>();
    preloaded::watch(start, size_of_val(memory), name);
    Watch { start: start.addr() }
}

/// Memory that is watched as long as this lasts.
#[must_use = "the memory is watched until this is dropped"]
#[derive(Debug)]
pub struct Watch {
    start: usize,
}

impl Drop for Watch {
    fn drop(&mut self) {
        preloaded::unwatch(core::ptr::without_provenance(self.start));
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod preloaded;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod runtime;

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod runtime {
    pub(crate) fn start() {}
    pub(crate) fn stop() {}
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod preloaded {
    use core::ffi::{CStr, c_void};

    pub(crate) fn region_begin(_: &CStr) {}
    pub(crate) fn region_end() {}
    pub(crate) fn watch(_: *const c_void, _: usize, _: &CStr) {}
    pub(crate) fn unwatch(_: *const c_void) {}
}

#[cfg(test)]
mod tests {
    /// This test is not linked with the runtime, and nothing is preloaded.
    #[test]
    fn without_a_listener_nothing_happens() {
        super::start();
        super::stop();
        assert_eq!(super::traced(|| 7), 7);
        let mut values = [1, 2];
        let watch = super::watch(&values, c"values");
        let region = super::region(c"name");
        values[0] = 3;
        drop((region, watch));
        assert_eq!(values, [3, 2]);
    }
}
