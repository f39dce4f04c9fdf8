//! Frames of lz4, one behind the other.

use std::io::{self, Read};

use lz4_flex::frame::FrameDecoder;

/// Bytes of the number that a frame begins with, and of a block's size.
const MAGIC_BYTES: usize = 4;
const LEGACY: u32 = 0x184c_2102;
/// Frames that say nothing: their number, then how many bytes follow.
const SKIPPED: std::ops::RangeInclusive<u32> = 0x184d_2a50..=0x184d_2a5f;

/// All that the frames hold. A frame that is cut off is an error, also where the decoder takes the cut for an end.
pub(super) struct Lz4Frames<R: Read> {
    frame: Option<Frame<R>>,
    /// Where the next frame begins.
    between: Option<R>,
}

struct Frame<R: Read> {
    decoder: FrameDecoder<Packed<R>>,
    /// Of the old format, which has no mark at its end.
    is_legacy: bool,
}

/// The packed bytes from the begin of a frame on.
struct Packed<R> {
    magic: [u8; MAGIC_BYTES],
    magic_taken: usize,
    rest: R,
    end: Option<End>,
}

/// Where the input ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Where a block may begin.
    BetweenBlocks,
    Within,
}

impl<R: Read> Lz4Frames<R> {
    pub(super) fn new(packed: R) -> Self {
        Self { frame: None, between: Some(packed) }
    }

    /// The next frame that says something; none at the end.
    fn next_frame(mut rest: R) -> io::Result<Option<Frame<R>>> {
        loop {
            let mut magic = Vec::with_capacity(MAGIC_BYTES);
            (&mut rest).take(MAGIC_BYTES as u64).read_to_end(&mut magic)?;
            let Ok(magic) = <[u8; MAGIC_BYTES]>::try_from(&*magic) else {
                return if magic.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            };
            let number = u32::from_le_bytes(magic);
            if !SKIPPED.contains(&number) {
                let decoder = FrameDecoder::new(Packed { magic, magic_taken: 0, rest, end: None });
                return Ok(Some(Frame { decoder, is_legacy: number == LEGACY }));
            }
            let mut bytes = [0; MAGIC_BYTES];
            rest.read_exact(&mut bytes)?;
            let bytes = u64::from(u32::from_le_bytes(bytes));
            if io::copy(&mut (&mut rest).take(bytes), &mut io::sink())? < bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl<R: Read> Read for Packed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let magic = &self.magic[self.magic_taken..];
        if !magic.is_empty() {
            let bytes = magic.len().min(into.len());
            into[..bytes].copy_from_slice(&magic[..bytes]);
            self.magic_taken += bytes;
            return Ok(bytes);
        }
        let bytes = self.rest.read(into)?;
        if bytes == 0 && !into.is_empty() {
            // A block begins with its size, which is asked for as a whole.
            self.end = Some(if into.len() == MAGIC_BYTES { End::BetweenBlocks } else { End::Within });
        }
        Ok(bytes)
    }
}

impl<R: Read> Read for Lz4Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(rest) = self.between.take() {
                self.frame = Self::next_frame(rest)?;
            }
            let Some(frame) = &mut self.frame else { return Ok(0) };
            let bytes = frame.decoder.read(into)?;
            if bytes > 0 || into.is_empty() {
                return Ok(bytes);
            }
            match frame.decoder.get_ref().end {
                None => {}
                Some(End::BetweenBlocks) if frame.is_legacy => {}
                Some(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
            // A decoder for the next one, as blocks may be of another size there.
            self.between = self.frame.take().map(|frame| frame.decoder.into_inner().rest);
        }
    }
}
