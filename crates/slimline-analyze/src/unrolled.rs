//! Copies of one instruction: a compiler that unrolls a loop four times makes four of it, each of which goes by four times the
//! loop's stride.
//!
//! ```text
//!   source    a[i].x  for each i       0   64  128  192  256  320  …      by 64
//!   copies    1                        0                  256             by 256
//!             2                            64                  320        by 256
//!             3                                 128                       …
//! ```
//!
//! That is how StructSlim joins streams (its 4.2, equation 5): the greatest common divisor of their strides and of how far they
//! are from each other. Only instructions of one place in the source that access the same member are asked, and only where their
//! starts cut the stride into equal pieces: three neighbors that a column walk loads are no copies. The place is a line and a
//! column: `x[k] + x[k + m / 2]` in a loop by `m` cuts the stride, too, and is as it was written. Only where columns are not known
//! nobody tells that from copies.

/// How far the copies are from each other that go by `stride` from these addresses on, in the order in which they come; None where
/// they are none.
pub(crate) fn spacing(stride: i64, starts: &[u64]) -> Option<i64> {
    let copies = i64::try_from(starts.len()).ok().filter(|&copies| copies > 1)?;
    let spacing = Some(stride / copies).filter(|&spacing| spacing != 0 && spacing * copies == stride)?;
    let is_next = |pair: &[u64]| pair[1].wrapping_sub(pair[0]).cast_signed() == spacing;
    starts.windows(2).all(is_next).then_some(spacing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_pieces_of_the_stride_are_copies() {
        assert_eq!(spacing(256, &[0, 64, 128, 192]), Some(64));
        assert_eq!(spacing(-256, &[192, 128, 64, 0]), Some(-64));
        assert_eq!(spacing(16_384, &[100, 8292]), Some(8192));
        // Neighbors of one column; two fields an uneven way apart; one alone; a loop that was inlined twice.
        assert_eq!(spacing(512, &[0, 8, 16]), None);
        assert_eq!(spacing(64, &[0, 24]), None);
        assert_eq!(spacing(64, &[0]), None);
        assert_eq!(spacing(128, &[0, 0, 64, 64]), None);
        assert_eq!(spacing(1, &[0, 0]), None);
    }
}
