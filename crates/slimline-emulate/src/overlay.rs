//! Stores of a burst, kept apart from memory.
//!
//! Open addressing over 8-byte cells. A cell belongs to the current burst when its stamp does, so
//! that a new burst empties the table by counting one up. A cell is filled from memory when it is
//! first stored to, which also finds out that a store would fault.

use crate::access::{End, Memory};

const CELLS: usize = 512;
/// Beyond this the probe sequences grow long; a burst of 500 instructions rarely stores to 150 cells.
const FULL: usize = CELLS * 3 / 4;

#[derive(Clone, Copy)]
struct Cell {
    address: u64,
    value: u64,
    stamp: u32,
    known: u8,
}

pub(crate) struct Overlay {
    cells: [Cell; CELLS],
    stamp: u32,
    used: u32,
}

impl Overlay {
    pub(crate) const fn new() -> Overlay {
        Overlay {
            cells: [Cell {
                address: 0,
                value: 0,
                stamp: 0,
                known: 0,
            }; CELLS],
            stamp: 0,
            used: 0,
        }
    }

    /// Forgets all stores.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.cells.iter_mut().for_each(|cell| cell.stamp = 0);
            self.stamp = 1;
        }
    }

    #[inline(always)]
    fn slot(address: u64) -> usize {
        ((address >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - CELLS.trailing_zeros()))
            as usize
    }

    /// Value and known bytes of the cell at `address` (a multiple of 8), if stored to.
    #[inline(always)]
    fn find(&self, address: u64) -> Option<(u64, u8)> {
        let mut slot = Self::slot(address);
        loop {
            let cell = &self.cells[slot % CELLS];
            if cell.stamp != self.stamp {
                return None;
            }
            if cell.address == address {
                return Some((cell.value, cell.known));
            }
            slot += 1;
        }
    }

    /// Reads 1 to 8 bytes; the second value has a bit per unknown byte.
    #[inline(always)]
    pub(crate) fn load<M: Memory>(
        &self,
        memory: &mut M,
        address: u64,
        bytes: usize,
    ) -> Result<(u64, u8), End> {
        let offset = address as usize & 7;
        if self.used != 0 {
            let first = self.find(address & !7);
            let second = if offset + bytes > 8 {
                self.find((address & !7).wrapping_add(8))
            } else {
                None
            };
            if first.is_some() || second.is_some() {
                return self.load_stored(memory, address, bytes);
            }
        }
        Ok((plain(memory, address, bytes)?, 0))
    }

    #[cold]
    fn load_stored<M: Memory>(
        &self,
        memory: &mut M,
        address: u64,
        bytes: usize,
    ) -> Result<(u64, u8), End> {
        let mut buffer = [0; 8];
        let known = self.load_bytes(memory, address, &mut buffer[..bytes])?;
        Ok((
            u64::from_le_bytes(buffer),
            !(known as u8) & (0xff >> (8 - bytes)),
        ))
    }

    /// Reads up to 64 bytes; returns a bit per known byte.
    pub(crate) fn load_bytes<M: Memory>(
        &self,
        memory: &mut M,
        address: u64,
        into: &mut [u8],
    ) -> Result<u64, End> {
        let readable = match into.len() {
            16 => memory.read(address, &mut into[..16]),
            32 => memory.read(address, &mut into[..32]),
            64 => memory.read(address, &mut into[..64]),
            _ => memory.read(address, into),
        };
        if !readable {
            return Err(End::Fault);
        }
        let mut known = crate::state::low_bits(into.len());
        if self.used == 0 {
            return Ok(known);
        }
        let last = address.wrapping_add(into.len() as u64 - 1);
        let mut cell = address & !7;
        loop {
            if let Some((value, cell_known)) = self.find(cell) {
                for (byte, part) in value.to_le_bytes().into_iter().enumerate() {
                    let at = cell.wrapping_add(byte as u64).wrapping_sub(address) as usize;
                    if at < into.len() {
                        into[at] = part;
                        known = known & !(1 << at) | u64::from(cell_known >> byte & 1) << at;
                    }
                }
            }
            if cell == last & !7 {
                return Ok(known);
            }
            cell = cell.wrapping_add(8);
        }
    }

    /// Stores 1 to 8 bytes; `unknown` has a bit per byte whose value is not known.
    #[inline(always)]
    pub(crate) fn store<M: Memory>(
        &mut self,
        memory: &mut M,
        address: u64,
        bytes: usize,
        value: u64,
        unknown: u8,
    ) -> Result<(), End> {
        let offset = address as usize & 7;
        let span = crate::flags::ones(bytes as u8);
        let known = !unknown & (0xff >> (8 - bytes));
        let cell = address & !7;
        let touched = (0xff_u8 >> (8 - bytes)) << offset;
        self.merge(
            memory,
            cell,
            value << (8 * offset),
            span << (8 * offset),
            known << offset,
            touched,
        )?;
        let beyond = (offset + bytes).saturating_sub(8);
        if beyond > 0 {
            let shift = 8 - offset;
            let touched = 0xff >> (8 - beyond);
            self.merge(
                memory,
                cell.wrapping_add(8),
                value >> (8 * shift),
                span >> (8 * shift),
                known >> shift,
                touched,
            )?;
        }
        Ok(())
    }

    #[inline(always)]
    fn merge<M: Memory>(
        &mut self,
        memory: &mut M,
        address: u64,
        value: u64,
        span: u64,
        known: u8,
        touched: u8,
    ) -> Result<(), End> {
        let mut slot = Self::slot(address);
        loop {
            let cell = &mut self.cells[slot % CELLS];
            if cell.stamp != self.stamp {
                if self.used as usize >= FULL {
                    return Err(End::OverlayFull);
                }
                *cell = Cell {
                    address,
                    value: plain(memory, address, 8)?,
                    stamp: self.stamp,
                    known: 0xff,
                };
                self.used += 1;
            } else if cell.address != address {
                slot += 1;
                continue;
            }
            cell.value = cell.value & !span | value & span;
            cell.known = cell.known & !touched | known & touched;
            return Ok(());
        }
    }

    /// Stores up to 64 bytes, `known` having a bit per byte.
    pub(crate) fn store_bytes<M: Memory>(
        &mut self,
        memory: &mut M,
        address: u64,
        from: &[u8],
        known: u64,
    ) -> Result<(), End> {
        let mut at = 0;
        while at < from.len() {
            let here = address.wrapping_add(at as u64);
            let bytes = (8 - (here as usize & 7)).min(from.len() - at);
            let mut buffer = [0; 8];
            buffer[..bytes].copy_from_slice(&from[at..at + bytes]);
            self.store(
                memory,
                here,
                bytes,
                u64::from_le_bytes(buffer),
                !(known >> at) as u8,
            )?;
            at += bytes;
        }
        Ok(())
    }
}

/// Reads 1 to 8 bytes past the overlay.
#[inline(always)]
fn plain<M: Memory>(memory: &mut M, address: u64, bytes: usize) -> Result<u64, End> {
    let mut buffer = [0; 8];
    let readable = match bytes {
        8 => memory.read(address, &mut buffer[..8]),
        4 => memory.read(address, &mut buffer[..4]),
        1 => memory.read(address, &mut buffer[..1]),
        2 => memory.read(address, &mut buffer[..2]),
        _ => memory.read(address, &mut buffer[..bytes.min(8)]),
    };
    if readable {
        Ok(u64::from_le_bytes(buffer))
    } else {
        Err(End::Fault)
    }
}
