//! Vector instructions: operands, masks, and moves. Arithmetic is in `lanes`, `float`, `convert`,
//! permutations in `shuffle`, opmasks in `opmask`.
//!
//! A binary instruction is a = b op c, a unary one a = op c; two-operand encodings have b = a. A masked
//! memory operand accesses its active elements only, one access for each run of neighbours.

use crate::access::{Access, AccessKind, End, Memory};
use crate::flags::{self, CF, ZF};
use crate::machine::Machine;
use crate::op::{Op, Operand, Work};
use crate::state::low_bits;
use crate::wide::{Wide, bytes_of_elements};

pub(crate) use crate::convert::Conversion;
pub(crate) use crate::float::{FloatFn, Fused};
pub(crate) use crate::lanes::{Lane, Logic};
pub(crate) use crate::opmask::Opmask;
pub(crate) use crate::shuffle::Shuffle;

/// What a vector instruction does. `element` of the operation is the size that masks select by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum VectorWork {
    /// a = c.
    Move,
    /// a = the low `from` bytes of c, zero-extended.
    LoadLow,
    /// a = the low `from` bytes of c; the rest of a register is kept if a vector.
    StoreLow,
    /// a = b with its first element from c.
    MoveScalar,
    /// a = b with 8 bytes at `aux` / 16 from those of c at `aux` % 16.
    MoveHalf,
    /// memory = 8 bytes of c at `aux`.
    StoreHalf,
    /// a = the first element of c, repeated.
    Broadcast,
    /// a = b with element `immediate` from c.
    Insert,
    /// a = element `immediate` of c.
    Extract,
    /// a = b with block `immediate` of `aux` bytes from c.
    InsertBlock,
    /// a = block `immediate` of `aux` bytes of c.
    ExtractBlock,
    /// General register a = the sign bits of c.
    SignMask,
    /// Elements of `aux` bytes widened; true = signed.
    Extend(bool),
    /// Elements of `aux` bytes cut to `element`.
    Truncate,
    /// Memory selected by the sign bits of b.
    MaskedLoad,
    MaskedStore,
    /// a = b op c by element.
    Lanes(Lane),
    Logic(Logic),
    /// Any function of three bits.
    Ternary,
    Shuffle(Shuffle),
    Float(FloatFn),
    Fused(Fused),
    Convert(Conversion),
    Opmask(Opmask),
    /// Flags of b and c: zero = ptest.
    Test,
    /// All vectors cut to 16 (`vzeroupper`) or 0 (`vzeroall`, true) bytes.
    ZeroUpper(bool),
    /// `vpgatherdd` and the like: index elements of `aux` bytes.
    Gather,
    /// `pcmpistri` and the like: an index in ecx, or a mask in xmm0 (true).
    StringCompare(bool),
    /// Unknown result.
    Poison,
}

impl<M: Memory, S: FnMut(Access)> Machine<'_, M, S> {
    #[inline(never)]
    pub(crate) fn vector(&mut self, op: &Op, work: VectorWork) -> Result<(), End> {
        match work {
            VectorWork::Move => self.move_vector(op),
            VectorWork::LoadLow => {
                let value = match op.c {
                    Operand::Gpr(_) => {
                        let mut out = Wide::ZERO;
                        let value = self.read_register(op, op.c, op.from as u8);
                        out.set_element(op.from as u8, 0, value);
                        out
                    }
                    _ => self.source(op, op.c)?.cut(op.from as usize),
                };
                self.write_vector(op, &value);
                Ok(())
            }
            VectorWork::StoreLow => {
                let value = self.source(op, op.c)?.low(op.from as u8);
                match op.a {
                    Operand::Memory => self.write(op, op.a, op.from as u8, value)?,
                    _ => self.write_register(op.a, op.size, value),
                }
                Ok(())
            }
            VectorWork::MoveScalar => {
                let (b, c) = (self.source(op, op.b)?, self.source(op, op.c)?);
                self.write_vector(op, &b.with(0, usize::from(op.element), &c));
                Ok(())
            }
            VectorWork::MoveHalf => {
                let (b, c) = (self.source(op, op.b)?, self.source(op, op.c)?);
                let (to, from) = (usize::from(op.aux / 16), usize::from(op.aux % 16));
                self.write_vector(op, &b.with_part(to, 8, &c.part(from, 8)));
                Ok(())
            }
            VectorWork::StoreHalf => {
                let value = self.source(op, op.c)?.element(8, usize::from(op.aux / 8));
                self.write(op, op.a, 8, value)
            }
            VectorWork::Broadcast => {
                let c = match op.c {
                    Operand::Gpr(_) => {
                        let mut out = Wide::UNKNOWN;
                        let value = self.read_register(op, op.c, op.element);
                        out.set_element(op.element, 0, value);
                        out
                    }
                    _ => self.source(op, op.c)?,
                };
                self.write_vector(op, &c.repeated(usize::from(op.aux)));
                Ok(())
            }
            VectorWork::Insert => {
                let mut b = self.source(op, op.b)?;
                let value = self.read(op, op.c, op.element)?;
                let index = op.immediate as usize & (16 / usize::from(op.element) - 1);
                b.set_element(op.element, index, value);
                self.write_vector(op, &b);
                Ok(())
            }
            VectorWork::Extract => {
                let index = op.immediate as usize & (16 / usize::from(op.element) - 1);
                let value = self.source(op, op.c)?.element(op.element, index);
                match op.a {
                    Operand::Memory => self.write(op, op.a, op.element, value)?,
                    _ => self.write_register(op.a, op.size, value),
                }
                Ok(())
            }
            VectorWork::InsertBlock => {
                let (b, c) = (self.source(op, op.b)?, self.source(op, op.c)?);
                let block = usize::from(op.aux);
                let at = op.immediate as usize % (usize::from(op.size) / block) * block;
                self.write_vector(op, &b.with_part(at, block, &c));
                Ok(())
            }
            VectorWork::ExtractBlock => {
                let c = self.source(op, op.c)?;
                let block = usize::from(op.aux);
                let at = op.immediate as usize % (usize::from(op.size) / block) * block;
                let result = c.part(at, block);
                match op.a {
                    Operand::Memory => self.store_wide(op, &result, block),
                    _ => {
                        self.write_sized(op, &result, block);
                        Ok(())
                    }
                }
            }
            VectorWork::SignMask => {
                let c = self.source(op, op.c)?;
                let element = usize::from(op.element);
                let mask = sign_bits(&c, element, usize::from(op.aux) / element);
                // Written as a whole 32-bit register, in all encodings.
                self.write_register(op.a, op.size.max(4), mask);
                Ok(())
            }
            VectorWork::Extend(signed) => {
                let c = self.source(op, op.c)?;
                let mut out = Wide::ZERO;
                for index in 0..usize::from(op.size / op.element) {
                    let value = c.element(op.aux, index);
                    let value = if signed { value.map(|value| flags::sign_extend(value, op.aux)) } else { value };
                    out.set_element(op.element, index, value);
                }
                self.write_vector(op, &out);
                Ok(())
            }
            VectorWork::Truncate => {
                let c = self.source(op, op.c)?;
                let mut out = Wide::ZERO;
                let elements = usize::from(op.size / op.aux);
                for index in 0..elements {
                    out.set_element(op.element, index, c.element(op.aux, index));
                }
                let bytes = elements * usize::from(op.element);
                match op.a {
                    Operand::Memory => self.store_wide(op, &out, bytes),
                    _ => {
                        self.write_sized(op, &out, bytes);
                        Ok(())
                    }
                }
            }
            VectorWork::MaskedLoad | VectorWork::MaskedStore => self.move_masked(op, work),
            VectorWork::Lanes(lane) => self.lanes(op, lane),
            VectorWork::Logic(logic) => self.logic(op, logic),
            VectorWork::Ternary => self.ternary(op),
            VectorWork::Shuffle(shuffle) => self.shuffle(op, shuffle),
            VectorWork::Float(function) => self.float(op, function),
            VectorWork::Fused(fused) => self.fused(op, fused),
            VectorWork::Convert(conversion) => self.convert(op, conversion),
            VectorWork::Opmask(opmask) => self.opmask(op, opmask),
            VectorWork::Test => self.test_vectors(op),
            VectorWork::ZeroUpper(all) => {
                let keep = if all { 0 } else { 16 };
                for register in 0..16 {
                    let value = self.state.wide(register).cut(keep);
                    self.state.set_wide(register, &value);
                }
                Ok(())
            }
            VectorWork::Gather => self.gather(op),
            VectorWork::StringCompare(to_mask) => self.string_compare(op, to_mask),
            VectorWork::Poison => {
                for operand in [op.a, op.b, op.c, op.d] {
                    if operand == Operand::Memory {
                        self.source(op, operand)?;
                    }
                }
                self.forget_destination(op);
                Ok(())
            }
        }
    }

    /// Reads a vector operand: a whole register, or memory of `from` bytes (one element repeated if
    /// broadcast, active elements only if masked).
    #[inline]
    pub(crate) fn source(&mut self, op: &Op, operand: Operand) -> Result<Wide, End> {
        match operand {
            Operand::Vector(register) => Ok(self.state.wide(register)),
            Operand::Memory => self.load_wide(op),
            _ => Ok(Wide::UNKNOWN),
        }
    }

    #[inline]
    fn load_wide(&mut self, op: &Op) -> Result<Wide, End> {
        let address = self.address(op)?;
        let bytes = usize::from(op.from);
        if bytes > 64 {
            return Err(End::Fault);
        }
        let mut out = Wide::ZERO;
        if op.masking.mask != 0 {
            let elements = usize::from(op.size) / usize::from(op.element.max(1));
            let mask = self.state.opmask(usize::from(op.masking.mask)).ok_or(End::UnknownCondition)?;
            let mask = mask & low_bits(elements);
            if mask == 0 {
                return Ok(out);
            }
            if !op.masking.broadcast {
                let active = bytes_of_elements(mask, usize::from(op.element), elements) & low_bits(bytes);
                self.load_runs(address, active, &mut out)?;
                return Ok(out);
            }
        }
        let known = self.overlay.load_bytes(self.memory, address, &mut out.bytes[..bytes])?;
        out.known = known | !low_bits(bytes);
        self.report(address, op.from, AccessKind::Load, false);
        Ok(if op.masking.broadcast { out.repeated(bytes) } else { out })
    }

    /// Loads the bytes of `active`, one access for each run of them.
    fn load_runs(&mut self, address: u64, mut active: u64, out: &mut Wide) -> Result<(), End> {
        while active != 0 {
            let start = active.trailing_zeros() as usize;
            let count = (active >> start).trailing_ones() as usize;
            let here = address.wrapping_add(start as u64);
            let known = self.overlay.load_bytes(self.memory, here, &mut out.bytes[start..start + count])?;
            let span = low_bits(count) << start;
            out.known = out.known & !span | known << start;
            self.report(here, count as u16, AccessKind::Load, false);
            active &= !span;
        }
        Ok(())
    }

    /// Stores the bytes of `active`, one access for each run of them.
    fn store_runs(&mut self, address: u64, mut active: u64, value: &Wide) -> Result<(), End> {
        while active != 0 {
            let start = active.trailing_zeros() as usize;
            let count = (active >> start).trailing_ones() as usize;
            let here = address.wrapping_add(start as u64);
            let bytes = &value.bytes[start..start + count];
            self.overlay.store_bytes(self.memory, here, bytes, value.known >> start)?;
            self.report(here, count as u16, AccessKind::Store, false);
            active &= !(low_bits(count) << start);
        }
        Ok(())
    }

    /// Stores the low `bytes` of a vector, under the opmask if there is one.
    pub(crate) fn store_wide(&mut self, op: &Op, value: &Wide, bytes: usize) -> Result<(), End> {
        let address = self.address(op)?;
        let mut active = low_bits(bytes);
        if op.masking.mask != 0 {
            let mask = self.state.opmask(usize::from(op.masking.mask)).ok_or(End::UnknownCondition)?;
            let element = usize::from(op.element);
            active &= bytes_of_elements(mask, element, bytes / element);
        }
        self.store_runs(address, active, value)
    }

    fn move_vector(&mut self, op: &Op) -> Result<(), End> {
        let value = self.source(op, op.c)?;
        if op.a == Operand::Memory {
            return self.store_wide(op, &value, usize::from(op.size));
        }
        self.write_vector(op, &value);
        Ok(())
    }

    /// `vmaskmovps`, `vpmaskmovd` and the like.
    fn move_masked(&mut self, op: &Op, work: VectorWork) -> Result<(), End> {
        let element = usize::from(op.element);
        let elements = usize::from(op.size) / element;
        let selector = self.source(op, op.b)?;
        let mask = sign_bits(&selector, element, elements).ok_or(End::UnknownCondition)?;
        let active = bytes_of_elements(mask, element, elements);
        let address = self.address(op)?;
        if work == VectorWork::MaskedStore {
            let value = self.source(op, op.c)?;
            return self.store_runs(address, active, &value);
        }
        let mut out = Wide::ZERO;
        self.load_runs(address, active, &mut out)?;
        self.write_vector(op, &out);
        Ok(())
    }

    /// Gathers: each active element is an access of its own, lowest first.
    fn gather(&mut self, op: &Op) -> Result<(), End> {
        let element = usize::from(op.element);
        let index_bytes = op.aux;
        let elements = usize::from(op.size) / element.max(usize::from(index_bytes));
        let Operand::Vector(destination) = op.a else { return Err(End::UnknownAddress) };
        let mask = match op.c {
            Operand::Vector(selector) => sign_bits(&self.state.wide(selector), element, elements),
            _ => self.state.opmask(usize::from(op.masking.mask)).map(|mask| mask & low_bits(elements)),
        };
        let mask = mask.ok_or(End::UnknownCondition)?;
        let base = crate::op::Place { index: crate::state::ZERO as u8, ..op.place };
        let base = base.address(&self.state.registers).ok_or(End::UnknownAddress)?;
        let indices = self.state.wide(op.place.index);
        let mut out = self.state.wide(destination);
        // All addresses first: an unknown one must not leave half of the accesses reported.
        for index in (0..elements).filter(|index| mask >> index & 1 == 1) {
            indices.element(index_bytes, index).ok_or(End::UnknownAddress)?;
        }
        for index in (0..elements).filter(|index| mask >> index & 1 == 1) {
            let offset = indices.element(index_bytes, index).ok_or(End::UnknownAddress)?;
            let offset = flags::sign_extend(offset, index_bytes) << op.place.scale_log2;
            let value = self.load(base.wrapping_add(offset), op.element)?;
            out.set_element(op.element, index, value);
        }
        let bytes = elements * element;
        self.state.set_wide(destination, &out.cut(bytes));
        match op.c {
            Operand::Vector(selector) => self.state.set_wide(selector, &Wide::ZERO),
            _ => self.state.set_opmask(usize::from(op.masking.mask), Some(0)),
        }
        Ok(())
    }

    /// Writes `size` bytes of a vector register, under the opmask if there is one; what lies above
    /// becomes zero (VEX, EVEX) or stays (SSE).
    #[inline]
    pub(crate) fn write_vector(&mut self, op: &Op, value: &Wide) {
        self.write_sized(op, value, usize::from(op.size));
    }

    pub(crate) fn write_sized(&mut self, op: &Op, value: &Wide, bytes: usize) {
        if op.masking.mask != 0 {
            return self.write_masked(op, value, bytes);
        }
        let Operand::Vector(register) = op.a else { return };
        // With constant widths the copies are single moves.
        match bytes {
            16 => self.state.put_vector::<16>(register, value, op.masking.extends),
            32 => self.state.put_vector::<32>(register, value, op.masking.extends),
            64 => self.state.put_vector::<64>(register, value, op.masking.extends),
            _ => self.write_masked(op, value, bytes),
        }
    }

    #[cold]
    fn write_masked(&mut self, op: &Op, value: &Wide, bytes: usize) {
        let Operand::Vector(register) = op.a else { return };
        let old = self.state.wide(register);
        let mut out = *value;
        if op.masking.mask != 0 {
            let element = usize::from(op.element.max(1));
            let kept = if op.masking.zeroing { &Wide::ZERO } else { &old };
            match self.state.opmask(usize::from(op.masking.mask)) {
                Some(mask) => {
                    let active = bytes_of_elements(mask, element, bytes / element);
                    for byte in 0..bytes {
                        if active >> byte & 1 == 0 {
                            out.bytes[byte] = kept.bytes[byte];
                        }
                    }
                    out.known = out.known & active | kept.known & !active;
                }
                None => out.known = 0,
            }
        }
        let out = if op.masking.extends { out.cut(bytes) } else { out.with(bytes.min(64), 64, &old) };
        self.state.set_wide(register, &out);
    }

    fn test_vectors(&mut self, op: &Op) -> Result<(), End> {
        let (b, c) = (self.source(op, op.b)?, self.source(op, op.c)?);
        let span = low_bits(usize::from(op.size));
        if b.known & c.known & span != span {
            self.state.put_flags(0, 0, flags::STATUS);
            return Ok(());
        }
        // `vtestps` and `vtestpd` look at sign bits only.
        let element = usize::from(op.element);
        let tested = |byte: usize| match element {
            1 => 0xff,
            _ if byte % element == element - 1 => 0x80,
            _ => 0,
        };
        let (mut zero, mut carry) = (true, true);
        for byte in 0..usize::from(op.size) {
            zero &= b.bytes[byte] & c.bytes[byte] & tested(byte) == 0;
            carry &= !b.bytes[byte] & c.bytes[byte] & tested(byte) == 0;
        }
        let values = if zero { ZF } else { 0 } | if carry { CF } else { 0 };
        self.state.put_flags(flags::STATUS, values, 0);
        Ok(())
    }
}

/// The sign bit of each element, if all are known.
pub(crate) fn sign_bits(value: &Wide, element: usize, elements: usize) -> Option<u64> {
    let mut mask = 0;
    for index in 0..elements {
        let top = index * element + element - 1;
        if value.known >> top & 1 == 0 {
            return None;
        }
        mask |= u64::from(value.bytes[top] >> 7) << index;
    }
    Some(mask)
}

/// Whether the instruction returns an index in `ecx`.
pub(crate) fn writes_rcx(work: Work) -> bool {
    matches!(work, Work::Vector(VectorWork::StringCompare(false)))
}

/// Whether the address has a vector as index.
pub(crate) fn gathers(work: Work) -> bool {
    matches!(work, Work::Vector(VectorWork::Gather))
}
