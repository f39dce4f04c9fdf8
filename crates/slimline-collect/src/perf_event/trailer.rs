//! What identifies a record: the fields that samples and the trailers of other records have in common.

use super::attr::{EventAttr, Flags, sample_type};
use super::fields::{ByteOrder, Fields, Malformed};
use super::raw::{RawRecord, record_type};
use super::sample::Sample;

/// A thread, as the kernel numbers it in the pid namespace of whoever opened the event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaskId {
    /// Process. All bits set: none that this namespace can see.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
}

impl TaskId {
    pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        Ok(Self { pid: fields.u32("thread")?, tid: fields.u32("thread")? })
    }
}

/// Who wrote a record, when and where; each as far as the event's `sample_type` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordId {
    /// Thread that was running.
    pub task: Option<TaskId>,
    /// Time, of the event's clock.
    pub time: Option<u64>,
    /// Number of the event, by which it is told from others in one buffer.
    pub id: Option<u64>,
    /// Number of the event's own copy (of an inherited event, the child's).
    pub stream_id: Option<u64>,
    /// CPU.
    pub cpu: Option<u32>,
}

/// Fields that a trailer may have, in its order, each of one word.
const TRAILER: [u64; 6] = [
    sample_type::TID,
    sample_type::TIME,
    sample_type::ID,
    sample_type::STREAM_ID,
    sample_type::CPU,
    sample_type::IDENTIFIER,
];

/// Bytes of the trailer that an event's records other than samples have.
pub(super) fn trailer_bytes(attr: &EventAttr) -> usize {
    if !attr.flags.has(Flags::SAMPLE_ID_ALL) {
        return 0;
    }
    TRAILER.iter().filter(|&&field| attr.samples(field)).count() * 8
}

impl RecordId {
    /// Of a record that the event `attr` wrote, without what else it says.
    ///
    /// # Errors
    /// The record is too short.
    pub fn of(record: &RawRecord<'_>, attr: &EventAttr) -> Result<Self, Malformed> {
        if record.kind == record_type::SAMPLE {
            return Sample::decode_id(record, attr);
        }
        Self::split_off(&mut record.fields(), attr)
    }

    /// Splits the trailer off the end of a record's fields.
    pub(super) fn split_off(fields: &mut Fields<'_>, attr: &EventAttr) -> Result<Self, Malformed> {
        const WITHIN: &str = "trailer";
        let bytes = trailer_bytes(attr);
        if bytes == 0 {
            return Ok(Self::default());
        }
        let mut trailer = fields.split_tail(bytes, WITHIN)?;
        let mut word = |field| attr.samples(field).then(|| trailer.u64(WITHIN)).transpose();
        let halves = |word: u64| {
            let bytes = match fields.order() {
                ByteOrder::Little => word.to_le_bytes(),
                ByteOrder::Big => word.to_be_bytes(),
            };
            let mut halves = Fields::new(bytes.as_slice(), fields.order());
            Ok::<_, Malformed>((halves.u32(WITHIN)?, halves.u32(WITHIN)?))
        };
        let task = word(sample_type::TID)?.map(halves).transpose()?.map(|(pid, tid)| TaskId { pid, tid });
        let time = word(sample_type::TIME)?;
        let id = word(sample_type::ID)?;
        let stream_id = word(sample_type::STREAM_ID)?;
        let cpu = word(sample_type::CPU)?.map(halves).transpose()?.map(|(cpu, _)| cpu);
        let identifier = word(sample_type::IDENTIFIER)?;
        Ok(Self { task, time, id: id.or(identifier), stream_id, cpu })
    }
}
