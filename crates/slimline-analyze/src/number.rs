//! Shares and sizes as people read them: in advice, and in all forms of a report.

/// A share of 1: `43.2 %`, and `<0.1 %` for what is there but rounds to nothing.
pub fn percent(share: f64) -> String {
    match share {
        s if s <= 0.0 => "0".to_owned(),
        s if s < 0.0005 => "<0.1 %".to_owned(),
        s => format!("{:.1} %", s * 100.0),
    }
}

/// `12 B`, `1.5 KiB`, `61.0 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0.0, 0.0001, 0.4321].map(percent), ["0", "<0.1 %", "43.2 %"]);
        let sizes = [1023, 1536, (1 << 20) - 1, 5 << 30, u64::MAX].map(bytes);
        assert_eq!(sizes, ["1023 B", "1.5 KiB", "1.0 MiB", "5.0 GiB", "16777216.0 TiB"]);
    }
}
