//! Where pages were, as columns: in the file [`HOMES_FILE`], a frame for each chunk of which a kernel told anything new.
//!
//! ```text
//!   each page: how far its number is from that of the page before, LEB128
//!   each page: its node, LEB128
//! ```
//!
//! The file has a version of its own ([`HOMES_FORMAT`], in each frame): who does not know it reads the rest of the trace.

use std::fs::File;
use std::io;

use super::columns::{number, push_number};
use super::frame::{Found, FrameKind, FrameReader};
use crate::stream::pages::ChunkHomes;

/// Version of the frames. 1: the first.
const HOMES_FORMAT: u64 = 1;
/// Name of the file.
pub(super) const HOMES_FILE: &str = "homes";

/// The numbers of a frame; `content` (cleared first) becomes its content.
pub(super) fn encode(homes: &ChunkHomes, content: &mut Vec<u8>) -> [u64; 5] {
    content.clear();
    let mut before = 0;
    for (page, _) in &homes.pages {
        push_number(content, page.wrapping_sub(before));
        before = *page;
    }
    homes.pages.iter().for_each(|(_, node)| push_number(content, u64::from(*node)));
    let stream = u64::from(homes.process) << 32 | u64::from(homes.stream);
    let node = homes.thread_node.map_or(0, |node| u64::from(node) + 1);
    [HOMES_FORMAT, stream, homes.sequence, node, homes.pages.len() as u64]
}

/// What a frame holds; none where it is of another version, or damaged.
fn decode([format, stream, sequence, node, count]: [u64; 5], mut content: &[u8]) -> Option<ChunkHomes> {
    // Each page takes two bytes or more.
    let count = usize::try_from(count).ok().filter(|count| *count <= content.len() / 2 && format == HOMES_FORMAT)?;
    let input = &mut content;
    let mut pages = Vec::with_capacity(count);
    let mut page = 0_u64;
    for _ in 0..count {
        page = page.wrapping_add(number(input)?);
        pages.push((page, 0));
    }
    for (_, node) in &mut pages {
        *node = u32::try_from(number(input)?).ok()?;
    }
    let thread_node = node.checked_sub(1).map(u32::try_from).transpose().ok()?;
    let (process, stream) = ((stream >> 32) as u32, stream as u32);
    input.is_empty().then_some(ChunkHomes { process, stream, sequence, thread_node, pages })
}

/// Reads the frames behind the head of the file up to the first one that is not whole: how many there are, and whether that is
/// the end.
pub(super) fn read(file: &mut File, homes: &mut Vec<ChunkHomes>) -> io::Result<(u64, bool)> {
    let mut frames = FrameReader::new()?;
    for count in 0.. {
        match frames.read(file)? {
            Found::Frame(FrameKind::Homes, numbers) => match decode(numbers, frames.content()) {
                Some(found) => homes.push(found),
                None => return Ok((count, false)),
            },
            Found::End => return Ok((count, true)),
            Found::Frame(..) | Found::Cut => return Ok((count, false)),
        }
    }
    Ok((0, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_as_they_were() {
        let homes = ChunkHomes {
            process: 3,
            stream: 70_000,
            sequence: 9,
            thread_node: Some(0),
            pages: vec![(5, 1), (6, 0), (1 << 36, 130)],
        };
        let mut content = vec![1];
        let numbers = encode(&homes, &mut content);
        assert_eq!(content, [5, 1, 0xfa, 0xff, 0xff, 0xff, 0xff, 1, 1, 0, 0x82, 1]);
        assert_eq!(decode(numbers, &content), Some(homes.clone()));
        for length in 0..content.len() {
            assert_eq!(decode(numbers, &content[..length]), None);
        }
        assert_eq!(decode([numbers[0], numbers[1], numbers[2], numbers[3], u64::MAX], &content), None);
        assert_eq!(decode([2, numbers[1], numbers[2], numbers[3], numbers[4]], &content), None);
        let none = ChunkHomes { thread_node: None, pages: Vec::new(), ..homes };
        assert_eq!(decode(encode(&none, &mut content), &content), Some(none));
    }
}
