//! Values of counters in samples and READ records, in all formats (`perf_event_attr::read_format`).

use super::attr::read_format;
use super::fields::{Fields, Malformed, Words};

/// What was read of one counter, or of all of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters<'a> {
    /// Nanoseconds for which the event was enabled.
    pub time_enabled_ns: Option<u64>,
    /// Nanoseconds for which it counted.
    pub time_running_ns: Option<u64>,
    values: Values<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values<'a> {
    One(Counter),
    Group { format: u64, words: Words<'a> },
}

/// One counter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// What it counted.
    pub value: u64,
    /// Which event.
    pub id: Option<u64>,
    /// Samples that it lost.
    pub lost: Option<u64>,
}

/// Of a counter's value, its id and its losses: those that `format` has behind the value.
fn optional(format: u64, bit: u64, next: impl FnOnce() -> Result<u64, Malformed>) -> Result<Option<u64>, Malformed> {
    if format & bit == 0 { Ok(None) } else { next().map(Some) }
}

impl<'a> Counters<'a> {
    /// The next fields, in `format`. Alone, a value stands before the times, and its id and losses after them; in a group
    /// all three stand together.
    pub(super) fn decode(fields: &mut Fields<'a>, format: u64) -> Result<Self, Malformed> {
        const WITHIN: &str = "counter values";
        let first = fields.u64(WITHIN)?;
        let time_enabled_ns = optional(format, read_format::TOTAL_TIME_ENABLED, || fields.u64(WITHIN))?;
        let time_running_ns = optional(format, read_format::TOTAL_TIME_RUNNING, || fields.u64(WITHIN))?;
        let values = if format & read_format::GROUP != 0 {
            let words = first.checked_mul(words_each(format)).ok_or(Malformed { within: WITHIN })?;
            Values::Group { format, words: fields.words(words, WITHIN)? }
        } else {
            let id = optional(format, read_format::ID, || fields.u64(WITHIN))?;
            let lost = optional(format, read_format::LOST, || fields.u64(WITHIN))?;
            Values::One(Counter { value: first, id, lost })
        };
        Ok(Self { time_enabled_ns, time_running_ns, values })
    }

    /// The counters, the group's leader first.
    pub fn iter(&self) -> impl Iterator<Item = Counter> + use<'a> {
        let (one, group, format) = match self.values {
            Values::One(counter) => (Some(counter), Words::default(), 0),
            Values::Group { format, words } => (None, words, format),
        };
        let mut words = group.iter();
        let grouped = std::iter::from_fn(move || {
            let value = words.next()?;
            let mut behind = |bit| if format & bit == 0 { None } else { words.next() };
            let (id, lost) = (behind(read_format::ID), behind(read_format::LOST));
            Some(Counter { value, id, lost })
        });
        one.into_iter().chain(grouped)
    }
}

fn words_each(format: u64) -> u64 {
    1 + u64::from(format & read_format::ID != 0) + u64::from(format & read_format::LOST != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_event::ByteOrder;

    /// Enabled and running.
    type Times = [Option<u64>; 2];

    fn decode(words: &[u64], format: u64) -> Result<(Times, Vec<Counter>), Malformed> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut fields = Fields::new(&bytes, ByteOrder::Little);
        let counters = Counters::decode(&mut fields, format)?;
        assert!(fields.rest().is_empty(), "format {format:#x}");
        Ok(([counters.time_enabled_ns, counters.time_running_ns], counters.iter().collect()))
    }

    #[test]
    fn all_formats() {
        use read_format::{GROUP, ID, LOST, TOTAL_TIME_ENABLED, TOTAL_TIME_RUNNING};
        let one = |value, id, lost| Counter { value, id, lost };
        assert_eq!(decode(&[5], 0), Ok(([None, None], vec![one(5, None, None)])));
        let times = TOTAL_TIME_ENABLED | TOTAL_TIME_RUNNING;
        assert_eq!(decode(&[5, 8, 9], times), Ok(([Some(8), Some(9)], vec![one(5, None, None)])));
        let all = times | ID | LOST;
        assert_eq!(decode(&[5, 8, 9, 77, 3], all), Ok(([Some(8), Some(9)], vec![one(5, Some(77), Some(3))])));
        assert_eq!(decode(&[5, 3], LOST), Ok(([None, None], vec![one(5, None, Some(3))])));
        let group = vec![one(5, Some(77), Some(0)), one(6, Some(78), Some(1))];
        assert_eq!(decode(&[2, 8, 9, 5, 77, 0, 6, 78, 1], all | GROUP), Ok(([Some(8), Some(9)], group)));
        assert_eq!(decode(&[0], GROUP), Ok(([None, None], vec![])));
        assert_eq!(decode(&[2, 5, 6], GROUP), Ok(([None, None], vec![one(5, None, None), one(6, None, None)])));
    }

    #[test]
    fn a_groups_size_is_not_trusted() {
        use read_format::{GROUP, ID};
        for count in [2, 1 << 60, u64::MAX] {
            assert!(decode(&[count, 5, 77], GROUP | ID).is_err());
        }
    }
}
