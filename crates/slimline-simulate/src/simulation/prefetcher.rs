//! What a cache fetches unasked. Never across the border of a page of 4 KiB.

use crate::machine::{Prefetch, SMALL_PAGE_BYTES};

/// Keys whose strides are remembered; one takes the place of another with the same number modulo this.
const STREAMS: usize = 64;

/// The prefetcher of one cache.
#[derive(Debug)]
pub(super) struct Prefetcher {
    streams: Vec<Stream>,
    lines_of_page: u64,
}

/// What is known of a key's lines.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    key: u32,
    line: u64,
    stride: i64,
}

impl Prefetcher {
    /// `None` where nothing is fetched.
    pub(super) fn new(prefetch: Prefetch, line_bytes: u32) -> Option<Self> {
        let streams = match prefetch {
            Prefetch::None => return None,
            Prefetch::NextLine => Vec::new(),
            Prefetch::Stride => vec![Stream::default(); STREAMS],
        };
        Some(Self { streams, lines_of_page: SMALL_PAGE_BYTES / u64::from(line_bytes) })
    }

    /// A line has missed, or is used first that was fetched unasked: what to fetch now.
    pub(super) fn next(&mut self, line: u64, key: u32) -> Option<u64> {
        let next = if self.streams.is_empty() { line + 1 } else { self.by_stride(line, key)? };
        (next / self.lines_of_page == line / self.lines_of_page).then_some(next)
    }

    fn by_stride(&mut self, line: u64, key: u32) -> Option<u64> {
        let stream = &mut self.streams[key as usize % STREAMS];
        if stream.key != key {
            *stream = Stream { key, line, stride: 0 };
            return None;
        }
        let stride = line.wrapping_sub(stream.line) as i64;
        let is_sure = stride != 0 && stride == stream.stride;
        *stream = Stream { key, line, stride };
        is_sure.then(|| line.wrapping_add_signed(stride))
    }
}
