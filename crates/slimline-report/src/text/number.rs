//! Numbers as people read them.

pub(crate) use slimline_analyze::number::{bytes, percent};

use crate::view::Interval;

/// `98.5 %`; what is not certain is never rounded up to it: `>99.9 %`.
pub(super) fn confidence(share: f64) -> String {
    if (0.9995..1.0).contains(&share) { ">99.9 %".to_owned() } else { percent(share) }
}

/// Heading of the columns that [`range`] fills.
pub(crate) const RANGE: &str = "from–to";

/// A 95 % interval in percent: `27–30`, `0.3–1.2`. Both ends, as most are skewed; rounded outwards, so that it is never
/// told narrower than it is.
pub(crate) fn range(interval: Interval) -> String {
    format!("{}–{}", end(interval.low, f64::floor), end(interval.high, f64::ceil))
}

/// Below ten percent with a decimal. Rounding to a millionth first takes back what binary fractions add.
fn end(share: f64, round: fn(f64) -> f64) -> String {
    let percent = (share * 1e8).round() / 1e6;
    let tenths = round((percent * 10.0 * 1e6).round() / 1e6) / 10.0;
    if tenths < 10.0 && tenths != 0.0 { format!("{tenths:.1}") } else { format!("{:.0}", round(percent)) }
}

/// `1,234,567`.
pub(crate) fn count(n: u64) -> String {
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
pub(crate) fn plural(n: u64, noun: &str) -> String {
    plural_of(n, noun, &format!("{noun}s"))
}

/// `1 access`, `2 accesses`.
pub(crate) fn plural_of(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {many}", count(n)) }
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
    }

    #[test]
    fn intervals_are_told_from_end_to_end_and_never_too_narrow() {
        let told = |low, high| range(Interval { low, high });
        assert_eq!(told(0.271, 0.299), "27–30");
        assert_eq!(told(0.3, 0.5), "30–50");
        assert_eq!(told(0.001, 0.812), "0.1–82");
        assert_eq!(told(0.00301, 0.0121), "0.3–1.3");
        assert_eq!(told(0.07, 0.29), "7.0–29");
        assert_eq!(told(0.0991, 0.0999), "9.9–10");
        assert_eq!(told(0.0, 1.0), "0–100");
        assert_eq!(told(0.9994, 1.0), "99–100");
    }
}
