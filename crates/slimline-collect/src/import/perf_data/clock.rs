//! The system counter, in which hardware tells times, and the clock of the kernel's records.

use crate::perf_event::{Fields, Malformed};

/// How one becomes the other, as the kernel says (`perf_event_mmap_page`, the record TIME_CONV).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CounterClock {
    shift: u32,
    multiplier: u64,
    zero: u64,
    /// The counter has fewer bits than a word: those of `mask`, and this is one of its values.
    short: Option<(u64, u64)>,
}

impl CounterClock {
    /// Of the fields of a record.
    ///
    /// # Errors
    /// It ends before they do, or says what can't be.
    pub(super) fn decode(mut fields: Fields<'_>) -> Result<Self, Malformed> {
        const WITHIN: &str = "time conversion";
        let shift = u32::try_from(fields.u64(WITHIN)?).ok().filter(|&shift| shift < 64);
        let shift = shift.ok_or(Malformed { within: WITHIN })?;
        let (multiplier, zero) = (fields.u64(WITHIN)?, fields.u64(WITHIN)?);
        // Older perfs end here.
        let short = (|| {
            let (cycles, mask) = (fields.u64(WITHIN).ok()?, fields.u64(WITHIN).ok()?);
            fields.u8(WITHIN).ok()?;
            (fields.u8(WITHIN).ok()? != 0).then_some((cycles, mask))
        })();
        Ok(Self { shift, multiplier, zero, short })
    }

    /// The time at which the counter had this value.
    pub(super) fn time_ns(&self, counter: u64) -> u64 {
        let counter = match self.short {
            Some((cycles, mask)) => cycles.wrapping_add(counter.wrapping_sub(cycles) & mask),
            None => counter,
        };
        let product = (u128::from(counter) * u128::from(self.multiplier)) >> self.shift;
        self.zero.wrapping_add(product as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_event::ByteOrder;
    use crate::perf_event::encode::Encoder;

    #[test]
    fn counters_become_times() {
        // A counter of 25 MHz: 40 ns each, as 40 << 24.
        let mut encoder = Encoder::new(ByteOrder::Little);
        encoder.u64(24).u64(40 << 24).u64(1_000_000).u64(5000).u64((1 << 56) - 1).raw(&[1, 0, 0, 0, 0, 0, 0, 0]);
        let decode = |bytes| CounterClock::decode(Fields::new(bytes, ByteOrder::Little));
        let clock = decode(encoder.bytes()).unwrap();
        assert_eq!([0, 1, 25_000_000].map(|counter| clock.time_ns(counter)), [1_000_000, 1_000_040, 1_001_000_000]);
        assert_eq!(decode(&encoder.bytes()[..24]).unwrap(), clock, "of an older perf");
        assert!((0..24).all(|end| decode(&encoder.bytes()[..end]).is_err()));
        // One of 32 bits that has gone round since 0x1_0000_0010.
        let mut short = Encoder::new(ByteOrder::Little);
        short.u64(0).u64(1).u64(0).u64(0x1_0000_0010).u64(0xffff_ffff).raw(&[1, 1, 0, 0, 0, 0, 0, 0]);
        let clock = decode(short.bytes()).unwrap();
        assert_eq!((clock.time_ns(0x20), clock.time_ns(8)), (0x1_0000_0020, 0x2_0000_0008));
        let mut wrong = Encoder::new(ByteOrder::Little);
        assert!(decode(wrong.u64(64).u64(1).u64(0).bytes()).is_err());
    }
}
