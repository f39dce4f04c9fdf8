//! Numbers as people read them.

pub(crate) use slimline_analyze::number::{bytes, percent};

use crate::view::Interval;

/// `98.5 %`; what is not certain is never rounded up to it: `>99.9 %`.
pub(super) fn confidence(share: f64) -> String {
    if (0.9995..1.0).contains(&share) { ">99.9 %".to_owned() } else { percent(share) }
}

/// The half-width of a 95 % interval in percentage points: `±1.6`.
pub(super) fn plus_minus(interval: Interval) -> String {
    format!("±{:.1}", (interval.high - interval.low) * 50.0)
}

/// `1,234,567`.
pub(super) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `950 ns`, `12.3 ms`, `2.41 s`.
pub(crate) fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// `1 thread`, `2 threads`.
pub(super) fn plural(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{} {noun}s", count(n)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0.5, 0.9994, 0.9995, 1.0].map(confidence), ["50.0 %", "99.9 %", ">99.9 %", "100.0 %"]);
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(duration(2_410_000_000), "2.41 s");
        assert_eq!(plural(1, "thread"), "1 thread");
        assert_eq!(plural(2000, "thread"), "2,000 threads");
        assert_eq!(plus_minus(Interval { low: 0.4, high: 0.432 }), "±1.6");
    }
}
