//! Sizes as people write them.

/// The bytes of `32 KiB`, `32KiB`, `32K` or `32768`: a number, and behind it B, K, KiB, M, MiB, G, GiB or nothing. None where it is
/// no such size, or larger than addresses are.
pub fn bytes_of(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// These bytes as [`bytes_of`] takes them: in the largest unit of which there are whole ones.
pub fn text_of(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or_else(|| format!("{bytes} B"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (bytes, text) in
            [(0, "0 B"), (100, "100 B"), (36_608 << 10, "36608 KiB"), (7 << 20, "7 MiB"), (1 << 40, "1024 GiB")]
        {
            assert_eq!((text_of(bytes).as_str(), bytes_of(text)), (text, Some(bytes)));
        }
    }

    #[test]
    fn sizes_have_a_unit_or_none() {
        for (text, bytes) in
            [("64", 64), ("64 B", 64), ("4K", 4096), ("4 KiB", 4096), ("1MiB", 1 << 20), ("1 MiB", 1 << 20)]
        {
            assert_eq!(bytes_of(text), Some(bytes), "{text}");
        }
        assert_eq!([bytes_of("2G"), bytes_of("2  GiB ")], [Some(2 << 30); 2]);
        for text in ["", "K", "4 KB", "4k", "-1", "1.5 MiB", " 4", "4 M iB", "20000000000 GiB", "99999999999999999999"]
        {
            assert_eq!(bytes_of(text), None, "{text}");
        }
    }
}
