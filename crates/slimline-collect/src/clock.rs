//! The two clocks of a session, the one that measures work, and the kernel's tick.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

/// `CLOCK_MONOTONIC`, as the agents use it.
pub(crate) fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

fn read_ns(clock: ClockId) -> u64 {
    nanoseconds(clock_gettime(clock))
}

/// Time between two of the kernel's ticks: the coarse clocks go forward then.
pub(crate) fn tick_ns() -> u64 {
    nanoseconds(clock_getres(ClockId::MonotonicCoarse))
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Wall-clock time since 1970.
pub(crate) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
