//! What a nest of two loops would cost with its loops exchanged: its accesses made again in the other order, and simulated.

use crate::access::{Access, AccessKind};
use crate::machine::{Machine, MachineError};
use crate::simulation::{Options, Simulation};

/// Most accesses of one time through the nest, but for long inner loops, which are walked [`LEAST_OUTER`] times: of longer
/// nests the outer loop is cut short, down to that, and the inner one to as many steps.
const MOST_ACCESSES: u64 = 1 << 18;
/// Times around the outer loop that are left at least: a line of the smallest elements.
const LEAST_OUTER: u64 = 64;

/// One instruction of the nest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its first address.
    pub start: u64,
    /// From one time around the inner loop to the next.
    pub inner_bytes: i64,
    /// The same of the outer loop.
    pub outer_bytes: i64,
    /// Bytes of an access.
    pub bytes: u32,
    /// What it does.
    pub kind: AccessKind,
}

/// How often each loop goes around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The inner one, as it is now.
    pub inner: u64,
    /// The outer one.
    pub outer: u64,
}

/// Which loop is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As it is.
    Now,
    /// The other one.
    Exchanged,
}

/// Mean cycles of an access of each stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Cycles {
    /// The first time through the nest, with empty caches.
    pub cold: Vec<f64>,
    /// The next time.
    pub warm: Vec<f64>,
}

/// Goes through a nest twice, on one core.
///
/// # Errors
/// The machine is none.
pub fn cycles(machine: &Machine, streams: &[Stream], times: Times, order: Order) -> Result<Cycles, MachineError> {
    let of_inner = times.inner.max(1).saturating_mul(streams.len().max(1) as u64);
    let outer = times.outer.max(1).min((MOST_ACCESSES / of_inner).max(LEAST_OUTER));
    let inner = times.inner.clamp(1, MOST_ACCESSES);
    let mut simulation = Simulation::new(machine, &Options::default())?;
    let mut pass = || {
        let mut sums = vec![0; streams.len()];
        let mut once = |inner: u64, outer: u64| {
            for (key, (stream, sum)) in streams.iter().zip(&mut sums).enumerate() {
                let moved = |stride: i64, times: u64| stride.wrapping_mul(times.cast_signed()).cast_unsigned();
                let address = stream
                    .start
                    .wrapping_add(moved(stream.inner_bytes, inner))
                    .wrapping_add(moved(stream.outer_bytes, outer));
                let Stream { bytes, kind, .. } = *stream;
                let access = Access { address, key: key as u32, bytes, thread: 0, kind };
                *sum += simulation.cost(&access, None).cycles;
            }
        };
        match order {
            Order::Now => (0..outer).for_each(|outer| (0..inner).for_each(|inner| once(inner, outer))),
            Order::Exchanged => (0..inner).for_each(|inner| (0..outer).for_each(|outer| once(inner, outer))),
        }
        sums.into_iter().map(|sum: u64| sum as f64 / (inner * outer) as f64).collect()
    };
    Ok(Cycles { cold: pass(), warm: pass() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four lines beside the core, 32 behind.
    fn machine() -> Machine {
        let text = r#"
            name = "small"
            cache = [
                { name = "L1", level = 1, holds = "data", size = 256, line = 64, ways = "full", latency = 1 },
                { name = "L2", level = 2, size = 2048, line = 64, ways = "full", latency = 10 },
            ]
            memory = [{ name = "memory", latency = 100 }]
        "#;
        Machine::parse(text).unwrap()
    }

    #[test]
    fn columns_made_rows_by_hand() {
        // Eight rows of 128 bytes by columns: 16 lines, more than the first level has, and all that the second needs.
        let matrix = Stream { start: 0, inner_bytes: 128, outer_bytes: 8, bytes: 8, kind: AccessKind::Load };
        // One double a column, kept in the first level by being used each time.
        let sum = Stream { start: 1 << 20, inner_bytes: 0, ..matrix };
        let times = Times { inner: 8, outer: 16 };
        let now = cycles(&machine(), &[matrix, sum], times, Order::Now).unwrap();
        // 16 lines once from memory, each of the other accesses from the second level.
        assert_eq!(now.cold[0], (16.0 * 100.0 + 112.0 * 10.0) / 128.0);
        assert_eq!(now.warm[0], 10.0);
        assert_eq!((now.cold[1], now.warm[1]), ((2.0 * 100.0 + 126.0) / 128.0, (2.0 * 10.0 + 126.0) / 128.0));
        let then = cycles(&machine(), &[matrix, sum], times, Order::Exchanged).unwrap();
        assert_eq!(then.cold[0], (16.0 * 100.0 + 112.0) / 128.0);
        assert_eq!(then.warm[0], (16.0 * 10.0 + 112.0) / 128.0);
        // Its two lines stay beside the two of a row.
        assert_eq!(then.cold[1], (2.0 * 100.0 + 126.0) / 128.0);
    }

    #[test]
    fn long_nests_are_cut_short_and_nothing_overflows() {
        let stream =
            Stream { start: u64::MAX, inner_bytes: i64::MIN, outer_bytes: 8, bytes: 8, kind: AccessKind::Store };
        let times = Times { inner: 64, outer: u64::MAX };
        let then = cycles(&machine(), &[stream], times, Order::Exchanged).unwrap();
        assert!(then.cold[0] < 100.0 && then.warm[0] > 1.0, "{then:?}");
        let none = cycles(&machine(), &[], Times { inner: 0, outer: 0 }, Order::Now).unwrap();
        assert_eq!(none, Cycles { cold: Vec::new(), warm: Vec::new() });
    }
}
