//! Unpacking while reading.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::GzDecoder;

use super::foreign::Foreign;
use super::lz4::Lz4Frames;
use super::{MOST_LAYERS, read_begin};

/// A packing that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::import) enum Packing {
    Gzip,
    Zstd,
    Lz4,
    Snappy,
}

/// Largest window of zstd that is unpacked, as a power of two: that of `zstd --long=31`, the largest there is.
const ZSTD_WINDOW_LOG: u32 = 31;

impl Packing {
    /// The packing of what begins with these bytes; `None` of what is not packed, or otherwise.
    pub(in crate::import) fn of(begin: &[u8]) -> Option<Self> {
        match begin {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [0x04, 0x22, 0x4d, 0x18, ..] | [0x02, 0x21, 0x4c, 0x18, ..] => Some(Self::Lz4),
            // A frame to be skipped, of zstd and lz4 alike: which one it is, the next frame says. `pzstd` begins with one.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, rest @ ..] => {
                let (bytes, rest) = rest.split_first_chunk()?;
                let next = rest.get(u32::from_le_bytes(*bytes) as usize..).and_then(Self::of);
                Some(next.unwrap_or(Self::Zstd))
            }
            _ if begin.starts_with(b"\xff\x06\x00\x00sNaPpY") => Some(Self::Snappy),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
        }
    }

    /// The same where it is not to be unpacked.
    pub(super) fn foreign(self) -> Foreign {
        let command = match self {
            Self::Gzip => "gzip -dc",
            Self::Zstd => "zstd -dc",
            Self::Lz4 => "lz4 -dc",
            Self::Snappy => "snzip -dc",
        };
        Foreign::Packed { by: self.name(), command }
    }

    fn decoder(self, packed: BufReader<Box<dyn Read>>) -> io::Result<Box<dyn Read>> {
        Ok(match self {
            Self::Gzip => Box::new(Members { member: Some(GzDecoder::new(packed)) }),
            Self::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(packed)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Box::new(decoder)
            }
            Self::Lz4 => Box::new(Lz4Frames::new(packed)),
            Self::Snappy => Box::new(snap::read::FrameDecoder::new(packed)),
        })
    }
}

/// The first bytes of what `input` holds once it is unpacked, and what comes behind them. What is cut off within its packing
/// ends in an error of [`io::ErrorKind::UnexpectedEof`].
///
/// # Errors
/// Reading fails.
pub(in crate::import) fn unpack(mut input: Box<dyn Read>, buffer_bytes: usize) -> io::Result<(Vec<u8>, Box<dyn Read>)> {
    for _ in 0..MOST_LAYERS {
        let begin = read_begin(&mut input)?;
        let Some(packing) = Packing::of(&begin) else { return Ok((begin, input)) };
        let packed: Box<dyn Read> = Box::new(Cursor::new(begin).chain(input));
        let decoder = packing.decoder(BufReader::with_capacity(buffer_bytes, packed));
        input = Box::new(Unpacked { packing, decoder: decoder?, failure: None });
    }
    Err(io::Error::other("packed more often than anything is"))
}

/// What is unpacked, with errors that say so. After the first one there is nothing but it.
struct Unpacked {
    packing: Packing,
    decoder: Box<dyn Read>,
    failure: Option<(io::ErrorKind, String)>,
}

impl Read for Unpacked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some((kind, message)) = &self.failure {
            return Err(io::Error::new(*kind, message.clone()));
        }
        self.decoder.read(into).map_err(|error| {
            let (kind, name) = (error.kind(), self.packing.name());
            let message = match kind {
                io::ErrorKind::Interrupted => return error,
                io::ErrorKind::UnexpectedEof => format!("cut off: its {name} data has no end"),
                _ => format!("its {name} data is damaged, or other bytes follow it: {error}"),
            };
            self.failure = Some((kind, message.clone()));
            io::Error::new(kind, message)
        })
    }
}

/// What each of them begins with.
const GZIP_BEGIN: u8 = 0x1f;

/// The members of a gzip file, one behind the other. Zeros behind the last one are padding, as of tapes.
struct Members<R> {
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let bytes = member.read(into)?;
            if bytes > 0 || into.is_empty() {
                return Ok(bytes);
            }
            let Some(mut rest) = self.member.take().map(GzDecoder::into_inner) else { break };
            self.member = match skip_zeros(&mut rest)? {
                None => None,
                Some(GZIP_BEGIN) => Some(GzDecoder::new(rest)),
                Some(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "no member of gzip")),
            };
        }
        Ok(0)
    }
}

/// Passes over zeros; the first byte behind them, if any.
fn skip_zeros(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let there = input.fill_buf()?;
        let zeros = there.iter().take_while(|byte| **byte == 0).count();
        let (is_end, other) = (there.is_empty(), there.get(zeros).copied());
        input.consume(zeros);
        if is_end || other.is_some() {
            return Ok(other);
        }
    }
}
