//! Stores of a burst, kept apart from memory.
//!
//! Open addressing over 64-byte lines: stack frames and vectors then need few of them. A line belongs to
//! the current burst when its stamp does, so that a new burst empties the table by counting one up.
//! It is filled from memory when first stored to, which also finds out that a store would fault.

use crate::access::{End, Memory};
use crate::state::low_bits;

const LINE_BYTES: usize = 64;
/// A burst of 500 instructions stores to fewer places than `FULL` even if every other one is a store
/// to a line of its own.
const LINES: usize = 512;
/// Beyond this the probe sequences grow long.
const FULL: u32 = (LINES * 3 / 4) as u32;

#[derive(Clone, Copy)]
#[repr(C)]
struct Line {
    /// A multiple of 64.
    address: u64,
    /// One bit per byte.
    known: u64,
    bytes: [u8; LINE_BYTES],
    stamp: u32,
}

pub(crate) struct Overlay {
    lines: [Line; LINES],
    stamp: u32,
    used: u32,
}

impl Overlay {
    pub(crate) const fn new() -> Overlay {
        let empty = Line { address: 0, known: 0, bytes: [0; LINE_BYTES], stamp: 0 };
        Overlay { lines: [empty; LINES], stamp: 0, used: 0 }
    }

    /// Forgets all stores.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.lines.iter_mut().for_each(|line| line.stamp = 0);
            self.stamp = 1;
        }
    }

    /// The slot of the line at `address`, or the free one where it belongs.
    #[inline(always)]
    fn slot(&self, address: u64) -> usize {
        let mut slot = ((address >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - LINES.trailing_zeros())) as usize;
        loop {
            let line = &self.lines[slot % LINES];
            if line.stamp != self.stamp || line.address == address {
                return slot % LINES;
            }
            slot += 1;
        }
    }

    /// The line of `address`, if stored to.
    #[inline(always)]
    fn find(&self, address: u64) -> Option<&Line> {
        let line = &self.lines[self.slot(address & !(LINE_BYTES as u64 - 1))];
        (line.stamp == self.stamp).then_some(line)
    }

    /// The line of `address`, filled from memory if new.
    #[inline(always)]
    fn line<M: Memory>(&mut self, memory: &mut M, address: u64) -> Result<&mut Line, End> {
        let address = address & !(LINE_BYTES as u64 - 1);
        let slot = self.slot(address);
        let line = &mut self.lines[slot];
        if line.stamp != self.stamp {
            if self.used >= FULL {
                return Err(End::OverlayFull);
            }
            if !memory.read(address, &mut line.bytes) {
                return Err(End::Fault);
            }
            line.address = address;
            line.known = if memory.knows(address, LINE_BYTES) { u64::MAX } else { 0 };
            line.stamp = self.stamp;
            self.used += 1;
        }
        Ok(line)
    }

    /// Reads 1 to 8 bytes; none if any of them is unknown.
    #[inline(always)]
    pub(crate) fn load<M: Memory>(&self, memory: &mut M, address: u64, bytes: usize) -> Result<Option<u64>, End> {
        let offset = address as usize % LINE_BYTES;
        if self.used != 0 {
            if offset + bytes > LINE_BYTES {
                return self.load_across(memory, address, bytes);
            }
            if let Some(line) = self.find(address) {
                let needs = low_bits(bytes) << offset;
                if line.known & needs != needs {
                    return Ok(None);
                }
                let mut buffer = [0; 8];
                copy_short(&mut buffer, &line.bytes[offset..offset + bytes]);
                return Ok(Some(u64::from_le_bytes(buffer)));
            }
        }
        let mut buffer = [0; 8];
        let readable = match bytes {
            8 => memory.read(address, &mut buffer[..8]),
            4 => memory.read(address, &mut buffer[..4]),
            1 => memory.read(address, &mut buffer[..1]),
            2 => memory.read(address, &mut buffer[..2]),
            _ => memory.read(address, &mut buffer[..bytes.min(8)]),
        };
        if !readable {
            return Err(End::Fault);
        }
        Ok(memory.knows(address, bytes).then(|| u64::from_le_bytes(buffer)))
    }

    #[cold]
    fn load_across<M: Memory>(&self, memory: &mut M, address: u64, bytes: usize) -> Result<Option<u64>, End> {
        let mut buffer = [0; 8];
        let known = self.load_bytes(memory, address, &mut buffer[..bytes])?;
        Ok((known == low_bits(bytes)).then(|| u64::from_le_bytes(buffer)))
    }

    /// Reads 1 to 64 bytes; returns a bit per known byte.
    pub(crate) fn load_bytes<M: Memory>(&self, memory: &mut M, address: u64, into: &mut [u8]) -> Result<u64, End> {
        let readable = match into.len() {
            16 => memory.read(address, &mut into[..16]),
            32 => memory.read(address, &mut into[..32]),
            64 => memory.read(address, &mut into[..64]),
            _ => memory.read(address, into),
        };
        if !readable {
            return Err(End::Fault);
        }
        let mut known = if memory.knows(address, into.len()) { low_bits(into.len()) } else { 0 };
        if self.used == 0 {
            return Ok(known);
        }
        let offset = address as usize % LINE_BYTES;
        let first = into.len().min(LINE_BYTES - offset);
        if let Some(line) = self.find(address) {
            into[..first].copy_from_slice(&line.bytes[offset..offset + first]);
            known = line.known >> offset & low_bits(first) | known & !low_bits(first);
        }
        if first < into.len()
            && let Some(line) = self.find(address.wrapping_add(first as u64))
        {
            let rest = into.len() - first;
            into[first..].copy_from_slice(&line.bytes[..rest]);
            known = line.known << first & low_bits(into.len()) | known & low_bits(first);
        }
        Ok(known)
    }

    /// Stores 1 to 8 bytes, known or not.
    #[inline(always)]
    pub(crate) fn store<M: Memory>(
        &mut self,
        memory: &mut M,
        address: u64,
        bytes: usize,
        value: Option<u64>,
    ) -> Result<(), End> {
        let offset = address as usize % LINE_BYTES;
        if offset + bytes > LINE_BYTES {
            let known = if value.is_some() { u64::MAX } else { 0 };
            return self.store_bytes(memory, address, &value.unwrap_or(0).to_le_bytes()[..bytes], known);
        }
        let line = self.line(memory, address)?;
        let span = low_bits(bytes) << offset;
        match value {
            Some(value) => {
                copy_short(&mut line.bytes[offset..offset + bytes], &value.to_le_bytes()[..bytes]);
                line.known |= span;
            }
            None => line.known &= !span,
        }
        Ok(())
    }

    /// Stores 1 to 64 bytes, `known` having a bit for each.
    pub(crate) fn store_bytes<M: Memory>(
        &mut self,
        memory: &mut M,
        address: u64,
        from: &[u8],
        known: u64,
    ) -> Result<(), End> {
        let offset = address as usize % LINE_BYTES;
        let first = from.len().min(LINE_BYTES - offset);
        let beyond = address.wrapping_add(first as u64);
        if first < from.len() {
            // Both lines before either is changed.
            self.line(memory, beyond)?;
        }
        let line = self.line(memory, address)?;
        line.bytes[offset..offset + first].copy_from_slice(&from[..first]);
        let span = low_bits(first) << offset;
        line.known = line.known & !span | known << offset & span;
        if first < from.len() {
            let rest = from.len() - first;
            let line = self.line(memory, beyond)?;
            line.bytes[..rest].copy_from_slice(&from[first..]);
            line.known = line.known & !low_bits(rest) | known >> first & low_bits(rest);
        }
        Ok(())
    }
}

/// Copies slices of equal length 1, 2, 4 or 8 by single moves.
#[inline(always)]
fn copy_short(to: &mut [u8], from: &[u8]) {
    match from.len() {
        8 => to[..8].copy_from_slice(&from[..8]),
        4 => to[..4].copy_from_slice(&from[..4]),
        1 => to[..1].copy_from_slice(&from[..1]),
        2 => to[..2].copy_from_slice(&from[..2]),
        bytes => to[..bytes].copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 256 bytes from address 0x1000.
    struct Block([u8; 256]);

    impl Memory for Block {
        fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
            let start = address.wrapping_sub(0x1000) as usize;
            let Some(from) = self.0.get(start..start.saturating_add(into.len())) else { return false };
            into.copy_from_slice(from);
            true
        }
    }

    proptest! {
        /// Against a plain copy of the memory with a known flag per byte.
        #[test]
        fn behaves_like_memory(
            operations in proptest::collection::vec((0_usize..192, 1_usize..=64, any::<u64>(), 0_u8..4), 1..60),
        ) {
            let mut memory = Block(core::array::from_fn(|index| index as u8));
            let (mut bytes, mut known) = (memory.0, [true; 256]);
            let mut overlay = Overlay::new();
            overlay.clear();
            for (at, length, value, operation) in operations {
                let address = 0x1000 + at as u64;
                let short = 1 << (length % 4);
                match operation {
                    0 => {
                        overlay.store(&mut memory, address, short, (value & 3 != 0).then_some(value)).unwrap();
                        for index in 0..short {
                            known[at + index] = value & 3 != 0;
                            bytes[at + index] = value.to_le_bytes()[index];
                        }
                    }
                    1 => {
                        let from = [value as u8; 64];
                        overlay.store_bytes(&mut memory, address, &from[..length], value).unwrap();
                        for index in 0..length {
                            known[at + index] = value >> index & 1 == 1;
                            bytes[at + index] = value as u8;
                        }
                    }
                    2 => {
                        let mut into = [0; 64];
                        let mask = overlay.load_bytes(&mut memory, address, &mut into[..length]).unwrap();
                        for index in 0..length {
                            prop_assert_eq!(mask >> index & 1 == 1, known[at + index]);
                            prop_assert!(!known[at + index] || into[index] == bytes[at + index]);
                        }
                    }
                    _ => {
                        let got = overlay.load(&mut memory, address, short).unwrap();
                        prop_assert_eq!(got.is_some(), known[at..at + short].iter().all(|&known| known));
                        if let Some(got) = got {
                            prop_assert_eq!(&got.to_le_bytes()[..short], &bytes[at..at + short]);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_memory_does_not_know_is_unknown_until_it_is_stored() {
        /// Readable everywhere, known nowhere.
        struct Hidden;
        impl Memory for Hidden {
            fn read(&mut self, _: u64, into: &mut [u8]) -> bool {
                into.fill(0);
                true
            }

            fn knows(&mut self, _: u64, _: usize) -> bool {
                false
            }
        }
        let mut overlay = Overlay::new();
        overlay.clear();
        assert_eq!(overlay.load(&mut Hidden, 0x1000, 8), Ok(None));
        overlay.store(&mut Hidden, 0x1038, 4, Some(7)).unwrap();
        assert_eq!(overlay.load(&mut Hidden, 0x1038, 4), Ok(Some(7)));
        assert_eq!(overlay.load(&mut Hidden, 0x1038, 8), Ok(None), "half of it");
        assert_eq!(overlay.load(&mut Hidden, 0x103a, 8), Ok(None), "across the line's end");
        let mut into = [0; 16];
        assert_eq!(overlay.load_bytes(&mut Hidden, 0x1034, &mut into), Ok(0x0f0));
        assert_eq!(overlay.load_bytes(&mut Hidden, 0x1028, &mut into), Ok(0));
    }

    #[test]
    fn stores_fault_and_fill_up() {
        struct Zero;
        impl Memory for Zero {
            fn read(&mut self, _: u64, into: &mut [u8]) -> bool {
                into.fill(0);
                true
            }
        }
        let mut overlay = Overlay::new();
        overlay.clear();
        assert_eq!(overlay.store(&mut Block([0; 256]), 0x2000, 8, Some(1)), Err(End::Fault));
        for line in 0..u64::from(FULL) {
            overlay.store(&mut Zero, line * 64, 8, Some(line)).unwrap();
        }
        assert_eq!(overlay.store(&mut Zero, 1 << 40, 8, Some(1)), Err(End::OverlayFull));
        assert_eq!(overlay.load(&mut Zero, 64 * 5, 8), Ok(Some(5)));
        overlay.clear();
        assert_eq!(overlay.load(&mut Zero, 64 * 5, 8), Ok(Some(0)));
    }
}
