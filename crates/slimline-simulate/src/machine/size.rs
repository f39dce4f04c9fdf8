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

#[cfg(test)]
mod tests {
    use super::*;

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
