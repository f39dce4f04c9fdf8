//! Records one after another, as they lie in the file; those that were compressed among them.

use std::io::{self, Read};

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::ImportError;
use super::layout::is_magic;
use crate::perf_event::{ByteOrder, Fields, HEADER_BYTES, Malformed, RawRecord, record_type};

/// Decompressed in one go: several of the longest records, which have 64 KiB.
const DECOMPRESSED_BYTES: usize = 256 << 10;

/// Why records end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// That was all.
    Whole,
    /// The file ends within a record, or before it says that it does.
    Truncated,
    /// Where the next record begins is lost.
    Damaged,
}

/// Longest piece of an AUX area that is held: areas are some MiB a CPU. A longer one is passed over.
const MOST_AUX_BYTES: u64 = 256 << 20;

/// What comes next.
#[derive(Debug)]
pub(super) enum Item<'a> {
    Record(RawRecord<'a>),
    Aux(AuxPiece<'a>),
}

/// A piece of an AUX area, in the hardware's own format.
#[derive(Clone, Copy, Debug)]
pub(super) struct AuxPiece<'a> {
    /// That of the area, where it is one CPU's.
    pub(super) cpu: Option<u32>,
    /// Likewise of a thread.
    pub(super) tid: Option<u32>,
    /// Where it begins in the area.
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
}

/// What follows a record without being part of it.
const TRAILING_HEAD_BYTES: usize = 8;

/// Reads records.
#[allow(missing_debug_implementations)] // the decompressor has none
pub(super) struct RecordStream<R> {
    input: UntilCut<R>,
    order: ByteOrder,
    /// Bytes of the data section that are left; `None` where it goes on to the end.
    remaining: Option<u64>,
    read_bytes: u64,
    aux_bytes: u64,
    /// Of another recording behind this one.
    trailing_bytes: u64,
    reads_aux: bool,
    aux: Vec<u8>,
    /// The last record read from the file, header and body.
    record: Vec<u8>,
    compressed: Compressed,
    end: Option<End>,
}

/// An input that ends where it is cut off within its packing.
struct UntilCut<R> {
    input: R,
    is_cut: bool,
}

impl<R: Read> Read for UntilCut<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.input.read(into) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.is_cut = true;
                Ok(0)
            }
            read => read,
        }
    }
}

/// What compressed records hold: one stream for the whole file, whose records do not begin where compressed ones do.
#[derive(Default)]
struct Compressed {
    decoder: Option<Decoder<'static>>,
    input: Vec<u8>,
    consumed: usize,
    /// The last output filled all of its room, so there may be more of the same input.
    is_full: bool,
    output: Vec<u8>,
    /// Where the next record begins in `output`.
    next: usize,
}

/// Where a record was found.
enum Found {
    InFile,
    Decompressed(usize),
    Aux { cpu: Option<u32>, tid: Option<u32>, offset: u64 },
}

impl<R: Read> RecordStream<R> {
    /// The records of `input`, which is where they begin: so many bytes, or all.
    pub(super) fn new(input: R, order: ByteOrder, bytes: Option<u64>) -> Self {
        let (record, compressed) = (Vec::new(), Compressed::default());
        let (aux, input) = (Vec::new(), UntilCut { input, is_cut: false });
        let (read_bytes, aux_bytes, trailing_bytes, reads_aux, end) = (0, 0, 0, false, None);
        Self {
            input,
            order,
            remaining: bytes,
            read_bytes,
            aux_bytes,
            trailing_bytes,
            reads_aux,
            aux,
            record,
            compressed,
            end,
        }
    }

    /// Bytes read so far.
    pub(super) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Bytes passed over so far of AUX areas, in which hardware leaves samples and traces in formats of its own.
    pub(super) fn aux_bytes(&self) -> u64 {
        self.aux_bytes
    }

    /// Bytes passed over of another recording behind this one.
    pub(super) fn trailing_bytes(&self) -> u64 {
        self.trailing_bytes
    }

    /// AUX data is in a format that is known: it is handed over from now on.
    pub(super) fn read_aux(&mut self) {
        self.reads_aux = true;
    }

    /// Why there are no more; before, that there may be.
    pub(super) fn end(&self) -> Option<End> {
        self.end
    }

    /// The next record or piece of an AUX area; `None` after the last one, see [`Self::end`].
    ///
    /// # Errors
    /// Reading fails.
    pub(super) fn next(&mut self) -> Result<Option<Item<'_>>, ImportError> {
        let order = self.order;
        let bytes = match self.find()? {
            None => return Ok(None),
            Some(Found::InFile) => &self.record[..],
            Some(Found::Decompressed(start)) => &self.compressed.output[start..self.compressed.next],
            Some(Found::Aux { cpu, tid, offset }) => {
                return Ok(Some(Item::Aux(AuxPiece { cpu, tid, offset, bytes: &self.aux })));
            }
        };
        Ok(RawRecord::at_start(bytes, order)?.map(|(record, _)| Item::Record(record)))
    }

    fn find(&mut self) -> Result<Option<Found>, ImportError> {
        match self.find_or_end() {
            // What came before it is kept.
            Err(ImportError::Malformed(Malformed { .. })) => {
                self.end = Some(End::Damaged);
                Ok(None)
            }
            found => found,
        }
    }

    fn find_or_end(&mut self) -> Result<Option<Found>, ImportError> {
        while self.end.is_none() {
            if let Some(start) = self.compressed.next_record(self.order)? {
                return Ok(Some(Found::Decompressed(start)));
            }
            if let Some(end) = self.read_record()? {
                let is_cut_within = end == End::Whole && self.compressed.has_rest();
                self.end = Some(if is_cut_within { End::Truncated } else { end });
                return Ok(None);
            }
            let Some((record, _)) = RawRecord::at_start(&self.record, self.order)? else { continue };
            match record.kind {
                record_type::COMPRESSED => self.compressed.feed(record.body)?,
                record_type::COMPRESSED2 => {
                    // Padded to whole words, so it says how much of it counts.
                    let mut fields = record.fields();
                    let bytes = fields.u64("compressed data")?;
                    self.compressed.feed(fields.sized(bytes, "compressed data")?)?;
                }
                record_type::AUXTRACE => {
                    const WITHIN: &str = "AUX data";
                    let mut fields = record.fields();
                    let (bytes, offset) = (fields.u64(WITHIN)?, fields.u64(WITHIN)?);
                    // A reference and an index, which say nothing more.
                    fields.take(12, WITHIN)?;
                    let told = |number: u32| Some(number).filter(|&number| number != u32::MAX);
                    let (tid, cpu) = (told(fields.u32(WITHIN)?), told(fields.u32(WITHIN)?));
                    if self.reads_aux && bytes <= MOST_AUX_BYTES {
                        self.fill_aux(bytes)?;
                        return Ok(Some(Found::Aux { cpu, tid, offset }));
                    }
                    self.aux_bytes = self.aux_bytes.saturating_add(self.skip(bytes)?);
                }
                record_type::HEADER_TRACING_DATA => {
                    let bytes = u64::from(record.fields().u32("tracing data")?);
                    self.skip(bytes.next_multiple_of(TRAILING_HEAD_BYTES as u64))?;
                }
                _ => return Ok(Some(Found::InFile)),
            }
        }
        Ok(None)
    }

    /// Reads the next record of the file into `record`; or tells why there is none.
    fn read_record(&mut self) -> Result<Option<End>, ImportError> {
        self.record.clear();
        self.record.resize(HEADER_BYTES, 0);
        let left = self.remaining.unwrap_or(u64::MAX);
        if left == 0 {
            return Ok(Some(End::Whole));
        }
        match fill(&mut self.input, &mut self.record)? {
            0 if self.remaining.is_none() && !self.input.is_cut => return Ok(Some(End::Whole)),
            HEADER_BYTES if left >= HEADER_BYTES as u64 => {}
            _ => return Ok(Some(End::Truncated)),
        }
        // Of a pipe nothing tells where it ends, but that another recording begins.
        if self.remaining.is_none() && is_magic(&self.record) {
            let rest = io::copy(&mut self.input, &mut io::sink()).map_err(ImportError::Read)?;
            self.trailing_bytes = HEADER_BYTES as u64 + rest;
            return Ok(Some(End::Whole));
        }
        let mut header = Fields::new(&self.record, self.order);
        let size = header.take(6, "header").and_then(|_| header.u16("header"))?;
        if usize::from(size) < HEADER_BYTES || u64::from(size) > left {
            return Ok(Some(End::Damaged));
        }
        self.record.resize(size.into(), 0);
        if fill(&mut self.input, &mut self.record[HEADER_BYTES..])? < usize::from(size) - HEADER_BYTES {
            return Ok(Some(End::Truncated));
        }
        self.count(size.into());
        Ok(None)
    }

    fn count(&mut self, bytes: u64) {
        self.read_bytes += bytes;
        self.remaining = self.remaining.map(|left| left.saturating_sub(bytes));
    }

    /// Reads data that follows a record into `aux`, as much of it as there is.
    fn fill_aux(&mut self, bytes: u64) -> Result<(), ImportError> {
        self.aux.clear();
        let there = bytes.min(self.remaining.unwrap_or(u64::MAX));
        let read = (&mut self.input).take(there).read_to_end(&mut self.aux).map_err(ImportError::Read)? as u64;
        self.count(read);
        if read < bytes {
            self.end = Some(End::Truncated);
        }
        Ok(())
    }

    /// Passes over data that follows a record; how much of it there was.
    fn skip(&mut self, bytes: u64) -> Result<u64, ImportError> {
        let there = bytes.min(self.remaining.unwrap_or(u64::MAX));
        let skipped = io::copy(&mut (&mut self.input).take(there), &mut io::sink()).map_err(ImportError::Read)?;
        self.count(skipped);
        if skipped < bytes {
            self.end = Some(End::Truncated);
        }
        Ok(skipped)
    }
}

/// Reads until `into` is full or the input ends; how much was read.
fn fill(input: &mut impl Read, into: &mut [u8]) -> Result<usize, ImportError> {
    let mut filled = 0;
    while filled < into.len() {
        match input.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ImportError::Read(error)),
        }
    }
    Ok(filled)
}

impl Compressed {
    /// Takes in what the next compressed record holds. All before it has been decompressed.
    fn feed(&mut self, data: &[u8]) -> Result<(), ImportError> {
        if self.decoder.is_none() {
            self.decoder = Some(Decoder::new().map_err(ImportError::Decompress)?);
        }
        self.input.clear();
        self.input.extend_from_slice(data);
        self.consumed = 0;
        Ok(())
    }

    /// Start of the next whole record in `output`; it ends at `next`.
    fn next_record(&mut self, order: ByteOrder) -> Result<Option<usize>, ImportError> {
        loop {
            let start = self.next;
            if let Some((_, size)) = RawRecord::at_start(&self.output[start..], order)? {
                self.next += size;
                return Ok(Some(start));
            }
            if !self.decompress()? {
                return Ok(None);
            }
        }
    }

    /// Decompresses some more behind what is left of the last record; `false` where there is no input for it.
    fn decompress(&mut self) -> Result<bool, ImportError> {
        let Some(decoder) = &mut self.decoder else { return Ok(false) };
        if self.consumed == self.input.len() && !self.is_full {
            return Ok(false);
        }
        self.output.drain(..self.next);
        self.next = 0;
        let kept = self.output.len();
        self.output.resize(kept + DECOMPRESSED_BYTES, 0);
        let mut input = InBuffer::around(&self.input[self.consumed..]);
        let mut output = OutBuffer::around(&mut self.output[kept..]);
        decoder.run(&mut input, &mut output).map_err(|_| Malformed { within: "compressed records" })?;
        let (consumed, produced) = (input.pos(), output.pos());
        self.is_full = produced == DECOMPRESSED_BYTES;
        self.consumed += consumed;
        self.output.truncate(kept + produced);
        // Without either it would be asked for ever.
        Ok(consumed > 0 || produced > 0)
    }

    /// Whether a record is cut.
    fn has_rest(&self) -> bool {
        self.next < self.output.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_event::encode::Encoder;

    /// Types of the records of a stream of a good one, what `write` writes, and another good one; how it ends, and the
    /// bytes of AUX data.
    fn read(write: impl FnOnce(&mut Encoder)) -> (Vec<u32>, Option<End>, u64) {
        let mut encoder = Encoder::new(ByteOrder::Little);
        encoder.record(record_type::COMM, 0, |_| ());
        write(&mut encoder);
        encoder.record(record_type::EXIT, 0, |_| ());
        let mut stream = RecordStream::new(encoder.bytes(), ByteOrder::Little, None);
        let mut kinds = Vec::new();
        while let Some(item) = stream.next().unwrap() {
            match item {
                Item::Record(record) => kinds.push(record.kind),
                Item::Aux(_) => panic!("nobody asked for it"),
            }
        }
        assert!(stream.next().unwrap().is_none(), "an end is an end");
        (kinds, stream.end(), stream.aux_bytes())
    }

    const FIRST: u32 = record_type::COMM;
    const LAST: u32 = record_type::EXIT;

    #[test]
    fn what_came_before_damage_is_kept() {
        let kept = (vec![FIRST], Some(End::Damaged), 0);
        let short = |kind| {
            read(move |to| {
                to.record(kind, 0, |fields| {
                    fields.u16(1);
                });
            })
        };
        for kind in [record_type::COMPRESSED2, record_type::AUXTRACE, record_type::HEADER_TRACING_DATA] {
            assert_eq!(short(kind), kept, "type {kind}");
        }
        let garbage = |to: &mut Encoder| {
            to.record(record_type::COMPRESSED, 0, |fields| {
                fields.raw(&[0xa5; 64]);
            });
        };
        assert_eq!(read(garbage), kept);
        let longer_than_it_is = |to: &mut Encoder| {
            to.record(record_type::COMPRESSED2, 0, |fields| {
                fields.u64(1 << 40).u64(7);
            });
        };
        assert_eq!(read(longer_than_it_is), kept);
    }

    #[test]
    fn aux_data_is_counted() {
        let aux = |states: u64| {
            read(move |to| {
                to.record(record_type::AUXTRACE, 0, |fields| {
                    fields.u64(states).u64(0).u64(0).u32(0).u32(0).u32(0).u32(0);
                });
                to.raw(&[0x5a; 100]);
            })
        };
        assert_eq!(aux(100), (vec![FIRST, LAST], Some(End::Whole), 100));
        // The last record has eight bytes.
        assert_eq!(aux(109), (vec![FIRST], Some(End::Truncated), 108));
        assert_eq!(aux(u64::MAX), (vec![FIRST], Some(End::Truncated), 108));
    }
}
