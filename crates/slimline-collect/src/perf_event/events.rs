//! The events of a recording, and which of them wrote a record.

use std::collections::HashMap;

use super::attr::{EventAttr, Flags, sample_type};
use super::raw::{RawRecord, record_type};
use super::trailer::trailer_bytes;

/// Several events may write into one buffer. What tells them apart lies at a place that all have in common.
#[derive(Clone, Debug, Default)]
pub struct Events {
    attrs: Vec<EventAttr>,
    by_id: HashMap<u64, usize>,
    in_samples: Place,
    in_trailers: Place,
}

/// Where records have their event's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// There are no events.
    #[default]
    Unset,
    /// Nowhere.
    Nowhere,
    /// At this word, of a sample from its begin, of other records from their end.
    Word(usize),
    /// Not all events have it at the same place.
    Differs,
}

impl Place {
    fn of(word: Option<usize>) -> Self {
        word.map_or(Self::Nowhere, Self::Word)
    }

    /// That of all events, with one more.
    fn and(self, other: Self) -> Self {
        match self {
            Self::Unset => other,
            _ if self == other => self,
            _ => Self::Differs,
        }
    }
}

impl Events {
    /// Adds an event and the numbers by which its records name it; its number here.
    pub fn add(&mut self, attr: EventAttr, ids: impl IntoIterator<Item = u64>) -> usize {
        let event = self.attrs.len();
        self.in_samples = self.in_samples.and(Place::of(place_in_sample(&attr)));
        self.in_trailers = self.in_trailers.and(Place::of(place_in_trailer(&attr)));
        self.attrs.push(attr);
        self.name(event, ids);
        event
    }

    /// Adds numbers by which records name an event.
    pub fn name(&mut self, event: usize, ids: impl IntoIterator<Item = u64>) {
        self.by_id.extend(ids.into_iter().map(|id| (id, event)));
    }

    /// All events in the order in which they were added.
    pub fn attrs(&self) -> &[EventAttr] {
        &self.attrs
    }

    /// The event that wrote a record of the kernel's; `None` where none is known by the record's number.
    ///
    /// Records that perf made up itself (of threads and mappings that were there before) have the number 0: their trailer
    /// is that of the first event.
    pub fn writer_of(&self, record: &RawRecord<'_>) -> Option<usize> {
        if self.attrs.len() <= 1 {
            return if self.attrs.is_empty() { None } else { Some(0) };
        }
        match self.id_of(record) {
            None => None,
            Some(0) => Some(0),
            Some(id) => self.by_id.get(&id).copied(),
        }
    }

    /// The number that a record carries, read at the place that is the same for all events.
    fn id_of(&self, record: &RawRecord<'_>) -> Option<u64> {
        let is_sample = record.kind == record_type::SAMPLE;
        let words = record.body.len() / 8;
        let index = match if is_sample { self.in_samples } else { self.in_trailers } {
            Place::Unset | Place::Differs => return None,
            Place::Nowhere => return Some(0),
            Place::Word(word) if is_sample => word,
            Place::Word(word) => words.checked_sub(word)?,
        };
        let mut fields = record.fields();
        fields.words(index as u64, "event id").ok()?;
        fields.u64("event id").ok()
    }
}

/// Words before an event's number in its samples; `None` where they have none.
fn place_in_sample(attr: &EventAttr) -> Option<usize> {
    if attr.samples(sample_type::IDENTIFIER) {
        return Some(0);
    }
    let before = sample_type::IP | sample_type::TID | sample_type::TIME | sample_type::ADDR;
    attr.samples(sample_type::ID).then(|| (attr.sample_type & before).count_ones() as usize)
}

/// Words from an event's number to the end in its other records; `None` where they have none.
fn place_in_trailer(attr: &EventAttr) -> Option<usize> {
    if !attr.flags.has(Flags::SAMPLE_ID_ALL) {
        return None;
    }
    if attr.samples(sample_type::IDENTIFIER) {
        return Some(1);
    }
    let before = (attr.sample_type & (sample_type::TID | sample_type::TIME)).count_ones() as usize;
    attr.samples(sample_type::ID).then(|| trailer_bytes(attr) / 8 - before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_event::encode::{Encoder, SyntheticSample};
    use crate::perf_event::{ByteOrder, Flags};

    const BASE: u64 = sample_type::IP | sample_type::TID | sample_type::TIME | sample_type::CPU;

    fn events(sample_types: [u64; 2]) -> Events {
        let mut events = Events::default();
        for (number, sample_type) in (1..).zip(sample_types) {
            let attr = EventAttr { sample_type, flags: Flags::SAMPLE_ID_ALL, ..EventAttr::default() };
            events.add(attr, [number * 10, number * 10 + 1]);
        }
        events
    }

    fn writer(events: &Events, of: usize, id: u64, is_sample: bool) -> Option<usize> {
        let mut encoder = Encoder::new(ByteOrder::Little);
        let sample = SyntheticSample { identifier: id, id, ..SyntheticSample::default() };
        let attr = &events.attrs()[of];
        if is_sample {
            encoder.sample(attr, &sample);
        } else {
            encoder.comm(attr, &sample, 7, 8, "name", false);
        }
        let (record, _) = RawRecord::at_start(encoder.bytes(), ByteOrder::Little).unwrap().unwrap();
        events.writer_of(&record)
    }

    #[test]
    fn events_are_told_apart_by_their_numbers() {
        for common in [
            // The number is at the same place though the fields behind it differ.
            [BASE | sample_type::ID, BASE | sample_type::ID | sample_type::DATA_SRC],
            // At the very start, and at the end of trailers, whatever else there is.
            [BASE | sample_type::IDENTIFIER, sample_type::IDENTIFIER | sample_type::IP],
        ] {
            let events = events(common);
            for is_sample in [true, false] {
                assert_eq!(writer(&events, 0, 10, is_sample), Some(0));
                assert_eq!(writer(&events, 1, 20, is_sample), Some(1));
                assert_eq!(writer(&events, 1, 21, is_sample), Some(1));
                assert_eq!(writer(&events, 0, 0, is_sample), Some(0), "perf made it up");
                assert_eq!(writer(&events, 0, 99, is_sample), None);
            }
        }
        // An address more before the number: nothing tells which of the two it is.
        let apart = events([BASE | sample_type::ID, BASE | sample_type::ID | sample_type::ADDR]);
        assert_eq!(writer(&apart, 0, 10, true), None);
        assert_eq!(writer(&apart, 0, 10, false), Some(0), "trailers have no address");
        // Whatever comes then.
        let mut apart = apart;
        apart.add(apart.attrs()[1].clone(), [30]);
        assert_eq!((writer(&apart, 2, 30, true), writer(&apart, 2, 30, false)), (None, Some(2)));
        apart.name(2, [31]);
        assert_eq!(writer(&apart, 2, 31, false), Some(2));
        // Neither has any number.
        let unnumbered = events([BASE; 2]);
        assert_eq!((writer(&unnumbered, 1, 20, true), writer(&unnumbered, 1, 20, false)), (Some(0), Some(0)));
    }

    #[test]
    fn an_event_alone_needs_no_number() {
        let mut alone = Events::default();
        alone.add(EventAttr { sample_type: BASE, ..EventAttr::default() }, []);
        assert_eq!(writer(&alone, 0, 0, true), Some(0));
        let record = RawRecord { kind: 9, misc: 0, body: &[], order: ByteOrder::Little };
        assert_eq!(Events::default().writer_of(&record), None);
        assert_eq!(events([BASE | sample_type::ID; 2]).writer_of(&record), None, "too short for a number");
    }
}
