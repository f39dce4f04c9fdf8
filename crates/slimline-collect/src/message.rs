//! Messages out of a ring, checked. No I/O, no `unsafe`: words in, typed views out.

use std::mem::offset_of;

use crate::mapped_path::mapped_path;
use slimline_trace::access::AccessKind;
use slimline_trace::wire::{
    AccessRecord, AllocatorEvent, BlockRecord, BurstEnd, MAX_BURST_ACCESSES, MAX_FRAMES, MAX_RANGE_NAME,
    MAX_SAMPLE_BLOCKS, MapsHead, MessageHeader, MessageKind, NO_BLOCK, Quality, RangeEvent, RangeKind, SampleHead,
    ThreadEvent,
};

/// A checked message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message<'a> {
    Sample(SampleMessage<'a>),
    Range(RangeMessage<'a>),
    Maps(MapsMessage<'a>),
    Thread(ThreadEvent),
    Allocator(AllocatorEvent),
}

/// A sample whose counts, indices and enumerations are all in range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleMessage<'a> {
    pub(crate) time_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) weight_ns: u64,
    pub(crate) sampled_ip: u64,
    pub(crate) ip: u64,
    pub(crate) address: u64,
    pub(crate) stack_pointer: u64,
    pub(crate) burst_instructions: u32,
    pub(crate) access_bytes: u16,
    pub(crate) kind: AccessKind,
    pub(crate) quality: Quality,
    pub(crate) burst_end: BurstEnd,
    pub(crate) stack_cut: u8,
    pub(crate) region: u32,
    /// Row of `blocks`.
    pub(crate) block: Option<usize>,
    /// Return addresses, innermost first.
    pub(crate) frames: &'a [u64],
    blocks: &'a [u64],
    accesses: &'a [u64],
}

impl SampleMessage<'_> {
    pub(crate) fn blocks(&self) -> impl ExactSizeIterator<Item = BlockRecord> + '_ {
        const SIZE: usize = offset_of!(BlockRecord, size_and_shift);
        const STACK: usize = offset_of!(BlockRecord, stack);
        self.blocks.chunks_exact(size_of::<BlockRecord>() / 8).map(|words| BlockRecord {
            base: words[0],
            size_and_shift: u32_at(words, SIZE),
            stack: u32_at(words, STACK),
        })
    }

    pub(crate) fn accesses(&self) -> impl ExactSizeIterator<Item = AccessRecord> + '_ {
        self.accesses
            .chunks_exact(size_of::<AccessRecord>() / 8)
            .map(|words| AccessRecord { place: words[0], cause: words[1] })
    }
}

/// What happened to a range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeMessage<'a> {
    pub(crate) event: RangeEvent,
    pub(crate) kind: RangeKind,
    name: &'a [u64],
}

impl RangeMessage<'_> {
    /// Its name, as text.
    pub(crate) fn name(&self) -> Option<String> {
        let bytes = text(self.name, self.event.name_bytes as usize);
        (!bytes.is_empty()).then(|| mapped_path(&bytes, 0, None))
    }
}

fn text(words: &[u64], bytes: usize) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).take(bytes).collect()
}

/// A part of a snapshot of `/proc/self/maps`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapsMessage<'a> {
    pub(crate) time_ns: u64,
    pub(crate) part: u32,
    pub(crate) last: bool,
    text_bytes: usize,
    text: &'a [u64],
}

impl MapsMessage<'_> {
    pub(crate) fn append_text(&self, to: &mut Vec<u8>) {
        to.extend(text(self.text, self.text_bytes));
    }
}

/// A message broke the layout. Where its length could be believed, the messages after it are still read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// The messages in `words`, as [`Slot::take`](crate::ring::Slot::take) gives them.
pub(crate) fn messages(mut words: &[u64]) -> impl Iterator<Item = Result<Message<'_>, Damaged>> {
    const HEADER_WORDS: usize = size_of::<MessageHeader>() / 8;
    std::iter::from_fn(move || {
        loop {
            let first = *words.first()?;
            let header = std::slice::from_ref(&first);
            let kind = u16_at(header, offset_of!(MessageHeader, kind));
            let bytes = u32_at(header, offset_of!(MessageHeader, bytes)) as usize;
            if !bytes.is_multiple_of(8) || bytes / 8 < HEADER_WORDS || bytes / 8 > words.len() {
                words = &[];
                return Some(Err(Damaged));
            }
            let (message, rest) = words.split_at(bytes / 8);
            words = rest;
            if kind != MessageKind::Pad as u16 {
                return Some(parse(kind, &message[HEADER_WORDS..]).ok_or(Damaged));
            }
        }
    })
}

fn parse(kind: u16, body: &[u64]) -> Option<Message<'_>> {
    const SAMPLE: u16 = MessageKind::Sample as u16;
    const RANGE: u16 = MessageKind::Range as u16;
    const MAPS: u16 = MessageKind::Maps as u16;
    const THREAD: u16 = MessageKind::Thread as u16;
    const ALLOCATOR: u16 = MessageKind::Allocator as u16;
    match kind {
        SAMPLE => sample(body).map(Message::Sample),
        RANGE => range(body).map(Message::Range),
        MAPS => maps(body).map(Message::Maps),
        THREAD => thread(body).map(Message::Thread),
        ALLOCATOR => allocator(body).map(Message::Allocator),
        _ => None,
    }
}

fn sample(body: &[u64]) -> Option<SampleMessage<'_>> {
    let (head, rest) = body.split_at_checked(size_of::<SampleHead>() / 8)?;
    let frames = usize::from(u16_at(head, offset_of!(SampleHead, frames)));
    let blocks = usize::from(u16_at(head, offset_of!(SampleHead, blocks)));
    let accesses = u32_at(head, offset_of!(SampleHead, accesses)) as usize;
    if frames > MAX_FRAMES || blocks > MAX_SAMPLE_BLOCKS || accesses > MAX_BURST_ACCESSES {
        return None;
    }
    let (frame_words, rest) = rest.split_at_checked(frames)?;
    let (block_words, access_words) = rest.split_at_checked(blocks * size_of::<BlockRecord>() / 8)?;
    let block = match u16_at(head, offset_of!(SampleHead, block)) {
        NO_BLOCK => None,
        row => Some(usize::from(row)),
    };
    let kind_bits = u8_at(head, offset_of!(SampleHead, kind));
    let sample = SampleMessage {
        time_ns: u64_at(head, offset_of!(SampleHead, time_ns)),
        cpu_ns: u64_at(head, offset_of!(SampleHead, cpu_ns)),
        weight_ns: u64_at(head, offset_of!(SampleHead, weight_ns)),
        sampled_ip: u64_at(head, offset_of!(SampleHead, sampled_ip)),
        ip: u64_at(head, offset_of!(SampleHead, ip)),
        address: u64_at(head, offset_of!(SampleHead, address)),
        stack_pointer: u64_at(head, offset_of!(SampleHead, stack_pointer)),
        burst_instructions: u32_at(head, offset_of!(SampleHead, burst_instructions)),
        access_bytes: u16_at(head, offset_of!(SampleHead, access_bytes)),
        kind: AccessKind::from_bits(kind_bits),
        quality: quality(u8_at(head, offset_of!(SampleHead, quality)))?,
        burst_end: burst_end(u8_at(head, offset_of!(SampleHead, burst_end)))?,
        stack_cut: u8_at(head, offset_of!(SampleHead, stack_cut)),
        region: u32_at(head, offset_of!(SampleHead, region)),
        block,
        frames: frame_words,
        blocks: block_words,
        accesses: access_words,
    };
    let is_block = |row: u16| row == NO_BLOCK || usize::from(row) < blocks;
    let holds = access_words.len() == accesses * size_of::<AccessRecord>() / 8
        && block.is_none_or(|row| row < blocks)
        && sample.accesses().all(|access| is_block(access.block()));
    holds.then_some(sample)
}

fn range(body: &[u64]) -> Option<RangeMessage<'_>> {
    let (body, name) = body.split_at_checked(size_of::<RangeEvent>() / 8)?;
    let event = RangeEvent {
        time_ns: u64_at(body, offset_of!(RangeEvent, time_ns)),
        base: u64_at(body, offset_of!(RangeEvent, base)),
        bytes: u64_at(body, offset_of!(RangeEvent, bytes)),
        stack: u32_at(body, offset_of!(RangeEvent, stack)),
        kind: u32_at(body, offset_of!(RangeEvent, kind)),
        of: u64_at(body, offset_of!(RangeEvent, of)),
        is_shared: u32_at(body, offset_of!(RangeEvent, is_shared)),
        name_bytes: u32_at(body, offset_of!(RangeEvent, name_bytes)),
    };
    use RangeKind::*;
    let kind = [Allocated, Freed, Mapped, Unmapped, ThreadLocal, ThreadLocalGone, InnerAllocated, InnerFreed]
        .into_iter()
        .find(|kind| *kind as u32 == event.kind)?;
    event.base.checked_add(event.bytes)?;
    let name_bytes = event.name_bytes as usize;
    let is_whole = name_bytes <= MAX_RANGE_NAME && name_bytes.div_ceil(8) == name.len();
    is_whole.then_some(RangeMessage { event, kind, name })
}

fn maps(body: &[u64]) -> Option<MapsMessage<'_>> {
    let (head, text) = body.split_at_checked(size_of::<MapsHead>() / 8)?;
    let text_bytes = u32_at(head, offset_of!(MapsHead, text_bytes)) as usize;
    let message = MapsMessage {
        time_ns: u64_at(head, offset_of!(MapsHead, time_ns)),
        part: u32_at(head, offset_of!(MapsHead, part)),
        last: u32_at(head, offset_of!(MapsHead, last)) != 0,
        text_bytes,
        text,
    };
    (text_bytes.div_ceil(8) == text.len()).then_some(message)
}

fn thread(body: &[u64]) -> Option<ThreadEvent> {
    if body.len() * 8 != size_of::<ThreadEvent>() {
        return None;
    }
    let name_word = offset_of!(ThreadEvent, name) / 8;
    let mut name = [0; 16];
    name[..8].copy_from_slice(&body[name_word].to_ne_bytes());
    name[8..].copy_from_slice(&body[name_word + 1].to_ne_bytes());
    Some(ThreadEvent {
        time_ns: u64_at(body, offset_of!(ThreadEvent, time_ns)),
        cpu_ns: u64_at(body, offset_of!(ThreadEvent, cpu_ns)),
        tid: u32_at(body, offset_of!(ThreadEvent, tid)),
        ended: u32_at(body, offset_of!(ThreadEvent, ended)),
        name,
    })
}

fn allocator(body: &[u64]) -> Option<AllocatorEvent> {
    (body.len() * 8 == size_of::<AllocatorEvent>()).then(|| AllocatorEvent {
        function: u32_at(body, offset_of!(AllocatorEvent, function)),
        state: u32_at(body, offset_of!(AllocatorEvent, state)),
        address: u64_at(body, offset_of!(AllocatorEvent, address)),
    })
}

fn quality(byte: u8) -> Option<Quality> {
    use Quality::*;
    [Exact, Inverted, NextInstance, Lost, NoMemory, NoCode, Ambiguous]
        .into_iter()
        .find(|quality| *quality as u8 == byte)
}

fn burst_end(byte: u8) -> Option<BurstEnd> {
    use BurstEnd::*;
    [Limit, Unknown, Unsupported, Syscall, Fault, Full, NotStarted, Agent].into_iter().find(|end| *end as u8 == byte)
}

// Fields of a record at their byte offset. Offsets come from `offset_of!`, and lengths are checked before.

fn u64_at(words: &[u64], offset: usize) -> u64 {
    words[offset / 8]
}

fn u32_at(words: &[u64], offset: usize) -> u32 {
    (words[offset / 8] >> (offset % 8 * 8)) as u32
}

fn u16_at(words: &[u64], offset: usize) -> u16 {
    (words[offset / 8] >> (offset % 8 * 8)) as u16
}

fn u8_at(words: &[u64], offset: usize) -> u8 {
    (words[offset / 8] >> (offset % 8 * 8)) as u8
}

// The shifts above read little-endian fields, which is what "native order" means on every target slimline has.
const _: () = assert!(cfg!(target_endian = "little"));
