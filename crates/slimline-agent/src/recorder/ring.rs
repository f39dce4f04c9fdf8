//! One thread's ring: messages go in whole or not at all.
#![allow(unsafe_code)] // shared memory

use core::cell::Cell;
use core::slice;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use slimline_trace::wire::{MessageHeader, MessageKind, RING_BYTES, SlotHeader};

/// A record that may be copied to shared memory as bytes.
///
/// # Safety
/// The type must be `repr(C)` without padding.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($record:ident),*) => { $(
        // SAFETY: `wire` lays it out `repr(C)`, and its size is the sum of its fields' sizes (asserted there).
        unsafe impl Plain for slimline_trace::wire::$record {}
    )* };
}
plain!(AllocatorEvent, MessageHeader, SampleHead, BlockRecord, AccessRecord, RangeEvent, MapsHead, ThreadEvent);
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: integers.
unsafe impl Plain for u8 {}

/// The bytes of records.
pub(crate) fn bytes_of<T: Plain>(records: &[T]) -> &[u8] {
    // SAFETY: `Plain` promises that every byte is initialized.
    unsafe { slice::from_raw_parts(records.as_ptr().cast(), size_of_val(records)) }
}

/// The writing end. One thread's alone, shared with the signal handlers that interrupt it; those must not write while
/// it does (see [`crate::thread::Thread::enter`]).
pub(crate) struct Ring {
    slot: *const SlotHeader,
    ring: *mut u8,
    /// Our own count: the shared one is only ever written, so that a target that scribbles over it can't mislead us.
    head: Cell<u64>,
}

impl Ring {
    /// Goes on in a ring where its last writer stopped.
    ///
    /// # Safety
    /// Both must point to a slot and its [`RING_BYTES`] ring, mapped as long as the value lives, with no other writer.
    pub(crate) unsafe fn new(slot: *const SlotHeader, ring: *mut u8) -> Self {
        // SAFETY: promised by the caller.
        let head = unsafe { (*slot).head.load(Relaxed) };
        Self { slot, ring, head: Cell::new(head & !7) }
    }

    /// The ring's state.
    pub(crate) fn slot(&self) -> &SlotHeader {
        // SAFETY: promised to `new`; all its fields that change are atomic.
        unsafe { &*self.slot }
    }

    /// Start of the ring's mapping.
    pub(crate) fn start(&self) -> *mut u8 {
        self.ring
    }

    /// Writes one message made of `parts`; false and counted as dropped when the reader is too far behind.
    pub(crate) fn write(&self, kind: MessageKind, parts: &[&[u8]]) -> bool {
        let written = self.try_write(kind, parts);
        if !written {
            self.count_dropped();
        }
        written
    }

    /// Counts a message that will not be written.
    pub(crate) fn count_dropped(&self) {
        self.slot().dropped.fetch_add(1, Relaxed);
    }

    /// As [`Self::write`], but counts nothing: for who comes again.
    pub(crate) fn try_write(&self, kind: MessageKind, parts: &[&[u8]]) -> bool {
        let body: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = (size_of::<MessageHeader>() + body).next_multiple_of(8);
        let head = self.head.get();
        let at = (head % RING_BYTES as u64) as usize;
        let padding = if at + bytes > RING_BYTES { RING_BYTES - at } else { 0 };
        let used = head.wrapping_sub(self.slot().tail.load(Acquire));
        // A tail beyond the head (scribbled) makes `used` huge.
        if used > RING_BYTES as u64 || bytes + padding > RING_BYTES - used as usize {
            return false;
        }
        let mut at = at;
        if padding > 0 {
            let pad = MessageHeader { kind: MessageKind::Pad as u16, reserved: 0, bytes: padding as u32 };
            self.put(at, bytes_of(&[pad]));
            at = 0;
        }
        let header = MessageHeader { kind: kind as u16, reserved: 0, bytes: bytes as u32 };
        self.put(at, bytes_of(&[header]));
        at += size_of::<MessageHeader>();
        for part in parts {
            self.put(at, part);
            at += part.len();
        }
        let filler = at.next_multiple_of(8) - at;
        self.put(at, &[0; 8][..filler]);
        let head = head + (padding + bytes) as u64;
        self.head.set(head);
        self.slot().head.store(head, Release);
        true
    }

    /// Counts a sample that [`Self::write`] refused.
    pub(crate) fn count_dropped_sample(&self, weight_ns: u64) {
        self.slot().dropped_samples.fetch_add(1, Relaxed);
        self.slot().dropped_weight_ns.fetch_add(weight_ns, Relaxed);
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= RING_BYTES);
        // SAFETY: inside the ring: `write` has checked that the message fits without wrapping. The reader looks at
        // these bytes only once `head` is past them.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.ring.add(at), bytes.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, AtomicU64};
    use std::boxed::Box;
    use std::collections::VecDeque;
    use std::vec;
    use std::vec::Vec;

    fn slot() -> Box<SlotHeader> {
        Box::new(SlotHeader {
            state: AtomicU32::new(1),
            tid: AtomicU32::new(0),
            head: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            dropped_samples: AtomicU64::new(0),
            dropped_weight_ns: AtomicU64::new(0),
            writer_padding: [0; 3],
            tail: AtomicU64::new(0),
            reader_padding: [0; 7],
        })
    }

    struct Both {
        slot: Box<SlotHeader>,
        memory: Vec<u64>,
    }

    impl Both {
        fn new() -> Self {
            Self { slot: slot(), memory: vec![0xAAAA_AAAA_AAAA_AAAA; RING_BYTES / 8] }
        }

        fn ring(&mut self) -> Ring {
            // SAFETY: both live in `self`, and each test makes one writer at a time.
            unsafe { Ring::new(&*self.slot, self.memory.as_mut_ptr().cast()) }
        }

        /// The twin: takes the oldest message, as the contract says it can be found.
        fn read(&mut self) -> Option<(u16, Vec<u8>)> {
            loop {
                let (head, tail) = (self.slot.head.load(Acquire), self.slot.tail.load(Relaxed));
                if head == tail {
                    return None;
                }
                let at = (tail % RING_BYTES as u64) as usize;
                let bytes: Vec<u8> = self.memory.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let kind = u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
                let length = u32::from_ne_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
                assert!(length >= 8 && length.is_multiple_of(8) && at + length <= RING_BYTES, "{length} at {at}");
                self.slot.tail.store(tail + length as u64, Release);
                if kind != MessageKind::Pad as u16 {
                    return Some((kind, bytes[at + 8..at + length].to_vec()));
                }
            }
        }
    }

    #[test]
    fn messages_come_out_as_they_went_in() {
        let mut both = Both::new();
        let ring = both.ring();
        assert!(ring.write(MessageKind::Range, &[&[1, 2, 3], &[4]]));
        assert!(ring.write(MessageKind::Maps, &[&[9; 8]]));
        assert_eq!(both.read(), Some((2, vec![1, 2, 3, 4, 0, 0, 0, 0])));
        assert_eq!(both.read(), Some((3, vec![9; 8])));
        assert_eq!(both.read(), None);
    }

    #[test]
    fn a_full_ring_drops_and_counts_and_goes_on_after_reading() {
        let mut both = Both::new();
        let ring = both.ring();
        let body = [7; 4096 - 8];
        for _ in 0..RING_BYTES / 4096 {
            assert!(ring.write(MessageKind::Sample, &[&body]));
        }
        assert!(!ring.write(MessageKind::Sample, &[&body]));
        ring.count_dropped_sample(5);
        assert_eq!(both.slot.dropped.load(Relaxed), 1);
        assert_eq!(both.slot.dropped_samples.load(Relaxed), 1);
        assert_eq!(both.slot.dropped_weight_ns.load(Relaxed), 5);
        assert!(both.read().is_some());
        assert!(ring.write(MessageKind::Sample, &[&body]));
        assert!(!ring.write(MessageKind::Sample, &[&[]]));
    }

    #[test]
    fn a_message_never_wraps() {
        let mut both = Both::new();
        let ring = both.ring();
        assert!(ring.write(MessageKind::Sample, &[&vec![1; RING_BYTES - 8 - 64]]));
        assert!(both.read().is_some());
        assert!(ring.write(MessageKind::Sample, &[&[2; 100]]));
        assert_eq!(both.slot.head.load(Relaxed), RING_BYTES as u64 + 112);
        let (_, body) = both.read().unwrap();
        assert_eq!(&body[..100], &[2; 100]);
        assert_eq!(both.memory[0].to_ne_bytes()[4], 112);
    }

    #[test]
    fn a_scribbled_tail_stops_writing() {
        let mut both = Both::new();
        let ring = both.ring();
        both.slot.tail.store(1 << 40, Relaxed);
        assert!(!ring.write(MessageKind::Sample, &[&[1]]));
        both.slot.tail.store(0, Relaxed);
        both.slot.head.store(u64::MAX, Relaxed);
        assert!(ring.write(MessageKind::Sample, &[&[1]]), "the writer's own count holds");
    }

    #[test]
    fn random_traffic_agrees_with_a_queue() {
        let mut both = Both::new();
        let ring = both.ring();
        let mut queue = VecDeque::new();
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        let mut dropped = 0;
        for round in 0..2000_u32 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let body = vec![round as u8; (random % 11_000) as usize];
            if ring.write(MessageKind::Sample, &[&body]) {
                queue.push_back(body);
            } else {
                dropped += 1;
            }
            if random >> 60 < 7 {
                while let Some(sent) = queue.pop_front() {
                    let (_, body) = both.read().unwrap();
                    assert_eq!(body[..sent.len()], sent[..]);
                    if random >> 40 & 7 == 0 {
                        break;
                    }
                }
            }
        }
        assert_eq!(both.slot.dropped.load(Relaxed), dropped);
    }
}
