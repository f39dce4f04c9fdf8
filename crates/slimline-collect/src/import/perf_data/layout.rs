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
/// Longest section that is held in memory: attributes, ids and each feature. Those of recordings with ten thousand events
/// on a thousand CPUs are a tenth of it; anything longer is damage.
const MOST_SECTION_BYTES: u64 = 256 << 20;
/// Bytes of a section's place: offset and size.
const SECTION_BYTES: usize = 16;

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

impl Sections {
    /// The events' attributes, each with its ids.
    ///
    /// # Errors
    /// The file is cut or damaged there: without them no record can be read.
    pub(super) fn read_attrs(
        &self,
        input: &mut (impl Read + Seek),
        order: ByteOrder,
    ) -> Result<Vec<(EventAttr, Vec<u64>)>, ImportError> {
        const WITHIN: &str = "event attributes";
        let bytes = read_section(input, self.attrs, WITHIN)?;
        let each = usize::try_from(self.attr_bytes).ok().filter(|&each| each > SECTION_BYTES);
        let each = each.ok_or(ImportError::Damaged(WITHIN))?;
        if bytes.is_empty() || !bytes.len().is_multiple_of(each) {
            return Err(ImportError::Damaged(WITHIN));
        }
        let decode = |entry: &[u8]| {
            let (attr, ids) = entry.split_at(each - SECTION_BYTES);
            let attr = EventAttr::decode(attr, order)?.0;
            let ids = Section::decode(&mut Fields::new(ids, order))?;
            let ids = read_section(input, ids, "event ids")?;
            Ok((attr, Fields::new(&ids, order).words(ids.len() as u64 / 8, WITHIN)?.iter().collect()))
        };
        bytes.chunks_exact(each).map(decode).collect()
    }

    /// The features, by number. Those that lie outside the file are left out: they say nothing of samples.
    ///
    /// # Errors
    /// Reading fails.
    pub(super) fn read_features(
        &self,
        input: &mut (impl Read + Seek),
        order: ByteOrder,
    ) -> Result<Vec<(u32, Vec<u8>)>, ImportError> {
        if self.data.bytes == 0 {
            return Ok(Vec::new());
        }
        let numbers: Vec<u32> =
            (0..256).filter(|bit| self.features[*bit as usize / 64] >> (bit % 64) & 1 != 0).collect();
        let offset = self.data.offset.saturating_add(self.data.bytes);
        let places = Section { offset, bytes: (numbers.len() * SECTION_BYTES) as u64 };
        let Some(places) = optional(read_section(input, places, "features"))? else { return Ok(Vec::new()) };
        let mut places = Fields::new(&places, order);
        let mut features = Vec::new();
        for number in numbers {
            let section = Section::decode(&mut places)?;
            if let Some(bytes) = optional(read_section(input, section, "features"))? {
                features.push((number, bytes));
            }
        }
        Ok(features)
    }

    /// Goes to where the records begin.
    ///
    /// # Errors
    /// Seeking fails.
    pub(super) fn seek_records(&self, input: &mut impl Seek) -> Result<(), ImportError> {
        input.seek(SeekFrom::Start(self.data.offset)).map(drop).map_err(ImportError::Read)
    }
}

/// What is there of something that is not needed.
fn optional(read: Result<Vec<u8>, ImportError>) -> Result<Option<Vec<u8>>, ImportError> {
    match read {
        Err(ImportError::Ends(_) | ImportError::Damaged(_)) => Ok(None),
        read => read.map(Some),
    }
}

fn read_section(
    input: &mut (impl Read + Seek),
    section: Section,
    within: &'static str,
) -> Result<Vec<u8>, ImportError> {
    if section.bytes > MOST_SECTION_BYTES {
        return Err(ImportError::Damaged(within));
    }
    input.seek(SeekFrom::Start(section.offset)).map_err(|_| ImportError::Damaged(within))?;
    let mut bytes = Vec::new();
    // Grows as bytes come: a size that is not true takes no memory.
    input.take(section.bytes).read_to_end(&mut bytes).map_err(ImportError::Read)?;
    if bytes.len() as u64 == section.bytes { Ok(bytes) } else { Err(ImportError::Ends(within)) }
}
