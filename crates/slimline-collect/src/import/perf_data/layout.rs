//! How a perf.data file is laid out: its header, the events' attributes, and where records and features are.
//!
//! ```text
//!   file mode   magic size=104 ─► attrs ─► (attr, ids)…     pipe mode   magic size=16
//!                              ─► data  ─► records                      records, attributes and features among them
//!                              features behind the data
//! ```

use std::io::{self, Read, Seek, SeekFrom};

use super::ImportError;
use crate::perf_event::{ByteOrder, EventAttr, Fields};

/// `PERFILE2`, as a number of the writer's byte order.
const MAGIC: [u8; 8] = *b"PERFILE2";
/// What perf wrote until Linux 2.6.36.
const MAGIC_1: [u8; 8] = *b"PERFFILE";
/// Size of the header in pipe mode: the magic and this number.
const PIPE_HEADER_BYTES: u64 = 16;
/// Size of the header in file mode.
const FILE_HEADER_BYTES: u64 = 104;
/// Most that is read of a file outside its records: attributes, ids and features together. Ten thousand events on a thousand
/// CPUs have a third of it; anything longer is damage, as are sections that lie over each other again and again.
const MOST_SECTIONS_BYTES: u64 = 256 << 20;
/// Bytes of a section's place: offset and size.
const SECTION_BYTES: usize = 16;

/// Whether a recording begins with these bytes.
pub(super) fn is_magic(begin: &[u8]) -> bool {
    begin == MAGIC || begin.iter().rev().eq(&MAGIC)
}

/// A part of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    offset: u64,
    pub(super) bytes: u64,
}

impl Section {
    fn decode(fields: &mut Fields<'_>) -> Result<Self, ImportError> {
        Ok(Self { offset: fields.u64(HEADER)?, bytes: fields.u64(HEADER)? })
    }
}

const HEADER: &str = "header";

/// What the header of a file says.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) order: ByteOrder,
    /// Nothing of it in pipe mode: all comes with the records.
    pub(super) sections: Option<Sections>,
}

/// What file mode has outside its records.
#[derive(Debug)]
pub(super) struct Sections {
    attrs: Section,
    attr_bytes: u64,
    /// Records. Of 0 bytes where perf was killed: then they go on to the end of the file, and there are no features.
    pub(super) data: Section,
    features: [u64; 4],
}

/// Reads the header.
///
/// # Errors
/// It is none of perf's, or an older one.
pub(super) fn read_layout(input: &mut impl Read) -> Result<Layout, ImportError> {
    let mut head = [0; PIPE_HEADER_BYTES as usize];
    read_or(input, &mut head, || ImportError::NotPerfData)?;
    let (magic, size) = head.split_at(8);
    let order = match magic {
        _ if magic == MAGIC => ByteOrder::Little,
        _ if magic.iter().rev().eq(&MAGIC) => ByteOrder::Big,
        _ if magic == MAGIC_1 || magic.iter().rev().eq(&MAGIC_1) => return Err(ImportError::TooOld),
        _ => return Err(ImportError::NotPerfData),
    };
    let size = Fields::new(size, order).u64(HEADER)?;
    if size == PIPE_HEADER_BYTES {
        return Ok(Layout { order, sections: None });
    }
    if size != FILE_HEADER_BYTES {
        return Err(ImportError::HeaderSize(size));
    }
    let mut rest = [0; (FILE_HEADER_BYTES - PIPE_HEADER_BYTES) as usize];
    read_or(input, &mut rest, || ImportError::Ends(HEADER))?;
    let mut fields = Fields::new(&rest, order);
    let attr_bytes = fields.u64(HEADER)?;
    let (attrs, data) = (Section::decode(&mut fields)?, Section::decode(&mut fields)?);
    // A table of event names that nobody has written since Linux 3.
    Section::decode(&mut fields)?;
    let mut features = [0; 4];
    for word in &mut features {
        *word = fields.u64(HEADER)?;
    }
    Ok(Layout { order, sections: Some(Sections { attrs, attr_bytes, data, features }) })
}

fn read_or(input: &mut impl Read, into: &mut [u8], too_short: impl FnOnce() -> ImportError) -> Result<(), ImportError> {
    input.read_exact(into).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => too_short(),
        _ => ImportError::Read(error),
    })
}

/// A file whose sections are read, as far as [`MOST_SECTIONS_BYTES`] go.
#[derive(Debug)]
pub(super) struct SectionReader<'a, F> {
    input: &'a mut F,
    order: ByteOrder,
    left_bytes: u64,
    /// Where the last one of all sections ends.
    end: u64,
}

impl<'a, F: Read + Seek> SectionReader<'a, F> {
    /// Of a file of this byte order, of which nothing was read yet.
    pub(super) fn new(input: &'a mut F, order: ByteOrder) -> Self {
        Self { input, order, left_bytes: MOST_SECTIONS_BYTES, end: 0 }
    }

    /// Where the last one ends of the sections that were asked for.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    fn read(&mut self, section: Section, within: &'static str) -> Result<Vec<u8>, ImportError> {
        self.end = self.end.max(section.offset.saturating_add(section.bytes));
        self.left_bytes = self.left_bytes.checked_sub(section.bytes).ok_or(ImportError::Damaged(within))?;
        self.input.seek(SeekFrom::Start(section.offset)).map_err(|_| ImportError::Damaged(within))?;
        let mut bytes = Vec::new();
        // Grows as bytes come: a size that is not true takes no memory.
        (&mut *self.input).take(section.bytes).read_to_end(&mut bytes).map_err(ImportError::Read)?;
        if bytes.len() as u64 == section.bytes { Ok(bytes) } else { Err(ImportError::Ends(within)) }
    }

    /// What is there of something that is not needed.
    fn read_optional(&mut self, section: Section) -> Result<Option<Vec<u8>>, ImportError> {
        match self.read(section, "features") {
            Err(ImportError::Ends(_) | ImportError::Damaged(_)) => Ok(None),
            read => read.map(Some),
        }
    }
}

impl Sections {
    /// The events' attributes, each with its ids.
    ///
    /// # Errors
    /// The file is cut or damaged there: without them no record can be read.
    pub(super) fn read_attrs(
        &self,
        reader: &mut SectionReader<'_, impl Read + Seek>,
    ) -> Result<Vec<(EventAttr, Vec<u64>)>, ImportError> {
        const WITHIN: &str = "event attributes";
        let order = reader.order;
        let bytes = reader.read(self.attrs, WITHIN)?;
        let each = usize::try_from(self.attr_bytes).ok().filter(|&each| each > SECTION_BYTES);
        let each = each.ok_or(ImportError::Damaged(WITHIN))?;
        if bytes.is_empty() || !bytes.len().is_multiple_of(each) {
            return Err(ImportError::Damaged(WITHIN));
        }
        let decode = |entry: &[u8]| {
            let (attr, ids) = entry.split_at(each - SECTION_BYTES);
            let attr = EventAttr::decode(attr, order)?.0;
            let ids = Section::decode(&mut Fields::new(ids, order))?;
            let ids = reader.read(ids, "event ids")?;
            Ok((attr, Fields::new(&ids, order).words(ids.len() as u64 / 8, WITHIN)?.iter().collect()))
        };
        bytes.chunks_exact(each).map(decode).collect()
    }

    /// Hands the features to `take`, one by one, each with its number. Those that lie outside the file are left out: they say
    /// nothing of samples.
    ///
    /// # Errors
    /// Reading fails.
    pub(super) fn read_features(
        &self,
        reader: &mut SectionReader<'_, impl Read + Seek>,
        mut take: impl FnMut(u32, &[u8]),
    ) -> Result<(), ImportError> {
        if self.data.bytes == 0 {
            return Ok(());
        }
        let numbers: Vec<u32> =
            (0..256).filter(|bit| self.features[*bit as usize / 64] >> (bit % 64) & 1 != 0).collect();
        let offset = self.data.offset.saturating_add(self.data.bytes);
        let places = Section { offset, bytes: (numbers.len() * SECTION_BYTES) as u64 };
        let Some(places) = reader.read_optional(places)? else { return Ok(()) };
        let mut places = Fields::new(&places, reader.order);
        for number in numbers {
            if let Some(bytes) = reader.read_optional(Section::decode(&mut places)?)? {
                take(number, &bytes);
            }
        }
        Ok(())
    }

    /// Bytes behind all that the header tells of, where that ends at `end` or with the records.
    ///
    /// # Errors
    /// Seeking fails.
    pub(super) fn bytes_behind(&self, input: &mut impl Seek, end: u64) -> Result<u64, ImportError> {
        let all = input.seek(SeekFrom::End(0)).map_err(ImportError::Read)?;
        let end = end.max(self.data.offset.saturating_add(self.data.bytes)).max(FILE_HEADER_BYTES);
        Ok(all.saturating_sub(end))
    }

    /// Goes to where the records begin.
    ///
    /// # Errors
    /// Seeking fails.
    pub(super) fn seek_records(&self, input: &mut impl Seek) -> Result<(), ImportError> {
        input.seek(SeekFrom::Start(self.data.offset)).map(drop).map_err(ImportError::Read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::perf_event::encode::Encoder;

    /// A file of `count` attributes, each with ids that are `ids`.
    fn file(count: usize, ids: Section) -> (Sections, Cursor<Vec<u8>>) {
        let mut file = Encoder::new(ByteOrder::NATIVE);
        for _ in 0..count {
            file.raw(&EventAttr::default().encode()).u64(ids.offset).u64(ids.bytes);
        }
        let attrs = Section { offset: 0, bytes: file.bytes().len() as u64 };
        let attr_bytes = attrs.bytes / count as u64;
        let data = Section { offset: attrs.bytes, bytes: 0 };
        (Sections { attrs, attr_bytes, data, features: [0; 4] }, Cursor::new(file.bytes().to_vec()))
    }

    #[test]
    fn sections_over_each_other_are_read_as_far_as_memory_should_go() {
        // Four attributes whose ids are the same MiB: each has them.
        let mib = Section { offset: 0, bytes: 1 << 20 };
        let (sections, mut input) = file(4, mib);
        input.get_mut().resize(1 << 20, 7);
        let attrs = sections.read_attrs(&mut SectionReader::new(&mut input, ByteOrder::NATIVE)).unwrap();
        assert_eq!(attrs.iter().map(|(_, ids)| ids.len()).collect::<Vec<_>>(), [1 << 17; 4]);
        // 300 of them would be more than is held.
        let (sections, mut input) = file(300, mib);
        input.get_mut().resize(1 << 20, 7);
        let refused = sections.read_attrs(&mut SectionReader::new(&mut input, ByteOrder::NATIVE));
        assert!(matches!(refused, Err(ImportError::Damaged("event ids"))));
    }

    #[test]
    fn features_come_one_by_one_until_they_are_too_many() {
        let mut file = Encoder::new(ByteOrder::NATIVE);
        // Three of a MiB, one that is not there, one more.
        for (offset, bytes) in [(0, 1 << 20), (0, 1 << 20), (8, 1 << 20), (1 << 40, 9), (0, 3)] {
            file.u64(offset).u64(bytes);
        }
        let places = file.bytes().to_vec();
        let data = Section { offset: (2 << 20) - 8, bytes: 8 };
        let mut input = Cursor::new(vec![7; 2 << 20]);
        input.get_mut().extend(places);
        let (attrs, attr_bytes, features) = (Section::default(), 0, [0b1_1111 << 3, 0, 0, 0]);
        let sections = Sections { attrs, attr_bytes, data, features };
        let mut told = Vec::new();
        let mut reader = SectionReader::new(&mut input, ByteOrder::NATIVE);
        sections.read_features(&mut reader, |number, bytes| told.push((number, bytes.len()))).unwrap();
        assert_eq!(told, [(3, 1 << 20), (4, 1 << 20), (5, 1 << 20), (7, 3)]);
        // With less memory left there are fewer.
        reader.left_bytes = (2 << 20) + 200;
        told = Vec::new();
        sections.read_features(&mut reader, |number, bytes| told.push((number, bytes.len()))).unwrap();
        assert_eq!(told, [(3, 1 << 20), (4, 1 << 20), (7, 3)]);
    }
}
